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
/* Releases the GIL as long as the object lives, so that other Python threads can run, and threads of the library can warn.
 * About 20 times a second, it checks for signals such as Ctrl-C (in the main thread), and calls the watcher of this thread
 * (gconv.progress). If a signal handler or the watcher raises, calls of the library stop, and end() sets the exception. */
class Released {
public:
  Released();
  ~Released();
  Released(const Released &) = delete;
  Released &operator=(const Released &) = delete;
  /* Acquires the GIL. Returns `status`, or sets an exception, which raise() throws, and returns GCONV_STOPPED. */
  gconv_status end(gconv_status status);

private:
  static bool look(const char *what, double done, void *user);
  void keep_raised();
  gconv_control control_ = {};
  const gconv_control *before_;
  PyThreadState *state_;
  PyObject *raised_ = nullptr;
  const char *told_ = nullptr; /* the work that was last reported to the watcher */
};
/* Calls this thread's watcher, if any. If it raises or returns False, sets an exception and returns false. Needs the GIL. */
bool tell_watcher(const char *what, double done);
/* As long as the object lives, the watcher of this thread gets the progress of calls scaled to begin .. begin + length: the
 * calls are a part of a longer work, which is 0 .. 1. */
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

/* ---- Reading arguments of callers (given.cpp) ---- */

/* Raises gconv.ArgumentError: `value` is not valid for the argument `name`. */
[[noreturn]] void refuse_value(const char *name, nb::handle value);
/* Returns the bytes of a path that is given as str (in the system's encoding), bytes, or os.PathLike. */
std::string path_of(nb::handle given);
std::string text_of(const char *name, nb::handle value);
/* Returns names of the library, such as names of classes, as a tuple. */
nb::tuple names_of(const char *const *names, size_t count);
/* Refuses options of writing that the format (nullptr: there are several) does not have. */
void check_written(const nb::dict &options, const gconv_format_info *format);
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

/* Sets fields (numbers and enumerations) from a dict of options. Arguments are pairs of a name and a field: take(options,
 * "rows", fit.rows, "columns", fit.columns). Fields that the dict lacks stay as they are. */
template <typename T, typename... More> void take(const nb::dict &options, const char *name, T &field, More &&...more) {
  using Value = typename std::conditional<std::is_enum<T>::value, int, T>::type;
  field = (T)value_of(options, name, (Value)field);
  if constexpr (sizeof...(more) > 0)
    take(options, more...);
}

/* Puts pairs of a name and a value into a dict: put(info, "rows", 3, "columns", 5). A NULL text becomes None. */
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

/* A struct of the library whose destructor frees it. */
template <typename T, auto Free> struct Owned : T {
  Owned() : T{} {}
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  ~Owned() {
    Free(this);
  }
};

/* A pointer to an object of the library, which the destructor frees. */
template <typename T, auto Free> struct Held {
  T *it = nullptr;
  Held() = default;
  Held(const Held &) = delete;
  Held &operator=(const Held &) = delete;
  ~Held() {
    Free(it);
  }
};

/* Makes a NumPy array that owns the numbers. */
template <typename T> nb::object numpy_of(std::vector<T> numbers, std::initializer_list<size_t> shape) {
  auto *kept = new std::vector<T>(std::move(numbers));
  nb::capsule owner(kept, [](void *memory) noexcept { delete (std::vector<T> *)memory; });
  return nb::ndarray<nb::numpy, T>(kept->data(), shape, owner).cast();
}

/* ---- Filters (filters.cpp) ---- */

using FilterList = Owned<gconv_filters, gconv_filters_free>;
/* Reads filters from Python: tuples (name, taps, anchor row, anchor column, divisor, offset, marked). */
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
/* Makes the operation of filters, with the samples' weights in `given`, if it has any. */
gconv_status make_filters(const gconv_filters &filters, const nb::dict &given, gconv_options &options,
                          gconv_operation **operation);

/* ---- Devices (devices.cpp) ---- */

/* Returns the device called `name`, which is opened at the first call, and then kept. Raises if it cannot be used. */
gconv_device *device_named(const std::string &name);
/* Returns a CPU device of one thread, for work so short that waking other threads would take longer. */
gconv_device *lone_cpu();
/* Returns a number that changes in the child of a fork. The child lacks the parent's threads: so it forgets all devices, and
 * all plans that were made while the number was another. */
unsigned generation();

/* ---- Arrays of callers (arrays.cpp) ---- */

enum class Library { numpy, torch, cupy, other };

/* The letters of an array's axes, N, C, H and W, in the order of the axes. */
struct Axes {
  int count = 0;
  int at[4] = {-1, -1, -1, -1}; /* the array's axis for each of N, C, H, W; -1: the array has none */
  char letters[5] = "";
};
/* Reads axes from a text such as "HWC", or, for None, from the number of dimensions. Raises if the text is wrong. */
Axes read_axes(nb::handle text, int dimensions);

/* A caller's array, which stays alive as long as this struct. */
struct Samples {
  Samples() = default;
  Samples(const Samples &) = delete;
  Samples &operator=(const Samples &) = delete;
  ~Samples();

  Library library = Library::other;
  uint8_t *data = nullptr;
  gconv_type type = GCONV_U8;
  bool taken = false; /* gconv takes this element type */
  int dimensions = 0;
  int64_t shape[4] = {1, 1, 1, 1};
  int64_t stride[4] = {0, 0, 0, 0}; /* in bytes */
  int device = -1;                  /* the number of a GPU; -1: memory of the host */
  Py_buffer buffer = {};
  nb::ndarray<nb::ro> held; /* keeps the array alive, with DLPack */
};

/* Reads an array of NumPy, PyTorch or CuPy. Returns false for other objects. Raises if gconv._arrays cannot convert it
 * either. */
bool see(nb::handle array, const char *what, bool writable, Samples *samples);

/* Describes the array as an image of the library. Returns false if the library does not take its strides, order of axes or
 * type: then it must be copied first. `header`: the layout that an output must have; NULL: any. */
bool lay_out(const Samples &samples, const Axes &axes, const gconv_image *header, gconv_array *array, gconv_image *image);

/* Returns an array in host memory, H x W or H x W x C, as an image; `samples` keeps it alive. Raises for other arrays. */
gconv_image image_of(nb::handle array, const char *what, Samples *samples);

/* Returns `axes` for a result like `header`: C is added if the result has channels and the input has no such axis. */
Axes axes_of_result(const Axes &axes, const gconv_image &header);

/* Makes an array for an image like `header`, of the same array library as `like`. */
nb::object make_result(const Samples &like, nb::handle like_object, const Axes &axes, const gconv_image &header,
                       Samples *samples);

/* Returns whether the memory of both arrays overlaps. */
bool overlap(const Samples &a, const Samples &b);

/* Returns the current CUDA stream of the array's library. */
void *current_stream(const Samples &samples);

/* ---- Each file's function that adds to the module ---- */

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
