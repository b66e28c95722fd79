/* SPDX-License-Identifier: MIT */
/* Tables: rows of numbers, each with a label or with targets. A syntax is a file (csv.c libsvm.c fann.c letters.c npy.c) and
 * a row in the table of table_syntaxes.c; it fills a gconv_table row by row. */
#ifndef GCONV_DATA_TABLE_H
#define GCONV_DATA_TABLE_H

#include "base/zip.h"
#include "data/dataset.h"
#include "data/labels.h"
#include "data/lines.h"
#include "data/store.h"

enum {
  GCONV_MOST_COLUMNS = 1 << 24 /* columns of a table */
};

/* What an empty field means. */
typedef enum gconv_missing { GCONV_MISSING_ERROR, GCONV_MISSING_MEAN, GCONV_MISSING_DROP } gconv_missing;

/* The numbers of a column. */
typedef struct gconv_spread {
  double least, most, error; /* error: the largest that rounding to float32 makes */
  size_t count;
} gconv_spread;

/* Whether the first row may be a header. */
typedef enum gconv_doubt {
  GCONV_NO_DOUBT,
  GCONV_DOUBT_NAME,  /* its label is a text, and all else numbers */
  GCONV_DOUBT_YEARS, /* ... which are years, or count the columns; or all are years */
  GCONV_DOUBT_COUNT, /* all are numbers: 0, 1, 2 ... */
  GCONV_SURE_HEADER
} gconv_doubt;

enum { GCONV_TOLD_LINES = 10 };

typedef struct gconv_table {
  /* What is asked for; set before the table is read. */
  const gconv_dataset_options *options;
  gconv_missing missing;
  bool of_targets; /* the table holds targets alone: one column is that of labels, several are targets of regression */
  bool unlabelled; /* there are no targets */

  const char *path;
  size_t cases, columns, outputs;  /* outputs: targets of a case; 0 with labels, or without targets */
  int32_t channels, height, width; /* of an input; set by the syntax, or columns x 1 x 1 */
  int32_t target_shape[3];         /* of the targets, where they are images; else zeroes */
  bool sparse;                     /* the rows are entries */
  gconv_store inputs;              /* doubles, cases x columns, and floats once all are there; NaN is missing. Sparse:
                                      gconv_entry */
  gconv_store ends;                /* sparse: uint64_t, where each row ends in inputs */
  gconv_store targets;             /* floats: cases x outputs, or, of labels, the number of each class */
  bool labelled;                   /* targets are labels */
  bool approximated;               /* labels became targets, as nearly each case had its own whole number */
  gconv_labels labels;
  char **names; /* owned: of the columns of inputs, from a header; NULL: there was none */
  size_t name_count;
  char *label;     /* owned: the name of the column of targets, from a header, or NULL */
  double *origins; /* owned: what was taken off the columns; NULL: nothing */
  bool gaps;       /* numbers are missing */
  size_t *rows;    /* owned: the number of the row of each case, from 0 on; NULL: none was left out */

  gconv_spread *spreads; /* owned: of the first columns of a sparse table */
  size_t spread_count;

  /* The row at hand. */
  gconv_row row, target;
  gconv_entry *entries; /* owned: of a sparse row, in place of `row` */
  size_t entry_count;
  uint64_t line;                            /* its number in the file; 0: rows are no lines */
  size_t missing_numbers;                   /* of the row: NaN */
  size_t dropped;                           /* rows that were left out */
  uint64_t dropped_lines[GCONV_TOLD_LINES]; /* the first of them, from 1 on */
  gconv_doubt doubt;                        /* of the first row; `names` and `label` are its fields then */
} gconv_table;

typedef struct gconv_table_syntax {
  const char *name, *help, *extensions; /* extensions: with blanks between, "csv tsv" */
  /* Whether a file that begins with these bytes (4096, or the whole file) has this syntax; NULL: any text may. */
  bool (*recognise)(const uint8_t *bytes, size_t size);
  gconv_status (*read)(gconv_source *source, gconv_table *table);
} gconv_table_syntax;

extern const gconv_table_syntax gconv_table_syntax_csv, gconv_table_syntax_libsvm, gconv_table_syntax_fann,
    gconv_table_syntax_letters, gconv_table_syntax_npy;

/* NULL past the end. */
const gconv_table_syntax *gconv_table_syntax_at(size_t index);

/* Reads the table at `path` into *table, of which what is asked for is set. The caller frees it in any case. */
gconv_status gconv_table_read(const char *path, const char *syntax, gconv_table *table);
/* The same of a source, for errors of which `path` names it. */
gconv_status gconv_table_read_source(gconv_source *source, const char *syntax, gconv_table *table);
void gconv_table_free(gconv_table *table);

/* The arrays of a .npz that are inputs and targets, as "FILE.npz:NAME"; NULL: it is no archive, or there are no targets. */
typedef struct gconv_npz {
  char *inputs, *targets; /* owned */
} gconv_npz;

/* Chooses the arrays, unless `path` is another file: those that `path` names, or that are called "X" and "y", "x_train" and
 * "y_train", "data" and "target" ..., or the only one. Tells which were taken, and which are not used. */
gconv_status gconv_npz_choose(const char *path, bool wants_targets, gconv_npz *npz);
/* The same of an archive. */
gconv_status gconv_npz_choose_of(gconv_source *archive, bool wants_targets, gconv_npz *npz);
void gconv_npz_free(gconv_npz *npz);
/* Opens the array that archive->member names, or the only one. *zip and *member are zeroes before; the caller frees and
 * closes them in any case, *member first. */
gconv_status gconv_npz_open(gconv_source *archive, gconv_zip *zip, gconv_source *member);

/* GCONV_UNSUPPORTED, with its name and what to do, if the file is one of another program, by its first bytes. */
gconv_status gconv_table_refuse_others(const gconv_source *source, const uint8_t *bytes, size_t size);

/* Continues a hash (base/checksum.h) with the numbers and labels. */
uint64_t gconv_table_digest(const gconv_table *table, uint64_t hash);

/* Returns how many entries a case of a sparse table has; *entries are the table's. */
size_t gconv_table_entries(const gconv_table *table, size_t index, const gconv_entry **entries);
/* Puts case `index` into numbers[0 .. columns). */
void gconv_table_get(const gconv_table *table, size_t index, float *numbers);

/* Rounds the numbers of a table that is complete to float32. What float32 could not tell apart gets an origin (columns.c).
 */
gconv_status gconv_table_round(gconv_table *table);

/* Of a sparse table: notes a number, and takes the origins that options->like has, which entries are less, before the first
 * entry. */
gconv_status gconv_table_see(gconv_table *table, size_t column, double number);
gconv_status gconv_table_take_origins(gconv_table *table);

/* ---- For syntaxes -------------------------------------------------------------------------------------------------- */

/* Ends the row whose numbers are in table->row, or table->entries, and, of regression, table->target; with labels, `label`
 * is the number of its class. NaN is a number that is missing. All rows must have one length, which the syntax checks, as
 * its errors name lines. The row is empty then. */
gconv_status gconv_table_end_row(gconv_table *table, size_t label);

/* Of syntaxes of lines: counts what is missing in table->row and table->target. GCONV_BAD_FILE where that is an error. */
gconv_status gconv_table_count_gaps(gconv_table *table, const gconv_lines *lines);

/* The fields of a header. */
typedef struct gconv_names {
  char **names;
  size_t count;
} gconv_names;

/* Finds the columns of options->like, which have names, in the header: column j is field (*order)[j], for free(). *label is
 * the field of the labels, SIZE_MAX for none; it moves if the model has it as an input. GCONV_BAD_FILE lists both sides. */
gconv_status gconv_table_match(const gconv_table *table, const gconv_names *header, size_t *label, size_t **order);

/* Whether all columns are inputs. Else one is that of labels; --label names it, unless labels are a file of their own. */
bool gconv_table_is_inputs(const gconv_table *table);

/* Whether a number is finite as float32, too. */
bool gconv_fits_float(double number);

/* "column 3 (height)"; returns `text`. */
const char *gconv_table_column(const gconv_table *table, size_t index, char text[120]);

/* GCONV_BAD_FILE if it is more than the table may have. */
gconv_status gconv_table_check_columns(const gconv_table *table, uint64_t columns);

/* The first lines of a text, for recognise(): the numbers of line `index`, from 0 on, up to `most`. Returns how many the
 * line has, SIZE_MAX if it has something else, or is not whole, or is not there. */
size_t gconv_first_numbers(const uint8_t *bytes, size_t size, size_t index, double *numbers, size_t most);

/* ---- For table.c and table_doubt.c --------------------------------------------------------------------------------- */

/* Decides whether the first row is a header, where the syntax doubts it; it is no case then. */
gconv_status gconv_table_resolve_doubt(gconv_table *table);

/* Frees the names of the columns and of the labels (columns.c). */
void gconv_table_free_names(gconv_table *table);

#endif
