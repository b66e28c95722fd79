/* SPDX-License-Identifier: MIT */
/* Finds what a page of a TIFF holds, by its tags, and how the page is read. */
#include "base/nodata.h"
#include "image/directory.h"
#include "image/metadata.h"
#include "image/tiff.h"

#include <math.h>
#include <stdio.h>

enum {
  LARGE_STRIP = 4 << 20, /* bytes: larger strips are decoded line by line */
  MOST_BLOCK = 1 << 30,  /* bytes */
  COLOURS_OF_PALETTE = 256
};

/* Tags of a page. Tags that the file leaves out have their default. */
typedef struct tags {
  uint32_t width, height, depth, block_width, block_height;
  uint16_t planes, orientation;
  uint16_t extra_count, *extra;
} tags;

static const char *name_of_compression(uint16_t compression) {
  static const struct {
    uint16_t number;
    const char *name;
  } names[] = {{COMPRESSION_NONE, "none"},
               {COMPRESSION_CCITTRLE, "CCITT RLE"},
               {COMPRESSION_CCITTFAX3, "CCITT G3"},
               {COMPRESSION_CCITTFAX4, "CCITT G4"},
               {COMPRESSION_LZW, "LZW"},
               {COMPRESSION_OJPEG, "old JPEG"},
               {COMPRESSION_JPEG, "JPEG"},
               {COMPRESSION_ADOBE_DEFLATE, "Deflate"},
               {COMPRESSION_DEFLATE, "Deflate"},
               {COMPRESSION_PACKBITS, "PackBits"},
               {34661, "JBIG"},
               {34712, "JPEG 2000"},
               {34887, "LERC"},
               {34933, "PNG"},
               {34934, "JPEG XR"},
               {34925, "LZMA"},
               {50000, "ZSTD"},
               {50001, "WebP"},
               {50002, "JPEG XL"},
               {7, "JPEG"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (names[i].number == compression)
      return names[i].name;
  return "an unknown kind";
}

/* ---- Samples ---- */

/* Finds the type of the image's samples, and the kind of the file's samples. */
static gconv_status find_type(gconv_tiff_file *file, gconv_tiff_page *page) {
  uint16_t bits = page->bits;
  bool level = page->format == SAMPLEFORMAT_UINT || page->format == SAMPLEFORMAT_VOID;
  bool is_float = page->format == SAMPLEFORMAT_IEEEFP, is_signed = page->format == SAMPLEFORMAT_INT;
  if (level && bits >= 1 && bits <= 16) {
    page->header.type = bits <= 8 ? GCONV_U8 : GCONV_U16;
    page->kind = bits == 8 || bits == 16 ? GCONV_TIFF_DIRECT : GCONV_TIFF_BITS;
    return GCONV_OK;
  }
  page->header.type = GCONV_F32;
  page->kind = is_float && bits == 32 ? GCONV_TIFF_DIRECT : GCONV_TIFF_NUMBERS;
  if ((is_float && (bits == 16 || bits == 32 || bits == 64)) || ((level || is_signed) && (bits == 32 || bits == 64)) ||
      (is_signed && (bits == 8 || bits == 16)))
    return GCONV_OK;
  char what[80];
  snprintf(what, sizeof what, "%s of %d bits",
           is_float    ? "floating-point samples"
           : level     ? "unsigned samples"
           : is_signed ? "signed samples"
                       : "complex samples",
           bits);
  return gconv_tiff_refuse(file, what);
}

/* Finds what the samples after the colours are. */
static gconv_status find_extra(gconv_tiff_file *file, const tags *t, int colours, gconv_tiff_page *page) {
  int extra = page->samples - colours;
  gconv_image *header = &page->header;
  if (extra > 0 && (colours == 4 || page->photometric == PHOTOMETRIC_PALETTE))
    return gconv_tiff_refuse(file, colours == 4 ? "CMYK with further samples" : "a palette with further samples");
  if (page->samples > 4)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: a TIFF of %d samples a pixel; 1 to 4 are read: save the channels one by one, or as a .npy array "
                      "(numpy.save of 1 x C x H x W)",
                      file->name, page->samples);
  header->alpha = extra == 1 && t->extra_count >= 1 && t->extra[0] != EXTRASAMPLE_UNSPECIFIED;
  if (header->alpha && t->extra[0] == EXTRASAMPLE_ASSOCALPHA && page->colour == GCONV_TIFF_INVERTED)
    return gconv_tiff_refuse(file, "grey whose white is 0, and that was multiplied by alpha");
  if (header->alpha && t->extra[0] == EXTRASAMPLE_ASSOCALPHA)
    page->colour = GCONV_TIFF_PREMULTIPLIED;
  return GCONV_OK;
}

static gconv_status read_palette(gconv_tiff_file *file, gconv_tiff_page *page) {
  uint16_t *maps[3];
  if (page->bits > 8 || page->kind == GCONV_TIFF_NUMBERS || page->format == SAMPLEFORMAT_IEEEFP)
    return gconv_tiff_refuse(file, "a palette of more than 256 colours");
  if (!gconv_tiff.TIFFGetField(file->handle, TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]))
    return gconv_fail(GCONV_BAD_FILE, "%s: damaged TIFF: its palette is missing", file->name);
  int count = 1 << page->bits;
  bool small = true; /* some programs write 8 bits, where 16 are demanded */
  for (int i = 0; i < 3 * count; i++)
    small &= maps[i / count][i % count] < 256;
  for (int i = 0; i < count; i++)
    for (int c = 0; c < 3; c++)
      page->palette[3 * i + c] = (uint8_t)(small ? maps[c][i] : maps[c][i] >> 8);
  page->kind = page->bits == 8 ? GCONV_TIFF_DIRECT : GCONV_TIFF_BITS;
  return GCONV_OK;
}

static bool is_cmyk(gconv_tiff_file *file) {
  uint16_t inks = INKSET_CMYK;
  gconv_tiff.TIFFGetFieldDefaulted(file->handle, TIFFTAG_INKSET, &inks);
  return inks == INKSET_CMYK;
}

/* Leaves colours to libtiff, which makes 8-bit RGB of them. */
static gconv_status leave_colours(gconv_tiff_file *file, gconv_tiff_page *page) {
  char why[1024] = "";
  if (page->compression != COMPRESSION_OJPEG && page->bits != 8)
    return gconv_tiff_refuse(file, "YCbCr or CIELab of other than 8 bits");
  if (!gconv_tiff.TIFFRGBAImageOK(file->handle, why)) {
    char what[1200];
    snprintf(what, sizeof what, "colours that libtiff cannot convert (%s)", why);
    return gconv_tiff_refuse(file, what);
  }
  page->way = GCONV_TIFF_COLOURS;
  page->header.type = GCONV_U8;
  page->header.channels = 3;
  return GCONV_OK;
}

static gconv_status find_colours(gconv_tiff_file *file, const tags *t, gconv_tiff_page *page) {
  gconv_image *header = &page->header;
  int colours = 1;
  GCONV_TRY(find_type(file, page));
  header->channels = page->samples;
  switch (page->photometric) {
  case PHOTOMETRIC_MINISWHITE:
    page->colour = page->header.type == GCONV_F32 ? GCONV_TIFF_PLAIN : GCONV_TIFF_INVERTED;
    break;
  case PHOTOMETRIC_MINISBLACK:
  case PHOTOMETRIC_MASK:
    break;
  case PHOTOMETRIC_RGB:
    colours = 3;
    break;
  case PHOTOMETRIC_PALETTE:
    page->colour = GCONV_TIFF_PALETTE;
    GCONV_TRY(read_palette(file, page));
    header->channels = 3;
    break;
  case PHOTOMETRIC_SEPARATED:
    if (!is_cmyk(file) || page->samples < 4 || page->kind != GCONV_TIFF_DIRECT || header->type == GCONV_F32)
      return gconv_tiff_refuse(file, "inks that are not CMYK of 8 or 16 bits");
    page->colour = GCONV_TIFF_CMYK;
    header->channels = 3;
    colours = 4;
    break;
  case PHOTOMETRIC_YCBCR:
    if (page->compression != COMPRESSION_JPEG || page->separate || page->samples != 3)
      return leave_colours(file, page);
    colours = 3; /* libtiff makes RGB of it: gconv_tiff_prepare() */
    break;
  case PHOTOMETRIC_CIELAB:
    return leave_colours(file, page);
  default:
    return gconv_tiff_refuse(file, page->photometric == 32803                                 ? "raw camera data (CFA)"
                                   : page->photometric == 32844 || page->photometric == 32845 ? "LogLuv colours"
                                                                                              : "unknown colours");
  }
  if (page->samples < colours)
    return gconv_fail(GCONV_BAD_FILE, "%s: damaged TIFF: %d samples a pixel, where its colours have %d", file->name,
                      page->samples, colours);
  if (page->compression == COMPRESSION_OJPEG)
    return leave_colours(file, page);
  return find_extra(file, t, colours, page);
}

/* ---- Blocks ---- */

/* Returns the most bytes that a byte of a file can become with this compression. Where no bound is known, it is 65536. */
static uint64_t most_expansion(uint16_t compression) {
  switch (compression) {
  case COMPRESSION_NONE:
    return 1;
  case COMPRESSION_PACKBITS:
    return 64;
  case COMPRESSION_ADOBE_DEFLATE:
  case COMPRESSION_DEFLATE:
    return 1032;
  case COMPRESSION_LZW:
    return 4096;
  default:
    return 1 << 16;
  }
}

/* Refuses files that are too short for the pixels that their header promises, before memory is taken for the pixels. */
static gconv_status check_promise(const gconv_tiff_file *file, const gconv_tiff_page *page) {
  size_t factors[] = {(size_t)page->header.width, (size_t)page->header.height, page->samples, page->bits};
  uint64_t bytes = gconv_checked_product(4, factors) / 8, most = most_expansion(page->compression);
  if (page->holes) { /* the file has places and lengths of all blocks, but perhaps no pixels */
    bytes = (uint64_t)page->row_bytes * (uint64_t)page->height;
    most = 1 << 16;
  }
  if (page->way == GCONV_TIFF_COLOURS || bytes / most <= file->end)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early: its header promises %llu bytes of pixels", file->name,
                    (unsigned long long)bytes);
}

/* Returns whether a strip or tile of the page is left out. Pages with more of them than the file can list are refused. */
static bool has_holes(const gconv_tiff_file *file, const gconv_tiff_page *page) {
  const uint64_t planes = page->separate ? page->samples : 1;
  const uint64_t blocks = (uint64_t)page->across * (uint64_t)page->down * planes;
  for (uint64_t i = 0; i < blocks && blocks <= file->end; i++)
    if (gconv_tiff_is_hole(file, (uint32_t)i))
      return true;
  return false;
}

bool gconv_tiff_is_hole(const gconv_tiff_file *file, uint32_t block) {
  return gconv_tiff.TIFFGetStrileByteCount(file->handle, block) == 0 &&
         gconv_tiff.TIFFGetStrileOffset(file->handle, block) == 0;
}

static gconv_status find_blocks(gconv_tiff_file *file, const tags *t, gconv_tiff_page *page) {
  const gconv_image *header = &page->header;
  uint32_t width = t->block_width, height = t->block_height;
  if (!page->tiled) {
    width = t->width;
    height = height == 0 || height > t->height ? t->height : height;
  }
  uint64_t samples = (uint64_t)width * (page->separate ? 1 : page->samples), row_bytes = (samples * page->bits + 7) / 8;
  if (width < 1 || height < 1 || width > INT32_MAX || height > INT32_MAX || row_bytes > MOST_BLOCK)
    return gconv_fail(GCONV_BAD_FILE, "%s: damaged TIFF: strips or tiles of %u x %u pixels", file->name, width, height);
  page->width = (int32_t)width;
  page->height = (int32_t)height;
  page->across = (header->width - 1) / page->width + 1;
  page->down = (header->height - 1) / page->height + 1;
  page->row_bytes = (size_t)row_bytes;
  page->holes = has_holes(file, page);
  bool stored = page->compression == COMPRESSION_NONE && !page->reversed;
  bool deflated =
      (page->compression == COMPRESSION_ADOBE_DEFLATE || page->compression == COMPRESSION_DEFLATE) && !page->reversed;
  bool whole_bytes = page->bits == 8 || page->bits == 16 || page->bits == 32 || page->bits == 64;
  bool known = page->predictor == PREDICTOR_NONE || (page->predictor == PREDICTOR_HORIZONTAL && page->bits <= 32) ||
               (page->predictor == PREDICTOR_FLOATINGPOINT && page->bits == 32);
  page->own =
      page->way != GCONV_TIFF_COLOURS && ((stored && (whole_bytes || page->bits < 8)) || (deflated && whole_bytes && known));
  if (page->way == GCONV_TIFF_COLOURS)
    return row_bytes * height <= MOST_BLOCK ? GCONV_OK : gconv_tiff_refuse(file, "strips or tiles of more than a gigabyte");
  if (!page->tiled && page->own && stored && !page->holes)
    page->way = GCONV_TIFF_STORED;
  else if (!page->tiled && row_bytes * height > LARGE_STRIP)
    page->way = GCONV_TIFF_LINES;
  else
    page->way = GCONV_TIFF_BLOCKS;
  if (page->way == GCONV_TIFF_BLOCKS && row_bytes * height > MOST_BLOCK)
    return gconv_tiff_refuse(file, "tiles of more than a gigabyte");
  gconv_tiff_prepare(file, page);
  uint64_t its_own = page->tiled ? gconv_tiff.TIFFTileRowSize64(file->handle) : gconv_tiff.TIFFScanlineSize64(file->handle);
  if (its_own != row_bytes)
    return gconv_tiff_refuse(file, "an uncommon layout of samples");
  return GCONV_OK;
}

void gconv_tiff_prepare(gconv_tiff_file *file, const gconv_tiff_page *page) {
  if (page->compression == COMPRESSION_JPEG && page->photometric == PHOTOMETRIC_YCBCR && page->way != GCONV_TIFF_COLOURS)
    gconv_tiff.TIFFSetField(file->handle, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  if (page->way == GCONV_TIFF_COLOURS) /* without this, libtiff would rotate some images */
    gconv_tiff.TIFFSetField(file->handle, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
}

/* ---- All tags ---- */

static void find_resolution(gconv_tiff_file *file, gconv_image *header) {
  float x = 0, y = 0;
  uint16_t unit = RESUNIT_INCH;
  gconv_tiff.TIFFGetFieldDefaulted(file->handle, TIFFTAG_RESOLUTIONUNIT, &unit);
  double metre = unit == RESUNIT_INCH ? 1 / 0.0254 : unit == RESUNIT_CENTIMETER ? 100 : 0;
  if (!gconv_tiff.TIFFGetField(file->handle, TIFFTAG_XRESOLUTION, &x) ||
      !gconv_tiff.TIFFGetField(file->handle, TIFFTAG_YRESOLUTION, &y) || !(x > 0 && y > 0) || !isfinite(x) || !isfinite(y))
    return;
  if (metre == 0)
    gconv_metadata_set_unitless(header, (double)x, (double)y);
  header->pixels_per_metre_x = x * metre;
  header->pixels_per_metre_y = y * metre;
}

static bool read_nodata(const gconv_tiff_file *file, double *value) {
  char text[64] = "";
  gconv_tiff_origin from;
  gconv_tiff_entry e;
  return gconv_tiff_find_origin(file->source, &from) &&
         gconv_tiff_find_entry(&from, gconv_tiff.TIFFCurrentDirOffset(file->handle), GCONV_TIFF_NODATA, &e) &&
         e.type == GCONV_TIFF_ASCII && e.bytes < sizeof text && gconv_tiff_fetch(&from, e.value, text, e.bytes) &&
         gconv_nodata_read(text, value);
}

/* Finds the number that stands for no data, converted as the samples are. Colours that are converted have no such number. */
static void find_nodata(gconv_tiff_file *file, gconv_tiff_page *page) {
  gconv_image *header = &page->header;
  bool made = page->colour == GCONV_TIFF_PALETTE || page->colour == GCONV_TIFF_CMYK ||
              page->colour == GCONV_TIFF_PREMULTIPLIED || page->way == GCONV_TIFF_COLOURS;
  double white = header->type == GCONV_U8 ? UINT8_MAX : UINT16_MAX, most = (double)((UINT64_C(1) << page->bits % 64) - 1);
  header->has_nodata = !made && read_nodata(file, &header->nodata);
  if (!header->has_nodata)
    header->nodata = 0;
  if (page->kind == GCONV_TIFF_BITS && header->nodata >= 0 && header->nodata <= most)
    header->nodata = floor(header->nodata * white / most + 0.5);
  if (page->colour == GCONV_TIFF_INVERTED && header->nodata >= 0 && header->nodata <= white)
    header->nodata = white - header->nodata;
}

static void read_tags(gconv_tiff_file *file, tags *t, gconv_tiff_page *page) {
  TIFF *handle = file->handle;
  uint16_t fill_order = FILLORDER_MSB2LSB;
  *t = (tags){.planes = PLANARCONFIG_CONTIG, .orientation = ORIENTATION_TOPLEFT};
  *page = (gconv_tiff_page){
      .bits = 1, .samples = 1, .format = SAMPLEFORMAT_UINT, .compression = COMPRESSION_NONE, .predictor = PREDICTOR_NONE};
  gconv_tiff.TIFFGetField(handle, TIFFTAG_IMAGEWIDTH, &t->width);
  gconv_tiff.TIFFGetField(handle, TIFFTAG_IMAGELENGTH, &t->height);
  gconv_tiff.TIFFGetField(handle, TIFFTAG_IMAGEDEPTH, &t->depth);
  gconv_tiff.TIFFGetFieldDefaulted(handle, TIFFTAG_BITSPERSAMPLE, &page->bits);
  gconv_tiff.TIFFGetFieldDefaulted(handle, TIFFTAG_SAMPLESPERPIXEL, &page->samples);
  gconv_tiff.TIFFGetFieldDefaulted(handle, TIFFTAG_SAMPLEFORMAT, &page->format);
  gconv_tiff.TIFFGetFieldDefaulted(handle, TIFFTAG_COMPRESSION, &page->compression);
  gconv_tiff.TIFFGetFieldDefaulted(handle, TIFFTAG_PLANARCONFIG, &t->planes);
  gconv_tiff.TIFFGetFieldDefaulted(handle, TIFFTAG_FILLORDER, &fill_order);
  gconv_tiff.TIFFGetFieldDefaulted(handle, TIFFTAG_ORIENTATION, &t->orientation);
  gconv_tiff.TIFFGetFieldDefaulted(handle, TIFFTAG_EXTRASAMPLES, &t->extra_count, &t->extra);
  if (!gconv_tiff.TIFFGetField(handle, TIFFTAG_PHOTOMETRIC, &page->photometric))
    page->photometric = page->samples >= 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
  page->tiled = gconv_tiff.TIFFIsTiled(handle);
  gconv_tiff.TIFFGetField(handle, page->tiled ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP, &t->block_height);
  if (page->tiled)
    gconv_tiff.TIFFGetField(handle, TIFFTAG_TILEWIDTH, &t->block_width);
  page->separate = t->planes == PLANARCONFIG_SEPARATE && page->samples > 1;
  page->swapped = gconv_tiff.TIFFIsByteSwapped(handle);
  page->reversed = fill_order == FILLORDER_LSB2MSB;
  page->orientation = t->orientation >= 1 && t->orientation <= 8 ? t->orientation : 1;
}

gconv_status gconv_tiff_look(gconv_tiff_file *file, gconv_tiff_page *page) {
  tags t;
  read_tags(file, &t, page);
  if (t.width < 1 || t.height < 1 || t.width > INT32_MAX || t.height > INT32_MAX)
    return gconv_fail(GCONV_BAD_FILE, "%s: a TIFF of %u x %u pixels: each must be 1 to 2^31 - 1", file->name, t.width,
                      t.height);
  if (t.depth > 1)
    return gconv_tiff_refuse(file, "a volume in one page (ImageDepth), and not of a page for each plane");
  if (!gconv_tiff.TIFFIsCODECConfigured(page->compression))
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: compressed by %s (%d), which this libtiff does not read: save it again with another compression",
                      file->name, name_of_compression(page->compression), page->compression);
  bool predicts = page->compression == COMPRESSION_LZW || page->compression == COMPRESSION_ADOBE_DEFLATE ||
                  page->compression == COMPRESSION_DEFLATE; /* for other compressions, libtiff itself reads this tag */
  if (predicts)
    gconv_tiff.TIFFGetField(file->handle, TIFFTAG_PREDICTOR, &page->predictor);
  page->header.frames = 1;
  page->header.width = (int32_t)t.width;
  page->header.height = (int32_t)t.height;
  GCONV_TRY(find_colours(file, &t, page));
  GCONV_TRY(find_blocks(file, &t, page));
  find_resolution(file, &page->header);
  find_nodata(file, page);
  return check_promise(file, page);
}
