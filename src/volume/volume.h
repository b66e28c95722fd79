/* SPDX-License-Identifier: MIT */
/* Filters of three dimensions: the types and functions that the files of this room share. */
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

/* One filter; or three derivatives, whose responses are combined to their magnitude. */
typedef struct gconv_volume_kernel {
  gconv_volume_taps of[3];
  size_t count;
} gconv_volume_kernel;

/* Makes the filter of `spec`: a name with parameters, or a .npy file of K x R x S taps. `spacing`: as in
 * gconv_volume_options. On failure *filter is empty. */
gconv_status gconv_volume_filter_read(const char *spec, const double spacing[3], gconv_volume_kernel *filter);
/* Makes a filter of planes of one size, along z. */
gconv_status gconv_volume_filter_copy(const gconv_filter *planes, int32_t count, gconv_volume_kernel *filter);
/* Reverses all taps along each axis: correlation becomes convolution. */
void gconv_volume_filter_flip(gconv_volume_kernel *filter);
void gconv_volume_filter_free(gconv_volume_kernel *filter);

/* A filter prepared for volumes of one shape (volume.c). */
typedef struct gconv_volume gconv_volume;

/* `like`: the header of a volume. gconv_science.h says what a spec is. */
gconv_status gconv_volume_create(gconv_device *device, const gconv_image *like, const char *spec,
                                 const gconv_volume_options *options, gconv_volume **volume);
/* Returns the header of the result, valid as long as the volume. */
const gconv_image *gconv_volume_output(const gconv_volume *volume);
/* Returns how many planes of the result are made at a time. *bytes: the memory for that, without the input and the result.
 */
int32_t gconv_volume_step(const gconv_volume *volume, double *bytes);
/* Finds the planes *begin .. *end - 1 of the input on which the planes first .. first + count - 1 of the result depend. */
void gconv_volume_planes_needed(const gconv_volume *volume, int32_t first, int32_t count, int32_t *begin, int32_t *end);
/* Makes planes of the result from `first` on: as many as `out` has frames, with pixels. `in` has planes of the input from
 * in_plane on, at least the planes needed. A call that begins where the last one ended must have the same volume as input:
 * planes that both calls need are convolved once. */
gconv_status gconv_volume_execute(gconv_volume *volume, const gconv_image *in, int32_t in_plane, int32_t first,
                                  gconv_image *out);
/* Return the filter, as it is applied, and whether all steps belong to the exact family. */
const gconv_volume_kernel *gconv_volume_kernel_of(const gconv_volume *volume);
bool gconv_volume_is_exact(const gconv_volume *volume);
/* NULL is allowed. */
void gconv_volume_free(gconv_volume *volume);
