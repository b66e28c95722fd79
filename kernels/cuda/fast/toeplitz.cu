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
 * computes 128 neighbouring samples of a row, of all channels. The tensor cores take bytes: samples of u8 pass through
 * shared memory unchanged, and a u16 sample is split into two bytes, 256 * high + low.
 *
 * A tap is a multiple of a quantum: an integer of one or three digits of base 256, each -128 to 127. Each digit has its own
 * band and its own int32 sum. All sums are exact, and are joined at the end. One digit suffices for integer filters (Sobel,
 * boxes, binomials), and for any real number times small integers. All other filters are rounded to 24 bits of their largest
 * tap, and take three digits; two would be too coarse. So the error bound is that of a chain of float32 additions.
 *
 * Speed (u8): R * D products of 16 x 8 x 16 W for 128 samples, with D digits and windows of 16 W bytes; a product takes two
 * small windows. For 7 x 7 taps of three digits on one channel, that is 12 instructions of 6 cycles on an H200; float32
 * takes 49 * 4 of 1 cycle. In the kernel, a product takes 7.2 cycles, and all other work some 70 cycles (tile_cycles()).
 * toeplitz is faster than float32 from 5 x 5 on.
 *
 * There are two kernels. toeplitz_walk.cuh takes small filters on bytes; if the epilogue is plain, it divides the colours of
 * RGB. toeplitz_stage.cuh takes all other problems. The host makes the bands.
 *
 * toeplitz refuses strides, which leave out at least half of the neighbours, floats, which are not bytes, and sizes:
 * supports().
 */
#include "../core/launch.cuh"
#include "kernels/factor.h"
#include "toeplitz_stage.cuh"
#include "toeplitz_walk.cuh"

#include <float.h>
#include <math.h>

namespace {

/* ---- Bands, made on the host ---- */

/* How the filters of a problem become bands. */
struct shape {
  bool walks;    /* the kernel of toeplitz_walk.cuh takes the filters */
  int32_t words; /* W: a window has 16 W samples; an even number for the staging kernel */
  int32_t rows;  /* rows of bands: R, and perhaps some rows of zeros */
  int32_t bands; /* bands of a digit, of 32 x 8 taps each */
  int32_t left;  /* as in banded_arguments */
  int32_t shift; /* the sample of the window under the first tap of output 0 */
};

/* The header before the scalings and bands of all filters. It is padded to HEADER_FLOATS. */
struct header {
  int32_t digits;
};
enum { HEADER_FLOATS = 16, MOST_WALKED_ROWS = 9, MOST_WALKED_WORDS = 2, MOST_WORDS = 1024 };

shape shape_of(const gconv_problem *problem) {
  shape s;
  s.shift = (int32_t)(-(int64_t)problem->pad_left * problem->channels & 3);
  s.left = -problem->pad_left * problem->channels - s.shift;
  int64_t window = s.shift + OUTPUTS + (int64_t)(problem->columns - 1) * problem->channels * problem->dilation_x;
  s.words = (int32_t)(window <= 16 * MOST_WORDS ? (window - 1) / 16 + 1 : MOST_WORDS + 1);
  s.walks = problem->in_type == GCONV_U8 && problem->rows <= MOST_WALKED_ROWS && s.words <= MOST_WALKED_WORDS;
  if (s.walks) {
    s.rows = problem->rows <= 3 ? 3 : problem->rows + 1 - problem->rows % 2;
    s.bands = s.words == 1 ? s.rows + 1 : s.rows;
  } else {
    s.rows = problem->rows;
    s.words += s.words % 2;
    s.bands = s.words / 2 * s.rows;
  }
  return s;
}

/* Returns the problem of one colour of an RGB image. */
gconv_problem colour_of(const gconv_problem *problem) {
  gconv_problem colour = *problem;
  colour.channels = 1;
  return colour;
}

/* Returns whether dividing the colours of the image makes windows shorter. Then there are bands for one colour, too. They
 * are used if the epilogue is plain as well (stores_plain_bytes()). */
bool has_colours(const gconv_problem *problem) {
  const gconv_problem colour = colour_of(problem);
  const shape s = shape_of(&colour);
  return problem->channels == 3 && problem->filters == 1 && problem->in_type == GCONV_U8 && problem->out_type == GCONV_U8 &&
         !problem->keep_alpha && shape_of(problem).words > 1 && s.walks && s.words == 1;
}

/* Returns the floats before the bands: header and scalings, rounded up. */
size_t front_floats(const gconv_problem *problem) {
  return HEADER_FLOATS + ((size_t)problem->filters * (sizeof(scaling) / sizeof(float)) + 15) / 16 * 16;
}

/* Returns the floats of the bands of all filters. The bands for one colour follow them. */
size_t band_floats(const gconv_problem *problem) {
  return (size_t)problem->filters * shape_of(problem).bands * MOST_DIGITS * 2 * LANES;
}

size_t prepared_floats(const gconv_problem *problem) {
  const gconv_problem colour = colour_of(problem);
  return front_floats(problem) + band_floats(problem) + (has_colours(problem) ? band_floats(&colour) : 0);
}

/* The largest integers of one and of three digits whose negatives have as many digits: 127 * (1 + 256 + 65536). */
enum { LARGEST_SHORT = 127, LARGEST_LONG = 127 * 65793 };

double largest_tap(const gconv_problem *problem, const float *taps) {
  double largest = 0;
  for (int64_t i = 0; i < (int64_t)problem->rows * problem->columns; i++)
    largest = fmax(largest, fabs((double)taps[i]));
  return largest;
}

/* Returns whether every tap is an integer times the quantum, apart from one rounding of the tap and one of the quantum. */
bool is_multiple(const gconv_problem *problem, const float *taps, double quantum) {
  for (int64_t i = 0; i < (int64_t)problem->rows * problem->columns; i++) {
    double tap = (double)taps[i], error = tap - rint(tap / quantum) * quantum;
    if (fabs(error) > fabs(tap) * 0x1p-23)
      return false;
  }
  return true;
}

/* How the taps of a filter become integers: the number of digits, 1 or 3, and the quantum. */
struct grid_of_taps {
  int32_t digits;
  double quantum;
};

/* Integers of 8 bits keep their unit, so that the sums equal those of the exact family (integer.cu). */
grid_of_taps find_grid(const gconv_problem *problem, const float *taps) {
  if (gconv_is_of_bytes(&problem->structure.integers))
    return {1, gconv_find_integers(taps, (int64_t)problem->rows * problem->columns).unit};
  double largest = largest_tap(problem, taps);
  if (largest == 0)
    return {1, 1};
  for (int32_t multiple = 1; multiple <= LARGEST_SHORT; multiple++)
    if (is_multiple(problem, taps, largest / multiple))
      return {1, largest / multiple};
  return {3, largest / LARGEST_LONG};
}

/* Returns digit number `digit` of an integer, -128 .. 127. */
int8_t digit_of(int32_t integer, int32_t digit) {
  for (; digit > 0; digit--)
    integer = (integer - (int8_t)(integer & 255)) / 256;
  return (int8_t)(integer & 255);
}

/* Adds a byte to row `row` of column g of a band, for digit d of row r of the filter. Bands are stored as [row / 32][r][d]
 * [lane][word]: lane 4 g + t has rows 4 t .. 4 t + 3 of column g in its first word, and the rows 16 further on in its
 * second. Windows of 16 bytes use bands of two filter rows, e = 0 and 1: [e][(r + e) / 2][d][lane][(r + e) % 2]. */
void add_byte(const shape *s, int64_t digits, int64_t r, int64_t d, int64_t row, int64_t g, uint32_t byte, uint32_t *bands) {
  const int64_t lane = 4 * g + row % 16 / 4;
  if (s->words > 1)
    bands[(((row / 32 * s->rows + r) * digits + d) * LANES + lane) * 2 + row / 16 % 2] |= byte << 8 * (row % 4);
  else
    for (int64_t e = 0; e < 2; e++)
      bands[(((e * s->bands / 2 + (r + e) / 2) * digits + d) * LANES + lane) * 2 + (r + e) % 2] |= byte << 8 * (row % 4);
}

/* Writes the bands of one filter. Column g begins with the first tap, in row shift + g. */
void write_bands(const gconv_problem *problem, const shape *s, const float *taps, double quantum, int32_t digits,
                 uint32_t *bands) {
  int64_t step = (int64_t)problem->channels * problem->dilation_x;
  for (int32_t i = 0; i < problem->rows * problem->columns; i++) {
    int32_t integer = (int32_t)rint((double)taps[i] / quantum);
    for (int32_t d = 0; d < digits; d++)
      for (int32_t g = 0; g < OUTPUTS; g++)
        add_byte(s, digits, i / problem->columns, d, s->shift + g + i % problem->columns * step, g,
                 (uint8_t)digit_of(integer, d), bands);
  }
}

/* Makes the scaling of a filter. The divisor becomes part of the multiplier if that is exact. A multiplier below FLT_MIN
 * would have fewer bits, so both are multiplied by a power of two. */
scaling make_scaling(double quantum, float divisor, float bias) {
  int exponent;
  bool power = fabsf(frexpf(divisor, &exponent)) == 0.5f;
  double multiplier = power ? quantum / (double)divisor : quantum, rest = power ? 1 : (double)divisor;
  if (fabs(multiplier) < FLT_MIN && fabs(rest) < 0x1p63)
    multiplier *= 0x1p64, rest *= 0x1p64;
  return {(float)multiplier, (float)rest, bias};
}

gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  shape s = shape_of(problem);
  int64_t plane = (int64_t)problem->rows * problem->columns;
  header *head = (header *)prepared;
  scaling *scalings = (scaling *)(prepared + HEADER_FLOATS);
  uint32_t *bands = (uint32_t *)(prepared + front_floats(problem));
  for (size_t i = 0; i < prepared_floats(problem); i++)
    ((uint32_t *)prepared)[i] = 0;
  head->digits = 1;
  for (int32_t k = 0; k < problem->filters; k++) {
    grid_of_taps grid = find_grid(problem, taps + k * plane);
    head->digits = grid.digits > head->digits ? grid.digits : head->digits;
  }
  for (int32_t k = 0; k < problem->filters; k++) {
    double quantum = find_grid(problem, taps + k * plane).quantum;
    scalings[k] = make_scaling(quantum, gconv_divisors(problem, taps)[k], gconv_biases(problem, taps)[k]);
    write_bands(problem, &s, taps + k * plane, quantum, head->digits,
                bands + (int64_t)k * s.bands * head->digits * 2 * LANES);
  }
  if (has_colours(problem)) {
    gconv_problem colour = colour_of(problem);
    shape c = shape_of(&colour);
    write_bands(&colour, &c, taps, find_grid(problem, taps).quantum, head->digits, bands + band_floats(problem));
  }
  return GCONV_OK;
}

/* ---- Launching ---- */

banded_arguments make_arguments(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  const float *prepared = gconv_prepared(problem, execution->weights);
  shape s = shape_of(problem);
  banded_arguments a = {};
  static_cast<arguments &>(a) = common_arguments(execution);
  a.scalings = (const scaling *)(prepared + HEADER_FLOATS);
  a.bands = (const uint32_t *)(prepared + front_floats(problem));
  a.in_step = problem->dilation_y * a.in_row;
  a.out_step = problem->dilation_y * a.out_row;
  a.samples = problem->out_width * problem->channels;
  a.left = s.left;
  a.rows = s.rows;
  a.words = s.words;
  a.in_samples = problem->width * problem->channels;
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

/* Launches the kernel whose warps go down rows. A warp takes TILE samples, or TILE pixels if it divides C = 3 colours. */
template <int R, int W, int D, int C, bool PLAIN> void launch_walk(const gconv_execution *execution) {
  constexpr auto kernel = walk_down<R, W, D, C, PLAIN>;
  const size_t bytes = WARPS * (size_t)walker<R, W, D, C, PLAIN>::SHARED_BYTES;
  const gconv_problem *problem = execution->problem, colour = colour_of(problem);
  banded_arguments a = make_arguments(execution);
  if (C == COLOURS) {
    a.samples = problem->out_width;
    a.left = COLOURS * shape_of(&colour).left;
    a.bands += band_floats(problem);
  }
  int64_t tiles = (a.samples - 1) / TILE + 1, planes = (int64_t)problem->images * problem->planes;
  a.across = tiles > 2 ? 4 : (int32_t)tiles;
  allow_shared(kernel, (int64_t)bytes);
  int64_t height = (problem->out_height - 1) / problem->dilation_y + 1; /* of one phase of the dilation */
  int64_t blocks = (tiles - 1) / a.across + 1, down = WARPS / a.across;
  /* A strip of n rows takes the time of n + R + 1 rows. Warps at the ends of rows take longer, an eighth of a wave. */
  a.strip = (int32_t)choose_strip(height, problem->rows + 1, blocks * planes * problem->dilation_y,
                                  blocks_at_a_time<kernel>(WARPS * LANES, bytes) * down, 1);
  a.strips = (int32_t)((height - 1) / a.strip + 1);
  dim3 grid((unsigned)blocks, (unsigned)(((int64_t)a.strips * problem->dilation_y - 1) / down + 1), (unsigned)planes);
  kernel<<<grid, WARPS * LANES, bytes, (cudaStream_t)execution->stream>>>(a);
}

/* Returns the bytes of shared memory for the staging kernel. */
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
  allow_shared(staged<In, D>, (int64_t)bytes);
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
  if (!is_level(problem))
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

/* Returns whether the sums of one filter become bytes by scale and offset alone. */
bool stores_plain_bytes(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const scaling *s = (const scaling *)(gconv_prepared(problem, execution->host_weights) + HEADER_FLOATS);
  return problem->filters == 1 && !gconv_is_combined(problem) && s->divisor == 1 && s->bias == 0 &&
         is_dense<true>(execution) && problem->out_type == GCONV_U8 && !problem->keep_alpha &&
         gconv_is_plain(&problem->epilogue);
}

/* The instances of the kernel of toeplitz_walk.cuh, by rows (3, 5, 7, 9) and digits (1 or 3): `walking` by words, too, and
 * `dividing` for colours, whose epilogue is always plain. */
template <int R, int W, int D, int C> void launch_filters(const gconv_execution *execution) {
  if (C == COLOURS || stores_plain_bytes(execution))
    launch_walk<R, W, D, C, true>(execution);
  else if constexpr (C == 1)
    launch_walk<R, W, D, C, false>(execution);
}
#define DIGITS(R, W, C)                                                                                                     \
  { launch_filters<R, W, 1, C>, launch_filters<R, W, 3, C> }
#define ROWS(W, C)                                                                                                          \
  { DIGITS(3, W, C), DIGITS(5, W, C), DIGITS(7, W, C), DIGITS(9, W, C) }
launcher *const walking[][4][2] = {ROWS(1, 1), ROWS(2, 1)}, *const dividing[4][2] = ROWS(1, COLOURS);
launcher *const staging[2][2] = {{launch_staged<uint8_t, 1>, launch_staged<uint8_t, 3>},
                                 {launch_staged<uint16_t, 1>, launch_staged<uint16_t, 3>}};

gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem, colour = colour_of(problem);
  const header *head = (const header *)gconv_prepared(problem, execution->host_weights);
  shape s = shape_of(problem), c = shape_of(&colour);
  if (has_colours(problem) && stores_plain_bytes(execution))
    dividing[(c.rows - 3) / 2][head->digits > 1](execution);
  else if (s.walks)
    walking[s.words - 1][(s.rows - 3) / 2][head->digits > 1](execution);
  else
    staging[problem->in_type][head->digits > 1](execution);
  return cudaPeekAtLastError() == cudaSuccess ? GCONV_OK : GCONV_DEVICE_ERROR;
}

/* Returns the cycles of a quarter of a multiprocessor for a tile of all filters, measured on an H200: products of 32 bytes,
 * and the other work, which filters of u16 share. Counts three digits unless taps are integers, since the number of digits
 * is not known before the taps are. */
double tile_cycles(const gconv_problem *problem) {
  const gconv_problem colour = colour_of(problem);
  const shape s = shape_of(has_colours(problem) ? &colour : problem);
  const bool plain = problem->filters == 1 && problem->out_type == GCONV_U8 && !problem->keep_alpha;
  const double bytes = problem->in_type == GCONV_U16 ? 2 : 1;
  const double digits = gconv_is_of_bytes(&problem->structure.integers) ? 1 : MOST_DIGITS;
  const double filters = problem->filters, others = problem->in_type == GCONV_U16 ? 1 : filters;
  if (s.walks)
    return filters * ((plain ? 70 : 170) + 7.2 * digits * s.bands / (s.words == 1 ? 2 : 1));
  return others * 450 * bytes + filters * 1.47 * s.bands * 6.0 * digits * bytes;
}

double cost(const gconv_problem *problem, const gconv_machine *machine) {
  double planes = (double)problem->images * problem->planes, channels = problem->channels, filters = problem->filters;
  double tiles = ceil(problem->out_width * channels / TILE) * problem->out_height * planes;
  double in = planes * channels * problem->height * problem->width * (double)gconv_type_bytes(problem->in_type);
  double out = (double)samples_of(problem) * (double)gconv_type_bytes(problem->out_type);
  double cycles_per_ms = machine->fma_per_ms / 128 * 4; /* of all quarters */
  double copied = (in + out * (gconv_is_combined(problem) ? 1 : filters)) / machine->bytes_per_ms;
  double several = problem->filters > 1 && problem->in_type == GCONV_U8 ? 1.3 : 1; /* measured for pairs */
  return several * (machine->launch_ms + 0.006 + fmax(tiles * tile_cycles(problem) / cycles_per_ms, copied));
}

/* A tap of three digits is off by half a quantum: by 1.004 * 2^-24 of the largest tap, so at most by as much of sum |tap|. A
 * tap of one digit is off by two roundings of its own. Sums of digits are exact. 18 is more than all other errors together:
 * the roundings of at most four conversions, each of a sum of at most twice sum |tap| * max |x|; as many multiply-adds; the
 * quantum, and the product with it; and 256 quanta that plain results lose. 256 quanta are 2 units of 2^-24, since the
 * largest tap alone has 2^23 quanta, times 255 levels. */
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
