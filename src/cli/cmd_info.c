/* SPDX-License-Identifier: MIT */
/* gconv info: what an image, a filter, a bank or a network is. */
#include "base/printable.h"
#include "cli/bank.h"
#include "cli/sandbox.h"
#include "cli/svm.h"
#include "cli/terminal.h"
#include "gconv_learn.h"

#include <string.h>
#include <unistd.h>

enum { PRINTED_SIZE = 9 }; /* taps are printed of filters up to this size */

/* ---- Images -------------------------------------------------------------------------------------------------------- */

static void print_resolution(const gconv_image *image) {
  const double inch = 0.0254; /* metres */
  if (image->pixels_per_metre_x > 0 && image->pixels_per_metre_y > 0)
    printf("  resolution  %.4g x %.4g pixels an inch\n", image->pixels_per_metre_x * inch, image->pixels_per_metre_y * inch);
}

static void print_image(const char *path, const gconv_image *image, const gconv_format_info *format) {
  gconv_print(stdout, "%s: image, %s\n", path, format->name);
  printf("  size        %d x %d (width x height)", (int)image->width, (int)image->height);
  if (image->frames > 1)
    printf(", %d frames", (int)image->frames);
  printf("\n  channels    %d%s\n", (int)image->channels, image->alpha ? ", the last is alpha" : "");
  printf("  depth       %s\n", gconv_type_name(image->type));
  if (image->icc_bytes > 0)
    printf("  ICC profile %zu bytes\n", image->icc_bytes);
  print_resolution(image);
  if (image->exif_bytes > 0)
    printf("  EXIF        %zu bytes\n", image->exif_bytes);
  if (image->xmp_bytes > 0)
    printf("  XMP         %zu bytes\n", image->xmp_bytes);
  if (image->comment)
    printf("  comment     %zu bytes\n", strlen(image->comment));
}

/* ---- Filters ------------------------------------------------------------------------------------------------------- */

/* "symmetric", "antisymmetric" or "neither". */
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

static gconv_status print_filter(const gconv_filter *filter) {
  gconv_filter_analysis found;
  gconv_status status = gconv_filter_analyze(filter, &found);
  if (status != GCONV_OK)
    return status;
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

static gconv_status inform_filter(const char *spec, const char *syntax) {
  gconv_filters filters = {0};
  gconv_status status = gconv_filters_read(spec, syntax, &filters);
  for (size_t i = 0; i < filters.count && status == GCONV_OK; i++)
    status = print_filter(&filters.items[i]);
  gconv_filters_free(&filters);
  return status;
}

/* ---- Either -------------------------------------------------------------------------------------------------------- */

/* Fails if it is no image that can be read. */
static gconv_status inform_image(const char *word) {
  gconv_image image = {0};
  const gconv_format_info *format = NULL;
  gconv_status status = gconv_image_read_header(word, &image, &format);
  if (status != GCONV_OK)
    return status;
  print_image(word, &image, format);
  gconv_image_free(&image);
  return GCONV_OK;
}

/* Standard input can be read only once: it is an image, unless the syntax of filters is given. */
static gconv_status inform_standard_input(void) {
  if (inform_image("-") == GCONV_OK)
    return GCONV_OK;
  gconv_say("%s; for a filter, give its --filter-format", gconv_last_error());
  return GCONV_BAD_FILE;
}

/* A file that is an image by its content is an image, whatever else it might be; all the rest is a bank or a filter. */
static gconv_status inform(const char *word, const char *syntax) {
  gconv_message why_no_image = {.text = ""};
  bool file = access(word, F_OK) == 0, image_name = gconv_format_by_path(word) != NULL;
  gconv_status as_image = GCONV_BAD_FILE;
  if (!syntax && strcmp(word, "-") == 0)
    return inform_standard_input();
  if (!syntax && file) {
    as_image = inform_image(word);
    if (as_image == GCONV_OK)
      return GCONV_OK;
    gconv_complain(&why_no_image, GCONV_OK, "%s", gconv_last_error());
  }
  if (!syntax && !file && strchr(word, ':')) { /* one image of a file, perhaps */
    as_image = inform_image(word);
    if (as_image == GCONV_OK)
      return GCONV_OK;
    if (as_image == GCONV_BAD_ARGUMENT) { /* the file is one of images */
      gconv_say("%s", gconv_last_error());
      return as_image;
    }
  }
  if (!syntax && gconv_network_is_one(word)) {
    gconv_status network = gconv_network_print(word);
    if (network != GCONV_OK)
      gconv_say("%s", gconv_last_error());
    return network;
  }
  if (!syntax && gconv_svm_is_one(word)) {
    gconv_status model = gconv_svm_print(word);
    if (model != GCONV_OK)
      gconv_say("%s", gconv_last_error());
    return model;
  }
  if (!syntax && gconv_bank_is_one(word))
    return gconv_bank_print(word) ? GCONV_OK : GCONV_BAD_FILE;
  gconv_status status = inform_filter(word, syntax);
  if (status == GCONV_OK)
    return status;
  if (!file && (image_name || strchr(word, '/')) && !strchr(word, ':')) /* kernels as text have a colon */
    gconv_say("%s: no such file", word);
  else
    gconv_say("%s", (image_name || as_image == GCONV_UNSUPPORTED) && why_no_image.text[0] ? why_no_image.text
                                                                                          : gconv_last_error());
  return status;
}

static int run(gconv_settings *settings, const gconv_texts *words) {
  gconv_tally tally = {0};
  gconv_sandbox_file(settings, NULL);
  gconv_set_log(gconv_say_warning, NULL);
  if (words->count == 0) {
    gconv_say("info: name an image or a filter");
    return GCONV_EXIT_USAGE;
  }
  for (size_t i = 0; i < words->count; i++)
    gconv_tally_add(&tally, words->items[i], inform(words->items[i], settings->last.syntax));
  return gconv_tally_end(&tally);
}

const gconv_command gconv_command_info = {
    .name = "info",
    .synopsis = "info PATH|SPEC... [OPTION...]",
    .help = "what an image, a filter, a bank or a network is: size, depth; sum, symmetry, rank, taps; tensors; layers",
    .of = GCONV_OF_INFO,
    .words = GCONV_WORDS_FILTERS,
    .run = run,
};
