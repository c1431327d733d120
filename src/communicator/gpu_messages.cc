// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/gpu_messages.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace banyan {
namespace {

// A context is current meanwhile; null: none need be.
class Within {
 public:
  explicit Within(const CopyWork* copies) {
    if (copies != nullptr) copies->enter_for_messages(current_);
  }

 private:
  std::optional<CurrentContext> current_;
};

class GpuMessages final : public Transport {
 public:
  GpuMessages(std::unique_ptr<Transport> inner, CopyWork& copies)
      : inner_(std::move(inner)), copies_(copies) {}

  std::string_view name() const override { return inner_->name(); }
  std::optional<uint64_t> carries_from(MemoryKind kind) const override {
    return inner_->carries_from(kind);
  }

  Status post(const Transfer& transfer) override {
    const bool in_gpu = transfer.kind == MemoryKind::kDevice;
    if (in_gpu) in_gpus_.push_back({transfer.cookie, transfer.direction == Direction::kRecv});
    const Within within = here();
    Status posted = inner_->post(transfer);
    if (in_gpu && !posted.ok()) in_gpus_.pop_back();
    return posted;
  }

  Result<size_t> poll(std::span<Completion> completions) override {
    const Within within = here();
    Result<size_t> count = inner_->poll(completions);
    if (!count.ok() || in_gpus_.empty()) return count;
    bool received = false;
    for (const Completion& completion : completions.first(*count))
      received = take(completion.cookie) && completion.code == Code::kOk ? true : received;
    if (received) BANYAN_TRY(copies_.settle_messages());
    return count;
  }

  std::optional<Envelope> peek(int peer, Lane lane) override {
    const Within within = here();
    return inner_->peek(peer, lane);
  }
  bool arm() override {
    const Within within = here();
    return inner_->arm();
  }
  void disarm() override {
    const Within within = here();
    inner_->disarm();
  }
  Status flush() override {
    const Within within = here();
    return inner_->flush();
  }
  bool settled() override {
    const Within within = here();
    return inner_->settled();
  }
  void abandon() override {
    const Within within = here();
    inner_->abandon();
    in_gpus_.clear();
  }

  Status report_delivery(int peer, Lane lane, uint64_t cookie) override {
    return inner_->report_delivery(peer, lane, cookie);
  }
  bool moved() const override { return inner_->moved(); }
  std::string why_failed(int peer, Lane lane) const override {
    return inner_->why_failed(peer, lane);
  }
  int cores() const override { return inner_->cores(); }
  int ranks_per_core() const override { return inner_->ranks_per_core(); }
  MessageTimes message_times() const override { return inner_->message_times(); }
  QuickLane* quick_lane(int peer, Lane lane) override { return inner_->quick_lane(peer, lane); }
  int descriptor() const override { return inner_->descriptor(); }
  Result<std::byte*> allocate(size_t bytes, TimePoint deadline) override {
    return inner_->allocate(bytes, deadline);
  }
  Status release(std::byte* memory) override { return inner_->release(memory); }

 private:
  struct InGpu {
    uint64_t cookie;
    bool receives;
  };

  Within here() const { return Within(in_gpus_.empty() ? nullptr : &copies_); }
  // Whether that was a receive into a GPU, which it is no longer.
  bool take(uint64_t cookie) {
    const auto found = std::find_if(in_gpus_.begin(), in_gpus_.end(),
                                    [&](const InGpu& one) { return one.cookie == cookie; });
    if (found == in_gpus_.end()) return false;
    const bool received = found->receives;
    in_gpus_.erase(found);
    return received;
  }

  std::unique_ptr<Transport> inner_;
  CopyWork& copies_;
  std::vector<InGpu> in_gpus_;  // what is under way
};

}  // namespace

std::unique_ptr<Transport> with_gpus(std::unique_ptr<Transport> inner, CopyWork& copies) {
  return std::make_unique<GpuMessages>(std::move(inner), copies);
}

}  // namespace banyan
