"""A process of a distributed training; the only module that uses torch.distributed.

torchrun starts one process per device and sets the environment variables of the rendezvous. CPU tensors use
gloo, GPU tensors NCCL.
"""

import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

# torch.optim imports this module, whose default arguments keep the process group that exists at that time.
# The group's threads would outlive it and abort the process at exit; so import it before there is a group.
import torch.distributed.nn.functional
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, ProcessGroup, Store
from torch.distributed.rendezvous import rendezvous

from model.errors import ConfigError, LostProcessError, TrainingError
from model.training.distributed.world import World
from model.training.run_folder.state import seed_rank

_COLLECTIVE_TIMEOUT = timedelta(days=30)
"""Long, because others wait while the first process makes a tokenizer; a lost process fails at once."""
_GPU_TIMEOUT = timedelta(hours=1)
"""NCCL notices a lost process only by this. Nothing but gradients goes through it, and the longest wait for
them is another process's compilation of the network, its validation, or a disk that the run outpaces."""
_RENDEZVOUS_TIMEOUT = timedelta(minutes=10)
"""How long processes wait for each other at the start."""
_POLL_SECONDS = 0.05


class DistributedWorld(World):
    """A process that torchrun started.

    Args:
        store: Shared by all processes; it survives the loss of one of them.
        rank: Number of this process, from 0.
        size: Number of processes on all machines.
        local_rank: Number of this process on this machine, from 0.
    """

    def __init__(self, store: Store, rank: int, size: int, local_rank: int) -> None:
        self.rank = rank
        self.size = size
        self._store = store
        self._local_rank = local_rank
        self._gpus: ProcessGroup | None = None

    def device(self, kind: str) -> torch.device:
        """The device of this process; each process of a machine has its own GPU.

        Raises:
            ConfigError: If a machine has fewer GPUs than processes.
            TrainingError: If machines have different kinds of devices.
        """
        self.require_same("kind of device", kind)
        if kind != "cuda":
            return torch.device(kind)
        if self.all_max(self._local_rank - torch.cuda.device_count()) >= 0:
            raise ConfigError("run.device", "cpu where a machine has fewer GPUs than processes", kind)
        device = torch.device(kind, self._local_rank)
        torch.cuda.set_device(device)
        self._gpus = dist.new_group(backend="nccl", device_id=device, timeout=_GPU_TIMEOUT)
        return device

    def all_max(self, value: int) -> int:
        """The maximum of the values of all processes."""
        agreed = torch.tensor([value])
        with _as_lost_process():
            dist.all_reduce(agreed, op=dist.ReduceOp.MAX)
        return int(agreed)

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """The first process executes the body before the others do."""
        if not self.is_first:
            self.all_max(0)
        yield
        if self.is_first:
            self.all_max(0)

    def require_same(self, what: str, description: str) -> None:
        """Refuse to continue if descriptions differ between processes."""
        digest = int(_digest(description)[:15], 16)
        if self.all_max(digest) != -self.all_max(-digest):
            raise TrainingError(f"the {self.size} processes of this run do not see the same {what}")

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite tensors with those of the first process."""
        with torch.no_grad(), _as_lost_process():
            for tensor in tensors:
                dist.broadcast(tensor, src=0, group=self._group_of(tensor))

    @torch.no_grad()
    def sum_gradients(self, weights: Sequence[Tensor]) -> None:
        """Replace the gradient of every weight by its sum over all processes, in one all-reduce.

        DistributedDataParallel would average over processes, and expects from each the same number of
        backward passes with a gradient for every weight. At the end of an epoch a process may have no batch,
        and dropped layers (`layer_drop`) have no gradient.
        """
        super().sum_gradients(weights)
        flat = torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])
        self.sum_(flat)
        for weight, part in zip(weights, flat.split([weight.numel() for weight in weights]), strict=True):
            weight.grad = part.view_as(weight)

    def sum_(self, tensor: Tensor) -> None:
        """Add up a tensor over all processes, in place."""
        with _as_lost_process():
            dist.all_reduce(tensor, group=self._group_of(tensor))

    def gather(self, shard: Sequence[str | None]) -> list[str | None]:
        """The results of all processes, in the order of the items that `shard` divided."""
        encoded = json.dumps(shard).encode()
        mine = torch.tensor(list(encoded.ljust(self.all_max(len(encoded)))), dtype=torch.uint8)
        of_ranks = [torch.empty_like(mine) for _ in range(self.size)]
        with _as_lost_process():
            dist.all_gather(of_ranks, mine)
        shards = [json.loads(bytes(each.tolist())) for each in of_ranks]
        gathered: list[str | None] = [None] * sum(map(len, shards))
        for rank, each in enumerate(shards):
            gathered[rank :: self.size] = each
        return gathered

    def _group_of(self, tensor: Tensor) -> ProcessGroup | None:
        return self._gpus if tensor.is_cuda else None

    def seed_update(self, seed: int, step: int) -> None:
        """Seed the generators from the run's seed, the rank and the step.

        So a resumed run needs no random states of the other processes.
        """
        seed_rank(seed, self.rank, step)

    def should_report(self, error: Exception) -> bool:
        """Returns whether this process prints the error that ends the run.

        One process prints an error that several have. The loss of a process is printed only if nothing was.
        """
        try:
            count = self._store.add("reported", 1)
            if not isinstance(error, LostProcessError):
                count = self._store.add(f"reported/{_digest(str(error))}", 1)
        except RuntimeError:  # the process with the store is gone, perhaps before it printed its error
            return True
        return int(count) == 1

    def close(self) -> None:
        """Wait for all processes, then close the connections."""
        self.all_max(0)
        dist.destroy_process_group()

    def abort(self) -> None:
        """Close the connections without waiting for pending operations."""
        if self._gpus is not None:
            self._gpus.abort()
        dist.destroy_process_group()


@contextmanager
def join_world() -> Iterator[World]:
    """Join the processes that torchrun started."""
    world = _join()
    try:
        yield world
        world.close()
    except BaseException:
        world.abort()
        raise


def _join() -> DistributedWorld:
    place = ":".join(os.environ.get(name, "?") for name in ("MASTER_ADDR", "MASTER_PORT"))
    try:
        store, rank, size = next(iter(rendezvous("env://", timeout=_RENDEZVOUS_TIMEOUT)))
        store = PrefixStore(rendezvous_prefix(store, rank, size), store)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_COLLECTIVE_TIMEOUT)
    except (RuntimeError, ValueError) as error:  # ValueError: a variable is missing
        raise TrainingError(f"the processes of this run cannot meet at {place}: {error}") from error
    return DistributedWorld(store, rank, size, int(os.environ.get("LOCAL_RANK", "0")))


def rendezvous_prefix(store: Store, rank: int, size: int) -> str:
    """A prefix for the keys in `store` that the processes of this start share with no earlier start.

    The store keeps the keys of processes that torchrun has replaced since, and each machine counts its
    restarts by itself. So every process asks for the prefix under a unique key, which only the first process
    of this start can answer.

    Args:
        store: Shared by all processes.
        rank: Number of this process.
        size: Number of processes.

    Raises:
        RuntimeError: If a process is missing after ten minutes.
    """
    if rank > 0:
        key = uuid.uuid4().hex
        store.set(f"question/{rank}", key)
        prefix = store.get(f"answer/{key}").decode()
        store.set(f"{prefix}/{rank}", "")
        return prefix
    prefix, missing = uuid.uuid4().hex, set(range(1, size))
    deadline = time.monotonic() + _RENDEZVOUS_TIMEOUT.total_seconds()
    while missing:
        time.sleep(_POLL_SECONDS)
        for other in missing:
            if store.check([f"question/{other}"]):
                store.set(f"answer/{store.get(f'question/{other}').decode()}", prefix)
        missing = {other for other in missing if not store.check([f"{prefix}/{other}"])}
        if missing and time.monotonic() > deadline:
            raise RuntimeError(f"{len(missing)} of {size} have not come")
    return prefix


@contextmanager
def _as_lost_process() -> Iterator[None]:
    """Turn the RuntimeError that torch.distributed raises when a process is gone into a LostProcessError."""
    try:
        yield
    except RuntimeError as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        kept = "what was saved before is kept, continue it with --resume"
        raise LostProcessError(f"another process of this run has ended ({reason}); {kept}") from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
