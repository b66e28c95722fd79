/* SPDX-License-Identifier: MIT */
/*
 * Mixes the channels of each pixel by a matrix.
 *
 * Sample i of a row is the sum over d of pattern[d][i] * in[i + d], d from -(channels - 1) to channels - 1. A pattern holds,
 * for each channel in turn, the coefficient of the matrix at distance d; it is 0 if i + d belongs to another pixel. So whole
 * vectors of samples are mixed at once, whatever the number of channels is. BLOCK is a multiple of 1 to 4 channels and of a
 * vector. Blocks at the ends of a row, where neighbours are missing, are copied to a place with zeros around.
 */
#include "base/cpu.h"
#include "image/colour.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 192, MOST = 4, DISTANCES = 2 * MOST - 1 };

typedef struct mixer {
  int channels;
  bool used[DISTANCES]; /* whether a coefficient at distance d = -(MOST - 1) .. MOST - 1 is not 0 */
  float weights[DISTANCES][BLOCK];
  uint16_t integers[DISTANCES][BLOCK]; /* the weights modulo 65536, if they are integers; else 0 */
} mixer;

/* Returns whether coefficients are integers whose sums of levels are exact in float32. */
static bool are_integers(const float mixing[4][4], int channels, float white) {
  bool integers = true;
  for (int c = 0; c < channels; c++) {
    float sum = 0;
    for (int d = 0; d < channels; d++) {
      integers = integers && mixing[c][d] == rintf(mixing[c][d]);
      sum += fabsf(mixing[c][d]);
    }
    integers = integers && sum * white < 0x1p24f;
  }
  return integers;
}

static void fill(mixer *m, const float mixing[4][4], int channels, bool integers) {
  memset(m, 0, sizeof *m);
  m->channels = channels;
  for (int c = 0; c < channels; c++)
    for (int d = 0; d < channels; d++) {
      int distance = d - c + MOST - 1;
      m->used[distance] = m->used[distance] || mixing[c][d] != 0;
      for (int i = c; i < BLOCK; i += channels) {
        m->weights[distance][i] = mixing[c][d];
        m->integers[distance][i] = integers ? (uint16_t)(int32_t)mixing[c][d] : 0;
      }
    }
}

/* The mix_... functions mix BLOCK samples. `in` points to the first of them. */
GCONV_VECTOR_LOOP(mix_u8, (const mixer *m, const uint8_t *restrict in, uint8_t *restrict out), (m, in, out)) {
  uint16_t sums[BLOCK] = {0};
  for (int d = 0; d < DISTANCES; d++)
    for (int i = 0; m->used[d] && i < BLOCK; i++)
      sums[i] = (uint16_t)(sums[i] + m->integers[d][i] * in[i + d - (MOST - 1)]);
  for (int i = 0; i < BLOCK; i++)
    out[i] = (uint8_t)sums[i];
}

GCONV_VECTOR_LOOP(mix_u16, (const mixer *m, const uint16_t *restrict in, uint16_t *restrict out), (m, in, out)) {
  uint16_t sums[BLOCK] = {0};
  for (int d = 0; d < DISTANCES; d++)
    for (int i = 0; m->used[d] && i < BLOCK; i++)
      sums[i] = (uint16_t)(sums[i] + (uint32_t)m->integers[d][i] * in[i + d - (MOST - 1)]);
  memcpy(out, sums, sizeof sums);
}

GCONV_INLINE void add_levels(gconv_type type, const float *weights, const void *in, int from, float *restrict sums) {
  for (int i = 0; i < BLOCK; i++)
    if (type == GCONV_U8)
      sums[i] = fmaf(weights[i], ((const uint8_t *)in)[i + from], sums[i]);
    else if (type == GCONV_U16)
      sums[i] = fmaf(weights[i], ((const uint16_t *)in)[i + from], sums[i]);
    else if (weights[i] != 0) /* 0 times the NaN of another pixel would be NaN */
      sums[i] = fmaf(weights[i], ((const float *)in)[i + from], sums[i]);
}

GCONV_VECTOR_LOOP(mix_floats, (const mixer *m, gconv_type type, const void *restrict in, float *restrict sums),
                  (m, type, in, sums)) {
  memset(sums, 0, BLOCK * sizeof *sums);
  for (int d = 0; d < DISTANCES; d++)
    if (m->used[d] && type == GCONV_U8)
      add_levels(GCONV_U8, m->weights[d], in, d - (MOST - 1), sums);
    else if (m->used[d] && type == GCONV_U16)
      add_levels(GCONV_U16, m->weights[d], in, d - (MOST - 1), sums);
    else if (m->used[d])
      add_levels(GCONV_F32, m->weights[d], in, d - (MOST - 1), sums);
}

/* cut() and round_level() do gconv_cut_level() and gconv_to_level() (kernels/pixel.h). Adding 2^23 rounds to nearest
 * even. */
GCONV_INLINE uint32_t cut(float y) {
  return y > -2147483648.0f && y < 2147483648.0f ? (uint32_t)(int32_t)y : 0;
}
GCONV_INLINE uint32_t round_level(float y, float white) {
  y = y > 0.0f ? y : 0.0f;
  y = y < white ? y : white;
  return (uint32_t)(int32_t)((y + 8388608.0f) - 8388608.0f);
}

GCONV_VECTOR_LOOP(put, (gconv_type type, bool wrap, const float *restrict sums, void *restrict out),
                  (type, wrap, sums, out)) {
  const float white = type == GCONV_U8 ? 255.0f : 65535.0f;
  uint32_t levels[BLOCK];
  for (int i = 0; i < BLOCK; i++)
    levels[i] = wrap ? cut(sums[i]) : round_level(sums[i], white);
  for (int i = 0; i < BLOCK; i++)
    if (type == GCONV_U8)
      ((uint8_t *)out)[i] = (uint8_t)levels[i];
    else
      ((uint16_t *)out)[i] = (uint16_t)levels[i];
}

static void mix_block(const mixer *m, gconv_type type, bool wrap, bool integers, const void *in, void *out) {
  float sums[BLOCK];
  if (integers && type == GCONV_U8) {
    mix_u8(m, in, out);
  } else if (integers) {
    mix_u16(m, in, out);
  } else if (type == GCONV_F32) {
    mix_floats(m, type, in, out);
  } else {
    mix_floats(m, type, in, sums);
    put(type, wrap, sums, out);
  }
}

/* Mixes samples i .. i + count - 1, at most a block, at an end of the row. Zeros stand for missing neighbours, which weigh
 * 0. */
static void mix_end(const mixer *m, const gconv_colour_rows *rows, bool wrap, bool integers, const uint8_t *in, uint8_t *out,
                    size_t i, size_t count) {
  const size_t size = gconv_type_bytes(rows->type), samples = rows->pixels * (size_t)rows->channels, margin = MOST;
  _Alignas(64) uint8_t padded[(BLOCK + 2 * MOST) * sizeof(float)] = {0}, results[BLOCK * sizeof(float)];
  size_t before = i < margin ? i : margin, behind = samples - i - count < margin ? samples - i - count : margin;
  memcpy(padded + (margin - before) * size, in + (i - before) * size, (before + count + behind) * size);
  mix_block(m, rows->type, wrap, integers, padded + margin * size, results);
  memcpy(out + i * size, results, count * size);
}

void gconv_colour_mix_rows(const gconv_colour_rows *rows, const float mixing[4][4], bool wrap) {
  const size_t size = gconv_type_bytes(rows->type), samples = rows->pixels * (size_t)rows->channels, margin = MOST;
  const float white = rows->type == GCONV_U8 ? 255.0f : 65535.0f;
  const bool integers = wrap && rows->type != GCONV_F32 && are_integers(mixing, rows->channels, white);
  mixer m;
  fill(&m, mixing, rows->channels, integers);
  for (size_t y = 0; y < rows->rows; y++) {
    const uint8_t *in = (const uint8_t *)rows->in + y * rows->in_bytes;
    uint8_t *out = (uint8_t *)rows->out + y * rows->out_bytes;
    for (size_t i = 0; i < samples; i += BLOCK) {
      if (i >= margin && i + BLOCK + margin <= samples)
        mix_block(&m, rows->type, wrap, integers, in + i * size, out + i * size);
      else
        mix_end(&m, rows, wrap, integers, in, out, i, samples - i < BLOCK ? samples - i : BLOCK);
    }
  }
}
