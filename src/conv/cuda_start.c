/* SPDX-License-Identifier: MIT */
#include "conv/cuda_start.h"
#include "base/cache.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char file_name[] = "cuda-start.txt";

enum { MOST_LINES = 16, KEY_BYTES = 256 };
static const double MOST_MS = 1e6; /* what is longer is no start */

bool gconv_cuda_may_start(void) {
#ifdef GCONV_WITH_CUDA
  static const char *const nodes[] = {"/dev/nvidiactl", "/dev/dxg", "/dev/nvmap"}; /* the driver's, WSL's, Tegra's */
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
    if (access(nodes[i], F_OK) == 0)
      return true;
#endif
  return false;
}

/* ---- The file ---- */

/* One line: its milliseconds, and where its key begins and ends. False if it makes no sense. */
static bool parse_line(const char *line, double *milliseconds, const char **key, size_t *length) {
  char *end;
  *milliseconds = strtod(line, &end);
  *key = end + 1;
  if (line[0] < '0' || line[0] > '9' || *end != '\t' || !(*milliseconds > 0 && *milliseconds < MOST_MS))
    return false;
  *length = strcspn(*key, "\n");
  return *length > 0;
}

static const char *next_line(const char *line) {
  const char *end = strchr(line, '\n');
  return end ? end + 1 : line + strlen(line);
}

bool gconv_cuda_start_find(const char *text, const char *key, double *milliseconds) {
  for (const char *line = text; *line; line = next_line(line)) {
    const char *found;
    size_t length;
    if (parse_line(line, milliseconds, &found, &length) && length == strlen(key) && strncmp(found, key, length) == 0)
      return true;
  }
  return false;
}

char *gconv_cuda_start_replace(const char *text, const char *key, double milliseconds) {
  char *memory = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&memory, &size);
  if (!out)
    return NULL;
  fprintf(out, "%.1f\t%s\n", milliseconds, key);
  int lines = 1;
  for (const char *line = text ? text : ""; *line && lines < MOST_LINES; line = next_line(line)) {
    const char *other;
    size_t length;
    double others;
    if (!parse_line(line, &others, &other, &length) || (length == strlen(key) && strncmp(other, key, length) == 0))
      continue;
    fprintf(out, "%.1f\t%.*s\n", others, (int)length, other);
    lines++;
  }
  gconv_close_text(out, &memory);
  return memory;
}

/* ---- This machine ---- */

/* Reads the first line of a file, without its end; "" if there is none. */
static void read_line(const char *path, char *line, int size) {
  FILE *file = fopen(path, "re");
  if (!file || !fgets(line, size, file))
    line[0] = '\0';
  line[strcspn(line, "\n")] = '\0';
  if (file)
    fclose(file);
}

/* The name of the machine, and what its driver says of itself. */
static void describe_machine(char key[KEY_BYTES]) {
  struct utsname system;
  char driver[160];
  if (uname(&system) != 0)
    system.nodename[0] = '\0';
  read_line("/proc/driver/nvidia/version", driver, sizeof driver);
  snprintf(key, KEY_BYTES, "%.64s %s", system.nodename, driver);
}

bool gconv_cuda_start_recall(double *milliseconds) {
  char key[KEY_BYTES];
  describe_machine(key);
  char *text = gconv_cache_read(file_name);
  bool found = text && gconv_cuda_start_find(text, key, milliseconds);
  free(text);
  if (!found)
    *milliseconds = GCONV_CUDA_START_MS;
  return found;
}

void gconv_cuda_start_remember(double milliseconds) {
  char key[KEY_BYTES];
  describe_machine(key);
  char *text = gconv_cache_read(file_name);
  double before;
  if (text && gconv_cuda_start_find(text, key, &before))
    milliseconds = (before + milliseconds) / 2;
  char *replaced = gconv_cuda_start_replace(text, key, milliseconds);
  if (replaced)
    gconv_cache_write(file_name, replaced);
  free(replaced);
  free(text);
}
