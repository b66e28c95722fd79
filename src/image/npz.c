/* SPDX-License-Identifier: MIT */
/* NumPy's .npz: a zip archive of arrays, each of which is a .npy file. npy.c reads one of them. */
#include "base/zip.h"
#include "image/format.h"

typedef struct npz_state {
  gconv_zip zip;
  gconv_source content; /* content of the member */
  gconv_reader array;   /* reads `content` */
} npz_state;

static gconv_status open_npz(gconv_reader *reader) {
  GCONV_TRY(gconv_format_state(sizeof(npz_state), "an archive", &reader->state));
  npz_state *state = reader->state;
  size_t index = 0;
  state->content.file = -1;
  GCONV_TRY(gconv_zip_read(reader->source, &state->zip));
  GCONV_TRY(gconv_zip_find_array(reader->source, &state->zip, reader->member, &index));
  const gconv_zip_member *member = &state->zip.members[index];
  GCONV_TRY(gconv_zip_open_member(reader->source, member, reader->source->name, &state->content));
  state->array = (gconv_reader){.format = &gconv_format_npy, .source = &state->content, .orientation = 1};
  GCONV_TRY(gconv_format_npy.open(&state->array));
  reader->header = state->array.header;
  reader->out_of_order = state->array.out_of_order;
  size_t bytes = gconv_npy_bytes(&state->array);
  if (state->content.position + bytes == member->size) {
    gconv_zip_free(&state->zip); /* the directory of a large archive is large */
    return GCONV_OK;
  }
  return gconv_fail(GCONV_BAD_FILE, "%s: its header promises %zu bytes of elements, but the archive has %llu",
                    reader->source->name, bytes, (unsigned long long)(member->size - state->content.position));
}

static void take_planes(gconv_reader *reader, int32_t planes) {
  npz_state *state = reader->state;
  gconv_npy_take_planes(&state->array, planes);
  reader->header = state->array.header;
}

static gconv_status read_rows(gconv_reader *reader, void *rows, size_t row_bytes, int32_t count) {
  npz_state *state = reader->state;
  state->array.again = reader->again;
  return gconv_reader_rows(&state->array, rows, row_bytes, count);
}

static void close_npz(gconv_reader *reader) {
  npz_state *state = reader->state;
  if (!state)
    return;
  gconv_reader_close(&state->array);
  gconv_source_close(&state->content);
  gconv_zip_free(&state->zip);
}

const gconv_format gconv_format_npz = {
    .info = {.name = "npz",
             .extensions = "npz",
             .help = "one array of a NumPy archive, FILE.npz:NAME; only read",
             .reads = true,
             .multiframe = true,
             .tensors = true}, /* what is read; results are written as .npy */
    .members = true,
    .sniff = gconv_zip_sniff,
    .open = open_npz,
    .take_planes = take_planes,
    .read_rows = read_rows,
    .close = close_npz,
};
