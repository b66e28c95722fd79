/* SPDX-License-Identifier: MIT */
/* Support vector machines: what their files share. */
#pragma once

#include "base/both.h"
#include "base/control.h"
#include "base/file.h"
#include "base/threads.h"
#include "gconv_classify.h"
#include "kernels/cpu/svm/pairs.h"
#include "kernels/cpu/svm/rows.h"
#include "svm/gpu.h"

#include <pthread.h>

GCONV_C_BEGIN

/* ---- Cases (cases.c) ---- */

/* Sparse rows. Zero-initialise before first use. */
typedef struct gconv_svm_cases {
  size_t count, columns, entries;
  size_t row_entries;  /* entries so far of the current row, which is not yet in rows[] */
  uint32_t *index;     /* owned: the columns of the entries */
  float *values;       /* owned */
  gconv_svm_row *rows; /* owned */
  float *targets;      /* owned: the class or the target of each row; NULL: there are none */
  bool gaps;           /* values may be NaN, which stands for a missing number */
} gconv_svm_cases;

/* The scaling of columns: lower + (upper - lower) * (x - least) / (most - least); 0 in constant columns. */
typedef struct gconv_svm_range {
  double lower, upper;
  double *least, *most; /* owned: of each column; NULL: no scaling */
  float *fills;         /* owned: of each column, replaces missing numbers before scaling; NULL: no gaps */
} gconv_svm_range;

/* True if scaling or filling changes numbers. */
static inline bool gconv_svm_range_changes(const gconv_svm_range *range) {
  return range->least || range->fills;
}

/* Reads all cases of a table. GCONV_BAD_ARGUMENT names the first number that is neither finite nor a gap. */
gconv_status gconv_svm_cases_read(const gconv_dataset *data, gconv_svm_cases *cases);
/* gconv_svm_cases_entry() appends an entry to the current row, and gconv_svm_cases_end_row() ends the row.
 * gconv_svm_cases_add() appends a dense row, gconv_svm_cases_copy_row() a copy of a row. Afterwards,
 * gconv_svm_cases_finish() sets the pointers of rows[] and the norms: the arrays move while they grow. */
gconv_status gconv_svm_cases_entry(gconv_svm_cases *cases, uint32_t column, float value);
gconv_status gconv_svm_cases_end_row(gconv_svm_cases *cases);
gconv_status gconv_svm_cases_add(gconv_svm_cases *cases, const float *row);
gconv_status gconv_svm_cases_copy_row(gconv_svm_cases *cases, const gconv_svm_row *row);
void gconv_svm_cases_finish(gconv_svm_cases *cases);
void gconv_svm_cases_free(gconv_svm_cases *cases);

/* Finds the scaling of the cases members[0 .. count), and the means that fill their gaps. */
gconv_status gconv_svm_range_find(const gconv_svm_cases *cases, const size_t *members, size_t count,
                                  gconv_svm_scaling scaling, gconv_svm_range *range);
/* Makes scaled copies of cases. */
gconv_status gconv_svm_range_cases(const gconv_svm_range *range, const gconv_svm_cases *from, gconv_svm_cases *to);
/* gconv_svm_range_column() scales numbers of one column, gconv_svm_range_row() a dense row. */
void gconv_svm_range_column(const gconv_svm_range *range, size_t column, const float *from, size_t count, float *to);
void gconv_svm_range_row(const gconv_svm_range *range, size_t columns, const float *from, float *to);
void gconv_svm_range_free(gconv_svm_range *range);

/* Sets fold[k], k < count, to the random fold of members[k]. If class_count > 0, each fold gets its share of each class.
 * stream: a number of the stream of random numbers. Uses with different numbers get different folds. */
gconv_status gconv_svm_deal(const gconv_svm_cases *cases, const size_t *members, size_t count, size_t class_count,
                            size_t folds, uint64_t seed, uint64_t stream, size_t *fold);

/* ---- Options and progress (settings.c) ---- */

/* Reports the progress of training. */
typedef struct gconv_svm_watch {
  void (*progress)(void *user, const gconv_svm_progress *progress); /* NULL: no reports */
  void *user;
  gconv_controlled *control; /* the caller's control, which gets the share of machines that are trained; NULL: none */
  pthread_mutex_t lock;
  gconv_svm_progress now;
} gconv_svm_watch;

/* gconv_svm_watch_done() reports that one more machine is trained. gconv_svm_watch_gap() reports by how much the solution of
 * the current machine still violates the conditions of the optimum. Thread-safe; `watch` may be NULL. */
void gconv_svm_watch_done(gconv_svm_watch *watch);
void gconv_svm_watch_gap(gconv_svm_watch *watch, double gap);

/* Options with their defaults, checked. */
typedef struct gconv_svm_settings {
  gconv_svm_options given;
  gconv_svm_watch *watch;    /* NULL: no reports */
  gconv_controlled *control; /* the caller's; NULL: none */
  bool own_cache;            /* the caller gave cache_bytes */
} gconv_svm_settings;

/* Checks options and sets defaults. The default of gamma is 1 / columns. GCONV_BAD_ARGUMENT names the wrong option. */
gconv_status gconv_svm_settle(const gconv_svm_options *options, size_t columns, gconv_svm_settings *settings);

/* Returns C times the weight of a class. */
double gconv_svm_cost_of(const gconv_svm_settings *settings, const char *class_name);

/* ---- Kernel values (matrix.c) ---- */

/* The kernel matrix of some cases, with a cache of its most recently used rows. */
typedef struct gconv_svm_matrix gconv_svm_matrix;

/* Where machines are trained, and the memory for rows of a machine. */
typedef struct gconv_svm_place {
  gconv_threads *threads; /* they share the work on a machine; NULL: one thread trains it */
  gconv_svm_gpu *gpu;     /* the GPU, with a copy of the cases; NULL: the CPU trains */
  uint64_t cache_bytes;   /* 0 on a GPU: as much as fits */
} gconv_svm_place;

/* Creates the matrix of the cases members[0 .. count). least: how many rows must fit at least. */
gconv_status gconv_svm_matrix_create(const gconv_svm_formula *formula, const gconv_svm_cases *cases, const size_t *members,
                                     size_t count, size_t least, const gconv_svm_place *place, gconv_svm_matrix **matrix);
/* Sets rows[k] to the row of member wanted[k], for k < count. A row has a float for each member of the matrix, and is padded
 * to whole blocks. `count` is at most the `least` of gconv_svm_matrix_create(). The pointers are valid until the next call.
 */
gconv_status gconv_svm_matrix_rows(gconv_svm_matrix *matrix, const uint32_t *wanted, size_t count, const float **rows);
/* Creates the matrix of some members of `whole`. It may use the memory of `whole`, whose rows are then lost. When the part
 * is freed, `whole` can compute them again. */
gconv_status gconv_svm_matrix_part(gconv_svm_matrix *whole, const uint32_t *members, size_t count, size_t least,
                                   gconv_svm_matrix **part);
/* True if the matrix is on a GPU. The solver then uses the next three functions. They update all members' gradients g. */
bool gconv_svm_matrix_on_gpu(const gconv_svm_matrix *matrix);
/* Sets the gradients. Does nothing without a GPU. */
gconv_status gconv_svm_matrix_begin(gconv_svm_matrix *matrix, const double *g);
/* Solves the problem of a working set, whose variables belong to members wanted[], and updates g. */
gconv_status gconv_svm_matrix_solve(gconv_svm_matrix *matrix, const uint32_t *wanted, const gconv_svm_small *small,
                                    double tolerance, uint64_t most, uint64_t *steps, double *g);
/* g -= sum over k of by[k] times the row of member wanted[k]. */
gconv_status gconv_svm_matrix_subtract(gconv_svm_matrix *matrix, const uint32_t *wanted, const double *by, size_t count,
                                       double *g);
/* Return K(x, x), rounded to float32 as in the rows: gconv_svm_diagonal() from the norm of x, gconv_svm_matrix_diagonal() of
 * a member. */
double gconv_svm_diagonal(const gconv_svm_formula *formula, double norm);
double gconv_svm_matrix_diagonal(const gconv_svm_matrix *matrix, size_t member);
void gconv_svm_matrix_free(gconv_svm_matrix *matrix);

/* Makes the formula of a kernel. Its field `direct` is set for RBF if norms up to largest_norm would lose digits. */
gconv_svm_formula gconv_svm_formula_of(gconv_svm_kernel kernel, int32_t degree, double gamma, double coef0,
                                       double largest_norm);
/* Makes points of the cases members[0 .. count), or of the first `count` cases if `members` is NULL. */
gconv_status gconv_svm_points_make(const gconv_svm_cases *cases, const size_t *members, size_t count,
                                   gconv_svm_points *points);
void gconv_svm_points_free(gconv_svm_points *points);

/* Calls turn() for 0 .. turns - 1: on the threads or, if `threads` is NULL, on the caller's thread. */
void gconv_svm_each(gconv_threads *threads, size_t turns, gconv_turn *turn, void *context);

/* ---- The solver (solve.c) ---- */

/* The problem of a machine: minimise b'Kb / 2 - c'b subject to sum b = 0 and low <= b <= high. Variable v belongs to row
 * member[v] of the matrix. */
typedef struct gconv_svm_problem {
  size_t count, members;
  const uint32_t *member;
  const double *c, *low, *high;
  double tolerance;
  uint64_t most_steps; /* 0: a limit by `count`, and a warning */
  bool shrinks;
  gconv_svm_watch *watch;    /* or NULL */
  gconv_controlled *control; /* training stops when the control asks for it; or NULL */
} gconv_svm_problem;

typedef struct gconv_svm_solution {
  double *b; /* memory of the caller, `count` numbers */
  double rho, objective;
  size_t bounded;
  uint64_t steps;
} gconv_svm_solution;

enum { GCONV_SVM_WORKING = 512 }; /* the most variables of a working set */

/* Warns that the solution of a machine still violates the conditions of the optimum, by `gap`. */
void gconv_svm_warn_missed(double gap);
/* Computes rho, the objective and the number of variables at their bounds, from b and from g = -Kb of each member. `largest`
 * is the largest F = c + g of the variables that may still grow, `smallest` the smallest F of those that may still shrink,
 * as the solver found them last. */
void gconv_svm_conclude(const gconv_svm_problem *problem, const double *g, double largest, double smallest,
                        gconv_svm_solution *solution);
/* Returns how many variables a working set of a problem may have. So many rows of the matrix must fit. */
size_t gconv_svm_working(size_t count, size_t members);
gconv_status gconv_svm_solve(const gconv_svm_problem *problem, gconv_svm_matrix *matrix, gconv_threads *threads,
                             gconv_svm_solution *solution);

/* ---- Models (model.c) ---- */

struct gconv_svm {
  gconv_svm_info info;
  char **classes;           /* owned */
  char *features;           /* owned: the features of pixels; else NULL */
  char *label;              /* owned: the name of the column of targets, or NULL */
  uint8_t *palette;         /* owned: of each class R, G, B; or NULL */
  gconv_column_notes notes; /* owned: about the columns of a table, or the features; zeros: none */
  gconv_svm_range range;    /* range of the columns */
  gconv_svm_cases vectors;  /* support vectors, scaled, sorted by class */
  size_t *class_vectors;    /* owned: the number of vectors of each class; NULL in regression */
  size_t *support;          /* owned: the case of each vector; NULL in a model that was read */
  double *coefficients;     /* owned: (class_count - 1) x vectors; in regression 1 x vectors */
  double *rho;              /* owned: one for each pair; one in regression */
  uint64_t *steps;          /* owned: of each machine; NULL in a model that was read */
  double *prob_a, *prob_b;  /* owned: one for each pair; NULL: no probabilities. In regression, prob_a is the spread */
  pthread_mutex_t lock;     /* guards the following fields, which the first prediction makes: */
  bool ready;
  gconv_svm_formula formula;
  gconv_svm_points points;        /* the support vectors */
  double *by_vector;              /* the coefficients, vectors x rows */
  pthread_mutex_t gpu_lock;       /* held during predictions on a GPU; the first of them makes the following fields: */
  gconv_svm_gpu *gpu;             /* owned: the support vectors on `gpu_device`; NULL: not made yet */
  const gconv_device *gpu_device; /* only compared, never used: the device may be closed, and another one may lie at its
                                     address. So gpu_index is compared, too */
  int gpu_index;                  /* the GPU's number */
};

gconv_status gconv_svm_model_create(gconv_svm **model);

/* Returns the number of machines: one for each pair of classes; 1 in regression. */
size_t gconv_svm_machines(const gconv_svm *model);
size_t gconv_svm_coefficient_rows(const gconv_svm *model);
gconv_status gconv_svm_name_classes(gconv_svm *model, const char *const *names, size_t count);
/* Sets the fields of info that follow from other fields. */
void gconv_svm_model_finish(gconv_svm *model);
/* Prepares predictions, once. Thread-safe. */
gconv_status gconv_svm_model_prepare(gconv_svm *model);

/* Reads the text of a model (text_read.c). */
gconv_status gconv_svm_read_source(gconv_source *source, gconv_svm **model);

/* ---- Models of machines (assemble.c) ---- */

/* Trains a model on cases[members[0 .. count)], which are scaled already, without probabilities. */
gconv_status gconv_svm_train_plain(const gconv_svm_settings *settings, const gconv_svm_cases *cases, const size_t *members,
                                   size_t count, const char *const *names, size_t class_count, gconv_device *device,
                                   gconv_svm *model);
/* True if the device is a GPU that computes kernel values of this form. (On a GPU, tanh() has other bits.) */
bool gconv_svm_gpu_computes(const gconv_device *device, const gconv_svm_formula *formula);

/* ---- Prediction (predict.c) ---- */

/* Computes values, count x machines, of rows that are scaled already. All devices have the same bits. */
gconv_status gconv_svm_values(const gconv_svm *model, gconv_device *device, const gconv_svm_row *rows, size_t count,
                              double *values);
/* Frees what the model has on a GPU. Call it before the device is closed, if the model is freed later. The next prediction
 * on a GPU copies the model again. Only in builds with CUDA. */
void gconv_svm_leave_gpu(gconv_svm *model, const gconv_device *device);
/* Computes classes and probabilities of rows from their values. A row gets the class with the most votes or, with
 * `probabilities`, the most probable class. `classes` or `probabilities` may be NULL. */
gconv_status gconv_svm_decide(const gconv_svm *model, const double *values, size_t count, int32_t *classes,
                              double *probabilities);
/* Returns the class with the most votes; the first of them if several have as many. */
size_t gconv_svm_vote(const double *values, size_t class_count, size_t *votes);

/* ---- Probabilities (probability.c) ---- */

/* Fits the probabilities of a model of scaled cases, by cross-validation in 5 folds. */
gconv_status gconv_svm_fit_probabilities(const gconv_svm_settings *settings, const gconv_svm_cases *cases,
                                         const size_t *members, size_t count, const char *const *names, size_t class_count,
                                         gconv_device *device, gconv_svm *model);

GCONV_C_END
