/* SPDX-License-Identifier: MIT */
/*
 * The interface of operations, for the code that carries images through them. gconv.h has the part for users. An
 * implementation (plain filters in src/conv, networks in src/layer) has two tables of functions, and two structures that
 * begin with gconv_operation and gconv_plan.
 *
 * An operation says how images are changed; it is immutable, knows no device, and is shared by threads. A plan is an
 * operation prepared for inputs of one shape on one device.
 */
#pragma once

#include "base/both.h"
#include "image/gpu_codec.h"
#include "image/layout.h"
#include "image/look.h"

#include <pthread.h>
#include <stdio.h>

GCONV_C_BEGIN

typedef enum gconv_plan_extent {
  GCONV_PLAN_WHOLE,
  GCONV_PLAN_OUTLINE,       /* a plan with all its properties, but without buffers and prepared weights for executions */
  GCONV_PLAN_OUTLINE_OF_ANY /* an outline that ignores which algorithm was asked for */
} gconv_plan_extent;

/* What a plan is made for. */
typedef struct gconv_plan_order {
  gconv_device *device;
  const gconv_image *like; /* header of the inputs */
  gconv_type kept;         /* type of results if options set none: the type of the image; in a chain, of the first input */
  int32_t rows;            /* as for gconv_plan_create() */
  gconv_plan_extent extent;
} gconv_plan_order;

/* When a plan on a GPU has work for the host: before the convolution, which needs the decoded pixels on the host, or after
 * it. */
enum { GCONV_HOST_BEFORE = 1, GCONV_HOST_AFTER = 2 };

/* The part of an image in which an operation counts (within.c). */
typedef struct gconv_scope {
  int32_t left, top, right, bottom; /* columns left .. right - 1 of rows top .. bottom - 1 */
  const gconv_image *mask;          /* one channel of the image's size: weights from 0 to white. NULL: all are 1 */
  const gconv_image *input;         /* while results are verified: the image with which they were blended; else NULL */
} gconv_scope;

/* Returns the weight of the operation's result at a place, from 0 to 1; 1 everywhere if `scope` is NULL. */
double gconv_scope_weight(const gconv_scope *scope, int64_t y, int64_t x);

typedef struct gconv_plan_type gconv_plan_type;
typedef struct gconv_losses gconv_losses;

typedef struct gconv_operation_type {
  const char *name;                                    /* "filters", "network" */
  void (*free)(gconv_operation *operation);            /* frees the operation, but not `inner` */
  size_t (*outputs)(const gconv_operation *operation); /* how many results an image has. NULL: one, or those of `inner` */

  /* The type of its plans. fill_plan() completes a plan that has the members of the order only. If it fails,
   * gconv_plan_make() frees the plan. */
  const gconv_plan_type *plan_type;
  gconv_status (*fill_plan)(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *plan);

  /* Returns the name of an algorithm that was asked for and that this kind of device ("cpu", "cuda") lacks, or NULL. The
   * function is NULL if no algorithm can be asked for, or if only `inner` has algorithms. */
  const char *(*lacks)(const gconv_operation *operation, const char *device);

  /* Does gconv_operation_keep_exact(). NULL: results may differ between devices. */
  gconv_status (*keep_exact)(const gconv_operation *operation, gconv_operation **exact);

  /* Returns the bytes of host memory that the operation takes without its plans: filters, a mask. NULL: none. */
  double (*held_bytes)(const gconv_operation *operation);

  /* Returns a sum of GCONV_HOST_BEFORE and GCONV_HOST_AFTER. NULL: both. */
  int (*host_stages)(const gconv_operation *operation);

  bool batches;   /* several images of one shape are faster as frames of one image */
  bool of_photos; /* even with `batches`, images are executed one by one, so that each result gets its image's metadata */
  /* For operations whose results are much larger than their inputs: returns how many rows of results a chain makes at a
   * time. Chains ask only for images of one frame. order->like is the input of the chain. NULL: all rows. */
  int32_t (*strip)(const gconv_operation *operation, const gconv_plan_order *order);
  bool minds_nodata; /* samples of the value gconv_image.nodata are treated as missing */
  bool repeats;      /* further plans can be made while one is in use: the operation owns all that they need */
  bool shares;       /* one plan keeps a device busy, so that a second plan beside it is useless */
} gconv_operation_type;

/* The first member of every operation. A new one has one user. */
struct gconv_operation {
  const gconv_operation_type *type;
  int users;              /* the caller and the plans; changed atomically */
  gconv_operation *inner; /* an operation that this one wraps, and uses; or NULL */
};

/* The input of an execution: an image; or a JPEG file for the device to decode, with the header of the decoded image. */
typedef struct gconv_plan_input {
  const gconv_image *image;
  const void *jpeg; /* NULL: the image has its pixels */
  size_t jpeg_bytes;
} gconv_plan_input;

/* A pass over the input by rows. It makes the output rows first .. end - 1, or, if it surveys values, no rows. */
typedef struct gconv_plan_pass {
  int32_t first, end; /* in a survey: the rows to be surveyed */
  bool surveys;
  double before, after; /* the share of the work of all passes that is done before this one, and after it */
} gconv_plan_pass;

/* Estimated bytes that executions take, on the host or on a GPU, besides the input and the outputs. */
typedef struct gconv_need {
  double fixed;  /* for any number of images: prepared weights, workspaces */
  double image;  /* for all frames of the plan, if they are executed as a whole */
  double verify; /* to verify these frames */
  double rows;   /* by rows: the part that does not grow with the number of rows that are made at a time */
  double row;    /* by rows: further bytes for each output row that is made at a time */
  bool tiles;    /* rows are made in tiles, so that `fixed` grows with the rows; whole images would be made in tiles, too */
  bool repeats;  /* by rows, several passes are made, each of which computes much of the work again */
} gconv_need;

/* The functions of a plan. execute, explain and find_need are required; row_step, rows_needed and execute_rows come
 * together, and so do check_parts and execute_parts. A plan with `inner` needs no held_bytes. It also needs no row_step and
 * no rows_needed if it combines rows of the inner plan's results with the same rows of the input. Other functions may be
 * NULL if the plan does not support them (GCONV_UNSUPPORTED). plan.c has checked the arguments: an input has pixels and the
 * shape of plan->like, and outputs have pixels and the shapes of plan->outputs. */
struct gconv_plan_type {
  size_t bytes; /* bytes of a plan */
  /* Frees the plan, but not the members of gconv_plan. Also called if fill_plan() failed. NULL: free() is enough. */
  void (*free)(gconv_plan *plan);
  gconv_status (*execute)(gconv_plan *plan, const gconv_plan_input *in, gconv_image *outputs, gconv_timings *timings);

  /* By rows: gconv.h describes gconv_plan_row_step() and the functions after it. `window` has pixels, rows of an image like
   * plan->like. The outputs have pixels: rows of images like plan->outputs, as many of each. Output rows lie in plan->pass.
   * `passes` and `begin_pass`: NULL if one pass makes all rows. */
  bool leaves_out; /* an output without pixels is not made. In a survey, `outputs` is one image without pixels */
  size_t (*passes)(const gconv_plan *plan);
  gconv_status (*begin_pass)(gconv_plan *plan, size_t number); /* sets plan->pass */
  int32_t (*row_step)(const gconv_plan *plan);
  void (*rows_needed)(const gconv_plan *plan, int32_t first, int32_t count, int32_t *begin, int32_t *end);
  gconv_status (*execute_rows)(gconv_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                               gconv_image *outputs, gconv_timings *timings);

  /* By rows, as a stage of a chain whose intermediate results stay on the GPU. make_rows_there() makes `count` rows in
   * memory of the device, and sets *out to an image of these rows. The plan owns that memory, and reuses it in the next
   * call. Its window is in memory of the host or, with `there`, of the device. The window of execute_rows_there() is always
   * in memory of the device. */
  gconv_status (*make_rows_there)(gconv_plan *plan, const gconv_image *window, bool there, int32_t window_row, int32_t first,
                                  int32_t count, gconv_image *out, gconv_timings *timings);
  gconv_status (*execute_rows_there)(gconv_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                                     gconv_image *outputs, gconv_timings *timings);

  /* On a GPU. check_jpeg fails if the plan cannot take a JPEG file in place of an image like `header`, check_parts if its
   * results cannot leave the GPU in parts. */
  gconv_status (*check_jpeg)(const gconv_plan *plan, const gconv_image *header);
  gconv_status (*check_parts)(const gconv_plan *plan);
  gconv_status (*execute_parts)(gconv_plan *plan, const gconv_plan_input *in, const gconv_taker *taker,
                                gconv_timings *timings);
  size_t (*held_bytes)(const gconv_plan *plan);

  /* Does gconv_plan_execute_device(). The images' pixels are in memory of the device; they have the shapes of the headers,
   * and any strides. Allocates nothing, and only enqueues. */
  gconv_status (*execute_device)(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, void *stream);
  size_t (*png_bytes)(const gconv_plan *plan);

  /* NULL: `execute` is measured by its timings->kernel_ms. */
  gconv_status (*measure)(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, int runs, double *milliseconds);
  /* Writes why no GPU can execute what this plan of a CPU does. The text is empty if a GPU can, or if nothing is known.
   * NULL: always empty. */
  void (*find_gpu_obstacle)(const gconv_plan *plan, char *text, size_t size);
  void (*explain)(const gconv_plan *plan, FILE *text);
  /* `budget`: as for gconv_plan_spot_check(); INFINITY: everything is compared. The caller has zeroed *result. */
  gconv_status (*verify)(gconv_plan *plan, const gconv_image *in, const gconv_image *outputs, double tolerance,
                         double budget, gconv_verification *result);
  const gconv_layer_info *(*layer_info)(const gconv_plan *plan, size_t layer);
  void (*find_need)(const gconv_plan *plan, gconv_need *need); /* also for outlines */
  /* Returns why a plan that was made for rows cannot go by rows: "node 'a' sees the whole image". NULL: nothing is known. */
  const char *(*rows_obstacle)(const gconv_plan *plan);
};

/* The first member of every plan. */
struct gconv_plan {
  const gconv_plan_type *type;
  const gconv_operation *operation; /* the plan is one of its users */
  gconv_device *device;
  gconv_plan *inner;    /* owned: the plan of the operation that is wrapped; or NULL */
  gconv_image like;     /* header of the inputs */
  gconv_image *outputs; /* owned: headers, each of a whole output */
  gconv_image *arrays;  /* owned: output_count headers, which view a caller's arrays as images */
  void **staged;        /* owned, or NULL: memory of a GPU for tensors of each output, and of the input; see strided.c */
  size_t output_count;
  gconv_plan_info info;
  gconv_plan_pass pass; /* by rows: the pass that was begun */
  gconv_plan *last;     /* the plan of a chain's last stage, or of the operation in a part of an image; else NULL */
  gconv_scope *scope;   /* where the results count; NULL: everywhere. The plan that has this plan as `last` owns it */
  bool bleeds;          /* colours of transparent pixels affect the results; --alpha premultiply would prevent that */
  gconv_look look;      /* by rows: the properties of the input's first `looked` rows */
  int32_t looked;
  gconv_losses *losses; /* owned, [output_count]: the losses of executions (losses.h); NULL: nobody watches */

  gconv_type kept; /* gconv_plan_order.kept */
  int32_t rows;
  pthread_mutex_t lock; /* guards the members below */
  pthread_cond_t idle;  /* the plan is no longer busy */
  bool busy;            /* a thread executes the plan */
  gconv_plan *spare;    /* owned: a list of equal plans, for threads that come while this plan is busy */
  size_t made;          /* how many such plans exist, in the list or busy */
};

/* Returns which properties of inputs deserve a warning: numbers that integer outputs cannot hold, and colours of transparent
 * pixels that affect the results. */
gconv_look gconv_plan_look(const gconv_plan *plan);

/* Warns of numbers in the input that outputs cannot hold, unless the plan is watched. */
void gconv_plan_tell_of_numbers(const gconv_plan *plan, const gconv_image *in);

/* Returns whether plans for images like the header can execute on an array without a copy. Then *image is a view of the
 * array. False if its type or shape is not that of the header. */
bool gconv_array_is_image(const gconv_array *array, const gconv_image *header, gconv_image *image);

/* Fails if `count` is not the plan's number of outputs, or if outputs share memory with the input or each other. */
gconv_status gconv_plan_check_outputs(const gconv_plan *plan, const gconv_image *in, const gconv_image *images,
                                      size_t count);

/* Executions begin with gconv_plan_enter() and end with gconv_plan_leave() (turns.c). The thread executes *entered. This is
 * `plan` or, while another thread executes `plan`, an equal plan that is made when first needed, and kept. With `itself`, or
 * if no further plans of the operation can be made, the thread waits for `plan`. */
gconv_status gconv_plan_enter(gconv_plan *plan, bool itself, gconv_plan **entered);
void gconv_plan_leave(gconv_plan *plan, gconv_plan *entered);

size_t gconv_operation_outputs(const gconv_operation *operation);

/* The name of an algorithm that was asked for and that this kind of device ("cpu", "cuda") lacks; NULL if it lacks none. */
const char *gconv_operation_lacks(const gconv_operation *operation, const char *device);

/* Sets *exact to the same operation with the exact family's algorithms; NULL if its results may differ between devices. */
gconv_status gconv_operation_keep_exact(const gconv_operation *operation, gconv_operation **exact);

/* Returns the bytes of host memory that the operation takes, including the originals of its data, which the caller keeps. */
double gconv_operation_held_bytes(const gconv_operation *operation);

/* Adds a user, and returns `operation`. gconv_operation_free() removes a user. */
gconv_operation *gconv_operation_share(const gconv_operation *operation);

/* Does gconv_plan_create(), for a plan of any extent. */
gconv_status gconv_plan_make(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan **plan);

/* For fill_plan() of an operation that wraps another one, and makes one result: makes plan->inner, and takes over the header
 * of its first result and its description. */
gconv_status gconv_plan_wrap(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *plan);

/* Does gconv_plan_create(), but makes an outline, which cannot be executed. Free it with gconv_plan_free(). */
gconv_status gconv_plan_outline(gconv_device *device, const gconv_image *like, const gconv_operation *operation,
                                int32_t rows, gconv_plan **plan);

/* Estimates the memory that images like `like` will take, by an outline on `device`. The outline may be on a CPU even if the
 * images will be on a GPU. `rows`: as for gconv_plan_create(); need->image and need->verify do not depend on it. */
gconv_status gconv_operation_find_need(gconv_device *device, const gconv_image *like, const gconv_operation *operation,
                                       int32_t rows, gconv_need *need);

/* By rows, some outputs need several passes over the input: stretched pictures, whose values are surveyed first; and
 * mosaics, with a pass for each row of tiles. Begin the passes in their order. In each, read the input from its top again,
 * and call gconv_plan_execute_rows() until the rows of the pass are made. Strips begin at pass.first, and at multiples of
 * gconv_plan_row_step() after it. In a pass that surveys, no outputs are made: gconv_plan_execute_rows() gets NULL. */
size_t gconv_plan_passes(const gconv_plan *plan);
gconv_status gconv_plan_begin_pass(gconv_plan *plan, size_t number, gconv_plan_pass *pass);

/* ---- Inputs that a GPU decodes, and results that leave it in parts. A build without a codec for GPUs (image/gpu_codec.h)
 * can send results as rows; all else is GCONV_UNSUPPORTED ---- */

/* Does gconv_plan_execute() for a JPEG file that the device decodes itself, to the same pixels as the CPU. Only the bytes of
 * the file go to the device: `jpeg`, from gconv_row_reader_jpeg(). `header`: of the image in the file. GCONV_UNSUPPORTED:
 * the device has no decoder that was started, or stages on the host need the pixels. GCONV_BAD_FILE: the decoder refuses the
 * file. After either, try the CPU: it may decode the file, or says what is wrong. */
gconv_status gconv_plan_execute_jpeg(gconv_plan *plan, const void *jpeg, size_t size, const gconv_image *header,
                                     gconv_image *outputs, gconv_timings *timings);

/* Does gconv_plan_execute(), and sends the outputs to a taker in parts: while it works on some rows, the next rows are on
 * their way. If `jpeg` is not NULL, does gconv_plan_execute_jpeg() with this file of `size` bytes; then `in` is the header
 * of its image. timings->download_ms is the time in which the taker had to wait. GCONV_UNSUPPORTED on a CPU, and for results
 * that are not interleaved, have rows of more than half a megabyte, or need stages on the host. */
gconv_status gconv_plan_execute_parts(gconv_plan *plan, const gconv_image *in, const void *jpeg, size_t size,
                                      const gconv_taker *taker, gconv_timings *timings);

/* Returns the bytes of a GPU's memory that making PNG of the results takes, once a gconv_taker has asked for PNG. 0 if the
 * device does not make PNG of such results. */
size_t gconv_plan_png_bytes(const gconv_plan *plan);

/* ---- For measurements ---- */

/* Runs the convolution alone, without stages on the host and without transfers, `runs` times after a warm-up, on data in the
 * memory of the device, and stores the milliseconds of each run. On a GPU, inputs and outputs are rotated through more
 * memory than its caches hold, and the times are from events. `outputs` may be NULL, or get the results as with
 * gconv_plan_execute(). */
gconv_status gconv_plan_measure(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, int runs,
                                double *milliseconds);

/* Does gconv_plan_verify() with the stated bounds, but compares only some rows of each output: the first, the last, and rows
 * at equal distances between: at least 3 rows, which take about `budget` multiply-adds. For networks, compares all rows. */
gconv_status gconv_plan_spot_check(gconv_plan *plan, const gconv_image *in, const gconv_image *outputs, double budget,
                                   gconv_verification *result);

/* ---- For implementations ---- */

/* Calls plan->type->verify(). If it is NULL, the error names the operation that cannot be verified. */
gconv_status gconv_plan_hold(gconv_plan *plan, const gconv_image *in, const gconv_image *images, double tolerance,
                             double budget, gconv_verification *result);

/* If *image is empty, allocates it like the header; else checks its shape. `what`: for the error, "output 2". */
gconv_status gconv_plan_fit_image(const gconv_image *header, const char *what, gconv_image *image);

/* Fills plan->info: what follows from the shapes, and the names of algorithm and arithmetic. */
void gconv_plan_describe(gconv_plan *plan, const char *algorithm, const char *math);

/* Returns how reports describe an algorithm that is exact, or is not. */
static inline const char *gconv_family(bool exact) {
  return exact ? "exact family: the same bits on every device" : "not of the exact family";
}

GCONV_C_END
