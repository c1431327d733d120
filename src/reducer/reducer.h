// Sums the tensors of a model step by step: they become ready one by one, in any order and from any
// thread, share buckets that are sent while others are still computed, and are waited for.
//
//   Result<std::unique_ptr<GradientReducer>> made = GradientReducer::start(std::move(own), ...);
//   (*made)->ready(id, gradient);  // each tensor once in a step
//   (*made)->wait_all();
//
// It has a communicator of its own, whose Owner makes the calls. Buckets are sent in an order that
// is the same on all ranks, two at a time. A step ends when all of its buckets are reduced; only
// then does it count what is left of them, and begins the next one.
//
// The ranks agree from time to time on what each of them has seen: in which order buckets become
// full, and which of them is to be exact for a while.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "banyan/status.h"
#include "src/base/clock.h"
#include "src/communicator/membership.h"
#include "src/communicator/owner.h"
#include "src/reducer/bucket_run.h"
#include "src/reducer/buckets.h"
#include "src/reducer/figures.h"
#include "src/reducer/gradient_twins.h"
#include "src/reducer/tensor.h"

namespace banyan {

class GradientReducer final : private Owner::Listener {
 public:
  // `own` is for nobody else. It and `caller`, which outlives the reducer, fail together, but for
  // an abort of the caller's, which is to be followed by one of the reducer.
  static Result<std::unique_ptr<GradientReducer>> start(std::unique_ptr<Membership> own,
                                                        Membership& caller,
                                                        std::vector<Tensor> tensors,
                                                        const ReducerOptions& options);
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  ~GradientReducer() override;

  // What follows is for any thread, and for several at once.
  Status ready(uint64_t id, void* gradient);
  Status wait(uint64_t id);
  Status wait_all();
  // `bytes`: the room, and then what is needed. Nothing is written where that is more.
  Status save(std::byte* blob, size_t* bytes);
  Status load(std::span<const std::span<const std::byte>> blobs);
  Result<TensorFigures> figures(uint64_t id);
  TensorFigures all_figures();
  // Fails it on this rank.
  void abort() { membership_->abort(); }
  // Whether it may be destroyed: nothing is on its way, or it has failed.
  Status end();

 private:
  struct TensorRun {
    void* gradient = nullptr;
    // Steps, counted from 1: in which it was made ready, was reduced, and was waited for.
    uint64_t ready = 0, reduced = 0, waited = 0;
    std::vector<uint32_t> buckets{};  // with its pieces
    size_t unreduced = 0;             // pieces, in this step
  };
  struct Gradient {
    std::byte* address = nullptr;
    bool on_device = false;
  };
  struct BucketState {
    std::unique_ptr<BucketRun> run;
    size_t missing = 0;  // pieces whose tensors are not ready
    double full_at = 0;  // seconds since the step began
    double took = 0;     // seconds in which it was reduced
    TimePoint began;     // the owner's thread's, as the next two
    double fill_seconds = 0;
    uint64_t exact_until = 0;     // step
    Chance chance;                // of its call
    PackingWork* work = nullptr;  // of this step, as what follows
    std::byte* room = nullptr;    // where the work is
    std::vector<GradientPiece> pieces{};
  };

  GradientReducer(std::unique_ptr<Membership> own, Membership& caller, std::vector<Tensor> tensors,
                  const ReducerOptions& options);

  void prepares(uint64_t tag, Call& call) override;
  Status begins(uint64_t tag, Call& call, const Schedule& schedule) override;
  void ended(uint64_t tag, const Status& status, uint64_t sent, Clock::duration codec) override;
  void failed(const Status& status) override;

  void list_pieces(BucketState& bucket) const;
  bool goes_by_gpu(BucketState& bucket);
  std::span<std::byte* const> addresses_of(const BucketState& bucket);
  Result<bool> take_sums(size_t index);
  Status lost_gpu(const Status& why) const;
  Result<size_t> find(uint64_t id) const;
  std::string named(size_t tensor) const;
  bool has_failed();
  Status failure();
  Status settled_failure(std::unique_lock<std::mutex>& lock);
  Call call_of(BucketState& bucket) const;
  void send_what_is_full();
  bool agree();
  void take_agreement();
  void tell_fallback(size_t tensor);
  void end_bucket(size_t index, bool finite, uint64_t sent, double codec_seconds);
  void end_step();
  template <typename Reached, typename Missing>
  bool wait_until(std::unique_lock<std::mutex>& lock, const Reached& reached,
                  const Missing& missing);
  void give_up(std::unique_lock<std::mutex>& lock, size_t missing);
  std::optional<size_t> missing_for(size_t tensor) const;
  std::optional<size_t> first_missing() const;
  void say_waited(TensorRun& run, uint64_t step);
  Status check_idle(std::string_view call) const;

  const std::unique_ptr<Membership> membership_;
  Membership& caller_;
  const std::vector<Tensor> tensors_;
  const ReducerOptions options_;
  const std::vector<Bucket> layout_;
  std::unordered_map<uint64_t, size_t> index_;  // of tensors, by id
  bool scans_ = false;                          // somebody keeps something
  bool compresses_ = false;

  // What follows is the owner's thread's, but for what is said under the mutex.
  std::vector<float> scales_;
  HostPacking host_;
  std::vector<std::vector<std::byte>> rooms_;
  std::vector<std::byte*> free_rooms_;
  std::vector<double> agreement_;
  TimePoint last_end_;
  GradientTwins twins_;
  std::vector<std::byte*> addresses_;  // of the pieces of the bucket that begins

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<TensorRun> runs_;
  std::vector<BucketState> buckets_;
  std::vector<TensorLog> logs_;
  std::vector<Gradient> gradients_;  // by tensor
  std::vector<uint32_t> order_;      // in which buckets are sent
  size_t next_ = 0;                  // in order_
  size_t under_way_ = 0;             // buckets
  size_t reduced_ = 0;               // buckets, in this step
  size_t unwaited_ = 0;              // tensors that are ready and nobody has waited for
  uint64_t steps_done_ = 0;          // since it was made
  uint64_t first_step_ = 0;          // which a checkpoint has said
  bool finite_ = true;               // this step so far
  bool must_agree_ = true;
  bool agreeing_ = false;
  bool loaded_ = false;
  bool failed_ = false;
  uint64_t latest_step_ = 0;  // in which any tensor is ready
  TimePoint step_began_;
  TimePoint last_ready_;
  double waited_seconds_ = 0;

  std::unique_ptr<Owner> owner_;  // the last: its thread uses what is above
};

}  // namespace banyan
