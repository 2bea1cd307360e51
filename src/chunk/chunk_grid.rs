//! Chunk grids by their metadata, those that are not regular too.
//!
//! `rectilinear` is an extension of the Zarr specification. `rectangular`, its draft, and `zarrs.regular_bounded`, whose
//! last chunks end with the array, are what zarrs writes.

use std::num::NonZeroU64;

use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::plan::lengths::Lengths;

const ONE: NonZeroU64 = NonZeroU64::MIN;

/// How the axes of the array of a v3 document are cut into chunks, where the grid is not called `regular`. In the
/// document, a regular grid of the longest chunks takes its place: all else depends on nothing but how large they are.
///
/// # Errors
/// [`ErrorKind::Metadata`] if the grid does not fit the array, or is no valid one.
pub(super) fn take(document: &mut Value) -> Result<Option<Vec<Lengths>>> {
    let grid = &document["chunk_grid"];
    let name = grid.as_str().or_else(|| grid.get("name")?.as_str()).unwrap_or_default();
    let Some(lengths_of) = known(name) else { return Ok(None) };
    // What is wrong with the shape itself is told where it is understood.
    let Some(shape) = document["shape"].as_array() else { return Ok(None) };
    let Some(shape) = shape.iter().map(Value::as_u64).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let lengths = lengths_of(&shape, &grid["configuration"]).map_err(|error| {
        Error::new(ErrorKind::Metadata, format!("chunk grid '{name}': {error}", error = error.0)).expected(error.1)
    })?;
    let longest: Vec<u64> = lengths.iter().map(|lengths| lengths.longest().get()).collect();
    document["chunk_grid"] = json!({"name": "regular", "configuration": {"chunk_shape": longest}});
    Ok(Some(lengths))
}

/// What is wrong, and what would be right.
struct Wrong(String, &'static str);

type LengthsOf = fn(&[u64], &Value) -> Result<Vec<Lengths>, Wrong>;

fn known(name: &str) -> Option<LengthsOf> {
    match name {
        "rectilinear" => Some(rectilinear),
        "rectangular" => Some(rectangular),
        "zarrs.regular_bounded" => Some(regular_bounded),
        _ => None,
    }
}

fn rectilinear(shape: &[u64], configuration: &Value) -> Result<Vec<Lengths>, Wrong> {
    match &configuration["kind"] {
        Value::String(kind) if kind == "inline" => {}
        Value::Null => return Err(Wrong("no 'kind'".to_owned(), "the kind 'inline'")),
        kind => return Err(Wrong(format!("the kind {kind}"), "the kind 'inline'")),
    }
    axes(shape, configuration, "chunk_shapes", |len, axis| match axis {
        Value::Array(parts) => {
            let parts = parts.iter().map(run_length).collect::<Result<Vec<_>, _>>()?;
            Lengths::new(len, parts).ok_or_else(|| too_few(len))
        }
        axis => positive(axis).map(Lengths::regular),
    })
}

fn rectangular(shape: &[u64], configuration: &Value) -> Result<Vec<Lengths>, Wrong> {
    axes(shape, configuration, "chunk_shape", |len, axis| match axis {
        Value::Array(parts) => {
            let parts = parts.iter().map(|part| Ok((positive(part)?, ONE))).collect::<Result<Vec<_>, _>>()?;
            Lengths::new(len, parts).ok_or_else(|| too_few(len))
        }
        axis => positive(axis).map(Lengths::regular),
    })
}

fn regular_bounded(shape: &[u64], configuration: &Value) -> Result<Vec<Lengths>, Wrong> {
    axes(shape, configuration, "chunk_shape", |len, axis| {
        let chunk = positive(axis)?;
        let whole = NonZeroU64::new(len / chunk).map(|count| (chunk, count));
        let rest = NonZeroU64::new(len % chunk).map(|rest| (rest, ONE));
        Ok(Lengths::new(len, whole.into_iter().chain(rest)).unwrap_or(Lengths::regular(chunk)))
    })
}

/// Of each axis of `shape`, what `of` makes of its length and of its entry in the list `name`.
fn axes(
    shape: &[u64],
    configuration: &Value,
    name: &str,
    of: impl Fn(u64, &Value) -> Result<Lengths, Wrong>,
) -> Result<Vec<Lengths>, Wrong> {
    let Some(list) = configuration[name].as_array() else {
        return Err(Wrong(format!("no list '{name}'"), "one entry for each axis"));
    };
    if list.len() != shape.len() {
        return Err(Wrong(format!("'{name}' of {} axes", list.len()), "one entry for each axis of the array"));
    }
    let axes = shape.iter().zip(list).enumerate().map(|(axis, (&len, entry))| {
        of(len, entry).map_err(|Wrong(what, expected)| Wrong(format!("axis {axis} has {what}"), expected))
    });
    axes.collect()
}

/// A length, or a length and how many chunks in a row have it.
fn run_length(part: &Value) -> Result<(NonZeroU64, NonZeroU64), Wrong> {
    match part.as_array().map(Vec::as_slice) {
        None => Ok((positive(part)?, ONE)),
        Some([len, count]) => Ok((positive(len)?, positive(count)?)),
        Some(_) => Err(Wrong(format!("the chunks {part}"), "a length, or a list of a length and a count")),
    }
}

fn positive(value: &Value) -> Result<NonZeroU64, Wrong> {
    let found = value.as_u64().and_then(NonZeroU64::new);
    found.ok_or_else(|| Wrong(format!("the number {value}"), "lengths and counts from 1 to 2^64 - 1"))
}

fn too_few(len: u64) -> Wrong {
    Wrong(
        format!("chunks that do not cover its {len} elements"),
        "chunks that together are as long as the axis, or longer",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_grid(shape: &Value, grid: &Value) -> Result<Option<Vec<Vec<u64>>>> {
        let mut document = json!({"shape": shape, "chunk_grid": grid});
        let Some(found) = take(&mut document)? else { return Ok(None) };
        let sizes = |(lengths, len): (&Lengths, &Value)| {
            (0..lengths.count(len.as_u64().unwrap())).map(|number| lengths.bounds(number).1).collect()
        };
        let sizes: Vec<Vec<u64>> = found.iter().zip(shape.as_array().unwrap()).map(sizes).collect();
        let longest: Vec<_> = found.iter().map(|lengths| lengths.longest().get()).collect();
        assert_eq!(document["chunk_grid"]["configuration"]["chunk_shape"], json!(longest));
        Ok(Some(sizes))
    }

    fn inline(chunk_shapes: Value) -> Value {
        let mut grid = json!({"name": "rectilinear", "configuration": {"kind": "inline"}});
        grid["configuration"]["chunk_shapes"] = chunk_shapes;
        grid
    }

    #[test]
    fn grids_of_each_kind() {
        let grid = inline(json!([4, [1, 2, 3], [[4, 2]], [[1, 3], 3], [4, 4, 4]]));
        let found = take_grid(&json!([6, 6, 6, 6, 6]), &grid).unwrap().unwrap();
        assert_eq!(found, [vec![4, 4], vec![1, 2, 3], vec![4, 4], vec![1, 1, 1, 3], vec![4, 4]]);
        let grid = json!({"name": "rectangular", "configuration": {"chunk_shape": [[5, 5, 1], 3]}});
        assert_eq!(take_grid(&json!([11, 7]), &grid).unwrap().unwrap(), [vec![5, 5, 1], vec![3, 3, 3]]);
        let grid = json!({"name": "zarrs.regular_bounded", "configuration": {"chunk_shape": [4, 4, 4, 4]}});
        let found = take_grid(&json!([9, 8, 3, 0]), &grid).unwrap().unwrap();
        assert_eq!(found, [vec![4, 4, 1], vec![4, 4], vec![3], vec![]]);
        let grid = json!({"name": "regular", "configuration": {"chunk_shape": [4]}});
        assert_eq!(take_grid(&json!([9]), &grid).unwrap(), None);
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        let huge = 1_000_000_000_000_000_000_u64;
        for (grid, told) in [
            (inline(json!([[3, 3]])), "axis 0 has chunks that do not cover its 7 elements"),
            (inline(json!([[]])), "do not cover"),
            (inline(json!([[[1, 6]]])), "do not cover"),
            (inline(json!([[7, 0]])), "the number 0"),
            (inline(json!([[[7, 0]]])), "the number 0"),
            (inline(json!([0])), "the number 0"),
            (inline(json!([[-7]])), "the number -7"),
            (inline(json!([[7.5]])), "the number 7.5"),
            (inline(json!([[[7]]])), "the chunks [7]"),
            (inline(json!([[[7, 1, 1]]])), "the chunks [7,1,1]"),
            (inline(json!([7, 7])), "of 2 axes"),
            (inline(json!(7)), "no list 'chunk_shapes'"),
            (json!({"name": "rectilinear", "configuration": {"chunk_shapes": [7]}}), "no 'kind'"),
            (
                json!({"name": "rectilinear", "configuration": {"kind": "file", "chunk_shapes": [7]}}),
                "the kind \"file\"",
            ),
            (json!("rectilinear"), "no 'kind'"),
            (json!({"name": "rectangular", "configuration": {"chunk_shape": [[3, 3]]}}), "do not cover"),
            (json!({"name": "zarrs.regular_bounded", "configuration": {"chunk_shape": [0]}}), "the number 0"),
        ] {
            let error = take_grid(&json!([7]), &grid).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Metadata, "{grid}");
            assert!(error.to_string().contains(told), "{error}");
        }
        // However many chunks there are.
        let mut document = json!({"shape": [huge], "chunk_grid": inline(json!([[2, [1, huge]]]))});
        assert_eq!(take(&mut document).unwrap().unwrap()[0].count(huge), huge - 1);
    }
}
