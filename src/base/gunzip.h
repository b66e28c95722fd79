/* SPDX-License-Identifier: MIT */
/* Files that gzip compressed, as sources of the decompressed bytes. */
#pragma once

#include "base/file.h"

/* Makes a source of the decompressed bytes of `source`, if gzip compressed that; its member stays. */
gconv_status gconv_source_unzip(gconv_source *source);

/* Sets *more to whether more bytes follow those that were read, if gzip compressed them; else to false. Fails if they are
 * cut or damaged. */
gconv_status gconv_source_has_unzipped(gconv_source *source, bool *more);

/* Fails if what gzip compressed is cut or damaged behind the bytes that were read: its checksum comes last. */
gconv_status gconv_source_check_unzipped(gconv_source *source);
