/* SPDX-License-Identifier: MIT */
/* A part of each_isa.h: includes TEMPLATE for one kind of processor, whose macros are defined, and then undefines them. */
#include TEMPLATE
#undef NAME
#undef TARGET
#undef VECTOR
#undef VECTORS
#undef LANES
#undef REGISTERS
#undef LOAD
#undef LOAD_U8
#undef LOAD_U16
#undef STORE
#undef SPREAD
#undef ZERO
#undef KEEP
#undef FMA
#undef ADD_PRODUCT
#undef AT_LEAST
#undef AT_MOST
#undef NONZERO
