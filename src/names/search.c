/* SPDX-License-Identifier: MIT */
/*
 * Searches folders. Each folder is searched once, even if several names lead to it. So a search ends even if links form a
 * circle. Links are followed after all real folders: a folder gets its real name if the search finds that name, and else the
 * name of the first link. At the end, the inputs are sorted as if each folder had been searched at the place of its name.
 */
#include "names/search.h"
#include "base/file.h"
#include "base/memory.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <search.h>
#include <string.h>
#include <strings.h>

gconv_status gconv_search_add(gconv_search *search, const char *path, const char *relative, bool found) {
  gconv_inputs *inputs = search->inputs;
  GCONV_GROW(inputs->items, inputs->count, "out of memory");
  gconv_input *input = &inputs->items[inputs->count++];
  *input = (gconv_input){
      .path = strdup(path), .file = strndup(path, gconv_member_split(path)), .relative = strdup(relative), .found = found};
  return input->path && input->file && input->relative ? GCONV_OK : gconv_no_memory();
}

void gconv_input_free(gconv_input *input) {
  free(input->path);
  free(input->file);
  free(input->relative);
}

void gconv_search_begin(gconv_search *search, size_t above) {
  search->next = search->inputs->folders.count;
  search->above = above;
}

void gconv_search_end(gconv_search *search) {
  tdestroy(search->seen, free);
  search->seen = NULL;
  gconv_texts_free(&search->links);
}

/* ---- What is passed over -------------------------------------------------------------------------------------------- */

static bool is_image_name(const char *name) {
  const size_t length = strlen(name);
  GCONV_FREED char *packed = length > 3 && strcasecmp(name + length - 3, ".gz") == 0 ? strndup(name, length - 3) : NULL;
  const gconv_format_info *format = gconv_format_by_path(packed ? packed : name);
  return format && format->reads;
}

/* Returns whether the name has the extension of an image format that gconv, or some builds of gconv, cannot read. */
static bool is_unread_name(const char *name) {
  static const char *const extensions[] = {"tif", "tiff", "webp", "gif", "heic", "heif", "avif", "jxl",
                                           "jp2", "j2k",  "svg",  "exr", "psd",  "dng",  "cr2",  "cr3",
                                           "nef", "arw",  "raf",  "orf", "rw2",  "dcm",  "tga"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < sizeof extensions / sizeof *extensions; i++)
    if (strcasecmp(dot + 1, extensions[i]) == 0)
      return true;
  return false;
}

/* Counts a path as passed over, and keeps the first path. */
static gconv_status pass_over(gconv_passed_over *all, const char *path) {
  if (all->count++ == 0)
    all->first = strdup(path);
  return all->first ? GCONV_OK : gconv_no_memory();
}

/* Names the kind of an entry that is passed over: its extension, or "pipe", "socket" or "device" if it is no file. */
static void name_kind(const char *path, mode_t mode, char kind[24]) {
  const char *name = gconv_path_name(path), *dot = strrchr(name, '.');
  const char *special = S_ISFIFO(mode) ? "pipe" : S_ISSOCK(mode) ? "socket" : !S_ISREG(mode) ? "device" : NULL;
  bool has_extension = dot && dot > name && dot[1] && strlen(dot) < 12;
  snprintf(kind, 24, "%s", special ? special : has_extension ? dot : "without an extension");
  for (char *at = kind; *at && !special; at++)
    *at = (char)tolower((unsigned char)*at);
}

static gconv_status skip(gconv_search *search, const char *path, mode_t mode) {
  char kind[24];
  int i = 0;
  name_kind(path, mode, kind);
  while (i < GCONV_MOST_KINDS - 1 && search->kinds[i].count > 0 && strcmp(search->kinds[i].name, kind) != 0)
    i++;
  snprintf(search->kinds[i].name, sizeof search->kinds[i].name, "%s", i == GCONV_MOST_KINDS - 1 ? "others" : kind);
  search->kinds[i].count++;
  if (S_ISREG(mode) && is_unread_name(path) && search->unread++ == 0 && !(search->first_unread = strdup(path)))
    return gconv_no_memory();
  return pass_over(&search->inputs->unread, path);
}

gconv_status gconv_search_miss(gconv_search *search, const char *path, int error) {
  return gconv_texts_append(
      &search->inputs->missed,
      error == ENAMETOOLONG
          ? gconv_format_text("%.60s...: the paths below it are longer than the %d bytes that the system takes: go to a "
                              "folder nearer to the images (cd), and name the input from there",
                              path, PATH_MAX - 1)
          : gconv_format_text("%s: cannot look into this folder: %s", path, strerror(error)));
}

/* Returns whether one part of a pattern matches one part of a path. */
static bool matches_part(const char *pattern, size_t pattern_bytes, const char *path, size_t bytes) {
  GCONV_FREED char *part = strndup(pattern, pattern_bytes), *name = strndup(path, bytes);
  return part && name && fnmatch(part, name, 0) == 0;
}

/* Returns whether a pattern matches a path, part by part; ** stands for any parts, or none. Where a part does not match, the
 * last ** takes one more part of the path, and matching goes on after it. */
static bool matches_path(const char *pattern, const char *path) {
  const char *behind = NULL, *taken = NULL; /* behind: the pattern after the last **; taken: the path after its match */
  for (;;) {
    size_t part = strcspn(pattern, "/"), name = strcspn(path, "/");
    if (part == 2 && strncmp(pattern, "**", 2) == 0) {
      if (!pattern[part])
        return true;
      pattern = behind = pattern + part + 1;
      taken = path;
      continue;
    }
    bool matches = matches_part(pattern, part, path, name);
    if (matches && !pattern[part] && !path[name])
      return true;
    if (matches && pattern[part] && path[name]) {
      pattern += part + 1;
      path += name + 1;
      continue;
    }
    size_t more = taken ? strcspn(taken, "/") : 0;
    if (!taken || !taken[more])
      return false;
    path = taken += more + 1;
    pattern = behind;
  }
}

bool gconv_search_excludes(gconv_search *search, const char *path) {
  const gconv_texts *patterns = search->inputs->exclude;
  const char *relative = strlen(path) > search->above ? path + search->above : path;
  bool any = false;
  for (size_t i = 0; patterns && i < patterns->count; i++) {
    const char *given = patterns->items[i], *pattern = strncmp(given, "./", 2) == 0 ? given + 1 : given;
    const bool anchored = pattern[0] == '/';
    pattern += strspn(pattern, "/");
    size_t length = strlen(pattern);
    GCONV_FREED char *plain = strndup(pattern, length > 0 && pattern[length - 1] == '/' ? length - 1 : length);
    bool by_path = plain && (anchored || strchr(plain, '/'));
    bool matches = plain && matches_path(plain, by_path ? relative : gconv_path_name(path));
    search->excluded[i] |= matches;
    any |= matches;
  }
  return any;
}

/* ---- Entries -------------------------------------------------------------------------------------------------------- */

bool gconv_search_has_results(const gconv_search *search, const struct stat *status) {
  return search->has_results && search->results.st_dev == status->st_dev && search->results.st_ino == status->st_ino;
}

/* Notes that a folder was found. *first: true if it was not found before. */
static gconv_status see(gconv_search *search, const struct stat *status, bool *first) {
  gconv_identity *key = malloc(sizeof *key);
  GCONV_NEED_MEMORY(key, "out of memory");
  *key = (gconv_identity){status->st_dev, status->st_ino};
  gconv_identity **node = tsearch(key, &search->seen, gconv_identity_compare);
  *first = node && *node == key;
  if (!*first)
    free(key);
  return node ? GCONV_OK : gconv_no_memory();
}

/* Notes a folder that is to be searched, unless it was noted before. */
static gconv_status add_folder(gconv_search *search, const char *path, const struct stat *status) {
  bool first;
  GCONV_TRY(see(search, status, &first));
  if (!first)
    return pass_over(&search->inputs->linked, path);
  return gconv_texts_append(&search->inputs->folders, strdup(path));
}

/* Takes an entry for which stat() fails with `error`. Adds an image, although reading it will fail. Passes over entries that
 * are gone, links that lead nowhere, and files that are no images. */
static gconv_status take_unknown(gconv_search *search, const char *path, bool folder, bool matched, int error) {
  struct stat link;
  bool wanted = folder ? search->recursive : matched || is_image_name(path);
  bool gone = error == ENOENT || error == ELOOP, is_link = lstat(path, &link) == 0 && S_ISLNK(link.st_mode);
  if (!wanted)
    return GCONV_OK;
  if (is_link && gone && !matched)
    return pass_over(&search->inputs->dangling, path);
  if (folder || error == ENAMETOOLONG)
    return gconv_search_miss(search, path, error);
  return gone && !is_link ? GCONV_OK : gconv_search_add(search, path, path + search->above, true);
}

gconv_status gconv_search_entry(gconv_search *search, const char *path, bool folder, bool matched) {
  struct stat status, own;
  if (gconv_search_excludes(search, path))
    return GCONV_OK;
  if (stat(path, &status) != 0)
    return take_unknown(search, path, folder, matched, errno);
  if (S_ISREG(status.st_mode) && (matched || is_image_name(path)))
    return gconv_search_add(search, path, path + search->above, true);
  if (!S_ISDIR(status.st_mode)) /* a pipe in the folder may never end */
    return skip(search, path, status.st_mode);
  if (!search->recursive)
    return GCONV_OK;
  if (matched && gconv_search_has_results(search, &status))
    return GCONV_OK;
  if (lstat(path, &own) == 0 && S_ISLNK(own.st_mode))
    return gconv_texts_append(&search->links, strdup(path));
  return gconv_search_has_results(search, &status) ? GCONV_OK : add_folder(search, path, &status);
}

/* ---- Folders -------------------------------------------------------------------------------------------------------- */

gconv_status gconv_search_list(gconv_search *search, const char *path, bool hidden, gconv_entries *entries) {
  if (gconv_entries_read(path, hidden, entries))
    return GCONV_OK;
  return errno == ENOMEM ? gconv_no_memory() : gconv_search_miss(search, path, errno);
}

static gconv_status search_one(gconv_search *search, const char *path) {
  GCONV_ENDED_BY(gconv_entries_free) gconv_entries entries = {0};
  GCONV_TRY(gconv_search_list(search, path, false, &entries));
  for (int i = 0; i < entries.count; i++) {
    GCONV_FREED char *entry = gconv_path_join(path, entries.items[i]->d_name);
    GCONV_NEED_MEMORY(entry, "out of memory");
    GCONV_TRY(gconv_search_entry(search, entry, entries.items[i]->d_type == DT_DIR, false));
  }
  return GCONV_OK;
}

/* Searches the folders that were found, and their sub-folders. */
static gconv_status search_folders(gconv_search *search) {
  while (search->next < search->inputs->folders.count)
    GCONV_TRY(search_one(search, search->inputs->folders.items[search->next++]));
  return GCONV_OK;
}

/* Orders paths as if a search had gone into each folder as soon as it was found: '/' comes before all other letters. */
static int compare_paths(const char *a, const char *b) {
  while (*a && *a == *b) {
    a++;
    b++;
  }
  int left = *a == '/' ? 0 : (unsigned char)*a + 1, right = *b == '/' ? 0 : (unsigned char)*b + 1;
  left = *a ? left : -1;
  right = *b ? right : -1;
  return left - right;
}

static int compare_texts(const void *a, const void *b) {
  return compare_paths(*(char *const *)a, *(char *const *)b);
}

static int compare_inputs(const void *a, const void *b) {
  return compare_paths(((const gconv_input *)a)->relative, ((const gconv_input *)b)->relative);
}

static void sort_inputs(gconv_inputs *inputs, size_t first) {
  if (inputs->count > first)
    qsort(inputs->items + first, inputs->count - first, sizeof *inputs->items, compare_inputs);
}

/* Searches the folders to which the links lead. Links in these folders are followed in the next turn of the loop. */
static gconv_status search_links(gconv_search *search) {
  while (search->links.count > 0) {
    struct stat folder;
    GCONV_ENDED_BY(gconv_texts_free) gconv_texts links = search->links;
    search->links = (gconv_texts){0};
    qsort(links.items, links.count, sizeof *links.items, compare_texts);
    for (size_t i = 0; i < links.count; i++) {
      if (stat(links.items[i], &folder) == 0 && !gconv_search_has_results(search, &folder))
        GCONV_TRY(add_folder(search, links.items[i], &folder));
      GCONV_TRY(search_folders(search));
    }
  }
  return GCONV_OK;
}

gconv_status gconv_search_noted(gconv_search *search, bool links) {
  size_t before = search->inputs->count;
  GCONV_TRY(search_folders(search));
  if (links)
    GCONV_TRY(search_links(search));
  sort_inputs(search->inputs, before);
  return GCONV_OK;
}

/* ---- A folder named by the user ------------------------------------------------------------------------------------- */

/* Writes the usual extensions of the formats that can be read: "png, jpg, ...". */
static void list_extensions(char *text, size_t size) {
  const gconv_format_info *format;
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; used < size && (format = gconv_format_at(i)); i++)
    if (format->reads)
      used += (size_t)snprintf(text + used, size - used, "%s%.*s", used ? ", " : "", (int)strcspn(format->extensions, " "),
                               format->extensions);
}

static gconv_status complain_empty(const gconv_search *search, const char *path, size_t unread, size_t dangling) {
  char extensions[256];
  const gconv_inputs *inputs = search->inputs;
  list_extensions(extensions, sizeof extensions);
  if (unread > 0)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: no images in this folder that can be read (%s), but %zu of other formats, such as %s: convert "
                      "them first, for example with ImageMagick: mogrify -format png FILES",
                      path, extensions, unread, search->first_unread);
  if (dangling > 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: no images in this folder, but links that lead nowhere, such as %s", path,
                      inputs->dangling.first);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: no images in this folder (looked for %s%s%s)", path, extensions,
                    inputs->exclude && inputs->exclude->count > 0 ? ", without what --exclude names" : "",
                    search->recursive ? "" : "; --recursive looks into its sub-folders too");
}

gconv_status gconv_search_folder(gconv_search *search, const char *path, const struct stat *status) {
  gconv_inputs *inputs = search->inputs;
  size_t before = inputs->count, unread = search->unread, dangling = inputs->dangling.count, missed = inputs->missed.count,
         length = strlen(path);
  inputs->many = true;
  gconv_search_begin(search, path[length - 1] == '/' ? length : length + 1);
  gconv_status result = add_folder(search, path, status);
  if (result == GCONV_OK)
    result = gconv_search_noted(search, true);
  gconv_search_end(search);
  if (result != GCONV_OK || inputs->count > before)
    return result;
  if (inputs->missed.count > missed)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s", inputs->missed.items[missed]);
  return complain_empty(search, path, search->unread - unread, inputs->dangling.count - dangling);
}
