/* SPDX-License-Identifier: MIT */
/* Makes layers of random numbers, measures them, and compares some outputs with float64. */
#include "bench/bench.h"
#include "bench/make_plan.h"
#ifdef GCONV_WITH_CUDA
#include "kernels/cuda/classic/layer/launch.h"
#endif

#include <math.h>

/* Larger outputs are not fetched from the device, and not checked. */
static const double CHECKED_BYTES = 16 << 20;
enum { CHECKED_PLACES = 200 };

/* ---- Inputs ---- */

/* The images are made as one image with all planes, which then counts as several images. */
gconv_status gconv_bench_make_layer(const gconv_bench_image *shape, int32_t images, int32_t filters, int32_t size,
                                    gconv_bench_layer *layer) {
  const gconv_bench_image in = {shape->width, shape->height, shape->channels * images, true};
  const gconv_bench_image weights = {size, size, shape->channels * filters, true};
  gconv_status status = gconv_bench_make_image(&in, GCONV_F32, &layer->in);
  GCONV_THEN(status, gconv_bench_make_image(&weights, GCONV_F32, &layer->weights));
  if (status != GCONV_OK)
    return status;
  layer->in.frames = images;
  layer->in.channels = shape->channels;
  float *taps = layer->weights.data; /* half of them become negative */
  for (int64_t i = 0; i < (int64_t)weights.channels * size * size; i++)
    taps[i] -= 0.5f;
  layer->bank = (gconv_bank){
      .name = "random", .filters = filters, .channels = shape->channels, .rows = size, .columns = size, .weights = taps};
  return GCONV_OK;
}

void gconv_bench_free_layer(gconv_bench_layer *layer) {
  gconv_image_free(&layer->in);
  gconv_image_free(&layer->weights);
}

/* ---- Results ---- */

/* Returns the sum at (n, k, p, q) in float64. Weights are planes of an image: plane k * C + c. *products and *weights become
 * sums of magnitudes. */
static double sum_at(const gconv_bench_layer *data, gconv_layer_padding padding, const int32_t at[4], double *products,
                     double *weights) {
  const gconv_image *in = &data->in;
  const size_t channels = (size_t)data->bank.channels, size = (size_t)data->bank.rows;
  const size_t groups = (size_t)in->channels / channels,
               first = (size_t)at[1] / ((size_t)data->bank.filters / groups) * channels;
  const int64_t pad = padding == GCONV_LAYER_SAME ? data->bank.rows / 2 : 0;
  const float *weight = data->bank.weights + (size_t)at[1] * channels * size * size, *samples = in->data;
  double sum = 0;
  *products = *weights = 0;
  for (size_t c = 0; c < channels; c++)
    for (size_t r = 0; r < size; r++)
      for (size_t s = 0; s < size; s++, weight++) {
        const int64_t y = at[2] - pad + (int64_t)r, x = at[3] - pad + (int64_t)s;
        const size_t channel = (size_t)at[0] * (size_t)in->channels + first + c;
        if (y < 0 || y >= in->height || x < 0 || x >= in->width)
          continue;
        double product =
            (double)*weight * (double)samples[(channel * (size_t)in->height + (size_t)y) * (size_t)in->width + (size_t)x];
        sum += product;
        *products += fabs(product);
        *weights += fabs((double)*weight);
      }
  return sum;
}

/* Checks CHECKED_PLACES outputs, from the first to the last at about equal distances. Samples are below 1. */
static void check_outputs(const gconv_bench_layer *data, gconv_layer_padding padding, const gconv_layer_info *info,
                          const gconv_image *out, gconv_bench_row *row) {
  size_t pixels = (size_t)out->height * (size_t)out->width;
  size_t count = pixels * (size_t)out->channels * (size_t)out->frames;
  for (size_t i = 0; i < CHECKED_PLACES; i++) {
    size_t place = (size_t)((double)(count - 1) * (double)i / (CHECKED_PLACES - 1));
    const int32_t at[4] = {
        (int32_t)(place / pixels / (size_t)out->channels), (int32_t)(place / pixels % (size_t)out->channels),
        (int32_t)(place / (size_t)out->width % (size_t)out->height), (int32_t)(place % (size_t)out->width)};
    double products, weights, sum = sum_at(data, padding, at, &products, &weights);
    double error = fabs((double)((const float *)out->data)[place] - sum);
    double allowed = info->error_bound * (info->bound_of_largest ? weights : products);
    if (i == 0 || !(error * row->allowed <= row->error * allowed)) {
      row->error = isnan(error) ? HUGE_VAL : error;
      row->allowed = allowed;
    }
  }
  row->checked = true;
}

/* ---- One row ---- */

static gconv_status measure_network(gconv_bench *bench, gconv_plan *network, const gconv_bench_layer *data,
                                    gconv_layer_padding padding, gconv_bench_row *row) {
  const gconv_layer_info *info = gconv_plan_layer_info(network, 0);
  row->chosen = info->algorithm;
  row->flop = info->flop;
  row->estimate_ms = info->estimate_ms;
  row->chunk = info->batch;
  row->workspace_bytes = (double)info->workspace_bytes;
  row->samples = (double)info->images * info->filters * info->out_height * info->out_width;
  row->bytes = sizeof(float) * ((double)info->images * info->channels * info->height * info->width + row->samples);
  if (row->workspace_mib > 0 && info->workspace_bytes == 0)
    return gconv_set_error(GCONV_UNSUPPORTED, "it takes no workspace");
  bool seen = !bench->unchecked && row->samples * sizeof(float) <= CHECKED_BYTES;
  gconv_image out = {0};
  gconv_status status = gconv_bench_time(network, &data->in, seen ? &out : NULL, bench->grid->runs, row);
  if (status == GCONV_OK && out.data) {
    check_outputs(data, padding, info, &out, row);
    if (row->error > row->allowed)
      status = gconv_set_error(GCONV_MISMATCH, "the result is further from float64 than its bound allows");
  }
  gconv_image_free(&out);
  if (status == GCONV_OK)
    gconv_bench_profile(bench, network, &data->in, row);
  return status;
}

void gconv_bench_measure_layer(gconv_bench *bench, const gconv_bench_layer *data, gconv_layer_padding padding,
                               gconv_bench_row *row) {
  gconv_layer layer = {.bank = &data->bank, .padding = padding, .groups = data->in.channels / data->bank.channels};
  const int32_t mib = row->workspace_mib > 0 ? row->workspace_mib : bench->workspace_mib;
  gconv_network_options options = {.algorithm = row->algorithm, .workspace_bytes = (size_t)mib << 20};
#ifdef GCONV_WITH_CUDA
  gconv_classic_layer_launch = (gconv_classic_launch){row->block.width, row->block.height, row->grid};
#endif
  gconv_plan *network = NULL;
  gconv_status status = gconv_plan_layers(bench->device, &data->in, &layer, 1, &options, 0, &network);
  GCONV_THEN(status, measure_network(bench, network, data, padding, row));
  gconv_plan_free(network);
  gconv_bench_take_status(bench, row, status);
}
