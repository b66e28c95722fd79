/* SPDX-License-Identifier: MIT */
/* An operation of the library with the plans that were made of it. */
#ifndef GCONV_PYTHON_OPERATION_HPP
#define GCONV_PYTHON_OPERATION_HPP

#include "core.hpp"

namespace gconv_python {

/* Plans for images of one shape, on one device. A plan is executed by one thread at a time: each call takes one that is
 * idle, or makes one, so that no call waits for another. */
struct Shape {
  gconv_image like = {};
  gconv_device *device = nullptr;
  void *stream = nullptr; /* in which its plans were executed: on a GPU, executions of one plan follow each other in it */
  std::vector<gconv_plan *> idle;
};

class Operation {
public:
  /* Takes `operation` over. `owner` keeps what it needs: banks, networks. `on_host`: it has stages that only the host has.
   * `alpha`: the last channel of images is alpha. `by_strips`: its results are the same by rows, and those with stages on
   * the host are made so. */
  Operation(gconv_operation *operation, nb::object owner, bool on_host, bool alpha = false, bool by_strips = false);
  ~Operation();
  Operation(const Operation &) = delete;
  Operation &operator=(const Operation &) = delete;

  /* Applies it to an array. None: the array must be copied or converted first (gconv._arrays). */
  nb::object run(nb::handle image, nb::handle axes, nb::handle device, nb::handle out, nb::handle stream, bool any_stream);
  /* The header of images like the array, for explain() and info(). */
  nb::object explain(nb::handle shape, const std::string &type, bool planar, const std::string &device);
  nb::dict info(nb::handle shape, const std::string &type, bool planar, const std::string &device);
  /* Frees all plans that are idle. */
  void clear();
  const gconv_operation *get() const {
    return operation_;
  }

private:
  struct Taken;
  /* A plan that is idle, or a new one. Raises if none can be made. */
  gconv_plan *take(const gconv_image &like, gconv_device *device, void *stream);
  void give_back(gconv_plan *plan, const gconv_image &like, gconv_device *device, void *stream);
  void forget_after_fork();

  gconv_operation *operation_;
  nb::object owner_;
  bool on_host_, alpha_, by_strips_;
  unsigned generation_;
  std::mutex lock_;
  std::vector<Shape> shapes_; /* the one that was used last stands first */
};

} // namespace gconv_python
#endif
