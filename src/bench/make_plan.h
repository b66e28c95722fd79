/* SPDX-License-Identifier: MIT */
/* Makes an operation and a plan of it in one call. */
#pragma once

#include "gconv.h"

static inline gconv_status gconv_plan_filters(gconv_device *device, const gconv_image *like, const gconv_filters *filters,
                                              const gconv_options *options, gconv_plan **plan) {
  gconv_operation *operation = NULL;
  gconv_status status = gconv_operation_filters(filters, options, &operation);
  if (status == GCONV_OK)
    status = gconv_plan_create(device, like, operation, 0, plan);
  gconv_operation_free(operation);
  return status;
}

static inline gconv_status gconv_plan_layers(gconv_device *device, const gconv_image *like, const gconv_layer *layers,
                                             size_t count, const gconv_network_options *options, int32_t rows,
                                             gconv_plan **plan) {
  gconv_operation *operation = NULL;
  gconv_status status = gconv_operation_network(layers, count, options, &operation);
  if (status == GCONV_OK)
    status = gconv_plan_create(device, like, operation, rows, plan);
  gconv_operation_free(operation);
  return status;
}
