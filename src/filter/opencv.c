/* SPDX-License-Identifier: MIT */
/*
 * The files of OpenCV's FileStorage, as YAML or XML:
 *
 *     %YAML:1.0                           <opencv_storage>
 *     ---                                 <edge type_id="opencv-matrix">
 *     edge: !!opencv-matrix                 <rows>1</rows>
 *        rows: 1                            <cols>3</cols>
 *        cols: 3                            <dt>f</dt>
 *        dt: f                              <data>
 *        data: [ -1., 0., 1. ]                -1. 0. 1.</data></edge>
 *
 * Every matrix is a filter, and must have one channel. Everything else in the file is skipped.
 */
#include "base/memory.h"
#include "filter/text.h"

#include <string.h>

/* A part of the file. */
typedef struct span {
  const char *begin, *end;
} span;

/* The marks and keys of a matrix, as YAML or XML writes them. */
typedef struct notation {
  const char *matrix;                  /* the mark of a matrix, after its name */
  const char *rows, *cols, *dt, *data; /* the text before a value */
  const char *value_end, *data_end;    /* the letters that end a value, and the data */
} notation;

static const notation yaml = {"!!opencv-matrix", " rows:", " cols:", " dt:", " data:", "\r\n", "]"};
static const notation xml = {"type_id=\"opencv-matrix\"", "<rows>", "<cols>", "<dt>", "<data", "<", "<"};

typedef struct reader {
  const gconv_content *content;
  const notation *notation;
} reader;

/* ---- Places -------------------------------------------------------------------------------------------------------- */

static gconv_field field_at(const reader *r, span part) {
  gconv_field field = {.begin = part.begin, .end = part.end, .line = 1, .column = 1};
  for (const char *at = (const char *)r->content->bytes; at < part.begin; at++) {
    bool ends = *at == '\n' || (*at == '\r' && at[1] != '\n');
    field.line += ends;
    field.column = ends ? 1 : field.column + 1;
  }
  return field;
}

static gconv_status fail_at(const reader *r, span part, const char *text) {
  gconv_text whole = gconv_text_begin(r->content);
  gconv_field field = field_at(r, part);
  return gconv_field_fail(&whole, &field, GCONV_BAD_FILE, "%s", text);
}

/* Reads a number. Counts lines and columns only if the number is wrong, for the error text. */
static gconv_status read_number(const reader *r, span part, double *value) {
  gconv_text whole = gconv_text_begin(r->content);
  gconv_field field = {.begin = part.begin, .end = part.end};
  gconv_status status = gconv_field_number(&whole, &field, value);
  if (status == GCONV_OK)
    return GCONV_OK;
  field = field_at(r, part);
  return gconv_field_number(&whole, &field, value);
}

/* ---- Parts --------------------------------------------------------------------------------------------------------- */

static bool is_blank(char letter) {
  return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\n';
}

/* Returns the first occurrence of `text` in the part. If there is none, its begin is NULL. */
static span find(span part, const char *text) {
  const char *found = memmem(part.begin, (size_t)(part.end - part.begin), text, strlen(text));
  return (span){found, found ? found + strlen(text) : NULL};
}

/* Returns the part without blanks and quotes around it. */
static span trimmed(span part) {
  while (part.begin < part.end && (is_blank(*part.begin) || *part.begin == '"'))
    part.begin++;
  while (part.begin < part.end && (is_blank(part.end[-1]) || part.end[-1] == '"'))
    part.end--;
  return part;
}

/* Finds the value that follows `key` in the text of a matrix. */
static gconv_status find_value(const reader *r, span matrix, const char *key, span *value) {
  span found = find(matrix, key);
  if (!found.begin)
    return fail_at(r, matrix, "an opencv-matrix has rows, cols and dt before its data, and one of them is missing here");
  value->begin = found.end;
  value->end = found.end + strcspn(found.end, r->notation->value_end);
  *value = trimmed(*value);
  return GCONV_OK;
}

static gconv_status read_extent(const reader *r, span matrix, const char *key, int64_t *extent) {
  span part = matrix;
  double value = 0;
  GCONV_TRY(find_value(r, matrix, key, &part));
  if (part.begin == part.end)
    return fail_at(r, part, "a number of rows or columns is missing");
  GCONV_TRY(read_number(r, part, &value));
  if (!(value >= 1 && value <= GCONV_FILTER_MAX_SIDE) || value != (double)(int64_t)value)
    return fail_at(r, part, "rows and cols are integers from 1 to 32768");
  *extent = (int64_t)value;
  return GCONV_OK;
}

/* dt is a number of channels (1 if it is left out) and a letter for the type. */
static gconv_status check_type(const reader *r, span matrix) {
  span part = matrix;
  GCONV_TRY(find_value(r, matrix, r->notation->dt, &part));
  if (part.end - part.begin == 2 && *part.begin == '1')
    part.begin++;
  if (part.end - part.begin == 1 && strchr("ucwsifdh", *part.begin))
    return GCONV_OK;
  return fail_at(r, part, "a filter is a matrix of one channel: dt is one of u, c, w, s, i, f, d and h");
}

/* ---- Matrices ------------------------------------------------------------------------------------------------------ */

/* Reads the numbers of `data`, with blanks or commas between them. */
static gconv_status read_data(const reader *r, span data, gconv_filter *filter) {
  size_t count = (size_t)filter->rows * (size_t)filter->columns, read = 0;
  for (const char *at = data.begin; at < data.end;) {
    if (is_blank(*at) || *at == ',') {
      at++;
      continue;
    }
    span part = {at, at};
    while (part.end < data.end && !is_blank(*part.end) && *part.end != ',')
      part.end++;
    double value;
    if (read == count)
      return fail_at(r, part, "there are more numbers than rows times cols");
    GCONV_TRY(read_number(r, part, &value));
    filter->taps[read++] = (float)value;
    at = part.end;
  }
  return read == count ? GCONV_OK : fail_at(r, (span){data.end, data.end}, "there are fewer numbers than rows times cols");
}

/* Sets *data to the numbers, and cuts *matrix to the text before the data. */
static gconv_status find_data(const reader *r, span *matrix, span *data) {
  span found = find(*matrix, r->notation->data);
  if (!found.begin)
    return fail_at(r, *matrix, "an opencv-matrix has data, which are missing here");
  data->begin = found.end;
  while (data->begin < matrix->end && is_blank(*data->begin))
    data->begin++;
  if (*data->begin != (r->notation == &yaml ? '[' : '>'))
    return fail_at(r, *data, "data in base64 are not read: have FileStorage write numbers");
  data->begin++;
  data->end = data->begin + strcspn(data->begin, r->notation->data_end);
  if (data->end >= matrix->end)
    return fail_at(r, *data, "these data have no end");
  if (memmem(data->begin, (size_t)(data->end - data->begin), "$base64$", 8))
    return fail_at(r, *data, "data in base64 are not read: have FileStorage write numbers");
  matrix->end = found.begin;
  return GCONV_OK;
}

static gconv_status read_matrix(const reader *r, span matrix, span name, gconv_filters *list) {
  span data = matrix;
  int64_t rows, columns;
  gconv_filter *filter;
  GCONV_TRY(find_data(r, &matrix, &data));
  GCONV_TRY(read_extent(r, matrix, r->notation->rows, &rows));
  GCONV_TRY(read_extent(r, matrix, r->notation->cols, &columns));
  GCONV_TRY(check_type(r, matrix));
  GCONV_TRY(gconv_filter_check_size(r->content->name, rows, columns));
  if (rows * columns > (data.end - data.begin + 1) / 2) /* a number takes a digit, and a comma or blank */
    return fail_at(r, (span){data.end, data.end}, "there are fewer numbers than rows times cols");
  GCONV_TRY(gconv_filters_add(list, (int32_t)rows, (int32_t)columns, &filter));
  bool named = name.begin < name.end;
  filter->name = named ? gconv_format_text("%.*s", (int)(name.end - name.begin), name.begin) : NULL;
  if (named && !filter->name)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a name", r->content->name);
  GCONV_TRY(read_data(r, data, filter));
  gconv_filter_warn_rounded(r->content->name, filter);
  return GCONV_OK;
}

/* Returns the name of a matrix, which stands before its mark in the same line: `edge` of "edge: " or "<edge ". */
static span name_before(const reader *r, const char *mark) {
  enum { MOST_BYTES = 200 };
  const char *first = (const char *)r->content->bytes;
  span name = {mark, mark};
  while (name.end > first && (is_blank(name.end[-1]) || name.end[-1] == ':') && name.end[-1] != '\n')
    name.end--;
  name.begin = name.end;
  while (name.begin > first && name.end - name.begin < MOST_BYTES && !is_blank(name.begin[-1]) && name.begin[-1] != '<')
    name.begin--;
  return trimmed(name);
}

/* ---- The syntax ---------------------------------------------------------------------------------------------------- */

static bool begins_with(const gconv_content *content, const char *text) {
  size_t length = strlen(text);
  return content->size >= length && memcmp(content->bytes, text, length) == 0;
}

static bool recognise(const gconv_content *content) {
  return begins_with(content, "%YAML") || begins_with(content, "<?xml") || begins_with(content, "<opencv_storage");
}

static gconv_status parse(const gconv_content *content, gconv_filters *list) {
  GCONV_TRY(gconv_text_check(content));
  span rest = {(const char *)content->bytes, (const char *)content->bytes + content->size};
  reader r = {content, find(rest, "<opencv_storage").begin ? &xml : &yaml};
  span mark = find(rest, r.notation->matrix);
  if (!mark.begin)
    return gconv_fail(GCONV_BAD_FILE, "%s: has no opencv-matrix, which OpenCV's FileStorage makes of a cv::Mat",
                      content->name);
  while (mark.begin) {
    rest.begin = mark.end;
    span next = find(rest, r.notation->matrix);
    span matrix = {mark.end, next.begin ? next.begin : rest.end};
    GCONV_TRY(read_matrix(&r, matrix, name_before(&r, mark.begin), list));
    mark = next;
  }
  return GCONV_OK;
}

const gconv_syntax gconv_syntax_opencv = {
    .name = "opencv",
    .help = "what OpenCV's FileStorage writes, as YAML or XML: each matrix is a filter",
    .recognise = recognise,
    .parse = parse,
};
