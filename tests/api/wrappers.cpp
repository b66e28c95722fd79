// SPDX-License-Identifier: MIT
// gconv.hpp: objects free themselves, failures are exceptions, and results are those of the functions in C.
#include <gconv/gconv.hpp>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

#define CHECK(condition)                                                                                                    \
  ((condition) ? (void)0 : (std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), std::exit(1)))

static gconv::image draw(int height, int width) {
  gconv::image made(GCONV_U8, height, width, 3);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < 3 * width; x++)
      made.row<uint8_t>(y)[x] = static_cast<uint8_t>(x * y + 7 * x);
  return made;
}

template <typename Function> gconv_status status_of(Function function) {
  try {
    function();
  } catch (const gconv::error &failure) {
    CHECK(std::strlen(failure.what()) > 0);
    return failure.status();
  }
  return GCONV_OK;
}

int main() {
  const gconv::image photo = draw(60, 90);
  const gconv::device cpu("cpu", 2);
  const gconv::operation smooth{gconv::filters("gaussian:sigma=2")};
  gconv::plan plan(cpu, photo, smooth);
  const gconv::image expected = plan(photo);
  CHECK(expected->height == 60 && plan.fits(photo) && !plan.fits(draw(5, 5)) && plan.held_bytes() > 0);

  const gconv::bytes file = photo.encode("png");
  gconv::image again = gconv::image::decode(file.data(), file.size());
  CHECK(std::memcmp(again->data, photo->data, photo->plane_bytes) == 0);
  gconv::image moved = std::move(again);
  CHECK(!again->data && moved->data);
  gconv::image out;
  plan.execute(moved, out);
  CHECK(std::memcmp(out->data, expected->data, expected->plane_bytes) == 0);

  const gconv::operation both{gconv::filters("sobel")};
  const gconv::plan two(cpu, photo, both);
  CHECK(two.all(photo).size() == 2);
  CHECK(status_of([&] { two(photo); }) == GCONV_BAD_ARGUMENT);
  CHECK(status_of([] { gconv::image::read("/nothing/there.png"); }) == GCONV_IO_ERROR);
  CHECK(status_of([] { gconv::image::decode(nullptr, 0); }) == GCONV_BAD_FILE);
  CHECK(status_of([] { gconv::image::decode(nullptr, 100); }) == GCONV_BAD_FILE);
  CHECK(status_of([] { gconv::filters("no such filter"); }) != GCONV_OK);
  CHECK(status_of([] { gconv::device("nothing"); }) == GCONV_BAD_ARGUMENT);

  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; i++)
    threads.emplace_back([&] { right += std::memcmp(plan(photo)->data, expected->data, expected->plane_bytes) == 0; });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(right == 8);
  plan.trim();
  {
    const gconv::control late(gconv::control::clock::now() - std::chrono::seconds(1));
    CHECK(status_of([&] { plan(photo); }) == GCONV_STOPPED);
    const gconv::control before_the_clock(gconv::control::clock::time_point::min());
    CHECK(status_of([&] { plan(photo); }) == GCONV_STOPPED);
    {
      const gconv::control enough([](const char *, double) { return false; });
      CHECK(status_of([&] { plan(photo); }) == GCONV_STOPPED);
      const gconv::control broken([](const char *, double) -> bool { throw 1; });
      CHECK(status_of([&] { plan(photo); }) == GCONV_STOPPED);
    }
    CHECK(status_of([&] { plan(photo); }) == GCONV_STOPPED);
  }
  const int stop = 0;
  const gconv::control flagged(stop);
  CHECK(std::memcmp(plan(photo)->data, expected->data, expected->plane_bytes) == 0);
  return 0;
}
