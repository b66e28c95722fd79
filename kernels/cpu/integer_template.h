/* SPDX-License-Identifier: MIT */
/* The loops of integer.c for one kind of vector (each_isa.h). NAME(words) are the sums of NAME(WIDTH) samples. */

#if defined(__x86_64__) && defined(__GNUC__) && LANES >= 8

#if LANES == 16
#define BYTES __m512i
#define OF(operation) _mm512_##operation
#define LOAD_BYTES(p) _mm512_loadu_si512(p)
#define STORE_BYTES(p, v) _mm512_storeu_si512(p, v)
#define COUNT_OF(n) ((unsigned)(n))
#define EACH_QUARTER(v) _mm512_broadcast_i32x4(v)
/* FIRST_WORDS() and LAST_WORDS() bring halves of quarters into the order of the samples. */
#define FIRST_WORDS(low, high) _mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high)
#define LAST_WORDS(low, high) _mm512_permutex2var_epi64(low, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), high)
#define OR_BYTES(a, b) _mm512_or_si512(a, b)
#define AND_BYTES(a, b) _mm512_and_si512(a, b)
#define XOR_BYTES(a, b) _mm512_xor_si512(a, b)
#else
#define BYTES __m256i
#define OF(operation) _mm256_##operation
#define LOAD_BYTES(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE_BYTES(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define COUNT_OF(n) ((int)(n))
#define EACH_QUARTER(v) _mm256_broadcastsi128_si256(v)
#define FIRST_WORDS(low, high) _mm256_permute2x128_si256(low, high, 0x20)
#define LAST_WORDS(low, high) _mm256_permute2x128_si256(low, high, 0x31)
#define OR_BYTES(a, b) _mm256_or_si256(a, b)
#define AND_BYTES(a, b) _mm256_and_si256(a, b)
#define XOR_BYTES(a, b) _mm256_xor_si256(a, b)
#endif

/* With AVX2, registers suffice for one vector of bytes at a time. */
enum { NAME(BYTES_OF) = 4 * LANES, NAME(VECTORS_OF) = LANES / 8, NAME(WIDTH) = NAME(VECTORS_OF) * NAME(BYTES_OF) };

/* The sums at even places are words[2 * v], those at odd places words[2 * v + 1]. */
typedef BYTES NAME(words)[2 * NAME(VECTORS_OF)];

/* Sets words to `begin` and the products of the units. */
GCONV_INLINE TARGET void NAME(add)(const integer_sum *s, const size_t count, uint16_t begin, size_t x, BYTES *words) {
  UNROLL for (int i = 0; i < 2 * NAME(VECTORS_OF); i++) words[i] = OF(set1_epi16)((short)begin);
  UNROLL_BY_COUNT for (size_t t = 0; t < count; t++) {
    const BYTES even = OF(set1_epi16)(s->taps[t].even), odd = OF(set1_epi16)(s->taps[t].odd);
    UNROLL for (int v = 0; v < NAME(VECTORS_OF); v++) {
      BYTES bytes = LOAD_BYTES(s->sources[t] + x + v * NAME(BYTES_OF));
      KEEP(bytes); /* else compilers would load them for each of the two sums */
      words[2 * v] = OF(add_epi16)(words[2 * v], OF(maddubs_epi16)(bytes, even));
      words[2 * v + 1] = OF(add_epi16)(words[2 * v + 1], OF(maddubs_epi16)(bytes, odd));
      KEEP(words[2 * v]); /* else compilers add in another order, for which registers do not suffice */
      KEEP(words[2 * v + 1]);
    }
  }
}

/* Does what NAME(add) does, for rows of sums that NAME(keep_words) wrote. */
GCONV_INLINE TARGET void NAME(add_down)(const integer_sum *s, const size_t count, size_t x, BYTES *words) {
  UNROLL for (int i = 0; i < 2 * NAME(VECTORS_OF); i++) words[i] = OF(set1_epi16)((short)s->begin);
  UNROLL_BY_COUNT for (size_t t = 0; t < count; t++) {
    const BYTES tap = OF(set1_epi16)(s->taps[t].even);
    const uint8_t *from = s->sources[t] + x * sizeof(uint16_t);
    UNROLL for (int i = 0; i < 2 * NAME(VECTORS_OF); i++) {
      words[i] = OF(add_epi16)(words[i], OF(mullo_epi16)(LOAD_BYTES(from + i * NAME(BYTES_OF)), tap));
      KEEP(words[i]);
    }
  }
}

/* Sets words to the sums of three rows, of which the middle one counts `middle` times. */
GCONV_INLINE TARGET void NAME(add_around)(const integer_sum *s, const BYTES *above, const BYTES *at, const BYTES *below,
                                          BYTES *words) {
  const BYTES begin = OF(set1_epi16)((short)s->begin), middle = OF(set1_epi16)((short)s->middle);
  UNROLL for (int i = 0; i < 2 * NAME(VECTORS_OF); i++) {
    if (s->middle == 2) /* each sum of neighbours serves two rows */
      words[i] = OF(add_epi16)(OF(add_epi16)(above[i], at[i]), OF(add_epi16)(at[i], below[i]));
    else
      words[i] = OF(add_epi16)(OF(add_epi16)(above[i], below[i]), OF(mullo_epi16)(at[i], middle));
    words[i] = OF(add_epi16)(words[i], begin);
  }
}

GCONV_INLINE TARGET void NAME(keep_words)(const BYTES *words, uint8_t *to) {
  UNROLL for (int i = 0; i < 2 * NAME(VECTORS_OF); i++) STORE_BYTES(to + i * NAME(BYTES_OF), words[i]);
}

/* Makes 16 bits of the range "wrap" from sums that are `low` too large. */
GCONV_INLINE TARGET BYTES NAME(wrapped)(const integer_sum *s, BYTES sum) {
  sum = OF(sub_epi16)(sum, OF(set1_epi16)((short)s->low));
  if (s->factor)
    sum = OF(srli_epi16)(OF(mulhi_epu16)(sum, OF(set1_epi16)((short)s->factor)), COUNT_OF(s->shift));
  return sum;
}

/* Divides by 2^shift, and rounds to nearest even: adds half a level minus 1, and the lowest bit of the level. */
GCONV_INLINE TARGET BYTES NAME(rounded)(const integer_sum *s, BYTES level) {
  if (s->shift == 0)
    return level;
  BYTES odd = AND_BYTES(OF(srli_epi16)(level, COUNT_OF(s->shift)), OF(set1_epi16)(1));
  BYTES half = OF(set1_epi16)((short)((1 << (s->shift - 1)) - 1));
  return OF(srli_epi16)(OF(adds_epu16)(level, OF(add_epi16)(odd, half)), COUNT_OF(s->shift));
}

/* Makes int16 from sums that are `low` too large. Without a shift, inverting the highest bit of both numbers makes
 * them signed, and their difference saturates. Else the parts above and below 0, both unsigned, are rounded separately. */
GCONV_INLINE TARGET BYTES NAME(int16)(const integer_sum *s, BYTES sum) {
  const BYTES low = OF(set1_epi16)((short)s->low), most = OF(set1_epi16)(INT16_MAX), sign = OF(set1_epi16)(INT16_MIN);
  if (s->shift == 0 && !s->absolute)
    return OF(subs_epi16)(XOR_BYTES(sum, sign), XOR_BYTES(low, sign));
  BYTES above = OF(subs_epu16)(sum, low), below = OF(subs_epu16)(low, sum);
  if (s->absolute)
    return OF(min_epu16)(NAME(rounded)(s, OR_BYTES(above, below)), most);
  return OF(sub_epi16)(OF(min_epu16)(NAME(rounded)(s, above), most), OF(min_epu16)(NAME(rounded)(s, below), sign));
}

/* Makes levels of 16 bits from sums that are `low` too large. Differences saturate. Sums that are divided by 2^shift start
 * with half a level minus 1; adding the lowest bit of their level rounds them to nearest even, wherever that matters.
 * The quotient has a 0 as its highest bit, so that it saturates at 255 when it becomes a byte. */
GCONV_INLINE TARGET BYTES NAME(level)(const integer_sum *s, BYTES sum) {
  const BYTES low = OF(set1_epi16)((short)s->low);
  if (s->wrap)
    return AND_BYTES(NAME(wrapped)(s, sum), OF(set1_epi16)(255));
  BYTES level = s->low == 0 ? sum : OF(subs_epu16)(sum, low);
  if (s->factor) {
    level = OF(mulhi_epu16)(OF(add_epi16)(level, OF(set1_epi16)((short)s->half)), OF(set1_epi16)((short)s->factor));
    return OF(min_epu16)(OF(srli_epi16)(level, COUNT_OF(s->shift)), OF(set1_epi16)(255));
  }
  if (s->absolute)
    return OF(min_epu16)(NAME(rounded)(s, OR_BYTES(level, OF(subs_epu16)(low, sum))), OF(set1_epi16)(255));
  if (s->shift == 0)
    return OF(min_epu16)(level, OF(set1_epi16)(255));
  BYTES odd = AND_BYTES(OF(srli_epi16)(level, COUNT_OF(s->shift)), OF(set1_epi16)(1));
  return OF(srli_epi16)(OF(add_epi16)(level, odd), COUNT_OF(s->shift));
}

GCONV_INLINE TARGET void NAME(put_levels)(const integer_sum *s, const BYTES *words, uint8_t *to) {
  const BYTES order = EACH_QUARTER(_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
  UNROLL for (int v = 0; v < NAME(VECTORS_OF); v++) {
    const BYTES levels = OF(packus_epi16)(NAME(level)(s, words[2 * v]), NAME(level)(s, words[2 * v + 1]));
    STORE_BYTES(to + v * NAME(BYTES_OF), OF(shuffle_epi8)(levels, order));
  }
}

GCONV_INLINE TARGET void NAME(finish_words)(const integer_sum *s, BYTES *words) {
  UNROLL for (int i = 0; i < 2 * NAME(VECTORS_OF); i++) words[i] =
      s->wrap ? NAME(wrapped)(s, words[i]) : NAME(int16)(s, words[i]);
}

GCONV_INLINE TARGET void NAME(put_words)(const BYTES *words, uint16_t *to) {
  UNROLL for (int v = 0; v < NAME(VECTORS_OF); v++) {
    const BYTES low = OF(unpacklo_epi16)(words[2 * v], words[2 * v + 1]);
    const BYTES high = OF(unpackhi_epi16)(words[2 * v], words[2 * v + 1]);
    STORE_BYTES(to + v * NAME(BYTES_OF), FIRST_WORDS(low, high));
    STORE_BYTES(to + v * NAME(BYTES_OF) + NAME(BYTES_OF) / 2, LAST_WORDS(low, high));
  }
}

#undef BYTES
#undef OF
#undef LOAD_BYTES
#undef STORE_BYTES
#undef COUNT_OF
#undef EACH_QUARTER
#undef FIRST_WORDS
#undef LAST_WORDS
#undef OR_BYTES
#undef AND_BYTES
#undef XOR_BYTES

#else /* arithmetic of 16 bits, which compilers turn into vectors of any kind */

enum { NAME(WIDTH) = 64 };
typedef uint16_t NAME(words)[NAME(WIDTH)];

GCONV_INLINE TARGET void NAME(add)(const integer_sum *s, const size_t count, uint16_t begin, size_t x, uint16_t *words) {
  for (int i = 0; i < NAME(WIDTH); i++)
    words[i] = begin;
  for (size_t t = 0; t < count; t += 2) { /* two units at a time: the words are loaded and stored less often */
    const int16_t a = s->taps[t].even, b = t + 1 < count ? s->taps[t + 1].even : 0;
    const uint16_t a0 = (uint16_t)(int8_t)(a & 255), a1 = (uint16_t)(a >> 8), b0 = (uint16_t)(int8_t)(b & 255),
                   b1 = (uint16_t)(b >> 8);
    const uint8_t *from = s->sources[t] + x, *next = s->sources[t + 1 < count ? t + 1 : t] + x;
    if (a1 == 0 && b1 == 0)
      for (int i = 0; i < NAME(WIDTH); i++)
        words[i] = (uint16_t)(words[i] + a0 * from[i] + b0 * next[i]);
    else
      for (int i = 0; i < NAME(WIDTH); i++)
        words[i] = (uint16_t)(words[i] + a0 * from[i] + a1 * from[i + 1] + b0 * next[i] + b1 * next[i + 1]);
  }
}

GCONV_INLINE TARGET void NAME(add_down)(const integer_sum *s, const size_t count, size_t x, uint16_t *words) {
  for (int i = 0; i < NAME(WIDTH); i++)
    words[i] = s->begin;
  for (size_t t = 0; t < count; t++) {
    const uint16_t tap = (uint16_t)s->taps[t].even, *from = (const uint16_t *)(const void *)s->sources[t] + x;
    for (int i = 0; i < NAME(WIDTH); i++)
      words[i] = (uint16_t)(words[i] + (uint32_t)tap * from[i]);
  }
}

GCONV_INLINE TARGET void NAME(add_around)(const integer_sum *s, const uint16_t *above, const uint16_t *at,
                                          const uint16_t *below, uint16_t *words) {
  for (int i = 0; i < NAME(WIDTH); i++)
    words[i] = (uint16_t)(s->begin + above[i] + below[i] + (uint32_t)s->middle * at[i]);
}

GCONV_INLINE TARGET void NAME(keep_words)(const uint16_t *words, uint8_t *to) {
  memcpy(to, words, NAME(WIDTH) * sizeof *words);
}

GCONV_INLINE TARGET void NAME(wrap_words)(const integer_sum *s, uint16_t *words) {
  for (int i = 0; i < NAME(WIDTH); i++) {
    words[i] = (uint16_t)(words[i] - s->low);
    if (s->factor)
      words[i] = (uint16_t)((uint32_t)words[i] * s->factor >> 16 >> s->shift);
  }
}

/* Divides |sum| by 2^shift, and rounds to nearest even. */
GCONV_INLINE TARGET int NAME(rounded)(const integer_sum *s, int level) {
  return s->shift == 0 ? level : (level + (1 << (s->shift - 1)) - 1 + (level >> s->shift & 1)) >> s->shift;
}

GCONV_INLINE TARGET void NAME(finish_words)(const integer_sum *s, uint16_t *words) {
  if (s->wrap) {
    NAME(wrap_words)(s, words);
    return;
  }
  for (int i = 0; i < NAME(WIDTH); i++) {
    const int sum = words[i] - s->low, level = NAME(rounded)(s, sum < 0 ? -sum : sum);
    const int with_sign = sum < 0 && !s->absolute ? -level : level;
    words[i] = (uint16_t)(with_sign > INT16_MAX ? INT16_MAX : with_sign < INT16_MIN ? INT16_MIN : with_sign);
  }
}

GCONV_INLINE TARGET void NAME(put_levels)(const integer_sum *s, uint16_t *words, uint8_t *to) {
  if (s->wrap) {
    NAME(wrap_words)(s, words);
    for (int i = 0; i < NAME(WIDTH); i++)
      to[i] = (uint8_t)words[i];
    return;
  }
  for (int i = 0; i < NAME(WIDTH); i++) {
    int level = words[i] - s->begin;
    level = level < 0 ? s->absolute ? -level : 0 : level;
    if (s->factor)
      level = (int)(((uint32_t)level + s->half) * s->factor >> 16 >> s->shift);
    else
      level = NAME(rounded)(s, level);
    to[i] = (uint8_t)(level < 255 ? level : 255);
  }
}

GCONV_INLINE TARGET void NAME(put_words)(const uint16_t *words, uint16_t *to) {
  memcpy(to, words, NAME(WIDTH) * sizeof *to);
}

#endif

/* Stores words x .. as what `kind` says, of a row that has `samples`. */
GCONV_INLINE TARGET void NAME(store)(const integer_sum *s, const integer_kind kind, NAME(words) words, size_t x,
                                     size_t samples, void *row) {
  const size_t count = samples - x < NAME(WIDTH) ? samples - x : NAME(WIDTH);
  const bool whole = count == NAME(WIDTH);
  if (kind == AS_LEVELS) {
    uint8_t rest[NAME(WIDTH)], *to = (uint8_t *)row + x;
    NAME(put_levels)(s, words, whole ? to : rest);
    if (!whole)
      memcpy(to, rest, count);
    return;
  }
  uint16_t all[NAME(WIDTH)], *to = (uint16_t *)row + x;
  if (kind == AS_WORDS)
    NAME(finish_words)(s, words);
  NAME(put_words)(words, whole && kind == AS_WORDS ? to : all);
  if (kind == AS_FLOATS)
    for (size_t i = 0; i < count; i++)
      ((float *)row)[x + i] = (float)((int32_t)all[i] - (int32_t)s->begin) * s->unit;
  else if (!whole)
    memcpy(to, all, count * sizeof *to);
}

/* Makes `samples` results from sample `first` on. `down` and `count` are s->down and s->count, as constants where that is
 * possible (BY_COUNT). */
GCONV_INLINE TARGET void NAME(make_of)(const integer_sum *sum, const bool down, const size_t count, const integer_kind kind,
                                       size_t first, size_t samples, void *const *rows) {
  integer_few few;
  const integer_sum copy = copy_of(sum, count, &few), *s = &copy;
  NAME(words) words;
  for (size_t x = 0; x < samples; x += NAME(WIDTH)) {
    if (down)
      NAME(add_down)(s, count, first + x, words);
    else
      NAME(add)(s, count, s->begin, first + x, words);
    if (kind == AS_ROW)
      NAME(keep_words)(words, (uint8_t *)rows[0] + x * sizeof(uint16_t));
    else
      NAME(store)(s, kind, words, x, samples, rows[0]);
  }
}

/* Makes SHARED rows of results, which share sums along rows. `shifts` is -1, or sums become levels by rounding: after a
 * shift unless it is 0; if it is 2, they are those of a binomial. */
GCONV_INLINE TARGET void NAME(make_shared_of)(const integer_sum *sum, const size_t count, const integer_kind kind,
                                              const int shifts, size_t first, size_t samples, void *const *rows) {
  integer_few few;
  integer_sum copy = copy_of(sum, count, &few), *s = &copy;
  if (shifts >= 0) { /* so that the compiler leaves out what else may be */
    copy.wrap = copy.absolute = false;
    copy.factor = 0;
    copy.shift = shifts == 0 ? 0 : copy.shift > 0 ? copy.shift : 1;
    copy.low = shifts == 2 ? 0 : copy.low;
    copy.middle = shifts == 2 ? 2 : copy.middle;
  }
  for (size_t x = 0; x < samples; x += NAME(WIDTH)) {
    NAME(words) along[SHARED + 2], words;
    UNROLL for (int r = 0; r < SHARED + 2; r++) {
      NAME(add)(s, count, 0, first + x + s->distance[r], along[r]);
      if (r < 2)
        continue;
      NAME(add_around)(s, along[r - 2], along[r - 1], along[r], words);
      NAME(store)(s, kind, words, x, samples, rows[r - 2]);
    }
  }
}

static TARGET void NAME(make_shared)(const integer_sum *sum, integer_kind kind, size_t first, size_t samples,
                                     void *const *rows) {
#define SHARED_BY_COUNT(kind, shifts)                                                                                       \
  (sum->count == 1   ? NAME(make_shared_of)(sum, 1, kind, shifts, first, samples, rows)                                     \
   : sum->count == 2 ? NAME(make_shared_of)(sum, 2, kind, shifts, first, samples, rows)                                     \
                     : NAME(make_shared_of)(sum, 3, kind, shifts, first, samples, rows))
  const bool plain = !sum->wrap && !sum->absolute && sum->factor == 0;
  if (kind == AS_WORDS)
    SHARED_BY_COUNT(AS_WORDS, -1);
  else if (kind == AS_FLOATS)
    SHARED_BY_COUNT(AS_FLOATS, -1);
  else if (plain && sum->shift == 0)
    SHARED_BY_COUNT(AS_LEVELS, 0);
  else if (plain && sum->low == 0 && sum->middle == 2)
    SHARED_BY_COUNT(AS_LEVELS, 2);
  else if (plain)
    SHARED_BY_COUNT(AS_LEVELS, 1);
  else
    SHARED_BY_COUNT(AS_LEVELS, -1);
#undef SHARED_BY_COUNT
}

static TARGET void NAME(make)(const integer_sum *sum, integer_kind kind, size_t first, size_t samples, void *const *rows) {
  if (sum->shared)
    NAME(make_shared)(sum, kind, first, samples, rows);
  else if (kind == AS_LEVELS)
    BY_COUNT(NAME(make_of), sum, AS_LEVELS, first, samples, rows);
  else if (kind == AS_WORDS)
    BY_COUNT(NAME(make_of), sum, AS_WORDS, first, samples, rows);
  else if (kind == AS_FLOATS)
    BY_COUNT(NAME(make_of), sum, AS_FLOATS, first, samples, rows);
  else
    BY_COUNT(NAME(make_of), sum, AS_ROW, first, samples, rows);
}
