// Calls that send by a codec; by a toy one, which no function of banyan.h can ask for, by what
// stands behind it.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "banyan/banyan.h"
#include "banyan/status.h"
#include "src/base/codec.h"
#include "src/communicator/call.h"
#include "src/communicator/owner.h"

namespace banyan::test {

// A compression by that codec, of vectors of any length.
banyan_compression_t codec_named(const char* codec, uint64_t seed = 0);

// From now on calls on it may number the toy codecs.
void use_toys(banyan_comm_t comm);
// From now on local steps end later, by chance.
void delay_local_work(banyan_comm_t comm, unsigned seed);

// The communicator is its own until it is destroyed; null: there is no thread.
std::unique_ptr<Owner> own(banyan_comm_t comm, size_t most = Owner::kMost,
                           Owner::Listener* listener = nullptr);

// An allreduce of float32 sums by that algorithm; `top` and `inside` are the codecs of its levels.
Call coded_allreduce(const char* algorithm, CodecId top, CodecId inside,
                     const std::vector<float>& send, std::vector<float>& recv);
// Blocking; the failure is that of the communicator.
Status run_coded(banyan_comm_t comm, const Call& call);
// Joins the group that is open.
Status join_coded(banyan_comm_t comm, const Call& call);

// Small whole numbers, which the codec that keeps all values does not change, nor their sums.
std::vector<float> small_numbers(size_t count, int rank, size_t salt);
// Their sums over all ranks.
std::vector<float> sums_of_small_numbers(size_t count, int ranks, size_t salt);
// What every rank has after a flat allreduce by the first toy codec.
std::vector<float> toy_sums(size_t count, int ranks, size_t salt);

}  // namespace banyan::test
