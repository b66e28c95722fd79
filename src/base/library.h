/* SPDX-License-Identifier: MIT */
/* Loads shared libraries when they are first needed. They are large, and the program must run without them. */
#pragma once

#include "base/both.h"

#include <stdbool.h>
#include <stddef.h>

GCONV_C_BEGIN

/* A function of a library, and where to store its address. */
typedef struct gconv_symbol {
  const char *name;
  void *address; /* the address of a pointer to a function */
} gconv_symbol;

typedef struct gconv_library {
  const char *const *files;    /* file names to try, in this order; ended by NULL */
  const gconv_symbol *symbols; /* ended by a name of NULL; the library must have all of them */
  char trouble[256];           /* why it cannot be used; "" if it can */
  int tried;                   /* whether loading was tried; the caller sets this and `trouble` to 0 */
} gconv_library;

/* Loads the library, unless that was done before, and stores the addresses of its symbols. Returns NULL, or why it cannot be
 * used. Thread-safe. The library stays loaded until the process ends. */
const char *gconv_library_load(gconv_library *library);

GCONV_C_END
