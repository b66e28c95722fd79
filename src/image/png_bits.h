/* SPDX-License-Identifier: MIT */
/* Writing the bits of deflate, and joining codes before they are written. */
#ifndef GCONV_IMAGE_PNG_BITS_H
#define GCONV_IMAGE_PNG_BITS_H

#include "base/both.h"
#include "base/cpu.h"

#include <stdint.h>
#include <string.h>

typedef struct bit_writer {
  uint64_t bits; /* not written yet, the first lowest */
  unsigned count;
  uint8_t *next; /* eight bytes from here may be written over */
} bit_writer;

/* At most 56 bits may be put between two drains, behind which up to 7 are left. */
GCONV_BOTH void put(bit_writer *writer, uint64_t bits, unsigned count) {
  writer->bits |= bits << writer->count;
  writer->count += count;
}

GCONV_BOTH void drain(bit_writer *writer) {
  uint64_t bits = writer->bits;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  bits = __builtin_bswap64(bits);
#endif
  memcpy(writer->next, &bits, 8);
  writer->next += writer->count / 8;
  writer->bits >>= writer->count & ~7u;
  writer->count %= 8;
}

GCONV_BOTH void align(bit_writer *writer) {
  writer->count = (writer->count + 7) & ~7u;
  drain(writer);
}

/* A code to put: its bits above COUNT_BITS, and below how many they are. */
enum { COUNT_BITS = 8 };

/* Codes of which none is put before the other: those that are joined first wait for nothing. */
typedef struct joined {
  uint64_t bits;
  unsigned count; /* modulo 64: more is never joined */
} joined;

GCONV_INLINE joined join(joined first, uint32_t packed) {
  return (joined){first.bits | (uint64_t)(packed >> COUNT_BITS) << (first.count & 63), first.count + packed};
}

GCONV_INLINE void put_joined(bit_writer *writer, joined codes) {
  put(writer, codes.bits, codes.count & 63);
}

GCONV_INLINE void put_packed(bit_writer *writer, uint32_t packed) {
  put_joined(writer, join((joined){0}, packed));
}

#endif
