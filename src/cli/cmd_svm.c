/* SPDX-License-Identifier: MIT */
/* gconv svm: trains a support vector machine. */
#include "base/clock.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/learn.h"
#include "cli/sandbox.h"
#include "cli/svm.h"
#include "cli/telling.h"
#include "cli/terminal.h"

#include <string.h>
#include <unistd.h>

/* ---- What was given -------------------------------------------------------------------------------------------------- */

static gconv_status name_table(gconv_svm_settings *s, const gconv_texts *words) {
  for (size_t i = 0; i < words->count && words->count == 2; i++) /* svm-train takes "-b 1", and the model's name */
    if (access(words->items[i], F_OK) != 0)
      return gconv_refuse("svm: there is no file \"%s\": name one table, its model by -o, and -b without a number: "
                          "gconv svm TABLE -b -o FILE.model",
                          words->items[i]);
  if (words->count == 2 || s->common.inputs.count > 0)
    return gconv_refuse("svm: images need --features, by which pixels are classified: gconv svm IMAGE MASK "
                        "--features default -o FILE.model");
  if (words->count != 1)
    return gconv_refuse("svm: name one table: gconv svm TABLE -o FILE.model");
  if (s->cases.samples > 0 || s->cases.data.gray)
    return gconv_refuse("--%s is for the pixels of images, which --features learns",
                        s->cases.data.gray ? "gray" : "samples");
  s->cases.data.kind = GCONV_DATASET_TABLE;
  s->cases.data.inputs = words->items[0];
  s->cases.data.targets = s->cases.targets;
  return GCONV_OK;
}

/* Images and masks are two words, or what -i and -t name. */
static gconv_status name_images(gconv_svm_settings *s, const gconv_texts *words) {
  enum { DEFAULT_SAMPLES = 10000 };
  gconv_cases *cases = &s->cases;
  const bool named = s->common.inputs.count == 1 && cases->targets && words->count == 0;
  if (!named && (words->count != 2 || s->common.inputs.count > 0 || cases->targets))
    return gconv_refuse("svm --features: name an image and its mask, or a folder of each: gconv svm IMAGE MASK "
                        "--features %s -o FILE.model",
                        cases->data.features);
  if (cases->data.label || cases->data.syntax || cases->data.separator || cases->missing || cases->data.regression ||
      cases->data.classification || cases->data.one_hot)
    return gconv_refuse("--label, --table-format, --separator, --missing, --one-hot, --regression and --classification are "
                        "for tables");
  cases->data.kind = GCONV_DATASET_PIXELS;
  cases->data.most_cases = cases->samples > 0 ? (size_t)cases->samples : DEFAULT_SAMPLES;
  cases->data.seed = (uint64_t)cases->seed;
  cases->data.inputs = named ? s->common.inputs.items[0] : words->items[0];
  cases->data.targets = named ? cases->targets : words->items[1];
  return GCONV_OK;
}

/* Tells of parameters that the kernel, or classification, does not have. */
static void tell_unused(const gconv_svm_options *o) {
  const bool polynomial = o->kernel == GCONV_SVM_POLYNOMIAL;
  const char *gamma = o->gamma != 0 && !gconv_svm_has_gamma(o->kernel) ? " --gamma" : "";
  const char *degree = o->degree != 0 && !polynomial ? " --degree" : "";
  const char *coef0 = o->coef0 != 0 && !polynomial && o->kernel != GCONV_SVM_SIGMOID ? " --coef0" : "";
  const char *tube = o->tube != 0 && o->type == GCONV_SVM_C_SVC ? " --tube" : "";
  if (*gamma || *degree || *coef0 || *tube)
    gconv_say("note: no effect on this kernel and kind of targets:%s%s%s%s", gamma, degree, coef0, tube);
}

static gconv_status check_words(gconv_svm_run *run, const gconv_texts *words) {
  gconv_svm_settings *s = run->settings;
  GCONV_TRY(s->cases.data.features ? name_images(s, words) : name_table(s, words));
  if (!s->common.output && s->folds == 0 && !s->grid)
    return gconv_refuse("svm: name the model with -o, or the number of folds of a cross-validation with -v");
  if (!s->grid && (s->grid_cost.step != 0 || s->grid_gamma.step != 0))
    return gconv_refuse("--log2c and --log2g are for --grid");
  if (s->grid && !gconv_svm_has_gamma(s->options.kernel) && s->grid_gamma.step != 0)
    return gconv_refuse("--log2g: this kernel has no gamma");
  if (!s->grid && s->common.plot)
    return gconv_refuse("--plot is the picture of --grid");
  GCONV_TRY(gconv_check_is_there(s->cases.data.inputs));
  run->options = s->options;
  run->options.scaling = s->scaling > 0           ? (gconv_svm_scaling)(s->scaling - 1)
                         : s->cases.data.features ? GCONV_SVM_SCALE_STANDARD
                                                  : GCONV_SVM_UNSCALED;
  run->options.no_shrinking = s->shrinking == 2;
  run->options.seed = (uint64_t)s->cases.seed;
  if (s->cases.data.regression)
    run->options.type = GCONV_SVM_EPSILON_SVR;
  run->regression = run->options.type == GCONV_SVM_EPSILON_SVR;
  if (run->regression && s->cases.data.classification)
    return gconv_refuse("--classification and --regression: give one of them");
  if (run->regression && s->cases.data.features)
    return gconv_refuse("--type epsilon-svr: masks tell classes, not numbers");
  if (run->regression && s->cases.class_weights.count > 0)
    return gconv_refuse("--weight is for classes");
  GCONV_TRY(gconv_class_weights_read(&s->cases.class_weights, &run->weights));
  run->options.weights = run->weights;
  run->options.weight_count = s->cases.class_weights.count;
  return GCONV_OK;
}

static gconv_status open_data(gconv_svm_run *run) {
  gconv_cases *cases = &run->settings->cases;
  cases->data.regression = run->regression;
  cases->data.missing = gconv_cases_missing(cases);
  cases->data.classification |= cases->class_weights.count > 0;
  GCONV_TRY(gconv_dataset_open(&cases->data, &run->data));
  run->regression |= gconv_dataset_get_info(run->data)->approximated; /* a warning said so */
  run->options.type = run->regression ? GCONV_SVM_EPSILON_SVR : run->options.type;
  return GCONV_OK;
}

static gconv_status prepare(gconv_svm_run *run, const gconv_texts *words) {
  const gconv_svm_settings *s = run->settings;
  const char *output = s->common.output, *outputs[] = {output, s->common.plot};
  GCONV_TRY(check_words(run, words));
  char *paths[] = {(char *)s->cases.data.inputs, (char *)s->cases.data.targets};
  const gconv_texts read = {paths, paths[1] ? 2 : 1};
  gconv_sandbox_files(&s->common, outputs, 2, true);
  if (output && strcmp(output, "-") != 0)
    GCONV_TRY(gconv_data_check_output("-o", output, "model txt", "a model", &read));
  if (s->common.plot)
    GCONV_TRY(gconv_data_check_output("--plot", s->common.plot, "svg", "the picture of a grid", &read));
  GCONV_TRY(open_data(run));
  if (!s->common.quiet)
    tell_unused(&run->options);
  return gconv_svm_open_device(run);
}

/* ---- Reports --------------------------------------------------------------------------------------------------------- */

static void tell_validation(const gconv_telling *t, const gconv_svm_run *run, const gconv_svm_validation *v) {
  gconv_tell_text(t, "cross-validation, %d folds: ", run->settings->folds);
  gconv_tell_json(t, "cases", v->cases);
  if (t->json || !run->regression)
    gconv_tell_share(t, "accuracy", "%.2f%% right: ", v->accuracy);
  if (t->json || run->regression) {
    gconv_tell(t, "mse", "MSE %.6g, ", v->mse);
    gconv_tell(t, "squared_correlation", "squared correlation %.6g\n", v->correlation);
  } else {
    gconv_tell_text(t, "%zu of %zu\n", v->right, v->cases);
  }
}

/* Describes where the model was trained, if there was a choice: " on cuda:0: the CPU would ...". */
static void describe_device(const gconv_svm_run *run, char *text, size_t size) {
  const char *name = gconv_svm_device_name(run);
  text[0] = '\0';
  if (run->why[0])
    snprintf(text, size, " on %s: %s", name, run->why);
  else if (strcmp(name, "cpu") != 0)
    snprintf(text, size, " on %s", name);
}

static void tell_model(const gconv_telling *t, const gconv_svm_run *run, const gconv_svm *model, double seconds) {
  const gconv_svm_info *info = gconv_svm_get_info(model);
  char where[200];
  describe_device(run, where, sizeof where);
  gconv_tell(t, "support_vectors", "%zu support vectors, ", info->vector_count);
  gconv_tell(t, "bounded", "%zu at their bound; ", info->bounded_count);
  gconv_tell(t, "objective", "objective %.9g; ", info->objective);
  gconv_tell_json(t, "gamma", info->gamma);
  gconv_tell(t, "seconds", "%.2f s", seconds);
  gconv_tell_text(t, "%s\n", where);
}

/* Returns where a part of the report goes: a new object of the JSON, or text. */
static gconv_telling begin_part(const gconv_svm_run *run, json_t *json, const char *key) {
  const gconv_telling t = {run->out, json ? json_object() : NULL};
  if (json)
    gconv_json_put(json, key, t.json);
  return t;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------- */

static gconv_status validate(gconv_svm_run *run, json_t *json) {
  gconv_svm_validation found;
  gconv_svm_begin_progress(run, &run->options);
  GCONV_TRY(gconv_svm_validate(&run->options, run->data, (size_t)run->settings->folds, run->device, &found));
  gconv_svm_note_device(run, found.on_gpu);
  const gconv_telling t = begin_part(run, json, "validation");
  tell_validation(&t, run, &found);
  return GCONV_OK;
}

static gconv_status train(gconv_svm_run *run, json_t *json) {
  gconv_svm *model = NULL;
  gconv_svm_begin_progress(run, &run->options);
  double begin = gconv_now_ms();
  gconv_status status = gconv_svm_train(&run->options, run->data, run->device, &model);
  gconv_progress_hide();
  double seconds = (gconv_now_ms() - begin) / 1000;
  if (status == GCONV_OK)
    gconv_svm_note_device(run, gconv_svm_get_info(model)->on_gpu);
  GCONV_THEN(status, gconv_svm_write(run->settings->common.output, model));
  if (status == GCONV_OK && (run->settings->common.json || !run->settings->common.quiet)) {
    const gconv_telling t = begin_part(run, json, "model");
    tell_model(&t, run, model, seconds);
  }
  gconv_svm_free(model);
  return status;
}

static gconv_status work(gconv_svm_run *run, json_t *json) {
  const gconv_svm_settings *s = run->settings;
  const gconv_dataset_info *info = gconv_dataset_get_info(run->data);
  char text[200];
  if (!s->common.quiet && !s->common.json && gconv_terminal_can_erase()) {
    gconv_data_describe(info, s->cases.data.kind, text, sizeof text);
    gconv_print(stderr, "%s: %s\n", s->cases.data.inputs, text);
  }
  if (!s->common.quiet && !s->common.json && s->cases.data.kind == GCONV_DATASET_PIXELS)
    gconv_data_print_pixels(s->cases.data.targets, info);
  if (s->grid)
    GCONV_TRY(gconv_svm_search(run, json));
  else if (s->folds > 0)
    GCONV_TRY(validate(run, json));
  return s->common.output ? train(run, json) : GCONV_OK;
}

static const gconv_synonym svm_type_words[] = {
    {"svc classification 0", "c-svc", NULL}, {"svr regression 3", "epsilon-svr", NULL}, {NULL, NULL, NULL}};
static const gconv_synonym svm_kernel_words[] = {{"gaussian 2", "rbf", NULL},    {"0", "linear", NULL},
                                                 {"poly 1", "polynomial", NULL}, {"3", "sigmoid", NULL},
                                                 {"4", "precomputed", NULL},     {NULL, NULL, NULL}};
static const gconv_synonym svm_scale_words[] = {{"-1,1", "symmetric", NULL},
                                                {"0,1", "unit", NULL},
                                                {"standardize standardise zscore", "standard", NULL},
                                                {NULL, NULL, NULL}};

#define OPTION(...) GCONV_OPTION(gconv_svm_settings, __VA_ARGS__)
static const gconv_option options[] = {
    GCONV_NO_SANDBOX_ROW,
    GCONV_HEADING("Data"),
    OPTION('i', "input", "PATH", texts, common.inputs, .help = "with --features: an image, or a folder of images"),
    OPTION('t', "targets", "PATH", once, cases.targets, .also = "target labels",
           .help = "with --features: its mask, or a folder of masks of the same names; else a file with the table's labels"),
    GCONV_LABEL_ROW(gconv_svm_settings, cases),
    GCONV_APPROXIMATED_ROWS(gconv_svm_settings, cases),
    GCONV_TABLE_ROWS(gconv_svm_settings, cases),
    GCONV_ONE_HOT_ROW(gconv_svm_settings, cases),
    GCONV_FEATURES_ROWS(gconv_svm_settings, cases),
    GCONV_GRAY_ROW(gconv_svm_settings, cases),
    GCONV_HEADING("Model"),
    OPTION('o', "output", "FILE", once, common.output, .help = "the trained model: FILE.model, text as LIBSVM's"),
    OPTION(0, "type", "NAME", word, options.type, .words = "c-svc|epsilon-svr", /* gconv_svm_type */
           .synonyms = svm_type_words, .help = "c-svc (default): classes; epsilon-svr: numbers, as with --regression"),
    OPTION('k', "kernel", "NAME", word, options.kernel,
           .words = "rbf|linear|polynomial|sigmoid|precomputed", /* gconv_svm_kernel */
           .synonyms = svm_kernel_words,
           .help = "rbf (default), exp(-gamma |x-y|^2); linear, x y; polynomial, (gamma x y + coef0)^degree; sigmoid, "
                   "tanh(gamma x y + coef0); precomputed: the columns are K of each case with all cases"),
    OPTION('c', "cost", "C", positive, options.cost, .also = "C", .help = "what an error costs; default: 1"),
    OPTION('g', "gamma", "G", positive, options.gamma, .help = "of the kernel; default: 1 / columns"),
    OPTION(0, "degree", "N", integer, options.degree, .least = 1, .most = 1000, .help = "of the polynomial; default: 3"),
    OPTION(0, "coef0", "X", number, options.coef0, .help = "of polynomial and sigmoid; default: 0"),
    OPTION('p', "tube", "E", tube, options.tube, .near = "epsilon", .takes = "a number from 0 on",
           .help = "of regression: errors up to E cost nothing; default: 0.1"),
    GCONV_WEIGHT_ROW(gconv_svm_settings, cases),
    OPTION(0, "scale", "RANGE", word, scaling, .words = "none|symmetric|unit|standard", .least = 1,
           .synonyms = svm_scale_words, /* gconv_svm_scaling + 1 */
           .help = "scale each column, to -1 .. 1 (symmetric), 0 .. 1 (unit), or a mean of 0 and a standard deviation of 1 "
                   "(standard); the model remembers the scales; default: none, for pixels standard"),
    OPTION('b', "probabilities", NULL, flag, options.probabilities, .also = "probability",
           .help = "the model also yields probabilities; takes some 5 times as long"),
    GCONV_HEADING("Training"),
    OPTION('v', "folds", "N", integer, folds, .also = "cross-validation cv", .least = 2, .most = INT_MAX,
           .help = "cross-validation: estimate the accuracy of a model from N parts of the cases"),
    OPTION(0, "grid", NULL, flag, grid,
           .help = "cross-validate over C and gamma, print the table, and train with the best of them"),
    OPTION(0, "log2c", "A:B:STEP", powers, grid_cost, .help = "exponents of C = 2^N in the grid; default: -5:15:2"),
    OPTION(0, "log2g", "A:B:STEP", powers, grid_gamma, .help = "exponents of gamma = 2^N in the grid; default: 3:-15:-2"),
    OPTION('e', "tolerance", "E", positive, options.tolerance,
           .help = "training ends when the conditions of the optimum hold to within E; default: 0.001"),
    OPTION('m', "cache", "MB", megabytes, options.cache_bytes,
           .help = "memory for kernel values, in MB; results are the same; default: 200"),
    OPTION(0, "shrinking", "yes|no", word, shrinking, .words = "yes|no", .least = 1,
           .help = "leave out cases that seem settled, until the end; default: yes"),
    GCONV_SEED_ROW(gconv_svm_settings, cases),
    OPTION('d', "device", "NAME", text, common.device, .words = "auto|cpu|cuda", .synonyms = gconv_device_words,
           .help = "auto (default): a GPU where it is faster; cpu, cuda or cuda:N. The model is the same"),
    GCONV_THREADS_ROW,
    GCONV_HEADING("Reports"),
    OPTION(0, "plot", "FILE", text, common.plot, .help = "a picture of --grid: FILE.svg"),
    GCONV_CASES_JSON_ROW,
    GCONV_QUIET_ROW,
    GCONV_OPTIONS_END,
};

static int run_svm(void *record, const gconv_texts *words) {
  gconv_svm_settings *settings = record;
  gconv_svm_run run = {.settings = settings};
  if (!settings->common.device)
    settings->common.device = "auto";
  run.out = settings->common.output && strcmp(settings->common.output, "-") == 0 ? stderr : stdout;
  json_t *json = settings->common.json ? json_object() : NULL;
  gconv_status status = prepare(&run, words);
  gconv_interrupt_say(settings->common.quiet    ? NULL
                      : settings->common.output ? "gconv: interrupted: no model is written\n"
                                                : "gconv: interrupted\n");
  GCONV_THEN(status, work(&run, json));
  if (status == GCONV_OK && json) {
    gconv_json_put(json, "device", gconv_svm_device_name(&run));
    if (run.why[0])
      gconv_json_put(json, "why", run.why);
  }
  gconv_interrupt_say(NULL);
  gconv_progress_hide();
  if (status == GCONV_OK)
    gconv_tell_end(run.out, json, JSON_INDENT(2));
  else
    json_decref(json);
  int result = gconv_say_end(status);
  gconv_class_weights_free(run.weights, settings->cases.class_weights.count);
  gconv_dataset_free(run.data);
  gconv_device_close(run.device);
  return result;
}

const gconv_command gconv_command_svm = {
    .name = "svm",
    .synopsis = "svm TABLE|IMAGES MASKS --features LIST -o FILE.model [OPTION...]",
    .help = "train a support vector machine: on a table, of classes or of numbers, or on the pixels that masks label",
    .details =
        "TABLE is CSV, data of LIBSVM or FANN, \"Y, X\" text, .npy or .npz, known by its content. The model is text\n"
        "that LIBSVM reads, and gconv classify applies it. -c -g -p -e -m -v -b mean the same as for svm-train.\n\n"
        "IMAGES and MASKS are an image and its mask, or a folder of each, also -i IMAGES -t MASKS. Classes are the\n"
        "numbers in masks, where 0 is unlabelled; pixels are known by --features. gconv classify makes maps of classes.\n\n"
        "  gconv svm tissue.tif labels.png --features default -c 10 -o pixels.model\n"
        "  gconv classify pixels.model -i slides/ -o maps/\n"
        "  gconv svm letter.csv --label Letter --scale unit -c 8 -g 16 -o letters.model\n"
        "  gconv svm train.libsvm -v 5 --grid -o best.model\n"
        "  gconv classify letters.model -i test.csv --evaluate\n",
    .options = options,
    .record_bytes = GCONV_RECORD_BYTES(gconv_svm_settings, common),
    .words = GCONV_WORDS_FILES,
    .more = gconv_data_print_features,
    .run = run_svm,
};
