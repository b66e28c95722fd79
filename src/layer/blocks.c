/* SPDX-License-Identifier: MIT */
/* On the CPU, tensors between two convolutions may be in blocks of 16 channels (layer_problem.h). A tensor is kept in blocks
 * if both convolutions are estimated to be about as fast with blocks as without. */
#include "layer/kind.h"

#include <math.h>

/* The longest estimate of a layer with tensors in blocks, relative to its estimate without blocks. */
static const double WORTH = 1.1;

/* Returns whether the tensor between two steps may be in blocks. At most a quarter of the blocks' channels may be unused. */
static bool can_link(const gconv_step *step, const gconv_step *next) {
  const int64_t channels = step->whole.filters;
  return gconv_layer_work_of(step->kind)->by_algorithms && gconv_layer_work_of(next->kind)->by_algorithms && !step->pads &&
         !next->pads && !step->graph && !step->softmax && step->images == next->images &&
         3 * gconv_layer_image_floats(channels, 1, true) <= 4 * channels &&
         (int64_t)step->whole.out_height * step->whole.out_width > 1;
}

static double estimate(const gconv_network_plan *network, const gconv_step *step, const gconv_layer *layer,
                       const gconv_network_options *options, bool in_blocks, bool out_blocks) {
  gconv_layer_choice choice = {
      .whole = step->whole, .problem = step->problem, .images = step->images, .chosen_for = step->chosen_for};
  const char *wanted = layer->algorithm ? layer->algorithm : options->algorithm ? options->algorithm : "auto";
  choice.whole.in_blocks = choice.problem.in_blocks = in_blocks;
  choice.whole.out_blocks = choice.problem.out_blocks = out_blocks;
  return gconv_layer_choose(network->base.device, options->without, wanted, &choice, NULL) == GCONV_OK ? choice.estimate_ms
                                                                                                       : INFINITY;
}

/* Returns whether a step keeps its tensors in blocks: whether it has none, or is about as fast with them as without. */
static bool gains(const gconv_network_plan *network, size_t i, const gconv_layer *layers,
                  const gconv_network_options *options) {
  const gconv_step *step = &network->steps[i];
  const bool in = step->whole.in_blocks, out = step->whole.out_blocks;
  const gconv_layer *layer = &layers[step->layer];
  return (!in && !out) ||
         estimate(network, step, layer, options, in, out) <= WORTH * estimate(network, step, layer, options, false, false);
}

static void link(gconv_step *step, gconv_step *next, bool blocks) {
  step->whole.out_blocks = step->problem.out_blocks = next->whole.in_blocks = next->problem.in_blocks = blocks;
}

void gconv_network_lay_blocks(gconv_network_plan *network, const gconv_layer *layers, const gconv_network_options *options) {
  gconv_step *steps = network->steps;
  if (network->base.device->type != &gconv_device_type_cpu)
    return;
  for (size_t i = 0; i + 1 < network->count; i++)
    link(&steps[i], &steps[i + 1], can_link(&steps[i], &steps[i + 1]));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < network->count; i++) {
      if (gains(network, i, layers, options))
        continue;
      if (steps[i].whole.in_blocks)
        link(&steps[i - 1], &steps[i], false);
      if (steps[i].whole.out_blocks)
        link(&steps[i], &steps[i + 1], false);
      changed = true;
    }
  }
}
