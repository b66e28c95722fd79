/* SPDX-License-Identifier: MIT */
/* Algorithms for plain filters: each is a descriptor in one file of kernels/, and a row in algorithms.def. */
#pragma once

#include "kernels/problem.h"

/* Where the output of a filter, or of combined filters, begins, and how many bytes its images, planes and rows are apart. */
typedef struct gconv_target {
  uint8_t *base;
  int64_t image, plane, row;
} gconv_target;

/* One call of an algorithm: where the samples are. Addresses are of the device's memory; distances are in bytes. On CUDA,
 * rows of input and output begin at multiples of 16 bytes, unless filters are stacked as channels of one output. */
typedef struct gconv_execution {
  const gconv_problem *problem;
  const float *weights;      /* taps, divisors, biases, and what prepare() wrote (problem.h) */
  const float *host_weights; /* the same in host memory, to be passed to a kernel by value */

  /* Input sample (n, m, y, x, c): in + n * in_image + m * in_plane + y * in_row, element x * channels + c. */
  const uint8_t *in;
  int64_t in_image, in_plane, in_row;

  /* Output sample (k, n, m, p, q, c): out[k].base + n * out[k].image + m * out[k].plane + p * out[k].row + q * out_pixel +
   * c * out_channel. If responses are combined, k is 0. Alpha that is kept is at out_alpha instead of c * out_channel. Each
   * filter writes it; if filters are stacked, only filter 0 does. The array is in host memory; on CUDA the bases lie at
   * equal distances, and image, plane and row are the same for all k. */
  const gconv_target *out;
  int64_t out_pixel, out_channel, out_alpha;

  void *state;     /* what acquire() made; NULL without one */
  void *workspace; /* workspace_bytes() bytes, aligned to 64; on the CPU each thread has its own */

  /* CPU: the rows first_row .. end_row - 1 of image `image`, plane `plane`. CUDA: everything, on the stream. */
  int32_t image, plane, first_row, end_row;
  bool exact;   /* CPU: the algorithm is of the exact family */
  void *stream; /* cudaStream_t */
} gconv_execution;

typedef struct gconv_algorithm {
  gconv_algorithm_info info;

  /* Loads the library that the algorithm is made of, and returns NULL, or why that failed: "libcufft.so.12 was not found".
   * Thread-safe; the answer stays the same. A NULL pointer: the algorithm needs no library. */
  const char *(*available)(void);

  /* NULL if the algorithm can solve the problem, else why not: "filters larger than 32 x 32". */
  const char *(*supports)(const gconv_problem *problem);

  /* The bytes of workspace that execute() needs; on the CPU, that each thread needs. NULL: none. */
  size_t (*workspace_bytes)(const gconv_problem *problem);

  /* Called only after supports() said yes; allocates nothing. */
  gconv_status (*execute)(const gconv_execution *execution);

  /* An estimate in milliseconds of one execution on `machine`, for `auto`. */
  double (*cost)(const gconv_problem *problem, const gconv_machine *machine);

  /* May be NULL. Returns the algorithm that execute() hands the problem to, or NULL if it does the work itself. The estimate
   * is corrected by the measurements of the algorithm that does the work. */
  const struct gconv_algorithm *(*leaves_to)(const gconv_problem *problem);

  /* The largest |error| of a response, relative to (sum |tap|) * max |x|. Below FLT_MIN, where floats have fewer bits,
   * a response may also be off by its last bits. If rounding spreads (`spreads`), it may even be lost entirely. */
  double (*error_bound)(const gconv_problem *problem);

  /* Both are NULL for algorithms that take the taps as they are. Else prepared_floats() returns how many floats the
   * algorithm wants after the weights. prepare() writes them once, on the host, from taps[k][r][s]. Both are called only
   * after supports() said yes. prepare alone may be NULL: then acquire() writes the floats, on the device. */
  size_t (*prepared_floats)(const gconv_problem *problem);
  gconv_status (*prepare)(const gconv_problem *problem, const float *taps, float *prepared);

  /* CPU: executions begin at multiples of this many output rows, so that results do not depend on the number of threads.
   * NULL: anywhere. */
  int32_t (*row_step)(const gconv_problem *problem);

  /* CUDA; both NULL or neither. acquire() makes the state of a plan on the device besides weights and workspace, such as
   * handles of a library. It is called once for a plan and gets the execution without samples (in and out are NULL); it may
   * enqueue work on the stream. On failure it leaves nothing and has set the last error. dismiss() frees the state. */
  gconv_status (*acquire)(const gconv_execution *execution, void **state);
  void (*dismiss)(void *state);

  /* The algorithm is there to learn from (kernels/cuda/classic). `auto` never takes it. */
  bool classic;

  /* CUDA: samples under taps of -0 (gconv_is_mark()) are left out even if they are not finite. On the CPU, all algorithms
   * leave them out: gconv_store_samples() recomputes sums that are not finite, by the definition. */
  bool leaves_out_marks;

  /* Rounding spreads: outputs that should be 0 may be tiny instead. Such an algorithm is not used for premultiplied images:
   * their colours are divided by alpha, and an alpha of 0 must stay 0. */
  bool spreads;
} gconv_algorithm;

#ifdef __cplusplus
extern "C" {
#endif

#define ALGORITHM(device, name) extern const gconv_algorithm gconv_algorithm_##device##_##name;
#include "kernels/algorithms.def"
#undef ALGORITHM

/* The algorithms of this build in the order of algorithms.def; NULL past the end. */
const gconv_algorithm *gconv_algorithm_row(size_t index);

/* Bounds of rounding errors:
 *   gconv_rounding_bound    a chain of n operations, each rounded once: n * u / (1 - n * u), u = 2^-24 (Higham, Accuracy and
 *                           Stability of Numerical Algorithms, 3.1)
 *   gconv_chain_bound       a chain of fused multiply-adds over the problem's taps
 *   gconv_float64_bound     the sum over these taps in float64, rounded to float32 at the end */
double gconv_rounding_bound(double roundings);
double gconv_chain_bound(const gconv_problem *problem);
double gconv_float64_bound(const gconv_problem *problem);

/* Returns whether the algorithm leaves out places that are no taps. It is also true if the filters have no such places, or
 * if the samples are integers. */
bool gconv_leaves_out_marks(const gconv_algorithm *algorithm, const gconv_problem *problem);

/* Returns NULL: supports() of algorithms that solve any problem. */
const char *gconv_takes_all(const gconv_problem *problem);

/* 2 * N * K * C * R * S * P * Q, kept alpha not counted. */
double gconv_problem_flop(const gconv_problem *problem);

#ifdef __cplusplus
}
#endif
