/* SPDX-License-Identifier: MIT */
/*
 * Features of pixels: lists of features, and how the features of a tile of an image are computed.
 *
 * All features are made of planes: the image smoothed by a Gaussian, and its derivatives, of order 0 to 2 in y and x.
 * Features of one sigma and convention share a scale: its planes are computed once.
 */
#pragma once

#include "base/both.h"
#include "gconv_classify.h"
#include "kernels/cpu/smooth.h"

GCONV_C_BEGIN

typedef enum gconv_plane {
  GCONV_PLANE_SMOOTH, /* order 0 in both directions */
  GCONV_PLANE_X,      /* order 1 in x */
  GCONV_PLANE_XX,
  GCONV_PLANE_Y,
  GCONV_PLANE_XY,
  GCONV_PLANE_YY,
  GCONV_PLANES
} gconv_plane;

typedef enum gconv_convention {
  GCONV_SMOOTH_VIGRA,  /* as vigra and fastfilters, and so ilastik: windows of 3.5 sigma, borders of reflect101 */
  GCONV_SMOOTH_SKIMAGE /* as skimage.filters.gaussian(): windows of 4 sigma, borders of replicate */
} gconv_convention;

/* A Gaussian and its derivatives. */
typedef struct gconv_scale {
  gconv_convention convention;
  double sigma;
  int32_t radius;
  float *taps[GCONV_SMOOTH_ORDERS]; /* owned by the list: radius + 1 each, from the middle on */
  unsigned planes;                  /* bit p: plane p is wanted */
  int32_t rim;                      /* pixels of the planes beyond each side of a tile */
} gconv_scale;

typedef struct gconv_feature_work gconv_feature_work;
typedef struct gconv_feature gconv_feature;

/* Kinds of features, for devices whose kernels depend on the kind. */
typedef enum gconv_feature_form {
  GCONV_FEATURE_GAUSSIAN,
  GCONV_FEATURE_LOG,
  GCONV_FEATURE_GRADIENT,
  GCONV_FEATURE_DOG,
  GCONV_FEATURE_STRUCTURE,
  GCONV_FEATURE_HESSIAN,
  GCONV_FEATURE_INTENSITY,
  GCONV_FEATURE_EDGES,
  GCONV_FEATURE_TEXTURE
} gconv_feature_form;

/* A kind of feature: a row of the table in kinds.c. */
typedef struct gconv_feature_kind {
  gconv_feature_info info;
  gconv_feature_form form;
  gconv_convention convention;
  unsigned planes;
  double second;  /* not 0: the kind uses a second Gaussian, whose sigma is `second` times the first */
  bool of_planes; /* the second Gaussian smooths products of planes, whose rim is its radius; false: it smooths the image */
  int32_t rim;    /* the rim of the planes, unless of_planes */
  /* Makes rows of outputs of a tile: row y of output i begins at out[i] + y * pitch. */
  void (*make)(gconv_feature_work *work, const gconv_feature *feature, float *const *out, size_t pitch);
} gconv_feature_kind;

extern const gconv_feature_kind gconv_feature_kinds[];
extern const size_t gconv_feature_kind_count;

struct gconv_feature {
  const gconv_feature_kind *kind;
  double sigma;
  size_t scale, second; /* numbers of scales; second: if the kind has a second Gaussian */
  int32_t output;       /* its first output, among the outputs for one channel of the image */
};

/* The features that a text names. Zero-initialise before first use. */
typedef struct gconv_feature_list {
  gconv_feature *items; /* owned */
  size_t count;
  gconv_scale *scales; /* owned */
  size_t scale_count;
  int32_t outputs; /* for each channel of the image */
  int32_t reach;   /* features depend on pixels up to this distance */
} gconv_feature_list;

gconv_status gconv_feature_list_read(const char *text, gconv_feature_list *list);
/* Writes the list as a text that gconv_feature_list_read() reads; for free(). NULL: no memory. */
char *gconv_feature_list_text(const gconv_feature_list *list);
void gconv_feature_list_free(gconv_feature_list *list);

/* ---- Tiles (tile.c) ---- */

enum { GCONV_TILE_HEIGHT = 32, GCONV_TILE_WIDTH = 512 };

enum { GCONV_FEATURE_SPARE = 4 }; /* planes for intermediate results of features */

/* A tile that a thread computes. Planes have one layout: the pixel at row y and column x of the tile is at
 * plane[y * pitch + x]. y and x may be negative, as far as the plane has a rim. */
struct gconv_feature_work {
  const gconv_feature_list *list;
  int32_t height, width;    /* height and width of the image */
  int32_t y, x;             /* the tile's first pixel in the image */
  int32_t rows, columns;    /* rows and columns of the tile */
  size_t pitch, plane_size; /* floats */
  float *memory;            /* owned */
  float *source;            /* the image, minus `origin` */
  float origin;             /* GCONV_SMOOTH_SKIMAGE: a sample of the tile, as floats near 0 are more exact; else 0 */
  float *planes[GCONV_PLANES];
  float *passes[GCONV_SMOOTH_ORDERS]; /* the image, smoothed in y */
  float *spare[GCONV_FEATURE_SPARE];  /* for gconv_feature_kind.make() */
};

/* Returns the bytes of memory that the tiles of one thread take. */
size_t gconv_feature_work_bytes(const gconv_feature_list *list);
gconv_status gconv_feature_work_begin(const gconv_feature_list *list, int32_t height, int32_t width,
                                      gconv_feature_work *work);
void gconv_feature_work_end(gconv_feature_work *work);

/* Puts samples of a channel into row[0 .. count - 1]: columns x .. x + count - 1 of row y of the image. */
typedef void gconv_feature_source(const void *context, int32_t y, int32_t x, int32_t count, float *row);

/* Computes the features of a channel in the tile whose place and size are set. Row y of feature i begins at out + i * plane
 * + y * pitch. */
void gconv_feature_tile_make(gconv_feature_work *work, gconv_feature_source *source, const void *context, float *out,
                             size_t plane, size_t pitch);

/* For kinds: smooths `from` in both directions (order 0) into `to`. `from` has a rim of `rim` + scale->radius, and `to` of
 * `rim`. */
void gconv_feature_smooth(gconv_feature_work *work, const gconv_scale *scale, const float *from, int32_t rim, float *to);

/* Fills the border pixels of a plane, as far as `rim`, from the pixels inside the image. */
void gconv_feature_fill_border(const gconv_feature_work *work, gconv_border border, int32_t rim, float *plane);
/* Fills border pixels so that central differences at the border are the one-sided differences of numpy.gradient(). rim is at
 * most 2. */
void gconv_feature_fill_linear(const gconv_feature_work *work, int32_t rim, float *plane);

/* ---- A comparison with the pictures that a model learned (expect.c) ---- */

/* The sums over the features of a picture. */
typedef struct gconv_feature_look gconv_feature_look;
/* Begins the sums. The notes, with means and deviations, must outlive the result. NULL: no memory. */
gconv_feature_look *gconv_feature_look_begin(const gconv_column_notes *notes);
/* Adds features of rows first .. first + count - 1 (or of a part of these rows) of a picture that is `height` high. After
 * the last rows, warns if the picture is far from what the model learned. Thread-safe. NULL is allowed. */
void gconv_feature_look_add(gconv_feature_look *look, const gconv_image *made, int32_t first, int32_t count, int32_t height);
void gconv_feature_look_end(gconv_feature_look *look);

GCONV_C_END
