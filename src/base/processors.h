/* SPDX-License-Identifier: MIT */
/* The number of processors that this process may use. gconv_threads_allowed() is public. */
#pragma once

/* The processors that this process may run on (affinity and the quotas of control groups counted), at least 1. */
int gconv_processor_count(void);

/* Returns the whole processors, rounded up, that the quotas of control groups leave a process: those of its group and of the
 * groups above it. Returns `most` if there is no quota, or a larger one. `groups` is the process's list of groups, as in
 * /proc/self/cgroup. They are mounted below `root`, as version 2, or as version 1 with a folder for each controller. Files
 * that cannot be read limit nothing. */
int gconv_quota_processors(const char *groups, const char *root, int most);
