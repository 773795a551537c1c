#include "server/daemon/daemon.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/fault_points.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/rpc/parse_job_spec.h"
#include "server/daemon/access/tls.h"
#include "server/daemon/access/user_file.h"
#include "server/daemon/api_server.h"
#include "server/daemon/control_loop.h"
#include "server/daemon/device/device_inventory.h"
#include "server/daemon/device/device_pool.h"
#include "server/daemon/diagnosis.h"
#include "server/daemon/health.h"
#include "server/daemon/jobs/job_inputs.h"
#include "server/daemon/jobs/job_manager.h"
#include "server/daemon/jobs/retrying_job_store.h"
#include "server/daemon/jobs/store_steps.h"
#include "server/daemon/launch/confine.h"
#include "server/daemon/launch/process_launcher.h"
#include "server/daemon/listen.h"
#include "server/daemon/metrics/metrics.h"
#include "server/daemon/service/call_watch.h"
#include "server/daemon/service/device_service.h"
#include "server/daemon/service/job_service.h"
#include "server/daemon/service/profile_reader.h"
#include "server/daemon/service/profile_service.h"
#include "server/daemon/store/blob_store.h"
#include "server/daemon/store/index.h"
#include "server/daemon/store/job_records.h"
#include "server/daemon/store/layout.h"
#include "server/daemon/store/profile_store.h"
#include "server/daemon/store/read_holds.h"
#include "server/daemon/store/retention.h"
#include "server/daemon/store/upload_book.h"
#include "server/daemon/worker_pool.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;

constexpr unsigned kTraceThreads = 2;  // that parse one trace; more wait for the one that collects
constexpr int kReadThreads = 2;
constexpr absl::Duration kUploadSweep = absl::Hours(1);
constexpr absl::Duration kIdlePoll = absl::Seconds(1);
constexpr absl::Duration kCallGrace = absl::Seconds(2);
constexpr absl::Duration kStoreProbe = absl::Seconds(5);

WorkerFiles FilesOfWorkers(const Config& config) {
  WorkerFiles files;
  files.all = config.worker_all_files;
  files.read = config.worker_read;
  // A local daemon has nothing that its user's other files do not tell.
  if (!config.local) files.hidden = {config.state_dir, config.users_path, config.tls.key};
  if (!config.has_users()) files.of_one_user = {config.workspace};
  return files;
}

// Everything that lives as long as the daemon, in the order in which it is built; destroyed the
// other way round.
class Daemon {
 public:
  // `at` is empty but in tests.
  Daemon(const Config& config, FaultHook at)
      : config_(config),
        at_(std::move(at)),
        layout_({config.state_dir, config.workspace, config.local}),
        devices_(MakeNvmlInventory(gpu::NvmlPath()), ""),
        device_pool_(config.lock_dir),
        blobs_(layout_.BlobDir(), config.max_upload_bytes, config.min_free_bytes, at_),
        profiles_(config.state_dir + "/project_locks", {at_, nullptr}),
        inputs_(
            layout_, blobs_, devices_,
            {config.weights_folders, config.datasets_folders, config.cache_dir, config.hub_base_url,
             std::getenv("HF_TOKEN") == nullptr ? "" : std::getenv("HF_TOKEN"), config_.has_users(),
             config_.min_free_bytes}),
        launcher_({config.worker_path, config.worker_network, config.worker_children,
                   FilesOfWorkers(config), config.worker_limits, config.min_free_bytes, at_},
                  loop_) {}

  absl::Status Start();
  absl::Status Run();

 private:
  absl::StatusOr<std::map<std::string, CommittedResult>> RecoverStore();
  absl::Status FindFinishedCommits(std::map<std::string, CommittedResult>& committed);
  absl::Status OpenGate();
  absl::Status ClaimAddresses();
  void SweepUploads();
  absl::Status StartServer();
  absl::Status SetCordon(bool cordoned);
  void BeginDrain();
  std::string CordonPath() const { return config_.state_dir + "/cordoned"; }
  void WatchSignals();
  void OnSignal();
  void WatchIdleness();
  void KeepRetention();
  void WatchStore();
  absl::StatusOr<StoreFigures> CountStore() const;
  absl::Status ServeMetrics();
  HealthFacts Health() const;
  void TellHealth();
  void Shutdown();
  v1::Capabilities FixedCapabilities() const;

  const Config config_;
  const FaultHook at_;
  const Layout layout_;
  UniqueFd state_lock_;
  std::vector<ListenAddress> addresses_;  // until the server has them
  SystemClock clock_;
  ReadHolds holds_{clock_};
  ControlLoop loop_;
  DeviceInventory devices_;
  DevicePool device_pool_;
  std::unique_ptr<Index> index_;
  Metrics metrics_{[this] { return CountStore(); }};
  BlobStore blobs_;
  ProfileStore profiles_;
  JobInputs inputs_;
  std::unique_ptr<UserFile> users_;
  std::unique_ptr<CallGate> gate_;
  std::unique_ptr<UploadBook> uploads_;
  ProcessLauncher launcher_;
  std::unique_ptr<Retention> retention_;
  std::unique_ptr<JobRecords> job_records_;
  std::atomic<bool> retention_runs_{false};
  std::unique_ptr<StoreSteps> steps_;
  std::unique_ptr<ProfileReader> reader_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<WorkerPool> read_pool_;
  std::unique_ptr<RetryingJobStore> job_store_;
  std::unique_ptr<JobManager> jobs_;
  std::unique_ptr<JobService> job_service_;
  std::unique_ptr<ProfileService> profile_service_;
  std::unique_ptr<DeviceService> device_service_;
  std::unique_ptr<ServerService> server_service_;
  std::unique_ptr<ApiServer> server_;
  std::unique_ptr<MetricsServer> metrics_server_;
  bool store_writable_ = true;
  std::thread shutdown_;
  UniqueFd signals_;
  int signal_count_ = 0;
};

absl::StatusOr<std::map<std::string, CommittedResult>> Daemon::RecoverStore() {
  std::map<std::string, CommittedResult> committed;
  LY_ASSIGN_OR_RETURN(const std::vector<Index::Project> projects, index_->Projects());
  for (const Index::Project& project : projects) {
    const auto folder = layout_.ProjectDir(project.workspace, project.project);
    if (!folder.ok() || access(folder->c_str(), F_OK) != 0) continue;
    // In the user's own folder other daemons may be at work: only this index's jobs are swept.
    const auto ours = [this](const std::string& job_id) {
      const auto record = index_->Find(job_id);
      return record.ok() && record->has_value();
    };
    const auto recovered = profiles_.Recover(*folder, ours);
    // A project that cannot be repaired now (a full disk, say) keeps its staging for the next
    // start.
    if (!recovered.ok()) {
      LogError("project not recovered",
               {{"project", project.project}, {"error", recovered.status().message()}});
      continue;
    }
    for (const RecoveredCommit& commit : *recovered) {
      const std::string trial = commit.names.Trial(commit.names.trial_count - 1);
      const bool trace =
          access(absl::StrCat(*folder, "/", trial, "/profile_trace.json").c_str(), F_OK) == 0;
      LY_RETURN_IF_ERROR(index_->NoteCommit(project.workspace, commit.job_id));
      committed[commit.job_id] = DescribeResult(project.project, commit.names, trace);
    }
    LY_ASSIGN_OR_RETURN(const std::vector<v1::ProfileInfo> known, index_->ProjectProfiles(project));
    LY_RETURN_IF_ERROR(
        index_->SetProfiles(project, profiles_.Scan(*folder, project.project, known)));
  }
  LY_RETURN_IF_ERROR(FindFinishedCommits(committed));
  return committed;
}

// Jobs whose files were all in place when the daemon died, but whose row did not say so yet.
absl::Status Daemon::FindFinishedCommits(std::map<std::string, CommittedResult>& committed) {
  LY_ASSIGN_OR_RETURN(const std::vector<JobRecord> records, index_->LoadActive());
  for (const JobRecord& record : records) {
    const auto spec = rpc::ParseJobSpec(record.job.spec());
    if (!spec.ok() || record.job.state() == v1::JOB_STATE_QUEUED) continue;
    const auto folder = layout_.ProjectDir(spec->workspace, spec->project);
    if (!folder.ok() || !ProfileStore::IsCommitted(*folder, record.job.id(), NamesOf(*spec)))
      continue;
    LY_RETURN_IF_ERROR(index_->NoteCommit(spec->workspace, record.job.id()));
    committed.emplace(record.job.id(), DescribeResult(spec->project, NamesOf(*spec), spec->trace));
  }
  return absl::OkStatus();
}

v1::Capabilities Daemon::FixedCapabilities() const {
  v1::Capabilities out;
  out.set_version(Version());
  out.set_build_id(BuildId());
  out.set_api_version("v1");
  out.set_pid(getpid());
  out.set_local(config_.local);
  if (config_.local) {
    out.set_workspace_root(config_.workspace);
    out.set_log_path(config_.log_path);
  }
  out.add_model_families("yolo9");
  out.add_modes("inference");
  out.set_worker_available(access(config_.worker_path.c_str(), X_OK) == 0);
  if (!out.worker_available()) {
    out.set_worker_unavailable_reason(
        absl::StrCat("the worker executable is missing: ", config_.worker_path));
  }
  out.set_max_upload_bytes(config_.max_upload_bytes);
  out.set_max_queued_jobs_per_user(static_cast<int32_t>(config_.max_queued_per_user));
  out.set_max_stored_bytes_per_user(config_.max_stored_bytes_per_user);
  out.set_max_trace_bytes(config_.trace_limits.max_bytes);
  out.set_max_queued_jobs(JobLimits().max_queued);
  return out;
}

absl::Status Daemon::Start() {
  if (!config_.local) HideFromOwnAccount();
  // Orphans of a worker must come to this process, which waits for them before it frees the device.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  LY_ASSIGN_OR_RETURN(state_lock_, LockFile(config_.state_dir + "/lock",
                                            absl::StrCat("the store ", config_.state_dir)));
  LY_RETURN_IF_ERROR(ClaimAddresses());
  LY_RETURN_IF_ERROR(OpenGate());
  for (const char* folder : {"/job_logs", "/blobs", "/inputs"}) {
    LY_RETURN_IF_ERROR(MakeDirectories(config_.state_dir + folder, 0700));
  }
  if (!config_.local) LY_RETURN_IF_ERROR(MakeDirectories(config_.workspace));
  LY_ASSIGN_OR_RETURN(index_, Index::Open(config_.state_dir + "/index.sqlite", at_));
  blobs_.Sweep();
  SweepUploads();
  retention_ = std::make_unique<Retention>(
      Retention::Deps{*index_, profiles_, layout_, holds_, clock_}, config_.retention);
  job_records_ = std::make_unique<JobRecords>(*index_, layout_, config_.max_job_bytes_per_user);
  steps_ = std::make_unique<StoreSteps>(layout_, profiles_, *index_, inputs_, *retention_);
  uploads_ = std::make_unique<UploadBook>(*index_, blobs_, config_.max_stored_bytes_per_user,
                                          [this](int64_t bytes) { metrics_.UploadStored(bytes); });
  trace::ReadLimits trace_limits = config_.trace_limits;
  trace_limits.threads =
      static_cast<int>(std::min(kTraceThreads, std::thread::hardware_concurrency()));
  reader_ = std::make_unique<ProfileReader>(layout_, blobs_, *index_, *uploads_, holds_,
                                            trace_limits, at_);
  pool_ = std::make_unique<WorkerPool>(2);
  // One thread is always within reach of somebody else, however long one user's reads take.
  read_pool_ =
      std::make_unique<WorkerPool>(kReadThreads, config_.has_users() ? kReadThreads - 1 : 0);
  JobLimits limits;
  limits.heartbeat = config_.heartbeat;
  limits.max_queued_per_principal = static_cast<int>(config_.max_queued_per_user);
  const auto log_path = [this](const std::string& id) { return layout_.JobLog(id); };
  job_store_ = std::make_unique<RetryingJobStore>(*index_, loop_);
  jobs_ = std::make_unique<JobManager>(
      JobManager::Deps{loop_, *pool_, clock_, launcher_, device_pool_, *steps_, *job_store_,
                       &rpc::ParseJobSpec, log_path,
                       [this](bool measuring) {
                         pool_->SetQuiet(measuring);
                         read_pool_->SetQuiet(measuring);
                       },
                       BuildId(),
                       [this](const std::string& device, int64_t pid) {
                         return devices_.HasProcessOf(device, pid);
                       },
                       &metrics_,
                       [this](const std::string& principal, const std::string& id) {
                         pool_->Submit(
                             [this, principal, id] { job_records_->OnEnded(principal, id); });
                       }},
      limits);
  LY_ASSIGN_OR_RETURN(const auto committed, RecoverStore());
  LY_RETURN_IF_ERROR(jobs_->Recover(committed));
  jobs_->SetCordoned(access(CordonPath().c_str(), F_OK) == 0);

  job_service_ = std::make_unique<JobService>(
      JobService::Deps{*gate_, loop_, *pool_, *jobs_, inputs_, *uploads_, holds_, log_path});
  profile_service_ = std::make_unique<ProfileService>(ProfileService::Deps{
      *gate_, *pool_, *read_pool_, *reader_, layout_, blobs_, *index_, *uploads_});
  device_service_ =
      std::make_unique<DeviceService>(DeviceService::Deps{*gate_, loop_, *pool_, devices_, *jobs_});
  server_service_ = std::make_unique<ServerService>(ServerService::Deps{
      *gate_, loop_, *pool_, devices_, *jobs_, *retention_, FixedCapabilities(),
      [this](bool cordoned) { return SetCordon(cordoned); }, [this] { BeginDrain(); },
      [this](bool is_measuring) {
        return Diagnose(config_, devices_, is_measuring, clock_.Wall());
      }});
  WatchSignals();
  TellHealth();
  LY_RETURN_IF_ERROR(ServeMetrics());
  LY_RETURN_IF_ERROR(StartServer());
  WatchStore();
  KeepRetention();
  pool_->Submit([this] { job_records_->Sweep(); });
  return absl::OkStatus();
}

// Parts of uploads that nobody goes on with, now and every hour.
void Daemon::SweepUploads() {
  blobs_.SweepPartial(clock_.Wall());
  loop_.RunAfter(kUploadSweep, [this] { SweepUploads(); });
}

absl::Status Daemon::ClaimAddresses() {
  for (const std::string& listen : config_.listen) {
    LY_ASSIGN_OR_RETURN(ListenAddress address,
                        ClaimAddress(listen, !config_.tls.certificate.empty(),
                                     {config_.socket_mode, config_.socket_group}));
    addresses_.push_back(std::move(address));
  }
  return absl::OkStatus();
}

absl::Status Daemon::ServeMetrics() {
  if (config_.metrics_listen.empty()) return absl::OkStatus();
  LY_ASSIGN_OR_RETURN(metrics_server_, MetricsServer::Start(config_.metrics_listen, metrics_));
  LogInfo("metrics", {{"address", config_.metrics_listen}, {"port", metrics_server_->port()}});
  return absl::OkStatus();
}

absl::StatusOr<StoreFigures> Daemon::CountStore() const {
  LY_ASSIGN_OR_RETURN(const Index::Totals totals, index_->StoreTotals());
  struct statvfs disk {};
  if (statvfs(config_.state_dir.c_str(), &disk) != 0)
    return ErrnoStatus(errno, "look at", config_.state_dir);
  const Retention::Counts removed = retention_->counts();
  return StoreFigures{totals.profile_count,
                      totals.profile_bytes,
                      totals.replaced_count,
                      totals.replaced_bytes,
                      totals.upload_bytes,
                      static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize),
                      removed.by_age,
                      removed.by_count,
                      removed.by_bytes,
                      removed.bytes,
                      removed.failed};
}

// Every while: a disk that is full or gone shows before a job is lost to it.
void Daemon::WatchStore() {
  pool_->Submit([this] {
    const absl::Status status = ProbeStore(config_.state_dir);
    loop_.Post([this, status] {
      if (status.ok() != store_writable_) {
        store_writable_ = status.ok();
        if (status.ok()) LogInfo("store writable again", {{"store", config_.state_dir}});
        if (!status.ok()) {
          LogError("store not writable",
                   {{"store", config_.state_dir}, {"error", status.message()}});
        }
        TellHealth();
      }
      loop_.RunAfter(kStoreProbe, [this] { WatchStore(); });
    });
  });
}

void Daemon::TellHealth() {
  const HealthFacts facts = Health();
  if (server_ != nullptr) server_->SetHealth(facts);  // which begins with it
  metrics_.SetAccepting(facts.accepts_jobs());
  metrics_.SetStoreWritable(facts.store_writable);
}

HealthFacts Daemon::Health() const {
  return {jobs_->draining(), jobs_->cordoned(), store_writable_};
}

absl::Status Daemon::OpenGate() {
  if (!config_.users_path.empty()) {
    LY_ASSIGN_OR_RETURN(users_, UserFile::Open(config_.users_path));
  }
  AccountPolicy accounts{geteuid(), std::nullopt};
  if (config_.admits_accounts()) accounts.others = ParseRole(config_.socket_role);
  gate_ = std::make_unique<CallGate>(CallGate::Config{
      config_.local, BuildId(), users_.get(), !config_.tls.client_ca.empty(), accounts,
      static_cast<int>(config_.max_calls_per_user), config_.stall_timeout});
  return absl::OkStatus();
}

absl::Status Daemon::StartServer() {
  ApiServer::Options options;
  options.addresses = std::move(addresses_);
  options.tls = config_.tls;
  options.tls_folder = config_.state_dir + "/tls";
  // Without tokens a certificate is the only way in, and the handshake is the place to say so.
  options.require_certificate = users_ == nullptr;
  // Who is not let in needs no list of what there is.
  options.reflection = !config_.has_users();
  options.local = config_.local;
  options.observer = &metrics_;
  options.health = Health();
  options.connections = {static_cast<int>(config_.max_connections),
                         static_cast<int>(config_.max_connections_per_peer)};
  options.handshake_timeout = config_.handshake_timeout;
  options.keepalive = config_.keepalive;
  options.connection_idle = config_.connection_idle;
  options.connection_age = config_.connection_age;
  LY_ASSIGN_OR_RETURN(server_, ApiServer::Start(std::move(options),
                                                {job_service_.get(), profile_service_.get(),
                                                 device_service_.get(), server_service_.get()}));
  for (const std::string& address : server_->addresses()) {
    LogInfo("listening", {{"address", address},
                          {"build", BuildId()},
                          {"pid", getpid()},
                          {"store", config_.state_dir}});
  }
  return absl::OkStatus();
}

void Daemon::WatchSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  // main() blocked them before any thread started.
  signals_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  loop_.WatchFd(signals_.get(), [this](uint32_t) { OnSignal(); });
}

void Daemon::OnSignal() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (++signal_count_ == 1) {
      BeginDrain();
    } else {
      jobs_->CancelRunning();
    }
  }
}

void Daemon::BeginDrain() {
  if (jobs_->draining()) return;
  LogInfo("draining", {{"active_jobs", jobs_->active_count()}});
  jobs_->Drain([this] { Shutdown(); });
  TellHealth();
}

// On disk first: a server that an admin cordoned must not come back open.
absl::Status Daemon::SetCordon(bool cordoned) {
  if (cordoned) {
    LY_RETURN_IF_ERROR(WriteFileAtomically(CordonPath(), ""));
  } else if (unlink(CordonPath().c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "remove", CordonPath());
  }
  jobs_->SetCordoned(cordoned);
  TellHealth();
  return absl::OkStatus();
}

// Now, for what was removed by hand or grew old while no daemon ran, and every while from now on.
void Daemon::KeepRetention() {
  if (!retention_->limits().any()) return;
  // A pass that takes long must not pile up others.
  if (!retention_runs_.exchange(true)) {
    pool_->Submit([this] {
      retention_->RunAll();
      retention_runs_ = false;
    });
  }
  loop_.RunAfter(retention_->Interval(), [this] { KeepRetention(); });
}

void Daemon::WatchIdleness() {
  loop_.RunAfter(std::min(kIdlePoll, config_.idle_timeout), [this] {
    if (jobs_->active_count() == 0 && gate_->activity().IdleFor() >= config_.idle_timeout &&
        !jobs_->draining()) {
      LogInfo("ending: idle", {});
      return jobs_->Drain([this] { Shutdown(); });
    }
    WatchIdleness();
  });
}

void Daemon::Shutdown() {
  if (shutdown_.joinable()) return;
  // On a thread of its own: it waits for the calls under way, and those are answered by the loop.
  shutdown_ = std::thread([this] {
    server_->Shutdown(kCallGrace);
    loop_.Stop();
  });
}

absl::Status Daemon::Run() {
  if (config_.local) WatchIdleness();
  loop_.Run();
  if (shutdown_.joinable()) shutdown_.join();
  metrics_server_.reset();
  server_.reset();
  jobs_.reset();
  read_pool_.reset();
  pool_.reset();
  LogInfo("ended", {});
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckStart(const Config& config) {
  for (const std::string& listen : config.listen)
    LY_RETURN_IF_ERROR(CheckAddress(listen, !config.tls.certificate.empty()));
  if (!config.metrics_listen.empty()) {
    LY_ASSIGN_OR_RETURN(const HostPort metrics,
                        ParseHostPort(config.metrics_listen, "--metrics-listen"));
    if (!metrics.is_loopback && !config.metrics_anywhere) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--metrics-listen ", config.metrics_listen,
          ": other hosts could read the metrics there, over plain HTTP; listen on 127.0.0.1, or "
          "give --metrics-anywhere where a firewall decides who may"));
    }
  }
  if (!config.users_path.empty()) LY_RETURN_IF_ERROR(UserFile::Open(config.users_path).status());
  if (!config.tls.certificate.empty()) {
    LY_RETURN_IF_ERROR(CheckTlsFiles(config.tls));
  }
  return absl::OkStatus();
}

absl::Status RunDaemon(const Config& config) {
  LY_RETURN_IF_ERROR(CheckStart(config));
  LY_RETURN_IF_ERROR(MakeDirectories(config.state_dir, 0700));
  const char* plan = std::getenv("LIBREYOLOD_FAULTS");
  LY_ASSIGN_OR_RETURN(FaultHook at, ParseFaultPlan(plan == nullptr ? "" : plan));
  if (at) LogWarning("this daemon fails on purpose: LIBREYOLOD_FAULTS is set", {{"plan", plan}});
  Daemon daemon(config, std::move(at));
  LY_RETURN_IF_ERROR(daemon.Start());
  return daemon.Run();
}

}  // namespace libreyolo::daemon
