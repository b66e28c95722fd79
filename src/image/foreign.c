/* SPDX-License-Identifier: MIT */
/* Recognises files of kinds that gconv does not read. Says what kind a file is, and which command converts it to one that is
 * read. The command keeps all that the file has: 16 bits, and values brighter than white. */
#include "image/format.h"

#include <string.h>

typedef struct foreign {
  const char *name; /* with its article */
  size_t offset, length;
  const char *bytes; /* `length` bytes, at `offset` of such a file */
  const char *remedy;
} foreign;

#define FIRST "convert it first: "
#define CONVERT FIRST "convert IN OUT.png (ImageMagick)"
#define FRAMES FIRST "convert IN -coalesce OUT.png (ImageMagick), a file a picture"
#define VIDEO "take pictures out of it first: ffmpeg -i IN OUT_%05d.png"
#define HEIF "this gconv was built without libheif; " FIRST "heif-convert IN OUT.png (libheif)"
#define AVIF "this gconv was built without libheif; " FIRST "avifdec IN OUT.png (libavif)"
#define JPEG_XL                                                                                                             \
  "this gconv was built without libjxl; " FIRST "djxl IN OUT.png, or OUT.pfm for what is brighter than white (libjxl)"
#define BRIGHT                                                                                                              \
  "it may be brighter than white, which PNG has not: vips copy IN OUT.tif (libvips) makes floats of it, and clips nothing"
#define RAW "develop it first: dcraw -6 -T -w IN, which makes a TIFF of 16 bits, or with darktable or RawTherapee"
#define WITHOUT_OPENEXR "this gconv was built without OpenEXR; " BRIGHT
#define WITHOUT_LIBTIFF "this gconv was built without libtiff; " CONVERT
#define WITHOUT_LIBWEBP "this gconv was built without libwebp; " CONVERT
#define SAVE(from) "save its array by Python: numpy.save('OUT.npy', " from ")"

static const foreign known[] = {
    {"a GIF file", 0, 4, "GIF8", FRAMES},
    {"a WebP file", 8, 4, "WEBP", WITHOUT_LIBWEBP},
    {"a video", 8, 4, "AVI ", VIDEO},
    {"a video", 0, 4, "\x1a\x45\xdf\xa3", VIDEO},
    {"an icon", 0, 4, "\0\0\1\0", CONVERT},
    {"a DDS file", 0, 4, "DDS ", CONVERT},
    {"a QOI file", 0, 4, "qoif", FIRST "ffmpeg -i IN OUT.png"},
    {"a TIFF file", 0, 4, "II*\0", WITHOUT_LIBTIFF},
    {"a TIFF file", 0, 4, "MM\0*", WITHOUT_LIBTIFF},
    {"a BigTIFF file", 0, 4, "II+\0", WITHOUT_LIBTIFF},
    {"a BigTIFF file", 0, 4, "MM\0+", WITHOUT_LIBTIFF},
    {"a HEIC file", 4, 6, "ftyphe", HEIF},
    {"a HEIC file", 4, 8, "ftypmif1", HEIF},
    {"a HEIC file", 4, 8, "ftypmsf1", HEIF},
    {"an AVIF file", 4, 7, "ftypavi", AVIF},
    {"a raw photo (CR3)", 4, 7, "ftypcrx", "develop it first, with darktable or RawTherapee"},
    {"a video", 4, 4, "ftyp", VIDEO},
    {"a raw photo (RAF)", 0, 8, "FUJIFILM", RAW},
    {"a raw photo (RW2)", 0, 4, "IIU\0", RAW},
    {"a raw photo (ORF)", 0, 4, "IIRO", RAW},
    {"a raw photo (X3F)", 0, 4, "FOVb", RAW},
    {"a JPEG XL file", 0, 2, "\xff\x0a", JPEG_XL},
    {"a JPEG XL file", 4, 4, "JXL ", JPEG_XL},
    {"a JPEG 2000 file", 4, 4, "jP  ", FIRST "opj_decompress -i IN -o OUT.tif (OpenJPEG)"},
    {"a JPEG 2000 stream", 0, 4, "\xff\x4f\xff\x51", FIRST "opj_decompress -i IN.j2k -o OUT.tif (OpenJPEG)"},
    {"a PDF file", 0, 5, "%PDF-", FIRST "pdftoppm -r 300 -png IN OUT (poppler), a file a page"},
    {"a PostScript file", 0, 4, "%!PS", FIRST "gs -sDEVICE=png16m -r300 -o OUT_%d.png IN (Ghostscript)"},
    {"an OpenEXR file", 0, 4, "\x76\x2f\x31\x01", WITHOUT_OPENEXR},
    {"a Photoshop file", 0, 4, "8BPS", FIRST "convert 'IN[0]' OUT.tif (ImageMagick), the picture of all layers"},
    {"a GIMP file", 0, 8, "gimp xcf", "export it from GIMP as PNG, or as TIFF if it has floats"},
    {"an SVG or XML file", 0, 1, "<", "draw it first, if it is SVG: rsvg-convert -o OUT.png IN (librsvg)"},
    {"a DICOM file", 128, 4, "DICM", SAVE("pydicom.dcmread('IN').pixel_array")},
    {"a NIfTI header", 344, 3, "ni1", "its numbers are in the .img beside it: " SAVE("nibabel.load('IN').get_fdata().T")},
    {"an HDF5 file", 0, 4, "\x89HDF", SAVE("h5py.File('IN')['NAME'][()]")},
    {"a NetCDF file", 0, 3, "CDF", SAVE("xarray.open_dataset('IN')['NAME'].values")},
    {"a .mat file of MATLAB", 0, 10, "MATLAB 5.0", SAVE("scipy.io.loadmat('IN')['NAME']")},
    {"a .mat file of MATLAB", 0, 10, "MATLAB 7.3", SAVE("h5py.File('IN')['NAME'][()].T")},
};

static const foreign *find_foreign(const uint8_t *bytes, size_t size) {
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (size >= known[i].offset + known[i].length && memcmp(bytes + known[i].offset, known[i].bytes, known[i].length) == 0)
      return &known[i];
  return NULL;
}

gconv_status gconv_fail_unknown(const char *name, const uint8_t *bytes, size_t size) {
  if (size == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: the file is empty", name);
  char list[256];
  gconv_formats_list(list, sizeof list);
  const foreign *kind = find_foreign(bytes, size);
  if (kind)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: %s, which is not read here (only %s): %s", name, kind->name, list,
                      kind->remedy);
  return gconv_fail(GCONV_BAD_FILE, "%s: not an image of a known format (%s)", name, list);
}
