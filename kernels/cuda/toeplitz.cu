/* SPDX-License-Identifier: MIT */
/*
 * toeplitz: rows of the filter as banded matrices, on the integer tensor cores; for u8 and u16 images.
 *
 * The sums of eight neighbouring output samples over one row of the filter are a product of the window of input samples that
 * they see and a banded (Toeplitz) matrix: column j holds the taps from row j on, C apart, as neighbours of a channel are.
 *
 *     window (16 bytes)         band (16 x 8), taps a b c, one channel    eight sums
 *                               a . . . . . . .
 *                               b a . . . . . .
 *     [x0 x1 x2 .. x15]    x    c b a . . . . .                        =  [y0 y1 .. y7]
 *                               . c b a . . . .
 *                               . . c b a . . .   ...
 *
 * Sixteen such windows, eight samples apart, are the 16 x 16 or 16 x 32 matrix that mma.sync multiplies with a band: a warp
 * makes 128 neighbouring samples of a row, whatever their channels. The tensor cores take bytes as they are, so that samples
 * go from memory to the multiplication without being touched; u16 samples are two bytes, 256 * high + low.
 *
 * A tap is a multiple of a quantum: an integer of one or three digits of base 256, each -128 to 127, and each digit has a
 * band and an int32 sum of its own. All sums are exact, and are joined in float32 at the end. Integer filters (Sobel, boxes,
 * binomials), and whatever is one real number times small integers, need one digit; every other filter is rounded to 24 bits
 * of its largest tap, and takes three: hence the error bound, that of a chain of float32 additions.
 *
 * The arithmetic: R * D products of 16 x 8 x 16 W for 128 samples, with D digits and windows of 16 W bytes: with 7 x 7 taps
 * on one channel 21 instructions, of 4 cycles each, where float32 takes 49 * 4 of one; and some 100 more to load, join,
 * finish and store. These bound it up to about 9 x 9, the products beyond. It beats float32 from 7 x 7 on.
 *
 * Strides would leave out most of the eight neighbours; float32 samples are not bytes: both are refused.
 */
#include "common.cuh"

#include <math.h>

namespace {

enum { LANES = 32, WARPS = 4 };                         /* of a block */
enum { BLOCK = 8, TILE = 16 * BLOCK, HALF = TILE / 2 }; /* output samples of a window, of a warp, of half of its windows */
enum { CHUNK = 16 /* bytes loaded at once */, MOST_DIGITS = 3 };

/* From the sum of a filter, in quanta, to its response. */
struct scaling {
  float multiplier; /* the quantum, over the divisor if that is a power of two */
  float divisor;    /* what remains of it */
  float bias;
};

struct banded_arguments {
  arguments common;
  const uint32_t *bands;   /* of each filter, what lanes hold of the right factors (word_at()) */
  const scaling *scalings; /* [K] */
  int32_t samples;         /* of an output row: Q * C */
  int32_t left;            /* of the window of output sample 0, in samples; a multiple of 4 */
  int32_t rows, words;     /* of the bands of a filter */
  int32_t reach;           /* the end of the input samples of a row that any output needs */
  int32_t whole;           /* samples of an input row that may be loaded 16 bytes at a time; 0 if rows are not aligned */
  int32_t across;          /* warps of a block side by side, if it walks */
  int32_t strips, strip;   /* of a phase of the dilation, and rows of a strip */
  bool combined;           /* the responses of all filters are */
  bool dense;              /* output samples are neighbours */
  bool bytes;              /* and u8, without alpha that is kept; nothing but scale and offset follows */
  float scale, offset;     /* these, in units of 256 levels */
  uint4 level;             /* of the border, in a chunk of samples */
};

/* ---- Products ---- */

/* c += a * b: sixteen windows of 16 bytes, eight outputs. Lane 4 g + t holds bytes 4 t .. 4 t + 3 of windows g and g + 8,
 * and of output g; and the sums of window g, outputs 2 t and 2 t + 1, then those of window g + 8. */
__device__ __forceinline__ void multiply(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(b));
#else
  asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+r"(c[0]), "+r"(c[1])
      : "r"(a0), "r"(b));
  asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+r"(c[2]), "+r"(c[3])
      : "r"(a1), "r"(b));
#endif
}

/* The same of 32 bytes, whose second half is a2, a3 and d. */
__device__ __forceinline__ void multiply(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b,
                                         uint32_t d) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b), "r"(d));
#else
  multiply(c, a0, a1, b);
  multiply(c, a2, a3, d);
#endif
}

/* What a lane holds of sixteen windows: of each byte of a sample, W words of windows g and g + 8. */
template <int P, int W> struct windows { uint32_t byte[P][W][2]; };

/* sums[p + d] += byte p of the windows * digit d of the taps, for all p and d. */
template <int P, int W, int D>
__device__ __forceinline__ void lay(const windows<P, W> &x, const uint32_t (&band)[D][W], int (&sums)[D + P - 1][4]) {
#pragma unroll
  for (int p = 0; p < P; p++)
#pragma unroll
    for (int d = 0; d < D; d++) {
#pragma unroll
      for (int w = 0; w + 1 < W; w += 2)
        multiply(sums[p + d], x.byte[p][w][0], x.byte[p][w][1], x.byte[p][w + 1][0], x.byte[p][w + 1][1], band[d][w],
                 band[d][w + 1]);
      if (W % 2 == 1)
        multiply(sums[p + d], x.byte[p][W - 1][0], x.byte[p][W - 1][1], band[d][W - 1]);
    }
}

/* ---- Samples ---- */

/* gconv_border_index() for sizes up to 2^29 and positions up to 2^30 away, in 32 bits. */
__device__ __forceinline__ int index_of(gconv_border border, int i, int size) {
  if ((unsigned)i < (unsigned)size)
    return i;
  if (border == GCONV_BORDER_ZERO || border == GCONV_BORDER_CONSTANT)
    return GCONV_OUTSIDE;
  if (border == GCONV_BORDER_REPLICATE || size == 1)
    return i < 0 ? 0 : size - 1;
  const int period = border == GCONV_BORDER_WRAP ? size : border == GCONV_BORDER_SYMMETRIC ? 2 * size : 2 * size - 2;
  int j = i % period;
  j = j < 0 ? j + period : j;
  return j < size ? j : border == GCONV_BORDER_SYMMETRIC ? 2 * size - 1 - j : period - j;
}

/* Where in its row sample number `sample` is found, which may be outside; or GCONV_OUTSIDE. */
__device__ __forceinline__ int place_of(const gconv_problem &problem, int sample) {
  const int channels = problem.channels;
  const int x = sample >= 0 ? sample / channels : -((channels - 1 - sample) / channels);
  const int at = index_of(problem.border, x, problem.width);
  return at == GCONV_OUTSIDE ? GCONV_OUTSIDE : at * channels + (sample - x * channels);
}

/* Bytes of a staged row for `tiles` tiles side by side: their windows, from a multiple of 16 bytes on. */
__host__ __device__ constexpr int pitch_of(int tiles, int words, int sample_bytes) {
  return ((tiles * TILE - BLOCK + 16 * words) * sample_bytes + 12 + 15) / CHUNK * CHUNK;
}

/* Where the windows of the tile at `tile` begin in a staged row. */
template <class In> __device__ __forceinline__ int lead_of(const banded_arguments &a) {
  return a.left * (int)sizeof(In) & (CHUNK - 1);
}

/* Starts to copy 16 aligned bytes to shared memory. */
__device__ __forceinline__ void copy_chunk(uint8_t *to, const uint8_t *from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
#else
  *(uint4 *)to = *(const uint4 *)from;
#endif
}

/* Ends a group of copies. */
__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until all but the last N groups of this thread's copies are there. */
template <int N> __device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

/* Input rows on their way to shared memory, for a warp or a block: chunks of 16 bytes, copied, but for those that reach
 * beyond the ends of a row, begin .. end - 1, whose samples are loaded from their places. */
struct row_source {
  const uint8_t *in;
  int first;      /* sample of the first chunk */
  int begin, end; /* of the chunks at a border */
  int *places;    /* of their samples in a row, or GCONV_OUTSIDE */
};

/* What THREADS threads, a warp or the block, stage of rows of so many chunks. `places` has room for all their samples; the
 * threads must meet before they stage. */
template <class In, int THREADS>
__device__ __forceinline__ row_source make_source(const banded_arguments &a, const uint8_t *in, int first, int chunks,
                                                  int *places) {
  constexpr int N = CHUNK / sizeof(In);
  row_source s = {in, first, chunks, 0, places};
  for (int chunk = 0; chunk < chunks; chunk++) {
    const int left = first + chunk * N;
    if (left < a.reach && (left < 0 || left + N > a.whole)) {
      s.begin = min(s.begin, chunk);
      s.end = chunk + 1;
    }
  }
  for (int i = threadIdx.x % THREADS; i < (s.end - s.begin) * N; i += THREADS)
    places[i] = place_of(a.common.problem, first + s.begin * N + i);
  return s;
}

/* Stages one sample of up to four rows, `pitch` samples apart: four loads are under way at a time. */
template <class In>
__device__ __forceinline__ void stage_places(const banded_arguments &a, const uint8_t *in, int y, int place, int rows,
                                             In *to, int pitch) {
  const gconv_problem &problem = a.common.problem;
  In samples[4];
  bool outside[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int source = index_of(problem.border, y + i * problem.dilation_y, problem.height);
    outside[i] = source == GCONV_OUTSIDE || place == GCONV_OUTSIDE;
    samples[i] = __ldg((const In *)(in + (outside[i] ? 0 : source) * a.common.in_row) + (outside[i] ? 0 : place));
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (i < rows)
      to[i * pitch] = outside[i] ? (In)problem.border_level : samples[i];
}

/* Stages those chunks of input rows y, y + step .. that are at a border. */
template <class In, int THREADS>
__device__ __forceinline__ void stage_border(const banded_arguments &a, const row_source &s, int y, int rows, int chunks,
                                             uint8_t *to) {
  constexpr int N = CHUNK / sizeof(In);
  for (int i = threadIdx.x % THREADS; i < (s.end - s.begin) * N; i += THREADS)
    for (int row = 0; row < rows; row += 4)
      stage_places(a, s.in, y + row * a.common.problem.dilation_y, s.places[i], min(4, rows - row),
                   (In *)(to + row * chunks * CHUNK) + s.begin * N + i, chunks * N);
}

/* Starts to stage `rows` rows: input rows y, y + step .. */
template <class In, int THREADS>
__device__ __forceinline__ void stage_rows(const banded_arguments &a, const row_source &s, int y, int rows, int chunks,
                                           uint8_t *to) {
  constexpr int N = CHUNK / sizeof(In);
  const gconv_problem &problem = a.common.problem;
  const int thread = threadIdx.x % THREADS;
  for (int i = thread; i < rows * chunks; i += THREADS) {
    const int row = i / chunks, chunk = i - row * chunks, left = s.first + chunk * N;
    if (chunk >= s.begin && chunk < s.end)
      continue;
    const int source = index_of(problem.border, y + row * problem.dilation_y, problem.height);
    if (source == GCONV_OUTSIDE)
      *(uint4 *)(to + i * CHUNK) = a.level;
    else if (left >= 0 && left + N <= a.whole)
      copy_chunk(to + i * CHUNK, s.in + source * a.common.in_row + left * (int)sizeof(In));
  }
  stage_border<In, THREADS>(a, s, y, rows, chunks, to);
}

/* The windows of a tile from a staged row: `from` is the lane's first sample. */
template <int W> __device__ __forceinline__ void load_windows(const uint8_t *from, windows<1, W> &x) {
#pragma unroll
  for (int i = 0; i < 2 * W; i++)
    x.byte[0][i / 2][i % 2] = *(const uint32_t *)(from + HALF * (i % 2) + 16 * (i / 2));
}
template <int W> __device__ __forceinline__ void load_windows(const uint8_t *from, windows<2, W> &x) {
#pragma unroll
  for (int i = 0; i < 2 * W; i++) {
    const uint2 samples = *(const uint2 *)(from + 2 * (HALF * (i % 2) + 16 * (i / 2)));
    x.byte[0][i / 2][i % 2] = __byte_perm(samples.x, samples.y, 0x6420);
    x.byte[1][i / 2][i % 2] = __byte_perm(samples.x, samples.y, 0x7531);
  }
}

/* ---- Results ---- */

/* What a lane has to do with an output row of a warp: four neighbouring samples of it. */
struct outlet {
  const uint8_t *in; /* the plane that kept alpha is read from */
  uint8_t *out;      /* the plane of filter 0 */
  int first, samples;
};

__device__ __forceinline__ outlet make_outlet(const banded_arguments &a, const uint8_t *in, uint8_t *out, int tile) {
  return {in, out, tile + 4 * (int)(threadIdx.x % LANES), a.samples};
}

/* The sum in float32 from those of its orders, low first. SMALL: the two lowest fit an int32 together. */
template <bool SMALL, int N> __device__ __forceinline__ float join(const int (&sums)[N][4], int i) {
  if (SMALL && N == 2)
    return (float)(sums[N - 1][i] * 256 + sums[0][i]);
  float sum = (float)sums[N - 1][i];
#pragma unroll
  for (int n = N - 2; n > (SMALL ? 1 : -1); n--)
    sum = fmaf(sum, 256.0f, (float)sums[n][i]);
  return SMALL && N > 2 ? fmaf(sum, 65536.0f, (float)(sums[N > 2][i] * 256 + sums[0][i])) : sum;
}

/* Lays the sums of a tile out in shared memory, in the order of samples. */
template <bool SMALL, int N> __device__ __forceinline__ void stage_sums(const int (&sums)[N][4], float *stage) {
  const int lane = threadIdx.x % LANES;
  float2 *at = (float2 *)(stage + BLOCK * (lane / 4) + 2 * (lane % 4));
  at[0] = make_float2(join<SMALL>(sums, 0), join<SMALL>(sums, 1));
  at[HALF / 2] = make_float2(join<SMALL>(sums, 2), join<SMALL>(sums, 3));
}

/* Alpha that is kept of sample `sample` of row p, as kept_alpha(). */
template <class In> __device__ float alpha_at(const arguments &a, const uint8_t *plane, int sample, int p) {
  const gconv_problem &problem = a.problem;
  const int y = index_of(problem.border, p - problem.pad_top + problem.anchor_y, problem.height);
  const int x = place_of(problem, sample + (problem.anchor_x - problem.pad_left) * problem.channels);
  float alpha = problem.border_level;
  if (y != GCONV_OUTSIDE && x != GCONV_OUTSIDE)
    alpha = ((const In *)(plane + y * a.in_row))[x];
  return gconv_scale(alpha, problem.epilogue.alpha_scale, problem.epilogue.alpha_scale_low, 0.0f);
}

/* One sample after the other, where neighbours do not lie side by side; but for alpha that is kept. */
template <class Out>
__device__ __forceinline__ void store_apart(const arguments &a, const outlet &to, uint8_t *row, const float (&y)[4]) {
  int q = to.first / a.problem.channels, c = to.first - q * a.problem.channels;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (to.first + i < to.samples && !(a.problem.keep_alpha && c == a.problem.channels - 1))
      gconv_store(y[i], (Out *)(row + q * a.out_pixel + c * a.out_channel));
    c++;
    if (c == a.problem.channels)
      q++, c = 0;
  }
}

/* Stores finished values of row p in the output of filter k, then alpha that is kept, of which stacked responses have one.
 */
template <class In, class Out>
__device__ __forceinline__ void store(const banded_arguments &a, const outlet &to, int k, int p, const float (&y)[4]) {
  uint8_t *row = to.out + k * a.common.out_filter + p * a.common.out_row;
  if (a.dense)
    store_four(y, (Out *)row, to.first, to.samples - to.first);
  else
    store_apart<Out>(a.common, to, row, y);
  const int channels = a.common.problem.channels;
  if (!a.common.problem.keep_alpha || (k > 0 && a.common.problem.epilogue.combine == GCONV_COMBINE_STACK))
    return;
#pragma unroll 1
  for (int sample = to.first; sample < min(to.first + 4, to.samples); sample++)
    if (sample % channels == channels - 1)
      gconv_store(alpha_at<In>(a.common, to.in, sample, p),
                  (Out *)(row + sample / channels * a.common.out_pixel + a.common.out_alpha));
}

/* Four finished bytes from values and the scale and offset that remain, in units of 256 levels: saturation between 0 and 1
 * is a part of the multiply-add. */
__device__ __forceinline__ uint32_t pack_bytes(const float4 &y, float scale, float offset) {
  const float v[4] = {y.x, y.y, y.z, y.w};
  uint32_t bits[4];
#pragma unroll
  for (int i = 0; i < 4; i++) /* as gconv_saturate() */
    bits[i] = __float_as_uint(fmaf(fminf(__saturatef(fmaf(v[i], scale, offset)), 255.0f / 256.0f), 256.0f, 8388608.0f));
  return __byte_perm(__byte_perm(bits[0], bits[1], 0x0040), __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
}

/* Stores those of the four bytes that lie in the row, of which `count` are left. */
__device__ __forceinline__ void store_bytes(uint32_t word, uint8_t *at, int count) {
  if (count >= 4)
    __stcs((uint32_t *)at, word);
  else
    for (int i = 0; i < count; i++)
      at[i] = (uint8_t)(word >> 8 * i);
}

/* Lets the responses of filter k take part in what is combined of all, which until then waits in `values`. True if it is
 * complete, and y is that. */
__device__ __forceinline__ bool combine(const gconv_problem &problem, int k, float (&y)[4], float *values) {
  const gconv_combine how = problem.epilogue.combine;
  const bool last = k == problem.filters - 1;
  float4 value = make_float4(0, 0, 0, 0);
  if (k == 0)
    value = make_float4(gconv_combine_first(how, y[0]), gconv_combine_first(how, y[1]), gconv_combine_first(how, y[2]),
                        gconv_combine_first(how, y[3]));
  else {
    value = *(float4 *)values;
    value = make_float4(gconv_combine_next(how, value.x, y[0]), gconv_combine_next(how, value.y, y[1]),
                        gconv_combine_next(how, value.z, y[2]), gconv_combine_next(how, value.w, y[3]));
  }
  if (!last)
    *(float4 *)values = value;
  y[0] = gconv_combine_last(how, value.x);
  y[1] = gconv_combine_last(how, value.y);
  y[2] = gconv_combine_last(how, value.z);
  y[3] = gconv_combine_last(how, value.w);
  return last;
}

/* From the sums of filter k at row p, this lane's four of them, to what is stored. */
template <class In>
__device__ __forceinline__ void finish(const banded_arguments &a, const outlet &to, int k, int p, const scaling &s,
                                       const float *sums, float *values) {
  const gconv_problem &problem = a.common.problem;
  const float4 sum = *(const float4 *)sums;
  float y[4] = {sum.x * s.multiplier, sum.y * s.multiplier, sum.z * s.multiplier, sum.w * s.multiplier};
  if (s.divisor != 1.0f || s.bias != 0.0f)
#pragma unroll
    for (int i = 0; i < 4; i++)
      y[i] = gconv_response(y[i], s.divisor, s.bias);
  if (a.combined) {
    if (!combine(problem, k, y, values))
      return;
    k = 0;
  }
  if (a.bytes) {
    store_bytes(pack_bytes(make_float4(y[0], y[1], y[2], y[3]), a.scale, a.offset),
                to.out + k * a.common.out_filter + p * a.common.out_row + to.first, to.samples - to.first);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
    y[i] = gconv_finish(y[i], &problem.epilogue);
  if (problem.out_type == GCONV_U8)
    store<In, uint8_t>(a, to, k, p, y);
  else if (problem.out_type == GCONV_U16)
    store<In, uint16_t>(a, to, k, p, y);
  else
    store<In, float>(a, to, k, p, y);
}

/* Floats of a warp's stage of so many rows: sums, then as many combined values, if any. */
__host__ __device__ __forceinline__ int stage_floats(const banded_arguments &a, int rows) {
  return rows * TILE * (a.combined ? 2 : 1);
}

/* The planes that a block reads and writes. */
struct planes {
  const uint8_t *in;
  uint8_t *out;
};

__device__ __forceinline__ planes planes_of(const arguments &a, int z) {
  const int image = z / a.problem.planes, plane = z - image * a.problem.planes;
  return {a.in + image * a.in_image + plane * a.in_plane, a.out + image * a.out_image + plane * a.out_plane};
}

/* ---- Walking down the rows ---- */

/* A small filter and u8: a warp walks down a strip, Y rows a step. The input rows that it sees go round in shared memory, in
 * groups of Y: the NEED of them that a step spans, and AHEAD more that are on their way meanwhile. The bands of a single
 * filter stay in registers; those of MANY come from the L1 cache at each step. */
template <int R, int W, int D, bool MANY> struct walker {
  static constexpr int Y = 4, NEED = 1 + (R + Y - 2) / Y, AHEAD = 2, GROUPS = NEED + AHEAD;
  static constexpr int PITCH = pitch_of(1, W, 1), CHUNKS = PITCH / CHUNK;
  static constexpr int RING = GROUPS * Y * PITCH, PLACES = PITCH * (int)sizeof(int);
  static constexpr int SLOTS = (Y * CHUNKS - 1) / LANES + 1; /* chunks of a group that a lane copies */

  const banded_arguments &a;
  row_source source;
  uint8_t *ring;
  float *stage;
  int top; /* input row of the first group */
  int groups, lead;

  static __host__ __device__ int shared_bytes(const banded_arguments &a) {
    return RING + PLACES + (int)sizeof(float) * stage_floats(a, Y);
  }

  /* Where a lane's chunks of a group are, from the first input row of the group on; those that it does not copy are -1. */
  __device__ __forceinline__ void find_chunks(int64_t (&from)[SLOTS]) const {
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
      const int own = i * LANES + threadIdx.x % LANES, row = own / CHUNKS, chunk = own % CHUNKS;
      const int left = source.first + chunk * CHUNK;
      const bool copied =
          own < Y * CHUNKS && left >= 0 && left + CHUNK <= a.whole && (chunk < source.begin || chunk >= source.end);
      from[i] = copied ? row * (a.common.problem.dilation_y * a.common.in_row) + left : -1;
    }
  }

  __device__ __forceinline__ void fetch(int group, int slot, const int64_t (&from)[SLOTS]) const {
    const gconv_problem &problem = a.common.problem;
    const int y = top + group * Y * problem.dilation_y;
    uint8_t *to = ring + slot * Y * PITCH;
    if (group < groups && y >= 0 && y + (Y - 1) * problem.dilation_y < problem.height) {
      const uint8_t *row = source.in + y * a.common.in_row;
#pragma unroll
      for (int i = 0; i < SLOTS; i++)
        if (from[i] >= 0)
          copy_chunk(to + (i * LANES + threadIdx.x % LANES) * CHUNK, row + from[i]);
      if (source.begin < source.end)
        stage_border<uint8_t, LANES>(a, source, y, Y, CHUNKS, to);
    } else if (group < groups) {
      stage_rows<uint8_t, LANES>(a, source, y, Y, CHUNKS, to);
    }
    commit_copies();
  }

  static __device__ __forceinline__ void load_bands(const uint32_t *from, uint32_t (&bands)[R][D][W]) {
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
      for (int d = 0; d < D; d++)
#pragma unroll
        for (int w = 0; w < W; w++)
          bands[r][d][w] = __ldg(from + ((r * D + d) * W + w) * LANES);
  }

  /* The sums of a filter at Y rows, to the stage. */
  __device__ __forceinline__ void convolve(const uint32_t (&bands)[R][D][W], int slot) const {
    const int lane = threadIdx.x % LANES;
    const uint8_t *own = ring + lead + BLOCK * (lane / 4) + 4 * (lane % 4), *group[NEED];
#pragma unroll
    for (int n = 0; n < NEED; n++)
      group[n] = own + (slot + n < GROUPS ? slot + n : slot + n - GROUPS) * (Y * PITCH);
    int sums[Y][D][4] = {};
#pragma unroll
    for (int m = 0; m < R + Y - 1; m++) {
      windows<1, W> x;
      load_windows(group[m / Y] + m % Y * PITCH, x);
#pragma unroll
      for (int j = 0; j < Y; j++)
        if (m - j >= 0 && m - j < R)
          lay<1, W, D>(x, bands[m - j >= 0 && m - j < R ? m - j : 0], sums[j]);
    }
    __syncwarp(); /* the stage was read */
#pragma unroll
    for (int j = 0; j < Y; j++)
      stage_sums<true>(sums[j], stage + j * TILE);
    __syncwarp();
  }

  /* Output rows p, p + step .., `rows` of them. */
  __device__ __forceinline__ void walk(const outlet &to, int p, int rows) const {
    const int own = 4 * (threadIdx.x % LANES), step = a.common.problem.dilation_y;
    const uint32_t *from = a.bands + threadIdx.x % LANES;
    uint32_t bands[R][D][W];
    scaling s = a.scalings[0];
    int64_t chunks[SLOTS];
    find_chunks(chunks);
    if (!MANY)
      load_bands(from, bands);
#pragma unroll 1
    for (int g = 0; g < NEED - 1 + AHEAD; g++)
      fetch(g, g, chunks);
    int slot = 0; /* of the first group that the step spans */
    /* One filter and bytes, the common case, takes a short way. */
    const bool simple = !MANY && a.bytes && s.divisor == 1.0f && s.bias == 0.0f && !a.combined;
    const int64_t pitch = step * a.common.out_row;
    uint8_t *at = to.out + p * a.common.out_row + to.first;
#pragma unroll 1
    for (int i = 0; i < rows; i += Y, p += Y * step, at += Y * pitch) {
      fetch(i / Y + GROUPS - 1, slot == 0 ? GROUPS - 1 : slot - 1, chunks);
      wait_for_copies<AHEAD>();
      __syncwarp();
#pragma unroll 1
      for (int k = 0; k < (MANY ? a.common.problem.filters : 1); k++) {
        if (MANY) {
          load_bands(from + (int64_t)k * (R * D * W * LANES), bands);
          s = a.scalings[k];
        }
        convolve(bands, slot);
        if (simple) {
#pragma unroll
          for (int j = 0; j < Y; j++)
            if (j < rows - i)
              store_bytes(pack_bytes(*(const float4 *)(stage + j * TILE + own), s.multiplier * a.scale, a.offset),
                          at + j * pitch, to.samples - to.first);
          continue;
        }
#pragma unroll 1
        for (int j = 0; j < min(Y, rows - i); j++)
          finish<uint8_t>(a, to, k, p + j * step, s, stage + j * TILE + own, stage + (Y + j) * TILE + own);
      }
      slot = slot + 1 < GROUPS ? slot + 1 : 0;
    }
  }
};

/* Block: warps side by side, then one above the other. Grid: x over tiles; y over strips of all phases of the dilation; z
 * over planes of all images. */
template <int R, int W, int D, bool MANY>
__global__ void __launch_bounds__(WARPS *LANES) walk_down(const __grid_constant__ banded_arguments a) {
  extern __shared__ __align__(16) uint8_t memory[];
  using small = walker<R, W, D, MANY>;
  const gconv_problem &problem = a.common.problem;
  const int warp = threadIdx.x / LANES, tile = (blockIdx.x * a.across + warp % a.across) * TILE;
  const int strip = blockIdx.y * (WARPS / a.across) + warp / a.across, phase = strip / a.strips;
  const int top = phase + (strip - phase * a.strips) * a.strip * problem.dilation_y;
  if (tile >= a.samples || phase >= problem.dilation_y || top >= problem.out_height)
    return;
  const int rows = min(a.strip, (problem.out_height - 1 - top) / problem.dilation_y + 1);
  const planes at = planes_of(a.common, blockIdx.z);
  uint8_t *own = memory + warp * small::shared_bytes(a);
  const int lead = lead_of<uint8_t>(a);
  const row_source source =
      make_source<uint8_t, LANES>(a, at.in, tile + a.left - lead, small::CHUNKS, (int *)(own + small::RING));
  __syncwarp();
  const small walker = {a,
                        source,
                        own,
                        (float *)(own + small::RING + small::PLACES),
                        top - problem.pad_top,
                        (rows + R + small::Y - 2) / small::Y,
                        lead};
  walker.walk(make_outlet(a, at.in, at.out, tile), top, rows);
}

/* ---- Any filter: input staged in shared memory ---- */

/* A block of four warps, one above the other, each of which makes X tiles side by side and Y rows. It stages the input that
 * they see; then, for every 32 samples of the windows, walks down the rows of input. In each row it meets Y rows of the
 * filter, of which only one is new: their bands go round in registers. */
template <class In, int D> struct stager {
  static constexpr int P = sizeof(In), N = D + P - 1, X = P == 1 ? 2 : 1, Y = 4;

  /* Rows that are staged for a filter of so many, of which the last few may be read, but are not used. */
  static __host__ __device__ int staged_rows(int rows) {
    return (WARPS - 1) * Y + (rows + 2 * Y - 2) / Y * Y;
  }

  /* Bytes of the places of samples. */
  static __host__ __device__ int place_bytes(int words) {
    return pitch_of(X, words, P) / P * (int)sizeof(int);
  }

  static __device__ __forceinline__ void stage_input(const banded_arguments &a, const uint8_t *in, int tile, int y,
                                                     uint8_t *to) {
    const int chunks = pitch_of(X, a.words, P) / CHUNK;
    int *places = (int *)(to + staged_rows(a.rows) * chunks * CHUNK);
    const row_source source = make_source<In, WARPS * LANES>(a, in, tile + a.left - lead_of<In>(a) / P, chunks, places);
    __syncthreads();
    stage_rows<In, WARPS * LANES>(a, source, y, staged_rows(a.rows), chunks, to);
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
  }

  static __device__ __forceinline__ void load_band(const uint32_t *from, uint32_t (&band)[D][2]) {
#pragma unroll
    for (int d = 0; d < D; d++) {
      const uint2 words = __ldg((const uint2 *)from + d * LANES);
      band[d][0] = words.x;
      band[d][1] = words.y;
    }
  }

  /* Y rows of the input, `input` the first of them, which meet rows m .. of the filter and, in `ring`, those before. Unless
   * it is INNER, there may be none of these. */
  template <bool INNER>
  static __device__ __forceinline__ void add_rows(const uint32_t *bands, const uint8_t *input, int pitch, int m, int rows,
                                                  uint32_t (&ring)[Y][D][2], int (&sums)[X][Y][N][4]) {
#pragma unroll
    for (int u = 0; u < Y; u++) {
      windows<P, 2> x[X];
      if (INNER || m + u < rows)
        load_band(bands + u * (D * 2 * LANES), ring[u]);
#pragma unroll
      for (int i = 0; i < X; i++)
        load_windows(input + u * pitch + i * TILE * P, x[i]);
#pragma unroll
      for (int j = 0; j < Y; j++)
        if (INNER || (m + u >= j && m + u - j < rows))
#pragma unroll
          for (int i = 0; i < X; i++)
            lay<P, 2, D>(x[i], ring[(u - j + Y) % Y], sums[i][j]);
    }
  }

  /* The sums of a filter over 32 samples of the windows. */
  static __device__ __forceinline__ void add(const uint32_t *bands, const uint8_t *input, int pitch, int rows,
                                             int (&sums)[X][Y][N][4]) {
    uint32_t ring[Y][D][2];
#pragma unroll 1
    for (int m = 0; m < rows + Y - 1; m += Y, bands += Y * (D * 2 * LANES), input += Y * pitch)
      if (m > 0 && m + Y <= rows)
        add_rows<true>(bands, input, pitch, m, rows, ring, sums);
      else
        add_rows<false>(bands, input, pitch, m, rows, ring, sums);
  }

  /* Filter k at rows p, p + step .. */
  static __device__ __forceinline__ void make_rows(const banded_arguments &a, const outlet &to, const uint8_t *input,
                                                   float *stage, int k, int p) {
    const int own = 4 * (threadIdx.x % LANES), step = a.common.problem.dilation_y;
    const uint32_t *bands = a.bands + (int64_t)k * a.rows * D * a.words * LANES + 2 * (threadIdx.x % LANES);
    const scaling s = a.scalings[k];
    int sums[X][Y][N][4] = {};
#pragma unroll 1
    for (int w = 0; w < a.words; w += 2)
      add(bands + w * (a.rows * D * LANES), input + 16 * w * P, pitch_of(X, a.words, P), a.rows, sums);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < X * Y; i++)
      stage_sums<false>(sums[i / Y][i % Y], stage + i * TILE);
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < X * Y; i++) {
      outlet tile = to;
      tile.first += i / Y * TILE;
      if (p + i % Y * step < a.common.problem.out_height)
        finish<In>(a, tile, k, p + i % Y * step, s, stage + i * TILE + own, stage + (X * Y + i) * TILE + own);
    }
  }
};

/* Grid: x over X tiles of a row; y over 16 rows of all phases of the dilation; z over planes of all images. */
template <class In, int D>
__global__ void __launch_bounds__(WARPS *LANES) staged(const __grid_constant__ banded_arguments a) {
  using large = stager<In, D>;
  extern __shared__ __align__(16) uint8_t memory[];
  const gconv_problem &problem = a.common.problem;
  const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, tile = blockIdx.x * (large::X * TILE);
  const int phase = blockIdx.y / a.strips, step = problem.dilation_y;
  const int top = phase + (blockIdx.y - phase * a.strips) * (WARPS * large::Y) * step;
  const planes at = planes_of(a.common, blockIdx.z);
  float *stage = (float *)memory + warp * stage_floats(a, large::X * large::Y);
  uint8_t *input = memory + sizeof(float) * WARPS * stage_floats(a, large::X * large::Y);
  large::stage_input(a, at.in, tile, top - problem.pad_top, input);
  const int pitch = pitch_of(large::X, a.words, large::P);
  const uint8_t *own = input + warp * large::Y * pitch + lead_of<In>(a) + (BLOCK * (lane / 4) + 4 * (lane % 4)) * large::P;
  const outlet to = make_outlet(a, at.in, at.out, tile);
#pragma unroll 1
  for (int k = 0; k < problem.filters; k++)
    large::make_rows(a, to, own, stage, k, top + warp * large::Y * step);
}

/* ---- Bands, made on the host ---- */

/* How the filters of a problem become bands. */
struct shape {
  bool walks;    /* which kernel takes them */
  int32_t words; /* W: the window in units of 16 samples; even if staged */
  int32_t rows;  /* of bands: R and some of zeros */
  int32_t left;  /* as in banded_arguments */
  int32_t shift; /* the sample of the window that the first tap meets for output 0 */
};

/* What stands before the scalings and bands of all filters, which it fills up to 64 bytes. */
struct header {
  int32_t digits;
};
enum { HEADER_FLOATS = 16, MOST_WALKED_ROWS = 9, MOST_WALKED_WORDS = 2, MOST_WORDS = 1024 };

} // namespace

static shape shape_of(const gconv_problem *problem) {
  shape s;
  s.shift = (int32_t)(-(int64_t)problem->pad_left * problem->channels & 3);
  s.left = -problem->pad_left * problem->channels - s.shift;
  int64_t window = s.shift + BLOCK + (int64_t)(problem->columns - 1) * problem->channels * problem->dilation_x;
  s.words = (int32_t)(window <= 16 * MOST_WORDS ? (window - 1) / 16 + 1 : MOST_WORDS + 1);
  s.walks = problem->in_type == GCONV_U8 && problem->rows <= MOST_WALKED_ROWS && s.words <= MOST_WALKED_WORDS;
  if (s.walks) {
    s.rows = problem->rows <= 3 ? 3 : problem->rows + 1 - problem->rows % 2;
  } else {
    s.rows = problem->rows;
    s.words += s.words % 2;
  }
  return s;
}

/* Floats before the bands: header and scalings, rounded up. */
static size_t front_floats(const gconv_problem *problem) {
  return HEADER_FLOATS + ((size_t)problem->filters * (sizeof(scaling) / sizeof(float)) + 15) / 16 * 16;
}

static size_t prepared_floats(const gconv_problem *problem) {
  shape s = shape_of(problem);
  return front_floats(problem) + (size_t)problem->filters * s.rows * MOST_DIGITS * s.words * LANES;
}

/* The largest integers of one and of three digits that the negatives have as well: 127 * (1 + 256 + 65536). */
enum { LARGEST_SHORT = 127, LARGEST_LONG = 127 * 65793 };

static double largest_tap(const gconv_problem *problem, const float *taps) {
  double largest = 0;
  for (int64_t i = 0; i < (int64_t)problem->rows * problem->columns; i++)
    largest = fmax(largest, fabs((double)taps[i]));
  return largest;
}

/* Whether every tap is an integer times the quantum, but for a rounding of its own and one of the quantum. */
static bool is_multiple(const gconv_problem *problem, const float *taps, double quantum) {
  for (int64_t i = 0; i < (int64_t)problem->rows * problem->columns; i++) {
    double tap = (double)taps[i], error = tap - rint(tap / quantum) * quantum;
    if (fabs(error) > fabs(tap) * 0x1p-23)
      return false;
  }
  return true;
}

/* The number of digits that a filter needs, 1 or 3, and the quantum. */
struct grid_of_taps {
  int32_t digits;
  double quantum;
};

static grid_of_taps find_grid(const gconv_problem *problem, const float *taps) {
  double largest = largest_tap(problem, taps);
  if (largest == 0)
    return {1, 1};
  for (int32_t multiple = 1; multiple <= LARGEST_SHORT; multiple++)
    if (is_multiple(problem, taps, largest / multiple))
      return {1, largest / multiple};
  return {3, largest / LARGEST_LONG};
}

/* Digit number `digit` of an integer, -128 .. 127. */
static int8_t digit_of(int32_t integer, int32_t digit) {
  for (; digit > 0; digit--)
    integer = (integer - (int8_t)(integer & 255)) / 256;
  return (int8_t)(integer & 255);
}

/* Where the word w of a lane stands in the bands of a filter: walking, [row][digit][word][lane]; staged, [word /
 * 2][row][digit] [lane][word % 2]. */
static int64_t word_at(const shape *s, int64_t digits, int64_t row, int64_t digit, int64_t word, int64_t lane) {
  if (s->walks)
    return ((row * digits + digit) * s->words + word) * LANES + lane;
  return (((word / 2 * s->rows + row) * digits + digit) * LANES + lane) * 2 + word % 2;
}

/* The bands of one filter. Column g begins with the first tap in row shift + g; lane 4 g + t has rows 16 w + 4 t .. + 3 of
 * column g as bytes of word w. */
static void write_bands(const gconv_problem *problem, const shape *s, const float *taps, double quantum, int32_t digits,
                        uint32_t *bands) {
  int64_t step = (int64_t)problem->channels * problem->dilation_x;
  for (int32_t i = 0; i < problem->rows * problem->columns; i++) {
    int32_t r = i / problem->columns, integer = (int32_t)rint((double)taps[i] / quantum);
    for (int32_t d = 0; d < digits; d++)
      for (int32_t g = 0; g < BLOCK; g++) {
        int64_t row = s->shift + g + i % problem->columns * step;
        uint32_t byte = (uint8_t)digit_of(integer, d);
        bands[word_at(s, digits, r, d, row / 16, 4 * g + row % 16 / 4)] |= byte << 8 * (row % 4);
      }
  }
}

/* The scaling of a filter, its divisor folded in where that rounds nothing. */
static scaling make_scaling(double quantum, float divisor, float bias) {
  int exponent;
  bool power = fabsf(frexpf(divisor, &exponent)) == 0.5f;
  scaling s = {(float)(power ? quantum / (double)divisor : quantum), power ? 1.0f : divisor, bias};
  return s;
}

static gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  shape s = shape_of(problem);
  int64_t plane = (int64_t)problem->rows * problem->columns;
  header *head = (header *)prepared;
  scaling *scalings = (scaling *)(prepared + HEADER_FLOATS);
  uint32_t *bands = (uint32_t *)(prepared + front_floats(problem));
  for (size_t i = 0; i < prepared_floats(problem); i++)
    ((uint32_t *)prepared)[i] = 0;
  head->digits = 1;
  for (int32_t k = 0; k < problem->filters; k++) {
    grid_of_taps grid = find_grid(problem, taps + k * plane);
    head->digits = grid.digits > head->digits ? grid.digits : head->digits;
  }
  for (int32_t k = 0; k < problem->filters; k++) {
    double quantum = find_grid(problem, taps + k * plane).quantum;
    scalings[k] = make_scaling(quantum, gconv_divisors(problem, taps)[k], gconv_biases(problem, taps)[k]);
    write_bands(problem, &s, taps + k * plane, quantum, head->digits,
                bands + (int64_t)k * s.rows * head->digits * s.words * LANES);
  }
  return GCONV_OK;
}

/* ---- Launching ---- */

static bool is_dense(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  int64_t size = problem->out_type == GCONV_U8 ? 1 : problem->out_type == GCONV_U16 ? 2 : 4;
  return execution->out_pixel == problem->channels * size && (problem->channels == 1 || execution->out_channel == size) &&
         (!problem->keep_alpha || execution->out_alpha == (problem->channels - 1) * size);
}

static banded_arguments make_arguments(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  const float *prepared = gconv_prepared(problem, execution->weights);
  shape s = shape_of(problem);
  bool aligned = ((uintptr_t)execution->in | execution->in_row | execution->in_plane | execution->in_image) % CHUNK == 0;
  banded_arguments a = {};
  a.common = common_arguments(execution);
  a.scalings = (const scaling *)(prepared + HEADER_FLOATS);
  a.bands = (const uint32_t *)(prepared + front_floats(problem));
  a.samples = problem->out_width * problem->channels;
  a.left = s.left;
  a.rows = s.rows;
  a.words = s.words;
  a.whole = aligned ? problem->width * problem->channels : 0;
  a.reach =
      (int32_t)(a.left + s.shift + a.samples + (int64_t)(problem->columns - 1) * problem->channels * problem->dilation_x);
  a.combined = gconv_is_combined(problem);
  a.dense = is_dense(execution);
  a.bytes = a.dense && problem->out_type == GCONV_U8 && !problem->keep_alpha && epilogue->scale_low == 0 &&
            !epilogue->absolute && !epilogue->center;
  a.scale = epilogue->scale / 256;
  a.offset = epilogue->offset / 256;
  uint32_t level = (uint32_t)problem->border_level * (problem->in_type == GCONV_U8 ? 0x01010101u : 0x00010001u);
  a.level = {level, level, level, level};
  return a;
}

/* Rows of a strip, so that the strips fill the device a whole number of times, and few rows are loaded twice. `across` warps
 * stand side by side, `at_once` run at a time; a strip of n rows takes the time of n + R + 2. */
enum { LEAST_FILLINGS = 3 }; /* warps at the ends of rows take longer */

static int32_t strip_rows(int64_t height, int64_t overlap, int64_t across, int64_t at_once) {
  int64_t best = height, best_cost = INT64_MAX;
  for (int64_t fillings = LEAST_FILLINGS; fillings <= 16; fillings++) {
    int64_t strips = fillings * at_once / across;
    strips = strips < 1 ? 1 : strips > height ? height : strips;
    int64_t rows = (height - 1) / strips + 1, needed = (((height - 1) / rows + 1) * across - 1) / at_once + 1;
    int64_t cost = (rows + overlap + 2) * needed;
    if (cost < best_cost) {
      best_cost = cost;
      best = rows;
    }
  }
  return (int32_t)best;
}

template <int R, int W, int D, bool MANY> static void launch_walk(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  banded_arguments a = make_arguments(execution);
  const size_t bytes = WARPS * (size_t)walker<R, W, D, MANY>::shared_bytes(a);
  int64_t tiles = (a.samples - 1) / TILE + 1, planes = (int64_t)problem->images * problem->planes;
  a.across = tiles > 2 ? 4 : (int32_t)tiles;
  int device = 0, multiprocessors = 1, blocks = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, walk_down<R, W, D, MANY>, WARPS * LANES, bytes);
  int64_t height = (problem->out_height - 1) / problem->dilation_y + 1; /* of a phase */
  int64_t across = (tiles - 1) / a.across + 1, down = WARPS / a.across;
  a.strip = strip_rows(height, problem->rows - 1, across * planes * problem->dilation_y,
                       (int64_t)multiprocessors * (blocks < 1 ? 1 : blocks) * down);
  a.strips = (int32_t)((height - 1) / a.strip + 1);
  dim3 grid((unsigned)across, (unsigned)(((int64_t)a.strips * problem->dilation_y - 1) / down + 1), (unsigned)planes);
  walk_down<R, W, D, MANY><<<grid, WARPS * LANES, bytes, (cudaStream_t)execution->stream>>>(a);
}

/* Bytes of shared memory that the staging kernel takes. */
template <class In> static int64_t staged_bytes(const gconv_problem *problem) {
  using large = stager<In, 1>;
  shape s = shape_of(problem);
  int64_t stage = (int64_t)sizeof(float) * WARPS * large::X * large::Y * TILE * (gconv_is_combined(problem) ? 2 : 1);
  return stage + (int64_t)large::staged_rows(s.rows) * pitch_of(large::X, s.words, large::P) + large::place_bytes(s.words);
}

template <class In, int D> static void launch_staged(const gconv_execution *execution) {
  using large = stager<In, D>;
  const gconv_problem *problem = execution->problem;
  banded_arguments a = make_arguments(execution);
  const size_t bytes = (size_t)staged_bytes<In>(problem);
  int32_t height = (problem->out_height - 1) / problem->dilation_y + 1; /* of a phase */
  a.strips = (height - 1) / (WARPS * large::Y) + 1;
  dim3 grid((a.samples - 1) / (large::X * TILE) + 1, (unsigned)(a.strips * problem->dilation_y),
            (unsigned)(problem->images * problem->planes));
  cudaFuncSetAttribute(staged<In, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  staged<In, D><<<grid, WARPS * LANES, bytes, (cudaStream_t)execution->stream>>>(a);
}

/* ---- The descriptor ---- */

/* What one block may have on every device. */
static const int64_t MOST_SHARED_BYTES = 64 << 10;

static const char *supports(const gconv_problem *problem) {
  if (problem->in_type == GCONV_F32)
    return "float32 samples: the tensor cores take bytes";
  if (problem->stride_y != 1 || problem->stride_x != 1)
    return "strides: it makes eight neighbours at a time";
  float level = problem->border_level, white = gconv_white(problem->in_type);
  if (!(level >= 0 && level <= white && level == rintf(level)))
    return "a constant border between the levels of the input, or beyond";
  const int64_t most = 1 << 29, taps = (int64_t)problem->rows * problem->columns;
  if (problem->height > most || (int64_t)problem->width * problem->channels > most || problem->out_height > 65535 * 16 ||
      (int64_t)problem->out_width * problem->channels > most || (int64_t)problem->pad_left * problem->channels > most)
    return "rows of more than 2^29 samples, or more than 1048560 rows";
  if (problem->dilation_y > problem->height || problem->out_height / 16 + (int64_t)problem->dilation_y > 65535 ||
      (int64_t)problem->images * problem->planes > 65535)
    return "more than 65535 planes, or a dilation that is too large for the height";
  shape s = shape_of(problem);
  if (s.words > MOST_WORDS || taps > 16384)
    return "filters of more than 16384 taps, or that span more than 16376 samples";
  if (!s.walks &&
      (problem->in_type == GCONV_U8 ? staged_bytes<uint8_t>(problem) : staged_bytes<uint16_t>(problem)) > MOST_SHARED_BYTES)
    return "filters so large that their tile would exceed 64 KiB of shared memory";
  return NULL;
}

typedef void launcher(const gconv_execution *);

/* The instances of the walking kernel: by words, rows (3, 5, 7, 9) and digits (1 or 3). Several filters have others. */
template <int R, int W, int D> static void launch_filters(const gconv_execution *execution) {
  if (execution->problem->filters > 1)
    launch_walk<R, W, D, true>(execution);
  else
    launch_walk<R, W, D, false>(execution);
}
#define ROWS(W)                                                                                                             \
  {                                                                                                                         \
    {launch_filters<3, W, 1>, launch_filters<3, W, 3>}, {launch_filters<5, W, 1>, launch_filters<5, W, 3>},                 \
        {launch_filters<7, W, 1>, launch_filters<7, W, 3>}, {launch_filters<9, W, 1>, launch_filters<9, W, 3>},             \
  }
static launcher *const walking[MOST_WALKED_WORDS][4][2] = {ROWS(1), ROWS(2)};
static launcher *const staging[2][2] = {{launch_staged<uint8_t, 1>, launch_staged<uint8_t, 3>},
                                        {launch_staged<uint16_t, 1>, launch_staged<uint16_t, 3>}};

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const header *head = (const header *)gconv_prepared(problem, execution->host_weights);
  shape s = shape_of(problem);
  if (s.walks)
    walking[s.words - 1][(s.rows - 3) / 2][head->digits > 1](execution);
  else
    staging[problem->in_type][head->digits > 1](execution);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

/* Cycles that a quarter of a multiprocessor takes for a tile: those of the products, 4 with a window of 16 bytes and 6 with
 * one of 32, and what else there is to do meanwhile, as measured on an H200. Three digits, as it is not known whether one
 * does. */
static double tile_cycles(const gconv_problem *problem) {
  shape s = shape_of(problem);
  double bytes = problem->in_type == GCONV_U16 ? 2 : 1;
  double products = (s.words / 2 * 6 + s.words % 2 * 4) * 3.0 * s.rows * bytes;
  return s.walks ? 190 + 1.45 * products : 450 * bytes + 1.47 * products;
}

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  double planes = (double)problem->images * problem->planes, channels = problem->channels, filters = problem->filters;
  double tiles = ceil(problem->out_width * channels / TILE) * problem->out_height * planes * filters;
  double in = planes * channels * problem->height * problem->width * (problem->in_type == GCONV_U8 ? 1 : 2);
  double size = problem->out_type == GCONV_U8 ? 1 : problem->out_type == GCONV_U16 ? 2 : 4;
  double out = planes * channels * problem->out_height * problem->out_width * size;
  double cycles_per_ms = machine->fma_per_ms / 128 * 4; /* of all quarters */
  double copied = (in + out * (gconv_is_combined(problem) ? 1 : filters)) / machine->bytes_per_ms;
  return machine->launch_ms + 0.006 + fmax(tiles * tile_cycles(problem) / cycles_per_ms, copied);
}

/* A tap of three digits is off by half a quantum, 1.004 * 2^-24 of the largest tap, hence of sum |tap|; one of one digit by
 * two roundings of its own. Sums of digits are exact; 16 is more than the roundings of at most four conversions, each of a
 * sum that is at most twice sum |tap| * max |x|, as many multiply-adds, the quantum and the product with it. */
static double error_bound(const gconv_problem *problem) {
  return (1.01 * problem->rows * problem->columns + 16) * 0x1p-24;
}

/* Members in the order of the structure: C++17 has no names here. */
extern "C" const gconv_algorithm gconv_algorithm_cuda_toeplitz = {
    {"toeplitz", "cuda", "rows of the filter as banded matrices, on the tensor cores; for u8 and u16", false},
    NULL, /* available */
    supports,
    NULL, /* workspace_bytes */
    execute,
    cost,
    error_bound,
    prepared_floats,
    prepare,
    NULL, /* row_step */
    NULL, /* acquire */
    NULL, /* dismiss */
    0,    /* start_ms */
    NULL, /* started */
};
