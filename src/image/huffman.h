/* SPDX-License-Identifier: MIT */
/* Prefix codes of deflate (RFC 1951, 3.2.2): lengths from counts, codes from lengths. */
#pragma once

#include "base/both.h"

#include <stddef.h>
#include <stdint.h>

enum { GCONV_HUFFMAN_SYMBOLS = 286, GCONV_HUFFMAN_LONGEST = 15 };

/* Finds the lengths of a prefix code for `symbols` (2 to GCONV_HUFFMAN_SYMBOLS) with these counts. No length is above
 * `longest` (at most GCONV_HUFFMAN_LONGEST, and 2^longest >= symbols). Symbols with count 0 get length 0; but at least two
 * symbols get a code, because not all decoders accept a code of one. The code is complete. It is optimal unless `longest`
 * limits it. The sum of all counts is below 2^32. */
void gconv_huffman_lengths(const uint32_t *counts, int symbols, int longest, uint8_t *lengths);

/* Finds the canonical codes of these lengths. Their bits are reversed, as deflate writes them. */
void gconv_huffman_codes(const uint8_t *lengths, int symbols, uint16_t *codes);

/* ---- Steps of a single thread, on the host and in CUDA. In CUDA, the threads of a block share the other steps. ---- */

/* The workspace of the functions below. */
typedef struct gconv_huffman_room {
  uint64_t sorted[GCONV_HUFFMAN_SYMBOLS];  /* the used symbols as count << 16 | symbol, in ascending order */
  uint64_t weights[GCONV_HUFFMAN_SYMBOLS]; /* weights of the inner nodes */
  int parents[2 * GCONV_HUFFMAN_SYMBOLS], depths[GCONV_HUFFMAN_SYMBOLS];
  int of_length[GCONV_HUFFMAN_SYMBOLS + 1]; /* how many codes there are of each length */
} gconv_huffman_room;

/* Builds Huffman's tree over `used` sorted weights, two or more. There are two queues: the leaves, and the inner nodes,
 * which are made in ascending order of their weights. parents[] has the parent of each leaf, then the parent of each inner
 * node. depths[] has the depth of each inner node below the root. */
GCONV_BOTH void gconv_huffman_build(gconv_huffman_room *room, int used) {
  const uint64_t *sorted = room->sorted;
  uint64_t *weights = room->weights;
  int leaf = 0, inner = 0;
  for (int made = 0; made < used - 1; made++) {
    weights[made] = 0;
    for (int child = 0; child < 2; child++) {
      if (leaf < used && (inner == made || (sorted[leaf] >> 16) <= weights[inner])) {
        weights[made] += sorted[leaf] >> 16;
        room->parents[leaf++] = made;
      } else {
        weights[made] += weights[inner];
        room->parents[used + inner++] = made;
      }
    }
  }
  room->depths[used - 2] = 0;
  for (int i = used - 3; i >= 0; i--)
    room->depths[i] = room->depths[room->parents[used + i]] + 1;
}

/* Shortens codes longer than `longest` to that length, then repairs the code: Kraft's sum is above 1 by `excess` codes of
 * length `longest`. Each turn makes a shorter code one bit longer. The place beside it takes a code of length `longest`, so
 * the excess falls by one. */
GCONV_BOTH void gconv_huffman_limit_lengths(int *of_length, int deepest, int longest) {
  for (int i = longest + 1; i <= deepest; i++) {
    of_length[longest] += of_length[i];
    of_length[i] = 0;
  }
  uint64_t sum = 0;
  for (int i = 1; i <= longest; i++)
    sum += (uint64_t)of_length[i] << (longest - i);
  for (uint64_t excess = sum - (UINT64_C(1) << longest); excess > 0; excess--) {
    int shorter = longest - 1;
    while (of_length[shorter] == 0)
      shorter--;
    of_length[longest]--;
    of_length[shorter]--;
    of_length[shorter + 1] += 2;
  }
}

/* Returns the code of `length` bits (1 or more) as deflate writes it: its first bit is the lowest. */
GCONV_BOTH uint16_t gconv_huffman_reverse(unsigned code, int length) {
#ifdef __CUDA_ARCH__
  return (uint16_t)(__brev(code) >> (32 - length));
#else
  unsigned reversed = 0;
  for (int i = 0; i < length; i++, code >>= 1)
    reversed = reversed << 1 | (code & 1);
  return (uint16_t)reversed;
#endif
}
