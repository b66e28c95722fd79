/* SPDX-License-Identifier: MIT */
#include "data/lines.h"
#include "base/memory.h"
#include "base/printable.h"
#include "data/field.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ---- Lines --------------------------------------------------------------------------------------------------------- */

gconv_status gconv_lines_fail(const gconv_lines *lines, const char *format, ...) {
  va_list arguments;
  GCONV_FREED char *text = NULL;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0)
    text = NULL;
  va_end(arguments);
  gconv_make_printable(text);
  return gconv_fail(GCONV_BAD_FILE, "%s:%llu: %s", lines->source->name, (unsigned long long)lines->line,
                    text ? text : "is wrong");
}

static gconv_status add_bytes(gconv_lines *lines, const uint8_t *bytes, size_t count) {
  if (count > GCONV_MOST_LINE_BYTES - lines->size)
    return gconv_lines_fail(lines, "the line is longer than %d MB%s", GCONV_MOST_LINE_BYTES >> 20,
                            lines->quotes ? ": is a quote (\") missing?" : "");
  size_t room = gconv_room(lines->size + count + 1);
  if (room > lines->room) {
    char *text = realloc(lines->text, room);
    GCONV_NEED_MEMORY(text, "%s: no memory for a line of %zu MB", lines->source->name, room >> 20);
    lines->text = text;
    lines->room = room;
  }
  if (memchr(bytes, 0, count))
    return gconv_lines_fail(lines, "has a byte 0: this is no text, or none in UTF-8");
  memcpy(lines->text + lines->size, bytes, count);
  lines->size += count;
  lines->text[lines->size] = '\0';
  return GCONV_OK;
}

/* Returns the number of bytes before the end of the line; `count` if these bytes do not contain the end. */
static size_t find_end(const gconv_lines *lines, const uint8_t *bytes, size_t count, bool *quoted) {
  for (size_t i = 0; i < count; i++)
    if (lines->quotes && bytes[i] == '"')
      *quoted = !*quoted;
    else if (!*quoted && (bytes[i] == '\n' || bytes[i] == '\r'))
      return i;
  return count;
}

/* Counts the line breaks in the text of a line. They are all between quotes. */
static uint64_t count_ends(const char *text) {
  uint64_t count = 0;
  for (; *text; text++)
    count += *text == '\n' || (*text == '\r' && text[1] != '\n');
  return count;
}

gconv_status gconv_lines_next(gconv_lines *lines, bool *found) {
  static const uint8_t mark[] = {0xEF, 0xBB, 0xBF}; /* the byte order mark of UTF-8 */
  bool quoted = false, first = lines->ends == 0 && lines->line == 0;
  lines->size = 0;
  lines->line = lines->ends + 1;
  *found = false;
  for (;;) {
    size_t skipped = 0;
    if (lines->left == 0)
      GCONV_TRY(gconv_source_next(lines->source, &lines->bytes, &lines->left));
    const uint8_t *bytes = lines->bytes;
    size_t count = lines->left;
    if (count == 0)
      break;
    if (first && count >= sizeof mark && memcmp(bytes, mark, sizeof mark) == 0)
      skipped = sizeof mark;
    else if (lines->had_return && bytes[0] == '\n')
      skipped = 1;
    first = lines->had_return = false;
    size_t length = find_end(lines, bytes + skipped, count - skipped, &quoted);
    *found |= length > 0;
    GCONV_TRY(add_bytes(lines, bytes + skipped, length));
    bool ended = skipped + length < count;
    lines->had_return = ended && bytes[skipped + length] == '\r';
    *found |= ended;
    lines->bytes += skipped + length + ended;
    lines->left -= skipped + length + ended;
    if (ended)
      break;
  }
  if (quoted)
    return gconv_lines_fail(lines, "a quote (\") begins in this line, and none ends it");
  if (*found)
    lines->ends += 1 + (lines->quotes ? count_ends(lines->text) : 0);
  return GCONV_OK;
}

gconv_status gconv_lines_next_filled(gconv_lines *lines, bool *found) {
  do
    GCONV_TRY(gconv_lines_next(lines, found));
  while (*found && strspn(lines->text, " \t") == lines->size);
  return GCONV_OK;
}

void gconv_lines_free(gconv_lines *lines) {
  free(lines->text);
  lines->text = NULL;
}

/* ---- Numbers ------------------------------------------------------------------------------------------------------- */

gconv_status gconv_row_add(gconv_row *row, double number) {
  GCONV_GROW(row->items, row->count, "no memory for a row of %zu numbers", row->count);
  row->items[row->count++] = number;
  return GCONV_OK;
}

void gconv_row_free(gconv_row *row) {
  free(row->items);
}

gconv_status gconv_lines_numbers(gconv_lines *lines, gconv_row *row) {
  static const char between[] = " \t,;";
  for (const char *at = lines->text + strspn(lines->text, between); *at; at += strspn(at, between)) {
    size_t length = strcspn(at, between);
    double value;
    gconv_field kind = gconv_field_read(at, at + length, &value);
    if (kind == GCONV_FIELD_NOT_FINITE)
      return gconv_lines_fail(lines, "number %zu is %.*s: numbers must be finite, and fit into float32", row->count + 1,
                              (int)(length < 40 ? length : 40), at);
    if (kind == GCONV_FIELD_TEXT)
      return gconv_lines_fail(lines, "\"%.*s\" is no number", (int)(length < 40 ? length : 40), at);
    GCONV_TRY(gconv_row_add(row, kind == GCONV_FIELD_GAP ? (double)NAN : value));
    at += length;
  }
  return GCONV_OK;
}
