/* SPDX-License-Identifier: MIT */
/* The functions of plans: they check arguments and allocate outputs, for all operations. */
#include "base/arguments.h"
#include "base/memory.h"
#include "base/nodata.h"
#include "base/status.h"
#include "operation/operation.h"

#include <math.h>

/* ---- What a plan is for ---- */

size_t gconv_plan_outputs(const gconv_plan *plan) {
  return plan ? plan->output_count : 0;
}

const gconv_image *gconv_plan_output_header(const gconv_plan *plan, size_t output) {
  return plan && output < plan->output_count ? &plan->outputs[output] : NULL;
}

const gconv_plan_info *gconv_plan_get_info(const gconv_plan *plan) {
  return plan ? &plan->info : NULL;
}

const gconv_layer_info *gconv_plan_layer_info(const gconv_plan *plan, size_t layer) {
  return plan && plan->type->layer_info ? plan->type->layer_info(plan, layer) : NULL;
}

bool gconv_plan_fits(const gconv_plan *plan, const gconv_image *like) {
  return plan && like && gconv_image_alike(&plan->like, like);
}

size_t gconv_plan_png_bytes(const gconv_plan *plan) {
  return plan->type->png_bytes ? plan->type->png_bytes(plan) : 0;
}

void gconv_plan_describe(gconv_plan *plan, const char *algorithm, const char *math) {
  const gconv_image *like = &plan->like, *out = plan->outputs;
  plan->info = (gconv_plan_info){.device = gconv_device_get_info(plan->device)->name,
                                 .algorithm = algorithm,
                                 .math = math,
                                 .exact = true,
                                 .frames = like->frames,
                                 .channels = like->channels,
                                 .height = like->height,
                                 .width = like->width,
                                 .filters = out->channels,
                                 .rows = 1,
                                 .columns = 1,
                                 .out_height = out->height,
                                 .out_width = out->width,
                                 .out_channels = out->channels,
                                 .input_type = like->type,
                                 .output_type = out->type,
                                 .bytes = gconv_pixel_bytes(like) + gconv_pixel_bytes(out)};
}

/* ---- Checks ---- */

gconv_status gconv_plan_fit_image(const gconv_image *header, const char *what, gconv_image *image) {
  if (image->data) {
    if (!gconv_image_same_shape(header, image))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s has pixels of another shape or type than the plan yields", what);
    image->has_nodata = header->has_nodata;
    image->nodata = header->nodata;
    return gconv_check_pixels(image, what);
  }
  gconv_image fresh = *header;
  GCONV_TRY(gconv_image_allocate(&fresh));
  gconv_image_free(image); /* frees its metadata, if it has any */
  *image = fresh;
  return GCONV_OK;
}

static gconv_status check_pixels(const gconv_plan *plan, const gconv_image *in) {
  if (!gconv_plan_fits(plan, in) || !in->data)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the image has another shape, type or number of no data than the plan was made for, or no pixels");
  return gconv_check_pixels(in, "the image");
}

static gconv_status check_count(const gconv_plan *plan, size_t count) {
  return count == plan->output_count
             ? GCONV_OK
             : gconv_fail(GCONV_BAD_ARGUMENT,
                          "output_count is %zu, and the plan yields %zu: give an array of as many (gconv_plan_outputs())",
                          count, plan->output_count);
}

gconv_status gconv_plan_check_outputs(const gconv_plan *plan, const gconv_image *in, const gconv_image *images,
                                      size_t count) {
  GCONV_TRY(check_count(plan, count));
  for (size_t i = 0; i < count; i++) {
    char what[32], other[32];
    snprintf(what, sizeof what, "output %zu", i + 1);
    GCONV_TRY(gconv_check_apart(&images[i], what, in, "the input"));
    for (size_t j = 0; j < i; j++) {
      snprintf(other, sizeof other, "output %zu", j + 1);
      GCONV_TRY(gconv_check_apart(&images[i], what, &images[j], other));
    }
  }
  return GCONV_OK;
}

static gconv_status unsupported(const gconv_plan *plan, const char *what) {
  return gconv_fail(GCONV_UNSUPPORTED, "%s on %s cannot %s", plan->operation->type->name, plan->info.device, what);
}

/* ---- Outputs that a call may have to allocate ---- */

typedef struct outputs {
  const gconv_plan *plan;
  gconv_image *images; /* the caller's */
  bool *fresh;         /* [output_count]: begin_outputs() allocated the image */
} outputs;

/* If `status` is a failure, frees the images that begin_outputs() allocated. */
static gconv_status end_outputs(outputs *o, gconv_status status) {
  for (size_t i = 0; i < o->plan->output_count && status != GCONV_OK; i++)
    if (o->fresh[i])
      gconv_image_free(&o->images[i]);
  free(o->fresh);
  return status;
}

static gconv_status begin_outputs(const gconv_plan *plan, gconv_image *images, outputs *o) {
  *o = (outputs){plan, images, calloc(plan->output_count, sizeof *o->fresh)};
  GCONV_NEED_MEMORY(o->fresh, "no memory for %zu outputs", plan->output_count);
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < plan->output_count && status == GCONV_OK; i++) {
    char what[32];
    snprintf(what, sizeof what, "output %zu", i + 1);
    bool empty = !images[i].data;
    status = gconv_plan_fit_image(&plan->outputs[i], what, &images[i]);
    o->fresh[i] = empty && status == GCONV_OK;
  }
  return status == GCONV_OK ? GCONV_OK : end_outputs(o, status);
}

/* ---- What outputs cannot show ---- */

gconv_look gconv_plan_look(const gconv_plan *plan) {
  gconv_look look = {.colours = plan->bleeds};
  for (size_t i = 0; i < plan->output_count; i++)
    look.numbers |= plan->like.type == GCONV_F32 && plan->outputs[i].type != GCONV_F32;
  return look;
}

/* Returns whether executions of the plan must warn of samples that are not finite. If a caller watches the plan
 * (gconv_plan_watch()), the caller warns. */
static bool tells_of_numbers(const gconv_plan *plan) {
  const gconv_plan *last = plan;
  while (last->last)
    last = last->last;
  return !last->losses && gconv_log_is_heard() && gconv_plan_look(plan).numbers;
}

void gconv_plan_tell_of_numbers(const gconv_plan *plan, const gconv_image *in) {
  gconv_look look = {.numbers = true};
  if (!tells_of_numbers(plan))
    return;
  gconv_look_at(&look, in, 0, gconv_device_threads(plan->device));
  gconv_look_warn_of_numbers(&look, NULL);
}

/* Does gconv_plan_tell_of_numbers() for rows that a caller gives one after the other, from the top. */
static void tell_of_rows(gconv_plan *plan, const gconv_image *window, int32_t window_row) {
  int32_t end = window_row + window->height;
  if (window_row == 0 && end <= plan->looked)
    plan->looked = 0;
  if (plan->looked == 0)
    plan->look = (gconv_look){.numbers = true};
  if (end <= plan->looked || !tells_of_numbers(plan))
    return;
  gconv_look_at(&plan->look, window, plan->looked > window_row ? plan->looked - window_row : 0,
                gconv_device_threads(plan->device));
  plan->looked = end;
  if (end == plan->like.height)
    gconv_look_warn_of_numbers(&plan->look, NULL);
}

/* ---- Execution ---- */

static gconv_status execute(gconv_plan *plan, const gconv_plan_input *input, gconv_image *images, gconv_timings *timings) {
  gconv_timings local = {0};
  gconv_plan *own;
  outputs o;
  GCONV_TRY(gconv_plan_enter(plan, false, &own));
  gconv_status status = begin_outputs(plan, images, &o);
  GCONV_THEN(status, end_outputs(&o, own->type->execute(own, input, images, &local)));
  gconv_plan_leave(plan, own);
  if (timings)
    *timings = local;
  return status;
}

gconv_status gconv_plan_execute(const gconv_plan *shared, const gconv_image *in, gconv_image *images, size_t output_count,
                                gconv_timings *timings) {
  gconv_plan *plan = (gconv_plan *)shared; /* executions only change members that its lock guards */
  GCONV_NEED(plan, in);
  GCONV_NEED_AS(images, "outputs");
  GCONV_TRY(check_pixels(plan, in));
  for (size_t i = 0; i < output_count && i < plan->output_count; i++)
    if (images[i].data)
      GCONV_TRY(gconv_plan_fit_image(&plan->outputs[i], "an output", &images[i]));
  GCONV_TRY(gconv_plan_check_outputs(plan, in, images, output_count));
  GCONV_TRY(execute(plan, &(gconv_plan_input){.image = in}, images, timings));
  gconv_plan_tell_of_numbers(plan, in);
  return GCONV_OK;
}

static gconv_status check_jpeg(const gconv_plan *plan, const gconv_image *header) {
  if (!gconv_plan_fits(plan, header))
    return gconv_fail(GCONV_BAD_ARGUMENT, "the image has another shape or type than the plan was made for");
  return plan->type->check_jpeg ? plan->type->check_jpeg(plan, header) : unsupported(plan, "take a JPEG file as it is");
}

gconv_status gconv_plan_execute_jpeg(gconv_plan *plan, const void *jpeg, size_t size, const gconv_image *header,
                                     gconv_image *images, gconv_timings *timings) {
  GCONV_TRY(check_jpeg(plan, header));
  return execute(plan, &(gconv_plan_input){header, jpeg, size}, images, timings);
}

gconv_status gconv_plan_execute_parts(gconv_plan *plan, const gconv_image *in, const void *jpeg, size_t size,
                                      const gconv_taker *taker, gconv_timings *timings) {
  gconv_timings local = {0};
  GCONV_TRY(jpeg ? check_jpeg(plan, in) : check_pixels(plan, in));
  if (!plan->type->execute_parts)
    return unsupported(plan, "yield its results in parts");
  GCONV_TRY(plan->type->check_parts(plan));
  gconv_status status = plan->type->execute_parts(plan, &(gconv_plan_input){in, jpeg, size}, taker, &local);
  if (timings)
    *timings = local;
  return status;
}

static gconv_status measure(gconv_plan *plan, const gconv_image *in, gconv_image *images, int runs, double *milliseconds) {
  if (plan->type->measure)
    return plan->type->measure(plan, in, images, runs, milliseconds);
  for (int run = -1; run < runs; run++) {
    gconv_timings timings = {0};
    GCONV_TRY(plan->type->execute(plan, &(gconv_plan_input){.image = in}, images, &timings));
    if (run >= 0)
      milliseconds[run] = timings.kernel_ms;
  }
  return GCONV_OK;
}

gconv_status gconv_plan_measure(gconv_plan *plan, const gconv_image *in, gconv_image *images, int runs,
                                double *milliseconds) {
  outputs o;
  GCONV_TRY(check_pixels(plan, in));
  if (runs < 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%d runs cannot be measured: ask for at least 1", runs);
  GCONV_FREED gconv_image *own = images ? NULL : calloc(plan->output_count, sizeof *own);
  if (!images && !own)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu outputs", plan->output_count);
  gconv_status status = begin_outputs(plan, images ? images : own, &o);
  GCONV_THEN(status, end_outputs(&o, measure(plan, in, o.images, runs, milliseconds)));
  for (size_t i = 0; own && i < plan->output_count; i++)
    gconv_image_free(&own[i]);
  return status;
}

/* ---- By rows ---- */

int32_t gconv_plan_row_step(const gconv_plan *plan) {
  if (plan && plan->type->row_step)
    return plan->type->row_step(plan);
  return !plan || !plan->inner || gconv_plan_passes(plan->inner) > 1 ? 0 : gconv_plan_row_step(plan->inner);
}

/* Finds the rows that the wrapped operation needs, extended to the output rows: these are combined with the same input rows.
 */
static void find_rows(const gconv_plan *inner, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  gconv_plan_rows_needed(inner, first, count, begin, end);
  *begin = *begin < first ? *begin : first;
  *end = *end > first + count ? *end : first + count;
}

void gconv_plan_rows_needed(const gconv_plan *plan, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  if (begin)
    *begin = 0;
  if (end)
    *end = 0;
  if (!plan || !begin || !end || first < 0 || count <= 0 || count > INT32_MAX - first)
    return;
  if (plan->type->rows_needed)
    plan->type->rows_needed(plan, first, count, begin, end);
  else
    find_rows(plan->inner, first, count, begin, end);
}

/* Returns whether `part` has pixels like the rows of `whole`. */
static bool is_part(const gconv_image *part, const gconv_image *whole) {
  return part->data && part->type == whole->type && part->frames == whole->frames && part->width == whole->width &&
         part->channels == whole->channels && part->planar == whole->planar && part->height >= 1 &&
         part->height <= whole->height;
}

static gconv_status check_window(const gconv_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                                 int32_t count) {
  int32_t begin, end;
  if (is_part(window, &plan->like))
    GCONV_TRY(gconv_check_pixels(window, "the window"));
  if (!is_part(window, &plan->like) || window_row < 0 || window_row > plan->like.height - window->height)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the window is not a part of an image that the plan was made for");
  gconv_plan_rows_needed(plan, first, count, &begin, &end);
  if (begin < window_row || end > window_row + window->height)
    return gconv_fail(GCONV_BAD_ARGUMENT, "rows %d to %d are needed, the window has %d to %d", begin, end - 1, window_row,
                      window_row + window->height - 1);
  return GCONV_OK;
}

static gconv_status check_strip(const gconv_plan *plan, int32_t first, int32_t count) {
  const gconv_plan_pass *pass = &plan->pass;
  int32_t step = gconv_plan_row_step(plan);
  if (pass->end == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "the outputs take several passes over the input: pictures that are stretched, and "
                                         "mosaics, are made of whole images");
  if (first < pass->first || (first - pass->first) % step != 0 || first > pass->end - count)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a strip of %d rows at row %d: they begin at multiples of %d", count, first, step);
  return GCONV_OK;
}

/* Executes a strip of a pass that surveys. */
static gconv_status survey_rows(gconv_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                                gconv_timings *timings) {
  int32_t step = gconv_plan_row_step(plan), left = plan->pass.end - first;
  gconv_image strip = {.height = left < step ? left : step};
  GCONV_TRY(check_strip(plan, first, strip.height));
  GCONV_TRY(check_window(plan, window, window_row, first, strip.height));
  return plan->type->execute_rows(plan, window, window_row, first, &strip, timings);
}

static gconv_status make_rows(gconv_plan *plan, const gconv_image *window, int32_t window_row, int32_t first,
                              gconv_image *images, size_t count, gconv_timings *timings) {
  gconv_plan *own;
  GCONV_TRY(check_count(plan, count));
  int32_t height = images[0].height;
  for (size_t i = 0; i < plan->output_count; i++) {
    bool out = plan->type->leaves_out && !images[i].data && images[i].height == height;
    if (!out && (!is_part(&images[i], &plan->outputs[i]) || images[i].height != height))
      return gconv_fail(GCONV_BAD_ARGUMENT, "output %zu is not a part of what the plan yields", i + 1);
    if (!out)
      GCONV_TRY(gconv_check_pixels(&images[i], "an output"));
  }
  GCONV_TRY(check_strip(plan, first, height));
  GCONV_TRY(check_window(plan, window, window_row, first, height));
  GCONV_TRY(gconv_plan_check_outputs(plan, window, images, count));
  GCONV_TRY(gconv_plan_enter(plan, false, &own));
  gconv_status status = own->type->execute_rows(own, window, window_row, first, images, timings);
  if (status == GCONV_OK)
    tell_of_rows(own, window, window_row);
  gconv_plan_leave(plan, own);
  return status;
}

gconv_status gconv_plan_execute_rows(const gconv_plan *shared, const gconv_input_rows *window, int32_t first,
                                     gconv_image *images, size_t output_count, gconv_timings *timings) {
  gconv_plan *plan = (gconv_plan *)shared; /* executions only change members that its lock guards */
  gconv_timings local = {0};
  GCONV_NEED(plan, window);
  GCONV_NEED_AS(window->image, "window->image");
  if (!plan->pass.surveys) /* a survey has no outputs */
    GCONV_NEED_AS(images, "outputs");
  timings = timings ? timings : &local;
  if (gconv_plan_row_step(plan) == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "this plan needs the whole image");
  return plan->pass.surveys ? survey_rows(plan, window->image, window->first, first, timings)
                            : make_rows(plan, window->image, window->first, first, images, output_count, timings);
}

gconv_status gconv_plan_begin_pass(gconv_plan *plan, size_t number, gconv_plan_pass *pass) {
  if (number >= gconv_plan_passes(plan))
    return gconv_fail(GCONV_BAD_ARGUMENT, "pass %zu of a plan that makes %zu", number + 1, gconv_plan_passes(plan));
  if (plan->type->begin_pass)
    GCONV_TRY(plan->type->begin_pass(plan, number));
  *pass = plan->pass;
  return GCONV_OK;
}

/* ---- Explanation and verification ---- */

gconv_status gconv_plan_explain(const gconv_plan *plan, char **result) {
  char *memory = NULL;
  size_t size = 0;
  GCONV_NEED(plan);
  GCONV_NEED_AS(result, "text");
  FILE *text = open_memstream(&memory, &size);
  GCONV_NEED_MEMORY(text, "no memory for an explanation");
  plan->type->explain(plan, text);
  GCONV_NEED_MEMORY(gconv_close_text(text, &memory), "no memory for an explanation");
  *result = memory;
  return GCONV_OK;
}

gconv_status gconv_plan_hold(gconv_plan *plan, const gconv_image *in, const gconv_image *images, double tolerance,
                             double budget, gconv_verification *result) {
  if (!plan->type->verify)
    return gconv_fail(GCONV_UNSUPPORTED, "the results of %s cannot be verified: leave out --verify",
                      plan->operation->type->name);
  return plan->type->verify(plan, in, images, tolerance, budget, result);
}

static gconv_status verify(gconv_plan *plan, const gconv_image *in, const gconv_image *images, double tolerance,
                           double budget, gconv_verification *result) {
  *result = (gconv_verification){0};
  GCONV_TRY(check_pixels(plan, in));
  for (size_t i = 0; i < plan->output_count; i++)
    if (!images[i].data || !gconv_image_same_shape(&plan->outputs[i], &images[i]))
      return gconv_fail(GCONV_BAD_ARGUMENT, "the outputs to verify do not belong to this plan");
    else
      GCONV_TRY(gconv_check_pixels(&images[i], "an output"));
  gconv_plan *own;
  GCONV_TRY(gconv_plan_enter(plan, false, &own));
  gconv_status status = gconv_plan_hold(own, in, images, tolerance, budget, result);
  gconv_plan_leave(plan, own);
  GCONV_TRY(status);
  if (result->max_error > result->allowed)
    return gconv_fail(GCONV_MISMATCH,
                      "output %zu, frame %d, row %d, column %d, channel %d is %.9g, but float64 gives %.9g: the difference "
                      "%.3g is over the %.3g allowed",
                      result->output, result->frame + 1, result->y, result->x, result->channel, result->got,
                      result->expected, result->max_error, result->allowed);
  return GCONV_OK;
}

gconv_status gconv_plan_verify(const gconv_plan *shared, const gconv_image *in, const gconv_image *images,
                               size_t output_count, double tolerance, gconv_verification *result) {
  gconv_plan *plan = (gconv_plan *)shared; /* executions only change members that its lock guards */
  GCONV_NEED(plan, in);
  GCONV_NEED_AS(images, "outputs");
  GCONV_NEED(result);
  if (isnan(tolerance))
    return gconv_fail(GCONV_BAD_ARGUMENT, "the tolerance is not a number");
  GCONV_TRY(check_count(plan, output_count));
  return verify(plan, in, images, tolerance, INFINITY, result);
}

gconv_status gconv_plan_spot_check(gconv_plan *plan, const gconv_image *in, const gconv_image *images, double budget,
                                   gconv_verification *result) {
  return verify(plan, in, images, -1, budget, result);
}
