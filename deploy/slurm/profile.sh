#!/usr/bin/env bash
# Profiles inside a Slurm allocation, on the devices and threads that it gives and no others.
#
#   srun --gres=gpu:1 --cpus-per-task=8 deploy/slurm/profile.sh infer --weights weights/model.pt
#   srun --cpus-per-task=8 deploy/slurm/profile.sh infer --device cpu --weights random
#
# The words are those of `libreyolo profile`. There is no server: the client starts a daemon of its own, which keeps its
# state on the node and ends with the step; results lie below the current folder. Exit codes are the client's.
set -euo pipefail
if [ -z "${SLURM_JOB_ID:-}" ]; then
  echo "error: this is no Slurm allocation (SLURM_JOB_ID is not set)" >&2
  echo "hint:  run it by srun or sbatch; outside of Slurm use libreyolo profile" >&2
  exit 2
fi
device=()
case " $* " in
*" --device "*) ;;
*)
  if [ -z "${CUDA_VISIBLE_DEVICES:-}" ]; then
    echo "error: this step was given no GPU (CUDA_VISIBLE_DEVICES is empty)" >&2
    echo "hint:  ask for one with --gres=gpu:1, or measure on the CPU with --device cpu" >&2
    exit 2
  fi
  # The first of the allocation: CUDA_VISIBLE_DEVICES is what the client counts by.
  device=(--device 0)
  ;;
esac
# A daemon of another node must not be found by way of a home that both mount.
place=$(mktemp -d "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}/libreyolo.XXXXXX")
mkdir -m 700 "$place/run" "$place/state"
export XDG_RUNTIME_DIR=$place/run XDG_STATE_HOME=$place/state
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
unset LIBREYOLO_SERVER
finish() {
  libreyolo daemon stop --force >/dev/null 2>&1 || true
  rm -rf "$place"
}
trap finish EXIT
libreyolo profile "$@" "${device[@]}"
