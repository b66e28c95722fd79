/* SPDX-License-Identifier: MIT */
/* Stages of a job that are networks, or support vector machines for pixels: -f names the file of one, without :NAME. */
#include "base/checksum.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/bank.h"
#include "cli/job.h"
#include "cli/job_settings.h"
#include "cli/terminal.h"

#include <math.h>
#include <string.h>

/* ---- Reading ---- */

/* True if the stage is the file of a network, or a whole ONNX model. */
static bool is_network(const gconv_layer_settings *stage) {
  const char *path = stage->filters.count == 1 && !stage->syntax ? stage->filters.items[0] : NULL;
  return path && (gconv_network_is_one(path) || gconv_model_is_one(path));
}

/* Refuses options of layers: the file of a network says how its layers are applied. */
static gconv_status check_layer_options(const gconv_layer_settings *stage) {
  const gconv_layer *layer = &stage->layer;
  const char *option = layer->padding != GCONV_LAYER_DEFAULT        ? "--padding"
                       : layer->stride_y || layer->stride_x         ? "--stride"
                       : layer->dilation_y || layer->dilation_x     ? "--dilation"
                       : layer->groups                              ? "--groups"
                       : layer->flip                                ? "--flip"
                       : layer->activation != GCONV_ACTIVATION_NONE ? "--activation"
                                                                    : NULL;
  if (!option)
    return GCONV_OK;
  const char *path = stage->filters.items[0];
  return gconv_refuse("%s: %s is a network, whose file says how each layer is applied: leave it out, or name a layer, "
                      "as %s:%s",
                      option, path, path, gconv_network_is_one(path) ? "l0" : "NAME");
}

/* Checks the other filters beside a network: networks and plain filters are allowed. */
static gconv_status check_beside(const gconv_layer_settings *stage) {
  for (size_t i = 0; i < stage->filters.count; i++)
    if (gconv_bank_is_own_syntax(stage->syntax) || gconv_bank_is_one(stage->filters.items[i]))
      return gconv_refuse("-f %s: a bank beside a network: a network takes an image and makes one, a bank makes maps; apply "
                          "them in runs of their own, with .npy between",
                          stage->filters.items[i]);
  return GCONV_OK;
}

/* Checks a stage that classifies pixels: its place and its options. Without a GPU, chooses the CPU in place of `auto`. */
static gconv_status check_features(gconv_main_job *job, size_t i) {
  gconv_job_settings *settings = job->settings;
  const char *path = gconv_job_settings_stage(settings, i)->filters.items[0];
  if (i < settings->before_count)
    return gconv_refuse("%s: names the classes of pixels, and makes no image for another stage: put it last", path);
  if (gconv_job_settings_want_race(settings))
    return gconv_refuse("%s: classifies pixels by features, which have one algorithm: leave out --algorithm all", path);
  if (settings->job.verify)
    return gconv_refuse("%s: classifies pixels by features, which are never whole in memory: leave out --verify", path);
  if (settings->common.device && strcmp(settings->common.device, "auto") == 0 && !gconv_has_gpu()) {
    settings->common.device = "cpu"; /* so that images can be processed by rows */
    gconv_device_choose(&job->device, "cpu", GCONV_WHY_NO_GPU);
    gconv_device_tell(&settings->common, &job->device);
  }
  return GCONV_OK;
}

static gconv_status digest_file(const char *path, uint64_t *digest) {
  GCONV_ENDED_BY(gconv_source_close) gconv_source source = {.file = -1};
  const uint8_t *bytes;
  size_t got;
  *digest = GCONV_FNV1A_BASIS;
  GCONV_TRY(gconv_source_open(path, &source));
  do {
    GCONV_TRY(gconv_source_next(&source, &bytes, &got));
    *digest = gconv_fnv1a(*digest, bytes, got);
  } while (got > 0);
  return GCONV_OK;
}

/* Reads the last stage, if -f names a support vector machine there. */
static gconv_status read_machine(gconv_main_job *job, size_t i, bool *found) {
  const gconv_layer_settings *stage = gconv_job_settings_stage(job->settings, i);
  *found = stage->filters.count == 1 && !stage->syntax && gconv_svm_is_one(stage->filters.items[0]);
  if (!*found)
    return GCONV_OK;
  const char *path = stage->filters.items[0];
  GCONV_TRY(check_layer_options(stage));
  GCONV_TRY(check_features(job, i));
  gconv_status status = gconv_svm_read(path, &job->svm);
  GCONV_THEN(status, digest_file(path, &job->svm_digest));
  GCONV_TRY(status);
  if (!gconv_svm_get_info(job->svm)->features)
    return gconv_refuse("%s: is a support vector machine for tables: gconv classify applies it", path);
  return GCONV_OK;
}

/* Fails unless a network that is a graph takes images. */
static gconv_status check_takes_images(const gconv_network *network) {
  const gconv_network_tensor *in = network->inputs;
  gconv_operation *operation = NULL;
  if (!network->graph || (network->input_count == 1 && strcmp(in->type, "float32") == 0 && (in->axes < 0 || in->axes == 4)))
    return GCONV_OK;
  const gconv_status status = gconv_operation_of_network(network, NULL, &operation);
  gconv_operation_free(operation);
  return status;
}

gconv_status gconv_job_read_networks(gconv_main_job *job) {
  const gconv_job_settings *settings = job->settings;
  const size_t count = settings->before_count + 1;
  size_t found = 0;
  GCONV_NEW(job->networks, count, "out of memory");
  for (size_t i = 0; i < count; i++) {
    const gconv_layer_settings *stage = gconv_job_settings_stage(settings, i);
    bool machine;
    GCONV_TRY(read_machine(job, i, &machine));
    found += machine;
    if (machine || !is_network(stage))
      continue;
    GCONV_TRY(check_layer_options(stage));
    GCONV_TRY(gconv_network_load(stage->filters.items[0], &job->networks[i]));
    GCONV_TRY(check_takes_images(&job->networks[i]));
    if (i + 1 < count && job->networks[i].output_count > 1)
      job->networks[i].output = job->networks[i].outputs[0].name; /* a stage makes one image */
    if (job->networks[i].features)
      GCONV_TRY(check_features(job, i));
    found++;
  }
  job->has_networks = found > 0;
  for (size_t i = 0; i < count && found > 0; i++)
    if (!gconv_job_is_network(&job->networks[i]) && !(job->svm && i + 1 == count))
      GCONV_TRY(check_beside(gconv_job_settings_stage(settings, i)));
  if (found > 0 && settings->before_count > 0 && gconv_job_settings_want_race(settings))
    return gconv_refuse("--algorithm all times the layers of one network: leave out --then");
  return GCONV_OK;
}

const gconv_network *gconv_job_last_network(const gconv_main_job *job) {
  const gconv_network *last = job->networks ? &job->networks[job->settings->before_count] : NULL;
  return last && gconv_job_is_network(last) ? last : NULL;
}

bool gconv_job_find_classifier(const gconv_main_job *job, gconv_classifier *classifier) {
  const gconv_network *network = gconv_job_last_network(job);
  if (job->svm) {
    const gconv_svm_info *info = gconv_svm_get_info(job->svm);
    *classifier = (gconv_classifier){info->classes, info->class_count, info->palette};
    return true;
  }
  if (!network || !network->features)
    return false;
  *classifier = (gconv_classifier){(const char *const *)network->classes, network->class_count, network->palette};
  return true;
}

/* ---- Networks with several outputs ---- */

/* Whether results of one image get different names by this template. */
static bool tells_outputs(const char *template) {
  return !strchr(template, '{') || strstr(template, "{output}") || strstr(template, "{filter}") ||
         strstr(template, "{index}");
}

/* Prints that the first output is the result, and how to get the others. */
static void tell_first(const gconv_network *network, const char *path) {
  char *names = NULL;
  size_t size = 0;
  FILE *text = open_memstream(&names, &size);
  for (size_t i = 0; text && i < network->output_count; i++)
    fprintf(text, "%s%s", i > 0 ? ", " : "", network->outputs[i].name);
  if (text)
    fclose(text);
  gconv_say(
      "%s: has %zu outputs, %s: the first is the result. --output-name NAME takes another one, -o '{stem}_{output}.png' "
      "all",
      path, network->output_count, names ? names : "");
  free(names);
}

gconv_status gconv_job_choose_outputs(gconv_main_job *job, bool one_file) {
  gconv_network *network = (gconv_network *)gconv_job_last_network(job); /* the job owns it, and may change it */
  const gconv_job_settings *settings = job->settings;
  const char *path = settings->last.filters.items[0], *output = settings->naming.output;
  if (network)
    network->output = settings->output_name;
  if (settings->output_name && (!network || !network->graph))
    return gconv_refuse("--output-name: %s has one output: leave the option out", path);
  if (settings->output_name || !network || !network->graph || network->output_count < 2)
    return GCONV_OK;
  if (!one_file && output && tells_outputs(output)) /* --in-place has one result for each image */
    return GCONV_OK;
  network->output = network->outputs[0].name;
  if (!settings->common.quiet)
    tell_first(network, path);
  return GCONV_OK;
}

bool gconv_job_has_several_outputs(const gconv_main_job *job) {
  const gconv_network *network = gconv_job_last_network(job);
  return network && network->graph && network->output_count > 1 && !network->output;
}

/* ---- What a network makes of an image ---- */

/* Finds the headers of an image and of its result. The image has the network's size or, if any fits, `height` x `width`. */
static gconv_status find_result(gconv_device *device, const gconv_network *network, int32_t height, int32_t width,
                                gconv_image *like, gconv_image *result) {
  gconv_operation *operation = NULL;
  gconv_plan *plan = NULL;
  const int32_t channels = network->channels > 0 ? network->channels : 3; /* a graph may take any number */
  *like = (gconv_image){.type = GCONV_F32, .frames = 1, .channels = channels, .planar = true};
  like->height = network->height > 0 ? network->height : height;
  like->width = network->width > 0 ? network->width : width;
  gconv_status status = gconv_operation_of_network(network, NULL, &operation);
  GCONV_THEN(status, gconv_plan_create(device, like, operation, 0, &plan));
  if (status == GCONV_OK)
    *result = *gconv_plan_output_header(plan, 0);
  gconv_plan_free(plan);
  gconv_operation_free(operation);
  return status;
}

/* Finds the headers of an image and of the network's result for it. If this fails, the first input will fail, too. */
static gconv_status find_example(const gconv_network *network, gconv_image *like, gconv_image *result) {
  /* The first sizes are primes: a stride changes them, and no other stride changes them back. */
  static const int32_t sizes[][2] = {{61, 67}, {509, 521}, {256, 256}};
  gconv_device *device = NULL;
  gconv_status status = gconv_device_open("cpu", 1, &device);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes && device; i++) {
    status = find_result(device, network, sizes[i][0], sizes[i][1], like, result);
    if (status == GCONV_OK)
      break;
  }
  gconv_device_close(device);
  return status;
}

int32_t gconv_job_count_channels(const gconv_network *network) {
  gconv_image like = {0}, result = {0};
  return find_example(network, &like, &result) == GCONV_OK ? result.channels : 1;
}

static gconv_network_makes find_makes(const gconv_network *network) {
  gconv_image like = {0}, result = {0};
  if (find_example(network, &like, &result) != GCONV_OK)
    return GCONV_MAKES_MAPS;
  if (result.height == 1 && result.width == 1 && (like.height > 1 || like.width > 1))
    return GCONV_MAKES_NUMBERS;
  const bool same_size = result.height == like.height && result.width == like.width;
  if (result.channels == like.channels && (same_size || gconv_job_is_graph(network)))
    return GCONV_MAKES_IMAGES;
  return GCONV_MAKES_MAPS;
}

/* ---- Maps of classes ---- */

/* Chooses a colour for a class that has none. Colours of classes are easily distinguished: their hues are a golden angle
 * apart, and their brightness changes from one class to the next. */
static void choose_colour(size_t k, uint8_t colour[3]) {
  static const int brightness[] = {255, 200, 150};
  const double golden = 0.61803398874989485, turn = fmod((double)k * golden, 1);
  for (int c = 0; c < 3; c++) {
    double distance = fabs(turn * 6 - 2 * c);
    distance = fmin(distance, 6 - distance);
    colour[c] = (uint8_t)lround(fmin(fmax(2 - distance, 0), 1) * brightness[k % 3]);
  }
}

void gconv_classifier_colour(const gconv_classifier *by, size_t class, uint8_t colour[3]) {
  if (by->palette)
    memcpy(colour, by->palette + 3 * class, 3);
  else
    choose_colour(class, colour);
}

/* Settles presentation, type and palette of maps of classes, and refuses what does not go with them. */
static gconv_status present_classes(gconv_main_job *job, const gconv_classifier *by, const gconv_format_info *format) {
  uint16_t *values = calloc(by->class_count, sizeof *values);
  GCONV_NEED_MEMORY(values, "out of memory");
  gconv_status status = gconv_class_values(by->classes, by->class_count, values);
  unsigned most = 0;
  for (size_t k = 0; k < by->class_count && status == GCONV_OK; k++) {
    most = values[k] > most ? values[k] : most;
    if (values[k] > UINT8_MAX)
      continue;
    gconv_classifier_colour(by, k, job->palette.colours[values[k]]);
  }
  free(values);
  GCONV_TRY(status);
  job->palette.count = 256;
  job->network.tone.type = most > UINT8_MAX ? GCONV_U16 : GCONV_U8;
  job->network.presentation = GCONV_PRESENT_CLASSES;
  job->settings->combine = job->network.combine = GCONV_COMBINE_ARGMAX;
  if (format->quality && !job->settings->job.lossless)
    return gconv_refuse("%s changes pixels, and a map of classes would have wrong ones: -o with .png, .tif or .npy%s",
                        format->name, format->lossless ? ", or --lossless" : "");
  if (!format->holds[job->network.tone.type])
    return gconv_refuse("the maps have numbers up to %u, which %s cannot hold: -o with .png, .tif or .npy", most,
                        format->name);
  if (most <= UINT8_MAX)
    job->batch.palette = &job->palette;
  else if (!job->common->quiet)
    gconv_say("classes have numbers up to %u: the maps have 16 bits, and no colours", most);
  return GCONV_OK;
}

/* Decides what results of a classifier of pixels are: maps of classes or, with --probabilities, a number for each class. */
static gconv_status present_pixels(gconv_main_job *job, const gconv_classifier *by, const gconv_format_info *format) {
  gconv_job_settings *settings = job->settings;
  const char *path = settings->last.filters.items[0];
  if (job->combine_given)
    return gconv_refuse("--combine: %s names the classes of pixels; --probabilities yields its outputs", path);
  if (!settings->probabilities && by->class_count > 0)
    return present_classes(job, by, format);
  if (job->svm && !gconv_svm_get_info(job->svm)->probabilities)
    return gconv_refuse("--probabilities: %s yields none: train it with them, gconv svm -b", path);
  settings->range = GCONV_RANGE_CLAMP; /* probabilities are not stretched */
  if (settings->depth < 0) {
    job->options.sets_type = true;
    job->options.output_type = GCONV_F32;
  }
  return GCONV_OK;
}

gconv_status gconv_job_present_network(gconv_main_job *job, const gconv_format_info *format) {
  const gconv_network *network = gconv_job_last_network(job);
  const gconv_job_settings *settings = job->settings;
  const char *path = settings->last.filters.items[0];
  gconv_classifier by;
  if (gconv_job_find_classifier(job, &by))
    return present_pixels(job, &by, format);
  if (settings->probabilities)
    return gconv_refuse("--probabilities: %s does not classify pixels by features", path);
  if (job->combine_given && gconv_job_has_several_outputs(job))
    return gconv_refuse("--combine: %s has %zu outputs, each of which is a result: choose one with --output-name", path,
                        network->output_count);
  if (job->combine_given || (format->tensors && !settings->naming.same))
    return GCONV_OK; /* as for a bank */
  switch (find_makes(network)) {
  case GCONV_MAKES_IMAGES:
    job->network.presentation = GCONV_PRESENT_IMAGE;
    return GCONV_OK;
  case GCONV_MAKES_NUMBERS:
    return gconv_refuse(network->class_count > 0
                            ? "%s: names a class for an image, which is no picture: `gconv classify` prints it; -o FILE.npy "
                              "gets the numbers of all classes"
                            : "%s: makes numbers of an image, and no picture: -o FILE.npy gets them",
                        path);
  default:
    if (network->class_count > 0)
      job->settings->combine = job->network.combine = GCONV_COMBINE_ARGMAX;
    return GCONV_OK;
  }
}
