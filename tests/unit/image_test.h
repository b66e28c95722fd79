/* SPDX-License-Identifier: MIT */
/* What the tests of image files share: a folder, files in it, and images of noise. */
#ifndef GCONV_TESTS_IMAGE_TEST_H
#define GCONV_TESTS_IMAGE_TEST_H

#include "gconv.h"
#include "image/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[64];

/* A path in the folder of this test; valid until the next call but one. */
static inline const char *path_of(const char *name) {
  static char paths[2][128];
  static int turn;
  turn = !turn;
  snprintf(paths[turn], sizeof paths[turn], "%s/%s", folder, name);
  return paths[turn];
}

static inline void write_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static inline size_t read_file(const char *path, uint8_t *bytes, size_t room) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(bytes, 1, room, file);
  assert_true(size < room);
  fclose(file);
  return size;
}

/* An image of this shape, of noise (always the same), every sample value being possible; f32 in [-1, 3). */
static inline gconv_image make_image(gconv_type type, int frames, int height, int width, int channels, bool planar) {
  gconv_image image = {
      .type = type, .frames = frames, .height = height, .width = width, .channels = channels, .planar = planar};
  image.alpha = !planar && (channels == 2 || channels == 4);
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  size_t samples = (size_t)frames * (size_t)height * (size_t)width * (size_t)channels;
  uint32_t seed = 12345;
  for (size_t i = 0; i < samples; i++) {
    seed = seed * 1664525 + 1013904223;
    if (type == GCONV_U8)
      ((uint8_t *)image.data)[i] = (uint8_t)(seed >> 24);
    else if (type == GCONV_U16)
      ((uint16_t *)image.data)[i] = (uint16_t)(seed >> 16);
    else
      ((float *)image.data)[i] = (float)(seed >> 8) / 4194304.0f - 1;
  }
  return image;
}

static inline void expect_error(gconv_status got, gconv_status expected, const char *words) {
  if (got != expected || !strstr(gconv_last_error(), words))
    fail_msg("status %d, not %d with '%s': %s", (int)got, (int)expected, words, gconv_last_error());
}

/* For cmocka_run_group_tests(): makes the folder, and removes it with all that is in it. */
static inline int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/gconv-test-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

#endif
