#include "server/daemon/store/sqlite.h"

#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

absl::Status SqliteError(sqlite3* db, const char* what) {
  return MakeError(reason::kStoreFailed,
                   absl::StrCat("the index: ", what, ": ", sqlite3_errmsg(db)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Sqlite>> Sqlite::Open(const std::string& path, FaultHook at) {
  sqlite3* raw = nullptr;
  auto faults = at ? std::make_unique<SyncFaults>(at) : nullptr;
  const int result = sqlite3_open_v2(
      path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
      faults == nullptr ? nullptr : faults->name());
  std::unique_ptr<Sqlite> db(new Sqlite(raw, std::move(at), std::move(faults)));
  if (result != SQLITE_OK) return SqliteError(raw, absl::StrCat("cannot open ", path).c_str());
  sqlite3_busy_timeout(raw, 5000);
  LY_RETURN_IF_ERROR(
      db->Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-1024;"));
  return db;
}

Sqlite::~Sqlite() { sqlite3_close_v2(db_); }

absl::Status Sqlite::Execute(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return SqliteError(db_, sql);
  return absl::OkStatus();
}

absl::Status Sqlite::InTransaction(const std::function<absl::Status()>& body) {
  LY_RETURN_IF_ERROR(Allow("index begin"));
  LY_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status status = body();
  if (status.ok()) status = Allow("index commit");
  if (status.ok()) status = Execute("COMMIT");
  // SQLite ends the transaction by itself after some errors, and keeps it open after others.
  if (!status.ok() && sqlite3_get_autocommit(db_) == 0) (void)Execute("ROLLBACK");
  if (status.ok()) (void)Allow("after index commit");
  return status;
}

absl::Status Sqlite::Allow(const char* point) const {
  const absl::Status status = AtFaultPoint(at_, point);
  return status.ok()
             ? status
             : MakeError(reason::kStoreFailed, absl::StrCat("the index: ", status.message()));
}

absl::StatusOr<Statement> Sqlite::Prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db_, sql, -1, &statement, nullptr) != SQLITE_OK)
    return SqliteError(db_, sql);
  return Statement(statement);
}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::Bind(int64_t value) {
  sqlite3_bind_int64(statement_, next_++, value);
  return *this;
}

Statement& Statement::Bind(absl::string_view text) {
  sqlite3_bind_text64(statement_, next_++, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Statement& Statement::BindBlob(absl::string_view bytes) {
  sqlite3_bind_blob64(statement_, next_++, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
  return *this;
}

Statement& Statement::BindNull() {
  sqlite3_bind_null(statement_, next_++);
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return SqliteError(sqlite3_db_handle(statement_), "step");
}

absl::Status Statement::Run() {
  for (;;) {
    LY_ASSIGN_OR_RETURN(const bool more, Step());
    if (!more) return absl::OkStatus();
  }
}

int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }

std::string Statement::Text(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return data == nullptr ? std::string()
                         : std::string(static_cast<const char*>(data), static_cast<size_t>(size));
}

}  // namespace libreyolo::daemon
