/* SPDX-License-Identifier: MIT */
/* Reads the text of models (text.c). Arrays grow with the lines that are read, not with the numbers that a header claims. */
#include "base/arguments.h"
#include "base/file.h"
#include "base/memory.h"
#include "data/labels.h"
#include "data/table.h"
#include "svm/text.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* ---- The header ---- */

static gconv_status read_list(gconv_svm_reading *r, const char *keyword, char *at, gconv_svm_numbers *l) {
  double number;
  if (l->count > 0)
    return gconv_lines_fail(&r->lines, "a second line %s", keyword);
  while (!gconv_svm_text_is_end(at)) {
    if (!gconv_svm_text_number(&at, &number))
      return gconv_lines_fail(&r->lines, "%s: number %zu is not a finite number", keyword, l->count + 1);
    GCONV_TRY(gconv_svm_text_add(l, number));
  }
  return GCONV_OK;
}

static gconv_status read_type(gconv_svm_reading *r, const char *word) {
  r->has_type = true;
  if (strcmp(word, "c_svc") == 0 || strcmp(word, "nu_svc") == 0)
    r->model->info.type = GCONV_SVM_C_SVC;
  else if (strcmp(word, "epsilon_svr") == 0 || strcmp(word, "nu_svr") == 0)
    r->model->info.type = GCONV_SVM_EPSILON_SVR;
  else if (strcmp(word, "one_class") == 0)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: is a model of svm_type one_class: gconv reads c_svc, epsilon_svr, nu_svc and nu_svr",
                      r->lines.source->name);
  else
    return gconv_lines_fail(&r->lines, "svm_type %.40s: expected c_svc, nu_svc, epsilon_svr or nu_svr", word);
  return GCONV_OK;
}

static gconv_status read_kernel(gconv_svm_reading *r, const char *word) {
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

static gconv_status read_single(gconv_svm_reading *r, const char *keyword, char *at, bool *has, double *number) {
  if (*has)
    return gconv_lines_fail(&r->lines, "a second line %s", keyword);
  *has = true;
  if (!gconv_svm_text_number(&at, number) || !gconv_svm_text_is_end(at))
    return gconv_lines_fail(&r->lines, "%s: expected one finite number", keyword);
  return GCONV_OK;
}

static gconv_status read_count(gconv_svm_reading *r, const char *keyword, char *at, uint64_t most, bool *has,
                               uint64_t *count) {
  if (*has)
    return gconv_lines_fail(&r->lines, "a second line %s", keyword);
  *has = true;
  if (!gconv_svm_text_count(&at, most, count) || !gconv_svm_text_is_end(at))
    return gconv_lines_fail(&r->lines, "%s: expected one whole number, up to %llu", keyword, (unsigned long long)most);
  return GCONV_OK;
}

static gconv_status read_keyword(gconv_svm_reading *r, const char *keyword, char *at) {
  gconv_svm_info *info = &r->model->info;
  const struct {
    const char *name;
    gconv_svm_numbers *list;
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

static gconv_status check_list(const gconv_svm_reading *r, const char *keyword, const gconv_svm_numbers *l, size_t count,
                               bool optional) {
  if (l->count == count || (optional && l->count == 0))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE, "%s: %s has %zu numbers, where %llu classes make %zu", r->lines.source->name, keyword,
                    l->count, (unsigned long long)r->classes, count);
}

static gconv_status check_header(const gconv_svm_reading *r) {
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
        return gconv_fail(GCONV_BAD_FILE, "%s: label: %g is listed twice", name, label);
    sum += count;
  }
  if (sum != (double)r->vectors)
    return gconv_fail(GCONV_BAD_FILE, "%s: the numbers of nr_sv add up to %g, where total_sv is %llu", name, sum,
                      (unsigned long long)r->vectors);
  return GCONV_OK;
}

static gconv_status read_header(gconv_svm_reading *r) {
  bool found;
  for (;;) {
    GCONV_TRY(gconv_svm_text_line(r, &found));
    if (!found)
      return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early: there is no line SV", r->lines.source->name);
    char *keyword = r->lines.text + strspn(r->lines.text, GCONV_SVM_BLANKS),
         *at = keyword + strcspn(keyword, GCONV_SVM_BLANKS);
    if (*at)
      *at++ = '\0';
    at += strspn(at, GCONV_SVM_BLANKS);
    if (strcmp(keyword, "SV") == 0) {
      r->promises_notes = strcmp(at, GCONV_SVM_PROMISE) == 0;
      return check_header(r);
    }
    if (strcmp(keyword, "svm_type") == 0 && !r->has_type)
      GCONV_TRY(read_type(r, at));
    else if (strcmp(keyword, "kernel_type") == 0 && !r->has_kernel)
      GCONV_TRY(read_kernel(r, at));
    else
      GCONV_TRY(read_keyword(r, keyword, at));
  }
}

/* ---- Support vectors ---- */

static gconv_status read_entries(gconv_svm_reading *r, char *at) {
  gconv_svm_cases *vectors = &r->model->vectors;
  uint64_t last = 0;
  for (at += strspn(at, GCONV_SVM_BLANKS); *at; at += strspn(at, GCONV_SVM_BLANKS)) {
    size_t length = strcspn(at, GCONV_SVM_BLANKS);
    char *colon = memchr(at, ':', length), *end;
    uint64_t index = 0;
    double value;
    if (colon) {
      *colon = ' ';
      end = at;
    }
    if (!colon || !gconv_svm_text_count(&end, GCONV_MOST_COLUMNS, &index) || end != colon || index == 0)
      return gconv_lines_fail(&r->lines, "\"%.*s\" is not INDEX:VALUE, with an index from 1 to %d",
                              (int)(length < 40 ? length : 40), at, (int)GCONV_MOST_COLUMNS);
    if (index <= last)
      return gconv_lines_fail(&r->lines, "index %llu follows %llu: indices must ascend", (unsigned long long)index,
                              (unsigned long long)last);
    end = colon + 1;
    if (colon[1] == ' ' || colon[1] == '\t' || !gconv_svm_text_number(&end, &value) || end != at + length ||
        !isfinite((float)value))
      return gconv_lines_fail(&r->lines, "after index %llu there is no finite number of float32", (unsigned long long)index);
    last = index;
    r->most_columns = index > r->most_columns ? (size_t)index : r->most_columns;
    GCONV_TRY(gconv_svm_cases_entry(vectors, (uint32_t)index - 1, (float)value));
    at += length;
  }
  return gconv_svm_cases_end_row(vectors);
}

static gconv_status read_vectors(gconv_svm_reading *r) {
  size_t rows = r->model->info.type == GCONV_SVM_C_SVC ? (size_t)r->classes - 1 : 1;
  for (uint64_t i = 0; i < r->vectors; i++) {
    bool found;
    GCONV_TRY(gconv_svm_text_line(r, &found));
    if (!found || r->lines.text[0] == '#')
      return gconv_fail(GCONV_BAD_FILE, "%s: has %llu support vectors, where total_sv is %llu: the file is cut off",
                        r->lines.source->name, (unsigned long long)i, (unsigned long long)r->vectors);
    char *at = r->lines.text;
    for (size_t k = 0; k < rows; k++) {
      double number;
      if (!gconv_svm_text_number(&at, &number))
        return gconv_lines_fail(&r->lines, "coefficient %zu of %zu is not a finite number", k + 1, rows);
      GCONV_TRY(gconv_svm_text_add(&r->coefficients, number));
    }
    GCONV_TRY(read_entries(r, at));
  }
  return GCONV_OK;
}

/* ---- The model ---- */

static gconv_status name_classes(gconv_svm_reading *r) {
  if (r->named > 0)
    return gconv_svm_name_classes(r->model, (const char *const *)r->names, r->named);
  size_t count = r->labels.count;
  GCONV_FREED char(*texts)[24] = malloc(count * sizeof *texts);
  GCONV_FREED const char **names = malloc(count * sizeof *names);
  GCONV_NEED_MEMORY(texts && names, "no memory for %zu classes", count);
  for (size_t c = 0; c < count; c++) {
    snprintf(texts[c], sizeof texts[c], "%.0f", r->labels.items[c]);
    names[c] = texts[c];
  }
  return gconv_svm_name_classes(r->model, names, count);
}

/* Returns the numbers of a list, which the caller now owns; NULL if there are none. */
static double *taken(gconv_svm_numbers *l) {
  double *items = l->count > 0 ? l->items : NULL;
  if (items)
    l->items = NULL;
  return items;
}

static gconv_status take_colours(gconv_svm_reading *r) {
  if (r->colours.count == 0)
    return GCONV_OK;
  r->model->palette = malloc(r->colours.count);
  GCONV_NEED_MEMORY(r->model->palette, "no memory for the colours of classes");
  for (size_t i = 0; i < r->colours.count; i++)
    r->model->palette[i] = (uint8_t)r->colours.items[i];
  return GCONV_OK;
}

static gconv_status make_model(gconv_svm_reading *r) {
  gconv_svm *model = r->model;
  bool classes = model->info.type == GCONV_SVM_C_SVC;
  size_t vectors = (size_t)r->vectors, rows = classes ? (size_t)r->classes - 1 : 1;
  if (classes)
    GCONV_TRY(name_classes(r));
  GCONV_TRY(take_colours(r));
  model->coefficients = malloc((vectors * rows + 1) * sizeof *model->coefficients);
  model->class_vectors = calloc((size_t)r->classes + 1, sizeof *model->class_vectors);
  GCONV_NEED_MEMORY(model->coefficients && model->class_vectors, "no memory for %zu support vectors", vectors);
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
  gconv_svm_reading r = {.lines = {.source = source}, .model = model};
  model->info.degree = 3;
  gconv_status status = read_header(&r);
  GCONV_THEN(status, read_vectors(&r));
  GCONV_THEN(status, gconv_svm_text_notes(&r));
  if (status == GCONV_OK && r.most_columns == 0)
    status = gconv_fail(GCONV_BAD_FILE, "%s: the support vectors have no numbers", source->name);
  GCONV_THEN(status, make_model(&r));
  gconv_lines_free(&r.lines);
  gconv_svm_numbers *lists[] = {&r.rho,          &r.labels, &r.prob_a, &r.prob_b, &r.class_vectors,
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
  GCONV_NEED(path, model);
  *model = NULL;
  GCONV_ENDED_BY(gconv_source_close) gconv_source source = {.file = -1};
  GCONV_TRY(gconv_source_open(path, &source));
  return gconv_svm_read_source(&source, model);
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
