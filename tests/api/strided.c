/* SPDX-License-Identifier: MIT */
/* Tensors of any layout: all orders of the axes in memory, gaps, axes that run backwards, odd addresses, float16 and
 * bfloat16. Results are those of images, and no byte beside the elements is written. With the argument cuda, in memory of a
 * GPU, where addresses are those of elements. */
#include "gconv_embed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef GCONV_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

#define CHECK(condition)                                                                                                    \
  ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, gconv_last_error()), exit(1)))

enum { GUARD = 0x5A };

static unsigned state = 1;
static bool on_gpu;

static unsigned draw(unsigned below) {
  state = state * 1664525 + 1013904223;
  return (state >> 8) % below;
}

static size_t size_of(gconv_element_type type) {
  return type == GCONV_ELEMENT_U8 ? 1 : type == GCONV_ELEMENT_F32 ? 4 : 2;
}

/* ---- Halves, by arithmetic ---- */

static float half_value(gconv_element_type type, uint16_t bits) {
  const int exponent = type == GCONV_ELEMENT_F16 ? bits >> 10 & 31 : bits >> 7 & 255;
  const int digits = type == GCONV_ELEMENT_F16 ? 10 : 7, bias = type == GCONV_ELEMENT_F16 ? 15 : 127;
  const double part = (double)(bits & ((1 << digits) - 1)) / (1 << digits);
  const double value = exponent == 0 ? ldexp(part, 1 - bias) : ldexp(1 + part, exponent - bias);
  return (float)(bits >> 15 ? -value : value);
}

/* Whether `bits` is a half nearest to a value: no neighbour is nearer. */
static int is_nearest(gconv_element_type type, uint16_t bits, float value) {
  const double error = fabs((double)half_value(type, bits) - (double)value);
  return error <= fabs((double)half_value(type, (uint16_t)(bits + 1)) - (double)value) &&
         ((bits & 0x7fff) == 0 || error <= fabs((double)half_value(type, (uint16_t)(bits - 1)) - (double)value));
}

/* ---- Memory, and executions in it ---- */

#ifdef GCONV_WITH_CUDA
static void *take(size_t bytes) { /* of both, so that the host can look at it */
  void *memory = NULL;
  CHECK(!on_gpu || cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal) == cudaSuccess);
  return on_gpu ? memory : malloc(bytes);
}
static void give_back(void *memory) {
  CHECK(!on_gpu || cudaFree(memory) == cudaSuccess);
  if (!on_gpu)
    free(memory);
}
static bool wait(void) {
  return !on_gpu || cudaDeviceSynchronize() == cudaSuccess;
}
#else
#define take malloc
#define give_back free
static bool wait(void) {
  return true;
}
#endif

static gconv_status execute(gconv_plan *plan, const gconv_strided *in, const gconv_strided *outputs, size_t count) {
  return on_gpu || draw(2) ? gconv_plan_execute_strided_device(plan, in, outputs, count, NULL)
                           : gconv_plan_execute_strided(plan, in, outputs, count);
}

/* ---- Tensors ---- */

typedef struct tensor {
  gconv_strided strided;
  uint8_t *memory, *written; /* written: 1 for each byte of an element */
  size_t bytes;
} tensor;

static uint8_t *at(const gconv_strided *t, const int64_t place[4]) {
  uint8_t *found = t->data;
  for (int i = 0; i < 4; i++)
    found += place[i] * t->stride[i];
  return found;
}

static int next(int64_t place[4], const int64_t shape[4]) {
  for (int i = 3; i >= 0; i--) {
    if (++place[i] < shape[i])
      return 1;
    place[i] = 0;
  }
  return 0;
}

/* Makes memory for a tensor of a random layout. */
static tensor make(gconv_element_type type, const gconv_image *header) {
  const int64_t shape[4] = {header->frames, header->channels, header->height, header->width};
  int order[4] = {0, 1, 2, 3};
  const int64_t unit = on_gpu ? (int64_t)size_of(type) : 1;
  int64_t step = (int64_t)size_of(type), first = 0, place[4] = {0};
  tensor t = {.strided = {.type = type}};
  for (int i = 3; i > 0; i--) {
    const int k = (int)draw((unsigned)i + 1), kept = order[i];
    order[i] = order[k];
    order[k] = kept;
  }
  for (int i = 0; i < 4; i++) {
    const int axis = order[i], backwards = draw(4) == 0;
    step += draw(3) == 0 ? unit * (int64_t)draw(9) : 0;
    t.strided.shape[axis] = shape[axis];
    t.strided.stride[axis] = backwards ? -step : step;
    first += backwards ? step * (shape[axis] - 1) : 0;
    step *= shape[axis];
  }
  const size_t shift = (size_t)unit * draw(4);
  t.bytes = (size_t)step + 64;
  t.memory = take(t.bytes);
  t.written = calloc(t.bytes, 1);
  CHECK(t.memory && t.written);
  memset(t.memory, GUARD, t.bytes);
  t.strided.data = t.memory + shift + first;
  do
    memset(t.written + (at(&t.strided, place) - t.memory), 1, size_of(type));
  while (next(place, shape));
  return t;
}

static void free_tensor(tensor *t) {
  give_back(t->memory);
  free(t->written);
}

static uint8_t *sample_of(const gconv_image *image, const int64_t p[4]) {
  const size_t size = gconv_type_bytes(image->type), c = (size_t)image->channels;
  const size_t plane = image->planar ? (size_t)p[0] * c + (size_t)p[1] : (size_t)p[0];
  const size_t element = image->planar ? (size_t)p[3] : (size_t)p[3] * c + (size_t)p[1];
  return (uint8_t *)image->data + plane * image->plane_bytes + (size_t)p[2] * image->row_bytes + element * size;
}

/* Draws the elements of a tensor, and gives an image the same samples. */
static void fill(tensor *t, gconv_image *image) {
  int64_t place[4] = {0};
  do {
    uint8_t *element = at(&t->strided, place), *sample = sample_of(image, place);
    uint16_t bits = (uint16_t)(0x3000 + draw(0x800));
    float value = (float)draw(1000) / 999;
    switch (t->strided.type) {
    case GCONV_ELEMENT_U8:
      *element = *sample = (uint8_t)draw(256);
      break;
    case GCONV_ELEMENT_U16:
    case GCONV_ELEMENT_I16:
      bits = (uint16_t)draw(65536);
      memcpy(element, &bits, 2);
      memcpy(sample, &bits, 2);
      break;
    case GCONV_ELEMENT_F32:
      memcpy(element, &value, 4);
      memcpy(sample, &value, 4);
      break;
    default:
      bits = t->strided.type == GCONV_ELEMENT_BF16 ? (uint16_t)(bits + 0x0e00) : bits;
      memcpy(element, &bits, 2);
      value = half_value(t->strided.type, bits);
      memcpy(sample, &value, 4);
    }
  } while (next(place, t->strided.shape));
}

static void compare(const tensor *t, const gconv_image *expected) {
  int64_t place[4] = {0};
  do {
    const uint8_t *element = at(&t->strided, place), *sample = sample_of(expected, place);
    if (t->strided.type == GCONV_ELEMENT_F16 || t->strided.type == GCONV_ELEMENT_BF16) {
      uint16_t bits;
      float value;
      memcpy(&bits, element, 2);
      memcpy(&value, sample, 4);
      CHECK(is_nearest(t->strided.type, bits, value));
    } else {
      CHECK(memcmp(element, sample, size_of(t->strided.type)) == 0);
    }
  } while (next(place, t->strided.shape));
  for (size_t i = 0; i < t->bytes; i++)
    CHECK(t->written[i] || t->memory[i] == GUARD);
}

static gconv_element_type drawn_type(gconv_type type) {
  return type != GCONV_F32 ? (gconv_element_type)type
                           : (gconv_element_type[]){GCONV_ELEMENT_F32, GCONV_ELEMENT_F16, GCONV_ELEMENT_BF16}[draw(3)];
}

static void check_plan(gconv_plan *plan, const gconv_image *like) {
  enum { MOST = 3 };
  const size_t count = gconv_plan_outputs(plan);
  gconv_image in = *like, expected[MOST] = {{0}};
  tensor from = make(drawn_type(like->type), like), to[MOST];
  gconv_strided outputs[MOST];
  CHECK(count <= MOST && gconv_image_allocate(&in) == GCONV_OK);
  fill(&from, &in);
  CHECK(gconv_plan_execute(plan, &in, expected, count, NULL) == GCONV_OK);
  for (size_t i = 0; i < count; i++) {
    to[i] = make(drawn_type(expected[i].type), &expected[i]);
    outputs[i] = to[i].strided;
  }
  CHECK(execute(plan, &from.strided, outputs, count) == GCONV_OK && wait());
  for (size_t i = 0; i < count; i++) {
    compare(&to[i], &expected[i]);
    free_tensor(&to[i]);
    gconv_image_free(&expected[i]);
  }
  compare(&from, &in); /* the input stays as it was */
  free_tensor(&from);
  gconv_image_free(&in);
}

/* ---- Operations ---- */

static gconv_operation *filters_of(const char *spec, gconv_type type) {
  gconv_filters filters = {0};
  gconv_options options = gconv_options_default();
  gconv_operation *operation = NULL;
  options.sets_type = type == GCONV_I16;
  options.output_type = type;
  CHECK(gconv_filters_read(spec, NULL, &filters) == GCONV_OK);
  CHECK(gconv_operation_filters(&filters, &options, &operation) == GCONV_OK);
  gconv_filters_free(&filters);
  return operation;
}

static gconv_operation *network_of(int32_t channels) {
  static float weights[4 * 7 * 9];
  static gconv_bank bank;
  const gconv_layer layer = {.bank = &bank};
  gconv_operation *operation = NULL;
  for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
    weights[i] = (float)((int)(i * 37 % 19) - 9) / 32;
  bank = (gconv_bank){.filters = 4, .channels = channels, .rows = 3, .columns = 3, .weights = weights};
  CHECK(gconv_operation_network(&layer, 1, NULL, &operation) == GCONV_OK);
  return operation;
}

static void check_operation(gconv_device *device, gconv_operation *operation, const gconv_image *like) {
  gconv_plan *plan = NULL;
  CHECK(gconv_plan_create(device, like, operation, 0, &plan) == GCONV_OK);
  for (int i = 0; i < 60; i++)
    check_plan(plan, like);
  gconv_plan_free(plan);
  gconv_operation_free(operation);
}

/* What is wrong of a tensor is told by its name. */
static void check_refusals(gconv_device *device) {
  const gconv_image like = {.type = GCONV_F32, .frames = 1, .height = 5, .width = 6, .channels = 1};
  gconv_operation *operation = filters_of("gaussian", GCONV_F32);
  gconv_plan *plan = NULL;
  float in[30] = {0}, out[64];
  const gconv_strided from = {in, GCONV_ELEMENT_F32, {1, 1, 5, 6}, {0, 0, 24, 4}};
  const gconv_strided to = {out, GCONV_ELEMENT_F32, {1, 1, 5, 6}, {0, 0, 24, 4}};
  CHECK(gconv_plan_create(device, &like, operation, 0, &plan) == GCONV_OK);
  CHECK(gconv_plan_execute_strided(plan, &from, &to, 1) == GCONV_OK);
  for (int i = 0; i < 8; i++) {
    gconv_strided wrong[2] = {from, to}, *it = &wrong[i % 2];
    if (i / 2 == 0)
      it->data = NULL;
    else if (i / 2 == 1)
      it->type = GCONV_ELEMENT_U8;
    else if (i / 2 == 2)
      it->shape[2] = 4;
    else
      it->stride[2] = INT64_MAX / 2;
    CHECK(gconv_plan_execute_strided(plan, &wrong[0], &wrong[1], 1) == GCONV_BAD_ARGUMENT);
    CHECK(strstr(gconv_last_error(), i % 2 ? "outputs[0]" : "in ") || strstr(gconv_last_error(), "in is"));
  }
  for (int64_t step = 0; step <= 12; step += 4) { /* rows that lie on each other, which an input may have */
    gconv_strided same = to;
    same.stride[2] = step;
    CHECK(gconv_plan_execute_strided(plan, &from, &same, 1) == GCONV_BAD_ARGUMENT);
    CHECK(strstr(gconv_last_error(), "share memory"));
  }
  gconv_strided woven = to; /* rows 7 and columns 5 elements apart: none meet */
  woven.stride[2] = 28;
  woven.stride[3] = 20;
  CHECK(gconv_plan_execute_strided(plan, &from, &woven, 1) == GCONV_OK);
  gconv_strided again = from;
  again.stride[2] = 0;
  CHECK(gconv_plan_execute_strided(plan, &again, &to, 1) == GCONV_OK);
  CHECK(gconv_plan_execute_strided(plan, &from, &to, 2) == GCONV_BAD_ARGUMENT);
  gconv_plan_free(plan);
  gconv_operation_free(operation);
}

int main(int count, char **arguments) {
  gconv_device *device = NULL;
  const gconv_image rgb = {.type = GCONV_U8, .frames = 1, .height = 9, .width = 13, .channels = 3};
  const gconv_image planes = {.type = GCONV_F32, .frames = 2, .height = 8, .width = 7, .channels = 5, .planar = true};
  const gconv_image grey = {.type = GCONV_U16, .frames = 3, .height = 6, .width = 11, .channels = 1};
  const gconv_image maps = {.type = GCONV_F32, .frames = 2, .height = 10, .width = 9, .channels = 7, .planar = true};
  on_gpu = count > 1 && strcmp(arguments[1], "cuda") == 0;
  if (gconv_device_open(on_gpu ? "cuda" : "cpu", 2, &device) != GCONV_OK) {
    printf("skipped: %s\n", gconv_last_error());
    return 77;
  }
  check_operation(device, filters_of("sobel", GCONV_U8), &rgb);
  if (!on_gpu)
    check_operation(device, filters_of("sobel_x", GCONV_I16), &rgb);
  check_operation(device, filters_of("gaussian", GCONV_F32), &planes);
  check_operation(device, filters_of("gaussian", GCONV_U16), &grey);
  check_operation(device, network_of(7), &maps);
  if (!on_gpu)
    check_refusals(device);
  gconv_device_close(device);
  return 0;
}
