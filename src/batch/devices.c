/* SPDX-License-Identifier: MIT */
#include "batch/devices.h"
#include "base/clock.h"
#include "base/status.h"
#include "conv/decoder.h"
#include "operation/operation.h"

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
  bool started, finished; /* the thread; the second is guarded by the lock */
  gconv_device *device;   /* NULL before it is open, and if that fails */
  atomic_bool decodes;    /* its decoder has started */
};

struct gconv_devices {
  const gconv_batch *batch;
  gconv_worth worth;
  int threads, workers, share; /* the threads of each worker */
  bool chosen;                 /* no device was asked for: by `worth` */
  bool open;                   /* the user left it to us which device does what */
  bool decodes;                /* the GPU shall decode what it can ... */
  bool starts;                 /* ... and there is enough for its decoder to be started */
  gconv_device **cpus;         /* [workers]; NULL before they are wanted */
  struct gpu gpus[MOST_GPUS];

  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  int gpu_count;       /* 0: the CPU does all */
  int opening;         /* GPUs that are not open yet: none is used before all are */
  bool ended;          /* no image is to be begun any more */
  bool is_left;        /* threads are still at work, which have all of this until the process ends */
  gconv_status status; /* why there is no GPU, which is needed */
  gconv_message why;
  bool waited; /* somebody, for a GPU: so long */
  double wait_ms;
};

static bool is_cpu(const gconv_device *device) {
  return strcmp(gconv_device_get_info(device)->name, "cpu") == 0;
}

int gconv_devices_share(const gconv_devices *devices) {
  return devices->share;
}

/* ---- Opening GPUs --------------------------------------------------------------------------------------------------- */

/* The decoder's engines work through queues of their own, or one after the other, and 7 times as long: so all queues are
 * wanted, instead of the two that main.c asks for. Before CUDA is started. */
static void ask_for_queues(void) {
  const char *queues = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  if (queues && strcmp(queues, "2") == 0)
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
}

static bool is_wanted(gconv_devices *devices) {
  pthread_mutex_lock(&devices->lock);
  bool wanted = !devices->ended;
  pthread_mutex_unlock(&devices->lock);
  return wanted;
}

static void start_decoder(struct gpu *gpu) {
  gconv_devices *devices = gpu->devices;
  if (gpu->device && !is_cpu(gpu->device) && devices->starts && is_wanted(devices))
    atomic_store(&gpu->decodes, gconv_device_start_decoder(gpu->device) == GCONV_OK);
}

/* Lets the workers know that the GPU is open, or why not. */
static void tell(struct gpu *gpu, gconv_status status) {
  gconv_devices *devices = gpu->devices;
  pthread_mutex_lock(&devices->lock);
  if (status != GCONV_OK && devices->status == GCONV_OK)
    devices->status = gconv_complain(&devices->why, status, "%s", gconv_last_error());
  if (gpu->device && is_cpu(gpu->device)) /* "auto" found no GPU */
    devices->gpu_count = 0;
  devices->opening--;
  pthread_cond_broadcast(&devices->changed);
  pthread_mutex_unlock(&devices->lock);
}

/* Where the CPU takes images meanwhile, a GPU is ready with its decoder: at work, it would delay that. */
static void *open_gpu(void *argument) {
  struct gpu *gpu = argument;
  gconv_devices *devices = gpu->devices;
  gconv_status status = gconv_device_open(gpu->name, devices->share, &gpu->device);
  if (devices->open)
    start_decoder(gpu);
  tell(gpu, status);
  if (!devices->open)
    start_decoder(gpu);
  pthread_mutex_lock(&devices->lock);
  gpu->finished = true;
  pthread_mutex_unlock(&devices->lock);
  return NULL;
}

/* ---- Which GPUs ------------------------------------------------------------------------------------------------------ */

static bool is_all(const char *name) {
  return strcmp(name, "cuda:all") == 0;
}

bool gconv_devices_are_several(const char *name) {
  return is_all(name) || strchr(name, ',') != NULL;
}

static bool has_room(const gconv_devices *devices) {
  return devices->gpu_count < devices->workers && devices->gpu_count < MOST_GPUS;
}

static void add_gpu(gconv_devices *devices, const char *name, int length) {
  struct gpu *gpu = &devices->gpus[devices->gpu_count++];
  gpu->devices = devices;
  snprintf(gpu->name, sizeof gpu->name, "%.*s", length, name);
}

/* Those that can be used; "cuda" if none can, which tells why when it is opened. */
static void add_all(gconv_devices *devices) {
  gconv_device_info info;
  for (size_t i = 0; has_room(devices) && gconv_device_at(i, &info); i++)
    if (info.usable && strncmp(info.name, "cuda", 4) == 0)
      add_gpu(devices, info.name, (int)strlen(info.name));
  if (devices->gpu_count == 0)
    add_gpu(devices, "cuda", 4);
}

/* Those of a list such as "cuda:0,2", as many as there are workers for. */
static void add_listed(gconv_devices *devices, const char *list) {
  char name[sizeof devices->gpus[0].name];
  for (const char *at = list + strlen("cuda:"); *at && has_room(devices);) {
    int length = (int)strcspn(at, ",");
    snprintf(name, sizeof name, "cuda:%.*s", length, at);
    add_gpu(devices, name, (int)strlen(name));
    at += length + (at[length] == ',');
  }
}

static void begin_gpus(gconv_devices *devices) {
  const char *name = devices->batch->device;
  if (devices->starts)
    ask_for_queues();
  if (is_all(name))
    add_all(devices);
  else if (gconv_devices_are_several(name))
    add_listed(devices, name);
  else
    add_gpu(devices, name, (int)strlen(name));
  devices->opening = devices->gpu_count;
  for (int i = 0, count = devices->gpu_count; i < count; i++) {
    struct gpu *gpu = &devices->gpus[i];
    gpu->started = pthread_create(&gpu->thread, NULL, open_gpu, gpu) == 0;
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

/* On a CPU, as many as there are threads at most, or, of plans that keep all of them busy, two: one is decoded or written
 * while the other is executed. While a GPU decodes, whoever wants the image waits, and leaves a processor to another. */
static int choose_workers(const gconv_devices *devices, bool gpu, size_t most) {
  const gconv_batch *batch = devices->batch;
  bool shares = batch->operation->type->shares;
  int usual = shares ? 2 : devices->decodes ? devices->threads + (devices->threads + 1) / 2 : devices->threads;
  int workers = batch->jobs > 0 && ((gpu && !shares) || batch->jobs < usual) ? batch->jobs : usual;
  return most > 0 && (size_t)workers > most ? (int)most : workers;
}

static gconv_status check_decoder(const gconv_devices *devices, gconv_message *message) {
  const char *obstacle = devices->batch->decoder == GCONV_DECODER_GPU ? gconv_device_decoder_obstacle() : NULL;
  return !obstacle
             ? GCONV_OK
             : gconv_complain(message, GCONV_UNSUPPORTED,
                              "--decode gpu: %s: this takes a gconv that was built with CUDA, and nvJPEG, which is part of "
                              "the CUDA toolkit (its folder is named in LD_LIBRARY_PATH): or leave the option out",
                              obstacle);
}

/* Where an algorithm of the name that was asked for is to be had, for a complaint. */
static const char *find_elsewhere(const gconv_operation *operation, const char *name) {
  const gconv_algorithm_info *algorithm;
  bool of_filters = false, of_banks = false;
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)); i++)
    of_filters = of_filters || strcmp(algorithm->name, name) == 0;
  for (size_t i = 0; (algorithm = gconv_layer_algorithm_at(i)); i++)
    of_banks = of_banks || strcmp(algorithm->name, name) == 0;
  if (operation->type->batches)
    return of_filters && !of_banks ? "banks (it is for plain filters) on " : "";
  return of_banks ? "plain filters (it is for banks) on " : "";
}

/* What can be told before anything is opened. */
static gconv_status check(const gconv_devices *devices, bool gpu, gconv_message *message) {
  const gconv_batch *batch = devices->batch;
  const char *device = !devices->chosen ? batch->device : gpu ? "cuda" : "cpu";
  const char *lacking = batch->operation->type->lacks(batch->operation, device);
  if (devices->chosen)
    gconv_remark("device %s: %s", device,
                 devices->worth.reason[0] ? devices->worth.reason : "this build or this machine has no CUDA");
  if (lacking)
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "--algorithm %s: there is none of this name for %sthe device %s: see gconv algorithms", lacking,
                          find_elsewhere(batch->operation, lacking), device);
  return check_decoder(devices, message);
}

gconv_status gconv_devices_begin(const gconv_batch *batch, int threads, size_t most, gconv_devices **result,
                                 gconv_message *message) {
  gconv_devices *devices = calloc(1, sizeof *devices);
  if (!devices)
    return gconv_complain_memory(message);
  devices->batch = batch;
  devices->threads = threads;
  devices->chosen = strcmp(batch->device, "auto") == 0;
  devices->open = devices->chosen || batch->cpu_may_begin;
  devices->worth = gconv_worth_find(batch, devices->chosen && gconv_gpu_may_be_there());
  pthread_mutex_init(&devices->lock, NULL);
  pthread_cond_init(&devices->changed, NULL);
  bool gpu = wants_gpu(devices);
  devices->decodes = gpu && (batch->decoder == GCONV_DECODER_GPU || (devices->chosen && devices->worth.decoder));
  devices->workers = choose_workers(devices, gpu, most);
  devices->share = batch->operation->type->shares || devices->threads < devices->workers
                       ? (batch->operation->type->shares ? devices->threads : 1)
                       : devices->threads / devices->workers;
  devices->starts = devices->decodes && gconv_gpu_may_decode(batch) && !batch->only_explained &&
                    batch->inputs->count > (size_t)devices->workers; /* what is begun at once is decoded before it starts */
  devices->cpus = calloc((size_t)devices->workers + 1, sizeof(gconv_device *));
  gconv_status status = devices->cpus ? GCONV_OK : gconv_complain_memory(message);
  if (status == GCONV_OK && gpu)
    begin_gpus(devices);
  if (status == GCONV_OK)
    status = check(devices, gpu, message); /* behind it, as it may load a library */
  if (status == GCONV_OK)
    *result = devices;
  else
    gconv_devices_close(devices);
  return status;
}

/* ---- For the workers ------------------------------------------------------------------------------------------------ */

int gconv_devices_workers(const gconv_devices *devices) {
  return devices->workers;
}

bool gconv_devices_want_gpu(gconv_devices *devices) {
  pthread_mutex_lock(&devices->lock);
  bool wanted = devices->gpu_count > 0;
  pthread_mutex_unlock(&devices->lock);
  return wanted;
}

bool gconv_devices_are_open(gconv_devices *devices) {
  return devices->open && gconv_devices_want_gpu(devices);
}

gconv_status gconv_devices_cpu(gconv_devices *devices, int worker, gconv_device **cpu) {
  int own = devices->batch->operation->type->shares ? 0 : worker;
  gconv_status status = GCONV_OK;
  pthread_mutex_lock(&devices->lock);
  if (!devices->cpus[own])
    status = gconv_device_open("cpu", devices->share, &devices->cpus[own]);
  *cpu = devices->cpus[own];
  pthread_mutex_unlock(&devices->lock);
  return status;
}

/* Under the lock. */
static gconv_device *gpu_of(const gconv_devices *devices, int worker) {
  bool ready = devices->gpu_count > 0 && devices->opening == 0 && devices->status == GCONV_OK;
  return ready ? devices->gpus[worker % devices->gpu_count].device : NULL;
}

static gconv_status take_cpu(gconv_devices *devices, int worker, gconv_device **device, gconv_message *message) {
  gconv_status status = gconv_devices_cpu(devices, worker, device);
  return status == GCONV_OK ? GCONV_OK : gconv_complain(message, status, "%s", gconv_last_error());
}

gconv_status gconv_devices_take(gconv_devices *devices, int worker, bool either, gconv_device **device,
                                gconv_message *message) {
  pthread_mutex_lock(&devices->lock);
  gconv_status status = devices->status;
  if (status != GCONV_OK)
    gconv_complain(message, status, "%s", devices->why.text);
  *device = gpu_of(devices, worker);
  bool may_be_cpu = either || devices->gpu_count == 0;
  pthread_mutex_unlock(&devices->lock);
  return status == GCONV_OK && !*device && may_be_cpu ? take_cpu(devices, worker, device, message) : status;
}

gconv_status gconv_devices_wait(gconv_devices *devices, int worker, gconv_device **device, gconv_message *message) {
  double begin = gconv_now_ms();
  pthread_mutex_lock(&devices->lock);
  bool first = !devices->waited;
  devices->waited = true;
  while (devices->gpu_count > 0 && devices->opening > 0)
    pthread_cond_wait(&devices->changed, &devices->lock);
  if (first)
    devices->wait_ms = gconv_now_ms() - begin;
  gconv_status status =
      devices->status == GCONV_OK ? GCONV_OK : gconv_complain(message, devices->status, "%s", devices->why.text);
  *device = gpu_of(devices, worker);
  pthread_mutex_unlock(&devices->lock);
  return status == GCONV_OK && !*device ? take_cpu(devices, worker, device, message) : status;
}

bool gconv_devices_decode(gconv_devices *devices, int worker) {
  const int most = 2; /* calls: the one at work, and one behind it */
  pthread_mutex_lock(&devices->lock);
  struct gpu *gpu = gpu_of(devices, worker) ? &devices->gpus[worker % devices->gpu_count] : NULL;
  pthread_mutex_unlock(&devices->lock);
  return gpu && atomic_load(&gpu->decodes) && gconv_device_decoder_backlog(gpu->device) < most;
}

/* ---- After the work ------------------------------------------------------------------------------------------------ */

const char *gconv_devices_reason(const gconv_devices *devices) {
  return devices->chosen ? devices->worth.reason : "";
}

/* Waits for the threads, or, if one of them is not through, leaves all to the end of the process. */
static void end_threads(gconv_devices *devices) {
  pthread_mutex_lock(&devices->lock);
  devices->ended = true;
  for (int i = 0; i < MOST_GPUS; i++)
    devices->is_left |= devices->gpus[i].started && !devices->gpus[i].finished;
  bool is_left = devices->is_left;
  pthread_mutex_unlock(&devices->lock);
  for (int i = 0; i < MOST_GPUS; i++) {
    struct gpu *gpu = &devices->gpus[i];
    if (gpu->started && is_left)
      pthread_detach(gpu->thread);
    else if (gpu->started)
      pthread_join(gpu->thread, NULL);
    gpu->started = false;
  }
}

static gconv_device *find_used(gconv_devices *devices) {
  pthread_mutex_lock(&devices->lock);
  gconv_device *used = gpu_of(devices, 0);
  pthread_mutex_unlock(&devices->lock);
  for (int i = 0; !used && i < devices->workers; i++)
    used = devices->cpus[i];
  return used;
}

void gconv_devices_summarize(gconv_devices *devices, gconv_batch_summary *summary) {
  end_threads(devices);
  snprintf(summary->device_reason, sizeof summary->device_reason, "%s", gconv_devices_reason(devices));
  summary->device_wait_ms = devices->wait_ms;
  snprintf(summary->device.name, sizeof summary->device.name, "%s", devices->batch->device);
  gconv_device *used = find_used(devices);
  if (!used)
    return;
  summary->device = *gconv_device_get_info(used);
  if (!is_cpu(used) && devices->gpu_count > 1)
    snprintf(summary->device.name, sizeof summary->device.name, "%s", devices->batch->device);
}

void gconv_devices_close(gconv_devices *devices) {
  if (!devices)
    return;
  end_threads(devices);
  for (int i = 0; devices->cpus && i < devices->workers; i++)
    gconv_device_close(devices->cpus[i]);
  if (devices->is_left)
    return;
  for (int i = 0; i < MOST_GPUS; i++)
    gconv_device_close(devices->gpus[i].device);
  pthread_cond_destroy(&devices->changed);
  pthread_mutex_destroy(&devices->lock);
  free(devices->cpus);
  free(devices);
}
