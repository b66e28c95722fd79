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
  const gconv_symbol *symbols; /* ended by a name of NULL; all must be there */
  char trouble[256];           /* why it is not there; "" if it is */
  int tried;
} gconv_library;

/* Loads the library, once, and stores its symbols. NULL, or why that cannot be. Thread-safe. The library stays loaded until
 * the process ends. */
const char *gconv_library_load(gconv_library *library);

/* Whether that has been done, with success. Thread-safe. */
bool gconv_library_is_loaded(const gconv_library *library);

#ifdef __cplusplus
}
#endif
#endif
