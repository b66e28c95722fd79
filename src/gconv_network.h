/* SPDX-License-Identifier: MIT */
/* A part of gconv.h: banks of weights, layers, and networks of them. */
#ifndef GCONV_NETWORK_H
#define GCONV_NETWORK_H

#include "gconv_filter.h"

GCONV_API_BEGIN

/* ---- Banks --------------------------------------------------------------------------------------------------------- */

/*
 * The weights of a convolution layer: filters[k][c][r][s] at weights[((k * channels + c) * rows + r) * columns + s], the
 * order of PyTorch and ONNX. Zero-initialise before first use. If the file says how the layer is applied (ONNX does),
 * has_geometry is true, and the fields after it are set.
 */
typedef struct gconv_bank {
  char *name;       /* owned: "conv1.weight"; "" if it has none */
  int32_t filters;  /* K, at least 1 */
  int32_t channels; /* C of one group, at least 1 */
  int32_t rows, columns;
  float *weights; /* owned; finite */
  float *biases;  /* owned; K, finite; NULL: all 0 */
  char **names;   /* owned, K of them, each may be NULL; NULL: no filter has a name */
  bool has_geometry;
  int32_t stride_y, stride_x, dilation_y, dilation_x, groups;
  int32_t pad_top, pad_left, pad_bottom, pad_right;
  bool same_upper, same_lower; /* padding is chosen so that outputs are ceil(H / stride); if it is odd, the extra pixel is
                                  below and right (upper), or above and left (lower). The pad_ fields are 0 then */
  uint64_t reserved[4];
} gconv_bank;

/* Frees what the bank owns and zeroes it. NULL is allowed. */
void gconv_bank_free(gconv_bank *bank);

/* Reads a bank into *bank, which must be empty. `spec` is the path of a file (docs/filter-formats.md: gconv-bank text, .npy,
 * safetensors, ONNX; known by content, then by name). If the file has several banks, ":" and the name of one follow;
 * gconv_bank_file_find() finds it. With a tensor NAME.weight, the tensor NAME.bias is read too. `syntax` forces the syntax
 * ("bank", "npy", "safetensors", "onnx"); NULL: known by content. Errors say where in the file. */
gconv_status gconv_bank_read(const char *spec, const char *syntax, gconv_bank *bank);

/* Whether `spec` names a bank, which gconv_filters_read() cannot read. The content of the file decides, or its extension
 * (.safetensors, .onnx) if the file cannot be read. .npy arrays of fewer than four dimensions, or with one channel, count as
 * plain filters, and so does standard input; gconv_bank_read() reads these as banks, too. */
bool gconv_bank_is_one(const char *spec);

/* The syntaxes of banks, NULL past the end: names as gconv_bank_read takes them. */
const char *gconv_bank_syntax_at(size_t index);

enum { GCONV_BANK_DIMENSIONS = 8 };

/* An entry of a file of banks: a tensor, a Conv node of a model, or, without a name, the only bank. */
typedef struct gconv_bank_entry {
  char *name;         /* owned by the file, as all here; bytes that no terminal should get are '?' */
  char *other[2];     /* other names by which it can be chosen, or NULL */
  const char *kind;   /* "tensor", "Conv", "array", "bank"; static storage */
  char type[16];      /* type of its numbers: "float32", "int8"; "" if not known */
  int32_t dimensions; /* dimensions beyond GCONV_BANK_DIMENSIONS are not in `shape` */
  uint64_t shape[GCONV_BANK_DIMENSIONS];
  const char *obstacle; /* why it cannot be read as a bank, as the end of a sentence about it; NULL: no reason is known;
                           static storage */
} gconv_bank_entry;

/* An open file of banks, of any size. Opening lists its entries; a bank is read only by gconv_bank_file_read(). */
typedef struct gconv_bank_file gconv_bank_file;

/* Opens the file that `spec` names, and lists its entries. `spec` and `syntax` are those of gconv_bank_read(); *name, which
 * may be NULL, gets the part of `spec` after the path, or NULL if there is none. */
gconv_status gconv_bank_file_open(const char *spec, const char *syntax, gconv_bank_file **file, const char **name);
/* "safetensors" */
const char *gconv_bank_file_syntax(const gconv_bank_file *file);
/* In the order of the file; NULL past the end. Valid until the file is closed. */
const gconv_bank_entry *gconv_bank_file_at(const gconv_bank_file *file, size_t index);
/* The entry called `name`; NULL: the only one that is a bank. The text of GCONV_BAD_ARGUMENT lists the entries. */
gconv_status gconv_bank_file_find(const gconv_bank_file *file, const char *name, size_t *index);
/* Reads an entry into *bank, which must be empty. */
gconv_status gconv_bank_file_read(gconv_bank_file *file, size_t index, gconv_bank *bank);
/* NULL is allowed. */
void gconv_bank_file_close(gconv_bank_file *file);

/* Writes the bank whole or not at all: `format` is "bank", "npy" or "safetensors"; NULL: by the extension of `path` (.txt,
 * .npy, .safetensors; "-", standard output, is text). Weights keep their bits, or GCONV_BAD_ARGUMENT if one is not finite.
 * .npy cannot hold biases: GCONV_UNSUPPORTED if one is not 0. .npy cannot hold stride, padding, dilation and groups, and
 * only text can hold names of filters: a warning says which were left out. */
gconv_status gconv_bank_write(const char *path, const char *format, const gconv_bank *bank);

/* Stacks plain filters into a bank of one channel, which must be empty: taps are divided by the divisors; offsets, in levels
 * of 255, become biases for samples in [0, 1]. The anchors of filters of different sizes are laid on each other, at the
 * centre of the bank: row rows / 2 and column columns / 2. */
gconv_status gconv_bank_stack(const gconv_filters *filters, gconv_bank *bank);

enum { GCONV_BANK_MAX_ZOOM = 1024 };

/* How a bank is drawn; zeroes are the defaults. */
typedef struct gconv_bank_sheet {
  int32_t zoom; /* pixels of a weight, along each side, at most GCONV_BANK_MAX_ZOOM; 0: chosen for a sheet of a good size */
  int32_t columns; /* filters side by side; 0: chosen for a sheet of a good shape */
  bool one_scale;  /* all filters are scaled by the largest |weight| of the bank, not each by its own */
  uint64_t reserved[4];
} gconv_bank_sheet;

/* Draws a contact sheet of the filters into *image, which must be empty: u8, RGB if the filters have 3 channels, else grey,
 * with a tile for each channel. A weight of 0 is level 128; the largest |weight| is level 255, or 1 if it is negative. sheet
 * may be NULL. GCONV_TOO_LARGE for sheets of more than GCONV_DEFAULT_MAX_PIXELS. */
gconv_status gconv_bank_draw(const gconv_bank *bank, const gconv_bank_sheet *sheet, gconv_image *image);

/* ---- Layers: batched multi-channel convolution ------------------------------------------------------------------------ */

/* The functions of v = sum + bias: a row for each activation of one sample, with its name. Softmax is one of several. */
#define GCONV_EACH_ACTIVATION(ROW)                                                                                          \
  ROW(none, GCONV_ACTIVATION_NONE)                                                                                          \
  ROW(relu, GCONV_ACTIVATION_RELU)       /* max(v, 0) */                                                                    \
  ROW(leaky, GCONV_ACTIVATION_LEAKY)     /* v < 0 ? slope * v : v */                                                        \
  ROW(sigmoid, GCONV_ACTIVATION_SIGMOID) /* 1 / (1 + exp(-slope * v)) */                                                    \
  ROW(tanh, GCONV_ACTIVATION_TANH)

typedef enum gconv_activation {
  GCONV_EACH_ACTIVATION(GCONV_LISTED)
      GCONV_ACTIVATION_SOFTMAX /* exp(v) over the sum of exp(v) of all filters at this place */
} gconv_activation;

/* What a layer does: a row for each kind, with its name in files and texts. A network with a layer of maxpool or a later
 * kind of this list runs as a graph of nodes, and needs gconv_operation_of_network(). */
#define GCONV_EACH_LAYER_KIND(ROW)                                                                                          \
  ROW(conv, GCONV_LAYER_CONV)         /* convolves with a bank */                                                           \
  ROW(mean, GCONV_LAYER_MEAN)         /* the mean of each channel over height and width: N x C x 1 x 1 */                   \
  ROW(residual, GCONV_LAYER_RESIDUAL) /* adds the input of the first layer as that layer sees it; of the same shape */      \
  ROW(maxpool, GCONV_LAYER_MAXPOOL)   /* the largest value of each window, wherever it lies inside the input */             \
  ROW(avgpool, GCONV_LAYER_AVGPOOL)   /* the mean of each window, as maxpool */                                             \
  ROW(upconv, GCONV_LAYER_UPCONV)     /* transposed convolution: stride times as many rows and columns */                   \
  ROW(shuffle, GCONV_LAYER_SHUFFLE)   /* N * N channels become one of N times as many rows and columns (depth to space) */  \
  ROW(concat, GCONV_LAYER_CONCAT)     /* the channels of an earlier output behind its own; of the same height and width */  \
  ROW(add, GCONV_LAYER_ADD)           /* adds an earlier output of the same shape */                                        \
  ROW(prelu, GCONV_LAYER_PRELU)       /* v < 0 ? slope * v : v, with a slope for each channel, which is learned */          \
  ROW(batchnorm, GCONV_LAYER_BATCHNORM) /* (v - mean) / sqrt(variance + 1e-5) * scale + bias, for each channel */

typedef enum gconv_layer_kind { GCONV_EACH_LAYER_KIND(GCONV_LISTED) } gconv_layer_kind;

/* What products may be rounded to. Sums are float32 always. */
typedef enum gconv_math { GCONV_MATH_FP32, GCONV_MATH_TF32, GCONV_MATH_FP16, GCONV_MATH_BF16 } gconv_math;

/* ---- Networks: layers in a chain ------------------------------------------------------------------------------------- */

/* Where the outputs of a layer are, along each axis, with E = (R - 1) * dilation + 1. */
typedef enum gconv_layer_padding {
  GCONV_LAYER_DEFAULT,    /* as the bank says, if it has geometry; else same */
  GCONV_LAYER_SAME,       /* ceil(H / stride): tap R / 2 visits every stride-th pixel, from the first */
  GCONV_LAYER_VALID,      /* only where the filter lies inside: floor((H - E) / stride) + 1 */
  GCONV_LAYER_FULL,       /* wherever it touches the image: floor((H + E - 2) / stride) + 1 */
  GCONV_LAYER_EXPLICIT,   /* floor((H + top + bottom - E) / stride) + 1 */
  GCONV_LAYER_SAME_UPPER, /* ceil(H / stride), with few zeros; an odd one is below and right (ONNX, TensorFlow) */
  GCONV_LAYER_SAME_LOWER  /* the same, but an odd one is above and left */
} gconv_layer_padding;

/*
 * A layer of a network. A convolution has a bank, and fields that say how it is applied; fields that are 0 are taken from
 * the bank, if it has geometry. Other kinds use these fields, and all others are 0. Pools: window and stride. upconv: bank,
 * stride, activation and slope. shuffle: window_y and window_x, which are both N. concat and add: `from`. prelu: the bank, C
 * x 1 x 1 x 1 without biases. batchnorm: activation, slope and the bank, C x 3 x 1 x 1, which has scale, mean and variance
 * of each channel, with biases.
 *
 * With G groups, the input has G * bank->channels channels, and the g-th group of the K filters sees the g-th group of
 * channels. If the bank has one channel, and neither layer nor bank sets `groups`, the bank is applied to each of the C
 * channels by itself: this yields C * K channels, and channel c * K + k is filter k applied to channel c.
 */
typedef struct gconv_layer {
  gconv_layer_kind kind;
  const gconv_bank *bank;
  gconv_layer_padding padding;
  int32_t pad_top, pad_left, pad_bottom, pad_right; /* for GCONV_LAYER_EXPLICIT; at least 0 */
  int32_t stride_y, stride_x;                       /* 0: as the bank says, else 1 */
  int32_t dilation_y, dilation_x;                   /* the same */
  int32_t groups;                                   /* the same */
  bool flip; /* mathematical convolution: each plane of a filter is turned by 180 degrees; with same, about tap R / 2 */
  gconv_activation activation;
  float slope;           /* for leaky; for sigmoid, where 0 means 1 */
  const char *algorithm; /* NULL: as the options say */
  gconv_border border;   /* the values outside the layer's input, like padding_mode of PyTorch; by default zeros */
  double border_value; /* for GCONV_BORDER_CONSTANT: in units of the layer's input; that of the first layer is normalised */
  int32_t window_y, window_x; /* rows and columns of the windows of pools; N of shuffle */
  int32_t from; /* for concat and add: the earlier output. 0: the input of the first layer; i: the output of layers[i - 1] */
  uint64_t reserved[4];
} gconv_layer;

/* The form of a network's results. */
typedef enum gconv_presentation {
  GCONV_PRESENT_TENSOR,   /* one array, N x K x P x Q: f32 and planar */
  GCONV_PRESENT_PICTURES, /* a picture for each filter; in colour if a bank is applied to each of 3 channels by itself */
  GCONV_PRESENT_MOSAIC,   /* one picture with all of them as tiles */
  GCONV_PRESENT_COMBINED, /* one picture of the combined responses, of 1 channel or 3 */
  GCONV_PRESENT_LABELS,   /* one picture with a colour for each filter, of GCONV_COMBINE_ARGMAX */
  GCONV_PRESENT_IMAGE,    /* one picture like the input, with its alpha; the network must keep size and channels */
  GCONV_PRESENT_CLASSES   /* one picture of one channel, u8 or u16, with a number for each filter, of GCONV_COMBINE_ARGMAX */
} gconv_presentation;

/* How the outputs of a network become samples of pictures. */
typedef struct gconv_tone {
  double scale, offset; /* v * scale + offset, then the range; a scale of 0 is 1 */
  gconv_range range;    /* minmax is computed for each picture, or tile, by itself */
  bool fit; /* instead: between black and white lie all values but the hundredth on either side; 0 in the middle, if they */
            /*   reach as far to both sides of it, within a factor of 4 */
  gconv_type type;
  bool keep_type;                  /* for GCONV_PRESENT_IMAGE: samples have the type of the input, if ... ... */
  const gconv_format_info *format; /* ... this format holds it; NULL: any. Else `type` counts */
} gconv_tone;

/* The order of the three colours that a network takes and makes. */
typedef enum gconv_colour_order {
  GCONV_ORDER_DEFAULT, /* of a network of a file: as the file says; else red first */
  GCONV_ORDER_RGB,
  GCONV_ORDER_BGR
} gconv_colour_order;

/* All may be 0. */
typedef struct gconv_network_options {
  bool gray; /* images of colours are made grey first, as gconv_options.gray does */

  gconv_colour_order order;
  /* What becomes of alpha if results are images like the input, and the network does not take alpha. KEEP: alpha is copied
   * or, for a result of another size, resized by cubic interpolation. FILTER: alpha goes through the network as a grey
   * image. DROP: results have no alpha. With KEEP and FILTER, transparent pixels get the colours of their neighbours before
   * the network sees them. PREMULTIPLY is refused. */
  gconv_alpha alpha;
  /* A network of one channel gets the brightness of colour images, as `gray` makes it. Its results are images like the
   * input: their colours are those of the input, resized by cubic interpolation. */
  bool luma;
  /* The value of white for the network: 1, or 255 for a network that was trained with levels. Inputs are scaled to these
   * units before the mean is subtracted, and results that are images like the input are divided by `white`. 0: the file's
   * value, else 1. */
  float white;

  /* The first layer sees x = (v * options.white / L - mean) / std, each operation rounded to float32; v is a sample, and L
   * is its white: 255, 65535 or 1. mean_count and std_count are 1, for all channels, or the number of channels; NULL: mean 0
   * and std 1. For integer images, means above options.white are refused: they are probably meant in levels. Mean and std
   * are not folded into weights and biases: that would change the zeros outside the image, and round differently. */
  const float *mean, *std;
  int32_t mean_count, std_count;
  gconv_math math;        /* the type to which algorithms may round products, on devices where that is faster */
  const char *algorithm;  /* algorithm for the layers that name none; NULL or "auto": the cheapest for each */
  const char *without;    /* names, separated by commas, of algorithms that auto must not choose; NULL: none */
  size_t workspace_bytes; /* limit on an algorithm's memory; a batch that needs more is split. 0: 256 MiB */
  bool any_batch;         /* auto must choose the same algorithm for any N: callers may group images in any number */

  /* How the K outputs of the last layer are combined. Sum, max and magnitude yield one output, or one per channel if a bank
   * is applied to each channel by itself. Argmax yields the number of the filter whose response is largest in any channel
   * (the first of equals). The order is that of k, and results are the same bits on every device. */
  gconv_combine combine;

  gconv_presentation presentation; /* GCONV_PRESENT_COMBINED, LABELS and CLASSES need the `combine` that they name */
  gconv_tone tone;                 /* for pictures. Labels and classes use only its type */
  const uint16_t *class_values; /* for GCONV_PRESENT_CLASSES: the numbers of the first class_value_count filters. NULL, and
                                   for further filters: the number of the filter, from 1 on */
  size_t class_value_count;
  uint64_t reserved[4];
} gconv_network_options;

/* The names of the values, such as "fp32", "none", "conv"; NULL for an unknown value. Static storage. */
const char *gconv_math_name(gconv_math math);
const char *gconv_activation_name(gconv_activation activation);
const char *gconv_layer_kind_name(gconv_layer_kind kind);

GCONV_API_END
#endif
