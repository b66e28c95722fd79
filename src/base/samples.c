/* SPDX-License-Identifier: MIT */
#include "base/samples.h"
#include "base/cpu.h"
#include "base/npy_header.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Types and opening ------------------------------------------------------------------------------------------------ */

typedef struct raw_type {
  const char *name;
  gconv_element element;
  float unit; /* samples are divided by it */
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

/* Reads a syntax such as "f32le:2". Sets *type to NULL for "npy". */
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
                      "samples cannot be read as '%s'; known are npy, and raw samples: f32le, s16le and u8, with several "
                      "channels as in f32le:2",
                      syntax);
  *channels = (int32_t)count;
  return GCONV_OK;
}

/* Returns the type by the extension, as in "recording.f32le". */
static const raw_type *type_of_path(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot ? find_type(dot + 1, strlen(dot + 1)) : NULL;
}

static gconv_status fail_cut(const gconv_samples *s) {
  return gconv_fail(GCONV_BAD_FILE, "%s: its bytes are no whole number of samples %s of %d channel%s", s->source.name,
                    s->type, (int)s->channels, s->channels == 1 ? "" : "s");
}

static gconv_status begin_raw(gconv_samples *s, const raw_type *type) {
  const size_t bytes = type->element.bytes * (size_t)s->channels;
  s->type = type->name;
  s->element = type->element;
  s->unit = type->unit;
  s->count = UINT64_MAX;
  if (s->source.size == UINT64_MAX)
    return GCONV_OK;
  s->count = (s->source.size - s->source.position) / bytes;
  return (s->source.size - s->source.position) % bytes == 0 ? GCONV_OK : fail_cut(s);
}

static gconv_status begin_npy(gconv_samples *s) {
  gconv_npy_header header;
  const char *name = s->source.name;
  GCONV_TRY(gconv_npy_header_read(&s->source, &header));
  if (header.dimensions < 1 || header.dimensions > 2 || (header.dimensions == 2 && header.fortran_order))
    return gconv_fail(GCONV_BAD_FILE, "%s: %s: a signal has one dimension, samples, or two in C order, samples x channels",
                      name, header.fortran_order ? "has its dimensions in Fortran order" : "has other dimensions");
  size_t channels = header.dimensions == 2 ? header.shape[1] : 1;
  if (channels < 1 || channels > GCONV_MOST_SIGNAL_CHANNELS)
    return gconv_fail(GCONV_TOO_LARGE, "%s: has %zu channels; a signal may have 1 to %d", name, channels,
                      GCONV_MOST_SIGNAL_CHANNELS);
  s->channels = (int32_t)channels;
  s->count = header.shape[0];
  s->element = (gconv_element){header.kind, header.item_bytes, header.big_endian};
  s->unit = 1;
  return GCONV_OK;
}

static gconv_status begin(const char *path, const char *syntax, gconv_samples *s) {
  const raw_type *type = NULL;
  const uint8_t *bytes;
  size_t got;
  s->channels = 1;
  GCONV_TRY(gconv_source_peek(&s->source, 8, &bytes, &got));
  bool npy = gconv_npy_sniff(bytes, got);
  if (syntax) {
    GCONV_TRY(parse_syntax(syntax, &type, &s->channels));
    npy = !type;
  } else if (!npy) {
    type = type_of_path(path);
  }
  if (!npy && !type)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: is no .npy: say with --raw what its samples are: f32le, s16le or u8", path);
  return npy ? begin_npy(s) : begin_raw(s, type);
}

gconv_status gconv_samples_open(const char *path, const char *syntax, gconv_samples *samples) {
  GCONV_TRY(gconv_source_open_unzipped(path, &samples->source));
  return begin(path, syntax, samples);
}

void gconv_samples_close(gconv_samples *samples) {
  gconv_source_close(&samples->source);
}

/* ---- Reading --------------------------------------------------------------------------------------------------------- */

static gconv_status check_end(const gconv_samples *s) {
  if (!s->type && s->read / (uint64_t)s->channels < s->count)
    return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early, in its elements", s->source.name);
  return s->rest_bytes == 0 && s->read % (uint64_t)s->channels == 0 ? GCONV_OK : fail_cut(s);
}

/* Reads the bytes of 1 to `most` numbers; the bytes kept of a number that was cut come first. *got counts numbers. */
static gconv_status read_bytes(gconv_samples *s, size_t most, uint8_t *bytes, size_t *got) {
  size_t have = s->rest_bytes, some = 1;
  memcpy(bytes, s->rest, have);
  while (have < s->element.bytes && some > 0) {
    GCONV_TRY(gconv_source_read_some(&s->source, bytes + have, most * s->element.bytes - have, &some));
    have += some;
  }
  *got = have / s->element.bytes;
  s->rest_bytes = have % s->element.bytes;
  memcpy(s->rest, bytes + *got * s->element.bytes, s->rest_bytes);
  return GCONV_OK;
}

/* Sets *largest to the bits of the largest number, without signs. The bits of NaN are above the bits of infinity. */
GCONV_VECTOR_LOOP(find_largest, (const float *numbers, size_t count, uint32_t *largest), (numbers, count, largest)) {
  uint32_t all = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, &numbers[i], sizeof bits);
    bits &= 0x7fffffff;
    all = bits > all ? bits : all;
  }
  *largest = all;
}

/* Returns how many numbers come before the first that is not finite. */
static size_t count_finite(const float *numbers, size_t count) {
  uint32_t largest;
  size_t first = 0;
  find_largest(numbers, count, &largest);
  if (largest < 0x7f800000)
    return count;
  while (isfinite(numbers[first]))
    first++;
  return first;
}

static gconv_status fail_not_finite(const gconv_samples *s) {
  return gconv_fail(GCONV_BAD_FILE, "%s: sample %llu is %s: samples must be finite", s->source.name,
                    (unsigned long long)s->read + 1, s->bad);
}

static gconv_status read_numbers(gconv_samples *s, size_t most, float *numbers, size_t *got) {
  enum { CHUNK_BYTES = 8192 }; /* on the stack, which may be small */
  uint8_t chunk[CHUNK_BYTES];
  const gconv_element element = s->element;
  if (element.kind == 'f' && element.bytes == sizeof(float) && element.big_endian == gconv_host_is_big_endian())
    return read_bytes(s, most, (uint8_t *)numbers, got);
  GCONV_TRY(read_bytes(s, most < CHUNK_BYTES / element.bytes ? most : CHUNK_BYTES / element.bytes, chunk, got));
  gconv_elements_convert(element, chunk, *got, numbers);
  for (size_t i = 0; i < *got && s->unit != 1; i++)
    numbers[i] /= s->unit;
  return GCONV_OK;
}

gconv_status gconv_samples_read(gconv_samples *s, size_t most, float *numbers, size_t *got) {
  *got = 0;
  if (!s->type) { /* bytes after the array are no part of it */
    uint64_t left = s->count * (uint64_t)s->channels - s->read;
    most = left < most ? (size_t)left : most;
    if (most == 0)
      return GCONV_OK;
  }
  if (s->bad)
    return fail_not_finite(s);
  size_t count;
  GCONV_TRY(read_numbers(s, most, numbers, &count));
  if (count == 0)
    return check_end(s);
  *got = count_finite(numbers, count);
  s->read += *got;
  if (*got < count)
    s->bad = isnan(numbers[*got]) ? "NaN" : "infinite";
  return *got > 0 ? GCONV_OK : fail_not_finite(s);
}
