#include "server/log/log_spdlog.h"

#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <mutex>
#include <string>

namespace libreyolo {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

void AppendValue(const std::string& value, std::string& out) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != 0x7f && c != '"' && c != '=' && c != '\\';
  });
  if (plain) {
    out += value;
    return;
  }
  out += '"';
  for (char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += '?';  // nothing that a caller sends may steer a terminal or begin a line
    } else {
      out += c;
    }
  }
  out += '"';
}

// stderr may be a pipe that nobody reads. Who logs must not stand still for that: after one wait
// lines are dropped until there is room again, and then their number is told.
class PatientStderrSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!HasRoom(lost_lines_ == 0 ? kFirstWaitMs : 0)) {
      ++lost_lines_;
      return;
    }
    spdlog::memory_buf_t text;
    if (lost_lines_ > 0) {
      const std::string payload = "log lines lost count=" + std::to_string(lost_lines_);
      formatter_->format({message.logger_name, spdlog::level::warn, payload}, text);
      lost_lines_ = 0;
    }
    formatter_->format(message, text);
    // A pipe that has room takes as much as PIPE_BUF at once.
    for (size_t at = 0; at < text.size();) {
      if (at > 0 && !HasRoom(kFirstWaitMs)) return;
      const size_t piece = std::min<size_t>(text.size() - at, PIPE_BUF);
      const ssize_t count = write(STDERR_FILENO, text.data() + at, piece);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;  // closed: nobody wants to know
      at += static_cast<size_t>(count);
    }
  }
  void flush_() override {}

 private:
  static constexpr int kFirstWaitMs = 200;

  static bool HasRoom(int wait_ms) {
    pollfd place = {STDERR_FILENO, POLLOUT, 0};
    const int ready = poll(&place, 1, wait_ms);
    return ready > 0 || (ready < 0 && errno != EINTR);  // an error shows on writing
  }

  int64_t lost_lines_ = 0;
};

class SpdlogSink : public LogSink {
 public:
  explicit SpdlogSink(std::shared_ptr<spdlog::logger> logger) : logger_(std::move(logger)) {}

  void Write(LogLevel level, absl::string_view event, absl::Span<const LogField> fields) override {
    if (!logger_->should_log(ToSpdlog(level))) return;
    std::string line(event.data(), event.size());
    for (const LogField& field : fields) {
      line += ' ';
      line.append(field.key.data(), field.key.size());
      line += '=';
      AppendValue(field.value, line);
    }
    logger_->log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
  }

 private:
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LogSink>> MakeSpdlogSink(const std::string& path, LogLevel lowest) {
  try {
    std::shared_ptr<spdlog::logger> logger;
    if (path.empty()) {
      logger =
          std::make_shared<spdlog::logger>("libreyolod", std::make_shared<PatientStderrSink>());
    } else {
      logger = std::make_shared<spdlog::logger>(
          "libreyolod", std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, 8u << 20, 3));
    }
    logger->set_level(ToSpdlog(lowest));
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    logger->flush_on(spdlog::level::info);
    return std::make_unique<SpdlogSink>(std::move(logger));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace libreyolo
