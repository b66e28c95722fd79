/* SPDX-License-Identifier: MIT */
/* Reads the matrix of libvips (.mat, .con): a line "width height [scale [offset]]", then height rows of width numbers. A
 * response is sum / scale + offset. */
#include "filter/number.h"
#include "filter/rows.h"

enum { HEADER_FIELDS = 4, MAX_DIGITS = 9 };

typedef struct header {
  int32_t width, height;
  double scale, offset;
} header;

/* Reads a positive integer of few digits. Returns false for anything else. */
static bool read_size(const gconv_field *field, int32_t *size) {
  return field->end - field->begin <= MAX_DIGITS && gconv_count_read(field->begin, field->end, size) && *size > 0;
}

/* Reads the first line. */
static gconv_status read_header(gconv_text *text, header *h) {
  gconv_field fields[HEADER_FIELDS + 1];
  int count = 0;
  gconv_text_find_line(text);
  while (count <= HEADER_FIELDS && gconv_text_field(text, &fields[count]))
    count++;
  if (count < 2 || count > HEADER_FIELDS)
    return gconv_field_fail(text, &fields[0], GCONV_BAD_FILE,
                            "the first line of a vips matrix has 2 to 4 numbers: width height [scale [offset]]");
  if (!read_size(&fields[0], &h->width) || !read_size(&fields[1], &h->height))
    return gconv_field_fail(text, &fields[0], GCONV_BAD_FILE,
                            "a vips matrix begins with its width and height, two positive integers");
  *h = (header){h->width, h->height, 1, 0};
  if (count > 2)
    GCONV_TRY(gconv_field_number(text, &fields[2], &h->scale));
  if (count > 3)
    GCONV_TRY(gconv_field_number(text, &fields[3], &h->offset));
  if ((float)h->scale == 0)
    return gconv_field_fail(text, &fields[2], GCONV_BAD_FILE, "the scale of a vips matrix divides the sum; it cannot be 0");
  return GCONV_OK;
}

/* Checks the first line as read_header() does, but sets no last error. */
bool gconv_vips_promises(const gconv_content *content, int32_t *width, int32_t *height) {
  gconv_text text = gconv_text_begin(content);
  gconv_field field;
  int count = 0;
  for (gconv_text_find_line(&text); gconv_text_field(&text, &field); count++)
    if ((count == 0 && !read_size(&field, width)) || (count == 1 && !read_size(&field, height)) || count == HEADER_FIELDS)
      return false;
  return count >= 2 && *width <= GCONV_FILTER_MAX_SIDE && *height <= GCONV_FILTER_MAX_SIDE;
}

static bool recognise(const gconv_content *content) {
  int32_t width, height;
  size_t rows, columns;
  if (!gconv_vips_promises(content, &width, &height))
    return false;
  gconv_text text = gconv_text_begin(content);
  gconv_text_find_line(&text);
  return gconv_text_next_line(&text) && gconv_rows_count(text, &rows, &columns) && rows == (size_t)height &&
         columns == (size_t)width;
}

static gconv_status parse(const gconv_content *content, gconv_filters *list) {
  GCONV_TRY(gconv_text_check(content));
  gconv_text text = gconv_text_begin(content);
  header h;
  GCONV_TRY(read_header(&text, &h));
  GCONV_TRY(gconv_filter_check_size(content->name, h.height, h.width));
  gconv_text_next_line(&text);
  GCONV_TRY(gconv_rows_read(&text, h.height, h.width, list));
  gconv_filter *filter = &list->items[list->count - 1];
  filter->divisor = (float)h.scale;
  filter->offset = (float)h.offset;
  gconv_filter_warn_rounded(content->name, filter);
  return GCONV_OK;
}

const gconv_syntax gconv_syntax_vips = {
    .name = "vips",
    .help = "a line \"width height [scale [offset]]\", then the rows; the result is sum / scale + offset",
    .recognise = recognise,
    .parse = parse,
};
