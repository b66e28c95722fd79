/* SPDX-License-Identifier: MIT */
/*
 * The reader of the table syntax FUZZ_SUBJECT ("": known by the content), fed with anything (libFuzzer). The first byte
 * chooses what is asked of the table. Tables that are taken must be sound.
 */
#include "data/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_NUMBERS = 1 << 16 }; /* that are looked at */

static void demand(bool holds) {
  if (!holds)
    abort();
}

static void check_targets(const gconv_table *table) {
  const float *targets = (const float *)(const void *)table->targets.bytes;
  size_t outputs = table->labelled ? 1 : table->outputs;
  demand(table->targets.size == table->cases * outputs * sizeof *targets);
  for (size_t i = 0; i < table->cases * outputs; i++)
    demand(table->labelled ? targets[i] >= 0 && targets[i] < (float)table->labels.count : isfinite(targets[i]));
}

static void check_table(const gconv_table *table) {
  demand(table->cases > 0 && table->columns <= GCONV_MOST_COLUMNS);
  demand(!table->names || table->name_count == table->columns);
  for (size_t i = 1; table->rows && i < table->cases; i++)
    demand(table->rows[i] > table->rows[i - 1] && table->rows[i] < table->cases + table->dropped);
  if (!table->unlabelled)
    check_targets(table);
  size_t looked = table->columns > 0 ? MOST_NUMBERS / table->columns : 0;
  float *numbers = malloc((table->columns + 1) * sizeof *numbers);
  for (size_t i = 0; i < table->cases && i < looked && numbers; i++) {
    gconv_table_get(table, i, numbers);
    for (size_t k = 0; k < table->columns; k++)
      demand(isfinite(numbers[k]) || (isnan(numbers[k]) && table->gaps));
  }
  free(numbers);
}

/* Of "npz", arrays are chosen, too. */
static gconv_status read_table(gconv_source *source, gconv_table *table) {
  gconv_npz npz = {0};
  if (strcmp(FUZZ_SUBJECT, "npz") != 0)
    return gconv_table_read_source(source, FUZZ_SUBJECT[0] ? FUZZ_SUBJECT : NULL, table);
  gconv_status status = gconv_npz_choose_of(source, !table->unlabelled, &npz);
  source->member = table->of_targets ? "y" : "X";
  gconv_npz_free(&npz);
  return status == GCONV_OK ? gconv_table_read_archive(source, table) : status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const missing[] = {NULL, "mean", "drop", NULL};
  unsigned asked = size > 0 ? data[0] : 0;
  uint8_t *bytes = malloc(size ? size : 1); /* no more than there are, so that a step too far is seen */
  demand(bytes != NULL);
  size -= size > 0;
  if (size > 0)
    memcpy(bytes, data + 1, size);
  const gconv_dataset_options options = {.missing = missing[asked & 3],
                                         .regression = asked & 4,
                                         .label = asked & 8 ? "1" : NULL,
                                         .classification = asked & 64,
                                         .one_hot = asked & 128};
  gconv_table table = {.options = &options, .unlabelled = asked & 16, .of_targets = (asked & 32) != 0};
  gconv_source source;
  gconv_source_of_bytes("input", bytes, size, &source);
  if (read_table(&source, &table) == GCONV_OK)
    check_table(&table);
  gconv_table_free(&table);
  free(bytes);
  return 0;
}
