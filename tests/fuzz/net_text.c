/* SPDX-License-Identifier: MIT */
/* Texts of networks: what is made of one must be a network (libFuzzer). The first bytes are sizes of the input. */
#include "train/net_text.h"
#include "bank/network_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3)
    return 0;
  char *text = malloc(size - 2);
  if (!text)
    abort();
  memcpy(text, data + 3, size - 3);
  text[size - 3] = '\0';
  gconv_network network = {0};
  if (gconv_network_make_within(text, data[0] % 4 + 1, data[1] % 9, data[1] % 9 ? data[2] % 9 + 1 : 0, 0, 1, 1 << 18,
                                &network) == GCONV_OK &&
      gconv_network_check("a network", GCONV_BAD_ARGUMENT, &network) != GCONV_OK)
    abort();
  gconv_network_free(&network);
  free(text);
  return 0;
}
