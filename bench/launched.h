// What a program does that a launcher may have started several times.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

#include "src/base/environment.h"

namespace banyan {

// Says why ranks of the program's own (-n) would be a second job, naming the launcher's variables;
// empty where no launcher says several ranks.
std::string second_job(const RawEnvironment& raw);

// Says on stderr what is wrong with a command line: the first of several ranks says it. The others
// wait a moment, since a launcher ends all when one has ended. The result is `status`.
int refuse_once(int status, std::string_view text, const RawEnvironment& raw);

}  // namespace banyan
