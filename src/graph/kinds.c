/* SPDX-License-Identifier: MIT */
/* The table of kinds of nodes: the tables of all families (kinds.def), one after the other. */
#include "graph/node.h"

#include <string.h>

#define GCONV_NODE_FAMILY(name) gconv_node_kinds_##name,
static const gconv_node_kind *const families[] = {
#include "graph/kinds.def"
};
#undef GCONV_NODE_FAMILY

const gconv_node_kind *gconv_node_kind_at(size_t index) {
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (const gconv_node_kind *kind = families[f]; kind->name; kind++)
      if (index-- == 0)
        return kind;
  return NULL;
}

const gconv_node_kind *gconv_node_kind_find(const char *name, uint64_t opset) {
  for (size_t f = 0; name && f < sizeof families / sizeof *families; f++)
    for (const gconv_node_kind *kind = families[f]; kind->name; kind++)
      if (strcmp(kind->name, name) == 0 && opset >= (uint64_t)kind->since && opset <= (uint64_t)kind->until)
        return kind;
  return NULL;
}
