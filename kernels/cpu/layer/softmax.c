/* SPDX-License-Identifier: MIT */
#include "softmax.h"
#include "base/cpu.h"
#include "kernels/activation.h"

enum { BLOCK = 256 }; /* pixels, or cases of training, at a time */

GCONV_VECTOR_LOOP(softmax, (float *y, int64_t pitch, int64_t filters, int64_t count), (y, pitch, filters, count)) {
  float largest[BLOCK], part[BLOCK] = {0};
  double sum[BLOCK] = {0};
  for (int64_t i = 0; i < count; i++)
    largest[i] = y[i];
  for (int64_t k = 1; k < filters; k++)
    for (int64_t i = 0; i < count; i++)
      largest[i] = y[k * pitch + i] > largest[i] ? y[k * pitch + i] : largest[i];
  for (int64_t k = 0; k < filters; k++) {
    float *restrict row = y + k * pitch;
    for (int64_t i = 0; i < count; i++) {
      row[i] = gconv_exp_negative(row[i] - largest[i]);
      part[i] += row[i];
    }
    if ((k + 1) % GCONV_SOFTMAX_PART == 0 || k + 1 == filters)
      for (int64_t i = 0; i < count; i++) {
        sum[i] += (double)part[i];
        part[i] = 0;
      }
  }
  for (int64_t i = 0; i < count; i++)
    part[i] = (float)sum[i];
  for (int64_t k = 0; k < filters; k++)
    for (int64_t i = 0; i < count; i++)
      y[k * pitch + i] /= part[i];
}

/* Computes softmax of a single pixel, whose values are neighbours, as in a dense layer. */
GCONV_VECTOR_LOOP(softmax_one, (float *y, int64_t filters), (y, filters)) {
  float largest = y[0];
  double parts = 0;
  for (int64_t k = 1; k < filters; k++)
    largest = y[k] > largest ? y[k] : largest;
  for (int64_t k = 0; k < filters; k++)
    y[k] = gconv_exp_negative(y[k] - largest);
  for (int64_t first = 0; first < filters; first += GCONV_SOFTMAX_PART) {
    float part = 0;
    for (int64_t k = first; k < filters && k < first + GCONV_SOFTMAX_PART; k++)
      part += y[k];
    parts += (double)part;
  }
  const float sum = (float)parts;
  for (int64_t k = 0; k < filters; k++)
    y[k] /= sum;
}

void gconv_softmax_rows(float *y, int64_t pitch, int64_t filters, int64_t count) {
  if (pitch == 1 && count == 1)
    softmax_one(y, filters);
  else
    for (int64_t i = 0; i < count; i += BLOCK)
      softmax(y + i, pitch, filters, count - i < BLOCK ? count - i : BLOCK);
}
