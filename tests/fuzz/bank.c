/* SPDX-License-Identifier: MIT */
/*
 * The reader of the bank syntax FUZZ_SUBJECT, fed with anything (libFuzzer): what is listed is chosen, read and drawn. Banks
 * that are taken must be sound.
 */
#include "bank/syntax.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_READ = 8, MOST_DRAWN = 4096 };

static void demand(bool holds) {
  if (!holds)
    abort();
}

static void check_bank(const gconv_bank *bank) {
  demand(gconv_bank_check(bank) == GCONV_OK);
  gconv_image sheet = {0};
  const gconv_bank_sheet options = {.zoom = 1};
  if (gconv_bank_weights(bank) <= MOST_DRAWN && gconv_bank_draw(bank, &options, &sheet) == GCONV_OK)
    gconv_image_free(&sheet);
}

static void check_entry(gconv_bank_file *file, size_t index) {
  const gconv_bank_entry *entry = gconv_bank_file_at(file, index);
  gconv_bank bank = {0};
  size_t found = 0;
  demand(entry->name && entry->kind);
  if (gconv_bank_file_find(file, entry->name, &found) == GCONV_OK)
    demand(strcmp(gconv_bank_file_at(file, found)->name, entry->name) == 0);
  if (gconv_bank_file_read(file, index, &bank) == GCONV_OK)
    check_bank(&bank);
  else
    demand(!bank.weights && !bank.biases && !bank.names && !bank.name);
  gconv_bank_free(&bank);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *bytes = malloc(size ? size : 1); /* no more than there are, so that a step too far is seen */
  gconv_bank_file *file = NULL;
  size_t index;
  demand(bytes != NULL);
  if (size > 0)
    memcpy(bytes, data, size);
  if (gconv_bank_file_open_bytes("input", bytes, size, FUZZ_SUBJECT, &file) == GCONV_OK) {
    gconv_bank_file_find(file, NULL, &index);
    for (size_t i = 0; i < MOST_READ && gconv_bank_file_at(file, i); i++)
      check_entry(file, i);
  }
  gconv_bank_file_close(file);
  free(bytes);
  return 0;
}
