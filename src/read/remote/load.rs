//! How many bytes the requests in flight will bring, and how much room there is for what they brought. Connections keep
//! buffers, which nobody counts, so no more are used than it takes.

use crate::store::remote::Want;
use crate::store::remote::flow::MOST;

/// So many requests may be in flight whatever they bring: else a store far away is not kept busy.
const LEAST: usize = 64;

/// Without a memory limit, so many bytes may be on their way, most of them in sockets.
pub(super) const ON_THE_WAY: usize = 80 << 20;

/// Without a memory limit, bytes that are fetched and not decoded yet, and the buffers of connections, take so much, as far
/// as the lengths of values are guessed right.
const ALL: usize = 112 << 20;

/// A connection keeps a buffer as long as the body that it read last, but no longer than this.
const BUFFER: usize = 416 << 10;

/// How many bytes may be fetched and not decoded yet, without a memory limit, of values as long as `guess`.
pub(super) fn room(guess: usize) -> usize {
    let connections = (ON_THE_WAY / guess.max(1)).clamp(LEAST, MOST);
    ALL - (connections * guess.min(BUFFER)).min(ALL / 4 * 3)
}

#[derive(Debug)]
pub(super) struct Load {
    /// In bytes.
    room: usize,
    /// Requests in flight.
    flying: usize,
    /// Bytes that they are expected to bring.
    due: usize,
    /// What a whole value is taken to bring until one came, in bytes.
    guess: usize,
    /// Whole values that came, and their bytes.
    values: (usize, usize),
}

impl Load {
    /// None, of values that may be as long as `guess`.
    pub(super) fn new(room: usize, guess: usize) -> Self {
        Self { room, flying: 0, due: 0, guess, values: (0, 0) }
    }

    pub(super) fn flying(&self) -> usize {
        self.flying
    }

    /// How many bytes `want` is expected to bring: a value, as many as those that came did.
    pub(super) fn expected(&self, want: &Want) -> usize {
        match want {
            Want::All => self.values.1.checked_div(self.values.0).unwrap_or(self.guess),
            Want::Range(range) => (range.end - range.start) as usize,
            Want::Suffix(len) => *len as usize,
        }
    }

    /// Whether what [`expected`](Self::expected) says of `want` is more than a guess; of a value, it may be that `most` is known.
    pub(super) fn knows(&self, want: &Want, most: Option<u64>) -> bool {
        want.len().is_some() || most.is_some() || self.values.0 > 0
    }

    /// Whether to send one more request, which is expected to bring `due` bytes: whether that, what is on its way, and what
    /// waits to be decoded have room, and are no more than `reach`.
    pub(super) fn may_send(&self, due: usize, undecoded: usize, reach: usize) -> bool {
        let due = self.due.saturating_add(due);
        self.flying < LEAST || due.saturating_add(undecoded) <= self.room.min(reach)
    }

    /// Takes note of a request that is sent, and is expected to bring `due` bytes.
    pub(super) fn sent(&mut self, due: usize) {
        self.flying += 1;
        self.due = self.due.saturating_add(due);
    }

    /// Takes note that it ended, and of how long the whole value was that it brought, if it did.
    pub(super) fn ended(&mut self, due: usize, value: Option<usize>) {
        self.flying = self.flying.saturating_sub(1);
        self.due = self.due.saturating_sub(due);
        if let Some(len) = value {
            self.values = (self.values.0 + 1, self.values.1.saturating_add(len));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many requests for `want` are sent until there is no room.
    fn fill(load: &mut Load, want: &Want) -> usize {
        let due = load.expected(want);
        let before = load.flying();
        while load.may_send(due, 0, usize::MAX) && load.flying() < 10_000 {
            load.sent(due);
        }
        load.flying() - before
    }

    #[test]
    fn values_are_expected_to_be_like_those_that_came() {
        let mut load = Load::new(1 << 20, 4 << 10);
        assert!(!load.knows(&Want::All, None) && load.knows(&Want::All, Some(9)) && load.knows(&Want::Suffix(8), None));
        assert_eq!(fill(&mut load, &Want::All), 256);
        for _ in 0..256 {
            load.ended(4 << 10, Some(1 << 10));
        }
        assert_eq!((load.flying(), load.due), (0, 0));
        assert_eq!(load.expected(&Want::All), 1 << 10);
        assert!(load.knows(&Want::All, None));
        assert_eq!(fill(&mut load, &Want::All), 1024);
    }

    #[test]
    fn what_connections_keep_is_no_room() {
        assert_eq!(room(0), ALL);
        assert_eq!(room(256 << 10), 32 << 20);
        assert_eq!(room(64 << 10), 48 << 20);
        assert_eq!(room(4 << 20), ALL - LEAST * BUFFER);
        assert_eq!(room(usize::MAX), ALL - LEAST * BUFFER);
    }

    #[test]
    fn ranges_are_as_long_as_they_say_and_some_always_fly() {
        let mut load = Load::new(1 << 20, 0);
        assert_eq!(fill(&mut load, &Want::Range(100..(4 << 20) + 100)), LEAST);
        load.ended(4 << 20, None);
        assert_eq!(fill(&mut load, &Want::Suffix(8)), 1, "what flies fills the room");
        assert_eq!(load.expected(&Want::All), 0);
        let mut load = Load::new(1 << 20, 0);
        assert_eq!(fill(&mut load, &Want::Range(0..1 << 12)), 256);
        load.ended(usize::MAX, None);
        assert_eq!(load.due, 0);
        let mut load = Load::new(1 << 20, 1 << 10);
        (0..LEAST).for_each(|_| load.sent(1 << 10));
        let may = |waiting, reach| load.may_send(1 << 10, waiting, reach);
        assert!(may(0, 1 << 17) && may(900 << 10, usize::MAX));
        assert!(!may(0, 64 << 10) && !may(1000 << 10, usize::MAX));
    }
}
