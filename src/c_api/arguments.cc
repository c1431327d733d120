// SPDX-License-Identifier: Apache-2.0

#include "src/c_api/arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "algorithms/choice/compression.h"
#include "algorithms/choice/select.h"
#include "src/c_api/structs.h"
#include "src/cuda/device_memory.h"

namespace banyan {
namespace {

constexpr uint64_t kMostBytes = std::numeric_limits<ptrdiff_t>::max();

template <typename... Values>
Status wrong(fmt::format_string<Values...> text, Values&&... values) {
  return {Code::kInvalidArgument, fmt::format(text, std::forward<Values>(values)...)};
}

// A part of the caller's memory.
struct Range {
  uintptr_t begin;  // a number, because the caller's pointer may be null or wild
  uint64_t bytes;

  uintptr_t end() const { return begin + bytes; }
};

uintptr_t address(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

bool overlap(const Range& a, const Range& b) {
  return a.bytes != 0 && b.bytes != 0 && a.begin < b.end() && b.begin < a.end();
}

// What a call does with one of its buffers on this rank: one range, or the blocks of a `v` call.
struct Buffer {
  std::string_view name;
  Range whole{0, 0};
  std::vector<Range> blocks;
};

struct Use {
  Buffer send{"send", {0, 0}, {}};
  Buffer recv{"recv", {0, 0}, {}};
  bool in_place = false;
};

class Checker {
 public:
  Checker(const OpenCommunicator& communicator, const banyan_call_t& call)
      : communicator_(communicator),
        call_(call),
        rank_(communicator.membership->rank()),
        size_(communicator.membership->size()) {}

  Result<Call> check() {
    BANYAN_TRY(collective());
    BANYAN_TRY(root());
    BANYAN_TRY(type());
    BANYAN_TRY(operation());
    BANYAN_TRY(options());
    BANYAN_TRY(counts());
    BANYAN_TRY(buffers());
    problem().invariant = communicator_.membership->settings().invariant;
    BANYAN_TRY(algorithm());
    problem().check = communicator_.membership->settings().environment.check;
    return result_;
  }

 private:
  Problem& problem() { return result_.problem; }
  bool is(Collective collective) const { return result_.problem.collective == collective; }
  bool message() const { return is(Collective::kSend) || is(Collective::kRecv); }

  Status collective() {
    const int given = number_in(call_.collective);
    if (given < 0 || given > BANYAN_RECV)
      return wrong("collective is {}; valid: 0 (allreduce) to {} (recv)", given,
                   static_cast<int>(BANYAN_RECV));
    problem().collective = static_cast<Collective>(given);
    return {};
  }

  Status root() {
    const bool rooted = is(Collective::kReduce) || is(Collective::kBroadcast) ||
                        is(Collective::kGather) || is(Collective::kScatter);
    if (!rooted && !message()) return {};
    if (call_.root < 0 || call_.root >= size_)
      return wrong("{} is {}; valid: 0 to {} in this communicator of {} ranks",
                   message() ? "peer" : "root", call_.root, size_ - 1, size_);
    problem().root = call_.root;
    return {};
  }

  Status type() {
    if (is(Collective::kBarrier)) return {};
    const Result<DataType> type = check_type(number_in(call_.datatype));
    BANYAN_TRY(type.status());
    problem().type = *type;
    return {};
  }

  Status operation() {
    if (!reduces(problem().collective)) return {};
    if (call_.op >= BANYAN_SUM && call_.op <= BANYAN_AVG) {
      problem().op = static_cast<ReduceOp>(call_.op);
      return {};
    }
    const auto found = communicator_.scalars.find(call_.op);
    if (found == communicator_.scalars.end())
      return wrong(
          "op {} is none: 0 (sum) to 4 (avg), or what banyan_op_create_premulsum of this "
          "communicator returned and banyan_op_destroy has not taken back",
          call_.op);
    if (found->second.type != problem().type)
      return wrong("op {} was created for type {}, the call has type {}", call_.op,
                   name_of(found->second.type), name_of(problem().type));
    problem().op = ReduceOp::kPreMulSum;
    result_.scalar = found->second.value;
    return {};
  }

  Status options() {
    BANYAN_TRY(check_timeout(call_.timeout_s, "timeout_s"));
    result_.timeout_s = call_.timeout_s;
    if (call_.on_stream != 0) BANYAN_TRY(check_streams());
    return compression();
  }

  // The call's own, within the communicator's, or the communicator's.
  Status compression() {
    const Settings& settings = communicator_.membership->settings();
    problem().compression = settings.compression;
    if (call_.compression == nullptr) return {};
    const Result<Compression> asked = read_compression(call_.compression);
    BANYAN_TRY(asked.status());
    problem().compression = *asked;
    if (!settings.has_ceiling || keeps_within(*asked, settings.compression)) return {};
    return wrong("compression.codec is '{}', and the communicator accepts '{}' at most",
                 text_of(*asked),
                 settings.compression.is_exact() ? "exact" : text_of(settings.compression));
  }

  Status counts() {
    const bool counted = !is(Collective::kBarrier) && !is(Collective::kReduceScatterv) &&
                         !is(Collective::kAlltoallv);
    problem().count = counted ? call_.count : 0;
    const uint64_t element = problem().element();
    const bool times_ranks = is(Collective::kAllgather) || is(Collective::kReduceScatter) ||
                             is(Collective::kAlltoall) || is(Collective::kGather) ||
                             is(Collective::kScatter);
    const uint64_t factor = element * (times_ranks ? static_cast<uint64_t>(size_) : 1);
    if (problem().count > kMostBytes / factor)
      return wrong("count {} of {} {}is more than memory can hold", problem().count,
                   name_of(problem().type), times_ranks ? "times the ranks " : "");
    switch (problem().collective) {
      case Collective::kAllgatherv: return allgatherv_counts();
      case Collective::kReduceScatterv:
        return list("recv_counts", call_.recv_counts, nullptr, problem().recv_counts,
                    problem().recv_displacements);
      case Collective::kAlltoallv: return alltoallv_counts();
      case Collective::kAllreduce:
      case Collective::kReduce:
      case Collective::kBroadcast:
      case Collective::kAllgather:
      case Collective::kReduceScatter:
      case Collective::kAlltoall:
      case Collective::kGather:
      case Collective::kScatter:
      case Collective::kBarrier:
      case Collective::kSend:
      case Collective::kRecv:
      case Collective::kFinalize:
      case Collective::kSplit: break;
    }
    return {};
  }

  Status allgatherv_counts() {
    BANYAN_TRY(list("recv_counts", call_.recv_counts, call_.recv_displacements,
                    problem().recv_counts, problem().recv_displacements));
    const uint64_t own = problem().recv_counts[static_cast<size_t>(rank_)];
    if (call_.count != own)
      return wrong("send_count is {}, recv_counts[{}] of this rank is {}", call_.count, rank_, own);
    problem().count = 0;
    return {};
  }

  Status alltoallv_counts() {
    problem().count = 0;
    BANYAN_TRY(list("send_counts", call_.send_counts, call_.send_displacements,
                    problem().send_counts, problem().send_displacements));
    BANYAN_TRY(list("recv_counts", call_.recv_counts, call_.recv_displacements,
                    problem().recv_counts, problem().recv_displacements));
    const uint64_t sent = problem().send_counts[static_cast<size_t>(rank_)];
    const uint64_t received = problem().recv_counts[static_cast<size_t>(rank_)];
    if (sent != received)
      return wrong(
          "send_counts[{}] of this rank is {}, recv_counts[{}] is {}: a rank receives what "
          "it sends to itself",
          rank_, sent, rank_, received);
    return {};
  }

  // Copies a list of counts and its displacements; packed in rank order where there are none. An
  // empty block lies nowhere, whatever the caller gave for its place.
  Status list(std::string_view name, const size_t* given, const size_t* given_displacements,
              std::vector<uint64_t>& into, std::vector<uint64_t>& displacements) {
    if (given == nullptr) return wrong("{} is NULL; it has one entry for each rank", name);
    const uint64_t most = kMostBytes / problem().element();
    uint64_t total = 0;
    for (int rank = 0; rank < size_; ++rank) {
      const uint64_t count = given[rank];
      if (count > most || total + count > most)
        return wrong("{}[{}] is {}: count is more than memory can hold", name, rank, count);
      uint64_t from = total;
      if (given_displacements != nullptr) from = count != 0 ? given_displacements[rank] : 0;
      if (from > most - count)
        return wrong("{}[{}] is {} at displacement {}: the block ends beyond what memory can hold",
                     name, rank, count, from);
      into.push_back(count);
      displacements.push_back(from);
      total += count;
    }
    return {};
  }

  Range block(const void* base, uint64_t first, uint64_t count) const {
    const uint64_t element = result_.problem.element();
    return {reinterpret_cast<uintptr_t>(base) + first * element, count * element};
  }

  std::vector<Range> blocks(const void* base, const std::vector<uint64_t>& displacements,
                            const std::vector<uint64_t>& counts) const {
    std::vector<Range> ranges;
    for (size_t i = 0; i < counts.size(); ++i)
      ranges.push_back(block(base, displacements[i], counts[i]));
    return ranges;
  }

  // Where every rank has its own count.
  void use_of_uneven(Use& use) {
    const Problem& p = problem();
    const auto me = static_cast<size_t>(rank_);
    if (p.collective == Collective::kAlltoallv) {
      use.send.blocks = blocks(call_.send, p.send_displacements, p.send_counts);
      use.recv.blocks = blocks(call_.recv, p.recv_displacements, p.recv_counts);
    } else if (p.collective == Collective::kAllgatherv) {
      use.send.whole = block(call_.send, 0, p.recv_counts[me]);
      use.recv.blocks = blocks(call_.recv, p.recv_displacements, p.recv_counts);
      use.in_place = address(call_.send) == use.recv.blocks[me].begin;
    } else {
      const uint64_t total =
          std::accumulate(p.recv_counts.begin(), p.recv_counts.end(), uint64_t{0});
      use.send.whole = block(call_.send, 0, total);
      use.recv.whole = block(call_.recv, 0, p.recv_counts[me]);
      use.in_place = address(call_.recv) == block(call_.send, p.recv_displacements[me], 0).begin;
    }
  }

  // The part of each buffer that this rank's call reads or writes.
  Use use() {
    const void* send = call_.send;
    const void* recv = call_.recv;
    const Problem& p = problem();
    const uint64_t n = p.count;
    const auto ranks = static_cast<uint64_t>(size_);
    const auto me = static_cast<uint64_t>(rank_);
    const bool at_root = rank_ == p.root;
    Use use;
    const auto one = [&](const void* base, uint64_t count) { return block(base, 0, count); };
    switch (p.collective) {
      case Collective::kAllreduce:
        use.send.whole = one(send, n);
        use.recv.whole = one(recv, n);
        use.in_place = send == recv;
        break;
      case Collective::kReduce:
        use.send.whole = one(send, n);
        if (at_root) use.recv.whole = one(recv, n);
        use.in_place = at_root && send == recv;
        break;
      case Collective::kBroadcast:
        use.recv.whole = one(recv, n);
        if (at_root) use.send.whole = one(send, n);
        use.in_place = at_root && send == recv;
        break;
      case Collective::kAllgather:
        use.send.whole = one(send, n);
        use.recv.whole = one(recv, n * ranks);
        use.in_place = address(send) == block(recv, me * n, 0).begin;
        break;
      case Collective::kGather:
        use.send.whole = one(send, n);
        if (at_root) use.recv.whole = one(recv, n * ranks);
        use.in_place = at_root && address(send) == block(recv, me * n, 0).begin;
        break;
      case Collective::kReduceScatter:
        use.send.whole = one(send, n * ranks);
        use.recv.whole = one(recv, n);
        use.in_place = address(recv) == block(send, me * n, 0).begin;
        break;
      case Collective::kScatter:
        use.recv.whole = one(recv, n);
        if (at_root) use.send.whole = one(send, n * ranks);
        use.in_place = at_root && address(recv) == block(send, me * n, 0).begin;
        break;
      case Collective::kAlltoall:
        use.send.whole = one(send, n * ranks);
        use.recv.whole = one(recv, n * ranks);
        use.in_place = send == recv;
        break;
      case Collective::kAllgatherv:
      case Collective::kReduceScatterv:
      case Collective::kAlltoallv: use_of_uneven(use); break;
      case Collective::kSend: use.send.whole = one(send, n); break;
      case Collective::kRecv: use.recv.whole = one(recv, n); break;
      case Collective::kBarrier:
      case Collective::kFinalize:
      case Collective::kSplit: break;
    }
    return use;
  }

  static bool is_used(const Buffer& buffer) {
    const auto moves = [](const Range& range) { return range.bytes != 0; };
    return moves(buffer.whole) || std::any_of(buffer.blocks.begin(), buffer.blocks.end(), moves);
  }

  static Status not_null(const Buffer& buffer, const void* given) {
    if (given == nullptr && is_used(buffer)) return wrong("{} is NULL", buffer.name);
    return {};
  }

  // No memory reaches beyond the last address.
  static Status not_round(const Buffer& buffer, const void* given) {
    const auto within = [&](const Range& range) {
      return range.bytes == 0 || (range.begin >= address(given) && range.end() >= range.begin);
    };
    const auto one = std::find_if_not(buffer.blocks.begin(), buffer.blocks.end(), within);
    const Range& range = one != buffer.blocks.end() ? *one : buffer.whole;
    if (within(range)) return {};
    return wrong("{} is {}: {} bytes at {:#x} wrap round the end of the address space", buffer.name,
                 given, range.bytes, range.begin);
  }

  static Result<bool> staged(const Buffer& buffer, const void* given) {
    return is_used(buffer) ? must_be_staged(buffer.name, given) : false;
  }

  Status staging(const Use& used) {
    look_for_cuda_driver();
    const Result<bool> send = staged(used.send, call_.send);
    BANYAN_TRY(send.status());
    const Result<bool> recv = staged(used.recv, call_.recv);
    BANYAN_TRY(recv.status());
    // In place, one is a part of the other, and the schedule knows the output alone.
    if (problem().in_place)
      problem().staging = {.input = false, .output = *send || *recv};
    else
      problem().staging = {.input = *send, .output = *recv};
    return {};
  }

  static Status overlapping(const Buffer& a, const Range& x, const Buffer& b, const Range& y) {
    return wrong("{} [{:#x}, {:#x}) and {} [{:#x}, {:#x}) overlap, and are not in place", a.name,
                 x.begin, x.end(), b.name, y.begin, y.end());
  }

  // Blocks that are written may overlap nothing; blocks that are read may overlap each other.
  static Status apart(const Buffer& send, const Buffer& recv) {
    if (send.blocks.empty() && recv.blocks.empty())
      return overlap(send.whole, recv.whole) ? overlapping(send, send.whole, recv, recv.whole)
                                             : Status();
    std::vector<std::pair<Range, const Buffer*>> all{{send.whole, &send}, {recv.whole, &recv}};
    for (const Range& range : send.blocks) all.emplace_back(range, &send);
    for (const Range& range : recv.blocks) all.emplace_back(range, &recv);
    std::erase_if(all, [](const auto& entry) { return entry.first.bytes == 0; });
    std::sort(all.begin(), all.end(),
              [](const auto& x, const auto& y) { return x.first.begin < y.first.begin; });
    const std::pair<Range, const Buffer*>* reaching[2] = {nullptr, nullptr};  // of send, of recv
    for (const auto& entry : all) {
      const bool written = entry.second == &recv;
      for (const bool other_written : {false, true}) {
        const auto* other = reaching[other_written ? 1 : 0];
        if (other != nullptr && (written || other_written) && overlap(other->first, entry.first))
          return overlapping(*other->second, other->first, *entry.second, entry.first);
      }
      const auto*& farthest = reaching[written ? 1 : 0];
      if (farthest == nullptr || farthest->first.end() < entry.first.end()) farthest = &entry;
    }
    return {};
  }

  Status buffers() {
    Use used = use();
    BANYAN_TRY(not_null(used.send, call_.send));
    BANYAN_TRY(not_null(used.recv, call_.recv));
    BANYAN_TRY(not_round(used.send, call_.send));
    BANYAN_TRY(not_round(used.recv, call_.recv));
    problem().in_place = used.in_place && call_.send != nullptr && call_.recv != nullptr;
    BANYAN_TRY(staging(used));
    result_.send = call_.send;
    result_.recv = call_.recv;
    result_.send_bytes = used.send.whole.bytes;
    result_.recv_bytes = used.recv.whole.bytes;
    // In place, one buffer lies in the other; blocks of a list must be apart all the same.
    if (problem().in_place) used.send.whole = {0, 0};
    if (problem().in_place && used.recv.blocks.empty()) return {};
    return apart(used.send, used.recv);
  }

  Status algorithm() {
    if (call_.algorithm == nullptr || *call_.algorithm == '\0' || message()) return {};
    const Result<Rules> rules = parse_rules(call_.algorithm);
    if (!rules.ok()) return wrong("algorithm '{}': {}", call_.algorithm, rules.status().message());
    const Membership& membership = *communicator_.membership;
    const Choice choice = choose(problem(), size_, membership.medium(), *rules,
                                 &membership.hierarchy(), membership.measured());
    if (choice.rule >= 0) {
      result_.algorithm = choice.algorithm;
      result_.parameters = choice.parameters;
    }
    if (any_applies(*rules, problem().collective)) return {};
    return has_none_for(problem().collective, call_.algorithm);
  }

  const OpenCommunicator& communicator_;
  const banyan_call_t& call_;
  int rank_;
  int size_;
  Call result_;
};

}  // namespace

Result<Call> check_call(const OpenCommunicator& communicator, const banyan_call_t& call) {
  return Checker(communicator, call).check();
}

Result<DataType> check_type(int datatype) {
  if (datatype < 0 || datatype >= kDataTypeCount)
    return wrong("datatype {} is none; valid: 0 (int8) to {} (float8_e5m2)", datatype,
                 kDataTypeCount - 1);
  return static_cast<DataType>(datatype);
}

Status check_timeout(double seconds, std::string_view name) {
  if (std::isnan(seconds) || seconds < 0)
    return wrong("{} is {}; valid: seconds, 0 for the default, infinity for none", name, seconds);
  return {};
}

Result<Compression> read_compression(const banyan_compression_t* compression) {
  const banyan_compression_t defaults = BANYAN_COMPRESSION_INIT;
  const Result<banyan_compression_t> whole = complete_struct(compression, defaults, "compression");
  BANYAN_TRY(whole.status());
  const int fidelity = number_in(whole->fidelity);
  if (fidelity == BANYAN_EXACT) return Compression();
  const bool bounded = fidelity == BANYAN_BOUND_ABSOLUTE || fidelity == BANYAN_BOUND_RELATIVE;
  if (!bounded && fidelity != BANYAN_CODEC)
    return wrong("compression.fidelity is {}; valid: 0 (exact) to 3 (relative bound)", fidelity);
  if (!bounded && whole->codec == nullptr)
    return wrong("compression.codec is NULL; valid: a codec, as BANYAN_COMPRESS names it");
  Result<Compression> read = parse_compression(whole->codec == nullptr ? "auto" : whole->codec);
  if (!read.ok())
    return Status(read.status().code(),
                  fmt::format("compression.codec '{}': {}", whole->codec, read.status().message()));
  if (bounded) {
    if (!(whole->bound > 0) || std::isinf(whole->bound))
      return wrong("compression.bound is {}; valid: a finite number above 0", whole->bound);
    read = within_bound(*read, fidelity == BANYAN_BOUND_RELATIVE, whole->bound);
  }
  if (whole->min_bytes != 0) read->least_bytes = whole->min_bytes;
  read->seed = whole->seed;
  return read;
}

}  // namespace banyan
