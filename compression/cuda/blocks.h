// What one thread of a kernel does: it loads a few packs of a tile, then computes and stores them,
// tile after tile. The last block takes the elements before the first pack and behind the last one.
// The same source is compiled for the device and for the host.
//
// dst may be local, or src where the types are the same: whatever is stored was loaded before, by
// the same thread. So no load may take the way of data that nobody writes (ld.global.nc).
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cassert>
#include <cstring>

#include "compression/cuda/elements.h"

namespace banyan {
namespace {

// 4, 8 or 16 bytes, which are in registers where all indices are known at compile time.
template <unsigned Bytes>
struct CudaPack {
  uint32_t words[Bytes / 4] = {};
};

// Loads and stores have no hints for the caches: those for streams cost a tenth of the speed.
template <unsigned Bytes>
BANYAN_HOST_DEVICE CudaPack<Bytes> load_pack(const std::byte* from) {
  CudaPack<Bytes> pack;
#ifdef __CUDA_ARCH__
  if constexpr (Bytes == 16) {
    const uint4 v = *reinterpret_cast<const uint4*>(from);
    pack.words[0] = v.x;
    pack.words[1] = v.y;
    pack.words[2] = v.z;
    pack.words[3] = v.w;
  } else if constexpr (Bytes == 8) {
    const uint2 v = *reinterpret_cast<const uint2*>(from);
    pack.words[0] = v.x;
    pack.words[1] = v.y;
  } else {
    pack.words[0] = *reinterpret_cast<const unsigned*>(from);
  }
#else
  assert(reinterpret_cast<uintptr_t>(from) % Bytes == 0);
  BANYAN_CUDA_READS(from, Bytes);
  std::memcpy(&pack, from, Bytes);
#endif
  return pack;
}

// At any address: words are taken from two that are aligned, of which one may be beyond the pack. A
// word that holds nothing of the pack is not read, because another thread may write it.
template <unsigned Bytes>
BANYAN_HOST_DEVICE CudaPack<Bytes> load_pack_anywhere(const std::byte* from) {
  const unsigned ahead = reinterpret_cast<uintptr_t>(from) % 4;
  const std::byte* aligned = from - ahead;
  CudaPack<Bytes> pack;
  uint32_t low = load_pack<4>(aligned).words[0];
  BANYAN_UNROLLED
  for (unsigned w = 0; w < Bytes / 4; w++) {
    const bool needed = ahead != 0 || w + 1 < Bytes / 4;
    const uint32_t high = needed ? load_pack<4>(aligned + 4 * (w + 1)).words[0] : 0;
    const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
    pack.words[w] = static_cast<uint32_t>(both >> (8 * ahead));
    low = high;
  }
  return pack;
}

template <unsigned Bytes>
BANYAN_HOST_DEVICE void store_pack(std::byte* to, const CudaPack<Bytes>& pack) {
#ifdef __CUDA_ARCH__
  if constexpr (Bytes == 16) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(pack.words[0], pack.words[1], pack.words[2], pack.words[3]);
  } else if constexpr (Bytes == 8) {
    *reinterpret_cast<uint2*>(to) = make_uint2(pack.words[0], pack.words[1]);
  } else {
    *reinterpret_cast<unsigned*>(to) = pack.words[0];
  }
#else
  assert(reinterpret_cast<uintptr_t>(to) % Bytes == 0);
  BANYAN_CUDA_WRITES(to, Bytes);
  std::memcpy(to, &pack, Bytes);
#endif
}

template <unsigned Size>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using Type = uint8_t;
};
template <>
struct UnsignedOf<2> {
  using Type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using Type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using Type = uint64_t;
};
template <typename T>
using BitsOf = typename UnsignedOf<sizeof(T)>::Type;

template <typename T, unsigned Bytes>
BANYAN_HOST_DEVICE T element_of(const CudaPack<Bytes>& pack, unsigned i) {
  if constexpr (sizeof(T) == 8) {
    return bits_as<T>(pack.words[2 * i] | static_cast<uint64_t>(pack.words[2 * i + 1]) << 32);
  } else {
    constexpr unsigned kInWord = 4 / sizeof(T);
    const uint32_t word = pack.words[i / kInWord] >> (i % kInWord * 8 * sizeof(T));
    return bits_as<T>(static_cast<BitsOf<T>>(word));
  }
}

// Into a pack whose bits there are zero.
template <unsigned Bytes, typename T>
BANYAN_HOST_DEVICE void set_element(CudaPack<Bytes>& pack, unsigned i, T value) {
  const auto bits = bits_as<BitsOf<T>>(value);
  if constexpr (sizeof(T) == 8) {
    pack.words[2 * i] = static_cast<uint32_t>(bits);
    pack.words[2 * i + 1] = static_cast<uint32_t>(bits >> 32);
  } else {
    constexpr unsigned kInWord = 4 / sizeof(T);
    pack.words[i / kInWord] |= static_cast<uint32_t>(bits) << (i % kInWord * 8 * sizeof(T));
  }
}

template <class Function>
constexpr bool computes_words() {
  return requires {
    Function::apply_word(0U, 0U);
  };
}

// The items of a launch are packs, or elements at any address. Sources are what one of them reads.
template <class Function, CudaSources From>
struct CudaPackItems {
  using Local = typename Function::Local;
  using Incoming = typename Function::Incoming;
  static constexpr unsigned kElements =
      kCudaPackBytes / (sizeof(Local) > sizeof(Incoming) ? sizeof(Local) : sizeof(Incoming));
  static constexpr unsigned kLocalBytes = kElements * sizeof(Local);
  static constexpr unsigned kIncomingBytes = kElements * sizeof(Incoming);
  struct Sources {
    CudaPack<kLocalBytes> local;
    CudaPack<kIncomingBytes> incoming;
  };

  template <unsigned Bytes>
  BANYAN_HOST_DEVICE static CudaPack<Bytes> load_source(const std::byte* from) {
    if constexpr (From == CudaSources::kAligned) {
      return load_pack<Bytes>(from);
    } else {
      return load_pack_anywhere<Bytes>(from);
    }
  }

  BANYAN_HOST_DEVICE static Sources load(const CudaKernelCall& at, uint64_t i) {
    Sources sources;
    if constexpr (Function::kCombines) {
      sources.local = load_source<kLocalBytes>(at.local + i * kLocalBytes);
    }
    sources.incoming = load_source<kIncomingBytes>(at.src + i * kIncomingBytes);
    return sources;
  }

  BANYAN_HOST_DEVICE static void store(const CudaKernelCall& at, uint64_t i, const Sources& from) {
    CudaPack<kLocalBytes> result;
    if constexpr (computes_words<Function>()) {
      BANYAN_UNROLLED
      for (unsigned w = 0; w < kLocalBytes / 4; w++) {
        result.words[w] = Function::apply_word(from.local.words[w], from.incoming.words[w]);
      }
    } else {
      BANYAN_UNROLLED
      for (unsigned e = 0; e < kElements; e++) {
        const auto incoming = element_of<Incoming>(from.incoming, e);
        if constexpr (Function::kCombines) {
          const auto local = element_of<Local>(from.local, e);
          set_element(result, e, Function::apply(local, incoming, at.operand));
        } else {
          set_element(result, e, Function::apply(incoming, at.operand));
        }
      }
    }
    store_pack(at.dst + i * kLocalBytes, result);
  }
};

template <typename T>
BANYAN_HOST_DEVICE T load_anywhere(const std::byte* from) {
#ifdef __CUDA_ARCH__
  if (reinterpret_cast<uintptr_t>(from) % sizeof(T) == 0) return *reinterpret_cast<const T*>(from);
  BitsOf<T> bits = 0;
  for (unsigned i = 0; i < sizeof(T); i++) {
    bits |= static_cast<BitsOf<T>>(static_cast<BitsOf<T>>(from[i]) << 8 * i);
  }
  return bits_as<T>(bits);
#else
  BANYAN_CUDA_READS(from, sizeof(T));
  return load<T>(from);
#endif
}

template <typename T>
BANYAN_HOST_DEVICE void store_anywhere(std::byte* to, T value) {
#ifdef __CUDA_ARCH__
  if (reinterpret_cast<uintptr_t>(to) % sizeof(T) == 0) {
    *reinterpret_cast<T*>(to) = value;
    return;
  }
  const auto bits = bits_as<BitsOf<T>>(value);
  for (unsigned i = 0; i < sizeof(T); i++) to[i] = static_cast<std::byte>(bits >> 8 * i);
#else
  BANYAN_CUDA_WRITES(to, sizeof(T));
  store<T>(to, value);
#endif
}

template <class Function>
struct CudaElementItems {
  using Local = typename Function::Local;
  using Incoming = typename Function::Incoming;
  struct Sources {
    Local local;
    Incoming incoming;
  };

  BANYAN_HOST_DEVICE static Sources load(const CudaKernelCall& at, uint64_t i) {
    Sources sources{};
    if constexpr (Function::kCombines) {
      sources.local = load_anywhere<Local>(at.local + i * sizeof(Local));
    }
    sources.incoming = load_anywhere<Incoming>(at.src + i * sizeof(Incoming));
    return sources;
  }

  BANYAN_HOST_DEVICE static void store(const CudaKernelCall& at, uint64_t i, const Sources& from) {
    Local result;
    if constexpr (Function::kCombines) {
      result = Function::apply(from.local, from.incoming, at.operand);
    } else {
      result = Function::apply(from.incoming, at.operand);
    }
    store_anywhere<Local>(at.dst + i * sizeof(Local), result);
  }
};

template <class Items>
BANYAN_HOST_DEVICE void run_tiles(const CudaKernelCall& at, uint64_t count, CudaThread thread) {
  const uint64_t stride = static_cast<uint64_t>(thread.blocks) * kCudaTile;
  for (uint64_t tile = static_cast<uint64_t>(thread.block) * kCudaTile; tile < count;
       tile += stride) {
    const uint64_t first = tile + thread.index;
    if (count - tile >= kCudaTile) {
      typename Items::Sources sources[kCudaInFlight];
      BANYAN_UNROLLED
      for (unsigned u = 0; u < kCudaInFlight; u++) {
        sources[u] = Items::load(at, first + u * kCudaThreads);
      }
      BANYAN_UNROLLED
      for (unsigned u = 0; u < kCudaInFlight; u++) {
        Items::store(at, first + u * kCudaThreads, sources[u]);
      }
    } else {
      for (uint64_t i = first; i < count; i += kCudaThreads) {
        Items::store(at, i, Items::load(at, i));
      }
    }
  }
}

template <class Function>
BANYAN_HOST_DEVICE void run_thread(const CudaKernelCall& call, CudaThread thread) {
  constexpr uint32_t kLocal = sizeof(typename Function::Local);
  constexpr uint32_t kIncoming = sizeof(typename Function::Incoming);
  using Elements = CudaElementItems<Function>;
  using Aligned = CudaPackItems<Function, CudaSources::kAligned>;
  using Anywhere = CudaPackItems<Function, CudaSources::kAnywhere>;
  const CudaPacks span = cuda_packs(call, kLocal, kIncoming);
  if (span.packs == 0) return run_tiles<Elements>(call, call.count, thread);
  CudaKernelCall at = call;
  at.dst += span.head * kLocal;
  if (at.local != nullptr) at.local += span.head * kLocal;
  at.src += span.head * kIncoming;
  if (span.sources == CudaSources::kAligned) {
    run_tiles<Aligned>(at, span.packs, thread);
  } else {
    run_tiles<Anywhere>(at, span.packs, thread);
  }
  // The other elements: a block has more threads.
  const uint64_t in_packs = span.packs * Aligned::kElements;
  if (thread.block + 1 == thread.blocks && thread.index < call.count - in_packs) {
    const uint64_t i = thread.index < span.head ? thread.index : thread.index + in_packs;
    Elements::store(call, i, Elements::load(call, i));
  }
}

}  // namespace
}  // namespace banyan
