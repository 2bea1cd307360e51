//! Several arrays read into one record batch, and what the Arrow crates make of it.

mod common;

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray, Int64Array, RecordBatch, UInt8Array, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute;
use arrow::compute::kernels::cmp;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{Float32Type, Float64Type, UInt16Type};
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use proptest::prelude::*;
use serde_json::{Value, json};
use zarrow::zarrs::array::{ArrayBytes, Element};
use zarrow::zarrs::storage::store::MemoryStore;
use zarrow::{Array, ElementType, ErrorKind, Item, ReadOptions, Selections, read_batch};

use crate::common::selections::{self, Rows};
use crate::common::{self as lib, assert_error, bytes_codec, gzip_codec, sharding_codec};

/// Writes all of `values`, the elements of `shape` in C order.
fn write<T: Element>(
    store: &Arc<MemoryStore>,
    path: &str,
    shape: &[u64],
    chunk: &[u64],
    codecs: &[Value],
    element: ElementType,
    values: &[T],
) -> Array {
    let array = lib::create(store, path, shape, chunk, element.clone(), &vec![0; element.size()], codecs);
    let bytes = T::to_array_bytes(array.data_type(), values).expect("bytes").into_fixed().expect("fixed");
    let whole = array.subset_all();
    array.store_array_subset(&whole, ArrayBytes::new_flen(bytes)).expect("written");
    lib::open(store, path).expect("array")
}

/// Arrays of shape (20, 30), each of another type, chunked in its own way, and one with a further axis of 3.
struct Arrays {
    image: Array,
    weights: Array,
    labels: Array,
    mask: Array,
    waves: Array,
    colours: Array,
}

fn arrays() -> Arrays {
    let store = &Arc::new(MemoryStore::new());
    let plain = [bytes_codec(), gzip_codec()];
    let sharded = [sharding_codec(&[2, 5], &plain, "end")];
    let transposed = [json!({"name": "transpose", "configuration": {"order": [1, 0]}}), bytes_codec()];
    let shape = [20, 30];
    let all: Vec<u16> = (0..600).collect();
    let image: Vec<u8> = all.iter().map(|&i| (i * 7 % 251) as u8).collect();
    let weights: Vec<f32> = all.iter().map(|&i| f32::from(i) / 8.0).collect();
    let mask: Vec<bool> = all.iter().map(|&i| i % 3 == 0).collect();
    let waves: Vec<f64> = all.iter().flat_map(|&i| [f64::from(i), -f64::from(i)]).collect();
    let colours: Vec<u16> = (0..1800).collect();
    Arrays {
        image: write(store, "/image", &shape, &[7, 11], &plain, ElementType::UInt8, &image),
        weights: write(store, "/weights", &shape, &[10, 15], &sharded, ElementType::Float32, &weights),
        labels: write(store, "/labels", &shape, &[20, 4], &transposed, ElementType::UInt16, &all),
        mask: write(store, "/mask", &shape, &[1, 30], &[bytes_codec()], ElementType::Bool, &mask),
        waves: {
            let array = lib::create(store, "/waves", &shape, &[9, 9], ElementType::Complex128, &[0; 16], &plain);
            let bytes: Vec<u8> = waves.iter().flat_map(|part| part.to_ne_bytes()).collect();
            array.store_array_subset(&array.subset_all(), ArrayBytes::new_flen(bytes)).expect("written");
            lib::open(store, "/waves").expect("array")
        },
        colours: write(store, "/colours", &[20, 30, 3], &[8, 8, 2], &plain, ElementType::UInt16, &colours),
    }
}

impl Arrays {
    fn named(&self) -> Vec<(&str, &Array)> {
        vec![
            ("image", &self.image),
            ("weights", &self.weights),
            ("labels", &self.labels),
            ("mask", &self.mask),
            ("waves", &self.waves),
        ]
    }
}

fn boxes() -> Selections {
    // Two crops, one of them twice, one without elements.
    Selections::boxes(2, vec![0, 0, 3, 5, 3, 5, 9, 9, 19, 29], vec![4, 3, 18, 9, 18, 9, 9, 20, 20, 30]).expect("boxes")
}

fn options() -> ReadOptions {
    ReadOptions::default().with_threads(Some(3))
}

/// The offsets of each list level, outermost first, and the values below them.
fn levels(column: &ArrayRef) -> (Vec<OffsetBuffer<i64>>, ArrayRef) {
    let (mut offsets, mut array) = (Vec::new(), column.clone());
    while let Some(lists) = array.as_list_opt::<i64>() {
        offsets.push(lists.offsets().clone());
        array = lists.values().clone();
    }
    (offsets, array)
}

/// The values of a list array, which may be a slice of a larger one.
fn flatten(array: &ArrayRef) -> ArrayRef {
    let Some(lists) = array.as_list_opt::<i64>() else { return array.clone() };
    let offsets = lists.value_offsets();
    let (start, end) = (offsets[0] as usize, offsets[lists.len()] as usize);
    flatten(&lists.values().slice(start, end - start))
}

fn address(offsets: &OffsetBuffer<i64>) -> *const i64 {
    offsets.inner().inner().as_ptr().cast()
}

#[test]
fn columns_equal_single_reads_and_share_their_offsets() {
    let arrays = arrays();
    let batch = read_batch(&arrays.named(), &boxes(), &options()).expect("batch");
    assert_eq!((batch.num_rows(), batch.num_columns()), (5, 5));
    let (shared, _) = levels(batch.column(0));
    for ((name, array), (field, column)) in
        arrays.named().iter().zip(batch.schema().fields().iter().zip(batch.columns()))
    {
        assert_eq!(field.name(), name);
        assert!(!field.is_nullable());
        assert_eq!(field.metadata()["zarr:dtype"], array.element_type().zarr_name());
        assert_eq!(field.data_type(), column.data_type());
        assert!(column.nulls().is_none());
        let single = array.read(&boxes(), &options()).expect("read");
        assert_eq!(field.as_ref(), &single.field(name));
        assert_eq!(column, &single.into_array());
        let (offsets, values) = levels(column);
        assert_eq!(offsets.len(), 2);
        assert_eq!(values.data_type(), &array.element_type().arrow_type());
        for (offsets, shared) in offsets.iter().zip(&shared) {
            assert_eq!(address(offsets), address(shared), "{name} has offsets of its own");
        }
    }
}

#[test]
fn an_array_named_twice_shares_its_values_too() {
    let arrays = arrays();
    let twin = arrays.labels.clone();
    let columns = [("a", &arrays.labels), ("b", &arrays.image), ("c", &twin), ("a", &arrays.labels)];
    let batch = read_batch(&columns, &boxes(), &options()).expect("batch");
    let values = |column: usize| levels(batch.column(column)).1.to_data().buffers()[0].as_ptr();
    assert_eq!(values(0), values(2));
    assert_eq!(values(0), values(3));
    assert_ne!(values(0), values(1));
    assert_eq!(batch.schema().fields().iter().map(|field| field.name().as_str()).collect::<String>(), "abca");
}

#[test]
fn further_axes_may_differ() {
    let arrays = arrays();
    for columns in [
        [("colours", &arrays.colours), ("labels", &arrays.labels)],
        [("labels", &arrays.labels), ("colours", &arrays.colours)],
    ] {
        let batch = read_batch(&columns, &boxes(), &options()).expect("batch");
        let (colours, colour_values) = levels(batch.column_by_name("colours").expect("colours"));
        let (labels, label_values) = levels(batch.column_by_name("labels").expect("labels"));
        assert_eq!((colours.len(), labels.len()), (3, 2));
        assert_eq!(address(&colours[0]), address(&labels[0]));
        assert_eq!(address(&colours[1]), address(&labels[1]));
        assert!(colours[2].lengths().all(|len| len == 3));
        let labels = label_values.as_primitive::<UInt16Type>().values();
        let expected: Vec<u16> = labels.iter().flat_map(|label| [3 * label, 3 * label + 1, 3 * label + 2]).collect();
        assert_eq!(&colour_values.as_primitive::<UInt16Type>().values()[..], expected);
    }
    // Items count from the first axis as boxes do; integers drop the axis of each column.
    let items = Selections::items([[Item::Index(-1), Item::from(27..)], [Item::Index(0), Item::from(..2)]]);
    let batch = read_batch(&[("colours", &arrays.colours), ("labels", &arrays.labels)], &items, &options());
    let batch = batch.expect("batch");
    let (colours, _) = levels(batch.column(0));
    let (labels, values) = levels(batch.column(1));
    assert_eq!((colours.len(), labels.len()), (2, 1));
    assert_eq!(&values.as_primitive::<UInt16Type>().values()[..], [597, 598, 599, 0, 1]);
    assert_eq!(address(&colours[0]), address(&labels[0]));
    // All axes of one column dropped: it is flat.
    let points = Selections::items([[Item::Index(2), Item::Index(-1)], [Item::Index(0), Item::Index(4)]]);
    let batch = read_batch(&[("colours", &arrays.colours), ("labels", &arrays.labels)], &points, &options());
    let batch = batch.expect("batch");
    assert_eq!(batch.num_rows(), 2);
    assert_eq!(batch.column(1).as_primitive::<UInt16Type>().values()[..], [89, 4]);
    assert_eq!(levels(batch.column(0)).0.len(), 1);
}

#[test]
fn no_rows_and_empty_rows() {
    let arrays = arrays();
    for selections in [
        Selections::boxes(2, vec![], vec![]).expect("boxes"),
        Selections::items::<[Item; 0]>([]),
        Selections::boxes(2, vec![3, 3], vec![3, 9]).expect("boxes"),
    ] {
        let batch = read_batch(&arrays.named(), &selections, &options()).expect("batch");
        assert_eq!((batch.num_rows(), batch.num_columns()), (selections.len(), 5));
        for column in batch.columns() {
            let (offsets, values) = levels(column);
            assert_eq!((offsets.len(), values.len()), (2, 0));
            assert!(offsets.iter().all(|offsets| !offsets.is_empty()));
        }
    }
}

#[test]
fn arrays_that_do_not_fit_each_other() {
    let arrays = arrays();
    let store = Arc::new(MemoryStore::new());
    let codecs = [bytes_codec()];
    let create = |path: &str, shape: &[u64]| {
        lib::create(&store, path, shape, &vec![4; shape.len()], ElementType::UInt16, &[0, 0], &codecs);
        lib::open(&store, path).expect("array")
    };
    let shorter = create("/shorter", &[20, 29]);
    let line = create("/line", &[20]);
    let point = create("/point", &[]);
    let rows = Selections::ranges(vec![0, 3], vec![2, 20]).expect("ranges");

    let error = read_batch(&[], &boxes(), &options()).expect_err("no arrays");
    assert_error(&error, ErrorKind::Selection);
    for columns in [
        [("labels", &arrays.labels), ("other", &shorter)],
        [("other", &shorter), ("labels", &arrays.labels)],
        [("labels", &arrays.labels), ("other", &line)],
        [("other", &line), ("labels", &arrays.labels)],
        [("labels", &arrays.labels), ("other", &point)],
        [("other", &point), ("labels", &arrays.labels)],
    ] {
        let error = read_batch(&columns, &boxes(), &options()).expect_err("shapes differ");
        assert_error(&error, ErrorKind::Selection);
        assert!(error.to_string().contains("labels") && error.to_string().contains("other"), "{error}");
    }
    // On the first axis alone they fit.
    for other in [&shorter, &line] {
        let batch = read_batch(&[("labels", &arrays.labels), ("other", other)], &rows, &options()).expect("batch");
        assert_eq!(batch.num_rows(), 2);
    }
    // The batch names the row that is wrong.
    let wrong = Selections::ranges(vec![0, 3], vec![2, 21]).expect("ranges");
    let error = read_batch(&[("labels", &arrays.labels), ("other", &line)], &wrong, &options()).expect_err("too long");
    assert_error(&error, ErrorKind::Selection);
    assert_eq!(error.selection(), Some(1));
}

/// An Ellipsis stands for two axes of one array and one of the other: what follows it means another axis in each.
#[test]
fn an_ellipsis_before_other_items_needs_equal_ranks_in_any_order() {
    let arrays = arrays();
    let selections = Selections::items([[Item::Ellipsis, Item::from(0..2)]]);
    for columns in [
        [("colours", &arrays.colours), ("labels", &arrays.labels)],
        [("labels", &arrays.labels), ("colours", &arrays.colours)],
    ] {
        let outcome = read_batch(&columns, &selections, &options()).map(|batch| batch.schema());
        assert_error(&outcome.expect_err("the Ellipsis is ambiguous"), ErrorKind::Selection);
    }
    let equal = [("image", &arrays.image), ("labels", &arrays.labels)];
    assert_eq!(read_batch(&equal, &selections, &options()).expect("batch").num_rows(), 1);
}

#[test]
fn errors_of_one_column_name_its_key() {
    let store = Arc::new(MemoryStore::new());
    for path in ["/a", "/b"] {
        lib::counting_array(&store, path, &[20, 30], &[10, 30], &[bytes_codec(), gzip_codec()]);
    }
    lib::set(&store, "b/c/1/0", vec![1, 2, 3]);
    let (a, b) = (lib::open(&store, "/a").expect("array"), lib::open(&store, "/b").expect("array"));
    let error = read_batch(&[("a", &a), ("b", &b)], &boxes(), &options()).expect_err("corrupt");
    assert_error(&error, ErrorKind::Decode);
    assert_eq!(error.key(), Some("b/c/1/0"));
}

#[test]
fn kernels_take_the_batch_as_it_is() {
    let arrays = arrays();
    let batch = read_batch(&arrays.named(), &boxes(), &options()).expect("batch");

    // Rows by their number of lines.
    let lines = length(batch.column(0)).expect("lengths");
    let lines = lines.as_any().downcast_ref::<Int64Array>().expect("64-bit lengths");
    assert_eq!(&lines.values()[..], [4, 15, 15, 0, 1]);
    let long = cmp::gt(lines, &Int64Array::new_scalar(2)).expect("compared");
    let filtered = compute::filter_record_batch(&batch, &long).expect("filtered");
    assert_eq!(filtered.num_rows(), 3);
    assert_eq!(filtered.schema(), batch.schema());
    assert_eq!(
        filtered.column(0).as_list::<i64>().value(1).as_ref(),
        batch.column(0).as_list::<i64>().value(1).as_ref()
    );

    // Reordered, sliced, concatenated.
    let order = UInt32Array::from(vec![4, 2, 0]);
    let taken = compute::take_record_batch(&batch, &order).expect("taken");
    assert_eq!(taken.column(1).as_list::<i64>().value(2).as_ref(), batch.column(1).as_list::<i64>().value(0).as_ref());
    let twice = compute::concat_batches(&batch.schema(), [&batch.slice(0, 2), &batch.slice(2, 3)]).expect("joined");
    assert_eq!(twice, batch);

    // Aggregates over the values of a row and of all rows.
    let crop = flatten(&batch.column(2).as_list::<i64>().value(0));
    assert_eq!(crop.as_primitive::<UInt16Type>().values()[..], [0, 1, 2, 30, 31, 32, 60, 61, 62, 90, 91, 92]);
    assert_eq!(compute::max(crop.as_primitive::<UInt16Type>()), Some(92));
    let weights = flatten(batch.column(1));
    let weights = weights.as_primitive::<Float32Type>();
    let labels = flatten(batch.column(2));
    let expected: f32 = labels.as_primitive::<UInt16Type>().values().iter().map(|&label| f32::from(label) / 8.0).sum();
    assert_eq!(compute::sum(weights), Some(expected));
    let mask = flatten(batch.column(3));
    let masked = compute::filter(&labels, mask.as_boolean()).expect("filtered");
    assert!(masked.as_primitive::<UInt16Type>().values().iter().all(|label| label % 3 == 0));
    assert_eq!(masked.len(), mask.as_boolean().true_count());
    let bright = cmp::gt(&flatten(batch.column(0)), &UInt8Array::new_scalar(250)).expect("compared");
    assert_eq!(bright.true_count(), 0);
    let waves = flatten(batch.column(4));
    let waves = waves.as_fixed_size_list().values().as_primitive::<Float64Type>();
    assert_eq!(compute::sum(waves), Some(0.0));
}

#[test]
fn files_and_streams_give_the_batch_back() {
    let arrays = arrays();
    let mut columns = arrays.named();
    columns.push(("colours", &arrays.colours));
    for selections in [boxes(), Selections::boxes(2, vec![], vec![]).expect("boxes")] {
        let batch = read_batch(&columns, &selections, &options()).expect("batch");
        let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("stream");
        stream.write(&batch).expect("written");
        let bytes = stream.into_inner().expect("finished");
        let back: Vec<RecordBatch> =
            StreamReader::try_new(&bytes[..], None).expect("stream").collect::<Result<_, _>>().expect("read");
        assert_eq!((back.len(), &back[0], back[0].schema()), (1, &batch, batch.schema()));

        let mut file = FileWriter::try_new(Vec::new(), &batch.schema()).expect("file");
        file.write(&batch).expect("written");
        let bytes = std::io::Cursor::new(file.into_inner().expect("finished"));
        let back: Vec<RecordBatch> =
            FileReader::try_new(bytes, None).expect("file").collect::<Result<_, _>>().expect("read");
        assert_eq!(back, [batch]);
    }
}

fn any_rows() -> impl Strategy<Value = Rows> {
    selections::rows(&[20, 30])
}

proptest! {
    #![proptest_config(lib::config(100))]

    #[test]
    fn batches_equal_single_reads(rows in any_rows(), threads in 1_usize..4) {
        let arrays = arrays();
        let options = ReadOptions::default().with_threads(Some(threads));
        let selections = rows.selections();
        let batch = read_batch(&arrays.named(), &selections, &options).expect("batch");
        prop_assert_eq!(batch.num_rows(), selections.len());
        for ((name, array), column) in arrays.named().iter().zip(batch.columns()) {
            let single = array.read(&selections, &options).expect("read").into_array();
            prop_assert_eq!(column, &single, "{}", name);
            for (ours, first) in levels(column).0.iter().zip(&levels(batch.column(0)).0) {
                prop_assert_eq!(address(ours), address(first));
            }
        }
    }
}
