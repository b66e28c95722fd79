/* SPDX-License-Identifier: MIT */
/*
 * exponentials_as_floats() of svm_tiles.cuh rounds as exponential() does: a billion values for each gamma, half of them
 * evenly from e^-88 to 1, half crowded towards 1; and the values at the ends. Without its margin, some 90 of a billion
 * differ.
 */
#include "kernels/cuda/svm/tiles.cuh"

#include "cuda_test.h"

enum { BLOCKS_OF_TEST = 2048, THREADS_OF_TEST = 256, EACH = 2000 };

struct counts {
  unsigned long long values, different, zeros, ones;
};

static __global__ void compare(double gamma, counts *all) {
  __shared__ double powers[svm_tiles::POWERS];
  unsigned long long state = blockIdx.x * THREADS_OF_TEST + threadIdx.x;
  counts own = {};
  if (threadIdx.x < svm_tiles::POWERS)
    powers[threadIdx.x] = svm_tiles::power_of(threadIdx.x);
  __syncthreads();
  for (int i = 0; i < EACH; i += 2) {
    double distances[2];
    float values[2];
    for (int l = 0; l < 2; l++) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const double part = (double)(state >> 11) / 9007199254740992.0;
      const double x = i == 0 ? (l == 0 ? 0 : 1e300) : l == 0 ? 88 * part : part * part * part * part;
      distances[l] = gamma == 0 ? x : x / fabs(gamma);
    }
    svm_tiles::exponentials_as_floats(distances, gamma, powers, values);
    for (int l = 0; l < 2; l++) {
      own.values++;
      own.different += __float_as_uint(values[l]) != __float_as_uint((float)svm_tiles::exponential(distances[l] * -gamma));
      own.zeros += values[l] == 0;
      own.ones += values[l] == 1;
    }
  }
  atomicAdd(&all->values, own.values);
  atomicAdd(&all->different, own.different);
  atomicAdd(&all->zeros, own.zeros);
  atomicAdd(&all->ones, own.ones);
}

int main() {
  int devices = 0, status = EXIT_SUCCESS;
  counts *all;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    printf("no GPU\n");
    return SKIPPED;
  }
  CUDA(cudaMalloc(&all, sizeof *all));
  for (double gamma : {0.002, 0.03, 16.0, 1e-9, 0.0, -0.01}) {
    counts c;
    CUDA(cudaMemset(all, 0, sizeof *all));
    compare<<<BLOCKS_OF_TEST, THREADS_OF_TEST>>>(gamma, all);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(&c, all, sizeof c, cudaMemcpyDeviceToHost));
    printf("gamma %g: %llu of %llu differ; %llu are 0, %llu are 1\n", gamma, c.different, c.values, c.zeros, c.ones);
    if (c.different > 0 || c.values == 0 ||
        (gamma > 0 && (c.zeros == 0 || c.zeros > c.values / 50 || c.ones > c.values / 50)))
      status = EXIT_FAILURE;
  }
  CUDA(cudaFree(all));
  return status;
}
