/* SPDX-License-Identifier: MIT */
/*
 * The devices of a run, by these rules:
 *
 *   1. Each worker has a share of the CPU's threads, and begins at once.
 *   2. A GPU is opened in a thread of its own, if the user asked for it, or if the user left the device open and a GPU is
 *      worth its start (worth.h). When it is ready, workers give it their next images.
 *   3. If the user left the device open, the CPU takes images while the GPU is not ready or has no memory. It takes only
 *      images for which it would choose an exact algorithm; the GPU uses the exact family for them, too. So the bits are the
 *      same. All other images wait for the GPU, so that one kind of device takes all of them.
 *   4. No worker waits for a GPU that is not needed. A GPU or decoder that is not ready when all images are done is left to
 *      the end of the process.
 */
#pragma once

#include "batch/worth.h"

typedef struct gconv_devices gconv_devices;
/* Files that a worker has open at a time: its input, a result, a copy of the result while it is closed, and one to spare. */
enum { GCONV_WORKER_FILES = 4 };

/* Chooses the devices and workers of a batch, and begins to open the devices. All workers together have `threads` threads.
 * There are at most `most` workers (0: any number), and not more than may have files open. Worker i has GPU i modulo the
 * number of GPUs. GCONV_BAD_ARGUMENT for an algorithm that the device lacks; GCONV_UNSUPPORTED if a GPU is asked to decode
 * and cannot. Whether a GPU can be used may show only when a worker waits for it. */
gconv_status gconv_devices_begin(const gconv_batch *batch, int threads, size_t most, gconv_devices **devices);
/* The number of workers. *threads: those of each worker. *reason: why "auto" chose its device; "" if the user named one. */
int gconv_devices_workers(const gconv_devices *devices, int *threads, const char **reason);
/* How many plans can be executed at a time: one for each worker, or, if one plan keeps all threads busy, for each GPU. */
int gconv_devices_pools(const gconv_devices *devices);
/* Waits for the turn of a worker, and opens its CPU. A decoder that starts has one processor to itself, as its start takes
 * three times as long if all processors are busy: the last workers begin when it is ready. Thread-safe, as all below. */
gconv_status gconv_devices_await_turn(gconv_devices *devices, int worker, gconv_device **cpu);
/* All groups are begun: no worker waits for its turn any more, and no decoder is started. */
void gconv_devices_end(gconv_devices *devices);
/* Whether rule 3 applies: the user left the device open, and a GPU is wanted, ready or not. */
bool gconv_devices_are_open(gconv_devices *devices);
/* The CPU of a worker, with its share of the threads. The first call opens it. */
gconv_status gconv_devices_cpu(gconv_devices *devices, int worker, gconv_device **cpu);
/* The device of an image: the GPU of the worker if one is wanted and ready; its CPU if no GPU is wanted, or if `either`
 * device may take the image; else NULL, or, with `waits`, the GPU once it is ready. Fails if a GPU is needed and there is
 * none. */
gconv_status gconv_devices_take(gconv_devices *devices, int worker, bool either, bool waits, gconv_device **device);
/* Whether the GPU of a worker can decode JPEG files by now, and has so few of them waiting that it is faster than the CPU.
 */
bool gconv_devices_decode(gconv_devices *devices, int worker);
/* Closes all devices, after all workers have ended and all plans are freed. Fills the fields of *summary about the device;
 * NULL is allowed. */
void gconv_devices_close(gconv_devices *devices, gconv_batch_summary *summary);
