// An exchange in which a rank can say that it failed: everybody's round then returns that.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "banyan/status.h"
#include "src/base/bytes.h"
#include "src/base/clock.h"
#include "src/bootstrap/exchange.h"

namespace banyan {

class CarefulExchange final : public Exchange {
 public:
  explicit CarefulExchange(Exchange& exchange) : exchange_(exchange) {}

  int rank() const override { return exchange_.rank(); }
  int size() const override { return exchange_.size(); }
  std::optional<Key> key() const override { return exchange_.key(); }
  std::optional<Address> met_by() const override { return exchange_.met_by(); }
  bool of_one_user() const override { return exchange_.of_one_user(); }

  std::vector<int> failure_descriptors() const override { return exchange_.failure_descriptors(); }
  Status failure() override;
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       TimePoint deadline) override;

  // This rank cannot go on. Says so at once, or else takes part in one more round for it.
  Status fail(const Status& status, TimePoint deadline);

 private:
  // Takes the code from what each rank gave.
  Status look_for_failures(std::vector<Bytes>& all) const;

  Exchange& exchange_;
  Status failed_;
};

// A status as ranks give it to each other.
void put_status(Writer& writer, const Status& status);
// What a rank said by it, as this rank tells it.
Status status_in(int rank, int self, const Bytes& bytes);

}  // namespace banyan
