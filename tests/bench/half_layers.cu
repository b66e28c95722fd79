/* SPDX-License-Identifier: MIT */
/*
 * Times layers whose input and output are float16, N x H x W x C, as networks keep them with --math fp16: a line a layer,
 * with the median milliseconds and TFLOP/s, and the largest error at some outputs as a part of the largest output.
 *
 *     bench_half_layers [--warm]      # beside tests/bench/against_cudnn.py [--warm], on the same machine
 *
 * Each run is of another input and output, so that no cache holds any of them; with --warm, of the same. Channels are filled
 * up to a multiple of 16. Exit status: 0, 1 if it failed or an error is above 2^-8, 77 without a GPU that has the algorithm.
 */
#include "kernels/layer_algorithm.h"

#include <algorithm>
#include <cuda_fp16.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

namespace {

struct shape {
  int n, c, h, w, k, r, stride, pad;
};
constexpr shape SHAPES[] = {
    {32, 3, 224, 224, 64, 7, 2, 3},  {32, 64, 56, 56, 64, 3, 1, 1},   {32, 128, 28, 28, 128, 3, 1, 1},
    {32, 256, 14, 14, 256, 3, 1, 1}, {32, 512, 7, 7, 512, 3, 1, 1},   {32, 64, 56, 56, 256, 1, 1, 0},
    {16, 3, 224, 224, 64, 3, 1, 1},  {16, 64, 224, 224, 64, 3, 1, 1}, {8, 3, 512, 512, 64, 11, 4, 2},
    {10, 4, 128, 128, 10, 16, 1, 0}, {10, 4, 256, 256, 10, 32, 1, 0}, {256, 3, 128, 128, 128, 8, 1, 0},
    {10, 3, 128, 128, 3, 64, 1, 0},  {1, 3, 2160, 3840, 16, 5, 1, 2}, {1, 3, 2160, 3840, 32, 9, 1, 4}};
enum { RUNS = 20, CHECKED = 500, MOST_COPIES = 64 };
constexpr size_t ROTATED_BYTES = (size_t)256 << 20; /* as in src/layer/network_measure.cu */

float draw(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (float)((double)(*state * UINT64_C(2685821657736338717) >> 40) * 0x1p-23 - 1);
}

__global__ void be_busy() {
  for (const int64_t begin = clock64(); clock64() - begin < 200000;)
    ;
}

gconv_layer_problem problem_of(const shape &s) {
  gconv_layer_problem p = {};
  p.images = s.n, p.channels = s.c, p.height = s.h, p.width = s.w, p.filters = s.k, p.rows = p.columns = s.r;
  p.groups = p.dilation_y = p.dilation_x = 1;
  p.pad_top = p.pad_left = s.pad, p.stride_y = p.stride_x = s.stride;
  p.out_height = (s.h + 2 * s.pad - s.r) / s.stride + 1, p.out_width = (s.w + 2 * s.pad - s.r) / s.stride + 1;
  p.math = GCONV_MATH_FP16, p.in_kept = p.out_kept = true;
  p.workspace_limit = (size_t)1 << 30;
  return p;
}

/* Returns the largest error at some outputs, as a part of the largest of them. */
double error_of(const shape &s, const gconv_layer_problem &p, const std::vector<float> &weights,
                const std::vector<__half> &in, const std::vector<__half> &out) {
  const size_t in_c = (size_t)gconv_layer_kept_channels(s.c), out_c = (size_t)gconv_layer_kept_channels(s.k);
  uint64_t state = 5;
  double largest = 0, error = 0;
  for (int i = 0; i < CHECKED; i++) {
    draw(&state);
    const size_t at = state % ((size_t)s.n * p.out_height * p.out_width), q = at % p.out_width;
    const size_t y = at / p.out_width % p.out_height, n = at / p.out_width / p.out_height, k = (state >> 40) % s.k;
    double sum = weights[(size_t)s.k * s.c * s.r * s.r + k];
    for (int c = 0; c < s.c; c++)
      for (int r = 0; r < s.r; r++)
        for (int t = 0; t < s.r; t++) {
          const int row = (int)y * s.stride - s.pad + r, column = (int)q * s.stride - s.pad + t;
          if (row >= 0 && row < s.h && column >= 0 && column < s.w)
            sum += (double)weights[((k * s.c + c) * s.r + r) * s.r + t] *
                   (double)__half2float(in[((n * s.h + row) * s.w + column) * in_c + c]);
        }
    const double got = __half2float(out[at * out_c + k]);
    largest = std::max(largest, fabs(sum));
    error = got == got ? std::max(error, fabs(got - sum)) : INFINITY;
  }
  return error / largest;
}

bool time_shape(const gconv_layer_algorithm *algorithm, const shape &s, bool warm) {
  const gconv_layer_problem p = problem_of(s);
  printf("%3d %3d %4d %4d %3d %2d %d %d | ", s.n, s.c, s.h, s.w, s.k, s.r, s.stride, s.pad);
  if (const char *obstacle = algorithm->supports(&p)) {
    printf("refused: %s\n", obstacle);
    return true;
  }
  const size_t in_c = (size_t)gconv_layer_kept_channels(s.c);
  const size_t in_bytes = (size_t)s.n * (size_t)gconv_layer_in_bytes(&p),
               out_bytes = (size_t)s.n * (size_t)gconv_layer_out_bytes(&p);
  const size_t plain = (size_t)gconv_layer_weight_floats(&p), floats = plain + algorithm->prepared_floats(&p);
  std::vector<float> weights(floats);
  std::vector<__half> in(in_bytes / 2), out(out_bytes / 2);
  uint64_t state = 1;
  for (size_t i = 0; i < (size_t)s.k * ((size_t)s.c * s.r * s.r + 1); i++)
    weights[i] = draw(&state);
  for (size_t i = 0; i < in.size(); i++)
    in[i] = __float2half(i % in_c < (size_t)s.c ? draw(&state) : 0);
  algorithm->prepare(&p, weights.data(), weights.data() + plain);
  const int copies = warm ? 1 : (int)std::min<size_t>(ROTATED_BYTES / std::min(in_bytes, out_bytes) + 1, MOST_COPIES);
  void *ins[MOST_COPIES], *outs[MOST_COPIES];
  float *there;
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaMalloc(&there, floats * sizeof(float));
  cudaMemcpy(there, weights.data(), floats * sizeof(float), cudaMemcpyHostToDevice);
  for (int i = 0; i < copies; i++) {
    cudaMalloc(&ins[i], in_bytes), cudaMalloc(&outs[i], out_bytes);
    cudaMemcpy(ins[i], in.data(), in_bytes, cudaMemcpyHostToDevice);
  }
  gconv_layer_execution e = {};
  e.problem = &p, e.weights = there, e.stream = stream;
  bool good = algorithm->acquire(&e, &e.state) == GCONV_OK;
  std::vector<float> times;
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  for (int i = -3; i < RUNS && good; i++) {
    float ms = 0;
    e.in = (const float *)ins[(i + 3) % copies], e.out = (float *)outs[(i + 3) % copies];
    be_busy<<<1, 1, 0, stream>>>();
    cudaEventRecord(begin, stream);
    good = algorithm->execute(&e) == GCONV_OK;
    cudaEventRecord(end, stream);
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&ms, begin, end);
    if (i >= 0)
      times.push_back(ms);
  }
  cudaMemcpy(out.data(), e.out, out_bytes, cudaMemcpyDeviceToHost);
  good = good && cudaDeviceSynchronize() == cudaSuccess;
  const double error = good ? error_of(s, p, weights, in, out) : INFINITY;
  std::sort(times.begin(), times.end());
  const double flop = 2.0 * s.n * s.k * s.c * s.r * s.r * p.out_height * p.out_width, ms = good ? times[RUNS / 2] : 0;
  printf("fp16 %8.4f ms %6.1f TFLOP/s  error %.1e%s\n", ms, flop / ms / 1e9, error, error < 0x1p-8 ? "" : "  WRONG");
  for (int i = 0; i < copies; i++)
    cudaFree(ins[i]), cudaFree(outs[i]);
  algorithm->dismiss(e.state);
  cudaFree(there);
  cudaEventDestroy(begin), cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  return error < 0x1p-8;
}

} // namespace

int main(int count, char **words) {
  const gconv_layer_algorithm *row = NULL;
  bool good = true;
  for (size_t i = 0; (row = gconv_layer_algorithm_row(i)) && !row->keeps; i++)
    ;
  if (!row || row->available()) {
    printf("no GPU that keeps tensors in 16 bits\n");
    return 77;
  }
  for (const shape &s : SHAPES)
    good = time_shape(row, s, count > 1 && strcmp(words[1], "--warm") == 0) && good;
  return good ? 0 : 1;
}
