/* SPDX-License-Identifier: MIT */
/* Reads filters of three dimensions: names with parameters, which make products of three lines of taps, or files of taps. */
#include "base/arguments.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "base/status.h"
#include "base/suggest.h"
#include "volume/volume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RADIUS = 4096, MOST_PARAMETERS = 4 };

/* ---- Lines of taps ---------------------------------------------------------------------------------------------------- */

/* Taps along an axis, with the anchor in the middle. */
typedef struct line {
  int32_t radius;
  double taps[2 * MOST_RADIUS + 1];
} line;

static void make_identity(line *to) {
  to->radius = 0;
  to->taps[0] = 1;
}

static void make_difference(int order, line *to) {
  static const double of[3][3] = {{1, 2, 1}, {-1, 0, 1}, {1, -2, 1}};
  to->radius = 1;
  memcpy(to->taps, of[order], sizeof of[order]);
}

/* Makes a Gaussian, whose sum is 1, or its derivative of first or second order. */
static void make_gaussian(double sigma, int order, int32_t radius, line *to) {
  double sum = 0;
  to->radius = radius;
  for (int32_t i = -radius; i <= radius; i++)
    sum += exp(-0.5 * i * i / (sigma * sigma));
  for (int32_t i = -radius; i <= radius; i++) {
    const double x = i, s = sigma * sigma, g = exp(-0.5 * x * x / s) / sum;
    to->taps[i + radius] = order == 0 ? g : order == 1 ? x / s * g : (x * x / s - 1) / s * g;
  }
}

static void make_box(int32_t size, line *to) {
  to->radius = size / 2;
  for (int32_t i = 0; i <= 2 * to->radius; i++)
    to->taps[i] = i < size ? 1.0 / size : 0;
}

/* Adds the product of three lines, along z, y and x, to a sum of terms. */
static gconv_status add_term(const line lines[3], double scale, const char *name, gconv_volume_taps *taps) {
  gconv_volume_term *terms = realloc(taps->terms, (taps->count + 1) * sizeof *terms);
  GCONV_NEED_MEMORY(terms, "no memory for a filter");
  taps->terms = terms;
  const int32_t rows = 2 * lines[1].radius + 1, columns = 2 * lines[2].radius + 1, count = 2 * lines[0].radius + 1;
  gconv_volume_term *term = &terms[taps->count++];
  *term = (gconv_volume_term){.plane = {.name = strdup(name),
                                        .rows = rows,
                                        .columns = columns,
                                        .anchor_row = lines[1].radius,
                                        .anchor_column = lines[2].radius,
                                        .divisor = 1,
                                        .taps = malloc((size_t)rows * (size_t)columns * sizeof(float))},
                              .line = malloc((size_t)count * sizeof(float)),
                              .count = count,
                              .anchor = lines[0].radius};
  GCONV_NEED_MEMORY(term->plane.name && term->plane.taps && term->line, "no memory for a filter of %d x %d x %d", count,
                    rows, columns);
  for (int32_t r = 0; r < rows; r++)
    for (int32_t s = 0; s < columns; s++)
      term->plane.taps[r * columns + s] = (float)(lines[1].taps[r] * lines[2].taps[s]);
  for (int32_t k = 0; k < count; k++)
    term->line[k] = (float)(scale * lines[0].taps[k]);
  return GCONV_OK;
}

/* ---- Parameters ------------------------------------------------------------------------------------------------------- */

/* A parameter of a name: one number for all axes, or three with x between, along z, y and x. */
typedef struct parameter {
  const char *name;
  double least, most;
  bool is_length; /* may have a unit: um, nm or mm */
  double value[3];
} parameter;

/* Reads a number, which may have a unit of length. A voxel has `spacing` micrometres. */
static gconv_status read_number(const char *spec, char **text, const parameter *p, double spacing, double *value) {
  static const struct {
    const char *name;
    double um;
  } units[] = {{"um", 1}, {"µm", 1}, {"nm", 1e-3}, {"mm", 1e3}};
  char number[32];
  const size_t length = strspn(*text, "+-0123456789.eE"); /* 0x1x2 are three numbers, and no hexadecimal one */
  snprintf(number, sizeof number, "%.*s", length < sizeof number ? (int)length : 0, *text);
  char *end = *text + length;
  const bool is_number = gconv_nodata_read(number, value);
  for (size_t u = 0; u < sizeof units / sizeof *units && is_number; u++)
    if (strncmp(end, units[u].name, strlen(units[u].name)) == 0) {
      end += strlen(units[u].name);
      if (!p->is_length)
        return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %s counts voxels, and has no unit", spec, p->name);
      if (!(spacing > 0))
        return gconv_fail(GCONV_BAD_ARGUMENT,
                          "%s: in micrometres, and the file does not say how far its voxels are apart: --spacing ZxYxX says "
                          "it, in um; a number without a unit is in voxels",
                          spec);
      *value *= units[u].um / spacing;
      break;
    }
  if (!is_number || !(*value >= p->least && *value <= p->most))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %s is from %g to %g, one number or three, ZxYxX", spec, p->name, p->least,
                      p->most);
  *text = end;
  return GCONV_OK;
}

static gconv_status read_values(const char *spec, char *text, const double spacing[3], parameter *p) {
  for (int axis = 0; axis < 3; axis++) {
    char *again = text;
    GCONV_TRY(read_number(spec, &text, p, spacing[axis], &p->value[axis]));
    if (axis == 0 && *text == '\0') { /* one number for all axes: in micrometres, its voxels differ from axis to axis */
      for (int other = 1; other < 3; other++) {
        char *one = again;
        GCONV_TRY(read_number(spec, &one, p, spacing[other], &p->value[other]));
      }
      return GCONV_OK;
    }
    if (*text != (axis < 2 ? 'x' : '\0'))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %s is one number or three, ZxYxX", spec, p->name);
    text += axis < 2;
  }
  return GCONV_OK;
}

/* Reads KEY=VALUE,KEY=VALUE. Parameters keep their values if they are not given. */
static gconv_status read_parameters(const char *spec, const char *text, const double spacing[3], parameter *list,
                                    size_t count) {
  GCONV_FREED char *copy = strdup(text);
  GCONV_NEED_MEMORY(copy, "no memory for a filter");
  char *rest = NULL;
  for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
    char *equals = strchr(word, '=');
    const bool fwhm = strncmp(word, "fwhm=", 5) == 0; /* the width of a Gaussian at half of its height */
    parameter *found = NULL;
    for (size_t i = 0; i < count && equals; i++)
      if (((size_t)(equals - word) == strlen(list[i].name) && strncmp(word, list[i].name, strlen(list[i].name)) == 0) ||
          (fwhm && strcmp(list[i].name, "sigma") == 0))
        found = &list[i];
    char names[64] = "";
    for (size_t i = 0; i < count && !found; i++)
      snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 0 ? ", " : ": it has ", list[i].name);
    if (!found)
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %s is no parameter of it%s", spec, word, names);
    GCONV_TRY(read_values(spec, equals + 1, spacing, found));
    for (int axis = 0; axis < 3 && fwhm; axis++)
      found->value[axis] /= 2 * sqrt(2 * log(2));
  }
  return GCONV_OK;
}

/* ---- Names ------------------------------------------------------------------------------------------------------------ */

/* A filter that is being made. It is allocated, because lines are large. */
typedef struct making {
  const char *spec;
  const double *spacing;
  line lines[3];
  gconv_volume_kernel *filter;
} making;

static gconv_status read_gaussian(making *m, const char *text, parameter *list, size_t count) {
  GCONV_TRY(read_parameters(m->spec, text, m->spacing, list, count));
  if (!(list[0].value[0] >= list[0].least))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: say how wide it is: %s=2, or %s=1x2x2 (z, y, x)", m->spec, list[0].name,
                      list[0].name);
  return GCONV_OK;
}

static int32_t radius_of(double sigma, double truncate) {
  /* By default, as for the Gaussians of src/filter; with truncate, as scipy.ndimage does. */
  double radius = truncate > 0 ? floor(truncate * sigma + 0.5) : ceil(3 * sigma);
  return radius > MOST_RADIUS ? MOST_RADIUS : (int32_t)radius;
}

#define SIGMA(name_)                                                                                                        \
  {                                                                                                                         \
    name_, 0.001, MOST_RADIUS / 8.0, true, {                                                                                \
      NAN, NAN, NAN                                                                                                         \
    }                                                                                                                       \
  }
#define TRUNCATE                                                                                                            \
  {                                                                                                                         \
    "truncate", 0.1, 8, false, {                                                                                            \
      0, 0, 0                                                                                                               \
    }                                                                                                                       \
  }

static gconv_status make_gaussians(making *m, const char *text) {
  parameter list[] = {SIGMA("sigma"), TRUNCATE, {"order", 0, 2, false, {0, 0, 0}}};
  const double least = list[0].least;
  list[0].least = 0; /* an axis of 0 is left as it is */
  GCONV_TRY(read_gaussian(m, text, list, 3));
  if (fmax(fmax(list[0].value[0], list[0].value[1]), list[0].value[2]) < least)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: sigma is from %g to %g, and 0 only along some axes", m->spec, least,
                      list[0].most);
  for (int axis = 0; axis < 3; axis++) {
    const double sigma = fmax(list[0].value[axis], least);
    if (list[0].value[axis] < least && list[2].value[axis] > 0)
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s: a derivative takes a sigma along its axis, from %g on", m->spec, least);
    if (list[2].value[axis] != floor(list[2].value[axis]))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s: orders of derivatives are 0, 1 or 2", m->spec);
    make_gaussian(sigma, (int)list[2].value[axis], radius_of(sigma, list[1].value[0]), &m->lines[axis]);
  }
  m->filter->count = 1;
  return add_term(m->lines, 1, "gaussian", &m->filter->of[0]);
}

static gconv_status make_boxes(making *m, const char *text) {
  parameter size = {"size", 1, 2 * MOST_RADIUS, false, {3, 3, 3}};
  GCONV_TRY(read_parameters(m->spec, text, m->spacing, &size, 1));
  for (int axis = 0; axis < 3; axis++) {
    if (size.value[axis] != floor(size.value[axis]))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s: a size is a whole number of voxels", m->spec);
    make_box((int32_t)size.value[axis], &m->lines[axis]);
  }
  m->filter->count = 1;
  return add_term(m->lines, 1, "box", &m->filter->of[0]);
}

/* Makes the derivative along an axis. With `smooths`, the lines along the other axes are 1 2 1; otherwise they are 1. */
static gconv_status add_derivative(making *m, int axis, bool smooths, double scale, gconv_volume_taps *taps) {
  for (int other = 0; other < 3; other++)
    if (other == axis)
      make_difference(1, &m->lines[other]);
    else if (smooths)
      make_difference(0, &m->lines[other]);
    else
      make_identity(&m->lines[other]);
  return add_term(m->lines, scale, "derivative", taps);
}

static gconv_status make_derivatives(making *m, const char *text) {
  const bool smooths = strncmp(m->spec, "sobel", 5) == 0;
  const char *underscore = strchr(m->spec, '_');
  GCONV_TRY(read_parameters(m->spec, text, m->spacing, NULL, 0));
  if (underscore) {
    m->filter->count = 1;
    return add_derivative(m, 'z' - underscore[1], smooths, smooths ? 1 : 0.5, &m->filter->of[0]);
  }
  m->filter->count = 3;
  for (int i = 0; i < 3; i++)
    GCONV_TRY(add_derivative(m, i, smooths, smooths ? 1 : 0.5, &m->filter->of[i]));
  return GCONV_OK;
}

/* The sum of the second differences along the axes. */
static gconv_status make_laplacian(making *m, const char *text) {
  GCONV_TRY(read_parameters(m->spec, text, m->spacing, NULL, 0));
  m->filter->count = 1;
  for (int axis = 0; axis < 3; axis++) {
    for (int other = 0; other < 3; other++)
      make_identity(&m->lines[other]);
    make_difference(2, &m->lines[axis]);
    GCONV_TRY(add_term(m->lines, 1, "laplacian", &m->filter->of[0]));
  }
  return GCONV_OK;
}

static gconv_status make_log(making *m, const char *text) {
  parameter list[] = {SIGMA("sigma"), TRUNCATE};
  GCONV_TRY(read_gaussian(m, text, list, 2));
  m->filter->count = 1;
  for (int axis = 0; axis < 3; axis++) {
    for (int i = 0; i < 3; i++)
      make_gaussian(list[0].value[i], i == axis ? 2 : 0, radius_of(list[0].value[i], list[1].value[0]), &m->lines[i]);
    GCONV_TRY(add_term(m->lines, 1, "log", &m->filter->of[0]));
  }
  return GCONV_OK;
}

static gconv_status make_dog(making *m, const char *text) {
  parameter list[] = {SIGMA("sigma1"), TRUNCATE, SIGMA("sigma2")};
  GCONV_TRY(read_gaussian(m, text, list, 3));
  m->filter->count = 1;
  for (int i = 0; i < 2; i++) {
    for (int axis = 0; axis < 3; axis++) {
      const double second = isnan(list[2].value[axis]) ? 1.6 * list[0].value[axis] : list[2].value[axis];
      const double sigma = i == 0 ? list[0].value[axis] : second;
      make_gaussian(sigma, 0, radius_of(sigma, list[1].value[0]), &m->lines[axis]);
    }
    GCONV_TRY(add_term(m->lines, i == 0 ? 1 : -1, "dog", &m->filter->of[0]));
  }
  return GCONV_OK;
}

static const struct {
  const char *name;
  gconv_status (*make)(making *m, const char *text);
} names[] = {{"gaussian", make_gaussians},
             {"box", make_boxes},
             {"average", make_boxes},
             {"mean", make_boxes},
             {"uniform", make_boxes},
             {"sobel", make_derivatives},
             {"sobel_x", make_derivatives},
             {"sobel_y", make_derivatives},
             {"sobel_z", make_derivatives},
             {"gradient", make_derivatives},
             {"derivative_x", make_derivatives},
             {"derivative_y", make_derivatives},
             {"derivative_z", make_derivatives},
             {"laplacian", make_laplacian},
             {"log", make_log},
             {"dog", make_dog}};

/* ---- Files ------------------------------------------------------------------------------------------------------------ */

/* Returns whether all slices are multiples of the slice with the largest tap. If so, sets `factors`, and copies the taps of
 * that slice to the first one. */
static bool find_line(const gconv_filters *slices, float *factors) {
  const size_t taps = (size_t)slices->items[0].rows * (size_t)slices->items[0].columns;
  size_t base = 0, at = 0;
  float largest = 0;
  for (size_t k = 0; k < slices->count; k++)
    for (size_t i = 0; i < taps; i++)
      if (fabsf(slices->items[k].taps[i]) > largest) {
        largest = fabsf(slices->items[k].taps[i]);
        base = k;
        at = i;
      }
  for (size_t k = 0; k < slices->count; k++) {
    const float *of = slices->items[k].taps, *first = slices->items[base].taps;
    if (slices->items[k].divisor != slices->items[0].divisor)
      return false;
    const double factor = largest > 0 ? (double)of[at] / (double)first[at] : 0;
    factors[k] = (float)factor;
    for (size_t i = 0; i < taps; i++)
      if (fabs((double)of[i] - factor * (double)first[i]) > 0x1p-23 * (double)largest)
        return false;
  }
  memcpy(slices->items[0].taps, slices->items[base].taps, base == 0 ? 0 : taps * sizeof(float));
  return true;
}

/* Makes terms of slices, and takes over their taps. */
static gconv_status take_slices(gconv_filters *slices, gconv_volume_taps *taps) {
  const size_t count = slices->count;
  GCONV_FREED float *factors = malloc(count * sizeof *factors);
  GCONV_NEED_MEMORY(factors, "no memory for a filter");
  const bool is_line = find_line(slices, factors);
  GCONV_NEW(taps->terms, count, "no memory for a filter");
  for (size_t k = 0; k < (is_line ? 1 : count); k++) {
    gconv_volume_term *term = &taps->terms[taps->count];
    GCONV_NEW(term->line, count, "no memory for a filter");
    taps->count++;
    term->plane = slices->items[k];
    slices->items[k] = (gconv_filter){0};
    term->count = (int32_t)count;
    term->anchor = (int32_t)count / 2;
    if (is_line)
      memcpy(term->line, factors, count * sizeof *factors);
    else
      term->line[k] = 1;
  }
  return GCONV_OK;
}

/* Makes the filter of slices, which it takes over. */
static gconv_status take_filters(const char *name, gconv_status status, gconv_filters *slices, gconv_volume_kernel *filter) {
  for (size_t k = 1; k < slices->count && status == GCONV_OK; k++)
    if (slices->items[k].rows != slices->items[0].rows || slices->items[k].columns != slices->items[0].columns)
      status = gconv_fail(GCONV_BAD_ARGUMENT, "%s: its planes of taps have several sizes", name);
  filter->count = 1;
  GCONV_THEN(status, take_slices(slices, &filter->of[0]));
  gconv_filters_free(slices);
  if (status != GCONV_OK)
    gconv_volume_filter_free(filter);
  return status;
}

static gconv_status copy_filter(const gconv_filter *from, gconv_filters *to) {
  const size_t bytes = (size_t)from->rows * (size_t)from->columns * sizeof(float);
  gconv_filter *copy = &to->items[to->count++];
  *copy = *from;
  copy->name = strdup(from->name ? from->name : "taps");
  copy->taps = malloc(bytes);
  GCONV_NEED_MEMORY(copy->name && copy->taps, "no memory for a filter");
  memcpy(copy->taps, from->taps, bytes);
  return GCONV_OK;
}

gconv_status gconv_volume_filter_copy(const gconv_filter *planes, int32_t count, gconv_volume_kernel *filter) {
  gconv_filter_analysis found;
  gconv_filters slices = {0};
  gconv_status status = GCONV_OK;
  *filter = (gconv_volume_kernel){0};
  GCONV_TRY(gconv_check_value("tap_planes", count, 1, 1 << 15));
  GCONV_NEW(slices.items, (size_t)count, "no memory for a filter");
  for (int32_t k = 0; k < count && status == GCONV_OK; k++) {
    status = gconv_filter_analyze(&planes[k], &found);
    GCONV_THEN(status, copy_filter(&planes[k], &slices));
  }
  return take_filters("taps", status, &slices, filter);
}

/* ---- The whole -------------------------------------------------------------------------------------------------------- */

gconv_status gconv_volume_filter_read(const char *spec, const double spacing[3], gconv_volume_kernel *filter) {
  const size_t length = strcspn(spec, ":");
  gconv_status status = GCONV_OK;
  bool found = false;
  *filter = (gconv_volume_kernel){0};
  for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) {
    found = strlen(names[i].name) == length && strncmp(spec, names[i].name, length) == 0;
    if (!found)
      continue;
    making *m = malloc(sizeof *m);
    GCONV_NEED_MEMORY(m, "no memory for a filter");
    m->spec = spec;
    m->spacing = spacing;
    m->filter = filter;
    status = names[i].make(m, spec[length] ? spec + length + 1 : "");
    free(m);
  }
  if (!found && strlen(spec) > 4 && strcmp(spec + strlen(spec) - 4, ".npy") == 0) {
    gconv_filters slices = {0};
    status = gconv_filters_read(spec, NULL, &slices);
    return take_filters(spec, status, &slices, filter);
  }
  char word[64];
  snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : 0), spec);
  if (!found && gconv_elsewhere(word))
    status = gconv_fail(GCONV_BAD_ARGUMENT, "%s: %s", spec, gconv_elsewhere(word));
  else if (!found)
    status = gconv_fail(GCONV_BAD_ARGUMENT,
                        "%s: of volumes there are gaussian:sigma=1x2x2 (z, y, x; order=0x0x1 for a derivative), box, sobel, "
                        "gradient, sobel_x and derivative_x (y, z), laplacian, log, dog, and .npy files of K x R x S taps",
                        spec);
  if (status != GCONV_OK)
    gconv_volume_filter_free(filter);
  return status;
}

static void reverse(float *taps, size_t count) {
  for (size_t i = 0; i < count / 2; i++) {
    const float tap = taps[i];
    taps[i] = taps[count - 1 - i];
    taps[count - 1 - i] = tap;
  }
}

void gconv_volume_filter_flip(gconv_volume_kernel *filter) {
  for (size_t k = 0; k < filter->count; k++)
    for (size_t j = 0; j < filter->of[k].count; j++) {
      gconv_volume_term *term = &filter->of[k].terms[j];
      gconv_filter *plane = &term->plane;
      reverse(term->line, (size_t)term->count);
      term->anchor = term->count - 1 - term->anchor;
      reverse(plane->taps, (size_t)plane->rows * (size_t)plane->columns);
      plane->anchor_row = plane->rows - 1 - plane->anchor_row;
      plane->anchor_column = plane->columns - 1 - plane->anchor_column;
    }
}

void gconv_volume_filter_free(gconv_volume_kernel *filter) {
  for (size_t k = 0; k < 3; k++) {
    for (size_t j = 0; j < filter->of[k].count; j++) {
      free(filter->of[k].terms[j].plane.name);
      gconv_release(filter->of[k].terms[j].plane.taps); /* of a file, or of malloc() */
      free(filter->of[k].terms[j].line);
    }
    free(filter->of[k].terms);
  }
  *filter = (gconv_volume_kernel){0};
}
