/* SPDX-License-Identifier: MIT */
/*
 * gconv in servers and applications: pictures from and to memory, without files. The rules of gconv.h hold here, too:
 *
 *     bytes -> gconv_image_decode() -> image -> operation -> image -> gconv_image_encode() -> bytes
 */
#ifndef GCONV_EMBED_H
#define GCONV_EMBED_H

#include "gconv.h"

#if defined(__GNUC__) /* what a shared library shows */
#pragma GCC visibility push(default)
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* The bytes of a picture that is in no file: in memory, or from a function of the caller. What is not set is 0. */
typedef struct gconv_bytes_in {
  const char *name;   /* for error texts and warnings; NULL: "the picture in memory" */
  const char *member; /* what FILE:MEMBER names: an array of a .npz, a frame from 1 on; NULL: all images */
  const void *data;   /* the bytes, which only the call reads. NULL: read() yields them */
  size_t size;        /* how many bytes there are at `data` */
  /* Yields the next bytes, as read(2) does: puts 1 to `size` bytes at `bytes`, and returns how many; 0 at the end; below 0
   * after a failure, which becomes GCONV_IO_ERROR. It may be called from a thread of the library, but from one at a time,
   * and for bytes beyond the picture. As in a pipe, only the first of several images is read. */
  int64_t (*read)(void *user, void *bytes, size_t size);
  void *user; /* for read() */
} gconv_bytes_in;

/* As gconv_image_read(), and with the same pixels and metadata, of bytes. GCONV_BAD_ARGUMENT if there is neither `data` nor
 * read(). */
gconv_status gconv_image_decode(const gconv_bytes_in *from, const gconv_read_options *options, gconv_image *image);

/* As gconv_image_read_header(), of bytes. */
gconv_status gconv_image_decode_header(const gconv_bytes_in *from, gconv_image *image, const gconv_format_info **format);

/* Where the bytes of a picture go that becomes no file: to memory that grows, or to a function of the caller.
 * Zero-initialise before first use. One record may serve any number of pictures, one after the other: its memory is used
 * again. */
typedef struct gconv_bytes_out {
  const char *name; /* for error texts; NULL: "the picture in memory" */
  void *data;       /* memory of malloc(), or NULL; it grows, and may move. Owned by the caller: free() */
  size_t size;      /* how many bytes the picture has; 0 after a failure */
  size_t room;      /* how many bytes `data` has room for; 0 if it is NULL */
  /* Takes the next bytes, in their order, in place of `data`; false: it cannot, and the picture fails with GCONV_IO_ERROR.
   * It may be called from a thread of the library, but from one at a time. After a failure of any kind, it has got a part of
   * the picture. NULL: the bytes go to `data` */
  bool (*write)(void *user, const void *bytes, size_t size);
  void *user; /* for write() */
} gconv_bytes_out;

/* Makes the bytes that gconv_image_write() writes to a file. options->format must be set; keep_existing does not count. */
gconv_status gconv_image_encode(gconv_bytes_out *to, const gconv_write_options *options, const gconv_image *image);

#ifdef __cplusplus
}
#endif
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif
