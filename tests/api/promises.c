/* SPDX-License-Identifier: MIT */
/* What docs/embedding.md promises of a process that embeds the library: output, signals, locale, folder, environment,
 * rounding and other modes of the processor stay as they were. Small stacks are in tests/unit/small_stack.c, forks in
 * embed.c, files in control.c and tests/fault. */
#include "gconv_classify.h"
#include "gconv_embed.h"

#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define CHECK(condition)                                                                                                    \
  ((condition) ? (void)0 : (fprintf(told, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, gconv_last_error()), exit(1)))

static FILE *told; /* the standard error of before */
extern char **environ;

static gconv_image picture(gconv_type type, int32_t height, int32_t width, int32_t channels) {
  gconv_image image = {.type = type, .frames = 1, .height = height, .width = width, .channels = channels};
  CHECK(gconv_image_allocate(&image) == GCONV_OK);
  for (size_t i = 0; i < (size_t)height * (size_t)width * (size_t)channels; i++)
    if (type == GCONV_F32)
      ((float *)image.data)[i] = (float)(i * 7919 % 1000) / 999;
    else
      ((uint8_t *)image.data)[i] = (uint8_t)(i * 7919 >> 3);
  return image;
}

/* ---- Work of all kinds ---- */

static void encode_and_decode(void) {
  gconv_image image = picture(GCONV_U8, 40, 50, 3);
  const gconv_format_info *format;
  for (size_t i = 0; (format = gconv_format_at(i)); i++) {
    gconv_bytes_out out = {0};
    gconv_image read = {0};
    const gconv_write_options options = {.format = format};
    if (!format->writes || !format->holds[GCONV_U8] || !format->reads)
      continue;
    CHECK(gconv_image_encode(&out, &options, &image) == GCONV_OK);
    CHECK(gconv_image_decode(&(gconv_bytes_in){.data = out.data, .size = out.size}, NULL, &read) == GCONV_OK);
    CHECK(gconv_image_decode(&(gconv_bytes_in){.data = out.data, .size = out.size / 3}, NULL, &(gconv_image){0}) !=
              GCONV_OK ||
          format->name[0] != 'p');
    gconv_image_free(&read);
    free(out.data);
  }
  gconv_image_free(&image);
}

static void learn(gconv_device *device) {
  static float rows[300];
  static const char *labels[100];
  for (int i = 0; i < 300; i++)
    rows[i] = (float)sin(i);
  for (int i = 0; i < 100; i++)
    labels[i] = rows[3 * i] > 0 ? "a" : "b";
  const gconv_dataset_cases cases = {.count = 100, .rows = rows, .columns = 3, .labels = labels};
  gconv_dataset *data = NULL;
  gconv_svm *machine = NULL;
  gconv_network net = {0};
  gconv_trainer *trainer = NULL;
  gconv_epoch epoch = {0};
  CHECK(gconv_dataset_open(&(gconv_dataset_options){.cases = &cases}, &data) == GCONV_OK);
  CHECK(gconv_svm_train(NULL, data, device, &machine) == GCONV_OK);
  CHECK(gconv_network_make("dense 4 tanh, dense 2 softmax", (const int32_t[]){3, 1, 1}, 2, 1, &net) == GCONV_OK);
  CHECK(gconv_trainer_create(device, &net, &(gconv_training_options){.epochs = 2}, data, NULL, &trainer) == GCONV_OK);
  while (!epoch.ended)
    CHECK(gconv_trainer_epoch(trainer, &epoch) == GCONV_OK);
  gconv_trainer_free(trainer);
  gconv_network_free(&net);
  gconv_svm_free(machine);
  gconv_dataset_free(data);
}

/* Filters an image of floats; *out is the caller's. */
static void filter(gconv_device *device, const char *spec, const char *algorithm, gconv_image *out) {
  gconv_filters filters = {0};
  gconv_options options = gconv_options_default();
  gconv_operation *operation = NULL;
  gconv_plan *plan = NULL;
  gconv_image in = picture(GCONV_F32, 60, 70, 1);
  options.algorithm = algorithm;
  CHECK(gconv_filters_read(spec, NULL, &filters) == GCONV_OK);
  CHECK(gconv_operation_filters(&filters, &options, &operation) == GCONV_OK);
  CHECK(gconv_plan_create(device, &in, operation, 0, &plan) == GCONV_OK);
  CHECK(gconv_plan_execute(plan, &in, out, 1, NULL) == GCONV_OK);
  gconv_plan_free(plan);
  gconv_operation_free(operation);
  gconv_filters_free(&filters);
  gconv_image_free(&in);
}

static void work(gconv_device *device) {
  static const char *const algorithms[] = {"direct", "separable", "fft", "auto"};
  for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
    gconv_image out = {0};
    filter(device, "gaussian:sigma=1.5,size=9", algorithms[i], &out);
    gconv_image_free(&out);
  }
  gconv_filters none = {0};
  CHECK(gconv_filters_read("no such filter", NULL, &none) == GCONV_BAD_ARGUMENT);
  encode_and_decode();
  learn(device);
}

/* ---- Signals ---- */

static void handle(int number) {
  (void)number;
}

static void check_handlers(bool set) {
  for (int number = 1; number < NSIG; number++) {
    struct sigaction now, mine = {.sa_handler = handle};
    if (number == SIGKILL || number == SIGSTOP || sigaction(number, set ? &mine : NULL, set ? NULL : &now) != 0)
      continue;
    if (!set)
      CHECK(now.sa_handler == handle);
  }
}

/* Returns a line of a thread's status in /proc, such as "SigBlk", as a number. */
static unsigned long long status_of(const char *thread, const char *line) {
  char path[300], text[256];
  unsigned long long value = 0;
  snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
  FILE *file = fopen(path, "r");
  while (file && fgets(text, sizeof text, file))
    if (strncmp(text, line, strlen(line)) == 0)
      sscanf(text + strlen(line) + 1, "%llx", &value);
  if (file)
    fclose(file);
  return value;
}

/* All threads but this one block the signals of others. Returns how many there are. */
static int check_threads(void) {
  char self[32];
  int count = 0;
  snprintf(self, sizeof self, "%d", (int)getpid());
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *entry; tasks && (entry = readdir(tasks));)
    if (entry->d_name[0] != '.' && strcmp(entry->d_name, self) != 0) {
      const unsigned long long blocked = status_of(entry->d_name, "SigBlk");
      CHECK((blocked >> (SIGINT - 1) & 1) && (blocked >> (SIGTERM - 1) & 1) && (blocked >> (SIGCHLD - 1) & 1));
      count++;
    }
  closedir(tasks);
  return count;
}

/* A pipe without a reader is a failure, and no SIGPIPE. */
static void check_pipe(void) {
  int ends[2];
  char path[32];
  gconv_image image = picture(GCONV_U8, 300, 300, 3);
  const gconv_write_options options = {.format = gconv_format_by_name("pnm")};
  CHECK(pipe(ends) == 0);
  close(ends[0]);
  snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
  signal(SIGPIPE, SIG_DFL);
  CHECK(gconv_image_write(path, &options, &image) != GCONV_OK);
  signal(SIGPIPE, handle);
  close(ends[1]);
  gconv_image_free(&image);
}

/* ---- Modes of the processor ---- */

static unsigned vector_mode(void) {
#if defined(__x86_64__)
  return _mm_getcsr() & ~0x3fU; /* but for the flags that operations raise */
#else
  return 0;
#endif
}

/* Rounding upwards and flushing of small numbers are left as they are, and cost results their last bits at most. */
static void check_modes(gconv_device *device) {
  gconv_image usual = {0}, upward = {0};
  filter(device, "gaussian:sigma=1.5,size=9", "direct", &usual);
  CHECK(fesetround(FE_UPWARD) == 0);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero */
#endif
  const unsigned mode = vector_mode();
  filter(device, "gaussian:sigma=1.5,size=9", "direct", &upward);
  encode_and_decode();
  learn(device);
  CHECK(fegetround() == FE_UPWARD && vector_mode() == mode);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() & ~0x8040U);
#endif
  fesetround(FE_TONEAREST);
  for (size_t i = 0; i < 60 * 70; i++)
    CHECK(fabsf(((const float *)usual.data)[i] - ((const float *)upward.data)[i]) < 1e-4F);
  gconv_image_free(&usual);
  gconv_image_free(&upward);
}

/* ---- Locales ---- */

/* Numbers in texts have a point, and are read with one. */
static void check_locale(const char *before) {
  gconv_filters filters = {0};
  char *text = NULL;
  CHECK(gconv_filters_read("gaussian:sigma=1.5", NULL, &filters) == GCONV_OK);
  CHECK(gconv_filter_to_text(&filters.items[0], &text) == GCONV_OK);
  CHECK(strchr(text, '.') && !strchr(text, ','));
  CHECK(strcmp(setlocale(LC_ALL, NULL), before) == 0);
  free(text);
  gconv_filters_free(&filters);
}

int main(void) {
  char here[4096], there[4096], said[64];
  const char *const wanted[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "C.UTF-8"};
  const char *locale = NULL;
  told = fdopen(dup(STDERR_FILENO), "w");
  int streams[2] = {open("/tmp", O_TMPFILE | O_RDWR, 0600), open("/tmp", O_TMPFILE | O_RDWR, 0600)};
  if (!told || streams[0] < 0 || streams[1] < 0)
    return 1;
  CHECK(dup2(streams[0], STDOUT_FILENO) >= 0 && dup2(streams[1], STDERR_FILENO) >= 0);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !locale; i++)
    locale = setlocale(LC_ALL, wanted[i]);
  char *const kept = strdup(locale ? locale : setlocale(LC_ALL, NULL));
  char **const variables = environ;
  const mode_t mask = umask(027);
  size_t count = 0;
  while (environ[count])
    count++;
  CHECK(kept && getcwd(here, sizeof here));
  check_handlers(true);
  gconv_device *device = NULL;
  setenv("GCONV_MOST_THREADS", "4", 1);
  CHECK(gconv_device_open("cpu", 4, &device) == GCONV_OK);
  work(device);
  check_pipe();
  check_modes(device);
  check_locale(kept);
  CHECK(check_threads() == 3);
  gconv_device_close(device);
  CHECK(check_threads() == 0);
  check_handlers(false);
  CHECK(getcwd(there, sizeof there) && strcmp(here, there) == 0);
  CHECK(umask(mask) == 027);
  unsetenv("GCONV_MOST_THREADS");
  size_t after = 0;
  while (environ[after])
    after++;
  CHECK(after == count || environ != variables); /* setenv() may have moved them */
  fflush(NULL);
  for (int i = 0; i < 2; i++)
    CHECK(pread(streams[i], said, sizeof said, 0) == 0); /* nothing was printed */
  free(kept);
  return 0;
}
