/* SPDX-License-Identifier: MIT */
/* Notes of models about the columns of tables. */
#include "bank/column_notes.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

static bool copy_numbers(const double *from, size_t count, double **copy) {
  *copy = from ? malloc(count * sizeof **copy) : NULL;
  if (*copy)
    memcpy(*copy, from, count * sizeof **copy);
  return *copy || !from;
}

static bool copy_names(char *const *from, size_t count, char ***copy) {
  *copy = from ? calloc(count, sizeof **copy) : NULL;
  bool good = *copy || !from;
  for (size_t i = 0; i < count && from && good; i++)
    good = ((*copy)[i] = strdup(from[i])) != NULL;
  return good;
}

gconv_status gconv_column_notes_copy(const gconv_column_notes *notes, gconv_column_notes *copy) {
  gconv_column_notes made = {.count = notes->count};
  if (notes->count > 0 &&
      !(copy_names(notes->names, made.count, &made.names) && copy_numbers(notes->means, made.count, &made.means) &&
        copy_numbers(notes->deviations, made.count, &made.deviations) &&
        copy_numbers(notes->origins, made.count, &made.origins))) {
    gconv_column_notes_free(&made);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for what is known of %zu columns", notes->count);
  }
  *copy = made;
  return GCONV_OK;
}

void gconv_column_notes_free(gconv_column_notes *notes) {
  for (size_t i = 0; notes->names && i < notes->count; i++)
    free(notes->names[i]);
  free(notes->names);
  free(notes->means);
  free(notes->deviations);
  free(notes->origins);
  *notes = (gconv_column_notes){0};
}
