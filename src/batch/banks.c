/* SPDX-License-Identifier: MIT */
#include "batch/banks.h"
#include "batch/loop.h"
#include "batch/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Consecutive entries of run.order: images of one shape, or one array of several frames. */
typedef struct group_batch {
  size_t first, count;
} group_batch;

/* A batch in memory. */
typedef struct loaded {
  const group_batch *batch;
  gconv_image image;     /* of all that could be read */
  size_t *inputs;        /* [batch->count]: the number of each that could be read ... */
  int32_t *first_frames; /* ... and where it begins; one more ends the last */
  double *decode_ms;
  size_t count;       /* how many could be read */
  gconv_texts errors; /* of those that could not, each with its input in `failed` */
  size_t *failed;
} loaded;

typedef struct run {
  const gconv_bank_batch *job;
  gconv_batch_summary *summary;
  double begin_ms;
  int threads;
  gconv_device *planner; /* a CPU, for what can be told before the device is there */
  gconv_device *device;
  gconv_device_opening *opening;
  gconv_device_choice choice;
  size_t *order; /* inputs, those of one shape together */
  size_t order_count;
  group_batch *batches;
  size_t batch_count;
  gconv_network *network;
  gconv_image maps;         /* that it yields */
  bool cold;                /* the network was made for this batch */
  gconv_row_writer *writer; /* of the one tensor */
  gconv_status status;      /* why the whole run failed */
  gconv_message why;
} run;

static gconv_status keep_text(gconv_message *why, gconv_status status) {
  return status == GCONV_OK ? GCONV_OK : gconv_complain(why, status, "%s", gconv_last_error());
}

/* ---- Batches ---- */

static bool same_shape(const gconv_image *a, const gconv_image *b) {
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

gconv_status gconv_bank_image_read(const gconv_bank_batch *job, const char *path, gconv_image *image) {
  gconv_read_options options = {.max_pixels = job->common.max_pixels, .threads = 1};
  gconv_status status = gconv_image_read(path, &options, image);
  if (status == GCONV_OK && job->nhwc && image->planar)
    status = gconv_to_nchw(image);
  return status;
}

/* Reads all headers; one that cannot be read has no frames, and its failure shows when it is decoded. Standard input is not
 * looked into. */
static void read_headers(const run *r, gconv_image *headers) {
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

/* What one image of a shape takes, told by a network for the CPU. */
typedef struct shape_cost {
  double bytes; /* of all tensors */
  double cpu_ms, gpu_ms;
} shape_cost;

static gconv_status find_cost(const run *r, const gconv_image *header, shape_cost *cost) {
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
  *cost = (shape_cost){.bytes = in};
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
static size_t choose_batch(const run *r, const shape_cost *cost, size_t alike) {
  static const double MOST_BYTES = 256 << 20;
  const size_t parts = 4, most = 64;
  if (r->job->batch > 0)
    return (size_t)r->job->batch;
  size_t count = (alike - 1) / parts + 1, fits = cost->bytes < MOST_BYTES ? (size_t)(MOST_BYTES / cost->bytes) : 1;
  count = count < fits ? count : fits;
  return count < most ? count : most;
}

/* Cuts run.order[first .. end - 1], which are of one shape, into batches, and adds up what they cost. */
static void cut_group(run *r, const gconv_image *header, size_t first, size_t end, shape_cost *total) {
  shape_cost cost = {0};
  size_t batch = 1, alike = end - first;
  if (header->frames > 0 && find_cost(r, header, &cost) == GCONV_OK && header->frames == 1)
    batch = choose_batch(r, &cost, alike);
  total->cpu_ms += cost.cpu_ms * (double)alike;
  total->gpu_ms += cost.gpu_ms * (double)alike;
  for (size_t i = first; i < end; i += batch)
    r->batches[r->batch_count++] = (group_batch){i, end - i < batch ? end - i : batch};
}

/* Whether all results of an input are there already, and shall stay. */
static bool is_there(const run *r, size_t input) {
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

static void hand_in(run *r, gconv_report *report) {
  gconv_batch_summary *summary = r->summary;
  report->elapsed_ms = gconv_worker_clock_ms() - r->begin_ms;
  summary->begun++;
  summary->written += report->written;
  summary->passed += report->passed;
  summary->failed += report->failed;
  r->job->common.report(report, r->job->common.user);
}

static gconv_report begin_report(const run *r, size_t input, const gconv_texts *errors) {
  const gconv_batch *common = &r->job->common;
  gconv_report report = {.input = &common->inputs->items[input], .errors = errors, .outputs = common->outputs->paths.items};
  report.output_count = 1;
  if (!r->job->one_tensor) {
    report.outputs += common->outputs->first[input];
    report.output_count = common->outputs->first[input + 1] - common->outputs->first[input];
  }
  return report;
}

/* Of an input whose results are there: passed over, or failed. */
static void report_existing(run *r, size_t input) {
  gconv_texts errors = {0};
  gconv_report report = begin_report(r, input, &errors);
  bool kept = r->job->common.existing == GCONV_EXISTING_KEEP;
  *(kept ? &report.failed : &report.passed) = report.output_count;
  for (size_t n = 0; n < report.output_count && kept; n++) {
    gconv_message text;
    gconv_complain(&text, GCONV_EXISTS, "%s: exists and is kept (--no-clobber)", report.outputs[n]);
    gconv_texts_add(&errors, strdup(text.text));
  }
  hand_in(r, &report);
  gconv_texts_free(&errors);
}

/* Puts inputs of one shape together, in their order, and cuts them into batches. One tensor has all in their order: there,
 * only neighbours are put together. */
static void make_batches(run *r, const gconv_image *headers, bool *taken, shape_cost *total) {
  size_t count = r->job->common.inputs->count;
  for (size_t i = 0; i < count; i++) {
    taken[i] = is_there(r, i);
    if (taken[i])
      report_existing(r, i);
  }
  for (size_t i = 0; i < count; i++) {
    size_t first = r->order_count;
    for (size_t j = i; j < count; j++)
      if (!taken[j] && (j == i || (headers[i].frames == 1 && same_shape(&headers[i], &headers[j])))) {
        r->order[r->order_count++] = j;
        taken[j] = true;
      } else if (r->job->one_tensor) {
        break;
      }
    if (r->order_count > first)
      cut_group(r, &headers[i], first, r->order_count, total);
  }
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
  gconv_status status = keep_text(message, gconv_image_read_header(path, &again, NULL));
  gconv_image_free(&again);
  return status;
}

static gconv_status check_one_shape(const run *r, const gconv_image *headers, gconv_message *message) {
  for (size_t i = 0; i < r->job->common.inputs->count && r->job->one_tensor; i++) {
    GCONV_TRY(check_header(r->job->common.inputs->items[i].path, &headers[i], message));
    gconv_image other = headers[i];
    other.frames = headers[0].frames;
    if (!same_shape(&headers[0], &other))
      return gconv_complain(message, GCONV_BAD_ARGUMENT,
                            "%s: one array cannot hold the results of %s and %s, which have different shapes: name a folder "
                            "(-o results/ --format npy)",
                            r->job->common.outputs->paths.items[0], r->job->common.inputs->items[0].path,
                            r->job->common.inputs->items[i].path);
  }
  return GCONV_OK;
}

/* ---- The device ---- */

/* Whether the CPU has the algorithm that is asked for. */
static bool cpu_has(const char *algorithm) {
  const gconv_algorithm_info *info;
  for (size_t i = 0; algorithm && (info = gconv_layer_algorithm_at(i)); i++)
    if (strcmp(info->device, "cpu") == 0 && strcmp(info->name, algorithm) == 0)
      return true;
  return !algorithm || strcmp(algorithm, "auto") == 0;
}

static gconv_status begin_device(run *r, const shape_cost *total, const gconv_image *headers, gconv_message *message) {
  const char *name = r->job->common.device;
  if (strcmp(name, "auto") == 0 && cpu_has(r->job->options.algorithm)) {
    gconv_job job = {.likes = headers, .like_count = 1, .images = r->job->common.inputs->count};
    job.cpu_ms = total->cpu_ms;
    job.gpu_ms = total->gpu_ms;
    GCONV_TRY(keep_text(message, gconv_device_choose(r->planner, &job, &r->choice)));
    name = r->choice.name;
  }
  return keep_text(message, gconv_device_open_begin(name, r->threads, &r->opening));
}

static gconv_status wait_for_device(run *r) {
  if (r->device)
    return GCONV_OK;
  double begin = gconv_worker_clock_ms();
  gconv_status status = keep_text(&r->why, gconv_device_open_end(r->opening, &r->device));
  r->opening = NULL;
  r->summary->device_wait_ms = gconv_worker_clock_ms() - begin;
  if (status != GCONV_OK)
    return status;
  r->summary->device = *gconv_device_get_info(r->device);
  r->summary->device_start_ms = gconv_device_start_ms(r->device);
  memcpy(r->summary->device_reason, r->choice.reason, sizeof r->summary->device_reason);
  return GCONV_OK;
}

/* ---- Decoding ---- */

typedef struct decoding {
  const run *r;
  const group_batch *batch;
  gconv_image *images;
  double *ms;
  char **errors;
} decoding;

static void decode(void *context, size_t turn) {
  const decoding *d = context;
  const char *path = d->r->job->common.inputs->items[d->r->order[d->batch->first + turn]].path;
  double begin = gconv_worker_clock_ms();
  if (gconv_bank_image_read(d->r->job, path, &d->images[turn]) != GCONV_OK)
    d->errors[turn] = strdup(gconv_last_error());
  d->ms[turn] = gconv_worker_clock_ms() - begin;
}

/* Copies an image's planes behind each other. */
static void copy_frame(const gconv_image *from, gconv_image *to, int32_t frame) {
  size_t planes = to->planar ? (size_t)to->channels : 1;
  for (size_t i = 0; i < planes * (size_t)from->frames; i++)
    memcpy((uint8_t *)to->data + ((size_t)frame * planes + i) * to->plane_bytes,
           (const uint8_t *)from->data + i * from->plane_bytes, to->plane_bytes);
}

/* Makes one image of those that could be read, and are of the shape of the first. */
static gconv_status join(loaded *l, const decoding *d) {
  const gconv_image *first = NULL;
  int32_t frames = 0;
  for (size_t i = 0; i < l->batch->count; i++) {
    size_t input = d->r->order[l->batch->first + i];
    bool fits = d->images[i].data && (!first || same_shape(first, &d->images[i]));
    if (!fits) {
      l->failed[l->errors.count] = input;
      const char *text = d->errors[i] ? d->errors[i] : "it changed while it was waiting for its turn";
      if (!gconv_texts_add(&l->errors, strdup(text)))
        return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
      gconv_image_free(&d->images[i]);
      continue;
    }
    first = first ? first : &d->images[i];
    l->inputs[l->count] = input;
    l->decode_ms[l->count] = d->ms[i];
    l->first_frames[l->count++] = frames;
    frames += d->images[i].frames;
  }
  l->first_frames[l->count] = frames;
  if (!first)
    return GCONV_OK;
  l->image = *first;
  if (l->count == 1) { /* as it is */
    ((gconv_image *)first)->data = ((gconv_image *)first)->icc = NULL;
    return GCONV_OK;
  }
  l->image.frames = frames;
  l->image.data = l->image.icc = NULL;
  gconv_status status = gconv_image_allocate(&l->image);
  for (size_t i = 0, at = 0; i < l->batch->count && status == GCONV_OK; i++)
    if (d->images[i].data)
      copy_frame(&d->images[i], &l->image, l->first_frames[at++]);
  return status;
}

static gconv_status load(const run *r, const group_batch *batch, loaded *l) {
  decoding d = {r, batch, calloc(batch->count, sizeof *d.images), calloc(batch->count, sizeof *d.ms),
                calloc(batch->count, sizeof *d.errors)};
  *l = (loaded){.batch = batch};
  l->inputs = calloc(batch->count, sizeof *l->inputs);
  l->failed = calloc(batch->count, sizeof *l->failed);
  l->decode_ms = calloc(batch->count, sizeof *l->decode_ms);
  l->first_frames = calloc(batch->count + 1, sizeof *l->first_frames);
  gconv_status status = GCONV_OK;
  if (d.images && d.ms && d.errors && l->inputs && l->failed && l->decode_ms && l->first_frames) {
    gconv_loop_run(r->threads, batch->count, decode, &d);
    status = join(l, &d);
  } else {
    status = gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  }
  for (size_t i = 0; i < batch->count; i++) {
    if (d.images)
      gconv_image_free(&d.images[i]);
    if (d.errors)
      free(d.errors[i]);
  }
  free(d.images);
  free(d.ms);
  free(d.errors);
  return status;
}

static void unload(loaded *l) {
  gconv_image_free(&l->image);
  gconv_texts_free(&l->errors);
  free(l->inputs);
  free(l->failed);
  free(l->decode_ms);
  free(l->first_frames);
  *l = (loaded){0};
}

/* The batch after the one at work, decoded in a thread of its own. */
typedef struct loader {
  const run *r;
  const group_batch *batch;
  loaded result;
  gconv_status status;
  gconv_message why;
  pthread_t thread;
  bool started;
} loader;

static void *load_in_thread(void *argument) {
  loader *l = argument;
  l->status = keep_text(&l->why, load(l->r, l->batch, &l->result));
  return NULL;
}

static void begin_loading(const run *r, size_t batch, loader *l) {
  *l = (loader){.r = r, .batch = batch < r->batch_count ? &r->batches[batch] : NULL};
  if (l->batch)
    l->started = pthread_create(&l->thread, NULL, load_in_thread, l) == 0;
}

static gconv_status end_loading(loader *l, loaded *result, gconv_message *why) {
  if (l->started)
    pthread_join(l->thread, NULL);
  else
    load_in_thread(l);
  *result = l->result;
  *why = l->why;
  return l->status;
}

/* ---- Convolving ---- */

static gconv_status ensure_network(run *r, const gconv_image *like) {
  r->cold = !r->network || !gconv_network_fits(r->network, like);
  if (!r->cold)
    return GCONV_OK;
  gconv_network_free(r->network);
  gconv_image_free(&r->maps);
  r->network = NULL;
  return gconv_network_create(r->device, like, r->job->layers, r->job->layer_count, &r->job->options, &r->network);
}

static void describe(const run *r, const loaded *l, gconv_plan_info *plan) {
  const gconv_layer_info *first = gconv_network_get_info(r->network, 0), *info;
  const gconv_image *out = gconv_network_output_header(r->network);
  double images = (double)l->count;
  *plan = (gconv_plan_info){.device = gconv_device_get_info(r->device)->name,
                            .algorithm = first->algorithm,
                            .math = first->math,
                            .exact = true,
                            .frames = l->image.frames / (int32_t)l->count,
                            .channels = l->image.channels,
                            .height = l->image.height,
                            .width = l->image.width,
                            .rows = first->rows,
                            .columns = first->columns,
                            .out_height = out->height,
                            .out_width = out->width,
                            .out_channels = out->channels,
                            .input_type = l->image.type,
                            .output_type = GCONV_F32};
  for (size_t i = 0; (info = gconv_network_get_info(r->network, i)); i++) {
    plan->exact = plan->exact && info->exact;
    plan->algorithm = strcmp(plan->algorithm, info->algorithm) == 0 ? info->algorithm : "several";
    plan->math = strcmp(plan->math, info->math) == 0 ? info->math : "several";
    plan->filters = info->filters;
    plan->flop += info->flop / images;
    plan->estimate_ms += info->estimate_ms / images;
    plan->error_bound = info->error_bound > plan->error_bound ? info->error_bound : plan->error_bound;
    plan->workspace_bytes = info->workspace_bytes > plan->workspace_bytes ? info->workspace_bytes : plan->workspace_bytes;
    plan->bytes +=
        4.0 / images * info->images *
        ((double)info->channels * info->height * info->width + (double)info->filters * info->out_height * info->out_width);
  }
}

/* What is common to the reports of a batch. */
typedef struct outcome {
  gconv_report report; /* times are those of one image: its share */
  char *explanation;
} outcome;

static gconv_status convolve(run *r, const loaded *l, outcome *o) {
  gconv_report *report = &o->report;
  double begin = gconv_worker_clock_ms(), images = (double)l->count;
  GCONV_TRY(ensure_network(r, &l->image));
  report->plan_ms = r->cold ? (gconv_worker_clock_ms() - begin) / images : 0;
  report->cold = r->cold;
  if (r->cold && r->job->common.explain && r->summary->begun == 0)
    GCONV_TRY(gconv_network_explain(r->network, &o->explanation));
  gconv_timings times;
  GCONV_TRY(gconv_network_execute(r->network, &l->image, &r->maps, &times));
  report->total_ms = (gconv_worker_clock_ms() - begin) / images;
  report->timings = (gconv_timings){times.prepare_ms / images, times.upload_ms / images, times.kernel_ms / images,
                                    times.download_ms / images, times.finish_ms / images};
  report->executed = true;
  report->pixels = (uint64_t)(l->image.frames / (int32_t)l->count) * (uint64_t)l->image.height * (uint64_t)l->image.width;
  describe(r, l, &report->plan);
  if (!r->job->common.verify)
    return GCONV_OK;
  gconv_status status =
      gconv_network_verify(r->network, &l->image, &r->maps, r->job->common.tolerance, &report->verification);
  report->verified = status == GCONV_OK || status == GCONV_MISMATCH;
  return status;
}

/* ---- Writing ---- */

/* The results of a batch: one turn each. */
typedef struct writing {
  run *r;
  const loaded *l;
  gconv_report *reports; /* [l->count] */
  gconv_texts *errors;   /* [l->count] */
  size_t *first;         /* [l->count + 1]: the first turn of each image */
  int threads;           /* of one result */
  pthread_mutex_t lock;  /* guards reports and errors */
} writing;

static void count_result(writing *w, size_t image, const char *path, gconv_status status, const char *why) {
  gconv_report *report = &w->reports[image];
  bool skipped = status == GCONV_EXISTS && w->r->job->common.existing == GCONV_EXISTING_SKIP;
  pthread_mutex_lock(&w->lock);
  report->written += status == GCONV_OK;
  report->passed += skipped;
  report->failed += status != GCONV_OK && !skipped;
  if (status != GCONV_OK && !skipped) {
    gconv_message text;
    bool named = strncmp(why, path, strlen(path)) == 0;
    gconv_complain(&text, status, "%s%s%s", named ? "" : path, named ? "" : ": ", why);
    gconv_texts_add(&w->errors[image], strdup(text.text));
  }
  pthread_mutex_unlock(&w->lock);
}

/* The pictures of `count` frames from `first` on, as the frames of one. */
static gconv_status present_frames(const writing *w, int32_t first, int32_t count, size_t result, gconv_image *pictures) {
  GCONV_TRY(gconv_bank_present(w->r->job, &w->r->maps, first, result, w->threads, pictures));
  if (count == 1)
    return GCONV_OK;
  gconv_image one = *pictures;
  pictures->frames = count;
  pictures->data = NULL;
  gconv_status status = gconv_image_allocate(pictures);
  for (int32_t i = 0; i < count && status == GCONV_OK; i++) {
    if (i > 0) {
      gconv_image_free(&one);
      status = gconv_bank_present(w->r->job, &w->r->maps, first + i, result, w->threads, &one);
    }
    if (status == GCONV_OK)
      copy_frame(&one, pictures, i);
  }
  gconv_image_free(&one);
  return status;
}

static gconv_status write_picture(const writing *w, const char *path, int32_t first, int32_t count, size_t result) {
  const gconv_batch *common = &w->r->job->common;
  gconv_write_options options = {.format = common->outputs->format,
                                 .keep_existing = common->existing != GCONV_EXISTING_REPLACE,
                                 .jpeg_quality = common->jpeg_quality,
                                 .png_level = common->png_level,
                                 .threads = w->threads};
  gconv_image picture = {0};
  gconv_status status = present_frames(w, first, count, result, &picture);
  if (status == GCONV_OK)
    status = gconv_image_write(path, &options, &picture);
  gconv_image_free(&picture);
  return status;
}

/* Frames of an image that have one array as their result. */
static gconv_status write_frames(const writing *w, size_t image, const char *path) {
  gconv_image frames = w->r->maps;
  int32_t first = w->l->first_frames[image];
  gconv_bank_batch job = *w->r->job;
  frames.frames = w->l->first_frames[image + 1] - first;
  frames.data = (uint8_t *)frames.data + (size_t)first * (size_t)frames.channels * frames.plane_bytes;
  gconv_write_options options = {.format = job.common.outputs->format,
                                 .keep_existing = job.common.existing != GCONV_EXISTING_REPLACE};
  if (!job.nhwc)
    return gconv_image_write(path, &options, &frames);
  gconv_image copy = frames;
  copy.data = NULL;
  gconv_status status = gconv_image_allocate(&copy);
  if (status == GCONV_OK) {
    copy_frame(&frames, &copy, 0);
    status = gconv_to_nhwc(&copy);
  }
  if (status == GCONV_OK)
    status = gconv_image_write(path, &options, &copy);
  gconv_image_free(&copy);
  return status;
}

static void write_result(void *context, size_t turn) {
  writing *w = context;
  const gconv_batch *common = &w->r->job->common;
  size_t image = 0;
  while (turn >= w->first[image + 1])
    image++;
  size_t n = turn - w->first[image];
  int32_t first = w->l->first_frames[image], frames = w->l->first_frames[image + 1] - first;
  size_t files = w->reports[image].output_count / gconv_bank_results(w->r->job); /* of each result: one a frame, or one */
  const char *path = w->reports[image].outputs[n];
  gconv_message why;
  gconv_status status = GCONV_OK;
  double begin = gconv_worker_clock_ms();
  if (common->existing != GCONV_EXISTING_REPLACE && gconv_output_exists(path))
    status = gconv_complain(&why, GCONV_EXISTS, "exists and is kept (--no-clobber)");
  else if (common->outputs->make_folders)
    status = gconv_outputs_make_folders(path, &why);
  if (status == GCONV_OK) {
    bool whole = w->r->job->presentation == GCONV_PRESENT_TENSOR;
    status =
        keep_text(&why, whole ? write_frames(w, image, path)
                              : write_picture(w, path, first + (int32_t)(n % files), files == 1 ? frames : 1, n / files));
  }
  count_result(w, image, path, status, why.text);
  pthread_mutex_lock(&w->lock);
  w->reports[image].encode_ms += gconv_worker_clock_ms() - begin;
  pthread_mutex_unlock(&w->lock);
}

/* Opens the one tensor: its frames are those of all inputs. */
static gconv_status open_tensor(run *r, const gconv_image *headers) {
  const gconv_batch *common = &r->job->common;
  gconv_image header = *gconv_network_output_header(r->network);
  header.frames = 0;
  for (size_t i = 0; i < common->inputs->count; i++)
    header.frames += headers[i].frames;
  if (r->job->nhwc) {
    int32_t channels = header.channels;
    header.channels = header.height;
    header.height = header.width;
    header.width = channels;
  }
  gconv_write_options options = {.format = common->outputs->format,
                                 .keep_existing = common->existing != GCONV_EXISTING_REPLACE};
  return gconv_row_writer_open(common->outputs->paths.items[0], &options, &header, &r->writer);
}

static gconv_status append_tensor(run *r, const gconv_image *headers) {
  if (!r->writer)
    GCONV_TRY(open_tensor(r, headers));
  gconv_image *maps = &r->maps;
  if (r->job->nhwc)
    GCONV_TRY(gconv_to_nhwc(maps));
  size_t rows = (size_t)maps->frames * (size_t)maps->channels * (size_t)maps->height;
  gconv_status status = GCONV_OK;
  for (size_t at = 0, step; at < rows && status == GCONV_OK; at += step) {
    step = rows - at < (1 << 20) ? rows - at : 1 << 20;
    status = gconv_row_writer_write(r->writer, (uint8_t *)maps->data + at * maps->row_bytes, maps->row_bytes, (int32_t)step);
  }
  if (r->job->nhwc)
    gconv_image_free(maps); /* another shape than the network yields */
  return status;
}

static gconv_status write_batch(run *r, const loaded *l, const gconv_image *headers, gconv_report *reports,
                                gconv_texts *errors) {
  if (r->job->one_tensor) {
    double begin = gconv_worker_clock_ms();
    GCONV_TRY(append_tensor(r, headers));
    for (size_t i = 0; i < l->count; i++)
      reports[i].encode_ms = (gconv_worker_clock_ms() - begin) / (double)l->count;
    return GCONV_OK;
  }
  size_t *first = calloc(l->count + 1, sizeof *first);
  if (!first)
    return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  for (size_t i = 0; i < l->count; i++)
    first[i + 1] = first[i] + reports[i].output_count;
  int share = first[l->count] < (size_t)r->threads ? r->threads / (int)first[l->count] : 1;
  writing w = {r, l, reports, errors, first, share, PTHREAD_MUTEX_INITIALIZER};
  gconv_loop_run(r->threads, first[l->count], write_result, &w);
  free(first);
  return GCONV_OK;
}

/* ---- A batch ---- */

/* Hands in those that failed before they could be convolved. */
static void report_unread(run *r, const loaded *l) {
  for (size_t i = 0; i < l->errors.count; i++) {
    gconv_texts errors = {0};
    gconv_message text;
    gconv_complain(&text, GCONV_IO_ERROR, "%s", l->errors.items[i]);
    gconv_texts_add(&errors, strdup(text.text));
    gconv_report report = begin_report(r, l->failed[i], &errors);
    report.failed = report.output_count;
    hand_in(r, &report);
    gconv_texts_free(&errors);
  }
}

static gconv_report make_report(const run *r, const loaded *l, size_t i, const outcome *o, const gconv_texts *errors) {
  gconv_report bare = begin_report(r, l->inputs[i], errors), report = o->report;
  report.input = bare.input;
  report.outputs = bare.outputs;
  report.output_count = bare.output_count;
  report.errors = errors;
  report.decode_ms = l->decode_ms[i];
  report.explanation = i == 0 ? o->explanation : NULL;
  report.device_reason = r->summary->device_reason;
  report.cold = o->report.cold && i == 0;
  return report;
}

static void process(run *r, const loaded *l, const gconv_image *headers) {
  outcome o = {0};
  gconv_report *reports = calloc(l->count, sizeof *reports);
  gconv_texts *errors = calloc(l->count, sizeof *errors);
  gconv_message why = {""};
  gconv_status status = reports && errors ? keep_text(&why, convolve(r, l, &o)) : gconv_complain_memory(&why);
  for (size_t i = 0; i < l->count && reports && errors; i++)
    reports[i] = make_report(r, l, i, &o, &errors[i]);
  if (status == GCONV_OK)
    status = keep_text(&why, write_batch(r, l, headers, reports, errors));
  for (size_t i = 0; i < l->count && reports && errors; i++) {
    gconv_report *report = &reports[i];
    if (status != GCONV_OK) {
      report->failed = report->output_count;
      gconv_complain(&r->why, status, "%s: %s", report->input->path, why.text);
      gconv_texts_add(&errors[i], strdup(r->why.text));
    }
    report->written += status == GCONV_OK && r->job->one_tensor && i == 0 && !r->summary->written;
    report->total_ms += report->decode_ms + report->encode_ms;
    hand_in(r, report);
    gconv_texts_free(&errors[i]);
  }
  free(o.explanation);
  free(reports);
  free(errors);
}

/* Decodes, convolves and writes all batches, each while the next is decoded. */
static gconv_status process_all(run *r, const gconv_image *headers, gconv_message *message) {
  loader ahead;
  gconv_status status = GCONV_OK;
  begin_loading(r, 0, &ahead);
  for (size_t i = 0; i < r->batch_count; i++) {
    loaded now = {0};
    gconv_status loading = end_loading(&ahead, &now, message);
    bool stop = status != GCONV_OK || loading != GCONV_OK || (r->job->common.fail_fast && r->summary->failed > 0);
    begin_loading(r, stop ? r->batch_count : i + 1, &ahead);
    status = status == GCONV_OK ? loading : status;
    if (status == GCONV_OK && !stop) {
      report_unread(r, &now);
      status = now.count > 0 ? wait_for_device(r) : GCONV_OK;
      if (status != GCONV_OK)
        *message = r->why;
      else if (now.count > 0)
        process(r, &now, headers);
    }
    unload(&now);
    if (stop || status != GCONV_OK) {
      if (ahead.batch) {
        end_loading(&ahead, &now, &r->why);
        unload(&now);
      }
      break;
    }
  }
  return status;
}

/* The one tensor appears if nothing failed. */
static gconv_status finish_tensor(run *r, gconv_message *message) {
  if (!r->writer)
    return GCONV_OK;
  gconv_row_writer *writer = r->writer;
  r->writer = NULL;
  if (r->summary->failed > 0) {
    gconv_row_writer_discard(writer);
    r->summary->written = 0;
    return GCONV_OK;
  }
  return keep_text(message, gconv_row_writer_commit(writer));
}

static gconv_status run_all(run *r, gconv_image *headers, gconv_message *message) {
  shape_cost total = {0};
  const gconv_batch *common = &r->job->common;
  if (r->job->one_tensor && common->existing == GCONV_EXISTING_KEEP && gconv_output_exists(common->outputs->paths.items[0]))
    return gconv_complain(message, GCONV_EXISTS, "%s: exists and is kept (--no-clobber)", common->outputs->paths.items[0]);
  read_headers(r, headers);
  GCONV_TRY(check_one_shape(r, headers, message));
  bool *taken = calloc(r->job->common.inputs->count, sizeof *taken);
  if (!taken)
    return gconv_complain_memory(message);
  make_batches(r, headers, taken, &total);
  free(taken);
  if (r->batch_count == 0)
    return GCONV_OK;
  GCONV_TRY(begin_device(r, &total, headers, message));
  gconv_status status = process_all(r, headers, message);
  gconv_status tensor = finish_tensor(r, message);
  return status == GCONV_OK ? tensor : status;
}

static void close_all(run *r) {
  gconv_network_free(r->network);
  gconv_image_free(&r->maps);
  if (r->opening)
    gconv_device_open_end(r->opening, &r->device);
  gconv_device_close(r->device);
  gconv_device_close(r->planner);
  free(r->order);
  free(r->batches);
}

gconv_status gconv_bank_batch_run(const gconv_bank_batch *job, gconv_batch_summary *summary, gconv_message *message) {
  size_t count = job->common.inputs->count;
  run r = {.job = job, .summary = summary, .begin_ms = gconv_worker_clock_ms()};
  *summary = (gconv_batch_summary){0};
  r.threads = job->common.threads > 0 ? job->common.threads : gconv_processor_count();
  r.order = calloc(count, sizeof *r.order);
  r.batches = calloc(count, sizeof *r.batches);
  gconv_image *headers = calloc(count, sizeof *headers);
  gconv_status status = r.order && r.batches && headers ? GCONV_OK : gconv_complain_memory(message);
  if (status == GCONV_OK)
    status = keep_text(message, gconv_device_open("cpu", r.threads, &r.planner));
  if (status == GCONV_OK)
    status = run_all(&r, headers, message);
  free(headers);
  close_all(&r);
  for (size_t i = summary->begun; i < count && status == GCONV_OK; i++)
    summary->failed++;
  summary->wall_ms = gconv_worker_clock_ms() - r.begin_ms;
  return status;
}
