"""Launching, on a stand-in for cupy whose device memory is the host's."""

import ctypes
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.backends.gpu import driver
from wia_compiler.backends.gpu.execute import load_on_gpu
from wia_compiler.backends.gpu.launch import Launch, LaunchPlan, PlanBlock
from wia_compiler.backends.gpu.tensor_maps import TensorMapPlan
from wia_compiler.backends.gpu.timing import sample_launches
from wia_compiler.base.errors import OutOfRangeError, TargetError
from wia_compiler.passes.target import Artifact


class DeviceArray:
    """A cupy array: memory with an address."""

    def __init__(self, host: np.ndarray):
        self.host = host
        self.data = SimpleNamespace(ptr=host.__array_interface__["data"][0])
        self.flags = host.flags
        self.nbytes, self.shape = host.nbytes, host.shape
        self.dtype, self.strides, self.itemsize = host.dtype, host.strides, host.itemsize

    def __dlpack_device__(self):
        return 2, 0

    def get(self):
        return self.host.copy()

    def copy(self):
        return aligned(self.host)

    def fill(self, value):
        FILLED.append(self.nbytes)
        self.host.fill(value)

    def __setitem__(self, key, value):
        self.host[key] = value.host


FILLED: list[int] = []


class Event:
    """A moment of a stream; the stand-in's clock is what its kernels take."""

    def __init__(self, cupy):
        self.cupy = cupy
        self.at = 0.0

    def record(self):
        self.at = self.cupy.now_ms

    def synchronize(self):
        pass


def aligned(host, offset: int = 0):
    """A device array that begins ``offset`` bytes after a multiple of 16."""
    raw = np.zeros(host.nbytes + 32, np.uint8)
    start = -raw.__array_interface__["data"][0] % 16 + offset
    made = raw[start : start + host.nbytes].view(host.dtype).reshape(host.shape)
    made[...] = host
    return DeviceArray(made)


def at(pointer, count: int, dtype=np.float32):
    """``count`` elements of device memory."""
    size = count * np.dtype(dtype).itemsize
    raw = (ctypes.c_char * size).from_address(int(pointer))
    return np.frombuffer(raw, dtype)


@pytest.fixture
def cupy(monkeypatch):
    """The stand-in; ``kernels`` maps entries to Python functions of their launch."""
    made = ModuleType("cupy")
    made.__spec__ = SimpleNamespace(name="cupy")
    made.kernels, made.functions = {}, {}
    made.launched = []
    made.capability = "90"
    made.now_ms = 0.0
    made.l2_bytes = 0
    made.count = 1

    class RuntimeFault(Exception):
        pass

    class RawModule:
        def __init__(self, path):
            made.loaded = Path(path).read_bytes()
            assert made.loaded in (b"// ptx", b"cubin")

        def get_function(self, name):
            def launch(grid, block, arguments, shared_mem=0):
                made.launched.append((name, grid, block, shared_mem))
                plain = [each if isinstance(each, np.ndarray) else int(each) for each in arguments]
                made.kernels[name](*plain)

            made.functions[name] = launch
            return launch

    made.RawModule = RawModule
    made.ndarray = DeviceArray
    made.uint8 = np.uint8
    made.empty = lambda size, dtype: aligned(np.full(size, 0xAB, dtype))
    made.zeros = lambda size, dtype: aligned(np.zeros(size, dtype))
    made.asarray = lambda host: aligned(np.ascontiguousarray(host))
    made.asnumpy = lambda device: device.host.copy()
    made.ascontiguousarray = lambda device: aligned(np.ascontiguousarray(device.host))
    made.cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDeviceCount=lambda: made.count, CUDARuntimeError=RuntimeFault),
        Device=lambda: SimpleNamespace(
            compute_capability=made.capability, attributes={"L2CacheSize": made.l2_bytes}
        ),
        Event=lambda: Event(made),
        get_elapsed_time=lambda start, end: end.at - start.at,
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
    )
    monkeypatch.setitem(sys.modules, "cupy", made)
    return made


def artifact(*launches: Launch, workspace=(), target="gpu:sm_90", cubin=False):
    plan = LaunchPlan(launches, tuple(workspace))
    files = {"kernel.ptx": b"// ptx"} | ({"kernel.cubin": b"cubin"} if cubin else {})
    return Artifact(target, "k", files, {}, {}, plan.to_metadata())


def test_numpy_arrays_go_there_and_back(cupy):
    def add(a, b, c):
        assert a % 16 == b % 16 == c % 16 == 0
        at(c, 10)[:] = at(a, 10) + at(b, 10)

    cupy.kernels["add"] = add
    run = load_on_gpu(artifact(Launch("add", 3, 128, (0, 1, 2))))
    a, b = np.arange(10, dtype=np.float32), np.ones(10, np.float32)
    out = np.zeros(10, np.float32)
    assert run([a, b], [out]) == {}
    np.testing.assert_array_equal(out, a + b)
    assert cupy.launched == [("add", (3,), (128,), 0)]


def test_a_check_that_failed_on_the_device_is_an_error_here(cupy):
    fails = True

    def pick(x, y, status):
        record = at(status, 16, np.int64)
        assert not record.any()
        at(y, 2)[:] = 5
        record[:3] = (1, 9, 4) if fails else 0

    cupy.kernels["pick"] = pick
    checks = [
        {"kernel": "k", "span": "1:3-1:7", "line": "y = x[i, j]", "array": "x", "sizes": [8, 8]}
    ]
    plan = LaunchPlan((Launch("pick", 1, 32, (0, 1, 2)),), (128,), status=2)
    metadata = {**plan.to_metadata(), "checks": checks}
    run = load_on_gpu(Artifact("gpu:sm_90", "k", {"kernel.ptx": b"// ptx"}, {}, {}, metadata))
    x, y = np.zeros(2, np.float32), np.zeros(2, np.float32)
    with pytest.raises(OutOfRangeError, match=r"\[9, 4\] lies outside 'x'|index 9 of axis 0"):
        run([x], [y])
    np.testing.assert_array_equal(y, 5)
    fails = False
    assert run([x], [y]) == {}


def test_an_entry_is_looked_up_once(cupy, monkeypatch):
    asked, get = [], cupy.RawModule.get_function
    monkeypatch.setattr(
        cupy.RawModule, "get_function", lambda self, name: (asked.append(name), get(self, name))[1]
    )
    cupy.kernels["work"] = lambda x, y: None
    run = load_on_gpu(artifact(Launch("work", 1, 32, (0, 1), 64 << 10)))
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    for _ in range(3):
        run([x], [y])
    assert asked == ["work"] and len(cupy.launched) == 3
    assert cupy.functions["work"].max_dynamic_shared_size_bytes == 64 << 10


def test_launches_share_a_workspace(cupy):
    def first(x, work):
        at(work, 4)[:] = at(x, 4) * 2

    def second(work, y):
        at(y, 4)[:] = at(work, 4) + 1

    cupy.kernels = {"first": first, "second": second}
    plan = artifact(
        Launch("first", 1, 32, (0, 2)), Launch("second", 1, 32, (2, 1), 64), workspace=[16]
    )
    x, y = np.arange(4, dtype=np.float32), np.zeros((2, 2), np.float32)
    load_on_gpu(plan)([x], [y])
    np.testing.assert_array_equal(y.reshape(-1), x * 2 + 1)
    assert [each[3] for each in cupy.launched] == [0, 64]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2, ::3],
        lambda x: x[::-1],
        lambda x: x[:, ::-1],
        lambda x: x.T,
        lambda x: x[::-2, 5:2:-1],
        lambda x: np.broadcast_to(x[3:4], x.shape),
        lambda x: np.broadcast_to(x[2, 2], (4, 5)),
        lambda x: x[1:1],
        lambda x: x[0, 0],
    ],
)
def test_strided_arrays_keep_their_strides(cupy, view):
    """The kernel gets the address of element [0, 0] and finds every other by its strides."""
    x = view(np.arange(48, dtype=np.float32).reshape(6, 8))
    seen = []

    def look(address, out):
        interface = {
            "shape": x.shape, "strides": x.strides, "typestr": x.dtype.str,
            "data": (address, True), "version": 3,
        }  # fmt: skip
        seen.append(np.array(SimpleNamespace(__array_interface__=interface)))

    cupy.kernels["look"] = look
    load_on_gpu(artifact(Launch("look", 1, 1, (0, 1))))([x], [np.zeros(1, np.float32)])
    np.testing.assert_array_equal(seen[0], x)


@pytest.mark.parametrize("offset", [0, 4])
def test_device_arrays_are_used_where_they_lie(cupy, offset):
    """One that begins at 4 bytes is copied, since kernels read 16 at a time."""
    addresses = []

    def double(x, y):
        addresses.append((x, y))
        at(y, 8)[:] = at(x, 8) * 2

    cupy.kernels["double"] = double
    x = aligned(np.arange(8, dtype=np.float32), offset)
    y = aligned(np.zeros(8, np.float32), offset)
    load_on_gpu(artifact(Launch("double", 1, 32, (0, 1))))([x], [y])
    np.testing.assert_array_equal(y.host, x.host * 2)
    stayed = addresses[0] == (x.data.ptr, y.data.ptr)
    assert stayed == (offset == 0)
    assert all(address % 16 == 0 for address in addresses[0])


def test_arrays_without_elements(cupy):
    run = load_on_gpu(artifact())
    run([np.zeros((0, 3), np.float32)], [np.zeros((0, 3), np.float32)])
    assert cupy.launched == []


def test_a_gpu_that_is_too_old(cupy):
    cupy.capability = "75"
    with pytest.raises(TargetError, match=r"built for sm_90, this GPU is sm_75: build it with"):
        load_on_gpu(artifact())


@pytest.mark.parametrize(("capability", "runs"), [("90", True), ("80", False), ("100", False)])
def test_code_for_one_capability_alone(cupy, capability, runs):
    cupy.capability = capability
    if runs:
        load_on_gpu(artifact(target="gpu:sm_90a"))
        return
    with pytest.raises(TargetError, match=f"for sm_90a.* sm_{capability}: build it with target"):
        load_on_gpu(artifact(target="gpu:sm_90a"))


def test_tensor_maps_of_a_launch(cupy, monkeypatch):
    """The driver gets the innermost dimension first; the kernel 128 bytes behind its buffers."""
    asked = []

    def encode(place, dtype, rank, address, sizes, strides, box, every, *modes):
        ctypes.memset(place, 7, 128)
        lists = [list(each) for each in (sizes, strides, box, every)]
        asked.append((place.value % 64, dtype.value, rank.value, address.value, *lists))
        assert [each.value for each in modes] == [0, 3, 3, 0]
        return 0

    monkeypatch.setattr(driver, "_encode_of_driver", lambda: encode)
    given = []
    cupy.kernels["tiles"] = lambda x, y, box: given.append((x, box.tobytes()))
    plan = TensorMapPlan(0, "bf16", (5, 24, 64), (3072, 128, 2), (1, 8, 64), "swizzle_128b")
    run = load_on_gpu(artifact(Launch("tiles", 1, 32, (0, 1), 0, (plan,))))
    x, y = (aligned(np.zeros((5, 24, 64), np.uint16)) for _ in range(2))
    for _ in range(3):
        run([x], [y])
    address = x.data.ptr
    assert asked == [(0, 9, 3, address, [64, 24, 5], [128, 3072], [64, 8, 1], [1, 1, 1])]
    assert given == [(address, b"\7" * 128)] * 3


def test_a_tensor_map_that_the_driver_refuses(monkeypatch):
    plan = TensorMapPlan(0, "f16", (8, 60), (120, 2), (8, 60), "none")
    with pytest.raises(TargetError, match=r"refused .* status 1: f16\[8, 60\] at 0x10, strides of"):
        driver.encode_tensor_map(plan, 16, lambda *arguments: 1)


def test_a_driver_without_tensor_maps(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    driver._encode_of_driver.cache_clear()
    with pytest.raises(TargetError, match="need cuTensorMapEncodeTiled of libcuda"):
        driver.encode_tensor_map(TensorMapPlan(0, "f16", (8,), (2,), (8,), "none"), 0)


@pytest.mark.parametrize(
    ("target", "capability", "loaded"),
    [
        ("gpu:sm_90", "90", b"cubin"),
        ("gpu:sm_80", "86", b"cubin"),
        ("gpu:sm_80", "90", b"// ptx"),
        ("gpu:sm_86", "89", b"cubin"),
        ("gpu:sm_90", "120", b"// ptx"),
        ("gpu:sm_90a", "90", b"cubin"),
    ],
)
def test_a_cubin_is_loaded_where_it_runs(cupy, target, capability, loaded):
    cupy.capability = capability
    load_on_gpu(artifact(target=target, cubin=True))
    assert cupy.loaded == loaded
    load_on_gpu(artifact(target=target))
    assert cupy.loaded == b"// ptx"


def test_times_are_those_of_the_launches_on_arrays_that_stay(cupy, monkeypatch):
    uploads = []
    asarray = cupy.asarray
    monkeypatch.setattr(cupy, "asarray", lambda host: uploads.append(host) or asarray(host))
    durations = iter([9.0, 9.0, 9.0, *(1.0, 2.0, 3.0, 4.0, 5.0)])

    def work(x, y):
        cupy.now_ms += next(durations)
        at(y, 4)[:] = at(x, 4)

    cupy.kernels["work"] = work
    cupy.l2_bytes = 100
    FILLED.clear()
    run = load_on_gpu(artifact(Launch("work", 1, 32, (0, 1))))
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    samples = run.device_timing([x], [y])(0.0)
    assert samples.nanoseconds == (1e6, 2e6, 3e6, 4e6, 5e6), "three runs to warm up"
    assert FILLED == [200] * 5, "L2 is overwritten before each"
    assert len(uploads) == 1 and not y.any(), "nothing goes to and fro"
    assert samples.remarks.startswith("by events of the GPU, L2 overwritten before each, ")


def test_sampling_stops_after_its_time(cupy):
    ticks, runs = iter(range(1000)), list[int]()
    found = sample_launches(
        cupy, lambda: runs.append(1), budget_s=20, flush=False, clock=lambda: float(next(ticks))
    )
    assert len(runs) == 3 + 2 * len(found.nanoseconds), "one that is not timed before each"
    # Five whatever they take; the clock, which each look moves on, stops the others.
    assert len(found.nanoseconds) == 5 + 19 and "L2 warm" in found.remarks


@pytest.mark.parametrize("fails", [False, True])
def test_clocks_are_noted_where_they_can_be_read(cupy, monkeypatch, fails):
    nvml = ModuleType("pynvml")
    nvml.__spec__ = SimpleNamespace(name="pynvml")
    nvml.NVMLError = type("NVMLError", (Exception,), {})
    clocks = iter([1980, 1755])

    def start():
        if fails:
            raise nvml.NVMLError

    nvml.nvmlInit, nvml.NVML_CLOCK_SM = start, 1
    nvml.nvmlDeviceGetHandleByIndex = lambda number: number
    nvml.nvmlDeviceGetClockInfo = lambda device, kind: next(clocks)
    nvml.nvmlDeviceGetMaxClockInfo = lambda device, kind: 1980
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    remarks = sample_launches(cupy, lambda: None, budget_s=0).remarks
    assert ("SM clock 1980 to 1755 MHz of 1980" in remarks) == (not fails)
    assert ("clocks not known" in remarks) == fails


def test_a_profile_of_a_gpu_that_is_here_is_timed_by_it(cupy, monkeypatch):
    build = wia.compile("kernel here(input A: tensor, output C: tensor) { C = A * 3.0; }").here
    build = build.build(wia.spec((4,), "f32"), target="gpu:sm_90")
    entry = build.artifact.metadata["launches"][0]["entry"]

    def work(x, y):
        cupy.now_ms += 0.25
        at(y, 4)[:] = at(x, 4) * 3

    cupy.kernels[entry] = work
    plain = replace(build.artifact, files={"kernel.ptx": b"// ptx"})
    monkeypatch.setattr(type(build), "executable", property(lambda self: load_on_gpu(plain)))
    profile = build.profile(np.ones(4, np.float32))
    assert profile.source == "measured" and profile.time == pytest.approx(0.25e-3)
    assert "by events of the GPU" in profile.label and profile.estimate is None
    table = profile.lines
    assert table.totals["flops"] == 4, "lines are simulated, also where a GPU is"
    compared = profile.compare()
    assert "not measured: " in compared.note
    assert compared["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"].left == 1


class FromElsewhere:
    """A tensor of another library on the GPU: all it says is DLPack."""

    def __init__(self, array: DeviceArray, device: int = 2):
        self.array, self.device = array, device

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **keywords):
        raise AssertionError("the stand-in's from_dlpack takes the array")


def built_here(cupy, monkeypatch, target="gpu:sm_90"):
    """A kernel that triples, and what runs it on the stand-in."""
    build = wia.compile("kernel triple(input A: tensor, output C: tensor) { C = A * 3.0; }").triple
    build = build.build(wia.spec((8,), "f32"), target=target)
    addresses = []

    def work(x, y):
        addresses.append((x, y))
        at(y, 8)[:] = at(x, 8) * 3

    if target.startswith("gpu"):
        cupy.kernels[build.artifact.metadata["launches"][0]["entry"]] = work
        plain = replace(build.artifact, files={"kernel.ptx": b"// ptx"})
        loaded = load_on_gpu(plain)
        monkeypatch.setattr(type(build), "executable", property(lambda self: loaded))
    monkeypatch.setattr(cupy, "from_dlpack", lambda value: value.array, raising=False)
    return build, addresses


def test_arrays_of_other_libraries_are_read_where_they_lie(cupy, monkeypatch):
    build, addresses = built_here(cupy, monkeypatch)
    x = aligned(np.arange(8, dtype=np.float32))
    for given in (FromElsewhere(x), x, FromElsewhere(x)):
        found = build(given)
        assert isinstance(found, DeviceArray), "results stay on the GPU"
        np.testing.assert_array_equal(found.host, x.host * 3)
        assert addresses[-1] == (x.data.ptr, found.data.ptr), "nothing is copied"
    host = build(np.arange(8, dtype=np.float32))
    assert isinstance(host, np.ndarray) and host[2] == 6
    assert build(x).data.ptr == addresses[-1][1], "after arrays of the host too"


def test_arrays_on_a_gpu_are_refused_where_they_cannot_be_used(cupy, monkeypatch):
    x = aligned(np.arange(8, dtype=np.float32))
    build, _ = built_here(cupy, monkeypatch, target="cpu")
    with pytest.raises(wia.ArgumentError, match="lies on device CUDA, expected host memory"):
        build(FromElsewhere(x))

    def refuses(value):
        raise BufferError("bfloat16 is not known")

    monkeypatch.setattr(cupy, "from_dlpack", refuses)
    with pytest.raises(wia.ArgumentError, match=r"triple\(A\): FromElsewhere on a GPU .* bfloat16"):
        build(FromElsewhere(x))
    cupy.count = 0
    with pytest.raises(wia.ArgumentError, match="lies on device CUDA:0, expected host memory"):
        build(FromElsewhere(x))


def test_profiles_of_arrays_on_a_gpu(cupy, monkeypatch):
    build, _ = built_here(cupy, monkeypatch)
    x = aligned(np.arange(8, dtype=np.float32))
    profile = build.profile(FromElsewhere(x))
    assert profile.source == "measured"
    assert profile.lines.totals["flops"] == 8


def test_no_gpu(cupy):
    cupy.count = 0
    with pytest.raises(TargetError, match="needs a GPU; cupy sees none here"):
        load_on_gpu(artifact())


def test_a_plan_survives_the_cache():
    tiles = TensorMapPlan(3, "f16", (8, 64), (128, 2), (8, 64), "swizzle_128b")
    plan = LaunchPlan((Launch("a", 2**31 - 1, 256, (0, 3, 1), 1024, (tiles,)),), (16, 0))
    assert LaunchPlan.from_metadata(plan.to_metadata()) == plan


def branching(*blocks: PlanBlock, launches: int, workspace=()) -> Artifact:
    """An artifact whose launches ``k0``, ``k1`` … take every buffer."""
    buffers = tuple(range(2 + len(workspace)))
    listed = tuple(Launch(f"k{n}", 1, 1, buffers) for n in range(launches))
    plan = LaunchPlan(listed, tuple(workspace), blocks)
    metadata = json.loads(json.dumps(plan.to_metadata()))
    return Artifact("gpu:sm_90", "k", {"kernel.ptx": b"// ptx"}, {}, {}, metadata)


# x is doubled until it is above 100, by a condition that the device computes.
LOOP = (
    PlanBlock(0, 1, 1),
    PlanBlock(1, 2, 2, 3, condition=2),
    PlanBlock(2, 3, 1),
    PlanBlock(3, 3),
)


@pytest.mark.parametrize("start", [3.0, 500.0])
def test_a_loop_reads_its_condition_back_each_time(cupy, start: float):
    def begin(x, y, go):
        at(y, 1)[:] = at(x, 1)

    def test(x, y, go):
        at(go, 1, np.uint8)[:] = at(y, 1) < 100

    def double(x, y, go):
        at(y, 1)[:] *= 2

    cupy.kernels.update(k0=begin, k1=test, k2=double)
    run = load_on_gpu(branching(*LOOP, launches=3, workspace=(1,)))
    x, y = np.array([start], np.float32), np.zeros(1, np.float32)
    run([x], [y])
    expected = start
    while expected < 100:
        expected *= 2
    assert y[0] == expected
    names = [name for name, *_ in cupy.launched]
    turns = names.count("k2")
    assert names == ["k0", *["k1", "k2"] * turns, "k1"]


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("taken", [False, True])
def test_a_condition_may_be_an_input(cupy, taken: bool, on_device: bool):
    cupy.kernels.update(k0=lambda p, y: at(y, 1).fill(1), k1=lambda p, y: at(y, 1).fill(2))
    blocks = (
        PlanBlock(0, 0, 1, 2, condition=0),
        PlanBlock(0, 1, 3),
        PlanBlock(1, 2, 3),
        PlanBlock(2, 2),
    )
    run = load_on_gpu(branching(*blocks, launches=2))
    condition, y = np.array(taken), np.zeros(1, np.float32)
    run([aligned(condition) if on_device else condition], [y])
    assert y[0] == (1 if taken else 2)


TEXT = """kernel k(input a: tensor, output y: tensor) {
    y = a;
    while (reduce_sum(y) > 1.0) { y = y * 0.5; }
}"""


def test_the_plan_of_a_kernel_that_branches() -> None:
    build = wia.compile(TEXT)["k"].build(wia.spec((8,), "f32"), target="gpu:sm_90")
    plan = LaunchPlan.from_metadata(build.artifact.metadata)
    entries = [launch.entry for launch in plan.launches]
    turns = iter([True, True, False])
    assert len(plan.blocks) == 4
    run = [launch.entry for launch in plan.in_order(lambda buffer: next(turns))]
    body = plan.blocks[plan.blocks[1].then]
    once, test = plan.blocks[0], plan.blocks[1]
    expected = entries[once.first : once.last]
    for _ in range(2):
        expected += entries[test.first : test.last] + entries[body.first : body.last]
    assert run == expected + entries[test.first : test.last]
    assert all(f".entry {entry}" in build.assembly("ptx") for entry in entries)


def test_a_tpu_cannot_branch() -> None:
    with pytest.raises(TargetError) as caught:
        wia.compile(TEXT)["k"].build(wia.spec((8,), "f32"), target="tpu:spec")
    message = str(caught.value)
    assert "tpu:spec runs its instructions in order: here is a loop or a branch" in message
    assert "while (reduce_sum(y) > 1.0)" in message
