/* SPDX-License-Identifier: MIT */
/* Pooling: the largest value or the average of windows of one to three dimensions, and of whole planes. */
#include "bank/onnx_rules.h"
#include "graph/node.h"
#include "kernels/cuda/graph/graph.h"
#include "kernels/mean.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { DIMENSIONS = 3, LARGEST_WINDOW = 1 << 20 };
typedef enum member { LARGEST, AVERAGE } member;

typedef struct settings {
  int32_t count; /* count of dimensions that windows have */
  int64_t kernel[DIMENSIONS], stride[DIMENSIONS], dilation[DIMENSIONS], before[DIMENSIONS], after[DIMENSIONS];
  gconv_auto_pad padding;
  bool rounds_up, counts_padding;
} settings;

/* ---- Attributes ---- */

/* Reads a list of `count` numbers; without the attribute, all are `otherwise`. */
static gconv_status take(const gconv_onnx_node *node, const char *name, int32_t count, int64_t least, int64_t otherwise,
                         int64_t *numbers) {
  gconv_node_integers list;
  bool given;
  GCONV_TRY(gconv_node_attribute_list(node, name, least, LARGEST_WINDOW, &list, &given));
  if (given && list.count != count)
    return gconv_fail(GCONV_BAD_FILE, "has %d numbers in its attribute '%s', not %d", list.count, name, count);
  for (int32_t i = 0; i < count; i++)
    numbers[i] = given ? list.number[i] : otherwise;
  return GCONV_OK;
}

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  const gconv_onnx_attribute *kernel = gconv_onnx_find_attribute(node, "kernel_shape");
  int64_t both[2 * DIMENSIONS];
  (void)kind;
  (void)opset;
  if (!kernel || kernel->integers.count < 1 || kernel->integers.count > DIMENSIONS)
    return gconv_fail(GCONV_UNSUPPORTED, "pools windows of %zu dimensions: 1 to %d are computed here",
                      kernel ? kernel->integers.count : 0, DIMENSIONS);
  s->count = (int32_t)kernel->integers.count;
  GCONV_TRY(take(node, "kernel_shape", s->count, 1, 1, s->kernel));
  GCONV_TRY(take(node, "strides", s->count, 1, 1, s->stride));
  GCONV_TRY(take(node, "dilations", s->count, 1, 1, s->dilation));
  GCONV_TRY(take(node, "pads", 2 * s->count, 0, 0, both));
  memcpy(s->before, both, (size_t)s->count * sizeof *both);
  memcpy(s->after, both + s->count, (size_t)s->count * sizeof *both);
  s->rounds_up = gconv_onnx_integer_of(node, "ceil_mode", 0) != 0;
  s->counts_padding = gconv_onnx_integer_of(node, "count_include_pad", 0) != 0;
  return gconv_node_attribute_auto_pad(node, &s->padding);
}

/* ---- Windows ---- */

/* One dimension of an input and of its windows. */
typedef struct span {
  int64_t in, out, kernel, stride, dilation, before, after;
} span;

static int64_t extent(const span *d) {
  return (d->kernel - 1) * d->dilation + 1;
}

/* Pads so that there is an output for each stride. An odd number has its larger half after the input, or before it. */
static void pad_same(span *d, bool more_before) {
  d->out = (d->in - 1) / d->stride + 1;
  const int64_t wanted = (d->out - 1) * d->stride + extent(d) - d->in, all = wanted > 0 ? wanted : 0;
  d->before = more_before ? all - all / 2 : all / 2;
  d->after = all - d->before;
}

/* Returns dimension number `i` of the input and its windows. Dimensions before those of the windows have one element. */
static gconv_status find_span(const gconv_node_work *work, int32_t i, span *d) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  const int32_t from = i - (DIMENSIONS - s->count);
  *d = (span){1, 1, 1, 1, 1, 0, 0};
  if (from < 0)
    return GCONV_OK;
  *d = (span){in->shape[2 + from], 0, s->kernel[from], s->stride[from], s->dilation[from], s->before[from], s->after[from]};
  if (s->padding == GCONV_AUTO_PAD_VALID)
    d->before = d->after = 0;
  if (d->in > 0 && (s->padding == GCONV_AUTO_PAD_SAME_UPPER || s->padding == GCONV_AUTO_PAD_SAME_LOWER)) {
    pad_same(d, s->padding == GCONV_AUTO_PAD_SAME_LOWER);
    return GCONV_OK;
  }
  const int64_t room = d->in + d->before + d->after - extent(d);
  if (room < 0 || d->in == 0)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "pools windows of %" PRId64 " elements, which are larger than its input of %" PRId64
                      " with its padding",
                      extent(d), d->in);
  if (d->before >= extent(d) || d->after >= extent(d))
    return gconv_fail(GCONV_UNSUPPORTED, "has windows of padding alone");
  d->out = room / d->stride + 1;
  if (s->rounds_up && room % d->stride != 0 &&
      d->out * d->stride < d->in + d->before) /* it begins before the padding behind */
    d->out++;
  return GCONV_OK;
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  gconv_tensor out = *work->in[0];
  (void)kind;
  GCONV_TRY(gconv_node_need_type(work, 0, GCONV_TENSOR_F32));
  if (out.axes != 2 + s->count)
    return gconv_fail(GCONV_BAD_FILE, "pools windows of %d dimensions in a tensor of %d axes", s->count, out.axes);
  if (work->out_count > 1 && work->out[1])
    return gconv_fail(GCONV_UNSUPPORTED, "has the places of its largest values as a second output, which is not made here");
  for (int32_t i = DIMENSIONS - s->count; i < DIMENSIONS; i++) {
    span d;
    GCONV_TRY(find_span(work, i, &d));
    out.shape[2 + i - (DIMENSIONS - s->count)] = d.out;
  }
  gconv_node_set_like(work, 0, &out);
  return GCONV_OK;
}

typedef struct pool {
  span d[DIMENSIONS];
  const float *in;
  float *out;
  bool averages, counts_padding;
} pool;

/* Sets *begin .. *end - 1 to the outputs whose tap `k` lies inside of the input. */
static void outputs_of_tap(const span *d, int64_t k, int64_t *begin, int64_t *end) {
  const int64_t shift = d->before - k * d->dilation; /* output o sees o * stride - shift */
  *begin = shift > 0 ? (shift + d->stride - 1) / d->stride : 0;
  *end = d->in - 1 + shift < 0 ? 0 : (d->in - 1 + shift) / d->stride + 1;
  *end = *end > d->out ? d->out : *end;
}

/* Returns how many taps of an output lie inside of the input or, if padding counts, inside of the input with its padding. */
static int64_t taps_inside(const span *d, int64_t out, bool counts_padding) {
  const int64_t at = out * d->stride - d->before, low = counts_padding ? -d->before : 0;
  const int64_t high = d->in + (counts_padding ? d->after : 0);
  int64_t count = 0;
  for (int64_t k = 0; k < d->kernel; k++)
    count += at + k * d->dilation >= low && at + k * d->dilation < high;
  return count;
}

/* Takes one tap of all windows of a row. */
static void take_tap(const pool *p, const float *row, int64_t k, float *restrict out) {
  const span *d = &p->d[2];
  int64_t begin, end;
  outputs_of_tap(d, k, &begin, &end);
  const float *restrict from = row + k * d->dilation - d->before;
  const int64_t stride = d->stride;
  if (p->averages)
    for (int64_t x = begin; x < end; x++)
      out[x] += from[x * stride];
  else
    for (int64_t x = begin; x < end; x++) {
      const float v = from[x * stride];
      out[x] = v > out[x] || v != v ? v : out[x];
    }
}

/* Makes rows begin .. end - 1 of all rows of the output. */
static void pool_rows(void *context, int64_t begin, int64_t end) {
  const pool *p = context;
  const span *deep = &p->d[0], *high = &p->d[1], *wide = &p->d[2];
  for (int64_t line = begin; line < end; line++) {
    const int64_t y = line % high->out, z = line / high->out % deep->out, plane = line / high->out / deep->out;
    float *out = p->out + line * wide->out;
    for (int64_t x = 0; x < wide->out; x++)
      out[x] = p->averages ? 0 : -INFINITY;
    for (int64_t i = 0; i < deep->kernel; i++)
      for (int64_t j = 0; j < high->kernel; j++) {
        const int64_t from_z = z * deep->stride - deep->before + i * deep->dilation;
        const int64_t from_y = y * high->stride - high->before + j * high->dilation;
        if (from_z < 0 || from_z >= deep->in || from_y < 0 || from_y >= high->in)
          continue;
        const float *row = p->in + ((plane * deep->in + from_z) * high->in + from_y) * wide->in;
        for (int64_t k = 0; k < wide->kernel; k++)
          take_tap(p, row, k, out);
      }
    const int64_t rows = taps_inside(deep, z, p->counts_padding) * taps_inside(high, y, p->counts_padding);
    for (int64_t x = 0; p->averages && x < wide->out; x++)
      out[x] /= (float)(rows * taps_inside(wide, x, p->counts_padding));
  }
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  pool p = {.in = work->in[0]->data,
            .out = work->out[0]->data,
            .averages = kind->code == AVERAGE,
            .counts_padding = s->counts_padding};
  int64_t taps = 1, lines = gconv_tensor_count(work->out[0], 0, 2);
  for (int32_t i = 0; i < DIMENSIONS; i++) {
    GCONV_TRY(find_span(work, i, &p.d[i]));
    taps *= p.d[i].kernel;
    lines *= i < DIMENSIONS - 1 ? p.d[i].out : 1;
  }
  gconv_node_share(work, lines, (1 << 15) / (taps * p.d[2].out + 1) + 1, pool_rows, &p);
  return GCONV_OK;
}

static gconv_status cuda(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  gconv_gpu_pool job = {.planes = gconv_tensor_count(work->out[0], 0, 2),
                        .in = work->in[0]->there,
                        .out = work->out[0]->there,
                        .averages = kind->code == AVERAGE,
                        .counts_padding = s->counts_padding};
  for (int32_t i = 0; i < DIMENSIONS; i++) {
    span d;
    GCONV_TRY(find_span(work, i, &d));
    job.d[i] = (gconv_gpu_span){d.in, d.out, d.kernel, d.stride, d.dilation, d.before, d.after};
  }
  return gconv_gpu_pool_run(&job, work->stream);
}

static gconv_node_window window(const gconv_node_work *work, int32_t input, int32_t axis) {
  const settings *s = work->settings;
  span d;
  (void)input;
  if (axis - 2 >= s->count || find_span(work, DIMENSIONS - s->count + axis - 2, &d) != GCONV_OK)
    return (gconv_node_window){1, 1, 0, 0};
  return (gconv_node_window){d.stride, 1, d.before, extent(&d) - 1 - d.before};
}

/* ---- Whole planes ---- */

static gconv_status shape_global(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_tensor out = *work->in[0];
  (void)kind;
  GCONV_TRY(gconv_node_need_type(work, 0, GCONV_TENSOR_F32));
  if (out.axes < 2 || gconv_tensor_count(&out, 2, out.axes) == 0)
    return gconv_fail(GCONV_BAD_FILE, "pools planes of a tensor that has none");
  for (int32_t i = 2; i < out.axes; i++)
    out.shape[i] = 1;
  gconv_node_set_like(work, 0, &out);
  return GCONV_OK;
}

typedef struct planes {
  const float *in;
  float *out;
  int64_t size;
  bool averages;
} planes;

static void pool_planes(void *context, int64_t begin, int64_t end) {
  const planes *p = context;
  for (int64_t i = begin; i < end; i++) {
    const float *in = p->in + i * p->size;
    float largest = -INFINITY;
    for (int64_t k = 0; !p->averages && k < p->size; k++)
      largest = in[k] > largest || in[k] != in[k] ? in[k] : largest;
    p->out[i] = p->averages ? gconv_mean(in, p->size) : largest;
  }
}

static gconv_status run_global(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *in = work->in[0];
  planes p = {in->data, work->out[0]->data, gconv_tensor_count(in, 2, in->axes), kind->code == AVERAGE};
  gconv_node_share(work, gconv_tensor_count(in, 0, 2), (1 << 15) / (p.size + 1) + 1, pool_planes, &p);
  return GCONV_OK;
}

/* On a GPU, a plane is a row of which one number is made. */
static gconv_status cuda_global(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *in = work->in[0];
  const int64_t count = gconv_tensor_count(in, 0, 2), size = gconv_tensor_count(in, 2, in->axes);
  const gconv_gpu_reduce job = {.how = kind->code == AVERAGE ? GCONV_REDUCE_MEAN : GCONV_REDUCE_LARGEST,
                                .kept = 1,
                                .reduced = 1,
                                .kept_shape = {count},
                                .kept_step = {size},
                                .shape = {size},
                                .step = {1},
                                .outputs = count,
                                .count = size,
                                .in = in->there,
                                .out = work->out[0]->there,
                                .type = in->type};
  return gconv_gpu_reduce_run(&job, work->stream);
}

/* ---- The table ---- */

#define WINDOW INTS("kernel_shape", 1, NEWEST), INTS("strides", 1, NEWEST), INTS("pads", 1, NEWEST), STRING("auto_pad")
static rules none = {END};
static rules largest = {WINDOW, INTS("dilations", 10, NEWEST), INT("ceil_mode", 10, NEWEST), INT("storage_order", 8, NEWEST),
                        END};
static rules average = {WINDOW, INTS("dilations", 19, NEWEST), INT("ceil_mode", 10, NEWEST),
                        INT("count_include_pad", 7, NEWEST), END};

#define ROW(name, since, outs, rules, code)                                                                                 \
  GCONV_NODE_KIND(name, since, NEWEST, 1, 1, 1, outs, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_WINDOW, rules, code,              \
                  sizeof(settings), parse, shape, run, cuda, NULL, window, NULL, NULL)
#define GLOBAL(name, code)                                                                                                  \
  GCONV_NODE_KIND(name, 1, NEWEST, 1, 1, 1, 1, 0, 0, GCONV_MEMORY_OWN, GCONV_REACH_ALL, none, code, 0, NULL, shape_global,  \
                  run_global, cuda_global, NULL, NULL, NULL, NULL)
const gconv_node_kind gconv_node_kinds_pool[] = {
    ROW("MaxPool", 1, 2, largest, LARGEST),
    ROW("AveragePool", 1, 1, average, AVERAGE),
    GLOBAL("GlobalMaxPool", LARGEST),
    GLOBAL("GlobalAveragePool", AVERAGE),
    GCONV_NODE_KIND_END,
};
