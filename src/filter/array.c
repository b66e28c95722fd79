/* SPDX-License-Identifier: MIT */
/*
 * An array in brackets, as programs in Python, NumPy, MATLAB or C have it, or print it:
 *
 *   k = np.array([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], dtype=np.float32) / 9
 *   [0 -1 0; -1 5 -1; 0 -1 0]
 *   static const float k[3][3] = {{0, -1.f, 0}, {-1, 5, -1}, {0, -1, 0}};
 *
 * Rows have brackets of their own, or end at a ';' or at the end of a line. Before the array there may be an assignment, a
 * number and '*', and a call that makes arrays. Behind it there may be '*' or '/' and a number, a dtype, and a ';'. Anything
 * else might change the array, and is refused.
 */
#include "filter/number.h"
#include "filter/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An array that is being read. */
typedef struct array {
  gconv_text text;
  double times, over;             /* every number is multiplied by the first, then divided by the second */
  double found_times, found_over; /* the values of these that the text gives */
  int parentheses;                /* open ones */
  gconv_numbers numbers;
  int32_t rows, columns;
  int32_t count;   /* of numbers in this row */
  bool after_item; /* in this row, and no comma since */
} array;

static bool starts_number(char c) {
  return (c >= '0' && c <= '9') || (c && strchr("+-.", c));
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

static bool starts_comment(const gconv_text *text) {
  return *text->at == '#' || *text->at == '%' || (*text->at == '/' && text->at[1] == '/');
}

static void skip_comment(gconv_text *text) {
  while (text->at < text->end && !gconv_ends_line(*text->at))
    text->at++;
}

/* Skips blanks, comments and ends of lines. Returns whether there was an end of a line. */
static bool skip_space(gconv_text *text) {
  size_t line = text->line;
  while (text->at < text->end)
    if (gconv_ends_line(*text->at))
      gconv_text_next_line(text);
    else if (starts_comment(text))
      skip_comment(text);
    else if (strchr(" \t\v\f", *text->at))
      text->at++;
    else
      break;
  return text->line > line;
}

/* Skips space, and `word` if it is next. Returns whether it was. */
static bool take(gconv_text *text, const char *word) {
  skip_space(text);
  size_t length = strlen(word);
  if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length) != 0)
    return false;
  text->at += length;
  return true;
}

static gconv_status fail_here(const gconv_text *text, const char *what) {
  gconv_field field = gconv_text_place(text);
  size_t left = (size_t)(text->end - text->at), shown = left < 24 ? left : 24;
  for (size_t i = 0; i < shown; i++)
    if (gconv_ends_line(text->at[i]))
      shown = i;
  return shown == 0 ? gconv_field_fail(text, &field, GCONV_BAD_FILE, "%s", what)
                    : gconv_field_fail(text, &field, GCONV_BAD_FILE, "at '%.*s': %s", (int)shown, text->at, what);
}

/* Reads a number of a program. In C it may end with f. */
static gconv_status read_number(gconv_text *text, double *value) {
  const char *end = text->at;
  while (end < text->end && !gconv_ends_line(*end) && !strchr(" \t\v\f,;[]{}()*#%", *end))
    end++;
  gconv_field field = gconv_text_place(text);
  field.end = end;
  bool hexadecimal = memchr(text->at, 'x', (size_t)(end - text->at)) || memchr(text->at, 'X', (size_t)(end - text->at));
  if (end - text->at > 1 && (end[-1] == 'f' || end[-1] == 'F') && !hexadecimal)
    field.end--;
  text->at = end;
  return gconv_field_number(text, &field, value);
}

/* ---- Before the array ---- */

/* Skips "NAME =": everything up to the first '=', if it contains no list. */
static void skip_assignment(gconv_text *text) {
  const char *at = text->at;
  while (at < text->end && !strchr("=,;{#%", *at))
    at++;
  if (at == text->end || *at != '=')
    return;
  while (text->at <= at)
    if (gconv_ends_line(*text->at))
      gconv_text_next_line(text);
    else
      text->at++;
}

/* Takes "1/9 *" or "(1/9) *". Leaves *text unchanged if it is neither. */
static bool take_factor(gconv_text *text, double *factor) {
  gconv_text ahead = *text;
  bool closes = take(&ahead, "(");
  skip_space(&ahead);
  if (!starts_number(*ahead.at) || read_number(&ahead, factor) != GCONV_OK || (closes && !take(&ahead, ")")))
    return false;
  if (!take(&ahead, "*") && !take(&ahead, ".*"))
    return false;
  *text = ahead;
  return true;
}

/* Takes "np.array(" and similar calls, which do not change the array, or "(". */
static bool take_call(gconv_text *text) {
  static const char *const calls[] = {"array",      "np.array",     "numpy.array", "asarray", "np.asarray",
                                      "tensor",     "torch.tensor", "jnp.array",   "single",  "double",
                                      "np.float32", "torch.Tensor", "np.matrix",   "matrix",  "Matrix"};
  gconv_text ahead = *text;
  skip_space(&ahead);
  const char *name = ahead.at;
  while (ahead.at < ahead.end && is_word(*ahead.at))
    ahead.at++;
  size_t length = (size_t)(ahead.at - name);
  bool known = length == 0;
  for (size_t i = 0; i < sizeof calls / sizeof *calls && !known; i++)
    known = strlen(calls[i]) == length && memcmp(calls[i], name, length) == 0;
  if (!known || !take(&ahead, "("))
    return false;
  *text = ahead;
  return true;
}

/* Goes to the bracket that opens the array. */
static gconv_status read_beginning(array *a) {
  skip_assignment(&a->text);
  double factor;
  if (take_factor(&a->text, &factor))
    a->found_times *= factor;
  while (take_call(&a->text))
    a->parentheses++;
  skip_space(&a->text);
  if (a->text.at < a->text.end && (*a->text.at == '[' || *a->text.at == '{'))
    return GCONV_OK;
  return fail_here(&a->text, "expected an array in brackets, such as [[0, -1, 0], [-1, 5, -1], [0, -1, 0]] or [0 -1 0; -1 5 "
                             "-1; 0 -1 0]; before it there may be a name and '=', a number and '*', and np.array(");
}

/* ---- The array ---- */

static gconv_status end_row(array *a) {
  if (a->count == 0)
    return fail_here(&a->text, "a row without numbers ends here");
  if (a->rows > 0 && a->count != a->columns)
    return gconv_fail(GCONV_BAD_FILE, "%s:%zu: row %d has %d number%s, and the first has %d; all rows have one length",
                      a->text.name, a->text.line, a->rows + 1, a->count, a->count == 1 ? "" : "s", a->columns);
  a->columns = a->count;
  a->count = 0;
  a->rows++;
  return GCONV_OK;
}

static gconv_status add_number(array *a) {
  double value;
  GCONV_TRY(read_number(&a->text, &value));
  value = value * a->times / a->over;
  if (!isfinite((float)value))
    return fail_here(&a->text, "the number before this is too large for float32 (3.4e38)");
  a->count++;
  a->after_item = true;
  return gconv_numbers_add(&a->numbers, (float)value, a->text.name);
}

/* Reads the brackets, commas and numbers of one row, behind its opening bracket, up to `closer`. */
static gconv_status read_inner_row(array *a, char closer) {
  for (a->after_item = false;;) {
    skip_space(&a->text);
    if (a->text.at == a->text.end)
      return fail_here(&a->text, "the array ends before the bracket of this row is closed");
    if (*a->text.at == closer)
      break;
    if (strchr("[{", *a->text.at))
      return fail_here(&a->text,
                       "a filter has two levels of brackets: rows, and numbers; give several filters by an -f each");
    if (*a->text.at == ',' && a->after_item) {
      a->after_item = false;
      a->text.at++;
    } else {
      GCONV_TRY(add_number(a));
    }
  }
  GCONV_TRY(end_row(a));
  a->text.at++;
  a->after_item = true;
  return GCONV_OK;
}

/* Takes one step inside the outer brackets. Rows are in brackets (`nested`), or end with ';' or a line. */
static gconv_status read_item(array *a, bool nested) {
  char c = *a->text.at;
  if (c == '[' || c == '{') {
    if (!nested)
      return fail_here(&a->text, "numbers in brackets stand beside numbers without");
    a->text.at++;
    return read_inner_row(a, c == '[' ? ']' : '}');
  }
  if (c == ';') {
    if (!nested)
      GCONV_TRY(end_row(a));
  } else if (c != ',' || !a->after_item) {
    return nested && c != ',' ? fail_here(&a->text, "a number stands beside rows in brackets") : add_number(a);
  }
  a->after_item = false;
  a->text.at++;
  return GCONV_OK;
}

static gconv_status read_brackets(array *a) {
  char closer = *a->text.at++ == '[' ? ']' : '}';
  skip_space(&a->text);
  bool nested = a->text.at < a->text.end && strchr("[{", *a->text.at);
  for (a->after_item = false;;) {
    if (skip_space(&a->text) && !nested && a->count > 0) {
      GCONV_TRY(end_row(a));
      a->after_item = false;
    }
    if (a->text.at == a->text.end)
      return fail_here(&a->text, "the text ends before the brackets of the array are closed");
    if (*a->text.at == closer)
      break;
    GCONV_TRY(read_item(a, nested));
  }
  if (!nested && (a->count > 0 || a->rows == 0))
    GCONV_TRY(end_row(a));
  a->text.at++;
  return GCONV_OK;
}

/* ---- Behind the array ---- */

/* Reads the number to the right of '*' or '/'. */
static gconv_status read_operand(array *a, double *value) {
  bool closes = take(&a->text, "(");
  skip_space(&a->text);
  GCONV_TRY(read_number(&a->text, value));
  return !closes || take(&a->text, ")") ? GCONV_OK : fail_here(&a->text, "expected a ')'");
}

static gconv_status read_end(array *a) {
  double value;
  for (skip_space(&a->text); a->text.at < a->text.end; skip_space(&a->text)) {
    if (a->parentheses > 0 && take(&a->text, ")")) {
      a->parentheses--;
    } else if (a->parentheses > 0 && take(&a->text, ",") && (take(&a->text, "dtype") || *a->text.at == ')')) {
      while (a->text.at < a->text.end && *a->text.at != ')')
        a->text.at++;
    } else if (take(&a->text, "*") || take(&a->text, ".*")) {
      GCONV_TRY(read_operand(a, &value));
      a->found_times *= value;
    } else if (take(&a->text, "/") || take(&a->text, "./")) {
      GCONV_TRY(read_operand(a, &value));
      if (value == 0)
        return fail_here(&a->text, "the array is divided by 0");
      a->found_over *= value;
    } else if (!take(&a->text, ";")) {
      return fail_here(&a->text, "behind an array there may be '*' or '/' and a number, a dtype, and a ';', nothing else");
    }
  }
  return a->parentheses == 0 ? GCONV_OK : fail_here(&a->text, "a ')' is missing at the end");
}

static array begin(const gconv_content *content, double times, double over) {
  return (array){.text = gconv_text_begin(content), .times = times, .over = over, .found_times = 1, .found_over = 1};
}

static gconv_status read_all(array *a) {
  GCONV_TRY(read_beginning(a));
  GCONV_TRY(read_brackets(a));
  GCONV_TRY(gconv_filter_check_size(a->text.name, a->rows, a->columns));
  return read_end(a);
}

bool gconv_array_begins(const gconv_content *content) {
  array a = begin(content, 1, 1);
  return read_beginning(&a) == GCONV_OK;
}

/* Returns whether there is a bracket outside of comments. No other text syntax has brackets. */
static bool recognise(const gconv_content *content) {
  gconv_text text = gconv_text_begin(content);
  for (skip_space(&text); text.at < text.end; skip_space(&text))
    if (*text.at == '[' || *text.at == '{')
      return true;
    else
      text.at++;
  return false;
}

static gconv_status parse(const gconv_content *content, gconv_filters *list) {
  GCONV_TRY(gconv_text_check(content));
  gconv_filter *filter = NULL;
  array plain = begin(content, 1, 1);
  gconv_status status = read_all(&plain);
  free(plain.numbers.values);
  /* Reads the text again, because the factor may follow the numbers, and each number is to be rounded once. */
  array scaled = begin(content, plain.found_times, plain.found_over);
  if (status == GCONV_OK)
    status = read_all(&scaled);
  if (status == GCONV_OK)
    status = gconv_filters_add(list, scaled.rows, scaled.columns, &filter);
  if (status == GCONV_OK) {
    memcpy(filter->taps, scaled.numbers.values, scaled.numbers.count * sizeof *filter->taps);
    gconv_filter_warn_rounded(content->name, filter);
  }
  free(scaled.numbers.values);
  return status;
}

const gconv_syntax gconv_syntax_array = {
    .name = "array",
    .help = "an array in brackets, as in Python, NumPy, MATLAB or C",
    .recognise = recognise,
    .parse = parse,
};
