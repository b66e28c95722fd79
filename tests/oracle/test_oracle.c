/* SPDX-License-Identifier: MIT */
/*
 * Every algorithm of one device against the oracle, on cases drawn by lot.
 *
 *     test_oracle [--device cpu|cuda] [--seed S] [--cases N] [--case I] [--algorithm NAME]
 *
 * A case passes an algorithm if
 *  - what it cannot do it refuses, and what nobody can do everyone refuses;
 *  - every sample is within the bound that the algorithm states (oracle.h), and an algorithm of the exact family gives the
 *    bits of cpu/reference;
 *  - it writes all samples and nothing else, in outputs with gaps as well as in its own, and leaves the input alone;
 *  - it gives the same bits again, and on the CPU with any number of threads;
 *  - gconv_plan_verify() finds the outputs right, and finds the one sample that is then altered.
 * Exit status: 0, 1 for a failure, 77 if the device cannot be used here.
 */
#include "bench/make_plan.h"
#include "by_hand.h"
#include "draw.h"
#include "oracle.h"
#include "session.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  DEFAULT_CASES = 1500,
  MOST_ALGORITHMS = 32,
  POISON = 0xA5,
  BY_CHANCE = 4 /* cases, or outputs, that a limit allows beyond its share: of a few, chance may draw more */
};

typedef struct tally {
  const gconv_algorithm_info *algorithm;
  uint64_t cases, unsupported, refused, samples;
  uint64_t outputs, undecided; /* images; those of which most samples are undecided */
} tally;

typedef struct session {
  gconv_session common;
  tally tallies[MOST_ALGORITHMS];
  size_t algorithms;
} session;

/* One case, and the algorithms that it is tried with. */
typedef struct trial {
  session *session;
  uint64_t number;
  gconv_drawn drawn;
  uint8_t *before;      /* the bytes of the input */
  gconv_oracle *oracle; /* NULL where there is no output */
  gconv_oracle_shape shape;
  gconv_oracle_sample *samples; /* room for one output */
  gconv_image *reference;       /* the outputs of cpu/reference */
  tally *tally;                 /* of the algorithm that has its turn */
} trial;

/* ---- Failures ---- */

__attribute__((format(printf, 2, 3))) static bool fail(const trial *t, const char *format, ...) {
  char wrong[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(wrong, sizeof wrong, format, arguments);
  va_end(arguments);
  return gconv_session_fail(&t->session->common, t->number, t->tally->algorithm->name, wrong, t->drawn.text);
}

/* ---- Outputs ---- */

static gconv_image *make_images(size_t count) {
  gconv_image *images = calloc(count, sizeof *images);
  if (!images) {
    puts("out of memory");
    exit(EXIT_FAILURE);
  }
  return images;
}

static void free_images(gconv_image *images, size_t count) {
  for (size_t i = 0; images && i < count; i++)
    gconv_image_free(&images[i]);
  free(images);
}

static bool check_shape(const trial *t, const gconv_image *image) {
  const gconv_oracle_shape *shape = &t->shape;
  bool planar = t->drawn.in.image.planar || shape->channels > 4;
  if (image->type == shape->type && image->frames == shape->frames && image->height == shape->height &&
      image->width == shape->width && image->channels == shape->channels && image->alpha == shape->alpha &&
      image->planar == planar)
    return true;
  return fail(t, "an output is %d x %dx%dx%d type %d%s%s, expected %d x %dx%dx%d type %d%s%s", image->frames, image->height,
              image->width, image->channels, (int)image->type, image->planar ? " planar" : "", image->alpha ? " alpha" : "",
              shape->frames, shape->height, shape->width, shape->channels, (int)shape->type, planar ? " planar" : "",
              shape->alpha ? " alpha" : "");
}

/* Profile and resolution pass through. */
static bool check_metadata(const trial *t, const gconv_image *image) {
  const gconv_image *in = &t->drawn.in.image;
  bool equal = image->icc_bytes == in->icc_bytes && (in->icc_bytes == 0 || memcmp(image->icc, in->icc, in->icc_bytes) == 0);
  equal = equal && (!in->icc || image->icc != in->icc);
  equal =
      equal && image->pixels_per_metre_x == in->pixels_per_metre_x && image->pixels_per_metre_y == in->pixels_per_metre_y;
  return equal ? true : fail(t, "profile or resolution did not pass through");
}

/* The bound that the algorithm states. fft may lose a response below FLT_MIN: there floats have fewer bits, and its products
 * of spectra are smaller than the response, by the number of points of a tile. */
static gconv_oracle_bound bound_of(const gconv_plan *plan) {
  const gconv_plan_info *info = gconv_plan_get_info(plan);
  return (gconv_oracle_bound){info->error_bound, strcmp(info->algorithm, "fft") == 0 ? (double)FLT_MIN : 0};
}

/* Holds one output to the oracle. A sample is undecided if even black and white would both pass. */
static bool check_samples(trial *t, size_t output, const gconv_image *image, gconv_oracle_bound bound) {
  const gconv_oracle_sample *expected = t->samples;
  double white = image->type == GCONV_I16 ? 65535 : gconv_oracle_white(image->type);
  uint64_t samples = 0, undecided = 0;
  if (!gconv_oracle_expect(t->oracle, output, bound, t->samples))
    return fail(t, "out of memory");
  for (int32_t n = 0; n < image->frames; n++)
    for (int32_t y = 0; y < image->height; y++)
      for (int32_t x = 0; x < image->width; x++)
        for (int32_t c = 0; c < image->channels; c++, expected++) {
          double got = gconv_oracle_sample_at(image, n, y, x, c);
          samples++;
          undecided += image->type == GCONV_F32 ? isinf(expected->error) : expected->error > white;
          if (!(fabs(got - expected->value) <= expected->error))
            return fail(t, "output %zu at frame %d, y %d, x %d, channel %d is %.9g, expected %.9g within %.3g", output, n, y,
                        x, c, got, expected->value, expected->error);
        }
  t->tally->samples += samples;
  t->tally->outputs++;
  t->tally->undecided += 2 * undecided > samples;
  return true;
}

static bool check_input(const trial *t) {
  const gconv_guarded *in = &t->drawn.in;
  return memcmp(in->memory, t->before, in->bytes) == 0 ? true : fail(t, "the input was changed");
}

static bool equal_all(const gconv_image *a, const gconv_image *b, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!gconv_guarded_equal(&a[i], &b[i]))
      return false;
  return true;
}

/* ---- Plans ---- */

static gconv_status make_plan(const trial *t, gconv_device *device, const char *algorithm, gconv_plan **plan) {
  gconv_options options = t->drawn.options;
  options.algorithm = algorithm;
  return gconv_plan_filters(device, &t->drawn.in.image, &t->drawn.filters, &options, plan);
}

/* What a plan says of itself agrees with what is expected of it. */
static bool check_info(const trial *t, const gconv_plan *plan) {
  const gconv_plan_info *info = gconv_plan_get_info(plan);
  const gconv_image *in = &t->drawn.in.image;
  const gconv_oracle_shape *shape = &t->shape;
  if (strcmp(info->algorithm, t->tally->algorithm->name) != 0 || info->exact != t->tally->algorithm->exact)
    return fail(t, "the plan runs %s", info->algorithm);
  if (info->frames != in->frames || info->height != in->height || info->width != in->width ||
      info->out_height != shape->height || info->out_width != shape->width || info->out_channels != shape->channels ||
      info->input_type != in->type || info->output_type != shape->type || info->filters != (int32_t)t->drawn.filters.count)
    return fail(t, "the plan gives other shapes: outputs %dx%dx%d", info->out_height, info->out_width, info->out_channels);
  if (gconv_plan_outputs(plan) != shape->outputs)
    return fail(t, "the plan has %zu outputs, expected %zu", gconv_plan_outputs(plan), shape->outputs);
  if (!(info->error_bound >= 0 && info->error_bound < 1e-3))
    return fail(t, "an error bound of %g is no bound", info->error_bound);
  return true;
}

/* Images and outputs of another shape are refused before anything is touched. */
static bool check_refusal(const trial *t, gconv_plan *plan) {
  const gconv_image *in = &t->drawn.in.image;
  gconv_image other = *in;
  other.type = other.type == GCONV_U8 ? GCONV_U16 : GCONV_U8;
  if (!gconv_plan_fits(plan, in) || gconv_plan_fits(plan, &other))
    return fail(t, "gconv_plan_fits is wrong");
  gconv_image *outputs = make_images(t->shape.outputs);
  bool good =
      gconv_plan_execute(plan, &other, outputs, gconv_plan_outputs(plan), NULL) == GCONV_BAD_ARGUMENT && !outputs[0].data;
  if (!good)
    fail(t, "an image of another type was not refused");
  gconv_image *last = &outputs[t->shape.outputs - 1];
  *last = (gconv_image){.type = t->shape.type, .frames = 1, .height = 1, .width = t->shape.width + 1, .channels = 1};
  if (good && gconv_image_allocate(last) == GCONV_OK) {
    good = gconv_plan_execute(plan, in, outputs, gconv_plan_outputs(plan), NULL) == GCONV_BAD_ARGUMENT &&
           (last == outputs || !outputs[0].data);
    if (!good)
      fail(t, "an output of another shape was not refused");
  }
  free_images(outputs, t->shape.outputs);
  return good;
}

/* Planar images with alpha are refused. */
static bool check_planar_alpha(trial *t) {
  gconv_image *in = &t->drawn.in.image;
  if (!in->planar || in->channels < 2)
    return true;
  gconv_plan *plan = NULL;
  in->alpha = true;
  gconv_status status = make_plan(t, t->session->common.device, t->tally->algorithm->name, &plan);
  in->alpha = false;
  gconv_plan_free(plan);
  return status == GCONV_BAD_ARGUMENT ? true : fail(t, "planar alpha was not refused: status %d", (int)status);
}

/* Executes into outputs that are poisoned and have gaps and guards. */
static bool check_guarded(const trial *t, gconv_plan *plan, const gconv_image *expected) {
  size_t count = t->shape.outputs;
  gconv_guarded *guarded = calloc(count, sizeof *guarded);
  gconv_image *outputs = make_images(count);
  bool good = guarded != NULL;
  for (size_t i = 0; i < count && good; i++) {
    good = gconv_guarded_make(&guarded[i], &expected[i], 1 + (t->number + i) % 5, t->number % 3, POISON);
    outputs[i] = guarded[i].image;
  }
  if (!good) {
    fail(t, "out of memory");
  } else if (gconv_plan_execute(plan, &t->drawn.in.image, outputs, gconv_plan_outputs(plan), NULL) != GCONV_OK) {
    good = fail(t, "outputs with gaps: %s", gconv_last_error());
  } else if (!equal_all(outputs, expected, count)) {
    good = fail(t, "outputs with gaps got other bits than outputs without");
  }
  for (size_t i = 0; i < count && good; i++)
    if (!gconv_guarded_intact(&guarded[i]))
      good = fail(t, "output %zu: bytes outside of the samples were written", i);
  for (size_t i = 0; guarded && i < count; i++) {
    outputs[i].data = NULL; /* only the profile is the image's own */
    gconv_image_free(&outputs[i]);
    gconv_guarded_free(&guarded[i]);
  }
  free(guarded);
  free(outputs);
  return good;
}

/* ---- Verification ---- */

/* A place in the outputs, by lot. */
typedef struct spot {
  size_t output;
  int32_t frame, y, x, channel;
} spot;

static void *find(const gconv_image *image, const spot *at) {
  size_t plane = image->planar ? (size_t)at->frame * (size_t)image->channels + (size_t)at->channel : (size_t)at->frame;
  size_t bytes = gconv_type_bytes(image->type);
  size_t element = image->planar ? (size_t)at->x : (size_t)at->x * (size_t)image->channels + (size_t)at->channel;
  return gconv_guarded_row(image, plane * (size_t)image->height + (size_t)at->y) + element * bytes;
}

/* Changes a sample by half the range; a float by more than any of these images has errors. False where verification need
 * not be sure that this is wrong: where the bound is wide, in frames that minmax finds flat, and where integers are far
 * beyond their range. */
static bool alter(const trial *t, const gconv_plan *plan, const gconv_image *image, const spot *at) {
  size_t row = ((size_t)at->frame * (size_t)image->height + (size_t)at->y) * (size_t)image->width + (size_t)at->x;
  const gconv_oracle_sample *expected = &t->samples[row * (size_t)image->channels + (size_t)at->channel];
  if (!gconv_oracle_expect(t->oracle, at->output, bound_of(plan), t->samples))
    return false;
  bool flat = t->drawn.options.range == GCONV_RANGE_MINMAX && expected->value == 0;
  bool beyond = t->drawn.extreme && image->type != GCONV_F32;
  double range = image->type == GCONV_F32 ? 1e34 : image->type == GCONV_I16 ? 65535 : gconv_oracle_white(image->type);
  if (flat || beyond || !(expected->error < 0.25 * range))
    return false;
  void *sample = find(image, at);
  if (image->type == GCONV_U8)
    *(uint8_t *)sample ^= 0x80;
  else if (image->type != GCONV_F32)
    *(uint16_t *)sample ^= 0x8000;
  else
    *(float *)sample += *(float *)sample < 0 ? -1e34F : 1e34F;
  return true;
}

static bool check_verification(const trial *t, gconv_plan *plan, const gconv_image *outputs) {
  const gconv_image *in = &t->drawn.in.image;
  gconv_verification found = {0};
  if (gconv_plan_verify(plan, in, outputs, gconv_plan_outputs(plan), -1, &found) != GCONV_OK)
    return fail(t, "verification: %s", gconv_last_error());
  const gconv_oracle_shape *shape = &t->shape;
  uint64_t all = (uint64_t)shape->outputs * (uint64_t)shape->frames * (uint64_t)shape->height * (uint64_t)shape->width *
                 (uint64_t)shape->channels;
  if (found.compared != all || !(found.max_error <= found.allowed))
    return fail(t, "verification compared %" PRIu64 " samples of %" PRIu64 ", error %g, allowed %g", found.compared, all,
                found.max_error, found.allowed);
  uint64_t lot = t->session->common.seed + t->number;
  spot at = {(size_t)gconv_lot_below(&lot, (int32_t)shape->outputs), gconv_lot_below(&lot, shape->frames),
             gconv_lot_below(&lot, shape->height), gconv_lot_below(&lot, shape->width),
             gconv_lot_below(&lot, shape->channels)};
  if (!alter(t, plan, &outputs[at.output], &at))
    return true;
  gconv_status status = gconv_plan_verify(plan, in, outputs, gconv_plan_outputs(plan), -1, &found);
  if (status != GCONV_MISMATCH || found.output != at.output || found.frame != at.frame || found.y != at.y ||
      found.x != at.x || found.channel != at.channel)
    return fail(t, "altered output %zu, frame %d, y %d, x %d, channel %d; verification: status %d, %zu %d %d %d %d",
                at.output, at.frame, at.y, at.x, at.channel, (int)status, found.output, found.frame, found.y, found.x,
                found.channel);
  return true;
}

/* ---- One algorithm, one case ---- */

static bool check_threads(const trial *t, const gconv_image *expected) {
  for (size_t i = 0; i < GCONV_THREAD_COUNTS; i++) {
    gconv_plan *plan = NULL;
    gconv_image *outputs = make_images(t->shape.outputs);
    bool good = make_plan(t, t->session->common.cpus[i], t->tally->algorithm->name, &plan) == GCONV_OK &&
                gconv_plan_execute(plan, &t->drawn.in.image, outputs, gconv_plan_outputs(plan), NULL) == GCONV_OK;
    if (!good)
      fail(t, "with %d threads: %s", gconv_thread_counts[i], gconv_last_error());
    else if (!equal_all(outputs, expected, t->shape.outputs))
      good = fail(t, "other bits with %d threads", gconv_thread_counts[i]);
    free_images(outputs, t->shape.outputs);
    gconv_plan_free(plan);
    if (!good)
      return false;
  }
  return true;
}

static bool check_outputs(trial *t, gconv_plan *plan, gconv_image *outputs) {
  gconv_oracle_bound bound = bound_of(plan);
  size_t count = t->shape.outputs;
  if (gconv_plan_execute(plan, &t->drawn.in.image, outputs, gconv_plan_outputs(plan), NULL) != GCONV_OK)
    return fail(t, "%s", gconv_last_error());
  for (size_t i = 0; i < count; i++)
    if (!check_shape(t, &outputs[i]) || !check_metadata(t, &outputs[i]) || !check_samples(t, i, &outputs[i], bound))
      return false;
  if (t->tally->algorithm->exact && t->reference && !equal_all(outputs, t->reference, count))
    return fail(t, "other bits than cpu/reference");
  if (!check_guarded(t, plan, outputs) || !check_refusal(t, plan) || !check_planar_alpha(t) || !check_input(t))
    return false;
  if (t->number % 8 == 0 && strcmp(t->session->common.device_name, "cpu") == 0 && !check_threads(t, outputs))
    return false;
  return t->number % 4 == 0 ? check_verification(t, plan, outputs) : true;
}

/* The turn of t->tally's algorithm. */
static bool check(trial *t) {
  gconv_plan *plan = NULL;
  gconv_status status = make_plan(t, t->session->common.device, t->tally->algorithm->name, &plan);
  t->tally->cases++;
  if (!t->oracle) {
    t->tally->refused++;
    gconv_plan_free(plan);
    return status == GCONV_BAD_ARGUMENT ? true : fail(t, "a filter that finds no place gave status %d", (int)status);
  }
  if (status == GCONV_UNSUPPORTED) {
    t->tally->unsupported++;
    return true;
  }
  if (status != GCONV_OK)
    return fail(t, "%s", gconv_last_error());
  bool good = check_info(t, plan);
  if (good) {
    gconv_image *outputs = make_images(t->shape.outputs);
    good = check_outputs(t, plan, outputs);
    free_images(outputs, t->shape.outputs);
  }
  gconv_plan_free(plan);
  return good;
}

/* ---- A case ---- */

/* What cpu/reference says; nothing if that fails, which its own turn will report. */
static void refer(trial *t) {
  gconv_plan *plan = NULL;
  gconv_image *outputs = make_images(t->shape.outputs);
  if (make_plan(t, t->session->common.cpus[0], "reference", &plan) == GCONV_OK &&
      gconv_plan_outputs(plan) == t->shape.outputs &&
      gconv_plan_execute(plan, &t->drawn.in.image, outputs, gconv_plan_outputs(plan), NULL) == GCONV_OK)
    t->reference = outputs;
  else
    free_images(outputs, t->shape.outputs);
  gconv_plan_free(plan);
}

static bool prepare(trial *t) {
  if (!gconv_drawn_make(&t->drawn, t->session->common.seed, t->number))
    return false;
  t->shape = gconv_oracle_get_shape(&t->drawn.in.image, &t->drawn.filters, &t->drawn.options);
  size_t samples = (size_t)t->shape.frames * (size_t)t->shape.height * (size_t)t->shape.width * (size_t)t->shape.channels;
  t->before = malloc(t->drawn.in.bytes);
  t->samples = calloc(samples + 1, sizeof *t->samples);
  t->oracle = gconv_oracle_create(&t->drawn.in.image, &t->drawn.filters, &t->drawn.options);
  if (!t->before || !t->samples || (samples > 0 && !t->oracle))
    return false;
  memcpy(t->before, t->drawn.in.memory, t->drawn.in.bytes);
  if (t->oracle)
    refer(t);
  return true;
}

static void run_case(gconv_session *common, uint64_t number, bool verbose) {
  session *s = (session *)common;
  trial t = {.session = s, .number = number};
  if (prepare(&t)) {
    if (verbose)
      printf("case %" PRIu64 ": %s\n", number, t.drawn.text);
    for (size_t i = 0; i < s->algorithms; i++) {
      t.tally = &s->tallies[i];
      check(&t);
    }
  } else {
    puts("out of memory");
    s->common.failures++;
  }
  free_images(t.reference, t.shape.outputs);
  gconv_oracle_free(t.oracle);
  free(t.samples);
  free(t.before);
  gconv_drawn_free(&t.drawn);
}

/* ---- The session ---- */

static void choose_algorithms(session *s) {
  const gconv_algorithm_info *algorithm;
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)) != NULL && s->algorithms < MOST_ALGORITHMS; i++)
    if (gconv_session_has(&s->common, algorithm))
      s->tallies[s->algorithms++].algorithm = algorithm;
}

/* The share of the cases that an algorithm must support, as something to go by: integer, and algorithms outside the exact
 * family, are for some filters or types only. */
static double least_supported(const gconv_algorithm_info *algorithm) {
  if (strcmp(algorithm->name, "box") == 0)
    return 0.03;
  return algorithm->exact && strcmp(algorithm->name, "integer") != 0 ? 0.67 : 0.1;
}

/* What was reached, and whether that is enough to mean something. */
static void sum_up(session *s) {
  for (size_t i = 0; i < s->algorithms; i++) {
    const tally *t = &s->tallies[i];
    printf("%s/%s: %" PRIu64 " cases, %" PRIu64 " not supported, %" PRIu64 " refused by all; %" PRIu64 " samples, %" PRIu64
           " of %" PRIu64 " outputs undecided\n",
           s->common.device_name, t->algorithm->name, t->cases, t->unsupported, t->refused, t->samples, t->undecided,
           t->outputs);
    bool supported = t->cases - t->unsupported + BY_CHANCE >= (uint64_t)(least_supported(t->algorithm) * (double)t->cases);
    bool decided = 20 * t->undecided <= t->outputs + 20 * BY_CHANCE;
    if (!(supported && decided) && !s->common.single) {
      printf("FAILED %s: too few of the cases are supported, or more than 1 output in 20 is undecided\n",
             t->algorithm->name);
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
  if (!gconv_session_open(&s.common, "test_oracle", DEFAULT_CASES, count, words, &status))
    return status;
  choose_algorithms(&s);
  printf("device %s, seed %" PRIu64 "\n", s.common.device_name, s.common.seed);
  for (size_t i = 0; !s.common.single && i < s.algorithms; i++)
    if (s.tallies[i].algorithm->exact)
      s.common.failures += gconv_by_hand_failures(s.common.device, s.tallies[i].algorithm->name);
  gconv_session_run(&s.common, run_case);
  sum_up(&s);
  gconv_session_close(&s.common);
  return s.common.failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
