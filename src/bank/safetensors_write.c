/* SPDX-License-Identifier: MIT */
/* Writes safetensors: the header (described in safetensors.c), then the numbers of each tensor. */
#include "bank/safetensors.h"
#include "base/memory.h"

#include <string.h>

enum { PREFIX_BYTES = 8 };

/* ---- Tensors ---- */

size_t gconv_named_array_items(const gconv_named_array *tensor) {
  size_t items = 1;
  for (int32_t i = 0; i < tensor->dimensions; i++)
    items *= (size_t)tensor->shape[i];
  return items;
}

size_t gconv_named_array_item_bytes(const gconv_named_array *tensor) {
  return tensor->type == GCONV_NAMED_F32 ? 4 : 8;
}

void gconv_named_array_free(gconv_named_array *tensor) {
  if (!tensor)
    return;
  free(tensor->name);
  gconv_release(tensor->data);
  *tensor = (gconv_named_array){0};
}

/* ---- The header ---- */

/* Adds a tensor to the header. *end is the end of the data so far. Returns false if there is no memory, or if the name is
 * not UTF-8, or is there already. */
static bool describe(json_t *root, const gconv_named_array *tensor, uint64_t *end) {
  static const char *const types[] = {"F32", "F64", "U64"};
  json_t *shape = json_array();
  bool made = shape && !json_object_get(root, tensor->name);
  for (int32_t i = 0; made && i < tensor->dimensions; i++)
    made = json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i])) == 0;
  uint64_t begin = *end;
  *end += gconv_named_array_items(tensor) * gconv_named_array_item_bytes(tensor);
  made = made && json_object_set_new(root, tensor->name,
                                     json_pack("{s:s, s:O, s:[I, I]}", "dtype", types[tensor->type], "shape", shape,
                                               "data_offsets", (json_int_t)begin, (json_int_t)*end)) == 0;
  json_decref(shape);
  return made;
}

/* Returns the header as JSON, padded so that the data begin at a multiple of 8; free() it. NULL if it cannot be made. */
static char *make_header(const gconv_named_array *tensors, size_t count, json_t *metadata) {
  json_t *root = json_object();
  uint64_t end = 0;
  bool made = root && (!metadata || json_object_set(root, "__metadata__", metadata) == 0);
  for (size_t bytes = 8; bytes >= 4; bytes -= 4)
    for (size_t i = 0; made && i < count; i++)
      made = gconv_named_array_item_bytes(&tensors[i]) != bytes || describe(root, &tensors[i], &end);
  char *text = made ? json_dumps(root, JSON_COMPACT) : NULL, *padded = NULL;
  if (text)
    padded = gconv_format_text("%s%*s", text, (int)(7 - (strlen(text) + 7) % 8), "");
  free(text);
  json_decref(root);
  return padded;
}

/* ---- Bytes ---- */

static gconv_status write_numbers(gconv_sink *sink, const uint8_t *numbers, size_t count, size_t bytes) {
  if (!gconv_host_is_big_endian())
    return gconv_sink_write(sink, numbers, count * bytes);
  for (size_t i = 0; i < count; i++, numbers += bytes)
    for (size_t b = bytes; b-- > 0;)
      GCONV_TRY(gconv_sink_write(sink, &numbers[b], 1));
  return GCONV_OK;
}

static gconv_status write_header(gconv_sink *sink, const char *header) {
  uint8_t prefix[PREFIX_BYTES];
  const uint64_t size = strlen(header);
  for (int i = 0; i < PREFIX_BYTES; i++)
    prefix[i] = (uint8_t)(size >> (8 * i));
  GCONV_TRY(gconv_sink_write(sink, prefix, PREFIX_BYTES));
  return gconv_sink_write(sink, header, (size_t)size);
}

gconv_status gconv_safetensors_write(gconv_sink *sink, const gconv_named_array *tensors, size_t count, json_t *metadata) {
  char *header = make_header(tensors, count, metadata);
  if (!header)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "a safetensors header cannot be made: names are UTF-8, and no two tensors have the same");
  gconv_status status = write_header(sink, header);
  free(header);
  for (size_t bytes = 8; bytes >= 4; bytes -= 4)
    for (size_t i = 0; status == GCONV_OK && i < count; i++)
      if (gconv_named_array_item_bytes(&tensors[i]) == bytes)
        status = write_numbers(sink, tensors[i].data, gconv_named_array_items(&tensors[i]), bytes);
  return status;
}
