//! How many bytes the requests in flight will bring. What comes and has no room waits in buffers of connections, which
//! nobody counts, so no more is asked for than there is room for.

use crate::store::remote::Want;

/// So many requests may be in flight whatever they bring: else a store far away is not kept busy.
const LEAST: usize = 64;

/// Bytes that wait to be decoded count so often: with them, the threads that decode are busy.
const WAITING: usize = 4;

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

    /// Whether to send one more request: there is room for what it will bring, and what is on its way is neither more
    /// than `reach` nor much beside the bytes that wait to be decoded.
    pub(super) fn may_send(&self, due: usize, undecoded: usize, reach: usize) -> bool {
        let due = self.due.saturating_add(due);
        self.flying < LEAST || due.saturating_add(undecoded.saturating_mul(WAITING)) <= self.room.min(reach)
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
        assert_eq!(fill(&mut load, &Want::All), 256);
        for _ in 0..256 {
            load.ended(4 << 10, Some(1 << 10));
        }
        assert_eq!((load.flying(), load.due), (0, 0));
        assert_eq!(load.expected(&Want::All), 1 << 10);
        assert_eq!(fill(&mut load, &Want::All), 1024);
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
        assert!(may(0, 1 << 17) && may(200 << 10, usize::MAX));
        assert!(!may(0, 64 << 10) && !may(250 << 10, usize::MAX));
    }
}
