/* SPDX-License-Identifier: MIT */
/* Chooses the device on which a support vector machine is trained or applied. */
#include "cli/learn.h"
#include "cli/svm.h"
#include "cli/terminal.h"

#include <string.h>

/*
 * Costs in nanoseconds for each kernel value. All threads share `value`, and `column` for each column. One thread (on a GPU:
 * one block) does `solve` for each machine. The figures of CUDA are fitted to an H200, the figures of the CPU to 16 threads
 * of the Xeon beside it and to two cores of a Zen 3:
 *
 *                                       Letter: 492e6 values,     a9a: 1060e6 values,
 *                                       16 columns, 325 machines  123 columns, 1 machine
 *   16 threads, measured and estimated  0.24 s, 0.24 s            1.53 s, 1.52 s
 *   H200, measured and estimated        0.056 s, 0.057 s          0.585 s, 0.584 s
 *
 * A process that uses CUDA starts 0.2 to 0.3 s later. A user waits for that too. So Letter is trained on 16 threads of the
 * CPU, which have the model sooner, but on CUDA where there are 8, and where --grid or -v trains it several times.
 */
typedef struct costs {
  double value, column, solve;
} costs;

static const costs CPU = {2.96, 0.015, 0.87}, GPU = {0.11, 0.0002, 0.416};
static const double GPU_START = 0.25;

static double seconds_of(const costs *c, const gconv_svm_effort *e, double threads, double solvers) {
  const double at_once = e->machines < solvers ? e->machines : solvers;
  const double solving = at_once > 0 ? c->solve / at_once : 0;
  return e->values * ((c->value + c->column * e->columns) / threads + solving) * 1e-9;
}

/* True if a GPU, which has to start first, is done sooner than the CPU. Estimates the *seconds that the CPU takes. */
static bool gpu_pays(const gconv_svm_effort *effort, int threads, double *seconds) {
  enum { MULTIPROCESSORS = 132 };
  const double count = threads > 0 ? threads : 1;
  const double worth = 0.5 + 0.5 * count; /* in whole cores: two threads share a core, or the memory */
  *seconds = seconds_of(&CPU, effort, worth, worth);
  return *seconds > GPU_START + seconds_of(&GPU, effort, 1, MULTIPROCESSORS);
}

bool gconv_svm_choose(const char *device, const gconv_svm_effort *effort, int threads, const char **name, char *why,
                      size_t size) {
  gconv_device_info gpu;
  double seconds;
  why[0] = '\0';
  *name = device;
  if (device && strcmp(device, "auto") != 0)
    return false;
  *name = "cpu";
  const bool pays = gpu_pays(effort, gconv_threads_allowed(threads), &seconds);
  for (size_t i = 0; gconv_device_at(i, &gpu); i++)
    if (strncmp(gpu.name, "cuda", 4) == 0 && gpu.usable) {
      *name = pays ? "cuda" : "cpu";
      snprintf(why, size, "the CPU would take some %.2g s, which a GPU would%s beat", seconds, pays ? "" : " hardly");
      return true;
    }
  return false;
}

/* ---- Training ---- */

/* Counts the kernel values of all trainings of all machines. A fold trains on all cases but a share, and predicts this
 * share: n^2 (1 - s)^2 + n^2 s (1 - s) values, which are n^2 (1 - s). */
static gconv_svm_effort measure(const gconv_svm_run *run) {
  const gconv_svm_settings *svm = run->settings;
  const gconv_dataset_info *info = gconv_dataset_get_info(run->data);
  const double classes = info->class_count > 1 ? (double)info->class_count : 1;
  const double pairs = classes > 1 ? classes * (classes - 1) / 2 : 1;
  const double cases = (double)info->cases * (classes > 1 ? 2 / classes : 1);
  double trainings = svm->folds > 0 ? svm->folds - 1 : 0;
  if (svm->grid) {
    const gconv_svm_grid grid = gconv_svm_grid_of(run);
    trainings = (double)(grid.rows * grid.columns * (gconv_svm_grid_folds(run) - 1));
  }
  if (run->settings->common.output)
    trainings += run->options.probabilities ? 5 : 1;
  return (gconv_svm_effort){pairs * cases * cases * trainings,
                            (double)info->channels * (double)info->height * (double)info->width, pairs};
}

gconv_status gconv_svm_open_device(gconv_svm_run *run) {
  const gconv_svm_settings *s = run->settings;
  const gconv_svm_effort effort = measure(run);
  const int threads = gconv_settle_threads(s->common.threads, s->common.quiet);
  const char *name = s->common.device;
  if (run->options.kernel >= GCONV_SVM_SIGMOID) { /* on a GPU, tanh has other bits, and tables are of cases */
    if (name && strncmp(name, "cuda", 4) == 0 && !s->common.quiet)
      gconv_say("--kernel %s is trained on the CPU", run->options.kernel == GCONV_SVM_SIGMOID ? "sigmoid" : "precomputed");
    name = "cpu";
  }
  gconv_svm_choose(name, &effort, threads, &name, run->why, sizeof run->why);
  return gconv_device_open(name, threads, &run->device);
}
