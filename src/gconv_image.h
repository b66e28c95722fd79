/* SPDX-License-Identifier: MIT */
/* A part of gconv.h: images, formats, files, and how much two images differ. */
#ifndef GCONV_IMAGE_H
#define GCONV_IMAGE_H

#include "gconv_status.h"

GCONV_API_BEGIN

/* ---- Images -------------------------------------------------------------------------------------------------------- */

/* The type of one sample. Nominal range: u8 0..255, u16 0..65535, f32 0..1 (values outside are kept).
 *
 * i16 is only for results of plain filters, such as derivatives, which have signs. Its samples are responses in the levels
 * of the input, rounded to nearest even and saturated to -32768..32767; NaN becomes 0. A white pixel under a tap of -1
 * gives -255 if the input is u8, and -1 if it is f32. Functions that read images refuse i16. */
typedef enum gconv_type { GCONV_U8, GCONV_U16, GCONV_F32, GCONV_I16 } gconv_type;

/* Bytes of one sample: 1, 2, 4 and 2; 0 for any other value. */
size_t gconv_type_bytes(gconv_type type);
/* "u8", "u16", "f32", "i16"; NULL for any other value. */
const char *gconv_type_name(gconv_type type);

/*
 * Pixels as files have them, N x H x W x C. Zero-initialise before first use.
 *
 * interleaved (planar == false): sample (n, y, x, c) is at data + n * plane_bytes + y * row_bytes, element x * channels + c.
 * planar: it is at data + (n * channels + c) * plane_bytes + y * row_bytes, element x.
 *
 * Interleaved images have 1 to 4 channels: grey, grey + alpha, RGB, RGBA (or just numbers, from .npy); planar images have
 * any number. `alpha` says that the last channel is alpha. Planar images with alpha can be written, but not filtered.
 */
typedef struct gconv_image {
  gconv_type type;
  int32_t frames;   /* N, at least 1; 1 for every photo */
  int32_t height;   /* H, at least 1 */
  int32_t width;    /* W, at least 1 */
  int32_t channels; /* C, at least 1 */
  bool planar;
  bool alpha;
  size_t row_bytes;   /* from a row to the next */
  size_t plane_bytes; /* from a plane (an interleaved frame, or one channel of a planar one) to the next */
  void *data;         /* owned by the image; aligned to 64 bytes; NULL in a header without pixels */
  void *icc;          /* ICC profile, owned, or NULL */
  size_t icc_bytes;
  double pixels_per_metre_x; /* physical resolution; 0 if unknown */
  double pixels_per_metre_y;
  double unitless_x; /* a resolution without a unit, in x ... */
  double unitless_y; /* ... and y: only their ratio, the shape of a pixel, has a meaning. 0: the file has none */
  void *exif;        /* EXIF, from "II" or "MM" on, owned, or NULL; its orientation is 1, and it has no thumbnail */
  size_t exif_bytes;
  char *xmp;        /* XMP, a text of XML in UTF-8 that ends in 0, owned, or NULL; its orientation is 1 */
  size_t xmp_bytes; /* without the 0 */
  char *comment;    /* ends in 0, owned, or NULL */
  int jpeg_quality; /* quality of the JPEG file that was read, 1 to 100, estimated from its tables; 0: unknown, or no JPEG */
  bool lossless;    /* the image was read from a lossless WebP file */
  bool cmyk;        /* the file has CMYK, which became RGB by a plain formula, without the file's profile */
  bool has_nodata;  /* pixels whose colours equal `nodata` (in samples of the image) are "no data": nothing was measured
                       there, as in a GeoTIFF. Filters leave them out of their sums (docs/guide.md) */
  double nodata;    /* may be NaN */
  void *tags; /* tags of a TIFF that say where on earth its pixels lie, for writing other TIFFs; opaque; owned, or NULL */
  size_t tags_bytes;
  char *left_out; /* owned, or NULL: lists what the file has that is not read; set by gconv_image_read_header() only */
  uint64_t reserved[4];
} gconv_image;

/* Allocates the pixels of an image whose type, frames, height, width, channels and planar are set; the samples stay
 * uninitialised. Sets row_bytes, plane_bytes (without gaps between rows) and data. GCONV_BAD_ARGUMENT for sizes below 1 or
 * more than 4 interleaved channels; GCONV_TOO_LARGE where bytes overflow; GCONV_NO_MEMORY. */
gconv_status gconv_image_allocate(gconv_image *image);

/* Whether two images have the same type, sizes, channels, layout and meaning of the last channel; gaps may differ. */
bool gconv_image_same_shape(const gconv_image *a, const gconv_image *b);

/* Copies ICC profile, resolutions, EXIF, XMP, comment, `tags`, JPEG quality and `lossless` of `from` to `to`, replacing what
 * is there. After a failure, GCONV_NO_MEMORY, `to` is as it was. */
gconv_status gconv_image_copy_metadata(gconv_image *to, const gconv_image *from);

/* Frees what the image owns and zeroes it. NULL is allowed. */
void gconv_image_free(gconv_image *image);

/* A file format. */
typedef struct gconv_format_info {
  const char *name;       /* as --format takes it: "png" */
  const char *extensions; /* separated by spaces, the usual one first: "jpg jpeg" */
  const char *help;       /* one line */
  bool reads, writes;
  bool holds[4];    /* by gconv_type: the sample types that can be written */
  bool multiframe;  /* one file can hold several images of one shape: frames > 1 */
  bool several;     /* files may have frames > 1 when they are read, even if such files cannot be written */
  bool tensors;     /* planar images can be written: arrays of any number of channels */
  bool level;       /* gconv_write_options.png_level counts */
  bool quality;     /* gconv_write_options.quality counts */
  bool lossless;    /* gconv_write_options.lossless counts */
  bool compression; /* gconv_write_options.tiff_compression counts */
  bool stores;      /* gconv_write_options.store counts */
} gconv_format_info;

/* The formats in a fixed order; NULL past the end. Static storage. */
const gconv_format_info *gconv_format_at(size_t index);
/* The format called `name`, or whose extension the file name `path` has (case does not matter); NULL if there is none. */
const gconv_format_info *gconv_format_by_name(const char *name);
const gconv_format_info *gconv_format_by_path(const char *path);
/* The type in which `format` stores results when `wanted` is asked for: `wanted` itself if the format holds it, else the
 * next more precise type that it holds, else its most precise type. */
gconv_type gconv_format_type(const gconv_format_info *format, gconv_type wanted);

/* The threads of a device, which readers and writers can use too: gconv_device_threads(). */
typedef struct gconv_threads gconv_threads;

/* The palette of a PNG or TIFF: a colour for each number. */
typedef struct gconv_palette {
  int32_t count;           /* 0: there is none */
  uint8_t colours[256][3]; /* R, G, B; colours beyond the count are 0 */
} gconv_palette;

typedef struct gconv_read_options {
  uint64_t max_pixels; /* the largest image that is decoded, as frames * height * width * ceil(channels / 4). So images
                          of 1 to 4 channels count alike. 0: the default */
  bool again;          /* the file was read before: warnings about its contents are not repeated */
  bool strip;          /* the caller does not want metadata: no warning if some cannot be read */
  bool unrounded; /* samples that would be rounded to levels of u8 or u16, such as samples of a PNM whose maxval is 2, become
                     f32: exact fractions of white, rounded once */
  uint64_t max_bytes;     /* limit on files that must be in memory as a whole (WebP; TIFF through a pipe); 0: no limit */
  gconv_palette *palette; /* not NULL: PNG and TIFF with a palette are read as palette indices, u8 in one channel, and the
                             palette is stored here as soon as the header is read; for other files its count becomes 0 */
  int32_t planes; /* for networks with this many channels. Above 1: an array of three dimensions is read as one planar image
                     C x H x W, not as a stack of frames, if its first dimension has this size and its last has not */
  uint64_t reserved[4];
} gconv_read_options;
#define GCONV_DEFAULT_MAX_PIXELS (UINT64_C(1) << 30) /* a gigapixel: 3 GB as RGB u8, 12 GB as f32 */

/* Reads the image at `path` (its format is known by its content) into *image, which must be empty. If the file has several
 * images, they become its frames. FILE:MEMBER selects one of them: a name in a .npz archive, a number from 1 in formats that
 * hold frames, such as the pages of a TIFF. An existing file whose whole name is FILE:MEMBER takes precedence. From a pipe
 * with several images, only the first is read, with a warning. The orientation of EXIF, or else of XMP, is applied, palettes
 * are expanded, depths below 8 become u8, CMYK becomes RGB. options may be NULL. */
gconv_status gconv_image_read(const char *path, const gconv_read_options *options, gconv_image *image);

/* Reads only the header: *image gets all but the pixels, as gconv_image_read() would set it, and *format (may be NULL) the
 * format. Not limited by max_pixels. */
gconv_status gconv_image_read_header(const char *path, gconv_image *image, const gconv_format_info **format);

enum { GCONV_PNG_STORED = -1 }; /* not compressed */

/* How a file holds the samples of f32 images. */
typedef enum gconv_stored_type {
  GCONV_STORE_F32, /* as they are */
  GCONV_STORE_I16, /* int16: rounded to nearest even, saturated; NaN becomes 0 */
  GCONV_STORE_F16  /* float16: rounded to nearest even; infinite beyond 65504 */
} gconv_stored_type;
/* How TIFF files are compressed, without loss. */
typedef enum gconv_tiff_compression {
  GCONV_TIFF_NONE,
  GCONV_TIFF_DEFLATE, /* by all threads */
  GCONV_TIFF_LZW,
  GCONV_TIFF_ZSTD
} gconv_tiff_compression;

typedef struct gconv_write_options {
  const gconv_format_info *format; /* NULL: by the extension of the path; "-" needs a format */
  bool keep_existing;              /* fail with GCONV_EXISTS rather than replace a file */
  int quality;                     /* for JPEG and WebP: 1 to 100; 0: the default, 90 */
  bool lossless;                   /* WebP without loss; the quality does not count */
  int png_level;                   /* 1 (fast) to 9 (small), or GCONV_PNG_STORED; 0: the default, 1 */
  int threads;           /* threads that compress, the caller's included; 0: one per processor. The file is the same */
  gconv_threads *shared; /* existing threads to compress on; NULL: the writer starts threads of its own */
  gconv_tiff_compression tiff_compression;
  gconv_stored_type store; /* for f32 images and formats that offer it; a warning counts samples out of range */
  double unit;             /* with GCONV_STORE_I16: a sample of 1 is stored as this number; 0 means 1 */
  bool strip;              /* leave out EXIF, XMP and comments; what else the format holds stays: ICC profile, resolution */
  const gconv_palette
      *palette; /* for PNG: the samples of a u8 image of one channel are indices into this palette. NULL: they are grey */
  uint64_t reserved[4];
} gconv_write_options;

/* Whether `format` can hold images like `image`, by its header; the text of GCONV_UNSUPPORTED says which formats can. */
gconv_status gconv_format_check(const gconv_format_info *format, const gconv_image *image);

/* Writes the image whole or not at all: to a temporary file beside `path`, which is then renamed. The type of the image must
 * be one that the format holds (gconv_format_type), else GCONV_UNSUPPORTED. options may be NULL. */
gconv_status gconv_image_write(const char *path, const gconv_write_options *options, const gconv_image *image);

/* ---- Comparing images ---------------------------------------------------------------------------------------------- */

/* One of two images: a file, of which only some rows are in memory at a time, or pixels in memory. */
typedef struct gconv_compared {
  const char *path;         /* as gconv_image_read() takes it */
  const gconv_image *image; /* not NULL: counts in place of the path */
} gconv_compared;

/* By how much two images a and b differ, or one frame of each. Every channel counts, alpha too. A difference is |a - b| of
 * two samples, where 1 is white. For integers, it is the difference of their levels divided by 255, or by 65535 if either
 * image is u16. If one image is f32, integer samples v of the other become v / 255 or v / 65535, rounded to float32. Samples
 * that are equal, or both NaN, differ by 0. Other pairs with an infinity or NaN differ by infinity. Sums are float64. */
typedef struct gconv_difference {
  gconv_image a, b; /* headers, without pixels and profile; of all frames */
  double white;     /* differences are multiplied by this to become levels: 255 or 65535; 1 if either image is f32 */
  uint64_t samples, differing;
  double largest;
  int32_t frame, y, x, channel; /* the place of `largest`, the first if there are several; all 0 if no sample differs */
  double mean, rmse;            /* the mean difference; the root of the mean of squared differences */
  double psnr; /* 10 log10(1 / rmse^2), in decibels: skimage.metrics.peak_signal_noise_ratio() with data_range 1; infinite
                  for equal images */
  double ssim; /* structural similarity (Wang and others, 2004) as skimage.metrics.structural_similarity() has it by default,
                  with data_range 1 and channel_axis -1: uniform windows of 7 x 7 samples, sample covariances, the mean over
                  windows inside the image and over channels. NaN for images of fewer than 7 rows or columns */
  uint64_t reserved[4];
} gconv_difference;

typedef struct gconv_compare_options {
  uint64_t max_pixels;    /* gconv_read_options */
  gconv_threads *threads; /* gconv_device_threads(); NULL: one a processor. Results are the same for any */
  /* The path of a picture to write; NULL: none. It is grey, and shows at each pixel the largest difference of any channel on
   * a logarithmic scale: 0 is black, 1 is white; 1/255 (1/65535 if samples are finer than 8 bits) and smaller differences
   * are the level 32 of 255; each doubling adds the same number of levels. Frames and planes lie below each other. */
  const char *picture;
  const gconv_write_options *write; /* how the picture is written; NULL: by its name */
  /* Called for each frame, in their order, when it is done: `frame` of *found is its number. NULL: not called. */
  void (*report)(const gconv_difference *found, void *user);
  void *user;
  uint64_t reserved[4];
} gconv_compare_options;

/* Compares two images of the same frames, height, width and channels; if these differ, GCONV_BAD_ARGUMENT names them. Their
 * types may differ. options may be NULL. On failure, no picture is written, and *result is as it was. */
gconv_status gconv_image_compare(const gconv_compared *a, const gconv_compared *b, const gconv_compare_options *options,
                                 gconv_difference *result);

GCONV_API_END
#endif
