/* SPDX-License-Identifier: MIT */
/* Explains a network in words. */
#include "layer/network.h"

static void print_border(FILE *text, const gconv_step *pads) {
  const gconv_layer_problem *problem = &pads->whole;
  const int32_t below = problem->out_height - problem->pad_top - problem->height,
                behind = problem->out_width - problem->pad_left - problem->width;
  fprintf(text, "  border %s", gconv_border_name(pads->border));
  if (pads->border == GCONV_BORDER_CONSTANT)
    fprintf(text, ":%.6g", (double)pads->outside);
  fprintf(text, ": the input is padded by %d above, %d below, %d before and %d behind, as a tensor of its own\n",
          problem->pad_top, below > 0 ? below : 0, problem->pad_left, behind > 0 ? behind : 0);
}

/* pads: the step before, which pads the input, or NULL. */
static void print_step(FILE *text, const gconv_step *step, const gconv_step *pads) {
  const gconv_layer_problem *problem = &step->problem;
  const gconv_layer_info *info = &step->info;
  fprintf(text, "layer %zu: %d x %d x %d x %d -> %d x %d x %d x %d (images, channels, height, width)\n", step->layer + 1,
          info->images, info->channels, info->height, info->width, info->images, info->filters, info->out_height,
          info->out_width);
  switch (step->kind) {
  case GCONV_LAYER_MEAN:
    fprintf(text, "  mean of each channel over height and width, in float64 and a fixed order\n");
    return;
  case GCONV_LAYER_RESIDUAL:
    fprintf(text, "  residual: the normalised input is added\n");
    return;
  case GCONV_LAYER_CONV:
    break;
  }
  if (info->each)
    fprintf(text, "  each channel by itself: channels count as images\n");
  const gconv_layer_problem *padding = pads ? &pads->whole : &step->whole;
  fprintf(text, "  %d filters of %d x %d x %d, %d %s, padding %d above and %d before, stride %d,%d, dilation %d,%d\n",
          info->filters, info->channels / info->groups, info->rows, info->columns, info->groups,
          info->groups == 1 ? "group" : "groups", padding->pad_top, padding->pad_left, problem->stride_y, problem->stride_x,
          problem->dilation_y, problem->dilation_x);
  if (pads)
    print_border(text, pads);
  fprintf(text, "  activation %s", gconv_activation_name(step->softmax ? GCONV_ACTIVATION_SOFTMAX : problem->activation));
  if (problem->activation == GCONV_ACTIVATION_LEAKY ||
      (problem->activation == GCONV_ACTIVATION_SIGMOID && problem->slope != 1))
    fprintf(text, " %.6g", (double)problem->slope);
  fprintf(text, "; algorithm %s, math %s, %s\n", info->algorithm, info->math, gconv_family(info->exact));
  if (info->batch < info->images)
    fprintf(text, "  %d images at a time, so that the workspace stays below %.3g MB\n", info->batch,
            (double)problem->workspace_limit * 1e-6);
  fprintf(text, "  work %.3g GFLOP, workspace %.3g MB, error of a sum at most %.3g of %s + |bias|\n", info->flop * 1e-9,
          (double)info->workspace_bytes * 1e-6, info->error_bound,
          info->bound_of_largest ? "(sum |weight|) * (largest |x|)" : "sum |weight * x|");
}

void gconv_network_explain(const gconv_plan *plan, FILE *text) {
  const gconv_network_plan *network = (const gconv_network_plan *)plan;
  const gconv_input *input = &network->input;
  fprintf(text, "input %d x %d x %d x %d %s, x = v / %g%s%s\n", input->images, input->channels, input->height, input->width,
          gconv_type_name(input->type), (double)gconv_white(input->type), input->mean ? " - mean" : "",
          input->std ? ", divided by std" : "");
  if (network->by_channel)
    fprintf(text, "made for one channel: each of the %d by itself, as an image\n", input->channels);
  const gconv_step *pads = NULL;
  for (size_t i = 0; i < network->count; i++) {
    const gconv_step *step = &network->steps[i];
    if (!step->pads)
      print_step(text, step, pads);
    pads = step->pads ? step : NULL;
  }
  fprintf(text, "output %d x %d x %d x %d f32, combined by %s\n", network->out.frames, network->out.channels,
          network->steps[network->count - 1].info.out_height, network->out.width, gconv_combine_name(network->combine));
  if (network->by_rows)
    fprintf(text, "by rows: %d of the output at a time, of %d of the input\n", network->out.height, input->rows);
  fprintf(text, "device %s (%s)\n%s", network->base.device->info.name, network->base.device->info.description,
          network->reasons);
}
