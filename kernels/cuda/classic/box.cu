/* SPDX-License-Identifier: MIT */
/*
 * box: means and sums over a rectangle of any size, whose taps are all the same.
 *
 * Pass 1, columns: output rows are taken in blocks of R rows, the height of the filter. The rows under row i of a block are
 * the last R - i rows of the block, and the first i rows of the next block. A thread has a column of a block: it sums up the
 * block from its last row upwards, then adds rows of the next block from its first row downwards. So a sample takes two
 * additions, whatever R is, and no subtraction:
 *
 *     block        . . a b c      c, b + c, a + b + c     going up
 *     next block   d e . . .      d, d + e                going down, added to these
 *
 * Pass 2, rows: a block of threads has a segment of a row in shared memory. The number of neighbours in a sum doubles in
 * each step, and grows by one where it has to: w[x] + w[x + k], + v[x + 2 k]. So S neighbours take log2 S steps.
 *
 * Sums of u8 and u16 that fit into 32 bits are integers, and have the bits of the CPU's box. Others are multiplied by the
 * tap and rounded to float32: float64 sums up columns. A sample shows in no other sums than those of boxes that it lies
 * under.
 *
 * Between the passes are the sums of columns, in global memory. The border continues them as it would continue the image.
 * Memory is the bound: some 30 bytes a sample. It is the fastest for large boxes.
 */
#include "separable.cuh"

namespace {

enum {
  ROOM = 4096,   /* samples of a segment with those under the taps behind it, in shared memory */
  SEGMENT = 2040 /* output samples of a segment, at most: whole pixels */
};

/* Returns whether the sums fit into integers of 32 bits. */
bool is_whole(const gconv_problem *problem) {
  return problem->in_type != GCONV_F32 && is_level(problem) &&
         (double)gconv_white(problem->in_type) * problem->rows * problem->columns < 0x1p32;
}

/* What is summed up in a column, and what is stored. */
DEVICE uint32_t begin_sum(uint32_t) {
  return 0;
}
DEVICE double begin_sum(float) {
  return 0;
}
DEVICE uint32_t stored(uint32_t sum, float) {
  return sum;
}
DEVICE float stored(double sum, float tap) {
  return (float)(sum * (double)tap);
}
DEVICE float response_of(uint32_t sum, float tap) {
  return (float)sum * tap;
}
DEVICE float response_of(float sum, float) {
  return sum;
}

/* Calls take(n, load(n)) for n < count. Eight loads are under way at a time. */
template <class Load, class Take> DEVICE void each_sample(int64_t count, Load load, Take take) {
  for (int64_t n = 0; n < count; n += 8) {
    float levels[8];
    UNROLLED_FOR (int j = 0; j < 8; j++)
      if (n + j < count)
        levels[j] = load(n + j);
    UNROLLED_FOR (int j = 0; j < 8; j++)
      if (n + j < count)
        take(n + j, levels[j]);
  }
}

/* Pass 1. Sum: uint32_t or float. Grid: x counts samples of a row of sums, y blocks of rows. */
template <class In, class Sum> __global__ void sum_columns(const __grid_constant__ parameters a) {
  const gconv_problem &problem = a.problem;
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, x = i / problem.channels, R = problem.rows;
  const int c = (int)(i - x * problem.channels);
  const float tap = a.weights[0];
  if (i >= a.middle_samples)
    return;
  for (int64_t block = a.band / R + blockIdx.y; block * R < a.band + a.band_rows; block += gridDim.y) {
    const int64_t top = block * R, from = max(a.band - top, (int64_t)0), to = min(a.band + a.band_rows - top, R);
    Sum *out = (Sum *)a.middle + (top - a.band) * a.middle_samples + i; /* the sums of row `top` */
    const int64_t above = top - problem.pad_top;
    auto sum = begin_sum(Sum());
    auto sample = [&](int64_t row) { return sample_at<In>(problem, a.in, a.in_row, above + row, x, c); };
    each_sample(
        R - from, [&](int64_t n) { return sample(R - 1 - n); },
        [&](int64_t n, float level) {
          sum += (decltype(sum))level;
          if (R - 1 - n < to)
            out[(R - 1 - n) * a.middle_samples] = stored(sum, tap);
        });
    sum = begin_sum(Sum());
    each_sample(
        to - 1, [&](int64_t n) { return sample(R + n); },
        [&](int64_t n, float level) {
          sum += (decltype(sum))level;
          if (n + 1 >= from)
            out[(n + 1) * a.middle_samples] += stored(sum, tap);
        });
  }
}

/* Fills v with the `count` sums under the taps of a segment: from sample `first` of the row on, counted from the first
 * sample under the first output. */
template <class Sum>
DEVICE void load_segment(const gconv_problem &problem, const Sum *row, int64_t first, int count, Sum *v) {
  const int64_t begin = first - (int64_t)problem.pad_left * problem.channels;
  if (begin >= 0 && begin + count <= (int64_t)problem.width * problem.channels) {
    for (int k = (int)threadIdx.x; k < count; k += THREADS)
      v[k] = row[begin + k];
    return;
  }
  for (int k = (int)threadIdx.x; k < count; k += THREADS) {
    const int64_t q = (first + k) / problem.channels;
    const int64_t x = far_index(problem.border, q - problem.pad_left, problem.width);
    v[k] = row[(x == GCONV_OUTSIDE ? problem.width : x) * problem.channels + (first + k - q * problem.channels)];
  }
}

/* Pass 2. Grid: x counts segments, y rows. */
template <class In, class Out, class Sum>
__global__ void __launch_bounds__(THREADS) sum_rows(const __grid_constant__ parameters a) {
  __shared__ Sum rows[3][ROOM];
  const gconv_problem &problem = a.problem;
  const int C = problem.channels, S = problem.columns, segment = SEGMENT / C * C;
  const int64_t first = (int64_t)blockIdx.x * segment;
  const int outputs = (int)min((int64_t)segment, a.samples - first), bits = 31 - __clz(S);
  for (int64_t j = blockIdx.y; j < a.band_rows; j += gridDim.y) {
    Sum *v = rows[0], *from = v, *to = rows[1];
    __syncthreads(); /* the last row is stored */
    load_segment(problem, (const Sum *)a.middle + j * a.middle_samples, first, outputs + (S - 1) * C, v);
    int k = 1; /* neighbours in a sum */
    for (int bit = bits - 1; bit >= 0; bit--) {
      const int next = S >> bit, count = outputs + (S - next) * C;
      __syncthreads();
      for (int i = (int)threadIdx.x; i < count; i += THREADS) {
        Sum sum = from[i] + from[i + k * C];
        to[i] = next & 1 ? sum + v[i + 2 * k * C] : sum;
      }
      k = next;
      from = to;
      to = to == rows[1] ? rows[2] : rows[1];
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < outputs; i += THREADS) {
      const int64_t q = (first + i) / C;
      const place at = {a.band + j, q, (int32_t)(first + i - q * C), a.in};
      store_sample<In, Out>(a, a.weights, at, a.out + at.p * a.out_row + q * a.out_pixel,
                            [&](int32_t) { return response_of(from[i], a.weights[0]); });
    }
  }
}

/* ---- The host ---- */

middle_shape middle_of(const gconv_problem *problem) {
  return {((int64_t)problem->width + 1) * problem->channels, 1, 1, 1};
}

size_t workspace_bytes(const gconv_problem *problem) {
  return middle_bytes(problem, middle_of(problem));
}

void launch(const parameters &a, pass *columns, pass *rows, cudaStream_t stream) {
  const int64_t blocks = (a.band + a.band_rows - 1) / a.problem.rows - a.band / a.problem.rows + 1;
  const int64_t segment = SEGMENT / a.problem.channels * a.problem.channels;
  columns<<<dim3(blocks_for(a.middle_samples, THREADS, INT32_MAX), blocks_for(blocks, 1, 65535)), THREADS, 0, stream>>>(a);
  rows<<<dim3(blocks_for(a.samples, segment, INT32_MAX), blocks_for(a.band_rows, 1, 65535)), THREADS, 0, stream>>>(a);
}

gconv_status execute(const gconv_execution *execution) {
  const bool whole = is_whole(execution->problem);
  return launch_by_types(execution->problem, [&](auto in, auto out) {
    using In = decltype(in);
    using Out = decltype(out);
    each_band(execution, middle_of(execution->problem), [&](const parameters &a) {
      if (whole)
        launch(a, sum_columns<In, uint32_t>, sum_rows<In, Out, uint32_t>, (cudaStream_t)execution->stream);
      else
        launch(a, sum_columns<In, float>, sum_rows<In, Out, float>, (cudaStream_t)execution->stream);
    });
  });
}

const char *supports(const gconv_problem *problem) {
  if (problem->structure.box == 0)
    return "filters whose taps are not all the same";
  if (problem->stride_x != 1 || problem->stride_y != 1 || problem->dilation_x != 1 || problem->dilation_y != 1)
    return "strides and dilations";
  if ((int64_t)(problem->columns - 1) * problem->channels > ROOM - SEGMENT)
    return "boxes of more than 2056 samples of a row";
  return band_obstacle(problem, middle_of(problem));
}

/* Integers: the conversion of the sum and the product with the tap. Floats: both parts of a column, their sum, and the steps
 * along the row. */
double error_bound(const gconv_problem *problem) {
  if (is_whole(problem))
    return gconv_rounding_bound(2);
  return gconv_rounding_bound(3 + 2 * floor(log2((double)problem->columns))) + (double)problem->rows * 0x1p-52;
}

/* Estimates the traffic of both passes, the steps along a row, and a column, whose samples a thread adds one by one. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const double bytes = 2.0 * (double)gconv_type_bytes(problem->in_type) + 16 + (double)gconv_type_bytes(problem->out_type);
  const double steps = 450 + 24 * log2((double)problem->columns), column_ms = 1.1e-3 * problem->rows;
  return 2 * machine->launch_ms + classic_ms(problem, machine, steps) + column_ms +
         (double)samples_of(problem) * bytes / machine->bytes_per_ms;
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_box = {
    .info = {"box", "cuda", "sums of columns, then of rows, for means and sums over a rectangle of any size", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
};
