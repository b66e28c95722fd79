/* SPDX-License-Identifier: MIT */
/*
 * The race of all algorithms. Algorithms of the exact family must give the same bits. For filters, other results may differ
 * from these by no more than both bounds together; and some rows of each result (with --verify all rows) are compared with
 * float64. For networks, --verify compares results with float64; without it, a result is wrong if it differs by more than
 * some part of the largest value.
 */
#include "base/printable.h"
#include "base/suggest.h"
#include "bench/bench.h"
#include "bench/make_plan.h"
#include "image/layout.h"
#include "operation/operation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 15 }; /* their median counts */

static const double CHECK_BUDGET = 2e8;

typedef struct race {
  const gconv_race *asked;
  gconv_device *device;
  gconv_image image;
  bool verify;
  size_t outputs;
  gconv_image *exact; /* the results of the first exact algorithm; NULL before */
  double exact_allowed;
  const char *fastest;
  double fastest_ms;
  bool finite; /* the image has no infinities and no NaN */
  bool wrong;
} race;

/* An algorithm in the race. */
typedef struct racer {
  const char *name, *math;
  gconv_plan *plan;
  bool exact;
  double estimate_ms, flop;
} racer;

/* ---- One algorithm ---------------------------------------------------------------------------------------------------- */

/* Makes a plan with the algorithm `name`. Filters yield results as files have them, layers raw values. */
static gconv_status create_plan(const race *r, const char *name, gconv_plan **plan) {
  const gconv_race *asked = r->asked;
  if (asked->layers) {
    gconv_network_options options = *asked->network;
    options.algorithm = name;
    options.presentation = GCONV_PRESENT_TENSOR;
    return gconv_plan_layers(r->device, &r->image, asked->layers, asked->layer_count, &options, 0, plan);
  }
  gconv_options options = *asked->options;
  options.algorithm = name;
  options.format = asked->batch->outputs->format;
  return gconv_plan_filters(r->device, &r->image, asked->filters, &options, plan);
}

static gconv_status create(const race *r, const char *name, racer *one) {
  *one = (racer){.name = name};
  GCONV_TRY(create_plan(r, name, &one->plan));
  const gconv_plan_info *info = gconv_plan_get_info(one->plan);
  one->math = info->math;
  one->exact = info->exact;
  one->estimate_ms = info->estimate_ms;
  one->flop = info->flop;
  return GCONV_OK;
}

static gconv_status check(const race *r, const racer *one, const gconv_image *outputs, gconv_verification *found) {
  if (r->verify)
    return gconv_plan_verify(one->plan, &r->image, outputs, gconv_plan_outputs(one->plan), -1, found);
  return r->asked->layers ? GCONV_OK : gconv_plan_spot_check(one->plan, &r->image, outputs, CHECK_BUDGET, found);
}

/* ---- Agreement -------------------------------------------------------------------------------------------------------- */

static double sample(const gconv_image *image, size_t index) {
  return gconv_stored_at(image->type, image->data, index);
}

/* Results have no gaps. */
static size_t sample_count(const gconv_image *image) {
  return gconv_planes_of(image) * (size_t)image->height * gconv_samples_of(image);
}

/* Returns the largest difference of two results; HUGE_VAL if only one has a NaN. *largest: the largest magnitude in `a`. */
static double difference(const gconv_image *a, const gconv_image *b, size_t count, double *largest) {
  double most = *largest = 0;
  for (size_t k = 0; k < count; k++)
    for (size_t i = 0; i < sample_count(&a[k]); i++) {
      double x = sample(&a[k], i), y = sample(&b[k], i);
      if (isnan(x) != isnan(y))
        return HUGE_VAL;
      *largest = fmax(*largest, fabs(x));
      if (x != y && !isnan(x)) /* equal infinities are no difference */
        most = fmax(most, fabs(x - y));
    }
  return most;
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

/* Writes into `text` how the results compare with the exact results. Returns false if they are wrong. */
static bool agrees(const race *r, const racer *one, const gconv_image *outputs, const gconv_verification *found, char *text,
                   size_t size) {
  bool banks = (r->asked->layers != NULL),
       judged = !r->finite && !banks && !one->exact; /* infinities may spread over tiles */
  double largest;
  if (!r->exact || judged) {
    if (one->exact)
      snprintf(text, size, "exact");
    else if (banks)
      snprintf(text, size, r->verify ? "within its bound of float64" : "not compared");
    else
      snprintf(text, size, "off float64 by %.3g of %.3g", found->max_error, found->allowed);
    return true;
  }
  if (same_bits(r->exact, outputs, r->outputs)) {
    snprintf(text, size, "equal");
    return true;
  }
  double most = difference(r->exact, outputs, r->outputs, &largest);
  /* Rows that were not checked may have larger responses, and so larger bounds. */
  double limit = !banks ? 2 * (found->most_allowed + r->exact_allowed) : largest * (strcmp(one->math, "fp32") ? 2e-2 : 1e-4);
  if (banks && r->verify)
    snprintf(text, size, "differs by at most %.3g, within its bound of float64", most);
  else
    snprintf(text, size, "differs by at most %.3g of %.3g", most, limit);
  return !one->exact && (most <= limit || (banks && r->verify));
}

/* ---- Running ---------------------------------------------------------------------------------------------------------- */

static void print_row(const race *r, const char *name, const char *text) {
  gconv_print(r->asked->out, "%-16s %s\n", name, text);
  fflush(r->asked->out);
}

static void take_result(race *r, const racer *one, double ms, const gconv_verification *found, const gconv_image *outputs) {
  char verdict[128], text[256];
  bool right = agrees(r, one, outputs, found, verdict, sizeof verdict);
  double samples = (double)sample_count(&outputs[0]) * (double)r->outputs;
  snprintf(text, sizeof text, "%-5s %10.4f %10.3f %9.3f  %s%s", one->math, ms, samples / ms * 1e-6, one->flop / ms * 1e-9,
           verdict, right ? "" : ": WRONG");
  print_row(r, one->name, text);
  r->wrong |= !right;
  if (right && (!r->fastest || ms < r->fastest_ms)) {
    r->fastest = one->name;
    r->fastest_ms = ms;
  }
}

/* Times an algorithm, and checks its results. Keeps them in r->exact if they are the first exact ones. */
static gconv_status run(race *r, const racer *one) {
  gconv_verification found = {0};
  gconv_bench_row row = {.ms = 0};
  r->outputs = gconv_plan_outputs(one->plan);
  gconv_image *outputs = calloc(r->outputs, sizeof *outputs);
  gconv_status status =
      outputs ? gconv_bench_time(one->plan, &r->image, outputs, RUNS, &row) : gconv_fail(GCONV_NO_MEMORY, "out of memory");
  GCONV_THEN(status, check(r, one, outputs, &found));
  if (status == GCONV_OK)
    take_result(r, one, row.ms, &found, outputs);
  if (status == GCONV_OK && one->exact && !r->exact) {
    r->exact = outputs;
    r->exact_allowed = found.most_allowed;
    return GCONV_OK;
  }
  gconv_bench_free_images(outputs, r->outputs);
  return status;
}

/* Returns whether an algorithm is too slow to wait for: its runs take seconds. */
static bool is_hopeless(double ms) {
  const double longest_ms = 3000;
  return ms * (1 + gconv_bench_affordable_runs(ms, RUNS)) > longest_ms; /* one more, to warm up */
}

/* Runs an algorithm. If it cannot be used, the table says why, and that is no failure. */
static void run_algorithm(race *r, const char *name) {
  char text[320];
  racer one;
  gconv_status status = create(r, name, &one);
  if (status == GCONV_OK && r->exact && is_hopeless(one.estimate_ms)) {
    snprintf(text, sizeof text, "%38snot waited for: estimated at %.3g s", "", one.estimate_ms * 1e-3);
    print_row(r, name, text);
  } else if (status == GCONV_OK) {
    status = run(r, &one);
  }
  if (status != GCONV_OK) {
    snprintf(text, sizeof text, "%38s%s%s", "", gconv_bench_obstacle(gconv_last_error()),
             status == GCONV_MISMATCH ? ": WRONG" : "");
    print_row(r, name, text);
  }
  r->wrong |= status == GCONV_MISMATCH;
  gconv_plan_free(one.plan);
}

/* Tells of names in the list that the device has no algorithm of, for these layers or filters. */
static void tell_absent(const race *r, const char *device) {
  const gconv_race *asked = r->asked;
  const gconv_algorithm_info *info;
  for (const char *at = asked->among; at && *at; at += strcspn(at, ","), at += strspn(at, ", ")) {
    const size_t length = strcspn(at, ", ");
    bool here = false;
    for (size_t i = 0; (info = asked->layers ? gconv_layer_algorithm_at(i) : gconv_algorithm_at(i)); i++)
      here |= strncmp(device, info->device, strlen(info->device)) == 0 && gconv_find_word(info->name, ',', at, length);
    char name[32], text[128];
    snprintf(name, sizeof name, "%.*s", (int)length, at);
    snprintf(text, sizeof text, "%38snone of this name for %s on this device", "",
             asked->layers ? "banks" : "plain filters");
    if (!here)
      print_row(r, name, text);
  }
}

static gconv_status run_all(race *r, const char *device) {
  const gconv_race *asked = r->asked;
  const char *without = asked->layers ? asked->network->without : asked->options->without;
  const gconv_algorithm_info *info;
  gconv_print(asked->out, "%s on %s, median of up to %d runs\n%-16s %-5s %10s %10s %9s  result\n", asked->path, device, RUNS,
              "algorithm", "math", "ms", "Gsample/s", "TFLOP/s");
  for (size_t i = 0; (info = asked->layers ? gconv_layer_algorithm_at(i) : gconv_algorithm_at(i)); i++)
    if (strncmp(device, info->device, strlen(info->device)) == 0 &&
        !gconv_find_word(without, ',', info->name, strlen(info->name)) &&
        (!asked->among || gconv_find_word(asked->among, ',', info->name, strlen(info->name))))
      run_algorithm(r, info->name);
  tell_absent(r, device);
  if (r->wrong)
    return gconv_fail(GCONV_MISMATCH, "%s: the algorithms do not agree: nothing is written", asked->path);
  if (!r->fastest)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: none of the algorithms can do this on %s", asked->path, device);
  fprintf(asked->out, "the fastest is %s\n", r->fastest);
  return GCONV_OK;
}

/* ---- The race --------------------------------------------------------------------------------------------------------- */

static gconv_status prepare(race *r) {
  const gconv_batch *batch = r->asked->batch;
  const gconv_read_options reading = {
      .max_pixels = batch->max_pixels, .again = true /* the job warns */, .unrounded = batch->unrounded};
  GCONV_TRY(gconv_image_read(r->asked->path, &reading, &r->image));
  if (batch->nhwc && r->image.planar)
    GCONV_TRY(gconv_to_nchw(&r->image));
  GCONV_TRY(gconv_device_open(batch->device, batch->threads, &r->device));
  r->verify = batch->verify;
  r->finite = is_finite(&r->image);
  return GCONV_OK;
}

gconv_status gconv_race_run(const gconv_race *asked, const char **fastest, char device[32]) {
  race r = {.asked = asked};
  racer any = {.name = "auto"};
  gconv_status status = prepare(&r);
  if (status == GCONV_OK && (status = create(&r, any.name, &any)) != GCONV_OK)
    gconv_fail_in(status, "%s", asked->path); /* an error that all algorithms share is reported once */
  gconv_plan_free(any.plan);
  if (status == GCONV_OK) {
    snprintf(device, 32, "%s", gconv_device_get_info(r.device)->name);
    status = run_all(&r, device);
  }
  *fastest = r.fastest;
  gconv_bench_free_images(r.exact, r.outputs);
  gconv_image_free(&r.image);
  gconv_device_close(r.device);
  return status;
}
