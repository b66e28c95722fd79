/* SPDX-License-Identifier: MIT */
/*
 * separable: columns times rows, in one kernel.
 *
 * A filter of rank r is the sum of r columns times rows (factor.h): r * (R + S) multiply-adds a sample instead of R *
 * S. Both directions run on tensor cores. Floats and filters of rank 1 are processed from top to bottom
 * (separable_walk.cuh), everything else from left to right (separable_tensor.cuh).
 */
#include "separable_walk_launch.cuh"

namespace {

/* ---- Tensor cores ---- */

/* Returns the strips of a block: at most as many as there are, and as shared memory holds. If possible, two blocks share the
 * shared memory of a multiprocessor. */
int strips_of(const gconv_problem *problem) {
  static const int most[] = {8, 4, 4, 4}; /* by channels: 8 to 16 warps */
  separable_arguments unused;
  int channels = convolved_channels(problem), wide = GROUP_COUNTS[size_of(problem)] > 9;
  int strips = wide ? 8 / channels : most[channels - 1];
  int64_t all = ((int64_t)problem->out_height - 1) / STRIP + 1;
  strips = strips < all ? strips : (int)all;
  while (strips > 1 && lay_out(problem, strips, &unused) > shared_limit() * (strips > 2 ? 1 : 2) / 2)
    strips--;
  return strips;
}

/* Returns the output columns of a block, which begins with 2 steps, and with groups before its first output. */
int segment_of(const gconv_problem *problem, int groups, int64_t rows_of_blocks, int64_t blocks_at_a_time) {
  const int step = step_of_type(problem->in_type), lead = (groups - 1) * GROUP + 2 * step;
  const int64_t steps = ((int64_t)problem->out_width - 1) / step + 1;
  return (int)choose_strip(steps, lead, rows_of_blocks, blocks_at_a_time, 0, step) * step;
}

separable_arguments make_arguments(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  const float *prepared = gconv_prepared(problem, execution->weights);
  separable_arguments a = {};
  a.common = common_arguments(execution);
  a.common.out += filter * a.common.out_filter;
  a.weights = execution->weights;
  a.unscales = prepared;
  a.unscale = gconv_prepared(problem, execution->host_weights)[filter];
  a.first_filter = filter;
  a.left = left_of(problem);
  a.plain = is_plain(execution, filter);
  a.dense = is_dense<true>(execution) && begins_at_multiples(execution, 16); /* the widest word */
  lay_out(problem, strips_of(problem), &a);
  const int words = step_of_type(problem->in_type) * problem->channels * (int)gconv_type_bytes(problem->out_type) /
                    (problem->out_type == GCONV_U8 ? 8 : 16);
  a.rows_at_once =
      a.channels * LANES % words == 0 && STRIP * words % (a.channels * LANES) == 0 ? a.channels * LANES / words : 0;
  a.fragments = (const uint4 *)(prepared + header_floats(problem)) + (int64_t)filter * a.pairs * pair_words(problem);
  return a;
}

/* Launches filter `filter`, or all filters if they are combined. */
template <class In, int WEIGHT_DIGITS, int GROUPS, bool MANY> void launch(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  separable_arguments a = make_arguments(execution, filter);
  const size_t bytes = lay_out(problem, a.strips, &a);
  const int threads = a.strips * a.channels * LANES;
  a.row_blocks = (problem->out_height - 1) / (a.strips * STRIP) + 1;
  int64_t rows_of_blocks = (int64_t)a.row_blocks * problem->images * problem->planes;
  a.segment = segment_of(problem, GROUPS, rows_of_blocks,
                         blocks_at_a_time<convolve<In, WEIGHT_DIGITS, GROUPS, MANY>>(threads, bytes));
  a.segments = (problem->out_width - 1) / a.segment + 1;
  convolve<In, WEIGHT_DIGITS, GROUPS, MANY>
      <<<(unsigned)(rows_of_blocks * a.segments), threads, bytes, (cudaStream_t)execution->stream>>>(a);
}

typedef void launcher(const gconv_execution *, int32_t filter);

/* The instances: by the digits of taps and the type of samples, by the groups of a window (GROUP_COUNTS), and by whether
 * windows are in shared memory. */
#define BOTH(In, digits, groups)                                                                                            \
  { launch<In, digits, groups, false>, launch<In, digits, groups, true> }
#define SHARED(In, groups)                                                                                                  \
  { NULL, launch<In, 2, groups, true> }
#define WINDOWS(In, smallest)                                                                                               \
  { smallest, BOTH(In, 2, 3), BOTH(In, 2, 5), BOTH(In, 2, 9), SHARED(In, 17), SHARED(In, 33) }
#define NONE                                                                                                                \
  { NULL, NULL }
launcher *const instances[3][SIZES][2] = {WINDOWS(uint8_t, BOTH(uint8_t, 2, 2)), WINDOWS(uint16_t, NONE),
                                          WINDOWS(float, NONE)};
launcher *const one_digit[SIZES][2] = {BOTH(uint8_t, 1, 2), BOTH(uint8_t, 1, 3)};

void execute_on_tensor_cores(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const bool exact = gconv_prepared(problem, execution->host_weights)[problem->filters] == 1;
  const int size = size_of(problem), shared = is_shared(problem);
  launcher *launch_filter = instances[problem->in_type][size][shared];
  if (exact && problem->in_type == GCONV_U8 && one_digit[size][shared])
    launch_filter = one_digit[size][shared];
  for (int32_t filter = 0; filter < problem->filters; filter += launched_filters(problem))
    launch_filter(execution, filter);
}

/* ---- Both kernels ---- */

size_t prepared_floats(const gconv_problem *problem) {
  return walk::takes(problem) ? walk::prepared_floats(problem) : matrix_floats(problem);
}

gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  float *factors = (float *)calloc(gconv_factor_floats(problem) + 1, sizeof(float));
  if (!factors)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the factors of the filters");
  gconv_status status = gconv_factor_filters(problem, taps, factors);
  if (status == GCONV_OK)
    (walk::takes(problem) ? walk::write_filters : write_filters)(problem, factors, prepared);
  free(factors);
  return status;
}

gconv_status execute(const gconv_execution *execution) {
  (walk::takes(execution->problem) ? walk::execute : execute_on_tensor_cores)(execution);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

/* ---- The descriptor ---- */

double tensor_bound(const gconv_problem *problem) {
  double rank = problem->structure.rank;
  double down = direction_bound(problem->rows, chunks_of(problem));
  double along = direction_bound(rank * problem->columns, rank * (GROUP_COUNTS[size_of(problem)] + 1) / 2.0);
  return problem->structure.residual + problem->structure.growth * ((1 + down) * (1 + along) - 1);
}

double error_bound(const gconv_problem *problem) {
  return walk::takes(problem) ? walk::error_bound(problem) : tensor_bound(problem);
}

bool is_level(const gconv_problem *problem) {
  float level = problem->border_level;
  return problem->border != GCONV_BORDER_CONSTANT || problem->in_type == GCONV_F32 ||
         (level >= 0 && level <= gconv_white(problem->in_type) && level == rintf(level));
}

const char *supports(const gconv_problem *problem) {
  separable_arguments unused;
  if (problem->structure.rank == GCONV_RANK_HIGH)
    return "the rank of the filter is so high that columns and rows would take more taps";
  if (problem->stride_y != 1 || problem->stride_x != 1)
    return "strides other than 1";
  if ((int64_t)(problem->rows - 1) * problem->dilation_y > 256 || size_of(problem) == SIZES)
    return "filters that reach over more than some 256 pixels";
  if (!is_level(problem))
    return "a constant border between the levels of the input";
  if (error_bound(problem) > 1e-3)
    return "its columns and rows would lose too many digits";
  if ((int64_t)launched_filters(problem) * pairs_of(problem) > 64 || lay_out(problem, 1, &unused) > shared_limit())
    return "its factors would take more shared memory than there is";
  /* A block has at least 16 rows by some 32 columns. Positions are 32-bit numbers. */
  int64_t planes = (int64_t)problem->images * problem->planes;
  if (planes * (problem->out_height / STRIP + 1) > INT32_MAX / 64 || problem->out_width > INT32_MAX / 64)
    return "more blocks than a launch takes";
  return NULL;
}

/* Costs measured on an H200, in multiply-adds of float32: loading and storing a sample, more if channels are taken apart;
 * the way between the two directions, for each pair; and the products, of which tensor cores do 8 in the time of one.
 * Filling and emptying the pipeline takes 10 us; with floats, it was 38 us on small images. */
double tensor_ms(const gconv_problem *problem, const gconv_machine *machine) {
  const bool bytes = problem->in_type == GCONV_U8;
  double samples = (double)problem->images * problem->planes * problem->channels * problem->out_height * problem->out_width;
  double carried = (bytes ? 30 : 70) * (problem->channels == 1 ? 1 : bytes ? 1.6 : 2.4);
  double products = (bytes ? 2 : 3) * STRIP * chunks_of(problem) + 3 * GROUP * GROUP_COUNTS[size_of(problem)];
  double pairs = launched_filters(problem) * pairs_of(problem), launches = problem->filters / launched_filters(problem);
  double compute = samples * (carried + pairs * (25 + products / 8)) / machine->fma_per_ms;
  double moved = (double)(gconv_type_bytes(problem->in_type) + gconv_type_bytes(problem->out_type));
  double memory = samples * moved / (0.8 * machine->bytes_per_ms);
  double filling = problem->in_type == GCONV_F32 ? 0.038 : 0.01;
  return launches * (machine->launch_ms + filling + (compute > memory ? compute : memory));
}

/* The same for separable_walk.cuh: products of tensor cores, and all else that a sample costs. */
double walk_ms(const gconv_problem *problem, const gconv_machine *machine) {
  double samples = (double)problem->images * problem->planes * problem->channels * problem->out_height * problem->out_width;
  double products = 3.0 * (walk::TILE * walk::turns_of(problem) + 8 * (walk::COUNTS[walk::walk_of(problem)] + 1));
  double compute = samples * (4 + products / 4) / machine->fma_per_ms;
  double moved = (double)(gconv_type_bytes(problem->in_type) + gconv_type_bytes(problem->out_type));
  double memory = samples * moved / (0.88 * machine->bytes_per_ms);
  return problem->filters * (machine->launch_ms + 0.01 + (compute > memory ? compute : memory));
}

/* Pairs of filters were measured to take 1.6 to 2.4 times the estimate of one. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  if (walk::takes(problem))
    return walk_ms(problem, machine);
  return tensor_ms(problem, machine) * (problem->filters > 1 ? 1.8 : 1);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_separable = {
    .info = {"separable", "cuda", "columns times rows of filters of low rank", false},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};
