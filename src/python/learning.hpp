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

/* Weights of classes, of a dict. The names live as long as the array that points to them. */
struct ClassWeights {
  std::vector<std::string> names;
  std::vector<gconv_class_weight> all;

  explicit ClassWeights(const nb::dict &given) {
    const nb::dict weights = value_of(given, "weights", nb::dict());
    for (auto [name, weight] : weights) {
      double number = 0;
      if (!nb::try_cast(weight, number))
        refuse_value("weights", weight);
      names.push_back(text_of("weights", name));
      all.push_back(gconv_class_weight{nullptr, number});
    }
    for (size_t i = 0; i < all.size(); i++)
      all[i].class_name = names[i].c_str();
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
