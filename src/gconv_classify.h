/* SPDX-License-Identifier: MIT */
/*
 * Classifying: features of pixels, networks that name the class of each pixel, and support vector machines.
 *
 *     gconv_features_resolve()     the features that a text means: "gaussian 1 2 4, log 1 2"
 *     gconv_operation_features()   an image becomes its features: a channel each
 *     gconv_operation_pixels()     an image becomes a map of classes: features, then a network
 *     gconv_network_run()          runs a model on arrays of any shape
 *
 *     gconv_dataset_open()         cases, as gconv_learn.h has them
 *     gconv_svm_train()            trains a model on the cases; gconv_svm_validate() estimates how good it will be
 *     gconv_svm_write(), gconv_svm_read()    the text of LIBSVM's models
 *     gconv_svm_predict()          classes, values and probabilities of rows of numbers
 *     gconv_operation_svm()        an image becomes a map of classes: features, then a model of pixels
 *
 * The rules of gconv.h hold here.
 */
#ifndef GCONV_CLASSIFY_H
#define GCONV_CLASSIFY_H

#include "gconv_learn.h"

GCONV_API_BEGIN

/* ---- Features of pixels -------------------------------------------------------------------------------------------- */

/* A kind of feature, or a named set of features. */
typedef struct gconv_feature_info {
  const char *name; /* "gaussian" */
  const char *list; /* for a set: the list that it stands for, "gaussian 1 2, log 1"; NULL for a kind */
  const char *help; /* one line */
  int outputs;      /* for a kind: channels for each sigma and each channel of the image; for a set: channels in all */
} gconv_feature_info;

/* The kinds, then the sets, each in a fixed order; NULL past the end. Static storage. */
const gconv_feature_info *gconv_feature_at(size_t index);

/* Reads a list of features: kinds with commas between, each with the sigmas at which it is computed, in pixels, such as
 * "gaussian 1 2 4, log 1 2"; names of sets may stand among them. *list becomes the same list with all sets written out (the
 * caller frees it by free()), and *count the number of features of each channel of an image. Either may be NULL.
 * docs/pixels.md has the formulas. GCONV_BAD_ARGUMENT names the word that is wrong. */
gconv_status gconv_features_resolve(const char *text, char **list, int32_t *count);

/* An image becomes its features: planar f32, with a channel for each feature; the features of the first channel of the image
 * come first. Samples of integers are divided by white; alpha is left out. `channels`: 1: the image is made grey first; 3:
 * grey images become RGB; 0: all channels are taken as they are. The results have the same bits on any device, for any
 * number of threads and any rows at a time. In a chain, only some rows of them are in memory at a time. */
gconv_status gconv_operation_features(const char *features, int32_t channels, gconv_operation **operation);

/* Makes plans of an operation of gconv_operation_features() warn of pictures that differ much from the pictures that a model
 * was trained on, or have other channels. `notes` are the model's; if they have no means and deviations, there is no
 * warning. Call it before plans are made. */
gconv_status gconv_features_expect(gconv_operation *operation, const gconv_column_notes *notes);

/* ---- Classes of pixels --------------------------------------------------------------------------------------------- */

/* Reads a mask or a map of classes as gconv_image_read() does: one image with one integer per pixel, perhaps with alpha. It
 * becomes u8 or u16. Arrays may have any integer type, bools (True is 1), or floats whose values are integers.
 * GCONV_BAD_FILE for other images, for numbers outside of 0 .. 65535, and for files of lossy formats (JPEG, WebP with loss),
 * which have wrong numbers near edges. With options.palette, palette indices are read. options may be NULL. */
gconv_status gconv_mask_read(const char *path, const gconv_read_options *options, gconv_image *mask);

/* The number that each of `count` classes has in masks and maps: its name, if the names of all classes are integers from 0
 * to 65535, as in networks and models that were trained on masks; else its place among the classes, from 1 on.
 * GCONV_TOO_LARGE for more classes than there are numbers. */
gconv_status gconv_class_values(const char *const *classes, size_t count, uint16_t *values);

/* An image becomes what the network makes of the features that it names (gconv_network.features): a chain of
 * gconv_operation_features() and gconv_operation_of_network(), by rows, so that the features are never in memory as a whole.
 * Options are those of gconv_operation_of_network(); with GCONV_PRESENT_CLASSES, options->class_values NULL stands for
 * gconv_class_values(). The network must outlive the operation. GCONV_BAD_ARGUMENT for a network without features. */
gconv_status gconv_operation_pixels(const gconv_network *network, const gconv_network_options *options,
                                    gconv_operation **operation);

/* ---- Networks of arrays ---------------------------------------------------------------------------------------------- */

/* Runs a network that is a graph on arrays, as the model has them: of any number, type and shape, without scaling and tiles.
 *
 * inputs: each stands for one of network->inputs, by its name, or by its place if the name is NULL. All inputs must be
 * given. outputs: each stands for one of network->outputs in the same way; some may be left out. Outputs must be empty
 * besides their names. The call sets their types, axes, shapes and `data`, which the caller frees by free(). After a
 * failure, no output has data.
 *
 * The network keeps the plan for these shapes for the next call, so `device`, a CPU, must be closed after the network is
 * freed. Any number of threads may call this function at a time.
 *
 * GCONV_BAD_ARGUMENT if an array is missing, or has a type or shape that the model does not take; GCONV_UNSUPPORTED if the
 * network is a chain of layers, or the device a GPU. */
gconv_status gconv_network_run(const gconv_network *network, gconv_device *device, const gconv_network_tensor *inputs,
                               size_t input_count, gconv_network_tensor *outputs, size_t output_count);

/* A step of a plan for a graph: an input of the model, or a node that runs. Three sorts of nodes are not steps: those that
 * depend on constants only, those that no output needs, and those that are computed together with the node before them. */
typedef struct gconv_node_info {
  const char *kind;   /* the operator, "Conv"; NULL: an input */
  const char *name;   /* printable, as are the next two */
  const char *fused;  /* nodes that are computed together with it: "Relu 'r1'"; NULL: none */
  const char *output; /* the output of the model that it makes; NULL: none */
  const char *type;   /* of its result: "float32" */
  int32_t axes;
  int64_t shape[GCONV_NETWORK_AXES];
  double parameters;    /* how many floating-point numbers its constants have */
  const size_t *inputs; /* the steps whose results it takes, each once */
  size_t input_count;
} gconv_node_info;

/* Step number `index` of a plan, in the order in which they run, inputs first. NULL past the end, and for plans of anything
 * but a graph. Valid as long as the plan. */
const gconv_node_info *gconv_plan_node(const gconv_plan *plan, size_t index);

/* ---- Support vector machines --------------------------------------------------------------------------------------- */

/* A trained model. Immutable; several threads may use it. */
typedef struct gconv_svm gconv_svm;

typedef enum gconv_svm_type {
  GCONV_SVM_C_SVC,      /* classes, by a machine for each pair of them, whose votes are counted */
  GCONV_SVM_EPSILON_SVR /* a number; errors within a tube around it cost nothing */
} gconv_svm_type;

/* K(x, y), as LIBSVM defines it. */
typedef enum gconv_svm_kernel {
  GCONV_SVM_RBF,        /* exp(-gamma |x - y|^2) */
  GCONV_SVM_LINEAR,     /* x y */
  GCONV_SVM_POLYNOMIAL, /* (gamma x y + coef0)^degree */
  GCONV_SVM_SIGMOID,    /* tanh(gamma x y + coef0) */
  GCONV_SVM_PRECOMPUTED /* for training: column k of a row is its K with case k, so there are as many columns as cases. The
                           model's kernel is linear, and its vectors say which columns count */
} gconv_svm_kernel;

/* How each column is scaled, so that all have one range over the training cases. The model scales its inputs, too. */
typedef enum gconv_svm_scaling {
  GCONV_SVM_UNSCALED,
  GCONV_SVM_SCALE_SYMMETRIC, /* to -1 .. 1 */
  GCONV_SVM_SCALE_UNIT,      /* to 0 .. 1 */
  GCONV_SVM_SCALE_STANDARD   /* to a mean of 0 and a standard deviation of 1 */
} gconv_svm_scaling;

/* How far training is. A machine is trained for each pair of classes; probabilities need further machines; each fold of
 * cross-validation trains all of them again. */
typedef struct gconv_svm_progress {
  size_t machines, done; /* in all, and complete */
  double gap;            /* by how much the current machine violates the conditions of its optimum; NAN: not measured yet */
} gconv_svm_progress;

/* All may be 0, which means the defaults. */
typedef struct gconv_svm_options {
  gconv_svm_type type;
  gconv_svm_kernel kernel;
  gconv_svm_scaling scaling;
  int32_t degree;       /* degree of the polynomial, from 1 on; 0: 3 */
  double gamma;         /* above 0; 0: 1 / columns */
  double coef0;         /* constant term of the polynomial and the sigmoid */
  double cost;          /* C, above 0; 0: 1 */
  double tube;          /* epsilon of the regression, the half width of the tube; 0 means 0.1; negative: a tube of width 0 */
  double tolerance;     /* by how much the conditions of the optimum may be violated, above 0; 0: 0.001 */
  uint64_t cache_bytes; /* for rows of kernel values; 0: 200 MB. Results are the same for any */
  bool no_shrinking;  /* cases whose variables stay at a bound remain in the problem. Results differ within the tolerance */
  bool probabilities; /* the model yields probabilities; in regression, the scale of errors */
  uint64_t seed;      /* seed of the folds of cross-validation */
  const gconv_class_weight
      *weights; /* the cost of errors in a class is C times its weight; classes that are not named have 1 */
  size_t weight_count;
  void (*progress)(void *user, const gconv_svm_progress *progress); /* NULL, or: called often, from any thread, but by one at
                                                                       a time */
  void *user;                                                       /* for progress() */
  const double *case_weights; /* the cost of an error in a case is multiplied by its weight, above 0; NULL: all are 1 */
  size_t case_weight_count;   /* 0, or as many as there are cases, in their order */
  uint64_t most_steps; /* a machine's training ends after so many steps, which info->steps tells; 0: a limit by the number of
                          cases, with a warning when it is reached */
  uint64_t reserved[3];
} gconv_svm_options;

typedef struct gconv_svm_info {
  gconv_svm_type type;
  gconv_svm_kernel kernel;
  gconv_svm_scaling scaling;
  int32_t degree;
  double gamma, coef0;
  size_t columns;                 /* columns of a row that it takes */
  const char *const *classes;     /* their names; NULL of regression */
  size_t class_count, pair_count; /* pairs: class_count * (class_count - 1) / 2; of regression, both are 0 */
  size_t vector_count;            /* support vectors */
  bool probabilities;             /* it yields them */
  double spread;          /* for regression with probabilities, the scale of the Laplace distribution of errors; else 0 */
  const char *features;   /* for pixels: what its columns are, as gconv_features_resolve() writes it; NULL of tables */
  const char *label;      /* for a table with a header: the name of the column of targets; else NULL */
  const uint8_t *palette; /* for pixels: the colour of each class, R G B, or NULL */
  const gconv_column_notes *notes; /* about the columns of the table, or the features; count 0: nothing is known */
  double objective;                /* for training: the sum over pairs; NAN in a model that was read */
  size_t bounded_count;            /* for training: variables at C, over all pairs; 0 in a model that was read */
  bool on_gpu; /* for training: done by a GPU; false if the GPU had too little memory, and in a model that was read */
  const size_t
      *class_vectors; /* [class_count]: how many vectors each class has; they are in this order; NULL in regression */
  const double *coefficients; /* LIBSVM's sv_coef: [class_count - 1][vector_count]; in regression [1][vector_count] */
  const double *rho;          /* [pair_count]; in regression [1]: subtracted from the sum over support vectors */
  const size_t *support; /* [vector_count], for training: the case of each support vector; NULL in a model that was read */
  const uint64_t
      *steps; /* [pair_count]; in regression [1]. For training: steps of each machine; NULL in a model that was read */
} gconv_svm_info;

/* The quality of predictions for cases that the model was not trained on. */
typedef struct gconv_svm_validation {
  size_t cases, right;
  double accuracy;    /* for classes: right / cases; else NAN */
  double mse;         /* for regression, the mean squared error; else NAN */
  double correlation; /* for regression, the square of the correlation of predictions and targets; else NAN */
  bool on_gpu;        /* a GPU trained the models of all folds */
  uint64_t reserved[4];
} gconv_svm_validation;

/* Trains on all cases of `data`: a table with classes, pixels, or, for regression, a table with one target per case.
 * `options` may be NULL. Results do not depend on the device or its threads. If a GPU has too little memory, the CPU trains,
 * with a warning. The CPU also trains with the sigmoid kernel and with
 * precomputed ones. GCONV_BAD_ARGUMENT: one class, a class without cases,
 * infinities or NaN. */
gconv_status gconv_svm_train(const gconv_svm_options *options, const gconv_dataset *data, gconv_device *device,
                             gconv_svm **model);
/* Cross-validation: splits the cases into `folds` folds, stratified by class. A model of the other folds predicts each. */
gconv_status gconv_svm_validate(const gconv_svm_options *options, const gconv_dataset *data, size_t folds,
                                gconv_device *device, gconv_svm_validation *result);

/* Whether `path` names a regular file that begins as the text of a LIBSVM model does. Pipes are left unread. */
bool gconv_svm_is_one(const char *path);
/* Reads a model of LIBSVM or of gconv. Models of nu-SVC and nu-SVR are read as C-SVC and epsilon-SVR, which predict the
 * same. GCONV_BAD_FILE names the line that is wrong; GCONV_UNSUPPORTED names a type or a kernel that gconv does not have. */
gconv_status gconv_svm_read(const char *path, gconv_svm **model);
/* Writes the model whole or not at all, as text that LIBSVM reads. Float64 numbers have 17 digits. */
gconv_status gconv_svm_write(const char *path, const gconv_svm *model);
/* NULL is allowed. */
void gconv_svm_free(gconv_svm *model);

/* Valid as long as the model. */
const gconv_svm_info *gconv_svm_get_info(const gconv_svm *model);

/* Arrays of the caller for predictions of `count` rows. Each array may be NULL. */
typedef struct gconv_svm_results {
  int32_t *classes; /* [count]: numbers of classes; with probabilities, the most probable ones */
  double *values;   /* [count][pair_count]: decision values of the pairs (0, 1), (0, 2) ... (1, 2) ...: above 0 for the first
                       class of the pair; for regression, [count] predicted numbers */
  double *probabilities; /* [count][class_count], if the model yields them */
  uint64_t reserved[4];
} gconv_svm_results;

/* Applies the model to `count` contiguous rows of info->columns float32 numbers each, from which info->notes->origins are
 * already subtracted. Fills the arrays of `results`; the struct itself is not changed. GCONV_BAD_ARGUMENT names the first
 * number that is not finite. The result of a row does not depend on the other rows, or on threads. */
gconv_status gconv_svm_predict(const gconv_svm *model, gconv_device *device, const float *rows, size_t count,
                               const gconv_svm_results *results);

/* Makes an operation that computes the features of an image (info->features) and applies a model that was trained on pixels,
 * by rows, as gconv_operation_pixels() does. The model yields a channel for each class: its probability if the model yields
 * probabilities, else 1 for the class with the most votes of the pairs and 0 for all others. `options` (NULL: all 0) say how
 * these channels become results; their names of algorithms, mean and std are ignored. The model must outlive the operation.
 * GCONV_BAD_ARGUMENT for a model without features. */
gconv_status gconv_operation_svm(const gconv_svm *model, const gconv_network_options *options, gconv_operation **operation);

GCONV_API_END
#endif
