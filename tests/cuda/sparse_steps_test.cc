// Sparse codecs and onebit as local steps on a GPU: they make what those of the host make, and a
// message that the host refuses is corrupt there, too, and changes nothing.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "compression/codecs.h"
#include "src/cuda/copy_work.h"
#include "tests/cuda/standin_library.h"
#include "tests/support/codec_values.h"

namespace banyan::test {
namespace {

constexpr DataType kType = DataType::kFloat32;
constexpr uint64_t kCount = 70'001;
constexpr uint64_t kBytes = kCount * sizeof(float);
constexpr Slice kGiven{Space::kInput, 0, kBytes};
constexpr Slice kResult{Space::kOutput, 0, kBytes};
constexpr Slice kSelected{Space::kScratch, 0, sizeof(Selection)};
constexpr Slice kMessage{Space::kScratch, 64, kBytes + 1};

// The caller's buffers are on a GPU; both sides reach the working memory.
class SparseSteps : public WithStandinCuda {
 protected:
  void SetUp() override {
    WithStandinCuda::SetUp();
    input_ = device_memory(kBytes);
    output_ = device_memory(kBytes);
    scratch_ = pinned<std::byte>(kMessage.end());
    spaces_ = {there(input_), there(output_), scratch_};
    begin_anew();
  }
  void TearDown() override {
    work_.reset();
    WithStandinCuda::TearDown();
  }

  void begin_anew() {
    Result<std::unique_ptr<CopyWork>> work = CopyWork::create(cuda_);
    ASSERT_TRUE(work.ok()) << work.status().message();
    work_ = std::move(*work);
    ASSERT_TRUE(work_->open(there(input_)).ok());
  }

  static std::byte* there(Address address) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver gives addresses as numbers
    return reinterpret_cast<std::byte*>(address);
  }
  static const Codec& host(CodecId codec) { return codecs()[codec - size_t{1}]; }

  static Step step_of(Op op, CodecId codec, Slice src, Slice dst) {
    Step step;
    step.op = op;
    step.type = kType;
    step.codec = codec;
    step.memory = MemoryKind::kDevice;
    step.src = src;
    step.dst = dst;
    return step;
  }
  LocalWork::End run(const Step& step, const Coding& coding, uint64_t message_bytes = 0) {
    const LocalStep local{.step = step,
                          .spaces = spaces_,
                          .arithmetic = arithmetic_,
                          .message_bytes = message_bytes,
                          .codings = {&coding, 1}};
    LocalWork::End end = work_->run(local, 7);
    while (end.outcome == LocalWork::Outcome::kPending) (void)work_->poll({&end, 1});
    return end;
  }
  LocalWork::End decode(Op op, CodecId codec, const Coding& coding, uint64_t message_bytes) {
    const bool adds = op == Op::kDecodeAdd;
    Step step = step_of(op, codec, adds ? kResult : kMessage, kResult);
    if (adds) step.src2 = kMessage;
    return run(step, coding, message_bytes);
  }
  std::byte* message() const { return scratch_ + kMessage.offset; }
  Memory result() const {
    Memory values(kBytes);
    standin_.peek(values.data(), output_, kBytes);
    return values;
  }

  const Arithmetic arithmetic_{};
  Address input_ = 0, output_ = 0;
  std::byte* scratch_ = nullptr;
  Spaces spaces_;
  std::unique_ptr<CopyWork> work_;
};

TEST_F(SparseSteps, SelectAndEncodeAsTheHost) {
  for (const uint64_t seed : {1, 2, 3}) {
    const Memory& mixed = mixed_values(kType, kCount, seed);
    const Memory values = seed == 3 ? finite_of(kType, mixed) : mixed;
    standin_.poke(input_, values.data(), kBytes);
    for (const CodecId codec : {kThreshold, kTopk, kNonzero, kSign, kRandk, kOnebit}) {
      const bool is_share = codec == kTopk || codec == kRandk;
      Coding coding{.parameter = is_share ? 0.01 : 2.0, .seed = seed};
      Step step = step_of(Op::kEncode, codec, kGiven, kMessage);
      if (codec == kTopk) {
        step.src2 = kSelected;
        ASSERT_EQ(run(step_of(Op::kSelect, codec, kGiven, kSelected), coding).outcome,
                  LocalWork::Outcome::kDone);
      }
      const LocalWork::End end = run(step, coding);
      ASSERT_EQ(end.outcome, LocalWork::Outcome::kDone) << work_->why_failed();
      const Message wanted = encoded(host(codec), coding, kType, values);
      ASSERT_EQ(end.message_bytes, wanted.bytes.size() + 1);
      EXPECT_EQ(Memory(message(), message() + wanted.bytes.size()), wanted.bytes);
      EXPECT_EQ(message()[wanted.bytes.size()], std::byte{wanted.said.flags});
    }
  }
}

// Some bytes of a message are others, or it is shorter, or longer.
TEST_F(SparseSteps, RefuseWhatTheHostRefuses) {
  std::mt19937_64 random(11);
  int refused = 0, taken = 0;
  constexpr std::pair<CodecId, double> kSorts[] = {
      {kThreshold, 1e30}, {kThreshold, 100}, {kThreshold, 2}, {kThreshold, 0},
      {kSign, 2},         {kSign, 1e30},     {kRandk, 0.01},  {kOnebit, 0}};
  for (const auto& [codec, threshold] : kSorts) {
    const Memory before = finite_of(kType, mixed_values(kType, kCount, 5));
    const Coding coding{.parameter = threshold};
    const Message message = encoded(host(codec), coding, kType, before);
    for (int round = 0; round < 60; ++round) {
      Memory changed = message.bytes;
      changed.push_back(std::byte{message.said.flags});
      const size_t changes = random() % 4;
      for (size_t i = 0; i < changes; ++i)
        changed[random() % 2 == 0 ? random() % changed.size() : changed.size() - 1 - random() % 2] =
            static_cast<std::byte>(random() % 4);
      if (round % 7 == 0) changed.resize(random() % changed.size());
      std::memcpy(this->message(), changed.data(), changed.size());
      standin_.poke(output_, before.data(), kBytes);
      Memory wanted = before;
      const bool adds = round % 2 != 0;
      bool is_good = !changed.empty();
      if (is_good) {
        const CodecMessage view{changed.data(), changed.size() - 1,
                                static_cast<uint8_t>(changed.back())};
        is_good =
            adds ? host(codec).decode_add(coding, kType, view, kCount, before.data(), wanted.data())
                 : host(codec).decode(coding, kType, view, kCount, wanted.data());
      }
      const LocalWork::End end =
          decode(adds ? Op::kDecodeAdd : Op::kDecode, codec, coding, changed.size());
      ASSERT_EQ(end.outcome, is_good ? LocalWork::Outcome::kDone : LocalWork::Outcome::kCorrupt);
      ASSERT_EQ(result(), wanted) << host(codec).name << threshold << ", round " << round;
      (is_good ? taken : refused) += 1;
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(taken, 50);
}

TEST_F(SparseSteps, SayWhatTheDriverRefuses) {
  standin_.poke(input_, mixed_values(kType, kCount, 1).data(), kBytes);
  const Coding coding{.parameter = 2};
  const Step step = step_of(Op::kEncode, kThreshold, kGiven, kMessage);
  for (const char* function : {"cuMemAlloc", "cuMemHostAlloc", "cuLaunchKernel"}) {
    begin_anew();
    standin_.fail(function, 0, 2);
    EXPECT_EQ(run(step, coding).outcome, LocalWork::Outcome::kFailed);
    EXPECT_NE(work_->why_failed().find(function), std::string::npos) << work_->why_failed();
    EXPECT_EQ(run(step, coding).outcome, LocalWork::Outcome::kDone) << "and goes on";
  }
}

// The last of several kernels is refused: by the time that the step has failed, none of the others
// runs any more.
TEST_F(SparseSteps, LeaveNothingBehindWhereTheyFail) {
  standin_.delay(2000);
  standin_.poke(input_, mixed_values(kType, kCount, 1).data(), kBytes);
  const Step step = step_of(Op::kEncode, kThreshold, kGiven, kMessage);
  for (int round = 0; round < 20; ++round) {
    begin_anew();
    ASSERT_EQ(run(step, {.parameter = 2}).outcome, LocalWork::Outcome::kDone);
    std::memset(message(), 0, kMessage.size);
    standin_.fail("cuLaunchKernel", 3, 2);
    ASSERT_EQ(run(step, {.parameter = 2}).outcome, LocalWork::Outcome::kFailed);
    std::memset(message(), 0, kMessage.size);
    // Longer than the driver delays what is enqueued: nothing tells of what should not be there.
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    ASSERT_EQ(Memory(message(), message() + kMessage.size), Memory(kMessage.size));
  }
}

// What kernels need is had once.
TEST_F(SparseSteps, AllocateNothingOnceTheyAreWarm) {
  const Coding coding{.parameter = 2};
  const Step step = step_of(Op::kEncode, kThreshold, kGiven, kMessage);
  ASSERT_EQ(run(step, coding).outcome, LocalWork::Outcome::kDone);
  const long memory = standin_.live("memory");
  for (int round = 0; round < 600; ++round)
    ASSERT_EQ(run(step, coding).outcome, LocalWork::Outcome::kDone);
  EXPECT_EQ(standin_.live("memory"), memory);
}

}  // namespace
}  // namespace banyan::test
