/* SPDX-License-Identifier: MIT */
/*
 * Makes strips of literals in four steps: filters lines and counts bytes, for each block of deflate; makes codes of the
 * counts; finds the places of all bits; packs the bits there. png_deflate.c does the same, one block after the other.
 */
#pragma once

#include "base/checksum.h"
#include "codec_cuda/png_trials.cuh"

namespace {

/* Returns the bytes of block number `block` of a strip; 0 after the last block. */
__device__ uint32_t block_bytes(const png_job &job, uint32_t strip, uint32_t block) {
  const uint32_t size = rows_of(job, strip) * job.line, begin = block * BLOCK_BYTES;
  return begin < size ? min(size - begin, (uint32_t)BLOCK_BYTES) : 0;
}

/* ---- Lines ---- */

enum { FILTER_THREADS = 512, WARPS = FILTER_THREADS / 32 };

/* Filters the lines of a block, and counts its bytes. A thread takes four bytes at a time. */
__global__ void __launch_bounds__(FILTER_THREADS) filter_lines(const png_job job) {
  __shared__ uint32_t counts[WARPS][LITERALS];
  __shared__ uint64_t weighted[WARPS];
  __shared__ gconv_png_choice choice;
  const uint32_t block = blockIdx.x, strip = blockIdx.y, size = block_bytes(job, strip, block), warp = threadIdx.x / 32;
  if (size == 0)
    return;
  png_block *result = &job.blocks[strip * job.strip_blocks + block];
  if (threadIdx.x == 0)
    choice = choose(job, strip);
  for (uint32_t i = threadIdx.x; i < WARPS * LITERALS; i += FILTER_THREADS)
    counts[i / LITERALS][i % LITERALS] = 0;
  __syncthreads();
  if (threadIdx.x == 0 && block == 0)
    job.made[strip].size = !choice.matches; /* 1: the strip is made here; lay_out() replaces it by the size */
  if (choice.matches)
    return;
  uint8_t *out = job.lines + strip * job.strip_room + block * BLOCK_BYTES;
  const uint32_t first_row = strip * job.strip_rows;
  uint64_t sum = 0;
  for (uint32_t i = 4 * threadIdx.x; i < size; i += 4 * FILTER_THREADS) {
    const uint32_t at = block * BLOCK_BYTES + i, count = min(size - i, 4);
    const uint32_t four = filter_bytes(job, choice.best, first_row + at / job.line, at % job.line, count);
    for (uint32_t k = 0; k < count; k++) {
      const uint32_t byte = four >> 8 * k & 0xff;
      sum += byte * (size - i - k);
      atomicAdd(&counts[warp][byte], 1);
    }
    *(uint32_t *)(out + i) = four;
  }
  sum = sum_of_warp(sum);
  if (threadIdx.x % 32 == 0)
    weighted[warp] = sum;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < LITERALS; i += FILTER_THREADS) {
    uint32_t count = 0;
    for (int k = 0; k < WARPS; k++)
      count += counts[k][i];
    result->counts[i] = count;
  }
  if (threadIdx.x == 0) {
    sum = 0;
    for (int k = 0; k < WARPS; k++)
      sum += weighted[k];
    result->weighted = sum;
  }
}

/* ---- Codes ---- */

enum { CODE_THREADS = 256 };

/* Makes codes as gconv_huffman_codes() does. make_lengths() must have made the lengths in `room` just before. */
__device__ void make_codes_of(const uint8_t *lengths, int symbols, uint16_t *codes, const length_room *room) {
  for (int i = (int)threadIdx.x; i < symbols; i += CODE_THREADS) {
    const int length = lengths[i];
    unsigned code = 0;
    for (int k = 1; k <= length; k++)
      code = (code + (k > 1 ? room->huffman.of_length[k - 1] : 0)) << 1;
    for (int k = 0; k < i; k++)
      code += lengths[k] == length;
    codes[i] = length > 0 ? gconv_huffman_reverse(code, length) : 0;
  }
  __syncthreads();
}

__global__ void __launch_bounds__(CODE_THREADS) describe_blocks(const png_job job) {
  __shared__ uint32_t counts[SYMBOLS], header_counts[HEADER_SYMBOLS];
  __shared__ uint8_t lengths[SYMBOLS + DISTANCE_SYMBOLS], header_lengths[HEADER_SYMBOLS];
  __shared__ uint16_t symbols[SYMBOLS + DISTANCE_SYMBOLS], codes[SYMBOLS], header_codes[HEADER_SYMBOLS];
  __shared__ size_t symbol_count;
  __shared__ uint32_t sum;
  __shared__ length_room room;
  const uint32_t block = blockIdx.x, strip = blockIdx.y;
  if (block_bytes(job, strip, block) == 0 || job.made[strip].size == 0)
    return;
  png_block *result = &job.blocks[strip * job.strip_blocks + block];
  for (uint32_t i = threadIdx.x; i < SYMBOLS; i += CODE_THREADS)
    counts[i] = i < LITERALS ? result->counts[i] : i == END_OF_BLOCK;
  for (uint32_t i = threadIdx.x; i < DISTANCE_SYMBOLS; i += CODE_THREADS)
    lengths[SYMBOLS + i] = i < 2; /* a code of two symbols that are not used */
  for (uint32_t i = threadIdx.x; i < HEADER_SYMBOLS; i += CODE_THREADS)
    header_counts[i] = 0;
  if (threadIdx.x == 0)
    sum = 0;
  __syncthreads();
  const uint32_t bits = make_lengths(counts, SYMBOLS, LONGEST_CODE, lengths, &room);
  for (uint32_t i = threadIdx.x; i < LITERALS; i += CODE_THREADS)
    atomicAdd(&sum, i * counts[i]);
  make_codes_of(lengths, SYMBOLS, codes, &room);
  for (uint32_t i = threadIdx.x; i <= LITERALS; i += CODE_THREADS)
    result->codes[i] = (uint32_t)codes[i] << COUNT_BITS | lengths[i];
  if (threadIdx.x == 0)
    symbol_count = shorten_lengths(lengths, SYMBOLS + DISTANCE_SYMBOLS, symbols);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < symbol_count; i += CODE_THREADS)
    atomicAdd(&header_counts[symbols[i] & 0xff], 1);
  __syncthreads();
  make_lengths(header_counts, HEADER_SYMBOLS, LONGEST_HEADER_CODE, header_lengths, &room);
  make_codes_of(header_lengths, HEADER_SYMBOLS, header_codes, &room);
  if (threadIdx.x == 0) {
    bit_writer writer = {0, 0, (uint8_t *)result->description};
    put_codes(symbols, symbol_count, header_lengths, header_codes, &writer);
    result->description_bits = 8 * (uint32_t)(writer.next - (uint8_t *)result->description) + writer.count;
    result->bits = 3 + result->description_bits + bits;
    result->sum = sum;
  }
}

/* ---- Places ---- */

/* Returns the bit after `size` bytes that are stored, not coded, from bit `position` on. */
__device__ uint64_t end_of_stored(uint64_t position, uint32_t size) {
  for (bool more = true; more; more = size > 0) {
    const uint32_t part = min(size, (uint32_t)STORED_BYTES);
    position = (position + 3 + 7) / 8 * 8 + 32 + 8 * (uint64_t)part;
    size -= part;
  }
  return position;
}

__device__ gconv_png_strip lay_out_strip(const png_job &job, uint32_t strip) {
  uint64_t position = 8 * (GCONV_PNG_CHUNK_HEAD + (strip == 0 ? GCONV_PNG_STREAM_HEAD : 0)), low = 1, high = 0;
  for (uint32_t i = 0, size; i < job.strip_blocks && (size = block_bytes(job, strip, i)) > 0; i++) {
    png_block *block = &job.blocks[strip * job.strip_blocks + i];
    block->position = position;
    block->stored = stored_is_shorter(position, block->bits, size);
    position = block->stored ? end_of_stored(position, size) : position + block->bits;
    high = (high + size * low + block->weighted) % GCONV_ADLER_MODULUS;
    low = (low + block->sum) % GCONV_ADLER_MODULUS;
  }
  if (strip + 1 < job.strips)
    position = end_of_stored(position, 0);
  gconv_png_strip made;
  made.size = (uint32_t)((position + 7) / 8) + GCONV_PNG_CHUNK_TAIL;
  made.adler = (uint32_t)(high << 16 | low);
  return made;
}

enum { LAYOUT_THREADS = 256 };

/* Finds the places of all bits, and of all chunks. It is run by one block of threads for all strips. */
__global__ void __launch_bounds__(LAYOUT_THREADS) lay_out(const png_job job) {
  for (uint32_t strip = threadIdx.x; strip < job.strips; strip += LAYOUT_THREADS) {
    gconv_png_strip made = {};
    if (job.made[strip].size > 0)
      made = lay_out_strip(job, strip);
    made.first_row = (int32_t)(strip * job.strip_rows);
    made.rows = (int32_t)rows_of(job, strip);
    job.made[strip] = made;
  }
  __syncthreads();
  if (threadIdx.x != 0)
    return;
  uint64_t offset = 0;
  for (uint32_t strip = 0; strip < job.strips; strip++) {
    job.made[strip].offset = offset;
    offset += job.made[strip].size;
  }
}

/* ---- Bits ---- */

/* Puts up to 32 bits into words that began as zeros. Other threads may put bits into the same words. */
__device__ void or_bits(uint32_t *words, uint64_t position, uint32_t bits) {
  const uint64_t both = (uint64_t)bits << position % 32;
  if ((uint32_t)both)
    atomicOr(&words[position / 32], (uint32_t)both);
  if (both >> 32)
    atomicOr(&words[position / 32 + 1], (uint32_t)(both >> 32));
}

__device__ uint32_t reverse_bytes(uint32_t value) {
  return __byte_perm(value, 0, 0x0123);
}

/* Puts the head of a stored block, which may be empty, at a position. Returns where the bytes of the block begin. */
__device__ uint64_t put_stored_head(uint32_t *words, uint64_t position, uint32_t size, bool last) {
  or_bits(words, position, last);
  position = (position + 3 + 7) / 8 * 8;
  or_bits(words, position, size | ~size << 16);
  return position + 32;
}

enum { PACK_THREADS = 1024, PACKED_BYTES = BLOCK_BYTES / PACK_THREADS };

/* Copies bytes to a position. Each thread puts whole words of the target. */
__device__ void copy_bytes(const uint8_t *bytes, uint32_t size, uint32_t *words, uint64_t position) {
  const uint64_t target = position / 8, first = target / 4, end = (target + size + 3) / 4;
  for (uint64_t word = first + threadIdx.x; word < end; word += PACK_THREADS) {
    uint32_t value = 0;
    for (uint32_t k = 0; k < 4; k++) {
      const uint64_t from = 4 * word + k - target; /* before the target, it wraps around */
      value |= from < size ? (uint32_t)bytes[from] << 8 * k : 0;
    }
    if (value)
      atomicOr(&words[word], value);
  }
}

__device__ void store_block(const uint8_t *bytes, uint32_t size, bool last, uint32_t *words, uint64_t position) {
  while (size > 0) {
    const uint32_t part = min(size, (uint32_t)STORED_BYTES);
    if (threadIdx.x == 0)
      put_stored_head(words, position, part, last && part == size);
    position = (position + 3 + 7) / 8 * 8 + 32;
    copy_bytes(bytes, part, words, position);
    position += 8 * part;
    bytes += part;
    size -= part;
  }
}

/* Returns the sum of the values of all threads before this one. */
__device__ uint32_t sum_before(uint32_t value) {
  __shared__ uint32_t of_warps[32];
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t sum = value;
  for (uint32_t distance = 1; distance < 32; distance *= 2) {
    const uint32_t other = __shfl_up_sync(0xffffffff, sum, distance);
    sum += lane >= distance ? other : 0;
  }
  if (lane == 31)
    of_warps[warp] = sum;
  __syncthreads();
  uint32_t before = sum - value;
  for (uint32_t i = 0; i < warp; i++)
    before += of_warps[i];
  return before;
}

/* The literals of a thread. */
struct literals {
  uint32_t fours[PACKED_BYTES / 4]; /* in registers, as all loops are unrolled */
  uint32_t count;

  /* Loads the literals from bytes[begin] on, of `size` bytes; begin is a multiple of 16. */
  __device__ literals(const uint8_t *bytes, uint32_t begin, uint32_t size) {
    count = begin < size ? min(size - begin, (uint32_t)PACKED_BYTES) : 0;
#pragma unroll
    for (uint32_t i = 0; i < PACKED_BYTES / 16; i++) {
      const uint4 part = 16 * i < count ? *(const uint4 *)(bytes + begin + 16 * i) : make_uint4(0, 0, 0, 0);
      fours[4 * i] = part.x;
      fours[4 * i + 1] = part.y;
      fours[4 * i + 2] = part.z;
      fours[4 * i + 3] = part.w;
    }
  }

  /* Returns the code of literal i; 0 after the last one. */
  __device__ uint32_t code(const uint32_t *codes, uint32_t i) const {
    const uint32_t code = codes[fours[i / 4] >> 8 * (i % 4) & 0xff];
    return i < count ? code : 0;
  }
};

__device__ uint32_t length_of(uint32_t code) {
  return code & ((1 << COUNT_BITS) - 1);
}

/* Puts the codes of a thread's literals. Words that the thread shares with others, the first and the last, are put by
 * atomics; the words between are stored. */
__device__ void put_literals(const uint32_t *codes, const literals &own, uint32_t *words, uint64_t position) {
  uint32_t *next = words + position / 32, *const first = next;
  uint64_t bits = 0;
  uint32_t count = position % 32;
#pragma unroll
  for (uint32_t i = 0; i < PACKED_BYTES; i += 2) {
    const uint32_t a = own.code(codes, i), b = own.code(codes, i + 1);
    bits |= (uint64_t)(a >> COUNT_BITS | b >> COUNT_BITS << length_of(a)) << count;
    count += length_of(a) + length_of(b);
    if (count < 32)
      continue;
    if (next == first)
      atomicOr(next, (uint32_t)bits);
    else
      *next = (uint32_t)bits;
    next++;
    bits >>= 32;
    count -= 32;
  }
  if (bits)
    atomicOr(next, (uint32_t)bits);
}

/* Puts a block of deflate. The first block of a strip also puts the head of the chunk. The last block of a strip also puts
 * the mark between strips, unless the stream ends there. */
__global__ void __launch_bounds__(PACK_THREADS) pack(const png_job job) {
  __shared__ uint32_t codes[LITERALS];
  const uint32_t index = blockIdx.x, strip = blockIdx.y, size = block_bytes(job, strip, index);
  const gconv_png_strip made = job.made[strip];
  if (size == 0 || made.size == 0)
    return;
  const png_block *block = &job.blocks[strip * job.strip_blocks + index];
  const bool end = index * BLOCK_BYTES + size == rows_of(job, strip) * job.line, last = end && strip + 1 == job.strips;
  const uint64_t chunk = 8 * made.offset, position = chunk + block->position;
  const uint8_t *bytes = job.lines + strip * job.strip_room + index * BLOCK_BYTES;
  for (uint32_t i = threadIdx.x; i < LITERALS; i += PACK_THREADS)
    codes[i] = block->codes[i];
  __syncthreads();
  if (index == 0 && threadIdx.x == 0) {
    or_bits(job.chunks, chunk, reverse_bytes(made.size - GCONV_PNG_CHUNK_HEAD - GCONV_PNG_CHUNK_TAIL));
    or_bits(job.chunks, chunk + 32, 'I' | 'D' << 8 | 'A' << 16 | 'T' << 24);
    if (strip == 0)
      or_bits(job.chunks, chunk + 64, __byte_perm(gconv_png_stream_head(GCONV_PNG_FAST_LEVEL), 0, 0x4401));
  }
  if (block->stored) {
    store_block(bytes, size, last, job.chunks, position);
    if (end && !last && threadIdx.x == 0)
      put_stored_head(job.chunks, chunk + end_of_stored(block->position, size), 0, false);
    return;
  }
  const literals own(bytes, threadIdx.x * PACKED_BYTES, size);
  uint32_t bits = 0;
#pragma unroll
  for (uint32_t i = 0; i < PACKED_BYTES; i++)
    bits += length_of(own.code(codes, i));
  put_literals(codes, own, job.chunks, position + 3 + block->description_bits + sum_before(bits));
  for (uint32_t i = threadIdx.x; 32 * i < block->description_bits; i += PACK_THREADS) {
    const uint32_t left = block->description_bits - 32 * i;
    or_bits(job.chunks, position + 3 + 32 * i, block->description[i] & (left < 32 ? (1u << left) - 1 : UINT32_MAX));
  }
  if (threadIdx.x > 0)
    return;
  const uint32_t code = block->codes[END_OF_BLOCK];
  or_bits(job.chunks, position, (uint32_t)last | 2 << 1);
  or_bits(job.chunks, position + block->bits - length_of(code), code >> COUNT_BITS);
  if (end && !last)
    put_stored_head(job.chunks, position + block->bits, 0, false);
}

/* ---- Checksums ---- */

enum { CRC_THREADS = 256, CRC_BYTES = 256 /* a multiple of 16 */, CRC_POLYNOMIAL = 0xedb88320 };

/* Multiplies polynomials with coefficients 0 and 1, modulo the polynomial of CRC-32. The highest bit is the coefficient of
 * x^0. */
__device__ uint32_t multiply_polynomials(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (int i = 0; i < 32; i++) {
    product ^= b & (0 - (a >> 31));
    a <<= 1;
    b = b >> 1 ^ ((uint32_t)CRC_POLYNOMIAL & (0 - (b & 1)));
  }
  return product;
}

/* CRC-32 is linear. So each thread computes the checksum of some bytes, as if zeros followed to the end of the chunk. The
 * exclusive or of all these checksums is the checksum of the chunk. Each thread combines its checksum with the word of the
 * result, which begins as zeros. CRC-32 starts from ones, which is the same as inverting the first four bytes. */
__global__ void __launch_bounds__(CRC_THREADS) put_crc(const png_job job) {
  __shared__ uint32_t table[256], powers[32]; /* x^(8 * 2^i) */
  const gconv_png_strip made = job.made[blockIdx.y];
  const uint64_t data = made.offset + 4, end = made.offset + made.size - GCONV_PNG_CHUNK_TAIL; /* from the type on */
  const uint64_t first = (data / CRC_BYTES + blockIdx.x * CRC_THREADS) * CRC_BYTES, begin = first + threadIdx.x * CRC_BYTES;
  if (made.size == 0 || first >= end)
    return;
  uint32_t value = threadIdx.x;
  for (int i = 0; i < 8; i++)
    value = value >> 1 ^ ((uint32_t)CRC_POLYNOMIAL & (0 - (value & 1)));
  table[threadIdx.x] = value;
  if (threadIdx.x == 0) {
    powers[0] = 1u << (31 - 8);
    for (int i = 1; i < 32; i++)
      powers[i] = multiply_polynomials(powers[i - 1], powers[i - 1]);
  }
  __syncthreads();
  if (begin >= end)
    return;
  const uint8_t *bytes = (const uint8_t *)job.chunks;
  uint32_t crc = 0;
  uint64_t at = begin;
  if (begin >= data + 4 && begin + CRC_BYTES <= end) {
    for (; at < begin + CRC_BYTES; at += 16) {
      const uint4 part = *(const uint4 *)(bytes + at);
      const uint32_t fours[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
      for (int i = 0; i < 16; i++)
        crc = table[(crc ^ fours[i / 4] >> 8 * (i % 4)) & 0xff] ^ crc >> 8;
    }
  } else {
    at = begin < data ? data : begin;
    for (; at < end && at < begin + CRC_BYTES; at++)
      crc = table[(crc ^ bytes[at] ^ (at < data + 4 ? 0xff : 0)) & 0xff] ^ crc >> 8;
  }
  uint64_t behind = end - at;
  for (int i = 0; behind > 0; i++, behind /= 2)
    if (behind & 1)
      crc = multiply_polynomials(crc, powers[i]);
  crc = reverse_bytes(begin <= data ? ~crc : crc);
  const uint64_t both = (uint64_t)crc << end % 4 * 8;
  atomicXor(&job.chunks[end / 4], (uint32_t)both);
  atomicXor(&job.chunks[end / 4 + 1], (uint32_t)(both >> 32));
}

} // namespace
