/* SPDX-License-Identifier: MIT */
/* Statistics of images, deconvolution, and volumes. */
#include "compared.hpp"
#include "gconv_science.h"

#include <algorithm>
#include <memory>

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

using Planes = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

/* Describes an array Z x H x W, or Z x H x W x C, as an image whose frames are planes. */
static gconv_image image_of_planes(const Planes &planes) {
  gconv_image image = {};
  image.type = planes.dtype() == nb::dtype<uint8_t>()    ? GCONV_U8
               : planes.dtype() == nb::dtype<uint16_t>() ? GCONV_U16
                                                         : GCONV_F32; /* gconv._science passes no other types */
  image.frames = (int32_t)planes.shape(0);
  image.height = (int32_t)planes.shape(1);
  image.width = (int32_t)planes.shape(2);
  image.channels = planes.ndim() > 3 ? (int32_t)planes.shape(3) : 1;
  image.row_bytes = (size_t)image.width * (size_t)image.channels * gconv_type_bytes(image.type);
  image.plane_bytes = image.row_bytes * (size_t)image.height;
  image.data = const_cast<void *>(planes.data()); /* it is read only */
  return image;
}

/* Makes a NumPy array of an image whose frames are planes. The array owns the image. */
template <typename T> static nb::object array_of(gconv_image *image) {
  nb::capsule owner(image, [](void *memory) noexcept {
    gconv_image_free((gconv_image *)memory);
    delete (gconv_image *)memory;
  });
  const size_t shape[] = {(size_t)image->frames, (size_t)image->height, (size_t)image->width, (size_t)image->channels};
  return nb::ndarray<nb::numpy, T>(image->data, image->channels > 1 ? 4 : 3, shape, owner).cast();
}

/* `kernel`: a name, or a list of the planes of a filter. */
static nb::object filter_volume(const Planes &planes, nb::handle kernel, const nb::dict &given,
                                const std::vector<double> &spacing, const std::string &device) {
  std::string algorithm, spec;
  FilterList taps;
  gconv_volume_options options = {};
  const gconv_image image = image_of_planes(planes);
  gconv_image weights = {};
  Planes weights_given;
  options.plain = read_options(given, &algorithm);
  options.stride_z = value_of(given, "stride_z", 1);
  std::copy(spacing.begin(), spacing.begin() + 3, options.spacing);
  if (given.contains("weights")) {
    weights_given = nb::cast<Planes>(given["weights"]);
    weights = image_of_planes(weights_given);
    options.plain.weights = &weights;
  }
  if (nb::isinstance<nb::str>(kernel)) {
    spec = nb::cast<std::string>(kernel);
  } else {
    read_filters_given(nb::cast<nb::list>(kernel), &taps);
    options.taps = taps.items;
    options.tap_planes = (int32_t)taps.count;
  }
  auto made = std::make_unique<gconv_image>();
  gconv_device *where = device_named(device);
  call([&] { return gconv_volume_filter(where, &image, spec.c_str(), &options, made.get()); });
  gconv_image *result = made.release();
  return result->type == GCONV_U8    ? array_of<uint8_t>(result)
         : result->type == GCONV_U16 ? array_of<uint16_t>(result)
                                     : array_of<float>(result);
}

/* Returns (the result's samples as a one-dimensional array, a dict of gconv_deconvolved). */
static nb::tuple deconvolve(nb::handle given, const nb::list &psf, const nb::dict &asked, const std::string &on) {
  const bool volume = nb::len(psf) > 1;
  Planes planes;
  std::unique_ptr<Compared> array;
  FilterList filters;
  Owned<gconv_image, gconv_image_free> result;
  gconv_deconvolve_options options = {};
  gconv_deconvolved told = {};
  take(asked, "method", options.method, "iterations", options.iterations, "accelerated", options.accelerated,
       "total_variation", options.total_variation, "change", options.change, "noise", options.noise);
  options.deviance = value_of(asked, "deviance", false);
  if (volume)
    planes = nb::cast<Planes>(given);
  else
    array = std::make_unique<Compared>(given, "the image");
  if (array && !array->compared.image)
    refuse("the image must be an array");
  const gconv_image image = volume ? image_of_planes(planes) : *array->compared.image;
  read_filters_given(psf, &filters);
  options.psf_planes = volume ? (int32_t)filters.count : 0;
  gconv_device *device = device_named(on);
  call([&] { return gconv_deconvolve(device, &image, &filters.items[0], &options, &result, &told); });
  const size_t count = (size_t)result.frames * result.height * result.width * result.channels;
  const float *samples = (const float *)result.data;
  return nb::make_tuple(numpy_of(std::vector<float>(samples, samples + count), {count}),
                        dict_of("iterations", told.last.iteration, "change", told.last.change, "flux", told.last.flux,
                                "deviance", told.last.deviance, "psf_sum", told.psf_sum, "psf_centre",
                                volume ? nb::make_tuple(told.psf_plane, told.psf_row, told.psf_column)
                                       : nb::make_tuple(told.psf_row, told.psf_column),
                                "negative", told.negative, "missing", told.missing));
}

void add_science(nb::module_ &module) {
  module.def("deconvolve", &deconvolve, nb::arg("image"), nb::arg("psf"), nb::arg("options"), nb::arg("device"));
  module.def("filter_volume", &filter_volume, nb::arg("planes"), nb::arg("kernel"), nb::arg("options"), nb::arg("spacing"),
             nb::arg("device"));
  module.def("stats", &stats, nb::arg("image"), nb::arg("percentiles"), nb::arg("max_pixels"));
}

} // namespace gconv_python
