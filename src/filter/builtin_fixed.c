/* SPDX-License-Identifier: MIT */
/* Filters of fixed small integers, for correlation. The response of an x filter is positive where the image becomes brighter
 * to the right. The response of a y filter is positive where it becomes brighter downwards. OpenCV has the same signs.
 * MATLAB's fspecial('sobel') and fspecial('prewitt') are the negatives of sobel_y and prewitt_y: they are positive where the
 * image becomes brighter upwards. */
#include "base/memory.h"
#include "filter/builtin.h"

#include <string.h>

static gconv_status make_fixed(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  gconv_filter *filter;
  GCONV_TRY(gconv_filters_add(list, self->side, self->side, &filter));
  for (int32_t i = 0; i < self->side * self->side; i++)
    filter->taps[i] = self->taps[i];
  return GCONV_OK;
}

#define FIXED(name_, also_, side_, help_, ...)                                                                              \
  const gconv_builtin gconv_builtin_##name_ = {.name = #name_,                                                              \
                                               .also = also_,                                                               \
                                               .help = help_,                                                               \
                                               .make = make_fixed,                                                          \
                                               .side = side_,                                                               \
                                               .taps = (const int8_t[(side_) * (side_)]){__VA_ARGS__}}

/* clang-format off */
FIXED(sobel_x, NULL, 3, "horizontal derivative, smoothed 1 2 1 (Sobel; OpenCV's dx = 1; answers to vertical edges)",
      -1, 0, 1,
      -2, 0, 2,
      -1, 0, 1);
FIXED(sobel_y, NULL, 3, "vertical derivative, smoothed 1 2 1 (Sobel; OpenCV's dy = 1; the negative of fspecial's sobel)",
      -1, -2, -1,
       0,  0,  0,
       1,  2,  1);
FIXED(prewitt_x, NULL, 3, "horizontal derivative, smoothed 1 1 1 (Prewitt)",
      -1, 0, 1,
      -1, 0, 1,
      -1, 0, 1);
FIXED(prewitt_y, NULL, 3, "vertical derivative, smoothed 1 1 1 (Prewitt; the negative of fspecial's prewitt)",
      -1, -1, -1,
       0,  0,  0,
       1,  1,  1);
FIXED(scharr_x, NULL, 3, "horizontal derivative, smoothed 3 10 3 (Scharr; OpenCV's dx = 1)",
       -3, 0,  3,
      -10, 0, 10,
       -3, 0,  3);
FIXED(scharr_y, NULL, 3, "vertical derivative, smoothed 3 10 3 (Scharr; OpenCV's dy = 1)",
      -3, -10, -3,
       0,   0,  0,
       3,  10,  3);
FIXED(roberts_x, NULL, 2, "falling diagonal difference (Roberts' cross, first)",
      1,  0,
      0, -1);
FIXED(roberts_y, NULL, 2, "rising diagonal difference (Roberts' cross, second)",
       0, 1,
      -1, 0);
FIXED(laplacian_4, "laplace", 3, "Laplacian of the 4 nearest neighbours (laplacian:alpha=0; OpenCV's Laplacian, ksize 1)",
      0,  1, 0,
      1, -4, 1,
      0,  1, 0);
FIXED(laplacian_8, NULL, 3, "Laplacian of all 8 neighbours (laplacian:alpha=0.5, times 3)",
      1,  1, 1,
      1, -8, 1,
      1,  1, 1);
FIXED(emboss, "relief", 3, "relief lit from the top left; sum 1",
      -2, -1, 0,
      -1,  1, 1,
       0,  1, 2);
/* clang-format on */

/* ---- Pairs ---- */

/* Appends the filters NAME_x and NAME_y. */
static gconv_status make_pair(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  for (int i = 0; i < 2; i++) {
    char name[16];
    snprintf(name, sizeof name, "%s_%c", self->name, i == 0 ? 'x' : 'y');
    GCONV_TRY(make_fixed(gconv_builtin_find(name), arguments, list));
    gconv_filter *filter = &list->items[list->count - 1];
    if (!(filter->name = strdup(name)))
      return gconv_fail(GCONV_NO_MEMORY, "no memory for the name of a filter");
  }
  return GCONV_OK;
}

#define PAIR(name_)                                                                                                         \
  const gconv_builtin gconv_builtin_##name_ = {.name = #name_,                                                              \
                                               .gradient = true,                                                            \
                                               .help = "edges in all directions: the magnitude of " #name_ "_x and " #name_ \
                                                       "_y; both by combine none",                                          \
                                               .make = make_pair}

PAIR(prewitt);
PAIR(roberts);
PAIR(scharr);
PAIR(sobel);

/* ---- Kirsch's compass ---- */

#define DIRECTIONS "n ne e se s sw w nw"
enum { DIRECTION_COUNT = 8 };

/* Appends the filter of direction d, clockwise from north. The three 5s lie on that side of the rim. */
static gconv_status add_kirsch(int d, const char *direction, gconv_filters *list) {
  static const int rim[DIRECTION_COUNT] = {1, 2, 5, 8, 7, 6, 3, 0}; /* places n, ne, e, ... of a 3 x 3 */
  gconv_filter *filter;
  GCONV_TRY(gconv_filters_add(list, 3, 3, &filter));
  for (int i = 0; i < DIRECTION_COUNT; i++) {
    int apart = (i - d + DIRECTION_COUNT) % DIRECTION_COUNT;
    filter->taps[rim[i]] = apart <= 1 || apart == DIRECTION_COUNT - 1 ? 5 : -3;
  }
  filter->name = gconv_format_text("kirsch_%.*s", (int)strcspn(direction, " "), direction);
  return filter->name ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for the name of a filter");
}

static gconv_status make_kirsch(const gconv_builtin *self, const gconv_argument *arguments, gconv_filters *list) {
  const char *direction = DIRECTIONS;
  for (int d = 0; d < DIRECTION_COUNT; d++) {
    if (arguments[0].choice == 0 || arguments[0].choice == d + 1)
      GCONV_TRY(add_kirsch(d, direction, list));
    direction += strcspn(direction, " ") + 1;
  }
  return GCONV_OK;
}

const gconv_builtin gconv_builtin_kirsch = {
    .name = "kirsch",
    .help = "compass edges, 5 against -3: all 8 directions, clockwise from north, or one of them (Kirsch)",
    .parameters = {{"direction", GCONV_PARAMETER_CHOICE, "all", 0, 0, "all " DIRECTIONS}},
    .make = make_kirsch,
};
