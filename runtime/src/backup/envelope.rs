//! The envelope of a backup: its checksum, and its signature where it has one.
//!
//! A backup may be larger than memory, so it is read twice: once to be checked, and once to be restored. The second
//! time its bytes are hashed again ([`ArchiveReader`]), so that what is restored is what was checked, whoever writes
//! into the file meanwhile.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use orco_state::codec::{self, DecodeError, FileKind};
use sha2::{Digest, Sha256};

use super::BackupError;
use crate::signature::{self, PublicKey, SignatureError};

/// Bytes of the envelope's start that the checksum covers: magic, version, length.
const START: usize = codec::HEADER - 32;
/// Bytes of the start that a signature covers: magic and version, so that it stands for a backup of one version.
const SIGNED_START: usize = 8 + 2;
/// Bytes of the number that follows the signature and gives its length.
const LENGTH: u64 = 4;
/// Version of the layout that has neither a signature nor the releases that were used.
pub(super) const WITHOUT_SIGNATURE: u16 = 1;
/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;

/// A backup whose length, checksum and, where a key was given, signature are right.
#[derive(Debug)]
pub(super) struct SoundEnvelope {
    /// Version of its layout.
    pub version: u16,
    /// Bytes of the file.
    pub bytes: u64,
    start: [u8; START],
    sum: [u8; 32],
    /// Bytes of the archive.
    archive: u64,
}

/// Leaves room for the header, and returns where the archive is to be written.
pub(super) fn begin(file: &mut File) -> io::Result<BufWriter<&mut File>> {
    file.write_all(&[0; codec::HEADER])?;
    Ok(BufWriter::new(file))
}

/// Signs what was written, where `sign` gives the text of a signature over it, and writes the header; returns the
/// file's length.
pub(super) fn finish(file: &mut File, sign: impl FnOnce(&mut dyn Read) -> io::Result<String>) -> io::Result<u64> {
    let archive = file.seek(SeekFrom::End(0))? - codec::HEADER as u64;
    let version = FileKind::Backup.version();
    let signed_start = [&FileKind::Backup.magic()[..], &version.to_le_bytes()].concat();
    file.seek(SeekFrom::Start(codec::HEADER as u64))?;
    let signature = sign(&mut signed_start.chain(BufReader::new(Read::take(&mut *file, archive))))?;
    file.seek(SeekFrom::End(0))?;
    file.write_all(signature.as_bytes())?;
    file.write_all(&(signature.len() as u32).to_le_bytes())?;
    let length = archive + signature.len() as u64 + LENGTH;
    let start = [&signed_start[..], &length.to_le_bytes()].concat();
    file.seek(SeekFrom::Start(codec::HEADER as u64))?;
    let mut sum = Sha256::new_with_prefix(&start);
    chunks(file, length, &mut |chunk| sum.update(chunk))?;
    file.rewind()?;
    file.write_all(&start)?;
    file.write_all(&sum.finalize())?;
    Ok(codec::HEADER as u64 + length)
}

fn damaged() -> BackupError {
    DecodeError::Checksum.into()
}

/// The header of a file. Only kind and length are checked so far.
struct EnvelopeHeader {
    start: [u8; START],
    version: u16,
    /// Bytes after the header.
    length: u64,
    sum: [u8; 32],
}

impl EnvelopeHeader {
    fn read(file: &mut File) -> Result<Self, BackupError> {
        let bytes = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        let mut header = Vec::with_capacity(codec::HEADER);
        Read::take(&mut *file, codec::HEADER as u64).read_to_end(&mut header)?;
        if !header.starts_with(FileKind::Backup.magic()) {
            return Err(DecodeError::WrongKind.into());
        }
        let (start, sum) = header.split_first_chunk::<START>().ok_or_else(damaged)?;
        let length = u64::from_le_bytes(start[SIGNED_START..].try_into().map_err(|_| damaged())?);
        if bytes.checked_sub(codec::HEADER as u64) != Some(length) {
            return Err(damaged());
        }
        let version = u16::from_le_bytes([start[8], start[9]]);
        Ok(Self { start: *start, version, length, sum: sum.try_into().map_err(|_| damaged())? })
    }
}

/// Compares a file's length, checksum and version with what its start says, and its signature with a key.
///
/// # Errors
/// [`BackupError::Decode`] if it is no sound backup of a version that can be read, [`BackupError::Signature`] if a key
/// is given and it is not signed with it.
pub(super) fn check(file: &mut File, key: Option<&PublicKey>) -> Result<SoundEnvelope, BackupError> {
    let EnvelopeHeader { start, version, length, sum: expected } = EnvelopeHeader::read(file)?;
    // Nothing of what stands at the end is believed before the checksum is right, but it is needed to check both at
    // once.
    let trailer = if version == WITHOUT_SIGNATURE { None } else { trailer(file, length)? };
    let archive = match &trailer {
        Some(signature) => length - signature.len() as u64 - LENGTH,
        None => length,
    };
    let is_laid_out = version == WITHOUT_SIGNATURE || trailer.is_some();
    let signature = trailer.filter(|signature| !signature.is_empty());
    file.seek(SeekFrom::Start(codec::HEADER as u64))?;
    let mut sum = Sha256::new_with_prefix(start);
    let trusted = match key.zip(signature) {
        Some((key, signature)) => {
            let feed = |verify: &mut dyn FnMut(&[u8])| {
                verify(&start[..SIGNED_START]);
                chunks(file, archive, &mut |chunk| {
                    sum.update(chunk);
                    verify(chunk);
                })
            };
            key.check_chunks(&signature, feed)?.map(|_| ())
        }
        None => {
            chunks(file, archive, &mut |chunk| sum.update(chunk))?;
            if key.is_some() { Err(SignatureError::Missing) } else { Ok(()) }
        }
    };
    chunks(file, length - archive, &mut |chunk| sum.update(chunk))?;
    let sum: [u8; 32] = sum.finalize().into();
    if sum != expected {
        return Err(damaged());
    }
    let highest = FileKind::Backup.version();
    if !(WITHOUT_SIGNATURE..=highest).contains(&version) {
        return Err(DecodeError::Version { expected: highest, actual: version }.into());
    }
    if !is_laid_out {
        return Err(DecodeError::Body.into());
    }
    trusted?;
    Ok(SoundEnvelope { version, bytes: codec::HEADER as u64 + length, start, sum, archive })
}

/// The text of the signature at the end of a file; `None` if nothing there can be one.
fn trailer(file: &mut File, length: u64) -> io::Result<Option<String>> {
    let Some(rest) = length.checked_sub(LENGTH) else { return Ok(None) };
    file.seek(SeekFrom::Start(codec::HEADER as u64 + rest))?;
    let mut count = [0; LENGTH as usize];
    file.read_exact(&mut count)?;
    let count = u64::from(u32::from_le_bytes(count));
    if count > signature::MAX_FILE || count > rest {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(codec::HEADER as u64 + rest - count))?;
    let mut text = Vec::new();
    Read::take(&mut *file, count).read_to_end(&mut text)?;
    Ok(String::from_utf8(text).ok())
}

/// Reads `length` bytes, piece by piece.
fn chunks(file: &mut File, length: u64, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut left = length;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        match file.read(&mut buffer[..most]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                each(&buffer[..count]);
                left -= count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The archive of a backup that was checked, to be read once.
pub(super) struct ArchiveReader<'a> {
    archive: io::Take<BufReader<&'a mut File>>,
    sum: Sha256,
    expected: [u8; 32],
}

impl<'a> ArchiveReader<'a> {
    pub(super) fn new(file: &'a mut File, checked: &SoundEnvelope) -> io::Result<Self> {
        file.seek(SeekFrom::Start(codec::HEADER as u64))?;
        let archive = BufReader::new(file).take(checked.archive);
        Ok(Self { archive, sum: Sha256::new_with_prefix(checked.start), expected: checked.sum })
    }

    /// Reads the rest, and makes sure that the whole file is the one that was checked.
    pub(super) fn finish(mut self) -> Result<(), BackupError> {
        io::copy(&mut self, &mut io::sink())?;
        let Self { archive, mut sum, expected } = self;
        let mut end = Vec::new();
        archive.into_inner().take(signature::MAX_FILE + LENGTH + 1).read_to_end(&mut end)?;
        sum.update(&end);
        if sum.finalize()[..] == expected { Ok(()) } else { Err(damaged()) }
    }
}

impl Read for ArchiveReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.archive.read(buffer)?;
        self.sum.update(&buffer[..count]);
        Ok(count)
    }
}
