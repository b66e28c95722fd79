/* SPDX-License-Identifier: MIT */
/* What runs networks on a GPU: the functions of network_cuda.cu, and measure() of network_measure.cu. */
#include "layer/network_cuda.cuh"

extern "C" const gconv_network_type gconv_network_type_cuda = {.prepare = gconv_network_prepare_run,
                                                               .execute = gconv_network_execute_run,
                                                               .measure = gconv_network_measure_run,
                                                               .release = gconv_network_release_run,
                                                               .execute_device = gconv_network_run_device};
