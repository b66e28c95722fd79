/* SPDX-License-Identifier: MIT */
/* The part of protocol buffers that ONNX needs (protobuf.dev, "Encoding"). A message is a sequence of fields; each is a tag,
 * which is number * 8 + wire type, and a value. No function is recursive: the caller opens a message within a message. */
#pragma once

#include "base/file.h"

typedef enum gconv_wire {
  GCONV_WIRE_VARINT = 0,
  GCONV_WIRE_FIXED64 = 1,
  GCONV_WIRE_BYTES = 2,
  GCONV_WIRE_FIXED32 = 5
} gconv_wire;

/* A message within a source: bytes at .. end - 1. `at` is the next byte. */
typedef struct gconv_message_reader {
  gconv_source *source; /* it can seek */
  uint64_t at, end;
} gconv_message_reader;

typedef struct gconv_field_value {
  uint32_t number;
  gconv_wire wire;
  uint64_t value; /* value of varints and fixed sizes; for bytes, their number */
  uint64_t at;    /* for bytes: their place in the source, inside the message */
} gconv_field_value;

/* Takes a field; `message` stands after it. */
typedef gconv_status gconv_field_taker(void *context, const gconv_message_reader *message, const gconv_field_value *field);

/* Calls the function for each field of the message, in order, until one call fails. GCONV_BAD_FILE says where the encoding
 * is wrong. */
gconv_status gconv_message_each(gconv_message_reader message, gconv_field_taker *take_field, void *context);

/* Returns the message, or the packed numbers, in a field of bytes. */
gconv_message_reader gconv_message_inside(const gconv_message_reader *message, const gconv_field_value *field);

/* Reads the next number of packed varints. */
gconv_status gconv_message_varint(gconv_message_reader *message, uint64_t *value);

/* Copy the text in a field of bytes, up to its first 0. The caller frees it. Fail if it has more than `most` bytes, and a
 * name if it has more than 65,536. */
gconv_status gconv_message_text(const gconv_message_reader *message, const gconv_field_value *field, size_t most,
                                char **text);
gconv_status gconv_message_name(const gconv_message_reader *message, const gconv_field_value *field, char **name);

/* Adds the numbers of a field of repeated integers, packed or single. Stores the numbers that fit into numbers[*count ..
 * limit - 1], and counts all. */
gconv_status gconv_message_integers(const gconv_message_reader *message, const gconv_field_value *field, size_t limit,
                                    int64_t *numbers, size_t *count);

/* ---- Writing ---- */

/* A message that grows in memory. Zero-initialise. After a failure for lack of memory, `failed` is set, and nothing more is
 * added: callers check it once, at the end. */
typedef struct gconv_message_writer {
  uint8_t *bytes; /* owned: free() */
  size_t size;
  bool failed;
} gconv_message_writer;

void gconv_message_put_integer(gconv_message_writer *message, uint32_t number, uint64_t value);
void gconv_message_put_float(gconv_message_writer *message, uint32_t number, float value);
void gconv_message_put_bytes(gconv_message_writer *message, uint32_t number, const void *bytes, size_t size);
void gconv_message_put_text(gconv_message_writer *message, uint32_t number, const char *text);
/* Adds the bytes of floats, least significant first, as one field. */
void gconv_message_put_floats(gconv_message_writer *message, uint32_t number, const float *floats, size_t count);
/* Adds a message as a field, and frees it. */
void gconv_message_put_message(gconv_message_writer *message, uint32_t number, gconv_message_writer *inside);
