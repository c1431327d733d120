// SPDX-License-Identifier: Apache-2.0

#include "src/base/date.h"

#include <fmt/core.h>

namespace banyan {

std::string utc_text(std::chrono::microseconds since_1970, Decimals decimals) {
  const auto days = std::chrono::floor<std::chrono::days>(since_1970);
  const std::chrono::year_month_day date{std::chrono::sys_days(days)};
  const std::chrono::hh_mm_ss time(since_1970 - days);
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  time.hours().count(), time.minutes().count(), time.seconds().count());
  if (decimals == Decimals::kMicroseconds) text += fmt::format(".{:06}", time.subseconds().count());
  return text + "Z";
}

std::string utc_now(Decimals decimals) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return utc_text(std::chrono::floor<std::chrono::microseconds>(now), decimals);
}

}  // namespace banyan
