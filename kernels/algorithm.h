/* SPDX-License-Identifier: MIT */
/* What an algorithm is: a descriptor in one file of kernels/, and a row in algorithms.def. */
#pragma once

#include "kernels/problem.h"

/* Where the output of filter k begins, or what is combined of all, and the distances within it, in bytes. */
typedef struct gconv_target {
  uint8_t *base;
  int64_t image, plane, row;
} gconv_target;

/* One call of an algorithm: where the samples are. Addresses are of the device's memory; distances are in bytes. On CUDA,
 * rows of input and output begin at multiples of 16 bytes, but for stacked channels of interleaved outputs. */
typedef struct gconv_execution {
  const gconv_problem *problem;
  const float *weights;      /* taps, divisors, biases, and what prepare() wrote (problem.h) */
  const float *host_weights; /* the same in host memory, to be passed to a kernel by value */

  /* Input sample (n, m, y, x, c): in + n * in_image + m * in_plane + y * in_row, element x * channels + c. */
  const uint8_t *in;
  int64_t in_image, in_plane, in_row;

  /* Output sample (k, n, m, p, q, c): out[k].base + n * out[k].image + m * out[k].plane + p * out[k].row + q * out_pixel +
   * c * out_channel; k = 0 alone where responses are combined. Alpha that is kept is at out_alpha instead of c *
   * out_channel, and is written once a filter, or only for k = 0 if stacked. The array is in host memory; on CUDA the bases
   * lie at equal distances, and the rest is the same for all k. */
  const gconv_target *out;
  int64_t out_pixel, out_channel, out_alpha;

  void *state;     /* what acquire() made; NULL without one */
  void *workspace; /* workspace_bytes() of it, aligned to 64 bytes; on the CPU each thread has its own */

  /* CPU: the rows first_row .. end_row - 1 of image `image`, plane `plane`. CUDA: everything, on the stream. */
  int32_t image, plane, first_row, end_row;
  bool exact;   /* CPU: the algorithm is of the exact family */
  void *stream; /* cudaStream_t */
} gconv_execution;

typedef struct gconv_algorithm {
  gconv_algorithm_info info;

  /* NULL: always there. Else loads the library that the algorithm is made of, and returns NULL, or why that cannot be:
   * "libcufft.so.12 was not found". Thread-safe; the answer stays the same. */
  const char *(*available)(void);

  /* NULL if the algorithm can solve the problem, else why not: "filters larger than 32 x 32". */
  const char *(*supports)(const gconv_problem *problem);

  /* On the CPU: of each thread. May be NULL: none. */
  size_t (*workspace_bytes)(const gconv_problem *problem);

  /* Called only after supports() said yes; allocates nothing. */
  gconv_status (*execute)(const gconv_execution *execution);

  /* An estimate in milliseconds of one execution on `machine`, for `auto`. */
  double (*cost)(const gconv_problem *problem, const gconv_machine *machine);

  /* May be NULL. Else the algorithm that execute() leaves the problem to, or NULL if none: what was measured of that one
   * corrects the estimate. */
  const struct gconv_algorithm *(*leaves_to)(const gconv_problem *problem);

  /* The largest |error| of a response, relative to (sum |tap|) * max |x|. Floats below FLT_MIN have fewer bits: there, a
   * response may be off by its last bits besides, and may be lost if rounding spreads (`spreads`). */
  double (*error_bound)(const gconv_problem *problem);

  /* Both NULL for algorithms that take the taps as they are. Else how many floats the algorithm wants after the weights,
   * and what writes them, once, on the host, from taps[k][r][s]; only after supports() said yes. prepare alone may be NULL:
   * then acquire() writes them, on the device. */
  size_t (*prepared_floats)(const gconv_problem *problem);
  gconv_status (*prepare)(const gconv_problem *problem, const float *taps, float *prepared);

  /* CPU: executions begin at multiples of this many output rows, so that results do not depend on the number of threads.
   * NULL: anywhere. */
  int32_t (*row_step)(const gconv_problem *problem);

  /* CUDA; both NULL or neither: what a plan keeps on the device besides weights and workspace, such as the handles and plans
   * of a library. acquire() is called once for a plan and gets the execution without samples (in and out are NULL); it may
   * enqueue work on the stream. On failure it leaves nothing and has set the last error. dismiss() frees the state. */
  gconv_status (*acquire)(const gconv_execution *execution, void **state);
  void (*dismiss)(void *state);

  /* The algorithm is there to learn from (kernels/cuda/classic). `auto` never takes it. */
  bool classic;

  /* CUDA: samples under taps of -0 (gconv_is_mark()) are left out even if they are not finite. On the CPU they always are:
   * gconv_store_samples() makes sums anew that are not finite. */
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

/* The bound of a chain of n operations, each rounded once: n * u / (1 - n * u), u = 2^-24 (Higham, Accuracy and Stability of
 * Numerical Algorithms, 3.1); that of a chain of the problem's taps, as fused multiply-adds; and that of their sum in
 * float64, which is rounded once at the end. */
double gconv_rounding_bound(double roundings);
double gconv_chain_bound(const gconv_problem *problem);
double gconv_float64_bound(const gconv_problem *problem);

/* Whether the algorithm leaves out places that are no taps, or needs not: there are none, or all samples are finite. */
bool gconv_leaves_out_marks(const gconv_algorithm *algorithm, const gconv_problem *problem);

/* 2 * N * K * C * R * S * P * Q, kept alpha not counted. */
double gconv_problem_flop(const gconv_problem *problem);

#ifdef __cplusplus
}
#endif
