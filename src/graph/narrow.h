/* SPDX-License-Identifier: MIT */
/* Narrow types of models, which gconv stores in wider types: floating-point numbers of 4, 8 and 16 bits in float32, and
 * integers of 2 and 4 bits in int8 or uint8. `number` is a TensorProto.DataType. */
#pragma once

#include "graph/tensor.h"

GCONV_C_BEGIN

/* How numbers become powers of 2 (float8e8m0). Other types are rounded to the nearest, ties to even. */
typedef enum gconv_narrow_rounding { GCONV_NARROW_UP, GCONV_NARROW_DOWN, GCONV_NARROW_NEAREST } gconv_narrow_rounding;

/* Sets *type to the type that stores numbers of 2 to 8 bits. Returns false for all other types. */
bool gconv_narrow_type(int64_t number, gconv_tensor_type *type);
/* Returns whether a type has floating-point numbers of 4 or 8 bits. */
bool gconv_narrow_is_float(int64_t number);
/* Returns how many numbers a byte of a file has: 1, 2 or 4; 0 for types that are not narrow. */
int32_t gconv_narrow_in_byte(int64_t number);
/* Sets the least and the largest finite number of a narrow type; leaves both for other types. */
void gconv_narrow_range(int64_t number, double *least, double *most);
/* Reads `count` numbers of a narrow type. The first number of a byte has the lowest bits. */
void gconv_narrow_unpack(int64_t number, const uint8_t *bytes, size_t count, void *elements);
/* Returns the nearest number of a floating-point type of 4 to 16 bits. Numbers that are too large become the largest if
 * `saturates`; otherwise infinity or NaN, whichever the type has. */
double gconv_narrow_round(double x, int64_t number, bool saturates, gconv_narrow_rounding rounding);
/* Returns x wrapped around to an integer type of 2 or 4 bits; x itself for other types. */
int32_t gconv_narrow_wrap(int32_t x, int64_t number);

GCONV_C_END
