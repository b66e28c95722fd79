/* SPDX-License-Identifier: MIT */
/*
 * The memory of a run: a budget that all workers share, and the part of it that each worker holds. This layer knows numbers
 * of bytes and the pixels that a worker keeps. cost.h estimates the numbers.
 *
 * A worker takes all memory for a group at once. If it must wait, it first gives back its memory, except the memory of its
 * open reader. So workers cannot wait for each other forever. All open readers together have at most an eighth of the
 * budget, or one reader alone has more.
 */
#pragma once

#include "gconv.h"

#include <pthread.h>

typedef struct gconv_budget {
  uint64_t bytes;       /* for images: --memory without `shared` */
  uint64_t shared;      /* the program and the operation take these bytes at any time */
  bool is_strict;       /* --memory was given: it bounds open readers, too */
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  uint64_t taken;
  uint64_t parked;  /* the part of `taken` that waiting workers hold */
  uint64_t opened;  /* bytes of open readers, and of closed readers that will be opened again */
  uint64_t arrived; /* how many times a worker has begun to wait */
  uint64_t served;  /* how many of these waits have ended */
} gconv_budget;

/* The part of the budget that one worker holds, and the pixels that it keeps for the next group. */
typedef struct gconv_holding {
  gconv_budget *budget;
  void (*spare)(void *user); /* called before the worker waits: frees memory that no group uses now */
  void *user;
  uint64_t held;        /* bytes of the budget */
  uint64_t opened;      /* the part of `held` that an open reader has */
  uint64_t expected;    /* bytes of a reader that was closed because other readers had too much; 0: there is none */
  gconv_image input;    /* the last pixels: images of the same size use their memory again */
  gconv_image *results; /* [result_count]: the last results, to be used again */
  size_t result_count;
} gconv_holding;

/* ---- Kept pixels ---- */

/* Takes the kept input as an image like `header`: with pixels if they have the right size, else empty. */
gconv_image gconv_holding_take_input(gconv_holding *holding, const gconv_image *header);
/* Keeps the pixels of *image, which is empty then, as the input. */
void gconv_holding_keep_input(gconv_holding *holding, gconv_image *image);
/* Gives holding->results `count` images. If their number changes, frees the kept images, and the new ones are empty. */
gconv_status gconv_holding_set_results(gconv_holding *holding, size_t count);
/* Frees the kept pixels. */
void gconv_holding_clear(gconv_holding *holding);

/* ---- The budget ---- */

/* Returns a budget of `bytes`, or, if that is 0, of half the memory of the machine or its control group. of_operation: bytes
 * that the operation takes. */
gconv_budget gconv_budget_begin(uint64_t bytes, double of_operation);
/* Takes memory until the worker holds `bytes` in all. Waits until they are free. */
void gconv_holding_take(gconv_holding *holding, uint64_t bytes);
/* Call it before a file is opened: takes `bytes`, at most the budget, and waits for them. Does nothing if `bytes` is 0. */
void gconv_holding_open(gconv_holding *holding, double bytes);
/* Call it after a file is opened: keeps the `bytes` of its reader. Returns false if other readers have too much. Then close
 * the file, and call gconv_holding_open() again, which waits. `bounded`: the file can be opened again; else returns true. */
bool gconv_holding_settle(gconv_holding *holding, uint64_t bytes, bool bounded);
/* Call it after a group: gives back all bytes but those of the kept pixels. */
void gconv_holding_give_back(gconv_holding *holding);
