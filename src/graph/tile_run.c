/* SPDX-License-Identifier: MIT */
/* Runs images in tiles, and measures the moments of the whole image that nodes need. */
#include "base/control.h"
#include "graph/gpu.h"
#include "graph/solve.h"
#include "graph/tile.h"
#include "kernels/cuda/graph/graph.h"

#include <string.h>

/* ---- Rows of the image that a band needs ---- */

/* Returns which of `size` pixels place `at` of the padded line shows: reflected, or the last one if `size` is too small. */
static int64_t reflect(int64_t at, int64_t size) {
  const int64_t mirrored = 2 * (size - 1) - at;
  return at < size ? at : mirrored >= 0 ? mirrored : size - 1;
}

static void find_rows(const gconv_graph_tiles *t, const gconv_tile *y, int64_t *begin, int64_t *end) {
  const int64_t height = t->cut.in[0], stop = y->at + t->size[0];
  *begin = reflect(y->at, height);
  *end = stop < height ? stop : height;
  if (stop > height && reflect(stop - 1, height) < *begin)
    *begin = reflect(stop - 1, height);
}

void gconv_graph_tiles_rows(const gconv_graph_tiles *t, int64_t first, int64_t *begin, int64_t *end) {
  find_rows(t, &t->tiles[0][first / t->cut.rows], begin, end);
}

int64_t gconv_graph_tiles_most_rows(const gconv_graph_tiles *t) {
  int64_t most = 1, begin, end;
  for (int64_t i = 0; i < t->count[0]; i++) {
    find_rows(t, &t->tiles[0][i], &begin, &end);
    most = end - begin > most ? end - begin : most;
  }
  return most;
}

/* ---- Measuring ---- */

size_t gconv_graph_tiles_measurings(const gconv_graph_tiles *t) {
  return t->measurings;
}

/* Returns what is measured before a step; NULL: nothing. */
static const gconv_measured *measured_for(const gconv_graph_tiles *t, size_t step) {
  for (size_t i = 0; i < t->measured_count; i++)
    if (t->measured[i].step == step)
      return &t->measured[i];
  return NULL;
}

/* Finds the steps that make what a pass measures. */
static void find_steps(const gconv_graph_tiles *t, size_t pass) {
  const gconv_graph_plan *p = t->plan;
  memset(t->wanted, 0, p->graph->value_count * sizeof *t->wanted);
  for (size_t i = p->step_count; i-- > 0;) {
    const gconv_graph_step *s = &p->steps[i];
    const gconv_measured *m = measured_for(t, i);
    t->runs[i] = false;
    for (int32_t k = 0; k < s->work.out_count; k++)
      t->runs[i] = t->runs[i] || (s->out[k] >= 0 && t->wanted[s->out[k]]);
    for (int32_t k = 0; k < s->work.in_count && t->runs[i]; k++)
      if (s->in[k] >= 0)
        t->wanted[s->in[k]] = true;
    if (t->runs[i] && s->added >= 0)
      t->wanted[s->added] = true;
    if (m && m->pass == pass)
      t->wanted[m->value] = true;
  }
}

/* Estimates the milliseconds of a step. */
static double step_cost(const gconv_graph_step *s) {
  static const double EACH_MS = 1e-6; /* of an element */
  const bool solved = s->work.prepared && gconv_solver_solves(s->node->kind);
  return solved                       ? ((const gconv_solver *)s->work.prepared)->choice.estimate_ms
         : !s->view && s->work.out[0] ? EACH_MS * (double)gconv_tensor_elements(s->work.out[0])
                                      : 0;
}

double gconv_graph_tiles_work(const gconv_graph_tiles *t, size_t passes) {
  double all = 0, measured = 0;
  for (size_t i = 0; i < t->plan->step_count; i++)
    all += step_cost(&t->plan->steps[i]);
  for (size_t pass = 0; pass < passes; pass++) {
    find_steps(t, pass);
    for (size_t i = 0; i < t->plan->step_count; i++)
      measured += t->runs[i] ? step_cost(&t->plan->steps[i]) : 0;
  }
  return all > 0 ? measured / all : 0;
}

void gconv_graph_tiles_begin(gconv_graph_tiles *t, size_t pass) {
  t->pass = pass < t->measurings ? pass : t->measurings;
  for (size_t i = 0; i < t->measured_count; i++)
    if (t->measured[i].pass == pass)
      memset(t->measured[i].moments, 0,
             (size_t)t->cut.images * (size_t)t->measured[i].channels * sizeof *t->measured[i].moments);
  if (t->pass < t->measurings)
    find_steps(t, t->pass);
}

/* Gives the steps the moments of an image that earlier passes have measured. */
static void give_moments(gconv_graph_tiles *t, int32_t image) {
  for (size_t i = 0; i < t->measured_count; i++)
    t->plan->steps[t->measured[i].step].work.moments = t->measured[i].moments + image * t->measured[i].channels;
}

/* Measures the part of a value that belongs to this tile. */
static void measure(const gconv_graph_tiles *t, const gconv_measured *m, const int64_t tile[GCONV_TILE_AXES],
                    int32_t image) {
  int64_t begin[GCONV_TILE_AXES], end[GCONV_TILE_AXES];
  for (int32_t axis = 0; axis < GCONV_TILE_AXES; axis++) {
    const int64_t i = tile[axis], at = t->tiles[axis][i].at / t->down[axis][m->value] * t->up[axis][m->value];
    begin[axis] = (i > 0 ? m->ends[axis][i - 1] : 0) - at;
    end[axis] = m->ends[axis][i] - at;
  }
  gconv_plane_moments_add(&t->plan->tensors[m->value], begin, end, t->plan->options.device->threads,
                          m->moments + image * m->channels);
}

/* Runs the steps that a pass needs, and measures their results. */
static gconv_status measure_tile(const gconv_graph_tiles *t, const int64_t tile[GCONV_TILE_AXES], int32_t image) {
  for (size_t i = 0; i < t->plan->step_count; i++) {
    GCONV_TRY(gconv_control_step("running a network", (double)i / (double)t->plan->step_count));
    const gconv_measured *m = measured_for(t, i);
    if (m && m->pass == t->pass)
      measure(t, m, tile, image);
    if (t->runs[i])
      GCONV_TRY(gconv_graph_plan_run_step(t->plan, i));
  }
  return GCONV_OK;
}

/* ---- Runs ---- */

/* Fills the input of a plan from rows of the image, from row `top` and column `left` of the padded image on. */
static gconv_status put_input(const gconv_graph_plan *plan, const gconv_graph_cut *cut, const gconv_graph_rows *rows,
                              int64_t top, int64_t left, void *stream) {
  const gconv_tensor *input = gconv_graph_plan_input(plan, 0);
  const int64_t channels = input->shape[1], height = input->shape[2], width = input->shape[3], all = cut->in[1];
  const int64_t there = all - left < width ? (all > left ? all - left : 0) : width;
  if (stream) {
    const gconv_gpu_put job = {.from = rows->data,
                               .first = rows->first,
                               .from_rows = rows->rows,
                               .all_height = cut->in[0],
                               .all_width = all,
                               .to = input->there,
                               .channels = channels,
                               .height = height,
                               .width = width,
                               .top = top,
                               .left = left};
    return gconv_gpu_put_run(&job, stream);
  }
  for (int64_t c = 0, at = 0; c < channels; c++)
    for (int64_t y = 0; y < height; y++, at += width) {
      const float *row = rows->data + (c * rows->rows + reflect(top + y, cut->in[0]) - rows->first) * all;
      if (input->type == GCONV_TENSOR_F64) {
        for (int64_t x = 0; x < width; x++)
          ((double *)input->data)[at + x] = (double)row[reflect(left + x, all)];
        continue;
      }
      float *to = (float *)input->data + at;
      memcpy(to, row + left, (size_t)there * sizeof *to);
      for (int64_t x = there; x < width; x++)
        to[x] = row[reflect(left + x, all)];
    }
  return GCONV_OK;
}

/* Runs a plan: on a GPU, in a stream. */
static gconv_status run_plan(gconv_graph_plan *plan, void *stream) {
  return stream ? gconv_graph_gpu_run(plan, stream) : gconv_graph_plan_run(plan);
}

/* Copies a rectangle of numbers of any type as float32. Sets the job's source: from element `at` of a tensor on. */
static gconv_status copy_numbers(const gconv_tensor *from, int64_t at, gconv_gpu_take job, void *stream) {
  job.type = from->type;
  job.from = (const char *)(stream ? from->there : from->data) + at * (int64_t)gconv_tensor_type_bytes(from->type);
  if (stream)
    return gconv_gpu_take_run(&job, stream);
  switch (from->type) {
#define COPY(name, NUMBER, number)                                                                                          \
  case GCONV_TENSOR_##name:                                                                                                 \
    for (int64_t c = 0; c < job.planes; c++)                                                                                \
      for (int64_t y = 0; y < job.height; y++)                                                                              \
        for (int64_t x = 0; x < job.width; x++)                                                                             \
          job.to[c * job.to_plane + y * job.to_width + x] =                                                                 \
              (float)((const NUMBER *)job.from)[c * job.from_plane + y * job.from_width + x];                               \
    break;
    GCONV_EACH_TENSOR_TYPE(COPY)
  }
  return GCONV_OK;
}

static gconv_status run_tile(gconv_graph_tiles *t, const int64_t tile[GCONV_TILE_AXES], const gconv_graph_rows *in,
                             const gconv_graph_rows *out, void *stream) {
  const gconv_tile *y = &t->tiles[0][tile[0]], *x = &t->tiles[1][tile[1]];
  const gconv_tensor *output = gconv_graph_plan_output(t->plan, 0);
  const int64_t made_width = output->shape[3], all = t->cut.out[1];
  const int64_t top = y->core.begin - y->at / t->scale_down[0] * t->scale_up[0];
  const int64_t left = x->core.begin - x->at / t->scale_down[1] * t->scale_up[1];
  const int64_t height = y->core.end - y->core.begin, width = x->core.end - x->core.begin;
  GCONV_TRY(put_input(t->plan, &t->cut, in, y->at, x->at, stream));
  if (t->pass < t->measurings)
    return measure_tile(t, tile, in->image);
  GCONV_TRY(run_plan(t->plan, stream));
  if (top < 0 || left < 0 || top + height > output->shape[2] || left + width > made_width)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: a tile does not have its result", t->plan->graph->path);
  const gconv_gpu_take job = {.from_width = made_width,
                              .from_plane = output->shape[2] * made_width,
                              .to_width = all,
                              .to_plane = out->rows * all,
                              .planes = t->filters,
                              .height = height,
                              .width = width,
                              .to = out->data + (y->core.begin - out->first) * all + x->core.begin};
  return copy_numbers(output, top * made_width + left, job, stream);
}

gconv_status gconv_graph_tiles_run(gconv_graph_tiles *t, const gconv_graph_rows *in, const gconv_graph_rows *out,
                                   void *stream) {
  give_moments(t, in->image);
  for (int64_t y = 0; y < t->count[0]; y++) {
    const gconv_tile *row = &t->tiles[0][y];
    const bool wanted = row->core.begin >= out->first && row->core.begin < out->first + out->rows;
    for (int64_t x = 0; x < t->count[1] && wanted; x++)
      GCONV_TRY(run_tile(t, (int64_t[]){y, x}, in, out, stream));
  }
  return GCONV_OK;
}

gconv_status gconv_graph_copy_output(const gconv_graph_plan *plan, size_t number, const int64_t kept[2], float *out,
                                     void *stream) {
  const gconv_tensor *output = gconv_graph_plan_output(plan, number);
  const bool image = output->axes >= 3; /* rows and columns are the last axes */
  const int64_t height = image ? output->shape[output->axes - 2] : 1, width = image ? output->shape[output->axes - 1] : 1;
  const int64_t rows = image ? kept[0] : 1, columns = image ? kept[1] : 1;
  const gconv_gpu_take job = {.from_width = width,
                              .from_plane = height * width,
                              .to_width = columns,
                              .to_plane = rows * columns,
                              .planes = gconv_tensor_elements(output) / (height * width),
                              .height = rows,
                              .width = columns,
                              .to = out};
  return copy_numbers(output, 0, job, stream);
}

/* Returns whether a tensor has the layout of an image of this size in memory of the host. */
static bool is_image(const gconv_tensor *t, const int64_t size[2]) {
  return t->type == GCONV_TENSOR_F32 && t->axes == 4 && t->shape[2] == size[0] && t->shape[3] == size[1];
}

gconv_status gconv_graph_run_whole(gconv_graph_plan *plan, const gconv_graph_cut *cut, const float *in, float *out,
                                   void *stream) {
  const gconv_graph_rows rows = {(float *)in, 0, cut->in[0], 0};
  const int32_t input = plan->graph->inputs[0], output = plan->graph->outputs[0];
  const bool alone = plan->graph->output_count == 1; /* further outputs, one of which may be the input, are read later */
  gconv_status status = GCONV_OK;
  if (!alone || !is_image(&plan->tensors[input], cut->in) || !gconv_graph_plan_lend(plan, input, in))
    status = put_input(plan, cut, &rows, 0, 0, stream);
  const bool lent = alone && is_image(&plan->tensors[output], cut->out) && gconv_graph_plan_lend(plan, output, out);
  GCONV_THEN(status, run_plan(plan, stream));
  if (!lent)
    GCONV_THEN(status, gconv_graph_copy_output(plan, 0, cut->out, out, stream));
  gconv_graph_plan_take_back(plan);
  return status;
}
