/* SPDX-License-Identifier: MIT */
/*
 * direct, square filters to 17 x 17: sums slide down the rows in registers.
 *
 *     input row y  . . . . x x x x x x . . . .      a thread: V outputs of a row need V + (K - 1) * C samples of it
 *                            |
 *       taps 2 -> sums[0]  finished: row y - 1      K = 3: row y adds to the three output rows that it reaches.
 *       taps 1 -> sums[1]            row y          Then sums[1] becomes sums[0], sums[2] becomes sums[1],
 *       taps 0 -> sums[2]            row y + 1      and sums[2] begins anew.
 *
 * A row of an interleaved image has W * C samples, and the next pixel's sample is C samples further on. So a thread takes V
 * neighbouring samples of a row, of all channels, and slides down a strip of rows. It holds the sums of the K output rows to
 * which the current input row contributes: K x V sums. Sums move up one row because they are written to another register
 * than they were read from. That costs nothing. There is no shared memory and no barrier.
 *
 * Speed: a thread does K * K * V fused multiply-adds for each V + (K - 1) * C samples that it loads. Most of the samples are
 * in the L1 cache, where the neighbours' loads have put them. Taps are kernel parameters. A multiply-add takes its tap as an
 * operand from a uniform register. There are 63 uniform registers, which hold all taps of a filter to 7 x 7. The other taps
 * of a larger filter are loaded again for each row, two by an instruction.
 *
 * Floats are bound by memory bandwidth to K = 5. At K = 7 they reach three quarters of it, and warps wait for loads in half
 * of their time (ncu, H200). All else is bound by the rate of instructions. For K = 15, three of four instructions are
 * multiply-adds of outputs. Most other instructions load taps, or process the K - 1 input rows before a strip.
 *
 * Integers are convolved in units of 2^-149. A float below 2^-126 is an integer in that unit. So a register that holds a
 * byte and zeros is already a float: the byte's level in this unit. A multiplication that brings a result back to this unit
 * rounds it to the nearest level, ties to even; the bits of the product are this level. In exchange, the taps are scaled up
 * by 2^e. Powers of two change no rounding unless a number leaves the range of floats, and find_exponent() prevents that.
 */
#pragma once

#include "../core/launch.cuh"
#include "direct_walk.cuh"

#include <math.h>

namespace {

/* ---- Patches: small squares on one channel ---- */

/* A thread loads all input rows of its output rows before its first multiply-add; slide() loads only one or two rows ahead.
 * Patches are faster in two cases:
 *  - 3 x 3 and 5 x 5 on planes of floats, which are bound by memory. There the order of the accesses counts: tiles that are
 *    copied in the order of the image reach 97% of the bandwidth, high strips 88%.
 *  - Small images, where a thread has few rows: it waits for memory once instead of once a row.
 * Neighbouring threads have neighbouring patches of a row. The samples that patches share come from the caches. */

/* The samples of an input row under the windows of V outputs. */
template <class In, int K, int C, int V> struct patch_row {
  using shape = window<K, C, V>;
  using word = typename samples4<In>::word;
  word words[shape::WORDS];

  /* `from`: the first sample of the window. */
  DEVICE void load(const uint8_t *from) {
    UNROLLED_FOR (int w = 0; w < shape::WORDS; w++)
      words[w] = ((const word *)from)[w];
  }
  DEVICE void fill(In level) {
    const In four[4] = {level, level, level, level};
    UNROLLED_FOR (int w = 0; w < shape::WORDS; w++)
      words[w] = samples4<In>::gather(four);
  }
  DEVICE void spread(float (&x)[4 * shape::WORDS]) const {
    UNROLLED_FOR (int w = 0; w < shape::WORDS; w++)
      samples4<In>::spread(words[w], x + 4 * w);
  }
};

/* The row for floats. From the first and the last group of four samples, only those under the windows are loaded. This saves
 * registers, which limit the number of rows. */
template <int K, int C, int V> struct patch_row<float, K, C, V> {
  using shape = window<K, C, V>;
  static constexpr int BEGIN = shape::FIRST, END = shape::FIRST + V + (K - 1) * C;
  float samples[4 * shape::WORDS];

  DEVICE void load(const uint8_t *from) {
    const float *row = (const float *)from;
    UNROLLED_FOR (int i = 0; i < 4 * shape::WORDS; i += 4) {
      if (i + 4 <= BEGIN || i >= END)
        continue;
      if (i + 3 == BEGIN || i + 1 == END) {
        const int at = i + 3 == BEGIN ? i + 3 : i;
        samples[at] = row[at];
      } else if (i + 2 == BEGIN || i + 2 == END) {
        const int at = i + 2 == BEGIN ? i + 2 : i;
        const float2 two = *(const float2 *)(row + at);
        samples[at] = two.x, samples[at + 1] = two.y;
      } else {
        samples4<float>::spread(*(const float4 *)(row + i), samples + i);
      }
    }
  }
  DEVICE void fill(float level) {
    UNROLLED_FOR (int i = BEGIN; i < END; i++)
      samples[i] = level;
  }
  DEVICE void spread(float (&x)[4 * shape::WORDS]) const {
    UNROLLED_FOR (int i = BEGIN; i < END; i++)
      x[i] = samples[i];
  }
};

/* Computes a patch of `rows` rows (ROWS at most), whose first output is sample `first` of row `top`. INSIDE: it has all ROWS
 * rows, and all of its input is inside the image. */
template <class In, int K, int C, int V, int ROWS, bool PLAIN, bool INSIDE>
DEVICE void make_patch(const sliding_arguments<K, 1> &a, const uint8_t *in, uint8_t *out, int first, int top, int rows) {
  using shape = window<K, C, V>;
  constexpr int SPANNED = ROWS + K - 1;
  const gconv_problem &problem = a.problem;
  const beyond down(problem.border, problem.height);
  const int source = top - problem.pad_top;
  patch_row<In, K, C, V> row[SPANNED];
  const uint8_t *from = in + (first - problem.pad_left * C - shape::FIRST) * (int64_t)sizeof(In);
  if (INSIDE)
    from += source * a.in_row;
  UNROLLED_FOR (int i = 0; i < SPANNED; i++) {
    const int y = INSIDE ? 0 : i < rows + K - 1 ? down.index(source + i) : GCONV_OUTSIDE;
    if (INSIDE)
      row[i].load(from), from += a.in_row;
    else if (y >= 0)
      row[i].load(from + y * a.in_row);
    else
      row[i].fill((In)problem.border_level);
  }
  __syncwarp(__activemask()); /* all loads stand before the multiply-adds, so that the compiler does not move them */
  float sums[ROWS][V];
  UNROLLED_FOR (int i = 0; i < SPANNED; i++) {
    float x[4 * shape::WORDS];
    row[i].spread(x);
    UNROLLED_FOR (int p = 0; p < ROWS; p++)
      UNROLLED_FOR (int s = 0; s < K; s++)
        UNROLLED_FOR (int v = 0; v < V; v++)
          if (p > i - K && p <= i)
            sums[p][v] = fmaf(a.taps[0][(i - p) * K + s], x[shape::FIRST + v + s * C], p == i && s == 0 ? 0.0f : sums[p][v]);
    const int p = i - K + 1;
    if (p >= 0 && (INSIDE || p < rows)) {
      store_sums<In, K, C, V, 1, PLAIN>(a, sums[p], sums[p], in, out, top + p, first);
      out += a.out_row;
    }
  }
}

/* The grid is that of slide(), with strips of ROWS rows, or of several patches one below the other. BLOCKS: the compiler
 * limits registers so that this many blocks fit on a multiprocessor. */
template <class In, int K, int C, int V, int ROWS, int BLOCKS, bool PLAIN>
__global__ void __launch_bounds__(SLIDE_THREADS, BLOCKS) patch(const __grid_constant__ sliding_arguments<K, 1> a) {
  const gconv_problem &problem = a.problem;
  const block_part part = find_part(a);
  if (!part.walks) {
    make_ends<In, K, C, 1, K, PLAIN>(a, part.in, part.out, part.number);
    return;
  }
  const int strip = (unsigned)part.number / (unsigned)a.across, column = part.number - strip * a.across;
  const int first = (column * blockDim.x + threadIdx.x) * V, begin = (strip * blockDim.y + threadIdx.y) * a.strip;
  if (first < a.begin || first >= a.end)
    return;
  const int end = min(begin + a.strip, problem.out_height);
  ROLLED_FOR (int top = begin; top < end; top += ROWS) {
    const int source = top - problem.pad_top, rows = min(end - top, ROWS);
    uint8_t *out = part.out + top * a.out_row;
    if (rows == ROWS && source >= 0 && source + ROWS + K - 1 <= problem.height)
      make_patch<In, K, C, V, ROWS, PLAIN, true>(a, part.in, out, first, top, rows);
    else
      make_patch<In, K, C, V, ROWS, PLAIN, false>(a, part.in, out, first, top, rows);
  }
}

/* ---- The kernel ---- */

/* Grid: first the blocks that slide, for all planes of all images. In such a block, x counts threads of a row, which have V
 * samples each, and y counts strips. Then come the blocks for the ends of rows, in which a thread computes one sample. */
template <class In, int K, int C, int V, int F, bool PLAIN, bool BY_FOUR>
__global__ void __launch_bounds__(SLIDE_THREADS) slide(const __grid_constant__ sliding_arguments<K, F> a) {
  /* This does not call find_part(), whose shortcut for one plane moves values to other registers. With it, floats of 11 x 11
   * took 15% longer, and u8 of 3 x 3 6%. With find_part() but without its shortcut, u8 of 13 x 13 took 4% longer. */
  const gconv_problem &problem = a.problem;
  const int all_walkers = a.walkers * problem.images * problem.planes;
  const bool walks = (int)blockIdx.x < all_walkers;
  const int number = walks ? blockIdx.x : blockIdx.x - all_walkers, sheet = number / (walks ? a.walkers : a.edge_blocks);
  const plane_rows plane = plane_of(a, sheet);
  if (walks) {
    const int block = number - sheet * a.walkers, strip = block / a.across, column = block - strip * a.across;
    const int first = (column * blockDim.x + threadIdx.x) * V, top = (strip * blockDim.y + threadIdx.y) * a.strip;
    if (first >= a.begin && first < a.end && top < problem.out_height)
      walk<In, K, C, V, F, PLAIN, BY_FOUR>(a, plane.in, plane.out + top * a.out_row, first, top,
                                           min(a.strip, problem.out_height - top));
  } else {
    make_ends<In, K, C, F, end_rows<K>, PLAIN>(a, plane.in, plane.out, number - sheet * a.edge_blocks);
  }
}

/* ---- Launching ---- */

/* The frame: a square of K x K taps into which a filter is put. The filter's first row is the first row of the frame, its
 * first column is column `shift`. The other taps are zeros. Zeros change no sum of integers, since these sums are never -0.
 * Floats may be infinite, so their frame has the size of the filter. Integers are loaded in groups of four, at multiples of
 * four. This needs a frame whose middle column lies a multiple of four samples from the output, so some frames are wider. */
struct frame {
  int32_t size; /* K; 0: there is no frame */
  int32_t shift;
};

inline frame find_frame(const gconv_problem *problem) {
  const int32_t largest = problem->rows > problem->columns ? problem->rows : problem->columns;
  if (problem->in_type == GCONV_F32) {
    const bool even = largest % 2 == 0 && problem->channels > 1, square = problem->rows == problem->columns;
    return {square && !even && largest > 1 && largest <= 17 ? largest : 0, 0};
  }
  for (int32_t K = largest <= 3 ? 3 : largest / 2 * 2 + 1; K <= 17; K += 2)
    for (int32_t shift = 0; shift <= K - problem->columns; shift++)
      if (((int64_t)problem->pad_left + shift - K / 2) * problem->channels % 4 == 0)
        return {K, shift};
  return {0, 0};
}

/* Finds the exponent e by which taps for integers are scaled. The largest tap times 2^e is below 2^127. It is at least
 * 2^125, unless e = 149, since no larger e is needed. Returns whether all taps times 2^e are whole numbers. Then the product
 * of a tap and a level is a whole number of units of 2^-149: no part of it is below the smallest float, and sums are rounded
 * as without scaling. */
inline bool find_exponent(const float *taps, int count, int *e) {
  float largest = 0;
  for (int i = 0; i < count; i++)
    largest = fabsf(taps[i]) > largest || taps[i] != taps[i] ? fabsf(taps[i]) : largest;
  int exponent = 0;
  frexpf(largest, &exponent);
  *e = largest > 0 && exponent > -22 ? 126 - exponent : 149;
  bool whole = largest < 0x1p36f;
  for (int i = 0; i < count; i++)
    whole = whole && ldexpf(taps[i], *e) == rintf(ldexpf(taps[i], *e));
  return whole;
}

/* Returns how many output rows a thread has if there are as many sliding blocks as the user asked for, or nearly as many.
 * The blocks for the ends of rows do not count. */
inline int32_t hinted_strip(const gconv_problem *problem, int64_t blocks_of_a_row, int64_t strips_of_a_block) {
  const int64_t rows_of_blocks = problem->grid_blocks / blocks_of_a_row;
  const int64_t strips = (rows_of_blocks < 1 ? 1 : rows_of_blocks) * strips_of_a_block;
  return (int32_t)((problem->out_height - 1) / strips + 1);
}

/* Returns whether store_plain() takes the type of samples. */
inline bool has_plain_type(const gconv_problem *problem) {
  return problem->in_type == problem->out_type && problem->in_type != GCONV_U16 && !problem->keep_alpha;
}

/* Returns whether the filters are a pair such as Sobel's: their magnitude is taken, then scale and offset. */
inline bool is_plain_pair(const gconv_execution *execution, int32_t size) {
  const gconv_problem *problem = execution->problem;
  return problem->filters == 2 && size <= 7 && has_plain_type(problem) && gconv_is_plain(&problem->epilogue) &&
         problem->epilogue.combine == GCONV_COMBINE_MAGNITUDE && are_bare(execution, 0, 2);
}

/* Returns whether the windows of all threads begin at multiples of four samples. */
inline bool lies_by_four(const gconv_problem *problem, int32_t size, int32_t shift) {
  return ((int64_t)problem->pad_left + shift - size / 2) * problem->channels % 4 == 0;
}

/* Returns whether slide() can take the taps. Integers must stay exact with scaled taps. The epilogue's scale must stay exact
 * when it is multiplied by the inverse of the taps' scale. */
inline bool slides_taps(const gconv_execution *execution, int32_t size) {
  const gconv_problem *problem = execution->problem;
  const int taps = problem->rows * problem->columns, group = is_plain_pair(execution, size) ? 2 : 1;
  const float scale = fabsf(problem->epilogue.scale);
  if (problem->in_type == GCONV_F32)
    return true;
  bool whole = scale > 0x1p-60f && scale < 0x1p60f;
  for (int32_t k = 0; whole && k < problem->filters; k += group) {
    int e;
    whole = find_exponent(execution->host_weights + (int64_t)k * taps, group * taps, &e);
  }
  return whole;
}

/* Returns whether slide() takes the problem, with its filters extended to the frame `square`. The caller leaves out 2
 * channels, for which there are no instances. */
inline bool slides(const gconv_execution *execution, frame square) {
  const gconv_problem *problem = execution->problem;
  const int64_t samples = (int64_t)problem->out_width * problem->channels, margin = 2 * square.size * problem->channels;
  bool shape = square.size > 0 && problem->stride_y == 1 && problem->stride_x == 1 && problem->dilation_y == 1 &&
               problem->dilation_x == 1;
  const int vain = 3; /* at least AHEAD, the rows that row_reader loads but does not use; along rows, a margin */
  bool near = is_near(problem->height, problem->pad_top, problem->out_height, square.size, vain) &&
              is_near(problem->width, problem->pad_left + square.shift, problem->out_width, square.size, vain);
  /* In narrower images, the ends of rows would be most of the work. */
  bool wide = samples >= 64 && (int64_t)problem->width * problem->channels >= 64 + margin;
  bool indexed = ((int64_t)problem->width + problem->out_width + 1024) * problem->channels < INT32_MAX &&
                 (samples + 1) * problem->out_height / 32 * problem->images * problem->planes < INT32_MAX;
  bool combined = gconv_is_combined(problem) && problem->filters > 1;
  bool loaded = lies_by_four(problem, square.size, square.shift) || (problem->channels == 1 && !combined);
  return shape && loaded && near && wide && indexed && is_dense<false>(execution) && is_level(problem) &&
         (!problem->keep_alpha || problem->channels == 4) && (!combined || is_plain_pair(execution, square.size)) &&
         slides_taps(execution, square.size);
}

inline bool is_power_of_two(float x) {
  int exponent;
  return x > 0 && frexpf(x, &exponent) == 0.5f;
}

/* Sets the taps of filters first .. first + F - 1, and the factors by which their sums become values. */
template <class In, int K, int F>
void set_weights(const gconv_execution *execution, int32_t first, int32_t shift, sliding_arguments<K, F> *a) {
  const gconv_problem *problem = execution->problem;
  const int rows = problem->rows, columns = problem->columns;
  const float *taps = execution->host_weights + (int64_t)first * rows * columns;
  int e = 149;
  if (sizeof(In) < 4)
    find_exponent(taps, F * rows * columns, &e);
  for (int f = 0; f < F; f++)
    for (int r = 0; r < rows; r++)
      for (int s = 0; s < columns; s++, taps++)
        a->taps[f][r * K + shift + s] = sizeof(In) < 4 ? ldexpf(*taps, e) : *taps;
  for (int f = 0; f < F; f++) {
    a->divisor[f] = gconv_divisors(problem, execution->host_weights)[first + f];
    a->bias[f] = gconv_biases(problem, execution->host_weights)[first + f];
  }
  a->unit = ldexpf(1.0f, 149 - e);
  a->scale = problem->epilogue.scale;
  a->offset = problem->epilogue.offset;
  if (sizeof(In) == 1 && F == 1) {
    a->at_once = is_power_of_two(a->scale) && a->offset == 0 && ldexpf(ldexpf(a->scale, -e), e) == a->scale;
    a->scale = ldexpf(a->scale, a->at_once ? -e : 149 - e);
  }
}

/* Finds the output samples of a row that slide. Their threads load groups of four samples, all of them inside the row. */
template <int K, int C, int V, int F> void find_inner(sliding_arguments<K, F> *a) {
  using shape = window<K, C, V>;
  const gconv_problem *problem = &a->problem;
  const int64_t before = (int64_t)problem->pad_left * C + shape::FIRST; /* from the window to its first output */
  const int64_t last = (int64_t)problem->width * C + before -
                       4 * shape::WORDS; /* the last output with which a thread can begin: its window ends inside the row */
  const int64_t begin = before <= 0 ? 0 : (before + V - 1) / V * V;
  int64_t end = last < 0 ? 0 : last / V * V + V;
  end = end > a->samples / V * V ? a->samples / V * V : end;
  a->begin = (int32_t)(begin < end ? begin : 0);
  a->end = (int32_t)(begin < end ? end : 0);
}

/* Makes the arguments of a kernel for filters first .. first + F - 1, which are put into frames of K x K taps. `out` of the
 * arguments is the output of filter `first`. Strips and blocks are set later. */
template <class In, int K, int C, int V, int F>
sliding_arguments<K, F> make_arguments(const gconv_execution *execution, int32_t shift, int32_t first) {
  sliding_arguments<K, F> a = {};
  static_cast<arguments &>(a) = common_arguments(execution);
  a.out += first * a.out_filter;
  a.problem.pad_left += shift;
  a.problem.anchor_x += shift;
  a.samples = a.problem.out_width * C;
  a.plain = has_plain_type(&a.problem) && (F > 1 || is_plain(execution, first, 1)); /* pairs are plain */
  set_weights<In>(execution, first, shift, &a);
  find_inner<K, C, V>(&a);
  return a;
}

/* Divides planes into strips of a.strip rows. Samples at the ends of rows get blocks of their own, with a thread each.
 * Returns the number of blocks for all planes. */
template <int K, int F> int64_t divide(sliding_arguments<K, F> *a, dim3 block) {
  const gconv_problem *problem = &a->problem;
  const int64_t edges = (int64_t)(a->samples - (a->end - a->begin)) * problem->out_height;
  const int64_t strips = (problem->out_height - 1) / ((int64_t)a->strip * block.y) + 1;
  a->edge_blocks = (int32_t)((edges + block.x * block.y - 1) / (block.x * block.y));
  a->walkers = (int32_t)(a->across * strips);
  return ((int64_t)a->edge_blocks + a->walkers) * problem->images * problem->planes;
}

/* Launches patches of ROWS rows. */
template <class In, int K, int C, int V, int ROWS, int BLOCKS, bool PLAIN>
void launch_patches(const gconv_execution *execution, int32_t shift, int32_t first) {
  const gconv_problem *problem = execution->problem;
  sliding_arguments<K, 1> a = make_arguments<In, K, C, V, 1>(execution, shift, first);
  const dim3 block = block_for(problem, SLIDE_THREADS, 64, SLIDE_THREADS / 64);
  a.across = (int32_t)((a.end / V + block.x - 1) / block.x);
  a.strip = ROWS;
  if (a.across > 0 && problem->grid_blocks > 0)
    a.strip = hinted_strip(problem, (int64_t)a.across * problem->images * problem->planes, block.y);
  const dim3 grid((unsigned)divide(&a, block));
  patch<In, K, C, V, ROWS, BLOCKS, PLAIN><<<grid, block, 0, (cudaStream_t)execution->stream>>>(a);
}

/* Launches the sliding kernel, with strips of the height that the user asked for, or that should take the least time. */
template <class In, int K, int C, int V, int F, bool PLAIN, bool BY_FOUR>
void launch_slide(const gconv_execution *execution, int32_t shift, int32_t first) {
  const gconv_problem *problem = execution->problem;
  sliding_arguments<K, F> a = make_arguments<In, K, C, V, F>(execution, shift, first);
  /* Floats that are bound by memory take blocks of few rows, in the order of the rows, because memory is fastest in that
   * order. The rows that blocks share are in the L1 cache. Such blocks, and those for V = 16 on one channel, are 32 threads
   * wide: NARROW. */
  constexpr bool SWEEPS = sizeof(In) == 4 && K <= 3 && F == 1, NARROW = SWEEPS || (V == 16 && C == 1);
  const int64_t threads = a.end / V, planes = (int64_t)problem->images * problem->planes;
  const int width = threads > 96 && !NARROW ? 128 : threads > 32 && !NARROW ? 64 : 32;
  const dim3 block = block_for(problem, SLIDE_THREADS, width, SLIDE_THREADS / width);
  a.across = (int32_t)((threads + block.x - 1) / block.x);
  a.strip = SWEEPS ? 4 : problem->out_height;
  int64_t at_a_time = 0;
  if constexpr (!SWEEPS)
    at_a_time = blocks_at_a_time<slide<In, K, C, V, F, PLAIN, BY_FOUR>>(SLIDE_THREADS, 0);
  if (a.across > 0 && problem->grid_blocks > 0)
    a.strip = hinted_strip(problem, a.across * planes, block.y);
  else if (a.across > 0 && !SWEEPS)
    a.strip = (int32_t)choose_strip(problem->out_height, K + 1, a.across * planes,
                                    at_a_time *
                                        block.y); /* the lead: K - 1 rows before a strip, and the time of 2 rows to begin */
  const dim3 grid((unsigned)divide(&a, block));
  slide<In, K, C, V, F, PLAIN, BY_FOUR><<<grid, block, 0, (cudaStream_t)execution->stream>>>(a);
}

} // namespace
