//! Features of pictures, put into a bank.

use std::cell::RefCell;
use std::collections::VecDeque;

use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::stream::{BackboneShape, ViewSource, encode_stream};
use orco_runtime::encoder::{EncodeError, Encoder};
use orco_runtime::image_rs::RgbImage;
use orco_state::bank::Bank;

/// Adds pictures, each with its class, to a bank, with as many views as the bank has. Calls `on_picture` after each.
///
/// # Errors
/// If the backbone fails.
pub(crate) fn encode_into(
    bank: &mut Bank,
    bundle: &Bundle,
    encoder: &mut dyn Encoder,
    pictures: impl Iterator<Item = (u32, RgbImage)>,
    mut on_picture: impl FnMut(),
) -> Result<(), EncodeError> {
    // Pictures are taken some time before their features are there.
    let classes = RefCell::new(VecDeque::new());
    let pictures = pictures.map(|(class, picture)| {
        classes.borrow_mut().push_back(class);
        picture
    });
    let count = bank.views();
    let draw = |picture: &_| bundle.views(picture, count);
    let shape = BackboneShape { input: &bundle.manifest.preprocessing, features: bank.inputs() };
    encode_stream(encoder, shape, pictures, ViewSource { count, draw }, |features| {
        let class = classes.borrow_mut().pop_front().expect("a picture's class");
        bank.push(class, features.as_slice().expect("rows as they were made"));
        on_picture();
        Ok(())
    })
}
