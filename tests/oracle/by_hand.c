/* SPDX-License-Identifier: MIT */
#include "by_hand.h"
#include "bench/make_plan.h"
#include "oracle.h"

#include <math.h>
#include <stdio.h>

enum { MOST = 6 };

/* One row of pixels, filtered with padding `valid`. */
typedef struct known {
  const char *what;
  gconv_type in, out;
  int32_t width, channels;
  bool alpha;
  gconv_alpha mode;
  int32_t columns;
  float taps[2];
  float samples[MOST];
  size_t outputs;
  double expected[MOST];
} known;

/* clang-format off */
static const known KNOWN[] = {
    {"ties go to the even level",
     GCONV_U8, GCONV_U8, 5, 1, false, GCONV_ALPHA_KEEP, 2, {0.5F, 0.5F}, {0, 1, 2, 3, 4}, 4, {0, 2, 2, 4}},
    {"ties of 16 bits go to the even level",
     GCONV_U16, GCONV_U16, 4, 1, false, GCONV_ALPHA_KEEP, 2, {0.5F, 0.5F}, {65532, 65533, 65534, 65535}, 3,
     {65532, 65534, 65534}},
    {"levels become fractions that are rounded once",
     GCONV_U8, GCONV_F32, 5, 1, false, GCONV_ALPHA_KEEP, 1, {1, 0}, {3, 6, 7, 27, 255}, 5,
     {(float)(3 / 255.0), (float)(6 / 255.0), (float)(7 / 255.0), (float)(27 / 255.0), 1}},
    {"more depth keeps black and white",
     GCONV_U8, GCONV_U16, 2, 1, false, GCONV_ALPHA_KEEP, 1, {1, 0}, {0, 255}, 2, {0, 65535}},
    {"an infinity saturates, what is no number becomes 0",
     GCONV_F32, GCONV_U8, 3, 1, false, GCONV_ALPHA_KEEP, 1, {1, 0}, {NAN, INFINITY, -INFINITY}, 3, {0, 255, 0}},
    {"int16 has signs, and its ties go to the even level",
     GCONV_U8, GCONV_I16, 6, 1, false, GCONV_ALPHA_KEEP, 2, {0.5F, -0.5F}, {0, 1, 4, 255, 0, 0}, 5, {0, -2, -126, 128, 0}},
    {"int16 saturates",
     GCONV_U8, GCONV_I16, 4, 1, false, GCONV_ALPHA_KEEP, 2, {-129, 128}, {255, 0, 255, 254}, 3, {-32768, 32640, -383}},
    {"int16 has the levels of 16 bits",
     GCONV_U16, GCONV_I16, 4, 1, false, GCONV_ALPHA_KEEP, 2, {-1, 1}, {0, 32768, 65535, 0}, 3, {32767, 32767, -32768}},
    {"int16 of floats counts their units, an infinity saturates, what is no number becomes 0",
     GCONV_F32, GCONV_I16, 6, 1, false, GCONV_ALPHA_KEEP, 1, {1, 0}, {NAN, INFINITY, -INFINITY, 2.5F, -3.5F, 0.51F}, 6,
     {0, 32767, -32768, 2, -4, 1}},
    {"alpha of int16 is that below the anchor",
     GCONV_U8, GCONV_I16, 3, 2, true, GCONV_ALPHA_KEEP, 2, {1, -1}, {200, 1, 100, 2, 50, 3}, 4, {100, 2, 50, 3}},
    {"what is transparent is black",
     GCONV_U8, GCONV_U8, 3, 2, true, GCONV_ALPHA_PREMULTIPLY, 1, {1, 0}, {200, 0, 7, 0, 9, 255}, 6, {0, 0, 0, 0, 9, 255}},
    {"alpha is that below the anchor",
     GCONV_U8, GCONV_U8, 3, 2, true, GCONV_ALPHA_KEEP, 2, {1, 0}, {200, 1, 100, 2, 50, 3}, 4, {200, 2, 100, 3}},
};
/* clang-format on */

static void fill(const known *k, gconv_image *image) {
  for (int32_t i = 0; i < k->width * k->channels; i++)
    if (k->in == GCONV_U8)
      ((uint8_t *)image->data)[i] = (uint8_t)k->samples[i];
    else if (k->in == GCONV_U16)
      ((uint16_t *)image->data)[i] = (uint16_t)k->samples[i];
    else
      ((float *)image->data)[i] = k->samples[i];
}

static int compare(const known *k, const char *algorithm, const gconv_image *out) {
  int failures = (size_t)out->width * (size_t)out->channels != k->outputs;
  for (size_t i = 0; i < k->outputs && !failures; i++) {
    double got = gconv_oracle_sample_at(out, 0, 0, (int32_t)i / k->channels, (int32_t)i % k->channels);
    if (got != k->expected[i]) {
      printf("FAILED %s, %s: sample %zu is %g, expected %g\n", algorithm, k->what, i, got, k->expected[i]);
      failures++;
    }
  }
  return failures;
}

/* Returns the number of failures; *cases counts what the algorithm supports. */
static int run(gconv_device *device, const char *algorithm, const known *k, gconv_image *in, gconv_image *out, int *cases) {
  float taps[2] = {k->taps[0], k->taps[1]};
  char name[] = "known";
  gconv_filter filter = {
      .name = name, .rows = 1, .columns = k->columns, .anchor_column = k->columns / 2, .divisor = 1, .taps = taps};
  gconv_filters filters = {.items = &filter, .count = 1};
  gconv_options options = gconv_options_default();
  options.padding = GCONV_PADDING_VALID;
  options.alpha = k->mode;
  options.sets_type = true;
  options.output_type = k->out;
  options.algorithm = algorithm;
  gconv_plan *plan = NULL;
  int failures = 1;
  *in =
      (gconv_image){.type = k->in, .frames = 1, .height = 1, .width = k->width, .channels = k->channels, .alpha = k->alpha};
  if (gconv_image_allocate(in) == GCONV_OK) {
    fill(k, in);
    gconv_status status = gconv_plan_filters(device, in, &filters, &options, &plan);
    *cases += status != GCONV_UNSUPPORTED;
    if (status == GCONV_UNSUPPORTED)
      failures = 0;
    else if (status == GCONV_OK && gconv_plan_execute(plan, in, out, gconv_plan_outputs(plan), NULL) == GCONV_OK)
      failures = compare(k, algorithm, out);
    else
      printf("FAILED %s, %s: %s\n", algorithm, k->what, gconv_last_error());
  }
  gconv_plan_free(plan);
  return failures;
}

int gconv_by_hand_failures(gconv_device *device, const char *algorithm) {
  int failures = 0, cases = 0;
  for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
    gconv_image in = {0}, out = {0};
    failures += run(device, algorithm, &KNOWN[i], &in, &out, &cases);
    gconv_image_free(&in);
    gconv_image_free(&out);
  }
  if (cases < 3) {
    printf("FAILED %s: it supports %d of these cases\n", algorithm, cases);
    failures++;
  }
  return failures;
}
