/* SPDX-License-Identifier: MIT */
/* Models of other programs that are not read here, known by the ends of their names: what they are, and how they become ONNX
 * models. */
#pragma once

#include "base/both.h"
#include "base/status.h"

GCONV_C_BEGIN

/* Fails with GCONV_UNSUPPORTED and what helps, if the name of this file or folder, PATH or PATH:NAME, is that of such a
 * model. */
gconv_status gconv_refuse_foreign_model(const char *spec);

/* Fails as that does, for a model of torch.jit.save(). */
gconv_status gconv_refuse_torchscript(const char *spec);

GCONV_C_END
