/* SPDX-License-Identifier: MIT */
/*
 * Learning: networks as files, data sets, training by backpropagation, and filters that are fitted to pairs of images.
 *
 *     gconv_dataset_open()         cases: rows of a table, windows of a signal, images by class, pairs of images
 *     gconv_network_make()         layers with random weights, from a text such as "dense 63 tanh, dense 26 softmax"
 *     gconv_trainer_create(), gconv_trainer_epoch() ...
 *     gconv_trainer_network()      the trained network
 *     gconv_network_write()        one file, which gconv can apply like filters
 *
 * The rules of gconv.h hold here.
 */
#ifndef GCONV_LEARN_H
#define GCONV_LEARN_H

#include "gconv.h"

GCONV_API_BEGIN

/* ---- Networks ------------------------------------------------------------------------------------------------------ */

/* What training minimises: a row for each loss, with its name. y are the outputs of a case, t its targets: 1 for the right
 * class, else 0. */
#define GCONV_EACH_LOSS(ROW)                                                                                                \
  ROW("sse", GCONV_LOSS_SSE)                     /* the sum of (y - t)^2 / 2 over all outputs of all cases */               \
  ROW("mse", GCONV_LOSS_MSE)                     /* the mean of (y - t)^2 over outputs and cases */                         \
  ROW("mae", GCONV_LOSS_MAE)                     /* the mean of |y - t| over outputs and cases */                           \
  ROW("cross-entropy", GCONV_LOSS_CROSS_ENTROPY) /* the mean of -log y over cases, y being the output of the right class;   \
                                                    after softmax only */

typedef enum gconv_loss {
  GCONV_LOSS_DEFAULT, /* cross-entropy after softmax, else mse; in a network, it is not known */
  GCONV_EACH_LOSS(GCONV_LISTED)
} gconv_loss;

/*
 * What a model keeps about the columns of the table (or the features of pixels) that it was trained on. So a prediction
 * depends only on its own row and the model. The arrays have `count` items each, or are NULL.
 */
typedef struct gconv_column_notes {
  size_t count;       /* columns, without the column of targets; 0: nothing is known of them */
  char **names;       /* as the header has them, UTF-8; NULL: there was no header */
  double *means;      /* over the training cases; with missing = "mean", these replace missing numbers */
  double *deviations; /* standard deviations over the same cases */
  double *origins; /* offsets that are subtracted in float64 before numbers are rounded to float32, for columns whose numbers
                      float32 could not tell apart; NULL: all 0. `means` are of the original numbers */
} gconv_column_notes;

enum { GCONV_NETWORK_AXES = 8 };

/* An input or output of a model: an array of up to GCONV_NETWORK_AXES axes, the last axis fastest. */
typedef struct gconv_network_tensor {
  char *name;       /* in the model */
  const char *type; /* of its elements: "float32", "float64", "uint8" to "uint64", "int8" to "int64", "bool" */
  int32_t axes;     /* 0: a scalar; -1: the model does not say the shape */
  int64_t shape[GCONV_NETWORK_AXES]; /* in a model's description, 0 means any size */
  void *data;                        /* the elements; NULL in a model's description */
  bool channels_last;                /* in a model's description: it takes images as N x H x W x C */
} gconv_network_tensor;

/*
 * A chain of layers with their weights, and what is needed to use it. Zero-initialise before first use. Its file is
 * safetensors: layer i that has weights has the tensors l<i>.weight, K x C x R x S, and l<i>.bias, K; the other fields are
 * JSON in the entry "gconv" of __metadata__ (docs/filter-formats.md).
 */
typedef struct gconv_network {
  gconv_layer *layers; /* owned; the bank of layers[i] is &banks[i], or NULL for kinds without weights */
  gconv_bank *banks;   /* owned, `count` of them */
  size_t count;
  int32_t channels, height, width; /* the input that it was made for; height and width are 0 if any will do */
  float *mean, *std;               /* owned: what the input is normalised by, as in gconv_network_options */
  int32_t mean_count, std_count;
  float white;              /* as in gconv_network_options; 0: 1 */
  gconv_colour_order order; /* of the colours that it takes and makes */
  char **classes;           /* owned: the class of each output; NULL if outputs are not classes */
  size_t class_count;
  gconv_loss loss;
  uint64_t seed;  /* seed of its random numbers */
  char *trained;  /* owned: how it was trained, a JSON object; NULL if it is not known */
  char *features; /* owned: the list of features that its inputs are, as gconv_features_resolve() writes it; NULL: it takes
                     images, tables or signals as they are */
  char *label;    /* owned: the name of the column of targets of the table that it was trained on, or NULL */
  gconv_column_notes notes; /* owned: of the table or the pixels that it was trained on; zeroes: nothing is known */
  uint8_t *palette;         /* owned: of maps of classes, the colour of each class, R G B, 3 * class_count bytes; or NULL */
  char *others; /* owned: a JSON object of the unknown entries of its file, which are kept when it is written; or NULL */
  struct gconv_graph *graph; /* owned: the nodes of a network that is not a chain of layers; then `layers` is NULL. A graph
                                can be applied, on the CPU, but neither written nor trained */
  uint64_t graph_digest;     /* digest of the nodes and numbers of the graph */
  gconv_network_tensor *inputs, *outputs; /* owned: those of an ONNX model, in the order of its file; else NULL. Inputs that
                                             no node uses are left out. Types of 16-bit floats are float32 here */
  size_t input_count, output_count;
  const char
      *output; /* for a graph with several outputs: the name of the only output to compute, owned by the caller. NULL: all */
  uint64_t reserved[4];
} gconv_network;

/* Frees what the network owns and zeroes it. NULL is allowed. */
void gconv_network_free(gconv_network *network);

/* Whether `path` names a file that holds a network: safetensors with "gconv" in its __metadata__. */
bool gconv_network_is_one(const char *path);

/* Reads into *network, which must be empty. GCONV_BAD_FILE says which tensor or key is wrong; GCONV_UNSUPPORTED names a kind
 * of layer or a version that this gconv does not know. */
gconv_status gconv_network_read(const char *path, gconv_network *network);

/* Imports a model of another program into *network, which must be empty. An ONNX model (`net` is NULL) becomes a chain of
 * layers if it is one, else a graph. The weights of a PyTorch nn.Sequential in safetensors need `net`, which says what
 * follows each layer, "relu, /2 relu, mean, softmax" (docs/filter-formats.md). GCONV_UNSUPPORTED names the node or
 * tensor. */
gconv_status gconv_network_import(const char *path, const char *net, gconv_network *network);

/* Writes the network whole or not at all. Weights keep their bits. A path that ends in .onnx gets an ONNX model of float32,
 * of opset 13, or of 19 if a layer has the border wrap. The ONNX model takes inputs before mean and std are applied. A
 * warning names what ONNX cannot hold; GCONV_UNSUPPORTED names a layer that ONNX has no node for. */
gconv_status gconv_network_write(const char *path, const gconv_network *network);

/* Makes layers with random weights, into *network, which must be empty, from a text: "4*(conv 16 3x3 relu), conv 1 3x3,
 * residual" (docs/learning.md has the syntax). `input`: its channels, height and width; the latter two are 0 for any size.
 * The last layer must have `outputs` outputs; 0: any number. GCONV_BAD_ARGUMENT shows the place in the text. */
gconv_status gconv_network_make(const char *text, const int32_t input[3], size_t outputs, uint64_t seed,
                                gconv_network *network);

/* Makes the operation that applies the whole network. It differs from gconv_operation_network() in that, if `options` (NULL:
 * all 0) has no mean or std, the network's are used. The network must outlive the operation.
 *
 * A graph must have one input, of images: N x C x H x W or N x H x W x C, of float32, or of uint8 levels 0 .. 255, whose
 * sizes are network->channels, height and width; else GCONV_UNSUPPORTED. If it has several outputs, all are results, in
 * their order, unless network->output names one. If results are pictures, each of several outputs becomes one: an image like
 * the input, a grey or colour picture of 1 or 3 channels, or a mosaic of its channels. */
gconv_status gconv_operation_of_network(const gconv_network *network, const gconv_network_options *options,
                                        gconv_operation **operation);

/* ---- Data sets ----------------------------------------------------------------------------------------------------- */

/* Cases: inputs of one shape, each with a class or with targets. A data set may be larger than memory: cases are read when
 * they are needed. It is immutable except for its cache of files; several threads may read it. */
typedef struct gconv_dataset gconv_dataset;

typedef enum gconv_dataset_kind {
  GCONV_DATASET_TABLE,   /* rows of CSV, LIBSVM, FANN, the letters thesis's text, .npy or IDX */
  GCONV_DATASET_WINDOWS, /* windows of a signal: .npy or raw samples */
  GCONV_DATASET_CLASSES, /* a folder that has a sub-folder of images for each class */
  GCONV_DATASET_PAIRS,   /* images and their targets, paired by name */
  GCONV_DATASET_PIXELS   /* pixels of images, and their classes from masks; masks are found by name */
} gconv_dataset_kind;

/* Cases in memory, in place of files. Tables have rows, and labels or targets; classes have images and labels; pairs and
 * pixels have `images` and `wanted`. All other fields are 0 or NULL. gconv_dataset_open() copies rows, labels and targets.
 * The caller owns the images, which must not change as long as the data set is open. */
typedef struct gconv_dataset_cases {
  size_t count;              /* of rows or images, at least 1 */
  const float *rows;         /* count x columns numbers; NaN is missing */
  const double *wide_rows;   /* in place of `rows`: columns may get an origin (gconv_column_notes.origins) */
  size_t columns;            /* at least 1 */
  const char *const *names;  /* of the columns; NULL: they have none */
  const char *const *labels; /* the name of each case's class; NULL in it: missing */
  const double *targets;     /* for tables, in place of `labels`: count x outputs numbers. One number is a class, unless
                                options->regression */
  size_t outputs;            /* at least 1 */
  const gconv_image *images; /* `count` images of one frame */
  const gconv_image *wanted; /* `count` images: for pairs the targets, for pixels the masks */
  uint64_t reserved[4];
} gconv_dataset_cases;

/* What a data set is made of. `kind`, and `inputs` or `cases`, must be set; all else may be 0 or NULL. */
typedef struct gconv_dataset_options {
  gconv_dataset_kind kind;
  const gconv_dataset_cases
      *cases;         /* cases in memory, in place of `inputs` and `targets`; NULL: there are files. Signals must be files */
  const char *inputs; /* path of the table, the signal, or the folder */
  const char *targets; /* path of the targets, if `inputs` does not contain them */
  const char *syntax;  /* for a table: "csv", "libsvm", "fann", "letters", "npy", "idx"; of a signal: "npy", or raw: "f32le",
                          "s16le", "u8", of several channels "f32le:2"; NULL: known by content, then by name */
  const char *label;   /* for a table: the column of targets, by its name or its number from 1 on; NULL: the last one */
  const char *usual_label; /* without `label`: the name of the column of targets, if the table has such a column; or NULL */
  bool regression;         /* labels that are numbers are targets, not classes */
  bool classification; /* integer labels, and single integer targets, are classes even if nearly each case has its own. If
                          false, such labels are targets, with a warning */
  bool unlabelled;     /* there are no targets: for applying a network */
  char separator;      /* for CSV; 0: found from the first lines */
  size_t columns;      /* for LIBSVM: the fewest columns, as the file lacks columns of zeros alone */
  const char *missing; /* for missing numbers, such as empty fields and NaN: "mean" replaces them by the mean over the
                          training cases, "drop" leaves the row out; NULL: they are an error */
  bool one_hot; /* for CSV: columns of words become a column of 0 and 1 for each word, called "town=Ulm"; else words are
                   an error. A model keeps these names, so that its tables need no option */
  const char *const *classes; /* the classes of a trained network, in their order; other labels are an error */
  size_t class_count;
  bool others; /* for comparing with a model: labels that are not in `classes` get the numbers after the classes */
  const gconv_column_notes *like; /* for a table: the notes of a model. Columns are matched by name, if both have names;
                                     missing numbers become the means of the model. NULL: there is no model */
  int32_t window, hop;            /* for a signal: samples of a window, and from one to the next */
  int32_t patch;                  /* for images: side of the random patches; 0: whole images, which must have one size */
  bool augment;                   /* random flips, and rotations by 90 degrees */
  bool gray;                      /* images are made grey */
  uint64_t seed;                  /* seed of patches and augmentation */
  uint64_t memory;      /* bytes that the data set may keep in memory: each table of numbers, each signal, and the cache of
                           decoded images may take a quarter. Larger tables and signals go into an unnamed temporary file in
                           $TMPDIR; images that are not in the cache are decoded again. 0: 2^32 */
  const char *features; /* for pixels: the list of features, as gconv_features_resolve() reads it; NULL: "default". Masks
                           (`targets`) are u8 or u16 in one channel, or have a palette: 0 is unlabelled, all other numbers
                           are classes, in ascending order, and are the names of the classes */
  size_t most_cases; /* for pixels: use at most so many labelled pixels, drawn by `seed`, an equal number of each class if it
                        has enough; 0: all. At least 1 per class */
  uint64_t reserved[4];
} gconv_dataset_options;

typedef struct gconv_dataset_info {
  size_t cases;
  int32_t channels, height,
      width;      /* the shape of an input; for tables, columns x 1 x 1; for windows, channels x 1 x window */
  size_t outputs; /* classes, or floats of the targets of a case */
  int32_t target_channels, target_height, target_width; /* targets that are images; else outputs x 1 x 1 */
  const char *const *classes; /* names of the classes; NULL: there are targets, or neither classes nor targets */
  size_t class_count;
  const char *const *columns; /* for a table with a header: names of the inputs; else NULL */
  gconv_column_notes notes;   /* for a table or pixels: the notes of options.like, or else of the data, which a model should
                                 keep; zeroes for other kinds. Owned by the data set */
  const char *const
      *others; /* with options.others: the labels that are not classes; their numbers follow the numbers of the classes */
  size_t other_count;
  const char *label;    /* for a table with a header: the name of the column of targets, or NULL */
  const char *features; /* for pixels: the list, with sets written out; else NULL */
  bool approximated;    /* labels were whole numbers, but are targets, as nearly each case had its own */
  const size_t *rows; /* the number of each case, from 0 on, in the file, or, for a part that gconv_dataset_split() made, in
                         the whole data set; NULL: the numbers are 0, 1, 2 ... */
  size_t left_out;    /* for a table: how many rows of the file are left out, as numbers or labels are missing */
  size_t labelled;    /* for pixels: how many pixels have a class; the cases were drawn from these; else 0 */
  const uint8_t *palette; /* for pixels: the colour of each class, R G B, if the first mask has a palette; else NULL */
} gconv_dataset_info;

/* Errors name the file and line. */
gconv_status gconv_dataset_open(const gconv_dataset_options *options, gconv_dataset **dataset);
/* Valid as long as the data set. */
const gconv_dataset_info *gconv_dataset_get_info(const gconv_dataset *dataset);
/* Reads the cases of the numbers `cases`[0 .. count - 1] as float32: inputs count x channels x height x width; targets count
 * x outputs, or, for classes, count numbers of classes from 0 on. Samples of images are in [0, 1]. Random patches and
 * augmentation depend only on the seed, `epoch` and the number of the case. `targets` may be NULL. */
gconv_status gconv_dataset_read(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count,
                                float *inputs, float *targets);
/* Splits a data set, stratified by class: *second has `fraction` of the cases, drawn by `seed`; *first has all other cases.
 * Both share `dataset`, which must outlive them. */
gconv_status gconv_dataset_split(const gconv_dataset *dataset, double fraction, uint64_t seed, gconv_dataset **first,
                                 gconv_dataset **second);
/* NULL is allowed. */
void gconv_dataset_free(gconv_dataset *dataset);

/* ---- Training ------------------------------------------------------------------------------------------------------ */

/* How gradients change weights: a row for each optimiser, with its name. */
#define GCONV_EACH_OPTIMIZER(ROW)                                                                                           \
  ROW("adam", GCONV_OPTIMIZER_ADAM) /* Kingma and Ba 2015, with the decoupled weight decay of Loshchilov and Hutter 2019 */ \
  ROW("sgd", GCONV_OPTIMIZER_SGD)                                                                                           \
  ROW("momentum", GCONV_OPTIMIZER_MOMENTUM)                                                                                 \
  ROW("rprop", GCONV_OPTIMIZER_RPROP) /* iRprop-: Riedmiller and Braun 1993, Igel and Huesken 2000 */

typedef enum gconv_optimizer { GCONV_EACH_OPTIMIZER(GCONV_LISTED) } gconv_optimizer;

/* How the learning rate changes over the epochs: a row for each schedule, with its name. */
#define GCONV_EACH_SCHEDULE(ROW)                                                                                            \
  ROW("constant", GCONV_SCHEDULE_CONSTANT)                                                                                  \
  ROW("linear", GCONV_SCHEDULE_LINEAR) /* to 0 at the last epoch */                                                         \
  ROW("cosine", GCONV_SCHEDULE_COSINE) /* to 0 at the last epoch */                                                         \
  ROW("step", GCONV_SCHEDULE_STEP)     /* to a tenth after each third of the epochs */

typedef enum gconv_schedule { GCONV_EACH_SCHEDULE(GCONV_LISTED) } gconv_schedule;

enum { GCONV_DEFAULT_BATCH = 32, GCONV_DEFAULT_EPOCHS = 100, GCONV_DEFAULT_SAVE_SECONDS = 120 };

/* A factor for errors in a class. It multiplies C of a support vector machine, or the loss of a case of a network. */
typedef struct gconv_class_weight {
  const char *class_name;
  double weight; /* above 0 */
} gconv_class_weight;

/* All may be 0. */
typedef struct gconv_training_options {
  gconv_loss loss;
  gconv_optimizer optimizer;
  gconv_schedule schedule;
  double rate;              /* 0: of adam 0.001, of sgd 0.1, of momentum 0.02, of rprop the first step, 0.01 */
  double momentum;          /* factor of the optimiser momentum; 0: 0.9 */
  double weight_decay;      /* each step subtracts rate * weight_decay * w from a weight w; biases are left alone */
  double elimination;       /* lambda of weight elimination (Weigend, Rumelhart and Huberman 1991): the loss gets
                               lambda * sum (w/w0)^2 / (1 + (w/w0)^2) over weights */
  double elimination_scale; /* w0; 0: 1 */
  size_t batch;             /* cases per step; 0: GCONV_DEFAULT_BATCH; SIZE_MAX: all cases. rprop always takes all cases */
  size_t epochs;            /* 0: GCONV_DEFAULT_EPOCHS */
  size_t patience;   /* ends training after so many epochs without a smaller loss (of the validation, if there is one); 0:
                        never */
  double stop_error; /* ends training once the loss of an epoch is at most this; 0: never */
  uint64_t seed;     /* seed of the order of cases */
  uint64_t memory;   /* bytes of the host's memory for the values of a step, if the step can be split; 0: 2^28 */
  const char *algorithm; /* "exact": the same bytes on every device; NULL or "auto": the fastest */
  bool normalize;        /* the means and deviations of the data's channels replace those of the network */
  gconv_math math; /* the precision to which products may be rounded, on GPUs that are faster with it; not with "exact" */
  const gconv_class_weight *weights; /* weights of classes; classes that are not named have 1 */
  size_t weight_count;
  const char *save_to; /* NULL, or a path: gconv_trainer_epoch() writes a checkpoint there from time to time, within epochs
                          too, so that training goes on from there if the process is killed. Results are the same. A
                          failure to write is a warning */
  double save_seconds; /* between two checkpoints; 0: GCONV_DEFAULT_SAVE_SECONDS */
  const char *resume_from;  /* NULL, or the path of a checkpoint that was made with the same network, options and data:
                               training goes on from there */
  const volatile int *stop; /* NULL, or: once it is not 0, gconv_trainer_epoch() returns after the current step */
  uint64_t reserved[4];
} gconv_training_options;

/* The result of an epoch. */
typedef struct gconv_epoch {
  size_t number;   /* number of complete epochs */
  double loss;     /* the mean over the epoch, while weights changed; with full batches, before the step */
  double accuracy; /* for classes, the share of cases whose largest output is the right one, from 0 to 1; else NAN */
  double validation_loss, validation_accuracy; /* after the epoch; NAN without validation */
  bool best;                                   /* its weights are the best so far; gconv_trainer_network() yields the best */
  bool interrupted;  /* by options.stop: the epoch is not complete, and goes on with the next call */
  const char *ended; /* a sentence: why training has ended; NULL: it has not. Static storage */
  bool diverged;     /* training ended because the loss or a weight is no longer finite */
  const char
      *chosen; /* a text: the algorithm, and why it was chosen; how threads share a step. Valid as long as the trainer */
  uint64_t reserved[4];
} gconv_epoch;

/* A network in training, on one device. Its results depend only on the network, the options, the data and the device's
 * family of algorithms, not on the number of threads, or on interruptions. Only one thread at a time may use it. */
typedef struct gconv_trainer gconv_trainer;

/* Copies network and options. A remark (gconv_set_log()) names the device and algorithm that were chosen, and says why.
 * `validation` may be NULL. Data sets must outlive the trainer. */
gconv_status gconv_trainer_create(gconv_device *device, const gconv_network *network, const gconv_training_options *options,
                                  const gconv_dataset *data, const gconv_dataset *validation, gconv_trainer **trainer);
/* Trains one epoch. A loss that is not finite ends training: `ended` says so, and what to change. */
gconv_status gconv_trainer_epoch(gconv_trainer *trainer, gconv_epoch *epoch);
/* Copies the network with its best weights, or, if `last`, with the weights of the last step, into *network, which must be
 * empty. Its field `trained` says how it was trained. */
gconv_status gconv_trainer_network(const gconv_trainer *trainer, bool last, gconv_network *network);
/* Writes a checkpoint, whole or not at all: the file of a network with the optimiser's tensors, the step, and the state of
 * the random numbers. */
gconv_status gconv_trainer_save(const gconv_trainer *trainer, const char *path);
/* NULL is allowed. */
void gconv_trainer_free(gconv_trainer *trainer);

/* ---- Fitting a filter to pairs of images --------------------------------------------------------------------------- */

/* Set the first fields, and zero the others, before the first gconv_fit_add(). */
typedef struct gconv_fit {
  int32_t rows, columns; /* rows and columns of the filter, from 1 on; rows * columns is at most GCONV_FIT_MAX_TAPS. Its
                            anchor is the default, at rows / 2 and columns / 2 */
  bool bias;             /* a constant is fitted too */
  double ridge;          /* at least 0: ridge * (mean square of the samples) * sum w^2 is added to the mean squared error */
  bool whole; /* all pixels of `after` count, and the filter sees `before` with `border`. If false, only pixels count for
                 which the filter lies inside the image, as the border is unknown */
  gconv_border border;
  double border_value;         /* for GCONV_BORDER_CONSTANT; 1 is white */
  uint64_t max_pixels;         /* gconv_read_options */
  struct gconv_fit_sums *sums; /* owned: sums of products of samples, in float64 */
  uint64_t reserved[4];
} gconv_fit;

enum { GCONV_FIT_MAX_TAPS = 4096 }; /* with so many taps, the sums of products take 67 MB, and solving takes some seconds */

/* How well a filter explains samples. */
typedef struct gconv_fit_quality {
  double r2;       /* the share of the variance of `after` that the filter explains, 1 at best; NAN if there is none */
  double residual; /* root of the mean squared error; 1 is white. Rounding alone may cause residuals up to 1e-8 */
  uint64_t samples,
      clipped; /* numbers of samples that count; and that were left out, as they are black or white in an integer image */
} gconv_fit_quality;

/* The result of a fit. Zero-initialise before first use. */
typedef struct gconv_fit_result {
  gconv_filters filters; /* one filter, in float32, whose offset is the bias; the caller frees it by gconv_filters_free() */
  double *taps;          /* rows x columns taps in float64, before they are rounded; the caller frees them by free() */
  double bias;           /* in units where 1 is white; 0 if no bias was asked for */
  gconv_fit_quality fitted, held; /* quality on the samples that the filter was fitted to; on those that were held out */
  double condition; /* condition of the normal equations, with the ridge: the largest eigenvalue over the smallest */
  double
      white; /* residuals are multiplied by this to become levels of `after`: 255 or 65535; 1 for floats and mixed types */
  double correlation; /* correlation of the residuals of neighbouring pixels, in the middle of images: 0 for noise; NAN: too
                         small */
  bool nonlinear;     /* no filter of this size explains the images: r2 is below 0.95, and `correlation` above
                         0.3, so that the residuals are no noise */
  bool shifted;       /* `after` looks shifted: ... */
  double shift_y, shift_x; /* ... by so many pixels, down and to the right */
  double rim;              /* the share of sum w^2 that the taps at the rim of the filter have */
  bool cut;                /* `rim` is so large that the filter looks cut off: a larger one may explain more */
  uint64_t reserved[4];
} gconv_fit_result;

/* Adds a pair of images of the same frames, height, width and colours; their types may differ. `after` is what the filter
 * shall make of `before`. Each colour is filtered by itself, and alpha does not count. Files are read by rows. `held`, from
 * 0 to 1, is the share of the pair that is held out: the filter is not fitted to it, but judged by it. For shares between 0
 * and 1, blocks of rows at equal distances are held out, or of columns if there are few rows. Results do not depend on the
 * threads of the device. GCONV_BAD_ARGUMENT: the shapes differ, or the filter is larger than the images; GCONV_BAD_FILE: a
 * sample is not finite. After a failure, what was added before still counts, and so may a part of the pair. */
gconv_status gconv_fit_add(gconv_fit *fit, gconv_device *device, const gconv_compared *before, const gconv_compared *after,
                           double held);
/* Solves the normal equations by Cholesky's method in float64, into *result, which must be empty. GCONV_UNSUPPORTED if they
 * have no unique solution, or there are fewer samples than taps; its text says what to do. */
gconv_status gconv_fit_solve(const gconv_fit *fit, gconv_device *device, gconv_fit_result *result);
/* Frees the sums, and leaves the other fields. NULL is allowed. */
void gconv_fit_free(gconv_fit *fit);

GCONV_API_END
#endif
