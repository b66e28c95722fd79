/* SPDX-License-Identifier: MIT */
/*
 * im2col-blas: the matrix of patches, multiplied by OpenBLAS if that is installed.
 *
 *            weights            patches                  sums: the planes of the output
 *          C R S              some pixels                  some pixels
 *      +-----------+      +-----------------+          +-----------------+
 *    K |           |  x   | tap t, pixel i  |    =     | filter k        | K
 *      +-----------+      +-----------------+          +-----------------+
 *
 * This is how frameworks began; it is here for comparison. A task takes as many pixels as have a matrix of 1 MiB. OpenBLAS
 * packs that once more. It adds in an order of its own, so the bound is that of a sum in any order.
 */
#include "base/library.h"
#include "stage.h"

/* cblas.h: by rows, and nothing transposed. */
enum { BY_ROWS = 101, NOT_TRANSPOSED = 111 };
static void (*sgemm)(int order, int transposed_a, int transposed_b, int m, int n, int k, float alpha, const float *a,
                     int lda, const float *b, int ldb, float beta, float *c, int ldc);
static void (*set_threads)(int count);

static const char *const files[] = {"libopenblas.so.0", "libopenblas.so", NULL};
static const gconv_symbol symbols[] = {{"cblas_sgemm", &sgemm}, {"openblas_set_num_threads", &set_threads}, {NULL, NULL}};
static gconv_library library = {files, symbols, "", 0};

static const char *available(void) {
  const char *trouble = gconv_library_load(&library);
  if (!trouble)
    set_threads(1); /* the tasks already use all threads */
  return trouble;
}

enum { PATCH_FLOATS = 256 << 10, LEAST_PIXELS = 32, MOST_PIXELS = 4096, LEAST_TASKS = 8 };

/* Pixels of a task; the last of a plane may have fewer. */
static int64_t task_pixels(const gconv_layer_problem *problem) {
  int64_t plane = (int64_t)problem->out_height * problem->out_width;
  int64_t shared = plane * problem->images * problem->groups / LEAST_TASKS,
          fitting = PATCH_FLOATS / gconv_layer_taps(problem);
  int64_t most = gconv_clamp(fitting < shared ? fitting : shared, LEAST_PIXELS, MOST_PIXELS);
  return gconv_divide_up(plane, gconv_divide_up(plane, most));
}

static int64_t plane_tasks(const gconv_layer_problem *problem) {
  return gconv_divide_up((int64_t)problem->out_height * problem->out_width, task_pixels(problem));
}

static size_t tasks(const gconv_layer_problem *problem) {
  return (size_t)problem->images * (size_t)problem->groups * (size_t)plane_tasks(problem);
}

/* Writes the samples under tap (r, s) of the channel, for pixels first .. first + count - 1. */
static void gather_tap(const gconv_layer_problem *problem, const float *channel, int32_t r, int32_t s, int64_t first,
                       int64_t count, float *to) {
  int64_t p = first / problem->out_width, q = first % problem->out_width;
  for (int64_t i = 0; i < count; p++, q = 0) {
    int64_t y = p * problem->stride_y - problem->pad_top + (int64_t)r * problem->dilation_y;
    int64_t x = q * problem->stride_x - problem->pad_left + (int64_t)s * problem->dilation_x;
    const float *row = channel + (y >= 0 && y < problem->height ? y * problem->width : 0);
    int64_t width = y >= 0 && y < problem->height ? problem->width : 0;
    for (; q < problem->out_width && i < count; q++, i++, x += problem->stride_x)
      to[i] = x >= 0 && x < width ? row[x] : 0;
  }
}

static gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  int64_t plane = (int64_t)problem->out_height * problem->out_width, pixels = task_pixels(problem);
  int64_t image_group = (int64_t)e->task / plane_tasks(problem), group = image_group % problem->groups; /* n * G + g */
  int64_t first = (int64_t)e->task % plane_tasks(problem) * pixels, count = gconv_clamp(plane - first, 0, pixels);
  int64_t channels = problem->channels / problem->groups, filters = problem->filters / problem->groups;
  int64_t taps = gconv_layer_taps(problem);
  float *to = e->workspace;
  for (int64_t c = 0; c < channels; c++)
    for (int32_t r = 0; r < problem->rows; r++)
      for (int32_t s = 0; s < problem->columns; s++, to += count)
        gather_tap(problem, e->in + (image_group * channels + c) * problem->height * problem->width, r, s, first, count, to);
  float *out = e->out + image_group * filters * plane + first;
  sgemm(BY_ROWS, NOT_TRANSPOSED, NOT_TRANSPOSED, (int)filters, (int)count, (int)taps, 1, e->weights + group * filters * taps,
        (int)taps, e->workspace, (int)count, 0, out, (int)plane);
  for (int64_t k = 0; k < filters; k++, out += plane) {
    float bias = gconv_layer_biases(problem, e->weights)[group * filters + k];
    for (int64_t i = 0; i < count; i++)
      out[i] += bias;
    gconv_layer_activate(problem, out, (size_t)count);
  }
  return GCONV_OK;
}

static const char *supports(const gconv_layer_problem *problem) {
  bool fits = gconv_layer_taps(problem) <= INT32_MAX && (int64_t)problem->out_height * problem->out_width <= INT32_MAX;
  const char *obstacle = gconv_layer_takes_fp32(problem);
  return obstacle || fits ? obstacle : "more than 2^31 taps or pixels";
}

static size_t workspace_bytes(const gconv_layer_problem *problem) {
  return (size_t)task_pixels(problem) * (size_t)gconv_layer_taps(problem) * sizeof(float);
}

/* Products run at 0.7 of the peak; a float of a patch takes half a nanosecond. */
static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  double pixels = (double)problem->images * problem->out_height * problem->out_width * problem->groups;
  return gconv_layer_cpu_ms(problem, machine, gconv_layer_flop(problem) / 2 / 0.7,
                            pixels * (double)gconv_layer_taps(problem) * 0.5);
}

/* The bound of a sum of rounded products, added in any order, and the bias. */
static double error_bound(const gconv_layer_problem *problem) {
  return gconv_rounding_bound((double)gconv_layer_taps(problem) + 2);
}

const gconv_layer_algorithm gconv_layer_algorithm_cpu_im2col_blas = {
    .info = {"im2col-blas", "cpu", "patch matrix, multiplied by OpenBLAS; for comparison", false},
    .available = available,
    .supports = supports,
    .tasks = tasks,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .library = true,
};
