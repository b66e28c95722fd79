/* SPDX-License-Identifier: MIT */
/* A TIFF that is being read: tiff_read.c opens it and goes from page to page, tiff_decode.c decodes pixels. */
#pragma once

#include "image/tiff.h"

#include <pthread.h>

enum {
  GCONV_TIFF_MOST_PLANES = 4,
  GCONV_TIFF_RUN_BYTES = 1 << 20 /* bytes of rows that are converted at a time */
};

/* Images of the file that are no pages. */
typedef struct gconv_tiff_left_out {
  int32_t copies, masks; /* reduced copies of pages; masks of their transparency */
  int32_t others;        /* images below pages (SubIFDs) that are neither */
} gconv_tiff_left_out;

/* The workspace of one thread. */
typedef struct gconv_tiff_seat {
  gconv_tiff_file file; /* opened when it is needed */
  int32_t page;         /* number of the page that libtiff is at; -1: none */
  uint8_t *raw, *block, *samples;
  size_t raw_room, block_room, samples_room;
  void *inflate;
  gconv_rounding rounding;
  bool shone; /* colours were lost, as they were larger than their alpha */
} gconv_tiff_seat;

typedef struct gconv_tiff_reading {
  gconv_reader *reader;
  gconv_source bytes; /* a pipe: reads from `buffer` */
  uint8_t *buffer;    /* all bytes of the pipe; owned */
  const gconv_source *source;
  uint64_t *pages; /* positions of the pages' directories; owned */
  int32_t page_count;
  uint64_t blocks, claimed; /* strips and tiles of the pages that were found, and their bytes in the file */
  uint32_t place;           /* a checksum of the first page's place on Earth */
  bool false_layout;        /* the description promises more images than the file has, or than are read */
  bool one_of_several;      /* one page was asked for, and there are others */
  bool places_differ;       /* another page has another place */
  size_t page_bytes;        /* memory that reading takes besides the rows, for the page that takes most */
  int32_t number;           /* number of the first page that is read, from 1; above 1 only if one page was asked for */
  gconv_tiff_left_out left_out;
  gconv_tiff_seat *seats; /* one a thread, or a plane; seats[0] has the file open from the beginning */
  size_t seat_count;
  gconv_tiff_page page; /* the current page, number `at` */
  int32_t at, row;      /* number of the current page, from 0; its next row */
  uint8_t *held;        /* rows held_begin .. held_end - 1 of the current page */
  size_t held_room;
  int32_t held_begin, held_end;

  /* The bands being decoded. */
  uint8_t *rows;
  size_t row_bytes;
  int32_t band;
  pthread_mutex_t lock; /* guards all below */
  gconv_status status;
  char error[600];
} gconv_tiff_reading;

/* Opens the file for this seat if it is not open, and moves its handle to page s->at. If `page` is not NULL, prepares to
 * decode it. */
gconv_status gconv_tiff_turn_to(gconv_tiff_reading *s, gconv_tiff_seat *its, const gconv_tiff_page *page);

/* Begins to read page number `at`, from its first row on. */
gconv_status gconv_tiff_begin_page(gconv_tiff_reading *s, int32_t at);
