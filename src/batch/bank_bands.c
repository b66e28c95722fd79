/* SPDX-License-Identifier: MIT */
/*
 * An image by bands of rows, so that its maps are never in memory at once. While a band is convolved, the rows of the next
 * are read and the results of the one before are written.
 *
 * Some pictures must be known as a whole before the first row of them can be written: those that are stretched (by default,
 * as their values have no natural range) and, where there are more than may be open at a time, those of the later filters;
 * a mosaic has the rows of some tiles before the first of others. For these, everything is computed again, once or several
 * times. The other way would be to keep the maps in a temporary file: 4 bytes a value and filter to write and to read, as
 * much as all results and more than a disk may have, where reading an image and convolving it once more takes less time
 * than compressing one of its pictures.
 */
#include "batch/bank_run.h"
#include "batch/clock.h"
#include "batch/loop.h"
#include "batch/present.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum stage { READ, CONVOLVE, TAKE, STAGES };

/* Rows of the input. */
typedef struct window {
  gconv_image rows; /* owned, or rows of the whole image */
  int32_t begin, end;
} window;

/* A file that is written. */
typedef struct result {
  const char *path;
  bool wanted;
  gconv_map_sheet sheet;
  gconv_row_writer *writer;
  bool written;
  gconv_image rows; /* of the picture: what becomes of a band */
  gconv_status status;
  gconv_message why;
} result;

typedef struct bands {
  gconv_bank_run *r;
  const gconv_bank_group *group;
  size_t input;
  gconv_image header;       /* of the input */
  const gconv_image *whole; /* all of it; NULL: its rows come from the reader */
  gconv_image own;          /* the whole, if it was read here */
  gconv_row_reader *reader;
  int32_t read;        /* rows that came from it */
  gconv_image out;     /* header of all rows of the maps */
  int32_t rows, count; /* of the maps at a time; how many times */
  window windows[2];
  gconv_image maps[2];
  int32_t step; /* band step is read, the one before convolved, the one before that taken */
  void (*take)(struct bands *b, const gconv_image *maps, int32_t first);
  bool idle; /* nothing is left to write: each result has failed */
  gconv_status status[STAGES];
  gconv_message why[STAGES];
  double ms[STAGES];
  gconv_timings timings;
  result *results;
  size_t result_count, first, end; /* results first .. end - 1 are written in this pass */
  int32_t tile_row;                /* of a mosaic, in this pass */
  int32_t tiles;
  gconv_survey *surveys; /* [tiles] */
  gconv_curve *curves;
  gconv_report *report;
  gconv_texts *errors;
} bands;

static bool is_mosaic(const bands *b) {
  return b->r->job->presentation == GCONV_PRESENT_MOSAIC;
}

static bool is_tensor(const bands *b) {
  return b->r->job->presentation == GCONV_PRESENT_TENSOR;
}

static gconv_status fail_stage(bands *b, enum stage stage, gconv_status status) {
  b->status[stage] = status;
  return gconv_bank_keep_text(&b->why[stage], status);
}

/* ---- Reading ---- */

/* Reads rows up to `end` into the window, the first of which is to be row `begin`, and drops those before it. */
static gconv_status read_rows(bands *b, window *w, int32_t begin, int32_t end) {
  gconv_status status = GCONV_OK;
  while (b->read < begin && status == GCONV_OK) {
    int32_t count = begin - b->read < end - begin ? begin - b->read : end - begin;
    status = gconv_row_reader_read(b->reader, w->rows.data, w->rows.row_bytes, count);
    b->read += count;
  }
  if (status != GCONV_OK || b->read >= end)
    return status;
  uint8_t *to = (uint8_t *)w->rows.data + (size_t)(b->read - begin) * w->rows.row_bytes;
  status = gconv_row_reader_read(b->reader, to, w->rows.row_bytes, end - b->read);
  b->read = end;
  return status;
}

static gconv_status fill_window(bands *b, int32_t i) {
  window *w = &b->windows[i % 2];
  const window *before = &b->windows[(i + 1) % 2];
  gconv_network_rows_needed(b->r->network, i * b->rows, &w->begin, &w->end);
  if (b->whole) {
    w->rows = *b->whole;
    w->rows.data = (uint8_t *)b->whole->data + (size_t)w->begin * b->whole->row_bytes;
    w->rows.height = w->end - w->begin;
    return GCONV_OK;
  }
  w->rows.height = w->end - w->begin;
  if (i > 0 && before->end > w->begin)
    memcpy(w->rows.data, (const uint8_t *)before->rows.data + (size_t)(w->begin - before->begin) * w->rows.row_bytes,
           (size_t)(before->end - w->begin) * w->rows.row_bytes);
  return read_rows(b, w, w->begin, w->end);
}

/* What is left, to the last row: it tells whether the file is whole. */
static gconv_status read_rest(bands *b) {
  int32_t height = b->header.height, most = b->windows[0].rows.height;
  for (gconv_status status = GCONV_OK; b->reader && b->read < height;) {
    int32_t count = height - b->read < most ? height - b->read : most;
    status = gconv_row_reader_read(b->reader, b->windows[0].rows.data, b->windows[0].rows.row_bytes, count);
    if (status != GCONV_OK)
      return status;
    b->read += count;
  }
  return GCONV_OK;
}

static gconv_status changed(void) {
  return gconv_set_error(GCONV_BAD_FILE, "it changed while it was waiting for its turn");
}

/* Opens the file again, or reads it whole the first time. */
static gconv_status open_input(bands *b) {
  const gconv_bank_batch *job = b->r->job;
  const char *path = job->common.inputs->items[b->input].path;
  b->read = 0;
  if (b->whole)
    return GCONV_OK;
  if (b->group->whole) {
    gconv_status status = gconv_bank_image_read(job, path, &b->own);
    b->whole = &b->own;
    return status != GCONV_OK || gconv_image_same_shape(&b->own, &b->header) ? status : changed();
  }
  gconv_read_options options = {.max_pixels = job->common.max_pixels, .threads = b->r->threads};
  gconv_status status = gconv_row_reader_open(path, &options, &b->reader);
  if (status != GCONV_OK)
    return status;
  bool same = gconv_image_same_shape(gconv_row_reader_header(b->reader), &b->header);
  return same && gconv_row_reader_is_in_order(b->reader) ? GCONV_OK : changed();
}

static void close_input(bands *b) {
  gconv_row_reader_close(b->reader);
  b->reader = NULL;
}

/* ---- From stage to stage ---- */

/* Rows of the maps that there are, of those that a band has. */
static gconv_image kept_rows(const bands *b, int32_t i) {
  gconv_image maps = b->maps[i % 2];
  int32_t left = b->out.height - i * b->rows;
  maps.height = left < b->rows ? left : b->rows;
  return maps;
}

static void run_stage(void *context, size_t turn) {
  bands *b = context;
  enum stage stage = (enum stage)turn;
  int32_t i = b->step - (int32_t)turn;
  double begin = gconv_batch_clock_ms();
  if (i < 0 || i >= b->count)
    return;
  if (stage == READ) {
    fail_stage(b, stage, fill_window(b, i));
  } else if (stage == CONVOLVE) {
    const window *w = &b->windows[i % 2];
    fail_stage(b, stage,
               gconv_network_execute_rows(b->r->network, &w->rows, w->begin, i * b->rows, &b->maps[i % 2], &b->timings));
  } else {
    gconv_image maps = kept_rows(b, i);
    b->take(b, &maps, i * b->rows);
  }
  b->ms[stage] += gconv_batch_clock_ms() - begin;
}

static gconv_status first_failure(const bands *b, gconv_message *why) {
  for (int s = 0; s < STAGES; s++)
    if (b->status[s] != GCONV_OK)
      return gconv_complain(why, b->status[s], "%s", b->why[s].text);
  return GCONV_OK;
}

static bool is_any_open(const bands *b) {
  for (size_t n = b->first; n < b->end; n++)
    if (b->results[n].wanted && b->results[n].status == GCONV_OK)
      return true;
  return false;
}

/* Carries all bands through the stages once, or until nothing is left to be written. */
static gconv_status run_pass(bands *b, void (*take)(bands *b, const gconv_image *maps, int32_t first), gconv_message *why) {
  b->take = take;
  double begin = gconv_batch_clock_ms();
  gconv_status status = gconv_bank_keep_text(why, open_input(b));
  b->ms[READ] += gconv_batch_clock_ms() - begin;
  for (b->step = 0; b->step < b->count + STAGES - 1 && status == GCONV_OK && !b->idle; b->step++) {
    gconv_loop_run(b->r->threads < STAGES ? b->r->threads : STAGES, STAGES, run_stage, b);
    status = first_failure(b, why);
  }
  if (status == GCONV_OK && !b->idle)
    status = gconv_bank_keep_text(why, read_rest(b));
  close_input(b);
  return status;
}

/* ---- The first pass: what pictures are made of ---- */

typedef struct taking {
  bands *b;
  const gconv_image *maps;
  int32_t first;
} taking;

static void survey_tile(void *context, size_t tile) {
  const taking *t = context;
  gconv_planes planes = gconv_bank_tile(t->b->r->job, t->maps, 0, (int32_t)tile);
  gconv_survey_add(&t->b->surveys[tile], &planes, t->first);
}

static void survey(bands *b, const gconv_image *maps, int32_t first) {
  taking t = {b, maps, first};
  gconv_loop_run(b->r->threads, (size_t)b->tiles, survey_tile, &t);
}

/* Finds the curves of all tiles: by computing them, or, where they do not depend on the values, at once. */
static gconv_status find_curves(bands *b, gconv_message *why) {
  const gconv_bank_batch *job = b->r->job;
  bool surveys = gconv_bank_surveys(job);
  gconv_map_sheet *sheet = &b->results[0].sheet;
  if (is_tensor(b))
    return GCONV_OK;
  b->tiles = job->presentation == GCONV_PRESENT_PICTURES ? (int32_t)gconv_bank_results(job) : sheet->count;
  b->surveys = calloc((size_t)b->tiles, sizeof *b->surveys);
  b->curves = calloc((size_t)b->tiles, sizeof *b->curves);
  if (!b->surveys || !b->curves)
    return gconv_complain_memory(why);
  gconv_image like = b->maps[0];
  for (int32_t i = 0; i < b->tiles && surveys; i++)
    GCONV_TRY(gconv_bank_keep_text(
        why, gconv_survey_begin(gconv_bank_tile(job, &like, 0, i).count, b->out.height, b->out.width, &b->surveys[i])));
  if (surveys)
    GCONV_TRY(run_pass(b, survey, why));
  for (int32_t i = 0; i < b->tiles; i++) {
    b->curves[i] = gconv_tone_curve(&job->tone, &b->surveys[i]);
    gconv_survey_free(&b->surveys[i]);
  }
  return GCONV_OK;
}

/* ---- Writing ---- */

/* The rows of a picture that come of some of the maps: those of one row of tiles. */
static gconv_status write_sheet(bands *b, result *to, const gconv_image *maps) {
  const gconv_map_sheet *sheet = &to->sheet;
  int32_t begin = b->tile_row * sheet->columns, end = begin + sheet->columns;
  to->rows.height = maps->height;
  if (sheet->columns > 1)
    memset(to->rows.data, 0, (size_t)maps->height * to->rows.row_bytes);
  for (int32_t i = begin; i < end && i < sheet->count; i++) {
    int32_t tile = sheet->first + i;
    gconv_planes planes = gconv_bank_tile(b->r->job, maps, 0, tile);
    gconv_status status =
        gconv_bank_put(b->r->job, &planes, b->curves[tile], &to->rows, 0, (i - begin) * (maps->width + GCONV_MOSAIC_GAP));
    if (status != GCONV_OK)
      return status;
  }
  return gconv_row_writer_write(to->writer, to->rows.data, to->rows.row_bytes, maps->height);
}

static void drop(result *to, gconv_status status) {
  to->status = gconv_bank_keep_text(&to->why, status);
  gconv_row_writer_discard(to->writer);
  to->writer = NULL;
}

static void write_result(void *context, size_t turn) {
  const taking *t = context;
  bands *b = t->b;
  result *to = &b->results[b->first + turn];
  gconv_row_writer *tensor = b->r->job->one_tensor ? b->r->writer : to->writer;
  if (!to->wanted || to->status != GCONV_OK)
    return;
  gconv_status status = is_tensor(b)
                            ? gconv_bank_array_add(b->r, tensor, b->r->job->one_tensor ? b->r->frame : 0, t->maps, t->first)
                            : write_sheet(b, to, t->maps);
  if (status != GCONV_OK)
    drop(to, status);
}

static void write_all(bands *b, const gconv_image *maps, int32_t first) {
  taking t = {b, maps, first};
  gconv_loop_run(b->r->threads, b->end - b->first, write_result, &t);
  b->idle = !is_any_open(b);
}

/* Begins a file; what cannot be begun is told, and left out. */
static void open_result(bands *b, result *to) {
  const gconv_batch *common = &b->r->job->common;
  size_t share = (size_t)b->r->threads / (b->end - b->first); /* the results are written beside each other */
  gconv_write_options options = {.format = common->outputs->format,
                                 .keep_existing = common->existing != GCONV_EXISTING_REPLACE,
                                 .jpeg_quality = common->jpeg_quality,
                                 .png_level = common->png_level,
                                 .threads = share > 1 ? (int)share : 1};
  gconv_status status = GCONV_OK;
  if (common->existing != GCONV_EXISTING_REPLACE && gconv_output_exists(to->path)) {
    to->status = gconv_complain(&to->why, GCONV_EXISTS, "exists and is kept (--no-clobber)");
    return;
  }
  if (common->outputs->make_folders && (to->status = gconv_outputs_make_folders(to->path, &to->why)) != GCONV_OK)
    return;
  if (b->r->job->one_tensor)
    status = gconv_bank_tensor_open(b->r, &b->out);
  else if (is_tensor(b))
    status = gconv_bank_array_open(b->r, to->path, &b->out, 1, &to->writer);
  else
    status = gconv_row_writer_open(to->path, &options, &to->sheet.picture, &to->writer);
  if (status == GCONV_OK && !is_tensor(b)) {
    to->rows = to->sheet.picture;
    to->rows.height = b->rows;
    status = gconv_image_allocate(&to->rows);
    if (status != GCONV_OK)
      to->rows = (gconv_image){0};
  }
  if (status != GCONV_OK)
    drop(to, status);
}

/* The file appears, unless something failed. */
static void close_result(bands *b, result *to, bool good) {
  gconv_image_free(&to->rows);
  if (!to->writer)
    return;
  gconv_row_writer *writer = to->writer;
  to->writer = NULL;
  if (!good)
    gconv_row_writer_discard(writer);
  else
    to->status = gconv_bank_keep_text(&to->why, gconv_row_writer_commit(writer));
  to->written = good && to->status == GCONV_OK;
  gconv_message trouble;
  if (to->written && gconv_bank_note(b->r, b->input, to->path, &trouble) != GCONV_OK)
    gconv_texts_add(b->errors, strdup(trouble.text));
}

/* Between two rows of tiles. */
static void write_gap(result *to) {
  for (int32_t i = 0; i < GCONV_MOSAIC_GAP && to->writer; i++) {
    memset(to->rows.data, 0, to->rows.row_bytes);
    gconv_status status = gconv_row_writer_write(to->writer, to->rows.data, to->rows.row_bytes, 1);
    if (status != GCONV_OK)
      drop(to, status);
  }
}

/* Writes results first .. end - 1: in one pass, or, of a mosaic, in one a row of tiles. */
static gconv_status write_some(bands *b, gconv_message *why) {
  const gconv_map_sheet *sheet = &b->results[b->first].sheet;
  int32_t passes = is_mosaic(b) ? (sheet->count - 1) / sheet->columns + 1 : 1;
  gconv_status status = GCONV_OK;
  b->idle = false;
  for (size_t n = b->first; n < b->end; n++)
    if (b->results[n].wanted)
      open_result(b, &b->results[n]);
  for (b->tile_row = 0; b->tile_row < passes && status == GCONV_OK && is_any_open(b); b->tile_row++) {
    if (b->tile_row > 0)
      write_gap(&b->results[b->first]);
    status = run_pass(b, write_all, why);
  }
  for (size_t n = b->first; n < b->end; n++)
    close_result(b, &b->results[n], status == GCONV_OK);
  b->tile_row = 0;
  return status;
}

static gconv_status write_results(bands *b, gconv_message *why) {
  gconv_status status = GCONV_OK;
  size_t group = b->group->writers > 0 ? b->group->writers : 1;
  for (size_t first = 0; first < b->result_count && status == GCONV_OK; first = b->end) {
    b->first = first;
    b->end = b->result_count - first < group ? b->result_count : first + group;
    status = write_some(b, why);
  }
  return status;
}

/* ---- An image ---- */

static gconv_status make_results(bands *b, gconv_message *why) {
  gconv_image like = b->out;
  like.data = b->maps[0].data;
  b->result_count = b->report->output_count;
  b->results = calloc(b->result_count, sizeof *b->results);
  if (!b->results)
    return gconv_complain_memory(why);
  for (size_t n = 0; n < b->result_count; n++) {
    b->results[n].path = b->report->outputs[n];
    b->results[n].wanted = !gconv_bank_is_done(b->r, b->input, n);
  }
  for (size_t n = 0; n < b->result_count && !is_tensor(b); n++)
    GCONV_TRY(gconv_bank_keep_text(why, gconv_bank_lay(b->r->job, &like, n, &b->results[n].sheet)));
  return GCONV_OK;
}

/* The shapes of the maps, and what holds rows of the input: as much as any band needs. */
static gconv_status make_buffers(bands *b) {
  const gconv_network *network = b->r->network;
  b->out = b->maps[0] = b->maps[1] = *gconv_network_output_header(network);
  const gconv_layer_info *last = gconv_network_get_info(network, b->r->job->layer_count - 1);
  b->rows = b->out.height;
  b->out.height = last->out_height;
  b->count = (b->out.height - 1) / b->rows + 1;
  gconv_image most = b->header;
  most.height = 1;
  for (int32_t i = 0, begin, end; i < b->count; i++) {
    gconv_network_rows_needed(network, i * b->rows, &begin, &end);
    most.height = end - begin > most.height ? end - begin : most.height;
  }
  gconv_status status = GCONV_OK;
  for (int i = 0; i < 2 && status == GCONV_OK; i++) {
    status = gconv_image_allocate(&b->maps[i]);
    b->windows[i].rows = most;
    if (status == GCONV_OK && !b->whole && !b->group->whole)
      status = gconv_image_allocate(&b->windows[i].rows);
  }
  return status;
}

static gconv_status convolve(bands *b, gconv_message *why) {
  gconv_bank_run *r = b->r;
  double begin = gconv_batch_clock_ms();
  GCONV_TRY(gconv_bank_keep_text(why, gconv_bank_rows_network(r, &b->header, b->group->rows)));
  if (b->group->because && r->cold && !r->remark[0])
    snprintf(r->remark, sizeof r->remark, "%s, so it goes by bands of %d rows", b->group->because,
             gconv_network_output_header(r->network)->height);
  b->report->cold = r->cold;
  b->report->plan_ms = r->cold ? gconv_batch_clock_ms() - begin : 0;
  b->report->remark = r->remark[0] ? r->remark : NULL;
  GCONV_TRY(gconv_bank_keep_text(why, make_buffers(b)));
  GCONV_TRY(make_results(b, why));
  GCONV_TRY(find_curves(b, why));
  return write_results(b, why);
}

static void free_bands(bands *b) {
  gconv_image_free(&b->own);
  close_input(b);
  for (int i = 0; i < 2; i++) {
    gconv_image_free(&b->maps[i]);
    if (!b->group->whole)
      gconv_image_free(&b->windows[i].rows);
  }
  for (int32_t i = 0; i < b->tiles && b->surveys; i++)
    gconv_survey_free(&b->surveys[i]);
  free(b->surveys);
  free(b->curves);
  free(b->results);
}

/* `status`: of the image. */
static void count_result(bands *b, const result *to, gconv_status status) {
  gconv_report *report = b->report;
  bool skipped = !to->wanted || (to->status == GCONV_EXISTS && b->r->job->common.existing == GCONV_EXISTING_SKIP);
  bool good = !skipped && (to->written || (b->r->job->one_tensor && status == GCONV_OK && to->status == GCONV_OK));
  report->passed += skipped;
  report->written += good && !b->r->job->one_tensor;
  report->failed += !good && !skipped;
  if (to->status != GCONV_OK && !skipped)
    gconv_bank_add_error(b->errors, to->path, to->status, to->why.text);
}

/* What became of it. */
static void report_bands(bands *b, gconv_status status, const gconv_message *why) {
  gconv_report *report = b->report;
  for (size_t n = 0; n < b->result_count && b->results; n++)
    count_result(b, &b->results[n], status);
  if (!b->results)
    gconv_bank_fail_all(b->r, b->input, report);
  if (status != GCONV_OK)
    gconv_bank_add_error(b->errors, report->input->path, status, why->text);
  report->timings = b->timings;
  report->decode_ms = b->ms[READ];
  report->encode_ms = b->ms[TAKE];
  report->executed = status == GCONV_OK;
  report->pixels = (uint64_t)b->header.height * (uint64_t)b->header.width;
  if (report->executed)
    gconv_bank_describe(b->r, &b->header, 1, &report->plan);
}

void gconv_bank_process_bands(gconv_bank_run *r, const gconv_bank_group *group, size_t input, const gconv_image *whole) {
  gconv_texts errors = {0};
  gconv_report report = gconv_bank_begin_report(r, input, &errors);
  gconv_message why = {""};
  double begin = gconv_batch_clock_ms();
  bands b = {.r = r,
             .group = group,
             .input = input,
             .header = r->headers[input],
             .whole = whole,
             .report = &report,
             .errors = &errors};
  if (whole) {
    b.header = *whole;
    b.header.data = b.header.icc = NULL;
  }
  char *explanation = NULL;
  gconv_status status = convolve(&b, &why);
  if (status == GCONV_OK && r->cold && r->job->common.explain && !r->explained &&
      gconv_network_explain(r->network, &explanation) == GCONV_OK) {
    report.explanation = explanation;
    r->explained = true;
  }
  report.device_reason = r->summary->device_reason;
  report.total_ms = gconv_batch_clock_ms() - begin;
  report_bands(&b, status, &why);
  r->frame += 1;
  if (r->job->one_tensor)
    report.written = report.failed == 0 && !r->summary->written;
  gconv_bank_hand_in(r, &report);
  gconv_texts_free(&errors);
  free_bands(&b);
  free(explanation);
}
