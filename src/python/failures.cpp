/* SPDX-License-Identifier: MIT */
/* A status of the library becomes an exception of gconv._errors, with the library's own text. */
#include "core.hpp"

#include <chrono>
#include <cstdarg>
#include <cstdio>

namespace gconv_python {

/* Returns the name of what makes the exception of a text. */
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
  default:
    return "Error";
  }
}

static double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Released::Released() : looked_(seconds()) {
  control_.progress = look;
  control_.user = this;
  before_ = gconv_control_use(&control_);
  state_ = PyEval_SaveThread();
}

Released::~Released() {
  if (state_)
    end(GCONV_OK);
}

bool Released::look(const char *, double, void *user) {
  Released *self = (Released *)user;
  const double now = seconds();
  if (self->raised_)
    return false;
  if (now - self->looked_ < 0.05)
    return true;
  self->looked_ = now;
  PyEval_RestoreThread(self->state_);
  if (PyErr_CheckSignals()) {
    PyObject *type, *trace;
    PyErr_Fetch(&type, &self->raised_, &trace);
    PyErr_NormalizeException(&type, &self->raised_, &trace);
    if (trace)
      PyException_SetTraceback(self->raised_, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
  }
  self->state_ = PyEval_SaveThread();
  return !self->raised_;
}

gconv_status Released::end(gconv_status status) {
  PyEval_RestoreThread(state_);
  state_ = nullptr;
  gconv_control_use(before_);
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
