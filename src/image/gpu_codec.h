/* SPDX-License-Identifier: MIT */
/*
 * Codecs on a GPU: the interface that src/codec_cuda implements, and what files and GPUs hand over to each other. A row in
 * src/gpu_codecs.c names each codec. Without a row, the CPU decodes all JPEGs and makes all PNGs, with the same bits.
 *
 * A JPEG file is decoded on the GPU to the same pixels as by the CPU. A PNG is made on the GPU as strips (png_strip.h), with
 * the same bytes as by the CPU. The GPU leaves strips to the CPU where rows in them repeat each other.
 */
#ifndef GCONV_IMAGE_GPU_CODEC_H
#define GCONV_IMAGE_GPU_CODEC_H

#include "base/both.h"
#include "image/rows.h"

GCONV_C_BEGIN

/* ---- The interface ---- */

/* Memory of a GPU that a codec takes when it wants some: zero-initialise; the data are for the GPU's free() at the end. */
typedef struct gconv_gpu_memory {
  void *data;
  size_t bytes;
} gconv_gpu_memory;

/* A strip of a PNG. */
typedef struct gconv_png_strip {
  uint64_t offset; /* of its chunk, in the bytes that were made */
  uint32_t size;   /* of the chunk, an IDAT from its length to its CRC; 0: it was not made, and is left to the host */
  uint32_t adler;  /* of its lines, beginning with 1 */
  int32_t first_row, rows;
} gconv_png_strip;

/* Makes PNG of one image at a time, all of one shape. */
typedef struct gconv_gpu_png {
  size_t bytes;                  /* of the GPU's memory that it holds */
  const gconv_png_strip *strips; /* on the host, from the top: those of the image that was encoded last */
  size_t strip_count;
  const uint8_t *chunks; /* on the GPU: those of the strips that were made, one behind the other */
} gconv_gpu_png;

/* Decodes JPEG. */
typedef struct gconv_gpu_decoder gconv_gpu_decoder;

/* Images are on the GPU. A stream is one of the GPU's, in which work is queued. All functions are thread-safe where objects
 * are not shared. */
typedef struct gconv_gpu_codec {
  const char *device; /* the type of device that it is for: "cuda" */

  /* NULL, or what keeps all GPUs here from decoding JPEG: "libnvjpeg.so.13 was not found". Static storage. */
  const char *(*obstacle)(void);
  /* The decoder of GPU number `index`. The first call starts it, which takes up to a second; it ends with the process.
   * GCONV_UNSUPPORTED, GCONV_NO_MEMORY. */
  gconv_status (*start_decoder)(int index, gconv_gpu_decoder **decoder);
  /* How many calls of the decoder come before that for a file that comes now. Thread-safe. */
  int (*backlog)(gconv_gpu_decoder *decoder);
  /* Decodes a file into an image of interleaved RGB of u8, whose rows begin at multiples of 16 bytes. The pixels are there
   * once the stream has come to it. Threads may share the decoder, with a `room` each. GCONV_BAD_FILE if the decoder refuses
   * the file, or it is not of the size of the image; GCONV_UNSUPPORTED for files that gconv_row_reader_jpeg() does not
   * yield. */
  gconv_status (*decode)(gconv_gpu_decoder *decoder, gconv_gpu_memory *room, const void *jpeg, size_t size,
                         const gconv_image *image, void *stream);

  /* The bytes that an encoder takes of the GPU's memory for images like this: about 2.2 times the image. 0: no encoder may
   * be made for such images. */
  size_t (*png_bytes)(const gconv_image *image);
  /* An encoder on the current device, with all the memory that it will need. GCONV_NO_MEMORY; GCONV_UNSUPPORTED if its bytes
   * are not the CPU's. */
  gconv_status (*create_png)(const gconv_image *shape, gconv_gpu_png **png);
  void (*free_png)(gconv_gpu_png *png); /* NULL is allowed */
  /* Queues making the strips of the image. Pixels and encoder are in use until the stream has come to the end of it. */
  gconv_status (*encode_png)(gconv_gpu_png *png, const gconv_image *image, void *stream);
} gconv_gpu_codec;

/* The codec for a type of device; NULL if this build has none. */
const gconv_gpu_codec *gconv_gpu_codec_of(const char *device);

/* ---- Between files and GPUs ---- */

/* The file itself, for a decoder: *jpeg, of *size bytes, is the caller's, for free(). Rows can be read all the same.
 * GCONV_UNSUPPORTED says why a GPU does not decode it: GPUs take JPEGs of 8 bits, sequential, in one scan, in colour
 * (YCbCr), that EXIF does not turn. */
gconv_status gconv_row_reader_jpeg(gconv_row_reader *reader, void **jpeg, size_t *size);
/* Whether the header allows gconv_row_reader_jpeg(), which may still find that the data are damaged. */
bool gconv_row_reader_may_be_jpeg(const gconv_row_reader *reader);

/* The next rows of an image: as samples, or as the bytes that they become in its file. */
typedef struct gconv_part {
  int32_t count;       /* rows */
  const void *samples; /* row_bytes apart; NULL: bytes come in their place */
  size_t row_bytes;
  const void *above; /* samples of the row above, where that came as bytes; else NULL */
  const void *bytes; /* for the file, `size` of them; the rows are those that end with these, possibly none */
  size_t size;
  uint32_t adler; /* of such rows, if any: Adler-32 of them as they are filtered */
} gconv_part;

/* As gconv_row_writer_write(). Bytes are for PNG of level 1 alone: IDAT chunks of whole strips, gconv_row_writer_step() rows
 * each but for the last. */
gconv_status gconv_row_writer_write_part(gconv_row_writer *writer, const gconv_part *part);

/* A receiver of results, which come from a device in parts. */
typedef struct gconv_taker {
  /* Called once, when nothing but transfers can fail any more. Returns how many rows take() wants at a time: it gets so
   * many, or a multiple of them, unless that is more than the device's buffers hold. */
  int32_t (*begin)(void *user);
  /* Gets the parts of each output, from the top. The memory of a part is the device's again when take() returns. */
  void (*take)(void *user, size_t output, const gconv_part *part);
  void *user; /* what both get */
  bool png;   /* parts may be what rows become in a PNG of level 1, as far as the device makes that; false: rows alone */
} gconv_taker;

GCONV_C_END
#endif
