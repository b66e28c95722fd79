/* SPDX-License-Identifier: MIT */
/* Refuses models of other programs, which gconv cannot read and recognises by their extensions. The error says how to
 * convert the model to ONNX. */
#pragma once

#include "base/both.h"
#include "base/status.h"

GCONV_C_BEGIN

/* Fails with GCONV_UNSUPPORTED if a file or folder, PATH or PATH:NAME, has the extension of such a model. */
gconv_status gconv_refuse_foreign_model(const char *spec);

/* Fails in the same way for a model of torch.jit.save(), whatever its name. */
gconv_status gconv_refuse_torchscript(const char *spec);

GCONV_C_END
