/* SPDX-License-Identifier: MIT */
/* The tensors of a PyTorch nn.Sequential, by the modules that have them. */
#include "bank/network_state.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { SHOWN_BYTES = 60, MOST_DIGITS = 9, LISTED = 8 };

/* ---- The tensors of modules ---- */

static const struct ending {
  const char *name;
  gconv_state_part part;
} endings[] = {{"weight", GCONV_STATE_WEIGHT},
               {"bias", GCONV_STATE_BIAS},
               {"running_mean", GCONV_STATE_MEAN},
               {"running_var", GCONV_STATE_VARIANCE},
               {"num_batches_tracked", GCONV_STATE_COUNTED}, /* counts steps of training; it changes nothing in inference */
               {"weight_g", GCONV_STATE_LENGTH},             /* weight normalisation: weight = g * v / |v| */
               {"weight_v", GCONV_STATE_DIRECTION},
               {"parametrizations.weight.original0", GCONV_STATE_LENGTH},
               {"parametrizations.weight.original1", GCONV_STATE_DIRECTION}};
enum { ENDINGS = sizeof endings / sizeof *endings };

/* A tensor of a module, found by the ending of its name. */
typedef struct found {
  uint64_t number; /* number of the module */
  gconv_state_part part;
  size_t index;  /* index of its entry */
  size_t prefix; /* bytes of the name before the number */
} found;

/* Parses "<prefix><number>.<ending>". */
static bool parse_name(const char *name, found *f) {
  const size_t length = strlen(name);
  for (size_t i = 0; i < ENDINGS; i++) {
    size_t cut = strlen(endings[i].name) + 1, end = length > cut ? length - cut : 0, begin = end;
    if (end == 0 || name[end] != '.' || strcmp(name + end + 1, endings[i].name) != 0)
      continue;
    while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9')
      begin--;
    if (begin == end || end - begin > MOST_DIGITS)
      continue;
    f->number = strtoull(name + begin, NULL, 10);
    f->part = endings[i].part;
    f->prefix = begin;
    return true;
  }
  return false;
}

static int compare_found(const void *a, const void *b) {
  const found *x = a, *y = b;
  return x->number != y->number ? (x->number > y->number) - (x->number < y->number) : (int)x->part - (int)y->part;
}

static const char *entry_name(const gconv_bank_file *file, size_t index) {
  return file->entries[index].name;
}

/* Fails with the names of tensors that are not understood, LISTED of them at most. */
static gconv_status fail_unknown(const gconv_bank_file *file, const size_t *unknown, size_t count) {
  char list[LISTED * (SHOWN_BYTES + 4) + 1] = "", more[40] = "";
  for (size_t i = 0, used = 0; i < count && i < LISTED; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s'%.*s'", i == 0 ? "" : ", ", SHOWN_BYTES,
                             entry_name(file, unknown[i]));
  if (count > LISTED)
    snprintf(more, sizeof more, " and %zu more", count - LISTED);
  return gconv_fail(
      GCONV_UNSUPPORTED,
      "%s: has tensors that no layer here has: %s%s; layers of one nn.Sequential have 'N.weight' and 'N.bias', "
      "BatchNorm2d has 'N.running_mean' and 'N.running_var', too; spectral norms and masks are to be folded "
      "into the weights before they are saved",
      file->path, list, more);
}

/* Lists the tensors of modules. The caller frees *list, also after a failure. */
static gconv_status find_tensors(const gconv_bank_file *file, found **list, size_t *count) {
  const size_t all = file->count;
  GCONV_FREED size_t *unknown = calloc(all + 1, sizeof *unknown);
  size_t unknowns = 0;
  *list = calloc(all + 1, sizeof **list);
  GCONV_NEED_MEMORY(unknown && *list, "%s: no memory for a network", file->path);
  for (size_t i = 0; i < all; i++) {
    found f = {.index = i};
    const char *name = gconv_safetensors_name(file, i), *first = gconv_safetensors_name(file, (*list)[0].index);
    if (!parse_name(name, &f)) {
      unknown[unknowns++] = i;
      continue;
    }
    if (*count > 0 && (f.prefix != (*list)[0].prefix || strncmp(first, name, f.prefix) != 0))
      return gconv_fail(
          GCONV_UNSUPPORTED,
          "%s: the names of its tensors tell no order of layers: '%.*s' and '%.*s' have different prefixes; tensors of one "
          "nn.Sequential differ only in number and ending",
          file->path, SHOWN_BYTES, entry_name(file, (*list)[0].index), SHOWN_BYTES, entry_name(file, i));
    (*list)[(*count)++] = f;
  }
  if (*count == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: has no tensors '0.weight', '2.weight' ... of an nn.Sequential", file->path);
  return unknowns > 0 ? fail_unknown(file, unknown, unknowns) : GCONV_OK;
}

/* Puts tensors of one number together. */
static gconv_status make_modules(const found *list, size_t count, gconv_state_modules *modules) {
  const gconv_bank_file *file = modules->file;
  GCONV_NEW(modules->items, count + 1, "%s: no memory for a network", file->path);
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || list[i].number != list[i - 1].number)
      modules->items[modules->count++].number = list[i].number;
    size_t *entry = &modules->items[modules->count - 1].entries[list[i].part];
    if (*entry)
      return gconv_fail(GCONV_UNSUPPORTED, "%s: '%.*s' and '%.*s' are the same part of one module", file->path, SHOWN_BYTES,
                        entry_name(file, *entry - 1), SHOWN_BYTES, entry_name(file, list[i].index));
    *entry = list[i].index + 1;
  }
  const char *name = gconv_safetensors_name(file, list[0].index);
  const bool sequential = list[0].prefix == 0 || name[list[0].prefix - 1] == '.';
  modules->counts = sequential && modules->items[modules->count - 1].number + 1 > modules->count;
  modules->first = sequential ? 0 : modules->items[0].number;
  modules->own = list[0].prefix == 1 && name[0] == 'l';
  return GCONV_OK;
}

/* ---- Modules ---- */

/* Returns the name of the weights or, if the module has none, of another of its tensors. */
const char *gconv_state_name(const gconv_bank_file *file, const gconv_state_module *m) {
  size_t i = 0;
  while (i < GCONV_STATE_PARTS - 1 && !m->entries[i])
    i++;
  return entry_name(file, m->entries[i] - 1);
}

gconv_status gconv_state_fail(const gconv_bank_file *file, const gconv_state_module *m, const char *format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return gconv_fail(GCONV_UNSUPPORTED, "%s: tensor '%.*s' %s", file->path, SHOWN_BYTES, gconv_state_name(file, m), text);
}

bool gconv_state_is_normalization(const gconv_state_module *m) {
  return m->entries[GCONV_STATE_MEAN] || m->entries[GCONV_STATE_VARIANCE];
}

const gconv_bank_entry *gconv_state_entry(const gconv_bank_file *file, const gconv_state_module *m, gconv_state_part p) {
  return &file->entries[m->entries[p] - 1];
}

gconv_state_part gconv_state_source(const gconv_state_module *m) {
  return m->entries[GCONV_STATE_DIRECTION] ? GCONV_STATE_DIRECTION : GCONV_STATE_WEIGHT;
}

bool gconv_state_is_dense(const gconv_bank_file *file, const gconv_state_module *m) {
  return gconv_state_entry(file, m, gconv_state_source(m))->dimensions == 2;
}

/* All tensors of a module must be of one kind of layer, or of a BatchNorm2d. */
static gconv_status check_module(const gconv_bank_file *file, const gconv_state_module *m) {
  const bool weights = m->entries[GCONV_STATE_WEIGHT], length = m->entries[GCONV_STATE_LENGTH],
             direction = m->entries[GCONV_STATE_DIRECTION];
  if (gconv_state_is_normalization(m))
    return m->entries[GCONV_STATE_MEAN] && m->entries[GCONV_STATE_VARIANCE] && !length && !direction
               ? GCONV_OK
               : gconv_state_fail(file, m, "is not of a BatchNorm2d, which has 'running_mean' and 'running_var'");
  if (weights == direction || length != direction || m->entries[GCONV_STATE_COUNTED])
    return gconv_state_fail(file, m, "stands without 'weight', or beside tensors that belong to another kind of layer");
  const gconv_bank_entry *entry = gconv_state_entry(file, m, gconv_state_source(m));
  if (entry->dimensions == 1)
    return gconv_state_fail(file, m,
                            "has 1 dimension, but no 'running_mean' of a BatchNorm2d beside it: LayerNorm, GroupNorm, "
                            "InstanceNorm and PReLU are not read");
  if (!gconv_safetensors_is_floating(file, m->entries[gconv_state_source(m)] - 1) ||
      (entry->dimensions != 2 && entry->dimensions != 4))
    return gconv_state_fail(
        file, m, "has %d dimensions of %s: layers of gconv have 4, or 2 if they are dense, of floating-point numbers",
        entry->dimensions, entry->type);
  return GCONV_OK;
}

gconv_status gconv_state_find(gconv_bank_file *file, gconv_state_modules *modules) {
  GCONV_FREED found *list = NULL;
  size_t count = 0;
  *modules = (gconv_state_modules){.file = file};
  GCONV_TRY(find_tensors(file, &list, &count));
  qsort(list, count, sizeof *list, compare_found);
  GCONV_TRY(make_modules(list, count, modules));
  for (size_t i = 0; i < modules->count; i++)
    GCONV_TRY(check_module(file, &modules->items[i]));
  return GCONV_OK;
}

gconv_status gconv_state_read(gconv_bank_file *file, const gconv_state_module *m, gconv_state_part p, int64_t count,
                              float otherwise, float **numbers) {
  void *memory = NULL;
  GCONV_TRY(gconv_allocate((size_t)count * sizeof(float), "the numbers of a layer", &memory));
  *numbers = memory;
  for (int64_t i = 0; i < count; i++)
    (*numbers)[i] = otherwise;
  if (!m->entries[p])
    return GCONV_OK;
  uint64_t all = 1;
  const gconv_bank_entry *entry = gconv_state_entry(file, m, p);
  const int32_t most = p == GCONV_STATE_LENGTH ? 4 : 1; /* lengths may have 4 axes: axes after the first have size 1 */
  for (int32_t d = 0; d < entry->dimensions && d < most; d++)
    all *= entry->shape[d];
  if (!gconv_safetensors_is_floating(file, m->entries[p] - 1) || entry->dimensions < 1 || entry->dimensions > most ||
      entry->shape[0] != (uint64_t)count || all != (uint64_t)count)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: tensor '%.*s' is not %" PRId64 " floating-point numbers, one a filter",
                      file->path, SHOWN_BYTES, entry->name, count);
  return gconv_safetensors_read_floats(file, m->entries[p] - 1, *numbers);
}
