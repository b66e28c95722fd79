/* SPDX-License-Identifier: MIT */
/* Prefix codes of deflate (RFC 1951, 3.2.2): lengths from counts, codes from lengths. */
#ifndef GCONV_IMAGE_HUFFMAN_H
#define GCONV_IMAGE_HUFFMAN_H

#include <stddef.h>
#include <stdint.h>

enum { GCONV_HUFFMAN_SYMBOLS = 286, GCONV_HUFFMAN_LONGEST = 15 };

/* Finds the lengths of a prefix code for `symbols` (2 to GCONV_HUFFMAN_SYMBOLS) with these counts. No length is above
 * `longest` (at most GCONV_HUFFMAN_LONGEST, and 2^longest >= symbols). Symbols with count 0 get length 0; but at least two
 * symbols get a code, because not all decoders accept a code of one. The code is complete. It is optimal unless `longest`
 * limits it. The sum of all counts is below 2^32. */
void gconv_huffman_lengths(const uint32_t *counts, int symbols, int longest, uint8_t *lengths);

/* Finds the canonical codes of these lengths, with bits reversed, as deflate writes them. */
void gconv_huffman_codes(const uint8_t *lengths, int symbols, uint16_t *codes);

#endif
