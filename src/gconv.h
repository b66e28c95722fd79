/* SPDX-License-Identifier: MIT */
/*
 * gconv: filter and convolve images, exactly and fast, on the CPU and on CUDA GPUs.
 *
 * This is the public header: C11, and usable from C++. It includes its parts: gconv_status.h, gconv_image.h, gconv_filter.h,
 * gconv_network.h and gconv_plan.h. gconv_jobs.h beside it runs an operation over folders of images. The way of the data is
 * one street:
 *
 *     path -> image -> operation -> image -> path
 *
 *     gconv_image_read()         gconv_filters_read()   gconv_device_open()
 *     gconv_operation_filters()  gconv_plan_create()    gconv_plan_execute()   gconv_image_write()
 *
 * Rules that hold for every function here:
 *  - A gconv_status is returned where something can fail. On failure the reason, and what to do about it, is in
 *    gconv_last_error() of the same thread, and every output argument is left as it was, or empty and safe to free.
 *  - Nothing is printed, and the process is never ended. Warnings go to the function given to gconv_set_log().
 *  - Different objects may be used by different threads at the same time; one object by one thread at a time, but for
 *    operations and plans, which any number of threads may use, and devices, which plans on different threads may share.
 *  - Outputs share no memory with inputs or other outputs, not even in part: such arguments are refused
 * (GCONV_BAD_ARGUMENT). So nothing works in place. Views of one buffer are taken if their rows lie beside each other, or do
 * not mix.
 *  - Strings are UTF-8 or plain bytes; a path "-" is standard input or standard output.
 *  - Pointers in an argument list are required unless "may be NULL" is said.
 *  - Every argument is checked before it is used. One that is wrong (a required pointer that is NULL, a number out of its
 *    range, an enumeration's value that is none, pixels whose rows overlap) gives GCONV_BAD_ARGUMENT, and the text names it;
 *    functions without a status return NULL, 0 or false. How long arrays and texts really are cannot be checked.
 *  - Structs end in room for fields of later versions, `reserved`: 0, or what the caller asks for is refused, as this
 * version does not know it. Begin each struct with zeros, {0}, and set the fields that you know.
 */
#ifndef GCONV_H
#define GCONV_H

#include "gconv_filter.h"
#include "gconv_image.h"
#include "gconv_network.h"
#include "gconv_plan.h"
#include "gconv_status.h"

#endif
