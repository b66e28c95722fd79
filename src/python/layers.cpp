/* SPDX-License-Identifier: MIT */
/* Makes layers whose weights are arrays of the caller. */
#include "operation.hpp"

#include <cstring>

namespace gconv_python {

using Weights = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Biases = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/* A bank that owns a copy of the weights. */
struct Bank : gconv_bank {
  std::vector<float> numbers, constants;

  Bank(const Weights &given, const nb::object &bias) : gconv_bank{} {
    static char no_name[] = "";
    name = no_name;
    filters = (int32_t)given.shape(0);
    channels = (int32_t)given.shape(1);
    rows = (int32_t)given.shape(2);
    columns = (int32_t)given.shape(3);
    numbers.assign(given.data(), given.data() + given.size());
    weights = numbers.data();
    if (bias.is_none())
      return;
    Biases b = nb::cast<Biases>(bias);
    if (b.size() != given.shape(0))
      refuse("bias has %zu numbers, and weight has %zu filters", b.size(), given.shape(0));
    constants.assign(b.data(), b.data() + b.size());
    biases = constants.data();
  }
};

static bool same_numbers(const std::vector<float> &a, const float *b, size_t count) {
  return a.size() == count && memcmp(a.data(), b, count * sizeof *b) == 0;
}

class Layer : public Operation {
public:
  Layer(gconv_operation *operation, std::unique_ptr<Bank> bank)
      : Operation(operation, nb::none(), false), bank_(std::move(bank)) {}

  /* Returns whether the layer's weights and biases have the same bits as these. The caller has compared the shapes. */
  bool holds(Weights weights, nb::object bias) const {
    if (bias.is_none() != bank_->constants.empty() || !same_numbers(bank_->numbers, weights.data(), weights.size()))
      return false;
    if (bias.is_none())
      return true;
    Biases biases = nb::cast<Biases>(bias);
    return same_numbers(bank_->constants, biases.data(), biases.size());
  }

private:
  std::unique_ptr<Bank> bank_; /* must outlive the operation */
};

static Layer *make_layer(Weights weights, nb::object bias, const nb::dict &given) {
  auto bank = std::make_unique<Bank>(weights, bias);
  gconv_layer one = {};
  one.bank = bank.get();
  one.padding = GCONV_LAYER_EXPLICIT;
  one.groups = 1;
  take_geometry(given, one);
  take(given, "groups", one.groups, "activation", one.activation, "slope", one.slope);
  const std::string algorithm = value_of(given, "algorithm", std::string("auto"));
  gconv_network_options options = {};
  take(given, "math", options.math);
  options.algorithm = algorithm.c_str();
  gconv_operation *operation = nullptr;
  check(gconv_operation_network(&one, 1, &options, &operation));
  return new Layer(operation, std::move(bank));
}

void add_layers(nb::module_ &module) {
  nb::class_<Layer, Operation>(module, "Layer").def("holds", &Layer::holds, nb::arg("weights"), nb::arg("bias").none());
  module.def("layer", &make_layer, nb::arg("weights"), nb::arg("bias").none(), nb::arg("options"));
}

} // namespace gconv_python
