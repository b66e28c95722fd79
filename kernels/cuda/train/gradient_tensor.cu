/* SPDX-License-Identifier: MIT */
/*
 * The gradient of a convolution's weights by tensor cores. It is the product of two matrices,
 *
 *     sum over images n and places p, q of  dz[n][k][p][q]  *  x[n][c][under tap r, s of p, q],
 *
 * with a row for each filter k and a column for each tap (c, r, s). gradient.cu is the exact version.
 *
 * Accuracy. Tensor cores multiply tf32 numbers, which have 11 bits. A float32 number is split into two of them: its first
 * bits, and the rest. A product of two numbers is three products of tf32; the product of the rests is left out. Results are
 * as accurate as with float32. With tf32 as the mode of arithmetic, there is one product of rounded numbers. An instruction
 * truncates its sums. So instructions sum sixteen places only, and these sums are added as float32, with rounding.
 *
 *     an instruction: 16 columns x 8 filters x 8 places         a warp: GROUPS groups of 16 pieces, 8 FILTERS filters
 *         thread 4 g + t has columns g and g + 8, filter g,     a piece: TAPS neighbouring taps of a filter's row
 *         and number t of two quads                             a block: up to 8 warps, in three directions: some
 *     a quad: four neighbouring places of a row                 pieces, some filters, and some of the places
 *
 * The 16 columns of an instruction are one tap of sixteen channels. If there are fewer channels, some columns are of
 * neighbouring rows of the filter. Tables in shared memory have the offsets of quads and pieces. Blocks share the images and
 * rows. Each block stores its sums as a leaf, in the order of warps and registers, so that stores are contiguous. A second
 * kernel sums the leaves, and stores the gradient in the order of parameters.
 */
#include "../core/device.cuh"
#include "gradient_tensor_groups.cuh"
#include "layers.h"

#include <stdlib.h>

namespace {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

/* sums += a * b */
DEVICE void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint2 b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

/* Adds the places of four quads. dz: the thread's first gradient; the next group of eight filters is `apart` bytes further.
 * x: the thread's first sample. */
template <int FILTERS, int TAPS, int GROUPS, bool SPLIT>
DEVICE void add_places(const float *dz, int32_t apart, const float *x, const quad (&quads)[QUADS],
                       warp_sums<FILTERS, TAPS, GROUPS> &sums) {
  uint32_t dz_first[FILTERS][QUADS], dz_rest[FILTERS][QUADS];
  UNROLLED_FOR (int k = 0; k < FILTERS; k++)
    UNROLLED_FOR (int j = 0; j < QUADS; j++)
      part<SPLIT>(*bytes_after(dz, k * apart + quads[j].dz), dz_first[k][j], dz_rest[k][j]);

  UNROLLED_FOR (int i = 0; i < GROUPS * TAPS; i++) {
    float added[FILTERS][4] = {};
    UNROLLED_FOR (int pair = 0; pair < QUADS; pair += 2) {
      uint32_t first[4], rest[4];
      UNROLLED_FOR (int j = 0; j < 4; j++) /* columns g and g + 8 of one quad, and of the other */
        part<SPLIT>(bytes_after(x, quads[pair + j / 2].x + sums.offsets[i / TAPS][j % 2])[i % TAPS], first[j], rest[j]);
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

/* Adds the sums of warps that have the same weights but different places, by a tree: in each round, half of the warps add
 * the other half's sums. */
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

/* The gradient of a bias, which is the sum of a filter's gradients. Neighbouring threads share a filter. */
struct bias_sum {
  float sum;
  int32_t filter, part, parts; /* parts 0: the thread has no filter */
};
DEVICE bias_sum bias_of_thread(const gradient_arguments &a, const thread_place &at) {
  const int32_t threads = blockDim.x < 256 ? 128 : 256, parts = threads >> a.filters_log2, own = (int32_t)threadIdx.x;
  return {0, own / parts, own % parts, at.tile == 0 && own < threads ? parts : 0};
}
DEVICE void add_bias(const gradient_arguments &a, const float *stage, const quad *quads, bias_sum &bias) {
  const float *gradients = stage + bias.filter * a.dz_plane;
  for (int32_t i = bias.part; i < QUADS * a.steps && bias.parts; i += bias.parts) {
    const float4 four = *(const float4 *)bytes_after(gradients, quads[i].dz);
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

/* Adds the warp's steps of a stage. dz_place, x_place: offsets of the thread's first numbers. */
template <int FILTERS, int TAPS, int GROUPS, bool SPLIT>
DEVICE void add_stage(const gradient_arguments &a, const float *stage, int32_t dz_place, int32_t x_place, int32_t k,
                      const quad *quads, warp_sums<FILTERS, TAPS, GROUPS> &sums) {
  ROLLED_FOR (int32_t step = k; step < a.steps; step += a.warps_k) {
    const int4 one = *(const int4 *)(quads + QUADS * step), other = *(const int4 *)(quads + QUADS * step + 2);
    const quad some[QUADS] = {{one.x, one.y}, {one.z, one.w}, {other.x, other.y}, {other.z, other.w}};
    add_places<FILTERS, TAPS, GROUPS, SPLIT>(stage + dz_place, 32 * a.dz_plane, stage + x_place, some, sums);
  }
}

/* BLOCKS: blocks in a multiprocessor. */
template <int FILTERS, int TAPS, int GROUPS, int BLOCKS, bool SPLIT>
__global__ void __launch_bounds__(32 * WARPS, BLOCKS) multiply_gradients(const __grid_constant__ gradient_arguments a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#ifdef COPY_ENGINE
  hopper::admit_kernel_behind();
#endif
  extern __shared__ __align__(128) float shared[];
  __shared__ uint64_t arrived[STAGES];
  block_work work = begin_block<FILTERS, TAPS, GROUPS>(a, shared, arrived);
  const thread_place &own = work.own;
  /* Fills a stage with the next chunk. */
  const auto fill = [&](int32_t number, int32_t into) {
    const chunk of = chunk_at(a, work.next);
    float *stage = work.stages + into * a.floats;
    work.source.image = work.next.image;
    if (!a.boxes && number < work.count)
      fill_by_threads(a, work.source, of, (int32_t)threadIdx.x, (int32_t)blockDim.x, stage);
#ifdef COPY_ENGINE
    else if (threadIdx.x == 0 && number < work.count)
      fill_by_boxes(a, work.source, of, stage, &arrived[into]);
#endif
    commit_copies();
    advance(a, work.next);
  };
  for (int32_t i = 0; i < a.stages - 1; i++)
    fill(i, i);

  warp_sums<FILTERS, TAPS, GROUPS> sums = begin_sums<FILTERS, TAPS, GROUPS>(work);
  const int32_t dz_place = (own.filter + own.lane / 4) * a.dz_plane + own.lane % 4;
  const int32_t x_place = first_samples(a, own);
  bias_sum bias = bias_of_thread(a, own);
  int32_t of = 0;
  uint32_t parity = 0;
  ROLLED_FOR (int32_t i = 0; i < work.count; i++) {
    fill(i + a.stages - 1, of == 0 ? a.stages - 1 : of - 1);
    await_stage(a, &arrived[of], parity);
    const float *stage = work.stages + of * a.floats;
    add_stage<FILTERS, TAPS, GROUPS, SPLIT>(a, stage, dz_place, x_place, own.k, work.quads, sums);
    add_bias(a, stage, work.quads, bias);
    parity ^= of + 1 == a.stages;
    of = of + 1 == a.stages ? 0 : of + 1;
    __syncthreads();
  }
  sum_warps(a, own, work.stages, sums);
  if (own.k == 0)
    store(a, own, sums);
  store_bias(a, own, bias);
#endif
}

/* ---- Sums ---- */

enum : int { SUMMING = 256 }; /* threads of a block */

/* Returns the parameter to which number i of a leaf belongs, or -1. */
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
  if (group >= p.groups || filter >= of_group || own.c >= p.channels / p.groups || s >= p.columns)
    return -1;
  return ((int64_t)group * of_group + filter) * a.taps + (own.c * p.rows + own.r) * p.columns + s;
}

/* Sums the leaves. A block has NUMBERS numbers of each leaf; a thread sums four neighbours of every PARTS-th leaf. */
template <int PARTS>
__global__ void __launch_bounds__(SUMMING) sum_leaves(const __grid_constant__ gradient_arguments a, cut c, int32_t leaves) {
#ifdef COPY_ENGINE
  hopper::await_kernel_before();
#endif
  constexpr int THREADS = SUMMING / PARTS, NUMBERS = 4 * THREADS;
  __shared__ float4 parts[PARTS][THREADS];
  const int32_t at = (int32_t)threadIdx.x % THREADS, part = (int32_t)threadIdx.x / THREADS;
  const int64_t first = (int64_t)blockIdx.x * NUMBERS;
  float4 sum = {};
  if (first + 4 * at < a.leaf) {
    const float *own = a.leaves + first + 4 * at;
    UNROLLED_8_FOR(int32_t j = part; j < leaves; j += PARTS) {
      const float4 four = *(const float4 *)(own + j * a.leaf);
      sum.x += four.x, sum.y += four.y, sum.z += four.z, sum.w += four.w;
    }
  }
  parts[part][at] = sum;
  __syncthreads();
  const int32_t number = (int32_t)threadIdx.x;
  if (number >= NUMBERS || first + number >= a.leaf)
    return;
  float all = 0;
  UNROLLED_FOR (int j = 0; j < PARTS; j++)
    all += ((const float *)parts[j])[number];
  const int64_t place = place_of(a, c, (int32_t)first + number);
  if (place >= 0)
    a.gradient[place] = all;
}

/* ---- Launching ---- */

using kernel = void (*)(const gradient_arguments a);

template <bool SPLIT> kernel kernel_of(const cut &c) {
  if (c.warpgroups)
    return c.taps == 3 ? multiply_by_warpgroups<3, 1> : multiply_by_warpgroups<1, 3>;
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
  return own->layer.kind == GCONV_LAYER_CONV && !own->in_tail && gconv_layer_taps(&p) * p.filters <= 1 << 28 &&
         (int64_t)p.out_height * p.out_width <= 1 << 28 && capability() >= 8;
}

/* A kernel and its arguments, without the arrays. */
struct form {
  cut c;
  kernel multiply;
  gradient_arguments arguments;
};

/* True if the kernel of warpgroups can run here. In code that is not for compute capability 9.0a alone, that kernel is
 * empty, which shows in its number of registers. */
bool have_warpgroups() {
  cudaFuncAttributes attributes;
  return capability() == 9 && cudaFuncGetAttributes(&attributes, multiply_by_warpgroups<3, 1>) == cudaSuccess &&
         attributes.numRegs > (int)(sizeof(warp_sums<8, 3, 1>::of) / sizeof(float));
}

/* Makes the form of a cut. boxes: the copy engine copies. Returns false if this is not possible. */
bool make_form(const gconv_layer_problem &p, int64_t cases, gconv_math math, const cut &c, bool boxes, form *to) {
  form made = {};
  made.c = c;
  made.multiply = math == GCONV_MATH_FP32 ? kernel_of<true>(c) : kernel_of<false>(c);
  made.arguments.p = p;
  made.arguments.whole = true;
  made.arguments.cases = (int32_t)cases;
  made.arguments.boxes = boxes;
  share_work(c, &made.arguments);
  if ((boxes && !may_have_boxes(made.arguments, made.multiply)) || !find_stage(c, &made.arguments))
    return false;
  if (cudaFuncSetAttribute(made.multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES / c.blocks) !=
      cudaSuccess) {
    cudaGetLastError(); /* a GPU with less shared memory: not a failure */
    return false;
  }
  *to = made;
  return true;
}

} // namespace

struct gconv_learn_tensor {
  form plain, boxed; /* without and with the copy engine */
};

void gconv_learn_tensor_make(const gconv_learn_own *own, int64_t cases, gconv_math math, gconv_learn_tensor **tensor) {
  *tensor = NULL;
  if (!is_possible(own) || cases > INT32_MAX)
    return;
  const gconv_layer_problem &p = own->layer.problem;
  gconv_learn_tensor made = {};
  if (!make_form(p, cases, math, cut_of(p), false, &made.plain))
    return;
  /* In mode tf32, which needs one product instead of three, warpgroups are not faster. */
  const bool by_warpgroups = math == GCONV_MATH_FP32 && have_warpgroups() && for_warpgroups(p) &&
                             make_form(p, cases, math, cut_for_warpgroups(p), true, &made.boxed);
  if (!by_warpgroups && !make_form(p, cases, math, cut_of(p), true, &made.boxed))
    made.boxed = made.plain;
  *tensor = (gconv_learn_tensor *)malloc(sizeof made);
  if (*tensor)
    **tensor = made;
}

size_t gconv_learn_tensor_floats(const gconv_learn_tensor *tensor) {
  const auto floats = [](const form &of) { return (size_t)most_splits(of.c, of.arguments) * (size_t)of.arguments.leaf; };
  return std::max(floats(tensor->plain), floats(tensor->boxed));
}

void gconv_learn_cuda_tensor(const gconv_learn_tensor *tensor, const float *x, const float *dz, int64_t cases,
                             float *workspace, float *gradient, cudaStream_t stream) {
  form made = tensor->boxed;
  made.arguments.x = x;
  made.arguments.dz = dz;
  if (!made.arguments.boxes || !map_boxes(&made.arguments, cases)) {
    made = tensor->plain;
    made.arguments.x = x;
    made.arguments.dz = dz;
  }
  gradient_arguments &a = made.arguments;
  a.leaves = workspace;
  a.gradient = gradient;
  a.cases = (int32_t)cases;
  const int64_t splits = std::min<int64_t>(most_splits(made.c, a), a.chunks * cases);
  const dim3 grid((unsigned)(a.tiles * a.blocks * a.p.groups), (unsigned)splits);
  const int32_t warps = a.warps_m * a.warps_n * a.warps_k;
  made.multiply<<<grid, 32 * (unsigned)warps, (size_t)shared_bytes(made.c, a), stream>>>(a);
  /* A thread has some eight leaves, whose loads overlap. */
  const int parts = splits >= 192 ? 32 : splits >= 64 ? 16 : 4, numbers = 4 * SUMMING / parts;
  const auto sum = parts == 32 ? sum_leaves<32> : parts == 16 ? sum_leaves<16> : sum_leaves<4>;
  const unsigned blocks = (unsigned)((a.leaf + numbers - 1) / numbers);
  if (a.boxes) /* a GPU with a copy engine also has programmatic launches */
    hopper::launch_behind(sum, blocks, SUMMING, 0, stream, a, made.c, (int32_t)splits);
  else
    sum<<<blocks, SUMMING, 0, stream>>>(a, made.c, (int32_t)splits);
}
