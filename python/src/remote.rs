//! Stores that are not on this machine: URLs, obstore's stores, and whatever Python can ask for keys.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyDict, PyTuple};
use pyo3_object_store::PyExternalObjectStore;
use tokio::sync::oneshot;
use zarrow::zarrs::storage::byte_range::{ByteRange, ByteRangeIterator};
use zarrow::zarrs::storage::{
    AsyncMaybeBytesIterator, AsyncReadableStorageTraits, Bytes, MaybeBytes, StorageError, StoreKey,
};
use zarrow::{ErrorKind, ObjectStores, OpenOptions, ZarrFormat, fork};

use crate::array::Array;
use crate::attach::{attach, called};
use crate::foreign::{ForeignCodecs, ended, told};
use crate::fork::Held;
use crate::interrupt::{Canceller, interruptibly};

/// The arguments of `_open_remote`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Remote<'py> {
    /// `"url"`, `"object"` or `"bridge"`.
    kind: String,
    /// A URL, a store of obstore, or a bridge.
    store: Bound<'py, PyAny>,
    storage_options: Option<Bound<'py, PyDict>>,
    /// Node path of the array in the store.
    path: String,
    zarr_format: Option<u8>,
    fields: Option<Vec<String>>,
    foreign: Option<Py<PyAny>>,
    /// The documents of the metadata, by their names, where they are known.
    metadata: Option<Bound<'py, PyDict>>,
}

/// What watches over opening.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Watch<'py> {
    /// Seconds.
    timeout: Option<f64>,
    cancel: Option<Bound<'py, Canceller>>,
    /// Arrays that are opened at once, of many.
    concurrency: Option<usize>,
}

/// An array that is to be opened.
struct Request {
    stores: Where,
    path: String,
    options: OpenOptions,
    fields: Option<Vec<String>>,
}

impl Request {
    fn open(self, cancel: Arc<AtomicBool>) -> zarrow::Result<zarrow::Array> {
        let Self { stores, path, options, fields } = self;
        let options = options.with_cancel(cancel);
        let array = match stores {
            Where::Objects(stores) => zarrow::Array::open_object_store(&stores?, &path, options)?,
            Where::Bridge(bridge) => zarrow::Array::open_async(bridge, &path, options)?,
        };
        let Some(fields) = fields else { return Ok(array) };
        array.with_fields(&fields.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Opens an array in a store that is not on this machine. Its only argument is a dict of `Remote`.
#[pyfunction]
#[pyo3(signature = (arguments, watch = None))]
pub(crate) fn _open_remote(
    py: Python<'_>,
    arguments: Bound<'_, PyDict>,
    watch: Option<Bound<'_, PyDict>>,
) -> PyResult<Array> {
    let _inside = called(py);
    let (request, foreign) = request(&arguments, watch.as_ref())?;
    let inner = interruptibly(py, None, |cancel| request.open(cancel))?;
    Ok(Array { inner, foreign, remote: Some(Held::new(arguments.unbind())) })
}

/// [`_open_remote`] of many arrays, all at once.
#[pyfunction]
#[pyo3(signature = (arguments, watch = None))]
pub(crate) fn _open_remotes(
    py: Python<'_>,
    arguments: Vec<Bound<'_, PyDict>>,
    watch: Option<Bound<'_, PyDict>>,
) -> PyResult<Vec<Array>> {
    let _inside = called(py);
    let requests = arguments.iter().map(|arguments| request(arguments, watch.as_ref()));
    let (requests, foreign): (Vec<_>, Vec<_>) = requests.collect::<PyResult<Vec<_>>>()?.into_iter().unzip();
    let concurrency = match watch {
        Some(watch) => watch.extract::<Watch<'_>>()?.concurrency,
        None => None,
    };
    let at_once = concurrency.map_or(AT_ONCE, |concurrency| concurrency.min(AT_ONCE));
    let opened = interruptibly(py, None, |cancel| open_all(requests, at_once, &cancel))?;
    let array = |((inner, foreign), arguments): ((_, _), Bound<'_, PyDict>)| Array {
        inner,
        foreign,
        remote: Some(Held::new(arguments.unbind())),
    };
    Ok(opened.into_iter().zip(foreign).zip(arguments).map(array).collect())
}

/// Arrays that are opened at once: each takes a thread, which waits most of the time.
const AT_ONCE: usize = 64;

/// Ends the others that open arrays when it is dropped: also where one panics.
struct EndsOthers<'a>(&'a AtomicBool);

impl Drop for EndsOthers<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Opens all. The first that fails ends the others.
fn open_all(requests: Vec<Request>, at_once: usize, cancel: &Arc<AtomicBool>) -> zarrow::Result<Vec<zarrow::Array>> {
    let count = requests.len();
    let requests = Mutex::new(requests.into_iter().enumerate());
    let opened = Mutex::new(Vec::with_capacity(count));
    let open = || {
        loop {
            let request = lock(&requests).next();
            let Some((number, request)) = request else { return };
            let ends_others = EndsOthers(cancel);
            let array = request.open(cancel.clone());
            if array.is_ok() {
                std::mem::forget(ends_others);
            }
            lock(&opened).push((number, array));
        }
    };
    thread::scope(|scope| {
        for _ in 1..count.min(at_once) {
            let thread = thread::Builder::new().spawn_scoped(scope, || {
                fork::set_own_thread();
                open();
            });
            if thread.is_err() {
                // Those that there are open all.
                break;
            }
        }
        open();
    });
    let mut opened = opened.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Of several that failed, the first that was not ended by another.
    opened.sort_by_key(|(number, array)| {
        let is_cancelled = array.as_ref().is_err_and(|error| error.kind() == ErrorKind::Cancelled);
        (is_cancelled, *number)
    });
    opened.into_iter().map(|(_, array)| array).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What to open, and what decodes chunks with codecs that zarrow does not have.
fn request(arguments: &Bound<'_, PyDict>, watch: Option<&Bound<'_, PyDict>>) -> PyResult<(Request, Option<Py<PyAny>>)> {
    let py = arguments.py();
    let Remote { kind, store, storage_options, path, zarr_format, fields, foreign, metadata } = arguments.extract()?;
    let format = zarr_format.map(|format| if format == 2 { ZarrFormat::V2 } else { ZarrFormat::V3 });
    let codecs = foreign.as_ref().map(|foreign| Arc::new(ForeignCodecs::new(foreign.clone_ref(py))) as Arc<_>);
    let mut options = OpenOptions::from(format).with_foreign_codecs(codecs);
    if let Some(metadata) = metadata {
        options = with_metadata(options, &metadata)?;
    }
    if kind == "bridge" {
        options = options.with_store_name(store.repr()?.to_string());
    }
    if let Some(watch) = watch {
        let Watch { timeout, cancel, .. } = watch.extract()?;
        options = options.with_timeout(timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()));
        if let Some(canceller) = cancel {
            options = options.with_cancel(canceller.get().0.clone());
        }
    }
    let stores = Where::new(&kind, &store, storage_options)?;
    Ok((Request { stores, path, options, fields }, foreign))
}

fn with_metadata(options: OpenOptions, documents: &Bound<'_, PyDict>) -> PyResult<OpenOptions> {
    let get = |name: &str| documents.get_item(name)?.map(|bytes| bytes.extract::<Vec<u8>>()).transpose();
    Ok(match (get("zarr.json")?, get(".zarray")?) {
        (Some(document), _) => options.with_metadata(ZarrFormat::V3, &document, None),
        (None, Some(document)) => options.with_metadata(ZarrFormat::V2, &document, get(".zattrs")?.as_deref()),
        (None, None) => options,
    })
}

/// The values of `keys` in an object store, None for those that it does not hold.
#[pyfunction]
pub(crate) fn _remote_get(
    py: Python<'_>,
    kind: &str,
    store: Bound<'_, PyAny>,
    storage_options: Option<Bound<'_, PyDict>>,
    keys: Vec<String>,
) -> PyResult<Vec<Option<Vec<u8>>>> {
    let _inside = called(py);
    match Where::new(kind, &store, storage_options)? {
        Where::Objects(stores) => interruptibly(py, None, |cancel| stores?.get(&keys, cancel)),
        Where::Bridge(_) => Err(PyValueError::new_err("a bridge is asked directly")),
    }
}

/// The names of what lies below `path` in an object store.
#[pyfunction]
pub(crate) fn _remote_list(
    py: Python<'_>,
    kind: &str,
    store: Bound<'_, PyAny>,
    storage_options: Option<Bound<'_, PyDict>>,
    path: String,
) -> PyResult<Vec<String>> {
    let _inside = called(py);
    match Where::new(kind, &store, storage_options)? {
        Where::Objects(stores) => interruptibly(py, None, |cancel| stores?.list(&path, cancel)),
        Where::Bridge(_) => Err(PyValueError::new_err("a bridge is asked directly")),
    }
}

/// A store that is not on this machine.
enum Where {
    Objects(zarrow::Result<ObjectStores>),
    Bridge(Arc<Bridge>),
}

impl Where {
    fn new(kind: &str, store: &Bound<'_, PyAny>, options: Option<Bound<'_, PyDict>>) -> PyResult<Self> {
        match kind {
            "url" => {
                let url: String = store.extract()?;
                let options: Vec<(String, String)> = match options {
                    Some(options) => options.items().extract()?,
                    None => Vec::new(),
                };
                Ok(Self::Objects(ObjectStores::from_url(&url, options)))
            }
            "object" => {
                // What cannot be made anew is told now, as an exception.
                let _: PyExternalObjectStore = store.extract()?;
                let (location, store) = (store.repr()?.to_string(), Held::new(store.clone().unbind()));
                let make = move || {
                    attach(|py| {
                        let store = store.get(py).map_err(told)?;
                        Ok(store.extract::<PyExternalObjectStore>().map_err(told)?.into_dyn())
                    })
                    .unwrap_or_else(ended)
                };
                Ok(Self::Objects(Ok(ObjectStores::new(make, location))))
            }
            "bridge" => Ok(Self::Bridge(Arc::new(Bridge(Held::new(store.clone().unbind()))))),
            other => Err(PyValueError::new_err(format!("a store of kind {other:?}"))),
        }
    }
}

/// A store of Python: an object with a method `ask(key, start, stop, suffix, reply)`, which returns at once, and has
/// `reply` called later, from any thread, with the bytes, None, or an exception. Of `start` and `suffix`, one is None, and
/// both where the whole value is wanted; `stop` may be None. It gives None, or what has a method `cancel()`.
struct Bridge(Held<Py<PyAny>>);

/// A request that is under way. Dropped before it was answered, it is cancelled.
struct UnderWay(Option<Held<Py<PyAny>>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(future) = self.0.take() {
            // Where Python ends, so do its requests.
            attach(|py| {
                // Nobody is left to tell that it failed.
                let _ = future.get(py).and_then(|future| future.call_method0("cancel"));
                drop(future);
            });
        }
    }
}

/// Takes an answer of a bridge.
#[pyclass(module = "zarrow", frozen)]
pub(crate) struct Reply(Mutex<Option<oneshot::Sender<Result<MaybeBytes, PythonError>>>>);

/// An exception of a store, as text.
#[derive(Debug)]
struct PythonError(String);

impl fmt::Display for PythonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[pymethods]
impl Reply {
    /// Takes the value, None if there is none, or what went wrong.
    fn __call__(&self, value: Option<PyBackedBytes>, error: Option<String>) {
        let sender = lock(&self.0).take();
        let value = match error {
            Some(error) => Err(PythonError(error)),
            None => Ok(value.map(|value| Bytes::from_owner(Held::new(value)))),
        };
        if let Some(sender) = sender {
            // Who asked may have gone.
            let _ = sender.send(value);
        }
    }

    /// Whether nobody waits for the answer any more.
    fn is_abandoned(&self) -> bool {
        let sender = lock(&self.0);
        sender.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl Bridge {
    async fn ask(&self, key: &StoreKey, range: Option<ByteRange>) -> Result<MaybeBytes, StorageError> {
        let (sender, receiver) = oneshot::channel();
        let asked: Option<Result<UnderWay, StorageError>> = attach(|py| {
            let (start, stop, suffix) = match range {
                None => (None, None, None),
                Some(ByteRange::FromStart(start, len)) => (Some(start), len.map(|len| start + len), None),
                Some(ByteRange::Suffix(len)) => (None, None, Some(len)),
            };
            let ask = || {
                let reply = Py::new(py, Reply(Mutex::new(Some(sender))))?;
                self.0.get(py)?.call_method1("ask", (key.as_str(), start, stop, suffix, reply))
            };
            // The text alone: an exception is not for threads without Python.
            let future = ask().map_err(|error| StorageError::Other(error.to_string()))?;
            Ok(UnderWay((!future.is_none()).then(|| Held::new(future.unbind()))))
        });
        let mut under_way = asked.unwrap_or_else(|| Err(StorageError::Other("Python is ending".to_owned())))?;
        let answer = receiver.await;
        under_way.0 = None;
        match answer {
            Ok(answer) => answer.map_err(|error| StorageError::Other(error.to_string())),
            Err(_) => Err(StorageError::Other("the store never answered".to_owned())),
        }
    }
}

#[async_trait::async_trait]
impl AsyncReadableStorageTraits for Bridge {
    async fn get(&self, key: &StoreKey) -> Result<MaybeBytes, StorageError> {
        self.ask(key, None).await
    }

    async fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> Result<AsyncMaybeBytesIterator<'a>, StorageError> {
        let mut found = Vec::new();
        for range in ranges {
            match self.ask(key, Some(range)).await? {
                Some(bytes) => found.push(Ok(bytes)),
                None => return Ok(None),
            }
        }
        Ok(Some(Box::pin(futures_util::stream::iter(found))))
    }

    async fn get_partial<'a>(&'a self, key: &StoreKey, range: ByteRange) -> Result<MaybeBytes, StorageError> {
        self.ask(key, Some(range)).await
    }

    async fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        Ok(self.ask(key, None).await?.map(|bytes| bytes.len() as u64))
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

/// What `__reduce__` of an array in such a store gives.
pub(crate) fn reduce<'py>(
    py: Python<'py>,
    arguments: &Held<Py<PyDict>>,
    fields: Option<Bound<'py, PyTuple>>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
    let arguments = arguments.get(py)?.copy()?;
    arguments.set_item("fields", fields)?;
    let open = py.import("zarrow._zarrow")?.getattr("_open_remote")?;
    Ok((open, (arguments,).into_pyobject(py)?))
}
