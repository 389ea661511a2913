import pytest
import torch

from model.decoding.pytorch.batch_state import BatchState, SlotRecords, Starts
from model.decoding.pytorch.running_batch import KvAllocator
from model.decoding.pytorch.slot_options import ALL_RANKS, ActiveFeatures, SlotOptions
from model.decoding.sentence import Sentence
from model.network.decoder_state import StepShape
from model.network.transformer import Transformer
from tests.model.decoding.networks import lively_network
from tests.model.decoding.slots import admitted, empty_state
from tests.model.tiny_networks import tiny_network

EVERYTHING = ActiveFeatures(
    beam_search=True,
    independent=True,
    sampling=True,
    ranks=ALL_RANKS,
    prefixes=True,
    suppressed=True,
    min_lengths=True,
    ngrams=True,
    repetition=True,
    coverage=True,
)

DEMANDS = [
    ActiveFeatures(independent=True),
    ActiveFeatures(beam_search=True),
    ActiveFeatures(beam_search=True, phrases=True),
    ActiveFeatures(independent=True, sampling=True, ranks=8),
    EVERYTHING,
]


def state_of(network: Transformer, width: int) -> BatchState:
    return BatchState(network, empty_state(network, slots=4, width=width, capacity=16))


def start(batch_state: BatchState, network: Transformer, sentence: Sentence, slot: int = 0) -> None:
    """Start a sentence; twice, as the copies that fill a bucket do."""
    output = network.encode(torch.tensor([sentence.request.source_ids] * 2))
    slots, state = torch.tensor([slot] * 2), batch_state.decoder_state
    allocated = KvAllocator(sentence.kv_slots).allocate([sentence], state.capacity, state.source_capacity)
    kv_slots = (torch.tensor(each * 2) for each in allocated)
    options = SlotOptions.values([sentence] * 2, torch.device("cpu"))
    batch_state.start(Starts(slots, *kv_slots, output.states_NSM, output.mask_NS, *options))
    batch_state.constrain(slots[:1], [sentence])


def read(batch_state: BatchState, length: int) -> SlotRecords:
    return SlotRecords.unpack(batch_state.records(torch.tensor([0]), length))


@pytest.mark.parametrize(
    ("positions", "width", "features"),
    [
        *(("sinusoidal", width, features) for width in (1, 4) for features in DEMANDS),
        *((positions, 4, EVERYTHING) for positions in ("learned", "relative", "rotary")),
    ],
)
@torch.inference_mode()
def test_every_tensor_of_a_step_is_on_its_device(
    positions: str, width: int, features: ActiveFeatures
) -> None:
    """On PyTorch's `meta` device, a tensor of the CPU fails as on a GPU, and so does reading a number."""
    network = tiny_network(positions=positions).to(device="meta", dtype=torch.bfloat16)
    state_of(network, width).compute(StepShape(3, 8, 8), features)


@pytest.mark.parametrize("shortest", [2, 16])
@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "greedy"},
        {"strategy": "sample", "num_hypotheses": 4, "seed": 3},
        {"beam_size": 4, "coverage_penalty": 0.2, "stop": "first"},
        {"beam_size": 4, "stop": "pool", "no_repeat_ngram_size": 2},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
@torch.inference_mode()
def test_a_complete_slot_stays_as_it_is(options: dict[str, object], shortest: int) -> None:
    """The host learns one step late that a slot is complete, even one that fills its tables."""
    network, sentence = lively_network(3), admitted(length=6, min_length=shortest, max_length=16, **options)
    batch_state = state_of(network, sentence.rows)
    shape = StepShape(1, 16, 16)
    start(batch_state, network, sentence)
    steps = 0
    while batch_state.flags(1).wait()[0, 0] or not steps:
        batch_state.compute(shape, EVERYTHING)
        steps += 1
    before = read(batch_state, 16)
    assert before.lengths == [steps]
    assert (steps == 16) == (shortest == 16)
    for _ in range(3):
        batch_state.compute(shape, EVERYTHING)
    after = read(batch_state, 16)
    assert after.lengths == [steps]
    assert torch.equal(after.search_NKX.nan_to_num(), before.search_NKX.nan_to_num())
    assert torch.equal(after.backpointers_NK3T, before.backpointers_NK3T)
