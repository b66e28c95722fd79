/* SPDX-License-Identifier: MIT */
/* Whether a job is done first on the CPU or on a GPU, told before the GPU is started. */
#include "conv/device_choose.h"
#include "conv/choose.h"
#include "conv/habits.h"
#include "conv/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What can be said of any GPU of the last ten years; a faster one is told from the CPU by these as well, as it is the start
 * that decides. An image crosses the bus once each way, while others do in the other. Large filters are done by transforms,
 * whatever their size. */
static const double BUS_BYTES_PER_MS = 2.5e7;
static const double FLOP_PER_MS = 8e9;
static const double TRANSFORMED_SAMPLES_PER_MS = 1e7; /* of the output */
static const double IMAGE_MS = 0.2;                   /* for launching and waiting */
static const double END_OF_START = 0.5;               /* ending CUDA, as a part of starting it: measured on an H200 */
static const double END_OF_DECODER = 0.2;             /* what the decoder adds to that, as a part of starting it: likewise */
static const double JPEG_BYTES_PER_MS = 1.8e6;        /* of files that its engines decode side by side: likewise */

static double gpu_ms(const gconv_plan *plan) {
  const gconv_plan_info *info = &plan->info;
  double filtering = info->flop / FLOP_PER_MS;
  double transforming = info->flop / (2.0 * info->rows * info->columns) / TRANSFORMED_SAMPLES_PER_MS;
  if (strcmp(plan->options.algorithm, "auto") == 0 && transforming < filtering)
    filtering = transforming;
  return info->bytes / BUS_BYTES_PER_MS + filtering + IMAGE_MS;
}

/* ---- Ways to do the job: the milliseconds until all is done ---- */

/* All of it by a GPU that is ready: it works while the host reads and writes. */
static double ready_ms(const gconv_device_choice *choice, const gconv_job *job) {
  return fmax(choice->gpu_ms, job->host_ms - job->spared_ms);
}

static double decoding_ms(const gconv_device_choice *choice, const gconv_job *job) {
  double host = fmax(job->host_ms - job->spared_ms - job->decoding_ms, 0);
  return fmax(fmax(choice->gpu_ms, host), job->jpeg_bytes / JPEG_BYTES_PER_MS);
}

/* The CPU does what it can until the GPU is ready. A job that is done by then wants none. */
static double handed_over_ms(double start, double cpu, double gpu) {
  return start < cpu ? start + (1 - start / cpu) * gpu : HUGE_VAL;
}

static double waiting_ms(const gconv_device_choice *choice, const gconv_job *job) {
  return fmax(choice->start_ms - job->hidden_ms, 0);
}

/* All wait for the GPU. What it does for several images is hidden by reading and writing the others, but for one. */
static double waited_for_ms(const gconv_device_choice *choice, const gconv_job *job) {
  double host = job->host_ms - job->spared_ms, one = choice->gpu_ms / (double)job->images;
  return waiting_ms(choice, job) + (job->images > 1 ? fmax(host + one, choice->gpu_ms) : host + one);
}

/* The same, and from when its decoder is ready, that decodes. */
static double waited_for_decoder_ms(const gconv_device_choice *choice, const gconv_job *job) {
  double before = ready_ms(choice, job);
  return waiting_ms(choice, job) + handed_over_ms(choice->decoder_ms, before, decoding_ms(choice, job));
}

bool gconv_gpu_pays(gconv_device_choice *choice, const gconv_job *job) {
  double cpu = job->host_ms + choice->cpu_ms, gpu, decoder = HUGE_VAL;
  gpu = job->cpu_begins ? handed_over_ms(choice->start_ms, cpu, ready_ms(choice, job)) : waited_for_ms(choice, job);
  if (job->decoding_ms > 0)
    decoder = job->cpu_begins ? handed_over_ms(choice->start_ms + choice->decoder_ms, cpu, decoding_ms(choice, job))
                              : waited_for_decoder_ms(choice, job);
  decoder += END_OF_DECODER * choice->decoder_ms;
  choice->decodes = decoder < gpu;
  return fmin(gpu, decoder) + choice->end_ms < cpu;
}

/* Adds what images like `like` take, `count` of them. */
static gconv_status add_images(gconv_device *cpu, const gconv_image *like, double count, const gconv_job *job,
                               gconv_device_choice *choice) {
  gconv_plan *plan = NULL;
  GCONV_TRY(gconv_plan_outline(cpu, like, job->filters, job->options, &plan));
  for (size_t i = 0; i < plan->pass_count; i++)
    choice->cpu_ms += count * gconv_expected_ms(&plan->passes[i].problem, cpu, plan->passes[i].algorithm);
  choice->gpu_ms += count * gpu_ms(plan);
  gconv_plan_free(plan);
  return GCONV_OK;
}

/* Neighbours of one shape are estimated once. */
gconv_status gconv_job_estimate(gconv_device *cpu, const gconv_job *job, gconv_device_choice *choice) {
  double share = (double)job->images / (double)job->like_count;
  choice->cpu_ms = job->cpu_ms;
  choice->gpu_ms = job->gpu_ms;
  if (!job->filters)
    return GCONV_OK;
  for (size_t i = 0, run; i < job->like_count; i += run) {
    for (run = 1; i + run < job->like_count && gconv_image_same_shape(&job->likes[i], &job->likes[i + run]);)
      run++;
    GCONV_TRY(add_images(cpu, &job->likes[i], (double)run * share, job, choice));
  }
  return GCONV_OK;
}

static bool cpu_has(const char *algorithm) {
  const gconv_algorithm *row;
  for (size_t i = 0; (row = gconv_algorithm_row(i)); i++)
    if (strcmp(row->info.device, "cpu") == 0 && strcmp(row->info.name, algorithm) == 0)
      return true;
  return strcmp(algorithm, "auto") == 0;
}

/* "280 ms", "1.5 s". */
static void print_time(char *text, size_t size, double milliseconds) {
  if (milliseconds < 1000)
    snprintf(text, size, milliseconds < 9.5 ? "%.1f ms" : "%.0f ms", milliseconds);
  else
    snprintf(text, size, "%.1f s", milliseconds * 1e-3);
}

static void explain(const gconv_job *job, gconv_device_choice *choice) {
  char start[32], end[32], filtering[32], spared[64] = "";
  print_time(start, sizeof start, choice->start_ms);
  print_time(end, sizeof end, choice->end_ms);
  print_time(filtering, sizeof filtering, choice->cpu_ms);
  if (job->spared_ms > 0) {
    char time[32];
    print_time(time, sizeof time, job->spared_ms);
    snprintf(spared, sizeof spared, ", compressing %s", time);
  }
  snprintf(choice->reason, sizeof choice->reason,
           "starting CUDA takes about %s%s and ending it %s, filtering %zu image%s on the CPU about %s%s", start,
           choice->remembered ? "" : " (not measured yet)", end, job->images, job->images == 1 ? "" : "s", filtering,
           spared);
}

/* The job with what its host takes as it is on this machine, by all threads of the CPU. */
static gconv_job on_this_machine(const gconv_device *cpu, const gconv_job *job) {
  gconv_job scaled = *job;
  double pace;
  gconv_habit_recall(GCONV_HOST_PACE, &pace);
  double share = pace / gconv_threads_worth(gconv_threads_count(cpu->threads));
  scaled.hidden_ms *= pace;
  scaled.host_ms *= share;
  scaled.spared_ms *= share;
  scaled.decoding_ms *= share;
  return scaled;
}

void gconv_job_remember(double estimated_ms, double measured_ms, int threads) {
  const double most = 10; /* times as slow or fast: others had the machine */
  double pace = measured_ms / estimated_ms * gconv_threads_worth(threads) / threads;
  if (gconv_cuda_may_start() && pace > 1 / most && pace < most)
    gconv_habit_remember(GCONV_HOST_PACE, pace);
}

gconv_status gconv_device_choose(gconv_device *cpu, const gconv_job *job, gconv_device_choice *choice) {
  *choice = (gconv_device_choice){.name = "auto"};
  if (!gconv_cuda_may_start()) { /* known before anything is opened: images may go by rows from the first on */
    choice->name = "cpu";
    gconv_remark("device cpu: this build or this machine has no CUDA");
    return GCONV_OK;
  }
  if (job->like_count == 0)
    return GCONV_OK;
  if (job->filters && !cpu_has(job->options->algorithm))
    return GCONV_OK;
  gconv_job here = on_this_machine(cpu, job);
  choice->remembered = gconv_habit_recall(GCONV_CUDA_START, &choice->start_ms);
  gconv_habit_recall(GCONV_DECODER_START, &choice->decoder_ms);
  choice->end_ms = END_OF_START * choice->start_ms;
  GCONV_TRY(gconv_job_estimate(cpu, job, choice));
  explain(&here, choice);
  if (!gconv_gpu_pays(choice, &here)) {
    choice->name = "cpu";
    choice->decodes = false;
  }
  gconv_remark("device %s: %s", strcmp(choice->name, "cpu") == 0 ? "cpu" : "cuda", choice->reason);
  return GCONV_OK;
}
