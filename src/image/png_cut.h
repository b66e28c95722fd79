/* SPDX-License-Identifier: MIT */
/*
 * Deflate's constants, finding matches, describing codes: compiled for the host (png_deflate.c) and for CUDA
 * (codec_cuda/png.cu).
 */
#pragma once

#include "image/huffman.h"
#include "image/png_bits.h"
#include "image/png_deflate.h"

#include <stdbool.h>
#include <string.h>

enum {
  LITERALS = 256,
  END_OF_BLOCK = 256,
  LENGTH_SYMBOLS = 29,
  SYMBOLS = LITERALS + 1 + LENGTH_SYMBOLS,
  DISTANCE_SYMBOLS = 30,
  HEADER_SYMBOLS = 19,
  LONGEST_HEADER_CODE = 7,
  SHORTEST = 3,
  LONGEST = 258,
  WINDOW = 32768,
  HASH_BITS = 13,
  BLOCK_BYTES = GCONV_PNG_BLOCK_BYTES,
  STORED_BYTES = GCONV_PNG_STORED_BYTES,
  LONGEST_CODE = 14, /* bits of a literal's code: four codes and 7 more bits fit into 64 bits */
};

/* ---- Finding matches ---- */

/* Returns how many bytes apart the positions are at which matches are looked for: a pixel, or two if a pixel is a byte. */
GCONV_BOTH uint32_t step_of(size_t pixel) {
  return pixel > 1 ? (uint32_t)pixel : 2;
}

/* Returns the length of the shortest match. The hash is made of as many bytes. */
GCONV_BOTH uint32_t unit_of(size_t pixel) {
  return pixel > 2 ? (uint32_t)pixel : 4;
}

/* Loads eight bytes, the first of them lowest. */
GCONV_BOTH uint64_t load(const uint8_t *bytes) {
#ifdef __CUDA_ARCH__
  const uint32_t *words = (const uint32_t *)((uintptr_t)bytes & ~(uintptr_t)3);
  const unsigned shift = 8 * ((unsigned)(uintptr_t)bytes & 3);
  const uint32_t middle = words[1];
  return __funnelshift_r(words[0], middle, shift) | (uint64_t)__funnelshift_r(middle, words[2], shift) << 32;
#else
  uint64_t value;
  memcpy(&value, bytes, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  return value;
#endif
}

/* Returns how many bytes are equal at a and b, at most `most`. */
GCONV_BOTH size_t common_length(const uint8_t *a, const uint8_t *b, size_t most) {
  for (size_t i = 0; i < most; i += 8) {
    uint64_t different = load(a + i) ^ load(b + i);
    if (different) {
      size_t length = i + gconv_lowest_bit(different) / 8;
      return length < most ? length : most;
    }
  }
  return most;
}

/* The symbol of length l (3 to 258) is 257 + length_symbol(l), followed by *extra bits. There are four symbols for each
 * power of two. 258 has a symbol of its own. */
GCONV_BOTH unsigned length_symbol(unsigned length, unsigned *extra) {
  unsigned offset = length - SHORTEST;
  *extra = 0;
  if (offset < 8 || length == LONGEST)
    return length == LONGEST ? 28 : offset;
  unsigned log = gconv_highest_bit(offset);
  *extra = log - 2;
  return 4 * (log - 1) + (offset >> *extra) % 4;
}

/* Returns the symbol of the distance back + 1, which is followed by *extra bits. */
GCONV_BOTH unsigned distance_symbol(unsigned back, unsigned *extra) {
  if (back < 4) {
    *extra = 0;
    return back;
  }
  unsigned log = gconv_highest_bit(back);
  *extra = log - 1;
  return 2 * log + (back >> *extra) % 2;
}

/* Returns the entry for a pixel at position `at`, and the number of its slot in a hash table. The lower half of an entry is
 * the position modulo 65536, the upper half 16 more bits of the hash, which tell most pixels apart. A slot has two entries:
 * in its lower half the latest pixel, in its upper half the last pixel before that was different. Matches are compared byte
 * by byte, so neither collisions nor stale positions do harm. */
GCONV_BOTH uint32_t entry_of(uint64_t pixel, size_t at, uint32_t *slot) {
  const uint64_t hash = pixel * UINT64_C(0x9e3779b97f4a7c15);
  *slot = (uint32_t)(hash >> (64 - HASH_BITS));
  return (uint32_t)(hash >> (32 - HASH_BITS) & 0xffff0000) | (uint16_t)at;
}

/* Returns how many bytes before `at` the slot has probably seen this entry's pixel; 0, or more than the window: it has not
 * seen it. Stores the entry in the slot. Reads no other memory, as the branch of the caller, which is often mispredicted,
 * would wait for it. */
GCONV_BOTH size_t look_up_slot(uint64_t *slot, size_t at, uint32_t entry) {
  uint64_t seen = *slot;
  uint32_t latest = (uint32_t)seen, other = (uint32_t)(seen >> 32);
  if ((latest ^ entry) >> 16 == 0) {
    *slot = (seen & ~(uint64_t)UINT32_MAX) | entry;
    return (uint16_t)(at - latest);
  }
  *slot = seen << 32 | entry;
  return (other ^ entry) >> 16 == 0 ? (uint16_t)(at - other) : 0;
}

GCONV_BOTH size_t look_up(uint64_t *places, size_t at, uint64_t pixel) {
  uint32_t number, entry = entry_of(pixel, at, &number);
  return look_up_slot(&places[number], at, entry);
}

/* ---- Codes ---- */

/* Writes the lengths of all codes as symbols, which shorten runs as deflate does: 16 repeats the length before it 3 to 6
 * times, 17 and 18 stand for 3 to 10 and 11 to 138 zeros. Returns how many symbols there are. The upper byte of a symbol is
 * the value of its extra bits. */
GCONV_BOTH size_t shorten_lengths(const uint8_t *lengths, size_t count, uint16_t *symbols) {
  size_t made = 0;
  for (size_t i = 0, run; i < count; i += run) {
    size_t most = lengths[i] ? 7 : 138;
    for (run = 1; run < most && i + run < count && lengths[i + run] == lengths[i];)
      run++;
    if (lengths[i] && run >= 4) {
      symbols[made++] = lengths[i];
      symbols[made++] = (uint16_t)(16 | (run - 4) << 8);
    } else if (!lengths[i] && run >= 3) {
      symbols[made++] = (uint16_t)(run < 11 ? 17 | (run - 3) << 8 : 18 | (run - 11) << 8);
    } else {
      run = 1;
      symbols[made++] = lengths[i];
    }
  }
  return made;
}

/* Describes codes (RFC 1951, 3.2.7): writes the `count` symbols that shorten_lengths() made of their lengths. The symbols
 * themselves are written in the code of `lengths` and `codes`. */
GCONV_BOTH void put_codes(const uint16_t *symbols, size_t count, const uint8_t *lengths, const uint16_t *codes,
                          bit_writer *writer) {
  const uint8_t order[HEADER_SYMBOLS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  unsigned described = HEADER_SYMBOLS;
  while (described > 4 && lengths[order[described - 1]] == 0)
    described--;
  put(writer, SYMBOLS - 257, 5);
  put(writer, DISTANCE_SYMBOLS - 1, 5);
  put(writer, described - 4, 4);
  for (unsigned i = 0; i < described; i++) {
    drain(writer);
    put(writer, lengths[order[i]], 3);
  }
  for (size_t i = 0; i < count; i++) {
    const unsigned symbol = symbols[i] & 0xff, extra = symbol < 16 ? 0 : symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
    drain(writer);
    put(writer, codes[symbol] | (uint64_t)(symbols[i] >> 8) << lengths[symbol], lengths[symbol] + extra);
  }
  drain(writer);
}

/* ---- Blocks ---- */

/* Returns whether a block of `size` bytes is shorter when it is stored. `bits`: how many bits it takes with codes, from this
 * bit position on. */
GCONV_BOTH bool stored_is_shorter(uint64_t position, uint64_t bits, size_t size) {
  return (position % 8 + bits) / 8 > size;
}
