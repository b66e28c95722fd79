/* SPDX-License-Identifier: MIT */
/* Networks as an operation: what the operation and its plans hold, and what a device does for them (network_cpu.c,
 * network_cuda.cu). */
#pragma once

#include "graph/image.h"
#include "graph/rolling.h"
#include "graph/solve.h"
#include "graph/tiles.h"
#include "layer/present.h"
#include "layer/resize.h"
#include "operation/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the pixels of an image become the tensor that the first layer sees (input.h). */
typedef struct gconv_input {
  gconv_type type;
  bool planar;
  int32_t images, channels, height, width; /* N, C, H, W of the tensor: alpha that is left out is not counted */
  int32_t rows;          /* rows of the tensor in one execution: the height or, by rows, the rows that it needs */
  int32_t file_channels; /* channels of the image in the file */
  float white;           /* the level that becomes 1 */
  int32_t first, step;   /* channel c of the tensor is channel first + c * step of the image: step is 0 for a grey image that
                            a network of three colours gets three times, -1 for blue first */
  bool alphas;           /* every second image of the tensor is alpha, repeated in all channels */
  float *mean, *std;     /* owned: C of each; NULL: 0, 1 */
} gconv_input;

/* The rows of one execution in a whole tensor: if the first output row is `first`, they begin at row first * scale - shift
 * of the tensor. Rows may lie outside the tensor. */
typedef struct gconv_band {
  int64_t scale, shift;
} gconv_band;

/* A layer and how it is solved, or the padding of a layer's input. Layers without weights, and steps that pad, have no
 * algorithm, but a problem with the shapes of their input and output. */
typedef struct gconv_step {
  gconv_graph_plan *graph;  /* owned: the whole network is this graph, which is the only step; NULL: a layer */
  gconv_graph_tiles *tiles; /* owned: the image is cut into tiles, and `graph` is its outline; NULL: it is whole */
  gconv_graph_cut cut;      /* how the graph is cut into tiles or bands */
  char *uncut;              /* owned: why the graph cannot be cut, although it should; or NULL */
  gconv_image *further;     /* owned: the graph's outputs after its first one; with pixels in plans that are executed */
  size_t further_count;
  gconv_layer_kind kind;
  size_t layer;                /* the number of its layer, from 0 on */
  bool pads;                   /* the step pads the input of its layer, which the next step solves (border.c) */
  gconv_border border;         /* border of a step that pads */
  float outside;               /* the constant of border constant */
  bool softmax;                /* softmax is applied to the output of the algorithm */
  gconv_layer_problem whole;   /* the problem of the whole tensor */
  gconv_layer_problem problem; /* problem of one execution: problem.images at a time; by rows, the rows that it needs */
  gconv_band out_band;         /* by rows: the rows of the step's output */
  int32_t images;              /* of a whole batch */
  int32_t chosen_for;          /* the number of images that auto chooses for */
  int32_t out_channels;        /* channels of its output: K; C * K if the bank is applied to each channel */
  gconv_solver *solver;        /* owned: the algorithm, and its weights; NULL: no algorithm solves it */
  gconv_rolling *rolling;      /* owned: of this step and of those behind it, which run with it by bands; or NULL */
  bool inner;                  /* its output is the input of the next step, band by band, and is never whole in memory */
  gconv_layer_info info;
} gconv_step;

/* The operation: the user's layers and options. Banks belong to the caller. */
typedef struct gconv_network_operation {
  gconv_operation base;
  gconv_layer *layers; /* owned, with the names of algorithms */
  size_t count;
  gconv_graph *graph;             /* owned: runs in place of `layers`, made for images; or NULL. May be own_graph */
  gconv_graph *own_graph;         /* owned: the graph of layers that run as a graph, or NULL */
  int32_t graph_outputs;          /* channels of the graph's first output */
  int32_t channels;               /* for images that a gconv_network was made for; 0: as the first layer says */
  int32_t height, width;          /* for images that a gconv_network was made for; 0: any size */
  bool warned_size, warned_alpha; /* a warning was given: of images of another size, of alpha. Changed atomically */
  gconv_network_options options;  /* mean, std and names are copies */
} gconv_network_operation;

/* The plan. */
typedef struct gconv_network_plan gconv_network_plan;

typedef struct gconv_network_type {
  /* Allocates what executions need. release() frees it, and allows NULL. */
  gconv_status (*prepare)(const gconv_network_plan *network, void **run);
  /* Executes the network. `out` has pixels. `there`: `in` is in memory of the device; never on the CPU. Adds to the timings.
   * By rows: makes rows of the output from `first` on; `in` begins at row in_row of the input. */
  gconv_status (*execute)(void *run, const gconv_image *in, bool there, int64_t in_row, int64_t first,
                          const gconv_image *out, gconv_timings *timings);
  gconv_status (*measure)(void *run, const gconv_image *in, const gconv_image *out, bool warm, int runs,
                          double *milliseconds);
  void (*release)(void *run);
  size_t (*held_bytes)(const void *run); /* NULL: not known */
  /* As execute() of whole images, but `in` and `out` are in memory of the device, and the stream is the caller's. NULL: the
   * device's memory is the host's. */
  gconv_status (*execute_device)(void *run, const gconv_image *in, const gconv_image *out, void *stream);
} gconv_network_type;

extern const gconv_network_type gconv_network_type_cpu;
#ifdef GCONV_WITH_CUDA
extern const gconv_network_type gconv_network_type_cuda;
#endif

struct gconv_network_plan {
  gconv_plan base;
  gconv_options before; /* if `grays`: options of the stage on the host that makes images grey */
  bool grays;
  gconv_image seen; /* header of the input after that stage */
  gconv_image out;  /* header of the maps that an execution makes: of all rows, or of some */
  gconv_presenter presenter;
  gconv_presenter *further; /* owned: of each of steps[0].further; or NULL */
  bool bleeds;              /* transparent pixels get colours of their neighbours first (bleed.h) */
  bool greys;               /* the result has three colours, and becomes grey because the input is grey */
  bool alphas;              /* alpha is an image of its own after each image, and so are its maps */
  gconv_image shown;        /* with `greys` or `alphas`: the maps in grey or with alpha, for pictures; empty until needed */
  gconv_resizing rows, columns; /* of channels that do not go through the network: alpha, and colours of `luma` */
  bool luma;                    /* the result is brightness, and gets the colours of the input */
  gconv_image maps;  /* the maps of the last execution, if they do not go into the caller's images; empty until needed */
  int kept_file;     /* by rows: the descriptor + 1 of the file with the maps of the survey; 0: none are kept */
  int32_t kept_rows; /* rows that it has */
  bool by_rows;
  bool measures; /* by rows: the pass measures what nodes of a graph need to know of the whole image, and makes no rows */
  gconv_band in_band; /* by rows: the rows of the input */
  gconv_input input;
  bool by_channel;         /* the network takes one channel: each channel of an image is an image of its own */
  gconv_graph_options how; /* options of graphs and solvers */
  gconv_step *steps;       /* owned: one for each layer, and one before it that pads its input, if its border is not zeros */
  size_t count;
  bool merged; /* all steps are one kernel (kernels/cuda/fast/layer/pointwise.h) */
  gconv_combine combine;
  int32_t combined; /* how many channels are combined into one */
  int32_t filters;  /* K of the last bank: results of argmax are modulo K */
  char *reasons;    /* why these algorithms: lines of text */
  const gconv_network_type *type;
  void *run; /* the run that prepare() of `type` made */
};

/* Returns the header, and the pixels if there are any, of output number `i` + 1 of a graph. */
gconv_image gconv_network_further_maps(const gconv_network_plan *network, size_t i);

/* Returns the work of a step, for its solver. stream: of a GPU; NULL on the CPU. */
static inline gconv_node_work gconv_step_work(const gconv_network_plan *network, void *workspace, void *stream) {
  gconv_node_work work = {0};
  work.threads = network->base.device->threads;
  work.options = &network->how;
  work.workspace = workspace;
  work.stream = stream;
  return work;
}

/* Return the floats of one image of a step's input, and of its output. */
static inline size_t gconv_step_in_floats(const gconv_step *step) {
  const gconv_layer_problem *p = &step->problem;
  return (size_t)gconv_layer_image_floats(p->channels, gconv_layer_plane(p), p->in_blocks);
}
static inline size_t gconv_step_out_floats(const gconv_step *step) {
  const gconv_layer_problem *p = &step->problem;
  return (size_t)gconv_layer_image_floats(p->filters, (int64_t)p->out_height * p->out_width, p->out_blocks);
}

/* Makes the steps of a plan whose `out` is the shape of the network's input, and sets `out` to the shape of its output
 * (network_steps.c). rows: of a band, or 0. any_algorithm: takes one that can, whatever the options name. */
gconv_status gconv_network_make_steps(gconv_network_plan *network, const gconv_network_operation *operation,
                                      const gconv_network_options *options, int32_t rows, bool any_algorithm);

/* Finds which tensors between steps are in blocks of channels, before algorithms are chosen. Sets in_blocks and out_blocks
 * of their problems. */
void gconv_network_lay_blocks(gconv_network_plan *network, const gconv_layer *layers, const gconv_network_options *options);

/* Finds which of `count` rows lie inside a tensor of `height` rows: rows *begin .. *end - 1 of them. Row 0 of the `count`
 * rows is row `first` of the tensor. */
void gconv_rows_inside(int64_t first, int32_t count, int32_t height, int32_t *begin, int32_t *end);

/* Sets *seen to the image that the first layer gets: `in`, or a copy that is grey, or has other colours where it is
 * transparent. gconv_network_unsee() frees the copy. */
gconv_status gconv_network_see(const gconv_network_plan *network, const gconv_image *in, gconv_image *seen);
void gconv_network_unsee(const gconv_network_plan *network, gconv_image *seen);

/* Finds the image that the network sees, network->seen, and the tensor that its first layer gets, network->input. Fails if
 * the options do not fit both. options->white must be set. */
gconv_status gconv_network_make_input(gconv_network_plan *network, const gconv_network_operation *operation,
                                      const gconv_network_options *options);
/* True if the pixels of an image are the tensor already. */
bool gconv_input_is_tensor(const gconv_input *input, const gconv_image *image);

/* Returns how many of an image's `channels` channels the layer takes. The last channel may be alpha. */
int32_t gconv_layer_channels(const gconv_layer *layer, int32_t channels, bool alpha);

/* If the layer's border is not zeros, and a filter reaches over it: moves the padding of the resolved *step to *pads, a step
 * before it, and sets pads->pads. */
gconv_status gconv_layer_take_border(const gconv_layer *layer, const char *where, gconv_step *step, gconv_step *pads);
/* True if a step that pads finds all pixels that it copies in the band of an output. `next` is the step that it pads for. */
bool gconv_step_pads_bands(const gconv_step *pads, const gconv_step *next);

/* Returns whether some rows of the output can be made from some rows of the input. They cannot if a layer is a mean, which
 * needs all rows, or if a border copies rows from far away. */
bool gconv_network_can_cut_rows(const gconv_network_plan *network);

/* By rows (passes.c). The passes that measure the whole image come before all others. */
size_t gconv_network_measurings(const gconv_network_plan *network);
size_t gconv_network_passes(const gconv_plan *network);
gconv_status gconv_network_begin_pass(gconv_plan *network, size_t number);
/* Keep the first `rows` rows of network->maps, which are rows `first` .. of the whole maps, or take them from those kept in
 * the survey of the image. Returns false if they must be computed. */
void gconv_network_keep_maps(gconv_network_plan *network, int32_t first, int32_t rows);
bool gconv_network_take_maps(gconv_network_plan *network, int32_t first, int32_t rows);
void gconv_network_forget_maps(gconv_network_plan *network);

/* Finds the input rows that an execution needs for the output rows from `first` on. Rows may lie outside the input. */
void gconv_network_input_rows(const gconv_network_plan *network, int64_t first, int64_t *begin, int64_t *end);

/* Cuts the problems of all steps to the rows that `rows` output rows of the last step need. Sets the bands, and the rows of
 * the input. */
gconv_status gconv_network_cut_rows(gconv_network_plan *network, int32_t rows);

/* Does gconv_plan_measure(); if `warm`, with the same buffers each time. On a GPU, the time to enqueue is not measured. */
gconv_status gconv_network_measure_at(gconv_plan *plan, const gconv_image *in, gconv_image *out, bool warm, int runs,
                                      double *milliseconds);

/* Adds resized channels of the input to the rows of `out`, which begin at row `first`: alpha, and colours to results that
 * are brightness. Does nothing for other results. `in` begins at row in_row; `maps` are the maps of the rows. */
gconv_status gconv_network_add_resized(const gconv_network_plan *network, const gconv_presenter *presenter,
                                       const gconv_image *in, int32_t in_row, int32_t first, const gconv_image *maps,
                                       const gconv_image *out);

/* The step of a network that is a graph (graph_step.c). gconv_graph_step_make() plans the graph for images like *shape,
 * which becomes the header of its output. With `rows`, the step makes `rows` rows of the output at a time, if the graph can
 * be cut: then step->cut.rows is not 0. gconv_graph_step_allocate() allocates the step's buffers. */
gconv_status gconv_graph_step_make(const gconv_graph *graph, const gconv_graph_options *options, int32_t rows,
                                   gconv_image *shape, gconv_step *step);
gconv_status gconv_graph_step_allocate(const gconv_step *step);
/* By rows: finds the rows of the input for the rows of the output that begin at `first`. */
void gconv_graph_step_rows(const gconv_step *step, int32_t first, int64_t *begin, int64_t *end);
/* Runs the graph on step->images images, one after the other. By rows: makes the output rows from `first` on; `in` has the
 * rows that gconv_graph_step_rows() finds. */
gconv_status gconv_graph_step_execute(const gconv_step *step, int64_t first, const float *in, float *out, void *stream);
/* Finds how many channels the graph makes of images of these channels and sizes. 0: any channels, or any size. */
gconv_status gconv_graph_find_outputs(const gconv_graph *graph, int32_t channels, int32_t height, int32_t width,
                                      int32_t *outputs);

/* gconv_network_plan_type is the type of plans of networks. gconv_network_fill() is fill_plan() of their operations. */
extern const gconv_plan_type gconv_network_plan_type;
gconv_status gconv_network_fill(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *plan);

/* Functions of gconv_network_plan_type that have a file each. */
void gconv_network_explain(const gconv_plan *plan, FILE *text);
gconv_status gconv_network_verify(gconv_plan *plan, const gconv_image *in, const gconv_image *outputs, double tolerance,
                                  double budget, gconv_verification *result);

#ifdef __cplusplus
}
#endif
