/* SPDX-License-Identifier: MIT */
/*
 * Reading OpenEXR, of film and rendering: half, float and whole numbers become floats, by OpenEXRCore. A file has parts, a
 * part has channels with names, and "diffuse.R" is the R of a layer. One picture is read: R G B or Y, with A, of the first
 * part, or what FILE:NAME names. Its rows come in chunks: some rows, or tiles. Threads decode the chunks of a band.
 */
#include "image/exr.h"

#include "base/library.h"
#include "base/threads.h"
#include "image/colour.h"

#include <stdatomic.h>
#include <string.h>

gconv_openexr gconv_exr;

static const gconv_symbol symbols[] = {
#define CALL(function) {#function, &gconv_exr.function},
#include "image/exr_calls.def"
#undef CALL
    {NULL, NULL}};
GCONV_LOADS(, gconv_exr_load, GCONV_EXR_FILE, symbols, "OpenEXR needs OpenEXRCore")

void gconv_exr_be_silent(exr_const_context_t file, exr_result_t code, const char *text) {}

enum { MOST_HEADER = 1 << 19 /* bytes: the library takes time that grows with their square, here up to 2 s */ };

typedef struct reading {
  const gconv_source *source;
  bool opening, too_long; /* the header is being read; it is longer than MOST_HEADER */
  uint8_t *bytes;         /* owned: all bytes of a pipe; NULL: the source is read */
  size_t size;
  exr_context_t file;
  int part;
  int channels[4]; /* of the picture: their places in the part's list */
  bool tiled;
  exr_attr_box2i_t window;
  int32_t tile_width, tile_height; /* of a chunk */
  int32_t first, room;             /* the first row of the band, where a chunk begins, and its most rows */
  float *band;                     /* owned: [room][width][channels] */
  atomic_int result;               /* the first failure of a thread */
  bool glows;                      /* a pixel has colours where alpha is 0 */
} reading;

static int64_t size_of(exr_const_context_t file, void *user) {
  const reading *r = user;
  return (int64_t)(r->bytes ? r->size : r->source->size);
}

static int64_t read_bytes(exr_const_context_t file, void *user, void *to, uint64_t size, uint64_t offset,
                          exr_stream_error_func_ptr_t fail) {
  reading *r = user;
  size_t got = 0;
  if (r->opening && offset + size > MOST_HEADER && r->source->size > MOST_HEADER)
    r->too_long = true; /* later, threads only read it */
  if (r->too_long)
    return -1;
  if (!r->bytes)
    return gconv_source_read_at(r->source, offset, to, (size_t)size, &got) == GCONV_OK ? (int64_t)got : -1;
  if (offset < r->size)
    memcpy(to, r->bytes + offset, got = size < r->size - offset ? (size_t)size : r->size - (size_t)offset);
  return (int64_t)got;
}

#define GCONV_EXR_REMEDY "store it otherwise first, as oiiotool does: oiiotool IN --compression zip -o OUT.exr"

static gconv_status damaged(const gconv_reader *reader, exr_result_t result) {
  if (result == EXR_ERR_FEATURE_NOT_IMPLEMENTED)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: is compressed in a way that this OpenEXRCore does not know (DWA): %s",
                      reader->source->name, GCONV_EXR_REMEDY);
  if (result == EXR_ERR_OUT_OF_MEMORY)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for an OpenEXR");
  if (((const reading *)reader->state)->too_long)
    return gconv_fail(GCONV_TOO_LARGE, "%s: a header of more than %d bytes, which is the limit", reader->source->name,
                      (int)MOST_HEADER);
  return gconv_fail(GCONV_BAD_FILE, "%s: damaged OpenEXR: %s", reader->source->name,
                    gconv_exr.exr_get_default_error_message(result));
}

/* For calls of the library in functions that have a reader. */
#define EXR_TRY(call)                                                                                                       \
  do {                                                                                                                      \
    const exr_result_t exr_try_result = gconv_exr.call;                                                                     \
    if (exr_try_result != EXR_ERR_SUCCESS)                                                                                  \
      return damaged(reader, exr_try_result);                                                                               \
  } while (0)

/* ---- Which channels are the picture --------------------------------------------------------------------------------- */

/* Returns the place of the channel LAYER.NAME, or of NAME if the layer has a `length` of 0; -1: there is none. */
static int find_channel(const exr_attr_chlist_t *list, const char *layer, size_t length, const char *name) {
  for (int i = 0; i < list->num_channels; i++) {
    const char *at = list->entries[i].name.str;
    const bool inside = length == 0 || (strncmp(at, layer, length) == 0 && at[length] == '.');
    if (inside && strcmp(at + (length > 0 ? length + 1 : 0), name) == 0)
      return i;
  }
  return -1;
}

/* Takes the picture of a layer: R, G and B, or Y, with A if it is there. Returns false if the layer has none. */
static bool take_layer(gconv_reader *reader, const exr_attr_chlist_t *list, const char *layer, size_t length) {
  static const char *const names[] = {"R", "G", "B"};
  reading *r = reader->state;
  int count = 0;
  while (count < 3 && (r->channels[count] = find_channel(list, layer, length, names[count])) >= 0)
    count++;
  if (count < 3) {
    r->channels[0] = find_channel(list, layer, length, "Y");
    if (r->channels[0] < 0 || find_channel(list, layer, length, "RY") >= 0)
      return false;
    count = 1;
  }
  const int alpha = find_channel(list, layer, length, "A");
  reader->header.alpha = alpha >= 0;
  reader->header.channels = count + (alpha >= 0);
  if (alpha >= 0)
    r->channels[count] = alpha;
  return true;
}

static bool take_channel(gconv_reader *reader, int channel) {
  ((reading *)reader->state)->channels[0] = channel;
  reader->header.channels = 1;
  return channel >= 0;
}

/* Takes the picture of a part: its colours, else those of its only layer, else its only channel. */
static bool take_part(gconv_reader *reader, const exr_attr_chlist_t *list) {
  const char *layer = NULL;
  size_t length = 0;
  if (take_layer(reader, list, "", 0))
    return true;
  for (int i = 0; i < list->num_channels; i++) {
    const char *name = list->entries[i].name.str, *dot = strrchr(name, '.');
    if (!dot || (strcmp(dot, ".R") != 0 && strcmp(dot, ".Y") != 0))
      continue;
    if (layer)
      return false;
    layer = name;
    length = (size_t)(dot - name);
  }
  return (layer && take_layer(reader, list, layer, length)) || (list->num_channels == 1 && take_channel(reader, 0));
}

/* Lists channels: "R, G, Z". These are all channels, or only those that are not taken. Returns how many they are. */
static int list_channels(const gconv_reader *reader, const exr_attr_chlist_t *list, bool all, char *text, size_t size) {
  const reading *r = reader->state;
  int count = 0;
  text[0] = '\0';
  for (int i = 0; i < list->num_channels; i++) {
    bool taken = false;
    for (int c = 0; c < reader->header.channels && !all; c++)
      taken |= r->channels[c] == i;
    const size_t used = strlen(text), length = strlen(list->entries[i].name.str);
    if (!taken && used + length + sizeof ", ..." < size)
      snprintf(text + used, size - used, "%s%s", count > 0 ? ", " : "", list->entries[i].name.str);
    else if (!taken && strcmp(used > 3 ? text + used - 3 : "", "...") != 0)
      snprintf(text + used, size - used, ", ...");
    count += !taken;
  }
  return count;
}

/* Finds the picture that reader->member names: a part by number or name, a channel, or a layer. */
static gconv_status find_picture(gconv_reader *reader, int parts) {
  reading *r = reader->state;
  const exr_attr_chlist_t *list;
  const char *member = reader->member, *name;
  char names[160];
  int64_t number = 0;
  const bool numbered = member && member[strspn(member, "0123456789")] == '\0';
  if (numbered)
    GCONV_TRY(gconv_reader_find_number(reader, parts, &number));
  r->part = (int)number;
  for (int part = 0; member && !numbered && part < parts; part++) {
    EXR_TRY(exr_get_channels(r->file, part, &list));
    r->part = part;
    if (gconv_exr.exr_get_name(r->file, part, &name) == EXR_ERR_SUCCESS && name && strcmp(name, member) == 0)
      break;
    if (take_channel(reader, find_channel(list, "", 0, member)) || take_layer(reader, list, member, strlen(member)))
      return GCONV_OK;
    if (part + 1 < parts)
      continue;
    list_channels(reader, list, true, names, sizeof names);
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has no part, layer or channel '%s'; the channels of its %s part are %s",
                      reader->source->name, member, parts > 1 ? "last" : "only", names);
  }
  EXR_TRY(exr_get_channels(r->file, r->part, &list));
  if (!take_part(reader, list)) {
    list_channels(reader, list, true, names, sizeof names);
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: has no picture of R, G and B, or of Y without RY and BY: name a channel, or a layer, of %s: "
                      "FILE:NAME",
                      reader->source->name, names);
  }
  const int more = member ? 0 : list_channels(reader, list, false, names, sizeof names);
  if (more > 0)
    gconv_reader_note(reader, "%d further channel%s left out: %s (FILE:NAME reads a channel or a layer)", more,
                      more > 1 ? "s are" : " is", names);
  if (parts > 1 && !member)
    gconv_reader_note(reader, "the first of its %d parts is read: FILE:2 is the next one", parts);
  return GCONV_OK;
}

/* Refuses what this version of the library reads wrongly, or does not know: it takes that for ZIP. */
static gconv_status check_compression(gconv_reader *reader) {
  static const char attribute[] = "compression\0compression\0\1\0\0"; /* and a 0; then the number */
  reading *r = reader->state;
  exr_compression_t compression;
  int major, minor, patch;
  const char *rest;
  uint8_t head[4096];
  const int64_t got = read_bytes(r->file, r, head, sizeof head, 0, NULL);
  const uint8_t *at = got > 0 ? memmem(head, (size_t)got - 1, attribute, sizeof attribute) : NULL;
  EXR_TRY(exr_get_compression(r->file, r->part, &compression));
  gconv_exr.exr_get_library_version(&major, &minor, &patch, &rest);
  if (at && at[sizeof attribute] > 9 && compression <= 9)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: is compressed in a way (number %d) that OpenEXRCore %d.%d does not know: %s",
                      reader->source->name, at[sizeof attribute], major, minor, GCONV_EXR_REMEDY);
  if ((compression == EXR_COMPRESSION_B44 || compression == EXR_COMPRESSION_B44A) && major == 3 && minor < 3)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: is compressed by B44, which OpenEXRCore %d.%d reads wrongly: %s",
                      reader->source->name, major, minor, GCONV_EXR_REMEDY);
  return GCONV_OK;
}

static gconv_status check_channels(gconv_reader *reader) {
  const reading *r = reader->state;
  const exr_attr_chlist_t *list;
  EXR_TRY(exr_get_channels(r->file, r->part, &list));
  for (int c = 0; c < reader->header.channels; c++) {
    const exr_attr_chlist_entry_t *its = &list->entries[r->channels[c]];
    if (its->x_sampling != 1 || its->y_sampling != 1)
      return gconv_fail(GCONV_UNSUPPORTED, "%s: its channel %s has fewer samples than the image has pixels",
                        reader->source->name, its->name.str);
    if (its->pixel_type == EXR_PIXEL_UINT)
      gconv_reader_note(reader, "its channel %s has whole numbers: above 2^24, the nearest float is taken", its->name.str);
  }
  return GCONV_OK;
}

/* ---- The header ------------------------------------------------------------------------------------------------------ */

/* Takes the attributes that gconv_image has fields for, and reports all others. */
static gconv_status take_attributes(gconv_reader *reader) {
  static const char *const known[] = {
      "channels", "compression",        "dataWindow",        "displayWindow", "lineOrder", "pixelAspectRatio",
      "tiles",    "screenWindowCenter", "screenWindowWidth", "type",          "name",      "chunkCount",
      "version",  "xDensity",           "comments",          "preview"};
  const reading *r = reader->state;
  gconv_image *header = &reader->header;
  const exr_attribute_t *its;
  int32_t count = 0;
  float aspect = 1, density = 0;
  gconv_exr.exr_get_pixel_aspect_ratio(r->file, r->part, &aspect);
  EXR_TRY(exr_get_attribute_count(r->file, r->part, &count));
  for (int32_t i = 0; i < count; i++) {
    EXR_TRY(exr_get_attribute_by_index(r->file, r->part, EXR_ATTR_LIST_FILE_ORDER, i, &its));
    bool is_known = false;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
      is_known |= strcmp(its->name, known[k]) == 0;
    if (!is_known)
      gconv_reader_lose(reader, its->name);
    if (strcmp(its->name, "xDensity") == 0 && its->type == EXR_ATTR_FLOAT)
      density = its->f;
    if (strcmp(its->name, "comments") == 0 && its->type == EXR_ATTR_STRING)
      GCONV_TRY(gconv_reader_add_comment(reader, its->string->str, (size_t)its->string->length));
  }
  const bool sound = aspect > 0 && aspect < 1e6F;
  if (density > 0 && density < 1e9F && sound) {
    header->pixels_per_metre_x = (double)density / GCONV_EXR_INCH;
    header->pixels_per_metre_y = header->pixels_per_metre_x * (double)aspect;
  } else if (sound) {
    gconv_metadata_set_unitless(header, 1, (double)aspect);
  }
  return GCONV_OK;
}

static gconv_status take_size(gconv_reader *reader) {
  reading *r = reader->state;
  gconv_image *header = &reader->header;
  exr_attr_box2i_t shown;
  EXR_TRY(exr_get_data_window(r->file, r->part, &r->window));
  EXR_TRY(exr_get_display_window(r->file, r->part, &shown));
  const int64_t width = (int64_t)r->window.max.x - r->window.min.x + 1,
                height = (int64_t)r->window.max.y - r->window.min.y + 1;
  if (width < 1 || height < 1 || height > INT32_MAX || width > INT32_MAX / 16)
    return gconv_fail(width < 1 || height < 1 ? GCONV_BAD_FILE : GCONV_TOO_LARGE, "%s: has %lld x %lld pixels",
                      reader->source->name, (long long)width, (long long)height);
  header->width = (int32_t)width;
  header->height = (int32_t)height;
  header->frames = 1;
  header->type = GCONV_F32;
  if (memcmp(&shown, &r->window, sizeof shown) != 0)
    gconv_reader_note(reader,
                      "all %lld x %lld pixels that it has are read, from (%d, %d) on; it is to be shown from (%d, %d) "
                      "to (%d, %d)",
                      (long long)width, (long long)height, (int)r->window.min.x, (int)r->window.min.y, (int)shown.min.x,
                      (int)shown.min.y, (int)shown.max.x, (int)shown.max.y);
  return GCONV_OK;
}

/* Finds the chunks, and how many rows a band has. */
static gconv_status take_chunks(gconv_reader *reader) {
  enum { MOST_CHUNK = 1 << 30 };
  reading *r = reader->state;
  const gconv_image *header = &reader->header;
  exr_storage_t storage;
  int32_t levels_x = 1, levels_y = 1;
  uint64_t bytes;
  EXR_TRY(exr_get_storage(r->file, r->part, &storage));
  if (storage != EXR_STORAGE_SCANLINE && storage != EXR_STORAGE_TILED)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: is deep: pixels have any number of samples, which is not read here: flatten it first, as "
                      "oiiotool does: oiiotool IN --flatten -o OUT.exr",
                      reader->source->name);
  r->tiled = storage == EXR_STORAGE_TILED;
  r->tile_width = header->width;
  if (!r->tiled) {
    EXR_TRY(exr_get_scanlines_per_chunk(r->file, r->part, &r->tile_height));
  } else {
    EXR_TRY(exr_get_tile_sizes(r->file, r->part, 0, 0, &r->tile_width, &r->tile_height));
    EXR_TRY(exr_get_tile_levels(r->file, r->part, &levels_x, &levels_y));
  }
  if (levels_x > 1 || levels_y > 1)
    gconv_reader_note(reader, "its smaller copies (levels) are left out");
  EXR_TRY(exr_get_chunk_unpacked_size(r->file, r->part, &bytes));
  if (bytes > MOST_CHUNK || r->tile_width < 1 || r->tile_height < 1)
    return gconv_fail(GCONV_TOO_LARGE, "%s: has chunks of %llu bytes; the limit is %d", reader->source->name,
                      (unsigned long long)bytes, (int)MOST_CHUNK);
  const int64_t most = MOST_CHUNK / 4 / (int64_t)(bytes + 1), threads = gconv_threads_allowed(0);
  const int64_t chunks = r->tiled || most < 1 ? 1 : most < threads ? most : threads;
  const int64_t rows = chunks * r->tile_height;
  r->room = rows < header->height ? (int32_t)rows : header->height;
  r->first = -r->room;
  reader->bytes +=
      (size_t)r->room * (size_t)header->width * (size_t)header->channels * sizeof(float) + 3 * (size_t)threads * bytes;
  return gconv_reader_check_expansion(reader, 1);
}

gconv_status gconv_exr_open(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(reading), "an OpenEXR", &reader->state));
  reading *r = reader->state;
  r->source = reader->source;
  GCONV_TRY(gconv_exr_load(reader->source->name));
  if (!gconv_source_can_rewind(reader->source))
    GCONV_TRY(gconv_reader_read_all(reader, SIZE_MAX / 2, &r->bytes, &r->size));
  exr_context_initializer_t functions = EXR_DEFAULT_CONTEXT_INITIALIZER;
  functions.error_handler_fn = gconv_exr_be_silent;
  functions.user_data = r;
  functions.read_fn = read_bytes;
  functions.size_fn = size_of;
  functions.flags = EXR_CONTEXT_FLAG_SILENT_HEADER_PARSE | EXR_CONTEXT_FLAG_DISABLE_CHUNK_RECONSTRUCTION;
  int parts;
  r->opening = true;
  EXR_TRY(exr_start_read(&r->file, reader->source->name, &functions));
  r->opening = false;
  EXR_TRY(exr_get_count(r->file, &parts));
  GCONV_TRY(find_picture(reader, parts));
  GCONV_TRY(check_compression(reader));
  GCONV_TRY(take_size(reader));
  GCONV_TRY(take_chunks(reader));
  GCONV_TRY(check_channels(reader));
  return take_attributes(reader);
}

void gconv_exr_close(gconv_reader *reader) {
  reading *r = reader->state;
  if (!r)
    return;
  if (r->file)
    gconv_exr.exr_finish(&r->file);
  gconv_release(r->bytes);
  gconv_release(r->band);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

typedef struct band {
  reading *reading;
  const gconv_image *header;
  int32_t rows, across; /* rows of the band; chunks side by side */
} band;

/* A chunk that is decoded. */
typedef struct target {
  const band *band;
  float *pixels; /* its first pixel in the band */
} target;

/* Makes floats of the wanted channels. A decoded row has all samples of the first channel, then all of the second and so on,
 * lowest byte first. OpenEXRCore 3.1 has a function for this that is wrong for four channels of halfs. */
static exr_result_t unpack(exr_decode_pipeline_t *pipeline) {
  const target *to = pipeline->decoding_user_data;
  const reading *r = to->band->reading;
  const size_t count = (size_t)to->band->header->channels, width = (size_t)to->band->header->width;
  const uint8_t *at = pipeline->unpacked_buffer ? pipeline->unpacked_buffer : pipeline->packed_buffer;
  for (int32_t y = 0; y < pipeline->chunk.height; y++)
    for (int i = 0; i < pipeline->channel_count; i++) {
      const exr_coding_channel_info_t *its = &pipeline->channels[i];
      const gconv_element element = {its->data_type == EXR_PIXEL_UINT ? 'u' : 'f', (size_t)its->bytes_per_element, false};
      if ((pipeline->chunk.start_y + y) % its->y_samples != 0)
        continue;
      for (size_t c = 0; c < count; c++)
        for (size_t x = 0; r->channels[c] == i && x < (size_t)its->width; x++)
          to->pixels[((size_t)y * width + x) * count + c] = gconv_element_read(element, at + x * element.bytes);
      at += (size_t)its->width * element.bytes;
    }
  return EXR_ERR_SUCCESS;
}

/* Decodes a chunk whose first pixel is at column x and row y of the band. */
static exr_result_t decode_chunk(const band *b, const exr_chunk_info_t *chunk, int32_t x, int32_t y) {
  const reading *r = b->reading;
  const int32_t width = b->header->width;
  target to = {b, r->band + ((size_t)y * (size_t)width + (size_t)x) * (size_t)b->header->channels};
  exr_decode_pipeline_t pipeline = EXR_DECODE_PIPELINE_INITIALIZER;
  if (chunk->height > b->rows - y || chunk->width > width - x)
    return EXR_ERR_BAD_CHUNK_LEADER;
  if (chunk->compression == EXR_COMPRESSION_NONE && chunk->packed_size != chunk->unpacked_size)
    return EXR_ERR_BAD_CHUNK_LEADER; /* OpenEXRCore 3.1 would leave a part of its buffer uninitialised */
  exr_result_t result = gconv_exr.exr_decoding_initialize(r->file, r->part, chunk, &pipeline);
  if (result == EXR_ERR_SUCCESS)
    result = gconv_exr.exr_decoding_choose_default_routines(r->file, r->part, &pipeline);
  pipeline.decoding_user_data = &to;
  pipeline.unpack_and_convert_fn = unpack;
  if (result == EXR_ERR_SUCCESS)
    result = gconv_exr.exr_decoding_run(r->file, r->part, &pipeline);
  gconv_exr.exr_decoding_destroy(r->file, &pipeline);
  return result;
}

static void decode_turn(void *context, size_t turn, int seat) {
  const band *b = context;
  reading *r = b->reading;
  const int32_t column = (int32_t)turn % b->across, row = (int32_t)turn / b->across;
  exr_chunk_info_t chunk;
  if (atomic_load(&r->result) != EXR_ERR_SUCCESS)
    return;
  exr_result_t result =
      r->tiled ? gconv_exr.exr_read_tile_chunk_info(r->file, r->part, column, r->first / r->tile_height, 0, 0, &chunk)
               : gconv_exr.exr_read_scanline_chunk_info(r->file, r->part, r->window.min.y + r->first + row * r->tile_height,
                                                        &chunk);
  if (result == EXR_ERR_SUCCESS)
    result = decode_chunk(b, &chunk, column * r->tile_width, row * r->tile_height);
  int none = EXR_ERR_SUCCESS;
  atomic_compare_exchange_strong(&r->result, &none, result);
}

/* Decodes the band that begins at row `first`. */
static gconv_status decode_band(gconv_reader *reader, int32_t first) {
  reading *r = reader->state;
  const gconv_image *header = &reader->header;
  const size_t sizes[] = {(size_t)r->room, (size_t)header->width, (size_t)header->channels, sizeof(float)};
  if (!r->band)
    GCONV_ALLOCATE(r->band, gconv_checked_product(4, sizes), "rows of an OpenEXR");
  r->first = first;
  band b = {.reading = r, .header = header, .rows = header->height - first < r->room ? header->height - first : r->room};
  b.across = (header->width - 1) / r->tile_width + 1;
  const size_t turns = (size_t)b.across * (size_t)((b.rows - 1) / r->tile_height + 1);
  if (reader->shared)
    gconv_threads_run(reader->shared, turns, decode_turn, &b);
  for (size_t turn = 0; !reader->shared && turn < turns; turn++)
    decode_turn(&b, turn, 0);
  return r->result == EXR_ERR_SUCCESS ? GCONV_OK : damaged(reader, (exr_result_t)r->result);
}

/* Divides colours by alpha. Transparent pixels that have colours, which glow, lose them: there, no division is possible. */
static void divide_by_alpha(gconv_reader *reader, float *row) {
  reading *r = reader->state;
  const int count = reader->header.channels;
  for (int32_t x = 0; x < reader->header.width && !r->glows; x++)
    for (int c = 0; c + 1 < count && !r->glows; c++)
      r->glows = !(row[x * count + count - 1] > 0) && row[x * count + c] != 0;
  gconv_colour_unpremultiply_row(count, row, (size_t)reader->header.width);
}

gconv_status gconv_exr_read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  reading *r = reader->state;
  const gconv_image *header = &reader->header;
  const bool glowed = r->glows;
  for (int32_t i = 0; i < count; i++) {
    const int32_t y = (int32_t)reader->rows_read + i;
    if (y >= r->first + r->room)
      GCONV_TRY(decode_band(reader, r->first + r->room));
    float *row = (float *)(void *)((uint8_t *)rows + (size_t)i * row_bytes);
    const size_t samples = (size_t)header->width * (size_t)header->channels;
    memcpy(row, r->band + (size_t)(y - r->first) * samples, samples * sizeof *row);
    if (header->alpha)
      divide_by_alpha(reader, row);
  }
  if (r->glows && !glowed)
    gconv_reader_note(reader, "the colours of its transparent pixels, which glow, are left out");
  return GCONV_OK;
}
