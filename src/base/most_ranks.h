// What a job has at the most.
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace banyan {

// Ranks of one communicator, also as launchers and strangers tell them.
inline constexpr int kMostRanks = 65536;

}  // namespace banyan
