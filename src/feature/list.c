/* SPDX-License-Identifier: MIT */
/* Lists of features: from a text to features and scales, and back. */
#include "base/arguments.h"
#include "base/memory.h"
#include "feature/feature.h"
#include "filter/number.h"

#include <math.h>
#include <string.h>

enum { MOST_FEATURES = 512 /* the most features of a channel */, LARGEST_SIGMA = 64 };

static const double LEAST_SIGMA = 0.1;

/* Sets of features that have a name. */
static const gconv_feature_info sets[] = {
    {"default", "gaussian 1 2 4 8 16, gradient 1 2 4 8 16, hessian 1 2 4 8 16", "the features that are used by default", 20},
    {"ilastik",
     "gaussian 0.3 0.7 1 1.6 3.5 5 10, log 0.7 1 1.6 3.5 5 10, gradient 0.7 1 1.6 3.5 5 10, dog 0.7 1 1.6 3.5 5 10, "
     "structure 0.7 1 1.6 3.5 5 10, hessian 0.7 1 1.6 3.5 5 10",
     "all features and sigmas that ilastik offers", 49},
    {"skimage",
     "intensity 0.5, edges 0.5, texture 0.5, intensity 1, edges 1, texture 1, intensity 2, edges 2, texture 2, "
     "intensity 4, edges 4, texture 4, intensity 8, edges 8, texture 8, intensity 16, edges 16, texture 16",
     "skimage.feature.multiscale_basic_features() with its defaults", 24},
};
enum { SETS = sizeof sets / sizeof *sets };

const gconv_feature_info *gconv_feature_at(size_t index) {
  if (index < gconv_feature_kind_count)
    return &gconv_feature_kinds[index].info;
  return index - gconv_feature_kind_count < SETS ? &sets[index - gconv_feature_kind_count] : NULL;
}

/* ---- Scales ----------------------------------------------------------------------------------------------------------- */

/* Returns the Gaussian's derivative of an order at x, up to a factor. */
static double derivative_at(int order, double sigma, double x) {
  double square = sigma * sigma, bell = exp(-x * x / (2 * square));
  return order == 0 ? bell : order == 1 ? x / square * bell : (x * x / square - 1) / square * bell;
}

/* Sets taps as vigra::Kernel1D::initGaussianDerivative() does. In order 2, the mean of the window is subtracted. Then taps
 * are scaled so that the filter of order d turns x^d / d! into 1: derivatives of polynomials of this degree are exact. */
static void fill_taps(gconv_scale *scale, int order) {
  const int32_t radius = scale->radius;
  double sum = 0, mean = 0;
  for (int32_t x = 1; x <= radius && order == 2; x++)
    mean += 2 * derivative_at(order, scale->sigma, x);
  if (order == 2)
    mean = (mean + derivative_at(order, scale->sigma, 0)) / (2 * radius + 1);
  for (int32_t x = 0; x <= radius; x++) {
    double tap = derivative_at(order, scale->sigma, x) - mean, power = order == 0 ? 1 : order == 1 ? x : 0.5 * x * x;
    sum += (x > 0 ? 2 : 1) * tap * power;
  }
  for (int32_t x = 0; x <= radius; x++)
    scale->taps[order][x] = sum != 0 ? (float)((derivative_at(order, scale->sigma, x) - mean) / sum) : 0;
}

/* Sets radius and taps of a scale whose convention and sigma are set. */
static gconv_status make_scale(gconv_scale *scale) {
  bool vigra = scale->convention == GCONV_SMOOTH_VIGRA;
  scale->radius = (int32_t)((vigra ? 3.5 : 4.0) * scale->sigma + 0.5);
  if (vigra && scale->radius < 1)
    scale->radius = 1;
  for (int d = 0; d < GCONV_SMOOTH_ORDERS; d++) {
    GCONV_NEW(scale->taps[d], ((size_t)scale->radius + 1), "no memory for features");
    fill_taps(scale, d);
  }
  return GCONV_OK;
}

/* Finds the number of the scale with this convention and sigma, or adds one. */
static gconv_status take_scale(gconv_feature_list *list, gconv_convention convention, double sigma, size_t *number) {
  for (*number = 0; *number < list->scale_count; ++*number)
    if (list->scales[*number].convention == convention && list->scales[*number].sigma == sigma)
      return GCONV_OK;
  GCONV_GROW(list->scales, list->scale_count, "no memory for features");
  list->scales[list->scale_count] = (gconv_scale){.convention = convention, .sigma = sigma};
  return make_scale(&list->scales[list->scale_count++]);
}

/* ---- Features --------------------------------------------------------------------------------------------------------- */

static gconv_status add_feature(gconv_feature_list *list, const gconv_feature_kind *kind, double sigma) {
  gconv_feature feature = {.kind = kind, .sigma = sigma, .output = list->outputs};
  if (list->outputs + kind->info.outputs > MOST_FEATURES)
    return gconv_fail(GCONV_TOO_LARGE, "more than %d features of a channel: name fewer", MOST_FEATURES);
  GCONV_TRY(take_scale(list, kind->convention, sigma, &feature.scale));
  if (kind->second > 0)
    GCONV_TRY(take_scale(list, kind->convention, sigma * kind->second, &feature.second));
  GCONV_GROW(list->items, list->count, "no memory for features");
  list->items[list->count++] = feature;
  list->outputs += kind->info.outputs;
  gconv_scale *scale = &list->scales[feature.scale];
  int32_t rim = kind->of_planes ? list->scales[feature.second].radius : kind->rim;
  scale->planes |= kind->planes;
  scale->rim = rim > scale->rim ? rim : scale->rim;
  for (size_t i = 0; i < list->scale_count; i++)
    if (list->scales[i].radius + list->scales[i].rim > list->reach)
      list->reach = list->scales[i].radius + list->scales[i].rim;
  return GCONV_OK;
}

/* ---- Texts ------------------------------------------------------------------------------------------------------------ */

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Returns the next word of *text .. end, and moves *text past it. NULL: there is none. */
static const char *next_word(const char **text, const char *end) {
  const char *begin = *text;
  while (begin < end && is_blank(*begin))
    begin++;
  *text = begin;
  while (*text < end && !is_blank(**text))
    ++*text;
  return begin < *text ? begin : NULL;
}

static bool is_word(const char *begin, const char *end, const char *name) {
  return strlen(name) == (size_t)(end - begin) && strncmp(begin, name, strlen(name)) == 0;
}

static gconv_status fail_name(const char *begin, const char *end) {
  char names[300] = "";
  const gconv_feature_info *info;
  for (size_t i = 0; (info = gconv_feature_at(i)); i++)
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", info->name);
  return gconv_fail(GCONV_BAD_ARGUMENT, "there is no feature \"%.*s\": there are %s",
                    (int)(end - begin < 40 ? end - begin : 40), begin, names);
}

static gconv_status read_sigma(const gconv_feature_kind *kind, const char *begin, const char *end, double *sigma) {
  char copy[40] = "";
  if (end - begin < (ptrdiff_t)sizeof copy)
    memcpy(copy, begin, (size_t)(end - begin));
  if (!*copy || gconv_number_read(copy, copy + strlen(copy), sigma))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the sigma \"%.*s\" is no number of pixels", kind->info.name,
                      (int)(end - begin < 40 ? end - begin : 40), begin);
  if (!(*sigma >= LEAST_SIGMA && *sigma <= LARGEST_SIGMA))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: a sigma of %g pixels: it must be %g to %g", kind->info.name, *sigma,
                      LEAST_SIGMA, (double)LARGEST_SIGMA);
  return GCONV_OK;
}

static gconv_status read_list(const char *text, gconv_feature_list *list);

/* Reads the item between two commas. */
static gconv_status read_item(const char *text, const char *end, gconv_feature_list *list) {
  const char *word = next_word(&text, end), *sigma;
  if (!word)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a list of features has an empty place: write KIND SIGMA..., with commas between");
  for (size_t i = 0; i < SETS; i++) {
    if (!is_word(word, text, sets[i].name))
      continue;
    if (next_word(&text, end))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s has sigmas of its own: leave out the sigmas after it", sets[i].name);
    return read_list(sets[i].list, list);
  }
  for (size_t i = 0; i < gconv_feature_kind_count; i++) {
    const gconv_feature_kind *kind = &gconv_feature_kinds[i];
    const size_t before = list->count;
    double value = 0;
    if (!is_word(word, text, kind->info.name))
      continue;
    while ((sigma = next_word(&text, end))) {
      GCONV_TRY(read_sigma(kind, sigma, text, &value));
      GCONV_TRY(add_feature(list, kind, value));
    }
    if (list->count > before)
      return GCONV_OK;
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: say at which sigmas, in pixels: \"%s 1 2\"", kind->info.name,
                      kind->info.name);
  }
  return fail_name(word, text);
}

static gconv_status read_list(const char *text, gconv_feature_list *list) {
  for (;; text++) {
    const char *end = text + strcspn(text, ",");
    GCONV_TRY(read_item(text, end, list));
    text = end;
    if (!*text)
      return GCONV_OK;
  }
}

gconv_status gconv_feature_list_read(const char *text, gconv_feature_list *list) {
  gconv_status status = read_list(text, list);
  if (status != GCONV_OK)
    gconv_feature_list_free(list);
  return status;
}

/* Writes the shortest digits that are read as this number. */
static void write_sigma(FILE *out, double sigma) {
  char digits[40];
  double again = 0;
  for (int precision = 1; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, sigma);
    for (char *at = digits; *at; at++)
      *at = *at == ',' ? '.' : *at; /* in locales with a decimal comma */
    if (!gconv_number_read(digits, digits + strlen(digits), &again) && again == sigma)
      break;
  }
  fprintf(out, " %s", digits);
}

char *gconv_feature_list_text(const gconv_feature_list *list) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out)
    return NULL;
  for (size_t i = 0; i < list->count; i++) {
    const gconv_feature *feature = &list->items[i];
    if (i == 0 || feature->kind != feature[-1].kind)
      fprintf(out, "%s%s", i > 0 ? ", " : "", feature->kind->info.name);
    write_sigma(out, feature->sigma);
  }
  return gconv_close_text(out, &text) ? text : NULL;
}

void gconv_feature_list_free(gconv_feature_list *list) {
  for (size_t i = 0; i < list->scale_count; i++)
    for (int d = 0; d < GCONV_SMOOTH_ORDERS; d++)
      free(list->scales[i].taps[d]);
  free(list->scales);
  free(list->items);
  *list = (gconv_feature_list){0};
}

gconv_status gconv_features_resolve(const char *text, char **result, int32_t *count) {
  gconv_feature_list list = {0};
  GCONV_NEED_AS(text, "text");
  GCONV_TRY(gconv_feature_list_read(text, &list));
  char *written = result ? gconv_feature_list_text(&list) : NULL;
  int32_t outputs = list.outputs;
  gconv_feature_list_free(&list);
  if (result && !written)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a list of features");
  if (result)
    *result = written;
  if (count)
    *count = outputs;
  return GCONV_OK;
}
