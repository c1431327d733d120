// The library knows in whose memory an address is, by drivers that answer all that is asked in one
// call and by those that do not.
// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/pointer_place.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/cuda/standin_library.h"

namespace banyan::test::pointer_place_test {
namespace {

class PointerPlaces : public WithStandinCuda, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    WithStandinCuda::SetUp();
    if (!GetParam()) standin_.cuda.pointer_attributes = nullptr;
  }
  PointerPlace of(Address address) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): callers of the driver have numbers
    return pointer_place(cuda_, reinterpret_cast<const void*>(static_cast<uintptr_t>(address)));
  }
};

constexpr PointerPlace kOnGpu{.on_device = true, .ordinal = 0};
constexpr PointerPlace kOfGpu{.on_device = false, .ordinal = 0};

TEST_P(PointerPlaces, AreWhatTheDriverSays) {
  const Address device = device_memory(4096);
  auto* const locked = pinned<int>(16);
  Address managed = 0;
  ASSERT_EQ(cuda_.allocate_managed(&managed, 4096, 1), kCudaSuccess);
  const int own = 0;
  for (int time = 0; time < 2; ++time) {  // the second is known
    EXPECT_EQ(of(device), kOnGpu);
    EXPECT_EQ(of(device + 4095), kOnGpu);
    EXPECT_EQ(of(managed), kOfGpu);
    EXPECT_EQ(pointer_place(cuda_, locked), kOfGpu);
    EXPECT_EQ(pointer_place(cuda_, &own), PointerPlace{});
    EXPECT_EQ(pointer_place(cuda_, nullptr), PointerPlace{});
  }
  EXPECT_EQ(cuda_.free(device), kCudaSuccess);
  EXPECT_EQ(of(device), PointerPlace{});
  EXPECT_EQ(cuda_.free(managed), kCudaSuccess);
  EXPECT_EQ(cuda_.free_host(locked), kCudaSuccess);
}

// As after a kernel's illegal access.
TEST_P(PointerPlaces, AreWhatTheHostCanReadWhereTheDriverFails) {
  constexpr int kIllegalAddress = 700;
  const Address device = device_memory(4096);
  const int own = 0;
  const auto failing = [&](Address address, int error) {
    standin_.fail(GetParam() ? "cuPointerGetAttributes" : "cuPointerGetAttribute", 0, error);
    return of(address);
  };
  const auto on_host = static_cast<Address>(reinterpret_cast<uintptr_t>(&own));
  const PointerPlace unsaid{.on_device = true, .ordinal = -1, .error = kIllegalAddress};
  EXPECT_EQ(failing(device, kIllegalAddress), unsaid);
  EXPECT_EQ(of(device), kOnGpu) << "what was not said is not kept";
  EXPECT_EQ(failing(on_host, kIllegalAddress),
            (PointerPlace{.on_device = false, .ordinal = -1, .error = kIllegalAddress}));
  for (const int no :
       {kCudaInvalidValue, kCudaNotInitialized, kCudaDeinitialized, kCudaInvalidContext})
    EXPECT_EQ(failing(on_host, no), PointerPlace{}) << no;
  EXPECT_EQ(cuda_.free(device), kCudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(Drivers, PointerPlaces, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& row) {
                           return row.param ? "InOneCall" : "OneByOne";
                         });

}  // namespace
}  // namespace banyan::test::pointer_place_test
