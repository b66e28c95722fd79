/* SPDX-License-Identifier: MIT */
/* Explains a plan in words. */
#include "base/printable.h"
#include "conv/plan.h"

#include <stdio.h>
#include <string.h>

static const char *symmetry_of(const gconv_filter_analysis *analysis) {
  if (analysis->symmetric_rows && analysis->symmetric_columns)
    return "symmetric both ways";
  if (analysis->symmetric_rows)
    return analysis->antisymmetric_columns ? "symmetric upside down, antisymmetric left to right" : "symmetric upside down";
  if (analysis->symmetric_columns)
    return analysis->antisymmetric_rows ? "symmetric left to right, antisymmetric upside down" : "symmetric left to right";
  if (analysis->antisymmetric_rows || analysis->antisymmetric_columns)
    return "antisymmetric";
  return "no symmetry";
}

static void print_filter(FILE *text, const gconv_filter *filter) {
  gconv_print(text, "filter %s: %d x %d, anchor %d,%d", filter->name, filter->rows, filter->columns, filter->anchor_row,
              filter->anchor_column);
  if (filter->divisor != 1)
    fprintf(text, ", divisor %.9g", (double)filter->divisor);
  if (filter->offset != 0)
    fprintf(text, ", offset %.9g levels", (double)filter->offset);
  gconv_filter_analysis analysis;
  if (gconv_filter_analyze(filter, &analysis) != GCONV_OK) {
    fprintf(text, "\n");
    return;
  }
  fprintf(text, "\n  sum %.6g (positive %.6g, negative %.6g), %lld taps are 0\n  %s, ", analysis.sum, analysis.positive_sum,
          analysis.negative_sum, (long long)analysis.zero_taps, symmetry_of(&analysis));
  if (analysis.rank < 0)
    fprintf(text, "rank not analysed\n");
  else
    fprintf(text, "rank %d%s\n", analysis.rank, analysis.rank == 1 ? " (separable)" : "");
  fprintf(text, "  responses to an image in [0, 1] lie in [%.6g, %.6g]\n", analysis.negative_sum, analysis.positive_sum);
}

static void print_shapes(FILE *text, const gconv_filter_plan *plan) {
  const gconv_problem *problem = &plan->passes[0].problem;
  const gconv_image *in = &plan->base.like, *out = &plan->base.outputs[0];
  fprintf(text, "input  %d x %d x %d x %d %s (frames, channels, height, width)\n", in->frames, in->channels, in->height,
          in->width, gconv_type_name(in->type));
  if (plan->before)
    fprintf(text, "  first converted to %d channels of %s%s%s on the host\n", plan->convolved.channels,
            gconv_type_name(plan->convolved.type),
            plan->options.linear ? ", linear light"
            : plan->options.mix  ? ", mixed"
                                 : "",
            plan->options.alpha == GCONV_ALPHA_PREMULTIPLY && in->alpha ? ", premultiplied" : "");
  fprintf(text, "output %d x %d x %d x %d %s, %zu of them\n", out->frames, out->channels, out->height, out->width,
          gconv_type_name(out->type), plan->base.output_count);
  fprintf(text, "%s, border %s, stride %d,%d, dilation %d,%d, combine %s%s\n",
          plan->options.flip ? "convolution (filters rotated by 180 degrees)" : "correlation",
          gconv_border_name(problem->border), problem->stride_y, problem->stride_x, problem->dilation_y, problem->dilation_x,
          gconv_combine_name(problem->epilogue.combine), problem->keep_alpha ? ", alpha kept" : "");
}

static void print_choice(FILE *text, const gconv_filter_plan *plan) {
  const gconv_plan_info *info = &plan->base.info;
  fprintf(text, "device %s (%s)\n", info->device, plan->base.device->info.description);
  fprintf(text, "algorithm %s, math %s, %s\n", info->algorithm, info->math, gconv_family(info->exact));
  bool is_auto = strcmp(plan->options.algorithm, "auto") == 0;
  fprintf(text, "  %s%s:\n", is_auto ? "the cheapest of" : "as asked for", gconv_device_prices(plan->base.device).unit);
  fputs(plan->reasons, text);
  fprintf(text, "work %.3g GFLOP, at least %.3g MB moved; workspace %.3g MB%s\n", info->flop * 1e-9, info->bytes * 1e-6,
          (double)info->workspace_bytes * 1e-6, plan->base.device->type == &gconv_device_type_cpu ? " a thread" : "");
  if (plan->run_type != &gconv_run_type_cpu && gconv_plan_held_bytes(&plan->base) > 0)
    fprintf(text, "memory on the device %.3g MB\n", (double)gconv_plan_held_bytes(&plan->base) * 1e-6);
  fprintf(text, "error of a response at most %.3g of (sum |tap|) * (largest sample)\n", info->error_bound);
}

void gconv_filter_explain(const gconv_plan *base, FILE *text) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  for (size_t k = 0; k < plan->filters->count; k++)
    print_filter(text, &plan->filters->items[k]);
  print_shapes(text, plan);
  print_choice(text, plan);
}
