/* SPDX-License-Identifier: MIT */
/* Reads an image and writes it through the library alone, for the tests of the codecs. */
#include "base/clock.h"
#include "gconv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_message(gconv_log_level level, const char *text, void *user) {
  (void)user;
  fprintf(stderr, "%s: %s\n", level == GCONV_LOG_WARNING ? "warning" : "remark", text);
}

static int print_header(const char *path) {
  gconv_image image;
  const gconv_format_info *format;
  if (gconv_image_read_header(path, &image, &format) != GCONV_OK) {
    fprintf(stderr, "%s\n", gconv_last_error());
    return EXIT_FAILURE;
  }
  printf("%s %s %d %d %d %d alpha=%d planar=%d icc=%zu %.4f %.4f\n", format->name, gconv_type_name(image.type), image.frames,
         image.channels, image.height, image.width, image.alpha, image.planar, image.icc_bytes, image.pixels_per_metre_x,
         image.pixels_per_metre_y);
  gconv_image_free(&image);
  return EXIT_SUCCESS;
}

/* image_convert IN            prints the header
 * image_convert IN OUT        converts, and prints the milliseconds of reading and of writing
 * Environment: MAX_PIXELS, FORMAT, QUALITY, LOSSLESS, LEVEL, COMPRESSION (a number), THREADS. */
int main(int count, char **arguments) {
  gconv_set_log(print_message, NULL);
  if (count == 2)
    return print_header(arguments[1]);
  if (count != 3)
    return 2;
  const char *limit = getenv("MAX_PIXELS"), *format = getenv("FORMAT"), *quality = getenv("QUALITY"),
             *level = getenv("LEVEL"), *threads = getenv("THREADS"), *compression = getenv("COMPRESSION");
  gconv_read_options reading = {.max_pixels = limit ? strtoull(limit, NULL, 10) : 0};
  gconv_write_options writing = {.format = format ? gconv_format_by_name(format) : NULL,
                                 .quality = quality ? (int)strtol(quality, NULL, 10) : 0,
                                 .png_level = level ? (int)strtol(level, NULL, 10) : 0,
                                 .lossless = getenv("LOSSLESS") != NULL,
                                 .tiff_compression = compression ? (gconv_tiff_compression)atoi(compression) : 0,
                                 .threads = threads ? (int)strtol(threads, NULL, 10) : 0};
  gconv_image image = {0};
  double start = gconv_now_ms();
  gconv_status status = gconv_image_read(arguments[1], &reading, &image);
  double middle = gconv_now_ms();
  if (status == GCONV_OK)
    status = gconv_image_write(arguments[2], &writing, &image);
  if (status != GCONV_OK)
    fprintf(stderr, "%s\n", gconv_last_error());
  else if (strcmp(arguments[2], "-") != 0)
    printf("%.2f %.2f\n", middle - start, gconv_now_ms() - middle);
  gconv_image_free(&image);
  return status == GCONV_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
