/* SPDX-License-Identifier: MIT */
/* Explains a network in words. */
#include "gconv_classify.h"
#include "layer/kind.h"

/* Explains a layer. pads: the step before, which pads the input, or NULL. */
static void print_step(FILE *text, const gconv_step *step, const gconv_step *pads) {
  const gconv_layer_info *info = &step->info;
  fprintf(text, "layer %zu: %d x %d x %d x %d -> %d x %d x %d x %d (images, channels, height, width)\n", step->layer + 1,
          info->images, info->channels, info->height, info->width, info->images, info->filters, info->out_height,
          info->out_width);
  if (step->whole.out_blocks)
    fprintf(text, "  its result is in blocks of %d channels\n", GCONV_BLOCK);
  if (step->inner)
    fprintf(text, "  the next layer takes its result by bands of rows: it is never whole in memory\n");
  gconv_layer_work_of(step->kind)->explain(step, pads, text);
}

static void explain_graph(const gconv_step *step, FILE *text) {
  const int64_t *shape = gconv_graph_plan_input(step->graph, 0)->shape;
  char tiles[120];
  if (shape[2] != step->whole.height || shape[3] != step->whole.width)
    fprintf(text, "  the image is padded to %lld x %lld (height, width) by reflection, and the result is cut\n",
            (long long)shape[2], (long long)shape[3]);
  if (step->tiles) {
    gconv_graph_tiles_tell(step->tiles, tiles, sizeof tiles);
    fprintf(text, "  %s; of each tile:\n", tiles);
  }
  gconv_graph_plan_explain(step->tiles ? gconv_graph_tiles_plan(step->tiles) : step->graph, text);
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
    if (step->graph)
      explain_graph(step, text);
    else if (!step->pads)
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

const gconv_node_info *gconv_plan_node(const gconv_plan *plan, size_t index) {
  const gconv_network_plan *network = (const gconv_network_plan *)plan;
  size_t count = 0;
  if (!plan || plan->type != &gconv_network_plan_type || !network->steps[0].graph)
    return NULL;
  const gconv_node_info *nodes = gconv_graph_plan_describe(network->steps[0].graph, &count);
  return index < count ? &nodes[index] : NULL;
}
