/* SPDX-License-Identifier: MIT */
/*
 * cudnn: NVIDIA's library for deep learning, for comparison, in float32 or, if asked for, TF32.
 *
 * cuDNN gets the tensors as they are. A kernel of ours then adds bias and activation, in place. cuDNN itself finds its
 * fastest algorithm, once, by running all of them (cudnnFind...) with all the workspace that is allowed. Algorithms that
 * multiply matrices are allowed, since their sums have a bound in any order; Winograd and FFT are not. cuDNN's padding is
 * the same on both sides. Problems with other padding are refused.
 */
#include "base/library.h"
#include "finish.cuh"

#include <stdlib.h>

#include <memory>

namespace {

/* ---- The part of cuDNN 9 that is used, declared here so that building does not need cuDNN ---- */

typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;

enum { DATA_FLOAT = 0, FORMAT_NCHW = 0, CROSS_CORRELATION = 1, DEFAULT_MATH = 0, FMA_MATH = 3 };
enum { NO_HOST_MEMORY = 4003, NO_DEVICE_MEMORY = 4004 }; /* statuses of cuDNN */
enum { GEMM = 2 };                                       /* cuDNN's algorithms 0 to GEMM multiply matrices */

/* Has the layout of cudnnConvolutionFwdAlgoPerf_t. */
struct cudnn_finding {
  int algorithm, status;
  float milliseconds;
  size_t workspace_bytes;
  int determinism, math, reserved[3];
};

/* The functions of cuDNN that return a status. */
#define CUDNN_CALLS(CALL)                                                                                                   \
  CALL(Create, cudnnHandle_t *)                                                                                             \
  CALL(Destroy, cudnnHandle_t)                                                                                              \
  CALL(SetStream, cudnnHandle_t, cudaStream_t)                                                                              \
  CALL(CreateTensorDescriptor, cudnnTensorDescriptor_t *)                                                                   \
  CALL(SetTensor4dDescriptor, cudnnTensorDescriptor_t, int format, int type, int n, int c, int h, int w)                    \
  CALL(DestroyTensorDescriptor, cudnnTensorDescriptor_t)                                                                    \
  CALL(CreateFilterDescriptor, cudnnFilterDescriptor_t *)                                                                   \
  CALL(SetFilter4dDescriptor, cudnnFilterDescriptor_t, int type, int format, int k, int c, int h, int w)                    \
  CALL(DestroyFilterDescriptor, cudnnFilterDescriptor_t)                                                                    \
  CALL(CreateConvolutionDescriptor, cudnnConvolutionDescriptor_t *)                                                         \
  CALL(SetConvolution2dDescriptor, cudnnConvolutionDescriptor_t, int pad_h, int pad_w, int stride_h, int stride_w,          \
       int dilation_h, int dilation_w, int mode, int type)                                                                  \
  CALL(SetConvolutionGroupCount, cudnnConvolutionDescriptor_t, int groups)                                                  \
  CALL(SetConvolutionMathType, cudnnConvolutionDescriptor_t, int math)                                                      \
  CALL(DestroyConvolutionDescriptor, cudnnConvolutionDescriptor_t)                                                          \
  CALL(FindConvolutionForwardAlgorithmEx, cudnnHandle_t, cudnnTensorDescriptor_t, const void *x, cudnnFilterDescriptor_t,   \
       const void *w, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, void *y, int wanted, int *found,               \
       cudnn_finding *, void *workspace, size_t workspace_bytes)                                                            \
  CALL(ConvolutionForward, cudnnHandle_t, const void *alpha, cudnnTensorDescriptor_t, const void *x,                        \
       cudnnFilterDescriptor_t, const void *w, cudnnConvolutionDescriptor_t, int algorithm, void *workspace,                \
       size_t workspace_bytes, const void *beta, cudnnTensorDescriptor_t, void *y)

struct {
#define MEMBER(name, ...) int (*name)(__VA_ARGS__);
  CUDNN_CALLS(MEMBER)
  size_t (*GetVersion)(void);
  const char *(*GetErrorString)(int);
} cudnn;

#define SYMBOL(name, ...) {"cudnn" #name, &cudnn.name},
const char *const files[] = {"libcudnn.so.9", NULL};
const gconv_symbol symbols[] = {CUDNN_CALLS(SYMBOL) SYMBOL(GetVersion) SYMBOL(GetErrorString){NULL, NULL}};
gconv_library library = {files, symbols, "", 0};

const char *available(void) {
  return gconv_library_load(&library);
}

bool is_out_of_memory(int status) {
  return status == NO_HOST_MEMORY || status == NO_DEVICE_MEMORY;
}

gconv_status cudnn_failure(int status, const char *call) {
  return gconv_fail(is_out_of_memory(status) ? GCONV_NO_MEMORY : GCONV_DEVICE_ERROR, "cuDNN: %s in %s",
                    cudnn.GetErrorString(status), call);
}

/* Returns from the calling function if a call of cuDNN fails. */
#define CUDNN_TRY(call)                                                                                                     \
  do {                                                                                                                      \
    int cudnn_try_status = cudnn.call;                                                                                      \
    if (cudnn_try_status != 0)                                                                                              \
      return cudnn_failure(cudnn_try_status, #call);                                                                        \
  } while (0)

/* ---- The state of a plan ---- */

/* Handles that were not created are zero. */
struct cudnn_state {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t in, out;
  cudnnFilterDescriptor_t filter;
  cudnnConvolutionDescriptor_t convolution;
  int algorithm;
  void *workspace;
  size_t workspace_bytes;
};

/* Frees the state, even if it was made only in part. */
void dismiss(void *memory) {
  cudnn_state *state = (cudnn_state *)memory;
  cudaFree(state->workspace);
  if (state->convolution)
    cudnn.DestroyConvolutionDescriptor(state->convolution);
  if (state->filter)
    cudnn.DestroyFilterDescriptor(state->filter);
  if (state->out)
    cudnn.DestroyTensorDescriptor(state->out);
  if (state->in)
    cudnn.DestroyTensorDescriptor(state->in);
  if (state->handle)
    cudnn.Destroy(state->handle);
  free(state);
}

gconv_status describe(const gconv_layer_problem *p, cudnn_state *state) {
  CUDNN_TRY(CreateTensorDescriptor(&state->in));
  CUDNN_TRY(SetTensor4dDescriptor(state->in, FORMAT_NCHW, DATA_FLOAT, p->images, p->channels, p->height, p->width));
  CUDNN_TRY(CreateTensorDescriptor(&state->out));
  CUDNN_TRY(SetTensor4dDescriptor(state->out, FORMAT_NCHW, DATA_FLOAT, p->images, p->filters, p->out_height, p->out_width));
  CUDNN_TRY(CreateFilterDescriptor(&state->filter));
  CUDNN_TRY(SetFilter4dDescriptor(state->filter, DATA_FLOAT, FORMAT_NCHW, p->filters, p->channels / p->groups, p->rows,
                                  p->columns));
  CUDNN_TRY(CreateConvolutionDescriptor(&state->convolution));
  CUDNN_TRY(SetConvolution2dDescriptor(state->convolution, p->pad_top, p->pad_left, p->stride_y, p->stride_x, p->dilation_y,
                                       p->dilation_x, CROSS_CORRELATION, DATA_FLOAT));
  CUDNN_TRY(SetConvolutionGroupCount(state->convolution, p->groups));
  CUDNN_TRY(SetConvolutionMathType(state->convolution, p->math == GCONV_MATH_TF32 ? DEFAULT_MATH : FMA_MATH));
  return GCONV_OK;
}

/* Takes the fastest allowed algorithm that cuDNN has measured, with at most `most` bytes of workspace. */
gconv_status take_fastest(const gconv_layer_problem *problem, const cudnn_finding *findings, int count, size_t most,
                          cudnn_state *state) {
  bool enough = true;
  for (int i = 0; i < count; i++) {
    const cudnn_finding *f = &findings[i];
    enough = enough && !is_out_of_memory(f->status);
    if (f->status != 0 || f->algorithm > GEMM || f->workspace_bytes > most ||
        (problem->math == GCONV_MATH_FP32 && f->math != FMA_MATH && f->math != DEFAULT_MATH))
      continue;
    state->algorithm = f->algorithm;
    state->workspace_bytes = f->workspace_bytes;
    return GCONV_OK;
  }
  if (!enough)
    return gconv_fail(GCONV_NO_MEMORY, "no memory on the GPU for what cuDNN takes for this layer");
  return gconv_fail(GCONV_UNSUPPORTED, "cuDNN %zu has no algorithm for this layer within the limit of workspace",
                    cudnn.GetVersion());
}

/* The tensors and the workspace with which cuDNN measures its algorithms. */
struct trial {
  void *in, *out, *workspace;
  ~trial() {
    cudaFree(in);
    cudaFree(out);
    cudaFree(workspace);
  }
};

gconv_status measure(const gconv_layer_execution *e, cudnn_state *state) {
  const gconv_layer_problem *p = e->problem;
  const size_t in = (size_t)p->images * p->channels * p->height * p->width * sizeof(float);
  const size_t out = (size_t)p->images * p->filters * p->out_height * p->out_width * sizeof(float);
  enum { MOST = 16 };
  cudnn_finding findings[MOST];
  int count = 0;
  trial t = {};
  CUDA_TRY(cudaMalloc(&t.in, in));
  CUDA_TRY(cudaMalloc(&t.out, out));
  CUDA_TRY(cudaMalloc(&t.workspace, p->workspace_limit));
  CUDA_TRY(cudaMemsetAsync(t.in, 0, in, (cudaStream_t)e->stream));
  CUDNN_TRY(FindConvolutionForwardAlgorithmEx(state->handle, state->in, t.in, state->filter, e->weights, state->convolution,
                                              state->out, t.out, MOST, &count, findings, t.workspace, p->workspace_limit));
  return take_fastest(p, findings, count, p->workspace_limit, state);
}

gconv_status acquire(const gconv_layer_execution *e, void **result) {
  std::unique_ptr<cudnn_state, decltype(&dismiss)> state((cudnn_state *)calloc(1, sizeof(cudnn_state)), dismiss);
  if (!state)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the state of cuDNN");
  CUDNN_TRY(Create(&state->handle));
  CUDNN_TRY(SetStream(state->handle, (cudaStream_t)e->stream));
  GCONV_TRY(describe(e->problem, state.get()));
  GCONV_TRY(measure(e, state.get()));
  cudaGetLastError(); /* clear the errors of algorithms that failed in the trial */
  if (state->workspace_bytes > 0)
    CUDA_TRY(cudaMalloc(&state->workspace, state->workspace_bytes));
  *result = state.release();
  return GCONV_OK;
}

gconv_status execute(const gconv_layer_execution *e) {
  const cudnn_state *state = (const cudnn_state *)e->state;
  const float one = 1, zero = 0;
  CUDNN_TRY(SetStream(state->handle, (cudaStream_t)e->stream));
  CUDNN_TRY(ConvolutionForward(state->handle, &one, state->in, e->in, state->filter, e->weights, state->convolution,
                               state->algorithm, state->workspace, state->workspace_bytes, &zero, state->out, e->out));
  return launch_finish(e);
}

/* Returns whether padding by `pad` on both sides yields `out` outputs. */
bool is_symmetric(int64_t in, int64_t out, int64_t pad, int64_t reach, int64_t stride) {
  return in + 2 * pad >= reach && (in + 2 * pad - reach) / stride + 1 == out;
}

const char *supports(const gconv_layer_problem *p) {
  if (p->math != GCONV_MATH_FP32 && p->math != GCONV_MATH_TF32)
    return "math other than fp32 and tf32";
  const int64_t tall = (int64_t)(p->rows - 1) * p->dilation_y + 1, wide = (int64_t)(p->columns - 1) * p->dilation_x + 1;
  if (!is_symmetric(p->height, p->out_height, p->pad_top, tall, p->stride_y) ||
      !is_symmetric(p->width, p->out_width, p->pad_left, wide, p->stride_x))
    return "padding that is not the same on both sides";
  const double in = (double)p->channels * p->height * p->width, out = (double)p->filters * p->out_height * p->out_width;
  return p->images * fmax(in, out) > INT32_MAX ? "tensors of more than 2^31 samples" : NULL;
}

/* Uses measured rates of cuDNN's products of matrices, and adds the pass for bias and activation. */
double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const double rate = problem->math == GCONV_MATH_TF32 ? 1.2 : 0.35;
  const double outputs = (double)problem->images * problem->filters * problem->out_height * problem->out_width;
  const double few = fmax(1, 16.0 * problem->groups / problem->filters); /* a tile has 16 filters, some of them unused */
  return 3 * machine->launch_ms + few * gconv_layer_flop(problem) / 2 / (rate * machine->fma_per_ms) +
         outputs * 12 / machine->bytes_per_ms;
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_cudnn = {
    .info = {"cudnn", "cuda", "NVIDIA's cuDNN, by its products of matrices", false},
    .available = available,
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = library_bound,
    .acquire = acquire,
    .dismiss = dismiss,
    .library = true,
};
