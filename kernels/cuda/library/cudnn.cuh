/* SPDX-License-Identifier: MIT */
/* The part of cuDNN 9 that is used, declared here so that building does not need cuDNN; and the state that a plan keeps. */
#pragma once

#include "base/library.h"
#include "device/cuda_error.h"

#include <stdlib.h>

namespace {

typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;

enum { DATA_FLOAT = 0, FORMAT_NCHW = 0, CROSS_CORRELATION = 1, DEFAULT_MATH = 0, FMA_MATH = 3 };
enum { NO_HOST_MEMORY = 4003, NO_DEVICE_MEMORY = 4004 }; /* two of its statuses */
enum { IMPLICIT_GEMM = 0, IMPLICIT_PRECOMP_GEMM = 1, GEMM = 2 };

/* as cudnnConvolutionFwdAlgoPerf_t */
struct cudnn_finding {
  int algorithm, status;
  float milliseconds;
  size_t workspace_bytes;
  int determinism, math, reserved[3];
};

/* The functions that return a status. */
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
  CALL(GetConvolutionForwardWorkspaceSize, cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,                 \
       cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, int algorithm, size_t *bytes)                                 \
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

/* ---- The state of a plan ---- */

/* What was not made is zero. */
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

/* Makes a state and lets `fill` fill it. If that fails, there is no state. */
template <class Execution>
gconv_status make_state(gconv_status (*fill)(const Execution *, cudnn_state *), const Execution *execution, void **result) {
  cudnn_state *state = (cudnn_state *)calloc(1, sizeof *state);
  if (!state)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the state of cuDNN");
  gconv_status status = fill(execution, state);
  if (status != GCONV_OK)
    dismiss(state);
  else
    *result = state;
  return status;
}

} // namespace

/* Returns from the calling function if a call of cuDNN fails. */
#define CUDNN_TRY(call)                                                                                                     \
  do {                                                                                                                      \
    int cudnn_try_status = cudnn.call;                                                                                      \
    if (cudnn_try_status != 0)                                                                                              \
      return cudnn_failure(cudnn_try_status, #call);                                                                        \
  } while (0)
