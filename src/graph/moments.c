/* SPDX-License-Identifier: MIT */
#include "graph/moments.h"

#include <math.h>

/* A rectangle of all channels of a tensor. */
typedef struct rectangle {
  const float *first; /* its first element in channel 0 */
  int64_t plane, row; /* elements from one channel, and from one row, to the next */
  int64_t height, width;
  gconv_plane_moments *moments;
} rectangle;

/* Measures a channel. Sums are float64, and are added in a fixed order. */
static gconv_plane_moments measure(const rectangle *r, const float *in) {
  gconv_plane_moments m = {(double)(r->height * r->width), 0, 0, INFINITY, -INFINITY};
  double sum = 0;
  for (int64_t y = 0; y < r->height; y++)
    for (int64_t x = 0; x < r->width; x++) {
      const double v = (double)in[y * r->row + x];
      sum += v;
      m.smallest = v < m.smallest || v != v ? v : m.smallest;
      m.largest = v > m.largest || v != v ? v : m.largest;
    }
  m.mean = sum / m.count;
  for (int64_t y = 0; y < r->height; y++)
    for (int64_t x = 0; x < r->width; x++) {
      const double d = (double)in[y * r->row + x] - m.mean;
      m.squares += d * d;
    }
  return m;
}

void gconv_plane_moments_join(gconv_plane_moments *m, const gconv_plane_moments *more) {
  const double count = m->count + more->count, d = more->mean - m->mean;
  if (more->count == 0)
    return;
  if (m->count == 0) {
    *m = *more;
    return;
  }
  m->squares += more->squares + d * d * (m->count * more->count / count);
  m->mean += d * (more->count / count);
  m->count = count;
  m->smallest = more->smallest < m->smallest || more->smallest != more->smallest ? more->smallest : m->smallest;
  m->largest = more->largest > m->largest || more->largest != more->largest ? more->largest : m->largest;
}

static void add_channel(void *context, size_t turn, int seat) {
  const rectangle *r = context;
  const gconv_plane_moments found = measure(r, r->first + (int64_t)turn * r->plane);
  gconv_plane_moments_join(&r->moments[turn], &found);
}

void gconv_plane_moments_add(const gconv_tensor *t, const int64_t begin[2], const int64_t end[2], gconv_threads *threads,
                             gconv_plane_moments *moments) {
  const int64_t row = t->shape[3], plane = t->shape[2] * row;
  rectangle r = {
      (const float *)t->data + begin[0] * row + begin[1], plane, row, end[0] - begin[0], end[1] - begin[1], moments};
  if (r.height > 0 && r.width > 0)
    gconv_threads_run(threads, (size_t)t->shape[1], add_channel, &r);
}
