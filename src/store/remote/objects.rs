//! Object stores and HTTP servers, by `object_store`.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::ffi::OsString;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use http_body::{Body, Frame, SizeHint};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
    ReqwestConnector,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, GetOptions, GetRange, ObjectMeta, ObjectStore, RetryConfig};
use zarrs::storage::{Bytes, StoreKey};

use super::{Answer, MODIFIED, Remote, Reply, Want, wait};
use crate::cache::Version;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::store::remote::flow::Pushbacks;

/// A failure of what makes clients.
type Failure = Box<dyn StdError + Send + Sync>;

/// Makes clients, which tell the counter of answers that ask for fewer requests.
type Make = dyn Fn(&Pushbacks) -> Result<Arc<dyn ObjectStore>> + Send + Sync;

/// How to reach an object store or HTTP server, and where in it arrays lie.
///
/// The client of it is made when it is used, and made anew in a process that was forked.
#[derive(Clone)]
pub struct ObjectStores {
    make: Arc<Make>,
    prefix: String,
    location: String,
    /// What tells it from all others: the URL, the options and the environment.
    identity: Option<String>,
    /// What tells its server, and the way there, from others.
    link: Option<String>,
    /// Whether it lists what it holds.
    lists: bool,
    /// How failed requests are repeated.
    retry: RetryConfig,
}

/// The options that are not the client's own, with what they set.
const RETRY_OPTIONS: [&str; 5] = ["max_retries", "retry_timeout", "init_backoff", "max_backoff", "backoff_base"];

impl ObjectStores {
    /// The store that `url` names: `s3://`, `gs://`, `az://`, `abfs[s]://`, `http://` or `https://`, with a prefix.
    ///
    /// `options` are those of the `object_store` crate, by its names, such as `aws_region`, `aws_endpoint`, `skip_signature`
    /// (for anonymous access), `allow_http` and `timeout`; the environment (`AWS_...`, `GOOGLE_...`, `AZURE_...`) gives the
    /// rest. Further, how failed requests are repeated: `max_retries`, `retry_timeout`, `init_backoff` and `max_backoff` (in
    /// seconds) and `backoff_base`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the URL or an option is not known.
    pub fn from_url<K: AsRef<str>, V: AsRef<str>>(
        url: &str,
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self> {
        let (mut retry, mut client, mut identity) = (RetryConfig::default(), Vec::new(), url.to_owned());
        for (name, value) in options {
            let (name, value) = (name.as_ref().to_lowercase(), value.as_ref().to_owned());
            if RETRY_OPTIONS.contains(&&*name) {
                set_retry(&mut retry, &name, &value)?;
            } else {
                identity.extend(["\0", &name, "\0", &value]);
                client.push((name, value));
            }
        }
        let unknown = || {
            Error::new(ErrorKind::Unsupported, format!("the URL '{url}'"))
                .expected("s3://, gs://, az://, abfs://, abfss://, http:// or https://, and where the array lies")
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(unknown)?;
        let scheme = scheme.to_ascii_lowercase();
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() {
            return Err(unknown());
        }
        let is_http = matches!(&*scheme, "http" | "https");
        // object_store knows it by one name.
        let scheme = if scheme == "gcs" { "gs".to_owned() } else { scheme };
        let root = if is_http { url.trim_end_matches('/').to_owned() } else { format!("{scheme}://{authority}") };
        let kind = match &*scheme {
            "s3" | "s3a" => Kind::S3,
            "gs" | "gcs" => Kind::Gcs,
            "az" | "azure" | "adl" | "abfs" | "abfss" => Kind::Azure,
            "http" | "https" if rest.contains(['?', '#']) => {
                return Err(unknown().remedy("Give the URL without a query."));
            }
            "http" | "https" => Kind::Http,
            _ => return Err(unknown()),
        };
        if !is_http {
            identity.extend(["\0", &environment()]);
        }
        let options = identity.strip_prefix(url).unwrap_or_default();
        let link = format!("{scheme}://{authority}{options}");
        let repeat = retry.clone();
        let make = move |pushbacks: &Pushbacks| make(kind, &root, &client, &repeat, pushbacks);
        // What is wrong with the options is told now.
        make(&Pushbacks::default()).map_err(|error| error.at_array(url))?;
        let prefix = if is_http { "" } else { path };
        let (prefix, location) = (prefix.trim_matches('/').to_owned(), url.to_owned());
        Ok(Self {
            make: Arc::new(make),
            prefix,
            location,
            identity: Some(identity),
            link: Some(link),
            lists: !is_http,
            retry,
        })
    }

    /// The store that `make` makes, and what it is called in errors.
    pub fn new(
        make: impl Fn() -> Result<Arc<dyn ObjectStore>, Failure> + Send + Sync + 'static,
        location: impl Into<String>,
    ) -> Self {
        let make = move |_: &Pushbacks| {
            make().map_err(|source| {
                Error::new(ErrorKind::Store, "the store could not be made")
                    .source(Boxed(source))
                    .remedy("See to its options.")
            })
        };
        Self {
            make: Arc::new(make),
            prefix: String::new(),
            location: location.into(),
            identity: None,
            link: None,
            lists: true,
            // Its client repeats them by a policy of its own.
            retry: RetryConfig { max_retries: 0, ..RetryConfig::default() },
        }
    }

    /// The values of metadata documents at `keys`, below the prefix, each `None` if the store does not hold it. All are asked
    /// for at once; those beside a `zarr.json` are hardly waited for, and may be `None` though they are there.
    ///
    /// # Errors
    /// [`ErrorKind::Store`] if the store fails, [`ErrorKind::Cancelled`] soon after `cancel` becomes true.
    pub fn get(&self, keys: &[String], cancel: Arc<AtomicBool>) -> Result<Vec<Option<Vec<u8>>>> {
        super::get(Remote::of_objects(self.clone()), keys, cancel).map_err(|error| error.at_array(&self.location))
    }

    /// The names of what lies right below `path`, below the prefix.
    ///
    /// # Errors
    /// As [`get`](Self::get); HTTP servers do not list.
    pub fn list(&self, path: &str, cancel: Arc<AtomicBool>) -> Result<Vec<String>> {
        if !self.lists {
            return Err(Error::new(ErrorKind::Store, "an HTTP server does not list what it holds")
                .at_array(&self.location)
                .expected("a group with consolidated metadata")
                .remedy("Open its members by their names."));
        }
        let objects = Objects::new(self.clone(), Pushbacks::default());
        let full = [&*self.prefix, path].map(|part| part.trim_matches('/')).join("/");
        let full = full.trim_matches('/').to_owned();
        let listed = async move {
            let prefix =
                Path::parse(&full).map_err(|source| Error::new(ErrorKind::Store, "no valid key").source(source))?;
            let listed = objects.store()?.list_with_delimiter(Some(&prefix)).await.map_err(failed)?;
            let name = |path: &Path| path.filename().map(ToOwned::to_owned);
            Ok(listed.common_prefixes.iter().filter_map(name).collect())
        };
        let listed = wait(listed, &Cancel::default().with(cancel)).flatten();
        listed.map_err(|error: Error| error.at_array(&self.location))
    }

    pub(super) fn link(&self) -> Option<&str> {
        self.link.as_deref()
    }

    /// What the store is called in errors: its URL.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }
}

impl fmt::Debug for ObjectStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its options hold secrets.
        f.debug_struct("ObjectStores").field("location", &self.location).finish_non_exhaustive()
    }
}

/// An error that is not known by type.
#[derive(Debug)]
struct Boxed(Failure);

impl fmt::Display for Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Boxed {}

#[derive(Debug, Clone, Copy)]
enum Kind {
    S3,
    Gcs,
    Azure,
    Http,
}

/// A hash of what object stores look for in the environment, which may hold secrets.
fn environment() -> String {
    let is_read = |(name, _): &(OsString, OsString)| {
        let name = name.to_string_lossy();
        ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|start| name.starts_with(start))
    };
    let mut read: Vec<_> = std::env::vars_os().filter(is_read).collect();
    read.sort();
    let mut hasher = DefaultHasher::new();
    read.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}

fn set_retry(retry: &mut RetryConfig, name: &str, value: &str) -> Result<()> {
    let wrong = |expected: &str| {
        Error::new(ErrorKind::Unsupported, format!("the storage option {name} is '{value}'")).expected(expected)
    };
    let seconds = || {
        let number = value.trim_end_matches('s').parse().ok();
        let duration = number.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        duration.ok_or_else(|| wrong("a number of seconds"))
    };
    match name {
        "max_retries" => retry.max_retries = value.parse().map_err(|_| wrong("a whole number"))?,
        "retry_timeout" => retry.retry_timeout = seconds()?,
        "init_backoff" => retry.backoff.init_backoff = seconds()?,
        "max_backoff" => retry.backoff.max_backoff = seconds()?,
        _ => {
            let base = value.parse().ok().filter(|base: &f64| base.is_finite() && *base >= 1.0);
            retry.backoff.base = base.ok_or_else(|| wrong("a number of at least 1"))?;
        }
    }
    Ok(())
}

/// Sets options by their names.
fn with_options<B, K: FromStr>(builder: B, options: &[(String, String)], set: impl Fn(B, K, &str) -> B) -> Result<B> {
    options.iter().try_fold(builder, |builder, (name, value)| {
        let known = name.parse().map_err(|_| {
            Error::new(ErrorKind::Unsupported, format!("the storage option '{name}'"))
                .expected("a configuration key of object_store for this kind of store")
        })?;
        Ok(set(builder, known, value))
    })
}

fn make(
    kind: Kind,
    root: &str,
    options: &[(String, String)],
    retry: &RetryConfig,
    pushbacks: &Pushbacks,
) -> Result<Arc<dyn ObjectStore>> {
    let (connector, retry) = (Connector(pushbacks.clone()), retry.clone());
    let made: Result<Arc<dyn ObjectStore>, object_store::Error> = match kind {
        Kind::S3 => {
            let builder = AmazonS3Builder::from_env().with_url(root).with_retry(retry).with_http_connector(connector);
            with_options(builder, options, |b, key, value| b.with_config(key, value))?.build().map(|s| Arc::new(s) as _)
        }
        Kind::Gcs => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(root).with_retry(retry);
            let builder = builder.with_http_connector(connector);
            with_options(builder, options, |b, key, value| b.with_config(key, value))?.build().map(|s| Arc::new(s) as _)
        }
        Kind::Azure => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(root).with_retry(retry);
            let builder = builder.with_http_connector(connector);
            with_options(builder, options, |b, key, value| b.with_config(key, value))?.build().map(|s| Arc::new(s) as _)
        }
        Kind::Http => {
            // Who writes http:// means it.
            let client = ClientOptions::new().with_allow_http(true);
            let builder = HttpBuilder::new().with_url(root).with_client_options(client).with_retry(retry);
            let builder = builder.with_http_connector(connector);
            with_options(builder, options, |b, key, value| b.with_config(key, value))?.build().map(|s| Arc::new(s) as _)
        }
    };
    made.map_err(|source| {
        Error::new(ErrorKind::Unsupported, "the store could not be set up")
            .source(source)
            .remedy("See to the URL, the storage options and the environment.")
    })
}

/// Connects as usual, and counts the answers that ask for fewer requests, which are repeated without us.
#[derive(Debug)]
struct Connector(Pushbacks);

#[derive(Debug)]
struct Watched {
    client: HttpClient,
    pushbacks: Pushbacks,
}

/// The clients of this process by their options: stores with the same ones share connections.
static CLIENTS: Mutex<Option<Clients>> = Mutex::new(None);

struct Clients {
    process: u32,
    by_options: HashMap<String, HttpClient>,
}

/// Options rarely differ; where they do without end, their clients are not kept.
const MOST_CLIENTS: usize = 64;

/// The client with these options.
fn client(options: &ClientOptions) -> object_store::Result<HttpClient> {
    let process = std::process::id();
    let mut clients = fork::lock(&CLIENTS);
    if clients.as_ref().is_none_or(|clients| clients.process != process) {
        // Those of the parent process wait for threads that are not here.
        std::mem::forget(clients.replace(Clients { process, by_options: HashMap::new() }));
    }
    let key = format!("{options:?}");
    if let Some(client) = clients.as_ref().and_then(|clients| clients.by_options.get(&key)) {
        return Ok(client.clone());
    }
    let client = ReqwestConnector::default().connect(options)?;
    if let Some(clients) = clients.as_mut().filter(|clients| clients.by_options.len() < MOST_CLIENTS) {
        clients.by_options.insert(key, client.clone());
    }
    Ok(client)
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Watched { client: client(options)?, pushbacks: self.0.clone() }))
    }
}

/// The server does not take such requests.
#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("405 Method Not Allowed")
    }
}

impl StdError for Refused {}

#[async_trait::async_trait]
impl HttpService for Watched {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = match self.client.execute(request).await {
            // object_store takes it for a value that is not there.
            Ok(answer) if answer.status().as_u16() == 405 => {
                return Err(HttpError::new(HttpErrorKind::Unknown, Refused));
            }
            answer => answer,
        };
        let pushes_back = match &answer {
            Ok(answer) => matches!(answer.status().as_u16(), 429 | 503),
            Err(error) => error.kind() == HttpErrorKind::Timeout,
        };
        if pushes_back {
            self.pushbacks.add();
        }
        let watched = |body| HttpResponseBody::new(WatchedBody { body, pushbacks: self.pushbacks.clone() });
        answer.map(|answer| answer.map(watched))
    }
}

/// The body of an answer; counts it if that does not come in time. What is missing is asked for again without us.
struct WatchedBody {
    body: HttpResponseBody,
    pushbacks: Pushbacks,
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Err(error))) = &frame
            && error.kind() == HttpErrorKind::Timeout
        {
            self.pushbacks.add();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An object store, reached from this process.
pub(super) struct Objects {
    stores: ObjectStores,
    client: Mutex<Option<Client>>,
    pushbacks: Pushbacks,
}

struct Client {
    /// The process whose threads wait for its connections.
    process: u32,
    store: Arc<dyn ObjectStore>,
}

impl Objects {
    pub(super) fn new(stores: ObjectStores, pushbacks: Pushbacks) -> Self {
        Self { stores, client: Mutex::new(None), pushbacks }
    }

    pub(super) fn identity(&self) -> Option<&str> {
        self.stores.identity.as_deref()
    }

    /// How long to wait before each repetition of a request.
    pub(super) fn delays(&self) -> impl Iterator<Item = Duration> + use<> {
        let RetryConfig { backoff, max_retries, retry_timeout } = &self.stores.retry;
        let (first, longest, base) =
            (backoff.init_backoff.as_secs_f64(), backoff.max_backoff.as_secs_f64(), backoff.base);
        let (begun, timeout) = (Instant::now(), *retry_timeout);
        let delays = (0..*max_retries).map(move |tried| {
            let delay = first * base.powi(i32::try_from(tried).unwrap_or(i32::MAX));
            Duration::try_from_secs_f64(delay.min(longest)).unwrap_or_default()
        });
        delays.take_while(move |delay| begun.elapsed() + *delay <= timeout)
    }

    fn store(&self) -> Result<Arc<dyn ObjectStore>> {
        let process = std::process::id();
        let mut client = fork::lock(&self.client);
        if let Some(client) = client.as_ref().filter(|client| client.process == process) {
            return Ok(client.store.clone());
        }
        let store = (self.stores.make)(&self.pushbacks)?;
        if let Some(old) = client.replace(Client { process, store: store.clone() }) {
            // Its connections belong to the parent process.
            std::mem::forget(old.store);
        }
        Ok(store)
    }

    fn path(&self, key: &StoreKey) -> Result<Path> {
        let prefix = &self.stores.prefix;
        let path = if prefix.is_empty() { key.as_str().to_owned() } else { format!("{prefix}/{key}") };
        Path::parse(path).map_err(|source| Error::new(ErrorKind::Store, "no valid key").source(source))
    }

    pub(super) async fn ask(&self, key: &StoreKey, want: &Want, known: Option<&Version>) -> Result<Reply> {
        let (store, path) = (self.store()?, self.path(key)?);
        let range = match want {
            Want::All => None,
            Want::Range(range) => Some(GetRange::Bounded(range.clone())),
            Want::Suffix(len) => Some(GetRange::Suffix(*len)),
        };
        let modified = known.and_then(|version| version.strip_prefix(MODIFIED));
        let mut options = GetOptions {
            range,
            if_none_match: known.filter(|_| modified.is_none()).map(ToString::to_string),
            if_modified_since: modified.and_then(|time| time.parse().ok()),
            ..GetOptions::default()
        };
        let mut answer = store.get_opts(&path, options.clone()).await;
        if let (Err(object_store::Error::NotSupported { source }), Want::Suffix(len)) = (&answer, want) {
            // Of a request that was never sent; what a server says of one tells more than what it says of the other.
            let is_unsent = source.to_string().contains("does not support suffix");
            // Azure knows no suffixes: its length has to be asked for first.
            answer = match store.get_opts(&path, GetOptions { head: true, ..GetOptions::default() }).await {
                Ok(head) => {
                    options.range = Some(GetRange::Bounded(head.meta.size.saturating_sub(*len)..head.meta.size));
                    store.get_opts(&path, options).await
                }
                Err(error @ object_store::Error::NotFound { .. }) => Err(error),
                Err(error) if is_unsent => Err(error),
                Err(_) => answer,
            };
        }
        match answer {
            Ok(answer) => {
                let (len, total) = (answer.range.end - answer.range.start, Some(answer.meta.size));
                let version = version(&answer.meta);
                let body = Box::pin(answer.into_stream().map(|bytes| bytes.map_err(failed)));
                Ok(Reply::Answer(Answer { len, total, version, body }))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(Reply::Absent),
            Err(object_store::Error::NotModified { .. }) if known.is_some() => Ok(Reply::Unchanged),
            Err(error) => Err(failed(error)),
        }
    }
}

/// What tells one writing of a value from another: its `ETag`, else when it was written. A server may know neither.
fn version(meta: &ObjectMeta) -> Option<Version> {
    let modified = Some(meta.last_modified).filter(|time| time.timestamp() != 0);
    meta.e_tag.as_deref().map(Into::into).or_else(|| Some(format!("{MODIFIED}{}", modified?.to_rfc3339()).into()))
}

/// Whether the server did not allow the request.
pub(super) fn is_forbidden(error: &Error) -> bool {
    use object_store::Error::{PermissionDenied, Unauthenticated};
    let source = error.source().and_then(|source| source.downcast_ref());
    matches!(source, Some(PermissionDenied { .. } | Unauthenticated { .. }))
}

/// Translates a failure of an object store.
fn failed(source: object_store::Error) -> Error {
    use object_store::Error::{NotSupported, PermissionDenied, Unauthenticated};
    let remedy = match &source {
        PermissionDenied { .. } | Unauthenticated { .. } => {
            "Give credentials that may read it, or skip_signature='true' where anybody may."
        }
        NotSupported { .. } => "Serve the array by a server that can do that.",
        _ => "See that the store can be reached and read, then read again.",
    };
    Error::new(ErrorKind::Store, "the store failed to read").source(source).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body that ends by an error.
    struct Failing(Option<HttpErrorKind>);

    impl Body for Failing {
        type Data = Bytes;
        type Error = HttpError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
            Poll::Ready(self.0.take().map(|kind| Err(HttpError::new(kind, Refused))))
        }
    }

    #[test]
    fn a_body_that_does_not_come_in_time_is_a_pushback() {
        for (kind, counted) in [(HttpErrorKind::Timeout, 1), (HttpErrorKind::Interrupted, 0)] {
            let pushbacks = Pushbacks::default();
            let body = HttpResponseBody::new(Failing(Some(kind)));
            let body = HttpResponseBody::new(WatchedBody { body, pushbacks: pushbacks.clone() });
            let read = futures_util::FutureExt::now_or_never(body.bytes()).unwrap();
            assert_eq!(read.unwrap_err().kind(), kind);
            assert_eq!(pushbacks.count(), counted);
        }
    }
}
