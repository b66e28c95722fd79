/* SPDX-License-Identifier: MIT */
/*
 * A fault of cicc, of CUDA 13.0, at -O1: two local arrays that are in use at the same time get the same place.
 *
 *     nvcc -std=c++17 -arch=sm_90 -ptx -Xcicc=-O1 cicc_o1.cu -o cicc_o1.ptx
 *
 * Behind the last barrier, permute<16>() reads `points` in each turn of its loop over j, and times_entry() writes its table
 * in between. In cicc_o1.ptx both are at the same offset from %SPL (docs/lab/cicc.md). At -O3 there are no local arrays.
 */
template <int N> struct table {
  float value[2 * N] = {};
  __host__ __device__ constexpr table() {
    for (int i = 0; i < 2 * N; i++)
      value[i] = 1 + 0.125f * (float)i;
  }
};

template <int N> static __device__ __forceinline__ float2 times_entry(float2 a, int e) {
  constexpr table<N> entries;
  e = e % N;
  if (e == 0)
    return a;
  return make_float2(a.x * entries.value[e], a.y * entries.value[N + e]);
}

/* x[k + 4 l] = x[Q k + l], multiplied by entry k * l. */
template <int Q> static __device__ __forceinline__ void permute(float2 (&x)[4 * Q]) {
  float2 turned[4][Q];
  for (int j = 0; j < Q; j++) {
    float2 y[4];
    for (int i = 0; i < 4; i++)
      y[i] = x[Q * i + j];
    for (int k = 0; k < 4; k++)
      turned[k][j] = times_entry<4 * Q>(y[k], j * k);
  }
  for (int k = 0; k < 4; k++)
    for (int l = 0; l < Q; l++)
      x[k + 4 * l] = turned[k][l];
}

static __device__ __forceinline__ void first_pass(const float2 *in, float2 *line) {
  float2 points[8];
  for (int i = 0; i < 8; i++)
    points[i] = in[i];
  permute<2>(points);
  for (int i = 0; i < 8; i++)
    line[i] = points[i];
}

__global__ void convert(const float2 *in, float2 *out) {
  extern __shared__ float2 line[];
  for (int task = threadIdx.x; task < 512; task += 256)
    first_pass(in + 8 * task, line + 8 * task);
  __syncthreads();
  float2 points[16];
  for (int i = 0; i < 16; i++)
    points[i] = line[16 * threadIdx.x + i];
  permute<4>(points);
  for (int i = 0; i < 16; i++)
    out[16 * threadIdx.x + i] = points[i];
}
