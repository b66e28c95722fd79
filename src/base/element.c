/* SPDX-License-Identifier: MIT */
#include "base/element.h"
#include "base/cpu.h"

#include <math.h>
#include <string.h>

/* Returns the value of an IEEE binary16. */
static double half_value(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                     : exponent == 0 ? ldexp(fraction, -24)
                                     : ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

static float single_value(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static double float_value(uint64_t bits, size_t bytes) {
  if (bytes == 2)
    return half_value((uint16_t)bits);
  if (bytes == 4)
    return (double)single_value((uint32_t)bits);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

uint64_t gconv_bytes_number(const uint8_t *bytes, size_t count, bool big_endian) {
  uint64_t number = 0;
  for (size_t i = 0; i < count; i++)
    number = number << 8 | bytes[big_endian ? i : count - 1 - i];
  return number;
}

float gconv_element_read(gconv_element element, const uint8_t *at) {
  uint64_t bits = gconv_bytes_number(at, element.bytes, element.big_endian);
  if (element.kind == 'B')
    return single_value((uint32_t)bits << 16);
  if (element.kind == 'f') {
    double value = float_value(bits, element.bytes);
    bool large = fabs(value) >= 0x1.ffffffp127; /* halfway from the largest float to 2^128 */
    return large ? copysignf(INFINITY, (float)copysign(1, value)) : (float)value;
  }
  if (element.kind == 'b') /* NumPy writes 0 and 1, and takes any other byte for True, too */
    return bits != 0;
  if (element.kind == 'i') {
    uint64_t sign = UINT64_C(1) << (8 * element.bytes - 1);
    return (bits & sign) != 0 ? -(float)(sign - (bits ^ sign)) : (float)bits;
  }
  return (float)bits;
}

/* Returns the number at `at`, in float64. Whole numbers beyond 2^53 are rounded. */
static double read_double(gconv_element element, const uint8_t *at) {
  uint64_t bits = gconv_bytes_number(at, element.bytes, element.big_endian);
  uint64_t sign = UINT64_C(1) << (8 * element.bytes - 1);
  if (element.kind == 'f')
    return float_value(bits, element.bytes);
  if (element.kind == 'u')
    return (double)bits;
  if (element.kind == 'i')
    return (bits & sign) != 0 ? -(double)(sign - (bits ^ sign)) : (double)bits;
  return (double)gconv_element_read(element, at);
}

void gconv_elements_convert(gconv_element element, const uint8_t *bytes, size_t count, float *numbers) {
  if (element.kind == 'u' && element.bytes == 1) {
    for (size_t i = 0; i < count; i++)
      numbers[i] = bytes[i];
  } else if (element.kind == 'i' && element.bytes == 2) {
    const int low = element.big_endian ? 1 : 0;
    for (size_t i = 0; i < count; i++)
      numbers[i] = (int16_t)(uint16_t)(bytes[2 * i + low] | bytes[2 * i + 1 - low] << 8);
  } else {
    for (size_t i = 0; i < count; i++)
      numbers[i] = gconv_element_read(element, bytes + i * element.bytes);
  }
}

/* Reads elements into one of the two arrays; the other is NULL. */
static gconv_status read_elements(gconv_source *source, gconv_element element, size_t count, const char *what, float *floats,
                                  double *doubles) {
  enum { CHUNK_BYTES = 8192 }; /* on the stack, which may be small */
  uint8_t chunk[CHUNK_BYTES];
  const size_t most = CHUNK_BYTES / element.bytes;
  for (size_t done = 0; done < count;) {
    size_t now = count - done < most ? count - done : most;
    GCONV_TRY(gconv_source_read_exactly(source, chunk, now * element.bytes, what));
    if (floats)
      gconv_elements_convert(element, chunk, now, floats + done);
    for (size_t i = 0; doubles && i < now; i++)
      doubles[done + i] = read_double(element, chunk + i * element.bytes);
    done += now;
  }
  return GCONV_OK;
}

gconv_status gconv_elements_read(gconv_source *source, gconv_element element, size_t count, const char *what,
                                 float *numbers) {
  if (element.kind == 'f' && element.bytes == sizeof(float) && element.big_endian == gconv_host_is_big_endian())
    return gconv_source_read_exactly(source, numbers, count * sizeof *numbers, what);
  return read_elements(source, element, count, what, numbers, NULL);
}

gconv_status gconv_elements_read_doubles(gconv_source *source, gconv_element element, size_t count, const char *what,
                                         double *numbers) {
  return read_elements(source, element, count, what, NULL, numbers);
}

/* ---- Rounding ---- */

void gconv_rounding_add(gconv_rounding *r, const void *numbers, size_t count) {
  gconv_rounding found = {.least = INFINITY, .most = -INFINITY};
  for (size_t i = 0; i < count; i++) {
    double x;
    memcpy(&x, (const uint8_t *)numbers + i * sizeof x, sizeof x);
    const bool finite = fabs(x) <= 0x1.fffffep127;
    found.least = finite && x < found.least ? x : found.least;
    found.most = finite && x > found.most ? x : found.most;
    found.floats |= (double)(float)x != x && x == x;
    found.beyond |= !finite && isfinite(x);
  }
  found.any = found.least <= found.most;
  gconv_rounding_join(r, &found);
}

void gconv_rounding_join(gconv_rounding *r, const gconv_rounding *other) {
  if (other->any) {
    r->least = r->any ? fmin(r->least, other->least) : other->least;
    r->most = r->any ? fmax(r->most, other->most) : other->most;
  }
  r->any |= other->any;
  r->floats |= other->floats;
  r->beyond |= other->beyond;
  r->integers |= other->integers;
}

void gconv_rounding_tell(const gconv_rounding *r, const char *name) {
  enum { FEW = 1000 }; /* steps: fewer show in results */
  const bool differ = r->floats && r->most > r->least;
  const double largest = fmax(fabs(r->least), fabs(r->most));
  const double steps = differ ? (r->most - r->least) / ldexp(1, ilogb(largest) - 23) : FEW;
  if (r->integers)
    gconv_warn("%s: numbers beyond 2^24 became float32, with rounding", name);
  if (r->beyond || (r->floats && largest < 0x1p-126))
    gconv_warn("%s: its numbers are too large or too small for float32, to which they were rounded: multiply them by a "
               "number first",
               name);
  else if (steps < FEW)
    gconv_warn("%s: its numbers go from %.12g to %.12g, and float32, to which they were rounded, has only about %.0f there: "
               "subtract a number such as %.6g first",
               name, r->least, r->most, floor(steps) + 1, r->least);
  else if (r->floats)
    gconv_remark("%s: float64 became float32, with rounding", name);
}

/* ---- Writing ---- */

/* Returns the level of a sample, which is a fraction of white: sample * unit. The fraction was rounded to float32, so a
 * level that was a multiple of 1/2 is not quite one. It is made one again, because ties must be rounded to even. If the unit
 * is 1, numbers stay as they are. */
GCONV_INLINE double level_of(float sample, double unit) {
  double level = (double)sample * unit, twice = rint(2 * level), near = unit == 1 ? 0 : 0x1p-23;
  return fabs(2 * level - twice) <= fabs(twice) * near ? twice / 2 : level;
}

GCONV_VECTOR_LOOP(make_shorts,
                  (const float *samples, size_t count, double unit, uint16_t *shorts, gconv_elements_made *made),
                  (samples, count, unit, shorts, made)) {
  uint32_t outside = 0, nans = 0, given = 0, stored = 0;
  for (size_t i = 0; i < count; i++) {
    double level = level_of(samples[i], unit);
    double kept = level != level ? 0 : level < INT16_MIN ? INT16_MIN : level > INT16_MAX ? INT16_MAX : level;
    shorts[i] = (uint16_t)(int32_t)rint(kept);
    outside += (level > INT16_MAX + 0.5) | (level < INT16_MIN - 0.5);
    nans += level != level;
    given |= level != 0;
    stored |= shorts[i];
  }
  *made = (gconv_elements_made){outside, nans, given != 0, stored != 0};
}

/* Converts samples to IEEE binary16, rounded to nearest even. Below 2^-14, its steps are 2^-24 wide. */
GCONV_VECTOR_LOOP(make_halves, (const float *samples, size_t count, uint16_t *halves, gconv_elements_made *made),
                  (samples, count, halves, made)) {
  const uint32_t infinite = 0x7f800000, too_large = 0x477ff000 /* 65520: halfway from the largest half to 2^16 */,
                 least_normal = 0x38800000 /* 2^-14 */, bias = 112u << 23;
  uint32_t outside = 0, given = 0, stored = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, &samples[i], sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude - bias + 0xfff + (magnitude >> 13 & 1)) >> 13;
    uint32_t small = (uint32_t)(int32_t)rintf((magnitude < least_normal ? fabsf(samples[i]) : 0) * 0x1p24f);
    uint32_t half = magnitude >= too_large ? 0x7c00 : magnitude < least_normal ? small : normal;
    halves[i] = (uint16_t)(magnitude > infinite ? 0x7e00 : sign | half);
    outside += (magnitude >= too_large) & (magnitude < infinite);
    given |= magnitude;
    stored |= half;
  }
  *made = (gconv_elements_made){outside, 0, given != 0, stored != 0};
}

void gconv_elements_make(char kind, const float *samples, size_t count, double unit, uint16_t *elements,
                         gconv_elements_made *made) {
  const size_t most = 1 << 20; /* samples at a time, because sums have 32 bits */
  gconv_elements_made some;
  for (size_t done = 0; done < count;) {
    size_t now = count - done < most ? count - done : most;
    if (kind == 'f')
      make_halves(samples + done, now, elements + done, &some);
    else
      make_shorts(samples + done, now, unit, elements + done, &some);
    made->out_of_range += some.out_of_range;
    made->nans += some.nans;
    made->given |= some.given;
    made->stored |= some.stored;
    done += now;
  }
}

void gconv_elements_warn(const char *name, char kind, const gconv_elements_made *made) {
  const unsigned long long count = made->out_of_range;
  if (made->nans > 0)
    gconv_warn("%s: %llu samples are not a number (NaN), and became 0: --depth float keeps them", name,
               (unsigned long long)made->nans);
  if (made->given && !made->stored)
    gconv_warn("%s: all numbers are so small that they became 0: --scale, or --depth float, keeps them", name);
  if (count > 0 && kind == 'i')
    gconv_warn("%s: %llu numbers below -32768 or above 32767 became the nearest of these: --scale, or --depth float, keeps "
               "them",
               name, count);
  else if (count > 0)
    gconv_warn("%s: %llu numbers beyond 65504 became infinite in float16: --scale, or --depth float, keeps them", name,
               count);
}

void gconv_element_store(float value, uint8_t at[4]) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  for (int i = 0; i < 4; i++)
    at[i] = (uint8_t)(bits >> (8 * i));
}
