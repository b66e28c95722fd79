/* SPDX-License-Identifier: MIT */
#include "../core/device.cuh"
#include "device/cuda_error.h"
#include "kernels/cuda/svm/rows.h"
#include "rbf.h"
#include "rbf_extrema.cuh"

#include <algorithm>
#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>

static const gconv_rbf_method methods[] = {
    {"rows", GCONV_RBF_ROWS},         {"columns", GCONV_RBF_ROWS},  {"float4", GCONV_RBF_ROWS}, {"image", GCONV_RBF_ROWS},
    {"image-copied", GCONV_RBF_ROWS}, {"local", GCONV_RBF_ROWS},    {"gconv", GCONV_RBF_MANY},  {"read", GCONV_RBF_READ},
    {"min", GCONV_RBF_PLAIN_MIN},     {"max", GCONV_RBF_PLAIN_MAX}, {"arg-min", GCONV_RBF_MIN}, {"arg-max", GCONV_RBF_MAX},
    {"arg-both", GCONV_RBF_BOTH}};
enum { METHODS = sizeof methods / sizeof *methods, FULL_BLOCKS = 1024 };

extern "C" const gconv_rbf_method *gconv_rbf_method_at(size_t index) {
  return index < METHODS ? &methods[index] : NULL;
}

struct gconv_rbf {
  gconv_rbf_order order;
  size_t pitch;   /* cases, padded to a multiple of 32; for gconv's own kernels: columns, padded */
  size_t columns; /* of the order, padded to a multiple of 4 */
  float *x, *out; /* out: the row of `high`, then that of `low` */
  double *norms;
  uint32_t *wanted, *members;
  float **rows;
  void *digit_memory;
  gconv_svm_gpu_digits digits;
  float *partial_values; /* the smallest number of each block, then the largest of each */
  uint32_t *partial_places, *where;
  cudaArray_t arrays[2]; /* images of the two vectors: a row of columns / 4 pixels of four numbers */
  cudaTextureObject_t images[2];
  cudaSurfaceObject_t surfaces[2]; /* the same, to write to */
  cudaEvent_t begin, end;
};

namespace {

/* ---- Two rows ---- */

struct row_arguments {
  const float *x;
  cudaTextureObject_t images[2];
  size_t vectors[2]; /* the numbers of two cases: high and low */
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

/* Computes both kernel values of a thread's case i: six operations for each number that is loaded. load(i, k) returns number
 * k of case i, or its k-th group of four; vector(v, k) returns that of vector v. */
template <class Number, class Load, class Vector>
__device__ void make_values(const row_arguments &a, Load load, Vector vector) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  float high = 0, low = 0;
  if (i >= a.cases)
    return;
  for (int k = 0; k < a.columns / (int)(sizeof(Number) / sizeof(float)); k++) {
    const Number x = load(i, k);
    high = add_difference(x, vector(0, k), high);
    low = add_difference(x, vector(1, k), low);
  }
  a.out[i] = expf(-a.gamma * high);
  a.out[a.cases + i] = expf(-a.gamma * low);
}

/* The methods before `image` read the two vectors from among the cases. */
__global__ void by_rows(row_arguments a) {
  auto load = [&](size_t i, int k) { return a.x[i * a.columns + k]; };
  make_values<float>(a, load, [&](int v, int k) { return load(a.vectors[v], k); });
}

__global__ void by_columns(row_arguments a) {
  auto load = [&](size_t i, int k) { return a.x[k * a.pitch + i]; };
  make_values<float>(a, load, [&](int v, int k) { return load(a.vectors[v], k); });
}

__device__ float4 load_four(const row_arguments &a, size_t i, int k) {
  return ((const float4 *)a.x)[k * a.pitch + i];
}

__global__ void by_fours(row_arguments a) {
  auto load = [&](size_t i, int k) { return load_four(a, i, k); };
  make_values<float4>(a, load, [&](int v, int k) { return load(a.vectors[v], k); });
}

__global__ void by_image(row_arguments a) {
  make_values<float4>(
      a, [&](size_t i, int k) { return load_four(a, i, k); },
      [&](int v, int k) { return tex2D<float4>(a.images[v], (float)k, 0); });
}

__global__ void by_local_memory(row_arguments a) {
  extern __shared__ float4 own[];
  const int fours = a.columns / 4;
  for (int k = threadIdx.x; k < 2 * fours; k += THREADS)
    own[k] = load_four(a, a.vectors[k / fours], k % fours);
  __syncthreads();
  make_values<float4>(
      a, [&](size_t i, int k) { return load_four(a, i, k); }, [&](int v, int k) { return own[v * fours + k]; });
}

/* Writes a vector to its image, as a trainer does in each of its steps, which have other vectors. */
__global__ void copy_vector(row_arguments a, int v, cudaSurfaceObject_t surface) {
  const int k = (int)(blockIdx.x * THREADS + threadIdx.x);
  if (k < a.columns / 4)
    surf2Dwrite(load_four(a, a.vectors[v], k), surface, k * (int)sizeof(float4), 0);
}

/* The kernels of the first methods, in the order of `methods`. */
void (*const row_kernels[])(row_arguments) = {by_rows, by_columns, by_fours, by_image, by_image, by_local_memory};
enum { BY_IMAGE = 3, BY_COPIED_IMAGE = 4, BY_LOCAL_MEMORY = 5 };

/* ---- One run ---- */

unsigned blocks_of(size_t items) {
  return (unsigned)((items + THREADS - 1) / THREADS);
}

/* Returns how many groups of four numbers there are. Copies of the first number fill the last group: they are no new
 * extrema. */
size_t fours_of(const gconv_rbf *r) {
  return (r->order.cases * r->order.columns + 3) / 4;
}

unsigned full_blocks(const gconv_rbf *r) {
  return std::min<unsigned>(blocks_of(fours_of(r)), FULL_BLOCKS);
}

template <bool MIN, bool MAX> void find(const gconv_rbf *r) {
  const unsigned blocks = full_blocks(r);
  find_parts<MIN, MAX><<<blocks, THREADS>>>((const float4 *)r->x, fours_of(r), r->partial_values, r->partial_places);
  find_whole<MIN, MAX><<<1, THREADS>>>(r->partial_values, r->partial_places, blocks, r->where);
}

/* The second launch reads the values of the first one's blocks, four at a time. A block without numbers yields infinity. */
template <bool MIN> void find_plain(const gconv_rbf *r) {
  const unsigned blocks = (full_blocks(r) + 3) / 4 * 4;
  find_values<MIN><<<blocks, THREADS>>>((const float4 *)r->x, fours_of(r), r->partial_values);
  find_values<MIN><<<1, THREADS>>>((const float4 *)r->partial_values, blocks / 4, r->out);
}

row_arguments arguments_of(const gconv_rbf *r) {
  const gconv_rbf_order *o = &r->order;
  return {
      r->x,  {r->images[0], r->images[1]}, {0, o->cases > 1 ? (size_t)1 : 0}, o->cases, r->pitch, (int)r->columns, o->gamma,
      r->out};
}

void copy_vectors(const gconv_rbf *r) {
  for (int v = 0; v < 2; v++)
    copy_vector<<<blocks_of(r->columns / 4), THREADS>>>(arguments_of(r), v, r->surfaces[v]);
}

void make_rows(const gconv_rbf *r) {
  const size_t shared = r->order.method == BY_LOCAL_MEMORY ? 2 * r->columns * sizeof(float) : 0;
  if (r->order.method == BY_COPIED_IMAGE)
    copy_vectors(r);
  row_kernels[r->order.method]<<<blocks_of(r->order.cases), THREADS, shared>>>(arguments_of(r));
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
  case GCONV_RBF_ROWS:
    make_rows(r);
    break;
  case GCONV_RBF_MANY:
    make_many(r);
    break;
  case GCONV_RBF_PLAIN_MIN:
    find_plain<true>(r);
    break;
  case GCONV_RBF_PLAIN_MAX:
    find_plain<false>(r);
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
    read_all<<<8 * FULL_BLOCKS, THREADS>>>((const float4 *)r->x, fours_of(r), r->out);
    break;
  }
}

/* ---- Memory ---- */

template <class T> gconv_status allocate(size_t count, T **memory) {
  return CUDA_STATUS(cudaMalloc((void **)memory, count * sizeof **memory));
}

/* Allocates memory for `count` numbers of the host, and copies them there. */
template <class T> gconv_status put(const T *from, size_t count, T **memory) {
  GCONV_TRY(allocate(count, memory));
  return CUDA_STATUS(cudaMemcpy(*memory, from, count * sizeof *from, cudaMemcpyHostToDevice));
}

/* Returns the place of number k of case i. Extrema see the numbers as they are. */
size_t place_of(const gconv_rbf *r, size_t i, size_t k) {
  const gconv_rbf_kind kind = methods[r->order.method].kind;
  if (kind == GCONV_RBF_MANY)
    return i * r->pitch + k;
  if (kind != GCONV_RBF_ROWS)
    return i * r->order.columns + k;
  if (r->order.method == 0)
    return i * r->columns + k;
  return r->order.method == 1 ? k * r->pitch + i : (k / 4 * r->pitch + i) * 4 + k % 4;
}

gconv_status put_numbers(gconv_rbf *r) {
  const gconv_rbf_order *o = &r->order;
  const bool many = methods[o->method].kind == GCONV_RBF_MANY;
  const size_t deep = GCONV_SVM_GPU_COLUMNS;
  r->columns = (o->columns + 3) / 4 * 4;
  r->pitch = many ? (o->columns + deep - 1) / deep * deep : (o->cases + 31) / 32 * 32;
  const size_t floats = many ? o->cases * r->pitch : r->pitch * r->columns;
  float *numbers = (float *)calloc(floats, sizeof *numbers);
  if (!numbers)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu cases", o->cases);
  for (size_t i = 0; i < o->cases; i++)
    for (size_t k = 0; k < o->columns; k++)
      numbers[place_of(r, i, k)] = o->numbers[i * o->columns + k];
  for (size_t i = o->cases * o->columns; methods[o->method].kind > GCONV_RBF_MANY && i < floats; i++)
    numbers[i] = numbers[0]; /* fills the last group for extrema: see fours_of() */
  const gconv_status status = put(numbers, floats, &r->x);
  free(numbers);
  return status;
}

/* Makes images of the two vectors, and writes them for the first time. */
gconv_status put_images(gconv_rbf *r) {
  const cudaChannelFormatDesc four = cudaCreateChannelDesc<float4>();
  cudaTextureDesc texture = {};
  texture.addressMode[0] = texture.addressMode[1] = cudaAddressModeClamp;
  texture.filterMode = cudaFilterModePoint;
  for (int v = 0; v < 2; v++) {
    cudaResourceDesc resource = {};
    CUDA_TRY(cudaMallocArray(&r->arrays[v], &four, r->columns / 4, 1, cudaArraySurfaceLoadStore));
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = r->arrays[v];
    CUDA_TRY(cudaCreateTextureObject(&r->images[v], &resource, &texture, NULL));
    CUDA_TRY(cudaCreateSurfaceObject(&r->surfaces[v], &resource));
  }
  copy_vectors(r);
  return CUDA_STATUS(cudaGetLastError());
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
  return CUDA_STATUS(gconv_svm_gpu_digits_make(&formula, &cases, r->members, r->order.cases, GCONV_RBF_TOGETHER,
                                               r->digit_memory, NULL, &r->digits));
}

/* Raises the limit of shared memory for the two vectors of `local`. */
gconv_status allow_vectors(const gconv_rbf *r) {
  const size_t bytes = 2 * r->columns * sizeof(float);
  if (bytes > shared_limit())
    return gconv_fail(GCONV_UNSUPPORTED, "two vectors of %zu numbers do not fit into shared memory", r->order.columns);
  return allow_shared(by_local_memory, (int64_t)bytes);
}

gconv_status fill(gconv_rbf *r) {
  const gconv_rbf_order *o = &r->order;
  const bool many = methods[o->method].kind == GCONV_RBF_MANY;
  const bool images = o->method == BY_IMAGE || o->method == BY_COPIED_IMAGE;
  const size_t row = gconv_svm_padded(o->cases);
  if (many && o->cases < GCONV_RBF_TOGETHER)
    return gconv_fail(GCONV_UNSUPPORTED, "it makes %d rows at a time, of at least as many cases", GCONV_RBF_TOGETHER);
  if (images && o->columns > GCONV_RBF_IMAGE_COLUMNS)
    return gconv_fail(GCONV_UNSUPPORTED, "an image holds at most %d numbers", GCONV_RBF_IMAGE_COLUMNS);
  GCONV_TRY(put_numbers(r));
  GCONV_TRY(allocate(many ? GCONV_RBF_TOGETHER * row : 2 * row, &r->out));
  GCONV_TRY(allocate(2 * FULL_BLOCKS, &r->partial_values));
  GCONV_TRY(allocate(2 * FULL_BLOCKS, &r->partial_places));
  GCONV_TRY(allocate(2, &r->where));
  if (images)
    GCONV_TRY(put_images(r));
  if (o->method == BY_LOCAL_MEMORY)
    GCONV_TRY(allow_vectors(r));
  if (many) {
    GCONV_TRY(put_many(r));
    GCONV_TRY(put_digits(r));
  }
  CUDA_TRY(cudaEventCreate(&r->begin));
  return CUDA_STATUS(cudaEventCreate(&r->end));
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
  *milliseconds = (double)ms / (methods[rbf->order.method].kind == GCONV_RBF_MANY ? GCONV_RBF_TOGETHER / 2 : 1);
  return GCONV_OK;
}

extern "C" gconv_status gconv_rbf_get(const gconv_rbf *rbf, float *rows, uint32_t *where) {
  const size_t cases = rbf->order.cases, bytes = cases * sizeof *rows;
  /* gconv's own rows are of the first cases, each with its padding */
  const float *low = rbf->out + (methods[rbf->order.method].kind == GCONV_RBF_MANY ? gconv_svm_padded(cases) : cases);
  if (rows) {
    CUDA_TRY(cudaMemcpy(rows, rbf->out, bytes, cudaMemcpyDeviceToHost));
    CUDA_TRY(cudaMemcpy(rows + cases, low, bytes, cudaMemcpyDeviceToHost));
  }
  if (where)
    CUDA_TRY(cudaMemcpy(where, rbf->where, 2 * sizeof *where, cudaMemcpyDeviceToHost));
  return GCONV_OK;
}

extern "C" gconv_status gconv_rbf_get_value(const gconv_rbf *rbf, float *value) {
  return CUDA_STATUS(cudaMemcpy(value, rbf->out, sizeof *value, cudaMemcpyDeviceToHost));
}

extern "C" void gconv_rbf_free(gconv_rbf *rbf) {
  if (!rbf)
    return;
  for (int v = 0; v < 2; v++) {
    if (rbf->images[v])
      cudaDestroyTextureObject(rbf->images[v]);
    if (rbf->surfaces[v])
      cudaDestroySurfaceObject(rbf->surfaces[v]);
    if (rbf->arrays[v])
      cudaFreeArray(rbf->arrays[v]);
  }
  void *owned[] = {rbf->x,           rbf->out,   rbf->norms,          rbf->members,
                   rbf->rows,        rbf->where, rbf->partial_values, rbf->partial_places,
                   rbf->digit_memory};
  for (void *memory : owned)
    cudaFree(memory);
  if (rbf->begin)
    cudaEventDestroy(rbf->begin);
  if (rbf->end)
    cudaEventDestroy(rbf->end);
  free(rbf);
}
