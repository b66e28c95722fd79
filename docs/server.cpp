/* SPDX-License-Identifier: MIT */
/* A server of filtered pictures: a client sends the length of a picture's file (4 bytes, the highest first) and its bytes,
 * and gets length and bytes of a PNG, or length 0: server PORT FILTER.
 * c++ -std=c++17 server.cpp $(pkg-config --cflags --libs --static gconv) */
#include <arpa/inet.h>
#include <cstdio>
#include <gconv/gconv.hpp>
#include <memory>
#include <thread>
#include <unistd.h>

/* The plan stays from picture to picture, as long as these have one shape. */
static void serve(int listener, const gconv::device &device, const gconv::operation &operation) {
  constexpr std::size_t most_bytes = 64 << 20;
  gconv_read_options reading{};
  reading.max_pixels = 100000000;
  const std::unique_ptr<char[]> request(new char[most_bytes]); /* not filled: pages are there once they are used */
  std::unique_ptr<gconv::plan> plan;
  for (uint32_t length;;) {
    const int client = accept(listener, nullptr, nullptr);
    if (client < 0) /* such as a client that has gone, or too many files */
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    while (recv(client, &length, 4, MSG_WAITALL) == 4 && (length = ntohl(length)) <= most_bytes &&
           recv(client, request.get(), length, MSG_WAITALL) == static_cast<ssize_t>(length)) {
      gconv::bytes reply;
      try {
        const gconv::control control(gconv::control::clock::now() + std::chrono::seconds(10)); /* a deadline */
        const gconv::image in = gconv::image::decode(request.get(), length, &reading);
        if (!plan || !plan->fits(in))
          plan = std::make_unique<gconv::plan>(device, in, operation);
        reply = (*plan)(in).encode("png");
      } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
      }
      length = htonl(static_cast<uint32_t>(reply.size()));
      send(client, &length, 4, MSG_NOSIGNAL | MSG_MORE);
      send(client, reply.data(), reply.size(), MSG_NOSIGNAL);
    }
    close(client);
  }
}

int main(int count, char **words) try {
  gconv_limit_threads(1); /* the library starts none: each worker computes */
  const gconv::device device("cpu");
  const gconv::operation operation(gconv::filters(count > 2 ? words[2] : "gaussian"));
  const int listener = socket(AF_INET, SOCK_STREAM, 0), port = count > 1 ? std::stoi(words[1]) : 8080;
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<uint16_t>(port));
  if (bind(listener, reinterpret_cast<const sockaddr *>(&place), sizeof place) != 0 || listen(listener, 128) != 0)
    throw std::runtime_error("the port cannot be had");
  std::vector<std::thread> workers;
  for (int i = 0; i < 16; i++)
    workers.emplace_back(serve, listener, std::cref(device), std::cref(operation));
  workers[0].join();
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
