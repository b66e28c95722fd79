/* SPDX-License-Identifier: MIT */
#include "base/control.h"
#include "base/clock.h"
#include "base/status.h"

#include <stdatomic.h>

struct gconv_controlled {
  const gconv_control *given; /* NULL: none */
  atomic_bool ended;          /* progress() has said that it is enough */
};

static _Thread_local gconv_controlled own;   /* what gconv_control_use() has given this thread */
static _Thread_local gconv_controlled *lent; /* the control of the thread that this one works for; NULL: none */

const gconv_control *gconv_control_use(const gconv_control *control) {
  const gconv_control *before = own.given;
  own.given = control;
  atomic_store(&own.ended, false);
  return before;
}

gconv_controlled *gconv_control_here(void) {
  return lent ? lent : own.given ? &own : NULL;
}

void gconv_control_lend(gconv_controlled *control) {
  lent = control;
}

static bool is_flagged(const gconv_controlled *control) {
  return control->given->stop && __atomic_load_n(control->given->stop, __ATOMIC_RELAXED);
}

static bool is_late(const gconv_controlled *control) {
  const double deadline = control->given->deadline; /* one below 0 has passed, and NaN is no time to wait for */
  return deadline != 0 && !(gconv_now_ms() < 1e3 * deadline);
}

bool gconv_control_stops(gconv_controlled *control) {
  return control && (atomic_load_explicit(&control->ended, memory_order_relaxed) || is_flagged(control) || is_late(control));
}

gconv_status gconv_control_fail(gconv_controlled *control) {
  const bool flagged = atomic_load(&control->ended) || is_flagged(control);
  return gconv_fail(GCONV_STOPPED, "stopped: %s", flagged ? "the caller wants no more" : "the deadline has passed");
}

gconv_status gconv_control_step(const char *what, double done) {
  gconv_controlled *control = gconv_control_here();
  if (!control)
    return GCONV_OK;
  if (control == &own && own.given->progress && !own.given->progress(what, done, own.given->user))
    atomic_store(&own.ended, true);
  return gconv_control_stops(control) ? gconv_control_fail(control) : GCONV_OK;
}
