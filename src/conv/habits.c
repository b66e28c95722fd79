/* SPDX-License-Identifier: MIT */
#include "conv/habits.h"
#include "base/cache.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* What is usual is what it was on machines with an H200. */
static const struct {
  const char *file;
  double usual;
} habits[GCONV_HABITS] = {
    [GCONV_CUDA_START] = {"cuda-start.txt", 300},
    [GCONV_DECODER_START] = {"cuda-decoder.txt", 600},
    [GCONV_HOST_PACE] = {"host-pace.txt", 1},
};

enum { MOST_LINES = 16, KEY_BYTES = 256 };
static const double MOST = 1e6; /* what is more cannot be */

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

/* One line: its number, and where its key begins and ends. False if it makes no sense. */
static bool parse_line(const char *line, double *number, const char **key, size_t *length) {
  char *end;
  *number = strtod(line, &end);
  *key = end + 1;
  if (line[0] < '0' || line[0] > '9' || *end != '\t' || !(*number > 0 && *number < MOST))
    return false;
  *length = strcspn(*key, "\n");
  return *length > 0;
}

static const char *next_line(const char *line) {
  const char *end = strchr(line, '\n');
  return end ? end + 1 : line + strlen(line);
}

bool gconv_habit_find(const char *text, const char *key, double *number) {
  for (const char *line = text; *line; line = next_line(line)) {
    const char *found;
    size_t length;
    if (parse_line(line, number, &found, &length) && length == strlen(key) && strncmp(found, key, length) == 0)
      return true;
  }
  return false;
}

char *gconv_habit_replace(const char *text, const char *key, double number) {
  char *memory = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&memory, &size);
  if (!out)
    return NULL;
  fprintf(out, "%.4g\t%s\n", number, key);
  int lines = 1;
  for (const char *line = text ? text : ""; *line && lines < MOST_LINES; line = next_line(line)) {
    const char *other;
    size_t length;
    double others;
    if (!parse_line(line, &others, &other, &length) || (length == strlen(key) && strncmp(other, key, length) == 0))
      continue;
    fprintf(out, "%.4g\t%.*s\n", others, (int)length, other);
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

bool gconv_habit_recall(gconv_habit habit, double *number) {
  char key[KEY_BYTES];
  describe_machine(key);
  char *text = gconv_cache_read(habits[habit].file);
  bool found = text && gconv_habit_find(text, key, number);
  free(text);
  if (!found)
    *number = habits[habit].usual;
  return found;
}

void gconv_habit_remember(gconv_habit habit, double number) {
  char key[KEY_BYTES];
  describe_machine(key);
  char *text = gconv_cache_read(habits[habit].file);
  double before;
  if (text && gconv_habit_find(text, key, &before))
    number = (before + number) / 2;
  char *replaced = gconv_habit_replace(text, key, number);
  if (replaced)
    gconv_cache_write(habits[habit].file, replaced);
  free(replaced);
  free(text);
}
