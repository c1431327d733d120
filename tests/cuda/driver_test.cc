// The stand-in for the CUDA driver behaves as NVIDIA's: memory that the CPU cannot reach, contexts,
// faults. Its streams are in driver_streams_test.cc.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/standin_library.h"

namespace banyan::test {
namespace {

constexpr int kInvalidValue = 1, kNotInitialized = 3, kInvalidDevice = 101, kInvalidContext = 201,
              kInvalidHandle = 400, kIllegalAddress = 700, kDestroyed = 709,
              kAlreadyRegistered = 712, kNotRegistered = 713;

constexpr int kOwner = 1, kMemoryType = 2, kDevicePointer = 3, kHostPointer = 4, kBufferId = 7,
              kIsManaged = 8, kOrdinal = 9, kRangeBegin = 11, kRangeBytes = 12;
constexpr unsigned kHost = 1, kDevice = 2;

class StandinMemory : public WithStandinCuda {
 protected:
  template <typename Value>
  Value attribute(int which, Address address) {
    Value value{};
    EXPECT_EQ(cuda_.pointer_attribute(&value, which, address), kCudaSuccess) << which;
    return value;
  }
  Address managed(size_t bytes) {
    Address made = 0;
    const auto allocate = standin_.find<int(Address*, size_t, unsigned)>("cuMemAllocManaged");
    EXPECT_EQ(allocate(&made, bytes, 1), kCudaSuccess);
    return made;
  }
  std::vector<int> read(Address from, size_t count) {
    std::vector<int> values(count);
    EXPECT_EQ(cuda_.to_host(values.data(), from, count * sizeof(int), nullptr), kCudaSuccess);
    return values;
  }
};

using StandinMemoryDeathTest = StandinMemory;

TEST_F(StandinMemoryDeathTest, OfADeviceIsOutOfReach) {
  const Address memory = device_memory(4096);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): as a caller would
  auto* bytes = reinterpret_cast<volatile char*>(memory);
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_DEATH((void)bytes[0], "");
  EXPECT_DEATH(bytes[4095] = 1, "");
}

TEST_F(StandinMemoryDeathTest, ThatIsNoneEndsWhoLooksAtIt) {
  const Address memory = device_memory(16);
  char text[32] = {};
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_DEATH(standin_.peek(text, memory, sizeof text), "not the driver's");
}

TEST_F(StandinMemory, HoldsWhatIsCopied) {
  const std::array<int, 3> wanted{1, 2, 3};
  const Address memory = device_memory(sizeof wanted), other = device_memory(sizeof wanted);
  ASSERT_EQ(cuda_.to_device(memory, wanted.data(), sizeof wanted, nullptr), kCudaSuccess);
  ASSERT_EQ(cuda_.on_device(other, memory, sizeof wanted, nullptr), kCudaSuccess);
  EXPECT_EQ(read(other, 3), (std::vector<int>{1, 2, 3}));
  ASSERT_EQ(cuda_.fill(other + 4, 0xff, 4, nullptr), kCudaSuccess);
  EXPECT_EQ(read(other, 3), (std::vector<int>{1, -1, 3}));
  ASSERT_EQ(cuda_.copy(memory + 4, other + 4, 8, nullptr), kCudaSuccess);
  std::array<int, 3> seen{};
  ASSERT_EQ(cuda_.synchronize(), kCudaSuccess);
  standin_.peek(seen.data(), memory, sizeof seen);
  EXPECT_EQ(seen, (std::array<int, 3>{1, -1, 3}));
  standin_.poke(memory, wanted.data(), sizeof wanted);
  EXPECT_EQ(read(memory, 3), (std::vector<int>{1, 2, 3}));
}

TEST_F(StandinMemory, IsCopiedByTheCallsThatWait) {
  const auto to_device = standin_.find<int(Address, const void*, size_t)>("cuMemcpyHtoD_v2");
  const auto to_host = standin_.find<int(void*, Address, size_t)>("cuMemcpyDtoH_v2");
  const auto on_device = standin_.find<int(Address, Address, size_t)>("cuMemcpyDtoD_v2");
  const auto any = standin_.find<int(Address, Address, size_t)>("cuMemcpy");
  const auto fill = standin_.find<int(Address, unsigned char, size_t)>("cuMemsetD8_v2");
  const Address one = device_memory(8), two = device_memory(8);
  int values[2] = {5, 6};
  ASSERT_EQ(to_device(one, values, 8), kCudaSuccess);
  ASSERT_EQ(on_device(two, one, 8), kCudaSuccess);
  ASSERT_EQ(fill(two, 0, 4), kCudaSuccess);
  ASSERT_EQ(to_host(values, two, 8), kCudaSuccess);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[1], 6);
  int copied[2] = {};
  ASSERT_EQ(any(address_of(copied), address_of(values), 8), kCudaSuccess);
  EXPECT_EQ(copied[1], 6);
}

TEST_F(StandinMemory, EndsWhereItsAllocationDoes) {
  const Address memory = device_memory(100);
  char host[200] = {};
  for (const auto& [offset, bytes] : {std::pair{0, 101}, {100, 1}, {99, 2}, {-1, 1}, {-1, 10}}) {
    const Address at = memory + static_cast<Address>(offset);
    const auto count = static_cast<size_t>(bytes);
    SCOPED_TRACE(std::to_string(offset) + ", " + std::to_string(bytes));
    EXPECT_EQ(cuda_.to_device(at, host, count, nullptr), kInvalidValue);
    EXPECT_EQ(cuda_.to_host(host, at, count, nullptr), kInvalidValue);
    EXPECT_EQ(cuda_.on_device(memory, at, count, nullptr), kInvalidValue);
    EXPECT_EQ(cuda_.fill(at, 1, count, nullptr), kInvalidValue);
  }
  EXPECT_EQ(cuda_.to_device(memory + 99, host, 1, nullptr), kCudaSuccess);
  EXPECT_EQ(cuda_.to_device(memory, host, 0, nullptr), kCudaSuccess);
  EXPECT_EQ(cuda_.to_device(address_of(host), host + 100, 1, nullptr), kInvalidValue);
  const Address other = device_memory(100);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): as a caller would
  EXPECT_EQ(cuda_.to_device(memory, reinterpret_cast<void*>(other), 1, nullptr), kInvalidValue);
}

TEST_F(StandinMemory, IsKnownByItsKind) {
  const Address memory = device_memory(100);
  EXPECT_EQ(attribute<Handle>(kOwner, memory + 99), context_);
  EXPECT_EQ(attribute<unsigned>(kMemoryType, memory + 99), kDevice);
  EXPECT_EQ(attribute<Address>(kDevicePointer, memory + 9), memory + 9);
  EXPECT_EQ(attribute<unsigned>(kIsManaged, memory), 0U);
  EXPECT_EQ(attribute<int>(kOrdinal, memory), 0);
  EXPECT_EQ(attribute<Address>(kRangeBegin, memory + 50), memory);
  EXPECT_EQ(attribute<size_t>(kRangeBytes, memory + 50), 100U);
  void* nothing = nullptr;
  EXPECT_EQ(cuda_.pointer_attribute(&nothing, kHostPointer, memory), kInvalidValue);
  auto* host = pinned<int>(4);
  EXPECT_EQ(attribute<unsigned>(kMemoryType, address_of(host)), kHost);
  EXPECT_EQ(attribute<int*>(kHostPointer, address_of(host + 3)), host + 3);
  Address seen_by_device = 0;
  ASSERT_EQ(cuda_.host_device_pointer(&seen_by_device, host + 1, 0), kCudaSuccess);
  EXPECT_EQ(seen_by_device, address_of(host + 1));
  const Address both = managed(16);
  EXPECT_EQ(attribute<unsigned>(kIsManaged, both), 1U);
  EXPECT_EQ(attribute<unsigned>(kMemoryType, both), kDevice);
  *attribute<int*>(kHostPointer, both) = 7;
  EXPECT_EQ(read(both, 1), std::vector<int>{7});
  int local = 0;
  unsigned type = 0;
  EXPECT_EQ(cuda_.pointer_attribute(&type, kMemoryType, address_of(&local)), kInvalidValue);
}

TEST_F(StandinMemory, ThatIsUnknownIsNoErrorWhereSeveralAttributesAreAsked) {
  const auto ask = standin_.find<int(unsigned, int*, void**, Address)>("cuPointerGetAttributes");
  int which[] = {kMemoryType, kOrdinal, kRangeBytes};
  unsigned type = 9;
  int ordinal = 9;
  size_t bytes = 9;
  void* values[] = {&type, &ordinal, &bytes};
  ASSERT_EQ(ask(3, which, values, address_of(&type)), kCudaSuccess);
  EXPECT_EQ(type, 0U);
  EXPECT_EQ(ordinal, -2);
  EXPECT_EQ(bytes, 0U);
  ASSERT_EQ(ask(3, which, values, device_memory(24)), kCudaSuccess);
  EXPECT_EQ(type, kDevice);
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(bytes, 24U);
}

TEST_F(StandinMemory, IsUnknownAgainWhenItIsFreed) {
  std::set<uint64_t> buffers;
  for (int i = 0; i < 20; ++i) {
    const Address memory = device_memory(64);
    EXPECT_TRUE(buffers.insert(attribute<uint64_t>(kBufferId, memory)).second);
    EXPECT_EQ(cuda_.free(memory + 8), kInvalidValue);
    ASSERT_EQ(cuda_.free(memory), kCudaSuccess);
    unsigned type = 0;
    EXPECT_EQ(cuda_.pointer_attribute(&type, kMemoryType, memory), kInvalidValue);
    EXPECT_EQ(cuda_.free(memory), kInvalidValue);
  }
  auto* host = pinned<int>();
  EXPECT_EQ(cuda_.free(address_of(host)), kInvalidValue);
  EXPECT_EQ(cuda_.free_host(host), kCudaSuccess);
  EXPECT_EQ(standin_.live("memory"), 0);
}

TEST_F(StandinMemory, OfTheHostIsRegisteredOnce) {
  std::vector<char> own(10'000);
  ASSERT_EQ(cuda_.register_host(own.data() + 1000, 5000, 0), kCudaSuccess);
  EXPECT_EQ(cuda_.register_host(own.data(), own.size(), 0), kAlreadyRegistered);
  EXPECT_EQ(cuda_.register_host(own.data() + 5999, 1, 0), kAlreadyRegistered);
  ASSERT_EQ(cuda_.register_host(own.data() + 6000, 1, 0), kCudaSuccess);
  EXPECT_EQ(attribute<unsigned>(kMemoryType, address_of(own.data() + 1000)), kHost);
  EXPECT_EQ(cuda_.unregister_host(own.data()), kNotRegistered);
  ASSERT_EQ(cuda_.unregister_host(own.data() + 1000), kCudaSuccess);
  ASSERT_EQ(cuda_.unregister_host(own.data() + 6000), kCudaSuccess);
  EXPECT_EQ(cuda_.unregister_host(own.data() + 6000), kNotRegistered);
  void* unmapped = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(unmapped, MAP_FAILED);
  ASSERT_EQ(::munmap(unmapped, 4096), 0);
  EXPECT_EQ(cuda_.register_host(unmapped, 4096, 0), kInvalidValue);
}

TEST_F(StandinMemory, ThatIsPageableIsReadWhenTheCallReturns) {
  StreamGate gate(cuda_, pinned<uint32_t>());
  const Handle queue = stream(kNonBlocking);
  const Address to = device_memory(2 * sizeof(int));
  int pageable = 1;
  int* locked = pinned<int>();
  *locked = 1;
  gate.close(queue);
  ASSERT_EQ(cuda_.to_device(to, &pageable, sizeof(int), queue), kCudaSuccess);
  ASSERT_EQ(cuda_.to_device(to + 4, locked, sizeof(int), queue), kCudaSuccess);
  pageable = 2;
  *locked = 2;
  gate.open();
  ASSERT_EQ(cuda_.synchronize_stream(queue), kCudaSuccess);
  int seen[2] = {};
  standin_.peek(seen, to, sizeof seen);
  EXPECT_EQ(seen[0], 1);
  EXPECT_EQ(seen[1], 2) << "page-locked memory is read when the stream gets there";
}

TEST_F(StandinMemory, IsThereUntilItsWorkIsDone) {
  StreamGate gate(cuda_, pinned<uint32_t>());
  const Handle queue = stream(kNonBlocking);
  const Address memory = device_memory(4);
  int* seen = pinned<int>();
  gate.close(queue);
  ASSERT_EQ(cuda_.fill(memory, 1, 4, queue), kCudaSuccess);
  ASSERT_EQ(cuda_.to_host(seen, memory, 4, queue), kCudaSuccess);
  std::thread opens([&] { gate.open(); });
  EXPECT_EQ(cuda_.free(memory), kCudaSuccess);
  EXPECT_EQ(*seen, 0x01010101);
  opens.join();
}

class StandinContexts : public WithStandinCuda {};

TEST_F(StandinContexts, DescribeTheirDevices) {
  int count = 0, device = -1, value = 0;
  ASSERT_EQ(cuda_.device_count(&count), kCudaSuccess);
  ASSERT_EQ(count, 2);
  EXPECT_EQ(cuda_.device(&device, 2), kInvalidDevice);
  ASSERT_EQ(cuda_.device(&device, 1), kCudaSuccess);
  char text[64] = {};
  ASSERT_EQ(cuda_.name(text, sizeof text, device), kCudaSuccess);
  EXPECT_STREQ(text, "Stand-in GPU 1");
  ASSERT_EQ(cuda_.bus_id(text, sizeof text, device), kCudaSuccess);
  EXPECT_STREQ(text, "0000:0B:00.0");
  const auto by_bus_id = standin_.find<int(int*, const char*)>("cuDeviceGetByPCIBusId");
  int same = 0;
  EXPECT_EQ(by_bus_id(&same, text), kCudaSuccess);
  EXPECT_EQ(same, device);
  ASSERT_EQ(cuda_.attribute(&value, kCudaCapabilityMajor, device), kCudaSuccess);
  EXPECT_EQ(value, 9);
  ASSERT_EQ(cuda_.attribute(&value, 16, device), kCudaSuccess);
  EXPECT_EQ(value, 132);
  CudaUuid uuids[2] = {};
  ASSERT_EQ(cuda_.uuid(&uuids[0], 0), kCudaSuccess);
  ASSERT_EQ(cuda_.partition_uuid(&uuids[1], 1), kCudaSuccess);
  EXPECT_NE(std::memcmp(&uuids[0], &uuids[1], sizeof uuids[0]), 0);
}

TEST_F(StandinContexts, AreOfTheThread) {
  Handle now = nullptr;
  int device = -1;
  std::thread([&] {
    Address memory = 0;
    Handle made = nullptr;
    EXPECT_EQ(cuda_.current_context(&now), kCudaSuccess);
    EXPECT_EQ(now, nullptr);
    EXPECT_EQ(cuda_.allocate(&memory, 8), kInvalidContext);
    EXPECT_EQ(cuda_.create_stream(&made, 0), kInvalidContext);
    EXPECT_EQ(cuda_.current_device(&device), kInvalidContext);
    EXPECT_EQ(cuda_.pop_context(&now), kInvalidContext);
  }).join();
  Handle other = nullptr;
  ASSERT_EQ(cuda_.retain_context(&other, 1), kCudaSuccess);
  EXPECT_NE(other, context_);
  ASSERT_EQ(cuda_.push_context(other), kCudaSuccess);
  ASSERT_EQ(cuda_.current_device(&device), kCudaSuccess);
  EXPECT_EQ(device, 1);
  ASSERT_EQ(cuda_.pop_context(&now), kCudaSuccess);
  EXPECT_EQ(now, other);
  ASSERT_EQ(cuda_.current_context(&now), kCudaSuccess);
  EXPECT_EQ(now, context_);
  ASSERT_EQ(cuda_.release_context(1), kCudaSuccess);
  EXPECT_EQ(cuda_.release_context(1), kInvalidContext);
  EXPECT_EQ(cuda_.push_context(other), kDestroyed);
}

TEST_F(StandinContexts, EndWithAllThatTheyHave) {
  Handle other = nullptr;
  ASSERT_EQ(cuda_.retain_context(&other, 1), kCudaSuccess);
  ASSERT_EQ(cuda_.push_context(other), kCudaSuccess);
  const Address memory = device_memory(8);
  const Handle queue = stream(kBlocking), mark = event();
  StreamGate(cuda_, pinned<uint32_t>()).close(queue);  // never opened
  ASSERT_EQ(cuda_.release_context(1), kCudaSuccess);
  unsigned type = 0;
  EXPECT_EQ(cuda_.pointer_attribute(&type, kMemoryType, memory), kInvalidValue);
  EXPECT_EQ(cuda_.synchronize(), kDestroyed);
  Handle popped = nullptr;
  ASSERT_EQ(cuda_.pop_context(&popped), kCudaSuccess);
  EXPECT_EQ(cuda_.query_stream(queue), kInvalidHandle);
  EXPECT_EQ(cuda_.query_event(mark), kInvalidHandle);
  EXPECT_EQ(standin_.live("contexts"), 1);
}

TEST_F(StandinContexts, AreNotThereInAChild) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int count = 0;
    ::_exit(cuda_.init(0) == kNotInitialized && cuda_.device_count(&count) == kNotInitialized ? 0
                                                                                              : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

class StandinFaults : public WithStandinCuda {};

TEST_F(StandinFaults, ComeOnceAfterSomeGoodCalls) {
  standin_.fail("cuMemAlloc", 2, 2);
  Address memory = 0;
  for (const int wanted : {0, 0, 2, 0}) EXPECT_EQ(cuda_.allocate(&memory, 8), wanted);
  EXPECT_EQ(standin_.live("memory"), 3);
  standin_.fail("cuMemAlloc_v2", 0, 2);
  standin_.fail("cuMemAlloc_v2", 0, 0);
  EXPECT_EQ(cuda_.allocate(&memory, 8), kCudaSuccess);
}

TEST_F(StandinFaults, LeaveTheCallsCounted) {
  const long before = standin_.calls("cuStreamCreate");
  (void)stream(kBlocking);
  standin_.fail("cuStreamCreate", 0, 2);
  Handle made = nullptr;
  EXPECT_EQ(cuda_.create_stream(&made, 0), 2);
  EXPECT_EQ(standin_.calls("cuStreamCreate"), before + 2);
  EXPECT_EQ(standin_.calls("cuNothing"), 0);
}

TEST_F(StandinFaults, OfAContextStay) {
  const Handle queue = stream(kNonBlocking), mark = event();
  const Address memory = device_memory(4);
  StreamGate gate(cuda_, pinned<uint32_t>());
  gate.close(queue);
  ASSERT_EQ(cuda_.fill(memory, 1, 4, queue), kCudaSuccess);
  standin_.break_with(kIllegalAddress);
  EXPECT_EQ(cuda_.synchronize_stream(queue), kIllegalAddress);
  EXPECT_EQ(cuda_.record_event(mark, queue), kIllegalAddress);
  EXPECT_EQ(cuda_.query_event(mark), kIllegalAddress);
  EXPECT_EQ(cuda_.free(memory), kIllegalAddress);
  EXPECT_EQ(cuda_.synchronize(), kIllegalAddress);
  Handle now = nullptr;
  EXPECT_EQ(cuda_.current_context(&now), kCudaSuccess);
  standin_.break_with(kCudaSuccess);
  ASSERT_EQ(cuda_.synchronize(), kCudaSuccess) << "nothing waits for the gate any more";
  int seen = -1;
  standin_.peek(&seen, memory, sizeof seen);
  EXPECT_EQ(seen, 0) << "what the context had to do is not done";
}

TEST_F(StandinFaults, HaveNames) {
  const char* name = nullptr;
  ASSERT_EQ(cuda_.error_name(700, &name), kCudaSuccess);
  EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_EQ(cuda_.error_name(12345, &name), kInvalidValue);
}

}  // namespace
}  // namespace banyan::test
