/* SPDX-License-Identifier: MIT */
/* Channels of the input that do not go through the network: alpha, and the colours of --luma. They are resized, and added to
 * the result. */
#include "base/memory.h"
#include "layer/bleed.h"
#include "layer/network.h"

/* The work of gconv_network_add_resized(): each row of `out` is a turn. */
typedef struct resize_job {
  const gconv_network_plan *network;
  const gconv_presenter *presenter;
  const gconv_resizing *vertical, *horizontal;
  const gconv_image *in, *out, *maps;
  int32_t in_row, first;
  float *rows; /* for each thread: a row of `in`, and four of `out` */
  size_t row_floats;
} resize_job;

static void add_alpha(const resize_job *job, int32_t frame, int32_t y, float *row, float *alpha, uint8_t *to) {
  const gconv_curve plain = {1 / (double)gconv_white(job->in->type), 0, false};
  const size_t channels = (size_t)job->out->channels;
  gconv_resize_row(job->vertical, job->horizontal, job->in, job->in_row, frame, job->in->channels - 1, job->first + y, row,
                   job->out->width, alpha);
  gconv_tone_put_row(job->out->type, plain, alpha, job->out->width, to, channels - 1, (ptrdiff_t)channels);
}

/* Puts the brightness that the network makes, plus the difference of each colour of the image from the image's brightness.
 */
static void add_colours(const resize_job *job, int32_t frame, int32_t y, float *row, float *colours[3], uint8_t *to) {
  const gconv_network_plan *n = job->network;
  const gconv_curve plain = {1, 0, false};
  const float white = gconv_white(job->in->type), scale = (float)n->presenter.tone.scale,
              offset = (float)n->presenter.tone.offset;
  const float *made = (const float *)job->maps->data + (size_t)frame * (job->maps->plane_bytes / sizeof(float)) +
                      (size_t)y * (size_t)job->maps->width;
  for (int c = 0; c < 3; c++)
    gconv_resize_row(job->vertical, job->horizontal, job->in, job->in_row, frame, c, job->first + y, row, job->out->width,
                     colours[c]);
  for (int32_t x = 0; x < job->out->width; x++) {
    const float brightness = 0.299F * colours[0][x] + 0.587F * colours[1][x] + 0.114F * colours[2][x];
    for (int c = 0; c < 3; c++)
      colours[c][x] = made[x] * scale + offset + (colours[c][x] - brightness) / white;
  }
  for (size_t c = 0; c < 3; c++)
    gconv_tone_put_row(job->out->type, plain, colours[c], job->out->width, to, c, job->out->channels);
}

static void resize_row(void *context, size_t turn, int thread) {
  const resize_job *job = context;
  const size_t height = (size_t)job->out->height, width = (size_t)job->out->width;
  const int32_t frame = (int32_t)(turn / height), y = (int32_t)(turn % height);
  float *row = job->rows + (size_t)thread * job->row_floats, *made = row + job->in->width;
  float *colours[3] = {made, made + width, made + 2 * width};
  uint8_t *to = (uint8_t *)job->out->data + (size_t)frame * job->out->plane_bytes + (size_t)y * job->out->row_bytes;
  if (job->network->luma)
    add_colours(job, frame, y, row, colours, to);
  if (job->presenter->alpha)
    add_alpha(job, frame, y, row, made, to);
}

gconv_status gconv_network_add_resized(const gconv_network_plan *network, const gconv_presenter *p, const gconv_image *in,
                                       int32_t in_row, int32_t first, const gconv_image *maps, const gconv_image *out) {
  const bool own = p != &network->presenter; /* a further output, whose size may be another */
  gconv_resizing rows = network->rows, columns = network->columns;
  gconv_threads *threads = network->base.device->threads;
  gconv_image filled = {0}; /* for luma: `in`, with colours of neighbours in transparent pixels */
  resize_job job = {
      network, p, &rows, &columns, in, out, maps, in_row, first, NULL, (size_t)in->width + 3 * (size_t)out->width};
  void *memory = NULL;
  const bool alpha = p->alpha && p->planes < p->channels;
  if (!out->data || out->height < 1 || !(alpha || network->luma))
    return GCONV_OK;
  gconv_status status =
      gconv_allocate(job.row_floats * sizeof(float) * (size_t)gconv_threads_count(threads), "rows of alpha", &memory);
  if (network->luma && network->bleeds) {
    GCONV_THEN(status, gconv_bleed(in, &filled));
    job.in = &filled;
  }
  if (own) {
    rows = columns = (gconv_resizing){0};
    GCONV_THEN(status, gconv_resizing_make(in->height, p->height, &rows));
    GCONV_THEN(status, gconv_resizing_make(in->width, p->width, &columns));
  }
  job.rows = memory;
  if (status == GCONV_OK)
    gconv_threads_run(threads, (size_t)out->frames * (size_t)out->height, resize_row, &job);
  gconv_release(memory);
  gconv_image_free(&filled);
  if (own) {
    gconv_resizing_free(&rows);
    gconv_resizing_free(&columns);
  }
  return status;
}
