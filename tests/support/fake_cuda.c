/* In place of libcuda.so.1: a GPU, and one range of ordinary memory that is said to be its.
 * SPDX-License-Identifier: Apache-2.0 */

#include <stddef.h>
#include <stdio.h>

static unsigned long long fake_begin, fake_bytes;
static unsigned fake_type, fake_managed;

/* type: as CUmemorytype, 1 of the host, 2 of a device. */
void fake_cuda_owns(void* begin, unsigned long long bytes, unsigned type, unsigned managed) {
  fake_begin = (unsigned long long)begin;
  fake_bytes = bytes;
  fake_type = type;
  fake_managed = managed;
}

int cuPointerGetAttribute(void* value, int attribute, unsigned long long pointer) {
  if (pointer - fake_begin >= fake_bytes) return 1; /* CUDA_ERROR_INVALID_VALUE */
  if (attribute != 2 && attribute != 8) return 1;
  *(unsigned*)value = attribute == 2 ? fake_type : fake_managed;
  return 0;
}

/* One GPU, to be described. */
int cuInit(unsigned flags) {
  return flags == 0 ? 0 : 1;
}
int cuDeviceGetCount(int* count) {
  return *count = 1, 0;
}
int cuDeviceGet(int* device, int ordinal) {
  return *device = 7, ordinal == 0 ? 0 : 101; /* CUDA_ERROR_INVALID_DEVICE */
}
int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  return snprintf(text, (size_t)bytes, "0000:0A:00.0") < bytes && device == 7 ? 0 : 101;
}
int cuDeviceGetName(char* text, int bytes, int device) {
  return snprintf(text, (size_t)bytes, "Made GPU") < bytes && device == 7 ? 0 : 101;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  return *bytes = (size_t)80 << 30, device == 7 ? 0 : 101;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return *value = attribute == 75 ? 9 : 0, device == 7 ? 0 : 101;
}
int cuDeviceGetUuid(unsigned char* bytes, int device) {
  for (unsigned char i = 0; i < 16; ++i) bytes[i] = i;
  return device == 7 ? 0 : 101;
}
int cuDeviceGetUuid_v2(unsigned char* bytes, int device) {
  return cuDeviceGetUuid(bytes, device);
}
