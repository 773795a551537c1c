#include "common/trace/block_text.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace libreyolo::trace {

size_t GuessCut(absl::string_view text) {
  const auto skip_back = [&](size_t i) {
    while (i > 0 && (text[i - 1] == ' ' || text[i - 1] == '\n' || text[i - 1] == '\r' ||
                     text[i - 1] == '\t')) {
      --i;
    }
    return i;
  };
  size_t end = text.size();
  while (end > 0) {
    const void* found = memrchr(text.data(), '{', end);
    if (found == nullptr) return 0;
    end = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    size_t i = skip_back(end);
    if (i == 0 || text[i - 1] != ',') continue;
    i = skip_back(i - 1);
    if (i > 0 && text[i - 1] == '}') return i;
  }
  return 0;
}

size_t ExactCut(absl::string_view text) {
  size_t cut = 0;
  int64_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') {
      --depth;
      if (depth == 0) cut = i + 1;
      if (depth < 0) break;  // the list's end
    }
  }
  return cut;
}

int64_t CleanText(char* text, size_t size) {
  int64_t replaced = 0;
  bool in_string = false;
  for (size_t i = 0; i < size;) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      // The well-formed ranges of the Unicode standard, table 3-7.
      size_t extra = 0;
      unsigned char low = 0x80;
      unsigned char high = 0xBF;
      if (c >= 0xC2 && c <= 0xDF) extra = 1;
      if (c >= 0xE0 && c <= 0xEF) extra = 2;
      if (c >= 0xF0 && c <= 0xF4) extra = 3;
      if (c == 0xE0) low = 0xA0;
      if (c == 0xED) high = 0x9F;
      if (c == 0xF0) low = 0x90;
      if (c == 0xF4) high = 0x8F;
      bool valid = extra > 0 && i + extra < size;
      for (size_t k = 1; valid && k <= extra; ++k) {
        const unsigned char next = static_cast<unsigned char>(text[i + k]);
        valid = next >= (k == 1 ? low : 0x80) && next <= (k == 1 ? high : 0xBF);
      }
      if (valid) {
        i += extra + 1;
      } else {
        text[i++] = '?';
        ++replaced;
      }
      continue;
    }
    if (c == '"') in_string = !in_string;
    if (in_string && c < 0x20) {
      text[i] = ' ';
      ++replaced;
    }
    // An escaped character is passed over, unless it needs replacing itself.
    i += in_string && c == '\\' && i + 1 < size &&
                 static_cast<unsigned char>(text[i + 1]) >= 0x20 &&
                 static_cast<unsigned char>(text[i + 1]) < 0x80
             ? 2
             : 1;
  }
  return replaced;
}

namespace {

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Walks the list with a stack of open brackets; one call of Step() for each token.
class FaultFinder {
 public:
  explicit FaultFinder(absl::string_view text) : text_(text) {}

  TextFault Run() {
    while (fault_.message.empty() && !done_) Step();
    return fault_;
  }

 private:
  // What may stand next.
  enum class Want { kEvent, kValue, kKey, kColon, kBehindValue };

  void Fail(absl::string_view message) {
    fault_.message = std::string(message);
    fault_.offset = at_;
  }

  void End() {
    done_ = true;
    if (open_.empty()) return;  // the list goes on in the next block
    fault_ = {"the trace ends inside the event that begins", event_, true};
  }

  void Step() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
    if (at_ == text_.size()) return End();
    const char c = text_[at_];
    switch (want_) {
      case Want::kEvent:
        event_ = at_;
        if (c == ']') {
          done_ = true;
        } else if (c == '{') {
          Open(c);
        } else {
          Fail("an event is no object");
        }
        return;
      case Want::kKey:
        if (c == '}' && first_) return Close(c);
        if (c != '"') return Fail("a key in quotes is missing");
        if (SkipString()) want_ = Want::kColon;
        return;
      case Want::kColon:
        if (c != ':') return Fail("\":\" is missing behind a key");
        ++at_;
        want_ = Want::kValue;
        return;
      case Want::kValue:
        if (c == ']' && first_ && open_.back() == '[') return Close(c);
        if (c == '{' || c == '[') return Open(c);
        if (c == '"') {
          if (SkipString()) want_ = Want::kBehindValue;
          return;
        }
        if (c == ',' || c == ':' || c == '}' || c == ']') return Fail("a value is missing");
        while (at_ < text_.size() && !IsSpace(text_[at_]) &&
               std::strchr(",:{}[]\"", text_[at_]) == nullptr) {
          ++at_;
        }
        want_ = Want::kBehindValue;
        return;
      case Want::kBehindValue:
        if (c == ',') {
          ++at_;
          first_ = false;
          want_ = open_.empty() ? Want::kEvent : open_.back() == '{' ? Want::kKey : Want::kValue;
          return;
        }
        if (open_.empty()) {
          if (c != ']') return Fail("\",\" is missing between two events");
          done_ = true;
          return;
        }
        if (c == '}' || c == ']') return Close(c);
        Fail("\",\" is missing behind a value");
    }
  }

  void Open(char c) {
    open_.push_back(c);
    ++at_;
    first_ = true;
    want_ = c == '{' ? Want::kKey : Want::kValue;
  }

  void Close(char c) {
    if ((c == '}') != (open_.back() == '{')) {
      return Fail(absl::StrCat("\"", std::string(1, c), "\" closes what \"",
                               std::string(1, open_.back()), "\" opened"));
    }
    open_.pop_back();
    ++at_;
    want_ = Want::kBehindValue;
  }

  bool SkipString() {
    for (size_t i = at_ + 1; i < text_.size(); ++i) {
      if (text_[i] == '\\') {
        ++i;
      } else if (text_[i] == '"') {
        at_ = i + 1;
        return true;
      }
    }
    at_ = text_.size();
    End();
    return false;
  }

  const absl::string_view text_;
  size_t at_ = 0;
  size_t event_ = 0;  // where the current event begins
  Want want_ = Want::kEvent;
  bool first_ = false;  // nothing stands in the innermost bracket yet
  bool done_ = false;
  std::vector<char> open_;
  TextFault fault_;
};

}  // namespace

TextFault FindTextFault(absl::string_view text) { return FaultFinder(text).Run(); }

}  // namespace libreyolo::trace
