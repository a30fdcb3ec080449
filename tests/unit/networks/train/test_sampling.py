import numpy as np
import pytest
import torch
from scipy.stats import binom
from worlds.samples import numbered

from codebound.run.errors import UsageError
from codebound.sample.dataset import Sample, Scaling
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.updates import Epoch, shift_images, shuffle_labels

LEVEL = 1e-9


def labelled(n: int) -> Sample:
    return numbered(n, classes=10)


def implausible(count: int, n: int, p: float) -> bool:
    """A binomial count so far out that it cannot be chance."""
    return min(binom.cdf(count, n, p), binom.sf(count - 1, n, p)) < LEVEL


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_the_stated_fraction_of_labels_is_redrawn_uniformly(fraction):
    sample = labelled(20_000)
    shuffled = shuffle_labels(sample, fraction, seed=1)
    redrawn = round(fraction * sample.n)
    changed = int((shuffled.y != sample.y).sum())
    assert not implausible(changed, redrawn, 0.9) if redrawn else changed == 0
    for count in np.bincount(shuffled.y[shuffled.y != sample.y], minlength=10) if redrawn else ():
        assert not implausible(int(count), redrawn, 0.09)


def test_the_statistics_have_teeth():
    sample = labelled(20_000)
    permuted_classes = (sample.y + 1) % 10
    assert implausible(int((permuted_classes != sample.y).sum()), sample.n, 0.9)
    too_few = shuffle_labels(sample, 0.97, seed=1)
    assert implausible(int((too_few.y != sample.y).sum()), sample.n, 0.9)


def test_fully_shuffled_labels_do_not_depend_on_the_true_ones():
    sample = labelled(500)
    other = Sample("other", "train", sample.x, np.zeros(500, dtype=np.int64), 10)
    assert np.array_equal(shuffle_labels(sample, 1.0, seed=0).y, shuffle_labels(other, 1.0, seed=0).y)


def test_shuffling_follows_the_seed_and_leaves_the_original_alone():
    sample = labelled(500)
    before = sample.y.copy()
    first = shuffle_labels(sample, 1.0, seed=0)
    assert np.array_equal(first.y, shuffle_labels(sample, 1.0, seed=0).y)
    assert not np.array_equal(first.y, shuffle_labels(sample, 1.0, seed=1).y)
    assert np.array_equal(sample.y, before)
    with pytest.raises(UsageError, match="fraction"):
        shuffle_labels(sample, 1.5, seed=0)


@pytest.mark.parametrize(
    ("n", "batch_size", "sizes"),
    [(10, 4, [4, 4, 2]), (9, 4, [4, 5]), (8, 4, [4, 4]), (3, 4, [3]), (1, 4, [1]), (3, 1, [1, 1, 1])],
)
def test_every_example_is_seen_once_and_none_alone_in_the_last_batch(n, batch_size, sizes):
    data = labelled(n).on("cpu")
    plan = Epoch.draw(data, TrainConfig(batch_size=batch_size), epoch=0)
    batches = [picks.batch(data, torch.float32) for picks in plan.picks()]
    assert [len(y) for _, y in batches] == sizes == plan.sizes
    seen = torch.cat([x[:, 0] for x, _ in batches])
    assert sorted(seen.tolist()) == list(range(n))
    assert torch.equal(torch.cat([y for _, y in batches]), seen.long() % 10)


def test_the_order_follows_seed_and_epoch_alone():
    data = labelled(100).on("cpu")
    torch.manual_seed(0)
    first = Epoch.draw(data, TrainConfig(), epoch=3).order
    torch.manual_seed(1)
    assert torch.equal(Epoch.draw(data, TrainConfig(), epoch=3).order, first)
    assert not torch.equal(Epoch.draw(data, TrainConfig(), epoch=4).order, first)
    assert not torch.equal(Epoch.draw(data, TrainConfig(seed=1), epoch=3).order, first)


def shifted_by_hand(image, row, column, mirrored):
    channels, height, width = image.shape
    padded = np.zeros((channels, height + 8, width + 8), dtype=image.dtype)
    padded[:, 4 : 4 + height, 4 : 4 + width] = image
    cut = padded[:, row : row + height, column : column + width]
    return cut[:, :, ::-1] if mirrored else cut


def test_shifted_images_are_those_cut_by_hand():
    images = np.random.default_rng(0).integers(0, 256, size=(40, 3, 6, 5), dtype=np.uint8)
    shifts = np.random.default_rng(1).integers(0, [9, 9, 2], size=(40, 3))
    moved = shift_images(torch.from_numpy(images), torch.from_numpy(shifts))
    by_hand = np.stack([shifted_by_hand(image, *shift) for image, shift in zip(images, shifts, strict=True)])
    assert moved.dtype == torch.uint8
    assert np.array_equal(moved.numpy(), by_hand)
    assert not np.array_equal(by_hand, images)


@pytest.mark.parametrize(("augment", "mirrors"), [("crop", {0}), ("flip-crop", {0, 1})])
def test_augmentation_draws_all_shifts_before_scaling(augment, mirrors):
    x = np.full((600, 1, 4, 4), 255, dtype=np.uint8)
    data = Sample("white", "train", x, np.zeros(600, dtype=np.int64), 2, Scaling(255.0, (0.5,), (0.5,))).on(
        "cpu"
    )
    plan = Epoch.draw(data, TrainConfig(augment=augment), epoch=0)
    assert plan.shifts is not None
    assert set(plan.shifts[:, 2].tolist()) == mirrors
    assert set(plan.shifts[:, 0].tolist()) == set(range(9)) == set(plan.shifts[:, 1].tolist())
    values = torch.cat([picks.batch(data, torch.float32)[0] for picks in plan.picks()]).unique()
    assert values.tolist() == [-1.0, 1.0]  # padding is the stored zero, scaled like every pixel
