"""LLVM in a process of its own: what makes LLVM abort ends that process and not the user's.

::

    generated = shared_worker().generate(CodeRequest(text, triple, cpu, features))
    generated.assembly, generated.object, generated.ir

The process starts at the first request (``start()`` begins it earlier without waiting), serves one
request at a time, is started anew after it died, and ends with its parent. A module is checked
against the target's whitelist first: LLVM takes unknown ``llvm.*`` names without a word and aborts
on intrinsics that a target cannot select.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Literal

from wia_compiler.base.errors import TargetError
from wia_compiler.passes.llvm import worker_process
from wia_compiler.passes.llvm.messages import read_message, write_message
from wia_compiler.passes.llvm.whitelist import check_names

Output = Literal["ir", "assembly", "object"]


@dataclass(frozen=True)
class CodeRequest:
    """One module and what to make of it.

    ``opt`` is LLVM's level: 0 leaves the module as it is, 1 to 3 run its default pipeline.
    ``vectorize`` switches the loop and SLP vectorisers. ``tidy`` runs no more of the pipeline than
    what clears up: memory becomes registers, empty blocks go.
    """

    ir: str
    triple: str
    cpu: str
    features: str = ""
    opt: int = 2
    vectorize: bool = True
    tidy: bool = False
    outputs: tuple[Output, ...] = ("assembly",)


@dataclass(frozen=True)
class Generated:
    """What a request asked for; the others are empty. ``assembly`` is PTX for NVPTX triples.

    ``time_ns`` is what ``generate`` waited for it.
    """

    ir: str = ""
    assembly: str = ""
    object: bytes = field(default=b"", repr=False)
    time_ns: int = field(default=0, compare=False)


class _ProcessDied(Exception):
    pass


class Worker:
    """A handle on one worker process; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def start(self) -> None:
        """Start the process if none runs; returns at once, the process loads LLVM meanwhile."""
        with self._lock:
            self._running()

    def generate(self, request: CodeRequest) -> Generated:
        """Generate code; what goes wrong in LLVM is a ``TargetError`` with a way to repeat it."""
        check_names(request.ir, request.triple, request.cpu)
        with self._lock:
            header, blobs = self._exchange(request)
        if "error" in header:
            raise TargetError(_message(str(header["error"]), request))
        return Generated(
            blobs.get("ir", b"").decode(),
            blobs.get("assembly", b"").decode(),
            blobs.get("object", b""),
        )

    def close(self) -> None:
        """End the process, if one runs."""
        with self._lock:
            self._discard()

    @property
    def process_id(self) -> int | None:
        """The id of the running process."""
        return self._process.pid if self._process is not None else None

    def _exchange(self, request: CodeRequest) -> tuple[dict[str, Any], dict[str, bytes]]:
        header = {
            "triple": request.triple,
            "cpu": request.cpu,
            "features": request.features,
            "opt": request.opt,
            "vectorize": request.vectorize,
            "tidy": request.tidy,
            "outputs": request.outputs,
        }
        fresh = self._process is None
        try:
            try:
                return self._send(header, request.ir.encode())
            except _ProcessDied:
                reason = self._reason()
                self._discard()
                if fresh or reason:
                    raise TargetError(_message(reason or "the process ended", request)) from None
                # It died between requests (killed from outside): once more with a new one.
                return self._send(header, request.ir.encode())
        except _ProcessDied:
            reason = self._reason()
            self._discard()
            raise TargetError(_message(reason or "the process ended", request)) from None
        except BaseException:
            # Interrupted half way: the pipe holds half a message, so the process is of no more use.
            self._discard()
            raise

    def _send(self, header: dict[str, Any], text: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            write_message(process.stdin, header, {"ir": text})
            answer = read_message(process.stdout)
        except (BrokenPipeError, ConnectionError, TypeError) as error:
            raise _ProcessDied from error
        if answer is None:
            raise _ProcessDied
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._discard()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-I", worker_process.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        return self._process

    def _reason(self) -> str:
        """What the dead process wrote on stderr: LLVM's message, without the stack dump."""
        if self._process is not None:
            self._process.wait()
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        told = [line for line in lines if line.startswith(("LLVM ERROR", "fatal error", "error:"))]
        return "\n".join(told or lines[-3:])

    def _discard(self) -> None:
        process, errors = self._process, self._errors
        self._process = self._errors = None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    _close(stream)
            process.kill()
            process.wait()
        if errors is not None:
            errors.close()

    def forget(self) -> None:
        """In a forked child: drop the parent's process without ending it."""
        process, errors = self._process, self._errors
        self._lock = threading.Lock()
        self._process = self._errors = None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    _close(stream)
            process.returncode = 0
        if errors is not None:
            errors.close()


@functools.lru_cache(maxsize=4)
def generate(request: CodeRequest) -> Generated:
    """What ``shared_worker().generate`` gives; a kernel whose record is made later comes twice."""
    started = time.perf_counter_ns()
    made = shared_worker().generate(request)
    return replace(made, time_ns=time.perf_counter_ns() - started)


_SHARED: list[Worker] = []
_SHARED_LOCK = threading.Lock()


def shared_worker() -> Worker:
    """The worker of this Python process, made at the first call."""
    with _SHARED_LOCK:
        if not _SHARED:
            worker = Worker()
            atexit.register(worker.close)
            os.register_at_fork(after_in_child=worker.forget)
            _SHARED.append(worker)
        return _SHARED[0]


def _close(stream: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # a full pipe to a dead process
        stream.close()


def _message(reason: str, request: CodeRequest) -> str:
    handle, path = tempfile.mkstemp(prefix="wia-llvm-", suffix=".ll")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(request.ir)
    command = [
        *(sys.executable, "-I", str(Path(worker_process.__file__)), path),
        *("--triple", request.triple, "--cpu", request.cpu, f"--features={request.features}"),
        *("--opt", str(request.opt)),
        *(("--tidy",) if request.tidy else ()),
    ]
    repeat = f"repeat it with:\n  {shlex.join(command)}"
    return f"LLVM refused the module for {request.triple}:\n{reason}\n{repeat}"
