/* SPDX-License-Identifier: MIT */
/* Pages of HTML that need no other files, for --report of several commands. */
#pragma once

#include "base/memory.h"
#include "cli/common.h"
#include "cli/predict.h"

/* Begins the page, with the name of the command and a heading; ends it. */
void gconv_page_begin(FILE *out, const char *command, const char *heading);
void gconv_page_end(FILE *out);

/* Prints a text. Escapes letters that mean something in HTML. */
void gconv_page_text(FILE *out, const char *text);
/* Prints a text as the content of an element, such as "td", the cell of a table. */
void gconv_page_cell(FILE *out, const char *tag, const char *text);
/* Prints a row of a table: a name, which is HTML, and a text. */
void gconv_page_row(FILE *out, const char *name, const char *format, ...) GCONV_PRINTF(3, 4);
/* Prints a u8 image of 1 or 3 channels, each pixel `zoom` pixels wide. The title is HTML without quotes. */
void gconv_page_image(FILE *out, const gconv_image *image, const char *title, int zoom);
/* Prints a confusion matrix: a row for each true class, a column for each predicted class. */
void gconv_page_confusion(FILE *out, const gconv_confusion *confusion);

/* Begins a white picture as SVG. `inside`: it is a part of a page. "</svg>\n" ends it. */
void gconv_svg_begin(FILE *out, int width, int height, bool inside);

/* Refuses a path of --report that is no page of HTML, cannot be written, or would replace a file that is read. */
gconv_status gconv_page_check(const char *path, const gconv_texts *read);

/* Writes what put() prints into a file, whole or not at all. */
gconv_status gconv_page_write(const char *path, void (*put)(FILE *out, const void *context), const void *context);
