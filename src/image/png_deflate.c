/* SPDX-License-Identifier: MIT */
#include "image/png_deflate.h"
#include "base/memory.h"
#include "image/png_cut.h"

#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

enum {
  MOST_MATCHES = (BLOCK_BYTES + LONGEST) / SHORTEST + 1,
  TRIAL_BYTES = 8192, /* bytes of a block that tell whether matches are worth looking for */
  COUNT_TABLES = 8,
  MANY = 4096, /* literals for which making tables pays */
};

/* Some literals and then a match. The last sequence of a block has length 0: no match. */
typedef struct sequence {
  uint32_t literals;
  uint16_t length;
  uint16_t back; /* distance - 1 */
} sequence;

struct gconv_png_deflater {
  uint64_t seen[1 << HASH_BITS]; /* see look_up() */
  sequence sequences[MOST_MATCHES + 1];
  size_t count;
  uint32_t counts[SYMBOLS], distance_counts[DISTANCE_SYMBOLS];
  uint64_t extra_bits; /* extra bits of all lengths and distances */
  uint8_t lengths[SYMBOLS + DISTANCE_SYMBOLS];
  /* Packed codes: see COUNT_BITS. Codes of lengths include their extra bits. */
  uint32_t literal_codes[LITERALS], length_codes[LONGEST + 1], distance_codes[DISTANCE_SYMBOLS], end_code;
};

gconv_status gconv_png_deflater_create(gconv_png_deflater **deflater) {
  GCONV_ALLOCATE(*deflater, sizeof **deflater, "a PNG compressor");
  return GCONV_OK;
}

void gconv_png_deflater_free(gconv_png_deflater *deflater) {
  gconv_release(deflater);
}

/* ---- Finding matches ---- */

GCONV_INLINE void add_match(gconv_png_deflater *deflater, size_t literals, size_t length, size_t distance) {
  unsigned length_extra, distance_extra;
  deflater->counts[LITERALS + 1 + length_symbol((unsigned)length, &length_extra)]++;
  deflater->distance_counts[distance_symbol((unsigned)distance - 1, &distance_extra)]++;
  deflater->extra_bits += length_extra + distance_extra;
  deflater->sequences[deflater->count++] = (sequence){(uint32_t)literals, (uint16_t)length, (uint16_t)(distance - 1)};
}

/* Cuts bytes begin .. stop - 1 into literals and matches. The last match may reach beyond `stop`; returns its end. Matches
 * are looked for at every `step` bytes of a line; the first `unit` bytes, SHORTEST or more, must be equal. */
GCONV_INLINE size_t cut_body(gconv_png_deflater *deflater, const gconv_png_lines *lines, size_t begin, size_t stop,
                             size_t step, size_t unit) {
  const uint8_t *bytes = lines->bytes;
  const uint64_t mask = UINT64_MAX >> (64 - 8 * unit);
  size_t at = begin, literals = begin;
  while (at < stop) {
    size_t line_end = at - at % lines->line + lines->line;
    if (at % lines->line == 0)
      deflater->counts[bytes[at++]]++; /* the number of the filter */
    while (at + unit <= line_end && at < stop) {
      size_t distance = look_up(deflater->seen, at, load(bytes + at) & mask);
      if (distance - 1 < (at < WINDOW ? at : WINDOW)) {
        size_t most = line_end - at < LONGEST ? line_end - at : LONGEST;
        size_t length = common_length(bytes + at, bytes + at - distance, most);
        if (length >= unit + step) {
          length -= length % step;
          add_match(deflater, at - literals, length, distance);
          literals = at += length;
          continue;
        }
        if (length >= unit) { /* `unit` is a constant, so code after a predicted branch need not wait for `length` */
          add_match(deflater, at - literals, unit, distance);
          literals = at += unit;
          continue;
        }
      }
      for (size_t i = 0; i < step; i++)
        deflater->counts[bytes[at++]]++;
    }
    if (at + unit > line_end)
      while (at < line_end)
        deflater->counts[bytes[at++]]++;
  }
  deflater->sequences[deflater->count++] = (sequence){.literals = (uint32_t)(at - literals)};
  return at;
}

static void begin_counts(gconv_png_deflater *deflater) {
  deflater->count = 0;
  deflater->extra_bits = 0;
  memset(deflater->counts, 0, sizeof deflater->counts);
  memset(deflater->distance_counts, 0, sizeof deflater->distance_counts);
  deflater->counts[END_OF_BLOCK] = 1;
}

static size_t cut(gconv_png_deflater *deflater, const gconv_png_lines *lines, size_t begin, size_t stop) {
  begin_counts(deflater);
  switch (lines->pixel) { /* constants make the loops fast */
  case 1:
  case 2:
    return cut_body(deflater, lines, begin, stop, step_of(2), unit_of(2));
  case 3:
    return cut_body(deflater, lines, begin, stop, step_of(3), unit_of(3));
  case 4:
    return cut_body(deflater, lines, begin, stop, step_of(4), unit_of(4));
  case 6:
    return cut_body(deflater, lines, begin, stop, step_of(6), unit_of(6));
  default:
    return cut_body(deflater, lines, begin, stop, step_of(8), unit_of(8));
  }
}

/* Makes literals of all bytes. Counts them in eight tables: with one, equal bytes in a row would wait for each other. */
static void take_literals(gconv_png_deflater *deflater, const uint8_t *bytes, size_t size) {
  uint32_t tables[COUNT_TABLES][LITERALS] = {{0}};
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t eight = load(bytes + i);
    for (int k = 0; k < 8; k++)
      tables[k % COUNT_TABLES][eight >> 8 * k & 0xff]++;
  }
  for (; i < size; i++)
    tables[0][bytes[i]]++;
  begin_counts(deflater);
  for (int literal = 0; literal < LITERALS; literal++)
    for (int k = 0; k < COUNT_TABLES; k++)
      deflater->counts[literal] += tables[k][literal];
  deflater->sequences[deflater->count++] = (sequence){.literals = (uint32_t)size};
}

/* ---- Codes ---- */

/* Makes the lengths of codes from the counts, and returns the bits that the block takes with these codes. */
static uint64_t make_lengths(gconv_png_deflater *deflater) {
  uint8_t *distance_lengths = deflater->lengths + SYMBOLS;
  uint64_t bits = deflater->extra_bits;
  gconv_huffman_lengths(deflater->counts, SYMBOLS, LONGEST_CODE, deflater->lengths);
  gconv_huffman_lengths(deflater->distance_counts, DISTANCE_SYMBOLS, GCONV_HUFFMAN_LONGEST, distance_lengths);
  for (int i = 0; i < SYMBOLS; i++)
    bits += (uint64_t)deflater->counts[i] * deflater->lengths[i];
  for (int i = 0; i < DISTANCE_SYMBOLS; i++)
    bits += (uint64_t)deflater->distance_counts[i] * distance_lengths[i];
  return bits;
}

/* Makes the tables in which put_sequences() looks codes up. */
static void make_codes(gconv_png_deflater *deflater) {
  const uint8_t *lengths = deflater->lengths, *distance_lengths = lengths + SYMBOLS;
  uint16_t codes[SYMBOLS], distance_codes[DISTANCE_SYMBOLS];
  gconv_huffman_codes(lengths, SYMBOLS, codes);
  gconv_huffman_codes(distance_lengths, DISTANCE_SYMBOLS, distance_codes);
  for (int i = 0; i < LITERALS; i++)
    deflater->literal_codes[i] = (uint32_t)codes[i] << COUNT_BITS | lengths[i];
  for (int i = 0; i < DISTANCE_SYMBOLS; i++)
    deflater->distance_codes[i] = (uint32_t)distance_codes[i] << COUNT_BITS | distance_lengths[i];
  deflater->end_code = (uint32_t)codes[END_OF_BLOCK] << COUNT_BITS | lengths[END_OF_BLOCK];
  for (unsigned length = SHORTEST; length <= LONGEST; length++) {
    unsigned extra, symbol = LITERALS + 1 + length_symbol(length, &extra), bits = lengths[symbol];
    unsigned low = (length - SHORTEST) & ((1u << extra) - 1);
    deflater->length_codes[length] = (codes[symbol] | low << bits) << COUNT_BITS | (bits + extra);
  }
}

/* ---- Blocks ---- */

static void describe_codes(const gconv_png_deflater *deflater, bit_writer *writer) {
  uint16_t symbols[SYMBOLS + DISTANCE_SYMBOLS], codes[HEADER_SYMBOLS];
  uint32_t counts[HEADER_SYMBOLS] = {0};
  uint8_t lengths[HEADER_SYMBOLS];
  size_t count = shorten_lengths(deflater->lengths, SYMBOLS + DISTANCE_SYMBOLS, symbols);
  for (size_t i = 0; i < count; i++)
    counts[symbols[i] & 0xff]++;
  gconv_huffman_lengths(counts, HEADER_SYMBOLS, LONGEST_HEADER_CODE, lengths);
  gconv_huffman_codes(lengths, HEADER_SYMBOLS, codes);
  put_codes(symbols, count, lengths, codes, writer);
}

/* Joins the codes of literals, at most four. */
GCONV_INLINE joined join_literals(const uint32_t *codes, const uint8_t *bytes, size_t count) {
  joined all = {0};
  for (size_t i = 0; i < count; i++)
    all = join(all, codes[bytes[i]]);
  return all;
}

GCONV_INLINE joined join_match(uint32_t length_code, uint32_t distance_code, unsigned back, unsigned extra) {
  joined match = join(join((joined){0}, length_code), distance_code);
  uint64_t low = back & ((1u << extra) - 1);
  return (joined){match.bits | low << (match.count & 63), match.count + extra};
}

GCONV_INLINE void put_match(const gconv_png_deflater *deflater, unsigned length, unsigned back, bit_writer *writer) {
  unsigned extra, symbol = distance_symbol(back, &extra);
  put_joined(writer, join_match(deflater->length_codes[length], deflater->distance_codes[symbol], back, extra));
}

/* ---- Many literals, with instructions that pick bytes from a vector (VBMI) ---- */

#if defined(__x86_64__) && defined(__GNUC__)
#define VBMI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2,bmi2")))

/* One byte of each of 256 codes, for looking up 64 of them at a time. */
typedef struct byte_table {
  __m512i quarters[4];
} byte_table;

VBMI static inline byte_table make_byte_table(const uint32_t *codes, int shift) {
  uint8_t bytes[LITERALS];
  byte_table table;
  for (int i = 0; i < LITERALS; i++)
    bytes[i] = (uint8_t)(codes[i] >> shift);
  memcpy(&table, bytes, sizeof table);
  return table;
}

VBMI static inline __m512i look_up_bytes(const byte_table *table, __m512i bytes) {
  __m512i low = _mm512_permutex2var_epi8(table->quarters[0], bytes, table->quarters[1]);
  __m512i high = _mm512_permutex2var_epi8(table->quarters[2], bytes, table->quarters[3]);
  return _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), low, high);
}

/* Returns byte `i` of each 32 bits. */
VBMI static inline __m512i byte_of(__m512i fours, unsigned i) {
  return _mm512_and_si512(_mm512_srli_epi32(fours, 8 * i), _mm512_set1_epi32(0xff));
}

/* Joins pairs of codes to groups of four, and puts the eight groups. */
VBMI static inline void put_eight(__m256i first, __m256i first_counts, __m256i second, __m256i counts, bit_writer *writer) {
  uint64_t bits[8];
  uint32_t all[8];
  __m512i later = _mm512_sllv_epi64(_mm512_cvtepu32_epi64(second), _mm512_cvtepu32_epi64(first_counts));
  _mm512_storeu_si512(bits, _mm512_or_si512(_mm512_cvtepu32_epi64(first), later));
  _mm256_storeu_si256((__m256i *)all, counts);
  for (int i = 0; i < 8; i++) {
    put(writer, bits[i], all[i]);
    drain(writer);
  }
}

/* Puts the codes of literals, 64 at a time. Returns how many it has put. */
VBMI static size_t put_many_literals(const uint32_t *codes, const uint8_t *bytes, size_t count, bit_writer *result) {
  const byte_table lengths = make_byte_table(codes, 0), lows = make_byte_table(codes, COUNT_BITS),
                   highs = make_byte_table(codes, COUNT_BITS + 8);
  bit_writer writer = *result;
  size_t done = 0;
  for (; done + 64 <= count; done += 64) {
    const __m512i literals = _mm512_loadu_si512(bytes + done);
    const __m512i length = look_up_bytes(&lengths, literals), low = look_up_bytes(&lows, literals),
                  high = look_up_bytes(&highs, literals);
    __m512i pairs[2], counts[2];
    for (unsigned i = 0; i < 2; i++) {
      __m512i code = _mm512_or_si512(byte_of(low, 2 * i), _mm512_slli_epi32(byte_of(high, 2 * i), 8));
      __m512i next = _mm512_or_si512(byte_of(low, 2 * i + 1), _mm512_slli_epi32(byte_of(high, 2 * i + 1), 8));
      pairs[i] = _mm512_or_si512(code, _mm512_sllv_epi32(next, byte_of(length, 2 * i)));
      counts[i] = _mm512_add_epi32(byte_of(length, 2 * i), byte_of(length, 2 * i + 1));
    }
    const __m512i all = _mm512_add_epi32(counts[0], counts[1]);
    put_eight(_mm512_castsi512_si256(pairs[0]), _mm512_castsi512_si256(counts[0]), _mm512_castsi512_si256(pairs[1]),
              _mm512_castsi512_si256(all), &writer);
    put_eight(_mm512_extracti64x4_epi64(pairs[0], 1), _mm512_extracti64x4_epi64(counts[0], 1),
              _mm512_extracti64x4_epi64(pairs[1], 1), _mm512_extracti64x4_epi64(all, 1), &writer);
  }
  *result = writer;
  return done;
}
#else
static size_t put_many_literals(const uint32_t *codes, const uint8_t *bytes, size_t count, bit_writer *result) {
  return 0;
}
#endif

/* ---- Literals and matches ---- */

/* Puts literals and matches from `bytes` on. At most 7 + 4 * 14 or 7 + 14 + 5 + 15 + 13 bits are in the writer at a time. */
GCONV_VECTOR_LOOP(put_sequences, (const gconv_png_deflater *deflater, const uint8_t *bytes, bit_writer *result),
                  (deflater, bytes, result)) {
  const uint32_t *literals = deflater->literal_codes;
  const bool many = gconv_cpu_dots();
  bit_writer writer = *result;
  for (size_t i = 0; i < deflater->count; i++) {
    const sequence *s = &deflater->sequences[i];
    size_t left = s->literals;
    if (many && left >= MANY) {
      size_t put = put_many_literals(literals, bytes, left, &writer);
      left -= put;
      bytes += put;
    }
    for (; left >= 4; left -= 4, bytes += 4) {
      put_joined(&writer, join_literals(literals, bytes, 4));
      drain(&writer);
    }
    if (left > 0) {
      for (; left > 0; left--)
        put_packed(&writer, literals[*bytes++]);
      drain(&writer);
    }
    if (s->length == 0)
      break;
    put_match(deflater, s->length, s->back, &writer);
    drain(&writer);
    bytes += s->length;
  }
  put_packed(&writer, deflater->end_code);
  drain(&writer);
  *result = writer;
}

static void put_stored(const uint8_t *bytes, size_t size, bool last, bit_writer *writer) {
  do {
    size_t part = size < STORED_BYTES ? size : STORED_BYTES;
    put(writer, last && part == size, 3);
    align(writer);
    put(writer, part | (uint64_t)(~part & 0xffff) << 16, 32);
    drain(writer);
    if (part > 0)
      memcpy(writer->next, bytes, part);
    writer->next += part;
    bytes += part;
    size -= part;
  } while (size > 0);
}

/* Puts a block: with codes, or stored if that is shorter. */
static void put_block(gconv_png_deflater *deflater, const uint8_t *bytes, size_t size, bool last, bit_writer *writer) {
  const bit_writer before = *writer;
  uint64_t bits = make_lengths(deflater);
  put(writer, (uint64_t)last | 2 << 1, 3);
  describe_codes(deflater, writer);
  bits += 8 * (uint64_t)(writer->next - before.next) + writer->count - before.count;
  if (stored_is_shorter(before.count, bits, size)) {
    *writer = before;
    put_stored(bytes, size, last, writer);
    return;
  }
  make_codes(deflater);
  put_sequences(deflater, bytes, writer);
}

/* Tries on some bytes of a block whether matches pay. Photos repeat so little that matches may make them larger, as literals
 * then get longer codes. */
static bool matches_pay(gconv_png_deflater *deflater, const gconv_png_lines *lines, size_t begin) {
  size_t stop = lines->size - begin < TRIAL_BYTES ? lines->size : begin + TRIAL_BYTES;
  size_t end = cut(deflater, lines, begin, stop);
  uint64_t with = make_lengths(deflater);
  take_literals(deflater, lines->bytes + begin, end - begin);
  return gconv_png_matches_pay(with, make_lengths(deflater));
}

/* Cuts the block that begins at `begin`, and returns where it ends. */
static size_t cut_block(gconv_png_deflater *deflater, const gconv_png_lines *lines, size_t begin) {
  size_t stop = lines->size - begin < BLOCK_BYTES ? lines->size : begin + BLOCK_BYTES;
  if (lines->matches && matches_pay(deflater, lines, begin))
    return cut(deflater, lines, begin, stop);
  take_literals(deflater, lines->bytes + begin, stop - begin);
  return stop;
}

size_t gconv_png_deflate(gconv_png_deflater *deflater, const gconv_png_lines *lines, bool last, uint8_t *out) {
  bit_writer writer = {.next = out};
  memset(deflater->seen, 0, sizeof deflater->seen);
  for (size_t begin = 0, end; begin < lines->size; begin = end) {
    end = cut_block(deflater, lines, begin);
    put_block(deflater, lines->bytes + begin, end - begin, last && end == lines->size, &writer);
  }
  if (!last)
    put_stored(out, 0, false, &writer);
  align(&writer);
  return (size_t)(writer.next - out);
}

/* ---- Trials ---- */

uint64_t gconv_png_deflate_try_literals(gconv_png_deflater *deflater, const gconv_png_lines *lines) {
  take_literals(deflater, lines->bytes, lines->size < BLOCK_BYTES ? lines->size : BLOCK_BYTES);
  return make_lengths(deflater);
}

uint64_t gconv_png_deflate_try_matches(gconv_png_deflater *deflater, const gconv_png_lines *lines) {
  memset(deflater->seen, 0, sizeof deflater->seen);
  cut(deflater, lines, 0, lines->size < BLOCK_BYTES ? lines->size : BLOCK_BYTES);
  return make_lengths(deflater);
}
