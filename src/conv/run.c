/* SPDX-License-Identifier: MIT */
#include "conv/run.h"

size_t gconv_pass_outputs(const gconv_pass *pass) {
  return pass->problem.epilogue.combine == GCONV_COMBINE_NONE ? (size_t)pass->problem.filters : 1;
}

void gconv_bind(const gconv_pass *pass, const gconv_image *in, const gconv_image *outputs, gconv_target *targets,
                gconv_execution *execution) {
  const gconv_problem *problem = &pass->problem;
  gconv_combine combine = problem->epilogue.combine;
  const gconv_image *like = &outputs[0];
  int64_t size = (int64_t)gconv_type_bytes(like->type), colours = problem->channels - problem->keep_alpha;
  bool split = like->planar && !in->planar; /* channels of a pixel become planes: a stack of more than 4 channels */
  int64_t channel = split ? (int64_t)like->plane_bytes : size;
  *execution = (gconv_execution){
      .problem = problem,
      .weights = pass->weights,
      .host_weights = pass->weights,
      .in = in->data,
      .in_image = (int64_t)in->plane_bytes * problem->planes,
      .in_plane = (int64_t)in->plane_bytes,
      .in_row = (int64_t)in->row_bytes,
      .out = targets,
      .out_pixel = like->planar ? size : size * like->channels,
      .out_channel = channel,
      .out_alpha = (like->channels - 1) * channel,
  };
  for (int64_t k = 0; k < problem->filters; k++) {
    const gconv_image *output = &outputs[combine == GCONV_COMBINE_NONE ? k : 0];
    int64_t plane = (int64_t)output->plane_bytes;
    int64_t stacked = in->planar ? plane * in->channels : colours * channel; /* bytes from a filter to the next */
    targets[k] = (gconv_target){.base = (uint8_t *)output->data + (combine == GCONV_COMBINE_STACK ? k * stacked : 0),
                                .image = output->planar ? plane * output->channels : plane,
                                .plane = plane,
                                .row = (int64_t)output->row_bytes};
  }
}
