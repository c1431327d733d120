// SPDX-License-Identifier: Apache-2.0

#include "src/bootstrap/careful_exchange.h"

#include <fmt/format.h>

#include "src/base/failure_code.h"
#include "src/base/parse.h"

namespace banyan {
namespace {

constexpr size_t kMostText = 4096;

}  // namespace

void put_status(Writer& writer, const Status& status) {
  writer.put(static_cast<uint32_t>(status.code()));
  if (!status.ok()) writer.put_text(status.message().substr(0, kMostText));
}

Status status_in(int rank, int self, const Bytes& bytes) {
  Reader reader(bytes);
  const auto code = reader.get<uint32_t>();
  if (reader.bad()) return {Code::kCorrupt, fmt::format("rank {} sent a short round", rank)};
  if (code == 0) return {};
  const Status said(is_failure_code(code) ? static_cast<Code>(code) : Code::kInternal,
                    printable(reader.get_text(kMostText)));
  return rank == self ? said : said_by(rank, said);
}

Status CarefulExchange::failure() {
  if (failed_.ok()) failed_ = exchange_.failure();
  return failed_;
}

Result<std::vector<Bytes>> CarefulExchange::allgather(std::span<const std::byte> mine,
                                                      TimePoint deadline) {
  if (!failed_.ok()) return failed_;
  Writer writer;
  put_status(writer, {});
  writer.put_raw(mine);
  Result<std::vector<Bytes>> all = exchange_.allgather(writer.bytes(), deadline);
  failed_ = all.ok() ? look_for_failures(*all) : all.status();
  return failed_.ok() ? std::move(all) : Result<std::vector<Bytes>>(failed_);
}

Status CarefulExchange::fail(const Status& status, TimePoint deadline) {
  if (!failed_.ok()) {
    (void)exchange_.give_up(failed_);  // what came of a round may be news to the others
    return failed_;
  }
  // The others may know more about a rank that can no longer be reached.
  Status cause = status.code() == Code::kPeerLost ? or_earlier_news(*this, status) : status;
  if (exchange_.give_up(cause)) return cause;
  Writer writer;
  put_status(writer, cause);
  Result<std::vector<Bytes>> all = exchange_.allgather(writer.bytes(), deadline);
  return all.ok() ? look_for_failures(*all) : cause;
}

Status CarefulExchange::look_for_failures(std::vector<Bytes>& all) const {
  Status failed;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    Bytes& bytes = all[rank];
    const Status said = status_in(static_cast<int>(rank), this->rank(), bytes);
    // Whoever could not reach a rank that gave up says so too; the cause comes first.
    const bool better = failed.ok() || failed.code() == Code::kPeerLost;
    if (!said.ok() && better) failed = said;
    if (said.ok()) bytes.erase(bytes.begin(), bytes.begin() + sizeof(uint32_t));
  }
  return failed;
}

}  // namespace banyan
