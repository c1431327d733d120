// SPDX-License-Identifier: Apache-2.0

#include "algorithms/host_windows.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "algorithms/generators.h"
#include "algorithms/levels.h"
#include "algorithms/peers.h"

namespace banyan {

bool may_have_host_windows(const Group& group, const Problem& problem, const Hierarchy& levels) {
  return group.has_windows_inside &&
         may_go_by_peers_inside(problem, group.size(), levels, group.parameters);
}

Group in_order_inside(const Group& group) {
  Group ordered = group;
  ordered.parameters.intra = Phase::kDirect;
  return ordered;
}

int pieces_in_windows(const Problem& problem, uint64_t elements, uint64_t unit) {
  const uint64_t most = kHostWindowPlace / (unit * size_of(problem.accumulator()));
  const uint64_t units = elements / unit + (elements % unit != 0 ? 1 : 0);
  return static_cast<int>((units + most - 1) / most);
}

HostWindows::HostWindows(ScheduleBuilder& builder, const Problem& problem, Group host,
                         bool delegates)
    : problem_(problem),
      host_(std::move(host)),
      talk_(builder, problem, host_),
      width_(size_of(problem.accumulator())),
      converts_(width_ != problem.element() || problem.op == ReduceOp::kPreMulSum),
      delegates_(delegates) {
  builder.set_window_ranks({host_.ranks.begin(), host_.ranks.end()});
}

HostWindows::Exchange& HostWindows::next() {
  const uint64_t number = exchanges_.size();
  const uint64_t begin = number % kHostWindowPlaces * kHostWindowPlace;
  const auto before = static_cast<int64_t>(number) - static_cast<int64_t>(kHostWindowPlaces);
  return exchanges_.emplace_back(
      Exchange{{Space::kWindow, begin, kHostWindowPlace}, std::max<int64_t>(before, -1)});
}

StepIds HostWindows::free(const Exchange& exchange) const {
  if (exchange.before < 0) return {};
  const Exchange& before = exchanges_[static_cast<size_t>(exchange.before)];
  return all_of(before.done, before.read[static_cast<size_t>(host_.me)]);
}

// Into this rank's window, or where this rank takes what it gives itself.
StepIds HostWindows::write(Slice from, Slice to, bool as_sums, const StepIds& after) {
  if (from.size == 0 || from == to) return {};
  return {talk_.add({.op = as_sums ? Op::kDecode : Op::kCopy,
                     .type = problem_.type,
                     .memory = MemoryKind::kDevice,
                     .src = from,
                     .src2 = {},
                     .dst = to},
                    after)};
}

StepIds HostWindows::read(int place, Slice from, Slice to, const StepIds& after) {
  if (to.size == 0) return {};
  return {talk_.add({.op = Op::kCopy,
                     .type = problem_.type,
                     .memory = MemoryKind::kDevice,
                     .peer = host_.at(place),
                     .src = from,
                     .src2 = {},
                     .dst = to},
                    after)};
}

void HostWindows::finish(Exchange& exchange, std::vector<StepIds> read) {
  for (size_t place = 0; place < read.size() && exchange.before >= 0; ++place)
    if (read[place].empty())
      read[place] = exchanges_[static_cast<size_t>(exchange.before)].read[place];
  exchange.read = std::move(read);
  talk_.for_others(
      [&](int place) { talk_.tell(place, exchange.read[static_cast<size_t>(place)]); });
  talk_.for_others([&](int place) { exchange.done.push_back(talk_.hear(place)); });
}

// As much of a window has what a rank gives as accumulators and, behind that, what others give it,
// in parts which may each be longer than its share by a unit.
void HostWindows::reduce_delegated(const std::vector<Slice>& blocks, Slice sum) {
  constexpr uint64_t kRooms = 3;
  const Slice room{Space::kWindow, reduced_++ % kRooms * (kWindowBytes / kRooms / 64 * 64),
                   kWindowBytes / kRooms / 64 * 64};
  const auto wide = [&](const Slice& block) { return block.size / problem_.element() * width_; };
  const uint64_t own = wide(blocks[static_cast<size_t>(host_.me)]);
  const Slice taken = room.sub(kHostWindowPlace, own * blocks.size());
  assert(taken.end() <= room.end());
  Delegation round;
  uint64_t begin = 0;
  for (size_t place = 0; place < blocks.size(); ++place) {
    const Slice widened = room.sub(begin, wide(blocks[place]));
    if (converts_) write(blocks[place], widened, true, {});
    round.to.push_back(converts_ ? widened : blocks[place]);
    round.from.push_back(taken.sub(own * place, own));
    begin += widened.size;
  }
  talk_.delegate(std::move(round));
  if (own == 0) return;
  talk_.add({.op = Op::kFold,
             .type = problem_.accumulator(),
             .memory = MemoryKind::kDevice,
             .src = taken.sub(0, own),
             .src2 = taken,
             .dst = sum},
            {});
}

void HostWindows::gather_delegated(const std::vector<Slice>& blocks) {
  const auto me = static_cast<size_t>(host_.me);
  Delegation round{std::vector(blocks.size(), blocks[me]), blocks};
  round.to[me] = round.from[me] = {};
  talk_.delegate(std::move(round));
}

void HostWindows::reduce(const std::vector<Slice>& blocks, Slice sum) {
  if (delegates_) return reduce_delegated(blocks, sum);
  Exchange& exchange = next();
  const bool at_once = packed(blocks);
  StepIds there;
  Slice own;
  uint64_t begin = 0;
  for (size_t place = 0; place < blocks.size(); ++place) {
    const uint64_t bytes = blocks[place].size / problem_.element() * width_;
    const Slice to = exchange.place.sub(begin, bytes);
    if (static_cast<int>(place) == host_.me) own = to;
    if (!at_once) there = all_of(write(blocks[place], to, converts_, free(exchange)), there);
    begin += bytes;
  }
  if (at_once) {
    const Slice all{blocks.front().space, blocks.front().offset,
                    begin / width_ * problem_.element()};
    there = write(all, exchange.place.sub(0, begin), converts_, free(exchange));
  }
  talk_.tell_all(there);
  const StepIds ready = talk_.hear_all();
  StepIds folded;
  if (own.size != 0)
    folded = {talk_.add({.op = Op::kFold,
                         .type = problem_.accumulator(),
                         .memory = MemoryKind::kDevice,
                         .src = own,
                         .src2 = {},
                         .dst = sum},
                        all_of(there, talk_.of_others(ready)))};
  finish(exchange, std::vector<StepIds>(blocks.size(), folded));
}

void HostWindows::gather(const std::vector<Slice>& blocks) {
  if (delegates_) return gather_delegated(blocks);
  Exchange& exchange = next();
  const auto block_of = [&](int place) { return blocks[static_cast<size_t>(place)]; };
  const Slice own = block_of(host_.me);
  talk_.tell_all(write(own, exchange.place.sub(0, own.size), false, free(exchange)));
  const StepIds ready = talk_.hear_all();
  std::vector<StepIds> read_by(blocks.size());
  talk_.for_others([&](int place) {
    const Slice block = block_of(place);
    const auto index = static_cast<size_t>(place);
    read_by[index] = read(place, exchange.place.sub(0, block.size), block, {ready[index]});
  });
  finish(exchange, std::move(read_by));
}

// Piece by piece, so that what a rank gives to all others has a place in its window.
void HostWindows::exchange(const std::vector<Slice>& given, const std::vector<Slice>& taken) {
  assert(!delegates_);
  constexpr uint64_t kLine = 64;
  const auto at = [](int place) { return static_cast<size_t>(place); };
  const uint64_t most = kHostWindowPlace / given.size() / kLine * kLine;
  const uint64_t block = given.front().size;
  write(given[at(host_.me)], taken[at(host_.me)], false, {});
  for (uint64_t begin = 0; begin < block; begin += most) {
    const uint64_t bytes = std::min(most, block - begin);
    Exchange& exchange = next();
    const auto room_of = [&](int place) { return exchange.place.sub(most * at(place), bytes); };
    StepIds there;
    talk_.for_others([&](int place) {
      there = all_of(
          write(given[at(place)].sub(begin, bytes), room_of(place), false, free(exchange)), there);
    });
    talk_.tell_all(there);
    const StepIds ready = talk_.hear_all();
    std::vector<StepIds> read_by(given.size());
    talk_.for_others([&](int place) {
      read_by[at(place)] =
          read(place, room_of(host_.me), taken[at(place)].sub(begin, bytes), {ready[at(place)]});
    });
    finish(exchange, std::move(read_by));
  }
}

std::unique_ptr<HostWindows> host_windows(ScheduleBuilder& builder, const Group& group,
                                          const Problem& problem, const Hierarchy& levels) {
  if (!may_have_host_windows(group, problem, levels)) return nullptr;
  const Group host = group_of(group, levels.members(0, levels.part_of(0, group.me)));
  if (host.size() < 2) return nullptr;
  auto windows =
      std::make_unique<HostWindows>(builder, problem, host, group.parameters.intra == Phase::kNccl);
  windows->agree(whole_input(group, problem), whole_output(group, problem));
  return windows;
}

}  // namespace banyan
