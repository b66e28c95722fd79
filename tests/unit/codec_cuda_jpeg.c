/* SPDX-License-Identifier: MIT */
/* The file that decoders of GPUs are held to: that its pixels are what the CPU makes of it. */
#include "base/checksum.h"
#include "codec_cuda/jpeg_known.h"
#include "gconv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void the_known_file_is_known(void **state) {
  (void)state;
  char path[] = "/tmp/gconv-jpeg-XXXXXX";
  FILE *file = fdopen(mkstemp(path), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(gconv_known_jpeg, 1, GCONV_KNOWN_JPEG_BYTES, file), GCONV_KNOWN_JPEG_BYTES);
  fclose(file);
  gconv_image image = {.data = NULL};
  assert_int_equal(gconv_image_read(path, NULL, &image), GCONV_OK);
  assert_true(image.width == GCONV_KNOWN_JPEG_WIDTH && image.height == GCONV_KNOWN_JPEG_HEIGHT && image.channels == 3);
  assert_int_equal(image.row_bytes, 3 * GCONV_KNOWN_JPEG_WIDTH);
  assert_int_equal(gconv_crc32(0, image.data, image.row_bytes * GCONV_KNOWN_JPEG_HEIGHT), GCONV_KNOWN_JPEG_CRC);
  gconv_image_free(&image);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_known_file_is_known)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
