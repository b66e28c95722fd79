/* SPDX-License-Identifier: MIT */
/* The page that tells of a training: one file of HTML without outside parts. */
#include "base/checksum.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cli/train.h"
#include "cli/trained.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIDE = 256 }; /* pixels of an example */

/* ---- Pictures --------------------------------------------------------------------------------------------------------- */

static void put_number(uint8_t at[4], uint32_t number) {
  for (int i = 0; i < 4; i++)
    at[i] = (uint8_t)(number >> (24 - 8 * i));
}

/* Appends a chunk of a PNG to what is at `to`; returns what follows it. */
static uint8_t *put_chunk(uint8_t *to, const char *name, const uint8_t *data, size_t size) {
  put_number(to, (uint32_t)size);
  memcpy(to + 4, name, 4);
  if (size > 0)
    memmove(to + 8, data, size);
  put_number(to + 8 + size, gconv_crc32(0, to + 4, size + 4));
  return to + 12 + size;
}

/* Makes a PNG, whose rows are not compressed: they are small. NULL without memory. */
static uint8_t *make_png(const gconv_image *image, size_t *size) {
  enum { BLOCK = 65535 };
  const size_t row = (size_t)image->width * (size_t)image->channels, raw = (row + 1) * (size_t)image->height;
  const size_t blocks = (raw + BLOCK - 1) / BLOCK, stored = 2 + raw + 5 * blocks + 4;
  uint8_t *rows = malloc(raw), *data = malloc(stored), *png = malloc(stored + 128), *to = data;
  uint8_t head[13] = {[8] = 8, [9] = image->channels == 3 ? 2 : 0};
  if (rows && data && png) {
    for (size_t y = 0; y < (size_t)image->height; y++) {
      rows[y * (row + 1)] = 0;
      memcpy(rows + y * (row + 1) + 1, (const uint8_t *)image->data + y * image->row_bytes, row);
    }
    *to++ = 0x78;
    *to++ = 0x01;
    for (size_t done = 0; done < raw; done += BLOCK) {
      size_t length = raw - done < BLOCK ? raw - done : BLOCK;
      *to++ = done + length == raw;
      *to++ = (uint8_t)length;
      *to++ = (uint8_t)(length >> 8);
      *to++ = (uint8_t)~length;
      *to++ = (uint8_t)(~length >> 8);
      memcpy(to, rows + done, length);
      to += length;
    }
    put_number(to, gconv_adler32(1, rows, raw));
    put_number(head, (uint32_t)image->width);
    put_number(head + 4, (uint32_t)image->height);
    memcpy(png, "\x89PNG\r\n\x1a\n", 8);
    to = put_chunk(png + 8, "IHDR", head, sizeof head);
    to = put_chunk(to, "IDAT", data, stored);
    *size = (size_t)(put_chunk(to, "IEND", NULL, 0) - png);
  } else {
    free(png);
    png = NULL;
  }
  free(rows);
  free(data);
  return png;
}

static void put_base64(FILE *out, const uint8_t *bytes, size_t size) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < size; i += 3) {
    uint32_t group =
        (uint32_t)bytes[i] << 16 | (i + 1 < size ? (uint32_t)bytes[i + 1] << 8 : 0) | (i + 2 < size ? bytes[i + 2] : 0);
    for (int k = 0; k < 4; k++)
      fputc(i + (size_t)k <= size ? letters[group >> (18 - 6 * k) & 63] : '=', out);
  }
}

/* Puts a u8 image of 1 or 3 channels into the page. */
static void put_image(FILE *out, const gconv_image *image, const char *title, int zoom) {
  size_t size = 0;
  uint8_t *png = make_png(image, &size);
  if (!png)
    return;
  fprintf(out, "<img alt='%s' title='%s' width='%d' height='%d' src='data:image/png;base64,", title, title,
          (int)image->width * zoom, (int)image->height * zoom);
  put_base64(out, png, size);
  fputs("'>\n", out);
  free(png);
}

/* Puts planes of samples, where white is 1, into the page: of large ones the middle, as a page is to be read. */
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
  put_image(out, &image, title, zoom < 1 ? 1 : zoom);
  gconv_image_free(&image);
}

/* ---- Parts of the page ------------------------------------------------------------------------------------------------ */

/* A text with the letters escaped that mean something in HTML. */
static void put_text(FILE *out, const char *text) {
  char *copy = gconv_printable_copy(text, strlen(text));
  for (const char *at = copy ? copy : ""; *at; at++)
    switch (*at) {
    case '<':
      fputs("&lt;", out);
      break;
    case '>':
      fputs("&gt;", out);
      break;
    case '&':
      fputs("&amp;", out);
      break;
    case '\'':
      fputs("&#39;", out);
      break;
    case '"':
      fputs("&quot;", out);
      break;
    default:
      fputc(*at, out);
    }
  free(copy);
}

static void put_row(FILE *out, const char *name, const char *format, ...) GCONV_PRINTF(3, 4);
static void put_row(FILE *out, const char *name, const char *format, ...) {
  va_list arguments;
  char *text = NULL;
  va_start(arguments, format);
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  fprintf(out, "<tr><th>%s</th><td>", name);
  put_text(out, length >= 0 ? text : "");
  fputs("</td></tr>\n", out);
  if (length >= 0)
    free(text);
}

static void put_summary(FILE *out, const gconv_training_run *run) {
  const gconv_learn_settings *learn = &run->settings->learn;
  const gconv_dataset_info *info = gconv_dataset_get_info(gconv_data_cases(&run->data));
  char text[200];
  fputs("<table class='summary'>\n", out);
  gconv_data_describe(info, learn->data.kind, text, sizeof text);
  put_row(out, "data", "%s: %s", learn->data.inputs, text);
  if (run->data.validation)
    put_row(out, "validation", "%zu cases (%s)", gconv_dataset_get_info(run->data.validation)->cases, learn->validate);
  put_row(out, "network", "%s", learn->net);
  char *words = run->network.trained ? gconv_trained_words(run->network.trained) : NULL;
  if (words)
    put_row(out, "how", "%s", words);
  free(words);
  put_row(out, "epochs", "%zu, %.3g s%s%s", run->epoch_count, run->seconds, run->ended ? "; " : "",
          run->ended ? run->ended : "");
  if (run->best.number > 0) {
    put_row(out, "best epoch", "%zu", run->best.number);
    put_row(out, "loss", "%.6g", run->best.loss);
    if (!isnan(run->best.accuracy))
      put_row(out, "accuracy while it learned", "%.2f%%", 100 * run->best.accuracy);
    if (!isnan(run->best.validation_loss))
      put_row(out, "loss of the validation", "%.6g", run->best.validation_loss);
    if (!isnan(run->best.validation_accuracy))
      put_row(out, "accuracy of the validation", "%.2f%%", 100 * run->best.validation_accuracy);
  }
  fputs("</table>\n", out);
}

static void put_confusion(FILE *out, const gconv_training_run *run) {
  enum { MOST_CLASSES = 100 };
  const gconv_confusion *c = &run->confusion;
  if (c->cases == 0)
    return;
  fprintf(out,
          "<h2>Confusion</h2>\n<p>%s: %zu of %zu cases are right, %.2f%%. A row is a class, a column what its cases were "
          "taken for.</p>\n",
          run->data.validation ? "Of the validation" : "Of the data that were learned", c->right, c->cases,
          100.0 * (double)c->right / (double)c->cases);
  if (c->classes > MOST_CLASSES) {
    fprintf(out, "<p>The table of %zu classes is too large for a page.</p>\n", c->classes);
    return;
  }
  fputs("<table class='confusion'>\n<tr><td></td>", out);
  for (size_t k = 0; k < c->classes; k++) {
    fputs("<th>", out);
    put_text(out, c->names[k]);
    fputs("</th>", out);
  }
  fputs("</tr>\n", out);
  for (size_t i = 0; i < c->classes; i++) {
    uint64_t most = 1;
    for (size_t k = 0; k < c->classes; k++)
      most = c->counts[i * c->classes + k] > most ? c->counts[i * c->classes + k] : most;
    fputs("<tr><th>", out);
    put_text(out, c->names[i]);
    fputs("</th>", out);
    for (size_t k = 0; k < c->classes; k++) {
      uint64_t count = c->counts[i * c->classes + k];
      fprintf(out, "<td%s style='background:rgba(%s,%.2f)'>%llu</td>", count == 0 ? " class='none'" : "",
              i == k ? "44,160,44" : "214,39,40", 0.8 * (double)count / (double)most, (unsigned long long)count);
    }
    fputs("</tr>\n", out);
  }
  fputs("</table>\n", out);
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
    put_image(out, &sheet, "filters", 1);
    gconv_image_free(&sheet);
    return;
  }
}

/* Some cases of pairs: before, after, wanted. */
static void put_examples(FILE *out, const gconv_training_run *run) {
  enum { EXAMPLES = 4, MOST_FLOATS = 1 << 24 };
  const gconv_dataset *data = run->data.validation ? run->data.validation : gconv_data_cases(&run->data);
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  size_t floats = (size_t)info->channels * (size_t)info->height * (size_t)info->width;
  if (run->settings->learn.data.kind != GCONV_DATASET_PAIRS || floats > MOST_FLOATS)
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

static void put_page(FILE *out, const gconv_training_run *run) {
  fputs("<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>gconv train</title>\n<style>\n"
        "body { font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }\n"
        "table { border-collapse: collapse } th, td { padding: .2em .5em; font-size: .9em }\n"
        ".summary th { text-align: left; vertical-align: top; white-space: nowrap } td { overflow-wrap: anywhere }\n"
        ".confusion td { text-align: right } .confusion { display: block; overflow-x: auto } .none { color: #ccc }\n"
        "img { image-rendering: pixelated; margin: .2em; max-width: 100%; height: auto } svg { max-width: 100%; height: "
        "auto }\n"
        "</style></head><body>\n<h1>",
        out);
  put_text(out, run->settings->naming.output);
  fputs("</h1>\n", out);
  put_summary(out, run);
  fputs("<h2>Curves</h2>\n", out);
  gconv_train_draw(out, run, true);
  if (run->best.number > 0)
    fprintf(out, "<p>The dashed line is epoch %zu, whose weights are kept.</p>\n", run->best.number);
  put_confusion(out, run);
  put_filters(out, run);
  put_examples(out, run);
  fprintf(out, "<p>gconv %s</p>\n</body></html>\n", gconv_version());
}

static void put_plot(FILE *out, const gconv_training_run *run) {
  fputs("<?xml version='1.0' encoding='UTF-8'?>\n", out);
  gconv_train_draw(out, run, false);
}

static gconv_status write_text(const char *path, const char *text, size_t size) {
  gconv_sink *sink;
  GCONV_TRY(gconv_sink_open(path, &sink));
  gconv_status status = gconv_sink_write(sink, text, size);
  if (status == GCONV_OK)
    return gconv_sink_commit(sink, false);
  gconv_sink_discard(sink);
  return status;
}

static gconv_status write_file(const gconv_training_run *run, const char *path,
                               void (*put)(FILE *out, const gconv_training_run *run)) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for it", path);
  put(out, run);
  gconv_status status = gconv_close_text(out, &text) ? write_text(path, text, size)
                                                     : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for it", path);
  free(text);
  return status;
}

gconv_status gconv_train_write_plot(const gconv_training_run *run, const char *path) {
  return write_file(run, path, put_plot);
}

gconv_status gconv_train_write_report(const gconv_training_run *run, const char *path) {
  return write_file(run, path, put_page);
}
