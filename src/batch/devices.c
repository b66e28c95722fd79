/* SPDX-License-Identifier: MIT */
#include "batch/devices.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "device/decoder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GPUS = 64 };

/* A GPU, and the thread that opens it. */
struct gpu {
  gconv_devices *devices;
  char name[32];
  pthread_t thread;
  bool started;         /* the thread */
  gconv_device *device; /* NULL before it is open, and if that fails */
  atomic_bool decodes;  /* its decoder has started */
};

struct gconv_devices {
  const gconv_batch *batch;
  gconv_worth worth;
  int threads, workers;
  int pools;           /* pools of threads: one for each worker; for each GPU, if one plan keeps all threads busy */
  int share;           /* threads of a pool */
  bool chosen;         /* the device is "auto": `worth` chooses it */
  bool open;           /* the user left the device open: the CPU may begin */
  bool starts;         /* decoders of GPUs are started: a GPU shall decode, and there are enough images */
  gconv_device **cpus; /* [pools]; NULL before the first use */
  struct gpu gpus[MOST_GPUS];

  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  int gpu_count;       /* 0: the CPU takes all images */
  int opening;         /* GPUs that are not open yet: none is used before all are open */
  int running;         /* threads that open GPUs and start decoders */
  bool ended;          /* all groups are begun */
  bool left;           /* the run has ended while threads still open GPUs: the last of these threads frees *devices */
  gconv_status status; /* why a needed GPU is missing */
  gconv_message why;
  bool waited;    /* a worker has waited for a GPU */
  double wait_ms; /* how long the first such wait took */
};

static bool is_cpu(const gconv_device *device) {
  return strcmp(gconv_device_get_info(device)->name, "cpu") == 0;
}

/* ---- Opening GPUs --------------------------------------------------------------------------------------------------- */

/* Asks for all queues of a GPU; main.c asks for two. Each engine of the decoder needs its own queue: with too few queues,
 * they work one after the other, and take 7 times as long. Must be called before CUDA starts. */
static void ask_for_queues(void) {
  const char *queues = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  if (queues && strcmp(queues, "2") == 0)
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
}

/* Starts the decoder, if images still need it. */
static void start_decoder(struct gpu *gpu) {
  gconv_devices *devices = gpu->devices;
  pthread_mutex_lock(&devices->lock);
  bool wanted = gpu->device && !is_cpu(gpu->device) && devices->starts && !devices->ended;
  pthread_mutex_unlock(&devices->lock);
  if (wanted)
    atomic_store(&gpu->decodes, gconv_device_start_decoder(gpu->device) == GCONV_OK);
}

static void free_devices(gconv_devices *devices) {
  for (int i = 0; i < MOST_GPUS; i++)
    gconv_device_close(devices->gpus[i].device);
  pthread_cond_destroy(&devices->changed);
  pthread_mutex_destroy(&devices->lock);
  free(devices);
}

/* If the CPU filters meanwhile, the decoder is started before the GPU counts as open, because a busy GPU delays this start.
 * Otherwise the decoder is started afterwards. */
static void *open_gpu(void *argument) {
  struct gpu *gpu = argument;
  gconv_devices *devices = gpu->devices;
  gconv_status status = gconv_device_open(gpu->name, devices->share, &gpu->device);
  if (devices->open)
    start_decoder(gpu);
  pthread_mutex_lock(&devices->lock);
  if (status != GCONV_OK && devices->status == GCONV_OK)
    devices->status = gconv_complain(&devices->why, status, "%s", gconv_last_error());
  if (gpu->device && is_cpu(gpu->device)) /* "auto" found no GPU */
    devices->gpu_count = 0;
  --devices->opening;
  pthread_cond_broadcast(&devices->changed);
  pthread_mutex_unlock(&devices->lock);
  if (!devices->open)
    start_decoder(gpu);
  pthread_mutex_lock(&devices->lock);
  bool is_last = --devices->running == 0 && devices->left;
  pthread_mutex_unlock(&devices->lock);
  if (is_last)
    free_devices(devices);
  return NULL;
}

/* ---- Which GPUs ------------------------------------------------------------------------------------------------------ */

bool gconv_devices_are_several(const char *name) {
  return name && (strcmp(name, "cuda:all") == 0 || strchr(name, ',') != NULL);
}

/* Lists the GPUs of a name: of a list, such as "cuda:0,2", or all usable GPUs, for "cuda:all". If there is none, lists
 * "cuda": opening it fails with the reason. Returns how many. */
static int list_gpus(const char *name, struct gpu gpus[MOST_GPUS]) {
  gconv_device_info info;
  bool all = strcmp(name, "cuda:all") == 0;
  int count = 0;
  for (size_t i = 0; all && count < MOST_GPUS && gconv_device_at(i, &info); i++)
    if (info.usable && strncmp(info.name, "cuda", 4) == 0)
      snprintf(gpus[count++].name, sizeof gpus->name, "%s", info.name);
  for (const char *at = all ? "" : name; *at && count < MOST_GPUS; at += strcspn(at, ","), at += *at == ',')
    snprintf(gpus[count++].name, sizeof gpus->name, "%s%.*s", at == name ? "" : "cuda:", (int)strcspn(at, ","), at);
  if (count == 0)
    snprintf(gpus[count++].name, sizeof gpus->name, "cuda");
  return count;
}

/* Opens the GPUs for which there is a worker. */
static void begin_gpus(gconv_devices *devices, int count) {
  if (devices->starts)
    ask_for_queues();
  count = count < devices->workers ? count : devices->workers;
  devices->opening = devices->running = devices->gpu_count = count;
  for (int i = 0; i < count; i++) {
    struct gpu *gpu = &devices->gpus[i];
    gpu->devices = devices;
    gpu->started = gconv_thread_start(&gpu->thread, open_gpu, gpu);
    if (!gpu->started)
      open_gpu(gpu);
  }
}

/* ---- Beginning ----------------------------------------------------------------------------------------------------- */

static bool wants_gpu(const gconv_devices *devices) {
  const gconv_worth *worth = &devices->worth;
  if (!devices->chosen)
    return strcmp(devices->batch->device, "cpu") != 0;
  return gconv_gpu_may_be_there() && worth->gpu_can && (!worth->cpu_can || worth->gpu);
}

/* Chooses the number of workers. On a CPU, there is at most one for each thread. If one plan keeps a whole device busy,
 * there are two for each device: one decodes or writes while the other executes. If a GPU decodes, there are 1.5 times as
 * many, as they mostly wait. */
static void choose_workers(gconv_devices *devices, int gpus, bool decodes, size_t most) {
  const gconv_batch *batch = devices->batch;
  bool shares = batch->operation->type->shares;
  int queues = gpus > 0 ? gpus : 1;
  int usual = shares ? 2 * queues : decodes ? devices->threads + (devices->threads + 1) / 2 : devices->threads;
  int workers = batch->jobs > 0 && (gpus > 0 || batch->jobs < usual) ? batch->jobs : usual;
  int files = gconv_files_allowed() / GCONV_WORKER_FILES; /* the system opens no more */
  workers = workers < files ? workers : files > 1 ? files : 1;
  devices->workers = most > 0 && (size_t)workers > most ? (int)most : workers;
  devices->pools = shares && queues < devices->workers ? queues : devices->workers;
  devices->share = devices->threads < devices->pools ? 1 : devices->threads / devices->pools;
  devices->starts = decodes && gconv_gpu_may_decode(batch) && !batch->only_explained &&
                    batch->inputs->count > (size_t)devices->workers; /* the first images do not wait for it */
}

static gconv_status check_decoder(const gconv_batch *batch) {
  const char *obstacle = batch->decoder == GCONV_DECODER_GPU ? gconv_device_decoder_obstacle() : NULL;
  return !obstacle ? GCONV_OK
                   : gconv_fail(GCONV_UNSUPPORTED,
                                "no GPU can decode (--decode gpu): %s: decoding there takes a gconv that was built with "
                                "CUDA, and nvJPEG of the CUDA toolkit, with its folder in LD_LIBRARY_PATH; or use "
                                "--decode cpu",
                                obstacle);
}

static bool is_among(const gconv_algorithm_info *(*algorithm_at)(size_t), const char *name) {
  const gconv_algorithm_info *algorithm;
  for (size_t i = 0; (algorithm = algorithm_at(i)); i++)
    if (strcmp(algorithm->name, name) == 0)
      return true;
  return false;
}

/* Returns a part of the error for an algorithm that the operation lacks: which operations have an algorithm of that name. */
static const char *find_elsewhere(const gconv_operation *operation, const char *name) {
  bool of_filters = is_among(gconv_algorithm_at, name), of_banks = is_among(gconv_layer_algorithm_at, name);
  if (operation->type->batches)
    return of_filters && !of_banks ? "banks (it is for plain filters) on " : "";
  return of_banks ? "plain filters (it is for banks) on " : "";
}

/* Sets gpu->reason to why the GPU `device` cannot be used; "" if it can, or if the device is no GPU. */
static void find_obstacle(const char *device, gconv_device_info *gpu) {
  gpu->reason[0] = '\0';
  for (size_t i = 0; strncmp(device, "cuda", 4) == 0 && gconv_device_at(i, gpu); i++)
    if (strncmp(gpu->name, "cuda", 4) == 0)
      return;
}

/* Refuses wrong requests that are known before a device is open. Says which device "auto" chose. */
static gconv_status check(const gconv_devices *devices, bool gpu) {
  const gconv_batch *batch = devices->batch;
  const char *device = !devices->chosen ? batch->device : gpu ? "cuda" : "cpu";
  const char *lacking = gconv_operation_lacks(batch->operation, device);
  if (devices->chosen && devices->worth.hindered)
    gconv_warn_once("device", "the CPU does the work: %s", devices->worth.reason);
  if (devices->chosen)
    gconv_remark("device %s: %s", device,
                 devices->worth.reason[0] ? devices->worth.reason : "this build or this machine has no CUDA");
  gconv_device_info found = {.reason = ""};
  if (lacking)
    find_obstacle(device, &found);
  if (found.reason[0])
    return gconv_fail(GCONV_UNSUPPORTED, "device %s: %s", device, found.reason);
  if (lacking)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the algorithm %s: there is none of this name for %sthe device %s: see gconv algorithms", lacking,
                      find_elsewhere(batch->operation, lacking), device);
  return check_decoder(batch);
}

static gconv_status begin(gconv_devices *devices, size_t most) {
  const gconv_batch *batch = devices->batch;
  devices->chosen = strcmp(batch->device, "auto") == 0;
  devices->open = devices->chosen || batch->cpu_may_begin;
  devices->worth = gconv_worth_find(batch, devices->chosen && gconv_gpu_may_be_there());
  bool gpu = wants_gpu(devices);
  bool decodes = gpu && (batch->decoder == GCONV_DECODER_GPU || (devices->chosen && devices->worth.decoder));
  int gpus = gpu ? list_gpus(batch->device, devices->gpus) : 0;
  choose_workers(devices, gpus, decodes, most);
  devices->cpus = calloc((size_t)devices->pools + 1, sizeof(gconv_device *));
  GCONV_NEED_MEMORY(devices->cpus, "out of memory");
  if (gpu)
    begin_gpus(devices, gpus);
  return check(devices, gpu); /* while GPUs open, as it may load a library */
}

gconv_status gconv_devices_begin(const gconv_batch *batch, int threads, size_t most, gconv_devices **result) {
  gconv_devices *devices;
  GCONV_NEW(devices, 1, "out of memory");
  devices->batch = batch;
  devices->threads = threads;
  pthread_mutex_init(&devices->lock, NULL);
  pthread_cond_init(&devices->changed, NULL);
  gconv_status status = begin(devices, most);
  if (status == GCONV_OK)
    *result = devices;
  else
    gconv_devices_close(devices, NULL);
  return status;
}

/* ---- For the workers ------------------------------------------------------------------------------------------------ */

int gconv_devices_workers(const gconv_devices *devices, int *threads, const char **reason) {
  *threads = devices->share;
  *reason = devices->worth.reason;
  return devices->workers;
}

int gconv_devices_pools(const gconv_devices *devices) {
  return devices->pools;
}

void gconv_devices_end(gconv_devices *devices) {
  pthread_mutex_lock(&devices->lock);
  devices->ended = true;
  pthread_cond_broadcast(&devices->changed);
  pthread_mutex_unlock(&devices->lock);
}

bool gconv_devices_are_open(gconv_devices *devices) {
  pthread_mutex_lock(&devices->lock);
  bool open = devices->open && devices->gpu_count > 0;
  pthread_mutex_unlock(&devices->lock);
  return open;
}

gconv_status gconv_devices_cpu(gconv_devices *devices, int worker, gconv_device **cpu) {
  int own = worker % devices->pools;
  gconv_status status = GCONV_OK;
  pthread_mutex_lock(&devices->lock);
  if (!devices->cpus[own])
    status = gconv_device_open("cpu", devices->share, &devices->cpus[own]);
  *cpu = devices->cpus[own];
  pthread_mutex_unlock(&devices->lock);
  return status;
}

gconv_status gconv_devices_await_turn(gconv_devices *devices, int worker, gconv_device **cpu) {
  bool at_once = !devices->starts || worker == 0 || worker < devices->threads - 1;
  pthread_mutex_lock(&devices->lock);
  while (!at_once && devices->running > 0 && !devices->ended)
    pthread_cond_wait(&devices->changed, &devices->lock);
  pthread_mutex_unlock(&devices->lock);
  return gconv_devices_cpu(devices, worker, cpu);
}

/* Returns the GPU of a worker; NULL if it is not ready or not wanted. The caller has the lock. */
static gconv_device *gpu_of(const gconv_devices *devices, int worker) {
  bool ready = devices->gpu_count > 0 && devices->opening == 0 && devices->status == GCONV_OK;
  return ready ? devices->gpus[worker % devices->gpu_count].device : NULL;
}

gconv_status gconv_devices_take(gconv_devices *devices, int worker, bool either, bool waits, gconv_device **device) {
  double begin = gconv_now_ms();
  pthread_mutex_lock(&devices->lock);
  bool first = waits && !devices->waited;
  devices->waited |= waits;
  while (waits && devices->gpu_count > 0 && devices->opening > 0)
    pthread_cond_wait(&devices->changed, &devices->lock);
  if (first)
    devices->wait_ms = gconv_now_ms() - begin;
  gconv_status status = devices->status;
  if (status != GCONV_OK)
    gconv_set_error(status, devices->why.text);
  *device = gpu_of(devices, worker);
  bool may_be_cpu = either || devices->gpu_count == 0;
  pthread_mutex_unlock(&devices->lock);
  return status == GCONV_OK && !*device && may_be_cpu ? gconv_devices_cpu(devices, worker, device) : status;
}

bool gconv_devices_decode(gconv_devices *devices, int worker) {
  const int most = 2; /* calls of the decoder: one at work, one that waits */
  pthread_mutex_lock(&devices->lock);
  struct gpu *gpu = gpu_of(devices, worker) ? &devices->gpus[worker % devices->gpu_count] : NULL;
  pthread_mutex_unlock(&devices->lock);
  return gpu && atomic_load(&gpu->decodes) && gconv_device_decoder_backlog(gpu->device) < most;
}

/* ---- After the work ------------------------------------------------------------------------------------------------ */

/* Returns a device that the run has used; NULL if there is none. The caller has the lock. */
static gconv_device *find_used(const gconv_devices *devices) {
  gconv_device *used = gpu_of(devices, 0);
  for (int i = 0; !used && i < devices->pools; i++)
    used = devices->cpus[i];
  return used;
}

/* The caller has the lock. */
static void summarize(const gconv_devices *devices, gconv_batch_summary *summary) {
  const gconv_device *used = find_used(devices);
  bool several = devices->gpu_count > 1;
  snprintf(summary->device_reason, sizeof summary->device_reason, "%s", devices->worth.reason);
  summary->device_wait_ms = devices->wait_ms;
  if (used)
    summary->device = *gconv_device_get_info(used);
  if (!used || (several && !is_cpu(used)))
    snprintf(summary->device.name, sizeof summary->device.name, "%s", devices->batch->device);
}

/* If threads still open GPUs, and may outlive the run, the last of these threads frees *devices. */
void gconv_devices_close(gconv_devices *devices, gconv_batch_summary *summary) {
  if (!devices)
    return;
  gconv_devices_end(devices);
  pthread_mutex_lock(&devices->lock);
  if (summary)
    summarize(devices, summary);
  for (int i = 0; devices->cpus && i < devices->pools; i++)
    gconv_device_close(devices->cpus[i]);
  free(devices->cpus);
  bool is_left = devices->left = devices->running > 0 && devices->batch->leaves_threads;
  for (int i = 0; is_left && i < MOST_GPUS; i++)
    if (devices->gpus[i].started)
      pthread_detach(devices->gpus[i].thread);
  pthread_mutex_unlock(&devices->lock);
  if (is_left)
    return;
  for (int i = 0; i < MOST_GPUS; i++)
    if (devices->gpus[i].started)
      pthread_join(devices->gpus[i].thread, NULL);
  free_devices(devices);
}
