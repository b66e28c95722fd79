/* SPDX-License-Identifier: MIT */
/*
 * The skeleton of the kernels in this folder: some warps of a block are producers, others consumers, and between them is a
 * ring of slots in shared memory.
 *
 *     producers, for each piece of work                   consumers, for each piece of work
 *       wait_empty(): the slot has been read                wait_full(): the slot has been filled
 *       fill it by stores, then arrive at `full`; or        multiply what is there
 *       arrive (barrier_expect()), then start bulk copies   arrive at `empty`
 *       go on to the next slot                              go on to the next slot
 *
 * Producers wait only if the ring is full, consumers only if it is empty. So copies, tensor cores and stores are under way
 * at the same time, and a warp needs registers only for its own part (registers_up(), registers_down()).
 *
 * A slot has two barriers. The phases of a barrier end one after the other, and have parity 0, 1, 0 .. A place in the ring
 * has the parity of its round: the first round ends phase 0 of `full`. In the first round, no consumer has read a slot yet.
 * Then producers wait for the phase before phase 0, which counts as ended.
 *
 * tensor.cuh has rings of weights, planes, and places of outputs; tensor_flow.cuh and tensor_points.cuh have rings of packed
 * samples; gather.cuh has rings of packed tiles. The consumers are always two warpgroups.
 */
#pragma once

#include "instructions.cuh"

namespace hopper {

/* A place in a ring, and the parity of the round. */
struct ring {
  uint32_t place = 0, parity = 0;
  DEVICE void advance(uint32_t size) {
    if (++place == size)
      place = 0, parity ^= 1;
  }
};

/* The barriers of a ring, in shared memory. */
template <int MOST> struct slot_barriers {
  uint64_t full[MOST], empty[MOST];
  /* One thread calls this, and then barrier_init_done(). `producers`, `consumers`: how many of these arrive at a slot. */
  DEVICE void begin(int count, uint32_t producers, uint32_t consumers) {
    for (int i = 0; i < count; i++) {
      barrier_init(&full[i], producers);
      barrier_init(&empty[i], consumers);
    }
  }
  DEVICE void wait_full(const ring &at) {
    barrier_wait(&full[at.place], at.parity);
  }
  DEVICE void wait_empty(const ring &at) {
    barrier_wait(&empty[at.place], at.parity ^ 1);
  }
};

} // namespace hopper
