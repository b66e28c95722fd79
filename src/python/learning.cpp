/* SPDX-License-Identifier: MIT */
/* Learning: data sets, and networks that are trained on them. */
#include "learning.hpp"

namespace gconv_python {

/* ---- Data sets ---- */

/* The texts of a dict, which must live as long as the options that point to them. */
struct DatasetOptions {
  std::vector<std::unique_ptr<std::string>> texts;
  std::vector<const char *> classes;
  gconv_dataset_options options = {};

  const char *keep(std::string text) {
    texts.push_back(std::make_unique<std::string>(std::move(text)));
    return texts.back()->c_str();
  }
  const char *path(const nb::dict &given, const char *name) {
    return given.contains(name) ? keep(path_of(given[name])) : nullptr;
  }
  const char *text(const nb::dict &given, const char *name) {
    return given.contains(name) ? keep(text_of(name, given[name])) : nullptr;
  }
  explicit DatasetOptions(const nb::dict &given) {
    options.kind = (gconv_dataset_kind)value_of(given, "kind", 0);
    options.inputs = path(given, "inputs");
    options.targets = path(given, "targets");
    options.syntax = text(given, "syntax");
    options.label = text(given, "label");
    options.missing = text(given, "missing");
    options.features = text(given, "features");
    options.regression = value_of(given, "regression", false);
    options.classification = value_of(given, "classification", false);
    const std::string separator = value_of(given, "separator", std::string());
    if (separator.size() > 1)
      refuse("separator=\"%s\": it is one character", separator.c_str());
    options.separator = separator.empty() ? '\0' : separator[0];
    options.window = value_of(given, "window", 0);
    options.hop = value_of(given, "hop", 0);
    options.patch = value_of(given, "patch", 0);
    options.augment = value_of(given, "augment", false);
    options.gray = value_of(given, "gray", false);
    options.seed = value_of(given, "seed", (uint64_t)0);
    options.memory = value_of(given, "memory", (uint64_t)0);
    options.most_cases = value_of(given, "most_cases", (size_t)0);
    if (given.contains("classes"))
      for (nb::handle name : nb::cast<nb::tuple>(given["classes"]))
        classes.push_back(keep(text_of("classes", name)));
    options.classes = classes.empty() ? nullptr : classes.data();
    options.class_count = classes.size();
    options.like = given.contains("like") ? &nb::cast<const Network &>(given["like"]).network.notes : nullptr;
  }
};

static Dataset *open_dataset(const nb::dict &given) {
  DatasetOptions options(given);
  auto made = std::make_unique<Dataset>();
  call([&] { return gconv_dataset_open(&options.options, &made->whole); });
  return made.release();
}

static nb::dict dataset_info(const Dataset &dataset) {
  const gconv_dataset_info *info = gconv_dataset_get_info(dataset.whole);
  nb::dict result;
  result["cases"] = info->cases;
  result["shape"] = nb::make_tuple(info->channels, info->height, info->width);
  result["outputs"] = info->outputs;
  result["classes"] = names_of(info->classes, info->class_count);
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
  result["diverged"] = epoch.diverged;
  result["ended"] = epoch.ended ? nb::object(nb::str(epoch.ended)) : nb::none();
  return result;
}

static gconv_training_options training_options(const nb::dict &given) {
  gconv_training_options options = {};
  options.loss = (gconv_loss)value_of(given, "loss", 0);
  options.optimizer = (gconv_optimizer)value_of(given, "optimizer", 0);
  options.schedule = (gconv_schedule)value_of(given, "schedule", 0);
  options.rate = value_of(given, "rate", 0.0);
  options.momentum = value_of(given, "momentum", 0.0);
  options.weight_decay = value_of(given, "weight_decay", 0.0);
  options.elimination = value_of(given, "elimination", 0.0);
  options.batch = value_of(given, "batch", (size_t)0);
  options.epochs = value_of(given, "epochs", (size_t)0);
  options.patience = value_of(given, "patience", (size_t)0);
  options.stop_error = value_of(given, "stop_error", 0.0);
  options.seed = value_of(given, "seed", (uint64_t)0);
  options.normalize = value_of(given, "normalize", false);
  options.math = (gconv_math)value_of(given, "math", (int)GCONV_MATH_FP32);
  return options;
}

struct Trainer {
  gconv_trainer *trainer = nullptr;
  Trainer() = default;
  Trainer(const Trainer &) = delete;
  Trainer &operator=(const Trainer &) = delete;
  ~Trainer() {
    gconv_trainer_free(trainer);
  }
};

/* Trains until it ends. `report` gets a dict for each epoch. A signal, or what report raises, ends it, too. */
static Network *train(const Network &network, Dataset &dataset, const nb::dict &given, double validation,
                      nb::object report) {
  Trainer held;
  gconv_training_options options = training_options(given);
  const std::string algorithm = value_of(given, "algorithm", std::string("auto"));
  options.algorithm = algorithm.c_str();
  const ClassWeights weights(given);
  options.weights = weights.all.data();
  options.weight_count = weights.all.size();
  gconv_device *device = device_named(value_of(given, "device", std::string("cpu")));
  if (validation != 0)
    call([&] { return gconv_dataset_split(dataset.whole, validation, options.seed, &dataset.first, &dataset.second); });
  call([&] {
    return gconv_trainer_create(device, &network.network, &options, dataset.first ? dataset.first : dataset.whole,
                                dataset.second, nullptr, &held.trainer);
  });
  for (gconv_epoch epoch = {}; !epoch.ended;) {
    epoch = gconv_epoch{};
    call([&] { return gconv_trainer_epoch(held.trainer, &epoch); });
    if (PyErr_CheckSignals())
      throw nb::python_error();
    if (!report.is_none())
      report(epoch_of(epoch));
  }
  auto trained = std::make_unique<Network>();
  check(gconv_trainer_network(held.trainer, false, &trained->network));
  return trained.release();
}

/* The values of an enumeration, by their names. */
static nb::dict values_of(std::initializer_list<std::pair<const char *, int>> rows) {
  nb::dict values;
  for (const auto &[name, value] : rows)
    values[name] = value;
  return values;
}

void add_learning(nb::module_ &module) {
#define ROW(name, value) {name, value},
  module.attr("LOSSES") = values_of({GCONV_EACH_LOSS(ROW)});
  module.attr("OPTIMIZERS") = values_of({GCONV_EACH_OPTIMIZER(ROW)});
  module.attr("SCHEDULES") = values_of({GCONV_EACH_SCHEDULE(ROW)});
#undef ROW
  nb::class_<Dataset>(module, "Dataset").def("info", &dataset_info);
  module.def("open_dataset", &open_dataset, nb::arg("options"));
  module.def("train", &train, nb::arg("network"), nb::arg("dataset"), nb::arg("options"), nb::arg("validation"),
             nb::arg("report").none());
}

} // namespace gconv_python
