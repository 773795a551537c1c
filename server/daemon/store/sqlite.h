// The few things about SQLite that the index needs: a connection, statements that clean up, errors
// as statuses. Not thread-safe by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/fault_points.h"
#include "server/daemon/store/sqlite_faults.h"

struct sqlite3;
struct sqlite3_stmt;

namespace libreyolo::daemon {

class Statement;

class Sqlite {
 public:
  // Opens or makes the file: WAL, and synchronous FULL, so that a committed change survives a power
  // cut.
  // `at` is asked at "index begin", "index commit" and "after index commit" of each transaction,
  // and at the fsyncs of SQLite itself (SyncFaults).
  static absl::StatusOr<std::unique_ptr<Sqlite>> Open(const std::string& path, FaultHook at = {});
  ~Sqlite();
  Sqlite(const Sqlite&) = delete;
  Sqlite& operator=(const Sqlite&) = delete;

  absl::Status Execute(const char* sql);
  // Runs `body` in a transaction, which is committed when it succeeds. Whatever fails, a full disk
  // at the commit included, nothing of it stays and the connection can be used again.
  absl::Status InTransaction(const std::function<absl::Status()>& body);
  absl::StatusOr<Statement> Prepare(const char* sql);

 private:
  absl::Status Allow(const char* point) const;
  Sqlite(sqlite3* db, FaultHook at, std::unique_ptr<SyncFaults> faults)
      : faults_(std::move(faults)), db_(db), at_(std::move(at)) {}
  const std::unique_ptr<SyncFaults> faults_;  // outlives the connection; null without a hook
  sqlite3* db_;
  const FaultHook at_;
};

// Bind in order, then step. One use.
class Statement {
 public:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  Statement(Statement&& other) noexcept : statement_(other.statement_), next_(other.next_) {
    other.statement_ = nullptr;
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  Statement& Bind(int64_t value);
  Statement& Bind(absl::string_view text);
  Statement& BindBlob(absl::string_view bytes);
  Statement& BindNull();

  // True when there is a row.
  absl::StatusOr<bool> Step();
  // Steps to the end.
  absl::Status Run();

  int64_t Int(int column) const;
  std::string Text(int column) const;

 private:
  sqlite3_stmt* statement_;
  int next_ = 1;
};

}  // namespace libreyolo::daemon
