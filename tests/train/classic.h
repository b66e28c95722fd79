/* SPDX-License-Identifier: MIT */
/*
 * Backpropagation as the formulas say it, with a loop for each index: to test engines against, and to learn from. The
 * reference computes in float64, with the C library's exp() and log(). The classic version computes the float32 results of
 * the exact family (kernels/learn_problem.h). Both are of classic_template.h, and share no code with the fast engine.
 */
#ifndef GCONV_TESTS_TRAIN_CLASSIC_H
#define GCONV_TESTS_TRAIN_CLASSIC_H

#include "kernels/learn_problem.h"

/* Computes the loss of `cases` cases and its gradient: gradient[i] = d loss / d parameters[i]. Inputs are N x C x H x W;
 * targets N x outputs, or N numbers of classes. `outputs`, N x outputs, may be NULL. Fails only for lack of memory. */
gconv_status gconv_learn_reference(const gconv_learn_net *net, const double *parameters, const double *inputs,
                                   const double *targets, size_t cases, double *loss, double *gradient, double *outputs);
gconv_status gconv_learn_classic(const gconv_learn_net *net, const float *parameters, const float *inputs,
                                 const float *targets, size_t cases, double *loss, float *gradient, float *outputs);

#endif
