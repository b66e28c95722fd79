/* SPDX-License-Identifier: MIT */
/* Sources and sinks of bytes that are in no file: gconv_bytes_in and gconv_bytes_out of a caller. */
#pragma once

#include "base/file.h"
#include "gconv_embed.h"

/* Returns the name of a caller's bytes, for error texts. */
const char *gconv_bytes_name(const char *name);

/* Opens the bytes of a caller, with their member. Call gconv_source_close(), on failure too. */
gconv_status gconv_source_open_bytes(const gconv_bytes_in *from, gconv_source *source);

/* Opens a sink that gives its bytes to a caller: in memory, where they can be written in any order, or through a function,
 * which gets them in order, like a pipe. gconv_sink_discard() sets out->size to 0. */
gconv_status gconv_sink_open_bytes(gconv_bytes_out *out, gconv_sink **sink);

/* ---- For sinks ---- */

/* Puts bytes at a position. Bytes before it that were never put are 0. A function gets them in the order of calls. */
gconv_status gconv_bytes_put(gconv_bytes_out *out, uint64_t position, const void *bytes, size_t size);
/* Gets back bytes that were put into memory. */
gconv_status gconv_bytes_get(const gconv_bytes_out *out, uint64_t position, void *bytes, size_t size);
/* Makes room for `size` bytes in all. */
gconv_status gconv_bytes_reserve(gconv_bytes_out *out, uint64_t size);
