/* SPDX-License-Identifier: MIT */
/*
 * toeplitz, small filters and u8: a warp goes down a strip, Y = 4 rows in each step.
 *
 * The input rows are in a ring in shared memory, in groups of Y: the NEED = 2 or 3 groups that a step spans, and AHEAD = 2
 * more that are being copied. The bands of a single filter stay in registers; those of several filters are read from the L1
 * cache in each step.
 *
 * All products have 32 bytes, in four words of windows. The words are loaded into the registers where the multiplication
 * wants them. If windows have 16 bytes (W = 1), a product takes those of two input rows; the first is an even row of the
 * step. So a filter has bands of two rows for even output rows of the step, and others for odd ones, with zeros at the ends:
 *
 *     output row 0, on input rows (0, 1) (2, 3): rows of taps (0, 1) (2, .)     output row 1, on the same: (., 0) (1, 2)
 *
 * The common case (PLAIN) is one filter to u8, with an epilogue of scale and offset. Its results do not go through shared
 * memory. A lane has two neighbours of window g and two of window g + 8; the next lane has the two samples that follow each
 * of these. The two lanes exchange a pair, and each stores four neighbours.
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
      uint32_t x[4]; /* windows g and g + 8 of 16 bytes, then those of the next 16 bytes or of the next row */
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

template <int R, int W, int D, bool PLAIN> struct walker {
  static constexpr int PITCH = pitch_of(1, W, 1), CHUNKS = PITCH / CHUNK;
  using product = products<R, W, D, PITCH>;
  static constexpr int Y = product::Y, NEED = product::NEED, AHEAD = 2, GROUPS = NEED + AHEAD;
  /* Blocks of a multiprocessor, for which there are enough registers. */
  static constexpr int BLOCKS = D == 1 ? 6 : R == 3 ? 5 : R == 9 ? 3 : 4;
  static constexpr int RING = GROUPS * Y * PITCH, PLACES = PITCH * (int)sizeof(int);
  static constexpr int STAGE = PLAIN ? 0 : 2 * Y * TILE * (int)sizeof(float); /* sums, and the combined values of them */
  static constexpr int SHARED_BYTES = RING + PLACES + STAGE;                  /* of a warp */
  static constexpr int SIDE = LANES / Y;                                      /* lanes that copy a row of a group */
  static_assert(CHUNKS > SIDE && CHUNKS <= 2 * SIDE, "a lane copies one chunk or two");

  const banded_arguments &a;
  row_source source;
  uint8_t *ring;
  int top;    /* input row of the first group */
  int groups; /* groups of the strip */
  int lead;

  /* Groups of input rows that are being copied to shared memory. */
  struct feed {
    int y;               /* first row of the next group */
    int last;            /* first row of the last group whose rows all lie in the image */
    const uint8_t *from; /* this lane's first chunk of the next group */
    bool copies[2];      /* whether the lane copies that chunk, and the one that is SIDE further on */
  };

  DEVICE feed make_feed() const {
    const int dilation = a.problem.dilation_y, row = threadIdx.x % LANES / SIDE, chunk = threadIdx.x % SIDE;
    feed f = {top, min(top + (groups - 1) * Y * dilation, a.problem.height - 1 - (Y - 1) * dilation), NULL, {}};
    f.from = source.in + top * a.in_row + row * a.in_step + source.first + chunk * CHUNK;
    for (int i = 0; i < 2; i++) {
      const int own = chunk + i * SIDE, left = source.first + own * CHUNK;
      f.copies[i] = own < CHUNKS && left >= 0 && left + CHUNK <= a.in_samples && (own < source.begin || own >= source.end);
    }
    return f;
  }

  /* Starts to stage the next group at the address `to`, if there is one. `own` is that of this lane's first chunk. */
  DEVICE void fetch(feed &f, uint32_t to, uint32_t own) const {
    const int step = Y * a.problem.dilation_y;
    if (f.y >= 0 && f.y <= f.last) {
      if (f.copies[0])
        copy_async<CHUNK>(own, f.from);
      if (f.copies[1])
        copy_async<CHUNK>(own + SIDE * CHUNK, f.from + SIDE * CHUNK);
      if (source.begin < source.end)
        stage_border<uint8_t, LANES>(a, source, f.y, Y, CHUNKS, (uint8_t *)__cvta_shared_to_generic(to));
    } else if (f.y < top + groups * step) {
      stage_rows<uint8_t, LANES>(a, source, f.y, Y, CHUNKS, (uint8_t *)__cvta_shared_to_generic(to));
    }
    commit_copies();
    f.y += step;
    f.from += Y * a.in_step;
  }

  /* Finishes and stores sums of filter k: `rows` rows p, p + step .. */
  DEVICE void finish_rows(const outlet &to, int k, int p, int rows, const int (&sums)[Y][D][4]) const {
    float *stage = (float *)(ring + RING + PLACES);
    const int own = 4 * (threadIdx.x % LANES);
    const scaling s = a.scalings[k];
    __syncwarp(); /* all lanes have read the stage */
    UNROLLED_FOR (int j = 0; j < Y; j++)
      stage_sums<true>(sums[j], stage + j * TILE);
    __syncwarp();
    ROLLED_FOR (int j = 0; j < min(Y, rows); j++)
      finish<uint8_t>(a, to, k, p + j * a.problem.dilation_y, s, stage + j * TILE + own, stage + (Y + j) * TILE + own);
  }

  /* Stores up to Y rows of plain results. The first is at `at`, which advances. */
  DEVICE void store_rows(const plain_outlet &to, const int (&sums)[Y][D][4], int rows, uint8_t *&at) const {
    uint32_t words[Y];
    UNROLLED_FOR (int j = 0; j < Y; j++)
      words[j] = to.exchange(to.levels(sums[j]));
    if (to.whole && rows >= Y) {
      UNROLLED_FOR (int j = 0; j < Y; j++, at += a.out_step)
        __stcs((uint32_t *)at, words[j]);
      return;
    }
    UNROLLED_FOR (int j = 0; j < Y; j++, at += a.out_step)
      if (j < rows)
        store_bytes(words[j], at, to.count);
  }

  /* Makes `rows` output rows: top_row, top_row + step .. */
  DEVICE void walk(const outlet &to, int top_row, int rows) const {
    const int lane = threadIdx.x % LANES, filters = a.problem.filters;
    const int to_windows = lead + OUTPUTS * (lane / 4) + 4 * (lane % 4), chunk = lane / SIDE * PITCH + lane % SIDE * CHUNK;
    const uint32_t begin = keep(shared_address(ring) + to_windows), to_chunk = keep(chunk - to_windows);
    const uint2 *from = (const uint2 *)a.bands + lane;
    const plain_outlet plain(a, to);
    uint8_t *at = to.out + top_row * a.out_row + plain.first;
    uint32_t group[GROUPS]; /* addresses of this lane's windows: first in the groups that the step spans, then in those being
                               copied */
    product p;
    p.load_bands(from);
    feed f = make_feed();
    UNROLLED_FOR (int g = 0; g < GROUPS; g++) {
      group[g] = begin + g * Y * PITCH;
      if (g < GROUPS - 1)
        fetch(f, group[g] - to_windows, group[g] + to_chunk);
    }
    ROLLED_FOR (int i = 0; i < rows; i += Y) {
      fetch(f, group[GROUPS - 1] - to_windows, group[GROUPS - 1] + to_chunk);
      await_copies<AHEAD>();
      __syncwarp(); /* the copies of all lanes are there */
      if constexpr (PLAIN) {
        int sums[Y][D][4] = {};
        p.add(group, 0, sums);
        store_rows(plain, sums, rows - i, at);
      } else {
        ROLLED_FOR (int k = 0; k < filters; k++) {
          int sums[Y][D][4] = {};
          if (filters > 1)
            p.load_bands(from + (int64_t)k * product::PAIRS);
          p.add(group, 0, sums);
          finish_rows(to, k, top_row + i * a.problem.dilation_y, rows - i, sums);
        }
      }
      __syncwarp(); /* all lanes have read the oldest group */
      turn(group);
    }
  }
};

/* The place of a warp. Block: warps side by side, then one above the other. Grid: x counts tiles, y strips of all phases of
 * the dilation, z planes of all images. */
struct place_in_grid {
  plane_rows at;
  int tile;      /* first sample of the tile, of `samples` */
  int top, rows; /* first output row, and how many */
};

DEVICE bool find_place(const banded_arguments &a, int samples, place_in_grid *p) {
  const gconv_problem &problem = a.problem;
  const int warp = threadIdx.x / LANES, strip = blockIdx.y * (WARPS / a.across) + warp / a.across, phase = strip / a.strips;
  p->at = plane_of(a, (int)blockIdx.z);
  p->tile = (blockIdx.x * a.across + warp % a.across) * TILE;
  p->top = phase + (strip - phase * a.strips) * a.strip * problem.dilation_y;
  p->rows = min(a.strip, (problem.out_height - 1 - p->top) / problem.dilation_y + 1);
  return p->tile < samples && phase < problem.dilation_y && p->top < problem.out_height;
}

template <int R, int W, int D, bool PLAIN>
__global__ void __launch_bounds__(WARPS *LANES, walker<R, W, D, PLAIN>::BLOCKS)
    walk_down(const __grid_constant__ banded_arguments a) {
  extern __shared__ __align__(16) uint8_t memory[];
  using small = walker<R, W, D, PLAIN>;
  place_in_grid p;
  if (!find_place(a, a.samples, &p))
    return;
  uint8_t *own = memory + threadIdx.x / LANES * small::SHARED_BYTES;
  const int lead = lead_of<uint8_t>(a);
  const row_source source =
      make_source<uint8_t, LANES>(a, p.at.in, p.tile + a.left - lead, small::CHUNKS, (int *)(own + small::RING));
  __syncwarp();
  const small warp = {a, source, own, p.top - a.problem.pad_top, (p.rows + R + small::Y - 2) / small::Y, lead};
  warp.walk(make_outlet(a, p.at.in, p.at.out, p.tile), p.top, p.rows);
}

} // namespace
