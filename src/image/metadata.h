/* SPDX-License-Identifier: MIT */
/* What images carry besides pixels: EXIF, XMP and a comment, with the ICC profile and the resolution. */
#pragma once

#include "base/both.h"
#include "gconv.h"

#include <stdarg.h>

GCONV_C_BEGIN

/* Gives `to` the metadata of `from`, which still owns them: `to` must not be freed. */
void gconv_metadata_lend(gconv_image *to, const gconv_image *from);

/* Removes the metadata from the image without freeing them: another image owns them by now. */
void gconv_metadata_disown(gconv_image *image);

/* Returns the bytes of all metadata that the image has. */
size_t gconv_metadata_bytes(const gconv_image *image);

/* Makes *copy, a copy of `size` bytes with a 0 after it, for gconv_release(). `what` is for the error text: "EXIF". */
gconv_status gconv_metadata_copy(const void *bytes, size_t size, const char *what, void **copy);

/* For open() of formats: copies a block into the header; EXIF and XMP only if there is none yet. EXIF begins at "II" or
 * "MM". */
gconv_status gconv_metadata_set_icc(gconv_image *header, const void *bytes, size_t size);
gconv_status gconv_metadata_set_exif(gconv_image *header, const void *bytes, size_t size);
gconv_status gconv_metadata_set_xmp(gconv_image *header, const void *bytes, size_t size);
/* Appends `size` bytes, which need not end in a 0, to the comment, in a line of their own. *length is the length of the
 * comment so far, so that it need not be counted for each of thousands of parts. Only this function may append to the
 * comment. */
gconv_status gconv_metadata_add_comment(gconv_image *header, size_t *length, const void *bytes, size_t size);

/* For open() of formats: sets a resolution without a unit. Ignores 1 x 1, which says nothing, and numbers not above 0. */
void gconv_metadata_set_unitless(gconv_image *header, double x, double y);

/* Puts "; ", if there is a text in note[0 .. size), and the formatted text after it. */
void gconv_metadata_note(char *note, size_t size, const char *format, va_list arguments) GCONV_PRINTF(3, 0);

/* Changes EXIF and XMP of a file for the upright image: the orientation becomes 1, thumbnails are left out. If *orientation
 * is 0, it becomes the orientation in EXIF, else in XMP, else 1. If the header has no resolution, it gets the one in EXIF.
 * Damaged parts are left out, and a text in note[0 .. size) says so. */
gconv_status gconv_metadata_settle(gconv_image *header, int *orientation, char *note, size_t size);

GCONV_C_END
