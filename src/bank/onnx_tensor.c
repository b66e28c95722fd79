/* SPDX-License-Identifier: MIT */
/* Reads the numbers of a tensor: raw bytes, lists of floats, doubles or integers in the model, or bytes in a separate file.
 * The model names that file, and may come from an untrusted source. So the file must be below the model's folder, after
 * following links. */
#include "bank/onnx.h"
#include "base/memory.h"
#include "base/printable.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum {
  DIMS = 1,
  DATA_TYPE = 2,
  SEGMENT = 3,
  FLOAT_DATA = 4,
  INT32_DATA = 5,
  INT64_DATA = 7,
  NAME = 8,
  RAW_DATA = 9,
  DOUBLE_DATA = 10,
  UINT64_DATA = 11,
  EXTERNAL_DATA = 13,
  DATA_LOCATION = 14
};                           /* TensorProto */
enum { KEY = 1, VALUE = 2 }; /* StringStringEntryProto */

/* ---- Types ---- */

const char *gconv_onnx_type_name(int64_t type) {
  static const char *const names[] = {
      "",          "float32",    "uint8",      "int8",         "uint16",         "int16",      "int32",
      "int64",     "string",     "bool",       "float16",      "float64",        "uint32",     "uint64",
      "complex64", "complex128", "bfloat16",   "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
      "uint4",     "int4",       "float4e2m1", "float8e8m0",   "uint2",          "int2"};
  return type >= 0 && type < (int64_t)(sizeof names / sizeof *names) ? names[type] : "";
}

bool gconv_onnx_is_floating(int64_t type) {
  return type == GCONV_ONNX_FLOAT || type == GCONV_ONNX_FLOAT16 || type == GCONV_ONNX_DOUBLE || type == GCONV_ONNX_BFLOAT16;
}

size_t gconv_onnx_element_bytes(int64_t type) {
  static const uint8_t bytes[] = {[GCONV_ONNX_UINT8] = 1,  [GCONV_ONNX_INT8] = 1,   [GCONV_ONNX_BOOL] = 1,
                                  [GCONV_ONNX_UINT16] = 2, [GCONV_ONNX_INT16] = 2,  [GCONV_ONNX_INT32] = 4,
                                  [GCONV_ONNX_INT64] = 8,  [GCONV_ONNX_UINT32] = 4, [GCONV_ONNX_UINT64] = 8};
  if (gconv_onnx_is_floating(type))
    return sizeof(float);
  return type >= 0 && type < (int64_t)sizeof bytes ? bytes[type] : 0;
}

/* Returns whether numbers are read without a conversion: integers, and float64 if the tensor keeps it. Other floating-point
 * numbers become float32. */
static bool is_kept(const gconv_onnx_tensor *tensor) {
  return !gconv_onnx_is_floating(tensor->type) || (tensor->type == GCONV_ONNX_DOUBLE && tensor->keeps_float64);
}

/* Returns the format of numbers in raw bytes, which have the lowest byte first. */
static gconv_element raw_element(const gconv_onnx_tensor *tensor) {
  if (is_kept(tensor))
    return (gconv_element){'i', tensor->type == GCONV_ONNX_DOUBLE ? 8 : gconv_onnx_element_bytes(tensor->type), false};
  size_t bytes = tensor->type == GCONV_ONNX_DOUBLE ? 8 : tensor->type == GCONV_ONNX_FLOAT ? 4 : 2;
  return (gconv_element){tensor->type == GCONV_ONNX_BFLOAT16 ? 'B' : 'f', bytes, false};
}

/* Reads the next `count` numbers of the source: floating-point numbers as float32, integers as they are. */
static gconv_status read_elements(gconv_source *source, gconv_element element, size_t count, const char *what, void *to) {
  uint8_t *bytes = to;
  if (element.kind != 'i')
    return gconv_elements_read(source, element, count, what, to);
  GCONV_TRY(gconv_source_read_exactly(source, to, count * element.bytes, what));
  for (size_t i = 0; gconv_host_is_big_endian() && i < count; i++)
    for (size_t low = i * element.bytes, high = low + element.bytes - 1; low < high; low++, high--) {
      const uint8_t byte = bytes[low];
      bytes[low] = bytes[high];
      bytes[high] = byte;
    }
  return GCONV_OK;
}

/* ---- Finding a tensor ---- */

static gconv_status take_tensor_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  gconv_onnx_tensor *tensor = context;
  if (part->number == NAME)
    return gconv_message_name(inside, part, &tensor->name);
  if (part->number == DIMS)
    return gconv_message_integers(inside, part, GCONV_BANK_DIMENSIONS, tensor->shape, &tensor->dimensions);
  if (part->number == DATA_TYPE && part->wire == GCONV_WIRE_VARINT)
    tensor->type = (int64_t)part->value;
  else if (part->number == DATA_LOCATION && part->wire == GCONV_WIRE_VARINT)
    tensor->external = part->value == 1;
  else if (part->number == SEGMENT)
    tensor->segment = true;
  else if (part->number == FLOAT_DATA || part->number == INT32_DATA || part->number == INT64_DATA ||
           part->number == DOUBLE_DATA || part->number == UINT64_DATA || part->number == RAW_DATA)
    tensor->data_bytes += part->wire == GCONV_WIRE_BYTES ? part->value : 1;
  return GCONV_OK;
}

gconv_status gconv_onnx_tensor_find(const gconv_message_reader *message, const gconv_field_value *field,
                                    gconv_onnx_tensor *tensor) {
  gconv_message_reader inside = gconv_message_inside(message, field);
  *tensor = (gconv_onnx_tensor){.at = inside.at, .end = inside.end};
  GCONV_TRY(gconv_message_each(inside, take_tensor_field, tensor));
  if (!tensor->name)
    tensor->name = strdup("");
  return tensor->name ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its names", message->source->name);
}

static gconv_status fail_count(const gconv_bank_file *file, const gconv_onnx_tensor *tensor, const char *than,
                               uint64_t count) {
  GCONV_FREED char *name = gconv_printable_copy(tensor->name, 80);
  gconv_fail(GCONV_BAD_FILE, "%s: tensor '%s' has %s than the %" PRIu64 " numbers that its dims promise", file->path,
             name ? name : "", than, count);
  return GCONV_BAD_FILE;
}

gconv_status gconv_onnx_tensor_check(const gconv_bank_file *file, const gconv_onnx_tensor *tensor, uint64_t count) {
  if (tensor->segment)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: a tensor is in segments, which are not read", file->path);
  return tensor->external || count <= tensor->data_bytes ? GCONV_OK : fail_count(file, tensor, "fewer", count);
}

/* ---- External data ---- */

/* Where external data are. Zero-initialise; release `location` with free(). */
typedef struct external {
  const gconv_bank_file *file;
  char *location;
  uint64_t offset, length;
  bool has_length;
} external;

/* Reads a number that consists of digits alone: no sign, no space. */
static gconv_status parse_size(const gconv_bank_file *file, const char *key, const char *text, uint64_t *size) {
  *size = 0;
  for (const char *at = text; *at || at == text; at++) {
    unsigned digit = (unsigned)(*at - '0');
    if (digit > 9 || *size > (UINT64_MAX - digit) / 10)
      return gconv_fail(GCONV_BAD_FILE, "%s: the %s of external data is '%.40s', not a number of bytes", file->path, key,
                        text);
    *size = 10 * *size + digit;
  }
  return GCONV_OK;
}

static gconv_status take_entry(const gconv_bank_file *file, const char *key, const char *value, external *e) {
  if (strcmp(key, "offset") == 0)
    return parse_size(file, key, value, &e->offset);
  if (strcmp(key, "length") == 0) {
    e->has_length = true;
    return parse_size(file, key, value, &e->length);
  }
  if (strcmp(key, "location") != 0)
    return GCONV_OK;
  free(e->location);
  e->location = strdup(value);
  return e->location ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a file name", file->path);
}

static gconv_status take_text(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  char **texts = context;
  return part->number == KEY || part->number == VALUE ? gconv_message_name(inside, part, &texts[part->number - KEY])
                                                      : GCONV_OK;
}

static gconv_status take_external_field(void *context, const gconv_message_reader *inside, const gconv_field_value *part) {
  external *e = context;
  char *texts[2] = {NULL, NULL};
  if (part->number != EXTERNAL_DATA || part->wire != GCONV_WIRE_BYTES)
    return GCONV_OK;
  gconv_status status = gconv_message_each(gconv_message_inside(inside, part), take_text, texts);
  if (status == GCONV_OK && texts[0] && texts[1])
    status = take_entry(e->file, texts[0], texts[1], e);
  free(texts[0]);
  free(texts[1]);
  return status;
}

static bool goes_up(const char *path) {
  for (const char *at = path; at; at = strchr(at, '/')) {
    at += *at == '/';
    if (at[0] == '.' && at[1] == '.' && (at[2] == '/' || at[2] == '\0'))
      return true;
  }
  return false;
}

static bool lies_below(const char *path, const char *folder) {
  size_t length = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
  return strncmp(path, folder, length) == 0 && path[length] == '/';
}

/* Finds the real path of the external file, in `real`, and its `struct stat`. */
static gconv_status resolve(const gconv_bank_file *file, const char *location, char real[PATH_MAX], struct stat *status) {
  char folder[PATH_MAX];
  if (!file->folder)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: the weights are in a file beside the model: give the model by its path, not through a pipe",
                      file->path);
  if (!location || !*location || *location == '/' || goes_up(location))
    return gconv_fail(
        GCONV_BAD_FILE,
        "%s: its external data are in '%.200s', which is not below the folder of the model: such a model is not "
        "followed",
        file->path, location ? location : "");
  const char *slash = strrchr(file->folder, '/');
  char *beside = gconv_format_text("%.*s/.", slash ? (int)(slash - file->folder) : 1, slash ? file->folder : ".");
  char *path = beside ? gconv_format_text("%s/%s", beside, location) : NULL;
  bool found = path && realpath(beside, folder) && realpath(path, real);
  free(beside);
  free(path);
  if (!found)
    return gconv_fail(GCONV_IO_ERROR,
                      "%s: its external data are in '%.200s', which is missing beside it: both belong together", file->path,
                      location);
  if (stat(real, status) != 0 || !S_ISREG(status->st_mode)) /* opening a pipe would wait for its writer */
    return gconv_fail(GCONV_BAD_FILE, "%s: its external data '%.200s' are no regular file", file->path, location);
  if (lies_below(real, folder))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE,
                    "%s: its external data '%.200s' are a link out of the folder of the model: copy the file there if you "
                    "trust it",
                    file->path, location);
}

static gconv_status read_external_file(const gconv_bank_file *file, const gconv_onnx_tensor *tensor, const external *e,
                                       gconv_source *source, size_t count, void *elements) {
  gconv_element element = raw_element(tensor);
  uint64_t left = e->offset <= source->size ? source->size - e->offset : 0, length = e->has_length ? e->length : left;
  if (length > left)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: its external data are %" PRIu64 " bytes from byte %" PRIu64 " of '%s', which has %" PRIu64,
                      file->path, length, e->offset, e->location, source->size);
  if (length != count * element.bytes)
    return gconv_fail(GCONV_BAD_FILE, "%s: its external data have %" PRIu64 " bytes, but %zu elements of %s need %zu",
                      file->path, length, count, gconv_onnx_type_name(tensor->type), count * element.bytes);
  GCONV_TRY(gconv_source_rewind(source, e->offset));
  return read_elements(source, element, count, "external data", elements);
}

static gconv_status read_external(const gconv_bank_file *file, const gconv_onnx_tensor *tensor, const external *e,
                                  size_t count, void *elements) {
  char real[PATH_MAX];
  struct stat seen;
  gconv_source source;
  GCONV_TRY(resolve(file, e->location, real, &seen));
  gconv_status status = gconv_source_open(real, &source);
  GCONV_THEN(status, read_external_file(file, tensor, e, &source, count, elements));
  gconv_source_close(&source);
  return status;
}

void gconv_onnx_tensor_look(gconv_bank_file *file, gconv_onnx_tensor *tensor) {
  gconv_message_reader inside = {&file->source, tensor->at, tensor->end};
  external e = {.file = file};
  char real[PATH_MAX];
  struct stat seen;
  if (!tensor->external || tensor->looked)
    return;
  tensor->looked = true;
  if (gconv_message_each(inside, take_external_field, &e) == GCONV_OK && resolve(file, e.location, real, &seen) == GCONV_OK)
    tensor->file = (gconv_onnx_file){(uint64_t)seen.st_dev, (uint64_t)seen.st_ino, (uint64_t)seen.st_size};
  free(e.location);
}

double gconv_onnx_tensor_bytes(const gconv_onnx_tensor *tensor) {
  double bytes = (double)raw_element(tensor).bytes;
  for (size_t i = 0; i < tensor->dimensions && i < GCONV_BANK_DIMENSIONS; i++)
    bytes *= (double)tensor->shape[i];
  return (double)(tensor->end - tensor->at) + fmax(fmin(bytes, (double)tensor->file.bytes), 0);
}

/* ---- Data in the model ---- */

/* Where the numbers of a tensor are stored: `count` of `limit` so far. */
typedef struct numbers {
  const gconv_bank_file *file;
  const gconv_onnx_tensor *tensor;
  uint8_t *to;
  size_t each; /* bytes of a number in `to` */
  size_t count, limit;
} numbers;

static gconv_status take_bits(numbers *n, gconv_element element, uint64_t bits) {
  uint8_t bytes[8];
  if (n->count == n->limit)
    return fail_count(n->file, n->tensor, "more", n->limit);
  const bool reversed = element.kind == 'i' && gconv_host_is_big_endian();
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (uint8_t)(bits >> (8 * (reversed ? n->each - 1 - i : i) % 64));
  const float number = element.kind == 'i' ? 0 : gconv_element_read(element, bytes);
  memcpy(n->to + n->each * n->count++, element.kind == 'i' ? (const void *)bytes : &number, n->each);
  return GCONV_OK;
}

/* Reads elements that are adjacent in the file. */
static gconv_status take_elements(numbers *n, gconv_element element, gconv_source *source, const gconv_field_value *field) {
  uint64_t count = field->value / element.bytes;
  if (field->value % element.bytes != 0 || count > n->limit - n->count)
    return fail_count(n->file, n->tensor, "more, or parts of more,", n->limit);
  GCONV_TRY(gconv_source_rewind(source, field->at));
  GCONV_TRY(read_elements(source, element, (size_t)count, "a tensor", n->to + n->each * n->count));
  n->count += (size_t)count;
  return GCONV_OK;
}

/* Returns whether a field has numbers of this type as varints. */
static bool has_varints(uint32_t field, int64_t type, gconv_element element) {
  const bool is_integer = element.kind == 'i' && type != GCONV_ONNX_DOUBLE,
             in_uint64 = type == GCONV_ONNX_UINT32 || type == GCONV_ONNX_UINT64;
  switch (field) {
  case INT32_DATA:
    return element.bytes == 2 || (is_integer && element.bytes < 8 && !in_uint64);
  case INT64_DATA:
    return type == GCONV_ONNX_INT64;
  case UINT64_DATA:
    return in_uint64;
  default:
    return false;
  }
}

/* Reads 16-bit floats or integers, each stored in a varint. */
static gconv_status take_varints(numbers *n, const gconv_message_reader *inside, const gconv_field_value *field) {
  gconv_message_reader packed = gconv_message_inside(inside, field);
  if (field->wire == GCONV_WIRE_VARINT)
    return take_bits(n, raw_element(n->tensor), field->value);
  while (packed.at < packed.end) {
    uint64_t bits;
    GCONV_TRY(gconv_message_varint(&packed, &bits));
    GCONV_TRY(take_bits(n, raw_element(n->tensor), bits));
  }
  return GCONV_OK;
}

static gconv_status take_field(void *context, const gconv_message_reader *inside, const gconv_field_value *field) {
  numbers *n = context;
  const gconv_element element = raw_element(n->tensor);
  bool own_list = (field->number == FLOAT_DATA && n->tensor->type == GCONV_ONNX_FLOAT) ||
                  (field->number == DOUBLE_DATA && n->tensor->type == GCONV_ONNX_DOUBLE);
  const bool in_varints = has_varints(field->number, n->tensor->type, element);
  if (in_varints && (field->wire == GCONV_WIRE_VARINT || field->wire == GCONV_WIRE_BYTES))
    return take_varints(n, inside, field);
  if (field->wire == GCONV_WIRE_BYTES && (own_list || field->number == RAW_DATA))
    return take_elements(n, element, inside->source, field);
  if (own_list && field->wire == (element.bytes == 4 ? GCONV_WIRE_FIXED32 : GCONV_WIRE_FIXED64))
    return take_bits(n, element, field->value);
  return GCONV_OK;
}

gconv_status gconv_onnx_tensor_elements(gconv_bank_file *file, const gconv_onnx_tensor *tensor, size_t count, void *to) {
  gconv_message_reader inside = {&file->source, tensor->at, tensor->end};
  const size_t each = is_kept(tensor) ? raw_element(tensor).bytes : sizeof(float);
  numbers n = {file, tensor, to, each, 0, count};
  external e = {.file = file};
  if (!tensor->external) {
    GCONV_TRY(gconv_message_each(inside, take_field, &n));
    return n.count == n.limit ? GCONV_OK : fail_count(file, tensor, "fewer", n.limit);
  }
  gconv_status status = gconv_message_each(inside, take_external_field, &e);
  GCONV_THEN(status, read_external(file, tensor, &e, count, to));
  free(e.location);
  return status;
}
