/* SPDX-License-Identifier: MIT */
/* Reads headers of PNM and PAM, and numbers that are text. */
#include "image/pnm.h"

#include <stdio.h>
#include <string.h>

/* ---- Text ---- */

static inline gconv_status next_byte(gconv_source *source, int *c) {
  const uint8_t *byte;
  size_t got = 1;
  if (source->begin == source->end)
    GCONV_TRY(gconv_source_peek(source, 1, &byte, &got));
  *c = got ? source->buffer[source->begin] : GCONV_PNM_END;
  source->begin += got;
  source->position += got;
  return GCONV_OK;
}

gconv_status gconv_pnm_skip_space(gconv_source *source, int *c) {
  bool comment = false;
  do {
    GCONV_TRY(next_byte(source, c));
    comment = *c == '#' || (comment && *c != '\n' && *c != '\r' && *c != GCONV_PNM_END);
  } while (comment || gconv_pnm_is_space(*c));
  return GCONV_OK;
}

gconv_status gconv_pnm_read_number(gconv_source *source, const char *what, uint32_t limit, uint32_t *value) {
  int c;
  GCONV_TRY(gconv_pnm_skip_space(source, &c));
  if (c == GCONV_PNM_END)
    return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, before its %s", source->name, what);
  uint64_t number = 0;
  bool any = false;
  for (; c >= '0' && c <= '9' && number <= limit; any = true) {
    number = number * 10 + (uint64_t)(c - '0');
    GCONV_TRY(next_byte(source, &c));
  }
  if (number > limit)
    return gconv_fail(GCONV_BAD_FILE, "%s: its %s is over %u", source->name, what, limit);
  if (!any || !(gconv_pnm_is_space(c) || c == GCONV_PNM_END || c == '#'))
    return gconv_fail(GCONV_BAD_FILE, "%s: its %s is not a whole number, at byte %llu", source->name, what,
                      (unsigned long long)source->position);
  for (bool comment = c == '#'; comment && c != '\n' && c != '\r' && c != GCONV_PNM_END;) /* directly after the number */
    GCONV_TRY(next_byte(source, &c));
  *value = (uint32_t)number;
  return GCONV_OK;
}

/* ---- Headers ---- */

static gconv_status read_pnm_header(gconv_reader *reader, int kind, uint32_t *maxval, gconv_image *header) {
  gconv_source *source = reader->source;
  uint32_t width, height;
  GCONV_TRY(gconv_pnm_read_number(source, "width", INT32_MAX, &width));
  GCONV_TRY(gconv_pnm_read_number(source, "height", INT32_MAX, &height));
  *maxval = 1;
  if (kind != 1 && kind != 4)
    GCONV_TRY(gconv_pnm_read_number(source, "maxval", UINT16_MAX, maxval));
  header->width = (int32_t)width;
  header->height = (int32_t)height;
  header->channels = kind == 3 || kind == 6 ? 3 : 1;
  return GCONV_OK;
}

/* Reads a line without its end. Text that does not fit is cut off; no known word is so long. */
static gconv_status read_line(gconv_source *source, char *line, size_t size) {
  size_t used = 0;
  int c;
  for (;;) {
    GCONV_TRY(next_byte(source, &c));
    if (c == GCONV_PNM_END)
      return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, in its PAM header", source->name);
    if (c == '\n')
      break;
    if (used + 1 < size)
      line[used++] = (char)c;
  }
  while (used > 0 && gconv_pnm_is_space(line[used - 1]))
    used--;
  line[used] = '\0';
  return GCONV_OK;
}

static gconv_status set_tuple_type(const gconv_reader *reader, const char *type, uint32_t depth, gconv_image *header) {
  static const struct {
    const char *name;
    uint32_t depth;
    bool alpha;
  } known[] = {{"BLACKANDWHITE", 1, false},      {"GRAYSCALE", 1, false},      {"RGB", 3, false},
               {"BLACKANDWHITE_ALPHA", 2, true}, {"GRAYSCALE_ALPHA", 2, true}, {"RGB_ALPHA", 4, true}};
  bool found = type[0] == '\0' && depth >= 1 && depth <= 4; /* without a type, channels have no meaning */
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(type, known[i].name) == 0 && depth == known[i].depth) {
      found = true;
      header->alpha = known[i].alpha;
    }
  if (!found)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: a PAM of type '%s' and depth %u; known are BLACKANDWHITE, GRAYSCALE and RGB (depth 1, 1, 3), and "
                      "the same with _ALPHA (2, 2, 4)",
                      reader->source->name, type, depth);
  header->channels = (int32_t)depth;
  return GCONV_OK;
}

/* Sets *value if `text` is a decimal number of at least 1, and nothing else. */
static void parse_field(const char *text, uint32_t *value) {
  uint64_t number = 0;
  const char *c = text + strspn(text, " \t");
  if (*c == '\0' || strspn(c, "0123456789") != strlen(c))
    return;
  for (; *c && number <= INT32_MAX; c++)
    number = number * 10 + (uint64_t)(*c - '0');
  if (number >= 1 && number <= INT32_MAX)
    *value = (uint32_t)number;
}

/* Reads lines such as "WIDTH 640", in any order, up to ENDHDR. */
static gconv_status read_pam_header(gconv_reader *reader, uint32_t *maxval, gconv_image *header) {
  enum { FIELDS = 4, MAX_LINES = 1000 };
  static const char *const names[FIELDS] = {"WIDTH", "HEIGHT", "DEPTH", "MAXVAL"};
  uint32_t values[FIELDS] = {0, 0, 0, 0};
  char line[256], type[256] = "";
  for (int i = 0;; i++) {
    GCONV_TRY(read_line(reader->source, line, sizeof line));
    size_t length = strcspn(line, " \t");
    if (strcmp(line, "ENDHDR") == 0)
      break;
    if (i == MAX_LINES)
      return gconv_fail(GCONV_BAD_FILE, "%s: no ENDHDR within %d lines of its PAM header", reader->source->name, MAX_LINES);
    if (length == 8 && memcmp(line, "TUPLTYPE", 8) == 0)
      snprintf(type, sizeof type, "%s", line + 8 + strspn(line + 8, " \t"));
    for (int field = 0; field < FIELDS; field++)
      if (length == strlen(names[field]) && memcmp(line, names[field], length) == 0)
        parse_field(line + length, &values[field]);
  }
  for (int field = 0; field < FIELDS; field++)
    if (values[field] == 0)
      return gconv_fail(GCONV_BAD_FILE, "%s: its PAM header has no valid %s", reader->source->name, names[field]);
  if (values[3] > UINT16_MAX)
    return gconv_fail(GCONV_BAD_FILE, "%s: its maxval is over 65535", reader->source->name);
  header->width = (int32_t)values[0];
  header->height = (int32_t)values[1];
  *maxval = values[3];
  return set_tuple_type(reader, type, values[2], header);
}

gconv_status gconv_pnm_read_header(gconv_reader *reader, int *kind, uint32_t *maxval, gconv_image *header) {
  uint8_t magic[2];
  char rest[2];
  GCONV_TRY(gconv_source_read_exactly(reader->source, magic, sizeof magic, "its header"));
  *kind = magic[1] - '0';
  if (*kind != 7)
    return read_pnm_header(reader, *kind, maxval, header);
  GCONV_TRY(read_line(reader->source, rest, sizeof rest));
  return read_pam_header(reader, maxval, header);
}
