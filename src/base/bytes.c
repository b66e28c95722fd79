/* SPDX-License-Identifier: MIT */
/* Reads inputs from the bytes of a caller, and writes outputs to a caller: in memory, or through a function. */
#include "base/bytes.h"
#include "base/arguments.h"
#include "base/memory.h"

#include <string.h>

const char *gconv_bytes_name(const char *name) {
  return name ? name : "the picture in memory";
}

/* ---- Inputs ---- */

/* Gets bytes from the caller's function read(). */
static gconv_status fill_by_caller(void *state, void *bytes, size_t size, size_t *got) {
  const gconv_bytes_in *from = state;
  int64_t count = from->read(from->user, bytes, size);
  if (count < 0)
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot read: the caller's function read() failed", gconv_bytes_name(from->name));
  if ((uint64_t)count > size)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the caller's function read() returned %lld, but was asked for %zu bytes",
                      gconv_bytes_name(from->name), (long long)count, size);
  *got = (size_t)count;
  return GCONV_OK;
}

/* The casts drop `const`: a source never writes to its bytes. */
gconv_status gconv_source_open_bytes(const gconv_bytes_in *from, gconv_source *source) {
  const char *name = gconv_bytes_name(from->name);
  *source = (gconv_source){.file = -1};
  GCONV_NEED_KNOWN(from);
  if (!from->data && !from->read)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: both from->data and from->read are NULL", name);
  if (from->data)
    gconv_source_of_bytes(name, (uint8_t *)(uintptr_t)from->data, from->size, source);
  else
    GCONV_TRY(gconv_source_of_function(name, fill_by_caller, NULL, (void *)(uintptr_t)from, source));
  source->member = from->member;
  return GCONV_OK;
}

/* ---- Outputs ---- */

/* Makes out->data large enough for `size` bytes. Its contents stay. */
static gconv_status make_room(gconv_bytes_out *out, uint64_t size) {
  if (size <= out->room)
    return GCONV_OK;
  size_t room = size < SIZE_MAX ? gconv_room((size_t)size) : SIZE_MAX;
  void *larger = room < PTRDIFF_MAX ? realloc(out->data, room) : NULL;
  GCONV_NEED_MEMORY(larger, "%s: no memory for its %llu bytes", gconv_bytes_name(out->name), (unsigned long long)size);
  out->data = larger;
  out->room = room;
  return GCONV_OK;
}

gconv_status gconv_bytes_put(gconv_bytes_out *out, uint64_t position, const void *bytes, size_t size) {
  if (size == 0)
    return GCONV_OK;
  if (out->write && !out->write(out->user, bytes, size))
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot write: the caller's function write() failed", gconv_bytes_name(out->name));
  if (!out->write) {
    GCONV_TRY(make_room(out, position > UINT64_MAX - size ? UINT64_MAX : position + size));
    if (position > out->size)
      memset((uint8_t *)out->data + out->size, 0, (size_t)position - out->size);
    memcpy((uint8_t *)out->data + position, bytes, size);
  }
  if (position + size > out->size)
    out->size = (size_t)(position + size);
  return GCONV_OK;
}

gconv_status gconv_bytes_get(const gconv_bytes_out *out, uint64_t position, void *bytes, size_t size) {
  if (position > out->size || size > out->size - position)
    return gconv_fail(GCONV_IO_ERROR, "%s: cannot read back what was written: it is shorter", gconv_bytes_name(out->name));
  memcpy(bytes, (const uint8_t *)out->data + position, size);
  return GCONV_OK;
}

gconv_status gconv_bytes_reserve(gconv_bytes_out *out, uint64_t size) {
  return out->write ? GCONV_OK : make_room(out, size);
}
