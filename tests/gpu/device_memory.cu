/* SPDX-License-Identifier: MIT */
/*
 * gconv_plan_execute_device() on a GPU: every algorithm yields the bits of gconv_plan_execute(), whatever the strides, and
 * leaves gaps alone; executions are captured into CUDA graphs; and what both take is printed, and held to a bound.
 */
#include "cuda_test.h"
#include "gconv.h"
#include "gconv_learn.h"
#include "operation/operation.h"

#include <algorithm>
#include <string.h>
#include <vector>

enum { GUARD = 0xA5 };

static int failures;
static gconv_device *device;
static cudaStream_t stream;

static void check_gconv(gconv_status status, const char *call, int line) {
  if (status == GCONV_OK)
    return;
  fprintf(stderr, "line %d: %s: %s\n", line, call, gconv_last_error());
  exit(EXIT_FAILURE);
}
#define GCONV(call) check_gconv(call, #call, __LINE__)

static void fail(const char *what, const char *name) {
  fprintf(stderr, "%s: %s\n", name, what);
  failures++;
}

/* ---- Arrays on the device ---- */

static gconv_image make_image(gconv_type type, int32_t frames, int32_t height, int32_t width, int32_t channels,
                              bool planar) {
  gconv_image image = {};
  image.type = type;
  image.frames = frames;
  image.height = height;
  image.width = width;
  image.channels = channels;
  image.planar = planar;
  GCONV(gconv_image_allocate(&image));
  const size_t samples = (size_t)frames * channels * height * width;
  uint32_t state = 12345;
  for (size_t i = 0; i < samples; i++) {
    state = state * 1664525u + 1013904223u;
    if (type == GCONV_U8)
      ((uint8_t *)image.data)[i] = (uint8_t)(state >> 24);
    else if (type == GCONV_U16)
      ((uint16_t *)image.data)[i] = (uint16_t)(state >> 16);
    else
      ((float *)image.data)[i] = (float)(state >> 8) / (1 << 24);
  }
  return image;
}

/* `gap` bytes behind each row, `shift` before all: GUARD, as all is before samples are put there. */
struct device_array {
  gconv_array array = {};
  gconv_image like;
  std::vector<uint8_t> host; /* what lies on the device, or should */
  uint8_t *memory = NULL;
  size_t shift;

  device_array(const gconv_image &image, size_t gap, size_t shift_) : like(image), shift(shift_) {
    const int64_t size = (int64_t)gconv_type_bytes(image.type), c = image.channels;
    const int64_t pixel = image.planar ? size : c * size, row = pixel * image.width + (int64_t)gap;
    const int64_t plane = row * image.height, planes = image.planar ? c : 1;
    array.type = image.type;
    const int64_t shape[4] = {image.frames, c, image.height, image.width};
    const int64_t stride[4] = {planes * plane, image.planar ? plane : size, row, pixel};
    memcpy(array.shape, shape, sizeof shape);
    memcpy(array.stride, stride, sizeof stride);
    host.assign(shift + (size_t)(image.frames * planes * plane), GUARD);
    CUDA(cudaMalloc((void **)&memory, host.size()));
    array.data = memory + shift;
    fill(host);
  }
  ~device_array() {
    cudaFree(memory);
  }
  device_array(const device_array &) = delete;

  /* Puts the samples of an image into `host`, by rows. */
  void put(const gconv_image &image) {
    const int32_t planes = image.frames * (image.planar ? image.channels : 1);
    const size_t bytes = (size_t)image.width * (image.planar ? 1 : image.channels) * gconv_type_bytes(image.type);
    for (int32_t p = 0; p < planes; p++)
      for (int32_t y = 0; y < image.height; y++)
        memcpy(host.data() + shift + (size_t)array.stride[2] * ((size_t)p * image.height + y),
               (const uint8_t *)image.data + p * image.plane_bytes + y * image.row_bytes, bytes);
  }
  void upload(const gconv_image &image) {
    put(image);
    fill(host);
  }
  void clear() {
    std::vector<uint8_t> blank(host.size(), GUARD);
    fill(blank);
  }
  /* `stream` does not wait for others, and such a copy returns before its last bytes are there. */
  void fill(const std::vector<uint8_t> &bytes) {
    CUDA(cudaMemcpy(memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    CUDA(cudaDeviceSynchronize());
  }
  /* Whether the device has the samples of `image`, and GUARD between. */
  bool holds(const gconv_image &image) {
    std::vector<uint8_t> there(host.size());
    CUDA(cudaMemcpy(there.data(), memory, there.size(), cudaMemcpyDeviceToHost));
    std::fill(host.begin(), host.end(), (uint8_t)GUARD);
    put(image);
    return there == host;
  }
};

/* ---- The same bits ---- */

/* From memory of the host, then from memory of the device: aligned, with gaps, and where nothing is aligned; then captured.
 */
static void compare(gconv_plan *plan, const gconv_image &in, const char *name) {
  static const size_t gaps[3] = {0, 64, 4}, shifts[3] = {0, 256, 4};
  const size_t count = gconv_plan_outputs(plan);
  std::vector<gconv_image> expected(count);
  memset(expected.data(), 0, count * sizeof expected[0]);
  if (gconv_plan_execute(plan, &in, expected.data(), gconv_plan_outputs(plan), NULL) != GCONV_OK) {
    fail(gconv_last_error(), name);
    return;
  }
  for (int how = 0; how < 3; how++) {
    device_array from(in, gaps[how], shifts[how]);
    from.upload(in);
    std::vector<device_array *> to;
    std::vector<gconv_array> arrays;
    for (size_t i = 0; i < count; i++) {
      to.push_back(new device_array(expected[i], gaps[how], shifts[how]));
      arrays.push_back(to[i]->array);
    }
    for (int turn = 0; turn < 2; turn++) { /* the second one captured */
      cudaGraph_t graph = NULL;
      cudaGraphExec_t ready = NULL;
      for (size_t i = 0; i < count; i++)
        to[i]->clear();
      if (turn == 1)
        CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      if (gconv_plan_execute_device(plan, &from.array, arrays.data(), count, stream) != GCONV_OK)
        fail(gconv_last_error(), name);
      if (turn == 1) {
        if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || !graph) {
          fail("it cannot be captured", name);
          cudaGetLastError();
          break;
        }
        CUDA(cudaGraphInstantiate(&ready, graph, 0));
        CUDA(cudaGraphLaunch(ready, stream));
      }
      CUDA(cudaStreamSynchronize(stream));
      for (size_t i = 0; i < count; i++)
        if (!to[i]->holds(expected[i]))
          fail(how == 0   ? "other bits"
               : how == 1 ? "other bits, or gaps written to"
                          : "other bits where nothing is aligned",
               name);
      if (turn == 1) {
        CUDA(cudaGraphExecDestroy(ready));
        CUDA(cudaGraphDestroy(graph));
      }
    }
    for (device_array *one : to)
      delete one;
  }
  for (gconv_image &image : expected)
    gconv_image_free(&image);
}

static gconv_plan *plan_filters(const gconv_image &like, const gconv_filters &filters, const gconv_options &options) {
  gconv_operation *operation = NULL;
  gconv_plan *plan = NULL;
  GCONV(gconv_operation_filters(&filters, &options, &operation));
  if (gconv_plan_create(device, &like, operation, 0, &plan) != GCONV_OK)
    plan = NULL;
  gconv_operation_free(operation);
  return plan;
}

/* Filters of `size` x `size` taps; the first is separable. */
static std::vector<gconv_filter> make_filters(int32_t count, int32_t size, std::vector<float> &taps) {
  std::vector<gconv_filter> filters((size_t)count);
  taps.resize((size_t)count * size * size);
  for (int32_t k = 0; k < count; k++) {
    for (int32_t i = 0; i < size * size; i++)
      taps[(size_t)k * size * size + i] =
          k == 0 ? (float)((i / size % 3 + 1) * (i % size % 3 + 1)) : (float)(i * 7 % 11 - 5);
    filters[k] = {};
    filters[k].name = (char *)"filter";
    filters[k].rows = filters[k].columns = size;
    filters[k].anchor_row = filters[k].anchor_column = size / 2;
    filters[k].taps = &taps[(size_t)k * size * size];
    filters[k].divisor = 16;
  }
  return filters;
}

static int compare_filters() {
  static const struct {
    gconv_type type;
    int32_t frames, channels;
    bool planar;
    int32_t filters, size;
    gconv_border border;
    gconv_combine combine;
  } cases[] = {
      {GCONV_U8, 1, 1, false, 1, 3, GCONV_BORDER_ZERO, GCONV_COMBINE_NONE},
      {GCONV_U8, 1, 3, false, 1, 5, GCONV_BORDER_REFLECT101, GCONV_COMBINE_NONE},
      {GCONV_U8, 1, 4, false, 2, 3, GCONV_BORDER_REPLICATE, GCONV_COMBINE_MAGNITUDE},
      {GCONV_U8, 2, 3, false, 3, 7, GCONV_BORDER_SYMMETRIC, GCONV_COMBINE_NONE},
      {GCONV_U16, 1, 3, false, 1, 9, GCONV_BORDER_WRAP, GCONV_COMBINE_NONE},
      {GCONV_U16, 1, 1, false, 2, 3, GCONV_BORDER_CONSTANT, GCONV_COMBINE_STACK},
      {GCONV_F32, 1, 3, true, 1, 3, GCONV_BORDER_ZERO, GCONV_COMBINE_NONE},
      {GCONV_F32, 2, 5, true, 3, 5, GCONV_BORDER_REFLECT101, GCONV_COMBINE_NONE},
      {GCONV_F32, 1, 4, false, 1, 15, GCONV_BORDER_ZERO, GCONV_COMBINE_NONE},
  };
  int compared = 0;
  for (const auto &c : cases) {
    gconv_image in = make_image(c.type, c.frames, 83, 160, c.channels, c.planar);
    std::vector<float> taps;
    std::vector<gconv_filter> list = make_filters(c.filters, c.size, taps);
    gconv_filters filters = {list.data(), list.size(), false};
    for (size_t i = 0; const gconv_algorithm_info *info = gconv_algorithm_at(i); i++) {
      if (strcmp(info->device, "cuda") != 0)
        continue;
      gconv_options options = gconv_options_default();
      options.border = c.border;
      options.border_value = c.border == GCONV_BORDER_CONSTANT ? 0.25 : 0;
      options.combine = c.combine;
      options.algorithm = info->name;
      char name[128];
      snprintf(name, sizeof name, "%s, %s x %d, %d filters of %d x %d", info->name, gconv_type_name(c.type), c.channels,
               c.filters, c.size, c.size);
      gconv_plan *plan = plan_filters(in, filters, options);
      if (!plan)
        continue; /* it cannot do that */
      compare(plan, in, name);
      gconv_plan_free(plan);
      compared++;
    }
    gconv_image_free(&in);
  }
  return compared;
}

static int compare_networks() {
  std::vector<float> weights(8 * 8 * 9);
  for (size_t i = 0; i < weights.size(); i++)
    weights[i] = (float)((int)(i * 7 % 19) - 9) / 16;
  static const float mean[] = {0.4f, 0.5f, 0.6f};
  gconv_bank first = {}, second = {};
  first.filters = 8, first.channels = 3, first.rows = first.columns = 3, first.weights = weights.data();
  second.filters = 4, second.channels = 8, second.rows = second.columns = 3, second.weights = weights.data();
  int compared = 0;
  for (int kind = 0; kind < 4; kind++) {
    gconv_layer layers[2] = {};
    layers[0].bank = &first;
    layers[0].activation = GCONV_ACTIVATION_RELU;
    layers[1].bank = &second;
    gconv_image in = make_image(kind == 0 ? GCONV_U8 : GCONV_F32, 2, 45, 64, 3, kind > 0);
    for (size_t i = 0; const gconv_algorithm_info *info = gconv_layer_algorithm_at(i); i++) {
      if (strcmp(info->device, "cuda") != 0)
        continue;
      gconv_network_options options = {};
      options.algorithm = info->name;
      options.combine = kind == 3 ? GCONV_COMBINE_SUM : GCONV_COMBINE_NONE;
      options.mean = kind == 2 ? mean : NULL;
      options.mean_count = kind == 2 ? 3 : 0;
      char name[128];
      snprintf(name, sizeof name, "network %d by %s", kind, info->name);
      gconv_operation *operation = NULL;
      gconv_plan *plan = NULL;
      GCONV(gconv_operation_network(layers, kind == 1 ? 1 : 2, &options, &operation));
      gconv_status status = gconv_plan_create(device, &in, operation, 0, &plan);
      gconv_operation_free(operation);
      if (status != GCONV_OK)
        continue;
      compare(plan, in, name);
      gconv_plan_free(plan);
      compared++;
    }
    gconv_image_free(&in);
  }
  return compared;
}

/* A network that runs as a graph, in the default stream, which is NULL. */
static void compare_default_stream() {
  std::vector<float> weights(8 * 3 * 9, 0.125f);
  gconv_bank bank = {};
  bank.filters = 8, bank.channels = 3, bank.rows = bank.columns = 3, bank.weights = weights.data();
  gconv_layer layers[2] = {};
  layers[0].bank = &bank;
  layers[1].kind = GCONV_LAYER_MAXPOOL;
  layers[1].window_y = layers[1].window_x = layers[1].stride_y = layers[1].stride_x = 2;
  gconv_network network = {};
  network.layers = layers, network.count = 2, network.channels = 3;
  gconv_image in = make_image(GCONV_F32, 1, 44, 64, 3, true), expected = {};
  gconv_operation *operation = NULL;
  gconv_plan *plan = NULL;
  GCONV(gconv_operation_of_network(&network, NULL, &operation));
  GCONV(gconv_plan_create(device, &in, operation, 0, &plan));
  GCONV(gconv_plan_execute(plan, &in, &expected, 1, NULL));
  device_array from(in, 0, 0), to(expected, 0, 0);
  from.upload(in);
  to.clear();
  GCONV(gconv_plan_execute_device(plan, &from.array, &to.array, 1, NULL));
  CUDA(cudaDeviceSynchronize());
  if (!to.holds(expected))
    fail("other bits in the default stream", "a graph");
  gconv_plan_free(plan);
  gconv_operation_free(operation);
  gconv_image_free(&expected);
  gconv_image_free(&in);
}

/* ---- Times ---- */

static double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/* Median milliseconds of what `enqueue` puts into the stream. */
template <class Work> static double time_stream(int runs, Work enqueue) {
  cudaEvent_t begin, end;
  std::vector<double> times;
  CUDA(cudaEventCreate(&begin));
  CUDA(cudaEventCreate(&end));
  for (int i = -3; i < runs; i++) {
    float ms;
    CUDA(cudaEventRecord(begin, stream));
    enqueue();
    CUDA(cudaEventRecord(end, stream));
    CUDA(cudaEventSynchronize(end));
    CUDA(cudaEventElapsedTime(&ms, begin, end));
    if (i >= 0)
      times.push_back((double)ms);
  }
  CUDA(cudaEventDestroy(begin));
  CUDA(cudaEventDestroy(end));
  return median(times);
}

static double measured(gconv_plan *plan, const gconv_image &in, int runs) {
  std::vector<double> times((size_t)runs);
  GCONV(gconv_plan_measure(plan, &in, NULL, runs, times.data()));
  return median(times);
}

static void time_planes() {
  enum { RUNS = 31 };
  gconv_image in = make_image(GCONV_F32, 1, 4320, 7680, 3, true);
  std::vector<float> taps;
  std::vector<gconv_filter> list = make_filters(1, 3, taps);
  gconv_plan *plan = plan_filters(in, {list.data(), 1}, gconv_options_default());
  if (!plan)
    return fail(gconv_last_error(), "3 planes of 4320 x 7680");
  device_array from(in, 0, 0), to(*gconv_plan_output_header(plan, 0), 0, 0);
  from.upload(in);
  double device_ms = time_stream(RUNS, [&] { GCONV(gconv_plan_execute_device(plan, &from.array, &to.array, 1, stream)); });
  double bench_ms = measured(plan, in, RUNS);
  printf("3 x 3 on 3 planes of 4320 x 7680 f32 by %s: %.4f ms in the caller's stream, %.4f ms by gconv_plan_measure()\n",
         gconv_plan_get_info(plan)->algorithm, device_ms, bench_ms);
  if (device_ms > 1.1 * bench_ms)
    fail("slower than gconv_plan_measure() by more than a tenth", "3 planes of 4320 x 7680");
  gconv_plan_free(plan);
  gconv_image_free(&in);
}

/* 100 filters, each of which a plan applies to the same image of 1024 x 1024. */
static void time_graph() {
  enum { COUNT = 100, RUNS = 31 };
  gconv_image in = make_image(GCONV_F32, 1, 1024, 1024, 1, true);
  std::vector<float> taps;
  std::vector<gconv_filter> list = make_filters(COUNT, 3, taps);
  std::vector<gconv_plan *> plans;
  gconv_options options = gconv_options_default();
  for (int k = 0; k < COUNT; k++) {
    plans.push_back(plan_filters(in, {&list[k], 1}, options));
    if (!plans[k])
      return fail(gconv_last_error(), "100 filters");
  }
  device_array from(in, 0, 0), to(*gconv_plan_output_header(plans[0], 0), 0, 0);
  from.upload(in);
  auto all = [&] {
    for (gconv_plan *plan : plans)
      GCONV(gconv_plan_execute_device(plan, &from.array, &to.array, 1, stream));
  };
  size_t before, after, total;
  all();
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaMemGetInfo(&before, &total));
  double loop_ms = time_stream(RUNS, all);
  CUDA(cudaMemGetInfo(&after, &total));
  if (after < before)
    fail("executions allocate memory", "100 filters");
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  all();
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphInstantiate(&ready, graph, 0));
  size_t nodes = 0;
  CUDA(cudaGraphGetNodes(graph, NULL, &nodes));
  double graph_ms = time_stream(RUNS, [&] { CUDA(cudaGraphLaunch(ready, stream)); });
  double kernels_ms = 0;
  for (gconv_plan *plan : plans)
    kernels_ms += measured(plan, in, 5);
  printf(
      "100 filters on 1024 x 1024 f32 by %s: %.4f ms as a graph of %zu nodes, %.4f ms one by one in the stream, %.4f ms as "
      "the sum of gconv_plan_measure()\n",
      gconv_plan_get_info(plans[0])->algorithm, graph_ms, nodes, loop_ms, kernels_ms);
  if (graph_ms > kernels_ms)
    fail("the graph takes longer than 100 kernels do", "100 filters");
  CUDA(cudaGraphExecDestroy(ready));
  CUDA(cudaGraphDestroy(graph));
  for (gconv_plan *plan : plans)
    gconv_plan_free(plan);
  gconv_image_free(&in);
}

/* ---- What is refused ---- */

static void refuse_stages() {
  gconv_image in = make_image(GCONV_U8, 1, 16, 16, 3, false);
  std::vector<float> taps;
  std::vector<gconv_filter> list = make_filters(1, 3, taps);
  gconv_options options = gconv_options_default();
  options.linear = true;
  gconv_plan *plan = plan_filters(in, {list.data(), 1}, options);
  if (!plan)
    return fail(gconv_last_error(), "linear light");
  device_array from(in, 0, 0), to(*gconv_plan_output_header(plan, 0), 0, 0);
  if (gconv_plan_execute_device(plan, &from.array, &to.array, 1, stream) != GCONV_UNSUPPORTED ||
      !strstr(gconv_last_error(), "on the host"))
    fail("stages on the host are not refused", "linear light");
  gconv_plan_free(plan);
  gconv_image_free(&in);
}

/* Any argument leaves the timings out, which say nothing below a tool such as compute-sanitizer. */
int main(int count, char **) {
  if (gconv_device_open("cuda:0", 0, &device) != GCONV_OK) {
    printf("skipped: %s\n", gconv_last_error());
    return SKIPPED;
  }
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int filters = compare_filters(), networks = compare_networks();
  printf("compared %d plans of filters, %d of networks\n", filters, networks);
  if (filters < 30 || networks < 8)
    fail("too few algorithms were compared", "all");
  compare_default_stream();
  refuse_stages();
  if (count == 1) {
    time_planes();
    time_graph();
  }
  CUDA(cudaStreamDestroy(stream));
  gconv_device_close(device);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
