/* SPDX-License-Identifier: MIT */
/* A network that Python owns, and the form of the outputs of networks and support vector machines. */
#ifndef GCONV_PYTHON_NETWORK_HPP
#define GCONV_PYTHON_NETWORK_HPP

#include "operation.hpp"

namespace gconv_python {

using Network = Owned<gconv_network, gconv_network_free>;

/* The form of outputs: "tensor", as they are; "image", images like the inputs; "classes", maps of the named classes. */
struct Presentation : gconv_network_options {
  std::vector<uint16_t> values; /* the number of each class in maps */

  Presentation(const std::string &present, const char *const *classes, size_t class_count, const gconv_format_info *format);
};

/* Makes the operation of a network. Raises if that fails. */
gconv_operation *network_operation(const gconv_network &network, const std::string &present, const gconv_format_info *format,
                                   const nb::dict &given);

/* Puts a model's notes about columns into a dict: names, means, origins; None for those that it lacks. */
void put_notes(const gconv_column_notes &notes, nb::dict &info);

/* Returns the number of each class in maps. */
nb::list values_of_classes(const char *const *classes, size_t count);

} // namespace gconv_python
#endif
