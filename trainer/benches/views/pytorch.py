"""Phase 1 of main.rs written in PyTorch eager. It first prints how many parameters its backbone has with the norms folded
in; then, for every line of its input, it trains some epochs and prints the views per second of the last one.

Arguments: family, precision, width, batch, epochs, steps, classes. With torchrun's variables in the environment it is one
of several ranks, which share every batch by DistributedDataParallel over Gloo; the first one prints.
"""

import math
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.nn.functional
import torch.nn.functional as F
from torch import nn

RANK, RANKS = (int(os.environ.get(name, default)) for name, default in (("RANK", 0), ("WORLD_SIZE", 1)))

FAMILY, PRECISION = sys.argv[1:3]
WIDTH, BATCH, EPOCHS, STEPS, CLASSES = map(int, sys.argv[3:])


class ConvNorm(nn.Sequential):
    def __init__(self, inputs, outputs, kernel, stride=1, groups=1):
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
        )


class Block(nn.Module):
    def __init__(self, inputs, outputs, convs, stride, activation, pool):
        super().__init__()
        sizes = [inputs] + [outputs] * convs
        self.convs = nn.ModuleList(ConvNorm(a, b, 3, stride if i == 0 else 1) for i, (a, b) in enumerate(zip(sizes, sizes[1:])))
        self.shortcut = ConvNorm(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs or pool else nn.Identity()
        self.activation, self.pool = activation, nn.MaxPool2d(2) if pool else nn.Identity()

    def forward(self, x):
        y = x
        for i, conv in enumerate(self.convs):
            y = conv(y)
            if i + 1 < len(self.convs):
                y = self.activation(y)
        y += self.shortcut(x)
        return self.pool(self.activation(y))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, expansion, stride):
        super().__init__()
        hidden = inputs * expansion
        expand = [ConvNorm(inputs, hidden, 1), nn.ReLU6(inplace=True)] if expansion > 1 else []
        depthwise = [ConvNorm(hidden, hidden, 3, stride, groups=hidden), nn.ReLU6(inplace=True)]
        self.layers = nn.Sequential(*expand, *depthwise, ConvNorm(hidden, outputs, 1))
        self.identity = stride == 1 and inputs == outputs

    def forward(self, x):
        y = self.layers(x)
        return y.add_(x) if self.identity else y


def divisible(channels):
    nearest = max(int(channels + 4) // 8 * 8, 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


def mobilenetv2():
    """Of multiplier WIDTH / 32, for images of 32 pixels: the stem and the second stage keep their size."""
    channels = divisible(WIDTH)
    layers = [ConvNorm(3, channels, 3), nn.ReLU6(inplace=True)]
    stages = [(1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expansion, full, count, stride in stages:
        outputs = divisible(full * WIDTH / 32)
        for block in range(count):
            layers.append(InvertedResidual(channels, outputs, expansion, 1 if block else stride))
            channels = outputs
    features = divisible(1280 * WIDTH / 32)
    return nn.Sequential(*layers, ConvNorm(channels, features, 1), nn.ReLU6(inplace=True)), features


def backbone():
    if FAMILY == "mobilenetv2":
        return mobilenetv2()
    if FAMILY == "resnet12":
        widths, activation = [WIDTH, WIDTH * 5 // 2, WIDTH * 5, WIDTH * 10], nn.LeakyReLU(0.1, inplace=True)
        blocks = [Block(a, b, 3, 1, activation, True) for a, b in zip([3] + widths, widths)]
        return nn.Sequential(*blocks), widths[-1]
    layers, channels = [ConvNorm(3, WIDTH, 3), nn.ReLU(inplace=True)], WIDTH
    for stage in range(4):
        for block in range(2):
            outputs = WIDTH << stage
            layers.append(Block(channels, outputs, 2, 2 if stage and not block else 1, nn.ReLU(inplace=True), False))
            channels = outputs
    return nn.Sequential(*layers), channels


def uniform(n, low, high):
    return torch.rand(n, 1, 1, 1) * (high - low) + low


def luminance(x):
    return x[:, :1] * 0.299 + x[:, 1:2] * 0.587 + x[:, 2:] * 0.114


def view(x):
    n = len(x)
    area, ratio = uniform(n, 0.35, 1), uniform(n, math.log(3 / 4), math.log(4 / 3)).exp()
    width, height = (area * ratio).sqrt().clamp(0, 1), (area / ratio).sqrt().clamp(0, 1)
    sign, zero = (uniform(n, 0, 1) < 0.5).float() * 2 - 1, torch.zeros_like(area)
    shift_x, shift_y = uniform(n, -1, 1) * (1 - width), uniform(n, -1, 1) * (1 - height)
    affine = torch.cat([width * sign, zero, shift_x, zero, height, shift_y], 1).view(n, 2, 3)
    x = F.grid_sample(x, F.affine_grid(affine, x.shape, align_corners=False), padding_mode="border", align_corners=False)
    bright = (x * uniform(n, 0.6, 1.4)).clamp(0, 1)
    mean = luminance(bright).mean((2, 3), keepdim=True)
    contrast = ((bright - mean) * uniform(n, 0.6, 1.4) + mean).clamp(0, 1)
    grey = luminance(contrast)
    saturated = ((contrast - grey) * uniform(n, 0.6, 1.4) + grey).clamp(0, 1)
    x = torch.where(uniform(n, 0, 1) < 0.5, saturated, x)
    return torch.where(uniform(n, 0, 1) < 0.1, luminance(x).expand_as(x), x)


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        network, features = backbone()
        self.network = network.to(memory_format=torch.channels_last)
        self.head = nn.Sequential(nn.Linear(features, 2048), nn.ReLU(), nn.Linear(2048, 128))
        self.classifier = nn.Linear(features, CLASSES)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=PRECISION == "bf16"):
            f = self.network(x.contiguous(memory_format=torch.channels_last)).float().mean((2, 3))
        return self.classifier(f), self.head(f)


def of_all(rows):
    return torch.cat(dist.nn.functional.all_gather(rows)) if RANKS > 1 else rows


def contrast(z, labels):
    z = of_all(F.normalize(z))
    itself = torch.eye(len(z), dtype=torch.bool)
    similarity = (z @ z.T / 0.2).masked_fill(itself, -1e9)
    positive = (labels[:, None] == labels[None]) & ~itself
    hits = similarity.masked_fill(~positive, -1e9).logsumexp(1)
    counts = positive.any(1).float()
    return ((similarity.logsumexp(1) - hits) * counts).sum() / counts.sum().clamp(min=1)


def main():
    torch.manual_seed(1)
    whole = Whole()
    folded = [m.weight.numel() for m in whole.network.modules() if isinstance(m, (nn.Conv2d, nn.BatchNorm2d))]
    if RANK == 0:
        print(sum(folded), flush=True)
    if RANKS > 1:
        dist.init_process_group("gloo")
        whole = nn.parallel.DistributedDataParallel(whole)
    optimiser = torch.optim.SGD(whole.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    pixels = torch.randint(256, (STEPS * BATCH, 3, 32, 32), dtype=torch.uint8)
    labels = torch.randint(CLASSES, (STEPS * BATCH,))
    mean = torch.tensor([0.5071, 0.4865, 0.4409]).view(1, 3, 1, 1)
    deviation = torch.tensor([0.2673, 0.2564, 0.2762]).view(1, 3, 1, 1)
    for _turn in sys.stdin:
        for _epoch in range(EPOCHS):
            # Drawn alike by all ranks.
            order, start = torch.randperm(len(pixels)), time.perf_counter()
            for batch in order.split(BATCH):
                own = batch.chunk(RANKS)[RANK]
                x = (view(pixels[own].float() / 255) - mean) / deviation
                logits, z = whole(x)
                loss = F.cross_entropy(logits, labels[own], label_smoothing=0.1) + 0.5 * contrast(z, labels[batch])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                loss.item()
            rate = len(pixels) / (time.perf_counter() - start)
        if RANK == 0:
            print(rate, flush=True)


main()
