/* SPDX-License-Identifier: MIT */
/*
 * Finds by how much two images differ.
 *
 * Both are read by rows, some megabytes at a time, side by side. Threads then take parts of these rows. Samples become
 * float32 values that hold them exactly: levels, or, if an image has floats, fractions of white. All sums are float64 and go
 * in a fixed order: the lanes of a row, then row after row. So results depend on neither threads nor memory.
 */
#include "base/arguments.h"
#include "base/memory.h"
#include "base/threads.h"
#include "compare/compare_rows.h"
#include "image/colour.h"
#include "image/format.h"
#include "image/row_band.h"

#include <math.h>

enum {
  WINDOW = GCONV_SSIM_WINDOW,
  HALO = WINDOW - 1, /* rows above a row that its windows need */
  ROWS_A_TURN = 16,
  STRIP_BYTES = 4 << 20 /* bytes of one image's rows that are in memory at a time, roughly */
};

/* ---- Both images ----------------------------------------------------------------------------------------------------- */

typedef struct comparing {
  const gconv_compare_options *options;
  gconv_threads *threads;
  bool own_threads;
  gconv_row_band sides[2];
  double white;         /* white in units of the values */
  bool floats;          /* an image has floats: values are fractions of white */
  size_t samples, step; /* samples of a row; distance of samples of the same channel */
  size_t planes;
  int32_t strip;           /* rows at a time */
  double known;            /* the largest difference of the frame, before the strip */
  float *values;           /* owned: [seats][2][WINDOW][samples] */
  double *rooms;           /* owned: [seats][gconv_similarity_room()] */
  gconv_row_sums *results; /* owned: [strip] */
  uint8_t *shades;         /* owned: [strip][width]; NULL: no picture is wanted */
  gconv_row_writer *writer;
  gconv_image picture; /* the header of the picture */
  float *shade_values; /* owned: [2][width]: a row of the picture as floats, and as its type */

  size_t plane;         /* the plane of the current strip */
  int32_t first, count; /* the first row of the current strip, and how many it has */
} comparing;

static gconv_status check_shapes(const gconv_row_band *a, const gconv_row_band *b) {
  const gconv_image *x = &a->header, *y = &b->header;
  bool sizes = x->frames == y->frames && x->height == y->height && x->width == y->width && x->channels == y->channels;
  char shape_a[128], shape_b[128];
  if (sizes && (x->planar == y->planar || x->channels == 1))
    return GCONV_OK;
  gconv_row_band_describe(a, shape_a);
  gconv_row_band_describe(b, shape_b);
  if (sizes)
    return gconv_fail(
        GCONV_BAD_ARGUMENT,
        "%s and %s cannot be compared: one has its channels as planes (N x C x H x W), the other pixel by pixel", a->name,
        b->name);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s is %s, and %s is %s: only images of one shape can be compared", a->name, shape_a,
                    b->name, shape_b);
}

/* ---- Comparing a strip ----------------------------------------------------------------------------------------------- */

static void compare_rows(void *context, size_t turn, int seat) {
  const comparing *c = context;
  int32_t first = c->first + (int32_t)turn * ROWS_A_TURN, last = c->first + c->count;
  size_t samples = c->samples, height = (size_t)c->sides[0].header.height;
  float *values[2];
  bool windows = height >= WINDOW && samples / c->step >= WINDOW;
  last = last < first + ROWS_A_TURN ? last : first + ROWS_A_TURN;
  for (size_t i = 0; i < 2; i++)
    values[i] = c->values + ((size_t)seat * 2 + i) * WINDOW * samples;
  for (int32_t row = first < HALO ? 0 : first - HALO; row < last; row++) {
    const float *ring[2][WINDOW];
    for (size_t i = 0; i < 2; i++) {
      gconv_compare_load(c->sides[i].header.type, gconv_row_band_row(&c->sides[i], row), c->white,
                         values[i] + (size_t)(row % WINDOW) * samples, samples);
      for (int32_t r = 0; r < WINDOW; r++)
        ring[i][r] = values[i] + (size_t)((row + 1 + r) % WINDOW) * samples;
    }
    const float *a = ring[0][WINDOW - 1], *b = ring[1][WINDOW - 1];
    if (row < first)
      continue;
    gconv_row_sums *result = &c->results[row - c->first];
    gconv_compare_row(a, b, samples, c->known, result);
    if (windows && row >= HALO)
      result->similarity = gconv_compare_similarity(ring[0], ring[1], samples, c->step, c->white,
                                                    c->rooms + (size_t)seat * gconv_similarity_room(c->step));
    if (c->shades) {
      size_t width = (size_t)c->sides[0].header.width;
      gconv_compare_draw_row(a, b, width, c->step, c->white, c->shades + (size_t)(row - c->first) * width);
    }
  }
}

/* ---- Sums of many rows ----------------------------------------------------------------------------------------------- */

/* Sums over a frame, or over all frames. */
typedef struct total {
  double absolute, squares, similarity;
  gconv_difference found;
} total;

static void add_row(const comparing *c, const gconv_row_sums *row, int32_t y, total *t) {
  const gconv_image *like = &c->sides[0].header;
  size_t channels = (size_t)like->channels;
  t->absolute += row->absolute;
  t->squares += row->squares;
  t->similarity += row->similarity;
  t->found.differing += row->differing;
  t->found.samples += c->samples;
  if (row->largest <= t->found.largest)
    return;
  t->found.largest = row->largest;
  t->found.frame = (int32_t)(like->planar ? c->plane / channels : c->plane);
  t->found.y = y;
  t->found.x = row->at / (int32_t)c->step;
  t->found.channel = like->planar ? (int32_t)(c->plane % channels) : row->at % (int32_t)c->step;
}

/* Computes the result from sums over `frames` frames. */
static gconv_difference finish(const comparing *c, const total *t, int32_t frames) {
  const gconv_image *like = &c->sides[0].header;
  gconv_difference found = t->found;
  double count = (double)found.samples, white = c->white, squares = t->squares / count;
  double windows = (double)(like->height - HALO) * (like->width - HALO) * like->channels * frames;
  bool has_windows = like->height >= WINDOW && like->width >= WINDOW;
  found.largest /= white;
  found.mean = t->absolute / count / white;
  found.rmse = sqrt(squares) / white;
  found.psnr = squares > 0 ? 10 * log10(white * white / squares) : INFINITY;
  found.ssim = has_windows ? t->similarity / windows : NAN;
  return found;
}

/* ---- Strip after strip ----------------------------------------------------------------------------------------------- */

static gconv_status write_shades(comparing *c) {
  gconv_type type = c->picture.type;
  size_t width = (size_t)c->picture.width;
  if (!c->writer)
    return GCONV_OK;
  float *floats = c->shade_values, *samples = floats + width;
  if (type == GCONV_U8)
    return gconv_row_writer_write(c->writer, c->shades, width, c->count);
  for (int32_t row = 0; row < c->count; row++) {
    gconv_colour_to_float_row(GCONV_U8, c->shades + (size_t)row * width, floats, width);
    gconv_colour_from_float_row(type, floats, samples, width);
    GCONV_TRY(gconv_row_writer_write(c->writer, samples, width * gconv_type_bytes(type), 1));
  }
  return GCONV_OK;
}

static gconv_status compare_strip(comparing *c, total *frame, total *all) {
  for (size_t i = 0; i < 2; i++) /* with the rows above that windows need */
    gconv_row_band_want(&c->sides[i], c->first < HALO ? 0 : c->first - HALO, c->first + c->count);
  GCONV_TRY(gconv_row_band_read(c->sides, c->threads));
  c->known = frame->found.largest; /* at most the largest of all frames, so that the places of both are found */
  gconv_threads_run(c->threads, (size_t)((c->count - 1) / ROWS_A_TURN + 1), compare_rows, c);
  for (int32_t i = 0; i < c->count; i++) {
    add_row(c, &c->results[i], c->first + i, frame);
    add_row(c, &c->results[i], c->first + i, all);
  }
  return write_shades(c);
}

static gconv_status compare_planes(comparing *c, gconv_difference *result) {
  const gconv_image *like = &c->sides[0].header;
  size_t of_frame = like->planar ? (size_t)like->channels : 1;
  const gconv_difference start = {.a = c->sides[0].header, .b = c->sides[1].header, .white = c->white};
  total frame = {.found = start}, all = {.found = start};
  for (c->plane = 0; c->plane < c->planes; c->plane++) {
    for (c->first = 0; c->first < like->height; c->first += c->strip) {
      c->count = like->height - c->first < c->strip ? like->height - c->first : c->strip;
      GCONV_TRY(compare_strip(c, &frame, &all));
    }
    GCONV_TRY(gconv_row_band_next_plane(&c->sides[0]));
    GCONV_TRY(gconv_row_band_next_plane(&c->sides[1]));
    if ((c->plane + 1) % of_frame > 0)
      continue;
    gconv_difference found = finish(c, &frame, 1);
    found.frame = (int32_t)(c->plane / of_frame);
    if (c->options->report)
      c->options->report(&found, c->options->user);
    frame = (total){.found = start};
  }
  *result = finish(c, &all, like->frames);
  return GCONV_OK;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------- */

/* Begins the picture. It has all planes, one below the other. */
static gconv_status begin_picture(comparing *c) {
  const gconv_image *like = &c->sides[0].header;
  const char *path = c->options->picture;
  gconv_write_options write = c->options->write ? *c->options->write : (gconv_write_options){0};
  const gconv_format_info *format = write.format ? write.format : gconv_format_by_path(path);
  if (like->height > INT32_MAX / (int64_t)c->planes)
    return gconv_fail(GCONV_TOO_LARGE, "%s: a picture of %zu planes below each other is too high", path, c->planes);
  write.shared = c->threads;
  c->picture = (gconv_image){.type = format ? gconv_format_type(format, GCONV_U8) : GCONV_U8,
                             .frames = 1,
                             .height = like->height * (int32_t)c->planes,
                             .width = like->width,
                             .channels = 1};
  GCONV_TRY(gconv_allocate((size_t)c->strip * (size_t)like->width, "the picture", (void **)&c->shades));
  GCONV_TRY(gconv_allocate(2 * (size_t)like->width * sizeof(float), "the picture", (void **)&c->shade_values));
  return gconv_row_writer_open(path, &write, &c->picture, &c->writer);
}

static gconv_status allocate(comparing *c) {
  const gconv_image *like = &c->sides[0].header;
  size_t seats = (size_t)gconv_threads_count(c->threads);
  size_t values[] = {seats * 2 * WINDOW, c->samples, sizeof *c->values};
  size_t rooms[] = {seats, gconv_similarity_room(c->step), sizeof *c->rooms};
  int64_t rows = 1;
  for (size_t i = 0; i < 2; i++) {
    int64_t fit = (int64_t)(STRIP_BYTES / gconv_image_row_bytes(&c->sides[i].header));
    rows = fit > rows ? fit : rows;
  }
  rows = (rows + ROWS_A_TURN - 1) / ROWS_A_TURN * ROWS_A_TURN;
  c->strip = rows < like->height ? (int32_t)rows : like->height;
  for (size_t i = 0; i < 2; i++)
    GCONV_TRY(gconv_row_band_reserve(&c->sides[i], c->strip + HALO));
  GCONV_TRY(gconv_allocate_workspace(gconv_checked_product(3, values), "rows of an image", (void **)&c->values));
  GCONV_TRY(gconv_allocate_workspace(gconv_checked_product(3, rooms), "sums of rows", (void **)&c->rooms));
  return gconv_allocate((size_t)c->strip * sizeof *c->results, "sums of rows", (void **)&c->results);
}

static gconv_status compare(comparing *c, gconv_difference *result) {
  const gconv_image *a = &c->sides[0].header, *b = &c->sides[1].header;
  c->floats = a->type == GCONV_F32 || b->type == GCONV_F32;
  c->white = c->floats ? 1 : a->type == GCONV_U8 && b->type == GCONV_U8 ? 255 : 65535;
  c->step = a->planar ? 1 : (size_t)a->channels;
  c->samples = (size_t)a->width * c->step;
  c->planes = (size_t)a->frames * (a->planar ? (size_t)a->channels : 1);
  GCONV_TRY(allocate(c));
  if (c->options->picture)
    GCONV_TRY(begin_picture(c));
  GCONV_TRY(compare_planes(c, result));
  if (!c->writer)
    return GCONV_OK;
  gconv_row_writer *writer = c->writer;
  c->writer = NULL;
  return gconv_row_writer_commit(writer);
}

static gconv_status open_both(const gconv_compared *a, const gconv_compared *b, comparing *c) {
  c->threads = c->options->threads;
  if (!c->threads) {
    GCONV_TRY(gconv_threads_create(0, &c->threads));
    c->own_threads = true;
  }
  GCONV_TRY(gconv_row_band_open(a, "the image", c->options->max_pixels, false, &c->sides[0]));
  GCONV_TRY(gconv_row_band_open(b, "the image", c->options->max_pixels, false, &c->sides[1]));
  return check_shapes(&c->sides[0], &c->sides[1]);
}

gconv_status gconv_image_compare(const gconv_compared *a, const gconv_compared *b, const gconv_compare_options *options,
                                 gconv_difference *result) {
  static const gconv_compare_options defaults = {0};
  GCONV_TRY(gconv_row_band_check(a, "gconv_image_compare", "a"));
  GCONV_TRY(gconv_row_band_check(b, "gconv_image_compare", "b"));
  GCONV_NEED(result);
  GCONV_NEED_KNOWN(options);
  comparing c = {.options = options ? options : &defaults};
  gconv_difference found = {0};
  gconv_status status = open_both(a, b, &c);
  GCONV_THEN(status, compare(&c, &found));
  if (status == GCONV_OK)
    *result = found;
  gconv_row_writer_discard(c.writer);
  gconv_row_band_close(&c.sides[0]);
  gconv_row_band_close(&c.sides[1]);
  gconv_release(c.values);
  gconv_release(c.rooms);
  gconv_release(c.results);
  gconv_release(c.shades);
  gconv_release(c.shade_values);
  if (c.own_threads)
    gconv_threads_free(c.threads);
  return status;
}
