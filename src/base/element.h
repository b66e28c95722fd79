/* SPDX-License-Identifier: MIT */
/* Converts numbers of all types from and to bytes of files. */
#pragma once

#include "base/file.h"

typedef struct gconv_element {
  char kind;    /* 'f' IEEE 754 floating point, 'B' bfloat16, 'u' unsigned, 'i' signed integer, 'b' bool: a byte */
  size_t bytes; /* 1, 2, 4 or 8; for 'f', at least 2; for 'B', only 2 */
  bool big_endian;
} gconv_element;

/* Returns the number at `at`, rounded to float32. If it is too large for that, the result is infinite, with its sign. A bool
 * is 0, or 1 for any byte but 0. */
float gconv_element_read(gconv_element element, const uint8_t *at);

/* Does gconv_element_read() for `count` elements without gaps. */
void gconv_elements_convert(gconv_element element, const uint8_t *bytes, size_t count, float *numbers);

/* Returns the unsigned number of `count` bytes, at most 8. */
uint64_t gconv_bytes_number(const uint8_t *bytes, size_t count, bool big_endian);

/* Returns the level of white in images of this type. Samples are divided by it if white is to be 1. */
static inline double gconv_level_of_white(gconv_type type) {
  return type == GCONV_U8 ? 255 : type == GCONV_U16 ? 65535 : 1;
}

/* Returns whether numbers in memory begin with their most significant byte. */
static inline bool gconv_host_is_big_endian(void) {
  return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
}

/* Reads the next `count` elements of the source as float32. Numbers too large become infinite. `what` is for error texts. */
gconv_status gconv_elements_read(gconv_source *source, gconv_element element, size_t count, const char *what,
                                 float *numbers);

/* Reads the next `count` elements of the source as float64. */
gconv_status gconv_elements_read_doubles(gconv_source *source, gconv_element element, size_t count, const char *what,
                                         double *numbers);

/* What float32 has lost of the numbers of a file. Begin with zeros. */
typedef struct gconv_rounding {
  bool floats, integers; /* a number of float64 was rounded, or an integer beyond 2^24 */
  bool beyond;           /* a number of float64 became infinite */
  bool any;              /* there are finite numbers of float64, from `least` to `most` */
  double least, most;
} gconv_rounding;

/* Adds numbers of float64, which may lie anywhere in memory. */
void gconv_rounding_add(gconv_rounding *r, const void *numbers, size_t count);
/* Adds what was found of other numbers of the file. */
void gconv_rounding_join(gconv_rounding *r, const gconv_rounding *other);
/* Warns of integers that were rounded in the file `name`, and of numbers of float64 that float32 hardly tells apart,
 * or that are beyond its range. */
void gconv_rounding_tell(const gconv_rounding *r, const char *name);

/* What changed when elements were made from samples. */
typedef struct gconv_elements_made {
  uint64_t out_of_range; /* samples beyond the range of the type: int16 gets its nearest value, float16 an infinite one */
  uint64_t nans;         /* NaN that became 0 */
  bool given, stored;    /* whether a sample, and whether an element, is not 0 */
} gconv_elements_made;

/* Makes elements of 2 bytes, in the host's order: int16 (kind 'i') from samples times `unit`, or float16 (kind 'f') from the
 * samples themselves. Rounds to nearest even. NaN becomes 0 in int16. Adds what was changed to *made. */
void gconv_elements_make(char kind, const float *samples, size_t count, double unit, uint16_t *elements,
                         gconv_elements_made *made);
/* Warns of what was changed in the file `name`. */
void gconv_elements_warn(const char *name, char kind, const gconv_elements_made *made);

/* Stores the bits of `value` as 4 bytes, the lowest first. */
void gconv_element_store(float value, uint8_t at[4]);
