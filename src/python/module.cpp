/* SPDX-License-Identifier: MIT */
/* The extension module gconv._core: a thin binding of the public headers. The rest of the package is written in Python. */
#include "core.hpp"

NB_MODULE(_core, module) {
  using namespace gconv_python;
  nb::set_leak_warnings(false); /* a program may keep plans until its end: that is not a leak */
  add_devices(module);
  add_watching(module);
  add_filters(module);
  add_operation(module);
  add_layers(module);
  add_images(module);
  add_networks(module);
  add_jobs(module);
  add_learning(module);
  add_machines(module);
  add_fitting(module);
  add_science(module);
}
