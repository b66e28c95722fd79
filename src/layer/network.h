/* SPDX-License-Identifier: MIT */
/* Networks as an operation: what it and its plans hold, and what a device does for them (network_cpu.c, network_cuda.cu). */
#pragma once

#include "device/device.h"
#include "kernels/layer_algorithm.h"
#include "layer/present.h"
#include "operation/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the pixels of an image become the tensor that the first layer sees (input.h). */
typedef struct gconv_input {
  gconv_type type;
  bool planar;
  int32_t images, channels, height, width; /* N, C, H, W of the tensor: alpha that is left out is not counted */
  int32_t rows;                            /* of the tensor of one execution: the height, or, by rows, what one needs */
  int32_t file_channels;                   /* of the image */
  float *mean, *std;                       /* owned: C of each; NULL: 0, 1 */
} gconv_input;

/* Where the rows of one execution lie in a whole tensor, if its first output row is `first`: from first * scale - shift on.
 * They may lie outside. */
typedef struct gconv_band {
  int64_t scale, shift;
} gconv_band;

/* A layer and how it is solved, or what pads its input. Layers without weights, and what pads, have a problem too, for the
 * shapes of their input and output, and no algorithm. */
typedef struct gconv_step {
  gconv_layer_kind kind;
  size_t layer;                /* the number of its layer, from 0 on */
  bool pads;                   /* it pads the input of its layer, which the next step solves (border.c) */
  gconv_border border;         /* of a step that pads */
  float outside;               /* of border constant */
  bool softmax;                /* is applied to what the algorithm yields */
  gconv_layer_problem whole;   /* of the whole tensor */
  gconv_layer_problem problem; /* of one execution: problem.images at a time; by rows, the rows that one needs */
  gconv_band out_band;         /* of the rows that it yields; by rows */
  int32_t images;              /* in all */
  int32_t chosen_for;          /* the number of images that auto chooses for */
  int32_t out_channels;        /* of the tensor that it yields, which has K, or, applied to each channel, C * K */
  const gconv_layer_algorithm *algorithm;
  size_t workspace_bytes;
  float *weights;      /* owned: layer_problem.h; NULL without an algorithm */
  size_t weight_count; /* with what is prepared */
  gconv_layer_info info;
} gconv_step;

/* The operation: layers and options, as they were asked for. Banks belong to the caller. */
typedef struct gconv_network_operation {
  gconv_operation base;
  gconv_layer *layers; /* owned, with the names of algorithms */
  size_t count;
  int32_t channels;              /* of the images that a gconv_network was made for; 0: as the first layer says */
  int32_t height, width;         /* the same; 0: of any size */
  bool told;                     /* that an image has another size; changed atomically */
  gconv_network_options options; /* mean, std and names are copies */
} gconv_network_operation;

/* The plan. */
typedef struct gconv_network_plan gconv_network_plan;

typedef struct gconv_network_type {
  /* Takes the memory that executions will need; freed by release(), which allows NULL. */
  gconv_status (*prepare)(const gconv_network_plan *network, void **run);
  /* `out` has pixels. Adds to the timings. By rows: of those from output row `first` on, where `in` begins at row in_row. */
  gconv_status (*execute)(void *run, const gconv_image *in, int64_t in_row, int64_t first, const gconv_image *out,
                          gconv_timings *timings);
  /* The same of `in` in memory of the device; NULL on the CPU. */
  gconv_status (*execute_there)(void *run, const gconv_image *in, int64_t in_row, int64_t first, const gconv_image *out,
                                gconv_timings *timings);
  gconv_status (*measure)(void *run, const gconv_image *in, const gconv_image *out, bool warm, int runs,
                          double *milliseconds);
  void (*release)(void *run);
  /* As execute() of whole images, from and to memory of the device, on a stream of the caller. NULL: that is memory of the
   * host. */
  gconv_status (*execute_device)(void *run, const gconv_image *in, const gconv_image *out, void *stream);
} gconv_network_type;

extern const gconv_network_type gconv_network_type_cpu;
#ifdef GCONV_WITH_CUDA
extern const gconv_network_type gconv_network_type_cuda;
#endif

struct gconv_network_plan {
  gconv_plan base;
  gconv_options before; /* of the stage on the host that makes images grey, if they are to be */
  bool grays;
  gconv_image seen; /* header of the input after that stage */
  gconv_image out;  /* header of the maps that an execution makes: of all rows, or of some */
  gconv_presenter presenter;
  gconv_image maps; /* the last ones, where they do not go into the caller's images; empty until they are needed */
  bool by_rows;
  gconv_band in_band; /* of the input; by rows */
  gconv_input input;
  bool by_channel;   /* made for one channel: each of the image's is an image of its own */
  gconv_step *steps; /* of each layer one, after one that pads its input where its border is none of zeros */
  size_t count;
  bool merged; /* all steps are one kernel (kernels/cuda/fast/layer/pointwise.h) */
  gconv_combine combine;
  int32_t combined; /* channels that become one: what is combined */
  int32_t filters;  /* K of the last bank: what argmax counts modulo */
  char *reasons;    /* why these algorithms: lines of text */
  const gconv_network_type *type;
  void *run; /* of the device */
};

/* The number of executions that a step takes, and the first image of number `turn`. All have the same number of images, so
 * that what was prepared for it fits: the last one may begin before the end of the one before, and repeat its results. */
int32_t gconv_step_turns(const gconv_step *step);
int32_t gconv_step_first(const gconv_step *step, int32_t turn);

/* Floats of an image of a step's input and output. */
size_t gconv_step_in_floats(const gconv_step *step);
size_t gconv_step_out_floats(const gconv_step *step);

/* The rows *begin .. *end - 1 of `count`, the first of which lies at `first` in a tensor of `height` rows, that are in it.
 */
void gconv_rows_inside(int64_t first, int32_t count, int32_t height, int32_t *begin, int32_t *end);

/* Whether the pixels of an image are the tensor already. */
bool gconv_input_is_tensor(const gconv_input *input, const gconv_image *image);

/* How many channels the layer takes of an image that has `channels`, of which the last may be alpha. */
int32_t gconv_layer_channels(const gconv_layer *layer, int32_t channels, bool alpha);

/* If the layer's border is none of zeros, and some filter reaches over it: takes the padding from *step, as resolved by
 * gconv_layer_resolve(), and makes it that of *pads, the step before; *pads.pads is set then. */
gconv_status gconv_layer_take_border(const gconv_layer *layer, const char *where, gconv_step *step, gconv_step *pads);
/* Whether a step that pads finds the pixels for the rows around an output among those that the output's band has. `next` is
 * the step that it pads for. */
bool gconv_step_pads_bands(const gconv_step *pads, const gconv_step *next);

/* Whether some rows of the output can be made of some rows of the input: not after a mean, which needs all, nor where a
 * border takes rows from far away. */
bool gconv_network_can_cut_rows(const gconv_network_plan *network);

/* Makes the problems of the steps those of `rows` rows of the last one's output; sets the bands, and the rows of the input.
 */
gconv_status gconv_network_cut_rows(gconv_network_plan *network, int32_t rows);

/* Chooses the step's algorithm (`wanted`, or, if that is "auto", the cheapest), how many images it gets at a time and, if no
 * algorithm is of use for it, true float32 in the place of problem.math; writes the reasons. */
gconv_status gconv_layer_choose(const gconv_device *device, const gconv_network_options *options, const char *wanted,
                                gconv_step *step, FILE *reasons);

/* Warns where the rounding of the step's algorithm may be over half a level; over four levels, it is an error if `is_auto`.
 */
gconv_status gconv_layer_check_rounding(const gconv_step *step, bool is_auto);

/* Copies planes of `plane` weights; flip: rotated by 180 degrees. */
void gconv_layer_copy_planes(const float *from, size_t planes, size_t plane, bool flip, float *to);
/* Copies the weights as problems have them, K x C x R x S, rotated if the layer says so, and K biases. */
void gconv_layer_copy_weights(const gconv_layer *layer, float *weights);
/* gconv_step.weights: the bank's, turned if asked for, and what the algorithm prepares. */
gconv_status gconv_layer_weights(const gconv_layer *layer, gconv_step *step);

/* As gconv_plan_measure(); if `warm`, with the same buffers each time. On a GPU, what enqueuing takes is no part of the
 * milliseconds. */
gconv_status gconv_network_measure_at(gconv_plan *plan, const gconv_image *in, gconv_image *out, bool warm, int runs,
                                      double *milliseconds);

/* The plans of an operation of layers, and its fill_plan(). */
extern const gconv_plan_type gconv_network_plan_type;
gconv_status gconv_network_fill(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *plan);

/* The verbs of its plans that have a file each. */
void gconv_network_explain(const gconv_plan *plan, FILE *text);
gconv_status gconv_network_verify(gconv_plan *plan, const gconv_image *in, const gconv_image *outputs, double tolerance,
                                  double budget, gconv_verification *result);

#ifdef __cplusplus
}
#endif
