/* SPDX-License-Identifier: MIT */
/*
 * Checks of the arguments of public functions. Each public function checks all its arguments by these functions before it
 * uses one. It fails with GCONV_BAD_ARGUMENT and the name of the argument. Functions without a status return NULL, 0 or
 * false instead. tests/api/arguments.py gives each function each wrong argument.
 */
#pragma once

#include "base/both.h"
#include "base/status.h"

GCONV_C_BEGIN

/* Fails in the calling function if one of the pointers is NULL: "gconv_image_read(): path is NULL". */
#define GCONV_NEED(...) GCONV_TRY(gconv_check_given(GCONV_POINTERS(__VA_ARGS__), #__VA_ARGS__, __func__))
#define GCONV_POINTERS(...) (const void *const[]){__VA_ARGS__}, sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *)

/* Fails in the calling function if `pointer`, which is called `name` in the header, is NULL. */
#define GCONV_NEED_AS(pointer, name) GCONV_TRY(gconv_check_given(GCONV_POINTERS(pointer), name, __func__))

/* Fails in the calling function if *options has a field of a later version that is not 0. NULL is allowed. */
#define GCONV_NEED_KNOWN(options) GCONV_TRY((options) ? GCONV_CHECK_KNOWN(options, #options) : GCONV_OK)
#define GCONV_CHECK_KNOWN(options, name)                                                                                    \
  gconv_check_reserved((options)->reserved, sizeof(options)->reserved / sizeof *(options)->reserved, name)
gconv_status gconv_check_reserved(const uint64_t *reserved, size_t words, const char *name);

/* Fails if one of the pointers is NULL. `names` are the names of all pointers, with ", " between. */
gconv_status gconv_check_given(const void *const *pointers, size_t count, const char *names, const char *function);

/* Fails if a number, or the value of an enumeration, is not from least to most: "stride is 0: it must be 1 to 10". */
gconv_status gconv_check_value(const char *what, int64_t value, int64_t least, int64_t most);

/* Checks options of filters and networks that say how values become samples. Fails unless scale and offset are finite, and
 * range and type are values of their enumerations. */
gconv_status gconv_check_scaling(double scale, double offset, gconv_range range, gconv_type type);

/* Fails unless a palette, if there is one, counts 0 to 256 colours. */
gconv_status gconv_check_palette(const gconv_palette *palette);

/* Fails unless the type of an image exists, its sizes are at least 1, it has at most 4 channels if it is interleaved, and
 * alpha is not its only channel. Fails with GCONV_TOO_LARGE if its bytes exceed a size_t. `what` is for the text: "the
 * input". */
gconv_status gconv_check_header(const gconv_image *image, const char *what);

/* Checks what gconv_check_header() checks. Also fails with GCONV_UNSUPPORTED for images of i16: nothing reads such
 * results. */
gconv_status gconv_check_source(const gconv_image *image, const char *what);

/* Checks what gconv_check_header() checks. Also fails unless there are pixels, rows and planes do not overlap, and they
 * split no sample. */
gconv_status gconv_check_pixels(const gconv_image *image, const char *what);
/* Fails if two images share memory, with a text that begins with `what`. An image without pixels shares none. */
gconv_status gconv_check_apart(const gconv_image *a, const char *what, const gconv_image *b, const char *other);

enum {
  GCONV_FILTER_MAX_SIDE = 32768,  /* rows, and columns, of a filter */
  GCONV_FILTER_MAX_TAPS = 1 << 26 /* rows * columns: 256 MiB as float32 */
};

/* Fails with GCONV_TOO_LARGE, naming the limit, if a filter cannot have this size, and with GCONV_BAD_ARGUMENT for sizes
 * below 1. `where` begins the text: a file, or the name of a built-in filter. */
gconv_status gconv_filter_check_size(const char *where, int64_t rows, int64_t columns);

/* Fails if a filter made by a caller violates the rules of gconv.h: sizes, anchor, finite numbers. It reads taps only after
 * their number was checked. */
gconv_status gconv_filter_check(const gconv_filter *filter);

/* Calls gconv_filter_check() for each filter. Fails if there is none. */
gconv_status gconv_filters_check(const gconv_filters *filters);

GCONV_C_END
