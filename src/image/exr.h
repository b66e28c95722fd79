/* SPDX-License-Identifier: MIT */
/* OpenEXR: what reading and writing share. exr.c reads, exr_write.c writes and has the row of the format. */
#pragma once

#include "image/format.h"
#include "image/metadata.h"

#include <openexr.h>

#define GCONV_EXR_INCH 0.0254 /* metres: densities are pixels an inch */

/* The functions of OpenEXRCore, after gconv_exr_load(). */
typedef struct gconv_openexr {
#define CALL(name) __typeof__(&name) name;
#include "image/exr_calls.def"
#undef CALL
} gconv_openexr;
extern gconv_openexr gconv_exr;

/* Loads the library; GCONV_UNSUPPORTED says why it cannot be used. `name` is that of the image. */
gconv_status gconv_exr_load(const char *name);

/* The handler of the library's messages: does not print them. */
void gconv_exr_be_silent(exr_const_context_t file, exr_result_t code, const char *text);

/* The functions of exr.c for the row of the format. */
gconv_status gconv_exr_open(gconv_reader *reader);
gconv_status gconv_exr_read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count);
void gconv_exr_close(gconv_reader *reader);
