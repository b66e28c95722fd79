/* SPDX-License-Identifier: MIT */
/* Reads zip archives, such as NumPy's .npz: members that are stored or deflated, also by zip64. */
#pragma once

#include "base/file.h"

typedef struct gconv_zip_member {
  char *name;           /* owned; without control characters */
  uint64_t offset;      /* where its local header is in the archive */
  uint64_t stored_size; /* bytes in the archive */
  uint64_t size;        /* bytes of the content */
  uint32_t crc32;       /* the checksum of the content */
  uint16_t method;      /* 0: stored, 8: deflated; other methods cannot be read */
  bool encrypted;
} gconv_zip_member;

typedef struct gconv_zip {
  gconv_zip_member *members; /* owned */
  size_t count;
} gconv_zip;

/* Returns whether a file that begins with these bytes (4 are enough) is a zip archive. */
bool gconv_zip_sniff(const uint8_t *bytes, size_t size);

/* Reads the directory of the archive, a source that must be able to seek. Call gconv_zip_free(), on failure too. Fails with
 * GCONV_BAD_FILE for a damaged directory, GCONV_TOO_LARGE for one over 64 MiB, and GCONV_UNSUPPORTED for a file of
 * torch.save(). */
gconv_status gconv_zip_read(gconv_source *archive, gconv_zip *zip);
void gconv_zip_free(gconv_zip *zip);

/* Fails for PATH or PATH:NAME, a file of torch.save(). The text has the command that converts it. */
gconv_status gconv_refuse_torch(const char *spec);

/* Opens a member as a source of its content; end it with gconv_source_close(). It reads through `archive`, so only one
 * member can be open at a time. `name` is for error texts. `name` and the archive must outlive the source. Reading the last
 * byte succeeds only if size and checksum are right. */
gconv_status gconv_zip_open_member(gconv_source *archive, const gconv_zip_member *member, const char *name,
                                   gconv_source *source);

/* Returns whether a member of .npz is an array. Sets *length to the length of the array's name: the member's name without
 * .npy. */
bool gconv_zip_is_array(const gconv_zip_member *member, size_t *length);

/* Finds the array called `name`, with or without .npy. If `name` is NULL, finds the only array. If there is no such array,
 * fails with GCONV_BAD_ARGUMENT, and lists the arrays. */
gconv_status gconv_zip_find_array(const gconv_source *archive, const gconv_zip *zip, const char *name, size_t *index);
