/* SPDX-License-Identifier: MIT */
/* The functions that the parts of the extension share: failures, devices, arrays of callers, operations. */
#ifndef GCONV_PYTHON_CORE_HPP
#define GCONV_PYTHON_CORE_HPP

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <atomic>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "gconv.h"
#include "gconv_classify.h"
#include "gconv_embed.h"
#include "gconv_jobs.h"
#include "gconv_learn.h"

namespace gconv_python {

namespace nb = nanobind;

/* ---- Failures (failures.cpp) ---- */

/* Raises the exception of gconv._errors that stands for `status`. The caller holds the GIL. */
[[noreturn]] void raise(gconv_status status, const char *text);
/* Unless `status` is GCONV_OK, raises the failure of the library's last call in this thread. */
inline void check(gconv_status status) {
  if (status != GCONV_OK)
    raise(status, gconv_last_error());
}
/* Lets go of the GIL as long as it lives, so that other threads of Python run meanwhile, and threads of the library may
 * warn. In the main thread, signals such as Ctrl-C are looked at some 20 times a second, and so is the watcher of this
 * thread (gconv.progress): if a handler or the watcher raises, calls of the library stop, and end() sets the exception. */
class Released {
public:
  Released();
  ~Released();
  Released(const Released &) = delete;
  Released &operator=(const Released &) = delete;
  /* Takes the GIL. Returns `status`, or GCONV_STOPPED with an exception that is set: raise() throws it. */
  gconv_status end(gconv_status status);

private:
  static bool look(const char *what, double done, void *user);
  void keep_raised();
  gconv_control control_ = {};
  const gconv_control *before_;
  PyThreadState *state_;
  PyObject *raised_ = nullptr;
  const char *told_ = nullptr; /* what the watcher was told last */
};
/* Calls the watcher of this thread, if there is one. Returns false with an exception that is set: of the watcher, or since
 * it has returned False. The caller holds the GIL. */
bool tell_watcher(const char *what, double done);
/* As long as it lives, calls are a part of a longer work, begin .. begin + length of 1, for the watcher of this thread. */
struct PartOfWork {
  PartOfWork(double begin, double length);
  ~PartOfWork();
};
/* Calls the library without the GIL. Raises failures. */
template <typename Function> gconv_status call_for_status(Function function) {
  Released released;
  return released.end(function());
}
template <typename Function> void call(Function function) {
  check(call_for_status(function));
}
/* Raises gconv.ArgumentError, with a text as in printf(). */
[[noreturn]] void refuse(const char *format, ...) GCONV_PRINTF(1, 2);

/* ---- What callers give (given.cpp) ---- */

/* Raises gconv.ArgumentError: `value` is no value for the argument `name`. */
[[noreturn]] void refuse_value(const char *name, nb::handle value);
/* Returns the bytes of a path that is given as str (in the system's encoding), bytes, or os.PathLike. */
std::string path_of(nb::handle given);
std::string text_of(const char *name, nb::handle value);
/* Returns names of the library, such as names of classes, as a tuple. */
nb::tuple names_of(const char *const *names, size_t count);
/* Returns "uint8", "uint16", "float32" or "int16". */
const char *type_name(gconv_type type);

/* Returns the value that a dict of options has for this name, else `otherwise`. */
template <typename T> T value_of(const nb::dict &options, const char *name, T otherwise) {
  if (!options.contains(name))
    return otherwise;
  nb::object found = options[name];
  T value{};
  if (!nb::try_cast(found, value))
    refuse_value(name, found);
  return value;
}

/* Sets fields of a record, numbers and enumerations, from a dict of options, each by the name before it: take(options,
 * "rows", fit.rows, "columns", fit.columns). Fields that the dict lacks stay as they are. */
template <typename T, typename... More> void take(const nb::dict &options, const char *name, T &field, More &&...more) {
  using Value = typename std::conditional<std::is_enum<T>::value, int, T>::type;
  field = (T)value_of(options, name, (Value)field);
  if constexpr (sizeof...(more) > 0)
    take(options, more...);
}

/* Puts values into a dict, each by the name before it: put(info, "rows", 3, "columns", 5). A NULL text becomes None. */
template <typename T, typename... More> void put(nb::dict &dict, const char *name, T &&value, More &&...more) {
  dict[name] = std::forward<T>(value);
  if constexpr (sizeof...(more) > 0)
    put(dict, std::forward<More>(more)...);
}
template <typename... Pairs> nb::dict dict_of(Pairs &&...pairs) {
  nb::dict dict;
  put(dict, std::forward<Pairs>(pairs)...);
  return dict;
}

/* A record of the library that is freed at its end. */
template <typename T, auto Free> struct Owned : T {
  Owned() : T{} {}
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  ~Owned() {
    Free(this);
  }
};

/* An object of the library, which is a pointer; freed at its end. */
template <typename T, auto Free> struct Held {
  T *it = nullptr;
  Held() = default;
  Held(const Held &) = delete;
  Held &operator=(const Held &) = delete;
  ~Held() {
    Free(it);
  }
};

/* Makes an array of NumPy, which takes over the numbers. */
template <typename T> nb::object numpy_of(std::vector<T> numbers, std::initializer_list<size_t> shape) {
  auto *kept = new std::vector<T>(std::move(numbers));
  nb::capsule owner(kept, [](void *memory) noexcept { delete (std::vector<T> *)memory; });
  return nb::ndarray<nb::numpy, T>(kept->data(), shape, owner).cast();
}

/* ---- Filters (filters.cpp) ---- */

using FilterList = Owned<gconv_filters, gconv_filters_free>;
/* Reads Python's filters, tuples of name, taps, anchor, divisor, offset and marked, into *filters. */
void read_filters_given(const nb::list &given, gconv_filters *filters);
/* Returns a filter as such a tuple. */
nb::tuple filter_to_python(const gconv_filter &filter);
/* Sets the fields that gconv_options and gconv_layer share. */
template <typename T> void take_geometry(const nb::dict &given, T &to) {
  to.stride_y = to.stride_x = to.dilation_y = to.dilation_x = 1;
  take(given, "flip", to.flip, "border", to.border, "border_value", to.border_value, "padding", to.padding, "pad_top",
       to.pad_top, "pad_bottom", to.pad_bottom, "pad_left", to.pad_left, "pad_right", to.pad_right);
  take(given, "stride_y", to.stride_y, "stride_x", to.stride_x, "dilation_y", to.dilation_y, "dilation_x", to.dilation_x);
}
/* Reads the options of a convolution, which have the names of gconv_options. `algorithm` keeps the text of that option. */
gconv_options read_options(const nb::dict &given, std::string *algorithm);
/* Makes the operation of filters, with the weights of `given`, if it has any. */
gconv_status make_filters(const gconv_filters &filters, const nb::dict &given, gconv_options &options,
                          gconv_operation **operation);

/* ---- Devices (devices.cpp) ---- */

/* Returns the device called `name`, which is opened at the first call, and then kept. Raises if it cannot be used. */
gconv_device *device_named(const std::string &name);
/* Returns a CPU of one thread, for work that ends before another thread would be awake. */
gconv_device *lone_cpu();
/* Returns a number that changes after a fork. The child has none of the parent's threads: so it forgets all devices, and all
 * plans that were made at another number. */
unsigned generation();

/* ---- Arrays of callers (arrays.cpp) ---- */

enum class Library { numpy, torch, cupy, other };

/* The letters of an array's axes, N, C, H and W, in the order of the axes. */
struct Axes {
  int count = 0;
  int at[4] = {-1, -1, -1, -1}; /* which axis of the array is N, C, H, W; -1: it has none */
  char letters[5] = "";
};
/* Reads axes from a text such as "HWC", or, for None, from the number of dimensions. Raises if the text is wrong. */
Axes read_axes(nb::handle text, int dimensions);

/* An array of a caller, which is kept as long as this record. */
struct Samples {
  Samples() = default;
  Samples(const Samples &) = delete;
  Samples &operator=(const Samples &) = delete;
  ~Samples();

  Library library = Library::other;
  uint8_t *data = nullptr;
  gconv_type type = GCONV_U8;
  bool taken = false; /* the library has this type */
  int dimensions = 0;
  int64_t shape[4] = {1, 1, 1, 1};
  int64_t stride[4] = {0, 0, 0, 0}; /* in bytes */
  int device = -1;                  /* the number of a GPU; -1: memory of the host */
  Py_buffer buffer = {};
  nb::ndarray<nb::ro> held; /* keeps the array alive, with DLPack */
};

/* Reads an array of NumPy, PyTorch or CuPy. Returns false if it is none. Raises for arrays that nobody can take. */
bool see(nb::handle array, const char *what, bool writable, Samples *samples);

/* Describes the array as an image of the library. Returns false if the library does not take its strides, order of axes or
 * type, so that it must be copied first. `header`: the layout that it must have (of outputs); NULL: any. */
bool lay_out(const Samples &samples, const Axes &axes, const gconv_image *header, gconv_array *array, gconv_image *image);

/* Returns an array in memory of the host, H x W or H x W x C, as an image; `samples` keeps it. Raises for others. */
gconv_image image_of(nb::handle array, const char *what, Samples *samples);

/* Returns `axes` for a result like `header`: with the letters that are missing. */
Axes axes_of_result(const Axes &axes, const gconv_image &header);

/* Makes an array, of the library that `like` is of, for an image like `header`. */
nb::object make_result(const Samples &like, nb::handle like_object, const Axes &axes, const gconv_image &header,
                       Samples *samples);

/* Returns whether the memory of both arrays overlaps. */
bool overlap(const Samples &a, const Samples &b);

/* Returns the stream in which the array's library works now. */
void *current_stream(const Samples &samples);

/* ---- The functions of each file that fill the module ---- */

void add_devices(nb::module_ &module);
void add_watching(nb::module_ &module);
void add_filters(nb::module_ &module);
void add_fitting(nb::module_ &module);
void add_operation(nb::module_ &module);
void add_layers(nb::module_ &module);
void add_images(nb::module_ &module);
void add_networks(nb::module_ &module);
void add_jobs(nb::module_ &module);
void add_learning(nb::module_ &module);
void add_machines(nb::module_ &module);
void add_science(nb::module_ &module);

} // namespace gconv_python
#endif
