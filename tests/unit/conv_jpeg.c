/* SPDX-License-Identifier: MIT */
/*
 * JPEG files that a GPU decodes: which files that is, and that the pixels are those of libjpeg. The latter needs a GPU:
 *
 *     test_conv_jpeg cuda     ends with 77 where there is none, or no nvJPEG
 */
#include "bench/make_plan.h"
#include "device/decoder.h"
#include "image/format.h"
#include "operation/operation.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jpeglib.h>

static char path[64]; /* of the file of a test */

/* How a file is written. */
typedef struct kind {
  int width, height;
  int across, down; /* pixels of a sample of colour */
  int restart;      /* blocks between restarts; 0: none */
  bool grey, progressive, turned;
} kind;

static const kind PLAIN = {.width = 67, .height = 45, .across = 2, .down = 2};

/* Waves and noise, so that neighbours differ, of all levels. */
static int level(int x, int y, int c, uint32_t *seed) {
  *seed = *seed * 1664525 + 1013904223;
  int value = (x * (7 + c) + y * (5 - c)) % 256, noise = (int)(*seed >> 26);
  return (value + noise) % 256;
}

static void write_jpeg(const char *name, const kind *k) {
  static const JOCTET turned[] = "Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\6\0\0\0\0\0\0"; /* orientation 6 */
  FILE *file = fopen(name, "wb");
  assert_non_null(file);
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  jpeg_stdio_dest(&jpeg, file);
  jpeg.image_width = (JDIMENSION)k->width;
  jpeg.image_height = (JDIMENSION)k->height;
  jpeg.input_components = k->grey ? 1 : 3;
  jpeg.in_color_space = k->grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 40 + (k->width + k->height) % 60, TRUE);
  if (!k->grey) {
    jpeg.comp_info[0].h_samp_factor = k->across;
    jpeg.comp_info[0].v_samp_factor = k->down;
  }
  jpeg.restart_interval = (unsigned)k->restart;
  if (k->progressive)
    jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  if (k->turned)
    jpeg_write_marker(&jpeg, JPEG_APP0 + 1, turned, sizeof turned - 1);
  uint8_t *row = test_malloc((size_t)k->width * 3);
  uint32_t seed = 1;
  for (int y = 0; y < k->height; y++) {
    for (int i = 0; i < k->width * jpeg.input_components; i++)
      row[i] = (uint8_t)level(i / jpeg.input_components, y, i % jpeg.input_components, &seed);
    JSAMPROW rows[] = {row};
    jpeg_write_scanlines(&jpeg, rows, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  test_free(row);
  assert_int_equal(fclose(file), 0);
}

/* What gconv_row_reader_jpeg() says of the file; the image must be readable all the same. */
static gconv_status status_of(const char *name, bool readable) {
  gconv_row_reader *reader = NULL;
  gconv_image image = {0};
  void *jpeg = NULL;
  size_t size = 0;
  assert_int_equal(gconv_row_reader_open(name, NULL, &reader), GCONV_OK);
  gconv_status status = gconv_row_reader_jpeg(reader, &jpeg, &size);
  assert_true((status == GCONV_OK) == (jpeg != NULL));
  assert_int_equal(gconv_row_reader_image(reader, &image), readable ? GCONV_OK : GCONV_BAD_FILE);
  gconv_row_reader_close(reader);
  gconv_image_free(&image);
  free(jpeg);
  return status;
}

static void assert_refused(const kind *k, const char *why) {
  write_jpeg(path, k);
  assert_int_equal(status_of(path, true), GCONV_UNSUPPORTED);
  assert_non_null(strstr(gconv_last_error(), why));
}

static void kinds_that_no_gpu_decodes(void **state) {
  (void)state;
  kind k = PLAIN;
  write_jpeg(path, &k);
  assert_int_equal(status_of(path, true), GCONV_OK);
  k.progressive = true;
  assert_refused(&k, "progressive");
  k = (kind){.width = 9, .height = 9, .grey = true};
  assert_refused(&k, "grey");
  k = PLAIN;
  k.turned = true;
  assert_refused(&k, "EXIF");
  k = PLAIN;
  k.across = 4;
  k.down = 1;
  assert_refused(&k, "uncommon");
  gconv_image image = {.type = GCONV_U8, .frames = 1, .height = 3, .width = 4, .channels = 3};
  assert_int_equal(gconv_image_allocate(&image), GCONV_OK);
  memset(image.data, 7, 36);
  assert_int_equal(gconv_image_write(path, &(gconv_write_options){.format = gconv_format_by_name("png")}, &image), GCONV_OK);
  assert_int_equal(status_of(path, true), GCONV_UNSUPPORTED);
  assert_non_null(strstr(gconv_last_error(), "no JPEG"));
  gconv_image_free(&image);
}

/* ---- Damage ---- */

static uint8_t *load(size_t *size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  uint8_t *bytes = test_malloc(1 << 20);
  *size = fread(bytes, 1, 1 << 20, file);
  fclose(file);
  return bytes;
}

static void damage_is_told_by_marks(void **state) {
  (void)state;
  for (int restart = 0; restart < 2; restart++) { /* behind each of 15 blocks: the marks are 0 to 7, and 0 to 5 */
    kind k = PLAIN;
    k.restart = restart;
    write_jpeg(path, &k);
    size_t size, data;
    uint8_t *bytes = load(&size);
    assert_true(gconv_jpeg_is_whole(bytes, size));
    for (size_t shorter = 0; shorter < size; shorter++)
      assert_false(gconv_jpeg_is_whole(bytes, shorter));
    for (data = size - 3; !(bytes[data] == 0xff && bytes[data + 1] == 0xda); data--)
      ;
    for (int mark = 1; mark < 255; mark++) {
      uint8_t *at = bytes + (data + size) / 2, kept[2] = {at[0], at[1]};
      at[0] = 0xff;
      at[1] = (uint8_t)mark;
      bool allowed = restart && mark >= 0xd0 && mark <= 0xd7;
      assert_true(allowed || !gconv_jpeg_is_whole(bytes, size));
      memcpy(at, kept, 2);
    }
    for (size_t i = 0; restart && i < size - 2; i++) /* one restart twice */
      if (i > data && bytes[i] == 0xff && bytes[i + 1] == 0xd1) {
        bytes[i + 1] = 0xd0;
        assert_false(gconv_jpeg_is_whole(bytes, size));
        bytes[i + 1] = 0xd1;
        break;
      }
    test_free(bytes);
  }
  static const uint8_t nonsense[][8] = {"",
                                        {0xff, 0xd8},
                                        {0xff, 0xd8, 0xff, 0xda},
                                        {0xff, 0xd8, 0xff, 0xda, 0, 1, 0, 0},
                                        {0xff, 0xd8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
                                        {0xff, 0xd8, 0xff, 0xda, 0, 9, 1, 1}};
  for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
    for (size_t size = 0; size <= 8; size++)
      assert_false(gconv_jpeg_is_whole(nonsense[i], size));
}

static void a_cut_file_is_the_readers(void **state) {
  (void)state;
  write_jpeg(path, &PLAIN);
  size_t size;
  test_free(load(&size));
  assert_int_equal(truncate(path, (off_t)size * 2 / 3), 0);
  assert_int_equal(status_of(path, false), GCONV_UNSUPPORTED);
}

/* ---- On a GPU ---- */

static gconv_device *gpu;

static void make_identity(gconv_filters *filters) {
  assert_int_equal(gconv_filters_read("identity", NULL, filters), GCONV_OK);
}

/* Compares rows with those of an image, as they come. */
typedef struct comparison {
  const gconv_image *image;
  int32_t next;
  bool begun, differs;
} comparison;

static int32_t begin_comparison(void *user) {
  comparison *c = user;
  c->differs |= c->begun;
  c->begun = true;
  return 7;
}

static void compare_rows(void *user, size_t output, const gconv_part *part) {
  comparison *c = user;
  const int32_t count = part->count;
  const gconv_image *image = c->image;
  size_t dense = 3 * (size_t)image->width;
  c->differs |=
      !c->begun || output != 0 || count > image->height - c->next || (count % 7 != 0 && count != image->height - c->next);
  for (int32_t i = 0; i < count && !c->differs; i++, c->next++)
    c->differs |= memcmp((const uint8_t *)part->samples + (size_t)i * part->row_bytes,
                         (const uint8_t *)image->data + (size_t)c->next * image->row_bytes, dense) != 0;
}

/* Returns whether the rows of the file that the plan yields differ from those of the image. */
static bool rows_differ(gconv_plan *plan, const void *jpeg, size_t size, const gconv_image *image) {
  comparison c = {.image = image};
  gconv_taker taker = {.begin = begin_comparison, .take = compare_rows, .user = &c};
  gconv_status status = gconv_plan_execute_parts(plan, image, jpeg, size, &taker, NULL);
  return status != GCONV_OK || c.differs || c.next != image->height;
}

/* Decodes a file on the GPU and compares. Not cmocka's assertions, which are of one thread. */
static int differs(const char *name) {
  gconv_row_reader *reader = NULL;
  gconv_image image = {0}, result = {0};
  gconv_filters filters = {0};
  gconv_options options = gconv_options_default();
  gconv_plan *plan = NULL;
  gconv_timings timings;
  void *jpeg = NULL;
  size_t size = 0;
  bool good = gconv_filters_read("identity", NULL, &filters) == GCONV_OK &&
              gconv_row_reader_open(name, NULL, &reader) == GCONV_OK &&
              gconv_plan_filters(gpu, gconv_row_reader_header(reader), &filters, &options, &plan) == GCONV_OK &&
              gconv_row_reader_jpeg(reader, &jpeg, &size) == GCONV_OK &&
              gconv_plan_execute_jpeg(plan, jpeg, size, gconv_row_reader_header(reader), &result, &timings) == GCONV_OK &&
              gconv_row_reader_image(reader, &image) == GCONV_OK;
  if (!good)
    printf("%s: %s\n", name, gconv_last_error());
  size_t bytes = good ? image.plane_bytes : 0, wrong = 0;
  for (size_t i = 0; i < bytes; i++)
    wrong += ((uint8_t *)image.data)[i] != ((uint8_t *)result.data)[i];
  if (wrong > 0)
    printf("%s: %zu of %zu samples differ\n", name, wrong, bytes);
  if (good && rows_differ(plan, jpeg, size, &image)) {
    printf("%s: its rows differ: %s\n", name, gconv_last_error());
    wrong++;
  }
  gconv_plan_free(plan);
  gconv_row_reader_close(reader);
  gconv_filters_free(&filters);
  gconv_image_free(&image);
  gconv_image_free(&result);
  free(jpeg);
  return !good || wrong > 0;
}

static void pixels_are_libjpegs(void **state) {
  (void)state;
  static const int sizes[][2] = {{1, 1},   {2, 1},   {1, 2},     {3, 3},     {4, 5},      {5, 4},    {6, 2},   {16, 16},
                                 {17, 33}, {33, 17}, {640, 480}, {1023, 77}, {1025, 771}, {3, 2000}, {2000, 3}};
  int wrong = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (int sampling = 0; sampling < 4; sampling++)
      for (int restart = 0; restart < 4; restart += 3) {
        kind k = {.width = sizes[i][0],
                  .height = sizes[i][1],
                  .across = 1 + sampling % 2,
                  .down = 1 + sampling / 2,
                  .restart = restart};
        char name[128];
        snprintf(name, sizeof name, "%s.%dx%d-%d%d", path, k.width, k.height, k.across, k.down);
        write_jpeg(name, &k);
        wrong += differs(name);
        unlink(name);
      }
  assert_int_equal(wrong, 0);
}

static void *decode_often(void *argument) {
  int *wrong = argument;
  for (int i = 0; i < 20; i++) {
    char name[128];
    snprintf(name, sizeof name, "%s.%d", path, (i + *wrong) % 8);
    *wrong = *wrong % 1000 + 1000 * (*wrong / 1000 + differs(name));
  }
  return NULL;
}

/* So that calls have several files, of several sizes. */
static void threads_share_calls(void **state) {
  (void)state;
  enum { THREADS = 12, FILES = 8 };
  pthread_t threads[THREADS];
  int wrong[THREADS];
  char name[128];
  for (int i = 0; i < FILES; i++) {
    kind k = {.width = 100 + 300 * i, .height = 700 - 30 * i, .across = 1 + i % 2, .down = 1 + i / 2 % 2};
    snprintf(name, sizeof name, "%s.%d", path, i);
    write_jpeg(name, &k);
  }
  for (int i = 0; i < THREADS; i++) {
    wrong[i] = i;
    assert_int_equal(pthread_create(&threads[i], NULL, decode_often, &wrong[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(wrong[i] / 1000, 0);
  }
  for (int i = 0; i < FILES; i++) {
    snprintf(name, sizeof name, "%s.%d", path, i);
    unlink(name);
  }
}

/* Files that nvJPEG refuses are errors; others of the same call are not concerned, nor the next ones. */
static void nonsense_is_refused(void **state) {
  (void)state;
  gconv_filters filters = {0};
  gconv_options options = gconv_options_default();
  gconv_image header = {.type = GCONV_U8, .frames = 1, .height = 45, .width = 67, .channels = 3}, result = {0};
  gconv_plan *plan = NULL;
  make_identity(&filters);
  assert_int_equal(gconv_plan_filters(gpu, &header, &filters, &options, &plan), GCONV_OK);
  assert_int_equal(gconv_plan_execute_jpeg(plan, "nonsense", 8, &header, &result, NULL), GCONV_BAD_FILE);
  assert_null(result.data);
  comparison c = {.image = &header};
  gconv_taker taker = {.begin = begin_comparison, .take = compare_rows, .user = &c};
  assert_int_equal(gconv_plan_execute_parts(plan, &header, "nonsense", 8, &taker, NULL), GCONV_BAD_FILE);
  assert_false(c.begun);
  kind k = PLAIN;
  k.progressive = true;
  write_jpeg(path, &k);
  size_t size;
  uint8_t *bytes = load(&size);
  assert_int_not_equal(gconv_plan_execute_jpeg(plan, bytes, size, &header, &result, NULL), GCONV_OK);
  test_free(bytes);
  write_jpeg(path, &PLAIN);
  assert_int_equal(differs(path), 0);
  header.width = 68;
  assert_int_equal(gconv_plan_execute_jpeg(plan, "nonsense", 8, &header, &result, NULL), GCONV_BAD_ARGUMENT);
  gconv_plan_free(plan);
  gconv_filters_free(&filters);
}

static int open_gpu(void) {
  const char *obstacle = gconv_device_decoder_obstacle();
  if (obstacle || gconv_device_open("cuda", 1, &gpu) != GCONV_OK || gconv_device_start_decoder(gpu) != GCONV_OK) {
    printf("skipped: %s\n", obstacle ? obstacle : gconv_last_error());
    return 77;
  }
  return 0;
}

static void a_cpu_has_no_decoder(void **state) {
  (void)state;
  gconv_device *cpu = NULL;
  gconv_filters filters = {0};
  gconv_options options = gconv_options_default();
  gconv_image header = {.type = GCONV_U8, .frames = 1, .height = 4, .width = 4, .channels = 3}, result = {0};
  gconv_plan *plan = NULL;
  assert_int_equal(gconv_device_open("cpu", 1, &cpu), GCONV_OK);
  assert_int_equal(gconv_device_start_decoder(cpu), GCONV_UNSUPPORTED);
  make_identity(&filters);
  assert_int_equal(gconv_plan_filters(cpu, &header, &filters, &options, &plan), GCONV_OK);
  assert_int_equal(gconv_plan_execute_jpeg(plan, "", 0, &header, &result, NULL), GCONV_UNSUPPORTED);
  assert_int_equal(gconv_plan_execute_parts(plan, &header, "", 0, &(gconv_taker){0}, NULL), GCONV_UNSUPPORTED);
  gconv_plan_free(plan);
  gconv_filters_free(&filters);
  gconv_device_close(cpu);
}

static void a_header_tells_whether_it_may_be_a_gpus(void **state) {
  (void)state;
  kind kinds[] = {PLAIN, PLAIN};
  kinds[1].progressive = true;
  for (size_t i = 0; i < 2; i++) {
    gconv_row_reader *reader = NULL;
    write_jpeg(path, &kinds[i]);
    assert_int_equal(gconv_row_reader_open(path, NULL, &reader), GCONV_OK);
    assert_int_equal(gconv_row_reader_may_be_jpeg(reader), i == 0);
    gconv_row_reader_close(reader);
  }
}

/* A build without CUDA, or without src/codec_cuda, says what is missing; the CPU never has a codec. */
static void a_build_without_a_codec_says_so(void **state) {
  (void)state;
  const gconv_gpu_codec *codec = gconv_gpu_codec_of("cuda");
  const char *obstacle = gconv_device_decoder_obstacle();
  assert_true(codec || obstacle);
#ifdef GCONV_WITH_CUDA
  assert_true(codec || strcmp(obstacle, "this build has no decoder for GPUs") == 0);
#else
  assert_null(codec);
  assert_string_equal(obstacle, "this gconv was built without CUDA");
#endif
  assert_null(gconv_gpu_codec_of("cpu"));
}

int main(int count, char **words) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kinds_that_no_gpu_decodes),       cmocka_unit_test(damage_is_told_by_marks),
      cmocka_unit_test(a_cut_file_is_the_readers),       cmocka_unit_test(a_cpu_has_no_decoder),
      cmocka_unit_test(a_build_without_a_codec_says_so), cmocka_unit_test(a_header_tells_whether_it_may_be_a_gpus),
  };
  const struct CMUnitTest on_gpu[] = {
      cmocka_unit_test(pixels_are_libjpegs),
      cmocka_unit_test(threads_share_calls),
      cmocka_unit_test(nonsense_is_refused),
  };
  snprintf(path, sizeof path, "/tmp/gconv-jpeg-XXXXXX");
  int file = mkstemp(path), status;
  if (file < 0)
    return 1;
  close(file);
  if (count > 1 && strcmp(words[1], "cuda") == 0) {
    status = open_gpu();
    status = status ? status : cmocka_run_group_tests_name("jpeg on a gpu", on_gpu, NULL, NULL);
    gconv_device_close(gpu);
  } else {
    status = cmocka_run_group_tests_name("jpeg", tests, NULL, NULL);
  }
  unlink(path);
  return status;
}
