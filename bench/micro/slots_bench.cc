// Handing a slot over: what a message costs both ends of a channel in shared memory, in one thread,
// so that no cache line moves. Through the queues, and past them (quick.h).
// SPDX-License-Identifier: Apache-2.0

#include <benchmark/benchmark.h>

#include <vector>

#include "transports/port.h"

namespace banyan::shm {
namespace {

class Channel {
 public:
  explicit Channel(size_t bytes) : memory_(bytes), result_(bytes) {
    message_.envelope.bytes = bytes;
    message_.memory = memory_.data();
    wanted_ = message_;
    wanted_.direction = Direction::kRecv;
    wanted_.memory = result_.data();
  }

  void through_queues() {
    send_.push(message_);
    recv_.push(wanted_);
    send_.progress(completions_);
    recv_.progress(completions_, {});
    completions_.pop(completions_.size());
  }

  void past_queues() {
    send_.send_whole(memory_.data(), message_.envelope);
    recv_.receive_whole(wanted_);
  }

 private:
  static constexpr uint32_t kSlots = 8;
  static constexpr uint32_t kSlotBytes = 32 << 10;

  std::vector<Line> lines_ = std::vector<Line>(kSlots);
  std::vector<std::byte> payload_ = std::vector<std::byte>(size_t{kSlots} * kSlotBytes);
  Word slots_read_ = 0;
  Word abilities_ = 0;
  Heap heap_;
  SendPort send_{{.lines = lines_.data(),
                  .payload = payload_.data(),
                  .slots = kSlots,
                  .slot_bytes = kSlotBytes,
                  .slots_read = &slots_read_,
                  .abilities = &abilities_,
                  .heap = &heap_}};
  RecvPort recv_{{.lines = lines_.data(),
                  .payload = payload_.data(),
                  .slots = kSlots,
                  .slot_bytes = kSlotBytes,
                  .slots_read = &slots_read_,
                  .owner = {}}};
  std::vector<std::byte> memory_, result_;
  Transfer message_, wanted_;
  Completions completions_;
};

template <void (Channel::*Pass)()>
void messages(benchmark::State& state) {
  Channel channel(static_cast<size_t>(state.range(0)));
  for ([[maybe_unused]] const auto& iteration : state) (channel.*Pass)();
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(messages<&Channel::through_queues>)
    ->Name("queues")
    ->Arg(8)
    ->Arg(256)
    ->Arg(4096)
    ->Arg(32768);
BENCHMARK(messages<&Channel::past_queues>)->Name("quick")->Arg(8)->Arg(256)->Arg(4096)->Arg(32768);

}  // namespace
}  // namespace banyan::shm

BENCHMARK_MAIN();
