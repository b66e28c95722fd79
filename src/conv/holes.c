/* SPDX-License-Identifier: MIT */
#include "conv/holes.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "conv/hole_sums.h"
#include "conv/verify.h"

#include <math.h>
#include <string.h>

static bool is_alpha_plane(const gconv_image *image, size_t plane) {
  return image->planar && image->alpha && plane % (size_t)image->channels == (size_t)image->channels - 1;
}

/* ---- Finding samples of no data --------------------------------------------------------------------------------------- */

typedef struct finding {
  const gconv_filter_plan *plan;
  const gconv_image *in;
  gconv_holes *holes;
  uint8_t *rows; /* marks of a row of the input for each thread */
  int found;     /* changed atomically */
} finding;

/* Marks the samples of no data in a row of the input. Returns whether there are any. Alpha is never no data. */
static bool mark_row(const gconv_image *like, const gconv_image *in, size_t plane, size_t y, uint8_t *marks) {
  size_t samples = gconv_samples_of(like), channels = (size_t)like->channels;
  bool any = gconv_nodata_mark(like, gconv_row_at(in, plane, y), samples, marks);
  if (any && is_alpha_plane(like, plane)) {
    memset(marks, 0, samples);
    return false;
  }
  for (size_t i = channels - 1; any && like->alpha && !like->planar && i < samples; i += channels)
    marks[i] = 0;
  return any;
}

static void look_at_row(void *context, size_t turn, int seat) {
  finding *f = context;
  const gconv_image *like = &f->plan->base.like;
  size_t height = (size_t)f->in->height;
  if (__atomic_load_n(&f->found, __ATOMIC_RELAXED))
    return;
  if (mark_row(like, f->in, turn / height, turn % height, f->rows + (size_t)seat * gconv_samples_of(like)))
    __atomic_store_n(&f->found, 1, __ATOMIC_RELAXED);
}

/* Converts marks of a row of the input to marks of the image to convolve, which may have other channels. */
static void convert_marks(const finding *f, const uint8_t *from, uint8_t *to) {
  const gconv_image *like = &f->plan->base.like, *convolved = &f->plan->convolved;
  size_t channels = (size_t)like->channels, made = (size_t)convolved->channels;
  if (like->planar || (!f->holes->whole_pixels && channels == made)) {
    memcpy(to, from, gconv_samples_of(like));
    return;
  }
  for (size_t x = 0; x < (size_t)like->width; x++) {
    uint8_t any = 0;
    for (size_t c = 0; c < channels; c++)
      any |= from[x * channels + c];
    for (size_t c = 0; c < made; c++)
      to[x * made + c] = f->holes->whole_pixels ? any : from[x * channels + c];
  }
}

static void fill_row(void *context, size_t turn, int seat) {
  const finding *f = context;
  const gconv_image *like = &f->plan->base.like, *filled = &f->holes->filled;
  size_t height = (size_t)f->in->height, plane = turn / height, y = turn % height, samples = gconv_samples_of(like);
  size_t bytes = gconv_type_bytes(like->type);
  uint8_t *marks = f->rows + (size_t)seat * samples, *to = gconv_row_at(filled, plane, y);
  memcpy(to, gconv_row_at(f->in, plane, y), samples * bytes);
  mark_row(like, f->in, plane, y, marks);
  for (size_t i = 0; i < samples; i++)
    if (marks[i])
      memset(to + i * bytes, 0, bytes);
  convert_marks(f, marks, f->holes->marks + plane * f->holes->plane + y * f->holes->row);
}

/* Fills holes->filled and holes->marks. */
static gconv_status fill(finding *f) {
  gconv_holes *holes = f->holes;
  const gconv_options *options = &f->plan->options;
  gconv_threads *threads = f->plan->base.device->threads;
  void *marks = NULL;
  gconv_image filled = f->plan->base.like;
  filled.height = f->in->height;
  holes->whole_pixels = options->mix || options->gray || options->alpha == GCONV_ALPHA_PREMULTIPLY;
  holes->row = gconv_samples_of(&f->plan->convolved);
  holes->plane = holes->row * (size_t)f->in->height;
  GCONV_TRY(gconv_allocate(gconv_checked_product(2, (size_t[]){gconv_planes_of(&f->plan->convolved), holes->plane}),
                           "marks of no data", &marks));
  holes->marks = marks;
  GCONV_TRY(gconv_image_allocate(&filled));
  holes->filled = filled;
  gconv_threads_run(threads, gconv_planes_of(f->in) * (size_t)f->in->height, fill_row, f);
  return GCONV_OK;
}

gconv_status gconv_holes_find(const gconv_filter_plan *plan, const gconv_image *in, gconv_holes *holes) {
  finding f = {.plan = plan, .in = in, .holes = holes};
  gconv_threads *threads = plan->base.device->threads;
  GCONV_FREED void *rows = NULL;
  *holes = (gconv_holes){0};
  if (!plan->base.like.has_nodata)
    return GCONV_OK;
  GCONV_TRY(
      gconv_allocate(gconv_samples_of(&plan->base.like) * (size_t)gconv_threads_count(threads), "marks of no data", &rows));
  f.rows = rows;
  gconv_threads_run(threads, gconv_planes_of(in) * (size_t)in->height, look_at_row, &f);
  return f.found ? fill(&f) : GCONV_OK;
}

void gconv_holes_free(const gconv_filter_plan *plan, gconv_holes *holes) {
  gconv_image_free(&holes->filled);
  gconv_release(holes->marks);
  for (size_t i = 0; holes->results && i < plan->base.output_count; i++)
    gconv_release(holes->results[i]);
  free(holes->results);
  *holes = (gconv_holes){0};
}

/* ---- Results --------------------------------------------------------------------------------------------------------- */

/* Some rows of an output, and the inputs for computing their samples again. */
typedef struct mending {
  const gconv_filter_plan *plan;
  const gconv_pass *pass;
  const gconv_holes *holes;
  const gconv_expected *expected;
  const gconv_image *convolved;
  int32_t in_row, first;
  gconv_image *image;
  uint8_t *results;
  gconv_hole_summer summer;
  int32_t first_filter, filters; /* the filters that make the output */
  uint8_t *seats;                /* a workspace for each thread */
  size_t seat_bytes;
} mending;

/* A thread's workspace. */
typedef struct seat {
  uint32_t *counts; /* how many columns to the left have marks below the taps of a row of results, for each channel */
  double *doubles;
  gconv_hole_row row;
} seat;

static size_t counts_bytes(const mending *m) {
  return (m->holes->row + (size_t)m->convolved->channels) * sizeof(uint32_t) / 64 * 64 + 64;
}

static size_t sums_of(const mending *m) {
  return (size_t)m->filters * (size_t)m->pass->problem.out_width;
}

static size_t bytes_of_seat(const mending *m) {
  size_t doubles = gconv_hole_workspace(&m->summer) + sums_of(m);
  return counts_bytes(m) + doubles * sizeof(double) + sums_of(m) / 64 * 64 + 64;
}

static seat seat_of(const mending *m, int number) {
  uint8_t *at = m->seats + (size_t)number * m->seat_bytes;
  seat s = {.counts = (uint32_t *)(void *)at, .doubles = (double *)(void *)(at + counts_bytes(m))};
  double *sums = s.doubles + gconv_hole_workspace(&m->summer);
  s.row = (gconv_hole_row){.first = m->first_filter,
                           .filters = m->filters,
                           .width = m->pass->problem.out_width,
                           .sums = sums,
                           .states = (uint8_t *)(sums + sums_of(m))};
  return s;
}

/* Sets counts[x * channels + c] to how many columns left of x have a mark of channel c, in the rows of a plane that lie
 * below the taps, from row `top` on. Returns whether there is any mark. */
static bool count_columns(const mending *m, size_t plane, int64_t top, uint32_t *counts) {
  const gconv_problem *problem = &m->pass->problem;
  size_t samples = m->holes->row, channels = m->convolved->planar ? 1 : (size_t)m->convolved->channels;
  uint32_t any = 0;
  memset(counts, 0, (samples + channels) * sizeof *counts);
  for (int64_t r = 0; r < problem->rows; r++) {
    int64_t y = gconv_border_index(problem->border, top + r * problem->dilation_y, problem->height);
    if (y == GCONV_OUTSIDE)
      continue;
    const uint8_t *marks = m->holes->marks + plane * m->holes->plane + (size_t)(y - m->in_row) * m->holes->row;
    for (size_t i = 0; i < samples; i++)
      counts[i + channels] |= marks[i];
  }
  for (size_t i = 0; i < samples; i++)
    any |= counts[i + channels];
  for (size_t i = channels; i < samples + channels; i++)
    counts[i] += counts[i - channels];
  return any;
}

/* Returns whether columns below the taps of column q have marks. If taps reach beyond the image, all columns count. */
static bool touches(const mending *m, const uint32_t *counts, int64_t q, size_t channel) {
  const gconv_problem *problem = &m->pass->problem;
  size_t channels = m->convolved->planar ? 1 : (size_t)m->convolved->channels, width = (size_t)problem->width;
  int64_t left = q * problem->stride_x - problem->pad_left;
  int64_t right = left + (int64_t)(problem->columns - 1) * problem->dilation_x;
  bool outside = left < 0 || right >= problem->width;
  size_t begin = outside ? 0 : (size_t)left, end = outside ? width : (size_t)right + 1;
  return counts[end * channels + channel] > counts[begin * channels + channel];
}

/* A row of results: channels `channel` .. end - 1 of an interleaved image, or a row of a plane. */
typedef struct result_row {
  int32_t frame, y; /* y: the row in mending.image */
  int32_t channel, end;
  size_t plane; /* the plane in mending.image */
} result_row;

static void mend_sample(const mending *m, const result_row *at, const gconv_hole_row *row, int32_t channel, int64_t q) {
  const gconv_image *image = m->image;
  double value = 0;
  size_t i = image->planar ? (size_t)q : (size_t)q * (size_t)image->channels + (size_t)channel;
  gconv_sample_state state =
      gconv_expected_sample(m->expected, row, at->frame, (int64_t)m->first + at->y, q, channel, &value);
  if (state == GCONV_SAMPLE_WHOLE)
    return;
  if (state == GCONV_SAMPLE_NO_DATA) {
    m->results[(at->plane * (size_t)image->height + (size_t)at->y) * gconv_samples_of(image) + i] = 1;
    value = image->type == GCONV_F32 ? (double)NAN : 0; /* so that later stages skip it */
  }
  gconv_store_at(image->type, gconv_row_at(image, at->plane, at->y), i, value);
}

/* Finds the shortest range of places, begin .. end - 1, that has all places of a row with marks below their taps. */
static void find_span(const mending *m, const uint32_t *counts, size_t channel, int32_t *begin, int32_t *end) {
  *begin = 0;
  *end = m->image->width;
  while (*begin < *end && !touches(m, counts, *begin, channel))
    ++*begin;
  while (*begin < *end && !touches(m, counts, *end - 1, channel))
    --*end;
}

static void mend_row(const mending *m, const result_row *at, seat *its) {
  const gconv_image *convolved = m->convolved;
  const gconv_problem *problem = &m->pass->problem;
  int64_t p = (int64_t)m->first + at->y;
  int32_t first = gconv_expected_channel(m->expected, at->channel);
  size_t plane = convolved->planar ? (size_t)at->frame * (size_t)convolved->channels + (size_t)first : (size_t)at->frame;
  if (!count_columns(m, plane, p * problem->stride_y - problem->pad_top, its->counts))
    return;
  for (int32_t c = at->channel, begin, end; c < at->end; c++) {
    size_t from = convolved->planar ? 0 : (size_t)gconv_expected_channel(m->expected, c);
    find_span(m, its->counts, from, &begin, &end);
    if (begin == end)
      continue;
    if (problem->epilogue.combine == GCONV_COMBINE_STACK)
      its->row.first = gconv_expected_filter(m->expected, c);
    gconv_hole_sum_row(&m->summer, p, plane, from, begin, end, its->doubles, &its->row);
    for (int64_t q = begin; q < end; q++)
      if (touches(m, its->counts, q, from))
        mend_sample(m, at, &its->row, c, q);
  }
}

static void mend_turn(void *context, size_t turn, int number) {
  const mending *m = context;
  const gconv_image *image = m->image;
  size_t plane = turn / (size_t)image->height;
  int32_t channel = (int32_t)(image->planar ? plane % (size_t)image->channels : 0);
  result_row at = {.frame = (int32_t)(image->planar ? plane / (size_t)image->channels : plane),
                   .y = (int32_t)(turn % (size_t)image->height),
                   .channel = channel,
                   .end = image->planar ? channel + 1 : image->channels,
                   .plane = plane};
  seat its = seat_of(m, number);
  mend_row(m, &at, &its);
}

static gconv_status mend_rows(mending *m, gconv_image *image, uint8_t **results) {
  gconv_threads *threads = m->plan->base.device->threads;
  size_t bytes =
      gconv_checked_product(3, (size_t[]){gconv_planes_of(image), (size_t)image->height, gconv_samples_of(image)});
  GCONV_FREED void *seats = NULL;
  void *memory = NULL;
  GCONV_TRY(gconv_hole_summer_make(m->pass, m->holes, m->convolved, m->in_row, &m->summer));
  GCONV_TRY(gconv_allocate(bytes, "marks of no data", &memory));
  *results = m->results = memset(memory, 0, bytes);
  m->seat_bytes = bytes_of_seat(m);
  GCONV_TRY(gconv_allocate(m->seat_bytes * (size_t)gconv_threads_count(threads), "sums without no data", &seats));
  m->seats = seats;
  gconv_threads_run(threads, gconv_planes_of(image) * (size_t)image->height, mend_turn, m);
  return GCONV_OK;
}

/* Mends output number k of the pass. */
static gconv_status mend_output(mending *m, size_t k, gconv_image *image, uint8_t **results) {
  const gconv_problem *problem = &m->pass->problem;
  bool combined = gconv_is_combined(problem);
  gconv_expected *expected = gconv_expected_make(m->plan, m->pass, m->convolved, m->holes, m->in_row, (int32_t)k);
  GCONV_NEED_MEMORY(expected, "no memory for results of no data");
  m->image = image;
  m->expected = expected;
  m->first_filter = combined ? 0 : (int32_t)k;
  m->filters = combined ? problem->filters : 1;
  gconv_status status = mend_rows(m, image, results);
  gconv_hole_summer_free(&m->summer);
  gconv_expected_free(expected);
  return status;
}

gconv_status gconv_holes_mend(const gconv_filter_plan *plan, gconv_holes *holes, const gconv_image *convolved,
                              int32_t in_row, gconv_image *images, int32_t first) {
  if (!holes->marks)
    return GCONV_OK;
  GCONV_NEW(holes->results, plan->base.output_count, "no memory for results of no data");
  for (size_t i = 0; i < plan->pass_count; i++) {
    const gconv_pass *pass = &plan->passes[i];
    mending m = {.plan = plan, .pass = pass, .holes = holes, .convolved = convolved, .in_row = in_row, .first = first};
    for (size_t k = 0; k < gconv_pass_outputs(pass); k++)
      GCONV_TRY(mend_output(&m, k, &images[pass->first_output + k], &holes->results[pass->first_output + k]));
  }
  return GCONV_OK;
}

/* ---- No data in results ---------------------------------------------------------------------------------------------- */

typedef struct setting {
  const gconv_image *like, *out; /* `like` has the number that stands for no data */
  const uint8_t *results;        /* marks of results that are no data; NULL: there are none */
  uint8_t *rows;                 /* marks of a row for each thread */
  uint64_t chances;              /* results that equal no data by chance; changed atomically */
} setting;

static void set_row(void *context, size_t turn, int number) {
  setting *s = context;
  const gconv_image *out = s->out;
  size_t samples = gconv_samples_of(out), height = (size_t)out->height, channels = (size_t)out->channels;
  void *row = gconv_row_at(out, turn / height, turn % height);
  uint8_t *marks = s->rows + (size_t)number * samples;
  uint64_t chances = 0;
  if (!is_alpha_plane(out, turn / height) && gconv_nodata_mark(s->like, row, samples, marks))
    for (size_t i = 0; i < samples; i++) {
      bool alpha = out->alpha && !out->planar && i % channels == channels - 1;
      chances += marks[i] && !alpha && !(s->results && s->results[turn * samples + i]);
    }
  for (size_t i = 0; s->results && i < samples; i++)
    if (s->results[turn * samples + i])
      gconv_nodata_store(s->like, row, i);
  if (chances > 0)
    __atomic_fetch_add(&s->chances, chances, __ATOMIC_RELAXED);
}

static gconv_status set_output(gconv_threads *threads, setting *s) {
  GCONV_FREED void *rows = NULL;
  size_t bytes = gconv_samples_of(s->out) * (size_t)gconv_threads_count(threads);
  GCONV_TRY(gconv_allocate(bytes, "marks of no data", &rows));
  s->rows = rows;
  gconv_threads_run(threads, gconv_planes_of(s->out) * (size_t)s->out->height, set_row, s);
  return GCONV_OK;
}

gconv_status gconv_holes_set(const gconv_filter_plan *plan, const gconv_holes *holes, const gconv_image *outputs) {
  uint64_t chances = 0;
  char text[GCONV_NODATA_BYTES];
  for (size_t i = 0; i < plan->base.output_count && plan->base.like.has_nodata; i++) {
    setting s = {.like = &plan->base.outputs[i], .out = &outputs[i], .results = holes->results ? holes->results[i] : NULL};
    GCONV_TRY(set_output(plan->base.device->threads, &s));
    chances += s.chances;
  }
  if (chances > 0)
    gconv_warn_once(
        "results that equal no data",
        "some results have the value %s, which stands for no data, although they are data: programs that read them "
        "will take them for no data",
        gconv_nodata_write(plan->base.outputs[0].nodata, text));
  return GCONV_OK;
}
