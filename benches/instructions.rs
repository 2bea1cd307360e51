//! The work whose instructions `benches/instructions/check.py` counts: `instructions SCENARIO`, under callgrind.
//! Without a scenario it lists them all.

mod support;

use std::hint::black_box;

use support::{Spec, boxes, index_lists, one_thread, ranges, sorted_ranges};
use zarrow::{Array, Selections};

/// Does its work and gives the number of pieces of it.
type Work = Box<dyn Fn() -> usize>;

/// From 100,000 selections on, a second thread would plan too, and waiting for it would be counted.
const MANY: usize = 50_000;

/// A name, and what prepares the work.
type Scenario = (&'static str, fn() -> Work);

const SCENARIOS: [Scenario; 11] = [
    ("plan-ranges-sorted", || plan(&Spec::new(&[1 << 27], &[1 << 16], 4), sorted_ranges(1 << 27, MANY, &(10..=200)))),
    ("plan-ranges-shuffled", || plan(&Spec::new(&[1 << 27], &[1 << 16], 4), ranges(1 << 27, MANY, 10..=200))),
    ("plan-boxes", || {
        let volume = [1024; 3];
        plan(&Spec::new(&volume, &[64; 3], 2), boxes(&volume, 20_000, &[8..=24, 8..=24, 8..=24]))
    }),
    ("plan-sparse-grid", || {
        let volume = [1 << 20; 3];
        plan(&Spec::new(&volume, &[64; 3], 2), boxes(&volume, 20_000, &[1..=2, 1..=2, 60..=200]))
    }),
    ("plan-indices", || plan(&Spec::new(&[1 << 27], &[1 << 20], 4), index_lists(1 << 27, 2000, 20))),
    ("read-indices", || read(Spec::new(&[1 << 16], &[1 << 14], 4).written(), index_lists(1 << 16, 20, 2000))),
    ("read-lines", || read(Spec::new(&[1 << 16], &[1 << 16], 4).written(), ranges(1 << 16, MANY, 2..=10))),
    ("read-crops", || {
        let image = [512, 512];
        read(Spec::new(&image, &image, 2).written(), boxes(&image, 2000, &[24..=40, 24..=40]))
    }),
    ("read-strided", || {
        let image = [512, 512];
        read(Spec::new(&image, &image, 4).written(), boxes(&image, 2000, &[512..=512, 1..=1]))
    }),
    ("read-fill", || {
        let image = [512, 512];
        let fill = 1_234_567_u32.to_ne_bytes();
        read(Spec::new(&image, &image, 4).fill(&fill).empty(), boxes(&image, 2000, &[24..=40, 24..=40]))
    }),
    // What a chunk costs besides decoding. The store holds none: of a chunk that is there, the time it takes to read
    // decides whether reads are announced, and so the count.
    ("read-many-chunks", || {
        let image = [1024, 1024];
        read(Spec::new(&image, &[32, 32], 1).empty(), boxes(&image, 1, &[1024..=1024, 1024..=1024]))
    }),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` runs every benchmark.
    if arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let asked = |(name, _): &&Scenario| arguments == [*name];
    if let Some((_, prepare)) = SCENARIOS.iter().find(asked) {
        let work = prepare();
        // Once before: threads and buffers that are kept for the next call are not part of it.
        work();
        println!("{}", measured(&work));
    } else {
        for (name, _) in SCENARIOS {
            println!("{name}");
        }
    }
}

/// Callgrind counts from where this is entered to where it is left.
#[inline(never)]
fn measured(work: &Work) -> usize {
    // `black_box` comes after the call, which could else become a jump: this would be left before the work.
    black_box(work())
}

fn plan(spec: &Spec, selections: Selections) -> Work {
    let array = spec.empty();
    Box::new(move || array.plan(&selections).expect("a plan").pieces())
}

fn read(array: Array, selections: Selections) -> Work {
    Box::new(move || array.read(&selections, &one_thread()).expect("a result").stats().pieces)
}
