/* What tests ask of the stand-in for the CUDA driver, beside the driver's own functions.
 * SPDX-License-Identifier: Apache-2.0 */

#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The call of that function after so many good ones returns `error`, once; 0: none does. */
void standin_cuda_fail(const char* function, int after, int error);
/* Every call returns it from now on, as after an illegal address, and streams call the host no
 * more; 0 mends it. */
void standin_cuda_break(int error);
/* How often a function was called. */
long standin_cuda_calls(const char* function);
/* At most so many microseconds before each piece of work of a stream. */
void standin_cuda_delay(unsigned most_us);

#ifdef __cplusplus
}
#endif
