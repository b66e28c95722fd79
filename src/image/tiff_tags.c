/* SPDX-License-Identifier: MIT */
#include "image/tiff_tags.h"
#include "base/checksum.h"
#include "base/nodata.h"

#include <stdio.h>
#include <string.h>

/* ---- The table ---- */

/* Whether results keep a tag. */
typedef enum fate {
  LEFT_OUT,  /* left out, and named in a warning */
  OF_FILE,   /* the file's layout, colours, or statistics of samples: results have their own */
  ELSEWHERE, /* EXIF, XMP, ICC profile, resolution, description: other tiff_*.c files read and write them */
  PLACE,     /* kept where width and height stay */
  LAYOUT,    /* kept where the shape stays */
  NUMBER,    /* the number that stands for no data: kept if the result has one */
  NAME       /* kept */
} fate;

typedef struct known_tag {
  uint16_t first, last;
  fate fate;
  uint16_t type; /* type of tags that are kept */
  const char *name;
} known_tag;

/* Sorted. A tag that is not in this table is left out, and named by its number. */
static const known_tag known_tags[] = {
    {254, 259, OF_FILE, 0, NULL},
    {262, 266, OF_FILE, 0, NULL},
    {269, 269, NAME, GCONV_TIFF_ASCII, "DocumentName"},
    {270, 272, ELSEWHERE, 0, NULL}, /* description, make, model */
    {273, 274, OF_FILE, 0, NULL},
    {277, 281, OF_FILE, 0, NULL}, /* also the smallest and largest sample */
    {282, 283, ELSEWHERE, 0, NULL},
    {284, 284, OF_FILE, 0, NULL},
    {285, 285, NAME, GCONV_TIFF_ASCII, "PageName"},
    {286, 287, LEFT_OUT, 0, "the place on a page (XPosition, YPosition)"},
    {288, 289, OF_FILE, 0, NULL},
    {290, 291, LEFT_OUT, 0, "GrayResponseCurve"},
    {292, 293, OF_FILE, 0, NULL},
    {296, 296, ELSEWHERE, 0, NULL},
    {297, 297, OF_FILE, 0, NULL},
    {301, 301, LEFT_OUT, 0, "TransferFunction"},
    {305, 306, ELSEWHERE, 0, NULL}, /* software, date */
    {315, 316, ELSEWHERE, 0, NULL}, /* artist, computer */
    {317, 317, OF_FILE, 0, NULL},
    {318, 319, LEFT_OUT, 0, "WhitePoint and PrimaryChromaticities"},
    {320, 320, OF_FILE, 0, NULL},
    {321, 321, LEFT_OUT, 0, "HalftoneHints"},
    {322, 328, OF_FILE, 0, NULL}, /* tiles, bad lines of faxes */
    {330, 330, OF_FILE, 0, NULL},
    {332, 332, OF_FILE, 0, NULL},
    {333, 333, LEFT_OUT, 0, "InkNames"},
    {334, 336, OF_FILE, 0, NULL},
    {337, 337, LEFT_OUT, 0, "TargetPrinter"},
    {338, 341, OF_FILE, 0, NULL}, /* alpha, kind of samples, smallest and largest */
    {347, 347, OF_FILE, 0, NULL},
    {512, 532, OF_FILE, 0, NULL}, /* old JPEG, YCbCr */
    {559, 559, OF_FILE, 0, NULL},
    {700, 700, ELSEWHERE, 0, NULL},     /* XMP */
    {33432, 33432, ELSEWHERE, 0, NULL}, /* copyright */
    {33550, 33550, PLACE, GCONV_TIFF_DOUBLE, "ModelPixelScale"},
    {33723, 33723, LEFT_OUT, 0, "IPTC"},
    {33920, 33920, PLACE, GCONV_TIFF_DOUBLE, "IntergraphMatrix"},
    {33922, 33922, PLACE, GCONV_TIFF_DOUBLE, "ModelTiepoint"},
    {34264, 34264, PLACE, GCONV_TIFF_DOUBLE, "ModelTransformation"},
    {34377, 34377, LEFT_OUT, 0, "Photoshop"},
    {34665, 34665, ELSEWHERE, 0, NULL}, /* EXIF */
    {34675, 34675, ELSEWHERE, 0, NULL}, /* ICC profile */
    {34735, 34735, PLACE, GCONV_TIFF_SHORT, "GeoKeyDirectory"},
    {34736, 34736, PLACE, GCONV_TIFF_DOUBLE, "GeoDoubleParams"},
    {34737, 34737, PLACE, GCONV_TIFF_ASCII, "GeoAsciiParams"},
    {34853, 34853, ELSEWHERE, 0, NULL}, /* GPS */
    {37724, 37724, LEFT_OUT, 0, "layers of Photoshop"},
    {40965, 40965, ELSEWHERE, 0, NULL},
    {42112, 42112, PLACE, GCONV_TIFF_ASCII, "GDAL_METADATA"},
    {42113, 42113, NUMBER, GCONV_TIFF_ASCII, "GDAL_NODATA"},
    {50674, 50674, OF_FILE, 0, NULL}, /* LERC */
    {50838, 50838, LAYOUT, GCONV_TIFF_LONG, "IJMetadataByteCounts"},
    {50839, 50839, LAYOUT, GCONV_TIFF_BYTE, "IJMetadata"},
    {50844, 50844, PLACE, GCONV_TIFF_DOUBLE, "RPCCoefficient"},
};
enum { KNOWN_TAGS = sizeof known_tags / sizeof known_tags[0] };

static const known_tag *find_tag(unsigned tag) {
  size_t begin = 0, end = KNOWN_TAGS;
  while (begin < end) {
    size_t middle = (begin + end) / 2;
    if (tag > known_tags[middle].last)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin < KNOWN_TAGS && tag >= known_tags[begin].first ? &known_tags[begin] : NULL;
}

/* ---- Records ---- */

/* The shape of the image that the tags belong to. */
typedef struct shape {
  int32_t frames, height, width, channels, type;
  int32_t pages; /* how many pages have the same place on Earth */
} shape;

/* A tag; its value follows, and at least one zero, up to a multiple of 8 bytes. */
typedef struct record {
  uint16_t tag, type;
  uint32_t count;
} record;

static size_t padded(size_t bytes) {
  return bytes / 8 * 8 + 8;
}

static size_t value_bytes(const record *r) {
  return r->type < GCONV_TIFF_TYPES ? (size_t)r->count * gconv_tiff_type_bytes[r->type] : 0;
}

/* Reads the record at *at and moves *at past it. Returns its value; NULL if there is none, or it exceeds `size`. */
static const void *next_record(const uint8_t *tags, size_t size, size_t *at, record *r) {
  if (*at > size || size - *at < sizeof *r)
    return NULL;
  memcpy(r, tags + *at, sizeof *r);
  size_t value = *at + sizeof *r, bytes = value_bytes(r);
  if (bytes > size - value || padded(bytes) > size - value)
    return NULL;
  *at = value + padded(bytes);
  return tags + value;
}

/* ---- Reading ---- */

bool gconv_tiff_is_layout(const char *text) {
  static const char *const begins[] = {"{\"shape\":", "ImageJ=", "SCIFIO=", "<OME"};
  for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
    if (strncmp(text, begins[i], strlen(begins[i])) == 0)
      return true;
  return strncmp(text, "<?xml", 5) == 0 && strstr(text, "<OME");
}

/* Appends the entry to the header's tags. Returns false if it cannot be read, or there is no room. */
static bool keep(gconv_reader *reader, const gconv_tiff_origin *from, const gconv_tiff_entry *e, uint8_t *tags,
                 size_t *used) {
  record r = {(uint16_t)e->tag, (uint16_t)e->type, (uint32_t)e->count};
  uint8_t *at = tags + *used;
  size_t item = gconv_tiff_type_bytes[e->type];
  if (!gconv_reader_has_room(reader, *used + sizeof r + e->bytes) ||
      !gconv_tiff_fetch(from, e->value, at + sizeof r, e->bytes))
    return false;
  memcpy(at, &r, sizeof r);
  memset(at + sizeof r + e->bytes, 0, padded(e->bytes) - e->bytes);
  if (from->big_endian != gconv_host_is_big_endian() && item > 1)
    gconv_swap_bytes(at + sizeof r, e->count, item);
  *used += sizeof r + padded(e->bytes);
  return true;
}

/* Returns whether the entry is a description that tells a program the layout of the file. */
static bool is_layout(const gconv_tiff_origin *from, const gconv_tiff_entry *e) {
  char text[1024] = "";
  size_t size = e->bytes < sizeof text ? e->bytes : sizeof text - 1;
  return e->tag == TIFFTAG_IMAGEDESCRIPTION && e->type == GCONV_TIFF_ASCII && gconv_tiff_fetch(from, e->value, text, size) &&
         gconv_tiff_is_layout(text);
}

static void lose(gconv_reader *reader, unsigned tag, const known_tag *known) {
  char name[32];
  snprintf(name, sizeof name, "tag %u", tag);
  gconv_reader_lose(reader, known ? known->name : name);
}

/* Finds how many bytes the tags of a directory that may be kept take. Returns false if these are too many. */
static bool room_of(const gconv_tiff_origin *from, uint64_t at, size_t entries, size_t *bytes) {
  gconv_tiff_entry e;
  *bytes = sizeof(record) + padded(sizeof(shape));
  for (size_t i = 0; i < entries; i++, at += gconv_tiff_entry_bytes(from)) {
    const known_tag *known = gconv_tiff_read_entry(from, at, &e) ? find_tag(e.tag) : NULL;
    if (known && (known->fate >= PLACE || e.tag == TIFFTAG_IMAGEDESCRIPTION) && e.bytes <= from->source->size)
      *bytes += sizeof(record) + padded(e.bytes);
  }
  return *bytes <= 2 * GCONV_TIFF_MOST_VALUE;
}

uint32_t gconv_tiff_place_sum(const gconv_source *source, uint64_t directory) {
  gconv_tiff_origin from;
  gconv_tiff_entry e;
  uint8_t bytes[256];
  size_t entries;
  uint32_t sum = 1;
  if (!gconv_tiff_find_origin(source, &from) || !gconv_tiff_read_count(&from, &directory, &entries))
    return sum;
  for (size_t i = 0; i < entries; i++, directory += gconv_tiff_entry_bytes(&from)) {
    const known_tag *known = gconv_tiff_read_entry(&from, directory, &e) ? find_tag(e.tag) : NULL;
    size_t size = e.bytes < sizeof bytes ? e.bytes : sizeof bytes; /* different values differ in their first bytes */
    if (known && known->fate == PLACE && gconv_tiff_fetch(&from, e.value, bytes, size))
      sum = gconv_adler32(gconv_adler32(sum, (uint8_t[]){(uint8_t)(e.tag >> 8), (uint8_t)e.tag}, 2), bytes, size);
  }
  return sum;
}

/* Keeps an entry, or reports that it is left out. */
static void take(gconv_reader *reader, const gconv_tiff_origin *from, const gconv_tiff_entry *e, bool whole, uint8_t *tags,
                 size_t *used) {
  const known_tag *known = find_tag(e->tag);
  if (whole && is_layout(from, e) && reader->orientation > 1) {
    gconv_reader_lose(reader, "the description of axes");
  } else if (whole && is_layout(from, e)) {
    if (!keep(reader, from, e, tags, used))
      gconv_reader_note(reader, "its description is damaged and left out");
  } else if (!known || known->fate == LEFT_OUT) {
    lose(reader, e->tag, known);
  } else if ((known->fate == PLACE || known->fate == LAYOUT) && reader->orientation > 1) { /* of the stored image */
    lose(reader, e->tag, known);
  } else if (known->fate >= PLACE && !(whole && e->type == known->type && keep(reader, from, e, tags, used))) {
    gconv_reader_note(reader, "its tag %s is damaged and left out", known->name);
  }
}

gconv_status gconv_tiff_read_tags(gconv_reader *reader, const gconv_source *source, uint64_t directory, int32_t pages,
                                  bool described) {
  const gconv_image *header = &reader->header;
  const record first = {TIFFTAG_IMAGEWIDTH, GCONV_TIFF_LONG, sizeof(shape) / 4};
  const shape its = {header->frames, header->height, header->width, header->channels, (int32_t)header->type, pages};
  gconv_tiff_origin from;
  size_t entries, room, empty = sizeof first + padded(sizeof its), used = empty;
  GCONV_FREED uint8_t *tags = NULL;
  if (!gconv_tiff_find_origin(source, &from) || !gconv_tiff_read_count(&from, &directory, &entries))
    return GCONV_OK;
  if (!room_of(&from, directory, entries, &room)) {
    gconv_reader_note(reader, "its tags (places on Earth, spacing, axes) are left out, as they are too large");
    return GCONV_OK;
  }
  GCONV_ALLOCATE(tags, room, "tags of a TIFF");
  memset(tags, 0, room);
  memcpy(tags, &first, sizeof first);
  memcpy(tags + sizeof first, &its, sizeof its);
  for (size_t i = 0; i < entries; i++, directory += gconv_tiff_entry_bytes(&from)) {
    gconv_tiff_entry e;
    bool whole = gconv_tiff_read_entry(&from, directory, &e) && e.bytes <= source->size;
    if (described || !is_layout(&from, &e))
      take(reader, &from, &e, whole, tags, &used);
  }
  if (used > empty) {
    reader->header.tags = gconv_taken(&tags);
    reader->header.tags_bytes = used;
  }
  return GCONV_OK;
}

/* ---- Descriptions ---------------------------------------------------------------------------------------------------- */

/* Copies text[0 .. length) after out[0 .. *used). */
static void append(char *out, size_t *used, const char *text, size_t length) {
  memcpy(out + *used, text, length);
  *used += length;
  out[*used] = '\0';
}

/* Copies OME's text, with `type` for the type of samples that it names. `out` has room for 16 more bytes. */
static void set_ome_type(const char *text, gconv_type type, char *out) {
  static const char *const names[] = {"uint8", "uint16", "float"};
  static const char attribute[] = " Type=\"";
  const char *pixels = strstr(text, "<Pixels"), *end = pixels ? strchr(pixels, '>') : NULL;
  const char *value = pixels ? strstr(pixels, attribute) : NULL;
  size_t used = 0;
  if (value && value < end) {
    value += sizeof attribute - 1;
    append(out, &used, text, (size_t)(value - text));
    append(out, &used, names[type], strlen(names[type]));
    text = value + strcspn(value, "\"");
  }
  append(out, &used, text, strlen(text));
}

/* Copies ImageJ's text without the range of samples that is shown: another type has another range. */
static void drop_range(const char *text, char *out) {
  size_t used = 0;
  out[0] = '\0';
  while (*text) {
    size_t line = strcspn(text, "\n") + (strchr(text, '\n') != NULL);
    if (strncmp(text, "min=", 4) != 0 && strncmp(text, "max=", 4) != 0)
      append(out, &used, text, line);
    text += line;
  }
}

/* Returns whether OME's text describes a set of several files, and so names files other than this one. */
static bool is_of_several_files(const char *text) {
  static const char begin[] = "UUID=\"";
  const char *own = strstr(text, begin);
  if (strstr(text, "<BinaryOnly"))
    return true;
  own = own ? own + sizeof begin - 1 : "";
  size_t length = strcspn(own, "\"");
  for (const char *at = text, *end; (at = strstr(at, "FileName=\"")); at = end) {
    at = strchr(at, '>');
    end = at ? strstr(at, "</UUID>") : NULL;
    if (!end || (size_t)(end - at - 1) != length || strncmp(at + 1, own, length) != 0)
      return true;
  }
  return false;
}

/* Returns whether tifffile's text has only the shape of the pages. */
static bool is_shape_alone(const char *text) {
  return text[0] == '{' && strchr(text, ':') == strrchr(text, ':');
}

/* Sets the description, changed where the header has another type of samples. */
static gconv_status set_description(TIFF *handle, const gconv_image *header, const shape *its, const char *text) {
  GCONV_FREED char *out = NULL;
  GCONV_ALLOCATE(out, strlen(text) + 16, "a description");
  if (strncmp(text, "ImageJ=", 7) == 0 && its->type != (int32_t)header->type)
    drop_range(text, out);
  else
    set_ome_type(text, header->type, out);
  gconv_tiff.TIFFSetField(handle, TIFFTAG_IMAGEDESCRIPTION, out);
  return GCONV_OK;
}

/* ---- Writing --------------------------------------------------------------------------------------------------------- */

/* Returns whether this kept tag must be made known to libtiff. */
static bool is_own(const known_tag *known) {
  return known->fate == PLACE || known->fate == LAYOUT || known->fate == NUMBER;
}

/* Makes the tags known to libtiff, which forgets them with each directory that it writes. */
static void know_tags(gconv_tiff_file *file) {
  TIFFFieldInfo fields[KNOWN_TAGS];
  uint32_t count = 0;
  for (size_t i = 0; i < KNOWN_TAGS; i++) {
    const known_tag *known = &known_tags[i];
    if (is_own(known))
      fields[count++] = (TIFFFieldInfo){known->first,
                                        TIFF_VARIABLE2,
                                        TIFF_VARIABLE2,
                                        (TIFFDataType)known->type,
                                        FIELD_CUSTOM,
                                        1,
                                        1,
                                        (char *)(uintptr_t)known->name};
  }
  gconv_tiff.TIFFMergeFieldInfo(file->handle, fields, count);
}

static void set_value(TIFF *handle, const record *r, const void *value) {
  gconv_tiff.TIFFSetField(handle, r->tag, r->count, value);
}

/* Sets the text of the number that stands for no data. If the number is the same, the text stays as it was. */
static void set_nodata(TIFF *handle, const gconv_image *header, const char *old) {
  double value = 0;
  char text[GCONV_NODATA_BYTES];
  gconv_image before = {.has_nodata = old && gconv_nodata_read(old, &value)};
  before.nodata = value;
  if (!gconv_nodata_same(&before, header))
    old = gconv_nodata_write(header->nodata, text);
  set_value(handle, &(record){GCONV_TIFF_NODATA, GCONV_TIFF_ASCII, (uint32_t)strlen(old) + 1}, old);
}

typedef struct writing {
  TIFF *handle;
  const gconv_image *header;
  const shape *its;
  bool first, same_size, same_shape;
  bool place, layout, number; /* whether tags of this fate are left out */
  const char *nodata;         /* the number that stands for no data, as the input file had it; NULL: none */
} writing;

/* Sets the tag of a record. *description becomes true if it was the description. */
static gconv_status set_record(writing *w, const record *r, const void *value, bool *description) {
  const known_tag *known = find_tag(r->tag);
  fate what = r->tag == TIFFTAG_IMAGEDESCRIPTION ? LAYOUT : known ? known->fate : OF_FILE;
  if (what == NUMBER)
    w->nodata = value;
  else if (what == PLACE && !w->same_size)
    w->place = true;
  else if (what == LAYOUT && (!w->same_shape || (r->type == GCONV_TIFF_ASCII && is_of_several_files(value))))
    w->layout |= !is_shape_alone(value);
  else if (what == PLACE && (w->first || w->its->pages > 1))
    set_value(w->handle, r, value);
  else if (what == NAME && w->first)
    gconv_tiff.TIFFSetField(w->handle, r->tag, value);
  else if (what == LAYOUT && w->first && r->tag != TIFFTAG_IMAGEDESCRIPTION)
    set_value(w->handle, r, value);
  else if (what == LAYOUT && w->first)
    GCONV_TRY(set_description(w->handle, w->header, w->its, value));
  *description |= what == LAYOUT && w->first && w->same_shape && r->tag == TIFFTAG_IMAGEDESCRIPTION && !w->layout;
  return GCONV_OK;
}

static void tell(const gconv_tiff_file *file, const writing *w) {
  if (w->place)
    gconv_warn_once("places left out", "%s: the place on Earth (GeoTIFF) is left out, as the result has another size",
                    file->name);
  if (w->layout)
    gconv_warn_once("descriptions left out",
                    "%s: the description of spacing and axes (ImageJ, OME) is left out: it is of other sizes, channels or "
                    "pages than the result has, or of a set of files",
                    file->name);
  if (w->number)
    gconv_warn_once("no data left out", "%s: the input's number for no data, '%.30s', is left out", file->name, w->nodata);
}

gconv_status gconv_tiff_write_tags(gconv_tiff_file *file, const gconv_image *header, bool first, bool *description) {
  const uint8_t *tags = header->tags;
  size_t at = 0;
  record r;
  shape its = {0};
  const void *value = tags ? next_record(tags, header->tags_bytes, &at, &r) : NULL;
  *description = false;
  if (value && value_bytes(&r) == sizeof its)
    memcpy(&its, value, sizeof its);
  if (tags || header->has_nodata)
    know_tags(file);
  writing w = {.handle = file->handle, .header = header, .its = &its, .first = first};
  w.same_size = its.width == header->width && its.height == header->height;
  w.same_shape = w.same_size && its.channels == header->channels && its.frames == header->frames;
  while (value && (value = next_record(tags, header->tags_bytes, &at, &r)))
    GCONV_TRY(set_record(&w, &r, value, description));
  if (header->has_nodata)
    set_nodata(file->handle, header, w.nodata);
  w.number = w.nodata && !header->has_nodata;
  if (first)
    tell(file, &w);
  return GCONV_OK;
}
