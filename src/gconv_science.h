/* SPDX-License-Identifier: MIT */
/*
 * gconv for scientific images: statistics of an image, arithmetic between images, local statistics, deconvolution, volumes.
 * The rules of gconv.h hold here, too.
 */
#ifndef GCONV_SCIENCE_H
#define GCONV_SCIENCE_H

#include "gconv.h"

GCONV_API_BEGIN

/* ---- Statistics ---------------------------------------------------------------------------------------------------- */

enum {
  GCONV_STATS_PERCENTILES = 16, /* the most percentiles */
  GCONV_STATS_CHANNELS = 256,   /* the most channels */
  GCONV_STATS_BINS = 256        /* of a histogram */
};

/* Statistics of one channel, or of all colours together, over all frames. Values are as the file has them: 0..255, 0..65535,
 * or floats (gconv_stats_options.unit). Samples that are NaN, infinite, or "no data" are missing: only `missing` counts
 * them. Undefined values, such as the mean of no samples, are NaN. */
typedef struct gconv_channel_stats {
  char name[16];       /* "grey", "red", "green", "blue", "alpha"; "channel 1" ...; "all": the colours together */
  uint64_t count;      /* samples that count */
  uint64_t missing;    /* samples that are NaN, infinite, or no data */
  double mean, std;    /* std: the root of the mean of squared deviations */
  double min, max;     /* the least and the largest sample */
  double black, white; /* the shares, 0..1, of samples at or below black (0), and at or above white: these may be clamped */
  double noise;        /* the standard deviation of noise by Immerkaer (1996): sqrt(pi / 2) / 6 times the mean of |response|
                          of (1 -2 1; -2 4 -2; 1 -2 1), inside the image */
  double noise_mad;    /* the same by Donoho (1994): median of |a - b - c + d| / 2 of blocks of 2 x 2, over 0.6745: edges
                          disturb it less */
  double focus;        /* the variance of the Laplacian (0 1 0; 1 -4 1; 0 1 0), border reflect101, as people compute with
                          OpenCV: sharp images have more */
  double percentiles[GCONV_STATS_PERCENTILES]; /* interpolated as numpy.percentile() does, in the order of the options */
  uint64_t histogram[GCONV_STATS_BINS];        /* counts in bins of equal width from gconv_stats.from to gconv_stats.to */
} gconv_channel_stats;

/* Zero-initialise before first use. */
typedef struct gconv_stats {
  gconv_image image; /* the header, without pixels and metadata */
  double white;      /* 255, 65535, or for floats gconv_stats_options.unit */
  double from, to;   /* the range of the histograms: 0 to 255 for u8; for other types the smallest and largest sample */
  gconv_channel_stats *channels; /* owned: each channel, then, if there are several colours, all of them together */
  size_t count;                  /* of `channels` */
  uint64_t reserved[4];
} gconv_stats;

typedef struct gconv_stats_options {
  uint64_t max_pixels;       /* gconv_read_options */
  gconv_threads *threads;    /* gconv_device_threads(); NULL: one a processor. Results are the same for any */
  const double *percentiles; /* 0..100, at most GCONV_STATS_PERCENTILES; NULL: none */
  int percentile_count;
  double unit; /* what a float sample of 1 counts as: 255 for results of filters in levels; 0: 1 */
  uint64_t reserved[4];
} gconv_stats_options;

/* Finds the statistics of an image: a file, which is read by rows, or pixels in memory. A file of floats is held in memory
 * as a whole, for percentiles. GCONV_UNSUPPORTED for more than GCONV_STATS_CHANNELS channels. options may be NULL. */
gconv_status gconv_image_stats(const gconv_compared *image, const gconv_stats_options *options, gconv_stats *stats);

/* Does the same for many files, one file per thread. report() is called for each file in the order of the paths, with its
 * status, and its statistics, which are freed after the call, or the reason of the failure. Any thread may call it, one call
 * at a time. Returns GCONV_OK even if files failed. */
typedef void gconv_stats_report(size_t index, gconv_status status, const gconv_stats *stats, const char *error, void *user);
gconv_status gconv_images_stats(const char *const *paths, size_t count, const gconv_stats_options *options,
                                gconv_stats_report *report, void *user);

/* Frees what *stats owns and zeroes it. NULL is allowed. */
void gconv_stats_free(gconv_stats *stats);

/* ---- Arithmetic ---------------------------------------------------------------------------------------------------- */

/* What is computed of x, the result of an operation, and y, a second image. */
typedef enum gconv_arithmetic {
  GCONV_ADD,           /* x + y */
  GCONV_SUBTRACT,      /* x - y */
  GCONV_SUBTRACT_FROM, /* y - x: if x is the blurred input y, the details that blurring removed */
  GCONV_MULTIPLY,      /* x * y */
  GCONV_DIVIDE,        /* x / y; where y is 0, infinite or NaN */
  GCONV_DIVIDE_INTO,   /* y / x */
  GCONV_FLAT,          /* x / (y / the mean of y's channel): y is the picture of a flat field */
  GCONV_MIX,           /* amount * x + (1 - amount) * y */
  GCONV_MAX,
  GCONV_MIN,       /* of both, NaN where either is */
  GCONV_HYPOT,     /* sqrt(x * x + y * y) */
  GCONV_BRIGHTNESS /* each colour of the input plus x - grey(input): x is one channel, what a filter makes of grey */
} gconv_arithmetic;

/* "add", "subtract" ...; NULL for any other value. Static storage. */
const char *gconv_arithmetic_name(gconv_arithmetic kind);

/* Makes an operation that executes `operation`, whose result x must be f32, and combines x and a second image y in float32.
 * Alpha stays as `operation` makes it. It goes by rows if `operation` does. amount: for GCONV_MIX. other: y, an image of the
 * size of the results, with their channels or with one; the operation keeps a copy, as floats where 1 is white. NULL: y is
 * the input of the operation. The plan fails with GCONV_BAD_ARGUMENT if sizes or channels differ. */
gconv_status gconv_operation_arithmetic(gconv_operation *operation, gconv_arithmetic kind, double amount,
                                        const gconv_image *other, gconv_operation **result);

/* ---- Local statistics ----------------------------------------------------------------------------------------------- */

/* Statistics of the samples in a window around each pixel. */
typedef enum gconv_statistic {
  GCONV_VARIANCE, /* the mean of squared deviations from the window's mean; in float results, 1 is the square of white */
  GCONV_STD,      /* its root */
  GCONV_CONTRAST  /* (the pixel - the window's mean) / std; 0 where all samples are equal */
} gconv_statistic;

/* "variance", "std", "contrast"; NULL for any other value. Static storage. */
const char *gconv_statistic_name(gconv_statistic statistic);

/* Makes an operation that finds a statistic of windows of rows x columns samples, 1 to 4096 each, in float64; results are
 * rounded once. Each channel is processed by itself; alpha stays. These options are used: border (GCONV_BORDER_NORMALIZE
 * leaves out what lies outside), strides, scale, offset, range, output type, nan (keep, skip, fill), nodata, preserves. It
 * goes by rows, on the host. GCONV_BAD_ARGUMENT, GCONV_UNSUPPORTED. */
gconv_status gconv_operation_local(gconv_statistic statistic, int32_t rows, int32_t columns, const gconv_options *options,
                                   gconv_operation **result);

/* ---- Deconvolution -------------------------------------------------------------------------------------------------- */

typedef enum gconv_deconvolution {
  GCONV_RICHARDSON_LUCY, /* for counts (Poisson noise): each iteration turns x into x * H^T(y / H x); never negative */
  GCONV_WIENER           /* in one step: the spectrum is multiplied by conj(H) / (|H|^2 + noise) */
} gconv_deconvolution;

/* The result of an iteration of Richardson-Lucy. */
typedef struct gconv_deconvolve_step {
  int32_t frame;            /* from 0 on */
  int32_t iteration, count; /* from 1 on; how many there will be at most */
  double change;            /* |x - before| / |x| */
  double flux;              /* the sum of H x over the sum of the image, of samples that count */
  double deviance;          /* mean 2 (y log(y / H x) - y + H x), before the iteration; NaN unless it was wanted */
} gconv_deconvolve_step;

typedef struct gconv_deconvolve_options {
  gconv_deconvolution method;
  int32_t
      psf_planes; /* above 1: the frames are planes of a volume, and `psf` points to so many filters of one size, along z */
  int32_t iterations;     /* of Richardson-Lucy, at most; 0: 20 */
  bool accelerated;       /* by the vectors of Biggs and Andrews (1997): some 5 to 10 times fewer iterations */
  double total_variation; /* from 0 on: the weight of total variation (Dey and others, 2006), such as 0.002; smooths noise */
  double change;          /* from 0 on: stop when the change of an iteration is smaller */
  double noise;           /* of Wiener: the ratio of the power of noise to that of the image; 0: 0.01 */
  bool deviance;          /* compute it for each step, which takes as long again */
  /* Called after each iteration; returns false to stop there. NULL: not called. */
  bool (*report)(const gconv_deconvolve_step *step, void *user);
  void *user;
  uint64_t reserved[4];
} gconv_deconvolve_options;

/* What was done to the input. */
typedef struct gconv_deconvolved {
  gconv_deconvolve_step last;             /* of the last frame */
  double psf_sum;                         /* the sum of the PSF, by which it was divided */
  int32_t psf_plane, psf_row, psf_column; /* the tap that was used as its centre: the one nearest to its centre of mass */
  uint64_t psf_negative;                  /* number of negative taps of the PSF, which counted as 0 (Richardson-Lucy) */
  uint64_t negative;                      /* number of samples below 0, which counted as 0 (Richardson-Lucy) */
  uint64_t missing;                       /* number of samples that are NaN, infinite, or "no data": their weight is 0 */
  uint64_t reserved[4];
} gconv_deconvolved;

/* Undoes the blur by a point spread function (PSF), which is normalised and centred first. Each colour of each frame is
 * restored by itself or, with options->psf_planes, each colour of the volume that all frames form; alpha stays. The result
 * has the size of the image, is f32 in units where 1 is white, and is not clamped.
 *
 * Edges: Richardson-Lucy restores an image that is larger by the PSF, and divides by H^T(M), where M is 1 on samples that
 * count (Bertero and Boccacci, 2005): so it assumes nothing about pixels outside the image, edges do not ring, and missing
 * samples are filled. Wiener extends the image by reflection, which blends into the reflection at the opposite side. The
 * flux is kept.
 *
 * device: the CPU, or a GPU, whose memory must hold a whole frame or volume; their results agree to about 1e-5 of the
 * largest sample. *result must be empty. `told` gets what was done; it may be NULL. GCONV_BAD_ARGUMENT for a PSF without
 * positive taps, or an image without samples that count; GCONV_UNSUPPORTED for rows of some 14,000 samples on a GPU;
 * GCONV_NO_MEMORY. */
gconv_status gconv_deconvolve(gconv_device *device, const gconv_image *image, const gconv_filter *psf,
                              const gconv_deconvolve_options *options, gconv_image *result, gconv_deconvolved *told);

/* ---- Volumes -------------------------------------------------------------------------------------------------------- */

typedef struct gconv_volume_options {
  gconv_options plain; /* border, border_value, flip, stride_y, stride_x, scale, offset, range (not minmax, wrap), output
                          type, format, algorithm, nan, weights (a plane for all, or a frame for each), nodata, preserves,
                          least_weight; the border holds along z, too; other fields are 0 */
  int32_t stride_z;    /* 0: 1 */
  double spacing[3];   /* micrometres between voxels along z, y and x, for lengths with units; 0: not known */
  size_t slab_bytes;   /* approximate size of the convolved planes of a slab; 0: 32 MB, or 1 GB on a GPU */
  const gconv_filter *taps; /* NULL, or a filter of three dimensions in place of `spec`: planes of one size, along z */
  int32_t tap_planes;
  bool there; /* on a GPU: the pixels of `image` and `result` are in its memory, and work goes into its per-thread stream */
  uint64_t reserved[4];
} gconv_volume_options;

/* Filters a volume: an image whose frames are planes along z, of 1 to 4 channels, side by side, without alpha.
 *
 * spec: gaussian:sigma=2, also sigma=1x2x2 (z, y, x), sigma=2um, order=0x0x1, truncate=4; box:size=3; sobel and gradient
 * (the magnitude of the derivatives); sobel_x, derivative_x (also y, z); laplacian; log:sigma=2; dog:sigma1=1; or a .npy
 * file of K x R x S taps; NULL with options->taps. The size stays, except for strides. Separable filters (products of three
 * lines) are applied along one axis after the other, other filters plane by plane. All steps are plans of plain filters, in
 * float32, and belong to the exact family if the algorithm does.
 *
 * On a GPU, slabs go to its memory and back. *result is empty, or an image of the right shape. GCONV_BAD_ARGUMENT,
 * GCONV_UNSUPPORTED, GCONV_NO_MEMORY. */
gconv_status gconv_volume_filter(gconv_device *device, const gconv_image *image, const char *spec,
                                 const gconv_volume_options *options, gconv_image *result);

/* Filters a file whose images are the planes of a volume: a .npy array Z x H x W, a TIFF of several pages. Planes are read,
 * filtered and written in slabs, so that neither volume is in memory as a whole, if the format can be read plane by plane.
 * memory: bytes that slabs may take; 0: no limit; most volumes take about 200 MB. */
gconv_status gconv_volume_filter_file(gconv_device *device, const char *input, const char *output, const char *spec,
                                      const gconv_volume_options *options, uint64_t memory);

GCONV_API_END
#endif
