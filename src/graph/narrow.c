/* SPDX-License-Identifier: MIT */
#include "graph/narrow.h"
#include "bank/onnx.h"
#include "base/element.h"

#include <math.h>
#include <string.h>

/* Which codes of a type are infinities or NaN. */
typedef enum special {
  SPECIAL_NONE,     /* all codes are numbers */
  SPECIAL_NAN,      /* the largest code of each sign is no number */
  SPECIAL_NAN_ZERO, /* the code of -0 is no number, and there is no -0 */
  SPECIAL_IEEE      /* as in IEEE 754: infinities and NaNs */
} special;

/* A type of 2 to 8 bits. Integers have no mantissa and no bias. */
typedef struct narrow {
  int32_t number, bits, mantissa, bias;
  bool is_signed;
  special special;
  double most;
} narrow;

enum { UINT4 = 21, INT4 = 22, UINT2 = 25, INT2 = 26, E8M0 = 24 };

static const narrow types[] = {
    {17, 8, 3, 7, true, SPECIAL_NAN, 448},          /* float8e4m3fn */
    {18, 8, 3, 8, true, SPECIAL_NAN_ZERO, 240},     /* float8e4m3fnuz */
    {19, 8, 2, 15, true, SPECIAL_IEEE, 57344},      /* float8e5m2 */
    {20, 8, 2, 16, true, SPECIAL_NAN_ZERO, 57344},  /* float8e5m2fnuz */
    {23, 4, 1, 1, true, SPECIAL_NONE, 6},           /* float4e2m1 */
    {E8M0, 8, 0, 127, false, SPECIAL_NAN, 0x1p127}, /* float8e8m0: powers of 2 */
    {UINT4, 4, 0, 0, false, SPECIAL_NONE, 15},      {INT4, 4, 0, 0, true, SPECIAL_NONE, 7},
    {UINT2, 2, 0, 0, false, SPECIAL_NONE, 3},       {INT2, 2, 0, 0, true, SPECIAL_NONE, 1},
};

static const narrow *find(int64_t number) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].number == number)
      return &types[i];
  return NULL;
}

bool gconv_narrow_is_float(int64_t number) {
  const narrow *n = find(number);
  return n && n->bias > 0;
}

bool gconv_narrow_type(int64_t number, gconv_tensor_type *type) {
  const narrow *n = find(number);
  if (n)
    *type = n->bias > 0 ? GCONV_TENSOR_F32 : n->is_signed ? GCONV_TENSOR_I8 : GCONV_TENSOR_U8;
  return n != NULL;
}

int32_t gconv_narrow_in_byte(int64_t number) {
  const narrow *n = find(number);
  return n ? 8 / n->bits : 0;
}

void gconv_narrow_range(int64_t number, double *least, double *most) {
  const narrow *n = find(number);
  if (!n)
    return;
  *most = n->most;
  *least = !n->is_signed ? 0 : n->bias > 0 ? -n->most : -n->most - 1;
}

/* ---- Reading ---- */

static int32_t integer_of(const narrow *n, int32_t code) {
  return n->is_signed && code >> (n->bits - 1) ? code - (1 << n->bits) : code;
}

static double number_of(const narrow *n, int32_t code) {
  const int32_t magnitude = n->is_signed ? code & ((1 << (n->bits - 1)) - 1) : code, m = n->mantissa;
  const int32_t exponent = magnitude >> m, ones = (1 << (n->bits - n->is_signed - m)) - 1, rest = magnitude & ((1 << m) - 1);
  const bool no_number = (n->special == SPECIAL_NAN && exponent == ones && rest == (1 << m) - 1) ||
                         (n->special == SPECIAL_NAN_ZERO && code == 1 << (n->bits - 1)) ||
                         (n->special == SPECIAL_IEEE && exponent == ones && rest > 0);
  if (no_number)
    return (double)NAN;
  double x = n->special == SPECIAL_IEEE && exponent == ones ? (double)INFINITY
             : exponent > 0 || m == 0                       ? ldexp(1 + ldexp(rest, -m), exponent - n->bias)
                                                            : ldexp(rest, 1 - n->bias - m);
  return code != magnitude ? -x : x;
}

void gconv_narrow_unpack(int64_t number, const uint8_t *bytes, size_t count, void *elements) {
  const narrow *n = find(number);
  const size_t each = (size_t)gconv_narrow_in_byte(number);
  for (size_t i = 0; n && i < count; i++) {
    const int32_t code = bytes[i / each] >> (i % each * (size_t)n->bits) & ((1 << n->bits) - 1);
    if (n->bias > 0)
      ((float *)elements)[i] = (float)number_of(n, code);
    else
      ((int8_t *)elements)[i] = (int8_t)integer_of(n, code); /* uint8_t has the same bits */
  }
}

/* ---- Rounding ---- */

static double round_power(double x, double most, gconv_narrow_rounding rounding, bool saturates) {
  int exponent;
  if (x != x || x < 0)
    return (double)NAN;
  if (x > most)
    return saturates ? most : (double)NAN;
  const double f = frexp(x, &exponent); /* f is 0.5 to below 1 */
  const bool up = rounding == GCONV_NARROW_UP ? f > 0.5 : rounding == GCONV_NARROW_NEAREST && f >= 0.75;
  return x == 0 || exponent - !up < -127 ? 0x1p-127 : fmin(ldexp(1, exponent - !up), most);
}

static double round_to(const narrow *n, double x, bool saturates) {
  const bool only = n->special == SPECIAL_NONE; /* there are no infinities and no NaN */
  int exponent;
  if (x != x)
    return only ? 0 : x;
  frexp(fabs(x), &exponent);
  const int least = 1 - n->bias, power = (exponent - 1 > least ? exponent - 1 : least) - n->mantissa;
  double rounded = isinf(x) ? (double)INFINITY : ldexp(rint(ldexp(fabs(x), -power)), power);
  if (rounded > n->most)
    rounded = saturates || only ? n->most : n->special == SPECIAL_IEEE ? (double)INFINITY : (double)NAN;
  return rounded == 0 && n->special == SPECIAL_NAN_ZERO ? 0 : copysign(rounded, x);
}

/* Rounds to float16 or bfloat16. */
static float round_half(float x, int64_t number) {
  const gconv_element half = {'f', sizeof(uint16_t), gconv_host_is_big_endian()};
  uint16_t narrowed;
  uint32_t bits;
  if (number == GCONV_ONNX_FLOAT16) {
    gconv_elements_make('f', &x, 1, 1, &narrowed, &(gconv_elements_made){0});
    return gconv_element_read(half, (const uint8_t *)&narrowed);
  }
  if (x != x)
    return x;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  memcpy(&x, &bits, sizeof x);
  return x;
}

double gconv_narrow_round(double x, int64_t number, bool saturates, gconv_narrow_rounding rounding) {
  const narrow *n = find(number);
  if (number == GCONV_ONNX_FLOAT16 || number == GCONV_ONNX_BFLOAT16)
    return (double)round_half((float)x, number);
  if (!n || n->bias == 0)
    return x;
  return number == E8M0 ? round_power(x, n->most, rounding, saturates) : round_to(n, x, saturates);
}

int32_t gconv_narrow_wrap(int32_t x, int64_t number) {
  const narrow *n = find(number);
  return n && n->bias == 0 ? integer_of(n, x & ((1 << n->bits) - 1)) : x;
}
