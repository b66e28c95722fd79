/* SPDX-License-Identifier: MIT */
/* How many processors this process may use: gconv_processor_count(), gconv_threads_allowed(). */
#ifndef GCONV_BASE_PROCESSORS_H
#define GCONV_BASE_PROCESSORS_H

/* Whole processors that the quotas of control groups leave a process, its group's and those above it, rounded up; `most`
 * where there is none, or more. `groups` is its list of groups, as in /proc/self/cgroup; they are mounted below `root`, as
 * version 2, or as version 1 with a folder for each controller. What cannot be read limits nothing. */
int gconv_quota_processors(const char *groups, const char *root, int most);

#endif
