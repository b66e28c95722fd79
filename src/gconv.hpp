/* SPDX-License-Identifier: MIT */
/*
 * gconv for C++17: objects that free themselves, and failures as exceptions. A thin layer over gconv.h and gconv_embed.h,
 * whose rules hold here; get() of each object yields the pointer that the C functions take.
 *
 *     gconv::device cpu("cpu");
 *     gconv::image photo = gconv::image::read("photo.jpg");
 *     gconv::plan plan(cpu, photo, gconv::operation(gconv::filters("gaussian:sigma=2")));
 *     plan(photo).write("out.png");
 */
#ifndef GCONV_HPP
#define GCONV_HPP

#include "gconv_embed.h"

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gconv {

/* Any failure; what() is the text of gconv_last_error(). */
class error : public std::runtime_error {
public:
  explicit error(gconv_status status) : std::runtime_error(gconv_last_error()), status_(status) {}
  gconv_status status() const noexcept {
    return status_;
  }

private:
  gconv_status status_;
};

inline void check(gconv_status status) {
  if (status != GCONV_OK)
    throw error(status);
}

/* The format of a name, such as "png", for gconv_write_options. */
inline const gconv_format_info *format(const char *name) {
  const gconv_format_info *found = gconv_format_by_name(name);
  if (!found)
    throw std::invalid_argument(std::string(name) + " is no format that gconv knows");
  return found;
}

/* The bytes of an encoded picture. Can be moved, not copied, and reused for other pictures. */
class bytes {
public:
  bytes() = default;
  bytes(bytes &&other) noexcept : out_(std::exchange(other.out_, gconv_bytes_out{})) {}
  bytes &operator=(bytes &&other) noexcept {
    std::swap(out_, other.out_);
    return *this;
  }
  ~bytes() {
    std::free(out_.data);
  }
  const unsigned char *data() const noexcept {
    return static_cast<const unsigned char *>(out_.data);
  }
  std::size_t size() const noexcept {
    return out_.size;
  }
  gconv_bytes_out *get() noexcept {
    return &out_;
  }

private:
  gconv_bytes_out out_{};
};

/* An image. It can be moved, not copied. */
class image {
public:
  image() = default; /* empty, for results */
  image(gconv_type type, int height, int width, int channels) {
    image_.type = type;
    image_.frames = 1;
    image_.height = height;
    image_.width = width;
    image_.channels = channels;
    check(gconv_image_allocate(&image_));
  }
  image(image &&other) noexcept : image_(std::exchange(other.image_, gconv_image{})) {}
  image &operator=(image &&other) noexcept {
    std::swap(image_, other.image_);
    return *this;
  }
  ~image() {
    gconv_image_free(&image_);
  }
  static image read(const std::string &path, const gconv_read_options *options = nullptr) {
    image made;
    check(gconv_image_read(path.c_str(), options, &made.image_));
    return made;
  }
  static image decode(const void *data, std::size_t size, const gconv_read_options *options = nullptr) {
    image made;
    gconv_bytes_in from{};
    from.data = data ? data : "";
    from.size = data ? size : 0;
    check(gconv_image_decode(&from, options, &made.image_));
    return made;
  }
  void write(const std::string &path, const gconv_write_options *options = nullptr) const {
    check(gconv_image_write(path.c_str(), options, &image_));
  }
  void encode(const gconv_write_options &options, bytes &to) const {
    check(gconv_image_encode(to.get(), &options, &image_));
  }
  bytes encode(const char *format_name) const {
    gconv_write_options options{};
    options.format = format(format_name);
    bytes made;
    encode(options, made);
    return made;
  }
  gconv_image *get() noexcept {
    return &image_;
  }
  const gconv_image *get() const noexcept {
    return &image_;
  }
  const gconv_image *operator->() const noexcept {
    return &image_;
  }
  /* Row y, of plane or frame `plane`. Sample must be of the image's type: uint8_t, uint16_t, float, int16_t. */
  template <typename Sample> Sample *row(int y, std::size_t plane = 0) noexcept {
    return reinterpret_cast<Sample *>(static_cast<char *>(image_.data) + plane * image_.plane_bytes +
                                      static_cast<std::size_t>(y) * image_.row_bytes);
  }
  template <typename Sample> const Sample *row(int y, std::size_t plane = 0) const noexcept {
    return const_cast<image *>(this)->row<Sample>(y, plane);
  }

private:
  gconv_image image_{};
};

/* The filters that gconv_filters_read() makes of a spec. */
class filters {
public:
  explicit filters(const std::string &spec, const char *syntax = nullptr) {
    check(gconv_filters_read(spec.c_str(), syntax, &filters_));
  }
  filters(filters &&other) noexcept : filters_(std::exchange(other.filters_, gconv_filters{})) {}
  ~filters() {
    gconv_filters_free(&filters_);
  }
  const gconv_filters *get() const noexcept {
    return &filters_;
  }

private:
  gconv_filters filters_{};
};

/* How objects of the library are freed. */
struct freed {
  void operator()(gconv_operation *it) const noexcept {
    gconv_operation_free(it);
  }
  void operator()(gconv_device *it) const noexcept {
    gconv_device_close(it);
  }
  void operator()(gconv_plan *it) const noexcept {
    gconv_plan_free(it);
  }
};

class operation {
public:
  /* Owns an operation that a C function made, such as gconv_operation_network(). */
  explicit operation(gconv_operation *made) noexcept : it_(made) {}
  explicit operation(const filters &all, const gconv_options &options = gconv_options_default()) {
    gconv_operation *made = nullptr;
    check(gconv_operation_filters(all.get(), &options, &made));
    it_.reset(made);
  }
  gconv_operation *get() const noexcept {
    return it_.get();
  }

private:
  std::unique_ptr<gconv_operation, freed> it_;
};

/* Must outlive its plans. */
class device {
public:
  explicit device(const char *name = "auto", int threads = 0) {
    gconv_device *made = nullptr;
    check(gconv_device_open(name, threads, &made));
    it_.reset(made);
  }
  gconv_device *get() const noexcept {
    return it_.get();
  }

private:
  std::unique_ptr<gconv_device, freed> it_;
};

/* May be executed by any number of threads at the same time. */
class plan {
public:
  plan(const device &on, const image &like, const operation &what, int rows = 0) {
    gconv_plan *made = nullptr;
    check(gconv_plan_create(on.get(), like.get(), what.get(), rows, &made));
    it_.reset(made);
  }
  bool fits(const image &like) const noexcept {
    return gconv_plan_fits(it_.get(), like.get());
  }
  /* For plans of one output: `out` is empty, or an earlier result, which is written over. */
  void execute(const image &in, image &out) const {
    check(gconv_plan_execute(it_.get(), in.get(), out.get(), 1, nullptr));
  }
  image operator()(const image &in) const {
    image out;
    execute(in, out);
    return out;
  }
  /* All outputs. */
  std::vector<image> all(const image &in) const {
    std::vector<gconv_image> made(gconv_plan_outputs(it_.get()));
    std::vector<image> outputs(made.size()); /* allocated before execution: afterwards, an exception would leak */
    check(gconv_plan_execute(it_.get(), in.get(), made.data(), made.size(), nullptr));
    for (std::size_t i = 0; i < made.size(); i++)
      *outputs[i].get() = made[i];
    return outputs;
  }
  std::size_t held_bytes() const noexcept {
    return gconv_plan_held_bytes(it_.get());
  }
  void trim() noexcept {
    gconv_plan_trim(it_.get());
  }
  gconv_plan *get() const noexcept {
    return it_.get();
  }

private:
  std::unique_ptr<gconv_plan, freed> it_;
};

/* As long as the object lives, calls of this thread stop at the deadline, or when the function returns false; the function
 * gets what is being done, and how much of it. Stopped calls throw an error with GCONV_STOPPED. */
class control {
public:
  using clock = std::chrono::steady_clock;
  using function = std::function<bool(const char *what, double done)>;
  explicit control(clock::time_point deadline, function progress = nullptr) : progress_(std::move(progress)) {
    control_.deadline = std::chrono::duration<double>(deadline.time_since_epoch()).count();
    begin();
  }
  explicit control(function progress) : progress_(std::move(progress)) {
    begin();
  }
  explicit control(const volatile int &stop) {
    control_.stop = &stop;
    begin();
  }
  control(const control &) = delete;
  control &operator=(const control &) = delete;
  ~control() {
    gconv_control_use(before_);
  }

private:
  void begin() noexcept {
    if (progress_)
      control_.progress = tell;
    control_.user = this;
    control_.outer = before_ = gconv_control_use(&control_); /* nested controls all count */
  }
  /* An exception must not pass through C code: it stops the call. */
  static bool tell(const char *what, double done, void *user) noexcept {
    try {
      return static_cast<control *>(user)->progress_(what, done);
    } catch (...) {
      return false;
    }
  }
  gconv_control control_{};
  function progress_;
  const gconv_control *before_ = nullptr;
};

} // namespace gconv
#endif
