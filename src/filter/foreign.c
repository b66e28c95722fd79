/* SPDX-License-Identifier: MIT */
/* Recognises files of other kinds that users give as filters, so that the error can help. */
#include "base/element.h"
#include "base/foreign_model.h"
#include "base/zip.h"
#include "filter/text.h"

#include <string.h>

typedef struct foreign {
  const char *start; /* the bytes with which such a file begins */
  size_t size;
  const char *is, *remedy;
} foreign;

#define START(text) (text), sizeof(text) - 1

static const foreign kinds[] = {
    {START("MATLAB 5.0"), "a binary .mat file of MATLAB",
     "save the matrix as text: dlmwrite('filter.txt', h, 'precision', 9)"},
    {START("\x89HDF"), "an HDF5 file, or a .mat file of MATLAB 7.3",
     "save the matrix as text: dlmwrite('filter.txt', h, 'precision', 9)"},
    {START("\x1F\x8B"), "compressed with gzip", "unpack it first"},
    {START("\x89PNG"), "a PNG image, not a filter", "give images with -i"},
    {START("\xFF\xD8\xFF"), "a JPEG image, not a filter", "give images with -i"},
    {START("II*\0"), "a TIFF image, not a filter", "-f takes arrays as .npy or .fits, and gconv deconvolve --psf TIFF, too"},
    {START("MM\0*"), "a TIFF image, not a filter", "-f takes arrays as .npy or .fits, and gconv deconvolve --psf TIFF, too"},
    {START("SIMPLE  ="), "a FITS image, not a filter", "gconv -i IMAGE -f FILE.fits takes it, other commands FILE.npy"},
};

/* Returns whether the first bytes may be text, in any encoding. */
static bool is_text(const gconv_content *content) {
  for (size_t i = 0; i < content->size && i < 256; i++)
    if (content->bytes[i] < 8)
      return false;
  return true;
}

/* Returns whether the file is a pickle of Python, of protocol 2 to 5, as torch.save() wrote it before PyTorch 1.6. */
static bool is_pickle(const gconv_content *content) {
  return content->size > 2 && content->bytes[0] == 0x80 && content->bytes[1] >= 2 && content->bytes[1] <= 5;
}

/* Returns whether the file begins as safetensors do: u64le N, then N bytes of JSON. */
static bool is_safetensors(const gconv_content *content) {
  return content->size > 9 && content->bytes[8] == '{' && gconv_bytes_number(content->bytes, 8, false) <= content->size - 8;
}

/* Returns whether the file is a protobuf whose first field, ir_version, is a small number, and whose next field is a string
 * or a graph. No text begins like this. */
static bool is_onnx(const gconv_content *content) {
  const uint8_t *bytes = content->bytes;
  return content->size > 4 && bytes[0] == 0x08 && bytes[1] > 0 && bytes[1] < 32 &&
         (bytes[2] == 0x12 || bytes[2] == 0x1A || bytes[2] == 0x22 || bytes[2] == 0x3A || bytes[2] == 0x42);
}

/* Returns whether the file is text whose first word, after comments, is "gconv-bank". */
static bool is_bank(const gconv_content *content) {
  gconv_text text = gconv_text_begin(content);
  gconv_field field = {0};
  return gconv_text_find_line(&text) && gconv_text_field(&text, &field) && gconv_field_is(&field, "gconv-bank");
}

gconv_status gconv_refuse_foreign(const gconv_content *content) {
  if (!is_text(content))
    GCONV_TRY(gconv_refuse_foreign_model(content->name));
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (content->size >= kinds[i].size && memcmp(content->bytes, kinds[i].start, kinds[i].size) == 0)
      return gconv_fail(GCONV_UNSUPPORTED, "%s: is %s; %s", content->name, kinds[i].is, kinds[i].remedy);
  if (is_pickle(content))
    return gconv_refuse_torch(content->name);
  if (is_bank(content))
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "%s: is a bank of filters, not plain filters: `gconv -f` takes it, from a pipe with --filter-format bank",
        content->name);
  if (is_safetensors(content) || is_onnx(content))
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: is %s, which holds banks of filters, not plain ones: `gconv -f` takes these, from a pipe with "
                      "--filter-format %s",
                      content->name, is_onnx(content) ? "an ONNX model" : "a safetensors file",
                      is_onnx(content) ? "onnx" : "safetensors");
  return GCONV_OK;
}
