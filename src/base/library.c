/* SPDX-License-Identifier: MIT */
#include "base/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *open_first(gconv_library *library) {
  for (const char *const *file = library->files; *file; file++) {
    void *handle = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
    if (handle) {
      library->trouble[0] = '\0';
      return handle;
    }
    /* If a library exists, but another library that it needs does not, the message begins with the missing library's
     * name. */
    const char *said = dlerror();
    bool absent = !said || (strncmp(said, *file, strlen(*file)) == 0 && strstr(said, "No such file"));
    if (!absent && library->trouble[0] == '\0')
      snprintf(library->trouble, sizeof library->trouble, "%s", said);
  }
  if (library->trouble[0] == '\0')
    snprintf(library->trouble, sizeof library->trouble, "%s was not found", library->files[0]);
  return NULL;
}

static void load(gconv_library *library) {
  void *handle = open_first(library);
  for (const gconv_symbol *symbol = library->symbols; handle && symbol->name; symbol++) {
    void *address = dlsym(handle, symbol->name);
    if (!address) {
      snprintf(library->trouble, sizeof library->trouble, "%s has no %s: it is of another version", library->files[0],
               symbol->name);
      return;
    }
    memcpy(symbol->address, &address, sizeof address);
  }
}

const char *gconv_library_load(gconv_library *library) {
  pthread_mutex_lock(&lock);
  if (!library->tried)
    load(library);
  library->tried = 1;
  pthread_mutex_unlock(&lock);
  return library->trouble[0] ? library->trouble : NULL;
}
