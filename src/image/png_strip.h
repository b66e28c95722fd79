/* SPDX-License-Identifier: MIT */
/*
 * How the rows of a PNG are cut into strips, and what is decided of each: compiled for the host and for CUDA, so that a file
 * does not tell which of them made it.
 *
 * A strip gets the filter that makes a sample of it smallest. Sums of absolute differences, the usual measure, do not see
 * what makes a photo small: that differences of its channels are alike. Matches are looked for where a filter can win by
 * them: with the one that is best without, with none if that is not far behind, and with the others where these gain. In
 * noise, they reach back over the rows before.
 */
#ifndef GCONV_IMAGE_PNG_STRIP_H
#define GCONV_IMAGE_PNG_STRIP_H

#include "base/both.h"
#include "image/png_deflate.h"
#include "image/png_filter.h"

#include <stdbool.h>
#include <stddef.h>

/* A strip that was made elsewhere than on the host (conv/png_cuda.h). */
typedef struct gconv_png_strip {
  uint64_t offset; /* where its chunk begins in the bytes that were made */
  uint32_t size;   /* of the chunk, an IDAT from its length to its CRC; 0: it was not made, and is left to the host */
  uint32_t adler;  /* of its lines, beginning with 1 */
  int32_t first_row, rows;
} gconv_png_strip;

/* The rows of each strip but the last, which may have fewer. A line is a row with the number of its filter. */
GCONV_BOTH size_t gconv_png_strip_rows(size_t line, size_t height) {
  const size_t strip_bytes = 768 * 1024, rows = strip_bytes / line + 1;
  return rows < height ? rows : height;
}

/* Rows in the middle of a strip that filters are tried on, and those before them that matches may reach back to. */
typedef struct gconv_png_sample {
  size_t begin, count, before;
} gconv_png_sample;

/* That of the strip that begins at row `begin` and has `count` rows. */
GCONV_BOTH gconv_png_sample gconv_png_sample_of(size_t line, size_t begin, size_t count) {
  const size_t sample_bytes = 8 * 1024, window_bytes = 32 * 1024;
  gconv_png_sample sample;
  sample.count = sample_bytes / line + 1;
  sample.before = window_bytes / line + 1;
  sample.count = sample.count < count ? sample.count : count;
  const size_t middle = (count - sample.count) / 2;
  sample.before = sample.before < middle ? sample.before : middle;
  sample.begin = begin + middle;
  return sample;
}

/* A choice of a filter, on its way: filters are tried in GCONV_PNG_FILTERS turns. */
typedef struct gconv_png_choice {
  uint64_t literals[GCONV_PNG_FILTERS]; /* the bits of the sample without matches */
  uint64_t fewest, least;               /* bits without and with matches */
  int first, best;
  gconv_png_content content;
  bool noisy, pay; /* matches do, with a filter tried so far */
} gconv_png_choice;

enum {
  GCONV_PNG_NOISE = 3,        /* bits a byte: in what has more, a sample tells of the strip */
  GCONV_PNG_MATCHES_PAY = 64, /* there, by which part matches must make it smaller, as finding them takes as long as all the
                                 rest */
  GCONV_PNG_RIVAL = 3,        /* by which part more bits of literals matches may still make up for */
  GCONV_PNG_NOISY_RIVAL = 8,
};

/* Begins with the bits that the sample, of `bytes`, takes by each filter without matches. */
GCONV_BOTH gconv_png_choice gconv_png_choice_begin(const uint64_t *literals, size_t bytes) {
  gconv_png_choice choice;
  choice.fewest = choice.least = UINT64_MAX;
  choice.first = choice.best = GCONV_PNG_NONE;
  choice.content = GCONV_PNG_MIXED;
  choice.pay = false;
  for (int filter = GCONV_PNG_NONE; filter < GCONV_PNG_FILTERS; filter++) {
    choice.literals[filter] = literals[filter];
    if (literals[filter] < choice.fewest) {
      choice.fewest = literals[filter];
      choice.first = filter;
    }
  }
  choice.noisy = choice.fewest / GCONV_PNG_NOISE > (bytes < GCONV_PNG_MOST_TRIED ? bytes : (size_t)GCONV_PNG_MOST_TRIED);
  return choice;
}

/* The filter of a turn: the first one first, then the others from 0 on. */
GCONV_BOTH int gconv_png_choice_turn(const gconv_png_choice *choice, int turn) {
  return turn == 0 ? choice->first : turn - (turn <= choice->first);
}

/* Whether matches are tried with this filter, if they pay with one tried before or not. */
GCONV_BOTH bool gconv_png_choice_wants(const gconv_png_choice *choice, int filter, bool pay) {
  const uint64_t bits = choice->literals[filter], fewest = choice->fewest;
  const uint64_t behind = fewest / (choice->noisy ? GCONV_PNG_NOISY_RIVAL : GCONV_PNG_RIVAL);
  const bool rival = (choice->noisy || pay) && bits - fewest <= behind;
  const bool plain = filter == GCONV_PNG_NONE && !choice->noisy && (pay || bits / 2 < fewest);
  return filter == choice->first || rival || plain;
}

/* What this filter makes of the sample: `with` bits where matches were tried, most of which are of one pixel if `single`. */
GCONV_BOTH void gconv_png_choice_take(gconv_png_choice *choice, int filter, bool tried, uint64_t with, bool single) {
  uint64_t bits = choice->literals[filter];
  gconv_png_content content = GCONV_PNG_LITERALS;
  if (tried && with < bits - (choice->noisy ? bits / GCONV_PNG_MATCHES_PAY : 0)) {
    bits = with;
    content = choice->noisy && single ? GCONV_PNG_PIXELS : GCONV_PNG_MIXED;
  }
  choice->pay = choice->pay || content != GCONV_PNG_LITERALS;
  if (bits < choice->least) {
    choice->least = bits;
    choice->best = filter;
    choice->content = content;
  }
}

#endif
