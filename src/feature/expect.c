/* SPDX-License-Identifier: MIT */
/* Decides, by sums over some pixels, whether the features of a picture are like those that a model learned. */
#include "base/memory.h"
#include "base/status.h"
#include "feature/feature.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { STEP = 8 }; /* every eighth row and column counts */

struct gconv_feature_look {
  const gconv_column_notes *notes; /* the operation's */
  pthread_mutex_t lock;            /* rows may come from several threads */
  double pixels;
  double *sums; /* owned: for each feature, the sum of (value - the model's mean), and the sum of the squares of that */
};

gconv_feature_look *gconv_feature_look_begin(const gconv_column_notes *notes) {
  gconv_feature_look *look = calloc(1, sizeof *look);
  double *sums = calloc(2 * notes->count, sizeof *sums);
  if (!look || !sums || pthread_mutex_init(&look->lock, NULL) != 0) {
    free(look);
    free(sums);
    return NULL;
  }
  look->notes = notes;
  look->sums = sums;
  return look;
}

void gconv_feature_look_end(gconv_feature_look *look) {
  if (!look)
    return;
  pthread_mutex_destroy(&look->lock);
  free(look->sums);
  free(look);
}

static void add_rows(gconv_feature_look *look, const gconv_image *made) {
  for (size_t c = 0; c < look->notes->count; c++)
    for (int32_t y = 0; y < made->height; y += STEP) {
      const float *row =
          (const float *)(const void *)((const uint8_t *)made->data + c * made->plane_bytes + (size_t)y * made->row_bytes);
      for (int32_t x = 0; x < made->width; x += STEP) {
        const double value = (double)row[x] - look->notes->means[c];
        look->sums[2 * c] += value;
        look->sums[2 * c + 1] += value * value;
      }
    }
  look->pixels += (double)((made->height + STEP - 1) / STEP) * (double)((made->width + STEP - 1) / STEP);
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Finds two medians over all features, in units of the model's standard deviations. *far: the root mean square distance of
 * values from the model's mean. *vary: the standard deviation of values. */
static bool find_medians(const gconv_feature_look *look, double *far, double *vary) {
  GCONV_FREED double *both = malloc(2 * look->notes->count * sizeof *both);
  size_t count = 0;
  for (size_t c = 0; c < look->notes->count && both; c++) {
    const double known = look->notes->deviations[c], mean = look->sums[2 * c] / look->pixels;
    const double square = look->sums[2 * c + 1] / look->pixels, variance = square - mean * mean;
    if (!(known > 0) || !isfinite(square))
      continue;
    both[count] = sqrt(square) / known;
    both[look->notes->count + count++] = variance > 0 ? sqrt(variance) / known : 0;
  }
  if (count > 0) {
    qsort(both, count, sizeof *both, compare);
    qsort(both + look->notes->count, count, sizeof *both, compare);
    *far = both[count / 2];
    *vary = both[look->notes->count + count / 2];
  }
  return count > 0;
}

static void judge(const gconv_feature_look *look) {
  /* Beyond these limits, samples probably have another unit: 12 bits stored in 16 make features 1/16 as strong, floats of 0
   * to 255 make them 255 times as strong. */
  const double most = 8, least = 1.0 / 12;
  double far, vary;
  if (!find_medians(look, &far, &vary) || (far <= most && (vary >= least || vary == 0)))
    return;
  gconv_warn_once(
      "unlike what was learned",
      "a picture is far from the pictures that the model learned: its features are %.3g times as strong. Are its samples in "
      "another unit, such as 12 bits in 16, or floats up to 255?",
      far > most ? far : vary);
}

void gconv_feature_look_add(gconv_feature_look *look, const gconv_image *made, int32_t first, int32_t count,
                            int32_t height) {
  if (!look || made->frames > 1)
    return;
  pthread_mutex_lock(&look->lock);
  if (first == 0) {
    look->pixels = 0;
    memset(look->sums, 0, 2 * look->notes->count * sizeof *look->sums);
  }
  add_rows(look, made);
  if (first + count == height && look->pixels >= 16)
    judge(look);
  pthread_mutex_unlock(&look->lock);
}
