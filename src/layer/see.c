/* SPDX-License-Identifier: MIT */
/* The image that the first layer gets, made of the input by stages on the host. */
#include "layer/bleed.h"
#include "layer/network.h"
#include "operation/stages.h"

gconv_status gconv_network_see(const gconv_network_plan *network, const gconv_image *in, gconv_image *seen) {
  gconv_threads *threads = network->base.device->threads;
  *seen = *in;
  if (!network->bleeds)
    return network->grays ? gconv_run_before(threads, &network->before, &network->seen, in, seen) : GCONV_OK;
  gconv_image filled;
  GCONV_TRY(gconv_bleed(in, &filled));
  *seen = filled;
  if (!network->grays)
    return GCONV_OK;
  const gconv_status status = gconv_run_before(threads, &network->before, &network->seen, &filled, seen);
  gconv_image_free(&filled);
  return status;
}

void gconv_network_unsee(const gconv_network_plan *network, gconv_image *seen) {
  if (network->grays || network->bleeds)
    gconv_image_free(seen);
}
