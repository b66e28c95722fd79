/* SPDX-License-Identifier: MIT */
/*
 * Networks by rows: every layer gets a problem with the rows that some rows of the network's output need. The problem has no
 * padding above: rows outside the tensor are stored as zeros, which is what padding is. So one problem, with one set of
 * prepared weights, fits all bands, at the edges and inside. Rows outside a layer's whole output are padding of the next
 * layer: they are set to zero, because the bias has made them nonzero. If a border is not zeros, a step before the layer
 * pads. Rows outside the output of that step are not used.
 *
 * Bands have an even number of rows, so that tiles of winograd, which are two rows high, have the same places for bands of
 * any height.
 */
#include "layer/kind.h"

enum { ROW_STEP = 2, MOST_ROWS = 1 << 28 };

/* Finds the rows of a step's input that `rows` rows of its output need, and cuts the problem to them. */
static gconv_status cut_step(gconv_step *step, gconv_band out, int64_t rows, gconv_band *in, int64_t *in_rows) {
  gconv_layer_problem *problem = &step->problem;
  *in = (gconv_band){out.scale * problem->stride_y, out.shift * problem->stride_y + problem->pad_top};
  *in_rows = (rows - 1) * problem->stride_y + (int64_t)(problem->rows - 1) * problem->dilation_y + 1;
  if (*in_rows > MOST_ROWS || in->scale > MOST_ROWS || in->shift > MOST_ROWS)
    return gconv_fail(GCONV_TOO_LARGE, "%lld rows of the output need %lld rows at a time, which is too many",
                      (long long)rows, (long long)*in_rows);
  step->out_band = out;
  problem->pad_top = 0;
  problem->out_height = (int32_t)rows;
  problem->height = (int32_t)*in_rows;
  return GCONV_OK;
}

bool gconv_network_can_cut_rows(const gconv_network_plan *network) {
  bool strided = false;
  for (size_t i = 0; i < network->count; i++) {
    const gconv_step *step = &network->steps[i];
    if (step->graph)
      return false;
    strided = strided || step->problem.stride_y > 1;
    if (step->pads && !gconv_step_pads_bands(step, step + 1))
      return false;
    switch (gconv_layer_work_of(step->kind)->rows) {
    case GCONV_ROWS_AFTER_ANY:
      break;
    case GCONV_ROWS_AFTER_NO_STEP:
      if (strided)
        return false;
      break;
    case GCONV_ROWS_ALL:
      return false;
    }
  }
  return true;
}

gconv_status gconv_network_cut_rows(gconv_network_plan *network, int32_t rows) {
  int64_t height = network->steps[network->count - 1].whole.out_height;
  int64_t band = ((rows < height ? rows : height) + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
  gconv_band at = {1, 0};
  network->by_rows = true;
  network->out.height = (int32_t)band;
  for (size_t i = network->count; i-- > 0;)
    GCONV_TRY(cut_step(&network->steps[i], at, band, &at, &band));
  network->in_band = at;
  network->input.rows = (int32_t)band;
  return GCONV_OK;
}

void gconv_network_input_rows(const gconv_network_plan *network, int64_t first, int64_t *begin, int64_t *end) {
  if (network->by_rows && network->steps[0].graph) {
    gconv_graph_step_rows(&network->steps[0], (int32_t)first, begin, end);
    return;
  }
  *begin = first * network->in_band.scale - network->in_band.shift;
  *end = *begin + network->input.rows;
}

void gconv_rows_inside(int64_t first, int32_t count, int32_t height, int32_t *begin, int32_t *end) {
  int64_t before = first < 0 ? -first : 0, inside = height - first;
  *begin = (int32_t)(before < count ? before : count);
  *end = (int32_t)(inside < *begin ? *begin : inside < count ? inside : count);
}
