/* SPDX-License-Identifier: MIT */
/* Masks: images whose samples are the numbers of classes. gconv_mask_read() in gconv_classify.h reads them. */
#pragma once

#include "gconv.h"

/* Copies a mask that a caller has in memory into *mask, which must be empty, as gconv_mask_read() would read it: u8 or u16.
 * `name` is for messages. The caller frees *mask, after a failure too. */
gconv_status gconv_mask_take(const gconv_image *given, const char *name, gconv_image *mask);
