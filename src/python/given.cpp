/* SPDX-License-Identifier: MIT */
/* Reads arguments of callers: paths, texts, numbers. */
#include "core.hpp"

#include <cstring>

namespace gconv_python {

void refuse_value(const char *name, nb::handle value) {
  refuse("%s=%s: it has a type that is not taken, or is too large, too small or no text", name,
         nb::cast<std::string>(nb::repr(value)).c_str());
}

std::string path_of(nb::handle given) {
  PyObject *bytes = nullptr;
  if (PyUnicode_FSConverter(given.ptr(), &bytes)) {
    nb::object held = nb::steal(bytes);
    return std::string(PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes));
  }
  if (!PyErr_ExceptionMatches(PyExc_ValueError))
    throw nb::python_error();
  PyErr_Clear(); /* a zero byte, which would end a name in C, or a character that the file system's encoding lacks */
  refuse("%s is no path: it has a character that names of files cannot have",
         nb::cast<std::string>(nb::repr(given)).c_str());
}

std::string text_of(const char *name, nb::handle value) {
  std::string text;
  if (!nb::try_cast(value, text))
    refuse_value(name, value);
  return text;
}

nb::tuple names_of(const char *const *names, size_t count) {
  nb::list list;
  for (size_t i = 0; i < count; i++)
    list.append(nb::steal(PyUnicode_DecodeUTF8(names[i], (Py_ssize_t)strlen(names[i]), "surrogateescape")));
  return nb::tuple(list);
}

const char *type_name(gconv_type type) {
  static const char *const names[] = {"uint8", "uint16", "float32", "int16"}; /* by gconv_type */
  return names[type];
}

} // namespace gconv_python
