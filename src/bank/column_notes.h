/* SPDX-License-Identifier: MIT */
/* The notes of a model about the columns of its table. */
#pragma once

#include "gconv_learn.h"

/* *copy, which is empty, becomes a copy. GCONV_NO_MEMORY leaves it empty. */
gconv_status gconv_column_notes_copy(const gconv_column_notes *notes, gconv_column_notes *copy);
/* Frees the arrays, and zeroes *notes. */
void gconv_column_notes_free(gconv_column_notes *notes);
