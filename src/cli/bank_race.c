/* SPDX-License-Identifier: MIT */
#include "cli/bank_race.h"
#include "cli/bench.h"
#include "cli/race.h"
#include "cli/terminal.h"

#include <math.h>
#include <string.h>

typedef struct race {
  const gconv_bank_job *job;
  gconv_device *device;
  gconv_image image, exact; /* the results of the first exact algorithm, once there are any */
  bool verify;
  const char *fastest;
  double fastest_ms;
  bool wrong;
  FILE *out;
} race;

static void print_row(const race *r, const char *name, const char *text) {
  fprintf(r->out, "%-16s %s\n", name, text);
  fflush(r->out);
}

static size_t bytes_of(const gconv_image *image) {
  return (size_t)image->frames * (size_t)image->channels * image->plane_bytes;
}

/* The largest difference, and whether it is beyond `relative` of the largest value. */
static bool is_close(const gconv_image *a, const gconv_image *b, double relative, double *difference) {
  const float *x = a->data, *y = b->data;
  double largest = 0;
  *difference = 0;
  for (size_t i = 0; i < bytes_of(a) / sizeof *x; i++) {
    double d = fabs((double)x[i] - (double)y[i]);
    *difference = isnan(d) && isnan(x[i]) != isnan(y[i]) ? INFINITY : fmax(*difference, d);
    largest = fmax(largest, fabs((double)x[i]));
  }
  return *difference <= relative * largest;
}

/* Says how the result stands to the exact one. With --verify it was held to float64 before; without, what is further off
 * than a thousandth of the largest value is wrong, as no math that there is may be. */
static bool judge(race *r, const gconv_layer_info *info, gconv_image *out, char *text, size_t size) {
  double difference;
  if (!r->exact.data && info->exact) {
    r->exact = *out;
    *out = (gconv_image){0};
    snprintf(text, size, "exact");
    return true;
  }
  if (!r->exact.data) {
    snprintf(text, size, "%s", r->verify ? "within its bound of float64" : "not compared");
    return true;
  }
  if (memcmp(r->exact.data, out->data, bytes_of(out)) == 0) {
    snprintf(text, size, "equal");
    return true;
  }
  bool close = is_close(&r->exact, out, strcmp(info->math, "fp32") == 0 ? 1e-4 : 2e-2, &difference);
  snprintf(text, size, "differs by at most %.3g%s", difference, r->verify ? ", within its bound of float64" : "");
  return !info->exact && (close || r->verify);
}

static double estimate(const gconv_network *network) {
  const gconv_layer_info *info;
  double ms = 0;
  for (size_t i = 0; (info = gconv_network_get_info(network, i)); i++)
    ms += info->estimate_ms;
  return ms;
}

static gconv_status time_network(race *r, gconv_network *network, gconv_image *out, double *ms) {
  double times[GCONV_RACE_RUNS];
  int runs = gconv_bench_affordable_runs(estimate(network), GCONV_RACE_RUNS);
  gconv_status status = gconv_network_measure(network, &r->image, out, runs, times);
  if (status == GCONV_OK)
    *ms = gconv_bench_median(times, runs);
  gconv_verification found;
  return status == GCONV_OK && r->verify ? gconv_network_verify(network, &r->image, out, -1, &found) : status;
}

static void take_result(race *r, const char *name, const gconv_network *network, gconv_image *out, double ms) {
  const gconv_layer_info *first = gconv_network_get_info(network, 0), *info;
  char text[256], verdict[128];
  double flop = 0;
  for (size_t i = 0; (info = gconv_network_get_info(network, i)); i++)
    flop += info->flop;
  bool right = judge(r, first, out, verdict, sizeof verdict);
  snprintf(text, sizeof text, "%-5s %10.4f %9.3f  %s%s", first->math, ms, flop / ms * 1e-9, verdict, right ? "" : ": WRONG");
  print_row(r, name, text);
  r->wrong |= !right;
  if (right && (!r->fastest || ms < r->fastest_ms)) {
    r->fastest = name;
    r->fastest_ms = ms;
  }
}

static void run_algorithm(race *r, const char *name) {
  gconv_network_options options = r->job->batch.options;
  gconv_network *network = NULL;
  gconv_image out = {0};
  char text[320];
  double ms = 0;
  options.algorithm = name;
  gconv_status status = gconv_network_create(r->device, &r->image, r->job->layers, r->job->count, &options, &network);
  if (status == GCONV_OK && r->exact.data && gconv_race_is_hopeless(estimate(network))) {
    snprintf(text, sizeof text, "%26s not waited for: estimated at %.3g s", "", estimate(network) * 1e-3);
    print_row(r, name, text);
    gconv_network_free(network);
    return;
  }
  if (status == GCONV_OK)
    status = time_network(r, network, &out, &ms);
  if (status == GCONV_OK) {
    take_result(r, name, network, &out, ms);
  } else {
    snprintf(text, sizeof text, "%26s %s%s", "", gconv_bench_obstacle(gconv_last_error()),
             status == GCONV_MISMATCH ? ": WRONG" : "");
    print_row(r, name, text);
    r->wrong |= status == GCONV_MISMATCH;
  }
  gconv_image_free(&out);
  gconv_network_free(network);
}

static void run_all(race *r, const char *path) {
  const char *device = gconv_device_get_info(r->device)->name;
  const gconv_algorithm_info *info;
  fprintf(r->out, "%s on %s, median of up to %d runs\n%-16s %-5s %10s %9s  result\n", path, device, GCONV_RACE_RUNS,
          "algorithm", "math", "ms", "TFLOP/s");
  for (size_t i = 0; (info = gconv_layer_algorithm_at(i)); i++)
    if (strncmp(device, info->device, strlen(info->device)) == 0 &&
        !gconv_race_leaves_out(r->job->batch.options.without, info->name))
      run_algorithm(r, info->name);
  if (r->fastest && !r->wrong)
    fprintf(r->out, "the fastest is %s\n", r->fastest);
}

/* Says what no algorithm can do, once. */
static bool is_possible(const race *r, const char *path) {
  gconv_network *network = NULL;
  gconv_status status =
      gconv_network_create(r->device, &r->image, r->job->layers, r->job->count, &r->job->batch.options, &network);
  gconv_network_free(network);
  if (status != GCONV_OK)
    gconv_say("%s: %s", path, gconv_last_error());
  return status == GCONV_OK;
}

const char *gconv_bank_race_run(const gconv_settings *settings, const gconv_bank_job *job, const char *path, FILE *out,
                                char device[32]) {
  race r = {.job = job, .verify = settings->verify, .out = out};
  gconv_bank_batch batch = job->batch;
  batch.common.max_pixels = settings->max_pixels;
  gconv_status status = gconv_bank_image_read(&batch, path, &r.image);
  if (status == GCONV_OK)
    status = gconv_device_open(settings->device, settings->threads, &r.device);
  if (status != GCONV_OK) {
    gconv_say("%s", gconv_last_error());
  } else if (is_possible(&r, path)) {
    snprintf(device, 32, "%s", gconv_device_get_info(r.device)->name);
    run_all(&r, path);
    if (r.wrong)
      gconv_say("%s: the algorithms do not agree: nothing is written", path);
    else if (!r.fastest)
      gconv_say("%s: no algorithm of the device can do this", path);
  }
  gconv_image_free(&r.image);
  gconv_image_free(&r.exact);
  gconv_device_close(r.device);
  return r.wrong ? NULL : r.fastest;
}
