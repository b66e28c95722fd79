/* SPDX-License-Identifier: MIT */
/* A server of filtered pictures: a client sends the length of a picture's file (4 bytes, the highest first) and its bytes,
 * and gets length and bytes of a PNG, or length 0: server PORT FILTER. cc server.c $(pkg-config --cflags --libs --static
 * gconv) */
#include <arpa/inet.h>
#include <gconv/gconv_embed.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 16, MOST_BYTES = 64 << 20, MOST_SECONDS = 10 };
static gconv_device *device; /* without threads of its own: each worker computes */
static gconv_operation *operation;

/* Plan and output stay from picture to picture, as long as these have one shape. */
static gconv_status answer(const gconv_bytes_in *request, gconv_plan **plan, gconv_image *out, gconv_bytes_out *reply) {
  const gconv_read_options reading = {.max_pixels = 100000000};
  const gconv_write_options writing = {.format = gconv_format_by_name("png"), .threads = 1};
  gconv_image in = {0};
  gconv_status status = gconv_image_decode(request, &reading, &in);
  if (status == GCONV_OK && !gconv_plan_fits(*plan, &in)) {
    gconv_plan_free(*plan);
    gconv_image_free(out);
    *plan = NULL;
    status = gconv_plan_create(device, &in, operation, 0, plan);
  }
  if (status == GCONV_OK && (status = gconv_plan_execute(*plan, &in, out, 1, NULL)) == GCONV_OK)
    status = gconv_image_encode(reply, &writing, out);
  gconv_image_free(&in);
  return status;
}

static void *work(void *listener) {
  void *bytes = malloc(MOST_BYTES);
  uint32_t length;
  gconv_plan *plan = NULL;
  gconv_image out = {0};
  gconv_bytes_out reply = {0};
  while (bytes) {
    const int client = accept(*(int *)listener, NULL, NULL);
    if (client < 0) { /* such as a client that has gone, or too many files */
      nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
      continue;
    }
    while (recv(client, &length, 4, MSG_WAITALL) == 4 && (length = ntohl(length)) <= MOST_BYTES &&
           recv(client, bytes, length, MSG_WAITALL) == (ssize_t)length) {
      const gconv_bytes_in request = {.data = bytes, .size = length};
      struct timespec now;
      clock_gettime(CLOCK_MONOTONIC, &now);
      const gconv_control control = {.deadline = (double)(now.tv_sec + MOST_SECONDS)};
      gconv_control_use(&control);
      reply.size = 0;
      if (answer(&request, &plan, &out, &reply) != GCONV_OK)
        fprintf(stderr, "%s\n", gconv_last_error());
      gconv_control_use(NULL);
      length = htonl((uint32_t)reply.size);
      send(client, &length, 4, MSG_NOSIGNAL | MSG_MORE);
      send(client, reply.data, reply.size, MSG_NOSIGNAL);
    }
    close(client);
  }
  return NULL;
}

int main(int count, char **words) {
  const struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(count > 2 ? words[1] : "8080"))};
  const gconv_options options = gconv_options_default();
  gconv_filters filters = {0};
  pthread_t threads[WORKERS];
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (gconv_filters_read(count > 2 ? words[2] : "gaussian", NULL, &filters) != GCONV_OK ||
      gconv_operation_filters(&filters, &options, &operation) != GCONV_OK ||
      gconv_device_open("cpu", 1, &device) != GCONV_OK)
    return fprintf(stderr, "%s\n", gconv_last_error()), 1;
  if (bind(listener, (const struct sockaddr *)&place, sizeof place) != 0 || listen(listener, 128) != 0)
    return perror("server"), 1;
  for (int i = 0; i < WORKERS; i++)
    pthread_create(&threads[i], NULL, work, &listener);
  return pthread_join(threads[0], NULL);
}
