/* SPDX-License-Identifier: MIT */
#include "graph/tail.h"

#include <math.h>
#include <string.h>

enum { PIECE = 1024 }; /* floats that go through all steps at a time: 4 KiB */

/* ---- Runs ---- */

/* Fills `to` with repetitions of the numbers of a block of channels. `there` channels exist; the others get 0. */
static void repeat_channels(const float *numbers, int64_t there, int64_t count, float *to) {
  float block[GCONV_BLOCK] = {0};
  memcpy(block, numbers, (size_t)(there < GCONV_BLOCK ? there : GCONV_BLOCK) * sizeof *block);
  for (int64_t i = 0; i < count; i += GCONV_BLOCK)
    memcpy(to + i, block, sizeof block);
}

/* Computes `count` outputs from number `first` on, which are of channel `channel` or, in blocks, of the block that begins
 * with this channel. */
static void run_steps(const gconv_tail *tail, float *values, int64_t first, int64_t channel, int64_t count) {
  float kept[PIECE], repeated[GCONV_LOOP_INPUTS][PIECE];
  for (int32_t i = 0; i < tail->count; i++) {
    const gconv_tail_step *s = &tail->steps[i];
    const void *in[GCONV_LOOP_INPUTS] = {NULL};
    int64_t step[GCONV_LOOP_INPUTS] = {0};
    if (s->keeps)
      memcpy(kept, values, (size_t)count * sizeof *values);
    for (int32_t k = 0; k < s->inputs; k++) {
      const float *elements = s->tensor[k] ? s->tensor[k]->data : NULL;
      switch (s->source[k]) {
      case GCONV_TAIL_VALUE:
        in[k] = values;
        step[k] = 1;
        break;
      case GCONV_TAIL_KEPT:
        in[k] = kept;
        step[k] = 1;
        break;
      case GCONV_TAIL_NUMBER:
        in[k] = elements;
        break;
      case GCONV_TAIL_CHANNEL:
        in[k] = elements + channel;
        step[k] = tail->plane == 1;
        if (tail->blocks) {
          repeat_channels(elements + channel, tail->channels - channel, count, repeated[k]);
          in[k] = repeated[k];
          step[k] = 1;
        }
        break;
      case GCONV_TAIL_TENSOR:
        in[k] = elements + first;
        step[k] = 1;
        break;
      }
    }
    s->loop(in, step, values, count, &s->settings);
  }
}

/* Computes pieces within a block of channels. */
static void apply_to_blocks(const gconv_tail *tail, float *values, int64_t count) {
  const gconv_layer_tail *layer = &tail->layer;
  const int64_t blocks = gconv_layer_image_floats(tail->channels, 1, true) / GCONV_BLOCK, block = tail->plane * GCONV_BLOCK;
  for (int64_t first = values - layer->out, end = first + count; first < end;) {
    int64_t piece = block - first % block;
    piece = piece < end - first ? piece : end - first;
    piece = piece < PIECE ? piece : PIECE;
    run_steps(tail, values, first, first / block % blocks * GCONV_BLOCK, piece);
    values += piece;
    first += piece;
  }
}

/* Computes pieces within a channel or, if a channel is one pixel, pieces of several channels. */
static void apply(const gconv_layer_tail *layer, float *values, size_t count) {
  const gconv_tail *tail = (const gconv_tail *)(const void *)layer; /* its first member */
  if (tail->blocks) {
    apply_to_blocks(tail, values, (int64_t)count);
    return;
  }
  for (int64_t first = values - layer->out, end = first + (int64_t)count; first < end;) {
    const int64_t channel = first / tail->plane % tail->channels;
    int64_t piece = tail->plane > 1 ? tail->plane - first % tail->plane : tail->channels - channel;
    piece = piece < end - first ? piece : end - first;
    piece = piece < PIECE ? piece : PIECE;
    run_steps(tail, values, first, channel, piece);
    values += piece;
    first += piece;
  }
}

void gconv_tail_begin(gconv_tail *tail, const gconv_tensor *out) {
  tail->layer.apply = apply;
  tail->channels = out->shape[1];
  tail->plane = gconv_tensor_count(out, 2, out->axes);
}

/* ---- On a GPU ---- */

/* Only the first operation of a chain on a GPU can read the outputs from memory, and so take them twice. */
bool gconv_tail_suits_gpu(const gconv_tail *tail, bool in_memory) {
  const gconv_tail_step *last = &tail->steps[tail->count - 1];
  int32_t values = 0;
  for (int32_t k = 0; k < last->inputs; k++)
    values += last->source[k] == GCONV_TAIL_VALUE;
  return last->code != WHERE && (values == 1 || (in_memory && tail->count == 1));
}

/* Returns whether a step is this operation of the outputs and a constant number. */
static bool is_with_number(const gconv_tail_step *s, gconv_elementwise operation) {
  return s->code == (int32_t)operation && s->source[0] == GCONV_TAIL_VALUE && s->source[1] == GCONV_TAIL_NUMBER &&
         s->tensor[1]->data;
}

/* Returns whether a step multiplies the outputs so far by the kept outputs. */
static bool is_times_kept(const gconv_tail_step *s) {
  return s->code == MUL && s->source[0] != s->source[1] &&
         (s->source[0] == GCONV_TAIL_KEPT || s->source[1] == GCONV_TAIL_KEPT);
}

/* Returns whether four steps are a hard swish: y + 3, clamped, times y, divided by 6. */
static bool is_swish(const gconv_tail_step *s) {
  return s[0].keeps && is_with_number(&s[0], ADD) && s[1].code == CLIP && is_times_kept(&s[2]) && is_with_number(&s[3], DIV);
}

/* Sets the operand k of a step of a short tail. */
static bool set_operand(const gconv_tail_step *s, int32_t k, gconv_gpu_tail_step *to) {
  const gconv_tensor *from = s->tensor[k];
  if (s->source[k] == GCONV_TAIL_NUMBER && from->data) {
    to->alpha = *(const float *)from->data;
    return true;
  }
  to->operand = from->there;
  to->of_filters = s->source[k] == GCONV_TAIL_CHANNEL;
  return to->of_filters || s->source[k] == GCONV_TAIL_TENSOR;
}

bool gconv_tail_shorten(const gconv_tail *tail, gconv_gpu_tail *to) {
  *to = (gconv_gpu_tail){0};
  for (int32_t i = 0; i < tail->count; i++) {
    const gconv_tail_step *s = &tail->steps[i];
    gconv_gpu_tail_step *o = &to->step[to->length];
    if (to->length++ == GCONV_GPU_TAIL)
      return false;
    *o = (gconv_gpu_tail_step){s->code, s->settings.alpha, s->settings.beta, s->settings.low, s->settings.high, NULL, false};
    if (i + 3 < tail->count && is_swish(s)) {
      o->code = GCONV_GPU_TAIL_SWISH;
      o->alpha = *(const float *)s->tensor[1]->data;
      o->beta = *(const float *)s[3].tensor[1]->data;
      o->low = (float)s[1].settings.low;
      o->high = (float)s[1].settings.high;
      i += 3;
      continue;
    }
    if (i + 1 < tail->count && s->keeps && s->code == SIGMOID && is_times_kept(&s[1])) { /* SiLU */
      *o = (gconv_gpu_tail_step){.code = SWISH, .alpha = 1};
      i++;
      continue;
    }
    const int32_t value = s->source[0] == GCONV_TAIL_VALUE ? 0 : 1;
    if (s->keeps || s->source[value] != GCONV_TAIL_VALUE)
      return false;
    switch ((gconv_elementwise)s->code) {
    case RELU:
    case LEAKY:
    case CLIP:
    case SIGMOID:
    case SWISH:
    case HARD_SIGMOID:
    case HARD_SWISH:
      break;
    case ADD:
    case MUL:
      if (!set_operand(s, 1 - value, o))
        return false;
      break;
    case PRELU:
      if (value != 0 || !set_operand(s, 1, o))
        return false;
      break;
    default:
      return false;
    }
  }
  return true;
}

gconv_layer_tails gconv_tail_of_gpu(const gconv_node_fused *fused) {
  const gconv_tail_step *first = fused->tail ? fused->tail->steps : NULL;
  if (!first)
    return GCONV_TAILS_NONE;
  gconv_gpu_tail shortened;
  if (!gconv_tail_shorten(fused->tail, &shortened))
    return GCONV_TAILS_ALL;
  return shortened.length == 1 && first->code == PRELU && first->source[1] == GCONV_TAIL_CHANNEL &&
                 fused->activation == GCONV_ACTIVATION_NONE
             ? GCONV_TAILS_SLOPES
             : GCONV_TAILS_SHORT;
}

static gconv_gpu_operation operation_of(const gconv_tail_step *s, bool first, const gconv_tensor *out) {
  gconv_gpu_operation o = {.code = s->code,
                           .alpha = s->settings.alpha,
                           .beta = s->settings.beta,
                           .low = s->settings.low,
                           .high = s->settings.high,
                           .approximate = s->settings.approximate,
                           .remainder = s->settings.remainder,
                           .count = s->inputs,
                           .chained = -1};
  for (int32_t k = 0; k < s->inputs; k++) {
    const bool own = s->source[k] == GCONV_TAIL_VALUE || s->source[k] == GCONV_TAIL_KEPT;
    const gconv_tensor *from = own ? out : s->tensor[k];
    if (s->source[k] == GCONV_TAIL_VALUE && !first) {
      o.chained = k;
    } else if (s->source[k] == GCONV_TAIL_NUMBER && from->data) {
      o.operand[k].number = *(const float *)from->data;
    } else {
      o.operand[k].data = from->there;
      gconv_node_steps(from, out, o.operand[k].step);
    }
  }
  return o;
}

void gconv_tail_append(const gconv_node_work *work, gconv_gpu_elements *job) {
  const gconv_tail *tail = work->fused.tail;
  for (int32_t i = 0; tail && i < tail->count; i++, job->length++)
    job->chain[job->length] = operation_of(&tail->steps[i], job->length == 0, work->out[0]);
}

gconv_gpu_elements gconv_tail_gpu_job(const gconv_node_work *work) {
  const gconv_tensor *out = work->out[0];
  gconv_gpu_elements job = {.axes = out->axes, .out = out->there, .type = 1, .out_type = 1};
  memcpy(job.size, out->shape, sizeof job.size);
  gconv_tail_append(work, &job);
  return job;
}

/* ---- Plans ---- */

/* Whether a tensor has one number for each channel, axis 1 of `out`. */
static bool is_of_channels(const gconv_tensor *t, const gconv_tensor *out) {
  const int32_t channel_axis = t->axes - (out->axes - 1);
  for (int32_t i = 0; i < t->axes; i++)
    if (t->shape[i] != (i == channel_axis ? out->shape[1] : 1))
      return false;
  return channel_axis >= 0;
}

static bool is_like(const gconv_tensor *t, const gconv_tensor *out) {
  return t->axes == out->axes && memcmp(t->shape, out->shape, (size_t)t->axes * sizeof *t->shape) == 0;
}

/* Finds where input k of `next` comes from. If another node makes it, *added becomes the number of that value. */
static bool find_source(const gconv_graph_step *next, int32_t k, int32_t value, int32_t kept, const bool *ready,
                        gconv_tail_step *s, int32_t *added) {
  const gconv_tensor *t = next->work.in[k], *out = next->work.out[0];
  const int32_t number = next->in[k];
  s->tensor[k] = t;
  if (number >= 0 && (number == value || number == kept)) {
    s->source[k] = number == value ? GCONV_TAIL_VALUE : GCONV_TAIL_KEPT;
    return true;
  }
  if (!t || t->type != GCONV_TENSOR_F32)
    return false;
  s->source[k] = gconv_tensor_elements(t) == 1 ? GCONV_TAIL_NUMBER
                 : is_of_channels(t, out)      ? GCONV_TAIL_CHANNEL
                                               : GCONV_TAIL_TENSOR;
  if (s->source[k] == GCONV_TAIL_TENSOR && !is_like(t, out))
    return false;
  if (t->data)
    return true;
  if (number < 0 || !ready[number] || (*added >= 0 && *added != number))
    return false;
  *added = number;
  return true;
}

bool gconv_tail_add(gconv_graph_step *step, const gconv_graph_step *next, int32_t value, int32_t kept, const bool *ready) {
  const gconv_node_kind *kind = next->node->kind;
  const gconv_tensor *out = next->work.out[0];
  gconv_tail *tail = step->work.fused.tail;
  gconv_tail_step s = {.code = kind->code, .inputs = next->work.in_count};
  int32_t added = step->added;
  if (tail->count == GCONV_TAIL_STEPS || !kind->element || out->type != GCONV_TENSOR_F32 || next->work.out_count != 1 ||
      !kind->element(&next->work, kind, &s.loop, &s.settings, &s.inputs) || s.inputs > GCONV_LOOP_INPUTS)
    return false;
  for (int32_t k = 0; k < s.inputs; k++)
    if (!find_source(next, k, value, kept, ready, &s, &added))
      return false;
  step->added = added;
  tail->steps[tail->count++] = s;
  return true;
}

static void join(gconv_tail *tail) {
  gconv_tail_step *s = &tail->steps[tail->count < 4 ? 0 : tail->count - 4];
  if (tail->count < 4 || !is_swish(s))
    return;
  const gconv_elementwise_settings settings = {.alpha = *(const float *)s[0].tensor[1]->data,
                                               .beta = *(const float *)s[3].tensor[1]->data,
                                               .low = s[1].settings.low,
                                               .high = s[1].settings.high};
  *s = (gconv_tail_step){.loop = gconv_elementwise_swish_by_steps, .settings = settings, .inputs = 1};
  tail->count -= 3;
}

/* Returns which input of an addition of two tensors is not the outputs so far; -1 if the step is no such addition. */
static int32_t find_added(const gconv_tail_step *s) {
  if (s->loop != gconv_elementwise_loop(ADD, GCONV_TENSOR_F32) || s->source[0] == s->source[1])
    return -1;
  return s->source[0] == GCONV_TAIL_TENSOR && s->source[1] == GCONV_TAIL_VALUE   ? 0
         : s->source[0] == GCONV_TAIL_VALUE && s->source[1] == GCONV_TAIL_TENSOR ? 1
                                                                                 : -1;
}

void gconv_tail_end(gconv_tail *tail) {
  join(tail);
  const bool adds = find_added(&tail->steps[0]) >= 0;
  const gconv_tail_step *last = &tail->steps[adds];
  const bool relu = last->loop == gconv_elementwise_loop(RELU, GCONV_TENSOR_F32),
             clip = last->loop == gconv_elementwise_loop(CLIP, GCONV_TENSOR_F32),
             simple =
                 tail->count == adds || (tail->count == adds + 1 && last->source[0] == GCONV_TAIL_VALUE && (relu || clip));
  tail->layer.adds = simple && adds;
  tail->layer.clamps = simple && !adds;
  tail->layer.low = tail->count == adds ? -INFINITY : relu ? 0 : last->settings.low;
  tail->layer.high = tail->count == adds || relu ? INFINITY : last->settings.high;
}

void gconv_tail_set_out(gconv_tail *tail, const float *out) {
  tail->layer.out = out;
  if (tail->layer.adds)
    tail->layer.added = tail->steps[0].tensor[find_added(&tail->steps[0])]->data;
}

bool gconv_tail_takes_blocks(const gconv_tail *tail) {
  for (int32_t i = 0; tail && i < tail->count; i++)
    for (int32_t k = 0; k < tail->steps[i].inputs; k++)
      if (tail->steps[i].source[k] == GCONV_TAIL_TENSOR && tail->steps[i].tensor[k]->data)
        return false; /* a constant image, in rows */
  return true;
}

bool gconv_tail_same(const gconv_tail *a, const gconv_tail *b) {
  if (!a || !b)
    return a == b;
  bool same = a->count == b->count;
  for (int32_t i = 0; i < a->count && same; i++)
    for (int32_t k = 0; k < a->steps[i].inputs && same; k++) {
      const gconv_tensor *x = a->steps[i].tensor[k], *y = b->steps[i].tensor[k];
      const bool number = a->steps[i].source[k] == GCONV_TAIL_NUMBER || a->steps[i].source[k] == GCONV_TAIL_CHANNEL;
      same =
          a->steps[i].source[k] == b->steps[i].source[k] && a->steps[i].loop == b->steps[i].loop &&
          a->steps[i].settings.alpha == b->steps[i].settings.alpha && a->steps[i].settings.low == b->steps[i].settings.low &&
          a->steps[i].settings.beta == b->steps[i].settings.beta && a->steps[i].settings.high == b->steps[i].settings.high;
      if (same && number && x->data && y->data)
        same = gconv_tensor_bytes(x) == gconv_tensor_bytes(y) && memcmp(x->data, y->data, gconv_tensor_bytes(x)) == 0;
      else if (same && x && y && x->data && y->data) /* a constant image: each tile would start at its first pixel */
        same = a->steps[i].source[k] != GCONV_TAIL_TENSOR;
    }
  return same;
}
