/* SPDX-License-Identifier: MIT */
#include "device/cuda_error.h"
#include "kernels/cuda/svm/rows.h"
#include "rbf.h"

#include <algorithm>
#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const gconv_rbf_method methods[] = {
    {"rows", GCONV_RBF_ROW},    {"columns", GCONV_RBF_ROW},  {"float4", GCONV_RBF_ROW}, {"texture", GCONV_RBF_ROW},
    {"local", GCONV_RBF_ROW},   {"gconv", GCONV_RBF_MANY},   {"read", GCONV_RBF_READ},  {"arg-min", GCONV_RBF_MIN},
    {"arg-max", GCONV_RBF_MAX}, {"arg-both", GCONV_RBF_BOTH}};
enum { METHODS = sizeof methods / sizeof *methods, THREADS = 256, FULL_BLOCKS = 1024 };

extern "C" const gconv_rbf_method *gconv_rbf_method_at(size_t index) {
  return index < METHODS ? &methods[index] : NULL;
}

struct gconv_rbf {
  gconv_rbf_order order;
  size_t pitch; /* cases, padded to a multiple of 32; for gconv's own kernels: columns, padded */
  float *x, *query, *out;
  double *norms;
  uint32_t *wanted, *members;
  float **rows;
  void *digit_memory;
  gconv_svm_gpu_digits digits;
  float *partial_values; /* the smallest number of each block, then the largest of each */
  uint32_t *partial_places, *where;
  cudaTextureObject_t texture;
  cudaEvent_t begin, end;
};

namespace {

/* ---- A row ---- */

struct row_arguments {
  const float *x, *query;
  cudaTextureObject_t texture;
  size_t cases, pitch;
  int columns;
  float gamma;
  float *out;
};

__device__ float add_difference(float x, float q, float sum) {
  return fmaf(x - q, x - q, sum);
}
__device__ float add_difference(float4 x, float4 q, float sum) {
  const float a = x.x - q.x, b = x.y - q.y, c = x.z - q.z, d = x.w - q.w;
  return fmaf(d, d, fmaf(c, c, fmaf(b, b, fmaf(a, a, sum))));
}

/* Computes the kernel value of a thread's case i. load(i, k) returns number k of the case, or its k-th group of four. */
template <class Number, class Load> __device__ void make_value(const row_arguments &a, const Number *query, Load load) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  float sum = 0;
  if (i >= a.cases)
    return;
  for (int k = 0; k < a.columns / (int)(sizeof(Number) / sizeof(float)); k++)
    sum = add_difference(load(i, k), query[k], sum);
  a.out[i] = expf(-a.gamma * sum);
}

__global__ void by_rows(row_arguments a) {
  make_value(a, a.query, [&](size_t i, int k) { return a.x[i * a.columns + k]; });
}

__global__ void by_columns(row_arguments a) {
  make_value(a, a.query, [&](size_t i, int k) { return a.x[k * a.pitch + i]; });
}

__global__ void by_fours(row_arguments a) {
  make_value(a, (const float4 *)a.query, [&](size_t i, int k) { return ((const float4 *)a.x)[k * a.pitch + i]; });
}

__global__ void by_texture(row_arguments a) {
  make_value(a, (const float4 *)a.query,
             [&](size_t i, int k) { return tex1Dfetch<float4>(a.texture, (int)(k * a.pitch + i)); });
}

__global__ void by_local_memory(row_arguments a) {
  extern __shared__ float4 own[];
  for (int k = threadIdx.x; k < a.columns / 4; k += THREADS)
    own[k] = ((const float4 *)a.query)[k];
  __syncthreads();
  make_value(a, own, [&](size_t i, int k) { return ((const float4 *)a.x)[k * a.pitch + i]; });
}

/* The kernels of the first methods, in the order of `methods`. */
void (*const row_kernels[])(row_arguments) = {by_rows, by_columns, by_fours, by_texture, by_local_memory};
enum { BY_TEXTURE = 3, BY_LOCAL_MEMORY = 4 };

/* ---- Extrema ---- */

/* The smallest and the largest number so far. Of equal numbers, the first counts. */
struct extrema {
  float smallest, largest;
  uint32_t at_smallest, at_largest;
};

template <bool MIN, bool MAX>
__device__ void take(extrema &e, float small, uint32_t at_small, float large, uint32_t at_large) {
  if (MIN && (small < e.smallest || (small == e.smallest && at_small < e.at_smallest))) {
    e.smallest = small;
    e.at_smallest = at_small;
  }
  if (MAX && (large > e.largest || (large == e.largest && at_large < e.at_largest))) {
    e.largest = large;
    e.at_largest = at_large;
  }
}

/* Finds the extrema of a block; its first thread gets them. */
template <bool MIN, bool MAX> __device__ void reduce(extrema &e) {
  __shared__ extrema all[THREADS];
  all[threadIdx.x] = e;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if ((int)threadIdx.x < half) {
      const extrema other = all[threadIdx.x + half];
      take<MIN, MAX>(e, other.smallest, other.at_smallest, other.largest, other.at_largest);
      all[threadIdx.x] = e;
    }
  }
}

/* Stores the extrema of each block. Threads take four numbers at a time. */
template <bool MIN, bool MAX>
__global__ void __launch_bounds__(THREADS) find_parts(const float4 *g, size_t fours, float *values, uint32_t *places) {
  extrema e = {INFINITY, -INFINITY, UINT32_MAX, UINT32_MAX};
  for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < fours; i += (size_t)gridDim.x * THREADS) {
    const float4 four = g[i];
    const float own[] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
      take<MIN, MAX>(e, own[k], (uint32_t)(4 * i) + k, own[k], (uint32_t)(4 * i) + k);
  }
  reduce<MIN, MAX>(e);
  if (threadIdx.x == 0) {
    values[2 * blockIdx.x] = e.smallest;
    values[2 * blockIdx.x + 1] = e.largest;
    places[2 * blockIdx.x] = e.at_smallest;
    places[2 * blockIdx.x + 1] = e.at_largest;
  }
}

template <bool MIN, bool MAX>
__global__ void __launch_bounds__(THREADS)
    find_whole(const float *values, const uint32_t *places, uint32_t parts, uint32_t *where) {
  extrema e = {INFINITY, -INFINITY, UINT32_MAX, UINT32_MAX};
  for (uint32_t i = threadIdx.x; i < parts; i += THREADS)
    take<MIN, MAX>(e, values[2 * i], places[2 * i], values[2 * i + 1], places[2 * i + 1]);
  reduce<MIN, MAX>(e);
  if (threadIdx.x == 0) {
    where[0] = e.at_smallest;
    where[1] = e.at_largest;
  }
}

/* ---- The bound ---- */

/* A sum is never negative, so nothing is written. The compiler does not know that, and leaves out no load. */
__global__ void __launch_bounds__(THREADS) read_all(const float4 *x, size_t fours, float *out) {
  float sum = 0;
  for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < fours; i += (size_t)gridDim.x * THREADS) {
    const float4 four = x[i];
    sum += four.x * four.x + four.y * four.y + four.z * four.z + four.w * four.w;
  }
  if (sum < 0)
    out[0] = sum;
}

/* ---- One turn ---- */

unsigned blocks_of(size_t items) {
  return (unsigned)((items + THREADS - 1) / THREADS);
}

template <bool MIN, bool MAX> void find(const gconv_rbf *r) {
  const size_t fours = r->order.cases * r->order.columns / 4;
  const unsigned blocks = std::min<unsigned>(blocks_of(fours), FULL_BLOCKS);
  find_parts<MIN, MAX><<<blocks, THREADS>>>((const float4 *)r->x, fours, r->partial_values, r->partial_places);
  find_whole<MIN, MAX><<<1, THREADS>>>(r->partial_values, r->partial_places, blocks, r->where);
}

void make_row(const gconv_rbf *r) {
  const gconv_rbf_order *o = &r->order;
  const size_t shared = o->method == BY_LOCAL_MEMORY ? o->columns * sizeof(float) : 0;
  row_kernels[o->method]<<<blocks_of(o->cases), THREADS, shared>>>(
      {r->x, r->query, r->texture, o->cases, r->pitch, (int)o->columns, o->gamma, r->out});
}

gconv_svm_formula formula_of(const gconv_rbf *r) {
  return {GCONV_SVM_FORM_EXP, 0, (double)r->order.gamma, 0, false};
}

gconv_svm_gpu_cases cases_of(const gconv_rbf *r) {
  return {r->x, r->norms, r->order.cases, r->pitch};
}

void make_many(const gconv_rbf *r) {
  const gconv_svm_formula formula = formula_of(r);
  const gconv_svm_gpu_cases cases = cases_of(r);
  gconv_svm_gpu_rows(&formula, &cases, r->wanted, r->rows, GCONV_RBF_TOGETHER, r->members, r->order.cases, &r->digits, NULL);
}

void run_once(const gconv_rbf *r) {
  switch (methods[r->order.method].kind) {
  case GCONV_RBF_ROW:
    make_row(r);
    break;
  case GCONV_RBF_MANY:
    make_many(r);
    break;
  case GCONV_RBF_MIN:
    find<true, false>(r);
    break;
  case GCONV_RBF_MAX:
    find<false, true>(r);
    break;
  case GCONV_RBF_BOTH:
    find<true, true>(r);
    break;
  case GCONV_RBF_READ:
    read_all<<<8 * FULL_BLOCKS, THREADS>>>((const float4 *)r->x, r->order.cases * r->order.columns / 4, r->out);
    break;
  }
}

/* ---- Memory ---- */

template <class T> gconv_status allocate(size_t count, T **memory) {
  CUDA_TRY(cudaMalloc((void **)memory, count * sizeof **memory));
  return GCONV_OK;
}

/* Allocates memory for `count` numbers of the host, and copies them there. */
template <class T> gconv_status put(const T *from, size_t count, T **memory) {
  GCONV_TRY(allocate(count, memory));
  CUDA_TRY(cudaMemcpy(*memory, from, count * sizeof *from, cudaMemcpyHostToDevice));
  return GCONV_OK;
}

/* Returns the place of number k of case i. */
size_t place_of(const gconv_rbf *r, size_t i, size_t k) {
  switch (methods[r->order.method].kind == GCONV_RBF_ROW ? r->order.method : 0) {
  case 0:
    return i * (methods[r->order.method].kind == GCONV_RBF_MANY ? r->pitch : r->order.columns) + k;
  case 1:
    return k * r->pitch + i;
  default:
    return (k / 4 * r->pitch + i) * 4 + k % 4;
  }
}

gconv_status put_numbers(gconv_rbf *r) {
  const gconv_rbf_order *o = &r->order;
  const bool many = methods[o->method].kind == GCONV_RBF_MANY;
  const size_t deep = GCONV_SVM_GPU_COLUMNS;
  r->pitch = many ? (o->columns + deep - 1) / deep * deep : (o->cases + 31) / 32 * 32;
  const size_t floats = many ? o->cases * r->pitch : r->pitch * o->columns;
  float *numbers = (float *)calloc(floats, sizeof *numbers);
  if (!numbers)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu cases", o->cases);
  for (size_t i = 0; i < o->cases; i++)
    for (size_t k = 0; k < o->columns; k++)
      numbers[place_of(r, i, k)] = o->numbers[i * o->columns + k];
  const gconv_status status = put(numbers, floats, &r->x);
  free(numbers);
  GCONV_TRY(status);
  if (o->method != BY_TEXTURE)
    return GCONV_OK;
  cudaResourceDesc resource = {};
  cudaTextureDesc texture = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = r->x;
  resource.res.linear.desc = cudaCreateChannelDesc<float4>();
  resource.res.linear.sizeInBytes = floats * sizeof(float);
  CUDA_TRY(cudaCreateTextureObject(&r->texture, &resource, &texture, NULL));
  return GCONV_OK;
}

/* Makes the arguments of gconv's own rows. The first cases are the wanted rows. */
gconv_status put_arguments(gconv_rbf *r, double *norms, uint32_t *members) {
  const gconv_rbf_order *o = &r->order;
  float *rows[GCONV_RBF_TOGETHER];
  for (size_t i = 0; i < o->cases; i++) {
    members[i] = (uint32_t)i;
    for (size_t k = 0; k < o->columns; k++)
      norms[i] += (double)o->numbers[i * o->columns + k] * (double)o->numbers[i * o->columns + k];
  }
  for (size_t i = 0; i < GCONV_RBF_TOGETHER; i++)
    rows[i] = r->out + i * gconv_svm_padded(o->cases);
  GCONV_TRY(put(norms, o->cases, &r->norms));
  GCONV_TRY(put(members, o->cases, &r->members));
  r->wanted = r->members;
  return put(rows, GCONV_RBF_TOGETHER, &r->rows);
}

gconv_status put_many(gconv_rbf *r) {
  double *norms = (double *)calloc(r->order.cases, sizeof *norms);
  uint32_t *members = (uint32_t *)calloc(r->order.cases, sizeof *members);
  const gconv_status status = norms && members ? put_arguments(r, norms, members)
                                               : gconv_fail(GCONV_NO_MEMORY, "no memory for %zu cases", r->order.cases);
  free(norms);
  free(members);
  return status;
}

/* Cuts the cases into digits once, as for the kernel matrix of a trainer. */
gconv_status put_digits(gconv_rbf *r) {
  const gconv_svm_formula formula = formula_of(r);
  const gconv_svm_gpu_cases cases = cases_of(r);
  const size_t bytes = gconv_svm_gpu_digits_bytes(r->order.cases, GCONV_RBF_TOGETHER, r->pitch);
  if (bytes == 0)
    return GCONV_OK;
  CUDA_TRY(cudaMalloc(&r->digit_memory, bytes));
  CUDA_TRY(gconv_svm_gpu_digits_make(&formula, &cases, r->members, r->order.cases, GCONV_RBF_TOGETHER, r->digit_memory, NULL,
                                     &r->digits));
  return GCONV_OK;
}

gconv_status fill(gconv_rbf *r) {
  const gconv_rbf_order *o = &r->order;
  const bool many = methods[o->method].kind == GCONV_RBF_MANY;
  const size_t row = gconv_svm_padded(o->cases);
  if (many && o->cases < GCONV_RBF_TOGETHER)
    return gconv_fail(GCONV_UNSUPPORTED, "it makes %d rows at a time, of at least as many cases", GCONV_RBF_TOGETHER);
  if (o->cases * o->columns / 4 > (size_t)1 << 27)
    return gconv_fail(GCONV_UNSUPPORTED, "a texture holds at most %d x 4 numbers", 1 << 27);
  GCONV_TRY(put_numbers(r));
  GCONV_TRY(put(o->numbers, o->columns, &r->query));
  GCONV_TRY(allocate(many ? GCONV_RBF_TOGETHER * row : row, &r->out));
  GCONV_TRY(allocate(2 * FULL_BLOCKS, &r->partial_values));
  GCONV_TRY(allocate(2 * FULL_BLOCKS, &r->partial_places));
  GCONV_TRY(allocate(2, &r->where));
  if (many) {
    GCONV_TRY(put_many(r));
    GCONV_TRY(put_digits(r));
  }
  CUDA_TRY(cudaEventCreate(&r->begin));
  CUDA_TRY(cudaEventCreate(&r->end));
  return GCONV_OK;
}

} // namespace

extern "C" gconv_status gconv_rbf_create(const gconv_rbf_order *order, gconv_rbf **made) {
  gconv_rbf *r = (gconv_rbf *)calloc(1, sizeof *r);
  *made = NULL;
  if (!r)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for an experiment");
  r->order = *order;
  const gconv_status status = fill(r);
  if (status == GCONV_OK)
    *made = r;
  else
    gconv_rbf_free(r);
  return status;
}

extern "C" gconv_status gconv_rbf_run(gconv_rbf *rbf, int runs, double *milliseconds) {
  float ms = 0;
  CUDA_TRY(cudaEventRecord(rbf->begin));
  for (int i = 0; i < runs; i++)
    run_once(rbf);
  CUDA_TRY(cudaGetLastError());
  CUDA_TRY(cudaEventRecord(rbf->end));
  CUDA_TRY(cudaEventSynchronize(rbf->end));
  CUDA_TRY(cudaEventElapsedTime(&ms, rbf->begin, rbf->end));
  *milliseconds = (double)ms / (methods[rbf->order.method].kind == GCONV_RBF_MANY ? GCONV_RBF_TOGETHER : 1);
  return GCONV_OK;
}

extern "C" gconv_status gconv_rbf_get(const gconv_rbf *rbf, float *row, uint32_t *where) {
  if (row)
    CUDA_TRY(cudaMemcpy(row, rbf->out, rbf->order.cases * sizeof *row, cudaMemcpyDeviceToHost));
  if (where)
    CUDA_TRY(cudaMemcpy(where, rbf->where, 2 * sizeof *where, cudaMemcpyDeviceToHost));
  return GCONV_OK;
}

extern "C" void gconv_rbf_free(gconv_rbf *rbf) {
  if (!rbf)
    return;
  if (rbf->texture)
    cudaDestroyTextureObject(rbf->texture);
  void *owned[] = {
      rbf->x,     rbf->query,       rbf->out, rbf->norms, rbf->members, rbf->rows, rbf->partial_values, rbf->partial_places,
      rbf->where, rbf->digit_memory};
  for (void *memory : owned)
    cudaFree(memory);
  if (rbf->begin)
    cudaEventDestroy(rbf->begin);
  if (rbf->end)
    cudaEventDestroy(rbf->end);
  free(rbf);
}
