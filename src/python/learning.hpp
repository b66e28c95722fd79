/* SPDX-License-Identifier: MIT */
/* Data sets, and models that are trained on them. */
#ifndef GCONV_PYTHON_LEARNING_HPP
#define GCONV_PYTHON_LEARNING_HPP

#include "network.hpp"

namespace gconv_python {

/* Cases in a caller's arrays, which stay alive as long as this struct. */
struct Cases {
  std::vector<std::unique_ptr<Samples>> samples;
  std::vector<gconv_image> images, wanted;
  std::vector<std::string> texts; /* of labels and names */
  std::vector<const char *> labels, names;
  nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> rows, numbers;
  gconv_dataset_cases all = {};
};

struct Dataset {
  std::unique_ptr<Cases> cases;                                 /* cases in arrays; must be freed after the data sets */
  Held<gconv_dataset, gconv_dataset_free> whole, first, second; /* first, second: the parts, if the set was split */
};

/* Weights of classes, from a dict. The names live as long as the array that points to them. */
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
using Machine = Held<gconv_svm, gconv_svm_free>;

/* Makes the operation of a network or a support vector machine. Raises if that fails. */
gconv_operation *model_operation(nb::handle model, const std::string &present, const gconv_format_info *format,
                                 const nb::dict &given);

} // namespace gconv_python
#endif
