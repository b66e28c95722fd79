/* SPDX-License-Identifier: MIT */
#include "data/random.h"

enum { ROUNDS = 10 };

/* The constants of Philox 4x32. */
static const uint32_t multipliers[2] = {0xD2511F53, 0xCD9E8D57};
static const uint32_t weyl[2] = {0x9E3779B9, 0xBB67AE85};

static void philox(uint32_t counter[4], uint64_t seed) {
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t first = (uint64_t)multipliers[0] * counter[0], second = (uint64_t)multipliers[1] * counter[2];
    uint32_t next[4] = {(uint32_t)(second >> 32) ^ counter[1] ^ key[0], (uint32_t)second,
                        (uint32_t)(first >> 32) ^ counter[3] ^ key[1], (uint32_t)first};
    for (int i = 0; i < 4; i++)
      counter[i] = next[i];
    key[0] += weyl[0];
    key[1] += weyl[1];
  }
}

uint64_t gconv_random_bits(uint64_t seed, gconv_random_use use, uint64_t stream, uint64_t index) {
  uint64_t high = (uint64_t)use << 56 | (stream & 0xFFFFFFFFFFFFFF);
  uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
  philox(counter, seed);
  return (uint64_t)counter[1] << 32 | counter[0];
}

double gconv_random_uniform(uint64_t seed, gconv_random_use use, uint64_t stream, uint64_t index) {
  return (double)(gconv_random_bits(seed, use, stream, index) >> 11) * 0x1p-53;
}

size_t gconv_random_below(uint64_t bits, size_t count) {
  size_t number = (size_t)((double)(bits >> 11) * 0x1p-53 * (double)count);
  return number < count ? number : count - 1; /* the product may be rounded up */
}

void gconv_random_shuffle(uint64_t seed, gconv_random_use use, uint64_t stream, size_t *items, size_t count) {
  for (size_t left = count; left > 1; left--) {
    size_t at = gconv_random_below(gconv_random_bits(seed, use, stream, left), left), item = items[left - 1];
    items[left - 1] = items[at];
    items[at] = item;
  }
}
