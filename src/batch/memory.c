/* SPDX-License-Identifier: MIT */
#include "batch/memory.h"
#include "base/memory.h"
#include "base/status.h"
#include "image/layout.h"
#include "image/metadata.h"

#include <math.h>

/* ---- Kept pixels --------------------------------------------------------------------------------------------------- */

gconv_image gconv_holding_take_input(gconv_holding *holding, const gconv_image *header) {
  gconv_image image = holding->input;
  holding->input = (gconv_image){0};
  gconv_image_reshape(&image, header);
  return image;
}

void gconv_holding_keep_input(gconv_holding *holding, gconv_image *image) {
  gconv_image_free(&holding->input);
  if (image->data)
    holding->input = *image;
  image->data = NULL;
  gconv_metadata_disown(image);
}

static void clear_results(gconv_holding *holding) {
  for (size_t k = 0; k < holding->result_count; k++)
    gconv_image_free(&holding->results[k]);
  free(holding->results);
  holding->results = NULL;
  holding->result_count = 0;
}

gconv_status gconv_holding_set_results(gconv_holding *holding, size_t count) {
  if (holding->result_count == count)
    return GCONV_OK;
  clear_results(holding);
  GCONV_NEW(holding->results, count, "out of memory");
  holding->result_count = count;
  return GCONV_OK;
}

void gconv_holding_clear(gconv_holding *holding) {
  gconv_image_free(&holding->input);
  clear_results(holding);
}

static uint64_t kept_bytes(const gconv_holding *holding) {
  uint64_t bytes = holding->input.data ? gconv_image_bytes(&holding->input) : 0;
  for (size_t k = 0; k < holding->result_count; k++)
    bytes += holding->results[k].data ? gconv_image_bytes(&holding->results[k]) : 0;
  return bytes;
}

/* ---- Taking -------------------------------------------------------------------------------------------------------- */

gconv_budget gconv_budget_begin(uint64_t bytes, double of_operation) {
  const double program = 8 << 20; /* the program with its libraries and stacks */
  uint64_t all = bytes > 0 ? bytes : gconv_memory_there() / 2, shared = (uint64_t)(program + of_operation);
  return (gconv_budget){.bytes = all > shared ? all - shared : 0,
                        .shared = shared,
                        .is_strict = bytes > 0,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .changed = PTHREAD_COND_INITIALIZER};
}

/* A worker gets more than the whole budget if all other workers wait. */
static bool is_there(const gconv_budget *budget, uint64_t bytes) {
  return budget->taken == budget->parked || (bytes <= budget->bytes && budget->taken <= budget->bytes - bytes);
}

static bool try_take(gconv_budget *budget, uint64_t bytes) {
  pthread_mutex_lock(&budget->lock);
  bool there = budget->arrived == budget->served && is_there(budget, bytes);
  if (there)
    budget->taken += bytes;
  pthread_mutex_unlock(&budget->lock);
  return there;
}

/* Takes bytes once they are free. Workers wait in the order of their calls. `parked`: bytes that this one holds meanwhile.
 */
static void wait_and_take(gconv_budget *budget, uint64_t bytes, uint64_t parked) {
  pthread_mutex_lock(&budget->lock);
  uint64_t place = budget->arrived++;
  budget->parked += parked;
  pthread_cond_broadcast(&budget->changed);
  while (budget->served != place || !is_there(budget, bytes))
    pthread_cond_wait(&budget->changed, &budget->lock);
  budget->served++;
  budget->parked -= parked;
  budget->taken += bytes;
  pthread_cond_broadcast(&budget->changed);
  pthread_mutex_unlock(&budget->lock);
}

/* Gives back all but `bytes`. */
static void keep(gconv_holding *holding, uint64_t bytes) {
  gconv_budget *budget = holding->budget;
  if (bytes >= holding->held)
    return;
  pthread_mutex_lock(&budget->lock);
  budget->taken -= holding->held - bytes;
  pthread_cond_broadcast(&budget->changed);
  pthread_mutex_unlock(&budget->lock);
  holding->held = bytes;
}

/* Before the worker waits: frees kept pixels and idle plans, and gives back all but `bytes`. */
static void make_room(gconv_holding *holding, uint64_t bytes) {
  gconv_holding_clear(holding);
  keep(holding, bytes);
  holding->spare(holding->user);
}

void gconv_holding_take(gconv_holding *holding, uint64_t bytes) {
  if (bytes <= holding->held)
    return;
  if (!try_take(holding->budget, bytes - holding->held)) {
    make_room(holding, holding->opened);
    wait_and_take(holding->budget, bytes - holding->held, holding->held);
  }
  holding->held = bytes;
}

/* ---- Open readers -------------------------------------------------------------------------------------------------- */

/* Metadata, and files that are read as a whole, stay in memory while a worker waits for more. So all readers together have
 * at most 1 / OPENED_PART of the budget, or one reader alone has more. Otherwise workers could wait for memory that other
 * waiting workers hold. */
enum { OPENED_PART = 8 };

/* Returns whether a reader may have `bytes` if other readers have `others` bytes. */
static bool may_open(const gconv_budget *budget, uint64_t others, uint64_t bytes) {
  return others == 0 || others + bytes <= budget->bytes / OPENED_PART;
}

/* Returns whether a worker may open a file now for `more` bytes. Workers that wait come first, as they hold memory. */
static bool may_begin(const gconv_holding *holding, uint64_t more) {
  const gconv_budget *budget = holding->budget;
  bool alone = budget->taken == holding->held;
  return budget->arrived == budget->served && may_open(budget, budget->opened, holding->expected) &&
         (alone || (more <= budget->bytes && budget->taken <= budget->bytes - more));
}

/* Takes the bytes that opening a file may need, if they are free; with `wait`, waits until they are. A reader that was
 * closed counts with the bytes that it had. Returns whether the bytes were taken. */
static bool try_begin(gconv_holding *holding, double bytes, bool wait) {
  gconv_budget *budget = holding->budget;
  uint64_t wanted = (uint64_t)fmin((double)kept_bytes(holding) + bytes, (double)budget->bytes);
  uint64_t more = wanted > holding->held ? wanted - holding->held : 0;
  pthread_mutex_lock(&budget->lock);
  while (wait && !may_begin(holding, more))
    pthread_cond_wait(&budget->changed, &budget->lock);
  bool may = may_begin(holding, more);
  if (may) {
    budget->taken += more;
    budget->opened += holding->expected;
    holding->held += more;
    holding->opened = holding->expected;
  }
  pthread_mutex_unlock(&budget->lock);
  return may;
}

void gconv_holding_open(gconv_holding *holding, double bytes) {
  if (!holding->budget->is_strict || bytes == 0 || try_begin(holding, bytes, false))
    return;
  make_room(holding, 0);
  try_begin(holding, bytes, true);
}

bool gconv_holding_settle(gconv_holding *holding, uint64_t bytes, bool bounded) {
  gconv_budget *budget = holding->budget;
  pthread_mutex_lock(&budget->lock);
  uint64_t others = budget->opened - holding->opened;
  bool fits = !bounded || !budget->is_strict || may_open(budget, others, bytes);
  holding->expected = fits ? 0 : bytes;
  holding->opened = fits ? bytes : 0;
  budget->opened = others + holding->opened;
  pthread_cond_broadcast(&budget->changed);
  pthread_mutex_unlock(&budget->lock);
  keep(holding, kept_bytes(holding) + holding->opened);
  return fits;
}

void gconv_holding_give_back(gconv_holding *holding) {
  gconv_holding_settle(holding, 0, false);
}
