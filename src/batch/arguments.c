/* SPDX-License-Identifier: MIT */
#include "batch/arguments.h"

gconv_status gconv_check_texts(const gconv_texts *texts, const char *name, gconv_message *message) {
  size_t i = 0;
  while (texts->items && i < texts->count && texts->items[i])
    i++;
  return i == texts->count ? GCONV_OK : gconv_complain(message, GCONV_BAD_ARGUMENT, "%s: text %zu is NULL", name, i + 1);
}

gconv_status gconv_check_inputs(const gconv_inputs *inputs, gconv_message *message) {
  for (size_t i = 0; i < inputs->count; i++)
    if (!inputs->items || !inputs->items[i].path || !inputs->items[i].file || !inputs->items[i].relative)
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "input %zu lacks its path, file or relative name", i + 1);
  GCONV_TRY(gconv_check_texts(&inputs->folders, "the folders of the inputs", message));
  GCONV_TRY(gconv_check_texts(&inputs->missed, "the errors of the inputs", message));
  return gconv_check_texts(&inputs->patterns, "the patterns of the inputs", message);
}

gconv_status gconv_check_outputs(const gconv_outputs *outputs, const gconv_inputs *inputs, gconv_message *message) {
  GCONV_TRY(gconv_check_texts(&outputs->paths, "the outputs", message));
  for (size_t i = 0; inputs && i < inputs->count; i++)
    if (!outputs->first || outputs->first[i] > outputs->first[i + 1] || outputs->first[i + 1] > outputs->paths.count)
      return gconv_complain(message, GCONV_BAD_ARGUMENT, "outputs: it is not told which are those of input %zu", i + 1);
  return GCONV_OK;
}
