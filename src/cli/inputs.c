/* SPDX-License-Identifier: MIT */
/* Messages about a search for inputs. */
#include "cli/job.h"
#include "cli/terminal.h"

static void tell(const gconv_passed_over *all, const char *reason) {
  if (all->count > 0)
    gconv_say("%s%s: %s, and passed over", all->first, all->count > 1 ? ", and more" : "", reason);
}

size_t gconv_inputs_tell(const gconv_inputs *inputs, bool quiet) {
  for (size_t i = 0; i < inputs->missed.count; i++)
    gconv_say("%s", inputs->missed.items[i]);
  if (quiet)
    return inputs->missed.count;
  if (inputs->unread.count > 0)
    gconv_say("passed over: %s%s%s", inputs->unread_kinds, inputs->unread.count > 1 ? "; the first is " : ": ",
              inputs->unread.first);
  tell(&inputs->linked, "another name of a folder that is searched anyway");
  tell(&inputs->dangling, "a link that leads nowhere");
  if (inputs->repeated.count > 0)
    gconv_say("%s%s: named more than once, and taken once", inputs->repeated.first,
              inputs->repeated.count > 1 ? ", and more" : "");
  return inputs->missed.count;
}

gconv_status gconv_inputs_find_all(const gconv_texts *specs, bool recursive, const char *output, gconv_inputs *inputs) {
  GCONV_TRY(gconv_inputs_find(specs, recursive, output, inputs, &(gconv_message){0}));
  return inputs->missed.count == 0 ? GCONV_OK : gconv_refuse("%s", inputs->missed.items[0]);
}
