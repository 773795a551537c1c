// Files that tests read: copies in tests/data, and the handed fixtures beside the checkout, which
// may be absent.
//
//   LY_SKIP_WITHOUT_SHARED();
//   ASSERT_OK_AND_ASSIGN(const JsonValue want,
//   ReadJsonFile(SharedPath("synthetic-gpu/expected.json")));
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"

namespace libreyolo::testing {

inline std::string SharedPath(const std::string& name) {
  return absl::StrCat(LIBREYOLO_SHARED_DIR, "/fixtures/", name);
}

inline std::string DataPath(const std::string& name) {
  return absl::StrCat(LIBREYOLO_SOURCE_DIR, "/tests/data/", name);
}

inline bool HasShared() { return ::access(SharedPath("").c_str(), R_OK) == 0; }

inline absl::StatusOr<JsonValue> ReadJsonFile(const std::string& path) {
  LY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseJson(text);
}

// The difference between a stored document and ours, or "": every member of `want` must be in
// `got`, in the same relative order and with the same value; `got` may have more. Members whose
// path ("a.b", "a[].b") is in `except` are only looked for.
inline std::string DifferenceFrom(const JsonValue& want, const JsonValue& got,
                                  const std::set<std::string>& except = {},
                                  const std::string& path = "") {
  if (want.is_object()) {
    if (!got.is_object()) return absl::StrCat(path, " is no object");
    size_t next = 0;
    for (const auto& [key, value] : want.object()) {
      const std::string inner = path.empty() ? key : absl::StrCat(path, ".", key);
      size_t at = next;
      while (at < got.object().size() && got.object()[at].first != key) ++at;
      if (at == got.object().size()) {
        return absl::StrCat(inner, got.Find(key) == nullptr ? " is missing" : " is out of order");
      }
      next = at + 1;
      if (except.count(inner) > 0) continue;
      const std::string difference = DifferenceFrom(value, got.object()[at].second, except, inner);
      if (!difference.empty()) return difference;
    }
    return "";
  }
  if (want.is_array()) {
    if (!got.is_array()) return absl::StrCat(path, " is no list");
    if (got.array().size() != want.array().size()) {
      return absl::StrCat(path, " has ", got.array().size(), " items, not ", want.array().size());
    }
    for (size_t i = 0; i < want.array().size(); ++i) {
      const std::string difference =
          DifferenceFrom(want.array()[i], got.array()[i], except, absl::StrCat(path, "[]"));
      if (!difference.empty()) return absl::StrCat(difference, " (item ", i, ")");
    }
    return "";
  }
  if (want == got) return "";
  return absl::StrCat(path, " is ", got.ToCompact(), ", not ", want.ToCompact());
}

}  // namespace libreyolo::testing

#define LY_SKIP_WITHOUT_SHARED()                        \
  if (!::libreyolo::testing::HasShared()) {             \
    GTEST_SKIP() << "the shared fixtures are not here"; \
  }
