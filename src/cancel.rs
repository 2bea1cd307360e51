//! The caller's wish to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// Beats between two looks at the wish: so many steps of planning take well under a millisecond.
const PULSE: u32 = 1 << 14;

/// A flag that the caller may set at any time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Option<Arc<AtomicBool>>);

impl Cancel {
    pub(crate) fn new(flag: Arc<AtomicBool>) -> Self {
        Self(Some(flag))
    }

    /// # Errors
    /// [`ErrorKind::Cancelled`] once the flag is set.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.0 {
            Some(flag) if flag.load(Ordering::Relaxed) => {
                Err(Error::new(ErrorKind::Cancelled, "the read was cancelled"))
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
