/* SPDX-License-Identifier: MIT */
/* A part of gconv.h: banks of weights, layers, and networks of them. */
#ifndef GCONV_NETWORK_H
#define GCONV_NETWORK_H

#include "gconv_filter.h"

GCONV_API_BEGIN

/* ---- Banks --------------------------------------------------------------------------------------------------------- */

/*
 * The weights of a convolution layer: filters[k][c][r][s] at weights[((k * channels + c) * rows + r) * columns + s], the
 * order of PyTorch and ONNX. Zero-initialise before first use. Where the file says how the layer is applied (ONNX does),
 * `stride_y` and what follows it is set; else has_geometry is false.
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
  bool same_upper, same_lower; /* padding is such that outputs are ceil(H / stride), an odd pixel of it below and right
                                  (upper), or above and left (lower); the pad_ fields are 0 then */
  uint64_t reserved[4];
} gconv_bank;

/* Frees what the bank owns and zeroes it. NULL is allowed. */
void gconv_bank_free(gconv_bank *bank);

/* Reads into *bank, which must be empty, what `spec` means: the path of a file (docs/filter-formats.md: gconv-bank text,
 * .npy, safetensors, ONNX; known by content, then by name), and, where that has several, ":" and the name of one, which
 * gconv_bank_file_find() finds. A tensor NAME.weight brings NAME.bias. `syntax` forces the syntax ("bank", "npy",
 * "safetensors", "onnx"); NULL: known by content. Errors say where in the file. */
gconv_status gconv_bank_read(const char *spec, const char *syntax, gconv_bank *bank);

/* Whether `spec` names a bank, which gconv_filters_read() does not read: by the content of the file, or, where that cannot
 * be read, by its extension (.safetensors, .onnx). .npy arrays of fewer than four dimensions, or with one channel, are plain
 * filters, and so is standard input: gconv_bank_read() reads them where a bank is wanted in any case. */
bool gconv_bank_is_one(const char *spec);

/* The syntaxes of banks, NULL past the end: names as gconv_bank_read takes them. */
const char *gconv_bank_syntax_at(size_t index);

enum { GCONV_BANK_DIMENSIONS = 8 };

/* What a file of banks has: a tensor, a Conv node of a model, or, without a name, the only bank. */
typedef struct gconv_bank_entry {
  char *name;         /* owned by the file, as all here; bytes that no terminal should get are '?' */
  char *other[2];     /* names by which it can be chosen too, or NULL */
  const char *kind;   /* "tensor", "Conv", "array", "bank"; static storage */
  char type[16];      /* type of its numbers: "float32", "int8"; "" if not known */
  int32_t dimensions; /* dimensions beyond GCONV_BANK_DIMENSIONS are not in `shape` */
  uint64_t shape[GCONV_BANK_DIMENSIONS];
  const char *obstacle; /* why it cannot be read as a bank, as the end of a sentence about it; NULL if nothing is known to;
                           static storage */
} gconv_bank_entry;

/* A file of banks, of any size: lists what it has. A bank is read only when it is wanted. */
typedef struct gconv_bank_file gconv_bank_file;

/* Opens the file that `spec` names and reads what it has. `spec` and `syntax` are as above; *name, which may be NULL, gets
 * the part of `spec` after the path, or NULL if there is none. */
gconv_status gconv_bank_file_open(const char *spec, const char *syntax, gconv_bank_file **file, const char **name);
/* "safetensors" */
const char *gconv_bank_file_syntax(const gconv_bank_file *file);
/* In the order of the file; NULL past the end. Valid until the file is closed. */
const gconv_bank_entry *gconv_bank_file_at(const gconv_bank_file *file, size_t index);
/* The entry called `name`; NULL: the only one that is a bank. GCONV_BAD_ARGUMENT lists what there is. */
gconv_status gconv_bank_file_find(const gconv_bank_file *file, const char *name, size_t *index);
/* Reads an entry into *bank, which must be empty. */
gconv_status gconv_bank_file_read(gconv_bank_file *file, size_t index, gconv_bank *bank);
/* NULL is allowed. */
void gconv_bank_file_close(gconv_bank_file *file);

/* Writes the bank whole or not at all: `format` is "bank", "npy" or "safetensors"; NULL: by the extension of `path` (.txt,
 * .npy, .safetensors; "-", standard output, is text). Weights keep their bits, or GCONV_BAD_ARGUMENT if one is not finite.
 * Biases do not fit into .npy: GCONV_UNSUPPORTED if it has some that are not 0. Stride, padding, dilation and groups do not
 * fit into .npy, and names of filters into text alone: a warning tells which were left out. */
gconv_status gconv_bank_write(const char *path, const char *format, const gconv_bank *bank);

/* Stacks plain filters into a bank of one channel, which must be empty: divisors go into the taps; offsets, which are
 * 255ths, become biases of samples in [0, 1]. Filters of different sizes are laid on each other by their anchors, which
 * become the centre, at rows / 2 and columns / 2. */
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
 * with a tile for each channel. 0 is level 128, the largest |weight| 255 or 1. sheet may be NULL. GCONV_TOO_LARGE for sheets
 * of more than GCONV_DEFAULT_MAX_PIXELS. */
gconv_status gconv_bank_draw(const gconv_bank *bank, const gconv_bank_sheet *sheet, gconv_image *image);

/* ---- Layers: batched multi-channel convolution ------------------------------------------------------------------------ */

/* What becomes of sum + bias: a row of each activation that looks at one sample, with its name in files and texts. Softmax
 * looks at several. */
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

/* What a layer does: a row of each kind, with its name in files and texts. A network with one of the kinds from maxpool on
 * runs as a graph of nodes: it needs gconv_operation_of_network(). */
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
  GCONV_LAYER_DEFAULT,    /* as the bank says, where it has geometry; else same */
  GCONV_LAYER_SAME,       /* ceil(H / stride): tap R / 2 visits every stride-th pixel, from the first */
  GCONV_LAYER_VALID,      /* only where the filter lies inside: floor((H - E) / stride) + 1 */
  GCONV_LAYER_FULL,       /* wherever it touches the image: floor((H + E - 2) / stride) + 1 */
  GCONV_LAYER_EXPLICIT,   /* floor((H + top + bottom - E) / stride) + 1 */
  GCONV_LAYER_SAME_UPPER, /* ceil(H / stride), as few zeros as that takes, the odd one below and right (ONNX, TensorFlow) */
  GCONV_LAYER_SAME_LOWER  /* the same, the odd one above and left */
} gconv_layer_padding;

/*
 * A layer of a network. Of convolutions, it is a bank and how it is applied, and all but `bank` may be 0: then it is as the
 * bank says, where it has geometry. Of other kinds, these fields are set, and all others are 0: of pools window and stride;
 * of upconv bank, stride, activation and slope; of shuffle window_y and window_x, which are both N; of concat and add
 * `from`; of prelu the bank, C x 1 x 1 x 1 without biases; of batchnorm activation, slope
 * and the bank, C x 3 x 1 x 1: scale, mean and variance of each channel, with biases.
 *
 * With G groups, the input has G * bank->channels channels, and group g of the K filters sees the g-th part of them. A bank
 * of one channel whose groups nothing sets is applied to each of C channels by itself, and yields C * K, channel c * K + k
 * being the result of filter k.
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
  gconv_border border;   /* the values outside the layer's own input, as padding_mode of PyTorch says it: zeros by default */
  double border_value;   /* for GCONV_BORDER_CONSTANT: a value of that input, which for the first layer is normalised */
  int32_t window_y, window_x; /* rows and columns of the windows of pools; N of shuffle */
  int32_t from;               /* of concat and add: 0, the input of the network as its first layer sees it; i: the output of
                                 layers[i - 1] */
  uint64_t reserved[4];
} gconv_layer;

/* What the outputs of a network are. */
typedef enum gconv_presentation {
  GCONV_PRESENT_TENSOR,   /* one array, N x K x P x Q: f32 and planar */
  GCONV_PRESENT_PICTURES, /* a picture for each filter; where a bank is applied to each of 3 channels by itself, in colour */
  GCONV_PRESENT_MOSAIC,   /* one picture with all of them as tiles */
  GCONV_PRESENT_COMBINED, /* one picture of the combined responses, of 1 channel or 3 */
  GCONV_PRESENT_LABELS,   /* one picture with a colour for each filter: of argmax */
  GCONV_PRESENT_IMAGE,    /* one picture like the input, with its alpha: for outputs of as many channels and the same size */
  GCONV_PRESENT_CLASSES   /* one picture of one channel, u8 or u16, with a number for each filter: of argmax */
} gconv_presentation;

/* How the values of maps become samples of pictures. */
typedef struct gconv_tone {
  double scale, offset; /* v * scale + offset, then the range; a scale of 0 is 1 */
  gconv_range range;    /* minmax: of each picture, or tile, by itself */
  bool fit; /* instead: between black and white lie all values but the hundredth on either side; 0 in the middle, if they */
            /*   reach as far to both sides of it, within a factor of 4 */
  gconv_type type;
  bool keep_type;                  /* for GCONV_PRESENT_IMAGE: the type of the input, where ... */
  const gconv_format_info *format; /* ... this format holds it; NULL: any. Else `type` counts */
} gconv_tone;

/* All may be 0. */
/* The order of the three colours that a network takes and makes. */
typedef enum gconv_colour_order {
  GCONV_ORDER_DEFAULT, /* of a network of a file: as the file says; else red first */
  GCONV_ORDER_RGB,
  GCONV_ORDER_BGR
} gconv_colour_order;

typedef struct gconv_network_options {
  bool gray; /* images of colours are made grey first, as gconv_options.gray does */

  gconv_colour_order order;
  /* Alpha, where results are images like the input and the network does not take it. KEEP: it is copied or, in a result of
   * another size, resized by cubic interpolation; FILTER: it goes through the network as a grey image; DROP: results have
   * none. The network sees colours of neighbours where pixels are transparent, but for DROP. PREMULTIPLY is refused. */
  gconv_alpha alpha;
  /* A network of one channel gets the brightness of colour images, as `gray` makes it. Its results are images like the
   * input: they get the colours of the image, resized by cubic interpolation. */
  bool luma;
  /* What white is for the network: 1, or 255 for one that was trained with levels. x is then v in these units, less the
   * mean, and results that are images like the input are divided by it. 0: as the file of the network says; else 1. */
  float white;

  /* x = (v / white - mean) / std, each operation rounded to float32, white being 255, 65535 or 1. As many as counted: 1 for
   * all channels, or one each; NULL: 0 and 1. Means beyond options.white are refused for integer images, as meant in levels.
   * Nothing is folded into weights and biases: that would change the zeros outside the image, and round differently. */
  const float *mean, *std;
  int32_t mean_count, std_count;
  gconv_math math;        /* the type to which algorithms may round products, on devices where that is faster */
  const char *algorithm;  /* algorithm for the layers that name none; NULL or "auto": the cheapest for each */
  const char *without;    /* names with commas between that auto shall not choose; NULL: none */
  size_t workspace_bytes; /* that an algorithm may take; a batch that needs more is done in parts. 0: the default, 256 MiB */
  bool any_batch;         /* images may be put together in any number: auto chooses the same whatever N is */

  /* What becomes of the K outputs of the last layer. Sum, max and magnitude: one, of each channel for a bank that is applied
   * to each by itself. Argmax: a map of the number of the filter whose response is largest (the first of equals), in any
   * channel. In the order of k; the same bits on every device. */
  gconv_combine combine;

  gconv_presentation presentation; /* combined, labels and classes say what they are of */
  gconv_tone tone;                 /* for pictures. Labels and classes use only its type */
  const uint16_t *class_values; /* for classes: the number of each filter, as many as counted; NULL, and for other filters:
                                   the number of the filter, from 1 on */
  size_t class_value_count;
  uint64_t reserved[4];
} gconv_network_options;

/* "fp32", "none": the values of these types in words; NULL for any other value. Static storage. */
const char *gconv_math_name(gconv_math math);
const char *gconv_activation_name(gconv_activation activation);
const char *gconv_layer_kind_name(gconv_layer_kind kind);

GCONV_API_END
#endif
