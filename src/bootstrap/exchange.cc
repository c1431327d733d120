// An exchange over the caller's allgather of equal parts.
// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/exchange.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstring>

namespace banyan {
namespace {

constexpr auto kNewsComeWithin = std::chrono::milliseconds(300);

class FixedExchange : public Exchange {
 public:
  FixedExchange(int rank, int size, FixedAllgather allgather)
      : rank_(rank), size_(size), allgather_(std::move(allgather)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  // The caller's function cannot be interrupted: a deadline is seen between its calls.
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       TimePoint deadline) override;

 private:
  Result<Bytes> call(std::span<const std::byte> mine, TimePoint deadline) const;
  Result<std::vector<Bytes>> round(std::span<const std::byte> mine, TimePoint deadline) const;

  int rank_;
  int size_;
  FixedAllgather allgather_;
  Status failed_;
};

Result<Bytes> FixedExchange::call(std::span<const std::byte> mine, TimePoint deadline) const {
  Bytes all(mine.size() * static_cast<size_t>(size_));
  const int result = allgather_(mine.data(), all.data(), mine.size());
  if (result != 0) {
    return Status(Code::kRemote,
                  fmt::format("the caller's allgather of {} bytes returned {}, which is a failure",
                              mine.size(), result));
  }
  if (Clock::now() >= deadline) {
    return Status(Code::kTimeout,
                  "the caller's allgather returned after the time limit of the init");
  }
  const auto own = std::span(all).subspan(mine.size() * static_cast<size_t>(rank_), mine.size());
  if (!std::equal(own.begin(), own.end(), mine.begin(), mine.end())) {
    return Status(Code::kInvalidArgument,
                  fmt::format("the caller's allgather did not give what rank {} sent back at place "
                              "{} of its result",
                              rank_, rank_));
  }
  return all;
}

Result<std::vector<Bytes>> FixedExchange::round(std::span<const std::byte> mine,
                                                TimePoint deadline) const {
  const auto length = static_cast<uint32_t>(mine.size());
  const auto lengths = call(std::as_bytes(std::span(&length, 1)), deadline);
  if (!lengths.ok()) return lengths.status();
  std::vector<uint32_t> sizes(static_cast<size_t>(size_));
  std::memcpy(sizes.data(), lengths->data(), lengths->size());
  const uint32_t most = *std::max_element(sizes.begin(), sizes.end());
  if (most > kExchangeMost) {
    return Status(Code::kCorrupt, fmt::format("the caller's allgather brought a length of {}, the "
                                              "most is {}",
                                              most, kExchangeMost));
  }
  std::vector<Bytes> contributions(sizes.size());
  if (most == 0) return contributions;
  Bytes padded(mine.begin(), mine.end());
  padded.resize(most);
  const auto all = call(padded, deadline);
  if (!all.ok()) return all.status();
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    const auto part = std::span(*all).subspan(rank * most, sizes[rank]);
    contributions[rank].assign(part.begin(), part.end());
  }
  return contributions;
}

Result<std::vector<Bytes>> FixedExchange::allgather(std::span<const std::byte> mine,
                                                    TimePoint deadline) {
  if (!failed_.ok()) return failed_;
  if (mine.size() > kExchangeMost) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("a rank can exchange {} bytes at once, not {}", kExchangeMost, mine.size()));
  }
  auto all = round(mine, deadline);
  if (!all.ok()) failed_ = all.status();
  return all;
}

}  // namespace

Result<std::vector<Bytes>> allgather_long(Exchange& exchange, std::span<const std::byte> mine,
                                          size_t most, TimePoint deadline) {
  constexpr size_t kPart = kExchangeMost - 1024;  // others may put something before it
  const uint64_t length = mine.size();
  const auto said = exchange.allgather(std::as_bytes(std::span(&length, 1)), deadline);
  BANYAN_TRY(said.status());
  std::vector<uint64_t> lengths;
  for (const Bytes& bytes : *said) {
    Reader reader(bytes);
    lengths.push_back(reader.get<uint64_t>());
    if (!reader.at_end() || lengths.back() > most)
      return Status(Code::kCorrupt, fmt::format("rank {} announces {} bytes, the most is {}",
                                                lengths.size() - 1, lengths.back(), most));
  }
  std::vector<Bytes> all(lengths.size());
  const uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  for (uint64_t at = 0; at < longest; at += kPart) {
    const uint64_t from = std::min(at, length);
    const auto parts =
        exchange.allgather(mine.subspan(from, std::min<uint64_t>(kPart, length - from)), deadline);
    BANYAN_TRY(parts.status());
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const Bytes& part = (*parts)[rank];
      const uint64_t due = lengths[rank] - std::min(at, lengths[rank]);
      if (part.size() != std::min<uint64_t>(kPart, due))
        return Status(Code::kCorrupt, fmt::format("rank {} sends {} bytes where {} were announced",
                                                  rank, part.size(), due));
      all[rank].insert(all[rank].end(), part.begin(), part.end());
    }
  }
  return all;
}

Status news_of(Exchange& exchange, std::chrono::milliseconds patience) {
  std::vector<pollfd> entries;
  for (const int news : exchange.failure_descriptors()) entries.push_back({news, POLLIN, 0});
  if (entries.empty()) return {};
  const int ready = ::poll(entries.data(), entries.size(), static_cast<int>(patience.count()));
  return ready > 0 ? exchange.failure() : Status();
}

Status or_earlier_news(Exchange& exchange, Status status) {
  if (status.code() != Code::kPeerLost && status.code() != Code::kSystem) return status;
  Status earlier = exchange.failure();
  if (earlier.ok()) earlier = news_of(exchange, kNewsComeWithin);
  return earlier.ok() ? status : earlier;
}

Status or_earlier_news(const Watch& watch, Status status) {
  if (status.ok()) return status;
  BANYAN_TRY(watch.look());
  const bool gone = status.code() == Code::kPeerLost || status.code() == Code::kRemote ||
                    status.code() == Code::kInvalidUsage;  // nobody listens any more
  if (!gone) return status;
  const Result<bool> news = wait_or_news(watch, -1, 0, Clock::now() + kNewsComeWithin);
  return news.ok() ? status : news.status();
}

Result<bool> wait_or_news(Exchange& exchange, int descriptor, short events, TimePoint deadline) {
  while (true) {
    std::vector<pollfd> entries{{descriptor, events, 0}};
    for (const int news : exchange.failure_descriptors()) entries.push_back({news, POLLIN, 0});
    const int ready = ::poll(entries.data(), entries.size(), milliseconds_until(deadline, 10'000));
    if (ready > 0 && entries[0].revents != 0) return true;
    if (ready > 0) BANYAN_TRY(exchange.failure());
    if (Clock::now() >= deadline) return false;
  }
}

Result<bool> wait_or_news(const Watch& watch, int descriptor, short events, TimePoint deadline) {
  while (true) {
    BANYAN_TRY(watch.look());
    pollfd entries[] = {{descriptor, events, 0}, {watch.descriptor, POLLIN, 0}};
    (void)::poll(entries, std::size(entries), milliseconds_until(deadline, 10'000));
    if (entries[0].revents != 0) return true;
    if (Clock::now() >= deadline) return false;
  }
}

// A system error names only what the rank wanted from others.
Status said_by(int rank, const Status& said) {
  if (said.code() != Code::kSystem && said.message().find("rank ") != std::string_view::npos) {
    return said;
  }
  return {said.code(), fmt::format("rank {}: {}", rank, said.message())};
}

Status call_roll(int rank, int size, const FixedAllgather& allgather, const Status& own) {
  struct Entry {
    uint32_t magic;
    int32_t rank;
    int32_t size;
    uint32_t ready;
  };
  constexpr uint32_t kMagic = 0x6e617942;  // "Byan": zeros are no entry
  const Entry mine{.magic = kMagic, .rank = rank, .size = size, .ready = own.ok() ? 1U : 0U};
  std::vector<Entry> roll(static_cast<size_t>(size));
  const int result = allgather(&mine, roll.data(), sizeof mine);
  BANYAN_TRY(own);
  if (result != 0) {
    return {Code::kRemote,
            fmt::format("the caller's allgather of {} bytes returned {}, which is a failure",
                        sizeof mine, result)};
  }
  for (int place = 0; place < size; ++place) {
    const Entry& entry = roll[static_cast<size_t>(place)];
    if (entry.magic != kMagic) {
      return {Code::kInvalidArgument,
              fmt::format("the caller's allgather brought nothing of rank {}", place)};
    }
    if (entry.rank != place || entry.size != size) {
      return {
          Code::kMismatch,
          fmt::format("rank {} of {} came to the place of rank {} of {} in the caller's "
                      "allgather; every rank needs a number of its own, and the same rank_count",
                      entry.rank, entry.size, place, size)};
    }
  }
  for (int other = 0; other < size; ++other) {
    if (roll[static_cast<size_t>(other)].ready == 1) continue;
    return {Code::kRemote, fmt::format("rank {} cannot take part; its own error says why", other)};
  }
  return {};
}

std::unique_ptr<Exchange> exchange_over(int rank, int size, FixedAllgather allgather) {
  return std::make_unique<FixedExchange>(rank, size, std::move(allgather));
}

}  // namespace banyan
