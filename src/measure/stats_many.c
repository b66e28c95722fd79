/* SPDX-License-Identifier: MIT */
/* Statistics of many files. Each thread takes a file. Results are reported in the order of the files. */
#include "base/arguments.h"
#include "base/memory.h"
#include "base/threads.h"
#include "measure/stats.h"

#include <string.h>

typedef struct found {
  bool done;
  gconv_status status;
  gconv_stats stats;
  char *error; /* owned */
} found;

typedef struct many {
  const char *const *paths;
  size_t count, reported; /* files before `reported` were reported */
  gconv_stats_options options;
  gconv_stats_report *report;
  void *user;
  pthread_mutex_t lock;
  found *found; /* owned */
} many;

/* Reports all files that are done, up to the first that is not. */
static void report_done(many *m) {
  while (m->reported < m->count && m->found[m->reported].done) {
    found *f = &m->found[m->reported];
    m->report(m->reported, f->status, f->status == GCONV_OK ? &f->stats : NULL, f->error ? f->error : "out of memory",
              m->user);
    gconv_stats_free(&f->stats);
    free(f->error);
    m->reported++;
  }
}

static void take_file(void *context, size_t turn, int seat) {
  many *m = context;
  found f = {.done = true};
  const gconv_compared image = {.path = m->paths[turn]};
  f.status = gconv_image_stats(&image, &m->options, &f.stats);
  if (f.status != GCONV_OK)
    f.error = strdup(gconv_last_error());
  pthread_mutex_lock(&m->lock);
  m->found[turn] = f;
  report_done(m);
  pthread_mutex_unlock(&m->lock);
}

gconv_status gconv_images_stats(const char *const *paths, size_t count, const gconv_stats_options *options,
                                gconv_stats_report *report, void *user) {
  GCONV_NEED(paths);
  if (!report)
    return gconv_fail(GCONV_BAD_ARGUMENT, "gconv_images_stats(): report is NULL");
  if (options)
    GCONV_TRY(gconv_stats_check(options));
  many m = {.paths = paths, .count = count, .report = report, .user = user, .lock = PTHREAD_MUTEX_INITIALIZER};
  gconv_threads *own = NULL, *single = NULL, *threads;
  if (options)
    m.options = *options;
  gconv_status status = m.options.threads ? GCONV_OK : gconv_threads_create(0, &own);
  threads = own ? own : m.options.threads;
  /* few files are read one after the other, each by all threads */
  const bool apart = status == GCONV_OK && count >= 2 * (size_t)gconv_threads_count(threads);
  if (apart)
    GCONV_THEN(status, gconv_threads_create(1, &single));
  m.options.threads = apart ? single : threads;
  m.found = calloc(count + 1, sizeof *m.found);
  if (status == GCONV_OK && !m.found)
    status = gconv_no_memory();
  if (status == GCONV_OK && apart)
    gconv_threads_run(threads, count, take_file, &m);
  for (size_t i = 0; status == GCONV_OK && !apart && i < count; i++)
    take_file(&m, i, 0);
  free(m.found);
  gconv_threads_free(single);
  gconv_threads_free(own);
  return status;
}
