"""The training step of main.rs written in PyTorch on the same shapes. Arguments: threads, steps in a turn, and how many
of these do not count. For every line of input it takes a turn and prints the median seconds of a step."""

import statistics
import sys
import time

import torch
import torch.nn.functional as F

INPUTS, HIDDEN, OUTPUTS, BATCH, BASE, CLASSES = 640, 2048, 128, 64, 60, 100
TEMPERATURE = 0.07


def contrast(rows, labels):
    similarity = rows @ rows.T / TEMPERATURE
    itself = torch.eye(len(rows), dtype=torch.bool)
    similarity = similarity.masked_fill(itself, -1e9)
    positive = (labels[:, None] == labels[None]) & ~itself
    log_share = similarity - similarity.logsumexp(1, keepdim=True)
    count = positive.sum(1)
    return -(torch.where(positive, log_share, 0.0).sum(1) / count.clamp(min=1))[count > 0].mean()


def orthogonality(z, labels, targets):
    member = F.one_hot(labels, CLASSES).T[BASE:].float()
    present = member.sum(1) > 0
    means = F.normalize(member[present] @ z)
    absent = torch.cat([torch.ones(BASE, dtype=torch.bool), ~present])
    rows = torch.cat([means, targets[absent]])
    return (rows @ rows.T).logsumexp(1).mean()


def main():
    torch.manual_seed(1)
    threads, steps, warm_up = map(int, sys.argv[1:])
    torch.set_num_threads(threads)
    head = torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, OUTPUTS))
    optimiser = torch.optim.SGD(head.parameters(), lr=0.01, momentum=0.9, dampening=0.9, weight_decay=1e-4)
    features = torch.randn(2 * BATCH, INPUTS).relu()
    labels = torch.randint(CLASSES, (BATCH,))
    both = labels.repeat(2)
    incremental = both >= BASE
    targets = F.normalize(torch.randn(CLASSES, OUTPUTS))
    perturbed = F.normalize(torch.randn(2 * BATCH, OUTPUTS))
    perturbed_labels = (BASE + torch.arange(BATCH) % (CLASSES - BASE)).repeat(2)

    def step():
        z = F.normalize(head(features))
        loss = contrast(torch.cat([z, perturbed]), torch.cat([both, perturbed_labels]))
        loss = loss + 0.5 * F.cross_entropy(z[incremental] @ targets.T, both[incremental])
        loss = loss + orthogonality(z[:BATCH], labels, targets)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    for _ in sys.stdin:
        seconds = []
        for _ in range(steps):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        print(statistics.median(seconds[warm_up:]), flush=True)


main()
