/* SPDX-License-Identifier: MIT */
/* Memory: what images take of it, and so whether they go whole, how many together, or by rows; and what all workers share.
 */
#include "base/memory.h"
#include "base/nodata.h"
#include "batch/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Groups of several images take up to GROUP_BYTES, and an image whose group would take more than LARGE_BYTES goes by rows,
 * of which about BAND_BYTES are at work. These are the same on every machine, so that results are. A writer has WRITER_BYTES
 * a thread; of those of a bank that are at work at a time there are at most MOST_WRITERS. */
static const double GROUP_BYTES = 256 << 20, LARGE_BYTES = 1 << 30, BAND_BYTES = 96 << 20, WRITER_BYTES = 5 << 20;
static const double PROGRAM_BYTES = 8 << 20;      /* with libraries and stacks, whatever it does */
static const double LEAST_WRITER_BYTES = 1 << 20; /* of a small result */
static const double SLAB_BYTES = 2 << 20;         /* pinned, of a worker whose images may be a GPU's */
static const double STREAMED_BYTES = 8 << 20;     /* plain images above go by rows */
enum { MOST_WRITERS = 256, PROBE_ROWS = 64, LEAST_ROWS = 16 };

static double row_bytes_of(const gconv_image *image) {
  return (double)image->frames * image->width * image->channels * (double)gconv_type_bytes(image->type);
}

/* ---- What all workers share ---- */

gconv_budget gconv_budget_begin(uint64_t bytes, const gconv_operation *operation) {
  uint64_t all = bytes > 0 ? bytes : gconv_memory_there() / 2;
  uint64_t shared = (uint64_t)(PROGRAM_BYTES + gconv_operation_held_bytes(operation));
  return (gconv_budget){.bytes = all > shared ? all - shared : 0,
                        .shared = shared,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .changed = PTHREAD_COND_INITIALIZER};
}

gconv_read_options gconv_run_reading(const gconv_run *run) {
  const gconv_batch *batch = run->batch;
  return (gconv_read_options){.max_pixels = batch->max_pixels,
                              .unrounded = batch->unrounded,
                              .strip = batch->strip,
                              .planes = batch->outputs->planes,
                              .max_bytes = batch->memory > 0 ? run->budget.bytes + 1 : 0}; /* 0 would be any number */
}

/* ---- What images of a shape take ---- */

/* Of the outputs, and of the rows that they need: from an outline by rows, so that nothing large is made. */
static void look_at(const gconv_plan *outline, int threads, gconv_cost *cost) {
  const gconv_image *like = &outline->like;
  cost->outputs = gconv_plan_outputs(outline);
  for (size_t i = 0; i < cost->outputs; i++) {
    const gconv_image *out = gconv_plan_output_header(outline, i);
    cost->out += row_bytes_of(out) * out->height;
    cost->out_row += row_bytes_of(out);
    if (i == 0 || row_bytes_of(out) * out->height > row_bytes_of(&cost->result) * cost->result.height)
      cost->result = gconv_header_of(out);
  }
  cost->rows = gconv_plan_get_info(outline)->out_height;
  cost->scale = (double)like->height / cost->rows;
  int32_t step = gconv_plan_row_step(outline), begin, end;
  if (step > 0 && outline->operation->type->batches) {
    gconv_plan_rows_needed(outline, cost->rows / 2 / step * step, step, &begin, &end);
    cost->halo = fmax(end - begin - cost->scale * step, 0);
  } else if (step > 0) {
    cost->stream = gconv_stream_bytes(outline, cost->outputs, threads);
  }
}

static gconv_cost find_cost(gconv_worker *worker, const gconv_image *header) {
  const gconv_run *run = worker->run;
  gconv_cost cost = {.in_row = row_bytes_of(header)};
  gconv_plan *outline = NULL;
  cost.in = cost.in_row * header->height;
  cost.known = gconv_operation_find_need(worker->cpu, header, run->operation, PROBE_ROWS, &cost.need) == GCONV_OK;
  if (cost.known && gconv_plan_outline(worker->cpu, header, run->operation, PROBE_ROWS, &outline) == GCONV_OK) {
    look_at(outline, worker->threads, &cost);
    worker->either = run->exact && gconv_devices_are_open(run->devices) && outline->info.exact;
  } else {
    cost.out = cost.in; /* the CPU has no such algorithm */
    cost.rows = header->height;
    cost.scale = 1;
    cost.outputs = gconv_operation_outputs(run->operation);
    cost.result = gconv_header_of(header);
  }
  gconv_plan_free(outline);
  return cost;
}

static void clear(gconv_worker *worker) {
  gconv_image_free(&worker->input);
  gconv_worker_clear_results(worker);
}

void gconv_worker_judge(gconv_worker *worker, const gconv_image *header) {
  if (worker->judged.frames > 0 && gconv_image_alike(&worker->judged, header))
    return;
  if (worker->run->batch->memory > 0)
    clear(worker); /* pixels of another shape are of no use */
  worker->judged = gconv_header_of(header);
  worker->either = false;
  worker->cost = find_cost(worker, header);
}

/* Whether results are arrays, written as they are. */
static bool are_arrays(const gconv_run *run) {
  const gconv_format_info *format = run->batch->outputs->format; /* banks have one */
  return format && format->tensors && run->operation->type->batches;
}

/* Bytes of copies while an array whose channels are last is read. */
static double turning_bytes(const gconv_worker *worker, const gconv_image *header) {
  return worker->run->batch->nhwc && header->planar ? worker->cost.in : 0;
}

/* Bytes while images are decoded and put together: each thread is at one, and one may be there twice. */
static double loading_bytes(const gconv_worker *worker, const gconv_image *header, double images, double reader) {
  double at_a_time = fmin(images, worker->threads);
  return (images > 1 ? images + 1 : images) * worker->cost.in + at_a_time * (reader + turning_bytes(worker, header));
}

/* Bytes of the strips of one writer on one thread: a few of them, which are rows at least, and not much more than a small
 * result. */
static double strip_bytes(const gconv_worker *worker) {
  const gconv_image *result = &worker->cost.result;
  double row = row_bytes_of(result) / result->frames, all = row * result->height;
  return fmin(fmax(WRITER_BYTES, 6 * row), LEAST_WRITER_BYTES + 6 * all);
}

/* Bytes that one writer takes in proportion to the picture. Planes become pixels in a copy. */
static double picture_bytes(const gconv_worker *worker, const gconv_item *item, bool in_parts) {
  const gconv_batch *batch = worker->run->batch;
  const gconv_write_options options = {.format = item ? item->format : batch->outputs->format,
                                       .quality = batch->quality,
                                       .lossless = batch->lossless || batch->outputs->same};
  gconv_image result = worker->cost.result;
  if (!options.format)
    return 0;
  if (item && item->file_frames > result.frames)
    result.frames = item->file_frames;
  double turned = result.planar && result.channels > 1 && !options.format->tensors ? gconv_pixel_bytes(&result) : 0;
  return turned + gconv_row_writer_bytes(&options, &result, in_parts, item && item->sent);
}

/* Bytes of what writes results, each thread one at a time; files that are shared by frames are all open. */
static double writing_bytes(const gconv_worker *worker, const gconv_item *item, double images) {
  const gconv_cost *cost = &worker->cost;
  double results = images * (double)cost->outputs, at_a_time = fmin(results, worker->threads);
  bool all_open = item && item->file_frames > 0;
  double pictures = (all_open ? results : at_a_time) * picture_bytes(worker, item, false);
  if (are_arrays(worker->run))
    return pictures + (worker->run->batch->nhwc ? 2 * at_a_time * cost->out : 0);
  return pictures + fmax(all_open ? results : at_a_time, worker->threads) * strip_bytes(worker);
}

double gconv_reading_bytes(const gconv_worker *worker, const gconv_row_reader *reader) {
  double copies = (double)worker->cost.outputs + 2; /* of the reader's, and in a file that is written */
  return (double)gconv_row_reader_bytes(reader) + copies * (double)gconv_row_reader_metadata_bytes(reader);
}

double gconv_whole_bytes(gconv_worker *worker, const gconv_item *item, const gconv_image *header, double images,
                         double reader) {
  gconv_worker_judge(worker, header);
  const gconv_batch *batch = worker->run->batch;
  const gconv_cost *cost = &worker->cost;
  double verified = batch->verify ? images * cost->need.verify : 0;
  double at_work = images * (cost->in + cost->out) + fmax(writing_bytes(worker, item, images), verified);
  double slabs = strcmp(batch->device, "cpu") == 0 ? 0 : SLAB_BYTES;
  return images * cost->need.image + cost->need.fixed + slabs + reader +
         fmax(at_work, loading_bytes(worker, header, images, reader));
}

/* Each image has its metadata until all are put together; a reader has two more copies. */
double gconv_group_bytes(gconv_worker *worker, const gconv_image *header, double images, double metadata) {
  double copies = images + 2 * fmin(images, worker->threads);
  return gconv_whole_bytes(worker, NULL, header, images, 0) + copies * metadata;
}

/* So that decoding and writing go on while others are executed, the images of a run are divided into parts. */
size_t gconv_choose_count(gconv_worker *worker, const gconv_image *header, size_t alike, double metadata) {
  const size_t parts = 4, most = 64;
  const gconv_batch *batch = worker->run->batch;
  gconv_worker_judge(worker, header);
  if (!worker->cost.known)
    return 1; /* it fails when it is decoded */
  double memory = (double)worker->run->budget.bytes;
  double tensors = worker->cost.need.image + (are_arrays(worker->run) ? worker->cost.out : 0);
  size_t count = (alike - 1) / parts + 1, fits = tensors < GROUP_BYTES ? (size_t)(GROUP_BYTES / tensors) : 1;
  count = count < fits ? count : fits;
  count = count < most ? count : most;
  if (batch->group > 0)
    count = (size_t)batch->group < alike ? (size_t)batch->group : alike;
  while (count > 1 &&
         gconv_group_bytes(worker, header, (double)count, metadata) + loading_bytes(worker, header, (double)count, 0) >
             memory)
    count--;
  return count;
}

/* ---- Too little ---- */

/* A unit, and how many of it hold `bytes`: "MB", or a smaller one for what is less than one. */
static const char *choose_unit(double bytes, double *count) {
  static const char *const units[] = {"MB", "kB", "bytes"};
  double unit = 1e6;
  int i = 0;
  for (; i < 2 && bytes < unit; i++)
    unit /= 1e3;
  *count = ceil(bytes / unit);
  return units[i];
}

/* GCONV_TOO_LARGE, in words. `reason`: why it cannot go by rows, which would take less; NULL: it does already. */
static gconv_status refuse(const gconv_worker *worker, double bytes, const char *reason) {
  double wanted, allowed;
  const char *unit = choose_unit(bytes + (double)worker->run->budget.shared, &wanted);
  const char *allowed_unit = choose_unit((double)worker->run->batch->memory, &allowed);
  const char *letter = unit[0] == 'M' ? "M" : unit[0] == 'k' ? "k" : "";
  char fewer[80] = ""; /* each thread has buffers of its own */
  if (worker->threads > 2)
    snprintf(fewer, sizeof fewer, ", or let fewer than %d threads work (--threads)", worker->threads);
  if (!reason)
    return gconv_fail(GCONV_TOO_LARGE, "takes about %.0f %s of memory, and --memory allows %.0f %s: raise it to %.0f%s%s",
                      wanted, unit, allowed, allowed_unit, wanted, letter, fewer);
  return gconv_fail(GCONV_TOO_LARGE,
                    "takes about %.0f %s of memory, and --memory allows %.0f %s: raise it to %.0f%s%s, or let it go by %s, "
                    "which takes less: now it cannot, as %s",
                    wanted, unit, allowed, allowed_unit, wanted, letter, fewer,
                    worker->run->operation->type->batches ? "bands of rows" : "rows", reason);
}

/* ---- By rows ---- */

const char *gconv_rows_obstacle(const gconv_worker *worker, const gconv_item *item, const gconv_image *header,
                                const gconv_row_reader *reader) {
  bool batches = worker->run->operation->type->batches;
  if (worker->run->batch->verify)
    return batches ? "--verify compares whole images" : "--verify compares the whole image";
  if (batches && header->frames > 1)
    return "it has several frames: save them one by one";
  if (!batches && !gconv_worker_is_on_cpu(worker))
    return "a GPU takes images whole, and -d cpu does not";
  if (!batches && reader && !gconv_row_reader_is_in_order(reader))
    return "its rows do not come in order (interlaced, turned by EXIF, or stored from the bottom)";
  if (!batches && (header->frames > 1 || header->planar))
    return "it has frames or planes";
  if (item->sent)
    return "what goes to standard output, a pipe or a device waits for all of it, and a file does not";
  return NULL;
}

bool gconv_goes_by_rows(const gconv_worker *worker, const gconv_item *item, const gconv_image *header,
                        const gconv_row_reader *reader, double whole_bytes, const char **reason) {
  const gconv_batch *batch = worker->run->batch;
  const gconv_cost *cost = &worker->cost;
  const char *obstacle = gconv_rows_obstacle(worker, item, header, reader);
  /* Of a pipe, an array must know whether several images come before it begins. */
  bool waits = item->format->tensors && reader && gconv_row_reader_is_open_ended(reader);
  bool too_large = whole_bytes > (double)worker->run->budget.bytes;
  *reason = obstacle ? obstacle : "border wrap, range minmax and stacks of more than 4 channels take it whole";
  if (obstacle || !cost->known)
    return false;
  if (!worker->run->operation->type->batches)
    return cost->stream > 0 && (too_large || (cost->in > STREAMED_BYTES && !waits));
  return too_large || (batch->memory == 0 && cost->in + cost->need.image + cost->out > LARGE_BYTES);
}

/* An image that goes by rows. */
typedef struct going {
  const gconv_worker *worker;
  const gconv_item *item;
  const gconv_image *header;
  const gconv_row_reader *reader; /* NULL: it is in memory */
} going;

/* Bytes of a writer that gets its rows in parts. */
static double writer_bytes(const going *g) {
  const gconv_cost *cost = &g->worker->cost;
  return fmax(WRITER_BYTES, 6 * cost->out_row / (double)cost->outputs);
}

/* What is taken whatever the number of rows, and for each row. */
static void find_bytes(const going *g, const gconv_cut *cut, double *fixed, double *row) {
  const gconv_worker *worker = g->worker;
  const gconv_cost *cost = &worker->cost;
  double reading = g->reader ? gconv_reading_bytes(worker, g->reader) : 0, windows = cut->whole ? 0 : 2 * cost->in_row;
  double share = (double)cut->writers / (double)cost->outputs;
  *fixed = cost->need.fixed + cost->need.rows + cost->halo * windows + reading;
  *fixed += cut->whole ? cost->in + turning_bytes(worker, g->header) : 0;
  *fixed += (double)cut->writers * picture_bytes(worker, g->item, true);
  if (!are_arrays(worker->run))
    *fixed += fmax((double)cut->writers, worker->threads) * writer_bytes(g);
  *row = cost->need.row + cost->scale * windows + 2 * cost->out_row * share * (worker->run->batch->nhwc ? 2 : 1);
}

/* Results of a bank that may be written at a time. */
static size_t most_writers(const gconv_worker *worker) {
  size_t most = gconv_most_writers(worker->run);
  return most < MOST_WRITERS ? most : MOST_WRITERS;
}

/* The least bytes that an image takes by bands, where `most` may be taken: more writers are at work where there is more.
 * Sets cut->writers, and the three numbers of that. */
static double least_bytes(const going *g, double most, gconv_cut *cut, double *fixed, double *row) {
  const gconv_cost *cost = &g->worker->cost;
  double each = WRITER_BYTES + picture_bytes(g->worker, g->item, true);
  cut->writers = 0;
  find_bytes(g, cut, fixed, row);
  cut->writers =
      (size_t)fmin(fmin(fmax((most - *fixed) / 4 / each, 1), (double)cost->outputs), (double)most_writers(g->worker));
  find_bytes(g, cut, fixed, row);
  return *fixed + fmax(cost->halo, LEAST_ROWS) * *row;
}

/* How much memory suffices: that for more writers, if there must be more. */
static double enough_bytes(const going *g, double least, gconv_cut *cut) {
  double fixed, row, wanted;
  for (int i = 0; i < MOST_WRITERS && (wanted = least_bytes(g, least, cut, &fixed, &row)) > least; i++)
    least = wanted;
  return least;
}

gconv_status gconv_rows_cut(const gconv_worker *worker, const gconv_item *item, const gconv_image *header,
                            const gconv_row_reader *reader, gconv_cut *cut) {
  const gconv_cost *cost = &worker->cost;
  const going g = {worker, item, header, reader};
  double most = (double)worker->run->budget.bytes, fixed, row;
  size_t writers = gconv_most_writers(worker->run);
  *cut = (gconv_cut){.writers = cost->outputs < writers ? cost->outputs : writers};
  if (!worker->run->operation->type->batches) {
    cut->whole = cut->writers < cost->outputs && !gconv_row_reader_can_begin_again(reader);
    cut->bytes = cost->stream + gconv_reading_bytes(worker, reader) + (cut->whole ? cost->in : 0) +
                 (double)cut->writers * picture_bytes(worker, item, true);
    return GCONV_OK;
  }
  bool ordered = reader && gconv_row_reader_is_in_order(reader) && !header->planar;
  bool once = are_arrays(worker->run); /* pictures take several passes: to find their range, or for rows of tiles */
  cut->whole = !ordered || !(once || gconv_row_reader_can_begin_again(reader));
  double least = least_bytes(&g, most, cut, &fixed, &row);
  double rows = fmin(most - fixed, BAND_BYTES) / row, fewest = fmax(cost->halo, LEAST_ROWS);
  if (rows < fewest && least > most && worker->run->batch->memory > 0)
    return refuse(worker, enough_bytes(&g, least, cut),
                  !cut->whole || !reader ? NULL
                  : ordered              ? "it is read several times, and this is a pipe, or one image of several"
                                         : "its rows do not come in order (planes, interlaced, turned by EXIF)");
  cut->rows =
      (int32_t)fmin(fmax(rows, fewest), cost->rows); /* as high as the halo at least: so at most half is computed twice */
  cut->bytes = fixed + cut->rows * row;
  return GCONV_OK;
}

/* ---- Taking ---- */

static uint64_t kept_bytes(const gconv_worker *worker) {
  uint64_t bytes = worker->input.data ? gconv_image_bytes(&worker->input) : 0;
  for (size_t k = 0; k < worker->result_count; k++)
    bytes += worker->results[k].data ? gconv_image_bytes(&worker->results[k]) : 0;
  return bytes;
}

static bool is_there(const gconv_budget *budget, uint64_t bytes) {
  return budget->taken == budget->parked || (bytes <= budget->bytes && budget->taken <= budget->bytes - bytes);
}

static bool try_take(gconv_budget *budget, uint64_t bytes) {
  pthread_mutex_lock(&budget->lock);
  bool there = budget->arrived == budget->served && is_there(budget, bytes);
  if (there)
    budget->taken += bytes;
  pthread_mutex_unlock(&budget->lock);
  return there;
}

/* In the order of the calls. More than the whole budget is given to a caller once nobody has any but those who wait, who
 * keep what their readers have: `parked` of this caller. */
static void wait_and_take(gconv_budget *budget, uint64_t bytes, uint64_t parked) {
  pthread_mutex_lock(&budget->lock);
  uint64_t place = budget->arrived++;
  budget->parked += parked;
  pthread_cond_broadcast(&budget->changed);
  while (budget->served != place || !is_there(budget, bytes))
    pthread_cond_wait(&budget->changed, &budget->lock);
  budget->served++;
  budget->parked -= parked;
  budget->taken += bytes;
  pthread_cond_broadcast(&budget->changed);
  pthread_mutex_unlock(&budget->lock);
}

static void give_back(gconv_budget *budget, uint64_t bytes) {
  pthread_mutex_lock(&budget->lock);
  budget->taken -= bytes;
  pthread_cond_broadcast(&budget->changed);
  pthread_mutex_unlock(&budget->lock);
}

/* Takes all the memory at once. A worker that has to wait first gives back what it has, but for its reader's: so workers
 * cannot wait for each other forever. */
static void take(gconv_worker *worker, uint64_t wanted) {
  gconv_budget *budget = &worker->run->budget;
  if (wanted <= worker->held)
    return;
  if (!try_take(budget, wanted - worker->held)) {
    uint64_t parked = worker->opened < worker->held ? worker->opened : worker->held;
    clear(worker);
    give_back(budget, worker->held - parked);
    gconv_plans_clear(worker->run->plans);
    wait_and_take(budget, wanted - parked, parked);
  }
  worker->held = wanted;
}

gconv_status gconv_worker_admit(gconv_worker *worker, double bytes, const char *reason) {
  gconv_budget *budget = &worker->run->budget;
  uint64_t wanted = bytes < 1e18 ? (uint64_t)bytes : (uint64_t)1e18;
  if (worker->run->batch->memory > 0 && wanted > budget->bytes)
    return refuse(worker, bytes, reason);
  take(worker, wanted);
  return GCONV_OK;
}

/* Gives back all but `bytes`. */
static void keep(gconv_worker *worker, uint64_t bytes) {
  if (bytes >= worker->held)
    return;
  give_back(&worker->run->budget, worker->held - bytes);
  worker->held = bytes;
}

/* ---- Open readers ---- */

/* Metadata, and files that are read as a whole, stay in memory while a worker waits for more. Of those, all workers together
 * have no more than this part of the budget, or one worker alone has them: else those who wait would hold what they wait
 * for.
 */
enum { OPENED_PART = 8 };

/* Whether readers may have `bytes` besides those of others. */
static bool may_open(const gconv_budget *budget, uint64_t others, uint64_t bytes) {
  return others == 0 || others + bytes <= budget->bytes / OPENED_PART;
}

/* Counts a reader as one of so many bytes. 0: it is closed. */
static void count_opened(gconv_worker *worker, uint64_t bytes) {
  gconv_budget *budget = &worker->run->budget;
  pthread_mutex_lock(&budget->lock);
  budget->opened += bytes - worker->opened;
  worker->opened = bytes;
  pthread_cond_broadcast(&budget->changed);
  pthread_mutex_unlock(&budget->lock);
}

/* Whether a worker that asks for `more` may open a file now. It comes behind all who wait for memory, as they hold some. */
static bool may_begin(const gconv_worker *worker, uint64_t more) {
  const gconv_budget *budget = &worker->run->budget;
  bool alone = budget->taken == worker->held;
  return budget->arrived == budget->served && may_open(budget, budget->opened, worker->expected) &&
         (alone || (more <= budget->bytes && budget->taken <= budget->bytes - more));
}

/* Takes what opening may need, and counts the reader as what it had before it was closed, if it was. False: it may not. */
static bool try_begin(gconv_worker *worker, double bytes, bool wait) {
  gconv_budget *budget = &worker->run->budget;
  uint64_t wanted = (uint64_t)fmin((double)kept_bytes(worker) + bytes, (double)budget->bytes);
  uint64_t more = wanted > worker->held ? wanted - worker->held : 0;
  pthread_mutex_lock(&budget->lock);
  while (wait && !may_begin(worker, more))
    pthread_cond_wait(&budget->changed, &budget->lock);
  bool may = may_begin(worker, more);
  if (may) {
    budget->taken += more;
    budget->opened += worker->expected;
    worker->held += more;
    worker->opened = worker->expected;
  }
  pthread_mutex_unlock(&budget->lock);
  return may;
}

/* A pipe takes nothing yet, and is not waited with: its writer may wait for others. */
void gconv_worker_admit_opening(gconv_worker *worker, const char *path) {
  double bytes = worker->run->batch->memory > 0 ? gconv_row_reader_opening_bytes(path) : 0;
  if (bytes == 0 || try_begin(worker, bytes, false))
    return;
  clear(worker);
  keep(worker, 0);
  gconv_plans_clear(worker->run->plans);
  try_begin(worker, bytes, true);
}

bool gconv_worker_settle_opening(gconv_worker *worker, const gconv_row_reader *reader, bool can_open_again) {
  gconv_budget *budget = &worker->run->budget;
  uint64_t bytes = gconv_row_reader_held_bytes(reader);
  pthread_mutex_lock(&budget->lock);
  uint64_t others = budget->opened - worker->opened;
  bool fits = !can_open_again || worker->run->batch->memory == 0 || may_open(budget, others, bytes);
  worker->expected = fits ? 0 : bytes;
  worker->opened = fits ? bytes : 0;
  budget->opened = others + worker->opened;
  pthread_cond_broadcast(&budget->changed);
  pthread_mutex_unlock(&budget->lock);
  keep(worker, kept_bytes(worker) + worker->opened);
  return fits;
}

void gconv_worker_give_back(gconv_worker *worker) {
  worker->expected = 0;
  count_opened(worker, 0);
  keep(worker, kept_bytes(worker));
}

void gconv_worker_leave(gconv_worker *worker) {
  clear(worker);
  gconv_worker_give_back(worker);
}
