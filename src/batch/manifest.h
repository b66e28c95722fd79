/* SPDX-License-Identifier: MIT */
/*
 * Going on with a run that was stopped (--resume). A manifest beside the results has a line for each that was finished: of
 * which input, by which job, and checksums of both files. What agrees with all of that is done; everything else is made
 * again. So a manifest may be old, torn or missing: the worst that can come of it is work.
 *
 * It is called .gconv-manifest, that of a shard .gconv-manifest-I-of-N, and lies in the fixed part of the folder that -o
 * names. A run appends to its own and reads all that lie there. Lines that begin with # are remarks; the others have eight
 * fields, with tabs between: the bytes and the CRC-32 of the result, those of the input, the digest of the job, the version,
 * the result, the input. Results are named from the folder of the manifest on, inputs as gconv_input.relative; tabs, line
 * ends and backslashes in names are written \t, \n and \\.
 */
#ifndef GCONV_BATCH_MANIFEST_H
#define GCONV_BATCH_MANIFEST_H

#include "batch/outputs.h"

/* A file, by its content. */
typedef struct gconv_print {
  bool known; /* false: it could not be read, and equals no other */
  uint64_t bytes;
  uint32_t crc32;
} gconv_print;

/* That of a file; not known if it cannot be read, or is no regular file. */
gconv_print gconv_print_of(const char *path);

/* What is known of the result `path` of the input `relative`, whose content is `input`. Thread-safe; reads the result. */
gconv_finding gconv_manifest_look_up(const gconv_manifest *manifest, const char *path, const char *relative,
                                     gconv_print input);

/* Opens that of a run without --resume, whose results lie among its inputs: it only records them, so that a later run knows
 * which files there are results. Such runs may be at work at the same time. */
gconv_status gconv_manifest_open_record(const gconv_outputs *outputs, gconv_manifest **manifest, gconv_message *message);

/* Whether the file at `path`, a result's, is one that a run has recorded, unchanged. Reads the file. */
bool gconv_manifest_knows(const gconv_manifest *manifest, const char *path);

/* Notes that the result is finished. Thread-safe. After GCONV_IO_ERROR nothing more is noted, without further errors. */
gconv_status gconv_manifest_add(gconv_manifest *manifest, const char *path, const char *relative, gconv_print input,
                                gconv_message *message);

#endif
