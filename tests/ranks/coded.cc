// SPDX-License-Identifier: Apache-2.0

#include "tests/ranks/coded.h"

#include <memory>
#include <utility>

#include "algorithms/algorithms.h"
#include "src/c_api/group.h"
#include "src/c_api/handles.h"
#include "src/c_api/run.h"
#include "tests/support/delayed_work.h"
#include "tests/support/toy_codec.h"

namespace banyan::test {
namespace {

// What a message of these values says of them.
std::vector<float> said_of(const std::vector<float>& values) {
  const Codec& codec = toy_codecs().front();
  std::vector<std::byte> message(codec.capacity({}, DataType::kFloat32, values.size()));
  std::vector<float> said(values.size());
  const Encoded encoded =
      codec.encode({}, DataType::kFloat32, reinterpret_cast<const std::byte*>(values.data()),
                   values.size(), message.data(), nullptr);
  codec.decode({}, DataType::kFloat32, {message.data(), encoded.size, encoded.flags}, values.size(),
               reinterpret_cast<std::byte*>(said.data()));
  return said;
}

}  // namespace

banyan_compression_t codec_named(const char* codec, uint64_t seed) {
  banyan_compression_t compression = BANYAN_COMPRESSION_INIT;
  compression.fidelity = BANYAN_CODEC;
  compression.codec = codec;
  compression.min_bytes = 1;
  compression.seed = seed;
  return compression;
}

void use_toys(banyan_comm_t comm) {
  const Pinned open(comm);
  Driver(*open.get()->membership)->use_codecs(toy_codecs());
}

void delay_local_work(banyan_comm_t comm, unsigned seed) {
  const Pinned open(comm);
  Driver driver(*open.get()->membership);
  const auto routes = driver->engine().routes();
  driver->engine().serve(MemoryKind::kHost, std::make_unique<DelayedWork>(2, seed),
                         {routes.begin(), routes.end()});
}

std::unique_ptr<Owner> own(banyan_comm_t comm, size_t most, Owner::Listener* listener) {
  const Pinned open(comm);
  Result<std::unique_ptr<Owner>> owner =
      Owner::start(Driver(*open.get()->membership), most, listener);
  return owner.ok() ? std::move(*owner) : nullptr;
}

Call coded_allreduce(const char* algorithm, CodecId top, CodecId inside,
                     const std::vector<float>& send, std::vector<float>& recv) {
  recv.assign(send.size(), -1);
  Call call;
  call.problem.collective = Collective::kAllreduce;
  call.problem.count = send.size();
  call.send = send.data();
  call.recv = recv.data();
  call.send_bytes = call.recv_bytes = send.size() * sizeof(float);
  call.algorithm = find_algorithm(algorithm);
  call.parameters.inter_codec.codec = top;
  call.parameters.intra_codec.codec = inside;
  return call;
}

Status run_coded(banyan_comm_t comm, const Call& call) {
  const Pinned open(comm);
  return run_now(*open.get(), call);
}

Status join_coded(banyan_comm_t comm, const Call& call) {
  const Pinned open(comm);
  return join_group(*open.get(), call, nullptr);
}

std::vector<float> small_numbers(size_t count, int rank, size_t salt) {
  std::vector<float> made(count);
  for (size_t i = 0; i < count; ++i)
    made[i] = static_cast<float>((i * 7 + static_cast<size_t>(rank) * 5 + salt) % 6);
  return made;
}

std::vector<float> sums_of_small_numbers(size_t count, int ranks, size_t salt) {
  std::vector<float> sums(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> part = small_numbers(count, rank, salt);
    for (size_t i = 0; i < count; ++i) sums[i] += part[i];
  }
  return sums;
}

std::vector<float> toy_sums(size_t count, int ranks, size_t salt) {
  std::vector<float> all;
  for (int owner = 0; owner < ranks; ++owner) {
    const Part share = part_of(count, ranks, owner);
    std::vector<float> sum(share.count);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<float> numbers = small_numbers(count, rank, salt);
      const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(share.begin);
      const std::vector<float> said =
          said_of({begin, begin + static_cast<std::ptrdiff_t>(share.count)});
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += said[i];
    }
    const std::vector<float> result = said_of(sum);
    all.insert(all.end(), result.begin(), result.end());
  }
  return all;
}

}  // namespace banyan::test
