/* In place of libcuda.so.1: one range of ordinary memory that is said to be of a GPU.
 * SPDX-License-Identifier: Apache-2.0 */

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
