/* SPDX-License-Identifier: MIT */
/* An image through the network of a bank job by bands of rows, from the first to the last: while a band is convolved, the
 * rows of the next are read, and the maps of the one before are taken by whoever wants them. */
#ifndef GCONV_BATCH_BANK_PASS_H
#define GCONV_BATCH_BANK_PASS_H

#include "batch/bank_run.h"

/* The stages of a band, which run side by side, each on another band. */
enum { GCONV_PASS_READ, GCONV_PASS_CONVOLVE, GCONV_PASS_TAKE, GCONV_PASS_STAGES };

/* Takes the maps of a band, the first row of which is row `first` of all. False if no more are wanted. */
typedef bool gconv_pass_taker(void *user, const gconv_image *maps, int32_t first);

/* Rows begin .. end - 1 of the input. */
typedef struct gconv_pass_window {
  gconv_image rows; /* owned, or rows of the whole image */
  int32_t begin, end;
} gconv_pass_window;

/* Set the first five, zero the rest. */
typedef struct gconv_bank_pass {
  gconv_bank_run *r; /* whose network is one by rows, for images like `header` */
  const gconv_bank_group *group;
  size_t input;
  gconv_image header;       /* of the input */
  const gconv_image *whole; /* all of it, if it is in memory; NULL: its rows come from the reader */

  gconv_image own; /* the whole, if it was read here */
  gconv_row_reader *reader;
  bool opened;  /* in this pass, or one before */
  int32_t read; /* rows that came from it */

  gconv_image out;     /* header of all rows of the maps */
  int32_t rows, count; /* of the maps in a band; how many bands */
  gconv_pass_window windows[2];
  gconv_image maps[2];
  int32_t step; /* band step is read, the one before convolved, the one before that taken */
  gconv_pass_taker *take;
  void *user;
  bool idle; /* the taker wants no more */

  gconv_status status[GCONV_PASS_STAGES];
  gconv_message why[GCONV_PASS_STAGES];
  double ms[GCONV_PASS_STAGES]; /* of all passes so far */
  gconv_timings timings;        /* likewise */
} gconv_bank_pass;

/* Finds the shapes of the maps, and takes memory for two bands of them and of the input. For gconv_bank_pass_free(), in
 * success and failure. */
gconv_status gconv_bank_pass_prepare(gconv_bank_pass *pass);
void gconv_bank_pass_free(gconv_bank_pass *pass);

/* Carries all bands through the stages, or until the taker wants no more; then what follows in the file is not read. May be
 * called again: the file is opened each time. GCONV_BAD_FILE if it is not the image that it was. */
gconv_status gconv_bank_pass_run(gconv_bank_pass *pass, gconv_pass_taker *take, void *user, gconv_message *why);

#endif
