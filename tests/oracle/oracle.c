/* SPDX-License-Identifier: MIT */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Half a unit in the last place of float32, relative: what one rounding of the product may change. */
static const double ROUNDING = FLT_EPSILON / 2.0;

struct gconv_oracle {
  const gconv_filters *filters;
  gconv_options options;
  gconv_oracle_shape shape;
  int32_t height, width;
  int32_t colours;   /* C without alpha, after gray */
  int32_t planes;    /* channels that are filtered: the colours, and alpha unless it is kept */
  bool alpha;        /* the input has alpha */
  bool altered;      /* samples went through gray, linear or premultiply, which round */
  double white;      /* of the input */
  double largest;    /* max |sample|, the border included */
  double *samples;   /* N x H x W x planes, prepared */
  double *alphas;    /* N x H x W */
  double *responses; /* K x N x P x Q x planes */
  double *weights;   /* K: sum |tap / divisor| */
};

/* ---- Reading ---- */

double gconv_oracle_white(gconv_type type) {
  return type == GCONV_U8 ? 255.0 : type == GCONV_U16 ? 65535.0 : 1.0;
}

double gconv_oracle_sample_at(const gconv_image *image, int32_t n, int32_t y, int32_t x, int32_t c) {
  size_t plane = image->planar ? (size_t)n * (size_t)image->channels + (size_t)c : (size_t)n;
  size_t element = image->planar ? (size_t)x : (size_t)x * (size_t)image->channels + (size_t)c;
  const unsigned char *row = (const unsigned char *)image->data + plane * image->plane_bytes + (size_t)y * image->row_bytes;
  if (image->type == GCONV_U8)
    return row[element];
  if (image->type == GCONV_U16)
    return ((const uint16_t *)(const void *)row)[element];
  if (image->type == GCONV_I16)
    return ((const int16_t *)(const void *)row)[element];
  return ((const float *)(const void *)row)[element];
}

/* ---- Shapes ---- */

typedef struct axis {
  int64_t before;  /* padding in front of the first sample */
  int64_t outputs; /* 0 if the filter finds no place */
} axis;

/* One axis: `size` samples, a filter of `taps` taps whose tap `anchor` lies on the output pixel. */
static axis make_axis(gconv_padding padding, int64_t size, int64_t taps, int64_t anchor, int64_t stride, int64_t dilation,
                      int64_t before, int64_t after) {
  int64_t extent = (taps - 1) * dilation + 1;
  if (padding == GCONV_PADDING_SAME)
    return (axis){anchor * dilation, (size + stride - 1) / stride};
  if (padding == GCONV_PADDING_VALID)
    before = after = 0;
  if (padding == GCONV_PADDING_FULL)
    before = after = extent - 1;
  int64_t room = size + before + after - extent;
  return (axis){before, room < 0 ? 0 : room / stride + 1};
}

/* The anchor as used: turning a filter takes its anchor along. */
static int64_t anchor_of(int64_t anchor, int64_t taps, bool flip) {
  return flip ? taps - 1 - anchor : anchor;
}

static axis rows_of(const gconv_options *o, int64_t height, const gconv_filter *f) {
  return make_axis(o->padding, height, f->rows, anchor_of(f->anchor_row, f->rows, o->flip), o->stride_y, o->dilation_y,
                   o->pad_top, o->pad_bottom);
}

static axis columns_of(const gconv_options *o, int64_t width, const gconv_filter *f) {
  return make_axis(o->padding, width, f->columns, anchor_of(f->anchor_column, f->columns, o->flip), o->stride_x,
                   o->dilation_x, o->pad_left, o->pad_right);
}

static int32_t colours_of(const gconv_image *in, const gconv_options *options) {
  int32_t colours = in->channels - (in->alpha ? 1 : 0);
  return options->gray && colours == 3 ? 1 : colours;
}

gconv_oracle_shape gconv_oracle_get_shape(const gconv_image *in, const gconv_filters *filters,
                                          const gconv_options *options) {
  bool stacked = options->combine == GCONV_COMBINE_STACK;
  bool aside = in->alpha && options->alpha == GCONV_ALPHA_KEEP;
  bool alpha = in->alpha && options->alpha != GCONV_ALPHA_DROP;
  int32_t planes = colours_of(in, options) + (alpha && !aside ? 1 : 0);
  return (gconv_oracle_shape){
      .outputs = options->combine == GCONV_COMBINE_NONE ? filters->count : 1,
      .type = options->sets_type ? options->output_type : in->type,
      .frames = in->frames,
      .height = (int32_t)rows_of(options, in->height, &filters->items[0]).outputs,
      .width = (int32_t)columns_of(options, in->width, &filters->items[0]).outputs,
      .channels = planes * (stacked ? (int32_t)filters->count : 1) + (aside ? 1 : 0),
      .alpha = alpha && (aside || !stacked || filters->count == 1),
  };
}

/* ---- The image before it is filtered ---- */

/* IEC 61966-2-1, odd. */
static double srgb_decode(double v) {
  double a = fabs(v);
  return copysign(a <= 0.04045 ? a / 12.92 : pow((a + 0.055) / 1.055, 2.4), v);
}

static double srgb_encode(double v) {
  double a = fabs(v);
  return copysign(a <= 0.0031308 ? a * 12.92 : 1.055 * pow(a, 1.0 / 2.4) - 0.055, v);
}

/* One pixel, as the options ask: colours made grey or linear, and multiplied by alpha. `pixel` has all channels of the file
 * in units of white, and gets `planes` values. */
static void prepare_pixel(const gconv_oracle *oracle, bool integer, int32_t file_colours, double *pixel) {
  const gconv_options *o = &oracle->options;
  double alpha = oracle->alpha ? pixel[file_colours] : 1;
  for (int32_t c = 0; o->linear && c < file_colours; c++)
    pixel[c] = srgb_decode(pixel[c]);
  if (o->gray && file_colours == 3) {
    if (o->linear)
      pixel[0] = 0.2126 * pixel[0] + 0.7152 * pixel[1] + 0.0722 * pixel[2];
    else
      pixel[0] = 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
    if (integer && !o->linear && (oracle->shape.type != GCONV_F32 || o->round_gray))
      pixel[0] = rint(pixel[0] * oracle->white) / oracle->white;
  }
  for (int32_t c = 0; o->alpha == GCONV_ALPHA_PREMULTIPLY && c < oracle->colours; c++)
    pixel[c] *= alpha;
  if (oracle->planes > oracle->colours)
    pixel[oracle->colours] = alpha;
}

/* Fills samples, alphas and largest. `pixel` has room for the channels of the file. */
static void prepare(gconv_oracle *oracle, const gconv_image *in, double *pixel) {
  double *sample = oracle->samples, *alpha = oracle->alphas;
  for (int32_t n = 0; n < in->frames; n++)
    for (int32_t y = 0; y < in->height; y++)
      for (int32_t x = 0; x < in->width; x++) {
        for (int32_t c = 0; c < in->channels; c++) {
          pixel[c] = gconv_oracle_sample_at(in, n, y, x, c) / oracle->white;
          oracle->largest = fmax(oracle->largest, fabs(pixel[c]));
        }
        *alpha++ = in->alpha ? pixel[in->channels - 1] : 1;
        prepare_pixel(oracle, in->type != GCONV_F32, in->channels - (in->alpha ? 1 : 0), pixel);
        for (int32_t c = 0; c < oracle->planes; c++) {
          oracle->largest = fmax(oracle->largest, fabs(pixel[c]));
          *sample++ = pixel[c];
        }
      }
}

/* ---- Borders ---- */

static int64_t modulo(int64_t i, int64_t n) {
  return (i % n + n) % n;
}

/* The sample that stands at place i of an endless line made of `size` samples; -1: none of them, but the constant. */
static int64_t place(gconv_border border, int64_t i, int64_t size) {
  if (i >= 0 && i < size)
    return i;
  if (border == GCONV_BORDER_REPLICATE)
    return i < 0 ? 0 : size - 1;
  if (border == GCONV_BORDER_WRAP)
    return modulo(i, size);
  if (border == GCONV_BORDER_SYMMETRIC) {
    int64_t j = modulo(i, 2 * size);
    return j < size ? j : 2 * size - 1 - j;
  }
  if (border == GCONV_BORDER_REFLECT101) {
    int64_t period = size > 1 ? 2 * size - 2 : 1, j = modulo(i, period);
    return j < size ? j : period - j;
  }
  return -1;
}

/* What lies outside, in units of white; `colour` says that the sRGB curve belongs to it. */
static double constant_border(const gconv_options *options, bool colour) {
  if (options->border != GCONV_BORDER_CONSTANT)
    return 0;
  return options->linear && colour ? srgb_decode(options->border_value) : options->border_value;
}

/* Sample (n, y, x, c) of the image that has no end. */
static double extended(const gconv_oracle *oracle, int32_t n, int64_t y, int64_t x, int32_t c) {
  int64_t row = place(oracle->options.border, y, oracle->height), column = place(oracle->options.border, x, oracle->width);
  if (row < 0 || column < 0)
    return constant_border(&oracle->options, c < oracle->colours);
  return oracle->samples[((n * (int64_t)oracle->height + row) * oracle->width + column) * oracle->planes + c];
}

static double extended_alpha(const gconv_oracle *oracle, int32_t n, int64_t y, int64_t x) {
  int64_t row = place(oracle->options.border, y, oracle->height), column = place(oracle->options.border, x, oracle->width);
  if (row < 0 || column < 0)
    return constant_border(&oracle->options, false);
  return oracle->alphas[(n * (int64_t)oracle->height + row) * oracle->width + column];
}

/* ---- Responses ---- */

static double tap(const gconv_filter *f, bool flip, int32_t r, int32_t s) {
  return flip ? f->taps[(f->rows - 1 - r) * f->columns + f->columns - 1 - s] : f->taps[r * f->columns + s];
}

/* (sum of taps * samples) / divisor + offset, where the first tap lies at (top, left). */
static double respond(const gconv_oracle *oracle, const gconv_filter *f, int32_t n, int64_t top, int64_t left, int32_t c) {
  const gconv_options *o = &oracle->options;
  double sum = 0;
  for (int32_t r = 0; r < f->rows; r++)
    for (int32_t s = 0; s < f->columns; s++)
      sum += tap(f, o->flip, r, s) *
             extended(oracle, n, top + r * (int64_t)o->dilation_y, left + s * (int64_t)o->dilation_x, c);
  return sum / f->divisor + f->offset / oracle->white;
}

static size_t response_index(const gconv_oracle *oracle, size_t k, int32_t n, int32_t p, int32_t q, int32_t c) {
  const gconv_oracle_shape *shape = &oracle->shape;
  size_t row = (k * (size_t)shape->frames + (size_t)n) * (size_t)shape->height + (size_t)p;
  return (row * (size_t)shape->width + (size_t)q) * (size_t)oracle->planes + (size_t)c;
}

static void respond_all(gconv_oracle *oracle, size_t k) {
  const gconv_filter *f = &oracle->filters->items[k];
  const gconv_options *o = &oracle->options;
  int64_t top = rows_of(o, oracle->height, f).before, left = columns_of(o, oracle->width, f).before;
  for (int32_t n = 0; n < oracle->shape.frames; n++)
    for (int32_t p = 0; p < oracle->shape.height; p++)
      for (int32_t q = 0; q < oracle->shape.width; q++)
        for (int32_t c = 0; c < oracle->planes; c++)
          oracle->responses[response_index(oracle, k, n, p, q, c)] =
              respond(oracle, f, n, p * (int64_t)o->stride_y - top, q * (int64_t)o->stride_x - left, c);
}

static double weight_of(const gconv_filter *f) {
  double weight = 0;
  for (int32_t i = 0; i < f->rows * f->columns; i++)
    weight += fabs(f->taps[i] / (double)f->divisor);
  return weight;
}

static bool compute(gconv_oracle *oracle, const gconv_image *in) {
  size_t pixels = (size_t)in->frames * (size_t)in->height * (size_t)in->width, filters = oracle->filters->count;
  double *pixel = calloc((size_t)in->channels + 1, sizeof *pixel);
  oracle->samples = calloc(pixels * (size_t)oracle->planes, sizeof *oracle->samples);
  oracle->alphas = calloc(pixels, sizeof *oracle->alphas);
  oracle->responses = calloc(response_index(oracle, filters, 0, 0, 0, 0), sizeof *oracle->responses);
  oracle->weights = calloc(filters, sizeof *oracle->weights);
  bool ready = pixel && oracle->samples && oracle->alphas && oracle->responses && oracle->weights;
  if (ready)
    prepare(oracle, in, pixel);
  for (size_t k = 0; ready && k < filters; k++) {
    oracle->weights[k] = weight_of(&oracle->filters->items[k]);
    respond_all(oracle, k);
  }
  free(pixel);
  return ready;
}

gconv_oracle *gconv_oracle_create(const gconv_image *in, const gconv_filters *filters, const gconv_options *options) {
  gconv_oracle_shape shape = gconv_oracle_get_shape(in, filters, options);
  gconv_oracle *oracle = shape.height > 0 && shape.width > 0 ? calloc(1, sizeof *oracle) : NULL;
  if (!oracle)
    return NULL;
  bool premultiplied = in->alpha && options->alpha == GCONV_ALPHA_PREMULTIPLY;
  int32_t colours = colours_of(in, options);
  *oracle = (gconv_oracle){
      .filters = filters,
      .options = *options,
      .shape = shape,
      .height = in->height,
      .width = in->width,
      .colours = colours,
      .planes = colours + (in->alpha && options->alpha != GCONV_ALPHA_KEEP && options->alpha != GCONV_ALPHA_DROP ? 1 : 0),
      .alpha = in->alpha,
      .altered = options->gray || options->linear || premultiplied,
      .white = gconv_oracle_white(in->type),
  };
  oracle->largest = fmax(fabs(constant_border(options, true)), fabs(constant_border(options, false)));
  if (!in->alpha) /* nothing to multiply by */
    oracle->options.alpha = GCONV_ALPHA_KEEP;
  if (!compute(oracle, in)) {
    gconv_oracle_free(oracle);
    return NULL;
  }
  return oracle;
}

void gconv_oracle_free(gconv_oracle *oracle) {
  if (!oracle)
    return;
  free(oracle->samples);
  free(oracle->alphas);
  free(oracle->responses);
  free(oracle->weights);
  free(oracle);
}

/* ---- From responses to samples: values that carry their errors ---- */

/* One response with what the algorithm may be off. Preparing rounds up to 16 times (the curve counts for most), dividing and
 * adding the offset up to 4 times; below the normal numbers of float32 a rounding is absolute. */
static gconv_oracle_sample response(const gconv_oracle *oracle, gconv_oracle_bound bound, size_t k, int32_t n, int32_t p,
                                    int32_t q, int32_t c) {
  const gconv_filter *f = &oracle->filters->items[k];
  double weight = oracle->weights[k], taps = (double)f->rows * f->columns;
  double most = weight * oracle->largest;
  double rounding = ROUNDING * ((oracle->altered ? 20 : 4) * most + 4 * fabs(f->offset / oracle->white));
  double denormal = weight > 0 ? FLT_TRUE_MIN * (taps + 4) * (1 + fabs(1 / (double)f->divisor)) : 0;
  double algorithm = bound.relative * most + (most > 0 ? bound.least / fabs((double)f->divisor) : 0);
  return (gconv_oracle_sample){oracle->responses[response_index(oracle, k, n, p, q, c)], algorithm + rounding + denormal};
}

/* The responses of all filters to one sample as one. */
static gconv_oracle_sample combined(const gconv_oracle *oracle, gconv_oracle_bound bound, int32_t n, int32_t p, int32_t q,
                                    int32_t c) {
  gconv_combine combine = oracle->options.combine;
  gconv_oracle_sample total = response(oracle, bound, 0, n, p, q, c);
  if (combine == GCONV_COMBINE_MAGNITUDE)
    total.value *= total.value;
  double sizes = fabs(total.value);
  for (size_t k = 1; k < oracle->filters->count; k++) {
    gconv_oracle_sample next = response(oracle, bound, k, n, p, q, c);
    if (combine == GCONV_COMBINE_MAX) {
      total = (gconv_oracle_sample){fmax(total.value, next.value), fmax(total.error, next.error)};
    } else {
      total.value += combine == GCONV_COMBINE_MAGNITUDE ? next.value * next.value : next.value;
      total.error += next.error; /* of a magnitude too: the length of a vector changes by no more than its parts */
      sizes += fabs(next.value);
    }
  }
  if (combine == GCONV_COMBINE_MAGNITUDE)
    total.value = sizes = sqrt(total.value);
  total.error += ROUNDING * ((double)oracle->filters->count + 4) * sizes;
  return total;
}

static gconv_oracle_sample scaled(const gconv_oracle *oracle, gconv_oracle_sample v) {
  double scale = oracle->options.scale, offset = oracle->options.offset, product = v.value * scale;
  double rounding = 4 * ROUNDING * (fabs(product) + fabs(offset)) + (product != 0 ? 2 * FLT_TRUE_MIN : 0);
  return (gconv_oracle_sample){product + offset, v.error * fabs(scale) + rounding};
}

/* A colour that was filtered multiplied by alpha, divided by the alpha that was filtered with it; 0 where that is not above
 * 0. Nothing can be said where the error of alpha reaches 0 or beyond. */
static gconv_oracle_sample divided(gconv_oracle_sample colour, gconv_oracle_sample alpha) {
  if (alpha.value < -alpha.error || (alpha.value == 0 && alpha.error == 0))
    return (gconv_oracle_sample){0, 0};
  if (alpha.value <= 2 * alpha.error)
    return (gconv_oracle_sample){0, HUGE_VAL};
  double value = colour.value / alpha.value;
  double error = (colour.error + fabs(value) * alpha.error) / (alpha.value - alpha.error);
  return (gconv_oracle_sample){value, error + 4 * ROUNDING * fabs(value)};
}

/* The curve is nowhere steeper than 12.92. */
static gconv_oracle_sample encoded(gconv_oracle_sample v) {
  double value = srgb_encode(v.value);
  return (gconv_oracle_sample){value, 12.92 * v.error + 16 * ROUNDING * fabs(value)};
}

/* A filtered colour, up to what `range` does to single samples. `filtered` has all planes of the pixel. */
static gconv_oracle_sample finished(const gconv_oracle *oracle, const gconv_oracle_sample *filtered, int32_t c) {
  const gconv_options *o = &oracle->options;
  bool premultiplied = o->alpha == GCONV_ALPHA_PREMULTIPLY, is_alpha = c == oracle->colours;
  if (premultiplied && is_alpha)
    return filtered[c];
  gconv_oracle_sample v = scaled(oracle, premultiplied ? divided(filtered[c], filtered[oracle->colours]) : filtered[c]);
  bool ranged = !is_alpha || !oracle->shape.alpha; /* the range is for colours; a stack of alphas is of numbers */
  if (o->range == GCONV_RANGE_ABS && ranged)
    v.value = fabs(v.value);
  if (o->linear && !is_alpha)
    v = encoded(v);
  if (o->range == GCONV_RANGE_SIGNED && ranged)
    v = (gconv_oracle_sample){v.value / 2 + 0.5, v.error / 2 + 4 * ROUNDING};
  return v;
}

/* Alpha of the pixel below the anchor of filter k. */
static gconv_oracle_sample kept_alpha(const gconv_oracle *oracle, size_t k, int32_t n, int32_t p, int32_t q) {
  const gconv_filter *f = &oracle->filters->items[k];
  const gconv_options *o = &oracle->options;
  int64_t y = p * (int64_t)o->stride_y - rows_of(o, oracle->height, f).before +
              anchor_of(f->anchor_row, f->rows, o->flip) * o->dilation_y;
  int64_t x = q * (int64_t)o->stride_x - columns_of(o, oracle->width, f).before +
              anchor_of(f->anchor_column, f->columns, o->flip) * o->dilation_x;
  double alpha = extended_alpha(oracle, n, y, x);
  return (gconv_oracle_sample){alpha, 4 * ROUNDING * fabs(alpha)};
}

/* All channels of output pixel (n, p, q) in units of white, without minmax. `filtered` is room for the planes. */
static void finish_pixel(const gconv_oracle *oracle, size_t output, gconv_oracle_bound bound, const int32_t at[3],
                         gconv_oracle_sample *filtered, gconv_oracle_sample *pixel) {
  gconv_combine combine = oracle->options.combine;
  bool one = combine == GCONV_COMBINE_NONE || combine == GCONV_COMBINE_STACK; /* one filter makes a channel */
  size_t first = combine == GCONV_COMBINE_NONE ? output : 0;
  size_t end = combine == GCONV_COMBINE_STACK ? oracle->filters->count : first + 1;
  for (size_t k = first; k < end; k++) {
    for (int32_t c = 0; c < oracle->planes; c++)
      filtered[c] =
          one ? response(oracle, bound, k, at[0], at[1], at[2], c) : combined(oracle, bound, at[0], at[1], at[2], c);
    for (int32_t c = 0; c < oracle->planes; c++)
      *pixel++ = finished(oracle, filtered, c);
  }
  if (oracle->alpha && oracle->options.alpha == GCONV_ALPHA_KEEP)
    *pixel = kept_alpha(oracle, first, at[0], at[1], at[2]);
}

/* Whether channel c of an output is stretched by minmax: colours are. */
static bool stretched(const gconv_oracle *oracle, int32_t c) {
  return !oracle->shape.alpha || c < oracle->shape.channels - 1;
}

/* All responses are equal whatever the rounding: no filter has a tap that is not 0. */
static bool silent(const gconv_oracle *oracle) {
  double weight = 0;
  for (size_t k = 0; k < oracle->filters->count; k++)
    weight += oracle->weights[k];
  return weight == 0 && oracle->filters->count == 1;
}

/* Stretches one frame of `count` samples to 0..1. Of a frame that is nearly flat, nothing can be said, unless it is flat
 * without any doubt. */
static void stretch(const gconv_oracle *oracle, gconv_oracle_sample *samples, size_t count) {
  double low = HUGE_VAL, high = -HUGE_VAL, error = 0;
  size_t channels = (size_t)oracle->shape.channels, stretching = 0;
  for (size_t i = 0; i < count; i++)
    if (stretched(oracle, (int32_t)(i % channels))) {
      low = fmin(low, samples[i].value);
      high = fmax(high, samples[i].value);
      error = fmax(error, samples[i].error);
      stretching++;
    }
  bool flat = stretching == 1 || silent(oracle), doubtful = high - low <= 8 * error;
  for (size_t i = 0; i < count; i++) {
    double range = high - low; /* it, and the distance from low, are off by two errors at most */
    if (!stretched(oracle, (int32_t)(i % channels)))
      continue;
    if (flat || doubtful)
      samples[i] = (gconv_oracle_sample){0, flat ? 0 : HUGE_VAL};
    else
      samples[i] = (gconv_oracle_sample){(samples[i].value - low) / range, 4 * error / (range - 2 * error) + 4 * ROUNDING};
  }
}

/* From units of white to samples of the output. int16 has the levels of the input. */
static gconv_oracle_sample stored(const gconv_oracle *oracle, gconv_oracle_sample v) {
  gconv_type type = oracle->shape.type;
  if (type == GCONV_F32)
    return (gconv_oracle_sample){v.value, v.error + 2 * ROUNDING * fabs(v.value) + FLT_TRUE_MIN};
  double white = type == GCONV_I16 ? oracle->white : gconv_oracle_white(type);
  double least = type == GCONV_I16 ? INT16_MIN : 0, most = type == GCONV_I16 ? INT16_MAX : white;
  double error = (v.error + 4 * ROUNDING * fabs(v.value)) * white, value = fmin(fmax(v.value * white, least), most);
  double above = fmin(fmax(v.value * white + error, least), most), below = fmin(fmax(v.value * white - error, least), most);
  return (gconv_oracle_sample){value, fmax(above - value, value - below) + 0.5};
}

bool gconv_oracle_expect(const gconv_oracle *oracle, size_t output, gconv_oracle_bound bound, gconv_oracle_sample *samples) {
  const gconv_oracle_shape *shape = &oracle->shape;
  size_t frame = (size_t)shape->height * (size_t)shape->width * (size_t)shape->channels;
  gconv_oracle_sample *filtered = calloc((size_t)oracle->planes, sizeof *filtered), *pixel = samples;
  if (!filtered)
    return false;
  for (int32_t n = 0; n < shape->frames; n++) {
    for (int32_t p = 0; p < shape->height; p++)
      for (int32_t q = 0; q < shape->width; q++, pixel += shape->channels)
        finish_pixel(oracle, output, bound, (const int32_t[]){n, p, q}, filtered, pixel);
    if (oracle->options.range == GCONV_RANGE_MINMAX)
      stretch(oracle, samples + (size_t)n * frame, frame);
  }
  for (size_t i = 0; i < frame * (size_t)shape->frames; i++)
    samples[i] = stored(oracle, samples[i]);
  free(filtered);
  return true;
}
