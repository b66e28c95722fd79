/* SPDX-License-Identifier: MIT */
#include "batch/devices.h"
#include "batch/clock.h"
#include "batch/estimate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GPUS = 64 };

/* A GPU beside the first. */
struct other {
  gconv_device_opening *opening; /* NULL before and after */
  gconv_device *device;
};

/* What starts the decoder of a GPU, which takes longer than the first images do. */
struct starter {
  gconv_devices *devices;
  gconv_device *gpu;
  sem_t *turns; /* one of which it has; NULL: none */
  pthread_t thread;
  bool started;      /* the thread */
  atomic_bool ready; /* the decoder; else the CPU decodes */
};

struct gconv_devices {
  const gconv_batch *batch;
  int threads, workers;
  int most;        /* workers; 0: as many as the job wants */
  bool open;       /* the user left it to us whether the CPU or a GPU does what */
  bool decodes;    /* the GPU shall decode what it can */
  double codec_ms; /* of a thread that reads and writes an image, estimated; 0: it was not */
  sem_t *turns;
  pthread_mutex_t lock;           /* guards all below */
  bool decided;                   /* which device it is */
  bool ended;                     /* no image is to be begun any more */
  gconv_device_opening *opening;  /* a device on its way; NULL before and after */
  gconv_device *first;            /* what was opened: a GPU, which is of all workers, or the CPU of worker 0 */
  struct other others[MOST_GPUS]; /* [gpus]; the place of the first is not used */
  struct starter starters[MOST_GPUS];
  int gpus;             /* among which workers are dealt, if `first` is a GPU */
  gconv_device **own;   /* [workers]: of each worker, once it has asked */
  gconv_device **spare; /* [workers]: likewise, a CPU beside a GPU */
  bool little;          /* work for the decoder, which is not started for it */
  bool cpu_begins;      /* until the GPU is ready, images are for the spare ones */
  pthread_cond_t ready; /* that it is */
  char *without;        /* what no plan may choose, so that the CPU may begin; owned */
  pthread_t waiter;     /* for the GPU, meanwhile */
  bool has_waiter;
  bool is_left;        /* the waiter, which the end of the process ends: it has all of this until then */
  gconv_status status; /* why there is none; GCONV_OK: there is, or will be */
  gconv_message why;
  gconv_device_choice choice;
  double wait_ms; /* that the first worker who asked waited */
  bool waited;
};

static gconv_status keep_library_text(gconv_devices *devices, gconv_status status) {
  return status == GCONV_OK ? status : gconv_complain(&devices->why, status, "%s", gconv_last_error());
}

/* Whether the algorithm that is asked for exists on this device: better said once than for every image. */
static gconv_status check_algorithm(gconv_devices *devices, const char *device) {
  const char *name = devices->batch->options.algorithm;
  const gconv_algorithm_info *algorithm;
  bool of_banks = false;
  if (!name || strcmp(name, "auto") == 0)
    return GCONV_OK;
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)); i++)
    if (strcmp(algorithm->name, name) == 0 && strncmp(device, algorithm->device, strlen(algorithm->device)) == 0)
      return GCONV_OK;
  for (size_t i = 0; (algorithm = gconv_layer_algorithm_at(i)); i++)
    of_banks = of_banks || strcmp(algorithm->name, name) == 0;
  return gconv_complain(&devices->why, GCONV_BAD_ARGUMENT,
                        "--algorithm %s: there is none of this name for %sthe device %s: see gconv algorithms", name,
                        of_banks ? "plain filters (it is for banks) on " : "", device);
}

static bool is_cpu(const gconv_device *device) {
  return strcmp(gconv_device_get_info(device)->name, "cpu") == 0;
}

/* While a GPU decodes, whoever wants the image waits, and leaves a processor to another. */
static int choose_workers(const gconv_batch *batch, int threads, bool gpu_decodes) {
  int usual = gpu_decodes ? threads + (threads + 1) / 2 : threads;
  size_t workers = (size_t)(batch->jobs > 0 ? batch->jobs : usual);
  return (int)(workers < batch->inputs->count ? workers : batch->inputs->count);
}

/* Once it is known whether a GPU decodes. */
static gconv_status set_workers(gconv_devices *devices) {
  int workers = choose_workers(devices->batch, devices->threads, devices->decodes);
  devices->workers = devices->most > 0 && workers > devices->most ? devices->most : workers;
  devices->own = calloc((size_t)devices->workers + 1, sizeof *devices->own);
  devices->spare = calloc((size_t)devices->workers + 1, sizeof *devices->spare);
  return devices->own && devices->spare ? GCONV_OK : gconv_complain_memory(&devices->why);
}

/* The threads of one worker. */
static int share_of(const gconv_devices *devices) {
  return devices->threads > devices->workers ? devices->threads / devices->workers : 1;
}

/* Opens the CPU with the share of one worker. */
static gconv_status open_share(gconv_devices *devices, gconv_device **device) {
  return keep_library_text(devices, gconv_device_open("cpu", share_of(devices), device));
}

/* A GPU, and, if that fails and may, the CPU: with the threads that one worker has for its work on the host. */
static gconv_status begin_opening(gconv_devices *devices, const char *name) {
  return keep_library_text(devices, gconv_device_open_begin(name, share_of(devices), &devices->opening));
}

/* ---- Several GPUs ---------------------------------------------------------------------------------------------------- */

/* The number of the GPU at `place` of a list such as "cuda:0,2"; -1 past its end. */
static int number_at(const char *name, int place) {
  const char *at = name + strlen("cuda:");
  for (; place > 0 && *at; place--) {
    at += strcspn(at, ",");
    at += *at == ',';
  }
  return *at ? (int)strtol(at, NULL, 10) : -1;
}

static bool is_all(const char *name) {
  return strcmp(name, "cuda:all") == 0;
}

bool gconv_devices_are_several(const char *name) {
  return is_all(name) || strchr(name, ',') != NULL;
}

/* The first of the GPUs that the name means, as gconv_device_open() takes it. */
static void name_first(const char *name, char *first, size_t size) {
  if (is_all(name))
    snprintf(first, size, "cuda");
  else if (strchr(name, ','))
    snprintf(first, size, "cuda:%d", number_at(name, 0));
  else
    snprintf(first, size, "%s", name);
}

/* Begins to open a GPU beside those that are there. */
static gconv_status begin_other(gconv_devices *devices, const char *name) {
  GCONV_TRY(
      keep_library_text(devices, gconv_device_open_begin(name, share_of(devices), &devices->others[devices->gpus].opening)));
  devices->gpus++;
  return GCONV_OK;
}

static bool is_wanted(const gconv_devices *devices, const gconv_device_info *info) {
  return info->usable && strncmp(info->name, "cuda", 4) == 0 &&
         strcmp(info->name, gconv_device_get_info(devices->first)->name) != 0;
}

static bool has_room(const gconv_devices *devices) {
  return devices->gpus < devices->workers && devices->gpus < MOST_GPUS;
}

static gconv_status begin_all(gconv_devices *devices) {
  gconv_device_info info;
  for (size_t i = 0; has_room(devices) && gconv_device_at(i, &info); i++)
    if (is_wanted(devices, &info))
      GCONV_TRY(begin_other(devices, info.name));
  return GCONV_OK;
}

/* Those that are listed are looked for before the first image goes to any. */
static gconv_status begin_listed(gconv_devices *devices) {
  gconv_device_info info = {0};
  for (int place = 1, number; (number = number_at(devices->batch->device, place)) >= 0; place++) {
    char name[sizeof info.name];
    bool found = false;
    snprintf(name, sizeof name, "cuda:%d", number);
    for (size_t i = 0; !found && gconv_device_at(i, &info); i++)
      found = strcmp(info.name, name) == 0;
    if (!found || !info.usable)
      return gconv_complain(&devices->why, GCONV_UNSUPPORTED, "device %s: %s", name,
                            found ? info.reason : "there is no device of this number here");
    if (has_room(devices))
      GCONV_TRY(begin_other(devices, name));
  }
  return GCONV_OK;
}

/* Once the first is open, and the driver with it: begins to open the others, as many as there are workers for. */
static gconv_status begin_others(gconv_devices *devices) {
  devices->gpus = 1;
  if (is_all(devices->batch->device))
    return begin_all(devices);
  return gconv_devices_are_several(devices->batch->device) ? begin_listed(devices) : GCONV_OK;
}

static void *start_decoder(void *argument) {
  struct starter *starter = argument;
  atomic_store(&starter->ready, gconv_device_start_decoder(starter->gpu) == GCONV_OK);
  pthread_mutex_lock(&starter->devices->lock);
  if (starter->turns && !starter->devices->ended)
    sem_post(starter->turns);
  pthread_mutex_unlock(&starter->devices->lock);
  return NULL;
}

/* What the workers begin at once is decoded before the decoder has started. */
static bool wants_decoder(const gconv_devices *devices) {
  const gconv_batch *batch = devices->batch;
  return devices->decodes && !devices->little && !batch->only_explained && batch->inputs->count > (size_t)devices->workers;
}

/* More than the two that main.c asks for: the engines work through queues of their own, or one after the other, and 7 times
 * as long. Before CUDA is started. */
static void ask_for_queues(void) {
  const char *queues = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  if (queues && strcmp(queues, "2") == 0)
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
}

static void begin_decoder(gconv_devices *devices, int gpu, gconv_device *device) {
  struct starter *starter = &devices->starters[gpu];
  if (!wants_decoder(devices))
    return;
  starter->devices = devices;
  starter->gpu = device;
  starter->turns = gpu == 0 ? devices->turns : NULL;
  starter->started = pthread_create(&starter->thread, NULL, start_decoder, starter) == 0;
  if (!starter->started && starter->turns)
    sem_post(starter->turns);
}

/* The GPU of a worker: they are dealt in turn. */
static gconv_status take_gpu(gconv_devices *devices, int worker, gconv_device **device) {
  int gpu = worker % devices->gpus;
  struct other *other = &devices->others[gpu];
  if (other->opening) {
    gconv_status status = gconv_device_open_end(other->opening, &other->device);
    other->opening = NULL;
    if (status != GCONV_OK)
      return devices->status = keep_library_text(devices, status);
    begin_decoder(devices, gpu, other->device);
  }
  *device = gpu == 0 ? devices->first : other->device;
  return GCONV_OK;
}

bool gconv_devices_decode(gconv_devices *devices, int worker) {
  pthread_mutex_lock(&devices->lock);
  int gpu = devices->gpus > 0 ? worker % devices->gpus : 0;
  pthread_mutex_unlock(&devices->lock);
  return atomic_load(&devices->starters[gpu].ready);
}

bool gconv_devices_decoder_is_busy(gconv_devices *devices, int worker) {
  const int most = 2; /* calls: the one at work, and one behind it */
  return gconv_device_decoder_backlog(devices->own[worker]) >= most;
}

/* ---- Deciding ------------------------------------------------------------------------------------------------------ */

/* Sets who does the job, and whether a GPU decodes, if the library for that is there. */
static void choose(gconv_devices *devices, gconv_job *job) {
  gconv_status status = gconv_device_choose(devices->first, job, &devices->choice);
  if (status == GCONV_OK && devices->choice.decodes && gconv_device_decoder_obstacle()) {
    job->decoding_ms = 0;
    status = gconv_device_choose(devices->first, job, &devices->choice);
  }
  if (status != GCONV_OK)
    devices->choice.name = "auto"; /* where it cannot be told, whoever plans will say why */
}

/* In the place of the CPU that is open. What of the choice depends on the number of images is settled by it. */
static gconv_status open_chosen(gconv_devices *devices) {
  gconv_device_close(devices->first);
  devices->first = NULL;
  devices->decodes = devices->choice.decodes;
  if (!devices->own)
    GCONV_TRY(set_workers(devices));
  if (wants_decoder(devices))
    ask_for_queues();
  return begin_opening(devices, devices->choice.name);
}

/* Keeps the CPU that is open, or begins to open a GPU in its place. The job has headers, of images that nobody has decoded
 * yet or of the one that somebody has, and its milliseconds. */
static gconv_status decide(gconv_devices *devices, gconv_job job) {
  const gconv_batch *batch = devices->batch;
  gconv_options options = batch->options;
  options.keep_type = false;
  options.output_type = gconv_batch_output_type(&batch->options, batch->outputs->format, job.likes[0].type);
  job.images = batch->inputs->count;
  job.filters = batch->filters;
  job.options = &options;
  devices->decided = true;
  choose(devices, &job);
  if (strcmp(devices->choice.name, "cpu") != 0)
    return open_chosen(devices);
  free(devices->without);
  devices->without = NULL;
  return GCONV_OK;
}

/* Divides what is open among the workers, and begins what is to be opened behind it. */
static gconv_status divide(gconv_devices *devices) {
  GCONV_TRY(check_algorithm(devices, gconv_device_get_info(devices->first)->name));
  if (!is_cpu(devices->first)) {
    begin_decoder(devices, 0, devices->first);
    return begin_others(devices);
  }
  if (wants_decoder(devices) && devices->turns) /* a GPU was chosen, but cannot be used */
    sem_post(devices->turns);
  if (devices->workers == 1)
    return GCONV_OK;
  gconv_device *share = NULL;
  GCONV_TRY(open_share(devices, &share));
  gconv_device_close(devices->first);
  devices->first = share;
  return GCONV_OK;
}

/* ---- The CPU begins ------------------------------------------------------------------------------------------------ */

/* Waits for the GPU and its decoder in the place of the workers. Nobody else asks for either meanwhile. */
static void *wait_for_gpu(void *argument) {
  gconv_devices *devices = argument;
  gconv_device *gpu = NULL;
  gconv_status status = gconv_device_open_end(devices->opening, &gpu);
  pthread_mutex_lock(&devices->lock);
  devices->opening = NULL;
  devices->waited = true;
  devices->first = gpu;
  devices->status = keep_library_text(devices, status);
  if (status == GCONV_OK && !devices->ended)
    devices->status = divide(devices);
  pthread_mutex_unlock(&devices->lock);
  if (devices->starters[0].started)
    pthread_join(devices->starters[0].thread, NULL);
  devices->starters[0].started = false;
  pthread_mutex_lock(&devices->lock);
  devices->cpu_begins = false;
  pthread_cond_broadcast(&devices->ready);
  pthread_mutex_unlock(&devices->lock);
  return NULL;
}

/* Whether the CPU may take images until a GPU is ready: if the user and the job allow it, and there is more to do than
 * little, for which all wait for the GPU, and `auto` may choose any algorithm. Both are kept to the same algorithms for
 * that, whatever the numbers of workers and threads, which make no difference to the results. */
static bool cpu_may_begin(gconv_devices *devices, const gconv_sample *sample) {
  const gconv_batch *batch = devices->batch;
  devices->little = devices->open && gconv_sample_is_little(batch, sample);
  return devices->open && !devices->little && gconv_sample_cpu_may_begin(batch, sample, &devices->without);
}

/* Lets the CPU take images until the GPU, which is being opened, is ready, and its decoder, if that is wanted. */
static void begin_on_cpu(gconv_devices *devices) {
  if (devices->batch->only_explained)
    return;
  devices->cpu_begins = true;
  devices->has_waiter = pthread_create(&devices->waiter, NULL, wait_for_gpu, devices) == 0;
  if (!devices->has_waiter)
    devices->cpu_begins = false;
}

/* ---- Beginning ----------------------------------------------------------------------------------------------------- */

static gconv_status check_decoder(gconv_devices *devices) {
  const char *obstacle = devices->decodes ? gconv_device_decoder_obstacle() : NULL;
  return !obstacle
             ? GCONV_OK
             : gconv_complain(&devices->why, GCONV_UNSUPPORTED,
                              "--decode gpu: %s: this takes a gconv that was built with CUDA, and nvJPEG, which is part of "
                              "the CUDA toolkit (its folder is named in LD_LIBRARY_PATH): or leave the option out",
                              obstacle);
}

/* With an open CPU for the estimates. If no header can be read, the first image that is decoded decides. */
static gconv_status begin_auto(gconv_devices *devices) {
  gconv_sample sample = {.count = 0};
  gconv_job job = {.likes = NULL};
  GCONV_TRY(keep_library_text(devices, gconv_device_open("cpu", devices->threads, &devices->first)));
  if (gconv_device_choose(devices->first, &job, &devices->choice) == GCONV_OK)
    devices->decided = strcmp(devices->choice.name, "cpu") == 0; /* there is no GPU */
  if (!devices->decided)
    gconv_sample_take(devices->batch, &sample);
  if (sample.count > 0) {
    job = gconv_sample_job(devices->batch, &sample);
    job.cpu_begins =
        cpu_may_begin(devices, &sample) && job.images > (size_t)choose_workers(devices->batch, devices->threads, false);
    devices->codec_ms = job.host_ms / (double)job.images;
    GCONV_TRY(decide(devices, job));
  }
  if (!devices->own)
    GCONV_TRY(set_workers(devices));
  if (devices->opening && devices->without && devices->batch->inputs->count > (size_t)devices->workers)
    begin_on_cpu(devices);
  return GCONV_OK;
}

static gconv_status begin_gpu(gconv_devices *devices) {
  gconv_sample sample = {.count = 0};
  char first[32];
  if (wants_decoder(devices))
    ask_for_queues();
  name_first(devices->batch->device, first, sizeof first);
  GCONV_TRY(begin_opening(devices, first));
  GCONV_TRY(check_decoder(devices)); /* behind it, as it loads a library */
  if (devices->open)
    gconv_sample_take(devices->batch, &sample);
  if (cpu_may_begin(devices, &sample))
    begin_on_cpu(devices);
  return GCONV_OK;
}

static gconv_status begin(gconv_devices *devices) {
  const char *name = devices->batch->device;
  devices->open = devices->batch->cpu_may_begin || strcmp(name, "auto") == 0;
  devices->decodes = devices->batch->decoder == GCONV_DECODER_GPU;
  if (strcmp(name, "auto") == 0)
    return begin_auto(devices);
  devices->decided = true;
  GCONV_TRY(check_algorithm(devices, name));
  GCONV_TRY(set_workers(devices));
  return strcmp(name, "cpu") == 0 ? keep_library_text(devices, gconv_device_open(name, devices->threads, &devices->first))
                                  : begin_gpu(devices);
}

gconv_status gconv_devices_begin(const gconv_batch *batch, int threads, int most, sem_t *turns, gconv_devices **result,
                                 gconv_message *message) {
  gconv_devices *devices = calloc(1, sizeof *devices);
  if (!devices)
    return gconv_complain_memory(message);
  devices->batch = batch;
  devices->threads = threads;
  devices->most = most;
  devices->turns = turns;
  pthread_mutex_init(&devices->lock, NULL);
  pthread_cond_init(&devices->ready, NULL);
  gconv_status status = begin(devices);
  if (status != GCONV_OK) {
    gconv_complain(message, status, "%s", devices->why.text);
    gconv_devices_close(devices);
    return status;
  }
  *result = devices;
  return GCONV_OK;
}

int gconv_devices_workers(const gconv_devices *devices) {
  return devices->workers;
}

bool gconv_devices_shall_decode(const gconv_devices *devices) {
  return devices->decodes;
}

/* ---- Waiting ------------------------------------------------------------------------------------------------------- */

/* Waits for what is on its way. */
static gconv_status settle(gconv_devices *devices, const gconv_image *like) {
  gconv_job job = {.likes = like, .like_count = 1};
  if (!devices->decided)
    GCONV_TRY(decide(devices, job));
  if (devices->opening) {
    gconv_status status = gconv_device_open_end(devices->opening, &devices->first);
    devices->opening = NULL;
    GCONV_TRY(keep_library_text(devices, status));
  }
  return divide(devices);
}

/* Sets the device of a worker, under the lock. */
static gconv_status assign(gconv_devices *devices, int worker, const gconv_image *like) {
  if (!devices->waited) {
    devices->waited = true;
    double begin = gconv_batch_clock_ms();
    devices->status = settle(devices, like);
    devices->wait_ms = gconv_batch_clock_ms() - begin;
  }
  GCONV_TRY(devices->status);
  if (!is_cpu(devices->first))
    return take_gpu(devices, worker, &devices->own[worker]);
  if (worker > 0)
    return open_share(devices, &devices->own[worker]);
  devices->own[worker] = devices->first;
  return GCONV_OK;
}

/* A CPU of the worker's own, beside a GPU. NULL if there is no memory for it. */
static gconv_device *spare_of(gconv_devices *devices, int worker) {
  if (!devices->spare[worker])
    open_share(devices, &devices->spare[worker]);
  return devices->spare[worker];
}

gconv_device *gconv_devices_now(gconv_devices *devices, int worker) {
  pthread_mutex_lock(&devices->lock);
  bool cpu = devices->decided && devices->first && is_cpu(devices->first);
  if (cpu && !devices->own[worker])
    assign(devices, worker, NULL); /* at once; what keeps it from it is told to who waits */
  gconv_device *device = devices->cpu_begins ? spare_of(devices, worker) : devices->own[worker];
  pthread_mutex_unlock(&devices->lock);
  return device;
}

gconv_status gconv_devices_wait(gconv_devices *devices, int worker, const gconv_image *like, gconv_device **device,
                                gconv_message *message) {
  pthread_mutex_lock(&devices->lock);
  while (devices->cpu_begins) /* there was no memory for a CPU */
    pthread_cond_wait(&devices->ready, &devices->lock);
  gconv_status status = devices->own[worker] ? GCONV_OK : assign(devices, worker, like);
  if (status == GCONV_OK)
    *device = devices->own[worker];
  else
    gconv_complain(message, status, "%s", devices->why.text);
  pthread_mutex_unlock(&devices->lock);
  return status;
}

const char *gconv_devices_without(const gconv_devices *devices) {
  return devices->without ? devices->without : devices->batch->options.without;
}

bool gconv_devices_agree(const gconv_devices *devices) {
  return devices->without != NULL;
}

gconv_device *gconv_devices_spare(gconv_devices *devices, int worker) {
  pthread_mutex_lock(&devices->lock);
  bool open = devices->batch->cpu_may_begin || strcmp(devices->batch->device, "auto") == 0;
  bool beside = devices->without || (devices->first && !is_cpu(devices->first));
  gconv_device *device = open && beside ? spare_of(devices, worker) : NULL;
  pthread_mutex_unlock(&devices->lock);
  return device;
}

/* ---- After the work ------------------------------------------------------------------------------------------------ */

const char *gconv_devices_reason(const gconv_devices *devices) {
  return devices->choice.reason;
}

void gconv_devices_remember_codecs(const gconv_devices *devices, double milliseconds) {
  if (devices->codec_ms > 0)
    gconv_job_remember(devices->codec_ms, milliseconds, devices->threads);
}

/* A GPU or a decoder that is not ready by now is wanted by nobody: nobody waits for it either. */
static void end_waiter(gconv_devices *devices) {
  pthread_mutex_lock(&devices->lock);
  devices->ended = true;
  bool waits = devices->cpu_begins;
  pthread_mutex_unlock(&devices->lock);
  if (devices->has_waiter && waits)
    devices->is_left = pthread_detach(devices->waiter) == 0;
  else if (devices->has_waiter)
    pthread_join(devices->waiter, NULL);
  devices->has_waiter = false;
}

static gconv_device *find_used(gconv_devices *devices) {
  gconv_device *used = devices->is_left ? NULL : devices->first;
  for (int i = 0; !used && devices->spare && i < devices->workers; i++)
    used = devices->spare[i];
  return used;
}

void gconv_devices_summarize(gconv_devices *devices, gconv_batch_summary *summary) {
  end_waiter(devices);
  snprintf(summary->device_reason, sizeof summary->device_reason, "%s", devices->choice.reason);
  summary->device_wait_ms = devices->wait_ms;
  snprintf(summary->device.name, sizeof summary->device.name, "%s", devices->batch->device);
  gconv_device *used = find_used(devices);
  if (!used)
    return;
  summary->device = *gconv_device_get_info(used);
  if (!devices->is_left && devices->gpus > 1)
    snprintf(summary->device.name, sizeof summary->device.name, "%s", devices->batch->device);
  summary->device_start_ms = gconv_device_start_ms(used);
}

static void close_own(gconv_devices *devices) {
  for (int i = 0; devices->own && devices->spare && i < devices->workers; i++) {
    if (devices->own[i] != devices->first && devices->gpus == 0)
      gconv_device_close(devices->own[i]);
    gconv_device_close(devices->spare[i]);
  }
}

/* Beside the first. */
static void close_others(gconv_devices *devices) {
  for (int i = 0; i < MOST_GPUS; i++)
    if (devices->starters[i].started)
      pthread_join(devices->starters[i].thread, NULL);
  for (int i = 0; i < MOST_GPUS; i++) {
    struct other *other = &devices->others[i];
    if (other->opening && gconv_device_open_end(other->opening, &other->device) != GCONV_OK)
      other->device = NULL;
    gconv_device_close(other->device);
  }
}

void gconv_devices_close(gconv_devices *devices) {
  if (!devices)
    return;
  end_waiter(devices);
  if (devices->is_left) {
    for (int i = 0; i < devices->workers; i++)
      gconv_device_close(devices->spare[i]);
    return;
  }
  if (devices->opening && gconv_device_open_end(devices->opening, &devices->first) != GCONV_OK)
    devices->first = NULL; /* nobody has asked for it */
  close_others(devices);
  close_own(devices);
  gconv_device_close(devices->first);
  pthread_cond_destroy(&devices->ready);
  pthread_mutex_destroy(&devices->lock);
  free(devices->own);
  free(devices->spare);
  free(devices->without);
  free(devices);
}
