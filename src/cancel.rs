//! The caller's wish to stop, or to have it within a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};

/// Beats between two looks at the wish: so many steps of planning take well under a millisecond.
const PULSE: u32 = 1 << 14;

/// Flags that the caller, or who waits, may set at any time, and an end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel {
    flags: Vec<Arc<AtomicBool>>,
    deadline: Option<(Instant, Duration)>,
}

impl Cancel {
    /// What `flag` cancels too.
    pub(crate) fn with(mut self, flag: Arc<AtomicBool>) -> Self {
        self.flags.push(flag);
        self
    }

    /// What ends `timeout` after `start`, if it does not end earlier.
    pub(crate) fn within(mut self, timeout: Duration, start: Instant) -> Self {
        if self.deadline.is_none() {
            self.deadline = start.checked_add(timeout).map(|end| (end, timeout));
        }
        self
    }

    /// # Errors
    /// [`ErrorKind::Cancelled`] once a flag is set, [`ErrorKind::TimedOut`] after the end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.flags.iter().any(|flag| flag.load(Ordering::Relaxed)) {
            return Err(Error::new(ErrorKind::Cancelled, "the read was cancelled"));
        }
        match self.deadline {
            Some((end, timeout)) if Instant::now() >= end => {
                Err(Error::new(ErrorKind::TimedOut, format!("the read was not done after {timeout:?}"))
                    .remedy("Allow more time, or read fewer selections at a time."))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn pulse(&self) -> Pulse<'_> {
        Pulse { cancel: self, left: PULSE }
    }
}

/// Looks at the flag once in many steps.
#[derive(Debug)]
pub(crate) struct Pulse<'a> {
    cancel: &'a Cancel,
    left: u32,
}

impl Pulse<'_> {
    /// To be called at each step.
    ///
    /// # Errors
    /// As [`Cancel::check`].
    #[inline]
    pub(crate) fn beat(&mut self) -> Result<()> {
        self.left -= 1;
        if self.left == 0 {
            self.left = PULSE;
            return self.cancel.check();
        }
        Ok(())
    }
}
