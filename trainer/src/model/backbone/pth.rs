//! Reads tensors out of a `.pth` file as PyTorch wrote it before its zip format: five pickles in a row (magic number,
//! protocol, machine, a dictionary of tensors, keys of storages), then the storages.
//!
//! Pickle is a language for a machine with a stack, which can call anything. This machine knows the few instructions
//! that a dictionary of tensors is made of, and calls nothing: what else stands in a file is refused.

use std::collections::{BTreeMap, HashMap};

use tch::Tensor;

/// The number that such a file begins with, as its pickle gives it: ten bytes, little endian.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
/// Most that all values made on the way may take, by [`Value::cost`]; far more than the names in any network.
const MAX_COST: usize = 1 << 26;
/// How deep values may lie in each other: a tensor's arguments hold its shape, and nothing holds more.
const DEEPEST: usize = 4;

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PthError {
    /// It does not begin as such a file does.
    #[error("it is no .pth file of the format before PyTorch 1.6; save its tensors as safetensors")]
    Kind,
    /// It ends too early.
    #[error("it is cut off")]
    CutOff,
    /// Something stands in it that is no dictionary of f32 tensors.
    #[error("it holds more than f32 tensors ({0}); save its tensors as safetensors")]
    Content(String),
}

/// Whether bytes begin as such a file does.
pub fn is_pth(bytes: &[u8]) -> bool {
    bytes.get(..5) == Some(&[0x80, 2, 0x8a, 10, MAGIC[0]])
}

/// The f32 tensors of a file by name; tensors of other kinds, such as counters, are passed over.
///
/// # Errors
/// [`PthError`] if the bytes are no such file.
pub fn read(bytes: &[u8]) -> Result<Vec<(String, Tensor)>, PthError> {
    if !is_pth(bytes) {
        return Err(PthError::Kind);
    }
    let mut machine =
        PickleMachine { bytes, at: 0, stack: Vec::new(), marks: Vec::new(), memory: HashMap::new(), left: MAX_COST };
    if machine.run()? != Value::Long(MAGIC.to_vec()) {
        return Err(PthError::Kind);
    }
    // The protocol's number, and what machine wrote the file.
    machine.run()?;
    machine.run()?;
    let Value::Dictionary(entries) = machine.run()? else { return Err(unknown("no dictionary")) };
    let Value::List(keys) = machine.run()? else { return Err(unknown("no list of storages")) };
    let tensors: Vec<(String, TensorValue)> = entries
        .into_iter()
        .filter_map(|(name, value)| match (name, value) {
            (Value::Text(name), Value::Tensor(tensor)) => Some((name, tensor)),
            _ => None,
        })
        .collect();
    let declared: BTreeMap<&str, &Storage> =
        tensors.iter().map(|(_, TensorValue { storage, .. })| (storage.key.as_str(), storage)).collect();
    let mut storages = HashMap::new();
    for key in keys {
        let Value::Text(key) = key else { return Err(unknown("a storage without a name")) };
        let count = u64::from_le_bytes(machine.take(8)?.try_into().expect("eight bytes"));
        let storage = declared.get(key.as_str()).ok_or_else(|| unknown("a storage that no tensor has"))?;
        if count != storage.count as u64 {
            return Err(PthError::CutOff);
        }
        let length = storage.count.checked_mul(storage.width).ok_or(PthError::CutOff)?;
        storages.insert(key, machine.take(length)?);
    }
    let mut read = Vec::new();
    for (name, tensor) in tensors.into_iter().filter(|(_, tensor)| tensor.storage.floats) {
        let bytes = storages.get(&tensor.storage.key).ok_or(PthError::CutOff)?;
        read.push((name, tensor.taken_from(bytes)?));
    }
    Ok(read)
}

fn unknown(what: &str) -> PthError {
    PthError::Content(what.to_owned())
}

/// What stands on the stack.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    None,
    Bool(bool),
    Int(i64),
    Long(Vec<u8>),
    Text(String),
    Tuple(Vec<Value>),
    List(Vec<Value>),
    Dictionary(Vec<(Value, Value)>),
    /// Module and name of something in Python.
    Name(String),
    Storage(Storage),
    Tensor(TensorValue),
}

impl Value {
    /// Bytes that it takes, about. Values can be copied, and copies of copies would grow without bound.
    fn cost(&self) -> usize {
        let own = match self {
            Self::Long(bytes) => bytes.len(),
            Self::Text(text) | Self::Name(text) => text.len(),
            Self::Tuple(values) | Self::List(values) => values.iter().map(Self::cost).sum(),
            Self::Dictionary(entries) => entries.iter().map(|(key, value)| key.cost() + value.cost()).sum(),
            Self::Storage(storage) | Self::Tensor(TensorValue { storage, .. }) => storage.key.len(),
            _ => 0,
        };
        size_of::<Self>() + own
    }

    /// 0 for what holds no other value.
    fn depth(&self) -> usize {
        let deepest = match self {
            Self::Tuple(values) | Self::List(values) => values.iter().map(Self::depth).max(),
            Self::Dictionary(entries) => entries.iter().flat_map(|(key, value)| [key.depth(), value.depth()]).max(),
            _ => return 0,
        };
        1 + deepest.unwrap_or(0)
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Storage {
    key: String,
    count: usize,
    /// Bytes of a number.
    width: usize,
    floats: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct TensorValue {
    storage: Storage,
    offset: usize,
    size: Vec<usize>,
    /// How far apart neighbours along each axis lie: weights that came from TensorFlow do not lie row by row.
    strides: Vec<usize>,
}

impl TensorValue {
    fn taken_from(&self, bytes: &[u8]) -> Result<Tensor, PthError> {
        let mut last = self.offset;
        for (side, stride) in self.size.iter().zip(&self.strides) {
            let reach = side.saturating_sub(1).checked_mul(*stride).ok_or(PthError::CutOff)?;
            last = last.checked_add(reach).ok_or(PthError::CutOff)?;
        }
        let count = self.size.iter().try_fold(1usize, |count, side| count.checked_mul(*side));
        // No published tensor shows a number twice, so none is larger than its storage.
        if last >= self.storage.count || count.is_none_or(|count| count > self.storage.count) {
            return Err(PthError::CutOff);
        }
        let number = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let numbers: Vec<f32> = bytes.chunks_exact(4).map(number).collect();
        let [size, strides] = [&self.size, &self.strides].map(|of| of.iter().map(|n| *n as i64).collect::<Vec<_>>());
        Ok(Tensor::from_slice(&numbers).as_strided(size, strides, self.offset as i64).contiguous())
    }
}

/// A stack machine for one pickle after the other.
struct PickleMachine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memory: HashMap<u32, Value>,
    /// What further values may cost.
    left: usize,
}

impl<'a> PickleMachine<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], PthError> {
        let end = self.at.checked_add(count).ok_or(PthError::CutOff)?;
        let taken = self.bytes.get(self.at..end).ok_or(PthError::CutOff)?;
        self.at = end;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<u64, PthError> {
        Ok(self.take(N)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn line(&mut self) -> Result<String, PthError> {
        let length = self.bytes[self.at..].iter().position(|byte| *byte == b'\n').ok_or(PthError::CutOff)?;
        let line = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.take(1)?;
        Ok(line)
    }

    fn push(&mut self, value: Value) -> Result<(), PthError> {
        self.pay(&value)?;
        self.stack.push(value);
        Ok(())
    }

    fn pay(&mut self, value: &Value) -> Result<(), PthError> {
        let left = self.left.checked_sub(value.cost());
        self.left = left.ok_or_else(|| unknown("more values than any network has"))?;
        Ok(())
    }

    /// Values that go into another one.
    fn shallow(values: Vec<Value>) -> Result<Vec<Value>, PthError> {
        let deep = values.iter().any(|value| value.depth() >= DEEPEST);
        if deep { Err(unknown("values within values")) } else { Ok(values) }
    }

    fn pop(&mut self) -> Result<Value, PthError> {
        self.stack.pop().ok_or_else(|| unknown("an empty stack"))
    }

    fn since_mark(&mut self) -> Result<Vec<Value>, PthError> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len()).ok_or_else(|| unknown("no mark"))?;
        Self::shallow(self.stack.split_off(mark))
    }

    /// Runs to the end of one pickle and returns its value.
    fn run(&mut self) -> Result<Value, PthError> {
        self.stack.clear();
        self.marks.clear();
        self.memory.clear();
        loop {
            match self.take(1)?[0] {
                b'.' => return self.pop(),
                instruction => self.execute(instruction)?,
            }
        }
    }

    /// Carries out one instruction that does not end the pickle.
    fn execute(&mut self, instruction: u8) -> Result<(), PthError> {
        if let Some(value) = self.literal(instruction)? {
            return self.push(value);
        }
        match instruction {
            // PROTO
            0x80 => drop(self.take(1)?),
            b'(' => self.marks.push(self.stack.len()),
            b'q' | b'r' => {
                let slot = if instruction == b'q' { self.number::<1>()? } else { self.number::<4>()? };
                let value = self.stack.last().cloned().ok_or_else(|| unknown("an empty stack"))?;
                self.pay(&value)?;
                self.memory.insert(slot as u32, value);
            }
            b'h' | b'j' => {
                let slot = if instruction == b'h' { self.number::<1>()? } else { self.number::<4>()? };
                let value = self.memory.get(&(slot as u32)).cloned().ok_or_else(|| unknown("no such memory"))?;
                self.push(value)?;
            }
            b't' => {
                let values = self.since_mark()?;
                self.push(Value::Tuple(values))?;
            }
            0x85..=0x87 => {
                let count = usize::from(instruction - 0x84);
                let first = self.stack.len().checked_sub(count).ok_or_else(|| unknown("an empty stack"))?;
                let values = Self::shallow(self.stack.split_off(first))?;
                self.push(Value::Tuple(values))?;
            }
            b'e' => {
                let values = self.since_mark()?;
                let Some(Value::List(list)) = self.stack.last_mut() else { return Err(unknown("no list")) };
                list.extend(values);
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(Self::shallow(vec![key, value])?)?;
            }
            b'u' => {
                let values = self.since_mark()?;
                self.set(values)?;
            }
            b'Q' => {
                let reference = self.pop()?;
                self.push(Value::Storage(storage(reference)?))?;
            }
            b'R' => {
                let (arguments, name) = (self.pop()?, self.pop()?);
                self.push(evaluate_call(&name, arguments)?)?;
            }
            // BUILD: attributes of the dictionary, which name versions of layers.
            b'b' => drop(self.pop()?),
            other => return Err(unknown(&format!("instruction {other:#04x}"))),
        }
        Ok(())
    }

    /// The value that an instruction writes out, in itself or in the bytes behind it; `None` of any other instruction.
    fn literal(&mut self, instruction: u8) -> Result<Option<Value>, PthError> {
        Ok(Some(match instruction {
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b')' => Value::Tuple(Vec::new()),
            b']' => Value::List(Vec::new()),
            b'}' => Value::Dictionary(Vec::new()),
            b'K' => Value::Int(self.number::<1>()? as i64),
            b'M' => Value::Int(self.number::<2>()? as i64),
            b'J' => Value::Int(i64::from(self.number::<4>()? as u32 as i32)),
            // LONG1
            0x8a => {
                let length = self.number::<1>()? as usize;
                Value::Long(self.take(length)?.to_vec())
            }
            b'X' => {
                let length = self.number::<4>()? as usize;
                Value::Text(String::from_utf8_lossy(self.take(length)?).into_owned())
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                Value::Name(format!("{module} {name}"))
            }
            _ => return Ok(None),
        }))
    }

    fn set(&mut self, values: Vec<Value>) -> Result<(), PthError> {
        let Some(Value::Dictionary(entries)) = self.stack.last_mut() else { return Err(unknown("no dictionary")) };
        let mut values = values.into_iter();
        while let (Some(key), Some(value)) = (values.next(), values.next()) {
            entries.push((key, value));
        }
        Ok(())
    }
}

/// The storage that `("storage", kind, key, location, count, view)` names.
fn storage(reference: Value) -> Result<Storage, PthError> {
    let Value::Tuple(parts) = reference else { return Err(unknown("no reference to a storage")) };
    let [_, Value::Name(kind), Value::Text(key), _, Value::Int(count), ..] = &parts[..] else {
        return Err(unknown("no reference to a storage"));
    };
    let width = match kind.as_str() {
        "torch FloatStorage" | "torch IntStorage" => 4,
        "torch LongStorage" | "torch DoubleStorage" => 8,
        other => return Err(unknown(other)),
    };
    let count = usize::try_from(*count).map_err(|_| unknown("a storage of negative length"))?;
    Ok(Storage { key: key.clone(), count, width, floats: kind == "torch FloatStorage" })
}

/// What a call gives of one of the two functions that build a dictionary of tensors. Nothing else is evaluated.
fn evaluate_call(name: &Value, arguments: Value) -> Result<Value, PthError> {
    let (Value::Name(name), Value::Tuple(arguments)) = (name, arguments) else { return Err(unknown("a call")) };
    match (name.as_str(), &arguments[..]) {
        ("collections OrderedDict", []) => Ok(Value::Dictionary(Vec::new())),
        (
            "torch._utils _rebuild_tensor_v2",
            [Value::Storage(storage), Value::Int(offset), Value::Tuple(size), Value::Tuple(strides), ..],
        ) => {
            let whole = |value: &Value| match value {
                Value::Int(number) => usize::try_from(*number).ok(),
                _ => None,
            };
            let sides = |values: &[Value]| values.iter().map(whole).collect::<Option<Vec<usize>>>();
            let (Some(size), Some(strides), Ok(offset)) = (sides(size), sides(strides), usize::try_from(*offset))
            else {
                return Err(unknown("a tensor without a shape"));
            };
            // A convolution has four.
            const DIMENSIONS: usize = 8;
            if size.len() != strides.len() || size.len() > DIMENSIONS {
                return Err(unknown("a tensor without a shape"));
            }
            Ok(Value::Tensor(TensorValue { storage: storage.clone(), offset, size, strides }))
        }
        (other, _) => Err(unknown(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one tensor `[2, 2]` and one counter, as PyTorch 1.4 writes it.
    fn file() -> Vec<u8> {
        let text = |text: &str| [&[b'X'][..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        let storage = |kind: &str, key: &str, count: u8| {
            [
                b"((".as_slice(),
                &text("storage"),
                b"ctorch\n",
                kind.as_bytes(),
                b"\n",
                &text(key),
                &text("cpu"),
                &[b'K', count],
                b"NtQ",
            ]
            .concat()
        };
        let mut bytes = [&[0x80, 2, 0x8a, 10][..], &MAGIC, b"."].concat();
        bytes.extend([0x80, 2, b'M', 0xe9, 3, b'.']);
        bytes.extend([0x80, 2, b'}', b'q', 0, b'.']);
        bytes.extend(b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01(");
        bytes.extend(text("_conv.weight"));
        bytes.extend(b"ctorch._utils\n_rebuild_tensor_v2\nq\x02");
        bytes.extend(storage("FloatStorage", "7", 4));
        bytes.extend(b"K\x00K\x02K\x02\x86K\x01K\x02\x86\x89h\x00)RtR");
        bytes.extend(text("_bn.num_batches_tracked"));
        bytes.extend(b"h\x02");
        bytes.extend(storage("LongStorage", "8", 1));
        bytes.extend(b"K\x00))\x89h\x00)RtRu.");
        bytes.extend([0x80, 2, b']', b'(']);
        bytes.extend(text("7"));
        bytes.extend(text("8"));
        bytes.extend(b"e.");
        bytes.extend(4u64.to_le_bytes());
        [1.0f32, -2.0, 3.5, 0.25].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(9i64.to_le_bytes());
        bytes
    }

    #[test]
    fn tensors_are_read_and_counters_passed_over() {
        let file = file();
        assert!(is_pth(&file) && !is_pth(b"PK"));
        // A zip archive, which PyTorch writes since 1.6.
        assert_eq!(read(b"PK\x03\x04\x00\x00"), Err(PthError::Kind));
        let tensors = read(&file).unwrap();
        assert_eq!(tensors.len(), 1);
        let (name, tensor) = &tensors[0];
        assert_eq!((name.as_str(), tensor.size()), ("_conv.weight", vec![2, 2]));
        assert_eq!(Vec::<f32>::try_from(tensor.view(-1)).unwrap(), [1.0, 3.5, -2.0, 0.25], "it lies column by column");
    }

    #[test]
    fn nothing_is_called_and_no_cut_is_missed() {
        let file = file();
        for length in 0..file.len() {
            assert!(read(&file[..length]).is_err(), "{length} bytes");
        }
        let evil = [&[0x80, 2, 0x8a, 10][..], &MAGIC, b".", b"cos\nsystem\n(X\x02\0\0\0ls\x85R."].concat();
        assert!(matches!(read(&evil), Err(PthError::Content(_))), "{:?}", read(&evil));
        // Doubled thirty times over, and a value in a value in a value: neither memory nor stack may grow with it.
        let doubled: Vec<u8> = (0..30u8).flat_map(|n| [b'q', n, b'h', n, 0x86]).collect();
        for most in [[&b"X\x02\0\0\0ls"[..], &doubled].concat(), [&b")"[..], &[0x85; 1 << 20]].concat()] {
            let large = [&[0x80, 2, 0x8a, 10][..], &MAGIC, b".", &most, b"."].concat();
            assert!(matches!(read(&large), Err(PthError::Content(_))));
        }
        let copied: Vec<u8> = [&b"X\xe8\x03\0\0"[..], &[b'a'; 1000], b"q\x00", &[b'h', 0].repeat(1 << 17)].concat();
        let large = [&[0x80, 2, 0x8a, 10][..], &MAGIC, b".", &copied, b"."].concat();
        assert_eq!(read(&large), Err(unknown("more values than any network has")));
        // Whatever stands in it: an error or tensors, never a panic.
        let mut changed = file.clone();
        for at in 0..file.len() {
            for bit in [0x01, 0x20, 0x80] {
                changed[at] ^= bit;
                let _ = read(&changed);
                changed[at] = file[at];
            }
        }
    }
}
