/* SPDX-License-Identifier: MIT */
/* Filters by their names: built in, and shipped as files. */
#include "base/memory.h"
#include "base/suggest.h"
#include "cli/command.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

const gconv_builtin_info *gconv_word_builtin(const char *word) {
  const gconv_builtin_info *filter;
  size_t length = strcspn(word, ":");
  for (size_t i = 0; (filter = gconv_builtin_at(i)); i++)
    if (gconv_find_word(filter->name, ' ', word, length) || gconv_find_word(filter->also, ' ', word, length))
      return filter;
  return NULL;
}

bool gconv_shipped_path(const char *name, char path[4096]) {
  return !strchr(name, '/') && snprintf(path, 4096, "%s/%s.txt", gconv_filter_folder(), name) < 4096 &&
         access(path, F_OK) == 0;
}

static int is_filter_file(const struct dirent *entry) {
  const char *dot = strrchr(entry->d_name, '.');
  return entry->d_name[0] != '.' && dot && strcmp(dot, ".txt") == 0;
}

bool gconv_shipped_names(gconv_texts *names) {
  GCONV_FREED struct dirent **entries = NULL;
  int count = scandir(gconv_filter_folder(), &entries, is_filter_file, alphasort);
  for (int i = 0; i < count; i++) {
    gconv_texts_add(names, strndup(entries[i]->d_name, strlen(entries[i]->d_name) - strlen(".txt")));
    free(entries[i]);
  }
  return count >= 0;
}

bool gconv_word_is_filter(const char *word) {
  char path[4096];
  return gconv_word_builtin(word) || gconv_shipped_path(word, path);
}
