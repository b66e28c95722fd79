/* SPDX-License-Identifier: MIT */
/*
 * PNG made by a GPU, held to what the CPU's writer makes of the same pixels, byte by byte.
 *     gpu_png              ends with 77 where there is no GPU
 *     gpu_png PHOTO...     of these photos' edges, too
 *     gpu_png -f9 PHOTO... each ninth case only, for compute-sanitizer
 *     gpu_png -t PHOTO...  how long it takes, in several streams at once
 *     gpu_png -b           a GPU that gets a bit wrong makes no PNG, and nothing of its memory is kept
 */
#include "codec_cuda/png_check.h"

#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <vector>
#include <zlib.h>

typedef std::vector<uint8_t> bytes;

extern "C" const gconv_gpu_codec gconv_gpu_codec_cuda;
static const gconv_gpu_codec *const codec = &gconv_gpu_codec_cuda;

static int wrong = 0, cases = 0;
static size_t all_strips = 0, all_made = 0;

static uint32_t seed = 1;

/* 0 .. below - 1 */
static uint32_t draw(uint32_t below) {
  seed = seed * 1664525 + 1013904223;
  return (uint32_t)(((uint64_t)seed * below) >> 32);
}

/* A CUDA call must not fail. */
static void need(cudaError_t error, const char *what) {
  if (error == cudaSuccess)
    return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}
#define NEED(call) need(call, #call)

static void need_ok(gconv_status status) {
  if (status == GCONV_OK)
    return;
  fprintf(stderr, "%s\n", gconv_last_error());
  exit(1);
}

/* ---- Pixels ---- */

/* An image on the host, with gaps behind its rows. */
struct picture {
  gconv_image header;
  bytes memory;
};

static picture make_picture(int width, int height, int channels, gconv_type type, size_t gap) {
  picture p = {};
  p.header.type = type;
  p.header.frames = 1;
  p.header.width = width;
  p.header.height = height;
  p.header.channels = channels;
  p.header.alpha = channels % 2 == 0;
  p.header.row_bytes = (size_t)width * (size_t)channels * gconv_type_bytes(type) + gap * gconv_type_bytes(type);
  p.memory.assign(p.header.row_bytes * (size_t)height, 0xa5);
  p.header.data = p.memory.data();
  return p;
}

enum kind { NOISE, FLAT, GRADIENT, EDGES, SOFT, NEARLY_GREY, DRAWING, PARTS, KINDS };
static const char *const names[] = {"noise", "flat", "gradient", "edges", "soft", "nearly grey", "drawing", "parts"};

/* The level of a sample, 0 .. 255, and the lower byte of 16 bits. */
static int level_of(kind k, int x, int y, int c, int grey) {
  switch (k) {
  case NOISE:
    return (int)draw(256);
  case FLAT:
    return 77;
  case GRADIENT:
    return (x + 2 * y + 30 * c) & 255;
  case EDGES: { /* small mostly, and large at some places */
    int size = (x / 37 + y / 29) % 7 == 0 ? 200 : 24;
    return (int)(draw((uint32_t)size) * draw(256) / 256);
  }
  case SOFT: /* noise of a few levels on slopes */
    return (x / 5 + y / 3 + 20 * c + (int)draw(12)) & 255;
  case NEARLY_GREY:
    return grey + (int)draw(2);
  case DRAWING:
    return (x / 50 + y / 40) % 3 * 100;
  default:
    return level_of((kind)(y / 150 % PARTS), x, y, c, grey);
  }
}

static void paint(picture *p, kind k) {
  const size_t sample = gconv_type_bytes(p->header.type);
  for (int y = 0; y < p->header.height; y++) {
    uint8_t *row = p->memory.data() + (size_t)y * p->header.row_bytes;
    for (int x = 0; x < p->header.width; x++) {
      const int grey = (int)draw(200);
      for (int c = 0; c < p->header.channels; c++, row += sample) {
        row[sample - 1] = (uint8_t)level_of(k, x, y, c, grey);
        if (sample == 2)
          row[0] = k == NOISE || k == EDGES ? (uint8_t)draw(256) : 0;
      }
    }
  }
}

/* Differences of neighbours of a photo, whose size is that of the result. */
static picture edges_of(const char *path) {
  gconv_image photo = {};
  need_ok(gconv_image_read(path, NULL, &photo));
  picture p = make_picture(photo.width, photo.height, photo.channels, GCONV_U8, 7);
  const int step = photo.channels;
  for (int y = 0; y < photo.height; y++) {
    const uint8_t *row = (const uint8_t *)photo.data + (size_t)y * photo.row_bytes;
    uint8_t *out = p.memory.data() + (size_t)y * p.header.row_bytes;
    for (int i = step; i < (photo.width - 1) * step; i++)
      out[i] =
          (uint8_t)(abs(row[i + step] - row[i - step]) + (y > 0 ? abs(row[i] - row[i - (ptrdiff_t)photo.row_bytes]) : 0));
  }
  gconv_image_free(&photo);
  return p;
}

/* ---- What the CPU makes ---- */

/* A file's IDAT chunks, and the lines that they hold. */
struct reference {
  std::vector<bytes> chunks;
  bytes lines;
};

static bytes read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  bytes all;
  uint8_t part[65536];
  for (size_t count; file && (count = fread(part, 1, sizeof part, file)) > 0;)
    all.insert(all.end(), part, part + count);
  if (file)
    fclose(file);
  return all;
}

static reference write_by_cpu(const picture &p) {
  char path[] = "/tmp/gconv-png-XXXXXX.png";
  close(mkstemps(path, 4));
  need_ok(gconv_image_write(path, NULL, &p.header));
  const bytes file = read_file(path);
  unlink(path);
  reference r;
  bytes stream;
  for (size_t at = 8; at + 12 <= file.size();) {
    const uint8_t *b = &file[at];
    const size_t size = 12 + ((size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3]);
    if (memcmp(b + 4, "IDAT", 4) == 0) {
      r.chunks.push_back(bytes(b, b + size));
      stream.insert(stream.end(), b + 8, b + size - 4);
    }
    at += size;
  }
  const size_t line = (size_t)p.header.width * (size_t)p.header.channels * gconv_type_bytes(p.header.type) + 1;
  r.lines.resize(line * (size_t)p.header.height);
  uLongf size = (uLongf)r.lines.size();
  if (uncompress(r.lines.data(), &size, stream.data(), (uLong)stream.size()) != Z_OK || size != r.lines.size())
    fprintf(stderr, "the CPU's own file is damaged\n"), exit(1);
  return r;
}

/* ---- What the GPU makes ---- */

static gconv_image upload(const picture &p) {
  gconv_image image = p.header;
  NEED(cudaMalloc(&image.data, p.memory.size()));
  NEED(cudaMemcpy(image.data, p.memory.data(), p.memory.size(), cudaMemcpyHostToDevice));
  return image;
}

static size_t first_difference(const bytes &a, const uint8_t *b) {
  size_t i = 0;
  while (i < a.size() && a[i] == b[i])
    i++;
  return i;
}

/* Compares the strips with the CPU's; returns how many were made. */
static size_t compare(const char *name, const picture &p, const reference &r, const gconv_gpu_png *encoder) {
  size_t count = encoder->strip_count, made = 0, rows = 0;
  const gconv_png_strip *strips = encoder->strips;
  const size_t line = r.lines.size() / (size_t)p.header.height;
  int before = wrong;
  uint64_t offset = 0;
  if (count + 1 != r.chunks.size()) {
    printf("%s: %zu strips, %zu by the CPU\n", name, count, r.chunks.size() - 1);
    wrong++;
    return 0;
  }
  for (size_t i = 0; i < count && wrong < before + 3; i++) {
    const bytes &wanted = r.chunks[i];
    bool placed = strips[i].offset == offset && (size_t)strips[i].first_row == rows;
    uint32_t adler = (uint32_t)adler32(1, &r.lines[rows * line], (uInt)((size_t)strips[i].rows * line));
    rows += (size_t)strips[i].rows;
    offset += strips[i].size;
    if (strips[i].size > 0) {
      made++;
      bytes got(strips[i].size);
      NEED(cudaMemcpy(got.data(), encoder->chunks + strips[i].offset, got.size(), cudaMemcpyDeviceToHost));
      if (got != wanted || adler != strips[i].adler) {
        bytes longer = got;
        longer.resize(longer.size() > wanted.size() ? longer.size() : wanted.size());
        printf("%s: strip %zu of %zu: %zu bytes, not %zu; first difference at %zu; Adler %08x, not %08x; filter %d\n", name,
               i, count, got.size(), wanted.size(), first_difference(wanted, longer.data()), strips[i].adler, adler,
               r.lines[(rows - 1) * line]);
        wrong++;
      }
    }
    if (!placed) {
      printf("%s: strip %zu of %zu is misplaced\n", name, i, count);
      wrong++;
    }
  }
  if (rows != (size_t)p.header.height) {
    printf("%s: strips have %zu rows\n", name, rows);
    wrong++;
  }
  all_strips += count;
  all_made += made;
  cases++;
  return made;
}

/* Memory that will be taken next is full of what is no use. */
static void poison(size_t size) {
  void *memory;
  NEED(cudaMalloc(&memory, size));
  NEED(cudaMemset(memory, 0xdb, size));
  NEED(cudaFree(memory));
}

/* Twice with one encoder, so that what it made before is in its way. */
static void check(const char *name, const picture &p, bool all_are_made) {
  const reference r = write_by_cpu(p);
  gconv_gpu_png *encoder;
  poison(p.memory.size() * 3 + (1 << 20));
  need_ok(codec->create_png(&p.header, &encoder));
  picture other = make_picture(p.header.width, p.header.height, p.header.channels, p.header.type, 3);
  for (size_t i = 0; i < other.memory.size(); i++)
    other.memory[i] = (uint8_t)draw(256);
  gconv_image image = upload(p), noise = upload(other);
  size_t made = 0;
  for (int turn = 0; turn < 2; turn++) {
    need_ok(codec->encode_png(encoder, &image, 0));
    NEED(cudaDeviceSynchronize());
    made = compare(name, p, r, encoder);
    need_ok(codec->encode_png(encoder, &noise, 0));
  }
  NEED(cudaDeviceSynchronize());
  if (all_are_made && made < encoder->strip_count) {
    printf("%s: %zu of %zu strips were made\n", name, made, encoder->strip_count);
    wrong++;
  }
  cudaFree(image.data);
  cudaFree(noise.data);
  codec->free_png(encoder);
}

static void check_shapes(size_t step) {
  static const int sizes[][2] = {{1, 1},    {1, 5000}, {2, 3},      {5, 7},      {333, 1000}, {1000, 333}, {1021, 77},
                                 {3, 2000}, {2000, 3}, {3840, 150}, {700, 2503}, {20000, 60}, {65000, 9},  {1, 900000}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (int k = 0; k < KINDS; k++) {
      if ((i * KINDS + (size_t)k) % step > 0)
        continue;
      const gconv_type type = (i + (size_t)k) % 3 == 2 ? GCONV_U16 : GCONV_U8;
      const int channels = k == NEARLY_GREY ? 3 : 1 + (int)(i + (size_t)k / 2) % 4;
      picture p = make_picture(sizes[i][0], sizes[i][1], channels, type, (i + (size_t)k) % 5);
      paint(&p, (kind)k);
      char name[128];
      snprintf(name, sizeof name, "%s %dx%dx%d u%zu", names[k], sizes[i][0], sizes[i][1], channels,
               8 * gconv_type_bytes(type));
      check(name, p, k == NOISE && i > 3);
    }
}

/* ---- Time ---- */

static double now_ms() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void measure(const picture &p, int lanes, int rounds) {
  std::vector<gconv_gpu_png *> encoders((size_t)lanes);
  std::vector<cudaStream_t> streams((size_t)lanes);
  std::vector<gconv_image> images((size_t)lanes);
  for (size_t i = 0; i < (size_t)lanes; i++) {
    need_ok(codec->create_png(&p.header, &encoders[i]));
    NEED(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    images[i] = upload(p);
  }
  double begin = 0, queued = 0;
  for (int round = -2; round < rounds; round++) {
    if (round == 0) {
      NEED(cudaDeviceSynchronize());
      begin = now_ms();
    }
    for (size_t i = 0; i < (size_t)lanes; i++)
      need_ok(codec->encode_png(encoders[i], &images[i], streams[i]));
  }
  queued = now_ms();
  NEED(cudaDeviceSynchronize());
  const double end = now_ms();
  size_t count = encoders[0]->strip_count, size = 0, made = 0;
  const gconv_png_strip *strips = encoders[0]->strips;
  for (size_t i = 0; i < count; i++) {
    size += strips[i].size;
    made += strips[i].size > 0;
  }
  printf("%d stream(s): %.3f ms an image, %.3f ms of the host to queue it; %zu of %zu strips made, %.2f MB, encoder of %.1f "
         "MB\n",
         lanes, (end - begin) / rounds / lanes, (queued - begin) / rounds / lanes, made, count, (double)size * 1e-6,
         (double)encoders[0]->bytes * 1e-6);
  for (size_t i = 0; i < (size_t)lanes; i++) {
    codec->free_png(encoders[i]);
    cudaStreamDestroy(streams[i]);
    cudaFree(images[i].data);
  }
}

/* ---- Memory ---- */

static int kept = 0; /* what was allocated and not freed: all calls come by here */

extern "C" cudaError_t __real_cudaMalloc(void **memory, size_t bytes);
extern "C" cudaError_t __wrap_cudaMalloc(void **memory, size_t bytes) {
  const cudaError_t error = __real_cudaMalloc(memory, bytes);
  kept += error == cudaSuccess;
  return error;
}

extern "C" cudaError_t __real_cudaFree(void *memory);
extern "C" cudaError_t __wrap_cudaFree(void *memory) {
  kept -= memory != NULL;
  return __real_cudaFree(memory);
}

extern "C" cudaError_t __real_cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
extern "C" cudaError_t __wrap_cudaHostAlloc(void **memory, size_t bytes, unsigned flags) {
  const cudaError_t error = __real_cudaHostAlloc(memory, bytes, flags);
  kept += error == cudaSuccess;
  return error;
}

extern "C" cudaError_t __real_cudaFreeHost(void *memory);
extern "C" cudaError_t __wrap_cudaFreeHost(void *memory) {
  kept -= memory != NULL;
  return __real_cudaFreeHost(memory);
}

/* ---- Whether the GPU is right ---- */

static bool breaks = false;
static int checked = 0;

extern "C" gconv_status __real_gconv_png_check_strips(gconv_png_check *check, const gconv_png_strip *strips,
                                                      const uint8_t *chunks, size_t size);

/* Here on the way: turns a bit over. */
extern "C" gconv_status __wrap_gconv_png_check_strips(gconv_png_check *check, const gconv_png_strip *strips,
                                                      const uint8_t *chunks, size_t size) {
  bytes broken(chunks, chunks + size);
  broken[strips[1].offset + strips[1].size / 2] ^= breaks;
  checked++;
  return __real_gconv_png_check_strips(check, strips, broken.data(), size);
}

static gconv_status create_once(double *ms) {
  const picture p = make_picture(300, 200, 3, GCONV_U8, 0);
  gconv_gpu_png *encoder = NULL;
  const double begin = now_ms();
  const gconv_status status = codec->create_png(&p.header, &encoder);
  *ms = now_ms() - begin;
  codec->free_png(encoder);
  return status;
}

/* The first encoder that is made, and another. */
static void check_of_device() {
  double first, second;
  NEED(cudaFree(NULL));
  for (int i = 0; i < 2; i++) {
    const gconv_status status = create_once(i == 0 ? &first : &second);
    const bool right = status == (breaks ? GCONV_UNSUPPORTED : GCONV_OK) && checked == 1 && kept == 0;
    cases++;
    wrong += !right;
    if (!right || breaks)
      printf("%s: %s, %d allocations kept\n", right ? "as it should be" : "WRONG",
             status == GCONV_OK ? "an encoder" : gconv_last_error(), kept);
  }
  printf("the first encoder took %.2f ms, the second %.2f\n", first, second);
}

int main(int count, char **words) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    printf("skipped: there is no GPU\n");
    return 77;
  }
  breaks = count > 1 && strcmp(words[1], "-b") == 0;
  check_of_device();
  if (breaks)
    return wrong > 0;
  if (count > 2 && strcmp(words[1], "-t") == 0) {
    for (int i = 2; i < count; i++) {
      const picture p = edges_of(words[i]);
      printf("%s, %d x %d\n", words[i], p.header.width, p.header.height);
      for (int lanes = 1; lanes <= 8; lanes *= 2)
        measure(p, lanes, 40);
    }
    return 0;
  }
  const int few = count > 1 && strncmp(words[1], "-f", 2) == 0;
  check_shapes(few ? (size_t)strtoul(words[1] + 2, NULL, 10) : 1);
  for (int i = 1 + few; i < count; i++)
    check(words[i], edges_of(words[i]), false);
  printf("%d cases, %d wrong; %zu of %zu strips made\n", cases, wrong, all_made, all_strips);
  return wrong > 0 || all_made * 4 < all_strips;
}
