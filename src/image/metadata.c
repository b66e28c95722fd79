/* SPDX-License-Identifier: MIT */
#include "image/metadata.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "image/exif.h"

#include <string.h>

/* ---- Ownership ---- */

void gconv_metadata_lend(gconv_image *to, const gconv_image *from) {
  to->icc = from->icc;
  to->icc_bytes = from->icc_bytes;
  to->pixels_per_metre_x = from->pixels_per_metre_x;
  to->pixels_per_metre_y = from->pixels_per_metre_y;
  to->unitless_x = from->unitless_x;
  to->unitless_y = from->unitless_y;
  to->exif = from->exif;
  to->exif_bytes = from->exif_bytes;
  to->xmp = from->xmp;
  to->xmp_bytes = from->xmp_bytes;
  to->comment = from->comment;
  to->tags = from->tags;
  to->tags_bytes = from->tags_bytes;
  to->jpeg_quality = from->jpeg_quality;
  to->lossless = from->lossless;
}

void gconv_metadata_disown(gconv_image *image) {
  image->icc = image->exif = image->tags = NULL;
  image->xmp = image->comment = NULL;
  image->icc_bytes = image->exif_bytes = image->xmp_bytes = image->tags_bytes = 0;
}

size_t gconv_metadata_bytes(const gconv_image *image) {
  return (image->icc ? image->icc_bytes : 0) + (image->tags ? image->tags_bytes : 0) +
         (image->exif ? image->exif_bytes : 0) + (image->xmp ? image->xmp_bytes : 0) +
         (image->comment ? strlen(image->comment) : 0);
}

gconv_status gconv_metadata_copy(const void *bytes, size_t size, const char *what, void **copy) {
  char *memory;
  GCONV_ALLOCATE(memory, size + 1, what);
  if (size > 0)
    memcpy(memory, bytes, size);
  memory[size] = '\0';
  *copy = memory;
  return GCONV_OK;
}

/* Copies `bytes`; if they are NULL, so is *copy. */
static gconv_status copy_block(const void *bytes, size_t size, const char *what, void **copy) {
  *copy = NULL;
  return bytes ? gconv_metadata_copy(bytes, size, what, copy) : GCONV_OK;
}

gconv_status gconv_image_copy_metadata(gconv_image *to, const gconv_image *from) {
  GCONV_ENDED_BY(gconv_image_free) gconv_image copy = {0};
  void *xmp = NULL, *comment = NULL;
  GCONV_NEED(to, from);
  if (to == from)
    return GCONV_OK;
  gconv_metadata_lend(&copy, from);
  copy.icc = copy.exif = copy.tags = copy.xmp = copy.comment = NULL;
  GCONV_TRY(copy_block(from->icc, from->icc_bytes, "an ICC profile", &copy.icc));
  GCONV_TRY(copy_block(from->exif, from->exif_bytes, "EXIF", &copy.exif));
  GCONV_TRY(copy_block(from->tags, from->tags_bytes, "tags of a TIFF", &copy.tags));
  GCONV_TRY(copy_block(from->xmp, from->xmp_bytes, "XMP", &xmp));
  copy.xmp = xmp;
  GCONV_TRY(copy_block(from->comment, from->comment ? strlen(from->comment) : 0, "a comment", &comment));
  copy.comment = comment;
  gconv_image old = *to;
  old.data = old.left_out = NULL; /* these stay with `to` */
  gconv_metadata_lend(to, &copy);
  copy = old; /* is freed */
  return GCONV_OK;
}

void gconv_image_free(gconv_image *image) {
  if (!image)
    return;
  gconv_release(image->data);
  gconv_release(image->icc);
  gconv_release(image->exif);
  gconv_release(image->tags);
  gconv_release(image->xmp);
  gconv_release(image->comment);
  gconv_release(image->left_out);
  *image = (gconv_image){0};
}

/* ---- From files ---- */

gconv_status gconv_metadata_set_icc(gconv_image *header, const void *bytes, size_t size) {
  GCONV_TRY(gconv_metadata_copy(bytes, size, "an ICC profile", &header->icc));
  header->icc_bytes = size;
  return GCONV_OK;
}

gconv_status gconv_metadata_set_exif(gconv_image *header, const void *bytes, size_t size) {
  if (header->exif)
    return GCONV_OK;
  GCONV_TRY(gconv_metadata_copy(bytes, size, "EXIF", &header->exif));
  header->exif_bytes = size;
  return GCONV_OK;
}

gconv_status gconv_metadata_set_xmp(gconv_image *header, const void *bytes, size_t size) {
  void *copy = NULL;
  while (size > 0 && ((const char *)bytes)[size - 1] == '\0') /* some programs end XMP with zeros */
    size--;
  if (header->xmp || size == 0)
    return GCONV_OK;
  GCONV_TRY(gconv_metadata_copy(bytes, size, "XMP", &copy));
  header->xmp = copy;
  header->xmp_bytes = size;
  return GCONV_OK;
}

/* Zeros at the end, which some programs write, are left out; others become line feeds. */
gconv_status gconv_metadata_add_comment(gconv_image *header, size_t *length, const void *bytes, size_t size) {
  size_t begin = *length > 0 ? *length + 1 : 0;
  while (size > 0 && ((const char *)bytes)[size - 1] == '\0')
    size--;
  if (size == 0)
    return GCONV_OK;
  if (begin == 0 || begin + size + 1 > gconv_room(*length + 1)) {
    char *memory;
    GCONV_ALLOCATE(memory, gconv_room(begin + size + 1), "a comment");
    if (*length > 0)
      memcpy(memory, header->comment, *length);
    gconv_release(header->comment);
    header->comment = memory;
  }
  char *comment = header->comment;
  if (begin > 0)
    comment[*length] = '\n';
  memcpy(comment + begin, bytes, size);
  for (size_t i = begin; i < begin + size; i++)
    comment[i] = comment[i] ? comment[i] : '\n';
  *length = begin + size;
  comment[*length] = '\0';
  return GCONV_OK;
}

void gconv_metadata_set_unitless(gconv_image *header, double x, double y) {
  if (!(x > 0 && y > 0) || (x == 1 && y == 1))
    return;
  header->unitless_x = x;
  header->unitless_y = y;
}

/* ---- Notes ---- */

void gconv_metadata_note(char *note, size_t size, const char *format, va_list arguments) {
  size_t used = strlen(note);
  if (used > 0 && used + 2 < size) {
    memcpy(note + used, "; ", 3);
    used += 2;
  }
  vsnprintf(note + used, size - used, format, arguments);
}

static void add_note(char *note, size_t size, const char *format, ...) GCONV_PRINTF(3, 4);
static void add_note(char *note, size_t size, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  gconv_metadata_note(note, size, format, arguments);
  va_end(arguments);
}

/* ---- XMP ---- */

/* Finds the digit of tiff:Orientation, in an attribute (="6") or an element (>6<); NULL if there is none. */
static char *find_orientation(char *xmp) {
  static const char name[] = "tiff:Orientation", spaces[] = " \t\r\n";
  for (char *at = xmp; (at = strstr(at, name));) {
    at += sizeof name - 1;
    char *value = at + strspn(at, spaces);
    if (*value == '=') {
      value += 1 + strspn(value + 1, spaces);
      if (*value != '"' && *value != '\'')
        continue;
    } else if (*value != '>') {
      continue;
    }
    value += 1 + strspn(value + 1, spaces);
    if (*value >= '1' && *value <= '8' && !(value[1] >= '0' && value[1] <= '9'))
      return value;
  }
  return NULL;
}

/* Removes each part of the text that begins with `begin` and ends with the next `end`. */
static void remove_between(char *text, const char *begin, const char *end) {
  const char *from = text; /* what is kept moves to `to`, each byte once */
  char *to = text, *behind;
  for (const char *found; (found = strstr(from, begin)) && (behind = strstr(found + strlen(begin), end));) {
    memmove(to, from, (size_t)(found - from));
    to += found - from;
    from = behind + strlen(end);
  }
  memmove(to, from, strlen(from) + 1);
}

/* Changes XMP for the upright image, and returns the orientation that XMP had; 0: it had none. */
static int settle_xmp(gconv_image *header, char *note, size_t size) {
  bool text = header->xmp && strlen(header->xmp) == header->xmp_bytes && strchr(header->xmp, '<');
  if (header->xmp && !text) {
    add_note(note, size, "its XMP is damaged and left out: it is not XML");
    gconv_release(header->xmp);
    header->xmp = NULL;
    header->xmp_bytes = 0;
  }
  if (!text)
    return 0;
  char *digit = find_orientation(header->xmp);
  int orientation = digit ? *digit - '0' : 0;
  for (; digit; digit = find_orientation(digit))
    *digit = '1';
  remove_between(header->xmp, "<xmp:Thumbnails>", "</xmp:Thumbnails>");
  remove_between(header->xmp, "<xap:Thumbnails>", "</xap:Thumbnails>");
  remove_between(header->xmp, "xmpNote:HasExtendedXMP=\"", "\"");
  header->xmp_bytes = strlen(header->xmp);
  return orientation;
}

/* ---- EXIF ---- */

static gconv_status settle_exif(gconv_image *header, gconv_exif *exif, char *note, size_t size) {
  GCONV_FREED void *copy = NULL;
  size_t copy_size = 0;
  if (!header->exif)
    return GCONV_OK;
  GCONV_ALLOCATE(copy, gconv_exif_room(header->exif_bytes), "EXIF");
  const char *fault = gconv_exif_read(header->exif, header->exif_bytes, copy, &copy_size, exif);
  if (fault)
    add_note(note, size, "its EXIF is damaged and left out: %s", fault);
  else if (exif->damaged > 0)
    add_note(note, size, "%zu damaged entr%s left out", exif->damaged,
             exif->damaged == 1 ? "y of its EXIF is" : "ies of its EXIF are");
  gconv_release(header->exif);
  header->exif = fault ? NULL : gconv_taken(&copy);
  header->exif_bytes = fault ? 0 : copy_size;
  return GCONV_OK;
}

gconv_status gconv_metadata_settle(gconv_image *header, int *orientation, char *note, size_t size) {
  gconv_exif exif = {0};
  GCONV_TRY(settle_exif(header, &exif, note, size));
  int of_xmp = settle_xmp(header, note, size);
  if (*orientation == 0)
    *orientation = exif.orientation > 0 ? exif.orientation : of_xmp > 0 ? of_xmp : 1;
  if (header->pixels_per_metre_x == 0 && exif.pixels_per_metre_x > 0 && exif.pixels_per_metre_y > 0) {
    header->pixels_per_metre_x = exif.pixels_per_metre_x;
    header->pixels_per_metre_y = exif.pixels_per_metre_y;
  }
  return GCONV_OK;
}
