/* SPDX-License-Identifier: MIT */
/*
 * Jobs: the computations of nodes of graphs on a GPU, except convolutions. A job names the memory of the device that is read
 * and written. Each function puts one or a few kernels into a stream and returns; it allocates nothing, so that streams can
 * be recorded.
 *
 * The rules are the same as for nodes on the CPU (src/graph), and the same sums are float64.
 */
#pragma once

#include "base/both.h"
#include "base/status.h"
#include "kernels/border.h"
#include "kernels/resize.h"

GCONV_C_BEGIN

enum { GCONV_GPU_AXES = 8, GCONV_GPU_MOVE_AXES = 16, GCONV_GPU_ALIGNMENT = 256 };

/* In place of a stream: jobs are made, but not launched. So a node can tell before it has memory whether a GPU takes it. */
#define GCONV_GPU_NOWHERE ((void *)UINTPTR_MAX)

/* Declares gconv_gpu_NAME_run(), which puts a job into a stream by gconv_gpu_NAME_launch(). A build without CUDA has none.
 */
#ifdef GCONV_WITH_CUDA
#define GCONV_GPU_LAUNCH(name, job, stream) gconv_gpu_##name##_launch(job, stream)
#else
#define GCONV_GPU_LAUNCH(name, job, stream) ((void)(job), gconv_fail(GCONV_UNSUPPORTED, "this build has no CUDA"))
#endif
#define GCONV_GPU_JOB(name)                                                                                                 \
  gconv_status gconv_gpu_##name##_launch(const gconv_gpu_##name *job, void *stream);                                        \
  static inline gconv_status gconv_gpu_##name##_run(const gconv_gpu_##name *job, void *stream) {                            \
    return stream == GCONV_GPU_NOWHERE ? GCONV_OK : GCONV_GPU_LAUNCH(name, job, stream);                                    \
  }

/* The types of elements that kernels take, by their numbers in ONNX's TensorProto.DataType. */
#define GCONV_EACH_GPU_TYPE(ROW)                                                                                            \
  ROW(float, 1)                                                                                                             \
  ROW(uint8_t, 2)                                                                                                           \
  ROW(int8_t, 3)                                                                                                            \
  ROW(int32_t, 6)                                                                                                           \
  ROW(int64_t, 7)                                                                                                           \
  ROW(bool, 9)

static inline bool gconv_gpu_has_type(int32_t number) {
  switch (number) {
#define GCONV_GPU_TYPE(type, code) case code:
    GCONV_EACH_GPU_TYPE(GCONV_GPU_TYPE)
#undef GCONV_GPU_TYPE
    return true;
  default:
    return false;
  }
}

/* ---- Element-wise ---- */

enum { GCONV_GPU_CHAIN = 9 /* a node, and the steps of its tail */ };

/* An operand: memory (NULL: `number`), and how many elements lie between neighbours of each axis of the output; 0: the
 * element is repeated.
 */
typedef struct gconv_gpu_operand {
  const void *data;
  float number;
  int64_t step[GCONV_GPU_AXES];
} gconv_gpu_operand;

/* One operation of a chain. All operands of the first operation are given. In each further operation, operand number
 * `chained` is the result of the operation before it. */
typedef struct gconv_gpu_operation {
  int32_t code; /* gconv_elementwise (kernels/elementwise.h) */
  float alpha, beta, low, high;
  bool approximate, remainder;
  int32_t count, chained; /* number of operands; the operand that is the result so far, -1: none */
  gconv_gpu_operand operand[3];
} gconv_gpu_operation;

typedef struct gconv_gpu_elements {
  int32_t axes; /* axes of the output; the last is the fastest */
  int64_t size[GCONV_GPU_AXES];
  void *out;
  int32_t type, out_type; /* types of operands (not of Where's condition) and output; long chains are of floats */
  int32_t length;         /* length of the chain */
  gconv_gpu_operation chain[GCONV_GPU_CHAIN];
} gconv_gpu_elements;

/* A tail: operations on the output of a convolution, in the epilogue of its kernel, at most GCONV_GPU_TAIL. A step's operand
 * is `alpha`, or in memory: a number for each filter, or one for each output, at the output's place. */
enum { GCONV_GPU_TAIL = 4, GCONV_GPU_TAIL_SWISH = -1 /* y * clamp(y + alpha) / beta: a hard swish in steps */ };
typedef struct gconv_gpu_tail_step {
  int32_t code; /* gconv_elementwise, or GCONV_GPU_TAIL_SWISH */
  float alpha, beta, low, high;
  const float *operand; /* NULL: alpha */
  bool of_filters;
} gconv_gpu_tail_step;
typedef struct gconv_gpu_tail {
  int32_t length;
  gconv_gpu_tail_step step[GCONV_GPU_TAIL];
} gconv_gpu_tail;

/* out = the chain, for each element. An operand may be the memory of `out` if it has the output's shape. */
GCONV_GPU_JOB(elements)

/* Converts `count` elements from one type to another, as ONNX's Cast. */
typedef struct gconv_gpu_cast {
  const void *in;
  void *out;
  int64_t count;
  int32_t in_type, out_type;
  bool to_half, to_brain; /* floats are rounded to float16, or to bfloat16 */
} gconv_gpu_cast;
GCONV_GPU_JOB(cast)

/* ---- Elements at other places ---- */

/* Element (i0, i1, ...) lies at sum i * from_step of the source, and goes to sum i * to_step. Steps count elements. A step
 * of 0 repeats an element, a negative one goes backwards. No two elements go to the same place. No axis has one element. */
typedef struct gconv_gpu_move {
  int32_t axes;
  int64_t shape[GCONV_GPU_MOVE_AXES], from_step[GCONV_GPU_MOVE_AXES], to_step[GCONV_GPU_MOVE_AXES];
  const void *from;
  void *to;
  size_t bytes; /* bytes of an element: 1, 2, 4 or 8 */
} gconv_gpu_move;
GCONV_GPU_JOB(move)

/* out[o][i][k] = in[o][index[i]][k], where o counts outer elements, and k inner ones. Negative indices count from the end.
 */
typedef struct gconv_gpu_gather {
  const void *in, *index;
  void *out;
  int64_t outer, size, count, inner;
  bool long_index; /* indices are int64, not int32 */
  size_t bytes;
} gconv_gpu_gather;
GCONV_GPU_JOB(gather)

/* Output o of an axis gets input o - before. If that is outside, `border` says which element it gets. */
typedef struct gconv_gpu_pad {
  int32_t axes;
  int64_t in[GCONV_GPU_AXES], out[GCONV_GPU_AXES], before[GCONV_GPU_AXES];
  gconv_border border;
  uint64_t outside;          /* the bits of an element */
  const void *outside_there; /* an element in memory of the device, in place of `outside`; or NULL */
  const void *from;
  void *to;
  size_t bytes;
} gconv_gpu_pad;
GCONV_GPU_JOB(pad)
/* Returns the input index of output index `o` of an axis, or GCONV_OUTSIDE. */
GCONV_BOTH int64_t gconv_gpu_pad_source(const gconv_gpu_pad *job, int32_t axis, int64_t o) {
  return gconv_border_index(job->border, o - job->before[axis], job->in[axis]);
}

/* ---- Images into a graph, and results out of it ---- */

/* Fills `height` x `width` elements of each channel from rows of an image, from row `top` and column `left` on. Elements
 * below and to the right of the image are its pixels reflected. */
typedef struct gconv_gpu_put {
  const float *from;                               /* planes of from_rows rows; the first is row `first` of the image */
  int64_t first, from_rows, all_height, all_width; /* all: of the image */
  float *to;
  int64_t channels, height, width, top, left;
} gconv_gpu_put;
GCONV_GPU_JOB(put)

/* Copies a rectangle of numbers of any type as float32. */
typedef struct gconv_gpu_take {
  const void *from;
  int32_t type;
  int64_t from_width, from_plane, to_width, to_plane, planes, height, width;
  float *to;
} gconv_gpu_take;
GCONV_GPU_JOB(take)

/* ---- Windows, planes, sums ---- */

/* One dimension of an input and its windows. */
typedef struct gconv_gpu_span {
  int64_t in, out, kernel, stride, dilation, before, after;
} gconv_gpu_span;

/* Returns how many taps of an output lie inside of the input or, if padding counts, inside of the input with its padding. */
GCONV_BOTH int64_t gconv_gpu_taps_inside(const gconv_gpu_span *d, int64_t out, bool counts_padding) {
  const int64_t at = out * d->stride - d->before, low = counts_padding ? -d->before : 0;
  const int64_t high = d->in + (counts_padding ? d->after : 0);
  int64_t count = 0;
  for (int64_t k = 0; k < d->kernel; k++)
    count += at + k * d->dilation >= low && at + k * d->dilation < high;
  return count;
}

/* Windows of three dimensions in each of `planes` planes. */
typedef struct gconv_gpu_pool {
  gconv_gpu_span d[3];
  int64_t planes;
  const float *in;
  float *out;
  bool averages, counts_padding;
} gconv_gpu_pool;
GCONV_GPU_JOB(pool)

typedef enum gconv_gpu_reduction {
  GCONV_REDUCE_SUM,
  GCONV_REDUCE_MEAN,
  GCONV_REDUCE_PRODUCT,
  GCONV_REDUCE_LARGEST,
  GCONV_REDUCE_SMALLEST,
  GCONV_REDUCE_L1,
  GCONV_REDUCE_L2,
  GCONV_REDUCE_SQUARES,
  GCONV_REDUCE_LOG,
  GCONV_REDUCE_LOG_OF_EXP,
  GCONV_REDUCE_PLACE_OF_LARGEST,
  GCONV_REDUCE_PLACE_OF_SMALLEST
} gconv_gpu_reduction;

/* For each place along the kept axes, `count` elements along the reduced axes become one number. Lists go from the first
 * axis to the last. */
typedef struct gconv_gpu_reduce {
  gconv_gpu_reduction how;
  int32_t kept, reduced;
  int64_t kept_shape[GCONV_GPU_AXES], kept_step[GCONV_GPU_AXES], shape[GCONV_GPU_AXES], step[GCONV_GPU_AXES];
  int64_t outputs, count; /* count: elements of one result */
  const void *in;
  void *out; /* for places: int64 */
  int32_t type;
  bool last; /* if elements are equal, the place of the last counts */
} gconv_gpu_reduce;
GCONV_GPU_JOB(reduce)

/* ---- Normalisation ---- */

enum { GCONV_GPU_PARTS = 32 /* blocks that add up a group */ };
typedef enum gconv_gpu_norm { GCONV_NORM_BATCH, GCONV_NORM_GROUP } gconv_gpu_norm;

/* Each channel of an image, N x channels x plane, is scaled and shifted: by mean and deviation of its group of channels, or
 * by the given ones. factor and bias: one number for each channel, or, if `by_group`, for each group. */
typedef struct gconv_gpu_normalize {
  gconv_gpu_norm how;
  const float *in, *factor, *bias, *mean, *variance; /* mean, variance: of GCONV_NORM_BATCH */
  float *out;
  int64_t images, channels, groups, plane;
  bool by_group;
  float epsilon;
  double *parts; /* for GCONV_NORM_GROUP: gconv_gpu_normalize_bytes() of workspace */
  gconv_gpu_tail tail;
} gconv_gpu_normalize;
static inline size_t gconv_gpu_normalize_bytes(int64_t images, int64_t groups) {
  return (size_t)images * (size_t)groups * GCONV_GPU_PARTS * 2 * sizeof(double);
}
GCONV_GPU_JOB(normalize)

/* Each row of `count` elements: out = (in - mean) / deviation * factor + bias. Elements of factor and bias are found by
 * steps along the axes of the tensor. */
typedef struct gconv_gpu_rows {
  const float *in;
  float *out, *means, *inverses; /* means, inverses: one for each row, or NULL */
  int64_t rows, count;
  int32_t axes;
  int64_t size[GCONV_GPU_AXES];
  gconv_gpu_operand factor, bias; /* data: NULL if there is none */
  bool centred;                   /* the mean is subtracted */
  float epsilon;
} gconv_gpu_rows;
GCONV_GPU_JOB(rows)

typedef enum gconv_gpu_along {
  GCONV_ALONG_SOFTMAX,
  GCONV_ALONG_LOG_SOFTMAX,
  GCONV_ALONG_HARDMAX,
  GCONV_ALONG_L1, /* elements are divided by their norm */
  GCONV_ALONG_L2
} gconv_gpu_along;

/* Normalises `lines` lines. Each has `count` elements, which are `inner` apart. */
typedef struct gconv_gpu_axis {
  gconv_gpu_along how;
  const float *in;
  float *out;
  int64_t lines, count, inner;
} gconv_gpu_axis;
GCONV_GPU_JOB(axis)

/* LRN: y = x / (bias + alpha / size * the sum of squares of neighbouring channels)^beta. */
typedef struct gconv_gpu_across {
  const float *in;
  float *out;
  int64_t images, channels, plane, size;
  float alpha, beta, bias;
} gconv_gpu_across;
GCONV_GPU_JOB(across)

/* ---- Sizes, products ---- */

enum { GCONV_GPU_RESIZED = 4 /* axes that change */ };

/* The axes that change, in the order in which they are resized. */
typedef struct gconv_gpu_resize {
  int32_t axes, changed;
  int64_t in[GCONV_GPU_AXES], out[GCONV_GPU_AXES];
  int32_t axis[GCONV_GPU_RESIZED];
  gconv_resize_axis how[GCONV_GPU_RESIZED];
  const float *from;
  float *to;
  float outside;
  void *tables; /* gconv_gpu_table_bytes() of each axis: workspace */
} gconv_gpu_resize;
/* Returns the bytes of the table of an axis: inputs and weights of each output, and whether it is outside. */
static inline size_t gconv_gpu_table_bytes(const gconv_resize_axis *a) {
  const size_t taps = (size_t)a->out * (size_t)gconv_resize_taps(a);
  return (taps * (sizeof(int64_t) + sizeof(float)) + (size_t)a->out + GCONV_GPU_ALIGNMENT - 1) / GCONV_GPU_ALIGNMENT *
         GCONV_GPU_ALIGNMENT;
}
GCONV_GPU_JOB(resize)

/* out[s] = alpha * a[s] b[s] + beta * c for each matrix s of a stack: M x N. Steps count elements. */
typedef struct gconv_gpu_product {
  const float *a, *b, *c; /* c: NULL if there is none */
  float *out;
  int64_t m, n, k, a_row, a_column, b_row, b_column, c_row, c_column;
  float alpha, beta;
  int32_t axes;                                                                 /* axes of the stack */
  int64_t size[GCONV_GPU_AXES], a_step[GCONV_GPU_AXES], b_step[GCONV_GPU_AXES]; /* steps: of elements */
} gconv_gpu_product;
GCONV_GPU_JOB(product)

GCONV_C_END
