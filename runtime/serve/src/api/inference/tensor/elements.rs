//! Lists in JSON, whose elements are handed out one by one and counted before they are kept.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Unexpected, Visitor};

/// Takes each element of a list.
pub(super) enum ElementSink<'a> {
    Number(&'a mut dyn FnMut(f64)),
    Text(&'a mut dyn FnMut(&str) -> Result<(), &'static str>),
}

/// Hands the elements of a list over, `most` of them at most, which may lie in lists within each other `depth` deep.
///
/// # Errors
/// If it is no such list, or an element is not of the sink's kind, or refused there.
pub(super) fn read_list(
    json: &str,
    most: usize,
    depth: u32,
    sink: &mut ElementSink<'_>,
) -> Result<(), serde_json::Error> {
    let list = Elements { most, depth, is_within: false, sink };
    list.deserialize(&mut serde_json::Deserializer::from_str(json)).map(|_| ())
}

/// Reads a list of at most `most` elements; an element may be a list in turn. Returns how many elements there were.
struct Elements<'a, 'b> {
    most: usize,
    /// How deep lists may still lie within each other.
    depth: u32,
    /// Whether this may be an element alone, and not only a list.
    is_within: bool,
    sink: &'a mut ElementSink<'b>,
}

impl Elements<'_, '_> {
    fn take<E: Error>(self, take: impl FnOnce(&mut ElementSink<'_>) -> Result<(), E>) -> Result<usize, E> {
        if self.most == 0 {
            return Err(E::custom("it has more elements than its shape"));
        }
        take(self.sink).map(|()| 1)
    }

    fn number<E: Error>(self, number: f64) -> Result<usize, E> {
        self.take(|sink| match sink {
            ElementSink::Number(push) => {
                push(number);
                Ok(())
            }
            ElementSink::Text(_) => Err(E::invalid_type(Unexpected::Float(number), &"a text")),
        })
    }
}

impl<'de> DeserializeSeed<'de> for Elements<'_, '_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        if self.is_within { deserializer.deserialize_any(self) } else { deserializer.deserialize_seq(self) }
    }
}

impl<'de> Visitor<'de> for Elements<'_, '_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.sink {
            _ if !self.is_within => "a list",
            ElementSink::Number(_) => "a number",
            ElementSink::Text(_) => "a text",
        })
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<usize, E> {
        self.number(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<usize, E> {
        self.number(number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<usize, E> {
        self.number(number as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<usize, E> {
        self.take(|sink| match sink {
            ElementSink::Text(push) => push(text).map_err(E::custom),
            ElementSink::Number(_) => Err(E::invalid_type(Unexpected::Other("a text"), &"a number")),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
        let Some(depth) = self.depth.checked_sub(1) else { return Err(A::Error::custom("its lists lie too deep")) };
        let mut count = 0;
        loop {
            let element = Elements { most: self.most - count, depth, is_within: true, sink: &mut *self.sink };
            match list.next_element_seed(element)? {
                None => return Ok(count),
                Some(more) => count += more,
            }
        }
    }
}
