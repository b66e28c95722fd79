/* SPDX-License-Identifier: MIT */
/* A list of image files, from which parts are read as floats, with a cache of decoded images. */
#pragma once

#include "gconv.h"

typedef struct gconv_picture {
  char *path; /* owned; for an image in memory, its name in messages */
  int32_t height, width, channels;
  uint64_t bytes;           /* bytes of the file; for an image in memory, a checksum of its samples */
  gconv_image image;        /* decoded, or empty */
  const gconv_image *given; /* the caller's image in memory, or NULL */
  int users;                /* calls that read it now */
  bool used;                /* it was used since shrink() last visited it */
} gconv_picture;

/* Zero-initialise, and call gconv_pictures_begin(), before first use. */
typedef struct gconv_pictures {
  gconv_picture *items;
  size_t count;
  bool gray;        /* gconv_pictures_get() converts to grey */
  int32_t channels; /* channels that gconv_pictures_get() gives: 1 with `gray`; 3 if grey and RGB images are mixed; else as
                       many as each image has */
  struct gconv_pictures_cache *cache;
} gconv_pictures;

/* Initialises an empty list. kept: the most bytes of decoded images in the cache. */
gconv_status gconv_pictures_begin(gconv_pictures *pictures, bool gray, uint64_t kept);

/* Calls take(context, path, name) for each entry of a folder, sorted by name, without names that begin with a point, until
 * it fails. */
gconv_status gconv_folder_each(const char *folder, gconv_status (*take)(void *context, const char *path, const char *name),
                               void *context);

/* Appends the images of a folder, sorted by name, or the one image that `path` is. *found counts them; if `found` is NULL,
 * it is an error if there are none. */
gconv_status gconv_pictures_add(gconv_pictures *pictures, const char *path, size_t *found);

/* Appends images in memory, which the caller keeps. Messages call the first one "WORD 0". */
gconv_status gconv_pictures_add_given(gconv_pictures *pictures, const gconv_image *images, size_t count, const char *word);

/* Call it after the last image: sets the channels. GCONV_BAD_FILE if images do not fit together. */
gconv_status gconv_pictures_finish(gconv_pictures *pictures);

/* Makes pairs of images with the same name (without extension): orders both lists alike. inputs_path and targets_path are
 * their folders or files. Two files may have any names. GCONV_BAD_FILE unless each image has a partner, of the same size or,
 * if `scale` is not NULL, *scale times as high and wide, the same number for all pairs. */
gconv_status gconv_pictures_pair(gconv_pictures *inputs, const char *inputs_path, gconv_pictures *targets,
                                 const char *targets_path, int32_t *scale);
/* Checks the sizes of pairs whose order is right. */
gconv_status gconv_pictures_check_pairs(const gconv_pictures *inputs, const gconv_pictures *targets, int32_t *scale);

/* GCONV_BAD_FILE unless all images have the same size. If `patch` > 0, each must be at least `patch` high and wide
 * instead. */
gconv_status gconv_pictures_check_sizes(const gconv_pictures *pictures, int32_t patch);

/* A part of an image, and how it is rotated. */
typedef struct gconv_crop {
  int32_t y, x, height, width;
  unsigned turn; /* bit 0: mirrored; then rotated turn >> 1 times by 90 degrees; an odd number of times needs a square */
} gconv_crop;

/* Writes the part to samples, channels x height x width, where white is 1. Decodes the image if it is not in the cache.
 * Thread-safe. */
gconv_status gconv_pictures_get(const gconv_pictures *pictures, size_t index, gconv_crop crop, float *samples);

/* Continues a hash (base/checksum.h) with the names, shapes and bytes of the files, without their folders. */
uint64_t gconv_pictures_digest(const gconv_pictures *pictures, uint64_t hash);

void gconv_pictures_free(gconv_pictures *pictures);
