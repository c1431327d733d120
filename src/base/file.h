// Whole files: read within a limit, and replaced so that nobody ever sees half of one.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "banyan/status.h"

namespace banyan {

// What is in it, at most `most` bytes. Errors do not name the path. Never waits: of a pipe, it is
// what is there.
Result<std::string> read_file(const std::string& path, size_t most);
// The same, and waits for what others write to a pipe or a terminal, to its end. "-" is the
// standard input.
Result<std::string> read_stream(const std::string& path, size_t most);

// Whether replace_file() can be expected to succeed: asks for the folder, and makes and removes a
// file there.
Status check_replaceable(const std::string& path);

// Puts a file with this text in the place of the one of that name, which is there whole until then,
// and after a failure, too. What a symbolic link names is replaced, not the link. Signals wait
// meanwhile; of what cannot wait, SIGKILL in the microseconds of the renaming can leave a file with
// another name. Errors do not name the path.
Status replace_file(const std::string& path, std::string_view text);

}  // namespace banyan
