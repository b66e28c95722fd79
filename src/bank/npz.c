/* SPDX-License-Identifier: MIT */
/* NumPy's .npz: a zip archive of arrays. npy.c reads each array as a bank. */
#include "bank/syntax.h"
#include "base/memory.h"
#include "base/zip.h"

#include <string.h>

typedef struct npz_state {
  gconv_zip zip;
  size_t *members; /* owned, [file->count]: the member of each entry */
} npz_state;

/* Opens a member, and reads the header of its array. The caller closes `source` in any case. */
static gconv_status begin_array(gconv_bank_file *file, size_t member, gconv_source *source, gconv_npy_header *header) {
  const npz_state *state = file->state;
  GCONV_TRY(gconv_zip_open_member(&file->source, &state->zip.members[member], file->path, source));
  return gconv_npy_header_read(source, header);
}

/* Adds an entry for a member. If the member cannot be read, the entry's obstacle says so. */
static gconv_status add_member(gconv_bank_file *file, size_t member) {
  npz_state *state = file->state;
  gconv_source source = {.file = -1};
  gconv_npy_header header = {0};
  gconv_bank_entry *entry;
  size_t length;
  if (!gconv_zip_is_array(&state->zip.members[member], &length))
    return GCONV_OK;
  state->members[file->count] = member;
  gconv_status status = begin_array(file, member, &source, &header);
  gconv_source_close(&source);
  if (status == GCONV_NO_MEMORY)
    return status;
  GCONV_TRY(gconv_bank_file_add(file, &entry));
  entry->kind = "array";
  if (status == GCONV_OK)
    gconv_bank_describe_npy(&header, entry);
  else
    entry->obstacle = "cannot be read: it is no array of numbers, or damaged";
  entry->name = strndup(state->zip.members[member].name, length);
  return entry->name ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its names", file->path);
}

static gconv_status open_npz(gconv_bank_file *file) {
  npz_state *state = calloc(1, sizeof *state);
  file->state = state;
  GCONV_NEED_MEMORY(state, "%s: no memory for its directory", file->path);
  GCONV_TRY(gconv_zip_read(&file->source, &state->zip));
  GCONV_NEW(state->members, state->zip.count + 1, "%s: no memory for its directory", file->path);
  for (size_t i = 0; i < state->zip.count; i++)
    GCONV_TRY(add_member(file, i));
  return GCONV_OK;
}

static gconv_status read_npz(gconv_bank_file *file, size_t index, gconv_bank *bank) {
  const npz_state *state = file->state;
  GCONV_ENDED_BY(gconv_source_close) gconv_source source = {.file = -1};
  gconv_npy_header header = {0};
  size_t member = state->members[index];
  GCONV_TRY(begin_array(file, member, &source, &header));
  uint64_t bytes = header.items * header.item_bytes, all = state->zip.members[member].size;
  if (source.position + bytes != all)
    return gconv_fail(GCONV_BAD_FILE, "%s: the header of '%s' promises %llu bytes of elements, but the archive has %llu",
                      file->path, file->entries[index].name, (unsigned long long)bytes,
                      (unsigned long long)(all - source.position));
  return gconv_bank_load_npy(&source, &header, bank);
}

static void close_npz(gconv_bank_file *file) {
  npz_state *state = file->state;
  if (!state)
    return;
  gconv_zip_free(&state->zip);
  free(state->members);
  free(state);
}

const gconv_bank_syntax gconv_bank_syntax_npz = {
    .name = "npz",
    .help = "an archive of NumPy; its arrays are read like .npy files",
    .extension = ".npz",
    .recognise = gconv_zip_sniff,
    .open = open_npz,
    .read = read_npz,
    .close = close_npz,
};
