/* SPDX-License-Identifier: MIT */
/* Nodes of kind_elementwise.c on a GPU: each becomes an operation, or a chain of them, of kernels/cuda/graph. */
#include "graph/elementwise.h"
#include "graph/move.h"
#include "graph/tail.h"
#include "kernels/cuda/graph/graph.h"

#include <string.h>

typedef gconv_elementwise_settings settings;

/* A chain without operations. */
static gconv_gpu_elements begin(const gconv_node_work *work, const gconv_tensor *out) {
  gconv_gpu_elements job = {.axes = out->axes, .out = out->there, .type = work->in[work->in_count - 1]->type};
  job.out_type = out->type;
  memcpy(job.size, out->shape, sizeof job.size);
  if (job.axes == 0)
    job.size[job.axes++] = 1;
  return job;
}

/* Appends an operation with `count` operands. Operand number `chained` is the result so far; -1: none is. */
static gconv_gpu_operation *append(const gconv_node_work *work, int32_t code, int32_t count, int32_t chained,
                                   gconv_gpu_elements *job) {
  const settings *s = work->settings;
  gconv_gpu_operation *operation = &job->chain[job->length++];
  *operation = (gconv_gpu_operation){.code = code,
                                     .alpha = s->alpha,
                                     .beta = s->beta,
                                     .low = s->low,
                                     .high = s->high,
                                     .approximate = s->approximate,
                                     .remainder = s->remainder,
                                     .count = count,
                                     .chained = chained};
  return operation;
}

static void set_operand(const gconv_tensor *tensor, const gconv_tensor *out, gconv_gpu_operand *operand) {
  operand->data = tensor->there;
  gconv_node_steps(tensor, out, operand->step);
}

/* One operation of up to three inputs. */
static gconv_status launch(const gconv_node_work *work, const gconv_tensor *const *inputs, int32_t count, int32_t code) {
  gconv_gpu_elements job = begin(work, work->out[0]);
  gconv_gpu_operation *operation = append(work, code, count, -1, &job);
  for (int32_t i = 0; i < count; i++)
    set_operand(inputs[i], work->out[0], &operation->operand[i]);
  gconv_tail_append(work, &job);
  return gconv_gpu_elements_run(&job, work->stream);
}

static gconv_status check_divisor(const gconv_node_work *work, const gconv_node_kind *kind) {
  if (gconv_tensor_type_is_real(work->in[0]->type) || (kind->code != DIV && kind->code != MOD))
    return GCONV_OK;
  if (!work->in[1]->data)
    return gconv_fail(GCONV_UNSUPPORTED, "divides integers by what depends on the pixels of the image, which GPUs do not");
  return gconv_elementwise_has_zero(work->in[1]) ? gconv_fail(GCONV_BAD_FILE, "divides integers by 0") : GCONV_OK;
}

gconv_status gconv_elementwise_cuda(const gconv_node_work *work, const gconv_node_kind *kind) {
  GCONV_TRY(check_divisor(work, kind));
  return launch(work, work->in, work->in_count, kind->code);
}

gconv_status gconv_elementwise_cuda_pow(const gconv_node_work *work, const gconv_node_kind *kind) {
  GCONV_TRY(gconv_node_need_type(work, 1, work->in[0]->type));
  return gconv_elementwise_cuda(work, kind);
}

gconv_status gconv_elementwise_cuda_old(const gconv_node_work *work, const gconv_node_kind *kind) {
  gconv_tensor aligned;
  GCONV_TRY(gconv_elementwise_align_old(work, kind, &aligned));
  const gconv_tensor *pair[2] = {work->in[0], &aligned};
  GCONV_TRY(check_divisor(work, kind));
  return launch(work, pair, 2, kind->code);
}

gconv_status gconv_elementwise_cuda_many(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *pair[2] = {work->in[0], work->in[0]};
  if (work->in_count == 1) {
    gconv_move all = {0};
    gconv_move_add(&all, gconv_tensor_elements(work->in[0]), 1, 1);
    return gconv_move_run(work, &all, gconv_tensor_type_bytes(work->in[0]->type), work->in[0]->there, work->out[0]->there);
  }
  for (int32_t i = 1; i < work->in_count; i++) {
    pair[1] = work->in[i];
    GCONV_TRY(launch(work, pair, 2, kind->code));
    pair[0] = work->out[0];
  }
  return GCONV_OK;
}

gconv_status gconv_elementwise_cuda_mean(const gconv_node_work *work, const gconv_node_kind *kind) {
  GCONV_TRY(gconv_node_need_type(work, 0, GCONV_TENSOR_F32));
  GCONV_TRY(gconv_elementwise_cuda_many(work, kind));
  gconv_gpu_elements job = begin(work, work->out[0]);
  gconv_gpu_operation *divide = append(work, DIV, 2, -1, &job);
  set_operand(work->out[0], work->out[0], &divide->operand[0]);
  divide->operand[1].number = (float)work->in_count;
  return gconv_gpu_elements_run(&job, work->stream);
}

/* Constant float bounds become settings of one operation. With other bounds, Clip is computed as Max, then Min. */
gconv_status gconv_elementwise_cuda_clip(const gconv_node_work *work, const gconv_node_kind *kind) {
  const gconv_tensor *low = work->in_count > 1 ? work->in[1] : NULL, *high = work->in_count > 2 ? work->in[2] : NULL;
  const gconv_tensor *pair[2] = {work->in[0], NULL};
  if (work->in[0]->type == GCONV_TENSOR_F32 && (!low || low->data) && (!high || high->data)) {
    gconv_gpu_elements job = begin(work, work->out[0]);
    gconv_gpu_operation *clip = append(work, kind->code, 1, -1, &job);
    set_operand(work->in[0], work->out[0], &clip->operand[0]);
    clip->low = low ? *(const float *)low->data : clip->low;
    clip->high = high ? *(const float *)high->data : clip->high;
    return gconv_gpu_elements_run(&job, work->stream);
  }
  for (int32_t i = 0; i < 2; i++) {
    pair[1] = i == 0 ? low : high;
    if (!pair[1])
      continue;
    GCONV_TRY(launch(work, pair, 2, i == 0 ? MAX : MIN));
    pair[0] = work->out[0];
  }
  return pair[0] == work->out[0]
             ? GCONV_OK
             : gconv_elementwise_cuda_many(
                   &(gconv_node_work){.in = work->in, .in_count = 1, .out = work->out, .stream = work->stream}, kind);
}
