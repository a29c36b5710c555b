"""Asks a service in every way that Triton's client knows. Arguments: address, model, files of pictures.

Prints the labels of the pictures by each way, as JSON.
"""

import json
import sys

import numpy
import tritonclient.http as triton

address, model, *paths = sys.argv[1:]
files = [open(path, "rb").read() for path in paths]
client = triton.InferenceServerClient(address)
assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(model)
version = client.get_model_metadata(model)["versions"][0]
assert client.is_model_ready(model, version)
assert [tensor["name"] for tensor in client.get_model_config(model)["input"]] == ["image", "features"]
assert client.get_model_config(model, version) == client.get_model_config(model)
(entry,) = client.get_model_repository_index()
assert (entry["name"], entry["state"]) == (model, "READY"), entry


def images(some, binary=True):
    """The tensor of some files. JSON cannot hold their bytes: there they stand in Base64."""
    import base64

    elements = some if binary else [base64.b64encode(file) for file in some]
    tensor = triton.InferInput("image", [len(some)], "BYTES")
    tensor.set_data_from_numpy(numpy.array(elements, dtype=numpy.object_), binary_data=binary)
    return [tensor]


def labels(result):
    names = [name.decode() if isinstance(name, bytes) else name for name in result.as_numpy("label")]
    assert len(result.as_numpy("probability")) == len(names) == len(result.as_numpy("known"))
    return names


wanted = [triton.InferRequestedOutput(name, binary_data=False) for name in ("label", "probability", "known")]
ways = {
    "one by one": [labels(client.infer(model, images([file])))[0] for file in files],
    "together": labels(client.infer(model, images(files))),
    "a version": labels(client.infer(model, images(files), model_version=version)),
    "named outputs": labels(client.infer(model, images(files), outputs=wanted)),
    "JSON": labels(client.infer(model, images(files, binary=False), outputs=wanted)),
    "gzip": labels(client.infer(model, images(files), request_compression_algorithm="gzip")),
    "deflate": labels(client.infer(model, images(files), request_compression_algorithm="deflate")),
    "compressed answer": labels(client.infer(model, images(files), response_compression_algorithm="gzip")),
    "async": labels(client.async_infer(model, images(files)).get_result()),
}
(statistics,) = client.get_inference_statistics(model)["model_stats"]
requests = len(ways) - 1 + len(files)
assert statistics["execution_count"] == requests, statistics
assert statistics["inference_count"] == len(files) * len(ways), statistics
try:
    client.infer("another", images(files))
except triton.InferenceServerException as error:
    assert model in str(error), error
else:
    raise AssertionError("another model answers")
try:
    client.infer(model, images(files), outputs=[triton.InferRequestedOutput("probabilities", class_count=2)])
except triton.InferenceServerException as error:
    assert "no classification extension" in str(error), error
else:
    raise AssertionError("class_count is ignored")
print(json.dumps(ways))
