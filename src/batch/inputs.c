/* SPDX-License-Identifier: MIT */
#include "base/file.h"
#include "base/memory.h"
#include "batch/arguments.h"
#include "batch/outputs.h"
#include "batch/template.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* What all functions here share. The folders of the input that is searched are inputs->folders, from `next` on those that
 * were found and not searched yet. */
struct search {
  gconv_inputs *inputs;
  bool recursive;
  bool has_results; /* the folder of the results exists: it is `results` */
  struct stat results;
  size_t next;
  size_t above;      /* the length of what stands before `relative` in the paths that are found */
  gconv_texts links; /* to folders, which are searched after all others */
  void *seen;        /* a tree of gconv_identity: folders of this input that were found */
  gconv_message *message;
};

static gconv_status add_input(struct search *search, const char *path, const char *relative, bool found) {
  gconv_inputs *inputs = search->inputs;
  gconv_input *items = gconv_grown(inputs->items, inputs->count, sizeof *items);
  if (!items)
    return gconv_complain_memory(search->message);
  inputs->items = items;
  gconv_input *input = &items[inputs->count++];
  *input = (gconv_input){
      .path = strdup(path), .file = strndup(path, gconv_member_split(path)), .relative = strdup(relative), .found = found};
  return input->path && input->file && input->relative ? GCONV_OK : gconv_complain_memory(search->message);
}

/* "folder/name" on the heap; just "name" if the folder is "". */
static char *join(const char *folder_path, const char *name) {
  size_t length = strlen(folder_path);
  const char *slash = length == 0 || folder_path[length - 1] == '/' ? "" : "/";
  char *text = NULL;
  return asprintf(&text, "%s%s%s", folder_path, slash, name) < 0 ? NULL : text;
}

static bool is_image_name(const char *name) {
  const gconv_format_info *format = gconv_format_by_path(name);
  return format && format->reads;
}

/* Whether it has the extension of a format of images that is not read. */
static bool is_unread_name(const char *name) {
  static const char *const extensions[] = {"tif", "tiff", "webp", "bmp", "gif", "heic", "heif", "avif", "jxl",
                                           "jp2", "j2k",  "svg",  "exr", "hdr", "psd",  "dng",  "cr2",  "cr3",
                                           "nef", "arw",  "raf",  "orf", "rw2", "dcm",  "fits", "tga"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < sizeof extensions / sizeof *extensions; i++)
    if (strcasecmp(dot + 1, extensions[i]) == 0)
      return true;
  return false;
}

/* Counts it, and keeps the first. */
static gconv_status pass_over(struct search *search, gconv_passed_over *all, const char *path) {
  if (all->count++ == 0)
    all->first = strdup(path);
  return all->first ? GCONV_OK : gconv_complain_memory(search->message);
}

static int is_visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

/* ---- Folders ------------------------------------------------------------------------------------------------------- */

/*
 * Each folder is searched once, whatever names lead to it: so links that lead to each other end. Real folders come first,
 * and links after all of them. So a folder has its real name, if that lies in what is searched, and the name of the first
 * link otherwise. What was found is sorted in the end, as if each folder had been searched where its name comes.
 */

static bool holds_results(const struct search *search, const struct stat *status) {
  return search->has_results && search->results.st_dev == status->st_dev && search->results.st_ino == status->st_ino;
}

/* Notes that the folder was found; *first says whether that is new. */
static gconv_status see(struct search *search, const struct stat *status, bool *first) {
  gconv_identity *key = malloc(sizeof *key);
  if (!key)
    return gconv_complain_memory(search->message);
  *key = (gconv_identity){status->st_dev, status->st_ino};
  gconv_identity **node = tsearch(key, &search->seen, gconv_identity_compare);
  *first = node && *node == key;
  if (!*first)
    free(key);
  return node ? GCONV_OK : gconv_complain_memory(search->message);
}

/* Notes a folder that is to be searched, once. */
static gconv_status add_folder(struct search *search, const char *path, const struct stat *status) {
  bool first;
  GCONV_TRY(see(search, status, &first));
  if (!first)
    return pass_over(search, &search->inputs->linked, path);
  return gconv_texts_add(&search->inputs->folders, strdup(path)) ? GCONV_OK : gconv_complain_memory(search->message);
}

/* An entry that cannot be looked at. It is passed over if it is gone, or a link that leads nowhere, or not wanted anyway. An
 * image fails when its turn comes. */
static gconv_status search_hidden(struct search *search, const char *path, bool folder, int error) {
  bool wanted = folder ? search->recursive : is_image_name(path);
  if (error == ENOENT || error == ELOOP || !wanted) {
    struct stat link;
    bool dangling = wanted && lstat(path, &link) == 0 && S_ISLNK(link.st_mode);
    return dangling ? pass_over(search, &search->inputs->dangling, path) : GCONV_OK;
  }
  if (error == ENAMETOOLONG)
    return gconv_complain(search->message, GCONV_BAD_ARGUMENT,
                          "%.60s...: the paths below it are longer than the %d bytes that the system takes: go to a folder "
                          "nearer to the images (cd), and name the input from there",
                          path, PATH_MAX - 1);
  if (folder)
    return gconv_complain(search->message, GCONV_BAD_ARGUMENT, "%s: cannot look into this folder: %s", path,
                          strerror(error));
  return add_input(search, path, path + search->above, true);
}

static gconv_status search_entry(struct search *search, const char *path, bool folder) {
  struct stat status, own;
  if (stat(path, &status) != 0)
    return search_hidden(search, path, folder, errno);
  if (S_ISREG(status.st_mode)) /* no pipe, which may never end */
    return is_image_name(path)    ? add_input(search, path, path + search->above, true)
           : is_unread_name(path) ? pass_over(search, &search->inputs->unread, path)
                                  : GCONV_OK;
  if (!S_ISDIR(status.st_mode) || !search->recursive)
    return GCONV_OK;
  if (lstat(path, &own) == 0 && S_ISLNK(own.st_mode))
    return gconv_texts_add(&search->links, strdup(path)) ? GCONV_OK : gconv_complain_memory(search->message);
  return holds_results(search, &status) ? GCONV_OK : add_folder(search, path, &status);
}

static gconv_status search_folder(struct search *search, const char *path) {
  struct dirent **entries = NULL;
  int count = scandir(path, &entries, is_visible, alphasort);
  if (count < 0)
    return gconv_complain(search->message, GCONV_BAD_ARGUMENT, "%s: cannot look into this folder: %s", path,
                          strerror(errno));
  gconv_status result = GCONV_OK;
  for (int i = 0; i < count; i++) {
    if (result == GCONV_OK) {
      char *entry = join(path, entries[i]->d_name);
      result = entry ? search_entry(search, entry, entries[i]->d_type == DT_DIR) : gconv_complain_memory(search->message);
      free(entry);
    }
    free(entries[i]);
  }
  free(entries);
  return result;
}

/* Searches the folders that were found, and those in them. */
static gconv_status search_folders(struct search *search) {
  gconv_status status = GCONV_OK;
  while (search->next < search->inputs->folders.count && status == GCONV_OK)
    status = search_folder(search, search->inputs->folders.items[search->next++]);
  return status;
}

/* In the order in which a search that goes into each folder at once would find them: '/' comes before all other letters. */
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

/* Sorts what was found from `first` on. Returns `status`; after a failure, the last input may lack its names. */
static gconv_status sort_inputs(gconv_inputs *inputs, size_t first, gconv_status status) {
  if (status == GCONV_OK && inputs->count > first)
    qsort(inputs->items + first, inputs->count - first, sizeof *inputs->items, compare_inputs);
  return status;
}

/* Searches what the links lead to, and what links that are found there lead to, and so on. */
static gconv_status search_links(struct search *search) {
  gconv_status status = GCONV_OK;
  while (search->links.count > 0 && status == GCONV_OK) {
    struct stat folder;
    gconv_texts links = search->links;
    search->links = (gconv_texts){0};
    qsort(links.items, links.count, sizeof *links.items, compare_texts);
    for (size_t i = 0; i < links.count && status == GCONV_OK; i++) {
      if (stat(links.items[i], &folder) == 0 && !holds_results(search, &folder))
        status = add_folder(search, links.items[i], &folder);
      if (status == GCONV_OK)
        status = search_folders(search);
    }
    gconv_texts_free(&links);
  }
  return status;
}

/* Begins an input: what is found has `above` letters before its relative path. */
static void begin_search(struct search *search, size_t above) {
  search->next = search->inputs->folders.count;
  search->above = above;
}

static void end_search(struct search *search) {
  tdestroy(search->seen, free);
  search->seen = NULL;
  gconv_texts_free(&search->links);
}

/* "png, jpg, ...": the usual extensions of the formats that can be read. */
static void list_extensions(char *text, size_t size) {
  const gconv_format_info *format;
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; used < size && (format = gconv_format_at(i)); i++)
    if (format->reads)
      used += (size_t)snprintf(text + used, size - used, "%s%.*s", used ? ", " : "", (int)strcspn(format->extensions, " "),
                               format->extensions);
}

static gconv_status find_in_folder(struct search *search, const char *path, const struct stat *status) {
  const gconv_passed_over *unread = &search->inputs->unread, *dangling = &search->inputs->dangling;
  size_t before = search->inputs->count, unread_before = unread->count, dangling_before = dangling->count,
         length = strlen(path);
  search->inputs->many = true;
  begin_search(search, path[length - 1] == '/' ? length : length + 1);
  gconv_status result = add_folder(search, path, status);
  if (result == GCONV_OK)
    result = search_folders(search);
  if (result == GCONV_OK)
    result = search_links(search);
  end_search(search);
  result = sort_inputs(search->inputs, before, result);
  if (result != GCONV_OK || search->inputs->count > before)
    return result;
  char extensions[256];
  list_extensions(extensions, sizeof extensions);
  if (unread->count > unread_before)
    return gconv_complain(
        search->message, GCONV_BAD_ARGUMENT,
        "%s: no images in this folder that can be read (%s), but %zu of other formats, such as %s: convert "
        "them first, for example with ImageMagick: mogrify -format png FILES",
        path, extensions, unread->count - unread_before, unread->first);
  if (dangling->count > dangling_before)
    return gconv_complain(search->message, GCONV_BAD_ARGUMENT,
                          "%s: no images in this folder, but links that lead nowhere, such as %s", path, dangling->first);
  return gconv_complain(search->message, GCONV_BAD_ARGUMENT, "%s: no images in this folder (looked for %s%s)", path,
                        extensions, search->recursive ? "" : "; -r looks into its sub-folders too");
}

/* The length of the folders of `pattern` before its first wildcard: matches are mirrored from there on. */
static size_t fixed_length(const char *pattern) {
  size_t length = strcspn(pattern, "*?[");
  while (length > 0 && pattern[length - 1] != '/')
    length--;
  return length;
}

/* "." and "..", which the pattern ".*" matches too, are folders that nobody means; results would leave theirs by the latter.
 */
static bool is_dots(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static gconv_status add_match(struct search *search, const char *path) {
  struct stat status, own;
  size_t before = search->inputs->count;
  if (is_dots(path))
    return GCONV_OK;
  if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode))
    return add_input(search, path, path + search->above, true);
  if (!search->recursive || holds_results(search, &status))
    return GCONV_OK;
  if (lstat(path, &own) == 0 && S_ISLNK(own.st_mode))
    return gconv_texts_add(&search->links, strdup(path)) ? GCONV_OK : gconv_complain_memory(search->message);
  GCONV_TRY(add_folder(search, path, &status));
  return sort_inputs(search->inputs, before, search_folders(search));
}

/* All matches, in their order, and behind them what links to folders lead to. */
static gconv_status add_matches(struct search *search, const glob_t *found) {
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < found->gl_pathc && status == GCONV_OK; i++)
    status = add_match(search, found->gl_pathv[i]);
  size_t before = search->inputs->count;
  if (status == GCONV_OK)
    status = search_links(search);
  return sort_inputs(search->inputs, before, status);
}

/* A folder that cannot be looked into may hide what matches. Keeps errno for the caller of glob(). */
static int stop_glob(const char *folder, int error) {
  (void)folder;
  errno = error;
  return error != ENOENT;
}

/* glob() calls itself for each folder of a pattern, and so many fit onto a small stack. */
enum { MOST_PATTERN_FOLDERS = 128 };

static gconv_status check_pattern(const char *pattern, gconv_message *message) {
  size_t folders = 0;
  for (const char *at = pattern; *at; at++)
    folders += *at == '/';
  if (folders <= MOST_PATTERN_FOLDERS)
    return GCONV_OK;
  return gconv_complain(message, GCONV_BAD_ARGUMENT,
                        "%.60s...: a pattern with %zu folders, and %d is the most: name a folder, and search it with -r",
                        pattern, folders, MOST_PATTERN_FOLDERS);
}

static gconv_status find_by_pattern(struct search *search, const char *pattern) {
  size_t before = search->inputs->count;
  GCONV_TRY(check_pattern(pattern, search->message));
  search->inputs->many = true;
  glob_t found = {0};
  errno = 0;
  int failed = glob(pattern, 0, stop_glob, &found), error = errno;
  if (failed)
    globfree(&found);
  if (failed == GLOB_NOMATCH)
    return gconv_complain(search->message, GCONV_BAD_ARGUMENT, "%s: no file matches this pattern", pattern);
  if (failed)
    return gconv_complain(search->message, GCONV_BAD_ARGUMENT,
                          "%s: cannot look into a folder that this pattern leads to: %s", pattern,
                          strerror(failed == GLOB_NOSPACE ? ENOMEM : error));
  bool noted = gconv_texts_add(&search->inputs->patterns, strdup(pattern));
  gconv_status result = noted ? GCONV_OK : gconv_complain_memory(search->message);
  begin_search(search, fixed_length(pattern));
  if (result == GCONV_OK)
    result = add_matches(search, &found);
  end_search(search);
  globfree(&found);
  if (result == GCONV_OK && search->inputs->count == before)
    return gconv_complain(search->message, GCONV_BAD_ARGUMENT, "%s: only folders match this pattern%s", pattern,
                          search->recursive ? ", and they hold no images" : "; -r looks into them");
  return result;
}

static gconv_status find_standard_input(struct search *search) {
  for (size_t i = 0; i < search->inputs->count; i++)
    if (strcmp(search->inputs->items[i].path, "-") == 0)
      return gconv_complain(search->message, GCONV_BAD_ARGUMENT, "-: standard input can be read only once");
  return add_input(search, "-", "stdin", false);
}

/* Adds FILE:MEMBER, of which FILE has this length, under the name FILE_MEMBER. */
static gconv_status add_member(struct search *search, const char *spec, size_t length) {
  char *file = strndup(spec, length), *relative = NULL;
  const char *slash = file ? strrchr(file, '/') : NULL, *name = slash ? slash + 1 : file;
  const char *dot = name ? strrchr(name, '.') : NULL;
  int stem = name ? (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name)) : 0;
  if (!file || asprintf(&relative, "%.*s_%s%s", stem, name, spec + length + 1, dot && dot > name ? dot : "") < 0)
    relative = NULL;
  for (char *at = relative; at && *at; at++)
    if (*at == '/' || (unsigned char)*at < ' ')
      *at = '_';
  gconv_status status = relative ? add_input(search, spec, relative, false) : gconv_complain_memory(search->message);
  free(relative);
  free(file);
  return status;
}

static gconv_status find_one(struct search *search, const char *spec) {
  struct stat status;
  if (strcmp(spec, "-") == 0)
    return find_standard_input(search);
  if (spec[0] == '\0')
    return gconv_complain(search->message, GCONV_BAD_ARGUMENT, "the name of an input is empty");
  if (stat(spec, &status) == 0) {
    const char *slash = strrchr(spec, '/');
    return S_ISDIR(status.st_mode) ? find_in_folder(search, spec, &status)
                                   : add_input(search, spec, slash ? slash + 1 : spec, false);
  }
  int error = errno;
  size_t file = gconv_member_split(spec);
  if (spec[file] != '\0' && strncmp(spec, "-:", 2) != 0)
    return add_member(search, spec, file);
  if (error == ENOENT && strpbrk(spec, "*?["))
    return find_by_pattern(search, spec);
  return gconv_complain(search->message, GCONV_BAD_ARGUMENT, "%s: cannot find this input: %s", spec, strerror(error));
}

/* The folder that `output` names, or, of a template, the one before its first field; none of standard output or a file. */
static gconv_status find_results(struct search *search, const char *output) {
  char *folder = gconv_template_is_one(output) ? gconv_template_folder(output) : gconv_template_plain(output);
  if (!folder)
    return gconv_complain_memory(search->message);
  search->has_results = stat(folder, &search->results) == 0 && S_ISDIR(search->results.st_mode);
  free(folder);
  return GCONV_OK;
}

gconv_status gconv_inputs_find(const gconv_texts *specs, bool recursive, const char *output, gconv_inputs *inputs,
                               gconv_message *message) {
  struct search search = {.inputs = inputs, .recursive = recursive, .message = message};
  GCONV_NEED(message);
  GCONV_NEED_TOLD(specs, message);
  GCONV_NEED_TOLD(output, message);
  GCONV_NEED_TOLD(inputs, message);
  GCONV_TRY(gconv_check_texts(specs, "specs", message));
  gconv_status status = find_results(&search, output);
  for (size_t i = 0; i < specs->count && status == GCONV_OK; i++)
    status = find_one(&search, specs->items[i]);
  inputs->many |= inputs->count > 1;
  if (status != GCONV_OK)
    gconv_inputs_free(inputs);
  return status;
}

bool gconv_input_is_file(const char *path) {
  struct stat file;
  return strcmp(path, "-") != 0 && stat(path, &file) == 0 && S_ISREG(file.st_mode);
}

void gconv_inputs_free(gconv_inputs *inputs) {
  if (!inputs)
    return;
  for (size_t i = 0; inputs->items && i < inputs->count; i++) {
    free(inputs->items[i].path);
    free(inputs->items[i].file);
    free(inputs->items[i].relative);
  }
  free(inputs->items);
  free(inputs->unread.first);
  free(inputs->linked.first);
  free(inputs->dangling.first);
  gconv_texts_free(&inputs->folders);
  gconv_texts_free(&inputs->patterns);
  *inputs = (gconv_inputs){0};
}
