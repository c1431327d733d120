// The wire of a rank that needs no network in a communicator where others do.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/eventfd.h>

#include "src/base/descriptor.h"
#include "transports/framed/wire.h"

namespace banyan {

class NoWire final : public Wire {
 public:
  void send(int /*peer*/, uint64_t /*tag*/, const std::byte* /*memory*/, size_t /*bytes*/,
            WireOperation& operation) override {
    operation.code = Code::kPeerLost;
    operation.state = WireOperation::State::kDone;
  }
  void receive(uint64_t /*tag*/, std::byte* /*memory*/, size_t /*bytes*/,
               WireOperation& operation) override {
    operation.code = Code::kPeerLost;
    operation.state = WireOperation::State::kDone;
  }
  void cancel(WireOperation& /*operation*/) override {}
  void close() override {}
  void flush(WireOperation& operation) override { operation.state = WireOperation::State::kDone; }
  bool progress() override { return false; }
  bool lost(int /*peer*/) const override { return true; }
  bool arm() override { return true; }
  int descriptor() const override { return never_.get(); }

 private:
  Descriptor never_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

}  // namespace banyan
