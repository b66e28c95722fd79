/* SPDX-License-Identifier: MIT */
#include "batch/bank_pass.h"
#include "batch/clock.h"
#include "batch/loop.h"

#include <string.h>

static gconv_status fail_stage(gconv_bank_pass *pass, size_t stage, gconv_status status) {
  pass->status[stage] = status;
  return gconv_bank_keep_text(&pass->why[stage], status);
}

/* ---- Reading ---- */

/* Reads rows up to `end` into the window, the first of which is to be row `begin`, and drops those before it. */
static gconv_status read_rows(gconv_bank_pass *pass, gconv_pass_window *w, int32_t begin, int32_t end) {
  gconv_status status = GCONV_OK;
  while (pass->read < begin && status == GCONV_OK) {
    int32_t count = begin - pass->read < end - begin ? begin - pass->read : end - begin;
    status = gconv_row_reader_read(pass->reader, w->rows.data, w->rows.row_bytes, count);
    pass->read += count;
  }
  if (status != GCONV_OK || pass->read >= end)
    return status;
  uint8_t *to = (uint8_t *)w->rows.data + (size_t)(pass->read - begin) * w->rows.row_bytes;
  status = gconv_row_reader_read(pass->reader, to, w->rows.row_bytes, end - pass->read);
  pass->read = end;
  return status;
}

static gconv_status fill_window(gconv_bank_pass *pass, int32_t i) {
  gconv_pass_window *w = &pass->windows[i % 2];
  const gconv_pass_window *before = &pass->windows[(i + 1) % 2];
  gconv_network_rows_needed(pass->r->network, i * pass->rows, &w->begin, &w->end);
  if (pass->whole) {
    w->rows = *pass->whole;
    w->rows.data = (uint8_t *)pass->whole->data + (size_t)w->begin * pass->whole->row_bytes;
    w->rows.height = w->end - w->begin;
    return GCONV_OK;
  }
  w->rows.height = w->end - w->begin;
  if (i > 0 && before->end > w->begin)
    memcpy(w->rows.data, (const uint8_t *)before->rows.data + (size_t)(w->begin - before->begin) * w->rows.row_bytes,
           (size_t)(before->end - w->begin) * w->rows.row_bytes);
  return read_rows(pass, w, w->begin, w->end);
}

/* Reads what is left, to the last row, which tells whether the file is whole. */
static gconv_status read_rest(gconv_bank_pass *pass) {
  int32_t height = pass->header.height, most = pass->windows[0].rows.height;
  for (gconv_status status = GCONV_OK; pass->reader && pass->read < height;) {
    int32_t count = height - pass->read < most ? height - pass->read : most;
    status = gconv_row_reader_read(pass->reader, pass->windows[0].rows.data, pass->windows[0].rows.row_bytes, count);
    if (status != GCONV_OK)
      return status;
    pass->read += count;
  }
  return GCONV_OK;
}

static gconv_status changed(void) {
  return gconv_set_error(GCONV_BAD_FILE, "it changed while it was waiting for its turn");
}

/* Opens the file again, or reads it whole the first time. */
static gconv_status open_input(gconv_bank_pass *pass) {
  const gconv_bank_batch *job = pass->r->job;
  const char *path = job->common.inputs->items[pass->input].path;
  pass->read = 0;
  if (pass->whole)
    return GCONV_OK;
  if (pass->group->whole) {
    gconv_status status = gconv_bank_image_read(job, path, &pass->own);
    pass->whole = &pass->own;
    return status != GCONV_OK || gconv_image_same_shape(&pass->own, &pass->header) ? status : changed();
  }
  gconv_read_options options = {.max_pixels = job->common.max_pixels, .threads = pass->r->threads, .again = pass->opened};
  gconv_status status = gconv_row_reader_open(path, &options, &pass->reader);
  if (status != GCONV_OK)
    return status;
  pass->opened = true;
  bool same = gconv_image_same_shape(gconv_row_reader_header(pass->reader), &pass->header);
  return same && gconv_row_reader_is_in_order(pass->reader) ? GCONV_OK : changed();
}

static void close_input(gconv_bank_pass *pass) {
  gconv_row_reader_close(pass->reader);
  pass->reader = NULL;
}

/* ---- From stage to stage ---- */

/* The maps of band i, without the rows beyond the last of the whole output. */
static gconv_image kept_rows(const gconv_bank_pass *pass, int32_t i) {
  gconv_image maps = pass->maps[i % 2];
  int32_t left = pass->out.height - i * pass->rows;
  maps.height = left < pass->rows ? left : pass->rows;
  return maps;
}

static void run_stage(void *context, size_t stage) {
  gconv_bank_pass *pass = context;
  int32_t i = pass->step - (int32_t)stage;
  double begin = gconv_batch_clock_ms();
  if (i < 0 || i >= pass->count)
    return;
  if (stage == GCONV_PASS_READ) {
    fail_stage(pass, stage, fill_window(pass, i));
  } else if (stage == GCONV_PASS_CONVOLVE) {
    const gconv_pass_window *w = &pass->windows[i % 2];
    fail_stage(pass, stage,
               gconv_network_execute_rows(pass->r->network, &w->rows, w->begin, i * pass->rows, &pass->maps[i % 2],
                                          &pass->timings));
  } else {
    gconv_image maps = kept_rows(pass, i);
    pass->idle = !pass->take(pass->user, &maps, i * pass->rows);
  }
  pass->ms[stage] += gconv_batch_clock_ms() - begin;
}

static gconv_status first_failure(const gconv_bank_pass *pass, gconv_message *why) {
  for (int s = 0; s < GCONV_PASS_STAGES; s++)
    if (pass->status[s] != GCONV_OK)
      return gconv_complain(why, pass->status[s], "%s", pass->why[s].text);
  return GCONV_OK;
}

gconv_status gconv_bank_pass_run(gconv_bank_pass *pass, gconv_pass_taker *take, void *user, gconv_message *why) {
  const int threads = pass->r->threads < GCONV_PASS_STAGES ? pass->r->threads : GCONV_PASS_STAGES;
  pass->take = take;
  pass->user = user;
  pass->idle = false;
  double begin = gconv_batch_clock_ms();
  gconv_status status = gconv_bank_keep_text(why, open_input(pass));
  pass->ms[GCONV_PASS_READ] += gconv_batch_clock_ms() - begin;
  for (pass->step = 0; pass->step < pass->count + GCONV_PASS_STAGES - 1 && status == GCONV_OK && !pass->idle; pass->step++) {
    gconv_loop_run(threads, GCONV_PASS_STAGES, run_stage, pass);
    status = first_failure(pass, why);
  }
  if (status == GCONV_OK && !pass->idle)
    status = gconv_bank_keep_text(why, read_rest(pass));
  close_input(pass);
  return status;
}

/* ---- Buffers ---- */

gconv_status gconv_bank_pass_prepare(gconv_bank_pass *pass) {
  const gconv_network *network = pass->r->network;
  pass->out = pass->maps[0] = pass->maps[1] = *gconv_network_output_header(network);
  const gconv_layer_info *last = gconv_network_get_info(network, pass->r->job->layer_count - 1);
  pass->rows = pass->out.height;
  pass->out.height = last->out_height;
  pass->count = (pass->out.height - 1) / pass->rows + 1;
  gconv_image most = pass->header; /* of the input, what any band needs */
  most.height = 1;
  for (int32_t i = 0, begin, end; i < pass->count; i++) {
    gconv_network_rows_needed(network, i * pass->rows, &begin, &end);
    most.height = end - begin > most.height ? end - begin : most.height;
  }
  gconv_status status = GCONV_OK;
  for (int i = 0; i < 2 && status == GCONV_OK; i++) {
    status = gconv_image_allocate(&pass->maps[i]);
    pass->windows[i].rows = most;
    if (status == GCONV_OK && !pass->whole && !pass->group->whole)
      status = gconv_image_allocate(&pass->windows[i].rows);
  }
  return status;
}

void gconv_bank_pass_free(gconv_bank_pass *pass) {
  gconv_image_free(&pass->own);
  close_input(pass);
  for (int i = 0; i < 2; i++) {
    gconv_image_free(&pass->maps[i]);
    if (!pass->group->whole)
      gconv_image_free(&pass->windows[i].rows);
  }
}
