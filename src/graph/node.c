/* SPDX-License-Identifier: MIT */
/* What kinds of nodes share. */
#include "graph/node.h"
#include "base/memory.h"
#include "base/printable.h"
#include "graph/narrow.h"

#include <inttypes.h>
#include <string.h>

/* ---- Types and shapes ---- */

void gconv_node_set(const gconv_node_work *work, int32_t out, gconv_tensor_type type, int32_t axes, const int64_t *shape) {
  gconv_tensor *tensor = out < work->out_count ? work->out[out] : NULL;
  const gconv_tensor *from = work->in_count > 0 ? work->in[0] : NULL;
  if (!tensor)
    return;
  tensor->type = type;
  tensor->narrow = from && from->type == type ? from->narrow : 0;
  tensor->axes = axes;
  for (int32_t i = 0; i < axes && i < GCONV_TENSOR_AXES; i++)
    tensor->shape[i] = shape[i];
}

gconv_node_window gconv_node_by_moments(const gconv_node_work *work, int32_t input, int32_t axis) {
  return input == 0 ? (gconv_node_window){1, GCONV_BY_MOMENTS, 0, 0} : (gconv_node_window){1, 0, 0, 0};
}

void gconv_node_set_like(const gconv_node_work *work, int32_t out, const gconv_tensor *like) {
  gconv_node_set(work, out, like->type, like->axes, like->shape);
}

gconv_status gconv_node_shape_like(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_node_set_like(work, 0, work->in[0]);
  return GCONV_OK;
}

gconv_status gconv_node_need_type(const gconv_node_work *work, int32_t input, gconv_tensor_type type) {
  if (input >= work->in_count || !work->in[input] || work->in[input]->type == type)
    return GCONV_OK;
  return gconv_fail(GCONV_UNSUPPORTED, "takes %s here as input %d, not %s", gconv_tensor_type_name(type), input,
                    gconv_tensor_type_name(work->in[input]->type));
}

gconv_status gconv_node_need_real(const gconv_node_work *work, int32_t first, int32_t last) {
  const gconv_tensor_type type = work->in[first]->type;
  if (!gconv_tensor_type_is_real(type))
    return gconv_fail(GCONV_UNSUPPORTED, "takes float32 or float64 here as input %d, not %s", first,
                      gconv_tensor_type_name(type));
  for (int32_t i = first + 1; i <= last; i++)
    GCONV_TRY(gconv_node_need_type(work, i, type));
  return GCONV_OK;
}

gconv_status gconv_node_read_integers(const gconv_node_work *work, int32_t input, const char *what,
                                      gconv_node_integers *list) {
  const gconv_tensor *t = input < work->in_count ? work->in[input] : NULL;
  *list = (gconv_node_integers){{0}, 0};
  if (!t || !t->data || t->axes > 1 || (t->type != GCONV_TENSOR_I64 && t->type != GCONV_TENSOR_I32))
    return gconv_fail(GCONV_UNSUPPORTED, "needs as its %s a list of int64 or int32 that does not depend on the image", what);
  const int64_t count = gconv_tensor_elements(t);
  if (count > (int64_t)(sizeof list->number / sizeof *list->number))
    return gconv_fail(GCONV_UNSUPPORTED, "has a list of %" PRId64 " numbers as its %s", count, what);
  list->count = (int32_t)count;
  for (int32_t i = 0; i < list->count; i++)
    list->number[i] = gconv_tensor_integer(t, i);
  return GCONV_OK;
}

/* ---- Broadcasting ---- */

static gconv_status fail_broadcast(const gconv_tensor *a, const gconv_tensor *b) {
  char first[160], second[160];
  gconv_tensor_shape_text(a, first, sizeof first);
  gconv_tensor_shape_text(b, second, sizeof second);
  return gconv_fail(GCONV_BAD_FILE, "takes tensors of %s and of %s, which do not fit together", first, second);
}

/* Broadcasts *result to the shape of `t`, too: axes are counted from the last one on, and a size of 1 is repeated. */
static gconv_status cover(const gconv_tensor *t, gconv_tensor *result) {
  const int32_t more = t->axes - result->axes;
  if (more > 0) {
    memmove(result->shape + more, result->shape, (size_t)result->axes * sizeof *result->shape);
    for (int32_t i = 0; i < more; i++)
      result->shape[i] = 1;
    result->axes = t->axes;
  }
  for (int32_t i = 0; i < t->axes; i++) {
    int64_t *size = &result->shape[result->axes - t->axes + i];
    if (*size == 1)
      *size = t->shape[i];
    else if (t->shape[i] != 1 && t->shape[i] != *size)
      return fail_broadcast(result, t);
  }
  return GCONV_OK;
}

gconv_status gconv_node_broadcast(const gconv_node_work *work, gconv_tensor *result) {
  result->axes = 0;
  for (int32_t i = 0; i < work->in_count; i++)
    if (work->in[i])
      GCONV_TRY(cover(work->in[i], result));
  return GCONV_OK;
}

void gconv_node_steps(const gconv_tensor *in, const gconv_tensor *out, int64_t step[GCONV_TENSOR_AXES]) {
  int64_t distance = 1;
  for (int32_t i = out->axes - 1, from = in->axes - 1; i >= 0; i--, from--) {
    const int64_t size = from >= 0 ? in->shape[from] : 1;
    step[i] = size == 1 ? 0 : distance;
    distance *= size;
  }
}

/* ---- Threads ---- */

typedef struct shared {
  int64_t count, piece;
  void (*part)(void *context, int64_t begin, int64_t end);
  void *context;
} shared;

static void take_turn(void *context, size_t turn, int seat) {
  const shared *s = context;
  const int64_t begin = (int64_t)turn * s->piece, left = s->count - begin;
  s->part(s->context, begin, begin + (left < s->piece ? left : s->piece));
}

void gconv_node_share(const gconv_node_work *work, int64_t count, int64_t grain,
                      void (*part)(void *context, int64_t begin, int64_t end), void *context) {
  const int64_t threads = work->threads ? gconv_threads_count(work->threads) : 1, most = threads > 1 ? 4 * threads : 1;
  int64_t turns = count / (grain > 0 ? grain : 1) < most ? count / (grain > 0 ? grain : 1) : most;
  turns = turns > 1 ? (turns + threads - 1) / threads * threads : turns; /* each thread gets the same number */
  if (count <= 0)
    return;
  if (turns <= 1) {
    part(context, 0, count);
    return;
  }
  shared s = {count, (count - 1) / turns + 1, part, context};
  gconv_threads_run_in_parts(work->threads, (size_t)((count - 1) / s.piece + 1), take_turn, &s);
}

/* ---- Tensors of models ---- */

/* Fails if the file beside the model is too small for the numbers of an external tensor, before there is memory for them. */
static gconv_status check_external(gconv_bank_file *file, const gconv_onnx_tensor *tensor, const char *name, size_t count) {
  gconv_onnx_tensor looked = *tensor;
  if (!tensor->external)
    return GCONV_OK;
  gconv_onnx_tensor_look(file, &looked);
  if (looked.file.bytes == 0)
    GCONV_TRY(gconv_onnx_tensor_elements(file, tensor, 0, NULL)); /* says what is wrong */
  return looked.file.bytes >= count
             ? GCONV_OK
             : gconv_fail(GCONV_BAD_FILE, "%s: tensor '%s' has %zu numbers, and the file beside the model %" PRIu64 " bytes",
                          file->path, name, count, looked.file.bytes);
}

gconv_status gconv_tensor_of_onnx(gconv_bank_file *file, const gconv_onnx_tensor *from, gconv_tensor *tensor) {
  gconv_tensor made = {.axes = (int32_t)(from->dimensions < INT32_MAX ? from->dimensions : INT32_MAX)};
  gconv_onnx_tensor kept = *from;
  GCONV_FREED char *name = gconv_printable_copy(from->name, 80);
  kept.keeps_float64 = true;
  if (!gconv_tensor_type_of_onnx(from->type, &made.type, &made.narrow))
    return gconv_fail(GCONV_UNSUPPORTED, "%s: tensor '%s' has %s numbers, which are not read", file->path, name ? name : "",
                      *gconv_onnx_type_name(from->type) ? gconv_onnx_type_name(from->type) : "unknown");
  for (int32_t i = 0; i < made.axes && i < GCONV_TENSOR_AXES; i++)
    made.shape[i] = from->shape[i];
  if (gconv_tensor_check(&made) != GCONV_OK)
    return gconv_fail_in(GCONV_BAD_FILE, "%s: tensor '%s'", file->path, name ? name : "");
  const size_t count = (size_t)gconv_tensor_elements(&made), in_byte = (size_t)gconv_narrow_in_byte(from->type);
  const size_t stored = in_byte > 0 ? (count + in_byte - 1) / in_byte : count;
  GCONV_FREED uint8_t *bytes = NULL; /* of narrow numbers */
  if (in_byte > 0)
    kept.type = GCONV_ONNX_UINT8;
  GCONV_TRY(gconv_onnx_tensor_check(file, &kept, stored));
  GCONV_TRY(check_external(file, &kept, name ? name : "", stored));
  if (in_byte > 0) {
    bytes = malloc(stored + 1);
    GCONV_NEED_MEMORY(bytes, "%s: no memory for a tensor", file->path);
  }
  GCONV_TRY(gconv_allocate(count * gconv_tensor_type_bytes(made.type), "a tensor of a model", &made.data));
  const gconv_status status = gconv_onnx_tensor_elements(file, &kept, stored, in_byte > 0 ? bytes : made.data);
  if (status == GCONV_OK && in_byte > 0)
    gconv_narrow_unpack(from->type, bytes, count, made.data);
  for (size_t i = 0; status == GCONV_OK && made.type == GCONV_TENSOR_BOOL && i < count; i++)
    ((uint8_t *)made.data)[i] = ((const uint8_t *)made.data)[i] != 0;
  if (status == GCONV_OK)
    *tensor = made;
  else
    gconv_release(made.data);
  return status;
}

gconv_status gconv_node_attribute_tensor(const gconv_onnx_node *node, const char *name, gconv_tensor *tensor) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(node, name);
  *tensor = (gconv_tensor){.type = GCONV_TENSOR_F32};
  return a && a->tensor.name ? gconv_tensor_of_onnx(node->file, &a->tensor, tensor) : GCONV_OK;
}

/* ---- Attributes ---- */

gconv_status gconv_node_attribute_list(const gconv_onnx_node *node, const char *name, int64_t least, int64_t most,
                                       gconv_node_integers *list, bool *given) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(node, name);
  const size_t room = sizeof list->number / sizeof *list->number;
  *list = (gconv_node_integers){{0}, 0};
  if (given)
    *given = a != NULL;
  if (a && a->integers.count > room)
    return gconv_fail(GCONV_UNSUPPORTED, "has %zu numbers in its attribute '%s': %zu are the most", a->integers.count, name,
                      room);
  for (size_t i = 0; a && i < a->integers.count; i++) {
    const int64_t number = a->integers.numbers[i];
    if (number < least || number > most)
      return gconv_fail(GCONV_BAD_FILE, "has %" PRId64 " in its attribute '%s', not %" PRId64 " to %" PRId64, number, name,
                        least, most);
    list->number[list->count++] = number;
  }
  return GCONV_OK;
}

gconv_status gconv_node_attribute_choice(const gconv_onnx_node *node, const char *name, const char *const *texts,
                                         int32_t *choice) {
  const gconv_onnx_attribute *a = gconv_onnx_find_attribute(node, name);
  for (int32_t i = 0; a && texts[i]; i++)
    if (a->text && strcmp(a->text, texts[i]) == 0) {
      *choice = i;
      return GCONV_OK;
    }
  return a ? gconv_fail(GCONV_UNSUPPORTED, "has the %s '%.40s', which is not computed here", name, a->text ? a->text : "")
           : GCONV_OK;
}

gconv_status gconv_node_attribute_auto_pad(const gconv_onnx_node *node, gconv_auto_pad *padding) {
  static const char *const texts[] = {[GCONV_AUTO_PAD_NOTSET] = "NOTSET",
                                      [GCONV_AUTO_PAD_SAME_UPPER] = "SAME_UPPER",
                                      [GCONV_AUTO_PAD_SAME_LOWER] = "SAME_LOWER",
                                      [GCONV_AUTO_PAD_VALID] = "VALID",
                                      NULL};
  int32_t choice = GCONV_AUTO_PAD_NOTSET;
  GCONV_TRY(gconv_node_attribute_choice(node, "auto_pad", texts, &choice));
  *padding = (gconv_auto_pad)choice;
  return GCONV_OK;
}

gconv_status gconv_node_attribute_border(const gconv_onnx_node *node, gconv_border *border) {
  static const char *const modes[] = {"constant", "reflect", "edge", "wrap", NULL};
  static const gconv_border borders[] = {GCONV_BORDER_CONSTANT, GCONV_BORDER_REFLECT101, GCONV_BORDER_REPLICATE,
                                         GCONV_BORDER_WRAP};
  int32_t choice = 0;
  GCONV_TRY(gconv_node_attribute_choice(node, "mode", modes, &choice));
  *border = borders[choice];
  return GCONV_OK;
}
