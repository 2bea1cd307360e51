//! Structured types: named members at fixed places in one element.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields};
use serde_json::{Value, json};

use super::ElementType;
use crate::error::{Error, ErrorKind, Result};

/// A structured type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StructType {
    members: Vec<Member>,
    width: usize,
}

/// One member of a structured type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    name: String,
    element: ElementType,
    shape: Vec<usize>,
    offset: usize,
}

impl Member {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Type of its elements.
    #[must_use]
    pub fn element_type(&self) -> &ElementType {
        &self.element
    }

    /// Lengths of the axes that the member has in each element; none for nearly all.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many elements of its type the member has.
    pub(crate) fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// The member's bytes in an element of the struct.
    pub(crate) fn bytes(&self) -> Range<usize> {
        self.offset..self.offset + self.count() * self.element.width()
    }

    /// The member's field in Arrow, for values of this type: a list for each of its axes around them.
    pub(crate) fn field(&self, values: DataType, nullable: bool) -> FieldRef {
        let metadata = HashMap::from([("zarr:dtype".to_owned(), self.element.zarr_name().into_owned())]);
        let (mut data_type, mut is_nullable) = (values, nullable);
        for &len in self.shape.iter().rev() {
            // Longer ones are refused when the array is opened.
            let len = i32::try_from(len).unwrap_or(i32::MAX);
            data_type = DataType::FixedSizeList(Arc::new(Field::new("item", data_type, is_nullable)), len);
            is_nullable = false;
        }
        Arc::new(Field::new(&self.name, data_type, is_nullable).with_metadata(metadata))
    }
}

impl StructType {
    /// Members one after the other, without gaps, each with its name, its type and the lengths of its axes.
    ///
    /// # Errors
    /// [`ErrorKind::Metadata`] if there is no member, or two have one name; [`ErrorKind::Unsupported`] if a member or
    /// the whole has more bytes than an Arrow list can count.
    pub(crate) fn new(members: impl IntoIterator<Item = (String, ElementType, Vec<usize>)>) -> Result<Self> {
        let mut structure = Self { members: Vec::new(), width: 0 };
        let mut names = HashSet::new();
        for (name, element, shape) in members {
            if !names.insert(name.clone()) {
                return Err(Error::new(ErrorKind::Metadata, format!("two members called '{name}'"))
                    .expected("members with names of their own"));
            }
            let too_large = || {
                Error::new(ErrorKind::Unsupported, format!("member '{name}' of shape {shape:?}"))
                    .expected("members of at most 2^31 - 1 bytes in all")
            };
            if shape.contains(&0) {
                return Err(Error::new(ErrorKind::Unsupported, format!("member '{name}' of shape {shape:?}"))
                    .expected("members of one element or more"));
            }
            let width = shape.iter().try_fold(element.width().max(1), |width, &len| width.checked_mul(len));
            let end = width.and_then(|width| width.checked_add(structure.width));
            end.filter(|&end| i32::try_from(end).is_ok()).ok_or_else(too_large)?;
            let member = Member { name, element, shape, offset: structure.width };
            structure.width = member.bytes().end;
            structure.members.push(member);
        }
        if structure.members.is_empty() {
            return Err(Error::new(ErrorKind::Metadata, "a struct without members").expected("at least one member"));
        }
        Ok(structure)
    }

    /// The members, in order.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Bytes of one element as it is stored.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The struct of some members, in the order of `names`, and where their bytes lie in an element of this one.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if there is no such member, if one is named twice, or if none is.
    pub(crate) fn select(&self, names: &[&str]) -> Result<(Self, Vec<Range<usize>>)> {
        let known = || {
            let names: Vec<_> = self.members.iter().map(|member| format!("'{}'", member.name)).collect();
            format!("some of {}", names.join(", "))
        };
        let refuse = |got: String| Error::new(ErrorKind::Selection, got).expected(known());
        if names.is_empty() {
            return Err(refuse("no fields".to_owned()));
        }
        let mut chosen = Vec::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                return Err(refuse(format!("field '{name}' twice")));
            }
            let member = self.members.iter().find(|member| member.name == **name);
            chosen.push(member.ok_or_else(|| refuse(format!("field '{name}'")))?);
        }
        let members = chosen.iter().map(|member| (member.name.clone(), member.element.clone(), member.shape.clone()));
        Ok((Self::new(members)?, chosen.iter().map(|member| member.bytes()).collect()))
    }

    pub(super) fn arrow_fields(&self) -> Fields {
        self.members.iter().map(|member| member.field(member.element.arrow_type(), false)).collect()
    }

    pub(super) fn numpy_name(&self) -> String {
        let mut name = "[".to_owned();
        for (at, Member { name: member, element, shape, .. }) in self.members.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            let _ = write!(name, "{comma}('{member}', {}", element.numpy_name());
            let _ = if shape.is_empty() { write!(name, ")") } else { write!(name, ", {shape:?})") };
        }
        name.push(']');
        name
    }

    pub(super) fn zarr_configuration(&self) -> Value {
        let data_type = |element: &ElementType| match element.zarr_configuration() {
            Value::Null => json!(element.zarr_name()),
            configuration => json!({"name": element.zarr_name(), "configuration": configuration}),
        };
        let field = |member: &Member| {
            let mut field = json!({"name": member.name, "data_type": data_type(&member.element)});
            if !member.shape.is_empty() {
                field["shape"] = json!(member.shape);
            }
            field
        };
        json!({"fields": self.members.iter().map(field).collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure() -> StructType {
        let inner = StructType::new([("s".to_owned(), ElementType::NullTerminated(3), vec![])]).unwrap();
        StructType::new([
            ("a".to_owned(), ElementType::Int16, vec![]),
            ("m".to_owned(), ElementType::Float32, vec![2, 3]),
            ("n".to_owned(), ElementType::Struct(Arc::new(inner)), vec![]),
        ])
        .unwrap()
    }

    #[test]
    fn members_follow_each_other() {
        let structure = structure();
        let bytes: Vec<_> = structure.members().iter().map(Member::bytes).collect();
        assert_eq!(bytes, [0..2, 2..26, 26..29]);
        assert_eq!(structure.width(), 29);
        assert_eq!(structure.numpy_name(), "[('a', int16), ('m', float32, [2, 3]), ('n', [('s', S3)])]");
    }

    #[test]
    fn some_of_the_members() {
        let (some, bytes) = structure().select(&["n", "a"]).unwrap();
        assert_eq!((some.width(), bytes), (5, vec![26..29, 0..2]));
        for (names, told) in [(vec!["b"], "field 'b'"), (vec![], "no fields"), (vec!["a", "a"], "field 'a' twice")] {
            let error = structure().select(&names).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Selection);
            assert!(error.to_string().contains(told) && error.to_string().contains("'a', 'm', 'n'"), "{error}");
        }
    }

    #[test]
    fn impossible_structs() {
        let of = |members: Vec<(&str, ElementType, Vec<usize>)>| {
            StructType::new(members.into_iter().map(|(name, element, shape)| (name.to_owned(), element, shape)))
        };
        assert_eq!(of(vec![]).unwrap_err().kind(), ErrorKind::Metadata);
        let twice = vec![("a", ElementType::Int8, vec![]), ("a", ElementType::Int8, vec![])];
        assert_eq!(of(twice).unwrap_err().kind(), ErrorKind::Metadata);
        for shape in [vec![0], vec![usize::MAX, 2], vec![1 << 31]] {
            assert_eq!(of(vec![("a", ElementType::Int8, shape)]).unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }
}
