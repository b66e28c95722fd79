/* SPDX-License-Identifier: MIT */
/* The layers of a network's text: net_text.c reads them, and net_make.c makes the network from them. */
#pragma once

#include "gconv_learn.h"

enum { GCONV_NET_LARGEST_EXTENT = 1 << 20 }; /* the most pixels that a dilated filter spans, and the largest stride */

/* A name in the text. Its length is 0 if there is none. */
typedef struct gconv_net_name {
  const char *begin;
  size_t length;
} gconv_net_name;

/* A layer of the text. */
typedef struct gconv_net_spec {
  gconv_layer_kind kind;
  bool dense;
  const char *begin, *end;   /* in the text */
  gconv_net_name own, other; /* own: the name of its output, after "as"; other: the output that is its second input */
  int32_t filters, rows, columns, stride, dilation, groups;
  bool valid;
  gconv_activation activation;
  float slope;
} gconv_net_spec;

/* A text, and the layers that were read from it. Zero-initialise. */
typedef struct gconv_net_reader {
  const char *text, *at;
  int nested;            /* open parentheses */
  gconv_net_spec *specs; /* owned */
  size_t count;
  size_t most; /* the most parameters that the network may have */
} gconv_net_reader;

/* Reads reader->text, from reader->at on, into specs. The caller frees reader->specs, also on failure. */
gconv_status gconv_net_read(gconv_net_reader *reader);

/* Fails with an error text that quotes begin .. end, and says where in the network's text this is. */
gconv_status gconv_net_fail_at(const gconv_net_reader *reader, gconv_status status, const char *begin, const char *end,
                               const char *format, ...) GCONV_PRINTF(5, 6);
