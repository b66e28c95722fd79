/* SPDX-License-Identifier: MIT */
/* Results that lie among the inputs. The checks prevent three errors: that the next run filters results again, that this run
 * filters results of an earlier run, and that a result replaces a file that is no result. */
#include "base/folders.h"
#include "base/mark.h"
#include "base/memory.h"
#include "names/manifest.h"
#include "names/outputs.h"

#include <fnmatch.h>
#include <string.h>
#include <unistd.h>

/* ---- Results that a run would filter ------------------------------------------------------------------------------- */

/* Returns the path without "./" in front. */
static const char *plain_path(const char *path) {
  while (strncmp(path, "./", 2) == 0)
    path += 2;
  return path;
}

/* Sets *is to whether `path` lies in one of the folders, which are canonical and sorted. */
static gconv_status lies_in(const gconv_texts *folders, const char *path, bool *is) {
  GCONV_FREED char *own = gconv_path_folder(path), *canonical = own ? gconv_path_canonical(own) : NULL;
  *is = canonical && bsearch(&canonical, folders->items, folders->count, sizeof *folders->items, gconv_texts_compare);
  return canonical ? GCONV_OK : gconv_no_memory();
}

static bool is_matched(const gconv_texts *patterns, const char *path) {
  for (size_t i = 0; i < patterns->count; i++)
    if (fnmatch(plain_path(patterns->items[i]), plain_path(path), FNM_PATHNAME | FNM_PERIOD) == 0)
      return true;
  return false;
}

/* Refuses results that lie in a folder that was searched, or match a pattern. */
static gconv_status refuse_among(const gconv_inputs *inputs, const gconv_outputs *outputs, const gconv_texts *searched) {
  for (size_t i = 0; i < outputs->paths.count; i++) {
    const char *path = outputs->paths.items[i];
    bool is = is_matched(&inputs->patterns, path);
    if (!is && searched->count > 0 && gconv_format_by_path(path))
      GCONV_TRY(lies_in(searched, path, &is));
    if (is)
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "%s: this result would lie among the inputs, and the next run would filter it again: name another "
                        "folder (-o results/), or add --suffix _NAME, by which the next run recognises results",
                        path);
  }
  return GCONV_OK;
}

gconv_status gconv_outputs_check_among(const gconv_inputs *inputs, const gconv_outputs *outputs) {
  GCONV_ENDED_BY(gconv_texts_free) gconv_texts searched = {0};
  for (size_t i = 0; i < inputs->folders.count; i++)
    GCONV_TRY(gconv_texts_append(&searched, gconv_path_canonical(inputs->folders.items[i])));
  gconv_texts_sort(&searched);
  return refuse_among(inputs, outputs, &searched);
}

/* The files that an earlier run made: those at the paths of results. */
struct earlier {
  gconv_identity *known; /* the identities of the files, sorted */
  size_t count;
  size_t *dropped;
};

static bool is_no_result(const gconv_input *input, size_t i, void *user) {
  const struct earlier *earlier = user;
  gconv_identity key;
  bool result = input->found && gconv_path_identify(input->path, &key) &&
                bsearch(&key, earlier->known, earlier->count, sizeof *earlier->known, gconv_identity_compare);
  *earlier->dropped += result;
  return !result;
}

gconv_status gconv_outputs_drop_earlier(gconv_inputs *inputs, gconv_outputs *outputs) {
  GCONV_FREED gconv_identity *known = calloc(outputs->paths.count, sizeof *known);
  struct earlier earlier = {.known = known, .dropped = &outputs->earlier};
  GCONV_NEED_MEMORY(known, "out of memory");
  for (size_t i = 0; i < outputs->paths.count; i++)
    earlier.count += gconv_path_identify(outputs->paths.items[i], &known[earlier.count]);
  qsort(known, earlier.count, sizeof *known, gconv_identity_compare);
  gconv_outputs_keep(inputs, outputs, is_no_result, &earlier);
  return GCONV_OK;
}

/* ---- Files that are no results --------------------------------------------------------------------------------------- */

/* Lists the folders in which inputs were found: canonical names, sorted. */
static gconv_status find_folders(const gconv_inputs *inputs, gconv_texts *folders) {
  const char *last = "";
  for (size_t i = 0; i < inputs->count; i++) {
    const char *file = inputs->items[i].file;
    size_t length = (size_t)(gconv_path_name(file) - file);
    if (!inputs->items[i].found || (last[0] && strncmp(last, file, length) == 0 && gconv_path_name(last) == last + length))
      continue; /* it lies in the folder of the input before */
    GCONV_FREED char *own = gconv_path_folder(file);
    GCONV_TRY(gconv_texts_append(folders, own ? gconv_path_canonical(own) : NULL));
    last = file;
  }
  gconv_texts_sort(folders);
  return GCONV_OK;
}

/* Refuses a result that would replace the file at `path`, unless a mark or a manifest says that the file is a result. Opens
 * *manifest at the first need. */
static gconv_status check_file(const gconv_outputs *outputs, const char *path, gconv_manifest **manifest) {
  const gconv_shard all = {0};
  if (outputs->keeps || !gconv_output_exists(path) || gconv_is_marked(path))
    return GCONV_OK;
  if (!*manifest)
    GCONV_TRY(gconv_manifest_open_all(outputs, &all, 0, NULL, manifest));
  if (gconv_manifest_knows(*manifest, path))
    return GCONV_OK;
  return gconv_fail(
      GCONV_BAD_ARGUMENT,
      "%s: a result would replace this file among the inputs, which gconv did not make, or which has changed since: "
      "name another folder (-o results/) or --suffix, move the file, or keep it with --skip-existing",
      path);
}

static gconv_status check_own(const gconv_texts *folders, gconv_outputs *outputs, gconv_manifest **manifest) {
  for (size_t i = 0; i < outputs->paths.count && folders->count > 0; i++) {
    bool is;
    GCONV_TRY(lies_in(folders, outputs->paths.items[i], &is));
    outputs->among |= is;
    if (is)
      GCONV_TRY(check_file(outputs, outputs->paths.items[i], manifest));
  }
  return GCONV_OK;
}

gconv_status gconv_outputs_check_own(const gconv_inputs *inputs, gconv_outputs *outputs) {
  GCONV_ENDED_BY(gconv_texts_free) gconv_texts folders = {0};
  gconv_manifest *manifest = NULL;
  if (!outputs->make_folders)
    return GCONV_OK;
  GCONV_TRY(find_folders(inputs, &folders));
  gconv_status status = check_own(&folders, outputs, &manifest);
  gconv_manifest_close(manifest);
  return status;
}

/* ---- Results that replace their inputs -------------------------------------------------------------------------------- */

/* Returns whether the file is compressed by gzip. */
static bool is_packed(const char *path) {
  uint8_t bytes[2] = {0};
  FILE *file = fopen(path, "rb");
  size_t got = file ? fread(bytes, 1, sizeof bytes, file) : 0;
  if (file)
    fclose(file);
  return got == sizeof bytes && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

/* Refuses an input whose results cannot be a file of the same kind. */
static gconv_status check_in_place(const gconv_input *input, size_t results) {
  const gconv_format_info *format = NULL;
  GCONV_ENDED_BY(gconv_image_free) gconv_image header = {0};
  if (!gconv_path_is_file(input->file) || strcmp(input->path, input->file) != 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: --in-place is for files: this result needs a name, -o", input->path);
  if (results > 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %zu results cannot replace one file: name a folder, -o results/", input->path,
                      results);
  if (gconv_image_read_header(input->path, &header, &format) != GCONV_OK)
    return GCONV_OK; /* reading it says why */
  if (!format->writes || is_packed(input->path))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %s is read, but not written: name another file or folder with -o",
                      input->path, format->writes ? "what gzip compressed" : format->name);
  return GCONV_OK;
}

gconv_status gconv_outputs_check_in_place(const gconv_inputs *inputs, const gconv_outputs *outputs) {
  for (size_t i = 0; i < inputs->count; i++)
    GCONV_TRY(check_in_place(&inputs->items[i], outputs->first[i + 1] - outputs->first[i]));
  return GCONV_OK;
}

/* ---- Abilities of the file system of the results ---------------------------------------------------------------------- */

/* Makes an empty file ".gconv-probe-XXXXXX" in the folder of the results, and removes it. Finds out whether the name in
 * capitals is the same file, and whether the file takes extended attributes. */
static gconv_status probe(const gconv_outputs *outputs, bool *ignores_case, bool *takes_marks) {
  static const char name[] = ".gconv-probe-XXXXXX", capitals[] = ".GCONV-PROBE";
  GCONV_FREED char *path = gconv_format_text("%s%s", outputs->folder, name);
  GCONV_NEED_MEMORY(path, "out of memory");
  int file = mkstemp(path);
  GCONV_FREED char *other = file >= 0 ? strdup(path) : NULL;
  if (other)
    memcpy(other + strlen(outputs->folder), capitals, strlen(capitals));
  *ignores_case = other && access(other, F_OK) == 0;
  *takes_marks = file >= 0 && gconv_takes_marks(file);
  if (file >= 0) {
    close(file);
    unlink(path);
  }
  return GCONV_OK;
}

gconv_status gconv_outputs_probe(const gconv_outputs *outputs, bool *takes_marks) {
  bool ignores_case = false;
  *takes_marks = false;
  if (!outputs->alike && !outputs->among)
    return GCONV_OK;
  GCONV_TRY(gconv_make_folders(outputs->folder, 0777));
  GCONV_TRY(probe(outputs, &ignores_case, takes_marks));
  if (!outputs->alike || !ignores_case)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s: this file system ignores upper and lower case, and some names of results differ in nothing else: "
                    "tell them apart with {index}, such as '%s{stem}_{index}.png', or write elsewhere",
                    outputs->folder[0] ? outputs->folder : ".", outputs->folder);
}
