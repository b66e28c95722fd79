/* SPDX-License-Identifier: MIT */
#include "base/element.h"

#include <math.h>
#include <string.h>

/* IEEE binary16. */
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

gconv_status gconv_elements_read(gconv_source *source, gconv_element element, size_t count, const char *what,
                                 float *numbers) {
  if (element.kind == 'f' && element.bytes == sizeof(float) && element.big_endian == gconv_host_is_big_endian())
    return gconv_source_read_exactly(source, numbers, count * sizeof *numbers, what);
  enum { CHUNK_BYTES = 8192 }; /* on the stack of any thread that reads */
  uint8_t chunk[CHUNK_BYTES];
  const size_t most = CHUNK_BYTES / element.bytes;
  for (size_t done = 0; done < count;) {
    size_t now = count - done < most ? count - done : most;
    GCONV_TRY(gconv_source_read_exactly(source, chunk, now * element.bytes, what));
    for (size_t i = 0; i < now; i++)
      numbers[done + i] = gconv_element_read(element, chunk + i * element.bytes);
    done += now;
  }
  return GCONV_OK;
}

/* IEEE binary16, rounded to nearest even. Below 2^-14, its steps are 2^-24 wide. */
static uint16_t half_bits(double number) {
  double magnitude = fabs(number);
  uint16_t sign = signbit(number) ? 0x8000 : 0;
  int exponent;
  if (number != number)
    return 0x7e00;
  if (magnitude >= 65520) /* halfway from the largest number to 2^16 */
    return sign | 0x7c00;
  if (magnitude < 0x1p-14)
    return sign | (uint16_t)rint(magnitude * 0x1p24);
  double fraction = frexp(magnitude, &exponent);                                  /* from 1/2 to 1 */
  return (uint16_t)(sign + ((exponent + 13) << 10) + (int)rint(fraction * 2048)); /* 1024 of that are one exponent more */
}

static int16_t short_value(double number) {
  return number != number ? 0 : (int16_t)rint(fmin(fmax(number, INT16_MIN), INT16_MAX));
}

bool gconv_element_write(gconv_element element, double number, uint8_t at[2]) {
  bool real = element.kind == 'f';
  uint16_t bits = real ? half_bits(number) : (uint16_t)short_value(number);
  at[element.big_endian ? 1 : 0] = (uint8_t)(bits & 255);
  at[element.big_endian ? 0 : 1] = (uint8_t)(bits >> 8);
  if (real)
    return (bits & 0x7fff) != 0x7c00 || isinf(number);
  return !(number > INT16_MAX + 0.5 || number < INT16_MIN - 0.5);
}

void gconv_element_store(float value, uint8_t at[4]) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  for (int i = 0; i < 4; i++)
    at[i] = (uint8_t)(bits >> (8 * i));
}
