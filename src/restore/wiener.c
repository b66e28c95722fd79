/* SPDX-License-Identifier: MIT */
/*
 * Wiener's filter: the spectrum of the image times conj(H) / (|H|^2 + noise).
 *
 * The image is extended to a size of small prime factors, by the PSF at least. Beyond an edge stands its reflection, which
 * fades into that of the other side, as spectra are periodic: so no edge rings. Two colours are one complex image. All is
 * float64.
 */
#include "base/memory.h"
#include "restore/restore.h"

#include <math.h>
#include <string.h>

typedef struct wiener {
  const gconv_restored *r;
  size_t rows, columns;
  double *psf, *points; /* owned: [rows][columns] complex */
} wiener;

/* Where position `at` of a periodic line of `size` finds its samples: two places among `count`, and the share of the second.
 */
static void find_places(size_t at, size_t count, size_t size, size_t places[2], double *share) {
  places[0] = places[1] = at;
  *share = 0;
  if (at < count)
    return;
  const size_t gap = size - count, beyond = at - count, before = gap - 1 - beyond, period = 2 * count;
  const size_t a = beyond % period, b = before % period;
  places[0] = a < count ? count - 1 - a : a - count;
  places[1] = b < count ? b : period - 1 - b;
  *share = ((double)beyond + 0.5) / (double)gap;
}

/* Loads colours `channel` and the next one as real and imaginary parts; missing samples are the mean. */
static void load(const wiener *w, size_t channel, double mean[2]) {
  const gconv_restored *r = w->r;
  const size_t height = (size_t)r->height, width = (size_t)r->width, channels = (size_t)r->channels;
  for (size_t part = 0; part < 2; part++) {
    double sum = 0, count = 0;
    for (size_t i = channel + part; channel + part < channels && i < height * width * channels; i += channels)
      if (isfinite(r->samples[i])) {
        sum += (double)r->samples[i];
        count++;
      }
    mean[part] = count > 0 ? sum / count : 0;
  }
  for (size_t y = 0; y < w->rows; y++)
    for (size_t x = 0; x < w->columns; x++)
      for (size_t part = 0; part < 2; part++) {
        size_t ys[2], xs[2];
        double down, across, sum = 0;
        find_places(y, height, w->rows, ys, &down);
        find_places(x, width, w->columns, xs, &across);
        for (size_t k = 0; k < 4 && channel + part < channels; k++) {
          const float sample = r->samples[(ys[k / 2] * width + xs[k % 2]) * channels + channel + part];
          const double weight = (k / 2 ? down : 1 - down) * (k % 2 ? across : 1 - across);
          sum += weight > 0 ? weight * ((isfinite(sample) ? (double)sample : mean[part]) - mean[part]) : 0;
        }
        w->points[2 * (y * w->columns + x) + part] = sum;
      }
}

static void apply(const wiener *w, double noise) {
  for (size_t i = 0; i < w->rows * w->columns; i++) {
    const double *h = w->psf + 2 * i, over = 1 / (h[0] * h[0] + h[1] * h[1] + noise);
    double *p = w->points + 2 * i;
    const double re = (p[0] * h[0] + p[1] * h[1]) * over, im = (p[1] * h[0] - p[0] * h[1]) * over;
    p[0] = re;
    p[1] = im;
  }
}

static void load_psf(const wiener *w) {
  const gconv_psf *psf = w->r->psf;
  memset(w->psf, 0, 2 * w->rows * w->columns * sizeof *w->psf);
  for (int32_t y = 0; y < psf->rows; y++)
    for (int32_t x = 0; x < psf->columns; x++) {
      const size_t row = ((size_t)y + w->rows - (size_t)psf->row) % w->rows;
      const size_t column = ((size_t)x + w->columns - (size_t)psf->column) % w->columns;
      w->psf[2 * (row * w->columns + column)] += (double)psf->taps[(size_t)y * (size_t)psf->columns + (size_t)x];
    }
}

static gconv_status restore(wiener *w, gconv_restored *r) {
  gconv_threads *threads = gconv_device_threads(r->device);
  const double noise = r->options->noise > 0 ? r->options->noise : 0.01;
  const size_t sizes[] = {w->rows, w->columns, 2 * sizeof(double)}, bytes = gconv_checked_product(3, sizes);
  GCONV_TRY(gconv_allocate(bytes, "the spectrum of the PSF", (void **)&w->psf));
  GCONV_TRY(gconv_allocate(bytes, "the spectrum of the image", (void **)&w->points));
  load_psf(w);
  GCONV_TRY(gconv_fourier(w->psf, w->rows, w->columns, true, threads));
  for (size_t c = 0; c < (size_t)r->channels; c += 2) {
    double mean[2];
    load(w, c, mean);
    GCONV_TRY(gconv_fourier(w->points, w->rows, w->columns, true, threads));
    apply(w, noise);
    GCONV_TRY(gconv_fourier(w->points, w->rows, w->columns, false, threads));
    for (size_t i = 0; i < (size_t)r->height * (size_t)r->width; i++)
      for (size_t part = 0; part < 2 && c + part < (size_t)r->channels; part++)
        r->samples[i * (size_t)r->channels + c + part] =
            (float)(mean[part] + w->points[2 * (i / (size_t)r->width * w->columns + i % (size_t)r->width) + part]);
  }
  return GCONV_OK;
}

gconv_status gconv_restore_wiener(gconv_restored *r) {
  wiener w = {.r = r,
              .rows = gconv_fourier_size((size_t)r->height + (size_t)r->psf->rows),
              .columns = gconv_fourier_size((size_t)r->width + (size_t)r->psf->columns)};
  const gconv_status status = restore(&w, r);
  gconv_release(w.psf);
  gconv_release(w.points);
  return status;
}
