/* SPDX-License-Identifier: MIT */
/* Finds how many processors this process may use. gconv_threads_allowed() is public. */
#pragma once

/* Returns how many processors this process may use, by its affinity and the quotas of control groups; at least 1. */
int gconv_processor_count(void);

/* Returns how many processors, rounded up, the quotas of control groups leave a process: the quotas of its group and of the
 * groups above it. Returns `most` if there is no quota, or a larger one. `groups` is the process's list of groups, as in
 * /proc/self/cgroup. They are mounted below `root`, as version 2, or as version 1 with a folder for each controller. Files
 * that cannot be read limit nothing. */
int gconv_quota_processors(const char *groups, const char *root, int most);
