/* SPDX-License-Identifier: MIT */
/*
 * The interface of operations, for the code that carries images through them. gconv.h has what a user sees; an
 * implementation (plain filters in src/conv, networks in src/layer) is two tables of functions and two structures that begin
 * with the ones below.
 *
 * An operation says what becomes of images; it is immutable, knows no device, and is shared by threads. A plan is an
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

/* How much of a plan is made. */
typedef enum gconv_plan_extent {
  GCONV_PLAN_WHOLE,
  GCONV_PLAN_OUTLINE,       /* all that can be told of a plan, and nothing that only executions need: no buffers, no prepared
                               weights */
  GCONV_PLAN_OUTLINE_OF_ANY /* an outline that ignores which algorithm was asked for */
} gconv_plan_extent;

/* What a plan is to be made for. */
typedef struct gconv_plan_order {
  gconv_device *device;
  const gconv_image *like; /* header of the inputs */
  gconv_type kept;         /* type of results if options set none: that of the image; in a chain, of the first input */
  int32_t rows;            /* as for gconv_plan_create() */
  gconv_plan_extent extent;
} gconv_plan_order;

/* Stages that a plan on a GPU leaves to the host: GCONV_HOST_BEFORE the convolution, which need the decoded pixels on the
 * host; GCONV_HOST_AFTER the convolution. */
enum { GCONV_HOST_BEFORE = 1, GCONV_HOST_AFTER = 2 };

/* The part of an image in which an operation counts (within.c). */
typedef struct gconv_scope {
  int32_t left, top, right, bottom; /* columns left .. right - 1 of rows top .. bottom - 1 */
  const gconv_image *mask;          /* of one channel, in the size of the image: weights from 0 to white. NULL: all are 1 */
  const gconv_image *input;         /* while results are verified: what they were blended with; else NULL */
} gconv_scope;

/* The weight of the operation's result at a place, from 0 to 1; 1 everywhere if `scope` is NULL. */
double gconv_scope_weight(const gconv_scope *scope, int64_t y, int64_t x);

typedef struct gconv_plan_type gconv_plan_type;
typedef struct gconv_losses gconv_losses;

typedef struct gconv_operation_type {
  const char *name; /* "filters", "network" */
  void (*free)(gconv_operation *operation);
  size_t (*outputs)(const gconv_operation *operation); /* images that one image becomes. NULL: one */

  /* The type of its plans, and the function that completes a plan of which only type, device and like are set. If it fails,
   * gconv_plan_make() frees the plan. */
  const gconv_plan_type *plan_type;
  gconv_status (*fill_plan)(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *plan);

  /* The name of an algorithm that was asked for and that this kind of device ("cpu", "cuda") lacks; NULL if it lacks none.
   * NULL in place of the function: no algorithm can be asked for. */
  const char *(*lacks)(const gconv_operation *operation, const char *device);

  /* gconv_operation_keep_exact(). NULL: its results may differ between devices. */
  gconv_status (*keep_exact)(const gconv_operation *operation, gconv_operation **exact);

  /* NULL, or: the bytes of host memory that the operation itself takes, whatever its plans: filters, a mask. */
  double (*held_bytes)(const gconv_operation *operation);

  /* GCONV_HOST_BEFORE, GCONV_HOST_AFTER. NULL: both. */
  int (*host_stages)(const gconv_operation *operation);

  bool batches;   /* several images of one shape are faster as the frames of one image */
  bool of_photos; /* even with `batches`, each image is executed alone: its result gets its metadata */
  /* NULL, or: how many rows of results a chain makes at a time, because results are much larger than inputs. This is done
   * for images of one frame. order->like is the input of the chain. */
  int32_t (*strip)(const gconv_operation *operation, const gconv_plan_order *order);
  bool minds_nodata; /* samples of the value gconv_image.nodata are treated as missing */
  bool repeats;      /* further plans can be made while one is in use: the operation owns all that they need */
  bool shares;       /* one plan keeps all threads of a CPU busy, so that a second one beside it is of no use */
} gconv_operation_type;

/* The first member of every operation. A new one has one user. */
struct gconv_operation {
  const gconv_operation_type *type;
  int users; /* the caller and the plans; changed atomically */
};

/* The input of an execution: an image; or a JPEG file for the device to decode, with the header of the decoded image. */
typedef struct gconv_plan_input {
  const gconv_image *image;
  const void *jpeg; /* NULL: the image has its pixels */
  size_t jpeg_bytes;
} gconv_plan_input;

/* A pass over the input by rows: the output rows first .. end - 1 are made, or, to survey values, none. */
typedef struct gconv_plan_pass {
  int32_t first, end; /* in a survey: the rows to be surveyed */
  bool surveys;
} gconv_plan_pass;

/* Bytes of memory that executions take on the host or on a GPU besides the input and the outputs; estimates. */
typedef struct gconv_need {
  double fixed;  /* for any number of images: prepared weights, workspaces */
  double image;  /* for all frames of the plan, if they are executed as a whole */
  double verify; /* to verify those frames */
  double rows;   /* by rows: whatever their number ... */
  double row;    /* ... and for each output row that is made at a time */
} gconv_need;

/* The verbs of a plan. free, execute, explain and find_need are required; row_step, rows_needed and execute_rows come
 * together, and so do check_parts and execute_parts. Any other may be NULL if the plan cannot do it (GCONV_UNSUPPORTED);
 * without `measure`, `execute` is measured. Arguments were checked by plan.c: an input has pixels and the shape of
 * plan->like, and outputs have pixels and the shapes of plan->outputs. */
struct gconv_plan_type {
  size_t bytes;                   /* of a plan */
  void (*free)(gconv_plan *plan); /* all but the outputs' headers; also where fill_plan() failed */
  gconv_status (*execute)(gconv_plan *plan, const gconv_plan_input *in, gconv_image *outputs, gconv_timings *timings);

  /* By rows: gconv.h describes gconv_plan_row_step() and the functions after it. `window` has pixels, rows of an image like
   * plan->like. The outputs have pixels: rows of images like plan->outputs, as many of each. Output rows lie in plan->pass.
   * `passes` and `begin_pass`: NULL where one pass makes all rows. */
  bool leaves_out; /* an output may have no pixels: then it is not wanted. In a survey, `outputs` is one image without pixels
                    */
  size_t (*passes)(const gconv_plan *plan);
  gconv_status (*begin_pass)(gconv_plan *plan, size_t number); /* sets plan->pass */
  int32_t (*row_step)(const gconv_plan *plan);
  void (*rows_needed)(const gconv_plan *plan, int32_t first, int32_t count, int32_t *begin, int32_t *end);
  gconv_status (*execute_rows)(gconv_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                               gconv_image *outputs, gconv_timings *timings);

  /* By rows on a GPU, as a stage of a chain whose results stay there. make_rows_there() makes `count` rows in memory of the
   * device, and sets *out to an image of them. The plan owns that memory, and reuses it in the next call. The window is in
   * memory of the host or, with `there`, of the device. That of execute_rows_there() is in memory of the device. */
  gconv_status (*make_rows_there)(gconv_plan *plan, const gconv_image *window, bool there, int32_t window_row, int32_t first,
                                  int32_t count, gconv_image *out, gconv_timings *timings);
  gconv_status (*execute_rows_there)(gconv_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                                     gconv_image *outputs, gconv_timings *timings);

  /* On a GPU. check_jpeg says why the plan cannot take a JPEG file in place of an image like `header`; check_parts why its
   * results cannot leave the GPU in parts. */
  gconv_status (*check_jpeg)(const gconv_plan *plan, const gconv_image *header);
  gconv_status (*check_parts)(const gconv_plan *plan);
  gconv_status (*execute_parts)(gconv_plan *plan, const gconv_plan_input *in, const gconv_taker *taker,
                                gconv_timings *timings);
  size_t (*held_bytes)(const gconv_plan *plan);

  /* gconv_plan_execute_device(): the images' pixels are in memory of the device; they have the shapes of the headers, and
   * any strides. Allocates nothing, and only enqueues. */
  gconv_status (*execute_device)(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, void *stream);
  size_t (*png_bytes)(const gconv_plan *plan);

  /* NULL: `execute` is measured by its timings->kernel_ms. */
  gconv_status (*measure)(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, int runs, double *milliseconds);
  void (*explain)(const gconv_plan *plan, FILE *text);
  /* `budget` is that of gconv_plan_spot_check(); INFINITY: everything is compared. *result is zeroed. */
  gconv_status (*verify)(gconv_plan *plan, const gconv_image *in, const gconv_image *outputs, double tolerance,
                         double budget, gconv_verification *result);
  const gconv_layer_info *(*layer_info)(const gconv_plan *plan, size_t layer);
  void (*find_need)(const gconv_plan *plan, gconv_need *need); /* also of outlines */
};

/* The first member of every plan. */
struct gconv_plan {
  const gconv_plan_type *type;
  const gconv_operation *operation; /* the plan is one of its users */
  gconv_device *device;
  gconv_image like;     /* header of the inputs */
  gconv_image *outputs; /* owned: headers, each of a whole output */
  gconv_image *arrays;  /* owned: output_count headers, to see a caller's arrays as images */
  size_t output_count;
  gconv_plan_info info;
  gconv_plan_pass pass; /* the one that was begun, by rows */
  gconv_plan *last;     /* owned: the plan of a chain's last stage, or of what is done in a part of an image; else NULL */
  gconv_scope *scope;   /* where the results count; NULL: everywhere. Owned by the plan that has this one as `last` */
  bool bleeds;          /* colours of transparent pixels affect the results; --alpha premultiply would prevent that */
  gconv_look look;      /* of inputs that are given by rows, up to ... */
  int32_t looked;       /* ... this row */
  gconv_losses *losses; /* owned, [output_count]: what executions lost (losses.h); NULL: nobody watches */

  gconv_type kept; /* of its order */
  int32_t rows;
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t idle;  /* it is not busy any more */
  bool busy;            /* a thread executes it */
  gconv_plan *spare;    /* a list of others like it, for threads that execute it meanwhile; owned */
};

/* What the user is to be warned of in inputs of the plan: numbers that integer outputs cannot hold, and colours of
 * transparent pixels that affect the results. */
gconv_look gconv_plan_look(const gconv_plan *plan);

/* Warns of numbers in the input that outputs cannot hold, unless the plan is watched. */
void gconv_plan_tell_of_numbers(const gconv_plan *plan, const gconv_image *in);

/* Refuses another number of outputs than the plan yields, and those that share memory with the input or each other. */
gconv_status gconv_plan_check_outputs(const gconv_plan *plan, const gconv_image *in, const gconv_image *images,
                                      size_t count);

/* Executions begin and end with these (turns.c). The thread executes *entered: `plan`; or, while another thread executes
 * `plan`, a plan like it. Such a plan is made when it is first wanted, and kept. With `itself`, and where plans of the
 * operation cannot be made again, the thread waits for `plan`. */
gconv_status gconv_plan_enter(gconv_plan *plan, bool itself, gconv_plan **entered);
void gconv_plan_leave(gconv_plan *plan, gconv_plan *entered);

/* How many images one image becomes. */
size_t gconv_operation_outputs(const gconv_operation *operation);

/* The name of an algorithm that was asked for and that this kind of device ("cpu", "cuda") lacks; NULL if it lacks none. */
const char *gconv_operation_lacks(const gconv_operation *operation, const char *device);

/* *exact = the same operation, kept to algorithms of the exact family; NULL if its results may differ between devices. */
gconv_status gconv_operation_keep_exact(const gconv_operation *operation, gconv_operation **exact);

/* The bytes of host memory that the operation itself takes, and the originals of its data that the caller keeps. */
double gconv_operation_held_bytes(const gconv_operation *operation);

/* Adds a user, and returns `operation`. gconv_operation_free() removes a user. */
gconv_operation *gconv_operation_share(const gconv_operation *operation);

/* As gconv_plan_create(), of any extent. */
gconv_status gconv_plan_make(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan **plan);

/* As gconv_plan_create(), but makes an outline, which cannot be executed. Free it with gconv_plan_free(). */
gconv_status gconv_plan_outline(gconv_device *device, const gconv_image *like, const gconv_operation *operation,
                                int32_t rows, gconv_plan **plan);

/* What memory images like `like` will take, told before there is a plan, by an outline on `device`: a CPU will do. `rows` as
 * for gconv_plan_create(); need->image and need->verify do not depend on it. */
gconv_status gconv_operation_find_need(gconv_device *device, const gconv_image *like, const gconv_operation *operation,
                                       int32_t rows, gconv_need *need);

/* By rows, some outputs want the input to be read several times: pictures that are stretched, whose values are surveyed
 * first; and mosaics, a pass for each row of tiles. Begin the passes in their order. In each, read the input from its top
 * again, and call gconv_plan_execute_rows() until the rows of the pass are made. Strips begin at pass.first, and at
 * multiples of gconv_plan_row_step() after it. In a pass that surveys, no outputs are made: gconv_plan_execute_rows() gets
 * NULL for them. */
size_t gconv_plan_passes(const gconv_plan *plan);
gconv_status gconv_plan_begin_pass(gconv_plan *plan, size_t number, gconv_plan_pass *pass);

/* ---- Inputs that a GPU decodes, and results that leave it in parts. A build without a codec for GPUs (image/gpu_codec.h)
 * can yield results as rows; all else is GCONV_UNSUPPORTED ---- */

/* As gconv_plan_execute(), of a JPEG file that the device decodes itself, into the same pixels as the CPU. Only the bytes of
 * the file go there: `jpeg`, from gconv_row_reader_jpeg(). `header` is that of the image in it. GCONV_UNSUPPORTED where the
 * plan cannot: its device has no decoder that was started, or stages on the host want the pixels. GCONV_BAD_FILE where the
 * decoder refuses the file. Then try the CPU: it may decode the file, or says what is wrong. */
gconv_status gconv_plan_execute_jpeg(gconv_plan *plan, const void *jpeg, size_t size, const gconv_image *header,
                                     gconv_image *outputs, gconv_timings *timings);

/* As gconv_plan_execute(). If `jpeg` is not NULL, as gconv_plan_execute_jpeg() of that file of `size` bytes: `in` is then
 * the header of its image. The outputs are never in memory as a whole: while the taker works on some rows, the next ones are
 * on their way. timings->download_ms is the time in which there was nothing to take. GCONV_UNSUPPORTED on a CPU, and for
 * results that are not interleaved, have rows of more than half a megabyte, or need stages on the host. */
gconv_status gconv_plan_execute_parts(gconv_plan *plan, const gconv_image *in, const void *jpeg, size_t size,
                                      const gconv_taker *taker, gconv_timings *timings);

/* The bytes of a GPU's memory that making PNG of the results takes, from the first time that a gconv_taker wants PNG. 0
 * where the device does not make PNG of such results. */
size_t gconv_plan_png_bytes(const gconv_plan *plan);

/* ---- For measurements ---- */

/* Runs the convolution alone, without stages on the host and without transfers, `runs` times after a warm-up, on data in the
 * memory of the device, and stores the milliseconds of each run. On a GPU, inputs and outputs are rotated through more
 * memory than its caches hold, and the times are from events. `outputs` may be NULL, or get the results, as those of
 * gconv_plan_execute() do. */
gconv_status gconv_plan_measure(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, int runs,
                                double *milliseconds);

/* As gconv_plan_verify() with the stated bounds, but compares only some rows of each output: the first, the last, and others
 * at equal distances. They are as many as take about `budget` multiply-adds, and at least 3. Of networks, all rows are
 * compared. */
gconv_status gconv_plan_spot_check(gconv_plan *plan, const gconv_image *in, const gconv_image *outputs, double budget,
                                   gconv_verification *result);

/* ---- For implementations ---- */

/* Calls plan->type->verify(). If it is NULL, the error names the operation that cannot be verified. */
gconv_status gconv_plan_hold(gconv_plan *plan, const gconv_image *in, const gconv_image *images, double tolerance,
                             double budget, gconv_verification *result);

/* Allocates *image as the header says if it is empty; else checks that it has that shape. `what` is for the error: "output
 * 2". */
gconv_status gconv_plan_fit_image(const gconv_image *header, const char *what, gconv_image *image);

/* Fills plan->info with what follows from the shapes, and with the names of its algorithm and arithmetic. */
void gconv_plan_describe(gconv_plan *plan, const char *algorithm, const char *math);

/* What reports call an algorithm that is exact, or is not. */
static inline const char *gconv_family(bool exact) {
  return exact ? "exact family: the same bits on every device" : "not of the exact family";
}

GCONV_C_END
