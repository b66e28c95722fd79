/* SPDX-License-Identifier: MIT */
#include "cli/bank_job.h"
#include "batch/template.h"
#include "cli/bank.h"
#include "cli/bench.h"
#include "cli/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Banks ---------------------------------------------------------------------------------------------------------- */

/* The bank of one layer. */
static gconv_status read_bank(const gconv_texts *specs, const char *syntax, gconv_bank *bank, gconv_message *message) {
  if (specs->count == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "--then: no bank follows it: -f BANK --then -f BANK");
  bool is_bank = (gconv_bank_is_syntax(syntax) && strcmp(syntax, "npy") != 0) || gconv_bank_is_one(specs->items[0]);
  for (size_t i = 1; i < specs->count; i++)
    if (is_bank || gconv_bank_is_one(specs->items[i]))
      return gconv_complain(message, GCONV_BAD_ARGUMENT,
                            "-f %s -f %s: a layer has one bank: put --then between them to apply one after the other",
                            specs->items[0], specs->items[i]);
  gconv_status status =
      is_bank ? gconv_bank_read(specs->items[0], syntax, bank) : gconv_bank_stack_specs(specs, syntax, bank);
  return status == GCONV_OK ? GCONV_OK : gconv_complain(message, status, "%s", gconv_last_error());
}

static gconv_status read_banks(const gconv_settings *settings, gconv_bank_job *job, gconv_message *message) {
  job->count = settings->layer_count + 1;
  job->banks = calloc(job->count, sizeof *job->banks);
  job->layers = calloc(job->count, sizeof *job->layers);
  if (!job->banks || !job->layers)
    return gconv_complain_memory(message);
  for (size_t i = 0; i < job->count; i++) {
    bool last = i == settings->layer_count;
    const gconv_layer_settings *before = last ? NULL : &settings->layers[i];
    GCONV_TRY(read_bank(last ? &settings->filters : &before->filters, last ? settings->syntax : before->syntax,
                        &job->banks[i], message));
    job->layers[i] = last ? settings->layer : before->layer;
    job->layers[i].bank = &job->banks[i];
  }
  return GCONV_OK;
}

/* Options that only images have. */
static gconv_status check_options(const gconv_settings *settings, gconv_message *message) {
  const gconv_options *options = &settings->convolution;
  const char *option = options->border != GCONV_BORDER_ZERO      ? "--border (banks see zeros outside the image)"
                       : options->linear                         ? "--linear"
                       : options->alpha != GCONV_ALPHA_KEEP      ? "--alpha"
                       : options->combine == GCONV_COMBINE_STACK ? "--combine stack (the outputs are one already)"
                                                                 : NULL;
  if (!option)
    return GCONV_OK;
  return gconv_complain(message, GCONV_BAD_ARGUMENT, "%s is not for banks: apply it in a run of its own", option);
}

gconv_status gconv_bank_job_read(const gconv_settings *settings, gconv_bank_job *job, gconv_message *message) {
  GCONV_TRY(check_options(settings, message));
  for (size_t i = 0; i < settings->layer_count && settings->race; i++)
    if (settings->layers[i].layer.algorithm)
      return gconv_complain(message, GCONV_BAD_ARGUMENT,
                            "--algorithm all times all layers together, but layer %zu has an --algorithm of its own", i + 1);
  GCONV_TRY(read_banks(settings, job, message));
  const gconv_options *convolution = &settings->convolution;
  job->batch = (gconv_bank_batch){.layers = job->layers,
                                  .layer_count = job->count,
                                  .gray = convolution->gray,
                                  .nhwc = settings->nhwc,
                                  .batch = settings->batch,
                                  .options = {.mean = settings->mean,
                                              .std = settings->std,
                                              .mean_count = settings->mean_count,
                                              .std_count = settings->std_count,
                                              .math = (gconv_math)settings->math,
                                              .algorithm = convolution->algorithm,
                                              .without = convolution->without,
                                              .workspace_bytes = convolution->workspace_bytes,
                                              .combine = convolution->combine}};
  return GCONV_OK;
}

void gconv_bank_job_free(gconv_bank_job *job) {
  for (size_t i = 0; job->banks && i < job->count; i++)
    gconv_bank_free(&job->banks[i]);
  free(job->banks);
  free(job->layers);
  *job = (gconv_bank_job){0};
}

/* ---- Names ---------------------------------------------------------------------------------------------------------- */

/* What {filter} stands for: the names of the filters, or their numbers, with as many digits as the last one has. */
static gconv_status make_labels(const gconv_bank *bank, gconv_filters *labels, gconv_message *message) {
  labels->items = calloc((size_t)bank->filters, sizeof *labels->items);
  if (!labels->items)
    return gconv_complain_memory(message);
  labels->count = (size_t)bank->filters;
  int digits = snprintf(NULL, 0, "%d", bank->filters - 1);
  for (int32_t k = 0; k < bank->filters; k++) {
    char number[16];
    snprintf(number, sizeof number, "%0*d", digits, k);
    labels->items[k].name = strdup(bank->names && bank->names[k] ? bank->names[k] : number);
    if (!labels->items[k].name)
      return gconv_complain_memory(message);
  }
  return GCONV_OK;
}

/* One result an input. */
static gconv_status make_label(const gconv_bank *bank, gconv_filters *labels, gconv_message *message) {
  labels->items = calloc(1, sizeof *labels->items);
  if (!labels->items)
    return gconv_complain_memory(message);
  labels->count = 1;
  labels->items[0].name = strdup(bank->name && bank->name[0] ? bank->name : "bank");
  return labels->items[0].name ? GCONV_OK : gconv_complain_memory(message);
}

/* Whether -o is a file, rather than a folder or a template. */
static bool is_one_file(const char *output) {
  struct stat status;
  size_t length = strlen(output);
  if (length == 0 || output[length - 1] == '/' || gconv_template_is_one(output))
    return false;
  char *path = gconv_template_plain(output);
  bool folder = path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
  free(path);
  return !folder;
}

static gconv_tone choose_tone(const gconv_settings *settings, const gconv_format_info *format) {
  const gconv_options *options = &settings->convolution;
  gconv_tone tone = {.scale = options->scale, .offset = options->offset, .range = options->range};
  tone.type = gconv_format_type(format, settings->depth < 0 ? GCONV_U8 : (gconv_type)settings->depth);
  bool given = settings->tone_given || options->scale != 1 || options->offset != 0;
  tone.fit = !given && tone.type != GCONV_F32;
  return tone;
}

static gconv_presentation choose_presentation(const gconv_settings *settings, const gconv_format_info *format) {
  gconv_combine combine = settings->convolution.combine;
  if (settings->mosaic)
    return GCONV_PRESENT_MOSAIC;
  if (format->multiframe)
    return GCONV_PRESENT_TENSOR;
  return combine == GCONV_COMBINE_NONE     ? GCONV_PRESENT_PICTURES
         : combine == GCONV_COMBINE_ARGMAX ? GCONV_PRESENT_LABELS
                                           : GCONV_PRESENT_COMBINED;
}

/* Arrays hold what the network yields, and labels have their colours: values are made samples of other pictures alone. */
static gconv_status check_tone(const gconv_settings *settings, gconv_presentation presentation, gconv_message *message) {
  const gconv_options *options = &settings->convolution;
  bool tensor = presentation == GCONV_PRESENT_TENSOR, labels = presentation == GCONV_PRESENT_LABELS;
  const char *option = options->scale != 1                                                   ? "--scale"
                       : options->offset != 0                                                ? "--offset"
                       : options->range != GCONV_RANGE_CLAMP                                 ? "--range"
                       : tensor && settings->depth >= 0 && settings->depth != (int)GCONV_F32 ? "--depth"
                                                                                             : NULL;
  if (!option || (!tensor && !labels))
    return GCONV_OK;
  return gconv_complain(message, GCONV_BAD_ARGUMENT,
                        tensor ? "%s is for the pictures of banks: arrays hold the outputs as they are, in float32"
                               : "%s is for values: in pictures, --combine argmax gives each pixel the colour of a filter",
                        option);
}

/* The format that the results will have, as gconv_outputs_name() finds it. */
static const gconv_format_info *expected_format(const gconv_settings *settings) {
  if (settings->format)
    return settings->format;
  const gconv_format_info *format = is_one_file(settings->output) || gconv_template_is_one(settings->output)
                                        ? gconv_format_by_path(settings->output)
                                        : NULL;
  return format ? format : gconv_format_by_name("png");
}

gconv_status gconv_bank_job_name(const gconv_settings *settings, const gconv_inputs *inputs, gconv_bank_job *job,
                                 gconv_outputs *outputs, gconv_message *message) {
  const gconv_bank *last = &job->banks[job->count - 1];
  const gconv_format_info *format = expected_format(settings);
  gconv_bank_batch *batch = &job->batch;
  batch->presentation = choose_presentation(settings, format);
  GCONV_TRY(check_tone(settings, batch->presentation, message));
  batch->one_tensor = batch->presentation == GCONV_PRESENT_TENSOR && inputs->count > 1 && is_one_file(settings->output);
  gconv_inputs named = *inputs;
  if (batch->one_tensor)
    named.count = 1;
  gconv_filters labels = {0};
  gconv_naming naming = {.output = settings->output, .format = settings->format, .filters = &labels};
  naming.each_filter = batch->presentation == GCONV_PRESENT_PICTURES;
  gconv_status status = naming.each_filter ? make_labels(last, &labels, message) : make_label(last, &labels, message);
  if (status == GCONV_OK)
    status = gconv_outputs_name(&named, &naming, outputs, message);
  if (status == GCONV_OK)
    batch->tone = choose_tone(settings, outputs->format);
  gconv_filters_free(&labels);
  return status;
}

/* ---- Explaining ------------------------------------------------------------------------------------------------------ */

bool gconv_bank_job_explain(const gconv_settings *settings, const gconv_bank_job *job, const char *path) {
  gconv_image header = {0};
  gconv_device *device = NULL;
  gconv_network *network = NULL;
  char *text = NULL;
  gconv_status status = gconv_image_read_header(path, &header, NULL);
  if (status == GCONV_OK && job->batch.gray)
    status = gconv_image_to_gray(&header);
  if (status == GCONV_OK)
    status = gconv_device_open(settings->device, settings->threads, &device);
  if (status == GCONV_OK)
    status = gconv_network_create(device, &header, job->layers, job->count, &job->batch.options, &network);
  if (status == GCONV_OK)
    status = gconv_network_explain(network, &text);
  if (status == GCONV_OK)
    fputs(text, stderr);
  else
    gconv_say("%s", gconv_last_error());
  free(text);
  gconv_network_free(network);
  gconv_device_close(device);
  gconv_image_free(&header);
  return status == GCONV_OK;
}

/* ---- The race -------------------------------------------------------------------------------------------------------- */

enum { RUNS = 15 };

typedef struct race {
  const gconv_bank_job *job;
  gconv_device *device;
  gconv_image image, exact; /* the results of the first exact algorithm, once there are any */
  bool verify;
  const char *fastest;
  double fastest_ms;
  bool wrong;
  FILE *out;
} race;

static void print_row(const race *r, const char *name, const char *text) {
  fprintf(r->out, "%-16s %s\n", name, text);
  fflush(r->out);
}

static size_t bytes_of(const gconv_image *image) {
  return (size_t)image->frames * (size_t)image->channels * image->plane_bytes;
}

/* The largest difference, and whether it is beyond `relative` of the largest value. */
static bool is_close(const gconv_image *a, const gconv_image *b, double relative, double *difference) {
  const float *x = a->data, *y = b->data;
  double largest = 0;
  *difference = 0;
  for (size_t i = 0; i < bytes_of(a) / sizeof *x; i++) {
    double d = fabs((double)x[i] - (double)y[i]);
    *difference = isnan(d) && isnan(x[i]) != isnan(y[i]) ? INFINITY : fmax(*difference, d);
    largest = fmax(largest, fabs((double)x[i]));
  }
  return *difference <= relative * largest;
}

/* Says how the result stands to the exact one. With --verify it was held to float64 before; without, what is further off
 * than a thousandth of the largest value is wrong, as no math that there is may be. */
static bool judge(race *r, const gconv_layer_info *info, gconv_image *out, char *text, size_t size) {
  double difference;
  if (!r->exact.data && info->exact) {
    r->exact = *out;
    *out = (gconv_image){0};
    snprintf(text, size, "exact");
    return true;
  }
  if (!r->exact.data) {
    snprintf(text, size, "%s", r->verify ? "within its bound of float64" : "not compared");
    return true;
  }
  if (memcmp(r->exact.data, out->data, bytes_of(out)) == 0) {
    snprintf(text, size, "equal");
    return true;
  }
  bool close = is_close(&r->exact, out, strcmp(info->math, "fp32") == 0 ? 1e-4 : 2e-2, &difference);
  snprintf(text, size, "differs by at most %.3g%s", difference, r->verify ? ", within its bound of float64" : "");
  return !info->exact && (close || r->verify);
}

static gconv_status time_network(race *r, gconv_network *network, gconv_image *out, double *ms) {
  double times[RUNS], estimate = 0;
  const gconv_layer_info *info;
  for (size_t i = 0; (info = gconv_network_get_info(network, i)); i++)
    estimate += info->estimate_ms;
  int runs = estimate > 100 ? 3 : RUNS;
  gconv_status status = gconv_network_measure(network, &r->image, out, runs, times);
  if (status == GCONV_OK)
    *ms = gconv_bench_median(times, runs);
  gconv_verification found;
  return status == GCONV_OK && r->verify ? gconv_network_verify(network, &r->image, out, -1, &found) : status;
}

static void run_algorithm(race *r, const char *name) {
  gconv_network_options options = r->job->batch.options;
  gconv_network *network = NULL;
  gconv_image out = {0};
  char text[320], verdict[128];
  double ms = 0, flop = 0;
  options.algorithm = name;
  gconv_status status = gconv_network_create(r->device, &r->image, r->job->layers, r->job->count, &options, &network);
  if (status == GCONV_OK)
    status = time_network(r, network, &out, &ms);
  if (status == GCONV_OK) {
    const gconv_layer_info *first = gconv_network_get_info(network, 0), *info;
    for (size_t i = 0; (info = gconv_network_get_info(network, i)); i++)
      flop += info->flop;
    bool right = judge(r, first, &out, verdict, sizeof verdict);
    snprintf(text, sizeof text, "%-5s %10.4f %9.3f  %s%s", first->math, ms, flop / ms * 1e-9, verdict,
             right ? "" : ": WRONG");
    r->wrong |= !right;
    if (right && (!r->fastest || ms < r->fastest_ms)) {
      r->fastest = name;
      r->fastest_ms = ms;
    }
  } else {
    snprintf(text, sizeof text, "%26s %s%s", "", gconv_bench_obstacle(gconv_last_error()),
             status == GCONV_MISMATCH ? ": WRONG" : "");
    r->wrong |= status == GCONV_MISMATCH;
  }
  print_row(r, name, text);
  gconv_image_free(&out);
  gconv_network_free(network);
}

static bool is_left_out(const char *name, const char *without) {
  size_t length = strlen(name);
  for (; without && *without; without += strcspn(without, ","), without += *without == ',')
    if (strcspn(without, ",") == length && strncmp(without, name, length) == 0)
      return true;
  return false;
}

static void run_all(race *r, const char *path) {
  const char *device = gconv_device_get_info(r->device)->name;
  const gconv_algorithm_info *info;
  fprintf(r->out, "%s on %s, median of up to %d runs\n%-16s %-5s %10s %9s  result\n", path, device, RUNS, "algorithm",
          "math", "ms", "TFLOP/s");
  for (size_t i = 0; (info = gconv_layer_algorithm_at(i)); i++)
    if (strncmp(device, info->device, strlen(info->device)) == 0 && !is_left_out(info->name, r->job->batch.options.without))
      run_algorithm(r, info->name);
  if (r->fastest && !r->wrong)
    fprintf(r->out, "the fastest is %s\n", r->fastest);
}

const char *gconv_bank_race_run(const gconv_settings *settings, const gconv_bank_job *job, const char *path, FILE *out,
                                char device[32]) {
  race r = {.job = job, .verify = settings->verify, .out = out};
  gconv_bank_batch batch = job->batch;
  batch.common.max_pixels = settings->max_pixels;
  gconv_status status = gconv_bank_image_read(&batch, path, &r.image);
  if (status == GCONV_OK)
    status = gconv_device_open(settings->device, settings->threads, &r.device);
  if (status == GCONV_OK) {
    snprintf(device, 32, "%s", gconv_device_get_info(r.device)->name);
    run_all(&r, path);
  } else {
    gconv_say("%s", gconv_last_error());
  }
  if (r.wrong)
    gconv_say("%s: the algorithms do not agree: nothing is written", path);
  else if (status == GCONV_OK && !r.fastest)
    gconv_say("%s: no algorithm of the device can do this", path);
  gconv_image_free(&r.image);
  gconv_image_free(&r.exact);
  gconv_device_close(r.device);
  return r.wrong ? NULL : r.fastest;
}
