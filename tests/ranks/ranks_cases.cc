// SPDX-License-Identifier: Apache-2.0
#include "tests/ranks/ranks_cases.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "python/core/dispatch.h"

namespace banyan::test {

// A piece is `count` elements at `at`, which are elements base, base + 1, ... of rank `from`, or of
// the reduction.
struct Piece {
  size_t at = 0;
  size_t count = 0;
  int from = 0;
  size_t base = 0;
};

namespace {

constexpr size_t kGuard = 64;
constexpr int kReduced = -1;

// What memory holds that nobody writes: the bytes at `place`, with a period of 256.
std::byte untouched(size_t place) {
  return static_cast<std::byte>(0xA5 ^ (place * 29));
}

void add_to(uint64_t& digest, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    uint64_t word = bytes.size();
    const size_t step = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), step);
    digest = (digest ^ word) * 0x100000001b3ULL;
    digest ^= digest >> 29;
    bytes = bytes.subspan(step);
  }
}

// As ==, which looks at one byte at a time.
bool same(const Memory& one, const Memory& other) {
  return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size()) == 0;
}

// Uneven counts of the calls with a `v`, some of them 0.
size_t uneven(size_t count, int from, int to) {
  const auto salt = static_cast<size_t>(from) * 3 + static_cast<size_t>(to) * 5;
  return salt % 4 == 3 ? 0 : (count + salt) % (count + 2);
}

// Blocks in reverse order with an element between any two.
std::vector<size_t> with_gaps(const std::vector<size_t>& counts) {
  std::vector<size_t> places(counts.size());
  size_t end = 0;
  for (size_t i = counts.size(); i-- > 0;) {
    places[i] = end;
    end += counts[i] + 1;
  }
  return places;
}

}  // namespace

// What a call reads and writes on one rank, in elements of its two buffers.
struct Layout {
  std::vector<Piece> send, recv;
  size_t send_room = 0, recv_room = 0;
  // In place: where each buffer lies in the other; one of the two is 0.
  size_t send_at = 0, recv_at = 0;
  std::vector<size_t> send_counts, send_displacements, recv_counts, recv_displacements;
};

namespace {

Layout layout_of_reduction(Collective collective, size_t n, int size, int me, bool at_root) {
  const size_t blocks = collective == Collective::kReduceScatter ? static_cast<size_t>(size) : 1;
  Layout layout;
  layout.send = {{0, n * blocks, me, 0}};
  layout.recv_at = blocks > 1 ? n * static_cast<size_t>(me) : 0;
  if (collective != Collective::kReduce || at_root)
    layout.recv = {{0, n, kReduced, layout.recv_at}};
  return layout;
}

// An empty block lies nowhere: what the lists say of its place counts for nothing.
void lose_empty(const std::vector<size_t>& counts, std::vector<size_t>& places) {
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] == 0) places[i] = SIZE_MAX - i;
}

Layout layout_of_lists(Collective collective, size_t n, int size, int me) {
  Layout layout;
  for (int peer = 0; peer < size; ++peer) {
    layout.recv_counts.push_back(uneven(n, peer, collective == Collective::kAlltoallv ? me : 0));
    layout.send_counts.push_back(uneven(n, me, peer));
  }
  layout.send_displacements = with_gaps(layout.send_counts);
  layout.recv_displacements = with_gaps(layout.recv_counts);
  const auto own = static_cast<size_t>(me);
  if (collective == Collective::kReduceScatterv) {
    size_t total = 0;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == me) layout.recv_at = total;
      total += layout.recv_counts[static_cast<size_t>(peer)];
    }
    layout.send = {{0, total, me, 0}};
    layout.recv = {{0, layout.recv_counts[own], kReduced, layout.recv_at}};
    return layout;
  }
  for (int peer = 0; peer < size; ++peer) {
    const auto index = static_cast<size_t>(peer);
    const size_t base = collective == Collective::kAlltoallv ? 37 * own : 0;
    layout.recv.push_back(
        {layout.recv_displacements[index], layout.recv_counts[index], peer, base});
    if (collective == Collective::kAlltoallv)
      layout.send.push_back(
          {layout.send_displacements[index], layout.send_counts[index], me, 37 * index});
  }
  if (collective == Collective::kAllgatherv) {
    layout.send = {{0, layout.recv_counts[own], me, 0}};
    layout.send_at = layout.recv_displacements[own];
  }
  lose_empty(layout.send_counts, layout.send_displacements);
  lose_empty(layout.recv_counts, layout.recv_displacements);
  return layout;
}

Layout layout_of_move(Collective collective, size_t n, int size, int me, int root) {
  Layout layout;
  const bool at_root = me == root;
  const size_t all = n * static_cast<size_t>(size), own = n * static_cast<size_t>(me);
  if (collective == Collective::kBroadcast) {
    if (at_root) layout.send = {{0, n, root, 0}};
    layout.recv = {{0, n, root, 0}};
  } else if (collective == Collective::kScatter) {
    if (at_root) layout.send = {{0, all, root, 0}};
    layout.recv = {{0, n, root, own}};
    layout.recv_at = at_root ? own : 0;
  } else if (collective == Collective::kAlltoall) {
    layout.send = {{0, all, me, 0}};
    for (int peer = 0; peer < size; ++peer)
      layout.recv.push_back({n * static_cast<size_t>(peer), n, peer, own});
  } else if (collective == Collective::kAllgather || collective == Collective::kGather) {
    layout.send = {{0, n, me, 0}};
    layout.send_at = own;
    for (int peer = 0; peer < size && (at_root || collective == Collective::kAllgather); ++peer)
      layout.recv.push_back({n * static_cast<size_t>(peer), n, peer, 0});
  }
  return layout;
}

size_t room_of(const std::vector<Piece>& pieces) {
  size_t room = 0;
  for (const Piece& piece : pieces) room = std::max(room, piece.at + piece.count);
  return room;
}

Layout layout_of(const Case& call, int size, int me) {
  const bool lists = has_blocks_of_own_length(call.collective);
  Layout layout = lists ? layout_of_lists(call.collective, call.count, size, me)
                  : reduces(call.collective)
                      ? layout_of_reduction(call.collective, call.count, size, me, me == call.root)
                      : layout_of_move(call.collective, call.count, size, me, call.root);
  layout.send_room = room_of(layout.send);
  layout.recv_room = room_of(layout.recv);
  return layout;
}

// Between two guards, `skew` bytes from an aligned address.
void prepare(Memory& memory, size_t bytes, size_t skew) {
  memory.resize(2 * kGuard + skew + bytes);
  size_t done = std::min(memory.size(), size_t{256});
  for (size_t i = 0; i < done; ++i) memory[i] = untouched(i);
  for (; done < memory.size(); done = std::min(memory.size(), 2 * done))
    std::memcpy(memory.data() + done, memory.data(), std::min(done, memory.size() - done));
}

void fill(Memory& memory, const std::vector<Piece>& pieces, const Table& table, size_t from) {
  for (const Piece& piece : pieces)
    table.fill(memory.data() + from + piece.at * table.element(), piece.from, piece.base,
               piece.count);
}

banyan_call_t make_call(const Case& call, const Table& table, const Layout& layout,
                        banyan_op_t op) {
  banyan_call_t made = BANYAN_CALL_INIT;
  made.collective = static_cast<banyan_collective_t>(call.collective);
  made.count = call.collective == Collective::kAllgatherv ? layout.send_room : call.count;
  made.datatype = static_cast<banyan_datatype_t>(table.type());
  made.op = op;
  made.root = call.root;
  made.algorithm = call.algorithm;
  made.send_counts = layout.send_counts.data();
  made.send_displacements = layout.send_displacements.data();
  made.recv_counts = layout.recv_counts.data();
  made.recv_displacements = layout.recv_displacements.data();
  return made;
}

}  // namespace

std::string describe(const Case& call, const Table& table) {
  return fmt::format("{} {} {} of {}, root {}{}{}, skew {}{}", name_of(call.collective),
                     name_of(table.type()), reduces(call.collective) ? name_of(table.op()) : "",
                     call.count, call.root, call.in_place ? ", in place" : "",
                     call.shared ? ", shared" : "", call.skew,
                     call.algorithm != nullptr ? fmt::format(", {}", call.algorithm) : "");
}

banyan_result_t call_blocking(const banyan_call_t& call, banyan_comm_t comm) {
  return python::dispatch(call, comm);
}

banyan_result_t call_request(const banyan_call_t& call, banyan_comm_t comm) {
  banyan_request_t request = nullptr;
  banyan_result_t result = banyan_request_create(comm, &call, &request);
  if (result != BANYAN_SUCCESS) return result;
  result = banyan_request_start(request);
  if (result == BANYAN_SUCCESS) result = banyan_request_wait(request);
  const banyan_result_t destroyed = banyan_request_destroy(request);
  return result != BANYAN_SUCCESS ? result : destroyed;
}

bool Bench::run(const Case& call, const Table& table) {
  if (table.op() != ReduceOp::kPreMulSum || !reduces(call.collective))
    return run(call, table, static_cast<banyan_op_t>(table.op()));
  banyan_op_t op = -1;
  const auto scalar = Table::scalar(table.type(), rank_.rank());
  rank_.expect_ok(banyan_op_create_premulsum(comm_, scalar.data(),
                                             static_cast<banyan_datatype_t>(table.type()), &op),
                  "banyan_op_create_premulsum");
  const bool ok = run(call, table, op);
  rank_.expect_ok(banyan_op_destroy(comm_, op), "banyan_op_destroy");
  return ok;
}

namespace {

// From banyan_mem_alloc.
class SharedLender final : public Lender {
 public:
  SharedLender(Rank& rank, banyan_comm_t comm) : rank_(rank), comm_(comm) {}

  std::byte* lend(Memory& memory) override {
    void* lent = nullptr;
    if (rank_.expect_ok(banyan_mem_alloc(comm_, &lent, memory.size()), "banyan_mem_alloc"))
      std::memcpy(lent, memory.data(), memory.size());
    return static_cast<std::byte*>(lent);
  }
  void take_back(std::byte* lent, Memory& memory) override {
    std::memcpy(memory.data(), lent, memory.size());
    rank_.expect_ok(banyan_mem_free(comm_, lent), "banyan_mem_free");
  }

 private:
  Rank& rank_;
  banyan_comm_t comm_;
};

}  // namespace

Bench::Bench(Rank& rank, banyan_comm_t comm, Make make)
    : rank_(rank),
      comm_(comm),
      make_(std::move(make)),
      shared_(std::make_unique<SharedLender>(rank, comm)) {}

Bench::~Bench() = default;

// Out of place: first_ is send and second_ is recv. In place: first_ is both.
bool Bench::run(const Case& call, const Table& table, banyan_op_t op) {
  const int me = rank_.rank();
  const Layout layout = layout_of(call, rank_.size(), me);
  const size_t element = table.element();
  const bool both = call.in_place && call.collective != Collective::kAlltoallv &&
                    (!has_root(call.collective) || me == call.root);
  const size_t begin = kGuard + call.skew;
  banyan_call_t made = make_call(call, table, layout, op);
  if (call.collective == Collective::kReduceScatterv) made.recv_displacements = nullptr;
  if (failures_ < 4) rank_.where(describe(call, table));
  Memory results;
  for (int round = 0; round < (call.twice ? 2 : 1); ++round) {
    const size_t from_send = begin + (both ? layout.send_at * element : 0);
    const size_t from_recv = begin + (both ? layout.recv_at * element : 0);
    const size_t whole =
        std::max(layout.send_at + layout.send_room, layout.recv_at + layout.recv_room);
    prepare(first_, (both ? whole : layout.send_room) * element, call.skew);
    fill(first_, layout.send, table, from_send);
    if (!both) prepare(second_, layout.recv_room * element, call.skew);
    Memory& output = both ? first_ : second_;
    Lender* lender = call.shared ? shared_.get() : lender_;
    std::byte* send = lender != nullptr ? lender->lend(first_) : first_.data();
    std::byte* recv = both ? send : lender != nullptr ? lender->lend(second_) : second_.data();
    if (send == nullptr || recv == nullptr) return false;
    made.send = send + from_send;
    made.recv = recv + from_recv;
    // What matters at the root alone may be null elsewhere, and is left alone where it is not.
    const bool null = call.skew % 2 == 1;
    if (null && layout.send.empty() && call.collective != Collective::kBarrier) made.send = nullptr;
    if (null && layout.recv.empty() && call.collective != Collective::kBarrier) made.recv = nullptr;

    if (!both) sent_ = first_;
    expected_ = output;
    ++calls_;
    const banyan_result_t result = make_ != nullptr            ? make_(made, comm_)
                                   : call.algorithm != nullptr ? call_request(made, comm_)
                                                               : call_blocking(made, comm_);
    if (!rank_.expect_ok(result, describe(call, table))) return false;
    if (lender != nullptr) lender->take_back(send, first_);
    if (lender != nullptr && !both) lender->take_back(recv, second_);
    if (!both && !same(first_, sent_) && failures_++ < 4)
      rank_.fail(describe(call, table) + ": the send buffer was written");
    Layout moved = layout;
    for (Piece& piece : moved.recv) piece.at = piece.at * element + from_recv;
    check(call, table, moved, output);
    if (round == 0 && call.twice) results = output;
    if (round == 1 && !same(results, output) && failures_++ < 4)
      rank_.fail(describe(call, table) + ": other bits when called again");
  }
  return true;
}

// `at` of the pieces is in bytes of `got` here.
void Bench::check(const Case& call, const Table& table, const Layout& layout, const Memory& got) {
  const size_t element = table.element();
  const bool alike =
      call.collective == Collective::kAllreduce || call.collective == Collective::kBroadcast ||
      call.collective == Collective::kAllgather || call.collective == Collective::kAllgatherv;
  for (const Piece& piece : layout.recv) {
    const std::byte* result = got.data() + piece.at;
    const size_t bytes = piece.count * element;
    if (alike && bytes <= size_t{1} << 20) add_to(digest_, {result, bytes});
    if (piece.from != kReduced) {
      table.fill(expected_.data() + piece.at, piece.from, piece.base, piece.count);
      continue;
    }
    const size_t wrong = table.check(result, piece.base, piece.count);
    if (wrong != piece.count && failures_++ < 4)
      rank_.fail(fmt::format("{}: element {} is {:#x}", describe(call, table), wrong,
                             get_bits(table.type(), result + wrong * element)));
    std::copy_n(result, bytes, expected_.data() + piece.at);
  }
  if (same(got, expected_)) return;
  const auto [wrong, _] = std::mismatch(got.begin(), got.end(), expected_.begin());
  if (failures_++ < 4)
    rank_.fail(fmt::format("{}: byte {} after the guard of {} is {:#x}, expected {:#x}",
                           describe(call, table), wrong - got.begin() - 64, kGuard,
                           static_cast<int>(*wrong),
                           static_cast<int>(expected_[static_cast<size_t>(wrong - got.begin())])));
}

}  // namespace banyan::test
