/* SPDX-License-Identifier: MIT */
/*
 * Finds the statistics of an image.
 *
 * The image is read by rows, a strip at a time. Threads then take parts of the strip. Levels are counted, so that statistics
 * of integers are exact, except for sums of responses. Sums of floats go in a fixed order, row after row, so that results do
 * not depend on the number of threads.
 */
#include "measure/stats.h"
#include "base/arguments.h"
#include "base/control.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "base/threads.h"
#include "image/layout.h"
#include "image/row_band.h"
#include "measure/ranks.h"
#include "measure/stats_rows.h"

#include <math.h>
#include <string.h>

enum {
  ROWS_A_TURN = 16, /* even, because blocks of 2 x 2 samples must not cross turns */
  STRIP_BYTES = 2 << 20,
  FLOAT_ROWS = ROWS_A_TURN + 2 /* rows of a turn, with one above and one below */
};

/* The counts of a thread for the channels of a plane. */
typedef struct seat {
  uint64_t *levels, *blocks; /* [step][bins]; owned */
  float *rows;               /* [FLOAT_ROWS][samples] of floats; owned */
  uint8_t *marks;            /* [samples]: 1 for no data; owned */
} seat;

typedef struct measuring {
  gconv_threads *threads;
  gconv_row_band band;
  gconv_type type; /* as which samples are counted: that of the image, or f32 if a number stands for no data */
  double unit, white;
  size_t channels, step, samples; /* step: channels of a row; samples of a row */
  size_t level_bins, block_bins;
  seat *seats; /* owned */
  size_t seat_count;
  uint64_t *levels, *blocks;         /* [channels + 1][bins], the last of all colours; owned */
  uint32_t *keys, *block_keys;       /* [channels][key_count] of floats; owned */
  size_t key_count, block_key_count; /* of a channel */
  uint64_t *lower;                   /* for ranks of floats; owned */
  gconv_stats_sums *sums, *row_sums; /* [channels + 1]; [strip][step]; owned */
  int32_t strip, first, count;       /* rows of a strip; the first row of the current strip, and how many it has */
} measuring;

static bool is_float(const measuring *m) {
  return m->type == GCONV_F32;
}

/* ---- A strip --------------------------------------------------------------------------------------------------------- */

/* Converts a row to floats in units of the results; missing samples become NaN. */
static void load_floats(const measuring *m, const seat *s, int32_t y, float *out) {
  const gconv_image *header = &m->band.header;
  const void *row = gconv_row_band_row(&m->band, y);
  const bool missing = gconv_nodata_mark(header, row, m->samples, s->marks);
  for (size_t i = 0; i < m->samples; i++)
    out[i] = header->type == GCONV_U8    ? (float)((const uint8_t *)row)[i]
             : header->type == GCONV_U16 ? (float)((const uint16_t *)row)[i]
             : m->unit == 1              ? ((const float *)row)[i]
                                         : (float)((double)((const float *)row)[i] * m->unit);
  for (size_t i = 0; missing && i < m->samples; i++)
    out[i] = s->marks[i] ? NAN : out[i];
}

/* Stores the keys of a row of floats, and counts them. */
static void count_floats(const measuring *m, const seat *s, int32_t y, const float *row) {
  const size_t width = (size_t)m->band.header.width, height = (size_t)m->band.header.height;
  const bool planar = m->band.header.planar;
  const size_t frame = planar ? m->band.plane / m->channels : m->band.plane,
               channel = planar ? m->band.plane % m->channels : 0;
  uint32_t *keys = m->keys + channel * m->key_count + (frame * height + (size_t)y) * width;
  for (size_t c = 0; c < m->step; c++)
    for (size_t x = 0; x < width; x++) {
      const float value = row[x * m->step + c];
      const uint32_t key = isfinite(value) ? gconv_ranks_key(value) : GCONV_NO_KEY;
      keys[c * m->key_count + x] = key;
      s->levels[c * m->level_bins + (key >> 16)] += key != GCONV_NO_KEY;
    }
}

/* Stores and counts the keys of |a - b - c + d| of blocks of 2 x 2 samples of two rows. */
static void count_float_blocks(const measuring *m, const seat *s, int32_t y, const float *a, const float *b) {
  const size_t width = (size_t)m->band.header.width / 2, height = (size_t)m->band.header.height / 2;
  const bool planar = m->band.header.planar;
  const size_t frame = planar ? m->band.plane / m->channels : m->band.plane,
               channel = planar ? m->band.plane % m->channels : 0;
  uint32_t *keys = m->block_keys + channel * m->block_key_count + (frame * height + (size_t)y / 2) * width;
  for (size_t c = 0; c < m->step; c++)
    for (size_t x = 0; x < width; x++) {
      const size_t l = 2 * x * m->step + c, r = l + m->step;
      const double value = fabs((double)a[l] - (double)a[r] - (double)b[l] + (double)b[r]);
      const uint32_t key = isfinite((float)value) ? gconv_ranks_key((float)value) : GCONV_NO_KEY;
      keys[c * m->block_key_count + x] = key;
      s->blocks[c * m->block_bins + (key >> 16)] += key != GCONV_NO_KEY;
    }
}

/* Adds ROWS_A_TURN rows of the strip to sums and counts. */
static void take_rows(void *context, size_t turn, int number) {
  const measuring *m = context;
  const seat *s = &m->seats[number];
  const int32_t height = m->band.header.height, end = m->first + m->count;
  const int32_t first = m->first + (int32_t)turn * ROWS_A_TURN, last = end - first < ROWS_A_TURN ? end : first + ROWS_A_TURN;
  const size_t width = (size_t)m->band.header.width;
  const int32_t above = first > 0 ? first - 1 : first, below = last < height ? last + 1 : last;
  const void *rows[FLOAT_ROWS];
  for (int32_t y = above; y < below; y++) {
    rows[y - above] = gconv_row_band_row(&m->band, y);
    if (is_float(m)) {
      float *floats = s->rows + (size_t)(y - above) * m->samples;
      load_floats(m, s, y, floats);
      rows[y - above] = floats;
    }
  }
  for (int32_t y = first; y < last; y++) {
    gconv_stats_sums *sums = &m->row_sums[(size_t)(y - m->first) * m->step];
    const int32_t up = y > 0 ? y - 1 : y + 1 < height ? y + 1 : y, down = y + 1 < height ? y + 1 : up;
    const void *three[3] = {rows[up - above], rows[y - above], rows[down - above]};
    const void *pair[2] = {three[1], three[2]};
    memset(sums, 0, m->step * sizeof *sums);
    gconv_stats_responses(m->type, three, width, m->step, y > 0 && y + 1 < height, sums);
    if (is_float(m)) {
      gconv_stats_floats(three[1], width, m->step, m->white, sums);
      count_floats(m, s, y, three[1]);
    }
    if (y % 2 == 1 || y + 1 == height)
      continue;
    if (is_float(m))
      count_float_blocks(m, s, y, pair[0], pair[1]);
    else
      gconv_stats_count_blocks(m->type, pair, width, m->step, s->blocks);
  }
  if (!is_float(m))
    gconv_stats_count(m->type, rows[first - above], m->band.row_bytes, (size_t)(last - first), width, m->step, s->levels);
}

static void add_counts(uint64_t *to, uint64_t *from, size_t count) {
  for (size_t i = 0; i < count; i++) {
    to[i] += from[i];
    from[i] = 0;
  }
}

static gconv_status measure_planes(measuring *m) {
  const gconv_image *header = &m->band.header;
  const size_t planes = (size_t)header->frames * (header->planar ? m->channels : 1);
  while (m->band.plane < planes) {
    const size_t channel = header->planar ? m->band.plane % m->channels : 0;
    for (m->first = 0; m->first < header->height; m->first += m->strip) {
      m->count = header->height - m->first < m->strip ? header->height - m->first : m->strip;
      const int32_t end = m->first + m->count;
      gconv_row_band_want(&m->band, m->first > 0 ? m->first - 1 : 0, end < header->height ? end + 1 : end);
      GCONV_TRY(gconv_row_band_fill(&m->band));
      gconv_threads_run_or_stop(m->threads, (size_t)((m->count - 1) / ROWS_A_TURN + 1), take_rows, m);
      GCONV_TRY(gconv_control_check());
      for (size_t i = 0; i < (size_t)m->count * m->step; i++)
        gconv_stats_sums_add(&m->sums[channel + i % m->step], &m->row_sums[i]);
    }
    for (size_t i = 0; i < m->seat_count; i++) {
      add_counts(m->levels + channel * m->level_bins, m->seats[i].levels, m->step * m->level_bins);
      add_counts(m->blocks + channel * m->block_bins, m->seats[i].blocks, m->step * m->block_bins);
    }
    GCONV_TRY(gconv_row_band_next_plane(&m->band));
  }
  return GCONV_OK;
}

/* ---- Results --------------------------------------------------------------------------------------------------------- */

/* The counts and sums of one channel, or of all colours together. */
typedef struct counted {
  gconv_ranks levels, blocks;
  gconv_stats_sums sums;
} counted;

static counted find_counted(const measuring *m, size_t channel, size_t first, size_t channels) {
  counted c = {.levels = {.counts = m->levels + channel * m->level_bins, .bins = m->level_bins, .lower = m->lower},
               .blocks = {.counts = m->blocks + channel * m->block_bins, .bins = m->block_bins, .lower = m->lower},
               .sums = m->sums[channel]};
  if (is_float(m)) {
    c.levels.keys = m->keys + first * m->key_count;
    c.levels.key_count = channels * m->key_count;
    c.blocks.keys = m->block_keys + first * m->block_key_count;
    c.blocks.key_count = channels * m->block_key_count;
  }
  return c;
}

static void sum_levels(const measuring *m, const uint64_t *counts, gconv_stats_sums *sums) {
  double sum = 0;
  for (size_t i = 0; i < m->level_bins; i++) {
    if (counts[i] == 0)
      continue;
    sums->least = sums->count == 0 ? (double)i : sums->least;
    sums->most = (double)i;
    sums->count += counts[i];
    sum += (double)counts[i] * (double)i;
  }
  sums->mean = sums->count > 0 ? sum / (double)sums->count : 0;
  for (size_t i = 0; i < m->level_bins; i++)
    sums->spread += (double)counts[i] * ((double)i - sums->mean) * ((double)i - sums->mean);
  sums->black = counts[0];
  sums->white = counts[m->level_bins - 1];
}

static gconv_status fill_histogram(const measuring *m, const counted *c, const gconv_stats *stats, uint64_t *histogram) {
  const double steps = stats->to > stats->from ? GCONV_STATS_BINS / (stats->to - stats->from) : 0;
  const size_t count = is_float(m) ? c->levels.key_count : c->levels.bins;
  for (size_t i = 0; i < count; i++) {
    GCONV_TRY(i % (1 << 22) == 0 ? gconv_control_check() : GCONV_OK);
    const uint64_t times = is_float(m) ? c->levels.keys[i] != GCONV_NO_KEY : c->levels.counts[i];
    if (times == 0)
      continue;
    const double value = is_float(m) ? (double)gconv_ranks_value(c->levels.keys[i]) : (double)i;
    const double bin = m->type == GCONV_U8 ? value : (value - stats->from) * steps;
    /* alpha may lie outside of the range of the colours */
    histogram[bin < 0 ? 0 : bin < GCONV_STATS_BINS ? (size_t)bin : GCONV_STATS_BINS - 1] += times;
  }
  return GCONV_OK;
}

static gconv_status finish(const measuring *m, const gconv_stats_options *options, const counted *c, size_t channels,
                           const gconv_stats *stats, gconv_channel_stats *result) {
  const gconv_image *header = &m->band.header;
  const gconv_stats_sums *s = &c->sums;
  const double count = (double)s->count, responses = (double)s->laplacians, mean = s->laplacian / responses;
  const double half_pi = 1.5707963267948966;
  result->count = s->count;
  result->missing = (uint64_t)header->frames * (uint64_t)header->height * (uint64_t)header->width * channels - s->count;
  result->mean = s->count > 0 ? s->mean : NAN;
  result->std = s->count > 0 ? sqrt(s->spread / count) : NAN;
  result->min = s->count > 0 ? s->least : NAN;
  result->max = s->count > 0 ? s->most : NAN;
  result->black = s->count > 0 ? (double)s->black / count : NAN;
  result->white = s->count > 0 ? (double)s->white / count : NAN;
  result->noise = s->noises > 0 ? sqrt(half_pi) / 6 * s->noise / (double)s->noises : NAN;
  result->noise_mad = gconv_ranks_percentile(&c->blocks, 50) / 2 / 0.6744897501960817;
  result->focus = s->laplacians > 0 ? fmax(0, s->squares / responses - mean * mean) : NAN;
  for (int i = 0; i < options->percentile_count; i++) {
    GCONV_TRY(gconv_control_check());
    result->percentiles[i] = gconv_ranks_percentile(&c->levels, options->percentiles[i]);
  }
  return fill_histogram(m, c, stats, result->histogram);
}

static void name_channel(const gconv_image *header, size_t channel, char name[16]) {
  static const char *const names[5][4] = {
      {0}, {"grey"}, {"grey", "alpha"}, {"red", "green", "blue"}, {"red", "green", "blue", "alpha"}};
  const bool known = !header->planar && header->alpha == (header->channels % 2 == 0);
  if (known)
    snprintf(name, 16, "%s", names[header->channels][channel]);
  else
    snprintf(name, 16, "channel %u", (unsigned)(channel + 1) % 1000);
}

static gconv_status find_results(measuring *m, const gconv_stats_options *options, gconv_stats *stats) {
  const size_t colours = m->channels - (m->band.header.alpha && m->channels > 1);
  stats->image = m->band.header;
  stats->white = m->white;
  stats->count = m->channels + (colours > 1);
  GCONV_NEED_MEMORY(stats->channels = calloc(stats->count, sizeof *stats->channels), "statistics of an image");
  for (size_t c = 0; c < m->channels; c++)
    if (!is_float(m))
      sum_levels(m, m->levels + c * m->level_bins, &m->sums[c]);
  for (size_t c = 0; c < colours; c++) {
    gconv_stats_sums_add(&m->sums[m->channels], &m->sums[c]);
    for (size_t i = 0; i < m->level_bins; i++)
      m->levels[m->channels * m->level_bins + i] += m->levels[c * m->level_bins + i];
    for (size_t i = 0; i < m->block_bins; i++)
      m->blocks[m->channels * m->block_bins + i] += m->blocks[c * m->block_bins + i];
  }
  stats->to = 255;
  if (m->type != GCONV_U8) {
    stats->from = m->sums[m->channels].least;
    stats->to = m->sums[m->channels].most;
  }
  for (size_t c = 0; c < stats->count; c++) {
    const bool all = c == m->channels;
    const counted found = find_counted(m, c, all ? 0 : c, all ? colours : 1);
    if (all)
      strcpy(stats->channels[c].name, "all");
    else
      name_channel(&m->band.header, c, stats->channels[c].name);
    GCONV_TRY(finish(m, options, &found, all ? colours : 1, stats, &stats->channels[c]));
  }
  return GCONV_OK;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------- */

/* Allocates zeros. */
static gconv_status allocate_zeros(size_t a, size_t b, size_t size, void *memory) {
  const size_t factors[] = {a, b, size}, bytes = gconv_checked_product(3, factors);
  GCONV_TRY(gconv_allocate_workspace(bytes > 0 ? bytes : 1, "statistics of an image", memory));
  return gconv_control_zeros(*(void **)memory, bytes);
}

static gconv_status allocate_seats(measuring *m) {
  m->seat_count = (size_t)gconv_threads_count(m->threads);
  GCONV_TRY(allocate_zeros(m->seat_count, 1, sizeof *m->seats, &m->seats));
  for (size_t i = 0; i < m->seat_count; i++) {
    seat *s = &m->seats[i];
    GCONV_TRY(allocate_zeros(m->step, m->level_bins, sizeof *s->levels, &s->levels));
    GCONV_TRY(allocate_zeros(m->step, m->block_bins, sizeof *s->blocks, &s->blocks));
    if (!is_float(m))
      continue;
    GCONV_TRY(allocate_zeros(FLOAT_ROWS, m->samples, sizeof *s->rows, &s->rows));
    GCONV_TRY(allocate_zeros(m->samples, 1, 1, &s->marks));
  }
  return GCONV_OK;
}

static gconv_status allocate(measuring *m) {
  const gconv_image *header = &m->band.header;
  const size_t frames = (size_t)header->frames, height = (size_t)header->height, width = (size_t)header->width;
  const int64_t rows = (int64_t)(STRIP_BYTES / gconv_image_row_bytes(header)) / ROWS_A_TURN * ROWS_A_TURN;
  m->strip = rows < ROWS_A_TURN ? ROWS_A_TURN : rows < header->height ? (int32_t)rows : header->height;
  m->strip = m->strip < header->height ? m->strip : header->height;
  GCONV_TRY(gconv_row_band_reserve(&m->band, m->strip + 2));
  GCONV_TRY(allocate_seats(m));
  GCONV_TRY(allocate_zeros(m->channels + 1, m->level_bins, sizeof *m->levels, &m->levels));
  GCONV_TRY(allocate_zeros(m->channels + 1, m->block_bins, sizeof *m->blocks, &m->blocks));
  GCONV_TRY(allocate_zeros(m->channels + 1, 1, sizeof *m->sums, &m->sums));
  GCONV_TRY(allocate_zeros((size_t)m->strip, m->step, sizeof *m->row_sums, &m->row_sums));
  if (!is_float(m))
    return GCONV_OK;
  m->key_count = frames * height * width;
  m->block_key_count = frames * (height / 2) * (width / 2);
  GCONV_TRY(allocate_zeros(GCONV_RANKS_OF_FLOATS, 1, sizeof *m->lower, &m->lower));
  GCONV_TRY(allocate_zeros(m->channels, m->key_count, sizeof *m->keys, &m->keys));
  return allocate_zeros(m->channels, m->block_key_count, sizeof *m->block_keys, &m->block_keys);
}

static gconv_status measure(measuring *m, const gconv_stats_options *options, gconv_stats *stats) {
  const gconv_image *header = &m->band.header;
  static const size_t level_bins[] = {256, 65536, GCONV_RANKS_OF_FLOATS},
                      block_bins[] = {511, 131071, GCONV_RANKS_OF_FLOATS};
  if (header->channels > GCONV_STATS_CHANNELS)
    return gconv_fail(GCONV_UNSUPPORTED, "%s has %d channels: statistics are for %d at most", m->band.name,
                      (int)header->channels, (int)GCONV_STATS_CHANNELS);
  m->type = header->has_nodata ? GCONV_F32 : header->type;
  m->unit = options->unit > 0 ? options->unit : 1;
  m->white = header->type == GCONV_U8 ? 255 : header->type == GCONV_U16 ? 65535 : m->unit;
  m->channels = (size_t)header->channels;
  m->step = header->planar ? 1 : m->channels;
  m->samples = (size_t)header->width * m->step;
  m->level_bins = level_bins[m->type];
  m->block_bins = block_bins[m->type];
  GCONV_TRY(allocate(m));
  GCONV_TRY(measure_planes(m));
  return find_results(m, options, stats);
}

static void free_measuring(measuring *m) {
  for (size_t i = 0; m->seats && i < m->seat_count; i++) {
    gconv_release(m->seats[i].levels);
    gconv_release(m->seats[i].blocks);
    gconv_release(m->seats[i].rows);
    gconv_release(m->seats[i].marks);
  }
  void *all[] = {m->seats, m->levels, m->blocks, m->keys, m->block_keys, m->lower, m->sums, m->row_sums};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    gconv_release(all[i]);
  gconv_row_band_close(&m->band);
}

static const gconv_stats_options defaults = {0};

gconv_status gconv_stats_check(const gconv_stats_options *options) {
  GCONV_NEED_KNOWN(options);
  if (options->percentile_count < 0 || options->percentile_count > GCONV_STATS_PERCENTILES ||
      (options->percentile_count > 0 && !options->percentiles))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%d percentiles: give 0 to %d", options->percentile_count,
                      (int)GCONV_STATS_PERCENTILES);
  for (int i = 0; i < options->percentile_count; i++)
    if (!(options->percentiles[i] >= 0 && options->percentiles[i] <= 100))
      return gconv_fail(GCONV_BAD_ARGUMENT, "the percentile %g: give numbers from 0 to 100", options->percentiles[i]);
  return options->unit >= 0 && isfinite(options->unit) ? GCONV_OK
                                                       : gconv_fail(GCONV_BAD_ARGUMENT, "unit: give a number above 0");
}

gconv_status gconv_image_stats(const gconv_compared *image, const gconv_stats_options *options, gconv_stats *stats) {
  GCONV_TRY(gconv_row_band_check(image, "gconv_image_stats", "image"));
  GCONV_NEED(stats);
  options = options ? options : &defaults;
  GCONV_TRY(gconv_stats_check(options));
  measuring m = {.threads = options->threads};
  gconv_stats found = {0};
  gconv_status status = m.threads ? GCONV_OK : gconv_threads_create(0, &m.threads);
  GCONV_THEN(status, gconv_row_band_open(image, "the image", options->max_pixels, false, &m.band));
  GCONV_THEN(status, measure(&m, options, &found));
  if (status == GCONV_OK)
    *stats = found;
  else
    gconv_stats_free(&found);
  free_measuring(&m);
  if (!options->threads)
    gconv_threads_free(m.threads);
  return status;
}

void gconv_stats_free(gconv_stats *stats) {
  if (!stats)
    return;
  free(stats->channels);
  *stats = (gconv_stats){0};
}
