/* SPDX-License-Identifier: MIT */
/* Convolutions by definition, of elements of the type NUMBER. plain_conv.c includes this file for each type; NAME() makes
 * the names of its functions. */

/* Makes rows begin .. end - 1 of all rows of the output: one chain of sums for each output, in the order of the taps. */
static void NAME(make_rows)(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const gconv_layer_problem *p = j->problem;
  const int64_t channels = p->channels / p->groups, taps = (int64_t)p->rows * p->columns,
                plane = (int64_t)p->height * p->width;
  for (int64_t line = begin; line < end; line++) {
    const int64_t y = line % p->out_height, k = line / p->out_height % p->filters, n = line / p->out_height / p->filters;
    const int64_t first = k / (p->filters / p->groups) * channels;
    const NUMBER *w = (const NUMBER *)j->weights + k * channels * taps;
    NUMBER *out = (NUMBER *)j->out + line * p->out_width;
    for (int64_t x = 0; x < p->out_width; x++)
      out[x] = j->biases ? ((const NUMBER *)j->biases)[k] : 0;
    for (int64_t c = 0; c < channels; c++)
      for (int64_t r = 0; r < p->rows; r++) {
        const int64_t from = y * p->stride_y - p->pad_top + r * p->dilation_y;
        if (from < 0 || from >= p->height)
          continue;
        const NUMBER *row = (const NUMBER *)j->in + (n * p->channels + first + c) * plane + from * p->width;
        for (int64_t s = 0; s < p->columns; s++) {
          const span inside = outputs_of_tap(p, s);
          if (inside.count > 0)
            NAME(add_tap)
          (row + inside.input, p->stride_x, w[(c * p->rows + r) * p->columns + s], inside.count, out + inside.first);
        }
      }
  }
}

#undef NAME
#undef NUMBER
