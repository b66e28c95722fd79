/* SPDX-License-Identifier: MIT */
/* Whether a job is done first on the CPU or on a GPU, told before the GPU is started. */
#include "conv/device_choose.h"
#include "conv/choose.h"
#include "conv/cuda_start.h"
#include "conv/plan.h"

#include <stdio.h>
#include <string.h>

/* What can be said of any GPU of the last ten years; a faster one is told from the CPU by these as well, as it is the start
 * that decides. An image crosses the bus once each way. Large filters are done by transforms, whatever their size. */
static const double BUS_BYTES_PER_MS = 1.5e7;
static const double FLOP_PER_MS = 8e9;
static const double TRANSFORMED_SAMPLES_PER_MS = 1e7; /* of the output */
static const double IMAGE_MS = 0.2;                   /* for launching and waiting */
static const double END_OF_START = 0.5;               /* ending CUDA, as a part of starting it: measured on an H200 */

static double gpu_ms(const gconv_plan *plan) {
  const gconv_plan_info *info = &plan->info;
  double filtering = info->flop / FLOP_PER_MS;
  double transforming = info->flop / (2.0 * info->rows * info->columns) / TRANSFORMED_SAMPLES_PER_MS;
  if (strcmp(plan->options.algorithm, "auto") == 0 && transforming < filtering)
    filtering = transforming;
  return info->bytes / BUS_BYTES_PER_MS + filtering + IMAGE_MS;
}

bool gconv_gpu_pays(const gconv_device_choice *choice, const gconv_job *job) {
  double waiting = choice->start_ms > job->hidden_ms ? choice->start_ms - job->hidden_ms : 0;
  double one = choice->gpu_ms / (double)job->images;
  double working = job->images > 1 ? choice->gpu_ms - (job->host_ms - job->spared_ms) : choice->gpu_ms;
  return waiting + (working > one ? working : one) + choice->end_ms < choice->cpu_ms + job->spared_ms;
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
  choice->remembered = gconv_cuda_start_recall(&choice->start_ms);
  choice->end_ms = END_OF_START * choice->start_ms;
  GCONV_TRY(gconv_job_estimate(cpu, job, choice));
  explain(job, choice);
  if (!gconv_gpu_pays(choice, job))
    choice->name = "cpu";
  gconv_remark("device %s: %s", strcmp(choice->name, "cpu") == 0 ? "cpu" : "cuda", choice->reason);
  return GCONV_OK;
}
