// What a test can ask the UCX that knows GPUs (gpu_ucp.cc). It finds this by dlsym().
// SPDX-License-Identifier: Apache-2.0

#pragma once

extern "C" {
// How many messages from the memory of GPUs, and into it, this process has asked it for.
long gpu_ucp_sends();
long gpu_ucp_receives();
}
