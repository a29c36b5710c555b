//! Packs of a made-up class.

use alloc::vec;

use super::*;
use orco_core::exemplar::ExemplarPrecision;

fn pack() -> Pack {
    let mut exemplars = Bank::new(3, 2, ExemplarPrecision::Int8);
    exemplars.push(0, &[1.0, 2.0, -3.0]);
    exemplars.push(0, &[0.5, 0.0, 9.0, 1.0, 1.0, 1.0]);
    let origin =
        PackOrigin { bundle: "tiny".into(), program: "test".into(), device: Some("one".into()), ..Default::default() };
    Pack { label: "mug".into(), bundle_digest: [5; 32], exemplars, thumbnails: vec![Thumbnail(vec![1, 2, 3])], origin }
}

fn read(bytes: &[u8]) -> Result<Pack, PackError> {
    UnverifiedPack::read(bytes)?.content()
}

#[test]
fn a_pack_comes_back_and_every_change_is_noticed() {
    for signature in ["", "a signature\nin lines\n"] {
        let bytes = seal(&pack().to_be_signed(), signature);
        let sealed = UnverifiedPack::read(&bytes).unwrap();
        assert_eq!(sealed.signature().unwrap_or(""), signature);
        assert_eq!(sealed.signed(), pack().to_be_signed());
        assert_eq!(read(&bytes), Ok(pack()));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(UnverifiedPack::read(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(UnverifiedPack::read(&bytes[..length]).is_err(), "length {length}");
        }
        assert!(UnverifiedPack::read(&[&bytes[..], &[0]].concat()).is_err());
    }
}

#[test]
fn a_pack_whose_content_makes_no_sense_is_refused_though_its_checksum_is_right() {
    type Change = fn(&mut Pack);
    let changes: &[(&str, Change)] = &[
        ("no exemplars", |p| p.exemplars = p.exemplars.empty_like()),
        ("exemplars of a second class", |p| p.exemplars.push(1, &[1.0; 3])),
        ("endless views", |p| p.exemplars = Bank::new(3, 1 << 32, ExemplarPrecision::Int8)),
        ("numbers that are not finite", |p| p.exemplars.push(0, &[f32::INFINITY; 3])),
        ("many thumbnails", |p| p.thumbnails = vec![Thumbnail(vec![]); MAX_THUMBNAILS + 1]),
        ("large thumbnail", |p| p.thumbnails = vec![Thumbnail(vec![0; MAX_THUMBNAIL + 1])]),
    ];
    for (what, change) in changes {
        let mut changed = pack();
        change(&mut changed);
        assert_eq!(read(&seal(&changed.to_be_signed(), "")), Err(DecodeError::Body.into()), "{what}");
    }
    let texts: &[(&str, Change)] = &[
        ("no label", |p| p.label = " ".into()),
        ("control characters", |p| p.label = "mug\x1b[2J".into()),
        ("a character of no width", |p| p.label = "mu\u{200b}g".into()),
        ("a mark of direction in the bundle's name", |p| p.origin.bundle = "\u{202e}tiny".into()),
        ("long label", |p| p.label = "m".repeat(MAX_TEXT + 1)),
        ("control characters in the device's name", |p| p.origin.device = Some("a\nb".into())),
    ];
    for (what, change) in texts {
        let mut changed = pack();
        change(&mut changed);
        assert_eq!(read(&seal(&changed.to_be_signed(), "")), Err(PackError::Texts), "{what}");
    }
    let mut many = pack();
    (2..MAX_SHOTS + 1).for_each(|_| many.exemplars.push(0, &[1.0; 3]));
    let shots = MAX_SHOTS + 1;
    assert_eq!(read(&seal(&many.to_be_signed(), "")), Err(PackError::TooManyShots { shots }));
    many.exemplars = many.exemplars.only(&(0..MAX_SHOTS).collect::<Vec<_>>());
    assert!(read(&seal(&many.to_be_signed(), "")).is_ok());
    let mut longer = pack().to_be_signed();
    longer.push(0);
    assert_eq!(read(&seal(&longer, "")), Err(DecodeError::Body.into()), "trailing byte");
    let sealed = |version, content: &[&[u8]]| codec::seal(FileKind::Pack, version, content);
    let signed = pack().to_be_signed();
    let beyond = sealed(1, &[&u32::MAX.to_le_bytes(), &signed]);
    assert_eq!(read(&beyond), Err(DecodeError::Body.into()), "length beyond the end");
    let mut of_another = signed.clone();
    of_another[8] = 9;
    assert_eq!(read(&seal(&of_another, "")), Err(DecodeError::Body.into()), "signed for another version");
    let later = DecodeError::Version { expected: 1, actual: 9 };
    assert_eq!(read(&sealed(9, &[&signed])), Err(later.into()));
    assert_eq!(read(b"ORCOSLOT and more than a header"), Err(DecodeError::WrongKind.into()));
}

#[test]
fn a_pack_of_another_bundle_is_refused() {
    assert_eq!(pack().to_class(&[6; 32]), Err(PackError::OtherBundle { bundle: "tiny".into() }));
    let class = pack().to_class(&[5; 32]).unwrap();
    assert_eq!((class.label, class.exemplars), (pack().label, pack().exemplars));
}
