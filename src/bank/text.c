/* SPDX-License-Identifier: MIT */
/*
 * gconv's own banks, for people: a header of words with numbers, then the K filters, one after the other.
 *
 *   gconv-bank 1
 *   filters 2 channels 3 size 3 3
 *   stride 2 2 padding 1 1 1 1 dilation 1 1 groups 1     # optional, as a whole or in parts
 *   filter edge bias 0.01                                # the name and the bias are optional
 *     0 -1  0
 *     ...
 */
#include "filter/text.h"
#include "bank/syntax.h"
#include "base/memory.h"
#include "base/printable.h"
#include "filter/number.h"

#include <string.h>

enum { NAME_BYTES = 256 };

/* ---- Fields ---- */

/* Returns the text of a field for an error: "'word'", or "the end of the line". */
static const char *show(const gconv_field *field, char text[40]) {
  if (field->begin == field->end)
    return "the end of the line";
  snprintf(text, 40, "'%.*s'", (int)(field->end - field->begin < 32 ? field->end - field->begin : 32), field->begin);
  return text;
}

static gconv_status fail_expected(const gconv_text *text, const gconv_field *field, const char *expected) {
  char shown[40];
  return gconv_field_fail(text, field, GCONV_BAD_FILE, "expected %s, but found %s", expected, show(field, shown));
}

/* Fails if the line has another field. */
static gconv_status expect_line_end(gconv_text *text) {
  gconv_field field;
  return gconv_text_field(text, &field) ? fail_expected(text, &field, "the end of the line") : GCONV_OK;
}

/* Reads a whole number in digits, at most INT32_MAX. */
static gconv_status read_count(gconv_text *text, const char *word, int32_t *value) {
  gconv_field field;
  char expected[64];
  snprintf(expected, sizeof expected, "a whole number for '%s'", word);
  gconv_text_field(text, &field);
  return gconv_count_read(field.begin, field.end, value) ? GCONV_OK : fail_expected(text, &field, expected);
}

/* ---- The header ---- */

typedef enum word { FILTERS, CHANNELS, SIZE, STRIDE, PADDING, DILATION, GROUPS, WORDS } word;

static const struct {
  const char *name;
  int values;
} words[WORDS] = {{"filters", 1}, {"channels", 1}, {"size", 2},  {"stride", 2},
                  {"padding", 4}, {"dilation", 2}, {"groups", 1}};

typedef struct header {
  bool seen[WORDS];
  int32_t value[WORDS][4];
  bool same_upper, same_lower;
} header;

/* Reads "padding same_upper": a word instead of numbers. */
static bool accept_same(gconv_text *text, header *h) {
  gconv_text ahead = *text;
  gconv_field field;
  gconv_text_field(&ahead, &field);
  h->same_upper = gconv_field_is(&field, "same_upper");
  h->same_lower = gconv_field_is(&field, "same_lower");
  if (h->same_upper || h->same_lower)
    *text = ahead;
  return h->same_upper || h->same_lower;
}

static gconv_status read_word(gconv_text *text, const gconv_field *field, header *h) {
  int which = 0;
  while (which < WORDS && !gconv_field_is(field, words[which].name))
    which++;
  if (which == WORDS)
    return fail_expected(text, field,
                         "'filters', 'channels', 'size', 'stride', 'padding', 'dilation', 'groups', or a line 'filter'");
  if (h->seen[which])
    return gconv_field_fail(text, field, GCONV_BAD_FILE, "'%s' is there twice", words[which].name);
  h->seen[which] = true;
  if (which == PADDING && accept_same(text, h))
    return GCONV_OK;
  for (int i = 0; i < words[which].values; i++)
    GCONV_TRY(read_count(text, words[which].name, &h->value[which][i]));
  return GCONV_OK;
}

static gconv_status read_version(gconv_text *text) {
  gconv_field field = {0};
  if (!gconv_text_find_line(text) || !gconv_text_field(text, &field) || !gconv_field_is(&field, "gconv-bank"))
    return gconv_fail(GCONV_BAD_FILE, "%s:%zu: is no gconv bank: its first line is 'gconv-bank 1'", text->name, text->line);
  if (!gconv_text_field(text, &field) || !gconv_field_is(&field, "1"))
    return fail_expected(text, &field, "1, the version of banks that this gconv reads");
  return expect_line_end(text);
}

/* Reads up to the first line "filter". The text is then at that line. */
static gconv_status read_header(gconv_text *text, header *h) {
  GCONV_TRY(read_version(text));
  gconv_text_next_line(text);
  while (gconv_text_find_line(text)) {
    gconv_text line = *text;
    gconv_field field;
    gconv_text_field(&line, &field);
    if (gconv_field_is(&field, "filter"))
      break;
    while (gconv_text_field(text, &field))
      GCONV_TRY(read_word(text, &field, h));
  }
  for (int i = FILTERS; i <= SIZE; i++)
    if (!h->seen[i])
      return gconv_fail(GCONV_BAD_FILE, "%s:%zu: the header does not say '%s': 'filters K channels C size R S' is expected",
                        text->name, text->line, words[i].name);
  return GCONV_OK;
}

static gconv_bank_shape shape_of(const header *h) {
  return (gconv_bank_shape){(uint64_t)h->value[FILTERS][0], (uint64_t)h->value[CHANNELS][0], (uint64_t)h->value[SIZE][0],
                            (uint64_t)h->value[SIZE][1]};
}

/* Sets strides, dilations and groups, whose default is 1, and padding, whose default is 0. */
static gconv_status take_geometry(const char *where, const header *h, gconv_bank *bank) {
  for (int i = STRIDE; i < WORDS; i++)
    bank->has_geometry |= h->seen[i];
  if (!bank->has_geometry)
    return GCONV_OK;
  bank->stride_y = h->seen[STRIDE] ? h->value[STRIDE][0] : 1;
  bank->stride_x = h->seen[STRIDE] ? h->value[STRIDE][1] : 1;
  bank->dilation_y = h->seen[DILATION] ? h->value[DILATION][0] : 1;
  bank->dilation_x = h->seen[DILATION] ? h->value[DILATION][1] : 1;
  bank->groups = h->seen[GROUPS] ? h->value[GROUPS][0] : 1;
  bank->pad_top = h->value[PADDING][0];
  bank->pad_left = h->value[PADDING][1];
  bank->pad_bottom = h->value[PADDING][2];
  bank->pad_right = h->value[PADDING][3];
  bank->same_upper = h->same_upper;
  bank->same_lower = h->same_lower;
  return gconv_bank_check_geometry(where, GCONV_BAD_FILE, bank);
}

/* ---- Filters ---- */

/* Reads a name in quotes, in which \ escapes " and \. If there is none, *found is false, and only blanks are skipped. */
static gconv_status read_quoted(gconv_text *text, char name[NAME_BYTES], bool *found) {
  while (text->at < text->end && (*text->at == ' ' || *text->at == '\t'))
    text->at++;
  *found = text->at < text->end && *text->at == '"';
  if (!*found)
    return GCONV_OK;
  gconv_field field = gconv_text_place(text);
  size_t used = 0;
  for (const char *at = text->at + 1; at < text->end && *at != '\n' && *at != '\r'; at++) {
    if (*at == '"') {
      name[used] = '\0';
      text->at = at + 1;
      text->after_field = true;
      return GCONV_OK;
    }
    if (*at == '\\' && at + 1 < text->end && (at[1] == '"' || at[1] == '\\'))
      at++;
    if (used + 1 == NAME_BYTES)
      return gconv_field_fail(text, &field, GCONV_TOO_LARGE, "a name of more than %d bytes", NAME_BYTES - 1);
    name[used++] = *at;
  }
  return gconv_field_fail(text, &field, GCONV_BAD_FILE, "the quote that ends this name is missing");
}

static gconv_status read_name(gconv_text *text, gconv_bank *bank, int32_t k) {
  char name[NAME_BYTES];
  bool quoted;
  GCONV_TRY(read_quoted(text, name, &quoted));
  if (quoted)
    return gconv_bank_name_filter(bank, k, name);
  gconv_text ahead = *text;
  gconv_field field;
  if (!gconv_text_field(&ahead, &field) || gconv_field_is(&field, "bias"))
    return GCONV_OK;
  if (field.end - field.begin >= NAME_BYTES)
    return gconv_field_fail(text, &field, GCONV_TOO_LARGE, "a name of more than %d bytes", NAME_BYTES - 1);
  *text = ahead;
  snprintf(name, sizeof name, "%.*s", (int)(field.end - field.begin), field.begin);
  return gconv_bank_name_filter(bank, k, name);
}

/* Reads "filter NAME bias 0.01", or parts of it. */
static gconv_status read_filter_line(gconv_text *text, gconv_bank *bank, int32_t k) {
  gconv_field field;
  double bias;
  if (!gconv_text_find_line(text))
    return gconv_fail(GCONV_BAD_FILE, "%s:%zu: the text ends after %d of the %d filters that its header promises",
                      text->name, text->line, k, bank->filters);
  gconv_text_field(text, &field);
  if (!gconv_field_is(&field, "filter"))
    return fail_expected(text, &field, "a line 'filter [NAME] [bias NUMBER]'");
  GCONV_TRY(read_name(text, bank, k));
  if (gconv_text_field(text, &field)) {
    if (!gconv_field_is(&field, "bias"))
      return fail_expected(text, &field, "'bias', or the end of the line (names with blanks are in quotes)");
    if (!gconv_text_field(text, &field))
      return fail_expected(text, &field, "the number of the bias");
    GCONV_TRY(gconv_field_number(text, &field, &bias));
    GCONV_TRY(gconv_bank_add_biases(bank));
    bank->biases[k] = (float)bias;
  }
  GCONV_TRY(expect_line_end(text));
  gconv_text_next_line(text);
  return GCONV_OK;
}

/* A place in a bank: filter, channel and row, from 0. */
typedef struct place {
  int32_t k, c, r;
} place;

static gconv_status read_row(gconv_text *text, const gconv_bank *bank, place at, float *row) {
  gconv_field field;
  if (!gconv_text_find_line(text))
    return gconv_fail(GCONV_BAD_FILE, "%s:%zu: the text ends before row %d of channel %d of filter %d (from 0)", text->name,
                      text->line, at.r, at.c, at.k);
  for (int32_t s = 0; s < bank->columns; s++) {
    if (!gconv_text_field(text, &field))
      return gconv_field_fail(text, &field, GCONV_BAD_FILE,
                              "this row ends after %d of the %d numbers that the header promises", s, bank->columns);
    if (s == 0 && gconv_field_is(&field, "filter"))
      return gconv_field_fail(
          text, &field, GCONV_BAD_FILE,
          "filter %d (from 0) ends here, before row %d of channel %d: the header promises %d channel%s of "
          "%d rows",
          at.k, at.r, at.c, bank->channels, bank->channels == 1 ? "" : "s", bank->rows);
    double value;
    GCONV_TRY(gconv_field_number(text, &field, &value));
    row[s] = (float)value;
  }
  if (gconv_text_field(text, &field))
    return gconv_field_fail(text, &field, GCONV_BAD_FILE, "this row has more than the %d numbers that the header promises",
                            bank->columns);
  gconv_text_next_line(text);
  return GCONV_OK;
}

static gconv_status read_filters(gconv_text *text, gconv_bank *bank) {
  float *row = bank->weights;
  for (int32_t k = 0; k < bank->filters; k++) {
    GCONV_TRY(read_filter_line(text, bank, k));
    for (int32_t c = 0; c < bank->channels; c++)
      for (int32_t r = 0; r < bank->rows; r++, row += bank->columns)
        GCONV_TRY(read_row(text, bank, (place){k, c, r}, row));
  }
  if (gconv_text_find_line(text))
    return gconv_fail(GCONV_BAD_FILE, "%s:%zu: there is more than the %d filters that the header promises", text->name,
                      text->line, bank->filters);
  return GCONV_OK;
}

/* ---- The syntax ---- */

/* Returns whether the first field is "gconv-bank". Comments may come before it. */
static bool recognise(const uint8_t *bytes, size_t size) {
  char copy[4097]; /* followed by a 0 byte */
  size_t length = size < sizeof copy ? size : sizeof copy - 1;
  memcpy(copy, bytes, length);
  copy[length] = '\0';
  gconv_content content = {"", (uint8_t *)copy, length};
  gconv_text text = gconv_text_begin(&content);
  gconv_field field = {0};
  return gconv_text_find_line(&text) && gconv_text_field(&text, &field) && gconv_field_is(&field, "gconv-bank");
}

static gconv_status open_text(gconv_bank_file *file) {
  gconv_content *content;
  GCONV_NEW(content, 1, "%s: no memory for its text", file->path);
  file->state = content;
  content->name = file->path;
  GCONV_TRY(gconv_source_read_all(&file->source, GCONV_BANK_MAX_FILE_BYTES, &content->bytes, &content->size));
  GCONV_TRY(gconv_text_check(content));
  gconv_text text = gconv_text_begin(content);
  header h = {0};
  gconv_bank_entry *entry;
  GCONV_TRY(read_header(&text, &h));
  GCONV_TRY(gconv_bank_file_add(file, &entry));
  entry->kind = "bank";
  entry->dimensions = 4;
  snprintf(entry->type, sizeof entry->type, "float32");
  const gconv_bank_shape shape = shape_of(&h);
  memcpy(entry->shape, (uint64_t[]){shape.filters, shape.channels, shape.rows, shape.columns}, 4 * sizeof(uint64_t));
  entry->name = strdup("");
  return entry->name ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its text", file->path);
}

static gconv_status read_text(gconv_bank_file *file, size_t index, gconv_bank *bank) {
  const gconv_content *content = file->state;
  gconv_text text = gconv_text_begin(content);
  header h = {0};
  GCONV_TRY(read_header(&text, &h));
  gconv_bank_shape shape = shape_of(&h);
  GCONV_TRY(gconv_bank_check_shape(file->path, shape));
  uint64_t promised = gconv_bank_shape_weights(shape);
  if (promised > content->size / 2 + 1) /* each weight takes at least a digit and a blank */
    return gconv_fail(GCONV_BAD_FILE, "%s: its header promises %llu numbers, which its %zu bytes cannot hold", file->path,
                      (unsigned long long)promised, content->size);
  GCONV_TRY(gconv_bank_allocate(shape, bank));
  GCONV_TRY(take_geometry(file->path, &h, bank));
  return read_filters(&text, bank);
}

static void close_text(gconv_bank_file *file) {
  gconv_content *content = file->state;
  if (content)
    gconv_release(content->bytes);
  free(content);
}

/* ---- Writing ---- */

/* Writes a name: in quotes if necessary, cut if it is too long, and without bytes that text cannot have. */
static gconv_status put_name(gconv_sink *sink, const char *name) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.:=/";
  size_t length = strlen(name);
  if (length > 0 && length < NAME_BYTES && strspn(name, plain) == length && strcmp(name, "bias") != 0)
    return gconv_sink_print(sink, " %s", name);
  char text[2 * NAME_BYTES], *clean = gconv_printable_copy(name, NAME_BYTES - 1);
  size_t used = 0;
  GCONV_NEED_MEMORY(clean, "no memory for a name");
  for (const char *at = clean; *at; at++) {
    if (*at == '"' || *at == '\\')
      text[used++] = '\\';
    text[used++] = *at;
  }
  free(clean);
  return gconv_sink_print(sink, " \"%.*s\"", (int)used, text);
}

static gconv_status put_geometry(gconv_sink *sink, const gconv_bank *bank) {
  if (!bank->has_geometry)
    return GCONV_OK;
  GCONV_TRY(gconv_sink_print(sink, "stride %d %d padding ", bank->stride_y, bank->stride_x));
  if (bank->same_upper || bank->same_lower)
    GCONV_TRY(gconv_sink_print(sink, bank->same_upper ? "same_upper" : "same_lower"));
  else
    GCONV_TRY(gconv_sink_print(sink, "%d %d %d %d", bank->pad_top, bank->pad_left, bank->pad_bottom, bank->pad_right));
  return gconv_sink_print(sink, " dilation %d %d groups %d\n", bank->dilation_y, bank->dilation_x, bank->groups);
}

/* Writes one channel of a filter, with aligned columns. */
static gconv_status put_plane(gconv_sink *sink, const gconv_bank *bank, const float *plane) {
  char number[GCONV_NUMBER_BYTES];
  size_t width = 0, count = (size_t)bank->rows * (size_t)bank->columns;
  for (size_t i = 0; i < count; i++) {
    size_t length = strlen(gconv_number_write(plane[i], number));
    width = length > width ? length : width;
  }
  for (size_t i = 0; i < count; i++)
    GCONV_TRY(gconv_sink_print(sink, " %*s%s", (int)width, gconv_number_write(plane[i], number),
                               (i + 1) % (size_t)bank->columns == 0 ? "\n" : ""));
  return GCONV_OK;
}

static gconv_status put_filter(gconv_sink *sink, const gconv_bank *bank, int32_t k) {
  char number[GCONV_NUMBER_BYTES];
  size_t plane = (size_t)bank->rows * (size_t)bank->columns, channels = (size_t)bank->channels;
  GCONV_TRY(gconv_sink_print(sink, "\nfilter"));
  if (bank->names && bank->names[k])
    GCONV_TRY(put_name(sink, bank->names[k]));
  if (bank->biases)
    GCONV_TRY(gconv_sink_print(sink, " bias %s", gconv_number_write(bank->biases[k], number)));
  GCONV_TRY(gconv_sink_print(sink, "\n"));
  for (size_t c = 0; c < channels; c++) {
    if (c > 0)
      GCONV_TRY(gconv_sink_print(sink, "\n"));
    GCONV_TRY(put_plane(sink, bank, bank->weights + ((size_t)k * channels + c) * plane));
  }
  return GCONV_OK;
}

static gconv_status write_text(gconv_sink *sink, const gconv_bank *bank) {
  char *name = gconv_printable_copy(bank->name ? bank->name : "", NAME_BYTES);
  gconv_status status = name ? gconv_sink_print(sink, "gconv-bank 1%s%s\n", *name ? "  # " : "", name)
                             : gconv_fail(GCONV_NO_MEMORY, "no memory for the name of a bank");
  free(name);
  GCONV_TRY(status);
  GCONV_TRY(gconv_sink_print(sink, "filters %d channels %d size %d %d\n", bank->filters, bank->channels, bank->rows,
                             bank->columns));
  GCONV_TRY(put_geometry(sink, bank));
  for (int32_t k = 0; k < bank->filters; k++)
    GCONV_TRY(put_filter(sink, bank, k));
  return GCONV_OK;
}

const gconv_bank_syntax gconv_bank_syntax_text = {
    .name = "bank",
    .help = "text that begins with 'gconv-bank 1'",
    .extension = ".txt",
    .recognise = recognise,
    .open = open_text,
    .read = read_text,
    .close = close_text,
    .write = write_text,
};
