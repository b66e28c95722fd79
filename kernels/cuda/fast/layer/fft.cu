/* SPDX-License-Identifier: MIT */
/*
 * fft: spectra of tiles, summed over the channels (overlap-save in both directions).
 *
 * The image is cut into overlapping tiles. The spectra of a tile's C channels are multiplied by the spectra of a filter's C
 * channels, which a plan keeps, and added up. One inverse transform yields the filter's outputs. So C + K transforms and C *
 * K products of points replace C * K * R * S products of samples.
 *
 * Tiles have 128 to 2048 points a side. Three kernels (fft_sums.cuh) write each point to memory once. With few channels, fft
 * is bound by this traffic: 16 bytes for each point of a channel and of a filter, and 8 bytes of spectra for each of their
 * products, which mostly come from the L2 cache. With many channels, it is bound by transforming them again for each filter.
 *
 * fft is not of the exact family; error_bound() says how far it may be off. A NaN or an infinity spreads over its pair of
 * tiles. So sums that are not finite are computed again by the definition.
 */
#include "../../core/launch.cuh"
#include "fft_sums.cuh"

#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace {

/* ---- Lines ---- */

/* The kernels and their numbers for lines of one size, as rows and as columns of a tile. */
struct line_engine {
  line_order order;
  int twists, rows, row_threads, columns, pairs, threads, blocks; /* see line_shape and column_shape */
  size_t rows_shared, set; /* bytes of the rows of a block; of the columns of a block, of one channel of all pairs */
  void (*enter)(layer_arguments), (*sum)(layer_arguments), (*sum_kept)(layer_arguments), (*leave)(layer_arguments);
  decltype(&transform_filter_columns<columns_order<4>>) make_spectra;
};

template <int P, int Q> line_engine line_engine_of() {
  using rows = row_shape<P, Q>;
  using columns = column_shape<P, Q>;
  return {{P, Q, rows::S},
          rows::TWISTS,
          rows::ROWS,
          rows::THREADS,
          columns::COLUMNS,
          columns::PAIRS,
          columns::THREADS,
          columns::BLOCKS,
          rows::ROWS_SHARED,
          columns::PAIRS * columns::SET * sizeof(float2),
          enter_rows<rows>,
          sum_columns<columns, false>,
          sum_columns<columns, true>,
          leave_rows<rows>,
          transform_filter_columns<columns_order<columns::COLUMNS>>};
}

const line_engine engines[] = {line_engine_of<2, 4>(), line_engine_of<4, 4>(), line_engine_of<4, 5>(),
                               line_engine_of<4, 8>(), line_engine_of<8, 5>(), line_engine_of<8, 8>(),
                               line_engine_of<8, 16>()};

/* ---- How a problem is solved ---- */

struct solution {
  const line_engine *y, *x; /* of columns, which run along y, and of rows; NULL: there is no solution */
  cutting c;
  int64_t at_a_time;       /* pairs of tiles in a batch */
  int splits;              /* see layer_arguments */
  bool keeps;              /* see sum_columns() */
  size_t state, workspace; /* bytes */
  double work;             /* time of an image, as the multiply-adds of an H200 in that time */
};

constexpr int64_t BATCH_BYTES = 192 << 20; /* of points and sums of a batch; smaller batches took longer */

int64_t channels_of_group(const gconv_layer_problem *problem) {
  return problem->channels / problem->groups;
}

int64_t spectra_of_weights(const gconv_layer_problem *problem) {
  return problem->filters * channels_of_group(problem);
}

int64_t points_of(const cutting &c) {
  return (int64_t)c.height * c.width;
}

/* Cuts an image into tiles. Returns false if these are too small for the filters. */
bool cut(const gconv_layer_problem *problem, const line_engine &y, const line_engine &x, cutting *c) {
  const int64_t reach_y = (int64_t)(problem->rows - 1) * problem->dilation_y,
                reach_x = (int64_t)(problem->columns - 1) * problem->dilation_x;
  *c = {size_of(y.order), size_of(x.order)};
  if (c->height - reach_y < problem->stride_y || c->width - reach_x < problem->stride_x)
    return false;
  c->valid_y = (int32_t)(c->height - reach_y) / problem->stride_y * problem->stride_y;
  c->valid_x = (int32_t)(c->width - reach_x) / problem->stride_x * problem->stride_x;
  c->tiles_y = (int32_t)divide_up(problem->out_height, c->valid_y / problem->stride_y);
  c->tiles_x = (int32_t)divide_up(problem->out_width, c->valid_x / problem->stride_x);
  const int64_t tiles = (int64_t)c->tiles_y * c->tiles_x;
  c->tiles = (int32_t)tiles;
  c->pairs = (int32_t)divide_up(tiles, 2);
  c->columns = y.columns;
  return tiles < INT32_MAX;
}

/* What the device has. */
struct limits {
  double shared, processors; /* bytes of shared memory of a block; multiprocessors */
};

/* Chooses how blocks of sum_columns() share filters, by the time of all rounds of blocks. Its unit is the time of a
 * transform; a product takes half of it. A round of few blocks takes more time for each block. */
void share_filters(const gconv_layer_problem *problem, const limits &device, solution *s) {
  const double channels = (double)channels_of_group(problem), filters = (double)filters_of_group(problem);
  const double blocks = (double)divide_up(s->at_a_time, s->y->pairs) * s->c.width / s->c.columns * problem->groups;
  const auto rounds = [&](double splits, double sets) {
    const double fitting = fmin(s->y->blocks, floor(device.shared / (sets * (double)s->y->set)));
    return ceil(blocks * splits / (fitting * device.processors)) * (fitting * s->y->threads + 320);
  };
  s->splits = (int)filters;
  s->keeps = false;
  double least = rounds(filters, 1) * (channels * 1.5 + 1);
  for (int splits = 1; splits < filters && splits <= 64 && (channels + 1) * (double)s->y->set <= device.shared; splits++) {
    const double time = rounds(splits, channels + 1) * (channels + ceil(filters / splits) * (1 + channels * 0.5));
    if (time >= least)
      continue;
    least = time;
    s->splits = splits;
    s->keeps = true;
  }
}

/* The factors of `work` were measured on an H200. */
bool solve_with(const gconv_layer_problem *problem, const limits &device, const line_engine &y, const line_engine &x,
                solution *s) {
  *s = {&y, &x};
  if (!cut(problem, y, x, &s->c))
    return false;
  const double filters = problem->filters, products = (double)spectra_of_weights(problem);
  const int64_t all = (int64_t)problem->images * s->c.pairs,
                pair = (int64_t)(problem->channels + problem->filters) * points_of(s->c) * (int64_t)sizeof(float2);
  s->state = (size_t)(y.twists + x.twists + spectra_of_weights(problem) * points_of(s->c)) * sizeof(float2);
  if (s->state + (size_t)pair > problem->workspace_limit)
    return false;
  const int64_t room = (int64_t)std::min<size_t>(problem->workspace_limit - s->state, BATCH_BYTES);
  s->at_a_time = std::clamp<int64_t>(room / pair, 1, std::min<int64_t>(all, 65535));
  s->at_a_time = divide_up(all, divide_up(all, s->at_a_time)); /* all batches have nearly the same size */
  s->workspace = (size_t)(s->at_a_time * pair);
  share_filters(problem, device, s);
  const double again = s->keeps || filters_of_group(problem) == 1 ? 0 : 104; /* transforms of channels for each filter */
  s->work = (double)s->c.pairs * (double)points_of(s->c) *
            (problem->channels * 167.0 + filters * (275 + 275.0 * s->c.valid_y / s->c.height) + products * (27 + again));
  return true;
}

/* Finds the fastest solution for one image, so that an image has the same bits in any batch. */
bool solve(const gconv_layer_problem *problem, solution *best) {
  const limits device = {(double)shared_limit(), (double)multiprocessors()};
  gconv_layer_problem image = *problem;
  image.images = 1;
  solution s;
  *best = {};
  for (const line_engine &y : engines)
    for (const line_engine &x : engines)
      if (solve_with(&image, device, y, x, &s) && (!best->y || s.work < best->work))
        *best = s;
  return best->y && solve_with(problem, device, *best->y, *best->x, best);
}

size_t workspace_bytes(const gconv_layer_problem *problem) {
  solution s;
  return solve(problem, &s) ? s.workspace : 0;
}

/* ---- Weights ---- */

/* The prepared floats: for each filter, the factor of its weights, then for each filter, the factor of its sums. The factor
 * of weights is a power of two by which the sum of |weight| becomes 1/2 to 1, so that neither large nor tiny weights leave
 * the range of float32 in the transforms. */
size_t factor_floats(const gconv_layer_problem *problem) {
  return 2 * (size_t)problem->filters;
}

gconv_status prepare_factors(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  solution s;
  if (!solve(problem, &s))
    return GCONV_UNSUPPORTED;
  const int64_t taps = gconv_layer_taps(problem);
  for (int64_t k = 0; k < problem->filters; k++, weights += taps) {
    double sum = 0;
    int exponent = 0;
    for (int64_t i = 0; i < taps; i++)
      sum += fabs((double)weights[i]);
    if (isfinite(sum))
      frexp(sum, &exponent);
    exponent = std::clamp(exponent, -126, 126);
    prepared[k] = (float)ldexp(1, -exponent);
    prepared[problem->filters + k] = (float)(ldexp(1, exponent) / (double)points_of(s.c)); /* no transform is scaled */
  }
  return GCONV_OK;
}

/* ---- What a plan keeps: the solution, and twists and spectra on the device ---- */

struct fft_state {
  solution s;
  float2 *twists; /* of columns, then of rows; then spectra */
};

float2 *spectra_of(const fft_state &state) {
  return state.twists + state.s.y->twists + state.s.x->twists;
}

void dismiss(void *memory) {
  fft_state *state = (fft_state *)memory;
  cudaFree(state->twists);
  free(state);
}

/* Makes the spectra of all filters, some channels of one filter at a time. */
gconv_status make_spectra(const gconv_layer_execution *e, const fft_state &state) {
  const gconv_layer_problem *problem = e->problem;
  const cudaStream_t stream = (cudaStream_t)e->stream;
  const line_order y = state.s.y->order, x = state.s.x->order;
  const int64_t channels = channels_of_group(problem), taps = (int64_t)problem->rows * problem->columns,
                row_points = (int64_t)problem->rows * size_of(x), points = points_of(state.s.c);
  const int64_t together = std::clamp<int64_t>((4 << 20) / row_points, 1, channels);
  std::vector<float> factors((size_t)problem->filters);
  CUDA_TRY(cudaMemcpyAsync(factors.data(), gconv_layer_prepared(problem, e->weights), factors.size() * sizeof(float),
                           cudaMemcpyDeviceToHost, stream));
  CUDA_TRY(cudaStreamSynchronize(stream));
  double2 *rows;
  CUDA_TRY(cudaMalloc(&rows, (size_t)(together * row_points) * sizeof(double2)));
  for (int64_t k = 0; k < problem->filters; k++)
    for (int64_t c = 0; c < channels; c += together) {
      const unsigned count = (unsigned)std::min(together, channels - c);
      transform_filter_rows<<<dim3(blocks_for(size_of(x), 128, INT32_MAX), (unsigned)problem->rows, count), 128, 0,
                              stream>>>(e->weights + (k * channels + c) * taps, problem->columns, problem->dilation_x,
                                        size_of(x), rows);
      state.s.y->make_spectra<<<dim3(blocks_for(points, 128, INT32_MAX), 1, count), 128, 0, stream>>>(
          rows, problem->rows, problem->dilation_y, y, x, 1 / (double)factors[(size_t)k],
          spectra_of(state) + (k * channels + c) * points);
    }
  const cudaError_t error = cudaStreamSynchronize(stream);
  cudaFree(rows);
  return CUDA_STATUS(error);
}

/* Returns how many channels of a pair sum_columns() has in shared memory. The place for sums counts as one. */
int32_t sets_of(const gconv_layer_problem *problem, const solution &s) {
  return s.keeps ? (int32_t)channels_of_group(problem) + 1 : 1;
}

gconv_status acquire(const gconv_layer_execution *e, void **result) {
  std::unique_ptr<fft_state, decltype(&dismiss)> state((fft_state *)calloc(1, sizeof(fft_state)), dismiss);
  if (!state)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the state of fft");
  solution &s = state->s;
  if (!solve(e->problem, &s))
    return GCONV_UNSUPPORTED;
  GCONV_TRY(allow_shared(s.x->enter, (int64_t)s.x->rows_shared));
  GCONV_TRY(allow_shared(s.keeps ? s.y->sum_kept : s.y->sum, sets_of(e->problem, s) * (int64_t)s.y->set));
  GCONV_TRY(allow_shared(s.x->leave, (int64_t)s.x->rows_shared));
  CUDA_TRY(cudaMalloc(&state->twists, s.state));
  make_line_twists(s.y->order, (cudaStream_t)e->stream, state->twists);
  make_line_twists(s.x->order, (cudaStream_t)e->stream, state->twists + s.y->twists);
  GCONV_TRY(make_spectra(e, *state));
  *result = state.release();
  return GCONV_OK;
}

/* ---- Execution ---- */

/* Runs a.count pairs of tiles, from a.first_pair on. */
void execute_batch(const solution &s, const layer_arguments &a, cudaStream_t stream) {
  const gconv_layer_problem &problem = a.problem;
  const auto sum = s.keeps ? s.y->sum_kept : s.y->sum;
  const unsigned count = (unsigned)a.count;
  const dim3 enter((unsigned)(s.c.height / s.x->rows), (unsigned)problem.channels, count),
      columns((unsigned)divide_up(count, s.y->pairs), (unsigned)(s.c.width / s.c.columns),
              (unsigned)(problem.groups * s.splits)),
      leave((unsigned)divide_up(s.c.valid_y / problem.stride_y, s.x->rows), (unsigned)problem.filters, count);
  s.x->enter<<<enter, s.x->row_threads, s.x->rows_shared, stream>>>(a);
  sum<<<columns, s.y->threads, a.sets * s.y->set, stream>>>(a);
  s.x->leave<<<leave, s.x->row_threads, s.x->rows_shared, stream>>>(a);
}

gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  const fft_state &state = *(const fft_state *)e->state;
  const solution &s = state.s;
  layer_arguments a = {*problem, s.c};
  a.splits = s.splits, a.sets = sets_of(problem, s);
  a.in = e->in, a.weights = e->weights, a.out = e->out;
  a.biases = gconv_layer_biases(problem, e->weights);
  a.scales = gconv_layer_prepared(problem, e->weights) + problem->filters;
  a.twists_y = state.twists, a.twists_x = state.twists + s.y->twists;
  a.spectra = spectra_of(state);
  a.points = (float2 *)e->workspace;
  a.sums = a.points + s.at_a_time * problem->channels * points_of(s.c);
  const int64_t pairs = (int64_t)problem->images * s.c.pairs;
  for (a.first_pair = 0; a.first_pair < pairs; a.first_pair += s.at_a_time) {
    a.count = (int32_t)std::min(s.at_a_time, pairs - a.first_pair);
    execute_batch(s, a, (cudaStream_t)e->stream);
  }
  return CUDA_STATUS(cudaGetLastError());
}

/* ---- The descriptor ---- */

const char *supports(const gconv_layer_problem *problem) {
  if (problem->math != GCONV_MATH_FP32)
    return "math other than fp32";
  if (problem->channels > 65535 || problem->filters > 65535)
    return "more than 65535 channels or filters";
  if (const char *obstacle = overflow_obstacle(problem))
    return obstacle;
  solution s;
  if (solve(problem, &s))
    return NULL;
  gconv_layer_problem unlimited = *problem;
  unlimited.workspace_limit = SIZE_MAX;
  return solve(&unlimited, &s) ? "spectra and tiles larger than the workspace may be"
                               : "filters that span more than 2048 rows or columns";
}

double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  solution s;
  if (!solve(problem, &s))
    return HUGE_VAL;
  const double batches = ceil((double)problem->images * s.c.pairs / (double)s.at_a_time);
  return (2.5 + 3 * batches) * machine->launch_ms + problem->images * s.work / machine->fma_per_ms;
}

/* The bound is like that of fft for planes (../fft.cu), relative to (sum |weight|) * max |x|: 16 standard deviations of the
 * errors of 2 log2 (points of a tile) levels of butterflies, the product, the rounded spectrum, and C / 8 for C products. */
double error_bound(const gconv_layer_problem *problem) {
  solution s;
  const double points = solve(problem, &s) ? (double)points_of(s.c) : 1;
  return 16 * 0x1p-24 * sqrt(2 * log2(points) + (double)channels_of_group(problem) / 8 + 2);
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_fft = {
    .info = {"fft", "cuda", "spectra of tiles, summed over the channels, for larger filters", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .bound_of_largest = true,
    .prepared_floats = factor_floats,
    .prepare = prepare_factors,
    .acquire = acquire,
    .dismiss = dismiss,
};
