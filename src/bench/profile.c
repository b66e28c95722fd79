/* SPDX-License-Identifier: MIT */
/*
 * Hardware counters, by CUPTI's range profiler. It counts between two calls (a range), with a few counters at a time. So the
 * range is repeated until all counters are read. The reasons of stalls differ from GPU to GPU; the library lists them.
 */
#include "bench/profile.h"

#include "base/library.h"
#include "base/memory.h"
#include "bench/cupti.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- The libraries ---- */

static struct {
#define MEMBER(name, type) int (*name)(type *);
  CUPTI_CALLS(MEMBER)
  int (*GetResultString)(int result, const char **text);
} cupti;

static struct {
  int (*Init)(unsigned flags);
  int (*DeviceGet)(int *device, int ordinal);
  int (*DeviceGetAttribute)(int *value, int attribute, int device);
  int (*DeviceGetPCIBusId)(char *bus, int size, int device);
  int (*DevicePrimaryCtxRetain)(void **context, int device);
  int (*DevicePrimaryCtxRelease)(int device);
  int (*CtxPushCurrent)(void *context);
  int (*CtxPopCurrent)(void **context);
} driver;

#define SYMBOL(name, type) {"cupti" #name, &cupti.name},
static const gconv_symbol cupti_symbols[] = {CUPTI_CALLS(SYMBOL){"cuptiGetResultString", &cupti.GetResultString},
                                             {NULL, NULL}};
static const gconv_symbol driver_symbols[] = {{"cuInit", &driver.Init},
                                              {"cuDeviceGet", &driver.DeviceGet},
                                              {"cuDeviceGetAttribute", &driver.DeviceGetAttribute},
                                              {"cuDeviceGetPCIBusId", &driver.DeviceGetPCIBusId},
                                              {"cuDevicePrimaryCtxRetain", &driver.DevicePrimaryCtxRetain},
                                              {"cuDevicePrimaryCtxRelease_v2", &driver.DevicePrimaryCtxRelease},
                                              {"cuCtxPushCurrent_v2", &driver.CtxPushCurrent},
                                              {"cuCtxPopCurrent_v2", &driver.CtxPopCurrent},
                                              {NULL, NULL}};
/* The names of the library: first by the system's search path, then in the folders of CUDA's packages and archives. */
static const char *const cupti_files[] = {"libcupti.so.13", "libcupti.so.12", "/usr/local/cuda/lib64/libcupti.so",
                                          "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so", NULL};
static const char *const driver_files[] = {"libcuda.so.1", NULL};
static gconv_library cupti_library = {cupti_files, cupti_symbols, "", 0};
static gconv_library driver_library = {driver_files, driver_symbols, "", 0};

static gconv_status explain(int result, const char *call) {
  const char *text = NULL;
  if (result == 0)
    return GCONV_OK;
  if (result == INSUFFICIENT_PRIVILEGES || result == VIRTUAL_INSUFFICIENT_PRIVILEGES)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "the driver does not let this user read the GPU's counters: run as root, in a container with the "
                      "capability SYS_ADMIN, or load the kernel module nvidia with NVreg_RestrictProfilingToAdminUsers=0 "
                      "(NVIDIA's page on ERR_NVGPUCTRPERM tells how)");
  cupti.GetResultString(result, &text);
  return gconv_fail(GCONV_UNSUPPORTED, "CUPTI: cupti%s: %s (%d)", call, text ? text : "unknown", result);
}

#define CUPTI_TRY(name, argument) GCONV_TRY(explain(cupti.name(argument), #name))

/* ---- Opening ---- */

enum { MOST_METRICS = 80, MOST_LETTERS = 96 };

struct gconv_profiler {
  int device;
  void *context, *host;
  char names[MOST_METRICS][MOST_LETTERS]; /* names of metrics: occupancy, stalls, then those of `places` */
  size_t stalls;                          /* how many metrics of stalls there are */
  size_t places[MOST_METRICS];            /* of metrics after stalls: where the value goes in gconv_profile */
  double factors[MOST_METRICS];           /* the factor of this value */
  const char *metrics[MOST_METRICS];      /* pointers to `names` */
  size_t count;
  uint8_t *available; /* the counters of the GPU; `host` reads it until it is closed */
  uint8_t *config;    /* which counters each repetition reads */
  size_t config_bytes;
};

/* Metrics of stalls have the names PREFIX reason SUFFIX. */
static const char PREFIX[] = "smsp__warp_issue_stalled_", SUFFIX[] = "_per_warp_active", UNIT[] = ".pct";

static gconv_status add_metric(gconv_profiler *profiler, const char *name, const char *unit) {
  if (profiler->count == MOST_METRICS || strlen(name) + strlen(unit) >= MOST_LETTERS)
    return gconv_fail(GCONV_UNSUPPORTED, "CUPTI: there are more metrics of stalls than expected, or longer ones: %s", name);
  char *own = profiler->names[profiler->count];
  snprintf(own, MOST_LETTERS, "%s%s", name, unit);
  profiler->metrics[profiler->count++] = own;
  return GCONV_OK;
}

/* "selected" is no stall: the warp issued an instruction. */
static bool is_stall(const char *name) {
  const size_t length = strlen(name), prefix = strlen(PREFIX), suffix = strlen(SUFFIX);
  return length > prefix + suffix && strncmp(name, PREFIX, prefix) == 0 && strcmp(name + length - suffix, SUFFIX) == 0 &&
         strncmp(name + prefix, "selected_", 9) != 0;
}

/* Further metrics, each of which goes to a double of the profile. */
static const struct {
  const char *name;
  size_t place;
  double factor;
} others[] = {
#define KIND(kind, title, pipe)                                                                                             \
  {"sm__inst_executed_pipe_" pipe ".sum", offsetof(gconv_profile, kinds) + GCONV_PROFILE_##kind * sizeof(double), 1},
#define PATH(path, title, key, metric, factor)                                                                              \
  {metric, offsetof(gconv_profile, bytes) + GCONV_PROFILE_##path * sizeof(double), factor},
    {"sm__throughput.avg.pct_of_peak_sustained_elapsed", offsetof(gconv_profile, units), 0.01},
    {"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", offsetof(gconv_profile, memory), 0.01},
    {"sm__inst_executed.sum", offsetof(gconv_profile, instructions), 1},
    GCONV_PROFILE_KINDS(KIND) GCONV_PROFILE_TRAFFIC(PATH)};

/* Adds the metrics that this GPU has. Each is tried by itself, because one unknown metric makes all fail. */
static gconv_status add_others(gconv_profiler *profiler) {
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const size_t at = profiler->count;
    GCONV_TRY(add_metric(profiler, others[i].name, ""));
    cupti_add_metrics one = {SIZE_TO(cupti_add_metrics, count), NULL, profiler->host, &profiler->metrics[at], 1};
    if (cupti.ProfilerHostConfigAddMetrics(&one) != 0) {
      profiler->count = at;
      continue;
    }
    profiler->places[at] = others[i].place;
    profiler->factors[at] = others[i].factor;
  }
  return GCONV_OK;
}

static gconv_status choose_metrics(gconv_profiler *profiler) {
  cupti_base_metrics all = {.size = SIZE_TO(cupti_base_metrics, count), .host = profiler->host, .type = RATIO};
  CUPTI_TRY(ProfilerHostGetBaseMetrics, &all);
  GCONV_TRY(add_metric(profiler, "sm__warps_active.avg.pct_of_peak_sustained_active", ""));
  for (size_t i = 0; i < all.count; i++)
    if (is_stall(all.names[i]))
      GCONV_TRY(add_metric(profiler, all.names[i], UNIT));
  cupti_add_metrics chosen = {SIZE_TO(cupti_add_metrics, count), NULL, profiler->host, profiler->metrics, profiler->count};
  CUPTI_TRY(ProfilerHostConfigAddMetrics, &chosen);
  profiler->stalls = profiler->count - 1;
  GCONV_TRY(add_others(profiler));
  cupti_config_size size = {.size = SIZE_TO(cupti_config_size, bytes), .host = profiler->host};
  CUPTI_TRY(ProfilerHostGetConfigImageSize, &size);
  GCONV_TRY(gconv_allocate(size.bytes, "the counters of the GPU", (void **)&profiler->config));
  profiler->config_bytes = size.bytes;
  cupti_config_image config = {SIZE_TO(cupti_config_image, image), NULL, profiler->host, size.bytes, profiler->config};
  CUPTI_TRY(ProfilerHostGetConfigImage, &config);
  return GCONV_OK;
}

/* Opens the part of the library that knows the metrics of a chip, with the counters that this GPU has. */
static gconv_status open_host(gconv_profiler *profiler) {
  cupti_head head = {.size = SIZE_TO(cupti_head, unused)};
  cupti_chip chip = {.size = SIZE_TO(cupti_chip, name), .device = (size_t)profiler->device};
  cupti_availability there = {.size = SIZE_TO(cupti_availability, image), .context = profiler->context};
  CUPTI_TRY(ProfilerInitialize, &head);
  CUPTI_TRY(DeviceGetChipName, &chip);
  CUPTI_TRY(ProfilerGetCounterAvailability, &there);
  GCONV_TRY(gconv_allocate(there.bytes, "the counters of the GPU", (void **)&profiler->available));
  there.image = profiler->available;
  CUPTI_TRY(ProfilerGetCounterAvailability, &there);
  cupti_host host = {.size = SIZE_TO(cupti_host, host), .profiler = RANGE_PROFILER, .chip = chip.name};
  host.availability = profiler->available;
  CUPTI_TRY(ProfilerHostInitialize, &host);
  profiler->host = host.host;
  return GCONV_OK;
}

static gconv_status explain_driver(int result) {
  return result == 0 ? GCONV_OK : gconv_fail(GCONV_UNSUPPORTED, "the CUDA driver gives no context: error %d", result);
}

static gconv_status start(gconv_profiler *profiler, int ordinal) {
  const char *trouble = gconv_library_load(&driver_library);
  if (!trouble)
    trouble = gconv_library_load(&cupti_library);
  if (trouble)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "it needs NVIDIA's library CUPTI of CUDA 12.6 or later: %s. It is in the CUDA toolkit, and in the "
                      "Python package nvidia-cuda-cupti; LD_LIBRARY_PATH may name its folder",
                      trouble);
  GCONV_TRY(explain_driver(driver.Init(0)));
  GCONV_TRY(explain_driver(driver.DeviceGet(&profiler->device, ordinal)));
  GCONV_TRY(explain_driver(driver.DevicePrimaryCtxRetain(&profiler->context, profiler->device)));
  GCONV_TRY(explain_driver(driver.CtxPushCurrent(profiler->context)));
  gconv_status status = open_host(profiler);
  GCONV_THEN(status, choose_metrics(profiler));
  driver.CtxPopCurrent(&(void *){NULL});
  return status;
}

gconv_status gconv_profiler_open(const gconv_device *device, gconv_profiler **profiler) {
  const char *name = gconv_device_get_info(device)->name;
  *profiler = NULL;
  if (strncmp(name, "cuda:", 5) != 0)
    return gconv_fail(GCONV_UNSUPPORTED, "only NVIDIA GPUs have counters, and the device is %s (gconv devices lists GPUs)",
                      name);
  gconv_profiler *made;
  GCONV_NEW(made, 1, "out of memory");
  gconv_status status = start(made, atoi(name + 5));
  if (status == GCONV_OK)
    *profiler = made;
  else
    gconv_profiler_close(made);
  return status;
}

void gconv_profiler_close(gconv_profiler *profiler) {
  if (!profiler)
    return;
  if (profiler->host)
    cupti.ProfilerHostDeinitialize(&(cupti_host_end){SIZE_TO(cupti_host_end, host), NULL, profiler->host});
  if (profiler->context)
    driver.DevicePrimaryCtxRelease(profiler->device);
  gconv_release(profiler->available);
  gconv_release(profiler->config);
  free(profiler);
}

/* ---- Running ---- */

/* Repeats the work until all counters have counted. */
static gconv_status count(cupti_profiler *session, gconv_status (*work)(void *user), void *user) {
  enum { MOST_PASSES = 100 };
  cupti_push push = {SIZE_TO(cupti_push, name), NULL, session->profiler, "work"};
  cupti_stop stop = {.size = SIZE_TO(cupti_stop, complete), .profiler = session->profiler};
  for (int pass = 0; pass < MOST_PASSES && !stop.complete; pass++) {
    CUPTI_TRY(RangeProfilerStart, session);
    CUPTI_TRY(RangeProfilerPushRange, &push);
    gconv_status status = work(user);
    CUPTI_TRY(RangeProfilerPopRange, session);
    CUPTI_TRY(RangeProfilerStop, &stop);
    GCONV_TRY(status);
  }
  if (!stop.complete)
    return gconv_fail(GCONV_UNSUPPORTED, "CUPTI: after %d passes, some counters have not counted", MOST_PASSES);
  cupti_decode decode = {.size = SIZE_TO(cupti_decode, dropped), .profiler = session->profiler};
  CUPTI_TRY(RangeProfilerDecodeData, &decode);
  return GCONV_OK;
}

/* gconv_release() frees counters->image, also after a failure. */
static gconv_status count_all(gconv_profiler *profiler, cupti_profiler *session, gconv_status (*work)(void *user),
                              void *user, cupti_counters *counters) {
  cupti_counters_size size = {.size = SIZE_TO(cupti_counters_size, bytes),
                              .profiler = session->profiler,
                              .names = profiler->metrics,
                              .count = profiler->count,
                              .ranges = 1,
                              .nodes = 1};
  CUPTI_TRY(RangeProfilerGetCounterDataSize, &size);
  GCONV_TRY(gconv_allocate(size.bytes, "the counters of the GPU", (void **)&counters->image));
  counters->bytes = size.bytes;
  CUPTI_TRY(RangeProfilerCounterDataImageInitialize, counters);
  cupti_set_config config = {.size = SIZE_TO(cupti_set_config, level),
                             .profiler = session->profiler,
                             .config_bytes = profiler->config_bytes,
                             .config = profiler->config,
                             .counters_bytes = counters->bytes,
                             .counters = counters->image,
                             .range = USER_RANGE,
                             .replay = USER_REPLAY,
                             .ranges = 1,
                             .levels = 1,
                             .first_level = 1,
                             .level = 1};
  CUPTI_TRY(RangeProfilerSetConfig, &config);
  return count(session, work, user);
}

/* "smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct" -> "long scoreboard" */
static void name_reason(const char *metric, char *reason, size_t size) {
  const char *from = metric + strlen(PREFIX);
  snprintf(reason, size, "%.*s", (int)(strlen(from) - strlen(SUFFIX) - strlen(UNIT)), from);
  for (char *at = reason; *at; at++)
    *at = *at == '_' ? ' ' : *at;
}

/* Inserts a stall into the list of the largest ones. */
static void place_stall(gconv_profile *profile, const char *metric, double share) {
  int at = GCONV_PROFILE_REASONS;
  while (at > 0 && share > profile->stalls[at - 1].share)
    at--;
  if (at == GCONV_PROFILE_REASONS)
    return;
  memmove(&profile->stalls[at + 1], &profile->stalls[at],
          sizeof *profile->stalls * (size_t)(GCONV_PROFILE_REASONS - 1 - at));
  profile->stalls[at].share = share;
  name_reason(metric, profile->stalls[at].reason, sizeof profile->stalls[at].reason);
}

static gconv_status evaluate(gconv_profiler *profiler, const cupti_counters *counters, gconv_profile *profile) {
  double values[MOST_METRICS];
  cupti_evaluate question = {.size = SIZE_TO(cupti_evaluate, values),
                             .host = profiler->host,
                             .counters = counters->image,
                             .bytes = counters->bytes,
                             .names = profiler->metrics,
                             .count = profiler->count,
                             .values = values};
  CUPTI_TRY(ProfilerHostEvaluateToGpuValues, &question);
  profile->occupancy = values[0] / 100;
  for (size_t i = 1; i <= profiler->stalls; i++)
    place_stall(profile, profiler->metrics[i], values[i] / 100);
  for (size_t i = profiler->stalls + 1; i < profiler->count; i++) {
    const double value = values[i] * profiler->factors[i];
    memcpy((char *)profile + profiler->places[i], &value, sizeof value);
  }
  profile->known = true;
  return GCONV_OK;
}

/* Sets all numbers to NAN, which stands for unknown. */
static void clear(gconv_profile *profile) {
  *profile = (gconv_profile){.units = NAN, .memory = NAN, .instructions = NAN, .joules = NAN, .theoretical = NAN};
  for (int i = 0; i < GCONV_PROFILE_KIND_COUNT; i++)
    profile->kinds[i] = NAN;
  for (int i = 0; i < GCONV_PROFILE_PATH_COUNT; i++)
    profile->bytes[i] = NAN;
}

/* Returns an attribute of the device by its number in the driver, or 0 if the driver does not know it. */
static int32_t attribute(const gconv_profiler *profiler, int number) {
  int value = 0;
  return driver.DeviceGetAttribute(&value, number, profiler->device) == 0 ? value : 0;
}

/* Finds the longest kernel and the energy. If that fails, the profile still has its counters. */
static void look_at_kernels(const gconv_profiler *profiler, gconv_status (*work)(void *user), void *user,
                            gconv_profile *profile) {
  enum { THREADS = 39, SHARED = 81, REGISTERS = 82, BLOCKS = 106, RESERVED = 111 };
  char bus[32] = "";
  profile->limits =
      (gconv_occupancy_limits){attribute(profiler, THREADS), attribute(profiler, BLOCKS), attribute(profiler, REGISTERS),
                               attribute(profiler, SHARED), attribute(profiler, RESERVED)};
  if (gconv_kernel_longest(work, user, &profile->kernel) == GCONV_OK)
    profile->theoretical =
        gconv_occupancy(&profile->limits, profile->kernel.registers, profile->kernel.threads, profile->kernel.shared);
  if (driver.DeviceGetPCIBusId(bus, sizeof bus, profiler->device) != 0 ||
      gconv_kernel_energy(bus, work, user, &profile->joules) != GCONV_OK)
    profile->joules = NAN;
}

gconv_status gconv_profiler_run(gconv_profiler *profiler, gconv_status (*work)(void *user), void *user,
                                gconv_profile *profile) {
  clear(profile);
  GCONV_TRY(explain_driver(driver.CtxPushCurrent(profiler->context)));
  cupti_enable enable = {.size = SIZE_TO(cupti_enable, profiler), .context = profiler->context};
  gconv_status status = explain(cupti.RangeProfilerEnable(&enable), "RangeProfilerEnable");
  if (status == GCONV_OK) {
    cupti_profiler session = {SIZE_TO(cupti_profiler, profiler), NULL, enable.profiler};
    cupti_counters counters = {.size = SIZE_TO(cupti_counters, image), .profiler = enable.profiler};
    status = count_all(profiler, &session, work, user, &counters);
    cupti.RangeProfilerDisable(&session);
    GCONV_THEN(status, evaluate(profiler, &counters, profile));
    gconv_release(counters.image);
  }
  if (status == GCONV_OK)
    look_at_kernels(profiler, work, user, profile);
  driver.CtxPopCurrent(&(void *){NULL});
  return status;
}
