/* SPDX-License-Identifier: MIT */
#include "product.h"

#include <math.h>
#include <string.h>

#define TEMPLATE "layer/product_template.h"
#include "../each_isa.h"

const gconv_product *gconv_product_here(void) {
  return OF_THIS_PROCESSOR(&product);
}

void gconv_product_row(const gconv_product *product, const gconv_panel *panel, const float *x, int64_t count, int V,
                       float *sums) {
  int64_t tiles = gconv_divide_up(count, product->pixels);
  for (int64_t i = 0; i < tiles; i++) {
    int64_t N = count / tiles + (i < count % tiles);
    gconv_product_tile *const *of_N = product->tiles[panel->step != 1][N];
    (panel->half && of_N[0] ? of_N[0] : of_N[V])(panel, x, sums);
    x += N * panel->step;
    sums += N * V * product->lanes;
  }
}

/* Transposes a square of sums that is not full: into a buffer, of which the valid part is copied. */
static void turn_part(const gconv_product *product, const float *from, int64_t stride, int64_t pixels, const float *biases,
                      const gconv_layer_bounds *bounds, int64_t filters, float *to, int64_t plane) {
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
  int64_t plane = (int64_t)problem->out_height * problem->out_width, lanes = product->lanes;
  const gconv_layer_bounds bounds = gconv_layer_bounds_of(problem);
  filters = gconv_clamp(filters, 0, lanes);
  for (int64_t i = 0; i < pixels; i += lanes)
    if (filters == lanes && i + lanes <= pixels)
      product->turn(sums + i * stride, stride, biases, &bounds, out + i, plane);
    else
      turn_part(product, sums + i * stride, stride, gconv_clamp(pixels - i, 0, lanes), biases, &bounds, filters, out + i,
                plane);
  for (int64_t f = 0; f < filters && !bounds.enough; f++)
    gconv_layer_activate(problem, out + f * plane, (size_t)pixels);
}
