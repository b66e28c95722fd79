/* SPDX-License-Identifier: MIT */
#include "bank/protobuf.h"
#include "base/element.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MAX_NAME_BYTES = 65536 };

static gconv_status fail_encoding(const gconv_message_reader *message, const char *what) {
  return gconv_fail(GCONV_BAD_FILE, "%s: not a valid ONNX model: %s at byte %" PRIu64 ": was it downloaded completely?",
                    message->source->name, what, message->at);
}

/* Reads the next `count` bytes, lowest first. */
static gconv_status take(gconv_message_reader *message, size_t count, uint64_t *value) {
  uint8_t bytes[8];
  if (message->end - message->at < count)
    return fail_encoding(message, "a message ends within a number");
  GCONV_TRY(gconv_source_read_exactly(message->source, bytes, count, "a number"));
  message->at += count;
  *value = gconv_bytes_number(bytes, count, false);
  return GCONV_OK;
}

/* Reads a varint: 7 bits a byte, lowest first; the top bit says that another byte follows. It has 10 bytes at most; the last
 * has 1 bit. */
static gconv_status take_varint(gconv_message_reader *message, uint64_t *value) {
  *value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    uint64_t byte = 0;
    GCONV_TRY(take(message, 1, &byte));
    if (shift == 63 && byte > 1)
      break;
    *value |= (byte & 127) << shift;
    if (byte < 128)
      return GCONV_OK;
  }
  return fail_encoding(message, "a number of more than 64 bits");
}

gconv_status gconv_message_varint(gconv_message_reader *message, uint64_t *value) {
  GCONV_TRY(gconv_source_rewind(message->source, message->at));
  return take_varint(message, value);
}

static gconv_status take_value(gconv_message_reader *message, gconv_field_value *field) {
  switch (field->wire) {
  case GCONV_WIRE_VARINT:
    return take_varint(message, &field->value);
  case GCONV_WIRE_FIXED64:
    return take(message, 8, &field->value);
  case GCONV_WIRE_FIXED32:
    return take(message, 4, &field->value);
  case GCONV_WIRE_BYTES:
    GCONV_TRY(take_varint(message, &field->value));
    if (field->value > message->end - message->at)
      return fail_encoding(message, "a field reaches beyond the end of its message");
    field->at = message->at;
    message->at += field->value;
    return GCONV_OK;
  }
  return fail_encoding(message, "a field of unknown kind");
}

gconv_status gconv_message_each(gconv_message_reader message, gconv_field_taker *take_field, void *context) {
  while (message.at < message.end) {
    uint64_t tag;
    GCONV_TRY(gconv_message_varint(&message, &tag));
    if (tag < 8 || tag > UINT32_MAX)
      return fail_encoding(&message, "a field with an invalid number");
    gconv_field_value field = {.number = (uint32_t)(tag >> 3), .wire = (gconv_wire)(tag & 7)};
    GCONV_TRY(take_value(&message, &field));
    GCONV_TRY(take_field(context, &message, &field));
  }
  return GCONV_OK;
}

gconv_message_reader gconv_message_inside(const gconv_message_reader *message, const gconv_field_value *field) {
  return (gconv_message_reader){message->source, field->at, field->at + field->value};
}

gconv_status gconv_message_text(const gconv_message_reader *message, const gconv_field_value *field, size_t most,
                                char **text) {
  if (field->wire != GCONV_WIRE_BYTES)
    return fail_encoding(message, "a number for a name");
  if (field->value > most)
    return gconv_fail(GCONV_BAD_FILE, "%s: a name or text has more than %zu bytes", message->source->name, most);
  size_t size = (size_t)field->value;
  char *read = malloc(size + 1);
  GCONV_NEED_MEMORY(read, "%s: no memory for its names", message->source->name);
  gconv_status status = gconv_source_rewind(message->source, field->at);
  GCONV_THEN(status, gconv_source_read_exactly(message->source, read, size, "a name"));
  read[size] = '\0';
  if (status != GCONV_OK) {
    free(read);
    return status;
  }
  free(*text);
  *text = read;
  return GCONV_OK;
}

gconv_status gconv_message_name(const gconv_message_reader *message, const gconv_field_value *field, char **name) {
  return gconv_message_text(message, field, MAX_NAME_BYTES, name);
}

gconv_status gconv_message_integers(const gconv_message_reader *message, const gconv_field_value *field, size_t limit,
                                    int64_t *numbers, size_t *count) {
  gconv_message_reader packed = gconv_message_inside(message, field);
  uint64_t value = field->value;
  if (field->wire != GCONV_WIRE_VARINT && field->wire != GCONV_WIRE_BYTES)
    return fail_encoding(message, "a list of integers of the wrong kind");
  bool one = field->wire == GCONV_WIRE_VARINT;
  while (one || packed.at < packed.end) {
    if (!one)
      GCONV_TRY(gconv_message_varint(&packed, &value));
    if (*count < limit)
      numbers[*count] = (int64_t)value;
    ++*count;
    if (one)
      break;
  }
  return GCONV_OK;
}
