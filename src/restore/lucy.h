/* SPDX-License-Identifier: MIT */
/* Richardson-Lucy on a device: richardson_lucy.c iterates, lucy_cpu.c and lucy_cuda.cu process samples. */
#pragma once

#include "device/device.h"
#include "restore/restore.h"

#include <math.h>

GCONV_C_BEGIN

/* The sums of an iteration. */
typedef enum gconv_lucy_sum {
  GCONV_LUCY_FLUX,     /* of H guess where y is not missing */
  GCONV_LUCY_DEVIANCE, /* of gconv_lucy_deviance() */
  GCONV_LUCY_CHANGE,   /* of (x - before)^2 */
  GCONV_LUCY_SIZE,     /* of x^2 */
  GCONV_LUCY_PRODUCT,  /* of this step times the last step */
  GCONV_LUCY_LAST,     /* of the last step's squares */
  GCONV_LUCY_SUMS
} gconv_lucy_sum;

/* The arrays of a restoration, in memory of the device: [planes][rows][columns][channels]. Those that a method does not use
 * are NULL. */
typedef struct gconv_lucy {
  gconv_restored *r;
  int32_t large_size[3], first[3];       /* planes, rows, columns of x; where the image lies in x */
  size_t count, large_count;             /* samples of the image, and of x */
  float *y, *ratio;                      /* the image, with NaN for missing samples; y / H guess */
  float *x, *before, *guess, *last_step; /* x is the guess's memory, unless accelerated */
  float *inverse, *corrected;            /* 1 / w, or 0; `inverse` times the factors of total variation */
  double total;                          /* the sum of y */
  float least;                           /* the least divisor: smaller samples of H guess are replaced by it */
  float epsilon;                         /* total variation adds epsilon^2 to squared gradients */
  void *state;                           /* the device's own */
} gconv_lucy;

#define GCONV_LUCY_LEAST_WEIGHT 0.01F /* where w is smaller, `inverse` is 0; the value of Bertero and Boccacci */

typedef struct gconv_lucy_type {
  /* Allocate floats, and free them. */
  gconv_status (*allocate)(gconv_lucy *l, size_t count, const char *what, float **samples);
  void (*release)(gconv_lucy *l, float *samples);
  /* Sets y, inverse = 1 / w where w = H^T(M) is not small, else 0, and guess = x = H^T(M y) / w. last_step becomes 0. */
  gconv_status (*begin)(gconv_lucy *l);
  gconv_status (*project)(gconv_lucy *l); /* ratio = y / H guess, 0 where y is missing */
  /* x = guess * H^T ratio * inverse, not below 0. With total variation, `corrected` takes the place of `inverse`. last_step
   * becomes x - guess. The sum of changes compares x with `before` or, if that is NULL, with the guess. */
  gconv_status (*update)(gconv_lucy *l);
  /* guess = x + step * (x - before), not below 0, where step follows from the sums. */
  gconv_status (*predict)(gconv_lucy *l);
  gconv_status (*sums)(gconv_lucy *l, double sums[GCONV_LUCY_SUMS]); /* copies those of the last project() and update() */
  gconv_status (*finish)(gconv_lucy *l, const float *x);             /* r->samples = the image's part of x */
  void (*end)(gconv_lucy *l);
} gconv_lucy_type;

extern const gconv_lucy_type gconv_lucy_type_cpu;
#ifdef GCONV_WITH_CUDA
extern const gconv_lucy_type gconv_lucy_type_cuda;
#endif

/* Returns the share of the last step by which the next guess goes further, 0 .. 1 (Biggs and Andrews). */
GCONV_BOTH float gconv_lucy_step(const double *sums) {
  const double step = sums[GCONV_LUCY_LAST] > 0 ? sums[GCONV_LUCY_PRODUCT] / sums[GCONV_LUCY_LAST] : 0;
  return (float)(step < 0 ? 0 : step > 1 ? 1 : step);
}

/* Returns the deviance of a sample y of which b was expected: 2 (y log(y / b) - y + b). */
GCONV_BOTH double gconv_lucy_deviance(double y, double b) {
  return 2 * ((y > 0 ? y * log(y / b) : 0) - y + b);
}

/* Returns one component of the gradient of the guess at a sample, divided by the gradient's length: differences to the next
 * sample along z, y and x. Returns 0 beyond the image. Because of epsilon, the quotient of a small gradient is short;
 * otherwise each iteration would reverse the sign of noise of the size of a share of lambda. */
GCONV_BOTH float gconv_lucy_slope(const gconv_lucy *l, int64_t channels, const int64_t place[3], int64_t c, int axis) {
  const int32_t *size = l->large_size;
  const int64_t steps[] = {(int64_t)size[1] * size[2], size[2], 1};
  const float *at = l->guess + (place[0] * steps[0] + place[1] * steps[1] + place[2]) * channels + c;
  float difference = 0, sum = l->epsilon * l->epsilon;
  if (place[axis] < 0)
    return 0;
  for (int i = 0; i < 3; i++) {
    const float d = place[i] + 1 < size[i] ? at[steps[i] * channels] - at[0] : 0;
    sum += d * d;
    difference = i == axis ? d : difference;
  }
  return difference / sqrtf(sum);
}

/* Returns 1 / (1 - lambda * div(gradient / |gradient|)) of the guess at sample i. */
GCONV_BOTH float gconv_lucy_variation(const gconv_lucy *l, int64_t channels, float lambda, int64_t i) {
  const int64_t pixel = i / channels, row = pixel / l->large_size[2];
  float divergence = 0;
  for (int axis = 0; axis < 3; axis++) {
    int64_t place[] = {row / l->large_size[1], row % l->large_size[1], pixel % l->large_size[2]};
    divergence += gconv_lucy_slope(l, channels, place, i % channels, axis);
    place[axis]--;
    divergence -= gconv_lucy_slope(l, channels, place, i % channels, axis);
  }
  const float factor = 1 - lambda * divergence;
  return 1 / (factor > 0.1F ? factor : 0.1F);
}

GCONV_C_END
