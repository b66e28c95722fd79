/* SPDX-License-Identifier: MIT */
/* Slabs in memory of the host. */
#include "image/layout.h"
#include "volume/slab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static gconv_status allocate(gconv_device *device, gconv_image *image) {
  return gconv_image_allocate(image);
}

static void release(gconv_device *device, gconv_image *image) {
  gconv_image_free(image);
}

static gconv_status move(gconv_device *device, const gconv_image *from, const gconv_image *to) {
  for (int32_t z = 0; z < to->frames; z++)
    for (int32_t y = 0; y < to->height; y++)
      memmove(gconv_row_at(to, (size_t)z, y), gconv_row_at(from, (size_t)z, y), gconv_image_row_bytes(to));
  return GCONV_OK;
}

/* A loop over the rows of a slab, by all threads: a turn processes one row. */
typedef struct step {
  const gconv_image *from, *to;
  size_t samples; /* of a row */
  float value;
  bool adds;
  const gconv_slab_finish *finish;
} step;

static float *row_of(const gconv_image *image, size_t turn, size_t samples) {
  return (float *)image->data + turn * samples;
}

static gconv_status run(gconv_device *device, gconv_turn *turn, step *s) {
  s->samples = (size_t)s->to->width * (size_t)s->to->channels;
  gconv_threads_run(device->threads, (size_t)s->to->frames * (size_t)s->to->height, turn, s);
  return GCONV_OK;
}

static void fill_row(void *context, size_t turn, int seat) {
  const step *s = context;
  float *to = row_of(s->to, turn, s->samples);
  for (size_t i = 0; i < s->samples; i++)
    to[i] = s->value;
}

static void add_row(void *context, size_t turn, int seat) {
  const step *s = context;
  const float *from = row_of(s->from, turn, s->samples);
  float *to = row_of(s->to, turn, s->samples);
  for (size_t i = 0; i < s->samples; i++)
    to[i] = fmaf(s->value, from[i], s->adds ? to[i] : 0.0F);
}

static void finish_row(void *context, size_t turn, int seat) {
  const step *s = context;
  const gconv_slab_finish *f = s->finish;
  const size_t height = (size_t)s->to->height, first = turn * s->samples;
  const float *sums = row_of(&f->sums, turn, s->samples);
  void *row = gconv_row_at(s->to, turn / height, (int64_t)(turn % height));
  for (size_t i = 0; i < s->samples; i++)
    if (f->to_squares)
      f->to_squares[first + i] = gconv_slab_square(sums[i], f->squares, first + i);
    else
      gconv_slab_store(f, s->to->type, sums[i], first + i, row, i);
}

static gconv_status fill(gconv_device *device, const gconv_image *to, float value) {
  return run(device, fill_row, &(step){.to = to, .value = value});
}

static gconv_status add(gconv_device *device, const gconv_image *from, const gconv_image *to, float factor, bool adds) {
  return run(device, add_row, &(step){.from = from, .to = to, .value = factor, .adds = adds});
}

static gconv_status finish(gconv_device *device, const gconv_slab_finish *how, const gconv_image *out) {
  return run(device, finish_row, &(step){.to = out, .finish = how});
}

const gconv_slab_type gconv_slab_type_cpu = {
    .allocate = allocate, .release = release, .move = move, .fill = fill, .add = add, .finish = finish};
