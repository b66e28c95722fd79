/* SPDX-License-Identifier: MIT */
#include "kernels/cpu/rows.h"
#include "base/cpu.h"
#include "kernels/cpu/levels.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

enum { CACHE_LINE = 64 };

/* ---- Loading ---- */

GCONV_VECTOR_LOOP(widen, (gconv_type type, const void *samples, size_t count, float *restrict levels),
                  (type, samples, count, levels)) {
  if (type == GCONV_U8)
    for (size_t i = 0; i < count; i++)
      levels[i] = ((const uint8_t *)samples)[i];
  else if (type == GCONV_U16)
    for (size_t i = 0; i < count; i++)
      levels[i] = ((const uint16_t *)samples)[i];
  else
    memcpy(levels, samples, count * sizeof *levels);
}

/* Writes pixels i .. end - 1 of gconv_load_pixels() one by one: for borders, and for steps. */
static void load_singly(const gconv_problem *problem, const void *samples, int64_t first, int64_t step, int64_t i,
                        int64_t end, float *row) {
  int32_t channels = problem->channels;
  for (; i < end; i++) {
    int64_t x = gconv_border_index(problem->border, first + i * step, problem->width);
    for (int32_t c = 0; c < channels; c++)
      row[i * channels + c] =
          x == GCONV_OUTSIDE ? problem->border_level : gconv_level_at(problem->in_type, samples, x * channels + c);
  }
}

void gconv_load_pixels(const gconv_execution *execution, int64_t y, int64_t first, int64_t step, int64_t count, float *row) {
  const gconv_problem *problem = execution->problem;
  int64_t channels = problem->channels;
  y = gconv_border_index(problem->border, y, problem->height);
  if (y == GCONV_OUTSIDE) {
    for (int64_t i = 0; i < count * channels; i++)
      row[i] = problem->border_level;
    return;
  }
  const uint8_t *samples = gconv_input_row(execution, y);
  if (step != 1) {
    load_singly(problem, samples, first, step, 0, count, row);
    return;
  }
  int64_t left = gconv_clamp(-first, 0, count), right = gconv_clamp(problem->width - first, left, count);
  load_singly(problem, samples, first, 1, 0, left, row);
  if (right > left)
    widen(problem->in_type, samples + (first + left) * channels * (int64_t)gconv_type_bytes(problem->in_type),
          (size_t)((right - left) * channels), row + left * channels);
  load_singly(problem, samples, first, 1, right, count, row);
}

gconv_span gconv_span_of(const gconv_problem *problem, int64_t first, int64_t count, int64_t *columns) {
  gconv_span span = {.first = first, .count = count, .columns = columns};
  span.left = gconv_clamp(-first, 0, count);
  span.right = gconv_clamp(problem->width - first, span.left, count);
  for (int64_t i = 0; i < count; i++)
    if (i < span.left || i >= span.right)
      columns[i] = gconv_border_index(problem->border, first + i, problem->width);
  return span;
}

/* Writes pixels i .. end - 1 of gconv_load_bytes(), which are outside the image. They are few, so each number
 * of channels has a simple loop: preparing a vector loop for each row would take longer. */
GCONV_INLINE void load_columns_of(const int64_t channels, const gconv_problem *problem, const uint8_t *samples,
                                  const gconv_span *span, int64_t i, int64_t end, uint8_t *row) {
  for (; i < end; i++)
    for (int64_t c = 0, x = span->columns[i]; c < channels; c++)
      row[i * channels + c] = x == GCONV_OUTSIDE ? (uint8_t)problem->border_level : samples[x * channels + c];
}

static void load_columns(const gconv_problem *problem, const uint8_t *samples, const gconv_span *span, int64_t i,
                         int64_t end, uint8_t *row) {
  if (problem->channels == 1)
    load_columns_of(1, problem, samples, span, i, end, row);
  else if (problem->channels == 2)
    load_columns_of(2, problem, samples, span, i, end, row);
  else if (problem->channels == 3)
    load_columns_of(3, problem, samples, span, i, end, row);
  else
    load_columns_of(4, problem, samples, span, i, end, row);
}

void gconv_load_bytes(const gconv_execution *execution, int64_t y, const gconv_span *span, uint8_t *row) {
  const gconv_problem *problem = execution->problem;
  int64_t channels = problem->channels;
  y = gconv_border_index(problem->border, y, problem->height);
  if (y == GCONV_OUTSIDE) {
    memset(row, (int)problem->border_level, (size_t)(span->count * channels));
    return;
  }
  const uint8_t *samples = gconv_input_row(execution, y);
  load_columns(problem, samples, span, 0, span->left, row);
  enum {
    PART = 2048
  }; /* bytes; for more, memmove() takes an instruction that is slow where source and target do not align */
  for (int64_t x = span->left * channels, end = span->right * channels; x < end; x += PART)
    memmove(row + x, samples + span->first * channels + x, (size_t)(end - x < PART ? end - x : PART));
  load_columns(problem, samples, span, span->right, span->count, row);
}

void gconv_prefetch_load(const gconv_execution *execution, int64_t y, int64_t first, int64_t count) {
  const gconv_problem *problem = execution->problem;
  y = gconv_border_index(problem->border, y, problem->height);
  int64_t left = gconv_clamp(first, 0, problem->width), right = gconv_clamp(first + count, 0, problem->width);
  int64_t pixel = problem->channels * (int64_t)gconv_type_bytes(problem->in_type);
  if (y != GCONV_OUTSIDE)
    for (int64_t byte = left * pixel; byte < right * pixel; byte += CACHE_LINE)
      __builtin_prefetch(gconv_input_row(execution, y) + byte, 0, 2);
}

/* ---- Storing ---- */

/* Returns whether floats of results are stored past the caches. A result that does not fit into them would be read from
 * memory before it is overwritten, line by line. */
static bool streams(const gconv_problem *problem) {
  enum { STREAMED = 12 << 20 }; /* bytes; less is likely still in a cache when it is read */
  const int64_t samples = (int64_t)problem->out_height * problem->out_width * problem->channels;
  return problem->out_type == GCONV_F32 && gconv_cpu_isa() != GCONV_ISA_PLAIN && samples >= STREAMED / 4;
}

void gconv_prefetch_store(const gconv_execution *execution, int32_t p, int64_t first, int64_t count) {
  const gconv_problem *problem = execution->problem;
  if (streams(problem))
    return;
  int32_t outputs = gconv_is_combined(problem) ? 1 : problem->filters;
  int64_t left = first * execution->out_pixel, right = (first + count) * execution->out_pixel;
  for (int32_t k = 0; k < outputs; k++)
    for (int64_t byte = left; byte < right; byte += CACHE_LINE)
      __builtin_prefetch(gconv_output_row(execution, k, p) + byte, 1, 3);
}

GCONV_VECTOR_LOOP(respond, (float *restrict sums, size_t count, float divisor, float bias), (sums, count, divisor, bias)) {
  for (size_t i = 0; i < count; i++)
    sums[i] = gconv_response(sums[i], divisor, bias);
}

GCONV_INLINE void combine_next(gconv_combine how, float *restrict sums, const float *restrict other, size_t count) {
  for (size_t i = 0; i < count; i++)
    sums[i] = gconv_combine_next(how, sums[i], other[i]);
}

/* Combines the responses of all filters; compiled once for each way to combine. It goes filter by filter: a loop over the
 * filters of each sample would not become vector code, and takes ten times as long. */
GCONV_INLINE void combine_row(gconv_combine how, float *restrict sums, size_t stride, int32_t filters, size_t count) {
  for (size_t i = 0; i < count; i++)
    sums[i] = gconv_combine_first(how, sums[i]);
  for (int32_t k = 1; k < filters; k++)
    combine_next(how, sums, sums + (size_t)k * stride, count);
  for (size_t i = 0; i < count; i++)
    sums[i] = gconv_combine_last(how, sums[i]);
}
GCONV_VECTOR_LOOP(combine, (gconv_combine how, float *restrict sums, size_t stride, int32_t filters, size_t count),
                  (how, sums, stride, filters, count)) {
  if (how == GCONV_COMBINE_MAGNITUDE)
    combine_row(GCONV_COMBINE_MAGNITUDE, sums, stride, filters, count);
  else if (how == GCONV_COMBINE_SUM)
    combine_row(GCONV_COMBINE_SUM, sums, stride, filters, count);
  else
    combine_row(GCONV_COMBINE_MAX, sums, stride, filters, count);
}

/* pack_avx512() and pack_avx2() round finished values to levels, as gconv_to_level() does, by instructions that convert and
 * saturate. min() keeps a NaN, which becomes the least integer, and then 0. With `wrap`, they truncate values as
 * gconv_cut_level() does: values that fit into no int32 become the least int32, whose low bits are 0. They return the number
 * of values that they have stored. Fewer values than a block remain. */
#if defined(__x86_64__) && defined(__GNUC__)
#define AVX512 __attribute__((target("avx512f,avx512bw")))
/* Cuts values to integers, and returns their low bits as floats. */
AVX512 GCONV_INLINE __m512 cut_avx512(__m512 value, float white) {
  return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_cvttps_epi32(value), _mm512_set1_epi32((int)white)));
}

AVX512 GCONV_INLINE size_t pack_blocks_avx512(gconv_type type, bool wrap, const float *values, size_t count, uint8_t *to) {
  size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    __m512 block[4];
    for (size_t v = 0; v < 4; v++) {
      block[v] = _mm512_loadu_ps(values + i + 16 * v);
      block[v] = wrap ? cut_avx512(block[v], gconv_white(type)) : block[v];
    }
    gconv_put_levels_avx512(type, block, to + (type == GCONV_U8 ? i : 2 * i));
  }
  return i;
}

AVX512 static size_t pack_avx512(gconv_type type, bool wrap, const float *values, size_t count, uint8_t *to) {
  return wrap               ? pack_blocks_avx512(type, true, values, count, to)
         : type == GCONV_U8 ? pack_blocks_avx512(GCONV_U8, false, values, count, to)
                            : pack_blocks_avx512(GCONV_U16, false, values, count, to);
}

#define AVX2 __attribute__((target("avx2")))
AVX2 GCONV_INLINE __m256i level_avx2(__m256 value, float white, bool wrap) {
  if (wrap)
    return _mm256_and_si256(_mm256_cvttps_epi32(value), _mm256_set1_epi32((int)white));
  return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(white), value));
}

AVX2 GCONV_INLINE size_t pack_blocks_avx2(gconv_type type, bool wrap, const float *values, size_t count, uint8_t *to) {
  const float white = gconv_white(type);
  const __m256i bytes = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    __m256i level[4];
    for (size_t v = 0; v < 4; v++)
      level[v] = level_avx2(_mm256_loadu_ps(values + i + 8 * v), white, wrap);
    if (type == GCONV_U8) {
      __m256i low = _mm256_packs_epi32(level[0], level[1]), high = _mm256_packs_epi32(level[2], level[3]);
      __m256i packed = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), bytes);
      _mm256_storeu_si256((__m256i *)(void *)(to + i), packed);
    } else {
      for (size_t v = 0; v < 2; v++)
        _mm256_storeu_si256((__m256i *)(void *)(to + 2 * i + 32 * v),
                            _mm256_permute4x64_epi64(_mm256_packus_epi32(level[2 * v], level[2 * v + 1]), 0xd8));
    }
  }
  return i;
}

AVX2 static size_t pack_avx2(gconv_type type, bool wrap, const float *values, size_t count, uint8_t *to) {
  return wrap ? pack_blocks_avx2(type, true, values, count, to) : pack_blocks_avx2(type, false, values, count, to);
}
#endif

/* Rounds values to levels in two loops, the first of them in place. Compilers make slower code, with blends, of one loop. */
GCONV_INLINE void pack_singly(gconv_type type, float *restrict values, size_t count, uint8_t *restrict to) {
  float white = gconv_white(type);
  for (size_t i = 0; i < count; i++)
    values[i] = gconv_saturate(values[i], white);
  for (size_t i = 0; i < count; i++)
    if (type == GCONV_U8)
      to[i] = (uint8_t)gconv_level_bits(values[i]);
    else
      ((uint16_t *)(void *)to)[i] = (uint16_t)gconv_level_bits(values[i]);
}

static void cut_singly(gconv_type type, const float *values, size_t count, uint8_t *to) {
  for (size_t i = 0; i < count; i++)
    if (type == GCONV_U8)
      to[i] = (uint8_t)gconv_cut_level(values[i]);
    else
      ((uint16_t *)(void *)to)[i] = (uint16_t)gconv_cut_level(values[i]);
}

static void pack(gconv_type type, bool wrap, float *values, size_t count, uint8_t *to) {
  size_t i = 0;
#if defined(__x86_64__) && defined(__GNUC__)
  if (gconv_cpu_isa() == GCONV_ISA_AVX512)
    i = pack_avx512(type, wrap, values, count, to);
  else if (gconv_cpu_isa() == GCONV_ISA_AVX2)
    i = pack_avx2(type, wrap, values, count, to);
#endif
  if (wrap)
    cut_singly(type, values + i, count - i, to + i * gconv_type_bytes(type));
  else if (type == GCONV_U8)
    pack_singly(GCONV_U8, values + i, count - i, to + i);
  else
    pack_singly(GCONV_U16, values + i, count - i, to + 2 * i);
}

GCONV_VECTOR_LOOP(pack_int16, (const float *restrict values, size_t count, int16_t *restrict to), (values, count, to)) {
  for (size_t i = 0; i < count; i++)
    to[i] = gconv_to_int16(values[i]);
}

GCONV_VECTOR_LOOP(finish, (const gconv_epilogue *epilogue, const float *values, size_t count, float *to),
                  (epilogue, values, count, to)) {
  const gconv_epilogue local = *epilogue; /* a copy, so that the compiler knows that it does not change */
  for (size_t i = 0; i < count; i++)
    to[i] = gconv_finish(values[i], &local);
}

/* Returns whether the epilogue changes values before they are rounded. */
static bool changes(const gconv_epilogue *e) {
  return e->scale != 1.0f || e->scale_low != 0.0f || e->offset != 0.0f || e->absolute || e->center;
}

#if defined(__x86_64__) && defined(__GNUC__)
/* Copies floats past the caches, except to the first and the last cache line, which other calls may share: stores of a part
 * of a line past the caches are slow. Callers of execute() order these stores (src/conv/run_cpu.c). */
__attribute__((target("avx"))) static void stream(const float *values, size_t count, float *to) {
  size_t i = (CACHE_LINE - (uintptr_t)to % CACHE_LINE) % CACHE_LINE / sizeof *to;
  i = i < count ? i : count;
  memcpy(to, values, i * sizeof *to);
  for (; i + 16 <= count; i += 16)
    for (size_t v = 0; v < 16; v += 8)
      _mm256_stream_ps(to + i + v, _mm256_loadu_ps(values + i + v));
  memcpy(to + i, values + i, (count - i) * sizeof *to);
}
#endif

/* Puts values through the epilogue, and stores them in adjacent samples. The values are destroyed. For integer samples,
 * skips an epilogue that changes at most the sign of 0. */
static void emit(const gconv_problem *problem, float *values, size_t count, uint8_t *samples) {
  const gconv_epilogue *e = &problem->epilogue;
  const gconv_type type = problem->out_type;
#if defined(__x86_64__) && defined(__GNUC__)
  if (streams(problem)) {
    finish(e, values, count, values);
    stream(values, count, (float *)(void *)samples);
    return;
  }
#endif
  if (type == GCONV_F32) {
    finish(e, values, count, (float *)(void *)samples);
    return;
  }
  if (changes(e))
    finish(e, values, count, values);
  if (type == GCONV_I16)
    pack_int16(values, count, (int16_t *)(void *)samples);
  else
    pack(type, e->wrap, values, count, samples);
}

static void store_sample(gconv_type type, float value, uint8_t *to) {
  if (type == GCONV_U8)
    *to = (uint8_t)gconv_to_level(value, 255.0f);
  else if (type == GCONV_U16)
    *(uint16_t *)(void *)to = (uint16_t)gconv_to_level(value, 65535.0f);
  else if (type == GCONV_I16)
    *(int16_t *)(void *)to = gconv_to_int16(value);
  else
    *(float *)(void *)to = value;
}

static void store_finished(const gconv_epilogue *epilogue, gconv_type type, float value, uint8_t *to) {
  if (epilogue->wrap && type != GCONV_F32)
    cut_singly(type, &value, 1, to);
  else
    store_sample(type, value, to);
}

/* Pixels first .. end - 1 of an output row. */
typedef struct pixel_range {
  int64_t first, end;
} pixel_range;

/* Stores the pixels of one output. values[0] is channel 0 of the first pixel. The values are destroyed. */
static void store_values(const gconv_execution *execution, pixel_range pixels, float *values, uint8_t *to) {
  const gconv_problem *problem = execution->problem;
  int32_t channels = problem->channels, stored = channels - problem->keep_alpha;
  if (gconv_is_dense(execution)) { /* alpha that is kept is overwritten later */
    emit(problem, values, (size_t)((pixels.end - pixels.first) * channels), to + pixels.first * execution->out_pixel);
    return;
  }
  for (int64_t q = pixels.first; q < pixels.end; q++, values += channels)
    for (int64_t c = 0; c < stored; c++)
      store_finished(&problem->epilogue, problem->out_type, gconv_finish(values[c], &problem->epilogue),
                     to + q * execution->out_pixel + c * execution->out_channel);
}

void gconv_store_alpha(const gconv_execution *execution, int32_t k, int32_t p, size_t first, size_t count) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  int64_t channels = problem->channels, end = (int64_t)(first + count) / channels;
  int64_t y = (int64_t)p * problem->stride_y - problem->pad_top + problem->anchor_y;
  y = gconv_border_index(problem->border, y, problem->height);
  const uint8_t *samples = y == GCONV_OUTSIDE ? NULL : gconv_input_row(execution, y);
  uint8_t *to = gconv_output_row(execution, k, p) + execution->out_alpha;
  for (int64_t q = (int64_t)first / channels; q < end; q++) {
    int64_t x =
        gconv_border_index(problem->border, q * problem->stride_x - problem->pad_left + problem->anchor_x, problem->width);
    float alpha = problem->border_level;
    if (samples && x != GCONV_OUTSIDE)
      alpha = gconv_level_at(problem->in_type, samples, x * channels + channels - 1);
    alpha = gconv_scale(alpha, epilogue->alpha_scale, epilogue->alpha_scale_low, 0.0f);
    store_sample(problem->out_type, alpha, to + q * execution->out_pixel);
  }
}

/* Returns the level at row y, column x, channel c of the execution's image and plane. The place may be outside the image. */
static float sample_at(const gconv_execution *execution, int64_t y, int64_t x, int32_t c) {
  const gconv_problem *problem = execution->problem;
  y = gconv_border_index(problem->border, y, problem->height);
  x = gconv_border_index(problem->border, x, problem->width);
  if (y == GCONV_OUTSIDE || x == GCONV_OUTSIDE)
    return problem->border_level;
  return gconv_level_at(problem->in_type, gconv_input_row(execution, y), x * problem->channels + c);
}

float gconv_defined_sum(const gconv_execution *execution, int32_t k, int64_t p, int64_t i, bool exact) {
  const gconv_problem *problem = execution->problem;
  const float *tap = execution->weights + (int64_t)k * problem->rows * problem->columns;
  const int64_t q = i / problem->channels, top = p * problem->stride_y - problem->pad_top;
  const int64_t left = q * problem->stride_x - problem->pad_left;
  const int32_t c = (int32_t)(i % problem->channels);
  float sum = 0.0f;
  double more = 0; /* the sum with more digits */
  for (int64_t r = 0; r < problem->rows && !isnan(exact ? (double)sum : more); r++)
    for (int64_t s = 0; s < problem->columns; s++, tap++)
      if (!gconv_is_mark(*tap)) {
        const float x = sample_at(execution, top + r * problem->dilation_y, left + s * problem->dilation_x, c);
        sum = fmaf(*tap, x, sum);
        more += (double)*tap * (double)x;
      }
  return exact ? sum : (float)more;
}

/* Sets *finite to whether all values are finite: an infinity or NaN has all bits of the exponent. */
GCONV_VECTOR_LOOP(look_for_infinite, (const float *values, size_t count, bool *finite), (values, count, finite)) {
  uint32_t others = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    others |= (bits & UINT32_C(0x7f800000)) == UINT32_C(0x7f800000);
  }
  *finite = !others;
}

/* Recomputes each sum that is an infinity or NaN, leaving out samples under marks (gconv_is_mark()): 0 times such a sample
 * is NaN. */
static void mend_sums(const gconv_execution *execution, int32_t p, size_t first, size_t count, float *sums,
                      size_t sums_stride) {
  for (int32_t k = 0; k < execution->problem->filters; k++) {
    bool finite;
    look_for_infinite(sums + (size_t)k * sums_stride, count, &finite);
    for (size_t i = 0; i < count && !finite; i++) {
      float *sum = sums + (size_t)k * sums_stride + i;
      if (!isfinite(*sum))
        *sum = gconv_defined_sum(execution, k, p, (int64_t)(first + i), execution->exact);
    }
  }
}

/* Returns whether there is one filter without divisor and bias, no combination changes its responses, and output samples lie
 * side by side. */
static bool is_single(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  return problem->filters == 1 && !problem->keep_alpha && gconv_divisors(problem, execution->weights)[0] == 1.0f &&
         gconv_biases(problem, execution->weights)[0] == 0.0f && problem->epilogue.combine != GCONV_COMBINE_MAGNITUDE &&
         gconv_is_dense(execution);
}

bool gconv_fill_outside(const gconv_problem *problem, void *row) {
  const float level = problem->border_level;
  const bool is_float = problem->in_type == GCONV_F32;
  if (!is_float && !(level >= 0 && level <= gconv_white(problem->in_type) && level == rintf(level)))
    return false;
  for (int64_t i = 0; i < (int64_t)problem->width * problem->channels; i++)
    if (is_float)
      ((float *)row)[i] = level;
    else if (problem->in_type == GCONV_U16)
      ((uint16_t *)row)[i] = (uint16_t)level;
    else
      ((uint8_t *)row)[i] = (uint8_t)level;
  return true;
}

bool gconv_only_rounds(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  return is_single(execution) && problem->out_type <= GCONV_U16 && !problem->epilogue.wrap && !changes(&problem->epilogue) &&
         !(problem->structure.marks > 0 && problem->in_type == GCONV_F32);
}

void gconv_store_samples(const gconv_execution *execution, int32_t p, size_t first, size_t count, float *sums,
                         size_t sums_stride) {
  const gconv_problem *problem = execution->problem;
  if (problem->structure.marks > 0 && problem->in_type == GCONV_F32)
    mend_sums(execution, p, first, count, sums, sums_stride);
  const float *divisors = gconv_divisors(problem, execution->weights), *biases = gconv_biases(problem, execution->weights);
  if (is_single(execution)) { /* faster: the number of a pixel is not needed, so nothing is divided by `channels` */
    emit(problem, sums, count, gconv_output_row(execution, 0, p) + first * gconv_type_bytes(problem->out_type));
    return;
  }
  pixel_range pixels = {(int64_t)first / problem->channels, (int64_t)(first + count) / problem->channels};
  for (int32_t k = 0; k < problem->filters; k++)
    if (divisors[k] != 1.0f || biases[k] != 0.0f)
      respond(sums + (size_t)k * sums_stride, count, divisors[k], biases[k]);
  int32_t outputs = problem->filters;
  if (gconv_is_combined(problem)) {
    combine(problem->epilogue.combine, sums, sums_stride, problem->filters, count);
    outputs = 1;
  }
  for (int32_t k = 0; k < outputs; k++) {
    uint8_t *row = gconv_output_row(execution, k, p);
    store_values(execution, pixels, sums + (size_t)k * sums_stride, row);
    if (problem->keep_alpha && (k == 0 || problem->epilogue.combine == GCONV_COMBINE_NONE))
      gconv_store_alpha(execution, k, p, first, count);
  }
}

void gconv_store_row(const gconv_execution *execution, int32_t p, float *sums, size_t sums_stride) {
  size_t count = (size_t)execution->problem->out_width * (size_t)execution->problem->channels;
  gconv_store_samples(execution, p, 0, count, sums, sums_stride);
}
