/* SPDX-License-Identifier: MIT */
/*
 * ImageMagick's kernel strings: "[W[xH][+X+Y][@|>|<]:] values", several separated by ';'.
 *
 * Values are separated by commas, blanks or ends of lines. nan or - marks a place outside of the neighbourhood, which has no
 * tap. W alone means W x W; without a size, the values are a square. The origin is at X, Y, by default (W - 1) / 2,
 * (H - 1) / 2. The signs add rotated kernels, as `convert -define morphology:showkernel=1` prints them:
 *   @  the rotations of a 3 x 3 kernel by 45, 90, ... degrees, clockwise, until the first comes back;
 *   >  the rotations by 90, 180, 270 degrees, until the first comes back;
 *   <  the rotations by 180, 270 and 90 degrees, in this order, always.
 * Only square kernels and single rows and columns can be rotated by 90 degrees. ImageMagick warns of other kernels and
 * continues; this reader refuses them.
 */
#include "filter/rows.h"

#include <math.h>
#include <string.h>
#include <strings.h>

typedef struct geometry {
  int32_t width, height; /* 0: a square */
  int32_t x, y;          /* -1: the default */
  char expansion;        /* '@', '>', '<', or 0 */
} geometry;

/* ---- The text ---- */

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Returns the first ':'; NULL if a ';', a comment or the end of the line comes first. */
static const char *find_colon(const gconv_text *text) {
  for (const char *at = text->at; at < text->end && !strchr(";#%\n\r", *at); at++)
    if (*at == ':')
      return at;
  return NULL;
}

static bool recognise(const gconv_content *content) {
  gconv_text text = gconv_text_begin(content);
  return gconv_text_find_line(&text) && find_colon(&text);
}

/* Returns the end of this kernel: a ';' outside of a comment, or the end of the text. */
static const char *find_kernel_end(const gconv_text *text) {
  bool comment = false;
  const char *at = text->at;
  for (; at < text->end && (comment || *at != ';'); at++)
    comment = *at == '\n' || *at == '\r' ? false : comment || *at == '#' || *at == '%';
  return at;
}

static gconv_status fail_at(const gconv_text *text, const char *at, const char *what) {
  gconv_field field = {at, at, text->line, (size_t)(at - text->line_start) + 1};
  return gconv_field_fail(text, &field, GCONV_BAD_FILE, "%s", what);
}

/* Reads digits. Returns -1 if there are none, INT32_MAX if there are too many. */
static int32_t read_digits(const char **at) {
  int32_t value = -1;
  for (int count = 0; is_digit(**at); (*at)++, count++)
    value = count == 0 ? **at - '0' : value < 0 || value > INT32_MAX / 10 - 1 ? INT32_MAX : value * 10 + (**at - '0');
  return value;
}

static void skip_blanks(const char **at) {
  while (**at == ' ' || **at == '\t')
    (*at)++;
}

/* Reads W, xH, and +X+Y. Stops at the first part that is wrong. */
static void read_size_and_origin(const char **at, geometry *g) {
  g->width = g->height = read_digits(at);
  if (g->width > 0 && (**at == 'x' || **at == 'X')) {
    (*at)++;
    g->height = read_digits(at);
  }
  g->x = g->y = -1;
  for (int i = 0; i < 2 && **at == '+' && is_digit((*at)[1]); i++) {
    (*at)++;
    *(i == 0 ? &g->x : &g->y) = read_digits(at);
  }
}

/* Reads the geometry before the ':', and the ':' itself. */
static gconv_status read_geometry(gconv_text *text, const char *colon, geometry *g) {
  const char *at = text->at, *start = at;
  read_size_and_origin(&at, g);
  skip_blanks(&at);
  if (at < colon && strchr("@<>", *at))
    g->expansion = *at++;
  skip_blanks(&at);
  if (at != colon)
    return fail_at(text, at, "before the ':' stands the size of a kernel, \"W[xH][+X+Y][@|>|<]\", such as 3x3 or 5x1+0+0>");
  if (g->width < 1 || g->height < 1)
    return fail_at(text, start, "the width and height of a kernel are positive numbers");
  gconv_field place = {start, colon, text->line, (size_t)(start - text->line_start) + 1};
  if (g->x >= g->width || g->y >= g->height)
    return gconv_field_fail(text, &place, GCONV_BAD_FILE, "the origin +%d+%d lies outside of the %d x %d kernel",
                            g->x < 0 ? (g->width - 1) / 2 : g->x, g->y < 0 ? (g->height - 1) / 2 : g->y, g->width,
                            g->height);
  text->at = colon + 1;
  return gconv_filter_check_size(text->name, g->height, g->width);
}

static bool is_outside_mark(const gconv_field *field) {
  size_t length = (size_t)(field->end - field->begin);
  return (length == 1 && *field->begin == '-') || (length == 3 && strncasecmp(field->begin, "nan", 3) == 0);
}

static gconv_status read_values(gconv_text *text, gconv_numbers *numbers) {
  while (gconv_text_find_line(text)) {
    gconv_field field;
    while (gconv_text_field(text, &field)) {
      double value = (double)NAN;
      if (!is_outside_mark(&field))
        GCONV_TRY(gconv_field_number(text, &field, &value));
      GCONV_TRY(gconv_numbers_add(numbers, (float)value, text->name));
    }
  }
  return GCONV_OK;
}

/* Sets the size of a kernel without a geometry: its values must be a square. */
static gconv_status infer_square(const gconv_text *text, size_t count, geometry *g) {
  int32_t side = (int32_t)sqrt((double)count);
  if (count == 0 || (size_t)side * (size_t)side != count)
    return gconv_fail(
        GCONV_BAD_FILE,
        "%s:%zu: %zu values without a size are no square kernel; begin with the size, such as \"3x1: 1,2,1\", or "
        "put rows into brackets, such as \"[1 2 1; 2 4 2]\"",
        text->name, text->line, count);
  g->width = g->height = side;
  return gconv_filter_check_size(text->name, side, side);
}

/* ---- Rotation ---- */

/* Returns the place from which a rotated kernel takes its tap at row r, column s. */
typedef size_t rotation(const gconv_filter *from, int32_t r, int32_t s);

static size_t place_of(const gconv_filter *filter, int32_t r, int32_t s) {
  return (size_t)r * (size_t)filter->columns + (size_t)s;
}

/* Rotates by 90 degrees, clockwise. */
static size_t by_quarter(const gconv_filter *from, int32_t r, int32_t s) {
  return place_of(from, from->rows - 1 - s, r);
}

static size_t by_half(const gconv_filter *from, int32_t r, int32_t s) {
  return place_of(from, from->rows - 1 - r, from->columns - 1 - s);
}

/* The rim of a 3 x 3 kernel moves one place clockwise. */
static size_t by_eighth(const gconv_filter *from, int32_t r, int32_t s) {
  static const size_t places[9] = {3, 0, 1, 6, 4, 2, 7, 8, 5};
  return places[place_of(from, r, s)];
}

/* Appends the last filter, rotated, with its anchor. A quarter turn exchanges rows and columns. */
static gconv_status add_rotated(gconv_filters *list, rotation *rotate) {
  const gconv_filter *from = &list->items[list->count - 1];
  bool quarter = rotate == by_quarter;
  gconv_filter *to;
  GCONV_TRY(gconv_filters_add(list, quarter ? from->columns : from->rows, quarter ? from->rows : from->columns, &to));
  from = to - 1; /* the list may have moved */
  for (int32_t r = 0; r < to->rows; r++)
    for (int32_t s = 0; s < to->columns; s++) {
      size_t place = rotate(from, r, s);
      to->taps[place_of(to, r, s)] = from->taps[place];
      if (place == place_of(from, from->anchor_row, from->anchor_column)) {
        to->anchor_row = r;
        to->anchor_column = s;
      }
    }
  return GCONV_OK;
}

/* Returns whether ImageMagick regards two kernels as equal. nan equals nan, but not 0. */
static bool same(const gconv_filter *a, const gconv_filter *b) {
  if (a->rows != b->rows || a->columns != b->columns || a->anchor_row != b->anchor_row ||
      a->anchor_column != b->anchor_column)
    return false;
  for (size_t i = 0; i < (size_t)a->rows * (size_t)a->columns; i++)
    if (isnan(a->taps[i]) ? !isnan(b->taps[i]) : a->taps[i] != b->taps[i])
      return false;
  return true;
}

/* Appends rotated copies of the last filter until it comes back, which happens after at most 4 or 8 rotations. */
static gconv_status add_rotations(gconv_filters *list, rotation *rotate) {
  size_t first = list->count - 1;
  do
    GCONV_TRY(add_rotated(list, rotate));
  while (!same(&list->items[first], &list->items[list->count - 1]));
  gconv_filters_truncate(list, list->count - 1);
  return GCONV_OK;
}

/* Appends the rotations that the sign of an expansion demands for the last filter. */
static gconv_status expand(gconv_filters *list, const char *name, char sign) {
  const gconv_filter *filter = &list->items[list->count - 1];
  if (sign == '@' && (filter->rows != 3 || filter->columns != 3))
    return gconv_fail(GCONV_BAD_FILE, "%s: '@' turns by 45 degrees, which only 3 x 3 kernels can", name);
  if (filter->rows != filter->columns && filter->rows != 1 && filter->columns != 1)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: '%c' turns by 90 degrees, which only square kernels, single rows and single columns "
                      "can",
                      name, sign);
  if (sign != '<')
    return add_rotations(list, sign == '@' ? by_eighth : by_quarter);
  GCONV_TRY(add_rotated(list, by_half));
  GCONV_TRY(add_rotated(list, by_quarter));
  return add_rotated(list, by_half);
}

/* ---- Kernels ---- */

/* Appends the kernel of these numbers and its rotations. nan marks places outside of the neighbourhood. */
static gconv_status add_kernel(const gconv_text *text, const gconv_numbers *numbers, geometry *g, gconv_filters *list) {
  if (g->width == 0)
    GCONV_TRY(infer_square(text, numbers->count, g));
  size_t wanted = (size_t)g->width * (size_t)g->height;
  if (numbers->count != wanted)
    return gconv_fail(GCONV_BAD_FILE, "%s:%zu: the kernel of %d x %d needs %zu values, but has %zu", text->name, text->line,
                      g->width, g->height, wanted, numbers->count);
  gconv_filter *filter;
  GCONV_TRY(gconv_filters_add(list, g->height, g->width, &filter));
  memcpy(filter->taps, numbers->values, wanted * sizeof *filter->taps);
  filter->anchor_column = g->x < 0 ? (g->width - 1) / 2 : g->x;
  filter->anchor_row = g->y < 0 ? (g->height - 1) / 2 : g->y;
  return g->expansion ? expand(list, text->name, g->expansion) : GCONV_OK;
}

/* Reads one kernel, from the position of `text` to its end. */
static gconv_status read_kernel(gconv_text *text, gconv_filters *list) {
  gconv_field first;
  gconv_text ahead = *text;
  gconv_text_field(&ahead, &first);
  text->at = first.begin;
  if (is_letter(*first.begin) && !is_outside_mark(&first))
    return gconv_field_fail(text, &first, GCONV_UNSUPPORTED,
                            "'%.*s': ImageMagick's named kernels are not read; gconv has its own, such as sobel_x or "
                            "gaussian:sigma=1 (`gconv filters` lists them)",
                            (int)(first.end - first.begin > 24 ? 24 : first.end - first.begin), first.begin);
  geometry g = {.x = -1, .y = -1};
  const char *colon = find_colon(text);
  if (colon)
    GCONV_TRY(read_geometry(text, colon, &g));
  GCONV_ENDED_BY(gconv_numbers_free) gconv_numbers numbers = {0};
  GCONV_TRY(read_values(text, &numbers));
  return add_kernel(text, &numbers, &g, list);
}

/* Marks places outside of the neighbourhood, which are nan, by taps of -0. */
static void clear_outside(gconv_filter *filter) {
  for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++)
    filter->taps[i] = isnan(filter->taps[i]) ? -0.0f : filter->taps[i] + 0.0f; /* -0 becomes 0 */
  filter->marked = true;
}

static gconv_status parse(const gconv_content *content, gconv_filters *list) {
  GCONV_TRY(gconv_text_check(content));
  size_t first = list->count;
  gconv_text text = gconv_text_begin(content);
  while (gconv_text_find_line(&text)) {
    gconv_text kernel = text;
    kernel.end = find_kernel_end(&text);
    if (!gconv_text_find_line(&kernel))
      return fail_at(&kernel, kernel.at, "a kernel is missing before the ';'");
    GCONV_TRY(read_kernel(&kernel, list));
    const char *next = kernel.end < text.end ? kernel.end + 1 : text.end;
    text = (gconv_text){text.name, next, text.end, kernel.line_start, kernel.line, false};
  }
  if (list->count == first)
    return gconv_fail(GCONV_BAD_FILE, "%s: has no kernel", content->name);
  for (size_t i = first; i < list->count; i++) {
    clear_outside(&list->items[i]);
    gconv_filter_warn_rounded(content->name, &list->items[i]);
  }
  return GCONV_OK;
}

const gconv_syntax gconv_syntax_imagemagick = {
    .name = "imagemagick",
    .help = "a kernel string, \"3x3: 0,-1,0 -1,5,-1 0,-1,0\"; several separated by ';'",
    .recognise = recognise,
    .parse = parse,
};
