/* SPDX-License-Identifier: MIT */
#include "image/fits_cards.h"
#include "base/memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* What gconv_image.tags begins with; the cards follow. */
typedef struct origin {
  char mark[8]; /* GCONV_FITS_MARK */
  int32_t frames, height, width, channels;
} origin;

/* Returns the letters of a card before one of `stops`. No 0 ends a card. */
static size_t length_before(const char *card, const char *stops) {
  size_t length = 0;
  while (length < GCONV_FITS_CARD && !strchr(stops, card[length]))
    length++;
  return length;
}

/* Returns whether the card has one of the keys. In a list, '#' stands for a number and all that follows it. */
static bool has_key(const char *card, const char *const *keys) {
  const size_t length = length_before(card, " =");
  for (; *keys; keys++) {
    const size_t known = strcspn(*keys, "#");
    const bool begins = length >= known && strncmp(card, *keys, known) == 0;
    if (begins && ((*keys)[known] ? isdigit((unsigned char)card[known]) != 0 : length == known))
      return true;
  }
  return false;
}

/* Returns whether every writer makes this card by itself, or it is of the bytes of the file. */
static bool is_of_file(const char *card) {
  static const char *const keys[] = {"SIMPLE",  "XTENSION", "BITPIX", "NAXIS", "NAXIS#", "EXTEND",  "PCOUNT",
                                     "GCOUNT",  "GROUPS",   "BSCALE", "BZERO", "BLANK",  "INHERIT", "CHECKSUM",
                                     "DATASUM", "DATE",     "END",    "",      NULL};
  static const char *const usual[] = {"COMMENT   FITS (Flexible Image Transport System)", "COMMENT   and Astrophysics'"};
  return has_key(card, keys) || strncmp(card, usual[0], strlen(usual[0])) == 0 ||
         strncmp(card, usual[1], strlen(usual[1])) == 0;
}

/* Returns whether the card says where pixels lie: on the sky, or on the detector. */
static bool is_of_place(const char *card) {
  static const char *const keys[] = {
      "CTYPE#",   "CRPIX#",  "CRVAL#",  "CDELT#",  "CUNIT#",  "CROTA#", "CD#",    "PC#",    "PV#",     "PS#",     "CNAME#",
      "CRDER#",   "CSYER#",  "LTV#",    "LTM#",    "A_#",     "B_#",    "AP_#",   "BP_#",   "A_ORDER", "B_ORDER", "AP_ORDER",
      "BP_ORDER", "WCSAXES", "DATASEC", "TRIMSEC", "BIASSEC", "CCDSEC", "AMPSEC", "DETSEC", NULL};
  return has_key(card, keys);
}

/* Returns whether the card is of the numbers, which a filter changes. */
static bool is_of_values(const char *card) {
  return has_key(card, (const char *const[]){"DATAMIN", "DATAMAX", NULL});
}

void gconv_fits_free_cards(gconv_fits_cards *cards) {
  free(cards->items);
  *cards = (gconv_fits_cards){0};
}

gconv_status gconv_fits_add_card(gconv_fits_cards *cards, const char *card) {
  if (is_of_file(card))
    return GCONV_OK;
  GCONV_GROW(cards->items, cards->count, "no memory for a header");
  char *item = cards->items[cards->count++];
  for (int i = 0; i < GCONV_FITS_CARD; i++)
    item[i] = card[i] >= ' ' && card[i] <= '~' ? card[i] : ' ';
  return GCONV_OK;
}

static bool has_same_key(const gconv_fits_cards *cards, const char *card) {
  const size_t length = card[8] == '=' ? 9 : length_before(card, "="); /* up to 80: of HIERARCH */
  bool found = false;
  for (size_t i = 0; i < cards->count && length < GCONV_FITS_CARD && !found; i++)
    found = memcmp(cards->items[i], card, length) == 0;
  return found;
}

gconv_status gconv_fits_add_first(gconv_fits_cards *cards, const gconv_fits_cards *first, bool *added) {
  enum { MOST = 4000 };
  GCONV_ENDED_BY(gconv_fits_free_cards) gconv_fits_cards all = {0};
  bool kept = true;
  *added = first->count <= MOST && cards->count <= MOST;
  for (size_t i = 0; i < first->count && *added; i++) {
    const char *card = first->items[i];
    if (strncmp(card, "CONTINUE", 8) != 0) /* which continues the card before */
      kept = strncmp(card, "COMMENT ", 8) == 0 || strncmp(card, "HISTORY ", 8) == 0 || !has_same_key(cards, card);
    if (kept)
      GCONV_TRY(gconv_fits_add_card(&all, card));
  }
  for (size_t i = 0; i < cards->count && *added; i++)
    GCONV_TRY(gconv_fits_add_card(&all, cards->items[i]));
  if (*added) {
    const gconv_fits_cards old = *cards;
    *cards = all;
    all = old;
  }
  return GCONV_OK;
}

gconv_status gconv_fits_keep_cards(gconv_reader *reader, const gconv_fits_cards *cards) {
  gconv_image *header = &reader->header;
  const size_t bytes = cards->count * GCONV_FITS_CARD;
  const origin from = {GCONV_FITS_MARK, header->frames, header->height, header->width, header->channels};
  if (cards->count == 0 || !gconv_reader_has_room(reader, sizeof from + bytes))
    return GCONV_OK;
  GCONV_ALLOCATE(header->tags, sizeof from + bytes, "a header of FITS");
  memcpy(header->tags, &from, sizeof from);
  memcpy((char *)header->tags + sizeof from, cards->items, bytes);
  header->tags_bytes = sizeof from + bytes;
  return GCONV_OK;
}

gconv_status gconv_fits_write_cards(gconv_writer *writer) {
  const gconv_image *header = writer->header;
  const char *cards = header->tags;
  origin from = {0};
  bool place = false, values = false;
  if (header->tags_bytes < sizeof from)
    return GCONV_OK;
  memcpy(&from, cards, sizeof from);
  const bool same = from.frames == header->frames && from.height == header->height && from.width == header->width &&
                    from.channels == header->channels;
  for (size_t at = sizeof from; at + GCONV_FITS_CARD <= header->tags_bytes; at += GCONV_FITS_CARD) {
    const bool moved = !same && is_of_place(cards + at), changed = is_of_values(cards + at);
    place |= moved;
    values |= changed;
    if (!moved && !changed)
      GCONV_TRY(gconv_sink_write(writer->sink, cards + at, GCONV_FITS_CARD));
  }
  if (place)
    gconv_warn_once("places left out", "%s: places in the sky (WCS) are left out, as the result has another shape",
                    writer->name);
  if (values)
    gconv_warn_once("cards left out", "%s: DATAMIN and DATAMAX are left out, which are of the numbers before", writer->name);
  return GCONV_OK;
}
