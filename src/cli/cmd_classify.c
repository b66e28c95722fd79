/* SPDX-License-Identifier: MIT */
#include "cli/command.h"
static int run(gconv_settings *settings, const gconv_texts *words) {
  (void)settings;
  (void)words;
  return GCONV_EXIT_USAGE;
}
const gconv_command gconv_command_classify = {.name = "classify",
                                              .synopsis = "classify NETWORK -i INPUT [OPTION...]",
                                              .help = "what a trained network takes cases for",
                                              .of = GCONV_OF_CLASSIFY,
                                              .words = GCONV_WORDS_ANY,
                                              .run = run};
