/* SPDX-License-Identifier: MIT */
/*
 * toeplitz, small filters and RGB from u8 to u8: colours are separated, so that their windows are those of one channel.
 *
 * In a row of RGB, the taps of a band are three samples apart, so windows are up to three times as long as the taps need.
 * Therefore the rows that cp.async brings are divided into planes of colours, again in shared memory, four pixels of a row
 * at a time. The results of the three colours are interleaved again in registers before they are stored:
 *
 *     r g b r | g b r g | b r g b        r r r r   g g g g   b b b b        r g b r | g b r g | b r g b
 *
 * For 7 x 7 taps, that takes 36 products for 384 samples; windows of RGB take 63.
 */
#pragma once

#include "toeplitz_walk.cuh"

namespace {

enum { COLOURS = 3 };

/* Converts between four pixels, 12 bytes, and words of one colour. */
DEVICE void divide_colours(const uint32_t (&rgb)[3], uint32_t (&colour)[COLOURS]) {
  colour[0] = __byte_perm(__byte_perm(rgb[0], rgb[1], 0x0630), rgb[2], 0x5210);
  colour[1] = __byte_perm(__byte_perm(rgb[0], rgb[1], 0x0741), rgb[2], 0x6210);
  colour[2] = __byte_perm(__byte_perm(rgb[0], rgb[1], 0x0052), rgb[2], 0x7410);
}
DEVICE void join_colours(const uint32_t (&colour)[COLOURS], uint32_t (&rgb)[3]) {
  rgb[0] = __byte_perm(__byte_perm(colour[0], colour[1], 0x0140), colour[2], 0x2410);
  rgb[1] = __byte_perm(__byte_perm(colour[0], colour[1], 0x6205), colour[2], 0x3250);
  rgb[2] = __byte_perm(__byte_perm(colour[0], colour[1], 0x0730), colour[2], 0x7216);
}

DEVICE void store_word(uint32_t shared, uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared), "r"(word) : "memory");
}

/* A warp goes down a strip of 128 pixels, Y rows in each step. R and D are those of products. */
template <int R, int D> struct colour_walker {
  static constexpr int UNITS = (TILE + OUTPUTS) / 4;                   /* units of four pixels in a row */
  static constexpr int CHUNKS = (12 * UNITS + 12 + CHUNK - 1) / CHUNK; /* chunks of an input row of RGB */
  static constexpr int RAW_PITCH = CHUNKS * CHUNK, PLANE = 4 * UNITS, PITCH = COLOURS * PLANE; /* of rows in shared memory */
  using product = products<R, 1, D, PITCH>;
  static constexpr int Y = product::Y, NEED = product::NEED, AHEAD = 2, SIDE = LANES / Y, SLOTS = (CHUNKS - 1) / SIDE + 1;
  static constexpr int RAW = (AHEAD + 1) * Y * RAW_PITCH, PLANES = NEED * Y * PITCH;
  static constexpr int SHARED_BYTES = (RAW + PLANES + RAW_PITCH * (int)sizeof(int) + 15) / 16 * 16; /* of a warp */
  static constexpr int BLOCKS = D == 1 ? 4 : R == 9 ? 3 : 4; /* blocks of a multiprocessor */

  const banded_arguments &a;
  row_source source;
  uint8_t *raw;
  int top;    /* input row of the first group */
  int groups; /* groups of the strip */
  int lead;

  /* Groups of input rows that are being copied to shared memory, as in walker. */
  struct feed {
    int y, last;
    const uint8_t *from;
    uint32_t copies; /* bit i: the lane copies the chunk that is i * SIDE further on */
  };

  DEVICE feed make_feed() const {
    const int dilation = a.problem.dilation_y, row = threadIdx.x % LANES / SIDE, chunk = threadIdx.x % SIDE;
    feed f = {top, min(top + (groups - 1) * Y * dilation, a.problem.height - 1 - (Y - 1) * dilation), NULL, 0};
    f.from = source.in + top * a.in_row + row * a.in_step + source.first + chunk * CHUNK;
    for (int i = 0; i < SLOTS; i++) {
      const int own = chunk + i * SIDE, left = source.first + own * CHUNK;
      if (own < CHUNKS && left >= 0 && left + CHUNK <= a.in_samples && (own < source.begin || own >= source.end))
        f.copies |= 1u << i;
    }
    f.copies = keep(f.copies);
    return f;
  }

  /* Starts to stage the next group at the address `to`, if there is one. `own` is that of this lane's first chunk. */
  DEVICE void fetch(feed &f, uint32_t to, uint32_t own) const {
    const int step = Y * a.problem.dilation_y;
    if (f.y >= 0 && f.y <= f.last) {
      UNROLLED_FOR (int i = 0; i < SLOTS; i++)
        if (f.copies >> i & 1)
          copy_async<CHUNK>(own + i * SIDE * CHUNK, f.from + i * SIDE * CHUNK);
      if (source.begin < source.end)
        stage_border<uint8_t, LANES>(a, source, f.y, Y, CHUNKS, (uint8_t *)__cvta_shared_to_generic(to));
    } else if (f.y < top + groups * step) {
      stage_rows<uint8_t, LANES>(a, source, f.y, Y, CHUNKS, (uint8_t *)__cvta_shared_to_generic(to));
    }
    commit_copies();
    f.y += step;
    f.from += Y * a.in_step;
  }

  static DEVICE void divide_unit(uint32_t from, uint32_t to) {
    const uint32_t rgb[3] = {load_word(from), load_word(from + 4), load_word(from + 8)};
    uint32_t colour[COLOURS];
    divide_colours(rgb, colour);
    UNROLLED_FOR (int c = 0; c < COLOURS; c++)
      store_word(to + c * PLANE, colour[c]);
  }

  /* Divides the rows of a group: LANES units of a row at a time, then the remaining units of all rows. */
  static DEVICE void divide(uint32_t from, uint32_t to) {
    const int lane = threadIdx.x % LANES, row = lane / (UNITS - LANES), unit = LANES + lane % (UNITS - LANES);
    UNROLLED_FOR (int y = 0; y < Y; y++)
      divide_unit(from + y * RAW_PITCH + 12 * lane, to + y * PITCH + 4 * lane);
    if (row < Y)
      divide_unit(from + row * RAW_PITCH + 12 * unit, to + row * PITCH + 4 * unit);
  }

  /* Stores four pixels, or `count` pixels at the end of a row. */
  static DEVICE void store_pixels(const uint32_t (&rgb)[3], uint8_t *at, int count) {
    UNROLLED_FOR (int i = 0; i < 12; i++)
      if (i < 3 * count && count < 4)
        at[i] = (uint8_t)(rgb[i / 4] >> 8 * (i % 4));
      else if (i % 4 == 0 && count >= 4)
        ((uint32_t *)at)[i / 4] = rgb[i / 4];
  }

  /* Makes up to Y rows of results from the groups in shared memory. group[] has the addresses of this lane's windows. `at`
   * advances. */
  DEVICE void make_rows(const product &p, const uint32_t (&group)[NEED], const plain_outlet &to, int rows,
                        uint8_t *&at) const {
    uint32_t colour[Y][COLOURS];
    UNROLLED_FOR (int c = 0; c < COLOURS; c++) {
      int sums[Y][D][4] = {};
      p.add(group, c * PLANE, sums);
      UNROLLED_FOR (int j = 0; j < Y; j++)
        colour[j][c] = to.exchange(to.levels(sums[j]));
    }
    const int all = to.whole && rows >= Y ? 4 : 0;
    UNROLLED_FOR (int j = 0; j < Y; j++, at += a.out_step) {
      uint32_t rgb[3];
      join_colours(colour[j], rgb);
      if (all || j < rows)
        store_pixels(rgb, at, all ? 4 : to.count);
    }
  }

  /* Makes `rows` output rows from row `begin` on. */
  DEVICE void walk(const outlet &to, int begin, int rows) const {
    const int lane = threadIdx.x % LANES, to_windows = OUTPUTS * (lane / 4) + 4 * (lane % 4);
    const uint32_t address = keep(shared_address(raw));
    const uint32_t chunk = keep(lane / SIDE * RAW_PITCH + lane % SIDE * CHUNK);
    const plain_outlet plain(a, to);
    uint8_t *at = to.out + begin * a.out_row + COLOURS * plain.first;
    uint32_t coming[AHEAD + 1],
        group[NEED]; /* addresses of rows as they arrive; of the separated rows, at this lane's windows */
    product p;
    p.load_bands((const uint2 *)a.bands + lane);
    feed f = make_feed();
    UNROLLED_FOR (int g = 0; g < AHEAD + 1; g++) {
      coming[g] = address + g * Y * RAW_PITCH;
      if (g < AHEAD)
        fetch(f, coming[g], coming[g] + chunk);
    }
    UNROLLED_FOR (int g = 0; g < NEED; g++)
      group[g] = address + RAW + g * Y * PITCH + to_windows;
    ROLLED_FOR (int i = (1 - NEED) * Y; i < rows; i += Y) {
      fetch(f, coming[AHEAD], coming[AHEAD] + chunk);
      await_copies<AHEAD>();
      __syncwarp(); /* the copies of all lanes are there, and all have read the oldest group */
      divide(coming[0] + lead, group[NEED - 1] - to_windows);
      __syncwarp();
      if (i >= 0)
        make_rows(p, group, plain, rows - i, at);
      turn(coming);
      turn(group);
    }
  }
};

/* Grid and block as those of walk_down(), with tiles of 128 pixels. */
template <int R, int D>
__global__ void __launch_bounds__(WARPS *LANES, colour_walker<R, D>::BLOCKS)
    walk_down_colours(const __grid_constant__ banded_arguments a) {
  extern __shared__ __align__(16) uint8_t memory[];
  using small = colour_walker<R, D>;
  const int width = a.problem.out_width;
  place_in_grid p;
  if (!find_place(a, width, &p))
    return;
  uint8_t *own = memory + threadIdx.x / LANES * small::SHARED_BYTES;
  const int lead = lead_of<uint8_t>(a);
  const row_source source = make_source<uint8_t, LANES>(a, p.at.in, COLOURS * p.tile + a.left - lead, small::CHUNKS,
                                                        (int *)(own + small::RAW + small::PLANES));
  __syncwarp();
  const small warp = {a, source, own, p.top - a.problem.pad_top, (p.rows + R + small::Y - 2) / small::Y, lead};
  warp.walk({p.at.in, p.at.out, p.tile + 4 * (int)(threadIdx.x % LANES), width}, p.top, p.rows);
}

} // namespace
