/* SPDX-License-Identifier: MIT */
/*
 * What is decided of each strip: samples are filtered in all ways, cut and measured, as png_write.c does it for one after
 * the other. A block of threads a strip and filter.
 */
#ifndef GCONV_CONV_PNG_CUDA_TRIALS_CUH
#define GCONV_CONV_PNG_CUDA_TRIALS_CUH

#include "image/png_cut.h"
#include "image/png_strip.h"

namespace {

/* Of a sample by one filter. */
struct trial {
  uint64_t literals, with; /* bits, without and with matches */
  bool single;
};

/* A block of deflate. */
struct png_block {
  uint64_t position; /* where its bits begin in the strip's chunk */
  uint64_t weighted; /* of its bytes: the sum of each times the number of bytes from it to the end; for Adler-32 */
  uint32_t sum;      /* and that of the bytes */
  uint32_t bits;     /* all that it takes */
  uint32_t description_bits;
  bool stored;
  uint32_t counts[LITERALS];
  uint32_t codes[LITERALS + 1]; /* above COUNT_BITS the bits, below how many they are; the last is the end of the block */
  uint32_t description[160];    /* of the codes, of at most 512 bytes, with room to write in */
};

/* An image, and where everything is that is made of it. Strips have rooms of equal size. */
struct png_job {
  const uint8_t *image;
  size_t stride;
  uint32_t row_bytes, line; /* of a row; and of it with the number of its filter */
  uint32_t pixel;           /* its bytes */
  uint32_t swap;            /* 1: samples have two bytes, of which the file has the other one first; 0 */
  uint32_t height, strip_rows, strips, strip_blocks;
  size_t strip_room, sample_room;
  uint8_t *samples;  /* [strips][filters][sample_room]: filtered */
  trial *trials;     /* [strips][filters] */
  uint8_t *lines;    /* [strips][strip_room]: filtered */
  png_block *blocks; /* [strips][strip_blocks] */
  uint32_t *chunks;  /* words of what is made */
  size_t chunks_room;
  gconv_png_strip *made; /* [strips] */
};

/* ---- Rows and their filters ---- */

__device__ uint32_t rows_of(const png_job &job, uint32_t strip) {
  return min(job.strip_rows, job.height - strip * job.strip_rows);
}

/* Byte x of line y of the image. */
__device__ uint8_t filter_byte(const png_job &job, int filter, uint32_t y, uint32_t x) {
  if (x-- == 0)
    return (uint8_t)filter;
  const uint8_t *row = job.image + y * job.stride, *above = row - job.stride;
  const int16_t own = row[x ^ job.swap];
  if (filter == GCONV_PNG_NONE)
    return (uint8_t)own;
  const bool first = x < job.pixel;
  const uint32_t before = (x - job.pixel) ^ job.swap;
  const int16_t left = first || filter == GCONV_PNG_UP ? 0 : row[before];
  if (filter == GCONV_PNG_SUB)
    return (uint8_t)(own - left);
  const int16_t up = y == 0 ? 0 : above[x ^ job.swap];
  if (filter == GCONV_PNG_UP)
    return (uint8_t)(own - up);
  if (filter == GCONV_PNG_AVERAGE)
    return (uint8_t)(own - ((left + up) >> 1));
  const int16_t corner = first || y == 0 ? 0 : above[before];
  return (uint8_t)(own - gconv_png_predict_paeth(left, up, corner));
}

/* ---- Lengths of codes, by all threads of a block ---- */

/* In shared memory. */
struct length_room {
  gconv_huffman_room huffman;
  int used;
  uint32_t bits;
};

/* As gconv_huffman_lengths(); returns the bits that what was counted takes with them. */
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
    int used = room->used;
    for (int i = 0; used < 2; i++) /* two symbols at least, whose lengths are 1 in any order */
      if (counts[i] == 0)
        room->huffman.sorted[used++] = (uint64_t)1 << 16 | (uint64_t)i;
    gconv_huffman_lengths_of_sorted(&room->huffman, used, symbols, longest, lengths);
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

/* Filters the sample, with the rows before it. */
__global__ void __launch_bounds__(TRIAL_THREADS) try_literals(const png_job job) {
  __shared__ uint32_t counts[SYMBOLS];
  __shared__ uint8_t lengths[SYMBOLS];
  __shared__ length_room room;
  const uint32_t strip = blockIdx.x, filter = blockIdx.y;
  const gconv_png_sample sample = gconv_png_sample_of(job.line, strip * job.strip_rows, rows_of(job, strip));
  const uint32_t before = (uint32_t)(sample.before * job.line), size = before + (uint32_t)(sample.count * job.line);
  uint8_t *out = job.samples + (strip * GCONV_PNG_FILTERS + filter) * job.sample_room;
  for (uint32_t i = threadIdx.x; i < SYMBOLS; i += TRIAL_THREADS)
    counts[i] = i == END_OF_BLOCK;
  __syncthreads();
  for (uint32_t at = threadIdx.x; at < size; at += TRIAL_THREADS) {
    const uint32_t y = (uint32_t)(sample.begin - sample.before) + at / job.line;
    const uint8_t byte = filter_byte(job, (int)filter, y, at % job.line);
    out[at] = byte;
    if (at >= before && at - before < BLOCK_BYTES)
      atomicAdd(&counts[byte], 1);
  }
  __syncthreads();
  const uint32_t bits = make_lengths(counts, SYMBOLS, LONGEST_CODE, lengths, &room);
  if (threadIdx.x == 0)
    job.trials[strip * GCONV_PNG_FILTERS + filter].literals = bits;
}

/* ---- With matches ---- */

__device__ gconv_png_choice begin_choice(const png_job &job, uint32_t strip, const gconv_png_sample &sample) {
  uint64_t literals[GCONV_PNG_FILTERS];
  for (int i = 0; i < GCONV_PNG_FILTERS; i++)
    literals[i] = job.trials[strip * GCONV_PNG_FILTERS + i].literals;
  return gconv_png_choice_begin(literals, sample.count * job.line);
}

/* What try_matches() works in: the places are done with when lengths are made. */
union match_room {
  uint64_t seen[1 << HASH_BITS];
  length_room lengths;
};

/* One thread cuts; but this is done for all filters that could be asked about side by side, and other images go on. */
__global__ void __launch_bounds__(TRIAL_THREADS) try_matches(const png_job job) {
  extern __shared__ uint64_t shared_memory[];
  match_room *room = (match_room *)shared_memory;
  __shared__ uint32_t counts[SYMBOLS], distance_counts[DISTANCE_SYMBOLS];
  __shared__ uint8_t lengths[SYMBOLS];
  const uint32_t strip = blockIdx.x, filter = blockIdx.y;
  const gconv_png_sample sample = gconv_png_sample_of(job.line, strip * job.strip_rows, rows_of(job, strip));
  const gconv_png_choice choice = begin_choice(job, strip, sample);
  if (!gconv_png_choice_wants(&choice, (int)filter, true))
    return;
  for (uint32_t i = threadIdx.x; i < 1 << HASH_BITS; i += TRIAL_THREADS)
    room->seen[i] = 0;
  for (uint32_t i = threadIdx.x; i < SYMBOLS; i += TRIAL_THREADS)
    counts[i] = i == END_OF_BLOCK;
  for (uint32_t i = threadIdx.x; i < DISTANCE_SYMBOLS; i += TRIAL_THREADS)
    distance_counts[i] = 0;
  __syncthreads();
  trial *result = &job.trials[strip * GCONV_PNG_FILTERS + filter];
  const uint32_t before = choice.noisy ? (uint32_t)(sample.before * job.line) : 0;
  gconv_png_lines lines;
  lines.bytes = job.samples + (strip * GCONV_PNG_FILTERS + filter) * job.sample_room + sample.before * job.line - before;
  lines.size = before + sample.count * job.line;
  lines.line = job.line;
  lines.pixel = job.pixel;
  uint64_t extra_bits = 0;
  if (threadIdx.x == 0) {
    tally t;
    t.seen = room->seen;
    t.counts = counts;
    t.distance_counts = distance_counts;
    t.sequences = NULL;
    t.count = t.matched = t.extra_bits = 0;
    cut_lines(&t, &lines, 0, before, min(lines.size, (size_t)before + BLOCK_BYTES));
    result->single = job.pixel == PIXEL && t.matched < 2 * job.pixel * t.count;
    extra_bits = t.extra_bits;
  }
  __syncthreads();
  uint32_t bits = make_lengths(counts, SYMBOLS, LONGEST_CODE, lengths, &room->lengths);
  bits += make_lengths(distance_counts, DISTANCE_SYMBOLS, GCONV_HUFFMAN_LONGEST, lengths, &room->lengths);
  if (threadIdx.x == 0)
    result->with = bits + extra_bits;
}

/* ---- The choice ---- */

/* That of a strip whose trials are done. */
__device__ gconv_png_choice choose(const png_job &job, uint32_t strip) {
  const gconv_png_sample sample = gconv_png_sample_of(job.line, strip * job.strip_rows, rows_of(job, strip));
  gconv_png_choice choice = begin_choice(job, strip, sample);
  for (int turn = 0; turn < GCONV_PNG_FILTERS; turn++) {
    const int filter = gconv_png_choice_turn(&choice, turn);
    const trial &result = job.trials[strip * GCONV_PNG_FILTERS + filter];
    const bool tried = gconv_png_choice_wants(&choice, filter, choice.pay);
    gconv_png_choice_take(&choice, filter, tried, result.with, result.single);
  }
  return choice;
}

} // namespace

#endif
