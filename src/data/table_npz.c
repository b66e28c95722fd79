/* SPDX-License-Identifier: MIT */
/* NumPy's .npz as tables: which arrays are inputs and targets. */
#include "base/memory.h"
#include "base/zip.h"
#include "data/table.h"

#include <string.h>
#include <strings.h>

/* Names of arrays, in the order in which they are searched. */
static const char *const input_words[] = {"x", "data", "inputs", "input", "features", "images", "samples", "arr_0"};
static const char *const target_words[] = {"y", "target", "targets", "labels", "label", "classes", "class", "arr_1"};
/* Names of parts of data sets. The first one that exists is taken. */
static const char *const parts[] = {"", "train", "training", "valid", "validation", "val", "test"};
enum {
  INPUT_WORDS = sizeof input_words / sizeof *input_words,
  TARGET_WORDS = sizeof target_words / sizeof *target_words,
  PARTS = sizeof parts / sizeof *parts
};

/* True if the name of an array has the word and the part: "x_train", "train_x", "Xtrain". */
static bool is_called(const gconv_zip_member *member, const char *word, const char *part) {
  char name[64], forms[3][64];
  size_t length;
  if (!gconv_zip_is_array(member, &length) || length >= sizeof name)
    return false;
  snprintf(name, sizeof name, "%.*s", (int)length, member->name);
  snprintf(forms[0], sizeof forms[0], "%s%s%s", word, part[0] ? "_" : "", part);
  snprintf(forms[1], sizeof forms[1], "%s%s%s", part, part[0] ? "_" : "", word);
  snprintf(forms[2], sizeof forms[2], "%s%s", word, part);
  return strcasecmp(name, forms[0]) == 0 || strcasecmp(name, forms[1]) == 0 || strcasecmp(name, forms[2]) == 0;
}

static const gconv_zip_member *find_member(const gconv_zip *zip, const char *word, const char *part) {
  for (size_t i = 0; i < zip->count; i++)
    if (is_called(&zip->members[i], word, part))
      return &zip->members[i];
  return NULL;
}

/* Returns the part of the data set that an array of inputs belongs to; PARTS: the array is not inputs. */
static size_t find_part(const gconv_zip_member *member) {
  for (size_t p = 0; p < PARTS; p++)
    for (size_t w = 0; w < INPUT_WORDS; w++)
      if (is_called(member, input_words[w], parts[p]))
        return p;
  return PARTS;
}

static const gconv_zip_member *find_inputs(const gconv_zip *zip) {
  for (size_t p = 0; p < PARTS; p++)
    for (size_t w = 0; w < INPUT_WORDS; w++) {
      const gconv_zip_member *found = find_member(zip, input_words[w], parts[p]);
      if (found)
        return found;
    }
  return NULL;
}

static const gconv_zip_member *find_targets(const gconv_zip *zip, const gconv_zip_member *inputs) {
  const size_t part = find_part(inputs);
  const gconv_zip_member *found = NULL;
  for (size_t w = 0; w < TARGET_WORDS && part < PARTS && !found; w++)
    found = find_member(zip, target_words[w], parts[part]);
  return found;
}

/* Reports "x_train is taken for the inputs, and y_train for the targets; not used: x_test, y_test". */
static void tell_choice(const char *path, const gconv_zip *zip, const gconv_zip_member *inputs,
                        const gconv_zip_member *targets) {
  char others[400] = "";
  size_t used = 0, length;
  for (size_t i = 0; i < zip->count && used + 80 < sizeof others; i++)
    if (&zip->members[i] != inputs && &zip->members[i] != targets && gconv_zip_is_array(&zip->members[i], &length))
      used += (size_t)snprintf(others + used, sizeof others - used, "%s%.*s",
                               used ? ", " : "; not used: ", (int)(length < 60 ? length : 60), zip->members[i].name);
  gconv_zip_is_array(inputs, &length);
  if (targets || used > 0)
    gconv_warn("%s: %.*s is taken for the inputs%s%.*s%s%s%s", path, (int)length, inputs->name, targets ? ", and " : "",
               targets ? (int)strlen(targets->name) - 4 : 0, targets ? targets->name : "", targets ? " for the targets" : "",
               others, used > 0 ? " (FILE.npz:NAME names others)" : "");
}

static gconv_status name_member(const char *path, const gconv_zip_member *member, char **spec) {
  size_t length;
  if (!member)
    return GCONV_OK;
  gconv_zip_is_array(member, &length);
  *spec = gconv_format_text("%.*s:%.*s", (int)gconv_member_split(path), path, (int)length, member->name);
  return *spec ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for the names of its arrays", path);
}

/* Refuses a known archive that is not a .npz. */
static gconv_status refuse_others(const char *path, const gconv_zip *zip) {
  static const struct {
    const char *member, *what, *advice;
  } known[] = {{"xl/workbook.xml", "a workbook of Excel", "save the sheet as CSV"},
               {"xl/workbook.bin", "a workbook of Excel", "save the sheet as CSV"},
               {"content.xml", "a document of OpenDocument", "save the sheet as CSV"},
               {"indptr.npy", "a sparse matrix of SciPy", "write it by sklearn.datasets.dump_svmlight_file()"}};
  for (size_t i = 0; i < zip->count; i++)
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
      if (strcmp(zip->members[i].name, known[k].member) == 0)
        return gconv_fail(GCONV_UNSUPPORTED, "%s: is %s: %s", path, known[k].what, known[k].advice);
  return GCONV_OK;
}

static gconv_status choose(gconv_source *source, bool wants_targets, const gconv_zip *zip, gconv_npz *npz) {
  size_t index = 0;
  GCONV_TRY(refuse_others(source->name, zip));
  const gconv_zip_member *inputs = source->member ? NULL : find_inputs(zip);
  if (!inputs)
    GCONV_TRY(gconv_zip_find_array(source, zip, source->member, &index));
  inputs = inputs ? inputs : &zip->members[index];
  const gconv_zip_member *targets = wants_targets ? find_targets(zip, inputs) : NULL;
  if (!source->member)
    tell_choice(source->name, zip, inputs, targets);
  GCONV_TRY(name_member(source->name, inputs, &npz->inputs));
  return name_member(source->name, targets, &npz->targets);
}

gconv_status gconv_npz_choose_of(gconv_source *source, bool wants_targets, gconv_npz *npz) {
  GCONV_ENDED_BY(gconv_zip_free) gconv_zip zip = {0};
  GCONV_TRY(gconv_zip_read(source, &zip));
  return choose(source, wants_targets, &zip, npz);
}

gconv_status gconv_npz_choose(const char *path, bool wants_targets, gconv_npz *npz) {
  GCONV_ENDED_BY(gconv_source_close) gconv_source source = {.file = -1};
  const uint8_t *bytes = NULL;
  size_t got = 0;
  if (strcmp(path, "-") == 0) /* standard input can be read once only */
    return GCONV_OK;
  GCONV_TRY(gconv_source_open_member(path, &source));
  if (gconv_source_can_rewind(&source))
    GCONV_TRY(gconv_source_peek(&source, 4, &bytes, &got));
  return got > 0 && gconv_zip_sniff(bytes, got) ? gconv_npz_choose_of(&source, wants_targets, npz) : GCONV_OK;
}

void gconv_npz_free(gconv_npz *npz) {
  free(npz->inputs);
  free(npz->targets);
}

gconv_status gconv_npz_open(gconv_source *archive, gconv_zip *zip, gconv_source *member) {
  size_t index = 0;
  GCONV_TRY(gconv_zip_read(archive, zip));
  GCONV_TRY(refuse_others(archive->name, zip));
  GCONV_TRY(gconv_zip_find_array(archive, zip, archive->member, &index));
  return gconv_zip_open_member(archive, &zip->members[index], archive->name, member);
}
