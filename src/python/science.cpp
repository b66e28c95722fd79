/* SPDX-License-Identifier: MIT */
/* Numbers of images, and deconvolution. */
#include "compared.hpp"
#include "gconv_science.h"

#include <algorithm>

#include <nanobind/stl/vector.h>

namespace gconv_python {

static nb::dict show_channel(const gconv_channel_stats &c, size_t percentiles) {
  nb::dict found = dict_of("channel", c.name, "count", c.count, "missing", c.missing, "mean", c.mean, "std", c.std, "min",
                           c.min, "max", c.max, "black", c.black, "white", c.white);
  put(found, "noise", c.noise, "noise_mad", c.noise_mad, "focus", c.focus);
  found["percentiles"] = numpy_of(std::vector<double>(c.percentiles, c.percentiles + percentiles), {percentiles});
  found["histogram"] =
      numpy_of(std::vector<uint64_t>(c.histogram, c.histogram + GCONV_STATS_BINS), {(size_t)GCONV_STATS_BINS});
  return found;
}

static nb::tuple stats(nb::handle given, const std::vector<double> &percentiles, uint64_t max_pixels) {
  const Compared image(given, "the image");
  Owned<gconv_stats, gconv_stats_free> found;
  gconv_stats_options options = {};
  options.max_pixels = max_pixels;
  options.percentiles = percentiles.data();
  options.percentile_count = (int)std::min(percentiles.size(), (size_t)1000);
  options.threads = gconv_device_threads(device_named("cpu"));
  call([&] { return gconv_image_stats(&image.compared, &options, &found); });
  nb::list channels;
  for (size_t i = 0; i < found.count; i++)
    channels.append(show_channel(found.channels[i], percentiles.size()));
  return nb::make_tuple(channels, found.white, nb::make_tuple(found.from, found.to));
}

/* Returns (samples of the result in one dimension, a dict of what was done). */
static nb::tuple deconvolve(nb::handle given, const nb::list &psf, const nb::dict &asked) {
  const Compared image(given, "the image");
  FilterList filters;
  Owned<gconv_image, gconv_image_free> result;
  gconv_deconvolve_options options = {};
  gconv_deconvolved told = {};
  take(asked, "method", options.method, "iterations", options.iterations, "accelerated", options.accelerated,
       "total_variation", options.total_variation, "change", options.change, "noise", options.noise);
  options.deviance = value_of(asked, "deviance", false);
  if (!image.compared.image)
    refuse("the image must be an array");
  read_filters_given(psf, &filters);
  gconv_device *device = device_named("cpu");
  call([&] { return gconv_deconvolve(device, image.compared.image, &filters.items[0], &options, &result, &told); });
  const size_t count = (size_t)result.frames * result.height * result.width * result.channels;
  const float *samples = (const float *)result.data;
  return nb::make_tuple(numpy_of(std::vector<float>(samples, samples + count), {count}),
                        dict_of("iterations", told.last.iteration, "change", told.last.change, "flux", told.last.flux,
                                "deviance", told.last.deviance, "psf_sum", told.psf_sum, "psf_centre",
                                nb::make_tuple(told.psf_row, told.psf_column), "negative", told.negative, "missing",
                                told.missing));
}

void add_science(nb::module_ &module) {
  module.def("deconvolve", &deconvolve, nb::arg("image"), nb::arg("psf"), nb::arg("options"));
  module.def("stats", &stats, nb::arg("image"), nb::arg("percentiles"), nb::arg("max_pixels"));
}

} // namespace gconv_python
