//! The fields of a protocol-buffers message, one after the other, without a copy. A decoder made from the schema would
//! pass over the fields that the schema does not name, which the engine behind may read.

/// The bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError;

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireValue<'a> {
    /// A number of variable length.
    Number(u64),
    /// Four bytes.
    Four([u8; 4]),
    /// Eight bytes.
    Eight([u8; 8]),
    /// A text, a message or packed numbers.
    Bytes(&'a [u8]),
}

/// Iterates over the numbers and values of a message's fields; ends after the first error.
#[derive(Clone, Debug)]
pub struct WireFields<'a> {
    rest: &'a [u8],
}

impl<'a> WireFields<'a> {
    /// The fields of a message.
    pub fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u32, WireValue<'a>)> {
        // Engines read a key of at most 32 bits; a longer one would be another key for them.
        let key = u32::try_from(varint(&mut self.rest)?).ok()?;
        let value = match key & 7 {
            0 => WireValue::Number(varint(&mut self.rest)?),
            1 => WireValue::Eight(self.take(8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(varint(&mut self.rest)?).ok()?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => WireValue::Four(self.take(4)?.try_into().ok()?),
            // Groups, which ONNX does not have.
            _ => return None,
        };
        (key >> 3 > 0).then_some((key >> 3, value))
    }
}

impl<'a> Iterator for WireFields<'a> {
    type Item = Result<(u32, WireValue<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field().ok_or(WireError);
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Takes a number of variable length from the front.
pub fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for index in 0..10 {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        if index == 9 && byte > 1 {
            return None;
        }
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_their_order_and_damage_ends_them() {
        let message = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
        let fields: Vec<_> = WireFields::of(&message).collect();
        let expected = [
            (1, WireValue::Number(150)),
            (2, WireValue::Bytes(b"hi")),
            (3, WireValue::Four([1, 2, 3, 4])),
            (4, WireValue::Eight([1, 2, 3, 4, 5, 6, 7, 8])),
        ];
        assert_eq!(fields, expected.map(Ok));
        for damaged in [
            &[0x12, 200][..],
            &[0x12],
            &[0x0b],
            &[0x00, 1],
            &[0x80; 11],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            &[0x88, 0x80, 0x80, 0x80, 0x10, 1],
        ] {
            assert_eq!(WireFields::of(damaged).collect::<Vec<_>>(), [Err(WireError)], "{damaged:x?}");
        }
    }
}
