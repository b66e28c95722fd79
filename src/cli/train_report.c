/* SPDX-License-Identifier: MIT */
/* The report of a training: one file of HTML that needs no other files. */
#include "cli/bank.h"
#include "cli/page.h"
#include "cli/train.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_SIDE = 256 }; /* pixels of an example */

/* Puts planes of samples, where white is 1, into the page; only the middle of large planes. */
static void put_planes(FILE *out, const float *planes, int32_t channels, int32_t height, int32_t width, const char *title) {
  gconv_image image = {.type = GCONV_U8,
                       .frames = 1,
                       .height = height < MOST_SIDE ? height : MOST_SIDE,
                       .width = width < MOST_SIDE ? width : MOST_SIDE,
                       .channels = channels == 3 ? 3 : 1};
  if (gconv_image_allocate(&image) != GCONV_OK)
    return;
  size_t plane = (size_t)height * (size_t)width, top = (size_t)(height - image.height) / 2;
  size_t first = top * (size_t)width + (size_t)(width - image.width) / 2;
  for (int32_t c = 0; c < image.channels; c++)
    for (int32_t y = 0; y < image.height; y++)
      for (int32_t x = 0; x < image.width; x++) {
        float value = planes[(size_t)c * plane + first + (size_t)y * (size_t)width + (size_t)x] * 255;
        uint8_t *row = (uint8_t *)image.data + (size_t)y * image.row_bytes;
        row[x * image.channels + c] = (uint8_t)(value < 0 || isnan(value) ? 0 : value > 255 ? 255 : lrintf(value));
      }
  int zoom = image.width < 128 ? 256 / image.width : 1;
  gconv_page_image(out, &image, title, zoom < 1 ? 1 : zoom);
  gconv_image_free(&image);
}

/* ---- Parts of the page ------------------------------------------------------------------------------------------------ */

static void put_summary(FILE *out, const gconv_training_run *run) {
  const gconv_train_settings *settings = run->settings;
  const gconv_dataset_info *info = gconv_dataset_get_info(gconv_data_cases(&run->data));
  char text[200];
  fputs("<table class='summary'>\n", out);
  gconv_data_describe(info, settings->cases.data.kind, text, sizeof text);
  gconv_page_row(out, "data", "%s: %s", settings->cases.data.inputs, text);
  if (run->data.validation)
    gconv_page_row(out, "validation", "%zu cases (%s)", gconv_dataset_get_info(run->data.validation)->cases,
                   settings->validate);
  gconv_page_row(out, "network", "%s", settings->net);
  char *words = run->network.trained ? gconv_trained_words(run->network.trained) : NULL;
  if (words)
    gconv_page_row(out, "how", "%s", words);
  free(words);
  gconv_page_row(out, "epochs", "%zu, %.2f s%s%s", run->epoch_count, run->seconds, run->ended ? "; " : "",
                 run->ended ? run->ended : "");
  if (run->best.number > 0) {
    gconv_page_row(out, "best epoch", "%zu", run->best.number);
    gconv_page_row(out, "loss", "%.6g", run->best.loss);
    if (!isnan(run->best.accuracy))
      gconv_page_row(out, "accuracy while it learned", "%.2f%%", 100 * run->best.accuracy);
    if (!isnan(run->best.validation_loss))
      gconv_page_row(out, "loss of the validation", "%.6g", run->best.validation_loss);
    if (!isnan(run->best.validation_accuracy))
      gconv_page_row(out, "accuracy of the validation", "%.2f%%", 100 * run->best.validation_accuracy);
  }
  fputs("</table>\n", out);
}

static void put_confusion(FILE *out, const gconv_training_run *run) {
  const gconv_confusion *c = &run->confusion;
  if (c->cases == 0)
    return;
  fprintf(out,
          "<h2>Confusion</h2>\n<p>%s: %zu of %zu cases are right, %.2f%%. A row is a true class, a column is a predicted "
          "class.</p>\n",
          run->data.validation ? "Of the validation" : "Of the data that were learned", c->right, c->cases,
          100.0 * (double)c->right / (double)c->cases);
  gconv_page_confusion(out, c);
}

static void put_filters(FILE *out, const gconv_training_run *run) {
  enum { MOST_WEIGHTS = 1 << 17, SIDE = 48, PLACE = 10 /* pixels of a filter, and of one that is a single weight */ };
  for (size_t i = 0; i < run->network.count; i++) {
    const gconv_bank *bank = run->network.layers[i].bank;
    gconv_image sheet = {0};
    if (!bank)
      continue;
    size_t weights = (size_t)bank->filters * (size_t)bank->channels * (size_t)bank->rows * (size_t)bank->columns;
    const int32_t side = bank->rows > bank->columns ? bank->rows : bank->columns;
    const bool table = side == 1 && bank->channels > 1;
    const gconv_bank_sheet small = {.zoom = table         ? PLACE
                                            : side < SIDE ? SIDE / side
                                                          : 1,
                                    .columns = table,
                                    .one_scale = table};
    if (weights > MOST_WEIGHTS || gconv_bank_draw(bank, &small, &sheet) != GCONV_OK)
      return;
    if (table)
      fprintf(out,
              "<h2>Weights of the first layer</h2>\n<p>A row for each of %d outputs, a column for each of %d inputs. "
              "Mid-grey is 0, the brightest and darkest are the largest weights.</p>\n",
              (int)bank->filters, (int)bank->channels);
    else
      fprintf(out,
              "<h2>Filters of the first layer</h2>\n<p>%d filters of %d x %d, %d channel%s. Each is scaled by its largest "
              "weight; 0 is mid-grey.</p>\n",
              (int)bank->filters, (int)bank->rows, (int)bank->columns, (int)bank->channels, bank->channels == 1 ? "" : "s");
    gconv_page_image(out, &sheet, "filters", 1);
    gconv_image_free(&sheet);
    return;
  }
}

/* Puts some pairs into the page: before, after, wanted. */
static void put_examples(FILE *out, const gconv_training_run *run) {
  enum { EXAMPLES = 4, MOST_FLOATS = 1 << 24 };
  const gconv_dataset *data = run->data.validation ? run->data.validation : gconv_data_cases(&run->data);
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  size_t floats = (size_t)info->channels * (size_t)info->height * (size_t)info->width;
  if (run->settings->cases.data.kind != GCONV_DATASET_PAIRS || floats > MOST_FLOATS)
    return;
  gconv_predictor p = {0};
  float *inputs = malloc(floats * sizeof *inputs), *targets = malloc(info->outputs * sizeof *targets);
  float *outputs = malloc(info->outputs * sizeof *outputs);
  bool good = inputs && targets && outputs &&
              gconv_predictor_open(&run->network, run->device, info->channels, info->height, info->width, &p) == GCONV_OK &&
              p.output_floats == info->outputs;
  if (good)
    fprintf(out, "<h2>Examples</h2>\n<p>Before, after, and what was wanted%s.</p>\n",
            info->height > MOST_SIDE || info->width > MOST_SIDE ? "; the middle of each" : "");
  for (size_t i = 0; i < EXAMPLES && i < info->cases && good; i++) {
    size_t number = i * info->cases / (info->cases < EXAMPLES ? info->cases : EXAMPLES);
    good = gconv_dataset_read(data, 0, &number, 1, inputs, targets) == GCONV_OK &&
           gconv_predictor_run(&p, inputs, 1, outputs) == GCONV_OK;
    if (!good)
      break;
    fputs("<p>", out);
    put_planes(out, inputs, info->channels, info->height, info->width, "before");
    put_planes(out, outputs, info->target_channels, info->target_height, info->target_width, "after");
    put_planes(out, targets, info->target_channels, info->target_height, info->target_width, "wanted");
    fputs("</p>\n", out);
  }
  free(inputs);
  free(targets);
  free(outputs);
  gconv_predictor_free(&p);
}

void gconv_train_put_report(FILE *out, const void *context) {
  const gconv_training_run *run = context;
  gconv_page_begin(out, "train", run->settings->common.output);
  put_summary(out, run);
  fputs("<h2>Curves</h2>\n", out);
  gconv_train_draw(out, run, true);
  if (run->best.number > 0)
    fprintf(out, "<p>The dashed line is epoch %zu, whose weights are kept.</p>\n", run->best.number);
  put_confusion(out, run);
  put_filters(out, run);
  put_examples(out, run);
  gconv_page_end(out);
}

void gconv_train_put_plot(FILE *out, const void *run) {
  fputs("<?xml version='1.0' encoding='UTF-8'?>\n", out);
  gconv_train_draw(out, run, false);
}
