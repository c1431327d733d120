// The failure of one rank's communicator: its own abort, or the verdict that all ranks share.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <utility>

#include "banyan/status.h"
#include "src/liveness/verdict.h"

namespace banyan {

// Thread-safe. Once failed() it stays so, and status() stays the same.
class Failure {
 public:
  explicit Failure(VerdictBoard board) : board_(std::move(board)) {}

  // Two loads: looked at in every turn of a waiting loop.
  bool failed() const { return aborted_.load(std::memory_order_acquire) || board_.decided(); }

  // It has failed, and the caller knows.
  bool is_known() const {
    return aborted_.load(std::memory_order_acquire) || told_.load(std::memory_order_acquire);
  }

  bool aborted() const { return aborted_.load(std::memory_order_acquire); }

  Verdict verdict() const {
    if (aborted_.load(std::memory_order_acquire))
      return {Code::kAborted, -1, "this rank aborted the communicator"};
    return board_.read();
  }
  // For whoever asks outside a call.
  Status peek() const {
    const Verdict verdict = this->verdict();
    return verdict.code == Code::kOk ? Status() : Status(verdict.code, verdict.text);
  }

  // The result of a call. Once a call has returned it, an abort changes nothing any more.
  Status status() {
    const Verdict verdict = this->verdict();
    if (verdict.code == Code::kOk) return {};
    told_.store(true, std::memory_order_release);
    return {verdict.code, verdict.text};
  }

  // This rank gives up: kAborted from now on. False: the caller was told of a failure before.
  bool abort() {
    if (told_.load(std::memory_order_acquire)) return false;
    aborted_.store(true, std::memory_order_release);
    return true;
  }
  bool decide(const Verdict& verdict) { return board_.decide(verdict); }

  VerdictBoard& board() { return board_; }
  const VerdictBoard& board() const { return board_; }

 private:
  std::atomic<bool> aborted_{false};
  std::atomic<bool> told_{false};
  VerdictBoard board_;
};

}  // namespace banyan
