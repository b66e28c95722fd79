/* SPDX-License-Identifier: MIT */
/* A status of the library becomes an exception of gconv._errors, with the library's own text. */
#include "core.hpp"

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

void raise(gconv_status status, const char *text) {
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
