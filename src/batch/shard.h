/* SPDX-License-Identifier: MIT */
/* Splitting the inputs of a run over machines that do not know of each other. */
#ifndef GCONV_BATCH_SHARD_H
#define GCONV_BATCH_SHARD_H

#include "batch/outputs.h"

/* Part `number`, from 1, of `count`; count 0: all inputs, undivided. */
typedef struct gconv_shard {
  int number, count;
} gconv_shard;

enum { GCONV_MOST_SHARDS = 1000000 };

/*
 * Parses "I/N" (1/4 to 4/4), or
 *   - "auto": in a job array of Slurm, the place of SLURM_ARRAY_TASK_ID among those from SLURM_ARRAY_TASK_MIN to
 *     SLURM_ARRAY_TASK_MAX, which are SLURM_ARRAY_TASK_COUNT at equal distances;
 *   - "auto/N": the same, which must be N; or in an indexed job of Kubernetes, which tells no pod how many there are,
 *     JOB_COMPLETION_INDEX, from 0, of N.
 * GCONV_BAD_ARGUMENT says what is wrong, or which variables were looked for.
 */
gconv_status gconv_shard_parse(const char *text, gconv_shard *shard, gconv_message *message);

/* Drops the inputs that belong to other shards, and their outputs, which keep the names that they have in the whole.
 * Possibly none is left. An input belongs to the shard that its relative path (gconv_input) tells: no locale, order or
 * machine has a part in it. */
void gconv_shard_take(const gconv_shard *shard, gconv_inputs *inputs, gconv_outputs *outputs);

#endif
