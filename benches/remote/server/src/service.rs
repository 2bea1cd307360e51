//! One request, and its answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LAST_MODIFIED, RANGE,
};
use hyper::http::response::Builder;
use hyper::{Method, Request, Response, StatusCode};

use crate::body::Paced;
use crate::counters::{Counters, InFlight};
use crate::listing;
use crate::objects::Objects;
use crate::range::{self, Asked};

/// The only bucket.
pub const BUCKET: &str = "bench";
pub const LAST_MODIFIED_ISO: &str = "2026-01-01T00:00:00.000Z";
const LAST_MODIFIED_HTTP: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

/// How slow answers are.
#[derive(Default)]
pub struct Settings {
    microseconds: AtomicU64,
    bytes_per_second: AtomicU64,
}

impl Settings {
    pub fn set(&self, milliseconds: f64, bytes_per_second: f64) {
        self.microseconds.store((milliseconds * 1e3) as u64, Relaxed);
        self.bytes_per_second.store(bytes_per_second as u64, Relaxed);
    }
}

/// The objects, and what all requests share.
pub struct Service {
    pub objects: Objects,
    pub counters: Arc<Counters>,
    pub settings: Settings,
}

/// What is known of an answer before its request waits.
struct Answer {
    head: Builder,
    content: Bytes,
}

impl Service {
    pub fn new(objects: Objects) -> Self {
        Self { objects, counters: Arc::new(Counters::new()), settings: Settings::default() }
    }

    /// Answer a request, after the latency.
    pub async fn answer(&self, request: Request<Incoming>) -> Result<Response<Paced>, Infallible> {
        let flight = self.counters.came();
        let latency = self.settings.microseconds.load(Relaxed);
        if latency > 0 {
            tokio::time::sleep(Duration::from_micros(latency)).await;
        }
        Ok(self.respond(&request, flight))
    }

    fn respond(&self, request: &Request<Incoming>, flight: InFlight) -> Response<Paced> {
        let headers = request.method() == Method::HEAD;
        let Answer { mut head, mut content } = if headers || request.method() == Method::GET {
            self.find(request)
        } else {
            plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD")
        };
        if headers {
            head = head.header(CONTENT_LENGTH, content.len());
            content = Bytes::new();
        }
        let rate = self.settings.bytes_per_second.load(Relaxed);
        let body = Paced::new(content, (rate > 0).then_some(rate as f64), flight);
        head.body(body).expect("all headers are made of plain text")
    }

    fn find(&self, request: &Request<Incoming>) -> Answer {
        let path = decode(request.uri().path());
        let key = path.trim_start_matches('/');
        let headers = request.method() == Method::HEAD;
        let in_bucket = key.strip_prefix(BUCKET).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let key = in_bucket.map_or(key, |rest| rest.trim_start_matches('/'));
        let counter = match (headers, in_bucket.is_some() && key.is_empty()) {
            (true, _) => &self.counters.head,
            (false, true) => &self.counters.list,
            (false, false) => &self.counters.get,
        };
        counter.fetch_add(1, Relaxed);
        if in_bucket.is_some() && key.is_empty() {
            return if headers { bucket() } else { self.list(request.uri().query().unwrap_or("")) };
        }
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        let asked = header(RANGE);
        if !headers {
            self.counters.asks(key, asked);
        }
        let Some(content) = self.objects.get(key) else {
            self.counters.not_found.fetch_add(1, Relaxed);
            return missing(in_bucket.is_some());
        };
        let tag = etag(key, content);
        let head = Response::builder()
            .header(ETAG, &tag)
            .header(LAST_MODIFIED, LAST_MODIFIED_HTTP)
            .header(ACCEPT_RANGES, "bytes")
            .header(CONTENT_TYPE, "application/octet-stream");
        if header(IF_NONE_MATCH) == Some(&tag) {
            self.counters.not_modified.fetch_add(1, Relaxed);
            return Answer { head: head.status(StatusCode::NOT_MODIFIED), content: Bytes::new() };
        }
        let length = content.len();
        match range::parse(asked, length) {
            Asked::All => Answer { head, content: content.clone() },
            Asked::Part(range) => Answer {
                head: head
                    .status(StatusCode::PARTIAL_CONTENT)
                    .header(CONTENT_RANGE, format!("bytes {}-{}/{length}", range.start, range.end - 1)),
                content: content.slice(range),
            },
            Asked::Unsatisfiable => Answer {
                head: head.status(StatusCode::RANGE_NOT_SATISFIABLE).header(CONTENT_RANGE, format!("bytes */{length}")),
                content: Bytes::new(),
            },
        }
    }

    fn list(&self, query: &str) -> Answer {
        let parameters: Vec<(String, String)> = query
            .split('&')
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(name, value)| (decode(name), decode(&value.replace('+', " "))))
            .collect();
        xml(StatusCode::OK, listing::page(&self.objects, &parameters))
    }
}

/// Name the content of an object. Objects never change.
pub fn etag(key: &str, content: &Bytes) -> String {
    let sum = key.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("\"{sum:08x}{:08x}\"", content.len())
}

fn bucket() -> Answer {
    Answer { head: Response::builder().header("x-amz-bucket-region", "us-east-1"), content: Bytes::new() }
}

fn missing(in_bucket: bool) -> Answer {
    if !in_bucket {
        return plain(StatusCode::NOT_FOUND, "no such object");
    }
    let text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                <Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>";
    xml(StatusCode::NOT_FOUND, text.to_owned())
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    Answer { head: Response::builder().status(status).header(CONTENT_TYPE, "text/plain"), content: text.into() }
}

fn xml(status: StatusCode, text: String) -> Answer {
    Answer { head: Response::builder().status(status).header(CONTENT_TYPE, "application/xml"), content: text.into() }
}

/// Replace each `%XX` by its byte.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        if let Some(byte) = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(b'%');
            rest = after;
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}
