/* SPDX-License-Identifier: MIT */
/* Networks as an operation: what the operation and its plans hold, and what a device does for them (network_cpu.c,
 * network_cuda.cu). */
#pragma once

#include "graph/image.h"
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
  int32_t rows;          /* rows of the tensor of one execution: the height; by rows, what an execution needs */
  int32_t file_channels; /* channels of the image in the file */
  float white;           /* the level that becomes 1 */
  int32_t first, step;   /* channel c of the tensor is channel first + c * step of the image: step is 0 for a grey image that
                            a network of three colours gets three times, -1 for blue first */
  bool alphas;           /* every other image of the tensor is alpha, in all its channels */
  float *mean, *std;     /* owned: C of each; NULL: 0, 1 */
} gconv_input;

/* Where the rows of one execution lie in a whole tensor, if its first output row is `first`: from first * scale - shift on.
 * They may lie outside. */
typedef struct gconv_band {
  int64_t scale, shift;
} gconv_band;

/* A layer and how it is solved, or the padding of a layer's input. Layers without weights, and steps that pad, have no
 * algorithm, but a problem with the shapes of their input and output. */
typedef struct gconv_step {
  gconv_graph_plan *graph;  /* owned: the whole network is this graph, which is the only step; NULL: a layer */
  gconv_graph_tiles *tiles; /* owned: the image is cut into tiles, and `graph` is its outline; NULL: it is whole */
  gconv_graph_cut cut;      /* of a graph */
  char *uncut;              /* owned: why a graph that shall be cut cannot be; or NULL */
  gconv_image *further;     /* owned: what a graph makes besides its first output, with pixels in plans that are executed */
  size_t further_count;
  gconv_layer_kind kind;
  size_t layer;                /* the number of its layer, from 0 on */
  bool pads;                   /* it pads the input of its layer, which the next step solves (border.c) */
  gconv_border border;         /* border of a step that pads */
  float outside;               /* the constant of border constant */
  bool softmax;                /* softmax is applied to the output of the algorithm */
  gconv_layer_problem whole;   /* the problem of the whole tensor */
  gconv_layer_problem problem; /* problem of one execution: problem.images at a time; by rows, the rows that it needs */
  gconv_band out_band;         /* by rows: of the rows that the step yields */
  int32_t images;              /* in all */
  int32_t chosen_for;          /* the number of images that auto chooses for */
  int32_t out_channels;        /* channels of its output: K; C * K if it is applied to each channel */
  gconv_solver *solver;        /* owned: the algorithm, and its weights; NULL: no algorithm solves it */
  gconv_layer_info info;
} gconv_step;

/* The operation: layers and options, as they were asked for. Banks belong to the caller. */
typedef struct gconv_network_operation {
  gconv_operation base;
  gconv_layer *layers; /* owned, with the names of algorithms */
  size_t count;
  gconv_graph *graph;            /* owned: what runs in place of layers, made for images; else NULL. It may be own_graph */
  gconv_graph *own_graph;        /* owned: of layers that run as a graph, or NULL */
  int32_t graph_outputs;         /* channels of what the graph makes */
  int32_t channels;              /* for images that a gconv_network was made for; 0: as the first layer says */
  int32_t height, width;         /* for images that a gconv_network was made for; 0: any size */
  bool told_size, told_alpha;    /* it was warned of images of another size, and of alpha; changed atomically */
  gconv_network_options options; /* mean, std and names are copies */
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
  gconv_options before; /* options of the stage on the host that makes images grey, if `grays` */
  bool grays;
  gconv_image seen; /* header of the input after that stage */
  gconv_image out;  /* header of the maps that an execution makes: of all rows, or of some */
  gconv_presenter presenter;
  gconv_presenter *further; /* owned: of each of steps[0].further; or NULL */
  bool bleeds;              /* transparent pixels get colours of their neighbours first (bleed.h) */
  bool greys;               /* the result has three colours, and becomes grey as the input is */
  bool alphas;              /* alpha is an image of its own after each image, and so are its maps */
  gconv_image shown; /* what becomes pictures: the maps, if `greys` grey, if `alphas` with alpha; empty until needed */
  gconv_resizing rows, columns; /* of channels that do not go through the network: alpha, and colours of `luma` */
  bool luma;                    /* the result is brightness, and gets the colours of the input */
  gconv_image maps; /* the maps of the last execution, if they do not go into the caller's images; empty until needed */
  bool by_rows;
  bool measures; /* by rows: the pass measures what nodes of a graph need to know of the whole image, and makes no rows */
  gconv_band in_band; /* by rows: of the input */
  gconv_input input;
  bool by_channel;         /* the network takes one channel: each channel of an image is an image of its own */
  gconv_graph_options how; /* of graphs and solvers */
  gconv_step *steps;       /* owned: one for each layer; before it one that pads its input, if its border is not zeros */
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

/* Returns a step at work, for its solver, in a stream of a GPU; NULL on the CPU. */
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

/* Finds which tensors between steps are in blocks of channels, before algorithms are chosen. Sets in_blocks and out_blocks
 * of their problems. */
void gconv_network_lay_blocks(gconv_network_plan *network, const gconv_layer *layers, const gconv_network_options *options);

/* Finds which of `count` rows, laid from row `first` of a tensor on, are inside the tensor of `height` rows: *begin .. *end
 * - 1. */
void gconv_rows_inside(int64_t first, int32_t count, int32_t height, int32_t *begin, int32_t *end);

/* Sets *seen to the image that the first layer gets: `in`; or a copy with pixels of its own, which is grey, or has other
 * colours where it is transparent. gconv_network_unsee() frees it. */
gconv_status gconv_network_see(const gconv_network_plan *network, const gconv_image *in, gconv_image *seen);
void gconv_network_unsee(const gconv_network_plan *network, gconv_image *seen);

/* Finds the image that the network sees, network->seen, and the tensor that its first layer gets, network->input. Fails if
 * the options do not fit them. `options` have their white. */
gconv_status gconv_network_make_input(gconv_network_plan *network, const gconv_network_operation *operation,
                                      const gconv_network_options *options);
/* True if the pixels of an image are the tensor already. */
bool gconv_input_is_tensor(const gconv_input *input, const gconv_image *image);

/* Returns how many channels the layer takes of an image that has `channels`. The last of them may be alpha. */
int32_t gconv_layer_channels(const gconv_layer *layer, int32_t channels, bool alpha);

/* If the layer's border is not zeros, and a filter reaches over it: moves the padding of *step, which is resolved, to *pads,
 * a step before it, and sets pads->pads. */
gconv_status gconv_layer_take_border(const gconv_layer *layer, const char *where, gconv_step *step, gconv_step *pads);
/* True if a step that pads finds all pixels that it copies in the band of an output. `next` is the step that it pads for. */
bool gconv_step_pads_bands(const gconv_step *pads, const gconv_step *next);

/* Whether some rows of the output can be made of some rows of the input: not after a mean, which needs all, nor where a
 * border takes rows from far away. */
bool gconv_network_can_cut_rows(const gconv_network_plan *network);

/* Finds the rows of the input that an execution needs whose first output row is `first`. They may lie outside. */
void gconv_network_input_rows(const gconv_network_plan *network, int64_t first, int64_t *begin, int64_t *end);

/* Cuts the problems of all steps to what `rows` rows of the last step's output need. Sets the bands, and the rows of the
 * input. */
gconv_status gconv_network_cut_rows(gconv_network_plan *network, int32_t rows);

/* As gconv_plan_measure(); if `warm`, with the same buffers each time. On a GPU, the time to enqueue is not measured. */
gconv_status gconv_network_measure_at(gconv_plan *plan, const gconv_image *in, gconv_image *out, bool warm, int runs,
                                      double *milliseconds);

/* Adds alpha, and colours to brightness, to the rows of `out` from row `first` on, where results have them. `in` begins at
 * row in_row; `maps` are those of the rows. */
gconv_status gconv_network_add_resized(const gconv_network_plan *network, const gconv_presenter *presenter,
                                       const gconv_image *in, int32_t in_row, int32_t first, const gconv_image *maps,
                                       const gconv_image *out);

/* The step of a network that is a graph (graph_step.c). gconv_graph_step_make() plans the graph for images like *shape,
 * which becomes the header of its output. With `rows`, it makes `rows` rows of the output at a time, if the graph can be
 * cut: then step->cut.rows are not 0. gconv_graph_step_allocate() gives it buffers. */
gconv_status gconv_graph_step_make(const gconv_graph *graph, const gconv_graph_options *options, int32_t rows,
                                   gconv_image *shape, gconv_step *step);
gconv_status gconv_graph_step_allocate(const gconv_step *step);
/* By rows: finds the rows of the input for the rows of the output that begin at `first`. */
void gconv_graph_step_rows(const gconv_step *step, int32_t first, int64_t *begin, int64_t *end);
/* Makes tensors of step->images images, one after the other, of tensors like that. By rows: makes the rows from `first` on
 * of the rows that gconv_graph_step_rows() finds. */
gconv_status gconv_graph_step_execute(const gconv_step *step, int64_t first, const float *in, float *out, void *stream);
/* Finds how many channels the graph makes of images of `channels` (0: any) and this size; 0: of some size. */
gconv_status gconv_graph_find_outputs(const gconv_graph *graph, int32_t channels, int32_t height, int32_t width,
                                      int32_t *outputs);

/* gconv_network_plan_type: plans of operations of layers. gconv_network_fill() is their fill_plan(). */
extern const gconv_plan_type gconv_network_plan_type;
gconv_status gconv_network_fill(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *plan);

/* Functions of gconv_network_plan_type that have a file each. */
void gconv_network_explain(const gconv_plan *plan, FILE *text);
gconv_status gconv_network_verify(gconv_plan *plan, const gconv_image *in, const gconv_image *outputs, double tolerance,
                                  double budget, gconv_verification *result);

#ifdef __cplusplus
}
#endif
