/* SPDX-License-Identifier: MIT */
/* Reads and writes networks, and makes operations of them. */
#include "network.hpp"

#include <algorithm>
#include <cstdlib>

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
  const std::string output = value_of(given, "output_name", std::string());
  options.algorithm = algorithm.c_str();
  take(given, "math", options.math, "gray", options.gray);
  gconv_operation *operation = nullptr;
  gconv_network chosen = network; /* a shallow copy */
  chosen.output = output.empty() ? nullptr : output.c_str();
  check(network.features ? gconv_operation_pixels(&network, &options, &operation)
                         : gconv_operation_of_network(&chosen, &options, &operation));
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
  const int32_t input[] = {channels, height, width};
  const std::string layers = text_of("text", text);
  call([&] { return gconv_network_make(layers.c_str(), input, outputs, seed, made.get()); });
  return made.release();
}

static void save(const Network &network, nb::handle given) {
  const std::string path = path_of(given);
  call([&] { return gconv_network_write(path.c_str(), &network); });
}

/* Returns a tuple (name, type, shape) for each tensor; the shape is None if the model does not say it. */
static nb::tuple tensors_of(const gconv_network_tensor *tensors, size_t count) {
  nb::list list;
  for (size_t i = 0; i < count; i++) {
    nb::list shape;
    for (int32_t axis = 0; axis < tensors[i].axes; axis++)
      shape.append(tensors[i].shape[axis] > 0 ? nb::object(nb::int_(tensors[i].shape[axis])) : nb::object(nb::none()));
    list.append(nb::make_tuple(names_of(&tensors[i].name, 1)[0], tensors[i].type,
                               tensors[i].axes < 0 ? nb::object(nb::none()) : nb::object(nb::tuple(shape))));
  }
  return nb::tuple(list);
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
  put(info, "trained", network.trained, "graph", network.graph != nullptr, "channels_last",
      network.input_count == 1 && network.inputs[0].channels_last, "inputs", tensors_of(network.inputs, network.input_count),
      "outputs", tensors_of(network.outputs, network.output_count));
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

/* ---- Graphs on arrays of any shape ---- */

/* Buffers of contiguous NumPy arrays. */
struct Buffers {
  std::vector<Py_buffer> all;
  ~Buffers() {
    for (Py_buffer &buffer : all)
      PyBuffer_Release(&buffer);
  }
};

/* `given`: a tuple (name, array, type) for each input. The tensors point to names and types in `texts`. */
static void take_tensors(const nb::list &given, Buffers *buffers, std::vector<std::string> *texts,
                         std::vector<gconv_network_tensor> *tensors) {
  texts->reserve(2 * nb::len(given)); /* the tensors point into the texts, which must not move */
  for (nb::handle one : given) {
    gconv_network_tensor tensor = {};
    Py_buffer buffer = {};
    nb::object array = one[1];
    texts->push_back(text_of("inputs", one[0]));
    texts->push_back(text_of("inputs", one[2]));
    tensor.name = &(*texts)[texts->size() - 2][0];
    tensor.type = texts->back().c_str();
    if (PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_ND))
      throw nb::python_error();
    buffers->all.push_back(buffer);
    if (buffer.ndim > GCONV_NETWORK_AXES)
      refuse("an array has %d dimensions: there can be %d", buffer.ndim, GCONV_NETWORK_AXES);
    tensor.axes = buffer.ndim;
    for (int i = 0; i < buffer.ndim; i++)
      tensor.shape[i] = buffer.shape[i];
    tensor.data = buffer.buf;
    tensors->push_back(tensor);
  }
}

/* Returns (a NumPy array of bytes, type, shape). The array owns the tensor's memory. */
static nb::tuple give_tensor(gconv_network_tensor *tensor, size_t bytes) {
  nb::list shape;
  for (int32_t i = 0; i < tensor->axes; i++)
    shape.append(tensor->shape[i]);
  nb::capsule owner(tensor->data, [](void *memory) noexcept { free(memory); });
  auto *data = (uint8_t *)tensor->data;
  tensor->data = nullptr;
  return nb::make_tuple(nb::ndarray<nb::numpy, uint8_t>(data, {bytes}, owner).cast(), tensor->type, nb::tuple(shape));
}

static size_t bytes_of(const gconv_network_tensor &tensor, const nb::dict &type_bytes) {
  size_t bytes = nb::cast<size_t>(type_bytes[tensor.type]);
  for (int32_t i = 0; i < tensor.axes; i++)
    bytes *= (size_t)tensor.shape[i];
  return bytes;
}

/* inputs: a tuple (name, array, type) for each; outputs: their names; type_bytes: the bytes of an element, by type. */
static nb::list run_graph(const Network &network, const nb::list &inputs, const nb::list &outputs,
                          const nb::dict &type_bytes, const std::string &device) {
  Buffers buffers;
  std::vector<std::string> texts, names;
  std::vector<gconv_network_tensor> in, out;
  in.reserve(1); /* so that data() is not NULL even if there are no inputs */
  out.reserve(1);
  take_tensors(inputs, &buffers, &texts, &in);
  for (nb::handle name : outputs)
    names.push_back(text_of("output", name));
  for (std::string &name : names) {
    gconv_network_tensor tensor = {};
    tensor.name = &name[0];
    out.push_back(tensor);
  }
  gconv_device *opened = device_named(device);
  call([&] { return gconv_network_run(&network, opened, in.data(), in.size(), out.data(), out.size()); });
  nb::list made;
  for (gconv_network_tensor &tensor : out)
    made.append(give_tensor(&tensor, bytes_of(tensor, type_bytes)));
  return made;
}

static nb::list class_values(const Network &network) {
  return values_of_classes(network.classes, network.class_count);
}

void add_networks(nb::module_ &module) {
  nb::class_<Network>(module, "Network")
      .def("save", &save, nb::arg("path"))
      .def("info", &info_of)
      .def("weights", &weights_of, nb::arg("index"))
      .def("run", &run_graph, nb::arg("inputs"), nb::arg("outputs"), nb::arg("type_bytes"), nb::arg("device"))
      .def_prop_ro("digest", [](const Network &network) { return network.graph_digest; })
      .def("class_values", &class_values);
  module.def("network_load", &load, nb::arg("path"), nb::arg("net").none());
  module.def("network_make", &make, nb::arg("text"), nb::arg("channels"), nb::arg("height"), nb::arg("width"),
             nb::arg("outputs"), nb::arg("seed"));
}

} // namespace gconv_python
