/* SPDX-License-Identifier: MIT */
/* Classes of pixels: features, then a network, as a chain. */
#include "base/arguments.h"
#include "gconv_classify.h"
#include "operation/operation.h"

#include <stdlib.h>
#include <string.h>

/* Returns the number that a name consists of, or a number above UINT16_MAX. */
static unsigned long number_of(const char *name) {
  size_t digits = name ? strspn(name, "0123456789") : 0;
  return digits > 0 && digits <= 5 && !name[digits] ? strtoul(name, NULL, 10) : UINT16_MAX + 1UL;
}

gconv_status gconv_class_values(const char *const *classes, size_t count, uint16_t *values) {
  GCONV_NEED(values);
  if (count > 0)
    GCONV_NEED(classes);
  if (count > UINT16_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "a map of %zu classes: it holds up to %d", count, UINT16_MAX);
  bool numbers = true;
  for (size_t k = 0; k < count; k++)
    numbers = numbers && number_of(classes[k]) <= UINT16_MAX;
  for (size_t k = 0; k < count; k++)
    values[k] = (uint16_t)(numbers ? number_of(classes[k]) : k + 1);
  return GCONV_OK;
}

static gconv_status find_values(const gconv_network *network, uint16_t **values) {
  *values = calloc(network->class_count + 1, sizeof **values);
  return *values ? gconv_class_values((const char *const *)network->classes, network->class_count, *values)
                 : gconv_fail(GCONV_NO_MEMORY, "no memory for the classes of a network");
}

static gconv_status make_stages(const gconv_network *network, int32_t channels, const gconv_network_options *options,
                                gconv_operation **result) {
  gconv_operation *stages[2] = {NULL, NULL};
  gconv_status status = gconv_operation_features(network->features, channels, &stages[0]);
  GCONV_THEN(status, gconv_features_expect(stages[0], &network->notes));
  GCONV_THEN(status, gconv_operation_of_network(network, options, &stages[1]));
  GCONV_THEN(status, gconv_operation_chain(stages, 2, result));
  gconv_operation_free(stages[0]);
  gconv_operation_free(stages[1]);
  return status;
}

gconv_status gconv_operation_pixels(const gconv_network *network, const gconv_network_options *options,
                                    gconv_operation **result) {
  static const gconv_network_options defaults;
  int32_t count;
  GCONV_NEED(network);
  GCONV_NEED_AS(network->layers, "network->layers");
  GCONV_NEED_AS(result, "operation");
  if (!network->features)
    return gconv_fail(GCONV_BAD_ARGUMENT, "the network has no features: it takes images as they are");
  if (network->class_count > 0)
    GCONV_NEED_AS(network->classes, "network->classes");
  GCONV_TRY(gconv_features_resolve(network->features, NULL, &count));
  int32_t channels = network->channels % count == 0 ? network->channels / count : 0;
  if (channels != 1 && channels != 3)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the network takes %d channels, and its features are %d of a grey image, %d of RGB",
                      (int)network->channels, (int)count, 3 * (int)count);
  gconv_network_options own = options ? *options : defaults;
  uint16_t *values = NULL;
  gconv_status status = GCONV_OK;
  own.gray = false; /* the features convert to grey */
  if (own.presentation == GCONV_PRESENT_CLASSES && !own.class_values && network->class_count > 0) {
    status = find_values(network, &values);
    own.class_values = values;
    own.class_value_count = network->class_count;
  }
  GCONV_THEN(status, make_stages(network, channels, &own, result));
  free(values);
  return status;
}
