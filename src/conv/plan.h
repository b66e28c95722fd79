/* SPDX-License-Identifier: MIT */
/* Plain filters as an operation: the records of operations and plans, and the functions that their files share. */
#ifndef GCONV_CONV_PLAN_H
#define GCONV_CONV_PLAN_H

#include "conv/run.h"
#include "operation/operation.h"
#include "operation/tuning.h"

/* filters.c makes operations. plan_check.c checks the arguments of plans, plan.c makes plans, plan_execute.c executes them,
 * explain.c explains them, and verify.c verifies their outputs. */
typedef struct gconv_filter_plan {
  gconv_plan base;
  gconv_options options; /* of the user, with output_type set; the operation owns the names and the filters */
  const gconv_filters *filters;
  gconv_image convolved; /* header of the image that is convolved, after the stages before */
  bool before, after;    /* whether there are these stages */
  bool parts_alpha;      /* whether the stage after is that of alpha_range.c */
  gconv_pass *passes;
  size_t pass_count;
  gconv_image *raw_outputs;       /* headers of the convolution's outputs: as the plan's outputs, with another type */
  const gconv_run_type *run_type; /* executes the passes on the device */
  void *run;                      /* the state of the run type; NULL in an outline */
  char *reasons;                  /* why these algorithms: lines of text */
} gconv_filter_plan;

/* The operation: the filters and options of the user. Filters that are combined have one size and anchor. */
typedef struct gconv_filter_operation {
  gconv_operation base;
  gconv_filters filters; /* copies */
  gconv_options options; /* the names of algorithms are copies */
} gconv_filter_operation;

/* The plans of an operation of filters, and its fill_plan(). */
extern const gconv_plan_type gconv_filter_plan_type;
gconv_status gconv_filter_plan_fill(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *plan);

/* Functions of plans with a file of their own. */
void gconv_filter_explain(const gconv_plan *plan, FILE *text);

/* losses.c */
struct gconv_holes;
/* For a plan with gconv_plan_watch(): examines the outputs from row `first` on. `in` is the convolved image from row in_row
 * on, with its holes (holes.h). outputs: NULL if they are not in memory. */
void gconv_filter_watch(const gconv_filter_plan *plan, const gconv_image *in, const struct gconv_holes *holes,
                        int32_t in_row, const gconv_image *outputs, int32_t first);

/* choose.c */
/* The algorithm that options->algorithm names, or, for "auto", the cheapest of those that support the problem, are not there
 * to learn from and are not in options->without. The price is the algorithm's own estimate, times what was measured of such
 * problems (tuning.h). So it follows from the problem, the kind of device, and the user's file of gconv tune if there is
 * one; nothing else enters, neither threads nor memory nor other images. A line for each algorithm is written to `reasons`.
 * GCONV_BAD_ARGUMENT for names that no algorithm of the device has, GCONV_UNSUPPORTED with the obstacle. */
gconv_status gconv_choose(const gconv_problem *problem, const gconv_device *device, const gconv_options *options,
                          FILE *reasons, const gconv_algorithm **chosen);

/* The ratio of measured to estimated time for problems like this. */
double gconv_problem_ratio(const gconv_problem *problem, const gconv_tuning *tuning, const gconv_algorithm *row);

/* problem.c */
/* Makes a problem from `options`, for images like `like` and for `filters`, which all have one size and anchor. Its
 * structure is left to gconv_find_structure(). Its weights are gconv_weight_floats() floats for gconv_release(), with
 * nothing prepared. If the border is zero, rows and columns of taps that lie outside the image at every output are left out.
 * `like` is the image after the stages before: grey, linear light, premultiplication. */
gconv_status gconv_problem_create(const gconv_image *like, const gconv_filter *filters, size_t count,
                                  const gconv_options *options, gconv_problem *problem, float **weights);

/* The epilogue of sums from samples of type `in` to samples of type `out`. */
gconv_epilogue gconv_make_epilogue(const gconv_options *options, gconv_type in, gconv_type out);

/* alpha_range.c */
/* Whether colours and alpha need epilogues of their own: alpha is filtered, and the range is for colours. */
bool gconv_range_parts_alpha(const gconv_image *like, const gconv_options *options, size_t filters);
/* Changes `core` to the options of a convolution whose f32 responses are in levels of the convolved image. */
void gconv_ask_for_levels(gconv_type convolved, gconv_options *core);
/* Makes the image `out` from such responses of the same shape. */
void gconv_finish_levels(gconv_threads *threads, const gconv_options *options, gconv_type convolved, const gconv_image *raw,
                         const gconv_image *out);

/* problem.c */
/* The options with the defaults in place of zeros. */
gconv_options gconv_options_filled(const gconv_options *options);

/* Returns GCONV_BAD_ARGUMENT if an option alone is out of its range. */
gconv_status gconv_options_check(const gconv_options *options);

/* Whether all have one size and anchor. */
bool gconv_filters_have_one_frame(const gconv_filters *filters);

/* The type of outputs for inputs of this one. */
gconv_type gconv_filter_output_type(const gconv_options *options, gconv_type input);

/* GCONV_BAD_ARGUMENT for images that filters and options cannot be used on (plan_check.c). */
gconv_status gconv_filter_plan_check(const gconv_image *like, const gconv_filters *filters, const gconv_options *options);

#endif
