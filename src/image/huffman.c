/* SPDX-License-Identifier: MIT */
#include "image/huffman.h"

#include <string.h>

/* Sorts the used symbols as count << 16 | symbol, by ascending counts, and by symbols if counts are equal. So all
 * machines make the same code. Returns how many symbols there are. It is a radix sort by digits of 8 bits, lowest first. */
static int sort_used(const uint32_t *counts, int symbols, uint64_t *sorted) {
  enum { DIGITS = 256 };
  uint64_t other[GCONV_HUFFMAN_SYMBOLS], *from = sorted, *to = other;
  uint32_t all = 0; /* bits that are set in some count */
  int used = 0;
  for (int i = 0; i < symbols; i++)
    if (counts[i] > 0) {
      sorted[used++] = (uint64_t)counts[i] << 16 | (uint64_t)i;
      all |= counts[i];
    }
  for (int i = 0; used < 2; i++) /* adds symbols with a count of 1 until there are two */
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

void gconv_huffman_lengths(const uint32_t *counts, int symbols, int longest, uint8_t *lengths) {
  gconv_huffman_room room;
  int used = sort_used(counts, symbols, room.sorted);
  gconv_huffman_build(&room, used);
  memset(room.of_length, 0, sizeof room.of_length);
  for (int i = 0; i < used; i++)
    room.of_length[room.depths[room.parents[i]] + 1]++;
  gconv_huffman_limit_lengths(room.of_length, used, longest);
  memset(lengths, 0, (size_t)symbols);
  for (int length = longest, i = 0; length > 0; length--) /* the rarest symbols get the longest codes */
    for (int k = 0; k < room.of_length[length]; k++)
      lengths[room.sorted[i++] & 0xffff] = (uint8_t)length;
}

void gconv_huffman_codes(const uint8_t *lengths, int symbols, uint16_t *codes) {
  unsigned of_length[GCONV_HUFFMAN_LONGEST + 1] = {0}, next[GCONV_HUFFMAN_LONGEST + 1] = {0};
  for (int i = 0; i < symbols; i++)
    of_length[lengths[i]]++;
  of_length[0] = 0;
  for (int length = 1; length <= GCONV_HUFFMAN_LONGEST; length++)
    next[length] = (next[length - 1] + of_length[length - 1]) << 1;
  for (int i = 0; i < symbols; i++)
    codes[i] = lengths[i] ? gconv_huffman_reverse(next[lengths[i]]++, lengths[i]) : 0;
}
