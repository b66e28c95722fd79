/* SPDX-License-Identifier: MIT */
#include "graph/broadcast.h"
#include "base/threads.h"
#include "kernels/layer_algorithm.h"

#include <string.h>

typedef struct nest {
  int32_t axes, inputs; /* the axes that are left after neighbours were joined; the last is the innermost */
  int64_t size[GCONV_TENSOR_AXES], step[GCONV_LOOP_INPUTS][GCONV_TENSOR_AXES];
  size_t in_bytes[GCONV_LOOP_INPUTS], out_bytes;
  const uint8_t *in[GCONV_LOOP_INPUTS];
  uint8_t *out;
  gconv_element_loop *loop;
  const void *settings;
} nest;

/* Returns whether the last axis of the nest and the next axis of the output can be joined for all inputs. */
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

/* ---- Numbers for each channel, along an output in blocks of channels ---- */

enum {
  PIECE = 1024,     /* elements at a time */
  RANGE_PIXELS = 96 /* pixels of a range, as in convolutions: a thread mostly reads what it wrote itself */
};

typedef struct channels_nest {
  const gconv_tensor *in[GCONV_LOOP_INPUTS];
  int64_t blocks, all, block, piece; /* blocks of an image, blocks of all images; elements of a block, elements of a piece */
  int32_t inputs;
  float *out;
  gconv_element_loop *loop;
  const void *settings;
} channels_nest;

/* Computes pieces begin .. end - 1. Piece i is piece i / all of block i % all. Numbers of channels are repeated in a buffer,
 * so that loops are long. */
static void run_blocks(void *context, int64_t begin, int64_t end) {
  const channels_nest *n = context;
  float repeated[GCONV_LOOP_INPUTS][PIECE];
  for (int64_t turn = begin; turn < end; turn++) {
    const int64_t b = turn % n->all, first = turn / n->all * n->piece;
    const int64_t last = first + n->piece < n->block ? first + n->piece : n->block;
    const void *in[GCONV_LOOP_INPUTS] = {NULL};
    int64_t step[GCONV_LOOP_INPUTS] = {0};
    for (int32_t i = 0; i < n->inputs; i++) {
      const float *numbers = (const float *)n->in[i]->data + b % n->blocks * GCONV_BLOCK;
      step[i] = gconv_tensor_elements(n->in[i]) > 1;
      in[i] = step[i] ? repeated[i] : n->in[i]->data;
      for (int64_t k = 0; step[i] && gconv_tensor_is_point(n->in[i]) && k < PIECE && k < last - first; k += GCONV_BLOCK)
        memcpy(repeated[i] + k, numbers, GCONV_BLOCK * sizeof *numbers);
    }
    for (int64_t at = first, count; at < last; at += count) {
      count = last - at < PIECE ? last - at : PIECE;
      for (int32_t i = 0; i < n->inputs; i++)
        if (step[i] && !gconv_tensor_is_point(n->in[i]))
          in[i] = (const float *)n->in[i]->data + b * n->block + at;
      n->loop(in, step, n->out + b * n->block + at, count, n->settings);
    }
  }
}

/* Runs a loop whose output is in blocks. Each input is in blocks, too, or has a number for each channel, or one number. */
static void loop_blocks(const gconv_node_work *work, const gconv_tensor *const *inputs, int32_t count,
                        gconv_element_loop *loop, const gconv_tensor *out) {
  const int64_t plane = out->shape[2] * out->shape[3], threads = work->threads ? gconv_threads_count(work->threads) : 1;
  const int64_t most = plane / RANGE_PIXELS < threads ? plane / RANGE_PIXELS : threads, ranges = most > 0 ? most : 1;
  channels_nest n = {.blocks = gconv_layer_image_floats(out->shape[1], 1, true) / GCONV_BLOCK,
                     .all = gconv_layer_image_floats(out->shape[1], out->shape[0], true) / GCONV_BLOCK,
                     .block = plane * GCONV_BLOCK,
                     .piece = (plane + ranges - 1) / ranges * GCONV_BLOCK,
                     .inputs = count,
                     .out = out->data,
                     .loop = loop,
                     .settings = work->settings};
  for (int32_t i = 0; i < count; i++)
    n.in[i] = inputs[i];
  gconv_node_share(work, n.all * ((n.block - 1) / n.piece + 1), (1 << 13) / n.piece + 1, run_blocks, &n);
}

void gconv_node_loop(const gconv_node_work *work, const gconv_tensor *const *inputs, int32_t count, gconv_element_loop *loop,
                     gconv_tensor *out) {
  if (out->blocks) {
    loop_blocks(work, inputs, count, loop, out);
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
