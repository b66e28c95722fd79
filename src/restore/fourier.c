/* SPDX-License-Identifier: MIT */
/* Fourier transforms in float64 of any size that is a product of 2, 3, 5 and 7, by the algorithm of Stockham: no points
 * change places. They run once an image, and are plain. */
#include "base/memory.h"
#include "restore/restore.h"

#include <math.h>
#include <string.h>

enum { RADIX = 7 };

typedef struct transform {
  double *points, *rooms, *factors; /* the factors exp(-2 pi i k / size), of rows or columns */
  size_t rows, columns, size;
  bool forward, down; /* down: the columns */
} transform;

size_t gconv_fourier_size(size_t least) {
  for (size_t size = least > 0 ? least : 1;; size++) {
    size_t rest = size;
    for (size_t p = 2; p <= RADIX; p++)
      while (rest % p == 0)
        rest /= p;
    if (rest == 1)
      return size;
  }
}

/* One stage: transforms of p points, `part` * stride apart. */
static void run_stage(const transform *t, size_t p, size_t part, size_t stride, const double *in, double *out) {
  const double sign = t->forward ? 1 : -1;
  for (size_t q = 0; q < part; q++)
    for (size_t k = 0; k < stride; k++)
      for (size_t b = 0; b < p; b++) {
        double re = 0, im = 0;
        for (size_t a = 0; a < p; a++) {
          const double *x = in + 2 * (k + stride * (q + part * a));
          const double *w = t->factors + 2 * (a * b % p * (t->size / p));
          re += x[0] * w[0] - sign * x[1] * w[1];
          im += x[1] * w[0] + sign * x[0] * w[1];
        }
        const double *w = t->factors + 2 * (q * b * stride);
        double *y = out + 2 * (k + stride * (p * q + b));
        y[0] = re * w[0] - sign * im * w[1];
        y[1] = im * w[0] + sign * re * w[1];
      }
}

/* Transforms `line`, with `room` as large. The result is in `line`. */
static void run_line(const transform *t, double *line, double *room) {
  double *in = line, *out = room;
  size_t stride = 1;
  for (size_t rest = t->size; rest > 1;) {
    size_t p = 2;
    while (rest % p > 0)
      p++;
    rest /= p;
    run_stage(t, p, rest, stride, in, out);
    stride *= p;
    double *other = in;
    in = out;
    out = other;
  }
  if (in != line)
    memcpy(line, in, 2 * t->size * sizeof *line);
}

static void run_turn(void *context, size_t turn, int seat) {
  const transform *t = context;
  double *room = t->rooms + (size_t)seat * 4 * t->size;
  if (!t->down) {
    run_line(t, t->points + 2 * turn * t->columns, room);
    return;
  }
  double *line = room + 2 * t->size;
  for (size_t y = 0; y < t->rows; y++)
    memcpy(line + 2 * y, t->points + 2 * (y * t->columns + turn), 2 * sizeof *line);
  run_line(t, line, room);
  for (size_t y = 0; y < t->rows; y++)
    memcpy(t->points + 2 * (y * t->columns + turn), line + 2 * y, 2 * sizeof *line);
}

static gconv_status run_direction(transform *t, gconv_threads *threads) {
  t->size = t->down ? t->rows : t->columns;
  const size_t rooms[] = {(size_t)gconv_threads_count(threads), 4 * t->size, sizeof(double)};
  gconv_status status = gconv_allocate(2 * t->size * sizeof(double), "factors", (void **)&t->factors);
  GCONV_THEN(status, gconv_allocate(gconv_checked_product(3, rooms), "lines", (void **)&t->rooms));
  for (size_t k = 0; status == GCONV_OK && k < t->size; k++) {
    const double angle = -6.283185307179586476925 * (double)k / (double)t->size;
    t->factors[2 * k] = cos(angle);
    t->factors[2 * k + 1] = sin(angle);
  }
  if (status == GCONV_OK)
    gconv_threads_run(threads, t->down ? t->columns : t->rows, run_turn, t);
  gconv_release(t->factors);
  gconv_release(t->rooms);
  t->factors = t->rooms = NULL;
  return status;
}

gconv_status gconv_fourier(double *points, size_t rows, size_t columns, bool forward, gconv_threads *threads) {
  transform t = {.points = points, .rows = rows, .columns = columns, .forward = forward};
  for (int down = 0; down < 2; down++) {
    t.down = down == 1;
    GCONV_TRY(run_direction(&t, threads));
  }
  for (size_t i = 0; !forward && i < 2 * rows * columns; i++)
    points[i] /= (double)(rows * columns);
  return GCONV_OK;
}
