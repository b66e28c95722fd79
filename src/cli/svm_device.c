/* SPDX-License-Identifier: MIT */
/* Which device a support vector machine is trained or applied on. */
#include "cli/learn.h"
#include "cli/svm.h"
#include "cli/terminal.h"

#include <string.h>

/* Nanoseconds for each kernel value and for each of its columns, and the seconds that CUDA takes to start; about what a Zen
 * 3 and an H200 need for Letter and for Adult a9a. */
static const double CPU_VALUE = 3.5, CPU_COLUMN = 0.04, GPU_VALUE = 0.15, GPU_COLUMN = 0.0005, GPU_START = 0.5;

bool gconv_svm_pays(double values, double columns, int threads, double *seconds) {
  *seconds = values * (CPU_VALUE + CPU_COLUMN * columns) * 1e-9 / (threads > 0 ? threads : 1);
  return *seconds > GPU_START + values * (GPU_VALUE + GPU_COLUMN * columns) * 1e-9;
}

bool gconv_svm_choose(const char *device, double values, double columns, int threads, const char **name, char *why,
                      size_t size) {
  gconv_device_info gpu;
  double seconds;
  why[0] = '\0';
  *name = device;
  if (device && strcmp(device, "auto") != 0)
    return false;
  *name = "cpu";
  const bool pays = gconv_svm_pays(values, columns, gconv_threads_allowed(threads), &seconds);
  for (size_t i = 0; gconv_device_at(i, &gpu); i++)
    if (strncmp(gpu.name, "cuda", 4) == 0 && gpu.usable) {
      *name = pays ? "cuda" : "cpu";
      snprintf(why, size, "the CPU would take some %.2g s, which a GPU would%s beat", seconds, pays ? "" : " hardly");
      return true;
    }
  return false;
}

/* ---- Training ---- */

/* The kernel values of all machines, each time that the cases are trained on. */
static double count_values(const gconv_svm_run *run) {
  const gconv_svm_request *svm = &run->settings->svm;
  const gconv_dataset_info *info = gconv_dataset_get_info(run->data);
  const double classes = info->class_count > 1 ? (double)info->class_count : 1;
  const double pairs = classes > 1 ? classes * (classes - 1) / 2 : 1;
  const double cases = (double)info->cases * (classes > 1 ? 2 / classes : 1);
  double trainings = svm->folds > 0 ? svm->folds : 0;
  if (svm->grid) {
    enum { POINTS = 110, FOLDS = 5 }; /* of the default grid */
    trainings = POINTS * (trainings > 0 ? trainings : FOLDS);
  }
  if (run->settings->naming.output)
    trainings += run->options.probabilities ? 5 : 1;
  return pairs * cases * cases * trainings;
}

gconv_status gconv_svm_open_device(gconv_svm_run *run, gconv_message *message) {
  const gconv_settings *s = run->settings;
  const gconv_dataset_info *info = gconv_dataset_get_info(run->data);
  const double columns = (double)info->channels * (double)info->height * (double)info->width;
  const int threads = gconv_settle_threads(s->job.threads, s->quiet);
  const char *name = s->job.device;
  if (run->options.kernel == GCONV_SVM_SIGMOID) { /* whose tanh has other bits on a GPU */
    if (name && strncmp(name, "cuda", 4) == 0 && !s->quiet)
      gconv_say("--kernel sigmoid is trained on the CPU");
    name = "cpu";
  }
  gconv_svm_choose(name, count_values(run), columns, threads, &name, run->why, sizeof run->why);
  return gconv_learn_complain(gconv_device_open(name, threads, &run->device), message);
}
