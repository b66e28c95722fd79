/* SPDX-License-Identifier: MIT */
/*
 * Features on a GPU. The rows of a band, and the rows on which they depend, are uploaded. They become a plane of floats for
 * each channel, and planes become features, scale by scale. Results have the same bytes as on the CPU, because sums have the
 * same order. Where the CPU subtracts one sample of a tile from all of its pixels, the GPU uses the same tiles.
 */
#include "device/device.h"
#include "device/guest_cuda.h"
#include "device/timeline_cuda.h"
#include "device/transfer_cuda.h"
#include "feature/gpu.h"
#include "kernels/cuda/feature/feature.h"

#include <algorithm>
#include <stdlib.h>
#include <string.h>

/* The planes of a scale that are kept for features that need neighbouring samples: the Gaussian, and its derivatives in x
 * and y. */
enum { KEPT, KEPT_X, KEPT_Y, KEPT_PLANES };

struct gconv_feature_gpu {
  gconv_device *device;
  const gconv_feature_list *list;
  gconv_image like;
  int32_t channels, rows; /* how many channels get features; rows of a band */
  gconv_timeline line;
  gconv_feature_taps *taps; /* owned: one for each scale */
  void *raw;                /* pixels; these and the arrays below are in memory of the device */
  float *source, *passes, *kept[KEPT_PLANES], *features;
};

/* ---- Sizes ---- */

int32_t gconv_feature_gpu_rows(const gconv_image *like, double outputs) {
  const double band_bytes = 768 << 20, most = 16384;
  const int32_t step = GCONV_TILE_HEIGHT, height = like->height;
  const double fits = band_bytes / ((double)like->width * outputs * sizeof(float));
  const int32_t rows = std::max((int32_t)std::min(fits, most) / step, 2) * step, bands = (height - 1) / rows + 1;
  return ((height - 1) / bands + step) / step * step;
}

static gconv_feature_tiles tiles_of(const gconv_image *like, const gconv_scale *scale, int32_t first, int32_t rows,
                                    int32_t rim) {
  gconv_feature_tiles tiles = {};
  tiles.height = like->height;
  tiles.width = like->width;
  tiles.first = first;
  tiles.rows = rows;
  tiles.overlap = scale->convention == GCONV_SMOOTH_SKIMAGE;
  tiles.tile_rows = tiles.overlap ? (int32_t)GCONV_TILE_HEIGHT : rows;
  tiles.tile_columns = tiles.overlap ? (int32_t)GCONV_TILE_WIDTH : like->width;
  tiles.down = (rows - 1) / tiles.tile_rows + 1;
  tiles.across = (like->width - 1) / tiles.tile_columns + 1;
  tiles.rim = rim;
  return tiles;
}

/* The floats of each buffer, and the bytes of the pixels. */
struct sizes {
  size_t raw_bytes, source, passes, kept[KEPT_PLANES], features;
};

static void count_feature(const gconv_feature_list *list, const gconv_feature *feature, const gconv_image *like,
                          int32_t rows, sizes *s) {
  const gconv_scale *scale = &list->scales[feature->scale];
  const gconv_feature_tiles tiles = tiles_of(like, scale, 0, rows, scale->rim);
  const size_t plane = gconv_feature_plane_floats(&tiles);
  s->passes = std::max(s->passes, GCONV_SMOOTH_ORDERS * gconv_feature_pass_floats(&tiles, scale->radius));
  switch (feature->kind->form) {
  case GCONV_FEATURE_DOG:
  case GCONV_FEATURE_EDGES:
  case GCONV_FEATURE_TEXTURE:
    s->kept[KEPT] = std::max(s->kept[KEPT], plane);
    break;
  case GCONV_FEATURE_STRUCTURE:
    s->kept[KEPT_X] = s->kept[KEPT_Y] = std::max(s->kept[KEPT_X], plane);
    break;
  case GCONV_FEATURE_INTENSITY:
  case GCONV_FEATURE_GAUSSIAN:
  case GCONV_FEATURE_LOG:
  case GCONV_FEATURE_GRADIENT:
  case GCONV_FEATURE_HESSIAN:
    break;
  }
}

static sizes find_sizes(const gconv_feature_list *list, const gconv_image *like, int32_t channels, int32_t rows) {
  const size_t width = (size_t)like->width,
               window = (size_t)std::min<int64_t>((int64_t)rows + 2 * list->reach, like->height);
  sizes s = {};
  s.raw_bytes = window * width * (size_t)like->channels * gconv_type_bytes(like->type);
  s.source = window * width;
  s.features = (size_t)rows * width * (size_t)channels * (size_t)list->outputs;
  for (size_t i = 0; i < list->count; i++)
    count_feature(list, &list->items[i], like, rows, &s);
  return s;
}

double gconv_feature_gpu_bytes(const gconv_feature_list *list, const gconv_image *like, int32_t channels) {
  const sizes s = find_sizes(list, like, channels, gconv_feature_gpu_rows(like, (double)channels * list->outputs));
  double floats = (double)s.source + (double)s.passes + (double)s.features;
  for (int i = 0; i < KEPT_PLANES; i++)
    floats += (double)s.kept[i];
  return (double)s.raw_bytes + sizeof(float) * floats;
}

/* ---- Memory ---- */

static void release(gconv_feature_gpu *gpu) {
  void **const all[] = {&gpu->raw,
                        (void **)&gpu->source,
                        (void **)&gpu->passes,
                        (void **)&gpu->features,
                        (void **)&gpu->kept[KEPT],
                        (void **)&gpu->kept[KEPT_X],
                        (void **)&gpu->kept[KEPT_Y]};
  for (void **memory : all) {
    cudaFree(*memory);
    *memory = NULL;
  }
}

/* Allocates memory for bands of gpu->rows rows. */
static gconv_status allocate(gconv_feature_gpu *gpu) {
  const sizes s = find_sizes(gpu->list, &gpu->like, gpu->channels, gpu->rows);
  static const char *const what = "features of pixels";
  GCONV_TRY(gconv_cuda_allocate(gpu->device, s.raw_bytes, "pixels", &gpu->raw));
  GCONV_TRY(gconv_cuda_allocate(gpu->device, s.source * sizeof(float), what, (void **)&gpu->source));
  GCONV_TRY(gconv_cuda_allocate(gpu->device, s.passes * sizeof(float), what, (void **)&gpu->passes));
  GCONV_TRY(gconv_cuda_allocate(gpu->device, s.features * sizeof(float), what, (void **)&gpu->features));
  for (int i = 0; i < KEPT_PLANES; i++)
    if (s.kept[i] > 0)
      GCONV_TRY(gconv_cuda_allocate(gpu->device, s.kept[i] * sizeof(float), what, (void **)&gpu->kept[i]));
  return GCONV_OK;
}

static gconv_status fill(gconv_feature_gpu *gpu) {
  gconv_cuda_guest guest(gpu->device->index);
  for (size_t i = 0; i < gpu->list->scale_count; i++) {
    const gconv_scale *scale = &gpu->list->scales[i];
    gpu->taps[i].radius = scale->radius;
    for (int d = 0; d < GCONV_SMOOTH_ORDERS; d++)
      memcpy(gpu->taps[i].taps[d], scale->taps[d], ((size_t)scale->radius + 1) * sizeof(float));
  }
  GCONV_TRY(gconv_timeline_make(&gpu->line));
  return allocate(gpu);
}

gconv_status gconv_feature_gpu_create(gconv_device *device, const gconv_feature_list *list, const gconv_image *like,
                                      int32_t channels, gconv_feature_gpu **result) {
  gconv_feature_gpu *gpu = (gconv_feature_gpu *)calloc(1, sizeof *gpu);
  GCONV_NEED_MEMORY(gpu, "no memory for features");
  gpu->device = device;
  gpu->list = list;
  gpu->like = *like;
  gpu->channels = channels;
  gpu->rows = gconv_feature_gpu_rows(like, (double)channels * list->outputs);
  gpu->taps = (gconv_feature_taps *)calloc(list->scale_count, sizeof *gpu->taps);
  const gconv_status status = gpu->taps ? fill(gpu) : gconv_fail(GCONV_NO_MEMORY, "no memory for features");
  if (status != GCONV_OK) {
    gconv_feature_gpu_free(gpu);
    return status;
  }
  *result = gpu;
  return GCONV_OK;
}

void gconv_feature_gpu_free(gconv_feature_gpu *gpu) {
  if (!gpu)
    return;
  gconv_cuda_guest guest(gpu->device->index);
  release(gpu);
  gconv_timeline_free(&gpu->line);
  free(gpu->taps);
  free(gpu);
}

/* ---- A scale ---- */

/* The channel of a band that is computed. */
struct band {
  const gconv_feature_gpu *gpu;
  int32_t first, rows; /* the rows that are computed */
  gconv_feature_samples source;
  float *out; /* the first feature of the channel */

  size_t plane() const {
    return (size_t)rows * (size_t)gpu->like.width;
  }
  float *feature(const gconv_feature *f, int32_t output) const {
    return out + (size_t)(f->output + output) * plane();
  }
};

static gconv_status copy_feature(const band &b, const gconv_feature *from, const gconv_feature *to) {
  return CUDA_STATUS(cudaMemcpyAsync(b.feature(to, 0), b.feature(from, 0),
                                     (size_t)to->kind->info.outputs * b.plane() * sizeof(float), cudaMemcpyDeviceToDevice,
                                     b.gpu->line.stream));
}

/* Asks for the outputs that a kernel can make together with the planes of a scale. For other features, asks for the planes
 * that finish() needs. */
static void ask_for(const band &b, const gconv_feature *f, gconv_feature_outputs *o) {
  switch (f->kind->form) {
  case GCONV_FEATURE_INTENSITY:
    o->origins = &b.source;
    o->smooth = b.feature(f, 0);
    break;
  case GCONV_FEATURE_GAUSSIAN:
    o->smooth = b.feature(f, 0);
    break;
  case GCONV_FEATURE_LOG:
    o->log = b.feature(f, 0);
    break;
  case GCONV_FEATURE_GRADIENT:
    o->gradient = b.feature(f, 0);
    break;
  case GCONV_FEATURE_HESSIAN:
    o->hessian[0] = b.feature(f, 0);
    o->hessian[1] = b.feature(f, 1);
    break;
  case GCONV_FEATURE_STRUCTURE:
    o->kept_x = b.gpu->kept[KEPT_X];
    o->kept_y = b.gpu->kept[KEPT_Y];
    break;
  case GCONV_FEATURE_DOG:
  case GCONV_FEATURE_EDGES:
  case GCONV_FEATURE_TEXTURE:
    o->kept = b.gpu->kept[KEPT];
    break;
  }
}

static void smooth(const band &b, size_t scale, const gconv_feature_tiles *tiles, const gconv_feature_outputs *outputs) {
  const gconv_feature_gpu *gpu = b.gpu;
  gconv_feature_columns(tiles, &gpu->taps[scale], &b.source, gconv_feature_orders(outputs), gpu->passes, gpu->line.stream);
  gconv_feature_lines(tiles, &gpu->taps[scale], gpu->passes, outputs, gpu->line.stream);
}

/* Subtracts the Gaussian of the second scale from the kept Gaussian. */
static void make_dog(const band &b, const gconv_feature *f, int32_t rim) {
  const gconv_feature_tiles tiles = tiles_of(&b.gpu->like, &b.gpu->list->scales[f->second], b.first, b.rows, 0);
  gconv_feature_outputs o = {};
  o.smooth = b.feature(f, 0);
  o.from = b.gpu->kept[KEPT] + (size_t)rim * (size_t)b.gpu->like.width;
  smooth(b, f->second, &tiles, &o);
}

/* Smooths products of the kept derivatives by the second scale. */
static void make_structure(const band &b, const gconv_feature *f, int32_t rim) {
  const gconv_feature_gpu *gpu = b.gpu;
  const gconv_feature_tiles tiles = tiles_of(&gpu->like, &gpu->list->scales[f->second], b.first, b.rows, 0);
  const gconv_feature_taps *taps = &gpu->taps[f->second];
  const float *const x = gpu->kept[KEPT_X], *const y = gpu->kept[KEPT_Y], *const pairs[3][2] = {{x, x}, {x, y}, {y, y}};
  for (int i = 0; i < 3; i++) {
    gconv_feature_samples source = {};
    source.plane = pairs[i][0];
    source.second = pairs[i][1];
    source.top = b.first - rim;
    source.rows = b.rows + 2 * rim;
    source.border = GCONV_BORDER_REFLECT101;
    gconv_feature_columns(&tiles, taps, &source, 1,
                          gpu->passes + (size_t)i * gconv_feature_pass_floats(&tiles, taps->radius), gpu->line.stream);
  }
  gconv_feature_outputs o = {};
  o.tensor[0] = b.feature(f, 0);
  o.tensor[1] = b.feature(f, 1);
  gconv_feature_lines(&tiles, taps, gpu->passes, &o, gpu->line.stream);
}

static void finish(const band &b, const gconv_feature *f, const gconv_feature_tiles *tiles) {
  const gconv_feature_gpu *gpu = b.gpu;
  switch (f->kind->form) {
  case GCONV_FEATURE_DOG:
    return make_dog(b, f, tiles->rim);
  case GCONV_FEATURE_STRUCTURE:
    return make_structure(b, f, tiles->rim);
  case GCONV_FEATURE_EDGES:
    return gconv_feature_edges(tiles, gpu->kept[KEPT], b.feature(f, 0), gpu->line.stream);
  case GCONV_FEATURE_TEXTURE:
    return gconv_feature_texture(tiles, gpu->kept[KEPT], b.feature(f, 0), b.feature(f, 1), gpu->line.stream);
  case GCONV_FEATURE_INTENSITY: /* these are made with the planes of their scale */
  case GCONV_FEATURE_GAUSSIAN:
  case GCONV_FEATURE_LOG:
  case GCONV_FEATURE_GRADIENT:
  case GCONV_FEATURE_HESSIAN:
    break;
  }
}

/* Returns the first feature of the list that equals this one: a list may name a feature twice. */
static const gconv_feature *first_like(const gconv_feature_list *list, const gconv_feature *f) {
  const gconv_feature *same = list->items;
  while (same->kind != f->kind || same->scale != f->scale)
    same++;
  return same;
}

static gconv_status make_scale(band *b, size_t number) {
  const gconv_feature_list *list = b->gpu->list;
  const gconv_scale *scale = &list->scales[number];
  const gconv_feature_tiles tiles = tiles_of(&b->gpu->like, scale, b->first, b->rows, scale->rim);
  gconv_feature_outputs o = {};
  b->source.origins = tiles.overlap;
  b->source.border = tiles.overlap ? GCONV_BORDER_REPLICATE : GCONV_BORDER_REFLECT101;
  for (size_t i = 0; i < list->count; i++)
    if (list->items[i].scale == number && first_like(list, &list->items[i]) == &list->items[i])
      ask_for(*b, &list->items[i], &o);
  smooth(*b, number, &tiles, &o);
  for (size_t i = 0; i < list->count; i++)
    if (list->items[i].scale == number && first_like(list, &list->items[i]) == &list->items[i])
      finish(*b, &list->items[i], &tiles);
  for (size_t i = 0; i < list->count; i++)
    if (list->items[i].scale == number && first_like(list, &list->items[i]) != &list->items[i])
      GCONV_TRY(copy_feature(*b, first_like(list, &list->items[i]), &list->items[i]));
  return CUDA_STATUS(cudaGetLastError());
}

/* ---- A band ---- */

/* Returns the rows of the window on which the rows to be computed depend. */
static gconv_image rows_needed(const gconv_feature_gpu *gpu, const gconv_image *window, int32_t window_row, int32_t first,
                               int32_t count, int32_t *top) {
  const int32_t reach = gpu->list->reach, height = gpu->like.height;
  gconv_image rows = *window;
  *top = std::max(first - reach, 0);
  rows.data = (uint8_t *)window->data + (size_t)(*top - window_row) * window->row_bytes;
  rows.height = (int32_t)std::min<int64_t>((int64_t)first + count + reach, height) - *top;
  return rows;
}

static gconv_status make_channel(const gconv_feature_gpu *gpu, const gconv_image *pixels, int32_t channel, band *b) {
  const int32_t colours = gpu->like.channels - gpu->like.alpha;
  gconv_feature_convert(pixels, colours == 1 ? 0 : channel, gpu->channels < colours, pixels->height, gpu->source,
                        gpu->line.stream);
  for (size_t s = 0; s < gpu->list->scale_count; s++)
    if (gpu->list->scales[s].planes)
      GCONV_TRY(make_scale(b, s));
  return GCONV_OK;
}

gconv_status gconv_feature_gpu_make(gconv_feature_gpu *gpu, const gconv_image *window, int32_t window_row, int32_t first,
                                    int32_t count, gconv_image *out, gconv_timings *timings) {
  gconv_slabs *slabs = (gconv_slabs *)gpu->device->state;
  int32_t top;
  gconv_cuda_guest guest(gpu->device->index);
  if (count > gpu->rows) {
    release(gpu);
    gpu->rows = count;
    GCONV_TRY(allocate(gpu));
  }
  const gconv_image rows = rows_needed(gpu, window, window_row, first, count, &top),
                    raw = gconv_dense_image(&rows, gpu->raw);
  gconv_image shape = {};
  shape.type = GCONV_F32;
  shape.frames = 1;
  shape.height = count;
  shape.width = gpu->like.width;
  shape.channels = gpu->channels * gpu->list->outputs;
  shape.planar = true;
  *out = gconv_dense_image(&shape, gpu->features);
  GCONV_TRY(gconv_timeline_mark(&gpu->line, BEGIN));
  GCONV_TRY(gconv_upload(slabs, gpu->device->threads, &raw, &rows, gpu->line.stream));
  GCONV_TRY(gconv_timeline_mark(&gpu->line, UPLOADED));
  for (int32_t c = 0; c < gpu->channels; c++) {
    band b = {};
    b.gpu = gpu;
    b.first = first;
    b.rows = count;
    b.source.plane = gpu->source;
    b.source.top = top;
    b.source.rows = rows.height;
    b.out = gpu->features + (size_t)c * (size_t)gpu->list->outputs * b.plane();
    GCONV_TRY(make_channel(gpu, &raw, c, &b));
  }
  GCONV_TRY(gconv_timeline_mark(&gpu->line, CONVOLVED));
  CUDA_TRY(cudaStreamSynchronize(gpu->line.stream)); /* the next stage has a stream of its own */
  GCONV_TRY(gconv_timeline_add(&gpu->line, BEGIN, UPLOADED, &timings->upload_ms));
  return gconv_timeline_add(&gpu->line, UPLOADED, CONVOLVED, &timings->kernel_ms);
}

gconv_status gconv_feature_gpu_fetch(gconv_feature_gpu *gpu, const gconv_image *made, const gconv_image *to,
                                     gconv_timings *timings) {
  gconv_slabs *slabs = (gconv_slabs *)gpu->device->state;
  gconv_cuda_guest guest(gpu->device->index);
  GCONV_TRY(gconv_timeline_mark(&gpu->line, CONVOLVED));
  GCONV_TRY(gconv_download(slabs, gpu->device->threads, made, to, gpu->line.stream));
  GCONV_TRY(gconv_timeline_mark(&gpu->line, DOWNLOADED));
  CUDA_TRY(cudaStreamSynchronize(gpu->line.stream));
  return gconv_timeline_add(&gpu->line, CONVOLVED, DOWNLOADED, &timings->download_ms);
}
