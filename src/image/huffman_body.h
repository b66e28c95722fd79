/* SPDX-License-Identifier: MIT */
/* Prefix codes, as huffman.h declares them: compiled for the host and for CUDA, which sorts in its own way. */
#ifndef GCONV_IMAGE_HUFFMAN_BODY_H
#define GCONV_IMAGE_HUFFMAN_BODY_H

#include "base/both.h"
#include "image/huffman.h"

/* Room to work in. */
typedef struct gconv_huffman_room {
  uint64_t sorted[GCONV_HUFFMAN_SYMBOLS]; /* the used symbols as count << 16 | symbol, in ascending order */
  uint64_t weights[GCONV_HUFFMAN_SYMBOLS];
  int parents[2 * GCONV_HUFFMAN_SYMBOLS], depths[GCONV_HUFFMAN_SYMBOLS];
  int of_length[GCONV_HUFFMAN_SYMBOLS + 1]; /* how many codes there are of each length */
} gconv_huffman_room;

/* Counts the codes of each length in Huffman's tree over `used` sorted weights. Two queues: the leaves, and the inner nodes,
 * which are made in ascending order of their weights. depths[] is that of the inner nodes, from the root down. */
GCONV_BOTH void gconv_huffman_count_depths(gconv_huffman_room *room, int used) {
  const uint64_t *sorted = room->sorted;
  uint64_t *weights = room->weights;
  int *parents = room->parents, *depths = room->depths;
  int leaf = 0, inner = 0;
  for (int made = 0; made < used - 1; made++) {
    weights[made] = 0;
    for (int child = 0; child < 2; child++) {
      if (leaf < used && (inner == made || (sorted[leaf] >> 16) <= weights[inner])) {
        weights[made] += sorted[leaf] >> 16;
        parents[leaf++] = made;
      } else {
        weights[made] += weights[inner];
        parents[used + inner++] = made;
      }
    }
  }
  depths[used - 2] = 0;
  for (int i = used - 3; i >= 0; i--)
    depths[i] = depths[parents[used + i]] + 1;
  for (int i = 0; i <= used; i++)
    room->of_length[i] = 0;
  for (int i = 0; i < used; i++)
    room->of_length[depths[parents[i]] + 1]++;
}

/* Shortens codes over `longest` to it, then makes room for them: `excess` is by how many codes of that length Kraft's sum is
 * above 1. A code of the next shorter length made one longer takes another beside it, which frees one place. */
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

/* Lengths, as gconv_huffman_lengths() sets them, of the `used` symbols, two or more, that room->sorted has. */
GCONV_BOTH void gconv_huffman_lengths_of_sorted(gconv_huffman_room *room, int used, int symbols, int longest,
                                                uint8_t *lengths) {
  gconv_huffman_count_depths(room, used);
  for (int i = used + 1; i <= longest; i++)
    room->of_length[i] = 0;
  gconv_huffman_limit_lengths(room->of_length, used, longest);
  for (int i = 0; i < symbols; i++)
    lengths[i] = 0;
  for (int length = longest, i = 0; length > 0; length--) /* the rarest symbols get the longest codes */
    for (int k = 0; k < room->of_length[length]; k++)
      lengths[room->sorted[i++] & 0xffff] = (uint8_t)length;
}

GCONV_BOTH uint16_t gconv_huffman_reverse(unsigned code, int length) {
  unsigned reversed = 0;
  for (int i = 0; i < length; i++, code >>= 1)
    reversed = reversed << 1 | (code & 1);
  return (uint16_t)reversed;
}

GCONV_BOTH void gconv_huffman_codes_body(const uint8_t *lengths, int symbols, uint16_t *codes) {
  unsigned of_length[GCONV_HUFFMAN_LONGEST + 1] = {0}, next[GCONV_HUFFMAN_LONGEST + 1] = {0};
  for (int i = 0; i < symbols; i++)
    of_length[lengths[i]]++;
  of_length[0] = 0;
  for (int length = 1; length <= GCONV_HUFFMAN_LONGEST; length++)
    next[length] = (next[length - 1] + of_length[length - 1]) << 1;
  for (int i = 0; i < symbols; i++)
    codes[i] = lengths[i] ? gconv_huffman_reverse(next[lengths[i]]++, lengths[i]) : 0;
}

#endif
