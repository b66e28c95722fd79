/* SPDX-License-Identifier: MIT */
/* --windows: a network over the windows of a signal, of any length and in bounded memory. */
#ifndef GCONV_CLI_WINDOWS_H
#define GCONV_CLI_WINDOWS_H

#include "cli/job_settings.h"

/* Runs the main command with --windows. Returns what the program ends with. */
int gconv_windows_run(gconv_job_settings *settings);

#endif
