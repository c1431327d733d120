// What ranks say of their windows is a stranger's until it is checked: whatever comes, a call goes
// by windows only where each rank can read those of all, and nothing is lost.
// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "src/cuda/windows.h"
#include "tests/support/test_driver.h"

namespace banyan::test {
namespace {

using Said = std::vector<WindowOffer>;

std::span<const std::byte> bytes_of(const Said& said) {
  return std::as_bytes(std::span(said));
}

class WindowOffers : public testing::Test {
 protected:
  void SetUp() override {
    void* library = load_test_driver();
    ASSERT_NE(library, nullptr) << dlerror();
    cuda_ = cuda_functions(library);
    ASSERT_EQ(cuda_.init(0), kCudaSuccess);
    gpu_.emplace(cuda_);
    ASSERT_TRUE(gpu_->open(0).ok());
    if (gpu_->kernels() == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
  }

  // Ranks of one process.
  std::vector<std::unique_ptr<Windows>> ranks(int count) const {
    std::vector<std::unique_ptr<Windows>> made;
    for (int rank = 0; rank < count; ++rank)
      made.push_back(std::make_unique<Windows>(
          cuda_, rank, std::vector<bool>(static_cast<size_t>(count), true)));
    return made;
  }
  Said offers_of(std::vector<std::unique_ptr<Windows>>& ranks, uint64_t call) {
    Said said;
    for (const auto& rank : ranks) said.push_back(rank->offer(call, &*gpu_));
    return said;
  }
  static std::vector<Branch> decided(std::vector<std::unique_ptr<Windows>>& ranks, uint64_t call,
                                     const Said& said) {
    std::vector<Branch> branches;
    for (const auto& rank : ranks) branches.push_back(rank->decide(call, bytes_of(said)));
    return branches;
  }

  CudaFunctions cuda_;
  std::optional<OpenGpu> gpu_;
};

TEST_F(WindowOffers, SayNothingWithoutAGpu) {
  Windows windows(cuda_, 0, {true, true});
  const WindowOffer offer = windows.offer(1, nullptr);
  EXPECT_EQ(offer.there, 0);
  EXPECT_EQ(offer.ready, 0);
  EXPECT_EQ(windows.decide(1, bytes_of({offer, offer})), Branch::kOtherwise);
}

TEST_F(WindowOffers, LeadToWindowsOnceAllAreMapped) {
  auto all = ranks(3);
  EXPECT_EQ(decided(all, 1, offers_of(all, 1)), std::vector(3, Branch::kOtherwise));
  const Said said = offers_of(all, 2);
  EXPECT_EQ(decided(all, 2, said), std::vector(3, Branch::kPeers));
  for (int rank = 0; rank < 3; ++rank)
    for (int reader = 0; reader < 3; ++reader)
      EXPECT_EQ(all[static_cast<size_t>(reader)]->of(2, rank),
                all[static_cast<size_t>(rank)]->of(2, rank));
  EXPECT_EQ(all[0]->calls(), 1U);
  EXPECT_NE(all[0]->take_news(), "");
  EXPECT_EQ(all[0]->take_news(), "") << "once";
}

// Who sums scales what each rank gives by what that said, call by call.
TEST_F(WindowOffers, SayByWhatRanksScale) {
  auto all = ranks(2);
  (void)decided(all, 0, offers_of(all, 0));
  for (const uint64_t call : {1, 2}) {
    Said said = offers_of(all, call);
    for (size_t rank = 0; rank < 2; ++rank)
      said[rank].scalar.fill(static_cast<std::byte>(10 * call + rank));
    ASSERT_EQ(decided(all, call, said), std::vector(2, Branch::kPeers));
  }
  for (const auto& rank : all)
    for (const uint64_t call : {1, 2}) {
      ASSERT_EQ(rank->scalars(call).size(), 2U);
      EXPECT_EQ(rank->scalars(call)[0].front(), static_cast<std::byte>(10 * call));
      EXPECT_EQ(rank->scalars(call)[1].back(), static_cast<std::byte>(10 * call + 1));
    }
  all[0]->withdraw(1);
  EXPECT_TRUE(all[0]->scalars(1).empty());
}

TEST_F(WindowOffers, HaveRoomForTwoCalls) {
  auto all = ranks(2);
  (void)decided(all, 0, offers_of(all, 0));
  EXPECT_EQ(decided(all, 1, offers_of(all, 1)), std::vector(2, Branch::kPeers));
  EXPECT_EQ(decided(all, 2, offers_of(all, 2)), std::vector(2, Branch::kPeers));
  EXPECT_NE(all[0]->of(1, 1), all[0]->of(2, 1));
  EXPECT_EQ(decided(all, 3, offers_of(all, 3)), std::vector(2, Branch::kOtherwise));
  for (const auto& rank : all) rank->withdraw(1);
  EXPECT_EQ(decided(all, 4, offers_of(all, 4)), std::vector(2, Branch::kPeers));
  for (const auto& rank : all) rank->withdraw_all();
  EXPECT_EQ(all[0]->of(2, 1), nullptr);
}

// What comes behind offers is not a window's; where that says so, the call holds no place.
TEST_F(WindowOffers, HaveListsBehindThem) {
  auto all = ranks(2);
  (void)decided(all, 0, offers_of(all, 0));
  uint64_t call = 0;
  for (const bool fits : {true, false, true}) {
    const Said said = offers_of(all, ++call);
    std::vector<std::byte> longer(2 * (sizeof(WindowOffer) + 24), std::byte{0xff});
    for (size_t rank = 0; rank < 2; ++rank)
      std::memcpy(&longer[rank * longer.size() / 2], &said[rank], sizeof(WindowOffer));
    for (const auto& rank : all)
      EXPECT_EQ(rank->decide(call, longer, false, fits),
                fits ? Branch::kPeers : Branch::kOtherwise);
    EXPECT_EQ(all[0]->of(call, 1) != nullptr, fits);
  }
}

// A call that goes on otherwise holds no place.
TEST_F(WindowOffers, AreTakenBackWhereARankIsNotReady) {
  auto all = ranks(2);
  (void)decided(all, 0, offers_of(all, 0));
  for (uint64_t call = 1; call < 10; ++call) {
    Said said = offers_of(all, call);
    said[1].ready = 0;
    EXPECT_EQ(all[0]->decide(call, bytes_of(said)), Branch::kOtherwise);
    all[1]->withdraw(call);
  }
  EXPECT_EQ(decided(all, 10, offers_of(all, 10)), std::vector(2, Branch::kPeers));
}

TEST_F(WindowOffers, AreForOneGpuOfARank) {
  OpenGpu other(cuda_);
  ASSERT_TRUE(other.open(1).ok());
  auto all = ranks(2);
  (void)decided(all, 0, offers_of(all, 0));
  EXPECT_EQ(all[0]->offer(1, &other).ready, 0);
  EXPECT_EQ(all[0]->offer(2, &*gpu_).ready, 1);
}

// Threads whose GPUs differ reach each other's.
TEST_F(WindowOffers, LeadToWindowsOfOtherGpus) {
  OpenGpu other(cuda_);
  ASSERT_TRUE(other.open(1).ok());
  auto all = ranks(2);
  for (uint64_t call = 0; call < 2; ++call) {
    const Said said{all[0]->offer(call, &*gpu_), all[1]->offer(call, &other)};
    const Branch wanted = call == 0 ? Branch::kOtherwise : Branch::kPeers;
    EXPECT_EQ(decided(all, call, said), std::vector(2, wanted));
  }
}

TEST_F(WindowOffers, OfAnyBytesDoNoHarm) {
  std::mt19937_64 random(5);
  Windows windows(cuda_, 1, {true, false, false});
  for (uint64_t call = 0; call < 3000; ++call) {
    Said said(3);
    const WindowOffer own = windows.offer(call, &*gpu_);
    for (WindowOffer& offer : said) {
      std::byte* bytes = reinterpret_cast<std::byte*>(&offer);
      for (size_t i = 0; i < sizeof offer; ++i) bytes[i] = static_cast<std::byte>(random());
      // So that some are taken for offers.
      if (random() % 2 == 0) offer.magic = own.magic;
      if (random() % 2 == 0) offer.there = offer.ready = 1;
      if (random() % 2 == 0) offer.bytes = own.bytes;
      if (random() % 2 == 0) offer.place = 1;
    }
    said[1] = own;
    EXPECT_EQ(windows.decide(call, bytes_of(said)), Branch::kOtherwise);
  }
  EXPECT_NE(windows.take_news().find("cannot be mapped"), std::string::npos);
  EXPECT_EQ(windows.calls(), 0U);
}

// Who has mapped a window finds its memory there as long as it may read it.
TEST_F(WindowOffers, OfARankThatIsGoneLeadNowhere) {
  auto all = ranks(2);
  const Said first = offers_of(all, 0);
  all[1].reset();
  EXPECT_EQ(all[0]->decide(0, bytes_of(first)), Branch::kOtherwise);
  EXPECT_NE(all[0]->take_news().find("gone"), std::string::npos);

  auto others = ranks(2);
  (void)decided(others, 0, offers_of(others, 0));
  const Said said = offers_of(others, 1);
  EXPECT_EQ(others[0]->decide(1, bytes_of(said)), Branch::kPeers);
  std::byte* const theirs = others[0]->of(1, 1);
  others[1].reset();
  const CurrentContext current = gpu_->make_current();
  EXPECT_EQ(cuda_.fill(cuda_address(theirs), 7, 100, nullptr), kCudaSuccess);
  EXPECT_EQ(cuda_.synchronize_stream(nullptr), kCudaSuccess);
}

TEST_F(WindowOffers, AreNotReadyAfterTheLastCall) {
  auto all = ranks(2);
  (void)decided(all, 0, offers_of(all, 0));
  all[0]->leave_others();
  const Said said = offers_of(all, 1);
  EXPECT_EQ(said[0].ready, 0);
  EXPECT_EQ(all[1]->decide(1, bytes_of(said)), Branch::kOtherwise);
}

}  // namespace
}  // namespace banyan::test
