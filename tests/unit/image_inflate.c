/* SPDX-License-Identifier: MIT */
/* inflate.c against zlib: the same bytes, and the same verdict on what is damaged, whatever the parts it comes and goes in.
 */
#include "image/inflate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

enum { MOST_BYTES = 400000, INPUT_BYTES = 3000, PIECE_BYTES = 50000 };

static uint32_t seed = 7;

/* 0 .. below - 1 */
static uint32_t draw(uint32_t below) {
  seed = seed * 1664525 + 1013904223;
  return (uint32_t)(((uint64_t)seed * below) >> 32);
}

typedef struct stream {
  uint8_t *bytes;
  size_t size;
} stream;

/* What came out of a stream, up to MOST_BYTES. */
typedef struct outcome {
  bool right; /* it ended as it must */
  uint8_t *bytes;
  size_t size, used; /* of the input */
} outcome;

static outcome by_zlib(const stream *in) {
  z_stream zlib = {.next_in = in->bytes, .avail_in = (uInt)in->size};
  static uint8_t bytes[MOST_BYTES];
  outcome result = {.bytes = bytes};
  assert_int_equal(inflateInit2(&zlib, -15), Z_OK);
  zlib.next_out = result.bytes;
  zlib.avail_out = MOST_BYTES;
  result.right = inflate(&zlib, Z_FINISH) == Z_STREAM_END;
  result.size = zlib.total_out;
  result.used = zlib.total_in;
  inflateEnd(&zlib);
  return result;
}

/* Moves what is left of the input to the front of a buffer that is no larger than it must be, and adds to it. */
static void feed(gconv_inflater *inflater, const stream *in, size_t *taken, uint8_t *buffer) {
  size_t left = (size_t)(inflater->end - inflater->next), more = draw(INPUT_BYTES - GCONV_INFLATE_MARGIN - 8) + 1;
  more = more < in->size - *taken ? more : in->size - *taken;
  memmove(buffer, inflater->next, left);
  memcpy(buffer + left, in->bytes + *taken, more);
  memset(buffer + left + more, (int)draw(256), GCONV_INFLATE_MARGIN);
  *taken += more;
  inflater->next = buffer;
  inflater->end = buffer + left + more;
  inflater->last = *taken == in->size;
}

/* In parts of both. */
static outcome by_gconv(const stream *in, size_t most_piece) {
  static uint8_t bytes[MOST_BYTES];
  outcome result = {.bytes = bytes};
  gconv_inflater *inflater = test_calloc(1, sizeof *inflater);
  uint8_t *input = test_malloc(INPUT_BYTES + GCONV_INFLATE_MARGIN);
  uint8_t *window = test_malloc(GCONV_INFLATE_WINDOW + most_piece + GCONV_INFLATE_BEYOND);
  uint8_t *front = window + GCONV_INFLATE_WINDOW; /* what came last lies before it */
  size_t taken = 0, past = 0;
  gconv_inflated how = GCONV_INFLATED_HUNGRY;
  inflater->next = inflater->end = input;
  feed(inflater, in, &taken, input);
  while (how == GCONV_INFLATED_HUNGRY || how == GCONV_INFLATED_FULL) {
    inflater->begin = front - past;
    inflater->out = front;
    how = gconv_inflate(inflater, front + 1 + draw((uint32_t)most_piece));
    if (how == GCONV_INFLATED_HUNGRY) {
      assert_false(inflater->last);
      feed(inflater, in, &taken, input);
    }
    size_t got = (size_t)(inflater->out - front);
    if (got > MOST_BYTES - result.size)
      break;
    memcpy(result.bytes + result.size, front, got);
    result.size += got;
    past = past + got < GCONV_INFLATE_WINDOW ? past + got : GCONV_INFLATE_WINDOW;
    memmove(front - past, inflater->out - past, past);
  }
  result.right = how == GCONV_INFLATED_ENDED;
  result.used = taken - (size_t)(inflater->end - inflater->next);
  test_free(inflater);
  test_free(input);
  test_free(window);
  return result;
}

/* True if both accept it. */
static bool agree(const stream *in) {
  outcome theirs = by_zlib(in), ours = by_gconv(in, 1 + draw(draw(4) ? 40 : PIECE_BYTES));
  assert_int_equal(ours.right, theirs.right);
  if (theirs.right) {
    assert_int_equal(ours.size, theirs.size);
    assert_int_equal(ours.used, theirs.used);
    assert_memory_equal(ours.bytes, theirs.bytes, theirs.size);
  }
  return theirs.right;
}

/* ---- Streams that zlib makes ---- */

/* Bytes of some kind: noise, few values, steep frequencies (whose codewords are long), copies near and far. */
static void fill(uint8_t *bytes, size_t size) {
  for (size_t begin = 0, end; begin < size; begin = end) {
    end = begin + 1 + draw(60000);
    end = end < size ? end : size;
    uint32_t kind = draw(6), few = 1 + draw(20), reach = 1 + draw(draw(2) ? 20 : 40000);
    for (size_t i = begin; i < end; i++) {
      uint32_t zeros = (uint32_t)__builtin_ctz(draw(1u << 31) >> 4 | 1u << 24);
      if (kind == 0)
        bytes[i] = (uint8_t)draw(256);
      else if (kind == 1)
        bytes[i] = (uint8_t)draw(few);
      else if (kind == 2)
        bytes[i] = (uint8_t)(zeros * 10 + draw(2));
      else if (kind == 3 || i < reach)
        bytes[i] = (uint8_t)few;
      else
        bytes[i] = (uint8_t)(draw(few * 4) ? bytes[i - reach] : draw(256));
    }
  }
}

static stream deflate_some(size_t size, int level, int strategy) {
  z_stream zlib = {0};
  assert_int_equal(deflateInit2(&zlib, level, Z_DEFLATED, -9 - (int)draw(7), 1 + (int)draw(9), strategy), Z_OK);
  uint8_t *bytes = test_malloc(size + 1);
  fill(bytes, size);
  stream result = {.bytes = test_malloc(2 * size + 10000)};
  zlib.next_in = bytes;
  zlib.next_out = result.bytes;
  zlib.avail_out = (uInt)(2 * size + 10000);
  for (int flushes = (int)draw(4); flushes > 0; flushes--) {
    zlib.avail_in = draw((uint32_t)(size - zlib.total_in) + 1);
    assert_in_range(deflate(&zlib, draw(2) ? Z_SYNC_FLUSH : Z_FULL_FLUSH) + 5, 0, 5); /* Z_BUF_ERROR: nothing to do */
  }
  zlib.avail_in = (uInt)(size - zlib.total_in);
  assert_int_equal(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  result.size = zlib.total_out;
  deflateEnd(&zlib);
  test_free(bytes);
  return result;
}

static void test_all_levels(void **state) {
  (void)state;
  for (int level = 0; level <= 9; level++)
    for (int strategy = 0; strategy <= Z_FIXED; strategy++)
      for (int turn = 0; turn < 2; turn++) {
        stream in = deflate_some(turn == 0 ? draw(20) : draw(MOST_BYTES), level, strategy);
        assert_true(agree(&in));
        in.size += draw(3); /* something follows: it must be left */
        assert_true(agree(&in));
        test_free(in.bytes);
      }
}

static void test_damaged(void **state) {
  (void)state;
  int accepted = 0;
  for (int turn = 0; turn < 800; turn++) {
    stream in = deflate_some(draw(draw(10) ? 300 : 100000), (int)draw(10), (int)draw(Z_FIXED + 1));
    for (int wrong = (int)draw(3); wrong >= 0; wrong--)
      in.bytes[draw(draw(2) && in.size > 60 ? 60 : (uint32_t)in.size)] ^= (uint8_t)(1 << draw(8));
    if (draw(4) == 0)
      in.size = draw((uint32_t)in.size) + 1;
    accepted += agree(&in);
    test_free(in.bytes);
  }
  assert_true(accepted > 25); /* damage that shows in the bytes only */
}

static void test_cut(void **state) {
  (void)state;
  stream in = deflate_some(3000, 6, Z_DEFAULT_STRATEGY);
  for (in.size--; in.size > 0; in.size--)
    assert_false(agree(&in));
  test_free(in.bytes);
}

/* ---- Streams that nobody would make ---- */

typedef struct bit_sink {
  stream *out;
  uint32_t bits;
} bit_sink;

static void put(bit_sink *sink, uint32_t value, uint32_t count) {
  for (uint32_t i = 0; i < count; i++, sink->bits++)
    sink->out->bytes[sink->bits / 8] |= (uint8_t)((value >> i & 1) << sink->bits % 8);
  sink->out->size = (sink->bits + 7) / 8;
}

/* Lengths of the codewords of `count` symbols, of which `used` have one: a tree whose leaves are split at random. */
static void draw_lengths(uint8_t *lengths, uint32_t count, uint32_t used) {
  uint8_t leaves[288] = {0};
  uint32_t made = 1;
  memset(lengths, 0, count);
  if (used == 1)
    leaves[0] = 1; /* half a code */
  while (made < used) {
    uint32_t leaf = draw(2) ? made - 1 : draw(made); /* often the last one, so that some become long */
    if (leaves[leaf] == 15)
      continue;
    leaves[made++] = ++leaves[leaf];
  }
  for (uint32_t i = 0; i < used; i++) {
    uint32_t symbol = draw(count);
    while (lengths[symbol] > 0)
      symbol = (symbol + 1) % count;
    lengths[symbol] = leaves[i];
  }
}

/* A block with random codes and random bits in them; `wrong`: one length is another. */
static stream make_strange(bool wrong) {
  static const uint8_t order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  uint32_t literals = 257 + draw(wrong ? 32 : 30), distances = 1 + draw(wrong ? 32 : 30);
  uint8_t lengths[288 + 32];
  draw_lengths(lengths, literals, draw(4) ? 1 + draw(literals) : 1 + draw(3));
  draw_lengths(lengths + literals, distances, draw(4) ? draw(distances + 1) : draw(distances < 3 ? distances : 3));
  if (draw(8) && lengths[256] == 0)
    for (uint32_t i = 0; i < literals && lengths[256] == 0; i++)
      if (lengths[i] > 0) {
        lengths[256] = lengths[i];
        lengths[i] = 0;
      }
  if (wrong)
    lengths[draw(literals + distances)] = (uint8_t)draw(16);
  stream result = {.bytes = test_calloc(1, 1000)};
  bit_sink sink = {.out = &result};
  put(&sink, draw(2), 1);
  put(&sink, 2, 2);
  put(&sink, literals - 257, 5);
  put(&sink, distances - 1, 5);
  put(&sink, 19 - 4, 4);
  for (int i = 0; i < 19; i++) /* 16 symbols of 4 bits: each is itself, with its bits reversed */
    put(&sink, order[i] < 16 ? 4 : 0, 3);
  for (uint32_t i = 0; i < literals + distances; i++)
    for (int bit = 3; bit >= 0; bit--)
      put(&sink, lengths[i] >> bit & 1, 1);
  for (uint32_t i = draw(600); i > 0; i--)
    put(&sink, draw(256), 8);
  return result;
}

static void test_strange(void **state) {
  (void)state;
  int accepted = 0;
  for (int turn = 0; turn < 8000; turn++) {
    stream in = make_strange(draw(4) == 0);
    accepted += agree(&in);
    test_free(in.bytes);
  }
  assert_true(accepted > 400);
}

static void test_noise(void **state) {
  (void)state;
  uint8_t bytes[300];
  for (int turn = 0; turn < 8000; turn++) {
    stream in = {bytes, 1 + draw(sizeof bytes)};
    for (size_t i = 0; i < in.size; i++)
      bytes[i] = (uint8_t)draw(256);
    agree(&in);
  }
}

/* ---- From the middle ---- */

typedef struct boundary {
  size_t bit, byte; /* of a block's head, in the input; of its first byte, in the output */
} boundary;

enum { MOST_BLOCKS = 20000 };

/* Where all blocks but the first begin. */
static size_t find_boundaries(const stream *in, uint8_t *out, boundary *found) {
  gconv_inflater *inflater = test_calloc(1, sizeof *inflater);
  *inflater = (gconv_inflater){.next = in->bytes, .end = in->bytes + in->size, .last = true, .pauses = true};
  inflater->begin = inflater->out = out;
  size_t count = 0;
  gconv_inflated how = GCONV_INFLATED_BLOCK;
  for (; how == GCONV_INFLATED_BLOCK && count < MOST_BLOCKS; count++) {
    how = gconv_inflate(inflater, out + MOST_BYTES);
    found[count] = (boundary){gconv_inflate_position(inflater, in->bytes), (size_t)(inflater->out - out)};
  }
  assert_int_equal(how, GCONV_INFLATED_ENDED);
  test_free(inflater);
  return count; /* the last is the end */
}

/* The symbols from a block on are the bytes there, with markers for what lies before it. */
static void check_symbols(const uint16_t *symbols, size_t count, const uint8_t *there, size_t byte) {
  for (size_t i = 0; i < count; i++) {
    size_t back = symbols[i] < 256 ? 0 : GCONV_INFLATE_WINDOW - (symbols[i] - 256u);
    assert_true(back <= byte);
    assert_int_equal(symbols[i] < 256 ? symbols[i] : *(there - back), there[i]);
  }
}

static void test_middle(void **state) {
  (void)state;
  static boundary blocks[MOST_BLOCKS];
  static uint8_t out[MOST_BYTES + GCONV_INFLATE_BEYOND];
  static uint16_t symbols[GCONV_INFLATE_WINDOW + MOST_BYTES + GCONV_INFLATE_BEYOND];
  gconv_inflater *inflater = test_calloc(1, sizeof *inflater);
  int found = 0;
  for (int i = 0; i < GCONV_INFLATE_WINDOW; i++)
    symbols[i] = (uint16_t)(256 + i);
  for (int turn = 0; turn < 60; turn++) {
    stream in = deflate_some(draw(MOST_BYTES), 1 + (int)draw(9), (int)draw(Z_FIXED + 1));
    in.bytes = test_realloc(in.bytes, in.size + GCONV_INFLATE_MARGIN);
    size_t count = find_boundaries(&in, out, blocks), from = draw((uint32_t)in.size), position, i = 0;
    *inflater =
        (gconv_inflater){.next = in.bytes + from, .end = in.bytes + in.size, .last = true, .pauses = draw(2), .wide = true};
    if (gconv_inflate_find(inflater, in.bytes + in.size, &position)) {
      while (i < count - 1 && blocks[i].bit < 8 * from + position)
        i++;
      assert_int_equal(blocks[i].bit, 8 * from + position); /* noise of this size does not look like a block */
      inflater->begin = (const uint8_t *)symbols;
      inflater->out = (uint8_t *)(symbols + GCONV_INFLATE_WINDOW);
      gconv_inflated how = GCONV_INFLATED_BLOCK;
      while (how == GCONV_INFLATED_BLOCK)
        how = gconv_inflate(inflater, (const uint8_t *)(symbols + GCONV_INFLATE_WINDOW + MOST_BYTES));
      assert_int_equal(how, GCONV_INFLATED_ENDED);
      size_t size = (size_t)((uint16_t *)inflater->out - symbols) - GCONV_INFLATE_WINDOW;
      assert_int_equal(blocks[i].byte + size, blocks[count - 1].byte);
      check_symbols(symbols + GCONV_INFLATE_WINDOW, size, out + blocks[i].byte, blocks[i].byte);
      found++;
    }
    test_free(in.bytes);
  }
  assert_true(found > 20);
  test_free(inflater);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_levels), cmocka_unit_test(test_damaged), cmocka_unit_test(test_cut),
      cmocka_unit_test(test_strange),    cmocka_unit_test(test_noise),   cmocka_unit_test(test_middle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
