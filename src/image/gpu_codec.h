/* SPDX-License-Identifier: MIT */
/*
 * Codecs on a GPU: the interface that src/codec_cuda implements, and what files and GPUs hand over to each other. A row in
 * src/gpu_codecs.c names each codec. Without a row, the CPU decodes all JPEGs and makes all PNGs, with the same bits.
 *
 * A JPEG file is decoded on the GPU to the same pixels as by the CPU. A PNG is made on the GPU as strips (png_strip.h), with
 * the same bytes as by the CPU. The GPU leaves strips whose rows repeat each other to the CPU.
 */
#pragma once

#include "base/both.h"
#include "image/rows.h"

GCONV_C_BEGIN

/* ---- The interface ---- */

/* GPU memory that a codec takes when it first needs it. Initialise with zeros; free `data` by the GPU's free(). */
typedef struct gconv_gpu_memory {
  void *data;
  size_t bytes;
} gconv_gpu_memory;

/* A strip of a PNG. */
typedef struct gconv_png_strip {
  uint64_t offset; /* where its chunk begins, from gconv_gpu_png.chunks on */
  uint32_t size;  /* bytes of the chunk, an IDAT from its length to its CRC; 0: the GPU did not make it, and leaves it to the
                     CPU */
  uint32_t adler; /* Adler-32 of its filtered lines, beginning with 1 */
  int32_t first_row, rows;
} gconv_png_strip;

/* Makes PNGs of images of one shape, one image at a time. */
typedef struct gconv_gpu_png {
  size_t bytes;                  /* bytes of GPU memory that it holds */
  const gconv_png_strip *strips; /* on the host: the strips of the image that was encoded last, from the top */
  size_t strip_count;
  const uint8_t *chunks; /* on the GPU: the chunks of the strips that were made, one after the other */
} gconv_gpu_png;

/* Decodes JPEG. */
typedef struct gconv_gpu_decoder gconv_gpu_decoder;

/* Images lie in GPU memory. A stream is a queue of work of the GPU. Functions are thread-safe if threads share no object. */
typedef struct gconv_gpu_codec {
  const char *device; /* the type of device that it is for: "cuda" */

  /* Returns NULL, or why no GPU of this machine decodes JPEG: "libnvjpeg.so.13 was not found". Static storage. */
  const char *(*obstacle)(void);
  /* Sets *decoder to the decoder of GPU number `index`. The first call starts it, which takes up to a second; it lives as
   * long as the process. GCONV_UNSUPPORTED, GCONV_NO_MEMORY. */
  gconv_status (*start_decoder)(int index, gconv_gpu_decoder **decoder);
  /* Returns how many calls of the decoder would be served before the call for a new file. Thread-safe. */
  int (*backlog)(gconv_gpu_decoder *decoder);
  /* Decodes a file into an image of interleaved RGB of u8, whose rows begin at multiples of 16 bytes. The pixels are there
   * once the stream has done this work. Threads may share the decoder, with a `room` each. GCONV_BAD_FILE if the decoder
   * refuses the file, or it is not of the size of the image; GCONV_UNSUPPORTED for files that gconv_row_reader_jpeg() does
   * not yield. */
  gconv_status (*decode)(gconv_gpu_decoder *decoder, gconv_gpu_memory *room, const void *jpeg, size_t size,
                         const gconv_image *image, void *stream);

  /* Returns the bytes of GPU memory that an encoder takes for images like this: about 2.2 times the image. 0: no encoder may
   * be made for such images. */
  size_t (*png_bytes)(const gconv_image *image);
  /* Makes an encoder on the current device, with all the memory that it will need. GCONV_NO_MEMORY; GCONV_UNSUPPORTED if it
   * would make other bytes than the CPU. */
  gconv_status (*create_png)(const gconv_image *shape, gconv_gpu_png **png);
  void (*free_png)(gconv_gpu_png *png); /* NULL is allowed */
  /* Queues the work that makes the strips of the image. Pixels and encoder are in use until the stream has done it. */
  gconv_status (*encode_png)(gconv_gpu_png *png, const gconv_image *image, void *stream);
} gconv_gpu_codec;

/* Returns the codec for a type of device; NULL if this build has none. */
const gconv_gpu_codec *gconv_gpu_codec_of(const char *device);

/* ---- Between files and GPUs ---- */

/* Reads all bytes of the file, for a decoder: *jpeg, of *size bytes, is the caller's, for free(). Rows can still be read
 * afterwards. GCONV_UNSUPPORTED says why a GPU does not decode it: GPUs take JPEGs of 8 bits, sequential, in one scan, in
 * colour (YCbCr), that EXIF does not rotate. */
gconv_status gconv_row_reader_jpeg(gconv_row_reader *reader, void **jpeg, size_t *size);
/* Returns whether the header allows gconv_row_reader_jpeg(), which may still find that the data are damaged. */
bool gconv_row_reader_may_be_jpeg(const gconv_row_reader *reader);

/* The next rows of an image: as samples, or as the bytes that encode them in the file. */
typedef struct gconv_part {
  int32_t count;       /* with samples: the number of rows; with bytes: of rows that end with these bytes, possibly none */
  const void *samples; /* rows, row_bytes apart; NULL: the part is `bytes` */
  size_t row_bytes;
  const void *above; /* with samples: the samples of the row above, if that came as bytes; else NULL */
  const void *bytes; /* bytes of the file, `size` of them */
  size_t size;
  uint32_t adler; /* with bytes: Adler-32 of their filtered rows; used if count > 0 */
} gconv_part;

/* Does gconv_row_writer_write() for a part. Parts that are bytes are for PNG of level 1 alone: IDAT chunks of whole strips,
 * gconv_row_writer_step() rows each but for the last strip. */
gconv_status gconv_row_writer_write_part(gconv_row_writer *writer, const gconv_part *part);

/* A receiver of results. They come from a device in parts. */
typedef struct gconv_taker {
  /* Called once, when nothing but transfers can fail any more. Returns how many rows take() wants at a time: it gets so
   * many, or a multiple of them, unless that is more than the device's buffers hold. */
  int32_t (*begin)(void *user);
  /* Gets the parts of each output, from the top. The memory of a part is the device's again when take() returns. */
  void (*take)(void *user, size_t output, const gconv_part *part);
  void *user; /* passed to begin() and take() */
  bool png;   /* true: parts may be bytes of a PNG of level 1, if the device can make them; false: all parts are samples */
} gconv_taker;

GCONV_C_END
