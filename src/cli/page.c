/* SPDX-License-Identifier: MIT */
#include "cli/page.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "cli/learn.h"
#include "gconv_embed.h"

#include <stdarg.h>
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
          "</style></head><body>\n",
          command);
  gconv_page_cell(out, "h1", heading);
  fputc('\n', out);
}

void gconv_page_end(FILE *out) {
  fprintf(out, "<p>gconv %s</p>\n</body></html>\n", gconv_version());
}

void gconv_page_text(FILE *out, const char *text) {
  static const char special[] = "<>&'\"";
  static const char *const entities[] = {"&lt;", "&gt;", "&amp;", "&#39;", "&quot;"};
  char *copy = gconv_printable_copy(text, strlen(text));
  size_t bytes;
  for (const char *at = copy ? copy : ""; *at; at += bytes > 0 ? bytes : 1) {
    const char *found = strchr(special, *at);
    bytes = gconv_utf8_bytes(at, strnlen(at, 4));
    if (bytes == 0) /* no valid UTF-8 */
      fputc('?', out);
    else if (found)
      fputs(entities[found - special], out);
    else
      fwrite(at, 1, bytes, out);
  }
  free(copy);
}

void gconv_page_cell(FILE *out, const char *tag, const char *text) {
  fprintf(out, "<%s>", tag);
  gconv_page_text(out, text);
  fprintf(out, "</%s>", tag);
}

void gconv_page_row(FILE *out, const char *name, const char *format, ...) {
  va_list arguments;
  char *text = NULL;
  va_start(arguments, format);
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  fprintf(out, "<tr><th>%s</th>", name);
  gconv_page_cell(out, "td", length >= 0 ? text : "");
  fputs("</tr>\n", out);
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
  for (size_t k = 0; k < c->classes; k++)
    gconv_page_cell(out, "th", c->names[k]);
  fputs("</tr>\n", out);
  for (size_t i = 0; i < c->classes; i++) {
    uint64_t most = 1;
    for (size_t k = 0; k < c->classes; k++)
      most = c->counts[i * c->classes + k] > most ? c->counts[i * c->classes + k] : most;
    fputs("<tr>", out);
    gconv_page_cell(out, "th", c->names[i]);
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
  const gconv_write_options options = {.format = gconv_format_by_name("png"), .threads = 1};
  gconv_bytes_out png = {.data = NULL};
  if (gconv_image_encode(&png, &options, image) == GCONV_OK) {
    fprintf(out, "<img alt='%s' title='%s' width='%d' height='%d' src='data:image/png;base64,", title, title,
            (int)image->width * zoom, (int)image->height * zoom);
    put_base64(out, png.data, png.size);
    fputs("'>\n", out);
  }
  free(png.data);
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

gconv_status gconv_page_check(const char *path, const gconv_texts *read) {
  if (!is_page(path))
    return gconv_refuse("--report %s: the report is a page of HTML: --report %s.html", path, path);
  return gconv_data_check_output("--report", path, "html htm", "a report", read);
}

gconv_status gconv_page_write(const char *path, void (*put)(FILE *out, const void *context), const void *context) {
  GCONV_FREED char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  GCONV_NEED_MEMORY(out, "%s: no memory for its text", path);
  put(out, context);
  return gconv_close_text(out, &text) ? gconv_file_write(path, text, size)
                                      : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its text", path);
}
