#include "server/daemon/access/tls.h"

#include <arpa/inet.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

constexpr unsigned kReloadSeconds = 1;
constexpr int64_t kMaxPemBytes = int64_t{4} << 20;
constexpr char kCertificate[] = "certificate.pem";
constexpr char kKey[] = "key.pem";
constexpr char kClientCa[] = "client_ca.pem";

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

std::string OpensslError() {
  char text[256] = "unknown";
  if (const unsigned long code = ERR_get_error(); code != 0) {
    ERR_error_string_n(code, text, sizeof text);
  }
  ERR_clear_error();
  return text;
}

absl::Status Refuse(absl::string_view what, const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", path, ": ", why));
}

}  // namespace

// gRPC would start with files of no use, and refuse every handshake.
absl::Status CheckTlsFiles(const TlsFiles& files) {
  struct stat info;
  if (stat(files.key.c_str(), &info) != 0) {
    return Refuse("the TLS key", files.key, strerror(errno));
  }
  if ((info.st_mode & (S_IWGRP | S_IRWXO)) != 0) {
    return Refuse("the TLS key", files.key, "is open to others; chmod 600 makes it private");
  }
  const std::unique_ptr<SSL_CTX, FreeContext> context(SSL_CTX_new(TLS_server_method()));
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1) {
    return Refuse("the TLS certificate", files.certificate, OpensslError());
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Refuse("the TLS key", files.key, OpensslError());
  }
  if (!files.client_ca.empty() &&
      SSL_CTX_load_verify_locations(context.get(), files.client_ca.c_str(), nullptr) != 1) {
    return Refuse("the clients' authority", files.client_ca, OpensslError());
  }
  return absl::OkStatus();
}

absl::StatusOr<CertificateInfo> ReadCertificate(const std::string& path) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file(path.c_str(), "r"), &BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      file == nullptr ? nullptr : PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr),
      &X509_free);
  if (certificate == nullptr) return Refuse("the TLS certificate", path, OpensslError());
  CertificateInfo info;
  tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1)
    return Refuse("the TLS certificate", path, "its end cannot be read");
  info.not_after = absl::FromTM(end, absl::UTCTimeZone());
  auto* const names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    const ASN1_STRING* const text = name->d.ia5;  // an address is one too, of 4 or 16 bytes
    const auto* const data = ASN1_STRING_get0_data(text);
    const int size = ASN1_STRING_length(text);
    char shown[INET6_ADDRSTRLEN] = "";
    if (name->type == GEN_DNS) {
      info.names.emplace_back(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
    } else if (name->type == GEN_IPADD && (size == 4 || size == 16) &&
               inet_ntop(size == 4 ? AF_INET : AF_INET6, data, shown, sizeof shown) != nullptr) {
      info.names.emplace_back(shown);
    }
  }
  GENERAL_NAMES_free(names);
  return info;
}

void AllowTls13Only() {
  // A suite with a pre-shared key, and no key: TLS 1.2 finds no suite in common with anybody. The
  // suites of TLS 1.3 are another list.
  setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES256-GCM-SHA384", 1);
}

absl::StatusOr<std::unique_ptr<TlsReloader>> TlsReloader::Start(const TlsFiles& files,
                                                                const std::string& folder) {
  LY_RETURN_IF_ERROR(CheckTlsFiles(files));
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  LY_RETURN_IF_ERROR(MakeDirectories(folder, 0700));
  std::unique_ptr<TlsReloader> reloader(new TlsReloader(files, folder));
  reloader->signature_ = reloader->Signature();
  LY_RETURN_IF_ERROR(reloader->Publish());
  reloader->thread_ = std::thread([raw = reloader.get()] { raw->Watch(); });
  return reloader;
}

TlsReloader::~TlsReloader() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::string TlsReloader::Signature() const {
  std::string text;
  for (const std::string& path : {files_.certificate, files_.key, files_.client_ca}) {
    struct stat info {};
    if (!path.empty()) (void)stat(path.c_str(), &info);
    absl::StrAppend(&text, info.st_dev, ":", info.st_ino, ":", info.st_size, ":",
                    info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, ";");
  }
  return text;
}

std::string TlsReloader::Current(const char* name) const {
  return absl::StrCat(folder_, "/current/", name);
}

// Copies first, then looks at the copies: a file may change between two looks.
absl::Status TlsReloader::Publish() {
  const std::string name = absl::StrCat("files.", ++published_);
  const std::string place = absl::StrCat(folder_, "/", name);
  LY_RETURN_IF_ERROR(MakeDirectories(place, 0700));
  TlsFiles copies;
  const auto copy = [&](const std::string& from, const char* to, std::string& copied) {
    if (from.empty()) return absl::OkStatus();
    const absl::StatusOr<std::string> text = ReadFile(from, kMaxPemBytes);
    if (!text.ok()) return text.status();
    copied = absl::StrCat(place, "/", to);
    LY_RETURN_IF_ERROR(WriteFile(copied, *text));
    return chmod(copied.c_str(), 0600) == 0 ? absl::OkStatus()
                                            : ErrnoStatus(errno, "protect", copied);
  };
  absl::Status status = CheckTlsFiles(files_);
  if (status.ok()) status = copy(files_.certificate, kCertificate, copies.certificate);
  if (status.ok()) status = copy(files_.key, kKey, copies.key);
  if (status.ok()) status = copy(files_.client_ca, kClientCa, copies.client_ca);
  if (status.ok()) status = CheckTlsFiles(copies);
  const std::string link = absl::StrCat(folder_, "/next");
  const std::string current = absl::StrCat(folder_, "/current");
  (void)unlink(link.c_str());
  if (status.ok() &&
      (symlink(name.c_str(), link.c_str()) != 0 || rename(link.c_str(), current.c_str()) != 0)) {
    status = ErrnoStatus(errno, "place", current);
  }
  // What was in force may be read at this moment; what was before that is not.
  std::error_code ignored;
  std::filesystem::remove_all(
      status.ok() ? absl::StrCat(folder_, "/files.", published_ - 2) : place, ignored);
  return status;
}

void TlsReloader::Watch() {
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mu_);
      if (wake_.wait_for(lock, std::chrono::milliseconds(500), [this] { return ends_; })) return;
    }
    const std::string now = Signature();
    if (now == signature_) continue;
    signature_ = now;
    const absl::Status status = Publish();
    if (status.ok()) {
      LogInfo("certificate renewed", {{"certificate", files_.certificate}});
    } else {
      LogError("certificate not renewed: the one before stays in force",
               {{"certificate", files_.certificate}, {"error", status.message()}});
    }
  }
}

std::shared_ptr<grpc::ServerCredentials> TlsReloader::MakeCredentials(
    bool require_certificate) const {
  namespace tls = grpc::experimental;
  const bool has_authority = !files_.client_ca.empty();
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      Current(kKey), Current(kCertificate), has_authority ? Current(kClientCa) : "",
      kReloadSeconds));
  options.watch_identity_key_cert_pairs();
  if (has_authority) {
    options.watch_root_certs();
    options.set_cert_request_type(require_certificate
                                      ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                      : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

}  // namespace libreyolo::daemon
