// The headers that most of the tests include, compiled once for all of them. A test includes what
// it uses all the same: builds by ccache have no such header.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>
#include <unordered_map>
