/* SPDX-License-Identifier: MIT */
#include "graph/move.h"
#include "kernels/cuda/graph/graph.h"

#include <string.h>

enum { GRAIN = 1 << 14 /* elements that are worth a thread */ };

void gconv_move_add(gconv_move *move, int64_t size, int64_t from_step, int64_t to_step) {
  move->shape[move->axes] = size;
  move->from_step[move->axes] = from_step;
  move->to_step[move->axes++] = to_step;
}

/* Drops axes of one element, and joins neighbouring axes that are as one in both tensors. */
static gconv_move join_axes(const gconv_move *move) {
  gconv_move joined = {0};
  for (int32_t i = 0; i < move->axes; i++) {
    const int32_t last = joined.axes - 1;
    const int64_t size = move->shape[i], from = move->from_step[i], to = move->to_step[i];
    if (size == 1)
      continue;
    if (last >= 0 && joined.from_step[last] == from * size && joined.to_step[last] == to * size) {
      joined.shape[last] *= size;
      joined.from_step[last] = from;
      joined.to_step[last] = to;
    } else
      gconv_move_add(&joined, size, from, to);
  }
  return joined;
}

/* Makes the longest axis of neighbours the last, which is the inner loop. */
static void choose_inner(gconv_move *move) {
  int32_t inner = move->axes - 1;
  for (int32_t i = 0; i < move->axes; i++) {
    const bool near = move->from_step[i] == 1 || move->to_step[i] == 1;
    const bool best = move->from_step[inner] == 1 || move->to_step[inner] == 1;
    if (near > best || (near == best && move->shape[i] > move->shape[inner]))
      inner = i;
  }
  const gconv_move old = *move;
  move->axes = inner;
  for (int32_t i = inner + 1; i < old.axes; i++)
    gconv_move_add(move, old.shape[i], old.from_step[i], old.to_step[i]);
  gconv_move_add(move, old.shape[inner], old.from_step[inner], old.to_step[inner]);
}

typedef struct job {
  gconv_move move;
  size_t bytes;
  const char *from;
  char *to;
} job;

#define MOVE_LINE(name, type)                                                                                               \
  static void name(const void *source, void *target, int64_t count, int64_t from_step, int64_t to_step) {                   \
    const type *restrict from = source;                                                                                     \
    type *restrict to = target;                                                                                             \
    if (from_step == 0)                                                                                                     \
      for (int64_t i = 0; i < count; i++)                                                                                   \
        to[i * to_step] = *from;                                                                                            \
    else if (to_step == 1)                                                                                                  \
      for (int64_t i = 0; i < count; i++)                                                                                   \
        to[i] = from[i * from_step];                                                                                        \
    else                                                                                                                    \
      for (int64_t i = 0; i < count; i++)                                                                                   \
        to[i * to_step] = from[i * from_step];                                                                              \
  }
MOVE_LINE(move_bytes, uint8_t)
MOVE_LINE(move_shorts, uint16_t)
MOVE_LINE(move_words, uint32_t)
MOVE_LINE(move_long_words, uint64_t)

static void move_line(const job *j, const char *from, char *to) {
  const int32_t last = j->move.axes - 1;
  const int64_t count = j->move.shape[last], from_step = j->move.from_step[last], to_step = j->move.to_step[last];
  if (from_step == 1 && to_step == 1)
    memcpy(to, from, (size_t)count * j->bytes);
  else
    (j->bytes == 1   ? move_bytes
     : j->bytes == 2 ? move_shorts
     : j->bytes == 4 ? move_words
                     : move_long_words)(from, to, count, from_step, to_step);
}

/* Moves lines begin .. end - 1 of the inner axis. */
static void move_lines(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const int64_t bytes = (int64_t)j->bytes;
  for (int64_t line = begin; line < end; line++) {
    int64_t from = 0, to = 0, rest = line;
    for (int32_t i = j->move.axes - 2; i >= 0; i--) {
      const int64_t at = rest % j->move.shape[i];
      rest /= j->move.shape[i];
      from += at * j->move.from_step[i];
      to += at * j->move.to_step[i];
    }
    move_line(j, j->from + from * bytes, j->to + to * bytes);
  }
}

static gconv_status move_there(const gconv_move *move, size_t bytes, const void *from, void *to, void *stream) {
  gconv_gpu_move on_gpu = {.axes = move->axes, .from = from, .to = to, .bytes = bytes};
  memcpy(on_gpu.shape, move->shape, sizeof on_gpu.shape);
  memcpy(on_gpu.from_step, move->from_step, sizeof on_gpu.from_step);
  memcpy(on_gpu.to_step, move->to_step, sizeof on_gpu.to_step);
  return gconv_gpu_move_run(&on_gpu, stream);
}

gconv_status gconv_move_run(const gconv_node_work *work, const gconv_move *move, size_t bytes, const void *from, void *to) {
  job j = {join_axes(move), bytes, from, to};
  int64_t lines = 1;
  if (work->stream)
    return move_there(move, bytes, from, to, work->stream);
  if (j.move.axes == 0)
    gconv_move_add(&j.move, 1, 1, 1);
  choose_inner(&j.move);
  for (int32_t i = 0; i < move->axes; i++)
    if (move->shape[i] == 0)
      return GCONV_OK;
  for (int32_t i = 0; i + 1 < j.move.axes; i++)
    lines *= j.move.shape[i];
  gconv_node_share(work, lines, GRAIN / (j.move.shape[j.move.axes - 1] + 1) + 1, move_lines, &j);
  return GCONV_OK;
}
