/* SPDX-License-Identifier: MIT */
/* Opens data sets, and trains networks on them. */
#include "learning.hpp"

#include <cstring>

namespace gconv_python {

/* ---- Data sets ---- */

/* Options from a dict, with the texts that they point to. */
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
    options.inputs = path(given, "inputs");
    options.targets = path(given, "targets");
    options.syntax = text(given, "syntax");
    options.label = text(given, "label");
    options.missing = text(given, "missing");
    options.features = text(given, "features");
    take(given, "kind", options.kind, "regression", options.regression, "classification", options.classification, "one_hot",
         options.one_hot, "window", options.window, "hop", options.hop, "patch", options.patch, "augment", options.augment,
         "gray", options.gray, "seed", options.seed, "memory", options.memory, "most_cases", options.most_cases);
    const std::string separator = value_of(given, "separator", std::string());
    if (separator.size() > 1)
      refuse("separator=\"%s\": it is one character", separator.c_str());
    options.separator = separator.empty() ? '\0' : separator[0];
    if (given.contains("classes"))
      for (nb::handle name : nb::cast<nb::tuple>(given["classes"]))
        classes.push_back(keep(text_of("classes", name)));
    options.classes = classes.empty() ? nullptr : classes.data();
    options.class_count = classes.size();
    options.like = given.contains("like") ? &nb::cast<const Network &>(given["like"]).notes : nullptr;
  }
};

static std::vector<gconv_image> images_of(const nb::list &arrays, const char *what, Cases *cases) {
  std::vector<gconv_image> images;
  for (nb::handle array : arrays) {
    cases->samples.push_back(std::make_unique<Samples>());
    images.push_back(image_of(array, what, cases->samples.back().get()));
  }
  return images;
}

/* Reads cases in arrays from a dict: "rows" (float32 or float64) and "names", or "images" and "wanted"; "labels" or
 * "numbers", which are float64. */
static std::unique_ptr<Cases> cases_of(const nb::dict &given) {
  auto made = std::make_unique<Cases>();
  gconv_dataset_cases &all = made->all;
  const nb::list labels = value_of(given, "labels", nb::list()), names = value_of(given, "names", nb::list());
  made->texts.reserve(nb::len(labels) + nb::len(names)); /* labels and names point into the texts, which must not move */
  const auto keep = [&](const nb::list &given_texts, const char *what, std::vector<const char *> *list) {
    for (nb::handle text : given_texts) {
      const nb::bytes bytes(text.attr("encode")("utf-8", "surrogateescape")); /* names that were bytes may not be UTF-8 */
      if (strlen(bytes.c_str()) != bytes.size())
        refuse_value(what, text);
      list->push_back(made->texts.emplace_back(bytes.c_str()).c_str());
    }
    return list->empty() ? nullptr : list->data();
  };
  all.labels = keep(labels, "labels", &made->labels);
  all.names = keep(names, "names", &made->names);
  if (given.contains("rows")) {
    made->rows = nb::cast<decltype(made->rows)>(given["rows"]);
    all.count = made->rows.shape(0);
    all.columns = made->rows.shape(1);
    (made->rows.dtype() == nb::dtype<float>() ? (const void *&)all.rows : (const void *&)all.wide_rows) = made->rows.data();
  } else {
    made->images = images_of(value_of(given, "images", nb::list()), "an image", made.get());
    made->wanted = images_of(value_of(given, "wanted", nb::list()), "a target", made.get());
    all.count = made->images.size();
    all.images = made->images.data();
    all.wanted = made->wanted.empty() ? nullptr : made->wanted.data();
  }
  if (given.contains("numbers")) {
    made->numbers = nb::cast<decltype(made->numbers)>(given["numbers"]);
    all.targets = (const double *)made->numbers.data();
    all.outputs = made->numbers.ndim() > 1 ? made->numbers.shape(1) : 1;
  }
  return made;
}

static Dataset *open_dataset(const nb::dict &given) {
  DatasetOptions options(given);
  auto made = std::make_unique<Dataset>();
  if (given.contains("rows") || given.contains("images")) {
    made->cases = cases_of(given);
    options.options.cases = &made->cases->all;
  }
  call([&] { return gconv_dataset_open(&options.options, &made->whole.it); });
  return made.release();
}

static nb::dict dataset_info(const Dataset &dataset) {
  const gconv_dataset_info *info = gconv_dataset_get_info(dataset.whole.it);
  return dict_of("cases", info->cases, "shape", nb::make_tuple(info->channels, info->height, info->width), "outputs",
                 info->outputs, "classes", names_of(info->classes, info->class_count));
}

/* ---- Training ---- */

static nb::dict epoch_of(const gconv_epoch &epoch) {
  return dict_of("number", epoch.number, "loss", epoch.loss, "accuracy", epoch.accuracy, "validation_loss",
                 epoch.validation_loss, "validation_accuracy", epoch.validation_accuracy, "best", epoch.best, "diverged",
                 epoch.diverged, "ended", epoch.ended);
}

static gconv_training_options training_options(const nb::dict &given) {
  gconv_training_options options = {};
  take(given, "loss", options.loss, "optimizer", options.optimizer, "schedule", options.schedule, "rate", options.rate,
       "momentum", options.momentum, "weight_decay", options.weight_decay, "elimination", options.elimination, "batch",
       options.batch, "epochs", options.epochs, "patience", options.patience, "stop_error", options.stop_error, "seed",
       options.seed, "normalize", options.normalize, "math", options.math);
  return options;
}

/* Trains a network. `report` gets a dict for each epoch. A signal, or an exception of `report`, ends the training. */
static Network *train(const Network &network, Dataset &dataset, const nb::dict &given, double validation,
                      nb::object report) {
  Held<gconv_trainer, gconv_trainer_free> trainer;
  gconv_training_options options = training_options(given);
  const std::string algorithm = value_of(given, "algorithm", std::string("auto"));
  options.algorithm = algorithm.c_str();
  const ClassWeights weights(given);
  options.weights = weights.all.data();
  options.weight_count = weights.all.size();
  gconv_device *device = device_named(value_of(given, "device", std::string("cpu")));
  if (validation != 0)
    call([&] {
      return gconv_dataset_split(dataset.whole.it, validation, options.seed, &dataset.first.it, &dataset.second.it);
    });
  call([&] {
    return gconv_trainer_create(device, &network, &options, dataset.first.it ? dataset.first.it : dataset.whole.it,
                                dataset.second.it, &trainer.it);
  });
  const double epochs = (double)(options.epochs > 0 ? options.epochs : (size_t)GCONV_DEFAULT_EPOCHS);
  for (gconv_epoch epoch = {}; !epoch.ended;) {
    const PartOfWork part((double)epoch.number / epochs, 1 / epochs);
    epoch = gconv_epoch{};
    call([&] { return gconv_trainer_epoch(trainer.it, &epoch); });
    if (PyErr_CheckSignals())
      throw nb::python_error();
    if (!report.is_none())
      report(epoch_of(epoch));
  }
  if (!tell_watcher("training", 1)) /* short epochs may not have reported progress */
    throw nb::python_error();
  auto trained = std::make_unique<Network>();
  check(gconv_trainer_network(trainer.it, false, trained.get()));
  return trained.release();
}

/* Returns the values of an enumeration by their names. */
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
