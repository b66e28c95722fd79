/* SPDX-License-Identifier: MIT */
/* What tells one job from another, for --resume. */
#ifndef GCONV_BATCH_DIGEST_H
#define GCONV_BATCH_DIGEST_H

#include "batch/banks.h"

/* A number that two runs share only if they make the same results of the same inputs, as far as was asked: the version of
 * the program, the filters' coefficients, every option of the convolution and of the files. Where it is computed, and by how
 * many threads, has no part in it. Whoever adds an option to those adds it here. */
uint64_t gconv_batch_digest(const gconv_batch *batch);

/* The same for a job of banks, of which weights, biases and how they are applied count. */
uint64_t gconv_bank_digest(const gconv_bank_batch *job);

#endif
