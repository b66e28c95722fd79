/* SPDX-License-Identifier: MIT */
#include "data/store.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FIRST_BYTES = 4096, FILE_BUFFER = 1 << 20 };

static gconv_status complain(const gconv_store *store) {
  return gconv_fail(GCONV_IO_ERROR,
                    "%s: cannot keep %llu MB of numbers in a temporary file: %s; the variable TMPDIR names another folder",
                    gconv_temporary_folder(), (unsigned long long)(store->size >> 20), strerror(errno));
}

/* Writes what is in memory to the file. */
static gconv_status flush(gconv_store *store) {
  for (size_t done = 0; done < store->used;) {
    ssize_t count = write(store->file - 1, store->bytes + done, store->used - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return complain(store);
    done += (size_t)count;
  }
  store->used = 0;
  return GCONV_OK;
}

/* Makes room for `size` more bytes. */
static gconv_status make_room(gconv_store *store, size_t size) {
  size_t room = store->room ? store->room : FIRST_BYTES;
  while (room - store->used < size)
    room *= 2;
  if (room == store->room)
    return GCONV_OK;
  uint8_t *bytes = realloc(store->bytes, room);
  GCONV_NEED_MEMORY(bytes, "no memory for %zu MB of numbers", room >> 20);
  store->bytes = bytes;
  store->room = room;
  return GCONV_OK;
}

gconv_status gconv_store_append(gconv_store *store, const void *bytes, size_t size) {
  uint64_t limit = store->limit ? store->limit : GCONV_STORE_MEMORY;
  if (!store->file && store->size + size > limit) {
    store->file = gconv_open_unnamed() + 1;
    if (!store->file)
      return complain(store);
  }
  if (store->file && store->used + size > FILE_BUFFER)
    GCONV_TRY(flush(store));
  GCONV_TRY(make_room(store, size));
  if (size > 0)
    memcpy(store->bytes + store->used, bytes, size);
  store->used += size;
  store->size += size;
  return GCONV_OK;
}

gconv_status gconv_store_finish(gconv_store *store) {
  if (!store->file || store->mapped)
    return GCONV_OK;
  GCONV_TRY(flush(store));
  void *mapped = mmap(NULL, (size_t)store->size, PROT_READ, MAP_SHARED, store->file - 1, 0);
  if (mapped == MAP_FAILED)
    return complain(store);
  free(store->bytes);
  store->bytes = mapped;
  store->mapped = true;
  return GCONV_OK;
}

gconv_status gconv_store_replace(gconv_store *store, gconv_store *made) {
  GCONV_TRY(gconv_store_finish(made));
  gconv_store_free(store);
  *store = *made;
  *made = (gconv_store){0};
  return GCONV_OK;
}

void gconv_store_drop(gconv_store *store, size_t size) {
  if (size == 0) /* an empty store has no bytes to point to */
    return;
  store->bytes += size;
  store->size -= size;
  store->dropped += size;
}

uint64_t gconv_store_digest(const gconv_store *store, uint64_t hash) {
  uint32_t sum = gconv_crc32(0, store->bytes, (size_t)store->size);
  hash = gconv_fnv1a(hash, &store->size, sizeof store->size);
  return gconv_fnv1a(hash, &sum, sizeof sum);
}

void gconv_store_free(gconv_store *store) {
  uint8_t *bytes = store->dropped > 0 ? store->bytes - store->dropped : store->bytes;
  if (store->mapped)
    munmap(bytes, (size_t)store->size + store->dropped);
  else
    free(bytes);
  if (store->file)
    close(store->file - 1);
  *store = (gconv_store){0};
}
