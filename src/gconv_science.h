/* SPDX-License-Identifier: MIT */
/*
 * gconv for pictures of science: numbers of an image, arithmetic between images,
 * deconvolution. The rules of gconv.h hold here, too.
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
 * or floats (gconv_stats_options.unit). Samples that are NaN, infinite, or no data are missing: nothing counts them but
 * `missing`. What is not defined, such as the mean of no samples, is NaN. */
typedef struct gconv_channel_stats {
  char name[16];       /* "grey", "red", "green", "blue", "alpha"; "channel 1" ...; "all": the colours together */
  uint64_t count;      /* samples that count */
  uint64_t missing;    /* samples that are NaN, infinite, or no data */
  double mean, std;    /* std: the root of the mean of squared deviations */
  double min, max;     /* the least and the largest sample */
  double black, white; /* shares, 0..1, of samples at or below black (0), and at or above white: clamped ones are there */
  double noise;        /* the standard deviation of noise by Immerkaer (1996): sqrt(pi / 2) / 6 times the mean of |response|
                          of (1 -2 1; -2 4 -2; 1 -2 1), inside the image */
  double noise_mad;    /* the same by Donoho (1994): median of |a - b - c + d| / 2 of blocks of 2 x 2, over 0.6745: edges
                          disturb it less */
  double focus;        /* the variance of the Laplacian (0 1 0; 1 -4 1; 0 1 0), border reflect101, as people compute with
                          OpenCV: sharp images have more */
  double percentiles[GCONV_STATS_PERCENTILES]; /* interpolated as numpy.percentile() does, in the order of the options */
  uint64_t histogram[GCONV_STATS_BINS];        /* of gconv_stats.from to .to, in equal steps */
} gconv_channel_stats;

/* Zero-initialise before first use. */
typedef struct gconv_stats {
  gconv_image image;             /* the header, without pixels and metadata */
  double white;                  /* 255, 65535, or of floats the unit */
  double from, to;               /* the range of the histograms: 0 to 255 of u8; of others the least and largest sample */
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

/* Finds the statistics of an image: a file, of which some rows are in memory at a time, or pixels in memory. Floats are
 * held whole, for their percentiles. GCONV_UNSUPPORTED for more than GCONV_STATS_CHANNELS channels. options may be NULL.
 * On failure, *stats is as it was. */
gconv_status gconv_image_stats(const gconv_compared *image, const gconv_stats_options *options, gconv_stats *stats);

/* Does the same for many files, a file a thread. report() gets each in the order of the paths: its status, and the
 * statistics, which are freed after the call, or the reason of the failure. It is called in any thread, one call at a time.
 * Returns GCONV_OK even if files failed. */
typedef void gconv_stats_report(size_t index, gconv_status status, const gconv_stats *stats, const char *error, void *user);
gconv_status gconv_images_stats(const char *const *paths, size_t count, const gconv_stats_options *options,
                                gconv_stats_report *report, void *user);

/* Frees what it owns and zeroes it. NULL is allowed. */
void gconv_stats_free(gconv_stats *stats);

/* ---- Arithmetic ---------------------------------------------------------------------------------------------------- */

/* What is computed of x, the result of an operation, and y, a second image. */
typedef enum gconv_arithmetic {
  GCONV_ADD,           /* x + y */
  GCONV_SUBTRACT,      /* x - y */
  GCONV_SUBTRACT_FROM, /* y - x: of a blurred image, the details that the input has besides */
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

/* Makes an operation that executes another one, whose result must be f32, and computes with it and a second image, in
 * float32. Alpha stays as `operation` makes it. It goes by rows if `operation` does.
 * amount: of GCONV_MIX. other: a picture of the size of the results, with their channels or with one, of which a copy is
 * kept, as floats where 1 is white; NULL: the input of the operation. The plan fails with GCONV_BAD_ARGUMENT if sizes or
 * channels differ. */
gconv_status gconv_operation_arithmetic(gconv_operation *operation, gconv_arithmetic kind, double amount,
                                        const gconv_image *other, gconv_operation **result);

/* ---- Local statistics ----------------------------------------------------------------------------------------------- */

/* Of the samples in a window around each pixel. */
typedef enum gconv_statistic {
  GCONV_VARIANCE, /* the mean of squared deviations from the window's mean; of float results, 1 is white squared */
  GCONV_STD,      /* its root */
  GCONV_CONTRAST  /* (the pixel - the window's mean) / std; 0 where all samples are equal */
} gconv_statistic;

/* "variance", "std", "contrast"; NULL for any other value. Static storage. */
const char *gconv_statistic_name(gconv_statistic statistic);

/* Makes an operation that finds a statistic of windows of rows x columns samples, 1 to 4096 each, in float64; results are
 * rounded once. Each channel is by itself; alpha stays. options: border (GCONV_BORDER_NORMALIZE leaves out what lies
 * outside), strides, scale, offset, range, output type, nan (keep, skip, fill), nodata, preserves. It goes by rows, on the
 * host. GCONV_BAD_ARGUMENT, GCONV_UNSUPPORTED. */
gconv_status gconv_operation_local(gconv_statistic statistic, int32_t rows, int32_t columns, const gconv_options *options,
                                   gconv_operation **result);

/* ---- Deconvolution -------------------------------------------------------------------------------------------------- */

typedef enum gconv_deconvolution {
  GCONV_RICHARDSON_LUCY, /* for counts: x becomes x * H^T(y / H x), again and again; never negative */
  GCONV_WIENER           /* at once: conj(H) / (|H|^2 + noise) of the spectrum */
} gconv_deconvolution;

/* What an iteration of Richardson-Lucy came to. */
typedef struct gconv_deconvolve_step {
  int32_t frame;            /* from 0 on */
  int32_t iteration, count; /* from 1 on; how many there will be at most */
  double change;            /* |x - before| / |x| */
  double flux;              /* the sum of H x over the sum of the image, of samples that count */
  double deviance;          /* mean 2 (y log(y / H x) - y + H x), before the iteration; NaN unless it was wanted */
} gconv_deconvolve_step;

typedef struct gconv_deconvolve_options {
  gconv_deconvolution method;
  int32_t psf_planes;     /* above 1: the frames are planes of a volume, and `psf` so many filters of one size, along z */
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
  double psf_sum;                         /* by which the PSF was divided */
  int32_t psf_plane, psf_row, psf_column; /* the tap that was taken for its centre: the nearest to its centre of mass */
  uint64_t psf_negative;                  /* negative taps of the PSF, which were taken for 0 (of Richardson-Lucy) */
  uint64_t negative;                      /* samples below 0, which were taken for 0 (of Richardson-Lucy) */
  uint64_t missing;                       /* samples that are NaN, infinite, or no data: they have no weight */
  uint64_t reserved[4];
} gconv_deconvolved;

/* Undoes the blur by a point spread function, which is normalised, and centred. Each colour of each frame is restored by
 * itself, or, with options->psf_planes, of all frames as one volume; alpha stays. The result has the size of the image, is
 * f32 in its units (1 is white), and is not clamped.
 *
 * Edges: Richardson-Lucy restores an image that is larger by the PSF, and divides by H^T(M), where M is 1 on samples that
 * count (Bertero and Boccacci, 2005): so nothing is assumed of what lies outside, no ring enters, and missing samples are
 * filled. Wiener extends the image by reflection, which fades into the reflection of the other side. The flux is kept.
 *
 * device: the CPU, or a GPU, to whose memory a frame or volume goes as a whole; both agree to some 1e-5 of the largest
 * sample. *result must be empty. told may be NULL. GCONV_BAD_ARGUMENT for a PSF without positive taps, or an image without
 * samples that count; GCONV_UNSUPPORTED for rows too long for a GPU (some 14,000 samples); GCONV_NO_MEMORY. */
gconv_status gconv_deconvolve(gconv_device *device, const gconv_image *image, const gconv_filter *psf,
                              const gconv_deconvolve_options *options, gconv_image *result, gconv_deconvolved *told);

/* ---- Volumes -------------------------------------------------------------------------------------------------------- */

typedef struct gconv_volume_options {
  gconv_options plain; /* border, border_value, flip, stride_y, stride_x, scale, offset, range (not minmax, wrap), output
                          type, format, algorithm, nan, weights (a plane for all, or a frame for each), nodata, preserves,
                          least_weight; the border holds along z, too; other fields are 0 */
  int32_t stride_z;    /* 0: 1 */
  double spacing[3];   /* micrometres between voxels along z, y and x, for lengths with units; 0: not known */
  size_t slab_bytes;   /* about how large the convolved planes of a slab are; 0: 32 MB, and 1 GB on a GPU */
  const gconv_filter *taps; /* NULL, or a filter of three dimensions in place of `spec`: planes of one size, along z */
  int32_t tap_planes;
  bool there; /* of a GPU: the pixels of volume and result are in its memory, and work in its per-thread stream */
  uint64_t reserved[4];
} gconv_volume_options;

/* Filters a volume: an image whose frames are planes along z, of 1 to 4 channels, side by side, without alpha.
 *
 * spec: gaussian:sigma=2, also sigma=1x2x2 (z, y, x), sigma=2um, order=0x0x1, truncate=4; box:size=3; sobel and gradient, of
 * which the magnitude is taken; sobel_x, derivative_x (y, z); laplacian; log:sigma=2; dog:sigma1=1; or a .npy file of
 * K x R x S taps; NULL with options->taps. All keep the size, but for the strides. Filters that are products of three lines
 * go line by line, others plane by plane; all steps are plans of plain filters, in float32, and of the exact family, if the
 * algorithm is.
 *
 * On a GPU, slabs go to its memory and back. *result is empty, or an image of the right shape. GCONV_BAD_ARGUMENT,
 * GCONV_UNSUPPORTED, GCONV_NO_MEMORY. */
gconv_status gconv_volume_filter(gconv_device *device, const gconv_image *image, const char *spec,
                                 const gconv_volume_options *options, gconv_image *result);

/* Filters a file that has several images, which are planes: a .npy array Z x H x W, a TIFF of several pages. Planes are
 * read, filtered and written in slabs, so that neither volume is in memory as a whole, if the format gives them one after
 * the other. memory: bytes that slabs may take; 0: any, which is some 200 MB of most volumes. */
gconv_status gconv_volume_filter_file(gconv_device *device, const char *input, const char *output, const char *spec,
                                      const gconv_volume_options *options, uint64_t memory);

GCONV_API_END
#endif
