/* SPDX-License-Identifier: MIT */
/* The passes over an image by rows: those that measure the whole image, one that surveys the maps, and those that make rows
 * of pictures. Maps of a survey are kept in a file, so that no pass after it computes the network again. */
#include "base/file.h"
#include "layer/network.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

size_t gconv_network_measurings(const gconv_network_plan *network) {
  const gconv_step *first = &network->steps[0];
  return network->by_rows && first->tiles ? gconv_graph_tiles_measurings(first->tiles) : 0;
}

/* A mosaic has a pass for each row of tiles, with the gap below it. */
size_t gconv_network_passes(const gconv_plan *plan) {
  const gconv_network_plan *network = (const gconv_network_plan *)plan;
  const gconv_presenter *presenter = &network->presenter;
  size_t tile_rows =
      presenter->kind == GCONV_PRESENT_MOSAIC ? (size_t)(presenter->tiles - 1) / (size_t)presenter->columns + 1 : 1;
  return network->by_rows ? gconv_network_measurings(network) + tile_rows + gconv_presenter_surveys(presenter) : 1;
}

/* ---- Kept maps ---- */

/* Returns the bytes of the maps of the whole image. */
static double all_bytes(const gconv_network_plan *network) {
  const gconv_image *maps = &network->out;
  return 4.0 * maps->frames * maps->channels * maps->width * network->presenter.height;
}

void gconv_network_forget_maps(gconv_network_plan *network) {
  if (network->kept_file > 0)
    close(network->kept_file - 1);
  network->kept_file = 0;
  network->kept_rows = 0;
}

/* Begins to keep the maps of a survey. If there is no place for them, later passes compute them again. Their place is taken
 * at once: if there is none, work_before() must know it before the survey. */
static void begin_keeping(gconv_network_plan *network) {
  static const double MOST_BYTES = 1 << 30; /* the disk must have room for them */
  const double bytes = all_bytes(network);
  gconv_network_forget_maps(network);
  if (bytes <= MOST_BYTES)
    network->kept_file = gconv_open_unnamed() + 1;
  if (network->kept_file > 0 && fallocate(network->kept_file - 1, 0, 0, (off_t)bytes) != 0 &&
      (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) /* other errors: the file system takes no place ahead */
    gconv_network_forget_maps(network);
}

/* Reads or writes `size` bytes at a place of the file. Returns false if that fails. */
static bool move(int file, bool writes, uint8_t *bytes, size_t size, off_t at) {
  while (size > 0) {
    const ssize_t count = writes ? pwrite(file, bytes, size, at) : pread(file, bytes, size, at);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    bytes += count;
    size -= (size_t)count;
    at += count;
  }
  return true;
}

/* Moves rows of network->maps to or from rows `first` .. of the planes in the file. Returns false if that fails. */
static bool move_rows(const gconv_network_plan *network, bool writes, int32_t first, int32_t rows) {
  const gconv_image *maps = &network->maps;
  const size_t row = (size_t)maps->width * sizeof(float), planes = (size_t)maps->frames * (size_t)maps->channels;
  bool good = true;
  for (size_t i = 0; i < planes; i++)
    for (size_t y = 0; y < (size_t)rows && good; y++)
      good = move(network->kept_file - 1, writes, (uint8_t *)maps->data + i * maps->plane_bytes + y * maps->row_bytes, row,
                  (off_t)((i * (size_t)network->presenter.height + (size_t)first + y) * row));
  return good;
}

void gconv_network_keep_maps(gconv_network_plan *network, int32_t first, int32_t rows) {
  if (network->kept_file == 0)
    return;
  if (first == network->kept_rows && move_rows(network, true, first, rows))
    network->kept_rows += rows;
  else
    gconv_network_forget_maps(network);
}

bool gconv_network_take_maps(gconv_network_plan *network, int32_t first, int32_t rows) {
  const int32_t left = network->presenter.height - first;
  return !network->base.pass.surveys && network->kept_rows == network->presenter.height &&
         move_rows(network, false, first, rows < left ? rows : left);
}

/* ---- Passes ---- */

/* Returns the share of the work of all passes that is done before pass `number`. Passes that measure compute a part of the
 * network. All other passes compute the whole network, but for those that take kept maps. */
static double work_before(const gconv_network_plan *network, size_t number) {
  static const double TAKING = 0.05; /* the work of a pass that takes kept maps */
  const size_t measured = gconv_network_measurings(network), whole = gconv_network_passes(&network->base) - measured;
  const size_t made = number > measured ? number - measured : 0;
  const double each = network->kept_file > 0 ? TAKING : 1, first = network->kept_file > 0 ? 1 - TAKING : 0;
  const double all = measured > 0 ? gconv_graph_tiles_work(network->steps[0].tiles, measured) : 0;
  const double before =
      measured > 0 ? gconv_graph_tiles_work(network->steps[0].tiles, number < measured ? number : measured) : 0;
  return (before + (made > 0 ? first + each * (double)made : 0)) / (all + first + each * (double)whole);
}

gconv_status gconv_network_begin_pass(gconv_plan *plan, size_t number) {
  gconv_network_plan *network = (gconv_network_plan *)plan;
  gconv_presenter *presenter = &network->presenter;
  const int32_t height = presenter->height, whole = plan->outputs[0].height;
  bool surveys = gconv_presenter_surveys(presenter);
  const size_t measured = gconv_network_measurings(network);
  network->measures = number < measured;
  if (number == measured && surveys)
    begin_keeping(network);
  plan->pass = (gconv_plan_pass){
      .end = height, .surveys = true, .before = work_before(network, number), .after = work_before(network, number + 1)};
  if (measured > 0)
    gconv_graph_tiles_begin(network->steps[0].tiles, number);
  if (network->measures)
    return GCONV_OK;
  number -= measured;
  if (surveys && number == 0)
    return gconv_presenter_begin_survey(presenter);
  if (number == (surveys ? 1 : 0))
    GCONV_TRY(gconv_presenter_end_survey(presenter));
  int32_t first = (int32_t)(number - surveys) * (height + GCONV_MOSAIC_GAP), end = first + height + GCONV_MOSAIC_GAP;
  plan->pass.first = first;
  plan->pass.end = end < whole ? end : whole;
  plan->pass.surveys = false;
  return GCONV_OK;
}
