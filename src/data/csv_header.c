/* SPDX-License-Identifier: MIT */
/* Finds the header of CSV if there is one, the column of labels, and columns with row numbers. */
#include "base/memory.h"
#include "base/utf8.h"
#include "data/csv.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static bool is_field(const gconv_csv_field *f, const char *text) {
  const size_t length = strlen(text);
  return (size_t)(f->end - f->begin) == length && strncasecmp(text, f->begin, length) == 0;
}

/* True if there is a field with the name of each column of the model. Names may be numbers. */
static bool names_model(const gconv_csv *c) {
  const gconv_column_notes *like = c->table->options->like;
  size_t found = 0;
  for (size_t j = 0; like && like->names && j < like->count && found == j; j++)
    for (size_t i = 0; i < c->count && found == j; i++)
      found += is_field(&c->fields[i], like->names[j]);
  return found > 0 && found == like->count && !c->table->of_targets;
}

/* True if the first line names the columns: no field is a number, or one field is the name of the column of labels. */
static bool is_header(gconv_csv *c) {
  const gconv_dataset_options *options = c->table->options;
  const char *label = options->label ? options->label : options->usual_label;
  bool numbers = false, texts = false;
  for (size_t i = 0; i < c->count; i++) {
    double value;
    gconv_field kind = gconv_csv_read(c, &c->fields[i], &value);
    numbers |= kind == GCONV_FIELD_NUMBER || kind == GCONV_FIELD_NOT_FINITE;
    texts |= kind == GCONV_FIELD_TEXT;
    if (label && kind == GCONV_FIELD_TEXT && is_field(&c->fields[i], label))
      return true;
  }
  const bool labels = c->table->of_targets && c->count == 1 && !options->regression; /* the texts may be labels */
  return (texts && !numbers && !labels) || names_model(c);
}

/* True if the numbers among the fields are *first, *first + *step ..., all whole, and at least `fewest`. *numbers counts
 * them. */
static bool is_counting(const gconv_csv *c, size_t fewest, size_t *numbers, double *first, double *step) {
  double before = 0, value;
  *numbers = 0;
  *step = 1;
  for (size_t i = 0; i < c->count; i++) {
    if (gconv_field_read(c->fields[i].begin, c->fields[i].end, &value) != GCONV_FIELD_NUMBER)
      continue;
    if (*numbers == 0)
      *first = value;
    if (*numbers == 1)
      *step = value - before;
    if (value != floor(value) || (*numbers > 0 && (*step <= 0 || value != before + *step)))
      return false;
    (*numbers)++;
    before = value;
  }
  return *numbers >= fewest;
}

/* True if the fields that are numbers are 0, 1, 2 ... or 1, 2, 3 ..., as other programs name columns, and one field is a
 * name. */
static bool counts_columns(const gconv_csv *c) {
  enum { FEWEST = 3 };
  size_t numbers;
  double first, step;
  return is_counting(c, FEWEST, &numbers, &first, &step) && step == 1 && (first == 0 || first == 1) && numbers < c->count;
}

void gconv_csv_free_header(gconv_csv *c) {
  for (size_t i = 0; i < c->header_count; i++)
    free(c->header[i]);
  free(c->header);
  c->header = NULL;
  c->header_count = 0;
}

static gconv_status keep_header(gconv_csv *c) {
  c->header = calloc(c->count + 1, sizeof *c->header);
  bool good = c->header != NULL;
  for (size_t i = 0; i < c->count && good; i++) {
    gconv_csv_field f = c->fields[i];
    while (f.end > f.begin && (f.end[-1] == ' ' || f.end[-1] == '\t'))
      f.end--;
    const size_t length = (size_t)(f.end - f.begin);
    if (!gconv_utf8_is_whole(f.begin, length))
      return gconv_lines_fail(
          &c->lines,
          "the name of column %zu, \"%.*s\", is no UTF-8: convert the file, such as by iconv -f latin1 -t "
          "utf-8",
          i + 1, (int)(length < 40 ? length : 40), f.begin);
    good = (c->header[i] = strndup(f.begin, length)) != NULL;
    c->header_count += good;
  }
  return good ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its header", c->table->path);
}

/* Takes the last comment for a header if it names columns: numpy.savetxt() writes "# a,b,label". */
gconv_status gconv_csv_try_comment(gconv_csv *c) {
  char *const line = c->lines.text;
  if (!c->comment || strchr(c->comment, '"'))
    return GCONV_OK;
  c->lines.text = c->comment;
  gconv_status status = gconv_csv_split(c);
  if (status == GCONV_OK && c->count > 1 && is_header(c))
    status = keep_header(c);
  c->lines.text = line;
  return status;
}

gconv_status gconv_csv_begin(gconv_csv *c, bool *header) {
  c->width = c->count;
  c->first_line = c->lines.line;
  *header = is_header(c);
  if (c->header_count == c->count + 1 && strcmp(c->header[0], "#") == 0) {
    free(c->header[0]);
    memmove(c->header, c->header + 1, --c->header_count * sizeof *c->header);
  }
  if (*header || c->header_count != c->count)
    gconv_csv_free_header(c);
  if (c->header)
    gconv_warn("%s: the comment above its first row is taken for the names of the columns", c->table->path);
  return *header ? keep_header(c) : GCONV_OK;
}

/* ---- The column of labels ------------------------------------------------------------------------------------------ */

/* Lists the first columns of the header. */
static void list_columns(const gconv_csv *c, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < c->width && used + 64 < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%.40s", i ? ", " : "", c->header[i]);
}

/* Finds a column with a usual name of labels. If there is one, it becomes the column of labels. */
static bool find_usual_label(gconv_csv *c) {
  const gconv_table *table = c->table;
  const char *label = table->options->usual_label;
  bool found = false;
  if (!label || !c->header || table->options->label || table->options->targets || table->of_targets)
    return false;
  for (size_t i = 0; i < c->width && !found; i++) {
    found = strcmp(label, c->header[i]) == 0;
    c->label = found ? i : c->label;
  }
  return found;
}

/* Finds the column that --label names. If no name is equal, upper and lower case are the same. */
static gconv_status find_name(gconv_csv *c, const char *label, size_t *found) {
  *found = 0;
  for (int exact = 1; c->header && exact >= 0 && *found == 0; exact--)
    for (size_t i = 0; i < c->width; i++)
      if ((exact ? strcmp : strcasecmp)(label, c->header[i]) == 0) {
        c->label = i;
        (*found)++;
      }
  if (*found > 1)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: %zu columns are called '%s': say the number of the column of labels, 1 to %zu", c->table->path,
                      *found, label, c->width);
  return GCONV_OK;
}

static gconv_status find_label(gconv_csv *c) {
  const gconv_table *table = c->table;
  const char *label = table->options->label;
  char list[400];
  size_t found;
  c->label = table->of_targets ? c->passed : c->width - 1;
  if (!label || (table->of_targets && c->width == c->passed + 1))
    return GCONV_OK;
  GCONV_TRY(find_name(c, label, &found));
  if (found > 0)
    return GCONV_OK;
  char *end;
  unsigned long number = strtoul(label, &end, 10);
  if (label[0] >= '0' && label[0] <= '9' && !*end && number >= 1 && number <= c->width) {
    c->label = number - 1;
    return GCONV_OK;
  }
  if (!c->header)
    return gconv_fail(
        GCONV_BAD_ARGUMENT,
        "%s: there is no column '%s': the file has no header, so --label takes the number of the column, 1 to %zu",
        table->path, label, c->width);
  list_columns(c, list, sizeof list);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: there is no column '%s'; there are %s", table->path, label, list);
}

/* ---- Columns that number the rows ---------------------------------------------------------------------------------- */

/* True for the names that pandas and R give to an index: "" and "Unnamed: 0". */
static bool has_no_name(const char *name) {
  return name[0] == '\0' || strncmp(name, "Unnamed: 0", 10) == 0;
}

/* Finds the first columns that number the rows. A first column without a name does so if the first row has a whole number
 * there, or a text. */
static gconv_status find_index(gconv_csv *c) {
  double value;
  const size_t others = 1 + (c->label != SIZE_MAX), most = c->width < others ? 0 : c->width - others;
  while (c->passed < most && c->passed != c->label && has_no_name(c->header[c->passed])) {
    gconv_field kind = gconv_csv_read(c, &c->fields[c->passed], &value);
    if (kind != GCONV_FIELD_TEXT && !(kind == GCONV_FIELD_NUMBER && value == floor(value) && value >= 0))
      break;
    gconv_warn(
        "%s: column %zu, which has no name, is taken for the numbers of rows, and left out: give it a name to learn it",
        c->table->path, c->passed + 1);
    c->passed++;
  }
  return GCONV_OK;
}

/* Adds an empty name for the first column: R's write.table() names all columns but the first, which numbers the rows. */
static gconv_status add_first_name(gconv_csv *c) {
  char *name = strdup("");
  GCONV_NEED_MEMORY(name, "%s: no memory for its header", c->table->path);
  memmove(c->header + 1, c->header, c->header_count * sizeof *c->header);
  c->header[0] = name;
  c->width = ++c->header_count;
  return GCONV_OK;
}

/* Finds the model's columns in the header, except in columns that number the rows. */
static gconv_status match_names(gconv_csv *c) {
  const gconv_names names = {c->header + c->passed, c->width - c->passed};
  size_t label = c->label == SIZE_MAX ? SIZE_MAX : c->label - c->passed;
  GCONV_TRY(gconv_table_match(c->table, &names, &label, &c->order));
  c->label = label == SIZE_MAX ? SIZE_MAX : label + c->passed;
  for (size_t j = 0; j < c->table->options->like->count; j++)
    c->order[j] += c->passed;
  return GCONV_OK;
}

static gconv_status copy_name(const gconv_csv *c, size_t field, char **name) {
  *name = strdup(c->header[field]);
  return *name ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its header", c->table->path);
}

/* Stores the names of the columns, unless the file has targets alone. */
static gconv_status name_columns(gconv_csv *c) {
  gconv_table *table = c->table;
  if (!c->header)
    return GCONV_OK;
  if (table->of_targets)
    return c->label < c->width ? copy_name(c, c->label, &table->label) : GCONV_OK;
  if (table->options->like && table->options->like->names)
    GCONV_TRY(match_names(c));
  const size_t inputs = c->order ? table->options->like->count : c->width - c->passed - (c->label < c->width);
  GCONV_NEW(table->names, inputs + 1, "%s: no memory for its header", table->path);
  for (size_t j = 0, i = c->passed; j < inputs; j++, i++) {
    i += i == c->label;
    GCONV_TRY(copy_name(c, c->order ? c->order[j] : i, &table->names[j]));
    table->name_count++;
  }
  return c->label < c->width ? copy_name(c, c->label, &table->label) : GCONV_OK;
}

/* True if the columns of the model have the numbers of fields, such as 5 and 2=Ulm: names of a table without a header, which
 * had words. */
static bool is_numbered(const gconv_column_notes *like) {
  bool words = false;
  for (size_t j = 0; like && like->names && j < like->count; j++) {
    const size_t digits = strspn(like->names[j], "0123456789");
    words |= like->names[j][digits] == '=';
    if (digits == 0 || (like->names[j][digits] && like->names[j][digits] != '='))
      return false;
  }
  return words;
}

/* If columns of words need names, and there is no header, names the fields by their numbers. */
static gconv_status number_fields(gconv_csv *c) {
  const gconv_dataset_options *options = c->table->options;
  if (c->table->of_targets || c->table->doubt != GCONV_NO_DOUBT ||
      !(options->like ? is_numbered(options->like) : options->one_hot))
    return GCONV_OK;
  GCONV_NEW(c->header, c->width + 1, "%s: no memory for its header", c->table->path);
  for (; c->header_count < c->width; c->header_count++)
    if (asprintf(&c->header[c->header_count], "%zu", c->header_count + 1) < 0)
      return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its header", c->table->path);
  return name_columns(c);
}

/* ---- Headers of numbers -------------------------------------------------------------------------------------------- */

static bool is_known(const gconv_dataset_options *options, const gconv_csv_field *f) {
  bool known = false;
  for (size_t i = 0; i < options->class_count && !known; i++) {
    const size_t length = strlen(options->classes[i]);
    known = (size_t)(f->end - f->begin) == length && memcmp(options->classes[i], f->begin, length) == 0;
  }
  return known;
}

/* Numbers from FIRST_YEAR on may be years. */
enum { FIRST_YEAR = 1000 };
static bool are_names(const gconv_csv *c) {
  size_t numbers;
  double first, step;
  return is_counting(c, 2, &numbers, &first, &step) &&
         (first >= FIRST_YEAR || (numbers > 2 && step == 1 && (first == 0 || first == 1)));
}

/* Returns the doubt about a first line whose label is a text above numbers, such as "2019,2020,label". */
static gconv_doubt doubt_label(const gconv_csv *c) {
  const gconv_dataset_options *options = c->table->options;
  if (options->regression)
    return GCONV_SURE_HEADER;
  if (options->class_count > 0)
    return are_names(c) && !is_known(options, &c->fields[c->label]) ? GCONV_SURE_HEADER : GCONV_NO_DOUBT;
  if (!c->table->labelled)
    return counts_columns(c) ? GCONV_SURE_HEADER : GCONV_NO_DOUBT;
  return are_names(c) ? GCONV_DOUBT_YEARS : GCONV_DOUBT_NAME;
}

/* Returns the doubt about a first line of numbers. It may be a header: pandas names columns 0, 1, 2 ...; names may be
 * years. */
static gconv_doubt doubt_count(const gconv_csv *c) {
  const gconv_dataset_options *options = c->table->options;
  size_t numbers;
  double first, step;
  if (!is_counting(c, 3, &numbers, &first, &step) || (first < FIRST_YEAR && (first != 0 || step != 1)))
    return GCONV_NO_DOUBT;
  if (options->class_count == 0 || options->regression || c->label == SIZE_MAX)
    return first == 0 ? GCONV_DOUBT_COUNT : GCONV_DOUBT_YEARS;
  return is_known(options, &c->fields[c->label]) ? GCONV_NO_DOUBT : GCONV_SURE_HEADER;
}

/* Returns the doubt about a first line in which is_header() found numbers. */
static gconv_doubt doubt_header(gconv_csv *c) {
  size_t others = 0; /* inputs that are not numbers */
  double value;
  bool named = false;
  for (size_t i = 0; i < c->count; i++) {
    gconv_field kind = gconv_csv_read(c, &c->fields[i], &value);
    named |= i == c->label && kind == GCONV_FIELD_TEXT;
    others += i != c->label && (kind == GCONV_FIELD_TEXT || kind == GCONV_FIELD_GAP);
  }
  if (c->table->of_targets && c->count == 1 && named && c->table->labelled)
    return GCONV_DOUBT_NAME;
  if (c->table->of_targets || c->count < 2)
    return GCONV_NO_DOUBT;
  if (others > 0) /* ",2019,2020,label", "town,2019,2020,label", ",0,1,2" */
    return counts_columns(c) || (named && are_names(c)) ? GCONV_SURE_HEADER : GCONV_NO_DOUBT;
  return named ? doubt_label(c) : doubt_count(c);
}

/* Decides whether a first line that is mostly numbers is a header, or postpones that to the end of the table. */
static gconv_status judge_first_line(gconv_csv *c, bool *header) {
  const gconv_column_notes *like = c->table->options->like;
  const gconv_doubt doubt = doubt_header(c);
  *header = doubt == GCONV_SURE_HEADER;
  if (doubt == GCONV_NO_DOUBT || (!*header && like && like->names)) /* a header would have the model's names */
    return GCONV_OK;
  GCONV_TRY(keep_header(c));
  if (*header) {
    gconv_warn("%s: its first line, %s, is taken for a header", c->table->path,
               counts_columns(c) ? "which counts the columns" : "which has numbers and a name");
    return GCONV_OK;
  }
  c->table->doubt = doubt;
  gconv_status status = name_columns(c);
  gconv_csv_free_header(c);
  return status;
}

gconv_status gconv_csv_begin_rows(gconv_csv *c, bool *header) {
  gconv_table *table = c->table;
  *header = false;
  if (c->header && c->count == c->width + 1)
    GCONV_TRY(add_first_name(c));
  if (c->count != c->width)
    return GCONV_OK; /* reading it will fail */
  c->label = SIZE_MAX;
  if (table->of_targets && c->header)
    GCONV_TRY(find_index(c));
  if (!find_usual_label(c)) {
    const bool several = table->of_targets && c->width > c->passed + 1 && !table->options->label;
    if (gconv_table_is_inputs(table) || several) {
      c->label = SIZE_MAX;
      table->unlabelled = true;
    } else {
      GCONV_TRY(find_label(c));
    }
  }
  table->labelled = !table->unlabelled && !table->options->regression;
  if (!c->header) {
    GCONV_TRY(judge_first_line(c, header));
    return c->header || *header ? GCONV_OK : number_fields(c);
  }
  GCONV_TRY(find_index(c));
  return name_columns(c);
}
