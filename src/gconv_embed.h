/* SPDX-License-Identifier: MIT */
/*
 * gconv in servers and applications: pictures from and to memory, without files; threads and memory of the process; long
 * calls that are stopped and watched. The rules of gconv.h hold here, too:
 *
 *     bytes -> gconv_image_decode() -> image -> operation -> image -> gconv_image_encode() -> bytes
 */
#ifndef GCONV_EMBED_H
#define GCONV_EMBED_H

#include "gconv.h"

GCONV_API_BEGIN

/* The bytes of an encoded picture: in memory, or from a function of the caller. Fields that are not used are 0. */
typedef struct gconv_bytes_in {
  const char *name; /* for error texts and warnings; NULL: "the picture in memory" */
  const char
      *member; /* the MEMBER of FILE:MEMBER (gconv_image_read()): an array of a .npz, a frame from 1 on; NULL: all images */
  const void *data; /* the bytes, which are not needed after the call. NULL: read() yields them */
  size_t size;      /* how many bytes there are at `data` */
  /* Yields the next bytes, as read(2) does: puts 1 to `size` bytes at `bytes`, and returns how many; 0 at the end; below 0
   * after a failure, which becomes GCONV_IO_ERROR. A thread of the library may call it, one call at a time, and it may ask
   * for bytes after the end of the picture. As from a pipe, only the first of several images is read. */
  int64_t (*read)(void *user, void *bytes, size_t size);
  void *user; /* for read() */
  uint64_t reserved[4];
} gconv_bytes_in;

/* Decodes bytes into the pixels and metadata that gconv_image_read() reads from a file. `data` or read() must be set. */
gconv_status gconv_image_decode(const gconv_bytes_in *from, const gconv_read_options *options, gconv_image *image);

/* Does what gconv_image_read_header() does, for bytes. */
gconv_status gconv_image_decode_header(const gconv_bytes_in *from, gconv_image *image, const gconv_format_info **format);

/* Where the bytes of an encoded picture go: to memory that grows, or to a function of the caller. Zero-initialise before
 * first use. One struct may be used for any number of pictures, one after the other: its memory is reused. */
typedef struct gconv_bytes_out {
  const char *name; /* for error texts; NULL: "the picture in memory" */
  void *data;       /* memory of malloc(), or NULL; it grows, and may move. Owned by the caller: free() */
  size_t size;      /* how many bytes the picture has; 0 after a failure */
  size_t room;      /* how many bytes `data` has room for; 0 if it is NULL */
  /* Takes the next bytes, in place of `data`. Returns false if it cannot: then encoding fails with GCONV_IO_ERROR. A thread
   * of the library may call it, one call at a time. After a failure of any kind, it has received a part of the picture.
   * NULL: the bytes go to `data` */
  bool (*write)(void *user, const void *bytes, size_t size);
  void *user; /* for write() */
  uint64_t reserved[4];
} gconv_bytes_out;

/* Makes the bytes that gconv_image_write() writes to a file. options->format must be set; keep_existing does not count. */
gconv_status gconv_image_encode(gconv_bytes_out *to, const gconv_write_options *options, const gconv_image *image);

/* ---- Tensors of any layout ------------------------------------------------------------------------------------------ */

/* Types of elements: the first four equal those of gconv_type. */
typedef enum gconv_element_type {
  GCONV_ELEMENT_U8 = GCONV_U8,
  GCONV_ELEMENT_U16 = GCONV_U16,
  GCONV_ELEMENT_F32 = GCONV_F32,
  GCONV_ELEMENT_I16 = GCONV_I16, /* for results only */
  GCONV_ELEMENT_F16,             /* for plans of f32: converted, and rounded to nearest even */
  GCONV_ELEMENT_BF16             /* the same */
} gconv_element_type;

/* A tensor in memory of the host or of a GPU: element (n, c, y, x) is at this distance after `data`: n * stride[0] + c *
 * stride[1] + y * stride[2] + x * stride[3]. Strides describe NCHW, NHWC and any other order, slices, and reversed axes. */
typedef struct gconv_strided {
  void *data; /* the caller's; any address */
  gconv_element_type type;
  int64_t shape[4];  /* N, C, H, W */
  int64_t stride[4]; /* in bytes; below 0: the axis runs backwards; 0 (of an input): elements are repeated along the axis */
} gconv_strided;

/* Executes a plan of any device, as gconv_plan_execute() does, on tensors in memory of the host that have the shapes of the
 * plan's headers. A tensor whose strides gconv_plan_execute_device() accepts on a CPU is used where it lies; any other is
 * copied to temporary memory. Elements of an output must not overlap another output or, unless the input is copied, the
 * input. GCONV_BAD_ARGUMENT names the tensor whose type, shape or strides are wrong. */
gconv_status gconv_plan_execute_strided(const gconv_plan *plan, const gconv_strided *in, const gconv_strided *outputs,
                                        size_t output_count);

/* Executes a plan, as gconv_plan_execute_device() does, on tensors of any strides and types in memory of the plan's device,
 * in `stream`. A tensor that gconv_plan_execute_device() would refuse is copied through memory of the GPU. The plan
 * allocates this memory in the first such call, and keeps it: so calls of one plan must not overlap, not even on the host.
 * On a CPU, this is gconv_plan_execute_strided(). */
gconv_status gconv_plan_execute_strided_device(const gconv_plan *plan, const gconv_strided *in, const gconv_strided *outputs,
                                               size_t output_count, void *stream);

/* ---- Threads and memory -------------------------------------------------------------------------------------------- */

/* Limits the threads for computing of all devices, jobs, readers and writers of this process together to `most`, including
 * one thread of the caller. 0, the default: no common limit, each of these may have one thread per processor. Pools that
 * exist keep their threads: call this function first. A device that gets no thread works in the threads that call it. */
void gconv_limit_threads(int most);

/* Functions that allocate the library's large blocks of host memory, of 1 MiB and more: pixels, tensors, weights,
 * workspaces. Smaller blocks, and memory of other libraries, come from malloc(). */
typedef struct gconv_allocator {
  /* Returns `bytes` at an address that is a multiple of `alignment`, a power of two up to 2 MiB; or NULL: then the call that
   * needs it fails with GCONV_NO_MEMORY. Several threads may call it at a time. */
  void *(*allocate)(size_t bytes, size_t alignment, void *user);
  void (*release)(void *memory, void *user); /* frees memory of allocate(); several threads may call it at a time */
  void *user;                                /* for both */
} gconv_allocator;

/* From now on, large blocks come from *allocator, which is copied; NULL: from the system again. Each block is released by
 * the allocator that made it, so this may be called at any time; the functions must stay valid as long as such blocks exist.
 * GCONV_BAD_ARGUMENT if a function is NULL. Thread-safe. */
gconv_status gconv_set_allocator(const gconv_allocator *allocator);

/* Frees idle buffers of the plan. Each thread that executes a plan at the same time as others has buffers of its own, which
 * the plan keeps. This function frees those that are not in use, except one thread's. Later executions allocate again what
 * they need. gconv_plan_held_bytes() tells how much a plan holds. Thread-safe. NULL is allowed. */
void gconv_plan_trim(gconv_plan *plan);

/* ---- Stopping and watching long calls ------------------------------------------------------------------------------ */

/* How calls of a thread are stopped and watched. Fields that are 0 do nothing. A call that was stopped returns
 * GCONV_STOPPED. Its arguments are unchanged, or still usable; no file is half-written. */
typedef struct gconv_control {
  const volatile int *stop; /* calls stop once this is not 0. A signal handler or another thread may set it */
  double deadline; /* calls stop from this time on: seconds of CLOCK_MONOTONIC, which C++ and Python call steady_clock and
                      time.monotonic(). Below 0, or NaN: at once */
  /* Called in the thread that called the library, between parts of the work. `done`, from 0 to 1, is the finished part of
   * `what` ("reading", "filtering", "writing", "running a network", "training", "predicting", "fitting", "running a job",
   * "working"). `what` is a static string. If a call consists of several kinds of work, each begins from 0; the same values
   * may be reported again. Returns false to stop. It must not call the library. */
  bool (*progress)(const char *what, double done, void *user);
  void *user; /* for progress() */
  const struct gconv_control
      *outer; /* NULL, or a further control that is obeyed too, such as the one that was in use before */
  uint64_t reserved[4];
} gconv_control;

/* From now on, *control stops and watches the calls of this thread, until this function is called again; NULL: no control.
 * *control and its outer controls must stay valid that long. Returns the previous control, or NULL; pass it to this function
 * to restore it. Once a control says stop, every further call that looks at it stops at once.
 *
 * These calls look at it, in any of their threads: plans of a CPU when they are executed; reading and writing of whole
 * images, after each band of rows; jobs, in which unfinished images count as failed; gconv_dataset_open();
 * gconv_trainer_epoch(), after each step (it returns GCONV_OK with `interrupted`); training, validation and application of
 * support vector machines; gconv_fit_add() and gconv_fit_solve(). Other calls cannot be stopped, nor can the reading of
 * formats that are decoded as a whole, such as WebP. */
const gconv_control *gconv_control_use(const gconv_control *control);

GCONV_API_END
#endif
