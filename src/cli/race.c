/* SPDX-License-Identifier: MIT */
/*
 * The race of all algorithms. Those of the exact family must give the same bits. The others may differ from them by no more
 * than both bounds together; and some rows of each result (all of them with --verify) are held to float64 besides.
 */
#include "cli/race.h"
#include "batch/pipeline.h"
#include "cli/bench.h"
#include "cli/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double CHECK_BUDGET = 2e8;

typedef struct race_state {
  const gconv_race *race;
  gconv_device *device;
  gconv_image image;
  gconv_options options; /* with the type of the results */
  size_t outputs;
  gconv_image *exact; /* the results of the first exact algorithm; NULL before */
  double exact_allowed;
  const char *fastest;
  double fastest_ms;
  bool finite; /* the image: no infinities, no NaN */
  bool wrong;
} race_state;

/* ---- Agreement ---- */

static double sample(const gconv_image *image, size_t index) {
  if (image->type == GCONV_U8)
    return ((const uint8_t *)image->data)[index];
  if (image->type == GCONV_U16)
    return ((const uint16_t *)image->data)[index];
  return (double)((const float *)image->data)[index];
}

/* Both were allocated alike, without gaps. */
static size_t sample_count(const gconv_image *image) {
  return (size_t)image->frames * (size_t)image->height * (size_t)image->width * (size_t)image->channels;
}

/* The largest difference of two results; infinite if only one is not a number. */
static double difference(const gconv_image *a, const gconv_image *b, size_t count) {
  double largest = 0;
  for (size_t k = 0; k < count; k++)
    for (size_t i = 0; i < sample_count(&a[k]); i++) {
      double x = sample(&a[k], i), y = sample(&b[k], i);
      if (isnan(x) != isnan(y))
        return HUGE_VAL;
      if (x != y && !isnan(x)) /* equal infinities are no difference */
        largest = fmax(largest, fabs(x - y));
    }
  return largest;
}

static bool is_finite(const gconv_image *image) {
  if (image->type == GCONV_F32)
    for (size_t i = 0; i < sample_count(image); i++)
      if (!isfinite(sample(image, i)))
        return false;
  return true;
}

static bool same_bits(const gconv_image *a, const gconv_image *b, size_t count) {
  for (size_t k = 0; k < count; k++)
    if (memcmp(a[k].data, b[k].data, sample_count(&a[k]) * gconv_type_bytes(a[k].type)) != 0)
      return false;
  return true;
}

/* Says in `text` how the results stand to the exact ones; false if they are wrong. */
static bool agrees(const race_state *state, const gconv_plan_info *info, const gconv_image *outputs,
                   const gconv_verification *found, char *text, size_t size) {
  if (!state->exact || (!state->finite && !info->exact)) { /* infinities may spread over tiles: float64 is the judge */
    snprintf(text, size, info->exact ? "exact" : "off float64 by %.3g of %.3g", found->max_error, found->allowed);
    return true;
  }
  if (same_bits(state->exact, outputs, state->outputs)) {
    snprintf(text, size, "equal");
    return true;
  }
  /* The bounds of rows that were not looked at may be larger, where the responses are. */
  double largest = difference(state->exact, outputs, state->outputs);
  double limit = 2 * (found->most_allowed + state->exact_allowed);
  snprintf(text, size, "differs by at most %.3g of %.3g", largest, limit);
  return !info->exact && largest <= limit;
}

/* ---- One algorithm ---- */

static gconv_status check(const race_state *state, gconv_plan *plan, const gconv_image *outputs, gconv_verification *found) {
  return state->race->verify ? gconv_plan_verify(plan, &state->image, outputs, -1, found)
                             : gconv_plan_spot_check(plan, &state->image, outputs, CHECK_BUDGET, found);
}

static void print_row(const race_state *state, const char *name, const char *text) {
  fprintf(state->race->out, "%-14s %s\n", name, text);
  fflush(state->race->out);
}

static void take_result(race_state *state, const gconv_plan_info *info, double ms, const gconv_verification *found,
                        gconv_image *outputs) {
  char verdict[128], text[256];
  bool right = agrees(state, info, outputs, found, verdict, sizeof verdict);
  double samples = (double)sample_count(&outputs[0]) * (double)state->outputs;
  snprintf(text, sizeof text, "%10.4f %10.3f  %s%s", ms, samples / ms * 1e-6, verdict, right ? "" : ": WRONG");
  print_row(state, info->algorithm, text);
  state->wrong |= !right;
  if (right && (!state->fastest || ms < state->fastest_ms)) {
    state->fastest = info->algorithm;
    state->fastest_ms = ms;
  }
}

static void free_images(gconv_image *images, size_t count) {
  for (size_t i = 0; images && i < count; i++)
    gconv_image_free(&images[i]);
  free(images);
}

/* An algorithm that cannot be used is told of, and is no failure. */
static gconv_status run_plan(race_state *state, gconv_plan *plan) {
  const gconv_plan_info *info = gconv_plan_get_info(plan);
  gconv_verification found = {0};
  double ms = 0;
  state->outputs = gconv_plan_outputs(plan);
  gconv_image *outputs = calloc(state->outputs, sizeof *outputs);
  gconv_status status = outputs ? gconv_bench_time(plan, &state->image, outputs, GCONV_RACE_RUNS, &ms)
                                : gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  if (status == GCONV_OK)
    status = check(state, plan, outputs, &found);
  if (status == GCONV_OK)
    take_result(state, info, ms, &found, outputs);
  if (status == GCONV_OK && info->exact && !state->exact) {
    state->exact = outputs;
    state->exact_allowed = found.most_allowed;
    return GCONV_OK;
  }
  free_images(outputs, state->outputs);
  return status;
}

bool gconv_race_is_hopeless(double ms) {
  const double longest_ms = 3000;
  return ms * (1 + gconv_bench_affordable_runs(ms, GCONV_RACE_RUNS)) > longest_ms; /* one more, to warm up */
}

static void run_algorithm(race_state *state, const char *name) {
  char text[256];
  gconv_plan *plan = NULL;
  state->options.algorithm = name;
  gconv_status status = gconv_plan_create(state->device, &state->image, state->race->filters, &state->options, &plan);
  double estimate = status == GCONV_OK ? gconv_plan_get_info(plan)->estimate_ms : 0;
  if (state->exact && gconv_race_is_hopeless(estimate)) {
    snprintf(text, sizeof text, "%24snot waited for: estimated at %.3g s", "", estimate * 1e-3);
    print_row(state, name, text);
  } else if (status == GCONV_OK) {
    status = run_plan(state, plan);
  }
  if (status != GCONV_OK) {
    snprintf(text, sizeof text, "%24s%s%s", "", gconv_bench_obstacle(gconv_last_error()),
             status == GCONV_MISMATCH ? ": WRONG" : "");
    print_row(state, name, text);
  }
  state->wrong |= status == GCONV_MISMATCH;
  gconv_plan_free(plan);
}

/* ---- All ---- */

static gconv_status prepare(race_state *state) {
  const gconv_race *race = state->race;
  const gconv_read_options reading = {
      .max_pixels = race->max_pixels, .threads = race->threads, .again = true}; /* the job warns */
  gconv_status status = gconv_image_read(race->input, &reading, &state->image);
  if (status == GCONV_OK)
    status = gconv_device_open(race->device, race->threads, &state->device);
  state->finite = status == GCONV_OK && is_finite(&state->image);
  state->options = *race->options;
  state->options.keep_type = false;
  state->options.output_type = gconv_batch_output_type(race->options, race->format, state->image.type);
  return status;
}

bool gconv_race_leaves_out(const char *without, const char *name) {
  size_t length = strlen(name);
  for (; without && *without; without += strcspn(without, ","), without += *without == ',')
    if (strcspn(without, ",") == length && strncmp(without, name, length) == 0)
      return true;
  return false;
}

static void run_all(race_state *state) {
  const char *device = gconv_device_get_info(state->device)->name;
  const gconv_algorithm_info *info;
  fprintf(state->race->out, "%s on %s, median of up to %d runs\n%-14s %10s %10s  result\n", state->race->input, device,
          GCONV_RACE_RUNS, "algorithm", "ms", "Gsample/s");
  for (size_t i = 0; (info = gconv_algorithm_at(i)); i++)
    if (strncmp(device, info->device, strlen(info->device)) == 0 &&
        !gconv_race_leaves_out(state->options.without, info->name))
      run_algorithm(state, info->name);
  if (state->fastest && !state->wrong)
    fprintf(state->race->out, "the fastest is %s\n", state->fastest);
}

/* Says what no algorithm can do, once. */
static bool is_possible(const race_state *state) {
  gconv_plan *plan = NULL;
  gconv_status status = gconv_plan_create(state->device, &state->image, state->race->filters, &state->options, &plan);
  gconv_plan_free(plan);
  if (status != GCONV_OK)
    gconv_say("%s: %s", state->race->input, gconv_last_error());
  return status == GCONV_OK;
}

const char *gconv_race_run(const gconv_race *race, char device[32]) {
  race_state state = {.race = race};
  if (prepare(&state) != GCONV_OK) {
    gconv_say("%s", gconv_last_error());
  } else if (is_possible(&state)) {
    snprintf(device, 32, "%s", gconv_device_get_info(state.device)->name);
    run_all(&state);
    if (state.wrong)
      gconv_say("%s: the algorithms do not agree: nothing is written", race->input);
    else if (!state.fastest)
      gconv_say("%s: no algorithm of the device can do this", race->input);
  }
  free_images(state.exact, state.outputs);
  gconv_image_free(&state.image);
  gconv_device_close(state.device);
  return state.wrong ? NULL : state.fastest;
}
