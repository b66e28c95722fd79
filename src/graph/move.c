/* SPDX-License-Identifier: MIT */
#include "graph/move.h"

#include <string.h>

enum { GRAIN = 1 << 14 /* elements that are worth a thread */ };

void gconv_move_add(gconv_move *move, int64_t size, int64_t from_step, int64_t to_step) {
  int32_t last = move->axes - 1;
  if (size == 1)
    return;
  const bool joins = last >= 0 && move->from_step[last] == from_step * size && move->to_step[last] == to_step * size;
  last = joins ? last : move->axes++;
  move->shape[last] = joins ? move->shape[last] * size : size;
  move->from_step[last] = from_step;
  move->to_step[last] = to_step;
}

/* Makes the last axis, which is the inner loop, the longest one with a step of 1. */
static void choose_inner(gconv_move *move) {
  int32_t inner = move->axes - 1;
  for (int32_t i = 0; i < move->axes; i++) {
    const bool near = move->from_step[i] == 1 || move->to_step[i] == 1;
    const bool best = move->from_step[inner] == 1 || move->to_step[inner] == 1;
    if (near > best || (near == best && move->shape[i] > move->shape[inner]))
      inner = i;
  }
  int64_t *const lists[] = {move->shape, move->from_step, move->to_step};
  for (int i = 0; i < 3; i++) {
    const int64_t kept = lists[i][inner];
    memmove(lists[i] + inner, lists[i] + inner + 1, (size_t)(move->axes - 1 - inner) * sizeof kept);
    lists[i][move->axes - 1] = kept;
  }
}

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

static void move_line(const gconv_move *j, const char *from, char *to) {
  const int32_t last = j->axes - 1;
  const int64_t count = j->shape[last], from_step = j->from_step[last], to_step = j->to_step[last];
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
  const gconv_move *j = context;
  const int64_t bytes = (int64_t)j->bytes;
  for (int64_t line = begin; line < end; line++) {
    int64_t from = 0, to = 0, rest = line;
    for (int32_t i = j->axes - 2; i >= 0; i--) {
      const int64_t at = rest % j->shape[i];
      rest /= j->shape[i];
      from += at * j->from_step[i];
      to += at * j->to_step[i];
    }
    move_line(j, (const char *)j->from + from * bytes, (char *)j->to + to * bytes);
  }
}

gconv_status gconv_move_run(const gconv_node_work *work, const gconv_move *move, size_t bytes, const void *from, void *to) {
  gconv_move j = *move;
  int64_t lines = 1;
  j.from = from, j.to = to, j.bytes = bytes;
  if (work->stream)
    return gconv_gpu_move_run(&j, work->stream);
  for (int32_t i = 0; i < j.axes; i++)
    if (j.shape[i] == 0)
      return GCONV_OK;
  if (j.axes == 0)
    j = (gconv_move){.axes = 1, .shape = {1}, .from_step = {1}, .to_step = {1}, .from = from, .to = to, .bytes = bytes};
  choose_inner(&j);
  for (int32_t i = 0; i + 1 < j.axes; i++)
    lines *= j.shape[i];
  gconv_node_share(work, lines, GRAIN / (j.shape[j.axes - 1] + 1) + 1, move_lines, &j);
  return GCONV_OK;
}
