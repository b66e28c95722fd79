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
#include "batch/shard.h"

typedef struct gconv_manifest gconv_manifest;

/* What is known of a result. */
typedef enum gconv_finding {
  GCONV_FOUND_DONE,
  GCONV_FOUND_NEW,          /* the manifest has no such result */
  GCONV_FOUND_OTHER_JOB,    /* it was made with other filters, options or another version */
  GCONV_FOUND_OTHER_INPUT,  /* from an input that was another, or had another content */
  GCONV_FOUND_OTHER_RESULT, /* it is missing, or has another content now */
  GCONV_FINDINGS
} gconv_finding;

/* A file, by its content. */
typedef struct gconv_print {
  bool known; /* false: it is not known again, whatever it has */
  uint64_t bytes;
  uint32_t crc32;
} gconv_print;

/* That of a file; not known if it cannot be read, or is no regular file. */
gconv_print gconv_print_of(const char *path);

/*
 * Reads the manifests beside `outputs`. With `writes`, the folder is made if it is missing, the run's own manifest is locked
 * and appended to, and what killed runs left of the outputs is removed. `job` is the digest of what makes the results.
 * GCONV_EXISTS: another process is at work with the same manifest; GCONV_IO_ERROR.
 */
gconv_status gconv_manifest_open(const gconv_outputs *outputs, const gconv_shard *shard, uint64_t job, bool writes,
                                 gconv_manifest **manifest, gconv_message *message);

/* What is known of the result `path` of the input `relative`, whose content is `input`. Thread-safe; reads the result. */
gconv_finding gconv_manifest_look_up(const gconv_manifest *manifest, const char *path, const char *relative,
                                     gconv_print input);

/* Notes that the result is finished. Thread-safe. After GCONV_IO_ERROR nothing more is noted, without further errors. */
gconv_status gconv_manifest_add(gconv_manifest *manifest, const char *path, const char *relative, gconv_print input,
                                gconv_message *message);

/* What killed runs had left and was removed. */
size_t gconv_manifest_leftovers(const gconv_manifest *manifest);

/* NULL is allowed. */
void gconv_manifest_close(gconv_manifest *manifest);

#endif
