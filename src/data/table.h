/* SPDX-License-Identifier: MIT */
/* Tables: rows of numbers, each with a label or with targets. A syntax is a file (csv.c libsvm.c fann.c letters.c npy.c,
 * which has IDX, too) and a row in the table of table_syntaxes.c; it fills a gconv_table row by row. */
#pragma once

#include "base/zip.h"
#include "data/dataset.h"
#include "data/labels.h"
#include "data/lines.h"
#include "data/store.h"

enum {
  GCONV_MOST_COLUMNS = 1 << 24 /* columns of a table */
};

/* How a missing number is handled: it is an error, or becomes the mean of its column, or its row is left out. */
typedef enum gconv_missing { GCONV_MISSING_ERROR, GCONV_MISSING_MEAN, GCONV_MISSING_DROP } gconv_missing;

/* The range of the numbers of a column. */
typedef struct gconv_spread {
  double least, most, error; /* error: the largest rounding error of float32 */
  size_t count;
} gconv_spread;

/* Whether the first row may be a header. */
typedef enum gconv_doubt {
  GCONV_NO_DOUBT,
  GCONV_DOUBT_NAME,  /* its label is a text, and all other fields are numbers */
  GCONV_DOUBT_YEARS, /* its label is a text, and the other fields are years, or count the columns; or all fields are years */
  GCONV_DOUBT_COUNT, /* the fields are 0, 1, 2 ... */
  GCONV_SURE_HEADER
} gconv_doubt;

enum { GCONV_TOLD_LINES = 10 };

/* The words of a column; a column of numbers has none. */
typedef struct gconv_words {
  gconv_labels labels;
  bool numbers; /* a row has a number */
} gconv_words;

typedef struct gconv_table {
  /* The caller sets these before the table is read. */
  const gconv_dataset_options *options;
  gconv_missing missing;
  bool of_targets; /* the table has targets alone: one column of labels, or several of regression */
  bool unlabelled; /* there are no targets */

  const char *path;
  size_t cases, columns, outputs;  /* outputs: the targets of a case; 0 with labels or without targets */
  int32_t channels, height, width; /* channels, height and width of an input; set by the syntax, or columns x 1 x 1 */
  int32_t target_shape[3];         /* shape of the targets, if they are images; else zeros */
  bool sparse;                     /* rows are lists of entries */
  gconv_store inputs;  /* cases x columns doubles, converted to floats at the end; NaN is missing. Sparse: gconv_entry */
  gconv_store ends;    /* sparse: uint64_t, the end of each row in inputs */
  gconv_store targets; /* floats: cases x outputs, or the number of each case's class */
  bool labelled;       /* targets are labels */
  bool approximated;   /* labels became targets, because nearly each case has its own whole number */
  gconv_labels labels;
  char **names; /* owned: names of the columns of inputs, from a header; NULL: there was no header */
  size_t name_count;
  char *label;        /* owned: the name of the column of targets, from a header, or NULL */
  gconv_words *words; /* owned: the words of the first columns, until all rows are read (one_hot.c) */
  size_t word_columns;
  double *origins; /* owned: what was subtracted from each column; NULL: nothing */
  bool gaps;       /* numbers are missing */
  size_t *rows;    /* owned: the number of each case's row, from 0 on; NULL: no row was left out */

  gconv_spread *spreads; /* owned: one for each of the first columns of a sparse table */
  size_t spread_count;

  /* The current row. */
  gconv_row row, target;
  gconv_entry *entries; /* owned: the entries of a sparse row, in place of `row` */
  size_t entry_count;
  uint64_t line;                            /* the number of the row's line in the file; 0: rows are not lines */
  size_t missing_numbers;                   /* numbers that are missing in the row */
  size_t dropped;                           /* rows that were left out */
  uint64_t dropped_lines[GCONV_TOLD_LINES]; /* the numbers of the first lines (or rows) that were left out, from 1 on */
  gconv_doubt doubt;                        /* whether the first row is a header; `names` and `label` are then its fields */
} gconv_table;

typedef struct gconv_table_syntax {
  const char *name, *help, *extensions; /* extensions: separated by blanks, "csv tsv" */
  /* True if a file that begins with these bytes (4096, or the whole file) has this syntax. NULL: any text may have it. */
  bool (*recognise)(const uint8_t *bytes, size_t size);
  gconv_status (*read)(gconv_source *source, gconv_table *table);
} gconv_table_syntax;

extern const gconv_table_syntax gconv_table_syntax_csv, gconv_table_syntax_libsvm, gconv_table_syntax_fann,
    gconv_table_syntax_letters, gconv_table_syntax_npy, gconv_table_syntax_idx;

/* Returns the syntax number `index`; NULL past the end. */
const gconv_table_syntax *gconv_table_syntax_at(size_t index);

/* Reads the table at `path` into *table, whose first fields the caller has set. The caller frees it in any case. */
gconv_status gconv_table_read(const char *path, const char *syntax, gconv_table *table);
/* Reads the table from a source. Errors name source->name. */
gconv_status gconv_table_read_source(gconv_source *source, const char *syntax, gconv_table *table);
/* Reads a table from a .npz: the array that archive->member names, or the only array. */
gconv_status gconv_table_read_archive(gconv_source *archive, gconv_table *table);
void gconv_table_free(gconv_table *table);

/* The paths of a .npz's inputs and targets, "FILE.npz:NAME"; NULL: the file is not an archive, or has no targets. */
typedef struct gconv_npz {
  char *inputs, *targets; /* owned */
} gconv_npz;

/* Chooses the arrays of a .npz: those that `path` names, or that are named "X" and "y", "x_train" and "y_train", "data" and
 * "target" ..., or the only one. Reports the choice, and the arrays that are not used. */
gconv_status gconv_npz_choose(const char *path, bool wants_targets, gconv_npz *npz);
/* Chooses the arrays of a .npz that is open. */
gconv_status gconv_npz_choose_of(gconv_source *archive, bool wants_targets, gconv_npz *npz);
void gconv_npz_free(gconv_npz *npz);
/* Opens the array that archive->member names, or the only one. *zip and *member must be zeros; the caller frees and closes
 * them in any case, *member first. */
gconv_status gconv_npz_open(gconv_source *archive, gconv_zip *zip, gconv_source *member);

/* GCONV_UNSUPPORTED if the first bytes are another program's. The error names the program, and says what to do. */
gconv_status gconv_table_refuse_others(const gconv_source *source, const uint8_t *bytes, size_t size);

/* Makes a table of numbers in memory, or of their labels or targets, as table->of_targets says (memory.c). */
gconv_status gconv_table_take(const gconv_dataset_cases *cases, gconv_table *table);

/* Continues a hash (base/checksum.h) with the numbers and labels. */
uint64_t gconv_table_digest(const gconv_table *table, uint64_t hash);

/* Returns the number of entries of a case in a sparse table; *entries is memory of the table. */
size_t gconv_table_entries(const gconv_table *table, size_t index, const gconv_entry **entries);
/* Writes case `index` to numbers[0 .. columns). */
void gconv_table_get(const gconv_table *table, size_t index, float *numbers);

/* Rounds the numbers of a complete table to float32. A column whose numbers float32 cannot tell apart gets an origin
 * (columns.c). */
gconv_status gconv_table_round(gconv_table *table);

/* For sparse tables: updates the spread of a column. */
gconv_status gconv_table_see(gconv_table *table, size_t column, double number);
/* For sparse tables, before the first entry: copies the origins of options->like, which are subtracted from entries. */
gconv_status gconv_table_take_origins(gconv_table *table);

/* ---- For syntaxes -------------------------------------------------------------------------------------------------- */

/* Ends the row in table->row or table->entries, with its targets in table->target or the number `label` of its class. NaN is
 * a missing number. The syntax checks that all rows have one length, as its errors name lines. The row is then empty. */
gconv_status gconv_table_end_row(gconv_table *table, size_t label);

/* Rows of an array, of `width` numbers each. */
typedef struct gconv_rows {
  gconv_table *table;
  size_t width;
  size_t label; /* the column of labels; SIZE_MAX: none */
} gconv_rows;
/* Takes row number `index` of an array, and ends the row. text: its label, if that is a text; else NULL (npy.c). */
gconv_status gconv_table_take_row(gconv_rows *rows, const double *numbers, const char *text, size_t index);

/* With options->one_hot: adds a word, or *number, to the row. *wrong is NULL, or what is wrong, as the end of a sentence. */
gconv_status gconv_table_take_word(gconv_table *table, const char *begin, const char *end, const double *number,
                                   const char **wrong);
/* Converts columns of words to columns of 0 and 1, once all rows are read. */
gconv_status gconv_table_spread_words(gconv_table *table);
void gconv_table_free_words(gconv_table *table);

/* Begins a table before its first row, and finishes it after the last row. `path` is for messages. */
gconv_status gconv_table_begin(gconv_table *table, const char *path);
gconv_status gconv_table_finish(gconv_table *table);

/* For syntaxes of lines: counts missing numbers in table->row and table->target. GCONV_BAD_FILE if they are an error. */
gconv_status gconv_table_count_gaps(gconv_table *table, const gconv_lines *lines);

/* The fields of a header. */
typedef struct gconv_names {
  char **names;
  size_t count;
} gconv_names;

/* Finds the columns of options->like by their names in the header: column j is field (*order)[j], for free(). The column
 * "town=Ulm" is field "town" if no field has its whole name: see gconv_names_word(). *label is the field of the labels, or
 * SIZE_MAX; it changes if the model has that field as an input. GCONV_BAD_FILE lists both sides. */
gconv_status gconv_table_match(const gconv_table *table, const gconv_names *header, size_t *label, size_t **order);

/* If a model's column is a word of field `field`, returns the word: "Ulm" for "town=Ulm" and "town". Else returns NULL. */
const char *gconv_names_word(const char *column, const char *field);

/* True if all columns are inputs; else one column has the labels. */
bool gconv_table_is_inputs(const gconv_table *table);

/* True if a number is finite in float32, too. */
bool gconv_fits_float(double number);

/* GCONV_BAD_FILE if `columns` is more than a table may have. */
gconv_status gconv_table_check_columns(const gconv_table *table, uint64_t columns);

/* For recognise(): gets the numbers of line `index` of a text, from 0 on, up to `most`. Returns the number of numbers in the
 * line; SIZE_MAX if the line has other words, is incomplete, or does not exist. */
size_t gconv_first_numbers(const uint8_t *bytes, size_t size, size_t index, double *numbers, size_t most);

/* ---- For table.c and table_doubt.c --------------------------------------------------------------------------------- */

/* If the syntax was in doubt, decides whether the first row is a header, which is not a case. */
gconv_status gconv_table_resolve_doubt(gconv_table *table);

/* Frees the names of the columns and of the labels (columns.c). */
void gconv_table_free_names(gconv_table *table);
