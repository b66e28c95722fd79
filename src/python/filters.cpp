/* SPDX-License-Identifier: MIT */
/* Reads filters from files and names, and makes operations of them. */
#include "gconv_science.h"
#include "operation.hpp"

#include <cstdlib>
#include <cstring>

namespace gconv_python {

using Taps = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/* ---- Options: a dict with the names of gconv_options ---- */

static void read_mixing(const nb::dict &given, gconv_options *options) {
  if (!given.contains("mixing"))
    return;
  int place = 0; /* gconv._filter gives 16 numbers */
  for (nb::handle number : nb::cast<nb::list>(given["mixing"])) {
    options->mixing[place / 4 % 4][place % 4] = nb::cast<float>(number);
    place++;
  }
  options->mix = value_of<int>(given, "mix", 0);
}

gconv_options read_options(const nb::dict &given, std::string *algorithm) {
  gconv_options options = gconv_options_default();
  take_geometry(given, options);
  take(given, "gray", options.gray, "linear", options.linear, "combine", options.combine, "scale", options.scale, "offset",
       options.offset, "range", options.range, "alpha", options.alpha, "output_type", options.output_type);
  take(given, "nan", options.nan, "preserve_nan", options.preserves, "nodata", options.nodata, "least_weight",
       options.least_weight);
  options.sets_nodata = given.contains("nodata");
  read_mixing(given, &options);
  options.sets_type = given.contains("output_type");
  *algorithm = value_of(given, "algorithm", std::string());
  if (!algorithm->empty())
    options.algorithm = algorithm->c_str();
  return options;
}

gconv_status make_filters(const gconv_filters &filters, const nb::dict &given, gconv_options &options,
                          gconv_operation **operation) {
  gconv_image image = {};
  Taps weights;
  if (given.contains("weights")) { /* gconv._filter makes an array of float32, H x W */
    weights = nb::cast<Taps>(given["weights"]);
    image.type = GCONV_F32;
    image.frames = image.channels = 1;
    image.height = (int32_t)weights.shape(0);
    image.width = (int32_t)weights.shape(1);
    image.row_bytes = weights.shape(1) * sizeof(float);
    image.plane_bytes = image.row_bytes * weights.shape(0);
    image.data = const_cast<float *>(weights.data()); /* it is read only */
    options.weights = &image;
  }
  const gconv_status status = gconv_operation_filters(&filters, &options, operation);
  options.weights = nullptr;
  return status;
}

/* ---- Filters ---- */

void read_filters_given(const nb::list &given, gconv_filters *filters) {
  filters->items = (gconv_filter *)calloc(nb::len(given) + 1, sizeof *filters->items);
  if (!filters->items)
    raise(GCONV_NO_MEMORY, "no memory for the filters");
  for (nb::handle one : given) {
    gconv_filter *filter = &filters->items[filters->count++];
    Taps taps = nb::cast<Taps>(one[1]);
    filter->name = strdup(text_of("name", one[0]).c_str());
    filter->rows = (int32_t)taps.shape(0);
    filter->columns = (int32_t)taps.shape(1);
    filter->anchor_row = nb::cast<int32_t>(one[2]);
    filter->anchor_column = nb::cast<int32_t>(one[3]);
    filter->divisor = nb::cast<float>(one[4]);
    filter->offset = nb::cast<float>(one[5]);
    filter->marked = nb::cast<bool>(one[6]);
    filter->taps = (float *)malloc(taps.size() * sizeof(float) + 1);
    if (!filter->name || !filter->taps)
      raise(GCONV_NO_MEMORY, "no memory for the filters");
    memcpy(filter->taps, taps.data(), taps.size() * sizeof(float));
  }
}

nb::tuple filter_to_python(const gconv_filter &filter) {
  const size_t rows = (size_t)filter.rows, columns = (size_t)filter.columns;
  const char *name = filter.name ? filter.name : "";
  return nb::make_tuple(names_of(&name, 1)[0],
                        numpy_of(std::vector<float>(filter.taps, filter.taps + rows * columns), {rows, columns}),
                        filter.anchor_row, filter.anchor_column, filter.divisor, filter.offset, filter.marked);
}

/* Returns (gradient, filters). gradient: the filters are the two derivatives of a gradient. */
static nb::tuple read_filters(nb::handle given, nb::handle syntax) {
  FilterList filters;
  const std::string spec = path_of(given), name = syntax.is_none() ? "" : text_of("syntax", syntax);
  call([&] { return gconv_filters_read(spec.c_str(), name.empty() ? nullptr : name.c_str(), &filters); });
  nb::list list;
  for (size_t i = 0; i < filters.count; i++)
    list.append(filter_to_python(filters.items[i]));
  return nb::make_tuple(filters.gradient, list);
}

/* Returns how many filters a text means. The build of the package calls this without NumPy (kernels_stub.py). */
static size_t count_filters(const std::string &spec) {
  FilterList filters;
  call([&] { return gconv_filters_read(spec.c_str(), nullptr, &filters); });
  return filters.count;
}

static void write_filters(nb::handle given_path, const nb::list &given) {
  FilterList filters;
  const std::string path = path_of(given_path);
  read_filters_given(given, &filters);
  call([&] { return gconv_filters_write(path.c_str(), &filters); });
}

static std::string filter_text(const nb::list &given) {
  FilterList filters;
  char *text = nullptr;
  read_filters_given(given, &filters);
  check(gconv_filter_to_text(&filters.items[0], &text));
  std::string result = text;
  free(text);
  return result;
}

static nb::dict analyze(const nb::list &given) {
  FilterList filters;
  gconv_filter_analysis found;
  read_filters_given(given, &filters);
  check(gconv_filter_analyze(&filters.items[0], &found));
  return dict_of("sum", found.sum, "positive_sum", found.positive_sum, "negative_sum", found.negative_sum, "zero_taps",
                 found.zero_taps, "rank", found.rank);
}

static nb::list list_builtins() {
  nb::list list;
  for (size_t i = 0; gconv_builtin_at(i); i++) {
    const gconv_builtin_info *info = gconv_builtin_at(i);
    list.append(nb::make_tuple(info->name, info->parameters, info->help, info->also ? info->also : ""));
  }
  return list;
}

static Operation *make_filter_operation(const nb::list &given, const nb::dict &options) {
  FilterList filters;
  std::string algorithm;
  gconv_operation *operation = nullptr;
  read_filters_given(given, &filters);
  gconv_options wanted = read_options(options, &algorithm);
  if (options.contains("statistic") && filters.count > 0) {
    const auto statistic = (gconv_statistic)value_of(options, "statistic", 0);
    check(gconv_operation_local(statistic, filters.items[0].rows, filters.items[0].columns, &wanted, &operation));
    return new Operation(operation, nb::none(), true, options.contains("alpha"), true);
  }
  check(make_filters(filters, options, wanted, &operation));
  const bool on_host = wanted.gray || wanted.linear || wanted.mix || wanted.alpha == GCONV_ALPHA_PREMULTIPLY ||
                       wanted.range == GCONV_RANGE_MINMAX;
  return new Operation(operation, nb::none(), on_host, options.contains("alpha"), true);
}

/* Makes one operation of several operations, which run one after the other. */
static Operation *make_chain(const nb::list &stages) {
  std::vector<gconv_operation *> operations;
  gconv_operation *chain = nullptr;
  for (nb::handle stage : stages)
    operations.push_back(const_cast<gconv_operation *>(nb::cast<Operation &>(stage).get())); /* the chain shares them */
  check(gconv_operation_chain(operations.data(), operations.size(), &chain));
  return new Operation(chain, nb::none(), true, false, true);
}

void add_filters(nb::module_ &module) {
  module.def("chain_operation", &make_chain, nb::arg("stages"));
  module.def("read_filters", &read_filters, nb::arg("spec"), nb::arg("syntax").none());
  module.def("count_filters", &count_filters, nb::arg("spec"));
  module.def("write_filters", &write_filters, nb::arg("path"), nb::arg("filters"));
  module.def("filter_text", &filter_text, nb::arg("filters"));
  module.def("analyze", &analyze, nb::arg("filters"));
  module.def("builtins", &list_builtins);
  module.def("filter_folder", &gconv_filter_folder);
  module.def("filter_operation", &make_filter_operation, nb::arg("filters"), nb::arg("options"));
}

} // namespace gconv_python
