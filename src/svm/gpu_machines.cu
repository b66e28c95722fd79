/* SPDX-License-Identifier: MIT */
/* Trains many machines at a time, each with its whole matrix, by a block of threads. */
#include "kernels/cuda/svm/pairs.h"
#include "svm/gpu_parts.h"

#include <algorithm>
#include <stdlib.h>
#include <string.h>

namespace {

/* The machines that are on the device at the same time. */
struct batch {
  gconv_svm_gpu_room matrices, numbers, members, squares, machines, ends;
};

void free_batch(batch *b) {
  gconv_svm_gpu_room *rooms[] = {&b->matrices, &b->numbers, &b->members, &b->squares, &b->machines, &b->ends};
  for (gconv_svm_gpu_room *room : rooms)
    gconv_svm_gpu_release(room);
}

size_t floats_of(const gconv_svm_gpu_pair *pair) {
  return pair->count * gconv_svm_padded(pair->count);
}

/* The parts of a batch in host memory. */
struct filled {
  uint32_t *members;
  double *numbers; /* diagonals, then b, then g */
  gconv_svm_gpu_square *squares;
  gconv_svm_gpu_machine *machines;
  gconv_svm_gpu_end *ends;
};

void free_filled(filled *f) {
  free(f->members);
  free(f->numbers);
  free(f->squares);
  free(f->machines);
  free(f->ends);
}

gconv_status allocate(const gconv_svm_gpu *gpu, size_t count, size_t variables, size_t floats, batch *b, filled *f) {
  GCONV_TRY(gconv_svm_gpu_need(gpu, floats * sizeof(float), "kernel values", &b->matrices));
  GCONV_TRY(gconv_svm_gpu_need(gpu, 3 * variables * sizeof(double), "variables", &b->numbers));
  GCONV_TRY(gconv_svm_gpu_need(gpu, variables * sizeof(uint32_t), "variables", &b->members));
  GCONV_TRY(gconv_svm_gpu_need(gpu, count * sizeof(gconv_svm_gpu_square), "machines", &b->squares));
  GCONV_TRY(gconv_svm_gpu_need(gpu, count * sizeof(gconv_svm_gpu_machine), "machines", &b->machines));
  GCONV_TRY(gconv_svm_gpu_need(gpu, count * sizeof(gconv_svm_gpu_end), "machines", &b->ends));
  f->members = (uint32_t *)malloc(variables * sizeof *f->members);
  f->numbers = (double *)malloc(3 * variables * sizeof *f->numbers);
  f->squares = (gconv_svm_gpu_square *)malloc(count * sizeof *f->squares);
  f->machines = (gconv_svm_gpu_machine *)malloc(count * sizeof *f->machines);
  f->ends = (gconv_svm_gpu_end *)malloc(count * sizeof *f->ends);
  return f->members && f->numbers && f->squares && f->machines && f->ends
             ? GCONV_OK
             : gconv_fail(GCONV_NO_MEMORY, "no memory for %zu machines", count);
}

void describe(const gconv_svm_gpu_pair *pairs, size_t count, size_t variables, double tolerance, const batch &b, filled *f) {
  size_t at = 0, floats = 0;
  double *const numbers = (double *)b.numbers.memory;
  for (size_t i = 0; i < count; i++) {
    const gconv_svm_gpu_pair *pair = &pairs[i];
    const uint32_t pitch = (uint32_t)gconv_svm_padded(pair->count), all = (uint32_t)pair->count;
    float *matrix = (float *)b.matrices.memory + floats;
    for (size_t k = 0; k < pair->count; k++)
      f->members[at + k] = (uint32_t)pair->members[k];
    memcpy(f->numbers + at, pair->diagonal, pair->count * sizeof(double));
    f->squares[i] = {(const uint32_t *)b.members.memory + at, all, pitch, matrix};
    f->machines[i] = {all,
                      pitch,
                      matrix,
                      numbers + at,
                      (uint32_t)pair->first,
                      pair->first_cost,
                      pair->second_cost,
                      numbers + variables + at,
                      numbers + 2 * variables + at,
                      tolerance,
                      gconv_svm_most_steps(pair->count)};
    at += pair->count;
    floats += floats_of(pair);
  }
}

gconv_status run(gconv_svm_gpu *gpu, size_t count, size_t variables, size_t most, const batch &b, filled *f) {
  const cudaStream_t stream = gpu->stream;
  CUDA_TRY(cudaMemcpyAsync(b.members.memory, f->members, variables * sizeof(uint32_t), cudaMemcpyHostToDevice, stream));
  CUDA_TRY(cudaMemcpyAsync(b.numbers.memory, f->numbers, variables * sizeof(double), cudaMemcpyHostToDevice, stream));
  CUDA_TRY(cudaMemcpyAsync(b.squares.memory, f->squares, count * sizeof *f->squares, cudaMemcpyHostToDevice, stream));
  CUDA_TRY(cudaMemcpyAsync(b.machines.memory, f->machines, count * sizeof *f->machines, cudaMemcpyHostToDevice, stream));
  gconv_svm_gpu_squares(&gpu->formula, &gpu->own.cases, (const gconv_svm_gpu_square *)b.squares.memory, count, most, stream);
  CUDA_TRY(cudaGetLastError());
  gconv_svm_gpu_solve_machines((const gconv_svm_gpu_machine *)b.machines.memory, (gconv_svm_gpu_end *)b.ends.memory, count,
                               most, stream);
  CUDA_TRY(cudaGetLastError());
  CUDA_TRY(cudaMemcpyAsync(f->numbers + variables, (double *)b.numbers.memory + variables, 2 * variables * sizeof(double),
                           cudaMemcpyDeviceToHost, stream));
  CUDA_TRY(cudaMemcpyAsync(f->ends, b.ends.memory, count * sizeof *f->ends, cudaMemcpyDeviceToHost, stream));
  return CUDA_STATUS(cudaStreamSynchronize(stream));
}

gconv_status solve_some(gconv_svm_gpu *gpu, gconv_svm_gpu_pair *pairs, size_t count, double tolerance, batch *b) {
  size_t variables = 0, floats = 0, most = 0;
  filled f = {};
  for (size_t i = 0; i < count; i++) {
    variables += pairs[i].count;
    floats += floats_of(&pairs[i]);
    most = std::max(most, pairs[i].count);
  }
  gconv_status status = allocate(gpu, count, variables, floats, b, &f);
  if (status == GCONV_OK) {
    describe(pairs, count, variables, tolerance, *b, &f);
    status = run(gpu, count, variables, most, *b, &f);
  }
  size_t at = variables;
  for (size_t i = 0; i < count && status == GCONV_OK; i++) {
    gconv_svm_gpu_pair *pair = &pairs[i];
    memcpy(pair->b, f.numbers + at, pair->count * sizeof(double));
    memcpy(pair->g, f.numbers + variables + at, pair->count * sizeof(double));
    pair->largest = f.ends[i].largest;
    pair->smallest = f.ends[i].smallest;
    pair->steps = f.ends[i].steps;
    pair->failed = f.ends[i].failed != 0;
    at += pair->count;
  }
  free_filled(&f);
  return status;
}

} // namespace

bool gconv_svm_gpu_takes(const gconv_svm_gpu *gpu, size_t variables) {
  gconv_cuda_guest guest(gpu->index);
  return gconv_svm_gpu_solves(variables);
}

gconv_status gconv_svm_gpu_solve_pairs(gconv_svm_gpu *gpu, gconv_svm_gpu_pair *pairs, size_t count, double tolerance,
                                       void (*done)(void *context, gconv_svm_gpu_pair *pair), void *context) {
  enum { AT_A_TIME = 4096 };
  batch b = {};
  gconv_status status = GCONV_OK;
  gconv_cuda_guest guest(gpu->index);
  const size_t room = gconv_svm_gpu_left() / 2 / sizeof(float);
  for (size_t first = 0; first < count && status == GCONV_OK;) {
    size_t some = 1, floats = floats_of(&pairs[first]);
    while (first + some < count && some < AT_A_TIME && floats + floats_of(&pairs[first + some]) <= room)
      floats += floats_of(&pairs[first + some++]);
    status = solve_some(gpu, pairs + first, some, tolerance, &b);
    for (size_t i = 0; i < some && status == GCONV_OK; i++)
      done(context, &pairs[first + i]);
    first += some;
  }
  free_batch(&b);
  cudaGetLastError();
  return status;
}
