/* SPDX-License-Identifier: MIT */
/* Starts the products of dense layers, in tiles that suit their shapes. */
#include "../core/device.cuh"
#include "dense.h"
#include "dense_groups.cuh"
#include "dense_outputs.cuh"

#include <algorithm>

namespace {

/* Tiles of large products (by warpgroups), of smaller ones, and of products with few columns or few rows. */
template <int PARTS> using large = groups_shape<PARTS>;
using small = dense_shape<64, 64, 32, 32, 3>;
using tiny = dense_shape<32, 32, 16, 16, 5>;
using narrow = dense_shape<64, 8, 16, 8, 5>;
using low = dense_shape<16, 128, 16, 32, 4>;

/* True if the current device has warpgroups (wgmma), and the code is compiled for them. Other code is an empty kernel, which
 * has few registers. */
bool has_groups() {
  cudaFuncAttributes kernel;
  const auto any = multiply_tiles<large<3>, dense_operand<false>, dense_operand<false>, dense_forward>;
  return capability() == 9 && cudaFuncGetAttributes(&kernel, any) == cudaSuccess && kernel.numRegs > 64;
}

/* Returns the tiles for a product of m x n sums, whose values of l may be cut into `parts` parts: the largest ones that keep
 * all multiprocessors busy. */
enum tiles { LARGE, SMALL, TINY, NARROW, LOW };
tiles tiles_for(int64_t m, int64_t n, int64_t parts) {
  const int64_t units = multiprocessors();
  if (n <= 8)
    return NARROW;
  if (m <= 16)
    return LOW;
  return divide_up(m, 128) * divide_up(n, 128) * parts >= units * 3 / 4 && n > 64 && m > 64 && has_groups() ? LARGE
         : divide_up(m, 64) * divide_up(n, 64) * parts >= units && n > 32 && m > 32                         ? SMALL
                                                                                                            : TINY;
}

/* A product whose values of l are cut into parts of `part`. */
struct product {
  gconv_math math;
  tiles shape;
  dense_matrix a, b;
  int32_t length, part;
  cudaStream_t stream;
};

template <class Kernel, class Out>
void start(Kernel *kernel, const product &p, int m, int n, int threads, int bytes, const Out &out) {
  if (allow_shared(kernel, bytes) != GCONV_OK)
    bytes = INT32_MAX; /* the launch fails then, and reports an error */
  const dim3 grid((unsigned)divide_up(p.b.count, n), (unsigned)divide_up(p.a.count, m),
                  (unsigned)divide_up(p.length, p.part));
  kernel<<<grid, threads, bytes, p.stream>>>(p.a, p.b, out, p.length, p.part);
}

template <class Shape, bool A_BY_L, bool B_BY_L, class Out> void start_tiles(const product &p, const Out &out) {
  start(p.math == GCONV_MATH_FP32 ? multiply_dense<three_tf32, Shape, A_BY_L, B_BY_L, Out>
                                  : multiply_dense<one_tf32, Shape, A_BY_L, B_BY_L, Out>,
        p, Shape::M, Shape::N, Shape::THREADS, dense_shared_bytes<Shape, A_BY_L, B_BY_L>(), out);
}

template <int PARTS, bool A_BY_L, bool B_BY_L, class Out> void start_large(const product &p, const Out &out) {
  using shape = large<PARTS>;
  using left = dense_operand<A_BY_L>;
  using right = dense_operand<B_BY_L>;
  const auto kernel = multiply_tiles<shape, left, right, Out>;
  const int32_t tiles_m = (int32_t)divide_up(p.a.count, shape::M), tiles_n = (int32_t)divide_up(p.b.count, shape::N);
  const int32_t tiles = tiles_m * tiles_n * (int32_t)divide_up(p.length, p.part);
  const groups_work w = {p.a.count, p.b.count, p.length, tiles_m, tiles_n, tiles, (int32_t)divide_up(p.part, DEPTH)};
  int bytes = (int)sizeof(groups_memory<shape>);
  if (allow_shared(kernel, bytes) != GCONV_OK)
    bytes = INT32_MAX; /* the launch fails then, and reports an error */
  kernel<<<(unsigned)std::min(tiles, multiprocessors()), shape::THREADS, bytes, p.stream>>>(w, left{p.a}, right{p.b}, out);
}

template <bool A_BY_L, bool B_BY_L, class Out> void start_product(const product &p, const Out &out) {
  if (!A_BY_L && p.length <= FEW) {
    const dim3 grid((unsigned)divide_up(p.b.count, 2 * FEW_THREADS), (unsigned)divide_up(p.a.count, FEW_ROWS));
    multiply_few<B_BY_L><<<grid, FEW_THREADS, 0, p.stream>>>(p.a, p.b, out, p.length);
    return;
  }
  switch (p.shape) {
  case LARGE:
    return p.math == GCONV_MATH_FP32   ? start_large<3, A_BY_L, B_BY_L>(p, out)
           : p.math == GCONV_MATH_BF16 ? start_large<1, A_BY_L, B_BY_L>(p, out)
                                       : start_large<2, A_BY_L, B_BY_L>(p, out);
  case SMALL:
    return start_tiles<small, A_BY_L, B_BY_L>(p, out);
  case TINY:
    return start_tiles<tiny, A_BY_L, B_BY_L>(p, out);
  case NARROW:
    return start_tiles<narrow, A_BY_L, B_BY_L>(p, out);
  case LOW:
    return start_tiles<low, A_BY_L, B_BY_L>(p, out);
  }
}

dense_matrix matrix_of(const float *from, int64_t pitch, int64_t count) {
  return {from, pitch, (int32_t)count, pitch % 4 == 0 && (uintptr_t)from % 16 == 0};
}

/* Returns how many parts of the cases keep all multiprocessors busy. A part has at least 128 cases. */
int64_t wanted_parts(const gconv_learn_own *own, int64_t cases, tiles shape) {
  const int64_t m = own->layer.problem.filters, n = own->layer.problem.channels;
  const int64_t high[] = {large<3>::M, small::M, tiny::M, narrow::M, low::M};
  const int64_t wide[] = {large<3>::N, small::N, tiny::N, narrow::N, low::N};
  const int64_t each[] = {1, 3, 4, 4, 4}; /* blocks of a multiprocessor */
  const int64_t blocks = divide_up(m, high[shape]) * divide_up(n, wide[shape]);
  return std::max<int64_t>(1, std::min<int64_t>(multiprocessors() * each[shape] / blocks, cases / 128));
}

int32_t part_of(const gconv_learn_own *own, int64_t cases, tiles shape) {
  return (int32_t)(divide_up(divide_up(cases, wanted_parts(own, cases, shape)), DEPTH) * DEPTH);
}

tiles tiles_of_weights(const gconv_learn_own *own, int64_t cases) {
  return tiles_for(own->layer.problem.filters, own->layer.problem.channels, cases / 128);
}

} // namespace

bool gconv_dense_suits(const gconv_learn_own *own, int64_t cases) {
  const gconv_layer_problem &p = own->layer.problem;
  cudaFuncAttributes kernel; /* a GPU with these instructions may run code that was compiled for GPUs without them */
  const auto any = multiply_dense<one_tf32, narrow, false, false, dense_forward>;
  return own->in_tail && own->layer.parameters > 0 && cases <= 65535 * FEW_ROWS && p.channels < 1 << 20 &&
         p.filters < 1 << 20 && cudaFuncGetAttributes(&kernel, any) == cudaSuccess && kernel.ptxVersion >= 80 &&
         kernel.binaryVersion >= 80;
}

int32_t gconv_dense_parts(const gconv_learn_own *own, int64_t cases) {
  return (int32_t)divide_up(cases, part_of(own, cases, tiles_of_weights(own, cases)));
}

int32_t gconv_dense_most_parts(const gconv_learn_own *own, int64_t batch) {
  int64_t most = 1;
  for (const tiles shape : {LARGE, SMALL, TINY, NARROW, LOW})
    most = std::max(most, wanted_parts(own, batch, shape));
  return (int32_t)most;
}

void gconv_dense_forward(const gconv_learn_own *own, gconv_math math, const float *parameters, const float *x, int64_t cases,
                         float *y, cudaStream_t stream) {
  const gconv_layer_problem &p = own->layer.problem;
  const float *weights = parameters + own->layer.weights;
  const dense_forward out = {p.activation, p.slope, gconv_layer_biases(&p, weights), y, p.filters};
  start_product<false, false>({math, tiles_for(cases, p.filters, 1), matrix_of(x, p.channels, cases),
                               matrix_of(weights, p.channels, p.filters), p.channels, p.channels, stream},
                              out);
}

void gconv_dense_backward(const gconv_learn_own *own, const gconv_learn_own *before, gconv_math math,
                          const float *parameters, const float *dz, const float *x, int64_t cases, float *dx,
                          cudaStream_t stream) {
  const gconv_layer_problem &p = own->layer.problem;
  const gconv_layer_problem *of = before ? &before->layer.problem : NULL;
  const dense_backward out = {of ? of->activation : GCONV_ACTIVATION_NONE, of ? of->slope : 0, x, dx, p.channels};
  start_product<false, true>({math, tiles_for(cases, p.channels, 1), matrix_of(dz, p.filters, cases),
                              matrix_of(parameters + own->layer.weights, p.channels, p.channels), p.filters, p.filters,
                              stream},
                             out);
}

void gconv_dense_weights(const gconv_learn_own *own, gconv_math math, const float *x, const float *dz, int64_t cases,
                         float *leaves, cudaStream_t stream) {
  const gconv_layer_problem &p = own->layer.problem;
  const tiles shape = tiles_of_weights(own, cases);
  const dense_leaves out = {leaves, p.channels, p.filters, (int64_t)own->layer.parameters};
  start_product<true, true>({math, shape, matrix_of(dz, p.filters, p.filters), matrix_of(x, p.channels, p.channels),
                             (int32_t)cases, part_of(own, cases, shape), stream},
                            out);
}
