/* SPDX-License-Identifier: MIT */
/* A part of gconv.h: images, formats, files, and how much two images differ. */
#ifndef GCONV_IMAGE_H
#define GCONV_IMAGE_H

#include "gconv_status.h"

GCONV_API_BEGIN

/* ---- Images -------------------------------------------------------------------------------------------------------- */

/* The type of one sample. Nominal range: u8 0..255, u16 0..65535, f32 0..1 (values outside are kept).
 *
 * i16 is for results of plain filters alone, such as derivatives, which have signs. Its samples are responses in the levels
 * of the input (of u8, a white pixel under a tap of -1 is -255; of f32, 1 is white), rounded to nearest even and saturated
 * to -32768..32767; NaN becomes 0. What reads images refuses i16. */
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
 * Interleaved images have 1 to 4 channels: grey, grey + alpha, RGB, RGBA (or just numbers, from .npy); planar ones any
 * number. `alpha` says that the last channel is alpha; planar images that have it can be written, not filtered.
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
  double
      unitless_x; /* the resolution where the file has it without a unit: only their ratio means something, such as pixels */
  double unitless_y; /* that are no squares. 0 if there is none */
  void *exif;        /* EXIF, from "II" or "MM" on, owned, or NULL; its orientation is 1, and it has no thumbnail */
  size_t exif_bytes;
  char *xmp;        /* XMP, a text of XML in UTF-8 that ends in 0, owned, or NULL; its orientation is 1 */
  size_t xmp_bytes; /* without the 0 */
  char *comment;    /* ends in 0, owned, or NULL */
  int jpeg_quality; /* quality of the JPEG file that was read, 1 to 100, estimated from its tables; 0: unknown, or no JPEG */
  bool lossless;    /* the WebP file that it was read from is one without loss */
  bool cmyk;        /* the file that it was read from has CMYK, which became RGB by a plain formula, without its profile */
  bool has_nodata;  /* colours that equal `nodata`, as samples of the image, are no data: places where nothing was measured,
                       as  a GeoTIFF names them. Filters leave them out of their sums (docs/guide.md) */
  double nodata;    /* may be NaN */
  void *tags; /* tags of a TIFF that tell where its pixels lie, for other TIFFs; owned, or NULL. What is in it is gconv's own
               */
  size_t tags_bytes;
  char *left_out; /* owned, or NULL: a text of what else the file has, unread; of gconv_image_read_header() alone */
  uint64_t reserved[4];
} gconv_image;

/* Allocates the pixels of an image whose type, frames, height, width, channels and planar are set; their values are not.
 * Sets row_bytes, plane_bytes (without gaps between rows) and data. GCONV_BAD_ARGUMENT for sizes below 1 or more than 4
 * interleaved channels; GCONV_TOO_LARGE where bytes overflow; GCONV_NO_MEMORY. */
gconv_status gconv_image_allocate(gconv_image *image);

/* Whether two images have the same type, sizes, channels, layout and meaning of the last channel, whatever lies between
 * their rows. */
bool gconv_image_same_shape(const gconv_image *a, const gconv_image *b);

/* Copies ICC profile, resolution, EXIF, XMP, comment, JPEG quality and `lossless` of `from` to `to`, replacing what is
 * there. After a failure, GCONV_NO_MEMORY, `to` is as it was. */
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
  bool several;     /* files that are read may have frames > 1, even if they cannot be written */
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
/* The type in which `format` stores results when `wanted` is asked for: `wanted` itself if it is held, else the next better
 * one held, else the best. */
gconv_type gconv_format_type(const gconv_format_info *format, gconv_type wanted);

/* Threads of a device, on which readers and writers can work too: gconv_device_threads(). */
typedef struct gconv_threads gconv_threads;

/* Colours by numbers, as palettes of PNG and TIFF have them. */
typedef struct gconv_palette {
  int32_t count;           /* 0: there is none */
  uint8_t colours[256][3]; /* R, G, B; colours beyond the count are 0 */
} gconv_palette;

typedef struct gconv_read_options {
  uint64_t max_pixels; /* frames * height * width of the largest image that is decoded, four planes counted once; 0: the
                          default */
  bool again;          /* it was read before: no warning of its contents is given a second time */
  bool strip;          /* metadata are not wanted: no warning of metadata that are not read */
  bool unrounded; /* samples that would be rounded to levels of u8 or u16, such as samples of a PNM whose maxval is 2, become
                     f32: exact fractions of white, rounded once */
  uint64_t max_bytes; /* the most bytes of a file that is held in memory as a whole (WebP; TIFF through a pipe); 0: any */
  gconv_palette *palette; /* not NULL: PNG and TIFF with a palette are read as its numbers, u8 in one channel, and the
                             palette is put here, as soon as the header is read; of any others, its count becomes 0 */
  int32_t planes; /* above 1: an array of three dimensions whose first has this size, and whose last has not, is one image
                     C x H x W, planar, and no stack of frames; as a network with so many channels needs it */
  uint64_t reserved[4];
} gconv_read_options;
#define GCONV_DEFAULT_MAX_PIXELS (UINT64_C(1) << 30) /* a gigapixel: 3 GB as RGB u8, 12 GB as f32 */

/* Reads the image at `path` (its format is known by its content) into *image, which must be empty. All images of a file of
 * several become its frames. FILE:MEMBER is one of them: a name in a .npz archive, a number from 1 in formats that hold
 * frames, such as the pages of a TIFF. A file that is called so as a whole comes first. Of a pipe with several images, the
 * first is read, with a warning. The orientation that EXIF or, if that does not say, XMP has is applied, palettes are
 * expanded, depths below 8 become u8, CMYK becomes RGB. options may be NULL. */
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
  int threads;                     /* that compress, with the caller's; 0: one a processor. The file is the same for any */
  gconv_threads *shared;           /* to compress on, in place of threads of its own; NULL: none */
  gconv_tiff_compression tiff_compression;
  gconv_stored_type store;      /* for f32 images and formats that offer it; a warning counts samples out of range */
  double unit;                  /* with GCONV_STORE_I16: what a sample of 1 becomes; 0: 1 */
  bool strip;                   /* leave out EXIF, XMP and the comment; ICC profile and resolution stay */
  const gconv_palette *palette; /* for PNG: images of one channel, u8, are numbers of these colours. NULL: they are grey */
  uint64_t reserved[4];
} gconv_write_options;

/* Whether `format` can hold images like `image` (its header counts, not its pixels); GCONV_UNSUPPORTED says what can. */
gconv_status gconv_format_check(const gconv_format_info *format, const gconv_image *image);

/* Writes the image whole or not at all: beside `path`, then renamed. The type of the image must be one that the format holds
 * (gconv_format_type), else GCONV_UNSUPPORTED. options may be NULL. */
gconv_status gconv_image_write(const char *path, const gconv_write_options *options, const gconv_image *image);

/* ---- Comparing images ---------------------------------------------------------------------------------------------- */

/* One of two images: a file, of which only some rows are in memory at a time, or pixels in memory. */
typedef struct gconv_compared {
  const char *path;         /* as gconv_image_read() takes it */
  const gconv_image *image; /* not NULL: counts in place of the path */
} gconv_compared;

/* By how much two images a and b differ, or one frame of each. Every channel counts, alpha too. A difference is |a - b| of
 * two samples, where 1 is white: for integers, the difference of their levels, divided by 255, or by 65535 if either image
 * is u16; where one image is f32, integers become v / 255 or v / 65535, rounded to float32. Samples that are equal, or both
 * NaN, differ by 0. Other pairs with a sample that is infinite or NaN differ by infinity. Sums are float64. */
typedef struct gconv_difference {
  gconv_image a, b; /* headers, without pixels and profile; of all frames */
  double white;     /* a difference times this is in levels: 255 or 65535; 1 where either image is f32 */
  uint64_t samples, differing;
  double largest;
  int32_t frame, y, x, channel; /* where the first difference as large as that is; all 0 if there is none */
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
  /* The path of a picture to write; NULL: none. Grey, with the largest difference of any channel at each pixel: 0 is black;
   * 1/255 (if samples are finer than 8 bits, 1/65535), and what is less, is the level 32 of 255; each doubling adds the same
   * to it, up to white for 1. Frames and planes lie below each other. */
  const char *picture;
  const gconv_write_options *write; /* how the picture is written; NULL: by its name */
  /* Called for each frame, in their order, when it is done: `frame` of *found is its number. NULL: not called. */
  void (*report)(const gconv_difference *found, void *user);
  void *user;
  uint64_t reserved[4];
} gconv_compare_options;

/* Compares two images of the same frames, height, width and channels, else GCONV_BAD_ARGUMENT says which they have. Their
 * types may differ. options may be NULL. On failure, no picture is written, and *result is as it was. */
gconv_status gconv_image_compare(const gconv_compared *a, const gconv_compared *b, const gconv_compare_options *options,
                                 gconv_difference *result);

GCONV_API_END
#endif
