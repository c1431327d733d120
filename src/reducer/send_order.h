// In which order full buckets are sent, so that the next forward pass waits as little as it can.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace banyan {

// A permutation of the buckets. Bucket b is full ready[b] seconds into the step, and its sum takes
// duration[b] seconds; what is negative or not finite counts as 0. Numbers are in the order of the
// backward pass, so that the forward pass needs the highest one first.
//
// This is list scheduling on one link, which is never idle while a bucket is full. When it is free,
// the highest number goes first of those that are full. When none is, the next one to be full goes
// at once, which is the lower number of two that are full at the same moment. So the last bucket
// is summed no later than if they went first come, first served.
//
// P3 (Jayarajan et al., "Priority-based Parameter Propagation for Distributed DNN Training", MLSys
// 2019) and ByteScheduler (Peng et al., SOSP 2019) have the same priorities, cut tensors in slices,
// and decide anew for each slice as it happens. Here a bucket is never cut nor overtaken once it
// has begun, and the order is settled before the step from times of former ones. So all ranks make
// the same calls in the same order, and need not ask each other.
std::vector<uint32_t> send_order(std::span<const double> ready, std::span<const double> duration);

// The first of these buckets changes places with the one of them that goes first; all others stay.
void put_first(std::vector<uint32_t>& order, std::span<const uint32_t> buckets);

}  // namespace banyan
