/* SPDX-License-Identifier: MIT */
/*
 * Many images through one operation. Workers take groups of images and carry each all the way: decode, plan, execute,
 * encode. So the stages of different groups overlap. Plain filters have groups of one image, and large files come first;
 * networks have groups of several images of one shape. Reports come in the order of the groups, whatever the number of
 * workers. A worker for whose group too little of the memory that all share is left waits until others are done.
 */
#ifndef GCONV_BATCH_PIPELINE_H
#define GCONV_BATCH_PIPELINE_H

#include "batch/manifest.h"

/* What happens to a result whose file exists. */
typedef enum gconv_existing {
  GCONV_EXISTING_REPLACE,
  GCONV_EXISTING_KEEP, /* it is kept, and counts as failed */
  GCONV_EXISTING_SKIP  /* it is kept, and counts as done */
} gconv_existing;

/* How one input went. All that is pointed to is valid during the call of the report function only. */
typedef struct gconv_report {
  const gconv_input *input;
  char *const *outputs; /* the paths of its results */
  size_t output_count;
  size_t written, passed, failed; /* of the results; passed over because they exist, or are done by the manifest */
  size_t found[GCONV_FINDINGS];   /* what the manifest knew of them; all 0 without one */
  const gconv_texts *errors;      /* each begins with the path it is about */
  const char *explanation;        /* what a new plan does and why; NULL unless wanted */
  const char *device_reason;      /* with an explanation: why "auto" is what it is; "" without a choice */
  const char *remark;             /* why a new plan is not on the device of the run; NULL if it is */
  bool executed;                  /* everything below is set */
  bool cold;                      /* the first execution of this plan */
  uint64_t pixels;                /* of the input: N * H * W */
  gconv_plan_info plan;           /* for this input alone */
  gconv_timings timings;          /* its share, if several inputs are executed together; likewise those below */
  double decode_ms, plan_ms, encode_ms;
  double wait_ms;  /* for the device, before the plan: 0 once it is open */
  double total_ms; /* all of this input, without its verification */
  bool verified;
  gconv_verification verification;
  double elapsed_ms; /* since the run began */
} gconv_report;

/* Who decodes JPEG files that a GPU can. The pixels are the same, but the CPU alone tells of damaged files. */
typedef enum gconv_decoder {
  GCONV_DECODER_CPU,
  GCONV_DECODER_GPU, /* not with the device "cpu" */
  GCONV_DECODER_AUTO /* the GPU, where the device is "auto" and that is sooner done; else the CPU */
} gconv_decoder;

typedef struct gconv_batch {
  const gconv_inputs *inputs;
  const gconv_outputs *outputs;     /* checked */
  const gconv_operation *operation; /* whose results have types that the format of the outputs holds */
  bool one_array;                   /* all inputs go into the one array at outputs->paths[0], in their order */
  bool nhwc;                        /* arrays of four dimensions are N x H x W x C, read and written */
  int group;                        /* images that are executed together, where the operation does that; 0: by memory */
  const char *device;               /* as gconv_device_open() takes it */
  gconv_decoder decoder;
  bool cpu_may_begin;  /* while a GPU gets ready, where bits are the same (devices.h), as with the device "auto" */
  int threads;         /* of all jobs together; 0: one a processor */
  int jobs;            /* groups at a time; 0: one a thread, and half as many more where a GPU decodes */
  uint64_t memory;     /* bytes that all jobs may take together; 0: half of the machine's, and one image alone more */
  uint64_t max_pixels; /* gconv_read_options */
  int jpeg_quality, png_level; /* gconv_write_options */
  gconv_existing existing;
  gconv_manifest *manifest; /* what is done by it is passed over, whatever else is there is replaced; NULL: none */
  bool fail_fast;           /* begin no further group after a failure */
  bool verify, explain;
  bool only_explained; /* nothing is executed, and nothing begun that only executions need */
  double tolerance;    /* gconv_plan_verify() */
  /* Called once an input that was begun, in the order in which they were begun, from any thread, one call at a time. */
  void (*report)(const gconv_report *report, void *user);
  void *user;
} gconv_batch;

typedef struct gconv_batch_summary {
  size_t begun;                   /* inputs */
  size_t written, passed, failed; /* results; those of inputs that were not begun count as failed */
  size_t found[GCONV_FINDINGS];   /* what the manifest knew of the results of inputs that were begun */
  gconv_device_info device;
  char device_reason[192]; /* what "auto" chose it for; "" if there was no choice */
  double device_start_ms;  /* it took to open */
  double device_wait_ms;   /* the part of that in which nothing could be done but wait */
  double wall_ms;
} gconv_batch_summary;

/* Runs all inputs. Failures of single images are reported and counted, not returned; only what stops the whole run is:
 * GCONV_BAD_ARGUMENT for a device or algorithm that fits nothing, else the status of opening the device. */
gconv_status gconv_batch_run(const gconv_batch *batch, gconv_batch_summary *summary, gconv_message *message);

/* Explains what the run would do with its first input, by its header: *text, for free(), and in `reason` why "auto" is what
 * it is. */
gconv_status gconv_batch_explain_first(const gconv_batch *batch, char **text, char reason[192], gconv_message *message);

#endif
