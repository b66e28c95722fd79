/* SPDX-License-Identifier: MIT */
/*
 * The devices of a run, by these rules:
 *
 *   1. Each worker has a share of the CPU's threads, and begins at once.
 *   2. A GPU is opened in a thread of its own, if the user asked for it, or if the user left the device open and a GPU is
 *      worth its start (worth.h). When it is ready, workers give it their next images.
 *   3. If the user left the device open, the CPU takes images while the GPU is not ready or has no memory. But it takes only
 *      images for which it would choose an exact algorithm. The GPU uses the exact family for these images, too, so that
 * both devices make the same bits. All other images wait for the GPU, so that one kind of device takes all of them.
 *   4. No worker waits for a GPU that is not needed. If a GPU or decoder is not ready when all images are done, the end of
 *      the process closes it.
 */
#pragma once

#include "batch/worth.h"

typedef struct gconv_devices gconv_devices;
/* Files that a worker has open at a time: its input, a result, a copy of the result while the result is closed, and a spare.
 */
enum { GCONV_WORKER_FILES = 4 };

/* Chooses the devices and workers of a batch, and begins to open the devices. All workers together have `threads` threads.
 * There are at most `most` workers (0: any number), and no more than the limit of open files allows. Worker i has GPU i
 * modulo the number of GPUs. GCONV_BAD_ARGUMENT for an algorithm that the device lacks; GCONV_UNSUPPORTED if a GPU shall
 * decode and cannot. If a GPU cannot be opened, gconv_devices_take() may be the first to fail. */
gconv_status gconv_devices_begin(const gconv_batch *batch, int threads, size_t most, gconv_devices **devices);
/* Returns the number of workers. *threads: of each worker. *reason: why "auto" chose its device; "" if the user named it. */
int gconv_devices_workers(const gconv_devices *devices, int *threads, const char **reason);
/* Returns how many plans run at a time: one for each worker; if one plan keeps all threads busy, one for each GPU. */
int gconv_devices_pools(const gconv_devices *devices);
/* Waits for the turn of a worker, and opens its CPU. The start of a decoder takes three times as long if all processors are
 * busy. So the last workers begin when the decoder is ready. This function and all below are thread-safe. */
gconv_status gconv_devices_await_turn(gconv_devices *devices, int worker, gconv_device **cpu);
/* Reports that all groups are begun: no worker waits for its turn any more, and no decoder is started. */
void gconv_devices_end(gconv_devices *devices);
/* Returns whether rule 3 applies: the user left the device open, and a GPU is wanted, ready or not. */
bool gconv_devices_are_open(gconv_devices *devices);
/* Sets *cpu to the CPU of a worker, with its share of the threads. The first call opens it. */
gconv_status gconv_devices_cpu(gconv_devices *devices, int worker, gconv_device **cpu);
/* Sets *device to the device of an image. If a GPU is wanted and ready, this is the worker's GPU. If no GPU is wanted, or
 * `either` device may take the image, it is the CPU. Otherwise it is NULL or, with `waits`, the GPU once it is ready. Fails
 * if a needed GPU cannot be opened. */
gconv_status gconv_devices_take(gconv_devices *devices, int worker, bool either, bool waits, gconv_device **device);
/* Returns whether the decoder of a worker's GPU is ready, and so few JPEGs wait for it that it is faster than the CPU. */
bool gconv_devices_decode(gconv_devices *devices, int worker);
/* Closes all devices, after all workers have ended and all plans are freed. Fills the fields of *summary about the device.
 * `summary` may be NULL. */
void gconv_devices_close(gconv_devices *devices, gconv_batch_summary *summary);
