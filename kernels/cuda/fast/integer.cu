/* SPDX-License-Identifier: MIT */
/*
 * integer: u8 images and filters of small integers (Sobel, Laplacian, binomials), in the bits of the exact family.
 *
 * Taps are integers of 8 bits times a power of two. Their sums with bytes are exact in float32, so any other way to add them
 * yields the same bits (problem.h). Two ways are faster than float32:
 *
 * Filters to 3 x 3, in this file: dot products of four bytes. The instruction dp4a multiplies four samples by four taps of a
 * row, and adds the products to a sum. A thread has a patch of 16 x 4 outputs, and loads its six input rows at once:
 *
 *     | w0 | w1 w2 w3 w4 | w5 |    16 samples by one load; the words beside them come from the neighbouring lanes
 *       . . . . x x x . . .        three samples of one channel are in a word of the row, or are gathered in one by
 *           `-+-'                  permutations; then dp4a adds them to three sums, one for each row of taps
 *
 * A sum begins as the bits of the float 3 * 2^22. As long as the sum stays below 2^22, adding an integer to the bits adds it
 * to the float. So one multiply-add divides a finished sum by a power of two and rounds it to the nearest level, ties to
 * even; that level is in the low bits. Sums that are levels already begin with 0. Other epilogues are those of direct.
 *
 * Patches are bound by the L2 cache and memory: they reach 85% of the cache's rate. Patches of more rows would load fewer
 * samples twice, but need more registers. A multiprocessor must hold 24 warps to hide the latency of loads.
 *
 * Larger filters use the tensor cores, with taps of one digit (toeplitz.cu). dp4a has a quarter of the rate of
 * multiply-adds: a 5 x 5 filter would take 10 dp4a, which is slower.
 */
#include "direct_slide.cuh"
#include "kernels/factor.h"

namespace {

enum {
  K = 3,              /* rows and columns of the frame */
  ROWS = 4,           /* rows of a patch */
  START = 0x4b400000, /* the bits of 3 * 2^22 */
};

template <int F> struct integer_arguments : sliding_arguments<K, F> {
  /* The taps of a row as bytes: for samples that begin at byte 0 of a word, and at byte 1. */
  uint32_t taps_of_row[F][K][2];
  float exact[F];           /* factor from integers to the sums of direct */
  int start;                /* start of a sum: START, or 0 where sums are levels */
  bool rounds;              /* a level is a sum times a power of two, rounded, or the magnitude of that */
  float share, start_share; /* the bits of sum * share + start_share, as floats, are START + the rounded level */
};

/* Returns c + the products of four bytes and four signed bytes. */
DEVICE int add_four(uint32_t samples, uint32_t taps, int c) {
  int sum;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(samples), "r"(taps), "r"(c));
  return sum;
}

/* Gathers K bytes, C apart, from byte `first` of a row on. All but `words` are constants. The fourth byte is unused. */
template <int C, int WORDS> DEVICE uint32_t gather(const uint32_t (&words)[WORDS], int first) {
  const int begin = first / 4;
  uint32_t gathered = words[begin];
  bool begun = false; /* whether the bytes of the first word are in their final places */
  UNROLLED_FOR (int w = 1; w <= (3 + (K - 1) * C) / 4; w++) {
    unsigned selector = 0;
    bool any = false;
    UNROLLED_FOR (int i = 0; i < K; i++) {
      const int at = first + i * C, from = at / 4 - begin;
      any = any || from == w;
      selector |= (unsigned)(from == w ? 4 + at % 4 : begun ? i : at % 4) << (4 * i);
    }
    if (any) {
      gathered = __byte_perm(gathered, words[begin + w < WORDS ? begin + w : WORDS - 1], selector);
      begun = true;
    }
  }
  return gathered;
}

/* Adds an input row to all sums, as add_row() does. */
template <int C, int V, int F, int WORDS>
DEVICE void add_words(const integer_arguments<F> &a, const uint32_t (&words)[WORDS], int (&sums)[F][K][V]) {
  UNROLLED_FOR (int v = 0; v < V; v++) {
    const int first = window<K, C, V>::FIRST + v;
    const bool whole = C == 1 && first % 4 + K <= 4; /* the samples lie in one word */
    const uint32_t samples = whole ? words[first / 4] : gather<C>(words, first);
    UNROLLED_FOR (int f = 0; f < F; f++)
      UNROLLED_FOR (int j = 0; j < K; j++)
        sums[f][j][v] = add_four(samples, a.taps_of_row[f][K - 1 - j][whole ? first % 4 : 0],
                                 j + 1 < K ? sums[f][j + 1 < K ? j + 1 : j][v] : a.start);
  }
}

/* Finishes and stores V samples of output row `p`. PLAIN: the epilogue is plain as in store_sums(), or a.rounds is set. */
template <int C, int V, int F, bool PLAIN>
DEVICE void store_integers(const integer_arguments<F> &a, const int (&first)[V], const int (&second)[V], const uint8_t *in,
                           uint8_t *out, int p, int sample) {
  if (PLAIN && F == 1 && a.rounds) {
    int32_t level[V];
    UNROLLED_FOR (int v = 0; v < V; v++)
      level[v] = first[v];
    if (a.start != 0)
      UNROLLED_FOR (int v = 0; v < V; v++)
        level[v] = __float_as_int(fmaf(__int_as_float(level[v]), a.share, a.start_share)) - START;
    if (a.problem.epilogue.absolute)
      UNROLLED_FOR (int v = 0; v < V; v++)
        level[v] = abs(level[v]);
    uint32_t words[V / 4];
    UNROLLED_FOR (int v = 0; v < V; v += 4)
      words[v / 4] = saturate_four({level[v], level[v + 1], level[v + 2], level[v + 3]});
    store_words(words, out + sample);
    return;
  }
  float sums[2][V];
  UNROLLED_FOR (int v = 0; v < V; v++) {
    sums[0][v] = (__int_as_float(first[v]) - __int_as_float(START)) * a.exact[0];
    sums[1][v] = (__int_as_float(second[v]) - __int_as_float(START)) * a.exact[F - 1];
  }
  store_sums<uint8_t, K, C, V, F, PLAIN>(a, sums[0], sums[F - 1], in, out, p, sample);
}

/* ---- Patches ---- */

/* The V neighbouring samples of a row that a thread computes. The thread also needs the input word on either side of them.
 * Most of these words come from neighbouring lanes. */
struct patch_place {
  int first;
  bool left, right; /* the thread itself loads that word, because no lane has it */
  bool ends; /* the window reaches beyond the row, or no lane has either of the words: their samples are loaded one by one */
};

/* Returns sample number `i` of the window of a thread. The sample may lie beyond the row. */
template <int C, int V>
DEVICE uint32_t sample_beside(const gconv_problem &problem, const beyond &across, const uint8_t *row, int first, int i) {
  const int sample = first - window<K, C, V>::LEFT + i + 12, x = sample / C - 12 / C, at = across.index(x);
  return at < 0 ? (uint32_t)problem.border_level : row[at * C + sample % C];
}

/* The input rows of a patch: the thread's window of each row, in words. */
template <int C, int V> struct patch_rows {
  using shape = window<K, C, V>;
  static constexpr int N = ROWS + K - 1, LAST = shape::WORDS - 1;
  static_assert((V == 8 || V == 16) && shape::LEFT == 4 && LAST == V / 4 + 1, "a load, and a word on either side");
  const uint8_t *rows[N]; /* NULL: outside the image */
  uint32_t words[N][shape::WORDS];

  /* Loads the samples below the outputs. INSIDE: all rows are inside the image. */
  template <bool INSIDE> DEVICE void load(const arguments &a, const uint8_t *in, int first, int source) {
    const gconv_problem &problem = a.problem;
    const beyond down(problem.border, problem.height);
    UNROLLED_FOR (int i = 0; i < N; i++) {
      const int y = INSIDE ? 0 : down.index(source + i);
      rows[i] = INSIDE ? in + source * a.in_row + i * a.in_row : y < 0 ? NULL : in + y * a.in_row;
      UNROLLED_FOR (int w = 0; w < shape::WORDS && !INSIDE; w++)
        words[i][w] = 0x01010101u * (uint32_t)problem.border_level;
      if (V == 8 && (INSIDE || rows[i])) {
        const uint2 two = __ldg((const uint2 *)(rows[i] + first));
        words[i][1] = two.x, words[i][2] = two.y;
      } else if (INSIDE || rows[i]) {
        const uint4 four = __ldg((const uint4 *)(rows[i] + first));
        words[i][1] = four.x, words[i][2] = four.y, words[i][LAST - 2] = four.z, words[i][LAST - 1] = four.w;
      }
    }
  }

  /* Completes the windows. All lanes of the warp call this. */
  template <bool INSIDE> DEVICE void add_sides(const gconv_problem &problem, const patch_place &at) {
    uint32_t side[N]; /* loads come before exchanges, which wait for the samples */
    if (at.left || at.right)
      UNROLLED_FOR (int i = 0; i < N; i++)
        if (INSIDE || rows[i])
          side[i] = __ldg((const uint32_t *)(rows[i] + (at.left ? at.first - 4 : at.first + V)));
    __syncwarp();
    UNROLLED_FOR (int i = 0; i < N; i++) {
      const uint32_t left = __shfl_up_sync(~0u, words[i][LAST - 1], 1), right = __shfl_down_sync(~0u, words[i][1], 1);
      words[i][0] = at.left && (INSIDE || rows[i]) ? side[i] : left;
      words[i][LAST] = at.right && (INSIDE || rows[i]) ? side[i] : right;
    }
    if (!at.ends)
      return;
    const beyond across(problem.border, problem.width);
    UNROLLED_FOR (int i = 0; i < N; i++)
      if (INSIDE || rows[i])
        UNROLLED_FOR (int w = 0; w <= LAST; w += LAST) {
          uint32_t word = 0;
          UNROLLED_FOR (int b = 0; b < 4; b++)
            if (4 * w + b >= shape::FIRST && 4 * w + b < shape::FIRST + V + (K - 1) * C)
              word |= sample_beside<C, V>(problem, across, rows[i], at.first, 4 * w + b) << 8 * b;
          words[i][w] = word;
        }
  }
};

/* Computes a patch of `rows` rows, ROWS at most, from row `top` on. INSIDE: it has all rows, and its input is inside the
 * image, except at the ends of rows. */
template <int C, int V, int F, bool PLAIN, bool INSIDE>
DEVICE void make_patch(const integer_arguments<F> &a, const uint8_t *in, uint8_t *out, const patch_place &at, int top,
                       int rows) {
  patch_rows<C, V> source;
  source.template load<INSIDE>(a, in, at.first, top - a.problem.pad_top);
  source.template add_sides<INSIDE>(a.problem, at);
  int sums[F][K][V];
  UNROLLED_FOR (int i = 0; i < ROWS + K - 1; i++) {
    add_words<C, V, F>(a, source.words[i], sums);
    const int p = i - (K - 1);
    if (p >= 0 && (INSIDE ? rows > 0 : p < rows))
      store_integers<C, V, F, PLAIN>(a, sums[0][0], sums[F - 1][0], in, out + p * a.out_row, top + p, at.first);
  }
}

/* Makes patches of ROWS rows of V samples, one for each thread. Grid: x counts columns of blocks, then blocks that compute
 * the samples of rows after the last whole V; y counts rows of blocks, z planes of all images. */
template <int C, int V, int F, bool PLAIN>
__global__ void __launch_bounds__(SLIDE_THREADS, PLAIN ? 6 : 4) integers(const __grid_constant__ integer_arguments<F> a) {
  const gconv_problem &problem = a.problem;
  const plane_rows plane = plane_of<true>(a, blockIdx.z);
  if ((int)blockIdx.x >= a.across) {
    make_ends<uint8_t, K, C, F, end_rows<K>, false>(a, plane.in, plane.out,
                                                    (blockIdx.x - a.across) * gridDim.y + blockIdx.y);
    return;
  }
  const int lane = threadIdx.x % 32, asked = (blockIdx.x * blockDim.x + threadIdx.x) * V, first = min(asked, a.end - V);
  const int top = (blockIdx.y * blockDim.y + threadIdx.y) * ROWS, source = top - problem.pad_top;
  if (top >= problem.out_height) /* true for all lanes of a warp, or for none */
    return;
  patch_place at = {first, lane == 0, lane == 31 || first + V >= a.end, false};
  at.ends = first == 0 || first + V + 4 > problem.width * C || (at.left && at.right);
  at.left = at.left && !at.ends, at.right = at.right && !at.ends;
  const int rows = asked == first ? min(problem.out_height - top, ROWS) : 0;
  if (source >= 0 && source + ROWS + K - 1 <= problem.height && top + ROWS <= problem.out_height)
    make_patch<C, V, F, PLAIN, true>(a, plane.in, plane.out + top * a.out_row, at, top, rows);
  else
    make_patch<C, V, F, PLAIN, false>(a, plane.in, plane.out + top * a.out_row, at, top, rows);
}

/* ---- Launching ---- */

/* Returns the frame (as find_frame() does) whose middle column lies at the output, so that threads load aligned words. */
frame middle_frame(const gconv_problem *problem) {
  const int32_t shift = K / 2 - problem->pad_left;
  const bool fits = problem->rows <= K && shift >= 0 && shift + problem->columns <= K;
  return {fits && problem->out_width <= problem->width ? K : 0, shift};
}

/* Sets the integers of filters first .. first + F - 1, and the factors from their sums to levels. */
template <int F> void set_integers(const gconv_execution *execution, int32_t first, int32_t shift, integer_arguments<F> *a) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *e = &problem->epilogue;
  const int rows = problem->rows, columns = problem->columns;
  const float *taps = execution->host_weights + (int64_t)first * rows * columns;
  float unit = 1;
  for (int f = 0; f < F; f++) {
    unit = gconv_find_integers(taps, (int64_t)rows * columns).unit;
    a->exact[f] = unit / a->unit;
    for (int r = 0; r < rows; r++)
      for (int s = shift; s < shift + columns; s++, taps++)
        for (int at = 0; at < 2; at++)
          a->taps_of_row[f][r][at] |= (uint32_t)(uint8_t)(int8_t)(*taps / unit) << 8 * (at + s);
  }
  int exponent;
  a->share = unit * e->scale / a->divisor[0];
  const bool shares = frexpf(a->divisor[0], &exponent) == 0.5f && frexpf(a->share, &exponent) == 0.5f;
  a->rounds = F == 1 && shares && exponent <= 1 && exponent >= -16 && a->bias[0] == 0 && e->offset == 0 &&
              e->scale_low == 0 && !e->center && problem->out_type == GCONV_U8 && !gconv_is_combined(problem) &&
              !problem->keep_alpha;
  a->start = a->rounds && a->share == 1 ? 0 : START;
  a->start_share = 0x1.8p23f - 0x1.8p23f * a->share;
}

template <int C, int V, int F, bool PLAIN> void launch_blocks(const gconv_execution *execution, integer_arguments<F> *a) {
  const gconv_problem *problem = execution->problem;
  const dim3 block(32, SLIDE_THREADS / 32);
  a->across = (int32_t)((a->end / V - 1) / block.x + 1);
  const int64_t down = (problem->out_height - 1) / (int64_t)(ROWS * block.y) + 1;
  const int64_t left = (int64_t)(a->samples - a->end) * problem->out_height; /* samples after the last patch of a row */
  const int64_t others = (left + SLIDE_THREADS * down - 1) / (SLIDE_THREADS * down);
  const dim3 grid((unsigned)(a->across + others), (unsigned)down, (unsigned)(problem->images * problem->planes));
  integers<C, V, F, PLAIN><<<grid, block, 0, (cudaStream_t)execution->stream>>>(*a);
}

/* Launches F filters. */
template <int C, int F> void launch_filters(const gconv_execution *execution, int32_t shift, int32_t first) {
  constexpr int V = 16 / F;
  integer_arguments<F> a = {};
  static_cast<sliding_arguments<K, F> &>(a) = make_arguments<uint8_t, K, C, V, F>(execution, shift, first);
  set_integers(execution, first, shift, &a);
  a.begin = 0, a.end = a.samples / V * V; /* patches handle the ends of rows themselves */
  if (F > 1 || a.plain || a.rounds)
    launch_blocks<C, V, F, true>(execution, &a);
  else
    launch_blocks<C, V, F, false>(execution, &a);
}

template <int C> void launch_integers(const gconv_execution *execution, int32_t shift) {
  if (is_plain_pair(execution, K)) {
    launch_filters<C, 2>(execution, shift, 0);
    return;
  }
  for (int32_t k = 0; k < execution->problem->filters; k++)
    launch_filters<C, 1>(execution, shift, k);
}

void (*const launchers[4])(const gconv_execution *, int32_t) = {launch_integers<1>, launch_integers<2>, launch_integers<3>,
                                                                launch_integers<4>};

/* Returns whether patches take the problem, as far as this is known before the execution. */
bool has_patches(const gconv_problem *problem) {
  const bool strided = (problem->stride_y | problem->stride_x | problem->dilation_y | problem->dilation_x) > 1;
  const bool combined = gconv_is_combined(problem) && problem->filters > 1;
  const bool magnitude = problem->filters == 2 && problem->epilogue.combine == GCONV_COMBINE_MAGNITUDE;
  return middle_frame(problem).size > 0 && !strided && (!combined || magnitude) &&
         (int64_t)problem->images * problem->planes < 65536 && problem->out_height / (ROWS * SLIDE_THREADS / 32) < 65535;
}

gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const frame in = middle_frame(problem);
  if (!has_patches(problem) || !slides(execution, in))
    return gconv_algorithm_cuda_toeplitz.execute(execution);
  launchers[problem->channels - 1](execution, in.shift);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

/* ---- The descriptor ---- */

const char *supports(const gconv_problem *problem) {
  if (problem->in_type != GCONV_U8)
    return "samples other than u8";
  if (!gconv_is_of_bytes(&problem->structure.integers))
    return "taps that are not integers of 8 bits times a power of two";
  return gconv_algorithm_cuda_toeplitz.supports(problem);
}

size_t prepared_floats(const gconv_problem *problem) {
  return gconv_algorithm_cuda_toeplitz.prepared_floats(problem);
}

gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  return gconv_algorithm_cuda_toeplitz.prepare(problem, taps, prepared);
}

const gconv_algorithm *leaves_to(const gconv_problem *problem) {
  return has_patches(problem) ? NULL : &gconv_algorithm_cuda_toeplitz;
}

/* The cost of patches, measured on an H200: a launch, in which the first and last blocks wait for memory, and the bytes. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  if (!has_patches(problem))
    return gconv_algorithm_cuda_toeplitz.cost(problem, machine);
  const double passes = gconv_is_combined(problem) ? 1 : problem->filters, waiting = 0.005;
  const double samples = gconv_problem_flop(problem) / (2.0 * (double)gconv_tap_count(problem));
  const double bytes = samples * (1 + (double)gconv_type_bytes(problem->out_type));
  return passes * (machine->launch_ms + waiting + bytes / (0.85 * machine->bytes_per_ms));
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_integer = {
    .info = {"integer", "cuda", "small integers as taps on u8: sums of integers, in any order", true},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .leaves_to = leaves_to,
    .error_bound = gconv_chain_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};
