// SPDX-License-Identifier: Apache-2.0

#include "transports/shm/rehearsal.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/base/copy.h"
#include "src/base/relax.h"
#include "transports/shm/choice.h"

namespace banyan::shm {
namespace {

// These rounds go twice through the ring of two ranks, which nobody has read the first time: what
// is known of later calls comes of the second half.
constexpr int kRounds = 12;
constexpr std::array<size_t, 4> kLengths = {16 << 10, 32 << 10, 64 << 10, kProbeBytes};
constexpr double kPatience = 0.05;  // seconds
constexpr int kWordBatches = 4, kWordsOfBatch = 16;
constexpr int kLooks = 100;  // for a word, before the core is given to another rank
constexpr uint64_t kNotMeasured = std::numeric_limits<uint64_t>::max();
// A rank that gives up says this, so that those that it keeps waiting go on.
constexpr uint64_t kAllRounds = std::numeric_limits<uint64_t>::max();

// The ranks of a host by number, the first behind the last.
struct Circle {
  const Neighbour* before = nullptr;
  size_t behind = 0;  // index of the peer
};

Circle circle_of(std::span<const Neighbour> peers, int rank) {
  const auto distance = [&](int from, int to) {
    return static_cast<uint32_t>(to) - static_cast<uint32_t>(from);
  };
  Circle circle{.before = peers.data(), .behind = 0};
  for (size_t i = 1; i < peers.size(); ++i) {
    if (distance(peers[i].rank, rank) < distance(circle.before->rank, rank))
      circle.before = &peers[i];
    if (distance(rank, peers[i].rank) < distance(rank, peers[circle.behind].rank))
      circle.behind = i;
  }
  return circle;
}

// Tells whether so many were played before the deadline, and their owner has not given up. `looks`:
// so often without a pause.
bool wait_for(const Word& rounds, uint64_t least, TimePoint deadline, int looks = 1) {
  uint64_t played = 0;
  for (int look = 1; (played = rounds.load(std::memory_order_acquire)) < least; ++look) {
    if (look < looks) {
      relax();
      continue;
    }
    if (Clock::now() >= deadline) return false;
    std::this_thread::yield();
  }
  return played != kAllRounds;
}

template <typename Function>
uint64_t nanoseconds_of(Function function) {
  const TimePoint begin = Clock::now();
  function();
  return nanoseconds_since(begin);
}

uint64_t one_after_the_other(uint64_t in, uint64_t out) {
  return in > kNotMeasured - out ? kNotMeasured : in + out;
}

double microseconds(uint64_t ns) {
  return static_cast<double>(ns) * 1e-3;
}

size_t ring_bytes(const Layout& layout) {
  return size_t{layout.slots[0]} * layout.slot_bytes[0];
}

void take_shorter(WayTimes& least, const WayTimes& other) {
  least.slots_ns = std::min(least.slots_ns, other.slots_ns);
  least.afar_ns = std::min(least.afar_ns, other.afar_ns);
}

MessageTime median_of(const std::vector<WayTimes>& rounds) {
  const auto median = [&](uint64_t WayTimes::*ns) {
    std::vector<uint64_t> sorted;
    for (const WayTimes& each : rounds) sorted.push_back(each.*ns);
    std::sort(sorted.begin(), sorted.end());
    return microseconds(sorted[sorted.size() / 2]);
  };
  return {rounds.front().bytes, median(&WayTimes::slots_ns), median(&WayTimes::first_ns),
          median(&WayTimes::again_ns), median(&WayTimes::write_ns)};
}

class Player {
 public:
  Player(const Territory& own, const Circle& circle, std::span<const Neighbour> peers,
         std::span<std::byte> probe)
      : mine_(&own.header().rehearsal),
        before_(&circle.before->header().rehearsal),
        behind_(&peers[circle.behind].header().rehearsal),
        from_(circle.before),
        slots_(own.block(circle.behind) + own.layout.payload_at(0)),
        own_ring_(ring_bytes(own.layout)),
        probe_(probe),
        scratch_(probe.size()) {}

  // One message. Whether the others kept step, and the memory could be read.
  bool play(WayTimes& collective, WayTimes& message) {
    ++round_;
    if (!wait_for(behind_->read, round_ - 1, deadline_)) return false;
    write(collective);
    return wait_for(before_->written, round_, deadline_) && read(collective, message);
  }

  // Gives the nanoseconds that a word takes from one rank to the next, the least of some batches:
  // each round has two that follow each other. Nothing where the others did not keep step.
  std::optional<uint64_t> play_words() {
    uint64_t least = kNotMeasured;
    for (int batch = 0; batch < kWordBatches; ++batch) {
      const TimePoint begin = Clock::now();
      for (int word = 0; word < kWordsOfBatch; ++word) {
        ++round_;
        if (!wait_for(behind_->read, round_ - 1, deadline_, kLooks)) return std::nullopt;
        mine_->written.store(round_, std::memory_order_release);
        if (!wait_for(before_->written, round_, deadline_, kLooks)) return std::nullopt;
        mine_->read.store(round_, std::memory_order_release);
      }
      least = std::min(least, nanoseconds_since(begin) / (2 * kWordsOfBatch));
    }
    return least;
  }

  void give_up() {
    mine_->read.store(kAllRounds, std::memory_order_release);
    mine_->written.store(kAllRounds, std::memory_order_release);
  }

 private:
  // Messages follow each other through the ring, as those of calls do.
  size_t place_of(size_t bytes, size_t ring) const {
    const size_t begin = played_bytes_ % ring;
    return begin + bytes <= ring ? begin : 0;
  }

  // A rank does so that makes what it sends. The first word stays, by which peers know the probe.
  void write(WayTimes& collective) {
    const size_t bytes = collective.bytes;
    const auto message = probe_.subspan(sizeof(uint64_t), bytes - sizeof(uint64_t));
    collective.write_ns = nanoseconds_of(
        [&] { std::fill(message.begin(), message.end(), static_cast<std::byte>(round_)); });
    std::byte* to = slots_ + place_of(bytes, own_ring_);
    const uint64_t ns = nanoseconds_of([&] { copy_bytes(to, probe_.data(), bytes); });
    mine_->copy_ns.store(ns, std::memory_order_relaxed);
    mine_->written.store(round_, std::memory_order_release);
  }

  bool read(WayTimes& collective, WayTimes& message) {
    const size_t bytes = collective.bytes;
    const std::byte* slots =
        from_->block + from_->layout.payload_at(0) + place_of(bytes, ring_bytes(from_->layout));
    const uint64_t in = before_->copy_ns.load(std::memory_order_relaxed);
    const uint64_t out = nanoseconds_of([&] { copy_bytes(scratch_.data(), slots, bytes); });
    const std::optional<uint64_t> first = read_afar(bytes);
    const std::optional<uint64_t> again = read_afar(bytes);
    played_bytes_ += bytes;
    mine_->read.store(round_, std::memory_order_release);
    if (!first || !again) return false;
    const uint64_t slot = from_->layout.slot_bytes[static_cast<size_t>(Lane::kMessage)];
    collective.slots_ns = one_after_the_other(in, out);
    message.slots_ns = overlapping_ns(in, out, bytes, slot);
    collective.afar_ns = message.afar_ns = afar_ns(*first, *again);
    collective.first_ns = *first;
    collective.again_ns = *again;
    return true;
  }

  // Nanoseconds; nothing where the memory could not be read.
  std::optional<uint64_t> read_afar(size_t bytes) {
    int error = 0;
    const uint64_t ns = nanoseconds_of([&] {
      error =
          read_memory(from_->owner, from_->header().facts.probe_address, scratch_.data(), bytes);
    });
    return error == 0 ? std::optional(ns) : std::nullopt;
  }

  Rehearsal* mine_;
  const Rehearsal* before_;
  const Rehearsal* behind_;
  const Neighbour* from_;
  std::byte* slots_;
  size_t own_ring_;
  std::span<std::byte> probe_;
  std::vector<std::byte> scratch_;
  uint64_t round_ = 0;
  size_t played_bytes_ = 0;  // before this round
  TimePoint deadline_ = deadline_after(kPatience);
};

}  // namespace

uint64_t overlapping_ns(uint64_t in, uint64_t out, uint64_t bytes, uint64_t slot) {
  if (bytes <= slot) return one_after_the_other(in, out);
  const double alone = static_cast<double>(std::min(in, out)) * static_cast<double>(slot) /
                       static_cast<double>(bytes);
  return one_after_the_other(std::max(in, out), static_cast<uint64_t>(alone));
}

uint64_t afar_ns(uint64_t first, uint64_t again) {
  return static_cast<uint64_t>(std::sqrt(static_cast<double>(first) * static_cast<double>(again)));
}

uint64_t choose_afar_least(std::span<const WayTimes> times) {
  uint64_t least = 0;
  for (size_t i = times.size(); i-- > 0 && times[i].afar_ns <= times[i].slots_ns;)
    least = times[i].bytes;
  return least;
}

uint64_t choose_afar_least_of_collectives(std::span<const WayTimes> times) {
  const uint64_t least = choose_afar_least(times);
  if (least != 0 || times.empty()) return least;
  const WayTimes& longest = times.back();
  const bool by_much =
      static_cast<double>(longest.afar_ns) >= kSlotsByMuch * static_cast<double>(longest.slots_ns);
  return by_much ? 0 : kAfarBeyondCachesLeast;
}

std::optional<Rehearsed> rehearse(const Territory& own, std::span<const Neighbour> peers, int rank,
                                  std::span<std::byte> probe) {
  if (peers.empty()) return std::nullopt;
  const Circle circle = circle_of(peers, rank);
  const size_t most =
      std::min({ring_bytes(own.layout), ring_bytes(circle.before->layout), probe.size()});
  if (most < kAfarOfCollectivesLeast) return std::nullopt;
  std::vector<WayTimes> times;
  for (const size_t bytes : kLengths)
    if (bytes <= most)
      times.push_back({.bytes = bytes, .slots_ns = kNotMeasured, .afar_ns = kNotMeasured});
  std::vector<WayTimes> of_messages = times;
  Player player(own, circle, peers, probe);
  const std::optional<uint64_t> word = player.play_words();
  if (!word) {
    player.give_up();
    return std::nullopt;
  }
  std::vector<std::vector<WayTimes>> settled(times.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < times.size(); ++i) {
      WayTimes collective{.bytes = times[i].bytes}, message = collective;
      if (!player.play(collective, message)) {
        player.give_up();
        return std::nullopt;
      }
      take_shorter(times[i], collective);
      take_shorter(of_messages[i], message);
      if (round >= kRounds / 2) settled[i].push_back(collective);
    }
  }
  Rehearsed result{
      .times = {.afar_least = kAfarOfCollectivesLeast, .word_us = microseconds(*word)}};
  for (const std::vector<WayTimes>& each : settled)
    result.times.messages.push_back(median_of(each));
  std::erase_if(times, [](const WayTimes& each) { return each.bytes < kAfarOfCollectivesLeast; });
  result.least = {choose_afar_least_of_collectives(times), choose_afar_least(of_messages)};
  return result;
}

}  // namespace banyan::shm
