/* SPDX-License-Identifier: MIT */
/* Checks the named results before the work begins: whether they can be written, and replace no file that must stay. */
#include "base/folders.h"
#include "base/memory.h"
#include "names/outputs.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The folder of the results ---------------------------------------------------------------------------------------- */

/* Returns the canonical name of the folder in which all results must lie. On the heap; NULL without memory. */
static char *root_of(const gconv_outputs *outputs) {
  return gconv_path_canonical(outputs->folder[0] ? outputs->folder : ".");
}

static bool lies_in(const char *root, const char *path) {
  size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
  return strncmp(path, root, length) == 0 && path[length] == '/';
}

static gconv_status check_length(const char *path) {
  size_t length = strlen(path);
  if (length < PATH_MAX)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%.60s...: the path of this result has %zu bytes, and the system takes %d at most: choose a shorter "
                    "one, or go to a folder nearer to it (cd)",
                    path, length, PATH_MAX - 1);
}

static bool has_parent(const char *path) {
  for (const char *at = path; (at = strstr(at, "..")); at++)
    if ((at == path || at[-1] == '/') && (at[2] == '/' || at[2] == '\0'))
      return true;
  return false;
}

/* Refuses a result outside of `root`, the folder of -o. The value of a field may lead out of the folder (a filter or an
 * image may be called ".."), and so may a link. `real`: the canonical path of the result. */
static gconv_status check_place(const gconv_outputs *outputs, const char *root, const char *path, const char *real) {
  if (!outputs->make_folders || lies_in(root, real)) /* without make_folders, -o names the file itself */
    return GCONV_OK;
  const char *remedy = has_parent(path) ? "a \"..\" leads out of it: put {index} in place of a name that is \"..\", or "
                                          "name the folder of the results"
                                        : "a link leads out of it: remove the link, or name its target";
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: this result would be %s, which is not in %s, the folder of the results: %s",
                    path, real, root, remedy);
}

gconv_status gconv_outputs_prepare(const gconv_outputs *outputs, const char *path) {
  if (!outputs->make_folders)
    return GCONV_OK;
  GCONV_TRY(check_length(path));
  GCONV_FREED char *root = root_of(outputs), *real = gconv_path_canonical(path);
  GCONV_TRY(root && real ? check_place(outputs, root, path, real) : gconv_no_memory());
  return gconv_make_folders(path, 0777);
}

/* ---- Several results with one path --------------------------------------------------------------------------------- */

/* Returns the path of the input that result `index` belongs to. */
static const char *input_of(const gconv_inputs *inputs, const gconv_outputs *outputs, size_t index) {
  size_t i = 0;
  while (outputs->first[i + 1] <= index)
    i++;
  return inputs->items[i].path;
}

/* Returns the length of a path without its extension. */
static size_t stem_length(const char *path) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
  return dot ? (size_t)(dot - path) : strlen(path);
}

/* Writes which of the `count` fields the template lacks, "{stem}, {filter} or {index}", and an example with the last one. */
static void advise(const char *template, size_t count, const char *const *names, char *text, size_t size) {
  const char *lacking[4];
  size_t lacks = 0, used, stem = stem_length(template);
  for (size_t i = 0; i < count; i++)
    if (!strstr(template, names[i]))
      lacking[lacks++] = names[i];
  snprintf(text, size, lacks ? "tell them apart with " : "choose another name");
  for (size_t i = 0; i < lacks; i++) {
    used = strlen(text);
    snprintf(text + used, size - used, "%s%s", lacking[i], i + 1 == lacks ? "" : i + 2 == lacks ? " or " : ", ");
  }
  used = strlen(text);
  if (lacks > 0)
    snprintf(text + used, size - used, ", such as '%.*s_%s%s'", (int)stem, template, lacking[lacks - 1], template + stem);
}

static bool differ_by_extension(const char *a, const char *b) {
  size_t length = stem_length(a);
  return length == stem_length(b) && strncmp(a, b, length) == 0 && strcmp(a, b) != 0;
}

static gconv_status complain_collision(const gconv_inputs *inputs, const gconv_outputs *outputs, size_t a, size_t b) {
  const char *first = input_of(inputs, outputs, a), *second = input_of(inputs, outputs, b), *path = outputs->paths.items[b];
  static const char *const of_one[] = {"{filter}", "{frame}", "{index}"}, *const of_two[] = {"{stem}", "{index}"};
  char advice[1024];
  if (outputs->in_place)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s and %s are one file, which would be replaced twice: name it once", first,
                      second);
  if (first == second) {
    advise(outputs->pattern, 3, of_one, advice, sizeof advice);
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: several results of %s would land on this file: %s", path, first, advice);
  }
  bool similar = differ_by_extension(first, second);
  advise(outputs->pattern, similar ? 1 : 2, similar ? of_two + 1 : of_two, advice, sizeof advice);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the results of %s and of %s%s would both land on this file: %s", path, first,
                    second, similar ? ", which differ by their extension only," : "", advice);
}

static int compare_cases(const void *a, const void *b) {
  return strcasecmp(((const gconv_key *)a)->text, ((const gconv_key *)b)->text);
}

/* Refuses results outside the folder of -o, and two results at one place. Sorts the targets. */
static gconv_status check_targets(const gconv_inputs *inputs, gconv_outputs *outputs, gconv_key *targets) {
  size_t count = outputs->paths.count;
  GCONV_FREED char *root = root_of(outputs);
  GCONV_NEED_MEMORY(root, "out of memory");
  for (size_t i = 0; i < count; i++)
    GCONV_TRY(check_place(outputs, root, outputs->paths.items[i], targets[i].text));
  gconv_keys_sort(targets, count);
  for (size_t i = 1; i < count; i++)
    if (strcmp(targets[i - 1].text, targets[i].text) == 0)
      return complain_collision(inputs, outputs, targets[i - 1].number, targets[i].number);
  qsort(targets, count, sizeof *targets, compare_cases);
  for (size_t i = 1; i < count; i++)
    outputs->alike |= compare_cases(&targets[i - 1], &targets[i]) == 0;
  return GCONV_OK;
}

static gconv_status check_places(const gconv_inputs *inputs, gconv_outputs *outputs) {
  size_t count = outputs->paths.count;
  gconv_key *targets = calloc(count, sizeof *targets);
  bool complete = targets != NULL;
  for (size_t i = 0; complete && i < count; i++) {
    targets[i] = (gconv_key){gconv_path_canonical(outputs->paths.items[i]), i};
    complete = targets[i].text != NULL;
  }
  gconv_status status = complete ? check_targets(inputs, outputs, targets) : gconv_no_memory();
  gconv_keys_free(targets, count);
  return status;
}

/* ---- Results that would replace inputs or filters ------------------------------------------------------------------ */

/* Sorts the known files, and refuses outputs that would replace one of them. `what`: a word for the files in the error. */
static gconv_status refuse_known(gconv_identity *known, size_t count, const char *what, const gconv_outputs *outputs) {
  gconv_identity key;
  qsort(known, count, sizeof *known, gconv_identity_compare);
  for (size_t i = 0; i < outputs->paths.count; i++) {
    const char *path = outputs->paths.items[i];
    if (gconv_path_identify(path, &key) && bsearch(&key, known, count, sizeof *known, gconv_identity_compare))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s: this output is one of the %s: choose another name%s", path, what,
                        outputs->make_folders ? ", such as by --suffix _NAME" : "");
  }
  return GCONV_OK;
}

static gconv_status check_inputs(const gconv_inputs *inputs, const gconv_outputs *outputs) {
  GCONV_FREED gconv_identity *known = calloc(inputs->count, sizeof *known);
  size_t count = 0;
  GCONV_NEED_MEMORY(known, "out of memory");
  for (size_t i = 0; i < inputs->count; i++)
    count += gconv_path_identify(inputs->items[i].file, &known[count]);
  return refuse_known(known, count, "inputs", outputs);
}

/* ---- Filters ------------------------------------------------------------------------------------------------------- */

/* Finds the identity of the file in PATH:NAME. */
static bool identify_bank(const char *spec, gconv_identity *identity) {
  bool found = false;
  GCONV_FREED char *path = strdup(spec);
  for (char *colon = path ? strchr(path, ':') : NULL; colon && !found; colon = strchr(colon + 1, ':')) {
    *colon = '\0';
    found = gconv_path_identify(path, identity);
    *colon = ':';
  }
  return found;
}

static gconv_status check_filters(const gconv_texts *filters, bool banks, const gconv_outputs *outputs) {
  GCONV_TRY(gconv_check_texts(filters, "filters"));
  GCONV_TRY(gconv_check_texts(&outputs->paths, "the outputs"));
  GCONV_FREED gconv_identity *known = calloc(filters->count + 1, sizeof *known);
  size_t count = 0;
  GCONV_NEED_MEMORY(known, "out of memory");
  for (size_t i = 0; i < filters->count; i++)
    count +=
        gconv_path_identify(filters->items[i], &known[count]) || (banks && identify_bank(filters->items[i], &known[count]));
  return refuse_known(known, count, "files of filters", outputs);
}

gconv_status gconv_outputs_check_filters(const gconv_texts *filters, bool banks, const gconv_outputs *outputs,
                                         gconv_message *message) {
  GCONV_NEED_TOLD(message, filters, outputs);
  return gconv_tell(check_filters(filters, banks, outputs), message);
}

/* ---- Folders ------------------------------------------------------------------------------------------------------- */

/* Returns the nearest folder around `folder` that exists. On the heap; NULL without memory. */
static char *nearest_folder(const char *folder) {
  struct stat status;
  char *nearest = strdup(folder);
  while (nearest && stat(nearest, &status) != 0 && errno == ENOENT) {
    char *around = gconv_path_folder(nearest);
    free(nearest);
    nearest = around;
  }
  return nearest;
}

/* Checks that files can be made in a folder that exists. */
static gconv_status check_there(const char *folder, const char *path) {
  struct stat status;
  if (stat(folder, &status) != 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: cannot be written: %s: %s", path, folder, strerror(errno));
  if (!S_ISDIR(status.st_mode))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: cannot be written: %s is not a folder", path, folder);
  if (access(folder, W_OK | X_OK) != 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: cannot be written: the folder %s: %s", path, folder, strerror(errno));
  return GCONV_OK;
}

/* Checks that files can be made in `folder`. If it is missing, and `make` is set, checks the nearest folder around it. */
static gconv_status check_folder(const char *folder, bool make, const char *path) {
  struct stat status;
  if (stat(folder, &status) == 0 || errno != ENOENT)
    return check_there(folder, path);
  if (!make)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: cannot be written: there is no folder %s: make it first", path, folder);
  GCONV_FREED char *nearest = nearest_folder(folder);
  return nearest ? check_there(nearest, path) : gconv_no_memory();
}

/* Checks the place of one result. *folder: the folder that was checked last, which is not checked again. */
static gconv_status check_path(const char *path, bool make, char **folder) {
  struct stat status;
  if (stat(path, &status) == 0) {
    if (S_ISDIR(status.st_mode))
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s: cannot be written: there is a folder of that name", path);
    if (!S_ISREG(status.st_mode)) /* a pipe or a device, which is written without a temporary file in its folder */
      return GCONV_OK;
  }
  char *own = gconv_path_folder(path);
  GCONV_NEED_MEMORY(own, "out of memory");
  bool checked = *folder && strcmp(*folder, own) == 0;
  free(*folder);
  *folder = own;
  return checked ? GCONV_OK : check_folder(own, make, path);
}

static gconv_status check_folders(const gconv_outputs *outputs) {
  GCONV_FREED char *folder = NULL;
  for (size_t i = 0; i < outputs->paths.count; i++)
    GCONV_TRY(check_path(outputs->paths.items[i], outputs->make_folders, &folder));
  return GCONV_OK;
}

static bool does_fit(const gconv_input *input, size_t i, void *user) {
  const bool *fits = user;
  return fits[i];
}

/* Drops inputs whose results have too long a path, and notes each in inputs->missed. Fails if no input is left. */
static gconv_status drop_long(gconv_inputs *inputs, gconv_outputs *outputs, bool array) {
  size_t fitting = 0;
  if (array)
    return check_length(outputs->paths.items[0]);
  GCONV_FREED bool *fits = calloc(inputs->count + 1, sizeof *fits);
  GCONV_NEED_MEMORY(fits, "out of memory");
  for (size_t i = 0; i < inputs->count; i++) {
    gconv_status status = GCONV_OK;
    for (size_t n = outputs->first[i]; n < outputs->first[i + 1] && status == GCONV_OK; n++)
      status = check_length(outputs->paths.items[n]);
    fitting += fits[i] = status == GCONV_OK;
    if (status != GCONV_OK)
      GCONV_TRY(gconv_texts_append(&inputs->missed, strdup(gconv_last_error())));
  }
  if (fitting == 0 && inputs->count > 0)
    return check_length(outputs->paths.items[0]);
  if (fitting < inputs->count)
    gconv_outputs_keep(inputs, outputs, does_fit, fits);
  return GCONV_OK;
}

static gconv_status check_all(gconv_inputs *inputs, gconv_outputs *outputs) {
  GCONV_TRY(gconv_check_inputs(inputs));
  bool array = inputs->count > 1 && outputs->paths.count == 1; /* all results go into one array */
  GCONV_TRY(gconv_check_outputs(outputs, array ? NULL : inputs));
  if (!outputs->first || !outputs->pattern || !outputs->folder)
    return gconv_fail(GCONV_BAD_ARGUMENT, "outputs: %s is NULL", outputs->first ? "pattern" : "first");
  if (outputs->paths.count == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "outputs: there are none to check");
  if (outputs->in_place)
    GCONV_TRY(gconv_outputs_check_in_place(inputs, outputs));
  if (strcmp(outputs->paths.items[0], "-") == 0) /* then it is the only result */
    return GCONV_OK;
  GCONV_TRY(drop_long(inputs, outputs, array));
  if (outputs->suffix) {
    GCONV_TRY(gconv_outputs_check_own(inputs, outputs));
    GCONV_TRY(gconv_outputs_drop_earlier(inputs, outputs));
  }
  if (!outputs->in_place)
    GCONV_TRY(check_inputs(inputs, outputs));
  if (!outputs->suffix && !outputs->in_place) {
    GCONV_TRY(gconv_outputs_check_among(inputs, outputs));
    GCONV_TRY(gconv_outputs_check_own(inputs, outputs));
  }
  GCONV_TRY(check_places(inputs, outputs));
  return check_folders(outputs);
}

gconv_status gconv_outputs_check(gconv_inputs *inputs, gconv_outputs *outputs, gconv_message *message) {
  GCONV_NEED_TOLD(message, inputs, outputs);
  return gconv_tell(check_all(inputs, outputs), message);
}
