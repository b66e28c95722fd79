/* SPDX-License-Identifier: MIT */
/* The search for inputs in folders and by patterns. inputs.c runs it for each name that the user gave. */
#pragma once

#include "base/folders.h"
#include "names/paths.h"

#include <dirent.h>

enum { GCONV_MOST_KINDS = 8 };

/* The state of a search. inputs->folders lists all folders that were found. Those from `next` on are not yet searched. */
typedef struct gconv_search {
  gconv_inputs *inputs;
  bool recursive;
  bool has_results;    /* the folder of the results exists */
  struct stat results; /* the folder of the results, which is not searched */
  size_t next;
  bool *excluded;     /* for each pattern of inputs->exclude, whether it left something out; owned */
  size_t above;       /* bytes of each found path before its relative name */
  gconv_texts links;  /* links to folders: they are searched after all real folders */
  void *seen;         /* a tree of gconv_identity: the folders that were found for the current name of the user */
  size_t unread;      /* number of files of image formats that gconv cannot read */
  char *first_unread; /* path of the first such file; owned */
  struct {
    char name[24]; /* ".txt", "without an extension", "pipe" */
    size_t count;
  } kinds[GCONV_MOST_KINDS]; /* kinds of files that are passed over; the last row counts all further kinds */
} gconv_search;

/* ---- search.c ---- */

/* Adds an input. `found`: a folder or a pattern led to it. */
gconv_status gconv_search_add(gconv_search *search, const char *path, const char *relative, bool found);
/* Frees the texts of an input. */
void gconv_input_free(gconv_input *input);
/* Begins the search for one name of the user. Found paths will have `above` bytes before their relative name. */
void gconv_search_begin(gconv_search *search, size_t above);
/* Ends the search for one name of the user, and frees the memory for this name alone. */
void gconv_search_end(gconv_search *search);
/* Adds the images of a folder and, with `recursive`, of its sub-folders, sorted by name. GCONV_BAD_ARGUMENT without any. */
gconv_status gconv_search_folder(gconv_search *search, const char *path, const struct stat *status);
/* Takes an entry of a folder: adds an image, and notes a folder for gconv_search_noted(). `matched`: a pattern matches the
 * entry; then it may have any extension. */
gconv_status gconv_search_entry(gconv_search *search, const char *path, bool folder, bool matched);
/* Searches the folders that were noted and, with `links`, the folders to which noted links lead. Sorts the inputs found. */
gconv_status gconv_search_noted(gconv_search *search, bool links);
/* Notes in inputs->missed that a folder or file could not be read. The search goes on. */
gconv_status gconv_search_miss(gconv_search *search, const char *path, int error);
/* Returns whether a folder is the folder of the results. */
bool gconv_search_has_results(const gconv_search *search, const struct stat *status);
/* Lists the entries of a folder, sorted, with `hidden` also hidden entries. If the folder cannot be read, *entries stays
 * empty, and inputs->missed says why. */
gconv_status gconv_search_list(gconv_search *search, const char *path, bool hidden, gconv_entries *entries);
/* Returns whether --exclude leaves out an entry that was found. */
bool gconv_search_excludes(gconv_search *search, const char *path);

/* ---- pattern.c ---- */

/* Adds the files that match, sorted. With `recursive`, searches matching folders. GCONV_BAD_ARGUMENT if nothing is found. */
gconv_status gconv_search_pattern(gconv_search *search, const char *pattern);
