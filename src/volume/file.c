/* SPDX-License-Identifier: MIT */
/* The public functions for volumes in memory, and in files, which are filtered slab by slab. */
#include "base/arguments.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "base/status.h"
#include "image/metadata.h"
#include "image/rows.h"
#include "volume/holes.h"

#include <stdlib.h>
#include <string.h>

/* A file that is filtered. The window has planes of the input from `begin` on. */
typedef struct passage {
  gconv_row_reader *reader;
  gconv_row_writer *writer;
  gconv_volume_holes *volume;
  gconv_image like;   /* header of the whole input; its metadata are the reader's */
  gconv_image window; /* owned: room for as many planes as any slab needs; frames: how many it has */
  gconv_image slab;   /* owned: planes of the result */
  int32_t begin, room;
} passage;

static size_t plane_bytes(const gconv_image *image) {
  return (size_t)image->height * (size_t)image->width * (size_t)image->channels * gconv_type_bytes(image->type);
}

/* Reads the next plane of the file to the end of the window. */
static gconv_status read_plane(passage *p) {
  bool found = false;
  GCONV_TRY(gconv_row_reader_next_frame(p->reader, &found));
  const gconv_image *header = gconv_row_reader_header(p->reader);
  if (!found || header->type != p->like.type || header->height != p->like.height || header->width != p->like.width ||
      header->channels != p->like.channels || header->alpha != p->like.alpha)
    return gconv_fail(GCONV_BAD_FILE,
                      "the planes of a volume have one size and type, and plane %d has another, or is missing",
                      p->begin + p->window.frames + 1);
  if (!gconv_nodata_same(header, &p->like))
    return gconv_fail(GCONV_UNSUPPORTED,
                      "the planes of a volume have one number of no data, or none, and plane %d has another than the first: "
                      "make them agree",
                      p->begin + p->window.frames + 1);
  if (gconv_row_reader_is_turned(p->reader))
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "plane %d is stored turned or mirrored, as its orientation says: make all upright first: gconv -i IN -f "
        "identity -o OUT.tif",
        p->begin + p->window.frames + 1);
  uint8_t *to = (uint8_t *)p->window.data + (size_t)p->window.frames * p->window.plane_bytes;
  GCONV_TRY(gconv_row_reader_read(p->reader, to, p->window.row_bytes, p->like.height));
  p->window.frames++;
  return GCONV_OK;
}

/* Reads planes until the window has planes begin .. end - 1. */
static gconv_status move_window(passage *p, int32_t begin, int32_t end) {
  const int32_t gone = begin - p->begin < p->window.frames ? begin - p->begin : p->window.frames;
  uint8_t *data = p->window.data;
  if (gone > 0)
    memmove(data, data + (size_t)gone * p->window.plane_bytes, (size_t)(p->window.frames - gone) * p->window.plane_bytes);
  p->begin += gone;
  p->window.frames -= gone;
  while (p->begin < begin) { /* planes that a stride leaves out */
    GCONV_TRY(read_plane(p));
    p->begin++;
    p->window.frames = 0;
  }
  while (p->begin + p->window.frames < end)
    GCONV_TRY(read_plane(p));
  return GCONV_OK;
}

/* Returns how many planes the window needs, for slabs of `step` planes. */
static int32_t find_room(const gconv_volume_holes *volume, int32_t step) {
  const gconv_image *output = gconv_volume_holes_output(volume);
  int32_t most = 0, begin, end, lowest = 0;
  for (int32_t z = output->frames - 1 - (output->frames - 1) % step; z >= 0; z -= step) {
    gconv_volume_holes_needed(volume, z, output->frames - z < step ? output->frames - z : step, &begin, &end);
    lowest = z == output->frames - 1 - (output->frames - 1) % step || begin < lowest ? begin : lowest;
    most = end - lowest > most ? end - lowest : most; /* later slabs may go back as far */
  }
  return most;
}

/* Returns the first plane that the slab at `first` or a later one needs. */
static int32_t find_begin(const gconv_volume_holes *volume, int32_t first, int32_t step) {
  const gconv_image *output = gconv_volume_holes_output(volume);
  int32_t lowest = INT32_MAX, begin, end;
  for (int32_t z = first; z < output->frames; z += step) {
    gconv_volume_holes_needed(volume, z, output->frames - z < step ? output->frames - z : step, &begin, &end);
    lowest = begin < lowest ? begin : lowest;
  }
  return lowest;
}

/* Returns the bytes that slabs take: planes of the input, of the result, and between the steps. */
static double bytes_of(const passage *p) {
  double bytes;
  const int32_t step = gconv_volume_holes_step(p->volume, &bytes);
  const gconv_image *output = gconv_volume_holes_output(p->volume);
  return bytes + (double)find_room(p->volume, step) * (double)plane_bytes(&p->like) + (double)plane_bytes(output) * step;
}

/* Makes the volume, with slabs that fit into `memory`. */
static gconv_status make_volume(passage *p, gconv_device *device, const char *spec, gconv_volume_options *options,
                                uint64_t memory) {
  const bool on_gpu = strcmp(gconv_device_get_info(device)->name, "cpu") != 0;
  const size_t most = (size_t)(on_gpu ? 256 : 32) << 20, least = (size_t)1 << 20;
  double bytes = 0;
  for (options->slab_bytes = most; options->slab_bytes >= least; options->slab_bytes /= 2) {
    gconv_volume_holes_free(p->volume);
    p->volume = NULL;
    GCONV_TRY(gconv_volume_holes_create(device, &p->like, spec, options, &p->volume));
    bytes = bytes_of(p);
    if (memory == 0 || bytes <= (double)memory)
      return GCONV_OK;
  }
  return gconv_fail(GCONV_TOO_LARGE,
                    "slabs of this volume take about %.0f MB at least, and --memory allows %.0f MB: raise it, or take a "
                    "smaller filter",
                    bytes / 1e6, (double)memory / 1e6);
}

static gconv_status prepare(passage *p, const char *output, const gconv_options *options) {
  const int32_t step = gconv_volume_holes_step(p->volume, NULL);
  gconv_write_options write = {.format = options->format};
  p->room = find_room(p->volume, step);
  p->slab = *gconv_volume_holes_output(p->volume);
  gconv_image header = p->slab;
  p->slab.frames = step;
  p->window = p->like;
  p->window.frames = p->room;
  GCONV_TRY(gconv_image_allocate(&p->window));
  GCONV_TRY(gconv_image_allocate(&p->slab));
  p->window.frames = 0;
  gconv_metadata_lend(&header, &p->like);
  header.pixels_per_metre_x = header.width == p->like.width ? p->like.pixels_per_metre_x : 0;
  header.pixels_per_metre_y = header.height == p->like.height ? p->like.pixels_per_metre_y : 0;
  if (header.width != p->like.width || header.height != p->like.height)
    header.unitless_x = header.unitless_y = 0;
  return gconv_row_writer_open(output, &write, &header, &p->writer);
}

static gconv_status run(passage *p) {
  const gconv_image *output = gconv_volume_holes_output(p->volume);
  const int32_t step = gconv_volume_holes_step(p->volume, NULL);
  for (int32_t z = 0; z < output->frames; z += step) {
    int32_t begin, end;
    p->slab.frames = output->frames - z < step ? output->frames - z : step;
    gconv_volume_holes_needed(p->volume, z, p->slab.frames, &begin, &end);
    GCONV_TRY(move_window(p, find_begin(p->volume, z, step), end));
    GCONV_TRY(gconv_volume_holes_execute(p->volume, &p->window, p->begin, z, &p->slab));
    for (int32_t i = 0; i < p->slab.frames; i++)
      GCONV_TRY(gconv_row_writer_write(p->writer, (uint8_t *)p->slab.data + (size_t)i * p->slab.plane_bytes,
                                       p->slab.row_bytes, p->slab.height));
  }
  return GCONV_OK;
}

/* Takes what the description of ImageJ says, where it is in micrometres: pixels lie as its resolution, which has no unit,
 * has them, and planes `spacing` apart. */
static void take_imagej(const gconv_image *like, double spacing[3]) {
  static const char mark[] = "ImageJ=";
  const char *text = like->tags ? memmem(like->tags, like->tags_bytes, mark, strlen(mark)) : NULL;
  if (text && !memchr(text, '\0', like->tags_bytes - (size_t)(text - (const char *)like->tags)))
    return; /* the mark is in a header of FITS, which does not end with a 0 byte, as texts of TIFF do */
  const char *unit = text ? strstr(text, "\nunit=") : NULL, *planes = text ? strstr(text, "\nspacing=") : NULL;
  double value = 0;
  if (!unit || (strncmp(unit, "\nunit=um\n", 9) != 0 && strcmp(unit, "\nunit=um") != 0 &&
                strncmp(unit, "\nunit=micron", 12) != 0 && strncmp(unit, "\nunit=\\u00B5m", 13) != 0))
    return;
  if (spacing[0] == 0 && planes && sscanf(planes, "\nspacing=%lf", &value) == 1 && value > 0)
    spacing[0] = value;
  if (like->unitless_x > 0) {
    spacing[1] = spacing[1] == 0 ? 1 / like->unitless_y : spacing[1];
    spacing[2] = spacing[2] == 0 ? 1 / like->unitless_x : spacing[2];
  }
}

static gconv_status check_input(const char *input, const gconv_image *header) {
  if (header->frames < 2 || header->planar)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: is no volume, but one picture: a volume is a .npy array Z x H x W, or a TIFF of several pages",
                      input);
  return GCONV_OK;
}

gconv_status gconv_volume_filter_file(gconv_device *device, const char *input, const char *output, const char *spec,
                                      const gconv_volume_options *options, uint64_t memory) {
  const double um = 1e6;
  gconv_read_options read = {.max_pixels = UINT64_MAX >> 1};
  GCONV_NEED(device, input, output);
  GCONV_NEED(options);
  if (!options->taps)
    GCONV_NEED(spec);
  gconv_volume_options known = *options;
  passage p = {0};
  gconv_status status = gconv_row_reader_open(input, &read, &p.reader);
  if (status == GCONV_OK) {
    p.like = *gconv_row_reader_header(p.reader);
    p.like.planar = p.like.planar && p.like.channels > 1; /* planes of one channel lie as in Z x H x W */
    status = check_input(input, &p.like);
  }
  if (status == GCONV_OK)
    take_imagej(&p.like, known.spacing);
  if (known.spacing[2] == 0 && p.like.pixels_per_metre_x > 0)
    known.spacing[2] = um / p.like.pixels_per_metre_x;
  if (known.spacing[1] == 0 && p.like.pixels_per_metre_y > 0)
    known.spacing[1] = um / p.like.pixels_per_metre_y;
  if (!known.plain.format)
    known.plain.format = gconv_format_by_path(output);
  GCONV_THEN(status, make_volume(&p, device, spec, &known, memory));
  GCONV_THEN(status, prepare(&p, output, &known.plain));
  GCONV_THEN(status, run(&p));
  if (status == GCONV_OK) {
    status = gconv_row_writer_commit(p.writer);
    p.writer = NULL;
  }
  gconv_row_writer_discard(p.writer);
  gconv_row_reader_close(p.reader);
  gconv_volume_holes_free(p.volume);
  gconv_release(p.slab.data);
  gconv_release(p.window.data);
  return status;
}

gconv_status gconv_volume_filter(gconv_device *device, const gconv_image *image, const char *spec,
                                 const gconv_volume_options *options, gconv_image *result) {
  GCONV_NEED(device, options, result);
  if (!options->taps)
    GCONV_NEED(spec);
  GCONV_NEED_AS(image, "image");
  GCONV_TRY(gconv_check_source(image, "the volume"));
  GCONV_TRY(gconv_check_pixels(image, "the volume"));
  gconv_volume_holes *volume = NULL;
  const bool is_new = !result->data;
  GCONV_TRY(gconv_volume_holes_create(device, image, spec, options, &volume));
  gconv_status status = GCONV_OK;
  if (is_new) {
    *result = *gconv_volume_holes_output(volume);
    status = gconv_image_allocate(result);
  } else if (!gconv_image_same_shape(result, gconv_volume_holes_output(volume))) {
    status = gconv_fail(GCONV_BAD_ARGUMENT, "the result has pixels of another shape or type than the filtered volume");
  } else {
    status = gconv_check_pixels(result, "the result");
  }
  GCONV_THEN(status, gconv_volume_holes_execute(volume, image, 0, 0, result));
  if (status != GCONV_OK && is_new)
    gconv_image_free(result);
  gconv_volume_holes_free(volume);
  return status;
}
