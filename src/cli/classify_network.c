/* SPDX-License-Identifier: MIT */
/* gconv classify of a network: predictions of the rows of a table, the windows of a signal, or images. */
#include "base/memory.h"
#include "base/printable.h"
#include "cli/bank.h"
#include "cli/classify.h"
#include "cli/job.h"
#include "image/layout.h"

#include <string.h>

typedef struct networking {
  gconv_classifying *c;
  gconv_network network;
} networking;

/* ---- Tables and signals ----------------------------------------------------------------------------------------------- */

static bool is_of_windows(const networking *n) {
  return (n->network.height == 1 && n->network.width > 1) || n->c->cases->windows.samples > 0;
}

static gconv_status open_data(const networking *n, gconv_dataset **data) {
  const gconv_network *network = &n->network;
  const gconv_windows signal = n->c->cases->windows;
  const gconv_taken_cases taken = {"network", network->channels, network->height, network->width};
  const bool windows = is_of_windows(n);
  gconv_dataset_options options = n->c->cases->data;
  options.kind = windows ? GCONV_DATASET_WINDOWS : GCONV_DATASET_TABLE;
  options.syntax = windows ? n->c->cases->raw : options.syntax;
  options.window = windows && signal.samples == 0 ? network->width : signal.samples;
  options.hop = signal.hop;
  options.columns = (size_t)network->channels;
  options.classes = (const char *const *)network->classes;
  options.class_count = network->class_count;
  options.regression = network->class_count == 0;
  options.usual_label = network->label;
  options.like = &network->notes;
  return gconv_classify_open_data(n->c, options, &taken, data);
}

static gconv_status classify_data(networking *n) {
  gconv_classifying *c = n->c;
  gconv_dataset *data = NULL;
  gconv_status status = open_data(n, &data);
  if (status == GCONV_OK && is_of_windows(n)) {
    const int32_t hop = c->cases->windows.hop;
    c->unit = "sample";
    c->hop = (size_t)(hop > 0 ? hop : gconv_dataset_get_info(data)->width);
  }
  GCONV_THEN(status, gconv_classify_data(c, &n->network, NULL, data));
  gconv_dataset_free(data);
  return status;
}

/* ---- Images ----------------------------------------------------------------------------------------------------------- */

/* Makes a grey image RGB, as training does with grey images among coloured ones. Leaves out alpha, which is ignored. */
static gconv_status widen(gconv_image *image) {
  gconv_image wide = {.type = image->type, .frames = 1, .height = image->height, .width = image->width, .channels = 3};
  GCONV_TRY(gconv_image_allocate(&wide));
  const size_t bytes = gconv_type_bytes(image->type), step = bytes * (image->planar ? 1 : (size_t)image->channels);
  for (int32_t y = 0; y < wide.height; y++)
    for (size_t i = 0; i < 3 * (size_t)wide.width; i++)
      memcpy((uint8_t *)gconv_row_at(&wide, 0, y) + i * bytes, (uint8_t *)gconv_row_at(image, 0, y) + i / 3 * step, bytes);
  gconv_image_free(image);
  *image = wide;
  return GCONV_OK;
}

/* A plan for images of one shape: many images often have the same. */
typedef struct image_plan {
  gconv_operation *operation;
  gconv_plan *plan;
  gconv_image out;
} image_plan;

static gconv_status run_image(networking *n, image_plan *p, const gconv_image *image, const char *path) {
  if (!p->plan || !gconv_plan_fits(p->plan, image)) {
    gconv_plan_free(p->plan);
    gconv_image_free(&p->out);
    p->plan = NULL;
    gconv_status status = gconv_plan_create(n->c->device, image, p->operation, 0, &p->plan);
    if (status != GCONV_OK) { /* the error does not name the image */
      char *text = gconv_printable_copy(gconv_last_error(), strlen(gconv_last_error()));
      gconv_fail(status, "%s: %s", path, text ? text : "does not fit the network");
      free(text);
      return status;
    }
  }
  GCONV_TRY(gconv_plan_execute(p->plan, image, &p->out, 1, NULL));
  if (p->out.height == 1 && p->out.width == 1 && p->out.frames == 1)
    return GCONV_OK;
  if (n->network.height > 0 && (n->network.height != image->height || n->network.width != image->width))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has %d x %d pixels, where the network takes %d x %d: scale or crop it", path,
                      (int)image->width, (int)image->height, (int)n->network.width, (int)n->network.height);
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s: the network yields %d x %d x %d numbers, a picture rather than a class: gconv -i %s -f NETWORK "
                    "applies it",
                    path, (int)p->out.channels, (int)p->out.height, (int)p->out.width, path);
}

/* Finds the class that an image's folder names. */
static gconv_status find_class(networking *n, const gconv_input *input, size_t *class) {
  size_t length = strcspn(input->relative, "/");
  for (size_t k = 0; k < n->network.class_count; k++)
    if (strlen(n->network.classes[k]) == length && strncmp(n->network.classes[k], input->relative, length) == 0) {
      *class = k;
      return GCONV_OK;
    }
  if (input->relative[length])
    return gconv_confusion_find_other(&n->c->confusion, input->relative, length, class);
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s: --evaluate takes a folder with a folder of images for each class, and this image is in none",
                    input->path);
}

static gconv_status classify_image(networking *n, image_plan *p, const gconv_input *input) {
  gconv_image image = {0};
  gconv_prediction found = {.class = SIZE_MAX};
  if (n->c->evaluate)
    GCONV_TRY(find_class(n, input, &found.class));
  GCONV_TRY(gconv_image_read(input->path, NULL, &image));
  bool grey = image.channels - image.alpha == 1 && image.frames == 1 && n->network.channels == 3;
  gconv_status status = grey ? widen(&image) : GCONV_OK;
  GCONV_THEN(status, run_image(n, p, &image, input->path));
  gconv_image_free(&image);
  GCONV_TRY(status);
  gconv_prediction_set(&found, p->out.data, (size_t)p->out.channels);
  if (found.class != SIZE_MAX)
    gconv_confusion_add(&n->c->confusion, found.class, found.taken_for);
  return gconv_classify_take(n->c, input->path, &found);
}

static gconv_status classify_images(networking *n) {
  GCONV_ENDED_BY(gconv_inputs_free) gconv_inputs inputs = {0};
  image_plan p = {0};
  const gconv_network_options options = {.gray = n->c->cases->data.gray || n->network.channels == 1};
  char *input = (char *)n->c->input;
  const gconv_texts named = {&input, 1};
  gconv_status status = gconv_inputs_find_all(&named, true, "-", &inputs);
  if (status == GCONV_OK && n->c->evaluate)
    status = gconv_confusion_begin((const char *const *)n->network.classes, n->network.class_count, &n->c->confusion);
  GCONV_THEN(status, gconv_operation_of_network(&n->network, &options, &p.operation));
  for (size_t i = 0; i < inputs.count && status == GCONV_OK; i++)
    status = classify_image(n, &p, &inputs.items[i]);
  gconv_plan_free(p.plan);
  gconv_operation_free(p.operation);
  gconv_image_free(&p.out);
  return status;
}

/* ---- The whole -------------------------------------------------------------------------------------------------------- */

static gconv_status prepare(networking *n) {
  gconv_classifying *c = n->c;
  const gconv_common *common = c->common;
  const gconv_network *network = &n->network;
  GCONV_TRY(gconv_classify_check_outputs(c));
  GCONV_TRY(gconv_network_load(c->path, &n->network));
  if (network->count == 0)
    return gconv_refuse("%s: is an ONNX model whose layers are no chain: gconv -i IMAGE -f %s -o outputs.npy applies it",
                        c->path, c->path);
  const bool softmax = network->layers[network->count - 1].activation == GCONV_ACTIVATION_SOFTMAX;
  c->classes = (const char *const *)network->classes;
  c->class_count = network->class_count;
  c->certainty = softmax ? "probability" : "output";
  if (c->evaluate && network->class_count == 0 && network->height != 1)
    return gconv_refuse("%s: has no classes that --evaluate could compare", c->path);
  if (common->report && network->class_count == 0)
    return gconv_refuse("--report: is about classes, and %s has none", c->path);
  const char *device = common->device ? common->device : "cpu";
  GCONV_TRY(gconv_device_open(device, gconv_settle_threads(common->threads, common->quiet), &c->device));
  gconv_device_choose(&c->chosen, gconv_device_get_info(c->device)->name,
                      common->device ? NULL : "networks run on the CPU, unless -d names another device");
  gconv_device_tell(common, &c->chosen);
  return gconv_classify_open_output(c);
}

int gconv_classify_network(gconv_classifying *c) {
  networking n = {.c = c};
  gconv_status status = prepare(&n);
  /* the network takes the rows of a table or a signal, or pictures that are the rows of an array */
  const bool numbers = n.network.height == 1 || c->cases->targets || c->cases->data.syntax;
  c->unit = numbers ? "case" : "image";
  GCONV_THEN(status, numbers ? classify_data(&n) : classify_images(&n));
  int result = gconv_classify_end(c, status, !numbers);
  gconv_network_free(&n.network);
  return result;
}
