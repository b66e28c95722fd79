/* SPDX-License-Identifier: MIT */
#include "image/png_metadata.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "image/metadata.h"
#include "image/png_encode.h"
#include "image/png_strip.h"

#include <string.h>
#include <strings.h>
#include <zlib.h>

enum { MOST_BYTES = GCONV_MOST_METADATA }; /* the most bytes of a chunk, and of its inflated data */

static const char xmp_keyword[] = "XML:com.adobe.xmp", comment_keyword[] = "Comment", raw_keyword[] = "Raw profile type ";

/* ---- Texts --------------------------------------------------------------------------------------------------------- */

/* A chunk of text: a keyword, 0, and the text. */
typedef struct text_chunk {
  const char *keyword; /* ends in 0 */
  const uint8_t *text;
  size_t size;
  bool deflated, utf8;
} text_chunk;

/* Moves *at past the next 0. Returns false if there is none. */
static bool skip_word(const uint8_t **at, const uint8_t *end) {
  const uint8_t *zero = *at < end ? memchr(*at, 0, (size_t)(end - *at)) : NULL;
  if (zero)
    *at = zero + 1;
  return zero;
}

/* Between keyword and text, zTXt has the method of compression, 0. iTXt has whether the text is compressed, the method, and
 * two words: the language, and the keyword in that language. */
static bool parse_text(const char *type, const uint8_t *data, size_t size, text_chunk *chunk) {
  const uint8_t *at = data, *end = data + size;
  *chunk = (text_chunk){.keyword = (const char *)data, .deflated = type[0] == 'z', .utf8 = type[0] == 'i'};
  if (!skip_word(&at, end))
    return false;
  if (chunk->utf8) {
    if (end - at < 2)
      return false;
    chunk->deflated = *at++ != 0;
  }
  if (chunk->deflated && (at == end || *at != 0))
    return false;
  at += chunk->deflated || chunk->utf8;
  if (chunk->utf8 && (!skip_word(&at, end) || !skip_word(&at, end)))
    return false;
  chunk->text = at;
  chunk->size = (size_t)(end - at);
  return true;
}

#define NO_MEMORY "no memory for the metadata of a PNG"

/* Inflates a text into memory for free(): NULL if it is damaged, or too large. */
static gconv_status inflate_text(const text_chunk *chunk, uint8_t **text, size_t *size) {
  z_stream stream = {.next_in = (Bytef *)(uintptr_t)chunk->text, .avail_in = (uInt)chunk->size};
  size_t room = 0;
  int state = inflateInit(&stream);
  *text = NULL;
  while (state == Z_OK && room < MOST_BYTES) {
    size_t more = gconv_room(room + 1) - room;
    uint8_t *larger = realloc(*text, room + more);
    if (!larger) {
      state = Z_MEM_ERROR;
      break;
    }
    *text = larger;
    stream.next_out = larger + room;
    stream.avail_out = (uInt)more;
    room += more;
    state = inflate(&stream, Z_NO_FLUSH);
  }
  *size = stream.total_out;
  inflateEnd(&stream);
  if (state == Z_STREAM_END)
    return GCONV_OK;
  free(*text);
  *text = NULL;
  return state == Z_MEM_ERROR ? gconv_fail(GCONV_NO_MEMORY, NO_MEMORY) : GCONV_OK;
}

/* ---- Comments ------------------------------------------------------------------------------------------------------ */

static bool is_ascii(const char *text) {
  for (; *text; text++)
    if ((unsigned char)*text >= 0x80)
      return false;
  return true;
}

/* A comment in Latin-1, as the format demands, becomes UTF-8. Some programs write UTF-8 themselves. */
static gconv_status take_comment(gconv_reader *reader, const text_chunk *chunk) {
  if (chunk->utf8 || gconv_utf8_is_whole((const char *)chunk->text, chunk->size))
    return gconv_reader_add_comment(reader, chunk->text, chunk->size);
  GCONV_FREED uint8_t *text = malloc(2 * chunk->size + 1);
  size_t size = 0;
  GCONV_NEED_MEMORY(text, NO_MEMORY);
  for (size_t i = 0; i < chunk->size; i++) {
    uint8_t letter = chunk->text[i];
    if (letter >= 0x80)
      text[size++] = (uint8_t)(0xc0 | letter >> 6);
    text[size++] = letter < 0x80 ? letter : (uint8_t)(0x80 | (letter & 0x3f));
  }
  return gconv_reader_add_comment(reader, text, size);
}

/* ---- Raw profiles -------------------------------------------------------------------------------------------------- */

static int digit_of(int letter) {
  return letter >= '0' && letter <= '9'   ? letter - '0'
         : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
         : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10
                                          : -1;
}

/* The text has a line with the profile's name, a line with the number of bytes, and lines of hexadecimal digits, two a byte.
 * *profile: the bytes, in memory for free(), or NULL if there are fewer than the number says. */
static gconv_status decode_profile(const text_chunk *chunk, uint8_t **profile, size_t *size) {
  const uint8_t *at = chunk->text, *end = at + chunk->size;
  size_t wanted = 0;
  *profile = NULL;
  while (at < end && *at == '\n')
    at++;
  while (at < end && *at != '\n')
    at++;
  while (at < end && (*at == '\n' || *at == ' '))
    at++;
  for (; at < end && *at >= '0' && *at <= '9' && wanted <= chunk->size; at++)
    wanted = 10 * wanted + (size_t)(*at - '0');
  if (wanted == 0 || wanted > chunk->size / 2)
    return GCONV_OK;
  GCONV_FREED uint8_t *bytes = malloc(wanted);
  GCONV_NEED_MEMORY(bytes, NO_MEMORY);
  for (*size = 0; *size < wanted && at < end; at++) {
    int high = digit_of(*at), low = at + 1 < end ? digit_of(at[1]) : -1;
    if (high < 0)
      continue;
    if (low < 0)
      break;
    bytes[(*size)++] = (uint8_t)(16 * high + low);
    at++;
  }
  if (*size == wanted)
    *profile = gconv_taken(&bytes);
  return GCONV_OK;
}

static bool begins_with(const uint8_t *bytes, size_t size, const char *prefix, size_t prefix_bytes) {
  return size > prefix_bytes && memcmp(bytes, prefix, prefix_bytes) == 0;
}

static void lose_text(gconv_reader *reader, const char *what, const char *name) {
  char text[128];
  snprintf(text, sizeof text, "%s '%.90s'", what, name);
  gconv_reader_lose(reader, text);
}

/* `name`: "exif", "xmp", or "APP1", which is either. EXIF and XMP may begin with the prefix that they have in a JPEG. */
static gconv_status take_profile(gconv_reader *reader, const text_chunk *chunk, const char *name) {
  static const char exif[] = "Exif\0", xmp[] = "http://ns.adobe.com/xap/1.0/";
  size_t size, skipped = 0;
  GCONV_FREED uint8_t *bytes = NULL;
  if (strcasecmp(name, "exif") != 0 && strcasecmp(name, "xmp") != 0 && strcasecmp(name, "APP1") != 0) {
    lose_text(reader, "profile", name);
    return GCONV_OK;
  }
  GCONV_TRY(decode_profile(chunk, &bytes, &size));
  if (!bytes) {
    gconv_reader_note(reader, "its profile \"%s\" is damaged and left out", name);
    return GCONV_OK;
  }
  bool is_xmp = strcasecmp(name, "xmp") == 0 || begins_with(bytes, size, xmp, sizeof xmp);
  if (begins_with(bytes, size, exif, sizeof exif))
    skipped = sizeof exif;
  else if (begins_with(bytes, size, xmp, sizeof xmp))
    skipped = sizeof xmp;
  if (!gconv_reader_has_room(reader, size))
    return GCONV_OK;
  return is_xmp ? gconv_metadata_set_xmp(&reader->header, bytes + skipped, size - skipped)
                : gconv_metadata_set_exif(&reader->header, bytes + skipped, size - skipped);
}

/* ---- Chunks -------------------------------------------------------------------------------------------------------- */

/* EXIF and XMP in chunks of their own replace those of raw profiles. */
static gconv_status take_xmp(gconv_reader *reader, const text_chunk *chunk) {
  gconv_release(reader->header.xmp);
  reader->header.xmp = NULL;
  reader->header.xmp_bytes = 0;
  if (!gconv_reader_has_room(reader, chunk->size))
    return GCONV_OK;
  return gconv_metadata_set_xmp(&reader->header, chunk->text, chunk->size);
}

static gconv_status take_exif(gconv_reader *reader, const uint8_t *data, size_t size) {
  gconv_release(reader->header.exif);
  reader->header.exif = NULL;
  reader->header.exif_bytes = 0;
  if (!gconv_reader_has_room(reader, size))
    return GCONV_OK;
  return gconv_metadata_set_exif(&reader->header, data, size);
}

static gconv_status take_plain_text(gconv_reader *reader, const text_chunk *chunk) {
  if (strcmp(chunk->keyword, xmp_keyword) == 0)
    return take_xmp(reader, chunk);
  if (strcasecmp(chunk->keyword, comment_keyword) == 0)
    return take_comment(reader, chunk);
  return take_profile(reader, chunk, chunk->keyword + sizeof raw_keyword - 1);
}

static bool is_text(const char *type) {
  return memcmp(type, "tEXt", 4) == 0 || memcmp(type, "zTXt", 4) == 0 || memcmp(type, "iTXt", 4) == 0;
}

static bool is_known(const char *keyword) {
  return strcmp(keyword, xmp_keyword) == 0 || strcasecmp(keyword, comment_keyword) == 0 ||
         strncmp(keyword, raw_keyword, sizeof raw_keyword - 1) == 0;
}

static gconv_status take_text(gconv_reader *reader, const char *type, const uint8_t *data, size_t size) {
  text_chunk chunk;
  bool whole = parse_text(type, data, size, &chunk);
  GCONV_FREED uint8_t *text = NULL;
  if (whole && !is_known(chunk.keyword)) {
    lose_text(reader, "text", chunk.keyword);
    return GCONV_OK;
  }
  if (whole && chunk.deflated) {
    GCONV_TRY(inflate_text(&chunk, &text, &chunk.size));
    chunk.text = text;
    whole = text;
  }
  if (!whole) {
    gconv_reader_note(reader, "a damaged text is left out");
    return GCONV_OK;
  }
  return take_plain_text(reader, &chunk);
}

/* Reports a chunk that is not read, unless it means nothing for results. Names of chunks are letters. */
static void lose_chunk(gconv_reader *reader, const char type[4]) {
  static const struct {
    char type[5];
    const char *name; /* NULL: not reported, as it only describes this file or its samples */
  } known[] = {{"pCAL", "what samples measure (pCAL)"},
               {"sCAL", "the size of a pixel (sCAL)"},
               {"bKGD", "the background (bKGD)"},
               {"sBIT", "how many bits count (sBIT)"},
               {"oFFs", "the place on a page (oFFs)"},
               {"sPLT", "a palette for reduced colours (sPLT)"},
               {"caBX", "signed origins (C2PA)"},
               {"hIST", NULL},
               {"tIME", NULL},
               {"iDOT", NULL},
               {"fcTL", NULL},
               {"fdAT", NULL},
               {"IDAT", NULL},
               {"IEND", NULL}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (memcmp(type, known[i].type, 4) == 0) {
      if (known[i].name)
        gconv_reader_lose(reader, known[i].name);
      return;
    }
  char name[16];
  snprintf(name, sizeof name, "chunk %.4s", type);
  gconv_reader_lose(reader, name);
}

gconv_status gconv_png_take_chunk(gconv_reader *reader, const char *type, const uint8_t *data, size_t size) {
  if (memcmp(type, "eXIf", 4) == 0)
    return take_exif(reader, data, size);
  if (is_text(type))
    return take_text(reader, type, data, size);
  lose_chunk(reader, type);
  return GCONV_OK;
}

bool gconv_png_is_metadata(const char *type, const uint8_t *data, size_t size) {
  text_chunk chunk;
  return memcmp(type, "eXIf", 4) == 0 || (is_text(type) && parse_text(type, data, size, &chunk) && is_known(chunk.keyword));
}

/* ---- After the pixels --------------------------------------------------------------------------------------------- */

enum { CHUNK_HEAD = 8, CRC_BYTES = 4, WINDOW_BYTES = 512 };

/* A part of the file, to look at small chunks. Large chunks are skipped without being read. */
typedef struct window {
  const gconv_source *source;
  uint64_t begin;
  size_t size;
  uint8_t bytes[WINDOW_BYTES];
} window;

/* Returns the head of the chunk at position `at`, or NULL at the end of the file. */
static const uint8_t *head_at(window *w, uint64_t at) {
  if (at < w->begin || at + CHUNK_HEAD > w->begin + w->size) {
    w->begin = at;
    if (gconv_source_read_at(w->source, at, w->bytes, sizeof w->bytes, &w->size) != GCONV_OK)
      w->size = 0;
  }
  return at + CHUNK_HEAD <= w->begin + w->size ? w->bytes + (at - w->begin) : NULL;
}

/* Takes the chunk whose data stand at `at`. A chunk with a wrong checksum is left out here; the code that reads
 * the pixels fails at it. */
static gconv_status take_at(gconv_reader *reader, uint64_t at, const char *type, size_t size) {
  GCONV_FREED uint8_t *data = NULL;
  size_t got;
  if (reader->source->size - at < size + CRC_BYTES)
    return GCONV_OK;
  GCONV_ALLOCATE(data, size + CRC_BYTES, "metadata of a PNG");
  GCONV_TRY(gconv_source_read_at(reader->source, at, data, size + CRC_BYTES, &got));
  const uint32_t crc = gconv_crc32(gconv_crc32(0, (const uint8_t *)type, 4), data, got < size ? got : size);
  const bool whole = got == size + CRC_BYTES && gconv_bytes_number(data + size, CRC_BYTES, true) == crc;
  return whole ? gconv_png_take_chunk(reader, type, data, size) : GCONV_OK;
}

gconv_status gconv_png_look_ahead(gconv_reader *reader, size_t idat_bytes, bool take, uint64_t *end) {
  window w = {.source = reader->source};
  uint64_t at = reader->source->position + idat_bytes + CRC_BYTES;
  *end = 0;
  for (const uint8_t *head; *end == 0 && (head = head_at(&w, at));) {
    size_t size = (size_t)gconv_bytes_number(head, 4, true);
    char type[5] = {0};
    memcpy(type, head + 4, 4);
    if (size > INT32_MAX)
      break;
    if (take && (memcmp(type, "eXIf", 4) == 0 || is_text(type)) && size <= MOST_BYTES)
      GCONV_TRY(take_at(reader, at + CHUNK_HEAD, type, size));
    else if (take)
      lose_chunk(reader, type);
    at += CHUNK_HEAD + size + CRC_BYTES;
    *end = memcmp(type, "IEND", 4) == 0 ? at : 0;
  }
  return GCONV_OK;
}

/* ---- Writing ------------------------------------------------------------------------------------------------------- */

/* Writes a chunk of two parts. */
static gconv_status write_chunk(gconv_writer *writer, const char *type, const void *first, size_t first_bytes,
                                const void *second, size_t second_bytes) {
  GCONV_FREED uint8_t *chunk = NULL;
  size_t size = first_bytes + second_bytes;
  if (second_bytes > INT32_MAX / 2)
    return gconv_fail(GCONV_TOO_LARGE, "%s: its metadata are larger than a PNG can hold: leave them out with --strip",
                      writer->name);
  GCONV_ALLOCATE(chunk, GCONV_PNG_CHUNK_HEAD + size + GCONV_PNG_CHUNK_TAIL, "metadata of a PNG");
  if (first_bytes > 0)
    memcpy(chunk + GCONV_PNG_CHUNK_HEAD, first, first_bytes);
  memcpy(chunk + GCONV_PNG_CHUNK_HEAD + first_bytes, second, second_bytes);
  return gconv_sink_write(writer->sink, chunk, gconv_png_frame_chunk(chunk, type, size));
}

/* iTXt is for UTF-8: its keyword is followed by "not compressed", a method, and two empty words. Comments in ASCII, or in an
 * unknown encoding, go into tEXt. */
gconv_status gconv_png_write_metadata(gconv_writer *writer) {
  static const char xmp[] = "XML:com.adobe.xmp\0\0\0\0", international[] = "Comment\0\0\0\0", plain[] = "Comment";
  const gconv_image *header = writer->header;
  if (header->exif)
    GCONV_TRY(write_chunk(writer, "eXIf", NULL, 0, header->exif, header->exif_bytes));
  if (header->xmp)
    GCONV_TRY(write_chunk(writer, "iTXt", xmp, sizeof xmp, header->xmp, header->xmp_bytes));
  if (!header->comment)
    return GCONV_OK;
  size_t size = strlen(header->comment);
  if (!is_ascii(header->comment) && gconv_utf8_is_whole(header->comment, size))
    return write_chunk(writer, "iTXt", international, sizeof international, header->comment, size);
  return write_chunk(writer, "tEXt", plain, sizeof plain, header->comment, size);
}
