/* SPDX-License-Identifier: MIT */
/* Support vector machines. */
#include "learning.hpp"

namespace gconv_python {

struct MachineOptions : gconv_svm_options {
  ClassWeights of_classes;
  nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> of_cases;

  explicit MachineOptions(const nb::dict &given) : gconv_svm_options{}, of_classes(given) {
    bool shrinking = true;
    take(given, "type", type, "kernel", kernel, "scaling", scaling, "degree", degree, "gamma", gamma, "coef0", coef0, "cost",
         cost, "tube", tube, "tolerance", tolerance, "cache", cache_bytes, "shrinking", shrinking, "probabilities",
         probabilities, "seed", seed, "max_iter", most_steps);
    no_shrinking = !shrinking;
    weights = of_classes.all.data();
    weight_count = of_classes.all.size();
    of_cases = value_of(given, "case_weights", of_cases);
    case_weights = of_cases.is_valid() ? of_cases.data() : nullptr;
    case_weight_count = of_cases.is_valid() ? of_cases.size() : 0;
  }
};

static Machine *train(const nb::dict &given, const Dataset &data) {
  const MachineOptions options(given);
  gconv_device *device = device_named(value_of(given, "device", std::string("cpu")));
  auto made = std::make_unique<Machine>();
  call([&] { return gconv_svm_train(&options, data.whole.it, device, &made->it); });
  return made.release();
}

static nb::dict validate(const nb::dict &given, const Dataset &data) {
  const MachineOptions options(given);
  const size_t folds = value_of(given, "folds", (size_t)0);
  gconv_device *device = device_named(value_of(given, "device", std::string("cpu")));
  gconv_svm_validation found = {};
  call([&] { return gconv_svm_validate(&options, data.whole.it, folds, device, &found); });
  return dict_of("cases", found.cases, "right", found.right, "accuracy", found.accuracy, "mse", found.mse, "correlation",
                 found.correlation);
}

static Machine *load(nb::handle given) {
  const std::string path = path_of(given);
  auto made = std::make_unique<Machine>();
  call([&] { return gconv_svm_read(path.c_str(), &made->it); });
  return made.release();
}

static void save(const Machine &machine, nb::handle given) {
  const std::string path = path_of(given);
  call([&] { return gconv_svm_write(path.c_str(), machine.it); });
}

static nb::dict info_of(const Machine &machine) {
  const gconv_svm_info *info = gconv_svm_get_info(machine.it);
  nb::dict result = dict_of("classes", names_of(info->classes, info->class_count), "columns", info->columns, "vectors",
                            info->vector_count, "probabilities", info->probabilities);
  put_notes(*info->notes, result);
  put(result, "features", info->features);
  return result;
}

/* Returns the case of each support vector, how many each class has, coefficients, rho and steps, of a trained model. */
static nb::tuple parts(const Machine &machine) {
  const gconv_svm_info *info = gconv_svm_get_info(machine.it);
  const size_t count = info->vector_count, rows = info->class_count ? info->class_count - 1 : 1;
  const size_t pairs = info->class_count ? info->pair_count : 1;
  if (!info->support)
    refuse("the model was read from a file, which does not tell the cases of its support vectors");
  return nb::make_tuple(
      numpy_of(std::vector<int64_t>(info->support, info->support + count), {count}),
      numpy_of(std::vector<int64_t>(info->class_vectors, info->class_vectors + info->class_count), {info->class_count}),
      numpy_of(std::vector<double>(info->coefficients, info->coefficients + rows * count), {rows, count}),
      numpy_of(std::vector<double>(info->rho, info->rho + pairs), {pairs}),
      numpy_of(std::vector<int64_t>(info->steps, info->steps + pairs), {pairs}));
}

/* Returns (numbers of classes or None, values, probabilities or None). */
static nb::tuple predict(const Machine &machine, nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu> rows,
                         const std::string &device_name) {
  const gconv_svm_info *info = gconv_svm_get_info(machine.it);
  const size_t count = rows.shape(0), pairs = info->class_count ? info->pair_count : 1;
  if (rows.shape(1) != info->columns)
    refuse("a row has %zu numbers, and the model takes %zu", rows.shape(1), info->columns);
  gconv_device *device = device_named(device_name);
  std::vector<int32_t> classes(info->class_count ? count : 0);
  std::vector<double> values(count * pairs), likely(info->probabilities ? count * info->class_count : 0);
  gconv_svm_results results = {};
  results.classes = classes.empty() ? nullptr : classes.data();
  results.values = values.data();
  results.probabilities = likely.empty() ? nullptr : likely.data();
  call([&] { return gconv_svm_predict(machine.it, device, rows.data(), count, &results); });
  return nb::make_tuple(classes.empty() ? nb::none() : numpy_of(std::move(classes), {count}),
                        numpy_of(std::move(values), {count, pairs}),
                        likely.empty() ? nb::none() : numpy_of(std::move(likely), {count, info->class_count}));
}

static nb::list class_values(const Machine &machine) {
  const gconv_svm_info *info = gconv_svm_get_info(machine.it);
  return values_of_classes(info->classes, info->class_count);
}

gconv_operation *model_operation(nb::handle model, const std::string &present, const gconv_format_info *format,
                                 const nb::dict &given) {
  if (nb::isinstance<Network>(model))
    return network_operation(nb::cast<const Network &>(model), present, format, given);
  const Machine &machine = nb::cast<const Machine &>(model);
  const gconv_svm_info *info = gconv_svm_get_info(machine.it);
  Presentation how(present, info->classes, info->class_count, format);
  how.gray = value_of(given, "gray", false);
  gconv_operation *operation = nullptr;
  check(gconv_operation_svm(machine.it, &how, &operation));
  return operation;
}

/* Makes an operation that keeps the model alive. Features of pixels, and pictures, are computed on the host only. */
static Operation *operation_of(nb::object model, const std::string &present, const nb::dict &given) {
  gconv_operation *operation = model_operation(model, present, nullptr, given);
  const bool on_host = !nb::isinstance<Network>(model) || present == "image" || nb::cast<const Network &>(model).features;
  return new Operation(operation, model, on_host);
}

void add_machines(nb::module_ &module) {
  nb::class_<Machine>(module, "Machine")
      .def("info", &info_of)
      .def("save", &save, nb::arg("path"))
      .def("parts", &parts)
      .def("predict", &predict, nb::arg("rows"), nb::arg("device"))
      .def("class_values", &class_values);
  module.def("svm_train", &train, nb::arg("options"), nb::arg("dataset"));
  module.def("svm_validate", &validate, nb::arg("options"), nb::arg("dataset"));
  module.def(
      "svm_is_one", [](nb::handle path) { return gconv_svm_is_one(path_of(path).c_str()); }, nb::arg("path"));
  module.def("svm_load", &load, nb::arg("path"));
  module.def("model_operation", &operation_of, nb::arg("model"), nb::arg("present"), nb::arg("options"));
}

} // namespace gconv_python
