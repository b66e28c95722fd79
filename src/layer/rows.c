/* SPDX-License-Identifier: MIT */
/*
 * Networks by rows: every layer gets a problem of the rows that some rows of the last one's output need. It has no padding
 * above: rows outside the tensor are there, as zeros, which is what the problem reads there anyway; so one problem, with one
 * set of prepared weights, is that of all bands, at the edges as within. The outputs of a layer that lie outside its whole
 * output are what the next sees as padding: they are made zero again, as a bias is not.
 *
 * Rows begin at multiples of an even number, so that tiles of winograd, which are two rows high, lie alike whatever it is.
 */
#include "layer/network.h"

enum { ROW_STEP = 2, MOST_ROWS = 1 << 28 };

/* Finds the rows of a step's input that `rows` rows of its output need, and makes the problem one of these. */
static gconv_status cut_step(gconv_step *step, gconv_band out, int64_t rows, gconv_band *in, int64_t *in_rows) {
  gconv_layer_problem *problem = &step->problem;
  *in = (gconv_band){out.scale * problem->stride_y, out.shift * problem->stride_y + problem->pad_top};
  *in_rows = (rows - 1) * problem->stride_y + (int64_t)(problem->rows - 1) * problem->dilation_y + 1;
  if (*in_rows > MOST_ROWS || in->scale > MOST_ROWS || in->shift > MOST_ROWS)
    return gconv_fail(GCONV_TOO_LARGE, "%lld rows of the output need %lld rows at a time: more than can be", (long long)rows,
                      (long long)*in_rows);
  step->out_band = out;
  problem->pad_top = 0;
  problem->out_height = (int32_t)rows;
  problem->height = (int32_t)*in_rows;
  return GCONV_OK;
}

gconv_status gconv_network_cut_rows(gconv_network *network, int32_t rows) {
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

void gconv_rows_inside(int64_t first, int32_t count, int32_t height, int32_t *begin, int32_t *end) {
  int64_t before = first < 0 ? -first : 0, inside = height - first;
  *begin = (int32_t)(before < count ? before : count);
  *end = (int32_t)(inside < *begin ? *begin : inside < count ? inside : count);
}

int32_t gconv_network_row_step(const gconv_plan *plan) {
  const gconv_network *network = (const gconv_network *)plan;
  return network->by_rows ? network->out.height : 0;
}

/* A mosaic has a pass for each row of tiles, with the gap below it. */
size_t gconv_network_passes(const gconv_plan *plan) {
  const gconv_network *network = (const gconv_network *)plan;
  const gconv_presenter *presenter = &network->presenter;
  size_t tile_rows =
      presenter->kind == GCONV_PRESENT_MOSAIC ? (size_t)(presenter->tiles - 1) / (size_t)presenter->columns + 1 : 1;
  return network->by_rows ? tile_rows + gconv_presenter_surveys(presenter) : 1;
}

gconv_status gconv_network_begin_pass(gconv_plan *plan, size_t number) {
  gconv_network *network = (gconv_network *)plan;
  gconv_presenter *presenter = &network->presenter;
  const int32_t height = presenter->height, whole = plan->outputs[0].height;
  bool surveys = gconv_presenter_surveys(presenter);
  plan->pass = (gconv_plan_pass){0, height, true};
  if (surveys && number == 0)
    return gconv_presenter_begin_survey(presenter);
  if (number == (surveys ? 1 : 0))
    GCONV_TRY(gconv_presenter_end_survey(presenter));
  int32_t first = (int32_t)(number - surveys) * (height + GCONV_MOSAIC_GAP), end = first + height + GCONV_MOSAIC_GAP;
  plan->pass = (gconv_plan_pass){first, end < whole ? end : whole, false};
  return GCONV_OK;
}

int32_t gconv_network_map_row(const gconv_network *network, int32_t row) {
  return row - network->base.pass.first;
}

/* Whatever the number of rows, all that an execution makes are made; of a gap below tiles, any row will do. */
void gconv_network_rows_needed(const gconv_plan *plan, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  const gconv_network *network = (const gconv_network *)plan;
  (void)count;
  int64_t at = gconv_network_map_row(network, first) * network->in_band.scale - network->in_band.shift;
  int64_t height = network->input.height, last = at + network->input.rows;
  at = at < 0 ? 0 : at < height ? at : height - 1; /* one row, where only zeros are needed */
  last = last <= at ? at + 1 : last < height ? last : height;
  *begin = (int32_t)at;
  *end = (int32_t)last;
}
