//! Bodies that are sent no faster than a bandwidth allows.

use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::counters::InFlight;

/// A limited body is sent in pieces that take so long, but not in very small ones.
const PIECE: Duration = Duration::from_millis(2);
const SMALLEST_PIECE: usize = 16 * 1024;

/// A body, and its request, which is in flight as long as this lives.
pub struct Paced {
    rest: Bytes,
    sent: usize,
    /// Bytes per second, or no limit.
    rate: Option<f64>,
    begin: Instant,
    due: Option<Pin<Box<Sleep>>>,
    request: InFlight,
}

impl Paced {
    pub fn new(content: Bytes, rate: Option<f64>, request: InFlight) -> Self {
        Self { rest: content, sent: 0, rate, begin: Instant::now(), due: None, request }
    }

    /// Length of the next piece, and when it would have arrived.
    fn next(&self, rate: f64) -> (usize, Instant) {
        let piece = ((rate * PIECE.as_secs_f64()) as usize).max(SMALLEST_PIECE).min(self.rest.len());
        (piece, self.begin + Duration::from_secs_f64((self.sent + piece) as f64 / rate))
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            return Poll::Ready(None);
        }
        let mut length = this.rest.len();
        if let Some(rate) = this.rate {
            let (piece, due) = this.next(rate);
            ready!(this.due.get_or_insert_with(|| Box::pin(sleep_until(due))).as_mut().poll(context));
            this.due = None;
            length = piece;
        }
        this.sent += length;
        this.request.counters.bytes.fetch_add(length as u64, Relaxed);
        Poll::Ready(Some(Ok(Frame::data(this.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
