/* SPDX-License-Identifier: MIT */
/* What the files of gconv compare share: cmd_compare.c compares, compare_pairs.c pairs files, compare_report.c reports. */
#pragma once

#include "base/json.h"
#include "cli/command.h"

/* Two files to compare, and their difference. */
typedef struct gconv_pair {
  const char *a, *b;   /* paths; NULL: this folder has no such file */
  const char *name;    /* the pair's name in the folders */
  const char *picture; /* the picture to write; NULL: none */
  json_t *frames;      /* owned: with --json, if images have several frames */
  gconv_status status; /* status of the comparison */
  char *error;         /* owned: why the files could not be compared; NULL: no error */
  gconv_difference found;
} gconv_pair;

typedef struct gconv_compare_settings {
  gconv_common common;
  const char *suffix; /* suffix of the names of pictures; NULL: none */
  double tolerance;   /* the largest difference allowed, where 1 is white */
} gconv_compare_settings;

typedef struct gconv_comparison {
  const gconv_compare_settings *settings;
  gconv_device *device;
  FILE *out; /* where the report goes: standard output, unless a picture goes there */
  gconv_inputs sides[2];
  bool folders;
  gconv_pair *pairs; /* owned */
  size_t count;
  gconv_outputs pictures;
} gconv_comparison;

/* ---- compare_pairs.c ---- */

/* Fills c->pairs from c->sides. Files of folders are pairs if their names are equal, with or without extensions. Each file
 * without a partner is a pair by itself. Pairs are sorted by name. */
gconv_status gconv_compare_find_pairs(gconv_comparison *c);

/* Names a picture for each pair, as -o says. */
gconv_status gconv_compare_name_pictures(gconv_comparison *c);

/* ---- compare_report.c ---- */

/* True if a sample differs by more than the tolerance, or a file is missing. */
bool gconv_compare_is_above(const gconv_comparison *c, const gconv_pair *p);

/* Prints the numbers of a frame, or of a pair, on one line. */
void gconv_compare_print_line(FILE *out, const gconv_difference *found);

/* Prints the numbers of a pair, one a line. */
void gconv_compare_print_all(FILE *out, const gconv_pair *p);

/* Prints a pair of folders on one line. */
void gconv_compare_print_pair(const gconv_comparison *c, const gconv_pair *p);

/* Prints the last line of a report on folders. */
void gconv_compare_print_folders(const gconv_comparison *c);

/* Returns the numbers as a new JSON object, which the caller owns. */
json_t *gconv_compare_describe(const gconv_difference *found);

/* Prints all pairs as one JSON document. If memory runs out, prints an error and returns false. */
bool gconv_compare_print_json(const gconv_comparison *c);
