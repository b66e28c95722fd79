/* SPDX-License-Identifier: MIT */
/*
 * By how much two images differ.
 *
 * Both are read by rows, some megabytes at a time, side by side. Threads then take parts of those rows. Samples become
 * float32 values that hold them exactly: levels, or, where one image has floats, fractions of white. All sums are float64
 * and go in a fixed order: the lanes of a row, then row after row. So results depend on neither threads nor memory.
 *
 * SSIM is that of Wang, Bovik, Sheikh and Simoncelli (2004) in the form of scikit-image's structural_similarity(): means,
 * variances and the covariance of uniform windows of 7 x 7 samples that lie inside the image, of each channel by itself,
 * with the divisor 48 of samples in place of 49; K1 is 0.01, K2 0.03.
 */
#include "base/arguments.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/threads.h"
#include "image/colour.h"
#include "image/format.h"
#include "image/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  WINDOW = 7,        /* rows and columns of a window of SSIM */
  HALO = WINDOW - 1, /* rows above a row that its windows need */
  LANES = 8,         /* partial sums of a row */
  COLUMNS = 1024,    /* that are summed at a time: five arrays of them fit into a cache of 64 KB */
  MOMENTS = 5,       /* a, b, a * a, b * b, a * b */
  ROWS_A_TURN = 16,
  STRIP_BYTES = 4 << 20 /* of one image's rows that are in memory at a time, roughly */
};

/* ---- Rows of float values -------------------------------------------------------------------------------------------- */

/* What a row adds to the sums, in units of its values. */
typedef struct sums {
  double absolute, squares, largest, similarity;
  uint64_t differing;
  int32_t at; /* the first sample that is off by `largest`; only known if that is more than what came before */
} sums;

/* scale: 257 turns levels of u8 into those of u16. */
GCONV_INLINE void widen_u8_body(const uint8_t *in, float *out, size_t count, float scale) {
  for (size_t i = 0; i < count; i++)
    out[i] = (float)in[i] * scale;
}
GCONV_VECTORIZED(widen_u8, (const uint8_t *in, float *out, size_t count, float scale), (in, out, count, scale))

GCONV_INLINE void widen_u16_body(const uint16_t *in, float *out, size_t count) {
  for (size_t i = 0; i < count; i++)
    out[i] = (float)in[i];
}
GCONV_VECTORIZED(widen_u16, (const uint16_t *in, float *out, size_t count), (in, out, count))

/* The sums of |a - b| and its square, its maximum and how often it is not 0, in LANES parts. */
GCONV_INLINE void differ_body(const float *a, const float *b, size_t count, double (*lanes)[LANES]) {
  double absolute[LANES] = {0}, squares[LANES] = {0}, largest[LANES] = {0}, differing[LANES] = {0};
  for (size_t i = 0; i + LANES <= count; i += LANES)
    for (size_t k = 0; k < LANES; k++) {
      double d = fabs((double)a[i + k] - (double)b[i + k]);
      absolute[k] += d;
      squares[k] += d * d;
      largest[k] = d > largest[k] ? d : largest[k];
      differing[k] += d > 0 ? 1.0 : 0.0;
    }
  for (size_t k = 0; k < LANES; k++) {
    lanes[0][k] = absolute[k];
    lanes[1][k] = squares[k];
    lanes[2][k] = largest[k];
    lanes[3][k] = differing[k];
  }
}
GCONV_VECTORIZED(differ, (const float *a, const float *b, size_t count, double (*lanes)[LANES]), (a, b, count, lanes))

/* |a - b|, where samples that are the same, infinite or no number, differ by 0, and any others that are not finite by
 * infinity. */
static double difference(float a, float b) {
  if (a == b || (isnan(a) && isnan(b)))
    return 0;
  return isfinite(a) && isfinite(b) ? fabs((double)a - (double)b) : INFINITY;
}

static void add_one_by_one(const float *a, const float *b, size_t first, size_t count, sums *row) {
  for (size_t i = first; i < count; i++) {
    double d = difference(a[i], b[i]);
    row->absolute += d;
    row->squares += d * d;
    row->largest = d > row->largest ? d : row->largest;
    row->differing += d > 0;
  }
}

static void compare_row(const float *a, const float *b, size_t count, double known, sums *row) {
  double lanes[4][LANES];
  *row = (sums){0};
  differ(a, b, count, lanes);
  for (size_t k = 0; k < LANES; k++) {
    row->absolute += lanes[0][k];
    row->squares += lanes[1][k];
    row->largest = lanes[2][k] > row->largest ? lanes[2][k] : row->largest;
    row->differing += (uint64_t)lanes[3][k];
  }
  bool finite = isfinite(row->absolute + row->squares);
  if (!finite)
    *row = (sums){0};
  add_one_by_one(a, b, finite ? count / LANES * LANES : 0, count, row);
  for (size_t i = 0; row->largest > known && i < count; i++)
    if (difference(a[i], b[i]) == row->largest) {
      row->at = (int32_t)i;
      break;
    }
}

/* ---- SSIM ------------------------------------------------------------------------------------------------------------ */

/* moments[m * stride + i] = the sum over WINDOW rows of moment m at column `first` + i. */
GCONV_INLINE void add_columns_body(const float *const *a, const float *const *b, size_t first, size_t count, size_t stride,
                                   double *restrict moments) {
  for (size_t i = 0; i < count; i++) {
    double sum_a = 0, sum_b = 0, sum_aa = 0, sum_bb = 0, sum_ab = 0;
    for (size_t r = 0; r < WINDOW; r++) {
      double x = (double)a[r][first + i], y = (double)b[r][first + i];
      sum_a += x;
      sum_b += y;
      sum_aa += x * x;
      sum_bb += y * y;
      sum_ab += x * y;
    }
    moments[i] = sum_a;
    moments[stride + i] = sum_b;
    moments[2 * stride + i] = sum_aa;
    moments[3 * stride + i] = sum_bb;
    moments[4 * stride + i] = sum_ab;
  }
}
GCONV_VECTORIZED(add_columns,
                 (const float *const *a, const float *const *b, size_t first, size_t count, size_t stride,
                  double *restrict moments),
                 (a, b, first, count, stride, moments))

/* The sum of WINDOW columns that are `step` samples apart. */
GCONV_INLINE double add_window(const double *column, size_t step) {
  return column[0] + column[step] + column[2 * step] + column[3 * step] + column[4 * step] + column[5 * step] +
         column[6 * step];
}

/* similarity[i] = SSIM of the window whose first column is moments[i]. */
GCONV_INLINE void find_similarity_body(const double *restrict moments, size_t stride, size_t step, size_t count, double c1,
                                       double c2, double *restrict similarity) {
  const double samples = WINDOW * WINDOW, unbiased = samples / (samples - 1);
  for (size_t i = 0; i < count; i++) {
    double a = add_window(moments + i, step) / samples, b = add_window(moments + stride + i, step) / samples;
    double aa = add_window(moments + 2 * stride + i, step) / samples,
           bb = add_window(moments + 3 * stride + i, step) / samples;
    double ab = add_window(moments + 4 * stride + i, step) / samples;
    double variances = unbiased * ((aa - a * a) + (bb - b * b)), covariance = unbiased * (ab - a * b);
    similarity[i] = ((2 * a * b + c1) * (2 * covariance + c2)) / ((a * a + b * b + c1) * (variances + c2));
  }
}
GCONV_VECTORIZED(find_similarity,
                 (const double *restrict moments, size_t stride, size_t step, size_t count, double c1, double c2,
                  double *restrict similarity),
                 (moments, stride, step, count, c1, c2, similarity))

/* The sum of SSIM over the windows whose last rows are a[WINDOW - 1] and b[WINDOW - 1]. `room` is for MOMENTS + 1 arrays. */
static double add_similarity(const float *const *a, const float *const *b, size_t samples, size_t step, double white,
                             double *room) {
  size_t windows = samples - HALO * step, stride = COLUMNS + HALO * step;
  double c1 = 0.01 * white * 0.01 * white, c2 = 0.03 * white * 0.03 * white, sum = 0;
  double *similarity = room + MOMENTS * stride;
  for (size_t first = 0; first < windows; first += COLUMNS) {
    size_t count = windows - first < COLUMNS ? windows - first : COLUMNS;
    double lanes[LANES] = {0};
    add_columns(a, b, first, count + HALO * step, stride, room);
    find_similarity(room, stride, step, count, c1, c2, similarity);
    for (size_t i = 0; i < count; i++)
      lanes[i % LANES] += similarity[i];
    for (size_t k = 0; k < LANES; k++)
      sum += lanes[k];
  }
  return sum;
}

/* ---- The picture ----------------------------------------------------------------------------------------------------- */

/* 0 for no difference; from 32 for one of 1/255 (of 1/65535, where samples are finer) on, each doubling is the same step, to
 * 255 for 1. */
static uint8_t shade(double fraction, double doublings) {
  if (fraction == 0)
    return 0;
  double height = 0.125 + 0.875 * (1 + log2(fraction) / doublings);
  return (uint8_t)rint(255 * (height < 0.125 ? 0.125 : height > 1 ? 1 : height));
}

static void draw_row(const float *a, const float *b, size_t pixels, size_t channels, double white, uint8_t *out) {
  double doublings = log2(white == 255 ? 255 : 65535);
  for (size_t x = 0; x < pixels; x++) {
    double largest = 0;
    for (size_t k = x * channels; k < (x + 1) * channels; k++) {
      double d = a[k] == b[k] ? 0 : difference(a[k], b[k]);
      largest = d > largest ? d : largest;
    }
    out[x] = largest == 0 ? 0 : shade(largest / white, doublings);
  }
}

/* ---- Both images ----------------------------------------------------------------------------------------------------- */

/* One of the two images. Its rows are those of all planes, one after the other. */
typedef struct side {
  const char *name;
  gconv_row_reader *reader; /* owned; NULL: rows are in memory: */
  const gconv_image *image;
  gconv_image own;     /* that was read as a whole; owned */
  gconv_image header;  /* without pixels and profile */
  uint8_t *window;     /* owned: rows of the strip, with HALO rows before them */
  size_t row_bytes;    /* of the window, or of the image */
  const uint8_t *rows; /* the first row that the strip needs */
  gconv_status status; /* of reading the strip */
  char *why;           /* owned */
} side;

typedef struct comparing {
  const gconv_compare_options *options;
  gconv_threads *threads;
  bool own_threads;
  side sides[2];
  double white;         /* in units of the values */
  bool floats;          /* one has floats: values are fractions of white */
  size_t samples, step; /* of a row; from a sample to the next of its channel */
  size_t planes;
  int32_t strip;   /* rows at a time */
  double known;    /* the largest difference before the strip */
  float *values;   /* owned: [seats][2][WINDOW][samples] */
  double *rooms;   /* owned: [seats][MOMENTS + 1][COLUMNS + HALO * step] */
  sums *results;   /* owned: [strip] */
  uint8_t *shades; /* owned: [strip][width]; NULL: no picture is wanted */
  gconv_row_writer *writer;
  gconv_image picture; /* its header, then with rows of a strip, if they are no bytes */
  float *shade_values; /* owned: [2][width]: a row of the picture as floats, and as its type */

  size_t plane;         /* of the strip: ... */
  int32_t first, count; /* ... its rows */
} comparing;

static gconv_status open_side(const gconv_compared *compared, const gconv_compare_options *options, side *s) {
  gconv_read_options read = {.max_pixels = options->max_pixels};
  s->name = compared->path ? compared->path : "the image";
  s->image = compared->image;
  if (!s->image) {
    GCONV_TRY(gconv_row_reader_open(compared->path, &read, &s->reader));
    s->header = *gconv_row_reader_header(s->reader);
    if (!gconv_row_reader_is_in_order(s->reader)) {
      GCONV_TRY(gconv_row_reader_image(s->reader, &s->own));
      gconv_row_reader_close(s->reader);
      s->reader = NULL;
      s->image = &s->own;
    }
  }
  if (s->image && !s->image->data)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s has no pixels", s->name);
  if (s->image)
    s->header = *s->image;
  s->header.data = s->header.icc = NULL;
  s->header.icc_bytes = 0;
  return GCONV_OK;
}

static void close_side(side *s) {
  gconv_row_reader_close(s->reader);
  gconv_image_free(&s->own);
  gconv_release(s->window);
  free(s->why);
}

static void print_shape(const gconv_image *image, char text[128]) {
  static const char *const colours[] = {"", "grey", "grey and alpha", "RGB", "RGB and alpha"};
  int used = snprintf(text, 128, "%d x %d", (int)image->width, (int)image->height);
  if (image->frames > 1)
    used += snprintf(text + used, 128 - (size_t)used, ", %d frames", (int)image->frames);
  used += snprintf(text + used, 128 - (size_t)used, ", %d channel%s", (int)image->channels, image->channels == 1 ? "" : "s");
  if (image->channels <= 4 && image->alpha == (image->channels % 2 == 0))
    snprintf(text + used, 128 - (size_t)used, " (%s)", colours[image->channels]);
  else if (image->planar)
    snprintf(text + used, 128 - (size_t)used, " (planes)");
}

static gconv_status check_shapes(const side *a, const side *b) {
  const gconv_image *x = &a->header, *y = &b->header;
  bool sizes = x->frames == y->frames && x->height == y->height && x->width == y->width && x->channels == y->channels;
  char shape_a[128], shape_b[128];
  if (sizes && (x->planar == y->planar || x->channels == 1))
    return GCONV_OK;
  print_shape(x, shape_a);
  print_shape(y, shape_b);
  if (sizes)
    return gconv_fail(
        GCONV_BAD_ARGUMENT,
        "%s and %s cannot be compared: one has its channels as planes (N x C x H x W), the other pixel by pixel", a->name,
        b->name);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s is %s, and %s is %s: only images of one shape can be compared", a->name, shape_a,
                    b->name, shape_b);
}

/* ---- Reading a strip ------------------------------------------------------------------------------------------------- */

/* Rows of the strip, and those above it in the same plane, that its windows need. */
static int32_t rows_above(const comparing *c) {
  return c->first < HALO ? c->first : HALO;
}

static void read_side(void *context, size_t turn, int seat) {
  comparing *c = context;
  side *s = &c->sides[turn];
  (void)seat;
  int32_t above = rows_above(c);
  if (s->image) {
    s->rows = (const uint8_t *)s->image->data + c->plane * s->image->plane_bytes + (size_t)(c->first - above) * s->row_bytes;
    return;
  }
  if (above > 0) /* the last rows of the strip before, which had c->strip rows and may have had fewer above it */
    memmove(s->window,
            s->rows + (size_t)((c->first - c->strip < HALO ? c->first - c->strip : HALO) + c->strip - above) * s->row_bytes,
            (size_t)above * s->row_bytes);
  s->rows = s->window;
  s->status = gconv_row_reader_read(s->reader, s->window + (size_t)above * s->row_bytes, s->row_bytes, c->count);
  if (s->status != GCONV_OK)
    s->why = strdup(gconv_last_error());
}

static gconv_status read_strip(comparing *c) {
  gconv_threads_run(c->threads, 2, read_side, c);
  for (size_t i = 0; i < 2; i++)
    if (c->sides[i].status != GCONV_OK)
      return gconv_set_error(c->sides[i].status, c->sides[i].why ? c->sides[i].why : "out of memory");
  return GCONV_OK;
}

/* ---- Comparing a strip ----------------------------------------------------------------------------------------------- */

static void load_values(const comparing *c, size_t number, int32_t row, float *values) {
  const side *s = &c->sides[number];
  const uint8_t *from = s->rows + (size_t)(row - c->first + rows_above(c)) * s->row_bytes;
  if (c->floats)
    gconv_colour_to_float_row(s->header.type, from, values, c->samples);
  else if (s->header.type == GCONV_U8)
    widen_u8(from, values, c->samples, c->white == 255 ? 1 : 257);
  else
    widen_u16((const uint16_t *)(const void *)from, values, c->samples);
}

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
      load_values(c, i, row, values[i] + (size_t)(row % WINDOW) * samples);
      for (int32_t r = 0; r < WINDOW; r++)
        ring[i][r] = values[i] + (size_t)((row + 1 + r) % WINDOW) * samples;
    }
    const float *a = ring[0][WINDOW - 1], *b = ring[1][WINDOW - 1];
    if (row < first)
      continue;
    sums *result = &c->results[row - c->first];
    compare_row(a, b, samples, c->known, result);
    if (windows && row >= HALO)
      result->similarity = add_similarity(ring[0], ring[1], samples, c->step, c->white,
                                          c->rooms + (size_t)seat * (MOMENTS + 1) * (COLUMNS + HALO * c->step));
    if (c->shades) {
      size_t width = (size_t)c->sides[0].header.width;
      draw_row(a, b, width, c->step, c->white, c->shades + (size_t)(row - c->first) * width);
    }
  }
}

/* ---- Sums of many rows ----------------------------------------------------------------------------------------------- */

/* Sums over a frame, or over all. */
typedef struct total {
  double absolute, squares, similarity;
  gconv_difference found;
} total;

static void add_row(const comparing *c, const sums *row, int32_t y, total *t) {
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

/* The numbers that sums over `frames` frames come to. */
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
  GCONV_TRY(read_strip(c));
  c->known = frame->found.largest; /* that of a frame is never more than that of all */
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

/* The picture has all planes, one below the other. */
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
  size_t rooms[] = {seats * (MOMENTS + 1), COLUMNS + HALO * c->step, sizeof *c->rooms};
  int64_t rows = 1;
  for (size_t i = 0; i < 2; i++) {
    side *s = &c->sides[i];
    s->row_bytes = s->image ? s->image->row_bytes : gconv_image_row_bytes(&s->header);
    int64_t fit = (int64_t)(STRIP_BYTES / gconv_image_row_bytes(&s->header));
    rows = fit > rows ? fit : rows;
  }
  rows = (rows + ROWS_A_TURN - 1) / ROWS_A_TURN * ROWS_A_TURN;
  c->strip = rows < like->height ? (int32_t)rows : like->height;
  for (size_t i = 0; i < 2; i++) {
    size_t window[] = {(size_t)c->strip + HALO, c->sides[i].row_bytes};
    if (!c->sides[i].image)
      GCONV_TRY(gconv_allocate(gconv_product(2, window), "rows of an image", (void **)&c->sides[i].window));
  }
  GCONV_TRY(gconv_allocate_workspace(gconv_product(3, values), "rows of an image", (void **)&c->values));
  GCONV_TRY(gconv_allocate_workspace(gconv_product(3, rooms), "sums of rows", (void **)&c->rooms));
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
  GCONV_TRY(open_side(a, c->options, &c->sides[0]));
  GCONV_TRY(open_side(b, c->options, &c->sides[1]));
  return check_shapes(&c->sides[0], &c->sides[1]);
}

static gconv_status check_side(const gconv_compared *given, const char *name) {
  if (!given || (!given->path && !given->image))
    return gconv_fail(GCONV_BAD_ARGUMENT, "gconv_image_compare(): %s is NULL, or names no image", name);
  return given->image ? gconv_check_pixels(given->image, name) : GCONV_OK;
}

gconv_status gconv_image_compare(const gconv_compared *a, const gconv_compared *b, const gconv_compare_options *options,
                                 gconv_difference *result) {
  static const gconv_compare_options defaults = {0};
  GCONV_TRY(check_side(a, "a"));
  GCONV_TRY(check_side(b, "b"));
  GCONV_NEED(result);
  comparing c = {.options = options ? options : &defaults};
  gconv_difference found = {0};
  gconv_status status = open_both(a, b, &c);
  if (status == GCONV_OK)
    status = compare(&c, &found);
  if (status == GCONV_OK)
    *result = found;
  gconv_row_writer_discard(c.writer);
  close_side(&c.sides[0]);
  close_side(&c.sides[1]);
  gconv_release(c.values);
  gconv_release(c.rooms);
  gconv_release(c.results);
  gconv_release(c.shades);
  gconv_release(c.shade_values);
  if (c.own_threads)
    gconv_threads_free(c.threads);
  return status;
}
