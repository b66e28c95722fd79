/* SPDX-License-Identifier: MIT */
/* A network that Python holds, and what becomes of the outputs of networks and models. */
#ifndef GCONV_PYTHON_NETWORK_HPP
#define GCONV_PYTHON_NETWORK_HPP

#include "operation.hpp"

namespace gconv_python {

using Network = Owned<gconv_network, gconv_network_free>;

/* What becomes of outputs: "tensor", as they are; "image", images like the inputs; "classes", maps of the classes that have
 * these names. */
struct Presentation : gconv_network_options {
  std::vector<uint16_t> values; /* of the classes, in maps */

  Presentation(const std::string &present, const char *const *classes, size_t class_count, const gconv_format_info *format);
};

/* The operation of a network. Raises if it cannot be made. */
gconv_operation *network_operation(const gconv_network &network, const std::string &present, const gconv_format_info *format,
                                   const nb::dict &given);

/* What a model keeps of its columns: names, means, origins, in a dict; None where it keeps none. */
void put_notes(const gconv_column_notes &notes, nb::dict &info);

/* The number that each class has in maps. */
nb::list values_of_classes(const char *const *classes, size_t count);

} // namespace gconv_python
#endif
