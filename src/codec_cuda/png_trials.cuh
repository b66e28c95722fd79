/* SPDX-License-Identifier: MIT */
/*
 * Decides for each strip which row filter it gets, and whether it is coded with matches. Some rows, the sample of the strip,
 * are filtered by each filter, and their bits are counted, as png_encode.c does it. Each block of threads takes one strip
 * and one filter.
 */
#pragma once

#include "image/gpu_codec.h"
#include "image/png_cut.h"
#include "image/png_strip.h"

namespace {

/* The bits of a sample by one filter. */
struct trial {
  uint64_t literals, with; /* bits without matches; bits with them */
};

/* A block of deflate. */
struct png_block {
  uint64_t position; /* where its bits begin in the strip's chunk */
  uint64_t weighted; /* for Adler-32: the sum of its bytes, each times the number of bytes from it to the end */
  uint32_t sum;      /* the sum of its bytes */
  uint32_t bits;     /* all bits of the block */
  uint32_t description_bits;
  bool stored;
  uint32_t counts[LITERALS];
  /* A code has its length in the lowest COUNT_BITS bits, and its bits above. The last code is the end of the block. */
  uint32_t codes[LITERALS + 1];
  uint32_t description[160]; /* the description of the codes: at most 512 bytes, and slack for whole words */
};

/* An image, and the arrays that are made of it. Strips have rooms of equal size. */
struct png_job {
  const uint8_t *image;
  size_t stride;
  uint32_t row_bytes, line; /* bytes of a row; of a row and the number of its filter */
  uint32_t pixel;           /* bytes of a pixel */
  uint32_t swap;            /* 1: samples have two bytes, in the other order than in the file; else 0 */
  uint32_t height, strip_rows, strips, strip_blocks;
  size_t strip_room, sample_room;
  uint8_t *samples;  /* [strips][filters][sample_room]: filtered */
  trial *trials;     /* [strips][filters] */
  uint8_t *lines;    /* [strips][strip_room]: filtered */
  png_block *blocks; /* [strips][strip_blocks] */
  uint32_t *chunks;  /* the chunks of all strips, one after the other */
  size_t chunks_room;
  gconv_png_strip *made; /* [strips] */
};

/* ---- Rows and their filters ---- */

__device__ uint32_t rows_of(const png_job &job, uint32_t strip) {
  return min(job.strip_rows, job.height - strip * job.strip_rows);
}

/* Returns byte x of line y of the image, filtered. */
__device__ uint8_t filter_byte(const png_job &job, int filter, uint32_t y, uint32_t x) {
  if (x-- == 0)
    return (uint8_t)filter;
  const uint8_t *row = job.image + y * job.stride, *above = row - job.stride;
  const int16_t own = row[x ^ job.swap];
  if (filter == GCONV_PNG_NONE)
    return (uint8_t)own;
  const bool has_left = x >= job.pixel && filter != GCONV_PNG_UP, has_up = y > 0 && filter != GCONV_PNG_SUB;
  const uint32_t before = (x - job.pixel) ^ job.swap;
  const int16_t left = has_left ? row[before] : 0, up = has_up ? above[x ^ job.swap] : 0;
  const int16_t corner = has_left && has_up && filter == GCONV_PNG_PAETH ? above[before] : 0;
  return (uint8_t)(own - gconv_png_predict(filter, left, up, corner));
}

/* Returns up to four filtered bytes, from byte x of line y on, as a word: the first byte is the lowest. */
__device__ uint32_t filter_bytes(const png_job &job, int filter, uint32_t y, uint32_t x, uint32_t count) {
  uint32_t four = 0;
#pragma unroll
  for (uint32_t k = 0; k < 4; k++) {
    if (k < count)
      four |= (uint32_t)filter_byte(job, filter, y, x) << 8 * k;
    if (++x == job.line) {
      x = 0;
      y++;
    }
  }
  return four;
}

/* ---- Lengths of codes, by all threads of a block ---- */

/* Adds the values of all lanes. Only the first lane gets the sum. */
__device__ uint64_t sum_of_warp(uint64_t value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_down_sync(0xffffffff, value, distance);
  return value;
}

/* The workspace of make_lengths(), in shared memory. */
struct length_room {
  gconv_huffman_room huffman;
  int used;
  uint32_t bits;
};

/* Makes the lengths of codes as gconv_huffman_lengths() does. Returns the bits of all symbols that were counted. */
__device__ uint32_t make_lengths(const uint32_t *counts, int symbols, int longest, uint8_t *lengths, length_room *room) {
  const int thread = (int)threadIdx.x, threads = (int)blockDim.x;
  if (thread == 0)
    room->used = (int)(room->bits = 0);
  __syncthreads();
  for (int i = thread; i < symbols; i += threads) {
    const uint32_t count = counts[i];
    if (count == 0)
      continue;
    int smaller = 0;
    for (int k = 0; k < symbols; k++)
      smaller += counts[k] > 0 && (counts[k] < count || (counts[k] == count && k < i));
    room->huffman.sorted[smaller] = (uint64_t)count << 16 | (uint64_t)i;
    atomicAdd(&room->used, 1);
  }
  __syncthreads();
  if (thread == 0) {
    for (int i = 0; room->used < 2; i++) /* adds symbols until there are two: both get length 1, in any order */
      if (counts[i] == 0)
        room->huffman.sorted[room->used++] = (uint64_t)1 << 16 | (uint64_t)i;
    gconv_huffman_build(&room->huffman, room->used);
  }
  for (int i = thread; i <= GCONV_HUFFMAN_SYMBOLS; i += threads)
    room->huffman.of_length[i] = 0;
  for (int i = thread; i < symbols; i += threads)
    lengths[i] = 0;
  __syncthreads();
  const int used = room->used;
  for (int i = thread; i < used; i += threads)
    atomicAdd(&room->huffman.of_length[room->huffman.depths[room->huffman.parents[i]] + 1], 1);
  __syncthreads();
  if (thread == 0)
    gconv_huffman_limit_lengths(room->huffman.of_length, used, longest);
  __syncthreads();
  for (int i = thread; i < used; i += threads) { /* the rarest symbols get the longest codes */
    int length = longest;
    for (int left = i; left >= room->huffman.of_length[length]; length--)
      left -= room->huffman.of_length[length];
    lengths[room->huffman.sorted[i] & 0xffff] = (uint8_t)length;
  }
  __syncthreads();
  uint32_t bits = 0;
  for (int i = thread; i < symbols; i += threads)
    bits += counts[i] * lengths[i];
  if (bits > 0)
    atomicAdd(&room->bits, bits);
  __syncthreads();
  bits = room->bits;
  __syncthreads();
  return bits;
}

/* ---- Without matches ---- */

enum { TRIAL_THREADS = 256 };

__global__ void __launch_bounds__(TRIAL_THREADS) try_literals(const png_job job) {
  __shared__ uint32_t counts[SYMBOLS];
  __shared__ uint8_t lengths[SYMBOLS];
  __shared__ length_room room;
  const uint32_t strip = blockIdx.x, filter = blockIdx.y;
  const gconv_png_sample sample = gconv_png_sample_of(job.line, strip * job.strip_rows, rows_of(job, strip));
  const uint32_t size = (uint32_t)(sample.count * job.line);
  uint8_t *out = job.samples + (strip * GCONV_PNG_FILTERS + filter) * job.sample_room;
  for (uint32_t i = threadIdx.x; i < SYMBOLS; i += TRIAL_THREADS)
    counts[i] = i == END_OF_BLOCK;
  __syncthreads();
  for (uint32_t at = 4 * threadIdx.x; at < size; at += 4 * TRIAL_THREADS) {
    const uint32_t y = (uint32_t)sample.begin + at / job.line, count = min(size - at, 4);
    const uint32_t four = filter_bytes(job, (int)filter, y, at % job.line, count);
    *(uint32_t *)(out + at) = four; /* sample_room has slack for a whole word */
    for (uint32_t k = 0; k < count && at + k < BLOCK_BYTES; k++)
      atomicAdd(&counts[four >> 8 * k & 0xff], 1);
  }
  __syncthreads();
  const uint32_t bits = make_lengths(counts, SYMBOLS, LONGEST_CODE, lengths, &room);
  if (threadIdx.x == 0)
    job.trials[strip * GCONV_PNG_FILTERS + filter].literals = bits;
}

/* ---- With matches ---- */

__device__ gconv_png_choice begin_choice(const png_job &job, uint32_t strip) {
  uint64_t literals[GCONV_PNG_FILTERS];
  for (int i = 0; i < GCONV_PNG_FILTERS; i++)
    literals[i] = job.trials[strip * GCONV_PNG_FILTERS + i].literals;
  return gconv_png_choice_begin(literals);
}

/* The workspace of try_matches(). `seen` is no longer needed when lengths are made. */
union match_room {
  uint64_t seen[1 << HASH_BITS];
  length_room lengths;
};

/* Counts of the symbols into which lines were cut. */
struct cuts {
  uint32_t *counts, *distance_counts; /* in shared memory: [SYMBOLS]; [DISTANCE_SYMBOLS] */
  uint32_t extra_bits;                /* extra bits of this lane's matches */
};

__device__ void count_match(cuts *c, uint32_t length, uint32_t distance) {
  unsigned length_extra, distance_extra;
  atomicAdd(&c->counts[LITERALS + 1 + length_symbol(length, &length_extra)], 1);
  atomicAdd(&c->distance_counts[distance_symbol(distance - 1, &distance_extra)], 1);
  c->extra_bits += length_extra + distance_extra;
}

/* Cuts bytes 0 .. stop - 1 by one warp. The CPU does the same, one pixel after the other. Each lane looks one pixel up, as
 * if the pixels of all lanes before it were in the table. That is right if those pixels are no matches, or matches that end
 * where the next pixel begins. Pixels after a longer match, or after too many pixels of one slot, are looked up again. */
__device__ void cut_by_warp(uint64_t *seen, const gconv_png_lines &lines, uint32_t stop, cuts *c) {
  enum { MOST_BEFORE = 3 };
  const uint32_t all = 0xffffffff, lane = threadIdx.x, line = (uint32_t)lines.line, pixel_bytes = (uint32_t)lines.pixel;
  const uint32_t step = step_of(pixel_bytes), unit = unit_of(pixel_bytes);
  const uint64_t mask = UINT64_MAX >> (64 - 8 * unit), step_mask = UINT64_MAX >> (64 - 8 * step);
  const uint8_t *bytes = lines.bytes;
  uint32_t at = 0;
  while (at < stop) {
    const uint32_t line_end = at - at % line + line;
    if (at % line == 0) {
      if (lane == 0)
        atomicAdd(&c->counts[bytes[at]], 1); /* the number of the filter */
      at++;
    }
    while (at + unit <= line_end && at < stop) {
      const uint32_t own = at + lane * step;
      const bool active = own + unit <= line_end && own < stop;
      const uint64_t pixel = active ? load(bytes + own) & mask : 0;
      uint32_t number;
      const uint32_t entry = entry_of(pixel, own, &number);
      const uint32_t same = __match_any_sync(all, active ? number : UINT32_MAX - lane);
      const uint32_t earlier = same & ((1u << lane) - 1), rank = __popc(earlier); /* in this slot */
      uint64_t after = seen[number];
      uint32_t distance = (uint32_t)look_up_slot(&after, own, entry);
      for (uint32_t i = 1; i <= MOST_BEFORE && __any_sync(all, rank >= i); i++) {
        uint64_t before = __shfl_sync(all, after, earlier ? (int)gconv_highest_bit(earlier) : 0);
        if (rank == i) {
          distance = (uint32_t)look_up_slot(&before, own, entry);
          after = before;
        }
      }
      const bool match =
          active && distance - 1 < min(own, (uint32_t)WINDOW) && (load(bytes + own - distance) & mask) == pixel;
      const uint8_t *next = bytes + own + unit;
      const bool longer =
          match &&
          (step < unit || (own + unit + step <= line_end && ((load(next) ^ load(next - distance)) & step_mask) == 0));
      const uint32_t unknown = __ballot_sync(all, rank > MOST_BEFORE), longs = __ballot_sync(all, longer);
      const uint32_t actives = __popc(__ballot_sync(all, active));
      const uint32_t known = unknown ? min(actives, (uint32_t)gconv_lowest_bit(unknown)) : actives;
      const uint32_t first = longs ? (uint32_t)gconv_lowest_bit(longs) : 32, done = min(known, first + 1);
      const uint32_t later = same & ~((2u << lane) - 1) & (done < 32 ? (1u << done) - 1 : all);
      __syncwarp(); /* all have read */
      if (lane < done && later == 0)
        seen[number] = after;
      if (lane < done && lane < first && match)
        count_match(c, unit, distance);
      if (lane < done && lane < first && !match)
        for (uint32_t i = 0; i < step; i++)
          atomicAdd(&c->counts[pixel >> 8 * i & 0xff], 1);
      __syncwarp();
      at += min(known, first) * step;
      if (first >= known)
        continue;
      const uint32_t back = __shfl_sync(all, distance, (int)first), most = min(line_end - at, (uint32_t)LONGEST);
      uint32_t length = (uint32_t)common_length(bytes + at, bytes + at - back, most);
      length = length >= unit + step ? length - length % step : unit;
      if (lane == 0)
        count_match(c, length, back);
      at += length;
    }
    if (at + unit > line_end && at < line_end) {
      if (lane < line_end - at)
        atomicAdd(&c->counts[bytes[at + lane]], 1);
      at = line_end;
    }
  }
  c->extra_bits = (uint32_t)sum_of_warp(c->extra_bits);
}

/* Tries all filters that the choice may ask for, side by side. */
__global__ void __launch_bounds__(TRIAL_THREADS) try_matches(const png_job job) {
  extern __shared__ uint64_t shared_memory[];
  match_room *room = (match_room *)shared_memory;
  __shared__ uint32_t counts[SYMBOLS], distance_counts[DISTANCE_SYMBOLS];
  __shared__ uint8_t lengths[SYMBOLS];
  const uint32_t strip = blockIdx.x, filter = blockIdx.y;
  const gconv_png_choice choice = begin_choice(job, strip);
  if (!gconv_png_choice_wants(&choice, (int)filter, true))
    return;
  for (uint32_t i = threadIdx.x; i < 1 << HASH_BITS; i += TRIAL_THREADS)
    room->seen[i] = 0;
  for (uint32_t i = threadIdx.x; i < SYMBOLS; i += TRIAL_THREADS)
    counts[i] = i == END_OF_BLOCK;
  for (uint32_t i = threadIdx.x; i < DISTANCE_SYMBOLS; i += TRIAL_THREADS)
    distance_counts[i] = 0;
  __syncthreads();
  const gconv_png_sample sample = gconv_png_sample_of(job.line, strip * job.strip_rows, rows_of(job, strip));
  gconv_png_lines lines;
  lines.bytes = job.samples + (strip * GCONV_PNG_FILTERS + filter) * job.sample_room;
  lines.size = sample.count * job.line;
  lines.line = job.line;
  lines.pixel = job.pixel;
  cuts c = {counts, distance_counts, 0};
  if (threadIdx.x < 32)
    cut_by_warp(room->seen, lines, min((uint32_t)lines.size, (uint32_t)BLOCK_BYTES), &c);
  __syncthreads();
  uint32_t bits = make_lengths(counts, SYMBOLS, LONGEST_CODE, lengths, &room->lengths);
  bits += make_lengths(distance_counts, DISTANCE_SYMBOLS, GCONV_HUFFMAN_LONGEST, lengths, &room->lengths);
  if (threadIdx.x == 0)
    job.trials[strip * GCONV_PNG_FILTERS + filter].with = bits + c.extra_bits;
}

/* ---- The choice ---- */

/* Returns the choice for a strip whose trials are done. */
__device__ gconv_png_choice choose(const png_job &job, uint32_t strip) {
  gconv_png_choice choice = begin_choice(job, strip);
  for (int turn = 0; turn < GCONV_PNG_FILTERS; turn++) {
    const int filter = gconv_png_choice_turn(&choice, turn);
    const bool tried = gconv_png_choice_wants(&choice, filter, choice.pay);
    gconv_png_choice_take(&choice, filter, tried, job.trials[strip * GCONV_PNG_FILTERS + filter].with);
  }
  return choice;
}

} // namespace
