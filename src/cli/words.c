/* SPDX-License-Identifier: MIT */
/* Whether a word is the name of a filter. */
#include "cli/command.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Whether `names`, with blanks between, has the first `length` letters of the word, in any case. */
static bool has_name(const char *names, const char *word, size_t length) {
  for (const char *at = names; at && *at; at += strcspn(at, " "), at += strspn(at, " "))
    if (strcspn(at, " ") == length && strncasecmp(at, word, length) == 0)
      return true;
  return false;
}

const gconv_builtin_info *gconv_word_builtin(const char *word) {
  const gconv_builtin_info *filter;
  size_t length = strcspn(word, ":");
  for (size_t i = 0; (filter = gconv_builtin_at(i)); i++)
    if (has_name(filter->name, word, length) || has_name(filter->also, word, length))
      return filter;
  return NULL;
}

bool gconv_word_is_filter(const char *word) {
  char path[4096];
  return gconv_word_builtin(word) ||
         (!strchr(word, '/') && snprintf(path, sizeof path, "%s/%s.txt", gconv_filter_folder(), word) < (int)sizeof path &&
          access(path, F_OK) == 0);
}
