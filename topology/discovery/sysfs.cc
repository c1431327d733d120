// SPDX-License-Identifier: Apache-2.0

#include "topology/discovery/sysfs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "src/base/descriptor.h"
#include "src/base/parse.h"

namespace banyan {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLine = 4096;
constexpr size_t kMostText = size_t{1} << 20;
constexpr size_t kMostNames = 65536;

std::string below(const std::string& root, std::string_view path) {
  std::string whole = root;
  if (!whole.empty() && whole.back() == '/') whole.pop_back();
  return whole.append(path);
}

std::string read(const std::string& path, size_t most) {
  // A tree that somebody made may hold a pipe in the place of a file.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text;
  while (file.valid() && text.size() < most) {
    char buffer[kMostLine];
    const ssize_t got = ::read(file.get(), buffer, std::min(sizeof(buffer), most - text.size()));
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

std::string SysRoot::line(std::string_view path) const {
  const std::string text = read(below(root_, path), kMostLine);
  return printable(trim(std::string_view(text).substr(0, text.find('\n'))));
}

std::string SysRoot::text(std::string_view path) const {
  return read(below(root_, path), kMostText);
}

std::vector<std::string> SysRoot::list(std::string_view folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(below(root_, folder), error), end; !error && entry != end;
       entry.increment(error)) {
    if (names.size() == kMostNames) break;
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool SysRoot::exists(std::string_view path) const {
  std::error_code error;
  return fs::exists(below(root_, path), error);
}

std::string SysRoot::resolve(std::string_view path) const {
  std::error_code error;
  const std::string root = fs::canonical(root_, error).string();
  if (error) return {};
  std::string target = fs::canonical(below(root_, path), error).string();
  if (error) return {};
  if (root == "/") return target;
  return target.starts_with(root + '/') ? target.substr(root.size()) : std::string();
}

}  // namespace banyan
