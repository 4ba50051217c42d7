#!/bin/sh
# Checks every kernel on this machine's GPU and writes docs/measurements.md. Under 8 minutes.
# Usage: tests/device/run.sh [python]      (default: the project's .venv, else python3)
set -eu
cd "$(dirname "$0")/../.."
python=${1:-}
[ -n "$python" ] || { [ -x .venv/bin/python ] && python=.venv/bin/python || python=python3; }
export PYTHONPATH="compiler:kernels:wia_notebook:tests${PYTHONPATH:+:$PYTHONPATH}"
# Compiling is what takes time: on all cores where pytest-xdist is there.
"$python" -c "import xdist" 2>/dev/null && workers="-n auto" || workers=
"$python" -m pytest tests/device -q -rs $workers
"$python" tests/device/measure_gpu.py
