/* SPDX-License-Identifier: MIT */
/* Counters of a GPU, with functions here in the place of NVIDIA's: the test needs neither a GPU nor CUPTI. */
#include "base/clock.h"
#include "base/library.h"
#include "bench/cupti.h"
#include "bench/profile.h"
#include "device/device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- NVIDIA's side ---- */

enum { NO_PERMISSION = 35, PASSES = 3 };

static struct {
  const char *missing; /* a part of the name of a library that is not there */
  const char *fails;   /* the name of a function that fails, with `result` */
  int result;
  int passes, pushes, pops, enabled, hosts, contexts, current;
  size_t metrics; /* that were asked for */
} nvidia;

static const char *names[] = {"smsp__warp_issue_stalled_barrier_per_warp_active",
                              "smsp__warp_issue_stalled_long_scoreboard_per_warp_active",
                              "smsp__warp_issue_stalled_not_selected_per_warp_active",
                              "smsp__warp_issue_stalled_selected_per_warp_active",
                              "smsp__warp_issue_stalled_wait_per_warp_active",
                              "smsp__warp_issue_stalled_drain_per_warp_active",
                              "smsp__average_warp_latency",
                              "smsp__warp_issue_stalled_per_warp_active"};

static double value_of(const char *metric) {
  static const struct {
    const char *part;
    double value;
  } values[] = {{"sm__warps_active.avg.pct", 37.5},
                {"barrier", 12},
                {"long_scoreboard_per_warp_active.pct", 40},
                {"not_selected", 3},
                {"wait", 20},
                {"drain", 1},
                {"sm__throughput.avg.pct", 55},
                {"gpu__compute_memory_throughput", 80},
                {"sm__inst_executed.sum", 1000},
                {"sm__inst_executed_pipe_fma.sum", 600},
                {"sm__inst_executed_pipe_lsu.sum", 300},
                {"sm__inst_executed_pipe_", 0},
                {"dram__bytes_read.sum", 4096},
                {"dram__bytes_write.sum", 512},
                {"t_bytes.sum", 8192},
                {"wavefronts_mem_shared.sum", 3}};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (strstr(metric, values[i].part))
      return values[i].value;
  fail_msg("nobody should ask for %s", metric);
  return 0;
}

static int outcome(const char *name) {
  return nvidia.fails && strcmp(nvidia.fails, name) == 0 ? nvidia.result : 0;
}

/* DO(name, structure, what it does) */
#define FUNCTIONS(DO)                                                                                                       \
  DO(ProfilerInitialize, cupti_head, (void)p)                                                                               \
  DO(DeviceGetChipName, cupti_chip, p->name = "GX1")                                                                        \
  DO(ProfilerGetCounterAvailability, cupti_availability, p->bytes = 8)                                                      \
  DO(ProfilerHostInitialize, cupti_host, (assert_string_equal(p->chip, "GX1"), p->host = &nvidia, nvidia.hosts++))          \
  DO(ProfilerHostDeinitialize, cupti_host_end, (assert_ptr_equal(p->host, &nvidia), nvidia.hosts--))                        \
  DO(ProfilerHostGetBaseMetrics, cupti_base_metrics, (p->names = names, p->count = sizeof names / sizeof *names))           \
  DO(ProfilerHostConfigAddMetrics, cupti_add_metrics, nvidia.metrics += p->count)                                           \
  DO(ProfilerHostGetConfigImageSize, cupti_config_size, p->bytes = 16)                                                      \
  DO(ProfilerHostGetConfigImage, cupti_config_image, memset(p->image, 7, p->bytes))                                         \
  DO(RangeProfilerEnable, cupti_enable, (p->profiler = &nvidia, nvidia.enabled++))                                          \
  DO(RangeProfilerDisable, cupti_profiler, nvidia.enabled--)                                                                \
  DO(RangeProfilerGetCounterDataSize, cupti_counters_size, p->bytes = 24)                                                   \
  DO(RangeProfilerCounterDataImageInitialize, cupti_counters, memset(p->image, 0, p->bytes))                                \
  DO(RangeProfilerSetConfig, cupti_set_config, assert_int_equal(p->config[p->config_bytes - 1], 7))                         \
  DO(RangeProfilerStart, cupti_profiler, nvidia.passes++)                                                                   \
  DO(RangeProfilerPushRange, cupti_push, nvidia.pushes++)                                                                   \
  DO(RangeProfilerPopRange, cupti_profiler, nvidia.pops++)                                                                  \
  DO(RangeProfilerStop, cupti_stop, p->complete = nvidia.passes == PASSES)                                                  \
  DO(RangeProfilerDecodeData, cupti_decode, assert_int_equal(nvidia.passes, PASSES))

/* No GPU without tensor cores has this metric: then it is left out. */
static bool is_unknown(const char *function, const void *argument) {
  const cupti_add_metrics *asked = argument;
  return strcmp(function, "ProfilerHostConfigAddMetrics") == 0 && strstr(asked->names[0], "pipe_tensor");
}

#define DEFINE(name, type, act)                                                                                             \
  static int name(type *p) {                                                                                                \
    assert_true(p->size > 0 && p->size <= sizeof *p);                                                                       \
    act;                                                                                                                    \
    return is_unknown(#name, p) ? 9 : outcome(#name);                                                                       \
  }
FUNCTIONS(DEFINE)

static int ProfilerHostEvaluateToGpuValues(cupti_evaluate *p) {
  assert_int_equal(nvidia.enabled, 0);
  for (size_t i = 0; i < p->count; i++)
    p->values[i] = value_of(p->names[i]);
  return outcome("ProfilerHostEvaluateToGpuValues");
}

static int GetResultString(int result, const char **text) {
  *text = result == 7 ? "CUPTI_ERROR_INVALID_OPERATION" : NULL;
  return 0;
}

static int Init(unsigned flags) {
  return (int)flags;
}
static int DeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return outcome("DeviceGet");
}
static int DeviceGetAttribute(int *value, int attribute, int device) {
  assert_int_equal(device, 3);
  *value = attribute == 39 ? 2048 : attribute == 81 ? 233472 : attribute == 82 ? 65536 : attribute == 106 ? 32 : 1024;
  return 0;
}
static int DeviceGetPCIBusId(char *bus, int size, int device) {
  (void)device;
  snprintf(bus, (size_t)size, "0000:1b:00.0");
  return 0;
}

static const char multiply[] =
    "_ZN40_GLOBAL__N__524f052b_8_dense_cu_44a4d0f314multiply_tilesINS_12groups_shapeILi3EEENS_13dense_"
    "operandILb0EEES4_NS_13dense_forwardEEEvNS_11groups_workET0_T1_T2_",
                  multiply_of_four[] =
                      "_ZN40_GLOBAL__N__524f052b_8_dense_cu_44a4d0f314multiply_tilesINS_12groups_shapeILi4EEENS"
                      "_13dense_operandILb0EEES4_NS_13dense_forwardEEEvNS_11groups_workET0_T1_T2_";

/* A record of a kernel, as CUPTI writes it. */
static struct {
  uint32_t kind;
  uint8_t caches[2];
  uint16_t registers;
  uint32_t partitions[2];
  uint64_t start, end, completed;
  uint32_t of[3];
  int32_t grid[3], block[3], fixed, dynamic;
  uint32_t local[2], correlation;
  int64_t grid_id;
  const char *name;
} kernels[] = {{.kind = 10, .registers = 40, .start = 100, .end = 200, .block = {64, 1, 1}, .name = "short"},
               {.kind = 10,
                .registers = 64,
                .start = 300,
                .end = 2300,
                .block = {32, 8, 1},
                .fixed = 1000,
                .dynamic = 24,
                .name = "long"},
               {.kind = 10, .start = 0, .end = 900, .grid = {5, 2, 1}, .block = {32, 1, 1}, .name = multiply},
               {.kind = 10, .start = 0, .end = 1100, .grid = {3, 2, 1}, .block = {32, 1, 1}, .name = multiply_of_four},
               {.kind = 3, .start = 0, .end = 90000, .name = "no kernel"},
               {.kind = 10, .start = 0, .end = 10, .block = {32, 1, 1}, .name = "_Z8add_sumsPfi"},
               {.kind = 10, .start = 0, .end = 10, .block = {32, 1, 1}, .name = "_ZN99short"}};
static void (*complete_buffer)(void *, uint32_t, uint8_t *, size_t, size_t);

static int ActivityRegisterCallbacks(void (*request)(uint8_t **, size_t *, size_t *),
                                     void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t)) {
  (void)request;
  complete_buffer = complete;
  return 0;
}
static int ActivityEnable(int kind) {
  return kind == 10 ? 0 : 1;
}
static int ActivityFlushAll(uint32_t flag) {
  (void)flag;
  complete_buffer(NULL, 0, malloc(8), 8, 8);
  return 0;
}
static int ActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record) {
  (void)buffer, (void)valid;
  void *next = *record == NULL ? (char *)kernels : (char *)*record + sizeof *kernels;
  if (next == (char *)kernels + sizeof kernels)
    return 12;
  *record = next;
  return 0;
}

static int nvml_init(void) {
  return 0;
}
static int nvml_find(const char *bus, void **found) {
  assert_string_equal(bus, "0000:1b:00.0");
  *found = &nvidia;
  return 0;
}
static int nvml_energy(void *found, unsigned long long *millijoules) {
  (void)found; /* 200 W, renewed each 70 ms */
  *millijoules = (unsigned long long)(gconv_now_ms() / 70) * 70 * 200;
  return 0;
}

static int DevicePrimaryCtxRetain(void **context, int device) {
  assert_int_equal(device, 3);
  *context = &nvidia;
  nvidia.contexts++;
  return 0;
}
static int DevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  nvidia.contexts--;
  return 0;
}
static int CtxPushCurrent_v2(void *context) {
  assert_ptr_equal(context, &nvidia);
  nvidia.current++;
  return 0;
}
static int CtxPopCurrent_v2(void **context) {
  *context = &nvidia;
  nvidia.current--;
  return 0;
}

const char *__wrap_gconv_library_load(gconv_library *library);
const char *__wrap_gconv_library_load(gconv_library *library) {
#define ROW(name, type, act) {"cupti" #name, (void (*)(void))name},
  static const struct {
    const char *name;
    void (*function)(void);
  } rows[] = {FUNCTIONS(ROW){"cuptiProfilerHostEvaluateToGpuValues", (void (*)(void))ProfilerHostEvaluateToGpuValues},
              {"cuptiGetResultString", (void (*)(void))GetResultString},
              {"cuInit", (void (*)(void))Init},
              {"cuDeviceGet", (void (*)(void))DeviceGet},
              {"cuDeviceGetAttribute", (void (*)(void))DeviceGetAttribute},
              {"cuDeviceGetPCIBusId", (void (*)(void))DeviceGetPCIBusId},
              {"cuptiActivityRegisterCallbacks", (void (*)(void))ActivityRegisterCallbacks},
              {"cuptiActivityEnable", (void (*)(void))ActivityEnable},
              {"cuptiActivityDisable", (void (*)(void))ActivityEnable},
              {"cuptiActivityFlushAll", (void (*)(void))ActivityFlushAll},
              {"cuptiActivityGetNextRecord", (void (*)(void))ActivityGetNextRecord},
              {"nvmlInit_v2", (void (*)(void))nvml_init},
              {"nvmlDeviceGetHandleByPciBusId_v2", (void (*)(void))nvml_find},
              {"nvmlDeviceGetTotalEnergyConsumption", (void (*)(void))nvml_energy},
              {"cuDevicePrimaryCtxRetain", (void (*)(void))DevicePrimaryCtxRetain},
              {"cuDevicePrimaryCtxRelease_v2", (void (*)(void))DevicePrimaryCtxRelease_v2},
              {"cuCtxPushCurrent_v2", (void (*)(void))CtxPushCurrent_v2},
              {"cuCtxPopCurrent_v2", (void (*)(void))CtxPopCurrent_v2}};
  if (nvidia.missing && strstr(library->files[0], nvidia.missing))
    return "it was not found";
  for (const gconv_symbol *symbol = library->symbols; symbol->name; symbol++) {
    size_t i = 0;
    while (i < sizeof rows / sizeof *rows && strcmp(rows[i].name, symbol->name) != 0)
      i++;
    assert_true(i < sizeof rows / sizeof *rows);
    memcpy(symbol->address, &rows[i].function, sizeof rows[i].function);
  }
  return NULL;
}

/* ---- Tests ---- */

static gconv_device device = {.info.name = "cuda:3"};

static int reset(void **state) {
  (void)state;
  memset(&nvidia, 0, sizeof nvidia);
  return 0;
}

/* All that was taken is given back. */
static int look(void **state) {
  (void)state;
  return nvidia.enabled | nvidia.hosts | nvidia.contexts | nvidia.current | (nvidia.pushes - nvidia.pops);
}

static gconv_status count_work(void *user) {
  *(int *)user += nvidia.enabled; /* after the counters, kernels and energy are looked at */
  return nvidia.enabled && *(int *)user == 2 && nvidia.fails && strcmp(nvidia.fails, "work") == 0
             ? gconv_fail(GCONV_MISMATCH, "the work went wrong")
             : GCONV_OK;
}

static void refuse(const char *text) {
  gconv_profiler *profiler = (gconv_profiler *)&nvidia;
  assert_int_equal(gconv_profiler_open(&device, &profiler), GCONV_UNSUPPORTED);
  assert_null(profiler);
  assert_non_null(strstr(gconv_last_error(), text));
}

static void test_what_is_missing_is_told(void **state) {
  (void)state;
  nvidia.missing = "libcupti.so";
  refuse("CUPTI of CUDA 12.6 or later: it was not found. It is in the CUDA toolkit");
  nvidia.missing = "libcuda.so";
  refuse("it was not found");
  nvidia.missing = NULL;
  strcpy(device.info.name, "cpu");
  refuse("the device is cpu");
  strcpy(device.info.name, "cuda:3");
  nvidia.fails = "DeviceGet", nvidia.result = 101;
  refuse("error 101");
  nvidia.fails = "ProfilerGetCounterAvailability", nvidia.result = NO_PERMISSION;
  refuse("run as root, in a container with the capability SYS_ADMIN, or load the kernel module nvidia with "
         "NVreg_RestrictProfilingToAdminUsers=0");
  nvidia.fails = "ProfilerHostConfigAddMetrics", nvidia.result = 7;
  refuse("cuptiProfilerHostConfigAddMetrics: CUPTI_ERROR_INVALID_OPERATION (7)");
}

static void test_largest_stalls_are_found(void **state) {
  (void)state;
  gconv_profiler *profiler;
  gconv_profile profile;
  int works = 0;
  assert_int_equal(gconv_profiler_open(&device, &profiler), GCONV_OK);
  assert_int_equal(nvidia.metrics, 1 + 5 + 3 + 9 + 5); /* the occupancy, stalls without "selected", and all others */
  assert_int_equal(gconv_profiler_run(profiler, count_work, &works, &profile), GCONV_OK);
  assert_int_equal(works, PASSES);
  assert_true(profile.known);
  assert_float_equal(profile.occupancy, 0.375, 1e-9);
  static const struct {
    const char *reason;
    double share;
  } expected[] = {{"long scoreboard", 0.4}, {"wait", 0.2}, {"barrier", 0.12}, {"not selected", 0.03}, {"drain", 0.01}};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    assert_string_equal(profile.stalls[i].reason, expected[i].reason);
    assert_float_equal(profile.stalls[i].share, expected[i].share, 1e-9);
  }
  gconv_profiler_close(profiler);
}

/* Kernels of one function and the same types are one, whatever the numbers among the arguments of its template. */
static void test_all_kernels_are_told(void **state) {
  (void)state;
  gconv_kernel_times *times;
  size_t count;
  assert_int_equal(gconv_kernels_begin(), GCONV_OK);
  assert_int_equal(gconv_kernels_end(&times, &count), GCONV_OK);
  static const struct {
    const char *name;
    int launches, blocks;
    double us;
  } expected[] = {{"long", 1, 0, 2},
                  {"multiply_tiles groups_shape dense_operand dense_forward", 2, 16, 2},
                  {"short", 1, 0, 0.1},
                  {"add_sums", 1, 0, 0.01},
                  {"_ZN99short", 1, 0, 0.01}};
  assert_int_equal(count, sizeof expected / sizeof *expected);
  for (size_t i = 0; i < count; i++) {
    size_t k = 0;
    while (k < count && strcmp(times[k].longest.name, expected[i].name) != 0)
      k++;
    assert_true(k < count);
    assert_true(k == 0 || times[k].ms <= times[k - 1].ms);
    assert_int_equal(times[k].launches, expected[i].launches);
    assert_int_equal(times[k].blocks, expected[i].blocks);
    assert_float_equal(times[k].ms, expected[i].us * 1e-3, 1e-9);
  }
  free(times);
  nvidia.missing = "libcupti.so";
  assert_int_equal(gconv_kernels_begin(), GCONV_UNSUPPORTED);
  assert_non_null(strstr(gconv_last_error(), "CUPTI: it was not found"));
}

static void test_more_is_told_of_the_work(void **state) {
  (void)state;
  gconv_profiler *profiler;
  gconv_profile profile;
  int works = 0;
  assert_int_equal(gconv_profiler_open(&device, &profiler), GCONV_OK);
  assert_int_equal(gconv_profiler_run(profiler, count_work, &works, &profile), GCONV_OK);
  assert_float_equal(profile.units, 0.55, 1e-9);
  assert_float_equal(profile.memory, 0.8, 1e-9);
  assert_float_equal(profile.instructions, 1000, 1e-9);
  assert_float_equal(profile.kinds[GCONV_PROFILE_MULTIPLY_ADD], 600, 1e-9);
  assert_float_equal(profile.kinds[GCONV_PROFILE_MEMORY], 300, 1e-9);
  assert_true(isnan(profile.kinds[GCONV_PROFILE_TENSOR])); /* it was not there */
  assert_float_equal(profile.bytes[GCONV_PROFILE_DRAM_READ], 4096, 1e-9);
  assert_float_equal(profile.bytes[GCONV_PROFILE_SHARED], 3 * 128, 1e-9);
  assert_string_equal(profile.kernel.name, "long");
  assert_int_equal(profile.kernel.registers, 64);
  assert_int_equal(profile.kernel.threads, 256);
  assert_int_equal(profile.kernel.shared, 1024);
  assert_float_equal(profile.theoretical, 0.5, 1e-9); /* 64 registers: half of the warps */
  assert_true(profile.joules > 0);
  gconv_profiler_close(profiler);
}

/* Sleeps; user: how long all calls took, how many they were, and how long the longest took. */
static gconv_status sleep_work(void *user) {
  const double begin = gconv_now_ms();
  usleep(10000);
  double *works = user;
  const double took = gconv_now_ms() - begin;
  works[0] += took;
  works[1]++;
  works[2] = took > works[2] ? took : works[2];
  return GCONV_OK;
}

/* The counter's steps do not count, only the time from a step to the end of the call that it falls into. */
static void test_energy(void **state) {
  (void)state;
  double works[3] = {0}, joules;
  assert_int_equal(gconv_kernel_energy("0000:1b:00.0", sleep_work, works, &joules), GCONV_OK);
  assert_float_equal(joules, 0.2 * works[0] / works[1], joules * (2 * works[2] + 10) / 1000);
}

/* By NVIDIA's calculator, for a multiprocessor of an H200. */
static void test_occupancy(void **state) {
  (void)state;
  static const gconv_occupancy_limits limits = {2048, 32, 65536, 233472, 1024};
  static const struct {
    int32_t registers, threads, shared;
    double part;
  } cases[] = {{32, 1024, 0, 1},   {33, 1024, 0, 0.5},    {64, 256, 0, 0.5},    {65, 1024, 0, 0}, {40, 32, 0, 0.5},
               {40, 128, 0, 0.75}, {32, 256, 49152, 0.5}, {255, 128, 0, 0.125}, {32, 1000, 0, 1}, {32, 96, 233472, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_float_equal(gconv_occupancy(&limits, cases[i].registers, cases[i].threads, cases[i].shared), cases[i].part, 1e-9);
}

static void test_failures_end_the_session(void **state) {
  (void)state;
  static const struct {
    const char *name, *text;
    int result;
    gconv_status status;
  } cases[] = {
      {"work", "the work went wrong", 0, GCONV_MISMATCH},
      {"RangeProfilerSetConfig", "cuptiRangeProfilerSetConfig: CUPTI_ERROR_INVALID_OPERATION (7)", 7, GCONV_UNSUPPORTED},
      {"RangeProfilerStart", "unknown (999)", 999, GCONV_UNSUPPORTED},
      {"ProfilerHostEvaluateToGpuValues", "(7)", 7, GCONV_UNSUPPORTED},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    gconv_profiler *profiler;
    gconv_profile profile;
    int works = 0;
    reset(state);
    assert_int_equal(gconv_profiler_open(&device, &profiler), GCONV_OK);
    nvidia.fails = cases[i].name, nvidia.result = cases[i].result;
    assert_int_equal(gconv_profiler_run(profiler, count_work, &works, &profile), cases[i].status);
    assert_non_null(strstr(gconv_last_error(), cases[i].text));
    assert_false(profile.known);
    assert_int_equal(nvidia.enabled, 0);
    gconv_profiler_close(profiler);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_what_is_missing_is_told, reset, look),
      cmocka_unit_test_setup_teardown(test_largest_stalls_are_found, reset, look),
      cmocka_unit_test_setup_teardown(test_all_kernels_are_told, reset, look),
      cmocka_unit_test_setup_teardown(test_energy, reset, look),
      cmocka_unit_test_setup_teardown(test_more_is_told_of_the_work, reset, look),
      cmocka_unit_test_setup_teardown(test_occupancy, reset, look),
      cmocka_unit_test_setup_teardown(test_failures_end_the_session, reset, look),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
