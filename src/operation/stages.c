/* SPDX-License-Identifier: MIT */
#include "operation/stages.h"
#include "base/control.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "image/colour.h"
#include "image/layout.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>

enum { STRIP = 32 }; /* rows of a turn */

static int colours_of(const gconv_image *image) {
  return image->channels - (image->alpha ? 1 : 0);
}

static bool greys(const gconv_image *like, const gconv_options *options) {
  return options->gray && colours_of(like) > 1;
}

static bool premultiplies(const gconv_image *like, const gconv_options *options) {
  return options->alpha == GCONV_ALPHA_PREMULTIPLY && like->alpha && !like->planar;
}

static bool drops(const gconv_image *like, const gconv_options *options) {
  return options->alpha == GCONV_ALPHA_DROP && like->alpha && !like->planar;
}

/* Returns whether the grey of integer samples stays unrounded: results in float show values between levels. */
static bool greys_to_float(const gconv_image *like, const gconv_options *options) {
  return greys(like, options) && like->type != GCONV_F32 && options->sets_type && options->output_type == GCONV_F32 &&
         !options->round_gray;
}

bool gconv_needs_before(const gconv_image *like, const gconv_options *options) {
  return greys(like, options) || drops(like, options) || options->linear || options->mix || premultiplies(like, options);
}

bool gconv_needs_after(const gconv_image *like, const gconv_options *options) {
  return options->linear || premultiplies(like, options) || options->range == GCONV_RANGE_MINMAX;
}

gconv_status gconv_before_header(const gconv_image *like, const gconv_options *options, gconv_image *header) {
  if (greys(like, options) && (like->planar || colours_of(like) != 3))
    return gconv_fail(GCONV_BAD_ARGUMENT, "gray needs pixels of red, green and blue; this image has %s%d channels",
                      like->planar ? "planes of " : "", like->channels);
  bool becomes_float = options->linear || premultiplies(like, options) || greys_to_float(like, options);
  const int32_t channels = like->channels - (greys(like, options) ? 2 : 0) - (drops(like, options) ? 1 : 0);
  *header = gconv_header_with(like, becomes_float ? GCONV_F32 : like->type, channels, like->planar);
  header->alpha = like->alpha && !drops(like, options);
  return GCONV_OK;
}

gconv_options gconv_core_options(const gconv_image *like, const gconv_options *options) {
  gconv_options core = *options;
  if (!options->sets_type) {
    core.sets_type = true;
    core.output_type = like->type;
  }
  if (gconv_needs_after(like, options)) {
    core.output_type = GCONV_F32;
    core.scale = 1;
    core.offset = 0;
    core.range = GCONV_RANGE_CLAMP;
  }
  if (premultiplies(like, options))
    core.alpha = GCONV_ALPHA_FILTER;
  if (options->linear) { /* border_value is a stored sample: it becomes linear, like the image */
    float stored = (float)options->border_value, light = 0;
    gconv_colour_linear_row(GCONV_F32, 1, false, &stored, &light, 1);
    core.border_value = (double)light;
  }
  return core;
}

/* ---- Rows of an image, spread over threads ---- */

static size_t strips_of(const gconv_image *image) {
  return ((size_t)image->height + STRIP - 1) / STRIP;
}

/* The plane and the rows of a turn. */
typedef struct row_strip {
  size_t plane;
  int64_t first, end;
} row_strip;

static row_strip strip_of(const gconv_image *image, size_t turn) {
  size_t strips = strips_of(image);
  row_strip strip = {.plane = turn / strips, .first = (int64_t)(turn % strips) * STRIP};
  strip.end = strip.first + STRIP < image->height ? strip.first + STRIP : image->height;
  return strip;
}

/* ---- Before ---- */

typedef struct before_job {
  const gconv_options *options;
  const gconv_image *in;
  gconv_image *out;
  float *rows; /* two rows of `in` in f32 for each thread */
  size_t row_floats;
} before_job;

/* Converts a row to linear light, and to grey if asked for. */
static void linear_row(const before_job *before, const gconv_image *image, const void *in, float *out, float *row) {
  int channels = image->planar ? 1 : image->channels;
  size_t pixels = (size_t)image->width;
  if (!greys(image, before->options)) {
    gconv_colour_linear_row(image->type, channels, image->alpha, in, out, pixels);
    return;
  }
  gconv_colour_linear_row(image->type, channels, image->alpha, in, row, pixels);
  gconv_colour_luminance_row(channels, image->alpha, row, out, pixels);
}

/* Converts a row of stored samples to f32, and to grey if asked for. */
static void encoded_row(const before_job *before, const gconv_image *image, const void *in, float *out, float *row) {
  size_t samples = (size_t)before->out->width * (size_t)before->out->channels;
  if (greys_to_float(image, before->options)) {
    gconv_colour_grey_to_float_row(image->type, image->channels, image->alpha, in, out, (size_t)image->width);
    return;
  }
  if (greys(image, before->options)) {
    gconv_colour_grey_row(image->type, image->channels, image->alpha, in, row, (size_t)image->width);
    in = row;
  }
  gconv_colour_to_float_row(image->type, in, out, samples);
}

/* Converts a row `in` of an image like `image` as the options say. before_strip() has dropped alpha. */
static void before_row(const before_job *before, const gconv_image *image, const void *in, void *out, float *row) {
  const gconv_options *options = before->options;
  if (options->linear)
    linear_row(before, image, in, out, row);
  else if (premultiplies(image, options) || greys_to_float(image, options))
    encoded_row(before, image, in, out, row);
  else
    gconv_colour_grey_row(image->type, image->channels, image->alpha, in, out, (size_t)image->width);
  if (premultiplies(image, options))
    gconv_colour_premultiply_row(before->out->channels, out, (size_t)image->width);
}

/* Mixes channels. No other step is combined with mixing. */
static void mix_strip(const before_job *before, row_strip strip) {
  const gconv_image *in = before->in, *out = before->out;
  const gconv_colour_rows rows = {.type = in->type,
                                  .channels = in->channels,
                                  .pixels = (size_t)in->width,
                                  .rows = (size_t)(strip.end - strip.first),
                                  .in = gconv_row_at(in, strip.plane, strip.first),
                                  .out = gconv_row_at(out, strip.plane, strip.first),
                                  .in_bytes = in->row_bytes,
                                  .out_bytes = out->row_bytes};
  gconv_colour_mix_rows(&rows, before->options->mixing, before->options->range == GCONV_RANGE_WRAP);
}

static void before_strip(void *context, size_t turn, int thread) {
  const before_job *before = context;
  const gconv_image *in = before->in;
  if (before->options->mix) {
    mix_strip(before, strip_of(in, turn));
    return;
  }
  gconv_image bare = *in;
  bool dropped = drops(in, before->options), more = before->options->linear || greys(in, before->options);
  bare.channels -= dropped ? 1 : 0;
  bare.alpha = in->alpha && !dropped;
  row_strip strip = strip_of(in, turn);
  for (int64_t y = strip.first; y < strip.end; y++) {
    const void *from = gconv_row_at(in, strip.plane, y);
    void *to = gconv_row_at(before->out, strip.plane, y);
    float *row = before->rows + (size_t)thread * 2 * before->row_floats, *without = row + before->row_floats;
    if (dropped)
      gconv_colour_drop_alpha_row(in->type, in->channels, from, more ? without : to, (size_t)in->width);
    if (more || !dropped)
      before_row(before, &bare, dropped ? without : from, to, row);
  }
}

gconv_status gconv_run_before(gconv_threads *threads, const gconv_options *options, const gconv_image *header,
                              const gconv_image *in, gconv_image *out) {
  before_job before = {.options = options, .in = in, .out = out};
  before.row_floats = gconv_samples_of(in);
  GCONV_FREED float *rows = NULL;
  *out = *header;
  out->height = in->height;
  GCONV_ALLOCATE(rows, 2 * before.row_floats * sizeof *rows * (size_t)gconv_threads_count(threads), "rows of pixels");
  GCONV_TRY(gconv_image_allocate(out));
  before.rows = rows;
  gconv_threads_run_or_stop(threads, gconv_planes_of(in) * strips_of(in), before_strip, &before);
  return gconv_control_check();
}

/* ---- After ---- */

typedef struct after_job {
  const gconv_options *options;
  gconv_image *raw, *out;
  int channels, colours;   /* samples of a pixel of `raw`; how many of them are colours */
  float (*limits)[2];      /* smallest and largest finite colour of each turn */
  atomic_llong not_finite; /* how many colours are NaN or infinite, if limits are needed */
  float low, high;         /* the range of the current frame */
  size_t first_plane;      /* first plane of the current frame */
} after_job;

GCONV_VECTOR_LOOP(scale_all, (float *row, size_t samples, float scale, float offset, bool absolute),
                  (row, samples, scale, offset, absolute)) {
  for (size_t i = 0; i < samples; i++) {
    float v = fmaf(row[i], scale, offset);
    row[i] = absolute ? fabsf(v) : v;
  }
}

/* Scales pixels whose alpha was filtered. Alpha is scaled like colours, but has no absolute value taken. */
static void scale_filtered_alpha(const after_job *after, float *row, size_t pixels) {
  float scale = (float)after->options->scale, offset = (float)after->options->offset;
  int last = after->channels - 1;
  for (size_t i = 0; i < pixels * (size_t)after->channels; i++) {
    float v = fmaf(row[i], scale, offset);
    bool colour = (int)(i % (size_t)after->channels) != last;
    row[i] = colour && after->options->range == GCONV_RANGE_ABS ? fabsf(v) : v;
  }
}

static void scale_row(const after_job *after, float *row, size_t pixels) {
  float scale = (float)after->options->scale, offset = (float)after->options->offset;
  bool filtered_alpha = after->raw->alpha && !after->raw->planar && after->colours == after->channels;
  if (filtered_alpha) {
    scale_filtered_alpha(after, row, pixels);
    return;
  }
  if (after->colours == after->channels) {
    scale_all(row, pixels * (size_t)after->channels, scale, offset, after->options->range == GCONV_RANGE_ABS);
    return;
  }
  for (size_t i = 0; i < pixels; i++)
    for (int c = 0; c < after->colours; c++) {
      float v = fmaf(row[i * (size_t)after->channels + (size_t)c], scale, offset);
      row[i * (size_t)after->channels + (size_t)c] = after->options->range == GCONV_RANGE_ABS ? fabsf(v) : v;
    }
}

/* Extends limits[0] .. limits[1] to the finite colours of a row. Returns how many are not finite. */
static long long measure_row(const after_job *after, const float *row, size_t pixels, float *limits) {
  int colours = after->raw->planar ? 1 : colours_of(after->raw);
  long long not_finite = 0;
  for (size_t i = 0; i < pixels; i++)
    for (int c = 0; c < colours; c++) {
      float v = row[i * (size_t)after->channels + (size_t)c];
      bool finite = fabsf(v) <= FLT_MAX; /* false for NaN */
      limits[0] = finite && v < limits[0] ? v : limits[0];
      limits[1] = finite && v > limits[1] ? v : limits[1];
      not_finite += !finite;
    }
  return not_finite;
}

/* Does all steps before the range, in place. */
static void colour_strip(void *context, size_t turn, int thread) {
  after_job *after = context;
  const gconv_image *raw = after->raw;
  row_strip strip = strip_of(raw, turn);
  size_t pixels = (size_t)raw->width;
  after->limits[turn][0] = INFINITY;
  after->limits[turn][1] = -INFINITY;
  long long not_finite = 0;
  for (int64_t y = strip.first; y < strip.end; y++) {
    float *row = gconv_row_at(raw, strip.plane, y);
    if (raw->alpha && after->options->alpha == GCONV_ALPHA_PREMULTIPLY)
      gconv_colour_unpremultiply_row(after->channels, row, pixels);
    scale_row(after, row, pixels);
    if (after->options->linear)
      gconv_colour_srgb_row(after->channels, raw->alpha, row, row, pixels);
    if (after->options->range == GCONV_RANGE_MINMAX)
      not_finite += measure_row(after, row, pixels, after->limits[turn]);
  }
  if (not_finite > 0)
    atomic_fetch_add(&after->not_finite, not_finite);
}

/* Maps colours to [0, 1] by the range minmax or signed. */
static void range_row(const after_job *after, float *row, size_t pixels) {
  int colours = after->raw->planar ? 1 : colours_of(after->raw);
  float low = after->low, span = after->high - after->low;
  for (size_t i = 0; i < pixels; i++)
    for (int c = 0; c < colours; c++) {
      float *v = &row[i * (size_t)after->channels + (size_t)c];
      if (after->options->range == GCONV_RANGE_MINMAX)
        *v = span > 0 ? (*v - low) / span : 0.0f;
      else
        *v = fmaf(*v, 0.5f, 0.5f);
    }
}

static void store_strip(void *context, size_t turn, int thread) {
  const after_job *after = context;
  const gconv_image *raw = after->raw, *out = after->out;
  row_strip strip = strip_of(raw, turn);
  strip.plane += after->first_plane;
  bool ranged = after->options->range == GCONV_RANGE_MINMAX || after->options->range == GCONV_RANGE_SIGNED;
  for (int64_t y = strip.first; y < strip.end; y++) {
    float *row = gconv_row_at(raw, strip.plane, y);
    if (ranged)
      range_row(after, row, (size_t)raw->width);
    gconv_colour_from_float_row(out->type, row, gconv_row_at(out, strip.plane, y),
                                (size_t)raw->width * (size_t)after->channels);
  }
}

gconv_status gconv_run_after(gconv_threads *threads, const gconv_options *options, gconv_image *raw, gconv_image *out) {
  after_job after = {.options = options, .raw = raw, .out = out, .channels = raw->planar ? 1 : raw->channels};
  bool keeps_alpha = raw->alpha && !raw->planar && options->alpha != GCONV_ALPHA_FILTER;
  after.colours = after.channels - (keeps_alpha ? 1 : 0);
  size_t turns = gconv_planes_of(raw) * strips_of(raw), per_frame = turns / (size_t)raw->frames;
  GCONV_FREED void *limits = NULL;
  GCONV_ALLOCATE(limits, gconv_checked_product(2, (size_t[]){turns, sizeof *after.limits}), "a reduction");
  after.limits = limits;
  gconv_threads_run_or_stop(threads, turns, colour_strip, &after);
  GCONV_TRY(gconv_control_check());
  const long long not_finite = after.not_finite;
  if (not_finite > 0)
    gconv_warn_once("not finite",
                    "%lld sample%s of the result %s NaN or infinite: the range minmax follows from the other samples",
                    not_finite, not_finite == 1 ? "" : "s", not_finite == 1 ? "is" : "are");
  for (size_t frame = 0; frame < (size_t)raw->frames; frame++) {
    after.low = INFINITY;
    after.high = -INFINITY;
    for (size_t turn = frame * per_frame; turn < (frame + 1) * per_frame; turn++) {
      after.low = fminf(after.low, after.limits[turn][0]);
      after.high = fmaxf(after.high, after.limits[turn][1]);
    }
    after.first_plane = frame * (gconv_planes_of(raw) / (size_t)raw->frames);
    gconv_threads_run_or_stop(threads, per_frame, store_strip, &after);
  }
  return gconv_control_check();
}
