/* SPDX-License-Identifier: MIT */
/* Layers on the CPU: the tasks of an algorithm, spread over the threads. */
#include "base/clock.h"
#include "base/control.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "kernels/cpu/layer/softmax.h"
#include "layer/border.h"
#include "layer/input.h"
#include "layer/kind.h"

#include <stdatomic.h>
#include <string.h>

typedef struct cpu_run {
  const gconv_network_plan *network;
  float *input;     /* the input tensor, if the image's pixels are not the tensor; NULL until it is needed */
  float *middle[2]; /* the tensors between layers, in turn, and before combining; NULL: not needed */
  uint8_t *workspace;
  size_t held_bytes; /* of workspaces and of the tensors between layers */
  atomic_size_t input_bytes;
} cpu_run;

static void release(void *memory) {
  cpu_run *run = memory;
  if (!run)
    return;
  gconv_release(run->input);
  gconv_release(run->middle[0]);
  gconv_release(run->middle[1]);
  gconv_release(run->workspace);
  free(run);
}

static gconv_status allocate_floats(size_t count, const char *what, float **floats) {
  void *memory = NULL;
  if (count > 0)
    GCONV_TRY(gconv_allocate(count * sizeof(float), what, &memory));
  *floats = memory;
  return GCONV_OK;
}

/* True if step i writes the network's output; other steps write one of the two tensors in turn. */
static bool is_last(const gconv_network_plan *network, size_t i) {
  return i + 1 == network->count && network->combine == GCONV_COMBINE_NONE;
}

static gconv_status fill_run(cpu_run *run) {
  const gconv_network_plan *network = run->network;
  const gconv_node_work work = gconv_step_work(network, NULL, NULL);
  size_t floats[2] = {0, 0}, bytes = 0;
  for (size_t i = 0, turn = 0; i < network->count; i++, turn = 1 - turn) {
    const gconv_step *step = &network->steps[i];
    const gconv_rolling *rolling = step->rolling;
    i += rolling ? rolling->count - 1 : 0;
    size_t count = is_last(network, i) ? 0 : gconv_step_out_floats(&network->steps[i]) * (size_t)step->images;
    floats[turn] = count > floats[turn] ? count : floats[turn];
    const size_t room = rolling        ? gconv_rolling_bytes(rolling)
                        : step->solver ? gconv_solver_workspace(step->solver, &work)
                                       : 0;
    bytes = room > bytes ? room : bytes;
  }
  GCONV_TRY(allocate_floats(floats[0], "what lies between layers", &run->middle[0]));
  GCONV_TRY(allocate_floats(floats[1], "what lies between layers", &run->middle[1]));
  void *workspace = NULL;
  GCONV_TRY(gconv_allocate_workspace(bytes, "the workspace", &workspace));
  run->workspace = workspace;
  run->held_bytes = gconv_held_bytes(run) + gconv_held_bytes(workspace) + gconv_held_bytes(run->middle[0]) +
                    gconv_held_bytes(run->middle[1]);
  return GCONV_OK;
}

static size_t held_bytes(const void *memory) {
  const cpu_run *run = memory;
  return run->held_bytes + atomic_load(&run->input_bytes);
}

static gconv_status prepare(const gconv_network_plan *network, void **result) {
  cpu_run *run = calloc(1, sizeof *run);
  GCONV_NEED_MEMORY(run, "no memory for a network");
  run->network = network;
  gconv_status status = fill_run(run);
  if (status != GCONV_OK) {
    release(run);
    return status;
  }
  *result = run;
  return GCONV_OK;
}

/* ---- From an image to a tensor ---- */

typedef struct input_job {
  const gconv_input *input;
  const gconv_image *in;
  int64_t first; /* the row of `in` that the tensor begins with; it may lie outside */
  float *to;
} input_job;

/* Makes a table of the normalised levels, so that samples of 8 bits need no division. */
static void normalize_levels(float white, float mean, float std, float levels[256]) {
  for (int v = 0; v < 256; v++)
    levels[v] = gconv_normalize((float)v, white, mean, std);
}

static void normalize_u8(const uint8_t *from, ptrdiff_t step, int32_t width, const float levels[256], float *to) {
  for (int32_t x = 0; x < width; x++)
    to[x] = levels[from[x * step]];
}

GCONV_NORMALIZE_ROW(normalize_u16, uint16_t)
GCONV_NORMALIZE_ROW(normalize_f32, float)

/* Normalises neighbouring floats. Their white is 1, so they are not divided by it. */
GCONV_VECTOR_LOOP(normalize_plain, (const float *restrict from, int32_t width, float mean, float std, float *restrict to),
                  (from, width, mean, std, to)) {
  for (int32_t x = 0; x < width; x++)
    to[x] = (from[x] - mean) / std;
}

/* Makes a plane of the tensor, with zeros in rows that the image does not have. */
static void convert_plane(void *context, size_t turn, int thread) {
  const input_job *job = context;
  const gconv_input *input = job->input;
  size_t n = turn / (size_t)input->channels, c = turn % (size_t)input->channels;
  const bool alpha = input->alphas && n % 2 == 1;
  const size_t channel = (size_t)(alpha ? input->file_channels - 1 : gconv_input_channel(input, (int32_t)c));
  n = input->alphas ? n / 2 : n;
  size_t plane = input->planar ? n * (size_t)input->file_channels + channel : n, first = input->planar ? 0 : channel;
  ptrdiff_t step = input->planar ? 1 : input->file_channels;
  float white = input->white, mean = input->mean ? input->mean[c] : 0, std = input->std ? input->std[c] : 1;
  float levels[256];
  if (input->type == GCONV_U8)
    normalize_levels(white, mean, std, levels);
  float *to = job->to + turn * (size_t)input->rows * (size_t)input->width;
  int32_t begin, end;
  gconv_rows_inside(job->first, input->rows, job->in->height, &begin, &end);
  memset(to, 0, (size_t)begin * (size_t)input->width * sizeof *to);
  memset(to + (size_t)end * (size_t)input->width, 0, (size_t)(input->rows - end) * (size_t)input->width * sizeof *to);
  to += (size_t)begin * (size_t)input->width;
  for (int64_t y = job->first + begin; y < job->first + end; y++, to += input->width) {
    const void *row = (const uint8_t *)job->in->data + plane * job->in->plane_bytes + (size_t)y * job->in->row_bytes;
    if (input->type == GCONV_U8)
      normalize_u8((const uint8_t *)row + first, step, input->width, levels, to);
    else if (input->type == GCONV_F32 && step == 1 && white == 1)
      normalize_plain((const float *)row + first, input->width, mean, std, to);
    else if (input->type == GCONV_U16)
      normalize_u16((const uint16_t *)row + first, step, input->width, white, mean, std, to);
    else
      normalize_f32((const float *)row + first, step, input->width, white, mean, std, to);
  }
}

/* Sets *tensor to the input of the first layer: the image's own pixels, or run->input, made from them. */
static gconv_status make_tensor(cpu_run *run, const gconv_image *in, int64_t in_row, int64_t first, const float **tensor) {
  const gconv_network_plan *network = run->network;
  const gconv_input *input = &network->input;
  *tensor = in->data;
  if (!network->by_rows && gconv_input_is_tensor(input, in))
    return GCONV_OK;
  size_t planes = (size_t)input->images * (size_t)input->channels;
  if (!run->input)
    GCONV_TRY(allocate_floats(planes * (size_t)input->rows * (size_t)input->width, "the input", &run->input));
  atomic_store(&run->input_bytes, planes * (size_t)input->rows * (size_t)input->width * sizeof(float));
  int64_t begin, end;
  gconv_network_input_rows(network, first, &begin, &end);
  input_job job = {input, in, begin - in_row, run->input};
  gconv_threads_run(run->network->base.device->threads, planes, convert_plane, &job);
  *tensor = run->input;
  return GCONV_OK;
}

/* ---- Layers without algorithms, padding, and softmax ---- */

typedef struct plain_job {
  const gconv_layer_work *work;
  gconv_layer_planes planes;
} plain_job;

static void make_plane(void *context, size_t turn, int thread) {
  const plain_job *job = context;
  job->work->forward(&job->planes, turn);
}

/* Rows of a plane of a padded tensor that a thread makes at a time. */
enum { PADDED_ROWS = 32 };

typedef struct padded_planes {
  gconv_padding_job how;
  const float *in;
  float *out;
  size_t parts; /* parts of a plane */
} padded_planes;

static void fill_columns(const gconv_padding_job *how, const float *in, int32_t begin, int32_t end, float *out) {
  for (int32_t x = begin; x < end; x++) {
    int64_t column = gconv_padding_column(how, x);
    out[x] = column == GCONV_OUTSIDE ? how->outside : in[column];
  }
}

static void pad_row(const gconv_padding_job *how, const float *in, float *out) {
  const int32_t begin = -how->first_column < how->columns ? -how->first_column : how->columns;
  const int32_t rest = how->columns - begin, inside = rest < how->width ? rest : how->width;
  fill_columns(how, in, 0, begin, out);
  memcpy(out + begin, in, (size_t)inside * sizeof *out);
  fill_columns(how, in, begin + inside, how->columns, out);
}

static void pad_rows(void *context, size_t turn, int thread) {
  const padded_planes *job = context;
  const gconv_padding_job *how = &job->how;
  const size_t plane = turn / job->parts, width = (size_t)how->columns;
  const int32_t begin = (int32_t)(turn % job->parts) * PADDED_ROWS;
  for (int32_t y = begin; y < how->rows && y < begin + PADDED_ROWS; y++) {
    float *out = job->out + (plane * (size_t)how->rows + (size_t)y) * width;
    int64_t row = gconv_padding_row(how, y);
    if (row != GCONV_OUTSIDE)
      pad_row(how, job->in + (plane * (size_t)how->in_rows + (size_t)row) * (size_t)how->width, out);
    for (size_t x = 0; x < width && row == GCONV_OUTSIDE; x++)
      out[x] = how->outside;
  }
}

/* Pads the input of a layer, for the network's output from row `first` on. */
static void execute_padding(const cpu_run *run, const gconv_step *step, int64_t first, const float *in, float *out) {
  padded_planes job = {gconv_padding_job_of(run->network, step, first), in, out, 0};
  job.parts = (size_t)((job.how.rows - 1) / PADDED_ROWS + 1);
  size_t planes = (size_t)step->images * (size_t)step->problem.channels;
  gconv_threads_run(run->network->base.device->threads, planes * job.parts, pad_rows, &job);
}

/* Executes a layer without an algorithm, for the network's output from row `first` on. */
static void execute_plain(const cpu_run *run, const gconv_step *step, const float *input, int64_t first, const float *in,
                          float *out) {
  plain_job job = {gconv_layer_work_of(step->kind), gconv_step_planes(run->network, step, first, in, input, out)};
  gconv_threads_run(run->network->base.device->threads, (size_t)step->images * (size_t)step->problem.filters, make_plane,
                    &job);
}

/* Pixels that a thread takes through softmax at a time. */
enum { SOFTMAX_PIXELS = 1024 };

typedef struct softmax_job {
  float *tensor;
  int64_t plane;
  int32_t filters;
  size_t parts; /* parts of a plane */
} softmax_job;

static void softmax_part(void *context, size_t turn, int thread) {
  const softmax_job *job = context;
  float *image = job->tensor + (int64_t)(turn / job->parts) * job->filters * job->plane;
  int64_t begin = (int64_t)(turn % job->parts) * SOFTMAX_PIXELS, left = job->plane - begin;
  gconv_softmax_rows(image + begin, job->plane, job->filters, left < SOFTMAX_PIXELS ? left : SOFTMAX_PIXELS);
}

static void execute_softmax(const cpu_run *run, const gconv_step *step, float *tensor) {
  const gconv_layer_problem *problem = &step->problem;
  softmax_job job = {tensor, (int64_t)problem->out_height * problem->out_width, problem->filters, 0};
  job.parts = (size_t)((job.plane - 1) / SOFTMAX_PIXELS + 1);
  gconv_threads_run(run->network->base.device->threads, (size_t)step->images * job.parts, softmax_part, &job);
}

/* Clears the rows outside the layer's whole output, which are padding of the next layer. */
static void clear_outside(const gconv_step *step, int64_t first, float *out) {
  const gconv_layer_problem *problem = &step->problem;
  int64_t at = first * step->out_band.scale - step->out_band.shift;
  const size_t lanes = problem->out_blocks ? GCONV_BLOCK : 1, row = (size_t)problem->out_width * lanes;
  const size_t rows = (size_t)problem->out_height;
  int32_t begin, end;
  gconv_rows_inside(at, problem->out_height, step->whole.out_height, &begin, &end);
  const size_t planes = (size_t)gconv_layer_image_floats(problem->filters, step->images, problem->out_blocks) / lanes;
  for (size_t i = 0; i < planes; i++, out += rows * row) {
    memset(out, 0, (size_t)begin * row * sizeof *out);
    memset(out + (size_t)end * row, 0, (rows - (size_t)end) * row * sizeof *out);
  }
}

/* ---- Combining ---- */

enum { COMBINED_PIXELS = 1024 }; /* pixels that a thread combines at a time */

typedef struct combine_job {
  const gconv_network_plan *network;
  const float *in;
  float *out;
  size_t parts; /* parts of a plane */
} combine_job;

static void combine_part(void *context, size_t turn, int thread) {
  const combine_job *job = context;
  const gconv_network_plan *network = job->network;
  int64_t plane = (int64_t)network->out.height * network->out.width, number = (int64_t)(turn / job->parts);
  int64_t begin = (int64_t)(turn % job->parts) * COMBINED_PIXELS, end = begin + COMBINED_PIXELS;
  const float *in = job->in + number * network->combined * plane;
  float *out = job->out + number * plane;
  for (int64_t i = begin; i < end && i < plane; i++)
    out[i] = gconv_combine_values(network->combine, in + i, network->combined, plane, network->filters);
}

/* ---- All ---- */

static gconv_status execute_tensor(const cpu_run *run, const float *tensor, int64_t first, float *out) {
  const gconv_network_plan *network = run->network;
  const float *input = tensor;
  const gconv_node_work work = gconv_step_work(network, run->workspace, NULL);
  for (size_t i = 0, turn = 0; i < network->count; i++, turn = 1 - turn) {
    const gconv_step *step = &network->steps[i];
    const gconv_rolling *rolling = step->rolling;
    i += rolling ? rolling->count - 1 : 0;
    float *to = is_last(network, i) ? out : run->middle[turn];
    GCONV_TRY(gconv_control_step("running a network", (double)i / (double)network->count));
    if (rolling)
      GCONV_TRY(gconv_rolling_run(rolling, step->images, tensor, to, network->base.device->threads, run->workspace));
    else if (step->graph)
      GCONV_TRY(gconv_graph_step_execute(step, first, tensor, to, NULL));
    else if (step->pads)
      execute_padding(run, step, first, tensor, to);
    else if (step->solver)
      GCONV_TRY(gconv_solver_run(step->solver, &work, tensor, to, run->workspace));
    else
      execute_plain(run, step, input, first, tensor, to);
    if (network->steps[i].softmax)
      execute_softmax(run, &network->steps[i], to);
    if (network->by_rows && i + 1 < network->count)
      clear_outside(&network->steps[i], first, to);
    tensor = to;
  }
  if (network->combine != GCONV_COMBINE_NONE && !network->measures) {
    size_t planes = (size_t)network->out.frames * (size_t)network->out.channels;
    size_t plane = (size_t)network->out.height * (size_t)network->out.width;
    combine_job job = {network, tensor, out, (plane - 1) / COMBINED_PIXELS + 1};
    gconv_threads_run(network->base.device->threads, planes * job.parts, combine_part, &job);
  }
  return GCONV_OK;
}

static gconv_status execute(void *memory, const gconv_image *in, bool there, int64_t in_row, int64_t first,
                            const gconv_image *out, gconv_timings *timings) {
  cpu_run *run = memory;
  const float *tensor;
  double start = gconv_now_ms();
  GCONV_TRY(make_tensor(run, in, in_row, first, &tensor));
  double made = gconv_now_ms();
  GCONV_TRY(execute_tensor(run, tensor, first, out->data));
  timings->prepare_ms += made - start;
  timings->kernel_ms += gconv_now_ms() - made;
  return GCONV_OK;
}

static gconv_status measure(void *memory, const gconv_image *in, const gconv_image *out, bool warm, int runs,
                            double *milliseconds) {
  (void)warm; /* buffers are not rotated */
  cpu_run *run = memory;
  const float *tensor;
  GCONV_TRY(make_tensor(run, in, 0, 0, &tensor));
  for (int i = -1; i < runs; i++) { /* the first warms up */
    double start = gconv_now_ms();
    GCONV_TRY(execute_tensor(run, tensor, 0, out->data));
    if (i >= 0)
      milliseconds[i] = gconv_now_ms() - start;
  }
  return GCONV_OK;
}

const gconv_network_type gconv_network_type_cpu = {
    .prepare = prepare, .execute = execute, .measure = measure, .release = release, .held_bytes = held_bytes};
