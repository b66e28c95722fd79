/* SPDX-License-Identifier: MIT */
/* The checksums of PNG and zlib, by the code of ISA-L, or by zlib's if gconv was built without ISA-L. */
#pragma once

#include "base/both.h"
#include "gconv.h"

GCONV_C_BEGIN

/* CRC-32 (ISO 3309): continues `crc` with these bytes. Begin with 0. */
uint32_t gconv_crc32(uint32_t crc, const void *bytes, size_t size);

enum { GCONV_ADLER_MODULUS = 65521 };

/* Adler-32 (RFC 1950): continues `adler` with these bytes. Begin with 1. */
uint32_t gconv_adler32(uint32_t adler, const void *bytes, size_t size);

/* Returns the Adler-32 of two runs of bytes, one after the other. `first` and `second`: the Adler-32 of each run, begun with
 * 1. */
uint32_t gconv_adler32_combine(uint32_t first, uint32_t second, uint64_t second_size);

/* The 64-bit FNV-1a hash: continues `hash` with these bytes. Begin with GCONV_FNV1A_BASIS. It must never change: shards and
 * manifests depend on it. */
#define GCONV_FNV1A_BASIS UINT64_C(0xcbf29ce484222325)
uint64_t gconv_fnv1a(uint64_t hash, const void *bytes, size_t size);

/* Sets *bytes and *crc32 to the size and the CRC-32 (ISO 3309, as in gzip and PNG) of a regular file, by which it is
 * recognised later. They protect against accidents, not against malice. Fails with GCONV_IO_ERROR if the file cannot be
 * read, or is not regular. */
gconv_status gconv_file_checksum(const char *path, uint64_t *bytes, uint32_t *crc32);

GCONV_C_END
