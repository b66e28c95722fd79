/* SPDX-License-Identifier: MIT */
/* What the kernels of direct for square filters share. They load input rows into registers as floats, slide down these rows,
 * and finish sums. They also compute the samples at the ends of rows, which no sliding thread computes. */
#pragma once

#include "../core/store.cuh"

namespace {

enum { SLIDE_THREADS = 128 }; /* threads of a block, in any shape of whole warps; fewer if the user asked for fewer */

/* F filters of K x K taps. If F > 1, their responses are combined. */
template <int K, int F> struct sliding_arguments : arguments {
  int32_t strip;       /* output rows of a thread */
  int32_t across;      /* columns of blocks */
  int32_t begin, end;  /* output samples of a row that slide, V of each thread; their windows lie inside the input row */
  int32_t walkers;     /* blocks of a plane that slide */
  int32_t edge_blocks; /* blocks of a plane that make the other samples, at the ends of rows */
  int32_t samples;     /* samples of an output row: Q * C */
  float unit;          /* integers: a sum of scaled taps and levels in units of 2^-149, times this, is the filter's sum */
  float scale, offset; /* scale and offset of a plain epilogue; for u8 and one filter, `scale` contains `unit` */
  bool plain;          /* the epilogue is only scale and offset, and the output has the type of the input */
  bool at_once; /* `scale` is a power of two that turns sums into levels in units of 2^-149: their bits are integers */
  float divisor[F], bias[F];
  float taps[F][K * K];
};

/* The samples of an input row that a thread reads, in groups of four. They begin FIRST samples before the first sample that
 * the thread needs. If the filter is centred (pad_left = K / 2), that is LEFT samples before its first output. */
template <int K, int C, int V> struct window {
  static constexpr int PAD = K / 2 * C;
  static constexpr int LEFT = (PAD + 3) / 4 * 4;
  static constexpr int WORDS = (LEFT + V - 1 + (K - 1) * C - PAD) / 4 + 1;
  static constexpr int FIRST = LEFT - PAD; /* index of the sample for tap 0 and output 0 */
};

/* ---- Input rows ---- */

/* Whether a size has registers for struct beyond, which finds border rows without branches, so that threads do not wait
 * there. For other sizes, struct beyond would let fewer blocks fit on a multiprocessor, or the compiler would move more
 * values between registers. These choices were measured on an H200. */
template <int K> constexpr bool has_spare_registers = K >= 9 && K != 13;

/* Four samples as a word of 4, 8 or 16 bytes, and their conversion to floats. Integers become floats in units of 2^-149. */
template <class In> struct samples4;
template <> struct samples4<float> {
  using word = float4;
  static DEVICE word gather(const float (&x)[4]) {
    return make_float4(x[0], x[1], x[2], x[3]);
  }
  static DEVICE void spread(word w, float *x) {
    x[0] = w.x, x[1] = w.y, x[2] = w.z, x[3] = w.w;
  }
  static DEVICE float spread_one(float x) {
    return x;
  }
};
template <> struct samples4<uint8_t> {
  using word = uint32_t;
  static DEVICE word gather(const uint8_t (&x)[4]) {
    return x[0] | (uint32_t)x[1] << 8 | (uint32_t)x[2] << 16 | (uint32_t)x[3] << 24;
  }
  static DEVICE void spread(word w, float *x) {
    UNROLLED_FOR (int i = 0; i < 4; i++)
      x[i] = __uint_as_float(__byte_perm(w, 0, 0x4440 + i));
  }
  static DEVICE float spread_one(uint8_t x) {
    return __uint_as_float(x);
  }
};
template <> struct samples4<uint16_t> {
  using word = uint2;
  static DEVICE word gather(const uint16_t (&x)[4]) {
    return make_uint2(x[0] | (uint32_t)x[1] << 16, x[2] | (uint32_t)x[3] << 16);
  }
  static DEVICE void spread(word w, float *x) {
    x[0] = __uint_as_float(w.x & 0xffffu), x[1] = __uint_as_float(w.x >> 16);
    x[2] = __uint_as_float(w.y & 0xffffu), x[3] = __uint_as_float(w.y >> 16);
  }
  static DEVICE float spread_one(uint16_t x) {
    return __uint_as_float(x);
  }
};

/* Loads the input rows of a strip, one after the other. The loads of the next rows are under way while a row is used.
 * BY_FOUR: windows begin at multiples of four samples. The reader copies its arguments, to keep them in registers. */
template <class In, int K, int C, int V, bool BY_FOUR> struct row_reader {
  using shape = window<K, C, V>;
  using word = typename samples4<In>::word;
  /* How many rows are under way, to hide latency: two for integers to 7 x 7 and floats to 3 x 3, else one. It is also one
   * for V = 16 on one channel, which leaves the registers to more warps. */
  static constexpr int AHEAD = (V < 16 || C > 1) && ((sizeof(In) < 4 && K <= 7) || K <= 3) ? 2 : 1;

  const uint8_t *in; /* the plane, from the first sample of the window on */
  int64_t in_row;
  gconv_border border;
  int y, height;
  In level;
  word words[AHEAD][shape::WORDS];

  DEVICE row_reader(const arguments &a, const uint8_t *window_of_row_0, int row)
      : in(window_of_row_0), in_row(a.in_row), border(a.problem.border), y(row), height(a.problem.height),
        level((In)a.problem.border_level) {
    UNROLLED_FOR (int i = 0; i < AHEAD; i++)
      fetch(i);
  }

  DEVICE void fetch(int slot) {
    const int source = (unsigned)y < (unsigned)height ? y
                       : has_spare_registers<K>       ? beyond(border, height).index(y)
                                                      : near_index(border, y, height);
    const uint8_t *row = in + source * in_row;
    y++;
    if (source != GCONV_OUTSIDE && BY_FOUR) {
      UNROLLED_FOR (int w = 0; w < shape::WORDS; w++)
        words[slot][w] = __ldg((const word *)row + w);
    } else if (source != GCONV_OUTSIDE) {
      UNROLLED_FOR (int w = 0; w < shape::WORDS; w++) {
        const In *four = (const In *)row + 4 * w;
        const In x[4] = {__ldg(four), __ldg(four + 1), __ldg(four + 2), __ldg(four + 3)};
        words[slot][w] = samples4<In>::gather(x);
      }
    } else {
      const In x[4] = {level, level, level, level};
      UNROLLED_FOR (int w = 0; w < shape::WORDS; w++)
        words[slot][w] = samples4<In>::gather(x);
    }
  }

  /* Returns the next row, as floats. */
  DEVICE void next(float (&x)[4 * shape::WORDS]) {
    UNROLLED_FOR (int w = 0; w < shape::WORDS; w++)
      samples4<In>::spread(words[0][w], x + 4 * w);
    UNROLLED_FOR (int i = 0; i + 1 < AHEAD; i++)
      UNROLLED_FOR (int w = 0; w < shape::WORDS; w++)
        words[i][w] = words[i + 1][w];
    fetch(AHEAD - 1);
  }
};

/* ---- Output rows ---- */

/* kept_alpha() of output pixel (p, q) for borders that near_index() finds. */
template <class In, int C>
__device__ float near_alpha(const gconv_problem &problem, const uint8_t *plane, int64_t in_row, int p, int q) {
  int y = near_index(problem.border, p - problem.pad_top + problem.anchor_y, problem.height);
  int x = near_index(problem.border, q - problem.pad_left + problem.anchor_x, problem.width);
  float alpha = problem.border_level;
  if (y != GCONV_OUTSIDE && x != GCONV_OUTSIDE)
    alpha = ((const In *)(plane + y * in_row))[x * C + C - 1];
  return gconv_scale(alpha, problem.epilogue.alpha_scale, problem.epilogue.alpha_scale_low, 0.0f);
}

/* Makes a value of the output from the sums of one or two filters. */
template <class In, int K, int F>
__device__ float finish_value(const sliding_arguments<K, F> &a, float first, float second) {
  const gconv_epilogue &epilogue = a.problem.epilogue;
  if (sizeof(In) < 4)
    first *= a.unit, second *= a.unit;
  float y = gconv_response(first, a.divisor[0], a.bias[0]);
  if (gconv_is_combined(&a.problem)) {
    y = gconv_combine_first(epilogue.combine, y);
    if (F > 1)
      y = gconv_combine_next(epilogue.combine, y, gconv_response(second, a.divisor[F - 1], a.bias[F - 1]));
    y = gconv_combine_last(epilogue.combine, y);
  }
  return gconv_finish(y, &epilogue);
}

/* Finishes and stores four samples, for any epilogue and output type. */
template <class In, int K, int C, int F>
DEVICE void store_any(const sliding_arguments<K, F> &a, const float *first, const float *second, const uint8_t *in,
                      uint8_t *out, int p, int sample) {
  const gconv_problem &problem = a.problem;
  float y[4];
  UNROLLED_FOR (int i = 0; i < 4; i++)
    y[i] = finish_value<In, K, F>(a, first[i], second[i]);
  if (C == 4 && problem.keep_alpha)
    y[3] = near_alpha<In, C>(problem, in, a.in_row, p, sample / C);
  BY_TYPE(problem.out_type, Type, store_four(y, (Type *)out, sample, 4));
}

/* Plain epilogues: y = sum * scale + offset, after the magnitude if there are two sums. Input and output have one type. */
template <int F> DEVICE float plain_sum(float first, float second) {
  return F == 1 ? first : sqrtf(fmaf(second, second, fmaf(first, first, 0.0f)));
}

template <int K, int F, int V>
DEVICE void store_plain(const sliding_arguments<K, F> &a, const float (&first)[V], const float (&second)[V], float *row,
                        int sample) {
  UNROLLED_FOR (int v = 0; v < V; v += 4) {
    float y[4];
    UNROLLED_FOR (int i = 0; i < 4; i++)
      y[i] = fmaf(plain_sum<F>(first[v + i], second[v + i]), a.scale, a.offset);
    /* Where memory is the bound, stores that stay in the L2 cache for a while are faster. But 5 x 5 patches read more rows
     * twice, and results in the cache would displace these rows. */
    if (K <= 4)
      *(float4 *)(row + sample + v) = pack_four(y, 0.0f);
    else
      store_four(y, row, sample + v, 4);
  }
}

template <int K, int F, int V>
DEVICE void store_plain(const sliding_arguments<K, F> &a, const float (&first)[V], const float (&second)[V], uint8_t *row,
                        int sample) {
  uint32_t words[V / 4];
  UNROLLED_FOR (int v = 0; v < V; v += 4) {
    int32_t level[4];
    UNROLLED_FOR (int i = 0; i < 4; i++) {
      if (F == 1 && a.at_once)
        level[i] = __float_as_int(first[v + i] * a.scale);
      else
        level[i] = __float_as_int(
            fmaf(F == 1 ? first[v + i] : plain_sum<F>(first[v + i] * a.unit, second[v + i] * a.unit), a.scale, a.offset) *
            0x1p-149f);
    }
    words[v / 4] = saturate_four(level);
  }
  store_words(words, row + sample);
}

/* Finishes and stores V samples of output row `p`. PLAIN: the epilogue is only scale and offset, after the magnitude of two
 * sums. If not PLAIN, the epilogue is tested for each row, which costs little where rows have many taps. */
template <class In, int K, int C, int V, int F, bool PLAIN>
DEVICE void store_sums(const sliding_arguments<K, F> &a, const float (&first)[V], const float (&second)[V],
                       const uint8_t *in, uint8_t *out, int p, int sample) {
  if constexpr (sizeof(In) != 2)
    if (PLAIN || a.plain) {
      store_plain(a, first, second, (In *)out, sample);
      return;
    }
  if constexpr (!PLAIN)
    UNROLLED_FOR (int v = 0; v < V; v += 4)
      store_any<In, K, C, F>(a, first + v, second + v, in, out, p, sample + v);
}

/* ---- Sliding ---- */

/* Adds an input row to all sums. sums[j] is the j-th oldest output row; before this call it was sums[j + 1]. */
template <int K, int C, int V, int N> DEVICE void add_row(const float *taps, const float (&x)[N], float (&sums)[K][V]) {
  constexpr int FIRST = window<K, C, V>::FIRST;
  UNROLLED_FOR (int j = 0; j < K; j++)
    UNROLLED_FOR (int s = 0; s < K; s++)
      UNROLLED_FOR (int v = 0; v < V; v++) {
        float before = s > 0 ? sums[j][v] : j + 1 < K ? sums[j + 1 < K ? j + 1 : j][v] : 0.0f;
        sums[j][v] = fmaf(taps[(K - 1 - j) * K + s], x[FIRST + v + s * C], before);
      }
}

/* A thread slides down its strip. */
template <class In, int K, int C, int V, int F, bool PLAIN, bool BY_FOUR>
DEVICE void walk(const sliding_arguments<K, F> &a, const uint8_t *in, uint8_t *out, int first, int top, int rows) {
  const gconv_problem &problem = a.problem;
  const int left = first - problem.pad_left * C - window<K, C, V>::FIRST; /* the first sample of the window */
  row_reader<In, K, C, V, BY_FOUR> reader(a, in + left * (int64_t)sizeof(In), top - problem.pad_top);
  float sums[F][K][V] = {};
  ROLLED_FOR (int i = 1 - K; i < rows; i++) {
    float x[4 * window<K, C, V>::WORDS];
    reader.next(x);
    UNROLLED_FOR (int f = 0; f < F; f++)
      add_row<K, C, V>(a.taps[f], x, sums[f]);
    if (i < 0)
      continue;
    store_sums<In, K, C, V, F, PLAIN>(a, sums[0][0], sums[F - 1][0], in, out, top + i, first);
    out += a.out_row;
  }
}

/* ---- The ends of rows ---- */

/* store_plain() for one value. */
template <int K, int F> DEVICE void store_plain_one(const sliding_arguments<K, F> &a, float sum, float *out) {
  *out = fmaf(sum, a.scale, a.offset);
}
template <int K, int F> DEVICE void store_plain_one(const sliding_arguments<K, F> &a, float sum, uint8_t *out) {
  const int level = __float_as_int(a.at_once ? sum * a.scale : fmaf(sum, a.scale, a.offset) * 0x1p-149f);
  *out = (uint8_t)min(max(level, 0), 255);
}

/* How many rows of a window are loaded at once for a sample at the end of a row: one for K up to 3, and all for K = 4 and 5.
 * A larger K loads as many as fit into the registers that the sliding threads need anyway. */
template <int K> constexpr int end_rows = K <= 3 ? 1 : K <= 5 ? K : (has_spare_registers<K> ? 36 : 20) / K;

/* Computes one output sample at the end of a row. Its window may reach outside. ROWS input rows are loaded at once. For a
 * position outside, sample 0 is loaded, and then replaced. */
template <class In, int K, int C, int F, int ROWS, bool PLAIN>
__device__ void make_sample(const sliding_arguments<K, F> &a, const uint8_t *in, uint8_t *out, int p, int sample) {
  const gconv_problem &problem = a.problem;
  const beyond down(problem.border, problem.height), across(problem.border, problem.width);
  const int q = sample / C, c = sample - q * C;
  float sums[F] = {};
  ROLLED_FOR (int r = 0; r < K; r += ROWS) {
    In levels[ROWS][K];
    UNROLLED_FOR (int i = 0; i < ROWS; i++) {
      const int y = down.index(p - problem.pad_top + min(r + i, K - 1));
      const In *row = (const In *)(in + max(y, 0) * a.in_row);
      UNROLLED_FOR (int s = 0; s < K; s++) {
        const int x = across.index(q - problem.pad_left + s);
        const In level = row[max(x, 0) * C + c];
        levels[i][s] = (y | x) < 0 ? (In)problem.border_level : level;
      }
    }
    UNROLLED_FOR (int i = 0; i < ROWS; i++)
      if (K % ROWS == 0 || r + i < K)
        UNROLLED_FOR (int s = 0; s < K; s++)
          UNROLLED_FOR (int f = 0; f < F; f++)
            sums[f] = fmaf(a.taps[f][(r + i) * K + s], samples4<In>::spread_one(levels[i][s]), sums[f]);
  }
  if constexpr (PLAIN && F == 1 && sizeof(In) != 2) {
    store_plain_one(a, sums[0], (In *)out + sample);
    return;
  }
  float value = finish_value<In, K, F>(a, sums[0], sums[F - 1]);
  if (C == 4 && problem.keep_alpha && c == 3)
    value = near_alpha<In, C>(problem, in, a.in_row, p, q);
  BY_TYPE(problem.out_type, Type, gconv_store(value, (Type *)out + sample));
}

/* Computes this thread's sample at the end of a row. `number`: number of this block among those for the ends of a plane's
 * rows. */
template <class In, int K, int C, int F, int ROWS, bool PLAIN>
DEVICE void make_ends(const sliding_arguments<K, F> &a, const uint8_t *in, uint8_t *out, int number) {
  const unsigned width = a.samples - (a.end - a.begin), thread = threadIdx.y * blockDim.x + threadIdx.x;
  const uint64_t sample = (uint64_t)number * (blockDim.x * blockDim.y) + thread;
  const int p = (int)(sample < UINT32_MAX ? (unsigned)sample / width : sample / width);
  const int at = (int)(sample - (uint64_t)p * width);
  if (p < a.problem.out_height)
    make_sample<In, K, C, F, ROWS, PLAIN>(a, in, out + p * a.out_row, p, at < a.begin ? at : at + a.end - a.begin);
}

/* The work of a block: whether it slides or computes the ends of rows, and row 0 of its plane. */
struct block_part {
  bool walks;
  int number;
  const uint8_t *in;
  uint8_t *out;
};

/* Assigns work to a block. The first blocks of the grid slide. The blocks for the ends of rows come last: they are short,
 * and fill the multiprocessors that have become idle. */
template <int K, int F> DEVICE block_part find_part(const sliding_arguments<K, F> &a) {
  const gconv_problem &problem = a.problem;
  const int all_walkers = a.walkers * problem.images * problem.planes;
  const bool walks = (int)blockIdx.x < all_walkers;
  const int number = walks ? blockIdx.x : blockIdx.x - all_walkers, of_plane = walks ? a.walkers : a.edge_blocks;
  if (problem.images * problem.planes == 1) /* saves a short launch the divisions */
    return {walks, number, a.in, a.out};
  const int sheet = number / of_plane;
  const plane_rows plane = plane_of(a, sheet);
  return {walks, number - sheet * of_plane, plane.in, plane.out};
}

} // namespace
