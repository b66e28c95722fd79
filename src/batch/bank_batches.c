/* SPDX-License-Identifier: MIT */
/* Which images of a bank job go together. */
#include "batch/bank_run.h"

#include <stdlib.h>
#include <string.h>

bool gconv_bank_same_shape(const gconv_image *a, const gconv_image *b) {
  return a->type == b->type && a->frames == b->frames && a->height == b->height && a->width == b->width &&
         a->channels == b->channels && a->planar == b->planar && a->alpha == b->alpha;
}

/* An array's header as its layout says. */
static void turn_header(const gconv_bank_batch *job, gconv_image *header) {
  if (!job->nhwc || !header->planar)
    return;
  int32_t height = header->channels, width = header->height;
  header->channels = header->width;
  header->height = height;
  header->width = width;
}
void gconv_bank_read_headers(gconv_bank_run *r) {
  gconv_image *headers = r->headers;
  const gconv_inputs *inputs = r->job->common.inputs;
  for (size_t i = 0; i < inputs->count; i++) {
    if (strcmp(inputs->items[i].path, "-") == 0 ||
        gconv_image_read_header(inputs->items[i].path, &headers[i], NULL) != GCONV_OK)
      headers[i] = (gconv_image){0};
    gconv_image header = headers[i];
    gconv_image_free(&headers[i]);
    headers[i] = header;
    headers[i].data = headers[i].icc = NULL;
    turn_header(r->job, &headers[i]);
  }
}

static gconv_status find_cost(const gconv_bank_run *r, const gconv_image *header, gconv_bank_cost *cost) {
  static const double BUS_BYTES_PER_MS = 1.5e7, FLOP_PER_MS = 8e9, IMAGE_MS = 0.1; /* of any GPU of these years */
  gconv_network_options options = r->job->options;
  gconv_network *network = NULL;
  options.algorithm = options.without = NULL;
  gconv_status status = gconv_network_create(r->planner, header, r->job->layers, r->job->layer_count, &options, &network);
  if (status != GCONV_OK)
    return status;
  double in = 4.0 * header->frames * header->channels * header->height * header->width, flop = 0;
  const gconv_image *out = gconv_network_output_header(network);
  const gconv_layer_info *info;
  *cost = (gconv_bank_cost){.bytes = in};
  for (size_t i = 0; (info = gconv_network_get_info(network, i)); i++) {
    cost->bytes += 4.0 * info->images * info->filters * info->out_height * info->out_width;
    cost->cpu_ms += info->estimate_ms;
    flop += info->flop;
  }
  double results = 4.0 * out->frames * out->channels * out->height * out->width;
  cost->gpu_ms = flop / FLOP_PER_MS + (in + results) / BUS_BYTES_PER_MS + IMAGE_MS;
  gconv_network_free(network);
  return GCONV_OK;
}

/* Images at a time: as the memory allows, and so that decoding and writing go on beside each other. It depends on the images
 * alone, so that results do not on the machine. */
static size_t choose_batch(const gconv_bank_run *r, const gconv_bank_cost *cost, size_t alike) {
  static const double MOST_BYTES = 256 << 20;
  const size_t parts = 4, most = 64;
  if (r->job->batch > 0)
    return (size_t)r->job->batch;
  size_t count = (alike - 1) / parts + 1, fits = cost->bytes < MOST_BYTES ? (size_t)(MOST_BYTES / cost->bytes) : 1;
  count = count < fits ? count : fits;
  return count < most ? count : most;
}

/* Cuts run.order[first .. end - 1], which are of one shape, into batches, and adds up what they cost. */
static void cut_group(gconv_bank_run *r, const gconv_image *header, size_t first, size_t end, gconv_bank_cost *total) {
  gconv_bank_cost cost = {0};
  size_t batch = 1, alike = end - first;
  if (header->frames > 0 && find_cost(r, header, &cost) == GCONV_OK && header->frames == 1)
    batch = choose_batch(r, &cost, alike);
  total->cpu_ms += cost.cpu_ms * (double)alike;
  total->gpu_ms += cost.gpu_ms * (double)alike;
  for (size_t i = first; i < end; i += batch)
    r->batches[r->batch_count++] = (gconv_bank_group){i, end - i < batch ? end - i : batch};
}

/* Whether all results of an input are there already, and shall stay. */
static bool is_there(const gconv_bank_run *r, size_t input) {
  const gconv_batch *common = &r->job->common;
  if (common->existing == GCONV_EXISTING_REPLACE)
    return false;
  if (r->job->one_tensor)
    return gconv_output_exists(common->outputs->paths.items[0]);
  for (size_t n = common->outputs->first[input]; n < common->outputs->first[input + 1]; n++)
    if (!gconv_output_exists(common->outputs->paths.items[n]))
      return false;
  return true;
}

/* Of an input whose results are there: passed over, or failed. */
static void report_existing(gconv_bank_run *r, size_t input) {
  gconv_texts errors = {0};
  gconv_report report = gconv_bank_begin_report(r, input, &errors);
  bool kept = r->job->common.existing == GCONV_EXISTING_KEEP;
  *(kept ? &report.failed : &report.passed) = report.output_count;
  for (size_t n = 0; n < report.output_count && kept; n++) {
    gconv_message text;
    gconv_complain(&text, GCONV_EXISTS, "%s: exists and is kept (--no-clobber)", report.outputs[n]);
    gconv_texts_add(&errors, strdup(text.text));
  }
  gconv_bank_hand_in(r, &report);
  gconv_texts_free(&errors);
}

static void put_together(gconv_bank_run *r, bool *taken, gconv_bank_cost *total) {
  size_t count = r->job->common.inputs->count;
  const gconv_image *headers = r->headers;
  for (size_t i = 0; i < count; i++) {
    taken[i] = is_there(r, i);
    if (taken[i])
      report_existing(r, i);
  }
  for (size_t i = 0; i < count; i++) {
    size_t first = r->order_count;
    for (size_t j = i; j < count; j++)
      if (!taken[j] && (j == i || (headers[i].frames == 1 && gconv_bank_same_shape(&headers[i], &headers[j])))) {
        r->order[r->order_count++] = j;
        taken[j] = true;
      } else if (r->job->one_tensor) {
        break;
      }
    if (r->order_count > first)
      cut_group(r, &headers[i], first, r->order_count, total);
  }
}

gconv_status gconv_bank_make_batches(gconv_bank_run *r, gconv_bank_cost *total, gconv_message *message) {
  bool *taken = calloc(r->job->common.inputs->count, sizeof *taken);
  if (!taken)
    return gconv_complain_memory(message);
  put_together(r, taken, total);
  free(taken);
  return GCONV_OK;
}

/* Why there is no header, where there is none. */
static gconv_status check_header(const char *path, const gconv_image *header, gconv_message *message) {
  if (header->frames > 0)
    return GCONV_OK;
  if (strcmp(path, "-") == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "-: what standard input holds is not known in time for one array of several images: name a folder "
                          "(-o results/ --format npy)");
  gconv_image again = {0};
  gconv_status status = gconv_bank_keep_text(message, gconv_image_read_header(path, &again, NULL));
  gconv_image_free(&again);
  return status;
}

gconv_status gconv_bank_check_one_shape(const gconv_bank_run *r, gconv_message *message) {
  const gconv_image *headers = r->headers;
  for (size_t i = 0; i < r->job->common.inputs->count && r->job->one_tensor; i++) {
    GCONV_TRY(check_header(r->job->common.inputs->items[i].path, &headers[i], message));
    gconv_image other = headers[i];
    other.frames = headers[0].frames;
    if (!gconv_bank_same_shape(&headers[0], &other))
      return gconv_complain(message, GCONV_BAD_ARGUMENT,
                            "%s: one array cannot hold the results of %s and %s, which have different shapes: name a folder "
                            "(-o results/ --format npy)",
                            r->job->common.outputs->paths.items[0], r->job->common.inputs->items[0].path,
                            r->job->common.inputs->items[i].path);
  }
  return GCONV_OK;
}
