/* SPDX-License-Identifier: MIT */
/*
 * Inflate (RFC 1951) for pixels: fast, and in parts of any size, of its input as of its output.
 *
 * What it accepts, zlib accepts, with the same bytes; what zlib refuses, it refuses.
 *
 * It can also begin in the middle of a stream, at a block that it finds, where nobody knows yet what lies before: what
 * matches copy from there are markers, so that the output is 16 bits a symbol until these are resolved. So several threads
 * can inflate one stream, if each begins where the one before it stops.
 */
#ifndef GCONV_IMAGE_INFLATE_H
#define GCONV_IMAGE_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  GCONV_INFLATE_WINDOW = 32768,    /* bytes that matches reach back */
  GCONV_INFLATE_MARGIN = 512,      /* of input, see below: more than the head of a block takes */
  GCONV_INFLATE_BEYOND = 320,      /* bytes that may be written behind a limit: a match, and what is copied in vain */
  GCONV_INFLATE_LITERAL_BITS = 11, /* of the index of tables: 8 KB and 2 KB, in the nearest cache */
  GCONV_INFLATE_DISTANCE_BITS = 9,
};

typedef enum gconv_inflated {
  GCONV_INFLATED_FULL,   /* the limit is reached, or passed by less than GCONV_INFLATE_BEYOND */
  GCONV_INFLATED_HUNGRY, /* all but the last of the input, GCONV_INFLATE_MARGIN bytes and some, is used, and `last` is false
                          */
  GCONV_INFLATED_BLOCK,  /* before the head of a block that is not the first: only with `pauses`, once a block */
  GCONV_INFLATED_ENDED,  /* `next` is behind the last byte of the stream */
  GCONV_INFLATED_WRONG,  /* not a deflate stream, or cut */
} gconv_inflated;

/* How the codewords of a code are decoded that are longer than the index of its table. */
typedef struct gconv_inflate_code {
  uint16_t sorted[288]; /* symbols by codewords */
  uint32_t symbols;     /* of them */
  uint16_t first[16];   /* codeword of each length, and its place in `sorted` */
  uint16_t place[16];
  uint32_t limit[16]; /* behind the last codeword of each length, with zeros to 15 bits */
} gconv_inflate_code;

/* Begins as zeros. */
typedef struct gconv_inflater {
  /* The caller's: input, with GCONV_INFLATE_MARGIN readable bytes behind its end; `next` moves. */
  const uint8_t *next, *end;
  bool last;   /* nothing follows `end` */
  bool pauses; /* between blocks */
  bool wide;   /* output is uint16_t */
  /* Output: goes to `out`, which moves; what is there from `begin` on may be copied by matches. */
  const uint8_t *begin;
  uint8_t *out;

  /* Its own. */
  uint64_t bits;               /* read, not yet used: the lowest 0 to 63 */
  uint32_t held;               /* how many; its low 6 bits count */
  bool final, in_coded, fixed; /* the block is the last one; has codes; these are the fixed ones */
  bool paused;
  uint32_t stored; /* bytes that are left of a stored block */
  gconv_inflate_code literal_code, distance_code;
  uint32_t literals[1 << GCONV_INFLATE_LITERAL_BITS], distances[1 << GCONV_INFLATE_DISTANCE_BITS];
} gconv_inflater;

/* Goes on until `out` is at `limit` or behind it, or as far as it can. There is room for GCONV_INFLATE_BEYOND bytes, or
 * uint16_t, behind the limit. */
gconv_inflated gconv_inflate(gconv_inflater *inflater, const uint8_t *limit);

/* Bits of input before the next one, counted from `input`; between calls. */
size_t gconv_inflate_position(gconv_inflater *inflater, const uint8_t *input);

/* Begins at the first block between `next` and `until` that has codes of its own and is not the last, at whatever bit; false
 * if there is none. What looks like one is hardly ever anything else, but may be. *position is as above, from `next`. */
bool gconv_inflate_find(gconv_inflater *inflater, const uint8_t *until, size_t *position);

#endif
