/* SPDX-License-Identifier: MIT */
/* A network that Python holds. */
#ifndef GCONV_PYTHON_NETWORK_HPP
#define GCONV_PYTHON_NETWORK_HPP

#include "operation.hpp"

namespace gconv_python {

struct Network {
  gconv_network network = {};
  Network() = default;
  Network(const Network &) = delete;
  Network &operator=(const Network &) = delete;
  ~Network() {
    gconv_network_free(&network);
  }
};

/* What becomes of images: the outputs as they are, maps of classes, or images like the inputs. */
enum class Present { tensor = GCONV_PRESENT_TENSOR, image = GCONV_PRESENT_IMAGE, classes = GCONV_PRESENT_CLASSES };

/* The operation of a network. Raises if it cannot be made. */
gconv_operation *network_operation(const gconv_network &network, Present present, const gconv_format_info *format,
                                   const nb::dict &given);

} // namespace gconv_python
#endif
