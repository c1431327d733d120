// The devices: one kind, with what an H200 says of itself.
// SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "tests/cuda/driver/state.h"

namespace banyan::standin {

namespace {

constexpr size_t kMemory = size_t{141} << 30;

// By their numbers in CUdevice_attribute; 0 where it says no more. It has no pools of memory and no
// events between processes, which an H200 has.
int attribute_of(int number, int device) {
  static const std::unordered_map<int, int> values = {
      {1, 1024},     {2, 1024},   {3, 1024},     {4, 64},     {5, 2147483647},  {6, 65535},
      {7, 65535},    {8, 49152},  {9, 65536},    {10, 32},    {11, 2147483647}, {12, 65536},
      {13, 1980000}, {14, 512},   {15, 1},       {16, 132},   {19, 1},          {30, 512},
      {31, 1},       {32, 1},     {36, 3201000}, {37, 6144},  {38, 62914560},   {39, 2048},
      {40, 3},       {41, 1},     {51, 32},      {75, 9},     {76, 0},          {78, 1},
      {79, 1},       {80, 1},     {81, 233472},  {82, 65536}, {83, 1},          {87, 2},
      {89, 1},       {90, 1},     {91, 1},       {92, 1},     {93, 1},          {94, 1},
      {95, 1},       {96, 1},     {97, 232448},  {99, 1},     {102, 1},         {103, 1},
      {106, 32},     {111, 1024}, {113, 1},      {116, 1},    {117, 1},         {118, 0},
      {120, 1},      {122, 1},    {123, 1},      {129, 1},
  };
  if (number == 33) return 0x0a + device;  // PCI_BUS_ID
  const auto found = values.find(number);
  return found == values.end() ? 0 : found->second;
}

bool is_device(CuDevice device) {
  return device >= 0 && static_cast<size_t>(device) < state().contexts.size();
}

int put(char* text, int bytes, const char* format, int number) {
  if (text == nullptr || bytes <= 0) return kInvalidValue;
  return std::snprintf(text, static_cast<size_t>(bytes), format, number) < bytes ? kSuccess
                                                                                 : kInvalidValue;
}

// body() -> int, for a device that there is
template <typename Body>
int call_of_device(const char* function, CuDevice device, const Body& body) {
  return call(function, [&]() -> int { return is_device(device) ? body() : kInvalidDevice; });
}

// The same in every process.
int put_uuid(CudaUuid* uuid, CuDevice device) {
  if (uuid == nullptr) return kInvalidValue;
  std::memcpy(uuid->bytes, "stand-in device", sizeof uuid->bytes);
  uuid->bytes[15] = static_cast<unsigned char>(device);
  return kSuccess;
}

}  // namespace
}  // namespace banyan::standin

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): these are its functions

int cuInit(unsigned flags) {
  return flags == 0 ? initialize() : kInvalidValue;
}

int cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = 13000;
  return kSuccess;
}

int cuDeviceGetCount(int* count) {
  return call(__func__, [&] {
    if (count == nullptr) return kInvalidValue;
    *count = static_cast<int>(state().contexts.size());
    return kSuccess;
  });
}

int cuDeviceGet(CuDevice* device, int ordinal) {
  return call_of_device(__func__, ordinal, [&] {
    if (device == nullptr) return kInvalidValue;
    *device = ordinal;
    return kSuccess;
  });
}

int cuDeviceGetByPCIBusId(CuDevice* device, const char* text) {
  return call(__func__, [&] {
    unsigned found = 0;
    if (device == nullptr || text == nullptr) return kInvalidValue;
    if (std::sscanf(text, "%*x:%x:00", &found) != 1) return kInvalidDevice;
    const int bus = static_cast<int>(found);
    if (!is_device(bus - 0x0a)) return kInvalidDevice;
    *device = bus - 0x0a;
    return kSuccess;
  });
}

int cuDeviceGetPCIBusId(char* text, int bytes, CuDevice device) {
  return call_of_device(__func__, device,
                        [&] { return put(text, bytes, "0000:%02X:00.0", 0x0a + device); });
}

int cuDeviceGetName(char* text, int bytes, CuDevice device) {
  return call_of_device(__func__, device,
                        [&] { return put(text, bytes, "Stand-in GPU %d", device); });
}

int cuDeviceTotalMem_v2(size_t* bytes, CuDevice device) {
  return call_of_device(__func__, device, [&] {
    if (bytes == nullptr) return kInvalidValue;
    *bytes = kMemory;
    return kSuccess;
  });
}

int cuDeviceGetAttribute(int* value, int attribute, CuDevice device) {
  return call_of_device(__func__, device, [&] {
    if (value == nullptr || attribute < 1) return kInvalidValue;
    *value = attribute_of(attribute, device);
    return kSuccess;
  });
}

int cuDeviceGetUuid(banyan::CudaUuid* uuid, CuDevice device) {
  return call_of_device(__func__, device, [&] { return put_uuid(uuid, device); });
}

int cuDeviceGetUuid_v2(banyan::CudaUuid* uuid, CuDevice device) {
  return call_of_device(__func__, device, [&] { return put_uuid(uuid, device); });
}

int cuDeviceCanAccessPeer(int* can, CuDevice device, CuDevice peer) {
  return call_of_device(__func__, device, [&] {
    if (can == nullptr) return kInvalidValue;
    if (!is_device(peer)) return kInvalidDevice;
    *can = device != peer ? 1 : 0;
    return kSuccess;
  });
}

int cuDeviceGetP2PAttribute(int* value, int attribute, CuDevice from, CuDevice to) {
  return call_of_device(__func__, from, [&] {
    if (value == nullptr || attribute < 1 || attribute > 4) return kInvalidValue;
    if (!is_device(to) || from == to) return kInvalidDevice;
    *value = 1;
    return kSuccess;
  });
}

// There is nothing to flush: whoever writes, writes to memory.
int cuFlushGPUDirectRDMAWrites(int target, int scope) {
  return call_in_context(__func__, [&](Context&) {
    return target == 0 && (scope == 100 || scope == 200) ? kSuccess : kInvalidValue;
  });
}

int cuMemGetInfo_v2(size_t* free, size_t* total) {
  return call_in_context(__func__, [&](Context& context) {
    if (free == nullptr || total == nullptr) return kInvalidValue;
    *total = kMemory;
    *free = kMemory - state().memory.device_bytes(context);
    return kSuccess;
  });
}
