/* SPDX-License-Identifier: MIT */
/*
 * What a block of deflate is made of: how lines are cut into literals and matches, and how a block's codes are described.
 * Compiled for the host and for CUDA, which cuts samples only.
 */
#ifndef GCONV_IMAGE_PNG_CUT_H
#define GCONV_IMAGE_PNG_CUT_H

#include "image/huffman_body.h"
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
  BLOCK_BYTES = GCONV_PNG_MOST_TRIED, /* enough for a code to pay for its description, about 100 bytes */
  STORED_BYTES = 65535,               /* the most that one stored block holds */
  STORED_BITS = 3 + 32, /* what it takes besides its bytes and up to a byte of padding: a mark, the length twice */
  PIXEL = 3,            /* of GCONV_PNG_PIXELS */
  LONGEST_CODE = 14,    /* of literals: four and seven more bits fit into 64 */
};

/* Some literals and then a match. The last of a block has length 0: it is no match. */
typedef struct sequence {
  uint32_t literals;
  uint16_t length;
  uint16_t back; /* distance - 1 */
} sequence;

/* What lines have been cut into. */
typedef struct tally {
  /* Where pixels of a hash were seen: in the lower half the last place of the latest pixel, in the upper half of the one
   * before it that was another. Each is 16 more bits of the hash, which tell most pixels apart, over 16 of the position,
   * modulo 65536. What is found is compared, so that neither collisions nor stale places do harm. [1 << HASH_BITS] */
  uint64_t *seen;
  uint32_t *counts, *distance_counts; /* [SYMBOLS], [DISTANCE_SYMBOLS] */
  sequence *sequences;                /* NULL: they are not wanted */
  size_t count;                       /* of sequences */
  size_t matched;                     /* bytes */
  uint64_t extra_bits;                /* of lengths and distances */
} tally;

/* ---- Finding matches ---- */

/* Eight bytes, the first of them lowest. */
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

GCONV_BOTH void count_one(uint32_t *counter) {
#ifdef __CUDA_ARCH__
  atomicAdd(counter, 1); /* which is not waited for */
#else
  ++*counter;
#endif
}

/* How many bytes are equal at a and b, at most `most`. */
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

/* The symbol of length l (3 to 258) is 257 + length_symbol(l), followed by *extra bits. Between powers of two there are four
 * symbols, between those of distances two; 258 has a symbol of its own. */
GCONV_BOTH unsigned length_symbol(unsigned length, unsigned *extra) {
  unsigned offset = length - SHORTEST;
  *extra = 0;
  if (offset < 8 || length == LONGEST)
    return length == LONGEST ? 28 : offset;
  unsigned log = gconv_highest_bit(offset);
  *extra = log - 2;
  return 4 * (log - 1) + (offset >> *extra) % 4;
}

/* Likewise of `back`, a distance - 1. */
GCONV_BOTH unsigned distance_symbol(unsigned back, unsigned *extra) {
  if (back < 4) {
    *extra = 0;
    return back;
  }
  unsigned log = gconv_highest_bit(back);
  *extra = log - 1;
  return 2 * log + (back >> *extra) % 2;
}

/* What is noted of a pixel at `at`, and in which slot. */
GCONV_BOTH uint32_t entry_of(uint64_t pixel, size_t at, uint32_t *slot) {
  const uint64_t hash = pixel * UINT64_C(0x9e3779b97f4a7c15);
  *slot = (uint32_t)(hash >> (64 - HASH_BITS));
  return (uint32_t)(hash >> (32 - HASH_BITS) & 0xffff0000) | (uint16_t)at;
}

/* How far back `pixel`, which stands at `at`, was probably seen; 0 or more than the window: it was not. Remembers it. No
 * other place is looked at, because the branch that follows, which is often foreseen wrongly, would wait for that. */
GCONV_BOTH size_t look_up(uint64_t *places, size_t at, uint64_t pixel) {
  uint32_t number, entry = entry_of(pixel, at, &number);
  uint64_t *slot = &places[number], seen = *slot;
  uint32_t latest = (uint32_t)seen, other = (uint32_t)(seen >> 32);
  if ((latest ^ entry) >> 16 == 0) {
    *slot = (seen & ~(uint64_t)UINT32_MAX) | entry;
    return (uint16_t)(at - latest);
  }
  *slot = seen << 32 | entry;
  return (other ^ entry) >> 16 == 0 ? (uint16_t)(at - other) : 0;
}

GCONV_BOTH void add_sequence(tally *t, size_t literals, size_t length, size_t back) {
  if (t->sequences) {
    sequence *next = &t->sequences[t->count];
    next->literals = (uint32_t)literals;
    next->length = (uint16_t)length;
    next->back = (uint16_t)back;
  }
  t->count++;
}

GCONV_BOTH void add_match(tally *t, size_t literals, size_t length, size_t distance) {
  unsigned length_extra, distance_extra;
  count_one(&t->counts[LITERALS + 1 + length_symbol((unsigned)length, &length_extra)]);
  count_one(&t->distance_counts[distance_symbol((unsigned)distance - 1, &distance_extra)]);
  t->extra_bits += length_extra + distance_extra;
  t->matched += length;
  add_sequence(t, literals, length, distance - 1);
}

/* Cuts bytes begin .. stop - 1, and those of a match that reaches beyond, into literals and matches, and returns where they
 * end. Matches are looked for at every `step` bytes of a line; `unit`, of at least SHORTEST bytes, is what must be equal.
 * Lines from .. begin - 1 are only remembered. */
GCONV_BOTH size_t cut_body(tally *t, const gconv_png_lines *lines, size_t from, size_t begin, size_t stop, size_t step,
                           size_t unit) {
  const uint8_t *bytes = lines->bytes;
  const uint64_t mask = UINT64_MAX >> (64 - 8 * unit);
  for (; from < begin; from += lines->line)
    for (size_t at = from + 1; at + unit <= from + lines->line; at += step)
      look_up(t->seen, at, load(bytes + at) & mask);
  size_t at = begin, literals = begin;
  while (at < stop) {
    size_t line_end = at - at % lines->line + lines->line;
    if (at % lines->line == 0)
      count_one(&t->counts[bytes[at++]]); /* the number of the filter */
    while (at + unit <= line_end && at < stop) {
      size_t distance = look_up(t->seen, at, load(bytes + at) & mask);
      if (distance - 1 < (at < WINDOW ? at : (size_t)WINDOW)) {
        size_t most = line_end - at < LONGEST ? line_end - at : (size_t)LONGEST;
        size_t length = common_length(bytes + at, bytes + at - distance, most);
        if (length >= unit + step) {
          length -= length % step;
          add_match(t, at - literals, length, distance);
          literals = at += length;
          continue;
        }
        if (length >= unit) { /* a sum that need not be waited for, as long as this is foreseen */
          add_match(t, at - literals, unit, distance);
          literals = at += unit;
          continue;
        }
      }
      for (size_t i = 0; i < step; i++)
        count_one(&t->counts[bytes[at++]]);
    }
    if (at + unit > line_end)
      while (at < line_end)
        count_one(&t->counts[bytes[at++]]);
  }
  add_sequence(t, at - literals, 0, 0);
  return at;
}

GCONV_BOTH size_t cut_lines(tally *t, const gconv_png_lines *lines, size_t from, size_t begin, size_t stop) {
  switch (lines->pixel) {
  case 1:
  case 2:
    return cut_body(t, lines, from, begin, stop, 2, 4);
  case 3:
    return cut_body(t, lines, from, begin, stop, 3, 3);
  case 4:
    return cut_body(t, lines, from, begin, stop, 4, 4);
  case 6:
    return cut_body(t, lines, from, begin, stop, 6, 6);
  default:
    return cut_body(t, lines, from, begin, stop, 8, 8);
  }
}

/* ---- Codes ---- */

/* The lengths of all codes, with runs as deflate shortens them: 16 repeats the length before 3 to 6 times, 17 and 18 stand
 * for 3 to 10 and 11 to 138 zeros. Returns how many symbols there are; the value of the extra bits is in their upper byte.
 */
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

/* Describes codes (RFC 1951, 3.2.7) by the `count` symbols that shorten_lengths() made of their lengths; `lengths` and
 * `codes` are of the code of these symbols themselves. */
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

#endif
