/* SPDX-License-Identifier: MIT */
/* Valid PNG files of what a fuzzer makes up, so that it gets behind the checksums. */
#ifndef GCONV_TESTS_FUZZ_MAKE_PNG_H
#define GCONV_TESTS_FUZZ_MAKE_PNG_H

#include <stddef.h>
#include <stdint.h>

enum { MAKINGS = 6 };

/* A PNG with right checksums, for free(), made of MAKINGS bytes for its header and a raw deflate stream; *size is set. */
uint8_t *make_png(const uint8_t *makings, const uint8_t *deflated, size_t deflated_size, size_t *size);

#endif
