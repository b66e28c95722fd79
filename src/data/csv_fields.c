/* SPDX-License-Identifier: MIT */
/* Splits lines of CSV into fields: separators, quotes, and decimal commas. */
#include "data/csv.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Fields -------------------------------------------------------------------------------------------------------- */

static gconv_status add_field(gconv_csv *c, char *begin, char *end) {
  if (c->count == c->room) {
    size_t room = c->room ? 2 * c->room : 64;
    gconv_csv_field *fields = realloc(c->fields, room * sizeof *fields);
    GCONV_NEED_MEMORY(fields, "%s: no memory for a line of %zu fields", c->table->path, c->count);
    c->fields = fields;
    c->room = room;
  }
  c->fields[c->count++] = (gconv_csv_field){begin, end};
  return gconv_table_check_columns(c->table, c->count);
}

/* Removes the quotes of a quoted field, in place. Returns the text after the field. */
static char *unquote(char *at, char **end) {
  char *to = at;
  while (*at && !(at[0] == '"' && at[1] != '"')) {
    at += at[0] == '"';
    *to++ = *at++;
  }
  *end = to;
  return at + (*at == '"');
}

static bool is_blank(char letter) {
  return letter == ' ' || letter == '\t';
}

gconv_status gconv_csv_split(gconv_csv *c) {
  const char separator = c->separator;
  char *at = c->lines.text;
  c->count = 0;
  for (;;) {
    while (is_blank(*at) && *at != (separator == '\t' ? separator : '\0'))
      at++;
    if (separator == ' ' && !*at && c->count > 0) /* blanks at the end of the line */
      return GCONV_OK;
    char *begin = at, *end;
    if (*at == '"') {
      begin = at + 1;
      at = unquote(begin, &end);
      while (separator != ' ' && *at != separator && is_blank(*at))
        at++;
      if (*at && *at != separator && !(separator == ' ' && *at == '\t'))
        return gconv_lines_fail(&c->lines, "field %zu goes on after the quote (\") that ends it; quotes within are doubled",
                                c->count + 1);
    } else {
      at += separator == ' ' ? strcspn(at, " \t") : strcspn(at, (char[]){separator, '\0'});
      end = at;
    }
    bool more = *at != '\0';
    GCONV_TRY(add_field(c, begin, end));
    if (!more)
      return GCONV_OK;
    at++;
  }
}

/* ---- Separators ---------------------------------------------------------------------------------------------------- */

/* Counts a separator outside of quotes in the line that begins at `at`. A run of blanks counts once, and not at all before
 * the first field. *end: first `at`, then the end of the line. */
static size_t count_separator(const char *at, const char *stop, char separator, const char **end) {
  bool quoted = false;
  size_t count = 0;
  for (; at < stop && (quoted || (*at != '\n' && *at != '\r')); at++) {
    quoted ^= *at == '"';
    count += !quoted && *at == separator && !(separator == ' ' && (at == *end || at[-1] == ' '));
  }
  *end = at;
  return count;
}

/* Returns how often the first line has the separator, or 0 if the other lines of the text do not have it as often. They may
 * have it once more: in a file of R, the header has no name for row numbers. all: the text is the whole file. */
static size_t try_separator(const char *text, size_t size, bool all, char separator) {
  enum { LINES = 10 };
  const char *at = text, *stop = text + size;
  size_t first = 0, others = 0;
  for (int line = 0; line < LINES && at < stop;) {
    const char *end = at;
    size_t count = count_separator(at, stop, separator, &end);
    bool whole = end < stop || all;
    if (whole && end > at && *at != '#') {
      first = line == 0 ? count : first;
      others = line < 2 ? count : others;
      if (count != others || (count != first && (first == 0 || count != first + 1)))
        return 0;
      line++;
    }
    at = end + (end < stop);
  }
  return first;
}

/* True if all commas of the first line are decimal commas of numbers between tabs: at most one a field, before a digit. */
static bool are_points(const char *text, size_t size) {
  int commas = 0;
  for (size_t i = 0; i < size && text[i] != '\n' && text[i] != '\r'; i++) {
    commas = text[i] == '\t' ? 0 : commas + (text[i] == ',');
    if (commas > 1 || (text[i] == ',' && (i + 1 == size || !isdigit((unsigned char)text[i + 1]))))
      return false;
  }
  return true;
}

/* Returns the most frequent of the separators that each of the first lines has equally often. Semicolons take precedence,
 * and so do tabs if commas may be decimal commas. */
static char find_separator(const char *text, size_t size, bool all) {
  static const char candidates[] = {';', ',', '\t', ' '};
  char found = ',';
  size_t most = 0;
  for (size_t i = 0; i < sizeof candidates; i++) {
    const char candidate = candidates[i];
    const size_t count = try_separator(text, size, all, candidate);
    const bool points = candidate == '\t' && found == ',' && count > 0 && are_points(text, size);
    bool behind = most > 0 && (found == ';' || candidate == ' ');
    if ((count > most && !behind) || points) {
      most = count;
      found = candidate;
    }
  }
  const bool cut = !all && size > 0 && !memchr(text, '\n', size) && !memchr(text, '\r', size); /* the first line is longer */
  if (cut && most == 0 && memchr(text, '\t', size) && are_points(text, size))
    return '\t';
  for (size_t i = 0; most == 0 && i < sizeof candidates - !cut; i++) /* lines differ, or there is none but a cut one */
    if (size > 0 && memchr(text, candidates[i], size))
      return candidates[i];
  return found;
}

gconv_status gconv_csv_choose_separator(gconv_csv *c, gconv_source *source, bool *named) {
  enum { SHOWN = 4096 };
  static const char mark[] = "\xEF\xBB\xBF"; /* the byte order mark of UTF-8 */
  const uint8_t *bytes;
  size_t got;
  GCONV_TRY(gconv_source_peek(source, SHOWN, &bytes, &got));
  const bool all = got < SHOWN;
  const char *text = (const char *)bytes;
  if (got >= 3 && memcmp(text, mark, 3) == 0) {
    text += 3;
    got -= 3;
  }
  c->separator = c->table->options->separator;
  *named = got > 5 && strncasecmp(text, "sep=", 4) == 0 && (text[5] == '\n' || text[5] == '\r');
  if (!c->separator)
    c->separator = *named ? text[4] : find_separator(text, got, all);
  return GCONV_OK;
}

/* ---- Numbers ------------------------------------------------------------------------------------------------------- */

static void note(const gconv_csv *c, gconv_csv_mark *mark, const gconv_csv_field *f) {
  if (mark->line > 0)
    return;
  mark->line = c->lines.line;
  snprintf(mark->text, sizeof mark->text, "%.*s", (int)(f->end - f->begin), f->begin);
}

gconv_field gconv_csv_read(gconv_csv *c, const gconv_csv_field *f, double *value) {
  if (c->separator == ',')
    return gconv_field_read(f->begin, f->end, value);
  const size_t length = (size_t)(f->end - f->begin);
  char *comma = memchr(f->begin, ',', length);
  const bool point = memchr(f->begin, '.', length) != NULL;
  if (comma && point)
    return GCONV_FIELD_TEXT;
  if (comma)
    *comma = '.';
  gconv_field kind = gconv_field_read(f->begin, f->end, value);
  if (comma)
    *comma = ',';
  if (comma && kind == GCONV_FIELD_GAP) /* "," alone */
    return GCONV_FIELD_TEXT;
  if (kind == GCONV_FIELD_NUMBER && comma)
    note(c, gconv_field_is_like_thousands(f->begin, f->end, ',') ? &c->grouped_commas : &c->commas, f);
  else if (kind == GCONV_FIELD_NUMBER && point)
    note(c, gconv_field_is_like_thousands(f->begin, f->end, '.') ? &c->grouped_points : &c->points, f);
  return kind;
}

static gconv_status contradict(const gconv_csv *c, const gconv_csv_mark *grouped, const gconv_csv_mark *plain) {
  return gconv_fail(GCONV_BAD_FILE,
                    "%s:%llu: either %s has a mark of thousands, or %s in line %llu has one: write numbers without marks of "
                    "thousands, and all fractions with a point or all with a comma",
                    c->table->path, (unsigned long long)grouped->line, grouped->text, plain->text,
                    (unsigned long long)plain->line);
}

gconv_status gconv_csv_check_marks(const gconv_csv *c) {
  const bool commas = c->commas.line > 0, points = c->points.line > 0;
  if (commas && c->grouped_points.line > 0)
    return contradict(c, &c->grouped_points, &c->commas);
  if ((points || c->grouped_points.line > 0) && c->grouped_commas.line > 0)
    return contradict(c, &c->grouped_commas, points ? &c->points : &c->grouped_points);
  const bool semicolons = c->separator == ';' && !points && !commas; /* points may be marks of thousands, as in German */
  const gconv_csv_mark *mark = semicolons && c->grouped_points.line > 0 ? &c->grouped_points : &c->grouped_commas;
  if (!commas && mark->line > 0)
    gconv_warn("%s: %s in line %llu is taken for a fraction. If its mark is one of thousands, leave such marks out",
               c->table->path, mark->text, (unsigned long long)mark->line);
  return GCONV_OK;
}
