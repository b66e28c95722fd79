/* SPDX-License-Identifier: MIT */
/* The checksums of PNG and zlib, by the fastest code there is: ISA-L's, or zlib's where gconv was built without it. */
#ifndef GCONV_BASE_CHECKSUM_H
#define GCONV_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CRC-32 (ISO 3309) of what gave `crc` followed by these bytes; 0 begins. */
uint32_t gconv_crc32(uint32_t crc, const void *bytes, size_t size);

/* Adler-32 (RFC 1950) of what gave `adler` followed by these bytes; 1 begins. */
uint32_t gconv_adler32(uint32_t adler, const void *bytes, size_t size);

/* That of two runs of bytes, one after the other: from the Adler-32 of each, begun with 1, and the size of the second. */
uint32_t gconv_adler32_combine(uint32_t first, uint32_t second, uint64_t second_size);

/* The 64-bit FNV-1a hash of what gave `hash` followed by these bytes; GCONV_FNV1A_BASIS begins. It stays the same for ever:
 * shards and manifests rest on it. */
#define GCONV_FNV1A_BASIS UINT64_C(0xcbf29ce484222325)
uint64_t gconv_fnv1a(uint64_t hash, const void *bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif
