/* SPDX-License-Identifier: MIT */
#include "image/look.h"
#include "base/cpu.h"
#include "base/element.h"
#include "base/status.h"
#include "base/threads.h"
#include "image/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STRIP = 32 }; /* rows of a turn */

/* The rows to look at, which threads share. */
typedef struct looking {
  gconv_look *look;
  const gconv_image *image;
  int32_t first, strips; /* in each plane: the first row, and the number of strips */
} looking;

/* ---- NaN and infinities ---- */

GCONV_VECTOR_LOOP(count_row, (const float *row, size_t samples, uint64_t *nans, uint64_t *infinities),
                  (row, samples, nans, infinities)) {
  const uint32_t infinite = 0x7f800000;
  size_t no_numbers = 0, infinite_numbers = 0;
  for (size_t i = 0; i < samples; i++) {
    uint32_t bits;
    memcpy(&bits, &row[i], sizeof bits);
    bits &= 0x7fffffff;
    no_numbers += bits > infinite;
    infinite_numbers += bits == infinite;
  }
  *nans += no_numbers;
  *infinities += infinite_numbers;
}

/* ---- Colours of transparent pixels ---- */

/* Returns a sample, where white is 1. */
static double sample_of(gconv_type type, const void *row, size_t i) {
  return gconv_stored_at(type, row, i) / gconv_level_of_white(type);
}

/* Returns whether all pixels of a row are opaque. */
static bool is_opaque(const gconv_image *image, const void *row) {
  size_t channels = (size_t)image->channels, samples = (size_t)image->width * channels;
  bool opaque = true;
  if (image->type == GCONV_U8)
    for (size_t i = channels - 1; i < samples; i += channels)
      opaque &= ((const uint8_t *)row)[i] == UINT8_MAX;
  else
    for (size_t i = channels - 1; i < samples && opaque; i += channels)
      opaque = sample_of(image->type, row, i) >= 1;
  return opaque;
}

/* Returns whether one of two neighbours is less than half as opaque as the other, and of another colour. */
static bool differ(const gconv_image *image, const void *a_row, size_t a, const void *b_row, size_t b) {
  const double least = 1.0 / 64; /* the smallest difference of colours that is visible */
  size_t channels = (size_t)image->channels;
  double a_alpha = sample_of(image->type, a_row, a * channels + channels - 1);
  double b_alpha = sample_of(image->type, b_row, b * channels + channels - 1);
  bool visible = false;
  if (2 * fmin(a_alpha, b_alpha) >= fmax(a_alpha, b_alpha))
    return false;
  for (size_t c = 0; c + 1 < channels; c++)
    visible |=
        fabs(sample_of(image->type, a_row, a * channels + c) - sample_of(image->type, b_row, b * channels + c)) > least;
  return visible;
}

static bool row_bleeds(const gconv_image *image, const uint8_t *row, const uint8_t *above) {
  bool found = false;
  if (is_opaque(image, row) && (!above || is_opaque(image, above)))
    return false;
  for (size_t x = 0; x < (size_t)image->width && !found; x++)
    found = (x > 0 && differ(image, row, x, row, x - 1)) || (above && differ(image, row, x, above, x));
  return found;
}

/* ---- All rows ---- */

static void look_at_strip(void *context, size_t turn, int seat) {
  const looking *l = context;
  const gconv_image *image = l->image;
  gconv_look *look = l->look;
  uint64_t nans = 0, infinities = 0;
  size_t plane = turn / (size_t)l->strips, samples = gconv_samples_of(image);
  int32_t begin = l->first + (int32_t)(turn % (size_t)l->strips) * STRIP;
  int32_t end = image->height - begin < STRIP ? image->height : begin + STRIP;
  for (int32_t y = begin; y < end; y++) {
    const uint8_t *row = gconv_row_at(image, plane, y);
    if (look->numbers)
      count_row((const float *)(const void *)row, samples, &nans, &infinities);
    if (look->colours && !__atomic_load_n(&look->bleeds, __ATOMIC_RELAXED) &&
        row_bleeds(image, row, y > 0 ? row - image->row_bytes : NULL))
      __atomic_store_n(&look->bleeds, 1, __ATOMIC_RELAXED);
  }
  if (nans + infinities == 0)
    return;
  __atomic_fetch_add(&look->nans, nans, __ATOMIC_RELAXED);
  __atomic_fetch_add(&look->infinities, infinities, __ATOMIC_RELAXED);
}

void gconv_look_at(gconv_look *look, const gconv_image *image, int32_t first, gconv_threads *threads) {
  gconv_look wanted = *look;
  size_t planes = gconv_planes_of(image);
  if (first >= image->height)
    return;
  look->numbers &= image->type == GCONV_F32;
  look->colours &= image->alpha && !image->planar;
  looking l = {.look = look, .image = image, .first = first, .strips = (image->height - first + STRIP - 1) / STRIP};
  if (look->numbers || look->colours)
    gconv_threads_run(threads, planes * (size_t)l.strips, look_at_strip, &l);
  look->samples += (uint64_t)planes * (uint64_t)(image->height - first) * gconv_samples_of(image);
  look->numbers = wanted.numbers;
  look->colours = wanted.colours;
}

void gconv_look_add(gconv_look *sum, const gconv_look *other) {
  sum->samples += other->samples;
  sum->nans += other->nans;
  sum->infinities += other->infinities;
  sum->bleeds |= other->bleeds;
}

/* ---- Warnings ---- */

void gconv_look_warn_of_numbers(const gconv_look *look, const char *path) {
  unsigned long long nans = look->nans, infinities = look->infinities, samples = look->samples;
  char found[128];
  if (nans + infinities == 0)
    return;
  if (infinities == 0)
    snprintf(found, sizeof found, "%llu of %llu samples %s not a number (NaN)", nans, samples, nans == 1 ? "is" : "are");
  else if (nans == 0)
    snprintf(found, sizeof found, "%llu of %llu samples %s infinite", infinities, samples, infinities == 1 ? "is" : "are");
  else
    snprintf(found, sizeof found, "of %llu samples, %llu %s not a number (NaN), and %llu infinite", samples, nans,
             nans == 1 ? "is" : "are", infinities);
  static const char advice[] = "results of integers that they reach become black or white, and maps of classes 0";
  if (path)
    gconv_warn_once("no numbers", "%s: %s: %s: --depth float, into .npy, .pfm or .tif, keeps them", path, found, advice);
  else
    gconv_warn("%s: %s: outputs of f32 keep them", found, advice);
}
