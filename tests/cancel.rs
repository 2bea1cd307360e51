//! Planning and reading end soon after the caller's wish.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{Array, ElementType, ErrorKind, Item, Plan, PlanOptions, ReadOptions, Selections};

use crate::common as lib;

/// 2^50 elements in chunks of one: nobody can wait for the plan of all of them.
fn endless() -> Array {
    let store = Arc::new(MemoryStore::new());
    lib::create(&store, "/a", &[1 << 50], &[1], &ElementType::UInt8, &[0], &[json!({"name": "bytes"})]);
    lib::open(&store, "/a").expect("array")
}

/// Selections that touch 2^28 chunks, in every form, of rows few and many: not too many to try, but seconds of planning.
fn forms() -> Vec<Selections> {
    let far = 1 << 28;
    let many = 1 << 17;
    let starts: Vec<i64> = (0..many).map(|row| row << 11).collect();
    let stops: Vec<i64> = starts.iter().map(|start| start + (1 << 11)).collect();
    vec![
        Selections::ranges(vec![0], vec![far]).expect("one range"),
        Selections::ranges(starts.clone(), stops.clone()).expect("ranges"),
        Selections::ranges(starts, stops).expect("ranges").with_steps(vec![1; many as usize]).expect("steps"),
        Selections::items([[Item::Slice { start: None, stop: Some(2 * far), step: 2 }]]),
        Selections::items([[Item::slice(0, far), Item::NewAxis]]),
    ]
}

#[test]
fn planning_ends_when_it_is_cancelled() {
    let array = endless();
    for selections in forms() {
        let cancel = Arc::new(AtomicBool::new(false));
        let options = PlanOptions::default().with_cancel(cancel.clone());
        let outcome = thread::scope(|scope| {
            let array = std::slice::from_ref(&array);
            let (selections, options) = (&selections, &options);
            let planning = scope.spawn(move || Plan::new(array, None, selections, options));
            thread::sleep(std::time::Duration::from_millis(20));
            cancel.store(true, Ordering::Relaxed);
            planning.join().expect("no panic")
        });
        let kind = outcome.expect_err("far from done").kind();
        assert_eq!(kind, ErrorKind::Cancelled, "{selections:?}");
    }
}

#[test]
fn nothing_is_read_after_it_is_cancelled() {
    let array = endless();
    let cancelled = Arc::new(AtomicBool::new(true));
    let options = ReadOptions::default().with_cancel(cancelled);
    for selections in forms() {
        let kind = array.read(&selections, &options).expect_err("cancelled").kind();
        assert_eq!(kind, ErrorKind::Cancelled, "{selections:?}");
    }
    let kind =
        array.read(&Selections::ranges(vec![0], vec![3]).expect("range"), &options).expect_err("cancelled").kind();
    assert_eq!(kind, ErrorKind::Cancelled);
}
