/* SPDX-License-Identifier: MIT */
#include "base/file.h"
#include "batch/arguments.h"
#include "batch/outputs.h"
#include "batch/template.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* What all functions here share. */
struct search {
  gconv_inputs *inputs;
  bool recursive;
  bool has_results; /* the folder of the results exists: it is `results` */
  struct stat results;
  gconv_message *message;
};

/* A folder being read, and those around it: the way up tells whether a link leads back. */
struct folder {
  const struct folder *parent;
  dev_t device;
  ino_t inode;
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
static gconv_status pass_over(struct search *search, const char *path) {
  gconv_inputs *inputs = search->inputs;
  if (inputs->unread++ == 0)
    inputs->unread_one = strdup(path);
  return inputs->unread_one ? GCONV_OK : gconv_complain_memory(search->message);
}

static int is_visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static bool leads_back(const struct folder *around, const struct stat *status) {
  for (; around; around = around->parent)
    if (around->device == status->st_dev && around->inode == status->st_ino)
      return true;
  return false;
}

static bool holds_results(const struct search *search, const struct stat *status) {
  return search->has_results && search->results.st_dev == status->st_dev && search->results.st_ino == status->st_ino;
}

static gconv_status search_folder(struct search *search, const struct folder *parent, const char *path, const char *relative,
                                  const struct stat *status);

static gconv_status search_entry(struct search *search, const struct folder *here, const char *path, const char *relative) {
  struct stat status;
  if (stat(path, &status) != 0) /* a dangling link, or gone since: as if it were not there */
    return GCONV_OK;
  if (S_ISREG(status.st_mode)) /* no pipe, which may never end */
    return is_image_name(path)    ? add_input(search, path, relative, true)
           : is_unread_name(path) ? pass_over(search, path)
                                  : GCONV_OK;
  if (!S_ISDIR(status.st_mode) || !search->recursive || leads_back(here, &status) || holds_results(search, &status))
    return GCONV_OK;
  return search_folder(search, here, path, relative, &status);
}

static gconv_status search_folder(struct search *search, const struct folder *parent, const char *path, const char *relative,
                                  const struct stat *status) {
  struct folder here = {parent, status->st_dev, status->st_ino};
  struct dirent **entries = NULL;
  int count = scandir(path, &entries, is_visible, alphasort);
  if (count < 0)
    return gconv_complain(search->message, GCONV_BAD_ARGUMENT, "%s: cannot look into this folder: %s", path,
                          strerror(errno));
  bool noted = gconv_texts_add(&search->inputs->folders, strdup(path));
  gconv_status result = noted ? GCONV_OK : gconv_complain_memory(search->message);
  for (int i = 0; i < count; i++) {
    if (result == GCONV_OK) {
      char *entry = join(path, entries[i]->d_name), *below = join(relative, entries[i]->d_name);
      result = entry && below ? search_entry(search, &here, entry, below) : gconv_complain_memory(search->message);
      free(entry);
      free(below);
    }
    free(entries[i]);
  }
  free(entries);
  return result;
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
  size_t before = search->inputs->count, unread = search->inputs->unread;
  search->inputs->many = true;
  gconv_status result = search_folder(search, NULL, path, "", status);
  if (result != GCONV_OK || search->inputs->count > before)
    return result;
  char extensions[256];
  list_extensions(extensions, sizeof extensions);
  if (search->inputs->unread > unread)
    return gconv_complain(
        search->message, GCONV_BAD_ARGUMENT,
        "%s: no images in this folder that can be read (%s), but %zu of other formats, such as %s: convert "
        "them first, for example with ImageMagick: mogrify -format png FILES",
        path, extensions, search->inputs->unread - unread, search->inputs->unread_one);
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

static gconv_status add_match(struct search *search, const char *path, const char *relative) {
  struct stat status;
  if (is_dots(path))
    return GCONV_OK;
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
    return search->recursive && !holds_results(search, &status) ? search_folder(search, NULL, path, relative, &status)
                                                                : GCONV_OK;
  return add_input(search, path, relative, true);
}

/* A folder that cannot be looked into may hide what matches. Keeps errno for the caller of glob(). */
static int stop_glob(const char *folder, int error) {
  (void)folder;
  errno = error;
  return error != ENOENT;
}

static gconv_status find_by_pattern(struct search *search, const char *pattern) {
  size_t before = search->inputs->count, fixed = fixed_length(pattern);
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
  for (size_t i = 0; i < found.gl_pathc && result == GCONV_OK; i++)
    result = add_match(search, found.gl_pathv[i], found.gl_pathv[i] + fixed);
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
  free(inputs->unread_one);
  gconv_texts_free(&inputs->folders);
  gconv_texts_free(&inputs->patterns);
  *inputs = (gconv_inputs){0};
}
