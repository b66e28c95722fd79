/* SPDX-License-Identifier: MIT */
/* Files that gzip compressed, as sources of the decompressed bytes. */
#pragma once

#include "base/file.h"

/* If gzip compressed *source, replaces it by a source of the decompressed bytes. source->member stays. */
gconv_status gconv_source_unzip(gconv_source *source);

/* Returns how many bytes the file has that the source decompresses; UINT64_MAX if that is not known, 0 if gzip did not
 * compress it. */
uint64_t gconv_source_packed_bytes(const gconv_source *source);

/* Sets *more to whether a source that gzip compressed has more bytes; for other sources, to false. Fails if the compressed
 * data are cut short or damaged. */
gconv_status gconv_source_has_unzipped(gconv_source *source, bool *more);

/* Fails if the compressed data after the bytes that were read are cut short or damaged: their checksum comes last. */
gconv_status gconv_source_check_unzipped(gconv_source *source);
