// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/engine_parts.h"

#include <algorithm>
#include <cstring>

#include "algorithms/algorithms.h"
#include "tests/support/delayed_work.h"
#include "tests/support/kernels_reference.h"
#include "tests/support/toy_codec.h"

namespace banyan::test {
namespace {

bool takes(const Transfer& receive, Envelope seen) {
  if (receive.up_to && seen.bytes <= receive.envelope.bytes) seen.bytes = receive.envelope.bytes;
  return seen == receive.envelope;
}

}  // namespace

class ScriptedTransport final : public Transport {
 public:
  ScriptedTransport(Hub& hub, int rank) : hub_(hub), rank_(rank) {}

  std::string_view name() const override { return "scripted"; }
  Status post(const Transfer& transfer) override { return hub_.post(rank_, transfer); }
  Result<size_t> poll(std::span<Completion> completions) override {
    return hub_.poll(rank_, completions);
  }
  std::optional<Envelope> peek(int peer, Lane lane) override {
    const auto& waiting = hub_.sent_[{peer, rank_, lane}];
    if (waiting.empty()) return std::nullopt;
    return waiting.front().envelope;
  }
  bool arm() override { return hub_.done_[rank_].empty(); }
  void disarm() override {}
  int descriptor() const override { return -1; }

 private:
  Hub& hub_;
  int rank_;
};

std::unique_ptr<Transport> Hub::transport(int rank) {
  return std::make_unique<ScriptedTransport>(*this, rank);
}

void Hub::inject(int from, int to, Lane lane, const Envelope& envelope) {
  sent_[{from, to, lane}].push_back({envelope, Bytes(envelope.bytes), 0, false});
  match({from, to, lane});
}

Status Hub::post(int rank, const Transfer& transfer) {
  ++posted_;
  if (moods_.busy_every != 0 && posted_ % moods_.busy_every == 0) return {Code::kBusy, ""};
  if (lost_[{rank, transfer.peer}]) {
    complete(rank, {.cookie = transfer.cookie, .code = Code::kPeerLost, .seen = {}});
    return {};
  }
  if (transfer.direction == Direction::kRecv) {
    const Route route{transfer.peer, rank, transfer.lane};
    expected_[route].push_back(transfer);
    match(route);
    return {};
  }
  const Route route{rank, transfer.peer, transfer.lane};
  const bool awaited = moods_.rendezvous || transfer.lane == Lane::kMessage;
  sent_[route].push_back({transfer.envelope,
                          Bytes(transfer.memory, transfer.memory + transfer.envelope.bytes),
                          transfer.cookie, awaited});
  if (!awaited) complete(rank, {.cookie = transfer.cookie, .code = Code::kOk, .seen = {}});
  match(route);
  return {};
}

void Hub::match(const Route& route) {
  auto& sent = sent_[route];
  auto& expected = expected_[route];
  const auto [from, to, lane] = route;
  while (!sent.empty() && !expected.empty()) {
    const Sent& message = sent.front();
    const Transfer& receive = expected.front();
    if (!takes(receive, message.envelope)) {
      complete(to, {.cookie = receive.cookie, .code = Code::kMismatch, .seen = message.envelope});
      expected.pop_front();
      return;  // the message stays at the head of its lane
    }
    if (receive.combine != nullptr) {
      receive.combine(receive.memory, receive.local, message.bytes.data(),
                      message.bytes.size() / receive.message_element);
    } else if (!message.bytes.empty()) {
      std::memcpy(receive.memory, message.bytes.data(), message.bytes.size());
    }
    complete(to, {.cookie = receive.cookie, .code = Code::kOk, .seen = message.envelope});
    if (message.awaited) complete(from, {.cookie = message.cookie, .code = Code::kOk, .seen = {}});
    sent.pop_front();
    expected.pop_front();
  }
}

size_t Hub::poll(int rank, std::span<Completion> completions) {
  auto& done = done_[rank];
  if (moods_.shuffle) std::shuffle(done.begin(), done.end(), random_);
  size_t count = std::min(done.size(), completions.size());
  if (moods_.shuffle && count > 0) count = random_() % (count + 1);
  std::copy_n(done.begin(), count, completions.begin());
  done.erase(done.begin(), done.begin() + static_cast<ptrdiff_t>(count));
  return count;
}

std::span<const Moods> all_moods() {
  static constexpr Moods kMoods[] = {{0, false, false, 1, 0}, {0, true, true, 2, 0},
                                     {3, true, false, 3, 2},  {2, false, true, 4, 1},
                                     {5, true, true, 5, 0},   {0, false, false, 6, 1},
                                     {4, true, false, 7, 3}};
  return kMoods;
}

std::vector<std::unique_ptr<Execution>> executions_of(const Calls& calls) {
  std::vector<std::unique_ptr<Execution>> all;
  for (const Schedule& schedule : calls.schedules)
    all.push_back(std::make_unique<Execution>(schedule));
  return all;
}

Engines::Engines(int ranks, const Moods& moods) : hub_(moods), random_(moods.seed) {
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(hub_.transport(rank));
    std::vector<int> routes(static_cast<size_t>(ranks), 0);
    routes[static_cast<size_t>(rank)] = -1;
    engines_.push_back(std::make_unique<Engine>(std::move(transports), routes, best_kernels()));
    engines_.back()->use_codecs(toy_codecs());
    if (moods.later_every == 0) continue;
    const unsigned seed = moods.seed + static_cast<unsigned>(rank);
    engines_.back()->serve(MemoryKind::kHost,
                           std::make_unique<DelayedWork>(moods.later_every, seed), routes);
  }
}

Envelope Engines::envelope(const Calls& calls, uint32_t number) {
  Envelope envelope;
  envelope.call = number;
  envelope.epoch = 77;
  envelope.signature.collective = calls.problems.front().collective;
  envelope.signature.count = calls.problems.front().count;
  return envelope;
}

bool Engines::run() {
  std::vector<Engine*> order;
  for (const auto& engine : engines_) order.push_back(engine.get());
  for (int idle = 0; idle < 200;) {
    std::shuffle(order.begin(), order.end(), random_);
    bool moved = false, busy = false;
    for (Engine* engine : order) {
      Trouble trouble;
      const Result<bool> turn = engine->progress(trouble);
      if (!turn.ok() || trouble) return false;
      moved = moved || *turn;
      busy = busy || !engine->idle();
    }
    if (!busy) return true;
    idle = moved ? 0 : idle + 1;
  }
  return false;
}

namespace {

// Lengths of the messages in a rank's wire slots.
using Lengths = std::map<uint32_t, uint64_t>;

void run_codec(const Step& step, const Spaces& spaces, std::span<const Codec> codecs,
               std::span<const Coding> codings, Lengths& lengths) {
  HostWork host(best_kernels());
  host.use_codecs(codecs);
  const LocalWork::End end =
      host.run({step, spaces, Arithmetic(), lengths[slot_read_by(step)], codings}, 0);
  if (step.dst.is_slot()) lengths[step.dst.slot] = end.message_bytes;
}

void run_local(const Step& step, const Spaces& spaces, const Arithmetic& arithmetic,
               const Kernels& kernels, const std::byte* src2) {
  const size_t type = index_of(step.type), op = index_of(arithmetic.op);
  std::byte* dst = spaces.at(step.dst);
  const std::byte* src = spaces.at(step.src);
  const size_t accumulator = size_of(accumulator_of(step.type, ReduceOp::kSum));
  switch (step.op) {
    case Op::kCopy: std::memmove(dst, src, step.dst.size); break;
    case Op::kReduce:
    case Op::kRecvReduce:
      kernels.reduce[type][op](dst, src, src2, step.dst.size / size_of(step.type));
      break;
    case Op::kDecodeAdd:
    case Op::kRecvDecodeAdd:
      kernels.decode_reduce[type][op](dst, src, src2, step.dst.size / accumulator);
      break;
    case Op::kEncode:
      kernels.encode[type](dst, src, step.dst.size / size_of(step.type), arithmetic.divisor);
      break;
    case Op::kDecode:
      kernels.decode[type](
          dst, src, step.src.size / size_of(step.type),
          arithmetic.op == ReduceOp::kPreMulSum ? arithmetic.scalar.data() : nullptr);
      break;
    case Op::kSelect:
    case Op::kOffer:
    case Op::kDecide:
    case Op::kFold:
    case Op::kDelegate:
    case Op::kWithdraw:
    case Op::kSend:
    case Op::kRecv: break;
  }
}

}  // namespace

Spaces Calls::spaces(int rank) {
  const auto index = static_cast<size_t>(rank);
  return {inputs[index].data(), outputs[index].data(), scratches[index].data(),
          lefts.empty() ? nullptr : lefts[index].data()};
}

bool interpret(Calls& calls, const Kernels& kernels) {
  const auto ranks = static_cast<int>(calls.schedules.size());
  std::map<std::pair<int, int>, std::deque<Bytes>> routes;
  std::vector<size_t> next(calls.schedules.size());
  std::vector<Lengths> lengths(calls.schedules.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto index = static_cast<size_t>(rank);
      const auto& steps = calls.schedules[index].steps;
      for (; next[index] < steps.size(); ++next[index], moved = true) {
        const Step& step = steps[next[index]];
        const Spaces spaces = calls.spaces(rank);
        const std::byte* src2 = spaces.at(step.src2);
        if (step.op == Op::kSend) {
          const std::byte* src = spaces.at(step.src);
          const bool slot = step.src.is_slot();
          const uint64_t bytes = slot ? lengths[index][step.src.slot] : step.src.size;
          routes[{rank, step.peer}].emplace_back(src, src + bytes);
          continue;
        }
        const bool receives =
            step.op == Op::kRecv || step.op == Op::kRecvReduce || step.op == Op::kRecvDecodeAdd;
        Bytes message;
        if (receives) {
          auto& route = routes[{step.peer, rank}];
          if (route.empty()) break;
          message = std::move(route.front());
          route.pop_front();
          src2 = message.data();
          if (step.op == Op::kRecv && !message.empty())
            std::memcpy(spaces.at(step.dst), message.data(), message.size());
          if (step.dst.is_slot()) lengths[index][step.dst.slot] = message.size();
        }
        if (step.codec != kNoCodec) {
          run_codec(step, spaces, calls.codecs, calls.schedules[index].codings, lengths[index]);
          continue;
        }
        run_local(step, spaces, calls.arithmetic, kernels, src2);
      }
    }
  }
  for (size_t rank = 0; rank < next.size(); ++rank)
    if (next[rank] != calls.schedules[rank].steps.size()) return false;
  return true;
}

Calls make_calls(Collective collective, DataType type, ReduceOp op, int ranks, uint64_t count,
                 bool in_place, int algorithm, uint64_t salt, const Parameters& parameters,
                 const Hierarchy* hierarchy) {
  Calls calls;
  calls.codecs = toy_codecs();
  const auto size = static_cast<size_t>(ranks);
  const bool lists = has_blocks_of_own_length(collective);
  const size_t room = (size * (count + 2) + 1) * size_of(type);
  for (int rank = 0; rank < ranks; ++rank) {
    Problem problem;
    problem.collective = collective;
    problem.type = type;
    problem.op = op;
    problem.root = ranks / 2;
    problem.in_place = in_place && collective != Collective::kAlltoallv;
    if (!lists) problem.count = count;
    uint64_t from = 0, to = 0;
    for (int peer = 0; lists && peer < ranks; ++peer) {
      const bool pairs = collective == Collective::kAlltoallv;
      const auto uneven = [&](int a, int b) {
        return count == 0 ? 0 : (count + static_cast<uint64_t>(3 * a + 5 * b)) % (count + 1);
      };
      problem.recv_counts.push_back(pairs ? uneven(peer, rank) : uneven(peer, 0));
      problem.recv_displacements.push_back(to);
      problem.send_counts.push_back(pairs ? uneven(rank, peer) : 0);
      problem.send_displacements.push_back(from);
      to += problem.recv_counts.back();
      from += problem.send_counts.back();
    }
    calls.problems.push_back(problem);
    Group group = Group::everyone(ranks, rank, hierarchy, parameters);
    group.codecs = toy_codecs();
    calls.schedules.push_back(
        build_schedule(problem, group, algorithms()[static_cast<size_t>(algorithm)]));
    const size_t elements = room / size_of(type);
    const auto seed = salt * 64 + static_cast<uint64_t>(rank) * 2;
    calls.inputs.push_back(make_numbers(type, elements, seed));
    calls.outputs.push_back(make_numbers(type, elements, seed + 1));
    calls.scratches.emplace_back(calls.schedules.back().scratch_size);
  }
  calls.arithmetic = {type, op, op == ReduceOp::kAvg ? ranks : 1, {}};
  put_bits(type, calls.arithmetic.scalar.data(),
           is_floating(type) ? rounded_bits(type, 0.75L) : wrapped(type, 3));
  return calls;
}

}  // namespace banyan::test
