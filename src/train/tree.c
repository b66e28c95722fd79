/* SPDX-License-Identifier: MIT */
#include "train/tree.h"
#include "base/control.h"
#include "base/memory.h"
#include "kernels/cpu/train/elements.h"

gconv_status gconv_tree_make(size_t floats, size_t leaves, gconv_tree *tree) {
  *tree = (gconv_tree){.floats = floats, .levels = 1};
  while (tree->levels < GCONV_TREE_LEVELS && ((uint64_t)1 << (tree->levels - 1)) < leaves)
    tree->levels++;
  for (size_t i = 0; i <= tree->levels; i++) {
    size_t bytes;
    gconv_multiply(floats + 1, sizeof(float), &bytes);
    GCONV_ALLOCATE(tree->rooms[i], bytes, "gradients");
    /* kernels do not write the padding of vectors, but it must be finite */
    GCONV_TRY(gconv_control_zeros(tree->rooms[i], bytes));
  }
  return GCONV_OK;
}

void gconv_tree_free(gconv_tree *tree) {
  for (size_t i = 0; i <= tree->levels; i++)
    gconv_release(tree->rooms[i]);
  *tree = (gconv_tree){0};
}

float *gconv_tree_leaf(gconv_tree *tree) {
  return tree->rooms[tree->levels];
}

void gconv_tree_push(gconv_tree *tree) {
  float *sum = tree->rooms[tree->levels];
  size_t level = 0;
  for (; tree->full >> level & 1; level++) {
    gconv_learn_add(tree->rooms[level], sum, tree->floats);
    tree->full &= ~((uint64_t)1 << level);
  }
  tree->rooms[tree->levels] = tree->rooms[level];
  tree->rooms[level] = sum;
  tree->full |= (uint64_t)1 << level;
}

const float *gconv_tree_sum(gconv_tree *tree) {
  float *sum = NULL;
  for (size_t level = 0; level < tree->levels; level++)
    if (tree->full >> level & 1) {
      if (sum)
        gconv_learn_add(tree->rooms[level], sum, tree->floats);
      else
        sum = tree->rooms[level];
    }
  tree->full = 0;
  return sum;
}
