"""ⓔ One process among several that train together; everything of torch.distributed is here.

torchrun starts one process a device and tells each by environment variables where the others are. What
is on a CPU goes by gloo, gradients on GPUs by NCCL.
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

# torch.optim brings it in, and the defaults of its functions keep whatever group there is by then: its
# threads would outlive it, and one that lets go of a tensor while Python shuts down aborts the process.
import torch.distributed.nn.functional
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, ProcessGroup, Store
from torch.distributed.rendezvous import rendezvous

from model.errors import ConfigError, LostProcessError, TrainingError
from model.training.distributed import is_among_others
from model.training.distributed.world import ALONE, World
from model.training.run_folder.state import seed_share

_PATIENCE = timedelta(days=30)
"""Others wait while the first process prepares a corpus or saves; a lost one is noticed at once."""
_MEETING = timedelta(minutes=10)
"""How long processes wait for one another at the start, when torchrun has just started them all."""
_GLANCE = 0.05  # seconds between looks at who has come


class _OneOfSeveral(World):
    """A process that torchrun started.

    Args:
        store: What all processes can write to, also after one of them is gone.
        rank: Of this process, from 0.
        size: How many there are, on all machines.
        local_rank: Of this process on this machine, from 0.
    """

    def __init__(self, store: Store, rank: int, size: int, local_rank: int) -> None:
        self.rank = rank
        self.size = size
        self._store = store
        self._local_rank = local_rank
        self._gpus: ProcessGroup | None = None

    def device(self, kind: str) -> torch.device:
        """The device of this process: each on a machine has a GPU of its own.

        Raises:
            ConfigError: If a machine has fewer GPUs than processes.
            TrainingError: If machines have different kinds of devices.
        """
        self.require_same("kind of device", kind)
        if kind != "cuda":
            return torch.device(kind)
        if self.highest(self._local_rank - torch.cuda.device_count()) >= 0:
            raise ConfigError("run.device", "cpu where a machine has fewer GPUs than processes", kind)
        device = torch.device(kind, self._local_rank)
        torch.cuda.set_device(device)
        self._gpus = dist.new_group(backend="nccl", device_id=device)
        return device

    def highest(self, value: int) -> int:
        """The highest of the values that the processes bring."""
        agreed = torch.tensor([value])
        with _noticing_loss():
            dist.all_reduce(agreed, op=dist.ReduceOp.MAX)
        return int(agreed)

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """The first process goes through what is inside before the others."""
        if not self.is_first:
            self.highest(0)
        yield
        if self.is_first:
            self.highest(0)

    def require_same(self, what: str, description: str) -> None:
        """Refuse to go on if the processes do not see the same."""
        digest = int(_digest(description)[:15], 16)
        if self.highest(digest) != -self.highest(-digest):
            raise TrainingError(f"the {self.size} processes of this run do not see the same {what}")

    def copy_from_first(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite tensors with those of the first process."""
        with torch.no_grad(), _noticing_loss():
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
        with _noticing_loss():
            dist.all_reduce(tensor, group=self._group_of(tensor))

    def whole(self, share: Sequence[str | None]) -> list[str | None]:
        """What became of the items that `share` divided: that of all processes, in their order."""
        shares = self._told_by_all(share)
        found: list[str | None] = [None] * sum(map(len, shares))
        for rank, each in enumerate(shares):
            found[rank :: self.size] = each
        return found

    def _told_by_all(self, values: Sequence[str | None]) -> list[list[str | None]]:
        """What each process brings, by rank: as JSON, filled up with spaces to the longest."""
        told = json.dumps(values).encode()
        mine = torch.tensor(list(told.ljust(self.highest(len(told)))), dtype=torch.uint8)
        all_told = [torch.empty_like(mine) for _ in range(self.size)]
        with _noticing_loss():
            dist.all_gather(all_told, mine)
        return [json.loads(bytes(each.tolist())) for each in all_told]

    def _group_of(self, tensor: Tensor) -> ProcessGroup | None:
        return self._gpus if tensor.is_cuda else None

    def seed_update(self, seed: int, step: int) -> None:
        """Seed the generators from the run's seed, this process and the step.

        What a resumed run draws then depends on nothing that would have to be gathered and saved.
        """
        seed_share(seed, self.rank, step)

    def tells(self, error: Exception) -> bool:
        """Whether to tell people: of an error that several have, one does; of a loss, if nothing was told."""
        try:
            told = self._store.add("told", 1)
            if not isinstance(error, LostProcessError):
                told = self._store.add(f"told/{_digest(str(error))}", 1)
        except RuntimeError:  # who kept the store is gone, and perhaps had no time to say why
            return True
        return int(told) == 1

    def leave(self) -> None:
        """Wait for all, and let go of the connections."""
        self.highest(0)
        dist.destroy_process_group()

    def break_off(self) -> None:
        """Let go of the connections at once, whatever is on its way."""
        if self._gpus is not None:
            self._gpus.abort()
        dist.destroy_process_group()


@contextmanager
def joined() -> Iterator[World]:
    """The world of this process while it is needed: alone, unless torchrun started it among others."""
    if not is_among_others():
        yield ALONE
        return
    world = _meet()
    try:
        yield world
        world.leave()
    except BaseException:
        world.break_off()
        raise


def _meet() -> _OneOfSeveral:
    place = ":".join(os.environ.get(name, "?") for name in ("MASTER_ADDR", "MASTER_PORT"))
    try:
        store, rank, size = next(iter(rendezvous("env://", timeout=_MEETING)))
        store = PrefixStore(meeting_name(store, rank, size), store)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:  # ValueError: an environment that is not complete
        raise TrainingError(f"the processes of this run cannot meet at {place}: {error}") from error
    return _OneOfSeveral(store, rank, size, int(os.environ.get("LOCAL_RANK", "0")))


def meeting_name(store: Store, rank: int, size: int) -> str:
    """A name that the processes of this start have in common, and those of no start before.

    The store keeps what processes wrote that torchrun has replaced by these, and each machine counts its
    restarts by itself. So each process asks for the name by a word that was never used, and only who runs now
    can answer that: the first.

    Args:
        store: What all of them can write to.
        rank: Of this process.
        size: How many there are.

    Raises:
        RuntimeError: If somebody has not come within ten minutes.
    """
    if rank > 0:
        word = uuid.uuid4().hex
        store.set(f"question/{rank}", word)
        name = store.get(f"answer/{word}").decode()
        store.set(f"{name}/{rank}", "")
        return name
    name, missing = uuid.uuid4().hex, set(range(1, size))
    deadline = time.monotonic() + _MEETING.total_seconds()
    while missing:
        time.sleep(_GLANCE)
        for other in missing:
            if store.check([f"question/{other}"]):
                store.set(f"answer/{store.get(f'question/{other}').decode()}", name)
        missing = {other for other in missing if not store.check([f"{name}/{other}"])}
        if missing and time.monotonic() > deadline:
            raise RuntimeError(f"{len(missing)} of {size} have not come")
    return name


@contextmanager
def _noticing_loss() -> Iterator[None]:
    """torch.distributed raises a plain RuntimeError where a peer is gone, and where its own work failed."""
    try:
        yield
    except RuntimeError as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        kept = "what was saved before is kept, continue it with --resume"
        raise LostProcessError(f"another process of this run has ended ({reason}); {kept}") from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
