/* SPDX-License-Identifier: MIT */
/* gconv info: what an image, a filter, a bank or a network is. */
#include "base/ending.h"
#include "base/folders.h"
#include "base/memory.h"
#include "cli/bank.h"
#include "cli/learn.h"
#include "cli/sandbox.h"
#include "cli/telling.h"
#include "cli/terminal.h"
#include "gconv_classify.h"
#include "gconv_jobs.h"
#include "gconv_learn.h"

#include <string.h>
#include <unistd.h>

enum { PRINTED_SIZE = 9 }; /* the largest filters whose taps are printed */

/* The report of the command. */
typedef struct telling {
  const gconv_common *settings;
  json_t *list; /* with --json: the report so far; owned */
} telling;

/* ---- Images -------------------------------------------------------------------------------------------------------- */

static const double INCH = 0.0254; /* metres */

static void print_resolution(const gconv_image *image) {
  if (image->pixels_per_metre_x > 0 && image->pixels_per_metre_y > 0)
    printf("  resolution  %.4g x %.4g pixels an inch\n", image->pixels_per_metre_x * INCH, image->pixels_per_metre_y * INCH);
  else if (image->unitless_x > 0)
    printf("  resolution  %.4g x %.4g, without a unit\n", image->unitless_x, image->unitless_y);
}

static void print_bytes(const char *what, size_t bytes) {
  if (bytes > 0)
    printf("  %s %zu bytes\n", what, bytes);
}

static void print_image(const char *path, const gconv_image *image, const gconv_format_info *format) {
  gconv_print(stdout, "%s: image, %s\n", path, format->name);
  printf("  size        %d x %d (width x height)", (int)image->width, (int)image->height);
  if (image->frames > 1)
    printf(", %d frames", (int)image->frames);
  printf("\n  channels    %d%s%s\n", (int)image->channels, image->alpha ? ", the last is alpha" : "",
         image->cmyk ? ", of CMYK in the file, which becomes RGB" : "");
  printf("  depth       %s\n", gconv_type_name(image->type));
  print_bytes("ICC profile", image->icc_bytes);
  print_resolution(image);
  print_bytes("EXIF       ", image->exif_bytes);
  print_bytes("XMP        ", image->xmp_bytes);
  if (image->comment)
    printf("  comment     %zu bytes\n", strlen(image->comment));
  bool of_fits = strcmp(format->name, "fits") == 0;
  print_bytes(of_fits ? "header      of FITS:" : "TIFF tags   places on Earth, spacing, axes:", image->tags_bytes);
  if (image->has_nodata)
    printf("  no data     %.9g\n", image->nodata);
  if (image->left_out)
    gconv_print(stdout, "  not read    %s\n", image->left_out);
}

static json_t *describe_pair(bool known, double x, double y) {
  return known ? json_pack("[f, f]", x, y) : json_null();
}

static json_t *describe_image(const char *path, const gconv_image *image, const gconv_format_info *format) {
  bool resolution = image->pixels_per_metre_x > 0 && image->pixels_per_metre_y > 0;
  char nodata[32];
  snprintf(nodata, sizeof nodata, "%.17g", image->nodata); /* JSON has no NaN */
  return json_pack("{s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:b, s:b, s:s, s:o, s:o, s:o, s:I, s:o, s:I, s:I, s:I, s:o}", "path",
                   gconv_json_text(path), "kind", "image", "format", format->name, "width", (int)image->width, "height",
                   (int)image->height, "frames", (int)image->frames, "channels", (int)image->channels, "alpha", image->alpha,
                   "cmyk", image->cmyk, "depth", gconv_type_name(image->type), "pixels_per_inch",
                   describe_pair(resolution, image->pixels_per_metre_x * INCH, image->pixels_per_metre_y * INCH),
                   "resolution_without_unit", describe_pair(image->unitless_x > 0, image->unitless_x, image->unitless_y),
                   "nodata", gconv_json_text(image->has_nodata ? nodata : NULL), "tiff_tags_bytes",
                   (json_int_t)image->tags_bytes, "not_read", gconv_json_text(image->left_out), "icc_bytes",
                   (json_int_t)image->icc_bytes, "exif_bytes", (json_int_t)image->exif_bytes, "xmp_bytes",
                   (json_int_t)image->xmp_bytes, "comment", gconv_json_text(image->comment));
}

/* ---- Filters ------------------------------------------------------------------------------------------------------- */

static const char *parity(bool symmetric, bool antisymmetric) {
  return symmetric ? "symmetric" : antisymmetric ? "antisymmetric" : "neither symmetric nor antisymmetric";
}

static void print_rank(int32_t rank) {
  if (rank < 0)
    puts("  rank        not computed for a filter of this size");
  else
    printf("  rank        %d%s\n", (int)rank, rank == 1 ? " (separable)" : "");
}

static void print_taps(const gconv_filter *filter) {
  if (filter->rows > PRINTED_SIZE || filter->columns > PRINTED_SIZE)
    return;
  for (int32_t r = 0; r < filter->rows; r++) {
    fputs("   ", stdout);
    for (int32_t s = 0; s < filter->columns; s++)
      printf(" %10.5g", (double)filter->taps[(size_t)r * (size_t)filter->columns + (size_t)s]);
    putchar('\n');
  }
}

static json_t *describe_filter(const gconv_filter *filter, const gconv_filter_analysis *found) {
  json_t *object = json_pack("{s:o, s:s, s:i, s:i, s:[i, i], s:f, s:f, s:f, s:f, s:f, s:i}", "name",
                             gconv_json_text(filter->name), "kind", "filter", "rows", (int)filter->rows, "columns",
                             (int)filter->columns, "anchor", (int)filter->anchor_row, (int)filter->anchor_column, "sum",
                             found->sum, "positive_sum", found->positive_sum, "negative_sum", found->negative_sum, "divisor",
                             (double)filter->divisor, "offset", (double)filter->offset, "rank", (int)found->rank);
  json_t *taps = json_array();
  for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++)
    json_array_append_new(taps, json_real((double)filter->taps[i]));
  json_object_set_new(object, "taps", taps);
  return object;
}

static gconv_status tell_filter(const telling *t, const gconv_filter *filter) {
  gconv_filter_analysis found;
  GCONV_TRY(gconv_filter_analyze(filter, &found));
  if (t->list) {
    json_array_append_new(t->list, describe_filter(filter, &found));
    return GCONV_OK;
  }
  gconv_print(stdout, "%s: filter\n", filter->name);
  printf("  size        %d x %d (rows x columns), anchor at row %d, column %d\n", (int)filter->rows, (int)filter->columns,
         (int)filter->anchor_row, (int)filter->anchor_column);
  printf("  sum         %.6g (positive taps %.6g, negative taps %.6g)\n", found.sum, found.positive_sum, found.negative_sum);
  if (filter->divisor != 1 || filter->offset != 0)
    printf("  divisor     %.9g, offset %.9g\n", (double)filter->divisor, (double)filter->offset);
  printf("  upside down %s\n", parity(found.symmetric_rows, found.antisymmetric_rows));
  printf("  mirrored    %s\n", parity(found.symmetric_columns, found.antisymmetric_columns));
  print_rank(found.rank);
  printf("  zero taps   %lld of %lld\n", (long long)found.zero_taps, (long long)filter->rows * filter->columns);
  print_taps(filter);
  return GCONV_OK;
}

static gconv_status inform_filter(const telling *t, const char *spec) {
  GCONV_ENDED_BY(gconv_filters_free) gconv_filters filters = {0};
  GCONV_TRY(gconv_filters_read(spec, t->settings->syntax, &filters));
  for (size_t i = 0; i < filters.count; i++)
    GCONV_TRY(tell_filter(t, &filters.items[i]));
  return GCONV_OK;
}

/* ---- Words --------------------------------------------------------------------------------------------------------- */

/* Fails if the word names no image that can be read. */
static gconv_status inform_image(const telling *t, const char *word) {
  GCONV_ENDED_BY(gconv_image_free) gconv_image image = {0};
  const gconv_format_info *format = NULL;
  GCONV_TRY(gconv_image_read_header(word, &image, &format));
  if (t->list)
    json_array_append_new(t->list, describe_image(word, &image, format));
  else
    print_image(word, &image, format);
  return GCONV_OK;
}

/* Prints an error, and adds it to the list. Returns `status`. */
static gconv_status complain(const telling *t, const char *word, gconv_status status, const char *text) {
  gconv_say("%s", text);
  if (t->list)
    json_array_append_new(t->list, json_pack("{s:o, s:s, s:o}", "path", gconv_json_text(word), "kind", "error", "error",
                                             gconv_json_text(text)));
  return status;
}

/* Standard input can be read only once: it is an image, unless the syntax of filters is given. */
static gconv_status inform_standard_input(const telling *t) {
  if (inform_image(t, "-") == GCONV_OK)
    return GCONV_OK;
  gconv_fail(GCONV_BAD_FILE, "%s; for a filter, give its --filter-format", gconv_last_error());
  return complain(t, "-", GCONV_BAD_FILE, gconv_last_error());
}

/* If the word names a network, a support vector machine or a bank, sets *is_one, and prints it. With -o, which may_draw()
 * allows for an ONNX model only, draws its graph instead; with --json, also lists it. */
static gconv_status inform_model(const telling *t, const char *word, bool *is_one) {
  bool network = gconv_network_is_one(word), model = !network && gconv_svm_is_one(word);
  bool bank = !network && !model && gconv_bank_is_one(word);
  const char *output = t->settings->output;
  gconv_status status = GCONV_OK;
  *is_one = network || model || bank;
  if (*is_one && output)
    status = gconv_graph_print(word, output);
  if (status != GCONV_OK)
    return complain(t, word, status, gconv_last_error());
  if (*is_one && t->list) {
    const char *kind = network ? "network" : model ? "svm" : "bank";
    json_array_append_new(t->list, json_pack("{s:o, s:s}", "path", gconv_json_text(word), "kind", kind));
  } else if (bank && !output) {
    if (gconv_model_is_one(word))
      (void)gconv_graph_print(word, NULL); /* it fails for a model that is no network, which has banks, too */
    return gconv_bank_print(word) ? GCONV_OK : GCONV_BAD_FILE;
  } else if (*is_one && !output) {
    status = network ? gconv_network_print(word) : gconv_svm_print(word);
  }
  return status == GCONV_OK ? GCONV_OK : complain(t, word, status, gconv_last_error());
}

/* Prints what a word names: an image, if it is a file with such content; else a model, a bank or filters. */
static gconv_status inform(const telling *t, const char *word) {
  const char *syntax = t->settings->syntax;
  gconv_message why_no_image = {.text = ""};
  bool file = access(word, F_OK) == 0, image_name = gconv_format_by_path(word) != NULL, is_model = false;
  gconv_status as_image = GCONV_BAD_FILE;
  if (!syntax && strcmp(word, "-") == 0)
    return inform_standard_input(t);
  if (!syntax && file) {
    as_image = inform_image(t, word);
    if (as_image == GCONV_OK)
      return GCONV_OK;
    gconv_complain(&why_no_image, GCONV_OK, "%s", gconv_last_error());
  }
  if (!syntax && !file && strchr(word, ':')) { /* one image of a file, perhaps */
    as_image = inform_image(t, word);
    if (as_image == GCONV_OK)
      return GCONV_OK;
    if (as_image == GCONV_BAD_ARGUMENT) /* the file has images, but not this one */
      return complain(t, word, as_image, gconv_last_error());
  }
  gconv_status status = syntax ? GCONV_OK : inform_model(t, word, &is_model);
  if (is_model)
    return status;
  status = inform_filter(t, word);
  if (status == GCONV_OK)
    return status;
  gconv_message missing = {.text = ""};
  if (!file && (image_name || strchr(word, '/')) && !strchr(word, ':')) /* kernels as text have a colon */
    gconv_complain(&missing, status, "%s: no such file", word);
  bool unread = (image_name || as_image == GCONV_UNSUPPORTED) && why_no_image.text[0];
  return complain(t, word, status, missing.text[0] ? missing.text : unread ? why_no_image.text : gconv_last_error());
}

/* ---- Folders -------------------------------------------------------------------------------------------------------- */

/* Prints the images of a folder. Each one counts in the tally. */
static void inform_folder(const telling *t, char *word, gconv_tally *tally) {
  const gconv_texts specs = {&word, 1};
  gconv_inputs images = {0};
  if (gconv_inputs_find(&specs, t->settings->recursive, "-", &images, &(gconv_message){0}) != GCONV_OK)
    gconv_tally_add(tally, word, complain(t, word, GCONV_BAD_ARGUMENT, gconv_last_error()));
  else
    for (size_t i = 0; i < images.missed.count; i++)
      gconv_tally_add(tally, word, complain(t, word, GCONV_IO_ERROR, images.missed.items[i]));
  for (size_t i = 0; i < images.count; i++) {
    char *path = images.items[i].path;
    gconv_status status = inform_image(t, path);
    gconv_tally_add(tally, path, status == GCONV_OK ? status : complain(t, path, status, gconv_last_error()));
  }
  gconv_inputs_free(&images);
}

#define OPTION(...) GCONV_OPTION(gconv_common, __VA_ARGS__)
static const gconv_option options[] = {
    GCONV_NO_SANDBOX_ROW,
    OPTION('r', "recursive", NULL, flag, recursive, .help = "also the sub-folders of folders"),
    OPTION('o', "output", "FILE", once, output, .help = "draw the graph of an ONNX model: FILE.svg"),
    OPTION(0, "json", NULL, flag, json,
           .help = "print JSON: a list of images and filters; for banks and networks, use bank info --json"),
    GCONV_FILTER_SYNTAX_ROW,
    GCONV_OPTIONS_END,
};

/* Whether a drawing can be written; else prints the error. */
static bool may_draw(const gconv_common *settings, const gconv_texts *words) {
  if (words->count != 1 || !gconv_model_is_one(words->items[0]))
    gconv_refuse("-o %s: a drawing is of one ONNX model: name one, gconv info model.onnx -o graph.svg", settings->output);
  else if (!gconv_ends_in(settings->output, ".svg"))
    gconv_refuse("-o %s: the graph is drawn as SVG: -o %s.svg", settings->output, settings->output);
  else if (gconv_data_check_output("-o", settings->output, "svg", "a drawing", words) == GCONV_OK)
    return true;
  gconv_say("%s", gconv_last_error());
  return false;
}

static int run(void *record, const gconv_texts *words) {
  const gconv_common *settings = record;
  gconv_tally tally = {0};
  telling t = {.settings = settings, .list = settings->json ? json_array() : NULL};
  if (settings->output && !may_draw(settings, words))
    return GCONV_EXIT_USAGE;
  gconv_sandbox_file(settings, settings->output);
  if (words->count == 0) {
    gconv_say("info: name an image or a filter");
    return GCONV_EXIT_USAGE;
  }
  for (size_t i = 0; i < words->count; i++) {
    if (gconv_is_folder(words->items[i]))
      inform_folder(&t, words->items[i], &tally);
    else
      gconv_tally_add(&tally, words->items[i], inform(&t, words->items[i]));
  }
  if (!gconv_tell_end(stdout, t.list, JSON_INDENT(1)))
    tally.failed = tally.done;
  return gconv_tally_end(&tally);
}

const gconv_command gconv_command_info = {
    .name = "info",
    .synopsis = "info PATH|SPEC... [OPTION...]",
    .help = "what an image, a folder of images, a filter, a bank or a network is: size, depth; taps; tensors; layers",
    .options = options,
    .words = GCONV_WORDS_FILTERS,
    .run = run,
};
