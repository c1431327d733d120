// What tests can do with the stand-in for the CUDA driver beside calling it: make calls fail, count
// them, and look at the memory of its devices without a stream. They link the library, or find
// these by dlsym().
//
// It reads STANDIN_CUDA_DEVICES (2), STANDIN_CUDA_SEED (1) and STANDIN_CUDA_DELAY_US (200) in
// cuInit.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
// The call of this function, "cuMemAlloc" or "cuMemAlloc_v2", behind `after` further ones returns
// the error and does nothing, once, and with -1 each call does; the error 0 takes that back. A
// function has one such at a time.
void standin_cuda_fail(const char* function, int after, int error);
// Every later call that needs the context which is current in this thread, without one any context,
// returns the error, as after an illegal address; what its streams have not done is not done. 0
// mends it.
void standin_cuda_break(int error);
long standin_cuda_calls(const char* function);  // so far, whatever they returned
// How many of these there are now: "memory" of all kinds, "streams", "events", "modules",
// "graphs" of both kinds, "contexts" that are active; of what callers map, "physical" allocations,
// "handles" to them, and "ranges" of addresses.
long standin_cuda_live(const char* what);
// Memory that the driver knows of, whole; another address ends the program.
void standin_cuda_peek(void* host, uint64_t device_address, size_t bytes);
void standin_cuda_poke(uint64_t device_address, const void* host, size_t bytes);
// For streams that are made from now on; the longest delay also for those that are there.
void standin_cuda_seed(uint64_t seed);
void standin_cuda_delay(int most_us);
}
