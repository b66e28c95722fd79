/* SPDX-License-Identifier: MIT */
/*
 * Filters volumes: images whose frames are planes along z. For each term of a filter, planes are convolved one by one
 * (gconv_volume_term.plane), and then a line along z is applied to all samples of some planes at once. This second step is a
 * plain filter, too: a column of taps over an image that has a plane in each row.
 *
 * Results are made in slabs of planes. A slab has convolved planes before and behind it, as the line reaches there; those
 * that the next slab needs are kept. What lies outside the volume are planes, too: copies by the rule of the border, or the
 * response to a constant.
 */
#include "volume/volume.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "base/threads.h"
#include "kernels/pixel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The least planes of a slab. */
enum { LEAST_PLANES = 4 };

static const size_t SLAB_BYTES = (size_t)32 << 20;

/* What executes a term. */
typedef struct stage {
  const gconv_volume_term *term;
  gconv_plan *plane, *line; /* line is NULL if the line has one tap that is not 0 */
  int32_t tap;              /* this tap */
  gconv_image convolved;    /* owned: planes for a slab, f32; of a stage without a line, one */
  int32_t have, end;        /* convolved planes along z: the first one, by its place, and one past the last; equal: none */
} stage;

struct gconv_volume {
  gconv_device *device;
  gconv_volume_kernel filter;
  gconv_volume_options options;
  gconv_image like, output;
  int32_t step; /* planes of a slab */
  int32_t next; /* the plane of the result after those of the last call; 0: none was */
  stage *stages;
  size_t stage_count;
  gconv_image sum, other, combined; /* owned: f32 planes of a slab */
};

/* ---- Making ----------------------------------------------------------------------------------------------------------- */

static gconv_status check(const gconv_image *like, const gconv_volume_options *options) {
  const gconv_options *plain = &options->plain;
  if (like->alpha || like->channels > 4 || like->planar)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a volume has planes of 1 to 4 channels, side by side, and no alpha");
  if (plain->border == GCONV_BORDER_NORMALIZE || plain->nan != GCONV_NAN_KEEP || plain->weights || plain->sets_nodata ||
      plain->preserves)
    return gconv_fail(GCONV_UNSUPPORTED, "missing samples and weights are not made of volumes");
  if (plain->gray || plain->linear || plain->mix || plain->padding != GCONV_PADDING_SAME ||
      plain->range > GCONV_RANGE_SIGNED || plain->dilation_y > 1 || plain->dilation_x > 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "volumes are filtered as they are stored, with padding same and the ranges clamp, "
                                          "abs and signed");
  return gconv_check_value("stride (along z)", options->stride_z, 1, 1 << 30);
}

/* Makes a plan of one filter for images like `like`, whose responses are f32 in levels of the input. */
static gconv_status make_plan(const gconv_volume *v, const gconv_image *like, const gconv_filter *filter, bool of_line,
                              gconv_plan **plan) {
  gconv_options options = v->options.plain;
  gconv_operation *operation = NULL;
  options.flip = false; /* the taps are turned already */
  options.combine = GCONV_COMBINE_NONE;
  options.sets_type = true;
  options.output_type = GCONV_F32;
  options.format = NULL;
  options.scale = (double)gconv_white(like->type);
  options.offset = 0;
  options.range = GCONV_RANGE_CLAMP;
  if (of_line) { /* the planes outside are there */
    options.border = GCONV_BORDER_ZERO;
    options.padding = GCONV_PADDING_VALID;
    options.stride_y = v->options.stride_z;
    options.stride_x = 1;
  }
  const gconv_filters filters = {.items = (gconv_filter *)filter, .count = 1};
  gconv_status status = gconv_operation_filters(&filters, &options, &operation);
  if (status == GCONV_OK)
    status = gconv_plan_create(v->device, like, operation, 0, plan);
  gconv_operation_free(operation);
  return status;
}

/* Returns the convolved planes that `count` planes of the result are made of. */
static int64_t planes_for(const gconv_volume *v, const gconv_volume_term *term, int64_t count) {
  return (count - 1) * v->options.stride_z + term->count;
}

static gconv_image planes_like(const gconv_image *plane, int64_t count) {
  return (gconv_image){.type = GCONV_F32,
                       .frames = (int32_t)count,
                       .height = plane->height,
                       .width = plane->width,
                       .channels = plane->channels};
}

/* Returns planes of an image as rows of one. */
static gconv_image as_rows(const gconv_image *planes) {
  return (gconv_image){.type = GCONV_F32,
                       .frames = 1,
                       .height = planes->frames,
                       .width = (int32_t)((int64_t)planes->height * planes->width * planes->channels),
                       .channels = 1,
                       .row_bytes = planes->plane_bytes,
                       .plane_bytes = planes->plane_bytes * (size_t)planes->frames,
                       .data = planes->data};
}

static gconv_status make_stage(gconv_volume *v, const gconv_volume_term *term, stage *s) {
  gconv_image plane = v->like;
  int32_t taps = 0;
  plane.frames = 1;
  s->term = term;
  for (int32_t k = 0; k < term->count; k++)
    if (term->line[k] != 0) {
      s->tap = k;
      taps++;
    }
  GCONV_TRY(make_plan(v, &plane, &term->plane, false, &s->plane));
  const gconv_image *made = gconv_plan_output_header(s->plane, 0);
  if ((int64_t)made->height * made->width * made->channels > 1 << 30)
    return gconv_fail(GCONV_TOO_LARGE, "planes of %d x %d pixels are more than a volume may have", made->width,
                      made->height);
  if (v->step == 0) {
    double bytes = (double)made->height * made->width * made->channels * sizeof(float);
    double planes = fmax((double)v->options.slab_bytes / bytes, LEAST_PLANES);
    v->output = planes_like(made, (v->like.frames - 1) / v->options.stride_z + 1);
    v->step = planes < v->output.frames ? (int32_t)planes : v->output.frames;
  }
  s->convolved = planes_like(made, taps > 1 ? planes_for(v, term, v->step) : 1);
  GCONV_TRY(gconv_image_allocate(&s->convolved));
  if (taps <= 1)
    return GCONV_OK;
  const gconv_image rows = as_rows(&s->convolved);
  const gconv_filter line = {.name = term->plane.name, .rows = term->count, .columns = 1, .divisor = 1, .taps = term->line};
  return make_plan(v, &rows, &line, true, &s->line);
}

static gconv_status make_stages(gconv_volume *v) {
  for (size_t k = 0; k < v->filter.count; k++)
    v->stage_count += v->filter.of[k].count;
  GCONV_NEW(v->stages, v->stage_count, "no memory for a volume");
  size_t at = 0;
  for (size_t k = 0; k < v->filter.count; k++)
    for (size_t j = 0; j < v->filter.of[k].count; j++)
      GCONV_TRY(make_stage(v, &v->filter.of[k].terms[j], &v->stages[at++]));
  gconv_image *const slabs[] = {&v->sum, &v->other, &v->combined};
  for (size_t i = 0; i < 3; i++) {
    *slabs[i] = planes_like(&v->output, v->step);
    if (i == 0 || (i == 1 && v->stage_count > v->filter.count) || (i == 2 && v->filter.count > 1))
      GCONV_TRY(gconv_image_allocate(slabs[i]));
  }
  return GCONV_OK;
}

gconv_status gconv_volume_create(gconv_device *device, const gconv_image *like, const char *spec,
                                 const gconv_volume_options *options, gconv_volume **volume) {
  gconv_volume *v;
  gconv_volume_options filled = *options;
  filled.stride_z += filled.stride_z == 0;
  filled.slab_bytes += filled.slab_bytes == 0 ? SLAB_BYTES : 0;
  if (filled.plain.scale == 0)
    filled.plain.scale = 1;
  GCONV_TRY(check(like, &filled));
  if (strcmp(gconv_device_get_info(device)->name, "cpu") != 0)
    return gconv_fail(GCONV_UNSUPPORTED, "volumes are filtered on the CPU alone: their steps on a GPU are not tested yet");
  GCONV_NEW(v, 1, "no memory for a volume");
  v->device = device;
  v->options = filled;
  v->like = (gconv_image){
      .type = like->type, .frames = like->frames, .height = like->height, .width = like->width, .channels = like->channels};
  gconv_status status = gconv_volume_filter_read(spec, filled.spacing, &v->filter);
  if (status == GCONV_OK && filled.plain.flip)
    gconv_volume_filter_flip(&v->filter);
  if (status == GCONV_OK)
    status = make_stages(v);
  if (status != GCONV_OK) {
    gconv_volume_free(v);
    return status;
  }
  v->output.type = filled.plain.sets_type ? filled.plain.output_type : like->type;
  if (filled.plain.format)
    v->output.type = gconv_format_type(filled.plain.format, v->output.type);
  if (v->output.type > GCONV_F32) {
    gconv_volume_free(v);
    return gconv_fail(GCONV_UNSUPPORTED, "results of volumes are u8, u16 or f32");
  }
  *volume = v;
  return GCONV_OK;
}

void gconv_volume_free(gconv_volume *v) {
  if (!v)
    return;
  for (size_t i = 0; i < v->stage_count && v->stages; i++) {
    gconv_plan_free(v->stages[i].plane);
    gconv_plan_free(v->stages[i].line);
    gconv_image_free(&v->stages[i].convolved);
  }
  free(v->stages);
  gconv_image_free(&v->sum);
  gconv_image_free(&v->other);
  gconv_image_free(&v->combined);
  gconv_volume_filter_free(&v->filter);
  free(v);
}

const gconv_image *gconv_volume_output(const gconv_volume *v) {
  return v ? &v->output : NULL;
}

int32_t gconv_volume_step(const gconv_volume *v, double *bytes) {
  double planes = 3.0 * v->step;
  for (size_t i = 0; i < v->stage_count; i++)
    planes += v->stages[i].convolved.frames;
  if (bytes)
    *bytes = planes * v->output.height * v->output.width * v->output.channels * sizeof(float);
  return v->step;
}

void gconv_volume_planes_needed(const gconv_volume *v, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  *begin = v->like.frames;
  *end = 0;
  for (size_t i = 0; i < v->stage_count; i++) {
    const gconv_volume_term *term = v->stages[i].term;
    const int64_t from = (int64_t)first * v->options.stride_z - term->anchor;
    for (int64_t z = from; z < from + planes_for(v, term, count); z++) {
      const int64_t at = gconv_border_index(v->options.plain.border, z, v->like.frames);
      if (at == GCONV_OUTSIDE)
        continue;
      *begin = at < *begin ? (int32_t)at : *begin;
      *end = at >= *end ? (int32_t)at + 1 : *end;
    }
  }
  if (*begin >= *end)
    *begin = 0, *end = 1;
}

/* ---- Executing -------------------------------------------------------------------------------------------------------- */

static gconv_image plane_of(const gconv_image *planes, int32_t at) {
  gconv_image plane = *planes;
  plane.frames = 1;
  plane.data = (uint8_t *)planes->data + (size_t)at * planes->plane_bytes;
  return plane;
}

/* Fills a plane with the response to planes outside the volume, which are constant. */
static void fill_outside(const gconv_volume *v, const stage *s, const gconv_image *plane) {
  const gconv_filter *filter = &s->term->plane;
  const size_t samples = (size_t)plane->height * (size_t)plane->width * (size_t)plane->channels;
  double sum = 0;
  for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++)
    sum += (double)filter->taps[i] / (double)filter->divisor;
  const double outside = v->options.plain.border == GCONV_BORDER_CONSTANT ? v->options.plain.border_value : 0;
  const float value = (float)(outside * (double)gconv_white(v->like.type) * sum);
  for (size_t i = 0; i < samples; i++)
    ((float *)plane->data)[i] = value;
}

/* The input of an execution. */
typedef struct input {
  const gconv_image *planes;
  int32_t first; /* where along z they begin */
} input;

/* Convolves the plane at place z, which may lie outside the volume. */
static gconv_status convolve_plane(const gconv_volume *v, const stage *s, const input *in, int64_t z, gconv_image *to) {
  const int64_t at = gconv_border_index(v->options.plain.border, z, v->like.frames);
  if (at == GCONV_OUTSIDE) {
    fill_outside(v, s, to);
    return GCONV_OK;
  }
  const gconv_image from = plane_of(in->planes, (int32_t)at - in->first);
  return gconv_plan_execute(s->plane, &from, to, 1, NULL);
}

/* Makes the convolved planes from place `from` on. Those that are there already move to the front. */
static gconv_status convolve_planes(const gconv_volume *v, stage *s, const input *in, int32_t from, int32_t count) {
  int32_t kept = s->end > from && s->have <= from ? s->end - from : 0;
  kept = kept < count ? kept : count;
  uint8_t *data = s->convolved.data;
  if (kept > 0)
    memmove(data, data + (size_t)(from - s->have) * s->convolved.plane_bytes, (size_t)kept * s->convolved.plane_bytes);
  s->have = s->end = from;
  for (int32_t i = kept; i < count; i++) {
    gconv_image to = plane_of(&s->convolved, i);
    GCONV_TRY(convolve_plane(v, s, in, (int64_t)from + i, &to));
  }
  s->end = from + count;
  return GCONV_OK;
}

/* Sums of rows of planes, by all threads. */
typedef struct adding {
  const float *from;
  float *to;
  size_t samples; /* of a row */
  float factor;
  bool adds; /* else the product is stored */
} adding;

static void add_row(void *context, size_t turn, int seat) {
  const adding *a = context;
  const float *from = a->from + turn * a->samples;
  float *to = a->to + turn * a->samples;
  (void)seat;
  for (size_t i = 0; i < a->samples; i++)
    to[i] = fmaf(a->factor, from[i], a->adds ? to[i] : 0.0F);
}

static void add_planes(const gconv_volume *v, const gconv_image *from, const gconv_image *to, int32_t count, float factor,
                       bool adds) {
  adding a = {from->data, to->data, (size_t)to->width * (size_t)to->channels, factor, adds};
  gconv_threads_run(gconv_device_threads(v->device), (size_t)count * (size_t)to->height, add_row, &a);
}

/* Makes `count` planes of a term, and adds them to v->sum, or stores them there. */
static gconv_status execute_stage(gconv_volume *v, stage *s, const input *in, int32_t first, int32_t count, bool adds) {
  const int64_t place = (int64_t)first * v->options.stride_z - s->term->anchor;
  for (int32_t i = 0; i < count && !s->line; i++) {
    gconv_image to = plane_of(&v->sum, i);
    GCONV_TRY(convolve_plane(v, s, in, place + (int64_t)i * v->options.stride_z + s->tap, &s->convolved));
    add_planes(v, &s->convolved, &to, 1, s->term->line[s->tap], adds);
  }
  if (!s->line)
    return GCONV_OK;
  GCONV_TRY(convolve_planes(v, s, in, (int32_t)place, (int32_t)planes_for(v, s->term, count)));
  const gconv_image rows = as_rows(&s->convolved);
  gconv_image sums = as_rows(adds ? &v->other : &v->sum);
  GCONV_TRY(gconv_plan_execute(s->line, &rows, &sums, 1, NULL)); /* of the last slab, some planes are left over */
  if (adds)
    add_planes(v, &v->other, &v->sum, count, 1, true);
  return GCONV_OK;
}

/* ---- Samples of results ----------------------------------------------------------------------------------------------- */

typedef struct finishing {
  const gconv_volume *volume;
  const float *sums, *squares; /* squares: of the filters before, or NULL */
  float *to_squares;           /* NULL: samples are stored */
  const gconv_image *out;
  double scale, offset;
} finishing;

static void finish_row(void *context, size_t turn, int seat) {
  const finishing *f = context;
  const gconv_image *out = f->out;
  const size_t samples = (size_t)f->volume->output.width * (size_t)f->volume->output.channels;
  const float *sums = f->sums + turn * samples, *squares = f->squares ? f->squares + turn * samples : NULL;
  const size_t height = (size_t)f->volume->output.height;
  const gconv_range range = f->volume->options.plain.range;
  void *row =
      f->to_squares ? NULL : (uint8_t *)out->data + turn / height * out->plane_bytes + turn % height * out->row_bytes;
  const float scale = (float)f->scale, offset = (float)f->offset, white = gconv_white(f->volume->output.type);
  (void)seat;
  for (size_t i = 0; i < samples; i++) {
    float y = sums[i];
    if (f->to_squares || squares)
      y = fmaf(y, y, squares ? squares[i] : 0.0F);
    if (f->to_squares) {
      f->to_squares[turn * samples + i] = y;
      continue;
    }
    y = fmaf(squares ? sqrtf(y) : y, scale, offset);
    y = range == GCONV_RANGE_ABS ? fabsf(y) : range == GCONV_RANGE_SIGNED ? fmaf(y, 0.5F, white / 2) : y;
    if (out->type == GCONV_F32)
      ((float *)row)[i] = y;
    else if (out->type == GCONV_U8)
      ((uint8_t *)row)[i] = (uint8_t)gconv_to_level(y, white);
    else
      ((uint16_t *)row)[i] = (uint16_t)gconv_to_level(y, white);
  }
}

static void finish(gconv_volume *v, size_t filter, int32_t count, const gconv_image *out) {
  const bool last = filter + 1 == v->filter.count;
  const double white = (double)gconv_white(v->output.type);
  finishing f = {.volume = v,
                 .sums = v->sum.data,
                 .squares = filter > 0 ? v->combined.data : NULL,
                 .to_squares = last ? NULL : v->combined.data,
                 .out = out,
                 .scale = v->options.plain.scale / (double)gconv_white(v->like.type) * white,
                 .offset = v->options.plain.offset * white};
  gconv_threads_run(gconv_device_threads(v->device), (size_t)count * (size_t)v->output.height, finish_row, &f);
}

static gconv_status execute_slab(gconv_volume *v, const input *in, int32_t first, const gconv_image *out) {
  size_t at = 0;
  for (size_t k = 0; k < v->filter.count; k++) {
    for (size_t j = 0; j < v->filter.of[k].count; j++)
      GCONV_TRY(execute_stage(v, &v->stages[at++], in, first, out->frames, j > 0));
    finish(v, k, out->frames, out);
  }
  return GCONV_OK;
}

gconv_status gconv_volume_execute(gconv_volume *v, const gconv_image *in, int32_t in_plane, int32_t first,
                                  gconv_image *out) {
  int32_t begin, end;
  if (first < 0 || out->frames < 1 || first > v->output.frames - out->frames || out->type != v->output.type ||
      out->height != v->output.height || out->width != v->output.width || out->channels != v->output.channels ||
      out->planar || !out->data)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the output has no planes of the result");
  gconv_volume_planes_needed(v, first, out->frames, &begin, &end);
  if (in->type != v->like.type || in->height != v->like.height || in->width != v->like.width ||
      in->channels != v->like.channels || in->planar || !in->data || in_plane > begin || end - in_plane > in->frames)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the input has not the planes %d to %d of the volume", begin, end - 1);
  for (size_t i = 0; i < v->stage_count && (first == 0 || first != v->next); i++)
    v->stages[i].have = v->stages[i].end = 0; /* convolved planes of another volume */
  v->next = first;
  for (int32_t at = 0; at < out->frames; at += v->step) {
    gconv_image slab = plane_of(out, at);
    slab.frames = out->frames - at < v->step ? out->frames - at : v->step;
    GCONV_TRY(execute_slab(v, &(input){in, in_plane}, first + at, &slab));
  }
  v->next = first + out->frames;
  return GCONV_OK;
}

gconv_status gconv_volume_filter(gconv_device *device, const gconv_image *image, const char *spec,
                                 const gconv_volume_options *options, gconv_image *result) {
  GCONV_NEED(device, spec, options, result);
  GCONV_NEED_AS(image, "image");
  GCONV_TRY(gconv_check_source(image, "the volume"));
  GCONV_TRY(gconv_check_pixels(image, "the volume"));
  gconv_volume *volume = NULL;
  const bool is_new = !result->data;
  GCONV_TRY(gconv_volume_create(device, image, spec, options, &volume));
  gconv_status status = GCONV_OK;
  if (is_new) {
    *result = volume->output;
    status = gconv_image_allocate(result);
  }
  GCONV_THEN(status, gconv_volume_execute(volume, image, 0, 0, result));
  if (status != GCONV_OK && is_new)
    gconv_image_free(result);
  gconv_volume_free(volume);
  return status;
}
