/* SPDX-License-Identifier: MIT */
/*
 * Every algorithm for layers of one device against float64, on networks drawn by lot, after some that are given.
 *
 *     test_layers [--device cpu|cuda] [--seed S] [--cases N] [--case I] [--algorithm NAME]
 *
 * The definition (layer_oracle.h) shares no line with the product. A case passes an algorithm if every output is within the
 * bound that is stated, carried through the layers; if algorithms of the exact family give the bits of cpu/reference,
 * whatever the workspace and the batches that it allows; if all outputs are written and nothing else, from an input that
 * lies among NaN; if it gives the same bits again, on the CPU with any number of threads; if it does the same by rows (of
 * algorithms that are not exact, within their bounds); and if gconv_plan_verify() finds the result right, and finds the
 * value that is then altered. Exit status: 0, 1 for a failure, 77 without the device.
 */
#include "base/status.h"
#include "bench/make_plan.h"
#include "layer_oracle.h"
#include "session.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CASES = 800, MOST_ALGORITHMS = 64 };

/* ---- The session ---- */

typedef struct tally {
  const gconv_algorithm_info *algorithm;
  const char *obstacle;
  uint64_t cases, unsupported, values;
  double closest; /* the largest error, relative to what is allowed */
} tally;

typedef struct session {
  gconv_session common;
  tally tallies[MOST_ALGORITHMS];
  size_t algorithms;
} session;

typedef struct trial {
  session *session;
  uint64_t number;
  gconv_drawn_network d;
  gconv_image reference; /* what cpu/reference yields */
  tally *tally;
} trial;

__attribute__((format(printf, 2, 3))) static bool fail(const trial *t, const char *format, ...) {
  char wrong[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(wrong, sizeof wrong, format, arguments);
  va_end(arguments);
  return gconv_session_fail(&t->session->common, t->number, t->tally->algorithm->name, wrong, t->d.text);
}

static gconv_status make_network(const gconv_drawn_network *d, gconv_device *device, const char *algorithm, gconv_math math,
                                 int32_t rows, gconv_plan **network) {
  gconv_network_options options = d->options;
  options.algorithm = algorithm;
  options.math = math;
  return gconv_plan_layers(device, &d->in.image, d->list, d->count, &options, rows, network);
}

/* ---- Checks ---- */

static bool check_shape(const trial *t, const gconv_plan *network, const gconv_expected *expected, int32_t *combined) {
  const gconv_image *out = gconv_plan_output_header(network, 0);
  const gconv_drawn_layer *last = &t->d.layers[t->d.count - 1];
  gconv_combine combine = t->d.options.combine;
  *combined = combine == GCONV_COMBINE_NONE ? 1 : combine == GCONV_COMBINE_ARGMAX ? expected->c : last->bank.filters;
  if (out->frames != expected->n || out->channels != expected->c / *combined || out->height != expected->h ||
      out->width != expected->w || out->type != GCONV_F32 || !out->planar)
    return fail(t, "the output is %d x %d x %d x %d, expected %d x %d x %d x %d", out->frames, out->channels, out->height,
                out->width, expected->n, expected->c / *combined, expected->h, expected->w);
  return true;
}

static bool check_values(const trial *t, const gconv_expected *expected, const gconv_image *out, int32_t combined) {
  const float *got = out->data;
  for (int32_t n = 0; n < out->frames; n++)
    for (int32_t c = 0; c < out->channels; c++)
      for (int32_t p = 0; p < out->height; p++)
        for (int32_t q = 0; q < out->width; q++, got++) {
          double value, allowed;
          t->tally->values++;
          if (!gconv_layers_is_right(&t->d, expected, n, c * combined, combined, p, q, (double)*got, &value, &allowed))
            return fail(t, "image %d, channel %d, row %d, column %d is %.9g, expected %.9g within %.3g", n, c, p, q,
                        (double)*got, value, allowed);
          if (t->d.options.combine != GCONV_COMBINE_ARGMAX && allowed > 0)
            t->tally->closest = fmax(t->tally->closest, fabs((double)*got - value) / allowed);
        }
  return true;
}

static bool same_bits(const gconv_image *a, const gconv_image *b) {
  return gconv_guarded_equal(a, b);
}

/* The same bits with other numbers of threads. */
static bool check_threads(const trial *t, const gconv_image *expected, gconv_math math) {
  for (size_t i = 0; i < GCONV_THREAD_COUNTS; i++) {
    gconv_plan *network = NULL;
    gconv_image out = {0};
    bool good = make_network(&t->d, t->session->common.cpus[i], t->tally->algorithm->name, math, 0, &network) == GCONV_OK &&
                gconv_plan_execute(network, &t->d.in.image, &out, 1, NULL) == GCONV_OK;
    if (!good)
      fail(t, "with %d threads: %s", gconv_thread_counts[i], gconv_last_error());
    else if (!same_bits(expected, &out))
      good = fail(t, "other bits with %d threads", gconv_thread_counts[i]);
    gconv_plan_free(network);
    gconv_image_free(&out);
    if (!good)
      return false;
  }
  return true;
}

static bool check_verification(const trial *t, gconv_plan *network, gconv_image *out) {
  gconv_verification found;
  size_t count = (size_t)out->frames * (size_t)out->channels * (size_t)out->height * (size_t)out->width;
  if (gconv_plan_verify(network, &t->d.in.image, out, gconv_plan_outputs(network), -1, &found) != GCONV_OK)
    return fail(t, "verification: %s", gconv_last_error());
  if (found.compared != count)
    return fail(t, "verification compared %" PRIu64 " values of %zu", found.compared, count);
  uint64_t lot = t->session->common.seed + t->number;
  size_t i = gconv_lot_next(&lot) % count;
  float *value = (float *)out->data + i, before = *value;
  float wrong = t->d.options.combine == GCONV_COMBINE_ARGMAX ? -1 : 4 * (float)found.most_allowed + 2 * fabsf(before) + 1;
  *value = wrong;
  gconv_status status = gconv_plan_verify(network, &t->d.in.image, out, gconv_plan_outputs(network), -1, &found);
  *value = before;
  size_t place =
      (((size_t)found.frame * (size_t)out->channels + (size_t)found.channel) * (size_t)out->height + (size_t)found.y) *
          (size_t)out->width +
      (size_t)found.x;
  if (status != GCONV_MISMATCH || place != i)
    return fail(t, "value %zu was altered from %g to %g; verification: status %d, value %zu", i, (double)before,
                (double)wrong, (int)status, place);
  return true;
}

/* The rows of a window alone, among NaN. */
static bool copy_window(const gconv_image *in, int32_t begin, int32_t end, gconv_guarded *window) {
  gconv_image header = *in;
  header.height = end - begin;
  if (!gconv_guarded_make(window, &header, 0, 0, 0xFF))
    return false;
  gconv_guarded_rows rows = gconv_guarded_rows_of(&window->image);
  for (size_t i = 0; i < rows.count; i++)
    memcpy(gconv_guarded_row(&window->image, i),
           gconv_guarded_row(in, i / (size_t)header.height * (size_t)in->height + (size_t)begin + i % (size_t)header.height),
           rows.bytes);
  return true;
}

/* The output, some rows at a time. */
static gconv_status execute_rows(const trial *t, gconv_plan *network, gconv_image *out) {
  const gconv_image *in = &t->d.in.image;
  gconv_status status = GCONV_OK;
  int32_t rows = gconv_plan_row_step(network);
  size_t row = (size_t)out->width * sizeof(float);
  for (int32_t first = 0, begin, end; first < out->height && status == GCONV_OK; first += rows) {
    gconv_guarded window, part;
    gconv_image header = *gconv_plan_output_header(network, 0);
    header.height = out->height - first < rows ? out->height - first : rows;
    gconv_plan_rows_needed(network, first, header.height, &begin, &end);
    if (!copy_window(in, begin, end, &window) || !gconv_guarded_make(&part, &header, 0, 0, 0xFF))
      return GCONV_NO_MEMORY;
    status = gconv_plan_execute_rows(network, &(gconv_input_rows){&window.image, begin}, first, &part.image, 1, NULL);
    for (size_t i = 0; i < (size_t)out->frames * (size_t)out->channels && status == GCONV_OK; i++)
      memcpy((char *)out->data + i * out->plane_bytes + (size_t)first * row,
             (const char *)part.image.data + i * part.image.plane_bytes, (size_t)header.height * row);
    if (status == GCONV_OK && !gconv_guarded_intact(&part))
      status = gconv_set_error(GCONV_MISMATCH, "an execution by rows wrote beyond them");
    gconv_guarded_free(&window);
    gconv_guarded_free(&part);
  }
  return status;
}

/* By rows: the same bits, or what is within the bounds. */
static bool check_rows(const trial *t, const gconv_image *whole, const gconv_expected *expected, int32_t combined,
                       gconv_math math) {
  uint64_t lot = t->session->common.seed * 7 + t->number;
  gconv_plan *network = NULL;
  gconv_image out = *whole;
  out.data = NULL;
  int32_t rows = 1 + gconv_lot_below(&lot, whole->height + 2);
  gconv_status status = gconv_image_allocate(&out);
  if (status == GCONV_OK)
    status = make_network(&t->d, t->session->common.device, t->tally->algorithm->name, math, rows, &network);
  if (status == GCONV_OK && gconv_plan_row_step(network) == 0) { /* a border takes rows from far away */
    bool far = false;
    for (size_t i = 0; i < t->d.count; i++)
      far = far || t->d.list[i].border > GCONV_BORDER_CONSTANT;
    gconv_plan_free(network);
    gconv_image_free(&out);
    return far || fail(t, "the plan is not by rows");
  }
  if (status == GCONV_OK)
    status = execute_rows(t, network, &out);
  bool good = status == GCONV_OK || status == GCONV_UNSUPPORTED; /* other limits for other shapes */
  if (!good)
    fail(t, "%d rows at a time: %s", rows, gconv_last_error());
  else if (status == GCONV_OK && t->tally->algorithm->exact && !same_bits(whole, &out))
    good = fail(t, "other bits, %d rows at a time", rows);
  else if (status == GCONV_OK && !t->tally->algorithm->exact && !check_values(t, expected, &out, combined))
    good = fail(t, "%d rows at a time", rows);
  gconv_plan_free(network);
  gconv_image_free(&out);
  return good;
}

static bool check_output(const trial *t, gconv_plan *network, gconv_image *out, gconv_math math) {
  int32_t combined;
  gconv_expected expected = gconv_layers_expect(&t->d, network);
  bool good = check_shape(t, network, &expected, &combined) && check_values(t, &expected, out, combined) &&
              (t->number % 2 != 0 || check_rows(t, out, &expected, combined, math));
  gconv_expected_free(&expected);
  if (!good)
    return false;
  if (t->tally->algorithm->exact && t->reference.data && !same_bits(out, &t->reference))
    return fail(t, "other bits than cpu/reference");
  gconv_image again = {0};
  good = gconv_plan_execute(network, &t->d.in.image, &again, 1, NULL) == GCONV_OK;
  if (!good)
    fail(t, "again: %s", gconv_last_error());
  else if (!same_bits(out, &again))
    good = fail(t, "other bits when executed again");
  gconv_image_free(&again);
  if (!good)
    return false;
  bool cpu = strcmp(t->session->common.device_name, "cpu") == 0;
  if (cpu && t->number % 8 == 0 && t->d.options.workspace_bytes == 0 && !check_threads(t, out, math))
    return false;
  return t->number % 4 != 0 || check_verification(t, network, out);
}

/* The turn of t->tally's algorithm with some math. */
static bool check(trial *t, gconv_math math) {
  gconv_plan *network = NULL;
  gconv_status status = make_network(&t->d, t->session->common.device, t->tally->algorithm->name, math, 0, &network);
  t->tally->cases++;
  if (status == GCONV_UNSUPPORTED) {
    t->tally->unsupported++;
    return true;
  }
  if (status != GCONV_OK)
    return fail(t, "%s", gconv_last_error());
  gconv_guarded out;
  bool good = gconv_guarded_make(&out, gconv_plan_output_header(network, 0), 0, 0, 0xFF);
  if (!good)
    fail(t, "out of memory");
  else if (gconv_plan_execute(network, &t->d.in.image, &out.image, 1, NULL) != GCONV_OK)
    good = fail(t, "%s", gconv_last_error());
  else if (!gconv_guarded_intact(&out))
    good = fail(t, "bytes outside of the output were written");
  else
    good = check_output(t, network, &out.image, math);
  gconv_guarded_free(&out);
  gconv_plan_free(network);
  return good;
}

static void refer(trial *t) {
  gconv_plan *network = NULL;
  gconv_drawn_network plain = t->d; /* the same banks, with all the workspace there may be */
  plain.options.workspace_bytes = 0;
  if (make_network(&plain, t->session->common.cpus[0], "reference", GCONV_MATH_FP32, 0, &network) != GCONV_OK ||
      gconv_plan_execute(network, &t->d.in.image, &t->reference, 1, NULL) != GCONV_OK) {
    printf("FAILED case %" PRIu64 ": cpu/reference: %s\n  %s\n", t->number, gconv_last_error(), t->d.text);
    t->session->common.failures++;
  }
  gconv_plan_free(network);
}

static void run_case(gconv_session *common, uint64_t number_of_case, bool verbose) {
  session *s = (session *)common;
  trial t = {.session = s, .number = number_of_case};
  if (gconv_drawn_network_make(&t.d, s->common.seed, number_of_case)) {
    if (verbose)
      printf("case %" PRIu64 ": %s\n", number_of_case, t.d.text);
    refer(&t);
    for (size_t i = 0; i < s->algorithms; i++) {
      t.tally = &s->tallies[i];
      if (!t.tally->obstacle)
        check(&t, t.d.options.math);
    }
  }
  gconv_image_free(&t.reference);
  gconv_drawn_network_free(&t.d);
}

static void choose_algorithms(session *s) {
  const gconv_algorithm_info *info;
  for (size_t i = 0; (info = gconv_layer_algorithm_at(i)) && s->algorithms < MOST_ALGORITHMS; i++)
    if (gconv_session_has(&s->common, info))
      s->tallies[s->algorithms++] = (tally){.algorithm = info, .obstacle = gconv_layer_algorithm_obstacle(i)};
}

/* Prints what was tested; an algorithm that never worked was not. */
static void report(session *s) {
  const bool many = !s->common.single && s->common.cases >= 400;
  for (size_t i = 0; i < s->algorithms; i++) {
    const tally *t = &s->tallies[i];
    if (t->obstacle)
      printf("%-16s not here: %s\n", t->algorithm->name, t->obstacle);
    else if (t->cases > 0)
      printf("%-16s %6" PRIu64 " cases, %6" PRIu64 " unsupported, %10" PRIu64 " values, largest error %.3f of the allowed\n",
             t->algorithm->name, t->cases, t->unsupported, t->values, t->closest);
    if (!t->obstacle && many && t->cases > 0 && t->cases == t->unsupported) {
      printf("FAILED: %s solved nothing\n", t->algorithm->name);
      s->common.failures++;
    }
  }
  if (s->algorithms == 0) {
    puts("FAILED: there is no such algorithm");
    s->common.failures++;
  }
}

int main(int count, char **words) {
  session s = {.algorithms = 0};
  int status;
  if (!gconv_session_open(&s.common, "test_layers", DEFAULT_CASES, count, words, &status))
    return status;
  choose_algorithms(&s);
  gconv_session_run(&s.common, run_case);
  report(&s);
  gconv_session_close(&s.common);
  printf("%s\n", s.common.failures ? "FAILED" : "passed");
  return s.common.failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
