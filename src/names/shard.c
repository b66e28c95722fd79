/* SPDX-License-Identifier: MIT */
#include "base/checksum.h"
#include "names/outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHARDS = 1000000 };

/* ---- The shard of this run ----------------------------------------------------------------------------------------- */

/* Reads a decimal number from `least` to `most`, and the character `end` after it. Returns the text after both, or NULL. */
static const char *parse_number(const char *text, int least, int most, char end, int *number) {
  char *behind;
  errno = 0;
  long value = *text >= '0' && *text <= '9' ? strtol(text, &behind, 10) : -1;
  if (value < least || value > most || errno || *behind != end)
    return NULL;
  *number = (int)value;
  return behind + (end != '\0');
}

/* Reads an environment variable that holds a number from 0 on. */
static gconv_status read_variable(const char *name, int *number) {
  const char *text = getenv(name);
  if (!text)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the variable %s is not set, which Slurm sets in job arrays", name);
  if (!parse_number(text, 0, INT32_MAX, '\0', number))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s=%s: this takes an integer from 0 on", name, text);
  return GCONV_OK;
}

/* Finds the place of this task in its array. The numbers of the tasks must be evenly spaced; else the place is unknown. */
static gconv_status ask_slurm(int expected, gconv_shard *shard) {
  int id, first, last, count;
  GCONV_TRY(read_variable("SLURM_ARRAY_TASK_ID", &id));
  GCONV_TRY(read_variable("SLURM_ARRAY_TASK_MIN", &first));
  GCONV_TRY(read_variable("SLURM_ARRAY_TASK_MAX", &last));
  GCONV_TRY(read_variable("SLURM_ARRAY_TASK_COUNT", &count));
  int step = count > 1 ? (last - first) / (count - 1) : 1;
  bool even = count >= 1 && count <= MOST_SHARDS && step >= 1 && (int64_t)first + (int64_t)step * (count - 1) == last;
  if (!even || id < first || id > last || (id - first) % step != 0)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "task %d of %d in a Slurm array from %d to %d: the tasks must be at equal distances, as in "
                      "--array=1-8; else write I/N",
                      id, count, first, last);
  if (expected && count != expected)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the Slurm array has %d tasks, not %d: to run a few of them again, write I/%d",
                      count, expected, expected);
  *shard = (gconv_shard){(id - first) / step + 1, count};
  return GCONV_OK;
}

static gconv_status ask_kubernetes(int count, gconv_shard *shard) {
  const char *index = getenv("JOB_COMPLETION_INDEX");
  if (count == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "Kubernetes tells a pod its index (JOB_COMPLETION_INDEX=%s), but not how many there are: write "
                      "auto/N, with the job's completions for N",
                      index);
  if (!parse_number(index, 0, count - 1, '\0', &shard->number))
    return gconv_fail(GCONV_BAD_ARGUMENT, "JOB_COMPLETION_INDEX=%s: with %d parts, it must be an integer from 0 to %d",
                      index, count, count - 1);
  *shard = (gconv_shard){shard->number + 1, count};
  return GCONV_OK;
}

/* Finds the shard by the environment. `count`: N of auto/N, or 0. */
static gconv_status ask_environment(int count, gconv_shard *shard) {
  if (getenv("SLURM_ARRAY_TASK_ID"))
    return ask_slurm(count, shard);
  if (getenv("JOB_COMPLETION_INDEX"))
    return ask_kubernetes(count, shard);
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "neither SLURM_ARRAY_TASK_ID is set, as in job arrays of Slurm, nor JOB_COMPLETION_INDEX, as in "
                    "indexed jobs of Kubernetes: write I/N, such as 1/4");
}

static gconv_status parse(const char *text, gconv_shard *shard) {
  int number = 0, count = 0;
  if (strcmp(text, "auto") == 0)
    return ask_environment(0, shard);
  bool automatic = strncmp(text, "auto/", 5) == 0;
  const char *second = automatic ? text + 5 : parse_number(text, 0, MOST_SHARDS, '/', &number);
  if (!second || !parse_number(second, 1, MOST_SHARDS, '\0', &count))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "this takes I/N, part I of N: 1/4, 2/4, 3/4 or 4/4, up to %d parts; auto, in a job array of "
                      "Slurm; or auto/N",
                      MOST_SHARDS);
  if (automatic)
    return ask_environment(count, shard);
  if (number < 1 || number > count)
    return gconv_fail(GCONV_BAD_ARGUMENT, "there is no part %d of %d: they are 1/%d to %d/%d", number, count, count, count,
                      count);
  *shard = (gconv_shard){number, count};
  return GCONV_OK;
}

gconv_status gconv_shard_parse(const char *text, gconv_shard *shard, gconv_message *message) {
  GCONV_NEED_TOLD(message, text, shard);
  return gconv_tell(parse(text, shard), message);
}

/* ---- The shard of an input ----------------------------------------------------------------------------------------- */

/* Mixes a hash so that each bit depends on all bits (the last step of MurmurHash3). */
static uint64_t mix(uint64_t hash) {
  hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
  hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
  return hash ^ hash >> 33;
}

/* Returns the last number in the name of a file without its extension: digits *begin .. *end - 1 of the path. 0: none. */
static uint64_t find_number(const char *path, size_t *begin, size_t *end) {
  const char *name = gconv_path_name(path);
  uint64_t number = 0;
  *end = (size_t)(name - path) + gconv_path_stem(name);
  while (path + *end > name && !(path[*end - 1] >= '0' && path[*end - 1] <= '9'))
    --*end;
  for (*begin = *end; path + *begin > name && path[*begin - 1] >= '0' && path[*begin - 1] <= '9';)
    --*begin;
  for (size_t i = *begin; i < *end; i++)
    number = 10 * number + (uint64_t)(path[i] - '0'); /* modulo 2^64 */
  return number;
}

/* Returns the shard of an input, from 1 to `count`. The hash of the path without its number is a place on a circle of 2^64.
 * Adding the number in steps of the golden ratio spreads numbered files evenly. Each shard has a part of the circle. */
static int shard_of(const char *relative, int count) {
  size_t begin, end;
  uint64_t number = find_number(relative, &begin, &end);
  uint64_t hash = gconv_fnv1a(GCONV_FNV1A_BASIS, relative, begin);
  uint64_t place = mix(gconv_fnv1a(hash, relative + end, strlen(relative + end))) + number * UINT64_C(0x9e3779b97f4a7c15);
  return (int)((place >> 32) * (uint64_t)count >> 32) + 1;
}

static bool is_mine(const gconv_input *input, size_t i, void *user) {
  const gconv_shard *shard = user;
  return shard_of(input->relative, shard->count) == shard->number;
}

void gconv_shard_take(const gconv_shard *shard, gconv_inputs *inputs, gconv_outputs *outputs) {
  gconv_shard own = shard ? *shard : (gconv_shard){0};
  bool part = own.number >= 1 && own.number <= own.count; /* otherwise all inputs stay */
  if (part && inputs && outputs && gconv_check_inputs(inputs) == GCONV_OK &&
      gconv_check_outputs(outputs, inputs) == GCONV_OK)
    gconv_outputs_keep(inputs, outputs, is_mine, &own);
}
