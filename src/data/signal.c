/* SPDX-License-Identifier: MIT */
#include "data/signal.h"
#include "base/memory.h"

#include <string.h>

enum { STEP = 2048 }; /* numbers that are read at a time */

static gconv_status read_all(gconv_samples *samples, gconv_signal *signal) {
  float numbers[STEP];
  for (size_t got = 1; got > 0;) {
    GCONV_TRY(gconv_samples_read(samples, STEP, numbers, &got));
    GCONV_TRY(gconv_store_append(&signal->store, numbers, got * sizeof *numbers));
  }
  signal->channels = samples->channels;
  signal->samples = (size_t)(samples->read / (uint64_t)samples->channels);
  return signal->samples > 0 ? gconv_store_finish(&signal->store)
                             : gconv_fail(GCONV_BAD_FILE, "%s: has no samples", samples->source.name);
}

gconv_status gconv_signal_read(const char *path, const char *syntax, gconv_signal *signal) {
  GCONV_ENDED_BY(gconv_samples_close) gconv_samples samples = {0};
  GCONV_TRY(gconv_samples_open(path, syntax, &samples));
  return read_all(&samples, signal);
}

void gconv_signal_get(const gconv_signal *signal, size_t first, size_t count, float *numbers) {
  size_t channels = (size_t)signal->channels;
  const float *from = (const float *)(const void *)signal->store.bytes + first * channels;
  if (channels == 1)
    memcpy(numbers, from, count * sizeof *numbers);
  for (size_t c = 0; c < channels && channels > 1; c++)
    for (size_t i = 0; i < count; i++)
      numbers[c * count + i] = from[i * channels + c];
}

void gconv_signal_free(gconv_signal *signal) {
  gconv_store_free(&signal->store);
  *signal = (gconv_signal){0};
}
