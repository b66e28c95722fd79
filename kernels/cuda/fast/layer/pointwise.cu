/* SPDX-License-Identifier: MIT */
/*
 * pointwise: filters of 1 x 1, one layer or several in one kernel, with the bits of the exact family.
 *
 *     128 pixels: shared memory           weights of all layers: shared memory, [channel][filter], for all tiles of a block
 *     +-- input: C x 128 --+   layer 1    +-- K x 128 --+   layer 2   ...  +-- outputs --+
 *
 * A block keeps the weights, and goes from tile to tile of 128 pixels. The results of layers stay in shared memory, in two
 * buffers alternately. In a layer of many filters, a warp computes 8 filters for all pixels, and a thread for 4 pixels: 32
 * multiply-adds for 3 loads of 16 bytes. Loads of weights are the same for all lanes. In a layer of up to 8 filters, a
 * thread computes 4 filters for a pixel.
 *
 * Two layers of few channels and outputs have a kernel of their own (pointwise_pair.cuh): 20 channels to 64 to 3, a network
 * over features of pixels, takes 1,472 multiply-adds a pixel, and moves 84 bytes, including the number of its class.
 * Multiply-adds bound it. Kernels of one layer each would move 604 bytes.
 */
#include "../../core/weights.cuh"
#include "pointwise_pair.cuh"

#include <algorithm>

namespace {

constexpr int PIXELS = 128, THREADS = 256, WARPS = THREADS / 32, FEW = 8; /* FEW: the most filters of make_few() */

/* Copies the weights of all layers to shared memory, where the filters of a channel are neighbours, filled up with zeros. */
DEVICE void bring_weights(const arguments_of_layers &a, float *shared) {
  ROLLED_FOR (int i = 0; i < a.count; i++) {
    const layer &l = a.layers[i];
    ROLLED_FOR (int at = (int)threadIdx.x; at < (l.channels + 1) * l.padded; at += THREADS) {
      const int c = at / l.padded, k = at % l.padded;
      const float *biases = l.from + l.filters * l.channels;
      shared[l.weights + at] = k >= l.filters ? 0.0f : c < l.channels ? l.from[k * l.channels + c] : biases[k];
    }
  }
}

/* Copies the input of a tile to shared memory. Five loads of a thread are under way at a time. */
DEVICE void bring_pixels(const arguments_of_layers &a, const float *in, int64_t first, float *to) {
  constexpr int TOGETHER = 5;
  const int pixel = (int)threadIdx.x % PIXELS, step = THREADS / PIXELS, channels = a.layers[0].channels;
  const bool inside = first + pixel < a.pixels;
  const float *from = in + first + pixel;
  ROLLED_FOR (int c0 = (int)threadIdx.x / PIXELS; c0 < channels; c0 += step * TOGETHER) {
    float x[TOGETHER];
    UNROLLED_FOR (int i = 0; i < TOGETHER; i++) {
      const int c = c0 + i * step;
      x[i] = inside && c < channels ? from[c * a.in_plane] : 0.0f;
    }
    UNROLLED_FOR (int i = 0; i < TOGETHER; i++) {
      const int c = c0 + i * step;
      if (c < channels)
        to[c * PIXELS + pixel] = a.mean ? (x[i] - a.mean[c]) / a.deviation[c] : x[i];
    }
  }
}

DEVICE void take_out(const arguments_of_layers &a, int filters, const float *from, float *out, int64_t first) {
  ROLLED_FOR (int at = (int)threadIdx.x; at < filters * PIXELS; at += THREADS) {
    const int64_t pixel = first + at % PIXELS;
    float *to = out + at / PIXELS * a.out_plane + pixel;
    if (pixel < a.pixels)
      *to = follow_sum(a.tail, from[at], at / PIXELS, to - a.out);
  }
}

/* Applies softmax and finds the number of the largest output, if `a` asks for them. A thread has a pixel. */
DEVICE void conclude(const arguments_of_layers &a, int filters, float *values, float *out, int64_t first) {
  const int64_t pixel = first + threadIdx.x;
  if ((int)threadIdx.x >= PIXELS)
    return;
  values += threadIdx.x;
  if (a.softmax)
    gconv_softmax(values, filters, PIXELS);
  if (!a.argmax || pixel >= a.pixels)
    return;
  float largest = values[0], lost = values[0] * 0.0f; /* 0, or NaN if a value is not finite, as in gconv_combine_values() */
  int label = 0;
  for (int k = 1; k < filters; k++) {
    const float value = values[k * PIXELS];
    label = value > largest ? k : label;
    largest = value > largest ? value : largest;
    lost += value * 0.0f;
  }
  out[pixel] = (float)label + lost;
}

/* Computes 4 filters for a pixel. */
DEVICE void make_few(const layer &l, const float *weights, const float *in, float *out) {
  const int pixel = (int)threadIdx.x % PIXELS, k = (int)threadIdx.x / PIXELS * 4;
  if (k >= l.filters)
    return;
  float sum[4][1] = {};
  UNROLLED_8_FOR(int c = 0; c < l.channels; c++) {
    const float x[1] = {in[c * PIXELS + pixel]};
    add_tap<4, 1>(sum, weights + c * FEW + k, x);
  }
  UNROLLED_FOR (int i = 0; i < 4; i++)
    if (k + i < l.filters)
      out[(k + i) * PIXELS + pixel] = activate(l, sum[i][0] + weights[l.channels * FEW + k + i]);
}

/* Computes 8 filters for 4 pixels at a time. Each warp has filters of its own. */
DEVICE void make_many(const layer &l, const float *weights, const float *in, float *out) {
  const int warp = (int)threadIdx.x / 32, pixel = (int)threadIdx.x % 32 * 4;
  ROLLED_FOR (int k = warp * 8; k < l.filters; k += WARPS * 8) {
    float sum[8][4] = {};
    UNROLLED_2_FOR (int c = 0; c < l.channels; c++) {
      float x[4], w[8];
      load_four(in + c * PIXELS + pixel, x);
      load_four(weights + c * l.padded + k, w);
      load_four(weights + c * l.padded + k + 4, w + 4);
      UNROLLED_FOR (int i = 0; i < 8; i++)
        UNROLLED_FOR (int j = 0; j < 4; j++)
          sum[i][j] = fmaf(w[i], x[j], sum[i][j]);
    }
    UNROLLED_FOR (int i = 0; i < 8; i++) {
      const float bias = weights[l.channels * l.padded + k + i];
      UNROLLED_FOR (int j = 0; j < 4; j++)
        sum[i][j] = sum[i][j] + bias;
    }
    if (l.activation == GCONV_ACTIVATION_RELU) { /* one branch, rather than one for each sum */
      UNROLLED_FOR (int i = 0; i < 8; i++)
        UNROLLED_FOR (int j = 0; j < 4; j++)
          sum[i][j] = sum[i][j] < 0 ? 0.0f : sum[i][j];
    } else {
      UNROLLED_FOR (int i = 0; i < 8; i++)
        UNROLLED_FOR (int j = 0; j < 4; j++)
          sum[i][j] = activate(l, sum[i][j]);
    }
    UNROLLED_FOR (int i = 0; i < 8; i++)
      if (k + i < l.filters)
        *(float4 *)(out + (k + i) * PIXELS + pixel) = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
  }
}

__global__ void __launch_bounds__(THREADS, 3) pointwise(const __grid_constant__ arguments_of_layers a) {
  float *const shared = (float *)gconv_pointwise_memory;
  bring_weights(a, shared);
  ROLLED_FOR (int64_t tile = blockIdx.x; tile < a.tiles * a.images; tile += gridDim.x) {
    const int64_t image = tile / a.tiles, first = tile % a.tiles * PIXELS;
    __syncthreads(); /* the values of the previous tile have been read */
    bring_pixels(a, a.in + image * a.in_image, first, shared + a.buffers[0]);
    __syncthreads();
    ROLLED_FOR (int i = 0; i < a.count; i++) {
      const layer &l = a.layers[i];
      const float *from = shared + a.buffers[i % 2];
      float *to = shared + a.buffers[(i + 1) % 2];
      if (l.filters <= FEW)
        make_few(l, shared + l.weights, from, to);
      else
        make_many(l, shared + l.weights, from, to);
      __syncthreads();
    }
    const int filters = a.layers[a.count - 1].filters;
    float *const values = shared + a.buffers[a.count % 2], *const out = a.out + image * a.out_image;
    if (a.softmax || a.argmax) {
      conclude(a, filters, values, out, first);
      __syncthreads();
    }
    if (!a.argmax)
      take_out(a, filters, values, out, first);
  }
}

/* ---- The host ---- */

int32_t pad(int32_t filters) {
  return (int32_t)divide_up(filters, FEW) * FEW;
}

/* Returns the bytes of shared memory that layers take, and sets their places. */
size_t lay_out(const gconv_layer_problem *const *layers, int32_t count, arguments_of_layers *a) {
  int64_t at = 0, most[2] = {layers[0]->channels, 0};
  for (int32_t i = 0; i < count; i++) {
    a->layers[i].weights = (int32_t)at;
    at += (int64_t)pad(layers[i]->filters) * (layers[i]->channels + 1);
    most[(i + 1) % 2] = std::max<int64_t>(layers[i]->filters, most[(i + 1) % 2]);
  }
  a->buffers[0] = (int32_t)at;
  a->buffers[1] = (int32_t)(at + most[0] * PIXELS);
  return (size_t)(at + (most[0] + most[1]) * PIXELS) * sizeof(float);
}

const char *supports(const gconv_layer_problem *problem) {
  const char *obstacle = gconv_layer_takes_fp32(problem);
  return obstacle ? obstacle : gconv_pointwise_obstacle(&problem, 1);
}

gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *p = e->problem;
  gconv_pointwise work = {};
  work.in = e->in;
  work.out = e->out;
  work.pixels = work.in_plane = work.out_plane = (int64_t)p->height * p->width;
  work.in_image = p->channels * work.in_plane;
  work.out_image = p->filters * work.out_plane;
  work.images = p->images;
  work.count = 1;
  work.layers[0] = p;
  work.weights[0] = e->weights;
  work.tail = e->tail;
  gconv_pointwise_execute(&work, e->stream);
  return GCONV_OK;
}

/* Counts whole tiles, at least one for each multiprocessor, at a part of the peak that was measured. Loads bound a layer of
 * few filters. First, blocks load all weights, in 3 ns for each weight. */
double cost(const gconv_layer_problem *p, const gconv_machine *machine) {
  const double tiles = (double)p->images * (double)divide_up((int64_t)p->height * p->width, PIXELS);
  const double pixels = fmax(tiles, machine->units) * PIXELS;
  const double fma = pixels * p->channels * (p->filters > FEW ? pad(p->filters) : 2 * FEW);
  const double bytes = pixels * sizeof(float) * (p->channels + p->filters);
  return machine->launch_ms + 3e-6 * p->channels * p->filters +
         fmax(fma / (0.16 * machine->fma_per_ms), bytes / (0.28 * machine->bytes_per_ms));
}

} // namespace

const char *gconv_pointwise_obstacle(const gconv_layer_problem *const *layers, int32_t count) {
  if (count < 1 || count > GCONV_POINTWISE_LAYERS)
    return "more layers than one kernel takes";
  for (int32_t i = 0; i < count; i++) {
    const gconv_layer_problem *p = layers[i];
    if (p->rows != 1 || p->columns != 1)
      return "filters other than 1 x 1";
    if (p->groups != 1)
      return "groups of channels";
    if (p->stride_y != 1 || p->stride_x != 1 || p->pad_top != 0 || p->pad_left != 0 || p->out_height != p->height ||
        p->out_width != p->width)
      return "strides and padding";
  }
  arguments_of_layers a;
  return lay_out(layers, count, &a) > std::min<size_t>(shared_limit(), 160 << 10)
             ? "weights and channels that take more than 160 KB"
             : NULL;
}

void gconv_pointwise_execute(const gconv_pointwise *work, void *stream) {
  arguments_of_layers a = {work->in,       work->mean,      work->deviation, work->out,    work->in_plane,
                           work->in_image, work->out_plane, work->out_image, work->pixels, divide_up(work->pixels, PIXELS),
                           work->images,   work->count,     work->softmax,   work->argmax, tail_of(work->tail)};
  for (int32_t i = 0; i < work->count; i++) {
    const gconv_layer_problem *p = work->layers[i];
    a.layers[i] = {p->channels, p->filters, pad(p->filters), 0, p->activation, p->slope, work->weights[i]};
  }
  if (is_pair(a)) {
    const bool few = a.layers[1].filters <= 3, relu = a.layers[0].activation == GCONV_ACTIVATION_RELU;
    auto *launch = few ? (relu ? launch_pair_of<3, true> : launch_pair_of<3, false>)
                       : (relu ? launch_pair_of<MOST_PAIR_OUTPUTS, true> : launch_pair_of<MOST_PAIR_OUTPUTS, false>);
    launch(&a, (cudaStream_t)stream);
    return;
  }
  const size_t bytes = lay_out(work->layers, work->count, &a);
  const int64_t blocks = blocks_at_a_time<pointwise>(THREADS, bytes);
  pointwise<<<blocks_for(a.tiles * a.images, 1, blocks), THREADS, bytes, (cudaStream_t)stream>>>(a);
}

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_pointwise = {
    .info = {.name = "pointwise", .device = "cuda", .help = "filters of 1 x 1; several layers in one kernel", .exact = true},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
    .tails = GCONV_TAILS_SHORT};
