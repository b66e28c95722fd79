/* SPDX-License-Identifier: MIT */
/* Filters that are fitted to pairs of images. */
#include "core.hpp"

#include <cstdlib>

namespace gconv_python {

/* One of two images: an array, or the path of a file. */
struct Compared {
  Samples samples;
  gconv_image image = {};
  std::string path;
  gconv_compared compared = {};

  Compared(nb::handle given, const char *what) {
    if (PyUnicode_Check(given.ptr()) || PyBytes_Check(given.ptr())) {
      path = path_of(given);
      compared.path = path.c_str();
      return;
    }
    gconv_array array;
    if (!see(given, what, false, &samples) || samples.device >= 0 ||
        !lay_out(samples, read_axes(nb::none(), samples.dimensions), nullptr, &array, &image))
      refuse("%s must be an array of NumPy with contiguous rows, or a path", what);
    compared.image = &image;
  }
};

/* Sums of products, and what they come to. */
struct Fit : gconv_fit {
  gconv_fit_result result = {};
  Fit() : gconv_fit{} {}
  Fit(const Fit &) = delete;
  Fit &operator=(const Fit &) = delete;
  ~Fit() {
    gconv_fit_free(this);
    gconv_filters_free(&result.filters);
    free(result.taps);
  }
};

static nb::dict quality_of(const gconv_fit_quality &quality) {
  nb::dict result;
  result["r2"] = quality.r2;
  result["residual"] = quality.residual;
  result["samples"] = quality.samples;
  result["clipped"] = quality.clipped;
  return result;
}

/* Adds a pair. Where there are several, what is wrong is told with the number of its pair, from 0 on. */
static void add_pair(Fit &all, gconv_device *device, const nb::list &pairs, size_t number, double held) {
  nb::handle pair = pairs[number];
  Compared before(pair[0], "before"), after(pair[1], "after");
  gconv_status status;
  {
    nb::gil_scoped_release released;
    status = gconv_fit_add(&all, device, &before.compared, &after.compared, held);
  }
  if (status != GCONV_OK && pairs.size() > 1)
    raise(status, ("pair " + std::to_string(number) + ": " + gconv_last_error()).c_str());
  check(status);
}

/* `pairs`: (before, after) each. (filter, taps in float64, a dict of the rest) */
static nb::tuple fit(const nb::list &pairs, const nb::dict &given) {
  Fit all;
  const double held = value_of(given, "held_out", 0.0);
  all.rows = value_of(given, "rows", 0);
  all.columns = value_of(given, "columns", 0);
  all.bias = value_of(given, "bias", false);
  all.ridge = value_of(given, "ridge", 0.0);
  all.whole = given.contains("border");
  all.border = (gconv_border)value_of(given, "border", (int)GCONV_BORDER_ZERO);
  all.border_value = value_of(given, "border_value", 0.0);
  all.max_pixels = value_of(given, "max_pixels", (uint64_t)0);
  gconv_device *device = device_named("cpu");
  for (size_t i = 0; i < pairs.size(); i++)
    add_pair(all, device, pairs, i, held);
  call([&] { return gconv_fit_solve(&all, device, &all.result); });
  const gconv_fit_result &result = all.result;
  const size_t rows = (size_t)all.rows, columns = (size_t)all.columns;
  nb::dict rest;
  rest["bias"] = result.bias;
  rest["fitted"] = quality_of(result.fitted);
  rest["held"] = quality_of(result.held);
  rest["condition"] = result.condition;
  rest["nonlinear"] = result.nonlinear;
  rest["shift"] = result.shifted ? nb::object(nb::make_tuple(result.shift_y, result.shift_x)) : nb::none();
  rest["cut"] = result.cut;
  return nb::make_tuple(filter_to_python(result.filters.items[0]),
                        numpy_of(std::vector<double>(result.taps, result.taps + rows * columns), {rows, columns}), rest);
}

void add_fitting(nb::module_ &module) {
  module.def("fit", &fit, nb::arg("pairs"), nb::arg("options"));
}

} // namespace gconv_python
