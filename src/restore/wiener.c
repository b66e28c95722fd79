/* SPDX-License-Identifier: MIT */
/*
 * Wiener's filter: the spectrum of the image times conj(H) / (|H|^2 + noise).
 *
 * The image is extended to a size of small prime factors, by the PSF at least. Beyond an edge stands its reflection, which
 * fades into that of the other side, as spectra are periodic: so no edge rings. Two colours are transformed at once. All is
 * float32: results are off by some 1e-6 of the largest sample, over the root of the noise.
 */
#include "base/memory.h"
#include "restore/restore.h"

#include <math.h>

/* Where a place of a periodic line finds its samples: two of them, and the share of the second. */
typedef struct place {
  size_t at[2];
  float share;
} place;

typedef struct wiener {
  const gconv_restored *r;
  place *places[3];        /* owned: along z, y, x */
  size_t columns, channel; /* channel: of part 0; the next one is part 1 */
  float mean[2];
} wiener;

static place find_place(size_t at, size_t count, size_t size) {
  if (at < count)
    return (place){{at, at}, 0};
  const size_t gap = size - count, beyond = at - count, before = gap - 1 - beyond, period = 2 * count;
  const size_t a = beyond % period, b = before % period;
  return (place){{a < count ? count - 1 - a : a - count, b < count ? b : period - 1 - b},
                 (float)(((double)beyond + 0.5) / (double)gap)};
}

/* Finds the mean of a colour, which missing samples are. */
static float find_mean(const gconv_restored *r, size_t channel) {
  const size_t channels = (size_t)r->channels, samples = (size_t)r->size[0] * (size_t)r->size[1] * (size_t)r->size[2];
  double sum = 0, count = 0;
  for (size_t i = channel; i < samples * channels; i += channels)
    if (isfinite(r->samples[i])) {
      sum += (double)r->samples[i];
      count++;
    }
  return count > 0 ? (float)(sum / count) : 0;
}

/* Adds a row of the extended image, less the mean, times a weight. */
static void add_row(const wiener *w, size_t z, size_t y, size_t part, float weight, size_t columns, float *row) {
  const gconv_restored *r = w->r;
  const size_t channels = (size_t)r->channels, line = (size_t)r->size[2] * channels;
  const float *from = r->samples + (z * (size_t)r->size[1] + y) * line + w->channel + part;
  for (size_t x = 0; x < columns; x++) {
    const place *p = &w->places[2][x];
    const float a = from[p->at[0] * channels], b = from[p->at[1] * channels];
    const float first = isfinite(a) ? a - w->mean[part] : 0, second = isfinite(b) ? b - w->mean[part] : 0;
    row[x] += weight * ((1 - p->share) * first + p->share * second);
  }
}

static void load_row(void *user, size_t z, size_t y, size_t part, float *row) {
  const wiener *w = user;
  const place *planes = &w->places[0][z], *rows = &w->places[1][y];
  for (size_t k = 0; k < 4 && w->channel + part < (size_t)w->r->channels; k++) {
    const float weight = (k / 2 ? planes->share : 1 - planes->share) * (k % 2 ? rows->share : 1 - rows->share);
    if (weight > 0)
      add_row(w, planes->at[k / 2], rows->at[k % 2], part, weight, w->columns, row);
  }
}

static void store_row(void *user, size_t z, size_t y, size_t part, const float *row) {
  const wiener *w = user;
  const gconv_restored *r = w->r;
  const size_t channels = (size_t)r->channels, line = (size_t)r->size[2] * channels;
  if (z >= (size_t)r->size[0] || y >= (size_t)r->size[1] || w->channel + part >= channels)
    return;
  float *to = r->samples + (z * (size_t)r->size[1] + y) * line + w->channel + part;
  for (size_t x = 0; x < (size_t)r->size[2]; x++)
    to[x * channels] = row[x] + w->mean[part];
}

static gconv_status restore(wiener *w, gconv_restored *r, gconv_spectra *s) {
  const float noise = r->options->noise > 0 ? (float)r->options->noise : 0.01F;
  const gconv_spectra_use use = {GCONV_SPECTRA_WIENER, noise, load_row, store_row, w};
  for (size_t i = 0; i < 3; i++) {
    GCONV_ALLOCATE(w->places[i], s->along[i].size * sizeof(place), "the edges");
    for (size_t at = 0; at < s->along[i].size; at++)
      w->places[i][at] = find_place(at, (size_t)r->size[i], s->along[i].size);
  }
  w->columns = s->along[2].size;
  for (w->channel = 0; w->channel < (size_t)r->channels; w->channel += 2) {
    for (size_t part = 0; part < 2 && w->channel + part < (size_t)r->channels; part++)
      w->mean[part] = find_mean(r, w->channel + part);
    gconv_spectra_run(s, &use);
  }
  return GCONV_OK;
}

gconv_status gconv_restore_wiener(gconv_restored *r) {
  const gconv_psf *psf = r->psf;
  wiener w = {.r = r};
  gconv_spectra s;
  size_t least[3];
  for (size_t i = 0; i < 3; i++)
    least[i] = (size_t)r->size[i] + (psf->size[i] > 1 ? (size_t)psf->size[i] : 0);
  GCONV_TRY(gconv_spectra_make(least, psf->taps, psf->size, psf->centre, gconv_device_threads(r->device), &s));
  const gconv_status status = restore(&w, r, &s);
  for (size_t i = 0; i < 3; i++)
    gconv_release(w.places[i]);
  gconv_spectra_free(&s);
  return status;
}
