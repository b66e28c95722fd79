/* SPDX-License-Identifier: MIT */
/* Loops of normalisation whose elements have the type REAL. kind_normalize.c includes this file for each type; NAME() makes
 * the names of its functions. */

/* ---- Batches, instances, groups ---- */

static const REAL *NAME(floats)(const gconv_node_work *work, int32_t input) {
  return input < work->in_count && work->in[input] ? work->in[input]->data : NULL;
}

static void NAME(scale)(const REAL *restrict in, int64_t count, REAL mean, REAL factor, REAL bias, REAL *restrict out) {
  for (int64_t i = 0; i < count; i++)
    out[i] = (in[i] - mean) * factor + bias;
}

static void NAME(normalize_batch)(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  for (int64_t i = begin; i < end; i++) {
    const int64_t c = i % j->channels;
    const double factor =
        (double)NAME(floats)(j->work, 1)[c] / sqrt((double)NAME(floats)(j->work, 4)[c] + (double)j->s->epsilon);
    const double bias = (double)NAME(floats)(j->work, 2)[c] - (double)NAME(floats)(j->work, 3)[c] * factor;
    NAME(scale)((const REAL *)j->in + i * j->plane, j->plane, 0, (REAL)factor, (REAL)bias, (REAL *)j->out + i * j->plane);
  }
}

/* Sets the mean, and 1 / sqrt(variance + epsilon). The mean is that of differences to the first element, so that equal
 * numbers have no deviation. */
static void NAME(moments)(const REAL *in, int64_t count, float epsilon, double *mean, double *inverse) {
  enum { LANES = 8 };
  double sums[LANES] = {0}, squares[LANES] = {0}, sum = 0, square = 0;
  const double first = count > 0 ? (double)in[0] : 0;
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int l = 0; l < LANES; l++) {
      const double d = (double)in[i + l] - first;
      sums[l] += d;
      squares[l] += d * d;
    }
  for (; i < count; i++) {
    const double d = (double)in[i] - first;
    sums[0] += d;
    squares[0] += d * d;
  }
  for (int l = 0; l < LANES; l++) {
    sum += sums[l];
    square += squares[l];
  }
  const double shift = sum / (double)count, variance = square / (double)count - shift * shift;
  *mean = first + shift;
  *inverse = 1 / sqrt((variance > 0 || variance != variance ? variance : 0) + (double)epsilon);
}

/* Like moments(), from the known moments of `count` channels of a whole image. */
static void NAME(known_moments)(const gconv_plane_moments *known, int64_t count, float epsilon, double *mean,
                                double *inverse) {
  gconv_plane_moments all = known[0];
  for (int64_t i = 1; i < count; i++)
    gconv_plane_moments_join(&all, &known[i]);
  *mean = all.mean;
  *inverse = 1 / sqrt(all.squares / all.count + (double)epsilon);
}

/* Part i is a group of channels of an image. The mean is subtracted first: in * factor - mean * factor would round two large
 * numbers whose difference is small. `bias` has what the mean loses as a REAL. */
static void NAME(normalize_group)(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const int64_t groups = groups_on_cpu(j->work, j->member), each = j->channels / groups;
  for (int64_t i = begin; i < end; i++) {
    const REAL *in = (const REAL *)j->in + i * each * j->plane;
    double mean, inverse;
    if (j->work->moments)
      NAME(known_moments)(j->work->moments + i * each, each, j->s->epsilon, &mean, &inverse);
    else
      NAME(moments)(in, each * j->plane, j->s->epsilon, &mean, &inverse);
    for (int64_t k = 0; k < each; k++) {
      const int64_t c = j->member == GROUP && j->s->opset >= 21 ? i % groups * each + k : i % groups;
      const double factor = (double)NAME(floats)(j->work, 1)[c] * inverse;
      const double bias = (double)NAME(floats)(j->work, 2)[c] - (mean - (double)(REAL)mean) * factor;
      NAME(scale)
      (in + k * j->plane, j->plane, (REAL)mean, (REAL)factor, (REAL)bias, (REAL *)j->out + (i * each + k) * j->plane);
    }
  }
}

/* ---- Layers: the elements from an axis on ---- */

static double NAME(root_of_mean_square)(const REAL *in, int64_t count, float epsilon) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++)
    sum += (double)in[i] * (double)in[i];
  return 1 / sqrt(sum / (double)count + (double)epsilon);
}

static void NAME(normalize_layer)(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const REAL *factors = NAME(floats)(j->work, 1), *biases = NAME(floats)(j->work, 2);
  const bool plain_factors = factors && gconv_tensor_elements(j->work->in[1]) == j->plane && fits(j, 1);
  const bool plain_biases = biases && gconv_tensor_elements(j->work->in[2]) == j->plane && fits(j, 2);
  for (int64_t i = begin; i < end; i++) {
    const REAL *in = (const REAL *)j->in + i * j->plane;
    double mean = 0, inverse;
    if (j->member == RMS)
      inverse = NAME(root_of_mean_square)(in, j->plane, j->s->epsilon);
    else
      NAME(moments)(in, j->plane, j->s->epsilon, &mean, &inverse);
    for (int32_t k = 1; k < j->work->out_count; k++)
      if (j->work->out[k])
        ((REAL *)j->work->out[k]->data)[i] = (REAL)(k == 1 ? mean : inverse);
    for (int64_t k = 0; k < j->plane; k++) {
      const int64_t at = i * j->plane + k;
      const REAL factor = !factors ? 1 : factors[plain_factors ? k : place(j->work, 1, at)];
      const REAL bias = !biases ? 0 : biases[plain_biases ? k : place(j->work, 2, at)];
      ((REAL *)j->out)[at] = (REAL)(((double)in[k] - mean) * inverse) * factor + bias;
    }
  }
}

/* ---- Along an axis: softmax, Lp ---- */

static void NAME(softmax)(const job *j, const REAL *in, REAL *out) {
  const int64_t count = j->plane, inner = j->inner;
  REAL largest = -INFINITY;
  double sum = 0;
  int64_t place_of = 0;
  for (int64_t i = 0; i < count; i++) {
    if (in[i * inner] > largest)
      place_of = i;
    largest = in[i * inner] > largest || in[i * inner] != in[i * inner] ? in[i * inner] : largest;
  }
  for (int64_t i = 0; i < count && j->member != HARDMAX; i++) {
    const REAL e = exp(in[i * inner] - largest);
    sum += (double)e;
    out[i * inner] = j->member == SOFTMAX ? e : in[i * inner] - largest;
  }
  const REAL less = sum > 0 || sum != sum ? (REAL)log(sum) : -INFINITY;
  for (int64_t i = 0; i < count; i++)
    out[i * inner] = j->member == HARDMAX   ? (REAL)(i == place_of)
                     : j->member == SOFTMAX ? (REAL)((double)out[i * inner] / sum)
                                            : out[i * inner] - less;
}

static void NAME(divide_by_norm)(const job *j, const REAL *in, REAL *out) {
  double sum = 0;
  for (int64_t i = 0; i < j->plane; i++) {
    const double v = (double)in[i * j->inner];
    sum += j->s->power == 1 ? fabs(v) : v * v;
  }
  const double norm = j->s->power == 1 ? sum : sqrt(sum);
  for (int64_t i = 0; i < j->plane; i++)
    out[i * j->inner] = norm > 0 || norm != norm ? (REAL)((double)in[i * j->inner] / norm) : 0;
}

static void NAME(along_axis)(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = i / j->inner * j->inner * j->plane + i % j->inner;
    (j->member == LP ? NAME(divide_by_norm) : NAME(softmax))(j, (const REAL *)j->in + at, (REAL *)j->out + at);
  }
}

/* ---- Across channels ---- */

/* y = x / (bias + alpha / size * sum of the squares of neighbouring channels)^beta. Part i is an element of a plane. */
static void NAME(across_channels)(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const int64_t before = (j->s->size - 1) / 2, after = j->s->size - 1 - before;
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = i / j->plane * j->plane * j->channels + i % j->plane;
    for (int64_t c = 0; c < j->channels; c++) {
      double sum = 0;
      for (int64_t k = c - before < 0 ? 0 : c - before; k <= c + after && k < j->channels; k++)
        sum += (double)((const REAL *)j->in)[at + k * j->plane] * (double)((const REAL *)j->in)[at + k * j->plane];
      const double base = (double)j->s->bias + (double)j->s->alpha / (double)j->s->size * sum;
      ((REAL *)j->out)[at + c * j->plane] =
          (REAL)((double)((const REAL *)j->in)[at + c * j->plane] / pow(base, (double)j->s->beta));
    }
  }
}

#undef NAME
#undef REAL
