/* SPDX-License-Identifier: MIT */
#include "batch/budget.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct gconv_budget {
  uint64_t bytes;
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  uint64_t taken;
  uint64_t arrived, served; /* those who wait */
};

/* The machine's memory, or the limit of the control group where that is less. */
static uint64_t memory_there(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_C(1) << 30, limit;
  FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
  if (file && fscanf(file, "%" SCNu64, &limit) == 1 && limit < bytes)
    bytes = limit;
  if (file)
    fclose(file);
  return bytes;
}

gconv_budget *gconv_budget_create(uint64_t bytes) {
  gconv_budget *budget = calloc(1, sizeof *budget);
  if (!budget)
    return NULL;
  budget->bytes = bytes > 0 ? bytes : memory_there() / 2;
  pthread_mutex_init(&budget->lock, NULL);
  pthread_cond_init(&budget->changed, NULL);
  return budget;
}

void gconv_budget_free(gconv_budget *budget) {
  if (!budget)
    return;
  pthread_cond_destroy(&budget->changed);
  pthread_mutex_destroy(&budget->lock);
  free(budget);
}

uint64_t gconv_budget_bytes(const gconv_budget *budget) {
  return budget->bytes;
}

static bool is_there(const gconv_budget *budget, uint64_t bytes) {
  return budget->taken == 0 || (bytes <= budget->bytes && budget->taken <= budget->bytes - bytes);
}

bool gconv_budget_try(gconv_budget *budget, uint64_t bytes) {
  pthread_mutex_lock(&budget->lock);
  bool there = budget->arrived == budget->served && is_there(budget, bytes);
  if (there)
    budget->taken += bytes;
  pthread_mutex_unlock(&budget->lock);
  return there;
}

void gconv_budget_wait(gconv_budget *budget, uint64_t bytes) {
  pthread_mutex_lock(&budget->lock);
  uint64_t place = budget->arrived++;
  while (budget->served != place || !is_there(budget, bytes))
    pthread_cond_wait(&budget->changed, &budget->lock);
  budget->served++;
  budget->taken += bytes;
  pthread_cond_broadcast(&budget->changed);
  pthread_mutex_unlock(&budget->lock);
}

void gconv_budget_give_back(gconv_budget *budget, uint64_t bytes) {
  pthread_mutex_lock(&budget->lock);
  budget->taken -= bytes;
  pthread_cond_broadcast(&budget->changed);
  pthread_mutex_unlock(&budget->lock);
}

/* "16 MB", or a smaller unit for what is less than one. */
static void print_bytes(char text[32], double bytes) {
  static const char *const units[] = {"MB", "kB", "bytes"};
  double unit = 1e6;
  int i = 0;
  for (; i < 2 && bytes < unit; i++)
    unit /= 1e3;
  snprintf(text, 32, "%.0f %s", bytes / unit, units[i]);
}

gconv_status gconv_budget_refuse(double bytes, double most, const char *parts, const char *reason, gconv_message *message) {
  char wanted[32], allowed[32];
  print_bytes(wanted, bytes);
  print_bytes(allowed, most);
  if (!reason)
    return gconv_complain(message, GCONV_TOO_LARGE, "takes about %s of memory, and --memory allows %s: raise it", wanted,
                          allowed);
  return gconv_complain(message, GCONV_TOO_LARGE,
                        "takes about %s of memory, and --memory allows %s: raise it, or let it go by %s, which takes less: "
                        "now it cannot, as %s",
                        wanted, allowed, parts, reason);
}
