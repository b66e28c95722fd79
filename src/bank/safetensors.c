/* SPDX-License-Identifier: MIT */
/* The safetensors format of Hugging Face. 8 bytes have the size N of the header, lowest byte first. N bytes of JSON follow:
 * {"name": {"dtype": "F32", "shape": [64, 3, 7, 7], "data_offsets": [begin, end]}, ..., "__metadata__": {...}}. Then come
 * the data; offsets count from their beginning. Tensors have no holes and no overlaps, and fill the file. Only the header
 * and the chosen tensors are read. */
#include "bank/safetensors.h"
#include "base/memory.h"
#include "base/printable.h"

#include <inttypes.h>
#include <string.h>

enum {
  PREFIX_BYTES = 8,
  MAX_HEADER_BYTES = 100000000, /* the limit of the reference implementation */
  SHOWN_BYTES = 80              /* bytes of a name that an error text shows */
};

/* ---- Types ---- */

static const struct type {
  const char *name;  /* in the header */
  const char *plain; /* in messages for people */
  uint32_t bits;
  char kind; /* the kind of the elements, as in gconv_element; '\0': the type is not read */
} types[] = {
    {"F32", "float32", 32, 'f'}, {"F16", "float16", 16, 'f'}, {"BF16", "bfloat16", 16, 'B'}, {"F64", "float64", 64, 'f'},
    {"BOOL", "bool", 8, 0},      {"U8", "uint8", 8, 0},       {"I8", "int8", 8, 0},          {"U16", "uint16", 16, 0},
    {"I16", "int16", 16, 0},     {"U32", "uint32", 32, 0},    {"I32", "int32", 32, 0},       {"U64", "uint64", 64, 0},
    {"I64", "int64", 64, 0},     {"F8_E4M3", "float8", 8, 0}, {"F8_E5M2", "float8", 8, 0},   {"C64", "complex64", 64, 0},
};
enum { TYPES = sizeof types / sizeof *types };

static const struct type *find_type(const char *name) {
  for (size_t i = 0; i < TYPES; i++)
    if (strcmp(types[i].name, name) == 0)
      return &types[i];
  return NULL;
}

/* ---- The header ---- */

typedef struct tensor {
  const char *name; /* owned by the JSON */
  const struct type *type;
  uint64_t begin, end; /* its bytes, counted from the beginning of the data */
  uint64_t items;
} tensor;

typedef struct header {
  json_t *json;
  uint64_t data;          /* the place in the file where the data begin */
  tensor *tensors;        /* one for each entry of the file, in the same order */
  const tensor **by_name; /* the tensors, sorted by name */
} header;

static gconv_status read_size(gconv_bank_file *file, uint64_t *size) {
  uint8_t prefix[PREFIX_BYTES];
  GCONV_TRY(gconv_source_read_exactly(&file->source, prefix, PREFIX_BYTES, "the size of its header"));
  *size = gconv_bytes_number(prefix, PREFIX_BYTES, false);
  if (*size > MAX_HEADER_BYTES)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: its first 8 bytes claim a header of %" PRIu64
                      " bytes; safetensors allow %d: the file is damaged, or "
                      "no safetensors file",
                      file->path, *size, MAX_HEADER_BYTES);
  if (*size > file->source.size - PREFIX_BYTES)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: its header claims %" PRIu64 " bytes, but the file ends after %" PRIu64
                      " of them: was it downloaded completely?",
                      file->path, *size, file->source.size - PREFIX_BYTES);
  return GCONV_OK;
}

static gconv_status parse_json(const gconv_bank_file *file, const char *text, size_t size, json_t **json) {
  json_error_t error;
  if (size == 0 || text[0] != '{')
    return gconv_fail(GCONV_BAD_FILE, "%s: its header does not begin with '{'", file->path);
  *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
  if (*json)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE, "%s: its header is not valid JSON: %s, at byte %d of it", file->path, error.text,
                    error.position);
}

static gconv_status fail_tensor(const gconv_bank_file *file, const tensor *t, const char *format, ...) GCONV_PRINTF(3, 4);
static gconv_status fail_tensor(const gconv_bank_file *file, const tensor *t, const char *format, ...) {
  char text[512];
  GCONV_FREED char *name = gconv_printable_copy(t->name, SHOWN_BYTES);
  GCONV_FORMAT(text, sizeof text, format);
  gconv_fail(GCONV_BAD_FILE, "%s: tensor '%s' %s", file->path, name ? name : "", text);
  return GCONV_BAD_FILE;
}

/* Takes a whole number that is not negative. */
static bool take_number(const json_t *json, uint64_t *number) {
  if (!json_is_integer(json) || json_integer_value(json) < 0)
    return false;
  *number = (uint64_t)json_integer_value(json);
  return true;
}

static gconv_status read_shape(const gconv_bank_file *file, const json_t *json, tensor *t, gconv_bank_entry *entry) {
  const json_t *shape = json_object_get(json, "shape");
  if (!json_is_array(shape))
    return fail_tensor(file, t, "has no 'shape', a list of whole numbers");
  entry->dimensions = (int32_t)json_array_size(shape);
  t->items = 1;
  for (size_t i = 0; i < json_array_size(shape); i++) {
    uint64_t size;
    if (!take_number(json_array_get(shape, i), &size))
      return fail_tensor(file, t, "has a 'shape' in which number %zu is no whole number from 0 on", i + 1);
    if (size > 0 && t->items > UINT64_MAX / 64 / size)
      return fail_tensor(file, t, "has a 'shape' larger than any memory");
    t->items *= size;
    if (i < GCONV_BANK_DIMENSIONS)
      entry->shape[i] = size;
  }
  return GCONV_OK;
}

static gconv_status read_offsets(const gconv_bank_file *file, const json_t *json, tensor *t) {
  const json_t *offsets = json_object_get(json, "data_offsets");
  if (json_array_size(offsets) != 2 || !take_number(json_array_get(offsets, 0), &t->begin) ||
      !take_number(json_array_get(offsets, 1), &t->end) || t->begin > t->end)
    return fail_tensor(file, t, "has no 'data_offsets': two whole numbers, the second not below the first");
  uint64_t bytes = t->end - t->begin;
  if (t->type && bytes != t->items * t->type->bits / 8)
    return fail_tensor(file, t, "has %" PRIu64 " bytes, but %" PRIu64 " elements of %s need %" PRIu64, bytes, t->items,
                       t->type->name, t->items * t->type->bits / 8);
  return GCONV_OK;
}

static const char *find_obstacle(const tensor *t, const gconv_bank_entry *entry) {
  const char *obstacle = gconv_bank_shape_obstacle(entry->dimensions, entry->shape);
  return obstacle                     ? obstacle
         : !t->type || !t->type->kind ? "is not of a floating-point type that is read: F32, F64, F16 or BF16"
                                      : NULL;
}

/* "conv1.weight" is also called "conv1". */
static gconv_status name_entry(const gconv_bank_file *file, const char *name, gconv_bank_entry *entry) {
  static const char ending[] = ".weight";
  size_t length = strlen(name), cut = sizeof ending - 1;
  entry->name = gconv_printable_copy(name, length);
  bool weight = length > cut && strcmp(name + length - cut, ending) == 0;
  if (weight)
    entry->other[0] = gconv_printable_copy(name, length - cut);
  if (!entry->name || (weight && !entry->other[0]))
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for the names of its tensors", file->path);
  return GCONV_OK;
}

static gconv_status read_tensor(gconv_bank_file *file, const char *name, const json_t *json, tensor *t) {
  gconv_bank_entry *entry;
  const char *type = json_string_value(json_object_get(json, "dtype"));
  GCONV_TRY(gconv_bank_file_add(file, &entry));
  GCONV_TRY(name_entry(file, name, entry));
  *t = (tensor){.name = name};
  if (!type)
    return fail_tensor(file, t, "has no 'dtype'");
  t->type = find_type(type);
  snprintf(entry->type, sizeof entry->type, "%s", t->type ? t->type->plain : type);
  GCONV_TRY(read_shape(file, json, t, entry));
  GCONV_TRY(read_offsets(file, json, t));
  entry->kind = "tensor";
  entry->obstacle = find_obstacle(t, entry);
  return GCONV_OK;
}

static gconv_status read_tensors(gconv_bank_file *file, header *h) {
  const char *name;
  json_t *value;
  GCONV_NEW(h->tensors, json_object_size(h->json) + 1, "%s: no memory for a list of tensors", file->path);
  json_object_foreach(h->json, name, value) {
    if (strcmp(name, "__metadata__") != 0)
      GCONV_TRY(read_tensor(file, name, value, &h->tensors[file->count]));
    else if (!json_is_object(value))
      return gconv_fail(GCONV_BAD_FILE, "%s: its __metadata__ is no object of texts", file->path);
  }
  return GCONV_OK;
}

/* ---- Names ---- */

static int compare_names(const void *a, const void *b) {
  return strcmp((*(const tensor *const *)a)->name, (*(const tensor *const *)b)->name);
}

static gconv_status sort_names(const gconv_bank_file *file, header *h) {
  GCONV_NEW(h->by_name, file->count + 1, "%s: no memory for a list of tensors", file->path);
  for (size_t i = 0; i < file->count; i++)
    h->by_name[i] = &h->tensors[i];
  qsort(h->by_name, file->count, sizeof *h->by_name, compare_names);
  return GCONV_OK;
}

/* The name of a bias: the first `stem` bytes of the name of its weights, then "bias". */
typedef struct bias_name {
  const char *weight;
  size_t stem;
} bias_name;

static int compare_bias(const void *wanted, const void *item) {
  const bias_name *key = wanted;
  const char *name = (*(const tensor *const *)item)->name;
  int order = strncmp(key->weight, name, key->stem);
  return order ? order : strcmp("bias", name + key->stem);
}

/* ---- No holes, no overlaps ---- */

static int compare_places(const void *a, const void *b) {
  const tensor *x = *(const tensor *const *)a, *y = *(const tensor *const *)b;
  if (x->begin != y->begin)
    return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

static gconv_status check_order(const gconv_bank_file *file, const tensor *const *sorted, uint64_t size) {
  uint64_t end = 0;
  for (size_t i = 0; i < file->count; i++) {
    const tensor *t = sorted[i];
    if (t->begin < end)
      return fail_tensor(file, t,
                         "overlaps another: it begins at byte %" PRIu64 " of the data, before that one ends at %" PRIu64,
                         t->begin, end);
    if (t->begin > end)
      return fail_tensor(
          file, t, "begins at byte %" PRIu64 " of the data, but the one before ends at %" PRIu64 ": there must be no holes",
          t->begin, end);
    if (t->end > size)
      return fail_tensor(
          file, t, "ends at byte %" PRIu64 " of the data, of which the file has %" PRIu64 ": was it downloaded completely?",
          t->end, size);
    end = t->end;
  }
  if (end == size)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE,
                    "%s: its tensors end at byte %" PRIu64 " of the data, but the file has %" PRIu64 " of them", file->path,
                    end, size);
}

static gconv_status check_places(const gconv_bank_file *file, const header *h) {
  GCONV_FREED const tensor **sorted = NULL;
  GCONV_NEW(sorted, file->count + 1, "%s: no memory for a list of tensors", file->path);
  for (size_t i = 0; i < file->count; i++)
    sorted[i] = &h->tensors[i];
  qsort(sorted, file->count, sizeof *sorted, compare_places);
  return check_order(file, sorted, file->source.size - h->data);
}

/* ---- The syntax ---- */

/* Returns whether the file begins with a size below 2^40 and a '{'. Text has no zero bytes, and no other known file begins
 * like that. If the size is wrong, reading says so. */
static bool recognise(const uint8_t *bytes, size_t size) {
  return size > PREFIX_BYTES && bytes[5] == 0 && bytes[6] == 0 && bytes[7] == 0 && bytes[PREFIX_BYTES] == '{';
}

static gconv_status open_safetensors(gconv_bank_file *file) {
  uint64_t size;
  void *text = NULL;
  header *h = calloc(1, sizeof *h);
  file->state = h;
  GCONV_NEED_MEMORY(h, "%s: no memory for its header", file->path);
  GCONV_TRY(read_size(file, &size));
  GCONV_TRY(gconv_allocate((size_t)size, "the header of a safetensors file", &text));
  gconv_status status = gconv_source_read_exactly(&file->source, text, (size_t)size, "its header");
  GCONV_THEN(status, parse_json(file, text, (size_t)size, &h->json));
  gconv_release(text);
  GCONV_TRY(status);
  h->data = PREFIX_BYTES + size;
  GCONV_TRY(read_tensors(file, h));
  GCONV_TRY(sort_names(file, h));
  return check_places(file, h);
}

static gconv_status read_numbers(gconv_bank_file *file, const header *h, const tensor *t, float *numbers) {
  gconv_element element = {t->type->kind, t->type->bits / 8, false};
  GCONV_TRY(gconv_source_rewind(&file->source, h->data + t->begin));
  return gconv_elements_read(&file->source, element, (size_t)t->items, "a tensor", numbers);
}

/* Returns the tensor x.bias for x.weight, or "bias" for "weight"; NULL if there is none. */
static const tensor *find_bias(const gconv_bank_file *file, const header *h, const char *weight) {
  static const char ending[] = "weight";
  size_t length = strlen(weight), stem = length - (sizeof ending - 1);
  if (length < sizeof ending - 1 || strcmp(weight + stem, ending) != 0 || (stem > 0 && weight[stem - 1] != '.'))
    return NULL;
  const bias_name key = {weight, stem};
  const tensor **found = bsearch(&key, h->by_name, file->count, sizeof *h->by_name, compare_bias);
  return found ? *found : NULL;
}

static gconv_status read_bias(gconv_bank_file *file, const header *h, const tensor *t, gconv_bank *bank) {
  const gconv_bank_entry *entry = &file->entries[t - h->tensors];
  if (entry->dimensions != 1 || t->items != (uint64_t)bank->filters || !t->type || !t->type->kind)
    return fail_tensor(file, t, "is not %d floating-point numbers, one a filter of '%s'", bank->filters, bank->name);
  GCONV_TRY(gconv_bank_add_biases(bank));
  return read_numbers(file, h, t, bank->biases);
}

static gconv_status read_safetensors(gconv_bank_file *file, size_t index, gconv_bank *bank) {
  const header *h = file->state;
  const gconv_bank_entry *entry = &file->entries[index];
  gconv_bank_shape shape = {entry->shape[0], entry->shape[1], entry->shape[2], entry->shape[3]};
  GCONV_TRY(gconv_bank_check_shape(file->path, shape));
  GCONV_TRY(gconv_bank_allocate(shape, bank));
  GCONV_TRY(gconv_bank_rename(bank, entry->name));
  GCONV_TRY(read_numbers(file, h, &h->tensors[index], bank->weights));
  const tensor *bias = find_bias(file, h, h->tensors[index].name);
  return bias ? read_bias(file, h, bias, bank) : GCONV_OK;
}

static void close_safetensors(gconv_bank_file *file) {
  header *h = file->state;
  if (!h)
    return;
  json_decref(h->json);
  free(h->tensors);
  free(h->by_name);
  free(h);
}

/* ---- Beyond banks: safetensors.h ---- */

const char *gconv_safetensors_name(const gconv_bank_file *file, size_t index) {
  const header *h = file->state;
  return h->tensors[index].name;
}

bool gconv_safetensors_find(const gconv_bank_file *file, const char *name, size_t *index) {
  const header *h = file->state;
  const tensor key = {.name = name}, *wanted = &key;
  const tensor **found = bsearch(&wanted, h->by_name, file->count, sizeof *h->by_name, compare_names);
  if (found)
    *index = (size_t)(*found - h->tensors);
  return found;
}

const char *gconv_safetensors_metadata(const gconv_bank_file *file, const char *key) {
  const header *h = file->state;
  return json_string_value(json_object_get(json_object_get(h->json, "__metadata__"), key));
}

bool gconv_safetensors_is_floating(const gconv_bank_file *file, size_t index) {
  const header *h = file->state;
  return h->tensors[index].type && h->tensors[index].type->kind;
}

gconv_status gconv_safetensors_read_floats(gconv_bank_file *file, size_t index, float *floats) {
  const header *h = file->state;
  return read_numbers(file, h, &h->tensors[index], floats);
}

/* Returns whether numbers of this type can be read bit by bit. */
static bool find_tensor_type(const struct type *type, gconv_named_array_type *found) {
  static const char *const names[] = {"F32", "F64", "U64"};
  for (int i = 0; type && i < 3; i++)
    if (strcmp(type->name, names[i]) == 0) {
      *found = (gconv_named_array_type)i;
      return true;
    }
  return false;
}

static void swap_bytes(uint8_t *numbers, size_t count, size_t bytes) {
  for (size_t i = 0; i < count; i++, numbers += bytes)
    for (size_t b = 0; b < bytes / 2; b++) {
      uint8_t low = numbers[b];
      numbers[b] = numbers[bytes - 1 - b];
      numbers[bytes - 1 - b] = low;
    }
}

static gconv_status read_bits(gconv_bank_file *file, const tensor *t, gconv_named_array *made) {
  const header *h = file->state;
  size_t bytes = gconv_named_array_item_bytes(made), all = (size_t)t->items * bytes;
  GCONV_TRY(gconv_allocate(all > 0 ? all : 1, "a tensor", &made->data));
  GCONV_TRY(gconv_source_rewind(&file->source, h->data + t->begin));
  GCONV_TRY(gconv_source_read_exactly(&file->source, made->data, all, "a tensor"));
  if (gconv_host_is_big_endian())
    swap_bytes(made->data, (size_t)t->items, bytes);
  return GCONV_OK;
}

gconv_status gconv_safetensors_read_tensor(gconv_bank_file *file, size_t index, gconv_named_array *result) {
  const header *h = file->state;
  const tensor *t = &h->tensors[index];
  const gconv_bank_entry *entry = &file->entries[index];
  gconv_named_array made = {.dimensions = entry->dimensions};
  if (!find_tensor_type(t->type, &made.type))
    return gconv_fail(GCONV_UNSUPPORTED, "%s: tensor '%.80s' has the type %s: only F32, F64 and U64 can be read", file->path,
                      entry->name, entry->type);
  if (entry->dimensions > GCONV_NAMED_DIMENSIONS)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: tensor '%.80s' has %d dimensions: at most %d can be read", file->path,
                      entry->name, entry->dimensions, GCONV_NAMED_DIMENSIONS);
  memcpy(made.shape, entry->shape, sizeof made.shape);
  made.name = strdup(t->name);
  gconv_status status = made.name ? read_bits(file, t, &made) : gconv_fail(GCONV_NO_MEMORY, "no memory for a tensor");
  if (status == GCONV_OK)
    *result = made;
  else
    gconv_named_array_free(&made);
  return status;
}

/* ---- Writing a bank ---- */

/* Returns "x.weight" for "x" and "x.weight", and "weight" for "", if `part` is "weight". If it is "bias", returns "x.bias"
 * or "bias". */
static char *make_name(const char *name, const char *part) {
  size_t length = strlen(name), cut = length >= 6 && strcmp(name + length - 6, "weight") == 0 ? length - 6 : length;
  size_t stem = cut == 0 || name[cut - 1] == '.' ? cut : length; /* no part of "lightweight" is "weight" */
  bool dot = stem > 0 && name[stem - 1] != '.';
  return gconv_format_text("%.*s%s%s", (int)stem, name, dot ? "." : "", part);
}

static gconv_status write_safetensors(gconv_sink *sink, const gconv_bank *bank) {
  const char *name = bank->name ? bank->name : "";
  gconv_named_array tensors[2] = {
      {make_name(name, "weight"),
       GCONV_NAMED_F32,
       4,
       {(uint64_t)bank->filters, (uint64_t)bank->channels, (uint64_t)bank->rows, (uint64_t)bank->columns},
       bank->weights},
      {make_name(name, "bias"), GCONV_NAMED_F32, 1, {(uint64_t)bank->filters}, bank->biases},
  };
  gconv_status status = tensors[0].name && tensors[1].name
                            ? gconv_safetensors_write(sink, tensors, bank->biases ? 2 : 1, NULL)
                            : gconv_fail(GCONV_NO_MEMORY, "no memory for the names of tensors");
  if (status == GCONV_BAD_ARGUMENT)
    gconv_fail(status, "%s: a safetensors header cannot be made: is the name of the bank UTF-8?", name);
  free(tensors[0].name);
  free(tensors[1].name);
  return status;
}

const gconv_bank_syntax gconv_bank_syntax_safetensors = {
    .name = "safetensors",
    .help = "named tensors, of PyTorch and Hugging Face",
    .extension = ".safetensors",
    .recognise = recognise,
    .open = open_safetensors,
    .read = read_safetensors,
    .close = close_safetensors,
    .write = write_safetensors,
};
