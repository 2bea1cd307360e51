//! Planning, without any I/O: selections to a plan. From 100,000 rows or indices on, plans are made by several threads.

mod support;

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Throughput};
use serde_json::json;
use support::{Bits, Spec, boxes, index_lists, ranges, sorted_ranges};
use zarrow::{Array, Indexing, Indices, Item, Selections};

fn main() {
    let mut criterion = support::criterion();

    let mut group = criterion.benchmark_group("planning/ranges");
    let (len, extents) = (1 << 27, 10..=200);
    let line = Spec::new(&[len], &[1 << 16], 4).empty();
    plan(&mut group, "tiny 16", &line, &ranges(len, 16, extents.clone()));
    plan(&mut group, "sorted 50k", &line, &sorted_ranges(len, 50_000, &extents));
    plan(&mut group, "shuffled 50k", &line, &ranges(len, 50_000, extents.clone()));
    plan(&mut group, "sorted 1M", &line, &sorted_ranges(len, 1_000_000, &extents));
    plan(&mut group, "shuffled 1M", &line, &ranges(len, 1_000_000, extents.clone()));
    let far = 1 << 33;
    let longer = Spec::new(&[far], &[1 << 16], 4).empty();
    plan(&mut group, "sorted 10M", &longer, &sorted_ranges(far, 10_000_000, &extents));
    plan(&mut group, "shuffled 10M", &longer, &ranges(far, 10_000_000, extents.clone()));
    // Indices that need 64 bits, and a grid that can only be grouped by sorting.
    let endless = Spec::new(&[1 << 60], &[1 << 20], 4).empty();
    plan(&mut group, "shape 2^60, 50k", &endless, &ranges(1 << 60, 50_000, extents));
    plan(&mut group, "list of slices 50k", &line, &slices(len, 50_000));
    group.finish();

    let mut group = criterion.benchmark_group("planning/boxes");
    let image = [1 << 15, 1 << 15];
    let crops = boxes(&image, 50_000, &[20..=40, 20..=40]);
    plan(&mut group, "2-D crops 50k", &Spec::new(&image, &[512, 512], 2).empty(), &crops);
    let volume = [1024; 3];
    let cubes = boxes(&volume, 10_000, &[8..=24, 8..=24, 8..=24]);
    plan(&mut group, "3-D 10k", &Spec::new(&volume, &[64; 3], 2).empty(), &cubes);
    let space = [4096; 3];
    let cubes_1m = boxes(&space, 1_000_000, &[8..=24, 8..=24, 8..=24]);
    plan(&mut group, "3-D 1M", &Spec::new(&space, &[64; 3], 1).empty(), &cubes_1m);
    let shards = [json!({"name": "sharding_indexed", "configuration": {
        "chunk_shape": [64, 64, 64],
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }})];
    plan(&mut group, "3-D 10k, sharded", &Spec::new(&volume, &[256; 3], 2).codecs(shards).empty(), &cubes);
    group.finish();

    // Thin boxes: few lists, so that grouping takes most of the time.
    let mut group = criterion.benchmark_group("planning/grid");
    let sparse = [1 << 20; 3];
    let thin = boxes(&sparse, 50_000, &[1..=2, 1..=2, 60..=200]);
    plan(&mut group, "sparse, by sorting, 50k", &Spec::new(&sparse, &[64; 3], 2).empty(), &thin);
    let thin = boxes(&volume, 50_000, &[1..=2, 1..=2, 200..=600]);
    plan(&mut group, "dense, by counting, 50k", &Spec::new(&volume, &[64; 3], 2).empty(), &thin);
    group.finish();

    let mut group = criterion.benchmark_group("planning/indices");
    plan(&mut group, "random 1M", &line, &index_lists(len, 1, 1_000_000));
    plan(&mut group, "100k lists of ten", &line, &index_lists(len, 100_000, 10));
    let points = Selections::items([[item(1 << 15, 1_000_000, 5), item(1 << 15, 1_000_000, 7)]]);
    let points = points.with_indexing(Indexing::Pointwise);
    plan(&mut group, "points 1M", &Spec::new(&image, &[512, 512], 2).empty(), &points);
    group.finish();

    criterion.final_summary();
}

/// Random indices of an axis.
fn item(len: u64, count: usize, seed: u64) -> Item {
    let mut bits = Bits(seed);
    Indices::new((0..count).map(|_| bits.below(len) as i64).collect::<Vec<_>>()).into()
}

/// The throughput is in pieces: pairs of a selection and a read chunk.
fn plan(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, array: &Array, selections: &Selections) {
    let pieces = array.plan(selections).expect("a plan").pieces();
    group.throughput(Throughput::Elements(pieces as u64));
    group.bench_function(name, |bencher| bencher.iter(|| array.plan(black_box(selections)).expect("a plan")));
}

fn slices(len: u64, count: usize) -> Selections {
    let mut bits = Bits(3);
    Selections::items((0..count).map(|_| {
        let [start, stop] = bits.range(len, &(10..=200));
        [Item::slice(start, stop)]
    }))
}
