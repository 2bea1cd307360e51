//! Chunks in pages of `gdeflate`, some of which the reference library made, and what is wrong with others.
//!
//! That library cannot be linked: it has functions of the same names as another that the crate uses.

#[path = "../common/mod.rs"]
mod common;
mod encoder;

use proptest::prelude::*;
use serde_json::{Value, json};
use zarrow::{ErrorKind, ReadOptions, Selections};

use crate::common::encoded::{self, Encoded, PATH};
use crate::common::{self as lib, Bits};
use crate::encoder::PAGE_LEN;

const NAMES: [&str; 2] = ["zarrs.gdeflate", "https://codec.zarrs.dev/bytes_to_bytes/gdeflate"];

fn codec(name: &str) -> Value {
    json!({"name": name, "configuration": {"level": 9}})
}

fn array_of_bytes(chunk: u64, subchunk: Option<u64>, sealed: bool) -> Encoded {
    Encoded {
        data_type: "uint8",
        item: 1,
        shape: vec![chunk * 5 / 2],
        chunk: vec![chunk],
        subchunk: subchunk.map(|len| vec![len]),
        codecs: vec![lib::bytes_codec(), codec(NAMES[usize::from(sealed)])],
        sealed,
    }
}

/// Bytes that compress well, not at all, or something between.
fn bytes(len: usize, bits: &mut Bits) -> Vec<u8> {
    let kind = bits.below(4);
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        match kind {
            0 => bytes.push(bits.next() as u8),
            1 => bytes.push((bits.next() % 7) as u8),
            2 if bytes.len() > 10 && bits.below(3) > 0 => {
                let (from, count) = (bits.below(bytes.len() as u64) as usize, bits.below(400) as usize);
                for at in from..from + count {
                    bytes.push(bytes[at]);
                }
            }
            2 => bytes.extend(bits.next().to_le_bytes()),
            _ => bytes.extend(std::iter::repeat_n(bits.next() as u8, bits.below(70_000) as usize)),
        }
    }
    bytes.truncate(len);
    bytes
}

fn check(recipe: &Encoded, is_compressed: bool, seed: u64) {
    let mut bits = Bits(seed);
    let len = recipe.read_chunk()[0] as usize;
    let (store, padded) = recipe.write(|_| {
        let decoded = bytes(len, &mut bits);
        (encoder::encode(&decoded, is_compressed), decoded)
    });
    let array = lib::open(&store, PATH).expect("opened");
    encoded::check(&array, &padded, &mut bits);
}

#[test]
fn pages_of_all_lengths() {
    for len in [1, 2, 3, 31, 32, 33, 40, 300, 19_999, 20_001, 65535, 65536, 65537, 3 * 65536, 1 << 20] {
        for seed in 0..8 {
            check(&array_of_bytes(len, None, false), seed % 2 == 0, len + seed);
        }
    }
}

#[test]
fn in_shards_and_with_checksums() {
    for is_compressed in [true, false] {
        check(&array_of_bytes(400_000, Some(100_000), false), is_compressed, 1);
        check(&array_of_bytes(400_000, Some(100_000), true), is_compressed, 2);
        check(&array_of_bytes(100_000, None, true), is_compressed, 3);
    }
}

/// Pages of the levels 0 to 12 in `pages.bin`, each behind the seed of its bytes, their length, and its own.
#[test]
fn pages_of_the_reference() {
    let mut rest = &include_bytes!("pages.bin")[..];
    let mut found = 0;
    while !rest.is_empty() {
        let number = |at: usize| u64::from_le_bytes(rest[at * 8..at * 8 + 8].try_into().expect("eight bytes"));
        let (seed, len, encoded_len) = (number(0), number(1), number(2) as usize);
        let decoded = bytes(len as usize, &mut Bits(seed));
        let pages = rest[24..24 + encoded_len].to_vec();
        let (store, padded) = array_of_bytes(len, None, false).write(|_| (pages.clone(), decoded.clone()));
        encoded::check(&lib::open(&store, PATH).expect("opened"), &padded, &mut Bits(seed));
        rest = &rest[24 + encoded_len..];
        found += 1;
    }
    assert_eq!(found, 13);
}

#[test]
fn lengths_that_lie() {
    let recipe = array_of_bytes(100_000, None, false);
    let mut bits = Bits(3);
    let decoded = bytes(100_000, &mut bits);
    let (store, _) = recipe.write(|_| (encoder::encode(&decoded, true), decoded.clone()));
    let array = lib::open(&store, PATH).expect("opened");
    let key = encoded::key(&[0]);
    let fails = |bytes: &[u8]| encoded::fails_with(&array, &store, &key, bytes);
    let pages: Vec<Vec<u8>> = decoded.chunks(PAGE_LEN).map(|part| encoder::page(part, true)).collect();
    assert!(!fails(&encoder::framed(100_000, &pages)));
    for decoded_len in [0, 1, 65536, 65537, 99_999, 100_001, 131_072, 131_073, 1 << 40, u64::MAX] {
        assert!(fails(&encoder::framed(decoded_len, &pages)), "{decoded_len}");
    }
    let whole = encoder::framed(100_000, &pages);
    let with = |at: usize, number: u64| {
        let mut bytes = whole.clone();
        bytes[at * 8..at * 8 + 8].copy_from_slice(&number.to_le_bytes());
        bytes
    };
    for at in 0..4 {
        for number in [0, 1, 3, 4, 127, u64::MAX, u64::MAX / 8, u64::MAX / 8 - 1, 1 << 61, 1 << 32] {
            assert!(fails(&with(at, number)), "{number} at {at}");
        }
        let right = u64::from_le_bytes(whole[at * 8..at * 8 + 8].try_into().expect("eight bytes"));
        for number in [right - 1, right + 1, right + 4] {
            assert!(fails(&with(at, number)), "{number} at {at}");
        }
    }
    let swapped: Vec<Vec<u8>> = pages.iter().rev().cloned().collect();
    assert!(fails(&encoder::framed(100_000, &swapped)));
    assert!(fails(&encoder::framed(100_000, &pages[..1])));
    assert!(fails(&encoder::framed(100_000, &[&pages[..], &pages[..1]].concat())));
    assert!(fails(&[&whole[..], &[0]].concat()));
    // A page that is cut off, with lengths that fit: what is missing is not taken for zeros.
    for len in (0..pages[1].len()).rev().take(70).chain([0, 1, 4, 127, 128]) {
        let cut = [pages[0].clone(), pages[1][..len].to_vec()];
        assert!(fails(&encoder::framed(100_000, &cut)), "{len}");
    }
    let longer = [pages[0].clone(), [&pages[1][..], &[0; 4]].concat()];
    assert!(fails(&encoder::framed(100_000, &longer)));
}

#[test]
fn every_truncation() {
    let recipe = array_of_bytes(700, None, false);
    for is_compressed in [true, false] {
        let decoded = bytes(700, &mut Bits(6));
        let (store, _) = recipe.write(|_| (encoder::encode(&decoded, is_compressed), decoded.clone()));
        let array = lib::open(&store, PATH).expect("opened");
        let key = encoded::key(&[1]);
        let intact = lib::get(&store, &key);
        for len in 0..intact.len() {
            assert!(encoded::fails_with(&array, &store, &key, &intact[..len]), "{len}");
        }
    }
}

/// Blocks without end that decode to nothing end with the page.
#[test]
fn pages_of_zeros_and_ones() {
    let recipe = array_of_bytes(700, None, false);
    let (store, _) = recipe.write(|_| (encoder::encode(&[1; 700], true), vec![1; 700]));
    let array = lib::open(&store, PATH).expect("opened");
    let key = encoded::key(&[1]);
    for byte in 0..=255 {
        for len in [0, 128, 132, 1 << 10, 1 << 16] {
            let page = vec![byte; len];
            encoded::fails_with(&array, &store, &key, &encoder::framed(700, &[page]));
        }
    }
}

#[test]
fn a_bound_on_what_is_decoded_holds_inside_other_codecs() {
    let mut recipe = array_of_bytes(1000, None, false);
    // As an inner compressor: more than any bytes of the array can be.
    recipe.codecs = vec![lib::bytes_codec(), lib::gzip_codec(), codec(NAMES[0])];
    let (store, _) = recipe.write(|_| (encoder::encode(&vec![0; 1 << 20], true), vec![0; 1000]));
    let array = lib::open(&store, PATH).expect("opened");
    // Of the first chunk alone: of several that fail, any may be the first.
    let first = Selections::ranges(vec![0], vec![1000]).expect("a range");
    let error = array.read(&first, &ReadOptions::default()).expect_err("too much");
    lib::assert_error(&error, ErrorKind::Decode);
    assert_eq!(error.key(), Some(&*encoded::key(&[0])), "{error}");
}

#[test]
fn codecs_out_of_order_are_called_by_their_names() {
    let error = lib::empty_array(&[4], &[2], "uint8", &json!([codec(NAMES[0]), lib::bytes_codec()])).unwrap_err();
    lib::assert_error(&error, ErrorKind::Metadata);
    assert!(!error.to_string().contains("zarrow.gdeflate"), "{error}");
}

proptest! {
    #![proptest_config(lib::config(300))]

    #[test]
    fn damaged_pages(
        seed in any::<u64>(),
        len in 1_u64..3000,
        is_compressed in any::<bool>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 1..20),
    ) {
        let recipe = array_of_bytes(len, None, false);
        let mut bits = Bits(seed);
        let (store, _) = recipe.write(|_| {
            let decoded = bytes(len as usize, &mut bits);
            (encoder::encode(&decoded, is_compressed), decoded)
        });
        let array = lib::open(&store, PATH).expect("opened");
        let key = encoded::key(&[0]);
        let mut damaged = lib::get(&store, &key).to_vec();
        for (at, bit) in flips {
            // Behind the lengths, which have a test of their own.
            let at = 24 + at.index(damaged.len() - 24);
            damaged[at] ^= 1 << bit;
        }
        encoded::fails_with(&array, &store, &key, &damaged);
    }

    #[test]
    fn random_pages(
        page in prop::collection::vec(any::<u8>(), 128..4000),
        len in 1_u64..3000,
        kind in 0_u8..8,
    ) {
        let recipe = array_of_bytes(len, None, false);
        let (store, _) = recipe.write(|_| (encoder::encode(&vec![1; len as usize], true), vec![1; len as usize]));
        let array = lib::open(&store, PATH).expect("opened");
        let mut page = page;
        page[0] = page[0] & !7 | kind;
        encoded::fails_with(&array, &store, &encoded::key(&[0]), &encoder::framed(len, &[page]));
    }
}
