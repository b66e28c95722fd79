/* SPDX-License-Identifier: MIT */
#include "base/checksum.h"
#include "base/memory.h"
#include "conv/send_cuda.h"
#include "device/cuda_error.h"

namespace {

/* ---- Rows ---- */

struct rows {
  const gconv_way *way;
  size_t row_bytes;
  const void *above; /* the samples above the next row, if the taker has not had them; else NULL */
};

void take_rows(void *user, const uint8_t *bytes, size_t size) {
  rows *r = (rows *)user;
  gconv_part part = {};
  part.count = (int32_t)(size / r->row_bytes);
  part.samples = bytes;
  part.row_bytes = r->row_bytes;
  part.above = r->above;
  r->above = NULL;
  r->way->taker->take(r->way->taker->user, r->way->output, &part);
}

const uint8_t *row_at(const gconv_image *device, int32_t row) {
  return (const uint8_t *)device->data + (size_t)row * device->row_bytes;
}

gconv_status send_some_rows(const gconv_way *way, const gconv_image *device, int32_t first, int32_t count,
                            const void *above) {
  rows r = {way, device->row_bytes, above};
  return gconv_download_bytes(way->slabs, row_at(device, first), (size_t)count * r.row_bytes, r.row_bytes, (size_t)way->step,
                              take_rows, &r, way->stream, way->waited_ms);
}

/* Sends rows of samples that lie below rows sent as finished bytes of a PNG. PNG's filters need the row above the first of
 * these rows, so it is sent, too. */
gconv_status send_rows_below(const gconv_way *way, const gconv_image *device, int32_t first, int32_t count) {
  void *above;
  const size_t bytes = gconv_dense_row_bytes(device);
  GCONV_TRY(gconv_allocate(bytes, "a row of a PNG", &above));
  cudaError_t error = cudaMemcpyAsync(above, row_at(device, first - 1), bytes, cudaMemcpyDeviceToHost, way->stream);
  if (error == cudaSuccess)
    error = cudaStreamSynchronize(way->stream);
  gconv_status status = error == cudaSuccess ? send_some_rows(way, device, first, count, above)
                                             : gconv_cuda_failure(error, "cudaMemcpyAsync", __FILE__, __LINE__);
  gconv_release(above);
  return status;
}

/* ---- PNG ---- */

/* Finished strips in a row. The taker has had their bytes up to `position`. */
struct chunks {
  const gconv_way *way;
  const gconv_png_strip *next, *end;
  size_t line;
  uint64_t position;
};

void take_chunks(void *user, const uint8_t *bytes, size_t size) {
  chunks *c = (chunks *)user;
  gconv_part part = {};
  part.bytes = bytes;
  part.size = size;
  part.adler = 1;
  c->position += size;
  for (; c->next < c->end && c->next->offset + c->next->size <= c->position; c->next++) {
    part.adler = gconv_adler32_combine(part.adler, c->next->adler, (uint64_t)c->next->rows * c->line);
    part.count += c->next->rows;
  }
  c->way->taker->take(c->way->taker->user, c->way->output, &part);
}

gconv_status send_chunks(const gconv_way *way, const uint8_t *made, const gconv_image *device, const gconv_png_strip *first,
                         const gconv_png_strip *end) {
  chunks c = {way, first, end, gconv_dense_row_bytes(device) + 1, first->offset};
  const uint64_t bytes = end[-1].offset + end[-1].size - first->offset;
  return gconv_download_bytes(way->slabs, made + first->offset, bytes, 1, 1, take_chunks, &c, way->stream, way->waited_ms);
}

} // namespace

/* ---- Whole results ---- */

gconv_status gconv_send_rows(const gconv_way *way, const gconv_image *device) {
  return send_some_rows(way, device, 0, (int32_t)gconv_all_rows(device), NULL);
}

gconv_status gconv_send_png(const gconv_way *way, const gconv_gpu_png *png, const gconv_image *device) {
  const gconv_png_strip *strip = png->strips, *end = strip + png->strip_count, *next;
  for (; strip < end; strip = next) {
    int32_t rows = 0;
    for (next = strip; next < end && (next->size > 0) == (strip->size > 0); next++)
      rows += next->rows;
    if (strip->size > 0)
      GCONV_TRY(send_chunks(way, png->chunks, device, strip, next));
    else if (strip->first_row > 0)
      GCONV_TRY(send_rows_below(way, device, strip->first_row, rows));
    else
      GCONV_TRY(send_some_rows(way, device, 0, rows, NULL));
  }
  return GCONV_OK;
}
