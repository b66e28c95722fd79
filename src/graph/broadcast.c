/* SPDX-License-Identifier: MIT */
#include "graph/broadcast.h"

typedef struct nest {
  int32_t axes, inputs; /* the axes that are left after neighbours were joined; the last is the innermost */
  int64_t size[GCONV_TENSOR_AXES], step[GCONV_LOOP_INPUTS][GCONV_TENSOR_AXES];
  size_t in_bytes[GCONV_LOOP_INPUTS], out_bytes;
  const uint8_t *in[GCONV_LOOP_INPUTS];
  uint8_t *out;
  gconv_element_loop *loop;
  const void *settings;
} nest;

/* Whether the last axis of the nest and the next axis of the output are one axis for all inputs. */
static bool can_join(const nest *n, int64_t size, int64_t step[GCONV_LOOP_INPUTS][GCONV_TENSOR_AXES], int32_t axis) {
  for (int32_t i = 0; i < n->inputs; i++)
    if (n->step[i][n->axes - 1] != step[i][axis] * size)
      return false;
  return n->axes > 0;
}

static void add_axis(nest *n, int64_t size, int64_t step[GCONV_LOOP_INPUTS][GCONV_TENSOR_AXES], int32_t axis) {
  if (size == 1)
    return;
  const bool join = n->axes > 0 && can_join(n, size, step, axis);
  n->axes += !join;
  n->size[n->axes - 1] = join ? n->size[n->axes - 1] * size : size;
  for (int32_t i = 0; i < n->inputs; i++)
    n->step[i][n->axes - 1] = step[i][axis];
}

/* Computes elements begin .. end - 1 of the output. */
static void run_part(void *context, int64_t begin, int64_t end) {
  const nest *n = context;
  const int32_t inner = n->axes - 1;
  int64_t steps[GCONV_LOOP_INPUTS] = {0};
  for (int32_t i = 0; i < n->inputs; i++)
    steps[i] = n->step[i][inner];
  while (begin < end) {
    const void *in[GCONV_LOOP_INPUTS] = {0};
    int64_t left = n->size[inner] - begin % n->size[inner];
    for (int32_t i = 0; i < n->inputs; i++) {
      int64_t index = begin, place = 0;
      for (int32_t axis = inner; axis >= 0; axis--) {
        place += index % n->size[axis] * n->step[i][axis];
        index /= n->size[axis];
      }
      in[i] = n->in[i] + (size_t)place * n->in_bytes[i];
    }
    left = left < end - begin ? left : end - begin;
    n->loop(in, steps, n->out + (size_t)begin * n->out_bytes, left, n->settings);
    begin += left;
  }
}

void gconv_node_loop(const gconv_node_work *work, const gconv_tensor *const *inputs, int32_t count, gconv_element_loop *loop,
                     gconv_tensor *out) {
  gconv_tensor views[GCONV_LOOP_INPUTS + 1];
  const gconv_tensor *viewed[GCONV_LOOP_INPUTS];
  if (out->blocks) { /* the same loop, with an axis more */
    for (int32_t i = 0; i < count; i++) {
      gconv_tensor_view_blocks(inputs[i], &views[i]);
      viewed[i] = gconv_tensor_elements(inputs[i]) == 1 ? inputs[i] : &views[i];
    }
    gconv_tensor_view_blocks(out, &views[count]);
    gconv_node_loop(work, viewed, count, loop, &views[count]);
    return;
  }
  int64_t step[GCONV_LOOP_INPUTS][GCONV_TENSOR_AXES];
  nest n = {.inputs = count,
            .out = out->data,
            .out_bytes = gconv_tensor_type_bytes(out->type),
            .loop = loop,
            .settings = work->settings};
  for (int32_t i = 0; i < count; i++) {
    n.in[i] = inputs[i]->data;
    n.in_bytes[i] = gconv_tensor_type_bytes(inputs[i]->type);
    gconv_node_steps(inputs[i], out, step[i]);
  }
  for (int32_t axis = 0; axis < out->axes; axis++)
    add_axis(&n, out->shape[axis], step, axis);
  if (n.axes == 0) { /* one element */
    n.axes = 1;
    n.size[0] = 1;
  }
  gconv_node_share(work, gconv_tensor_elements(out), 1 << 14, run_part, &n);
}
