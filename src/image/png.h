/* SPDX-License-Identifier: MIT */
/* The functions of png_write.c, for the row of PNG: see gconv_format. */
#pragma once

#include "image/format.h"

gconv_status gconv_png_start(gconv_writer *writer);
gconv_status gconv_png_write_rows(gconv_writer *writer, const void *rows, size_t row_bytes, int32_t count);
gconv_status gconv_png_write_part(gconv_writer *writer, const gconv_part *part);
int32_t gconv_png_row_step(const gconv_writer *writer);
gconv_status gconv_png_finish(gconv_writer *writer);
void gconv_png_end(gconv_writer *writer);
