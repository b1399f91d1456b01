//! The author and committer that git would use, `GIT_AUTHOR_*` included.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use git2::{Signature, Time};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use jiff::fmt::temporal::Pieces;
use jiff::tz::TimeZone;

use super::error::CheckpointError;
use super::repository::Repository;

/// Author and committer of a commit.
pub(crate) struct Identity {
    pub(crate) author: Signature<'static>,
    pub(crate) committer: Signature<'static>,
}

impl Identity {
    /// Finds the identity, or fails as git does.
    pub(crate) fn find(
        repository: &Repository,
        environment: &BTreeMap<OsString, OsString>,
        now: Timestamp,
    ) -> Result<Self, CheckpointError> {
        let role = |upper: &str, lower: &str| signature(repository, environment, now, upper, lower);
        Ok(Self {
            author: role("AUTHOR", "author")?,
            committer: role("COMMITTER", "committer")?,
        })
    }
}

impl Repository {
    /// The current user as git would name them: `NAME <EMAIL>`.
    pub fn person(
        &self,
        environment: &BTreeMap<OsString, OsString>,
        now: Timestamp,
    ) -> Result<String, CheckpointError> {
        let author = signature(self, environment, now, "AUTHOR", "author")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(format!(
            "{} <{}>",
            text(author.name_bytes()),
            text(author.email_bytes())
        ))
    }
}

fn signature(
    repository: &Repository,
    environment: &BTreeMap<OsString, OsString>,
    now: Timestamp,
    upper: &str,
    lower: &str,
) -> Result<Signature<'static>, CheckpointError> {
    let variable = |name: String| {
        let value = environment
            .get(OsStr::new(&name))?
            .to_str()?
            .trim()
            .to_owned();
        (!value.is_empty()).then_some(value)
    };
    let name = variable(format!("GIT_{upper}_NAME"))
        .or_else(|| repository.text(&format!("{lower}.name")))
        .or_else(|| repository.text("user.name"));
    let email = variable(format!("GIT_{upper}_EMAIL"))
        .or_else(|| repository.text(&format!("{lower}.email")))
        .or_else(|| repository.text("user.email"))
        .or_else(|| variable("EMAIL".to_owned()));
    let (Some(name), Some(email)) = (name, email) else {
        return Err(CheckpointError::NoIdentity);
    };
    let time = match variable(format!("GIT_{upper}_DATE")) {
        Some(text) => parse_date(&text).ok_or(CheckpointError::InvalidDate { text })?,
        None => local_time(now, environment),
    };
    Signature::new(&name, &email, &time).map_err(|_| CheckpointError::NoIdentity)
}

fn local_time(now: Timestamp, environment: &BTreeMap<OsString, OsString>) -> Time {
    let offset = now.to_zoned(local_zone(environment)).offset();
    Time::new(now.as_second(), offset.seconds() / 60)
}

/// The time zone of the user. To find its name, jiff would list all zones, which takes longer than
/// everything else in this module; only the offset is needed.
fn local_zone(environment: &BTreeMap<OsString, OsString>) -> TimeZone {
    let is_chosen = environment
        .get(OsStr::new("TZ"))
        .is_some_and(|zone| !zone.is_empty());
    let file = if is_chosen {
        None
    } else {
        std::fs::read("/etc/localtime").ok()
    };
    file.and_then(|bytes| TimeZone::tzif("local", &bytes).ok())
        .unwrap_or_else(TimeZone::system)
}

/// Parses the date formats that git documents: `@seconds zone`, RFC 2822 and ISO 8601.
fn parse_date(text: &str) -> Option<Time> {
    let mut words = text.trim_start_matches('@').split(' ');
    if let (Some(Ok(seconds)), zone) = (
        words.next().map(str::parse::<i64>),
        words.next().unwrap_or("+0000"),
    ) {
        let digits = zone.trim_start_matches(['+', '-']);
        let (hours, minutes) = digits.split_at_checked(2)?;
        let offset = hours.parse::<i32>().ok()? * 60 + minutes.parse::<i32>().ok()?;
        return Some(Time::new(
            seconds,
            if zone.starts_with('-') {
                -offset
            } else {
                offset
            },
        ));
    }
    if let Ok(zoned) = rfc2822::parse(text) {
        return Some(Time::new(
            zoned.timestamp().as_second(),
            zoned.offset().seconds() / 60,
        ));
    }
    if let Ok(stamp) = text.parse::<Timestamp>() {
        let offset = Pieces::parse(text)
            .ok()
            .and_then(|pieces| pieces.to_numeric_offset());
        return Some(Time::new(
            stamp.as_second(),
            offset.map_or(0, |offset| offset.seconds() / 60),
        ));
    }
    let civil = text.parse::<jiff::civil::DateTime>().ok()?;
    let zoned = civil.to_zoned(TimeZone::system()).ok()?;
    Some(Time::new(
        zoned.timestamp().as_second(),
        zoned.offset().seconds() / 60,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dates_that_git_takes_are_understood() {
        for text in [
            "1700000000 +0130",
            "@1700000000 +0130",
            "2023-11-14T23:43:20+01:30",
            "Tue, 14 Nov 2023 23:43:20 +0130",
        ] {
            let time = parse_date(text).expect(text);
            assert_eq!(
                (time.seconds(), time.offset_minutes()),
                (1_700_000_000, 90),
                "{text}"
            );
        }
        assert!(parse_date("yesterday").is_none());
        assert!(parse_date("").is_none());
    }
}
