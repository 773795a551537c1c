"""What a soak reads of a daemon's store without the daemon: results from the files, jobs and events from the index."""

import json
import pathlib
import shutil
import sqlite3

TERMINAL = {6: "SUCCEEDED", 7: "FAILED", 8: "CANCELLED"}
PROFILE_FILES = ("profile.json", "profile_summary.json", "profile_trace.json")


def fields_of(message):
    """A serialized proto message as [(number, value)]: integers and bytes, which is all that is needed here."""
    at, fields = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        number, wire = divmod(varint(), 8)
        if wire == 0:
            fields.append((number, varint()))
            continue
        size = varint() if wire == 2 else {1: 8, 5: 4}[wire]
        fields.append((number, message[at:at + size]))
        at += size
    return fields


def state_of(job):
    return next((value for number, value in fields_of(job) if number == 2), 0)


def read_index(path, scratch):
    """{job id: (active, state)} and {job id: [state of each stored event]}, from a copy."""
    copy = pathlib.Path(scratch) / "index-copy.sqlite"
    for suffix in ("", "-wal"):
        source = pathlib.Path(f"{path}{suffix}")
        if source.exists():
            shutil.copy(source, f"{copy}{suffix}")
    index = sqlite3.connect(copy)
    jobs = {row[0]: (row[1], state_of(row[2])) for row in index.execute("SELECT id, active, job FROM jobs")}
    events = {}
    for job, event in index.execute("SELECT job, event FROM events ORDER BY job, sequence"):
        events.setdefault(job, []).append(state_of(dict(fields_of(event))[3]))
    index.close()
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(f"{copy}{suffix}").unlink(missing_ok=True)
    return jobs, events


def check_jobs(jobs, events):
    """What is wrong with the stored jobs once all have ended."""
    wrong = []
    for job, (active, state) in jobs.items():
        ends = [seen for seen in events.get(job, []) if seen in TERMINAL]
        if active or state not in TERMINAL:
            wrong.append(f"job {job} has no end: state {state}")
        elif ends != [state] or events[job][-1] != state:
            wrong.append(f"job {job} is {TERMINAL[state]}, its events say {events.get(job)}")
    return wrong


def load(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        return error


def read_results(workspace):
    """({job: [its result's entries]}, [what is half written]) of all projects below `workspace`."""
    found, wrong = {}, []
    for entry in sorted([*workspace.rglob("infer"), *workspace.rglob("infer_*")]):
        if ".staging" in entry.parts:
            continue
        files = [entry] if entry.is_file() else [entry / name for name in PROFILE_FILES]
        parsed = [load(path) for path in files]
        for path, content in zip(files, parsed):
            if not isinstance(content, dict):
                wrong.append(f"{path}: {content}")
        job = parsed[0].get("job") if isinstance(parsed[0], dict) else None
        if job is None:
            wrong.append(f"{entry} names no job")
        found.setdefault(job, []).append(entry)
    return found, wrong


def check_results(found, jobs, repeats, trials, rolled_forward, removed=frozenset()):
    """Each job that succeeded has one whole result, in one place; nobody else has any. `repeats` are the projects whose
    jobs have several `trials`; jobs in `rolled_forward` were told that their commit would be completed later; the results
    of those in `removed` may be gone, since the daemon said that it would remove them."""
    wrong = []
    for job, entries in found.items():
        state = TERMINAL.get(jobs.get(job, (0, 0))[1])
        if state != "SUCCEEDED" and job not in rolled_forward:
            wrong.append(f"job {job} is {state} and has results: {entries}")
        if len({entry.parent for entry in entries}) != 1:
            wrong.append(f"the result of {job} is in several places: {entries}")
        names = {entry.name for entry in entries}
        parts = entries[0].parent.parts
        repeat = any(project in parts for project in repeats)
        whole = {f"infer_{i}" for i in range(trials)} | {"infer_repeat.json"} if repeat else {"infer"}
        if names != whole:
            wrong.append(f"the result of {job} is not whole: {sorted(names)}")
    wrong += [f"the result of {job} is lost" for job, (_, state) in jobs.items()
              if TERMINAL.get(state) == "SUCCEEDED" and job not in found and job not in removed]
    return wrong
