/* SPDX-License-Identifier: MIT */
/*
 * Filters volumes: images whose frames are planes along z. For each term of a filter, planes are convolved one by one
 * (gconv_volume_term.plane), and then a line along z is applied to all samples of some planes at once. This second step is a
 * plain filter, too: a column of taps over an image that has a plane in each row.
 *
 * Results are made in slabs of planes. A slab also needs the convolved planes before and after it that the line reaches.
 * Those that the next slab needs are kept. Outside of the volume there are planes, too: copies by the rule of the border, or
 * the response to a constant.
 *
 * On a GPU, plans are executed in its memory, many planes at a time, and slab_cuda.cu has the loops between them. The steps
 * are the same as on the CPU, and so are the bits, if the algorithm is of the exact family.
 */
#include "volume/volume.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "conv/plan.h"
#include "image/layout.h"
#include "volume/slab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_PLANES = 4 /* of a slab */, MOST_BATCH = 32 /* planes that a GPU convolves at a time */ };

static const size_t SLAB_BYTES = (size_t)32 << 20, GPU_SLAB_BYTES = (size_t)1 << 30;

/* What executes a term. */
typedef struct stage {
  const gconv_volume_term *term;
  gconv_plan *plane, *line; /* line is NULL if the line has only one tap that is not 0 */
  gconv_plan *batch;        /* convolves v->batch planes; NULL: `plane` convolves all, one by one */
  int32_t tap;              /* without a line: the place of the tap that is not 0 */
  gconv_image convolved;    /* owned, f32: planes for a slab; without a line: v->batch planes */
  int32_t have, end;        /* `convolved` has the planes have .. end - 1 along z; equal: none */
} stage;

struct gconv_volume {
  gconv_device *device;
  const gconv_slab_type *slab; /* the device's loops between the plans */
  gconv_volume_kernel filter;
  gconv_volume_options options;
  gconv_image like, output;
  int32_t step; /* planes of a slab */
  int32_t next; /* the plane of the result after those of the last call; 0: none was */
  stage *stages;
  size_t stage_count;
  int32_t batch;                    /* planes that a plan convolves at a time */
  bool ends;                        /* there is one stage, whose line makes samples of the result */
  gconv_image sum, other, combined; /* owned: f32 planes of a slab */
  gconv_image window, made;         /* owned: planes of the input on a GPU; planes of the result before they are copied */
};

/* ---- Making ----------------------------------------------------------------------------------------------------------- */

static gconv_status check(const gconv_image *like, const gconv_volume_options *options) {
  const gconv_options *plain = &options->plain;
  if (like->alpha || like->channels > 4 || like->planar)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a volume has planes of 1 to 4 channels, side by side, and no alpha");
  if (plain->gray || plain->linear || plain->mix || plain->padding != GCONV_PADDING_SAME ||
      plain->range > GCONV_RANGE_SIGNED || plain->dilation_y > 1 || plain->dilation_x > 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "volumes are filtered as they are stored, with padding same and the ranges clamp, "
                                          "abs and signed");
  return gconv_check_value("stride (along z)", options->stride_z, 1, 1 << 30);
}

/* Makes a plan of one filter for images like `like`. Responses are f32 in levels of the input, or samples of the result. */
static gconv_status make_plan(const gconv_volume *v, const gconv_image *like, const gconv_filter *filter, bool of_line,
                              gconv_plan **plan) {
  gconv_options options = v->options.plain;
  gconv_operation *operation = NULL;
  options.flip = false; /* the taps have been reversed */
  options.combine = GCONV_COMBINE_NONE;
  options.format = NULL;
  options.sets_type = true;
  options.output_type = GCONV_F32;
  if (of_line) { /* the rows include planes outside of the volume */
    options.border = GCONV_BORDER_ZERO;
    options.padding = GCONV_PADDING_VALID;
    options.stride_y = v->options.stride_z;
    options.stride_x = 1;
  }
  if (of_line && v->ends) { /* levels become samples */
    options.output_type = v->output.type;
    options.scale /= (double)gconv_white(v->like.type);
  } else {
    options.scale = (double)gconv_white(like->type);
    options.offset = 0;
    options.range = GCONV_RANGE_CLAMP;
  }
  const gconv_filters filters = {.items = (gconv_filter *)filter, .count = 1};
  gconv_status status = gconv_operation_filters(&filters, &options, &operation);
  if (status == GCONV_OK)
    status = gconv_plan_create(v->device, like, operation, 0, plan);
  gconv_operation_free(operation);
  return status;
}

/* Executes a plan on memory of the device. Its images have as many frames and rows as the plan's. */
static gconv_status execute_plan(const gconv_volume *v, const gconv_plan *plan, const gconv_image *in,
                                 const gconv_image *out) {
  const gconv_image *images[] = {in, out};
  gconv_array arrays[2];
  for (size_t i = 0; i < 2; i++) {
    const gconv_image *image = images[i];
    const int64_t sample = (int64_t)gconv_type_bytes(image->type);
    arrays[i] =
        (gconv_array){.data = image->data,
                      .type = image->type,
                      .shape = {image->frames, image->channels, image->height, image->width},
                      .stride = {(int64_t)image->plane_bytes, sample, (int64_t)image->row_bytes, sample * image->channels}};
  }
  return gconv_plan_execute_device(plan, &arrays[0], &arrays[1], 1, v->slab->stream);
}

/* Returns how many convolved planes `count` planes of the result depend on. */
static int64_t planes_for(const gconv_volume *v, const gconv_volume_term *term, int64_t count) {
  return (count - 1) * v->options.stride_z + term->count;
}

static gconv_image planes_like(const gconv_image *plane, gconv_type type, int64_t count) {
  return (gconv_image){
      .type = type, .frames = (int32_t)count, .height = plane->height, .width = plane->width, .channels = plane->channels};
}

/* Returns a view of planes as rows of one image. */
static gconv_image as_rows(const gconv_image *planes) {
  return (gconv_image){.type = planes->type,
                       .frames = 1,
                       .height = planes->frames,
                       .width = (int32_t)((int64_t)planes->height * planes->width * planes->channels),
                       .channels = 1,
                       .row_bytes = planes->plane_bytes,
                       .plane_bytes = planes->plane_bytes * (size_t)planes->frames,
                       .data = planes->data};
}

/* Makes the plans that convolve one plane and, on a GPU, a batch of planes. */
static gconv_status plan_planes(gconv_volume *v, stage *s) {
  gconv_image planes = v->like;
  planes.frames = 1;
  GCONV_TRY(make_plan(v, &planes, &s->term->plane, false, &s->plane));
  planes.frames = v->batch;
  return v->batch > 1 ? make_plan(v, &planes, &s->term->plane, false, &s->batch) : GCONV_OK;
}

static gconv_status make_stage(gconv_volume *v, const gconv_volume_term *term, stage *s) {
  int32_t taps = 0;
  s->term = term;
  for (int32_t k = 0; k < term->count; k++)
    if (term->line[k] != 0) {
      s->tap = k;
      taps++;
    }
  GCONV_TRY(plan_planes(v, s));
  const gconv_image *made = gconv_plan_output_header(s->plane, 0);
  if ((int64_t)made->height * made->width * made->channels > 1 << 30)
    return gconv_fail(GCONV_TOO_LARGE, "planes of %d x %d pixels are more than a volume may have", made->width,
                      made->height);
  if (v->step == 0) {
    double bytes = (double)made->height * made->width * made->channels * sizeof(float);
    double planes = fmax((double)v->options.slab_bytes / bytes, LEAST_PLANES);
    v->output = planes_like(made, v->output.type, (v->like.frames - 1) / v->options.stride_z + 1);
    v->step = planes < v->output.frames ? (int32_t)planes : v->output.frames;
  }
  s->convolved = planes_like(made, GCONV_F32, taps > 1 ? planes_for(v, term, v->step) : v->batch);
  GCONV_TRY(v->slab->allocate(v->device, &s->convolved));
  if (taps <= 1)
    return GCONV_OK;
  v->ends = v->stage_count == 1;
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
  gconv_image *const slabs[] = {&v->sum, &v->other, &v->combined, &v->made};
  const bool needed[] = {!v->ends, v->stage_count > v->filter.count, v->filter.count > 1, true};
  for (size_t i = 0; i < 4; i++) {
    *slabs[i] = planes_like(&v->output, i < 3 ? GCONV_F32 : v->output.type, v->step);
    if (needed[i])
      GCONV_TRY(v->slab->allocate(v->device, slabs[i]));
  }
  int32_t most = 0, begin, end;
  for (int32_t z = 0; z < v->output.frames && v->slab->apart && !v->options.there; z += v->step) {
    gconv_volume_planes_needed(v, z, v->output.frames - z < v->step ? v->output.frames - z : v->step, &begin, &end);
    most = end - begin > most ? end - begin : most;
  }
  v->window = planes_like(&v->like, v->like.type, most);
  return most > 0 ? v->slab->allocate(v->device, &v->window) : GCONV_OK;
}

static void free_stages(gconv_volume *v) {
  for (size_t i = 0; i < v->stage_count && v->stages; i++) {
    gconv_plan_free(v->stages[i].plane);
    gconv_plan_free(v->stages[i].batch);
    gconv_plan_free(v->stages[i].line);
    v->slab->release(v->device, &v->stages[i].convolved);
  }
  free(v->stages);
  v->stages = NULL;
  v->stage_count = 0;
  v->step = 0;
  gconv_image *const slabs[] = {&v->sum, &v->other, &v->combined, &v->made, &v->window};
  for (size_t i = 0; i < 5; i++)
    v->slab->release(v->device, slabs[i]);
}

/* Makes the stages, with smaller slabs if a GPU lacks memory for larger ones. */
static gconv_status fit_stages(gconv_volume *v) {
  gconv_status status = make_stages(v);
  while (status == GCONV_NO_MEMORY && v->slab->apart && v->step > LEAST_PLANES) {
    v->options.slab_bytes /= 2;
    v->batch = 1;
    free_stages(v);
    status = make_stages(v);
  }
  return status;
}

static gconv_status find_type(gconv_volume *v) {
  const gconv_options *plain = &v->options.plain;
  v->output.type = plain->sets_type ? plain->output_type : v->like.type;
  if (plain->format)
    v->output.type = gconv_format_type(plain->format, v->output.type);
  return v->output.type <= GCONV_F32 ? GCONV_OK : gconv_fail(GCONV_UNSUPPORTED, "results of volumes are u8, u16 or f32");
}

gconv_status gconv_volume_create(gconv_device *device, const gconv_image *like, const char *spec,
                                 const gconv_volume_options *options, gconv_volume **volume) {
  GCONV_NEED_KNOWN(options);
  gconv_volume *v;
  gconv_volume_options filled = *options;
  const gconv_slab_type *slab = GCONV_OF_DEVICE(device, gconv_slab_type);
  filled.stride_z += filled.stride_z == 0;
  if (filled.slab_bytes == 0)
    filled.slab_bytes = slab->apart ? GPU_SLAB_BYTES : SLAB_BYTES;
  filled.plain = gconv_options_filled(&options->plain);
  GCONV_TRY(check(like, &filled));
  GCONV_NEW(v, 1, "no memory for a volume");
  v->device = device;
  v->slab = slab;
  v->options = filled;
  v->batch = !slab->apart ? 1 : like->frames < MOST_BATCH ? like->frames : MOST_BATCH;
  v->like = planes_like(like, like->type, like->frames);
  gconv_status status = filled.taps ? gconv_volume_filter_copy(filled.taps, filled.tap_planes, &v->filter)
                                    : gconv_volume_filter_read(spec, filled.spacing, &v->filter);
  if (status == GCONV_OK && filled.plain.flip)
    gconv_volume_filter_flip(&v->filter);
  GCONV_THEN(status, find_type(v));
  GCONV_THEN(status, fit_stages(v));
  if (status == GCONV_OK)
    *volume = v;
  else
    gconv_volume_free(v);
  return status;
}

void gconv_volume_free(gconv_volume *v) {
  if (!v)
    return;
  free_stages(v);
  gconv_volume_filter_free(&v->filter);
  free(v);
}

const gconv_volume_kernel *gconv_volume_kernel_of(const gconv_volume *v) {
  return &v->filter;
}

bool gconv_volume_is_exact(const gconv_volume *v) {
  for (size_t i = 0; i < v->stage_count; i++)
    if (!gconv_plan_get_info(v->stages[i].plane)->exact ||
        (v->stages[i].line && !gconv_plan_get_info(v->stages[i].line)->exact))
      return false;
  return true;
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

/* Returns the level of the response to planes outside the volume, which are constant. */
static float outside_of(const gconv_volume *v, const stage *s) {
  const gconv_filter *filter = &s->term->plane;
  double sum = 0;
  for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++)
    sum += (double)filter->taps[i] / (double)filter->divisor;
  const double outside = v->options.plain.border == GCONV_BORDER_CONSTANT ? v->options.plain.border_value : 0;
  return (float)(outside * (double)gconv_white(v->like.type) * sum);
}

typedef struct input {
  const gconv_image *planes;
  int32_t first; /* where along z they begin */
} input;

/* Convolves planes from place z on, which may lie outside the volume. Convolves a batch if all its planes lie inside, and
 * `count` is large enough; otherwise one plane. Sets *made to the number of planes. */
static gconv_status convolve_some(const gconv_volume *v, const stage *s, const input *in, int64_t z, int32_t count,
                                  const gconv_image *planes, int32_t to, int32_t *made) {
  const int64_t at = gconv_border_index(v->options.plain.border, z, v->like.frames);
  *made = s->batch && count >= v->batch && z >= 0 && z + v->batch <= v->like.frames ? v->batch : 1;
  const gconv_image out = gconv_frames_of(planes, to, *made);
  if (at == GCONV_OUTSIDE)
    return v->slab->fill(v->device, &out, outside_of(v, s));
  const gconv_image from = gconv_frames_of(in->planes, (int32_t)at - in->first, *made);
  return execute_plan(v, *made > 1 ? s->batch : s->plane, &from, &out);
}

/* Makes `count` convolved planes from place `from` on. Those that s->convolved already has are moved to its front. */
static gconv_status convolve_planes(const gconv_volume *v, stage *s, const input *in, int32_t from, int32_t count) {
  int32_t kept = s->end > from && s->have <= from ? s->end - from : 0, made;
  kept = kept < count ? kept : count;
  if (kept > 0) {
    const gconv_image old = gconv_frames_of(&s->convolved, from - s->have, kept),
                      new = gconv_frames_of(&s->convolved, 0, kept);
    GCONV_TRY(v->slab->move(v->device, &old, &new));
  }
  s->have = s->end = from;
  for (int32_t i = kept; i < count; i += made)
    GCONV_TRY(convolve_some(v, s, in, (int64_t)from + i, count - i, &s->convolved, i, &made));
  s->end = from + count;
  return GCONV_OK;
}

/* Makes as many planes of a term as `out` has, and stores them in v->sum, or adds them to it. If v->ends, stores samples of
 * the result in `out`. */
static gconv_status execute_stage(gconv_volume *v, stage *s, const input *in, int32_t first, const gconv_image *out,
                                  bool adds) {
  const int32_t count = out->frames;
  const int64_t place = (int64_t)first * v->options.stride_z - s->term->anchor, step = v->options.stride_z;
  for (int32_t i = 0, made; i < count && !s->line; i += made) {
    GCONV_TRY(convolve_some(v, s, in, place + i * step + s->tap, step == 1 ? count - i : 1, &s->convolved, 0, &made));
    const gconv_image from = gconv_frames_of(&s->convolved, 0, made), to = gconv_frames_of(&v->sum, i, made);
    GCONV_TRY(v->slab->add(v->device, &from, &to, s->term->line[s->tap], adds));
  }
  if (!s->line)
    return GCONV_OK;
  GCONV_TRY(convolve_planes(v, s, in, (int32_t)place, (int32_t)planes_for(v, s->term, count)));
  const gconv_image to = v->ends ? *out : adds ? v->other : v->sum;
  const bool whole = to.frames == v->step && to.row_bytes == gconv_image_row_bytes(&to);
  const gconv_image rows = as_rows(&s->convolved), sums = as_rows(whole ? &to : &v->made);
  GCONV_TRY(execute_plan(v, s->line, &rows, &sums)); /* in a shorter last slab, the planes at the end have no meaning */
  if (!whole) {
    const gconv_image made = gconv_frames_of(&v->made, 0, count);
    return v->slab->move(v->device, &made, out);
  }
  return adds ? v->slab->add(v->device, &v->other, &v->sum, 1, true) : GCONV_OK;
}

static gconv_status execute_slab(gconv_volume *v, const input *in, int32_t first, const gconv_image *out) {
  size_t at = 0;
  gconv_slab_finish f = {.epilogue = gconv_make_epilogue(&v->options.plain, v->like.type, v->output.type)};
  for (size_t k = 0; k < v->filter.count; k++) {
    for (size_t j = 0; j < v->filter.of[k].count; j++)
      GCONV_TRY(execute_stage(v, &v->stages[at++], in, first, out, j > 0));
    f.sums = gconv_frames_of(&v->sum, 0, out->frames);
    f.squares = k > 0 ? v->combined.data : NULL;
    f.to_squares = k + 1 < v->filter.count ? v->combined.data : NULL;
    if (!v->ends)
      GCONV_TRY(v->slab->finish(v->device, &f, out));
  }
  return GCONV_OK;
}

/* Makes a slab. If a GPU is used and the pixels are on the host, copies them to the GPU and back. */
static gconv_status make_slab(gconv_volume *v, const input *in, int32_t first, const gconv_image *out) {
  int32_t begin, end;
  if (!v->slab->apart || v->options.there)
    return execute_slab(v, in, first, out);
  gconv_volume_planes_needed(v, first, out->frames, &begin, &end);
  const gconv_image from = gconv_frames_of(in->planes, begin - in->first, end - begin);
  const gconv_image window = gconv_frames_of(&v->window, 0, end - begin), made = gconv_frames_of(&v->made, 0, out->frames);
  GCONV_TRY(v->slab->upload(v->device, &from, &window));
  GCONV_TRY(execute_slab(v, &(input){&window, begin}, first, &made));
  return v->slab->download(v->device, &made, out);
}

gconv_status gconv_volume_execute(gconv_volume *v, const gconv_image *in, int32_t in_plane, int32_t first,
                                  gconv_image *out) {
  int32_t begin, end;
  if (first < 0 || out->frames < 1 || first > v->output.frames - out->frames || out->type != v->output.type ||
      out->height != v->output.height || out->width != v->output.width || out->channels != v->output.channels ||
      out->planar || !out->data)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the output has another shape or type than planes of the result");
  gconv_volume_planes_needed(v, first, out->frames, &begin, &end);
  if (in->type != v->like.type || in->height != v->like.height || in->width != v->like.width ||
      in->channels != v->like.channels || in->planar || !in->data || in_plane > begin || end - in_plane > in->frames)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the input lacks some of the planes %d to %d of the volume", begin, end - 1);
  for (size_t i = 0; i < v->stage_count && (first == 0 || first != v->next); i++)
    v->stages[i].have = v->stages[i].end = 0; /* convolved planes of another volume */
  v->next = first;
  for (int32_t at = 0; at < out->frames; at += v->step) {
    const gconv_image slab = gconv_frames_of(out, at, out->frames - at < v->step ? out->frames - at : v->step);
    GCONV_TRY(make_slab(v, &(input){in, in_plane}, first + at, &slab));
  }
  v->next = first + out->frames;
  return GCONV_OK;
}
