/* SPDX-License-Identifier: MIT */
/*
 * One image from file to file by strips of rows: memory does not grow with its height, and while a strip is filtered, later
 * ones are read and earlier ones written.
 */
#ifndef GCONV_BATCH_STREAM_H
#define GCONV_BATCH_STREAM_H

#include "gconv.h"

typedef struct gconv_stream {
  gconv_row_reader *reader;   /* at its first row, in order */
  gconv_plan *plan;           /* for such images, with a row step */
  gconv_row_writer **writers; /* one an output of the plan; NULL: that output is not wanted */
  gconv_threads *threads;     /* the plan's, which reader and writers share: stages overlap if there are two or more */
  /* Called when writing output `output` failed, with gconv_last_error() set; its writer is gone, the others go on. From any
   * thread, one call at a time. */
  void (*failed)(void *user, size_t output);
  void *user;
  gconv_timings timings;       /* set by the run */
  double decode_ms, encode_ms; /* likewise: in which rows were read and written, waiting for the threads included */
} gconv_stream;

/* Whether images like this one are so large that they are better carried by rows. */
bool gconv_stream_pays(const gconv_image *like);

/* About how many bytes a run takes: windows, strips, and what `writers` writers need. */
uint64_t gconv_stream_bytes(const gconv_plan *plan, const gconv_image *like, size_t writers, int threads);

/* The most bytes that a writer takes besides its rows. */
uint64_t gconv_stream_writer_bytes(int threads);

/* Reads all rows of the input, and writes those of the outputs; does not commit them. A failure of reading or of the
 * convolution is returned. The same bits as those of gconv_plan_execute(), for any number of threads. */
gconv_status gconv_stream_run(gconv_stream *stream);

#endif
