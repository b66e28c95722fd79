/* SPDX-License-Identifier: MIT */
#include "cli/rows.h"
#include "base/element.h"
#include "base/memory.h"
#include "base/npy_header.h"
#include "base/printable.h"

#include <math.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Formats --------------------------------------------------------------------------------------------------------- */

/* True if a path names standard output, a pipe or a device. */
static bool is_pipe(const char *path) {
  struct stat status;
  return strcmp(path, "-") == 0 || (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode));
}

gconv_status gconv_rows_choose(const gconv_naming *naming, gconv_rows_format *format) {
  static const struct {
    const char *extension;
    gconv_rows_format format;
  } known[] = {{".csv", GCONV_ROWS_CSV}, {".npy", GCONV_ROWS_NPY}, {".f32le", GCONV_ROWS_F32LE}};
  const char *path = naming->output, *dot = strrchr(path, '.');
  const gconv_format_info *asked = naming->format;
  if (asked && strcmp(asked->name, "npy") == 0)
    *format = GCONV_ROWS_NPY;
  else if (asked || naming->same)
    return gconv_refuse("--format %s is for images: --windows writes rows of numbers: csv, npy or f32le",
                        asked ? asked->name : "same");
  for (size_t i = 0; *format == GCONV_ROWS_UNKNOWN && dot && i < sizeof known / sizeof *known; i++)
    if (strcasecmp(dot, known[i].extension) == 0)
      *format = known[i].format;
  if (*format == GCONV_ROWS_UNKNOWN && is_pipe(path))
    *format = GCONV_ROWS_CSV;
  if (*format == GCONV_ROWS_UNKNOWN)
    return gconv_refuse("-o %s: --windows writes rows of numbers: name a file that ends in .csv, .npy or .f32le, or say "
                        "--format csv, npy or f32le",
                        path);
  return GCONV_OK;
}

/* ---- The beginning --------------------------------------------------------------------------------------------------- */

static gconv_status write_quoted(gconv_sink *sink, const char *text) {
  if (!strpbrk(text, ",\"\r\n"))
    return gconv_sink_write(sink, text, strlen(text));
  GCONV_TRY(gconv_sink_write(sink, "\"", 1));
  for (; *text; text++) {
    if (*text == '"')
      GCONV_TRY(gconv_sink_write(sink, "\"", 1));
    GCONV_TRY(gconv_sink_write(sink, text, 1));
  }
  return gconv_sink_write(sink, "\"", 1);
}

gconv_status gconv_rows_field(gconv_sink *sink, bool terminal, const char *text) {
  GCONV_FREED char *copy = terminal ? gconv_printable_copy(text, strlen(text)) : strdup(text);
  return copy ? write_quoted(sink, copy) : gconv_fail(GCONV_NO_MEMORY, "no memory for a name");
}

static gconv_status write_names(gconv_rows *rows, bool terminal, char *const *names) {
  for (size_t k = 0; k < rows->columns; k++) {
    char number[32];
    snprintf(number, sizeof number, "output%zu", k + 1);
    if (k > 0)
      GCONV_TRY(gconv_sink_write(rows->sink, ",", 1));
    GCONV_TRY(gconv_rows_field(rows->sink, terminal, names ? names[k] : number));
  }
  return gconv_sink_write(rows->sink, "\n", 1);
}

/* The header has the same size for any numbers of rows and columns: the blanks after them leave room for longer ones. */
static size_t format_header(const gconv_rows *rows, uint64_t count, uint8_t bytes[GCONV_NPY_HEADER_BYTES]) {
  const gconv_npy_header header = {
      .kind = 'f', .item_bytes = sizeof(float), .dimensions = 2, .shape = {(size_t)count, rows->columns}};
  return gconv_npy_header_format(&header, bytes);
}

static gconv_status write_header(gconv_rows *rows, uint64_t expected) {
  uint8_t bytes[GCONV_NPY_HEADER_BYTES];
  if (expected == UINT64_MAX && !gconv_sink_can_seek(rows->sink))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "-o: the header of .npy has the number of rows, which is not known before the signal ends: write a "
                      "file, or CSV, or raw numbers with --format f32le");
  rows->counted = expected == UINT64_MAX ? 0 : expected;
  return gconv_sink_write(rows->sink, bytes, format_header(rows, rows->counted, bytes));
}

gconv_status gconv_rows_open(const char *path, gconv_rows_format format, size_t columns, char *const *names,
                             uint64_t expected, gconv_rows *rows) {
  *rows = (gconv_rows){.format = format, .columns = columns};
  GCONV_TRY(gconv_sink_open(path, &rows->sink));
  if (format == GCONV_ROWS_CSV)
    return write_names(rows, strcmp(path, "-") == 0 && isatty(STDOUT_FILENO), names);
  return format == GCONV_ROWS_NPY ? write_header(rows, expected) : GCONV_OK;
}

/* ---- Numbers --------------------------------------------------------------------------------------------------------- */

/* Writes a number below 10^9 as `count` digits. */
static void write_digits(uint32_t digits, int count, char *text) {
  for (; count > 0; count--, digits /= 10)
    text[count - 1] = (char)('0' + digits % 10);
}

enum { NUMBER_LETTERS = 32 };

/* Writes a number as "%.9g" does, which keeps all bits of a float32, but mostly much faster. Returns the number of letters.
 * The nine digits are |number| * 10^(8 - e), rounded. Both factors are exact doubles, so the product's error is below 1e-6.
 * Near a tie, and for numbers that "%g" writes with an exponent, printf() writes the number. */
static size_t write_number(float number, char text[NUMBER_LETTERS]) {
  static const double powers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12};
  double magnitude = fabs((double)number);
  if (!(magnitude >= 1e-4 && magnitude < 1e8))
    return (size_t)snprintf(text, NUMBER_LETTERS, "%.9g", (double)number);
  int e = -4; /* exponent of the first digit */
  while (e < 7 && magnitude >= (e < 0 ? 1 / powers[-e - 1] : powers[e + 1]))
    e++;
  double scaled = magnitude * powers[8 - e], whole = floor(scaled), part = scaled - whole;
  uint32_t digits = (uint32_t)whole + (part > 0.5);
  if (fabs(part - 0.5) < 1e-5 || digits < 100000000 || digits >= 1000000000)
    return (size_t)snprintf(text, NUMBER_LETTERS, "%.9g", (double)number);
  char *at = text;
  int count = 9, before = e < 0 ? 0 : e + 1; /* all digits, and the digits before the point */
  for (; count > before && digits % 10 == 0; count--)
    digits /= 10;
  if (number < 0)
    *at++ = '-';
  if (e < 0) {
    memcpy(at, "0.000", 5);
    at += 1 - e;
    write_digits(digits, count, at);
    at += count;
    return (size_t)(at - text);
  }
  write_digits(digits, count, at + 1);
  memmove(at, at + 1, (size_t)before);
  at[before] = '.';
  at += count > before ? count + 1 : before;
  return (size_t)(at - text);
}

static gconv_status write_text(gconv_rows *rows, const float *numbers, size_t count) {
  enum { BYTES = 8192 };
  char text[BYTES];
  size_t used = 0;
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < rows->columns; k++) {
      if (used > BYTES - NUMBER_LETTERS - 1) {
        GCONV_TRY(gconv_sink_write(rows->sink, text, used));
        used = 0;
      }
      used += write_number(*numbers++, text + used);
      text[used++] = k + 1 < rows->columns ? ',' : '\n';
    }
  return gconv_sink_write(rows->sink, text, used);
}

static gconv_status write_binary(gconv_rows *rows, const float *numbers, size_t count) {
  if (!gconv_host_is_big_endian())
    return gconv_sink_write(rows->sink, numbers, count * rows->columns * sizeof *numbers);
  for (size_t i = 0; i < count * rows->columns; i++) {
    uint8_t bytes[4];
    gconv_element_store(numbers[i], bytes);
    GCONV_TRY(gconv_sink_write(rows->sink, bytes, sizeof bytes));
  }
  return GCONV_OK;
}

gconv_status gconv_rows_write(gconv_rows *rows, const float *numbers, size_t count) {
  GCONV_TRY(rows->format == GCONV_ROWS_CSV ? write_text(rows, numbers, count) : write_binary(rows, numbers, count));
  rows->count += count;
  return gconv_sink_can_seek(rows->sink) ? GCONV_OK : gconv_sink_flush(rows->sink);
}

/* ---- The end --------------------------------------------------------------------------------------------------------- */

gconv_status gconv_rows_commit(gconv_rows *rows, bool keep_existing) {
  if (rows->format == GCONV_ROWS_NPY && rows->count != rows->counted) {
    uint8_t bytes[GCONV_NPY_HEADER_BYTES];
    if (!gconv_sink_can_seek(rows->sink))
      return gconv_fail(GCONV_IO_ERROR,
                        "-o: the signal changed its length while it was read: %llu rows, where the header has %llu",
                        (unsigned long long)rows->count, (unsigned long long)rows->counted);
    GCONV_TRY(gconv_sink_write_at(rows->sink, 0, bytes, format_header(rows, rows->count, bytes)));
  }
  gconv_sink *sink = rows->sink;
  rows->sink = NULL;
  return gconv_sink_commit(sink, keep_existing);
}

void gconv_rows_discard(gconv_rows *rows) {
  gconv_sink_discard(rows->sink);
  rows->sink = NULL;
}
