/* SPDX-License-Identifier: MIT */
/* Numbers of images. */
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

void add_science(nb::module_ &module) {
  module.def("stats", &stats, nb::arg("image"), nb::arg("percentiles"), nb::arg("max_pixels"));
}

} // namespace gconv_python
