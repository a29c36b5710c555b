"""Exports backbones of other makers by both exporters of PyTorch, with random weights, and what PyTorch computes of a few
pictures, for `cargo test -p orco-tests --test it backbone_matrix`:

    python3 -m pip install torch torchvision timm onnx onnxscript
    python3 tests/backbones/export.py FOLDER

Every backbone gets a folder: `EXPORTER.onnx` for each exporter that can write it, else `EXPORTER.txt` with its reason;
`images.f32` `[5, 3, side, side]`, `features.f32` `[5, features]`, and `sizes.json`.
"""

import contextlib
import io
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import timm
import torch
import torch.nn as nn
import torchvision.models as vision

IMAGES = 5


def without(network, *layers):
    """A classifier without its last layer."""
    for layer in layers:
        setattr(network, layer, nn.Identity())
    return network


def with_random_norms(network):
    """Norms as after a training: with means and variances of their own."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.running_mean, -0.3, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
        # What starts at nothing would hide a wrong layer.
        for name, parameter in module.named_parameters(recurse=False):
            if "gamma" in name or "layer_scale" in name:
                nn.init.uniform_(parameter, 0.5, 1.5)
    return network.eval()


def dinov2():
    """ViT-S/14 in DINOv2's layout: a class token, layer scale, a GELU, pictures of 14 x 14 patches."""
    return timm.create_model("vit_small_patch14_dinov2", pretrained=False, num_classes=0, img_size=224)


BACKBONES = {
    "resnet18": (lambda: without(vision.resnet18(), "fc"), 224),
    "regnet_y_400mf": (lambda: without(vision.regnet_y_400mf(), "fc"), 224),
    "mobilenet_v3_small": (lambda: without(vision.mobilenet_v3_small(), "classifier"), 224),
    "efficientnet_b0": (lambda: without(vision.efficientnet_b0(), "classifier"), 224),
    "convnext_tiny": (lambda: without(vision.convnext_tiny(), "classifier"), 224),
    "swin_t": (lambda: without(vision.swin_t(), "head"), 224),
    "vit_b_32": (lambda: without(vision.vit_b_32(), "heads"), 224),
    "dinov2_vit_s14": (dinov2, 224),
}


class Rows(nn.Module):
    """A feature vector for each picture."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, images):
        return self.network(images).flatten(1)


def export(network, images, path, is_new):
    """Nothing is set but a batch of any size."""
    if is_new:
        batch = ({0: torch.export.Dim("n")},)
        torch.onnx.export(network, (images,), path, dynamo=True, verbose=False, external_data=False, dynamic_shapes=batch)
    else:
        open_sides = {"images": {0: "n"}, "features": {0: "n"}}
        torch.onnx.export(network, images, path, dynamo=False, opset_version=17, input_names=["images"],
                          output_names=["features"], dynamic_axes=open_sides)


def main(folder):
    torch.manual_seed(7)
    # The old exporter does not know PyTorch's fast path of attention.
    torch.backends.mha.set_fastpath_enabled(False)
    for name, (make, side) in BACKBONES.items():
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        network = Rows(with_random_norms(make())).eval()
        images = torch.rand(IMAGES, 3, side, side)
        features = network(images)
        images.numpy().astype("<f4").tofile(place / "images.f32")
        features.numpy().astype("<f4").tofile(place / "features.f32")
        parameters = sum(parameter.numel() for parameter in network.parameters())
        sizes = {"side": side, "features": features.shape[1], "parameters": parameters}
        (place / "sizes.json").write_text(json.dumps(sizes) + "\n")
        for exporter, is_new in (("legacy", False), ("dynamo", True)):
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    export(network, images[:2], place / f"{exporter}.onnx", is_new)
                print(f"{name} {exporter}: written", flush=True)
            except Exception as error:  # noqa: BLE001: the reason is part of the table
                (place / f"{exporter}.onnx").unlink(missing_ok=True)
                (place / f"{exporter}.txt").write_text(str(error).strip().splitlines()[0] + "\n")
                print(f"{name} {exporter}: cannot be written", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    with torch.no_grad():
        main(Path(sys.argv[1]))
