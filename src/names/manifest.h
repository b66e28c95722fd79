/* SPDX-License-Identifier: MIT */
/*
 * Manifests: records of finished results, by which --resume continues a run that was stopped. A line of a manifest has the
 * name and the checksum of a result and of its input, and a digest of the options. A result that agrees with its line is
 * done. All other results are made again. So an old, torn or missing manifest costs time, but spoils no result.
 *
 * The file is .gconv-manifest, or .gconv-manifest-I-of-N for a shard. It lies in the folder before the first field of -o. A
 * run appends to its own manifest, and reads all manifests of that folder. Lines that begin with # are comments. Other lines
 * have eight fields with tabs between them: size and CRC-32 of the result, size and CRC-32 of the input, digest of the
 * options, version, name of the result relative to the folder of the manifest, gconv_input.relative. In names, tabs, line
 * ends and backslashes are written \t, \n and \\.
 */
#pragma once

#include "names/texts.h"

/* A fingerprint of the content of a file. */
typedef struct gconv_print {
  bool known; /* false: the file could not be read. Such a print equals no other print */
  uint64_t bytes;
  uint32_t crc32;
} gconv_print;

/* Returns the print of a file; unknown if the file cannot be read, or is no regular file. */
gconv_print gconv_print_of(const char *path);
/* Looks up the result `path` of the input `relative`, whose content is `input`. Thread-safe. Reads the result. */
gconv_finding gconv_manifest_look_up(const gconv_manifest *manifest, const char *path, const char *relative,
                                     gconv_print input);
/* Does what gconv_manifest_open() does, and leaves the text of a failure in gconv_last_error(). */
gconv_status gconv_manifest_open_all(const gconv_outputs *outputs, const gconv_shard *shard, uint64_t job, size_t *removed,
                                     gconv_manifest **manifest);
/* Opens the manifest of a run without --resume, whose results lie among its inputs. It only records results, so that later
 * runs know them. Several runs may have it open at the same time. */
gconv_status gconv_manifest_open_record(const gconv_outputs *outputs, gconv_manifest **manifest);
/* Returns whether a run has recorded the file at `path`, and the file is unchanged. Reads the file. */
bool gconv_manifest_knows(const gconv_manifest *manifest, const char *path);
/* Records that a result is finished. Thread-safe. After a GCONV_IO_ERROR, further calls do nothing and return GCONV_OK. */
gconv_status gconv_manifest_add(gconv_manifest *manifest, const char *path, const char *relative, gconv_print input);
