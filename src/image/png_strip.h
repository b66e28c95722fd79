/* SPDX-License-Identifier: MIT */
/*
 * Decides for the strips of a PNG: their rows, their filter, and whether matches are looked for. This header,
 * png_filter.h, huffman.h, png_deflate.h, png_cut.h and png_bits.h are compiled for the host (png_encode.c) and for CUDA
 * (codec_cuda/png.cu), so that both make the same bytes of an image.
 */
#pragma once

#include "base/both.h"
#include "image/png_deflate.h"
#include "image/png_filter.h"

#include <stdbool.h>
#include <stddef.h>

/* The bytes of the parts of a strip's chunk, and the compression level for which our own deflate is used. */
enum {
  GCONV_PNG_CHUNK_HEAD = 8,  /* length and type */
  GCONV_PNG_CHUNK_TAIL = 4,  /* CRC */
  GCONV_PNG_STREAM_HEAD = 2, /* head of the zlib stream; only the first strip has it */
  GCONV_PNG_FAST_LEVEL = 1,
};

/* Returns the stream head (RFC 1950): deflate, a window of 32 KB, and how hard the compressor tried; its upper byte is
 * first. */
GCONV_BOTH unsigned gconv_png_stream_head(int level) {
  const unsigned effort = level < 2 ? 0 : level < 6 ? 1 : level == 6 ? 2 : 3, head = 0x7800 | effort << 6;
  return head + 31 - head % 31;
}

/* Returns the most bytes of the chunk of a strip whose lines have `size` bytes. */
GCONV_BOTH size_t gconv_png_chunk_bound(size_t size) {
  return GCONV_PNG_CHUNK_HEAD + GCONV_PNG_STREAM_HEAD + gconv_png_deflate_bound(size) + GCONV_PNG_CHUNK_TAIL;
}

/* Returns the rows of each strip; the last strip may have fewer. `line`: bytes of a row with the number of its filter. */
GCONV_BOTH size_t gconv_png_strip_rows(size_t line, size_t height) {
  const size_t strip_bytes = 768 * 1024, rows = strip_bytes / line + 1;
  return rows < height ? rows : height;
}

/* Rows in the middle of a strip, on which filters are tried. */
typedef struct gconv_png_sample {
  size_t begin, count;
} gconv_png_sample;

/* Returns the sample of the strip that begins at row `begin` and has `count` rows. */
GCONV_BOTH gconv_png_sample gconv_png_sample_of(size_t line, size_t begin, size_t count) {
  const size_t sample_bytes = 8 * 1024, wanted = sample_bytes / line + 1;
  gconv_png_sample sample;
  sample.count = wanted < count ? wanted : count;
  sample.begin = begin + (count - sample.count) / 2;
  return sample;
}

/*
 * Chooses the filter that makes the sample smallest. Sums of absolute differences, the usual measure, do not see what makes
 * a photo small: the differences of its channels are alike. So the bits of the sample are counted with every filter.
 *
 * Then filters are tried with matches, in GCONV_PNG_FILTERS turns. Filters that cannot win by matches are skipped:
 *     choice = gconv_png_choice_begin(bits without matches);
 *     for each turn: filter = gconv_png_choice_turn(); if gconv_png_choice_wants(), count the bits with matches;
 *         gconv_png_choice_take().
 */
typedef struct gconv_png_choice {
  uint64_t literals[GCONV_PNG_FILTERS]; /* the bits of the sample without matches */
  uint64_t fewest, least;               /* the fewest bits without matches; the fewest so far, with matches or without */
  int first, best;                      /* the filter that makes `fewest` bits; the one that makes `least` */
  bool matches;                         /* matches are looked for in the strip */
  bool pay;                             /* matches pay with some filter that was tried */
} gconv_png_choice;

GCONV_BOTH gconv_png_choice gconv_png_choice_begin(const uint64_t *literals) {
  gconv_png_choice choice;
  choice.fewest = choice.least = UINT64_MAX;
  choice.first = choice.best = GCONV_PNG_NONE;
  choice.matches = choice.pay = false;
  for (int filter = GCONV_PNG_NONE; filter < GCONV_PNG_FILTERS; filter++) {
    choice.literals[filter] = literals[filter];
    if (literals[filter] < choice.fewest) {
      choice.fewest = literals[filter];
      choice.first = filter;
    }
  }
  return choice;
}

/* Returns the filter of a turn: first the best without matches, then the others from 0 on. */
GCONV_BOTH int gconv_png_choice_turn(const gconv_png_choice *choice, int turn) {
  return turn == 0 ? choice->first : turn - (turn <= choice->first);
}

/* Returns whether matches are tried with this filter. `pay`: matches pay with a filter that was tried before. A drawing is
 * smallest with matches and no filter, even if a filter halves the bits without matches. */
GCONV_BOTH bool gconv_png_choice_wants(const gconv_png_choice *choice, int filter, bool pay) {
  const uint64_t bits = choice->literals[filter], fewest = choice->fewest;
  const bool near = bits - fewest <= fewest / 3, drawing = filter == GCONV_PNG_NONE && (pay || bits / 2 < fewest);
  return filter == choice->first || (pay && near) || drawing;
}

/* Takes the result of a turn. `with`: the bits of the sample with this filter and matches, if matches were tried. */
GCONV_BOTH void gconv_png_choice_take(gconv_png_choice *choice, int filter, bool tried, uint64_t with) {
  const bool matches = tried && gconv_png_matches_pay(with, choice->literals[filter]);
  const uint64_t bits = matches ? with : choice->literals[filter];
  choice->pay = choice->pay || matches;
  if (bits < choice->least) {
    choice->least = bits;
    choice->best = filter;
    choice->matches = matches;
  }
}
