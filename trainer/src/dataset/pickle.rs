//! The few Python pickles that data sets are published in: dictionaries of numbers, texts, lists and one byte array.
//!
//! Nothing is ever run: objects other than `numpy.ndarray` stay opaque. The opcodes are those of the Python library's
//! `pickletools` that cPickle (protocol 2) and Python 3 (protocols 2 to 4) write for such dictionaries. Byte strings
//! stay slices of the file; the numbers of values and of containers are bounded.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Most values in a file; CIFAR-100's training part has about 200,000.
const MOST_VALUES: usize = 2_000_000;
/// Most containers in a file, which also bounds how deeply they lie in each other.
const MOST_CONTAINERS: usize = 512;

/// Why a pickle could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PickleError {
    /// It ends before its STOP.
    #[error("the file is cut off")]
    Short,
    /// Something that these data sets do not use.
    #[error("this is no pickle of a data set (code {code:#04x} at byte {at})")]
    Code {
        /// The opcode.
        code: u8,
        /// Where it stands.
        at: usize,
    },
    /// More values than any of these data sets has.
    #[error("the pickle holds more values than a data set has")]
    Large,
    /// A key of the dictionary is missing, or its value is of another type or length.
    #[error("\"{key}\" is missing or is not {expected}")]
    Key {
        /// The key.
        key: &'static str,
        /// What should be there.
        expected: String,
    },
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Int(i64),
    /// Bytes or text.
    Bytes(&'a [u8]),
    List(Vec<Value<'a>>),
    Tuple(Rc<[Value<'a>]>),
    Dict(Vec<(Value<'a>, Value<'a>)>),
    /// Name of a class or function.
    Global(Rc<[&'a [u8]; 2]>),
    /// A `numpy.ndarray` whose contents come with the next BUILD.
    NewArray,
    /// A `numpy.ndarray`: its shape, and its elements in C order.
    Array(Rc<[usize]>, &'a [u8]),
    /// What does not matter here.
    Opaque,
}

impl<'a> Value<'a> {
    /// The value of a dictionary's key, whether that is bytes or text.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        let Self::Dict(items) = self else { return None };
        items
            .iter()
            .find(|(name, _)| matches!(name, Self::Bytes(bytes) if *bytes == key.as_bytes()))
            .map(|(_, value)| value)
    }

    /// The whole numbers of a list.
    pub fn numbers(&self) -> Option<Vec<i64>> {
        let Self::List(items) = self else { return None };
        items.iter().map(|item| if let Self::Int(number) = item { Some(*number) } else { None }).collect()
    }

    /// The texts of a list.
    pub fn texts(&self) -> Option<Vec<String>> {
        let Self::List(items) = self else { return None };
        let text =
            |item: &Self| if let Self::Bytes(text) = item { String::from_utf8(text.to_vec()).ok() } else { None };
        items.iter().map(text).collect()
    }
}

/// Reads one pickle.
pub(super) fn read(bytes: &[u8]) -> Result<Value<'_>, PickleError> {
    let mut reader =
        Reader { bytes, at: 0, stack: Vec::new(), marks: Vec::new(), memo: BTreeMap::new(), values: 0, containers: 0 };
    while let Some(code) = reader.step()? {
        reader.values += 1;
        if reader.values > MOST_VALUES || reader.containers > MOST_CONTAINERS {
            return Err(PickleError::Large);
        }
        reader.apply(code)?;
    }
    reader.pop()
}

/// The machine that a pickle is a program for.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value<'a>>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: BTreeMap<u32, Value<'a>>,
    values: usize,
    containers: usize,
}

impl<'a> Reader<'a> {
    /// The next opcode, nothing at STOP.
    fn step(&mut self) -> Result<Option<u8>, PickleError> {
        let code = self.take(1)?[0];
        Ok((code != b'.').then_some(code))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], PickleError> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..count)).ok_or(PickleError::Short)?;
        self.at += count;
        Ok(taken)
    }

    fn number(&mut self, width: usize) -> Result<u64, PickleError> {
        Ok(self.take(width)?.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    fn line(&mut self) -> Result<&'a [u8], PickleError> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n').ok_or(PickleError::Short)?;
        self.at += end + 1;
        Ok(&rest[..end])
    }

    fn wrong(&self, code: u8) -> PickleError {
        PickleError::Code { code, at: self.at.saturating_sub(1) }
    }

    fn pop(&mut self) -> Result<Value<'a>, PickleError> {
        self.stack.pop().ok_or(PickleError::Short)
    }

    fn push(&mut self, value: Value<'a>) {
        self.stack.push(value);
    }

    /// Everything above the last mark.
    fn since_mark(&mut self) -> Result<Vec<Value<'a>>, PickleError> {
        let mark = self.marks.pop().filter(|&mark| mark <= self.stack.len()).ok_or(PickleError::Short)?;
        Ok(self.stack.split_off(mark))
    }

    fn bytes_of(&mut self, width: usize) -> Result<(), PickleError> {
        let length = usize::try_from(self.number(width)?).map_err(|_| PickleError::Short)?;
        let bytes = self.take(length)?;
        self.push(Value::Bytes(bytes));
        Ok(())
    }

    fn remember(&mut self, index: u64) -> Result<(), PickleError> {
        // A list or dictionary may still grow after it is remembered; none of these files asks for one again.
        let value = match self.stack.last().ok_or(PickleError::Short)? {
            Value::List(_) | Value::Dict(_) => Value::Opaque,
            other => other.clone(),
        };
        self.memo.insert(index as u32, value);
        Ok(())
    }

    fn recall(&mut self, index: u64, code: u8) -> Result<(), PickleError> {
        let value = self.memo.get(&(index as u32)).cloned().ok_or(self.wrong(code))?;
        self.push(value);
        Ok(())
    }

    fn tuple(&mut self, items: Vec<Value<'a>>) {
        self.containers += 1;
        self.push(Value::Tuple(items.into()));
    }

    fn apply(&mut self, code: u8) -> Result<(), PickleError> {
        match code {
            0x80 => drop(self.take(1)?),                    // PROTO
            0x95 => drop(self.take(8)?),                    // FRAME
            b'(' => self.marks.push(self.stack.len()),      // MARK
            b'0' => drop(self.pop()?),                      // POP
            b'N' | 0x88 | 0x89 => self.push(Value::Opaque), // NONE, NEWTRUE, NEWFALSE
            b'K' | b'M' => {
                let number = self.number(if code == b'K' { 1 } else { 2 })?; // BININT1, BININT2
                self.push(Value::Int(number as i64));
            }
            b'J' => {
                let number = self.number(4)? as u32 as i32; // BININT
                self.push(Value::Int(i64::from(number)));
            }
            0x8a => {
                let length = self.number(1)? as usize; // LONG1
                let number = if length <= 8 { self.number(length)? } else { return Err(self.wrong(code)) };
                let unused = 64 - 8 * length as u32;
                let signed = if length == 0 { 0 } else { ((number << unused) as i64) >> unused };
                self.push(Value::Int(signed));
            }
            b'U' | b'C' | 0x8c => self.bytes_of(1)?, // SHORT_BINSTRING, SHORT_BINBYTES, SHORT_BINUNICODE
            b'T' | b'B' | b'X' => self.bytes_of(4)?, // BINSTRING, BINBYTES, BINUNICODE
            0x8d | 0x8e => self.bytes_of(8)?,        // BINUNICODE8, BINBYTES8
            b']' | b'}' => {
                self.containers += 1; // EMPTY_LIST, EMPTY_DICT
                self.push(if code == b']' { Value::List(Vec::new()) } else { Value::Dict(Vec::new()) });
            }
            b')' => self.tuple(Vec::new()), // EMPTY_TUPLE
            b't' => {
                let items = self.since_mark()?; // TUPLE
                self.tuple(items);
            }
            0x85..=0x87 => {
                let start = self.stack.len().checked_sub(usize::from(code - 0x84)).ok_or(PickleError::Short)?;
                let items = self.stack.split_off(start); // TUPLE1, TUPLE2, TUPLE3
                self.tuple(items);
            }
            b'a' | b'e' => {
                let items = if code == b'a' { vec![self.pop()?] } else { self.since_mark()? }; // APPEND, APPENDS
                let Some(Value::List(list)) = self.stack.last_mut() else { return Err(self.wrong(code)) };
                list.extend(items);
            }
            b's' | b'u' => {
                let mut items = if code == b'u' { self.since_mark()? } else { vec![] }; // SETITEM, SETITEMS
                if code == b's' {
                    let value = self.pop()?;
                    items = vec![self.pop()?, value];
                }
                let Some(Value::Dict(dict)) = self.stack.last_mut() else { return Err(self.wrong(code)) };
                let mut items = items.into_iter();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    dict.push((key, value));
                }
            }
            b'q' | b'r' => {
                let index = self.number(if code == b'q' { 1 } else { 4 })?; // BINPUT, LONG_BINPUT
                self.remember(index)?;
            }
            0x94 => self.remember(self.memo.len() as u64)?, // MEMOIZE
            b'h' | b'j' => {
                let index = self.number(if code == b'h' { 1 } else { 4 })?; // BINGET, LONG_BINGET
                self.recall(index, code)?;
            }
            b'c' => {
                let names = [self.line()?, self.line()?]; // GLOBAL
                self.push(Value::Global(Rc::new(names)));
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?); // STACK_GLOBAL
                let (Value::Bytes(module), Value::Bytes(name)) = (module, name) else { return Err(self.wrong(code)) };
                self.push(Value::Global(Rc::new([module, name])));
            }
            b'R' => {
                let _arguments = self.pop()?; // REDUCE
                let made = match self.pop()? {
                    Value::Global(names) if names[1] == b"_reconstruct" => Value::NewArray,
                    Value::Global(_) => Value::Opaque,
                    _ => return Err(self.wrong(code)),
                };
                self.push(made);
            }
            b'b' => {
                let state = self.pop()?; // BUILD
                if let Value::NewArray = self.pop()? {
                    let array = array(&state).ok_or(self.wrong(code))?;
                    self.push(array);
                } else {
                    self.push(Value::Opaque);
                }
            }
            _ => return Err(self.wrong(code)),
        }
        Ok(())
    }
}

/// The array of an ndarray's state: (version, shape, type, whether in Fortran order, bytes).
fn array<'a>(state: &Value<'a>) -> Option<Value<'a>> {
    let Value::Tuple(items) = state else { return None };
    let [_, Value::Tuple(shape), _, _, Value::Bytes(bytes)] = &**items else { return None };
    let side = |item: &Value<'_>| if let Value::Int(side) = item { usize::try_from(*side).ok() } else { None };
    let shape: Option<Rc<[usize]>> = shape.iter().map(side).collect();
    Some(Value::Array(shape?, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_protocols_are_read() {
        // pickle.dumps({"a": [1, 300, -2], b"b": ("x", None)}, protocol=4), made with Python 3.
        let bytes = b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01M,\x01J\xfe\xff\xff\xffeC\x01b\x94\x8c\x01x\x94N\x86\x94u.";
        let value = read(bytes).unwrap();
        assert_eq!(value.get("a").unwrap().numbers(), Some(vec![1, 300, -2]));
        assert!(matches!(value.get("b"), Some(Value::Tuple(items)) if items.len() == 2));
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "cut off after {end}");
        }
    }

    #[test]
    fn hostile_pickles_are_refused() {
        assert_eq!(read(b"\x80\x02.").unwrap_err(), PickleError::Short);
        assert!(matches!(read(b"\x80\x02Q."), Err(PickleError::Code { code: b'Q', at: 2 })));
        let deep = [b"N".as_slice(), &[0x85].repeat(100_000), b"."].concat();
        assert_eq!(read(&deep).unwrap_err(), PickleError::Large);
        assert_eq!(read(b"B\xff\xff\xff\xffabc.").unwrap_err(), PickleError::Short);
        assert!(read(b"cos\nsystem\nU\x02ls\x85R.").is_ok_and(|value| matches!(value, Value::Opaque)), "nothing runs");
    }
}
