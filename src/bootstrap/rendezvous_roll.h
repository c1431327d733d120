// Who has come to a rendezvous, and what is wrong with who comes. Pure.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "banyan/status.h"
#include "src/bootstrap/frame.h"

namespace banyan {

// "rank 3 of 4 has", "ranks 1, 2 and 5-9 of 12 have": those that are not present.
std::string absent_ranks_have(const std::vector<bool>& present);

class Roll {
 public:
  // Fails with kMismatch for another size than the first one's, or a rank that is there already.
  // `from` says where it came from, for people.
  Status enter(const Joiner& joiner, std::string from);
  // The process that is there under this rank has given up, and meets the others again.
  bool is_later_call(const Joiner& joiner) const;

  int size() const { return static_cast<int>(present_.size()); }  // 0: nobody has come
  bool complete() const { return size() > 0 && arrived_ == size(); }
  const std::vector<bool>& present() const { return present_; }
  const std::string& origin(int rank) const { return origins_[static_cast<size_t>(rank)]; }

 private:
  std::vector<bool> present_;
  std::vector<std::string> origins_;
  std::vector<Joiner> joiners_;
  int first_ = 0;  // whose size counts
  int arrived_ = 0;
};

}  // namespace banyan
