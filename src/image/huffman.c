/* SPDX-License-Identifier: MIT */
#include "image/huffman.h"

#include <string.h>

/* The used symbols as count << 16 | symbol in ascending order of counts, and of symbols among equals, so that one set of
 * counts has one code on every machine; returns how many. Sorted by digits of eight bits, the lowest first. */
static int sort_used(const uint32_t *counts, int symbols, uint64_t *sorted) {
  enum { DIGITS = 256 };
  uint64_t other[GCONV_HUFFMAN_SYMBOLS], *from = sorted, *to = other;
  uint32_t all = 0; /* bits that any count has */
  int used = 0;
  for (int i = 0; i < symbols; i++)
    if (counts[i] > 0) {
      sorted[used++] = (uint64_t)counts[i] << 16 | (uint64_t)i;
      all |= counts[i];
    }
  for (int i = 0; used < 2; i++) /* as many as it takes to have two: each stands for a count of 1 */
    if (counts[i] == 0)
      sorted[used++] = UINT64_C(1) << 16 | (uint64_t)i;
  for (int shift = 16; shift < 48 && all >> (shift - 16) > 0; shift += 8) {
    int places[DIGITS + 1] = {0};
    for (int i = 0; i < used; i++)
      places[(from[i] >> shift) % DIGITS + 1]++;
    for (int digit = 0; digit < DIGITS; digit++)
      places[digit + 1] += places[digit];
    for (int i = 0; i < used; i++)
      to[places[(from[i] >> shift) % DIGITS]++] = from[i];
    uint64_t *swapped = from;
    from = to;
    to = swapped;
  }
  if (from != sorted)
    memcpy(sorted, from, (size_t)used * sizeof sorted[0]);
  return used;
}

/* How many codes there are of each length in Huffman's tree over `used` sorted weights. Two queues: the leaves, and the
 * inner nodes, which are made in ascending order of their weights. depth[] is that of the inner nodes, from the root down.
 */
static void count_depths(const uint64_t *sorted, int used, int *of_length) {
  uint64_t weights[GCONV_HUFFMAN_SYMBOLS];
  int parents[2 * GCONV_HUFFMAN_SYMBOLS] = {0}, depths[GCONV_HUFFMAN_SYMBOLS];
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
  for (int i = 0; i < used; i++)
    of_length[depths[parents[i]] + 1]++;
}

/* Shortens codes over `longest` to it, then makes room for them: `excess` is by how many codes of that length Kraft's sum is
 * above 1. A code of the next shorter length made one longer takes another beside it, which frees one place. */
static void limit_lengths(int *of_length, int deepest, int longest) {
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

void gconv_huffman_lengths(const uint32_t *counts, int symbols, int longest, uint8_t *lengths) {
  uint64_t sorted[GCONV_HUFFMAN_SYMBOLS];
  int of_length[GCONV_HUFFMAN_SYMBOLS + 1] = {0};
  int used = sort_used(counts, symbols, sorted);
  count_depths(sorted, used, of_length);
  limit_lengths(of_length, used, longest);
  memset(lengths, 0, (size_t)symbols);
  for (int length = longest, i = 0; length > 0; length--) /* the rarest symbols get the longest codes */
    for (int k = 0; k < of_length[length]; k++)
      lengths[sorted[i++] & 0xffff] = (uint8_t)length;
}

static uint16_t reverse_bits(unsigned code, int length) {
  unsigned reversed = 0;
  for (int i = 0; i < length; i++, code >>= 1)
    reversed = reversed << 1 | (code & 1);
  return (uint16_t)reversed;
}

void gconv_huffman_codes(const uint8_t *lengths, int symbols, uint16_t *codes) {
  unsigned of_length[GCONV_HUFFMAN_LONGEST + 1] = {0}, next[GCONV_HUFFMAN_LONGEST + 1] = {0};
  for (int i = 0; i < symbols; i++)
    of_length[lengths[i]]++;
  of_length[0] = 0;
  for (int length = 1; length <= GCONV_HUFFMAN_LONGEST; length++)
    next[length] = (next[length - 1] + of_length[length - 1]) << 1;
  for (int i = 0; i < symbols; i++)
    codes[i] = lengths[i] ? reverse_bits(next[lengths[i]]++, lengths[i]) : 0;
}
