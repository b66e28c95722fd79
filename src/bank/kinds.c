/* SPDX-License-Identifier: MIT */
/* The table of the kinds of layers, their names and checks. */
#include "bank/kind.h"
#include "base/arguments.h"
#include "base/lists.h"

#include <stdio.h>

#define ROW(name, value) [value] = &gconv_layer_form_##name,
static const gconv_layer_form *const forms[] = {GCONV_EACH_LAYER_KIND(ROW)};
enum { KINDS = GCONV_EACH_LAYER_KIND(GCONV_COUNTED) };

const gconv_layer_form *gconv_layer_form_of(gconv_layer_kind kind) {
  return forms[kind];
}

const char *gconv_layer_kind_name(gconv_layer_kind kind) {
  return (size_t)kind < KINDS ? forms[kind]->name : NULL;
}

gconv_status gconv_layer_check(const gconv_layer *layer, const char *where) {
  GCONV_TRY(GCONV_CHECK_KNOWN(layer, where));
  if ((size_t)layer->kind >= KINDS)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: there is no kind of layers number %d", where, (int)layer->kind);
  const gconv_layer_form *form = forms[layer->kind];
  if (!(form->text & (GCONV_TEXT_WINDOW | GCONV_TEXT_FACTOR)) && (layer->window_y != 0 || layer->window_x != 0))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %s has no windows", where, form->name);
  if (layer->from < 0 || (!(form->text & GCONV_TEXT_NAME) && layer->from != 0))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %s takes no output of layer %d", where, form->name, layer->from);
  return form->check(layer, where);
}

bool gconv_layer_is_bare(gconv_layer_kind kind) {
  return !forms[kind]->has_bank && forms[kind]->text == 0;
}

const char *gconv_layer_bare_names(char *text, size_t size) {
  size_t left = 0, used = 0;
  for (int i = 0; i < KINDS; i++)
    left += gconv_layer_is_bare((gconv_layer_kind)i);
  for (int i = 0; i < KINDS && used < size; i++)
    if (gconv_layer_is_bare((gconv_layer_kind)i))
      used += (size_t)snprintf(text + used, size - used, "%s%s", forms[i]->name,
                               --left > 1  ? ", "
                               : left == 1 ? " or "
                                           : "");
  return text;
}
