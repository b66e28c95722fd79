/* SPDX-License-Identifier: MIT */
/* gconv classify: what a trained network takes cases for. */
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/classify.h"
#include "cli/command.h"
#include "cli/job.h"
#include "cli/learn.h"
#include "cli/pixels.h"
#include "cli/rows.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct classifying {
  const gconv_classify_settings *settings;
  const char *path, *input; /* of the network; of the data */
  gconv_network network;
  gconv_device *device;
  gconv_chosen_device chosen;
  gconv_sink *sink;     /* NULL: predictions are not written */
  bool terminal, begun; /* they go to a terminal; the first line is written */
  gconv_confusion confusion;
  gconv_mistakes mistakes;
  const char *unit;            /* what a case is called: "case", "path", "sample" */
  size_t hop;                  /* of windows: samples from one to the next; else 0 */
  double squares, sum, spread; /* of outputs that are no classes: of the errors; of the targets, and their squares */
  size_t numbers;
} classifying;

/* ---- Predictions as CSV ----------------------------------------------------------------------------------------------- */

static bool yields_probabilities(const gconv_network *network) {
  return network->layers[network->count - 1].activation == GCONV_ACTIVATION_SOFTMAX;
}

/* Writes the first line, once a prediction tells how many outputs there are. */
static gconv_status put_header(classifying *c, size_t outputs) {
  if (c->begun)
    return GCONV_OK;
  c->begun = true;
  GCONV_TRY(gconv_sink_print(c->sink, "%s", c->unit));
  if (c->network.class_count > 0) {
    GCONV_TRY(gconv_sink_print(c->sink, ",class,%s", yields_probabilities(&c->network) ? "probability" : "output"));
    return gconv_sink_print(c->sink, "%s", c->settings->evaluate ? ",label\n" : "\n");
  }
  for (size_t k = 0; k < outputs; k++)
    GCONV_TRY(gconv_sink_print(c->sink, ",output%zu", k + 1));
  return gconv_sink_print(c->sink, "\n");
}

/* Writes a prediction behind the name of its case. */
static gconv_status put_prediction(classifying *c, const gconv_prediction *p) {
  if (c->network.class_count == 0) {
    for (size_t k = 0; k < p->count; k++)
      GCONV_TRY(gconv_sink_print(c->sink, ",%.9g", (double)p->outputs[k]));
    return gconv_sink_print(c->sink, "\n");
  }
  size_t best = gconv_predict_best(p->outputs, p->count);
  GCONV_TRY(gconv_sink_print(c->sink, ","));
  GCONV_TRY(gconv_rows_field(c->sink, c->terminal, c->network.classes[best]));
  GCONV_TRY(gconv_sink_print(c->sink, ",%.6g", (double)p->outputs[best]));
  if (c->settings->evaluate) {
    GCONV_TRY(gconv_sink_print(c->sink, ","));
    GCONV_TRY(gconv_rows_field(c->sink, c->terminal, gconv_confusion_name(&c->confusion, p->class)));
  }
  return gconv_sink_print(c->sink, "\n");
}

static void compare_targets(classifying *c, const gconv_prediction *p) {
  for (size_t k = 0; k < p->count && p->targets; k++) {
    double target = (double)p->targets[k], error = (double)p->outputs[k] - target;
    c->squares += error * error;
    c->sum += target;
    c->spread += target * target;
    c->numbers++;
  }
}

static gconv_status take_case(void *user, const gconv_prediction *p) {
  classifying *c = user;
  compare_targets(c, p);
  if (c->settings->job.common.report && p->class != SIZE_MAX) {
    size_t best = gconv_predict_best(p->outputs, p->count);
    char name[24];
    snprintf(name, sizeof name, "%zu", c->hop > 0 ? p->number * c->hop : p->number + 1);
    if (best != p->class)
      GCONV_TRY(gconv_mistakes_add(&c->mistakes, name, p->class, best, (double)p->outputs[best]));
  }
  if (!c->sink)
    return GCONV_OK;
  GCONV_TRY(put_header(c, p->count));
  GCONV_TRY(gconv_sink_print(c->sink, "%zu", c->hop > 0 ? p->number * c->hop : p->number + 1));
  return put_prediction(c, p);
}

/* ---- Tables and signals ----------------------------------------------------------------------------------------------- */

static gconv_dataset_options name_data(const classifying *c) {
  const gconv_cases *learn = &c->settings->cases;
  gconv_dataset_options options = learn->data;
  const gconv_windows signal = c->settings->job.windows;
  bool windows = c->network.width > 1 || c->settings->job.windows.samples > 0;
  options.kind = windows ? GCONV_DATASET_WINDOWS : GCONV_DATASET_TABLE;
  options.inputs = c->input;
  options.targets = learn->targets;
  options.syntax = windows ? c->settings->job.raw : options.syntax;
  options.missing = gconv_cases_missing(learn);
  options.window = windows && signal.samples == 0 ? c->network.width : signal.samples;
  options.hop = signal.hop;
  options.columns = (size_t)c->network.channels;
  options.classes = (const char *const *)c->network.classes;
  options.class_count = c->network.class_count;
  options.regression = c->network.class_count == 0;
  options.usual_label = c->network.label;
  options.like = &c->network.notes;
  options.unlabelled = !c->settings->evaluate;
  options.others = c->settings->evaluate;
  return options;
}

static bool fits(const classifying *c, const gconv_dataset *data) {
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  return info->channels == c->network.channels && (c->network.height == 0 || info->height == c->network.height) &&
         (c->network.width == 0 || info->width == c->network.width);
}

/* A table that is not compared may have its labels in a column behind the inputs, which then is passed over. */
static gconv_status open_unlabelled(const classifying *c, gconv_dataset_options options, gconv_dataset **data,
                                    gconv_message *message) {
  char label[24];
  gconv_status status = gconv_dataset_open(&options, data);
  if (status == GCONV_OK && fits(c, *data))
    return status;
  gconv_learn_complain(status, message);
  if (options.label || options.kind != GCONV_DATASET_TABLE)
    return status;
  gconv_dataset *without = NULL;
  snprintf(label, sizeof label, "%d", (int)c->network.channels + 1);
  options.label = label;
  if (gconv_dataset_open(&options, &without) != GCONV_OK || !fits(c, without)) {
    gconv_dataset_free(without);
    return status;
  }
  gconv_dataset_free(*data);
  *data = without;
  if (!c->settings->job.common.quiet)
    gconv_say("%s: its last column is taken for labels, and passed over", options.inputs);
  return GCONV_OK;
}

static gconv_status open_data(const classifying *c, gconv_dataset **data, gconv_message *message) {
  gconv_dataset_options options = name_data(c);
  if (options.unlabelled)
    GCONV_TRY(open_unlabelled(c, options, data, message));
  else
    GCONV_TRY(gconv_learn_complain(gconv_dataset_open(&options, data), message));
  const gconv_dataset_info *info = gconv_dataset_get_info(*data);
  if (fits(c, *data))
    return GCONV_OK;
  if (options.kind == GCONV_DATASET_WINDOWS)
    return gconv_refuse(message, "%s: windows of %d samples of %d channels, where the network takes %d of %d",
                        options.inputs, (int)info->width, (int)info->channels, (int)c->network.width,
                        (int)c->network.channels);
  return gconv_refuse(message, "%s: has %d columns%s, where the network takes %d%s", options.inputs, (int)info->channels,
                      c->settings->evaluate ? " beside the labels" : "", (int)c->network.channels,
                      options.label ? "" : "; --label names the column of labels");
}

static gconv_status classify_data(classifying *c, gconv_message *message) {
  gconv_dataset *data = NULL;
  gconv_status status = open_data(c, &data, message);
  c->unit = "case";
  if (status == GCONV_OK && (c->network.width > 1 || c->settings->job.windows.samples > 0)) {
    c->unit = "sample";
    c->hop = (size_t)(c->settings->job.windows.hop > 0 ? c->settings->job.windows.hop : gconv_dataset_get_info(data)->width);
  }
  if (status == GCONV_OK) {
    status = gconv_learn_complain(gconv_predict_all(&c->network, c->device, data, &c->confusion, take_case, c), message);
    c->confusion.names = (const char *const *)c->network.classes; /* the data go */
  }
  gconv_dataset_free(data);
  return status;
}

/* ---- Images ----------------------------------------------------------------------------------------------------------- */

/* Makes a grey image RGB, as training did beside images of RGB. Alpha, which does not count, is left out. */
static gconv_status widen(gconv_image *image) {
  gconv_image wide = {.type = image->type, .frames = 1, .height = image->height, .width = image->width, .channels = 3};
  GCONV_TRY(gconv_image_allocate(&wide));
  const size_t bytes = gconv_type_bytes(image->type), step = bytes * (image->planar ? 1 : (size_t)image->channels);
  for (size_t y = 0; y < (size_t)wide.height; y++)
    for (size_t x = 0; x < (size_t)wide.width; x++)
      for (size_t c = 0; c < 3; c++)
        memcpy((uint8_t *)wide.data + y * wide.row_bytes + (3 * x + c) * bytes,
               (const uint8_t *)image->data + y * image->row_bytes + x * step, bytes);
  gconv_image_free(image);
  *image = wide;
  return GCONV_OK;
}

/* A plan for images of one shape, which are often many. */
typedef struct image_plan {
  gconv_operation *operation;
  gconv_plan *plan;
  gconv_image out;
} image_plan;

static gconv_status run_image(classifying *c, image_plan *p, const gconv_image *image, const char *path) {
  if (!p->plan || !gconv_plan_fits(p->plan, image)) {
    gconv_plan_free(p->plan);
    gconv_image_free(&p->out);
    p->plan = NULL;
    gconv_status status = gconv_plan_create(c->device, image, p->operation, 0, &p->plan);
    if (status != GCONV_OK) { /* which does not know the name */
      char *text = gconv_printable_copy(gconv_last_error(), strlen(gconv_last_error()));
      gconv_fail(status, "%s: %s", path, text ? text : "does not fit the network");
      free(text);
      return status;
    }
  }
  GCONV_TRY(gconv_plan_execute(p->plan, image, &p->out, 1, NULL));
  if (p->out.height == 1 && p->out.width == 1 && p->out.frames == 1)
    return GCONV_OK;
  if (c->network.height > 0 && (c->network.height != image->height || c->network.width != image->width))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has %d x %d pixels, where the network takes %d x %d: scale or crop it", path,
                      (int)image->width, (int)image->height, (int)c->network.width, (int)c->network.height);
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s: the network yields %d x %d x %d numbers, a picture rather than a class: gconv -i %s -f NETWORK "
                    "applies it",
                    path, (int)p->out.channels, (int)p->out.height, (int)p->out.width, path);
}

/* The class that the folder of an image names. */
static gconv_status find_class(classifying *c, const gconv_input *input, size_t *class) {
  size_t length = strcspn(input->relative, "/");
  for (size_t k = 0; k < c->network.class_count; k++)
    if (strlen(c->network.classes[k]) == length && strncmp(c->network.classes[k], input->relative, length) == 0) {
      *class = k;
      return GCONV_OK;
    }
  if (input->relative[length])
    return gconv_confusion_find_other(&c->confusion, input->relative, length, class);
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s: --evaluate takes a folder with a folder of images for each class, and this image is in none",
                    input->path);
}

static gconv_status classify_image(classifying *c, image_plan *p, const gconv_input *input) {
  gconv_image image = {0};
  gconv_prediction found = {.class = SIZE_MAX};
  if (c->settings->evaluate)
    GCONV_TRY(find_class(c, input, &found.class));
  GCONV_TRY(gconv_image_read(input->path, NULL, &image));
  bool grey = image.channels - image.alpha == 1 && image.frames == 1 && c->network.channels == 3;
  gconv_status status = grey ? widen(&image) : GCONV_OK;
  if (status == GCONV_OK)
    status = run_image(c, p, &image, input->path);
  gconv_image_free(&image);
  GCONV_TRY(status);
  found.outputs = p->out.data;
  found.count = (size_t)p->out.channels;
  if (found.class != SIZE_MAX) {
    size_t best = gconv_predict_best(found.outputs, found.count);
    gconv_confusion_add(&c->confusion, found.class, best);
    if (best != found.class && c->settings->job.common.report)
      GCONV_TRY(gconv_mistakes_add(&c->mistakes, input->path, found.class, best, (double)found.outputs[best]));
  }
  if (!c->sink)
    return GCONV_OK;
  GCONV_TRY(put_header(c, found.count));
  GCONV_TRY(gconv_rows_field(c->sink, c->terminal, input->path));
  return put_prediction(c, &found);
}

static gconv_status classify_images(classifying *c, gconv_message *message) {
  gconv_inputs inputs = {0};
  image_plan p = {0};
  const gconv_network_options options = {.gray = c->settings->cases.data.gray || c->network.channels == 1};
  c->unit = "path";
  char *input = (char *)c->input;
  const gconv_texts named = {&input, 1};
  gconv_status status = gconv_inputs_find_all(&named, true, "-", &inputs, message);
  if (status == GCONV_OK && c->settings->evaluate)
    status = gconv_learn_complain(
        gconv_confusion_begin((const char *const *)c->network.classes, c->network.class_count, &c->confusion), message);
  if (status == GCONV_OK)
    status = gconv_learn_complain(gconv_operation_of_network(&c->network, &options, &p.operation), message);
  for (size_t i = 0; i < inputs.count && status == GCONV_OK; i++)
    status = gconv_learn_complain(classify_image(c, &p, &inputs.items[i]), message);
  gconv_plan_free(p.plan);
  gconv_operation_free(p.operation);
  gconv_image_free(&p.out);
  gconv_inputs_free(&inputs);
  return status;
}

/* ---- The whole -------------------------------------------------------------------------------------------------------- */

/* Refuses an option of maps. What is wrong with the model is told first: a damaged one may be of pixels. */
static gconv_status refuse_map_option(const char *path, const char *option, gconv_message *message) {
  gconv_network network = {0};
  gconv_svm *machine = NULL;
  gconv_status status = gconv_svm_is_one(path) ? gconv_svm_read(path, &machine) : gconv_network_read(path, &network);
  gconv_svm_free(machine);
  gconv_network_free(&network);
  GCONV_TRY(gconv_learn_complain(status, message));
  return gconv_refuse(message, "--%s is for maps of classes, and %s does not classify pixels by features", option, path);
}

/* Says what a file is that is neither a network nor a support vector machine, where that is known. */
static gconv_status check_model(const char *path, gconv_message *message) {
  const char *dot = strrchr(path, '.');
  gconv_network network = {0};
  uint8_t bytes[16] = {0};
  FILE *file = gconv_network_is_one(path) || gconv_svm_is_one(path) ? NULL : fopen(path, "rb");
  size_t got = file ? fread(bytes, 1, sizeof bytes, file) : 0, printable = 0;
  if (file)
    fclose(file);
  for (size_t i = 0; i < got; i++)
    printable += (bytes[i] >= ' ' && bytes[i] < 127) || bytes[i] == '\n' || bytes[i] == '\r' || bytes[i] == '\t';
  if (got == 0)
    return GCONV_OK;
  if (dot && strcmp(dot, ".onnx") == 0) {
    const gconv_status status = gconv_network_import(path, NULL, &network);
    gconv_network_free(&network);
    if (status != GCONV_OK)
      return gconv_refuse(message, "%s: is an ONNX model, of which gconv makes no network: %s", path, gconv_last_error());
    return gconv_refuse(message, "%s: is an ONNX model: gconv bank convert %s -o n.safetensors makes a network of it first",
                        path, path);
  }
  if (printable == got)
    return gconv_refuse(
        message,
        "%s: is a text, and neither a network nor a model: gconv classify MODEL -i DATA, where MODEL is a file of "
        "gconv train, gconv svm or LIBSVM",
        path);
  return GCONV_OK;
}

static gconv_status check_words(classifying *c, const gconv_texts *words, gconv_message *message) {
  const gconv_classify_settings *settings = c->settings;
  if (words->count < 1 || words->count > 2)
    return gconv_refuse(message, "classify: name one network or model: gconv classify NETWORK.safetensors -i INPUT");
  c->path = words->items[0];
  GCONV_TRY(check_model(c->path, message));
  if (settings->job.common.inputs.count + words->count != 2)
    return gconv_refuse(message, "%s: name one table, or one image or folder of images, with -i", c->path);
  c->input = words->count == 2 ? words->items[1] : settings->job.common.inputs.items[0];
  if (settings->job.common.json && !settings->evaluate)
    return gconv_refuse(message, "--json prints what --evaluate finds; predictions are CSV");
  const char *of_maps = gconv_classify_map_option(settings);
  if (!of_maps)
    of_maps = settings->job.common.recursive ? "recursive" : settings->job.common.max_pixels > 0 ? "max-pixels" : NULL;
  if (of_maps)
    return refuse_map_option(c->path, of_maps, message);
  if (settings->cases.targets && !settings->evaluate)
    return gconv_refuse(message, "-t names labels, which --evaluate compares with");
  GCONV_TRY(gconv_check_is_there(c->path, message));
  return gconv_check_is_there(c->input, message);
}

static gconv_status prepare(classifying *c, gconv_message *message) {
  const gconv_classify_settings *settings = c->settings;
  const char *output = settings->job.common.output;
  char *paths[] = {(char *)c->path, (char *)c->input};
  const gconv_texts read = {paths, 2};
  const char *outputs[] = {output, settings->job.common.report};
  gconv_sandbox_files(&settings->job.common, outputs, 2, true);
  GCONV_TRY(gconv_evaluation_check_report(settings->job.common.report, settings->evaluate, &read, message));
  if (output && strcmp(output, "-") != 0)
    GCONV_TRY(gconv_data_check_output("-o", output, "csv txt", "a list of predictions", &read, message));
  GCONV_TRY(gconv_learn_complain(gconv_network_read(c->path, &c->network), message));
  if (settings->evaluate && c->network.class_count == 0 && c->network.height != 1)
    return gconv_refuse(message, "%s: has no classes that --evaluate could compare", c->path);
  if (settings->job.common.report && c->network.class_count == 0)
    return gconv_refuse(message, "--report: is about classes, and %s has none", c->path);
  GCONV_TRY(gconv_learn_complain(
      gconv_device_open(settings->job.common.device ? settings->job.common.device : "cpu",
                        gconv_settle_threads(settings->job.common.threads, settings->job.common.quiet), &c->device),
      message));
  gconv_device_choose(&c->chosen, gconv_device_get_info(c->device)->name,
                      settings->job.common.device ? NULL : "networks run on the CPU, unless -d names another device");
  gconv_device_tell(&settings->job.common, &c->chosen);
  bool standard = !output || strcmp(output, "-") == 0;
  c->terminal = standard && isatty(STDOUT_FILENO);
  if (output || !settings->evaluate)
    GCONV_TRY(gconv_learn_complain(gconv_sink_open(standard ? "-" : output, &c->sink), message));
  return GCONV_OK;
}

/* Networks of tables and signals have inputs of a known size, one number high. */
static bool is_of_numbers(const gconv_network *network) {
  return network->height == 1;
}

static void print_errors(const classifying *c) {
  gconv_classify_print_errors(stdout, c->numbers, c->squares, c->sum, c->spread);
}

static void print_evaluation(const classifying *c) {
  if (c->confusion.classes > 0)
    gconv_classify_print(c->settings, &c->confusion, &c->chosen);
  else if (c->numbers > 0)
    print_errors(c);
}

static gconv_status write_report(const classifying *c) {
  const bool numbers = is_of_numbers(&c->network);
  const gconv_evaluation_page page = {.model = c->path,
                                      .input = c->input,
                                      .unit = numbers ? c->unit : "image",
                                      .found = &c->confusion,
                                      .mistakes = &c->mistakes,
                                      .pictures = !numbers};
  return gconv_evaluation_write(c->settings->job.common.report, &page);
}

static bool is_machine_of_pixels(const char *path) {
  gconv_svm *model = NULL;
  bool is = gconv_svm_is_one(path) && gconv_svm_read(path, &model) == GCONV_OK && gconv_svm_get_info(model)->features;
  gconv_svm_free(model);
  return is;
}

/* Whether the first word names a network or a support vector machine that classifies pixels. */
static bool is_of_pixels(const gconv_texts *words) {
  gconv_network network = {0};
  if (words->count > 0 && is_machine_of_pixels(words->items[0]))
    return true;
  bool is = words->count > 0 && gconv_network_is_one(words->items[0]) &&
            gconv_network_read(words->items[0], &network) == GCONV_OK && network.features;
  gconv_network_free(&network);
  return is;
}

#define OPTION(...) GCONV_OPTION(gconv_classify_settings, __VA_ARGS__)
static const gconv_option options[] = {
    {.maps = gconv_job_options},
    GCONV_NO_SANDBOX_ROW,
    GCONV_HEADING("Data"),
    OPTION('i', "input", "PATH", texts, job.common.inputs,
           .help = "a table, or images: one, a folder of them, or with --evaluate a folder for each class"),
    OPTION('t', "targets", "FILE", once, cases.targets, .help = "the labels, if they are in another file"),
    GCONV_WINDOWS_ROWS(gconv_classify_settings, job.windows, job.raw),
    GCONV_LABEL_ROW(gconv_classify_settings, cases),
    GCONV_TABLE_ROWS(gconv_classify_settings, cases),
    GCONV_GRAY_ROW(gconv_classify_settings, cases),
    OPTION('d', "device", "NAME", text, job.common.device, .words = "auto|cpu|cuda", .synonyms = gconv_device_words,
           .help = "cpu, cuda, cuda:N or auto; default: cpu, of support vector machines auto, a GPU where it pays"),
    GCONV_THREADS_ROW,
    GCONV_HEADING("Results"),
    OPTION('o', "output", "FILE", once, job.common.output,
           .help = "the predictions, CSV; default: standard output, or with --evaluate nowhere"),
    OPTION(0, "report", "FILE", text, job.common.report, .also = "html",
           .help = "with --evaluate: a page of HTML without outside parts: confusion, IoU and F1, the worst mistakes"),
    OPTION(0, "evaluate", NULL, flag, evaluate, .also = "eval",
           .help =
               "compare with the labels: print the accuracy, and the table of confusion; of pixels, with the masks of -t"),
    GCONV_PROBABILITIES_ROW(gconv_classify_settings, job.probabilities),
    GCONV_CASES_JSON_ROW,
    GCONV_QUIET_ROW,
    GCONV_OPTIONS_END,
};

static int run(void *record, const gconv_texts *words) {
  gconv_classify_settings *settings = record;
  if (is_of_pixels(words))
    return gconv_classify_pixels(settings, words);
  classifying c = {.settings = settings};
  gconv_message message;
  gconv_set_log(settings->job.common.quiet ? NULL : gconv_say_warning, NULL);
  gconv_status status = check_words(&c, words, &message);
  const bool is_machine = status == GCONV_OK && gconv_svm_is_one(c.path);
  if (is_machine && !settings->job.common.device)
    settings->job.common.device = "auto";
  if (is_machine)
    return gconv_classify_svm(settings, c.path, c.input);
  if (status == GCONV_OK)
    status = prepare(&c, &message);
  if (status == GCONV_OK)
    status = is_of_numbers(&c.network) ? classify_data(&c, &message) : classify_images(&c, &message);
  if (status == GCONV_OK && c.sink) {
    status = gconv_learn_complain(gconv_sink_commit(c.sink, false), &message);
    c.sink = status == GCONV_OK ? c.sink : NULL;
  } else {
    gconv_sink_discard(c.sink);
  }
  if (status == GCONV_OK && settings->job.common.report)
    status = gconv_learn_complain(write_report(&c), &message);
  if (status == GCONV_OK && !settings->job.common.quiet)
    gconv_confusion_tell_others(&c.confusion, c.input, is_of_numbers(&c.network) ? c.unit : "image");
  if (status == GCONV_OK && settings->evaluate)
    print_evaluation(&c);
  if (status != GCONV_OK)
    gconv_say("%s", message.text);
  gconv_confusion_free(&c.confusion);
  gconv_mistakes_free(&c.mistakes);
  gconv_network_free(&c.network);
  gconv_device_close(c.device);
  return status == GCONV_OK ? GCONV_EXIT_OK : status == GCONV_BAD_ARGUMENT ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}

const gconv_command gconv_command_classify = {
    .name = "classify",
    .synopsis = "classify MODEL -i INPUT [-o OUTPUT] [OPTION...]",
    .help = "what a trained network or support vector machine takes the rows of a table, windows, images or pixels for",
    .details =
        "MODEL is a network of gconv train, or a model of gconv svm or of LIBSVM, known by its content.\n\n"
        "INPUT is a table, a signal, an image or a folder of images, as the network was trained. Predictions are\n"
        "CSV: case, class, probability; or the outputs of a network without classes. Labels behind the columns are\n"
        "passed over.\n\n"
        "--evaluate compares with the labels: of a table, its column; of images, the folder of each. It prints the\n"
        "share that is right in %, and a table with a row for each class and a column for each it was taken for; of\n"
        "more than 10 classes, the pairs that are taken for each other most often, where --json has the whole table.\n\n"
        "A model that was trained with --features names the class of each pixel: -o has maps of classes, as for\n"
        "filtered images: a file, a folder or a template. --evaluate compares them with masks, of the same names,\n"
        "also without -o: --evaluate MASKS, or -t MASKS. It also prints, for each class, the share of pixels that are\n"
        "in both of all that are in either (IoU), and F1. Without -i, the words behind MODEL are images; the last one\n"
        "names the masks, if --evaluate is there and -t is not.\n\n"
        "  gconv classify pixels.safetensors -i slides/ -o maps/ --evaluate masks/\n",
    .options = options,
    .record_bytes = GCONV_RECORD_BYTES(gconv_classify_settings, job.common),
    .begin = gconv_job_settings_begin,
    .end = gconv_job_settings_end,
    .words = GCONV_WORDS_FILES,
    .run = run,
};
