/* SPDX-License-Identifier: MIT */
/* How a block of a layer on tensor cores (tensor.cuh) computes sums: it copies pieces of planes and weights to rings in
 * shared memory, and multiplies them. */
#pragma once

#include "tensor_work.cuh"

namespace tensor {

/* ---- Copying to shared memory ---- */

/* Copies weights. One thread calls it. */
DEVICE void copy_weights(const arguments &a, const memory &m) {
  const cut &c = a.c;
  const int32_t sides = CONSUMERS / c.sets, bytes = c.slot_bytes / sides;
  auto &barriers = m.barriers->weights;
  ring slot;
  for (uint32_t number = blockIdx.x; number < c.items; number += gridDim.x) {
    const item it = item_of(a, number);
    for (int32_t step = it.first_chunk * c.steps; step < it.end_chunk * c.steps; step += c.slot_steps) {
      barriers.wait_empty(slot);
      barrier_expect(&barriers.full[slot.place], (uint32_t)c.slot_bytes);
      for (int32_t side = 0; side < sides; side++) {
        const int64_t tile = (int64_t)it.group * c.filter_tiles + it.filter_tile + side;
        bulk_copy(m.slots + slot.place * c.slot_bytes + side * bytes,
                  a.weights + (tile * c.chunks * c.steps + step) * (bytes / c.slot_steps), (uint32_t)bytes,
                  &barriers.full[slot.place]);
      }
      slot.advance(c.slots);
    }
    if (c.resident)
      return;
  }
}

/* Copies the pieces of planes that a tile needs for a chunk. If the number of tiles is odd, the last second set has no tile.
 * That set gets the pieces of tile 0, and its sums are not stored (find_out_places()). */
DEVICE void copy_chunk(const arguments &a, const item &it, int64_t tile, int32_t chunk, uint8_t *to, uint64_t *full) {
  const cut &c = a.c;
  const int32_t channel_chunk = chunk / c.row_chunks, first_row = (chunk - channel_chunk * c.row_chunks) * c.chunk_rows;
  const int64_t first = tile < c.tiles ? position_of(a, tile) : 0;
  const uint32_t bytes = (uint32_t)c.length * UNIT;
  barrier_expect(full, bytes * c.planes * c.digits);
  for (int32_t unit = 0; unit < c.chunk_units; unit++)
    for (int32_t phase = 0; phase < c.phases_y; phase++)
      for (int32_t variant = 0; variant < c.variants; variant++, to += bytes) {
        const int32_t row = min(first_row + phase, a.problem.rows - 1), down = row / c.period_y * c.step_y;
        const int32_t input_unit = it.group * c.units + min(channel_chunk * c.chunk_units + unit, c.units - 1);
        const int64_t plane = ((int64_t)input_unit * c.phases + row % c.period_y) * c.variants + variant;
        const uint8_t *from = a.planes + (plane * c.positions + first + down * c.pitch) * UNIT;
        for (int32_t digit = 0; digit < c.digits; digit++)
          bulk_copy(to + digit * c.plane_bytes, from + digit * a.digit_bytes, bytes, full);
      }
}

/* Copies planes. One thread calls it. */
DEVICE void copy_planes(const arguments &a, const memory &m) {
  const cut &c = a.c;
  ring buffer;
  for (uint32_t number = blockIdx.x; number < c.items; number += gridDim.x) {
    const item it = item_of(a, number);
    for (int32_t chunk = it.first_chunk; chunk < it.end_chunk; chunk++) {
      for (int32_t set = 0; set < c.sets; set++) {
        m.barriers->planes[set].wait_empty(buffer);
        copy_chunk(a, it, it.tile + set, chunk, m.planes + (buffer.place * c.sets + set) * c.digits * c.plane_bytes,
                   &m.barriers->planes[set].full[buffer.place]);
      }
      buffer.advance(c.buffers);
    }
  }
}

/* ---- Multiplying ---- */

/* Returns the descriptor of an operand: 2 units by rows that are 16 bytes apart. In units of 16 bytes, it has the address,
 * (16 bits higher) the distance of the units, and (32 bits higher) the distance of 8 rows. */
DEVICE uint64_t descriptor(uint32_t low) {
  return (uint64_t)low | (uint64_t)(8 * UNIT >> 4) << 32;
}

struct rings {
  ring buffer, slot;
  bool weights_there = false; /* all weights have arrived, to stay in shared memory */
};

/* Addresses in shared memory, which do not change during the work of a warpgroup. Addresses of operands, and distances, are
 * in units of 16 bytes. */
struct places {
  uint32_t planes, weights, steps;             /* weights: the low half of a descriptor; steps: in bytes */
  uint32_t digit, buffer, slot;                /* distance from one digit, buffer or slot to the next */
  uint32_t full, empty, slot_full, slot_empty; /* barriers */
};

DEVICE places places_of(const cut &c, const memory &m, int32_t consumer) {
  const int32_t set = c.sets == 2 ? consumer : 0, side = c.sets == 2 ? 0 : consumer;
  places p;
  p.planes = (shared_address(m.planes) + set * c.digits * c.plane_bytes) >> 4;
  p.weights = (shared_address(m.slots) + side * (c.slot_bytes / (CONSUMERS / c.sets))) >> 4 | (uint32_t)(ROWS * UNIT >> 4)
                                                                                                  << 16;
  p.steps = shared_address(m.steps);
  p.digit = (uint32_t)c.plane_bytes >> 4;
  p.buffer = (uint32_t)(c.sets * c.digits * c.plane_bytes) >> 4;
  p.slot = (uint32_t)c.slot_bytes >> 4;
  p.full = shared_address(m.barriers->planes[set].full), p.empty = shared_address(m.barriers->planes[set].empty);
  p.slot_full = shared_address(m.barriers->weights.full), p.slot_empty = shared_address(m.barriers->weights.empty);
  return p;
}

/* Multiplies a step. `entry`, from the table, has the place of the step's first unit in the planes and, 16 bits higher, the
 * distance to its second unit. Added to the address of the planes, it is the low half of a descriptor. Products with low
 * digits of weights come first, then products with low digits of samples, then products of high digits. */
template <class E, int D>
DEVICE void multiply_step(uint32_t weights, uint32_t planes, uint32_t digit, uint32_t entry, uint32_t add,
                          float (&sums)[128]) {
  constexpr uint32_t DIGIT = TILE_UNITS * ROWS * UNIT >> 4;
  const uint64_t filters = descriptor(weights), units = descriptor(planes + entry);
  multiply_begin();
  if (D == 2) {
    E::multiply(sums, filters + DIGIT, units, add);
    E::multiply(sums, filters, units + digit, 1);
    add = 1;
  }
  E::multiply(sums, filters, units, add);
  multiply_commit();
}

/* Adds up an item, with weights that stay in shared memory. Tensor cores become idle if a step has much work besides its
 * multiplications. So the warpgroup waits only once for all weights, and once a chunk for all steps but the last; after
 * that, it gives back the buffer of the previous chunk. */
template <class E, int D>
DEVICE void multiply_resident(const cut &c, const places &p, const item &it, rings &r, float (&sums)[128]) {
  if (!r.weights_there)
    for (int32_t i = 0; i < c.slots; i++)
      barrier_wait(p.slot_full + i * 8, 0);
  r.weights_there = true;
  uint32_t done = 0, weights = p.weights, add = 0;
  for (int32_t chunk = it.first_chunk; chunk < it.end_chunk; chunk++) {
    const uint32_t planes = p.planes + r.buffer.place * p.buffer;
    uint32_t entry = load_word(p.steps);
    barrier_wait(p.full + r.buffer.place * 8, r.buffer.parity);
    for (int32_t step = 1; step <= c.steps; step++) {
      const uint32_t now = entry;
      entry = load_word(p.steps + (step < c.steps ? step * 4 : 0));
      multiply_step<E, D>(weights, planes, p.digit, now, add, sums);
      add = 1;
      weights += p.slot;
    }
    multiply_wait<1>();
    if (done && threadIdx.x % 32 == 0)
      barrier_arrive(done);
    done = p.empty + r.buffer.place * 8;
    r.buffer.advance(c.buffers);
  }
  multiply_wait<0>();
  if (threadIdx.x % 32 == 0)
    barrier_arrive(done);
}

/* Adds up an item, with weights that are copied some steps at a time. Slots and buffers are given back when the instructions
 * that read them have ended, one step later. */
template <class E, int D>
DEVICE void multiply_passing(const cut &c, const places &p, const item &it, rings &r, float (&sums)[128]) {
  constexpr uint32_t STEP = D * TILE_UNITS * ROWS * UNIT >> 4;
  const bool leader = threadIdx.x % 32 == 0;
  uint32_t slot_done = 0, buffer_done = 0, add = 0;
  for (int32_t chunk = it.first_chunk; chunk < it.end_chunk; chunk++) {
    const uint32_t planes = p.planes + r.buffer.place * p.buffer;
    uint32_t entry = load_word(p.steps);
    barrier_wait(p.full + r.buffer.place * 8, r.buffer.parity);
    for (int32_t step = 1; step <= c.steps; r.slot.advance(c.slots)) {
      uint32_t weights = p.weights + r.slot.place * p.slot;
      barrier_wait(p.slot_full + r.slot.place * 8, r.slot.parity);
      for (int32_t i = 0; i < c.slot_steps; i++, step++, weights += STEP) {
        const uint32_t now = entry;
        entry = load_word(p.steps + (step < c.steps ? step * 4 : 0));
        multiply_step<E, D>(weights, planes, p.digit, now, add, sums);
        add = 1;
        multiply_wait<1>();
        if (leader && slot_done)
          barrier_arrive(slot_done);
        if (leader && buffer_done)
          barrier_arrive(buffer_done);
        slot_done = buffer_done = 0;
      }
      slot_done = p.slot_empty + r.slot.place * 8;
    }
    buffer_done = p.empty + r.buffer.place * 8;
    r.buffer.advance(c.buffers);
  }
  multiply_wait<0>();
  if (leader)
    barrier_arrive(slot_done), barrier_arrive(buffer_done);
}

} // namespace tensor
