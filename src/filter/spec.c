/* SPDX-License-Identifier: MIT */
/* Makes filters from what a user writes. The text is tried, in this order, as a file, a built-in name, an inline kernel, a
 * shipped file, and another name of a built-in filter. */
#include "base/arguments.h"
#include "base/file.h"
#include "base/folders.h"
#include "base/foreign_model.h"
#include "base/memory.h"
#include "base/suggest.h"
#include "base/zip.h"
#include "filter/builtin.h"
#include "filter/syntax.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder of filters near the running program: that of an installation, or a link in the folder of a build. "": there is
 * none. */
static char folder_near_program[PATH_MAX];

static void find_folder_near_program(void) {
  static const char *const places[] = {"../share/gconv/filters", "filters"};
  char program[PATH_MAX], path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0)
    return;
  program[length] = '\0';
  *strrchr(program, '/') = '\0';
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    struct stat status;
    int used = snprintf(path, sizeof path, "%s/%s", program, places[i]);
    if (used < (int)sizeof path && stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
      memcpy(folder_near_program, path, (size_t)used + 1);
      return;
    }
  }
}

const char *gconv_filter_folder(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const char *folder = getenv("GCONV_FILTERS");
  if (folder && *folder)
    return folder;
  pthread_once(&once, find_folder_near_program);
  return folder_near_program[0] ? folder_near_program : GCONV_FILTER_FOLDER;
}

/* ---- Files ---- */

/* Returns whether `path` should be opened as a file: it exists and is no folder. Also returns true if stat() fails for
 * another reason than a missing file. Then the attempt to open the file reports that reason. */
static bool is_file(const char *path) {
  struct stat status;
  if (strcmp(path, "-") == 0)
    return true;
  if (stat(path, &status) == 0)
    return !S_ISDIR(status.st_mode);
  return errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG;
}

/* Returns whether `spec` is FILE:NAME, an array of an archive of NumPy. */
static bool is_member(const char *spec) {
  GCONV_ENDED_BY(gconv_source_close) gconv_source source = {.file = -1};
  const uint8_t *bytes;
  size_t size = 0, length = gconv_member_split(spec);
  return spec[length] == ':' && strncmp(spec, "-:", 2) != 0 && gconv_source_open_member(spec, &source) == GCONV_OK &&
         gconv_source_peek(&source, 4, &bytes, &size) == GCONV_OK && gconv_zip_sniff(bytes, size);
}

/* Returns "sobel_x" for "filters/sobel_x.txt" and for "archive.npz:sobel_x"; release it with free(). NULL: no memory. */
static char *stem_of(const char *path) {
  const char *member = path + gconv_member_split(path);
  if (*member == ':')
    return strdup(member + 1);
  if (strcmp(path, "-") == 0)
    return strdup("stdin");
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
  return dot && dot > base ? strndup(base, (size_t)(dot - base)) : strdup(base);
}

static gconv_status parse_content(const gconv_content *content, const char *syntax, gconv_filters *list) {
  const gconv_syntax *found = NULL;
  if (syntax)
    GCONV_TRY(gconv_syntax_by_name(syntax, &found));
  else
    GCONV_TRY(gconv_syntax_find(content, &found));
  return found->parse(content, list);
}

static gconv_status read_member(gconv_source *archive, gconv_content *content) {
  GCONV_ENDED_BY(gconv_zip_free) gconv_zip zip = {0};
  GCONV_ENDED_BY(gconv_source_close) gconv_source member = {.file = -1};
  size_t index = 0;
  GCONV_TRY(gconv_zip_read(archive, &zip));
  GCONV_TRY(gconv_zip_find_array(archive, &zip, archive->member, &index));
  GCONV_TRY(gconv_zip_open_member(archive, &zip.members[index], archive->name, &member));
  return gconv_source_read_all(&member, GCONV_FILTER_MAX_FILE_BYTES, &content->bytes, &content->size);
}

static gconv_status read_content(const char *path, gconv_content *content) {
  GCONV_ENDED_BY(gconv_source_close) gconv_source source = {.file = -1};
  const uint8_t *bytes;
  size_t size = 0;
  content->name = strcmp(path, "-") == 0 ? "standard input" : path;
  GCONV_TRY(gconv_source_open_member(path, &source));
  GCONV_TRY(gconv_source_peek(&source, 4, &bytes, &size));
  if (gconv_zip_sniff(bytes, size))
    return read_member(&source, content);
  return gconv_source_read_all(&source, GCONV_FILTER_MAX_FILE_BYTES, &content->bytes, &content->size);
}

static void free_content(gconv_content *content) {
  gconv_release(content->bytes);
}

static gconv_status read_file(const char *path, const char *syntax, gconv_filters *list) {
  GCONV_ENDED_BY(free_content) gconv_content content = {0};
  size_t first = list->count;
  GCONV_TRY(read_content(path, &content));
  GCONV_TRY(parse_content(&content, syntax, list));
  GCONV_FREED char *stem = stem_of(path);
  GCONV_NEED_MEMORY(stem, "%s: no memory for its name", path);
  return gconv_filters_name(list, first, stem);
}

/* ---- Shipped files ---- */

bool gconv_filter_find_shipped(const char *name, char path[PATH_MAX]) {
  if (strchr(name, '/') || *name == '.' || *name == '\0')
    return false;
  for (int i = 0; i < 2; i++) {
    int length = snprintf(path, PATH_MAX, "%s/%s%s", gconv_filter_folder(), name, i == 0 ? "" : ".txt");
    if (length < PATH_MAX && is_file(path))
      return true;
  }
  return false;
}

static void suggest_shipped(gconv_suggestion *best, const char *word) {
  DIR *folder = opendir(gconv_filter_folder());
  if (!folder)
    return;
  for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
    char name[NAME_MAX + 1];
    const char *dot = strrchr(entry->d_name, '.');
    if (!dot || strcmp(dot, ".txt") != 0)
      continue;
    snprintf(name, sizeof name, "%.*s", (int)(dot - entry->d_name), entry->d_name);
    gconv_suggest(best, word, name);
  }
  closedir(folder);
}

/* Reports a file that hides another filter of the same name. The user may not know of the file. */
static void remark_shadow(const char *spec) {
  char shipped[PATH_MAX];
  if (gconv_builtin_find(spec))
    gconv_remark("'%s' is read from the file of this name, not the built-in filter", spec);
  else if (gconv_filter_find_shipped(spec, shipped))
    gconv_remark("'%s' is read from the file of this name, not the shipped %s", spec, shipped);
}

/* ---- Inline kernels ---- */

/* Returns whether `spec` is a kernel: it begins with a number or nan, and a separator follows. */
static bool is_inline(const char *spec) {
  const char *first = spec + strspn(spec, " \t\r\n");
  return *first && (strchr("+-.0123456789", *first) || strncasecmp(first, "nan", 3) == 0) && strpbrk(first, ":,; \t\n");
}

static bool is_inline_array(const char *spec) {
  gconv_content content = {"inline array", (uint8_t *)(uintptr_t)spec, strlen(spec)};
  return gconv_array_begins(&content);
}

/* Returns whether the kernel is rows between ';' without brackets, "0 -1 0; -1 5 -1; 0 -1 0": several pieces of as many
 * numbers, which are no square, so that each cannot be a kernel of ImageMagick. */
static bool is_rows(const char *spec) {
  int numbers = 0, first = 0, rows = 0;
  if (strpbrk(spec, ":[]{}()#%"))
    return false;
  for (const char *at = spec;; at++) {
    at += strspn(at, ", \t\r\n");
    if (*at && *at != ';') {
      numbers++;
      at += strcspn(at, ";, \t\r\n");
    }
    if (*at && *at != ';')
      continue;
    if (rows > 0 && numbers != first)
      return false;
    first = numbers;
    numbers = 0;
    rows++;
    if (!*at)
      break;
  }
  const int side = (int)sqrt((double)first);
  return rows > 1 && first > 1 && side * side != first;
}

static gconv_status read_inline(const char *spec, const gconv_syntax *syntax, gconv_filters *list) {
  GCONV_FREED char *copy = strdup(spec);
  GCONV_NEED_MEMORY(copy, "no memory for an inline kernel");
  size_t first = list->count;
  gconv_content content = {"inline kernel", (uint8_t *)copy, strlen(copy)};
  gconv_status status = syntax->parse(&content, list);
  GCONV_THEN(status, gconv_filters_name(list, first, "kernel"));
  return status == GCONV_BAD_FILE ? GCONV_BAD_ARGUMENT : status;
}

/* ---- Any spec ---- */

/* Words that no filter has as a name, and the filters that they may mean. Other names of a built-in filter are in its
 * descriptor. */
static const struct {
  const char *word, *name; /* the filter to try */
  const char *unclear;     /* or a text: the filters that the word may mean */
} synonyms[] = {
#define BLUR "gaussian:sigma=2, the Gaussian (ImageMagick's -blur), or average:size=5, the mean of a box (OpenCV's blur)"
    {"blur", NULL, BLUR},
    {"smooth", NULL, BLUR},
    {"lowpass", NULL, BLUR},
    {"edge", "sobel", NULL},
    {"edges", "sobel", NULL},
    {"gradient", "sobel", NULL},
    {"highpass", "laplacian_8", NULL},
    {"outline", "laplacian_8", NULL},
    {"compass", "kirsch", NULL},
};

/* Returns the explanation of an ambiguous word, or NULL for other words. */
static const char *find_unclear(const char *word) {
  for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
    if (strcasecmp(synonyms[i].word, word) == 0)
      return synonyms[i].unclear;
  return NULL;
}

static void suggest(const char *word, gconv_suggestion *best) {
  for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
    if (strcasecmp(synonyms[i].word, word) == 0) {
      snprintf(best->name, sizeof best->name, "%s", synonyms[i].name);
      return;
    }
  for (size_t i = 0; gconv_builtin_at(i); i++)
    gconv_suggest(best, word, gconv_builtin_at(i)->name);
  suggest_shipped(best, word);
}

/* Returns the length of FILE in FILE or FILE:NAME if FILE looks like the name of a file: it has a short ending of letters
 * and digits. Otherwise returns 0. */
static size_t file_length(const char *spec) {
  enum { LONGEST_ENDING = 11 }; /* safetensors */
  size_t length = strcspn(spec, ":"), ending = 0;
  bool letters = false;
  for (; ending < length && isalnum((unsigned char)spec[length - 1 - ending]); ending++)
    letters = letters || isalpha((unsigned char)spec[length - 1 - ending]);
  bool file = letters && ending <= LONGEST_ENDING && length > ending + 1 && spec[length - 1 - ending] == '.';
  return file ? length : 0;
}

/* Fails for FILE:NAME where FILE exists. The error says what is wrong with FILE, or that its filters have no names. */
static gconv_status fail_member(const char *spec, size_t length) {
  GCONV_ENDED_BY(gconv_filters_free) gconv_filters read = {0};
  GCONV_FREED char *path = strndup(spec, length);
  GCONV_NEED_MEMORY(path, "no memory for a file name");
  GCONV_TRY(read_file(path, NULL, &read));
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: holds filters without names: leave out '%s'", path, spec + length);
}

static gconv_status fail_unknown(const char *spec) {
  if (gconv_is_folder(spec)) {
    GCONV_TRY(gconv_refuse_foreign_model(spec));
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: is a folder; a filter is a file, or a name that `gconv filters` lists", spec);
  }
  const size_t file = gconv_member_split(spec), named = file_length(spec);
  if (spec[file] == ':' && file > 1)
    return fail_member(spec, file);
  if (strchr(spec, '/'))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%.*s: there is no such file", (int)(named > 0 ? named : file), spec);
  char word[64];
  size_t length = strcspn(spec, ":,;=( \t"),
         dot = length > 4 && strncmp(spec + length - 4, ".txt", 4) == 0 ? length - 4 : length;
  snprintf(word, sizeof word, "%.*s", (int)(dot < sizeof word ? dot : sizeof word - 1), spec);
  const char *elsewhere = gconv_elsewhere(word), *unclear = find_unclear(word);
  if (elsewhere)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %s", spec, elsewhere);
  if (unclear)
    return gconv_fail(GCONV_BAD_ARGUMENT, "'%s' means different things in different programs. Name one of them: %s", spec,
                      unclear);
  gconv_suggestion best = {0};
  suggest(word, &best);
  if (named > 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "there is no filter '%s': there is no file '%.*s'%s%s%s", spec, (int)named, spec,
                      best.name[0] ? "; did you mean '" : "", best.name, best.name[0] ? "'?" : "");
  const char *parameters = spec[length] && strcasecmp(word, best.name) == 0 ? gconv_builtin_parameters(best.name) : "";
  if (*parameters)
    return gconv_fail(GCONV_BAD_ARGUMENT, "there is no filter '%s'; did you mean '%s'? Its parameters follow a colon: %s:%s",
                      spec, best.name, best.name, parameters);
  return gconv_fail(
      GCONV_BAD_ARGUMENT,
      "there is no filter '%s': no file, built-in or shipped filter has this name%s%s%s (`gconv filters` lists "
      "them; a kernel can also be written out, as '[0 -1 0; -1 5 -1; 0 -1 0]')",
      spec, best.name[0] ? "; did you mean '" : "", best.name, best.name[0] ? "'?" : "");
}

static gconv_status read_spec(const char *spec, const char *syntax, gconv_filters *list) {
  const gconv_syntax *known;
  char shipped[PATH_MAX];
  if (syntax)
    GCONV_TRY(gconv_syntax_by_name(syntax, &known));
  if (*spec && (is_file(spec) || is_member(spec))) {
    remark_shadow(spec);
    return read_file(spec, syntax, list);
  }
  const gconv_builtin *builtin = gconv_builtin_find(spec);
  if (builtin)
    return gconv_builtin_make(builtin, spec, list);
  if (is_inline_array(spec))
    return read_inline(spec, &gconv_syntax_array, list);
  if (is_inline(spec)) {
    GCONV_FREED char *array = is_rows(spec) ? gconv_format_text("[%s]", spec) : NULL;
    return read_inline(array ? array : spec, array ? &gconv_syntax_array : &gconv_syntax_imagemagick, list);
  }
  if (gconv_filter_find_shipped(spec, shipped))
    return read_file(shipped, NULL, list);
  builtin = gconv_builtin_find_like(spec);
  return builtin ? gconv_builtin_make(builtin, spec, list) : fail_unknown(spec);
}

/* Makes room for the next power of two of items, as gconv_filters_add() expects. A list that the caller made may have room
 * for its items only. */
static gconv_status make_room(gconv_filters *list) {
  size_t room = 1, bytes;
  while (room < list->count)
    room *= 2;
  gconv_filter *items = gconv_multiply(room, sizeof *items, &bytes) ? realloc(list->items, bytes) : NULL;
  GCONV_NEED_MEMORY(items, "no memory for a list of %zu filters", room);
  list->items = items;
  return GCONV_OK;
}

gconv_status gconv_filters_read(const char *spec, const char *syntax, gconv_filters *list) {
  GCONV_NEED(spec, list);
  if (list->count > 0 && !list->items)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the list has %zu filters, and its items are NULL", list->count);
  size_t before = list->count;
  bool gradient = list->gradient;
  if (before > 0)
    GCONV_TRY(make_room(list));
  list->gradient = false;
  gconv_status status = read_spec(spec, syntax, list);
  if (status == GCONV_OK)
    return GCONV_OK;
  gconv_filters_truncate(list, before);
  list->gradient = gradient;
  return status;
}
