/* SPDX-License-Identifier: MIT */
#include "image/png_deflate.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "image/huffman.h"

#include <string.h>

enum {
  LITERALS = 256,
  END_OF_BLOCK = 256,
  LENGTH_SYMBOLS = 29,
  SYMBOLS = LITERALS + 1 + LENGTH_SYMBOLS,
  DISTANCE_SYMBOLS = 30,
  HEADER_SYMBOLS = 19,
  SHORTEST = 3,
  LONGEST = 258,
  WINDOW = 32768,
  HASH_BITS = 13,
  BLOCK_BYTES = 131072, /* enough for a code to pay for its description, about 100 bytes */
  MOST_MATCHES = (BLOCK_BYTES + LONGEST) / SHORTEST + 1,
  TRIAL_BYTES = 8192,   /* of a block, that tell whether matches are worth looking for */
  STORED_BYTES = 65535, /* the most that one stored block holds */
  CODE_BITS = 24,
};

/* Some literals and then a match. The last of a block has length 0: it is no match. */
typedef struct sequence {
  uint32_t literals;
  uint16_t length;
  uint16_t back; /* distance - 1 */
} sequence;

struct gconv_png_deflater {
  /* Where pixels of a hash were seen: in the lower half the last place of the latest pixel, in the upper half of the one
   * before it that was another. Each is 16 more bits of the hash, which tell most pixels apart, over 16 of the position,
   * modulo 65536. What is found is compared, so that neither collisions nor stale places do harm. */
  uint64_t seen[1 << HASH_BITS];
  sequence sequences[MOST_MATCHES + 1];
  size_t count;
  uint32_t counts[SYMBOLS], distance_counts[DISTANCE_SYMBOLS];
  uint64_t extra_bits; /* of lengths and distances */
  uint8_t lengths[SYMBOLS + DISTANCE_SYMBOLS];
  /* Bits to put, and above them, at CODE_BITS, how many they are. Those of lengths have their extra bits. */
  uint32_t literal_codes[LITERALS], length_codes[LONGEST + 1], distance_codes[DISTANCE_SYMBOLS], end_code;
};

gconv_status gconv_png_deflater_create(gconv_png_deflater **deflater) {
  void *memory;
  GCONV_TRY(gconv_allocate(sizeof **deflater, "a PNG compressor", &memory));
  *deflater = memory;
  return GCONV_OK;
}

void gconv_png_deflater_free(gconv_png_deflater *deflater) {
  gconv_release(deflater);
}

/* ---- Finding matches ---- */

/* Eight bytes, the first of them lowest. */
GCONV_INLINE uint64_t load(const uint8_t *bytes) {
  uint64_t value;
  memcpy(&value, bytes, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  return value;
}

/* How many bytes are equal at a and b, at most `most`. */
GCONV_INLINE size_t common_length(const uint8_t *a, const uint8_t *b, size_t most) {
  for (size_t i = 0; i < most; i += 8) {
    uint64_t different = load(a + i) ^ load(b + i);
    if (different) {
      size_t length = i + (size_t)__builtin_ctzll(different) / 8;
      return length < most ? length : most;
    }
  }
  return most;
}

/* The symbol of length l (3 to 258) is 257 + length_symbol(l), followed by *extra bits. Between powers of two there are four
 * symbols, between those of distances two; 258 has a symbol of its own. */
GCONV_INLINE unsigned length_symbol(unsigned length, unsigned *extra) {
  unsigned offset = length - SHORTEST;
  *extra = 0;
  if (offset < 8 || length == LONGEST)
    return length == LONGEST ? 28 : offset;
  unsigned log = 31 - (unsigned)__builtin_clz(offset);
  *extra = log - 2;
  return 4 * (log - 1) + (offset >> *extra) % 4;
}

GCONV_INLINE unsigned distance_symbol(unsigned back, unsigned *extra) {
  if (back < 4) {
    *extra = 0;
    return back;
  }
  unsigned log = 31 - (unsigned)__builtin_clz(back);
  *extra = log - 1;
  return 2 * log + (back >> *extra) % 2;
}

/* How far back `pixel`, which stands at `at`, was probably seen; 0 or more than the window: it was not. Remembers it. No
 * other place is looked at, because the branch that follows, which is often foreseen wrongly, would wait for that. */
GCONV_INLINE size_t look_up(gconv_png_deflater *deflater, size_t at, uint64_t pixel) {
  uint64_t hash = pixel * UINT64_C(0x9e3779b97f4a7c15), *slot = &deflater->seen[hash >> (64 - HASH_BITS)], seen = *slot;
  uint32_t entry = (uint32_t)(hash >> (32 - HASH_BITS) & 0xffff0000) | (uint16_t)at;
  uint32_t latest = (uint32_t)seen, other = (uint32_t)(seen >> 32);
  if ((latest ^ entry) >> 16 == 0) {
    *slot = (seen & ~(uint64_t)UINT32_MAX) | entry;
    return (uint16_t)(at - latest);
  }
  *slot = seen << 32 | entry;
  return (other ^ entry) >> 16 == 0 ? (uint16_t)(at - other) : 0;
}

GCONV_INLINE void add_match(gconv_png_deflater *deflater, size_t literals, size_t length, size_t distance) {
  unsigned length_extra, distance_extra;
  deflater->counts[LITERALS + 1 + length_symbol((unsigned)length, &length_extra)]++;
  deflater->distance_counts[distance_symbol((unsigned)distance - 1, &distance_extra)]++;
  deflater->extra_bits += length_extra + distance_extra;
  deflater->sequences[deflater->count++] = (sequence){(uint32_t)literals, (uint16_t)length, (uint16_t)(distance - 1)};
}

/* Cuts bytes begin .. stop - 1, and those of a match that reaches beyond, into literals and matches, and returns where they
 * end. Matches are looked for at every `step` bytes of a line; `unit`, of at least SHORTEST bytes, is what must be equal. */
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
      size_t distance = look_up(deflater, at, load(bytes + at) & mask);
      if (distance - 1 < (at < WINDOW ? at : WINDOW)) {
        size_t most = line_end - at < LONGEST ? line_end - at : LONGEST;
        size_t length = common_length(bytes + at, bytes + at - distance, most);
        if (length >= unit + step) {
          length -= length % step;
          add_match(deflater, at - literals, length, distance);
          literals = at += length;
          continue;
        }
        if (length >= unit) { /* a sum that need not be waited for, as long as this is foreseen */
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
  switch (lines->pixel) {
  case 1:
  case 2:
    return cut_body(deflater, lines, begin, stop, 2, 4);
  case 3:
    return cut_body(deflater, lines, begin, stop, 3, 3);
  case 4:
    return cut_body(deflater, lines, begin, stop, 4, 4);
  case 6:
    return cut_body(deflater, lines, begin, stop, 6, 6);
  default:
    return cut_body(deflater, lines, begin, stop, 8, 8);
  }
}

/* Counts in four tables, as a byte that comes again would wait for its own count. */
static void take_literals(gconv_png_deflater *deflater, const uint8_t *bytes, size_t size) {
  enum { TABLES = 4 };
  uint32_t tables[TABLES][LITERALS] = {{0}};
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t eight = load(bytes + i);
    for (int k = 0; k < 8; k++)
      tables[k % TABLES][eight >> 8 * k & 0xff]++;
  }
  for (; i < size; i++)
    tables[0][bytes[i]]++;
  begin_counts(deflater);
  for (int literal = 0; literal < LITERALS; literal++)
    for (int k = 0; k < TABLES; k++)
      deflater->counts[literal] += tables[k][literal];
  deflater->sequences[deflater->count++] = (sequence){.literals = (uint32_t)size};
}

/* ---- Codes ---- */

/* Makes the codes' lengths for what has been counted, and returns the bits that the block takes with them. */
static uint64_t make_lengths(gconv_png_deflater *deflater) {
  uint8_t *distance_lengths = deflater->lengths + SYMBOLS;
  uint64_t bits = deflater->extra_bits;
  gconv_huffman_lengths(deflater->counts, SYMBOLS, GCONV_HUFFMAN_LONGEST, deflater->lengths);
  gconv_huffman_lengths(deflater->distance_counts, DISTANCE_SYMBOLS, GCONV_HUFFMAN_LONGEST, distance_lengths);
  for (int i = 0; i < SYMBOLS; i++)
    bits += (uint64_t)deflater->counts[i] * deflater->lengths[i];
  for (int i = 0; i < DISTANCE_SYMBOLS; i++)
    bits += (uint64_t)deflater->distance_counts[i] * distance_lengths[i];
  return bits;
}

/* The tables that put_block() looks codes up in. */
static void make_codes(gconv_png_deflater *deflater) {
  const uint8_t *lengths = deflater->lengths, *distance_lengths = lengths + SYMBOLS;
  uint16_t codes[SYMBOLS], distance_codes[DISTANCE_SYMBOLS];
  gconv_huffman_codes(lengths, SYMBOLS, codes);
  gconv_huffman_codes(distance_lengths, DISTANCE_SYMBOLS, distance_codes);
  for (int i = 0; i < LITERALS; i++)
    deflater->literal_codes[i] = codes[i] | (uint32_t)lengths[i] << CODE_BITS;
  for (int i = 0; i < DISTANCE_SYMBOLS; i++)
    deflater->distance_codes[i] = distance_codes[i] | (uint32_t)distance_lengths[i] << CODE_BITS;
  deflater->end_code = codes[END_OF_BLOCK] | (uint32_t)lengths[END_OF_BLOCK] << CODE_BITS;
  for (unsigned length = SHORTEST; length <= LONGEST; length++) {
    unsigned extra, symbol = LITERALS + 1 + length_symbol(length, &extra), bits = lengths[symbol];
    unsigned low = (length - SHORTEST) & ((1u << extra) - 1);
    deflater->length_codes[length] = codes[symbol] | low << bits | (bits + extra) << CODE_BITS;
  }
}

/* ---- Writing bits ---- */

typedef struct bit_writer {
  uint64_t bits; /* not written yet, the first lowest */
  unsigned count;
  uint8_t *next; /* eight bytes from here may be written over */
} bit_writer;

/* At most 56 bits may be put between two drains. */
GCONV_INLINE void put(bit_writer *writer, uint64_t bits, unsigned count) {
  writer->bits |= bits << writer->count;
  writer->count += count;
}

GCONV_INLINE void drain(bit_writer *writer) {
  uint64_t bits = writer->bits;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  bits = __builtin_bswap64(bits);
#endif
  memcpy(writer->next, &bits, 8);
  writer->next += writer->count / 8;
  writer->bits >>= writer->count & ~7u;
  writer->count %= 8;
}

static void align(bit_writer *writer) {
  writer->count = (writer->count + 7) & ~7u;
  drain(writer);
}

/* ---- Blocks ---- */

/* The lengths of all codes, with runs as deflate shortens them: 16 repeats the length before 3 to 6 times, 17 and 18 stand
 * for 3 to 10 and 11 to 138 zeros. Returns how many symbols there are; the value of the extra bits is in their upper byte.
 */
static size_t shorten_lengths(const uint8_t *lengths, size_t count, uint16_t *symbols) {
  size_t made = 0;
  for (size_t i = 0, run; i < count; i += run) {
    size_t most = lengths[i] ? 7 : 138;
    for (run = 1; run < most && i + run < count && lengths[i + run] == lengths[i];)
      run++;
    if (lengths[i] && run >= 4) {
      symbols[made++] = lengths[i];
      symbols[made++] = (uint16_t)(16 | (run - 4) << 8);
    } else if (!lengths[i] && run >= 3) {
      symbols[made++] = (uint16_t)(run < 11 ? 17 | (run - 3) << 8 : 18 | (run - 11) << 8);
    } else {
      run = 1;
      symbols[made++] = lengths[i];
    }
  }
  return made;
}

/* Describes the codes (RFC 1951, 3.2.7). */
static void put_codes(const gconv_png_deflater *deflater, bit_writer *writer) {
  static const uint8_t order[HEADER_SYMBOLS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  static const uint8_t extra[HEADER_SYMBOLS] = {[16] = 2, [17] = 3, [18] = 7};
  uint16_t symbols[SYMBOLS + DISTANCE_SYMBOLS], codes[HEADER_SYMBOLS];
  uint32_t counts[HEADER_SYMBOLS] = {0};
  uint8_t lengths[HEADER_SYMBOLS];
  size_t count = shorten_lengths(deflater->lengths, SYMBOLS + DISTANCE_SYMBOLS, symbols);
  for (size_t i = 0; i < count; i++)
    counts[symbols[i] & 0xff]++;
  gconv_huffman_lengths(counts, HEADER_SYMBOLS, 7, lengths);
  gconv_huffman_codes(lengths, HEADER_SYMBOLS, codes);
  unsigned described = HEADER_SYMBOLS;
  while (described > 4 && lengths[order[described - 1]] == 0)
    described--;
  put(writer, SYMBOLS - 257, 5);
  put(writer, DISTANCE_SYMBOLS - 1, 5);
  put(writer, described - 4, 4);
  for (unsigned i = 0; i < described; i++) {
    drain(writer);
    put(writer, lengths[order[i]], 3);
  }
  for (size_t i = 0; i < count; i++) {
    unsigned symbol = symbols[i] & 0xff;
    drain(writer);
    put(writer, codes[symbol] | (uint64_t)(symbols[i] >> 8) << lengths[symbol], lengths[symbol] + (unsigned)extra[symbol]);
  }
  drain(writer);
}

GCONV_INLINE uint64_t code_of(uint32_t packed) {
  return packed & ((1u << CODE_BITS) - 1);
}

GCONV_INLINE void put_packed(bit_writer *writer, uint32_t packed) {
  put(writer, code_of(packed), packed >> CODE_BITS);
}

/* Put at once, because each put waits for the one before it. */
GCONV_INLINE void put_match(const gconv_png_deflater *deflater, unsigned length, unsigned back, bit_writer *writer) {
  unsigned extra, symbol = distance_symbol(back, &extra);
  uint32_t first = deflater->length_codes[length], second = deflater->distance_codes[symbol];
  unsigned first_count = first >> CODE_BITS, count = first_count + (second >> CODE_BITS);
  uint64_t low = back & ((1u << extra) - 1);
  put(writer, code_of(first) | code_of(second) << first_count | low << count, count + extra);
}

/* Literals and matches from `bytes` on. At most 7 + 3 * 15 or 7 + 15 + 5 + 15 + 13 bits are in the writer at a time. */
static void put_sequences(const gconv_png_deflater *deflater, const uint8_t *bytes, bit_writer *result) {
  const uint32_t *literals = deflater->literal_codes;
  bit_writer writer = *result;
  for (size_t i = 0; i < deflater->count; i++) {
    const sequence *s = &deflater->sequences[i];
    size_t left = s->literals;
    for (; left >= 3; left -= 3, bytes += 3) {
      put_packed(&writer, literals[bytes[0]]);
      put_packed(&writer, literals[bytes[1]]);
      put_packed(&writer, literals[bytes[2]]);
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

/* What a stored block takes besides its bytes: three bits, up to a byte, and the length twice. */
enum { STORED_EXTRA = 5 };

static void put_block(gconv_png_deflater *deflater, const uint8_t *bytes, size_t size, bool last, bit_writer *writer) {
  enum { DESCRIPTION_BYTES = 64 }; /* of the codes, at least */
  if (make_lengths(deflater) / 8 + DESCRIPTION_BYTES >= size) {
    put_stored(bytes, size, last, writer);
    return;
  }
  make_codes(deflater);
  put(writer, (uint64_t)last | 2 << 1, 3);
  put_codes(deflater, writer);
  put_sequences(deflater, bytes, writer);
}

size_t gconv_png_deflate_bound(size_t size) {
  enum { MOST_DESCRIPTION = 512, MARK = 16, ROOM = 16 };
  return size + (size / BLOCK_BYTES + 1) * (MOST_DESCRIPTION + 4 * STORED_EXTRA) + MARK + ROOM;
}

/* Photos repeat so little that matches, which cost literals their short codes, may make them larger: then, and where there
 * is nearly nothing to gain, a block has none, and takes half of the time. */
static bool matches_pay(gconv_png_deflater *deflater, const gconv_png_lines *lines, size_t begin) {
  size_t stop = lines->size - begin < TRIAL_BYTES ? lines->size : begin + TRIAL_BYTES;
  size_t end = cut(deflater, lines, begin, stop);
  uint64_t with = make_lengths(deflater);
  take_literals(deflater, lines->bytes + begin, end - begin);
  return with < make_lengths(deflater) / 32 * 31;
}

/* Cuts the block that begins at `begin`, and returns where it ends. */
static size_t cut_block(gconv_png_deflater *deflater, const gconv_png_lines *lines, size_t begin) {
  size_t stop = lines->size - begin < BLOCK_BYTES ? lines->size : begin + BLOCK_BYTES;
  if (!lines->literal && matches_pay(deflater, lines, begin))
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

uint64_t gconv_png_deflate_estimate(gconv_png_deflater *deflater, gconv_png_lines *lines) {
  memset(deflater->seen, 0, sizeof deflater->seen);
  size_t end = cut(deflater, lines, 0, lines->size < BLOCK_BYTES ? lines->size : BLOCK_BYTES);
  uint64_t with = make_lengths(deflater);
  take_literals(deflater, lines->bytes, end);
  uint64_t without = make_lengths(deflater);
  lines->literal = without <= with;
  return lines->literal ? without : with;
}
