/* SPDX-License-Identifier: MIT */
/* Finding inputs in folders and by patterns: what inputs.c does for each of the names that it is given. */
#ifndef GCONV_BATCH_SEARCH_H
#define GCONV_BATCH_SEARCH_H

#include "batch/outputs.h"

#include <dirent.h>

enum { GCONV_MOST_KINDS = 8 };

/* What the functions below share. The folders of the input that is searched are inputs->folders, from `next` on those that
 * were found and not searched yet. */
typedef struct gconv_search {
  gconv_inputs *inputs;
  bool recursive;
  bool has_results; /* the folder of the results exists: it is `results`, and is not searched */
  struct stat results;
  size_t next;
  size_t above;       /* the length of what stands before `relative` in the paths that are found */
  gconv_texts links;  /* to folders, which are searched after all others */
  void *seen;         /* a tree of gconv_identity: folders of this input that were found */
  size_t unread;      /* files of formats of images that are not read ... */
  char *first_unread; /* ... and the first of them; owned */
  struct {
    char name[24]; /* ".txt", "without an extension", "pipe" */
    size_t count;
  } kinds[GCONV_MOST_KINDS]; /* of what is passed over; the last is all others */
  gconv_message *message;
} gconv_search;

/* Adds an input; `found`: it was not named by itself. */
gconv_status gconv_search_add(gconv_search *search, const char *path, const char *relative, bool found);

/* Begins an input: what is found has `above` letters before its relative path. The end frees what only this input needs. */
void gconv_search_begin(gconv_search *search, size_t above);
void gconv_search_end(gconv_search *search);

/* ---- search.c ---- */

/* Adds the images of a folder, with `recursive` of those in it, sorted by name. GCONV_BAD_ARGUMENT if it has none. */
gconv_status gconv_search_folder(gconv_search *search, const char *path, const struct stat *status);

/* Takes an entry of a folder, or, `matched`, one that a pattern matches, whatever its extension. Folders are searched by
 * those below. */
gconv_status gconv_search_entry(gconv_search *search, const char *path, bool folder, bool matched);

/* Searches the folders that were noted, and with `links` what noted links lead to, and sorts what they have. */
gconv_status gconv_search_noted(gconv_search *search, bool links);

/* Notes what could not be looked at: the run goes on without it, and is told. */
gconv_status gconv_search_miss(gconv_search *search, const char *path, int error);

/* Whether a folder is that of the results. */
bool gconv_search_has_results(const gconv_search *search, const struct stat *status);

/* The entries of a folder that are not hidden, or all, sorted; *count is 0, and it is told, if it cannot be looked into. */
gconv_status gconv_search_list(gconv_search *search, const char *path, bool hidden, struct dirent ***entries, int *count);
void gconv_search_free_list(struct dirent **entries, int count);

/* "folder/name" on the heap; just "name" if the folder is "". */
char *gconv_search_join(const char *folder, const char *name);

/* Whether --exclude leaves out an entry that was found. */
bool gconv_search_excludes(const gconv_search *search, const char *path);

/* ---- pattern.c ---- */

/* Adds the files that match, sorted; with `recursive`, folders that match are searched. */
gconv_status gconv_search_pattern(gconv_search *search, const char *pattern);

#endif
