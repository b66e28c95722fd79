/* SPDX-License-Identifier: MIT */
/* Writes the bits of deflate, and joins codes before they are written. */
#pragma once

#include "base/both.h"
#include "base/cpu.h"

#include <stdint.h>
#include <string.h>

typedef struct bit_writer {
  uint64_t bits; /* bits that are not written yet, the first one lowest */
  unsigned count;
  uint8_t *next; /* eight bytes from here may be written over */
} bit_writer;

/* Puts `count` bits after the others. Between two calls of drain(), at most 56 bits may be put. */
GCONV_BOTH void put(bit_writer *writer, uint64_t bits, unsigned count) {
  writer->bits |= bits << writer->count;
  writer->count += count;
}

/* Writes all whole bytes; up to 7 bits are left. */
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

/* Fills the last byte with zeros, and writes it. At most 56 bits may be left. */
GCONV_BOTH void align(bit_writer *writer) {
  writer->count = (writer->count + 7) & ~7u;
  drain(writer);
}

/* A packed code has its number of bits in the lowest COUNT_BITS bits, and its bits above. */
enum { COUNT_BITS = 8 };

/* Codes that are joined before they are put. A processor joins them while it still writes earlier codes. */
typedef struct joined {
  uint64_t bits;
  unsigned count; /* only the lowest 6 bits count: at most 63 bits are joined */
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
