/* SPDX-License-Identifier: MIT */
/* What a bank job takes of memory, and so how it is cut: into batches of images, or an image into bands of rows. */
#include "batch/bank_run.h"
#include "batch/budget.h"
#include "batch/present.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Images above LARGE_BYTES, with all that becomes of them, go by bands, which take about BAND_BYTES; below, a batch takes up
 * to BATCH_BYTES. These are the same on every machine, so that results are. A writer has WRITER_BYTES, or, of very wide
 * pictures, WRITER_ROWS rows; those at work at a time are at most MOST_WRITERS, as each has a file. SURVEY_BYTES is what
 * tone.c keeps of the values of a picture, READER_BYTES what reading a file takes. */
static const double LARGE_BYTES = 1 << 30, BATCH_BYTES = 256 << 20, BAND_BYTES = 96 << 20, WRITER_BYTES = 5 << 20,
                    SURVEY_BYTES = 128 << 10, READER_BYTES = 2 << 20;
enum { MOST_WRITERS = 256, PROBE_ROWS = 64, WRITER_ROWS = 6 };

static double file_row_bytes(const gconv_image *header) {
  return (double)header->width * header->channels * (double)gconv_type_bytes(header->type);
}

static double file_bytes(const gconv_image *header) {
  return file_row_bytes(header) * header->height * header->frames;
}

/* ---- What an image takes ---- */

/* Adds what the network takes. Tensors: the input, the two buffers between layers, and the maps. Buffers: workspaces of all
 * threads, and weights. Verification: two doubles for each value of a layer's input and output. */
static void add_layers(const gconv_bank_run *r, const gconv_network *network, double in, gconv_bank_cost *cost) {
  static const double BUS_BYTES_PER_MS = 1.5e7, FLOP_PER_MS = 8e9, IMAGE_MS = 0.1; /* of any GPU of these years */
  const gconv_image *out = gconv_network_output_header(network);
  const gconv_layer_info *info;
  double flop = 0, widest = 0, between[2] = {0, 0}, workspace = 0, before = in;
  for (size_t i = 0; (info = gconv_network_get_info(network, i)); i++) {
    bool is_map = r->job->options.combine == GCONV_COMBINE_NONE && i + 1 == r->job->layer_count;
    double row = 4.0 * info->images * info->filters * info->out_width, bytes = row * info->out_height;
    between[i % 2] = fmax(between[i % 2], is_map ? 0 : bytes);
    widest = fmax(widest, bytes);
    cost->verification = fmax(cost->verification, 4 * (before + bytes));
    before = bytes;
    workspace = fmax(workspace, (double)info->workspace_bytes);
    cost->buffers += 2 * 4.0 * info->filters * info->channels / info->groups * info->rows * info->columns;
    cost->cpu_ms += info->estimate_ms;
    cost->rows = info->out_height;
    flop += info->flop;
  }
  cost->maps = out->channels;
  cost->map_row = 4.0 * out->channels * out->width;
  double results = cost->map_row * out->frames * cost->rows;
  cost->tensors = in + between[0] + between[1] + results;
  cost->buffers += workspace * r->threads;
  cost->gpu_ms = flop / FLOP_PER_MS + (in + results) / BUS_BYTES_PER_MS + IMAGE_MS;
  cost->layer_row = widest / cost->rows;
}

/* A network on the CPU that tells what the job takes: by the algorithms that were asked for, or, where the CPU has none of
 * these, by any. */
static gconv_status make_probe(const gconv_bank_run *r, const gconv_image *header, gconv_network **network) {
  size_t count = r->job->layer_count;
  gconv_network_options options = r->job->options;
  options.rows = PROBE_ROWS; /* so that nothing large is allocated */
  if (gconv_network_create(r->planner, header, r->job->layers, count, &options, network) == GCONV_OK)
    return GCONV_OK;
  gconv_layer *layers = calloc(count, sizeof *layers);
  if (!layers)
    return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  memcpy(layers, r->job->layers, count * sizeof *layers);
  for (size_t i = 0; i < count; i++)
    layers[i].algorithm = NULL;
  options.algorithm = options.without = NULL;
  gconv_status status = gconv_network_create(r->planner, header, layers, count, &options, network);
  free(layers);
  return status;
}

gconv_status gconv_bank_find_cost(const gconv_bank_run *r, const gconv_image *header, gconv_bank_cost *cost) {
  gconv_network *network = NULL;
  gconv_status status = make_probe(r, header, &network);
  if (status != GCONV_OK)
    return status;
  double in = 4.0 * header->frames * header->channels * header->height * header->width;
  *cost = (gconv_bank_cost){.reader = READER_BYTES};
  add_layers(r, network, in, cost);
  int32_t begin, end, rows = gconv_network_output_header(network)->height;
  int32_t middle = cost->rows / 2 / rows * rows;
  gconv_network_rows_needed(network, middle, &begin, &end);
  cost->scale = (double)header->height / cost->rows;
  cost->halo = end - begin - cost->scale * rows;
  cost->halo = cost->halo > 0 ? cost->halo : 0;
  gconv_network_free(network);
  return GCONV_OK;
}

void gconv_bank_find_reader(const gconv_bank_run *r, const size_t *inputs, size_t count, gconv_bank_cost *cost) {
  gconv_read_options options = {.max_pixels = r->job->common.max_pixels, .threads = 1};
  for (size_t i = 0; i < count; i++) {
    gconv_row_reader *reader = NULL;
    if (gconv_row_reader_open(r->job->common.inputs->items[inputs[i]].path, &options, &reader) != GCONV_OK)
      continue; /* decoding it says why */
    cost->reader = fmax(cost->reader, (double)gconv_row_reader_bytes(reader));
    gconv_row_reader_close(reader);
  }
}

/* Bytes of copies while an image is read: an array whose channels are last is copied to be turned, and of an image that
 * becomes grey the colours are in memory, too. */
static double turning_bytes(const gconv_bank_run *r, const gconv_image *header) {
  return r->job->nhwc && header->planar ? file_bytes(header) : r->job->gray ? 3 * file_bytes(header) : 0;
}

static bool has_colours(const gconv_image *header) {
  return header->channels - (header->alpha ? 1 : 0) > 1;
}

/* Bytes that a batch takes while it is decoded and put together: each thread is at one image, and one may be there twice. */
static double loading_bytes(const gconv_bank_run *r, const gconv_image *header, const gconv_bank_cost *cost, double images) {
  double reading = cost->reader + turning_bytes(r, header);
  return (images > 1 ? images + 1 : images) * file_bytes(header) + fmin(images, r->threads) * reading;
}

/* Bytes of all pictures that a row of the maps of one frame makes; or, of an array whose channels are last, of the two
 * copies that turn it. */
static double picture_row(const gconv_bank_run *r, const gconv_bank_cost *cost) {
  double samples = cost->map_row / 4 * (double)gconv_type_bytes(r->job->tone.type);
  return r->job->presentation == GCONV_PRESENT_TENSOR   ? (r->job->nhwc ? 2 * cost->map_row : 0)
         : r->job->presentation == GCONV_PRESENT_LABELS ? 3 * samples
                                                        : samples;
}

/* Bytes that `count` writers take at a time, and threads without one; arrays are written as they are, and take none. */
static double writer_bytes(const gconv_bank_run *r, const gconv_bank_cost *cost, double count) {
  if (r->job->presentation == GCONV_PRESENT_TENSOR)
    return 0;
  double row = picture_row(r, cost) / (double)gconv_bank_results(r->job), one = fmax(WRITER_BYTES, WRITER_ROWS * row);
  return fmax(count, r->threads) * (one + (gconv_bank_surveys(r->job) ? SURVEY_BYTES : 0));
}

/* Bytes that the results of a batch take, of which as many are made at a time as there are threads; frames that share a file
 * are made one by one. */
static double results_bytes(const gconv_bank_run *r, const gconv_image *header, const gconv_bank_cost *cost, double images) {
  double results = (double)gconv_bank_results(r->job), one = picture_row(r, cost) * cost->rows / results;
  double copies = header->frames > 1 && r->job->presentation != GCONV_PRESENT_TENSOR ? header->frames + 1 : 1;
  double at_a_time = r->job->one_tensor ? 1 : fmin(images * results, r->threads);
  return at_a_time * copies * one + writer_bytes(r, cost, 1);
}

/* Bytes that a batch takes in all: the most of while its results are verified, while they are made, and while it is decoded.
 */
static double batch_bytes(const gconv_bank_run *r, const gconv_image *header, const gconv_bank_cost *cost, double images) {
  double results = results_bytes(r, header, cost, images),
         verified = r->job->common.verify ? images * cost->verification : 0;
  double at_work = images * file_bytes(header) + fmax(results, verified);
  return images * cost->tensors + cost->buffers + fmax(at_work, loading_bytes(r, header, cost, images));
}

/* Images at a time: as the memory allows, and so that decoding and writing go on at the same time. It depends on the images
 * alone, so that results do not on the machine, unless --memory leaves less. */
static size_t choose_batch(const gconv_bank_run *r, const gconv_image *header, const gconv_bank_cost *cost, size_t alike) {
  const size_t parts = 4, most = 64;
  size_t count = (alike - 1) / parts + 1, fits = cost->tensors < BATCH_BYTES ? (size_t)(BATCH_BYTES / cost->tensors) : 1;
  count = count < fits ? count : fits;
  count = count < most ? count : most;
  if (r->job->batch > 0)
    count = (size_t)r->job->batch < alike ? (size_t)r->job->batch : alike;
  while (count > 1 &&
         batch_bytes(r, header, cost, (double)count) + loading_bytes(r, header, cost, (double)count) > (double)r->memory)
    count--;
  return count;
}

/* ---- Bands ---- */

/* Why an image cannot go by bands; NULL if it can. */
static const char *find_obstacle(const gconv_bank_run *r, size_t input, const gconv_image *header) {
  const gconv_outputs *outputs = r->job->common.outputs;
  size_t first = r->job->one_tensor ? 0 : outputs->first[input], end = r->job->one_tensor ? 1 : outputs->first[input + 1];
  if (r->job->common.verify)
    return "--verify compares whole images";
  if (header->frames > 1)
    return "it has several frames: save them one by one";
  for (size_t n = first; n < end; n++)
    if (gconv_output_is_sent(outputs->paths.items[n]))
      return "what goes to standard output, a pipe or a device waits for all of it, and a file does not";
  return NULL;
}

/* Sets *ordered if the rows of the file can be read one after the other and need not be made grey; else all of the image is
 * in memory. *reader_bytes is what reading it takes. */
static gconv_status look_at_rows(const gconv_bank_run *r, size_t input, const gconv_image *header, bool *ordered,
                                 double *reader_bytes) {
  gconv_read_options options = {.max_pixels = r->job->common.max_pixels, .threads = 1};
  gconv_row_reader *reader = NULL;
  *reader_bytes = file_bytes(header) + turning_bytes(r, header);
  *ordered = false;
  if (header->planar)
    return GCONV_OK;
  GCONV_TRY(gconv_row_reader_open(r->job->common.inputs->items[input].path, &options, &reader));
  *ordered = gconv_row_reader_is_in_order(reader) && !(r->job->gray && has_colours(gconv_row_reader_header(reader)));
  if (*ordered)
    *reader_bytes = (double)gconv_row_reader_bytes(reader);
  else
    *reader_bytes += (double)gconv_row_reader_bytes(reader);
  gconv_row_reader_close(reader);
  return GCONV_OK;
}

/* Bytes of the surveys of all tiles, which are kept at the same time, before the first result is begun. */
static double surveys_bytes(const gconv_bank_run *r, const gconv_bank_cost *cost) {
  double tiles = r->job->presentation == GCONV_PRESENT_COMBINED ? 1 : cost->maps;
  return gconv_bank_surveys(r->job) ? tiles * SURVEY_BYTES : 0;
}

/* Decides how many rows of the maps are made, and how many results written, at a time, within the memory of the job. An
 * image that was read is not opened again: it may have come through a pipe. */
static gconv_status cut_bands(const gconv_bank_run *r, size_t input, const gconv_image *header, bool was_read,
                              const gconv_bank_cost *cost, gconv_bank_group *group, gconv_message *why) {
  double most = (double)r->memory, fixed = file_bytes(header), in_row = 4.0 * header->channels * header->width;
  bool ordered = false;
  if (!was_read && look_at_rows(r, input, header, &ordered, &fixed) != GCONV_OK)
    return GCONV_OK; /* decoding it says why */
  double windows = ordered ? 2 * file_row_bytes(header) : 0;
  fixed += cost->buffers + cost->halo * (windows + in_row + cost->layer_row);
  double results = (double)gconv_bank_results(r->job), writers = (most - fixed) / 4 / WRITER_BYTES;
  writers = fmin(fmin(fmax(writers, 1), results), MOST_WRITERS);
  fixed += fmax(writer_bytes(r, cost, writers), surveys_bytes(r, cost));
  double row =
      cost->scale * (windows + in_row) + 2 * cost->layer_row + 2 * cost->map_row + picture_row(r, cost) * writers / results;
  double rows = fmin(most - fixed, BAND_BYTES) / row;
  double fewest = fmax(cost->halo, GCONV_BANK_LEAST_ROWS); /* what is computed twice is no more than the half */
  if (rows < fewest && fixed + fewest * row > most && r->job->common.memory > 0)
    return gconv_budget_refuse(
        fixed + fewest * row, most, "bands of rows",
        ordered || was_read ? NULL : "its rows do not come in order (planes, interlaced, turned by EXIF, made grey)", why);
  rows = fmax(rows, fewest);
  group->rows = (int32_t)fmin(rows, cost->rows);
  group->writers = (size_t)writers;
  group->whole = !ordered;
  group->bytes = fixed + group->rows * row;
  group->loading = 0;
  return GCONV_OK;
}

/* Whether an image is so large, with all that becomes of it, that it goes by bands though there is memory for it. */
static bool is_large(const gconv_bank_run *r, const gconv_image *header, const gconv_bank_cost *cost) {
  return file_bytes(header) + cost->tensors + picture_row(r, cost) * cost->rows > LARGE_BYTES;
}

gconv_status gconv_bank_choose_cut(const gconv_bank_run *r, const gconv_image *header, const gconv_bank_cost *cost,
                                   size_t input, size_t alike, gconv_bank_group *group, gconv_message *why) {
  double bytes = batch_bytes(r, header, cost, 1);
  *group = (gconv_bank_group){.count = header->frames == 1 ? choose_batch(r, header, cost, alike) : 1};
  group->bytes = batch_bytes(r, header, cost, (double)group->count);
  group->loading = loading_bytes(r, header, cost, (double)group->count);
  if (bytes <= (double)r->memory && (r->job->common.memory > 0 || !is_large(r, header, cost)))
    return GCONV_OK;
  const char *obstacle = find_obstacle(r, input, header);
  group->count = 1;
  if (!obstacle)
    return cut_bands(r, input, header, false, cost, group, why);
  return r->job->common.memory > 0 ? gconv_budget_refuse(bytes, (double)r->memory, "bands of rows", obstacle, why)
                                   : GCONV_OK;
}

bool gconv_bank_may_go_by_bands(const gconv_bank_run *r, size_t input, const gconv_image *header) {
  return find_obstacle(r, input, header) == NULL;
}

gconv_status gconv_bank_cut_for_device(const gconv_bank_run *r, size_t input, const gconv_image *header,
                                       gconv_bank_group *group, gconv_message *why) {
  gconv_bank_cost cost;
  GCONV_TRY(gconv_bank_keep_text(why, gconv_bank_find_cost(r, header, &cost)));
  GCONV_TRY(cut_bands(r, input, header, true, &cost, group, why));
  group->whole = true;
  return GCONV_OK;
}
