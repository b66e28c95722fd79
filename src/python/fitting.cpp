/* SPDX-License-Identifier: MIT */
/* Fits filters to pairs of images. */
#include "compared.hpp"

#include <cstdlib>

namespace gconv_python {

static void free_result(gconv_fit_result *result) {
  gconv_filters_free(&result->filters);
  free(result->taps);
}

static nb::dict quality_of(const gconv_fit_quality &quality) {
  return dict_of("r2", quality.r2, "residual", quality.residual, "samples", quality.samples, "clipped", quality.clipped);
}

/* Adds pair `number`. If there are several pairs, an error has the number of its pair, from 0 on. */
static void add_pair(gconv_fit &all, gconv_device *device, const nb::list &pairs, size_t number, double held) {
  nb::handle pair = pairs[number];
  Compared before(pair[0], "before"), after(pair[1], "after");
  const gconv_status status =
      call_for_status([&] { return gconv_fit_add(&all, device, &before.compared, &after.compared, held); });
  if (status != GCONV_OK && pairs.size() > 1)
    raise(status, ("pair " + std::to_string(number) + ": " + gconv_last_error()).c_str());
  check(status);
}

/* `pairs`: tuples (before, after). Returns (filter, taps in float64, a dict of the other results). */
static nb::tuple fit(const nb::list &pairs, const nb::dict &given) {
  Owned<gconv_fit, gconv_fit_free> all;
  Owned<gconv_fit_result, free_result> result;
  const double held = value_of(given, "held_out", 0.0);
  all.whole = given.contains("border");
  take(given, "rows", all.rows, "columns", all.columns, "bias", all.bias, "ridge", all.ridge, "border", all.border,
       "border_value", all.border_value, "max_pixels", all.max_pixels);
  gconv_device *device = device_named("cpu");
  for (size_t i = 0; i < pairs.size(); i++)
    add_pair(all, device, pairs, i, held);
  call([&] { return gconv_fit_solve(&all, device, &result); });
  const size_t rows = (size_t)all.rows, columns = (size_t)all.columns;
  const nb::object shift = result.shifted ? nb::object(nb::make_tuple(result.shift_y, result.shift_x)) : nb::none();
  const nb::dict rest =
      dict_of("bias", result.bias, "fitted", quality_of(result.fitted), "held", quality_of(result.held), "condition",
              result.condition, "nonlinear", result.nonlinear, "shift", shift, "cut", result.cut);
  return nb::make_tuple(filter_to_python(result.filters.items[0]),
                        numpy_of(std::vector<double>(result.taps, result.taps + rows * columns), {rows, columns}), rest);
}

void add_fitting(nb::module_ &module) {
  module.def("fit", &fit, nb::arg("pairs"), nb::arg("options"));
}

} // namespace gconv_python
