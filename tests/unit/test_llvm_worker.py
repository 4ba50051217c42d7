"""The process that LLVM runs in: what it gives, how it fails, that it comes back."""

import multiprocessing
import os
import re
import select
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from wia_compiler.base.errors import TargetError
from wia_compiler.passes.llvm import worker as worker_module
from wia_compiler.passes.llvm.worker import CodeRequest, Worker, shared_worker

X86 = "x86_64-unknown-linux-gnu"
PTX = "nvptx64-nvidia-cuda"
ADD = "define i32 @add(i32 %a, i32 %b) { %c = add i32 %a, %b\n ret i32 %c }"
# NVPTX cannot select llvm.tanh without afn: LLVM aborts. The whitelist would refuse it first.
ABORTS = """declare float @llvm.tanh.f32(float)
define ptx_kernel void @f(ptr %p) {
  %x = load float, ptr %p
  %y = call float @llvm.tanh.f32(float %x)
  store float %y, ptr %p
  ret void
}"""


@pytest.fixture
def worker():
    made = Worker()
    yield made
    made.close()


def request(text: str, triple: str = X86, **options: object) -> CodeRequest:
    return CodeRequest(text, triple, "sm_80" if triple == PTX else "", **options)  # type: ignore[arg-type]


def test_gives_what_was_asked_for(worker: Worker) -> None:
    made = worker.generate(request(ADD, outputs=("ir", "assembly", "object")))
    assert "define i32 @add" in made.ir
    assert re.search(r"add:\n\s+lea\s+eax, \[rdi \+ rsi\]", made.assembly)
    assert made.object.startswith(b"\x7fELF")
    assert worker.generate(request(ADD)).object == b""


def test_constants_lie_in_the_section_of_the_code(worker: Worker) -> None:
    """Two sections may be loaded out of reach of each other, on which LLVM's loader aborts."""
    text = """define <4 x float> @f(<4 x float> %x) {
  %y = fmul <4 x float> %x, <float 1.5, float 2.5, float 3.5, float 4.5>
  ret <4 x float> %y
}"""
    made = worker.generate(request(text, outputs=("assembly", "object")))
    assert ".rodata" in made.assembly and b".rodata" not in made.object


def test_generates_ptx(worker: Worker) -> None:
    text = """define ptx_kernel void @f(ptr addrspace(1) %p) {
      store i32 7, ptr addrspace(1) %p
      ret void }"""
    assert ".visible .entry f(" in worker.generate(request(text, PTX)).assembly


def test_code_is_the_same_each_time_and_in_another_process(worker: Worker) -> None:
    first = worker.generate(request(ADD, outputs=("object", "assembly")))
    assert worker.generate(request(ADD, outputs=("object", "assembly"))) == first
    other = Worker()
    try:
        assert other.generate(request(ADD, outputs=("object", "assembly"))) == first
    finally:
        other.close()


def test_text_that_does_not_parse_says_where_and_how_to_repeat_it(worker: Worker) -> None:
    with pytest.raises(TargetError, match="expected type") as caught:
        worker.generate(request("define void @f( {"))
    assert_repeats(str(caught.value), "expected type")
    assert "add:" in worker.generate(request(ADD)).assembly


def test_an_abort_ends_the_worker_only(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.generate(request(ADD))
    before = worker.process_id
    monkeypatch.setattr(worker_module, "check_names", lambda text, triple, cpu: None)
    with pytest.raises(TargetError, match="Cannot select") as caught:
        worker.generate(request(ABORTS, PTX))
    assert_repeats(str(caught.value), "Cannot select")
    assert "add:" in worker.generate(request(ADD)).assembly
    assert worker.process_id != before


def test_an_abort_at_the_first_request(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "check_names", lambda text, triple, cpu: None)
    with pytest.raises(TargetError, match="Cannot select"):
        worker.generate(request(ABORTS, PTX))
    assert "add:" in worker.generate(request(ADD)).assembly


def assert_repeats(message: str, wanted: str) -> None:
    """The command in the message fails in the same way, on the file that it names."""
    command = message.splitlines()[-1].strip()
    (path,) = re.findall(r"\S+\.ll", command)
    run = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    Path(path).unlink()
    assert run.returncode != 0
    assert wanted in run.stderr


def test_functions_off_the_list_are_refused_before_llvm_sees_them(worker: Worker) -> None:
    for text, name in ((ABORTS, "llvm.tanh.f32"), ('declare void @"evil name"()', "evil name")):
        with pytest.raises(TargetError, match=re.escape(name)):
            worker.generate(request(text, PTX))
    assert worker.process_id is None


def test_a_killed_worker_is_started_again(worker: Worker) -> None:
    worker.generate(request(ADD))
    assert worker.process_id is not None
    os.kill(worker.process_id, 9)
    assert "add:" in worker.generate(request(ADD)).assembly


def test_several_threads_share_one_worker(worker: Worker) -> None:
    texts = [ADD.replace("@add", f"@add{n}") for n in range(8)]
    found: dict[int, str] = {}

    def run(number: int) -> None:
        found[number] = worker.generate(request(texts[number])).assembly

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(f"add{number}:" in found[number] for number in range(8))


def _in_child(queue: "multiprocessing.Queue[tuple[int | None, int | None, str]]") -> None:
    before = shared_worker().process_id
    text = shared_worker().generate(request(ADD)).assembly
    queue.put((before, shared_worker().process_id, text))
    shared_worker().close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_gets_a_worker_of_its_own() -> None:
    shared_worker().generate(request(ADD))
    own = shared_worker().process_id
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    inherited, started, text = queue.get(timeout=60)
    child.join(60)
    assert inherited is None
    assert started not in (None, own)
    assert "add:" in text
    assert shared_worker().process_id == own
    assert "add:" in shared_worker().generate(request(ADD)).assembly


def test_the_worker_ends_with_its_parent() -> None:
    code = (
        "from wia_compiler.passes.llvm.worker import CodeRequest, shared_worker\n"
        f"shared_worker().generate(CodeRequest({ADD!r}, {X86!r}, ''))\n"
        "import os; print(shared_worker().process_id, flush=True); os._exit(0)"
    )
    path = os.pathsep.join(sys.path)
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert _ends(int(run.stdout), within_ms=30_000)


def _ends(process: int, *, within_ms: int) -> bool:
    """Whether a process that is no child of ours ends; it notices that its stdin was closed."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    try:
        return bool(poll.poll(within_ms))
    finally:
        os.close(handle)


LOOP = """define void @f(ptr noalias %a, ptr noalias %b, i64 %n) {
entry:
  %kept = alloca float
  store float 2.0, ptr %kept
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %place = getelementptr float, ptr %a, i64 %i
  %target = getelementptr float, ptr %b, i64 %i
  %x = load float, ptr %place
  %by = load float, ptr %kept
  %y = fmul float %x, %by
  store float %y, ptr %target
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}"""


def test_tidying_leaves_loops_as_they_are(worker: Worker) -> None:
    tidied = worker.generate(request(LOOP, tidy=True, outputs=("ir", "assembly"))).ir
    assert "alloca" not in tidied and " x float>" not in tidied and tidied.count("fmul") == 1
    assert " x float>" in worker.generate(request(LOOP, outputs=("ir", "assembly"))).ir


def test_a_request_is_repeated_as_it_was(worker: Worker) -> None:
    with pytest.raises(TargetError, match="--tidy"):
        worker.generate(request("define void @f( {", tidy=True))


def test_equal_requests_are_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    worker_module.generate.cache_clear()
    asked = request(ADD, outputs=("object",))
    first = worker_module.generate(asked)
    assert first.time_ns > 0
    monkeypatch.setattr(worker_module, "shared_worker", None)
    assert worker_module.generate(request(ADD, outputs=("object",))) is first
