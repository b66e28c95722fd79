/* SPDX-License-Identifier: MIT */
/*
 * The devices of a run, by one rule:
 *
 *   1. Each worker has a share of the CPU's threads, and begins at once.
 *   2. A GPU is opened in a thread of its own, if it was asked for, or if the device was left open and it is worth its start
 *      (worth.h). When it is ready, workers give it their next images.
 *   3. If the device was left open, the CPU takes images as long as the GPU is not ready or has no memory. Only images for
 *      which the CPU's choice of algorithm is of the exact family are taken so, and the GPU is kept to that family for them:
 *      no bit tells which device it was. All other images wait for the GPU, so that one kind of device does all of them.
 *   4. Nobody waits for what is not needed: a GPU, or a decoder, that is not ready when all images are done is left to the
 *      end of the process.
 */
#ifndef GCONV_BATCH_DEVICES_H
#define GCONV_BATCH_DEVICES_H

#include "batch/worth.h"

typedef struct gconv_devices gconv_devices;

/* Files that a worker has open at a time: what it reads, what it writes, a copy of that while it is closed, one to spare. */
enum { GCONV_WORKER_FILES = 4 };

/* Finds out what the run wants, and begins to open it, for workers with `threads` threads together: as many workers as the
 * job wants, but no more than `most`, unless that is 0, and than may have files open. A GPU is one queue that all workers
 * share; of several GPUs each has its share of the workers, and worker i has GPU i modulo their number. GCONV_BAD_ARGUMENT
 * for an algorithm that the device has not; GCONV_UNSUPPORTED if a GPU is to decode and cannot. Whether a GPU can be used
 * may show only when it is waited for. */
gconv_status gconv_devices_begin(const gconv_batch *batch, int threads, size_t most, gconv_devices **devices);

/* How many workers there shall be, how many threads each of them has, and why "auto" is what it is; "" if the device was
 * asked for. */
int gconv_devices_workers(const gconv_devices *devices, int *threads, const char **reason);

/* How many plans can be at work at a time if one keeps a whole device busy: one a GPU; else as many as there are workers. */
int gconv_devices_pools(const gconv_devices *devices);

/* Waits until worker `worker` shall begin, and opens its CPU. While a decoder starts, it has one processor to itself, as it
 * takes three times as long where all are busy: the workers beyond the other processors begin when it is ready. Thread-safe,
 * as all below. */
gconv_status gconv_devices_await_turn(gconv_devices *devices, int worker, gconv_device **cpu);
/* No image is left to begin: nobody waits for a turn any more, and no decoder is started. */
void gconv_devices_end(gconv_devices *devices);

/* Whether the user left it open which device does what, and a GPU is wanted, ready or not: rule 3. */
bool gconv_devices_are_open(gconv_devices *devices);

/* The CPU of worker `worker`, with its share of the threads. It is opened when it is first wanted. */
gconv_status gconv_devices_cpu(gconv_devices *devices, int worker, gconv_device **cpu);

/* The device of an image of worker `worker`: its GPU, if one is wanted and ready; its CPU, if none is wanted, or if `either`
 * device may take it; else NULL, or, with `waits`, the GPU when it is ready. Fails if there is no GPU, which is needed. */
gconv_status gconv_devices_take(gconv_devices *devices, int worker, bool either, bool waits, gconv_device **device);

/* Whether the GPU of worker `worker` can decode JPEG files by now, and has so few waiting that it is the faster way. */
bool gconv_devices_decode(gconv_devices *devices, int worker);

/* Closes all, once no worker is at work any more, and the plans are freed. What became of it is the device's part of
 * *summary, which may be NULL. */
void gconv_devices_close(gconv_devices *devices, gconv_batch_summary *summary);

#endif
