/* SPDX-License-Identifier: MIT */
/* Zip archives, of which NumPy's .npz is one: members that are stored or deflated, zip64 included. */
#pragma once

#include "base/file.h"

typedef struct gconv_zip_member {
  char *name;           /* owned; without control characters */
  uint64_t offset;      /* of its local header in the archive */
  uint64_t stored_size; /* of its bytes in the archive */
  uint64_t size;        /* of its content */
  uint32_t crc32;       /* of its content */
  uint16_t method;      /* 0: stored, 8: deflated; others cannot be read */
  bool encrypted;
} gconv_zip_member;

typedef struct gconv_zip {
  gconv_zip_member *members; /* owned */
  size_t count;
} gconv_zip;

/* Whether a file that begins with these bytes (4 are enough) is a zip archive. */
bool gconv_zip_sniff(const uint8_t *bytes, size_t size);

/* Reads the directory of the archive, which must be a source that can move to any place. Needs gconv_zip_free() in any case.
 * GCONV_BAD_FILE for damaged directories, GCONV_TOO_LARGE for directories over 64 MiB, GCONV_UNSUPPORTED for files of
 * torch.save(). */
gconv_status gconv_zip_read(gconv_source *archive, gconv_zip *zip);
void gconv_zip_free(gconv_zip *zip);

/* Fails, with the command that converts it, for PATH or PATH:NAME, where the file is one of torch.save(). */
gconv_status gconv_refuse_torch(const char *spec);

/* Opens a member: a source of its content, for gconv_source_close(), which reads through `archive`, so only one is open at a
 * time. `name` is for error texts; it and the archive must outlive the source. Reading the last byte succeeds only if size
 * and checksum are right. */
gconv_status gconv_zip_open_member(gconv_source *archive, const gconv_zip_member *member, const char *name,
                                   gconv_source *source);

/* The name of an array in .npz: that of the member without .npy; *length is that of the name. False if it is no array. */
bool gconv_zip_is_array(const gconv_zip_member *member, size_t *length);

/* Finds the array called `name`, with or without .npy, or, if that is NULL, the only one. GCONV_BAD_ARGUMENT lists those
 * that there are. */
gconv_status gconv_zip_find_array(const gconv_source *archive, const gconv_zip *zip, const char *name, size_t *index);
