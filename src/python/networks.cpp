/* SPDX-License-Identifier: MIT */
/* Networks as files, and applied to arrays. */
#include "network.hpp"

#include <cstring>

namespace gconv_python {

gconv_operation *network_operation(const gconv_network &network, Present present, const gconv_format_info *format,
                                   const nb::dict &given) {
  gconv_network_options options = {};
  const std::string algorithm = value_of(given, "algorithm", std::string("auto"));
  options.algorithm = algorithm.c_str();
  options.math = (gconv_math)value_of(given, "math", (int)GCONV_MATH_FP32);
  options.gray = value_of(given, "gray", false);
  options.any_batch = true;
  options.presentation = (gconv_presentation)present;
  options.tone.scale = 1;
  options.tone.type = GCONV_F32;
  options.tone.keep_type = present == Present::image;
  options.tone.format = format;
  if (present == Present::classes) {
    options.combine = GCONV_COMBINE_ARGMAX;
    options.tone.type = network.class_count > 255 ? GCONV_U16 : GCONV_U8;
    options.tone.keep_type = false;
  }
  gconv_operation *operation = nullptr;
  check(network.features ? gconv_operation_pixels(&network, &options, &operation)
                         : gconv_operation_of_network(&network, &options, &operation));
  return operation;
}

static Network *load(const std::string &path, nb::object net) {
  auto made = std::make_unique<Network>();
  const std::string text = net.is_none() ? "" : nb::cast<std::string>(net);
  gconv_status status;
  {
    nb::gil_scoped_release released;
    if (text.empty() && gconv_network_is_one(path.c_str()))
      status = gconv_network_read(path.c_str(), &made->network);
    else
      status = gconv_network_import(path.c_str(), text.empty() ? nullptr : text.c_str(), &made->network);
  }
  check(status);
  return made.release();
}

static Network *make(const std::string &text, int32_t channels, int32_t height, int32_t width, size_t outputs,
                     uint64_t seed) {
  auto made = std::make_unique<Network>();
  check(gconv_network_make(text.c_str(), channels, height, width, outputs, seed, &made->network));
  return made.release();
}

static void save(const Network &network, const std::string &path) {
  gconv_status status;
  {
    nb::gil_scoped_release released;
    status = gconv_network_write(path.c_str(), &network.network);
  }
  check(status);
}

/* The operation holds the network. */
static Operation *operation_of(nb::object network, const std::string &present, const nb::dict &given) {
  const Network &one = nb::cast<const Network &>(network);
  const Present how = present == "classes" ? Present::classes : present == "image" ? Present::image : Present::tensor;
  gconv_operation *operation = network_operation(one.network, how, nullptr, given);
  return new Operation(operation, network, how == Present::image || one.network.features);
}

static nb::dict info_of(const Network &held) {
  const gconv_network &network = held.network;
  nb::dict info;
  nb::list classes, layers;
  for (size_t i = 0; i < network.class_count; i++)
    classes.append(nb::str(network.classes[i]));
  for (size_t i = 0; i < network.count; i++) {
    const gconv_layer &layer = network.layers[i];
    nb::dict entry;
    entry["kind"] = layer.kind == GCONV_LAYER_CONV ? "conv" : layer.kind == GCONV_LAYER_MEAN ? "mean" : "residual";
    if (layer.bank) {
      entry["shape"] = nb::make_tuple(layer.bank->filters, layer.bank->channels, layer.bank->rows, layer.bank->columns);
      entry["activation"] = gconv_activation_name(layer.activation);
    }
    layers.append(entry);
  }
  info["channels"] = network.channels;
  info["height"] = network.height;
  info["width"] = network.width;
  info["classes"] = nb::tuple(classes);
  info["layers"] = nb::tuple(layers);
  info["features"] = network.features ? nb::object(nb::str(network.features)) : nb::none();
  info["trained"] = network.trained ? nb::object(nb::str(network.trained)) : nb::none();
  return info;
}

/* (weights, biases or None) of layer number `index`, as copies. */
static nb::tuple weights_of(const Network &held, size_t index) {
  if (index >= held.network.count || !held.network.layers[index].bank)
    refuse("layer %zu has no weights", index);
  const gconv_bank &bank = *held.network.layers[index].bank;
  const size_t shape[4] = {(size_t)bank.filters, (size_t)bank.channels, (size_t)bank.rows, (size_t)bank.columns};
  auto *weights = new std::vector<float>(bank.weights, bank.weights + shape[0] * shape[1] * shape[2] * shape[3]);
  nb::capsule owner(weights, [](void *memory) noexcept { delete (std::vector<float> *)memory; });
  nb::object array = nb::ndarray<nb::numpy, float>(weights->data(), 4, shape, owner).cast();
  if (!bank.biases)
    return nb::make_tuple(array, nb::none());
  auto *biases = new std::vector<float>(bank.biases, bank.biases + shape[0]);
  nb::capsule other(biases, [](void *memory) noexcept { delete (std::vector<float> *)memory; });
  return nb::make_tuple(array, nb::ndarray<nb::numpy, float>(biases->data(), {shape[0]}, other).cast());
}

static nb::list class_values(const Network &held) {
  std::vector<uint16_t> values(held.network.class_count);
  if (!values.empty())
    check(gconv_class_values(held.network.classes, held.network.class_count, values.data()));
  nb::list list;
  for (uint16_t value : values)
    list.append((int)value);
  return list;
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
  module.def("network_operation", &operation_of, nb::arg("network"), nb::arg("present"), nb::arg("options"));
}

} // namespace gconv_python
