//! A way to end one piece of work among several in the same process, as Ctrl-C ends the only one.
//!
//! A front door that serves several callers gives each its own [`Stop`]. What listens for signals
//! on behalf of that caller is attached to it; asking rings all of them, at once or when they come.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The number of SIGTERM on every system that piton knows.
const TERMINATED: usize = 15;

/// Ends the work of one caller.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Listeners>);

#[derive(Debug, Default)]
struct Listeners {
    asked: AtomicBool,
    ears: Mutex<Vec<Ear>>,
}

/// Somebody who waits for the end: where it is written down, and what wakes them.
#[derive(Clone, Debug)]
pub struct Ear {
    received: Weak<AtomicUsize>,
    bell: Weak<UnixStream>,
}

impl Ear {
    /// An ear that lives as long as its owner does.
    pub fn new(received: &Arc<AtomicUsize>, bell: &Arc<UnixStream>) -> Self {
        Self { received: Arc::downgrade(received), bell: Arc::downgrade(bell) }
    }

    /// Tells the owner to end.
    pub fn ring(&self) {
        let (Some(received), Some(bell)) = (self.received.upgrade(), self.bell.upgrade()) else { return };
        // A signal that came first stays the reason.
        let _ = received.compare_exchange(0, TERMINATED, Ordering::SeqCst, Ordering::SeqCst);
        // A full socket wakes as well.
        let _ = bell.as_ref().write(&[0]);
    }
}

impl Stop {
    /// Asks for the end of everything that is attached, and of whatever comes to be.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        let ears = std::mem::take(&mut *self.0.ears.lock().unwrap_or_else(PoisonError::into_inner));
        ears.iter().for_each(Ear::ring);
    }

    /// Whether the end was asked for.
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Lets somebody hear it.
    pub fn attach(&self, ear: &Ear) {
        {
            let mut ears = self.0.ears.lock().unwrap_or_else(PoisonError::into_inner);
            ears.retain(|ear| ear.bell.strong_count() > 0);
            ears.push(ear.clone());
        }
        // Looked at last: whoever asks meanwhile sees the ear, or is seen here.
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
    fn whoever_is_attached_before_or_after_hears_it_and_nobody_else() {
        let (stop, other) = (Stop::default(), Stop::default());
        let (early, early_bell, _w1) = ear();
        let (late, late_bell, _w2) = ear();
        let (foreign, foreign_bell, _w3) = ear();
        stop.attach(&Ear::new(&early, &early_bell));
        other.attach(&Ear::new(&foreign, &foreign_bell));
        stop.ask();
        stop.attach(&Ear::new(&late, &late_bell));
        let heard = |received: &Arc<AtomicUsize>| received.load(Ordering::SeqCst);
        assert_eq!((heard(&early), heard(&late), heard(&foreign)), (TERMINATED, TERMINATED, 0));
        assert!(stop.is_asked() && !other.is_asked());
    }
}
