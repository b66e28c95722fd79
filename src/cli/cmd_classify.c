/* SPDX-License-Identifier: MIT */
/* gconv classify: the classes, or numbers, that a trained network or support vector machine predicts. */
#include "base/memory.h"
#include "cli/bank.h"
#include "cli/classify.h"
#include "cli/command.h"
#include "cli/job_settings.h"
#include "cli/pixels.h"
#include "cli/terminal.h"
#include "gconv_classify.h"

#include <string.h>
#include <sys/stat.h>

typedef struct classify_settings {
  gconv_job_settings job; /* settings for maps */
  gconv_cases cases;
  bool evaluate;
} classify_settings;

/* Refuses an option of maps. If the model cannot be read, fails for that reason instead: it may be one for pixels. */
static gconv_status refuse_map_option(const char *path, const char *option) {
  GCONV_ENDED_BY(gconv_network_free) gconv_network network = {0};
  gconv_svm *machine = NULL;
  gconv_status status = gconv_svm_is_one(path) ? gconv_svm_read(path, &machine) : gconv_network_load(path, &network);
  gconv_svm_free(machine);
  GCONV_TRY(status);
  return gconv_refuse("--%s is for maps of classes, and %s does not classify pixels by features", option, path);
}

/* If a file is neither a network nor a support vector machine, names its kind, if known. */
static gconv_status check_model(const char *path) {
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
    return status == GCONV_OK
               ? GCONV_OK
               : gconv_refuse("%s: is an ONNX model that cannot become a network: %s", path, gconv_last_error());
  }
  if (printable == got)
    return gconv_refuse(
        "%s: is a text, and neither a network nor a model: gconv classify MODEL -i DATA, where MODEL is a file of "
        "gconv train, gconv svm or LIBSVM",
        path);
  return GCONV_OK;
}

static gconv_status check_words(gconv_classifying *c, const classify_settings *settings, const gconv_texts *words) {
  if (words->count < 1 || words->count > 2)
    return gconv_refuse("classify: name one network or model: gconv classify NETWORK.safetensors -i INPUT");
  c->path = words->items[0];
  GCONV_TRY(check_model(c->path));
  if (settings->job.common.inputs.count + words->count != 2)
    return gconv_refuse("%s: name one table, or one image or folder of images, with -i", c->path);
  c->input = words->count == 2 ? words->items[1] : settings->job.common.inputs.items[0];
  if (settings->job.common.json && !settings->evaluate)
    return gconv_refuse("--json prints what --evaluate finds; predictions are CSV");
  const char *of_maps = settings->job.of_maps;
  if (!of_maps)
    of_maps = settings->job.common.recursive ? "recursive" : settings->job.common.max_pixels > 0 ? "max-pixels" : NULL;
  if (of_maps)
    return refuse_map_option(c->path, of_maps);
  if (settings->cases.targets && !settings->evaluate)
    return gconv_refuse("-t names labels, which --evaluate compares with");
  GCONV_TRY(gconv_check_is_there(c->path));
  return gconv_check_is_there(c->input);
}

/* True if the first word names a network or a support vector machine that classifies pixels. */
static bool is_of_pixels(const gconv_texts *words) {
  const char *path = words->count > 0 ? words->items[0] : "";
  GCONV_ENDED_BY(gconv_network_free) gconv_network network = {0};
  gconv_svm *machine = NULL;
  bool is = gconv_svm_is_one(path)
                ? gconv_svm_read(path, &machine) == GCONV_OK && gconv_svm_get_info(machine)->features
                : gconv_network_is_one(path) && gconv_network_read(path, &network) == GCONV_OK && network.features;
  gconv_svm_free(machine);
  return is;
}

/* ---- Pixels ---- */

/* Words after the network are images, unless -i names some. With --evaluate, the last word names masks, unless -t does. */
static gconv_status sort_words(classify_settings *settings, const gconv_texts *words) {
  const bool given = settings->job.common.inputs.count > 0;
  size_t end = words->count;
  if (settings->evaluate && !settings->cases.targets && end > (given ? 1 : 2))
    settings->cases.targets = words->items[--end];
  if (given && end > 1)
    return gconv_refuse("%s: one word too many: gconv classify NETWORK -i IMAGES -o MAPS, with masks after --evaluate",
                        words->items[words->count - 1]);
  for (size_t i = 1; i < end; i++)
    if (!gconv_texts_add(&settings->job.common.inputs, strdup(words->items[i])))
      return gconv_no_memory();
  return GCONV_OK;
}

static gconv_status check_pixels(classify_settings *settings, const gconv_texts *words) {
  const char *network = words->items[0];
  struct stat status, maps;
  GCONV_TRY(sort_words(settings, words));
  if (settings->job.common.inputs.count == 0)
    return gconv_refuse("%s: name images, or a folder of them: gconv classify %s IMAGES -o MAPS", network, network);
  if (!settings->job.common.output && !settings->evaluate)
    return gconv_refuse("%s: names the class of each pixel: say with -o where the maps go, a file or a folder", network);
  const char *of_maps = settings->job.common.output ? NULL : settings->job.of_maps;
  if (of_maps)
    return gconv_refuse("--%s is for maps that are written: say with -o where they go", of_maps);
  if (settings->cases.targets && !settings->evaluate)
    return gconv_refuse("-t names masks, which --evaluate compares with");
  if (settings->evaluate && !settings->cases.targets)
    return gconv_refuse("--evaluate: name the masks to compare with: --evaluate masks/");
  const bool piped = settings->job.common.output && strcmp(settings->job.common.output, "-") == 0;
  if (settings->evaluate && (settings->job.probabilities || piped))
    return gconv_refuse("--evaluate reads the maps of classes again: leave out %s",
                        settings->job.probabilities ? "--probabilities" : "-o -");
  if (settings->evaluate && stat(settings->cases.targets, &status) != 0)
    return gconv_refuse("--evaluate %s: there is no such file or folder", settings->cases.targets);
  const char *output = settings->evaluate && !settings->job.naming.suffix ? settings->job.common.output : NULL;
  if (output && stat(output, &maps) == 0 && maps.st_dev == status.st_dev && maps.st_ino == status.st_ino)
    return gconv_refuse("-o %s: these are the masks of --evaluate, which the maps would replace: name another", output);
  char *paths[] = {(char *)network, settings->job.common.inputs.items[0], (char *)settings->cases.targets};
  const gconv_texts read = {paths, settings->cases.targets ? 3 : 2};
  GCONV_TRY(gconv_evaluation_check_report(settings->job.common.report, settings->evaluate, &read));
  if (settings->job.common.json && !settings->evaluate)
    return gconv_refuse("--json prints what --evaluate finds");
  settings->job.truth = settings->evaluate ? settings->cases.targets : NULL;
  settings->job.windows = settings->cases.windows;
  settings->job.raw = settings->cases.raw;
  settings->job.options.gray = false; /* the network's features say whether images become grey */
  if (!settings->job.common.device)
    settings->job.common.device = "auto";
  return gconv_texts_add(&settings->job.last.filters, strdup(network)) ? GCONV_OK : gconv_no_memory();
}

static int run_pixels(classify_settings *settings, const gconv_texts *words) {
  if (check_pixels(settings, words) != GCONV_OK)
    return gconv_say_failed(GCONV_EXIT_USAGE);
  const gconv_pixels_task task = {&settings->job, &settings->job.common, words->items[0],
                                  settings->evaluate ? settings->cases.targets : NULL, settings->job.dry_run};
  return gconv_classify_pixels(&task);
}

/* ---- The command ---- */

#define OPTION(...) GCONV_OPTION(classify_settings, __VA_ARGS__)
static const gconv_option options[] = {
    {.maps = gconv_job_options},
    GCONV_NO_SANDBOX_ROW,
    GCONV_HEADING("Data"),
    OPTION('i', "input", "PATH", texts, job.common.inputs,
           .help = "a table, or images: one, a folder of them, or with --evaluate a folder for each class"),
    OPTION('t', "targets", "FILE", once, cases.targets, .also = "target labels",
           .help = "the labels, if they are in another file"),
    GCONV_WINDOWS_ROWS(classify_settings, cases.windows, cases.raw),
    GCONV_LABEL_ROW(classify_settings, cases),
    GCONV_TABLE_ROWS(classify_settings, cases),
    GCONV_GRAY_ROW(classify_settings, cases),
    OPTION('d', "device", "NAME", text, job.common.device, .words = "auto|cpu|cuda", .synonyms = gconv_device_words,
           .help = "cpu, cuda, cuda:N or auto; default: cpu; for support vector machines auto: a GPU where it is faster"),
    GCONV_THREADS_ROW,
    GCONV_HEADING("Results"),
    OPTION('o', "output", "FILE", once, job.common.output,
           .help = "the predictions, CSV; default: standard output, or with --evaluate nowhere"),
    OPTION(0, "report", "FILE", text, job.common.report, .also = "html",
           .help = "with --evaluate: a page of HTML in one file: confusion matrix, IoU and F1, the worst mistakes"),
    OPTION(0, "evaluate", NULL, flag, evaluate, .also = "eval",
           .help = "compare with the labels, or pixels with the masks of -t: print the accuracy and the confusion matrix"),
    GCONV_PROBABILITIES_ROW(classify_settings, job.probabilities),
    GCONV_CASES_JSON_ROW,
    GCONV_QUIET_ROW,
    GCONV_OPTIONS_END,
};

static int run(void *record, const gconv_texts *words) {
  classify_settings *settings = record;
  gconv_common *common = &settings->job.common;
  if (is_of_pixels(words))
    return run_pixels(settings, words);
  gconv_classifying c = {.common = common, .cases = &settings->cases, .evaluate = settings->evaluate};
  gconv_set_log(common->quiet ? NULL : gconv_say_warning, NULL);
  gconv_status status = check_words(&c, settings, words);
  if (status != GCONV_OK)
    return gconv_say_end(status);
  const bool is_machine = gconv_svm_is_one(c.path);
  if (is_machine && !common->device)
    common->device = "auto";
  return is_machine ? gconv_classify_svm(&c) : gconv_classify_network(&c);
}

const gconv_command gconv_command_classify = {
    .name = "classify",
    .synopsis = "classify MODEL -i INPUT [-o OUTPUT] [OPTION...]",
    .help = "classify the rows of a table, windows, images or pixels by a trained network or support vector machine",
    .details =
        "MODEL is a network of gconv train or a chain of layers in ONNX, or a model of gconv svm or of LIBSVM.\n\n"
        "INPUT is a table, a signal, an image or a folder of images, as the network was trained. Predictions are\n"
        "CSV: case, class, probability; or the outputs of a network without classes. Labels after the columns are\n"
        "passed over.\n\n"
        "--evaluate compares with the labels: the column of a table, or the names of the images' folders. It prints\n"
        "the share that is right in %, and the confusion matrix: a row for each class, a column for each prediction.\n"
        "For more than 10 classes, it prints the most frequent mistakes, and only --json has the whole matrix.\n\n"
        "A model that was trained with --features names the class of each pixel: -o has maps of classes, as for\n"
        "filtered images: a file, a folder or a template. --evaluate compares them with masks, of the same names,\n"
        "also without -o: --evaluate MASKS, or -t MASKS. It also prints, for each class, F1 and IoU: the pixels in both\n"
        "map and mask, as a share of those in either. Without -i, the words after MODEL are images; with --evaluate\n"
        "and without -t, the last word names the masks.\n\n"
        "  gconv classify pixels.safetensors -i slides/ -o maps/ --evaluate masks/\n",
    .options = options,
    .record_bytes = GCONV_RECORD_BYTES(classify_settings, job.common),
    .begin = gconv_job_settings_begin,
    .end = gconv_job_settings_end,
    .words = GCONV_WORDS_FILES,
    .run = run,
};
