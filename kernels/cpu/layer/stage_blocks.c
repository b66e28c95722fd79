/* SPDX-License-Identifier: MIT */
/* Stages inputs in blocks of channels. If no tap lies outside the image, tiles read the input itself, else a copy of a
 * window with its border pixels. */
#include "stage.h"

#include <string.h>

static int64_t extent(int32_t taps, int32_t dilation, int64_t outputs, int32_t stride) {
  return (outputs - 1) * stride + (int64_t)(taps - 1) * dilation + 1;
}

gconv_block_stage gconv_block_stage_of(const gconv_layer_problem *problem, int64_t rows, int64_t columns) {
  const int64_t high = extent(problem->rows, problem->dilation_y, problem->out_height, problem->stride_y);
  const int64_t wide = extent(problem->columns, problem->dilation_x, problem->out_width, problem->stride_x);
  gconv_block_stage stage = {.in_place = problem->pad_top == 0 && problem->pad_left == 0 && high <= problem->height &&
                                         wide <= problem->width,
                             .height = problem->height,
                             .width = problem->width};
  if (!stage.in_place) {
    stage.height = extent(problem->rows, problem->dilation_y, rows, problem->stride_y);
    stage.width = extent(problem->columns, problem->dilation_x, columns, problem->stride_x);
  }
  stage.step = (int64_t)problem->stride_x * GCONV_BLOCK;
  stage.pitch = problem->stride_y * stage.width * GCONV_BLOCK;
  stage.block = (stage.in_place ? gconv_layer_in_plane(problem) : stage.height * stage.width) * GCONV_BLOCK;
  return stage;
}

size_t gconv_block_stage_floats(const gconv_block_stage *stage, int64_t channels) {
  return stage->in_place ? 0 : (size_t)((channels + 2 * GCONV_BLOCK - 2) / GCONV_BLOCK * stage->block);
}

void gconv_block_stage_offsets(const gconv_block_stage *stage, const gconv_layer_problem *problem, int64_t first,
                               int64_t channels, int64_t *offsets) {
  for (int64_t c = first % GCONV_BLOCK; c < first % GCONV_BLOCK + channels; c++)
    for (int64_t r = 0; r < problem->rows; r++)
      for (int64_t s = 0; s < problem->columns; s++)
        *offsets++ = c / GCONV_BLOCK * stage->block + c % GCONV_BLOCK +
                     (r * problem->dilation_y * stage->width + s * problem->dilation_x) * GCONV_BLOCK;
}

const float *gconv_block_stage_fill(const gconv_block_stage *stage, const gconv_layer_problem *problem, const float *in,
                                    const gconv_block_window *w, float *to) {
  const int64_t begin = w->channel / GCONV_BLOCK, end = gconv_divide_up(w->channel + w->channels, GCONV_BLOCK);
  in += begin * gconv_layer_in_plane(problem) * GCONV_BLOCK;
  if (stage->in_place)
    return in + w->row * stage->pitch + w->column * stage->step;
  const int64_t top = w->row * problem->stride_y - problem->pad_top,
                left = w->column * problem->stride_x - problem->pad_left;
  const int64_t width = extent(problem->columns, problem->dilation_x, w->columns, problem->stride_x);
  const int64_t height = extent(problem->rows, problem->dilation_y, w->rows, problem->stride_y);
  const int64_t from = gconv_clamp(-left, 0, width), until = gconv_clamp(problem->width - left, from, width);
  for (int64_t b = 0; b < end - begin; b++)
    for (int64_t y = 0; y < height; y++) {
      float *row = to + b * stage->block + y * stage->width * GCONV_BLOCK;
      const bool inside = top + y >= 0 && top + y < problem->height;
      const int64_t first = inside ? from : width, last = inside ? until : width;
      memset(row, 0, (size_t)(first * GCONV_BLOCK) * sizeof *row);
      if (inside)
        memcpy(row + first * GCONV_BLOCK,
               in + (b * gconv_layer_in_plane(problem) + (top + y) * problem->width + left + first) * GCONV_BLOCK,
               (size_t)((last - first) * GCONV_BLOCK) * sizeof *row);
      memset(row + last * GCONV_BLOCK, 0, (size_t)((width - last) * GCONV_BLOCK) * sizeof *row);
    }
  return to;
}

const char *gconv_layer_takes_blocks(const gconv_layer_problem *problem, int lanes) {
  if (!problem->in_blocks && !problem->out_blocks)
    return NULL;
  if (lanes * 2 < GCONV_BLOCK)
    return "blocks of channels, on this processor";
  if (problem->groups > 1 && problem->out_blocks && problem->filters / problem->groups % GCONV_BLOCK != 0)
    return "groups that are parts of a block of channels";
  return NULL;
}
