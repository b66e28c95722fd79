/* SPDX-License-Identifier: MIT */
#include "base/file.h"
#include "base/memory.h"
#include "image/rows.h"
#include "names/search.h"
#include "names/template.h"

#include <errno.h>
#include <string.h>

/* ---- Names ---------------------------------------------------------------------------------------------------------- */

static gconv_status find_standard_input(gconv_search *search) {
  for (size_t i = 0; i < search->inputs->count; i++)
    if (strcmp(search->inputs->items[i].path, "-") == 0)
      return gconv_fail(GCONV_BAD_ARGUMENT, "-: standard input can be read only once");
  return gconv_search_add(search, "-", "stdin", false);
}

/* Adds FILE:MEMBER under the name FILE_MEMBER, or under the name FILE if MEMBER describes raw samples. FILE is the first
 * `length` bytes of `spec`. */
static gconv_status add_member(gconv_search *search, const char *spec, size_t length) {
  GCONV_FREED char *file = strndup(spec, length), *relative = NULL;
  const char *name = file ? gconv_path_name(file) : "";
  size_t stem = gconv_path_stem(name);
  if (file && gconv_is_raw_member(spec + length + 1))
    return gconv_search_add(search, spec, strcmp(name, "-") == 0 ? "stdin" : name, false);
  if (!file || asprintf(&relative, "%.*s_%s%s", (int)stem, name, spec + length + 1, name + stem) < 0)
    relative = NULL;
  for (char *at = relative; at && *at; at++)
    if (*at == '/' || (unsigned char)*at < ' ')
      *at = '_';
  return relative ? gconv_search_add(search, spec, relative, false) : gconv_no_memory();
}

static gconv_status find_one(gconv_search *search, const char *spec) {
  struct stat status;
  if (strcmp(spec, "-") == 0)
    return find_standard_input(search);
  if (spec[0] == '\0')
    return gconv_fail(GCONV_BAD_ARGUMENT, "the name of an input is empty");
  if (stat(spec, &status) == 0)
    return S_ISDIR(status.st_mode) ? gconv_search_folder(search, spec, &status)
                                   : gconv_search_add(search, spec, gconv_path_name(spec), false);
  int error = errno;
  size_t file = gconv_member_split(spec);
  if (spec[file] != '\0' && (strncmp(spec, "-:", 2) != 0 || gconv_is_raw_member(spec + 2)))
    return add_member(search, spec, file);
  if (error == ENOENT && strpbrk(spec, "*?["))
    return gconv_search_pattern(search, spec);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: cannot find this input: %s", spec, strerror(error));
}

/* Finds the folder of the results: the folder that `output` names or, in a template, the folder before the first field.
 * search->has_results stays false if `output` is a file or standard output. */
static gconv_status find_results(gconv_search *search, const char *output) {
  GCONV_FREED char *folder = gconv_template_is_one(output) ? gconv_template_folder(output) : gconv_template_plain(output);
  GCONV_NEED_MEMORY(folder, "out of memory");
  search->has_results = stat(folder, &search->results) == 0 && S_ISDIR(search->results.st_mode);
  return GCONV_OK;
}

/* ---- Several names of one file ---------------------------------------------------------------------------------------- */

/* Makes the key by which a file is known: its absolute path without "." and "..", on the heap; NULL without memory. A link
 * to the file, or to its folder, has another key. `here`: the working folder. */
static char *make_key(const char *path, const char *here) {
  if (strcmp(path, "-") == 0) /* standard input, and not the file ./- */
    return strdup(path);
  if (strstr(path, "..")) /* the folder before ".." may be a link */
    return gconv_path_canonical(path);
  const char *from = path[0] == '/' ? "/" : here;
  char *key = malloc(strlen(from) + strlen(path) + 2);
  if (key)
    gconv_path_append(strcpy(key, from), path);
  return key;
}

/* Drops all names of a file but the first one. */
static gconv_status drop_repeated(gconv_inputs *inputs) {
  size_t count = inputs->count, kept = 0;
  gconv_key *keys = calloc(count + 1, sizeof *keys);
  bool *drops = calloc(count + 1, sizeof *drops), good = keys && drops;
  GCONV_FREED char *here = realpath(".", NULL);
  for (size_t i = 0; i < count && good; i++) {
    keys[i] = (gconv_key){make_key(inputs->items[i].path, here ? here : "/"), i};
    good = keys[i].text != NULL;
  }
  if (good)
    gconv_keys_sort(keys, count);
  for (size_t i = 1; i < count && good; i++) {
    size_t own = keys[i].number;
    drops[own] = strcmp(keys[i - 1].text, keys[i].text) == 0;
    if (drops[own] && inputs->repeated.count++ == 0)
      good = (inputs->repeated.first = strdup(inputs->items[own].path)) != NULL;
  }
  for (size_t i = 0; i < count && good; i++)
    if (drops[i])
      gconv_input_free(&inputs->items[i]);
    else
      inputs->items[kept++] = inputs->items[i];
  inputs->count = good ? kept : count;
  gconv_keys_free(keys, count);
  free(drops);
  return good ? GCONV_OK : gconv_no_memory();
}

/* ---- All ------------------------------------------------------------------------------------------------------------ */

/* Returns a text such as "2 .txt, 1 .heic, 1 without an extension", on the heap; NULL without memory. */
static char *describe_kinds(const gconv_search *search) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  for (int i = 0; out && i < GCONV_MOST_KINDS; i++)
    if (search->kinds[i].count > 0)
      fprintf(out, "%s%zu %s%s", i > 0 ? ", " : "", search->kinds[i].count, search->kinds[i].name,
              search->kinds[i].count > 1 && strchr("psd", search->kinds[i].name[0]) ? "s" : "");
  return out && gconv_close_text(out, &text) ? text : NULL;
}

static gconv_status finish(gconv_search *search, bool several) {
  gconv_inputs *inputs = search->inputs;
  if (several)
    GCONV_TRY(drop_repeated(inputs));
  if (inputs->unread.count > 0 && !(inputs->unread_kinds = describe_kinds(search)))
    return gconv_no_memory();
  inputs->many |= inputs->count > 1;
  return GCONV_OK;
}

static gconv_status find_all(const gconv_texts *specs, bool recursive, const char *output, gconv_inputs *inputs) {
  gconv_search search = {.inputs = inputs, .recursive = recursive};
  const size_t patterns = inputs->exclude ? inputs->exclude->count : 0;
  GCONV_TRY(gconv_check_texts(specs, "specs"));
  if (inputs->exclude)
    GCONV_TRY(gconv_check_texts(inputs->exclude, "inputs->exclude"));
  if (!(search.excluded = calloc(patterns + 1, sizeof *search.excluded)))
    return gconv_no_memory();
  gconv_status status = find_results(&search, output);
  for (size_t i = 0; i < specs->count && status == GCONV_OK; i++)
    status = find_one(&search, specs->items[i]);
  GCONV_THEN(status, finish(&search, specs->count > 1));
  for (size_t i = 0; i < patterns && status == GCONV_OK; i++)
    if (!search.excluded[i])
      gconv_warn("--exclude %s: no file or folder that was found has this %s", inputs->exclude->items[i],
                 strchr(inputs->exclude->items[i], '/') ? "path, below the folder of the input" : "name");
  free(search.excluded);
  free(search.first_unread);
  if (status != GCONV_OK)
    gconv_inputs_free(inputs);
  return status;
}

gconv_status gconv_inputs_find(const gconv_texts *specs, bool recursive, const char *output, gconv_inputs *inputs,
                               gconv_message *message) {
  GCONV_NEED_TOLD(message, specs, output, inputs);
  return gconv_tell(find_all(specs, recursive, output, inputs), message);
}

void gconv_inputs_free(gconv_inputs *inputs) {
  if (!inputs)
    return;
  for (size_t i = 0; inputs->items && i < inputs->count; i++)
    gconv_input_free(&inputs->items[i]);
  free(inputs->items);
  free(inputs->unread.first);
  free(inputs->unread_kinds);
  free(inputs->repeated.first);
  gconv_texts_free(&inputs->missed);
  free(inputs->linked.first);
  free(inputs->dangling.first);
  gconv_texts_free(&inputs->folders);
  gconv_texts_free(&inputs->patterns);
  *inputs = (gconv_inputs){0};
}
