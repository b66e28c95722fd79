/* SPDX-License-Identifier: MIT */
/* Reads the notes of gconv after the support vectors of a model: names of classes, the scaling of columns and, for pixels,
 * features and colours. LIBSVM does not read them. */
#include "base/memory.h"
#include "data/table.h"
#include "svm/text.h"

#include <string.h>

/* Returns a name without the escapes of put_name() (text.c). The caller frees the name. NULL: no memory. */
static char *copy_name(const char *at) {
  size_t length = strlen(at), used = 0;
  char *name = malloc(length + 1);
  for (size_t i = 0; i < length && name; i++) {
    bool escaped = at[i] == '\\' && i + 1 < length;
    i += escaped;
    name[used++] = (char)(escaped && at[i] == 'n' ? '\n' : escaped && at[i] == 'r' ? '\r' : at[i]);
  }
  if (name)
    name[used] = '\0';
  return name;
}

static gconv_status read_class(gconv_svm_reading *r, const char *at) {
  if (r->named >= r->classes)
    return gconv_lines_fail(&r->lines, "class number %zu, where nr_class is %llu", r->named + 1,
                            (unsigned long long)r->classes);
  char **names = gconv_grown(r->names, r->named, sizeof *names), *name = copy_name(at);
  r->names = names ? names : r->names;
  if (!names || !name) {
    free(name);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the names of classes");
  }
  names[r->named++] = name;
  return GCONV_OK;
}

static gconv_status read_label(gconv_svm_reading *r, const char *at) {
  if (r->model->label)
    return gconv_lines_fail(&r->lines, "a second line label");
  r->model->label = copy_name(at);
  return r->model->label ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a model");
}

/* Reads "column I MEAN DEVIATION ORIGIN NAME". Memory grows with the lines that are read, not with the number of columns
 * that the file claims. */
static gconv_status read_column(gconv_svm_reading *r, char *at) {
  gconv_column_notes *notes = &r->model->notes;
  uint64_t index;
  double numbers[3];
  bool good = gconv_svm_text_count(&at, r->most_columns, &index) && index == notes->count + 1;
  for (int k = 0; k < 3 && good; k++)
    good = gconv_svm_text_number(&at, &numbers[k]);
  if (!good || !(numbers[1] >= 0))
    return gconv_lines_fail(
        &r->lines, "expected the number of the column, %zu, its mean, deviation and origin, and its name", notes->count + 1);
  GCONV_GROW(notes->names, notes->count, "no memory for a model");
  GCONV_GROW(notes->means, notes->count, "no memory for a model");
  GCONV_GROW(notes->deviations, notes->count, "no memory for a model");
  GCONV_GROW(notes->origins, notes->count, "no memory for a model");
  char *name = copy_name(at + (*at == ' '));
  GCONV_NEED_MEMORY(name, "no memory for a model");
  notes->means[notes->count] = numbers[0];
  notes->deviations[notes->count] = numbers[1];
  notes->origins[notes->count] = numbers[2];
  notes->names[notes->count++] = name;
  return GCONV_OK;
}

/* Removes names if all are empty, and origins if all are 0: put_columns() writes them so if there are none. */
static void settle_columns(gconv_column_notes *notes) {
  bool names = false, origins = false;
  for (size_t c = 0; c < notes->count; c++) {
    names = names || notes->names[c][0];
    origins = origins || notes->origins[c] != 0;
  }
  for (size_t c = 0; !names && c < notes->count; c++)
    free(notes->names[c]);
  if (!names) {
    free(notes->names);
    notes->names = NULL;
  }
  if (!origins) {
    free(notes->origins);
    notes->origins = NULL;
  }
}

static gconv_status read_scale(gconv_svm_reading *r, char *at) {
  gconv_svm_range *range = &r->model->range;
  if (r->has_scale)
    return gconv_lines_fail(&r->lines, "a second line scale");
  r->has_scale = true;
  bool good = gconv_svm_text_number(&at, &range->lower) && gconv_svm_text_number(&at, &range->upper);
  at += strspn(at, GCONV_SVM_BLANKS);
  bool standard = strcmp(at, "standard") == 0;
  if (!good || !(standard || gconv_svm_text_is_end(at)) || range->lower >= range->upper)
    return gconv_lines_fail(&r->lines, "scale: expected two numbers, the second above the first");
  r->model->info.scaling = standard           ? GCONV_SVM_SCALE_STANDARD
                           : range->lower < 0 ? GCONV_SVM_SCALE_SYMMETRIC
                                              : GCONV_SVM_SCALE_UNIT;
  return GCONV_OK;
}

static gconv_status read_features(gconv_svm_reading *r, const char *text) {
  if (r->model->features)
    return gconv_lines_fail(&r->lines, "a second line features");
  if (gconv_features_resolve(text, &r->model->features, &r->features) != GCONV_OK)
    return gconv_lines_fail(&r->lines, "features: %s", gconv_last_error());
  return GCONV_OK;
}

static gconv_status read_colour(gconv_svm_reading *r, char *at) {
  uint64_t parts[3];
  if (r->colours.count >= 3 * r->classes || !gconv_svm_text_count(&at, UINT8_MAX, &parts[0]) ||
      !gconv_svm_text_count(&at, UINT8_MAX, &parts[1]) || !gconv_svm_text_count(&at, UINT8_MAX, &parts[2]) ||
      !gconv_svm_text_is_end(at))
    return gconv_lines_fail(&r->lines,
                            "expected the colour of a class, three numbers from 0 to 255, and one colour for each class");
  for (int c = 0; c < 3; c++)
    GCONV_TRY(gconv_svm_text_add(&r->colours, (double)parts[c]));
  return GCONV_OK;
}

static gconv_status read_range(gconv_svm_reading *r, char *at) {
  uint64_t index;
  double least, most;
  if (!r->has_scale || !gconv_svm_text_count(&at, r->most_columns, &index) || index != r->least.count + 1 ||
      !gconv_svm_text_number(&at, &least) || !gconv_svm_text_number(&at, &most) || !gconv_svm_text_is_end(at) ||
      least > most)
    return gconv_lines_fail(&r->lines,
                            "expected the range of column %zu after a line scale: its smallest and its largest "
                            "number",
                            r->least.count + 1);
  GCONV_TRY(gconv_svm_text_add(&r->least, least));
  return gconv_svm_text_add(&r->most, most);
}

static gconv_status read_note(gconv_svm_reading *r) {
  char *text = r->lines.text;
  uint64_t columns;
  if (strncmp(text, "# class ", 8) == 0)
    return read_class(r, text + 8);
  if (strncmp(text, "# column ", 9) == 0)
    return read_column(r, text + 9);
  if (strncmp(text, "# label ", 8) == 0)
    return read_label(r, text + 8);
  if (strncmp(text, "# scale ", 8) == 0)
    return read_scale(r, text + 8);
  if (strncmp(text, "# range ", 8) == 0)
    return read_range(r, text + 8);
  if (strncmp(text, "# features ", 11) == 0)
    return read_features(r, text + 11);
  if (strncmp(text, "# colour ", 9) == 0)
    return read_colour(r, text + 9);
  char *at = text + 10;
  if (strncmp(text, "# columns ", 10) == 0) {
    if (!gconv_svm_text_count(&at, GCONV_MOST_COLUMNS, &columns) || !gconv_svm_text_is_end(at) ||
        columns < r->most_columns || r->has_scale || r->model->notes.count > 0)
      return gconv_lines_fail(&r->lines, "expected a number of columns, no less than the %zu that the vectors have",
                              r->most_columns);
    r->most_columns = (size_t)columns;
  }
  return GCONV_OK; /* a note of a later version */
}

/* Checks that the columns are the features of pixels of grey or RGB images. */
static gconv_status check_pixels(const gconv_svm_reading *r) {
  const char *name = r->lines.source->name;
  if (r->colours.count > 0 && r->colours.count != 3 * r->classes)
    return gconv_fail(GCONV_BAD_FILE, "%s: colours of %zu classes, where nr_class is %llu: the file is cut off", name,
                      r->colours.count / 3, (unsigned long long)r->classes);
  if (!r->model->features)
    return GCONV_OK;
  if (r->model->info.type != GCONV_SVM_C_SVC)
    return gconv_fail(GCONV_BAD_FILE, "%s: has features of pixels, and no classes", name);
  size_t count = (size_t)r->features;
  if (r->most_columns != count && r->most_columns != 3 * count)
    return gconv_fail(GCONV_BAD_FILE, "%s: has %zu columns, where its features are %zu of a grey image and %zu of RGB", name,
                      r->most_columns, count, 3 * count);
  return GCONV_OK;
}

gconv_status gconv_svm_text_notes(gconv_svm_reading *r) {
  bool found, ended = false;
  for (;;) {
    GCONV_TRY(gconv_svm_text_line(r, &found));
    if (!found)
      break;
    if (ended)
      return gconv_lines_fail(&r->lines, "there is more after the line \"# end\"");
    if (r->lines.text[0] != '#')
      return gconv_lines_fail(&r->lines, "there are more support vectors than total_sv, which is %llu",
                              (unsigned long long)r->vectors);
    ended = strcmp(r->lines.text, "# end") == 0;
    GCONV_TRY(read_note(r));
  }
  if (r->promises_notes && !ended)
    return gconv_fail(GCONV_BAD_FILE, "%s: there is no last line \"# end\": the file is cut off", r->lines.source->name);
  if (r->has_scale && r->least.count != r->most_columns)
    return gconv_fail(GCONV_BAD_FILE, "%s: ranges of %zu columns, where there are %zu: the file is cut off",
                      r->lines.source->name, r->least.count, r->most_columns);
  if (r->model->notes.count > 0 && r->model->notes.count != r->most_columns)
    return gconv_fail(GCONV_BAD_FILE, "%s: notes of %zu columns, where there are %zu: the file is cut off",
                      r->lines.source->name, r->model->notes.count, r->most_columns);
  settle_columns(&r->model->notes);
  if (r->named > 0 && r->named != r->classes)
    return gconv_fail(GCONV_BAD_FILE, "%s: names of %zu classes, where nr_class is %llu: the file is cut off",
                      r->lines.source->name, r->named, (unsigned long long)r->classes);
  return check_pixels(r);
}
