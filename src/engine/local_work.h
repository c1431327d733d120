// Who runs the local steps of schedules: kernels of this host, which have ended when they return,
// or something that ends later, as a GPU does.
//
//   LocalWork::End end = work.run(step, cookie);
//   while (end.outcome == LocalWork::Outcome::kPending) {
//     std::array<LocalWork::End, 8> ends;
//     for (size_t i = 0, count = work.poll(ends); i < count; ++i)
//       if (ends[i].cookie == cookie) end = ends[i];
//   }
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "compression/kernels.h"
#include "src/base/codec.h"
#include "src/engine/steps.h"

namespace banyan {

// The numbers by which a call's codecs choose, beside their seed.
struct Chance {
  uint64_t step = 0;
  uint64_t tensor = 0;
};

// A local step where it meets memory. What it refers to outlives the work; but for the step itself,
// it is copied by who needs it after run() has returned.
struct LocalStep {
  const Step& step;
  const Spaces& spaces;
  const Arithmetic& arithmetic;
  uint64_t message_bytes = 0;         // of the message in the wire slot that the step reads
  std::span<const Coding> codings{};  // of the schedule
  Chance chance{};
  std::span<const Delegation> delegations{};  // of the schedule
};

// What a step's codec goes by, without a selection.
Coding coding_of(const LocalStep& local);

// Belongs to its engine, and to the same thread. No call blocks.
class LocalWork {
 public:
  // kCorrupt: the wire slot that the step reads holds no message of its codec. kFailed: whatever
  // works refuses, and why_failed() says why.
  enum class Outcome : uint8_t { kDone, kPending, kCorrupt, kFailed };
  struct End {
    uint64_t cookie = 0;
    Outcome outcome = Outcome::kDone;
    uint64_t message_bytes = 0;       // of the message that the step has written to a wire slot
    Branch branch = Branch::kAlways;  // that kDecide has chosen
  };

  virtual ~LocalWork() = default;
  // Begins a step, or does it. kPending: poll() will say how it has ended.
  virtual End run(const LocalStep& step, uint64_t cookie) = 0;
  // Writes what has ended since the last call, and returns how many.
  virtual size_t poll(std::span<End> ends) = 0;
  // arm() asks, for a sleep, that descriptor() becomes readable when poll() may have something;
  // false: it has something now. disarm() ends that.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  virtual int descriptor() const = 0;
  // After a failure: by the time that it returns, nothing that was begun touches memory any more,
  // and poll() will say nothing of it.
  virtual void abandon() = 0;
  virtual std::string why_failed() const { return {}; }
};

// The kernels and codecs of this host: nothing is ever pending.
class HostWork final : public LocalWork {
 public:
  explicit HostWork(const Kernels& kernels) : kernels_(kernels) {}
  // They outlive it.
  void use_codecs(std::span<const Codec> codecs) { codecs_ = codecs; }

  End run(const LocalStep& step, uint64_t cookie) override {
    if (step.step.codec != kNoCodec) return run_codec(step, cookie);
    if (step.step.op == Op::kOffer || step.step.op == Op::kDecide) return decline(step, cookie);
    run_local_step(step.step, step.spaces, step.arithmetic, kernels_);
    return {cookie, Outcome::kDone, 0};
  }
  size_t poll(std::span<End> /*ends*/) override { return 0; }
  bool arm() override { return true; }
  void disarm() override {}
  int descriptor() const override { return -1; }
  void abandon() override {}

 private:
  End run_codec(const LocalStep& local, uint64_t cookie) const;
  // A rank whose buffers are on the host has no window for the call, so all go on otherwise.
  static End decline(const LocalStep& local, uint64_t cookie);

  const Kernels& kernels_;
  std::span<const Codec> codecs_;
};

}  // namespace banyan
