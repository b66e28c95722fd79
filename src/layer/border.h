/* SPDX-License-Identifier: MIT */
/* Where the pixels of a padded tensor come from, compiled for host and device from one text. */
#pragma once

#include "kernels/border.h"
#include "layer/network.h"

/* One execution of a step that pads. Rows and columns are counted in the layer's whole input, where the first is 0. */
typedef struct gconv_padding_job {
  gconv_border border;
  float outside;           /* the constant of border constant */
  int32_t height, width;   /* height and width of the whole input */
  int32_t in_rows;         /* rows of the input that are in memory, from row in_first on */
  int32_t rows, columns;   /* rows and columns of the padded tensor, as far as it is made */
  int64_t in_first, first; /* in_first: the first row in memory; first: the first row that is made */
  int32_t first_column;    /* the first column that is made, which is outside or 0 */
} gconv_padding_job;

/* Returns the job of an execution that makes the network's output from row `at` on. */
static inline gconv_padding_job gconv_padding_job_of(const gconv_network_plan *network, const gconv_step *step, int64_t at) {
  const gconv_layer_problem *p = &step->problem, *whole = &step->whole;
  gconv_padding_job job = {step->border,
                           step->outside,
                           whole->height,
                           whole->width,
                           p->height,
                           p->out_height,
                           p->out_width,
                           0,
                           -(int64_t)whole->pad_top,
                           -p->pad_left};
  if (network->by_rows)
    job.in_first = job.first = at * step->out_band.scale - step->out_band.shift - whole->pad_top;
  return job;
}

/* Returns the row in memory that row y of the padded tensor copies; GCONV_OUTSIDE: row y has the constant. In bands of rows,
 * rows that no output needs have the constant, too. */
GCONV_BOTH int64_t gconv_padding_row(const gconv_padding_job *job, int64_t y) {
  int64_t row = gconv_border_index(job->border, job->first + y, job->height);
  if (row == GCONV_OUTSIDE || row < job->in_first || row >= job->in_first + job->in_rows)
    return GCONV_OUTSIDE;
  return row - job->in_first;
}

/* Returns the column that column x of the padded tensor copies, or GCONV_OUTSIDE. */
GCONV_BOTH int64_t gconv_padding_column(const gconv_padding_job *job, int64_t x) {
  return gconv_border_index(job->border, job->first_column + x, job->width);
}
