#include "server/log/log_spdlog.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "common/base/unique_fd.h"
#include "tests/support/status_matchers.h"

namespace libreyolo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// stderr as a pipe of two pages, whose other end the test holds.
class LogToPipeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reading_.Reset(ends[0]);
    before_.Reset(dup(STDERR_FILENO));
    ASSERT_GE(fcntl(ends[1], F_SETPIPE_SZ, 8192), 0);
    ASSERT_EQ(fcntl(reading_.get(), F_SETFL, O_NONBLOCK), 0);
    ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    auto sink = MakeSpdlogSink("", LogLevel::kInfo);
    ASSERT_TRUE(sink.ok()) << sink.status();
    sink_ = *std::move(sink);
    SetLogSink(sink_.get());
  }

  void TearDown() override {
    SetLogSink(nullptr);
    if (before_) dup2(before_.get(), STDERR_FILENO);
  }

  // What stands in the pipe, taken.
  std::string Said() {
    std::string text(1 << 16, '\0');
    const ssize_t count = read(reading_.get(), text.data(), text.size());
    text.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return text;
  }

  UniqueFd reading_;
  UniqueFd before_;
  std::unique_ptr<LogSink> sink_;
};

TEST_F(LogToPipeTest, WritesALine) {
  LogInfo("job accepted", {{"job", "j1"}, {"model", "yolo9 t"}});
  EXPECT_THAT(Said(), HasSubstr(" info job accepted job=j1 model=\"yolo9 t\"\n"));
}

TEST_F(LogToPipeTest, AScopeAddsItsFieldToTheLinesOfItsThread) {
  {
    const LogScope job("job", "j7");
    const LogScope trial("trial", "2");
    LogInfo("download", {{"url", "u"}});
    std::thread([] { LogInfo("elsewhere", {{"x", 1}}); }).join();
  }
  LogInfo("after");
  const std::string said = Said();
  EXPECT_THAT(said, HasSubstr("download url=u trial=2 job=j7\n"));
  EXPECT_THAT(said, HasSubstr("elsewhere x=1\n"));
  EXPECT_THAT(said, HasSubstr("after\n"));
}

// A line of the log is not worth a daemon that stands still.
TEST_F(LogToPipeTest, APipeThatNobodyReadsLosesLinesAndSaysSo) {
  const std::string filler(200, 'x');
  for (int i = 0; i < 200; ++i) LogInfo("filler", {{"text", filler}});
  const std::string kept = Said();
  EXPECT_THAT(kept, HasSubstr("filler"));
  EXPECT_THAT(kept, Not(HasSubstr("lost")));
  LogInfo("there is room again");
  const std::string said = Said();
  EXPECT_THAT(said, HasSubstr("warning log lines lost count="));
  EXPECT_THAT(said, HasSubstr("there is room again\n"));
}

TEST_F(LogToPipeTest, ALineLongerThanThePipeIsCut) {
  LogInfo("long", {{"text", std::string(20'000, 'y')}});
  EXPECT_THAT(Said(), HasSubstr("long text=yyyy"));
  LogInfo("after");
  EXPECT_THAT(Said(), HasSubstr("after\n"));
}

}  // namespace
}  // namespace libreyolo
