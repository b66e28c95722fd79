/* SPDX-License-Identifier: MIT */
/*
 * fft: products of spectra, tile by tile (overlap-save), for large filters.
 *
 * A tile of N x N samples is transformed, multiplied by the spectrum of the filter, and transformed back. The product of
 * spectra is a circular convolution: N - R + 1 rows and N - S + 1 columns of the result do not wrap around, and are stored.
 * The work hardly depends on the filter: some 70 instructions a sample, times N * N / ((N - R + 1) * (N - S + 1)), since the
 * wrapped part of the tile is lost. direct takes R * S multiply-adds. On an H200, fft overtakes it at 11 x 11.
 *
 * There are two engines, and the engine with less work is taken. For filters to some 55 x 55, and for larger ones on small
 * images, tiles of 64 to 160 points a side are in the shared memory of a block (fft_tile.cuh). For larger filters, tiles of
 * 512 to 4096 points a side are in device memory, and a few lines at a time in shared memory (fft_lines.cuh). This file
 * holds the choice, the launches and the descriptor.
 *
 * fft is not of the exact family; error_bound() says how far it may be off. Sums that are not finite are computed again by
 * the definition (check_sums() in fft_samples.cuh).
 */
#include "../core/alpha.cuh"
#include "../core/launch.cuh"
#include "device/cuda_error.h"
#include "fft_lines.cuh"
#include "fft_tile.cuh"

#include <math.h>
#include <stdlib.h>

#include <memory>

namespace {

/* ---- Sizes ---- */

/* Cuts the output into tiles of height x width points. Returns false if these are too small for the filters. If it costs
 * little, valid_x is a multiple of 8, and tiles begin at multiples of 8 pixels. Then 8 neighbouring floats are one sector.
 */
bool cut(const gconv_problem *problem, int height, int width, cutting *c) {
  const int reach_y = (problem->rows - 1) * problem->dilation_y, reach_x = (problem->columns - 1) * problem->dilation_x;
  if (reach_y >= height || reach_x >= width)
    return false;
  *c = {height, width};
  c->valid_y = (height - reach_y) / problem->stride_y * problem->stride_y;
  c->valid_x = (width - reach_x) / problem->stride_x * problem->stride_x;
  if (c->valid_y < 1 || c->valid_x < 1)
    return false;
  int first = (8 - problem->pad_left % 8) % 8, aligned = (c->valid_x - first) / 8 * 8;
  if (problem->stride_x == 1 && aligned >= 0.93 * c->valid_x) {
    c->first_x = first;
    c->valid_x = aligned;
  }
  c->tiles_y = (problem->out_height - 1) / (c->valid_y / problem->stride_y) + 1;
  c->tiles_x = (problem->out_width - 1) / (c->valid_x / problem->stride_x) + 1;
  const int64_t tiles =
      (int64_t)c->tiles_y * c->tiles_x * problem->planes * (problem->channels - problem->keep_alpha) * problem->images;
  c->tiles = (int32_t)tiles;
  c->pairs = (int32_t)((tiles + 1) / 2);
  return tiles <= INT32_MAX / 2 && (int64_t)problem->width * problem->channels <= INT32_MAX / 2;
}

/* ---- The engines ---- */

/* Tiles in shared memory. */
struct tile_engine {
  line_order order; /* order of rows and of columns */
  size_t shared;
  int threads, blocks; /* threads of a block; blocks that a multiprocessor of an H200 runs at a time */
  double work;         /* time of a sample of a tile, without `back`, as the multiply-adds of an H200 in that time */
  double back;         /* time of a sample in the inverse transform of rows, which computes only the rows that are stored */
  void (*kernel)(tile_arguments);
  void (*make_spectra)(const gconv_execution *, line_order, line_order, double2 *, float2 *);
};

template <int A> tile_engine tile_engine_of(double work, double back) {
  using shape = tile_shape<A>;
  return {{A, 1, 8}, shape::SHARED, shape::THREADS,    shape::BLOCKS,
          work,      back,          convolve_tiles<A>, make_spectra<tile_order<A>>};
}

const tile_engine tile_engines[] = {tile_engine_of<8>(67, 67), tile_engine_of<16>(59, 100), tile_engine_of<20>(64, 107)};

/* Lines of tiles in shared memory: either columns or rows. */
struct line_engine {
  line_order order;
  int twists, rows, columns, column_threads; /* see line_shape */
  size_t rows_shared, columns_shared;
  double work; /* time of a sample of a tile with such lines, as in tile_engine */
  void (*enter)(line_arguments), (*filter)(line_arguments), (*leave)(line_arguments);
  void (*make_spectra)(const gconv_execution *, line_order, line_order, double2 *, float2 *);
};

template <class Line> line_engine line_engine_of(double work) {
  return {{Line::P, Line::Q, Line::S}, Line::TWISTS,       Line::ROWS,           Line::COLUMNS,
          Line::COLUMN_THREADS,        Line::ROWS_SHARED,  Line::COLUMNS_SHARED, work,
          enter_lines<Line>,           filter_lines<Line>, leave_lines<Line>,    make_spectra<columns_order<Line::COLUMNS>>};
}

const line_engine line_engines[] = {line_engine_of<line_shape<4, 8>>(245), line_engine_of<line_shape<8, 8>>(250),
                                    line_engine_of<line_shape<8, 16>>(270), line_engine_of<line_shape<16, 16>>(310)};

/* ---- The choice of an engine ---- */

/* How a problem is solved. */
struct solution {
  const tile_engine *tile;              /* set: tiles in shared memory; NULL: lines */
  const line_engine *lines_y, *lines_x; /* for columns, which run along y, and for rows */
  cutting c;
  int64_t at_a_time; /* pairs of tiles in progress: one for each block of the tile engine, or a batch of the line engine */
  size_t state, workspace; /* bytes */
  double work;             /* time in multiply-adds (see tile_engine), as if each filter took all passes */
  double launches;
};

/* The fixed time of a launch on an H200, 7.5 us, as the multiply-adds of that time: its first blocks wait for samples, and
 * its last blocks run alone. */
constexpr double LAUNCH_WORK = 2.5e8;

size_t point_bytes(const cutting &c) {
  return (size_t)c.height * c.width * sizeof(float2);
}

/* Returns how many arrays of points are kept for a pair of tiles between filters: its spectrum, and combined values. */
size_t kept_times(const gconv_problem *problem) {
  return problem->filters > 1 ? 1 + gconv_is_combined(problem) : 0;
}

/* Returns the time of the last round, as a part of a whole round. One block alone on a multiprocessor ends sooner than
 * several do, but several do more work in a given time: 1024 x 1024 samples of u8 took 12.7, 15.8, 17.8 and 21.5 us with 1
 * to 4 blocks of the smallest tiles. */
double last_round(int64_t pairs, int blocks) {
  const double busy = (double)((pairs - 1) / multiprocessors() + 1), alone = 0.4;
  return pairs > 0 ? (busy + alone) / (blocks + alone) : 0;
}

/* Estimates the time of tiles in shared memory. The multiprocessors process pairs of tiles in rounds. */
bool solve_by_tiles(const gconv_problem *problem, const tile_engine &engine, solution *s) {
  const int size = size_of(engine.order);
  *s = {};
  if (!cut(problem, size, size, &s->c) || engine.shared > shared_limit())
    return false;
  s->tile = &engine;
  s->at_a_time = (int64_t)multiprocessors() * engine.blocks;
  double rounds = (double)(s->c.pairs / s->at_a_time) + last_round(s->c.pairs % s->at_a_time, engine.blocks);
  double sample = engine.work + engine.back * s->c.valid_y / size;
  s->work = problem->filters * rounds * (double)s->at_a_time * 2 * size * size * sample;
  s->launches = 1;
  s->at_a_time = s->c.pairs < s->at_a_time ? s->c.pairs : s->at_a_time;
  s->state = 8 * TWISTS * sizeof(float2) + problem->filters * point_bytes(s->c);
  s->workspace = (size_t)s->at_a_time * kept_times(problem) * point_bytes(s->c);
  s->workspace = fmax(s->workspace, row_spectra_bytes(problem, engine.order));
  return s->state + s->workspace <= problem->workspace_limit;
}

const size_t batch_bytes = (size_t)192 << 20; /* the most bytes of points; larger batches gain nothing */

/* Estimates the time of lines in shared memory. A batch has as many pairs of tiles as fit into memory. */
bool solve_by_lines(const gconv_problem *problem, const line_engine &y, const line_engine &x, solution *s) {
  *s = {};
  size_t shared = y.columns_shared > x.rows_shared ? y.columns_shared : x.rows_shared;
  if (!cut(problem, size_of(y.order), size_of(x.order), &s->c) || shared > shared_limit())
    return false;
  s->lines_y = &y;
  s->lines_x = &x;
  s->work = problem->filters * (double)s->c.pairs * 2 * s->c.height * s->c.width * fmax(y.work, x.work);
  s->state = (y.twists + x.twists) * sizeof(float2) + problem->filters * point_bytes(s->c);
  size_t pair = (1 + kept_times(problem)) * point_bytes(s->c) + sizeof(int32_t);
  if (s->state + pair > problem->workspace_limit)
    return false;
  size_t room = fmin(problem->workspace_limit - s->state, batch_bytes);
  s->at_a_time = room / pair < 1 ? 1 : room / pair;
  int64_t batches = (s->c.pairs - 1) / s->at_a_time + 1;
  s->at_a_time = (s->c.pairs - 1) / batches + 1; /* all batches have the same size */
  s->launches = (double)batches * (1 + 2.0 * problem->filters);
  s->workspace = fmax(s->at_a_time * pair, row_spectra_bytes(problem, x.order));
  return s->state + s->workspace <= problem->workspace_limit;
}

/* Finds the fastest solution within the limits of the device and of memory. Returns false if there is none. */
bool solve(const gconv_problem *problem, solution *best) {
  *best = {};
  const auto all_work = [](const solution &s) { return s.work + s.launches * LAUNCH_WORK; };
  const auto keep_better = [&](bool possible, const solution &candidate) {
    if (possible && (best->work == 0 || all_work(candidate) < all_work(*best))) /* 0: there is no best one yet */
      *best = candidate;
  };
  solution s;
  for (const tile_engine &engine : tile_engines)
    keep_better(solve_by_tiles(problem, engine, &s), s);
  for (const line_engine &y : line_engines)
    for (const line_engine &x : line_engines)
      keep_better(solve_by_lines(problem, y, x, &s), s);
  return best->work > 0;
}

size_t workspace_bytes(const gconv_problem *problem) {
  solution s;
  return solve(problem, &s) ? s.workspace : 0;
}

/* ---- What a plan keeps: the solution, found once, and twists and spectra on the device ---- */

struct fft_state {
  solution s;
  float2 *twists; /* the spectra lie after them */
};

float2 *spectra_of(const fft_state &state) {
  const solution &s = state.s;
  return state.twists + (s.tile ? 8 * TWISTS : s.lines_y->twists + s.lines_x->twists);
}

void make_state(const gconv_execution *execution, const fft_state &state) {
  cudaStream_t stream = (cudaStream_t)execution->stream;
  const solution &s = state.s;
  double2 *rows = (double2 *)execution->workspace;
  if (s.tile) {
    make_twists<<<TWISTS, 8, 0, stream>>>(size_of(s.tile->order), TWISTS, 1, state.twists);
    s.tile->make_spectra(execution, s.tile->order, s.tile->order, rows, spectra_of(state));
  } else {
    make_line_twists(s.lines_y->order, stream, state.twists);
    make_line_twists(s.lines_x->order, stream, state.twists + s.lines_y->twists);
    s.lines_y->make_spectra(execution, s.lines_y->order, s.lines_x->order, rows, spectra_of(state));
  }
}

gconv_status allow_kernels(const solution &s) {
  if (s.tile)
    return allow_shared(s.tile->kernel, s.tile->shared);
  GCONV_TRY(allow_shared(s.lines_x->enter, s.lines_x->rows_shared));
  GCONV_TRY(allow_shared(s.lines_y->filter, s.lines_y->columns_shared));
  return allow_shared(s.lines_x->leave, s.lines_x->rows_shared);
}

void dismiss(void *memory) {
  fft_state *state = (fft_state *)memory;
  cudaFree(state->twists);
  free(state);
}

/* An execution of a small image takes some 10 us, so acquire() does all work that does not depend on the image. */
gconv_status acquire(const gconv_execution *execution, void **result) {
  std::unique_ptr<fft_state, decltype(&dismiss)> state((fft_state *)calloc(1, sizeof(fft_state)), dismiss);
  if (!state)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the state of fft");
  if (!solve(execution->problem, &state->s))
    return GCONV_UNSUPPORTED;
  GCONV_TRY(allow_kernels(state->s));
  CUDA_TRY(cudaMalloc(&state->twists, state->s.state));
  make_state(execution, *state);
  *result = state.release();
  return GCONV_OK;
}

/* ---- Execution ---- */

tiling tiling_of(const gconv_execution *execution, const cutting &c) {
  const gconv_problem *p = execution->problem;
  return {common_arguments(execution), c, execution->weights, p->channels - p->keep_alpha,
          is_plain(execution, 0, p->filters)};
}

const fft_state &state_of(const gconv_execution *execution) {
  return *(const fft_state *)execution->state;
}

template <class Arguments>
void launch(void (*kernel)(Arguments), dim3 grid, int threads, size_t shared, const gconv_execution *execution,
            const Arguments &a) {
  kernel<<<grid, threads, shared, (cudaStream_t)execution->stream>>>(a);
}

void execute_tiles(const gconv_execution *execution, const solution &s) {
  const fft_state &state = state_of(execution);
  const tile_arguments a = {tiling_of(execution, s.c), state.twists, (const float4 *)spectra_of(state),
                            (float4 *)execution->workspace,
                            (float2 *)execution->workspace + s.at_a_time * s.c.height * s.c.width};
  launch(s.tile->kernel, dim3((unsigned)s.at_a_time), s.tile->threads, s.tile->shared, execution, a);
}

/* Runs `count` pairs of tiles, from a.first_pair on. */
void execute_batch(const gconv_execution *execution, const solution &s, unsigned count, line_arguments a) {
  const line_engine &y = *s.lines_y, &x = *s.lines_x;
  const float2 *spectra = spectra_of(state_of(execution));
  launch(x.enter, dim3(s.c.height / x.rows, count), LINE_THREADS, x.rows_shared, execution, a);
  for (a.k = 0; a.k < execution->problem->filters; a.k++) {
    a.spectrum = spectra + (int64_t)a.k * s.c.height * s.c.width;
    launch(y.filter, dim3(count, s.c.width / y.columns), y.column_threads, y.columns_shared, execution, a);
    launch(x.leave, dim3((s.c.valid_y - 1) / x.rows + 1, count), LINE_THREADS, x.rows_shared, execution, a);
  }
  if (execution->problem->in_type == GCONV_F32)
    launch(mend_lines, dim3(s.c.height / 32, count), LINE_THREADS, 0, execution, a);
}

void execute_lines(const gconv_execution *execution, const solution &s) {
  const int64_t points = s.at_a_time * s.c.height * s.c.width; /* points of a batch */
  line_arguments a = {};
  a.t = tiling_of(execution, s.c);
  a.columns = s.lines_y->columns;
  a.twists_y = state_of(execution).twists;
  a.twists_x = a.twists_y + s.lines_y->twists;
  a.points = (float2 *)execution->workspace;
  a.filtered = execution->problem->filters > 1 ? a.points + points : a.points;
  a.combined = a.filtered + points;
  a.spoilt = (int32_t *)(a.points + (1 + kept_times(execution->problem)) * points);
  for (int64_t first = 0; first < s.c.pairs; first += s.at_a_time) {
    a.first_pair = (int32_t)first;
    execute_batch(execution, s, (unsigned)fmin(s.at_a_time, s.c.pairs - first), a);
  }
}

gconv_status execute(const gconv_execution *execution) {
  const solution &s = state_of(execution).s;
  if (s.tile)
    execute_tiles(execution, s);
  else
    execute_lines(execution, s);
  if (execution->problem->keep_alpha)
    launch_alpha(execution);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

/* ---- The descriptor ---- */

const char *supports(const gconv_problem *problem) {
  if (problem->in_type == GCONV_F32 && problem->channels % 2 == 0 && !problem->keep_alpha)
    return "its rounding moves alphas of 0, by which colours may be divided later";
  if (problem->stride_y > 4 || problem->stride_x > 4)
    return "strides above 4: it computes all samples between";
  solution s;
  if (solve(problem, &s))
    return NULL;
  gconv_problem unlimited = *problem;
  unlimited.workspace_limit = SIZE_MAX;
  return solve(&unlimited, &s) ? "spectra and tiles larger than the workspace may be"
                               : "filters that span more pixels than a tile";
}

/* Tiles in shared memory are bound by instructions. Tiles in device memory are bound by its bandwidth, and reach 0.75 of it.
 * The host takes as long as half a launch. For launches, see LAUNCH_WORK. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  solution s;
  if (!solve(problem, &s))
    return HUGE_VAL;
  double start = (0.5 + 2.5 * s.launches) * machine->launch_ms;
  if (s.tile)
    return start + s.work / machine->fma_per_ms;
  double points = (double)s.c.pairs * s.c.height * s.c.width, bytes = points * (16 + 32.0 * problem->filters) / 0.75;
  return start + bytes / machine->bytes_per_ms;
}

/*
 * The bound is statistical, like the bound of the CPU's fft. Errors come from 2 log2 (points of a tile) levels of
 * butterflies, from the product and from the rounded spectrum. Each adds some 0.8 u, relative to the root mean square of its
 * values; the bound counts u. That root mean square is at most max |x| on the way to the spectrum, and (sum |tap|) * max |x|
 * on the way back. The squares of independent errors add up. The bound is 16 standard deviations of the result. A bound that
 * holds for any input would be useless (docs/algorithms.md).
 */
double error_bound(const gconv_problem *problem) {
  solution s;
  double points = solve(problem, &s) ? (double)s.c.height * s.c.width : 1;
  return 16 * 0x1p-24 * sqrt(2 * log2(points) + 2);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_fft = {
    .info = {"fft", "cuda", "products of spectra, tile by tile, for large filters", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .acquire = acquire,
    .dismiss = dismiss,
    .leaves_out_marks = true,
    .spreads = true,
};
