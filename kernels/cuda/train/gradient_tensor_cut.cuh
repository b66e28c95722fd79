/* SPDX-License-Identifier: MIT */
/*
 * How blocks and warps share the work of gradient_tensor.cu, which says what a piece, a place and a quad is: the filters,
 * pieces and places of a warp, and the size of a stage. The host computes this once.
 */
#pragma once

#include "gradient_stage.cuh"

#include <math.h>

namespace {

enum : int {
  WARPS = 8,                /* the most of a block */
  PROCESSORS = 132,         /* on any GPU, work is cut for this many multiprocessors: so all GPUs have the same sums */
  STEP = 16,                /* places that are added at a time */
  QUADS = STEP / 4,         /* of a step */
  LANES = 16,               /* pieces of a group */
  STAGES = 4,               /* the most of a block */
  SHARED_BYTES = 224 << 10, /* shared bytes of a multiprocessor */
  LEAVES_BYTES = 64 << 20,  /* the most bytes of all leaves: the sums that blocks store */
  /* Of multiply_by_warpgroups(): */
  WARPGROUP = 128,              /* threads */
  WARPGROUPS = 3,               /* warpgroups of a block */
  GROUP_WARPS = 4 * WARPGROUPS, /* warps of all warpgroups of a block */
  BLOCK_FILTERS = 64,           /* filters of a block */
  PAIR_CYCLES = 3 * 32          /* cycles of a pair of quads: three products of 64 x 64 x 8 */
};

struct gradient_arguments : staging {
  float *leaves, *gradient;
  int64_t leaf;   /* floats of a leaf, a multiple of four: each weight's sum over some places, then the biases */
  int32_t taps;   /* taps of a filter */
  int32_t of_row; /* pieces of a row of a filter */
  int32_t inner;  /* pieces of neighbouring channels with the same taps; they are neighbours */
  int32_t groups; /* groups of pieces of a filter */
  int32_t tiles;  /* blocks for all pieces of a filter */
  int32_t blocks; /* for all filters of a convolution's group */
  int32_t warps_m, warps_n, warps_k; /* warps of a block in the direction of filters, of pieces and of places */
  int32_t chunks;                    /* chunks of an image */
  int32_t cases, stages;
  int32_t steps;  /* steps of a stage */
  int32_t tables; /* floats of the tables, before the stages */
};

struct piece {
  int32_t c, r, s; /* its first tap */
};
__host__ __device__ __forceinline__ piece piece_of(const gradient_arguments &a, int32_t i) {
  const int32_t rest = i / a.inner, row = rest / a.of_row, block = row / a.p.rows;
  return {block * a.inner + i - rest * a.inner, row - block * a.p.rows, rest - row * a.of_row};
}

/* The template arguments TAPS, GROUPS, FILTERS and BLOCKS of a kernel: gradient_tensor.cu says what they count. */
struct cut {
  int32_t taps, groups, filters, blocks;
  bool warpgroups; /* the kernel is multiply_by_warpgroups(), else multiply_gradients() */
};

/* ---- Host ---- */

/* Returns the cut for a layer. In large layers, a warp has as many sums as registers can hold. */
inline cut cut_of(const gconv_layer_problem &p) {
  const bool strided = p.stride_x > 1 || (p.dilation_x > 1 && p.columns > 1);
  cut c = {};
  c.taps = strided || p.columns == 1 ? 1 : p.columns == 4 || p.columns == 7 || p.columns == 8 ? 4 : 3;
  c.filters = p.filters / p.groups > 16 ? 4 : 2;
  const int64_t columns = (int64_t)(p.channels / p.groups) * p.rows * ((p.columns + c.taps - 1) / c.taps) * c.taps;
  c.blocks = c.filters == 4 && columns >= 256 ? 1 : 2;
  c.groups = c.filters == 2 ? (c.taps == 1 ? 8 : c.taps == 3 ? 3 : 2) : c.blocks == 1 ? 8 / c.taps : c.taps == 1 ? 3 : 1;
  if (c.blocks == 1 && c.taps == 3)
    c.groups = 3;
  return c;
}

/* Returns the cut for multiply_by_warpgroups(): a block has 64 filters, and a warp 48 columns: 3 / taps groups of pieces. */
inline cut cut_for_warpgroups(const gconv_layer_problem &p) {
  const int32_t taps = cut_of(p).taps;
  return {taps, 3 / taps, 8, 1, true};
}

/* Shares filters, pieces and places among blocks and warps. */
inline void share_work(const cut &c, gradient_arguments *a) {
  const gconv_layer_problem &p = a->p;
  const int32_t channels = p.channels / p.groups, filters = p.filters / p.groups;
  a->taps = (int32_t)gconv_layer_taps(&p);
  a->of_row = (p.columns + c.taps - 1) / c.taps;
  a->inner = channels > 8 ? 16 : channels > 4 ? 8 : channels;
  a->groups = ((channels + a->inner - 1) / a->inner * a->inner * p.rows * a->of_row + LANES - 1) / LANES;
  a->warps_m = filters > 32 && !c.warpgroups ? 2 : 1;
  a->filters_log2 = filters > 32 ? 6 : filters > 16 ? 5 : 4;
  const int32_t warps = c.warpgroups ? GROUP_WARPS : WARPS / a->warps_m;
  a->warps_n = c.warpgroups ? warps : std::min((a->groups + c.groups - 1) / c.groups, warps);
  a->warps_k = warps / a->warps_n;
  a->tiles = (a->groups + a->warps_n * c.groups - 1) / (a->warps_n * c.groups);
  a->blocks = (filters + (1 << a->filters_log2) - 1) >> a->filters_log2;
  const int64_t all_warps = (int64_t)a->tiles * a->blocks * p.groups * a->warps_m * a->warps_n;
  a->leaf = all_warps * 32 * c.groups * c.taps * c.filters * 4 + (p.filters + 3) / 4 * 4;
  /* The pieces of a block belong to at most a->channels channels. */
  const int32_t of_channels = p.rows * a->of_row, rows = a->warps_n * c.groups * LANES / std::max(a->inner, 8);
  const int32_t some = rows % of_channels == 0   ? rows / of_channels
                       : of_channels % rows == 0 ? 1
                                                 : (rows - 2) / of_channels + 2;
  a->channels = a->inner < 8 ? channels : std::min(some * a->inner, (channels + a->inner - 1) / a->inner * a->inner);
}

/* True if warpgroups are worth it: padding of filters and pieces adds at most 35% of work. */
inline bool for_warpgroups(const gconv_layer_problem &p) {
  const cut c = cut_for_warpgroups(p);
  if (c.taps == 4 || p.filters / p.groups <= BLOCK_FILTERS / 2)
    return false;
  gradient_arguments a = {};
  a.p = p;
  share_work(c, &a);
  const double filters = (double)a.blocks * BLOCK_FILTERS * p.groups / p.filters;
  return filters * a.tiles * a.warps_n * c.groups <= 1.35 * a.groups;
}

/* Returns the most blocks that may share the places of a layer. */
inline int32_t most_splits(const cut &c, const gradient_arguments &a) {
  const int64_t blocks = (int64_t)a.tiles * a.blocks * a.p.groups;
  return (int32_t)std::max<int64_t>(
      std::min((PROCESSORS * c.blocks + blocks - 1) / blocks, LEAVES_BYTES / (int64_t)sizeof(float) / a.leaf), 1);
}

/* Returns the worst bank conflict when a warp reads these words of shared memory. */
inline int reads_of(const int32_t (&words)[32]) {
  int32_t counts[32] = {};
  int most = 1;
  for (int lane = 0; lane < 32; lane++)
    if (std::find(words, words + lane, words[lane]) == words + lane)
      most = std::max(most, ++counts[words[lane] % 32]);
  return most;
}
inline int reads_of_samples(const cut &c, const gradient_arguments &a, int32_t first_piece) {
  int32_t words[32];
  for (int lane = 0; lane < 32; lane++) {
    const piece own = piece_of(a, first_piece + lane / 4);
    words[lane] =
        own.c * a.x_plane + own.r * a.p.dilation_y * a.x_pitch + own.s * c.taps * a.p.dilation_x + lane % 4 * a.p.stride_x;
  }
  return reads_of(words);
}
inline int reads_of_gradients(const gradient_arguments &a) {
  int32_t words[32];
  for (int lane = 0; lane < 32; lane++)
    words[lane] = lane / 4 * a.dz_plane + lane % 4;
  return reads_of(words);
}

/* Returns how many floats, after the tables, warps need to add their sums. */
inline int32_t sum_floats(const cut &c, const gradient_arguments &a) {
  return a.warps_m * a.warps_n * (a.warps_k / 2) * 32 * c.groups * c.taps * c.filters * 4;
}
/* Returns the floats after the stages where warpgroups keep the second tf32 numbers of a stage's gradients. */
inline int32_t rest_floats(const cut &c, const gradient_arguments &a) {
  return c.warpgroups ? a.dz_floats : 0;
}
inline int32_t shared_bytes(const cut &c, const gradient_arguments &a) {
  return (int32_t)sizeof(float) * (a.tables + std::max(a.stages * a.floats + rest_floats(c, a), sum_floats(c, a)));
}

/* Chooses the pitches with the fewest bank conflicts. Returns the estimated cycles of a stage on a multiprocessor. */
inline double set_pitches(const cut &c, gradient_arguments *a) {
  const gconv_layer_problem &p = a->p;
  const int32_t reach = (a->columns - 1) * p.stride_x + (p.columns - 1) * p.dilation_x + 1 + a->shift;
  const int32_t x_rows = rows_under(p, a->rows), groups = std::min(a->groups, c.groups);
  /* Planes may have one row more: their distance can then be an odd number of quads, which avoids bank conflicts. */
  int least = INT32_MAX;
  for (int32_t more = 0; more < 2; more++)
    for (int32_t pitch = (reach + 3) / 4 * 4; pitch < reach + 35; pitch += 4) {
      gradient_arguments tried = *a;
      tried.x_pitch = pitch;
      tried.x_plane = (x_rows + more) * pitch;
      int reads = 0;
      for (int32_t j = 0; j < groups; j++)
        reads += 4 * c.taps * reads_of_samples(c, tried, LANES * j);
      if (reads < least) {
        least = reads;
        a->x_pitch = pitch;
        a->x_plane = tried.x_plane;
      }
    }
  const int32_t extra = (c.taps * a->of_row - p.columns) * p.dilation_x + 8;
  if (c.warpgroups) { /* layout: the first quad of all filters, then the second, ... */
    a->dz_pitch = a->dz_plane = 4;
    set_floats(a, extra);
    const int32_t more_dz = (QUADS * a->steps - 1) * a->dz_floats;
    a->dz_floats += more_dz;
    a->floats += more_dz;
    const double products =
        2.0 * PAIR_CYCLES * c.taps * c.groups * WARPGROUPS; /* half of this time is for reading gradients */
    return a->steps * std::max(products, products / 2 + 2.0 * a->warps_n * least) + 500;
  }
  gradient_arguments best = *a;
  for (int32_t more = 0; more < 2; more++)
    for (best.dz_pitch = a->columns; best.dz_pitch < a->columns + 32; best.dz_pitch += 4) {
      best.dz_plane = (best.rows + more) * best.dz_pitch;
      if ((more == 0 && best.dz_pitch == a->columns) || reads_of_gradients(best) < reads_of_gradients(*a)) {
        a->dz_pitch = best.dz_pitch;
        a->dz_plane = best.dz_plane;
      }
    }
  set_floats(a, extra);
  const double reads = least + 2.0 * c.filters * reads_of_gradients(*a);
  const double products = 3 * 1.6 * c.filters * c.taps * c.groups;
  const double steps = 2.0 * a->steps * a->warps_m * a->warps_n;
  return std::max(steps * std::max(reads, products), a->floats * 4 / 24.0) + 250;
}

/* Finds the rows and columns of a stage. Their product is a multiple of STEP; zeros fill a partial stage. */
inline bool find_stage(const cut &c, gradient_arguments *a) {
  const gconv_layer_problem &p = a->p;
  double best = HUGE_VAL;
  gradient_arguments tried = *a;
  tried.shift = a->boxes ? (4 - p.pad_left % 4) % 4 : 0;
  int32_t wide = 0;
  for (int32_t parts = 1; wide != 4; parts *= 2) {
    wide = ((p.out_width + parts - 1) / parts + 3) / 4 * 4;
    for (tried.columns = wide; tried.columns < wide + STEP; tried.columns += 4)
      for (tried.rows = 1; tried.rows < p.out_height + STEP / 4 && tried.rows <= 16; tried.rows++) {
        if (tried.rows * tried.columns % STEP)
          continue;
        if (is_huge(tried, tried.rows, tried.columns))
          break;
        tried.steps = tried.rows * tried.columns / STEP;
        const double cycles = set_pitches(c, &tried);
        tried.tables = (2 * (QUADS * tried.steps + tried.warps_n * c.groups * LANES) + 31) / 32 * 32;
        tried.stages = std::min((SHARED_BYTES / c.blocks / (int32_t)sizeof(float) - tried.tables - rest_floats(c, tried)) /
                                    tried.floats,
                                (int32_t)STAGES);
        if (tried.stages < 2)
          break;
        tried.chunks = (p.out_height + tried.rows - 1) / tried.rows * ((p.out_width + tried.columns - 1) / tried.columns);
        const double of_block = ceil((double)tried.chunks * tried.cases / most_splits(c, tried));
        const double all = of_block * cycles + tried.floats * 4 / 12.0;
        if (all < best && (!a->boxes || std::max(tried.x_pitch, tried.x_plane / tried.x_pitch) <= 256)) {
          best = all;
          *a = tried;
        }
      }
  }
  return best < HUGE_VAL;
}

} // namespace
