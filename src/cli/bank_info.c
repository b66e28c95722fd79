/* SPDX-License-Identifier: MIT */
/* gconv bank info: what a file of banks holds. */
#include "base/memory.h"
#include "cli/bank.h"
#include "cli/sandbox.h"
#include "cli/telling.h"
#include "cli/terminal.h"
#include "gconv_learn.h"

#include <inttypes.h>
#include <string.h>

struct info {
  const char *syntax;
  bool json;
  json_t *files; /* with --json: what each SPEC holds */
};

/* ---- Numbers of a bank ---- */

/* Sums are taken in float64. */
typedef struct range {
  double sum, least, most;
} range;

static range find_range(const float *numbers, size_t count) {
  range r = {0, (double)numbers[0], (double)numbers[0]};
  for (size_t i = 0; i < count; i++) {
    double value = (double)numbers[i];
    r.sum += value;
    r.least = value < r.least ? value : r.least;
    r.most = value > r.most ? value : r.most;
  }
  return r;
}

/* ---- As text ---- */

enum { TYPE_WIDTH = 8 };

/* Prints, for example: "64 x 3 x 7 x 7". */
static void print_shape(int32_t dimensions, const uint64_t *shape) {
  char text[8 * 24] = "one number";
  int used = 0;
  for (int32_t i = 0; i < dimensions && i < GCONV_BANK_DIMENSIONS; i++)
    used += snprintf(text + used, sizeof text - (size_t)used, "%s%" PRIu64, i == 0 ? "" : " x ", shape[i]);
  printf("  %-20s", text);
}

static void print_geometry(const gconv_bank *bank) {
  printf("      stride %d %d, ", bank->stride_y, bank->stride_x);
  if (bank->same_upper || bank->same_lower)
    printf("padding same (an odd pixel %s), ", bank->same_upper ? "below and right" : "above and left");
  else
    printf("padding %d %d %d %d (top, left, bottom, right), ", bank->pad_top, bank->pad_left, bank->pad_bottom,
           bank->pad_right);
  printf("dilation %d %d, groups %d\n", bank->dilation_y, bank->dilation_x, bank->groups);
}

static void print_bank(const gconv_bank *bank) {
  range weights = find_range(bank->weights, gconv_count_weights(bank));
  printf("  sum %.6g, min %.6g, max %.6g; ", weights.sum, weights.least, weights.most);
  if (bank->biases) {
    range biases = find_range(bank->biases, (size_t)bank->filters);
    printf("biases %.6g to %.6g\n", biases.least, biases.most);
  } else {
    puts("no biases");
  }
  if (bank->has_geometry)
    print_geometry(bank);
}

/* ---- As JSON ---- */

static json_t *describe_range(const float *numbers, size_t count) {
  range r = find_range(numbers, count);
  return json_pack("{s:f, s:f, s:f}", "sum", r.sum, "min", r.least, "max", r.most);
}

static void describe_geometry(const gconv_bank *bank, json_t *object) {
  const char *same = bank->same_upper ? "same_upper" : bank->same_lower ? "same_lower" : NULL;
  json_t *padding =
      same ? json_string(same) : json_pack("[i, i, i, i]", bank->pad_top, bank->pad_left, bank->pad_bottom, bank->pad_right);
  json_t *geometry = json_pack("{s:[i, i], s:o, s:[i, i], s:i}", "stride", bank->stride_y, bank->stride_x, "padding",
                               padding, "dilation", bank->dilation_y, bank->dilation_x, "groups", bank->groups);
  json_object_update(object, geometry);
  json_decref(geometry);
}

static void describe_bank(const gconv_bank *bank, json_t *object) {
  json_object_set_new(object, "weights", describe_range(bank->weights, gconv_count_weights(bank)));
  json_object_set_new(object, "biases", bank->biases ? describe_range(bank->biases, (size_t)bank->filters) : json_null());
  if (bank->has_geometry)
    describe_geometry(bank, object);
}

static json_t *describe_entry(const gconv_bank_entry *entry) {
  json_t *shape = json_array(), *object = json_object();
  for (int32_t i = 0; i < entry->dimensions && i < GCONV_BANK_DIMENSIONS; i++)
    json_array_append_new(shape, json_integer((json_int_t)entry->shape[i]));
  json_object_set_new(object, "name", gconv_json_text(entry->name));
  json_object_set_new(object, "kind", gconv_json_text(entry->kind));
  if (strcmp(entry->kind, "filters") != 0) /* plain filters have no type in a file */
    json_object_set_new(object, "type", gconv_json_text(entry->type));
  json_object_set_new(object, "shape", shape);
  if (entry->obstacle)
    json_object_set_new(object, "obstacle", gconv_json_text(entry->obstacle));
  return object;
}

/* ---- Files ---- */

/* Prints the error if something failed. Returns `status`. */
static gconv_status say(gconv_status status) {
  if (status != GCONV_OK)
    gconv_say("%s", gconv_last_error());
  return status;
}

/* Prints one entry with its bank, which has no weights if it cannot be read. */
static void tell(const struct info *info, const gconv_bank_entry *entry, const gconv_bank *bank, int width, json_t *list) {
  if (info->json) {
    json_t *object = describe_entry(entry);
    if (bank->weights)
      describe_bank(bank, object);
    json_array_append_new(list, object);
    return;
  }
  const char *obstacle = entry->obstacle && strcmp(entry->kind, "tensor") != 0 ? entry->obstacle : "";
  bool more = bank->weights || obstacle[0];
  gconv_print(stdout, "  %-*s", width, *entry->name ? entry->name : "(no name)");
  print_shape(entry->dimensions, entry->shape);
  gconv_print(stdout, "  %-*s", more ? TYPE_WIDTH : 0, entry->type);
  if (bank->weights)
    print_bank(bank);
  else
    printf("%s%s\n", more ? "  " : "", obstacle);
}

/* Reads the bank of an entry, and prints both. */
static gconv_status inform_entry(const struct info *info, gconv_bank_file *file, size_t index, int width, json_t *list) {
  const gconv_bank_entry *entry = gconv_bank_file_at(file, index);
  GCONV_ENDED_BY(gconv_bank_free) gconv_bank bank = {0};
  gconv_status status = entry->obstacle ? GCONV_OK : gconv_bank_file_read(file, index, &bank);
  tell(info, entry, &bank, width, list);
  return say(status);
}

static int widest_name(const gconv_bank_file *file) {
  const gconv_bank_entry *entry;
  size_t most = strlen("(no name)"), limit = 48;
  for (size_t i = 0; (entry = gconv_bank_file_at(file, i)); i++)
    most = strlen(entry->name) > most ? strlen(entry->name) : most;
  return (int)(most < limit ? most : limit);
}

/* Prints all entries, or only the one with the chosen name. */
static gconv_status inform_entries(const struct info *info, const char *spec, gconv_bank_file *file, const char *name,
                                   json_t *list) {
  size_t index = 0, count = 0;
  gconv_status worst = GCONV_OK;
  if (name && say(gconv_bank_file_find(file, name, &index)) != GCONV_OK)
    return GCONV_BAD_ARGUMENT;
  while (gconv_bank_file_at(file, count))
    count++;
  if (!info->json)
    gconv_print(stdout, "%s: %s, %zu %s%s\n", spec, gconv_bank_file_syntax(file), count,
                count > 0 ? gconv_bank_file_at(file, 0)->kind : "tensor", count == 1 ? "" : "s");
  int width = name ? 0 : widest_name(file);
  for (size_t i = name ? index : 0; i < (name ? index + 1 : count); i++) {
    gconv_status status = inform_entry(info, file, i, width, list);
    worst = status == GCONV_OK ? worst : status;
  }
  return worst;
}

/* Prints the network of a file, before its tensors; with --json, puts it into *json. */
static gconv_status inform_network(const struct info *info, const char *spec, json_t **json) {
  if (info->syntax || !gconv_network_is_one(spec))
    return GCONV_OK;
  return info->json ? gconv_network_describe(spec, json) : gconv_network_print(spec);
}

static gconv_status inform_file(const struct info *info, const char *spec) {
  gconv_bank_file *file = NULL;
  const char *name = NULL;
  json_t *list = json_array(), *network = NULL;
  gconv_status status = inform_network(info, spec, &network);
  GCONV_THEN(status, gconv_bank_file_open(spec, info->syntax, &file, &name));
  if (say(status) == GCONV_OK)
    status = inform_entries(info, spec, file, name, list);
  if (info->json && file)
    json_array_append_new(info->files, json_pack("{s:o, s:s, s:O}", "spec", gconv_json_text(spec), "syntax",
                                                 gconv_bank_file_syntax(file), "entries", list));
  if (network && file)
    json_object_set(json_array_get(info->files, json_array_size(info->files) - 1), "network", network);
  json_decref(network);
  json_decref(list);
  gconv_bank_file_close(file);
  return status;
}

bool gconv_bank_print(const char *spec) {
  struct info info = {0};
  return inform_file(&info, spec) == GCONV_OK;
}

/* Prints plain filters as the bank that they would make. */
static gconv_status inform_filters(const struct info *info, char *spec) {
  gconv_texts specs = {&spec, 1};
  GCONV_ENDED_BY(gconv_bank_free) gconv_bank bank = {0};
  GCONV_TRY(say(gconv_bank_load(&specs, info->syntax, &bank)));
  const gconv_bank_entry entry = {.name = "",
                                  .kind = "filters",
                                  .type = "float32",
                                  .dimensions = 4,
                                  .shape = {(uint64_t)bank.filters, 1, (uint64_t)bank.rows, (uint64_t)bank.columns}};
  json_t *list = json_array();
  if (!info->json)
    gconv_print(stdout, "%s: plain filters, stacked\n", spec);
  tell(info, &entry, &bank, 0, list);
  json_array_append_new(info->files,
                        json_pack("{s:o, s:s, s:o}", "spec", gconv_json_text(spec), "syntax", "filters", "entries", list));
  return GCONV_OK;
}

#define OPTION(...) GCONV_OPTION(gconv_common, __VA_ARGS__)
static const gconv_option options[] = {
    GCONV_NO_SANDBOX_ROW,
    OPTION(0, "json", NULL, flag, json, .help = "print JSON"),
    GCONV_BANK_SYNTAX_ROW,
    GCONV_OPTIONS_END,
};

static int run(void *record, const gconv_texts *specs) {
  const gconv_common *settings = record;
  struct info info = {.syntax = settings->syntax, .json = settings->json};
  gconv_tally tally = {0};
  gconv_set_log(NULL, NULL);
  gconv_sandbox_file(settings, NULL);
  if (specs->count == 0) {
    gconv_say("bank info: name a file of banks, or plain filters");
    return GCONV_EXIT_USAGE;
  }
  info.files = info.json ? json_array() : NULL;
  for (size_t i = 0; i < specs->count; i++) {
    char *spec = specs->items[i];
    bool bank = gconv_bank_is_meant(spec, info.syntax);
    gconv_tally_add(&tally, spec, bank ? inform_file(&info, spec) : inform_filters(&info, spec));
  }
  bool printed = gconv_tell_end(stdout, info.files, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  return tally.failed == 0 && !printed ? GCONV_EXIT_FAILED : gconv_tally_end(&tally);
}

const gconv_command gconv_command_bank_info = {
    .name = "bank info",
    .synopsis = "bank info SPEC... [OPTION...]",
    .help = "what a file holds: tensors or nodes, shapes, types, sums, biases, stride and padding",
    .options = options,
    .words = GCONV_WORDS_FILES,
    .run = run,
};
