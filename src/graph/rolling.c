/* SPDX-License-Identifier: MIT */
#include "graph/rolling.h"
#include "base/control.h"
#include "base/memory.h"
#include "base/threads.h"
#include "graph/tail.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
  SLACK = 256,        /* floats behind a buffer: kernels may read beyond their last row */
  ROOM = 256 << 10,   /* floats of the buffers of a thread: 1 MiB, an L2 cache */
  BUFFERS = 2 << 20,  /* the most of them if bands have the fewest rows: 8 MiB, a part of an L3 cache */
  FEW_ROWS = 4,       /* the fewest rows of a band of the last stage: of small weights */
  LEAST_ROWS = 8,     /* and of others, which each band reads once */
  MOST_ROWS = 64,     /* the most */
  ROW_STEP = 4,       /* tiles of winograd4 have so many rows */
  WEIGHTS = 64 << 10, /* floats of weights that stay in the L2 cache beside the buffers: 256 KiB */
  LEAST_HEIGHT = 32,  /* rows of the last map that are worth it */
};

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t round_down(int64_t v, int64_t step) { /* towards minus infinity */
  return v - (v % step + step) % step;
}

/* Returns the floats of a row of the output of one channel or block; sets the number of these. */
static int64_t out_row(const gconv_layer_problem *p, int64_t *planes) {
  *planes = gconv_layer_image_floats(p->filters, 1, p->out_blocks) / (p->out_blocks ? GCONV_BLOCK : 1);
  return p->out_width * (int64_t)(p->out_blocks ? GCONV_BLOCK : 1);
}

/* ---- Plans ---- */

static bool follows(const gconv_layer_problem *p, const gconv_layer_problem *next) {
  return next->channels == p->filters && next->height == p->out_height && next->width == p->out_width &&
         next->in_blocks == p->out_blocks;
}

/* Sets rows, leads and buffers for bands of `rows` rows of the last stage. Returns the floats of all buffers; INT64_MAX if a
 * buffer alone has too many: strides multiply the rows from stage to stage, up to numbers beyond 64 bits. */
static int64_t lay(gconv_rolling *r, int64_t rows) {
  int64_t lead = 0, before = 0, floats = 0;
  for (size_t i = r->count; i-- > 0;) {
    gconv_rolling_stage *s = &r->stages[i];
    const gconv_layer_problem *p = &s->whole;
    s->rows = rows;
    s->lead = lead;
    s->before = before;
    const int64_t first = lead * p->stride_y - p->pad_top; /* the row of the input that band 0 begins with */
    const int64_t needed = (rows - 1) * p->stride_y + (int64_t)(p->rows - 1) * p->dilation_y + 1;
    s->in_row = p->width * (int64_t)(p->in_blocks ? GCONV_BLOCK : 1);
    s->in_planes = gconv_layer_image_floats(p->channels, 1, p->in_blocks) / (p->in_blocks ? GCONV_BLOCK : 1);
    rows *= p->stride_y;
    if (larger(needed, rows) > BUFFERS || s->in_planes * s->in_row > BUFFERS)
      return INT64_MAX;
    const int64_t step = i > 0 ? r->stages[i - 1].solver->choice.algorithm->row_step : 1;
    lead = larger(first, first + needed - rows);
    lead = round_down(lead + step - 1, step);
    s->kept = i > 0 ? lead - first : 0;
    s->in_rows = i > 0 ? s->kept + rows : needed;
    before += (s->kept + rows - 1) / rows;
    floats += s->in_planes * s->in_row * s->in_rows;
  }
  return floats;
}

static int64_t out_height(const gconv_rolling *r) {
  return r->stages[r->count - 1].whole.out_height;
}

/* Returns the floats of weights that each band reads. */
static int64_t count_weights(const gconv_rolling *r) {
  int64_t floats = 0;
  for (size_t i = 0; i < r->count; i++) {
    const gconv_layer_choice *choice = &r->stages[i].solver->choice;
    floats += choice->algorithm->prepared_floats ? (int64_t)choice->algorithm->prepared_floats(&choice->problem) : 0;
  }
  return floats;
}

static int64_t least_rows(const gconv_rolling *r) {
  return count_weights(r) > WEIGHTS ? LEAST_ROWS : FEW_ROWS;
}

/* Whether bands of so many rows of the last stage begin where all algorithms allow it. */
static bool fits_steps(const gconv_rolling *r, int64_t rows) {
  bool fits = true;
  for (size_t i = r->count; i-- > 0; rows *= r->stages[i].whole.stride_y)
    fits = fits && rows % r->stages[i].solver->choice.algorithm->row_step == 0;
  return fits;
}

/* Returns the rows of a band, at most `limit`, for which the buffers fit into the caches. Prefers a number that divides the
 * height of the output. A tail that reads other tensors needs such a number, as it finds their elements by the position of
 * its outputs: returns 0 if there is none. */
static int64_t choose_rows(gconv_rolling *r, int64_t limit) {
  const int64_t height = out_height(r);
  const gconv_layer_tail *tail = r->stages[r->count - 1].whole.tail;
  const int64_t least = least_rows(r), room = larger(ROOM, smaller(2 * count_weights(r), BUFFERS));
  int64_t most = least;
  while (most + ROW_STEP <= limit && lay(r, most + ROW_STEP) <= room)
    most += ROW_STEP;
  for (int64_t rows = most; rows >= least && 2 * rows >= most; rows--)
    if (height % rows == 0 && fits_steps(r, rows))
      return rows;
  return tail && !tail->clamps ? 0 : most;
}

/* Returns the floats of the maps between the stages. */
static int64_t count_maps(const gconv_rolling *r) {
  int64_t maps = 0;
  for (size_t i = 1; i < r->count; i++)
    maps += r->stages[i].in_planes * r->stages[i].in_row * r->stages[i].whole.height;
  return maps;
}

/* Estimates what bands cost: 0.1 says that the stages take 1.1 times as long by bands as they take image by image. Each
 * thread makes the bands of its strip, and before them rows that the thread of the strip above makes, too; the last band may
 * end below the image. *whole_ms becomes the time of the stages image by image. */
static double find_waste(const gconv_rolling *r, double *whole_ms) {
  double once = 0, most = 0;
  for (size_t i = 0; i < r->count; i++) {
    const gconv_rolling_stage *s = &r->stages[i];
    const double ms = s->solver->choice.estimate_ms;
    const int64_t bands = (r->bands + r->strips - 1) / r->strips + (r->strips > 1 ? s->before : 0);
    once += ms;
    most += ms * (double)(bands * r->strips * s->rows) / s->whole.out_height;
  }
  *whole_ms = once;
  return most / once - 1;
}

/* Returns whether bands take less time than maps through memory, in ms of one thread of the reference CPU, as estimates
 * are. A float between stages is written and read. */
static bool gains(const gconv_rolling *r, int64_t least) {
  static const double MOST_WASTE = 0.16, MS_OF_FLOAT = 1e-6;
  double whole_ms;
  const double waste = find_waste(r, &whole_ms);
  return waste <= MOST_WASTE && (least == 0 || waste * whole_ms <= MS_OF_FLOAT * (double)count_maps(r));
}

/* Returns the problem of a band of a stage. */
static gconv_layer_problem band_of(const gconv_rolling *r, size_t i) {
  const gconv_rolling_stage *s = &r->stages[i];
  gconv_layer_problem band = s->whole;
  band.images = 1;
  band.height = (int32_t)s->in_rows;
  band.pad_top = 0;
  band.threads = 1;
  band.out_height = (int32_t)s->rows;
  band.in_plane = i > 0 ? 0 : gconv_layer_plane(&s->whole);
  band.out_plane = (i + 1 < r->count ? r->stages[i + 1].in_rows : s->whole.out_height) * s->whole.out_width;
  return band;
}

/* Returns how many stages, from the first one on, compute bands. */
static size_t count_stages(const gconv_rolling *r) {
  size_t i = 0;
  for (; i < r->count; i++) {
    const gconv_rolling_stage *s = &r->stages[i];
    if (s->solver->choice.algorithm->row_step == 0 || s->whole.math != GCONV_MATH_FP32 ||
        (i > 0 && !follows(&s[-1].whole, &s->whole)))
      break;
  }
  return i;
}

/* Whether there is enough between the stages. */
static bool is_worth(const gconv_rolling *r, int64_t least) {
  return count_maps(r) >= least && out_height(r) >= LEAST_HEIGHT;
}

static int64_t aligned(int64_t floats) {
  return round_down(floats + GCONV_BLOCK - 1, GCONV_BLOCK);
}

/* Gives the solvers their bands, and the buffers their places. */
static bool settle(gconv_rolling *r) {
  gconv_layer_problem bands[GCONV_ROLLING_MOST];
  int64_t floats = 0;
  for (size_t i = 0; i < r->count; i++) {
    bands[i] = band_of(r, i);
    if (r->stages[i].solver->choice.algorithm->supports(&bands[i]))
      return false;
  }
  for (size_t i = 0; i < r->count; i++) {
    gconv_rolling_stage *s = &r->stages[i];
    gconv_layer_choice *choice = &s->solver->choice;
    choice->problem = bands[i];
    choice->workspace_bytes = choice->algorithm->workspace_bytes ? choice->algorithm->workspace_bytes(&bands[i]) : 0;
    r->workspace_bytes = choice->workspace_bytes > r->workspace_bytes ? choice->workspace_bytes : r->workspace_bytes;
    s->in_at = (size_t)floats;
    floats += aligned(s->in_planes * s->in_row * s->in_rows + SLACK);
  }
  r->workspace_bytes = (r->workspace_bytes + GCONV_ALIGNMENT - 1) / GCONV_ALIGNMENT * GCONV_ALIGNMENT;
  const gconv_rolling_stage *last = &r->stages[r->count - 1];
  r->last_at = out_height(r) % last->rows > 0 ? (size_t)floats : 0;
  if (r->last_at > 0) {
    int64_t planes;
    const int64_t row = out_row(&last->whole, &planes);
    floats += aligned(planes * row * last->rows + SLACK);
  }
  r->floats = (size_t)floats;
  return true;
}

/* Lets as many stages roll as have room in the caches, and gain by it. */
static bool fit(gconv_rolling *r, int64_t least) {
  for (r->count = count_stages(r); r->count > 1; r->count--) {
    if (lay(r, least_rows(r)) > BUFFERS)
      continue;
    if (!is_worth(r, least))
      return false;
    for (int64_t limit = MOST_ROWS; limit >= least_rows(r); limit /= 2) {
      const int64_t rows = choose_rows(r, limit);
      if (rows == 0)
        break;
      lay(r, rows);
      r->bands = (out_height(r) + rows - 1) / rows;
      r->strips = smaller(r->threads, r->bands);
      if (gains(r, least))
        return settle(r);
    }
  }
  return false;
}

gconv_status gconv_rolling_make(gconv_solver *const *solvers, size_t count, int64_t least, gconv_threads *threads,
                                gconv_rolling **rolling) {
  gconv_rolling *r;
  if (count < 2 || count > GCONV_ROLLING_MOST)
    return GCONV_OK;
  GCONV_NEW(r, 1, "no memory for a plan");
  r->stages = calloc(count, sizeof *r->stages);
  if (!r->stages) {
    free(r);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a plan");
  }
  r->count = count;
  for (size_t i = 0; i < count; i++) {
    r->stages[i] = (gconv_rolling_stage){.solver = solvers[i], .whole = solvers[i]->choice.problem};
    r->stages[i].whole.images = 1;
  }
  r->threads = threads ? gconv_threads_count(threads) : 1;
  if (fit(r, least))
    *rolling = r;
  else
    gconv_rolling_free(r);
  return GCONV_OK;
}

void gconv_rolling_free(gconv_rolling *r) {
  if (r)
    free(r->stages);
  free(r);
}

/* Returns the bytes of a thread. */
static size_t seat_bytes(const gconv_rolling *r) {
  return r->floats * sizeof(float) + r->workspace_bytes;
}

size_t gconv_rolling_bytes(const gconv_rolling *r) {
  return seat_bytes(r) * (size_t)r->threads;
}

/* ---- Runs ---- */

typedef struct strip {
  const gconv_rolling *rolling;
  float *memory;   /* buffers, and behind them the workspace */
  const float *in; /* of an image */
  float *out;
} strip;

/* Copies rows of planes. Rows of `from` below 0 or from `height` on are 0. */
typedef struct rows_job {
  const float *from;
  float *to;
  int64_t planes, from_plane, to_plane, row, first, count, height;
} rows_job;

static void copy_rows(const rows_job *j) {
  const int64_t begin = larger(0, smaller(j->count, -j->first)),
                end = larger(begin, smaller(j->count, j->height - j->first));
  const size_t row = (size_t)j->row * sizeof *j->to;
  for (int64_t i = 0; i < j->planes; i++) {
    const float *from = j->from + i * j->from_plane;
    float *to = j->to + i * j->to_plane;
    memset(to, 0, (size_t)begin * row);
    if (end > begin)
      memmove(to + begin * j->row, from + (j->first + begin) * j->row, (size_t)(end - begin) * row);
    memset(to + end * j->row, 0, (size_t)(j->count - end) * row);
  }
}

/* Moves the rows of a buffer that the next band needs, too, to its begin. */
static void keep_rows(const strip *t, const gconv_rolling_stage *s) {
  float *in = t->memory + s->in_at;
  const int64_t plane = s->in_rows * s->in_row;
  if (s->kept > 0)
    copy_rows(&(rows_job){in, in, s->in_planes, plane, plane, s->in_row, s->in_rows - s->kept, s->kept, s->in_rows});
}

/* Returns the input of a band of the first stage; sets problem->in_plane. */
static const float *find_input(const strip *t, int64_t band, gconv_layer_problem *problem) {
  const gconv_rolling_stage *s = t->rolling->stages;
  const int64_t first = (band * s->rows + s->lead) * s->whole.stride_y - s->whole.pad_top, height = s->whole.height;
  if (first >= 0 && first + s->in_rows <= height)
    return t->in + first * s->in_row;
  problem->in_plane = 0;
  copy_rows(&(rows_job){t->in, t->memory, s->in_planes, height * s->in_row, s->in_rows * s->in_row, s->in_row, first,
                        s->in_rows, height});
  return t->memory;
}

/* Sets rows of a new band that are outside of the map to 0. */
static void clear_outside(const strip *t, const gconv_rolling_stage *next, int64_t first, int64_t rows, int64_t height) {
  const int64_t begin = larger(0, smaller(rows, -first)), end = larger(begin, smaller(rows, height - first));
  for (int64_t i = 0; i < next->in_planes; i++) {
    float *new_rows = t->memory + next->in_at + (i * next->in_rows + next->kept) * next->in_row;
    memset(new_rows, 0, (size_t)(begin * next->in_row) * sizeof *new_rows);
    memset(new_rows + end * next->in_row, 0, (size_t)((rows - end) * next->in_row) * sizeof *new_rows);
  }
}

static gconv_status solve(const strip *t, const gconv_rolling_stage *s, const gconv_layer_problem *problem, const float *in,
                          float *out) {
  return gconv_layer_execute_cpu(s->solver->choice.algorithm, problem, 1, s->solver->weights, in, out, NULL,
                                 (uint8_t *)(t->memory + t->rolling->floats), t->rolling->workspace_bytes);
}

/* Makes the last band of the output, of which some rows are outside. */
static gconv_status make_last(const strip *t, const gconv_rolling_stage *s, gconv_layer_problem problem, const float *in,
                              int64_t first) {
  int64_t planes;
  const int64_t row = out_row(&s->whole, &planes), height = s->whole.out_height;
  float *out = t->memory + t->rolling->last_at;
  problem.out_plane = 0;
  GCONV_TRY(solve(t, s, &problem, in, out));
  copy_rows(&(rows_job){out, t->out + first * row, planes, s->rows * row, height * row, row, 0, height - first, s->rows});
  return GCONV_OK;
}

/* Makes a band of stage i. */
static gconv_status make_band(const strip *t, size_t i, int64_t band) {
  const gconv_rolling *r = t->rolling;
  const gconv_rolling_stage *s = &r->stages[i], *next = i + 1 < r->count ? s + 1 : NULL;
  const int64_t first = band * s->rows + s->lead, height = s->whole.out_height;
  gconv_layer_problem problem = s->solver->choice.problem;
  if (next)
    keep_rows(t, next);
  if (first + s->rows > 0 && first < height) {
    const float *in = i > 0 ? t->memory + s->in_at : find_input(t, band, &problem);
    int64_t planes;
    gconv_tail tail;
    if (!next && first + s->rows > height)
      return make_last(t, s, problem, in, first);
    float *out = next ? t->memory + next->in_at + next->kept * next->in_row : t->out + first * out_row(&problem, &planes);
    if (next && problem.tail) { /* it finds the channel of an output by its place */
      tail = *(const gconv_tail *)(const void *)problem.tail;
      tail.layer.out = out;
      problem.tail = &tail.layer;
    }
    GCONV_TRY(solve(t, s, &problem, in, out));
  }
  if (next && (first < 0 || first + s->rows > height))
    clear_outside(t, next, first, s->rows, height);
  return GCONV_OK;
}

typedef struct strips_job {
  const gconv_rolling *rolling;
  const float *in;
  float *out;
  uint8_t *memory;
  int64_t in_floats, out_floats; /* of an image */
  gconv_controlled *control;     /* of the caller: a strip is long, and helpers have no control of their own */
  atomic_int failure;            /* the first status that was not GCONV_OK */
} strips_job;

/* Makes a strip: some bands of an image. Stages begin some bands before, so that the first of these finds all its rows. */
static void make_strip(void *context, size_t turn, int seat) {
  strips_job *job = context;
  const gconv_rolling *r = job->rolling;
  const int64_t image = (int64_t)turn / r->strips, number = (int64_t)turn % r->strips;
  const int64_t begin = r->bands * number / r->strips, end = r->bands * (number + 1) / r->strips;
  strip t = {r, (float *)(void *)(job->memory + (size_t)seat * seat_bytes(r)), job->in + image * job->in_floats,
             job->out + image * job->out_floats};
  gconv_status status = GCONV_OK;
  int none = GCONV_OK;
  memset(t.memory, 0, r->floats * sizeof *t.memory);
  for (int64_t band = begin - r->stages[0].before; band < end && !gconv_control_stops(job->control); band++)
    for (size_t i = 0; i < r->count && status == GCONV_OK; i++)
      if (band >= begin - r->stages[i].before)
        status = make_band(&t, i, band);
  if (status != GCONV_OK)
    atomic_compare_exchange_strong(&job->failure, &none, (int)status);
}

gconv_status gconv_rolling_run(const gconv_rolling *r, int32_t images, const float *in, float *out, gconv_threads *threads,
                               void *memory) {
  const gconv_rolling_stage *first = &r->stages[0], *last = &r->stages[r->count - 1];
  int64_t planes;
  const int64_t row = out_row(&last->whole, &planes);
  strips_job job = {.rolling = r, .in = in, .out = out, .memory = memory, .control = gconv_control_here()};
  job.in_floats = first->in_planes * first->whole.height * first->in_row;
  job.out_floats = planes * last->whole.out_height * row;
  const size_t turns = (size_t)(images * r->strips);
  if (threads)
    gconv_threads_run_in_parts_or_stop(threads, turns, make_strip, &job);
  for (size_t i = 0; !threads && i < turns; i++)
    make_strip(&job, i, 0);
  GCONV_TRY(gconv_control_check());
  const int status = atomic_load(&job.failure);
  return status == GCONV_OK ? GCONV_OK : gconv_fail((gconv_status)status, "a band of a network failed on the CPU");
}
