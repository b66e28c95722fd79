/* SPDX-License-Identifier: MIT */
#include "cli/telling.h"
#include "cli/terminal.h"

bool gconv_tell_end(FILE *out, json_t *json, size_t flags) {
  bool printed = !json || gconv_json_print(out, json, flags);
  if (!printed)
    gconv_say("no memory to make JSON");
  fflush(out); /* a program at the other end of a pipe gets whole lines, and an interrupt loses none */
  json_decref(json);
  return printed;
}
