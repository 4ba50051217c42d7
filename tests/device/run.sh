#!/bin/sh
# Checks kernels on this machine's GPU, then times them and writes docs/measurements.md.
# Each of the two parts ends after 200 seconds, with what it has by then: under 8 minutes in all.
# Usage: tests/device/run.sh [--rehearse] [python]     (default: the project's .venv, else python3)
# --rehearse: the same two parts on the simulator, with few and small sizes; needs no GPU.
set -eu
cd "$(dirname "$0")/../.."
mode=
[ "${1:-}" = --rehearse ] && { mode=--rehearse; shift; }
python=${1:-}
[ -n "$python" ] || { [ -x .venv/bin/python ] && python=.venv/bin/python || python=python3; }
export PYTHONPATH="compiler:kernels:wia_notebook:tests${PYTHONPATH:+:$PYTHONPATH}"
# A kernel that never ends is ended with its part; what was known before is written.
limit=
[ -z "$mode" ] && timeout 1 true 2>/dev/null && limit="timeout -k 5 230"
failed=0
$limit "$python" tests/device/check_gpu.py $mode || failed=1
$limit "$python" tests/device/measure_gpu.py $mode || failed=1
exit $failed
