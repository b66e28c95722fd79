/* SPDX-License-Identifier: MIT */
#include "learn/signal.h"
#include "base/element.h"
#include "base/npy_header.h"
#include "learn/lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { STEP = 2048 }; /* numbers that are read at a time */

typedef struct raw_type {
  const char *name;
  gconv_element element;
  float unit; /* what samples are divided by */
} raw_type;

static const raw_type raw_types[] = {
    {"f32le", {'f', 4, false}, 1}, {"s16le", {'i', 2, false}, 32768}, {"u8", {'u', 1, false}, 255}};
enum { RAW_TYPES = sizeof raw_types / sizeof *raw_types };

static const raw_type *find_type(const char *name, size_t length) {
  for (size_t i = 0; i < RAW_TYPES; i++)
    if (strlen(raw_types[i].name) == length && strncasecmp(raw_types[i].name, name, length) == 0)
      return &raw_types[i];
  return NULL;
}

/* "f32le:2". NULL in *type for "npy". */
static gconv_status parse_syntax(const char *syntax, const raw_type **type, int32_t *channels) {
  size_t length = strcspn(syntax, ":");
  *type = find_type(syntax, length);
  *channels = 1;
  if (!*type && strcmp(syntax, "npy") == 0)
    return GCONV_OK;
  char *end = (char *)"";
  long count = syntax[length] ? strtol(syntax + length + 1, &end, 10) : 1;
  if (!*type || *end || count < 1 || count > GCONV_MOST_SIGNAL_CHANNELS || (syntax[length] && !syntax[length + 1]))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "there are no samples '%s'; known are npy, and raw samples: f32le, s16le and u8, of several channels "
                      "f32le:2",
                      syntax);
  *channels = (int32_t)count;
  return GCONV_OK;
}

/* By the extension: "recording.f32le". */
static const raw_type *type_of_path(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot ? find_type(dot + 1, strlen(dot + 1)) : NULL;
}

static gconv_status keep(gconv_source *source, gconv_signal *signal, float *numbers, size_t count, float unit) {
  for (size_t i = 0; i < count; i++) {
    if (!isfinite(numbers[i]))
      return gconv_fail(GCONV_BAD_FILE, "%s: sample %llu is %s: samples must be finite", source->name,
                        (unsigned long long)(signal->store.size / sizeof(float) + i) + 1,
                        isnan(numbers[i]) ? "NaN" : "infinite");
    numbers[i] /= unit;
  }
  return gconv_store_append(&signal->store, numbers, count * sizeof *numbers);
}

static gconv_status read_raw(gconv_source *source, const raw_type *type, gconv_signal *signal) {
  uint8_t bytes[STEP];
  float numbers[STEP];
  size_t got, left = 0;
  do {
    GCONV_TRY(gconv_source_read(source, bytes, sizeof bytes, &got));
    size_t count = got / type->element.bytes;
    left = got % type->element.bytes;
    for (size_t i = 0; i < count; i++)
      numbers[i] = gconv_element_read(type->element, bytes + i * type->element.bytes);
    GCONV_TRY(keep(source, signal, numbers, count, type->unit));
  } while (got == sizeof bytes);
  size_t samples = signal->store.size / sizeof(float);
  if (left > 0 || samples % (size_t)signal->channels != 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: its bytes are no whole number of samples %s of %d channel%s", source->name,
                      type->name, (int)signal->channels, signal->channels == 1 ? "" : "s");
  return GCONV_OK;
}

static gconv_status read_npy(gconv_source *source, gconv_signal *signal) {
  gconv_npy_header header;
  float numbers[STEP];
  GCONV_TRY(gconv_npy_header_read(source, &header));
  const gconv_element element = {header.kind, header.item_bytes, header.big_endian};
  if (header.dimensions < 1 || header.dimensions > 2 || (header.dimensions == 2 && header.fortran_order))
    return gconv_fail(GCONV_BAD_FILE, "%s: %s: a signal has one, samples, or two in C order, samples x channels",
                      source->name, header.fortran_order ? "has its dimensions in Fortran order" : "has other dimensions");
  size_t channels = header.dimensions == 2 ? header.shape[1] : 1;
  if (channels < 1 || channels > GCONV_MOST_SIGNAL_CHANNELS)
    return gconv_fail(GCONV_TOO_LARGE, "%s: has %zu channels; a signal may have 1 to %d", source->name, channels,
                      GCONV_MOST_SIGNAL_CHANNELS);
  signal->channels = (int32_t)channels;
  for (size_t done = 0; done < header.items; done += STEP) {
    size_t count = header.items - done < STEP ? header.items - done : STEP;
    GCONV_TRY(gconv_elements_read(source, element, count, "its elements", numbers));
    GCONV_TRY(keep(source, signal, numbers, count, 1));
  }
  return GCONV_OK;
}

static gconv_status read_source(gconv_source *source, const char *path, const char *syntax, gconv_signal *signal) {
  const raw_type *type = NULL;
  const uint8_t *bytes;
  size_t got;
  signal->channels = 1;
  GCONV_TRY(gconv_source_peek(source, 8, &bytes, &got));
  bool npy = gconv_npy_sniff(bytes, got);
  if (syntax) {
    GCONV_TRY(parse_syntax(syntax, &type, &signal->channels));
    npy = !type;
  } else if (!npy) {
    type = type_of_path(path);
  }
  if (!npy && !type)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: is no .npy: say with --raw what its samples are: f32le, s16le or u8", path);
  GCONV_TRY(npy ? read_npy(source, signal) : read_raw(source, type, signal));
  signal->samples = signal->store.size / sizeof(float) / (size_t)signal->channels;
  return signal->samples > 0 ? gconv_store_finish(&signal->store)
                             : gconv_fail(GCONV_BAD_FILE, "%s: has no samples", source->name);
}

gconv_status gconv_signal_read(const char *path, const char *syntax, gconv_signal *signal) {
  gconv_source source;
  gconv_status status = gconv_open_unzipped(path, &source);
  if (status == GCONV_OK)
    status = read_source(&source, path, syntax, signal);
  gconv_source_close(&source);
  return status;
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
