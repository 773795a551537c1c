#include "server/log/log_spdlog.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <algorithm>

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

class SpdlogSink : public LogSink {
 public:
  explicit SpdlogSink(std::shared_ptr<spdlog::logger> logger) : logger_(std::move(logger)) {}

  void Write(LogLevel level, absl::string_view event, LogFields fields) override {
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
      logger = std::make_shared<spdlog::logger>("libreyolod",
                                                std::make_shared<spdlog::sinks::stderr_sink_mt>());
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
