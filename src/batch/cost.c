/* SPDX-License-Identifier: MIT */
#include "batch/cost.h"
#include "base/file.h"
#include "base/nodata.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* These bounds are the same on every machine, so that results are the same, too. */
static const double GROUP_BYTES = 256 << 20;      /* the most bytes of a group of several images */
static const double LARGE_BYTES = 1 << 30;        /* networks take an image by rows if its tensors are larger */
static const double TILED_BYTES = 256 << 20;      /* the same bound for a network whose images go in tiles anyway */
static const double BAND_BYTES = 96 << 20;        /* the bytes of a band of these rows */
static const double STREAMED_BYTES = 8 << 20;     /* plain filters take an image by rows if it is larger */
static const double WRITER_BYTES = 5 << 20;       /* bytes of a writer, for each thread */
static const double LEAST_WRITER_BYTES = 1 << 20; /* bytes of a writer of a small result */
static const double SLAB_BYTES = 2 << 20;         /* pinned memory of a worker that may use a GPU */
enum { MOST_WRITERS = 256, PROBE_ROWS = 64, LEAST_ROWS = 16 };

/* ---- The memory of images of a shape --------------------------------------------------------------------------------- */

/* Adds the bytes of the outputs, and the input rows that they need. The outline is a plan by rows without any buffers. */
static void look_at(const gconv_plan *outline, int threads, gconv_cost *cost) {
  const gconv_image *like = &outline->like;
  cost->outputs = gconv_plan_outputs(outline);
  for (size_t i = 0; i < cost->outputs; i++) {
    const gconv_image *out = gconv_plan_output_header(outline, i);
    double bytes = gconv_pixel_bytes(out);
    cost->out += bytes;
    cost->out_row += bytes / out->height;
    if (i == 0 || bytes > gconv_pixel_bytes(&cost->result))
      cost->result = gconv_header_of(out);
  }
  cost->rows = gconv_plan_get_info(outline)->out_height;
  cost->scale = (double)like->height / cost->rows;
  int32_t step = gconv_plan_row_step(outline), begin, end;
  const char *obstacle = step == 0 && outline->type->rows_obstacle ? outline->type->rows_obstacle(outline) : NULL;
  snprintf(cost->whole, sizeof cost->whole, "%s", obstacle ? obstacle : "");
  if (step > 0 && outline->operation->type->batches) {
    gconv_plan_rows_needed(outline, cost->rows / 2 / step * step, step, &begin, &end);
    cost->halo = fmax(end - begin - cost->scale * step, 0);
  } else if (step > 0) {
    cost->stream = gconv_strip_bytes(outline, cost->outputs, threads);
  }
}

/* Returns the fewest rows of a result that are made at a time: the rows of their halo, so that at most half of the rows is
 * computed twice. */
static double fewest_rows(const gconv_cost *cost) {
  return fmin(fmax(cost->halo / fmin(cost->scale, 1), LEAST_ROWS), cost->rows);
}

static gconv_cost find_cost(gconv_worker *worker, const gconv_image *header) {
  const gconv_run *run = worker->run;
  gconv_cost cost = {.in = gconv_pixel_bytes(header), .in_row = gconv_pixel_bytes(header) / header->height};
  gconv_plan *outline = NULL;
  cost.known = gconv_operation_find_need(worker->cpu, header, run->operation, PROBE_ROWS, &cost.need) == GCONV_OK;
  if (cost.known && gconv_plan_outline(worker->cpu, header, run->operation, PROBE_ROWS, &outline) == GCONV_OK) {
    look_at(outline, worker->threads, &cost);
    if (cost.need.tiles)
      gconv_operation_find_need(worker->cpu, header, run->operation, (int32_t)fewest_rows(&cost), &cost.need);
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

void gconv_worker_judge(gconv_worker *worker, const gconv_image *header) {
  if (worker->judged.frames > 0 && gconv_image_alike(&worker->judged, header))
    return;
  if (worker->run->batch->memory > 0)
    gconv_holding_clear(&worker->memory); /* pixels of another shape are of no use */
  worker->judged = gconv_header_of(header);
  worker->either = false;
  worker->cost = find_cost(worker, header);
}

/* Returns whether results are arrays, which are written without strips. */
static bool are_arrays(const gconv_run *run) {
  const gconv_format_info *format = run->batch->outputs->format; /* NULL: the format of each input; never for networks */
  return format && format->tensors && run->operation->type->batches;
}

/* Returns the bytes of the copy that is made while an NHWC array is transposed. */
static double transposing_bytes(const gconv_worker *worker, const gconv_image *header) {
  return worker->run->batch->nhwc && header->planar ? worker->cost.in : 0;
}

/* Returns the bytes while images are decoded and joined. Each thread decodes one, and one may be in memory twice. */
static double loading_bytes(const gconv_worker *worker, const gconv_image *header, double images, double reader) {
  double at_a_time = fmin(images, worker->threads);
  return (images > 1 ? images + 1 : images) * worker->cost.in + at_a_time * (reader + transposing_bytes(worker, header));
}

/* Returns the bytes of a writer's strips on one thread: some strips of a row or more; at most little more than the result.
 */
static double strip_bytes(const gconv_worker *worker) {
  const gconv_image *result = &worker->cost.result;
  double all = gconv_pixel_bytes(result) / result->frames, row = all / result->height;
  return fmin(fmax(WRITER_BYTES, 6 * row), LEAST_WRITER_BYTES + 6 * all);
}

/* Returns the bytes of a writer that grow with the picture. Planes are interleaved in a copy. */
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
  double pixels = result.planar && result.channels > 1 && !options.format->tensors ? gconv_pixel_bytes(&result) : 0;
  return pixels + gconv_row_writer_bytes(&options, &result, in_parts, item && item->sent);
}

/* Returns the bytes of all writers. Each thread writes one result at a time; files that frames share are all open. */
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
  double copies = (double)worker->cost.outputs + 2; /* + 2: the reader has one, and a file that is written has one */
  return (double)gconv_row_reader_bytes(reader) + copies * (double)gconv_row_reader_metadata_bytes(reader);
}

double gconv_whole_bytes(gconv_worker *worker, const gconv_item *item, const gconv_image *header, double images,
                         double reading) {
  gconv_worker_judge(worker, header);
  const gconv_batch *batch = worker->run->batch;
  const gconv_cost *cost = &worker->cost;
  double verified = batch->verify ? images * cost->need.verify : 0;
  double at_work = images * (cost->in + cost->out) + fmax(writing_bytes(worker, item, images), verified);
  double slabs = strcmp(batch->device, "cpu") == 0 ? 0 : SLAB_BYTES;
  return images * cost->need.image + cost->need.fixed + slabs + reading +
         fmax(at_work, loading_bytes(worker, header, images, reading));
}

/* Each image has its metadata until all are put together. A reader has two more copies. */
double gconv_group_bytes(gconv_worker *worker, const gconv_image *header, double images, double metadata) {
  double copies = images + 2 * fmin(images, worker->threads);
  return gconv_whole_bytes(worker, NULL, header, images, 0) + copies * metadata;
}

/* The images of a run are divided into parts, so that some are decoded and written while others are executed. */
size_t gconv_choose_count(gconv_worker *worker, const gconv_image *header, size_t alike, double metadata) {
  const size_t parts = 4, most = 64;
  const gconv_batch *batch = worker->run->batch;
  gconv_worker_judge(worker, header);
  if (!worker->cost.known)
    return 1; /* no plan can be made: each image fails when it is carried */
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

/* ---- Too little memory ----------------------------------------------------------------------------------------------- */

/* Returns "MB", or a smaller unit if `bytes` are less than one. *count: `bytes` in this unit. */
static const char *choose_unit(double bytes, double *count) {
  static const char *const units[] = {"MB", "kB", "bytes"};
  double unit = 1e6;
  int i = 0;
  for (; i < 2 && bytes < unit; i++)
    unit /= 1e3;
  *count = ceil(bytes / unit);
  return units[i];
}

/* Returns GCONV_TOO_LARGE, with its text. `reason`: why the image cannot go by rows, with less memory; NULL: it does. */
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

/* ---- By rows --------------------------------------------------------------------------------------------------------- */

const char *gconv_rows_obstacle(const gconv_group *group, const gconv_item *item, const gconv_row_reader *reader) {
  const gconv_worker *worker = group->worker;
  bool batches = worker->run->operation->type->batches;
  if (worker->run->batch->verify)
    return batches ? "--verify compares whole images" : "--verify compares the whole image";
  if (batches && item->frames > 1)
    return "it has several frames: save them one by one";
  if (!batches && !gconv_worker_is_on_cpu(worker))
    return "a GPU takes images whole, and -d cpu does not";
  if (!batches && reader && !gconv_row_reader_is_in_order(reader))
    return "its rows do not come in order (interlaced, turned by EXIF, or stored from the bottom)";
  if (!batches && (item->frames > 1 || group->image.planar))
    return "it has frames or planes";
  if (item->sent)
    return "what goes to standard output, a pipe or a device waits for all of it, and a file does not";
  return NULL;
}

bool gconv_goes_by_rows(const gconv_group *group, const gconv_row_reader *reader, double whole_bytes, const char **reason) {
  const gconv_worker *worker = group->worker;
  const gconv_item *item = &group->items[0];
  const gconv_batch *batch = worker->run->batch;
  const gconv_cost *cost = &worker->cost;
  const char *whole = cost->whole[0] ? cost->whole : NULL, *obstacle = gconv_rows_obstacle(group, item, reader);
  /* Before an array is begun, the number of its images must be known. The number of images from a pipe is not. */
  bool waits = item->format->tensors && reader && gconv_row_reader_is_open_ended(reader);
  bool too_large = whole_bytes > (double)worker->run->budget.bytes;
  obstacle = obstacle ? obstacle : whole;
  *reason = obstacle ? obstacle : "border wrap, range minmax and stacks of more than 4 channels take it whole";
  if (obstacle || !cost->known)
    return false;
  if (!worker->run->operation->type->batches)
    return cost->stream > 0 && (too_large || (cost->in > STREAMED_BYTES && !waits));
  const double bytes = cost->in + cost->need.image + cost->out;
  return too_large ||
         (!cost->need.repeats && (cost->need.tiles ? bytes > TILED_BYTES : batch->memory == 0 && bytes > LARGE_BYTES));
}

/* Returns the bytes of a writer that gets its rows in parts. */
static double writer_bytes(const gconv_cost *cost) {
  return fmax(WRITER_BYTES, 6 * cost->out_row / (double)cost->outputs);
}

/* Finds *fixed, the bytes that do not depend on the number of rows, and *row, the bytes for each row. */
static void find_bytes(const gconv_group *group, const gconv_row_reader *reader, const gconv_cut *cut, double *fixed,
                       double *row) {
  const gconv_worker *worker = group->worker;
  const gconv_cost *cost = &worker->cost;
  double reading = reader ? gconv_reading_bytes(worker, reader) : 0, windows = cut->whole ? 0 : 2 * cost->in_row;
  double share = (double)cut->writers / (double)cost->outputs;
  *fixed = cost->need.fixed + cost->need.rows + cost->halo * windows + reading;
  *fixed += cut->whole ? cost->in + transposing_bytes(worker, &group->image) : 0;
  *fixed += (double)cut->writers * picture_bytes(worker, &group->items[0], true);
  if (!are_arrays(worker->run))
    *fixed += fmax((double)cut->writers, worker->threads) * writer_bytes(cost);
  *row = cost->need.row + cost->scale * windows + 2 * cost->out_row * share * (worker->run->batch->nhwc ? 2 : 1);
}

/* Returns how many results a worker may write at a time, at least 1: each has an open file, and the system allows a process
 * only so many (ulimit -n). */
static size_t most_writers(const gconv_worker *worker) {
  int32_t workers = worker->run->workers, own = gconv_files_allowed() / (workers > 1 ? workers : 1);
  return own > GCONV_WORKER_FILES ? (size_t)(own - GCONV_WORKER_FILES) + 1 : 1;
}

/* Returns the least bytes that an image takes by bands. Sets cut->writers: the more bytes are allowed (`most`), the more
 * writers. Sets the two numbers of find_bytes() for this number of writers. */
static double least_bytes(const gconv_group *group, const gconv_row_reader *reader, double most, gconv_cut *cut,
                          double *fixed, double *row) {
  const gconv_cost *cost = &group->worker->cost;
  double each = WRITER_BYTES + picture_bytes(group->worker, &group->items[0], true);
  cut->writers = 0;
  find_bytes(group, reader, cut, fixed, row);
  cut->writers = (size_t)fmin(fmin(fmax((most - *fixed) / 4 / each, 1), (double)cost->outputs),
                              fmin((double)most_writers(group->worker), MOST_WRITERS));
  find_bytes(group, reader, cut, fixed, row);
  return *fixed + fewest_rows(cost) * *row;
}

/* Returns how much memory suffices. As more memory means more writers, which take more memory, it is found step by step. */
static double enough_bytes(const gconv_group *group, const gconv_row_reader *reader, double least, gconv_cut *cut) {
  double fixed, row, wanted;
  for (int i = 0; i < MOST_WRITERS && (wanted = least_bytes(group, reader, least, cut, &fixed, &row)) > least; i++)
    least = wanted;
  return least;
}

/* Returns how many rows of a result in tiles are made at a time: preferably twice the rows of their halo. `left`: the bytes
 * that are left for the rows and for buffers that grow with them. Adds the growth of the buffers to *fixed. */
static double tiled_rows(const gconv_worker *worker, const gconv_image *header, double left, double fewest, double *fixed,
                         double row) {
  const gconv_cost *cost = &worker->cost;
  gconv_need need;
  for (double rows = fmin(fmax(BAND_BYTES / row, 2 * fewest), cost->rows); rows > fewest; rows *= 0.75) {
    if (gconv_operation_find_need(worker->cpu, header, worker->run->operation, (int32_t)rows, &need) != GCONV_OK)
      break;
    const double more = need.fixed - cost->need.fixed;
    if (more + rows * row <= left) {
      *fixed += more;
      return rows;
    }
  }
  return fewest;
}

gconv_status gconv_rows_cut(const gconv_group *group, const gconv_row_reader *reader, gconv_cut *cut) {
  const gconv_worker *worker = group->worker;
  const gconv_cost *cost = &worker->cost;
  double most = (double)worker->run->budget.bytes, fixed, row;
  size_t writers = most_writers(worker);
  *cut = (gconv_cut){.writers = cost->outputs < writers ? cost->outputs : writers};
  if (!worker->run->operation->type->batches) {
    cut->whole = cut->writers < cost->outputs && !gconv_row_reader_can_begin_again(reader);
    cut->bytes = cost->stream + gconv_reading_bytes(worker, reader) + (cut->whole ? cost->in : 0) +
                 (double)cut->writers * picture_bytes(worker, &group->items[0], true);
    return GCONV_OK;
  }
  bool ordered = reader && gconv_row_reader_is_in_order(reader) && !group->image.planar;
  /* A picture takes several passes: to find its range, or to make a mosaic one row of tiles after the other. */
  bool once = are_arrays(worker->run) && !cost->need.repeats;
  cut->whole = !ordered || !(once || gconv_row_reader_can_begin_again(reader));
  double least = least_bytes(group, reader, most, cut, &fixed, &row);
  double fewest = fewest_rows(cost), rows = fmin(most - fixed, BAND_BYTES) / row;
  if (rows < fewest && least > most && worker->run->batch->memory > 0)
    return refuse(worker, enough_bytes(group, reader, least, cut),
                  !cut->whole || !reader ? NULL
                  : ordered              ? "it is read several times, and this is a pipe, or one image of several"
                                         : "its rows do not come in order (planes, interlaced, turned by EXIF)");
  rows = cost->need.tiles ? tiled_rows(worker, &group->image, most - fixed, fewest, &fixed, row) : rows;
  cut->rows = (int32_t)fmin(fmax(rows, fewest), cost->rows);
  cut->bytes = fixed + cut->rows * row;
  return GCONV_OK;
}

bool gconv_goes_by_frames(gconv_worker *worker, const gconv_row_reader *reader) {
  const gconv_run *run = worker->run;
  bool open = gconv_row_reader_is_open_ended(reader);
  bool kept = run->operation->type->batches && run->batch->one_array;
  if (kept || !gconv_row_reader_has_frames(reader) || (!open && gconv_row_reader_is_scattered(reader)))
    return false;
  gconv_image header = gconv_header_of(gconv_row_reader_header(reader));
  bool together = run->operation->type->batches && !open && !gconv_row_reader_frames_differ(reader);
  return !together || gconv_whole_bytes(worker, NULL, &header, 1, 0) > (double)run->budget.bytes;
}

gconv_status gconv_worker_admit(gconv_worker *worker, double bytes, const char *reason) {
  const gconv_budget *budget = &worker->run->budget;
  uint64_t wanted = bytes < 1e18 ? (uint64_t)bytes : (uint64_t)1e18;
  if (budget->is_strict && wanted > budget->bytes)
    return refuse(worker, bytes, reason);
  gconv_holding_take(&worker->memory, wanted);
  return GCONV_OK;
}
