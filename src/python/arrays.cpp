/* SPDX-License-Identifier: MIT */
/* Reads arrays of callers (which array library, and the layout in memory), and makes arrays for results. NumPy arrays are
 * read by the buffer protocol, which takes 0.1 microseconds, arrays of PyTorch and CuPy by DLPack (gconv._arrays). */
#include "core.hpp"

#include <cstring>

namespace gconv_python {

static const char LETTERS[] = "NCHW";
enum { N, C, H, W };

/* ---- Axes ---- */

Axes read_axes(nb::handle text, int dimensions) {
  static const char *const usual[] = {"HW", "HWC", "NCHW"};
  Axes axes;
  const char *letters = dimensions >= 2 && dimensions <= 4 ? usual[dimensions - 2] : "";
  if (!text.is_none()) {
    letters = PyUnicode_Check(text.ptr()) ? PyUnicode_AsUTF8AndSize(text.ptr(), nullptr) : nullptr;
    if (!letters)
      PyErr_Clear();
  }
  for (const char *c = letters; c && *c && axes.count < 5; c++) {
    const char *found = strchr(LETTERS, *c);
    if (!found || axes.count == 4 || axes.at[found - LETTERS] >= 0) {
      letters = nullptr;
      break;
    }
    axes.at[found - LETTERS] = axes.count;
    axes.letters[axes.count++] = *c;
  }
  if (!letters || axes.at[H] < 0 || axes.at[W] < 0)
    refuse("axes=%s: name each axis of the array once, H and W, and C and N where it has them: \"HW\", \"HWC\", \"CHW\" or "
           "\"NCHW\"",
           nb::cast<std::string>(nb::repr(text)).c_str());
  if (axes.count != dimensions)
    refuse("the array has %d dimensions, and axes=\"%s\" names %d", dimensions, axes.letters, axes.count);
  return axes;
}

/* ---- Reading arrays ---- */

Samples::~Samples() {
  if (buffer.obj)
    PyBuffer_Release(&buffer);
}

/* Array libraries are recognised by the names of types: importing an unused library would take a second. */
static PyTypeObject *numpy_array() {
  static PyTypeObject *type = (PyTypeObject *)nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
  return type;
}

static Library library_of(nb::handle array) {
  nb::object module = nb::getattr(array.type(), "__module__", nb::none());
  std::string name = nb::isinstance<nb::str>(module) ? nb::cast<std::string>(module) : "";
  name = name.substr(0, name.find('.'));
  if (name == "torch")
    return Library::torch;
  if (name == "cupy")
    return Library::cupy;
  return nb::hasattr(array, "detach") && nb::hasattr(array, "data_ptr") ? Library::torch
                                                                        : Library::other; /* subclasses of a tensor */
}

static void check_shape(const char *what, int dimensions, const int64_t *shape) {
  if (dimensions < 2 || dimensions > 4)
    refuse("%s has %d dimensions: 2 to 4 are taken, such as H x W, H x W x C or N x C x H x W", what, dimensions);
  for (int i = 0; i < dimensions; i++)
    if (shape[i] < 1)
      refuse("%s has no samples: its axis %d has the length 0", what, i);
    else if (shape[i] > INT32_MAX)
      refuse("%s has an axis of %lld samples: at most 2147483647 are taken", what, (long long)shape[i]);
}

/* Sets the type of samples from a format string of Python's module struct. */
static void see_format(const char *what, const char *format, Samples *samples) {
  const char *code = format ? format : "B";
  if (*code == '>' || *code == '!') {
    if (samples->buffer.itemsize > 1)
      refuse("%s has the bytes of its numbers in reverse (big-endian): convert it, a.astype(a.dtype.newbyteorder(\"=\"))",
             what);
    code++;
  } else if (*code == '<' || *code == '=' || *code == '@') {
    code++;
  }
  samples->taken = code[0] && !code[1];
  if (*code == 'B')
    samples->type = GCONV_U8;
  else if (*code == 'H' && samples->buffer.itemsize == 2)
    samples->type = GCONV_U16;
  else if (*code == 'f')
    samples->type = GCONV_F32;
  else if (*code == 'h')
    samples->type = GCONV_I16;
  else
    samples->taken = false;
}

static void see_numpy(nb::handle array, const char *what, bool writable, Samples *samples) {
  Py_buffer *buffer = &samples->buffer;
  if (PyObject_GetBuffer(array.ptr(), buffer, writable ? PyBUF_RECORDS : PyBUF_RECORDS_RO)) {
    PyErr_Clear();
    buffer->obj = nullptr;
    if (writable && !nb::cast<bool>(array.attr("flags").attr("writeable")))
      refuse("%s is read-only: pass an array that may be written", what);
    refuse("%s has numbers of the type %s, which are not taken", what,
           nb::cast<std::string>(nb::repr(array.attr("dtype"))).c_str());
  }
  samples->library = Library::numpy;
  samples->data = (uint8_t *)buffer->buf;
  samples->dimensions = buffer->ndim;
  check_shape(what, buffer->ndim, (const int64_t *)buffer->shape);
  see_format(what, buffer->format, samples);
  for (int i = 0; i < buffer->ndim; i++) {
    samples->shape[i] = buffer->shape[i];
    samples->stride[i] = buffer->strides[i];
  }
}

template <typename Array> static void see_tensor(Array tensor, const char *what, Samples *samples) {
  const nb::dlpack::dtype type = tensor.dtype();
  const int device = tensor.device_type();
  if (device != nb::device::cpu::value && device != nb::device::cuda::value && device != nb::device::cuda_host::value &&
      device != nb::device::cuda_managed::value)
    refuse("%s is in memory of a device that is neither the host nor a CUDA GPU", what);
  samples->device = device == nb::device::cuda::value || device == nb::device::cuda_managed::value ? tensor.device_id() : -1;
  samples->dimensions = (int)tensor.ndim();
  check_shape(what, samples->dimensions, tensor.shape_ptr());
  const auto code = (nb::dlpack::dtype_code)type.code;
  samples->taken = type.lanes == 1;
  if (code == nb::dlpack::dtype_code::UInt && type.bits == 8)
    samples->type = GCONV_U8;
  else if (code == nb::dlpack::dtype_code::UInt && type.bits == 16)
    samples->type = GCONV_U16;
  else if (code == nb::dlpack::dtype_code::Float && type.bits == 32)
    samples->type = GCONV_F32;
  else if (code == nb::dlpack::dtype_code::Int && type.bits == 16)
    samples->type = GCONV_I16;
  else
    samples->taken = false;
  samples->data = (uint8_t *)tensor.data();
  for (int i = 0; i < samples->dimensions; i++) {
    samples->shape[i] = tensor.shape(i);
    samples->stride[i] = tensor.stride(i) * type.bits * type.lanes / 8;
  }
  samples->held = nb::ndarray<nb::ro>(tensor);
}

static bool see_dlpack(nb::handle array, const char *what, bool writable, Samples *samples) {
  if (!nb::hasattr(array, "__dlpack__") || !nb::hasattr(array, "__dlpack_device__"))
    return false;
  nb::object where = array.attr("__dlpack_device__")();
  const int type = nb::cast<int>(where[0]);
  nb::object capsule;
  try { /* -1: no synchronisation is needed, as the work goes into the array library's own stream */
    if (type == nb::device::cuda::value)
      capsule = array.attr("__dlpack__")(nb::arg("stream") = -1);
    else
      capsule = array.attr("__dlpack__")();
  } catch (nb::python_error &error) { /* an unknown type, gradients, or another GPU: gconv._arrays decides */
    capsule = type == nb::device::cuda::value
                  ? nb::object(nb::module_::import_("gconv._arrays").attr("export_from_other_gpu")(array))
                  : nb::object(nb::none());
    if (capsule.is_none()) {
      if (writable || samples->library != Library::torch ||
          !(error.matches(PyExc_RuntimeError) || error.matches(PyExc_BufferError)))
        throw;
      return false;
    }
  }
  try {
    if (writable)
      see_tensor(nb::cast<nb::ndarray<>>(capsule), what, samples);
    else
      see_tensor(nb::cast<nb::ndarray<nb::ro>>(capsule), what, samples);
  } catch (nb::cast_error &) {
    refuse("%s gave an array (DLPack) that cannot be taken: it is read-only, was taken before, or is none", what);
  }
  return true;
}

bool see(nb::handle array, const char *what, bool writable, Samples *samples) {
  PyTypeObject *type = Py_TYPE(array.ptr());
  if (type == numpy_array() || PyType_IsSubtype(type, numpy_array())) {
    see_numpy(array, what, writable, samples);
    return true;
  }
  samples->library = library_of(array);
  return samples->library != Library::other && see_dlpack(array, what, writable, samples);
}

/* ---- As images ---- */

bool lay_out(const Samples &samples, const Axes &axes, const gconv_image *header, gconv_array *array, gconv_image *image) {
  const int64_t size = (int64_t)gconv_type_bytes(samples.type);
  if (!samples.taken || (uintptr_t)samples.data % (size_t)size != 0)
    return false;
  *array = gconv_array{samples.data, samples.type, {1, 1, 1, 1}, {0, 0, 0, 0}};
  for (int i = 0; i < 4; i++)
    if (axes.at[i] >= 0) {
      array->shape[i] = samples.shape[axes.at[i]];
      array->stride[i] = array->shape[i] > 1 ? samples.stride[axes.at[i]] : 0;
    }
  const int64_t *shape = array->shape;
  int64_t *stride = array->stride;
  for (int i = 0; i < 4; i++)
    if (stride[i] < 0 || stride[i] % size != 0)
      return false;
  bool pixels = shape[C] <= 4 && (shape[C] == 1 || stride[C] == size) && (shape[W] == 1 || stride[W] == shape[C] * size);
  bool planes = shape[C] > 1 && (shape[W] == 1 || stride[W] == size);
  if (pixels && planes) /* an image of one column has both layouts: the order of the letters decides */
    planes = axes.at[C] < axes.at[W];
  if (header)
    planes = header->planar && shape[C] > 1 ? planes : false;
  if (!planes && !pixels)
    return false;
  const int64_t row = (planes ? size : size * shape[C]) * shape[W];
  const int64_t rows = shape[H] > 1 ? stride[H] : row;
  int64_t plane = rows * shape[H];
  if (planes)
    plane = stride[C];
  else if (shape[N] > 1)
    plane = stride[N];
  if (rows < row || plane < rows * (shape[H] - 1) + row || (planes && shape[N] > 1 && stride[N] != shape[C] * plane))
    return false;
  *image = gconv_image{};
  image->type = samples.type;
  image->frames = (int32_t)shape[N];
  image->height = (int32_t)shape[H];
  image->width = (int32_t)shape[W];
  image->channels = (int32_t)shape[C];
  image->planar = header ? header->planar : planes;
  image->alpha = header ? header->alpha : false;
  image->row_bytes = (size_t)rows;
  image->plane_bytes = (size_t)plane;
  image->data = samples.data;
  return true;
}

gconv_image image_of(nb::handle array, const char *what, Samples *samples) {
  gconv_array seen;
  gconv_image image;
  if (!see(array, what, false, samples) || samples->device >= 0 ||
      !lay_out(*samples, read_axes(nb::none(), samples->dimensions), nullptr, &seen, &image))
    refuse("%s must be a path, or an array of NumPy of uint8, uint16 or float32 with contiguous rows", what);
  return image;
}

bool overlap(const Samples &a, const Samples &b) {
  const Samples *const both[2] = {&a, &b};
  uintptr_t first[2], last[2];
  for (int k = 0; k < 2; k++) {
    intptr_t low = 0, high = (intptr_t)gconv_type_bytes(both[k]->type);
    for (int i = 0; i < both[k]->dimensions; i++) {
      intptr_t reach = (intptr_t)((both[k]->shape[i] - 1) * both[k]->stride[i]);
      (reach < 0 ? low : high) += reach;
    }
    first[k] = (uintptr_t)both[k]->data + (uintptr_t)low;
    last[k] = (uintptr_t)both[k]->data + (uintptr_t)high;
  }
  return a.device == b.device && first[0] < last[1] && first[1] < last[0];
}

/* ---- Results ---- */

Axes axes_of_result(const Axes &axes, const gconv_image &header) {
  Axes result = axes;
  if (header.channels == 1 || axes.at[C] >= 0)
    return result;
  const int place = header.planar ? axes.at[N] == 0 : axes.count; /* planar: C stands before H, W; interleaved: after W */
  memmove(result.letters + place + 1, result.letters + place, (size_t)(axes.count - place));
  result.letters[place] = 'C';
  result.letters[++result.count] = '\0';
  for (int i = 0; i < result.count; i++)
    result.at[strchr(LETTERS, result.letters[i]) - LETTERS] = i;
  return result;
}

static nb::object numpy_empty(nb::handle shape, gconv_type type) {
  static PyObject *empty = nb::object(nb::module_::import_("numpy").attr("empty")).release().ptr();
  static PyObject *types[4] = {}; /* by gconv_type */
  if (!types[type]) {
    types[type] = nb::module_::import_("numpy").attr("dtype")(type_name(type)).release().ptr();
  }
  PyObject *made = PyObject_CallFunctionObjArgs(empty, shape.ptr(), types[type], nullptr);
  if (!made)
    throw nb::python_error();
  return nb::steal(made);
}

nb::object make_result(const Samples &like, nb::handle like_object, const Axes &axes, const gconv_image &header,
                       Samples *samples) {
  const int64_t sizes[4] = {header.frames, header.channels, header.height, header.width};
  int place[4] = {-1, -1, -1, -1}, count = 0; /* the place of each letter in memory */
  nb::object shape = nb::steal(PyTuple_New(axes.count));
  bool moved = false;
  const char *order_in_memory = header.planar ? "NCHW" : "NHWC";
  if (header.channels == 1 && axes.at[H] < axes.at[W] &&
      axes.at[N] <= 0) /* with one channel, the place of C makes no difference */
    order_in_memory = axes.letters;
  for (const char *c = order_in_memory; *c; c++) {
    const int letter = (int)(strchr(LETTERS, *c) - LETTERS);
    if (axes.at[letter] < 0)
      continue;
    moved |= axes.at[letter] != count;
    PyTuple_SetItem(shape.ptr(), count, PyLong_FromLongLong(sizes[letter]));
    place[letter] = count++;
  }
  nb::object made = like.library == Library::numpy
                        ? numpy_empty(shape, header.type)
                        : nb::module_::import_("gconv._arrays").attr("empty")(like_object, shape, type_name(header.type));
  if (moved) { /* the result gets the caller's order of axes, as a view of the order in memory */
    nb::list order;
    for (int i = 0; i < axes.count; i++)
      order.append(place[strchr(LETTERS, axes.letters[i]) - LETTERS]);
    made =
        like.library == Library::torch ? made.attr("permute")(nb::tuple(order)) : made.attr("transpose")(nb::tuple(order));
  }
  see(made, "the result", true, samples);
  return made;
}

/* ---- Streams ---- */

void *current_stream(const Samples &samples) {
  if (samples.device < 0 || samples.library == Library::numpy)
    return nullptr;
  nb::object number = nb::module_::import_("gconv._arrays")
                          .attr("stream")(samples.library == Library::torch ? "torch" : "cupy", samples.device);
  return (void *)nb::cast<uintptr_t>(number);
}

} // namespace gconv_python
