/* SPDX-License-Identifier: MIT */
#include "base/processors.h"
#include "gconv.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads up to `count` numbers at the beginning of a file. Returns how many it read. */
static int read_numbers(const char *folder, const char *name, int count, long long *numbers) {
  char path[PATH_MAX + 32];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "re");
  int read = 0;
  while (file && read < count && fscanf(file, "%lld", &numbers[read]) == 1)
    read++;
  if (file)
    fclose(file);
  return read;
}

/* Returns the processors that the quota of a group allows, rounded up, but at most `most`. A quota is microseconds of
 * processor time in each period, which is in microseconds, too. "max", or -1 in version 1, is no quota. */
static int bound_by(const char *folder, bool version_1, int most) {
  long long quota[2];
  int read = version_1 ? read_numbers(folder, "cpu.cfs_quota_us", 1, &quota[0]) +
                             read_numbers(folder, "cpu.cfs_period_us", 1, &quota[1])
                       : read_numbers(folder, "cpu.max", 2, quota);
  if (read != 2 || quota[0] <= 0 || quota[1] <= 0)
    return most;
  long long whole = quota[0] / quota[1] + (quota[0] % quota[1] != 0);
  return whole < most ? (int)whole : most;
}

/* Returns the least of `most` and the processors that the quotas of the group, and of all groups above it up to the mounted
 * group, allow. In a container, the list may name a group that is not visible there. Then the mounted group is the
 * container's own. */
static int bound_by_all(const char *mount, const char *group, bool version_1, int most) {
  char folder[PATH_MAX];
  size_t shortest = strlen(mount);
  if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder)
    return most;
  for (;;) {
    most = bound_by(folder, version_1, most);
    char *slash = strrchr(folder, '/');
    if (strlen(folder) <= shortest || !slash || slash < folder + shortest)
      return most;
    *slash = '\0';
  }
}

/* Returns whether a list such as "cpu,cpuacct" has the controller cpu. */
static bool has_cpu(char *controllers) {
  char *rest = NULL;
  for (char *name = strtok_r(controllers, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
    if (strcmp(name, "cpu") == 0)
      return true;
  return false;
}

/* A line is NUMBER:CONTROLLERS:GROUP, without controllers in version 2. */
int gconv_quota_processors(const char *groups, const char *root, int most) {
  char line[PATH_MAX + 256], mount[PATH_MAX];
  FILE *file = fopen(groups, "re");
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
      continue;
    *group++ = '\0';
    bool version_1 = *++controllers != '\0';
    if (version_1 && !has_cpu(controllers))
      continue;
    snprintf(mount, sizeof mount, "%s%s", root, version_1 ? "/cpu" : "");
    most = bound_by_all(mount, group, version_1, most);
  }
  if (file)
    fclose(file);
  return most;
}

int gconv_processor_count(void) {
  static atomic_int quota; /* 0: not read yet. It is read once, because this function is called often */
  cpu_set_t set;
  CPU_ZERO(&set);
  long count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  int most = atomic_load(&quota);
  if (most == 0) {
    most = gconv_quota_processors("/proc/self/cgroup", "/sys/fs/cgroup", INT_MAX);
    atomic_store(&quota, most);
  }
  return count < 1 ? 1 : count < most ? (int)count : most;
}

int gconv_threads_allowed(int wanted) {
  int most = gconv_processor_count();
  if (wanted <= 0)
    return most;
  const char *raised = getenv("GCONV_MOST_THREADS");
  long more = raised ? strtol(raised, NULL, 10) : 0;
  return wanted <= most || wanted <= more ? wanted : more > most ? (int)more : most;
}
