/* SPDX-License-Identifier: MIT */
/* Pooling: the largest value or the average of windows of one to three dimensions, and of whole planes. */
#include "bank/onnx_rules.h"
#include "base/cpu.h"
#include "graph/moments.h"
#include "kernels/cuda/graph/graph.h"
#include "kernels/layer_algorithm.h"
#include "kernels/mean.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { DIMENSIONS = 3, LARGEST_WINDOW = 1 << 20 };
typedef enum member { LARGEST, AVERAGE, POWERS } member;

typedef struct settings {
  int32_t count; /* count of dimensions that windows have */
  int64_t kernel[DIMENSIONS], stride[DIMENSIONS], dilation[DIMENSIONS], before[DIMENSIONS], after[DIMENSIONS];
  gconv_auto_pad padding;
  bool rounds_up, counts_padding, by_columns;
  float power; /* of LpPool */
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

static gconv_status parse_power(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  const int64_t power = gconv_onnx_integer_of(node, "p", 2);
  s->power = (float)power;
  return power > 0 || kind->code != POWERS ? GCONV_OK : gconv_fail(GCONV_BAD_FILE, "has a 'p' of %" PRId64, power);
}

static gconv_status parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *made) {
  settings *s = made;
  const gconv_onnx_attribute *kernel = gconv_onnx_find_attribute(node, "kernel_shape");
  int64_t both[2 * DIMENSIONS];
  GCONV_TRY(parse_power(node, kind, opset, made));
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
  s->by_columns = gconv_onnx_integer_of(node, "storage_order", 0) != 0;
  return gconv_node_attribute_auto_pad(node, &s->padding);
}

/* ---- Windows ---- */

typedef gconv_gpu_span span;

static int64_t extent(const span *d) {
  return (d->kernel - 1) * d->dilation + 1;
}

/* Pads so that there is an output for each stride. If the padding is odd, its larger half is after the input, or before. */
static void pad_same(span *d, bool more_before) {
  d->out = (d->in - 1) / d->stride + 1;
  const int64_t wanted = (d->out - 1) * d->stride + extent(d) - d->in, all = wanted > 0 ? wanted : 0;
  d->before = more_before ? all - all / 2 : all / 2;
  d->after = all - d->before;
}

/* Returns dimension number `i` of the input and its windows. Dimensions before the dimensions of windows have one element.
 */
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
    return gconv_fail(GCONV_UNSUPPORTED, "has windows that see only padding");
  d->out = room / d->stride + 1;
  if (s->rounds_up && room % d->stride != 0 &&
      d->out * d->stride < d->in + d->before) /* this window begins before the padding at the end */
    d->out++;
  return GCONV_OK;
}

typedef struct pool {
  span d[DIMENSIONS];
  const void *in;
  void *out;
  int64_t *places; /* of the largest values, in the whole input */
  int64_t plane;   /* elements of a plane, if whole planes are pooled */
  member member;
  bool counts_padding, by_columns;
  double power;
} pool;

/* Sets *begin .. *end - 1 to the outputs whose tap `k` lies inside of the input. */
static void outputs_of_tap(const span *d, int64_t k, int64_t *begin, int64_t *end) {
  const int64_t shift = d->before - k * d->dilation; /* output o sees o * stride - shift */
  *begin = shift > 0 ? (shift + d->stride - 1) / d->stride : 0;
  *end = d->in - 1 + shift < 0 ? 0 : (d->in - 1 + shift) / d->stride + 1;
  *end = *end > d->out ? d->out : *end;
}

/* Returns the element of a plane that tap number `tap` of an output sees, or -1 if it lies outside. by_columns: elements are
 * counted from the first axis on. */
static int64_t place_of_tap(const span *d, const int64_t *out, int64_t tap, bool by_columns) {
  int64_t at[DIMENSIONS];
  for (int32_t i = DIMENSIONS - 1; i >= 0; tap /= d[i--].kernel) {
    at[i] = out[i] * d[i].stride - d[i].before + tap % d[i].kernel * d[i].dilation;
    if (at[i] < 0 || at[i] >= d[i].in)
      return -1;
  }
  return by_columns ? (at[2] * d[1].in + at[1]) * d[0].in + at[0] : (at[0] * d[1].in + at[1]) * d[2].in + at[2];
}

/* |x|^power, and the root of a sum of them, which is the norm. */
static double powered(double x, double power) {
  return power == 2 ? x * x : power == 1 ? fabs(x) : pow(fabs(x), power);
}
static double rooted(double sum, double power) {
  return power == 2 ? sqrt(sum) : power == 1 ? sum : pow(sum, 1 / power);
}

#define VECTOR_LOOP(name, parameters, arguments) GCONV_VECTOR_LOOP(name, parameters, arguments) /* expands NAME() */
#define NAME(name) name##_f32
#define NUMBER float
#define LOWEST -INFINITY
#include "graph/pool_loops.h"
#define NAME(name) name##_f64
#define NUMBER double
#define LOWEST -INFINITY
#include "graph/pool_loops.h"
#define NAME(name) name##_i8
#define NUMBER int8_t
#define LOWEST INT8_MIN
#include "graph/pool_loops.h"
#define NAME(name) name##_u8
#define NUMBER uint8_t
#define LOWEST 0
#include "graph/pool_loops.h"

/* Take one tap of the windows of `count` outputs in blocks of channels. Windows of neighbours are `stride` pixels apart. */
VECTOR_LOOP(larger_pixels, (const float *restrict from, int64_t stride, int64_t count, float *restrict out),
            (from, stride, count, out)) {
  for (int64_t x = 0; x < count; x++, from += stride * GCONV_BLOCK, out += GCONV_BLOCK)
    for (int c = 0; c < GCONV_BLOCK; c++)
      out[c] = ((from[c] > out[c]) | (from[c] != from[c])) ? from[c] : out[c];
}
VECTOR_LOOP(add_pixels, (const float *restrict from, int64_t stride, int64_t count, float *restrict out),
            (from, stride, count, out)) {
  for (int64_t x = 0; x < count; x++, from += stride * GCONV_BLOCK, out += GCONV_BLOCK)
    for (int c = 0; c < GCONV_BLOCK; c++)
      out[c] += from[c];
}

/* Like pool_rows_f32(), in two dimensions, for rows of tensors in blocks of channels. */
static void pool_blocks(void *context, int64_t first, int64_t last) {
  const pool *p = context;
  const span *high = &p->d[1], *wide = &p->d[2];
  for (int64_t line = first; line < last; line++) {
    const int64_t y = line % high->out, plane = line / high->out, top = y * high->stride - high->before;
    float *out = (float *)p->out + line * wide->out * GCONV_BLOCK;
    for (int64_t x = 0; x < wide->out * GCONV_BLOCK; x++)
      out[x] = p->member == LARGEST ? -INFINITY : 0;
    for (int64_t j = 0; j < high->kernel; j++) {
      const int64_t from_y = top + j * high->dilation;
      const float *row = (const float *)p->in + (plane * high->in + from_y) * wide->in * GCONV_BLOCK;
      for (int64_t k = 0, begin, end; k < wide->kernel && from_y >= 0 && from_y < high->in; k++) {
        outputs_of_tap(wide, k, &begin, &end);
        (p->member == LARGEST ? larger_pixels
                              : add_pixels)(row + (begin * wide->stride + k * wide->dilation - wide->before) * GCONV_BLOCK,
                                            wide->stride, end - begin, out + begin * GCONV_BLOCK);
      }
    }
    const int64_t rows = gconv_gpu_taps_inside(high, y, p->counts_padding);
    for (int64_t x = 0; p->member == AVERAGE && x < wide->out; x++)
      for (int64_t c = 0, taps = rows * gconv_gpu_taps_inside(wide, x, p->counts_padding); c < GCONV_BLOCK; c++)
        out[x * GCONV_BLOCK + c] /= (float)taps;
  }
}

typedef void part(void *context, int64_t begin, int64_t end);
static const struct {
  part *rows, *places, *planes;
} loops[GCONV_TENSOR_TYPES] = {[GCONV_TENSOR_F32] = {pool_rows_f32, find_places_f32, pool_planes_f32},
                               [GCONV_TENSOR_F64] = {pool_rows_f64, find_places_f64, pool_planes_f64},
                               [GCONV_TENSOR_I8] = {pool_rows_i8, find_places_i8, pool_planes_i8},
                               [GCONV_TENSOR_U8] = {pool_rows_u8, find_places_u8, pool_planes_u8}};

/* Integers have only largest values, no averages. */
static gconv_status check_type(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor_type type = work->in[0]->type;
  return kind->code == LARGEST && loops[type].rows ? GCONV_OK : gconv_node_need_real(work, 0, 0);
}

static gconv_status shape(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  gconv_tensor out = *work->in[0];
  GCONV_TRY(check_type(work, kind));
  if (out.axes != 2 + s->count)
    return gconv_fail(GCONV_BAD_FILE, "pools windows of %d dimensions in a tensor of %d axes", s->count, out.axes);
  for (int32_t i = DIMENSIONS - s->count; i < DIMENSIONS; i++) {
    span d;
    GCONV_TRY(find_span(work, i, &d));
    out.shape[2 + i - (DIMENSIONS - s->count)] = d.out;
  }
  gconv_node_set_like(work, 0, &out);
  gconv_node_set(work, 1, GCONV_TENSOR_I64, out.axes, out.shape);
  return GCONV_OK;
}

static gconv_status run(const gconv_node_work *work, const gconv_node_kind *kind) {
  const settings *s = work->settings;
  const gconv_tensor *in = work->in[0];
  pool p = {.in = in->data,
            .out = work->out[0]->data,
            .places = work->out_count > 1 && work->out[1] ? work->out[1]->data : NULL,
            .member = (member)kind->code,
            .counts_padding = s->counts_padding,
            .by_columns = s->by_columns,
            .power = (double)s->power};
  int64_t taps = 1, lines = gconv_tensor_count(work->out[0], 0, 2);
  const int64_t planes = lines;
  for (int32_t i = 0; i < DIMENSIONS; i++) {
    GCONV_TRY(find_span(work, i, &p.d[i]));
    taps *= p.d[i].kernel;
    lines *= i < DIMENSIONS - 1 ? p.d[i].out : 1;
  }
  if (in->blocks)
    lines = gconv_layer_image_floats(in->shape[1], in->shape[0], true) / GCONV_BLOCK * p.d[1].out;
  gconv_node_share(work, lines, (1 << 15) / (taps * p.d[2].out * (in->blocks ? GCONV_BLOCK : 1) + 1) + 1,
                   in->blocks ? pool_blocks : loops[in->type].rows, &p);
  if (p.places)
    gconv_node_share(work, planes, 1, loops[in->type].places, &p);
  return GCONV_OK;
}

static gconv_status cuda(const gconv_node_work *work, const gconv_node_kind *kind) {
  if (work->out_count > 1 && work->out[1])
    return gconv_fail(GCONV_UNSUPPORTED, "has the places of its largest values as a second output, which GPUs do not make");
  GCONV_TRY(gconv_node_need_type(work, 0, GCONV_TENSOR_F32));
  const settings *s = work->settings;
  gconv_gpu_pool job = {.planes = gconv_tensor_count(work->out[0], 0, 2),
                        .in = work->in[0]->there,
                        .out = work->out[0]->there,
                        .averages = kind->code == AVERAGE,
                        .counts_padding = s->counts_padding};
  for (int32_t i = 0; i < DIMENSIONS; i++)
    GCONV_TRY(find_span(work, i, &job.d[i]));
  return gconv_gpu_pool_run(&job, work->stream);
}

static gconv_node_window window(const gconv_node_work *work, int32_t input, int32_t axis) {
  const settings *s = work->settings;
  span d;
  if (work->out_count > 1 && work->out[1]) /* places count the elements of the whole image */
    return (gconv_node_window){1, 0, 0, 0};
  if (axis - 2 >= s->count || find_span(work, DIMENSIONS - s->count + axis - 2, &d) != GCONV_OK)
    return (gconv_node_window){1, 1, 0, 0};
  return (gconv_node_window){d.stride, 1, d.before, extent(&d) - 1 - d.before};
}

/* ---- Whole planes ---- */

static gconv_status shape_global(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_tensor out = *work->in[0];
  GCONV_TRY(check_type(work, kind));
  if (out.axes < 2 || gconv_tensor_count(&out, 2, out.axes) == 0)
    return gconv_fail(GCONV_BAD_FILE, "pools planes of a tensor that has none");
  for (int32_t i = 2; i < out.axes; i++)
    out.shape[i] = 1;
  gconv_node_set_like(work, 0, &out);
  return GCONV_OK;
}

static void mean_planes(void *context, int64_t begin, int64_t end) {
  const pool *p = context;
  for (int64_t i = begin; i < end; i++)
    ((float *)p->out)[i] = gconv_mean((const float *)p->in + i * p->plane, p->plane);
}

/* Makes the means of all 16 channels of a block. */
GCONV_VECTOR_LOOP(mean_block, (const float *in, int64_t plane, float *restrict means), (in, plane, means)) {
  for (int c = 0; c < GCONV_BLOCK; c += GCONV_MEAN_CHANNELS)
    gconv_mean_of_channels(in + c, plane, GCONV_BLOCK, means + c);
}

/* Writes the means of the channels of blocks begin .. end - 1 of all images. */
static void mean_blocks(void *context, int64_t begin, int64_t end) {
  const pool *p = context;
  const int64_t channels = p->d[0].in, blocks = gconv_layer_image_floats(channels, 1, true) / GCONV_BLOCK;
  for (int64_t b = begin; b < end; b++) {
    const int64_t first = b % blocks * GCONV_BLOCK, left = channels - first;
    float means[GCONV_BLOCK];
    mean_block((const float *)p->in + b * p->plane * GCONV_BLOCK, p->plane, means);
    memcpy((float *)p->out + b / blocks * channels + first, means,
           (size_t)(left < GCONV_BLOCK ? left : GCONV_BLOCK) * sizeof *means);
  }
}

static gconv_status run_global(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *in = work->in[0];
  const settings *s = work->settings;
  pool p = {.in = in->data,
            .out = work->out[0]->data,
            .plane = gconv_tensor_count(in, 2, in->axes),
            .member = (member)kind->code,
            .power = (double)s->power};
  const bool mean = kind->code == AVERAGE && in->type == GCONV_TENSOR_F32; /* added in the order of mean.h */
  for (int64_t c = 0; work->moments && c < in->shape[1]; c++)
    ((float *)p.out)[c] = (float)(mean ? work->moments[c].mean : work->moments[c].largest);
  if (work->moments)
    return GCONV_OK;
  if (in->blocks) {
    p.d[0].in = in->shape[1];
    gconv_node_share(work, gconv_layer_image_floats(in->shape[1], in->shape[0], true) / GCONV_BLOCK,
                     (1 << 14) / (p.plane * GCONV_BLOCK + 1) + 1, mean_blocks, &p);
    return GCONV_OK;
  }
  gconv_node_share(work, gconv_tensor_count(in, 0, 2), (1 << 15) / (p.plane + 1) + 1,
                   mean ? mean_planes : loops[in->type].planes, &p);
  return GCONV_OK;
}

/* ---- MaxUnpool ---- */

/* Finds the shape of the smallest input from which MaxPool makes input 0. */
static gconv_status find_unpooled(const gconv_node_work *work, gconv_tensor *inner) {
  const settings *s = work->settings;
  *inner = *work->in[0];
  if (inner->axes != 2 + s->count)
    return gconv_fail(GCONV_BAD_FILE, "has windows of %d dimensions for a tensor of %d axes", s->count, inner->axes);
  for (int32_t i = 0; i < s->count; i++)
    inner->shape[2 + i] = (inner->shape[2 + i] - 1) * s->stride[i] + s->kernel[i] - s->before[i] - s->after[i];
  return gconv_tensor_check(inner);
}

static gconv_status shape_unpool(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_node_integers wanted;
  gconv_tensor out;
  GCONV_TRY(gconv_node_need_real(work, 0, 0));
  GCONV_TRY(gconv_node_need_type(work, 1, GCONV_TENSOR_I64));
  GCONV_TRY(find_unpooled(work, &out));
  if (gconv_tensor_elements(work->in[0]) != gconv_tensor_elements(work->in[1]))
    return gconv_fail(GCONV_BAD_FILE, "has other numbers of elements and of places");
  if (work->in_count > 2 && work->in[2]) {
    GCONV_TRY(gconv_node_read_integers(work, 2, "shape of its output", &wanted));
    bool fits = wanted.count == out.axes;
    for (int32_t i = 0; i < out.axes && fits; i++)
      fits = wanted.number[i] >= out.shape[i];
    if (!fits)
      return gconv_fail(GCONV_BAD_FILE, "has a shape of its output that is too small");
    memcpy(out.shape, wanted.number, (size_t)out.axes * sizeof *out.shape);
  }
  gconv_node_set_like(work, 0, &out);
  return GCONV_OK;
}

static gconv_status run_unpool(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *in = work->in[0], *out = work->out[0];
  const int64_t *places = work->in[1]->data, count = gconv_tensor_elements(in);
  const size_t each = gconv_tensor_type_bytes(in->type);
  gconv_tensor inner;
  GCONV_TRY(find_unpooled(work, &inner));
  memset(out->data, 0, gconv_tensor_bytes(out));
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = places[i], at = 0, pitch = 1;
    if (rest < 0 || rest >= gconv_tensor_elements(&inner))
      return gconv_fail(GCONV_BAD_FILE, "has the place %" PRId64 " of %" PRId64, rest, gconv_tensor_elements(&inner));
    for (int32_t axis = inner.axes - 1; axis >= 0; pitch *= out->shape[axis], rest /= inner.shape[axis--])
      at += rest % inner.shape[axis] * pitch;
    memcpy((uint8_t *)out->data + (size_t)at * each, (const uint8_t *)in->data + (size_t)i * each, each);
  }
  return GCONV_OK;
}

/* A GPU pools whole planes as a reduction of rows. */
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

static rules powers = {WINDOW, INTS("dilations", 18, NEWEST), INT("ceil_mode", 18, NEWEST), INT("p", 2, NEWEST), END};
static rules power = {INT("p", 2, NEWEST), END};
static rules unpool = {INTS("kernel_shape", 1, NEWEST), INTS("strides", 1, NEWEST), INTS("pads", 1, NEWEST), END};

#define ROW(name, since, outs, rules, code, on_cuda)                                                                        \
  GCONV_NODE_KIND_IN(name, (code) == POWERS ? GCONV_BLOCKS_NEVER : GCONV_BLOCKS_ALIKE, since, NEWEST, 1, 1, 1, outs, 0, 0,  \
                     GCONV_MEMORY_OWN, GCONV_REACH_WINDOW, rules, code, sizeof(settings), parse, shape, run, on_cuda, NULL, \
                     window, NULL, NULL)
#define GLOBAL(name, since, reach, rules, code, on_cuda)                                                                    \
  GCONV_NODE_KIND_IN(name, (code) == AVERAGE ? GCONV_BLOCKS_READ : GCONV_BLOCKS_NEVER, since, NEWEST, 1, 1, 1, 1, 0, 0,     \
                     GCONV_MEMORY_OWN, reach, rules, code, sizeof(settings), parse_power, shape_global, run_global,         \
                     on_cuda, NULL, (reach) == GCONV_REACH_WINDOW ? gconv_node_by_moments : NULL, NULL, NULL)
const gconv_node_kind gconv_node_kinds_pool[] = {
    ROW("MaxPool", 1, 2, largest, LARGEST, cuda),
    ROW("AveragePool", 1, 1, average, AVERAGE, cuda),
    ROW("LpPool", 2, 1, powers, POWERS, GCONV_NOT_ON_CUDA),
    GLOBAL("GlobalMaxPool", 1, GCONV_REACH_WINDOW, none, LARGEST, cuda_global),
    GLOBAL("GlobalAveragePool", 1, GCONV_REACH_WINDOW, none, AVERAGE, cuda_global),
    GLOBAL("GlobalLpPool", 2, GCONV_REACH_ALL, power, POWERS, GCONV_NOT_ON_CUDA),
    GCONV_NODE_KIND("MaxUnpool", 9, NEWEST, 2, 3, 1, 1, 4, 0, GCONV_MEMORY_OWN, GCONV_REACH_ALL, unpool, 0, sizeof(settings),
                    parse, shape_unpool, run_unpool, GCONV_NOT_ON_CUDA, NULL, NULL, NULL, NULL),
    GCONV_NODE_KIND_END,
};
