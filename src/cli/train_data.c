/* SPDX-License-Identifier: MIT */
/* Opens the data of gconv train, which options or words without an option name. */
#include "base/memory.h"
#include "cli/command.h"
#include "cli/train.h"

#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- What the options name ------------------------------------------------------------------------------------------ */

/* True if a file is a picture. Formats of arrays do not count: an array may also be a table or a signal. */
static bool is_picture(const char *path) {
  const gconv_format_info *format = NULL;
  GCONV_ENDED_BY(gconv_image_free) gconv_image header = {0};
  bool is = gconv_image_read_header(path, &header, &format) == GCONV_OK && !format->tensors;
  return is;
}

gconv_status gconv_data_take_words(gconv_train_settings *settings, const gconv_texts *words) {
  gconv_cases *cases = &settings->cases;
  const char *path = words->count > 0 ? words->items[0] : NULL;
  struct stat status;
  if (!path)
    return GCONV_OK;
  if (settings->table || settings->classes || settings->signal || settings->common.inputs.count > 0 || words->count > 2 ||
      (words->count == 2 && cases->targets))
    return gconv_refuse("%s: one word too many: name the data, and their targets if another file has these: gconv "
                        "train TABLE, gconv train FOLDER, gconv train IMAGES WANTED",
                        words->items[words->count - 1]);
  cases->targets = words->count == 2 ? words->items[1] : cases->targets;
  const bool there = stat(path, &status) == 0, folder = there && S_ISDIR(status.st_mode);
  if (folder && !cases->targets)
    settings->classes = path;
  else if (cases->windows.samples > 0)
    settings->signal = path;
  else if (!folder && !cases->data.features && !(there && S_ISREG(status.st_mode) && is_picture(path)))
    settings->table = path;
  else if (!gconv_texts_add(&settings->common.inputs, strdup(path)))
    return gconv_no_memory();
  return GCONV_OK;
}

/* True if the text of a network ends in softmax: it yields probabilities of classes. */
static bool ends_in_softmax(const char *net) {
  static const char word[] = "softmax";
  size_t length = strlen(net);
  while (length > 0 && strchr(" \t)", net[length - 1]))
    length--;
  return length >= sizeof word - 1 && strncmp(net + length - (sizeof word - 1), word, sizeof word - 1) == 0;
}

gconv_status gconv_data_choose(gconv_train_settings *settings) {
  gconv_cases *cases = &settings->cases;
  gconv_dataset_options *data = &cases->data;
  const char *pairs = settings->common.inputs.count > 0 ? settings->common.inputs.items[0] : NULL;
  int sources = (settings->table != NULL) + (settings->classes != NULL) + (settings->signal != NULL) + (pairs != NULL);
  if (sources == 0)
    return gconv_refuse(
        "no data: name a table, FILE or --table FILE; images by class, FOLDER or --classes FOLDER, or in pairs, -i "
        "BEFORE -t AFTER; or a signal, --signal FILE --windows S");
  if (sources > 1 || settings->common.inputs.count > 1)
    return gconv_refuse("--table, --classes, --signal and -i name data of different kinds: give one of them, once");
  if (pairs && !cases->targets)
    return gconv_refuse("-i %s: name what is wanted of these images, too, with -t", pairs);
  if (settings->classes && cases->targets)
    return gconv_refuse("-t: images by class need no targets, as their folders name the classes");
  if (settings->signal && cases->windows.samples == 0)
    return gconv_refuse("--signal: say with --windows S:HOP how many samples a case has");
  if (!settings->signal && (cases->windows.samples > 0 || cases->raw))
    return gconv_refuse("--windows and --raw are for --signal");
  bool images = pairs || settings->classes;
  if (data->features && (!pairs || data->patch > 0 || data->augment))
    return gconv_refuse(data->patch > 0 || data->augment
                            ? "--patch and --augment are for whole images: --features learns pixels"
                            : "--features is for the pixels of images: -i IMAGES -t MASKS");
  if (cases->samples > 0 && !data->features)
    return gconv_refuse("--samples is for pixels, which --features learns");
  if (!images && (data->patch > 0 || data->augment || data->gray))
    return gconv_refuse("--patch, --augment and --gray are for images");
  if (images && data->label)
    return gconv_refuse("--label is for tables");
  data->kind = settings->table     ? GCONV_DATASET_TABLE
               : settings->classes ? GCONV_DATASET_CLASSES
               : settings->signal  ? GCONV_DATASET_WINDOWS
               : data->features    ? GCONV_DATASET_PIXELS
                                   : GCONV_DATASET_PAIRS;
  data->inputs = settings->table     ? settings->table
                 : settings->classes ? settings->classes
                 : settings->signal  ? settings->signal
                                     : pairs;
  data->targets = cases->targets;
  data->classification |= cases->class_weights.count > 0;
  if (data->classification && data->regression)
    return gconv_refuse("--classification and --regression: give one of them");
  data->classification |= !data->regression && settings->net && ends_in_softmax(settings->net);
  data->syntax = settings->signal ? cases->raw : data->syntax;
  data->missing = gconv_cases_missing(cases);
  data->window = cases->windows.samples;
  data->hop = cases->windows.hop;
  data->seed = (uint64_t)cases->seed;
  data->most_cases = (size_t)cases->samples;
  data->memory = settings->common.memory / 2;
  return GCONV_OK;
}

static gconv_status open_set(const gconv_dataset_options *options, gconv_dataset **set, gconv_texts *paths) {
  if (!gconv_texts_add(paths, strdup(options->inputs)) ||
      (options->targets && !gconv_texts_add(paths, strdup(options->targets))))
    return gconv_no_memory();
  GCONV_TRY(gconv_check_is_there(options->inputs));
  return gconv_dataset_open(options, set);
}

/* Returns the colon of "PATH:TARGETS"; NULL: the text is a path, or an array of a .npz, "FILE.npz:NAME". */
static const char *find_targets(const char *text) {
  const char *colon = access(text, F_OK) == 0 ? NULL : strchr(text, ':');
  const bool array = colon && colon - text > 4 && strncasecmp(colon - 4, ".npz", 4) == 0 && access(colon + 1, F_OK) != 0;
  return array ? NULL : colon;
}

/* Opens "PATH" or "PATH:TARGETS". */
static gconv_status open_validation(const gconv_train_settings *settings, gconv_data *data) {
  gconv_dataset_options options = settings->cases.data;
  const gconv_dataset_info *info = gconv_dataset_get_info(data->all);
  const char *text = settings->validate, *colon = find_targets(text);
  GCONV_FREED char *inputs = colon ? strndup(text, (size_t)(colon - text)) : strdup(text);
  GCONV_NEED_MEMORY(inputs, "out of memory");
  options.inputs = inputs;
  options.targets = colon ? colon + 1 : NULL;
  options.classes = info->classes;
  options.class_count = info->class_count;
  options.usual_label = info->label;
  options.like = gconv_dataset_get_info(gconv_data_cases(data))->notes.count > 0 ? &info->notes : NULL;
  options.columns = options.kind == GCONV_DATASET_TABLE ? (size_t)info->channels : 0;
  if (settings->cases.data.targets && !options.targets)
    return gconv_refuse("--validate %s: its targets are a file, or a folder, too: --validate %s:TARGETS", text, text);
  if (settings->classes && options.targets)
    return gconv_refuse("--validate %s: images by class need no targets, as their folders name the classes", text);
  return open_set(&options, &data->validation, &data->paths);
}

gconv_status gconv_data_open(const gconv_train_settings *settings, gconv_data *data) {
  double share;
  GCONV_TRY(open_set(&settings->cases.data, &data->all, &data->paths));
  if (!settings->validate)
    return GCONV_OK;
  if (!gconv_parse_share(settings->validate, &share))
    return open_validation(settings, data);
  if (!(share > 0 && share < 1))
    return gconv_refuse("--validate %s: this takes a share between 0%% and 100%%, or a file", settings->validate);
  gconv_status status =
      gconv_dataset_split(data->all, share, (uint64_t)settings->cases.seed, &data->first, &data->validation);
  return status == GCONV_OK ? status : gconv_refuse("--validate %s: %s", settings->validate, gconv_last_error());
}

const gconv_dataset *gconv_data_cases(const gconv_data *data) {
  return data->first ? data->first : data->all;
}

void gconv_data_close(gconv_data *data) {
  gconv_dataset_free(data->first);
  gconv_dataset_free(data->validation);
  gconv_dataset_free(data->all);
  gconv_texts_free(&data->paths);
  *data = (gconv_data){0};
}
