/* SPDX-License-Identifier: MIT */
#include "data/pictures.h"
#include "base/arguments.h"
#include "base/checksum.h"
#include "base/control.h"
#include "base/folders.h"
#include "base/memory.h"
#include "image/colour.h"
#include "image/layout.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

typedef struct gconv_pictures_cache {
  pthread_mutex_t lock;
  uint64_t bytes, most; /* bytes of decoded images; the most that they may be */
  size_t hand;          /* the image that shrink() examines next */
} gconv_pictures_cache;

gconv_status gconv_pictures_begin(gconv_pictures *pictures, bool gray, uint64_t kept) {
  pictures->gray = gray;
  GCONV_NEW(pictures->cache, 1, "no memory for a list of images");
  pthread_mutex_init(&pictures->cache->lock, NULL);
  pictures->cache->most = kept;
  return GCONV_OK;
}

/* ---- Finding ------------------------------------------------------------------------------------------------------- */

/* True if the extension of the name belongs to a format that can be read. */
static bool is_picture_name(const char *name) {
  const gconv_format_info *format = gconv_format_by_path(name);
  return format && format->reads;
}

/* Appends an image; its header is read. */
static gconv_status add_file(gconv_pictures *pictures, const char *path) {
  gconv_picture *items = gconv_grown(pictures->items, pictures->count, sizeof *items);
  GCONV_ENDED_BY(gconv_image_free) gconv_image header = {0};
  GCONV_TRY(gconv_control_check());
  pictures->items = items ? items : pictures->items;
  char *copy = items ? strdup(path) : NULL;
  GCONV_NEED_MEMORY(copy, "no memory for a list of images");
  gconv_picture *item = &items[pictures->count++];
  *item = (gconv_picture){.path = copy};
  GCONV_TRY(gconv_image_read_header(path, &header, NULL));
  item->height = header.height;
  item->width = header.width;
  item->channels = header.channels - header.alpha;
  struct stat status;
  item->bytes = stat(path, &status) == 0 ? (uint64_t)status.st_size : 0;
  if (header.frames > 1)
    return gconv_fail(GCONV_BAD_FILE, "%s: has %d images, where one is expected: split it into files of one each", path,
                      (int)header.frames);
  return GCONV_OK;
}

gconv_status gconv_folder_each(const char *folder, gconv_status (*take)(void *context, const char *path, const char *name),
                               void *context) {
  GCONV_ENDED_BY(gconv_entries_free) gconv_entries entries = {0};
  if (!gconv_entries_read(folder, false, &entries))
    return errno == ENOENT ? gconv_fail(GCONV_IO_ERROR, "%s: there is no such file or folder", folder)
                           : gconv_fail(GCONV_IO_ERROR, "%s: cannot look into this folder: %s", folder, strerror(errno));
  for (int i = 0; i < entries.count; i++) {
    GCONV_FREED char *path = gconv_format_text("%s/%s", folder, entries.items[i]->d_name);
    GCONV_TRY(path ? take(context, path, entries.items[i]->d_name) : gconv_no_memory());
  }
  return GCONV_OK;
}

static gconv_status add_named(void *pictures, const char *path, const char *name) {
  return is_picture_name(name) ? add_file(pictures, path) : GCONV_OK;
}

gconv_status gconv_pictures_add(gconv_pictures *pictures, const char *path, size_t *found) {
  struct stat status;
  const size_t before = pictures->count;
  const bool one = stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
  GCONV_TRY(one ? add_file(pictures, path) : gconv_folder_each(path, add_named, pictures));
  if (found)
    *found = pictures->count - before;
  return found || pictures->count > before ? GCONV_OK : gconv_fail(GCONV_BAD_FILE, "%s: has no images", path);
}

/* Returns a checksum of the samples of an image. */
static uint32_t sum_samples(const gconv_image *image) {
  uint32_t sum = 0;
  for (size_t p = 0; p < (size_t)(image->planar ? image->channels : 1); p++)
    for (int32_t y = 0; y < image->height; y++)
      sum = gconv_crc32(sum, gconv_row_at(image, p, y), gconv_samples_of(image) * gconv_type_bytes(image->type));
  return sum;
}

gconv_status gconv_pictures_add_given(gconv_pictures *pictures, const gconv_image *images, size_t count, const char *word) {
  gconv_picture *items = realloc(pictures->items, (pictures->count + count) * sizeof *items);
  GCONV_NEED_MEMORY(items, "no memory for a list of %zu images", count);
  pictures->items = items;
  for (size_t i = 0; i < count; i++) {
    const gconv_image *image = &images[i];
    char *name = gconv_format_text("%s %zu", word, i);
    GCONV_NEED_MEMORY(name, "no memory for a list of images");
    items[pictures->count++] = (gconv_picture){.path = name,
                                               .height = image->height,
                                               .width = image->width,
                                               .channels = image->channels - image->alpha,
                                               .given = image};
    GCONV_TRY(gconv_check_source(image, name));
    GCONV_TRY(gconv_check_pixels(image, name));
    if (image->frames != 1)
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s has %d frames, where one is expected", name, (int)image->frames);
    items[pictures->count - 1].bytes = sum_samples(image);
  }
  return GCONV_OK;
}

/* ---- Checking ------------------------------------------------------------------------------------------------------ */

static const gconv_picture *find_other_channels(const gconv_pictures *pictures) {
  for (size_t i = 1; i < pictures->count; i++)
    if (pictures->items[i].channels != pictures->items[0].channels)
      return &pictures->items[i];
  return NULL;
}

gconv_status gconv_pictures_finish(gconv_pictures *pictures) {
  const gconv_picture *first = pictures->items, *other = find_other_channels(pictures);
  bool colours = true; /* all are grey or RGB */
  for (size_t i = 0; i < pictures->count; i++)
    colours &= pictures->items[i].channels == 1 || pictures->items[i].channels == 3;
  if (!colours && pictures->gray)
    return gconv_fail(GCONV_BAD_FILE, "%s: only images of one channel, or of RGB, become grey", first->path);
  if (!colours && other)
    return gconv_fail(GCONV_BAD_FILE, "%s has %d channels, and %s %d: all images must have as many", first->path,
                      (int)first->channels, other->path, (int)other->channels);
  pictures->channels = pictures->gray ? 1 : other ? 3 : first->channels;
  return GCONV_OK;
}

gconv_status gconv_pictures_check_sizes(const gconv_pictures *pictures, int32_t patch) {
  const gconv_picture *first = pictures->items;
  for (size_t i = 0; i < pictures->count; i++) {
    const gconv_picture *item = &pictures->items[i];
    if (patch > 0 && (item->height < patch || item->width < patch))
      return gconv_fail(GCONV_BAD_FILE,
                        "%s: has %d x %d pixels, less than the patches of %d x %d: use smaller ones (--patch)", item->path,
                        (int)item->width, (int)item->height, (int)patch, (int)patch);
    if (patch == 0 && (item->height != first->height || item->width != first->width))
      return gconv_fail(GCONV_BAD_FILE,
                        "%s has %d x %d pixels, and %s %d x %d: images of different sizes need --patch N, which takes N x N "
                        "pixels from a random place of each",
                        first->path, (int)first->width, (int)first->height, item->path, (int)item->width, (int)item->height);
  }
  return GCONV_OK;
}

/* ---- Reading ------------------------------------------------------------------------------------------------------- */

static size_t bytes_of(const gconv_image *image) {
  return image->plane_bytes * (size_t)image->frames * (size_t)(image->planar ? image->channels : 1);
}

/* Frees images until the others fit into `most` bytes, by the clock algorithm: a hand goes round the images, and frees those
 * that were not used since its last visit. The caller holds the lock. */
static void shrink(const gconv_pictures *pictures) {
  gconv_pictures_cache *cache = pictures->cache;
  for (size_t i = 0; i < 2 * pictures->count && cache->bytes > cache->most; i++) {
    gconv_picture *item = &pictures->items[cache->hand];
    bool spared = item->used || item->users > 0;
    cache->hand = (cache->hand + 1) % pictures->count;
    item->used = false;
    if (spared || !item->image.data)
      continue;
    cache->bytes -= bytes_of(&item->image);
    gconv_image_free(&item->image);
  }
}

/* Decodes the image if necessary, and keeps it until release() is called. */
static gconv_status acquire(const gconv_pictures *pictures, gconv_picture *item) {
  gconv_pictures_cache *cache = pictures->cache;
  GCONV_ENDED_BY(gconv_image_free) gconv_image image = {0};
  pthread_mutex_lock(&cache->lock);
  item->users++;
  item->used = true;
  bool there = item->image.data != NULL;
  pthread_mutex_unlock(&cache->lock);
  if (there)
    return GCONV_OK;
  gconv_status status = gconv_image_read(item->path, NULL, &image);
  if (status == GCONV_OK &&
      (image.height != item->height || image.width != item->width || image.channels - image.alpha != item->channels))
    status = gconv_fail(GCONV_BAD_FILE, "%s: has changed while it was in use", item->path);
  pthread_mutex_lock(&cache->lock);
  if (status == GCONV_OK && !item->image.data) { /* if another thread has decoded it meanwhile, its pixels are used */
    item->image = image;
    image = (gconv_image){0};
    cache->bytes += bytes_of(&item->image);
    shrink(pictures);
  }
  item->users -= status != GCONV_OK;
  pthread_mutex_unlock(&cache->lock);
  return status;
}

static void release(const gconv_pictures *pictures, gconv_picture *item) {
  pthread_mutex_lock(&pictures->cache->lock);
  item->users--;
  shrink(pictures);
  pthread_mutex_unlock(&pictures->cache->lock);
}

/* Converts a row of a part to planes that are `plane` floats apart. row: a workspace for the row with four channels. */
static void convert_row(const gconv_pictures *pictures, const gconv_image *image, gconv_crop crop, int32_t y, float *row,
                        float *samples, size_t plane) {
  const uint8_t *data = image->data;
  size_t width = (size_t)crop.width, sample = gconv_type_bytes(image->type), place = (size_t)(crop.y + y) * image->row_bytes;
  int32_t channels = image->channels - image->alpha;
  if (image->planar) {
    for (int32_t c = 0; c < pictures->channels; c++) {
      const uint8_t *from = data + (size_t)(c < channels ? c : 0) * image->plane_bytes + place + (size_t)crop.x * sample;
      gconv_colour_to_float_row(image->type, from, samples + (size_t)c * plane, width);
    }
    return;
  }
  size_t step = (size_t)image->channels, given = (size_t)channels;
  const uint8_t *from = data + place + (size_t)crop.x * step * sample;
  if (step == 1 && pictures->channels == 1) {
    gconv_colour_to_float_row(image->type, from, samples, width);
    return;
  }
  if (pictures->gray && channels == 3) {
    if (image->type == GCONV_F32)
      gconv_colour_grey_row(image->type, image->channels, image->alpha, from, row, width);
    else
      gconv_colour_grey_to_float_row(image->type, image->channels, image->alpha, from, row, width);
    step = 1 + image->alpha;
    given = 1;
  } else {
    gconv_colour_to_float_row(image->type, from, row, width * step);
  }
  for (size_t c = 0; c < (size_t)pictures->channels; c++)
    for (size_t x = 0; x < width; x++)
      samples[c * plane + x] = row[x * step + (c < given ? c : 0)];
}

/* Mirrors and rotates a plane. */
static void turn_plane(const float *from, gconv_crop crop, float *to) {
  const size_t height = (size_t)crop.height, width = (size_t)crop.width;
  const unsigned quarter = crop.turn >> 1;
  for (size_t y = 0; y < height; y++)
    for (size_t x = 0; x < width; x++) {
      size_t sy = quarter == 0 ? y : quarter == 1 ? x : quarter == 2 ? height - 1 - y : height - 1 - x;
      size_t sx = quarter == 0 ? x : quarter == 1 ? width - 1 - y : quarter == 2 ? width - 1 - x : y;
      to[y * width + x] = from[sy * width + (crop.turn & 1 ? width - 1 - sx : sx)];
    }
}

static gconv_status convert(const gconv_pictures *pictures, const gconv_image *image, gconv_crop crop, float *samples) {
  size_t plane = (size_t)crop.height * (size_t)crop.width;
  size_t row_floats = 4 * (size_t)crop.width, turned = crop.turn ? (size_t)pictures->channels * plane : 0;
  GCONV_FREED float *memory = malloc((row_floats + turned) * sizeof *memory);
  GCONV_NEED_MEMORY(memory, "no memory for a part of an image");
  float *straight = crop.turn ? memory + row_floats : samples;
  for (int32_t y = 0; y < crop.height; y++)
    convert_row(pictures, image, crop, y, memory, straight + (size_t)y * (size_t)crop.width, plane);
  for (int32_t c = 0; c < pictures->channels && crop.turn; c++)
    turn_plane(straight + (size_t)c * plane, crop, samples + (size_t)c * plane);
  return GCONV_OK;
}

gconv_status gconv_pictures_get(const gconv_pictures *pictures, size_t index, gconv_crop crop, float *samples) {
  gconv_picture *item = &pictures->items[index];
  if (item->given)
    return convert(pictures, item->given, crop, samples);
  GCONV_TRY(acquire(pictures, item));
  gconv_status status = convert(pictures, &item->image, crop, samples);
  release(pictures, item);
  return status;
}

uint64_t gconv_pictures_digest(const gconv_pictures *pictures, uint64_t hash) {
  for (size_t i = 0; i < pictures->count; i++) {
    const gconv_picture *item = &pictures->items[i];
    const char *slash = strrchr(item->path, '/'), *name = slash ? slash + 1 : item->path;
    const uint64_t numbers[] = {(uint64_t)item->height, (uint64_t)item->width, (uint64_t)item->channels, item->bytes};
    hash = gconv_fnv1a(hash, name, strlen(name) + 1);
    hash = gconv_fnv1a(hash, numbers, sizeof numbers);
  }
  return hash;
}

void gconv_pictures_free(gconv_pictures *pictures) {
  for (size_t i = 0; i < pictures->count; i++) {
    free(pictures->items[i].path);
    gconv_image_free(&pictures->items[i].image);
  }
  free(pictures->items);
  if (pictures->cache)
    pthread_mutex_destroy(&pictures->cache->lock);
  free(pictures->cache);
  *pictures = (gconv_pictures){0};
}
