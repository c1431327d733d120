// Whole files: read within a limit, and replaced so that nobody ever sees half of one.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "banyan/status.h"

namespace banyan {

// Gives what is in the file, at most `most` bytes. It never waits: from a pipe it takes what is
// there. Errors do not name the path.
Result<std::string> read_file(const std::string& path, size_t most);
// Does the same, but waits for what others write to a pipe or a terminal, to its end. "-" is the
// standard input.
Result<std::string> read_to_end(const std::string& path, size_t most);

// Tells whether replace_file() can be expected to succeed: it asks for the folder, and makes and
// removes a file there.
Status check_replaceable(const std::string& path);

// Puts a file with this text in the place of the one of that name. The old one is there whole until
// then, and also after a failure. What a symbolic link names is replaced, not the link. Signals
// wait meanwhile. SIGKILL cannot: in the microseconds of the renaming it can leave a file with
// another name. Errors do not name the path.
Status replace_file(const std::string& path, std::string_view text);

}  // namespace banyan
