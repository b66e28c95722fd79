/* SPDX-License-Identifier: MIT */
/* Writes messages of protocol buffers into memory (protobuf.h). */
#include "bank/protobuf.h"
#include "base/element.h"
#include "base/memory.h"

#include <string.h>

/* Adds bytes. Memory is doubled when it is full (gconv_room()). */
static void add(gconv_message_writer *m, const void *bytes, size_t size) {
  if (m->failed || size == 0)
    return;
  const bool fits = size <= PTRDIFF_MAX / 2 && m->size <= PTRDIFF_MAX / 2;
  const size_t had = m->size > 0 ? gconv_room(m->size) : 0, needed = fits ? gconv_room(m->size + size) : 0;
  uint8_t *grown = !fits ? NULL : needed > had || !m->bytes ? realloc(m->bytes, needed) : m->bytes;
  if (!grown) {
    m->failed = true;
    return;
  }
  m->bytes = grown;
  memcpy(m->bytes + m->size, bytes, size);
  m->size += size;
}

static void add_varint(gconv_message_writer *m, uint64_t value) {
  uint8_t bytes[10];
  size_t count = 0;
  for (; value > 127; value >>= 7)
    bytes[count++] = (uint8_t)(value | 128);
  bytes[count++] = (uint8_t)value;
  add(m, bytes, count);
}

static void add_tag(gconv_message_writer *m, uint32_t number, gconv_wire wire) {
  add_varint(m, (uint64_t)number << 3 | wire);
}

/* Adds the four bytes of a float, least significant first. */
static void add_float(gconv_message_writer *m, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint8_t bytes[] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16), (uint8_t)(bits >> 24)};
  add(m, bytes, sizeof bytes);
}

void gconv_message_put_integer(gconv_message_writer *m, uint32_t number, uint64_t value) {
  add_tag(m, number, GCONV_WIRE_VARINT);
  add_varint(m, value);
}

void gconv_message_put_float(gconv_message_writer *m, uint32_t number, float value) {
  add_tag(m, number, GCONV_WIRE_FIXED32);
  add_float(m, value);
}

void gconv_message_put_bytes(gconv_message_writer *m, uint32_t number, const void *bytes, size_t size) {
  add_tag(m, number, GCONV_WIRE_BYTES);
  add_varint(m, size);
  add(m, bytes, size);
}

void gconv_message_put_text(gconv_message_writer *m, uint32_t number, const char *text) {
  gconv_message_put_bytes(m, number, text, strlen(text));
}

void gconv_message_put_floats(gconv_message_writer *m, uint32_t number, const float *floats, size_t count) {
  if (!gconv_host_is_big_endian()) {
    gconv_message_put_bytes(m, number, floats, count * sizeof *floats);
    return;
  }
  add_tag(m, number, GCONV_WIRE_BYTES);
  add_varint(m, count * sizeof *floats);
  for (size_t i = 0; i < count; i++)
    add_float(m, floats[i]);
}

void gconv_message_put_message(gconv_message_writer *m, uint32_t number, gconv_message_writer *inside) {
  m->failed = m->failed || inside->failed;
  gconv_message_put_bytes(m, number, inside->bytes, inside->size);
  free(inside->bytes);
  *inside = (gconv_message_writer){0};
}
