/* SPDX-License-Identifier: MIT */
/* Reads and writes networks, and makes operations of them. */
#include "network.hpp"

#include <algorithm>

namespace gconv_python {

/* ---- The form of outputs ---- */

Presentation::Presentation(const std::string &present, const char *const *classes, size_t class_count,
                           const gconv_format_info *format)
    : gconv_network_options{}, values(class_count) {
  any_batch = true;
  tone.scale = 1;
  tone.type = GCONV_F32;
  tone.format = format;
  if (present == "image") {
    presentation = GCONV_PRESENT_IMAGE;
    tone.keep_type = true;
  } else if (present == "classes") {
    presentation = GCONV_PRESENT_CLASSES;
    combine = GCONV_COMBINE_ARGMAX;
    tone.type = GCONV_U8;
    if (values.empty())
      return;
    check(gconv_class_values(classes, class_count, values.data()));
    class_values = values.data();
    class_value_count = class_count;
    if (*std::max_element(values.begin(), values.end()) > 255)
      tone.type = GCONV_U16;
  } else {
    presentation = GCONV_PRESENT_TENSOR;
  }
}

nb::list values_of_classes(const char *const *classes, size_t count) {
  const Presentation how("classes", classes, count, nullptr);
  nb::list list;
  for (uint16_t value : how.values)
    list.append((int)value);
  return list;
}

gconv_operation *network_operation(const gconv_network &network, const std::string &present, const gconv_format_info *format,
                                   const nb::dict &given) {
  Presentation options(present, network.classes, network.class_count, format);
  const std::string algorithm = value_of(given, "algorithm", std::string("auto"));
  options.algorithm = algorithm.c_str();
  take(given, "math", options.math, "gray", options.gray);
  gconv_operation *operation = nullptr;
  check(network.features ? gconv_operation_pixels(&network, &options, &operation)
                         : gconv_operation_of_network(&network, &options, &operation));
  return operation;
}

static nb::object numbers_of(const double *numbers, size_t count) {
  return numbers ? numpy_of(std::vector<double>(numbers, numbers + count), {count}) : nb::none();
}

void put_notes(const gconv_column_notes &notes, nb::dict &info) {
  put(info, "names", names_of(notes.names, notes.names ? notes.count : 0), "means", numbers_of(notes.means, notes.count),
      "origins", numbers_of(notes.origins, notes.count));
}

/* ---- Networks ---- */

static Network *load(nb::handle given, nb::handle net) {
  auto made = std::make_unique<Network>();
  const std::string path = path_of(given), text = net.is_none() ? "" : text_of("layers", net);
  call([&] {
    return text.empty() && gconv_network_is_one(path.c_str())
               ? gconv_network_read(path.c_str(), made.get())
               : gconv_network_import(path.c_str(), text.empty() ? nullptr : text.c_str(), made.get());
  });
  return made.release();
}

static Network *make(nb::handle text, int32_t channels, int32_t height, int32_t width, size_t outputs, uint64_t seed) {
  auto made = std::make_unique<Network>();
  check(gconv_network_make(text_of("text", text).c_str(), channels, height, width, outputs, seed, made.get()));
  return made.release();
}

static void save(const Network &network, nb::handle given) {
  const std::string path = path_of(given);
  call([&] { return gconv_network_write(path.c_str(), &network); });
}

static nb::dict info_of(const Network &network) {
  nb::list layers;
  for (size_t i = 0; i < network.count; i++) {
    const gconv_layer &layer = network.layers[i];
    nb::dict entry = dict_of("kind", gconv_layer_kind_name(layer.kind));
    if (layer.bank)
      put(entry, "shape", nb::make_tuple(layer.bank->filters, layer.bank->channels, layer.bank->rows, layer.bank->columns),
          "activation", gconv_activation_name(layer.activation));
    layers.append(entry);
  }
  nb::dict info =
      dict_of("channels", network.channels, "height", network.height, "width", network.width, "classes",
              names_of(network.classes, network.class_count), "layers", nb::tuple(layers), "features", network.features);
  put_notes(network.notes, info);
  put(info, "trained", network.trained);
  return info;
}

/* Returns (weights, biases or None) of layer number `index`, as copies. */
static nb::tuple weights_of(const Network &network, size_t index) {
  if (index >= network.count || !network.layers[index].bank)
    refuse("layer %zu has no weights", index);
  const gconv_bank &bank = *network.layers[index].bank;
  const size_t k = (size_t)bank.filters, c = (size_t)bank.channels, r = (size_t)bank.rows, q = (size_t)bank.columns;
  return nb::make_tuple(numpy_of(std::vector<float>(bank.weights, bank.weights + k * c * r * q), {k, c, r, q}),
                        bank.biases ? numpy_of(std::vector<float>(bank.biases, bank.biases + k), {k}) : nb::none());
}

static nb::list class_values(const Network &network) {
  return values_of_classes(network.classes, network.class_count);
}

void add_networks(nb::module_ &module) {
  nb::class_<Network>(module, "Network")
      .def("save", &save, nb::arg("path"))
      .def("info", &info_of)
      .def("weights", &weights_of, nb::arg("index"))
      .def("class_values", &class_values);
  module.def("network_load", &load, nb::arg("path"), nb::arg("net").none());
  module.def("network_make", &make, nb::arg("text"), nb::arg("channels"), nb::arg("height"), nb::arg("width"),
             nb::arg("outputs"), nb::arg("seed"));
}

} // namespace gconv_python
