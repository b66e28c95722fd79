/* SPDX-License-Identifier: MIT */
/* What the parts of src/batch share besides the types of gconv_jobs.h. */
#ifndef GCONV_BATCH_TEXTS_H
#define GCONV_BATCH_TEXTS_H

#include "base/status.h"
#include "gconv_jobs.h"

/* GCONV_NO_MEMORY, with its text. */
gconv_status gconv_complain_memory(gconv_message *message);

#endif
