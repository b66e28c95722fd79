/* SPDX-License-Identifier: MIT */
/* A part of gconv.h: devices, operations, and plans, which execute them. */
#ifndef GCONV_PLAN_H
#define GCONV_PLAN_H

#include "gconv_network.h"

GCONV_API_BEGIN

/* ---- Devices and algorithms ---------------------------------------------------------------------------------------- */

/* A CPU with its threads, or a GPU. */
typedef struct gconv_device gconv_device;

typedef struct gconv_device_info {
  char name[32];         /* "cpu", "cuda:0" */
  char description[128]; /* "AMD EPYC, avx512, 2 threads"; "NVIDIA H200, sm_90, 139.8 GiB" */
  uint64_t memory_bytes;
  bool usable;
  char reason[256]; /* why not, if not usable */
  char driver[64];  /* "CUDA 13.0, driver 13.0"; "" for a CPU */
  double start_ms;  /* for a device that was opened: how long opening it took, in milliseconds */
  uint64_t reserved[4];
} gconv_device_info;

/* The number of threads that gconv uses if `wanted` are asked for: at most one per processor; 0 means one per processor. All
 * functions use this rule. The environment variable GCONV_MOST_THREADS raises the limit (but not what 0 means), so that
 * tests can use more threads than the machine has processors. */
int gconv_threads_allowed(int wanted);

/* Opens "cpu", "cuda", "cuda:N" or "auto": a GPU if one is usable, else the CPU. `threads` limits the threads of the CPU and
 * of the work on the host, and is limited by gconv_threads_allowed(); 0: one per processor. GCONV_UNSUPPORTED says why. */
gconv_status gconv_device_open(const char *name, int threads, gconv_device **device);

/* Call it after all plans of the device are freed. NULL is allowed.
 *
 * After fork(), a child has neither the threads nor the GPUs of its parent. The child may use a CPU device that was opened
 * before, and its plans, unless a thread was executing them during the fork: the calling thread does all work. The child may
 * free these plans; closing the device does nothing. GPUs must be opened after the fork. */
void gconv_device_close(gconv_device *device);

/* Whether this process has started CUDA, if only to ask which GPUs there are. The exit() handlers of CUDA's driver are slow:
 * a program that has written everything may call _exit() instead. Thread-safe. */
bool gconv_device_is_gpu_open(void);

/* The threads of the CPU, or the threads that work on the host for a GPU. The device owns them. Any number of callers may
 * use them at the same time: their pieces of work are shared out to the threads. */
gconv_threads *gconv_device_threads(gconv_device *device);

/* Describes the opened device. Valid as long as the device. */
const gconv_device_info *gconv_device_get_info(const gconv_device *device);

/* Describes device number `index` of this machine: 0 is the CPU, then the GPUs, then, if CUDA cannot be used, one unusable
 * entry "cuda" with the reason. False past the end. */
bool gconv_device_at(size_t index, gconv_device_info *info);

/* How fast a device is. */
typedef struct gconv_machine {
  double fma_per_ms;   /* fused multiply-adds of float32, at best */
  double bytes_per_ms; /* read + written by a copy in the memory of the device */
  double launch_ms;    /* milliseconds for an empty piece of work: launching a kernel, waking the threads */
  double units;        /* number of parallel units: threads, or multiprocessors of a GPU */
  uint64_t reserved[4];
} gconv_machine;

/* The rates that estimates are based on: for a GPU, those of its data sheet; for any CPU, those of one thread of the
 * reference CPU, so that all CPUs choose the same algorithms. Valid as long as the device. */
const gconv_machine *gconv_device_get_machine(const gconv_device *device);

/* Measures the rates of the device, in less than a second. */
gconv_status gconv_device_measure(gconv_device *device, gconv_machine *machine);

typedef struct gconv_algorithm_info {
  const char *name;   /* "direct" */
  const char *device; /* "cpu" or "cuda" */
  const char *help;   /* one line */
  bool exact;         /* belongs to the exact family: the same bits on every device (docs/architecture.md) */
} gconv_algorithm_info;

/* The algorithms of this build; NULL past the end. Static storage. */
const gconv_algorithm_info *gconv_algorithm_at(size_t index);

/* The reason why algorithm number `index` cannot be used on this machine for any problem, such as "libcudnn.so.9 was not
 * found"; NULL if it can, and past the end. Loads the algorithm's library, which may take a moment. Thread-safe; static
 * storage. */
const char *gconv_algorithm_obstacle(size_t index);

/* The same as gconv_algorithm_at() and gconv_algorithm_obstacle(), for the algorithms for layers of networks. */
const gconv_algorithm_info *gconv_layer_algorithm_at(size_t index);
const char *gconv_layer_algorithm_obstacle(size_t index);

/* ---- Operations ---------------------------------------------------------------------------------------------------- */

/* A transformation of images. It is immutable, belongs to no device, and may be used by several threads at the same time. */
typedef struct gconv_operation gconv_operation;

/* Convolves with one or more plain filters, each within the limits of gconv_filter_analyze(). Filters and options are
 * copied. With padding "same", filters of different sizes can be combined: their anchors lie on the same pixel.
 * GCONV_BAD_ARGUMENT names the filter or option that is wrong. */
gconv_status gconv_operation_filters(const gconv_filters *filters, const gconv_options *options,
                                     gconv_operation **operation);

/* Applies layers, one after the other. Layers and options (NULL: all 0) are copied. The banks are not copied, as their
 * weights may take much memory: they must outlive the operation, but not its plans. GCONV_BAD_ARGUMENT names the layer, or
 * the field of the options, that is wrong, and weights and biases that are not finite. */
gconv_status gconv_operation_network(const gconv_layer *layers, size_t count, const gconv_network_options *options,
                                     gconv_operation **operation);

/* Applies operations one after the other: each takes the image that the one before it makes, so all but the last must make
 * one. Filters whose options set no output type give results of the type of the first input, even after a stage that makes
 * another type. The caller may free the stages. */
gconv_status gconv_operation_chain(gconv_operation *const *stages, size_t count, gconv_operation **operation);

/* The part of an image to which an operation is applied. All may be 0 or NULL: the whole image. */
typedef struct gconv_area {
  int32_t x, y;            /* the left column and the top row of a rectangle, in pixels from 0 on; either may be negative */
  int32_t width, height;   /* width and height of the rectangle, from 1 on; both 0: the whole image */
  const gconv_image *mask; /* one weight per pixel of the image: black is 0, white 1. u8, u16, or f32 from 0 to 1 */
  uint64_t reserved[4];
} gconv_area;

/* Applies an operation in a part of the image: each sample of the result is weight * applied + (1 - weight) * input, in
 * float64, rounded to the nearest level, or to float32. `applied` is the operation's result in the type of the image,
 * already rounded. The weight is the mask's within the rectangle, and 0 outside. Where the weight is 0, samples are copied
 * from the input; where it is 1, they are the operation's result on the whole image: so filters at the edges of the
 * rectangle see the pixels outside of it.
 *
 * The operation must keep the size, channels (with alpha) and type of the image, else gconv_plan_create() fails
 * (GCONV_BAD_ARGUMENT). The mask has one frame, and the width and height of every image (GCONV_BAD_ARGUMENT from
 * gconv_plan_create()). It is grey, or RGB, which becomes grey as by gconv_options.gray; its alpha, if it has one, is
 * multiplied into the weights. The part of the rectangle that is outside an image is left out, with a warning;
 * GCONV_BAD_ARGUMENT if all of it is. The caller may free the operation and the mask. */
gconv_status gconv_operation_within(gconv_operation *operation, const gconv_area *area, gconv_operation **result);

/* Plans that were made of the operation stay valid. NULL is allowed. */
void gconv_operation_free(gconv_operation *operation);

/* ---- Plans --------------------------------------------------------------------------------------------------------- */

/* An operation prepared for inputs of one shape on one device: the algorithms chosen, weights, buffers. Made once, executed
 * many times, by any number of threads at once. Executions of filters run in parallel: each has buffers of its own, which
 * the plan allocates when they are first needed, and keeps. Executions of other operations wait for each other. */
typedef struct gconv_plan gconv_plan;

/* Plans `operation` for images like `like`, of which only the header is read. Both may be freed afterwards; the device must
 * outlive the plan. `rows`: 0, or the largest number of output rows that gconv_plan_execute_rows() will be asked for;
 * networks allocate memory for so many rows, rounded up to an even number. Networks leave alpha out, with a remark, unless
 * the first layer takes as many channels as the image has with alpha. GCONV_BAD_ARGUMENT says what does not fit the images,
 * GCONV_UNSUPPORTED why no algorithm can do it. */
gconv_status gconv_plan_create(gconv_device *device, const gconv_image *like, const gconv_operation *operation, int32_t rows,
                               gconv_plan **plan);
/* NULL is allowed. */
void gconv_plan_free(gconv_plan *plan);

/* How many images an execution yields. Filters: 1, or one per filter with GCONV_COMBINE_NONE. Networks:
 * gconv_presentation. */
size_t gconv_plan_outputs(const gconv_plan *plan);

/* The shape and type of output number `output`, without pixels and metadata; NULL past the end. Valid as long as the plan.
 */
const gconv_image *gconv_plan_output_header(const gconv_plan *plan, size_t output);

/* Whether images like `like` can be executed with this plan. */
bool gconv_plan_fits(const gconv_plan *plan, const gconv_image *like);

/* Where the time of one execution went, in milliseconds. GPU times are from device events, except decode_ms and the
 * download_ms of results that are downloaded in parts: there it is the time that the host waits. */
typedef struct gconv_timings {
  double prepare_ms; /* on the host before: grey, linear light, premultiply */
  double upload_ms;  /* 0 on the CPU */
  double kernel_ms;
  double download_ms; /* 0 on the CPU */
  double finish_ms;   /* on the host after */
  double decode_ms;   /* on the device, of a JPEG file, with its upload; else 0 */
  double encode_ms;   /* on the device, of PNG; else 0 */
  uint64_t reserved[4];
} gconv_timings;

/* Makes outputs[0 .. output_count - 1] of `in`; output_count is gconv_plan_outputs(), else GCONV_BAD_ARGUMENT. An output
 * that is empty (zeroed) is allocated. An output that already has pixels of the right shape is overwritten; one of another
 * shape gives GCONV_BAD_ARGUMENT. Tensors of networks have no gaps between rows. Filters and GCONV_PRESENT_IMAGE copy the
 * metadata of `in`. timings may be NULL. */
gconv_status gconv_plan_execute(const gconv_plan *plan, const gconv_image *in, gconv_image *outputs, size_t output_count,
                                gconv_timings *timings);

/* Samples in memory of a device, of one image or several. Sample (n, c, y, x) is at this distance after `data`:
 * n * stride[0] + c * stride[1] + y * stride[2] + x * stride[3]. Strides of axes of length 1 do not matter. */
typedef struct gconv_array {
  void *data;
  gconv_type type;
  int64_t shape[4];  /* N, C, H, W */
  int64_t stride[4]; /* in bytes, none below 0 */
} gconv_array;

/* As gconv_plan_execute(), from and to memory of the plan's device. On a GPU, nothing is allocated or waited for: the work
 * goes into `stream`, a cudaStream_t of the caller. Executions may be captured into a CUDA graph, except the plan's first
 * one, which loads libraries and kernels. The caller makes sure that executions of one plan do not overlap. On a CPU, arrays
 * are in its memory, `stream` is not used, and the work is done on return.
 *
 * Arrays have types and shapes of the plan's headers. If like.planar was set, the samples of a row must be contiguous, and
 * planes may have any distance. Else the pixels of a row, and the channels of each pixel, must be contiguous. Gaps are
 * allowed only between rows, and are not written. On a GPU, arrays whose data or strides are not multiples of 16 bytes, and
 * more than two outputs that do not lie at equal distances, are copied through memory of the plan; all others are read and
 * written where they are. GCONV_UNSUPPORTED says what the plan cannot take: strides of other kinds, or stages on the host
 * (grey, mixed channels, linear light, premultiplied alpha, minmax, pictures of networks). */
gconv_status gconv_plan_execute_device(const gconv_plan *plan, const gconv_array *in, const gconv_array *outputs,
                                       size_t output_count, void *stream);

/* Bytes of memory that a plan of filters or a network holds. On a CPU: weights, and the workspaces of all threads that have
 * executed it at the same time (gconv_plan_trim()). On a GPU: what the plan has allocated there so far; known for plans of
 * filters only. Memory inside algorithms and libraries, such as the spectra of fft, is not counted. 0: not known. */
size_t gconv_plan_held_bytes(const gconv_plan *plan);

/* Plans by rows, for images that are not in memory as a whole. Output rows are made in strips. A strip begins at a multiple
 * of gconv_plan_row_step(), which is 0 for plans that need the whole image. Plans of filters need the whole image on a GPU,
 * for several frames or planes, with border wrap or range minmax, or with outputs of different heights. Plans of networks
 * need it if they were made with `rows` 0. Otherwise the plan's number of rows is both the step and the largest height of a
 * strip. */
int32_t gconv_plan_row_step(const gconv_plan *plan);

/* Finds the input rows *begin .. *end - 1 from which the output rows first .. first + count - 1 are computed, borders
 * included; both become 0 if there are no such rows. */
void gconv_plan_rows_needed(const gconv_plan *plan, int32_t first, int32_t count, int32_t *begin, int32_t *end);

/* Some rows of an image: `image` has its rows first .. first + image->height - 1. */
typedef struct gconv_input_rows {
  const gconv_image *image;
  int32_t first;
} gconv_input_rows;

/* Does what gconv_plan_execute() does, for the output rows from `first` on: as many as the heights of outputs[0 ..], whose
 * pixels are already allocated. No metadata are copied. `window` has at least the input rows that are needed. Results are
 * the same bits as for the whole image, except in networks whose algorithms are not exact: these agree within their error
 * bounds. Times are added to *timings, which may be NULL. */
gconv_status gconv_plan_execute_rows(const gconv_plan *plan, const gconv_input_rows *window, int32_t first,
                                     gconv_image *outputs, size_t output_count, gconv_timings *timings);

/* What a plan will do. */
typedef struct gconv_plan_info {
  const char *device;    /* "cuda:0" */
  const char *algorithm; /* "direct"; "several" if filters of different sizes take different ones */
  const char *math;      /* "fp32" */
  bool exact;
  int32_t frames, channels;      /* N, C as convolved (alpha kept aside is not counted) */
  int32_t height, width;         /* H, W */
  int32_t filters;               /* K */
  int32_t rows, columns;         /* R, S; the largest of filters of several sizes */
  int32_t out_height, out_width; /* P, Q; of the first output */
  int32_t out_channels;          /* channels of each output, with alpha */
  gconv_type input_type, output_type;
  double flop;            /* 2 * N * K * C * R * S * P * Q, without rows and columns of taps that lie outside the image */
  double bytes;           /* input read once + outputs written once */
  size_t workspace_bytes; /* on a CPU: of each thread */
  double error_bound; /* largest |error| of a response, relative to (sum |tap|) * max |sample|; of fft, it is statistical.
                         Responses below FLT_MIN may also be wrong in their last bits, and fft may lose them */
  double estimate_ms; /* estimated milliseconds of an execution, by the cost model, before what was learned by tuning */
} gconv_plan_info;

/* Valid as long as the plan. */
const gconv_plan_info *gconv_plan_get_info(const gconv_plan *plan);

/* What a layer of a network will do. */
typedef struct gconv_layer_info {
  const char *algorithm, *math; /* "direct", "fp32" */
  bool exact;
  bool each; /* applied to each channel by itself: then each channel counts as one of `images` */
  int32_t images, channels, height, width; /* N, C, H, W */
  int32_t filters, rows, columns, groups;  /* K, R, S, G */
  int32_t out_height, out_width;           /* P, Q */
  int32_t batch;                           /* images at a time, so that the workspace suffices */
  double flop;                             /* 2 * N * K * C/G * R * S * P * Q */
  size_t workspace_bytes;                  /* on a CPU: of each thread */
  double error_bound;    /* error bound of a sum, relative to the size of the sum, which is sum |w * x| + |bias| ... */
  bool bound_of_largest; /* ... or, if this is true, (sum |w|) * (largest |x| of the group's channels) + |bias| */
  double estimate_ms;
} gconv_layer_info;

/* Describes layer number `layer` of a network; NULL past the end, and for plans of filters. Valid as long as the plan. */
const gconv_layer_info *gconv_plan_layer_info(const gconv_plan *plan, size_t layer);

/* What was chosen and why, for people: several lines, each ended by a newline. *text is owned by the caller: free(). */
gconv_status gconv_plan_explain(const gconv_plan *plan, char **text);

/* The result of a verification: the largest difference between outputs and their recomputation in float64. */
typedef struct gconv_verification {
  double max_error;    /* in units of the samples of the output (levels for u8 and u16), rounding of integers included */
  double allowed;      /* the bound at the place of max_error, with 1/2 level for the rounding of integer outputs */
  double most_allowed; /* the largest finite bound of all places */
  size_t output;       /* the place of max_error: the output, and its frame, row, column, channel */
  int32_t frame, y, x, channel;
  double got, expected;
  uint64_t compared; /* samples */
  uint64_t reserved[4];
} gconv_verification;

/* Recomputes everything from `in` in float64, slowly, on the host. `tolerance` < 0: each sample is held to the error bound
 * that the algorithms state; in networks, the bound is propagated from layer to layer. >= 0: each sample may differ by this
 * much, in units of the output samples. GCONV_MISMATCH if any sample differs by more. *result is filled in both cases. */
gconv_status gconv_plan_verify(const gconv_plan *plan, const gconv_image *in, const gconv_image *outputs,
                               size_t output_count, double tolerance, gconv_verification *result);

GCONV_API_END
#endif
