/* SPDX-License-Identifier: MIT */
/*
 * box: means and sums of u8 and u16 over a rectangle of any size, whose taps are all the same, by running sums of integers.
 *
 * A block has a tile of samples of a row, and goes down a strip of output rows. A thread has VALUES samples that lie side by
 * side, and the sum of the R rows under the filter for each of them, in registers:
 *
 *     columns[x] += row below[x] - row above[x]                       down: two samples loaded, whatever R is
 *     prefix[x] = columns[x] + prefix[x - 1]                          along: a thread, its warp, the warps of the block
 *     sum[x] = prefix[x + S - 1] - prefix[x - 1]                      from shared memory, whatever S is
 *
 * Integers of 32 bits may wrap around on the way: differences are right where the result fits into 32 bits. The sum becomes
 * a float32 and is multiplied by the tap, so the bits are those of the CPU's box. Floats would drift, and a NaN would never
 * leave a sum: fft and separable take them.
 *
 * At the beginning of a strip, R rows are added up, so a strip must not be short. A tile has (S - 1) samples more than it
 * has outputs. No sums are written to memory between the directions. The image is read twice, the second time from the L2
 * cache.
 */
#include "classic.cuh"

namespace {

enum {
  THREADS = 256,
  WARPS = THREADS / LANES,
  VALUES = 12, /* samples of a thread: whole pixels of 1 to 4 channels, and whole words */
  TILE = THREADS * VALUES,
  WORD = 4,         /* tiles begin at a multiple of this many samples */
  MOST_HALO = 2048, /* the most samples of a tile beside its outputs and its lead */
  BEGIN_ROWS = 4    /* rows that are loaded at a time at the beginning of a strip */
};

struct parameters : arguments {
  const float *weights;
  int64_t samples; /* of an output row */
  int outputs;     /* of a tile */
  int lead;        /* samples of a tile before the first one under the taps: a pixel or more */
  int strip;       /* output rows */
  bool direct;     /* sums become samples by scale and offset, side by side */
};

/* VALUES samples of a row, as they lie in memory. */
template <class In> struct raw {
  enum { PER_WORD = WORD / sizeof(In), WORDS = VALUES / PER_WORD, BITS = 8 * sizeof(In) };
  uint32_t words[WORDS];
  DEVICE uint32_t operator[](int k) const {
    return words[k / PER_WORD] >> k % PER_WORD * BITS & (uint32_t)(In)-1;
  }
  DEVICE void put(int k, uint32_t level) {
    words[k / PER_WORD] = (k % PER_WORD == 0 ? 0 : words[k / PER_WORD]) | level << k % PER_WORD * BITS;
  }
};

/* Where a thread's samples are. If all are inside the image, they begin at sample `first` of a row. Otherwise they are at
 * places[]; GCONV_OUTSIDE stands for the constant of the border. If none of them lies under a tap, they are not loaded. */
struct source {
  const uint8_t *plane;
  int64_t first;
  bool inside, needed;
  const int *places;
};

template <class In> DEVICE raw<In> load(const parameters &a, const source &from, int y) {
  raw<In> samples = {};
  const uint32_t constant = (uint32_t)a.problem.border_level;
  y = index_of(a.problem.border, y, a.problem.height);
  const In *row = (const In *)(from.plane + (int64_t)(y == GCONV_OUTSIDE ? 0 : y) * a.in_row);
  if (!from.needed)
    return samples;
  if (y == GCONV_OUTSIDE) {
    UNROLLED_FOR (int k = 0; k < VALUES; k++)
      samples.put(k, constant);
  } else if (!from.inside) {
    uint32_t levels[VALUES]; /* no branches, so that all loads overlap */
    UNROLLED_FOR (int k = 0; k < VALUES; k++)
      levels[k] = row[max(from.places[k], 0)];
    UNROLLED_FOR (int k = 0; k < VALUES; k++)
      samples.put(k, from.places[k] == GCONV_OUTSIDE ? constant : levels[k]);
  } else if ((uintptr_t)(row + from.first) % sizeof(uint32_t) == 0) {
    UNROLLED_FOR (int k = 0; k < raw<In>::WORDS; k++)
      samples.words[k] = ((const uint32_t *)(row + from.first))[k];
  } else {
    UNROLLED_FOR (int k = 0; k < VALUES; k++)
      samples.put(k, row[from.first + k]);
  }
  return samples;
}

template <class In> DEVICE void add(uint32_t (&sums)[VALUES], const raw<In> &entering) {
  UNROLLED_FOR (int k = 0; k < VALUES; k++)
    sums[k] += entering[k];
}
template <class In> DEVICE void subtract(uint32_t (&sums)[VALUES], const raw<In> &leaving) {
  UNROLLED_FOR (int k = 0; k < VALUES; k++)
    sums[k] -= leaving[k];
}

/* Adds rows y .. end - 1. */
template <class In>
DEVICE void begin_strip(const parameters &a, const source &from, int y, int end, uint32_t (&sums)[VALUES]) {
  for (; y + BEGIN_ROWS <= end; y += BEGIN_ROWS) {
    raw<In> rows[BEGIN_ROWS];
    UNROLLED_FOR (int i = 0; i < BEGIN_ROWS; i++)
      rows[i] = load<In>(a, from, y + i);
    UNROLLED_FOR (int i = 0; i < BEGIN_ROWS; i++)
      add(sums, rows[i]);
  }
  for (; y < end; y++)
    add(sums, load<In>(a, from, y));
}

/* Sets prefix[i] to the sum of the samples 0 .. i of the tile that have the channel of sample i. All threads of the block
 * call this. */
template <int C> DEVICE void sum_along(const uint32_t (&sums)[VALUES], uint32_t (&totals)[WARPS][C], uint32_t *prefix) {
  const int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
  uint32_t mine[VALUES], before[C];
  UNROLLED_FOR (int k = 0; k < VALUES; k++)
    mine[k] = sums[k] + (k < C ? 0 : mine[k < C ? 0 : k - C]);
  UNROLLED_FOR (int c = 0; c < C; c++) {
    uint32_t sum = mine[VALUES - C + c];
    UNROLLED_FOR (int step = 1; step < LANES; step *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, sum, step);
      sum += lane >= step ? other : 0;
    }
    before[c] = sum - mine[VALUES - C + c];
    if (lane == LANES - 1)
      totals[warp][c] = sum;
  }
  __syncthreads();
  UNROLLED_FOR (int w = 0; w < WARPS - 1; w++)
    if (w < warp)
      UNROLLED_FOR (int c = 0; c < C; c++)
        before[c] += totals[w][c];
  UNROLLED_FOR (int k = 0; k < VALUES; k += 4)
    ((uint4 *)prefix)[((int)threadIdx.x * VALUES + k) / 4] =
        make_uint4(mine[k] + before[k % C], mine[k + 1] + before[(k + 1) % C], mine[k + 2] + before[(k + 2) % C],
                   mine[k + 3] + before[(k + 3) % C]);
  __syncthreads();
}

/* Stores the `count` outputs of the tile in row p, from sample `first` of the row on. */
template <class In, class Out, int C>
DEVICE void store_outputs(const parameters &a, const plane_rows &plane, int64_t p, int64_t first, int count,
                          const uint32_t *prefix) {
  const int far = (a.problem.columns - 1) * C;
  const gconv_epilogue &epilogue = a.problem.epilogue;
  uint8_t *row = plane.out + p * a.out_row;
  for (int i = (int)threadIdx.x; i < count; i += THREADS) {
    const uint32_t sum = prefix[i + a.lead + far] - prefix[i + a.lead - C];
    const float value = (float)sum * a.weights[0];
    if (a.direct) {
      gconv_store(gconv_scale(value, epilogue.scale, epilogue.scale_low, epilogue.offset), (Out *)row + first + i);
      continue;
    }
    const int64_t q = (first + i) / C;
    const place at = {p, q, (int32_t)(first + i - q * C), plane.in};
    store_sample<In, Out>(a, a.weights, at, row + q * a.out_pixel, [&](int32_t) { return value; });
  }
}

/* Grid: x counts tiles of a row, y strips, z planes of all images. */
template <class In, class Out, int C>
__global__ void __launch_bounds__(THREADS) sum_boxes(const __grid_constant__ parameters a) {
  __shared__ alignas(16) uint32_t prefix[TILE];
  __shared__ alignas(16) int places[TILE];
  __shared__ uint32_t totals[WARPS][C];
  const gconv_problem &problem = a.problem;
  const int64_t first = (int64_t)blockIdx.x * a.outputs;
  const int count = (int)min((int64_t)a.outputs, a.samples - first), halo = a.lead + (problem.columns - 1) * C;
  const int64_t begin = first - (int64_t)problem.pad_left * C - a.lead;
  const int at = (int)threadIdx.x * VALUES;
  source from = {NULL, begin + at, begin + at >= 0 && begin + at + VALUES <= (int64_t)problem.width * C,
                 at + VALUES > a.lead && at < halo + count, places + at};
  UNROLLED_FOR (int k = 0; k < VALUES; k++)
    if (!from.inside)
      places[at + k] =
          at + k >= a.lead && at + k < halo + count ? sample_in_row(problem, (int)(begin + at + k)) : GCONV_OUTSIDE;
  for (int64_t z = blockIdx.z; z < (int64_t)problem.images * problem.planes; z += gridDim.z) {
    const plane_rows plane = plane_of(a, z);
    from.plane = plane.in;
    for (int64_t strip = blockIdx.y; strip * a.strip < problem.out_height; strip += gridDim.y) {
      const int top = (int)(strip * a.strip), end = min(top + a.strip, problem.out_height),
                below = problem.rows - problem.pad_top;
      uint32_t sums[VALUES] = {};
      begin_strip<In>(a, from, top - problem.pad_top, top + below - 1, sums);
      raw<In> entering = load<In>(a, from, top + below - 1);
      raw<In> leaving = {};
      for (int p = top; p < end; p++) {
        add(sums, entering);
        subtract(sums, leaving);
        if (p + 1 < end) { /* early, so that the loads overlap with the sums */
          entering = load<In>(a, from, p + below);
          leaving = load<In>(a, from, p - problem.pad_top);
        }
        sum_along<C>(sums, totals, prefix);
        store_outputs<In, Out, C>(a, plane, p, first, count, prefix);
      }
    }
  }
}

/* ---- The host ---- */

int lead_of(const gconv_problem *problem) {
  const int64_t C = problem->channels, before = (problem->pad_left * C + C) % WORD;
  return (int)(C + (WORD - before) % WORD);
}

/* Returns the output samples of a tile: whole pixels, and whole words. */
int outputs_of(const gconv_problem *problem) {
  return (TILE - lead_of(problem) - (problem->columns - 1) * problem->channels) / VALUES * VALUES;
}

int64_t tiles_of(const gconv_problem *problem) {
  return divide_up((int64_t)problem->out_width * problem->channels, outputs_of(problem));
}

/* Returns the output rows of a strip, if the device runs `at_a_time` blocks at a time. A row at its beginning takes about a
 * sixth of the time of an output row. */
int64_t strip_of(const gconv_problem *problem, int64_t at_a_time) {
  const int64_t across = tiles_of(problem) * problem->images * problem->planes, lead = 1 + problem->rows / 6;
  const int64_t rows = choose_strip(problem->out_height, lead, across, at_a_time),
                least = lead < problem->out_height ? lead : problem->out_height;
  return rows < least ? least : rows;
}

template <class In, class Out, int C> void launch(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  parameters a = {common_arguments(execution), execution->weights, (int64_t)problem->out_width * C, outputs_of(problem),
                  lead_of(problem)};
  a.strip = (int)strip_of(problem, blocks_at_a_time<sum_boxes<In, Out, C>>(THREADS, 0));
  const gconv_epilogue *epilogue = &problem->epilogue;
  a.direct = !epilogue->absolute && !epilogue->center && !gconv_is_combined(problem) && are_bare(execution, 0, 1) &&
             is_dense<false>(execution) && !problem->keep_alpha;
  const dim3 grid(blocks_for(a.samples, a.outputs, INT32_MAX), blocks_for(problem->out_height, a.strip, 65535),
                  blocks_for((int64_t)problem->images * problem->planes, 1, 65535));
  sum_boxes<In, Out, C><<<grid, THREADS, 0, (cudaStream_t)execution->stream>>>(a);
}

template <class In, class Out> void launch_channels(const gconv_execution *execution) {
  switch (execution->problem->channels) {
  case 1:
    return launch<In, Out, 1>(execution);
  case 2:
    return launch<In, Out, 2>(execution);
  case 3:
    return launch<In, Out, 3>(execution);
  default:
    return launch<In, Out, 4>(execution);
  }
}

gconv_status execute(const gconv_execution *execution) {
  with_type(execution->problem->out_type, [&](auto out) {
    if (execution->problem->in_type == GCONV_U8)
      launch_channels<uint8_t, decltype(out)>(execution);
    else
      launch_channels<uint16_t, decltype(out)>(execution);
  });
  return CUDA_STATUS(cudaGetLastError());
}

const char *supports(const gconv_problem *problem) {
  if (problem->structure.box == 0)
    return "filters whose taps are not all the same";
  if (problem->in_type == GCONV_F32)
    return "floats";
  if (problem->stride_x != 1 || problem->stride_y != 1 || problem->dilation_x != 1 || problem->dilation_y != 1)
    return "strides and dilations";
  if (!is_level(problem))
    return "a border that is no level";
  if ((double)gconv_white(problem->in_type) * problem->rows * problem->columns >= 0x1p32)
    return "sums of more than 32 bits";
  if ((int64_t)(problem->columns - 1) * problem->channels > MOST_HALO)
    return "boxes of more than 2049 samples of a row";
  if ((int64_t)problem->width * problem->channels >= 1 << 29 || (int64_t)problem->out_width * problem->channels >= 1 << 29)
    return "rows of more than 2^29 samples";
  return NULL;
}

/* Two roundings: of the sum, and of its product with the tap. */
double error_bound(const gconv_problem *) {
  return gconv_rounding_bound(2);
}

/* Estimates two parts. Waves of strips: 0.8 us for each row at the beginning of a strip and for each output row, whatever
 * its width, as measured on an H200. And the instructions for all samples of the tiles. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  enum { WAVE = 528 }; /* blocks that an H200 runs at a time */
  const double tiles = (double)tiles_of(problem) * problem->images * problem->planes;
  const double strip = (double)strip_of(problem, WAVE), strips = ceil(problem->out_height / strip);
  const double waves = ceil(tiles * strips / WAVE),
               samples = tiles * TILE * (problem->out_height + strips * problem->rows / 6);
  return machine->launch_ms + 8e-4 * waves * (problem->rows + strip) + 60 * samples / machine->fma_per_ms;
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_box = {
    .info = {"box", "cuda", "running sums, for means and sums of integers over a rectangle", false},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
};
