/* SPDX-License-Identifier: MIT */
/* Filters whose taps are the samples of a grey picture, such as the picture of a point: a PSF. */
#pragma once

#include "cli/command.h"

/* Appends a filter for each frame: several are a PSF in three dimensions. */
gconv_status gconv_picture_filter_make(const char *path, const gconv_image *image, gconv_filters *psf);

/* Does it for a file, if that is a picture of the format, "fits", or with NULL of any but .npy: *taken. */
gconv_status gconv_picture_filter_read(const char *path, const char *format, gconv_filters *psf, bool *taken);
