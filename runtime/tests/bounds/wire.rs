//! Writes fields of protocol-buffers messages, of which an ONNX model consists. The audit's own tests use it, too.

/// A number of variable length.
pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field that holds bytes: a text, a message or packed numbers.
pub fn bytes(field: u32, content: &[u8]) -> Vec<u8> {
    [&varint(u64::from(field << 3 | 2)), &varint(content.len() as u64), content].concat()
}

/// A field that holds a number.
pub fn integer(field: u32, value: u64) -> Vec<u8> {
    [varint(u64::from(field << 3)), varint(value)].concat()
}
