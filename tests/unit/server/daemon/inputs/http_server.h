// An HTTP server on a loopback port, for one client at a time: each request gets the bytes that the
// test's handler makes. Its own thread; handlers run on it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/unique_fd.h"

namespace libreyolo::testing {

struct HttpRequest {
  std::string path;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string Header(const std::string& name) const {
    const auto it = headers.find(name);
    return it == headers.end() ? "" : it->second;
  }
};

class HttpServer {
 public:
  // The whole answer, headers included; the connection is closed after it.
  using Handler = std::function<std::string(const HttpRequest&)>;

  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    LY_CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    LY_CHECK(listen(listener_.get(), 16) == 0);
    socklen_t size = sizeof address;
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    LY_CHECK(pipe(stop_) == 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~HttpServer() {
    LY_CHECK(write(stop_[1], "x", 1) == 1);
    thread_.join();
    close(stop_[0]);
    close(stop_[1]);
  }

  std::string Url(const std::string& path, const std::string& host = "127.0.0.1") const {
    return absl::StrCat("http://", host, ":", port_, path);
  }
  std::vector<HttpRequest> requests() const {
    const std::lock_guard<std::mutex> lock(mu_);
    return requests_;
  }

  // An answer with a length that may be a lie.
  static std::string Answer(int code, const std::string& body, const std::string& headers = "",
                            int64_t length = -1) {
    return absl::StrCat("HTTP/1.1 ", code, " X\r\nConnection: close\r\nContent-Length: ",
                        length < 0 ? static_cast<int64_t>(body.size()) : length, "\r\n", headers,
                        "\r\n", body);
  }

 private:
  void Run() {
    for (;;) {
      pollfd waits[] = {{listener_.get(), POLLIN, 0}, {stop_[0], POLLIN, 0}};
      if (poll(waits, 2, -1) < 0) continue;
      if (waits[1].revents != 0) return;
      Serve(UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    }
  }

  void Serve(const UniqueFd& connection) {
    std::string head;
    char byte;
    while (head.size() < 65536 && head.find("\r\n\r\n") == std::string::npos &&
           read(connection.get(), &byte, 1) == 1) {
      head += byte;
    }
    HttpRequest request;
    const std::vector<std::string> lines = absl::StrSplit(head, "\r\n");
    const std::vector<std::string> first = absl::StrSplit(lines[0], ' ');
    if (first.size() < 2) return;
    request.path = first[1];
    for (size_t i = 1; i < lines.size(); ++i) {
      const size_t colon = lines[i].find(':');
      if (colon == std::string::npos) continue;
      request.headers[absl::AsciiStrToLower(lines[i].substr(0, colon))] =
          std::string(absl::StripAsciiWhitespace(lines[i].substr(colon + 1)));
    }
    const std::string answer = handler_(request);
    {
      const std::lock_guard<std::mutex> lock(mu_);
      requests_.push_back(std::move(request));
    }
    for (size_t sent = 0; sent < answer.size();) {
      const ssize_t count =
          send(connection.get(), answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<size_t>(count);
    }
    // Ends orderly, so that what was sent arrives: the rest of what the client says is read first.
    shutdown(connection.get(), SHUT_WR);
    while (read(connection.get(), &byte, 1) > 0) {
    }
  }

  const Handler handler_;
  UniqueFd listener_;
  int port_ = 0;
  int stop_[2] = {-1, -1};
  mutable std::mutex mu_;  // guards requests_
  std::vector<HttpRequest> requests_;
  std::thread thread_;
};

}  // namespace libreyolo::testing
