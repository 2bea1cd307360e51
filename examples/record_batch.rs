//! Crops of an image and of its labels, read in one call into one record batch, and measured with arrow's kernels.
//!
//! `cargo run --example record_batch`

use std::error::Error;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray, Float64Array, RecordBatch, StringArray, UInt8Array, UInt64Array};
use arrow::compute::kernels::{cmp, numeric};
use arrow::compute::{cast, filter, filter_record_batch, max, sum};
use arrow::datatypes::{DataType, UInt8Type, UInt64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use zarrow::zarrs::array::codec::ZstdCodec;
use zarrow::zarrs::array::{ArrayBuilder, data_type};
use zarrow::zarrs::filesystem::FilesystemStore;
use zarrow::{Array, ReadOptions, Selections, read_batch};

const HEIGHT: i64 = 96;
const WIDTH: i64 = 128;
/// Line, column, radius and brightness of three discs.
const DISCS: [(i64, i64, i64, u8); 3] = [(20, 30, 12, 90), (50, 100, 20, 240), (80, 24, 6, 180)];

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    write_arrays(&Arc::new(FilesystemStore::new(directory.path())?))?;

    // A box around each disc: first lines and columns, then last ones, two numbers per box.
    let starts: Vec<i64> = DISCS.iter().flat_map(|(y, x, r, _)| [y - r, x - r]).collect();
    let stops: Vec<i64> = DISCS.iter().flat_map(|(y, x, r, _)| [y + r + 1, x + r + 1]).collect();
    let boxes = Selections::boxes(2, starts, stops)?;

    let image = Array::open_local(directory.path().join("image"), None)?;
    let labels = Array::open_local(directory.path().join("labels"), None)?;
    let crops = read_batch(&[("image", &image), ("labels", &labels)], &boxes, &ReadOptions::default())?;
    println!("{} crops, each {}\n", crops.num_rows(), crops.schema().field(0).data_type());

    let table = measure(&crops)?;
    print(&table)?;

    let bright = cmp::gt(&table["mean"], &Float64Array::new_scalar(100.0))?;
    println!("\nbrighter than 100:\n");
    print(&filter_record_batch(&table, &bright)?)?;

    let total = sum(table["flux"].as_primitive::<UInt64Type>()).unwrap_or_default();
    println!("\ntotal flux of all discs: {total}");
    Ok(())
}

/// Writes `/image`, discs on a dim background, and `/labels`, the number of the disc or 0, each with its own chunks.
fn write_arrays(store: &Arc<FilesystemStore>) -> Result<(), Box<dyn Error>> {
    let (mut pixels, mut numbers) = (Vec::new(), Vec::new());
    for at in 0..HEIGHT * WIDTH {
        let (line, column) = (at / WIDTH, at % WIDTH);
        let disc = DISCS.iter().position(|(y, x, r, _)| (line - y).pow(2) + (column - x).pow(2) <= r.pow(2));
        pixels.push(disc.map_or(10, |disc| DISCS[disc].3));
        numbers.push(disc.map_or(0, |disc| disc as u8 + 1));
    }
    let shape = vec![HEIGHT as u64, WIDTH as u64];
    for (path, chunk, values) in [("/image", [32, 32], pixels), ("/labels", [48, 128], numbers)] {
        let array = ArrayBuilder::new(shape.clone(), chunk, data_type::uint8(), 0_u8)
            .bytes_to_bytes_codecs(vec![Arc::new(ZstdCodec::new(3, false))])
            .build(store.clone(), path)?;
        array.store_metadata()?;
        array.store_array_subset(&array.subset_all(), values)?;
    }
    Ok(())
}

/// One line for each crop: its shape, and size, flux, mean and maximum of the labelled pixels.
fn measure(crops: &RecordBatch) -> Result<RecordBatch, Box<dyn Error>> {
    let (mut shapes, mut sizes, mut fluxes, mut maxima) = (vec![], vec![], vec![], vec![]);
    for row in 0..crops.num_rows() {
        let lines = crops["image"].as_list::<i64>().value(row);
        let image = flatten(&lines);
        let labels = flatten(&crops["labels"].as_list::<i64>().value(row));
        let disc = filter(&image, &cmp::neq(&labels, &UInt8Array::new_scalar(0))?)?;
        shapes.push(format!("{} x {}", lines.len(), image.len() / lines.len()));
        sizes.push(disc.len() as u64);
        fluxes.push(sum(cast(&disc, &DataType::UInt64)?.as_primitive::<UInt64Type>()));
        maxima.push(max(disc.as_primitive::<UInt8Type>()));
    }
    let (sizes, fluxes): (ArrayRef, ArrayRef) =
        (Arc::new(UInt64Array::from(sizes)), Arc::new(UInt64Array::from(fluxes)));
    let means = numeric::div(&cast(&fluxes, &DataType::Float64)?, &cast(&sizes, &DataType::Float64)?)?;
    Ok(RecordBatch::try_from_iter([
        ("shape", Arc::new(StringArray::from(shapes)) as ArrayRef),
        ("pixels", sizes),
        ("flux", fluxes),
        ("mean", means),
        ("max", Arc::new(UInt8Array::from(maxima))),
    ])?)
}

/// The values of a list array, which may be a slice of a larger one. Nothing is copied.
fn flatten(lists: &ArrayRef) -> ArrayRef {
    let lists = lists.as_list::<i64>();
    let offsets = lists.value_offsets();
    let (start, end) = (offsets[0] as usize, offsets[lists.len()] as usize);
    lists.values().slice(start, end - start)
}

fn print(table: &RecordBatch) -> Result<(), Box<dyn Error>> {
    let options = FormatOptions::default();
    for field in table.schema().fields() {
        print!("{:>10}", field.name());
    }
    println!();
    for row in 0..table.num_rows() {
        for column in table.columns() {
            print!("{:>10}", ArrayFormatter::try_new(column, &options)?.value(row).to_string());
        }
        println!();
    }
    Ok(())
}
