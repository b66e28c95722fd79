/* SPDX-License-Identifier: MIT */
/* Cases, and models that are trained on them. */
#ifndef GCONV_PYTHON_LEARNING_HPP
#define GCONV_PYTHON_LEARNING_HPP

#include "network.hpp"

namespace gconv_python {

struct Dataset {
  gconv_dataset *whole = nullptr, *first = nullptr, *second = nullptr; /* parts, once it is split */
  Dataset() = default;
  Dataset(const Dataset &) = delete;
  Dataset &operator=(const Dataset &) = delete;
  ~Dataset() {
    gconv_dataset_free(second);
    gconv_dataset_free(first);
    gconv_dataset_free(whole);
  }
};

/* A support vector machine. */
struct Machine {
  gconv_svm *model = nullptr;
  Machine() = default;
  Machine(const Machine &) = delete;
  Machine &operator=(const Machine &) = delete;
  ~Machine() {
    gconv_svm_free(model);
  }
};

/* The operation of a network or a machine. Raises if it cannot be made. */
gconv_operation *model_operation(nb::handle model, const std::string &present, const gconv_format_info *format,
                                 const nb::dict &given);

} // namespace gconv_python
#endif
