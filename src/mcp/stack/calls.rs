//! Counting calls: what is taken at the beginning is given back at the end, also by a panic.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, SemaphorePermit};

/// One more while it lives.
#[derive(Debug)]
pub(super) struct Counted<'a> {
    count: &'a AtomicUsize,
    ended: &'a Notify,
}

impl<'a> Counted<'a> {
    pub(super) fn new(count: &'a AtomicUsize, ended: &'a Notify) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self { count, ended }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.ended.notify_waiters();
        }
    }
}

/// A place among the calls at work.
#[derive(Debug)]
pub(super) struct Place<'a> {
    _permit: SemaphorePermit<'a>,
}

impl<'a> Place<'a> {
    pub(super) fn new(permit: SemaphorePermit<'a>) -> Self {
        Self { _permit: permit }
    }
}
