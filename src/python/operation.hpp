/* SPDX-License-Identifier: MIT */
/* An operation of the library, with its plans. */
#ifndef GCONV_PYTHON_OPERATION_HPP
#define GCONV_PYTHON_OPERATION_HPP

#include "core.hpp"

namespace gconv_python {

/* Plans for images of one shape, on one device. A plan is executed by one thread at a time: each call takes an idle plan, or
 * makes one, so that no call waits for another. */
struct Shape {
  gconv_image like = {};
  gconv_device *device = nullptr;
  void *stream = nullptr; /* on a GPU, the stream of its plans: executions of one plan must be in one stream */
  std::vector<gconv_plan *> idle;
};

class Operation {
public:
  /* Owns `operation`. `owner` keeps alive the banks or networks that it needs. `on_host`: it has stages that run only on the
   * host. `alpha`: the last channel of images is alpha. `by_strips`: results by rows have the same bits, so plans with
   * stages on the host are executed strip by strip. */
  Operation(gconv_operation *operation, nb::object owner, bool on_host, bool alpha = false, bool by_strips = false);
  ~Operation();
  Operation(const Operation &) = delete;
  Operation &operator=(const Operation &) = delete;

  /* Applies the operation to an array. Returns None if the array must be copied or converted first (gconv._arrays). */
  nb::object run(nb::handle image, nb::handle axes, nb::handle device, nb::handle out, nb::handle stream, bool any_stream);
  /* explain() and info() describe the plan for images of this shape and type. */
  nb::object explain(nb::handle shape, const std::string &type, bool planar, const std::string &device);
  nb::dict info(nb::handle shape, const std::string &type, bool planar, const std::string &device);
  /* For arrays that gconv._arrays converts to float32 strip by strip: returns the strips of an image N x C x H x W on the
   * CPU as tuples (first row, end, first input row, end of input rows). Returns None if there are several results, or the
   * result has another shape or cannot be made by rows. */
  nb::object strips(nb::handle shape, bool planar);
  /* Makes output rows `first` to `end` - 1 of such an image. `window` has the input rows that they need, from `row` on. */
  nb::object run_rows(nb::handle window, nb::handle axes, nb::handle shape, bool planar, int row, int first, int end);
  /* Returns how many axes an output of a model has for float32 images N x C x H x W of this shape; 4: unknown. */
  int output_axes(nb::handle shape, const std::string &output);
  /* Frees all plans that are idle. */
  void clear();
  const gconv_operation *get() const {
    return operation_;
  }

private:
  struct Taken;
  /* Returns an idle plan, or a new plan. Raises if that fails. */
  gconv_plan *take(const gconv_image &like, gconv_device *device, void *stream);
  void give_back(gconv_plan *plan, const gconv_image &like, gconv_device *device, void *stream);
  void forget_after_fork();

  gconv_operation *operation_;
  nb::object owner_;
  bool on_host_, alpha_, by_strips_;
  unsigned generation_;
  std::mutex lock_;
  std::vector<Shape> shapes_; /* the shape that was used last is first */
};

} // namespace gconv_python
#endif
