//! Progress messages about the events of a run.

use super::call::CallWork;
use crate::journal::event::Event;
use crate::run::narration::{Narration, StepNarrator, Tone};

#[derive(Debug)]
pub(crate) struct RunProgress<'w> {
    work: &'w CallWork,
    narrator: StepNarrator,
}

impl<'w> RunProgress<'w> {
    pub(crate) fn new(work: &'w CallWork) -> Self {
        Self {
            work,
            narrator: StepNarrator::default(),
        }
    }

    /// Reports an event if it is relevant for progress.
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::StepStarted { name, kind, .. } => {
                let name = self.narrator.label(name);
                self.work.report(format!("{name} begins"));
                self.narrator.begin(name, Some(kind));
            }
            Event::StepFinished { status, .. } => {
                let lines = self.narrator.end(*status, "");
                self.report(&lines);
            }
            _ => {
                let lines = self.narrator.event(event);
                self.report(&lines);
            }
        }
    }

    fn report(&self, lines: &[Narration]) {
        for line in lines.iter().filter(|line| line.tone != Tone::Detail) {
            self.work.report(line.to_string().trim_start());
        }
    }
}
