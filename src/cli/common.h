/* SPDX-License-Identifier: MIT */
/* What several commands share: the beginning of their records, rows of options, words of values, and devices. */
#pragma once

#include "cli/options.h"

/* Settings that several commands have. The record of each command begins with it. */
typedef struct gconv_common {
  gconv_texts inputs;          /* the words of -i */
  const char *output;          /* the path of -o; NULL: not given */
  const char *report, *plot;   /* paths of a page of HTML and of a picture; NULL: not given */
  const char *syntax;          /* syntax of filter files or banks; NULL: by content */
  const char *device;          /* as gconv_device_open() takes it; NULL: not given */
  int threads;                 /* 0: not given */
  uint64_t memory, max_pixels; /* limits, in bytes and pixels; 0: not given */
  bool recursive, no_clobber, quiet, verbose, json, no_sandbox;
} gconv_common;

/* The size of a record, for gconv_command. Compiles only if the record begins with its gconv_common. */
#define GCONV_RECORD_BYTES(record_, common_) (sizeof(record_) + 0 * sizeof(char[offsetof(record_, common_) == 0 ? 1 : -1]))

/* ---- Rows ---- */

#define GCONV_COMMON_OPTION(...) GCONV_OPTION(gconv_common, __VA_ARGS__)
enum { GCONV_MOST_THREADS = 4096 /* generous: a script may name the processors of a larger machine */ };
#define GCONV_THREADS_HELP "number of CPU threads, no more than processors; default: one for each"
#define GCONV_DEVICE_HELP "auto (default: a GPU if one can be used), cpu, cuda or cuda:N; $GCONV_DEVICE sets another default"

#define GCONV_NO_SANDBOX_ROW                                                                                                \
  GCONV_COMMON_OPTION(                                                                                                      \
      0, "no-sandbox", NULL, flag, no_sandbox, .near = "sandbox landlock",                                                  \
      .help = "keep the right to change files anywhere; default: where Linux has Landlock, files can be changed only "      \
              "below the folder of the results")
#define GCONV_MAX_PIXELS_ROW(...)                                                                                           \
  GCONV_COMMON_OPTION(0, "max-pixels", "N", count, max_pixels, .takes = "a number of pixels, such as 500M",                 \
                      .help = "refuse larger images; k, M and G may follow; default: 1073741824", __VA_ARGS__)
#define GCONV_THREADS_ROW                                                                                                   \
  GCONV_COMMON_OPTION(0, "threads", "N", integer, threads, .also = "cores cpus", .least = 1, .most = GCONV_MOST_THREADS,    \
                      .help = GCONV_THREADS_HELP)
#define GCONV_QUIET_ROW                                                                                                     \
  GCONV_COMMON_OPTION('q', "quiet", NULL, flag, quiet, .help = "print only errors: no warnings, no progress")
#define GCONV_ANY_DEVICE_ROW                                                                                                \
  GCONV_COMMON_OPTION('d', "device", "NAME", text, device, .words = "auto|cpu|cuda", .synonyms = gconv_device_words,        \
                      .help = GCONV_DEVICE_HELP)
#define GCONV_FILTER_SYNTAX_ROW                                                                                             \
  GCONV_COMMON_OPTION(                                                                                                      \
      0, "filter-format", "SYNTAX", text, syntax, .word_at = gconv_word_syntax_at,                                          \
      .help = "the syntax of filter files: matrix, vips, imagemagick, opencv, array or npy; default: recognised by "        \
              "content")
#define GCONV_BANK_SYNTAX_ROW                                                                                               \
  GCONV_COMMON_OPTION(0, "filter-format", "SYNTAX", text, syntax, .word_at = gconv_word_syntax_at,                          \
                      .help = "bank, npy, npz, safetensors, onnx, or a syntax of filters; default: by content")

/* The options of commands that only have --help. */
extern const gconv_option gconv_no_options[];

/* ---- Words of values ---- */

/* For gconv_option.word_at. */
const char *gconv_word_border_at(size_t index);
const char *gconv_word_math_at(size_t index);
const char *gconv_word_syntax_at(size_t index);
/* List the algorithms for images and for layers, each once. The second has "auto" and "all" before them. */
const char *gconv_word_algorithm_name_at(size_t index);
const char *gconv_word_algorithm_at(size_t index);

extern const gconv_synonym gconv_border_words[], gconv_device_words[], gconv_math_words[];

#define GCONV_BORDER_DRAWING                                                                                                \
  "Borders of the row  a b c d:\n"                                                                                          \
  "  zero         0 0 0 | a b c d | 0 0 0        symmetric    c b a | a b c d | d c b\n"                                    \
  "  constant:V   v v v | a b c d | v v v        reflect101   d c b | a b c d | c b a\n"                                    \
  "  replicate    a a a | a b c d | d d d        wrap         b c d | a b c d | a b c\n"

/* ---- Devices ---- */

/* GCONV_OK for "auto", "cpu", "cuda", "cuda:0", "cuda:0,2" and "cuda:all". */
gconv_status gconv_check_device(const char *value);

/* Returns how many threads the library uses if asked for `wanted` (0: not given). Unless quiet, prints if it uses fewer. */
int gconv_settle_threads(int wanted, bool quiet);

/* gconv_has_gpu_algorithms(): true if this build has algorithms for GPUs. gconv_has_gpu(): true if a GPU can be used. */
bool gconv_has_gpu_algorithms(void);
bool gconv_has_gpu(void);

/* The device that did the work, and why. */
typedef struct gconv_chosen_device {
  char name[32], why[200];
} gconv_chosen_device;

/* Notes the device. `why` NULL or "": the user asked for it. */
void gconv_device_choose(gconv_chosen_device *chosen, const char *name, const char *why);
/* With -v, prints the device, and why. */
void gconv_device_tell(const gconv_common *common, const gconv_chosen_device *chosen);

/* Why the CPU was chosen, if there is no other device. */
#define GCONV_WHY_NO_GPU "there is no GPU that can be used"
