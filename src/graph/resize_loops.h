/* SPDX-License-Identifier: MIT */
/* Loops of Resize whose elements have the type NUMBER, and whose taps have weights of the type WEIGHT. kind_resize.c
 * includes this file for each type; NAME() makes the names of its functions. The file undefines these macros at its end.
 * Integers have one tap, so they are only moved. */

/* Makes neighbours along the last axis. */
static void NAME(resize_line)(const job *j, const NUMBER *in, NUMBER *out) {
  const taps *t = j->taps;
  const WEIGHT *weight = t->weights;
  if (t->count == 1) {
    for (int64_t o = 0; o < j->out_size; o++)
      out[o] = in[t->index[o]];
    return;
  }
  for (int64_t o = 0; o < j->out_size; o++) {
    NUMBER sum = 0;
    for (int64_t k = 0; k < t->count; k++)
      sum += (NUMBER)(in[t->index[o * t->count + k]] * weight[o * t->count + k]);
    out[o] = sum;
  }
}

/* Makes the `inner` neighbours of element `o` of the axis. */
static void NAME(mix_rows)(const job *j, const NUMBER *in, int64_t o, NUMBER *restrict out) {
  const taps *t = j->taps;
  const int64_t *index = t->index + o * t->count;
  const WEIGHT *weight = (const WEIGHT *)t->weights + o * t->count;
  if (t->count == 1) {
    memcpy(out, in + index[0] * j->inner, (size_t)j->inner * sizeof *out);
    return;
  }
  const NUMBER *restrict first = in + index[0] * j->inner;
  for (int64_t i = 0; i < j->inner; i++)
    out[i] = (NUMBER)(first[i] * weight[0]);
  for (int64_t k = 1; k < t->count; k++) {
    const NUMBER *restrict from = in + index[k] * j->inner;
    const WEIGHT w = weight[k];
    for (int64_t i = 0; i < j->inner; i++)
      out[i] += (NUMBER)(from[i] * w);
  }
}

static void NAME(resize_part)(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  for (int64_t part = begin; part < end; part++)
    if (j->inner == 1)
      NAME(resize_line)(j, (const NUMBER *)j->in + part * j->in_size, (NUMBER *)j->out + part * j->out_size);
    else
      NAME(mix_rows)
  (j, (const NUMBER *)j->in + part / j->out_size * j->in_size * j->inner, part % j->out_size,
   (NUMBER *)j->out + part * j->inner);
}

/* Sets outputs of tf_crop_and_resize that lie outside along an axis. */
static void NAME(fill_outside)(const gconv_tensor *out, int32_t axis, const taps *t, float value) {
  const int64_t inner = gconv_tensor_count(out, axis + 1, out->axes), outer = gconv_tensor_count(out, 0, axis);
  NUMBER *data = out->data;
  for (int64_t i = 0; i < outer * out->shape[axis]; i++)
    for (int64_t k = 0; t->outside[i % out->shape[axis]] && k < inner; k++)
      data[i * inner + k] = (NUMBER)value;
}

#undef NAME
#undef NUMBER
#undef WEIGHT
