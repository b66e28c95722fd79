/* SPDX-License-Identifier: MIT */
/* Patterns with * ? and [. The part ** stands for any number of nested folders, or for none. */
#include "base/memory.h"
#include "names/search.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

/* The most folders of a pattern, and the most nested folders that ** goes into. expand() calls itself for each of them, and
 * so many calls fit onto a small stack. */
enum { MOST_FOLDERS = 128 };

typedef struct matching {
  gconv_search *search;
  gconv_texts found;
  gconv_texts searched; /* folders in which ** has looked for files */
  int depth;
} matching;

static gconv_status expand(matching *m, const char *folder, const char *pattern);

static gconv_status expand_in(matching *m, const char *folder, const char *name, const char *pattern) {
  GCONV_FREED char *inner = gconv_path_join(folder, name), *slash = inner ? gconv_path_join(inner, "") : NULL;
  return slash ? expand(m, slash, pattern) : gconv_no_memory();
}

static gconv_status add_found(matching *m, const char *folder, const char *name) {
  return gconv_texts_append(&m->found, gconv_path_join(folder, name));
}

static bool is_folder(const char *path, bool follows) {
  struct stat status;
  return (follows ? stat(path, &status) : lstat(path, &status)) == 0 && S_ISDIR(status.st_mode);
}

/* Removes the backslashes that escape characters. On the heap; NULL without memory. */
static char *unescape(const char *name, size_t length) {
  char *text = malloc(length + 1), *to = text;
  for (size_t i = 0; text && i < length; i++) {
    i += name[i] == '\\' && i + 1 < length;
    *to++ = name[i];
  }
  if (text)
    *to = '\0';
  return text;
}

static bool is_fixed(const char *name, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (name[i] == '\\')
      i++;
    else if (strchr("*?[", name[i]))
      return false;
  return true;
}

/* Takes a part of the pattern without wildcards. */
static gconv_status take_fixed(matching *m, const char *folder, const char *part, size_t length, const char *rest) {
  struct stat status;
  GCONV_FREED char *name = unescape(part, length), *path = name ? gconv_path_join(folder, name) : NULL;
  GCONV_NEED_MEMORY(path, "out of memory");
  if (rest)
    return is_folder(path, true) ? expand_in(m, folder, name, rest) : GCONV_OK;
  return lstat(path, &status) == 0 ? add_found(m, folder, name) : GCONV_OK;
}

/* Returns whether a folder is passed over: --exclude names it, or ** (`any`) leads to the folder of the results. */
static bool is_left_out(const matching *m, const char *path, bool any) {
  struct stat status;
  return gconv_search_excludes(m->search, path) ||
         (any && stat(path, &status) == 0 && gconv_search_has_results(m->search, &status));
}

/* Notes that ** has searched a folder. Results that lie there would be found by the next run. */
static gconv_status note_folder(matching *m, const char *folder) {
  return gconv_texts_append(&m->searched, strdup(folder[0] ? folder : "."));
}

/* Takes an entry of a folder that the current part of the pattern matches. `any`: that part is **, and is matched again
 * inside the entry. */
static gconv_status take_entry(matching *m, const char *folder, const char *name, bool any, const char *pattern,
                               const char *rest) {
  GCONV_FREED char *path = gconv_path_join(folder, name);
  GCONV_NEED_MEMORY(path, "out of memory");
  if ((any || rest) && is_folder(path, !any) && !is_left_out(m, path, any))
    return expand_in(m, folder, name, any ? pattern : rest);
  return any || rest ? GCONV_OK : add_found(m, folder, name);
}

static gconv_status take_entries(matching *m, const char *folder, const char *part, bool any, const char *pattern,
                                 const char *rest) {
  GCONV_ENDED_BY(gconv_entries_free) gconv_entries entries = {0};
  GCONV_TRY(gconv_search_list(m->search, folder, part[0] == '.' || part[0] == '\\', &entries));
  for (int i = 0; i < entries.count; i++)
    if (any || fnmatch(part, entries.items[i]->d_name, FNM_PERIOD) == 0)
      GCONV_TRY(take_entry(m, folder, entries.items[i]->d_name, any, pattern, rest));
  return GCONV_OK;
}

/* Finds what matches the pattern below `folder`, which is "" or ends with a slash. */
static gconv_status expand(matching *m, const char *folder, const char *pattern) {
  size_t length = strcspn(pattern, "/");
  const char *rest = pattern[length] ? pattern + length + strspn(pattern + length, "/") : NULL;
  if (pattern[0] == '/' || pattern[0] == '\0') /* a slash at the beginning; or the end, which only folders match */
    return pattern[0] ? expand(m, "/", rest) : add_found(m, folder, "");
  if (is_fixed(pattern, length))
    return take_fixed(m, folder, pattern, length, rest);
  bool any = length == 2 && strncmp(pattern, "**", 2) == 0;
  if (any && m->depth >= MOST_FOLDERS)
    return gconv_search_miss(m->search, folder, ENAMETOOLONG);
  GCONV_FREED char *part = strndup(pattern, length);
  GCONV_NEED_MEMORY(part, "out of memory");
  if (any) {
    GCONV_TRY(note_folder(m, folder));
    GCONV_TRY(expand(m, folder, rest && rest[0] ? rest : "*")); /* ** may stand for no folder; at the end, for all files */
  }
  m->depth++;
  gconv_status status = take_entries(m, folder, part, any, pattern, rest);
  m->depth--;
  return status;
}

/* ---- Matches -------------------------------------------------------------------------------------------------------- */

/* Returns whether a path ends in "." or "..". The pattern ".*" matches both, but users do not mean them, and ".." would lead
 * results out of their folder. */
static bool is_dots(const char *path) {
  const char *name = gconv_path_name(path);
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Adds the matches in their order, and the images of folders that match. Folders to which links lead come last. */
static gconv_status add_matches(gconv_search *search, const gconv_texts *found) {
  for (size_t i = 0; i < found->count; i++) {
    if (is_dots(found->items[i]) || (i > 0 && strcmp(found->items[i - 1], found->items[i]) == 0))
      continue;
    GCONV_TRY(gconv_search_entry(search, found->items[i], false, true));
    GCONV_TRY(gconv_search_noted(search, false));
  }
  return gconv_search_noted(search, true);
}

/* Returns the length of the folders of `pattern` before its first wildcard. Results keep the folders after them. */
static size_t fixed_length(const char *pattern) {
  size_t length = strcspn(pattern, "*?[");
  while (length > 0 && pattern[length - 1] != '/')
    length--;
  return length;
}

static gconv_status check_length(const char *pattern) {
  size_t folders = 0;
  for (const char *at = pattern; *at; at++)
    folders += *at == '/';
  if (folders <= MOST_FOLDERS)
    return GCONV_OK;
  return gconv_fail(
      GCONV_BAD_ARGUMENT,
      "%.60s...: a pattern with %zu folders, but %d are the most: name a folder, and search it with --recursive", pattern,
      folders, MOST_FOLDERS);
}

/* Notes a pattern that results must not match. For a pattern with **, the folders that it searched are noted instead. */
static gconv_status note_pattern(gconv_search *search, const char *pattern) {
  if (strstr(pattern, "**"))
    return GCONV_OK;
  return gconv_texts_append(&search->inputs->patterns, strdup(pattern));
}

static gconv_status complain_empty(const gconv_search *search, const char *pattern, bool matches, size_t missed) {
  const gconv_inputs *inputs = search->inputs;
  if (inputs->missed.count > missed)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: nothing is found by this pattern, and %s", pattern,
                      inputs->missed.items[missed]);
  if (!matches)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: no file matches this pattern", pattern);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: only folders%s match this pattern%s", pattern,
                    inputs->unread.count > 0 ? " and what is no file" : "",
                    search->recursive ? ", and they hold no images" : "; --recursive looks into them");
}

gconv_status gconv_search_pattern(gconv_search *search, const char *pattern) {
  size_t before = search->inputs->count, missed = search->inputs->missed.count;
  matching m = {.search = search};
  GCONV_TRY(check_length(pattern));
  search->inputs->many = true;
  gconv_search_begin(search, fixed_length(pattern));
  gconv_status status = expand(&m, "", pattern);
  GCONV_THEN(status, note_pattern(search, pattern));
  bool matches = m.found.count > 0;
  gconv_texts_sort(&m.found);
  GCONV_THEN(status, add_matches(search, &m.found));
  for (size_t i = 0; i < m.searched.count && status == GCONV_OK; i++)
    status = gconv_texts_append(&search->inputs->folders, strdup(m.searched.items[i]));
  gconv_search_end(search);
  gconv_texts_free(&m.searched);
  gconv_texts_free(&m.found);
  return status != GCONV_OK || search->inputs->count > before ? status : complain_empty(search, pattern, matches, missed);
}
