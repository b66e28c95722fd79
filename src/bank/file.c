/* SPDX-License-Identifier: MIT */
/* Opens files of banks, lists their entries, and chooses one. */
#include "bank/syntax.h"
#include "base/arguments.h"
#include "base/foreign_model.h"
#include "base/memory.h"
#include "base/suggest.h"

#include <inttypes.h>
#include <string.h>

enum { PEEK_BYTES = 4096, LISTED = 12 }; /* LISTED: names in an error text */

/* ---- Opening and closing ---- */

static gconv_status find_syntax(gconv_bank_file *file, const char *syntax) {
  const uint8_t *bytes;
  size_t size;
  if (syntax)
    return gconv_bank_syntax_by_name(syntax, &file->syntax);
  GCONV_TRY(gconv_source_peek(&file->source, PEEK_BYTES, &bytes, &size));
  file->syntax = gconv_bank_syntax_find(file->path, bytes, size);
  if (file->syntax)
    return GCONV_OK;
  return gconv_fail(
      GCONV_BAD_FILE,
      "%s: is no bank of filters: neither text that begins with 'gconv-bank 1', nor .npy, .npz, safetensors or ONNX; "
      "plain filters become a bank by `gconv bank convert FILTER... -o bank.txt`",
      file->path);
}

/* Opens the source. A source that cannot seek, such as a pipe, is read completely. */
static gconv_status open_source(gconv_bank_file *file, const char *path) {
  GCONV_TRY(gconv_source_open(path, &file->source));
  file->source.name = file->path;
  if (gconv_source_can_rewind(&file->source)) {
    file->folder = file->path;
    return GCONV_OK;
  }
  size_t size;
  gconv_status status = gconv_source_read_all(&file->source, GCONV_BANK_MAX_FILE_BYTES, &file->content, &size);
  gconv_source_close(&file->source);
  if (status == GCONV_OK)
    gconv_source_of_bytes(file->path, file->content, size, &file->source);
  return status;
}

/* Returns NULL, and sets the error, if there is no memory. */
static gconv_bank_file *make_file(const char *name) {
  gconv_bank_file *file = calloc(1, sizeof *file);
  if (file && (file->path = strdup(name))) {
    file->source.file = -1;
    return file;
  }
  free(file);
  gconv_fail(GCONV_NO_MEMORY, "no memory for a file of banks");
  return NULL;
}

/* Finds the syntax and lists the entries. `status` is the result of opening the source. */
static gconv_status begin_file(gconv_bank_file *made, gconv_status status, const char *syntax, gconv_bank_file **file) {
  GCONV_THEN(status, find_syntax(made, syntax));
  GCONV_THEN(status, made->syntax->open(made));
  if (status == GCONV_BAD_FILE && gconv_refuse_foreign_model(made->path) != GCONV_OK)
    status = GCONV_UNSUPPORTED;
  if (status == GCONV_OK)
    *file = made;
  else
    gconv_bank_file_close(made);
  return status;
}

gconv_status gconv_bank_file_open_path(const char *path, const char *syntax, gconv_bank_file **file) {
  gconv_bank_file *made = make_file(strcmp(path, "-") == 0 ? "standard input" : path);
  return !made ? GCONV_NO_MEMORY : begin_file(made, open_source(made, path), syntax, file);
}

gconv_status gconv_bank_file_open_bytes(const char *name, uint8_t *bytes, size_t size, const char *syntax,
                                        gconv_bank_file **file) {
  gconv_bank_file *made = make_file(name);
  if (!made)
    return GCONV_NO_MEMORY;
  gconv_source_of_bytes(made->path, bytes, size, &made->source);
  return begin_file(made, GCONV_OK, syntax, file);
}

void gconv_bank_file_close(gconv_bank_file *file) {
  if (!file)
    return;
  if (file->syntax && file->syntax->close)
    file->syntax->close(file);
  for (size_t i = 0; i < file->count; i++) {
    free(file->entries[i].name);
    free(file->entries[i].other[0]);
    free(file->entries[i].other[1]);
  }
  free(file->entries);
  if (file->source.file >= 0)
    gconv_source_close(&file->source);
  gconv_release(file->content);
  free(file->path);
  free(file);
}

/* ---- Entries ---- */

gconv_status gconv_bank_file_add(gconv_bank_file *file, gconv_bank_entry **entry) {
  GCONV_GROW(file->entries, file->count, "%s: no memory for a list of tensors", file->path);
  *entry = &file->entries[file->count++];
  **entry = (gconv_bank_entry){0};
  return GCONV_OK;
}

const char *gconv_bank_shape_obstacle(int32_t dimensions, const uint64_t *shape) {
  if (dimensions == 5)
    return "has 5 dimensions, as weights of 3-D convolutions do; a bank has 4: filters, channels, rows, columns";
  if (dimensions == 3)
    return "has 3 dimensions, as weights of 1-D convolutions do; a bank has 4: filters, channels, rows, columns";
  if (dimensions != 4)
    return "does not have the 4 dimensions of a bank: filters, channels, rows, columns";
  for (int i = 0; i < 4; i++)
    if (shape[i] == 0)
      return "has no elements";
  return NULL;
}

const char *gconv_bank_file_syntax(const gconv_bank_file *file) {
  return file ? file->syntax->name : NULL;
}

const gconv_bank_entry *gconv_bank_file_at(const gconv_bank_file *file, size_t index) {
  return file && index < file->count ? &file->entries[index] : NULL;
}

/* ---- Choosing ---- */

static bool is_called(const gconv_bank_entry *entry, const char *name, bool exactly) {
  if (exactly)
    return entry->name && strcmp(entry->name, name) == 0;
  for (int i = 0; i < 2; i++)
    if (entry->other[i] && strcmp(entry->other[i], name) == 0)
      return true;
  return false;
}

/* Counts the entries of this name or, if it is NULL, the entries that are banks. *index: the first of these. */
static size_t count_matches(const gconv_bank_file *file, const char *name, bool exactly, size_t *index) {
  size_t count = 0;
  for (size_t i = file->count; i-- > 0;) {
    const gconv_bank_entry *entry = &file->entries[i];
    if (name ? is_called(entry, name, exactly) : !entry->obstacle) {
      *index = i;
      count++;
    }
  }
  return count;
}

/* Appends to `text`, a buffer of `size` bytes. Text that does not fit is cut off. */
static void append(char *text, size_t size, const char *format, ...) GCONV_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...) {
  size_t used = strlen(text);
  GCONV_FORMAT(text + used, size - used, format);
}

/* Writes "conv1.weight (64 x 3 x 7 x 7), ... and 12 more": the banks of the file, or all entries if there is no bank. */
static void list_entries(const gconv_bank_file *file, char *text, size_t size) {
  size_t banks = 0, shown = 0;
  for (size_t i = 0; i < file->count; i++)
    banks += !file->entries[i].obstacle;
  size_t all = banks > 0 ? banks : file->count;
  text[0] = '\0';
  for (size_t i = 0; i < file->count && shown < LISTED; i++) {
    const gconv_bank_entry *entry = &file->entries[i];
    if (banks > 0 && entry->obstacle)
      continue;
    const char *name = entry->name && *entry->name ? entry->name : entry->other[0] ? entry->other[0] : "(no name)";
    append(text, size, "%s%.80s (", shown == 0 ? "" : ", ", name);
    for (int32_t d = 0; d < entry->dimensions && d < GCONV_BANK_DIMENSIONS; d++)
      append(text, size, "%s%" PRIu64, d == 0 ? "" : " x ", entry->shape[d]);
    append(text, size, "%s)", entry->dimensions == 0 ? entry->kind : "");
    shown++;
  }
  if (shown < all)
    append(text, size, " and %zu more: `gconv bank info` lists them", all - shown);
}

static gconv_status fail_obstacle(const gconv_bank_file *file, const gconv_bank_entry *entry) {
  const char *quote = *entry->name ? "'" : "";
  return gconv_fail(GCONV_UNSUPPORTED, "%s: %s%s%s%s%s", file->path, quote, entry->name, quote, *quote ? " " : "",
                    entry->obstacle);
}

/* True if all nodes, or the only tensor, have the same obstacle. */
static bool share_obstacle(const gconv_bank_file *file) {
  if (file->count > 1 && strcmp(file->entries[0].kind, "tensor") == 0)
    return false;
  for (size_t i = 1; i < file->count; i++)
    if (file->entries[i].obstacle != file->entries[0].obstacle)
      return false;
  return file->count > 0 && file->entries[0].obstacle;
}

static gconv_status fail_to_choose(const gconv_bank_file *file, const char *name, size_t matches) {
  char list[1400];
  gconv_suggestion best = {0};
  list_entries(file, list, sizeof list);
  if (!name && share_obstacle(file))
    return fail_obstacle(file, &file->entries[0]);
  if (file->count == 0 && file->syntax == &gconv_bank_syntax_onnx)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: the model has no Conv node", file->path);
  if (file->count == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has nothing in it that could be a bank", file->path);
  if (!name && matches == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: nothing in it is a bank of filters, with floating-point weights of 4 dimensions; there are %s",
                      file->path, list);
  if (!name)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has %zu banks: say which, as '%s:NAME'; there are %s", file->path, matches,
                      file->path, list);
  if (matches > 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %zu entries are called '%s': give another name of one of them; there are %s",
                      file->path, matches, name, list);
  for (size_t i = 0; i < file->count; i++)
    gconv_suggest(&best, name, file->entries[i].name);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has nothing called '%s'%s%s%s are %s", file->path, name,
                    best.name[0] ? ": did you mean '" : "", best.name, best.name[0] ? "'? There" : "; there", list);
}

gconv_status gconv_bank_file_find(const gconv_bank_file *file, const char *name, size_t *index) {
  GCONV_NEED(file, index);
  size_t matches = count_matches(file, name, true, index);
  if (matches == 0 && name)
    matches = count_matches(file, name, false, index);
  return matches == 1 ? GCONV_OK : fail_to_choose(file, name, matches);
}

gconv_status gconv_bank_file_read(gconv_bank_file *file, size_t index, gconv_bank *bank) {
  GCONV_NEED(file, bank);
  if (index >= file->count)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has no bank number %zu", file->path, index);
  const gconv_bank_entry *entry = &file->entries[index];
  if (entry->obstacle)
    return fail_obstacle(file, entry);
  gconv_bank made = {0};
  gconv_status status = file->syntax->read(file, index, &made);
  if (status == GCONV_OK) {
    char *where = gconv_format_text("%s%s%s", file->path, *entry->name ? ": " : "", entry->name);
    status = gconv_bank_check_finite(where ? where : file->path, GCONV_BAD_FILE, &made);
    free(where);
  }
  if (status == GCONV_OK)
    *bank = made;
  else
    gconv_bank_free(&made);
  return status;
}
