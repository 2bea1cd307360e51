//! Copies from chunks to the result. The arrays have no compressor and lie in memory: there is little else to do.

mod support;

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use serde_json::json;
use support::{Spec, boxes, one_thread, ranges, windows};
use zarrow::{Array, Selections};

const SIDE: u64 = 2048;
const IMAGE: [u64; 2] = [SIDE, SIDE];
const TILE: [u64; 2] = [256, 256];

fn main() {
    let mut criterion = support::criterion();
    lines(&mut criterion);
    crops(&mut criterion);
    strided(&mut criterion);
    fill(&mut criterion);
    criterion.final_summary();
}

/// Pieces of one contiguous run each.
fn lines(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("copying/lines");
    let len = 1 << 20;
    let line = Spec::new(&[len], &[1 << 16], 4).written();
    read(&mut group, "short, 8-40 B", &line, &ranges(len, 50_000, 2..=10));
    read(&mut group, "long, 4-16 KiB", &line, &ranges(len, 1000, 1024..=4096));
    read(&mut group, "overlapping windows, 4 KiB", &line, &windows(2000, 500, 1024));
    let table = Spec::new(&[1 << 15, 32], &[1 << 11, 32], 2).written();
    read(&mut group, "rows of a table, 64 B - 1 KiB", &table, &ranges(1 << 15, 10_000, 1..=16));
    group.finish();
}

/// Pieces of many short runs.
fn crops(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("copying/crops");
    let crops = boxes(&IMAGE, 1000, &[24..=40, 24..=40]);
    for item in [1, 2, 4, 8, 16] {
        let image = Spec::new(&IMAGE, &TILE, item).written();
        let unit = if item == 1 { "byte" } else { "bytes" };
        read(&mut group, &format!("2-D, {item} {unit}"), &image, &crops);
    }
    let volume = [256; 3];
    let cubes = boxes(&volume, 200, &[16..=24, 16..=24, 16..=24]);
    read(&mut group, "3-D, 2 bytes", &Spec::new(&volume, &[64; 3], 2).written(), &cubes);
    let whole = Selections::boxes(2, vec![0, 0], vec![SIDE as i64; 2]).expect("boxes");
    read(&mut group, "whole image, 2 bytes", &Spec::new(&IMAGE, &TILE, 2).written(), &whole);
    group.finish();
}

/// Pieces whose neighbours do not lie side by side in the chunk: single elements are copied.
fn strided(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("copying/strided");
    for item in [1, 2, 4, 8, 16] {
        let columns = boxes(&IMAGE, 200, &[SIDE..=SIDE, 1..=1]);
        let unit = if item == 1 { "byte" } else { "bytes" };
        read(&mut group, &format!("columns, {item} {unit}"), &Spec::new(&IMAGE, &TILE, item).written(), &columns);
    }
    let movie = [128, 256, 256];
    let pixels = boxes(&movie, 5000, &[128..=128, 1..=1, 1..=1]);
    read(&mut group, "pixels through time, 2 bytes", &Spec::new(&movie, &[64; 3], 2).written(), &pixels);
    let f_order = [
        json!({"name": "transpose", "configuration": {"order": [1, 0]}}),
        json!({"name": "bytes", "configuration": {"endian": "little"}}),
    ];
    let crops = boxes(&IMAGE, 1000, &[24..=40, 24..=40]);
    read(&mut group, "crops in F order, 2 bytes", &Spec::new(&IMAGE, &TILE, 2).codecs(f_order).written(), &crops);
    group.finish();
}

/// Chunks that the store does not hold.
fn fill(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("copying/fill");
    let crops = boxes(&IMAGE, 1000, &[24..=40, 24..=40]);
    let (len, extents) = (1 << 20, 1024..=4096);
    // A value of equal bytes is set by another loop than one that is not; zeros are there already in
    // memory that is fresh, which that of the first read alone is.
    for (name, value) in [("zeros", 0_u32), ("equal bytes", u32::MAX), ("a number", 1_234_567)] {
        let fill = value.to_ne_bytes();
        read(&mut group, &format!("crops, {name}"), &Spec::new(&IMAGE, &TILE, 4).fill(&fill).empty(), &crops);
        let line = Spec::new(&[len], &[1 << 16], 4).fill(&fill).empty();
        read(&mut group, &format!("long lines, {name}"), &line, &ranges(len, 1000, extents.clone()));
    }
    group.finish();
}

/// The throughput is in bytes of the result.
fn read(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, array: &Array, selections: &Selections) {
    let options = one_thread();
    let bytes = array.read(selections, &options).expect("a result").stats().bytes_out;
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function(name, |bencher| {
        bencher.iter(|| array.read(black_box(selections), &options).expect("a result"));
    });
}
