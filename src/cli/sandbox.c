/* SPDX-License-Identifier: MIT */
#include "cli/sandbox.h"
#include "base/cache.h"
#include "base/file.h"
#include "base/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Landlock ------------------------------------------------------------------------------------------------------- */

/* The parts of <linux/landlock.h> that this file needs. That header may be missing, or older than the kernel. */

/* Rights, as bits. Rights to read, to execute and to control devices are never given up. */
#define RIGHT(bit) (UINT64_C(1) << (bit))
#define WRITE_FILE RIGHT(1)
#define REMOVE_DIR RIGHT(4)
#define REMOVE_AND_MAKE (RIGHT(13) - RIGHT(4)) /* folders and files of all kinds */
#define REFER RIGHT(13)                        /* move files between folders; since version 2 */
#define TRUNCATE RIGHT(14)                     /* since version 3 */
#define OF_FILES (WRITE_FILE | TRUNCATE)       /* rights to something that is no folder */

enum { WANT_VERSION = 1, BENEATH_PATH = 1 };

struct beneath_path {
  uint64_t rights;
  int32_t place;
} __attribute__((packed));

#ifndef SYS_landlock_create_ruleset /* all architectures but Alpha have these numbers */
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

/* Returns the rights that the kernel can take away; 0 without Landlock, and for version 1 of it, which forbids moves. */
static uint64_t find_rights(void) {
  long version = syscall(SYS_landlock_create_ruleset, NULL, 0, WANT_VERSION);
  uint64_t rights = WRITE_FILE | REMOVE_AND_MAKE | REFER;
  return version < 2 ? 0 : version < 3 ? rights : rights | TRUNCATE;
}

/* ---- Where files may be changed --------------------------------------------------------------------------------------- */

typedef struct sandbox {
  uint64_t rights;
  int rules;
  bool broken; /* a rule could not be added: no sandbox is better than one in which the command cannot work */
} sandbox;

static bool permitted;

void gconv_sandbox_permit(void) {
  permitted = true;
}

/* Returns false if there is nothing to do. */
static bool begin(const gconv_common *common, sandbox *box) {
  *box = (sandbox){.rights = permitted && !common->no_sandbox ? find_rights() : 0, .rules = -1};
  if (box->rights)
    box->rules = (int)syscall(SYS_landlock_create_ruleset, &box->rights, sizeof box->rights, 0);
  return box->rules >= 0;
}

/* Keeps the rights to `path`, a folder with its content, or a file, if it exists. NULL: there was no memory for the path. */
static void allow(sandbox *box, const char *path, uint64_t rights) {
  struct stat status;
  int place = path ? open(path, O_PATH | O_CLOEXEC) : -1;
  if (place < 0) {
    box->broken |= !path || errno != ENOENT;
    return;
  }
  if (fstat(place, &status) == 0 && !S_ISDIR(status.st_mode))
    rights &= OF_FILES;
  const struct beneath_path rule = {rights & box->rights, place};
  if (syscall(SYS_landlock_add_rule, box->rules, BENEATH_PATH, &rule, 0) != 0 && errno != EBADFD) /* pipes need no rule */
    box->broken = true;
  close(place);
}

static void enforce(sandbox *box) {
  if (!box->broken && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
    (void)syscall(SYS_landlock_restrict_self, box->rules, 0);
  close(box->rules);
}

static void allow_folder_of(sandbox *box, const char *path) {
  char *folder = gconv_path_folder(path);
  allow(box, folder, ~UINT64_C(0));
  free(folder);
}

/* True if a result at `path` is written into the existing file, rather than beside it. */
static bool is_written_into(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

/* Keeps the rights to the folder of a link's target, or to a device or pipe, which rights to a folder do not cover. */
static void allow_special(sandbox *box, const char *path) {
  struct stat status;
  if (lstat(path, &status) != 0 || S_ISREG(status.st_mode))
    return;
  char *target = S_ISLNK(status.st_mode) ? realpath(path, NULL) : NULL;
  if (is_written_into(path))
    allow(box, path, ~UINT64_C(0));
  else if (target)
    allow_folder_of(box, target);
  free(target);
}

/* ---- GPUs ----------------------------------------------------------------------------------------------------------- */

/* Keeps the rights to a cache in `folder`/`below`; `folder` NULL: does nothing. If there is a GPU, makes the cache. */
static void allow_cache(sandbox *box, const char *folder, const char *below) {
  bool used = access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
  char *path = NULL;
  if (!folder || !folder[0] || asprintf(&path, "%s%s/", folder, below) < 0)
    return;
  if (used)
    gconv_make_folders(path, 0700);
  allow(box, path, ~UINT64_C(0));
  free(path);
}

/* For commands that may use a GPU: keeps the rights to write where CUDA does (devices, pipes to its services, kernels that
 * it compiled), and to write gconv's own measurements. */
static void allow_gpus(sandbox *box, const gconv_common *common) {
  static const char *const places[] = {"/dev", "/proc", "/tmp"};
  static const char *const variables[] = {"TMPDIR", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"};
  const char *cache = getenv("CUDA_CACHE_PATH");
  const char *device = common->device;
  if (!device || strcmp(device, "cpu") == 0 || !gconv_has_gpu_algorithms())
    return;
  char *own = gconv_cache_path("");
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    allow(box, places[i], ~UINT64_C(0));
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    if (getenv(variables[i]))
      allow(box, getenv(variables[i]), ~UINT64_C(0));
  allow_cache(box, cache ? cache : getenv("HOME"), cache ? "" : "/.nv");
  allow_cache(box, own, "");
  free(own);
}

/* ---- Files ---------------------------------------------------------------------------------------------------------- */

/* Removes what killed runs left of these files; does nothing without memory. */
static void remove_leftovers(const char *const *paths, size_t count) {
  enum { MOST_ENTRIES = 10000 }; /* of a folder: searching a larger one takes too long for a few files */
  size_t removed, used = 0;
  char **files = calloc(count + 1, sizeof *files);
  for (size_t i = 0; files && i < count; i++)
    if (paths[i] && strcmp(paths[i], "-") != 0)
      files[used++] = (char *)paths[i];
  if (used > 0)
    (void)gconv_remove_leftovers(files, used, MOST_ENTRIES, &removed);
  free(files);
}

void gconv_sandbox_files(const gconv_common *common, const char *const *paths, size_t count, bool temporary) {
  sandbox box;
  remove_leftovers(paths, count);
  if (!begin(common, &box))
    return;
  for (size_t i = 0; i < count; i++) {
    if (!paths[i] || strcmp(paths[i], "-") == 0)
      continue;
    allow_special(&box, paths[i]);
    if (!is_written_into(paths[i]))
      allow_folder_of(&box, paths[i]);
  }
  if (temporary)
    allow(&box, gconv_temporary_folder(), ~UINT64_C(0));
  allow_gpus(&box, common);
  enforce(&box);
}

void gconv_sandbox_file(const gconv_common *common, const char *path) {
  gconv_sandbox_files(common, &path, 1, false);
}

/* ---- Folders that are made first -------------------------------------------------------------------------------------- */

static char *made;             /* a folder that was made, with its parent folders */
static size_t existing_length; /* of the beginning of its path that existed before */
static int held = -1;          /* the folder of the results, locked so that no other gconv removes it */

/* Makes a folder and its parents where missing, for gconv_sandbox_tidy() to remove. If this fails, opening results fails. */
static void make_missing(sandbox *box, const char *path) {
  char *around = strdup(path), *inside = NULL, *slash;
  if (around && asprintf(&inside, "%s/", path) > 0 && !made) {
    while ((slash = strrchr(around, '/')) && access(around, F_OK) != 0)
      *slash = '\0';
    bool is_there = access(around, F_OK) == 0;
    existing_length = is_there ? strlen(around) : 0;
    made = strdup(path);
    allow(box, is_there ? around : path[0] == '/' ? "/" : ".", REMOVE_DIR);
  }
  if (inside)
    gconv_make_folders(inside, 0777);
  free(inside);
  free(around);
}

/* Makes the folder of the results if it is missing, and locks it: if another gconv made it, that one may be removing it. */
static void hold_results(sandbox *box, const char *path) {
  enum { MOST_TRIES = 100 };
  struct stat status;
  for (int i = 0; i < MOST_TRIES; i++) {
    if (access(path, F_OK) != 0)
      make_missing(box, path);
    held = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (held < 0 || flock(held, LOCK_SH) != 0 || (fstat(held, &status) == 0 && status.st_nlink > 0))
      return;
    close(held);
    held = -1;
  }
}

/* Removes an empty folder, unless another gconv has locked it. */
static bool remove_folder(const char *path) {
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool removed = folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0 && rmdir(path) == 0;
  if (folder >= 0)
    close(folder);
  return removed;
}

void gconv_sandbox_tidy(void) {
  if (held >= 0)
    close(held);
  held = -1;
  for (char *slash; made && strlen(made) > existing_length && remove_folder(made); *slash = '\0')
    if (!(slash = strrchr(made, '/')))
      break;
  free(made);
  made = NULL;
}

/* ---- Jobs ------------------------------------------------------------------------------------------------------------- */

void gconv_sandbox_outputs(const gconv_common *common, const gconv_outputs *outputs, bool temporary) {
  sandbox box;
  const char *pattern = outputs ? outputs->pattern : NULL;
  if (!begin(common, &box))
    return;
  bool single = pattern && outputs->paths.count == 1 && is_written_into(outputs->paths.items[0]);
  bool in_place = outputs && outputs->in_place, files = pattern && strcmp(pattern, "-") != 0 && !single && !in_place;
  char *folder = files ? gconv_path_folder(outputs->folder) : NULL;
  if (folder && outputs->make_folders)
    hold_results(&box, folder);
  if (files)
    allow(&box, folder, ~UINT64_C(0));
  if (pattern && common->report)
    allow_folder_of(&box, common->report);
  for (size_t i = 0; outputs && i < outputs->paths.count; i++) {
    if (in_place)
      allow_folder_of(&box, outputs->paths.items[i]);
    allow_special(&box, outputs->paths.items[i]);
  }
  if (temporary)
    allow(&box, gconv_temporary_folder(), ~UINT64_C(0));
  allow_gpus(&box, common);
  enforce(&box);
  free(folder);
}
