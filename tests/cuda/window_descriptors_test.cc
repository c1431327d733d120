// Windows that go by descriptors: each rank here is another process as far as it knows, and the
// stand-in opens no handle for who has lent it.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/cuda/windows.h"
#include "tests/cuda/standin_library.h"

namespace banyan::test {
namespace {

using Said = std::vector<WindowOffer>;

constexpr int kNotSupported = 801;
constexpr uint64_t kMostCalls = 8;  // until all have what they want

bool is_empty(const MailboxName& name) {
  return name == MailboxName{};
}

MailToken token_of(const WindowOffer& offer) {
  MailToken token{};
  std::memcpy(token.data(), &offer.handle, token.size());
  return token;
}

class WindowDescriptors : public WithStandinCuda {
 protected:
  void SetUp() override {
    WithStandinCuda::SetUp();
    gpu_.emplace(cuda_);
    other_.emplace(cuda_);
    ASSERT_TRUE(gpu_->open(0).ok());
    ASSERT_TRUE(other_->open(1).ok());
    before_ = live();
    before_descriptors_ = descriptors();
    if (gpu_->kernels() == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
  }
  void TearDown() override {
    EXPECT_EQ(live(), before_);
    EXPECT_EQ(descriptors(), before_descriptors_);
    other_.reset();
    gpu_.reset();
    WithStandinCuda::TearDown();
  }
  std::vector<long> live() const {
    std::vector<long> counts;
    for (const char* what : {"memory", "physical", "handles", "ranges"})
      counts.push_back(standin_.live(what));
    return counts;
  }

  static long descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  }

  std::unique_ptr<Windows> rank(int number, std::vector<bool> in_process) const {
    return std::make_unique<Windows>(cuda_, number, std::move(in_process));
  }
  std::vector<std::unique_ptr<Windows>> strangers() const {
    std::vector<std::unique_ptr<Windows>> made;
    made.push_back(rank(0, {true, false}));
    made.push_back(rank(1, {false, true}));
    return made;
  }
  static Branch decided(Windows& by, uint64_t call, const Said& said) {
    return by.decide(call, std::as_bytes(std::span(said)));
  }
  // A round of all ranks: what they said, and whether all go by windows.
  struct Round {
    Said said;
    bool by_windows = true;
  };
  Round call(std::vector<std::unique_ptr<Windows>>& ranks, uint64_t number) {
    Round round;
    for (const auto& each : ranks) round.said.push_back(each->offer(number, &*gpu_));
    for (const auto& each : ranks)
      round.by_windows = decided(*each, number, round.said) == Branch::kPeers && round.by_windows;
    return round;
  }
  Descriptor file() const {
    Descriptor made(::memfd_create("some file", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(made.get(), off_t{1} << 30), 0);
    return made;
  }

  std::optional<OpenGpu> gpu_, other_;
  std::vector<long> before_;
  long before_descriptors_ = 0;
};

TEST_F(WindowDescriptors, ReachOtherProcesses) {
  auto all = strangers();
  uint64_t number = 0;
  while (number < kMostCalls && !call(all, number).by_windows) ++number;
  ASSERT_EQ(number, 5U) << "as docs/gpu.md says";
  const std::byte* const own = all[0]->of(number, 0);
  const std::byte* const seen = all[1]->of(number, 0);
  EXPECT_NE(own, seen) << "it is mapped twice";
  const CurrentContext current = gpu_->make_current();
  ASSERT_EQ(cuda_.fill(cuda_address(own) + 12345, 7, 1, nullptr), kCudaSuccess);
  ASSERT_EQ(cuda_.synchronize(), kCudaSuccess);
  char got = 0;
  standin_.peek(&got, cuda_address(seen) + 12345, 1);
  EXPECT_EQ(got, 7);
  const std::string news = all[0]->take_news();
  EXPECT_NE(news.find("by a descriptor: rank 1 cannot open"), std::string::npos) << news;
  // Nobody waits for a descriptor any more.
  for (const auto& each : all) each->withdraw_all();
  for (const WindowOffer& offer : call(all, number + 1).said) {
    EXPECT_TRUE(is_empty(offer.mailbox));
    EXPECT_EQ(offer.wants, 0);
    EXPECT_EQ(offer.ready, 1);
  }
  EXPECT_EQ(standin_.live("handles"), before_[2]) << "mappings keep their memory by themselves";
  // The driver has one for each: two windows, mapped twice, and the two from before.
  EXPECT_EQ(descriptors(), before_descriptors_ + 4 + 2);
}

// A reader may end before its owner, and the owner before its reader.
TEST_F(WindowDescriptors, LastAsLongAsWhoReadsThem) {
  for (const size_t first : {size_t{0}, size_t{1}}) {
    auto all = strangers();
    uint64_t number = 0;
    while (number < kMostCalls && !call(all, number).by_windows) ++number;
    ASSERT_LT(number, kMostCalls);
    const std::byte* const seen = all[1 - first]->of(number, static_cast<int>(first));
    all[first].reset();
    const CurrentContext current = gpu_->make_current();
    EXPECT_EQ(cuda_.fill(cuda_address(seen), 7, 100, nullptr), kCudaSuccess);
    EXPECT_EQ(cuda_.synchronize(), kCudaSuccess);
  }
}

// Threads of one process have the address also of such memory, and of another GPU's.
TEST_F(WindowDescriptors, AreAddressesForThreads) {
  std::vector<std::unique_ptr<Windows>> all;
  for (int number = 0; number < 2; ++number) {
    all.push_back(rank(number, {true, true, false}));
    standin_.fail("cuIpcGetMemHandle", 0, kNotSupported);
    (void)all.back()->offer(0, number == 0 ? &*gpu_ : &*other_);
  }
  for (uint64_t number = 1; number < 3; ++number) {
    const Said said{all[0]->offer(number, &*gpu_), all[1]->offer(number, &*other_), {}};
    for (const auto& each : all) (void)decided(*each, number, said);
  }
  const Said said{all[0]->offer(3, &*gpu_), all[1]->offer(3, &*other_)};
  EXPECT_EQ(said[0].way, WindowWay::kDescriptor);
  EXPECT_EQ(said[0].has, 2);
  EXPECT_EQ(said[1].has, 1);
  const CurrentContext current = other_->make_current();
  EXPECT_EQ(cuda_.fill(said[0].address, 7, 100, nullptr), kCudaSuccess) << "from the other GPU";
  EXPECT_EQ(cuda_.synchronize(), kCudaSuccess);
}

// The test is rank 2, which is ready from the start and wants another way while a call runs.
TEST_F(WindowDescriptors, AreMadeWhenNoCallIsInTheWindow) {
  const auto me = rank(0, {true, false});
  ExportedWindow theirs;
  {
    Result<ExportedWindow> made = export_window(cuda_, *gpu_, 2 * kWindowBytes);
    ASSERT_TRUE(made.ok()) << made.status().message();
    theirs = std::move(*made);
  }
  WindowOffer peer = me->offer(0, &*gpu_);
  peer.way = WindowWay::kDescriptor;
  peer.handle.bytes[0] ^= 1;
  peer.ready = 1;
  const auto round = [&](uint64_t number) {
    const WindowOffer mine = me->offer(number, &*gpu_);
    if (!is_empty(mine.mailbox)) {
      EXPECT_TRUE(send_descriptor(mine.mailbox, token_of(peer), theirs.descriptor).ok());
    }
    return std::pair(mine, decided(*me, number, {mine, peer}));
  };
  (void)round(1);
  (void)round(2);
  EXPECT_EQ(round(3).second, Branch::kPeers);
  const std::byte* const window = me->of(3, 0);
  peer.wants = 1;
  peer.ready = 0;
  (void)round(4);
  const auto [during, during_branch] = round(5);
  EXPECT_EQ(during.way, WindowWay::kHandle) << "call 3 is in it";
  EXPECT_EQ(during.ready, 0);
  EXPECT_EQ(me->of(3, 0), window);
  me->withdraw(3);
  const auto [after, after_branch] = round(6);
  EXPECT_EQ(after.way, WindowWay::kDescriptor);
  EXPECT_EQ(after.ready, 0) << "the peer does not have it yet";
  peer.has = 1;
  (void)round(7);
  peer.ready = 1;
  EXPECT_EQ(round(8).second, Branch::kPeers);
  EXPECT_NE(me->of(8, 0), window);
}

TEST_F(WindowDescriptors, OfStrangersAreNotTaken) {
  auto all = strangers();
  (void)call(all, 0);
  const WindowOffer waiting = all[0]->offer(1, &*gpu_);
  ASSERT_FALSE(is_empty(waiting.mailbox));
  const Descriptor some = file();
  MailToken token{};
  int letters = 0;
  while (send_descriptor(waiting.mailbox, token, some).ok()) {
    ASSERT_TRUE(draw_random(token).ok());
    ++letters;
  }
  EXPECT_GT(letters, 0);
  uint64_t number = 1;
  while (number < 2 * kMostCalls && !call(all, number).by_windows) ++number;
  EXPECT_LT(number, 2 * kMostCalls) << "they come through all the same";
}

// A peer that sends something else has no window.
TEST_F(WindowDescriptors, ThatAreNoneAreRefused) {
  const auto me = rank(0, {true, false});
  WindowOffer peer = me->offer(0, &*gpu_);
  peer.way = WindowWay::kDescriptor;
  peer.handle.bytes[0] ^= 1;
  (void)decided(*me, 0, {me->offer(0, &*gpu_), peer});
  const WindowOffer waiting = me->offer(1, &*gpu_);
  ASSERT_TRUE(send_descriptor(waiting.mailbox, token_of(peer), file()).ok());
  (void)decided(*me, 1, {waiting, peer});
  const std::string news = me->take_news();
  EXPECT_NE(news.find("cuMemImportFromShareableHandle: CUDA_ERROR_INVALID_VALUE"),
            std::string::npos)
      << news;
  EXPECT_TRUE(is_empty(me->offer(2, &*gpu_).mailbox));
}

// One that is shorter than a window is none.
TEST_F(WindowDescriptors, HaveTheLengthOfAWindow) {
  const auto me = rank(0, {true, false});
  const Result<ExportedWindow> theirs = export_window(cuda_, *gpu_, kWindowBytes);
  ASSERT_TRUE(theirs.ok());
  WindowOffer peer = me->offer(0, &*gpu_);
  peer.way = WindowWay::kDescriptor;
  peer.handle.bytes[0] ^= 1;
  (void)decided(*me, 0, {me->offer(0, &*gpu_), peer});
  const WindowOffer waiting = me->offer(1, &*gpu_);
  ASSERT_TRUE(send_descriptor(waiting.mailbox, token_of(peer), theirs->descriptor).ok());
  (void)decided(*me, 1, {waiting, peer});
  EXPECT_NE(me->take_news().find("cuMemMap"), std::string::npos);
  EXPECT_EQ(me->offer(2, &*gpu_).has, 0);
}

// Whatever a peer says later, it has one window by a descriptor.
TEST_F(WindowDescriptors, ChangeOnce) {
  auto all = strangers();
  uint64_t number = 0;
  while (number < kMostCalls && !call(all, number).by_windows) ++number;
  for (const auto& each : all) each->withdraw_all();
  const std::vector<long> held = live();
  for (const WindowWay way : {WindowWay::kHandle, WindowWay::kDescriptor, WindowWay::kHandleOnly}) {
    Said said{all[0]->offer(++number, &*gpu_), all[1]->offer(number, &*gpu_)};
    said[1].way = way;
    said[1].handle.bytes[5] ^= 1;
    (void)decided(*all[0], number, said);
    for (const auto& each : all) each->withdraw_all();
    EXPECT_EQ(live(), held);
    const WindowOffer after = all[0]->offer(++number, &*gpu_);
    EXPECT_EQ(after.ready, 1) << "it has the one that it had";
    EXPECT_EQ(after.has, 2);
    for (const auto& each : all) each->withdraw_all();
  }
}

// The test is rank 1, and its mailboxes are its own.
TEST_F(WindowDescriptors, AreSentOnceToAMailbox) {
  standin_.fail("cuIpcGetMemHandle", 0, kNotSupported);
  const auto me = rank(0, {true, false});
  WindowOffer peer = me->offer(0, &*gpu_);
  EXPECT_EQ(peer.way, WindowWay::kDescriptor);
  const MailToken token = token_of(peer);
  peer.handle.bytes[0] ^= 1;
  uint64_t number = 0;
  for (int mailboxes = 0; mailboxes < 2; ++mailboxes) {
    const Result<Mailbox> mailbox = Mailbox::open();
    ASSERT_TRUE(mailbox.ok());
    peer.mailbox = mailbox->name();
    for (int round = 0; round < 3; ++round, ++number)
      (void)decided(*me, number, {me->offer(number, &*gpu_), peer});
    const std::optional<Mailbox::Letter> letter = mailbox->take();
    ASSERT_TRUE(letter.has_value());
    EXPECT_EQ(letter->token, token);
    EXPECT_FALSE(mailbox->take().has_value());
  }
  // Who has it gets no other one.
  const Result<Mailbox> mailbox = Mailbox::open();
  ASSERT_TRUE(mailbox.ok());
  peer.mailbox = mailbox->name();
  peer.has = 1;
  (void)decided(*me, number, {me->offer(number, &*gpu_), peer});
  EXPECT_FALSE(mailbox->take().has_value());
}

TEST(Mailboxes, PassByWhatIsNoLetter) {
  Result<Mailbox> mailbox = Mailbox::open();
  ASSERT_TRUE(mailbox.ok()) << mailbox.status().message();
  EXPECT_FALSE(mailbox->take().has_value());
  const Descriptor some(::memfd_create("some file", MFD_CLOEXEC));
  MailToken token{};
  ASSERT_TRUE(draw_random(token).ok());
  ASSERT_TRUE(send_descriptor(mailbox->name(), token, some).ok());
  const std::optional<Mailbox::Letter> letter = mailbox->take();
  ASSERT_TRUE(letter.has_value());
  EXPECT_EQ(letter->token, token);
  EXPECT_TRUE(letter->descriptor.valid());
  EXPECT_NE(letter->descriptor.get(), some.get());
  const MailboxName gone = mailbox->name();
  mailbox = Mailbox::open();
  EXPECT_EQ(send_descriptor(gone, token, some).code(), Code::kSystem);
  int sent = 0;
  Status last;
  while (sent < 10000 && (last = send_descriptor(mailbox->name(), token, some)).ok()) ++sent;
  EXPECT_EQ(last.code(), Code::kBusy) << "after " << sent;
}

}  // namespace
}  // namespace banyan::test
