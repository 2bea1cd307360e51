//! What came, and how much of it at once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Counters since the last reset. Requests in flight and open connections stay counted over it.
pub struct Counters {
    pub get: AtomicU64,
    pub head: AtomicU64,
    pub list: AtomicU64,
    pub not_found: AtomicU64,
    pub not_modified: AtomicU64,
    /// Bytes of bodies.
    pub bytes: AtomicU64,
    in_flight: AtomicU64,
    most_in_flight: AtomicU64,
    connections: AtomicU64,
    most_connections: AtomicU64,
    connections_made: AtomicU64,
    /// Microseconds: those of all requests together, and when the first came and the last ended.
    busy: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    begin: Instant,
    /// Which ranges of which objects were asked for.
    asked: Mutex<HashSet<(String, Option<String>)>>,
}

impl Counters {
    pub fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            get: zero(),
            head: zero(),
            list: zero(),
            not_found: zero(),
            not_modified: zero(),
            bytes: zero(),
            in_flight: zero(),
            most_in_flight: zero(),
            connections: zero(),
            most_connections: zero(),
            connections_made: zero(),
            busy: zero(),
            first: AtomicU64::new(u64::MAX),
            last: zero(),
            begin: Instant::now(),
            asked: Mutex::default(),
        }
    }

    pub fn reset(&self) {
        for counter in [
            &self.get,
            &self.head,
            &self.list,
            &self.not_found,
            &self.not_modified,
            &self.bytes,
            &self.connections_made,
            &self.busy,
            &self.last,
        ] {
            counter.store(0, Relaxed);
        }
        self.first.store(u64::MAX, Relaxed);
        self.most_in_flight.store(self.in_flight.load(Relaxed), Relaxed);
        self.most_connections.store(self.connections.load(Relaxed), Relaxed);
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Note what a GET asks for.
    pub fn asks(&self, key: &str, range: Option<&str>) {
        let asked = (key.to_owned(), range.map(str::to_owned));
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(asked);
    }

    /// Count a connection, as open until what is given is dropped.
    pub fn connected(self: &Arc<Self>) -> Connected {
        let open = self.connections.fetch_add(1, Relaxed) + 1;
        self.most_connections.fetch_max(open, Relaxed);
        self.connections_made.fetch_add(1, Relaxed);
        Connected(Arc::clone(self))
    }

    /// Count a request, as in flight until what is given is dropped.
    pub fn came(self: &Arc<Self>) -> InFlight {
        let now = self.in_flight.fetch_add(1, Relaxed) + 1;
        self.most_in_flight.fetch_max(now, Relaxed);
        let since = self.now();
        self.first.fetch_min(since, Relaxed);
        InFlight { counters: Arc::clone(self), since }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// All counters. `distinct` are ranges of objects, `average_in_flight` from the first request to the last.
    pub fn json(&self) -> String {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        let span = of(&self.last).saturating_sub(of(&self.first)).max(1);
        format!(
            concat!(
                r#"{{"get": {}, "head": {}, "list": {}, "not_found": {}, "not_modified": {}, "bytes": {}, "#,
                r#""distinct": {}, "in_flight": {}, "most_in_flight": {}, "average_in_flight": {:.1}, "#,
                r#""connections": {}, "most_connections": {}, "connections_made": {}}}"#
            ),
            of(&self.get),
            of(&self.head),
            of(&self.list),
            of(&self.not_found),
            of(&self.not_modified),
            of(&self.bytes),
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).len(),
            of(&self.in_flight),
            of(&self.most_in_flight),
            of(&self.busy) as f64 / span as f64,
            of(&self.connections),
            of(&self.most_connections),
            of(&self.connections_made),
        )
    }
}

/// An open connection.
pub struct Connected(Arc<Counters>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

/// A request that is not answered to its end.
pub struct InFlight {
    pub counters: Arc<Counters>,
    since: u64,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let now = self.counters.now();
        self.counters.busy.fetch_add(now.saturating_sub(self.since), Relaxed);
        self.counters.last.fetch_max(now, Relaxed);
        self.counters.in_flight.fetch_sub(1, Relaxed);
    }
}
