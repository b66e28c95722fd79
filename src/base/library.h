/* SPDX-License-Identifier: MIT */
/* Shared libraries that are loaded when they are first needed: large ones that the program must run without. */
#ifndef GCONV_BASE_LIBRARY_H
#define GCONV_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A function of a library and where its address goes. */
typedef struct gconv_symbol {
  const char *name;
  void *address; /* of a pointer to a function */
} gconv_symbol;

typedef struct gconv_library {
  const char *const *files;    /* names to try, in order; ended by NULL */
  const gconv_symbol *symbols; /* ended by a name of NULL; the library must have them all */
  char trouble[256];           /* why it cannot be used; "" if it can */
  int tried;                   /* whether it was tried to load it; the caller leaves this and `trouble` 0 */
} gconv_library;

/* Loads the library, if that was not done yet, and stores the addresses of its symbols. Returns NULL, or why it cannot be
 * used. Thread-safe. The library stays loaded until the process ends. */
const char *gconv_library_load(gconv_library *library);

/* Whether that has been done, with success. Thread-safe. */
bool gconv_library_is_loaded(const gconv_library *library);

#ifdef __cplusplus
}
#endif
#endif
