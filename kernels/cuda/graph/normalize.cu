/* SPDX-License-Identifier: MIT */
/* Normalisation by means and deviations, and along an axis. Sums are float64, and are added in a fixed order. */
#include "graph.cuh"
#include "tail.cuh"

/* ---- Channels, and groups of them ---- */

enum { PARTS = GCONV_GPU_PARTS, AT_A_TIME = 8 /* loads of a thread */ };

/* Adds up a part of a group: blockIdx.x is the part. Differences to the first element are added, so that equal numbers have
 * no deviation. */
__global__ static void __launch_bounds__(THREADS) add_parts(gconv_gpu_normalize job, int64_t count) {
  follow_kernel_before();
  for (int64_t group = blockIdx.y; group < job.images * job.groups; group += gridDim.y) {
    const float *in = job.in + group * count;
    const double first = (double)in[0];
    double sum = 0, square = 0;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += AT_A_TIME * PARTS * THREADS) {
      float some[AT_A_TIME];
#pragma unroll
      for (int e = 0; e < AT_A_TIME; e++)
        some[e] = in[i + e * (PARTS * THREADS) < count ? i + e * (PARTS * THREADS) : 0];
#pragma unroll
      for (int e = 0; e < AT_A_TIME; e++) {
        const double d = i + e * (PARTS * THREADS) < count ? (double)some[e] - first : 0;
        sum += d;
        square += d * d;
      }
    }
    sum = sum_of_block(sum);
    square = sum_of_block(square);
    if (threadIdx.x == 0) {
      double *to = job.parts + (group * PARTS + blockIdx.x) * 2;
      to[0] = sum;
      to[1] = square;
    }
  }
}

/* Sets the mean, and 1 / sqrt(variance + epsilon), from sums of differences to `first`. */
static __device__ void moments(double first, double sum, double square, double count, float epsilon, double *mean,
                               double *inverse) {
  const double shift = sum / count, variance = square / count - shift * shift;
  *mean = first + shift;
  *inverse = 1 / sqrt((variance > 0 || variance != variance ? variance : 0) + (double)epsilon);
}

/* Scales and shifts channels: blockIdx.y is a channel of an image. */
__global__ static void __launch_bounds__(THREADS) scale_planes(const __grid_constant__ gconv_gpu_normalize job) {
  follow_kernel_before();
  __shared__ float middle, factor, bias; /* (in - middle) * factor + bias: middle is 0 for batches */
  for (int64_t n = blockIdx.y; n < job.images * job.channels; n += gridDim.y) {
    const int64_t c = n % job.channels, each = job.channels / job.groups, group = n / each;
    if (threadIdx.x == 0 && job.how == GCONV_NORM_BATCH) {
      const double f = (double)job.factor[c] / sqrt((double)job.variance[c] + (double)job.epsilon);
      middle = 0;
      factor = (float)f;
      bias = (float)((double)job.bias[c] - (double)job.mean[c] * f);
    } else if (threadIdx.x < 32 && job.how != GCONV_NORM_BATCH) {
      const double *part = job.parts + (group * PARTS + threadIdx.x) * 2;
      double sum = part[0], square = part[1], mean, inverse;
      for (int half = PARTS / 2; half > 0; half /= 2) {
        sum += __shfl_xor_sync(UINT32_MAX, sum, half);
        square += __shfl_xor_sync(UINT32_MAX, square, half);
      }
      const double first = (double)job.in[group * each * job.plane];
      moments(first, sum, square, (double)(each * job.plane), job.epsilon, &mean, &inverse);
      const int64_t own = job.by_group ? group % job.groups : c;
      const double f = (double)job.factor[own] * inverse;
      if (threadIdx.x == 0) {
        middle = (float)mean;
        factor = (float)f;
        bias = (float)((double)job.bias[own] - (mean - (double)middle) * f);
      }
    }
    __syncthreads();
    const float *in = job.in + n * job.plane;
    float *out = job.out + n * job.plane;
    const int64_t pace = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < job.plane; i += AT_A_TIME * pace) {
      float some[AT_A_TIME];
#pragma unroll
      for (int e = 0; e < AT_A_TIME; e++)
        some[e] = in[i + e * pace < job.plane ? i + e * pace : i];
#pragma unroll
      for (int e = 0; e < AT_A_TIME; e++)
        if (i + e * pace < job.plane)
          out[i + e * pace] =
              follow_sum(job.tail, (some[e] - middle) * factor + bias, (int32_t)c, n * job.plane + i + e * pace);
    }
    __syncthreads();
  }
}

gconv_status gconv_gpu_normalize_launch(const gconv_gpu_normalize *job, void *stream) {
  const int64_t planes = job->images * job->channels, groups = job->images * job->groups;
  if (planes == 0 || job->plane == 0)
    return GCONV_OK;
  if (job->how == GCONV_NORM_GROUP) {
    const dim3 grid(PARTS, (unsigned)(groups < 65535 ? groups : 65535));
    GCONV_TRY(start(add_parts, grid, stream, *job, job->channels / job->groups * job->plane));
  }
  const int64_t blocks = (job->plane - 1) / (THREADS * 4 * AT_A_TIME) + 1;
  const dim3 grid((unsigned)(blocks < 1024 ? blocks : 1024), (unsigned)(planes < 65535 ? planes : 65535));
  return start(scale_planes, grid, stream, *job);
}

/* ---- Rows: the elements from an axis on ---- */

/* Returns the place of element `at` of the tensor in an operand that is broadcast. */
static __device__ int64_t place(const gconv_gpu_rows &job, const gconv_gpu_operand &operand, int64_t at) {
  int64_t found = 0;
  for (int32_t i = job.axes - 1; i >= 0; i--) {
    found += at % job.size[i] * operand.step[i];
    at /= job.size[i];
  }
  return found;
}

/* A block makes a row. */
__global__ static void __launch_bounds__(THREADS) normalize_rows(gconv_gpu_rows job) {
  follow_kernel_before();
  for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
    const float *in = job.in + row * job.count;
    const double first = job.centred ? (double)in[0] : 0;
    double sum = 0, square = 0, mean = 0, inverse;
    for (int64_t i = threadIdx.x; i < job.count; i += THREADS) {
      const double d = (double)in[i] - first;
      sum += d;
      square += d * d;
    }
    sum = sum_of_block(sum);
    square = sum_of_block(square);
    if (job.centred)
      moments(first, sum, square, (double)job.count, job.epsilon, &mean, &inverse);
    else
      inverse = 1 / sqrt(square / (double)job.count + (double)job.epsilon);
    if (threadIdx.x == 0 && job.means)
      job.means[row] = (float)mean;
    if (threadIdx.x == 0 && job.inverses)
      job.inverses[row] = (float)inverse;
    for (int64_t i = threadIdx.x; i < job.count; i += THREADS) {
      const int64_t at = row * job.count + i;
      const float factor = job.factor.data ? ((const float *)job.factor.data)[place(job, job.factor, at)] : 1;
      const float bias = job.bias.data ? ((const float *)job.bias.data)[place(job, job.bias, at)] : 0;
      job.out[at] = (float)(((double)in[i] - mean) * inverse) * factor + bias;
    }
  }
}

gconv_status gconv_gpu_rows_launch(const gconv_gpu_rows *job, void *stream) {
  if (job->rows == 0 || job->count == 0)
    return GCONV_OK;
  return start(normalize_rows, blocks_of(job->rows), stream, *job);
}

/* ---- Along an axis ---- */

/* The largest element, and its first place. They are -infinity and 0 if no element is above -infinity. */
struct largest {
  float value; /* NaN if an element is NaN */
  float best;  /* without NaN */
  int64_t at;
};

static __device__ void take(largest &l, const largest &other) {
  l.value = other.value > l.value || other.value != other.value ? other.value : l.value;
  if (other.best > l.best || (other.best == l.best && other.best > -INFINITY && other.at < l.at)) {
    l.best = other.best;
    l.at = other.at;
  }
}

static __device__ largest largest_of_block(largest mine) {
  __shared__ largest lanes[THREADS];
  lanes[threadIdx.x] = mine;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if ((int)threadIdx.x < half)
      take(lanes[threadIdx.x], lanes[threadIdx.x + half]);
    __syncthreads();
  }
  mine = lanes[0];
  __syncthreads();
  return mine;
}

/* A block (WHOLE) or a thread computes a line. */
template <bool WHOLE> __global__ static void __launch_bounds__(THREADS) along(gconv_gpu_axis job) {
  follow_kernel_before();
  const int64_t own = WHOLE ? blockIdx.x : (int64_t)blockIdx.x * THREADS + threadIdx.x;
  const int64_t all = WHOLE ? gridDim.x : (int64_t)gridDim.x * THREADS;
  const int64_t begin = WHOLE ? threadIdx.x : 0, pace = WHOLE ? THREADS : 1;
  const bool by_norm = job.how == GCONV_ALONG_L1 || job.how == GCONV_ALONG_L2;
  for (int64_t line = own; line < job.lines; line += all) {
    const int64_t at = line / job.inner * job.inner * job.count + line % job.inner;
    const float *in = job.in + at;
    float *out = job.out + at;
    largest top = {-INFINITY, -INFINITY, 0};
    double sum = 0;
    for (int64_t i = begin; i < job.count && !by_norm; i += pace)
      take(top, {in[i * job.inner], in[i * job.inner], i});
    if (WHOLE && !by_norm)
      top = largest_of_block(top);
    for (int64_t i = begin; i < job.count && job.how != GCONV_ALONG_HARDMAX; i += pace) {
      const float v = in[i * job.inner];
      sum += job.how == GCONV_ALONG_L1   ? fabs((double)v)
             : job.how == GCONV_ALONG_L2 ? (double)v * (double)v
                                         : (double)expf(v - top.value);
    }
    if (WHOLE)
      sum = sum_of_block(sum);
    const float less = sum > 0 || sum != sum ? (float)log(sum) : -INFINITY;
    const double norm = job.how == GCONV_ALONG_L2 ? sqrt(sum) : sum;
    for (int64_t i = begin; i < job.count; i += pace) {
      const float v = in[i * job.inner];
      float y = 0;
      switch (job.how) {
      case GCONV_ALONG_SOFTMAX:
        y = (float)((double)expf(v - top.value) / sum);
        break;
      case GCONV_ALONG_LOG_SOFTMAX:
        y = v - top.value - less;
        break;
      case GCONV_ALONG_HARDMAX:
        y = (float)(i == top.at);
        break;
      case GCONV_ALONG_L1:
      case GCONV_ALONG_L2:
        y = norm > 0 || norm != norm ? (float)((double)v / norm) : 0;
        break;
      }
      out[i * job.inner] = y;
    }
  }
}

gconv_status gconv_gpu_axis_launch(const gconv_gpu_axis *job, void *stream) {
  if (job->lines == 0 || job->count == 0)
    return GCONV_OK;
  return job->inner == 1 || job->lines < 4096 ? start(along<true>, blocks_of(job->lines), stream, *job)
                                              : start(along<false>, blocks_for(job->lines), stream, *job);
}

/* ---- Across channels ---- */

__global__ static void across(gconv_gpu_across job, int64_t count) {
  follow_kernel_before();
  const int64_t before = (job.size - 1) / 2, after = job.size - 1 - before;
  FOR_OWN (i, count) {
    const int64_t c = i / job.plane % job.channels, at = i - c * job.plane;
    double sum = 0;
    for (int64_t k = c - before < 0 ? 0 : c - before; k <= c + after && k < job.channels; k++)
      sum += (double)job.in[at + k * job.plane] * (double)job.in[at + k * job.plane];
    const double base = (double)job.bias + (double)job.alpha / (double)job.size * sum;
    job.out[i] = (float)((double)job.in[i] / pow(base, (double)job.beta));
  }
}

gconv_status gconv_gpu_across_launch(const gconv_gpu_across *job, void *stream) {
  const int64_t count = job->images * job->channels * job->plane;
  if (count == 0)
    return GCONV_OK;
  return start(across, blocks_for(count), stream, *job, count);
}
