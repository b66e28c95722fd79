/* SPDX-License-Identifier: MIT */
/* Sums of many arrays by the tree of kernels/learn_problem.h, leaf after leaf, with memory for one array per level. */
#pragma once

#include "base/status.h"

#include <stdint.h>

enum { GCONV_TREE_LEVELS = 48 };

typedef struct gconv_tree {
  size_t floats, levels;
  float *rooms[GCONV_TREE_LEVELS + 1]; /* owned. rooms[level]: a sum of 2^level leaves; rooms[levels]: the next leaf */
  uint64_t full;                       /* bit `level`: rooms[level] holds a sum */
} gconv_tree;

/* Makes a tree for up to `leaves` leaves. Free with gconv_tree_free(), on failure too. */
gconv_status gconv_tree_make(size_t floats, size_t leaves, gconv_tree *tree);
void gconv_tree_free(gconv_tree *tree);

/* Returns the memory for the next leaf. The caller writes it; gconv_tree_push() then adds it. */
float *gconv_tree_leaf(gconv_tree *tree);
void gconv_tree_push(gconv_tree *tree);

/* Returns the sum of all leaves, at least one. It is valid until the next push. The tree is empty afterwards. */
const float *gconv_tree_sum(gconv_tree *tree);
