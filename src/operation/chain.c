/* SPDX-License-Identifier: MIT */
/*
 * A chain: operations that are applied one after the other, as one operation. The results of a stage are the input of the
 * next. Between stages, images are whole in memory. By rows, each stage makes only the rows that the last stage's strip
 * needs. A stage whose results are large (gconv_operation_type.strip) is never made as a whole: the chain goes by strips of
 * its own.
 */
#include "base/arguments.h"
#include "base/memory.h"
#include "base/status.h"
#include "operation/operation.h"

#include <math.h>
#include <string.h>

enum { PART_PIXELS = 8192 }; /* pixels of results that the last stage makes at a time */

typedef struct chain {
  gconv_operation base;
  gconv_operation **stages; /* [count]: the chain is one of their users */
  size_t count;
} chain;

typedef struct chain_plan {
  gconv_plan base;
  gconv_plan **stages;   /* [count] */
  gconv_image *between;  /* [count - 1]: the stages' results; without pixels until an execution needs them */
  gconv_plan_pass *rows; /* [count]: the rows of a strip that each stage makes */
  size_t count;
  int32_t strip; /* rows that are made at a time, even if the whole image is in memory; 0: all rows at once */
  int32_t part;  /* with a strip: rows that the last stage makes at a time, so few that they fit into the CPU's caches */
  bool there;    /* on a GPU: results between the stages stay in its memory */
} chain_plan;

/* ---- The operation --------------------------------------------------------------------------------------------------- */

static void free_chain(gconv_operation *base) {
  chain *c = (chain *)base;
  for (size_t i = 0; i < c->count; i++)
    gconv_operation_free(c->stages[i]);
  free(c->stages);
  free(c);
}

static const gconv_operation *last_stage(const gconv_operation *base) {
  const chain *c = (const chain *)base;
  return c->stages[c->count - 1];
}

static size_t count_outputs(const gconv_operation *base) {
  return gconv_operation_outputs(last_stage(base));
}

static double sum_held_bytes(const gconv_operation *base) {
  const chain *c = (const chain *)base;
  double bytes = 0;
  for (size_t i = 0; i < c->count; i++)
    bytes += gconv_operation_held_bytes(c->stages[i]);
  return bytes;
}

static const char *lacks(const gconv_operation *base, const char *device) {
  const chain *c = (const chain *)base;
  const char *name = NULL;
  for (size_t i = 0; i < c->count && !name; i++)
    name = gconv_operation_lacks(c->stages[i], device);
  return name;
}

static gconv_status keep_exact(const gconv_operation *base, gconv_operation **exact) {
  const chain *c = (const chain *)base;
  GCONV_FREED gconv_operation **stages = calloc(c->count, sizeof *stages);
  gconv_status status = stages ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for an operation");
  bool all = true;
  for (size_t i = 0; i < c->count && all && status == GCONV_OK; i++) {
    status = gconv_operation_keep_exact(c->stages[i], &stages[i]);
    all = stages[i] != NULL;
  }
  if (all)
    GCONV_THEN(status, gconv_operation_chain(stages, c->count, exact));
  for (size_t i = 0; i < c->count && stages; i++)
    gconv_operation_free(stages[i]);
  return status;
}

static int host_stages(const gconv_operation *base) {
  const gconv_operation *first = ((const chain *)base)->stages[0];
  int of_first = first->type->host_stages ? first->type->host_stages(first) : GCONV_HOST_BEFORE;
  return (of_first & GCONV_HOST_BEFORE) | GCONV_HOST_AFTER;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

static int32_t row_step(const gconv_plan *base) {
  const chain_plan *plan = (const chain_plan *)base;
  for (size_t i = 0; i < plan->count; i++)
    if (gconv_plan_row_step(plan->stages[i]) == 0 || gconv_plan_passes(plan->stages[i]) > 1)
      return 0;
  return plan->strip > 0 ? plan->strip : gconv_plan_row_step(plan->stages[plan->count - 1]);
}

static const char *rows_obstacle(const gconv_plan *base) {
  return row_step(base) > 0 ? NULL : "a stage of the chain needs the whole image, as border wrap and some networks do";
}

/* Finds the rows that the last stage needs. With a strip, these are the rows for all of its parts. */
static void rows_of_last(const chain_plan *plan, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  const gconv_plan *last = plan->stages[plan->count - 1];
  int32_t part = plan->strip > 0 && count > plan->part ? plan->part : count, at = (count - 1) / part * part, unused;
  gconv_plan_rows_needed(last, first, part, begin, end);
  if (at > 0)
    gconv_plan_rows_needed(last, first + at, count - at, &unused, end);
}

/* Sets plan->rows for a strip of the last stage. Each earlier stage makes the rows that the next stage needs. It begins at
 * the first of these rows, or at a row above where its own strips may begin. */
static void find_rows(const chain_plan *plan, int32_t first, int32_t count) {
  plan->rows[plan->count - 1] = (gconv_plan_pass){.first = first, .end = first + count};
  for (size_t i = plan->count - 1; i > 0; i--) {
    const gconv_plan_pass *next = &plan->rows[i];
    int32_t begin, end;
    if (i + 1 == plan->count)
      rows_of_last(plan, next->first, next->end - next->first, &begin, &end);
    else
      gconv_plan_rows_needed(plan->stages[i], next->first, next->end - next->first, &begin, &end);
    plan->rows[i - 1] = (gconv_plan_pass){.first = begin - begin % gconv_plan_row_step(plan->stages[i - 1]), .end = end};
  }
}

static void rows_needed(const gconv_plan *base, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  const chain_plan *plan = (const chain_plan *)base;
  int32_t strip = plan->strip > 0 && count > plan->strip ? plan->strip : count, last = (count - 1) / strip * strip, unused;
  find_rows(plan, first, strip);
  gconv_plan_rows_needed(plan->stages[0], plan->rows[0].first, plan->rows[0].end - plan->rows[0].first, begin, end);
  if (last == 0)
    return;
  find_rows(plan, first + last, count - last);
  gconv_plan_rows_needed(plan->stages[0], plan->rows[0].first, plan->rows[0].end - plan->rows[0].first, &unused, end);
}

/* Returns a view of at most `count` rows of an image, from row `first` on. */
static gconv_image rows_of(const gconv_image *image, int32_t first, int32_t count) {
  gconv_image rows = *image;
  rows.data = (uint8_t *)image->data + (size_t)first * image->row_bytes;
  rows.height = image->height - first < count ? image->height - first : count;
  return rows;
}

/* Does what execute_strip() does, but results between the stages stay on the GPU. */
static gconv_status execute_there(const chain_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                                  gconv_image *outputs, gconv_timings *timings) {
  gconv_image in = *window, out = {0}; /* the stages own the pixels */
  for (size_t i = 0; i + 1 < plan->count; i++) {
    const gconv_plan_pass *rows = &plan->rows[i];
    gconv_plan *stage = plan->stages[i];
    GCONV_TRY(
        stage->type->make_rows_there(stage, &in, i > 0, window_row, rows->first, rows->end - rows->first, &out, timings));
    in = out;
    window_row = rows->first;
  }
  gconv_plan *last = plan->stages[plan->count - 1];
  return last->type->execute_rows_there(last, &in, window_row, first, outputs, timings);
}

/* Executes a plan for output rows from `first` on, `step` at a time. */
static gconv_status execute_by(gconv_plan *plan, int32_t step, const gconv_image *window, int32_t window_row, int32_t first,
                               gconv_image *outputs, gconv_timings *timings) {
  const int32_t height = outputs[0].height;
  GCONV_FREED gconv_image *parts = calloc(plan->output_count, sizeof *parts);
  GCONV_NEED_MEMORY(parts, "no memory for a chain");
  for (int32_t row = 0; row < height; row += step) {
    for (size_t i = 0; i < plan->output_count; i++)
      parts[i] = rows_of(&outputs[i], row, step);
    GCONV_TRY(plan->type->execute_rows(plan, window, window_row, first + row, parts, timings));
  }
  return GCONV_OK;
}

/* Makes room for rows of stage i's results. Reuses the room of the last strip, because the system would have to clear new
 * pages. */
static gconv_status make_room(const chain_plan *plan, size_t i, int32_t height, gconv_image *out) {
  gconv_image *room = &plan->between[i];
  if (!room->data || room->height < height) {
    gconv_image_free(room);
    *room = gconv_header_of(&plan->stages[i]->outputs[0]);
    room->height = height;
    GCONV_TRY(gconv_image_allocate(room));
  }
  *out = *room;
  out->height = height;
  return GCONV_OK;
}

static gconv_status execute_strip(gconv_plan *base, const gconv_image *window, int32_t window_row, int32_t first,
                                  gconv_image *outputs, gconv_timings *timings) {
  const chain_plan *plan = (const chain_plan *)base;
  gconv_image in = *window, out = {0}; /* plan->between owns the pixels */
  gconv_status status = GCONV_OK;
  find_rows(plan, first, outputs[0].height);
  if (plan->there)
    return execute_there(plan, window, window_row, first, outputs, timings);
  for (size_t i = 0; i + 1 < plan->count && status == GCONV_OK; i++) {
    const gconv_plan_pass *rows = &plan->rows[i];
    status = make_room(plan, i, rows->end - rows->first, &out);
    GCONV_THEN(status, gconv_plan_execute_rows(plan->stages[i], &(gconv_input_rows){&in, window_row}, rows->first, &out, 1,
                                               timings));
    in = out;
    window_row = rows->first;
  }
  gconv_plan *last = plan->stages[plan->count - 1];
  GCONV_THEN(status, plan->strip > 0 ? execute_by(last, plan->part, &in, window_row, first, outputs, timings)
                                     : gconv_plan_execute_rows(last, &(gconv_input_rows){&in, window_row}, first, outputs,
                                                               gconv_plan_outputs(last), timings));
  return status;
}

static gconv_status execute_rows(gconv_plan *base, const gconv_image *window, int32_t window_row, int32_t first,
                                 gconv_image *outputs, gconv_timings *timings) {
  const chain_plan *plan = (const chain_plan *)base;
  if (plan->strip > 0 && outputs[0].height > plan->strip)
    return execute_by(base, plan->strip, window, window_row, first, outputs, timings);
  return execute_strip(base, window, window_row, first, outputs, timings);
}

/* ---- Whole images ---------------------------------------------------------------------------------------------------- */

static const gconv_image *input_of(const chain_plan *plan, size_t stage, const gconv_image *in) {
  return stage == 0 ? in : &plan->between[stage - 1];
}

/* Executes all stages but the last. */
static gconv_status execute_before(const chain_plan *plan, const gconv_plan_input *in, gconv_timings *timings) {
  for (size_t i = 0; i + 1 < plan->count; i++) {
    gconv_plan *stage = plan->stages[i];
    const gconv_plan_input before = {.image = input_of(plan, i, in->image)};
    gconv_image *room = &plan->between[i];
    if (room->data && room->height != stage->outputs[0].height) /* it was allocated for a strip */
      gconv_image_free(room);
    if (!room->data)
      *room = gconv_header_of(&stage->outputs[0]);
    GCONV_TRY(gconv_plan_fit_image(&stage->outputs[0], "output 1", room));
    GCONV_TRY(stage->type->execute(stage, i == 0 ? in : &before, &plan->between[i], timings));
  }
  return GCONV_OK;
}

static gconv_status execute(gconv_plan *base, const gconv_plan_input *in, gconv_image *outputs, gconv_timings *timings) {
  const chain_plan *plan = (const chain_plan *)base;
  gconv_plan *last = plan->stages[plan->count - 1];
  const gconv_plan_input before = {.image = input_of(plan, plan->count - 1, in->image)};
  if (plan->strip > 0)
    return execute_rows(base, in->image, 0, 0, outputs, timings);
  GCONV_TRY(execute_before(plan, in, timings));
  return last->type->execute(last, plan->count == 1 ? in : &before, outputs, timings);
}

static gconv_status check_jpeg(const gconv_plan *base, const gconv_image *header) {
  const chain_plan *plan = (const chain_plan *)base;
  const gconv_plan *first = plan->stages[0];
  if (plan->strip > 0)
    return gconv_fail(GCONV_UNSUPPORTED, "this chain goes by strips of an image, whose pixels it needs on the host");
  return first->type->check_jpeg ? first->type->check_jpeg(first, header)
                                 : gconv_fail(GCONV_UNSUPPORTED, "the first operation cannot take a JPEG file as it is");
}

static size_t held_bytes(const gconv_plan *base) {
  const chain_plan *plan = (const chain_plan *)base;
  size_t bytes = 0;
  for (size_t i = 0; i < plan->count; i++)
    bytes += gconv_plan_held_bytes(plan->stages[i]);
  for (size_t i = 0; i + 1 < plan->count && plan->strip == 0 && !plan->there; i++)
    bytes += (size_t)gconv_pixel_bytes(&plan->stages[i]->outputs[0]);
  return bytes;
}

static gconv_status measure_strips(gconv_plan *base, const gconv_image *in, gconv_image *outputs, int runs,
                                   double *milliseconds) {
  for (int run = -1; run < runs; run++) {
    gconv_timings times = {0};
    GCONV_TRY(execute_rows(base, in, 0, 0, outputs, &times));
    if (run >= 0)
      milliseconds[run] = times.kernel_ms + times.finish_ms;
  }
  return GCONV_OK;
}

static gconv_status measure(gconv_plan *base, const gconv_image *in, gconv_image *outputs, int runs, double *milliseconds) {
  const chain_plan *plan = (const chain_plan *)base;
  if (plan->strip > 0)
    return measure_strips(base, in, outputs, runs, milliseconds);
  gconv_timings times = {0};
  GCONV_FREED double *ms = calloc((size_t)runs, sizeof *ms);
  GCONV_NEED_MEMORY(ms, "no memory for %d runs", runs);
  GCONV_TRY(execute_before(plan, &(gconv_plan_input){.image = in}, &times));
  for (int run = 0; run < runs; run++)
    milliseconds[run] = 0;
  for (size_t i = 0; i < plan->count; i++) {
    gconv_image *results = i + 1 < plan->count ? NULL : outputs;
    GCONV_TRY(gconv_plan_measure(plan->stages[i], input_of(plan, i, in), results, runs, ms));
    for (int run = 0; run < runs; run++)
      milliseconds[run] += ms[run];
  }
  return GCONV_OK;
}

/* ---- Verification and explanation ------------------------------------------------------------------------------------- */

static void explain(const gconv_plan *base, FILE *text) {
  const chain_plan *plan = (const chain_plan *)base;
  for (size_t i = 0; i < plan->count; i++) {
    fprintf(text, "stage %zu of %zu\n", i + 1, plan->count);
    plan->stages[i]->type->explain(plan->stages[i], text);
  }
}

/* Compares each stage with float64, from the stage's own input, so that no bound has to be carried from stage to stage. */
static gconv_status verify(gconv_plan *base, const gconv_image *in, const gconv_image *outputs, double tolerance,
                           double budget, gconv_verification *result) {
  const chain_plan *plan = (const chain_plan *)base;
  gconv_timings times = {0};
  uint64_t compared = 0;
  if (plan->strip > 0)
    return gconv_fail(GCONV_UNSUPPORTED, "this chain cannot be verified, because the images between its stages are never "
                                         "whole in memory: leave out --verify");
  GCONV_TRY(execute_before(plan, &(gconv_plan_input){.image = in}, &times));
  for (size_t i = 0; i < plan->count; i++) {
    gconv_verification one = {0};
    gconv_plan *stage = plan->stages[i];
    const gconv_image *results = i + 1 < plan->count ? &plan->between[i] : outputs;
    GCONV_TRY(gconv_plan_hold(stage, input_of(plan, i, in), results, tolerance, budget, &one));
    compared += one.compared;
    if (i == 0 || (result->max_error == 0 && one.max_error > 0) || /* both products are 0 if no error is allowed */
        one.max_error * result->allowed > result->max_error * one.allowed)
      *result = one;
  }
  result->compared = compared;
  return GCONV_OK;
}

static void find_need(const gconv_plan *base, gconv_need *need) {
  const chain_plan *plan = (const chain_plan *)base;
  bool by_rows = row_step(base) > 0;
  if (by_rows)
    find_rows(plan, 0, plan->strip > 0 ? plan->strip : 1);
  for (size_t i = 0; i < plan->count; i++) {
    const gconv_plan *stage = plan->stages[i];
    bool last = i + 1 == plan->count;
    gconv_need one = {0};
    stage->type->find_need(stage, &one);
    double height = stage->outputs[0].height, row = last ? 0 : gconv_pixel_bytes(&stage->outputs[0]) / height;
    double scale = height / plan->stages[plan->count - 1]->outputs[0].height;
    if (plan->strip > 0) { /* the chain always makes strips of this height */
      need->fixed += one.fixed + one.rows + (row + one.row) * (last ? plan->part : plan->rows[i].end - plan->rows[i].first);
      continue;
    }
    need->fixed += one.fixed;
    need->image += one.image + row * height;
    need->verify += one.verify;
    need->rows += one.rows + (by_rows ? (row + one.row) * (plan->rows[i].end - plan->rows[i].first) : 0);
    need->row += scale * (row + one.row);
  }
}

/* ---- The plan -------------------------------------------------------------------------------------------------------- */

static void free_plan(gconv_plan *base) {
  chain_plan *plan = (chain_plan *)base;
  for (size_t i = 0; i < plan->count && plan->stages; i++)
    gconv_plan_free(plan->stages[i]);
  for (size_t i = 0; i + 1 < plan->count && plan->between; i++)
    gconv_image_free(&plan->between[i]);
  free(plan->stages);
  free(plan->between);
  free(plan->rows);
  free(plan);
}

static void fill_info(chain_plan *plan) {
  const gconv_plan *first = plan->stages[0], *last = plan->stages[plan->count - 1];
  gconv_plan_info *info = &plan->base.info;
  *info = first->info;
  info->out_height = last->info.out_height;
  info->out_width = last->info.out_width;
  info->out_channels = last->info.out_channels;
  info->filters = last->info.filters;
  info->output_type = last->info.output_type;
  for (size_t i = 1; i < plan->count; i++) {
    const gconv_plan_info *stage = &plan->stages[i]->info;
    if (stage->algorithm != info->algorithm)
      info->algorithm = "several";
    info->exact = info->exact && stage->exact;
    info->rows = stage->rows > info->rows ? stage->rows : info->rows;
    info->columns = stage->columns > info->columns ? stage->columns : info->columns;
    info->flop += stage->flop;
    info->bytes += stage->bytes;
    info->workspace_bytes = stage->workspace_bytes > info->workspace_bytes ? stage->workspace_bytes : info->workspace_bytes;
    info->error_bound = fmax(info->error_bound, stage->error_bound);
    info->estimate_ms += stage->estimate_ms;
  }
}

static gconv_status make_stages(const gconv_plan_order *order, const chain *c, chain_plan *plan) {
  gconv_plan_order next = *order;
  const bool gpu = strcmp(gconv_device_get_info(order->device)->name, "cpu") != 0;
  plan->stages = calloc(c->count, sizeof *plan->stages);
  plan->between = calloc(c->count, sizeof *plan->between);
  plan->rows = calloc(c->count, sizeof *plan->rows);
  GCONV_NEED_MEMORY(plan->stages && plan->between && plan->rows, "no memory for a plan");
  next.rows = 0;
  for (size_t i = 0; i + 1 < c->count && order->like->frames == 1; i++)
    if (c->stages[i]->type->strip) {
      const int32_t rows = c->stages[i]->type->strip(c->stages[i], order);
      next.rows = rows > next.rows ? rows : next.rows;
    }
  plan->strip = next.rows;
  for (; plan->count < c->count; plan->count++) {
    if (plan->count + 1 == c->count && plan->strip > 0) {
      for (plan->part = plan->strip; !gpu && plan->part > 2 && (int64_t)plan->part * next.like->width > PART_PIXELS;)
        plan->part /= 2;
      next.rows = plan->part;
    }
    GCONV_TRY(gconv_plan_make(&next, c->stages[plan->count], &plan->stages[plan->count]));
    plan->between[plan->count] = gconv_header_of(&plan->stages[plan->count]->outputs[0]);
    next.like = &plan->between[plan->count];
  }
  if (row_step(&plan->base) == 0)
    plan->strip = 0;
  plan->there = gpu && plan->strip > 0 && plan->stages[plan->count - 1]->type->execute_rows_there;
  for (size_t i = 0; i + 1 < plan->count; i++)
    plan->there = plan->there && plan->stages[i]->type->make_rows_there;
  gconv_plan_pass pass; /* each stage has only one: see row_step() */
  for (size_t i = 0; i < plan->count && plan->strip > 0 && order->extent == GCONV_PLAN_WHOLE; i++)
    GCONV_TRY(gconv_plan_begin_pass(plan->stages[i], 0, &pass));
  for (size_t i = 0; i < plan->count; i++)
    plan->base.bleeds |= plan->stages[i]->bleeds;
  gconv_plan *last = plan->stages[plan->count - 1];
  plan->base.last = last;
  plan->base.output_count = last->output_count;
  GCONV_NEW(plan->base.outputs, last->output_count, "no memory for a plan");
  memcpy(plan->base.outputs, last->outputs, last->output_count * sizeof *last->outputs);
  return GCONV_OK;
}

static const gconv_plan_type chain_plan_type = {.bytes = sizeof(chain_plan),
                                                .free = free_plan,
                                                .execute = execute,
                                                .row_step = row_step,
                                                .rows_needed = rows_needed,
                                                .execute_rows = execute_rows,
                                                .check_jpeg = check_jpeg,
                                                .held_bytes = held_bytes,
                                                .rows_obstacle = rows_obstacle,
                                                .measure = measure,
                                                .explain = explain,
                                                .verify = verify,
                                                .find_need = find_need};

static gconv_status fill_plan(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *base) {
  chain_plan *plan = (chain_plan *)base;
  GCONV_TRY(make_stages(order, (const chain *)operation, plan));
  fill_info(plan);
  return GCONV_OK;
}

static const gconv_operation_type chain_type = {.name = "chains",
                                                .free = free_chain,
                                                .outputs = count_outputs,
                                                .held_bytes = sum_held_bytes,
                                                .plan_type = &chain_plan_type,
                                                .minds_nodata = true,
                                                .fill_plan = fill_plan,
                                                .lacks = lacks,
                                                .keep_exact = keep_exact,
                                                .host_stages = host_stages};

static gconv_status check(gconv_operation *const *stages, size_t count) {
  if (count == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a chain of no operations");
  for (size_t i = 0; i < count; i++)
    if (!stages[i])
      return gconv_fail(GCONV_BAD_ARGUMENT, "operation %zu of a chain is NULL", i + 1);
  for (size_t i = 0; i + 1 < count; i++)
    if (gconv_operation_outputs(stages[i]) != 1)
      return gconv_fail(GCONV_BAD_ARGUMENT, "operation %zu of a chain makes %zu images of one, and the next one takes one",
                        i + 1, gconv_operation_outputs(stages[i]));
  return GCONV_OK;
}

gconv_status gconv_operation_chain(gconv_operation *const *stages, size_t count, gconv_operation **result) {
  GCONV_NEED(stages);
  GCONV_NEED_AS(result, "operation");
  GCONV_TRY(check(stages, count));
  GCONV_FREED chain *c = calloc(1, sizeof *c);
  gconv_operation **copies = c ? calloc(count, sizeof *copies) : NULL;
  GCONV_NEED_MEMORY(copies, "no memory for a chain of %zu operations", count);
  for (size_t i = 0; i < count; i++)
    copies[i] = gconv_operation_share(stages[i]);
  *c = (chain){{&chain_type, 1, NULL}, copies, count};
  *result = gconv_taken(&c);
  return GCONV_OK;
}
