/* SPDX-License-Identifier: MIT */
/* Data sets of tables, and of windows of a signal with a table of targets. */
#include "base/checksum.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/signal.h"
#include "data/table.h"

#include <string.h>

typedef struct table_set {
  gconv_dataset base;
  gconv_table inputs;  /* with labels or targets, unless these are in a file of their own */
  gconv_table targets; /* the table in the file of targets; empty without such a file */
  gconv_signal signal; /* in place of a table of inputs */
  int32_t window, hop;
  bool by_sample; /* each sample has a target; a window has the target of its middle sample */
  /* Owned; NULL unless rows were left out. For each case: its index in `inputs` (input_cases) and in `targets`
   * (target_cases), and the number of its row (rows). */
  size_t *input_cases, *target_cases, *rows;
} table_set;

static const gconv_table *targets_of(const table_set *set) {
  return set->targets.cases > 0 ? &set->targets : &set->inputs;
}

static size_t target_case(const table_set *set, size_t index) {
  return set->by_sample      ? index * (size_t)set->hop + (size_t)set->window / 2
         : set->target_cases ? set->target_cases[index]
                             : index;
}

static size_t input_case(const table_set *set, size_t index) {
  return set->input_cases ? set->input_cases[index] : index;
}

static void get_target(const table_set *set, size_t index, float *target) {
  const float *from = (const float *)(const void *)targets_of(set)->targets.bytes;
  const size_t outputs = gconv_dataset_target_floats(&set->base.info);
  if (outputs > 0)
    memcpy(target, from + target_case(set, index) * outputs, outputs * sizeof *target);
}

static gconv_status read_table(const gconv_dataset *dataset, uint64_t epoch, const size_t *cases, size_t count,
                               float *inputs, float *targets) {
  const table_set *set = (const table_set *)dataset;
  size_t width = gconv_dataset_input_floats(&dataset->info), outputs = gconv_dataset_target_floats(&dataset->info);
  for (size_t i = 0; i < count; i++) {
    if (set->window > 0)
      gconv_signal_get(&set->signal, cases[i] * (size_t)set->hop, (size_t)set->window, inputs + i * width);
    else
      gconv_table_get(&set->inputs, input_case(set, cases[i]), inputs + i * width);
    if (targets)
      get_target(set, cases[i], targets + i * outputs);
  }
  return GCONV_OK;
}

static bool get_entries(const gconv_dataset *dataset, size_t index, const gconv_entry **entries, size_t *count,
                        float *target) {
  const table_set *set = (const table_set *)dataset;
  if (!set->inputs.sparse || set->window > 0 || set->inputs.origins)
    return false;
  *count = gconv_table_entries(&set->inputs, input_case(set, index), entries);
  if (target)
    get_target(set, index, target);
  return true;
}

static size_t class_of(const gconv_dataset *dataset, size_t index) {
  const table_set *set = (const table_set *)dataset;
  return (size_t)((const float *)(const void *)targets_of(set)->targets.bytes)[target_case(set, index)];
}

static void free_table(gconv_dataset *dataset) {
  table_set *set = (table_set *)dataset;
  gconv_table_free(&set->inputs);
  gconv_table_free(&set->targets);
  gconv_signal_free(&set->signal);
  free(set->input_cases);
  free(set->target_cases);
  free(set->rows);
  free(set);
}

static uint64_t digest(const gconv_dataset *dataset, uint64_t hash) {
  const table_set *set = (const table_set *)dataset;
  const int32_t steps[] = {set->window, set->hop};
  hash = gconv_fnv1a(hash, steps, sizeof steps);
  hash = gconv_table_digest(&set->inputs, hash);
  hash = gconv_table_digest(&set->targets, hash);
  if (dataset->fills)
    hash = gconv_fnv1a(hash, dataset->fills, (size_t)dataset->info.channels * sizeof *dataset->fills);
  return gconv_store_digest(&set->signal.store, hash);
}

static const gconv_dataset_type type = {
    .read = read_table, .entries = get_entries, .free = free_table, .class_of = class_of, .digest = digest};

static gconv_status make_set(const gconv_dataset_options *options, gconv_dataset **dataset, table_set **made) {
  table_set *set;
  GCONV_NEW(set, 1, "no memory for a data set");
  set->base.type = &type;
  set->inputs.options = set->targets.options = options;
  gconv_store *const stores[] = {&set->inputs.inputs, &set->inputs.ends,     &set->inputs.targets, &set->targets.inputs,
                                 &set->targets.ends,  &set->targets.targets, &set->signal.store};
  for (size_t i = 0; i < sizeof stores / sizeof *stores; i++)
    stores[i]->limit = gconv_dataset_part(options);
  set->inputs.unlabelled = options->unlabelled || options->targets;
  set->targets.of_targets = true;
  *made = set;
  *dataset = &set->base;
  return GCONV_OK;
}

static size_t row_of(const gconv_table *table, size_t index) {
  return table->rows ? table->rows[index] : index;
}

/* Keeps only the rows that neither file leaves out. */
static gconv_status join_rows(table_set *set) {
  const gconv_table *inputs = &set->inputs, *targets = &set->targets;
  size_t *const lists[] = {malloc(inputs->cases * sizeof(size_t)), malloc(inputs->cases * sizeof(size_t)),
                           malloc(inputs->cases * sizeof(size_t))};
  size_t count = 0;
  set->input_cases = lists[0];
  set->target_cases = lists[1];
  set->rows = lists[2];
  GCONV_NEED_MEMORY(lists[0] && lists[1] && lists[2], "%s: no memory for the numbers of its rows", inputs->path);
  for (size_t i = 0, k = 0; i < inputs->cases && k < targets->cases;) {
    const size_t a = row_of(inputs, i), b = row_of(targets, k);
    if (a == b) {
      lists[0][count] = i;
      lists[1][count] = k;
      lists[2][count++] = a;
    }
    i += a <= b;
    k += b <= a;
  }
  set->base.info.cases = count;
  return count > 0 ? GCONV_OK : gconv_fail(GCONV_BAD_FILE, "%s: every row, or its target, was left out", inputs->path);
}

/* Reads the file of targets, and checks that it has a target for each case of the inputs. */
static gconv_status open_targets(table_set *set, const gconv_dataset_options *options, size_t cases, size_t samples) {
  if (!options->targets || options->unlabelled)
    return GCONV_OK;
  GCONV_TRY(options->cases ? gconv_table_take(options->cases, &set->targets)
                           : gconv_table_read(options->targets, NULL, &set->targets));
  const size_t left_out = set->inputs.dropped + set->targets.dropped;
  if (left_out > 0 && samples == 0 && set->targets.cases + set->targets.dropped == cases + set->inputs.dropped)
    return join_rows(set);
  if (set->targets.cases == cases && left_out == 0)
    return GCONV_OK;
  if (samples > 0 && set->targets.cases == samples) {
    set->by_sample = true;
    return GCONV_OK;
  }
  size_t found = set->targets.cases;
  bool one_more = set->targets.labelled && (found == cases + 1 || (samples > 0 && found == samples + 1));
  const char *header = one_more ? "; if its first line is the name of the column, give that name with --label" : "";
  if (samples > 0)
    return gconv_fail(
        GCONV_BAD_FILE,
        "%s: has %zu targets; there must be one for each of the %zu windows of %s, or for each of its %zu samples%s",
        options->targets, found, cases, options->inputs, samples, header);
  return gconv_fail(GCONV_BAD_FILE, "%s: has the targets of %zu cases, and %s has %zu%s", options->targets, found,
                    options->inputs, cases, header);
}

static void set_targets(table_set *set) {
  const gconv_table *table = targets_of(set);
  gconv_dataset_info *info = &set->base.info;
  info->approximated = table->approximated;
  if (table->labelled) {
    info->classes = (const char *const *)table->labels.names;
    info->outputs = info->class_count = table->labels.count;
    info->others = (const char *const *)table->labels.others;
    info->other_count = table->labels.other_count;
  } else {
    info->outputs = table->outputs;
  }
  bool image = table->target_shape[0] > 0;
  info->target_channels = image ? table->target_shape[0] : (int32_t)info->outputs;
  info->target_height = image ? table->target_shape[1] : info->outputs > 0;
  info->target_width = image ? table->target_shape[2] : info->outputs > 0;
}

/* Moves the notes about columns from the table to the data set. A sparse table keeps its origins. */
static void move_notes(table_set *set) {
  gconv_table *table = &set->inputs;
  gconv_column_notes *notes = &set->base.info.notes;
  set->base.gaps = table->gaps;
  notes->names = table->names;
  table->names = NULL;
  if (!table->sparse) {
    notes->origins = table->origins;
    table->origins = NULL;
  }
  notes->count = notes->names || notes->origins ? table->columns : 0;
}

static gconv_status finish(table_set *set) {
  set_targets(set);
  move_notes(set);
  return GCONV_OK;
}

static gconv_status open_table(const gconv_dataset_options *options, gconv_dataset **dataset) {
  table_set *set = NULL;
  GCONV_TRY(make_set(options, dataset, &set));
  const gconv_table *table = &set->inputs;
  GCONV_TRY(options->cases ? gconv_table_take(options->cases, &set->inputs)
                           : gconv_table_read(options->inputs, options->syntax, &set->inputs));
  GCONV_TRY(open_targets(set, options, table->cases, 0));
  set->base.info = (gconv_dataset_info){.cases = set->rows ? set->base.info.cases : table->cases,
                                        .rows = set->rows ? set->rows : table->rows,
                                        .left_out = table->dropped + (set->rows ? table->cases - set->base.info.cases : 0),
                                        .channels = table->channels,
                                        .height = table->height,
                                        .width = table->width,
                                        .columns = (const char *const *)table->names,
                                        .label = table->label};
  return finish(set);
}

gconv_status gconv_dataset_open_table(const gconv_dataset_options *options, gconv_dataset **dataset) {
  GCONV_ENDED_BY(gconv_npz_free) gconv_npz npz = {0};
  gconv_dataset_options own = *options;
  if (options->cases)
    return open_table(options, dataset);
  GCONV_TRY(gconv_npz_choose(options->inputs, !options->unlabelled && !options->targets && !options->label, &npz));
  own.inputs = npz.inputs ? npz.inputs : own.inputs;
  own.targets = npz.targets ? npz.targets : own.targets;
  return open_table(&own, dataset);
}

/* ---- Windows ------------------------------------------------------------------------------------------------------- */

gconv_status gconv_dataset_open_windows(const gconv_dataset_options *options, gconv_dataset **dataset) {
  table_set *set = NULL;
  GCONV_TRY(make_set(options, dataset, &set));
  gconv_signal *signal = &set->signal;
  set->window = options->window;
  set->hop = options->hop > 0 ? options->hop : options->window;
  const size_t window = (size_t)set->window;
  GCONV_TRY(gconv_signal_read(options->inputs, options->syntax, signal));
  if (signal->samples < window)
    return gconv_fail(GCONV_BAD_FILE, "%s: has %zu samples, and a window %zu", options->inputs, signal->samples, window);
  if (!options->targets && !options->unlabelled)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: windows of a signal have no targets of their own: name a file with one a "
                      "window, or one a sample, with -t",
                      options->inputs);
  const size_t cases = (signal->samples - window) / (size_t)set->hop + 1;
  GCONV_TRY(open_targets(set, options, cases, signal->samples));
  set->base.info = (gconv_dataset_info){.cases = cases, .channels = signal->channels, .height = 1, .width = options->window};
  return finish(set);
}
