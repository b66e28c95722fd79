/* SPDX-License-Identifier: MIT */
/*
 * Reads an array as programs in Python, NumPy, MATLAB or C have it in their source, or print it:
 *
 *   k = np.array([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], dtype=np.float32) / 9
 *   [0 -1 0; -1 5 -1; 0 -1 0]
 *   static const float k[3][3] = {{0, -1.f, 0}, {-1, 5, -1}, {0, -1, 0}};
 *   ones(3) / 9        np.ones((3, 3)) / 9        [1 2 1]' * [1 0 -1] / 8        np.outer([1, 2, 1], [1, 0, -1])
 *
 * There may be an assignment before the array, and a ';' after it. Expressions are computed in float64 from left to right,
 * and rounded to float32 once. An expression is refused if it has other operations than these, or if it means different
 * things in these languages.
 */
#include "filter/array_literal.h"
#include "filter/builtin.h"
#include "filter/number.h"

#include <math.h>
#include <string.h>

/* Limits of the work of a text, because short texts could make large arrays. */
enum {
  MOST_STEPS = 64,       /* parentheses, functions and operations */
  MOST_NUMBERS = 1 << 28 /* computed numbers: four times as many as the largest array has */
};

typedef struct effort {
  int steps;
  uint64_t numbers;
} effort;

static const char *const expected =
    "expected an array in brackets, such as [[0, -1, 0], [-1, 5, -1], [0, -1, 0]] or [0 -1 0; -1 5 -1; 0 -1 0], or ones(3); "
    "before it there may be a name and '=', a number and '*', and np.array(";

static bool is_next(const gconv_text *text, const char *word) {
  size_t length = strlen(word);
  return (size_t)(text->end - text->at) >= length && memcmp(text->at, word, length) == 0;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Returns whether a number is next. A sign or point alone is no number. */
static bool starts_number(const gconv_text *text) {
  const char *at = text->at;
  for (int i = 0; i < 2 && at < text->end && *at && strchr("+-.", *at); i++)
    at++;
  return at < text->end && is_digit(*at);
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.';
}

/* Skips "NAME =": everything up to the first '=', if it contains no list. */
static void skip_assignment(gconv_text *text) {
  const char *at = text->at;
  while (at < text->end && !strchr("=,;{#%(", *at))
    at++;
  if (at == text->end || *at != '=')
    return;
  while (text->at <= at)
    if (gconv_ends_line(*text->at))
      gconv_text_next_line(text);
    else
      text->at++;
}

/* ---- Functions ------------------------------------------------------------------------------------------------------ */

/* The functions of other programs that are read. */
typedef enum function {
  UNKNOWN,
  SAME,    /* the result is the first argument */
  ONES,    /* ones of MATLAB: ones(3) is 3 x 3 */
  VECTORS, /* ones of NumPy: np.ones(3) is a vector of 3 */
  OUTER,   /* the outer product of two vectors */
  FSPECIAL /* fspecial of MATLAB, whose filters gconv has as built-in filters */
} function;

static const struct {
  const char *name;
  function is;
} functions[] = {
    {"", SAME}, /* parentheses */
    {"array", SAME},
    {"np.array", SAME},
    {"numpy.array", SAME},
    {"asarray", SAME},
    {"np.asarray", SAME},
    {"tensor", SAME},
    {"torch.tensor", SAME},
    {"torch.Tensor", SAME},
    {"jnp.array", SAME},
    {"single", SAME},
    {"double", SAME},
    {"np.float32", SAME},
    {"np.float64", SAME},
    {"np.matrix", SAME},
    {"matrix", SAME},
    {"Matrix", SAME},
    {"ones", ONES},
    {"np.ones", VECTORS},
    {"numpy.ones", VECTORS},
    {"jnp.ones", VECTORS},
    {"torch.ones", VECTORS},
    {"np.outer", OUTER},
    {"numpy.outer", OUTER},
    {"outer", OUTER},
    {"fspecial", FSPECIAL},
};

/* Takes the name of a function and the '(' after it, or '(' alone. If neither is next, leaves *text unchanged and returns
 * UNKNOWN. */
static function take_function(gconv_text *text) {
  gconv_text ahead = *text;
  gconv_array_skip_space(&ahead);
  const char *name = ahead.at;
  while (ahead.at < ahead.end && is_word(*ahead.at))
    ahead.at++;
  size_t length = (size_t)(ahead.at - name);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (strlen(functions[i].name) == length && memcmp(functions[i].name, name, length) == 0 && is_next(&ahead, "(")) {
      *text = ahead;
      text->at++;
      return functions[i].is;
    }
  return UNKNOWN;
}

/* Takes the end of a call. After the first argument there may be a type, which is ignored. */
static gconv_status end_call(gconv_text *text) {
  gconv_array_skip_space(text);
  if (is_next(text, ",")) {
    gconv_text ahead = *text;
    ahead.at++;
    if (gconv_array_take(&ahead, "dtype") || gconv_array_take(&ahead, "np.") || gconv_array_take(&ahead, ")")) {
      while (text->at < text->end && *text->at != ')' && !gconv_ends_line(*text->at))
        text->at++;
    }
  }
  if (gconv_array_take(text, ")"))
    return GCONV_OK;
  return gconv_array_fail(text, text->at == text->end ? "a ')' is missing at the end" : "expected a ')'");
}

/* ---- Sizes: ones(3), ones(3, 5), np.ones((3, 5)), ones([3 5]) ---- */

static gconv_status read_count(gconv_text *text, int32_t *count) {
  gconv_array_skip_space(text);
  const char *begin = text->at;
  while (text->at < text->end && is_digit(*text->at))
    text->at++;
  if (begin < text->at && gconv_count_read(begin, text->at, count) && *count > 0)
    return GCONV_OK;
  text->at = begin;
  return gconv_array_fail(text,
                          "expected a size, a whole number above 0, such as in ones(3), ones(3, 5) or np.ones((3, 5))");
}

static gconv_status read_sizes(gconv_text *text, bool vectors, int32_t *rows, int32_t *columns) {
  bool round = gconv_array_take(text, "("), square = !round && gconv_array_take(text, "[");
  GCONV_TRY(read_count(text, rows));
  const gconv_text before = *text;
  bool comma = gconv_array_take(text, ",");
  bool second = text->at < text->end && (gconv_array_skip_space(text), is_digit(*text->at)) && (comma || square);
  *columns = *rows;
  if (second)
    GCONV_TRY(read_count(text, columns));
  else if (vectors)
    *rows = 1;
  if ((round && !gconv_array_take(text, ")")) || (square && !gconv_array_take(text, "]")))
    return gconv_array_fail(text, round ? "expected a ')'" : "expected a ']'");
  if (comma && !second && !round && !square)
    *text = before; /* the comma is before another argument */
  return GCONV_OK;
}

static gconv_status read_ones(gconv_text *text, bool vectors, gconv_matrix *result) {
  int32_t rows, columns;
  GCONV_TRY(read_sizes(text, vectors, &rows, &columns));
  GCONV_TRY(gconv_matrix_make(text->name, rows, columns, result));
  for (size_t i = 0; i < (size_t)rows * (size_t)columns; i++)
    result->values[i] = 1;
  return GCONV_OK;
}

/* ---- MATLAB's fspecial ---- */

/* Fails, and names the built-in filter for fspecial('NAME', ...). Parameters and defaults are the same, in the same order.
 */
static gconv_status explain_fspecial(gconv_text *text) {
  char name[32], value[64], spec[256];
  size_t length = 0, used;
  gconv_array_skip_space(text);
  if (text->at < text->end && (*text->at == '\'' || *text->at == '"'))
    text->at++;
  while (text->at < text->end && is_word(*text->at) && length + 1 < sizeof name)
    name[length++] = *text->at++;
  name[length] = '\0';
  if (strcmp(name, "sobel") == 0 || strcmp(name, "prewitt") == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: fspecial('%s') is the negative of %s_y here", text->name, name, name);
  const gconv_builtin *builtin = gconv_builtin_find(name);
  if (!builtin)
    return gconv_fail(GCONV_BAD_FILE, "%s: fspecial is not read here, but its filters are built in: gaussian:size=5,sigma=1",
                      text->name);
  text->at += text->at < text->end;
  used = (size_t)snprintf(spec, sizeof spec, "%s", name);
  for (const gconv_parameter *p = builtin->parameters; p->name && gconv_array_take(text, ","); p++) {
    bool list = gconv_array_take(text, "[");
    gconv_array_skip_space(text);
    for (length = 0; text->at < text->end && !strchr(list ? "]" : ",) ", *text->at) && length + 1 < sizeof value; text->at++)
      value[length++] = *text->at == ' ' || *text->at == ',' ? 'x' : *text->at;
    value[length] = '\0';
    text->at += list && text->at < text->end;
    if (used < sizeof spec)
      used += (size_t)snprintf(spec + used, sizeof spec - used, "%c%s=%s", strchr(spec, ':') ? ',' : ':', p->name, value);
  }
  return gconv_fail(GCONV_BAD_FILE, "%s: fspecial is built in: here this filter is %s", text->name, spec);
}

/* ---- Products ------------------------------------------------------------------------------------------------------- */

static size_t count_of(const gconv_matrix *m) {
  return (size_t)m->rows * (size_t)m->columns;
}

static bool is_scalar(const gconv_matrix *m) {
  return count_of(m) == 1;
}

static void transpose(gconv_matrix *m, const double *from) {
  for (int32_t r = 0; r < m->rows; r++)
    for (int32_t c = 0; c < m->columns; c++)
      m->values[(size_t)c * (size_t)m->rows + (size_t)r] = from[(size_t)r * (size_t)m->columns + (size_t)c];
  int32_t rows = m->rows;
  m->rows = m->columns;
  m->columns = rows;
}

static bool take_transposition(gconv_text *text) {
  size_t length = is_next(text, "'") ? 1 : is_next(text, ".'") || is_next(text, ".T") ? 2 : 0;
  text->at += length;
  return length > 0;
}

static gconv_status exchange_axes(const gconv_text *text, gconv_matrix *m) {
  gconv_matrix copy;
  GCONV_TRY(gconv_matrix_make(text->name, m->rows, m->columns, &copy));
  memcpy(copy.values, m->values, count_of(m) * sizeof *copy.values);
  transpose(m, copy.values);
  free(copy.values);
  return GCONV_OK;
}

/* Makes *a the outer product of two vectors. Each may be a row or a column. */
static gconv_status multiply_vectors(const gconv_text *text, gconv_matrix *a, const gconv_matrix *b) {
  gconv_matrix product;
  size_t rows = count_of(a), columns = count_of(b);
  GCONV_TRY(gconv_matrix_make(text->name, (int64_t)rows, (int64_t)columns, &product));
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < columns; c++)
      product.values[r * columns + c] = a->values[r] * b->values[c];
  free(a->values);
  *a = product;
  return GCONV_OK;
}

/* Multiplies *a by *b. One must be a number, or *a a column and *b a row. May exchange the two. */
static gconv_status multiply(const gconv_text *text, gconv_matrix *a, gconv_matrix *b) {
  if (is_scalar(a) && !is_scalar(b)) {
    gconv_matrix number = *a;
    *a = *b;
    *b = number;
  }
  if (!is_scalar(b) && a->columns == 1 && b->rows == 1)
    return multiply_vectors(text, a, b);
  if (!is_scalar(b) && a->rows == 1 && b->columns == 1)
    return gconv_array_fail(text,
                            "a row times a column is one number in MATLAB, and an array in NumPy: for the array, write the "
                            "column first");
  if (!is_scalar(b))
    return gconv_array_fail(text,
                            "two arrays are multiplied before this; only a number times an array, and a column times a "
                            "row, such as [1 2 1]' * [1 0 -1], are read here");
  for (size_t i = 0; i < count_of(a); i++)
    a->values[i] *= b->values[0];
  return GCONV_OK;
}

static gconv_status divide(const gconv_text *text, gconv_matrix *a, const gconv_matrix *b) {
  if (!is_scalar(b))
    return gconv_array_fail(text, "an array is divided by a number, not by an array as before this");
  if (b->values[0] == 0)
    return gconv_array_fail(text, "the array is divided by 0");
  for (size_t i = 0; i < count_of(a); i++)
    a->values[i] /= b->values[0];
  return GCONV_OK;
}

/* ---- Expressions: products and quotients of factors ------------------------------------------------------------------- */

static gconv_status read_expression(gconv_text *text, effort *spent, gconv_matrix *result);

/* Counts a function, parenthesis or operation. */
static gconv_status count_step(const gconv_text *text, effort *spent) {
  if (++spent->steps <= MOST_STEPS)
    return GCONV_OK;
  return gconv_array_fail(text,
                          "there are more parentheses, functions and operations than any array needs: the limit is 64");
}

/* Counts the numbers of an array that was computed. */
static gconv_status count_numbers(const gconv_text *text, const gconv_matrix *m, effort *spent) {
  spent->numbers += count_of(m);
  return spent->numbers <= MOST_NUMBERS
             ? GCONV_OK
             : gconv_fail(GCONV_TOO_LARGE,
                          "%s: its functions and operations compute more than %d numbers, which is the limit: write what "
                          "they come to",
                          text->name, MOST_NUMBERS);
}

static gconv_status read_number(gconv_text *text, gconv_matrix *result) {
  double value;
  GCONV_TRY(gconv_array_number(text, "/'@", &value));
  GCONV_TRY(gconv_matrix_make(text->name, 1, 1, result));
  result->values[0] = value;
  return GCONV_OK;
}

/* Reads both arguments of np.outer(). */
static gconv_status read_outer(gconv_text *text, effort *spent, gconv_matrix *result) {
  GCONV_ENDED_BY(gconv_matrix_free) gconv_matrix second = {0};
  GCONV_TRY(read_expression(text, spent, result));
  if (!gconv_array_take(text, ","))
    return gconv_array_fail(text, "expected a ',' and the second vector of the outer product");
  GCONV_TRY(read_expression(text, spent, &second));
  return multiply_vectors(text, result, &second);
}

static gconv_status read_call(gconv_text *text, function is, effort *spent, gconv_matrix *result) {
  GCONV_TRY(count_step(text, spent));
  if (is == FSPECIAL)
    return explain_fspecial(text);
  GCONV_TRY(is == SAME    ? read_expression(text, spent, result)
            : is == OUTER ? read_outer(text, spent, result)
                          : read_ones(text, is == VECTORS, result));
  if (is != SAME)
    GCONV_TRY(count_numbers(text, result, spent));
  return end_call(text);
}

static gconv_status read_primary(gconv_text *text, effort *spent, gconv_matrix *result) {
  gconv_array_skip_space(text);
  if (text->at < text->end && (*text->at == '[' || *text->at == '{'))
    return gconv_array_brackets(text, result);
  gconv_text here = *text;
  function is = take_function(text);
  if (is != UNKNOWN)
    return read_call(text, is, spent, result);
  if (starts_number(text) && read_number(text, result) == GCONV_OK)
    return GCONV_OK;
  *text = here;
  return gconv_array_fail(text, expected);
}

/* Reads a factor, and each ' or .T that follows without a space. */
static gconv_status read_factor(gconv_text *text, effort *spent, gconv_matrix *result) {
  bool transposed = false;
  GCONV_TRY(read_primary(text, spent, result));
  while (take_transposition(text))
    transposed = !transposed;
  if (!transposed)
    return GCONV_OK;
  GCONV_TRY(count_numbers(text, result, spent));
  return exchange_axes(text, result);
}

/* Takes the sign of an operation: '*', '/', or 0 if neither is next. */
static char take_operation(gconv_text *text) {
  if (gconv_array_take(text, "*") || gconv_array_take(text, ".*") || gconv_array_take(text, "@"))
    return '*';
  return gconv_array_take(text, "/") || gconv_array_take(text, "./") ? '/' : '\0';
}

static gconv_status read_expression(gconv_text *text, effort *spent, gconv_matrix *result) {
  GCONV_TRY(read_factor(text, spent, result));
  for (char sign; (sign = take_operation(text));) {
    gconv_matrix next = {0};
    GCONV_TRY(count_step(text, spent));
    gconv_status status = read_factor(text, spent, &next);
    GCONV_THEN(status, sign == '*' ? multiply(text, result, &next) : divide(text, result, &next));
    free(next.values);
    GCONV_TRY(status);
    GCONV_TRY(count_numbers(text, result, spent));
  }
  return GCONV_OK;
}

static gconv_status read_all(gconv_text *text, gconv_matrix *result) {
  effort spent = {0};
  skip_assignment(text);
  GCONV_TRY(read_expression(text, &spent, result));
  while (gconv_array_take(text, ";"))
    continue;
  gconv_array_skip_space(text);
  if (text->at == text->end)
    return GCONV_OK;
  return gconv_array_fail(text, "after an array there may be '*' or '/' and a number, ' or .T, a dtype, and a ';', nothing "
                                "else; give several filters one by one");
}

/* ---- The syntax ------------------------------------------------------------------------------------------------------- */

/* Takes "1/9 *" or "1/9) *", or nothing. */
static bool take_factor(gconv_text *text) {
  gconv_text ahead = *text;
  double factor;
  if (!starts_number(&ahead) || gconv_array_number(&ahead, "", &factor) != GCONV_OK)
    return false;
  gconv_array_take(&ahead, ")");
  if (!gconv_array_take(&ahead, "*") && !gconv_array_take(&ahead, ".*"))
    return false;
  *text = ahead;
  return true;
}

bool gconv_array_begins(const gconv_content *content) {
  gconv_text text = gconv_text_begin(content);
  skip_assignment(&text);
  for (gconv_array_skip_space(&text); text.at < text.end; gconv_array_skip_space(&text)) {
    if (*text.at == '[' || *text.at == '{')
      return true;
    function is = take_function(&text);
    if (is != UNKNOWN && is != SAME)
      return true;
    if (is == UNKNOWN && !take_factor(&text))
      return false;
  }
  return false;
}

/* Returns whether there is a bracket outside of comments, which no other text syntax has, or a function such as ones(3). */
static bool recognise(const gconv_content *content) {
  gconv_text text = gconv_text_begin(content);
  for (gconv_array_skip_space(&text); text.at < text.end; gconv_array_skip_space(&text))
    if (*text.at == '[' || *text.at == '{')
      return true;
    else
      text.at++;
  return gconv_array_begins(content);
}

static gconv_status add_filter(const char *name, const gconv_matrix *m, gconv_filters *list) {
  gconv_filter *filter = NULL;
  for (size_t i = 0; i < count_of(m); i++)
    if (!isfinite((float)m->values[i]))
      return gconv_fail(GCONV_BAD_FILE, "%s: row %zu, number %zu is %g, which is too large for float32 (3.4e38)", name,
                        i / (size_t)m->columns + 1, i % (size_t)m->columns + 1, m->values[i]);
  GCONV_TRY(gconv_filters_add(list, m->rows, m->columns, &filter));
  for (size_t i = 0; i < count_of(m); i++)
    filter->taps[i] = (float)(m->values[i] + 0.0);
  gconv_filter_warn_rounded(name, filter);
  return GCONV_OK;
}

static gconv_status parse(const gconv_content *content, gconv_filters *list) {
  GCONV_TRY(gconv_text_check(content));
  gconv_text text = gconv_text_begin(content);
  GCONV_ENDED_BY(gconv_matrix_free) gconv_matrix matrix = {0};
  GCONV_TRY(read_all(&text, &matrix));
  return add_filter(content->name, &matrix, list);
}

const gconv_syntax gconv_syntax_array = {
    .name = "array",
    .help = "an array in brackets, as in Python, NumPy, MATLAB or C",
    .recognise = recognise,
    .parse = parse,
};
