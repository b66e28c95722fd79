/* SPDX-License-Identifier: MIT */
#include "base/checksum.h"
#include "base/file.h"
#include "base/memory.h"

#ifdef GCONV_WITH_ISAL
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#else
#include <zlib.h>
#endif

uint32_t gconv_crc32(uint32_t crc, const void *bytes, size_t size) {
#ifdef GCONV_WITH_ISAL
  return crc32_gzip_refl(crc, bytes, size);
#else
  return (uint32_t)crc32_z(crc, bytes, size);
#endif
}

uint32_t gconv_adler32(uint32_t adler, const void *bytes, size_t size) {
#ifdef GCONV_WITH_ISAL
  return isal_adler32(adler, bytes, size);
#else
  return (uint32_t)adler32_z(adler, bytes, size);
#endif
}

/* The lower half of an Adler-32 is 1 + the sum of the bytes. The upper half is the sum of all lower halves so far. Both are
 * modulo 65521. If the second run follows the first, each of its lower halves is larger by the lower half of the first run,
 * minus 1. */
uint32_t gconv_adler32_combine(uint32_t first, uint32_t second, uint64_t second_size) {
  const uint64_t modulus = GCONV_ADLER_MODULUS;
  uint64_t shift = ((first & 0xffff) + modulus - 1) % modulus;
  uint64_t low = (shift + (second & 0xffff)) % modulus;
  uint64_t high = ((first >> 16) + (second >> 16) + shift * (second_size % modulus)) % modulus;
  return (uint32_t)(high << 16 | low);
}

uint64_t gconv_fnv1a(uint64_t hash, const void *bytes, size_t size) {
  const uint8_t *at = bytes;
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
  return hash;
}

gconv_status gconv_file_checksum(const char *path, uint64_t *bytes, uint32_t *crc32) {
  GCONV_ENDED_BY(gconv_source_close) gconv_source source = {.file = -1};
  const uint8_t *part;
  size_t got = 1;
  uint32_t crc = 0;
  GCONV_TRY(gconv_source_open(path, &source));
  if (source.size == UINT64_MAX)
    return gconv_fail(GCONV_IO_ERROR, "%s: is no regular file, and can be read only once", source.name);
  for (uint64_t size = 0; got > 0; size += got) {
    GCONV_TRY(gconv_source_next(&source, &part, &got));
    crc = gconv_crc32(crc, part, got);
    *bytes = size + got;
  }
  *crc32 = crc;
  return GCONV_OK;
}
