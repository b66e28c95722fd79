/* SPDX-License-Identifier: MIT */
/*
 * Codewords are looked up in tables, by the next bits of the input. An entry of the table of literals holds as many literals
 * as there are whole codewords of them in its index, up to three: pixels that were filtered have few bits each, and what
 * takes time is waiting for one look-up after another. Bits are read 8 bytes at a time, and literals and matches are written
 * by words, beyond their ends: so the loop looks for the ends of its buffers once a turn.
 *
 * An entry's lowest 6 bits are how many bits of input it takes. Bits 6 and 7 are its number of literals, which follow from
 * bit 8 on. Where that is 0, it is a length or a distance: bits 8 to 12 have the bits of its codeword, behind which its
 * extra bits come, and the bits from 16 on what these are added to; or, with bit 31, something else.
 */
#include "image/inflate.h"
#include "base/cpu.h"

#include <string.h>

enum {
  LITERAL_BITS = GCONV_INFLATE_LITERAL_BITS,
  DISTANCE_BITS = GCONV_INFLATE_DISTANCE_BITS,
  PRECODE_BITS = 7,
  MOST_BITS = 15, /* of a codeword */
  END_OF_BLOCK = 256,
  FIRST_LENGTH = 257,
  LENGTHS = 29,
  DISTANCES = 30,
  PRECODES = 19,
  MOST_SYMBOLS = 288,
};

#define TAKES 0x3fu /* of an entry: bits that it takes */
#define COUNT 0xc0u /* number of literals */
#define ONE_LITERAL 0x40u
#define CODE_SHIFT 8
#define BASE_SHIFT 16
#define OTHER 0x80000000u
#define OTHER_LONG (OTHER | 1u << BASE_SHIFT) /* a codeword longer than the index */
#define OTHER_END (OTHER | 2u << BASE_SHIFT)  /* of the block */
#define OTHER_NONE OTHER                      /* no codeword */

#define BIG_ENDIAN_HOST (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)

/* ---- Bits ---- */

GCONV_INLINE uint64_t load_8(const uint8_t *bytes) {
  uint64_t value;
  memcpy(&value, bytes, 8);
  return BIG_ENDIAN_HOST ? __builtin_bswap64(value) : value;
}

/* Fills `bits` to 56 at least. */
#define REFILL(next, bits, held)                                                                                            \
  do {                                                                                                                      \
    (bits) |= load_8(next) << ((held)&63);                                                                                  \
    (next) += 7 - ((held) >> 3 & 7);                                                                                        \
    (held) |= 56;                                                                                                           \
  } while (0)

#define TAKE(bits, held, count)                                                                                             \
  do {                                                                                                                      \
    (bits) >>= (count)&63;                                                                                                  \
    (held) -= (count);                                                                                                      \
  } while (0)

static uint32_t take_bits(gconv_inflater *inflater, uint32_t count) {
  uint32_t value = (uint32_t)(inflater->bits & ((1u << count) - 1));
  TAKE(inflater->bits, inflater->held, count);
  return value;
}

/* Gives whole bytes back to the input. */
static void give_back(gconv_inflater *inflater) {
  inflater->held &= 63;
  inflater->next -= inflater->held >> 3;
  inflater->held &= 7;
  inflater->bits &= (1u << inflater->held) - 1;
}

/* Goes to the next whole byte. False if that is behind the end. */
static bool align(gconv_inflater *inflater) {
  give_back(inflater);
  inflater->bits = inflater->held = 0;
  return inflater->next <= inflater->end;
}

/* ---- Codes ---- */

static uint32_t entry_of_literal(uint32_t symbol, uint32_t bits) {
  static const uint16_t base[LENGTHS] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
  static const uint8_t extra[LENGTHS] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                         2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  if (symbol < END_OF_BLOCK)
    return symbol << 8 | ONE_LITERAL | bits;
  if (symbol == END_OF_BLOCK)
    return OTHER_END | bits;
  uint32_t i = symbol - FIRST_LENGTH;
  return i < LENGTHS ? (uint32_t)base[i] << BASE_SHIFT | bits << CODE_SHIFT | (bits + extra[i]) : OTHER_NONE;
}

static uint32_t entry_of_distance(uint32_t symbol, uint32_t bits) {
  if (symbol >= DISTANCES)
    return OTHER_NONE;
  uint32_t extra = symbol < 4 ? 0 : symbol / 2 - 1, base = symbol < 4 ? symbol + 1 : ((2 + symbol % 2) << extra) + 1;
  return base << BASE_SHIFT | bits << CODE_SHIFT | (bits + extra);
}

static uint32_t entry_of_precode(uint32_t symbol, uint32_t bits) {
  return symbol << BASE_SHIFT | bits;
}

typedef uint32_t entry_of(uint32_t symbol, uint32_t bits);

/* The code of symbols whose codewords have these lengths; 0: none. False if there is no such code. With `sole`, one codeword
 * of a single bit, or none, is a code, too, although some bits are no codeword then. */
static bool make_code(const uint8_t *lengths, uint32_t count, bool sole, gconv_inflate_code *result) {
  uint16_t counts[MOST_BITS + 1] = {0}, next[MOST_BITS + 1];
  for (uint32_t i = 0; i < count; i++)
    counts[lengths[i]]++;
  uint32_t word = 0, place = 0;
  for (uint32_t bits = 1; bits <= MOST_BITS; bits++) {
    word <<= 1;
    result->first[bits] = (uint16_t)word;
    result->place[bits] = next[bits] = (uint16_t)place;
    word += counts[bits];
    place += counts[bits];
    result->limit[bits] = word << (MOST_BITS - bits);
    if (word > 1u << bits)
      return false;
  }
  if (word != 1u << MOST_BITS && !(sole && place == counts[1]))
    return false;
  for (uint32_t i = 0; i < count; i++)
    if (lengths[i] > 0)
      result->sorted[next[lengths[i]]++] = (uint16_t)i;
  result->symbols = place;
  return true;
}

/* The table of all indices of `index_bits`. It grows with the codewords, which come by their lengths: whenever these become
 * longer by a bit, it is doubled. The bits of a codeword come from its highest on, so that indices have them reversed. */
static void make_table(const gconv_inflate_code *code, const uint8_t *lengths, uint32_t index_bits, entry_of *entry,
                       uint32_t *table) {
  uint32_t bits = 0, word = 0, symbols = code->symbols;
  table[0] = symbols > 0 && lengths[code->sorted[symbols - 1]] > index_bits ? OTHER_LONG : OTHER_NONE;
  for (uint32_t i = 0; i < symbols; i++) {
    uint32_t symbol = code->sorted[i], length = lengths[symbol];
    if (length > index_bits)
      break;
    for (; bits < length; bits++)
      memcpy(table + (1u << bits), table, sizeof *table << bits);
    table[word] = entry(symbol, length);
    uint32_t zeros = ~word & ((1u << bits) - 1);
    if (zeros == 0)
      break;
    uint32_t highest = 1u << (31 - __builtin_clz(zeros)); /* 1 is added to the reversed word */
    word = (word & (highest - 1)) | highest;
  }
  for (; bits < index_bits; bits++)
    memcpy(table + (1u << bits), table, sizeof *table << bits);
}

/* Whether two literals fit into an index, at least the shortest ones. */
static bool can_join(const gconv_inflate_code *code, const uint8_t *lengths) {
  for (uint32_t i = 0; i < code->symbols; i++)
    if (code->sorted[i] < END_OF_BLOCK)
      return 2 * lengths[code->sorted[i]] <= LITERAL_BITS;
  return false;
}

/* Adds the second and third literal to entries. What is added has a lower index, so it still has one. Without branches:
 * which codewords fit is hard to predict. */
static void join_literals(uint32_t *table) {
  for (uint32_t i = 1u << LITERAL_BITS; i-- > 0;) {
    uint32_t entry = table[i];
    for (uint32_t shift = 8; shift <= 16; shift += 8) {
      uint32_t more = table[i >> (entry & TAKES)], joined = (more & ~0xffu) << shift | (more & 0xff);
      bool fits = ((entry & COUNT) != 0) & ((more & COUNT) != 0) & ((entry & TAKES) + (more & TAKES) <= LITERAL_BITS);
      entry += fits ? joined : 0;
    }
    table[i] = entry;
  }
}

/* The entry of the codeword at the lowest bits, where that is longer than the index of the table. */
static uint32_t find_long(const gconv_inflate_code *code, uint32_t index_bits, entry_of *entry, uint64_t bits) {
  uint32_t word = 0;
  for (int i = 0; i < MOST_BITS; i++)
    word = word << 1 | (bits >> i & 1);
  for (uint32_t length = index_bits + 1; length <= MOST_BITS; length++)
    if (word < code->limit[length])
      return entry(code->sorted[code->place[length] + (word >> (MOST_BITS - length)) - code->first[length]], length);
  return OTHER_NONE;
}

static bool use_codes(gconv_inflater *inflater, const uint8_t *lengths, uint32_t literals, uint32_t distances) {
  if (!make_code(lengths, literals, true, &inflater->literal_code) ||
      !make_code(lengths + literals, distances, true, &inflater->distance_code))
    return false;
  make_table(&inflater->literal_code, lengths, LITERAL_BITS, entry_of_literal, inflater->literals);
  make_table(&inflater->distance_code, lengths + literals, DISTANCE_BITS, entry_of_distance, inflater->distances);
  if (can_join(&inflater->literal_code, lengths))
    join_literals(inflater->literals);
  inflater->in_coded = true;
  return true;
}

/* ---- Heads of blocks ---- */

static bool begin_stored(gconv_inflater *inflater) {
  if (!align(inflater) || inflater->end - inflater->next < 4)
    return false;
  uint32_t both = (uint32_t)load_8(inflater->next);
  inflater->next += 4;
  inflater->stored = both & 0xffff;
  return (both >> 16) == (~both & 0xffff);
}

static bool begin_fixed(gconv_inflater *inflater) {
  uint8_t lengths[MOST_SYMBOLS + 32];
  if (inflater->fixed) {
    inflater->in_coded = true;
    return true;
  }
  inflater->fixed = true;
  for (int i = 0; i < MOST_SYMBOLS; i++)
    lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  memset(lengths + MOST_SYMBOLS, 5, 32);
  return use_codes(inflater, lengths, MOST_SYMBOLS, 32);
}

/* The lengths of codewords, in a code of their own, with symbols that repeat the last length, or 0. */
static bool read_lengths(gconv_inflater *inflater, uint32_t count, const uint32_t *precode, uint8_t *lengths) {
  for (uint32_t i = 0; i < count;) {
    REFILL(inflater->next, inflater->bits, inflater->held);
    uint32_t entry = precode[inflater->bits & ((1 << PRECODE_BITS) - 1)], symbol = entry >> BASE_SHIFT;
    TAKE(inflater->bits, inflater->held, entry & TAKES);
    if (symbol < 16) {
      lengths[i++] = (uint8_t)symbol;
      continue;
    }
    if (symbol == 16 && i == 0)
      return false;
    uint8_t repeated = symbol == 16 ? lengths[i - 1] : 0;
    uint32_t times = symbol == 16   ? 3 + take_bits(inflater, 2)
                     : symbol == 17 ? 3 + take_bits(inflater, 3)
                                    : 11 + take_bits(inflater, 7);
    if (times > count - i)
      return false;
    memset(lengths + i, repeated, times);
    i += times;
  }
  return true;
}

static bool begin_dynamic(gconv_inflater *inflater) {
  static const uint8_t order[PRECODES] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  uint8_t lengths[MOST_SYMBOLS + 32], precode_lengths[PRECODES] = {0};
  uint32_t precode_table[1 << PRECODE_BITS];
  gconv_inflate_code precode;
  inflater->fixed = false;
  uint32_t literals = take_bits(inflater, 5) + 257, distances = take_bits(inflater, 5) + 1,
           count = take_bits(inflater, 4) + 4;
  if (literals > FIRST_LENGTH + LENGTHS || distances > DISTANCES)
    return false;
  for (uint32_t i = 0; i < count; i++) {
    REFILL(inflater->next, inflater->bits, inflater->held);
    precode_lengths[order[i]] = (uint8_t)take_bits(inflater, 3);
  }
  if (!make_code(precode_lengths, PRECODES, false, &precode))
    return false;
  make_table(&precode, precode_lengths, PRECODE_BITS, entry_of_precode, precode_table);
  return read_lengths(inflater, literals + distances, precode_table, lengths) && lengths[END_OF_BLOCK] > 0 &&
         use_codes(inflater, lengths, literals, distances);
}

static bool begin_block(gconv_inflater *inflater) {
  REFILL(inflater->next, inflater->bits, inflater->held);
  inflater->paused = false;
  inflater->final = take_bits(inflater, 1);
  uint32_t kind = take_bits(inflater, 2);
  return kind == 0 ? begin_stored(inflater) : kind == 1 ? begin_fixed(inflater) : kind == 2 && begin_dynamic(inflater);
}

/* ---- Blocks ---- */

static bool copy_stored(gconv_inflater *inflater, const uint8_t *limit) {
  size_t size = inflater->stored, given = (size_t)(inflater->end - inflater->next), room = (size_t)(limit - inflater->out);
  size = size < given ? size : given;
  room = inflater->wide ? room / 2 : room;
  size = size < room ? size : room;
  for (size_t i = 0; i < size && inflater->wide; i++) {
    uint16_t symbol = inflater->next[i];
    memcpy(inflater->out + 2 * i, &symbol, 2);
  }
  if (!inflater->wide)
    memcpy(inflater->out, inflater->next, size);
  inflater->next += size;
  inflater->out += inflater->wide ? 2 * size : size;
  inflater->stored -= (uint32_t)size;
  return size > 0;
}

/* Copies `length` bytes, and up to 31 more, from `distance` before. */
GCONV_INLINE void copy_match(uint8_t *out, size_t distance, size_t length) {
  static const uint64_t repeat[8] = {0,
                                     0x0101010101010101,
                                     0x0001000100010001,
                                     0x0001000001000001,
                                     0x0000000100000001,
                                     0x0000010000000001,
                                     0x0001000000000001,
                                     0x0100000000000001};
  static const uint8_t step[8] = {0, 8, 8, 6, 8, 5, 6, 7};
  const uint8_t *from = out - distance, *end = out + length;
  if (distance >= 16) {
    memcpy(out, from, 16);
    memcpy(out + 16, from + 16, 16); /* what the first wrote, if it is nearer than 32 */
    for (out += 32, from += 32; out < end; out += 16, from += 16)
      memcpy(out, from, 16);
  } else if (distance >= 8) {
    for (; out < end; out += 8, from += 8)
      memcpy(out, from, 8);
  } else {
    uint64_t word = (load_8(from) & ((UINT64_C(1) << 8 * distance) - 1)) * repeat[distance];
    if (BIG_ENDIAN_HOST)
      word = __builtin_bswap64(word);
    for (; out < end; out += step[distance])
      memcpy(out, &word, 8);
  }
}

/* Base and extra bits. */
GCONV_INLINE uint32_t value_of(uint32_t entry, uint64_t bits) {
  return (entry >> BASE_SHIFT) + (uint32_t)((bits & ((UINT64_C(1) << (entry & TAKES)) - 1)) >> (entry >> CODE_SHIFT & 31));
}

/* Writes up to three literals of `size` bytes, and 0 behind them. */
GCONV_INLINE void write_literals(uint8_t *out, uint32_t bytes, size_t size) {
  if (size == 1) {
    bytes = BIG_ENDIAN_HOST ? __builtin_bswap32(bytes) : bytes;
    memcpy(out, &bytes, 4);
  } else if (BIG_ENDIAN_HOST) {
    memcpy(out, (uint16_t[]){(uint8_t)bytes, (uint8_t)(bytes >> 8), (uint16_t)(bytes >> 16)}, 6);
  } else {
    uint64_t symbols = (bytes & 0xff) | (bytes & 0xff00) << 8 | (uint64_t)(bytes & 0xff0000) << 16;
    memcpy(out, &symbols, 8);
  }
}

#define PUT_LITERALS                                                                                                        \
  do {                                                                                                                      \
    write_literals(out, entry >> 8, size);                                                                                  \
    out += (entry >> 6 & 3) * size;                                                                                         \
    TAKE(bits, held, entry);                                                                                                \
    entry = literals[bits & ((1u << LITERAL_BITS) - 1)];                                                                    \
  } while (0)

/* Decodes to the end of the block, or of a buffer. What waits for the input comes late: the next entry is looked up before
 * the bits are filled up, which are enough for it. 56 bits are enough for two entries of literals, a length, and the look at
 * an entry; or for three and a look, or a distance and a look. */
GCONV_INLINE bool decode_body(gconv_inflater *inflater, const uint8_t *limit, const size_t size) {
  const uint32_t *literals = inflater->literals, *distances = inflater->distances;
  const uint8_t *next = inflater->next, *enough = inflater->last ? inflater->end + 8 : inflater->end - GCONV_INFLATE_MARGIN;
  uint8_t *out = inflater->out;
  uint64_t bits = inflater->bits;
  uint32_t held = inflater->held;
  bool right = true;
  REFILL(next, bits, held);
  uint32_t entry = literals[bits & ((1u << LITERAL_BITS) - 1)];
  while (out < limit && next < enough) {
    REFILL(next, bits, held);
    if (entry & COUNT) {
      PUT_LITERALS;
      if (entry & COUNT) {
        PUT_LITERALS;
        if (entry & COUNT) {
          PUT_LITERALS;
          continue;
        }
      }
    }
    if (entry == OTHER_LONG) {
      entry = find_long(&inflater->literal_code, LITERAL_BITS, entry_of_literal, bits);
      if (entry & COUNT) {
        PUT_LITERALS;
        continue;
      }
    }
    if (entry & OTHER) {
      right = (entry & ~TAKES) == OTHER_END;
      TAKE(bits, held, entry);
      inflater->in_coded = false;
      break;
    }
    uint32_t length = value_of(entry, bits);
    TAKE(bits, held, entry);
    entry = distances[bits & ((1u << DISTANCE_BITS) - 1)];
    REFILL(next, bits, held);
    if (entry == OTHER_LONG)
      entry = find_long(&inflater->distance_code, DISTANCE_BITS, entry_of_distance, bits);
    uint32_t distance = value_of(entry, bits);
    TAKE(bits, held, entry);
    if ((entry & OTHER) || distance * size > (size_t)(out - inflater->begin)) {
      right = false;
      break;
    }
    entry = literals[bits & ((1u << LITERAL_BITS) - 1)];
    copy_match(out, distance * size, length * size);
    out += length * size;
  }
  inflater->next = next;
  inflater->out = out;
  inflater->bits = bits;
  inflater->held = held;
  return right && next - ((held & 63) >> 3) <= inflater->end;
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("bmi,bmi2"))) static bool decode_bmi2(gconv_inflater *inflater, const uint8_t *limit) {
  return inflater->wide ? decode_body(inflater, limit, 2) : decode_body(inflater, limit, 1);
}

static bool decode(gconv_inflater *inflater, const uint8_t *limit) {
  if (gconv_cpu_isa() >= GCONV_ISA_AVX2 && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"))
    return decode_bmi2(inflater, limit);
  return inflater->wide ? decode_body(inflater, limit, 2) : decode_body(inflater, limit, 1);
}
#else
static bool decode(gconv_inflater *inflater, const uint8_t *limit) {
  return inflater->wide ? decode_body(inflater, limit, 2) : decode_body(inflater, limit, 1);
}
#endif

static gconv_inflated pause(gconv_inflater *inflater) {
  give_back(inflater);
  inflater->paused = true;
  return GCONV_INFLATED_BLOCK;
}

gconv_inflated gconv_inflate(gconv_inflater *inflater, const uint8_t *limit) {
  for (;;) {
    if (inflater->out >= limit)
      return GCONV_INFLATED_FULL;
    if (!inflater->last && inflater->end - inflater->next <= GCONV_INFLATE_MARGIN) {
      give_back(inflater);
      return GCONV_INFLATED_HUNGRY;
    }
    bool right;
    if (inflater->in_coded)
      right = decode(inflater, limit);
    else if (inflater->stored > 0)
      right = copy_stored(inflater, limit);
    else if (inflater->final)
      return align(inflater) ? GCONV_INFLATED_ENDED : GCONV_INFLATED_WRONG;
    else if (inflater->pauses && !inflater->paused)
      return pause(inflater);
    else
      right = begin_block(inflater);
    if (!right)
      return GCONV_INFLATED_WRONG;
  }
}

size_t gconv_inflate_position(gconv_inflater *inflater, const uint8_t *input) {
  give_back(inflater);
  return (size_t)(inflater->next - input) * 8 - inflater->held;
}

/* ---- Finding a block ---- */

/* Bits of `word` at which a block may begin that has codes of its own and is not the last: 3 bits that say so, and 5 each
 * for the numbers of literals and distances, of which 30 and 31 are none. All but the last 13 are looked at. */
GCONV_INLINE uint64_t possible_heads(uint64_t word) {
  uint64_t four = word >> 1 & word & word >> 2 & word >> 3; /* that many ones */
  return ~word & ~(word >> 1) & word >> 2 & ~(four >> 4) & ~(four >> 9);
}

enum { THREE_LENGTHS = 1 << 9 };

/* Counts, for the code for lengths, how much of all words of PRECODE_BITS three codewords of these lengths take. */
static void count_words(uint8_t words[THREE_LENGTHS]) {
  for (uint32_t i = 0; i < THREE_LENGTHS; i++) {
    words[i] = 0;
    for (uint32_t bits = i, j = 0; j < 3; j++, bits >>= 3)
      words[i] = (uint8_t)(words[i] + ((1u << PRECODE_BITS) >> (bits & 7)) % (1u << PRECODE_BITS));
  }
}

/* Whether a block's head, of which the first 13 bits are right, goes on with a code for lengths. */
GCONV_INLINE bool has_precode(const uint8_t *head, uint32_t shift, const uint8_t words[THREE_LENGTHS]) {
  uint32_t count = (load_8(head) >> shift >> 13 & 15) + 4, all = 0;
  uint64_t bits = load_8(head + (shift + 17) / 8) >> (shift + 17) % 8 & ((UINT64_C(1) << 3 * count) - 1);
  for (int i = 0; i < 7; i++, bits >>= 9)
    all += words[bits % THREE_LENGTHS];
  return all == 1u << PRECODE_BITS;
}

bool gconv_inflate_find(gconv_inflater *inflater, const uint8_t *until, size_t *position) {
  const uint8_t *begin = inflater->next;
  uint8_t words[THREE_LENGTHS];
  count_words(words);
  for (const uint8_t *next = begin; next < until; next += 6) /* 48 bits, of 51 that can be looked at */
    for (uint64_t heads = possible_heads(load_8(next)) & 0xffffffffffff; heads; heads &= heads - 1) {
      uint32_t shift = (uint32_t)__builtin_ctzll(heads);
      const uint8_t *head = next + shift / 8;
      if (!has_precode(head, shift % 8, words))
        continue;
      inflater->next = head + 1;
      inflater->bits = *head >> shift % 8;
      inflater->held = 8 - shift % 8;
      *position = (size_t)(next - begin) * 8 + shift;
      if (begin_block(inflater))
        return true;
    }
  return false;
}
