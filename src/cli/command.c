/* SPDX-License-Identifier: MIT */
/* What commands share. */
#include "cli/command.h"
#include "base/file.h"
#include "cli/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool gconv_command_may_write(const gconv_texts *specs, bool banks, const char *output) {
  char *paths[] = {(char *)output};
  gconv_outputs outputs = {.paths = {paths, output ? 1 : 0}};
  if (gconv_outputs_check_filters(specs, banks, &outputs, &(gconv_message){0}) == GCONV_OK)
    return true;
  gconv_say("%s", gconv_last_error());
  return false;
}

int gconv_say_failed(int exit_status) {
  gconv_say("%s", gconv_last_error());
  return exit_status;
}

int gconv_say_end(gconv_status status) {
  if (status == GCONV_OK)
    return GCONV_EXIT_OK;
  return gconv_say_failed(status == GCONV_BAD_ARGUMENT ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED);
}

int gconv_command_end(gconv_status status, bool failed) {
  return status == GCONV_OK && failed ? GCONV_EXIT_FAILED : gconv_say_end(status);
}

void gconv_tally_add(gconv_tally *tally, const char *path, gconv_status status) {
  bool failed = status != GCONV_OK;
  tally->done++;
  tally->failed += failed;
  tally->wrong += failed && (status == GCONV_BAD_ARGUMENT || gconv_check_is_there(path) != GCONV_OK);
}

int gconv_tally_end(const gconv_tally *tally) {
  if (tally->failed == 0)
    return GCONV_EXIT_OK;
  if (tally->failed < tally->done)
    return GCONV_EXIT_PARTLY;
  return tally->wrong == tally->done ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}

gconv_status gconv_check_is_there(const char *path) {
  const size_t split = gconv_member_split(path);
  if (access(path, F_OK) == 0 || strcmp(path, "-") == 0)
    return GCONV_OK;
  int error = errno;
  char *file = path[split] != '\0' ? strndup(path, split) : NULL;
  bool there = file && (access(file, F_OK) == 0 || strcmp(file, "-") == 0);
  free(file);
  return there ? GCONV_OK : gconv_refuse("%s: cannot find this input: %s", path, strerror(error));
}
