/* SPDX-License-Identifier: MIT */
/*
 * An image by bands of rows, so that its maps are never in memory at once: in one pass through the network (bank_pass.h), or
 * in several.
 *
 * Some pictures must be known as a whole before the first row of them can be written: those that are stretched (by default,
 * as their values have no natural range) and, where there are more than may be open at a time, those of the later filters;
 * a mosaic has the rows of some tiles before the first of others. For these, everything is computed again, once or several
 * times. The other way would be to keep the maps in a temporary file: 4 bytes a value and filter to write and to read, as
 * much as all results and more than a disk may have, where reading an image and convolving it once more takes less time
 * than compressing one of its pictures.
 */
#include "batch/bank_pass.h"
#include "batch/clock.h"
#include "batch/loop.h"
#include "batch/present.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
  gconv_bank_pass pass; /* of all passes */
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

static bool is_any_open(const bands *b) {
  for (size_t n = b->first; n < b->end; n++)
    if (b->results[n].wanted && b->results[n].status == GCONV_OK)
      return true;
  return false;
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

static bool survey(void *user, const gconv_image *maps, int32_t first) {
  bands *b = user;
  taking t = {b, maps, first};
  gconv_loop_run(b->r->threads, (size_t)b->tiles, survey_tile, &t);
  return true;
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
  gconv_image like = b->pass.maps[0];
  for (int32_t i = 0; i < b->tiles && surveys; i++)
    GCONV_TRY(gconv_bank_keep_text(why, gconv_survey_begin(gconv_bank_tile(job, &like, 0, i).count, b->pass.out.height,
                                                           b->pass.out.width, &b->surveys[i])));
  if (surveys)
    GCONV_TRY(gconv_bank_pass_run(&b->pass, survey, b, why));
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

static bool write_all(void *user, const gconv_image *maps, int32_t first) {
  bands *b = user;
  taking t = {b, maps, first};
  gconv_loop_run(b->r->threads, b->end - b->first, write_result, &t);
  return is_any_open(b);
}

/* Begins the file of a result. One that cannot be begun gets a status other than GCONV_OK, and is left out. */
static void open_result(bands *b, result *to) {
  const gconv_batch *common = &b->r->job->common;
  size_t share = (size_t)b->r->threads / (b->end - b->first); /* the results are written at the same time */
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
    status = gconv_bank_tensor_open(b->r, &b->pass.out);
  else if (is_tensor(b))
    status = gconv_bank_array_open(b->r, to->path, &b->pass.out, 1, &to->writer);
  else
    status = gconv_row_writer_open(to->path, &options, &to->sheet.picture, &to->writer);
  if (status == GCONV_OK && !is_tensor(b)) {
    to->rows = to->sheet.picture;
    to->rows.height = b->pass.rows;
    status = gconv_image_allocate(&to->rows);
    if (status != GCONV_OK)
      to->rows = (gconv_image){0};
  }
  if (status != GCONV_OK)
    drop(to, status);
}

/* Completes the file, so that it appears, if all is `good`; else discards it. */
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
  if (to->written && gconv_bank_note(b->r, b->pass.input, to->path, &trouble) != GCONV_OK)
    gconv_texts_add(b->errors, strdup(trouble.text));
}

/* Writes the gap between two rows of tiles. */
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
  for (size_t n = b->first; n < b->end; n++)
    if (b->results[n].wanted)
      open_result(b, &b->results[n]);
  for (b->tile_row = 0; b->tile_row < passes && status == GCONV_OK && is_any_open(b); b->tile_row++) {
    if (b->tile_row > 0)
      write_gap(&b->results[b->first]);
    status = gconv_bank_pass_run(&b->pass, write_all, b, why);
  }
  for (size_t n = b->first; n < b->end; n++)
    close_result(b, &b->results[n], status == GCONV_OK);
  b->tile_row = 0;
  return status;
}

static gconv_status write_results(bands *b, gconv_message *why) {
  gconv_status status = GCONV_OK;
  size_t group = b->pass.group->writers > 0 ? b->pass.group->writers : 1;
  for (size_t first = 0; first < b->result_count && status == GCONV_OK; first = b->end) {
    b->first = first;
    b->end = b->result_count - first < group ? b->result_count : first + group;
    status = write_some(b, why);
  }
  return status;
}

/* ---- An image ---- */

static gconv_status make_results(bands *b, gconv_message *why) {
  gconv_image like = b->pass.out;
  like.data = b->pass.maps[0].data;
  b->result_count = b->report->output_count;
  b->results = calloc(b->result_count, sizeof *b->results);
  if (!b->results)
    return gconv_complain_memory(why);
  for (size_t n = 0; n < b->result_count; n++) {
    b->results[n].path = b->report->outputs[n];
    b->results[n].wanted = !gconv_bank_is_done(b->r, b->pass.input, n);
  }
  for (size_t n = 0; n < b->result_count && !is_tensor(b); n++)
    GCONV_TRY(gconv_bank_keep_text(why, gconv_bank_lay(b->r->job, &like, n, &b->results[n].sheet)));
  return GCONV_OK;
}

static gconv_status convolve(bands *b, gconv_message *why) {
  gconv_bank_run *r = b->r;
  double begin = gconv_batch_clock_ms();
  GCONV_TRY(gconv_bank_keep_text(why, gconv_bank_rows_network(r, &b->pass.header, b->pass.group->rows)));
  if (b->pass.group->because && r->cold && !r->remark[0])
    snprintf(r->remark, sizeof r->remark, "%s, so it goes by bands of %d rows", b->pass.group->because,
             gconv_network_output_header(r->network)->height);
  b->report->cold = r->cold;
  b->report->plan_ms = r->cold ? gconv_batch_clock_ms() - begin : 0;
  b->report->remark = r->remark[0] ? r->remark : NULL;
  GCONV_TRY(gconv_bank_keep_text(why, gconv_bank_pass_prepare(&b->pass)));
  GCONV_TRY(make_results(b, why));
  GCONV_TRY(find_curves(b, why));
  return write_results(b, why);
}

static void free_bands(bands *b) {
  gconv_bank_pass_free(&b->pass);
  for (int32_t i = 0; i < b->tiles && b->surveys; i++)
    gconv_survey_free(&b->surveys[i]);
  free(b->surveys);
  free(b->curves);
  free(b->results);
}

/* Counts what became of one result; `status` is that of the image. */
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

/* Completes the report: counts all results, and adds the failure of the image, if there was one. */
static void report_bands(bands *b, gconv_status status, const gconv_message *why) {
  gconv_report *report = b->report;
  for (size_t n = 0; n < b->result_count && b->results; n++)
    count_result(b, &b->results[n], status);
  if (!b->results)
    gconv_bank_fail_all(b->r, b->pass.input, report);
  if (status != GCONV_OK)
    gconv_bank_add_error(b->errors, report->input->path, status, why->text);
  report->timings = b->pass.timings;
  report->decode_ms = b->pass.ms[GCONV_PASS_READ];
  report->encode_ms = b->pass.ms[GCONV_PASS_TAKE];
  report->executed = status == GCONV_OK;
  report->pixels = (uint64_t)b->pass.header.height * (uint64_t)b->pass.header.width;
  if (report->executed)
    gconv_bank_describe(b->r, &b->pass.header, 1, &report->plan);
}

void gconv_bank_process_bands(gconv_bank_run *r, const gconv_bank_group *group, size_t input, const gconv_image *whole) {
  gconv_texts errors = {0};
  gconv_report report = gconv_bank_begin_report(r, input, &errors);
  gconv_message why = {""};
  double begin = gconv_batch_clock_ms();
  bands b = {.r = r,
             .pass = {.r = r, .group = group, .input = input, .header = r->headers[input], .whole = whole},
             .report = &report,
             .errors = &errors};
  if (whole) {
    b.pass.header = *whole;
    b.pass.header.data = b.pass.header.icc = NULL;
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
