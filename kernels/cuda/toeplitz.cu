/* SPDX-License-Identifier: MIT */
/*
 * toeplitz: rows of the filter as banded matrices, on the integer tensor cores; for u8 and u16 images.
 *
 * Take eight neighbouring output samples and one row of the filter. Their sums are a product: the window of input samples
 * under them, times a banded (Toeplitz) matrix. Column j of the matrix holds the taps from row j on, C apart, because
 * neighbours of a channel are C samples apart.
 *
 *     window (16 bytes)         band (16 x 8), taps a b c, one channel    eight sums
 *                               a . . . . . . .
 *                               b a . . . . . .
 *     [x0 x1 x2 .. x15]    x    c b a . . . . .                        =  [y0 y1 .. y7]
 *                               . c b a . . . .
 *                               . . c b a . . .   ...
 *
 * Sixteen such windows, eight samples apart, are the 16 x 16 or 16 x 32 matrix that mma.sync multiplies by a band. So a warp
 * makes 128 neighbouring samples of a row, of all channels. The tensor cores take bytes as they are; no instruction touches
 * the samples between memory and multiplication. A u16 sample is two bytes, 256 * high + low.
 *
 * A tap is a multiple of a quantum: an integer of one or three digits of base 256, each -128 to 127. Each digit has its own
 * band and its own int32 sum. All sums are exact, and are joined in float32 at the end. One digit suffices for integer
 * filters (Sobel, boxes, binomials), and for any real number times small integers. All other filters are rounded to 24 bits
 * of their largest tap, and take three digits. So the error bound is that of a chain of float32 additions.
 *
 * Speed: R * D products of 16 x 8 x 16 W for 128 samples, with D digits and windows of 16 W bytes; small ones in pairs. For
 * 7 x 7 taps on one channel that is 12 instructions of 6 cycles each, where float32 takes 49 * 4 of 2 cycles. Loading,
 * joining, finishing and storing take some 50 more. It beats float32 from 5 x 5 on.
 *
 * Three kernels: toeplitz_walk.cuh for small filters of bytes, toeplitz_colour.cuh for those of RGB, toeplitz_stage.cuh for
 * all others. toeplitz_bands.cuh makes the bands.
 *
 * Two kinds of problems are refused: strides would drop most of the eight neighbours, and float32 samples are not bytes.
 */
#include "launch.cuh"
#include "toeplitz_bands.cuh"
#include "toeplitz_colour.cuh"
#include "toeplitz_stage.cuh"
#include "toeplitz_walk.cuh"

#include <math.h>

namespace {

/* ---- Launching ---- */

banded_arguments make_arguments(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  const float *prepared = gconv_prepared(problem, execution->weights);
  shape s = shape_of(problem);
  bool aligned = ((uintptr_t)execution->in | execution->in_row | execution->in_plane | execution->in_image) % CHUNK == 0;
  banded_arguments a = {};
  a.common = common_arguments(execution);
  a.scalings = (const scaling *)(prepared + HEADER_FLOATS);
  a.bands = (const uint32_t *)(prepared + front_floats(problem));
  a.in_step = problem->dilation_y * a.common.in_row;
  a.out_step = problem->dilation_y * a.common.out_row;
  a.samples = problem->out_width * problem->channels;
  a.left = s.left;
  a.rows = s.rows;
  a.words = s.words;
  a.whole = aligned ? problem->width * problem->channels : 0;
  a.reach =
      (int32_t)(a.left + s.shift + a.samples + (int64_t)(problem->columns - 1) * problem->channels * problem->dilation_x);
  a.combined = gconv_is_combined(problem);
  a.dense = is_dense<true>(execution);
  a.scale = epilogue->scale;
  a.offset = epilogue->offset;
  uint32_t level = (uint32_t)problem->border_level * (problem->in_type == GCONV_U8 ? 0x01010101u : 0x00010001u);
  a.level = {level, level, level, level};
  return a;
}

/* Launches a kernel whose warps go down rows of so many samples, TILE samples each. */
template <auto KERNEL>
void launch_strips(const gconv_execution *execution, banded_arguments *a, int64_t samples, size_t bytes) {
  const gconv_problem *problem = execution->problem;
  int64_t tiles = (samples - 1) / TILE + 1, planes = (int64_t)problem->images * problem->planes;
  a->across = tiles > 2 ? 4 : (int32_t)tiles;
  cudaFuncSetAttribute(KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  int64_t height = (problem->out_height - 1) / problem->dilation_y + 1; /* of one phase of the dilation */
  int64_t across = (tiles - 1) / a->across + 1, down = WARPS / a->across;
  /* A strip of n rows takes the time of n + R + 1 rows. Warps at the ends of rows take longer. */
  a->strip = (int32_t)choose_strip(height, problem->rows + 1, across * planes * problem->dilation_y,
                                   blocks_at_a_time<KERNEL>(WARPS * LANES, bytes) * down, 1);
  a->strips = (int32_t)((height - 1) / a->strip + 1);
  dim3 grid((unsigned)across, (unsigned)(((int64_t)a->strips * problem->dilation_y - 1) / down + 1), (unsigned)planes);
  KERNEL<<<grid, WARPS * LANES, bytes, (cudaStream_t)execution->stream>>>(*a);
}

template <int R, int W, int D, bool PLAIN> void launch_walk(const gconv_execution *execution) {
  banded_arguments a = make_arguments(execution);
  launch_strips<walk_down<R, W, D, PLAIN>>(execution, &a, a.samples, WARPS * (size_t)walker<R, W, D, PLAIN>::SHARED_BYTES);
}

template <int R, int D> void launch_colours(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem, colour = colour_of(problem);
  banded_arguments a = make_arguments(execution);
  a.left = COLOURS * shape_of(&colour).left;
  a.bands += band_floats(problem);
  launch_strips<walk_down_colours<R, D>>(execution, &a, problem->out_width,
                                         WARPS * (size_t)colour_walker<R, D>::SHARED_BYTES);
}

/* Bytes of shared memory for the staging kernel. */
template <class In> int64_t staged_bytes(const gconv_problem *problem) {
  using large = stager<In, 1>;
  shape s = shape_of(problem);
  int64_t stage = (int64_t)sizeof(float) * WARPS * large::X * large::Y * TILE * (gconv_is_combined(problem) ? 2 : 1);
  return stage + (int64_t)large::staged_rows(s.rows) * pitch_of(large::X, s.words, large::P) + large::place_bytes(s.words);
}

template <class In, int D> void launch_staged(const gconv_execution *execution) {
  using large = stager<In, D>;
  const gconv_problem *problem = execution->problem;
  banded_arguments a = make_arguments(execution);
  const size_t bytes = (size_t)staged_bytes<In>(problem);
  int32_t height = (problem->out_height - 1) / problem->dilation_y + 1; /* of one phase of the dilation */
  a.strips = (height - 1) / (WARPS * large::Y) + 1;
  dim3 grid((a.samples - 1) / (large::X * TILE) + 1, (unsigned)(a.strips * problem->dilation_y),
            (unsigned)(problem->images * problem->planes));
  cudaFuncSetAttribute(staged<In, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  staged<In, D><<<grid, WARPS * LANES, bytes, (cudaStream_t)execution->stream>>>(a);
}

/* ---- The descriptor ---- */

/* Shared memory that a block gets on every device. */
const int64_t MOST_SHARED_BYTES = 64 << 10;

const char *supports(const gconv_problem *problem) {
  if (problem->in_type == GCONV_F32)
    return "float32 samples: the tensor cores take bytes";
  if (problem->stride_y != 1 || problem->stride_x != 1)
    return "strides: it makes eight neighbours at a time";
  float level = problem->border_level, white = gconv_white(problem->in_type);
  if (!(level >= 0 && level <= white && level == rintf(level)))
    return "a constant border between the levels of the input, or beyond";
  const int64_t most = 1 << 29, taps = (int64_t)problem->rows * problem->columns;
  if (problem->height > most || (int64_t)problem->width * problem->channels > most || problem->out_height > 65535 * 16 ||
      (int64_t)problem->out_width * problem->channels > most || (int64_t)problem->pad_left * problem->channels > most)
    return "rows of more than 2^29 samples, or more than 1048560 rows";
  if (problem->dilation_y > problem->height || problem->out_height / 16 + (int64_t)problem->dilation_y > 65535 ||
      (int64_t)problem->images * problem->planes > 65535)
    return "more than 65535 planes, or a dilation that is too large for the height";
  shape s = shape_of(problem);
  if (s.words > MOST_WORDS || taps > 16384)
    return "filters of more than 16384 taps, or that span more than 16376 samples";
  if (!s.walks &&
      (problem->in_type == GCONV_U8 ? staged_bytes<uint8_t>(problem) : staged_bytes<uint16_t>(problem)) > MOST_SHARED_BYTES)
    return "filters so large that their tile would exceed 64 KiB of shared memory";
  return NULL;
}

typedef void launcher(const gconv_execution *);

/* Returns whether the epilogue is only scale and offset, with output in bytes. */
bool is_plain(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const scaling *s = (const scaling *)(gconv_prepared(problem, execution->host_weights) + HEADER_FLOATS);
  return problem->filters == 1 && !gconv_is_combined(problem) && s->divisor == 1 && s->bias == 0 &&
         is_dense<true>(execution) && problem->out_type == GCONV_U8 && !problem->keep_alpha &&
         gconv_is_plain(&problem->epilogue);
}

/* The instances of the kernel of toeplitz_walk.cuh: by words, rows (3, 5, 7, 9) and digits (1 or 3). */
template <int R, int W, int D> void launch_filters(const gconv_execution *execution) {
  if (is_plain(execution))
    launch_walk<R, W, D, true>(execution);
  else
    launch_walk<R, W, D, false>(execution);
}
#define ROWS(W)                                                                                                             \
  {                                                                                                                         \
    {launch_filters<3, W, 1>, launch_filters<3, W, 3>}, {launch_filters<5, W, 1>, launch_filters<5, W, 3>},                 \
        {launch_filters<7, W, 1>, launch_filters<7, W, 3>}, {launch_filters<9, W, 1>, launch_filters<9, W, 3>},             \
  }
launcher *const walking[MOST_WALKED_WORDS][4][2] = {ROWS(1), ROWS(2)};
#define DIGITS(R)                                                                                                           \
  { launch_colours<R, 1>, launch_colours<R, 3> }
launcher *const colours[4][2] = {DIGITS(3), DIGITS(5), DIGITS(7), DIGITS(9)};
launcher *const staging[2][2] = {{launch_staged<uint8_t, 1>, launch_staged<uint8_t, 3>},
                                 {launch_staged<uint16_t, 1>, launch_staged<uint16_t, 3>}};

gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem, colour = colour_of(problem);
  const header *head = (const header *)gconv_prepared(problem, execution->host_weights);
  shape s = shape_of(problem), c = shape_of(&colour);
  if (has_colours(problem) && is_plain(execution))
    colours[(c.rows - 3) / 2][head->digits > 1](execution);
  else if (s.walks)
    walking[s.words - 1][(s.rows - 3) / 2][head->digits > 1](execution);
  else
    staging[problem->in_type][head->digits > 1](execution);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

/* Cycles of a quarter of a multiprocessor for a tile of all filters, measured on an H200: products of 32 bytes, and the
 * other work, which filters of u16 share. It counts three digits, because the taps are not known here. */
double tile_cycles(const gconv_problem *problem) {
  const gconv_problem colour = colour_of(problem);
  const shape s = shape_of(has_colours(problem) ? &colour : problem);
  const bool plain = problem->filters == 1 && problem->out_type == GCONV_U8 && !problem->keep_alpha;
  const double bytes = problem->in_type == GCONV_U16 ? 2 : 1;
  const double filters = problem->filters, others = problem->in_type == GCONV_U16 ? 1 : filters;
  if (s.walks)
    return filters * ((plain ? 70 : 170) + 7.2 * MOST_DIGITS * s.bands / (s.words == 1 ? 2 : 1));
  return others * 450 * bytes + filters * 1.47 * s.bands * 6.0 * MOST_DIGITS * bytes;
}

double cost(const gconv_problem *problem, const gconv_machine *machine) {
  double planes = (double)problem->images * problem->planes, channels = problem->channels, filters = problem->filters;
  double tiles = ceil(problem->out_width * channels / TILE) * problem->out_height * planes;
  double in = planes * channels * problem->height * problem->width * (problem->in_type == GCONV_U8 ? 1 : 2);
  double size = (double)gconv_type_bytes(problem->out_type);
  double out = planes * channels * problem->out_height * problem->out_width * size;
  double cycles_per_ms = machine->fma_per_ms / 128 * 4; /* of all quarters */
  double copied = (in + out * (gconv_is_combined(problem) ? 1 : filters)) / machine->bytes_per_ms;
  double several = problem->filters > 1 && problem->in_type == GCONV_U8 ? 1.3 : 1; /* measured for pairs */
  return several * (machine->launch_ms + 0.006 + fmax(tiles * tile_cycles(problem) / cycles_per_ms, copied));
}

/* A tap of three digits is off by half a quantum, 1.004 * 2^-24 of the largest tap, and so of sum |tap|. A tap of one digit
 * is off by two roundings of its own. Sums of digits are exact. 18 is more than all other errors together: the roundings of
 * at most four conversions, each of a sum of at most twice sum |tap| * max |x|; as many multiply-adds; the quantum, and the
 * product with it; and 256 quanta that plain results lose. These quanta are two of 2^-24, since the largest tap alone has
 * 2^23 of them, at 255 levels. */
double error_bound(const gconv_problem *problem) {
  return (1.01 * problem->rows * problem->columns + 18) * 0x1p-24;
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_toeplitz = {
    .info = {"toeplitz", "cuda", "rows of the filter as banded matrices, on the tensor cores; for u8 and u16", false},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};
