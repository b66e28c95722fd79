/* SPDX-License-Identifier: MIT */
/*
 * gconv: filter and convolve images, exactly and fast, on the CPU and on CUDA GPUs.
 *
 * This is the public header: C11, and usable from C++. It includes gconv_status.h, gconv_image.h, gconv_filter.h,
 * gconv_network.h and gconv_plan.h. The separate header gconv_jobs.h runs an operation over folders of images. Data flow in
 * one direction:
 *
 *     path -> image -> operation -> image -> path
 *
 *     gconv_image_read()         gconv_filters_read()   gconv_device_open()
 *     gconv_operation_filters()  gconv_plan_create()    gconv_plan_execute()   gconv_image_write()
 *
 * Rules that hold for every function here:
 *  - A gconv_status is returned where something can fail. On failure, gconv_last_error(), called in the same thread, returns
 * the reason and what to do about it, and every output argument is left as it was, or empty and safe to free.
 *  - Nothing is printed, and the process is never ended. Warnings go to the function given to gconv_set_log().
 *  - Different objects may be used by different threads at the same time; one object by one thread at a time. There are two
 * exceptions: any number of threads may use an operation or a plan, and plans on different threads may share a device.
 *  - Outputs share no memory with inputs or other outputs, not even in part: such arguments are refused
 * (GCONV_BAD_ARGUMENT). So nothing works in place. Two views of one buffer are accepted if no byte of a
 * row belongs to both.
 *  - Strings are UTF-8 or plain bytes; a path "-" is standard input or standard output.
 *  - Pointers in an argument list are required unless "may be NULL" is said.
 *  - Every argument is checked before it is used. One that is wrong (a required pointer that is NULL, a number out of its
 *    range, an unknown value of an enumeration, pixels whose rows overlap) gives GCONV_BAD_ARGUMENT, and the text names it;
 *    functions without a status return NULL, 0 or false. How long arrays and texts really are cannot be checked.
 *  - Structs end in the array `reserved`, room for fields of later versions. It must be 0; other values are refused.
 * Initialise each struct with zeros, {0}, and set the fields that you know.
 */
#ifndef GCONV_H
#define GCONV_H

#include "gconv_filter.h"
#include "gconv_image.h"
#include "gconv_network.h"
#include "gconv_plan.h"
#include "gconv_status.h"

#endif
