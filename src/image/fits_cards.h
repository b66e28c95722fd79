/* SPDX-License-Identifier: MIT */
/* Cards of FITS headers that say more than how the numbers lie: the object, the exposure, places in the sky (WCS). Results
 * that are FITS, too, get those that are true of them. gconv_image.tags has them, with the shape of the image before them.
 */
#pragma once

#include "image/format.h"

enum { GCONV_FITS_CARD = 80 /* letters */ };

/* Cards of a header, in their order. Zero-initialise before first use. */
typedef struct gconv_fits_cards {
  char (*items)[GCONV_FITS_CARD];
  size_t count;
} gconv_fits_cards;

void gconv_fits_free_cards(gconv_fits_cards *cards);

/* Appends a card, but for those that every writer makes by itself. */
gconv_status gconv_fits_add_card(gconv_fits_cards *cards, const char *card);

/* Puts the cards of the first header, which has no image, before those of the image, but for keys that these have, too. Sets
 * *added to false, and adds none, if there are too many to compare. */
gconv_status gconv_fits_add_first(gconv_fits_cards *cards, const gconv_fits_cards *first, bool *added);

/* For open(): gives the reader's header the cards, whose shape is known by now. */
gconv_status gconv_fits_keep_cards(gconv_reader *reader, const gconv_fits_cards *cards);

/* For start(): writes the cards of the header that are true of the image, and warns of others. */
gconv_status gconv_fits_write_cards(gconv_writer *writer);
