/* SPDX-License-Identifier: MIT */
/*
 * The devices of a run. A GPU is opened in the background while the first images are decoded, and "auto" is decided by the
 * job, from the headers of its images: each worker asks for its device when it has decoded its first image; or, where that
 * makes no difference to a bit of the results and no device was asked for, the CPU does images altogether until the GPU is
 * ready, and its decoder, if that is to be used.
 */
#ifndef GCONV_BATCH_DEVICES_H
#define GCONV_BATCH_DEVICES_H

#include "batch/pipeline.h"

#include <semaphore.h>

typedef struct gconv_devices gconv_devices;

/* Whether the name means several GPUs: "cuda:all", "cuda:0,2". */
bool gconv_devices_are_several(const char *name);

/* Begins to open what `batch->device` names, for workers with `threads` threads together: as many workers as the job wants,
 * or as `most` if that is not 0. The CPU is divided among the workers, so that each runs by itself; a GPU is one queue that
 * all share, and of several GPUs ("cuda:all", "cuda:0,2") each has its share of the workers. The start of what decodes JPEGs
 * has one of the turns at the processors, and adds it to `turns` (NULL: to none) at its end: where all processors are busy,
 * it takes three times as long. GCONV_BAD_ARGUMENT for an algorithm that the device has not, else the status of opening it:
 * a GPU that cannot be used may show here or when it is waited for. */
gconv_status gconv_devices_begin(const gconv_batch *batch, int threads, int most, sem_t *turns, gconv_devices **devices,
                                 gconv_message *message);

/* How many workers there shall be. */
int gconv_devices_workers(const gconv_devices *devices);

/* Whether a GPU shall decode, if the job is large enough for its decoder to be started. */
bool gconv_devices_shall_decode(const gconv_devices *devices);

/* Waits for the device of worker `worker`, which is about to plan for images like `like`. Thread-safe. */
gconv_status gconv_devices_wait(gconv_devices *devices, int worker, const gconv_image *like, gconv_device **device,
                                gconv_message *message);

/* The device of the next image of worker `worker`, if that is known without waiting; else NULL. It may be a CPU of its own
 * first, and a GPU later (gconv_batch.cpu_may_begin). Thread-safe. */
gconv_device *gconv_devices_now(gconv_devices *devices, int worker);

/* What plans shall not choose, for gconv_options.without: what the batch says, or more, if images may be the CPU's or the
 * GPU's. */
const char *gconv_devices_without(const gconv_devices *devices);

/* Whether the GPU of worker `worker` can decode JPEG files by now: only if the job wants that, some time after the GPU can
 * be used. Thread-safe. */
bool gconv_devices_decode(gconv_devices *devices, int worker);

/* Whether so many files wait for that decoder that the next one is sooner decoded by the CPU, if that is free. Thread-safe.
 */
bool gconv_devices_decoder_is_busy(gconv_devices *devices, int worker);

/* Whether a CPU may take any image of a job for a GPU: it makes the same bits of it (gconv_sample_cpu_may_begin()). */
bool gconv_devices_agree(const gconv_devices *devices);

/* A CPU for a worker whose GPU has no memory for an image, if the user left the device open; else NULL. Thread-safe. */
gconv_device *gconv_devices_spare(gconv_devices *devices, int worker);

/* Why "auto" is what it is, once somebody has waited (gconv_device_choice); "" if there was no choice. */
const char *gconv_devices_reason(const gconv_devices *devices);

/* Remembers for later choices what reading and writing an image took a thread of the CPU, with all threads at work. */
void gconv_devices_remember_codecs(const gconv_devices *devices, double milliseconds);

/* What became of it: the device's part of *summary. No worker is at work any more. */
void gconv_devices_summarize(gconv_devices *devices, gconv_batch_summary *summary);

/* Closes all, once the plans are freed. NULL is allowed. */
void gconv_devices_close(gconv_devices *devices);

#endif
