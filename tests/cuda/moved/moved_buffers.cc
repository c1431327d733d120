// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/moved/moved_buffers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "banyan/types.h"
#include "tests/cuda/moved/gpus.h"

namespace banyan::test {
namespace {

constexpr size_t kGuard = 64;
constexpr std::byte kCanary{0xa5};

const std::byte* begin_of(const HostBuffer& buffer) {
  return static_cast<const std::byte*>(buffer.memory);
}

const std::byte* end_of(const HostBuffer& buffer) {
  return begin_of(buffer) + buffer.bytes;
}

bool is_moved(const HostBuffer& buffer) {
  return buffer.memory != nullptr && buffer.bytes != 0;
}

// Their addresses need not be of one object.
bool is_before(const std::byte* a, const std::byte* b) {
  return std::less<>()(a, b);
}

bool overlap(const HostBuffer& a, const HostBuffer& b) {
  return is_before(begin_of(a), end_of(b)) && is_before(begin_of(b), end_of(a));
}

HostBuffer both(const HostBuffer& a, const HostBuffer& b) {
  const std::byte* begin = std::min(begin_of(a), begin_of(b), std::less<>());
  const std::byte* end = std::max(end_of(a), end_of(b), std::less<>());
  return {begin, static_cast<size_t>(end - begin)};
}

void must_be(bool held, const char* what) {
  if (held) return;
  fmt::print(stderr, "a call on memory of a GPU has written {}\n", what);
  std::abort();
}

}  // namespace

HostBuffer elements(const void* memory, size_t count, banyan_datatype_t datatype) {
  constexpr size_t kMostBytes = size_t{1} << 30;
  if (datatype < BANYAN_INT8 || datatype > BANYAN_FLOAT8_E5M2) return {memory, 0};
  const size_t element = size_of(static_cast<DataType>(datatype));
  return {memory, count > kMostBytes / element ? 0 : count * element};
}

bool MovedBuffers::Block::holds(const HostBuffer& buffer) const {
  return overlap({host, bytes}, buffer);
}

size_t MovedBuffers::Block::allocated() const {
  return before + bytes + kGuard;
}

MovedBuffers::MovedBuffers(int gpu, HostBuffer send, HostBuffer recv)
    : gpu_(gpu), send_(send), recv_(recv) {
  if (is_moved(send) && is_moved(recv) && overlap(send, recv)) {
    add(both(send, recv));
    return;
  }
  for (const HostBuffer& buffer : {send, recv})
    if (is_moved(buffer)) add(buffer);
}

MovedBuffers::~MovedBuffers() {
  for (const Block& block : blocks_) Gpus::of_process().free(gpu_, block.there);
}

void MovedBuffers::add(HostBuffer buffer) {
  const auto odd = reinterpret_cast<uintptr_t>(buffer.memory) % kGuard;
  Block block{begin_of(buffer), buffer.bytes, kGuard + odd, nullptr, {}};
  block.there = Gpus::of_process().allocate(gpu_, block.allocated());
  blocks_.push_back(std::move(block));
}

void* MovedBuffers::place_of(const HostBuffer& buffer) const {
  if (is_moved(buffer))
    for (const Block& block : blocks_)
      if (block.holds(buffer)) return block.there + block.before + (begin_of(buffer) - block.host);
  return const_cast<void*>(buffer.memory);
}

void MovedBuffers::bring_in() {
  for (Block& block : blocks_) {
    std::vector<std::byte> whole(block.allocated(), kCanary);
    std::copy_n(block.host, block.bytes, whole.begin() + static_cast<ptrdiff_t>(block.before));
    Gpus::of_process().write(gpu_, block.there, whole.data(), whole.size());
    const bool is_input = is_moved(send_) && !(is_moved(recv_) && block.holds(recv_));
    if (is_input) block.sent.assign(block.host, block.host + block.bytes);
  }
}

void MovedBuffers::take_out() {
  for (const Block& block : blocks_) {
    std::vector<std::byte> whole(block.allocated());
    Gpus::of_process().read(gpu_, whole.data(), block.there, whole.size());
    const auto begin = whole.begin() + static_cast<ptrdiff_t>(block.before);
    const auto end = begin + static_cast<ptrdiff_t>(block.bytes);
    const auto is_canary = [](std::byte byte) { return byte == kCanary; };
    must_be(std::all_of(whole.begin(), begin, is_canary), "before its buffer");
    must_be(std::all_of(end, whole.end(), is_canary), "behind its buffer");
    if (!block.sent.empty()) must_be(std::equal(begin, end, block.sent.begin()), "what it reads");
    if (!is_moved(recv_) || !block.holds(recv_)) continue;
    const ptrdiff_t at = begin_of(recv_) - block.host;
    std::copy_n(begin + at, recv_.bytes, static_cast<std::byte*>(const_cast<void*>(recv_.memory)));
  }
}

}  // namespace banyan::test
