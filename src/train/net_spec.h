/* SPDX-License-Identifier: MIT */
/* The layers of a network's text, as net_text.c reads them and net_make.c takes them. */
#pragma once

#include "gconv_learn.h"

enum { GCONV_NET_LARGEST_EXTENT = 1 << 20 }; /* the largest span of a filter, and the largest stride */

/* A name in the text; of length 0: there is none. */
typedef struct gconv_net_name {
  const char *begin;
  size_t length;
} gconv_net_name;

/* A layer of the text. */
typedef struct gconv_net_spec {
  gconv_layer_kind kind;
  bool dense;
  const char *begin, *end;   /* in the text */
  gconv_net_name own, other; /* what "as" calls its output; the earlier output that it takes */
  int32_t filters, rows, columns, stride, dilation, groups;
  bool valid;
  gconv_activation activation;
  float slope;
} gconv_net_spec;

/* What a text is read into. Zero-initialise. */
typedef struct gconv_net_reader {
  const char *text, *at;
  int nested;
  gconv_net_spec *specs; /* owned */
  size_t count;
  size_t most; /* parameters */
} gconv_net_reader;

/* Reads reader->text, from reader->at on, into specs. The caller frees reader->specs, also on failure. */
gconv_status gconv_net_read(gconv_net_reader *reader);

/* Fails with a text that quotes begin .. end, and says where in the text it is. */
gconv_status gconv_net_fail_at(const gconv_net_reader *reader, gconv_status status, const char *begin, const char *end,
                               const char *format, ...) GCONV_PRINTF(5, 6);
