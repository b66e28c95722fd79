/* SPDX-License-Identifier: MIT */
/*
 * direct, any problem: a warp makes a band of 8 output rows x 256 samples, with its sums in registers.
 *
 *       256 samples                     an input row, as levels, in shared memory
 *     +-------------+                  [ . . . . . . . . . . . . . . . . . . . . ]
 *     | t = 0       |  8 rows                  |              |
 *     |    ...      |  = 64 sums       row i of the filter on output row 0,
 *     | t = 7       |    a lane        row i - 1 on output row 1, ... row i - 7 on output row 7
 *     +-------------+
 *
 * The warp fetches the input rows of its band into its own part of shared memory, some rows at a time. On the way, borders
 * are resolved and integers become levels. Each row is then used for all output rows of the band that it reaches: for one
 * column of taps, 8 samples and 8 taps make 64 multiply-adds. So little is done besides multiply-adds, for filters of any
 * size, since R and S are loop counts. Warps do not wait for each other.
 *
 * Strides and dilations are resolved beforehand. Let g = gcd(stride_y, dilation_y). The output rows of a band are
 * dilation_y / g apart. Then input row y0 + i * dilation_y is used for output row t of the band with row i - t * m of the
 * filter, where m = stride_y / g. Along a row, the first tap of an output sample has its place in shared memory, and the
 * next taps follow at a distance of dilation_x * C samples. If they are neighbours (DENSE), lanes take groups of four
 * samples, and load 16 bytes for four columns of taps.
 */
#pragma once

#include "../core/copies.cuh"
#include "../core/launch.cuh"
#include "../core/store.cuh"

#include <string.h>

#include <numeric>

namespace {

enum {
  BAND_ROWS = 8,         /* output rows of a band */
  BAND_SAMPLES = 256,    /* output samples of a row of the band, 8 for each lane */
  BAND_WARPS = 4,        /* warps of a block, each with a band of its own */
  BAND_BYTES = 11 << 10, /* most shared memory of a warp: 44 KiB a block; fits_bands() refuses longer rows */
  TABLE_MARGIN = BAND_ROWS - 1,
};

/* The layout of a lane's 8 samples of a row: */
enum band_form {
  DENSE,   /* two groups of four neighbours; taps are neighbours, too: one channel, stride and dilation of x 1 */
  STEPPED, /* 32 samples apart; taps are further than one sample apart */
  STRIDED, /* 32 samples apart; input samples are further apart than output samples */
};

/* ---- The table of taps ---- */

/* The table of taps, in the order in which the kernel reads them. A block of the table has four neighbouring columns, with
 * all their rows one behind the other, and TABLE_MARGIN unused rows around them. There is one such table for each residue of
 * r modulo m. If DENSE, unused columns come first: as many as there are samples between a multiple of four and the first
 * sample of a band, since rows are fetched and read in groups of four. */
struct band_table {
  int32_t phases;     /* m = stride_y / gcd(stride_y, dilation_y), but at most R */
  int32_t phase_rows; /* rows of a column block, with margins */
  int32_t blocks;     /* column blocks of four taps */
};

inline int32_t row_ratio(const gconv_problem *problem) {
  return problem->stride_y / std::gcd(problem->stride_y, problem->dilation_y);
}

inline band_form form_of(const gconv_problem *problem) {
  if (problem->stride_x > 1)
    return STRIDED;
  return problem->channels > 1 || problem->dilation_x > 1 ? STEPPED : DENSE;
}

inline int32_t skipped_columns(const gconv_problem *problem) {
  return form_of(problem) == DENSE ? -problem->pad_left & 3 : 0;
}

inline band_table table_shape(const gconv_problem *problem) {
  int32_t ratio = row_ratio(problem);
  return {ratio < problem->rows ? ratio : problem->rows, (problem->rows - 1) / ratio + 1 + 2 * TABLE_MARGIN,
          (skipped_columns(problem) + problem->columns - 1) / 4 + 1};
}

inline size_t table_floats(const gconv_problem *problem) {
  band_table table = table_shape(problem);
  return (size_t)table.phases * (size_t)table.blocks * (size_t)table.phase_rows * 4;
}

/* Writes the tables of all filters, from taps[k][r][s]. */
inline void write_tables(const gconv_problem *problem, const float *taps, float *tables) {
  band_table table = table_shape(problem);
  int32_t ratio = row_ratio(problem);
  memset(tables, 0, table_floats(problem) * (size_t)problem->filters * sizeof *tables);
  for (int32_t k = 0; k < problem->filters; k++, tables += table_floats(problem))
    for (int32_t r = 0; r < problem->rows; r++)
      for (int32_t s = skipped_columns(problem); s < skipped_columns(problem) + problem->columns; s++) {
        size_t row = ((size_t)(r % ratio) * (size_t)table.blocks + (size_t)(s / 4)) * (size_t)table.phase_rows +
                     (size_t)(r / ratio + TABLE_MARGIN);
        tables[row * 4 + (size_t)(s % 4)] = *taps++;
      }
}

/* ---- The kernel ---- */

struct band_arguments : arguments {
  const float *weights, *tables;
  band_table table;
  int64_t filter_floats; /* of the table of one filter */
  int32_t ratio;         /* m */
  int32_t spacing;       /* between the output rows of a band: dilation_y / g */
  int32_t step;          /* between tap columns, in samples: dilation_x * C */
  int32_t pitch;         /* floats from one row in shared memory to the next: a multiple of 4 */
  int32_t fetched;       /* rows that are in shared memory at a time */
  int32_t floats;        /* shared memory of a warp: for those rows, or for the results of the band */
  int32_t samples;       /* of an output row: Q * C */
  int32_t skip;          /* columns of the table that are not used */
  bool quads;            /* output samples can be stored four at a time */
};

/* The band of a warp. */
struct band {
  int32_t first; /* first output sample of each row */
  int32_t row;   /* output row for t = 0 */
  int32_t rows;  /* output rows of the band that are inside the image */
  int32_t lane, filter;
  int64_t top;   /* input row for i = 0 */
  int64_t left;  /* input sample at the start of a row in shared memory, a multiple of four; negative: outside */
  int32_t lead;  /* samples from there to the first that the band needs: 0 .. 3 */
  bool inside;   /* all samples of a row in shared memory are inside the image */
  int32_t count; /* samples of a row to fetch, a multiple of four */
  const uint8_t *in;
  uint8_t *out;
  float *shared;
};

/* gconv_border_index(), but without divisions where they are not needed. */
DEVICE int64_t border_index(gconv_border border, int64_t i, int32_t size) {
  return i > -size && i < 2 * (int64_t)size - 1 ? near_index(border, (int)i, size) : far_index(border, i, size);
}

/* Copies `count` samples of an input row from sample `left` on. Some of them are outside the row. */
template <class In>
__device__ __noinline__ void fetch_at_border(const gconv_problem &problem, const In *row, int32_t left, int32_t lane,
                                             int32_t count, float *to) {
  UNROLLED_2_FOR (int32_t n = lane; n < count; n += 32) {
    const int32_t from = sample_in_row(problem, left + n);
    to[n] = from == GCONV_OUTSIDE ? problem.border_level : (float)row[from];
  }
}

/* Loads four samples at a time as levels. */
DEVICE float4 load_levels(const uint8_t *from) {
  const uint32_t word = __ldg((const uint32_t *)from);
  const auto level = [&](int i) { return level_of_bits(__byte_perm(word, 0x4b000000, 0x7440 + i)); };
  return make_float4(level(0), level(1), level(2), level(3));
}
DEVICE float4 load_levels(const uint16_t *from) {
  const uint2 word = __ldg((const uint2 *)from);
  const auto level = [](uint32_t two, int bytes) { return level_of_bits(__byte_perm(two, 0x4b000000, bytes)); };
  return make_float4(level(word.x, 0x7410), level(word.x, 0x7432), level(word.y, 0x7410), level(word.y, 0x7432));
}

/* Copies `count` samples that are inside the row, in groups of four. Floats are copied asynchronously, without registers, so
 * many rows are under way at a time. fetch_rows() waits for them. */
DEVICE void fetch_inside(const float *row, int32_t lane, int32_t count, float *to) {
#pragma unroll 3
  for (int32_t n = 4 * lane; n < count; n += 128)
    copy_async<16>(to + n, row + n);
}
template <class In> DEVICE void fetch_inside(const In *row, int32_t lane, int32_t count, float *to) {
#pragma unroll 3
  for (int32_t n = 4 * lane; n < count; n += 128)
    *(float4 *)(to + n) = load_levels(row + n);
}

/* Copies input row `y`, or its replacement if it is outside the image, to shared memory as levels. */
template <class In> DEVICE void fetch_row(const band_arguments &a, const band &b, int64_t y, float *to) {
  const gconv_problem &problem = a.problem;
  y = border_index(problem.border, y, problem.height);
  const In *row = (const In *)(b.in + y * a.in_row);
  if (y == GCONV_OUTSIDE)
    for (int32_t n = b.lane; n < b.count; n += 32)
      to[n] = problem.border_level;
  else if (b.inside)
    fetch_inside(row + b.left, b.lane, b.count, to);
  else
    fetch_at_border(a.problem, row, (int32_t)b.left, b.lane, b.count, to);
}

/* Copies the rows i = begin .. end - 1 of the band, each to its place in shared memory. */
template <class In> DEVICE void fetch_rows(const band_arguments &a, const band &b, int32_t begin, int32_t end) {
  const gconv_problem &problem = a.problem;
  ROLLED_FOR (int32_t i = begin; i < end; i++)
    if (a.ratio <= problem.rows || i % a.ratio < problem.rows)
      fetch_row<In>(a, b, b.top + (int64_t)i * problem.dilation_y, b.shared + (i - begin) * a.pitch);
  if (sizeof(In) == 4)
    await_all_copies();
}

DEVICE void load_taps(const float4 *from, float (&tap)[4]) {
  const float4 four = __ldg(from);
  tap[0] = four.x, tap[1] = four.y, tap[2] = four.z, tap[3] = four.w;
}

/* Adds column k of a block of the table, times samples x, to the sums of output rows LO .. HI - 1. If not ALL, only to the
 * rows that the input row reaches (bit t). */
template <band_form FORM, int LO, int HI, bool ALL>
DEVICE void add_column(int k, const float (&tap)[BAND_ROWS][4], const float (&x)[2][8], uint32_t reached,
                       float (&sums)[BAND_ROWS][8]) {
  UNROLLED_FOR (int t = LO; t < HI; t++)
    if (ALL || reached >> t & 1)
      UNROLLED_FOR (int v = 0; v < 8; v++)
        sums[t][v] = fmaf(tap[t][k], FORM == DENSE ? x[v / 4][v % 4 + k] : x[0][v], sums[t][v]);
}

/* Adds an input row to the sums of output rows LO .. HI - 1. `taps` is the row of the table for t = 0. places[v] is what
 * find_places() sets. */
template <band_form FORM, int LO, int HI, bool ALL>
DEVICE void add_to_rows(const band_arguments &a, const float *row, const int32_t (&places)[8], const float4 *taps,
                        uint32_t reached, float (&sums)[BAND_ROWS][8]) {
  const int32_t begin = a.skip, end = a.skip + a.problem.columns;
  float x[2][8]; /* DENSE: for each group of four, the window of four tap columns; otherwise the samples of one column, in
                    x[0] */
  if (FORM == DENSE)
    load_four(row + places[0], x[0]), load_four(row + places[4], x[1]);
  ROLLED_FOR (int32_t s = 0; s < end; s += 4, taps += a.table.phase_rows) {
    float tap[BAND_ROWS][4];
    UNROLLED_FOR (int t = LO; t < HI; t++)
      load_taps(taps - t, tap[t]);
    if (FORM == DENSE)
      load_four(row + places[0] + s + 4, x[0] + 4), load_four(row + places[4] + s + 4, x[1] + 4);
    if (FORM == DENSE && s >= begin && s + 4 <= end) { /* a whole block needs no further tests */
      UNROLLED_FOR (int k = 0; k < 4; k++)
        add_column<FORM, LO, HI, ALL>(k, tap, x, reached, sums);
    } else {
      UNROLLED_FOR (int k = 0; k < 4; k++) {
        if (k > 0 && s + k >= end)
          return;
        if (FORM != DENSE) {
          UNROLLED_FOR (int v = 0; v < 8; v++)
            x[0][v] = FORM == STEPPED ? row[places[0] + 32 * v] : row[places[v]];
          row += a.step;
        }
        if (FORM != DENSE || k == 3 || s + k >= begin)
          add_column<FORM, LO, HI, ALL>(k, tap, x, reached, sums);
      }
    }
    if (FORM == DENSE)
      UNROLLED_FOR (int v = 0; v < 4; v++)
        x[0][v] = x[0][v + 4], x[1][v] = x[1][v + 4];
  }
}

/* Adds input row i to the sums that it reaches: rows t with 0 <= i - t * m < R, which are first .. last. There are instances
 * for the upper four rows, the lower four and all eight. So few products are wasted, and the code stays small. */
template <band_form FORM>
DEVICE void add_input_row(const band_arguments &a, const band &b, const int32_t (&places)[8], const float4 *table, int32_t i,
                          const float *row, float (&sums)[BAND_ROWS][8]) {
  const int32_t rows = a.problem.rows;
  int32_t whole = i, phase = 0, taps = rows; /* i = whole * m + phase; `taps` rows of the filter have that phase */
  if (a.ratio > 1) {
    whole = i / a.ratio, phase = i - whole * a.ratio;
    taps = (rows - 1 - phase + a.ratio) / a.ratio;
  }
  const int32_t first = max(whole - taps + 1, 0), last = min(whole, b.rows - 1);
  const float4 *at = table + (int64_t)phase * a.table.blocks * a.table.phase_rows + whole + TABLE_MARGIN;
  if (phase >= rows || first > last)
    return;
  const uint32_t reached = (2u << last) - (1u << first);
  if (reached == (1u << BAND_ROWS) - 1)
    add_to_rows<FORM, 0, BAND_ROWS, true>(a, row, places, at, reached, sums);
  else if (last < 4)
    add_to_rows<FORM, 0, 4, false>(a, row, places, at, reached, sums);
  else if (first >= 4)
    add_to_rows<FORM, 4, BAND_ROWS, false>(a, row, places, at, reached, sums);
  else
    add_to_rows<FORM, 0, BAND_ROWS, false>(a, row, places, at, reached, sums);
}

/* The sums over the whole band. */
template <band_form FORM>
DEVICE void sum_band(const band_arguments &a, const band &b, const int32_t (&places)[8], float (&sums)[BAND_ROWS][8]) {
  const gconv_problem &problem = a.problem;
  const float4 *table = (const float4 *)(a.tables + b.filter * a.filter_floats);
  const int32_t rows = (b.rows - 1) * a.ratio + problem.rows;
  ROLLED_FOR (int32_t begin = 0; begin < rows; begin += a.fetched) {
    const int32_t end = min(begin + a.fetched, rows);
    __syncwarp(); /* all lanes have read the rows before */
    BY_TYPE(problem.in_type, Type, fetch_rows<Type>(a, b, begin, end));
    __syncwarp();
    ROLLED_FOR (int32_t i = begin; i < end; i++)
      add_input_row<FORM>(a, b, places, table, i, b.shared + (i - begin) * a.pitch, sums);
  }
  __syncwarp();
}

/* ---- Storing ---- */

/* Writes row t of the sums to shared memory in the order of samples. store_band() reads it there. */
template <band_form FORM> DEVICE void stage_row(const band &b, int t, const float (&values)[8]) {
  float *to = b.shared + t * BAND_SAMPLES;
  if (FORM == DENSE) {
    *(float4 *)(to + 4 * b.lane) = make_float4(values[0], values[1], values[2], values[3]);
    *(float4 *)(to + 128 + 4 * b.lane) = make_float4(values[4], values[5], values[6], values[7]);
  } else {
    UNROLLED_FOR (int v = 0; v < 8; v++)
      to[32 * v + b.lane] = values[v];
  }
}

/* Alpha that is kept of output pixel (p, q), for any type of the input. */
__device__ __noinline__ float any_kept_alpha(const arguments &a, const uint8_t *plane, int64_t p, int64_t q) {
  BY_TYPE(a.problem.in_type, In, return kept_alpha<In>(a.problem, plane, a.in_row, p, q));
}

/* Stores the finished value `y` of a sample of output row `p`. If the sample is alpha that is kept, alpha is stored instead.
 */
template <class Out> DEVICE void store_sample(const band_arguments &a, const band &b, int32_t p, int32_t sample, float y) {
  const gconv_problem &problem = a.problem;
  const int32_t q = sample / problem.channels, c = sample - q * problem.channels;
  uint8_t *to = b.out + p * a.out_row + q * a.out_pixel;
  if (!problem.keep_alpha || c < problem.channels - 1)
    gconv_store(y, (Out *)(to + c * a.out_channel));
  else if (b.filter == 0 || problem.epilogue.combine == GCONV_COMBINE_NONE) /* stacked: alpha is stored once */
    gconv_store(any_kept_alpha(a, b.in, p, q), (Out *)(to + a.out_alpha));
}

/* Finishes the sum of a filter. */
struct finisher {
  float divisor, bias;
  bool plain; /* the epilogue is only scale and offset */
  DEVICE float operator()(const gconv_epilogue &epilogue, float value) const {
    if (plain)
      return fmaf(value, epilogue.scale, epilogue.offset);
    return gconv_finish(gconv_response(value, divisor, bias), &epilogue);
  }
};

template <class Out> DEVICE void store_rows(const band_arguments &a, const band &b, finisher finish) {
  const gconv_epilogue &epilogue = a.problem.epilogue;
  if (!a.quads) {
    ROLLED_FOR (int32_t n = b.lane; n < b.rows * BAND_SAMPLES; n += 32)
      if (b.first + n % BAND_SAMPLES < a.samples)
        store_sample<Out>(a, b, b.row + n / BAND_SAMPLES * a.spacing, b.first + n % BAND_SAMPLES,
                          finish(epilogue, b.shared[n]));
    return;
  }
  UNROLLED_2_FOR (int32_t n = 4 * b.lane; n < b.rows * BAND_SAMPLES; n += 128) {
    const int32_t p = b.row + n / BAND_SAMPLES * a.spacing, sample = b.first + n % BAND_SAMPLES;
    float y[4];
    load_four(b.shared + n, y);
    UNROLLED_FOR (int i = 0; i < 4; i++)
      y[i] = finish(epilogue, y[i]);
    if (sample < a.samples)
      store_four(y, (Out *)(b.out + p * a.out_row), sample, a.samples - sample);
  }
}

/* Finishes and stores the rows that stage_row() wrote. */
DEVICE void store_band(const band_arguments &a, const band &b) {
  const bool plain = gconv_is_plain(&a.problem.epilogue);
  const float divisor = __ldg(gconv_divisors(&a.problem, a.weights) + b.filter);
  const float bias = __ldg(gconv_biases(&a.problem, a.weights) + b.filter);
  const finisher finish = {divisor, bias, plain && divisor == 1.0f && bias == 0.0f};
  __syncwarp();
  BY_TYPE(a.problem.out_type, Type, store_rows<Type>(a, b, finish));
}

/* ---- The band of a warp ---- */

/* Finds the band of the warp. Returns false if there is none for it. */
DEVICE bool find_band(const band_arguments &a, band *b) {
  extern __shared__ float shared_rows[];
  const gconv_problem &problem = a.problem;
  const int32_t warp = threadIdx.x / 32, number = blockIdx.y * BAND_WARPS + warp;
  b->lane = threadIdx.x % 32;
  b->first = blockIdx.x * BAND_SAMPLES;
  b->row = number / a.spacing * (BAND_ROWS * a.spacing) + number % a.spacing;
  if (b->row >= problem.out_height)
    return false;
  b->rows = min((int)BAND_ROWS, (problem.out_height - 1 - b->row) / a.spacing + 1);
  b->top = (int64_t)b->row * problem.stride_y - problem.pad_top;
  const int64_t q = b->first / problem.channels;
  const int64_t left = problem.stride_x == 1 ? b->first - (int64_t)problem.pad_left * problem.channels
                                             : (q * problem.stride_x - problem.pad_left) * problem.channels;
  b->lead = (int32_t)left & 3;
  b->left = left - b->lead;
  b->count = a.pitch;
  if (problem.stride_x == 1 && a.samples - b->first < BAND_SAMPLES) /* the last band of a row */
    b->count = min(a.pitch, (b->lead + a.samples - b->first + (problem.columns - 1) * a.step + 3) & ~3);
  b->inside = b->left >= 0 && b->left + b->count <= (int64_t)problem.width * problem.channels;
  const int32_t sheet = blockIdx.z / problem.filters;
  const plane_rows plane = plane_of(a, sheet);
  b->filter = blockIdx.z - sheet * problem.filters;
  b->in = plane.in;
  b->out = plane.out + b->filter * a.out_filter;
  b->shared = shared_rows + warp * a.floats;
  return true;
}

/* Sets the place in a row in shared memory of the sample under the first tap, for each of the lane's samples. If DENSE, it
 * is the sample under the first column of the table instead, which may be an unused one. */
template <band_form FORM> DEVICE void find_places(const band_arguments &a, const band &b, int32_t (&places)[8]) {
  const gconv_problem &problem = a.problem;
  const int32_t origin = b.first / problem.channels;
  UNROLLED_FOR (int v = 0; v < 8; v++)
    if (FORM == DENSE) {
      places[v] = v / 4 * 128 + 4 * b.lane + v % 4;
    } else if (FORM == STEPPED) {
      places[v] = b.lead + 32 * v + b.lane;
    } else {
      const int32_t sample = b.first + 32 * v + b.lane, q = sample / problem.channels;
      places[v] = b.lead + ((q - origin) * problem.stride_x - q) * problem.channels + sample;
    }
}

/* Grid: x counts blocks of 256 samples of a row, y bands, BAND_WARPS for each block, z filters and planes of all images. */
template <band_form FORM>
__global__ void __launch_bounds__(32 * BAND_WARPS, 3) bands(const __grid_constant__ band_arguments a) {
  band b;
  if (!find_band(a, &b))
    return;
  int32_t places[8];
  find_places<FORM>(a, b, places);
  float sums[BAND_ROWS][8] = {};
  sum_band<FORM>(a, b, places, sums);
  UNROLLED_FOR (int t = 0; t < BAND_ROWS; t++)
    stage_row<FORM>(b, t, sums[t]);
  store_band(a, b);
}

/* ---- Launching ---- */

/* Floats of a row in shared memory: from the first tap of the band's first sample to the last tap of its last sample,
 * rounded up to whole column blocks. */
inline int64_t band_pitch(const gconv_problem *problem) {
  int64_t channels = problem->channels, step = (int64_t)problem->dilation_x * channels;
  int64_t pixels = (BAND_SAMPLES - 1) / channels + 2, across = BAND_SAMPLES;
  if (problem->stride_x > 1)
    across = pixels * channels * problem->stride_x;
  return (across + ((int64_t)problem->columns - 1) * step + 3 + 4 + 3) / 4 * 4;
}

/* Returns whether the kernel can take the problem: responses are not combined, a row fits into shared memory, indices into
 * 32 bits, and blocks into a grid. */
inline bool fits_bands(const gconv_problem *problem) {
  int64_t planes = (int64_t)problem->images * problem->planes * problem->filters;
  int64_t widest = ((int64_t)problem->width + gconv_reach(problem)) * problem->channels;
  return !gconv_is_combined(problem) && band_pitch(problem) * (int64_t)sizeof(float) <= BAND_BYTES &&
         widest < INT32_MAX / 2 && planes <= 65535 &&
         problem->out_height / BAND_WARPS / BAND_ROWS < 65535 - problem->dilation_y;
}

inline band_arguments make_band_arguments(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  band_arguments a = {};
  static_cast<arguments &>(a) = common_arguments(execution);
  a.weights = execution->weights;
  a.tables = gconv_prepared(problem, execution->weights);
  a.table = table_shape(problem);
  a.filter_floats = (int64_t)table_floats(problem);
  a.ratio = row_ratio(problem);
  a.spacing = problem->dilation_y / std::gcd(problem->stride_y, problem->dilation_y);
  a.step = problem->dilation_x * problem->channels;
  a.skip = skipped_columns(problem);
  a.pitch = (int32_t)band_pitch(problem);
  a.samples = problem->out_width * problem->channels;
  int32_t spanned = (BAND_ROWS - 1) * a.ratio + problem->rows, fitting = BAND_BYTES / (a.pitch * (int32_t)sizeof(float));
  a.fetched = spanned < fitting ? spanned : fitting;
  a.floats = a.fetched * a.pitch > BAND_ROWS * BAND_SAMPLES ? a.fetched * a.pitch : BAND_ROWS * BAND_SAMPLES;
  a.quads = !problem->keep_alpha && is_dense<false>(execution);
  return a;
}

template <band_form FORM> void launch_bands(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  band_arguments a = make_band_arguments(execution);
  int64_t of_band = (int64_t)BAND_ROWS * a.spacing;
  int64_t count = ((problem->out_height - 1) / of_band + 1) * a.spacing;
  dim3 grid((unsigned)((a.samples - 1) / BAND_SAMPLES + 1), (unsigned)((count - 1) / BAND_WARPS + 1),
            (unsigned)(problem->images * problem->planes * problem->filters));
  size_t bytes = (size_t)BAND_WARPS * (size_t)a.floats * sizeof(float);
  bands<FORM><<<grid, 32 * BAND_WARPS, bytes, (cudaStream_t)execution->stream>>>(a);
}

inline void launch_any_bands(const gconv_execution *execution) {
  const band_form form = form_of(execution->problem);
  auto *launch = form == STRIDED ? launch_bands<STRIDED> : form == STEPPED ? launch_bands<STEPPED> : launch_bands<DENSE>;
  launch(execution);
}

} // namespace
