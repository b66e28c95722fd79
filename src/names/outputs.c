/* SPDX-License-Identifier: MIT */
#include "names/outputs.h"
#include "base/arguments.h"
#include "base/folders.h"
#include "base/memory.h"
#include "image/rows.h"
#include "names/search.h"
#include "names/template.h"

#include <search.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct namer {
  const gconv_inputs *inputs;
  const gconv_naming *naming;
  gconv_outputs *outputs;
  const gconv_format_info **of_inputs; /* [inputs->count]: the format of the results of each input; owned */
};

/* ---- Templates ----------------------------------------------------------------------------------------------------- */

/* Writes `length` bytes of a template with its fields replaced. GCONV_BAD_ARGUMENT if braces hold no field. */
static gconv_status expand(const struct namer *namer, FILE *out, const char *part, size_t length,
                           const gconv_template_values *values) {
  size_t size;
  const char *wrong = gconv_template_expand(out, part, length, values, &size);
  if (!wrong)
    return GCONV_OK;
  return gconv_fail(
      GCONV_BAD_ARGUMENT,
      "%s: \"%.*s\" is not a field of templates: there are {stem}, {filter}, {output}, {index}, {frame} and {ext}; a brace "
      "that belongs to a name is written twice: {{ and }}",
      namer->naming->output, (int)size, wrong);
}

/* Makes a path, for free(): the folders of the template, the folders of the input, and the file name of the template. */
static gconv_status make_path(const struct namer *namer, const char *template, const char *relative,
                              const gconv_template_values *values, char **made) {
  const char *name = gconv_path_name(template), *inner = gconv_path_name(relative);
  GCONV_FREED char *path = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&path, &size);
  GCONV_NEED_MEMORY(out, "out of memory");
  gconv_status status = expand(namer, out, template, (size_t)(name - template), values);
  if (namer->outputs->mirrors)
    fprintf(out, "%.*s", (int)(inner - relative), relative);
  GCONV_THEN(status, expand(namer, out, name, strlen(name), values));
  bool whole = fclose(out) == 0;
  GCONV_TRY(status);
  GCONV_NEED_MEMORY(whole, "out of memory");
  *made = gconv_taken(&path);
  return GCONV_OK;
}

/* ---- What -o means ------------------------------------------------------------------------------------------------- */

/* Returns whether a path names a folder: it ends with a slash, or there is a folder of this path. */
static bool is_folder(const char *path) {
  return (path[0] && path[strlen(path) - 1] == '/') || gconv_is_folder(path);
}

/* Whether the output `path` is a folder, as it is for `many` inputs if it has no known extension. "-" is standard output. */
static bool names_folder(const char *path, bool many) {
  return strcmp(path, "-") != 0 && (is_folder(path) || (many && !gconv_format_by_path(path)));
}

/* Writes all extensions that can be written: "png jpg jpeg ...". */
static void list_extensions(char *text, size_t size) {
  const gconv_format_info *format;
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; used < size && (format = gconv_format_at(i)); i++)
    if (format->writes)
      used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " " : "", format->extensions);
}

/* Returns whether `path` is standard output, a pipe or a device. */
static bool is_special(const char *path) {
  struct stat status;
  return strcmp(path, "-") == 0 || (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode));
}

const gconv_format_info *gconv_output_format(const char *path) {
  const gconv_format_info *format = gconv_format_by_path(path);
  return format || !path || !is_special(path) ? format : gconv_format_by_name("png");
}

static gconv_status choose_format(const struct namer *namer, bool by_extension) {
  const gconv_naming *naming = namer->naming;
  const gconv_format_info *format = naming->format;
  if (namer->outputs->same)
    return GCONV_OK;
  if (!format)
    format = gconv_output_format(by_extension ? naming->output : "-");
  if (!format && gconv_template_is_one(naming->output) && is_folder(naming->output))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: a { begins a field of a template, which ends in the name of a file, such as '{stem}.png'; a "
                      "brace that belongs to a name is written twice: {{ and }}",
                      naming->output);
  const size_t length = strlen(naming->output);
  if (!format && length > 3 && strcmp(naming->output + length - 3, ".gz") == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: files of gzip are read, but not written: leave out .gz, and gzip the result",
                      naming->output);
  if (!format) {
    char known[256];
    list_extensions(known, sizeof known);
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: has no known extension (%s): give it one, or choose with --format; a folder ends in /",
                      naming->output, known);
  }
  if (!format->writes)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the format %s can be read, but not written: write png, tiff or another",
                      naming->output, format->name);
  namer->outputs->format = format;
  return GCONV_OK;
}

/* Stores the templates for inputs with one frame and with several frames. The outputs own them from now on. */
static gconv_status set_pattern(struct namer *namer, char *pattern, char *of_frames) {
  namer->outputs->pattern = pattern;
  namer->outputs->of_frames = of_frames;
  return pattern && of_frames ? GCONV_OK : gconv_no_memory();
}

/* Names results in a folder. `folder`: its path as a template without fields. */
static gconv_status name_folder(struct namer *namer, const char *folder) {
  GCONV_TRY(choose_format(namer, false));
  const gconv_format_info *format = namer->outputs->format;
  const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/",
             *filter = namer->outputs->labels.count > 1 ? "_{filter}" : "";
  const char *extension = format ? format->extensions : "{ext}";
  int length = (int)strcspn(extension, " ");
  namer->outputs->mirrors = namer->outputs->make_folders = true;
  return set_pattern(namer, gconv_format_text("%s%s{stem}%s.%.*s", folder, slash, filter, length, extension),
                     gconv_format_text("%s%s{stem}%s_{frame}.%.*s", folder, slash, filter, length, extension));
}

/* Names results by the path `plain` of a folder or a file. `fixed`: the same path as a template without fields. */
static gconv_status name_plainly(struct namer *namer, const char *plain, const char *fixed) {
  if (names_folder(plain, namer->inputs->many))
    return name_folder(namer, fixed);
  GCONV_TRY(set_pattern(namer, strdup(fixed), strdup(fixed)));
  GCONV_TRY(choose_format(namer, true));
  if (strcmp(plain, "-") == 0 && isatty(STDOUT_FILENO))
    return gconv_fail(GCONV_BAD_ARGUMENT, "-: an image is not written to a terminal: send it to a file or another program");
  return GCONV_OK;
}

static gconv_status name_by_output(struct namer *namer) {
  const char *output = namer->naming->output;
  gconv_outputs *outputs = namer->outputs;
  outputs->in_place = namer->naming->in_place;
  outputs->planes = namer->naming->planes;
  if (outputs->in_place) {
    outputs->same = true;
    return set_pattern(namer, strdup("{stem}.{ext}"), strdup("{stem}.{ext}"));
  }
  bool template = gconv_template_is_one(output);
  if (output[0] == '\0')
    return gconv_fail(GCONV_BAD_ARGUMENT, "the name of the output is empty");
  outputs->same = namer->naming->same || (template && !namer->naming->format && gconv_template_has(output, "ext"));
  if (template) {
    GCONV_TRY(set_pattern(namer, strdup(output), strdup(output)));
    outputs->mirrors = outputs->make_folders = true;
    return choose_format(namer, true);
  }
  GCONV_FREED char *plain = gconv_template_plain(output), *fixed = plain ? gconv_template_escape(plain) : NULL;
  return fixed ? name_plainly(namer, plain, fixed) : gconv_no_memory();
}

/* ---- Filters and frames -------------------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b) {
  return strcmp(((const gconv_filter *)a)->name, ((const gconv_filter *)b)->name);
}

static void keep_filter(void *filter) {
  (void)filter; /* it belongs to the caller */
}

/* Returns for each filter whether another has the same name. For free(); NULL without memory. */
static bool *find_shared_names(const gconv_filters *filters) {
  GCONV_FREED bool *shared = calloc(filters->count, sizeof *shared);
  bool good = shared != NULL;
  void *first = NULL; /* a tree of the first filters of each name */
  for (size_t k = 0; k < filters->count && good; k++) {
    gconv_filter **found = tsearch(&filters->items[k], &first, compare_names);
    good = found != NULL;
    if (good && *found != &filters->items[k])
      shared[k] = shared[*found - filters->items] = true;
  }
  tdestroy(first, keep_filter);
  return good ? gconv_taken(&shared) : NULL;
}

/* Writes the name of filter k, with _ for characters that file names must not have, and the filter's number if another
 * filter has the same name (`shared`). */
static void put_label(FILE *out, const gconv_filters *filters, size_t k, bool shared) {
  for (const char *at = filters->items[k].name; *at; at++)
    fputc(*at == '/' || (unsigned char)*at < ' ' ? '_' : *at, out);
  if (shared)
    fprintf(out, "_%zu", k + 1);
}

/* Adds the label of the result of filters first .. first + count - 1: their names with + between them. */
static bool add_label(struct namer *namer, size_t first, size_t count, const bool *shared) {
  char *label = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&label, &size);
  for (size_t k = first; out && k < first + count; k++) {
    if (k > first)
      fputc('+', out);
    put_label(out, namer->naming->filters, k, shared[k]);
  }
  return out && gconv_close_text(out, &label) && gconv_texts_add(&namer->outputs->labels, label);
}

/* Makes one label for each result of an input. */
static gconv_status make_labels(struct namer *namer) {
  size_t count = namer->naming->filters->count, step = namer->naming->each_filter ? 1 : count;
  GCONV_FREED bool *shared = count > 0 ? find_shared_names(namer->naming->filters) : NULL;
  bool made = shared || count == 0;
  for (size_t k = 0; k < count && made; k += step)
    made = add_label(namer, k, step, shared);
  return made ? GCONV_OK : gconv_no_memory();
}

bool gconv_outputs_are_apart(const gconv_outputs *outputs, const gconv_format_info *format) {
  return !format->multiframe || gconv_template_has(outputs->pattern, "frame");
}

/* Counts the files of one result of input i. An unreadable input counts as one file: it fails when it is carried. */
static size_t count_frames(const struct namer *namer, size_t i) {
  const gconv_input *input = &namer->inputs->items[i];
  const gconv_format_info *format = gconv_format_by_path(input->file);
  bool read = format && (format->multiframe || format->several) && gconv_path_is_file(input->file);
  if (!read || !gconv_outputs_are_apart(namer->outputs, namer->of_inputs[i]))
    return 1;
  GCONV_ENDED_BY(gconv_image_free) gconv_image header = {0};
  const gconv_read_options options = {.planes = namer->outputs->planes};
  return gconv_image_read_header_as(input->path, &options, &header) == GCONV_OK ? (size_t)header.frames : 1;
}

/* Fills outputs->first. */
static gconv_status count_results(const struct namer *namer) {
  size_t count = namer->inputs->count, *first = calloc(count + 1, sizeof *first);
  GCONV_NEED_MEMORY(first, "out of memory");
  namer->outputs->first = first;
  for (size_t i = 0; i < count; i++)
    first[i + 1] = first[i] + namer->outputs->labels.count * count_frames(namer, i);
  return GCONV_OK;
}

/* ---- Formats of inputs ---------------------------------------------------------------------------------------------- */

/* Finds the format of a result by the content of its input, and by the name if the input cannot be read. */
static const gconv_format_info *find_format(const gconv_input *input) {
  GCONV_ENDED_BY(gconv_image_free) gconv_image header = {0};
  const gconv_format_info *format = NULL;
  if (!gconv_path_is_file(input->file) || gconv_image_read_header(input->path, &header, &format) != GCONV_OK)
    format = gconv_format_by_path(input->file);
  return format && format->writes ? format : gconv_format_by_name(format && format->tensors ? "npy" : "png");
}

/* Fills namer->of_inputs, and outputs->format if all formats are the same. */
static gconv_status find_formats(struct namer *namer) {
  size_t count = namer->inputs->count;
  gconv_outputs *outputs = namer->outputs;
  GCONV_NEW(namer->of_inputs, count + 1, "out of memory");
  for (size_t i = 0; i < count; i++) {
    const gconv_input *input = &namer->inputs->items[i];
    if (outputs->same && !outputs->in_place && strcmp(input->path, "-") == 0)
      return gconv_fail(
          GCONV_BAD_ARGUMENT,
          "standard input has no format before it is read, so that --format same does not work: name a format");
    namer->of_inputs[i] = outputs->same ? find_format(input) : outputs->format;
  }
  bool alike = true;
  for (size_t i = 1; i < count; i++)
    alike &= namer->of_inputs[i] == namer->of_inputs[0];
  outputs->format = alike ? namer->of_inputs[0] : NULL;
  return GCONV_OK;
}

/* ---- The format ---------------------------------------------------------------------------------------------------- */

static bool is_one_file(const char *output, bool many) {
  size_t length = strlen(output);
  if (length == 0 || output[length - 1] == '/' || gconv_template_is_one(output))
    return false;
  GCONV_FREED char *path = gconv_template_plain(output);
  return !path || !names_folder(path, many);
}

const gconv_format_info *gconv_outputs_format(const gconv_naming *naming, bool many, bool *one_file) {
  if (!naming || !(naming->output || naming->in_place) || !one_file)
    return NULL;
  *one_file = false;
  if (naming->in_place)
    return gconv_output_format("-");
  *one_file = is_one_file(naming->output, many);
  const gconv_format_info *format = naming->format ? naming->format
                                    : *one_file || gconv_template_is_one(naming->output)
                                        ? gconv_format_by_path(naming->output)
                                        : NULL;
  return format ? format : gconv_output_format("-");
}

/* ---- All names ----------------------------------------------------------------------------------------------------- */

/* With --format same, refuses a name that has the extension of another format. */
static gconv_status check_extension(const struct namer *namer, size_t i, const char *path) {
  const gconv_format_info *format = namer->of_inputs[i], *named = gconv_format_by_path(path);
  if (!namer->outputs->same || !named || named == format)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s: --format same writes %s here, as %s is one: end the name in .{ext}, or name a folder", path,
                    format->name, namer->inputs->items[i].path);
}

/* Checks and keeps the suffix. It stands after {stem}, so the template must have that field. */
static gconv_status check_suffix(const struct namer *namer) {
  const char *suffix = namer->naming->suffix;
  if (suffix && suffix[0] && !(namer->outputs->suffix = strdup(suffix)))
    return gconv_no_memory();
  if (suffix && strchr(suffix, '/'))
    return gconv_fail(GCONV_BAD_ARGUMENT, "the suffix %s: it is a part of a name, without /", suffix);
  if (!suffix || gconv_template_has(namer->outputs->pattern, "stem"))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%s has no {stem}, after which the suffix could be put: name a folder (-o results/) or a template",
                    namer->naming->output);
}

/* Returns the values of all fields but {index} and {frame}, for results of this format. */
static gconv_template_values values_of(const struct namer *namer, const gconv_format_info *format, size_t input,
                                       size_t result) {
  const char *stem = gconv_path_name(namer->inputs->items[input].relative), *dot = strrchr(stem, '.');
  bool own = dot && gconv_format_by_path(stem) == format;
  const char *extension = own ? dot + 1 : format->extensions;
  return (gconv_template_values){.stem = stem,
                                 .stem_length = (int)gconv_path_stem(stem),
                                 .suffix = namer->naming->suffix ? namer->naming->suffix : "",
                                 .extension = extension,
                                 .extension_length = own ? (int)strlen(extension) : (int)strcspn(extension, " "),
                                 .filter = namer->outputs->labels.items[result]};
}

static gconv_status name_results_of(const struct namer *namer, size_t i) {
  const gconv_outputs *outputs = namer->outputs;
  const size_t *first = outputs->first, results = outputs->labels.count, frames = (first[i + 1] - first[i]) / results;
  for (size_t n = 0; n < first[i + 1] - first[i]; n++) {
    gconv_template_values values = values_of(namer, namer->of_inputs[i], i, n / frames);
    char *path = NULL;
    values.index = first[i] + n + 1;
    values.index_count = first[namer->inputs->count];
    values.frame = n % frames + 1;
    values.frame_count = frames;
    if (outputs->in_place)
      path = strdup(namer->inputs->items[i].file);
    else
      GCONV_TRY(make_path(namer, frames > 1 ? outputs->of_frames : outputs->pattern, namer->inputs->items[i].relative,
                          &values, &path));
    GCONV_NEED_MEMORY(gconv_texts_add(&namer->outputs->paths, path), "out of memory");
    outputs->formats[first[i] + n] = namer->of_inputs[i];
    if (!outputs->in_place)
      GCONV_TRY(check_extension(namer, i, path));
  }
  return GCONV_OK;
}

static gconv_status name_results(struct namer *namer) {
  GCONV_TRY(make_labels(namer));
  GCONV_TRY(name_by_output(namer));
  namer->outputs->keeps = namer->naming->keeps;
  if (!(namer->outputs->folder = gconv_template_folder(namer->outputs->pattern)))
    return gconv_no_memory();
  GCONV_TRY(check_suffix(namer));
  GCONV_TRY(find_formats(namer));
  GCONV_TRY(count_results(namer));
  size_t count = namer->outputs->first[namer->inputs->count];
  const char *extension = namer->outputs->format ? namer->outputs->format->extensions : "{ext}";
  if (count > 1 && !namer->outputs->make_folders && !namer->outputs->in_place)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: is one file, but there are %zu results: %sname a folder (-o results/), or a template with "
                      "{stem}, {filter}, {index} or {frame} ('results/{stem}_{filter}.%.*s')",
                      namer->naming->output, count,
                      namer->naming->each_filter && namer->naming->filters->count == count
                          ? "make one of all filters (--combine magnitude or mosaic), or "
                          : "",
                      (int)strcspn(extension, " "), extension);
  GCONV_NEW(namer->outputs->formats, count, "out of memory");
  for (size_t i = 0; i < namer->inputs->count; i++)
    GCONV_TRY(name_results_of(namer, i));
  return GCONV_OK;
}

static gconv_status name_all(const gconv_inputs *inputs, const gconv_naming *naming, gconv_outputs *outputs) {
  struct namer namer = {.inputs = inputs, .naming = naming, .outputs = outputs};
  GCONV_TRY(gconv_check_inputs(inputs));
  GCONV_NEED_KNOWN(naming);
  if (naming->filters->count == 0 || !naming->filters->items)
    return gconv_fail(GCONV_BAD_ARGUMENT, "naming->filters has no filter: results are named by them");
  gconv_status status = name_results(&namer);
  if (status != GCONV_OK)
    gconv_outputs_free(outputs);
  free(namer.of_inputs);
  return status;
}

gconv_status gconv_outputs_name(const gconv_inputs *inputs, const gconv_naming *naming, gconv_outputs *outputs,
                                gconv_message *message) {
  GCONV_NEED_TOLD(message, inputs, naming, outputs);
  GCONV_NEED_TOLD(message, naming->filters);
  if (!naming->in_place)
    GCONV_NEED_TOLD(message, naming->output);
  return gconv_tell(name_all(inputs, naming, outputs), message);
}

void gconv_outputs_keep(gconv_inputs *inputs, gconv_outputs *outputs, gconv_keeps *keeps, void *user) {
  size_t kept = 0, paths = 0, begin = 0;
  for (size_t i = 0; i < inputs->count; i++) {
    gconv_input *input = &inputs->items[i];
    size_t end = outputs->first[i + 1];
    bool mine = keeps(input, i, user);
    for (size_t n = begin; n < end; n++)
      if (mine) {
        outputs->formats[paths] = outputs->formats[n];
        outputs->paths.items[paths++] = outputs->paths.items[n];
      } else {
        free(outputs->paths.items[n]);
      }
    begin = end;
    if (mine) {
      inputs->items[kept++] = *input;
      outputs->first[kept] = paths;
    } else {
      gconv_input_free(input);
    }
  }
  inputs->count = kept;
  outputs->paths.count = paths;
}

/* ---- Frames that were not known beforehand ------------------------------------------------------------------------- */

gconv_status gconv_outputs_name_frame(const gconv_inputs *inputs, const gconv_outputs *outputs, size_t input, size_t result,
                                      size_t frame, char **path) {
  const gconv_format_info *format = outputs->formats[outputs->first[input]];
  gconv_naming naming = {.output = outputs->pattern, .suffix = outputs->suffix};
  gconv_outputs known = *outputs;
  struct namer namer = {.inputs = inputs, .naming = &naming, .outputs = &known};
  bool apart = gconv_template_has(outputs->of_frames, "frame") ||
               (gconv_template_has(outputs->of_frames, "index") && inputs->count == 1);
  if (!outputs->make_folders || !apart)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "several images came, and %s is for one: name a folder (-o results/), a template with {frame} "
                      "('results/{stem}_{frame}.%.*s'), or a file of a format that holds several (results.ppm)",
                      strcmp(outputs->pattern, "-") == 0 ? "standard output" : outputs->pattern,
                      (int)strcspn(format->extensions, " "), format->extensions);
  gconv_template_values values = values_of(&namer, format, input, result);
  values.frame = frame;
  values.index = (frame - 1) * outputs->labels.count + result + 1;
  values.frame_count = values.index_count = 999999;
  return make_path(&namer, outputs->of_frames, inputs->items[input].relative, &values, path);
}

void gconv_outputs_free(gconv_outputs *outputs) {
  if (!outputs)
    return;
  free(outputs->pattern);
  free(outputs->folder);
  free(outputs->of_frames);
  free(outputs->suffix);
  gconv_texts_free(&outputs->labels);
  gconv_texts_free(&outputs->paths);
  free(outputs->formats);
  free(outputs->first);
  *outputs = (gconv_outputs){0};
}
