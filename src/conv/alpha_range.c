/* SPDX-License-Identifier: MIT */
/* Applies the ranges abs and signed to images whose alpha is filtered: colours are mapped, alpha is not. The convolution
 * yields responses in levels of the input, without an epilogue. This file then applies the usual epilogue
 * (kernels/pixel.h). So colours have the bits that they have without alpha. */
#include "conv/plan.h"

bool gconv_range_parts_alpha(const gconv_image *like, const gconv_options *options, size_t filters) {
  bool ranged = options->range == GCONV_RANGE_ABS || options->range == GCONV_RANGE_SIGNED;
  bool numbers = options->combine == GCONV_COMBINE_STACK && filters > 1; /* no channel of such a stack is called alpha */
  return ranged && options->alpha == GCONV_ALPHA_FILTER && like->alpha && !like->planar && !numbers;
}

void gconv_ask_for_levels(gconv_type convolved, gconv_options *core) {
  core->sets_type = true;
  core->output_type = GCONV_F32;
  core->scale = (double)gconv_white(convolved);
  core->offset = 0;
  core->range = GCONV_RANGE_CLAMP;
}

typedef struct finishing {
  gconv_epilogue colour, alpha;
  const gconv_image *raw, *out;
} finishing;

static void finish_row(void *context, size_t turn, int seat) {
  const finishing *f = context;
  const gconv_image *raw = f->raw, *out = f->out;
  size_t frame = turn / (size_t)raw->height, y = turn % (size_t)raw->height, channels = (size_t)raw->channels;
  const float *from = (const float *)(const void *)((uint8_t *)raw->data + frame * raw->plane_bytes + y * raw->row_bytes);
  void *to = (uint8_t *)out->data + frame * out->plane_bytes + y * out->row_bytes;
  for (size_t x = 0; x < (size_t)raw->width; x++)
    for (size_t c = 0; c < channels; c++)
      gconv_store_sample(out->type, gconv_finish(from[x * channels + c], c + 1 < channels ? &f->colour : &f->alpha), to,
                         x * channels + c);
}

void gconv_finish_levels(gconv_threads *threads, const gconv_options *options, gconv_type convolved, const gconv_image *raw,
                         const gconv_image *out) {
  gconv_options plain = *options;
  plain.range = GCONV_RANGE_CLAMP;
  finishing f = {gconv_make_epilogue(options, convolved, out->type), gconv_make_epilogue(&plain, convolved, out->type), raw,
                 out};
  gconv_threads_run(threads, (size_t)raw->frames * (size_t)raw->height, finish_row, &f);
}
