/* SPDX-License-Identifier: MIT */
#include "base/npy_header.h"
#include "base/element.h"
#include "base/memory.h"

#include <string.h>

enum {
  MAGIC_BYTES = 6,
  PREFIX_BYTES = 10,   /* magic, version, and the length in 2 bytes (version 1); 2 more in versions 2 and 3 */
  DICT_BYTES = 65536,  /* NumPy itself refuses more than 10,000 */
  DESCR_BYTES = 32,    /* longest descr of a known element type */
  WRITTEN_BYTES = 256, /* room for a dict with 8 dimensions of 20 digits, and for padding */
};

static const uint8_t magic[MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

bool gconv_npy_sniff(const uint8_t *bytes, size_t size) {
  return size >= MAGIC_BYTES && memcmp(bytes, magic, MAGIC_BYTES) == 0;
}

/* ---- The dict: {'descr': '<f4', 'fortran_order': False, 'shape': (480, 640, 3), } in any order of keys ---- */

typedef struct parser {
  const char *name; /* the name of the file */
  const char *text, *at, *end;
  bool texts; /* arrays of texts are accepted */
} parser;

static gconv_status fail_expected(const parser *p, const char *expected) {
  return gconv_fail(GCONV_BAD_FILE, "%s: not a valid .npy header: expected %s at character %td of its dict", p->name,
                    expected, p->at - p->text + 1);
}

static void skip_space(parser *p) {
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r'))
    p->at++;
}

/* Skips white space, and takes the character `wanted` if it is next. */
static bool accept(parser *p, char wanted) {
  skip_space(p);
  if (p->at == p->end || *p->at != wanted)
    return false;
  p->at++;
  return true;
}

/* Reads a quoted string without escapes. If it is too long for `value`, it is cut. */
static gconv_status parse_string(parser *p, char value[DESCR_BYTES]) {
  char quote = accept(p, '\'') ? '\'' : accept(p, '"') ? '"' : '\0';
  if (!quote)
    return fail_expected(p, "a quoted name");
  const char *close = memchr(p->at, quote, (size_t)(p->end - p->at));
  if (!close)
    return fail_expected(p, "a closing quote");
  snprintf(value, DESCR_BYTES, "%.*s", (int)(close - p->at), p->at);
  p->at = close + 1;
  return GCONV_OK;
}

static gconv_status parse_bool(parser *p, bool *value) {
  skip_space(p);
  size_t left = (size_t)(p->end - p->at);
  if (left >= 4 && memcmp(p->at, "True", 4) == 0) {
    *value = true;
    p->at += 4;
  } else if (left >= 5 && memcmp(p->at, "False", 5) == 0) {
    *value = false;
    p->at += 5;
  } else {
    return fail_expected(p, "True or False");
  }
  return GCONV_OK;
}

static gconv_status parse_size(parser *p, size_t *value) {
  skip_space(p);
  if (p->at == p->end || *p->at < '0' || *p->at > '9')
    return fail_expected(p, "a whole number");
  *value = 0;
  for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
    size_t digit = (size_t)(*p->at - '0');
    if (*value > (SIZE_MAX - digit) / 10)
      return fail_expected(p, "a smaller number");
    *value = *value * 10 + digit;
  }
  if (p->at < p->end && *p->at == 'L') /* a long integer of Python 2 */
    p->at++;
  return GCONV_OK;
}

static gconv_status parse_shape(parser *p, gconv_npy_header *header) {
  if (!accept(p, '('))
    return fail_expected(p, "a shape in parentheses");
  header->dimensions = 0;
  while (!accept(p, ')')) {
    if (header->dimensions > 0 && !accept(p, ','))
      return fail_expected(p, "',' or ')'");
    if (header->dimensions > 0 && accept(p, ')'))
      break;
    if (header->dimensions == GCONV_NPY_DIMENSIONS)
      return gconv_fail(GCONV_UNSUPPORTED, "%s: the array has more than %d dimensions", p->name, GCONV_NPY_DIMENSIONS);
    GCONV_TRY(parse_size(p, &header->shape[header->dimensions++]));
  }
  return GCONV_OK;
}

/* Reads a type of texts: "<U12" or "|S5", where the number counts characters. */
static bool parse_text_type(const char *descr, gconv_npy_header *header) {
  enum { MOST_DIGITS = 6 };
  const size_t digits = descr[0] && descr[1] ? strspn(descr + 2, "0123456789") : 0;
  if (!descr[0] || !strchr("<>|=", descr[0]) || !descr[1] || !strchr("US", descr[1]) || digits == 0 ||
      digits > MOST_DIGITS || descr[2 + digits])
    return false;
  size_t count = 0;
  for (size_t i = 0; i < digits; i++)
    count = 10 * count + (size_t)(descr[2 + i] - '0');
  header->kind = descr[1];
  header->item_bytes = descr[1] == 'U' ? 4 * count : count;
  header->big_endian = descr[0] == '>' || (descr[0] == '=' && gconv_host_is_big_endian());
  return true;
}

/* Reads a type, such as "<f4": byte order, kind, bytes. */
static gconv_status parse_type(parser *p, gconv_npy_header *header) {
  skip_space(p);
  if (p->at < p->end && *p->at == '[')
    return gconv_fail(GCONV_UNSUPPORTED, "%s: holds records, not numbers: save one field of them", p->name);
  char descr[DESCR_BYTES];
  GCONV_TRY(parse_string(p, descr));
  if (p->texts && parse_text_type(descr, header))
    return GCONV_OK;
  if (descr[0] && strchr("<>|=", descr[0]) && descr[1] == 'O')
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: holds objects of Python ('%s'), which have to be run to be read: save numbers or texts, by "
                      "array.astype(float) or astype(str)",
                      p->name, descr);
  bool known = strlen(descr) == 3 && strchr("<>|=", descr[0]) && strchr("fuib", descr[1]) && strchr("1248", descr[2]);
  header->kind = known ? descr[1] : '\0';
  header->item_bytes = known ? (size_t)(descr[2] - '0') : 0;
  if (!known || (header->kind == 'f' && header->item_bytes == 1) || (header->kind == 'b' && header->item_bytes != 1))
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: holds elements of type '%s'; known are f2 f4 f8, u1 u2 u4 u8, i1 i2 i4 i8 and b1", p->name,
                      descr);
  header->big_endian = header->item_bytes > 1 && (descr[0] == '>' || (descr[0] != '<' && gconv_host_is_big_endian()));
  return GCONV_OK;
}

static gconv_status parse_dict(parser *p, gconv_npy_header *header) {
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  bool seen[3] = {false, false, false};
  if (!accept(p, '{'))
    return fail_expected(p, "'{'");
  for (bool first = true; !accept(p, '}'); first = false) {
    if (!first && !accept(p, ','))
      return fail_expected(p, "',' or '}'");
    if (!first && accept(p, '}'))
      break;
    char key[DESCR_BYTES];
    GCONV_TRY(parse_string(p, key));
    int which = 0;
    while (which < 3 && strcmp(key, keys[which]) != 0)
      which++;
    if (which == 3 || seen[which])
      return gconv_fail(GCONV_BAD_FILE, "%s: not a valid .npy header: the key '%s' is %s", p->name, key,
                        which == 3 ? "not known" : "there twice");
    seen[which] = true;
    if (!accept(p, ':'))
      return fail_expected(p, "':'");
    GCONV_TRY(which == 0   ? parse_type(p, header)
              : which == 1 ? parse_bool(p, &header->fortran_order)
                           : parse_shape(p, header));
  }
  for (int i = 0; i < 3; i++)
    if (!seen[i])
      return gconv_fail(GCONV_BAD_FILE, "%s: not a valid .npy header: the key '%s' is missing", p->name, keys[i]);
  return GCONV_OK;
}

static gconv_status check_size(const char *name, gconv_npy_header *header) {
  size_t bytes;
  header->items = gconv_checked_product((size_t)header->dimensions, header->shape);
  if (!gconv_multiply(header->items, header->item_bytes, &bytes) || bytes > PTRDIFF_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "%s: the shape in its header is larger than any memory", name);
  return GCONV_OK;
}

static gconv_status read_header(gconv_source *source, bool texts, gconv_npy_header *header) {
  uint8_t prefix[PREFIX_BYTES + 2];
  GCONV_TRY(gconv_source_read_exactly(source, prefix, PREFIX_BYTES, "its header"));
  if (!gconv_npy_sniff(prefix, MAGIC_BYTES))
    return gconv_fail(GCONV_BAD_FILE, "%s: not a .npy file", source->name);
  int version = prefix[6];
  if (version < 1 || version > 3)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: .npy version %d; known are 1, 2 and 3", source->name, version);
  size_t size = prefix[8] | (size_t)prefix[9] << 8;
  if (version > 1) {
    GCONV_TRY(gconv_source_read_exactly(source, prefix + PREFIX_BYTES, 2, "its header"));
    size |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
  }
  if (size > DICT_BYTES)
    return gconv_fail(GCONV_TOO_LARGE, "%s: its .npy header claims %zu bytes; the limit is %d", source->name, size,
                      DICT_BYTES);
  GCONV_FREED char *text = NULL;
  GCONV_ALLOCATE(text, size, "a .npy header");
  *header = (gconv_npy_header){0};
  GCONV_TRY(gconv_source_read_exactly(source, text, size, "its header"));
  parser p = {source->name, text, text, text + size, texts};
  GCONV_TRY(parse_dict(&p, header));
  return check_size(source->name, header);
}

gconv_status gconv_npy_header_read(gconv_source *source, gconv_npy_header *header) {
  return read_header(source, false, header);
}

gconv_status gconv_npy_header_read_texts(gconv_source *source, gconv_npy_header *header) {
  return read_header(source, true, header);
}

size_t gconv_npy_header_format(const gconv_npy_header *header, uint8_t bytes[GCONV_NPY_HEADER_BYTES]) {
  char *text = (char *)bytes + PREFIX_BYTES;
  char order = header->item_bytes == 1 ? '|' : header->big_endian ? '>' : '<';
  int used = snprintf(text, WRITTEN_BYTES, "{'descr': '%c%c%zu', 'fortran_order': %s, 'shape': (", order, header->kind,
                      header->item_bytes, header->fortran_order ? "True" : "False");
  for (int i = 0; i < header->dimensions; i++)
    used += snprintf(text + used, WRITTEN_BYTES - (size_t)used, i == 0 ? "%zu," : " %zu,", header->shape[i]);
  if (header->dimensions > 1) /* (2, 3), but (2,) */
    used--;
  used += snprintf(text + used, WRITTEN_BYTES - (size_t)used, "), }");
  while ((PREFIX_BYTES + used + 1) % 64 != 0)
    text[used++] = ' ';
  text[used++] = '\n';
  memset(bytes, 0, PREFIX_BYTES);
  memcpy(bytes, magic, MAGIC_BYTES);
  bytes[6] = 1;
  bytes[8] = (uint8_t)(used & 255);
  bytes[9] = (uint8_t)(used >> 8);
  return PREFIX_BYTES + (size_t)used;
}

gconv_status gconv_npy_header_write(gconv_sink *sink, const gconv_npy_header *header) {
  uint8_t bytes[GCONV_NPY_HEADER_BYTES];
  return gconv_sink_write(sink, bytes, gconv_npy_header_format(header, bytes));
}
