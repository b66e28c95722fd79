/* SPDX-License-Identifier: MIT */
#include "graph/plain_conv.h"
#include "base/cpu.h"

typedef struct job {
  const gconv_layer_problem *problem;
  const void *in, *weights, *biases;
  void *out;
} job;

/* Outputs first .. first + count - 1 of a row see an input inside of the image; the first of them sees `input`. */
typedef struct span {
  int64_t first, count, input;
} span;

static span outputs_of_tap(const gconv_layer_problem *p, int64_t column) {
  const int64_t shift = p->pad_left - column * p->dilation_x, stride = p->stride_x; /* output x sees x * stride - shift */
  const int64_t first = shift > 0 ? (shift + stride - 1) / stride : 0;
  const int64_t end = p->width - 1 + shift < 0 ? 0 : (p->width - 1 + shift) / stride + 1;
  return (span){first, (end < p->out_width ? end : p->out_width) - first, first * stride - shift};
}

/* Adds one tap to `count` outputs of a row: `w` times inputs that are `stride` apart. */
#define ADD_TAP(name, NUMBER)                                                                                               \
  GCONV_VECTOR_LOOP(name, (const NUMBER *restrict in, int64_t stride, NUMBER w, int64_t count, NUMBER *restrict out),       \
                    (in, stride, w, count, out)) {                                                                          \
    if (stride == 1)                                                                                                        \
      for (int64_t x = 0; x < count; x++)                                                                                   \
        out[x] += w * in[x];                                                                                                \
    else                                                                                                                    \
      for (int64_t x = 0; x < count; x++)                                                                                   \
        out[x] += w * in[x * stride];                                                                                       \
  }
ADD_TAP(add_tap_f64, double)
ADD_TAP(add_tap_u32, uint32_t)

#define NAME(name) name##_f64
#define NUMBER double
#include "graph/plain_conv_loops.h"
#define NAME(name) name##_u32
#define NUMBER uint32_t
#include "graph/plain_conv_loops.h"

/* If filters are one pixel, makes the image one long row. */
static gconv_layer_problem flatten(const gconv_layer_problem *problem) {
  gconv_layer_problem p = *problem;
  const bool pixels = p.rows == 1 && p.columns == 1 && p.stride_y == 1 && p.stride_x == 1 && p.out_height == p.height &&
                      p.out_width == p.width && (int64_t)p.height * p.width <= INT32_MAX;
  if (pixels) {
    p.out_width = p.width = p.height * p.width;
    p.out_height = p.height = 1;
  }
  return p;
}

void gconv_plain_conv(const gconv_node_work *work, const gconv_layer_problem *problem, gconv_tensor_type type,
                      const void *in, const void *weights, const void *biases, void *out) {
  const gconv_layer_problem p = flatten(problem);
  job j = {&p, in, weights, biases, out};
  const int64_t each = p.out_width * (gconv_layer_taps(&p) + 1);
  gconv_node_share(work, (int64_t)p.images * p.filters * p.out_height, (1 << 16) / each + 1,
                   type == GCONV_TENSOR_F64 ? make_rows_f64 : make_rows_u32, &j);
}
