// What a call is given on the host, in the memory of a GPU for the time of the call.
//
//   MovedBuffers moved(gpu, {.memory = send, .bytes = n}, {.memory = recv, .bytes = n});
//   moved.bring_in();
//   banyan_allreduce(moved.send(), moved.recv(), ...);
//   moved.take_out();  // and ends the program where the call has written what it may not
//
// Buffers that overlap do so there, too, and addresses keep what they are modulo 64.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <vector>

#include "banyan/c_types.h"

namespace banyan::test {

struct HostBuffer {
  const void* memory = nullptr;
  size_t bytes = 0;  // 0, or no memory: it stays where it is
};

// So many elements of a type there. None where there is no such type, or so many that the library
// is to refuse them.
HostBuffer elements(const void* memory, size_t count, banyan_datatype_t datatype);

class MovedBuffers {
 public:
  // `send` is read and `recv` written.
  MovedBuffers(int gpu, HostBuffer send, HostBuffer recv);
  MovedBuffers(const MovedBuffers&) = delete;
  MovedBuffers& operator=(const MovedBuffers&) = delete;
  ~MovedBuffers();

  void* send() const { return place_of(send_); }
  void* recv() const { return place_of(recv_); }
  void bring_in();
  void take_out();

 private:
  // Bytes of the host, in an allocation of the GPU with guards around them.
  struct Block {
    const std::byte* host;
    size_t bytes;
    size_t before;     // of the first guard
    std::byte* there;  // the allocation
    std::vector<std::byte> sent;

    bool holds(const HostBuffer& buffer) const;
    size_t allocated() const;
  };

  void* place_of(const HostBuffer& buffer) const;
  void add(HostBuffer buffer);

  int gpu_;
  HostBuffer send_;
  HostBuffer recv_;
  std::vector<Block> blocks_;
};

}  // namespace banyan::test
