/* SPDX-License-Identifier: MIT */
/* Undefines what vectors.h defined for one kind of vector. */
#undef NAME
#undef TARGET
#undef VECTOR
#undef LANES
#undef REGISTERS
#undef LOAD
#undef STORE
#undef SPREAD
#undef ZERO
#undef ADD
#undef SUB
#undef FMA
