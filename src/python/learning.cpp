/* SPDX-License-Identifier: MIT */
/* Learning: filters that are fitted to pairs of images, networks that are trained, support vector machines. */
#include "network.hpp"

#include <cstring>

namespace gconv_python {

/* ---- Fitting a filter ---- */

/* One of two images: an array, or the path of a file. */
struct Compared {
  Samples samples;
  gconv_image image = {};
  std::string path;
  gconv_compared compared = {};

  Compared(nb::handle given, const char *what) {
    if (nb::isinstance<nb::str>(given)) {
      path = nb::cast<std::string>(given);
      compared.path = path.c_str();
      return;
    }
    gconv_array array;
    if (!see(given, what, false, &samples) || samples.device >= 0 ||
        !lay_out(samples, read_axes(nb::none(), samples.dimensions), nullptr, &array, &image))
      refuse("%s must be an array of NumPy with contiguous rows, or a path", what);
    compared.image = &image;
  }
};

static nb::dict quality_of(const gconv_fit_quality &quality) {
  nb::dict result;
  result["r2"] = quality.r2;
  result["residual"] = quality.residual;
  result["samples"] = quality.samples;
  result["clipped"] = quality.clipped;
  return result;
}

/* `pairs`: (before, after) each. (filter, taps in float64, a dict of the rest) */
static nb::tuple fit(const nb::list &pairs, int32_t rows, int32_t columns, bool bias, double ridge, double held,
                     nb::object border, double border_value) {
  struct Fit : gconv_fit {
    gconv_fit_result result = {};
    Fit() : gconv_fit{} {}
    ~Fit() {
      gconv_fit_free(this);
      gconv_filters_free(&result.filters);
      free(result.taps);
    }
  } all;
  all.rows = rows;
  all.columns = columns;
  all.bias = bias;
  all.ridge = ridge;
  all.whole = !border.is_none();
  all.border = border.is_none() ? GCONV_BORDER_ZERO : (gconv_border)nb::cast<int>(border);
  all.border_value = border_value;
  gconv_device *device = device_named("cpu");
  for (nb::handle pair : pairs) {
    Compared before(pair[0], "before"), after(pair[1], "after");
    gconv_status status;
    {
      nb::gil_scoped_release released;
      status = gconv_fit_add(&all, device, &before.compared, &after.compared, held);
    }
    check(status);
  }
  check(gconv_fit_solve(&all, device, &all.result));
  const gconv_fit_result &result = all.result;
  const size_t count = (size_t)rows * (size_t)columns;
  auto *taps = new std::vector<double>(result.taps, result.taps + count);
  nb::capsule owner(taps, [](void *memory) noexcept { delete (std::vector<double> *)memory; });
  nb::dict rest;
  rest["bias"] = result.bias;
  rest["fitted"] = quality_of(result.fitted);
  rest["held"] = quality_of(result.held);
  rest["condition"] = result.condition;
  rest["nonlinear"] = result.nonlinear;
  rest["shift"] = result.shifted ? nb::object(nb::make_tuple(result.shift_y, result.shift_x)) : nb::none();
  rest["cut"] = result.cut;
  return nb::make_tuple(filter_to_python(result.filters.items[0]),
                        nb::ndarray<nb::numpy, double>(taps->data(), {(size_t)rows, (size_t)columns}, owner).cast(), rest);
}

/* ---- Data sets ---- */

struct Dataset {
  gconv_dataset *whole = nullptr, *first = nullptr, *second = nullptr; /* parts, once it is split */
  ~Dataset() {
    gconv_dataset_free(second);
    gconv_dataset_free(first);
    gconv_dataset_free(whole);
  }
};

/* The texts of a dict, which must live as long as the options that point to them. */
struct DatasetOptions {
  std::vector<std::unique_ptr<std::string>> texts;
  std::vector<const char *> classes;
  gconv_dataset_options options = {};

  const char *text(const nb::dict &given, const char *name) {
    if (!given.contains(name))
      return nullptr;
    texts.push_back(std::make_unique<std::string>(nb::cast<std::string>(given[name])));
    return texts.back()->c_str();
  }
  explicit DatasetOptions(const nb::dict &given) {
    options.kind = (gconv_dataset_kind)value_of(given, "kind", 0);
    options.inputs = text(given, "inputs");
    options.targets = text(given, "targets");
    options.syntax = text(given, "syntax");
    options.label = text(given, "label");
    options.missing = text(given, "missing");
    options.features = text(given, "features");
    options.regression = value_of(given, "regression", false);
    options.unlabelled = value_of(given, "unlabelled", false);
    options.window = value_of(given, "window", 0);
    options.hop = value_of(given, "hop", 0);
    options.patch = value_of(given, "patch", 0);
    options.augment = value_of(given, "augment", false);
    options.gray = value_of(given, "gray", false);
    options.seed = value_of(given, "seed", (uint64_t)0);
    options.memory = value_of(given, "memory", (uint64_t)0);
    options.most_cases = value_of(given, "most_cases", (size_t)0);
  }
};

static Dataset *open_dataset(const nb::dict &given) {
  DatasetOptions options(given);
  auto made = std::make_unique<Dataset>();
  gconv_status status;
  {
    nb::gil_scoped_release released;
    status = gconv_dataset_open(&options.options, &made->whole);
  }
  check(status);
  return made.release();
}

static nb::dict dataset_info(const Dataset &dataset) {
  const gconv_dataset_info *info = gconv_dataset_get_info(dataset.whole);
  nb::dict result;
  nb::list classes;
  for (size_t i = 0; i < info->class_count; i++)
    classes.append(nb::str(info->classes[i]));
  result["cases"] = info->cases;
  result["shape"] = nb::make_tuple(info->channels, info->height, info->width);
  result["outputs"] = info->outputs;
  result["classes"] = nb::tuple(classes);
  return result;
}

/* ---- Training ---- */

static nb::dict epoch_of(const gconv_epoch &epoch) {
  nb::dict result;
  result["number"] = epoch.number;
  result["loss"] = epoch.loss;
  result["accuracy"] = epoch.accuracy;
  result["validation_loss"] = epoch.validation_loss;
  result["validation_accuracy"] = epoch.validation_accuracy;
  result["best"] = epoch.best;
  result["ended"] = epoch.ended ? nb::object(nb::str(epoch.ended)) : nb::none();
  return result;
}

/* Trains until it ends. `report` gets a dict for each epoch. A signal, or what report raises, ends it, too. */
static Network *train(const Network &network, Dataset &dataset, const nb::dict &given, double validation,
                      nb::object report) {
  struct Trainer {
    gconv_trainer *trainer = nullptr;
    ~Trainer() {
      gconv_trainer_free(trainer);
    }
  } held;
  gconv_training_options options = {};
  options.loss = (gconv_loss)value_of(given, "loss", 0);
  options.optimizer = (gconv_optimizer)value_of(given, "optimizer", 0);
  options.schedule = (gconv_schedule)value_of(given, "schedule", 0);
  options.rate = value_of(given, "rate", 0.0);
  options.momentum = value_of(given, "momentum", 0.0);
  options.weight_decay = value_of(given, "weight_decay", 0.0);
  options.batch = value_of(given, "batch", (size_t)0);
  options.epochs = value_of(given, "epochs", (size_t)0);
  options.patience = value_of(given, "patience", (size_t)0);
  options.stop_error = value_of(given, "stop_error", 0.0);
  options.seed = value_of(given, "seed", (uint64_t)0);
  const std::string algorithm = value_of(given, "algorithm", std::string("auto"));
  options.algorithm = algorithm.c_str();
  gconv_device *device = device_named(value_of(given, "device", std::string("cpu")));
  if (validation > 0 && !dataset.first)
    check(gconv_dataset_split(dataset.whole, validation, options.seed, &dataset.first, &dataset.second));
  check(gconv_trainer_create(device, &network.network, &options, validation > 0 ? dataset.first : dataset.whole,
                             validation > 0 ? dataset.second : nullptr, nullptr, &held.trainer));
  for (;;) {
    gconv_epoch epoch = {};
    gconv_status status;
    {
      nb::gil_scoped_release released;
      status = gconv_trainer_epoch(held.trainer, &epoch);
    }
    check(status);
    if (PyErr_CheckSignals())
      throw nb::python_error();
    if (!report.is_none())
      report(epoch_of(epoch));
    if (epoch.ended)
      break;
  }
  auto trained = std::make_unique<Network>();
  check(gconv_trainer_network(held.trainer, false, &trained->network));
  return trained.release();
}

/* ---- Support vector machines ---- */

struct Svm {
  gconv_svm *model = nullptr;
  Svm() = default;
  Svm(const Svm &) = delete;
  Svm &operator=(const Svm &) = delete;
  ~Svm() {
    gconv_svm_free(model);
  }
};

static gconv_svm_options svm_options(const nb::dict &given) {
  gconv_svm_options options = {};
  options.type = (gconv_svm_type)value_of(given, "type", 0);
  options.kernel = (gconv_svm_kernel)value_of(given, "kernel", 0);
  options.scaling = (gconv_svm_scaling)value_of(given, "scaling", 0);
  options.degree = value_of(given, "degree", 0);
  options.gamma = value_of(given, "gamma", 0.0);
  options.coef0 = value_of(given, "coef0", 0.0);
  options.cost = value_of(given, "cost", 0.0);
  options.tube = value_of(given, "tube", 0.0);
  options.tolerance = value_of(given, "tolerance", 0.0);
  options.probabilities = value_of(given, "probabilities", false);
  options.seed = value_of(given, "seed", (uint64_t)0);
  return options;
}

static Svm *svm_train(const nb::dict &given, const Dataset &data) {
  const gconv_svm_options options = svm_options(given);
  gconv_device *device = device_named(value_of(given, "device", std::string("cpu")));
  auto made = std::make_unique<Svm>();
  gconv_status status;
  {
    nb::gil_scoped_release released;
    status = gconv_svm_train(&options, data.whole, device, &made->model);
  }
  check(status);
  return made.release();
}

static nb::dict svm_validate(const nb::dict &given, const Dataset &data, size_t folds) {
  const gconv_svm_options options = svm_options(given);
  gconv_device *device = device_named(value_of(given, "device", std::string("cpu")));
  gconv_svm_validation found = {};
  gconv_status status;
  {
    nb::gil_scoped_release released;
    status = gconv_svm_validate(&options, data.whole, folds, device, &found);
  }
  check(status);
  nb::dict result;
  result["cases"] = found.cases;
  result["right"] = found.right;
  result["accuracy"] = found.accuracy;
  result["mse"] = found.mse;
  result["correlation"] = found.correlation;
  return result;
}

static Svm *svm_load(const std::string &path) {
  auto made = std::make_unique<Svm>();
  check(gconv_svm_read(path.c_str(), &made->model));
  return made.release();
}

static nb::dict svm_info(const Svm &svm) {
  const gconv_svm_info *info = gconv_svm_get_info(svm.model);
  nb::dict result;
  nb::list classes;
  for (size_t i = 0; i < info->class_count; i++)
    classes.append(nb::str(info->classes[i]));
  result["classes"] = nb::tuple(classes);
  result["columns"] = info->columns;
  result["vectors"] = info->vector_count;
  result["pairs"] = info->pair_count;
  result["probabilities"] = info->probabilities;
  result["gamma"] = info->gamma;
  result["features"] = info->features ? nb::object(nb::str(info->features)) : nb::none();
  return result;
}

template <typename T> static nb::object numbers(std::vector<T> *values, size_t rows, size_t columns) {
  nb::capsule owner(values, [](void *memory) noexcept { delete (std::vector<T> *)memory; });
  if (columns == 0)
    return nb::ndarray<nb::numpy, T>(values->data(), {rows}, owner).cast();
  return nb::ndarray<nb::numpy, T>(values->data(), {rows, columns}, owner).cast();
}

/* (numbers of classes or None, values, probabilities or None) */
static nb::tuple svm_predict(const Svm &svm, nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu> rows,
                             const std::string &device_name) {
  const gconv_svm_info *info = gconv_svm_get_info(svm.model);
  const size_t count = rows.shape(0), pairs = info->class_count ? info->pair_count : 1;
  if (rows.shape(1) != info->columns)
    refuse("a row has %zu numbers, and the model takes %zu", rows.shape(1), info->columns);
  gconv_device *device = device_named(device_name);
  auto classes = std::make_unique<std::vector<int32_t>>(info->class_count ? count : 0);
  auto values = std::make_unique<std::vector<double>>(count * pairs);
  auto likely = std::make_unique<std::vector<double>>(info->probabilities ? count * info->class_count : 0);
  gconv_status status;
  {
    nb::gil_scoped_release released;
    status = gconv_svm_predict(svm.model, device, rows.data(), count, classes->empty() ? nullptr : classes->data(),
                               values->data(), likely->empty() ? nullptr : likely->data());
  }
  check(status);
  const bool has_classes = !classes->empty(), has_likely = !likely->empty();
  return nb::make_tuple(has_classes ? numbers(classes.release(), count, 0) : nb::none(),
                        numbers(values.release(), count, pairs),
                        has_likely ? numbers(likely.release(), count, info->class_count) : nb::none());
}

void add_learning(nb::module_ &module) {
  module.def("fit", &fit, nb::arg("pairs"), nb::arg("rows"), nb::arg("columns"), nb::arg("bias"), nb::arg("ridge"),
             nb::arg("held"), nb::arg("border").none(), nb::arg("border_value"));
  nb::class_<Dataset>(module, "Dataset").def("info", &dataset_info);
  module.def("open_dataset", &open_dataset, nb::arg("options"));
  module.def("train", &train, nb::arg("network"), nb::arg("dataset"), nb::arg("options"), nb::arg("validation"),
             nb::arg("report").none());
  nb::class_<Svm>(module, "Svm")
      .def("info", &svm_info)
      .def("save", [](const Svm &svm, const std::string &path) { check(gconv_svm_write(path.c_str(), svm.model)); })
      .def("predict", &svm_predict, nb::arg("rows"), nb::arg("device"));
  module.def("svm_train", &svm_train, nb::arg("options"), nb::arg("dataset"));
  module.def("svm_validate", &svm_validate, nb::arg("options"), nb::arg("dataset"), nb::arg("folds"));
  module.def("svm_load", &svm_load, nb::arg("path"));
  module.def("features", [](const std::string &text) {
    char *list = nullptr;
    int32_t count = 0;
    check(gconv_features_resolve(text.c_str(), &list, &count));
    nb::tuple result = nb::make_tuple(nb::str(list), count);
    free(list);
    return result;
  });
}

} // namespace gconv_python
