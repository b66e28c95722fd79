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

/* The bytes of a picture that is in no file: in memory, or from a function of the caller. What is not set is 0. */
typedef struct gconv_bytes_in {
  const char *name;   /* for error texts and warnings; NULL: "the picture in memory" */
  const char *member; /* what FILE:MEMBER names: an array of a .npz, a frame from 1 on; NULL: all images */
  const void *data;   /* the bytes, which only the call reads. NULL: read() yields them */
  size_t size;        /* how many bytes there are at `data` */
  /* Yields the next bytes, as read(2) does: puts 1 to `size` bytes at `bytes`, and returns how many; 0 at the end; below 0
   * after a failure, which becomes GCONV_IO_ERROR. It may be called from a thread of the library, but from one at a time,
   * and for bytes beyond the picture. As in a pipe, only the first of several images is read. */
  int64_t (*read)(void *user, void *bytes, size_t size);
  void *user; /* for read() */
  uint64_t reserved[4];
} gconv_bytes_in;

/* As gconv_image_read(), and with the same pixels and metadata, of bytes. GCONV_BAD_ARGUMENT if there is neither `data` nor
 * read(). */
gconv_status gconv_image_decode(const gconv_bytes_in *from, const gconv_read_options *options, gconv_image *image);

/* As gconv_image_read_header(), of bytes. */
gconv_status gconv_image_decode_header(const gconv_bytes_in *from, gconv_image *image, const gconv_format_info **format);

/* Where the bytes of a picture go that becomes no file: to memory that grows, or to a function of the caller.
 * Zero-initialise before first use. One record may serve any number of pictures, one after the other: its memory is used
 * again. */
typedef struct gconv_bytes_out {
  const char *name; /* for error texts; NULL: "the picture in memory" */
  void *data;       /* memory of malloc(), or NULL; it grows, and may move. Owned by the caller: free() */
  size_t size;      /* how many bytes the picture has; 0 after a failure */
  size_t room;      /* how many bytes `data` has room for; 0 if it is NULL */
  /* Takes the next bytes, in their order, in place of `data`; false: it cannot, and the picture fails with GCONV_IO_ERROR.
   * It may be called from a thread of the library, but from one at a time. After a failure of any kind, it has got a part of
   * the picture. NULL: the bytes go to `data` */
  bool (*write)(void *user, const void *bytes, size_t size);
  void *user; /* for write() */
  uint64_t reserved[4];
} gconv_bytes_out;

/* Makes the bytes that gconv_image_write() writes to a file. options->format must be set; keep_existing does not count. */
gconv_status gconv_image_encode(gconv_bytes_out *to, const gconv_write_options *options, const gconv_image *image);

/* ---- Tensors of any layout ------------------------------------------------------------------------------------------ */

/* Types of elements: the first four are those of gconv_type. */
typedef enum gconv_element_type {
  GCONV_ELEMENT_U8 = GCONV_U8,
  GCONV_ELEMENT_U16 = GCONV_U16,
  GCONV_ELEMENT_F32 = GCONV_F32,
  GCONV_ELEMENT_I16 = GCONV_I16, /* of results alone */
  GCONV_ELEMENT_F16,             /* for plans of f32: converted, and rounded to nearest even */
  GCONV_ELEMENT_BF16             /* the same */
} gconv_element_type;

/* A tensor in memory of the host or of a GPU: element (n, c, y, x) is at this distance after `data`: n * stride[0] +
 * c * stride[1] + y * stride[2] + x * stride[3]. So NCHW, NHWC and any other order, slices, and axes that run backwards are
 * strides. */
typedef struct gconv_strided {
  void *data; /* the caller's; any address */
  gconv_element_type type;
  int64_t shape[4];  /* N, C, H, W */
  int64_t stride[4]; /* in bytes; below 0: backwards; 0 of an input: the same elements again */
} gconv_strided;

/* As gconv_plan_execute(), on tensors of the shapes of the plan's headers, for a plan on any device. A tensor that
 * gconv_plan_execute_device() would take on a CPU is used where it lies; another one is copied, and takes as much memory
 * meanwhile. No element of an output may lie in another output or, unless that is copied, in the input.
 * GCONV_BAD_ARGUMENT names the tensor whose type, shape or strides are wrong. */
gconv_status gconv_plan_execute_strided(const gconv_plan *plan, const gconv_strided *in, const gconv_strided *outputs,
                                        size_t output_count);

/* As gconv_plan_execute_device(), on tensors of any strides and types in memory of the plan's device, in `stream`. A tensor
 * that gconv_plan_execute_device() would not take is copied through memory of the GPU, which the plan allocates in its first
 * such call, and keeps: so calls of one plan must not overlap, on the host either. On a CPU, this is
 * gconv_plan_execute_strided(). */
gconv_status gconv_plan_execute_strided_device(const gconv_plan *plan, const gconv_strided *in, const gconv_strided *outputs,
                                               size_t output_count, void *stream);

/* ---- Threads and memory -------------------------------------------------------------------------------------------- */

/* Bounds the threads that the library starts to compute, of all devices, jobs, readers and writers of this process together:
 * `most` with one thread of the caller; 0, the default: each may have one a processor. Pools that exist keep their threads:
 * call it first. A device that finds no thread left works with the threads that call it. */
void gconv_limit_threads(int most);

/* Where the library takes large blocks of memory of the host, of 1 MiB and more: pixels, tensors, weights, workspaces. What
 * is smaller, and what other libraries take, comes from malloc(). */
typedef struct gconv_allocator {
  /* Returns `bytes` at an address that is a multiple of `alignment`, a power of two up to 2 MiB; or NULL: then the call that
   * needs it fails with GCONV_NO_MEMORY. Several threads may call it at a time. */
  void *(*allocate)(size_t bytes, size_t alignment, void *user);
  void (*release)(void *memory, void *user); /* takes what allocate() has returned; called as allocate() */
  void *user;                                /* for both */
} gconv_allocator;

/* Takes large blocks from *allocator, which is copied, from now on; NULL: from the system again. Each block goes back to
 * where it came from, so this may be called at any time; the functions must stay as long as there are such blocks.
 * GCONV_BAD_ARGUMENT if a function is NULL. Thread-safe. */
gconv_status gconv_set_allocator(const gconv_allocator *allocator);

/* Gives back memory that no thread uses now. Threads that execute a plan at the same time have buffers of their own, which
 * the plan keeps: this frees all that are idle but one thread's. Executions allocate again what they need.
 * gconv_plan_held_bytes() tells how much a plan holds. Thread-safe. NULL is allowed. */
void gconv_plan_trim(gconv_plan *plan);

/* ---- Stopping and watching long calls ------------------------------------------------------------------------------ */

/* How calls of a thread are stopped and watched. Fields that are 0 do nothing. A call that was stopped returns
 * GCONV_STOPPED. What it was given is as it was before, or usable; no file is half-written. */
typedef struct gconv_control {
  const volatile int *stop; /* calls stop once this is not 0. A signal handler or another thread may set it */
  double deadline; /* calls stop from this time on: seconds of CLOCK_MONOTONIC, which C++ and Python call steady_clock and
                      time.monotonic(). Below 0, or NaN: at once */
  /* Called in the thread that called the library, between parts of the work: `done`, from 0 to 1, is done of `what`
   * ("reading", "filtering", "writing", "running a network", "training", "predicting", "fitting", "running a job",
   * "working"). `what` is static. Work that consists of several begins each from 0, and the same figures may come again.
   * Returns false to stop. It must not call the library. */
  bool (*progress)(const char *what, double done, void *user);
  void *user;                        /* for progress() */
  const struct gconv_control *outer; /* NULL, or a control that counts, too: for parts of the work, the control before */
  uint64_t reserved[4];
} gconv_control;

/* Lets calls of this thread be stopped and watched by *control, until this is called again; NULL: no longer. *control and
 * those outside it must stay that long. Returns the control before, or NULL: give it again where a part of the work has a
 * control of its own. While calls are stopped, every further call that looks at the control stops at once.
 *
 * These calls look at it, in any of their threads: plans of a CPU when they are executed; reading and writing of whole
 * images, after each band of rows; jobs, whose images that are not finished count as failed; data sets that are opened;
 * gconv_trainer_epoch(), after a step, which returns GCONV_OK with `interrupted`; support vector machines that are trained,
 * validated or applied; gconv_fit_add() and gconv_fit_solve(). Others take their time, and so do formats that are read as a
 * whole, such as WebP. */
const gconv_control *gconv_control_use(const gconv_control *control);

GCONV_API_END
#endif
