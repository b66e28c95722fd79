/* SPDX-License-Identifier: MIT */
#include "cli/page.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/printable.h"
#include "cli/learn.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- The page --------------------------------------------------------------------------------------------------------- */

void gconv_page_begin(FILE *out, const char *command, const char *heading) {
  fprintf(out,
          "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>gconv %s</title>\n<style>\n"
          "body { font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }\n"
          "table { border-collapse: collapse } th, td { padding: .2em .5em; font-size: .9em }\n"
          ".summary th { text-align: left; vertical-align: top; white-space: nowrap } td { overflow-wrap: anywhere }\n"
          ".numbers td { text-align: right } .confusion td { text-align: right; white-space: nowrap }\n"
          ".confusion { display: block; overflow-x: auto } .none { color: #ccc }\n"
          "img { image-rendering: pixelated; margin: .2em; max-width: 100%%; height: auto } svg { max-width: 100%%; height: "
          "auto }\n.layers { display: flex; flex-wrap: wrap } figure { margin: 0 } figcaption { font-size: .8em; "
          "margin-left: .3em }\n"
          ".colour { display: inline-block; width: 1em; height: 1em; border: 1px solid #888 }\n"
          "</style></head><body>\n<h1>",
          command);
  gconv_page_text(out, heading);
  fputs("</h1>\n", out);
}

void gconv_page_end(FILE *out) {
  fprintf(out, "<p>gconv %s</p>\n</body></html>\n", gconv_version());
}

void gconv_page_text(FILE *out, const char *text) {
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

void gconv_page_row(FILE *out, const char *name, const char *format, ...) {
  va_list arguments;
  char *text = NULL;
  va_start(arguments, format);
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  fprintf(out, "<tr><th>%s</th><td>", name);
  gconv_page_text(out, length >= 0 ? text : "");
  fputs("</td></tr>\n", out);
  if (length >= 0)
    free(text);
}

void gconv_page_confusion(FILE *out, const gconv_confusion *c) {
  enum { MOST_CLASSES = 100 };
  if (c->classes > MOST_CLASSES || !c->counts) {
    fprintf(out, "<p>The table of %zu classes is too large for a page.</p>\n", c->classes);
    return;
  }
  fputs("<table class='confusion'>\n<tr><td></td>", out);
  for (size_t k = 0; k < c->classes; k++) {
    fputs("<th>", out);
    gconv_page_text(out, c->names[k]);
    fputs("</th>", out);
  }
  fputs("</tr>\n", out);
  for (size_t i = 0; i < c->classes; i++) {
    uint64_t most = 1;
    for (size_t k = 0; k < c->classes; k++)
      most = c->counts[i * c->classes + k] > most ? c->counts[i * c->classes + k] : most;
    fputs("<tr><th>", out);
    gconv_page_text(out, c->names[i]);
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

void gconv_page_image(FILE *out, const gconv_image *image, const char *title, int zoom) {
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

void gconv_svg_begin(FILE *out, int width, int height, bool inside) {
  fprintf(out,
          "<svg %swidth='%d' height='%d' viewBox='0 0 %d %d' font-family='sans-serif' font-size='12'>\n"
          "<rect width='%d' height='%d' fill='white'/>\n",
          inside ? "" : "xmlns='http://www.w3.org/2000/svg' ", width, height, width, height, width, height);
}

/* ---- Files ------------------------------------------------------------------------------------------------------------ */

static bool is_page(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot && dot > path && (strcmp(dot, ".html") == 0 || strcmp(dot, ".htm") == 0);
}

gconv_status gconv_page_check(const char *path, const gconv_texts *read, gconv_message *message) {
  if (!is_page(path))
    return gconv_refuse(message, "--report %s: the report is a page of HTML: --report %s.html", path, path);
  return gconv_data_check_output("--report", path, "html htm", "a report", read, message);
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

gconv_status gconv_page_write(const char *path, void (*put)(FILE *out, const void *context), const void *context) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for it", path);
  put(out, context);
  gconv_status status = gconv_close_text(out, &text) ? write_text(path, text, size)
                                                     : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for it", path);
  free(text);
  return status;
}
