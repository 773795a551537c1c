#!/usr/bin/env python3
"""Profiles an inference on a libreyolod server, and gates on the result: an example of a client made from the protos.

    make_env.sh                                        # once: the environment and the stubs
    .deps/api-client/bin/python profile_client.py --server localhost:7430 --request-id build-4711 \\
        --weights random --project runs/build-4711 \\
        --baseline runs/main/infer --fail-on 'latency_p50_ms>5%'

Run it again with the same --request-id after whatever went wrong: it finds the job that it made, and goes on.

Exit codes are those of the libreyolo command line: 0 done, 2 a bad argument, 3 no profile, 4 the server does not answer,
10 the condition holds.
"""

import argparse
import pathlib
import sys
import time

# Where make_env.sh puts the stubs: beside the bin folder of the environment that runs this.
sys.path.insert(0, str(pathlib.Path(sys.prefix) / "stubs"))

import grpc  # noqa: E402
from google.rpc import error_details_pb2  # noqa: E402
from grpc_status import rpc_status  # noqa: E402

from libreyolo.profile.v1 import analysis_pb2, job_pb2, profile_pb2, profiler_pb2, profiler_pb2_grpc  # noqa: E402,F401

TERMINAL = {job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_CANCELLED}
# No message of the server is larger.
MAX_MESSAGE_BYTES = 1 << 20
PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0
CALL_DEADLINE_S = 60


def reason_of(error):
    """The stable word of a refused call ("WEIGHTS_NOT_FOUND"), or "" for one that never reached the server."""
    status = rpc_status.from_call(error)
    for detail in status.details if status else []:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return info.reason
    return ""


def hints_of(error):
    """The ways out that the server named."""
    status = rpc_status.from_call(error)
    for detail in status.details if status else []:
        ways = error_details_pb2.Help()
        if detail.Unpack(ways):
            return [link.description for link in ways.links]
    return []


def is_lost_connection(error):
    """True when nothing was decided: the connection broke, or the server goes down and comes back."""
    return error.code() == grpc.StatusCode.UNAVAILABLE and reason_of(error) in ("", "DRAINING")


class ProfileClient:
    """The calls that an orchestrator needs. `patience_s`: how long a server may be gone before that is an error."""

    def __init__(self, address, patience_s=60):
        self._patience_s = patience_s
        self._channel = grpc.insecure_channel(address, options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
        ])
        self._jobs = profiler_pb2_grpc.JobServiceStub(self._channel)
        self._profiles = profiler_pb2_grpc.ProfileServiceStub(self._channel)
        self._server = profiler_pb2_grpc.ServerServiceStub(self._channel)

    def close(self):
        self._channel.close()

    def capabilities(self):
        return self._retry(self._server.GetCapabilities, profiler_pb2.GetCapabilitiesRequest())

    def submit(self, spec, request_id):
        """The job of this request. Safe to repeat: the same id with the same spec is the same job."""
        return self._retry(self._jobs.CreateJob, profiler_pb2.CreateJobRequest(spec=spec, request_id=request_id))

    def watch(self, job_id):
        """Yields the job at each event, each event once, to its end; over lost connections and restarts of the server."""
        seen = 0
        patience = _Patience(self._patience_s)
        while True:
            try:
                for event in self._jobs.WatchJob(profiler_pb2.WatchJobRequest(id=job_id, after_sequence=seen)):
                    patience.renew()
                    # To a watcher who knows everything the newest event is sent again.
                    if event.sequence > seen:
                        seen = event.sequence
                        yield event.job
                    if event.job.state in TERMINAL:
                        return
                patience.wait(None)
            except grpc.RpcError as error:
                if not is_lost_connection(error):
                    raise
                patience.wait(error)

    def metric(self, trace, field):
        """One figure; None when it cannot be known."""
        request = profiler_pb2.GetMetricRequest(trace=profile_pb2.TraceRef(name=trace), field=field)
        value = self._retry(self._profiles.GetMetric, request).value
        kind = value.WhichOneof("value")
        return getattr(value, kind) if kind else None

    def compare(self, before, after, fail_on=""):
        """The report; with `fail_on` its `condition_met` and `condition` tell whether it holds, with the numbers."""
        return self._retry(self._profiles.Compare, profiler_pb2.CompareRequest(
            before=profile_pb2.TraceRef(name=before), after=profile_pb2.TraceRef(name=after), fail_on=fail_on))

    def _retry(self, method, request):
        # Every call here may be repeated: readers change nothing, and CreateJob has its request_id.
        patience = _Patience(self._patience_s)
        while True:
            try:
                return method(request, timeout=CALL_DEADLINE_S)
            except grpc.RpcError as error:
                if not is_lost_connection(error):
                    raise
                patience.wait(error)


class _Patience:
    """Growing pauses, up to a limit since the last sign of life."""

    def __init__(self, limit_s):
        self._limit_s = limit_s
        self.renew()

    def renew(self):
        self._pause_s = PAUSE_S
        self._since = time.monotonic()

    def wait(self, error):
        """Pauses, or raises `error` (a TimeoutError for none) when there was no sign of life for the limit."""
        if time.monotonic() - self._since + self._pause_s > self._limit_s:
            raise error or TimeoutError("the server ends the watch again and again")
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)


def make_spec(arguments):
    weights = (job_pb2.InputRef(random=True) if arguments.weights == "random"
               else job_pb2.InputRef(name=arguments.weights))
    return job_pb2.JobSpec(device=arguments.device, project=arguments.project, weights=weights, imgsz=arguments.imgsz,
                           repeat=arguments.repeat, infer=job_pb2.InferSpec(runs=arguments.runs))


def profile_and_gate(client, arguments):
    job = client.submit(make_spec(arguments), arguments.request_id)
    print(f"job {job.id}", flush=True)
    printed = None
    for job in client.watch(job.id):
        if job.state != printed:
            printed = job.state
            print(job_pb2.JobState.Name(job.state).removeprefix("JOB_STATE_").lower(), flush=True)
    if job.state != job_pb2.JOB_STATE_SUCCEEDED:
        print(f"error: {job.error.reason}: {job.error.message}", file=sys.stderr)
        for hint in job.error.hints:
            print(f"hint:  {hint}", file=sys.stderr)
        return 3
    print(f"profile {job.profile}")
    for field in ("latency_p50_ms", "img_per_s"):
        print(f"{field} {client.metric(job.profile, field)}")
    if not arguments.baseline:
        return 0
    report = client.compare(arguments.baseline, job.profile, arguments.fail_on)
    print("\n".join(report.lines))
    if report.condition_met:
        print(f"gate: {report.condition}", file=sys.stderr)
        return 10
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="localhost:7430", help="HOST:PORT or unix:PATH")
    parser.add_argument("--request-id", required=True, help="this run's own id: a commit, a build number")
    parser.add_argument("--weights", default="LibreYOLO9t.pt", help="a name or path on the server, or random")
    parser.add_argument("--device", default="0")
    parser.add_argument("--project", default="runs/profile")
    parser.add_argument("--imgsz", type=int, default=640)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=1, help="trials; from 3 on a comparison can be significant")
    parser.add_argument("--baseline", default="", help="the profile to compare with, a path on the server")
    parser.add_argument("--fail-on", default="", help="such as 'latency_p50_ms>5%%': exit 10 when it holds")
    parser.add_argument("--patience", type=float, default=60, help="seconds that the server may be gone")
    arguments = parser.parse_args()
    client = ProfileClient(arguments.server, arguments.patience)
    try:
        return profile_and_gate(client, arguments)
    except grpc.RpcError as error:
        print(f"error: {reason_of(error) or error.code().name}: {error.details()}", file=sys.stderr)
        for hint in hints_of(error):
            print(f"hint:  {hint}", file=sys.stderr)
        return 4 if is_lost_connection(error) else 2
    except TimeoutError as error:
        print(f"error: {error}", file=sys.stderr)
        return 4
    finally:
        client.close()


if __name__ == "__main__":
    sys.exit(main())
