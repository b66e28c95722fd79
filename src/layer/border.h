/* SPDX-License-Identifier: MIT */
/* Where the pixels of a padded tensor come from, compiled for host and device from one text. */
#pragma once

#include "kernels/border.h"
#include "layer/network.h"

/* One execution of a step that pads. Rows and columns are counted in the layer's whole input, where the first is 0. */
typedef struct gconv_padding_job {
  gconv_border border;
  float outside;           /* where the border says a constant */
  int32_t height, width;   /* of the whole input */
  int32_t in_rows;         /* of it that are there, from row in_first on */
  int32_t rows, columns;   /* that are made ... */
  int64_t in_first, first; /* ... from row `first` on ... */
  int32_t first_column;    /* ... and from this column on, which is outside or 0 */
} gconv_padding_job;

/* As row `at` of the network's output is made. */
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

/* Which of the rows that are there row y of what is made shows; GCONV_OUTSIDE if it has the constant. By bands of rows, that
 * is so of rows, too, that no output needs. */
GCONV_BOTH int64_t gconv_padding_row(const gconv_padding_job *job, int64_t y) {
  int64_t row = gconv_border_index(job->border, job->first + y, job->height);
  if (row == GCONV_OUTSIDE || row < job->in_first || row >= job->in_first + job->in_rows)
    return GCONV_OUTSIDE;
  return row - job->in_first;
}

GCONV_BOTH int64_t gconv_padding_column(const gconv_padding_job *job, int64_t x) {
  return gconv_border_index(job->border, job->first_column + x, job->width);
}
