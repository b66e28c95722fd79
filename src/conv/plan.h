/* SPDX-License-Identifier: MIT */
/* Plain filters as an operation: the records of operations and plans, and the functions that files of this room share. */
#pragma once

#include "conv/run.h"
#include "operation/operation.h"
#include "operation/tuning.h"

/* filters.c makes operations. plan_check.c checks the arguments of plans, plan.c makes plans, plan_execute.c executes them,
 * explain.c explains them, and verify.c verifies their outputs. */
typedef struct gconv_filter_plan {
  gconv_plan base;
  gconv_options options; /* the user's options, with output_type set; the operation owns the names and the filters */
  const gconv_filters *filters;
  gconv_image convolved; /* header of the image that is convolved: the input, or what the stage before makes of it */
  bool before, after;    /* the convolution has a stage before it, and one after it */
  bool parts_alpha;      /* alpha_range.c is the stage after */
  gconv_pass *passes;
  size_t pass_count;
  gconv_image *raw_outputs;       /* headers of the convolution's outputs, which may have another type than the plan's */
  const gconv_run_type *run_type; /* executes the passes on the device */
  void *run;                      /* the state of the run type; NULL in an outline */
  char *reasons;                  /* why these algorithms: lines of text */
} gconv_filter_plan;

/* The operation: the filters and options of the user. If the filters' outputs are combined, all filters have one size and
 * anchor. */
typedef struct gconv_filter_operation {
  gconv_operation base;
  gconv_filters filters; /* copies */
  gconv_options options; /* the names of algorithms are copies */
} gconv_filter_operation;

/* The functions of plans of filters; gconv_filter_plan_fill() is fill_plan() of the operation. */
extern const gconv_plan_type gconv_filter_plan_type;
gconv_status gconv_filter_plan_fill(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *plan);

/* Explains a plan in words (explain.c). */
void gconv_filter_explain(const gconv_plan *plan, FILE *text);

/* losses.c */
struct gconv_holes;
/* If the plan is watched (gconv_plan_watch()), examines the outputs from row `first` on. `in` has the rows from in_row on of
 * the image that is convolved, and `holes` its holes (holes.h). `outputs` is NULL if the outputs are not in memory. */
void gconv_filter_watch(const gconv_filter_plan *plan, const gconv_image *in, const struct gconv_holes *holes,
                        int32_t in_row, const gconv_image *outputs, int32_t first);

/* choose.c */
/* Chooses the algorithm that options->algorithm names. For "auto", chooses the cheapest one that supports the problem and
 * that "auto" may take (gconv_pick()). The price is the algorithm's own estimate, times the measured ratio for such problems
 * (tuning.h). So the choice follows from the problem, the kind of device, and the user's file of gconv tune if there is one.
 * It does not depend on threads, memory or other images. Writes a line for each algorithm to `reasons`. Fails with
 * GCONV_BAD_ARGUMENT if no algorithm has the name. Fails with GCONV_UNSUPPORTED if the algorithm cannot solve the problem;
 * the text says why. */
gconv_status gconv_choose(const gconv_problem *problem, const gconv_device *device, const gconv_options *options,
                          FILE *reasons, const gconv_algorithm **chosen);

/* Returns the measured time divided by the algorithm's estimate, for problems like this one. */
double gconv_problem_ratio(const gconv_problem *problem, const gconv_tuning *tuning, const gconv_algorithm *row);

/* problem.c */
/* Makes a problem from `options`, for images like `like` and for `filters`, which all have one size and anchor.
 * gconv_find_structure() finds its structure later. The weights are gconv_weight_floats() floats, without prepared weights;
 * free them with gconv_release(). If the border is zero, rows and columns of taps that lie outside the image at every output
 * are left out. `like` is the image after the stages before: grey, linear light, premultiplication. */
gconv_status gconv_problem_create(const gconv_image *like, const gconv_filter *filters, size_t count,
                                  const gconv_options *options, gconv_problem *problem, float **weights);

/* Returns the epilogue that makes samples of type `out` from sums over samples of type `in`. */
gconv_epilogue gconv_make_epilogue(const gconv_options *options, gconv_type in, gconv_type out);

/* alpha_range.c */
/* Returns whether colours and alpha need different epilogues: alpha is filtered, and the range is for colours only. */
bool gconv_range_parts_alpha(const gconv_image *like, const gconv_options *options, size_t filters);
/* Changes `core` so that the convolution yields f32 responses, in levels of its input, which has the type `convolved`. */
void gconv_ask_for_levels(gconv_type convolved, gconv_options *core);
/* Applies the epilogues to such responses, `raw`, and stores them in `out`, an image of the same shape. */
void gconv_finish_levels(gconv_threads *threads, const gconv_options *options, gconv_type convolved, const gconv_image *raw,
                         const gconv_image *out);

/* Returns the options with the defaults in place of zeros (problem.c). */
gconv_options gconv_options_filled(const gconv_options *options);

/* Fails with GCONV_BAD_ARGUMENT if an option is out of its range, whatever the image and the filters are. */
gconv_status gconv_options_check(const gconv_options *options);

/* Returns whether the options ask for samples that have weights. weighted.c makes operations for such options. */
bool gconv_wants_weights(const gconv_options *options);

/* Makes an operation (filters.c). The options are checked and filled, and ask for no weights. */
gconv_status gconv_operation_plain(const gconv_filters *filters, const gconv_options *options, gconv_operation **result);

/* Warns if the number for no data becomes a number that data of the results may have, too (plan.c). */
void gconv_warn_of_nodata(const gconv_image *like, const gconv_image *out);

/* Returns whether all filters have one size and anchor (plan_check.c). */
bool gconv_filters_have_one_frame(const gconv_filters *filters);

/* Returns the type of outputs for inputs of type `input` (plan_check.c). */
gconv_type gconv_filter_output_type(const gconv_options *options, gconv_type input);

/* Fails with GCONV_BAD_ARGUMENT if filters and options cannot be used on the image (plan_check.c). */
gconv_status gconv_filter_plan_check(const gconv_image *like, const gconv_filters *filters, const gconv_options *options);
