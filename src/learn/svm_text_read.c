/* SPDX-License-Identifier: MIT */
/* Reads the text of models (svm_text.c). Nothing is allocated by what a header claims: arrays grow by what is there. */
#include "base/arguments.h"
#include "base/file.h"
#include "base/memory.h"
#include "learn/labels.h"
#include "learn/lines.h"
#include "learn/svm.h"
#include "learn/table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A growing list. */
typedef struct list {
  double *items; /* owned */
  size_t count;
} list;

typedef struct reading {
  gconv_lines lines;
  gconv_svm *model;
  bool has_type, has_kernel, has_gamma, has_degree, has_coef0;
  uint64_t classes, vectors; /* as the header has them */
  bool has_classes, has_vectors;
  list rho, labels, prob_a, prob_b, class_vectors, coefficients; /* coefficients: a row a vector */
  list least, most, colours;                                     /* of columns; of classes, red, green, blue */
  bool has_scale;
  size_t most_columns, named;
  char **names;     /* owned: of classes, as the lines behind the vectors have them */
  int32_t features; /* of a channel of an image */
} reading;

static const char blanks[] = " \t";

/* Whether the next word is a number of float64, whole and finite; moves *at behind it. */
static bool next_number(char **at, double *number) {
  char *word = *at + strspn(*at, blanks), *end;
  size_t length = strcspn(word, blanks);
  if (length == 0 || strspn(word, "+-.0123456789eE") != length)
    return false;
  errno = 0;
  *number = strtod(word, &end);
  *at = end;
  return end == word + length && isfinite(*number);
}

static bool next_count(char **at, uint64_t most, uint64_t *count) {
  double number;
  if (!next_number(at, &number) || number < 0 || number > (double)most || number != floor(number))
    return false;
  *count = (uint64_t)number;
  return true;
}

static bool is_end(const char *at) {
  return at[strspn(at, blanks)] == '\0';
}

static gconv_status add_number(list *l, double number) {
  double *items = gconv_grown(l->items, l->count, sizeof *items);
  if (!items)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the numbers of a model");
  l->items = items;
  items[l->count++] = number;
  return GCONV_OK;
}

/* ---- The header ---- */

static gconv_status read_list(reading *r, const char *keyword, char *at, list *l) {
  double number;
  if (l->count > 0)
    return gconv_lines_fail(&r->lines, "a second line %s", keyword);
  while (!is_end(at)) {
    if (!next_number(&at, &number))
      return gconv_lines_fail(&r->lines, "%s: number %zu is not a finite number", keyword, l->count + 1);
    GCONV_TRY(add_number(l, number));
  }
  return GCONV_OK;
}

static gconv_status read_type(reading *r, const char *word) {
  r->has_type = true;
  if (strcmp(word, "c_svc") == 0 || strcmp(word, "nu_svc") == 0)
    r->model->info.type = GCONV_SVM_C_SVC;
  else if (strcmp(word, "epsilon_svr") == 0 || strcmp(word, "nu_svr") == 0)
    r->model->info.type = GCONV_SVM_EPSILON_SVR;
  else if (strcmp(word, "one_class") == 0)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: is a model of svm_type one_class: gconv has c_svc, epsilon_svr, and reads nu_svc "
                      "and nu_svr",
                      r->lines.source->name);
  else
    return gconv_lines_fail(&r->lines, "svm_type %.40s: expected c_svc, nu_svc, epsilon_svr or nu_svr", word);
  return GCONV_OK;
}

static gconv_status read_kernel(reading *r, const char *word) {
  static const char *const names[] = {"rbf", "linear", "polynomial", "sigmoid"};
  r->has_kernel = true;
  for (int k = 0; k < 4; k++)
    if (strcmp(word, names[k]) == 0) {
      r->model->info.kernel = (gconv_svm_kernel)k;
      return GCONV_OK;
    }
  if (strcmp(word, "precomputed") == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: its kernel is precomputed, so that it cannot be applied to rows of numbers",
                      r->lines.source->name);
  return gconv_lines_fail(&r->lines, "kernel_type %.40s: expected linear, polynomial, rbf or sigmoid", word);
}

static gconv_status read_single(reading *r, const char *keyword, char *at, bool *has, double *number) {
  if (*has)
    return gconv_lines_fail(&r->lines, "a second line %s", keyword);
  *has = true;
  if (!next_number(&at, number) || !is_end(at))
    return gconv_lines_fail(&r->lines, "%s: expected one finite number", keyword);
  return GCONV_OK;
}

static gconv_status read_count(reading *r, const char *keyword, char *at, uint64_t most, bool *has, uint64_t *count) {
  if (*has)
    return gconv_lines_fail(&r->lines, "a second line %s", keyword);
  *has = true;
  if (!next_count(&at, most, count) || !is_end(at))
    return gconv_lines_fail(&r->lines, "%s: expected one whole number, up to %llu", keyword, (unsigned long long)most);
  return GCONV_OK;
}

static gconv_status read_keyword(reading *r, const char *keyword, char *at) {
  gconv_svm_info *info = &r->model->info;
  const struct {
    const char *name;
    list *list;
  } lists[] = {
      {"rho", &r->rho}, {"label", &r->labels}, {"probA", &r->prob_a}, {"probB", &r->prob_b}, {"nr_sv", &r->class_vectors}};
  double degree = 0;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (strcmp(keyword, lists[i].name) == 0)
      return read_list(r, keyword, at, lists[i].list);
  if (strcmp(keyword, "gamma") == 0)
    return read_single(r, keyword, at, &r->has_gamma, &info->gamma);
  if (strcmp(keyword, "coef0") == 0)
    return read_single(r, keyword, at, &r->has_coef0, &info->coef0);
  if (strcmp(keyword, "degree") == 0) {
    GCONV_TRY(read_single(r, keyword, at, &r->has_degree, &degree));
    if (!(degree >= 0 && degree <= 1000 && degree == floor(degree)))
      return gconv_lines_fail(&r->lines, "degree %g: expected a whole number from 0 to 1000", degree);
    info->degree = (int32_t)degree;
    return GCONV_OK;
  }
  if (strcmp(keyword, "nr_class") == 0)
    return read_count(r, keyword, at, GCONV_MOST_CLASSES, &r->has_classes, &r->classes);
  if (strcmp(keyword, "total_sv") == 0)
    return read_count(r, keyword, at, INT32_MAX, &r->has_vectors, &r->vectors);
  if (strcmp(keyword, "nr_weight") == 0)
    return GCONV_OK;
  return gconv_lines_fail(&r->lines, "\"%.40s\" is no keyword of a LIBSVM model", keyword);
}

static gconv_status check_list(const reading *r, const char *keyword, const list *l, size_t count, bool optional) {
  if (l->count == count || (optional && l->count == 0))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE, "%s: %s has %zu numbers, where %llu classes make %zu", r->lines.source->name, keyword,
                    l->count, (unsigned long long)r->classes, count);
}

static gconv_status check_header(const reading *r) {
  const gconv_svm_info *info = &r->model->info;
  const char *name = r->lines.source->name;
  bool classes = info->type == GCONV_SVM_C_SVC;
  const char *missing = !r->has_type       ? "svm_type"
                        : !r->has_kernel   ? "kernel_type"
                        : !r->has_classes  ? "nr_class"
                        : !r->has_vectors  ? "total_sv"
                        : r->rho.count < 1 ? "rho"
                                           : NULL;
  if (!missing && info->kernel != GCONV_SVM_LINEAR && !r->has_gamma)
    missing = "gamma";
  if (missing)
    return gconv_fail(GCONV_BAD_FILE, "%s: the line %s is missing", name, missing);
  if (!(info->gamma >= 0) || (info->kernel == GCONV_SVM_RBF && info->gamma == 0))
    return gconv_fail(GCONV_BAD_FILE, "%s: gamma is %g: it must be above 0", name, info->gamma);
  if (r->classes < 2)
    return gconv_fail(GCONV_BAD_FILE, "%s: nr_class is %llu: a model has 2 or more", name, (unsigned long long)r->classes);
  size_t pairs = classes ? (size_t)(r->classes * (r->classes - 1) / 2) : 1;
  GCONV_TRY(check_list(r, "rho", &r->rho, pairs, false));
  GCONV_TRY(check_list(r, "probA", &r->prob_a, pairs, true));
  if (!classes)
    return GCONV_OK;
  GCONV_TRY(check_list(r, "label", &r->labels, (size_t)r->classes, false));
  GCONV_TRY(check_list(r, "probB", &r->prob_b, pairs, r->prob_a.count == 0));
  GCONV_TRY(check_list(r, "nr_sv", &r->class_vectors, (size_t)r->classes, false));
  double sum = 0;
  for (size_t c = 0; c < r->class_vectors.count; c++) {
    double count = r->class_vectors.items[c], label = r->labels.items[c];
    if (!(count >= 0 && count == floor(count)))
      return gconv_fail(GCONV_BAD_FILE, "%s: nr_sv: number %zu is %g: expected a whole number", name, c + 1, count);
    if (!(label == floor(label) && fabs(label) <= 2147483648.0))
      return gconv_fail(GCONV_BAD_FILE, "%s: label: number %zu is %g: expected a whole number", name, c + 1, label);
    for (size_t other = 0; other < c; other++)
      if (r->labels.items[other] == label)
        return gconv_fail(GCONV_BAD_FILE, "%s: label: %g stands there twice", name, label);
    sum += count;
  }
  if (sum != (double)r->vectors)
    return gconv_fail(GCONV_BAD_FILE, "%s: the numbers of nr_sv add up to %g, where total_sv is %llu", name, sum,
                      (unsigned long long)r->vectors);
  return GCONV_OK;
}

static gconv_status next_line(reading *r, bool *found) {
  GCONV_TRY(gconv_lines_next_filled(&r->lines, found));
  if (*found) { /* without blanks behind */
    size_t length = strlen(r->lines.text);
    while (length > 0 && strchr(blanks, r->lines.text[length - 1]))
      r->lines.text[--length] = '\0';
  }
  return GCONV_OK;
}

static gconv_status read_header(reading *r) {
  bool found;
  for (;;) {
    GCONV_TRY(next_line(r, &found));
    if (!found)
      return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early: there is no line SV", r->lines.source->name);
    char *keyword = r->lines.text + strspn(r->lines.text, blanks), *at = keyword + strcspn(keyword, blanks);
    if (*at)
      *at++ = '\0';
    if (strcmp(keyword, "SV") == 0)
      return check_header(r);
    at += strspn(at, blanks);
    if (strcmp(keyword, "svm_type") == 0 && !r->has_type)
      GCONV_TRY(read_type(r, at));
    else if (strcmp(keyword, "kernel_type") == 0 && !r->has_kernel)
      GCONV_TRY(read_kernel(r, at));
    else
      GCONV_TRY(read_keyword(r, keyword, at));
  }
}

/* ---- Support vectors ---- */

static gconv_status read_entries(reading *r, char *at) {
  gconv_svm_cases *vectors = &r->model->vectors;
  uint64_t last = 0;
  for (at += strspn(at, blanks); *at; at += strspn(at, blanks)) {
    size_t length = strcspn(at, blanks);
    char *colon = memchr(at, ':', length), *end;
    uint64_t index = 0;
    double value;
    if (colon) {
      *colon = ' ';
      end = at;
    }
    if (!colon || !next_count(&end, GCONV_MOST_COLUMNS, &index) || end != colon || index == 0)
      return gconv_lines_fail(&r->lines, "\"%.*s\" is not INDEX:VALUE, with an index from 1 to %d",
                              (int)(length < 40 ? length : 40), at, (int)GCONV_MOST_COLUMNS);
    if (index <= last)
      return gconv_lines_fail(&r->lines, "index %llu follows %llu: indices must ascend", (unsigned long long)index,
                              (unsigned long long)last);
    end = colon + 1;
    if (colon[1] == ' ' || colon[1] == '\t' || !next_number(&end, &value) || end != at + length || !isfinite((float)value))
      return gconv_lines_fail(&r->lines, "behind index %llu is no finite number of float32", (unsigned long long)index);
    last = index;
    r->most_columns = index > r->most_columns ? (size_t)index : r->most_columns;
    GCONV_TRY(gconv_svm_cases_entry(vectors, (uint32_t)index - 1, (float)value));
    at += length;
  }
  return gconv_svm_cases_end_row(vectors);
}

static gconv_status read_vectors(reading *r) {
  size_t rows = r->model->info.type == GCONV_SVM_C_SVC ? (size_t)r->classes - 1 : 1;
  for (uint64_t i = 0; i < r->vectors; i++) {
    bool found;
    GCONV_TRY(next_line(r, &found));
    if (!found || r->lines.text[0] == '#')
      return gconv_fail(GCONV_BAD_FILE, "%s: has %llu support vectors, where total_sv is %llu: the file is cut off",
                        r->lines.source->name, (unsigned long long)i, (unsigned long long)r->vectors);
    char *at = r->lines.text;
    for (size_t k = 0; k < rows; k++) {
      double number;
      if (!next_number(&at, &number))
        return gconv_lines_fail(&r->lines, "coefficient %zu of %zu is not a finite number", k + 1, rows);
      GCONV_TRY(add_number(&r->coefficients, number));
    }
    GCONV_TRY(read_entries(r, at));
  }
  return GCONV_OK;
}

/* ---- What stands behind ---- */

static gconv_status read_name(reading *r, const char *at) {
  size_t length = strlen(at), used = 0;
  if (r->named >= r->classes)
    return gconv_lines_fail(&r->lines, "class number %zu, where nr_class is %llu", r->named + 1,
                            (unsigned long long)r->classes);
  char **names = gconv_grown(r->names, r->named, sizeof *names), *name = malloc(length + 1);
  r->names = names ? names : r->names;
  if (!names || !name) {
    free(name);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the names of classes");
  }
  for (size_t i = 0; i < length; i++) {
    bool escaped = at[i] == '\\' && i + 1 < length;
    i += escaped;
    name[used++] = (char)(escaped && at[i] == 'n' ? '\n' : escaped && at[i] == 'r' ? '\r' : at[i]);
  }
  name[used] = '\0';
  names[r->named++] = name;
  return GCONV_OK;
}

static gconv_status read_scale(reading *r, char *at) {
  gconv_svm_range *range = &r->model->range;
  if (r->has_scale)
    return gconv_lines_fail(&r->lines, "a second line scale");
  r->has_scale = true;
  bool good = next_number(&at, &range->lower) && next_number(&at, &range->upper);
  at += strspn(at, blanks);
  bool standard = strcmp(at, "standard") == 0;
  if (!good || !(standard || is_end(at)) || range->lower >= range->upper)
    return gconv_lines_fail(&r->lines, "scale: expected two numbers, the second above the first");
  r->model->info.scaling = standard           ? GCONV_SVM_SCALE_STANDARD
                           : range->lower < 0 ? GCONV_SVM_SCALE_SYMMETRIC
                                              : GCONV_SVM_SCALE_UNIT;
  return GCONV_OK;
}

static gconv_status read_features(reading *r, const char *text) {
  if (r->model->features)
    return gconv_lines_fail(&r->lines, "a second line features");
  if (gconv_features_resolve(text, &r->model->features, &r->features) != GCONV_OK)
    return gconv_lines_fail(&r->lines, "features: %s", gconv_last_error());
  return GCONV_OK;
}

static gconv_status read_colour(reading *r, char *at) {
  uint64_t parts[3];
  if (r->colours.count >= 3 * r->classes || !next_count(&at, UINT8_MAX, &parts[0]) ||
      !next_count(&at, UINT8_MAX, &parts[1]) || !next_count(&at, UINT8_MAX, &parts[2]) || !is_end(at))
    return gconv_lines_fail(&r->lines,
                            "expected the colour of a class, three numbers from 0 to 255, and one for each class");
  for (int c = 0; c < 3; c++)
    GCONV_TRY(add_number(&r->colours, (double)parts[c]));
  return GCONV_OK;
}

static gconv_status read_range(reading *r, char *at) {
  uint64_t index;
  double least, most;
  if (!r->has_scale || !next_count(&at, r->most_columns, &index) || index != r->least.count + 1 ||
      !next_number(&at, &least) || !next_number(&at, &most) || !is_end(at) || least > most)
    return gconv_lines_fail(&r->lines,
                            "expected the range of column %zu behind a line scale: its smallest and its largest "
                            "number",
                            r->least.count + 1);
  GCONV_TRY(add_number(&r->least, least));
  return add_number(&r->most, most);
}

static gconv_status read_rest_line(reading *r) {
  char *text = r->lines.text;
  uint64_t columns;
  if (strncmp(text, "# class ", 8) == 0)
    return read_name(r, text + 8);
  if (strncmp(text, "# scale ", 8) == 0)
    return read_scale(r, text + 8);
  if (strncmp(text, "# range ", 8) == 0)
    return read_range(r, text + 8);
  if (strncmp(text, "# features ", 11) == 0)
    return read_features(r, text + 11);
  if (strncmp(text, "# colour ", 9) == 0)
    return read_colour(r, text + 9);
  char *at = text + 10;
  if (strncmp(text, "# columns ", 10) == 0) {
    if (!next_count(&at, GCONV_MOST_COLUMNS, &columns) || !is_end(at) || columns < r->most_columns || r->has_scale)
      return gconv_lines_fail(&r->lines, "expected a number of columns, no less than the %zu that the vectors have",
                              r->most_columns);
    r->most_columns = (size_t)columns;
  }
  return GCONV_OK; /* what later versions may add */
}

/* Whether the columns are the features of pixels of grey images, or of RGB. */
static gconv_status check_pixels(const reading *r) {
  const char *name = r->lines.source->name;
  if (r->colours.count > 0 && r->colours.count != 3 * r->classes)
    return gconv_fail(GCONV_BAD_FILE, "%s: colours of %zu classes, where nr_class is %llu: the file is cut off", name,
                      r->colours.count / 3, (unsigned long long)r->classes);
  if (!r->model->features)
    return GCONV_OK;
  if (r->model->info.type != GCONV_SVM_C_SVC)
    return gconv_fail(GCONV_BAD_FILE, "%s: has features of pixels, and no classes", name);
  size_t count = (size_t)r->features;
  if (r->most_columns != count && r->most_columns != 3 * count)
    return gconv_fail(GCONV_BAD_FILE, "%s: has %zu columns, where its features are %zu of a grey image and %zu of RGB", name,
                      r->most_columns, count, 3 * count);
  return GCONV_OK;
}

static gconv_status read_rest(reading *r) {
  bool found;
  for (;;) {
    GCONV_TRY(next_line(r, &found));
    if (!found)
      break;
    if (r->lines.text[0] != '#')
      return gconv_lines_fail(&r->lines, "there are more support vectors than total_sv, which is %llu",
                              (unsigned long long)r->vectors);
    GCONV_TRY(read_rest_line(r));
  }
  if (r->has_scale && r->least.count != r->most_columns)
    return gconv_fail(GCONV_BAD_FILE, "%s: ranges of %zu columns, where there are %zu: the file is cut off",
                      r->lines.source->name, r->least.count, r->most_columns);
  if (r->named > 0 && r->named != r->classes)
    return gconv_fail(GCONV_BAD_FILE, "%s: names of %zu classes, where nr_class is %llu: the file is cut off",
                      r->lines.source->name, r->named, (unsigned long long)r->classes);
  return check_pixels(r);
}

/* ---- The whole ---- */

static gconv_status name_classes(reading *r) {
  if (r->named > 0)
    return gconv_svm_name_classes(r->model, (const char *const *)r->names, r->named);
  size_t count = r->labels.count;
  char(*texts)[24] = malloc(count * sizeof *texts);
  const char **names = malloc(count * sizeof *names);
  gconv_status status = texts && names ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for %zu classes", count);
  for (size_t c = 0; c < count && status == GCONV_OK; c++) {
    snprintf(texts[c], sizeof texts[c], "%.0f", r->labels.items[c]);
    names[c] = texts[c];
  }
  if (status == GCONV_OK)
    status = gconv_svm_name_classes(r->model, names, count);
  free(texts);
  free(names);
  return status;
}

/* Takes the list's numbers. */
static double *taken(list *l) {
  double *items = l->count > 0 ? l->items : NULL;
  if (items)
    l->items = NULL;
  return items;
}

static gconv_status take_colours(reading *r) {
  if (r->colours.count == 0)
    return GCONV_OK;
  r->model->palette = malloc(r->colours.count);
  if (!r->model->palette)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the colours of classes");
  for (size_t i = 0; i < r->colours.count; i++)
    r->model->palette[i] = (uint8_t)r->colours.items[i];
  return GCONV_OK;
}

static gconv_status make_model(reading *r) {
  gconv_svm *model = r->model;
  bool classes = model->info.type == GCONV_SVM_C_SVC;
  size_t vectors = (size_t)r->vectors, rows = classes ? (size_t)r->classes - 1 : 1;
  if (classes)
    GCONV_TRY(name_classes(r));
  GCONV_TRY(take_colours(r));
  model->coefficients = malloc((vectors * rows + 1) * sizeof *model->coefficients);
  model->class_vectors = calloc((size_t)r->classes + 1, sizeof *model->class_vectors);
  if (!model->coefficients || !model->class_vectors)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu support vectors", vectors);
  for (size_t i = 0; i < vectors; i++)
    for (size_t k = 0; k < rows; k++)
      model->coefficients[k * vectors + i] = r->coefficients.items[i * rows + k];
  for (size_t c = 0; c < r->class_vectors.count && classes; c++)
    model->class_vectors[c] = (size_t)r->class_vectors.items[c];
  model->rho = taken(&r->rho);
  model->prob_a = taken(&r->prob_a);
  model->prob_b = classes ? taken(&r->prob_b) : NULL;
  model->range.least = taken(&r->least);
  model->range.most = taken(&r->most);
  model->info.objective = (double)NAN;
  model->vectors.columns = r->most_columns;
  gconv_svm_model_finish(model);
  return GCONV_OK;
}

static gconv_status read_model(gconv_source *source, gconv_svm *model) {
  reading r = {.lines = {.source = source}, .model = model};
  model->info.degree = 3;
  gconv_status status = read_header(&r);
  if (status == GCONV_OK)
    status = read_vectors(&r);
  if (status == GCONV_OK)
    status = read_rest(&r);
  if (status == GCONV_OK && r.most_columns == 0)
    status = gconv_fail(GCONV_BAD_FILE, "%s: the support vectors have no numbers", source->name);
  if (status == GCONV_OK)
    status = make_model(&r);
  gconv_lines_free(&r.lines);
  list *lists[] = {&r.rho,          &r.labels, &r.prob_a, &r.prob_b, &r.class_vectors,
                   &r.coefficients, &r.least,  &r.most,   &r.colours};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    free(lists[i]->items);
  for (size_t i = 0; i < r.named; i++)
    free(r.names[i]);
  free(r.names);
  return status;
}

gconv_status gconv_svm_read_source(gconv_source *source, gconv_svm **model) {
  gconv_svm *made = NULL;
  GCONV_TRY(gconv_svm_model_create(&made));
  gconv_status status = read_model(source, made);
  if (status == GCONV_OK)
    *model = made;
  else
    gconv_svm_free(made);
  return status;
}

gconv_status gconv_svm_read(const char *path, gconv_svm **model) {
  GCONV_NEED(path);
  GCONV_NEED(model);
  *model = NULL;
  gconv_source source;
  gconv_status status = gconv_source_open(path, &source);
  if (status == GCONV_OK)
    status = gconv_svm_read_source(&source, model);
  gconv_source_close(&source);
  return status;
}

bool gconv_svm_is_one(const char *path) {
  gconv_source source;
  struct stat status;
  const uint8_t *bytes;
  size_t got = 0;
  bool is_one = path && stat(path, &status) == 0 && S_ISREG(status.st_mode) && gconv_source_open(path, &source) == GCONV_OK;
  if (is_one) {
    is_one = gconv_source_peek(&source, 9, &bytes, &got) == GCONV_OK && got == 9 && memcmp(bytes, "svm_type ", 9) == 0;
    gconv_source_close(&source);
  }
  return is_one;
}
