//! What is known of a tensor before anything is computed: its shape, its data type, and the values themselves where
//! they are a few integers, since such lists become shapes further on.

/// Most values of a tensor that are followed through a graph. Shapes have at most eight, paddings twice as many.
pub const SHORT: u64 = 64;

/// The type of a tensor's elements, by its number in onnx.proto.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType(pub u64);

impl DataType {
    pub const FLOAT: Self = Self(1);
    pub const UINT8: Self = Self(2);
    pub const INT8: Self = Self(3);
    pub const UINT16: Self = Self(4);
    pub const INT16: Self = Self(5);
    pub const INT32: Self = Self(6);
    pub const INT64: Self = Self(7);
    pub const BOOL: Self = Self(9);

    /// Bits of an element; `None` for types that no backbone has.
    pub fn bits(self) -> Option<u64> {
        match self.0 {
            // Float, int32, uint32.
            1 | 6 | 12 => Some(32),
            // Bytes and truth values.
            2 | 3 | 9 => Some(8),
            // Int16, uint16, float16, bfloat16.
            4 | 5 | 10 | 16 => Some(16),
            // Int64, double, uint64.
            7 | 11 | 13 => Some(64),
            _ => None,
        }
    }

    /// Whether dividing such elements may end the process, as for integers by zero.
    pub fn is_integer(self) -> bool {
        matches!(self.0, 2..=7 | 12 | 13)
    }

    /// Whether a value is one of this type, as far as values are followed.
    pub fn holds(self, value: i64) -> bool {
        match self {
            Self::UINT8 => u8::try_from(value).is_ok(),
            Self::INT8 => i8::try_from(value).is_ok(),
            Self::UINT16 => u16::try_from(value).is_ok(),
            Self::INT16 => i16::try_from(value).is_ok(),
            Self::INT32 => i32::try_from(value).is_ok(),
            Self::INT64 => true,
            Self::BOOL => (0..=1).contains(&value),
            _ => false,
        }
    }
}

/// What is known of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorType {
    pub shape: Vec<u64>,
    pub data_type: DataType,
    /// Its values, if they are integers, at most [`SHORT`], and known.
    pub values: Option<Vec<i64>>,
    /// Its values, if they are at most [`SHORT`] floats and known: those of a constant, or followed
    /// ([`super::floats`]).
    pub floats: Option<Vec<f32>>,
    /// Whether it is the same for every picture: then an engine may compute it when it opens the model.
    pub constant: bool,
}

impl TensorType {
    /// A tensor of unknown values.
    pub fn of(shape: Vec<u64>, data_type: DataType) -> Self {
        Self { shape, data_type, values: None, floats: None, constant: false }
    }

    /// This tensor with its values, which are left out where they are too many or not of its data type.
    pub fn with_values(mut self, values: Option<Vec<i64>>) -> Self {
        let fits = |values: &Vec<i64>| {
            values.len() as u64 <= SHORT
                && values.len() as u64 == self.elements()
                && values.iter().all(|&value| self.data_type.holds(value))
        };
        self.values = values.filter(fits);
        self
    }

    /// A list of integers.
    pub fn list(values: Vec<i64>) -> Self {
        Self::of(vec![values.len() as u64], DataType::INT64).with_values(Some(values))
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of its elements, saturating.
    pub fn elements(&self) -> u64 {
        product(&self.shape)
    }

    /// Bytes that an engine may take for it. ONNX Runtime pads the channels of images to blocks of up to 16.
    pub fn bytes(&self) -> u64 {
        let blocks = match self.shape[..] {
            [images, channels, height, width] => {
                product(&[images, channels.checked_next_multiple_of(16).unwrap_or(u64::MAX), height, width])
            }
            _ => self.elements(),
        };
        blocks.saturating_mul(self.data_type.bits().unwrap_or(64)) / 8
    }

    /// An axis that counts from the end if it is negative.
    pub fn axis(&self, axis: i64) -> Option<usize> {
        axis_of(axis, self.rank())
    }
}

/// The number of elements of a shape, saturating.
pub fn product(shape: &[u64]) -> u64 {
    if shape.contains(&0) {
        return 0;
    }
    shape.iter().fold(1, |product: u64, &side| product.saturating_mul(side))
}

/// The index of an axis, which counts from the end if it is negative; `None` if there is none.
pub fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis.checked_add(rank)? } else { axis };
    if (0..rank).contains(&axis) { usize::try_from(axis).ok() } else { None }
}
