/* SPDX-License-Identifier: MIT */
/*
 * Wiener's filter: the spectrum of the image times conj(H) / (|H|^2 + noise).
 *
 * The image is extended by at least the size of the PSF, to a size of small prime factors. Beyond an edge lies the
 * reflection of the image, which fades into the reflection at the opposite edge, because spectra are periodic. So edges do
 * not ring. Two colours are transformed at once, in float32. Errors are some 1e-6 of the largest sample, divided by the root
 * of the noise.
 */
#include "base/control.h"
#include "base/memory.h"
#include "device/device.h"
#include "restore/restore.h"

#include <math.h>

typedef struct colours {
  const gconv_wiener *w;
  size_t columns, channel; /* channel: of part 0; the next one is part 1 */
} colours;

static gconv_wiener_place find_place(size_t at, size_t count, size_t size) {
  if (at < count)
    return (gconv_wiener_place){{(int32_t)at, (int32_t)at}, 0};
  const size_t gap = size - count, beyond = at - count, before = gap - 1 - beyond, period = 2 * count;
  const size_t a = beyond % period, b = before % period;
  return (gconv_wiener_place){{(int32_t)(a < count ? count - 1 - a : a - count), (int32_t)(b < count ? b : period - 1 - b)},
                              (float)(((double)beyond + 0.5) / (double)gap)};
}

/* Returns the mean of a colour, which also replaces missing samples. */
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

/* Adds `weight` times a row of the image, extended along x, from which the mean is subtracted. */
static void add_row(const colours *c, size_t z, size_t y, size_t part, float weight, float *row) {
  const gconv_restored *r = c->w->r;
  const float mean = c->w->means[c->channel + part];
  const size_t channels = (size_t)r->channels, line = (size_t)r->size[2] * channels;
  const float *from = r->samples + (z * (size_t)r->size[1] + y) * line + c->channel + part;
  for (size_t x = 0; x < c->columns; x++) {
    const gconv_wiener_place *p = &c->w->places[2][x];
    const float a = from[(size_t)p->at[0] * channels], b = from[(size_t)p->at[1] * channels];
    const float first = isfinite(a) ? a - mean : 0, second = isfinite(b) ? b - mean : 0;
    row[x] += weight * ((1 - p->share) * first + p->share * second);
  }
}

static void load_row(void *user, size_t z, size_t y, size_t part, float *row) {
  const colours *c = user;
  const gconv_wiener_place *planes = &c->w->places[0][z], *rows = &c->w->places[1][y];
  for (size_t k = 0; k < 4 && c->channel + part < (size_t)c->w->r->channels; k++) {
    const float weight = (k / 2 ? planes->share : 1 - planes->share) * (k % 2 ? rows->share : 1 - rows->share);
    if (weight > 0)
      add_row(c, (size_t)planes->at[k / 2], (size_t)rows->at[k % 2], part, weight, row);
  }
}

static void store_row(void *user, size_t z, size_t y, size_t part, const float *row) {
  const colours *c = user;
  const gconv_restored *r = c->w->r;
  const size_t channels = (size_t)r->channels, line = (size_t)r->size[2] * channels;
  if (z >= (size_t)r->size[0] || y >= (size_t)r->size[1] || c->channel + part >= channels)
    return;
  float *to = r->samples + (z * (size_t)r->size[1] + y) * line + c->channel + part;
  for (size_t x = 0; x < (size_t)r->size[2]; x++)
    to[x * channels] = row[x] + c->w->means[c->channel + part];
}

gconv_status gconv_wiener_cpu(const gconv_wiener *w) {
  const gconv_restored *r = w->r;
  const gconv_psf *psf = r->psf;
  colours c = {.w = w};
  const gconv_spectra_use use = {load_row, store_row, &c};
  gconv_spectra s;
  GCONV_TRY(gconv_spectra_make(w->least, psf->taps, psf->size, psf->centre, gconv_device_threads(r->device), &s));
  c.columns = s.along[2].size;
  for (; c.channel < (size_t)r->channels; c.channel += 2)
    gconv_spectra_run(&s, &use, GCONV_SPECTRA_WIENER, w->noise);
  gconv_spectra_free(&s);
  return gconv_control_check();
}

static gconv_status restore(gconv_wiener *w, float *means) {
  const gconv_restored *r = w->r;
  for (size_t i = 0; i < 3; i++) {
    const size_t size = gconv_fft_mixed_size(w->least[i]);
    GCONV_ALLOCATE(w->places[i], size * sizeof *w->places[i], "the edges");
    for (size_t at = 0; at < size; at++)
      w->places[i][at] = find_place(at, (size_t)r->size[i], size);
  }
  for (size_t c = 0; c < (size_t)r->channels; c++)
    means[c] = find_mean(r, c);
  return GCONV_OF_DEVICE(r->device, gconv_wiener)(w);
}

gconv_status gconv_restore_wiener(gconv_restored *r) {
  size_t least[3];
  for (size_t i = 0; i < 3; i++)
    least[i] = (size_t)r->size[i] + (r->psf->size[i] > 1 ? (size_t)r->psf->size[i] : 0);
  GCONV_FREED float *means = calloc((size_t)r->channels, sizeof *means);
  GCONV_NEED_MEMORY(means, "no memory for the means");
  gconv_wiener w = {
      .r = r, .least = least, .means = means, .noise = r->options->noise > 0 ? (float)r->options->noise : 0.01F};
  const gconv_status status = restore(&w, means);
  for (size_t i = 0; i < 3; i++)
    gconv_release(w.places[i]);
  return status;
}
