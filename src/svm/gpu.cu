/* SPDX-License-Identifier: MIT */
/*
 * Support vector machines on a GPU: cases, rows of the kernel matrix, and the rounds of the solver. A round solves a working
 * set of a few variables: it copies the set to the device in one piece, and waits once, for the variables and the gradients.
 * Memory is allocated when a matrix is created, not in rounds.
 */
#include "kernels/cuda/svm/pairs.h"
#include "svm/gpu_parts.h"

#include <algorithm>
#include <stdlib.h>
#include <string.h>

/* ---- Cases ---- */

gconv_status gconv_svm_gpu_need(const gconv_svm_gpu *gpu, size_t bytes, const char *what, gconv_svm_gpu_room *room) {
  if (bytes <= room->bytes)
    return GCONV_OK;
  gconv_svm_gpu_release(room);
  GCONV_TRY(gconv_cuda_allocate(gpu->device, bytes, what, &room->memory));
  room->bytes = bytes;
  return GCONV_OK;
}

void gconv_svm_gpu_release(gconv_svm_gpu_room *room) {
  cudaFree(room->memory);
  *room = {};
}

size_t gconv_svm_gpu_left(void) {
  size_t left = 0, all = 0;
  if (cudaMemGetInfo(&left, &all) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return left;
}

gconv_status gconv_svm_gpu_put(gconv_svm_gpu *gpu, const gconv_svm_row *rows, size_t count, gconv_svm_gpu_own *own) {
  enum { PART_FLOATS = 4 << 20 }; /* the most floats of dense rows that are copied at a time, unless one row has more */
  const size_t multiple = GCONV_SVM_GPU_COLUMNS, pitch = (gpu->columns + multiple - 1) / multiple * multiple;
  const size_t part = std::max<size_t>(PART_FLOATS / pitch, 1), most = std::min(part, count);
  if (pitch > SIZE_MAX / sizeof(float) / (count + 1))
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu cases", count);
  GCONV_TRY(gconv_svm_gpu_need(gpu, (count * pitch + 1) * sizeof(float), "the cases", &own->numbers));
  GCONV_TRY(gconv_svm_gpu_need(gpu, (count + 1) * sizeof(double), "the cases", &own->norms));
  float *numbers = (float *)malloc((most * pitch + 1) * sizeof *numbers);
  double *norms = (double *)malloc((count + 1) * sizeof *norms);
  cudaError_t error = numbers && norms ? cudaSuccess : cudaErrorMemoryAllocation;
  for (size_t first = 0; first < count && error == cudaSuccess; first += part) {
    const size_t some = std::min(part, count - first);
    memset(numbers, 0, some * pitch * sizeof *numbers);
    for (size_t i = 0; i < some; i++) {
      const gconv_svm_row *row = &rows[first + i];
      for (size_t k = 0; k < row->count; k++)
        numbers[i * pitch + row->columns[k]] = row->values[k];
      norms[first + i] = row->norm;
    }
    error = cudaMemcpyAsync((float *)own->numbers.memory + first * pitch, numbers, some * pitch * sizeof *numbers,
                            cudaMemcpyHostToDevice, gpu->stream);
    if (error == cudaSuccess)
      error = cudaStreamSynchronize(gpu->stream); /* `numbers` are overwritten next */
  }
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(own->norms.memory, norms, count * sizeof *norms, cudaMemcpyHostToDevice, gpu->stream);
  if (error == cudaSuccess)
    error = cudaStreamSynchronize(gpu->stream);
  free(numbers);
  free(norms);
  CUDA_TRY(error);
  own->cases = {(const float *)own->numbers.memory, (const double *)own->norms.memory, count, pitch};
  return GCONV_OK;
}

gconv_status gconv_svm_gpu_create(gconv_device *device, const gconv_svm_formula *formula, const gconv_svm_row *rows,
                                  size_t count, size_t columns, gconv_svm_gpu **made) {
  gconv_svm_gpu *gpu = (gconv_svm_gpu *)calloc(1, sizeof *gpu);
  *made = NULL;
  GCONV_NEED_MEMORY(gpu, "no memory for a support vector machine");
  gpu->device = device;
  gpu->index = device->index;
  gpu->formula = *formula;
  gpu->columns = columns;
  gconv_cuda_guest guest(device->index);
  const cudaError_t error = cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking);
  gconv_status status = error == cudaSuccess ? GCONV_OK : gconv_cuda_failure(error, "the stream", __FILE__, __LINE__);
  GCONV_THEN(status, gconv_svm_gpu_put(gpu, rows, count, &gpu->own));
  if (status == GCONV_OK)
    *made = gpu;
  else
    gconv_svm_gpu_free(gpu);
  return status;
}

void gconv_svm_gpu_free(gconv_svm_gpu *gpu) {
  if (!gpu)
    return;
  gconv_cuda_guest guest(gpu->index);
  if (gpu->stream)
    cudaStreamSynchronize(gpu->stream);
  gconv_svm_gpu_room *rooms[] = {&gpu->own.numbers, &gpu->own.norms, &gpu->rows.numbers, &gpu->rows.norms,
                                 &gpu->begins,      &gpu->by_vector, &gpu->values,       &gpu->sums};
  for (gconv_svm_gpu_room *room : rooms)
    gconv_svm_gpu_release(room);
  if (gpu->stream)
    cudaStreamDestroy(gpu->stream);
  cudaGetLastError();
  free(gpu);
}

/* ---- Matrices ---- */

/* Where the numbers of a round lie: offsets in bytes, the same in the host's staging memory and in device memory. */
struct parts {
  size_t numbers; /* doubles: diagonal, low, high, F and b, one after the other, each padded */
  size_t by;      /* doubles: by how much the variables changed */
  size_t steps;   /* uint64_t: steps of the solver; then a uint32_t: how many variables changed */
  size_t rows;    /* pointers to the rows of the variables */
  size_t moved;   /* pointers to the rows of the variables that changed */
  size_t columns; /* uint32_t: the member of each variable, a column of the kernel matrix */
  size_t bytes;
};

struct gconv_svm_gpu_matrix {
  gconv_svm_gpu *gpu;
  size_t count, padded, working, slots;
  uint32_t *cases; /* owned: the case of each member; `members` has a copy in device memory */
  gconv_svm_gpu_room rows, members, g, block, round, digit_memory;
  gconv_svm_gpu_digits digits; /* the members as digits (rows.h), if make_digits() makes them */
  bool borrowed;               /* the memory of the rows is owned by the lender (gconv_svm_gpu_order) */
  parts at;
  uint8_t *staged; /* pinned host memory, at.bytes */
};

static parts lay_out(size_t working) {
  const size_t padded = gconv_svm_padded(working);
  parts at = {};
  at.by = at.numbers + 5 * padded * sizeof(double);
  at.steps = at.by + padded * sizeof(double);
  at.rows = at.steps + 2 * sizeof(uint64_t);
  at.moved = at.rows + padded * sizeof(float *);
  at.columns = at.moved + padded * sizeof(float *);
  at.bytes = at.columns + padded * sizeof(uint32_t);
  return at;
}

static gconv_status allocate_rows(gconv_svm_gpu_matrix *m, const gconv_svm_gpu_order *order) {
  const size_t row = m->padded * sizeof(float);
  const size_t bytes = order->lender        ? order->lender->rows.bytes
                       : order->cache_bytes ? (size_t)order->cache_bytes
                                            : gconv_svm_gpu_left() / 2;
  m->slots = std::min(std::max(bytes / row, order->slots), m->count);
  m->borrowed = order->lender && m->slots * row <= order->lender->rows.bytes;
  if (m->borrowed)
    m->rows = order->lender->rows;
  else
    GCONV_TRY(gconv_svm_gpu_need(m->gpu, m->slots * row, "the cache of kernel values", &m->rows));
  return GCONV_OK;
}

/* Makes the digits of the members if rows are faster to compute from them, and if a quarter of the free memory suffices. */
static gconv_status make_digits(gconv_svm_gpu_matrix *m) {
  const gconv_svm_gpu *gpu = m->gpu;
  const gconv_svm_formula *formula = &gpu->formula;
  const size_t pitch = gpu->own.cases.pitch;
  if (formula->form != GCONV_SVM_FORM_EXP || formula->direct || !gconv_svm_gpu_digits_pay(m->working, m->count, pitch))
    return GCONV_OK;
  const size_t bytes = gconv_svm_gpu_digits_bytes(m->count, m->working, pitch);
  if (bytes == 0 || bytes > gconv_svm_gpu_left() / 4)
    return GCONV_OK;
  GCONV_TRY(gconv_svm_gpu_need(gpu, bytes, "the digits of cases", &m->digit_memory));
  CUDA_TRY(gconv_svm_gpu_digits_make(formula, &gpu->own.cases, (const uint32_t *)m->members.memory, m->count, m->working,
                                     m->digit_memory.memory, gpu->stream, &m->digits));
  if (!m->digits.serve)
    gconv_svm_gpu_release(&m->digit_memory);
  return GCONV_OK;
}

static gconv_status fill(gconv_svm_gpu_matrix *m, const gconv_svm_gpu_order *order) {
  const size_t pitch = gconv_svm_padded(m->working);
  m->at = lay_out(m->working);
  GCONV_TRY(gconv_svm_gpu_need(m->gpu, m->count * sizeof(uint32_t), "the cases", &m->members));
  GCONV_TRY(gconv_svm_gpu_need(m->gpu, m->padded * sizeof(double), "gradients", &m->g));
  GCONV_TRY(gconv_svm_gpu_need(m->gpu, m->working * pitch * sizeof(float), "a working set", &m->block));
  GCONV_TRY(gconv_svm_gpu_need(m->gpu, m->at.bytes, "a working set", &m->round));
  GCONV_TRY(allocate_rows(m, order));
  CUDA_TRY(cudaHostAlloc((void **)&m->staged, m->at.bytes, cudaHostAllocDefault));
  m->cases = (uint32_t *)malloc(m->count * sizeof *m->cases);
  GCONV_NEED_MEMORY(m->cases, "no memory for %zu cases", m->count);
  for (size_t i = 0; i < m->count; i++)
    m->cases[i] = (uint32_t)order->members[i];
  CUDA_TRY(
      cudaMemcpyAsync(m->members.memory, m->cases, m->count * sizeof *m->cases, cudaMemcpyHostToDevice, m->gpu->stream));
  CUDA_TRY(cudaStreamSynchronize(m->gpu->stream));
  return make_digits(m);
}

gconv_status gconv_svm_gpu_matrix_create(gconv_svm_gpu *gpu, const gconv_svm_gpu_order *order, gconv_svm_gpu_matrix **made) {
  gconv_svm_gpu_matrix *m = (gconv_svm_gpu_matrix *)calloc(1, sizeof *m);
  *made = NULL;
  GCONV_NEED_MEMORY(m, "no memory for a kernel matrix");
  m->gpu = gpu;
  m->count = order->count;
  m->padded = gconv_svm_padded(order->count);
  m->working = order->working;
  gconv_cuda_guest guest(gpu->index);
  const gconv_status status = fill(m, order);
  if (status == GCONV_OK)
    *made = m;
  else
    gconv_svm_gpu_matrix_free(m);
  return status;
}

void gconv_svm_gpu_matrix_free(gconv_svm_gpu_matrix *m) {
  if (!m)
    return;
  gconv_cuda_guest guest(m->gpu->index);
  cudaStreamSynchronize(m->gpu->stream);
  if (!m->borrowed)
    gconv_svm_gpu_release(&m->rows);
  gconv_svm_gpu_release(&m->members);
  gconv_svm_gpu_release(&m->g);
  gconv_svm_gpu_release(&m->block);
  gconv_svm_gpu_release(&m->round);
  gconv_svm_gpu_release(&m->digit_memory);
  cudaFreeHost(m->staged);
  free(m->cases);
  cudaGetLastError();
  free(m);
}

size_t gconv_svm_gpu_matrix_slots(const gconv_svm_gpu_matrix *matrix) {
  return matrix->slots;
}

static float *row_at(const gconv_svm_gpu_matrix *m, size_t slot) {
  return (float *)m->rows.memory + slot * m->padded;
}

/* Copies the staged bytes from .. to - 1 to the device. */
static cudaError_t send(const gconv_svm_gpu_matrix *m, size_t from, size_t to) {
  return cudaMemcpyAsync((uint8_t *)m->round.memory + from, m->staged + from, to - from, cudaMemcpyHostToDevice,
                         m->gpu->stream);
}

gconv_status gconv_svm_gpu_matrix_make(gconv_svm_gpu_matrix *m, const uint32_t *members, const uint32_t *slots,
                                       size_t count) {
  uint8_t *device = (uint8_t *)m->round.memory;
  gconv_cuda_guest guest(m->gpu->index);
  for (size_t first = 0; first < count;) {
    const size_t some = std::min(count - first, m->working);
    uint32_t *wanted = (uint32_t *)(m->staged + m->at.columns);
    float **rows = (float **)(m->staged + m->at.rows);
    for (size_t k = 0; k < some; k++) {
      wanted[k] = m->cases[members[first + k]];
      rows[k] = row_at(m, slots[first + k]);
    }
    CUDA_TRY(send(m, m->at.rows, m->at.bytes));
    gconv_svm_gpu_rows(&m->gpu->formula, &m->gpu->own.cases, (const uint32_t *)(device + m->at.columns),
                       (float *const *)(device + m->at.rows), some, (const uint32_t *)m->members.memory, m->count,
                       &m->digits, m->gpu->stream);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaStreamSynchronize(m->gpu->stream)); /* the staged bytes may now be overwritten */
    first += some;
  }
  return GCONV_OK;
}

gconv_status gconv_svm_gpu_matrix_begin(gconv_svm_gpu_matrix *m, const double *g) {
  gconv_cuda_guest guest(m->gpu->index);
  CUDA_TRY(cudaMemcpyAsync(m->g.memory, g, m->padded * sizeof *g, cudaMemcpyHostToDevice, m->gpu->stream));
  return CUDA_STATUS(cudaStreamSynchronize(m->gpu->stream));
}

/* Updates the gradients by the rows of the variables that changed, and copies them to the host. */
static gconv_status update(gconv_svm_gpu_matrix *m, double *g) {
  uint8_t *device = (uint8_t *)m->round.memory;
  gconv_svm_gpu_subtract((const float *const *)(device + m->at.moved), (const double *)(device + m->at.by),
                         (const uint32_t *)(device + m->at.steps + sizeof(uint64_t)), (double *)m->g.memory, m->padded,
                         m->gpu->stream);
  CUDA_TRY(cudaGetLastError());
  return CUDA_STATUS(cudaMemcpyAsync(g, m->g.memory, m->padded * sizeof *g, cudaMemcpyDeviceToHost, m->gpu->stream));
}

gconv_status gconv_svm_gpu_matrix_solve(gconv_svm_gpu_matrix *m, const gconv_svm_gpu_working *w, double *g) {
  const size_t padded = gconv_svm_padded(m->working), bytes = w->count * sizeof(double);
  uint8_t *device = (uint8_t *)m->round.memory;
  double *numbers = (double *)(m->staged + m->at.numbers);
  uint32_t *columns = (uint32_t *)(m->staged + m->at.columns);
  const float **rows = (const float **)(m->staged + m->at.rows);
  gconv_cuda_guest guest(m->gpu->index);
  const double *from[] = {w->diagonal, w->low, w->high, w->F, w->b};
  for (size_t i = 0; i < 5; i++)
    memcpy(numbers + i * padded, from[i], bytes);
  for (size_t k = 0; k < w->count; k++) {
    columns[k] = w->members[k];
    rows[k] = row_at(m, w->slots[k]);
  }
  CUDA_TRY(send(m, 0, m->at.bytes));
  double *const on_device = (double *)(device + m->at.numbers), *const b = on_device + 4 * padded;
  gconv_svm_gpu_small small = {};
  small.count = (uint32_t)w->count;
  small.rows = (const float *const *)(device + m->at.rows);
  small.columns = (const uint32_t *)(device + m->at.columns);
  small.block = (float *)m->block.memory;
  small.diagonal = on_device;
  small.low = on_device + padded;
  small.high = on_device + 2 * padded;
  small.F = on_device + 3 * padded;
  small.b = b;
  small.tolerance = w->tolerance;
  small.most = w->most;
  small.moved = (const float **)(device + m->at.moved);
  small.by = (double *)(device + m->at.by);
  small.steps = (uint64_t *)(device + m->at.steps);
  small.moved_count = (uint32_t *)(device + m->at.steps + sizeof(uint64_t));
  gconv_svm_gpu_solve_small(&small, m->gpu->stream);
  GCONV_TRY(update(m, g));
  CUDA_TRY(cudaMemcpyAsync(numbers + 4 * padded, b, m->at.rows - m->at.numbers - 4 * padded * sizeof(double),
                           cudaMemcpyDeviceToHost, m->gpu->stream));
  CUDA_TRY(cudaStreamSynchronize(m->gpu->stream));
  memcpy(w->b, numbers + 4 * padded, bytes);
  memcpy(w->steps, m->staged + m->at.steps, sizeof *w->steps);
  return GCONV_OK;
}

gconv_status gconv_svm_gpu_matrix_subtract(gconv_svm_gpu_matrix *m, const uint32_t *slots, const double *by, size_t count,
                                           double *g) {
  const uint32_t some = (uint32_t)count;
  gconv_cuda_guest guest(m->gpu->index);
  memcpy(m->staged + m->at.by, by, count * sizeof *by);
  memcpy(m->staged + m->at.steps + sizeof(uint64_t), &some, sizeof some);
  const float **rows = (const float **)(m->staged + m->at.moved);
  for (size_t k = 0; k < count; k++)
    rows[k] = row_at(m, slots[k]);
  CUDA_TRY(send(m, m->at.by, m->at.bytes));
  GCONV_TRY(update(m, g));
  return CUDA_STATUS(cudaStreamSynchronize(m->gpu->stream));
}
