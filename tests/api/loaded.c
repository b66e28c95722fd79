/* SPDX-License-Identifier: MIT */
/* The shared library is loaded, used and unloaded again and again, as plugins are (dlopen, dlclose): nothing of it stays.
 * Threads that have used it end later, and forks follow. usage: api_loaded LIBRARY */
#include "gconv_embed.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), exit(1)))
/* Declares a variable with the name of a function of the library, and finds the function. */
#define TAKE(library, name)                                                                                                 \
  __typeof__(&name) name##_;                                                                                                \
  *(void **)(void *)&name##_ = dlsym(library, #name)

enum { TIMES = 40 };
static pthread_barrier_t used, unloaded;

/* Counts what a folder of /proc/self has: threads, open files. */
static int count(const char *folder) {
  int found = -2; /* . and .. */
  DIR *const d = opendir(folder);
  CHECK(d);
  while (readdir(d))
    found++;
  closedir(d);
  return found;
}

/* Returns the bytes of memory that the process holds. What malloc() keeps for later is given back before: it differs. */
static long resident(void) {
  long pages = 0;
  malloc_trim(0);
  FILE *const f = fopen("/proc/self/statm", "r");
  CHECK(f && fscanf(f, "%*d %ld", &pages) == 1);
  fclose(f);
  return pages * sysconf(_SC_PAGESIZE);
}

static void use(void *library, int threads) {
  TAKE(library, gconv_device_open);
  TAKE(library, gconv_device_close);
  TAKE(library, gconv_filters_read);
  TAKE(library, gconv_filters_free);
  TAKE(library, gconv_options_default);
  TAKE(library, gconv_operation_filters);
  TAKE(library, gconv_operation_free);
  TAKE(library, gconv_plan_create);
  TAKE(library, gconv_plan_execute);
  TAKE(library, gconv_plan_free);
  TAKE(library, gconv_image_allocate);
  TAKE(library, gconv_image_free);
  TAKE(library, gconv_image_encode);
  TAKE(library, gconv_format_by_name);
  TAKE(library, gconv_last_error);
  gconv_device *device;
  gconv_filters filters = {0};
  gconv_operation *operation;
  gconv_plan *plan;
  gconv_image in = {.type = GCONV_U8, .frames = 1, .height = 600, .width = 500, .channels = 3}, out = {0};
  gconv_bytes_out reply = {0};
  const gconv_options options = gconv_options_default_();
  CHECK(gconv_device_open_("cpu", threads, &device) == GCONV_OK && gconv_image_allocate_(&in) == GCONV_OK);
  memset(in.data, 99, in.row_bytes * 600);
  CHECK(gconv_filters_read_("gaussian:sigma=2", NULL, &filters) == GCONV_OK);
  CHECK(gconv_operation_filters_(&filters, &options, &operation) == GCONV_OK);
  CHECK(gconv_plan_create_(device, &in, operation, 0, &plan) == GCONV_OK);
  CHECK(gconv_plan_execute_(plan, &in, &out, 1, NULL) == GCONV_OK);
  CHECK(((uint8_t *)out.data)[300 * out.row_bytes + 750] == 99);
  CHECK(gconv_image_encode_(&reply, &(gconv_write_options){.format = gconv_format_by_name_("png")}, &out) == GCONV_OK);
  CHECK(gconv_filters_read_("no such filter", NULL, &filters) != GCONV_OK && *gconv_last_error_());
  free(reply.data);
  gconv_plan_free_(plan);
  gconv_operation_free_(operation);
  gconv_filters_free_(&filters);
  gconv_image_free_(&in);
  gconv_image_free_(&out);
  gconv_device_close_(device);
}

static void *use_in_thread(void *library) {
  use(library, 1);
  pthread_barrier_wait(&used);
  pthread_barrier_wait(&unloaded); /* it ends when the library is gone */
  return NULL;
}

int main(int words, char **word) {
  CHECK(words == 2);
  mallopt(M_ARENA_MAX, 1);
  const int files = count("/proc/self/fd");
  long before = LONG_MAX, after = LONG_MAX;
  CHECK(pthread_barrier_init(&used, NULL, 2) == 0 && pthread_barrier_init(&unloaded, NULL, 2) == 0);
  for (int i = 0; i < TIMES; i++) {
    pthread_t thread;
    void *library = dlopen(word[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(library && pthread_create(&thread, NULL, use_in_thread, library) == 0);
    use(library, 2);
    pthread_barrier_wait(&used);
    CHECK(count("/proc/self/task") == 2); /* the library's own have ended */
    CHECK(dlclose(library) == 0 && !dlopen(word[1], RTLD_NOW | RTLD_NOLOAD));
    pthread_barrier_wait(&unloaded);
    CHECK(pthread_join(thread, NULL) == 0);
    int status = 1;
    const pid_t child = fork();
    if (child == 0)
      _exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    /* What stays grows with each time: the least of the second quarter against the least of the last. */
    long *const least = i >= TIMES * 3 / 4 ? &after : i >= TIMES / 4 && i < TIMES / 2 ? &before : NULL;
    if (least && resident() < *least)
      *least = resident();
  }
  CHECK(count("/proc/self/fd") == files);
  CHECK(after < before + (1 << 20));
  return 0;
}
