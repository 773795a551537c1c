#include "common/trace/microseconds.h"

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace libreyolo::trace {
namespace {

// Mantissa digits and exponent, for the rare numbers in scientific form.
bool ParseScientific(absl::string_view token, size_t exponent_at, int64_t& nanoseconds) {
  int64_t exponent = 0;
  absl::string_view exponent_text = token.substr(exponent_at + 1);
  if (!exponent_text.empty() && exponent_text[0] == '+') exponent_text.remove_prefix(1);
  if (!absl::SimpleAtoi(exponent_text, &exponent)) return false;
  absl::string_view mantissa = token.substr(0, exponent_at);
  const bool negative = !mantissa.empty() && mantissa[0] == '-';
  if (negative) mantissa.remove_prefix(1);
  const size_t dot = mantissa.find('.');
  std::string digits(mantissa.substr(0, dot));
  int64_t point = static_cast<int64_t>(digits.size());
  if (dot != absl::string_view::npos) {
    digits.append(mantissa.data() + dot + 1, mantissa.size() - dot - 1);
  }
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return false;
  const size_t zeros = digits.find_first_not_of('0');
  if (zeros == std::string::npos || exponent < -400) {
    nanoseconds = 0;
    return true;
  }
  if (exponent > 400) return false;
  digits.erase(0, zeros);
  point += exponent - static_cast<int64_t>(zeros);
  if (point > 18) return false;
  if (point < -6) {
    nanoseconds = 0;
    return true;
  }
  std::string plain = negative ? "-" : "";
  if (point <= 0) {
    absl::StrAppend(&plain, "0.", std::string(static_cast<size_t>(-point), '0'), digits);
  } else {
    const size_t whole = static_cast<size_t>(point);
    if (digits.size() < whole) digits.append(whole - digits.size(), '0');
    absl::StrAppend(&plain, digits.substr(0, whole), ".", digits.substr(whole), "0");
  }
  return ParseMicroseconds(plain, nanoseconds);
}

}  // namespace

bool ParseMicroseconds(absl::string_view token, int64_t& nanoseconds) {
  size_t i = 0;
  const bool negative = !token.empty() && token[0] == '-';
  if (negative) ++i;
  const size_t first_digit = i;
  uint64_t value = 0;
  // Fifteen digits fit in any case; time stamps seldom have more.
  const size_t unchecked = std::min(token.size(), i + 15);
  for (; i < unchecked && token[i] >= '0' && token[i] <= '9'; ++i) {
    value = value * 10 + static_cast<uint64_t>(token[i] - '0');
  }
  for (; i < token.size() && token[i] >= '0' && token[i] <= '9'; ++i) {
    if (value > 9'200'000'000'000'000ull) break;  // nanoseconds would not fit
    value = value * 10 + static_cast<uint64_t>(token[i] - '0');
  }
  if (i == first_digit || value > 9'200'000'000'000'000ull) {
    const size_t e = token.find_first_of("eE");
    return i != first_digit && e != absl::string_view::npos &&
           ParseScientific(token, e, nanoseconds);
  }
  value *= 1000;
  if (i < token.size() && token[i] == '.') {
    const size_t fraction = ++i;
    uint64_t scale = 100;
    for (; i < token.size() && token[i] >= '0' && token[i] <= '9'; ++i) {
      const uint64_t digit = static_cast<uint64_t>(token[i] - '0');
      if (scale > 0) {
        value += digit * scale;
        scale /= 10;
      } else if (i == fraction + 3 && digit >= 5) {
        ++value;
      }
    }
    if (i == fraction) return false;
  }
  if (i < token.size()) {
    if (token[i] != 'e' && token[i] != 'E') return false;
    return ParseScientific(token, i, nanoseconds);
  }
  nanoseconds = negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
  return true;
}

absl::optional<std::string> MendNumber(absl::string_view token) {
  const bool negative = !token.empty() && token[0] == '-';
  if (!token.empty() && (negative || token[0] == '+')) token.remove_prefix(1);
  const size_t end = std::min(token.find_first_not_of("0123456789."), token.size());
  const absl::string_view mantissa = token.substr(0, end);
  const absl::string_view exponent = token.substr(end);
  const size_t dot = mantissa.find('.');
  const absl::string_view whole = mantissa.substr(0, dot);
  const absl::string_view fraction = dot == absl::string_view::npos ? "" : mantissa.substr(dot + 1);
  if (whole.empty() && fraction.empty()) return absl::nullopt;
  if (!exponent.empty() && exponent[0] != 'e' && exponent[0] != 'E') return absl::nullopt;
  return absl::StrCat(negative ? "-" : "", whole.empty() ? "0" : whole, ".",
                      fraction.empty() ? "0" : fraction, exponent);
}

}  // namespace libreyolo::trace
