//! Cancels one piece of work among several in the same process.
//!
//! A server with several callers gives each its own [`Stop`]. Signal listeners of that caller are
//! attached to it; [`Stop::ask`] wakes all of them, including those attached later.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// SIGTERM on every supported system.
const TERMINATED: usize = 15;

/// Cancels the work of one caller.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Listeners>);

#[derive(Debug, Default)]
struct Listeners {
    asked: AtomicBool,
    ears: Mutex<Vec<StopListener>>,
}

/// A listener: the flag to set, and the socket that wakes it.
#[derive(Clone, Debug)]
pub struct StopListener {
    received: Weak<AtomicUsize>,
    bell: Weak<UnixStream>,
}

impl StopListener {
    /// Holds weak references, so it does not keep its owner alive.
    pub fn new(received: &Arc<AtomicUsize>, bell: &Arc<UnixStream>) -> Self {
        Self {
            received: Arc::downgrade(received),
            bell: Arc::downgrade(bell),
        }
    }

    /// Asks the owner to end.
    pub fn ring(&self) {
        let (Some(received), Some(bell)) = (self.received.upgrade(), self.bell.upgrade()) else {
            return;
        };
        // Keep a signal that arrived first as the reason.
        let _ = received.compare_exchange(0, TERMINATED, Ordering::SeqCst, Ordering::SeqCst);
        // A full socket wakes the reader as well.
        let _ = bell.as_ref().write(&[0]);
    }
}

impl Stop {
    /// Cancels everything that is attached now or later.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        let ears = std::mem::take(&mut *self.0.ears.lock().unwrap_or_else(PoisonError::into_inner));
        ears.iter().for_each(StopListener::ring);
    }

    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    pub fn attach(&self, ear: &StopListener) {
        {
            let mut ears = self.0.ears.lock().unwrap_or_else(PoisonError::into_inner);
            ears.retain(|ear| ear.bell.strong_count() > 0);
            ears.push(ear.clone());
        }
        // Check last: a concurrent `ask` either sees the new listener or is seen here.
        if self.is_asked() {
            ear.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ear() -> (Arc<AtomicUsize>, Arc<UnixStream>, UnixStream) {
        let (wake, bell) = UnixStream::pair().expect("a pair");
        (Arc::default(), Arc::new(bell), wake)
    }

    #[test]
    fn listeners_attached_before_or_after_are_woken_and_no_others() {
        let (stop, other) = (Stop::default(), Stop::default());
        let (early, early_bell, _w1) = ear();
        let (late, late_bell, _w2) = ear();
        let (foreign, foreign_bell, _w3) = ear();
        stop.attach(&StopListener::new(&early, &early_bell));
        other.attach(&StopListener::new(&foreign, &foreign_bell));
        stop.ask();
        stop.attach(&StopListener::new(&late, &late_bell));
        let heard = |received: &Arc<AtomicUsize>| received.load(Ordering::SeqCst);
        assert_eq!(
            (heard(&early), heard(&late), heard(&foreign)),
            (TERMINATED, TERMINATED, 0)
        );
        assert!(stop.is_asked() && !other.is_asked());
    }
}
