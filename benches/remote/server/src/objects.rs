//! All files of a folder, in memory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Bound;
use std::path::Path;

use bytes::Bytes;

/// Objects by key: the path of a file, relative to the folder.
pub struct Objects(BTreeMap<String, Bytes>);

impl Objects {
    /// Read all files of a folder.
    pub fn load(root: &Path) -> io::Result<Self> {
        let mut objects = BTreeMap::new();
        read_folder(root, "", &mut objects)?;
        Ok(Self(objects))
    }

    /// Number of objects, and of their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.0.len(), self.0.values().map(Bytes::len).sum())
    }

    /// The content of an object.
    pub fn get(&self, key: &str) -> Option<&Bytes> {
        self.0.get(key)
    }

    /// Objects whose keys have a prefix, from the first key after `after` on, in order.
    pub fn list<'a>(&'a self, prefix: &'a str, after: &'a str) -> impl Iterator<Item = (&'a str, &'a Bytes)> {
        let first = if after >= prefix { Bound::Excluded(after) } else { Bound::Included(prefix) };
        let keys = self.0.range::<str, _>((first, Bound::Unbounded));
        keys.map(|(key, content)| (key.as_str(), content)).take_while(move |(key, _)| key.starts_with(prefix))
    }
}

fn read_folder(folder: &Path, prefix: &str, objects: &mut BTreeMap<String, Bytes>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let key = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read_folder(&entry.path(), &format!("{key}/"), objects)?;
        } else {
            objects.insert(key, fs::read(entry.path())?.into());
        }
    }
    Ok(())
}
