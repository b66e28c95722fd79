/* SPDX-License-Identifier: MIT */
/* A status of the library becomes an exception of gconv._errors, with the library's own text. */
#include "core.hpp"

#include <chrono>
#include <cstdarg>
#include <cstdio>

namespace gconv_python {

/* Returns the name of the class or function in gconv._errors that makes the exception. */
static const char *maker_of(gconv_status status) {
  switch (status) {
  case GCONV_BAD_ARGUMENT:
    return "ArgumentError";
  case GCONV_BAD_FILE:
    return "FormatError";
  case GCONV_IO_ERROR:
    return "file_error";
  case GCONV_EXISTS:
    return "ExistsError";
  case GCONV_TOO_LARGE:
    return "LimitError";
  case GCONV_NO_MEMORY:
    return "NoMemoryError";
  case GCONV_UNSUPPORTED:
    return "UnsupportedError";
  case GCONV_DEVICE_ERROR:
    return "DeviceError";
  case GCONV_MISMATCH:
    return "MismatchError";
  case GCONV_STOPPED:
    return "StoppedError";
  default:
    return "Error";
  }
}

static double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/* ---- Progress ---- */

static thread_local PyObject *watcher; /* owned: the function that gconv.progress set for this thread, or NULL */
static thread_local double part_begin = 0, part_length = 1;
static thread_local double looked; /* the time of this thread's last check of signals, and call of its watcher */

PartOfWork::PartOfWork(double begin, double length) {
  part_begin = begin;
  part_length = length;
}

PartOfWork::~PartOfWork() {
  part_begin = 0;
  part_length = 1;
}

bool tell_watcher(const char *what, double done) {
  if (!watcher)
    return true;
  PyObject *answer = PyObject_CallFunction(watcher, "sd", what, part_begin + part_length * done);
  if (answer == Py_False)
    PyErr_SetObject(nb::module_::import_("gconv._errors").attr("StoppedError").ptr(),
                    nb::str("stopped: the function of gconv.progress has returned False").ptr());
  const bool goes_on = answer && answer != Py_False;
  Py_XDECREF(answer);
  return goes_on;
}

/* Sets the watcher. Returns the previous watcher, or None. */
static nb::object watch(nb::handle given) {
  nb::object before = watcher ? nb::steal(watcher) : nb::none();
  watcher = given.is_none() ? nullptr : given.inc_ref().ptr();
  return before;
}

void add_watching(nb::module_ &module) {
  module.def("watch", &watch, nb::arg("watcher").none());
}

/* ---- Calls ---- */

Released::Released() {
  control_.progress = look;
  control_.user = this;
  control_.outer = before_ = gconv_control_use(&control_);
  state_ = PyEval_SaveThread();
}

Released::~Released() {
  if (state_)
    end(GCONV_OK);
}

/* Moves the current exception to raised_, for end(). */
void Released::keep_raised() {
  PyObject *type, *trace;
  PyErr_Fetch(&type, &raised_, &trace);
  PyErr_NormalizeException(&type, &raised_, &trace);
  if (trace)
    PyException_SetTraceback(raised_, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
}

bool Released::look(const char *what, double done, void *user) {
  Released *self = (Released *)user;
  const double now = seconds();
  if (self->raised_)
    return false;
  if (now - looked < 0.05)
    return true;
  looked = now;
  PyEval_RestoreThread(self->state_);
  self->told_ = what;
  if (PyErr_CheckSignals() || !tell_watcher(what, done))
    self->keep_raised();
  self->state_ = PyEval_SaveThread();
  return !self->raised_;
}

gconv_status Released::end(gconv_status status) {
  PyEval_RestoreThread(state_);
  state_ = nullptr;
  gconv_control_use(before_);
  if (!raised_ && status == GCONV_OK && told_ && !tell_watcher(told_, 1))
    keep_raised();
  if (!raised_)
    return status;
  PyErr_SetObject((PyObject *)Py_TYPE(raised_), raised_);
  Py_CLEAR(raised_);
  return GCONV_STOPPED;
}

void raise(gconv_status status, const char *text) {
  if (status == GCONV_STOPPED && PyErr_Occurred())
    throw nb::python_error();
  nb::object message = nb::steal(PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape"));
  nb::object error = nb::module_::import_("gconv._errors").attr(maker_of(status))(message);
  PyErr_SetObject((PyObject *)Py_TYPE(error.ptr()), error.ptr());
  throw nb::python_error();
}

void refuse(const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  raise(GCONV_BAD_ARGUMENT, text);
}

} // namespace gconv_python
