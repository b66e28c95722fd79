/* SPDX-License-Identifier: MIT */
/* The part of the program of arguments.py that is the same whatever the headers declare: what is right of each kind. */
#include "base/status.h"
#include "gconv_classify.h"
#include "gconv_embed.h"
#include "gconv_jobs.h"
#include "gconv_learn.h"
#include "gconv_science.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Wrong arguments are meant. */
#pragma GCC diagnostic ignored "-Wformat"
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-zero-length"
#pragma GCC diagnostic ignored "-Wnonnull"

/* ---- What is right ---- */

static float weights[9] = {0, 1, 0, 1, -4, 1, 0, 1, 0};
static uint8_t samples[6 * 8 * 3], results[6 * 8 * 3];

static gconv_image picture = {.type = GCONV_U8,
                              .frames = 1,
                              .height = 6,
                              .width = 8,
                              .channels = 3,
                              .row_bytes = 24,
                              .plane_bytes = 144,
                              .data = samples};
static gconv_image result = {.type = GCONV_U8,
                             .frames = 1,
                             .height = 6,
                             .width = 8,
                             .channels = 3,
                             .row_bytes = 24,
                             .plane_bytes = 144,
                             .data = results};
static gconv_image unallocated = {.type = GCONV_U8, .frames = 1, .height = 6, .width = 8, .channels = 3};
static gconv_image spare;
static gconv_array array_in = {samples, GCONV_U8, {1, 3, 6, 8}, {144, 1, 24, 3}};
static gconv_strided strided_in = {samples, GCONV_ELEMENT_U8, {1, 3, 6, 8}, {144, 1, 24, 3}};
static gconv_strided strided_out = {results, GCONV_ELEMENT_U8, {1, 3, 6, 8}, {144, 1, 24, 3}};
static gconv_array array_out = {results, GCONV_U8, {1, 3, 6, 8}, {144, 1, 24, 3}};
static gconv_filters filters;
static gconv_options options;
static gconv_operation *operation, *features_operation;
static gconv_device *device;
static gconv_plan *plan;
static gconv_bank bank = {.name = "bank", .filters = 1, .channels = 1, .rows = 3, .columns = 3, .weights = weights};
static gconv_bank_file *file;
static gconv_layer layer = {.bank = &bank};
static gconv_network_options network;
static gconv_area area = {.width = 4, .height = 4};
static const gconv_format_info *png;
static uint8_t png_bytes[512];
static gconv_bytes_in bytes_in = {.data = png_bytes};
static gconv_bytes_out bytes_out;
static gconv_compared compared = {.path = "in.png"};
static gconv_read_options read_options;
static gconv_write_options write_options;
static gconv_compare_options compare_options;
static const double percentile_items[GCONV_STATS_PERCENTILES] = {50};
static gconv_stats_options stats_options = {.percentiles = percentile_items, .percentile_count = 1};
static gconv_volume_options volume_options;
static gconv_deconvolve_options deconvolve_options = {.iterations = 1};
static void report_stats(size_t index, gconv_status status, const gconv_stats *stats, const char *error, void *user) {
  (void)index, (void)status, (void)stats, (void)error, (void)user;
}
static gconv_bank_sheet sheet;
static char *spec_items[] = {"in.png"};
static gconv_texts specs = {spec_items, 1};
static gconv_inputs inputs;
static gconv_outputs outputs;
static gconv_naming naming = {.output = "out.png", .filters = &filters};
static gconv_shard shard, undivided = {1, 1};
static gconv_manifest *manifest;
static gconv_message message;
static gconv_batch batch;
static gconv_network net;
static float three_numbers[3];
static gconv_network_tensor numbers = {.type = "float32", .axes = 1, .shape = {3}, .data = three_numbers};
static gconv_dataset_options dataset_options = {.inputs = "table.csv"};
static gconv_dataset *dataset;
static const gconv_class_weight weight = {"a", 2};
static gconv_training_options training_options = {.epochs = 3, .weights = &weight, .weight_count = 1};
static gconv_trainer *trainer;
static float noise_samples[64];
static gconv_image noise_picture = {.type = GCONV_F32,
                                    .frames = 1,
                                    .height = 8,
                                    .width = 8,
                                    .channels = 1,
                                    .row_bytes = 32,
                                    .plane_bytes = 256,
                                    .data = noise_samples};
static gconv_compared noise = {.path = "noise.pfm"};
static gconv_fit fit = {.rows = 3, .columns = 3};
static const size_t case_number;
static float floats[8];
static double doubles[8];
static int32_t classes[2];
static const gconv_input_rows input_rows = {&picture, 0};
static const gconv_svm_results svm_results = {.classes = classes, .values = doubles, .probabilities = doubles};
static const int32_t input_of_net[3] = {2, 1, 1};
static uint16_t class_numbers[8];
static const char *const class_names[] = {"1", "2"};
static gconv_svm_options svm_options = {.weights = &weight, .weight_count = 1};
static gconv_svm *svm;

/* ---- What is wrong ---- */

static const gconv_image no_picture = {.type = GCONV_U8, .frames = 1, .height = 6, .width = 8, .channels = 3};
static const gconv_format_info no_format;
static const gconv_bank no_bank;
static const gconv_class_weight no_weight;
static const gconv_bank huge_bank = {
    .filters = INT32_MAX, .channels = INT32_MAX, .rows = 3, .columns = 3, .weights = weights};
static gconv_layer bad_layers[] = {{.kind = 99},
                                   {.kind = -1},
                                   {.bank = NULL},
                                   {.bank = (gconv_bank *)&no_bank},
                                   {.bank = (gconv_bank *)&huge_bank},
                                   {.bank = &bank, .padding = 99},
                                   {.bank = &bank, .activation = 99},
                                   {.bank = &bank, .stride_y = -1},
                                   {.bank = &bank, .groups = INT32_MIN},
                                   {.bank = &bank, .slope = NAN}};
static const gconv_filters no_filters;
static const gconv_inputs no_inputs = {.count = 1};
static const gconv_outputs no_outputs = {.paths = {NULL, 1}};
static char long_text[100000];

/* ---- Calls ---- */

static const char *current = "";
static int mistakes;

static void report(const gconv_report *r, void *user) {
  (void)r;
  (void)user;
}

/* Begins a call, whose description a crash prints. */
static void begin(const char *what) {
  current = what;
  message.text[0] = '\0';
  gconv_set_error(GCONV_OK, "");
}

static void mistake(const char *why, const char *text) {
  printf("%s: %s%s%s\n", current, why, *text ? ": " : "", text);
  mistakes++;
}

/* Looks at the end of a call that returns a status. `must`: it must not succeed. `null`: `name` is NULL. */
static void refused(const char *name, gconv_status status, bool must, bool null) {
  const char *text = message.text[0] ? message.text : gconv_last_error();
  if (must && status == GCONV_OK)
    mistake("is not refused", "");
  else if (must && null && status != GCONV_BAD_ARGUMENT)
    mistake("has another status than GCONV_BAD_ARGUMENT", text);
  else if (must && null && !strstr(text, name))
    mistake("is refused, but the text does not name the argument", text);
  else if (status != GCONV_OK && strncmp(current, "gconv_complain:", 15) != 0 && !*text)
    mistake("is refused without a text", "");
}

static void tell(int number) {
  char line[256];
  int size = snprintf(line, sizeof line, "signal %d in %s\n", number, current);
  ssize_t ignored = write(STDERR_FILENO, line, (size_t)size);
  (void)ignored;
  _exit(1);
}

static void need(gconv_status status, const char *what) {
  if (status == GCONV_OK)
    return;
  fprintf(stderr, "%s: %s%s\n", what, gconv_last_error(), message.text);
  exit(1);
}

/* A table of two columns and three classes, a network for it, its trainer, and a fit of a picture to itself. */
static void set_up_learning(void) {
  static const char *const names[] = {"a", "b", "c"};
  FILE *table = fopen("table.csv", "w");
  for (int i = 0; table && i < 12; i++)
    fprintf(table, "%d,%d,%s\n", i, 2 * i, names[i % 3]);
  if (!table || fclose(table) != 0)
    exit(1);
  need(gconv_dataset_open(&dataset_options, &dataset), "data set");
  need(gconv_network_make("dense 3 softmax", input_of_net, 3, 1, &net), "network");
  need(gconv_operation_features("gaussian 1", 1, &features_operation), "features");
  net.classes = calloc(3, sizeof *net.classes);
  net.class_count = 3;
  for (size_t i = 0; i < 3; i++)
    net.classes[i] = strdup(names[i]);
  net.mean = calloc(2, sizeof *net.mean);
  net.mean_count = 2;
  need(gconv_network_write("net.safetensors", &net), "net.safetensors");
  need(gconv_trainer_create(device, &net, &training_options, dataset, NULL, &trainer), "trainer");
  for (size_t i = 0; i < 64; i++)
    noise_samples[i] = (float)(i * i * 37 % 101) / 101;
  need(gconv_image_write("noise.pfm", NULL, &noise_picture), "noise.pfm");
  need(gconv_fit_add(&fit, device, &noise, &noise, 0), "fit");
  svm_options.probabilities = true;
  need(gconv_svm_train(&svm_options, dataset, device, &svm), "svm");
  need(gconv_svm_write("svm.model", svm), "svm.model");
}

static void set_up(void) {
  char folder[] = "/tmp/gconv-arguments-XXXXXX";
  signal(SIGSEGV, tell);
  signal(SIGBUS, tell);
  signal(SIGFPE, tell);
  signal(SIGABRT, tell);
  if (!mkdtemp(folder) || chdir(folder) != 0)
    exit(1);
  memset(long_text, 'x', sizeof long_text - 1);
  options = gconv_options_default();
  png = gconv_format_by_name("png");
  need(gconv_image_write("in.png", NULL, &picture), "in.png");
  write_options.format = png;
  need(gconv_image_encode(&bytes_out, &write_options, &picture), "bytes");
  if (bytes_out.size > sizeof png_bytes)
    exit(1);
  memcpy(png_bytes, bytes_out.data, bytes_in.size = bytes_out.size);
  need(gconv_bank_write("bank.txt", NULL, &bank), "bank.txt");
  need(gconv_bank_file_open("bank.txt", NULL, &file, NULL), "bank file");
  need(gconv_filters_read("sobel_x", NULL, &filters), "filters");
  need(gconv_operation_filters(&filters, &options, &operation), "operation");
  need(gconv_device_open("cpu", 2, &device), "device");
  need(gconv_plan_create(device, &picture, operation, 0, &plan), "plan");
  need(gconv_plan_execute(plan, &picture, &result, 1, NULL), "result");
  need(gconv_inputs_find(&specs, false, "-", &inputs, &message), "inputs");
  need(gconv_outputs_name(&inputs, &naming, &outputs, &message), "outputs");
  need(gconv_manifest_open(&outputs, &shard, 1, NULL, &manifest, &message), "manifest");
  set_up_learning();
  batch = (gconv_batch){
      .inputs = &inputs, .outputs = &outputs, .operation = operation, .device = "cpu", .threads = 1, .report = report};
}

/* What no single argument tells: outputs that are not empty, numbers of cases, a fit without pairs. */
static void give_more(void) {
  gconv_fit empty = {.rows = 3, .columns = 3};
  gconv_fit_result fitted = {0};
  const size_t beyond = 12;
  begin("gconv_network_read: network is not empty");
  refused("network", gconv_network_read("net.safetensors", &net), true, true);
  begin("gconv_network_import: network is not empty");
  refused("network", gconv_network_import("net.safetensors", "softmax", &net), true, true);
  begin("gconv_network_make: network is not empty");
  refused("network", gconv_network_make("dense 3", input_of_net, 3, 1, &net), true, true);
  begin("gconv_trainer_network: network is not empty");
  refused("network", gconv_trainer_network(trainer, false, &net), true, true);
  begin("gconv_dataset_read: a case beyond the last");
  refused("case", gconv_dataset_read(dataset, 0, &beyond, 1, floats, floats), true, true);
  begin("gconv_fit_solve: no pair was added");
  refused("pair", gconv_fit_solve(&empty, device, &fitted), true, true);
}

static void tear_down_learning(void) {
  gconv_fit_free(&fit);
  gconv_svm_free(svm);
  gconv_trainer_free(trainer);
  gconv_network_free(&net);
  gconv_operation_free(features_operation);
  gconv_dataset_free(dataset);
  if (unlink("table.csv") != 0 || unlink("net.safetensors") != 0 || unlink("svm.model") != 0 || unlink("noise.pfm") != 0)
    mistake("the files of learning are gone", "");
  unlink("out.safetensors");
  unlink("out.checkpoint");
  unlink("out.model");
}

static void tear_down(void) {
  tear_down_learning();
  gconv_image_free(&unallocated);
  gconv_image_free(&spare);
  free(bytes_out.data);
  gconv_manifest_close(manifest);
  gconv_outputs_free(&outputs);
  gconv_inputs_free(&inputs);
  gconv_plan_free(plan);
  gconv_device_close(device);
  gconv_operation_free(operation);
  gconv_filters_free(&filters);
  gconv_bank_file_close(file);
  char folder[PATH_MAX];
  if (!getcwd(folder, sizeof folder) || unlink("in.png") != 0 || unlink("bank.txt") != 0)
    mistake("the files are gone", "");
  unlink("out.png");
  unlink("out.txt");
  unlink("\xff\xfe\x9b[2J");
  unlink(".gconv-manifest");
  if (chdir("/") != 0 || rmdir(folder) != 0)
    mistake("files are left", folder);
}
