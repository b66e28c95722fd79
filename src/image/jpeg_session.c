/* SPDX-License-Identifier: MIT */
#include "image/jpeg.h"

#include <jerror.h> /* after jpeglib.h, whose version decides which messages exist */

gconv_status gconv_jpeg_run(jpeg_session *session, jpeg_step *step) {
  session->status = GCONV_OK;
  if (setjmp(session->failed) == 0)
    step(session);
  return session->status;
}

_Noreturn void gconv_jpeg_fail(jpeg_session *session, gconv_status status) {
  session->status = status;
  longjmp(session->failed, 1);
}

static _Noreturn void on_error(j_common_ptr info) {
  jpeg_session *session = (jpeg_session *)info->err;
  int code = info->err->msg_code;
  char text[JMSG_LENGTH_MAX];
  info->err->format_message(info, text);
  if (code == JERR_OUT_OF_MEMORY)
    gconv_jpeg_fail(session, gconv_fail(GCONV_NO_MEMORY, "no memory for a JPEG"));
  bool unsupported = code == JERR_BAD_PRECISION || code == JERR_SOF_UNSUPPORTED || code == JERR_CONVERSION_NOTIMPL;
#if JPEG_LIB_VERSION < 70 /* the headers of later ABIs do not have this code */
  unsupported = unsupported || code == JERR_ARITH_NOTIMPL;
#endif
  if (unsupported)
    gconv_jpeg_fail(session,
                    gconv_fail(GCONV_UNSUPPORTED, "%s: a kind of JPEG that is not read here: %s", session->name, text));
  gconv_status status = session->reader ? GCONV_BAD_FILE : GCONV_BAD_ARGUMENT;
  gconv_jpeg_fail(session, gconv_fail(status, "%s: %s JPEG: %s", session->name,
                                      session->reader ? "damaged" : "cannot be written as", text));
}

/* Negative levels are warnings. After a warning listed in `fatal`, libjpeg would continue with grey or shifted blocks:
 * here, half an image is an error. After other warnings, pixels may be wrong, too: the first of these warnings is kept, and
 * given when the file is closed. */
static void on_message(j_common_ptr info, int level) {
  static const int fatal[] = {JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_JPEG_EOF, JWRN_MUST_RESYNC, JWRN_ARITH_BAD_CODE};
  jpeg_session *session = (jpeg_session *)info->err;
  if (level >= 0)
    return;
  for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
    if (info->err->msg_code == fatal[i])
      on_error(info);
  if (session->warning[0] == '\0')
    info->err->format_message(info, session->warning);
}

gconv_status gconv_jpeg_create(const char *name, void **state) {
  GCONV_TRY(gconv_format_state(sizeof(jpeg_session), "a JPEG", state));
  jpeg_session *session = *state;
  jpeg_std_error(&session->errors);
  session->errors.error_exit = on_error;
  session->errors.emit_message = on_message;
  session->name = name;
  return GCONV_OK;
}
