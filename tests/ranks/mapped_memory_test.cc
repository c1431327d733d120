// Calls take memory that the program maps by itself, as PyTorch's expandable segments and
// ncclMemAlloc do: whoever may export it, wherever in it a buffer is, and however it changes.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ranks/window_calls.h"
#include "tests/support/sanitizers.h"

namespace banyan::test::mapped_memory_test {
namespace {

constexpr size_t kPiece = size_t{2} << 20;

// Pieces side by side, each an allocation of its own.
class Pieces {
 public:
  Pieces(Rank& self, const CudaFunctions& cuda, size_t count, int handle_types)
      : self_(self), cuda_(cuda), count_(count) {
    wished_.handle_types = handle_types;
    (void)cuda_.current_device(&wished_.location.id);
    good(cuda_.reserve(&begin_, count * kPiece, 0, 0, 0), "cuMemAddressReserve");
    fill();
  }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;
  ~Pieces() {
    empty();
    good(cuda_.free_reserved(begin_, count_ * kPiece), "cuMemAddressFree");
  }

  // Others of the same kind come to the same addresses.
  void replace() {
    empty();
    fill();
  }
  std::byte* begin() const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver gives addresses as numbers
    return reinterpret_cast<std::byte*>(begin_);
  }

 private:
  void good(int result, const char* call) {
    self_.expect(result == kCudaSuccess, fmt::format("{}: {}", call, result));
  }
  void fill() {
    for (size_t i = 0; i < count_; ++i) {
      CudaFunctions::Memory piece = 0;
      good(cuda_.create_memory(&piece, kPiece, &wished_, 0), "cuMemCreate");
      good(cuda_.map(begin_ + i * kPiece, kPiece, 0, piece, 0), "cuMemMap");
      good(cuda_.release_memory(piece), "cuMemRelease");
    }
    const CudaAccess access{.location = wished_.location};
    good(cuda_.set_access(begin_, count_ * kPiece, &access, 1), "cuMemSetAccess");
  }
  void empty() { good(cuda_.unmap(begin_, count_ * kPiece), "cuMemUnmap"); }

  Rank& self_;
  const CudaFunctions& cuda_;
  const size_t count_;
  CudaAllocation wished_{};
  CudaFunctions::Address begin_ = 0;
};

class MappedMemory : public WindowCalls {
 protected:
  static bool is_there(RankGpu& gpu) {
    int device = 0, mapped = 0;
    return gpu.driver().current_device(&device) == kCudaSuccess &&
           gpu.driver().attribute(&mapped, 102, device) == kCudaSuccess && mapped != 0;
  }
  // In place, of so many floats there.
  static bool add_up_at(Rank& self, banyan_comm_t comm, RankGpu& gpu, std::byte* at, size_t count,
                        int salt) {
    Vector vector(gpu, count, false);
    vector.fill(self.rank(), salt);
    std::vector<float> values = vector.values();
    gpu.write_on(nullptr, at, values.data(), count * sizeof(float));
    gpu.synchronize(nullptr);
    const banyan_result_t result =
        banyan_allreduce(at, at, count, BANYAN_FLOAT32, BANYAN_SUM, comm);
    if (!self.expect_ok(result, fmt::format("allreduce {}", salt))) return false;
    gpu.read(values.data(), at, count * sizeof(float));
    return self.expect(values == sum_of(gpu, self.size(), count, salt),
                       fmt::format("sum {} of {}", salt, count));
  }
};

// By windows and by the host: short calls go there.
TEST_P(MappedMemory, WorksWhereverItIs) {
  for (const int handle_types : {0, kCudaFileDescriptor})
    for (const size_t count : {size_t{1}, size_t{3}}) {
      if (kThreadSanitizer && count == 1) continue;
      run_with_windows(3, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        if (!is_there(gpu)) return;
        Pieces pieces(self, gpu.driver(), count, handle_types);
        const size_t most = (count * kPiece - kPiece / 2) / sizeof(float) - 3;
        int salt = 0;
        for (const size_t floats : {size_t{1000}, most, size_t{1000}, most, most}) {
          std::byte* const inside = pieces.begin() + kPiece / 2 + 12;
          if (!add_up_at(self, comm, gpu, inside, floats, ++salt)) return;
        }
        self.expect(windows_of(self, comm) == 2, "the long calls but the first went by windows");
      });
    }
}

TEST_P(MappedMemory, IsTheNewOneWhereItWasReplaced) {
  run_with_windows(2, [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
    if (!is_there(gpu)) return;
    Pieces pieces(self, gpu.driver(), 2, kCudaFileDescriptor);
    for (int round = 0; round < 4; ++round) {
      if (!add_up_at(self, comm, gpu, pieces.begin() + kPiece / 2, kPiece / sizeof(float), round))
        return;
      pieces.replace();
    }
    self.expect(windows_of(self, comm) == 3, "all but the first");
  });
}

// A GPU that is not open to it refuses the copy, and all ranks hear of it.
TEST_P(MappedMemory, ThatIsClosedFailsTheCall) {
  run(2, [](Rank& self) {
    RankGpu gpu(self);
    if (!gpu.works() || !gpu.has_faults()) return;
    Pieces pieces(self, gpu.driver(), 1, 0);
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    int device = 0;
    (void)gpu.driver().current_device(&device);
    const CudaAccess closed{.location = {.id = device}, .flags = 0};
    const auto begin = reinterpret_cast<uintptr_t>(pieces.begin());
    if (self.rank() == 1) (void)gpu.driver().set_access(begin, kPiece, &closed, 1);
    self.expect_code(
        banyan_allreduce(pieces.begin(), pieces.begin(), kLeast, BANYAN_FLOAT32, BANYAN_SUM, comm),
        BANYAN_ERR_CUDA, "allreduce");
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, MappedMemory, testing::Values(Kind::kProcesses, Kind::kThreads),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::mapped_memory_test
