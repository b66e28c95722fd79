/* SPDX-License-Identifier: MIT */
/* Filters of three dimensions: what the files of this room share. */
#pragma once

#include "gconv_science.h"

/* A term of a filter: a plane of R x S taps, then a line of `count` taps along z. A filter is a sum of terms. A Gaussian is
 * one term, a Laplacian of Gaussian two; any K x R x S taps are K terms, whose lines have one tap that is not 0. */
typedef struct gconv_volume_term {
  gconv_filter plane;
  float *line; /* owned */
  int32_t count, anchor;
} gconv_volume_term;

typedef struct gconv_volume_taps {
  gconv_volume_term *terms; /* owned */
  size_t count;
} gconv_volume_taps;

/* Filters whose responses are combined: one, or three derivatives, of which the magnitude is taken. */
typedef struct gconv_volume_kernel {
  gconv_volume_taps of[3];
  size_t count;
} gconv_volume_kernel;

/* Reads what `spec` means: a name with parameters, or a .npy file of K x R x S taps. `spacing`: as in gconv_volume_options.
 * On failure *filter is empty. */
gconv_status gconv_volume_filter_read(const char *spec, const double spacing[3], gconv_volume_kernel *filter);
/* Makes a filter of planes of one size, along z. */
gconv_status gconv_volume_filter_copy(const gconv_filter *planes, int32_t count, gconv_volume_kernel *filter);
/* Turns all taps around: correlation becomes convolution. */
void gconv_volume_filter_flip(gconv_volume_kernel *filter);
void gconv_volume_filter_free(gconv_volume_kernel *filter);

/* A filter prepared for volumes of one shape (volume.c). */
typedef struct gconv_volume gconv_volume;

/* `like`: the header of a volume. gconv_science.h says what a spec is. */
gconv_status gconv_volume_create(gconv_device *device, const gconv_image *like, const char *spec,
                                 const gconv_volume_options *options, gconv_volume **volume);
/* The header of the result. Valid as long as the volume. */
const gconv_image *gconv_volume_output(const gconv_volume *volume);
/* How many planes of the result are made at a time, and the bytes that it takes besides them and the input. */
int32_t gconv_volume_step(const gconv_volume *volume, double *bytes);
/* The planes *begin .. *end - 1 of the input that the planes first .. first + count - 1 of the result are made of. */
void gconv_volume_planes_needed(const gconv_volume *volume, int32_t first, int32_t count, int32_t *begin, int32_t *end);
/* Makes planes of the result from `first` on: as many as `out` has frames, with pixels. `in` has planes of the input from
 * in_plane on, at least the planes needed. A call that begins where the last one ended is of the same volume: what both need
 * is convolved once. */
gconv_status gconv_volume_execute(gconv_volume *volume, const gconv_image *in, int32_t in_plane, int32_t first,
                                  gconv_image *out);
/* The filter, as it is applied; and whether all steps are of the exact family. */
const gconv_volume_kernel *gconv_volume_kernel_of(const gconv_volume *volume);
bool gconv_volume_is_exact(const gconv_volume *volume);
/* NULL is allowed. */
void gconv_volume_free(gconv_volume *volume);
