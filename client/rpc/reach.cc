#include "client/rpc/reach.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"

namespace libreyolo::client {
namespace {

constexpr int kConnectTimeoutMs = 5000;
constexpr int kHandshakeTimeoutS = 5;
constexpr unsigned char kHttp2[] = "\x02h2";

const char kCorrect[] = "correct the address in --server or LIBREYOLO_SERVER";

absl::Status Unreachable(const std::string& address, absl::string_view why,
                         std::vector<std::string> hints) {
  return MakeError(reason::kServerUnreachable,
                   absl::StrCat("the server ", address, " cannot be reached: ", why),
                   std::move(hints), {{"server", address}});
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
struct FreeTls {
  void operator()(SSL* tls) const { SSL_free(tls); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

struct HostPort {
  std::string host;
  std::string port;
};

HostPort Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort out{address.substr(0, colon), address.substr(colon + 1)};
  if (absl::StartsWith(out.host, "[") && absl::EndsWith(out.host, "]"))
    out.host = out.host.substr(1, out.host.size() - 2);
  return out;
}

// 0, or errno.
int ConnectWithin(const addrinfo& info, int timeout_ms, UniqueFd& out) {
  UniqueFd fd(socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  if (connect(fd.get(), info.ai_addr, info.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd wait{fd.get(), POLLOUT, 0};
    if (poll(&wait, 1, timeout_ms) <= 0) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  out = std::move(fd);
  return 0;
}

absl::StatusOr<UniqueFd> ConnectTo(const std::string& address) {
  const HostPort place = Split(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &list);
      error != 0) {
    return Unreachable(
        address,
        absl::StrCat("the name \"", place.host, "\" is not known (", gai_strerror(error), ")"),
        {kCorrect, "getent hosts NAME shows what this machine knows of a name"});
  }
  const std::unique_ptr<addrinfo, FreeAddresses> owned(list);
  UniqueFd fd;
  int error = EHOSTUNREACH;
  for (const addrinfo* info = list; info != nullptr && !fd; info = info->ai_next)
    error = ConnectWithin(*info, kConnectTimeoutMs, fd);
  if (fd) return fd;
  if (error == ECONNREFUSED) {
    return Unreachable(address, absl::StrCat("nobody listens on port ", place.port),
                       {"start libreyolod there, with this address in --listen", kCorrect,
                        "leave it out to use the local daemon of the current folder"});
  }
  if (error == ETIMEDOUT) {
    return Unreachable(
        address, "there is no answer",
        {"see whether the machine is on, and whether a firewall lets the port through", kCorrect});
  }
  return Unreachable(address, strerror(error), {"see to the network on this machine", kCorrect});
}

absl::Status UseFiles(const std::string& address, const ChannelSecurity& security,
                      SSL_CTX& context) {
  if (security.ca_pem.empty()) {
    SSL_CTX_set_default_verify_paths(&context);
  } else {
    const std::unique_ptr<BIO, FreeTls> bio(
        BIO_new_mem_buf(security.ca_pem.data(), static_cast<int>(security.ca_pem.size())));
    int count = 0;
    while (X509* const read = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
      const std::unique_ptr<X509, FreeTls> certificate(read);
      X509_STORE_add_cert(SSL_CTX_get_cert_store(&context), certificate.get());
      ++count;
    }
    ERR_clear_error();
    if (count == 0) {
      return Unreachable(address, "the file of --ca holds no certificate",
                         {"name a PEM file with the certificate of who signed the server's"});
    }
  }
  if (security.cert_pem.empty()) return absl::OkStatus();
  const std::unique_ptr<BIO, FreeTls> bio(
      BIO_new_mem_buf(security.cert_pem.data(), static_cast<int>(security.cert_pem.size())));
  const std::unique_ptr<BIO, FreeTls> key_bio(
      BIO_new_mem_buf(security.key_pem.data(), static_cast<int>(security.key_pem.size())));
  const std::unique_ptr<X509, FreeTls> own(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  const std::unique_ptr<EVP_PKEY, FreeTls> key(
      PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
  if (own == nullptr || key == nullptr || SSL_CTX_use_certificate(&context, own.get()) != 1 ||
      SSL_CTX_use_PrivateKey(&context, key.get()) != 1) {
    ERR_clear_error();
    return Unreachable(address, "the files of --cert and --key are no certificate and its key",
                       {"name PEM files that belong together"});
  }
  return absl::OkStatus();
}

// What a handshake that failed means.
absl::Status HandshakeFailure(const std::string& address, const SSL& tls) {
  const long verdict = SSL_get_verify_result(&tls);
  const unsigned long code = ERR_peek_error();
  const char* const said = ERR_reason_error_string(code);
  switch (verdict) {
    case X509_V_OK:
      break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return Unreachable(
          address, "its certificate has expired",
          {"ask the server's operator to renew it", "see whether this clock is right"});
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Unreachable(address, "its certificate is not valid yet",
                         {"see whether the clocks of both machines are right"});
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return Unreachable(
          address, absl::StrCat("its certificate is not for \"", Split(address).host, "\""),
          {"use a name that it is for: openssl s_client -connect HOST:PORT shows them",
           "or have it signed with this name as subjectAltName"});
    default:
      return Unreachable(address,
                         absl::StrCat("nobody who is trusted vouches for its certificate (",
                                      X509_verify_cert_error_string(verdict), ")"),
                         {"--ca FILE or LIBREYOLO_CA names who signed it, when that is no "
                          "authority of the system"});
  }
  const int reason_code = ERR_GET_REASON(code);
  if (reason_code == SSL_R_WRONG_VERSION_NUMBER || reason_code == SSL_R_PACKET_LENGTH_TOO_LONG ||
      reason_code == SSL_R_HTTP_REQUEST) {
    return Unreachable(address, "it does not speak TLS there",
                       {"correct the port in --server", "start libreyolod there with --tls-cert"});
  }
  if (reason_code == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION ||
      reason_code == SSL_R_UNSUPPORTED_PROTOCOL) {
    return Unreachable(address, "it speaks no TLS 1.3",
                       {"see that it is a libreyolod, and that no proxy in between ends TLS"});
  }
  return Unreachable(
      address,
      absl::StrCat("the TLS handshake failed", said == nullptr ? "" : ": ",
                   said == nullptr ? "" : said),
      {"--cert FILE and --key FILE show a certificate of yours, where it asks for one",
       "see that the address is a libreyolod's"});
}

}  // namespace

absl::StatusOr<TlsReport> ProbeServer(const std::string& address, const ChannelSecurity& security) {
  LY_ASSIGN_OR_RETURN(const UniqueFd fd, ConnectTo(address));
  TlsReport report;
  if (!security.tls) return report;
  const int flags = fcntl(fd.get(), F_GETFL);
  fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  const timeval limit{kHandshakeTimeoutS, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  ERR_clear_error();
  const std::unique_ptr<SSL_CTX, FreeTls> context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof kHttp2 - 1);
  LY_RETURN_IF_ERROR(UseFiles(address, security, *context));
  const std::unique_ptr<SSL, FreeTls> tls(SSL_new(context.get()));
  const std::string host = Split(address).host;
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls.get()), host.c_str()) != 1) {
    ERR_clear_error();
    SSL_set1_host(tls.get(), host.c_str());
    SSL_set_tlsext_host_name(tls.get(), host.c_str());
  }
  SSL_set_fd(tls.get(), fd.get());
  if (SSL_connect(tls.get()) != 1) return HandshakeFailure(address, *tls);
  // A server of TLS 1.3 refuses a client's certificate after the handshake only.
  char byte;
  const int got = SSL_read(tls.get(), &byte, 1);
  if (got <= 0 && SSL_get_error(tls.get(), got) == SSL_ERROR_SSL)
    return HandshakeFailure(address, *tls);
  report.version = SSL_get_version(tls.get());
  const std::unique_ptr<X509, FreeTls> certificate(SSL_get1_peer_certificate(tls.get()));
  tm end{};
  if (certificate != nullptr && ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) == 1)
    report.not_after = absl::FromTM(end, absl::UTCTimeZone());
  char name[256] = "";
  if (certificate != nullptr) {
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name,
                              sizeof name);
  }
  report.subject = name;
  return report;
}

}  // namespace libreyolo::client
