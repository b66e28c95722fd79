/* SPDX-License-Identifier: MIT */
/*
 * gconv: filter and convolve images, exactly and fast, on the CPU and on CUDA GPUs.
 *
 * This is the public header: C11, and usable from C++. gconv_jobs.h beside it runs an operation over folders of images. The
 * way of the data is one street:
 *
 *     path -> image -> operation -> image -> path
 *
 *     gconv_image_read()         gconv_filters_read()   gconv_device_open()
 *     gconv_operation_filters()  gconv_plan_create()    gconv_plan_execute()   gconv_image_write()
 *
 * Rules that hold for every function here:
 *  - A gconv_status is returned where something can fail. On failure the reason, and what to do about it, is in
 *    gconv_last_error() of the same thread, and every output argument is left as it was, or empty and safe to free.
 *  - Nothing is printed, and the process is never ended. Warnings go to the function given to gconv_set_log().
 *  - Different objects may be used by different threads at the same time; one object by one thread at a time, but for
 *    operations and plans, which any number of threads may use, and devices, which plans on different threads may share.
 *  - Outputs share no memory with inputs or other outputs, not even in part: such arguments are refused
 * (GCONV_BAD_ARGUMENT). So nothing works in place. Views of one buffer are taken if their rows lie beside each other, or do
 * not mix.
 *  - Strings are UTF-8 or plain bytes; a path "-" is standard input or standard output.
 *  - Pointers in an argument list are required unless "may be NULL" is said.
 *  - Every argument is checked before it is used. One that is wrong (a required pointer that is NULL, a number out of its
 *    range, an enumeration's value that is none, pixels whose rows overlap) gives GCONV_BAD_ARGUMENT, and the text names it;
 *    functions without a status return NULL, 0 or false. How long arrays and texts really are cannot be checked.
 */
#ifndef GCONV_H
#define GCONV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lets a compiler hold the arguments of a function to its format, as it does for printf(). */
#if defined(__GNUC__)
#define GCONV_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define GCONV_PRINTF(text, first)
#endif

/* Makes the values of an enumeration of the rows of its list, such as GCONV_EACH_LAYER_KIND. */
#define GCONV_LISTED(name, value) value,

#if defined(__GNUC__) /* what a shared library shows */
#pragma GCC visibility push(default)
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status -------------------------------------------------------------------------------------------------------- */

typedef enum gconv_status {
  GCONV_OK = 0,
  GCONV_BAD_ARGUMENT, /* an argument, option or name that fits nothing: the caller's request is wrong */
  GCONV_BAD_FILE,     /* the contents of a file are not what its format demands */
  GCONV_IO_ERROR,     /* the system refused to open, read, write or rename */
  GCONV_EXISTS,       /* the output exists and the caller asked to keep it */
  GCONV_TOO_LARGE,    /* over a limit that has a name, such as max_pixels */
  GCONV_NO_MEMORY,    /* an allocation failed, on the host or on the device */
  GCONV_UNSUPPORTED,  /* understood, but not by this algorithm, device, format or build */
  GCONV_DEVICE_ERROR, /* the device failed */
  GCONV_MISMATCH,     /* a verification found an error larger than allowed */
  GCONV_STOPPED       /* the caller wanted no more: gconv_control_use() in gconv_embed.h */
} gconv_status;

/* The text of the last failure in this thread: one or a few sentences without a final newline. Never NULL; "" before any
 * failure. Valid until the next failing call in the same thread. */
const char *gconv_last_error(void);

/* "1.2.3" */
const char *gconv_version(void);
/* What this library was built with, for reports of faults: names and versions such as "libpng 1.6.39", or "no CUDA" for what
 * was left out; NULL past the end. Static storage. */
const char *gconv_built_with(size_t index);

/* Where warnings and, if wanted, remarks go. */
typedef enum gconv_log_level { GCONV_LOG_WARNING, GCONV_LOG_REMARK } gconv_log_level;
typedef void gconv_log_function(gconv_log_level level, const char *text, void *user);

/* Set before other threads use the library. NULL (the default) drops everything. The function may be called from any
 * thread; text has no final newline. */
void gconv_set_log(gconv_log_function *function, void *user);

/* Async-signal-safe: removes every output of this process that is not complete yet. For a signal handler that then ends the
 * process: finished outputs stay, nothing half-written does. No output can be begun afterwards. */
void gconv_remove_unfinished(void);

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
} gconv_compare_options;

/* Compares two images of the same frames, height, width and channels, else GCONV_BAD_ARGUMENT says which they have. Their
 * types may differ. options may be NULL. On failure, no picture is written, and *result is as it was. */
gconv_status gconv_image_compare(const gconv_compared *a, const gconv_compared *b, const gconv_compare_options *options,
                                 gconv_difference *result);

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
  bool marked; /* A tap of -0 is a place without a tap: the filter does not look at the sample there, even if that is NaN or
                  infinite. Readers of filters set this. If it is false, -0 counts as 0. A named algorithm that looks at
                  such samples all the same is told of in a warning */
} gconv_filter;

typedef struct gconv_filters {
  gconv_filter *items; /* owned */
  size_t count;
  bool gradient; /* set by gconv_filters_read(): they are the two derivatives that one built-in name, such as "sobel", stands
                    for; where it stands alone, the magnitude of both is usually meant (GCONV_COMBINE_MAGNITUDE) */
} gconv_filters;

/* Appends to *list the filters that `spec` means, the first that fits of:
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

/* Writes the filter as a plain matrix, with a comment for its name and 9 significant digits, so that float32 survives.
 * *text is owned by the caller: free(). An offset or divisor makes it a vips matrix, which has both; an anchor that is not
 * the default makes it an ImageMagick kernel, which has one; GCONV_UNSUPPORTED for a filter that has both. Text that could
 * be read in two ways states its syntax in a comment that gconv_filters_read understands. */
gconv_status gconv_filter_to_text(const gconv_filter *filter, char **text);

/* Writes filters to `path` ("-": standard output), whole or not at all, so that gconv_filters_read() reads them again: one
 * as such a text, several as ImageMagick kernels. GCONV_UNSUPPORTED for several of which one has a divisor or offset. */
gconv_status gconv_filters_write(const char *path, const gconv_filters *filters);

/* A built-in generator. */
typedef struct gconv_builtin_info {
  const char *name;       /* "gaussian" */
  const char *parameters; /* names with defaults, "size=3,sigma=0.5"; "" if it has none */
  const char *help;       /* one line, with the source of the formula */
  const char *also;       /* other names that are taken for it, with blanks between; NULL: none */
} gconv_builtin_info;

/* The built-in filters in alphabetical order; NULL past the end. Static storage. */
const gconv_builtin_info *gconv_builtin_at(size_t index);

/* The syntaxes of filter files, NULL past the end: names as gconv_filters_read takes them. */
const char *gconv_filter_syntax_at(size_t index);

/* The folder of shipped filters: $GCONV_FILTERS if set, else share/gconv/filters or filters beside the folder of the
 * program, else where they were installed. Static or environment storage. */
const char *gconv_filter_folder(void);

/* What can be said of a filter from its taps. All sums are taken in float64 of taps / divisor. */
typedef struct gconv_filter_analysis {
  double sum;          /* 1: keeps brightness; 0: edges */
  double positive_sum; /* sum of the taps > 0: the largest response to an image in [0, 1] */
  double negative_sum; /* sum of the taps < 0: the smallest response */
  int64_t zero_taps;
  bool symmetric_rows, symmetric_columns;         /* equal to itself upside down; left-right mirrored */
  bool antisymmetric_rows, antisymmetric_columns; /* equal to its negative, upside down; mirrored (zero filters are not) */
  int32_t rank; /* numerical rank at float32 precision: 1 is separable, 0 all zero; -1 if too large to be analysed (over
                   512 x 512 taps) */
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
  GCONV_BORDER_NORMALIZE   /* of filters whose sum is not 0: nothing. The taps inside get the weight of those outside */
} gconv_border;

/* What becomes of samples of floats that are not finite, NaN and infinities, and of samples that are no data. Where samples
 * are left out, a response is sum t * sum(t w x) / sum(t w), with weights w of 0 for them: normalised convolution. */
typedef enum gconv_nan {
  GCONV_NAN_KEEP, /* NaN and infinities stay where the filter reaches; samples of no data are left out, and stay */
  GCONV_NAN_SKIP, /* they are left out, and stay: where one lies under the anchor, so does the result */
  GCONV_NAN_FILL, /* they are left out, and filled: a result is missing only where too little lies under the taps */
  GCONV_NAN_ZERO  /* they count as samples of 0 */
} gconv_nan;

/* Which outputs there are. In terms of the dilated extent E = (R - 1) * dilation + 1 of the filter, along each axis: */
typedef enum gconv_padding {
  GCONV_PADDING_SAME,    /* ceil(H / stride): the anchor visits every stride-th pixel, from the first */
  GCONV_PADDING_VALID,   /* only where the filter lies inside: floor((H - E) / stride) + 1 */
  GCONV_PADDING_FULL,    /* wherever it touches the image: floor((H + E - 2) / stride) + 1 */
  GCONV_PADDING_EXPLICIT /* floor((H + top + bottom - E) / stride) + 1 */
} gconv_padding;

typedef enum gconv_alpha {
  GCONV_ALPHA_KEEP,        /* alpha is copied from the pixel below the anchor */
  GCONV_ALPHA_FILTER,      /* alpha is filtered as any channel */
  GCONV_ALPHA_PREMULTIPLY, /* colours are multiplied by alpha, all is filtered, and colours divided again; for filters whose
                              sum is not 0 */
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
 * rounded; float ones are neither. The range is for colours: alpha, where it is filtered, is only scaled and saturated.
 * GCONV_RANGE_WRAP is for users who count on C's casts, as SciPy does: integer samples are the level of v cut towards 0,
 * modulo 256 or 65536. The CPU makes it, with options that leave the samples as they are stored (not linear, premultiplied,
 * or with an alpha that is filtered). A u16 result holds the bits of an int16, a u8 result the bits of an int8. */
typedef enum gconv_range {
  GCONV_RANGE_CLAMP,  /* v */
  GCONV_RANGE_ABS,    /* |v| */
  GCONV_RANGE_SIGNED, /* v / 2 + 1/2: 0 is mid-grey */
  GCONV_RANGE_MINMAX, /* (v - min) / (max - min) over the colour channels of each output frame; all 0 if max = min */
  GCONV_RANGE_WRAP    /* v; as integers, (int32_t)v without its upper bits; 0 where that is none */
} gconv_range;

/* Everything a user may ask of a convolution. All may be 0, which means the defaults. */
typedef struct gconv_options {
  bool flip; /* mathematical convolution: the filter is turned by 180 degrees, about its anchor */
  gconv_border border;
  double border_value; /* for GCONV_BORDER_CONSTANT: 1 is white; in [0, 1] where outputs are integers; as samples for f32.
                          Alpha has it, too: with GCONV_ALPHA_PREMULTIPLY, or in linear light with alpha that is filtered or
                          padded, it is 0 or 1 */
  gconv_padding padding;
  int32_t pad_top, pad_bottom, pad_left, pad_right; /* for GCONV_PADDING_EXPLICIT; at least 0 */
  int32_t stride_y, stride_x;                       /* at least 1; 0: 1 */
  int32_t dilation_y, dilation_x;                   /* the same */

  bool gray;       /* one grey channel (and alpha) first: Y' = 0.299 R + 0.587 G + 0.114 B of the stored samples (BT.601, as
                      OpenCV, MATLAB and Pillow), rounded to a level where outputs are integers; with linear,
                      Y = 0.2126 R + 0.7152 G + 0.0722 B of linear light (BT.709) */
  bool round_gray; /* grey of integer samples is a level even where outputs are f32: for a stage of a chain whose results are
                      integers */
  int32_t mix;     /* 0, or how many channels images have, 1 to 4, which are mixed first: channel c becomes the sum over d of
                      mixing[c][d] times channel d, in float32. For interleaved images without alpha, without gray and
                      linear; results have the type of the image. Integers are rounded and saturated, or, for the range
                      wrap, cut and wrapped around */
  float mixing[4][4];
  bool linear; /* filter in linear light: the sRGB curve (IEC 61966-2-1) is undone before and redone after */
  gconv_alpha alpha;

  gconv_combine combine;
  double scale, offset; /* v = response * scale + offset; a scale of 0 is 1; offset in [0, 1] units (0.5 is mid-grey); for
                           f32 input and output in units of the samples */
  gconv_range range;
  bool sets_type; /* the output has the type output_type; else the type of the input */
  /* GCONV_I16 is made on the CPU, of samples as they are stored: not in linear light, with premultiplied alpha, no data or
   * mixed channels, and for the ranges clamp and abs. */
  gconv_type output_type;
  const gconv_format_info *format; /* ... but one that this format stores (gconv_format_type()); NULL: any */

  /* Filters over samples with weights: for filters whose sum is not 0, of samples as they are stored (not grey, mixed, in
   * linear light, with premultiplied alpha, minmax, wrap or i16). */
  gconv_nan nan;
  bool preserves;   /* missing samples stay missing in results, as for GCONV_NAN_SKIP, with any of the above */
  bool sets_nodata; /* samples of the value `nodata`, in levels of the image, are no data, whatever its file says */
  double nodata;    /* may be NaN */
  const gconv_image *weights; /* NULL, or a picture as large as the image, which is copied: the weight of each pixel, in
                                 proportion to the largest; none below 0. Of colours the grey counts, times alpha */
  double
      least_weight; /* results are missing where |sum(t w)| is below this share of sum |t|, 0 to 1; 0: the default, 2^-10 */

  const char *algorithm;  /* "auto" or NULL, or a name that gconv_algorithm_at() lists for the device */
  const char *without;    /* names with commas between that auto shall not choose; NULL: none */
  size_t workspace_bytes; /* that an algorithm may take on a GPU besides input, output and taps; 0: the default, 256 MiB */
  int32_t block_width, block_height; /* threads of a block on a GPU, across and down: a hint, for measurements of what they
                                        change, to algorithms that have a choice; both 0: their own. The product is at
                                        most 1024 */
  int32_t grid_blocks; /* the most blocks of a grid, which stride over the image: a hint, as for the block; 0: the
                          algorithm's own */
} gconv_options;

/* "zero", "constant" ...; "none", "magnitude" ...: the values of these types in words; NULL for any other value. Static
 * storage. */
const char *gconv_border_name(gconv_border border);
const char *gconv_combine_name(gconv_combine combine);

/* Correlation, zero border, same size, stride and dilation 1, alpha kept, clamp, scale 1, offset 0, the type of the input,
 * "auto": what zeros, {0}, mean, written out. */
gconv_options gconv_options_default(void);

/* ---- Devices and algorithms ---------------------------------------------------------------------------------------- */

/* A CPU with its threads, or a GPU. */
typedef struct gconv_device gconv_device;

typedef struct gconv_device_info {
  char name[32];         /* "cpu", "cuda:0" */
  char description[128]; /* "AMD EPYC, avx512, 2 threads"; "NVIDIA H200, sm_90, 139.8 GiB" */
  uint64_t memory_bytes;
  bool usable;
  char reason[256]; /* why not, if not usable */
  char driver[64];  /* "CUDA 13.0, driver 13.0"; "" for a CPU */
  double start_ms;  /* for a device that was opened: how long opening it took, in milliseconds */
} gconv_device_info;

/* As many threads as gconv works with where `wanted` are asked for, here and everywhere else: no more than there are
 * processors, and one a processor for 0. The environment variable GCONV_MOST_THREADS raises the bound, not what 0 means: for
 * tests of more threads than a machine has processors. */
int gconv_threads_allowed(int wanted);

/* Opens "cpu", "cuda", "cuda:N" or "auto": a GPU if one is usable, else the CPU (gconv_device_choose() tells whether a GPU
 * pays). `threads` bounds the threads of the CPU and of the work on the host, as gconv_threads_allowed() bounds it; 0: one a
 * processor. GCONV_UNSUPPORTED says why a device cannot be used. */
gconv_status gconv_device_open(const char *name, int threads, gconv_device **device);

/* After its plans are freed. NULL is allowed.
 *
 * After fork(), a child has neither the threads nor the GPUs of its parent. It may use a CPU that was opened before, and
 * plans on it that no thread executed at the time of the fork: work is done by the calling thread alone. It may free them;
 * closing the device leaves it as it is. GPUs must be opened after the fork. */
void gconv_device_close(gconv_device *device);

/* Whether this process has started CUDA, if only to ask which GPUs there are. The handlers of its driver at exit() take
 * longer than the system does to take all back: a program that has written everything may call _exit(). Thread-safe. */
bool gconv_device_is_gpu_open(void);

/* The threads of the CPU, or the threads that work on the host for a GPU. They are the device's, and end with it. Any number
 * of threads may use them at the same time: the turns of all are shared out, as many at a time as there are threads. */
gconv_threads *gconv_device_threads(gconv_device *device);

/* What was opened. Valid as long as the device. */
const gconv_device_info *gconv_device_get_info(const gconv_device *device);

/* Describes device number `index` of this machine: 0 is the CPU, then the GPUs, then, if CUDA cannot be used, one unusable
 * entry "cuda" with the reason. False past the end. */
bool gconv_device_at(size_t index, gconv_device_info *info);

/* How fast a device is. */
typedef struct gconv_machine {
  double fma_per_ms;   /* fused multiply-adds of float32, at best */
  double bytes_per_ms; /* read + written by a copy in the memory of the device */
  double launch_ms;    /* milliseconds for an empty piece of work: launching a kernel, waking the threads */
  double units;        /* that work side by side: threads, or multiprocessors of a GPU */
} gconv_machine;

/* The rates that estimates are based on: of a GPU, by its data sheet; of any CPU, the rates of one thread of the reference
 * CPU, so that all choose the same algorithms. Valid as long as the device. */
const gconv_machine *gconv_device_get_machine(const gconv_device *device);

/* Measures it, in less than a second. */
gconv_status gconv_device_measure(gconv_device *device, gconv_machine *machine);

typedef struct gconv_algorithm_info {
  const char *name;   /* "direct" */
  const char *device; /* "cpu" or "cuda" */
  const char *help;   /* one line */
  bool exact;         /* belongs to the exact family: the same bits on every device (docs/architecture.md) */
} gconv_algorithm_info;

/* The algorithms of this build; NULL past the end. Static storage. */
const gconv_algorithm_info *gconv_algorithm_at(size_t index);

/* What keeps algorithm number `index` from being used here, whatever the problem, as "libcudnn.so.9 was not found" does one
 * for layers; NULL if nothing does, and past the end. Loads the library that the algorithm is made of, which may take a
 * moment. Thread-safe; static storage. */
const char *gconv_algorithm_obstacle(size_t index);

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

/* The algorithms for layers in this build, as gconv_algorithm_at() and gconv_algorithm_obstacle() do for algorithms for
 * images. */
const gconv_algorithm_info *gconv_layer_algorithm_at(size_t index);
const char *gconv_layer_algorithm_obstacle(size_t index);

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
} gconv_network_options;

/* "fp32", "none": the values of these types in words; NULL for any other value. Static storage. */
const char *gconv_math_name(gconv_math math);
const char *gconv_activation_name(gconv_activation activation);
const char *gconv_layer_kind_name(gconv_layer_kind kind);

/* ---- Operations ---------------------------------------------------------------------------------------------------- */

/* What becomes of images. It never changes, belongs to no device, and may be used by several threads at the same time. */
typedef struct gconv_operation gconv_operation;

/* Convolves with plain filters, of which there must be at least one, each within the limits of gconv_filter_analyze();
 * filters and options are copied. Filters of different sizes can be combined where padding is same: they are laid on each
 * other by their anchors. GCONV_BAD_ARGUMENT names the filter or option that cannot be. */
gconv_status gconv_operation_filters(const gconv_filters *filters, const gconv_options *options,
                                     gconv_operation **operation);

/* Applies layers, one after the other. Layers and options (NULL: all 0) are copied; the banks are not, as their weights may
 * take much memory: they must outlive the operation, but not its plans. GCONV_BAD_ARGUMENT names the layer, or the field of
 * the options, that cannot be, and weights and biases that are not finite. */
gconv_status gconv_operation_network(const gconv_layer *layers, size_t count, const gconv_network_options *options,
                                     gconv_operation **operation);

/* Applies operations one after the other: each takes the image that the one before it makes, so all but the last must make
 * one. Results of filters that keep the type of their image have the type of the first input. The caller may free the
 * stages. */
gconv_status gconv_operation_chain(gconv_operation *const *stages, size_t count, gconv_operation **operation);

/* Where an operation counts. All may be 0 or NULL: everywhere. */
typedef struct gconv_area {
  int32_t x, y;            /* the left column and the top row of a rectangle, in pixels from 0 on; either may be negative */
  int32_t width, height;   /* width and height of the rectangle, from 1 on; both 0: the whole image */
  const gconv_image *mask; /* weights, one a pixel of the image: black is 0, white 1. u8, u16, or f32 from 0 to 1 */
} gconv_area;

/* Applies an operation in a part of the image: each sample of the result is weight * applied + (1 - weight) * input, in
 * float64, rounded to the nearest level, or to float32. `applied` is the operation's result, of the type of the image: so
 * it was rounded before. The weight is the mask's within the rectangle, and 0 outside. Where it is 0, samples have
 * the input's bits; where it is 1, they have the bits of the operation on the whole image: at the edges of the rectangle,
 * filters see its true neighbours.
 *
 * Each image must become one of its own size, channels and type, alpha included, else there is no plan (GCONV_BAD_ARGUMENT).
 * The mask has one frame, and the width and height of every image (GCONV_BAD_ARGUMENT from gconv_plan_create()). It is grey,
 * or RGB, which becomes grey as by gconv_options.gray; its alpha, if it has one, is multiplied into the weights. The part of
 * the rectangle that is outside an image is left out, with a warning; GCONV_BAD_ARGUMENT if all of it is. The operation
 * and the mask are the caller's, who may free them. */
gconv_status gconv_operation_within(gconv_operation *operation, const gconv_area *area, gconv_operation **result);

/* Plans that were made of it stay as they are. NULL is allowed. */
void gconv_operation_free(gconv_operation *operation);

/* ---- Plans --------------------------------------------------------------------------------------------------------- */

/* An operation prepared for inputs of one shape on one device: the algorithms chosen, weights, buffers. Made once, executed
 * many times, by any number of threads at once. Executions of filters run side by side: each has buffers of its own, which
 * the plan allocates when they are first needed, and keeps. Other executions wait for each other. */
typedef struct gconv_plan gconv_plan;

/* Plans `operation` for images like `like` (its header counts, not its pixels), neither of which is needed afterwards; the
 * device is. `rows`: 0, or how many rows of the outputs gconv_plan_execute_rows() is asked for at most, for which networks
 * take their memory; they round it up to an even number. Networks leave alpha out, with a remark, unless the first layer
 * takes as many channels as there are with it. GCONV_BAD_ARGUMENT says what does not fit the images, GCONV_UNSUPPORTED why
 * no algorithm can do it. */
gconv_status gconv_plan_create(gconv_device *device, const gconv_image *like, const gconv_operation *operation, int32_t rows,
                               gconv_plan **plan);
/* NULL is allowed. */
void gconv_plan_free(gconv_plan *plan);

/* How many images an execution yields. Filters: 1, or with GCONV_COMBINE_NONE one a filter. A network: as its presentation
 * says. */
size_t gconv_plan_outputs(const gconv_plan *plan);

/* The shape and type of output number `output`, without pixels and metadata; NULL past the end. Valid as long as the plan.
 */
const gconv_image *gconv_plan_output_header(const gconv_plan *plan, size_t output);

/* Whether images like `like` can be executed with this plan. */
bool gconv_plan_fits(const gconv_plan *plan, const gconv_image *like);

/* Where the time of one execution went, in milliseconds. GPU times are from device events, except decode_ms, and the
 * download_ms of results in parts: these are what the host waits. */
typedef struct gconv_timings {
  double prepare_ms; /* on the host before: grey, linear light, premultiply */
  double upload_ms;  /* 0 on the CPU */
  double kernel_ms;
  double download_ms; /* 0 on the CPU */
  double finish_ms;   /* on the host after */
  double decode_ms;   /* on the device, of a JPEG file, with its upload; else 0 */
  double encode_ms;   /* on the device, of PNG; else 0 */
} gconv_timings;

/* Makes outputs[0 .. output_count - 1] of `in`; output_count is gconv_plan_outputs(), else GCONV_BAD_ARGUMENT. An output
 * that is empty (zeroed) is allocated; one that already has pixels of the right shape is written over; else
 * GCONV_BAD_ARGUMENT. Tensors of networks have no gaps between rows. Filters and GCONV_PRESENT_IMAGE copy the metadata of
 * `in`. timings may be NULL. */
gconv_status gconv_plan_execute(const gconv_plan *plan, const gconv_image *in, gconv_image *outputs, size_t output_count,
                                gconv_timings *timings);

/* Samples in memory of a device, of one image or several. Sample (n, c, y, x) is at this distance after `data`:
 * n * stride[0] + c * stride[1] + y * stride[2] + x * stride[3]. Strides of axes of length 1 do not matter. */
typedef struct gconv_array {
  void *data;
  gconv_type type;
  int64_t shape[4];  /* N, C, H, W */
  int64_t stride[4]; /* in bytes, none below 0 */
} gconv_array;

/* As gconv_plan_execute(), from and to memory of the plan's device. On a GPU, nothing is allocated or waited for: the work
 * goes into `stream`, a cudaStream_t of the caller. Once the plan was executed, it may also be captured into a CUDA graph;
 * not before, as libraries and kernels are loaded when they are first used. The caller sees to it that executions of one
 * plan do not overlap. On a CPU, arrays are in its memory, `stream` is not used, and the work is done on return.
 *
 * Arrays have types and shapes of the plan's headers. Where like.planar was set, samples of a row are neighbours, and planes
 * may have any distance; else pixels are neighbours, and so are the channels in each. Rows may have gaps between them, which
 * stay as they are; images have none but that. On a GPU, arrays whose data and strides are not multiples of 16 bytes, and
 * more than two outputs that do not lie at equal distances, are copied through memory of the plan; all others are read and
 * written where they are. GCONV_UNSUPPORTED says what the plan cannot take: strides of other kinds, or stages on the host
 * (grey, mixed channels, linear light, premultiplied alpha, minmax, pictures of networks). */
gconv_status gconv_plan_execute_device(const gconv_plan *plan, const gconv_array *in, const gconv_array *outputs,
                                       size_t output_count, void *stream);

/* Bytes of memory that a plan of filters or a network holds. On a CPU: weights, and the workspaces of all threads that have
 * executed it at the same time (gconv_plan_trim()). On a GPU, of plans of filters alone: what is in its memory by now. What
 * algorithms and libraries keep for themselves, such as the spectra of fft, is not counted. 0: not known. */
size_t gconv_plan_held_bytes(const gconv_plan *plan);

/* Plans by rows, for images that are not in memory at once. Output rows are made in strips; a strip begins at a multiple of
 * gconv_plan_row_step(), which is 0 for plans that need the whole image. Plans of filters do: on a GPU, of several frames or
 * planes, with border wrap or range minmax, or with outputs of different heights. Plans of networks do unless they were made
 * for some rows, which then are the step, and the most that a strip has. */
int32_t gconv_plan_row_step(const gconv_plan *plan);

/* The input rows *begin .. *end - 1 that the output rows first .. first + count - 1 are made of, borders included; both 0 if
 * there are no such rows. */
void gconv_plan_rows_needed(const gconv_plan *plan, int32_t first, int32_t count, int32_t *begin, int32_t *end);

/* As gconv_plan_execute() for the output rows from `first` on: as many as outputs[0 ..] are high, which have their pixels,
 * and no metadata are copied. `window` has the input's rows window_row .. window_row + window->height - 1, at least the rows
 * needed. The bits are the same as for the whole image; with algorithms that are not exact, in networks, they agree within
 * the bounds. Times are added to *timings, which may be NULL. */
gconv_status gconv_plan_execute_rows(const gconv_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                                     gconv_image *outputs, size_t output_count, gconv_timings *timings);

/* What a plan will do. */
typedef struct gconv_plan_info {
  const char *device;    /* "cuda:0" */
  const char *algorithm; /* "direct"; "several" if filters of different sizes take different ones */
  const char *math;      /* "fp32" */
  bool exact;
  int32_t frames, channels;      /* N, C as convolved (alpha kept aside is not counted) */
  int32_t height, width;         /* H, W */
  int32_t filters;               /* K */
  int32_t rows, columns;         /* R, S; the largest of filters of several sizes */
  int32_t out_height, out_width; /* P, Q; of the first output */
  int32_t out_channels;          /* channels of each output, with alpha */
  gconv_type input_type, output_type;
  double flop;            /* 2 * N * K * C * R * S * P * Q, without rows and columns of taps that lie outside the image */
  double bytes;           /* input read once + outputs written once */
  size_t workspace_bytes; /* on a CPU: of each thread */
  double error_bound; /* largest |error| of a response, relative to (sum |tap|) * max |sample|; of fft, it is statistical.
                         Responses below FLT_MIN may be off by their last bits besides, and fft may lose them */
  double estimate_ms; /* estimated milliseconds of an execution, by the cost model, before what was learned by tuning */
} gconv_plan_info;

/* Valid as long as the plan. */
const gconv_plan_info *gconv_plan_get_info(const gconv_plan *plan);

/* What a layer of a network will do. */
typedef struct gconv_layer_info {
  const char *algorithm, *math; /* "direct", "fp32" */
  bool exact;
  bool each;                               /* applied to each channel by itself: images counts channels then */
  int32_t images, channels, height, width; /* N, C, H, W */
  int32_t filters, rows, columns, groups;  /* K, R, S, G */
  int32_t out_height, out_width;           /* P, Q */
  int32_t batch;                           /* images at a time, so that the workspace suffices */
  double flop;                             /* 2 * N * K * C/G * R * S * P * Q */
  size_t workspace_bytes;                  /* on a CPU: of each thread */
  double error_bound;                      /* error bound of a sum, relative to sum |w * x| + |bias| ... */
  bool bound_of_largest;                   /* ... or to (sum |w|) * (largest |x| of the group's channels) + |bias| */
  double estimate_ms;
} gconv_layer_info;

/* Of layer number `layer` of a network; NULL past the end, and of filters. Valid as long as the plan. */
const gconv_layer_info *gconv_plan_layer_info(const gconv_plan *plan, size_t layer);

/* What was chosen and why, for people: several lines, each ended by a newline. *text is owned by the caller: free(). */
gconv_status gconv_plan_explain(const gconv_plan *plan, char **text);

/* The largest difference between outputs and their recomputation in float64. */
typedef struct gconv_verification {
  double max_error;    /* in units of the samples of the output (levels for u8 and u16), before rounding is accounted for */
  double allowed;      /* the bound at that place, with 1/2 level for the rounding of integer outputs */
  double most_allowed; /* the largest finite bound of all places */
  size_t output;       /* where: the output, and its frame, row, column, channel */
  int32_t frame, y, x, channel;
  double got, expected;
  uint64_t compared; /* samples */
} gconv_verification;

/* Recomputes everything from `in` in float64, slowly, on the host. `tolerance` < 0: each sample is held to the bound that
 * the algorithms state, which of networks is carried from layer to layer; >= 0: to this difference in units of the output
 * samples. GCONV_MISMATCH if any sample is further off. *result is filled in both cases. */
gconv_status gconv_plan_verify(const gconv_plan *plan, const gconv_image *in, const gconv_image *outputs,
                               size_t output_count, double tolerance, gconv_verification *result);

#ifdef __cplusplus
}
#endif
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif
