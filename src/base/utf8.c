/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"

#include <string.h>

size_t gconv_utf8_bytes(const char *text, size_t size) {
  const unsigned char *at = (const unsigned char *)text;
  size_t bytes = at[0] < 0x80 ? 1 : at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : (at[0] & 0xf0) == 0xe0 ? 3 : 4;
  if (bytes == 1)
    return 1;
  if (bytes > size || at[0] < 0xc2 || at[0] > 0xf4)
    return 0;
  for (size_t i = 1; i < bytes; i++)
    if ((at[i] & 0xc0) != 0x80)
      return 0;
  bool longer = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90); /* has more bytes than needed */
  bool surrogate = at[0] == 0xed && at[1] >= 0xa0, above = at[0] == 0xf4 && at[1] >= 0x90;
  return longer || surrogate || above ? 0 : bytes;
}

bool gconv_utf8_is_whole(const char *text, size_t size) {
  for (size_t i = 0, bytes; i < size; i += bytes)
    if ((bytes = gconv_utf8_bytes(text + i, size - i)) == 0)
      return false;
  return true;
}

size_t gconv_utf8_cut(const char *text, size_t most) {
  size_t length = strnlen(text, most), begin = length;
  while (begin > 0 && length - begin < 3 && ((unsigned char)text[begin] & 0xc0) == 0x80)
    begin--;
  const bool cut = begin < length && gconv_utf8_bytes(text + begin, strnlen(text + begin, 4)) > length - begin;
  return cut ? begin : length;
}
