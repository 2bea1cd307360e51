//! The first stage of a read of remote stores: many requests in flight, while other threads decode.
//!
//! One thread, the caller's, decides what is asked for and takes what comes. Requests wait on the runtime of `store`, and
//! what they bring is decoded on the pool, so that neither waits for the other. What was fetched and is not decoded yet is
//! bounded in bytes: an answer that has no room stays in its socket.
//!
//! * [`requests`]: which requests get what is needed.
//! * [`answer`]: one request, and the answer to it.
//! * [`load`]: how many may be in flight, for what they will bring.
//! * [`packet`]: what comes together, and is decoded together.

mod answer;
mod load;
mod packet;
mod requests;

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use rayon::ScopeFifo;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use zarrs::storage::StoreKey;

use self::answer::{Arrival, Brought, Checks, Memory, Request, fetch, panicked, too_little_room};
use self::load::Load;
pub(super) use self::packet::Packet;
use self::packet::{Member, Part};
use self::requests::{coalesce, split};
use super::column::ColumnRead;
use super::fetch::check_encoded_len;
use super::scatter::{Claim, PieceScratch};
use super::stats::Counters;
use crate::cache::{Cached, Found as Lookup, Promise, Version};
use crate::chunk::{Entry, ShardIndex};
use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::flow::{Flow, MOST_GAP, TICK, Window};
use crate::store::remote::{Want, is_exact, runtime};
use crate::store::{changed, short};
use crate::turn;

/// No request asks for more bytes of a value of which it is known how many there are.
const MOST: u64 = 8 << 20;

/// Values that are longer than this are asked for in parts.
const LONG: u64 = 16 << 20;

/// How often it is looked whether the read goes on.
const LOOK: Duration = Duration::from_millis(20);

/// Memory is counted in so many bytes, because a semaphore counts in 32 bits.
const UNIT: usize = 1 << 10;

/// How a read asks remote stores.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asking {
    pub(super) concurrency: Option<usize>,
    pub(super) max_gap: Option<usize>,
    /// Most bytes that may be fetched and not decoded yet; if `None`, many, and more if one answer has more.
    pub(super) room: Option<usize>,
}

/// What all threads of a read share.
pub(super) struct Common<'s> {
    pub(super) counters: &'s Counters,
    /// Whether the read goes on.
    pub(super) go_on: &'s (dyn Fn() -> bool + Sync),
    /// Decodes a packet.
    pub(super) decode: &'s (dyn Fn(Packet<'s>) + Sync),
}

/// What became of a request.
struct Outcome {
    packet: usize,
    flow: Arc<Flow>,
    number: u64,
    /// Until the answer began; `None` if it never did.
    waited: Option<Duration>,
    /// How many bytes it was expected to bring.
    due: usize,
    /// How many of `Stage::arriving` are its.
    admitted: usize,
    /// Whether it was for a whole value.
    is_value: bool,
    brought: Result<Brought>,
}

impl Outcome {
    /// Bytes that came.
    fn bytes(&self) -> usize {
        if let Ok(Brought::Bytes(arrival)) = &self.brought { arrival.bytes.len() } else { 0 }
    }
}

/// An index of a shard.
#[derive(Clone)]
struct Index {
    entries: Arc<ShardIndex>,
    /// What tells this writing of the shard from others.
    version: Option<Version>,
    /// Bytes of the shard, if the store said it.
    total: Option<u64>,
}

/// A read chunk that another read decodes; where it is in a shard, with the index of that.
struct Deferred<'s> {
    read: &'s ColumnRead<'s>,
    claim: Claim,
    index: Option<Index>,
}

/// What is to be done for a read chunk.
enum Step {
    /// Ask for it, if it is not of the version that is known.
    Ask(Member, Option<Version>),
    /// Nothing: it is there, or known to be missing.
    Decode(Member),
    /// Look again later.
    Wait(Claim),
}

/// What a packet is fetched for.
enum Purpose<'s> {
    Decode(Packet<'s>),
    /// The index of a shard, which holds these read chunks of the plan.
    Index {
        read: &'s ColumnRead<'s>,
        chunks: Range<usize>,
        index: Option<Index>,
        promise: Option<Promise>,
    },
}

/// A packet of which something is asked for or under way.
struct Pending<'s> {
    purpose: Purpose<'s>,
    /// Requests that it still needs.
    left: usize,
    /// Bytes of memory that have to be had before the first.
    room: usize,
    /// Requests that were sent.
    tasks: Vec<AbortHandle>,
}

/// The thread that asks.
struct Stage<'s, 'c> {
    common: &'c Common<'s>,
    reads: Vec<(&'s ColumnRead<'s>, usize)>,
    asking: Asking,
    pending: Vec<Option<Pending<'s>>>,
    free: Vec<usize>,
    ready: VecDeque<Request>,
    deferred: Vec<Deferred<'s>>,
    memory: Arc<Semaphore>,
    room: usize,
    /// Bytes of requests in flight that have room.
    arriving: Arc<AtomicUsize>,
    runtime: Handle,
    sender: Sender<Outcome>,
    receiver: Receiver<Outcome>,
    load: Load,
    /// Bytes that came, by link.
    received: Vec<usize>,
    pieces: PieceScratch,
}

/// Fetches the read chunks of all `reads`, and has them decoded in `scope`.
///
/// # Errors
/// The first of any request. Those of decoding are kept by [`Common::decode`].
pub(super) fn run<'s>(
    reads: Vec<&'s ColumnRead<'s>>,
    asking: Asking,
    common: &Common<'s>,
    scope: &ScopeFifo<'s>,
) -> Result<()> {
    let mut flows: Vec<Arc<Flow>> = Vec::new();
    for flow in reads.iter().filter_map(|read| read.remote()).map(|remote| remote.flow()) {
        if !flows.iter().any(|known| Arc::ptr_eq(known, flow)) {
            flows.push(flow.clone());
        }
    }
    // A compressed chunk may be half as long as when it is decoded.
    let guess = reads.iter().map(|read| read.array().decoder().decoded_len() / 2).max().unwrap_or(0);
    let room = asking.room.unwrap_or_else(|| load::room(guess)).clamp(UNIT, u32::MAX as usize) / UNIT * UNIT;
    let (sender, receiver) = channel();
    let mut stage = Stage {
        common,
        reads: reads.into_iter().rev().map(|read| (read, 0)).collect(),
        asking,
        pending: Vec::new(),
        free: Vec::new(),
        ready: VecDeque::new(),
        deferred: Vec::new(),
        memory: Arc::new(Semaphore::new(room / UNIT)),
        room,
        arriving: Arc::default(),
        runtime: runtime()?,
        sender,
        receiver,
        load: Load::new(asking.room.map_or(load::ON_THE_WAY, |_| room), guess),
        received: vec![0; flows.len()],
        pieces: PieceScratch::default(),
    };
    stage.run(&flows, scope)
}

impl<'s> Stage<'s, '_> {
    fn run(&mut self, flows: &[Arc<Flow>], scope: &ScopeFifo<'s>) -> Result<()> {
        let mut window = Window::new(flows.to_vec(), self.asking.concurrency);
        let mut last = Instant::now();
        // When the first answer came.
        let mut begun: Option<Instant> = None;
        while (self.common.go_on)() {
            let mut waits_for_memory = false;
            window.heed();
            while self.load.flying() < window.limit() {
                let Some(request) = self.next(scope)? else { break };
                if let Some(request) = self.send(request)? {
                    self.ready.push_front(request);
                    waits_for_memory = true;
                    break;
                }
            }
            let is_full = self.load.flying() >= window.limit();
            if self.load.flying() == 0 && !waits_for_memory && self.deferred.is_empty() {
                if let Some(begun) = begun {
                    for (flow, received) in flows.iter().zip(&self.received) {
                        flow.received(*received, begun.elapsed());
                    }
                }
                return Ok(());
            }
            self.common.counters.in_flight(self.load.flying());
            self.common.counters.waiting(self.held());
            let is_early = waits_for_memory || !self.deferred.is_empty() || (is_full && window.may_grow());
            let wait = if is_early { TICK } else { LOOK };
            match self.receiver.recv_timeout(wait) {
                Ok(outcome) => {
                    last = Instant::now();
                    let mut next = Some(outcome);
                    while let Some(outcome) = next {
                        if let Some(waited) = outcome.waited {
                            begun.get_or_insert(last);
                            window.answered(&outcome.flow, waited, is_full);
                        }
                        if let Some(link) = flows.iter().position(|flow| Arc::ptr_eq(flow, &outcome.flow)) {
                            self.received[link] += outcome.bytes();
                        }
                        self.take(outcome, scope)?;
                        next = self.receiver.try_recv().ok();
                    }
                }
                Err(RecvTimeoutError::Timeout) if is_full => window.silent(last.elapsed()),
                Err(_) => {}
            }
            for Deferred { read, claim, index } in std::mem::take(&mut self.deferred) {
                if !(self.common.go_on)() {
                    break;
                }
                let chunk = claim.chunk();
                match index {
                    None => self.ask_chunk(read, claim, scope),
                    index => self.ask_subchunks(read, vec![claim], index.as_ref(), scope),
                }
                .map_err(|error| read.locate_error(error, chunk))?;
            }
        }
        Ok(())
    }

    /// The next request. Decodes what needs none.
    fn next(&mut self, scope: &ScopeFifo<'s>) -> Result<Option<Request>> {
        loop {
            if let Some(request) = self.ready.pop_front() {
                return Ok(Some(request));
            }
            if !(self.common.go_on)() {
                return Ok(None);
            }
            let Some((read, at)) = self.reads.last_mut() else { return Ok(None) };
            let (read, chunk) = (*read, *at);
            let chunks = read.part().groups().chunks();
            if chunk >= chunks.len() {
                self.reads.pop();
                continue;
            }
            turn::offer();
            if read.array().sharding().is_none() {
                *at += 1;
                let Some(claim) = read.claim_chunk(chunk) else { continue };
                self.ask_chunk(read, claim, scope).map_err(|error| read.locate_error(error, chunk))?;
            } else {
                let shard = read.part().grid().shard(chunks[chunk]);
                let len = chunks[chunk..].partition_point(|&id| read.part().grid().shard(id) == shard);
                *at += len;
                self.ask_index(read, chunk..chunk + len, scope).map_err(|error| read.locate_error(error, chunk))?;
            }
        }
    }

    /// Asks for an unsharded read chunk: for all of it, or where it is stored as it is, for what is wanted.
    fn ask_chunk(&mut self, read: &'s ColumnRead<'s>, claim: Claim, scope: &ScopeFifo<'s>) -> Result<()> {
        let (member, known) = match look(read, claim, None, None) {
            Step::Ask(member, known) => (member, known),
            Step::Decode(member) => {
                self.decode(Packet::of(read, member), scope);
                return Ok(());
            }
            Step::Wait(claim) => {
                self.deferred.push(Deferred { read, claim, index: None });
                return Ok(());
            }
        };
        let key = read.key(member.claim.chunk());
        let differing = read.differing_decoder(member.claim.chunk())?;
        let decoder = differing.as_deref().unwrap_or(read.array().decoder());
        let len = decoder.decoded_len() as u64;
        let ranges = read.ranges(decoder, &member.claim, self.gap(read), &mut self.pieces)?;
        let is_long = read.is_stored_as_is(decoder) && len > LONG && known.is_none();
        if ranges.is_none() && !is_long {
            let checks = Checks { most: decoder.max_encoded_len(), known, ..Checks::default() };
            self.ask(Packet::of(read, member), &key, vec![Want::All], 0, &checks);
            return Ok(());
        }
        let ranges = ranges.unwrap_or_else(|| std::iter::once(0..len as usize).collect());
        let room = ranges.iter().map(Range::len).sum();
        let member = Member { bytes: Some(0..len), ..member };
        let checks = Checks { total: Some(len), ..Checks::default() };
        self.ask(Packet::of(read, member), &key, wants(&ranges, 0), room, &checks);
        Ok(())
    }

    fn ask_index(&mut self, read: &'s ColumnRead<'s>, chunks: Range<usize>, scope: &ScopeFifo<'s>) -> Result<()> {
        let key = read.key(chunks.start);
        let shard = read.part().grid().shard(read.part().groups().chunks()[chunks.start]);
        let Some(sharding) = read.array().sharding_of(shard)? else { return Ok(()) };
        let (mut index, mut promise): (Option<Index>, _) = (None, None);
        if let Some((cache, at)) = read.cached_index(shard) {
            let rechecks = cache.rechecks() && read.remote().is_some_and(|remote| remote.has_versions());
            match cache.look(at, None) {
                Lookup::Hit(Cached::Index(entries), version) => index = Some(Index { entries, version, total: None }),
                // What is missing may be written any time.
                Lookup::Hit(..) if !rechecks => {
                    self.decode_missing(read, claims(read, chunks), scope);
                    return Ok(());
                }
                Lookup::Miss(made) => promise = Some(made),
                _ => {}
            }
            if index.is_some() && !rechecks {
                return self.ask_subchunks(read, claims(read, chunks), index.as_ref(), scope);
            }
        }
        let len = sharding.encoded_len();
        let want = if sharding.is_at_end() { Want::Suffix(len) } else { Want::Range(0..len) };
        // An index of another writing would be taken for this one's, and times are in whole seconds.
        let known = index.as_ref().and_then(|index| index.version.clone()).filter(is_exact);
        let index = index.filter(|_| known.is_some());
        let purpose = Purpose::Index { read, chunks, index, promise };
        self.add((purpose, 0), read, &key, vec![want], &Checks { known, ..Checks::default() });
        Ok(())
    }

    /// Takes the index of a shard, and asks for the subchunks that are needed.
    fn take_index(
        &mut self,
        (read, chunks): (&'s ColumnRead<'s>, Range<usize>),
        known: Option<Index>,
        promise: Option<Promise>,
        brought: Brought,
        scope: &ScopeFifo<'s>,
    ) -> Result<()> {
        let shard = read.part().grid().shard(read.part().groups().chunks()[chunks.start]);
        let index = match (brought, read.array().sharding_of(shard)?) {
            (Brought::Bytes(Arrival { bytes, version, total, .. }), Some(sharding)) => {
                self.common.counters.fetched_index(bytes.len());
                let entries = Arc::new(sharding.decode(&bytes)?);
                let promise = promise.or_else(|| match read.cached_index(shard).map(|(cache, at)| cache.renew(at)) {
                    Some(Lookup::Miss(promise)) => Some(promise),
                    _ => None,
                });
                if let Some(promise) = promise {
                    promise.keep(Cached::Index(entries.clone()), version.clone());
                }
                Some(Index { entries, version, total })
            }
            (Brought::NothingNew, _) => known,
            (Brought::Nothing, _) => {
                if let Some(promise) = promise {
                    promise.keep(Cached::Absent, None);
                }
                None
            }
            _ => None,
        };
        self.ask_subchunks(read, claims(read, chunks), index.as_ref(), scope)
    }

    /// Asks for subchunks of a shard, of which the index came. Decodes those that are there, or that it does not hold.
    fn ask_subchunks(
        &mut self,
        read: &'s ColumnRead<'s>,
        claims: Vec<Claim>,
        index: Option<&Index>,
        scope: &ScopeFifo<'s>,
    ) -> Result<()> {
        let Some(first) = claims.first() else { return Ok(()) };
        let (key, part) = (read.key(first.chunk()), read.part());
        let version = index.and_then(|index| index.version.clone());
        let total = index.and_then(|index| index.total);
        let (mut wanted, mut there) = (Vec::new(), Packet::new(read));
        // Subchunks are all of one shape.
        let decoder = read.array().decoder();
        for claim in claims {
            let id = part.groups().chunks()[claim.chunk()];
            let entry = index.map(|index| index.entries.entry(part.grid().in_shard(id)));
            let Some(Entry::Bytes { start, len }) = entry.transpose()? else {
                there.add(Member::new(claim, None));
                continue;
            };
            check_encoded_len(decoder, len)?;
            if let Some(total) = total.filter(|total| start + len > *total) {
                return Err(short(total, start + len));
            }
            let member = match look(read, claim, Some(start..start + len), version.as_ref()) {
                Step::Ask(member, None) => member,
                // It was kept with an index that is no longer known.
                Step::Ask(member, Some(_)) => Member { cached: None, ..member },
                Step::Decode(member) => {
                    there.add(member);
                    continue;
                }
                Step::Wait(claim) => {
                    self.deferred.push(Deferred { read, claim, index: index.cloned() });
                    continue;
                }
            };
            let is_as_is = read.is_stored_as_is(decoder) && len == decoder.decoded_len() as u64;
            let gap = self.gap(read);
            let ranges = if is_as_is { read.ranges(decoder, &member.claim, gap, &mut self.pieces)? } else { None };
            if let Some(ranges) = ranges {
                let room = ranges.iter().map(Range::len).sum();
                let packet = Packet::of(read, member).promised(version.clone());
                self.ask(packet, &key, wants(&ranges, start), room, &Checks::default());
            } else {
                wanted.push((start..start + len, member));
            }
        }
        if !there.is_empty() {
            self.decode(there, scope);
        }
        for span in coalesce(wanted, self.gap(read) as u64, MOST) {
            let mut packet = Packet::new(read).promised(version.clone());
            for (_, member) in span.members {
                packet.add(member);
            }
            let len = span.bytes.end - span.bytes.start;
            if len == 0 {
                packet.set_empty();
                self.decode(packet, scope);
            } else if len > LONG && (total.is_some() || decoder.max_encoded_len().is_some()) {
                let wants = split(&span.bytes, MOST).map(Want::Range).collect();
                self.ask(packet, &key, wants, len as usize, &Checks::default());
            } else {
                self.ask(packet, &key, vec![Want::Range(span.bytes)], 0, &Checks::default());
            }
        }
        Ok(())
    }

    /// Has read chunks filled in of which the cache knows that they are missing.
    fn decode_missing(&self, read: &'s ColumnRead<'s>, claims: Vec<Claim>, scope: &ScopeFifo<'s>) {
        let mut packet = Packet::new(read);
        for claim in claims {
            packet.add(Member { cached: Some(Cached::Absent), ..Member::new(claim, None) });
        }
        if !packet.is_empty() {
            self.decode(packet, scope);
        }
    }

    /// The gap between two ranges that is better read over, in bytes.
    fn gap(&self, read: &ColumnRead<'_>) -> usize {
        let most = self.asking.max_gap.unwrap_or(MOST_GAP);
        read.remote().map_or(0, |remote| remote.flow().gap(most))
    }

    fn ask(&mut self, packet: Packet<'s>, key: &StoreKey, wants: Vec<Want>, room: usize, checks: &Checks) {
        let read = packet.read();
        self.add((Purpose::Decode(packet), room), read, key, wants, checks);
    }

    fn add(
        &mut self,
        (purpose, room): (Purpose<'s>, usize),
        read: &ColumnRead<'_>,
        key: &StoreKey,
        wants: Vec<Want>,
        checks: &Checks,
    ) {
        let Some(remote) = read.remote() else { return };
        let number = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        self.pending[number] = Some(Pending { purpose, left: wants.len(), room, tasks: Vec::new() });
        for want in wants {
            let (key, remote, checks) = (key.clone(), remote.clone(), checks.clone());
            self.ready.push_back(Request { packet: number, key, want, remote, checks, has_room: room > 0 });
        }
    }

    /// Sends a request; gives it back if there is no memory for what it brings.
    ///
    /// # Errors
    /// [`ErrorKind::Allocation`] if there never will be.
    fn send(&mut self, request: Request) -> Result<Option<Request>> {
        let due = self.load.expected(&request.want);
        let undecoded = self.held().saturating_sub(self.arriving.load(Ordering::Relaxed));
        let reach = request.remote.flow().reach();
        if self.asking.concurrency.is_none() && !self.load.may_send(due, undecoded, reach) {
            return Ok(Some(request));
        }
        if let Some(pending) = &mut self.pending[request.packet]
            && pending.room > 0
        {
            if self.asking.room.is_some() && pending.room > self.room {
                let error = too_little_room(pending.room as u64, self.room).at_key(request.key.as_str());
                return Err(match &pending.purpose {
                    Purpose::Decode(packet) => packet.locate_error(error),
                    Purpose::Index { read, .. } => read.name_error(error),
                });
            }
            let Ok(permit) = self.memory.clone().try_acquire_many_owned(units(pending.room.min(self.room))) else {
                return Ok(Some(request));
            };
            pending.room = 0;
            if let Purpose::Decode(packet) = &mut pending.purpose {
                packet.keep(permit);
            }
        }
        self.load.sent(due);
        self.common.counters.requested();
        let (sender, packet) = (self.sender.clone(), request.packet);
        let memory = (!request.has_room).then(|| Memory {
            semaphore: self.memory.clone(),
            room: self.room,
            is_limited: self.asking.room.is_some(),
            due: self.load.knows(&request.want, request.checks.most).then_some(due),
            arriving: self.arriving.clone(),
        });
        let mut admitted = if request.has_room { due } else { 0 };
        self.arriving.fetch_add(admitted, Ordering::Relaxed);
        let task = self.runtime.spawn(async move {
            let began = Instant::now();
            let number = match &request.want {
                Want::Range(range) => range.start,
                Want::All | Want::Suffix(_) => 0,
            };
            let is_value = matches!(request.want, Want::All);
            let mut waited = None;
            // A store that panics is not waited for in vain.
            let fetched =
                AssertUnwindSafe(fetch(&request, memory, began, (&mut waited, &mut admitted))).catch_unwind().await;
            let brought = fetched.unwrap_or_else(|_| Err(panicked(&request.key)));
            // Nobody waits for it any more if this fails.
            let flow = request.remote.flow().clone();
            let _ = sender.send(Outcome { packet, flow, number, waited, due, admitted, is_value, brought });
        });
        if let Some(pending) = &mut self.pending[packet] {
            pending.tasks.push(task.abort_handle());
        }
        Ok(None)
    }

    /// Takes what a request brought.
    fn take(&mut self, outcome: Outcome, scope: &ScopeFifo<'s>) -> Result<()> {
        let Outcome { packet: number, number: start, due, admitted, is_value, brought, .. } = outcome;
        let len = if let Ok(Brought::Bytes(arrival)) = &brought { Some(arrival.bytes.len()) } else { None };
        self.load.ended(due, len.filter(|_| is_value));
        self.arriving.fetch_sub(admitted, Ordering::Relaxed);
        let internal = || Error::new(ErrorKind::Internal, "an answer that nobody asked for");
        let pending = self.pending[number].as_mut().ok_or_else(internal)?;
        pending.left -= 1;
        let is_last = pending.left == 0;
        let index = match &mut pending.purpose {
            Purpose::Index { read, .. } => Some(brought.map_err(|error| read.name_error(error))?),
            Purpose::Decode(packet) => {
                match brought.map_err(|error| packet.read().name_error(error))? {
                    Brought::Nothing => packet.receive(None),
                    // It is decoded already.
                    Brought::NothingNew => {}
                    Brought::Bytes(Arrival { bytes, version, permit, .. }) => {
                        packet.receive(Some(Part { start, bytes, version, permit }));
                    }
                }
                None
            }
        };
        if !is_last {
            return Ok(());
        }
        match self.forget(number).ok_or_else(internal)?.purpose {
            Purpose::Decode(packet) if packet.is_torn() => return Err(packet.locate_error(changed())),
            Purpose::Decode(packet) => {
                self.common.counters.fetched_together(packet.fetched(), packet.bytes());
                self.decode(packet, scope);
            }
            Purpose::Index { read, chunks, index: known, promise } => {
                let (brought, first) = (index.ok_or_else(internal)?, chunks.start);
                self.take_index((read, chunks), known, promise, brought, scope)
                    .map_err(|error| read.locate_error(error, first))?;
            }
        }
        Ok(())
    }

    /// Bytes that have room.
    fn held(&self) -> usize {
        self.room - self.memory.available_permits() * UNIT
    }

    fn forget(&mut self, number: usize) -> Option<Pending<'s>> {
        self.free.push(number);
        self.pending[number].take()
    }

    fn decode(&self, packet: Packet<'s>, scope: &ScopeFifo<'s>) {
        let decode = self.common.decode;
        scope.spawn_fifo(move |_| decode(packet));
    }
}

impl Drop for Stage<'_, '_> {
    fn drop(&mut self) {
        for task in self.pending.iter().flatten().flat_map(|pending| &pending.tasks) {
            task.abort();
        }
        // Who waits for memory waits for nothing.
        self.memory.close();
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

/// Looks for a read chunk in the cache. It lies at `bytes` of its value, which is of the version `current`, if that is
/// known.
fn look(read: &ColumnRead<'_>, claim: Claim, bytes: Option<Range<u64>>, current: Option<&Version>) -> Step {
    let id = read.part().groups().chunks()[claim.chunk()];
    let Some((cache, at)) = read.cached(id) else { return Step::Ask(Member::new(claim, bytes), None) };
    let rechecks = cache.rechecks() && read.remote().is_some_and(|remote| remote.has_versions());
    let is_checked = !rechecks || current.is_some();
    let found = match cache.look(at, current.filter(|_| rechecks)) {
        Lookup::Hit(cached, version) => {
            // What is missing may be written any time.
            let ask = !is_checked && (version.is_some() || matches!(cached, Cached::Absent));
            let member = Member { cached: Some(cached), ..Member::new(claim, bytes) };
            return if ask { Step::Ask(member, version) } else { Step::Decode(member) };
        }
        found => found,
    };
    match found {
        Lookup::Miss(promise) => Step::Ask(Member { promise: Some(promise), ..Member::new(claim, bytes) }, None),
        _ => Step::Wait(claim),
    }
}

/// The right to all read chunks of the plan that nobody has yet.
fn claims(read: &ColumnRead<'_>, chunks: Range<usize>) -> Vec<Claim> {
    chunks.filter_map(|chunk| read.claim_chunk(chunk)).collect()
}

/// Requests for ranges of a read chunk that starts at `start`.
fn wants(ranges: &[Range<usize>], start: u64) -> Vec<Want> {
    let of = |range: &Range<usize>| split(&(start + range.start as u64..start + range.end as u64), MOST);
    ranges.iter().flat_map(of).map(Want::Range).collect()
}
