/* SPDX-License-Identifier: MIT */
/* Built-in filters. Each is a descriptor in builtin_smooth.c, builtin_psf.c, builtin_edge.c or builtin_fixed.c, and a row in
 * builtins.def. Its parameters are declared once, in the descriptor: parsing, errors and help follow from them. */
#pragma once

#include "filter/filter.h"

enum { GCONV_PARAMETERS = 6 };

typedef enum gconv_parameter_kind {
  GCONV_PARAMETER_NUMBER,
  GCONV_PARAMETER_PAIR,  /* "3", or "3x1": 3 down, 1 across */
  GCONV_PARAMETER_SIZE,  /* "9", or "3x5": 3 rows, 5 columns; "auto" where min is 0 */
  GCONV_PARAMETER_CHOICE /* one of the words in choices */
} gconv_parameter_kind;

typedef struct gconv_parameter {
  const char *name; /* NULL ends the parameters */
  gconv_parameter_kind kind;
  const char *standard; /* the default, in the notation of the user */
  double min, max;      /* limits of a number, of both numbers of a pair, or of both sides of a size; inclusive */
  const char *choices;  /* words separated by blanks */
} gconv_parameter;

typedef struct gconv_argument {
  bool given;
  double number;         /* a number, or the first number of a pair, down */
  double across;         /* the second number of a pair */
  int32_t rows, columns; /* a size; 0 for "auto" */
  int choice;            /* the number of a choice: 0 is the first */
} gconv_argument;

typedef struct gconv_builtin gconv_builtin;
struct gconv_builtin {
  const char *name, *help;
  const char *also; /* other names of the same filter, with blanks between; NULL: none */
  bool gradient;    /* it is two derivatives; if the list has no other filter, the result is their magnitude */
  gconv_parameter parameters[GCONV_PARAMETERS + 1];
  /* Appends the filter. The arguments are in the order of the parameters. */
  gconv_status (*make)(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list);
  int32_t side;       /* rows, and columns, of fixed taps */
  const int8_t *taps; /* side * side, by rows; NULL if they are computed */
};

/* Returns the built-in filter that `spec` names, "gaussian" or "gaussian:...", or NULL. */
const gconv_builtin *gconv_builtin_find(const char *spec);

/* Returns the built-in filter one of whose names `spec` has, in any case, with or without '_' and '-': "Sobel-X",
 * "box:size=5". NULL: there is none. */
const gconv_builtin *gconv_builtin_find_like(const char *spec);

/* Returns the parameters of the filter called `name` with their defaults, "size=3,sigma=0.5"; "" if it has none, or if there
 * is no such filter. */
const char *gconv_builtin_parameters(const char *name);

/* Appends the filter that `spec` describes, such as "gaussian:size=9,sigma=2". */
gconv_status gconv_builtin_make(const gconv_builtin *builtin, const char *spec, gconv_filters *list);

/* A plane of float64 for computing a filter. */
typedef struct gconv_plane {
  int32_t rows, columns;
  size_t count;   /* rows * columns */
  double *values; /* owned; all 0 at the beginning */
} gconv_plane;

/* Checks the size, and begins a plane. After success, call gconv_plane_finish() or gconv_plane_drop(). */
gconv_status gconv_plane_begin(const gconv_builtin *self, int32_t rows, int32_t columns, gconv_plane *plane);
void gconv_plane_drop(gconv_plane *plane);
/* Appends the plane, rounded once to float32, and frees it. */
gconv_status gconv_plane_finish(gconv_plane *plane, gconv_filters *list);

/* gconv_plane_y() and gconv_plane_x() return the distance of row r, and of column s, from the middle of a plane: n + 1/2 if
 * the size is even. */
static inline double gconv_plane_y(const gconv_plane *plane, int32_t r) {
  return r - (plane->rows - 1) / 2.0;
}
static inline double gconv_plane_x(const gconv_plane *plane, int32_t s) {
  return s - (plane->columns - 1) / 2.0;
}
void gconv_plane_normalise(gconv_plane *plane);
/* Fills the plane with a Gaussian of sum 1, with the standard deviations `down` and `across`. Values below 2^-52 of its peak
 * become 0, as in fspecial. */
void gconv_plane_fill_gaussian(gconv_plane *plane, double down, double across);

/* Returns the side of a filter that holds a Gaussian up to 3 sigma: 2 * ceil(3 * sigma) + 1. */
int32_t gconv_side_of_sigma(double sigma);

/* Begins a plane of the size `size`. If the size is "auto", or only sigma was given, the sides follow from the pair
 * `sigma`. */
gconv_status gconv_plane_begin_gaussian(const gconv_builtin *self, const gconv_argument *size, const gconv_argument *sigma,
                                        gconv_plane *plane);

#define BUILTIN(name) extern const gconv_builtin gconv_builtin_##name;
#include "filter/builtins.def"
#undef BUILTIN
