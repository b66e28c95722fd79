/* SPDX-License-Identifier: MIT */
/* An image argument of functions that read images by rows: an array, or the path of a file. */
#ifndef GCONV_PYTHON_COMPARED_HPP
#define GCONV_PYTHON_COMPARED_HPP

#include "core.hpp"

namespace gconv_python {

struct Compared {
  Samples samples;
  gconv_image image = {};
  std::string path;
  gconv_compared compared = {};

  Compared(nb::handle given, const char *what) {
    if (PyUnicode_Check(given.ptr()) || PyBytes_Check(given.ptr())) {
      path = path_of(given);
      compared.path = path.c_str();
      return;
    }
    image = image_of(given, what, &samples);
    compared.image = &image;
  }
};

} // namespace gconv_python
#endif
