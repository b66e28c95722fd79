/* SPDX-License-Identifier: MIT */
/*
 * The gradient of a convolution's weights by tensor cores: the product of two matrices,
 *
 *     sum over images n and places p, q of  dz[n][k][p][q]  *  x[n][c][under tap r, s of p, q],
 *
 * with a row for each filter k and a column for each tap (c, r, s). gradient.cu does the same exactly.
 *
 * A number is the sum of two of tensor cores' (tf32, which have 11 bits): its first bits, and the rest. A product has three
 * of theirs, that of the rests being left out: the accuracy is that of float32. With tf32 as the mode of arithmetic, there
 * is one product, of rounded numbers. As an instruction cuts off what is below the last bit of a sum, instructions only sum
 * sixteen places, and these sums are added as floats, which are rounded.
 *
 *     an instruction: 16 columns x 8 filters x 8 places         a warp: GROUPS groups of 16 pieces, 8 FILTERS filters
 *         thread 4 g + t has columns g and g + 8, filter g,     a piece: TAPS neighbouring taps of a filter's row
 *         number t of two quads, which are four places          a block: up to 8 warps, in three directions: some
 *         in a row                                              pieces, some filters, and some of the places
 *
 * The columns of an instruction are a tap of sixteen channels, or of neighbouring rows, too, where there are fewer. Tables
 * in shared memory say where quads and pieces are. Blocks share the images and rows among them. What they find are leaves,
 * in the order of warps and registers, as stores are fast then; a second kernel sums them, and puts the sums where they
 * belong.
 */
#include "gradient_tensor_cut.cuh"
#include "layers.h"

#include <stdlib.h>

namespace {

/* A chunk of all images, and the way to the next one. */
struct position {
  int32_t image, p0, q0;
};
DEVICE position position_of(const gradient_arguments &a, int64_t number) {
  const int32_t image = (int32_t)(number / a.chunks);
  const chunk of = chunk_of(a, (int32_t)(number - (int64_t)image * a.chunks), 0, a.p.out_height);
  return {image, of.p0, of.q0};
}
DEVICE void advance(const gradient_arguments &a, position &at) {
  at.q0 += a.columns;
  if (at.q0 >= a.p.out_width) {
    at.q0 = 0;
    at.p0 += a.rows;
  }
  if (at.p0 >= a.p.out_height) {
    at.p0 = 0;
    at.image++;
  }
}
DEVICE chunk chunk_at(const gradient_arguments &a, position at) {
  return {at.p0, min(a.rows, a.p.out_height - at.p0), at.q0, min(a.columns, a.p.out_width - at.q0)};
}

/* Where a quad is, from the first place on: bytes of gradients, and of samples. */
struct quad {
  int32_t dz, x;
};

DEVICE const float *behind(const float *p, int32_t bytes) {
  return (const float *)((const char *)p + bytes);
}

/* What a warp has. */
template <int FILTERS, int TAPS, int GROUPS> struct warp_sums {
  float of[GROUPS * TAPS][FILTERS][4];
  int32_t offsets[GROUPS][2]; /* of the thread's pieces */
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

/* sums += a * b */
DEVICE void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint2 b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

/* The first bits of a number, and the rest; or, without SPLIT, the number rounded. An instruction ignores the bits that a
 * tf32 number does not have. */
template <bool SPLIT> DEVICE void part(float number, uint32_t &first, uint32_t &rest) {
  if (SPLIT) {
    first = __float_as_uint(number) & 0xffffe000;
    rest = __float_as_uint(number - __uint_as_float(first));
  } else {
    first = __float_as_uint(number) + 0x1000;
    rest = 0;
  }
}

/* Adds the places of four quads. dz: the thread's number of the gradients of its first filter, `apart` bytes before those
 * of the eighth next filter; x: that of the samples. */
template <int FILTERS, int TAPS, int GROUPS, bool SPLIT>
DEVICE void add_places(const float *dz, int32_t apart, const float *x, const quad (&quads)[QUADS],
                       warp_sums<FILTERS, TAPS, GROUPS> &sums) {
  uint32_t dz_first[FILTERS][QUADS], dz_rest[FILTERS][QUADS];
  UNROLLED_FOR (int k = 0; k < FILTERS; k++)
    UNROLLED_FOR (int j = 0; j < QUADS; j++)
      part<SPLIT>(*behind(dz, k * apart + quads[j].dz), dz_first[k][j], dz_rest[k][j]);

  UNROLLED_FOR (int i = 0; i < GROUPS * TAPS; i++) {
    float added[FILTERS][4] = {};
    UNROLLED_FOR (int pair = 0; pair < QUADS; pair += 2) {
      uint32_t first[4], rest[4];
      UNROLLED_FOR (int j = 0; j < 4; j++) /* columns g and g + 8 of one quad, and of the other */
        part<SPLIT>(behind(x, quads[pair + j / 2].x + sums.offsets[i / TAPS][j % 2])[i % TAPS], first[j], rest[j]);
      UNROLLED_FOR (int k = 0; k < FILTERS && SPLIT; k++)
        multiply_add(added[k], rest, make_uint2(dz_first[k][pair], dz_first[k][pair + 1]));
      UNROLLED_FOR (int k = 0; k < FILTERS && SPLIT; k++)
        multiply_add(added[k], first, make_uint2(dz_rest[k][pair], dz_rest[k][pair + 1]));
      UNROLLED_FOR (int k = 0; k < FILTERS; k++)
        multiply_add(added[k], first, make_uint2(dz_first[k][pair], dz_first[k][pair + 1]));
    }
    UNROLLED_FOR (int k = 0; k < FILTERS; k++)
      UNROLLED_FOR (int j = 0; j < 4; j++)
        sums.of[i][k][j] += added[k][j];
  }
}

#endif

/* What a thread knows of itself. */
struct thread_place {
  int32_t tile, block, group; /* of its block */
  int32_t n, m, k, lane;      /* of its warp, in the three directions */
  int32_t piece, filter;      /* the first ones of the warp, of the block's */
  int32_t first, filters;     /* filter of the block, of all, and how many there are */
};
template <int FILTERS, int GROUPS> DEVICE thread_place place_of_thread(const gradient_arguments &a) {
  thread_place at;
  const int32_t warp = (int32_t)threadIdx.x / 32, row = warp / a.warps_n, block = (int32_t)blockIdx.x / a.tiles;
  at.tile = (int32_t)blockIdx.x - block * a.tiles;
  at.group = block / a.blocks;
  at.block = block - at.group * a.blocks;
  at.n = warp - row * a.warps_n;
  at.k = row / a.warps_m;
  at.m = row - at.k * a.warps_m;
  at.lane = (int32_t)threadIdx.x % 32;
  at.piece = at.n * GROUPS * LANES;
  at.filter = 8 * FILTERS * at.m;
  const int32_t of_group = a.p.filters / a.p.groups, of_block = 1 << a.filters_log2;
  at.first = at.group * of_group + at.block * of_block;
  at.filters = min(of_block, of_group - at.block * of_block);
  return at;
}

/* Fills the tables: of quads; and of pieces, bytes of samples from the first channel on. count: pieces of the block. */
template <int TAPS>
DEVICE void make_tables(const gradient_arguments &a, int32_t first_piece, int32_t count, int32_t first_channel, quad *quads,
                        int32_t *pieces) {
  const gconv_layer_problem &p = a.p;
  const int32_t channels = p.channels / p.groups;
  for (int32_t i = (int32_t)threadIdx.x; i < QUADS * a.steps; i += (int32_t)blockDim.x) {
    const int32_t line = i / (a.columns / 4), column = 4 * (i - line * (a.columns / 4));
    quads[i] = {4 * (line * a.dz_pitch + column), 4 * (line * p.stride_y * a.x_pitch + column * p.stride_x)};
  }
  for (int32_t i = (int32_t)threadIdx.x; i < count; i += (int32_t)blockDim.x) {
    const piece own = piece_of(a, first_piece + i);
    const bool there = own.c < min(channels, first_channel + a.channels);
    const int32_t x = (own.c - first_channel) * a.x_plane + own.r * p.dilation_y * a.x_pitch + own.s * TAPS * p.dilation_x;
    pieces[i] = there ? 4 * x : 0; /* others are not used */
  }
}

/* Adds the sums of the warps that have other places of the same weights, half of them to the other half at a time. */
template <int FILTERS, int TAPS, int GROUPS>
DEVICE void sum_warps(const gradient_arguments &a, const thread_place &at, float *shared,
                      warp_sums<FILTERS, TAPS, GROUPS> &sums) {
  constexpr int COUNT = GROUPS * TAPS * FILTERS * 4;
  const int32_t of_places = a.warps_n * a.warps_m;
  for (int32_t half = a.warps_k / 2; half > 0; half /= 2) {
    float *place = shared + ((at.k % half * of_places + at.m * a.warps_n + at.n) * COUNT * 32 + at.lane);
    __syncthreads();
    if (at.k >= half && at.k < 2 * half)
      UNROLLED_FOR (int i = 0; i < COUNT; i++)
        place[32 * i] = sums.of[i / (4 * FILTERS)][i / 4 % FILTERS][i % 4];
    __syncthreads();
    if (at.k < half)
      UNROLLED_FOR (int i = 0; i < COUNT; i++)
        sums.of[i / (4 * FILTERS)][i / 4 % FILTERS][i % 4] += place[32 * i];
  }
}

template <int FILTERS, int TAPS, int GROUPS>
DEVICE void store(const gradient_arguments &a, const thread_place &at, const warp_sums<FILTERS, TAPS, GROUPS> &sums) {
  constexpr int COUNT = GROUPS * TAPS * FILTERS * 4;
  const int32_t warp = ((int32_t)blockIdx.x * a.warps_m + at.m) * a.warps_n + at.n;
  float *to = a.leaves + blockIdx.y * a.leaf + (int64_t)warp * COUNT * 32 + at.lane;
  UNROLLED_FOR (int i = 0; i < COUNT; i++)
    to[32 * i] = sums.of[i / (4 * FILTERS)][i / 4 % FILTERS][i % 4];
}

/* The gradients themselves, whose sums are those of the biases: threads that are neighbours have parts of a filter. */
struct bias_sum {
  float sum;
  int32_t filter, part, parts; /* parts 0: the thread has none */
};
DEVICE bias_sum bias_of_thread(const gradient_arguments &a, const thread_place &at) {
  const int32_t threads = blockDim.x < 256 ? 128 : 256, parts = threads >> a.filters_log2, own = (int32_t)threadIdx.x;
  return {0, own / parts, own % parts, at.tile == 0 && own < threads ? parts : 0};
}
DEVICE void add_bias(const gradient_arguments &a, const float *stage, const quad *quads, bias_sum &bias) {
  const float *gradients = stage + bias.filter * a.dz_plane;
  for (int32_t i = bias.part; i < QUADS * a.steps && bias.parts; i += bias.parts) {
    const float4 four = *(const float4 *)behind(gradients, quads[i].dz);
    bias.sum += (four.x + four.y) + (four.z + four.w);
  }
}
DEVICE void store_bias(const gradient_arguments &a, const thread_place &at, bias_sum &bias) {
  float *biases = a.leaves + (blockIdx.y + 1) * a.leaf - a.p.filters + at.first;
  for (int32_t step = 1; step < bias.parts; step *= 2)
    bias.sum += __shfl_xor_sync(~0u, bias.sum, step);
  if (bias.parts && bias.part == 0 && bias.filter < at.filters)
    biases[bias.filter] = bias.sum;
}

/* Waits until the next stage is filled: by the copy engine, or by all threads. */
DEVICE void await_stage(const gradient_arguments &a, uint64_t *arrived, uint32_t parity) {
#ifdef COPY_ENGINE
  if (a.boxes) {
    hopper::barrier_wait(arrived, parity);
    return;
  }
#endif
  if (a.stages == 2)
    await_copies<1>();
  else if (a.stages == 3)
    await_copies<2>();
  else
    await_copies<STAGES - 1>();
  __syncthreads();
}

/* Adds the steps of a stage that are the warp's own. `dz_place`, `x_place`: where the thread's first numbers are in it. */
template <int FILTERS, int TAPS, int GROUPS, bool SPLIT>
DEVICE void add_stage(const gradient_arguments &a, const float *stage, int32_t dz_place, int32_t x_place, int32_t k,
                      const quad *quads, warp_sums<FILTERS, TAPS, GROUPS> &sums) {
  ROLLED_FOR (int32_t step = k; step < a.steps; step += a.warps_k) {
    const int4 one = *(const int4 *)(quads + QUADS * step), other = *(const int4 *)(quads + QUADS * step + 2);
    const quad some[QUADS] = {{one.x, one.y}, {one.z, one.w}, {other.x, other.y}, {other.z, other.w}};
    add_places<FILTERS, TAPS, GROUPS, SPLIT>(stage + dz_place, 32 * a.dz_plane, stage + x_place, some, sums);
  }
}

/* BLOCKS: that a multiprocessor holds */
template <int FILTERS, int TAPS, int GROUPS, int BLOCKS, bool SPLIT>
__global__ void __launch_bounds__(32 * WARPS, BLOCKS) multiply_gradients(const __grid_constant__ gradient_arguments a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#ifdef COPY_ENGINE
  hopper::admit_kernel_behind();
#endif
  extern __shared__ __align__(128) float shared[];
  const gconv_layer_problem &p = a.p;
  const thread_place own = place_of_thread<FILTERS, GROUPS>(a);
  const int32_t pieces_of_block = a.warps_n * GROUPS * LANES, first_piece = own.tile * pieces_of_block;
  const int32_t channels = p.channels / p.groups, first_channel = piece_of(a, first_piece).c / a.inner * a.inner;
  const int64_t all = (int64_t)a.chunks * a.cases, begin = all * blockIdx.y / gridDim.y;
  const int32_t count = (int32_t)(all * (blockIdx.y + 1) / gridDim.y - begin);
  quad *quads = (quad *)shared;
  int32_t *pieces = (int32_t *)(quads + QUADS * a.steps);
  float *stages = shared + a.tables;
  make_tables<TAPS>(a, first_piece, pieces_of_block, first_channel, quads, pieces);
  __shared__ uint64_t arrived[STAGES];
#ifdef COPY_ENGINE
  if (a.boxes && threadIdx.x == 0) {
    UNROLLED_FOR (int i = 0; i < STAGES; i++)
      hopper::barrier_init(&arrived[i], 1);
    hopper::barrier_init_done();
  }
#endif
  __syncthreads();
  /* Fills stage after stage, each with the next chunk. */
  stage_source source = {0, own.first, own.filters, own.group * channels + first_channel,
                         min(a.channels, channels - first_channel)};
  position next = position_of(a, begin);
  const auto fill = [&](int32_t number, int32_t into) {
    source.image = next.image;
    if (!a.boxes && number < count)
      fill_by_threads(a, source, chunk_at(a, next), (int32_t)threadIdx.x, (int32_t)blockDim.x, stages + into * a.floats);
#ifdef COPY_ENGINE
    else if (threadIdx.x == 0 && number < count)
      fill_by_boxes(a, source, chunk_at(a, next), stages + into * a.floats, &arrived[into]);
#endif
    commit_copies();
    advance(a, next);
  };
  for (int32_t i = 0; i < a.stages - 1; i++)
    fill(i, i);

  warp_sums<FILTERS, TAPS, GROUPS> sums = {};
  UNROLLED_FOR (int j = 0; j < GROUPS; j++)
    UNROLLED_FOR (int half = 0; half < 2; half++)
      sums.offsets[j][half] = pieces[own.piece + LANES * j + own.lane / 4 + 8 * half];
  const int32_t dz_place = (own.filter + own.lane / 4) * a.dz_plane + own.lane % 4;
  const int32_t x_place = a.dz_floats + a.shift + own.lane % 4 * p.stride_x;
  bias_sum bias = bias_of_thread(a, own);
  int32_t of = 0;
  uint32_t parity = 0;
  ROLLED_FOR (int32_t i = 0; i < count; i++) {
    fill(i + a.stages - 1, of == 0 ? a.stages - 1 : of - 1);
    await_stage(a, &arrived[of], parity);
    const float *stage = stages + of * a.floats;
    add_stage<FILTERS, TAPS, GROUPS, SPLIT>(a, stage, dz_place, x_place, own.k, quads, sums);
    add_bias(a, stage, quads, bias);
    parity ^= of + 1 == a.stages;
    of = of + 1 == a.stages ? 0 : of + 1;
    __syncthreads();
  }
  sum_warps(a, own, stages, sums);
  if (own.k == 0)
    store(a, own, sums);
  store_bias(a, own, bias);
#endif
}

/* ---- Sums ---- */

enum : int { PARTS = 4, PART = 64 }; /* of the leaves, which threads sum one by one; threads of a part */

/* Where in the gradient the number i of a leaf belongs; -1: nowhere. */
DEVICE int64_t place_of(const gradient_arguments &a, const cut &c, int32_t i) {
  const gconv_layer_problem &p = a.p;
  const int32_t biases = (int32_t)a.leaf - p.filters;
  if (i >= biases)
    return (int64_t)p.filters * a.taps + i - biases;
  const int32_t lane = i % 32, count = 4 * c.filters * c.taps * c.groups, number = i / 32 % count, warp = i / 32 / count;
  const int32_t n = warp % a.warps_n, m = warp / a.warps_n % a.warps_m, block = warp / a.warps_n / a.warps_m;
  const int32_t tile = block % a.tiles, filters = block / a.tiles % a.blocks, group = block / a.tiles / a.blocks;
  const int32_t half = number / 2 % 2, k = number / 4 % c.filters, column = number / 4 / c.filters;
  const int32_t of_group = p.filters / p.groups;
  const int32_t filter = (filters << a.filters_log2) + 8 * (c.filters * m + k) + lane % 4 * 2 + number % 2;
  const piece own = piece_of(a, ((tile * a.warps_n + n) * c.groups + column / c.taps) * LANES + lane / 4 + 8 * half);
  const int32_t s = own.s * c.taps + column % c.taps;
  if (filter >= of_group || own.c >= p.channels / p.groups || s >= p.columns)
    return -1;
  return ((int64_t)group * of_group + filter) * a.taps + (own.c * p.rows + own.r) * p.columns + s;
}

/* Sums the leaves: a block has PART numbers of each. */
__global__ void __launch_bounds__(PARTS *PART)
    sum_leaves(const __grid_constant__ gradient_arguments a, cut c, int32_t leaves) {
#ifdef COPY_ENGINE
  hopper::await_kernel_before();
#endif
  __shared__ float parts[PARTS][PART];
  const int32_t at = (int32_t)threadIdx.x % PART, part = (int32_t)threadIdx.x / PART, i = (int32_t)blockIdx.x * PART + at;
  float sum = 0;
  if (i < a.leaf) {
    const float *own = a.leaves + i;
    UNROLLED_4_FOR (int32_t j = part; j < leaves; j += PARTS)
      sum += own[j * a.leaf];
  }
  parts[part][at] = sum;
  __syncthreads();
  if (part > 0 || i >= a.leaf)
    return;
  UNROLLED_FOR (int j = 1; j < PARTS; j++)
    sum += parts[j][at];
  const int64_t place = place_of(a, c, i);
  if (place >= 0)
    a.gradient[place] = sum;
}

/* ---- Launching ---- */

using kernel = void (*)(const gradient_arguments a);

template <bool SPLIT> kernel kernel_of(const cut &c) {
  if (c.blocks == 1)
    return c.taps == 1   ? multiply_gradients<4, 1, 8, 1, SPLIT>
           : c.taps == 3 ? multiply_gradients<4, 3, 3, 1, SPLIT>
                         : multiply_gradients<4, 4, 2, 1, SPLIT>;
  if (c.filters == 4)
    return c.taps == 1   ? multiply_gradients<4, 1, 3, 2, SPLIT>
           : c.taps == 3 ? multiply_gradients<4, 3, 1, 2, SPLIT>
                         : multiply_gradients<4, 4, 1, 2, SPLIT>;
  return c.taps == 1   ? multiply_gradients<2, 1, 8, 2, SPLIT>
         : c.taps == 3 ? multiply_gradients<2, 3, 3, 2, SPLIT>
                       : multiply_gradients<2, 4, 2, 2, SPLIT>;
}

bool is_possible(const gconv_learn_own *own) {
  const gconv_layer_problem &p = own->layer.problem;
  int device = 0, major = 0;
  return own->layer.kind == GCONV_LAYER_CONV && !own->in_tail && gconv_layer_taps(&p) * p.filters <= 1 << 28 &&
         (int64_t)p.out_height * p.out_width <= 1 << 28 && cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 8;
}

} // namespace

struct gconv_learn_tensor {
  cut c;
  kernel multiply;
  gradient_arguments plain, boxed; /* without and with the copy engine */
};

void gconv_learn_tensor_make(const gconv_learn_own *own, int64_t cases, gconv_math math, gconv_learn_tensor **tensor) {
  *tensor = NULL;
  if (!is_possible(own) || cases > INT32_MAX)
    return;
  gconv_learn_tensor made = {};
  made.c = cut_of(own->layer.problem);
  made.multiply = math == GCONV_MATH_FP32 ? kernel_of<true>(made.c) : kernel_of<false>(made.c);
  made.plain.p = own->layer.problem;
  made.plain.whole = true;
  made.plain.cases = (int32_t)cases;
  share_work(made.c, &made.plain);
  made.boxed = made.plain;
  made.boxed.boxes = may_have_boxes(made.boxed, made.multiply);
  if (!find_stage(made.c, &made.plain))
    return;
  made.boxed.boxes = made.boxed.boxes && find_stage(made.c, &made.boxed);
  const int bytes = SHARED_BYTES / made.c.blocks;
  if (cudaFuncSetAttribute(made.multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess) {
    cudaGetLastError(); /* a GPU with less shared memory: no failure */
    return;
  }
  *tensor = (gconv_learn_tensor *)malloc(sizeof made);
  if (*tensor)
    **tensor = made;
}

size_t gconv_learn_tensor_floats(const gconv_learn_tensor *tensor) {
  return (size_t)most_splits(tensor->c, tensor->plain) * (size_t)tensor->plain.leaf;
}

void gconv_learn_cuda_tensor(const gconv_learn_tensor *tensor, const float *x, const float *dz, int64_t cases,
                             float *workspace, float *gradient, cudaStream_t stream) {
  gradient_arguments a = tensor->boxed;
  a.x = x;
  a.dz = dz;
  if (!a.boxes || !map_boxes(&a, cases)) {
    a = tensor->plain;
    a.x = x;
    a.dz = dz;
  }
  a.leaves = workspace;
  a.gradient = gradient;
  a.cases = (int32_t)cases;
  const int64_t splits = std::min<int64_t>(most_splits(tensor->c, a), a.chunks * cases);
  const dim3 grid((unsigned)(a.tiles * a.blocks * a.p.groups), (unsigned)splits);
  const int32_t warps = a.warps_m * a.warps_n * a.warps_k;
  tensor->multiply<<<grid, 32 * (unsigned)warps, (size_t)shared_bytes(tensor->c, a), stream>>>(a);
  const unsigned blocks = (unsigned)((a.leaf + PART - 1) / PART);
  if (a.boxes) /* a GPU that has a copy engine can launch so, too */
    hopper::launch_behind(sum_leaves, blocks, PARTS * PART, 0, stream, a, tensor->c, (int32_t)splits);
  else
    sum_leaves<<<blocks, PARTS * PART, 0, stream>>>(a, tensor->c, (int32_t)splits);
}
