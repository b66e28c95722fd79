/* SPDX-License-Identifier: MIT */
/*
 * The whole command line (libFuzzer): each line of the input is a word. It runs in this process, in a folder of its own that
 * holds a few small images and filters and is as it was before each run. `bench` and `tune` measure for seconds, so only
 * their options are tried.
 */
#include "cli/command.h"
#include "cli/terminal.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_WORDS = 32, MOST_BYTES = 1024 };

static char folder[] = "/tmp/gconv-fuzz-XXXXXX";

/* In place of src/cli/unread.c: this process goes on. */
void gconv_end_when_unread(const char *output) {
  (void)output;
}

/* ---- The folder ---------------------------------------------------------------------------------------------------- */

static void put_file(const char *name, const void *bytes, size_t size) {
  int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 || write(file, bytes, size) != (ssize_t)size)
    abort();
  close(file);
}

static void put_text(const char *name, const char *text) {
  put_file(name, text, strlen(text));
}

/* Everything in the folder but the folder itself. */
static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
  (void)status;
  (void)kind;
  return place->level > 0 ? remove(path) : 0;
}

static void remove_folder(void) {
  nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  rmdir(folder);
}

static void tidy_folder(void) {
  static const char grey[] = "P5 4 3 255\nabcdefghijkl", colour[] = "P6 3 2 65535\n012345678901234567890123456789012345";
  nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  if (chdir(folder) != 0 || mkdir("in", 0700) != 0 || mkdir("in/sub", 0700) != 0)
    abort();
  put_file("a.pgm", grey, sizeof grey - 1);
  put_file("in/b.ppm", colour, sizeof colour - 1);
  put_file("in/sub/c.pgm", grey, sizeof grey - 1);
  put_text("in/broken.png", "\x89PNG\r\n\x1a\nbroken");
  put_text("edge.txt", "0 -1 0\n-1 4 -1\n0 -1 0\n");
  put_text("k.bank", "gconv-bank 1\nfilters 2 channels 1 size 1 2\nfilter a\n1 2\n\nfilter b bias 1\n3 4\n");
  put_text("blur.mat", "3 3 9 0\n1 1 1\n1 1 1\n1 1 1\n");
}

int LLVMFuzzerInitialize(int *count, char ***words) {
  (void)count;
  (void)words;
  setenv("GCONV_DEVICE", "cpu", 1);
  setenv("GCONV_CACHE", "", 1);
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC); /* standard input */
  if (!mkdtemp(folder) || null < 0 || dup2(null, STDIN_FILENO) < 0)
    abort();
  close(null);
  signal(SIGPIPE, SIG_IGN);
  atexit(remove_folder);
  return 0;
}

/* ---- Words --------------------------------------------------------------------------------------------------------- */

/* Whether no path in it leads out of the folder: none begins with a slash, none goes up, and no pattern matches "..". */
static bool stays_inside(const char *text) {
  for (const char *at = strchr(text, '/'); at; at = strchr(at + 1, '/'))
    if (at == text || !strchr("abcdefghijklmnopqrstuvwxyz0123456789{}*", at[-1]))
      return false;
  return !strstr(text, "..") && !strstr(text, ".*") && !strstr(text, ".?") && !strstr(text, ".[");
}

/* Whether it would take longer than a fuzzer has: a number beyond 999, an image or a filter of such a size, or a
 * measurement. The library's limits are tried by other tests. */
static bool takes_long(int count, char *const *words) {
  if (count > 0 && (strcmp(words[0], "bench") == 0 || strcmp(words[0], "tune") == 0))
    return strcmp(words[count - 1], "--help") != 0;
  for (int i = 0; i < count; i++) {
    size_t digits = 0;
    for (const char *at = words[i]; *at; at++) {
      digits = *at >= '0' && *at <= '9' ? digits + 1 : 0;
      if (digits > 3 || (digits > 0 && strchr("eEpP", at[1]) && at[1]))
        return true;
    }
  }
  return false;
}

/* Splits the text at its line ends. */
static int split(char *text, char **words) {
  int count = 0;
  for (char *at = text; at && count < MOST_WORDS;) {
    words[count++] = at;
    at = strchr(at, '\n');
    if (at)
      *at++ = '\0';
  }
  return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char text[MOST_BYTES + 1], *words[MOST_WORDS];
  if (size == 0 || size > MOST_BYTES || memchr(data, 0, size))
    return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  if (!stays_inside(text))
    return 0;
  int count = split(text, words);
  if (takes_long(count, words))
    return 0;
  tidy_folder();
  int status = gconv_run(count, words);
  if (status < GCONV_EXIT_OK || status > GCONV_EXIT_PARTLY)
    abort();
  return 0;
}
