/* SPDX-License-Identifier: MIT */
#include "layer/present.h"
#include "base/memory.h"
#include "base/status.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* ---- Kinds and layout of outputs ---- */

/* Returns how many columns make the sheet about square and, if possible, leave no empty places in its last row. */
static int32_t mosaic_columns(int32_t count, int32_t height, int32_t width) {
  double square = sqrt((double)count * (height + GCONV_MOSAIC_GAP) / (width + GCONV_MOSAIC_GAP)), off = 1.5;
  int32_t columns = (int32_t)ceil(square), full = 0;
  for (int32_t n = 1; n <= count && n < 2 * square; n++)
    if (count % n == 0 && fmax(n / square, square / n) <= off + 1e-6) {
      off = fmax(n / square, square / n);
      full = n;
    }
  if (full > 0)
    return full;
  return columns < 1 ? 1 : columns > count ? count : columns;
}

static gconv_status check_mosaic(const gconv_presenter *p) {
  int64_t rows = (p->tiles - 1) / p->columns + 1;
  int64_t height = rows * ((int64_t)p->height + GCONV_MOSAIC_GAP),
          width = p->columns * ((int64_t)p->width + GCONV_MOSAIC_GAP);
  if (height - GCONV_MOSAIC_GAP > INT32_MAX || width - GCONV_MOSAIC_GAP > INT32_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "a mosaic of all outputs is too large: use --combine none");
  return GCONV_OK;
}

/* Sets rgb to the full colour at `turn` of the circle of hues, from red over green to blue. */
static void hue(double turn, float rgb[3]) {
  for (int c = 0; c < 3; c++) {
    double distance = fabs(turn * 6 - 2 * c);
    distance = fmin(distance, 6 - distance);
    rgb[c] = (float)fmin(fmax(2 - distance, 0), 1);
  }
}

static gconv_status make_colours(gconv_presenter *p, int32_t labels) {
  const gconv_curve plain = {1, 0, false};
  size_t bytes = 3 * gconv_type_bytes(p->tone.type);
  p->colours = malloc((size_t)labels * bytes);
  GCONV_NEED_MEMORY(p->colours, "no memory for the colours of labels");
  for (int32_t k = 0; k < labels; k++) {
    float rgb[3];
    hue((double)k / labels, rgb);
    gconv_tone_put_row(p->tone.type, plain, rgb, 3, p->colours + (size_t)k * bytes, 0, 1);
  }
  return GCONV_OK;
}

/* Sets p->colours to the pixels of the classes. */
static gconv_status make_values(gconv_presenter *p, const gconv_network_options *options, int32_t filters) {
  const bool wide = p->tone.type == GCONV_U16;
  if (p->tone.type == GCONV_F32)
    return gconv_fail(GCONV_UNSUPPORTED, "maps of classes are u8 or u16, not f32");
  p->colours = malloc((size_t)filters * sizeof(uint16_t));
  GCONV_NEED_MEMORY(p->colours, "no memory for the numbers of classes");
  for (int32_t k = 0; k < filters; k++) {
    bool given = options->class_values && (size_t)k < options->class_value_count;
    int32_t value = given ? options->class_values[k] : k + 1;
    if (value > (wide ? UINT16_MAX : UINT8_MAX))
      return gconv_fail(GCONV_UNSUPPORTED, "class %d has the number %d, and a map of %d bits holds up to %d", (int)k + 1,
                        (int)value, wide ? 16 : 8, wide ? UINT16_MAX : UINT8_MAX);
    const uint16_t both = (uint16_t)value;
    const uint8_t narrow = (uint8_t)value;
    size_t bytes = gconv_type_bytes(p->tone.type);
    memcpy(p->colours + (size_t)k * bytes, wide ? (const void *)&both : &narrow, bytes);
  }
  return GCONV_OK;
}

/* True if a pixel shows which filter responds most. */
static bool has_labels(const gconv_presenter *p) {
  return p->kind == GCONV_PRESENT_LABELS || p->kind == GCONV_PRESENT_CLASSES;
}

/* Prepares one picture like the input. */
static gconv_status make_image(gconv_presenter *p, const gconv_image *maps, const gconv_image *in,
                               const gconv_network_options *options, bool any_size) {
  const gconv_combine combine = options->combine;
  const int32_t colours = in->channels - (in->alpha && in->channels > 1);
  bool whole = maps->channels == in->channels,
       fits = whole || maps->channels == colours || (options->luma && maps->channels == 1);
  if (!fits || (!any_size && (maps->height != in->height || maps->width != in->width)) || combine != GCONV_COMBINE_NONE)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "the network makes %d x %d x %d (channels, height, width) of %d x %d x %d: that is no image like its "
                      "input: write .npy",
                      maps->channels, maps->height, maps->width, colours, in->height, in->width);
  if (in->channels > 4)
    return gconv_fail(GCONV_UNSUPPORTED, "an image of %d channels is no picture: write .npy", in->channels);
  p->planes = maps->channels;
  p->channels = in->channels;
  p->alpha = in->alpha && in->channels > 1;
  return GCONV_OK;
}

gconv_status gconv_presenter_make(const gconv_network_options *options, const gconv_image *maps, int32_t filters,
                                  const gconv_image *in, bool any_size, gconv_presenter *p) {
  bool colour = maps->channels == 3 * filters; /* channel c * K + k belongs to filter k */
  *p = (gconv_presenter){.kind = options->presentation, .tone = options->tone, .height = maps->height, .width = maps->width};
  p->tiles = p->columns = p->planes = p->plane_step = 1;
  switch (p->kind) {
  case GCONV_PRESENT_TENSOR:
    p->channels = maps->channels;
    return GCONV_OK;
  case GCONV_PRESENT_COMBINED:
    p->planes = p->channels = maps->channels;
    if (p->planes == 1 || p->planes == 3)
      return GCONV_OK;
    return gconv_fail(GCONV_UNSUPPORTED, "a combination for each of %d channels is no picture: write .npy", p->planes);
  case GCONV_PRESENT_LABELS:
    p->channels = 3;
    return make_colours(p, filters);
  case GCONV_PRESENT_CLASSES:
    p->channels = 1;
    if (options->combine != GCONV_COMBINE_ARGMAX)
      return gconv_fail(GCONV_BAD_ARGUMENT, "a map of classes takes options->combine argmax");
    return make_values(p, options, filters);
  case GCONV_PRESENT_IMAGE:
    return make_image(p, maps, in, options, any_size);
  case GCONV_PRESENT_PICTURES:
  case GCONV_PRESENT_MOSAIC:
    p->planes = p->channels = colour ? 3 : 1;
    p->plane_step = filters;
    p->tiles = colour ? filters : maps->channels;
    if (p->kind == GCONV_PRESENT_PICTURES)
      return p->tiles == filters
                 ? GCONV_OK
                 : gconv_fail(GCONV_UNSUPPORTED, "a bank for each channel makes pictures of 1 or 3 channels only: "
                                                 "write .npy, or use --combine");
    p->columns = mosaic_columns(p->tiles, p->height, p->width);
    return check_mosaic(p);
  }
  return gconv_fail(GCONV_BAD_ARGUMENT, "there is no presentation number %d", (int)p->kind);
}

void gconv_presenter_free(gconv_presenter *p) {
  for (int32_t i = 0; p->surveys && i < p->tiles; i++)
    gconv_survey_free(&p->surveys[i]);
  free(p->colours);
  free(p->surveys);
  free(p->curves);
  *p = (gconv_presenter){0};
}

size_t gconv_presenter_outputs(const gconv_presenter *p) {
  return p->kind == GCONV_PRESENT_PICTURES ? (size_t)p->tiles : 1;
}

gconv_image gconv_presenter_header(const gconv_presenter *p, int32_t frames) {
  gconv_image header = {.type = p->tone.type, .frames = frames, .height = p->height, .width = p->width};
  header.channels = p->channels;
  header.alpha = p->alpha;
  if (p->kind == GCONV_PRESENT_TENSOR) {
    header.type = GCONV_F32;
    header.planar = true;
  } else if (p->kind == GCONV_PRESENT_MOSAIC) {
    header.height = ((p->tiles - 1) / p->columns + 1) * (p->height + GCONV_MOSAIC_GAP) - GCONV_MOSAIC_GAP;
    header.width = p->columns * (p->width + GCONV_MOSAIC_GAP) - GCONV_MOSAIC_GAP;
  }
  return header;
}

/* ---- A tile ---- */

/* Returns the planes of a tile, in maps of all rows or of some. */
static gconv_planes planes_of(const gconv_presenter *p, const gconv_image *maps, int32_t frame, int32_t tile) {
  gconv_planes from = {.count = p->planes, .height = maps->height, .width = maps->width};
  const int32_t colours = p->planes - (p->alpha && p->planes == p->channels); /* alpha stays the last */
  for (int32_t c = 0; c < from.count; c++) {
    size_t plane = (size_t)frame * (size_t)maps->channels + (size_t)(c * p->plane_step + tile);
    from.plane[p->reversed && c < colours ? colours - 1 - c : c] =
        (const float *)maps->data + plane * (maps->plane_bytes / sizeof(float));
  }
  return from;
}

/* Puts the pixels of labels on a picture. Where no filter is the largest (NaN), there is no class: the pixel is 0, or
 * black. */
static void put_labels(const gconv_presenter *p, const gconv_planes *from, gconv_image *picture) {
  size_t bytes = (size_t)p->channels * gconv_type_bytes(p->tone.type);
  bool lost = false;
  const float *label = from->plane[0];
  for (int32_t y = 0; y < from->height; y++) {
    uint8_t *to = (uint8_t *)picture->data + (size_t)y * picture->row_bytes;
    for (int32_t x = 0; x < from->width; x++, to += bytes, label++)
      if (isnan(*label)) {
        memset(to, 0, bytes);
        lost = true;
      } else if (bytes == 1) {
        *to = p->colours[(size_t)*label];
      } else {
        memcpy(to, p->colours + (size_t)*label * bytes, bytes);
      }
  }
  if (lost)
    gconv_warn_once("pixels without a class",
                    "where numbers are NaN or infinite, pixels of a map have no class: they are %s",
                    p->kind == GCONV_PRESENT_CLASSES ? "0, unlabelled" : "black");
}

/* Puts a tile, or rows of it, on a picture. Labels have colours, and no curve. */
static void put(const gconv_presenter *p, const gconv_planes *from, gconv_curve curve, gconv_image *picture, int32_t top,
                int32_t left) {
  if (has_labels(p))
    put_labels(p, from, picture);
  else
    gconv_tone_put(p->tone.type, curve, from, picture, top, left);
}

/* Returns a frame of a picture, as a picture. */
static gconv_image frame_of(const gconv_image *picture, int32_t frame) {
  gconv_image one = *picture;
  one.frames = 1;
  one.data = (uint8_t *)picture->data + (size_t)frame * picture->plane_bytes;
  return one;
}

static void make_black(gconv_image *picture, int32_t first) {
  size_t bytes = (size_t)picture->width * (size_t)picture->channels * gconv_type_bytes(picture->type);
  for (int32_t y = first; y < picture->height; y++)
    memset((uint8_t *)picture->data + (size_t)y * picture->row_bytes, 0, bytes);
}

bool gconv_presenter_surveys(const gconv_presenter *p) {
  return gconv_presenter_presents(p) && !has_labels(p) && gconv_tone_surveys(&p->tone);
}

/* ---- Whole ---- */

typedef struct painting {
  gconv_presenter *p;
  const gconv_image *maps;
  gconv_image *outputs;
  int32_t first;      /* by rows: the row of the tiles that the maps begin with */
  int32_t first_tile; /* by rows: the first tile that is painted */
  atomic_bool failed; /* memory was lacking */
} painting;

static gconv_status paint(const painting *job, int32_t frame, int32_t tile) {
  const gconv_presenter *p = job->p;
  gconv_planes from = planes_of(p, job->maps, frame, tile);
  gconv_image picture = frame_of(&job->outputs[p->kind == GCONV_PRESENT_PICTURES ? tile : 0], frame);
  int32_t place = p->kind == GCONV_PRESENT_PICTURES ? 0 : tile;
  GCONV_ENDED_BY(gconv_survey_free) gconv_survey survey = {0};
  if (gconv_presenter_surveys(p)) {
    GCONV_TRY(gconv_survey_begin(from.count, from.height, from.width, &survey));
    gconv_survey_add(&survey, &from, 0);
  }
  put(p, &from, gconv_tone_curve(&p->tone, &survey), &picture, place / p->columns * (p->height + GCONV_MOSAIC_GAP),
      place % p->columns * (p->width + GCONV_MOSAIC_GAP));
  return GCONV_OK;
}

static void paint_tile(void *context, size_t turn, int seat) {
  painting *job = context;
  if (paint(job, (int32_t)(turn / (size_t)job->p->tiles), (int32_t)(turn % (size_t)job->p->tiles)) != GCONV_OK)
    atomic_store(&job->failed, true);
}

gconv_status gconv_present(const gconv_presenter *p, gconv_threads *threads, const gconv_image *maps, gconv_image *outputs) {
  painting job = {.p = (gconv_presenter *)p, .maps = maps, .outputs = outputs};
  for (int32_t frame = 0; frame < maps->frames && p->kind == GCONV_PRESENT_MOSAIC; frame++) {
    gconv_image sheet = frame_of(outputs, frame);
    make_black(&sheet, 0);
  }
  gconv_threads_run(threads, (size_t)maps->frames * (size_t)p->tiles, paint_tile, &job);
  return atomic_load(&job.failed) ? gconv_fail(GCONV_NO_MEMORY, "no memory to make a picture") : GCONV_OK;
}

/* ---- By rows ---- */

gconv_status gconv_presenter_begin_survey(gconv_presenter *p) {
  if (!p->surveys)
    GCONV_NEW(p->surveys, (size_t)p->tiles, "no memory to survey pictures");
  for (int32_t i = 0; i < p->tiles; i++) {
    gconv_survey_free(&p->surveys[i]);
    GCONV_TRY(gconv_survey_begin(p->planes, p->height, p->width, &p->surveys[i]));
  }
  return GCONV_OK;
}

static void survey_tile(void *context, size_t tile, int seat) {
  const painting *job = context;
  gconv_planes planes = planes_of(job->p, job->maps, 0, (int32_t)tile);
  gconv_survey_add(&job->p->surveys[tile], &planes, job->first);
}

void gconv_presenter_survey(gconv_presenter *p, gconv_threads *threads, const gconv_image *maps, int32_t first) {
  painting job = {.p = p, .maps = maps, .first = first};
  gconv_threads_run(threads, (size_t)p->tiles, survey_tile, &job);
}

gconv_status gconv_presenter_end_survey(gconv_presenter *p) {
  if (!p->curves)
    GCONV_NEW(p->curves, (size_t)p->tiles, "no memory to survey pictures");
  gconv_survey none = {0};
  for (int32_t i = 0; i < p->tiles; i++) /* surveys stay, as a pass may be begun again */
    p->curves[i] = gconv_tone_curve(&p->tone, p->surveys ? &p->surveys[i] : &none);
  return GCONV_OK;
}

static void paint_rows(void *context, size_t turn, int seat) {
  const painting *job = context;
  const gconv_presenter *p = job->p;
  int32_t tile = job->first_tile + (int32_t)turn;
  bool own = p->kind == GCONV_PRESENT_PICTURES;
  gconv_image *picture = &job->outputs[own ? tile : 0];
  if (!picture->data)
    return;
  gconv_planes planes = planes_of(p, job->maps, 0, tile);
  put(p, &planes, p->curves[tile], picture, 0, own ? 0 : (int32_t)turn * (p->width + GCONV_MOSAIC_GAP));
}

void gconv_present_rows(const gconv_presenter *p, gconv_threads *threads, const gconv_image *maps, int32_t tile_row,
                        gconv_image *outputs) {
  painting job = {.p = (gconv_presenter *)p, .maps = maps, .outputs = outputs, .first_tile = tile_row * p->columns};
  int32_t end = p->kind == GCONV_PRESENT_MOSAIC ? job.first_tile + p->columns : p->tiles;
  end = end < p->tiles ? end : p->tiles;
  if (p->kind == GCONV_PRESENT_MOSAIC && outputs->data)
    make_black(outputs, 0);
  if (maps->height > 0)
    gconv_threads_run(threads, (size_t)(end - job.first_tile), paint_rows, &job);
}

/* ---- Losses ---- */

/* A row of places in the planes of a tile. */
typedef struct place_row {
  const gconv_planes *planes;
  gconv_curve curve;
  int columns;
  int64_t at; /* the row, counted over all frames */
  int32_t y;  /* the row within the planes */
} place_row;

static double value_at(const void *context, int place) {
  const place_row *row = context;
  int32_t plane = place % row->planes->count, width = row->planes->width;
  return gconv_tone_value(
      row->curve,
      row->planes->plane[plane][(int64_t)row->y * width + gconv_loss_column(width, row->columns, place, row->at)]);
}

static double level_at(const void *context, int place) {
  const place_row *row = context;
  double value = value_at(row, place); /* values within half a level of an end are stored as that end */
  return value <= 0 ? 0 : value >= 1 ? (double)INT32_MAX : 1;
}

static void watch_tile(const gconv_presenter *p, const gconv_planes *planes, int32_t frames, int32_t frame, int32_t first,
                       gconv_losses *losses) {
  const gconv_survey none = {0};
  int64_t all = (int64_t)frames * p->height;
  int rows = all < GCONV_LOSS_ROWS ? (int)all : GCONV_LOSS_ROWS, columns = p->tiles < 8 ? GCONV_LOSS_COLUMNS / p->tiles : 8;
  place_row row = {.planes = planes, .columns = columns < planes->width ? columns : planes->width};
  row.curve = gconv_tone_curve(&p->tone, (gconv_survey *)&none);
  gconv_loss_row_source source = {.places = row.columns,
                                  .most = GCONV_LOSS_COLUMNS,
                                  .white = p->tone.type == GCONV_U8 ? 255 : 65535,
                                  .stored = level_at,
                                  .response = value_at,
                                  .context = &row};
  for (int i = 0; i < rows; i++) {
    row.at = gconv_loss_row(all, rows, i);
    row.y = (int32_t)(row.at % p->height) - first;
    if (row.at / p->height == frame && row.y >= 0 && row.y < planes->height)
      gconv_losses_add_row(&source, losses);
  }
  losses->is_signed = p->tone.range == GCONV_RANGE_SIGNED;
}

void gconv_presenter_watch(const gconv_presenter *p, const gconv_image *maps, int32_t first, gconv_losses *losses) {
  bool loses = gconv_presenter_presents(p) && !has_labels(p) && !gconv_tone_surveys(&p->tone) && p->tone.type != GCONV_F32;
  for (int32_t frame = 0; loses && frame < maps->frames; frame++)
    for (int32_t tile = 0; tile < p->tiles; tile++) {
      gconv_planes planes = planes_of(p, maps, frame, tile);
      watch_tile(p, &planes, maps->frames, frame, first, &losses[p->kind == GCONV_PRESENT_PICTURES ? tile : 0]);
    }
}
