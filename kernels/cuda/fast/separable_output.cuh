/* SPDX-License-Identifier: MIT */
/* separable to the right: from sums, through shared memory, to the output. */
#pragma once

#include "separable_shapes.cuh"

namespace {

/* Turns the sums of filter k of the launch into responses, and combines these with the responses of earlier filters. */
DEVICE void respond(const separable_arguments &a, const float (&sums)[AT_ONCE][4], float unscale, int k,
                    float (&values)[AT_ONCE][4]) {
  const gconv_problem &problem = a.problem;
  const int filter = a.first_filter + k;
  const float divisor = gconv_divisors(&problem, a.weights)[filter], bias = gconv_biases(&problem, a.weights)[filter];
  const float first = a.unscales[filter];
  const gconv_combine combine = problem.epilogue.combine;
  const bool combined = gconv_is_combined(&problem);
  UNROLLED_FOR (int i = 0; i < 4 * AT_ONCE; i++) {
    float &value = values[i / 4][i % 4];
    float response = gconv_response(sums[i / 4][i % 4] * first * unscale, divisor, bias);
    value = !combined ? response
            : k == 0  ? gconv_combine_first(combine, response)
                      : gconv_combine_next(combine, value, response);
  }
}

DEVICE void finish(const gconv_problem &problem, float (&values)[AT_ONCE][4]) {
  UNROLLED_FOR (int i = 0; i < 4 * AT_ONCE; i++) {
    float &value = values[i / 4][i % 4];
    if (gconv_is_combined(&problem))
      value = gconv_combine_last(problem.epilogue.combine, value);
    value = gconv_finish(value, &problem.epilogue);
  }
}

/* Finishes sums if the epilogue is only scale and offset. */
DEVICE void finish_plain(const float (&sums)[AT_ONCE][4], float scale, float offset, float (&values)[AT_ONCE][4]) {
  UNROLLED_FOR (int i = 0; i < 4 * AT_ONCE; i++)
    values[i / 4][i % 4] = fmaf(sums[i / 4][i % 4], scale, offset);
}

/* Does gconv_saturate() in fewer instructions: if one operand of fminf() or fmaxf() is NaN, they return the other. */
DEVICE uint32_t level_bits(float y, float white) {
  return __float_as_uint(fminf(fmaxf(y, 0.0f), white) + 8388608.0f);
}

/* Stages two neighbouring samples. */
DEVICE void stage_two(float first, float second, uint8_t *to) {
  *(uint16_t *)to = (uint16_t)__byte_perm(level_bits(first, 255.0f), level_bits(second, 255.0f), 0x0040);
}
DEVICE void stage_two(float first, float second, uint16_t *to) {
  *(uint32_t *)to = __byte_perm(level_bits(first, 65535.0f), level_bits(second, 65535.0f), 0x5410);
}
DEVICE void stage_two(float first, float second, float *to) {
  *(float2 *)to = make_float2(first, second);
}

/* Stages one sample. */
template <class Out> DEVICE void stage_one(float y, Out *to) {
  if constexpr (sizeof(Out) == 4)
    *to = y;
  else
    *to = (Out)level_bits(y, sizeof(Out) == 1 ? 255.0f : 65535.0f);
}

/* Stages the finished values of AT_ONCE groups. A lane has two pixels of rows g and g + 8. `pixel` is the first of them. */
template <class Out> DEVICE void stage_tiles(const separable_arguments &a, const float (&y)[AT_ONCE][4], uint8_t *pixel) {
  const int C = a.problem.channels;
  Out *top = (Out *)pixel, *bottom = (Out *)(pixel + 8 * a.stage_row);
  if (C == 1) {
    UNROLLED_FOR (int j = 0; j < AT_ONCE; j++) {
      stage_two(y[j][0], y[j][1], top + j * GROUP);
      stage_two(y[j][2], y[j][3], bottom + j * GROUP);
    }
    return;
  }
  UNROLLED_FOR (int j = 0; j < AT_ONCE; j++) {
    stage_one(y[j][0], top + j * GROUP * C);
    stage_one(y[j][1], top + j * GROUP * C + C);
    stage_one(y[j][2], bottom + j * GROUP * C);
    stage_one(y[j][3], bottom + j * GROUP * C + C);
  }
}

/* Stages values whose first pixel within the step is `first`. */
DEVICE void stage(const separable_arguments &a, const tile &t, const team &who, const float (&y)[AT_ONCE][4], int first) {
  const gconv_type type = a.problem.out_type;
  uint8_t *row = t.shared + a.stage + (who.strip * STRIP + who.lane / 4) * a.stage_row;
  const int sample = (first + who.lane % 4 * 2) * a.problem.channels + who.channel;
  if (type == GCONV_U8)
    stage_tiles<uint8_t>(a, y, row + sample);
  else if (type == GCONV_U16)
    stage_tiles<uint16_t>(a, y, row + 2 * sample);
  else
    stage_tiles<float>(a, y, row + 4 * sample);
}

/* Waits for the warps of the strip. */
DEVICE void join(const team &who) {
  if (who.count == LANES)
    __syncwarp();
  else
    asm volatile("bar.sync %0, %1;" ::"r"(who.strip + 1), "r"(who.count) : "memory");
}

/* The threads of a strip stage alpha that is kept. `column` is the output column of the step. */
template <class In>
__device__ __noinline__ void stage_alpha(const separable_arguments &a, tile t, team who, int column, int columns) {
  const gconv_problem &problem = a.problem;
  const int C = problem.channels, bytes = sample_bytes(problem.out_type), top = who.strip * STRIP;
  for (int i = who.member; i < STRIP * columns; i += who.count) {
    int row = top + i / columns, x = i % columns;
    if (row >= t.rows || column + x < t.column || column + x >= t.end)
      continue;
    float alpha = kept_alpha<In>(problem, t.in, a.in_row, t.row + row, column + x);
    uint8_t *to = t.shared + a.stage + row * a.stage_row + (x * C + C - 1) * bytes;
    store_as(problem.out_type, alpha, to);
  }
}

/* Returns the place of channel c of a pixel of the output, in any layout. Returns NULL for the alpha of stacked responses,
 * unless this is the first filter, which stores it for all. */
DEVICE uint8_t *place_of_sample(const arguments &a, uint8_t *pixel, int c, bool first) {
  const bool alpha = a.problem.keep_alpha && c == a.problem.channels - 1;
  if (alpha && !first && a.problem.epilogue.combine == GCONV_COMBINE_STACK)
    return NULL;
  return pixel + (alpha ? a.out_alpha : c * a.out_channel);
}

/* Writes what a strip has staged. Its first pixel is output column `column`; pixels outside of the block's columns are left
 * out. Words have 8 samples of u8 and u16, 4 of f32. The block's first column is a multiple of 8 columns after `column`, so
 * it cuts no word. */
template <class Word>
__device__ __noinline__ void write_part(const separable_arguments &a, tile t, team who, int column, int columns) {
  const int bytes = a.problem.channels * sample_bytes(a.problem.out_type), size = (int)sizeof(Word);
  const int words = columns * bytes / size, begin = (t.column - column) * bytes, end = (t.end - column) * bytes;
  for (int i = who.member; i < STRIP * words; i += who.count) {
    const int row = who.strip * STRIP + i / words, at = i % words * size;
    const uint8_t *from = t.shared + a.stage + row * a.stage_row + at;
    uint8_t *to = t.out + row * a.out_row + (int64_t)column * bytes + at;
    if (row >= t.rows || at < begin)
      continue;
    if (at + size <= end)
      __stcs((Word *)to, *(const Word *)from);
    else
      for (int j = 0; j < end - at; j++)
        to[j] = from[j];
  }
}

/* write_part() for the usual case: all pixels are inside, and each thread has the same word of each row. */
template <class Word>
DEVICE void write_dense(const separable_arguments &a, const tile &t, const team &who, int column, int columns) {
  const int bytes = a.problem.channels * sample_bytes(a.problem.out_type), size = (int)sizeof(Word);
  const int words = columns * bytes / size;
  if (column < t.column || column + columns > t.end || (who.strip + 1) * STRIP > t.rows || a.rows_at_once == 0) {
    write_part<Word>(a, t, who, column, columns);
    return;
  }
  const int first = a.rows_at_once == 1 ? 0 : who.member / words, row = who.strip * STRIP + first;
  const int at = (who.member - first * words) * size;
  const uint8_t *from = t.shared + a.stage + row * a.stage_row + at;
  uint8_t *to = t.out + row * a.out_row + (int64_t)column * bytes + at;
  UNROLLED_4_FOR (int i = 0; i < STRIP; i += a.rows_at_once) {
    __stcs((Word *)to, *(const Word *)from);
    from += a.rows_at_once * a.stage_row;
    to += a.rows_at_once * a.out_row;
  }
}

__device__ __noinline__ void write_samples(const separable_arguments &a, tile t, team who, int column, int columns) {
  const int C = a.problem.channels, bytes = sample_bytes(a.problem.out_type), samples = columns * C;
  for (int i = who.member; i < STRIP * samples; i += who.count) {
    int row = who.strip * STRIP + i / samples, sample = i % samples, q = column + sample / C;
    if (row >= t.rows || q < t.column || q >= t.end)
      continue;
    const uint8_t *from = t.shared + a.stage + row * a.stage_row + sample * bytes;
    if (uint8_t *to = place_of_sample(a, t.out + row * a.out_row + q * a.out_pixel, sample % C, a.first_filter == 0))
      BY_TYPE(a.problem.out_type, Type, *(Type *)to = *(const Type *)from);
  }
}

DEVICE void write(const separable_arguments &a, const tile &t, const team &who, int column, int columns) {
  if (column + columns <= t.column)
    return;
  if (!a.dense)
    write_samples(a, t, who, column, columns);
  else if (a.problem.out_type == GCONV_U8)
    write_dense<uint2>(a, t, who, column, columns);
  else
    write_dense<uint4>(a, t, who, column, columns);
}

/* ---- By the definition, if a value is not finite ---- */

template <class Out> __device__ __noinline__ void define(const separable_arguments &a, tile t) {
  const gconv_problem &problem = a.problem;
  const int C = problem.channels, samples = (t.end - t.column) * C;
  for (int i = threadIdx.x; i < t.rows * samples; i += blockDim.x) {
    int row = i / samples, sample = i - row * samples;
    place at = {t.row + row, t.column + sample / C, sample % C, t.in};
    uint8_t *pixel = t.out + row * a.out_row + at.q * a.out_pixel - a.first_filter * a.out_filter;
    if (problem.keep_alpha && at.c == C - 1) {
      keep_alpha<float, Out>(a, at, pixel);
      continue;
    }
    store_responses<Out>(a, a.weights, at.c, pixel, [&](int32_t k) {
      return defined_sum(a, a.weights, k, t.in, at.p - problem.pad_top, at.q - problem.pad_left, at.c);
    });
  }
}

__device__ void define_any(const separable_arguments &a, const tile &t) {
  BY_TYPE(a.problem.out_type, Type, define<Type>(a, t));
}

} // namespace
