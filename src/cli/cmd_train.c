/* SPDX-License-Identifier: MIT */
/* gconv train: a network from cases, by backpropagation. */
#include "base/clock.h"
#include "base/ending.h"
#include "base/file.h"
#include "base/lists.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/memory_limit.h"
#include "cli/page.h"
#include "cli/sandbox.h"
#include "cli/telling.h"
#include "cli/terminal.h"
#include "cli/train.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum {
  PROGRESS_MS = 100, /* how often the line of progress is written */
  MEMORY_PARTS = 4   /* parts into which --memory is divided: one is for the values of a step */
};

/* ---- What was asked for ----------------------------------------------------------------------------------------------- */

static gconv_status check_options(const gconv_train_settings *settings) {
  const char *output = settings->common.output;
  if (!settings->net)
    return gconv_refuse("no network: say with --net which layers it has, such as --net 'dense 63 tanh, dense 26 "
                        "softmax' for 26 classes; gconv train --help has more");
  if (!output)
    return gconv_refuse("no output: name the file of the trained network with -o FILE.safetensors");
  if (strcmp(output, "-") == 0)
    return gconv_refuse("-o -: a network is a file: name one, FILE.safetensors");
  if (gconv_ends_in(output, ".onnx"))
    return gconv_refuse(
        "-o %s: training writes FILE.safetensors, and `gconv bank convert FILE.safetensors -o %s` then makes "
        "an ONNX model of it",
        output, output);
  if (!gconv_ends_in(output, ".safetensors"))
    return gconv_refuse("-o %s: a network is a file of safetensors: -o %s.safetensors", output, output);
  if (settings->common.plot && !gconv_ends_in(settings->common.plot, ".svg"))
    return gconv_refuse("--plot %s: the curves are drawn as SVG: --plot %s.svg", settings->common.plot,
                        settings->common.plot);
  return GCONV_OK;
}

static gconv_status check_outputs(const gconv_train_settings *settings, const gconv_texts *inputs) {
  GCONV_TRY(gconv_data_check_output("-o", settings->common.output, "safetensors", "a network", inputs));
  if (settings->common.plot)
    GCONV_TRY(gconv_data_check_output("--plot", settings->common.plot, "svg", "a plot", inputs));
  if (settings->common.report)
    GCONV_TRY(gconv_page_check(settings->common.report, inputs));
  return GCONV_OK;
}

/* ---- Preparing -------------------------------------------------------------------------------------------------------- */

/* Makes the network of --net. Images in pairs, and images of which patches are learned, may have any size. */
static gconv_status make_network(gconv_training_run *run) {
  const gconv_train_settings *settings = run->settings;
  const gconv_dataset_info *info = gconv_dataset_get_info(run->data.all);
  bool pairs = settings->cases.data.kind == GCONV_DATASET_PAIRS, any = pairs || settings->cases.data.patch > 0;
  return gconv_network_make(settings->net, (const int32_t[]){info->channels, any ? 0 : info->height, any ? 0 : info->width},
                            pairs ? 0 : info->outputs, (uint64_t)settings->cases.seed, &run->network);
}

static gconv_status create_trainer(gconv_training_run *run, const char *checkpoint, gconv_trainer **trainer) {
  const gconv_train_settings *settings = run->settings;
  gconv_training_options options = settings->training;
  options.epochs = (size_t)settings->epochs;
  options.patience = (size_t)settings->patience;
  options.seed = (uint64_t)settings->cases.seed;
  options.memory = run->settings->common.memory / MEMORY_PARTS;
  options.algorithm = settings->algorithm ? "exact" : NULL;
  bool images = settings->cases.data.kind == GCONV_DATASET_PAIRS || settings->cases.data.kind == GCONV_DATASET_CLASSES;
  options.normalize = settings->normalize == 1 || (settings->normalize == 0 && !images);
  options.stop = &gconv_interrupted;
  options.save_to = checkpoint;
  options.weights = run->weights;
  options.weight_count = settings->cases.class_weights.count;
  bool resume = run->settings->resume, there = access(checkpoint, F_OK) == 0;
  if (resume && !there && access(run->settings->common.output, F_OK) == 0)
    return gconv_refuse("--resume: there is no checkpoint %s of a stopped run, and %s is complete", checkpoint,
                        run->settings->common.output);
  if (resume && !there)
    gconv_say("--resume: there is no %s: training begins", checkpoint);
  options.resume_from = resume && there ? checkpoint : NULL;
  return gconv_trainer_create(run->device, &run->network, &options, gconv_data_cases(&run->data), run->data.validation,
                              trainer);
}

static gconv_status prepare(gconv_training_run *run, const char *checkpoint, gconv_trainer **trainer) {
  const gconv_train_settings *settings = run->settings;
  const char *device = settings->common.device ? settings->common.device : "cpu";
  const char *outputs[] = {settings->common.output, checkpoint, settings->common.plot, settings->common.report};
  if (settings->profile)
    GCONV_TRY(gconv_train_profile_begin(run)); /* before the sandbox, as CUPTI loads libraries */
  gconv_sandbox_files(&settings->common, outputs, sizeof outputs / sizeof *outputs, true);
  GCONV_TRY(gconv_device_open(device, gconv_settle_threads(settings->common.threads, settings->common.quiet), &run->device));
  if (strcmp(device, "cpu") == 0) /* not with CUDA, which reserves more address space than it uses memory */
    gconv_memory_limit_begin(settings->common.memory);
  GCONV_TRY(gconv_data_open(settings, &run->data));
  GCONV_TRY(check_outputs(settings, &run->data.paths));
  GCONV_TRY(make_network(run));
  GCONV_TRY(gconv_class_weights_read(&settings->cases.class_weights, &run->weights));
  return create_trainer(run, checkpoint, trainer);
}

/* ---- Epochs ----------------------------------------------------------------------------------------------------------- */

static size_t all_epochs(const gconv_training_run *run) {
  return run->settings->epochs > 0 ? (size_t)run->settings->epochs : GCONV_DEFAULT_EPOCHS;
}

static void tell_epoch(const gconv_telling *t, const gconv_training_run *run, const gconv_epoch *epoch) {
  gconv_tell(t, "epoch", "epoch %zu", epoch->number);
  gconv_tell_text(t, "/%zu", all_epochs(run));
  gconv_tell(t, "loss", "  loss %.4g", epoch->loss);
  gconv_tell_share(t, "accuracy", ", %.2f%% right", epoch->accuracy);
  gconv_tell_number(t, "validation_loss", "  validation %.4g", epoch->validation_loss);
  gconv_tell_share(t, "validation_accuracy", ", %.2f%% right", epoch->validation_accuracy);
}

static void describe_epoch(const gconv_training_run *run, const gconv_epoch *epoch, double seconds_left, char *text,
                           size_t size) {
  FILE *out = fmemopen(text, size, "w");
  if (!out)
    return;
  tell_epoch(&(gconv_telling){.out = out}, run, epoch);
  if (seconds_left >= 60)
    fprintf(out, "  %.0f:%02.0f left", floor(seconds_left / 60), fmod(floor(seconds_left), 60));
  else if (seconds_left >= 1)
    fprintf(out, "  %.0f s left", seconds_left);
  fclose(out);
}

static void print_epoch_json(const gconv_training_run *run, const gconv_epoch *epoch, double seconds) {
  json_t *json = json_object();
  tell_epoch(&(gconv_telling){.json = json}, run, epoch);
  gconv_json_put(json, "best", epoch->best);
  gconv_json_put(json, "seconds", seconds);
  gconv_tell_end(stdout, json, JSON_COMPACT);
}

/* On a terminal, replaces the line of progress. Elsewhere, prints a line for the first epoch and after each tenth of all. */
static void show_progress(const gconv_training_run *run, const gconv_epoch *epoch, double now, double begin, double *shown) {
  char text[300] = "";
  size_t all = all_epochs(run), tenth = (all + 9) / 10;
  double each = (now - begin) / 1000 / (double)run->epoch_count;
  bool terminal = gconv_terminal_can_erase();
  if (run->settings->common.quiet || run->settings->common.json)
    return;
  describe_epoch(run, epoch, each * (double)(all - epoch->number), text, sizeof text);
  if (terminal && now - *shown >= PROGRESS_MS) {
    gconv_progress_show(text);
    *shown = now;
  } else if (!terminal && (run->epoch_count == 1 || epoch->number % tenth == 0)) {
    fprintf(stderr, "%s\n", text);
  }
}

static gconv_status keep_epoch(gconv_training_run *run, const gconv_epoch *epoch) {
  gconv_epoch *epochs = gconv_grown(run->epochs, run->epoch_count, sizeof *epochs);
  if (!epochs)
    return gconv_no_memory();
  run->epochs = epochs;
  epochs[run->epoch_count++] = *epoch;
  if (epoch->best)
    run->best = *epoch;
  return GCONV_OK;
}

static bool save(const gconv_trainer *trainer, const char *checkpoint) {
  if (gconv_trainer_save(trainer, checkpoint) == GCONV_OK)
    return true;
  gconv_say("the checkpoint is not written: %s", gconv_last_error());
  return false;
}

/* Trains to the end, or until a signal comes. */
static gconv_status train(gconv_training_run *run, gconv_trainer *trainer) {
  double begin = gconv_now_ms(), shown = 0, now = begin;
  gconv_epoch epoch = {0};
  while (!epoch.ended && !gconv_interrupted) {
    GCONV_TRY(gconv_trainer_epoch(trainer, &epoch));
    run->done = epoch.number;
    if (epoch.interrupted)
      break;
    now = gconv_now_ms();
    GCONV_TRY(keep_epoch(run, &epoch));
    if (run->settings->common.json)
      print_epoch_json(run, &epoch, (now - begin) / 1000);
    show_progress(run, &epoch, now, begin, &shown);
  }
  gconv_progress_hide();
  run->seconds = (now - begin) / 1000;
  run->ended = epoch.ended;
  run->diverged = epoch.diverged;
  run->chosen = epoch.chosen;
  return GCONV_OK;
}

/* Leaves a checkpoint, and ends the program as the signal would. */
static int stop(const gconv_training_run *run, const gconv_trainer *trainer, const char *checkpoint) {
  if (save(trainer, checkpoint))
    gconv_say("stopped after %zu of %zu epochs: %s is written; the same command with --resume goes on", run->done,
              all_epochs(run), checkpoint);
  if (run->settings->profile)
    gconv_say("--profile reports whole runs only: there is no report of this one");
  fflush(stdout);
  gconv_interrupt_end();
  return GCONV_EXIT_FAILED;
}

/* ---- The end ---------------------------------------------------------------------------------------------------------- */

/* Makes the confusion matrix of the report. */
static gconv_status evaluate(gconv_training_run *run) {
  const gconv_dataset *data = run->data.validation ? run->data.validation : gconv_data_cases(&run->data);
  if (!run->settings->common.report || gconv_dataset_get_info(data)->class_count == 0)
    return GCONV_OK;
  return gconv_predict_all(&run->network, NULL, run->device, data, &run->confusion, NULL, NULL);
}

static gconv_status write_results(gconv_training_run *run) {
  const gconv_train_settings *settings = run->settings;
  GCONV_TRY(gconv_network_write(run->settings->common.output, &run->network));
  if (settings->common.plot)
    GCONV_TRY(gconv_page_write(settings->common.plot, gconv_train_put_plot, run));
  GCONV_TRY(evaluate(run));
  return settings->common.report ? gconv_page_write(settings->common.report, gconv_train_put_report, run) : GCONV_OK;
}

static double cases_a_second(const gconv_training_run *run) {
  size_t cases = gconv_dataset_get_info(gconv_data_cases(&run->data))->cases;
  return run->seconds > 0 ? (double)cases * (double)run->epoch_count / run->seconds : 0;
}

static void tell_best(const gconv_telling *t, const gconv_epoch *best) {
  gconv_tell(t, "best_epoch", "  best epoch  %zu\n", best->number);
  if (t->json)
    return;
  fprintf(t->out, "  training    loss %.6g", best->loss);
  if (!isnan(best->accuracy))
    fprintf(t->out, ", %.2f%% right, while it learned", 100 * best->accuracy);
  if (!isnan(best->validation_loss))
    fprintf(t->out, "\n  validation  loss %.6g", best->validation_loss);
  if (!isnan(best->validation_accuracy))
    fprintf(t->out, ", %.2f%% right", 100 * best->validation_accuracy);
  fputc('\n', t->out);
}

static void tell_summary(const gconv_telling *t, const gconv_training_run *run) {
  const gconv_device_info *device = gconv_device_get_info(run->device);
  const char *chosen = run->chosen ? run->chosen : "none";
  char algorithm[64];
  snprintf(algorithm, sizeof algorithm, "%.*s", (int)strcspn(chosen, ","), chosen);
  gconv_tell(t, "network", "%s: ", run->settings->common.output);
  gconv_tell(t, "ended", "%s\n", run->ended);
  gconv_tell_json(t, "epochs", run->epoch_count);
  if (run->best.number > 0)
    tell_best(t, &run->best);
  else
    gconv_tell_json(t, "best_epoch", json_null());
  gconv_tell(t, "device", "  device      %s", device->name);
  gconv_tell(t, "description", " (%s), ", device->description);
  gconv_tell(t, "algorithm", "algorithm %s\n", algorithm);
  gconv_tell_json(t, "chosen", run->chosen);
  gconv_tell(t, "seconds", "  time        %.2f s, ", run->seconds);
  gconv_tell(t, "cases_a_second", "%.0f cases a second\n", cases_a_second(run));
  gconv_train_profile_tell(t, run);
}

static void print_summary(const gconv_training_run *run) {
  json_t *json = run->settings->common.json ? json_object() : NULL;
  tell_summary(&(gconv_telling){stdout, json}, run);
  gconv_tell_end(stdout, json, JSON_COMPACT);
}

/* Takes the best weights, and writes what was asked for. */
static int finish(gconv_training_run *run, const gconv_trainer *trainer, const char *checkpoint, bool had_checkpoint) {
  if (run->diverged && run->best.number == 0 && !had_checkpoint) { /* only the random weights of the beginning exist */
    gconv_say("training diverged in its first epoch, as the loss or a weight is no longer finite, so that nothing is "
              "written: take a smaller rate, or normalise the inputs");
    return GCONV_EXIT_FAILED;
  }
  if (run->diverged)
    gconv_say("%s", run->ended);
  gconv_network_free(&run->network);
  gconv_status status = gconv_trainer_network(trainer, false, &run->network);
  GCONV_THEN(status, write_results(run));
  if (run->settings->profile)
    GCONV_THEN(status, gconv_train_profile_end(run));
  if (status != GCONV_OK)
    return gconv_say_failed(GCONV_EXIT_FAILED);
  if (access(checkpoint, F_OK) == 0) /* a later --resume would go back to the weights of the checkpoint */
    unlink(checkpoint);
  if (run->settings->common.json || !run->settings->common.quiet)
    print_summary(run);
  return run->diverged ? GCONV_EXIT_PARTLY : GCONV_EXIT_OK;
}

/* ---- The whole -------------------------------------------------------------------------------------------------------- */

static void print_beginning(const gconv_training_run *run, const char *checkpoint) {
  char text[200];
  const gconv_dataset_info *info = gconv_dataset_get_info(gconv_data_cases(&run->data));
  if (run->settings->common.quiet || run->settings->common.json)
    return;
  gconv_data_describe(info, run->settings->cases.data.kind, text, sizeof text);
  gconv_print(stderr, "%s: %s", run->settings->cases.data.inputs, text);
  if (run->data.validation)
    fprintf(stderr, "; %zu for validation", gconv_dataset_get_info(run->data.validation)->cases);
  fputc('\n', stderr);
  if (run->settings->cases.data.kind == GCONV_DATASET_PIXELS)
    gconv_data_print_pixels(run->settings->cases.data.targets, info);
  if (!run->settings->resume && access(checkpoint, F_OK) == 0)
    gconv_say("warning: there is a checkpoint of a stopped run, %s: --resume would continue it", checkpoint);
}

static int run_training(gconv_training_run *run, const char *checkpoint) {
  gconv_trainer *trainer = NULL;
  bool resumed = run->settings->resume && access(checkpoint, F_OK) == 0;
  gconv_status status = gconv_memory_limit_explain(run->settings->common.memory, prepare(run, checkpoint, &trainer));
  if (status != GCONV_OK)
    return gconv_say_failed(status == GCONV_UNSUPPORTED || status == GCONV_BAD_ARGUMENT ? GCONV_EXIT_USAGE
                                                                                        : GCONV_EXIT_FAILED);
  print_beginning(run, checkpoint);
  gconv_interrupt_catch(true);
  status = train(run, trainer);
  int result = GCONV_EXIT_FAILED;
  status = gconv_memory_limit_explain(run->settings->common.memory, status);
  if (status != GCONV_OK)
    gconv_say("%s", gconv_last_error());
  else if (!run->ended)
    result = stop(run, trainer, checkpoint);
  else {
    gconv_interrupt_catch(false);
    result = finish(run, trainer, checkpoint, resumed);
  }
  gconv_interrupt_catch(false);
  gconv_trainer_free(trainer);
  return result;
}

#define OPTION(...) GCONV_OPTION(gconv_train_settings, __VA_ARGS__)
static const gconv_option options[] = {
    GCONV_NO_SANDBOX_ROW,
    GCONV_HEADING("Data"),
    OPTION(0, "table", "FILE", text, table, .also = "csv data",
           .help = "cases are rows of CSV, LIBSVM, FANN, \"Y, X\" text, .npy or .npz; known by its content"),
    OPTION(0, "classes", "FOLDER", text, classes, .help = "cases are images, in a folder for each class"),
    OPTION('i', "input", "PATH", texts, common.inputs, .help = "cases are images: one, or a folder of them"),
    OPTION('t', "targets", "PATH", once, cases.targets, .also = "target labels",
           .help = "the target images of -i, of the same names; of a table or signal: a file with the targets"),
    OPTION(0, "signal", "FILE", text, signal,
           .help = "cases are windows of a signal, .npy or raw; -t has a label or targets for each window, or each sample"),
    GCONV_WINDOWS_ROWS(gconv_train_settings, cases.windows, cases.raw),
    GCONV_LABEL_ROW(gconv_train_settings, cases),
    GCONV_APPROXIMATED_ROWS(gconv_train_settings, cases),
    GCONV_TABLE_ROWS(gconv_train_settings, cases),
    GCONV_ONE_HOT_ROW(gconv_train_settings, cases),
    OPTION(0, "patch", "N", integer, cases.data.patch, .least = 1, .most = 32768,
           .help = "N x N pixels of each image, from random places, which differ in each epoch; default: whole images"),
    GCONV_FEATURES_ROWS(gconv_train_settings, cases),
    OPTION(0, "augment", NULL, flag, cases.data.augment, .help = "mirror images at random, and rotate them by 90 degrees"),
    GCONV_GRAY_ROW(gconv_train_settings, cases),
    OPTION(0, "normalize", "yes|no", word, normalize, .also = "normalise standardize", .words = "yes|no", .least = 1,
           .help = "subtract the mean of each column or channel, and divide by its standard deviation; the network stores "
                   "both; default: yes, but no for images"),
    OPTION(0, "validate", "P%|PATH", text, validate, .also = "validation",
           .help = "measure each epoch with cases that are not learned: a share of the data, or other data, as "
                   "PATH[:TARGETS]; the weights of the best epoch by this measure are kept"),
    GCONV_HEADING("Network"),
    OPTION(0, "net", "TEXT", text, net, .also = "network layers",
           .help = "the layers: 'dense 63 tanh, dense 26 softmax', '4*(conv 16 3x3 relu), conv 1 3x3, residual'"),
    OPTION('o', "output", "FILE", once, common.output, .help = "the trained network: FILE.safetensors"),
    GCONV_WEIGHT_ROW(gconv_train_settings, cases),
    GCONV_HEADING("Training"),
    OPTION(0, "epochs", "N", integer, epochs, .least = 1, .most = INT_MAX,
           .help = "how often all cases are learned; default: 100"),
    OPTION(0, "batch", "N|full", batch, training.batch, .also = "batch-size", .help = "cases in a step; default: 32"),
    OPTION(0, "rate", "R", number, training.rate, .also = "lr learning-rate",
           .help = "the size of steps; default: 0.001 for adam, 0.1 for sgd, 0.02 for momentum, 0.01 for rprop"),
    OPTION(0, "optimizer", "NAME", word, training.optimizer, .also = "optimiser",
           .words = &(GCONV_EACH_OPTIMIZER(GCONV_BARRED))[1], .help = "adam (default), sgd, momentum or rprop"),
    OPTION(0, "momentum", "M", number, training.momentum, .help = "the coefficient of momentum; default: 0.9"),
    OPTION(0, "loss", "NAME", word, training.loss, .words = &(GCONV_EACH_LOSS(GCONV_BARRED))[1], .least = 1,
           .help = "the loss to minimise: sse (half the sum of squares), mse, mae or cross-entropy; default: "
                   "cross-entropy after softmax, else mse"),
    OPTION(0, "schedule", "NAME", word, training.schedule, .words = &(GCONV_EACH_SCHEDULE(GCONV_BARRED))[1],
           .help = "how the rate changes: constant (default), linear or cosine to 0, step (a tenth after each third)"),
    OPTION(0, "weight-decay", "D", number, training.weight_decay,
           .help = "each step subtracts rate * D * w from a weight w; default: 0"),
    OPTION(0, "elimination", "L[:W0]", elimination, training,
           .help = "weight elimination: adds L * sum of (w/W0)^2 / (1 + (w/W0)^2) to the loss; default: 0, and W0 1"),
    OPTION(0, "patience", "N", integer, patience, .least = 1, .most = INT_MAX,
           .help = "end after N epochs without a smaller loss; default: never"),
    OPTION(0, "stop-error", "E", number, training.stop_error, .help = "end once the loss is no more than E; default: never"),
    GCONV_SEED_ROW(gconv_train_settings, cases),
    OPTION('a', "algorithm", "NAME", word, algorithm, .words = "auto|exact",
           .help = "auto (default), the fastest, or exact: the same bytes on every device"),
    OPTION(0, "math", "MODE", word, training.math, .word_at = gconv_word_math_at, .synonyms = gconv_math_words,
           .help = "precision to which products may be rounded: fp32 (default) or tf32, on GPUs that gain by it"),
    OPTION(0, "save-every", "SECONDS", positive, training.save_seconds, .near = "checkpoint",
           .help = "how often a checkpoint is written beside the output, from which --resume goes on; default: 120"),
    OPTION(0, "resume", NULL, flag, resume, .also = "continue",
           .help = "go on with a run that was stopped, from FILE.safetensors.checkpoint: the result is the same"),
    OPTION(
        0, "memory", "SIZE", count, common.memory, .takes = "a number of bytes, such as 2G",
        .help =
            "memory of the host that training may take in all; k, M and G may follow. Numbers beyond it are kept in a file "
            "in $TMPDIR, and images decoded anew. Default: 1 GiB for each table, and for decoded images"),
    OPTION('d', "device", "NAME", text, common.device, .words = "cpu|cuda", .synonyms = gconv_device_words,
           .help = "cpu (default), cuda or cuda:N"),
    GCONV_THREADS_ROW,
    GCONV_HEADING("Reports"),
    OPTION(0, "report", "FILE", text, common.report, .also = "html",
           .help = "a page of HTML in one file: curves, confusion matrix, learned filters, examples of pairs"),
    OPTION(0, "plot", "FILE", text, common.plot, .help = "the curves of loss and accuracy: FILE.svg"),
    OPTION(0, "profile", NULL, flag, profile,
           .help = "also report which kernels the GPU ran, how long each took, and what limits it; with --plot, draw them "
                   "in FILE-profile.svg"),
    OPTION('v', "verbose", NULL, flag, common.verbose, .excludes = "quiet", .also = "explain",
           .help = "also print which device and algorithm were chosen, and why"),
    GCONV_CASES_JSON_ROW,
    GCONV_QUIET_ROW,
    GCONV_OPTIONS_END,
};

static int run(void *record, const gconv_texts *words) {
  gconv_train_settings *settings = record;
  gconv_training_run training = {.settings = settings};
  int result = GCONV_EXIT_USAGE;
  char *checkpoint = gconv_format_text("%s.checkpoint", settings->common.output ? settings->common.output : "");
  gconv_status status = checkpoint ? gconv_data_take_words(settings, words) : gconv_no_memory();
  GCONV_THEN(status, check_options(settings));
  GCONV_THEN(status, gconv_data_choose(settings));
  if (status == GCONV_OK)
    result = run_training(&training, checkpoint);
  else
    gconv_say("%s", gconv_last_error());
  gconv_class_weights_free(training.weights, settings->cases.class_weights.count);
  gconv_confusion_free(&training.confusion);
  gconv_network_free(&training.network);
  gconv_data_close(&training.data);
  gconv_device_close(training.device);
  free(training.epochs);
  free(training.kernels);
  free(checkpoint);
  return result;
}

const gconv_command gconv_command_train = {
    .name = "train",
    .synopsis = "train DATA --net LAYERS -o FILE.safetensors [OPTION...]",
    .help = "train a network by backpropagation: on a table, images by class, images in pairs, or a signal",
    .details =
        "DATA is one of: --table FILE, --classes FOLDER, -i BEFORE -t AFTER, --signal FILE --windows S:HOP -t FILE, or\n"
        "the pixels of images that masks label, -i IMAGES -t MASKS --features LIST. A word without an option is a table\n"
        "if it names a file, or images by class if it names a folder. A second word is what -t names.\n\n"
        "Layers of --net, with commas between: dense K, conv K RxS, conv K RxS/STRIDE, mean, residual, N*(LAYERS);\n"
        "after dense and conv an activation: relu, leaky=S, sigmoid=S, tanh, softmax (docs/learning.md).\n\n"
        "  gconv train iris.csv --label species --net 'dense 16 tanh, dense 3 softmax' -o iris.safetensors\n"
        "  gconv train --classes photos/ --patch 64 --net 'conv 16 5x5/2 relu, conv 32 3x3/2 relu, mean, dense 10\n"
        "    softmax' --validate 20% -o photos.safetensors --report photos.html\n"
        "  gconv train -i noisy/ -t clean/ --patch 64 --net '4*(conv 16 3x3 relu), conv 1 3x3, residual'\n"
        "    -o d.safetensors\n\n"
        "The weights of the epoch with the smallest loss are kept: the loss of the validation, if there is one. Ctrl-C\n"
        "leaves a checkpoint beside the output, from which --resume goes on; it is also written every two minutes.\n\n"
        "Exit status: 0 if all went well, 1 if training failed, 2 if the request was wrong, 3 if training diverged, and\n"
        "the best weights before were written.\n",
    .more = gconv_data_print_features,
    .options = options,
    .record_bytes = GCONV_RECORD_BYTES(gconv_train_settings, common),
    .words = GCONV_WORDS_ANY,
    .run = run,
};
