/* SPDX-License-Identifier: MIT */
/* Networks at work: whole images, or some rows of the output at a time. */
#include "layer/network.h"

bool gconv_network_fits(const gconv_network *network, const gconv_image *like) {
  return gconv_image_same_shape(&network->like, like);
}

static gconv_status check_in(const gconv_network *network, const gconv_image *in) {
  if (network->by_rows)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the network is one by rows: gconv_network_execute_rows() is for it");
  if (!in->data || !gconv_network_fits(network, in))
    return gconv_fail(GCONV_BAD_ARGUMENT, "the input has another shape or type than the network was made for, or no pixels");
  return GCONV_OK;
}

/* Makes `out` fit to be written by an execution: *fresh is set if it was allocated here. */
static gconv_status fit_out(const gconv_network *network, gconv_image *out, bool *fresh) {
  *fresh = !out->data;
  if (*fresh) {
    gconv_image image = network->out;
    GCONV_TRY(gconv_image_allocate(&image));
    gconv_image_free(out);
    *out = image;
    return GCONV_OK;
  }
  size_t row = (size_t)network->out.width * sizeof(float);
  if (!gconv_image_same_shape(&network->out, out) || out->row_bytes != row || out->plane_bytes != row * (size_t)out->height)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the output has pixels of another shape or type than the network yields, or gaps "
                                          "between rows");
  return GCONV_OK;
}

gconv_status gconv_network_execute(gconv_network *network, const gconv_image *in, gconv_image *out, gconv_timings *timings) {
  gconv_timings unused = {0};
  bool fresh;
  timings = timings ? timings : &unused;
  *timings = (gconv_timings){0};
  GCONV_TRY(check_in(network, in));
  GCONV_TRY(fit_out(network, out, &fresh));
  gconv_status status = network->type->execute(network->run, in, 0, 0, out, timings);
  if (status != GCONV_OK && fresh)
    gconv_image_free(out);
  return status;
}

gconv_status gconv_network_execute_rows(gconv_network *network, const gconv_image *window, int32_t window_row, int32_t first,
                                        gconv_image *out, gconv_timings *timings) {
  gconv_timings unused = {0};
  int32_t begin, end;
  gconv_image like = *window;
  like.height = network->like.height;
  if (!network->by_rows || !window->data || !gconv_network_fits(network, &like))
    return gconv_fail(GCONV_BAD_ARGUMENT, "the network is not one by rows, or the rows have another width or type");
  if (first < 0 || first % network->out.height != 0 || first >= network->steps[network->count - 1].whole.out_height)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the network makes no rows from row %d on", first);
  gconv_network_rows_needed(network, first, &begin, &end);
  if (window_row > begin || end - window_row > window->height)
    return gconv_fail(GCONV_BAD_ARGUMENT, "output rows from %d on need the rows %d to %d, but there are %d to %d", first,
                      begin, end - 1, window_row, window_row + window->height - 1);
  gconv_image rows = *window; /* those needed alone */
  rows.data = (uint8_t *)window->data + (size_t)(begin - window_row) * window->row_bytes;
  rows.height = end - begin;
  bool fresh;
  GCONV_TRY(fit_out(network, out, &fresh));
  gconv_status status = network->type->execute(network->run, &rows, begin, first, out, timings ? timings : &unused);
  if (status != GCONV_OK && fresh)
    gconv_image_free(out);
  return status;
}

gconv_status gconv_network_measure(gconv_network *network, const gconv_image *in, gconv_image *out, int runs,
                                   double *milliseconds) {
  return gconv_network_measure_at(network, in, out, false, runs, milliseconds);
}

gconv_status gconv_network_measure_at(gconv_network *network, const gconv_image *in, gconv_image *out, bool warm, int runs,
                                      double *milliseconds) {
  bool fresh = false;
  GCONV_TRY(check_in(network, in));
  if (out)
    GCONV_TRY(fit_out(network, out, &fresh));
  gconv_status status = network->type->measure(network->run, in, out, warm, runs, milliseconds);
  if (status != GCONV_OK && fresh)
    gconv_image_free(out);
  return status;
}
