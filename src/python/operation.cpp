/* SPDX-License-Identifier: MIT */
/* Applies operations to arrays. Other files make the operations from filters, layers or networks. */
#include "operation.hpp"

#include <algorithm>
#include <cstring>

namespace gconv_python {

/* Work that takes one thread less than this is done by one thread, as waking others takes half as long. Results are the
 * same. */
static const double LONE_MS = 0.15;
enum { KEPT_SHAPES = 8, KEPT_PLANS = 64 }; /* the most shapes of an operation; the most idle plans of a shape */

/* The bytes of a strip's input, and the fewest rows of a strip: results of stages stay in the L2 and L3 caches. */
enum { STRIP_BYTES = 2 << 20, LEAST_STRIP = 32 };

/* ---- Plans ---- */

Operation::Operation(gconv_operation *operation, nb::object owner, bool on_host, bool alpha, bool by_strips)
    : operation_(operation), owner_(std::move(owner)), on_host_(on_host), alpha_(alpha), by_strips_(by_strips),
      generation_(generation()) {}

Operation::~Operation() {
  forget_after_fork();
  clear();
  gconv_operation_free(operation_);
}

void Operation::clear() {
  std::lock_guard<std::mutex> guard(lock_);
  for (Shape &shape : shapes_)
    for (gconv_plan *plan : shape.idle)
      gconv_plan_free(plan);
  shapes_.clear();
}

/* Plans that were made before a fork use threads that the child lacks: the child leaks them on purpose. */
void Operation::forget_after_fork() {
  if (generation_ != generation()) {
    shapes_.clear();
    generation_ = generation();
  }
}

static bool same(const Shape &shape, const gconv_image &like, const gconv_device *device, const void *stream) {
  const gconv_image &a = shape.like;
  return shape.device == device && shape.stream == stream && a.type == like.type && a.frames == like.frames &&
         a.height == like.height && a.width == like.width && a.channels == like.channels && a.planar == like.planar &&
         a.alpha == like.alpha;
}

gconv_plan *Operation::take(const gconv_image &like, gconv_device *device, void *stream) {
  {
    std::lock_guard<std::mutex> guard(lock_);
    forget_after_fork();
    for (size_t i = 0; i < shapes_.size(); i++)
      if (same(shapes_[i], like, device, stream)) {
        if (i > 0)
          std::rotate(shapes_.begin(), shapes_.begin() + (long)i, shapes_.begin() + (long)i + 1);
        if (shapes_[0].idle.empty())
          break;
        gconv_plan *plan = shapes_[0].idle.back();
        shapes_[0].idle.pop_back();
        return plan;
      }
  }
  gconv_plan *plan = nullptr;
  call([&] { return gconv_plan_create(device, &like, operation_, 0, &plan); });
  if (strcmp(gconv_device_get_info(device)->name, "cpu") != 0 || gconv_plan_get_info(plan)->estimate_ms >= LONE_MS)
    return plan;
  gconv_plan_free(plan);
  plan = nullptr;
  gconv_device *lone = lone_cpu();
  call([&] { return gconv_plan_create(lone, &like, operation_, 0, &plan); });
  return plan;
}

void Operation::give_back(gconv_plan *plan, const gconv_image &like, gconv_device *device, void *stream) {
  std::vector<gconv_plan *> old;
  {
    std::lock_guard<std::mutex> guard(lock_);
    auto found = std::find_if(shapes_.begin(), shapes_.end(), [&](const Shape &s) { return same(s, like, device, stream); });
    if (found == shapes_.end()) {
      if (shapes_.size() == KEPT_SHAPES) {
        old = shapes_.back().idle;
        shapes_.pop_back();
      }
      Shape shape;
      shape.like = like;
      shape.device = device;
      shape.stream = stream;
      found = shapes_.insert(shapes_.begin(), shape);
    }
    if (found->idle.size() < KEPT_PLANS)
      found->idle.push_back(plan);
    else
      old.push_back(plan);
  }
  for (gconv_plan *one : old)
    gconv_plan_free(one);
}

/* A plan that the destructor gives back. */
struct Operation::Taken {
  Operation &operation;
  const gconv_image &like;
  gconv_device *device;
  void *stream;
  gconv_plan *plan;

  Taken(Operation &operation, const gconv_image &like, gconv_device *device, void *stream)
      : operation(operation), like(like), device(device), stream(stream), plan(operation.take(like, device, stream)) {}
  Taken(const Taken &) = delete;
  Taken &operator=(const Taken &) = delete;
  ~Taken() {
    operation.give_back(plan, like, device, stream);
  }
};

/* ---- Execution ---- */

/* The outputs of a call: the arrays, and their descriptions for the library. */
struct Outputs {
  std::vector<nb::object> objects;
  std::unique_ptr<Samples[]> samples;
  std::vector<gconv_array> arrays;
  std::vector<gconv_image> images;
};

/* Uses the caller's array `out` as output number `i`. Returns false if the output must be made elsewhere, and copied. */
static bool take_output(nb::handle out, const gconv_image &header, const Axes &axes, const Samples &in, size_t i,
                        Outputs *outputs) {
  Samples &samples = outputs->samples[i];
  if (!see(out, "out", true, &samples))
    refuse("out is no array of NumPy, PyTorch or CuPy");
  const Axes wanted = axes_of_result(axes, header);
  const int64_t shape[4] = {header.frames, header.channels, header.height, header.width};
  bool fits = samples.taken && samples.type == header.type && samples.dimensions == wanted.count;
  for (int k = 0; k < 4 && fits; k++)
    if (wanted.at[k] >= 0)
      fits = samples.shape[wanted.at[k]] == shape[k];
  if (!fits)
    refuse("out has another shape or type than the result, which has %lld x %lld x %lld x %lld (N, C, H, W) samples of type "
           "%s in the order %s",
           (long long)shape[0], (long long)shape[1], (long long)shape[2], (long long)shape[3], gconv_type_name(header.type),
           wanted.letters);
  if (samples.device != in.device)
    refuse("out and the image are in memory of different devices");
  if (overlap(in, samples))
    refuse("out overlaps the image: pixels are read after their neighbours are written");
  for (size_t before = 0; before < i; before++)
    if (overlap(outputs->samples[before], samples))
      refuse("the arrays %zu and %zu of out overlap: each result needs memory of its own", before + 1, i + 1);
  if (!lay_out(samples, wanted, &header, &outputs->arrays[i], &outputs->images[i]))
    return false;
  outputs->objects[i] = nb::borrow(out);
  return true;
}

static bool make_outputs(const gconv_plan *plan, const Samples &in, nb::handle image, const Axes &axes, nb::handle out,
                         Outputs *outputs) {
  const size_t count = gconv_plan_outputs(plan);
  outputs->objects.resize(count);
  outputs->samples.reset(new Samples[count]);
  outputs->arrays.resize(count);
  outputs->images.resize(count);
  if (!out.is_none() && count != 1 && (!nb::isinstance<nb::sequence>(out) || nb::len(out) != count))
    refuse("there are %zu results: out must be a tuple of as many arrays", count);
  for (size_t i = 0; i < count; i++) {
    const gconv_image &header = *gconv_plan_output_header(plan, i);
    if (!out.is_none()) {
      nb::object one = count == 1 ? nb::borrow(out) : nb::object(out[i]);
      if (!take_output(one, header, axes, in, i, outputs))
        return false;
      continue;
    }
    const Axes wanted = axes_of_result(axes, header);
    outputs->objects[i] = make_result(in, image, wanted, header, &outputs->samples[i]);
    if (!lay_out(outputs->samples[i], wanted, &header, &outputs->arrays[i], &outputs->images[i]))
      raise(GCONV_UNSUPPORTED, "the array library made an array with gaps for the result");
  }
  return true;
}

static std::string device_of(const Samples &samples, nb::handle device) {
  const std::string own = samples.device < 0 ? "cpu" : "cuda:" + std::to_string(samples.device);
  if (device.is_none())
    return own;
  if (!PyUnicode_Check(device.ptr()))
    refuse("device=%s: give its name, such as \"cpu\" or \"cuda:0\"", nb::cast<std::string>(nb::repr(device)).c_str());
  std::string name = text_of("device", device);
  if (samples.device >= 0 && name != own && name != "cuda" && name != "auto")
    refuse("device=\"%s\", but the array is in memory of %s: move it there first, or leave device= out", name.c_str(),
           own.c_str());
  return samples.device >= 0 ? own : name;
}

/* Returns rows `first` to `end` - 1 of an image of one frame, whose channels are interleaved. */
static gconv_image rows_of(const gconv_image &image, int32_t first, int32_t end) {
  gconv_image rows = image;
  rows.data = (uint8_t *)image.data + (size_t)first * image.row_bytes;
  rows.height = end - first;
  return rows;
}

/* Executes a plan with several stages on the host strip by strip: results between stages stay in the caches. They also need
 * no memory of the size of an image, which the system would zero in each call. */
static gconv_status execute_strips(gconv_plan *plan, const gconv_image &image, std::vector<gconv_image> &outputs) {
  const int32_t step = gconv_plan_row_step(plan), height = outputs[0].height;
  const int64_t wanted = STRIP_BYTES / ((int64_t)image.row_bytes + 1);
  const int32_t strip =
      (int32_t)std::min<int64_t>(height, (std::max<int64_t>(wanted, LEAST_STRIP) + step - 1) / step * step);
  std::vector<gconv_image> parts(outputs.size());
  for (int32_t first = 0; first < height; first += strip) {
    const int32_t end = std::min(height, first + strip);
    int32_t begin_needed, end_needed;
    gconv_plan_rows_needed(plan, first, end - first, &begin_needed, &end_needed);
    for (size_t i = 0; i < outputs.size(); i++)
      parts[i] = rows_of(outputs[i], first, end);
    const gconv_image part = rows_of(image, begin_needed, end_needed);
    const gconv_input_rows window = {&part, begin_needed};
    const gconv_status status = gconv_plan_execute_rows(plan, &window, first, parts.data(), parts.size(), nullptr);
    if (status != GCONV_OK)
      return status;
  }
  return GCONV_OK;
}

/* Executes without the GIL. A failure leaves its text in this thread. */
static gconv_status execute(gconv_plan *plan, bool by_images, bool by_strips, const gconv_array &in,
                            const gconv_image &image, Outputs *outputs, void *stream) {
  return call_for_status([&] {
    if (by_images && by_strips && gconv_plan_row_step(plan) > 0)
      return execute_strips(plan, image, outputs->images);
    return by_images ? gconv_plan_execute(plan, &image, outputs->images.data(), outputs->images.size(), nullptr)
                     : gconv_plan_execute_device(plan, &in, outputs->arrays.data(), outputs->arrays.size(), stream);
  });
}

static nb::object results(Outputs *outputs) {
  if (outputs->objects.size() == 1)
    return outputs->objects[0];
  nb::list all;
  for (nb::object &object : outputs->objects)
    all.append(object);
  return nb::tuple(all);
}

static void check_alpha(const gconv_image &header) {
  if (header.alpha && (header.planar || header.channels % 2 != 0))
    refuse("alpha is the last channel of an array of 2 or 4, H x W x C, and this has %d%s", header.channels,
           header.planar ? " as planes" : "");
}

nb::object Operation::run(nb::handle image, nb::handle axes_text, nb::handle device_name, nb::handle out,
                          nb::handle stream_number, bool any_stream) {
  Samples samples;
  gconv_array in;
  gconv_image header;
  if (!see(image, "the image", false, &samples) || samples.type == GCONV_I16) /* only results can be int16 */
    return nb::none();
  const Axes axes = read_axes(axes_text, samples.dimensions);
  if (!lay_out(samples, axes, nullptr, &in, &header))
    return nb::none();
  header.alpha = alpha_;
  check_alpha(header);
  gconv_device *device = device_named(device_of(samples, device_name));
  const bool on_gpu = strcmp(gconv_device_get_info(device)->name, "cpu") != 0;
  const bool by_images = samples.device < 0 && (on_host_ || on_gpu);
  void *stream = samples.device < 0         ? nullptr
                 : !stream_number.is_none() ? (void *)nb::cast<uintptr_t>(stream_number)
                                            : current_stream(samples);
  gconv_image like = header;
  like.data = nullptr;
  like.row_bytes = like.plane_bytes = 0;
  void *const key = any_stream ? nullptr : stream;
  const Taken taken(*this, like, device, key);
  Outputs outputs;
  if (!make_outputs(taken.plan, samples, image, axes, out, &outputs))
    return nb::none();
  check(execute(taken.plan, by_images, by_strips_ && !on_gpu, in, header, &outputs, stream));
  return results(&outputs);
}

/* ---- Strip by strip ---- */

static gconv_image header_of(nb::handle shape, const std::string &type, bool planar, bool alpha) {
  gconv_image like = {};
  like.alpha = alpha;
  like.frames = nb::cast<int32_t>(shape[0]);
  like.channels = nb::cast<int32_t>(shape[1]);
  like.height = nb::cast<int32_t>(shape[2]);
  like.width = nb::cast<int32_t>(shape[3]);
  like.planar = planar && like.channels > 1;
  while (type != type_name(like.type)) /* Python knows the names (gconv._filter.TYPES) */
    like.type = (gconv_type)(like.type + 1);
  return like;
}

nb::object Operation::strips(nb::handle shape, bool planar) {
  const gconv_image like = header_of(shape, "float32", planar, alpha_);
  const Taken taken(*this, like, device_named("cpu"), nullptr);
  const int32_t step = gconv_plan_row_step(taken.plan);
  gconv_image out = *gconv_plan_output_header(taken.plan, 0);
  out.type = like.type; /* results may be of any type */
  if (step == 0 || on_host_ || gconv_plan_outputs(taken.plan) != 1 || !gconv_image_same_shape(&out, &like))
    return nb::none();
  const int64_t row = (int64_t)like.frames * like.channels * like.width * (int64_t)sizeof(float);
  const int64_t wanted = std::max<int64_t>(STRIP_BYTES / row, LEAST_STRIP);
  const int32_t rows = (int32_t)std::min<int64_t>((wanted + step - 1) / step * step, INT32_MAX / 2);
  nb::list all;
  for (int32_t first = 0, begin, end; first < out.height; first += rows) {
    const int32_t count = std::min(rows, out.height - first);
    gconv_plan_rows_needed(taken.plan, first, count, &begin, &end);
    all.append(nb::make_tuple(first, first + count, begin, end));
  }
  return all;
}

nb::object Operation::run_rows(nb::handle window, nb::handle axes_text, nb::handle shape, bool planar, int row, int first,
                               int end) {
  gconv_image like = header_of(shape, "float32", planar, alpha_), image, result;
  Samples samples, made;
  gconv_array array;
  const Taken taken(*this, like, device_named("cpu"), nullptr);
  gconv_image header = *gconv_plan_output_header(taken.plan, 0);
  const bool seen = see(window, "the rows", false, &samples);
  const Axes axes = read_axes(axes_text, samples.dimensions);
  header.height = end - first;
  gconv_image rows = like;
  rows.height = (int32_t)samples.shape[axes.at[2]];
  if (!seen || !lay_out(samples, axes, &rows, &array, &image))
    refuse("the rows are no array that the library takes");
  nb::object object = make_result(samples, window, axes, header, &made);
  if (!lay_out(made, axes, &header, &array, &result))
    raise(GCONV_UNSUPPORTED, "the array library made an array with gaps for the result");
  const gconv_input_rows given = {&image, row};
  call([&] { return gconv_plan_execute_rows(taken.plan, &given, first, &result, 1, nullptr); });
  return object;
}

/* ---- Descriptions ---- */

nb::object Operation::explain(nb::handle shape, const std::string &type, bool planar, const std::string &device_name) {
  const gconv_image like = header_of(shape, type, planar, alpha_);
  const Taken taken(*this, like, device_named(device_name), nullptr);
  char *text = nullptr;
  check(gconv_plan_explain(taken.plan, &text));
  nb::object result = nb::str(text);
  free(text);
  return result;
}

nb::dict Operation::info(nb::handle shape, const std::string &type, bool planar, const std::string &device_name) {
  const gconv_image like = header_of(shape, type, planar, alpha_);
  check_alpha(like);
  const Taken taken(*this, like, device_named(device_name), nullptr);
  const gconv_plan_info *info = gconv_plan_get_info(taken.plan);
  return dict_of("device", info->device, "algorithm", info->algorithm, "math", info->math, "exact", info->exact, "outputs",
                 gconv_plan_outputs(taken.plan), "output_shape",
                 nb::make_tuple(info->frames, info->out_channels, info->out_height, info->out_width), "flop", info->flop,
                 "bytes", info->bytes, "workspace_bytes", info->workspace_bytes, "error_bound", info->error_bound,
                 "estimate_ms", info->estimate_ms);
}

int Operation::output_axes(nb::handle shape, const std::string &output) {
  const gconv_image like = header_of(shape, "float32", true, alpha_);
  const Taken taken(*this, like, device_named("cpu"), nullptr);
  const gconv_node_info *node;
  for (size_t i = 0; (node = gconv_plan_node(taken.plan, i)); i++)
    if (node->output && output == node->output)
      return node->axes;
  return 4;
}

void add_operation(nb::module_ &module) {
  nb::class_<Operation>(module, "Operation")
      .def("run", &Operation::run, nb::arg("image").none(), nb::arg("axes").none(), nb::arg("device").none(),
           nb::arg("out").none(), nb::arg("stream").none(), nb::arg("any_stream"))
      .def("explain", &Operation::explain, nb::arg("shape"), nb::arg("type"), nb::arg("planar"), nb::arg("device"))
      .def("info", &Operation::info, nb::arg("shape"), nb::arg("type"), nb::arg("planar"), nb::arg("device"))
      .def("strips", &Operation::strips, nb::arg("shape"), nb::arg("planar"))
      .def("run_rows", &Operation::run_rows, nb::arg("window"), nb::arg("axes"), nb::arg("shape"), nb::arg("planar"),
           nb::arg("row"), nb::arg("first"), nb::arg("end"))
      .def("output_axes", &Operation::output_axes, nb::arg("shape"), nb::arg("output"))
      .def("clear", &Operation::clear);
}

} // namespace gconv_python
