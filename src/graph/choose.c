/* SPDX-License-Identifier: MIT */
#include "graph/choose.h"
#include "base/control.h"
#include "base/ending.h"
#include "base/memory.h"
#include "operation/pick.h"
#include "operation/tuning.h"

#include <stdatomic.h>
#include <string.h>

const char *gconv_math_name(gconv_math math) {
  static const char *const names[] = {"fp32", "tf32", "fp16", "bf16"};
  return (size_t)math < sizeof names / sizeof names[0] ? names[math] : NULL;
}

/* How an algorithm would solve a layer. */
typedef struct layer_candidate {
  gconv_layer_problem
      problem; /* the problem of one execution, with the images that its workspace allows and the math that it computes in */
  double estimate_ms; /* estimated milliseconds for all images */
} layer_candidate;

/* Returns the bytes of workspace. On the CPU, each thread has one; four are counted, so that choices do not depend on the
 * number of threads. */
static size_t workspace_of(const gconv_device *device, const gconv_layer_algorithm *row,
                           const gconv_layer_problem *problem) {
  const size_t counted = device->type == &gconv_device_type_cpu ? 4 : 1;
  size_t bytes = row->workspace_bytes ? row->workspace_bytes(problem) : 0;
  return bytes > SIZE_MAX / counted ? SIZE_MAX : bytes * counted;
}

/* Sets problem->images to the most images that the workspace allows, so that executions are of equal size. Returns false if
 * not even one image fits. */
static bool fit_batch(const gconv_device *device, const gconv_layer_algorithm *row, gconv_layer_problem *problem) {
  const int32_t all = problem->images;
  int64_t fits = 0, fails = (int64_t)all + 1; /* all images are tried first */
  for (; fails - fits > 1; problem->images = (int32_t)(fits + (fails - fits) / 2))
    if (workspace_of(device, row, problem) <= problem->workspace_limit)
      fits = problem->images;
    else
      fails = problem->images;
  if (fits == 0)
    return false;
  int32_t turns = (int32_t)((all - 1) / fits + 1);
  problem->images = (all - 1) / turns + 1;
  return true;
}

/* Fits the problem to an algorithm. Returns why the algorithm cannot solve it, or NULL. --math allows rounding but does not
 * demand it: an algorithm that cannot use it works in true float32. */
static const char *fit(const gconv_device *device, const gconv_layer_algorithm *row, gconv_layer_problem *problem) {
  if ((problem->in_blocks || problem->out_blocks) && !row->blocks)
    return "tensors in blocks of channels";
  if ((problem->in_kept || problem->out_kept) && !row->keeps)
    return "tensors of 16 bits between layers";
  const char *obstacle = row->supports(problem);
  if (obstacle && problem->math != GCONV_MATH_FP32) {
    problem->math = GCONV_MATH_FP32;
    obstacle = row->supports(problem);
  }
  if (!obstacle && !fit_batch(device, row, problem))
    obstacle = "its workspace for one image is above the limit";
  return obstacle;
}

/* Returns why an algorithm cannot solve the problem, or NULL. Sets *priced, the problem by which auto chooses: it has whole
 * images, even if few rows are made at a time; and it has choice->chosen_for images, or fewer if the workspace does not
 * allow so many. An algorithm that is asked for by name need not be able to solve *priced. */
static const char *find_obstacle(const gconv_device *device, const gconv_layer_algorithm *row,
                                 const gconv_layer_choice *choice, bool named, gconv_layer_problem *priced,
                                 gconv_layer_problem *problem) {
  *priced = choice->whole;
  priced->images = choice->chosen_for;
  *problem = choice->problem;
  const char *obstacle = fit(device, row, priced);
  if (obstacle && !named)
    return obstacle;
  problem->math = priced->math;
  const char *why = fit(device, row, problem);
  if (obstacle)
    *priced = *problem;
  return why;
}

static double ratio_of(const gconv_prices *prices, const gconv_layer_algorithm *row, const gconv_layer_problem *problem,
                       int32_t images) {
  gconv_tuning_row like = {.type = GCONV_F32,
                           .channels = gconv_tuning_layer_class(problem->filters),
                           .samples = (double)images * problem->filters * problem->out_height * problem->out_width,
                           .taps = (double)gconv_layer_taps(problem),
                           .layer = true};
  snprintf(like.algorithm, sizeof like.algorithm, "%s", row->info.name);
  return problem->math == GCONV_MATH_FP32 ? gconv_tuning_ratio(prices->ratios, &like) : 1;
}

static void set_price(const gconv_prices *prices, const gconv_layer_algorithm *row, const gconv_layer_choice *choice,
                      const gconv_layer_problem *priced, double *estimate_ms, gconv_candidate *candidate) {
  int32_t turns = (choice->chosen_for - 1) / priced->images + 1;
  const double outputs = (double)priced->filters * priced->out_height * priced->out_width;
  *estimate_ms = turns * row->cost(priced, &prices->machine) * choice->images / choice->chosen_for;
  if (row->tails < choice->tail)
    *estimate_ms += prices->machine.launch_ms + 8 * outputs * choice->images / prices->machine.bytes_per_ms;
  gconv_candidate_price(candidate, *estimate_ms, ratio_of(prices, row, priced, choice->chosen_for), prices->source);
}

/* The bound of a sum, relative to sum |w * x|, that auto accepts in float32: half a level of u8. Chains of more than some
 * 33,000 products may be off by more; then auto takes an algorithm that adds in float64. */
static const double ACCURACY = 0.5 / 255;

gconv_status gconv_layer_check_rounding(const gconv_layer_algorithm *algorithm, const gconv_layer_problem *problem,
                                        bool is_auto) {
  const double bound = algorithm->error_bound(problem);
  const char *name = algorithm->info.name;
  const long long taps = (long long)gconv_layer_taps(problem);
  if (problem->math != GCONV_MATH_FP32 || bound <= ACCURACY)
    return GCONV_OK;
  if (is_auto && bound > 8 * ACCURACY)
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "rounding may make sums of %lld products wrong by up to %.2g of their size, and no algorithm of %s that "
        "may be taken does better: direct64 of the CPU does, or name an algorithm, such as %s",
        taps, bound, algorithm->info.device, name);
  gconv_warn_once("rounding",
                  "rounding of the algorithm %s may make sums of %lld products wrong by up to %.2g of their size", name,
                  taps, bound);
  return GCONV_OK;
}

gconv_status gconv_layer_choose(const gconv_device *device, const char *without, const char *wanted,
                                gconv_layer_choice *choice, FILE *reasons) {
  const gconv_prices prices = gconv_device_prices(device);
  gconv_candidate candidates[GCONV_MOST_CANDIDATES];
  layer_candidate how[GCONV_MOST_CANDIDATES];
  const gconv_layer_algorithm *row;
  size_t count = 0, picked;
  for (; (row = gconv_layer_algorithm_row(count)) && count < GCONV_MOST_CANDIDATES; count++) {
    gconv_candidate *candidate = &candidates[count];
    *candidate = (gconv_candidate){.info = &row->info, .available = row->available, .library = row->library};
    candidate->classic = gconv_ends_in(row->info.name, "-classic"); /* the names of algorithms to learn from end so */
    if (strcmp(row->info.device, device->type->name) != 0)
      continue;
    gconv_layer_problem priced;
    bool named = strcmp(wanted, row->info.name) == 0;
    candidate->obstacle = find_obstacle(device, row, choice, named, &priced, &how[count].problem);
    if (candidate->obstacle)
      continue;
    candidate->bound = row->error_bound(&how[count].problem);
    candidate->accuracy = how[count].problem.math == GCONV_MATH_FP32 ? ACCURACY : 0;
    set_price(&prices, row, choice, &priced, &how[count].estimate_ms, candidate);
  }
  GCONV_TRY(gconv_pick(candidates, count, device->type->name, wanted, without, reasons, &picked));
  choice->algorithm = row = gconv_layer_algorithm_row(picked);
  choice->problem = how[picked].problem;
  choice->workspace_bytes = row->workspace_bytes ? row->workspace_bytes(&choice->problem) : 0;
  choice->estimate_ms = how[picked].estimate_ms;
  return GCONV_OK;
}

const gconv_layer_algorithm *gconv_layer_keeper(const gconv_device *device, const char *without, gconv_math math) {
  const gconv_layer_algorithm *row;
  size_t i = 0;
  if (without || (math != GCONV_MATH_FP16 && math != GCONV_MATH_BF16))
    return NULL;
  while ((row = gconv_layer_algorithm_row(i)) != NULL && !(row->keeps && strcmp(row->info.device, device->type->name) == 0))
    i++;
  return row && (!row->available || !row->available()) ? row : NULL;
}

bool gconv_layer_keep(const gconv_layer_algorithm *keeper, gconv_layer_problem *first, gconv_layer_problem *second) {
  gconv_layer_problem makes = *first, takes = *second;
  makes.out_kept = takes.in_kept = true;
  if (first->images != second->images || first->filters != second->channels || first->out_height != second->height ||
      first->out_width != second->width || keeper->supports(&makes) || keeper->supports(&takes))
    return false;
  *first = makes;
  *second = takes;
  return true;
}

/* ---- Weights ---- */

enum { LARGE_WEIGHTS = 2 << 20 }; /* bytes from which on weights are in huge pages, which are read faster */

size_t gconv_layer_weight_bytes(const gconv_layer_algorithm *algorithm, const gconv_layer_problem *problem) {
  const size_t plain = (size_t)gconv_layer_weight_floats(problem);
  const size_t prepared = algorithm->prepared_floats ? algorithm->prepared_floats(problem) : 0;
  return prepared > PTRDIFF_MAX / sizeof(float) - plain ? SIZE_MAX : (plain + prepared) * sizeof(float);
}

gconv_status gconv_layer_new_weights(const gconv_layer_algorithm *algorithm, const gconv_layer_problem *problem,
                                     float **weights, size_t *count) {
  const size_t plain = (size_t)gconv_layer_weight_floats(problem), bytes = gconv_layer_weight_bytes(algorithm, problem);
  void *memory = NULL;
  if (bytes == SIZE_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "the prepared weights would exceed the address space");
  GCONV_TRY((bytes < LARGE_WEIGHTS ? gconv_allocate : gconv_allocate_workspace)(bytes, "the weights of a layer", &memory));
  *weights = memory;
  *count = bytes / sizeof(float);
  memset(*weights + plain - 16, 0, 16 * sizeof(float)); /* zeros the gap after the biases */
  return GCONV_OK;
}

/* ---- Execution on the CPU ---- */

int32_t gconv_layer_turns(const gconv_layer_problem *problem, int32_t images) {
  return (images - 1) / problem->images + 1;
}

int32_t gconv_layer_turn_first(const gconv_layer_problem *problem, int32_t images, int32_t turn) {
  int64_t first = (int64_t)turn * problem->images, last = images - problem->images;
  return (int32_t)(first < last ? first : last);
}

typedef struct task_job {
  const gconv_layer_algorithm *algorithm;
  gconv_layer_execution execution;
  uint8_t *workspace;
  size_t workspace_bytes;
  atomic_int failure; /* the first status that was not GCONV_OK */
} task_job;

static void execute_task(void *context, size_t turn, int seat) {
  task_job *job = context;
  gconv_layer_execution execution = job->execution;
  execution.task = turn;
  execution.workspace = job->workspace ? job->workspace + (size_t)seat * job->workspace_bytes : NULL;
  gconv_status status = job->algorithm->execute(&execution);
  int none = GCONV_OK;
  if (status != GCONV_OK)
    atomic_compare_exchange_strong(&job->failure, &none, (int)status);
}

gconv_status gconv_layer_execute_cpu(const gconv_layer_algorithm *algorithm, const gconv_layer_problem *problem,
                                     int32_t images, const float *weights, const float *in, float *out,
                                     gconv_threads *threads, uint8_t *workspace, size_t workspace_bytes) {
  const size_t in_floats =
      (size_t)gconv_layer_image_floats(problem->channels, gconv_layer_plane(problem), problem->in_blocks);
  const size_t out_floats = (size_t)gconv_layer_image_floats(
      problem->filters, (int64_t)problem->out_height * problem->out_width, problem->out_blocks);
  for (int32_t turn = 0; turn < gconv_layer_turns(problem, images); turn++) {
    const size_t first = (size_t)gconv_layer_turn_first(problem, images, turn), tasks = algorithm->tasks(problem);
    task_job job = {
        .algorithm = algorithm,
        .execution = {.problem = problem, .weights = weights, .in = in + first * in_floats, .out = out + first * out_floats},
        .workspace = workspace,
        .workspace_bytes = workspace_bytes,
        .failure = GCONV_OK};
    if (threads)
      gconv_threads_run_in_parts_or_stop(threads, tasks, execute_task, &job);
    for (size_t i = 0; !threads && i < tasks; i++)
      execute_task(&job, i, 0);
    GCONV_TRY(gconv_control_check());
    const int status = atomic_load(&job.failure);
    if (status != GCONV_OK)
      return gconv_fail((gconv_status)status, "the algorithm %s failed on the CPU", algorithm->info.name);
  }
  return GCONV_OK;
}
