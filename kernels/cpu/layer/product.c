/* SPDX-License-Identifier: MIT */
#include "product.h"

#include <string.h>

#define TEMPLATE "layer/product_template.h"
#include "../each_isa.h"

const gconv_product *gconv_product_here(void) {
  return OF_THIS_PROCESSOR(&product);
}

void gconv_product_row(const gconv_product *product, gconv_panel *panel, const float *x, int64_t count, int V, float *sums) {
  int64_t tiles = gconv_divide_up(count, product->pixels);
  for (int64_t i = 0; i < tiles; i++) {
    int64_t N = count / tiles + (i < count % tiles);
    gconv_product_tile *const *of_N = product->tiles[panel->step == GCONV_BLOCK ? 2 : panel->step != 1][N];
    (panel->half && of_N[0] ? of_N[0] : of_N[V])(panel, x, sums);
    if (panel->ahead)
      panel->ahead += (int64_t)panel->channels * panel->taps * product->lanes;
    if (panel->ahead >= panel->ahead_end)
      panel->ahead = NULL;
    if (panel->soon)
      panel->soon += N * panel->soon_step;
    x += N * panel->step;
    sums += N * V * product->lanes;
  }
}

/* Transposes an incomplete square of sums into a buffer, and copies the valid part of the buffer. */
static void transpose_part(const gconv_product *product, const float *from, int64_t stride, int64_t pixels,
                           const float *biases, const gconv_layer_bounds *bounds, int64_t filters, float *to,
                           int64_t plane) {
  enum { LANES = GCONV_PRODUCT_LANES };
  float square[LANES * LANES], source[LANES * LANES] = {0}, bias[LANES] = {0};
  int lanes = product->lanes;
  for (int64_t i = 0; i < pixels; i++)
    memcpy(source + i * lanes, from + i * stride, (size_t)lanes * sizeof(float));
  memcpy(bias, biases, (size_t)filters * sizeof(float));
  product->turn(source, lanes, bias, bounds, square, lanes);
  for (int64_t f = 0; f < filters; f++)
    memcpy(to + f * plane, square + f * lanes, (size_t)pixels * sizeof(float));
}

void gconv_product_finish(const gconv_product *product, const gconv_layer_problem *problem, const float *sums,
                          int64_t stride, int64_t pixels, const float *biases, int64_t filters, float *out) {
  int64_t plane = gconv_layer_out_plane(problem), lanes = product->lanes;
  const gconv_layer_bounds bounds = gconv_layer_bounds_of(problem);
  filters = gconv_clamp(filters, 0, lanes);
  for (int64_t i = 0; i < pixels; i += lanes)
    if (filters == lanes && i + lanes <= pixels)
      product->turn(sums + i * stride, stride, biases, &bounds, out + i, plane);
    else
      transpose_part(product, sums + i * stride, stride, gconv_clamp(pixels - i, 0, lanes), biases, &bounds, filters,
                     out + i, plane);
  for (int64_t f = 0; f < filters && !bounds.enough; f++)
    gconv_layer_activate(problem, out + f * plane, (size_t)pixels);
}

bool gconv_product_streams(const gconv_layer_problem *problem) {
  enum { MOST_KEPT = 4 << 20 }; /* floats: 16 MiB, half of an L3 cache */
  return gconv_layer_image_floats(problem->filters, gconv_layer_out_plane(problem), true) > MOST_KEPT;
}

void gconv_product_finish_blocks(const gconv_product *product, const gconv_layer_problem *problem, const float *sums, int V,
                                 int64_t rows, int64_t columns, const float *biases, int64_t first, float *out) {
  const int64_t lanes = product->lanes, block = gconv_layer_out_plane(problem) * GCONV_BLOCK;
  const int64_t width = V * lanes, end = gconv_round_up((size_t)(first + width), GCONV_BLOCK), pitch = problem->out_width;
  gconv_layer_bounds bounds = gconv_layer_bounds_of(problem);
  if (columns == pitch) { /* rows are neighbours */
    columns *= rows;
    rows = 1;
  }
  for (int64_t row = 0; row < rows; row++, out += pitch * GCONV_BLOCK, sums += columns * width) {
    for (int64_t f = 0; f < width; f += lanes) {
      float bias[GCONV_PRODUCT_LANES] = {0};
      const int64_t k = first + f, there = gconv_clamp(problem->filters - k, 0, lanes);
      for (int64_t i = 0; i < there; i++)
        bias[i] = biases[f + i];
      float *to = out + k / GCONV_BLOCK * block + k % GCONV_BLOCK;
      const float *added = gconv_layer_added(problem, to, &bounds);
      bounds.streams = bounds.enough && gconv_product_streams(problem);
      if (k < gconv_layer_image_floats(problem->filters, 1, true))
        product->store(sums + f, width, bias, &bounds, columns, to, added);
    }
    for (int64_t k = first / GCONV_BLOCK * GCONV_BLOCK; k < end && !bounds.enough; k += GCONV_BLOCK)
      gconv_layer_activate(problem, out + k / GCONV_BLOCK * block, (size_t)(columns * GCONV_BLOCK));
  }
}

void gconv_product_end_blocks(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_ia32_sfence();
#endif
}

void gconv_layer_finish_block(const gconv_layer_problem *problem, const float *biases, int64_t there, int64_t pixels,
                              float *values) {
  const gconv_product *product = gconv_product_here();
  gconv_layer_bounds bounds = gconv_layer_bounds_of(problem);
  const float *added = gconv_layer_added(problem, values, &bounds);
  float bias[GCONV_BLOCK] = {0};
  for (int64_t i = 0; i < there && i < GCONV_BLOCK; i++)
    bias[i] = biases[i];
  for (int f = 0; f < GCONV_BLOCK; f += product->lanes)
    product->store(values + f, GCONV_BLOCK, bias + f, &bounds, pixels, values + f, added ? added + f : NULL);
  if (!bounds.enough)
    gconv_layer_activate(problem, values, (size_t)(pixels * GCONV_BLOCK));
}
