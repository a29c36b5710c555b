//! ONNX Runtime's shared library as a file: where it is, and whether it may be loaded. A truncated library kills the
//! process with SIGBUS once it is mapped, and a pipe never ends; so the file is checked before it is loaded.

use std::env;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

#[cfg(any(target_os = "linux", target_os = "android"))]
use object::read::elf::{FileHeader, ProgramHeader};
#[cfg(any(target_os = "linux", target_os = "android"))]
use object::{Endianness, FileKind, ReadCache, ReadRef, elf};
use orco_state::sentence::with_causes;

/// Oldest release that is used, major, minor and patch: older ones read files outside a model's folder.
pub const OLDEST: [u32; 3] = [1, 28, 3];

/// Why a library is not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// None was found.
    #[error(
        "no ONNX Runtime library was found; install release {oldest} or newer (the Python package onnxruntime holds \
         it) and name its file in ORT_DYLIB_PATH",
        oldest = oldest()
    )]
    Missing,
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    /// It is a folder, a pipe or a device.
    #[error("it is not a regular file")]
    NotRegular,
    /// It is no ELF file.
    #[error("it is no shared library")]
    NotElf,
    /// It is an ELF file, but no shared library.
    #[error("it is an ELF file, but no shared library")]
    NotShared,
    /// It was built for another processor.
    #[error("it was built for another processor")]
    OtherProcessor,
    /// Its headers announce more bytes than it has.
    #[error("it was cut short, it has {actual} of at least {expected} bytes; copy it again")]
    CutShort {
        /// Bytes that it should have at least.
        expected: u64,
        /// Bytes that it has.
        actual: u64,
    },
    /// The system's loader refuses it; what it said.
    #[error("it cannot be loaded: {0}")]
    Load(String),
    /// It does not offer ONNX Runtime's C interface.
    #[error("it is not ONNX Runtime")]
    NotOnnxRuntime,
    /// It is older than [`OLDEST`]; its version.
    #[error("it is release {0}, and {oldest} or newer is needed", oldest = oldest())]
    Old(String),
}

/// Where the library lies: `ORT_DYLIB_PATH`, else where a package puts it beside the program (`/usr/lib/orco` for
/// `/usr/bin/orco`), else the newest of at least [`OLDEST`] in the cache that `cargo xtask setup` fills (the order of
/// folders is that of `tests/xtask/src/cache.rs`). Nothing says yet that it can be used.
pub fn locate() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = set("ORT_DYLIB_PATH") {
        return Some(path);
    }
    let name = match () {
        () if cfg!(target_os = "macos") => "libonnxruntime.dylib",
        () if cfg!(windows) => "onnxruntime.dll",
        () => "libonnxruntime.so",
    };
    let program = env::current_exe().ok();
    let packaged = program.and_then(|program| Some(program.parent()?.parent()?.join("lib/orco").join(name)));
    if let Some(path) = packaged.filter(|path| path.is_file()) {
        return Some(path);
    }
    let xdg = || set("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let user = || xdg().or_else(|| Some(env::home_dir()?.join(".cache"))).map(|cache| cache.join("orco"));
    let cache = set("ORCO_CACHE").or_else(user)?;
    let folders = fs::read_dir(cache).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let version = |path: &PathBuf| {
        let version = parse_version(path.file_name()?.to_str()?.strip_prefix("onnxruntime-")?);
        version.filter(|version| version.as_slice() >= OLDEST.as_slice())
    };
    let found = folders.filter_map(|path| Some((version(&path)?, path.join(name)))).filter(|(_, path)| path.is_file());
    found.max().map(|(_, path)| path)
}

/// Checks a file before the system's loader maps it: its kind, and, where libraries are ELF files, that it is a whole
/// one for this processor. Returns its absolute path, which the loader does not search for.
///
/// # Errors
/// [`LibraryError`] if it must not be loaded.
pub fn check(path: &Path) -> Result<PathBuf, LibraryError> {
    let path = fs::canonicalize(path).map_err(LibraryError::Read)?;
    let metadata = fs::metadata(&path).map_err(LibraryError::Read)?;
    if !metadata.is_file() {
        return Err(LibraryError::NotRegular);
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    check_elf(&path, metadata.len())?;
    Ok(path)
}

/// Loads a library that [`check`] has let through, compares its version, which it returns, and asks whether it offers a
/// version of its C interface. It stays loaded.
///
/// # Errors
/// [`LibraryError`] if it cannot be loaded, is not ONNX Runtime, or is too old.
pub fn load(path: &Path, interface: u32) -> Result<String, LibraryError> {
    /// The head of what ONNX Runtime's `OrtGetApiBase` points to; the layout never changes (onnxruntime_c_api.h).
    #[repr(C)]
    struct ApiBase {
        api: Option<unsafe extern "C" fn(u32) -> *const u8>,
        version: Option<unsafe extern "C" fn() -> *const std::ffi::c_char>,
    }
    // SAFETY: the user names this library as one to be run; its constructors run with all rights of the process.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| LibraryError::Load(with_causes(&error)))?;
    // SAFETY: a library with this symbol is ONNX Runtime, which declares it so.
    let base = unsafe { library.get::<unsafe extern "C" fn() -> *const ApiBase>(b"OrtGetApiBase\0") };
    let base = base.map_err(|_| LibraryError::NotOnnxRuntime)?;
    // SAFETY: it takes nothing, and returns a static structure or null; one of its functions returns a static text.
    let (version, api) = unsafe {
        let base = base().as_ref().ok_or(LibraryError::NotOnnxRuntime)?;
        let (Some(api), Some(version)) = (base.api, base.version) else { return Err(LibraryError::NotOnnxRuntime) };
        let text = version();
        if text.is_null() {
            return Err(LibraryError::NotOnnxRuntime);
        }
        (CStr::from_ptr(text).to_string_lossy().into_owned(), api)
    };
    // Its threads, and what it registered to run at the process's end, do not outlive an unloading.
    std::mem::forget(library);
    if parse_version(&version).is_none_or(|version| version.as_slice() < OLDEST.as_slice()) {
        return Err(LibraryError::Old(version));
    }
    // SAFETY: any number may be asked for; null stands for one that is not offered.
    if unsafe { api(interface) }.is_null() { Err(LibraryError::NotOnnxRuntime) } else { Ok(version) }
}

/// [`OLDEST`] as text.
fn oldest() -> String {
    OLDEST.map(|part| part.to_string()).join(".")
}

/// `1.28.3` as numbers; `None` if it is no such text.
fn parse_version(text: &str) -> Option<Vec<u32>> {
    // What follows a release, as in "1.31.0-rc1+5", does not count.
    let release = text.split(['-', '+']).next()?;
    release.split('.').map(|part| part.parse().ok()).collect()
}

/// Checks that a file is a whole ELF library for this program's processor.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn check_elf(path: &Path, length: u64) -> Result<(), LibraryError> {
    let header = read_header(path).map_err(LibraryError::Read)?.ok_or(LibraryError::NotElf)?;
    if header.end > length {
        return Err(LibraryError::CutShort { expected: header.end, actual: length });
    }
    if header.file_type != elf::ET_DYN {
        return Err(LibraryError::NotShared);
    }
    // Where the program cannot look at itself, the system's loader compares.
    let own = env::current_exe().and_then(|program| read_header(&program)).ok().flatten();
    if own.is_some_and(|own| own.machine != header.machine) {
        return Err(LibraryError::OtherProcessor);
    }
    Ok(())
}

/// What an ELF file's headers say.
#[cfg(any(target_os = "linux", target_os = "android"))]
struct LibraryHeader {
    file_type: elf::FileType,
    machine: TargetMachine,
    /// First byte behind everything that the headers name: the segments that are mapped, and the table of sections,
    /// which linkers write last. The file is at least this long.
    end: u64,
}

/// The processor that a library is built for.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Clone, Copy, PartialEq, Eq)]
struct TargetMachine {
    architecture: elf::Machine,
    is_64_bit: bool,
    is_little_endian: bool,
}

/// Reads a file's headers; `None` if it is no ELF file.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn read_header(path: &Path) -> io::Result<Option<LibraryHeader>> {
    let cache = ReadCache::new(File::open(path)?);
    Ok(match FileKind::parse(&cache) {
        Ok(FileKind::Elf32) => parse_header::<elf::FileHeader32<Endianness>>(&cache),
        Ok(FileKind::Elf64) => parse_header::<elf::FileHeader64<Endianness>>(&cache),
        _ => None,
    })
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn parse_header<Header: FileHeader<Endian = Endianness>>(file: &ReadCache<File>) -> Option<LibraryHeader> {
    let header = Header::parse(file).ok()?;
    let order = header.endian().ok()?;
    let table = |start: u64, size: u16, count: u16| start.saturating_add(u64::from(size) * u64::from(count));
    let segments = table(header.e_phoff(order).into(), header.e_phentsize(order), header.e_phnum(order));
    let sections = table(header.e_shoff(order).into(), header.e_shentsize(order), header.e_shnum(order));
    let tables = segments.max(sections);
    let end = match header.program_headers(order, file) {
        Ok(segments) => {
            let mapped = segments.iter().filter(|segment| segment.p_type(order) == elf::PT_LOAD);
            let end = |segment: &Header::ProgramHeader| -> u64 {
                segment.p_offset(order).into().saturating_add(segment.p_filesz(order).into())
            };
            mapped.map(end).fold(tables, u64::max)
        }
        // It lies behind the file's end.
        Err(_) if tables > file.len().ok()? => tables,
        Err(_) => return None,
    };
    let machine = TargetMachine {
        architecture: header.e_machine(order),
        is_64_bit: header.is_class_64(),
        is_little_endian: header.is_little_endian(),
    };
    Some(LibraryHeader { file_type: header.e_type(order), machine, end })
}
