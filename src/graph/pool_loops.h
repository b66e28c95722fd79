/* SPDX-License-Identifier: MIT */
/* Loops of pooling whose elements have the type NUMBER; LOWEST is the smallest. kind_pool.c includes this file for each
 * type; NAME() makes the names of its functions. The file undefines these macros at its end. v != v finds NaN; it is never
 * true for integers. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wtautological-compare"
#endif

/* Replaces outputs by every second number of a row where it is larger, or NaN. */
VECTOR_LOOP(NAME(larger_by_2), (const NUMBER *restrict from, NUMBER *restrict out, int64_t count), (from, out, count)) {
  for (int64_t x = 0; x < count; x++)
    out[x] = from[2 * x] > out[x] || from[2 * x] != from[2 * x] ? from[2 * x] : out[x];
}

/* Takes one tap of all windows of a row. */
static void NAME(take_tap)(const pool *p, const NUMBER *row, int64_t k, NUMBER *restrict out) {
  const span *d = &p->d[2];
  int64_t begin, end;
  outputs_of_tap(d, k, &begin, &end);
  const NUMBER *restrict from = row + k * d->dilation - d->before;
  const int64_t stride = d->stride;
  if (p->member == LARGEST && stride == 2)
    NAME(larger_by_2)(from + begin * 2, out + begin, end - begin);
  else if (p->member == LARGEST)
    for (int64_t x = begin; x < end; x++) {
      const NUMBER v = from[x * stride];
      out[x] = v > out[x] || v != v ? v : out[x];
    }
  else if (p->member == AVERAGE)
    for (int64_t x = begin; x < end; x++)
      out[x] += from[x * stride];
  else
    for (int64_t x = begin; x < end; x++)
      out[x] += (NUMBER)powered((double)from[x * stride], p->power);
}

/* Makes rows begin .. end - 1 of all rows of the output. */
static void NAME(pool_rows)(void *context, int64_t begin, int64_t end) {
  const pool *p = context;
  const span *deep = &p->d[0], *high = &p->d[1], *wide = &p->d[2];
  for (int64_t line = begin; line < end; line++) {
    const int64_t y = line % high->out, z = line / high->out % deep->out, plane = line / high->out / deep->out;
    NUMBER *out = (NUMBER *)p->out + line * wide->out;
    for (int64_t x = 0; x < wide->out; x++)
      out[x] = p->member == LARGEST ? LOWEST : 0;
    for (int64_t i = 0; i < deep->kernel; i++)
      for (int64_t j = 0; j < high->kernel; j++) {
        const int64_t from_z = z * deep->stride - deep->before + i * deep->dilation;
        const int64_t from_y = y * high->stride - high->before + j * high->dilation;
        if (from_z < 0 || from_z >= deep->in || from_y < 0 || from_y >= high->in)
          continue;
        const NUMBER *row = (const NUMBER *)p->in + ((plane * deep->in + from_z) * high->in + from_y) * wide->in;
        for (int64_t k = 0; k < wide->kernel; k++)
          NAME(take_tap)(p, row, k, out);
      }
    const int64_t rows =
        gconv_gpu_taps_inside(deep, z, p->counts_padding) * gconv_gpu_taps_inside(high, y, p->counts_padding);
    for (int64_t x = 0; p->member == AVERAGE && x < wide->out; x++)
      out[x] /= (NUMBER)(rows * gconv_gpu_taps_inside(wide, x, p->counts_padding));
    for (int64_t x = 0; p->member == POWERS && x < wide->out; x++)
      out[x] = (NUMBER)rooted((double)out[x], p->power);
  }
}

/* Finds the places of the largest values in planes begin .. end - 1. */
static void NAME(find_places)(void *context, int64_t begin, int64_t end) {
  const pool *p = context;
  const span *d = p->d;
  const int64_t size = d[0].in * d[1].in * d[2].in, outs = d[0].out * d[1].out * d[2].out;
  for (int64_t i = begin * outs; i < end * outs; i++) {
    const int64_t out[DIMENSIONS] = {i / d[2].out / d[1].out % d[0].out, i / d[2].out % d[1].out, i % d[2].out};
    const NUMBER *plane = (const NUMBER *)p->in + i / outs * size;
    int64_t best = -1;
    for (int64_t tap = 0; tap < d[0].kernel * d[1].kernel * d[2].kernel; tap++) {
      const int64_t at = place_of_tap(d, out, tap, false);
      if (at >= 0 && (best < 0 || plane[at] > plane[place_of_tap(d, out, best, false)]))
        best = tap;
    }
    p->places[i] = best < 0 ? -1 : i / outs * size + place_of_tap(d, out, best, p->by_columns);
  }
}

static void NAME(pool_planes)(void *context, int64_t begin, int64_t end) {
  const pool *p = context;
  for (int64_t i = begin; i < end; i++) {
    const NUMBER *in = (const NUMBER *)p->in + i * p->plane;
    NUMBER largest = LOWEST;
    double sum = 0;
    for (int64_t k = 0; p->member == LARGEST && k < p->plane; k++)
      largest = in[k] > largest || in[k] != in[k] ? in[k] : largest;
    for (int64_t k = 0; p->member != LARGEST && k < p->plane; k++)
      sum += p->member == POWERS ? powered((double)in[k], p->power) : (double)in[k];
    ((NUMBER *)p->out)[i] = p->member == LARGEST  ? largest
                            : p->member == POWERS ? (NUMBER)rooted(sum, p->power)
                                                  : (NUMBER)(sum / (double)p->plane);
  }
}

#undef NAME
#undef NUMBER
#undef LOWEST
