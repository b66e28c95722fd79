/* SPDX-License-Identifier: MIT */
/*
 * toeplitz, small filters and u8: a warp goes down a strip, Y = 4 rows in each step.
 *
 * A ring in shared memory has the input rows in groups of Y: the NEED = 2 or 3 groups that a step spans, and AHEAD = 2 more
 * groups that are being copied. The bands of a single filter stay in registers. Bands of several filters are read from the
 * L1 cache in each step.
 *
 * All products take windows of 32 bytes, in four words. The words are loaded into the registers where the multiplication
 * needs them. If windows have 16 bytes (W = 1), a product takes windows of two input rows; the first is an even row of the
 * step. So a filter has bands of two rows for even output rows of the step, and other bands for odd output rows, with zeros
 * at the ends:
 *
 *     output row 0, on input rows (0, 1) (2, 3): rows of taps (0, 1) (2, .)     output row 1, on the same: (., 0) (1, 2)
 *
 * The common case (PLAIN) is one filter to u8, with an epilogue of scale and offset. Its results do not go through shared
 * memory. A lane has two neighbouring outputs of window g and two of window g + 8. The next lane has the two outputs after
 * each of these pairs. The two lanes exchange a pair, and then each stores four neighbours.
 *
 * RGB (C = 3): in a row, the taps of a band are three samples apart, so windows are up to three times as long as the taps
 * need. So the warp divides the copied rows into three planes, one for each colour, which lie in shared memory, too. A lane
 * divides four pixels of a row at a time. The ring holds the group that is being divided and the AHEAD groups that are still
 * being copied; the planes hold the groups that a step multiplies. Before the warp stores results, it interleaves the three
 * colours again, in registers:
 *
 *     r g b r | g b r g | b r g b        r r r r   g g g g   b b b b        r g b r | g b r g | b r g b
 *
 * For 7 x 7 taps, that takes 36 products for 384 samples; windows of RGB take 63.
 */
#pragma once

#include "toeplitz_rows.cuh"

namespace {

/* Rotates the array: moves the first element to the end. */
template <int N> DEVICE void turn(uint32_t (&places)[N]) {
  const uint32_t first = places[0];
  UNROLLED_FOR (int i = 0; i + 1 < N; i++)
    places[i] = places[i + 1];
  places[N - 1] = first;
}

/* Computes the sums of Y output rows, for windows of W = 1 or 2 times 16 bytes, R = 3, 5, 7, 9 rows and D = 1 or 3 digits.
 * Input rows are PITCH bytes apart in shared memory. */
template <int R, int W, int D, int PITCH> struct products {
  static constexpr int Y = 4, NEED = 1 + (R + Y - 2) / Y; /* groups of Y input rows */
  static constexpr int TWO = 3 - W;                       /* input rows of a product */
  static constexpr int COUNT = (R - 1) / TWO + 1;         /* products for an output row and a digit */
  static constexpr int PAIRS = TWO * COUNT * D * LANES;   /* pairs of words of the bands of a filter */

  uint2 bands[TWO][COUNT][D];

  DEVICE void load_bands(const uint2 *from) {
    UNROLLED_FOR (int i = 0; i < TWO * COUNT * D; i++)
      bands[i / (COUNT * D)][i / D % COUNT][i % D] = __ldg(from + i * LANES);
  }

  /* Adds the products from the groups at the addresses group[] + offset, where this lane's windows are. */
  template <int N> DEVICE void add(const uint32_t (&group)[N], int offset, int (&sums)[Y][D][4]) const {
    UNROLLED_FOR (int q = 0; q * TWO < R + Y - 1; q++) {
      uint32_t x[4]; /* windows g and g + 8 of 16 bytes, then both of the next 16 bytes or of the next row */
      UNROLLED_FOR (int i = 0; i < 4; i++) {
        const int row = q * TWO + (W == 1 ? i / 2 : 0);
        x[i] = load_word(group[row / Y] + offset + row % Y * PITCH + HALF * (i % 2) + (W == 1 ? 0 : 16 * (i / 2)));
      }
      UNROLLED_FOR (int j = 0; j < Y; j++) {
        const int product = q - j / TWO;
        if (product >= 0 && product < COUNT)
          UNROLLED_FOR (int d = 0; d < D; d++) {
            const uint2 band = bands[j % TWO][product >= 0 && product < COUNT ? product : 0][d];
            multiply(sums[j][d], x[0], x[1], x[2], x[3], band.x, band.y);
          }
      }
    }
  }
};

enum { COLOURS = 3 };

/* Converts between four pixels, 12 bytes, and words of one colour. */
DEVICE void divide_colours(const uint32_t (&rgb)[3], uint32_t (&colour)[COLOURS]) {
  colour[0] = __byte_perm(__byte_perm(rgb[0], rgb[1], 0x0630), rgb[2], 0x5210);
  colour[1] = __byte_perm(__byte_perm(rgb[0], rgb[1], 0x0741), rgb[2], 0x6210);
  colour[2] = __byte_perm(__byte_perm(rgb[0], rgb[1], 0x0052), rgb[2], 0x7410);
}
DEVICE void join_colours(uint32_t (&words)[3]) {
  const uint32_t r = words[0], g = words[1], b = words[2];
  words[0] = __byte_perm(__byte_perm(r, g, 0x0140), b, 0x2410);
  words[1] = __byte_perm(__byte_perm(r, g, 0x6205), b, 0x3250);
  words[2] = __byte_perm(__byte_perm(r, g, 0x0730), b, 0x7216);
}

DEVICE void store_word(uint32_t shared, uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared), "r"(word) : "memory");
}

/* A warp goes down a strip of TILE samples (C = 1), or of TILE pixels whose colours it divides (C = 3). R, W and D are as in
 * struct products. */
template <int R, int W, int D, int C, bool PLAIN> struct walker {
  static_assert(C == 1 || (W == 1 && PLAIN));
  static constexpr int PITCH = pitch_of(1, W, C), CHUNKS = PITCH / CHUNK; /* bytes and chunks of a row of the ring */
  static constexpr int PLANE = TILE - OUTPUTS + 16 * W;                   /* bytes of a divided row of one colour */
  using product = products<R, W, D, C == 1 ? PITCH : C * PLANE>;
  static constexpr int Y = product::Y, NEED = product::NEED, AHEAD = 2;
  static constexpr int GROUPS = (C == 1 ? NEED : 1) + AHEAD; /* of the ring; a copied group is divided at once */
  /* How many blocks a multiprocessor has registers for. */
  static constexpr int BLOCKS = D == 3 && R == 9 ? 3 : C > 1 ? 4 : D == 1 ? 6 : R == 3 ? 5 : 4;
  static constexpr int RING = GROUPS * Y * PITCH, PLANES = C == 1 ? 0 : NEED * Y * C * PLANE;
  static constexpr int PLACES = PITCH * (int)sizeof(int);
  static constexpr int STAGE = PLAIN ? 0 : 2 * Y * TILE * (int)sizeof(float); /* sums, and the combined values of them */
  static constexpr int SHARED_BYTES = RING + PLANES + PLACES + STAGE;         /* shared bytes of a warp */
  static constexpr int SIDE = LANES / Y;                                      /* lanes that copy a row of a group */
  static constexpr int SLOTS = (CHUNKS - 1) / SIDE + 1;                       /* chunks that a lane copies */

  const banded_arguments &a;
  row_source source;
  uint8_t *memory;
  int top;    /* input row of the first group */
  int groups; /* groups of the strip */
  int lead;

  /* Groups of input rows that are being copied to shared memory. */
  struct feed {
    int y;               /* first row of the next group */
    int end;             /* groups whose first row is 0 .. end - 1 lie in the image */
    const uint8_t *from; /* this lane's first chunk of the next group */
    bool copies[SLOTS];  /* whether the lane copies the chunk that is i * SIDE further on */
  };

  DEVICE feed make_feed() const {
    const int dilation = a.problem.dilation_y, row = threadIdx.x % LANES / SIDE, chunk = threadIdx.x % SIDE;
    const int inside = min(top + (groups - 1) * Y * dilation + 1, a.problem.height - (Y - 1) * dilation);
    feed f = {top, max(inside, 0), NULL, {}};
    f.from = source.in + top * a.in_row + row * a.in_step + source.first + chunk * CHUNK;
    for (int i = 0; i < SLOTS; i++) {
      const int own = chunk + i * SIDE, left = source.first + own * CHUNK;
      f.copies[i] = own < CHUNKS && left >= 0 && left + CHUNK <= a.in_samples && (own < source.begin || own >= source.end);
    }
    return f;
  }

  /* Starts to stage the next group at the address `to`, if there is one. `own` is the address of this lane's first chunk. */
  DEVICE void fetch(feed &f, uint32_t to, uint32_t own) const {
    const int step = Y * a.problem.dilation_y;
    if ((unsigned)f.y < (unsigned)f.end) {
      UNROLLED_FOR (int i = 0; i < SLOTS; i++)
        if (f.copies[i])
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

  /* Divides four pixels of a row. */
  static DEVICE void divide_unit(uint32_t from, uint32_t to) {
    const uint32_t rgb[3] = {load_word(from), load_word(from + 4), load_word(from + 8)};
    uint32_t colour[COLOURS];
    divide_colours(rgb, colour);
    UNROLLED_FOR (int c = 0; c < COLOURS; c++)
      store_word(to + c * PLANE, colour[c]);
  }

  /* Divides the rows of a group in units of four pixels: LANES units of a row at a time, then the remaining units of all
   * rows. The addresses are of this lane's unit in the first row. */
  static DEVICE void divide(uint32_t from, uint32_t to) {
    constexpr int LEFT = PLANE / 4 - LANES;
    const int lane = threadIdx.x % LANES, row = lane / LEFT, further = LANES + lane % LEFT - lane;
    UNROLLED_FOR (int y = 0; y < Y; y++)
      divide_unit(from + y * PITCH, to + y * C * PLANE);
    if (row < Y)
      divide_unit(from + row * PITCH + 12 * further, to + row * C * PLANE + 4 * further);
  }

  /* Computes up to Y rows of plain results from the rows in group[]. The first row is stored at `at`, which advances. */
  template <int N>
  DEVICE void make_rows(const product &p, const uint32_t (&group)[N], const plain_outlet &to, int rows, uint8_t *&at) const {
    uint32_t words[Y][C];
    UNROLLED_FOR (int c = 0; c < C; c++) {
      int sums[Y][D][4] = {};
      p.add(group, c * PLANE, sums);
      UNROLLED_FOR (int j = 0; j < Y; j++)
        words[j][c] = to.exchange(to.levels(sums[j]));
    }
    if constexpr (C == COLOURS)
      UNROLLED_FOR (int j = 0; j < Y; j++)
        join_colours(words[j]);
    if (to.whole && rows >= Y) {
      UNROLLED_FOR (int j = 0; j < Y; j++, at += a.out_step)
        store_bytes(words[j], at, 4 * C);
      return;
    }
    UNROLLED_FOR (int j = 0; j < Y; j++, at += a.out_step)
      if (j < rows)
        store_bytes(words[j], at, C * to.count);
  }

  /* Computes `rows` output rows: top_row, top_row + step .. */
  DEVICE void walk(const outlet &to, int top_row, int rows) const {
    const int filters = a.problem.filters, dilation = a.problem.dilation_y;
    const int lane = threadIdx.x % LANES, windows = OUTPUTS * (lane / 4) + 4 * (lane % 4);
    /* Where the lane reads in a row of the ring: at its windows, or at the unit that it divides. */
    const int own = keep(lead + (C == 1 ? windows : 12 * lane)), chunk = lane / SIDE * PITCH + lane % SIDE * CHUNK;
    const uint32_t begin = keep(shared_address(memory) + own), to_chunk = keep(chunk - own);
    const uint32_t to_unit = keep(4 * lane - windows); /* in a plane, from the windows to that unit */
    const uint2 *from = (const uint2 *)a.bands + lane;
    const plain_outlet plain(a, to);
    uint8_t *at = to.out + top_row * a.out_row + C * plain.first;
    float *stage = (float *)(memory + RING + PLANES + PLACES);
    /* Addresses at which this lane reads: first in the groups that the step spans, then in groups that are being copied. If
     * colours are divided, the lane reads its windows in the planes instead, at divided[]. */
    uint32_t group[GROUPS], divided[NEED];
    product p;
    p.load_bands(from);
    feed f = make_feed();
    UNROLLED_FOR (int g = 0; g < GROUPS; g++) {
      group[g] = begin + g * Y * PITCH;
      if (g < GROUPS - 1)
        fetch(f, group[g] - own, group[g] + to_chunk);
    }
    UNROLLED_FOR (int g = 0; g < NEED; g++)
      divided[g] = begin - own + RING + g * Y * C * PLANE + windows;
    ROLLED_FOR (int i = C == 1 ? 0 : (1 - NEED) * Y; i < rows; i += Y) {
      fetch(f, group[GROUPS - 1] - own, group[GROUPS - 1] + to_chunk);
      await_copies<AHEAD>();
      __syncwarp(); /* the copies of all lanes are there */
      if constexpr (C > 1) {
        divide(group[0], divided[NEED - 1] + to_unit);
        __syncwarp(); /* the colours of all lanes are there */
        if (i >= 0)
          make_rows(p, divided, plain, rows - i, at);
        turn(divided);
      } else if constexpr (PLAIN) {
        make_rows(p, group, plain, rows - i, at);
      } else {
        ROLLED_FOR (int k = 0; k < filters; k++) {
          int sums[1][Y][D][4] = {};
          if (filters > 1)
            p.load_bands(from + (int64_t)k * product::PAIRS);
          p.add(group, 0, sums[0]);
          finish_rows<uint8_t, true>(a, to, k, top_row + i * dilation, top_row + rows * dilation, sums, stage);
        }
      }
      __syncwarp(); /* all lanes have read the oldest groups */
      turn(group);
    }
  }
};

/* Block: warps side by side, then one above the other. Grid: x counts tiles, y strips of all phases of the dilation, z
 * planes of all images. */
template <int R, int W, int D, int C, bool PLAIN>
__global__ void __launch_bounds__(WARPS *LANES, walker<R, W, D, C, PLAIN>::BLOCKS)
    walk_down(const __grid_constant__ banded_arguments a) {
  extern __shared__ __align__(16) uint8_t memory[];
  using small = walker<R, W, D, C, PLAIN>;
  const gconv_problem &problem = a.problem;
  const int warp = threadIdx.x / LANES, strip = blockIdx.y * (WARPS / a.across) + warp / a.across, phase = strip / a.strips;
  const plane_rows at = plane_of(a, (int)blockIdx.z);
  const int tile = (blockIdx.x * a.across + warp % a.across) * TILE;                   /* first sample, or first pixel */
  const int first = phase + (strip - phase * a.strips) * a.strip * problem.dilation_y; /* output row */
  const int rows = min(a.strip, (problem.out_height - 1 - first) / problem.dilation_y + 1), lead = lead_of<uint8_t>(a);
  if (tile >= a.samples || phase >= problem.dilation_y || first >= problem.out_height)
    return;
  uint8_t *own = memory + warp * small::SHARED_BYTES;
  int *places = (int *)(own + small::RING + small::PLANES);
  const row_source source = make_source<uint8_t, LANES>(a, at.in, C * tile + a.left - lead, small::CHUNKS, places);
  __syncwarp();
  const small walker = {a, source, own, first - problem.pad_top, (rows + R + small::Y - 2) / small::Y, lead};
  walker.walk(make_outlet(a, at.in, at.out, tile), first, rows);
}

} // namespace
