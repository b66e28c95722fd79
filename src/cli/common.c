/* SPDX-License-Identifier: MIT */
#include "cli/common.h"
#include "cli/terminal.h"

#include <limits.h>
#include <string.h>

const gconv_option gconv_no_options[] = {GCONV_OPTIONS_END};

/* ---- Words of values ------------------------------------------------------------------------------------------------- */

const char *gconv_word_border_at(size_t i) {
  return gconv_border_name((gconv_border)i);
}

const char *gconv_word_math_at(size_t i) {
  return gconv_math_name((gconv_math)i);
}

const char *gconv_word_syntax_at(size_t i) {
  size_t filters = 0;
  while (gconv_filter_syntax_at(filters))
    filters++;
  return i < filters ? gconv_filter_syntax_at(i) : gconv_bank_syntax_at(i - filters);
}

/* Lists the algorithms for images, then those for layers: a name that is in both lists comes twice. NULL past the end. */
static const gconv_algorithm_info *any_algorithm_at(size_t index) {
  size_t images = 0;
  while (gconv_algorithm_at(images))
    images++;
  return index < images ? gconv_algorithm_at(index) : gconv_layer_algorithm_at(index - images);
}

static bool is_first(size_t index) {
  for (size_t i = 0; i < index; i++)
    if (strcmp(any_algorithm_at(i)->name, any_algorithm_at(index)->name) == 0)
      return false;
  return true;
}

const char *gconv_word_algorithm_name_at(size_t index) {
  const gconv_algorithm_info *algorithm;
  for (size_t i = 0; (algorithm = any_algorithm_at(i)); i++)
    if (is_first(i) && index-- == 0)
      return algorithm->name;
  return NULL;
}

const char *gconv_word_algorithm_at(size_t i) {
  static const char *const more[] = {"auto", "all"};
  return i < 2 ? more[i] : gconv_word_algorithm_name_at(i - 2);
}

#define REFLECT                                                                                                             \
  "there are two ways to reflect the row  a b c d:" GCONV_LINE_BREAK                                                        \
  "symmetric    c b a | a b c d | d c b    the edge twice (scipy's \"reflect\", vips' \"mirror\")" GCONV_LINE_BREAK         \
  "reflect101   d c b | a b c d | c b a    the edge once (NumPy's \"reflect\", OpenCV's default, scipy's \"mirror\")"

const gconv_synonym gconv_border_words[] = {
    {"edge nearest copy extend", "replicate", NULL},
    {"tile circular periodic wraparound", "wrap", NULL},
    {"black zeros", "zero", NULL},
    {"white", "constant:1", NULL},
    {"reflect-101 reflect_101", "reflect101", NULL},
    {"mirror reflect", NULL, REFLECT},
    {"repeat", NULL, "replicate repeats the pixel at the edge, wrap the whole image"},
    {"none ignore", NULL, "zero has black outside the image; --padding valid leaves out results that need pixels outside"},
    {NULL, NULL, NULL},
};
const gconv_synonym gconv_device_words[] = {{"gpu nvidia", "cuda", NULL}, {"host", "cpu", NULL}, {NULL, NULL, NULL}};
const gconv_synonym gconv_math_words[] = {
    {"float32 f32", "fp32", NULL}, {"float16 f16 half", "fp16", NULL}, {"bfloat16", "bf16", NULL}, {NULL, NULL, NULL}};

/* ---- Devices --------------------------------------------------------------------------------------------------------- */

/* "0", "0,2" or "all". */
static bool are_gpus(const char *value) {
  enum { MOST_NUMBERS = 64 };
  int32_t numbers[MOST_NUMBERS];
  int count = strcmp(value, "all") == 0 ? 0 : gconv_parse_integers(value, ',', MOST_NUMBERS, 0, INT_MAX, numbers);
  for (int i = 0; i < count; i++)
    for (int k = 0; k < i; k++)
      if (numbers[i] == numbers[k])
        return false;
  return count > 0 || strcmp(value, "all") == 0;
}

void gconv_device_choose(gconv_chosen_device *chosen, const char *name, const char *why) {
  snprintf(chosen->name, sizeof chosen->name, "%s", name);
  snprintf(chosen->why, sizeof chosen->why, "%s", why && why[0] ? why : "it was asked for");
}

void gconv_device_tell(const gconv_common *common, const gconv_chosen_device *chosen) {
  if (common->verbose)
    gconv_say("device %s: %s", chosen->name, chosen->why);
}

bool gconv_has_gpu_algorithms(void) {
  const gconv_algorithm_info *algorithm;
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)); i++)
    if (strcmp(algorithm->device, "cuda") == 0)
      return true;
  return false;
}

bool gconv_has_gpu(void) {
  gconv_device_info info;
  for (size_t i = 0; gconv_device_at(i, &info); i++)
    if (strncmp(info.name, "cuda", 4) == 0 && info.usable)
      return true;
  return false;
}

gconv_status gconv_check_device(const char *value) {
  static const gconv_option names = {.name = "device", .words = "auto|cpu|cuda"};
  if (strncmp(value, "cuda:", 5) == 0 && are_gpus(value + 5))
    return GCONV_OK;
  if (strncmp(value, "cuda:", 5) == 0)
    return gconv_refuse("cuda takes the number of a GPU, such as cuda:0, or several, such as cuda:0,2, or all of them: "
                        "cuda:all");
  int index;
  return gconv_option_find_word(&names, value, &index);
}

int gconv_settle_threads(int wanted, bool quiet) {
  int allowed = gconv_threads_allowed(wanted);
  if (wanted > allowed && !quiet)
    gconv_say("--threads %d: %d %s used, as affinity or control groups give this process no more processors", wanted,
              allowed, allowed == 1 ? "is" : "are");
  return wanted > 0 ? allowed : 0;
}
