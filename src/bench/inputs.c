/* SPDX-License-Identifier: MIT */
/* Images, filters and layers of random numbers: the same for every run of the program. */
#include "base/memory.h"
#include "bench/bench.h"

/* A linear congruential generator (Numerical Recipes); its high bits are good enough to be convolved. */
static uint32_t next_random(uint32_t *state) {
  return *state = *state * 1664525u + 1013904223u;
}

gconv_status gconv_bench_make_image(const gconv_bench_image *shape, gconv_type type, gconv_image *image) {
  *image = (gconv_image){.type = type,
                         .frames = 1,
                         .height = shape->height,
                         .width = shape->width,
                         .channels = shape->channels,
                         .planar = shape->planar};
  GCONV_TRY(gconv_image_allocate(image));
  uint32_t state = 1;
  size_t samples = (size_t)shape->height * (size_t)shape->width * (size_t)shape->channels;
  for (size_t i = 0; i < samples; i++) {
    uint32_t bits = next_random(&state);
    if (type == GCONV_U8)
      ((uint8_t *)image->data)[i] = (uint8_t)(bits >> 24);
    else if (type == GCONV_U16)
      ((uint16_t *)image->data)[i] = (uint16_t)(bits >> 16);
    else
      ((float *)image->data)[i] = (float)(bits >> 8) * 0x1p-24f;
  }
  return GCONV_OK;
}

void gconv_bench_free_images(gconv_image *images, size_t count) {
  for (size_t i = 0; images && i < count; i++)
    gconv_image_free(&images[i]);
  free(images);
}

/* By Knuth's MMIX generator. */
gconv_status gconv_bench_draw_numbers(size_t count, uint64_t seed, const char *what, float **numbers) {
  GCONV_TRY(gconv_allocate(count * sizeof **numbers, what, (void **)numbers));
  for (size_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    (*numbers)[i] = (float)(seed >> 40) * 0x1p-24f;
  }
  return GCONV_OK;
}

const int32_t *gconv_bench_numbers(const gconv_bench_list *given, const int32_t *own, int32_t most, int32_t *count) {
  *count = given ? given->count : 0;
  if (*count > 0)
    return given->items;
  while (*count < most && own[*count] > 0)
    ++*count;
  return own;
}

/* The filter is written as an ImageMagick kernel, and read like any other. Its taps have both signs, so that responses stay
 * small. Their sum is about 0.3, because gconv warns of sums near 0. */
gconv_status gconv_bench_random_filter(int32_t size, gconv_filters *filters) {
  size_t taps = (size_t)size * (size_t)size, bytes = 32 + 16 * taps;
  GCONV_FREED char *text = malloc(bytes);
  GCONV_NEED_MEMORY(text, "out of memory");
  uint32_t state = (uint32_t)size;
  size_t used = (size_t)snprintf(text, bytes, "%dx%d+%d+%d:", size, size, size / 2, size / 2);
  for (size_t i = 0; i < taps; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%.8f", i ? "," : " ",
                             ((double)next_random(&state) * 0x1p-32 - 0.425) * 4 / (double)taps);
  return gconv_filters_read(text, NULL, filters);
}
