//! One array and its read chunks: metadata, geometry, and decoding.
//!
//! With `store`, the only place that names the types of `zarrs`.

mod cast;
mod cells;
mod chunk_grid;
mod decode;
mod decoders;
mod foreign;
mod logical;
mod metadata;
mod shard;
mod taken;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use zarrs::storage::{AsyncReadableStorage, ReadableStorage, StoreKey};

pub(crate) use self::cast::Cast;
use self::cast::Chosen;
pub(crate) use self::cells::{CELL_LEN, Cell, cells};
use self::decode::Stored;
pub(crate) use self::decode::{Decoder, DirectScratch, Elements, Extent, Granularity};
use self::decoders::Decoders;
pub use self::foreign::{ForeignCodecs, ForeignDecoder, ForeignError, ForeignObjects};
use self::logical::Told;
pub(crate) use self::shard::{Entry, ShardIndex, Sharding};
use crate::arrow::{Description, ElementType, Ragged, read_columns};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::later::later;
use crate::memory::reserve;
use crate::plan::Plan;
use crate::plan::blocks::Threads;
use crate::plan::grid::Grid;
use crate::plan::lengths::Lengths;
use crate::planned::PlanOptions;
use crate::read::ReadOptions;
use crate::selection::Selections;
#[cfg(feature = "object-store")]
use crate::store::remote::ObjectStores;
use crate::store::remote::{Remote, on_threads};
use crate::store::{Source, ZarrFormat, local_directory, zip_file};

/// A Zarr array that is open for reading.
///
/// A handle holds the parsed metadata; it is cheap to clone and may be read from many threads at once.
#[derive(Clone)]
pub struct Array {
    inner: Arc<Inner>,
    /// The fields that are read, if not all are.
    chosen: Option<Arc<Fields>>,
}

/// Some fields of an array.
struct Fields {
    chosen: Chosen,
    description: Description,
}

struct Inner {
    source: Source,
    identity: OnceLock<String>,
    /// Where the array lies, for people: a path or a node path.
    location: String,
    /// `None` where the metadata is not from the store.
    metadata_key: Option<StoreKey>,
    attributes_document: Vec<u8>,
    zarrs: zarrs::array::Array<()>,
    stored: Stored,
    told: Told,
    description: Description,
    grid: Grid,
    chunk_shape: Vec<u64>,
    shard_shape: Option<Vec<u64>>,
    sharding: Option<Sharding>,
    decoders: Decoders,
    null_fill: bool,
}

/// How to open an array.
///
/// A [`ZarrFormat`], or `None`, converts to the options that ask for no more than that.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    format: Option<ZarrFormat>,
    foreign_codecs: Option<Arc<dyn ForeignCodecs>>,
    given: Option<metadata::Given>,
    location: Option<String>,
    cancel: Cancel,
}

impl OpenOptions {
    /// The format of the metadata. `None`, the default, takes v3 if there is such a document, else v2.
    #[must_use]
    pub fn with_format(mut self, format: Option<ZarrFormat>) -> Self {
        self.format = format;
        self
    }

    /// What errors call the store of the array, where it does not have a name itself.
    #[must_use]
    pub fn with_store_name(mut self, name: impl Into<String>) -> Self {
        self.location = Some(name.into());
        self
    }

    /// Ends opening with [`ErrorKind::TimedOut`] after so much time from now on. Only remote stores make it wait.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        if let Some(timeout) = timeout {
            self.cancel = self.cancel.within(timeout, Instant::now());
        }
        self
    }

    /// Ends opening with [`ErrorKind::Cancelled`] soon after `cancel` becomes true.
    #[must_use]
    pub fn with_cancel(mut self, cancel: Arc<AtomicBool>) -> Self {
        self.cancel = self.cancel.with(cancel);
        self
    }

    /// The metadata of the array, which is then not asked of the store: the document of v3 (with the attributes) or of v2,
    /// and of v2 the attributes.
    #[must_use]
    pub fn with_metadata(mut self, format: ZarrFormat, document: &[u8], attributes: Option<&[u8]>) -> Self {
        let (document, attributes) = (document.to_vec(), attributes.map(<[u8]>::to_vec));
        self.given = Some(metadata::Given { format, document, attributes });
        self
    }

    /// What decodes the chunks of arrays with codecs that this crate does not have. Without it, the default, such
    /// arrays are refused.
    #[must_use]
    pub fn with_foreign_codecs(mut self, codecs: Option<Arc<dyn ForeignCodecs>>) -> Self {
        self.foreign_codecs = codecs;
        self
    }
}

impl From<Option<ZarrFormat>> for OpenOptions {
    fn from(format: Option<ZarrFormat>) -> Self {
        Self::default().with_format(format)
    }
}

impl From<ZarrFormat> for OpenOptions {
    fn from(format: ZarrFormat) -> Self {
        Some(format).into()
    }
}

impl Inner {
    fn open(source: Source, path: &str, options: &OpenOptions, location: &str) -> Result<Self> {
        let metadata::Found { format, key, document, attributes_document } = match &options.given {
            Some(given) => metadata::Found::given(path, given)?,
            None => metadata::find(&source, path, options.format, &options.cancel)?,
        };
        let told = match format {
            ZarrFormat::V2 => Told::v2(&document),
            ZarrFormat::V3 => Told::v3(&document),
        };
        let opened = match (metadata::interpret(path, document.clone(), format), &options.foreign_codecs) {
            (Err(lacking), Some(codecs)) if matches!(lacking.kind(), ErrorKind::Unsupported | ErrorKind::Metadata) => {
                let first_chunk = |key: &StoreKey| {
                    let found = source.get_all(std::slice::from_ref(key), &options.cancel).pop().unwrap_or(Ok(None))?;
                    Ok(found.map(|bytes| bytes.to_vec()))
                };
                foreign::interpret(path, &document, format, codecs, lacking, first_chunk)
            }
            (opened, _) => opened,
        };
        let metadata::Opened { array: zarrs, stored, geometry, null_fill } =
            opened.map_err(|error| match error.kind() {
                ErrorKind::Metadata => error.at_key(key.as_str()),
                _ => error,
            })?;
        let longest = |lengths: &[Lengths]| lengths.iter().map(|lengths| lengths.longest().get()).collect::<Vec<_>>();
        let chunk_shape = longest(&geometry.read_chunks);
        let shard_shape = geometry.sharding.as_ref().map(|_| longest(&geometry.chunks));
        Ok(Self {
            grid: Grid::with_lengths(zarrs.shape(), geometry.read_chunks, geometry.in_shards)?,
            chunk_shape,
            shard_shape,
            sharding: geometry.sharding,
            decoders: geometry.decoders,
            null_fill,
            source,
            identity: OnceLock::new(),
            location: location.to_owned(),
            metadata_key: options.given.is_none().then_some(key),
            attributes_document,
            zarrs,
            description: told.describe(&stored.element),
            told,
            stored,
        })
    }
}

impl Array {
    /// Opens the array at node path `path` (such as `"/"` or `"/group/array"`) of a `zarrs` store.
    ///
    /// Zarr v3 metadata is looked for first, then v2.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no array, [`ErrorKind::Metadata`] if its metadata is not valid,
    /// [`ErrorKind::Unsupported`] for a data type, codec or chunk grid that this release does not read, and
    /// [`ErrorKind::Store`] if the store fails.
    pub fn open(storage: ReadableStorage, path: &str) -> Result<Self> {
        Self::open_with(storage, path, None)
    }

    /// [`open`](Self::open) with options, or with just a format, for nodes that hold metadata of both.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(storage: ReadableStorage, path: &str, options: impl Into<OpenOptions>) -> Result<Self> {
        let source = Source::Storage(storage);
        Self::from_source(source, path, &options.into(), path)
    }

    /// Opens the array in the local directory `root` (which holds its `zarr.json` or `.zarray`) for direct reads.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_local(root: impl AsRef<Path>, options: impl Into<OpenOptions>) -> Result<Self> {
        let root = root.as_ref();
        // Made absolute, so that the array stays the same when the working directory changes.
        let absolute = std::path::absolute(root).unwrap_or_else(|_| root.to_path_buf());
        let source = Source::Local(local_directory(&absolute));
        Self::from_source(source, "/", &options.into(), &absolute.to_string_lossy())
    }

    /// Opens the array at node path `path` of a local zip file, whose members are stored or deflated.
    ///
    /// Where there is none, but all members lie in one folder, the path is one in that folder.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ErrorKind::Decode`] if the file is no valid zip file.
    pub fn open_zip(file: impl AsRef<Path>, path: &str, options: impl Into<OpenOptions>) -> Result<Self> {
        let file = file.as_ref();
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
        let location = format!("{}{path}", absolute.display());
        let zip = zip_file(&absolute, path).map_err(|error| error.at_array(&location))?;
        Self::from_source(Source::Zip(zip), path, &options.into(), &location)
    }

    /// Opens the array at node path `path` of an asynchronous `zarrs` store. Many of its values are read at once.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_async(storage: AsyncReadableStorage, path: &str, options: impl Into<OpenOptions>) -> Result<Self> {
        let (source, options) = (Source::Remote(Arc::new(Remote::of_storage(storage))), options.into());
        let location = match &options.location {
            Some(store) => format!("{store}{path}"),
            None => path.to_owned(),
        };
        Self::from_source(source, path, &options, &location)
    }

    /// Opens the array at node path `path` of a `zarrs` store whose methods block while they wait for something, such as a
    /// network. It is asked by up to 512 threads at once that do nothing else, while others decode.
    ///
    /// [`open`](Self::open) has the decoding threads read, which is better where a value is there at once.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_blocking(storage: ReadableStorage, path: &str, options: impl Into<OpenOptions>) -> Result<Self> {
        Self::open_async(on_threads(storage), path, options)
    }

    /// Opens the array at node path `path` (below the prefix of its URL) of an object store or HTTP server.
    ///
    /// ```no_run
    /// use zarrow::{Array, ObjectStores};
    /// let options = [("skip_signature", "true"), ("aws_region", "us-west-2")];
    /// let images = ObjectStores::from_url("s3://bucket/images.zarr", options)?;
    /// let array = Array::open_object_store(&images, "/0", None)?;
    /// # Ok::<(), zarrow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(feature = "object-store")]
    pub fn open_object_store(stores: &ObjectStores, path: &str, options: impl Into<OpenOptions>) -> Result<Self> {
        let location = match path.trim_matches('/') {
            "" => stores.location().to_owned(),
            path => format!("{}/{path}", stores.location().trim_end_matches('/')),
        };
        let source = Source::Remote(Arc::new(Remote::of_objects(stores.clone())));
        Self::from_source(source, path, &options.into(), &location)
    }

    fn from_source(source: Source, path: &str, options: &OpenOptions, location: &str) -> Result<Self> {
        match Inner::open(source, path, options, location) {
            Ok(inner) => Ok(Self { inner: Arc::new(inner), chosen: None }),
            Err(error) => Err(error.at_array(location)),
        }
    }

    /// Length of each axis, in elements.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        self.inner.zarrs.shape()
    }

    /// Type of one element.
    #[must_use]
    pub fn element_type(&self) -> &ElementType {
        self.chosen.as_ref().map_or(&self.inner.stored.element, |fields| &fields.chosen.element)
    }

    /// The same array, of whose structured elements only some fields are read, in this order.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if there are no such fields, or one is named twice.
    pub fn with_fields(&self, names: &[&str]) -> Result<Self> {
        let chosen = Chosen::new(&self.inner.stored.element, names, self.stored_fill_value())
            .map_err(|error| error.at_array(self.location()))?;
        let description = self.inner.told.describe_some(&chosen.element);
        Ok(Self { inner: self.inner.clone(), chosen: Some(Arc::new(Fields { chosen, description })) })
    }

    /// The fields that are read, if not all are.
    #[must_use]
    pub fn fields(&self) -> Option<Vec<&str>> {
        self.chosen.as_ref()?;
        let ElementType::Struct(structure) = self.element_type() else { return None };
        Some(structure.members().iter().map(crate::arrow::Member::name).collect())
    }

    /// Shape of a read chunk, in elements: a subchunk where the array is sharded, else a chunk. Where they differ in
    /// shape, that of the longest: [`chunk_lengths`](Self::chunk_lengths) has them all.
    #[must_use]
    pub fn chunk_shape(&self) -> &[u64] {
        &self.inner.chunk_shape
    }

    /// Shape of a shard, in elements, where the array is sharded and its subchunks can be read alone. Where shards differ
    /// in shape, that of the longest.
    #[must_use]
    pub fn shard_shape(&self) -> Option<&[u64]> {
        self.inner.shard_shape.as_deref()
    }

    /// Whether all read chunks are of one shape, as in a regular chunk grid.
    #[must_use]
    pub fn has_equal_chunks(&self) -> bool {
        (0..self.shape().len()).all(|axis| self.grid().equal_len(axis).is_some())
    }

    /// Whether all shards are of one shape; true without shards.
    #[must_use]
    pub fn has_equal_shards(&self) -> bool {
        (0..self.shape().len()).all(|axis| self.grid().in_shards(axis).equal().is_some())
    }

    /// The length of each read chunk along `axis`, in elements of the array: the last ends with it.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] if there is no such axis; [`ErrorKind::Allocation`] if there is no memory for so many.
    pub fn chunk_lengths(&self, axis: usize) -> Result<Vec<u64>> {
        let len = self.axis_len(axis)?;
        self.lengths(len, self.grid().chunks(axis).count(len), |chunk| self.grid().chunks(axis).bounds(chunk))
    }

    /// The length of what each key of the store holds along `axis`, in elements of the array: of each shard, where the
    /// array is sharded, else of each chunk.
    ///
    /// # Errors
    /// As [`chunk_lengths`](Self::chunk_lengths).
    pub fn shard_lengths(&self, axis: usize) -> Result<Vec<u64>> {
        let len = self.axis_len(axis)?;
        let (chunks, in_shards) = (self.grid().chunks(axis), self.grid().in_shards(axis));
        self.lengths(len, in_shards.count(chunks.count(len)), |shard| {
            let (first, count) = in_shards.bounds(shard);
            let (start, (last, of_last)) = (chunks.bounds(first).0, chunks.bounds(first + count - 1));
            (start, (last - start).saturating_add(of_last))
        })
    }

    fn axis_len(&self, axis: usize) -> Result<u64> {
        self.shape().get(axis).copied().ok_or_else(|| {
            Error::new(ErrorKind::Selection, format!("axis {axis}")).expected(format!("one of {}", self.shape().len()))
        })
    }

    /// The lengths of `count` parts of an axis of length `len`, cut where it ends.
    fn lengths(&self, len: u64, count: u64, bounds: impl Fn(u64) -> (u64, u64)) -> Result<Vec<u64>> {
        let mut lengths = reserve(count as usize, "chunks of the axis", "Ask for the shape of the chunks.")
            .map_err(|error| error.at_array(self.location()))?;
        lengths.extend((0..count).map(bounds).map(|(start, of)| of.min(len - start)));
        Ok(lengths)
    }

    /// The document that holds the user attributes, as it is in the store: the v3 metadata document, of which they are
    /// the member `attributes`, or `.zattrs` of v2. Empty if there is none.
    #[must_use]
    pub fn attributes_document(&self) -> &[u8] {
        &self.inner.attributes_document
    }

    /// The user attributes. NaN and infinities, which JSON does not have, are strings here.
    #[must_use]
    pub fn attributes(&self) -> &serde_json::Map<String, serde_json::Value> {
        self.inner.zarrs.attributes()
    }

    /// Which release of the Zarr format the metadata follows.
    #[must_use]
    pub fn format(&self) -> ZarrFormat {
        match self.inner.zarrs.metadata() {
            zarrs::array::ArrayMetadata::V2(_) => ZarrFormat::V2,
            zarrs::array::ArrayMetadata::V3(_) => ZarrFormat::V3,
        }
    }

    /// Where the array lies: the path of its directory, or its node path in the store.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.inner.location
    }

    /// The directory that the array was opened in, if it was opened by [`open_local`](Self::open_local).
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match &self.inner.source {
            Source::Local(directory) => Some(directory.root()),
            Source::Zip(_) | Source::Storage(_) | Source::Remote(_) => None,
        }
    }

    /// The zip file that the array was opened in, if it was opened by [`open_zip`](Self::open_zip).
    #[must_use]
    pub fn zip_file(&self) -> Option<&Path> {
        match &self.inner.source {
            Source::Zip(zip) => Some(zip.path()),
            Source::Local(_) | Source::Storage(_) | Source::Remote(_) => None,
        }
    }

    /// Node path of the array in its store.
    #[must_use]
    pub fn node_path(&self) -> &str {
        self.inner.zarrs.path().as_str()
    }

    /// Plans a read of `selections`, without I/O.
    ///
    /// # Errors
    /// [`ErrorKind::Selection`] as [`Selections::bind`]; [`ErrorKind::Allocation`] if the result is too large.
    pub fn plan(&self, selections: &Selections) -> Result<crate::planned::Plan> {
        crate::planned::Plan::new(std::slice::from_ref(self), None, selections, &PlanOptions::default())
    }

    /// The plan of a read that follows at once.
    pub(crate) fn plan_read(&self, selections: &Selections, options: &ReadOptions) -> Result<Plan> {
        let (grids, item) = (vec![self.inner.grid.clone()], Some(self.element_type().room()));
        let threads = Threads::available(options.threads());
        selections
            .bind(self.shape())
            .and_then(|bound| Plan::new(bound, grids, item, threads, options.cancel()))
            .map_err(|error| error.at_array(self.location()))
    }

    /// Reads `selections` into one buffer. Row `i` of the result is selection `i`.
    ///
    /// # Errors
    /// As [`plan`](Self::plan); [`ErrorKind::Store`] if the store fails, [`ErrorKind::Decode`] if a chunk is corrupt,
    /// each naming the key.
    pub fn read(&self, selections: &Selections, options: &ReadOptions) -> Result<Ragged> {
        let mut columns = read_columns(&[self], selections, options)?;
        columns.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "no column was read"))
    }

    /// [`read`](Self::read) that does not block: the future may be awaited by any executor, and ends the read when it is
    /// dropped.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_async(&self, selections: &Selections, options: &ReadOptions) -> Result<Ragged> {
        let (array, selections) = (self.clone(), selections.clone());
        later(options, move |options| array.read(&selections, options)).await
    }

    pub(crate) fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            && (self.chosen.is_none() && other.chosen.is_none() || self.element_type() == other.element_type())
    }

    /// What makes elements of `element` of those that are decoded; `None` if they are that.
    pub(crate) fn cast_to(&self, element: &ElementType) -> Option<Cast<'_>> {
        match &self.chosen {
            Some(fields) => Some(fields.chosen.cast()),
            None if self.element_type() == element => None,
            None => Some(Cast::Numbers { from: self.element_type(), to: element.clone() }),
        }
    }

    /// What Zarr's metadata tells of the elements.
    pub(crate) fn description(&self) -> &Description {
        self.chosen.as_ref().map_or(&self.inner.description, |fields| &fields.description)
    }

    pub(crate) fn grid(&self) -> &Grid {
        &self.inner.grid
    }

    pub(crate) fn source(&self) -> &Source {
        &self.inner.source
    }

    /// What tells the array from all others, as its metadata was when it was opened.
    pub(crate) fn identity(&self) -> &str {
        let _held_off = fork::hold_off();
        self.inner.identity.get_or_init(|| {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let mut metadata = serde_json::to_string(self.inner.zarrs.metadata()).unwrap_or_default();
            if !self.has_equal_chunks() || !self.has_equal_shards() {
                // There, it tells of a regular grid of the longest.
                metadata = format!("{metadata}{:?}", self.inner.grid);
            }
            match self.inner.source.identity() {
                Some(source) => format!("{source}\0{}\0{metadata}", self.node_path()),
                None => format!("number {}", NEXT.fetch_add(1, Ordering::Relaxed)),
            }
        })
    }

    /// The key of the metadata, if the store has it.
    pub(crate) fn metadata_key(&self) -> Option<&StoreKey> {
        self.inner.metadata_key.as_ref()
    }

    pub(crate) fn sharding(&self) -> Option<&Sharding> {
        self.inner.sharding.as_ref()
    }

    /// Bytes of an element as it is decoded, before some of its fields are chosen.
    pub(crate) fn stored_size(&self) -> usize {
        self.inner.stored.element.size().max(1)
    }

    /// The decoder of the longest read chunks, and of all if they are of one shape.
    pub(crate) fn decoder(&self) -> &Decoder {
        self.inner.decoders.longest()
    }

    /// The decoder of the read chunk `key` of the array's grid, if that is not the one of the longest.
    ///
    /// # Errors
    /// [`ErrorKind::Metadata`] or [`ErrorKind::Unsupported`] if the codecs do not fit its shape.
    pub(crate) fn decoder_of(&self, key: u64) -> Result<Option<Arc<Decoder>>> {
        let Inner { grid, decoders, zarrs, stored, .. } = &*self.inner;
        match grid.differing_shape(key) {
            Some(shape) if shape != self.inner.chunk_shape => decoders.of_shape(&shape, zarrs, stored).map(Some),
            _ => Ok(None),
        }
    }

    /// Bytes of the read chunk `key` of the array's grid as it is decoded, before some of its fields are chosen.
    pub(crate) fn decoded_len_of(&self, key: u64) -> u64 {
        match self.grid().differing_shape(key) {
            None => self.decoder().decoded_len() as u64,
            Some(shape) => shape.iter().product::<u64>() * self.stored_size() as u64,
        }
    }

    /// Bytes of the read chunks `keys` together as they are decoded.
    pub(crate) fn decoded_len_of_all(&self, keys: &[u64]) -> u64 {
        if self.has_equal_chunks() {
            return (keys.len() as u64).saturating_mul(self.decoder().decoded_len() as u64);
        }
        keys.iter().map(|&key| self.decoded_len_of(key)).fold(0, u64::saturating_add)
    }

    /// How the index of the shard with this number is encoded.
    ///
    /// # Errors
    /// [`ErrorKind::Metadata`] if the codecs of the index do not fit it.
    pub(crate) fn sharding_of(&self, shard: u64) -> Result<Option<Cow<'_, Sharding>>> {
        let Some(longest) = self.sharding() else { return Ok(None) };
        let in_shard = self.inner.grid.differing_in_shard(shard);
        Ok(Some(match in_shard {
            None => Cow::Borrowed(longest),
            Some(in_shard) => Cow::Owned(longest.with_shape(&in_shard)?),
        }))
    }

    /// The store key of the chunk (the shard, where the array is sharded) at `indices`.
    pub(crate) fn chunk_key(&self, indices: &[u64]) -> StoreKey {
        self.inner.zarrs.chunk_key(indices)
    }

    /// The bytes of one element of the fill value, as decoded.
    fn stored_fill_value(&self) -> &[u8] {
        self.inner.stored.fill_value.as_deref().unwrap_or_else(|| self.inner.zarrs.fill_value().as_ne_bytes())
    }

    /// Whether elements of missing chunks are null: there is no fill value of their type.
    pub(crate) fn has_null_fill(&self) -> bool {
        self.inner.null_fill
    }

    /// The bytes of one element of the fill value, in native byte order.
    pub(crate) fn fill_value(&self) -> &[u8] {
        self.chosen.as_ref().map_or_else(|| self.stored_fill_value(), |fields| &fields.chosen.fill_value)
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Array")
            .field("location", &self.inner.location)
            .field("shape", &self.shape())
            .field("element_type", &self.element_type())
            .field("chunk_shape", &self.chunk_shape())
            .field("shard_shape", &self.shard_shape())
            .finish_non_exhaustive()
    }
}
