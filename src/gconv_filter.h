/* SPDX-License-Identifier: MIT */
/* A part of gconv.h: filters, and the options of convolutions with them. */
#ifndef GCONV_FILTER_H
#define GCONV_FILTER_H

#include "gconv_image.h"

GCONV_API_BEGIN

/* ---- Filters ------------------------------------------------------------------------------------------------------- */

/* One R x S plane of coefficients: data only. The response at a pixel is
 * (sum over r, s of taps[r * columns + s] * sample at (y + r - anchor_row, x + s - anchor_column)) / divisor + offset. */
typedef struct gconv_filter {
  char *name;            /* owned; "sobel_x" */
  int32_t rows, columns; /* R, S: at least 1 */
  int32_t anchor_row;    /* the tap that lies on the output pixel: 0 .. rows - 1, by default rows / 2 */
  int32_t anchor_column;
  float divisor; /* finite, not 0; 1 unless the file has a scale */
  float offset;  /* in levels of the input samples (255ths for u8); 0 unless the file has one */
  float *taps;   /* owned; rows * columns, finite, by rows. A tap of 0 counts: 0 * NaN is NaN */
  bool marked;   /* a tap of -0 means that there is no tap: the filter ignores the sample there, even if that is NaN or
                    infinite. Readers of filters set this. If it is false, -0 counts as 0. A named algorithm
                    that reads such samples all the same causes a warning */
} gconv_filter;

typedef struct gconv_filters {
  gconv_filter *items; /* owned */
  size_t count;
  bool gradient; /* set by gconv_filters_read(): the list is the two derivatives that one built-in name, such as "sobel",
                    stands for. A user who gives only that name usually means their magnitude (GCONV_COMBINE_MAGNITUDE) */
} gconv_filters;

/* Appends to *list the filters that `spec` means. The first of these meanings that fits is taken:
 *   1. an existing file, in any known syntax (docs/filter-formats.md);
 *   2. a built-in name with parameters: "gaussian", "gaussian:size=9,sigma=2" (gconv_builtin_at);
 *   3. an inline ImageMagick kernel, "3x3: 0,-1,0 -1,5,-1 0,-1,0", or array, "[0 -1 0; -1 5 -1; 0 -1 0]";
 *   4. the name of a file in the folder of filters that ship with gconv (gconv_filter_folder), with or without ".txt";
 *   5. another name of a built-in filter, or its name in another case: "box:size=5", "Sobel-X".
 * `syntax` forces the syntax of a file ("matrix", "vips", "imagemagick", "opencv", "array", "npy"); NULL: known by content.
 * On failure *list is as before, and the error says file:line:column where there is one. */
gconv_status gconv_filters_read(const char *spec, const char *syntax, gconv_filters *list);

/* Frees all filters and zeroes the list. NULL is allowed. */
void gconv_filters_free(gconv_filters *list);

/* Writes the filter as a plain matrix, with a comment for its name and 9 significant digits, so that float32 survives. The
 * caller frees *text by free(). A filter with an offset or divisor becomes a vips matrix, a filter whose anchor is not the
 * default an ImageMagick kernel: only these syntaxes can say so. GCONV_UNSUPPORTED for a filter with an offset or divisor
 * and such an anchor. Ambiguous text states its syntax in a comment that gconv_filters_read() understands. */
gconv_status gconv_filter_to_text(const gconv_filter *filter, char **text);

/* Writes filters to `path` ("-": standard output), whole or not at all, so that gconv_filters_read() reads them again: a
 * single filter as the text of gconv_filter_to_text(), several filters as ImageMagick kernels. GCONV_UNSUPPORTED for several
 * filters if one has a divisor or offset. */
gconv_status gconv_filters_write(const char *path, const gconv_filters *filters);

/* A built-in generator. */
typedef struct gconv_builtin_info {
  const char *name;       /* "gaussian" */
  const char *parameters; /* names with defaults, "size=3,sigma=0.5"; "" if it has none */
  const char *help;       /* one line, with the source of the formula */
  const char *also;       /* other names that are accepted, separated by blanks; NULL: none */
} gconv_builtin_info;

/* The built-in filters in alphabetical order; NULL past the end. Static storage. */
const gconv_builtin_info *gconv_builtin_at(size_t index);

/* The syntaxes of filter files, NULL past the end: names as gconv_filters_read takes them. */
const char *gconv_filter_syntax_at(size_t index);

/* The folder of shipped filters: $GCONV_FILTERS if set, else share/gconv/filters or filters beside the folder of the
 * program, else where they were installed. Static or environment storage. */
const char *gconv_filter_folder(void);

/* Properties of a filter that follow from its taps. Sums are over taps / divisor, in float64. */
typedef struct gconv_filter_analysis {
  double sum;          /* 1: keeps brightness; 0: edges */
  double positive_sum; /* sum of the taps > 0: the largest response to an image in [0, 1] */
  double negative_sum; /* sum of the taps < 0: the smallest response */
  int64_t zero_taps;
  bool symmetric_rows, symmetric_columns;         /* equal to itself upside down; left-right mirrored */
  bool antisymmetric_rows, antisymmetric_columns; /* equal to its negative, upside down; mirrored (zero filters are not) */
  int32_t rank; /* numerical rank at float32 precision: 1 is separable, 0 all zero; -1 if too large to be analysed (over
                   512 x 512 taps) */
  uint64_t reserved[4];
} gconv_filter_analysis;

/* GCONV_BAD_ARGUMENT for a filter that breaks a rule of gconv_filter; GCONV_TOO_LARGE for more than 32,768 rows or
 * columns or 2^26 taps; GCONV_NO_MEMORY. */
gconv_status gconv_filter_analyze(const gconv_filter *filter, gconv_filter_analysis *analysis);

/* ---- What is computed ---------------------------------------------------------------------------------------------- */

/* What lies outside the image, for the row  a b c d:                                                                  */
typedef enum gconv_border {
  GCONV_BORDER_ZERO,       /*        0 0 0 | a b c d | 0 0 0 */
  GCONV_BORDER_CONSTANT,   /*        v v v | a b c d | v v v */
  GCONV_BORDER_REPLICATE,  /*        a a a | a b c d | d d d */
  GCONV_BORDER_SYMMETRIC,  /*        c b a | a b c d | d c b */
  GCONV_BORDER_REFLECT101, /*        d c b | a b c d | c b a */
  GCONV_BORDER_WRAP,       /*        b c d | a b c d | a b c */
  GCONV_BORDER_NORMALIZE   /* nothing: the taps inside the image are scaled up to the sum of all taps, which must not be 0 */
} gconv_border;

/* What becomes of float samples that are NaN or infinite, and of samples that are "no data". If samples are left out, their
 * weights w are 0, and the response is sum(t) * sum(t w x) / sum(t w): normalised convolution. */
typedef enum gconv_nan {
  GCONV_NAN_KEEP, /* NaN and infinities spread to all results that read them; samples of no data are left out, and stay */
  GCONV_NAN_SKIP, /* they are left out; if one lies under the anchor, the result is missing too */
  GCONV_NAN_FILL, /* they are left out, and filled: a result is missing only if too little weight lies under the taps */
  GCONV_NAN_ZERO  /* they count as samples of 0 */
} gconv_nan;

/* How many outputs there are along an axis. E = (R - 1) * dilation + 1 is the extent of the dilated filter. */
typedef enum gconv_padding {
  GCONV_PADDING_SAME,    /* ceil(H / stride): the anchor visits every stride-th pixel, from the first */
  GCONV_PADDING_VALID,   /* only where the filter lies inside: floor((H - E) / stride) + 1 */
  GCONV_PADDING_FULL,    /* wherever it touches the image: floor((H + E - 2) / stride) + 1 */
  GCONV_PADDING_EXPLICIT /* floor((H + top + bottom - E) / stride) + 1 */
} gconv_padding;

typedef enum gconv_alpha {
  GCONV_ALPHA_KEEP,        /* alpha is copied from the pixel below the anchor */
  GCONV_ALPHA_FILTER,      /* alpha is filtered as any channel */
  GCONV_ALPHA_PREMULTIPLY, /* colours are multiplied by alpha, all channels are filtered, and colours are divided by the
                              filtered alpha; for filters whose sum is not 0 */
  GCONV_ALPHA_DROP         /* outputs have no alpha */
} gconv_alpha;

/* How the responses of several filters become outputs. */
typedef enum gconv_combine {
  GCONV_COMBINE_NONE,      /* one output each */
  GCONV_COMBINE_MAGNITUDE, /* sqrt(sum of squares) */
  GCONV_COMBINE_SUM,
  GCONV_COMBINE_MAX,
  GCONV_COMBINE_STACK, /* one output with channels k * C + c, alpha last; planar where that exceeds 4 */
  GCONV_COMBINE_ARGMAX /* for networks alone: the number of the filter that responds most */
} gconv_combine;

/* How a response v (already scaled: v = response * scale + offset) becomes a sample. Integer samples are then saturated and
 * rounded; float ones are neither. The range is for colours: filtered alpha is only scaled and saturated. GCONV_RANGE_WRAP
 * is for users who need the casts of C, as SciPy has them: integer samples are the level of v truncated towards 0, modulo
 * 256 or 65536. It needs the CPU, and options that use the samples as they are stored (not linear, premultiplied, or with
 * filtered alpha). A u16 result holds the bits of an int16, a u8 result the bits of an int8. */
typedef enum gconv_range {
  GCONV_RANGE_CLAMP,  /* v */
  GCONV_RANGE_ABS,    /* |v| */
  GCONV_RANGE_SIGNED, /* v / 2 + 1/2: 0 is mid-grey */
  GCONV_RANGE_MINMAX, /* (v - min) / (max - min) over the colour channels of each output frame; all 0 if max = min */
  GCONV_RANGE_WRAP    /* v; for integers, the lower 8 or 16 bits of (int32_t)v; 0 if v does not fit into int32_t */
} gconv_range;

/* The options of a convolution. All may be 0, which means the defaults. */
typedef struct gconv_options {
  bool flip; /* mathematical convolution: the filter is turned by 180 degrees, about its anchor */
  gconv_border border;
  double border_value; /* for GCONV_BORDER_CONSTANT: 1 is white; in [0, 1] if outputs are integers, in units of the samples
                          for f32. It is also the alpha outside the image: so it must be 0 or 1 with GCONV_ALPHA_PREMULTIPLY,
                          and in linear light if alpha is filtered or padded */
  gconv_padding padding;
  int32_t pad_top, pad_bottom, pad_left, pad_right; /* for GCONV_PADDING_EXPLICIT; at least 0 */
  int32_t stride_y, stride_x;                       /* at least 1; 0: 1 */
  int32_t dilation_y, dilation_x;                   /* the same */

  bool gray; /* one grey channel (and alpha) first: Y' = 0.299 R + 0.587 G + 0.114 B of the stored samples (BT.601, as in
                OpenCV, MATLAB and Pillow), rounded to a level if outputs are integers; with `linear`, Y = 0.2126 R + 0.7152
                G + 0.0722 B of linear light (BT.709) */
  bool round_gray; /* the grey of integer samples is rounded even if outputs are f32: for stages before integer results */
  int32_t
      mix; /* 0, or the number of channels of the images, 1 to 4, which are mixed before all else: channel c becomes the sum
              over d of mixing[c][d] times channel d, in float32. For interleaved images without alpha; not with gray or
              linear. Mixed samples have the type of the image: integers are rounded, and saturated or wrapped (range) */
  float mixing[4][4];
  bool linear; /* filter in linear light: the sRGB curve (IEC 61966-2-1) is undone before and redone after */
  gconv_alpha alpha;

  gconv_combine combine;
  double scale, offset; /* v = response * scale + offset; a scale of 0 is 1; offset in [0, 1] units (0.5 is mid-grey); if
                           input and output are f32, in units of the samples */
  gconv_range range;
  bool sets_type; /* the output has the type output_type; else the type of the input */
  /* GCONV_I16 needs the CPU, samples as they are stored (not linear light, premultiplied alpha, no data or mixed channels),
   * and the range clamp or abs. */
  gconv_type output_type;
  const gconv_format_info *format; /* not NULL: the output type becomes one that this format stores (gconv_format_type()) */

  /* Samples with weights. The following five fields need filters whose sum is not 0, and samples as they are stored (not
   * grey, mixed, in linear light, with premultiplied alpha, minmax, wrap or i16). */
  gconv_nan nan;
  bool preserves;   /* missing samples stay missing in results, as for GCONV_NAN_SKIP, whatever `nan` is */
  bool sets_nodata; /* samples of the value `nodata`, in levels of the image, are "no data", whatever its file says */
  double nodata;    /* may be NaN */
  const gconv_image
      *weights; /* NULL, or an image of the same size, which is copied: the weight of each pixel, relative to the largest;
                   none is below 0. A colour image becomes grey; alpha is multiplied into the weights */
  double
      least_weight; /* results are missing where |sum(t w)| is below this share of sum |t|, 0 to 1; 0: the default, 2^-10 */

  const char *algorithm;             /* "auto" or NULL, or a name that gconv_algorithm_at() lists for the device */
  const char *without;               /* names, separated by commas, of algorithms that auto must not choose; NULL: none */
  size_t workspace_bytes;            /* limit on an algorithm's memory on a GPU besides input, output and taps; 0: 256 MiB */
  int32_t block_width, block_height; /* threads of a block on a GPU, across and down; the product is at most 1024. A hint for
                                        measurements, to algorithms that have a choice; both 0: the algorithm's own */
  int32_t grid_blocks; /* the most blocks of a grid, which stride over the image: a hint, as above; 0: the algorithm's own */
  uint64_t reserved[4];
} gconv_options;

/* The names of the values: "zero", "constant" ...; "none", "magnitude" ...; NULL for an unknown value. Static storage. */
const char *gconv_border_name(gconv_border border);
const char *gconv_combine_name(gconv_combine combine);

/* Correlation, zero border, same size, stride and dilation 1, alpha kept, clamp, scale 1, offset 0, the type of the input,
 * "auto": the same as all zeros, {0}, but written out. */
gconv_options gconv_options_default(void);

GCONV_API_END
#endif
