/* SPDX-License-Identifier: MIT */
/* The checksums of PNG and zlib, by the fastest code available: that of ISA-L, or zlib's if gconv was built without ISA-L.
 */
#pragma once

#include "base/both.h"
#include "gconv.h"

GCONV_C_BEGIN

/* CRC-32 (ISO 3309): continues `crc` with these bytes. Begin with 0. */
uint32_t gconv_crc32(uint32_t crc, const void *bytes, size_t size);

enum { GCONV_ADLER_MODULUS = 65521 };

/* Adler-32 (RFC 1950) of what gave `adler` followed by these bytes; 1 begins. */
uint32_t gconv_adler32(uint32_t adler, const void *bytes, size_t size);

/* Returns the Adler-32 of two runs of bytes, one after the other, from the Adler-32 of each, begun with 1, and the size of
 * the second. */
uint32_t gconv_adler32_combine(uint32_t first, uint32_t second, uint64_t second_size);

/* The 64-bit FNV-1a hash: continues `hash` with these bytes. Begin with GCONV_FNV1A_BASIS. It must never change: shards and
 * manifests depend on it. */
#define GCONV_FNV1A_BASIS UINT64_C(0xcbf29ce484222325)
uint64_t gconv_fnv1a(uint64_t hash, const void *bytes, size_t size);

/* Bytes and CRC-32 (ISO 3309, as in gzip and PNG) of a regular file, to know it again: it guards against accidents, not
 * against malice. GCONV_IO_ERROR if it cannot be read, or is no regular file. */
gconv_status gconv_file_checksum(const char *path, uint64_t *bytes, uint32_t *crc32);

GCONV_C_END
