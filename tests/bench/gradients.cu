/* SPDX-License-Identifier: MIT */
/*
 * Times the gradients of convolutions on a GPU, on random data: a line a layer and method, with the median milliseconds of
 * 20 runs, and, of weights, the largest error at some of them relative to the largest gradient, against sums in float64.
 *
 *     bench_gradients [LAYERS]     LAYERS has lines `N C H W K R stride pad`; without it, common layers and awkward ones
 *
 * Exit status: 0, 1 if an error is above 1e-5 (of tf32: 2e-3), 77 without a GPU.
 */
#include "kernels/cuda/train/layers.h"
#include "train/plans_cuda.h"

#include <algorithm>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

namespace {

struct shape {
  int n, c, h, w, k, r, stride, pad;
};
constexpr shape BUILTIN[] = {{32, 64, 56, 56, 64, 3, 1, 1},  {32, 128, 28, 28, 128, 3, 1, 1}, {32, 16, 64, 64, 16, 3, 1, 1},
                             {32, 3, 224, 224, 64, 3, 1, 1}, {64, 16, 64, 64, 16, 3, 1, 1},   {64, 1, 64, 64, 16, 3, 1, 1},
                             {64, 16, 64, 64, 1, 3, 1, 1},   {32, 256, 14, 14, 256, 3, 1, 1}, {2, 5, 7, 7, 5, 3, 1, 1},
                             {3, 1, 9, 11, 1, 3, 1, 1},      {2, 7, 13, 12, 33, 5, 1, 2},     {1, 12, 20, 36, 20, 3, 2, 1},
                             {2, 9, 14, 14, 70, 1, 1, 0},    {2, 3, 31, 32, 64, 7, 2, 3},     {5, 8, 1, 5, 17, 1, 1, 0},
                             {1, 2, 300, 301, 3, 4, 1, 0},   {4, 64, 14, 14, 64, 3, 1, 1},    {7, 20, 8, 8, 40, 5, 1, 2},
                             {2, 4, 16, 16, 8, 8, 1, 0},     {2, 70, 12, 20, 65, 3, 1, 1},    {3, 64, 12, 20, 96, 5, 1, 2},
                             {2, 64, 32, 32, 64, 3, 2, 1},   {1, 61, 40, 36, 63, 3, 1, 0},    {5, 256, 8, 8, 256, 1, 1, 0}};
enum { RUNS = 20, CHECKED = 60 };

struct problem {
  shape s;
  int p, q;
  gconv_learn_own own;
  std::vector<float> x, dz;
  float *device_x, *device_dz, *leaves, *gradient;
  std::vector<double> right; /* of some weights, and biases behind them */
  std::vector<size_t> checked;
  double largest;
};

float draw(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (float)((double)(*state * UINT64_C(2685821657736338717) >> 40) * 0x1p-23 - 1);
}

double gradient_at(const problem &a, size_t i) {
  const shape &s = a.s;
  const size_t taps = (size_t)s.c * s.r * s.r;
  const bool bias = i >= taps * s.k;
  const size_t k = bias ? i - taps * s.k : i / taps, c = i % taps / (s.r * s.r), r = i / s.r % s.r, t = i % s.r;
  double sum = 0;
  for (int n = 0; n < s.n; n++)
    for (int p = 0; p < a.p; p++)
      for (int q = 0; q < a.q; q++) {
        const double dz = a.dz[((n * (size_t)s.k + k) * a.p + p) * a.q + q];
        const int y = p * s.stride - s.pad + (int)r, x = q * s.stride - s.pad + (int)t;
        if (bias)
          sum += dz;
        else if (y >= 0 && y < s.h && x >= 0 && x < s.w)
          sum += dz * a.x[((n * (size_t)s.c + c) * s.h + y) * s.w + x];
      }
  return sum;
}

void prepare(problem *a) {
  const shape &s = a->s;
  a->p = (s.h + 2 * s.pad - s.r) / s.stride + 1;
  a->q = (s.w + 2 * s.pad - s.r) / s.stride + 1;
  gconv_layer_problem p = {};
  p.images = 1;
  p.channels = s.c, p.height = s.h, p.width = s.w, p.filters = s.k, p.rows = p.columns = s.r;
  p.out_height = a->p, p.out_width = a->q, p.stride_y = p.stride_x = s.stride, p.dilation_y = p.dilation_x = 1;
  p.pad_top = p.pad_left = s.pad, p.groups = 1;
  a->own.layer.kind = GCONV_LAYER_CONV;
  a->own.layer.problem = p;
  a->own.layer.parameters = (size_t)s.k * (s.c * s.r * s.r + 1);
  uint64_t state = 7;
  a->x.resize((size_t)s.n * s.c * s.h * s.w);
  a->dz.resize((size_t)s.n * s.k * a->p * a->q);
  for (float &x : a->x)
    x = fmaxf(draw(&state) + 0.3f, 0);
  for (float &dz : a->dz)
    dz = 1e-4f * draw(&state);
  cudaMalloc(&a->device_x, a->x.size() * 4);
  cudaMalloc(&a->device_dz, a->dz.size() * 4);
  cudaMalloc(&a->leaves, (size_t)512 << 20);
  cudaMalloc(&a->gradient, a->own.layer.parameters * 4);
  cudaMemcpy(a->device_x, a->x.data(), a->x.size() * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(a->device_dz, a->dz.data(), a->dz.size() * 4, cudaMemcpyHostToDevice);
  for (int i = 0; i < CHECKED; i++) {
    draw(&state);
    const size_t all = a->own.layer.parameters;
    a->checked.push_back(i == 0 ? 0 : i < 4 ? all - i : state % all);
    a->right.push_back(gradient_at(*a, a->checked.back()));
    a->largest = std::max(a->largest, fabs(a->right.back()));
  }
}

template <class Call> double median_ms(Call call) {
  double times[RUNS];
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  for (int i = -3; i < RUNS; i++) {
    float ms;
    cudaEventRecord(start);
    call();
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    cudaEventElapsedTime(&ms, start, stop);
    times[std::max(i, 0)] = ms;
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  std::sort(times, times + RUNS);
  return times[RUNS / 2];
}

/* Prints a line; false if the gradient is wrong. */
template <class Call> bool time_weights(const problem &a, const char *name, double bound, Call call) {
  cudaMemset(a.gradient, 255, a.own.layer.parameters * 4);
  cudaMemset(a.leaves, 255, (size_t)512 << 20);
  const double ms = median_ms(call);
  std::vector<float> found(a.own.layer.parameters);
  cudaMemcpy(found.data(), a.gradient, found.size() * 4, cudaMemcpyDeviceToHost);
  double error = 0;
  for (size_t i = 0; i < a.checked.size(); i++) {
    const double off = fabs(found[a.checked[i]] - a.right[i]) / a.largest;
    error = off <= error ? error : off; /* NaN, too */
  }
  for (const float weight : found)
    if (!isfinite(weight))
      error = NAN;
  const double flop = 2.0 * a.dz.size() * a.s.c * a.s.r * a.s.r;
  printf("  weights %-12s %8.4f ms %7.2f TFLOP/s  error %.2e of the largest%s\n", name, ms, flop / ms * 1e-9, error,
         error <= bound ? "" : "  TOO MUCH");
  fflush(stdout);
  const cudaError_t failure = cudaGetLastError();
  if (failure != cudaSuccess)
    printf("  %s\n", cudaGetErrorString(failure));
  return error <= bound && failure == cudaSuccess;
}

bool time_tensor(const problem &a, const char *name, gconv_math math, double bound) {
  gconv_learn_tensor *tensor = NULL;
  gconv_learn_tensor_make(&a.own, a.s.n, math, &tensor);
  if (!tensor) {
    printf("  weights %-12s are not for it\n", name);
    return true;
  }
  const bool right = time_weights(
      a, name, bound, [&] { gconv_learn_cuda_tensor(tensor, a.device_x, a.device_dz, a.s.n, a.leaves, a.gradient, 0); });
  free(tensor);
  return right;
}

bool time_shape(const shape &s) {
  problem a = {};
  a.s = s;
  prepare(&a);
  printf("%dx%dx%dx%d -> %d, %dx%d, stride %d, padding %d\n", s.n, s.c, s.h, s.w, s.k, s.r, s.r, s.stride, s.pad);
  bool right = time_weights(a, "exact", 1e-5, [&] {
    const int64_t leaves = gconv_learn_leaves(&a.own, s.n);
    gconv_learn_cuda_weights(&a.own, a.device_x, a.device_dz, s.n, a.leaves, 0);
    gconv_learn_cuda_tree(a.leaves, 1, leaves, (int64_t)a.own.layer.parameters, a.gradient, 0);
  });
  right &= time_tensor(a, "float32", GCONV_MATH_FP32, 1e-5);
  right &= time_tensor(a, "tf32", GCONV_MATH_TF32, 2e-3);
  cudaFree(a.device_x);
  cudaFree(a.device_dz);
  cudaFree(a.leaves);
  cudaFree(a.gradient);
  return right;
}

} // namespace

int main(int count, char **words) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    fprintf(stderr, "there is no GPU\n");
    return 77;
  }
  std::vector<shape> shapes(BUILTIN, BUILTIN + sizeof BUILTIN / sizeof BUILTIN[0]);
  if (count > 1) {
    shapes.clear();
    FILE *file = fopen(words[1], "r");
    shape s;
    while (file && fscanf(file, "%d %d %d %d %d %d %d %d", &s.n, &s.c, &s.h, &s.w, &s.k, &s.r, &s.stride, &s.pad) == 8)
      shapes.push_back(s);
    if (file)
      fclose(file);
  }
  bool right = !shapes.empty();
  for (const shape &s : shapes)
    right &= time_shape(s);
  return right ? 0 : 1;
}
