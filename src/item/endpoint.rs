//! Endpoints: the addresses in permissions, and whether a request matches one.
//!
//! `[METHOD] /path`, `[METHOD] https://host/path`, `[METHOD] ${VARIABLE}/path`, or `*`. In a path
//! `*` stays inside one segment, `**` crosses segments, `{name}` is any one segment; a host is
//! matched label by label. A query is compared only if the endpoint has one. Grants are read
//! narrowly, denials widely: [`fit`].

use std::borrow::Cow;
use std::fmt::Write as _;

use globset::GlobBuilder;
use url::Url;

#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// In capitals.
    pub method: &'r str,
    pub url: &'r Url,
    /// How much of the address the tool itself defines.
    pub base: &'r Base,
}

/// Who defines where an address begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// The tool: scheme, host and port are in its manifest.
    Named,
    /// An environment variable.
    Variable {
        /// As the manifest writes it, e.g. `${API}` or `https://${HOST}`.
        written: String,
        value: String,
    },
    /// A parameter or another server.
    #[default]
    Foreign,
}

/// How well an endpoint matches a request; later is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    No,
    /// It matches, as one of many hosts.
    AnyHost,
    /// It matches, and the host is named.
    ThisHost,
}

/// How doubtful cases are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// They do not match.
    Narrow,
    /// They match.
    Wide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint<'e> {
    pub method: Option<&'e str>,
    target: EndpointTarget<'e>,
    query: Option<&'e str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointTarget<'e> {
    Everything,
    Path(&'e str),
    Whole {
        scheme: &'e str,
        authority: &'e str,
        path: &'e str,
    },
    Variable(&'e str),
}

pub fn is_safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS")
}

impl<'e> Endpoint<'e> {
    /// Parses an endpoint, or returns what is wrong with it.
    pub fn parse(text: &'e str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.chars().any(char::is_control) {
            return Err("contains characters that are not allowed in an address");
        }
        let (method, rest) = match text.split_once(char::is_whitespace) {
            Some(("*", rest)) => (None, rest.trim_start()),
            Some((word, rest)) if word.chars().all(|c| c.is_ascii_alphabetic()) => {
                (Some(word), rest.trim_start())
            }
            Some(_) => return Err("contains a space that is not after a method"),
            None => (None, text),
        };
        let (address, query) = match rest.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (rest, None),
        };
        let target = match address {
            "*" | "**" => EndpointTarget::Everything,
            _ if address.contains("${") => EndpointTarget::Variable(address),
            _ if address.starts_with('/') => EndpointTarget::Path(address),
            _ => {
                let Some((scheme, after)) = address.split_once("://") else {
                    return Err("is neither a path, which begins with `/`, nor a whole address");
                };
                let end = after.find('/').unwrap_or(after.len());
                let (authority, path) = after.split_at(end);
                if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
                    return Err("is not a web address");
                }
                if authority.is_empty() || authority.contains('@') {
                    return Err("names no host");
                }
                EndpointTarget::Whole {
                    scheme,
                    authority,
                    path: if path.is_empty() { "/" } else { path },
                }
            }
        };
        let globs = match target {
            EndpointTarget::Whole { path, .. }
            | EndpointTarget::Path(path)
            | EndpointTarget::Variable(path) => path,
            EndpointTarget::Everything => "*",
        };
        if globs
            .split('/')
            .any(|segment| matches!(segment, "." | ".."))
        {
            return Err("holds `.` or `..`, which no request ever does");
        }
        if !matches!(target, EndpointTarget::Variable(_))
            && glob(globs, Strictness::Narrow).is_none()
        {
            return Err("is not a pattern");
        }
        Ok(Self {
            method,
            target,
            query,
        })
    }

    /// How well it matches a request; the method is checked separately.
    fn fit(&self, request: &Request<'_>, reading: Strictness) -> Fit {
        if let Some(query) = self.query {
            let asked = request.url.query().unwrap_or_default();
            let is_met = GlobBuilder::new(query)
                .build()
                .map(|glob| glob.compile_matcher().is_match(asked));
            if !is_met.unwrap_or(reading == Strictness::Wide) {
                return Fit::No;
            }
        }
        let path = request.url.path();
        match self.target {
            EndpointTarget::Everything => Fit::AnyHost,
            EndpointTarget::Path(pattern) if !is_path(pattern, path, reading) => Fit::No,
            // A denial applies to every host.
            EndpointTarget::Path(_) if reading == Strictness::Wide => Fit::ThisHost,
            EndpointTarget::Path(_) if *request.base == Base::Named => Fit::ThisHost,
            EndpointTarget::Path(_) => Fit::No,
            EndpointTarget::Whole {
                scheme,
                authority,
                path: pattern,
            } => {
                if !scheme.eq_ignore_ascii_case(request.url.scheme())
                    && reading == Strictness::Narrow
                {
                    return Fit::No;
                }
                match host_fit(scheme, authority, request.url, reading) {
                    Fit::No => Fit::No,
                    _ if !is_path(pattern, path, reading) => Fit::No,
                    fit => fit,
                }
            }
            EndpointTarget::Variable(pattern) => {
                let Base::Variable { written, .. } = request.base else {
                    return Fit::No;
                };
                let (Some(pattern), Some(rest)) = (
                    pattern.strip_prefix(written.as_str()),
                    request.base.rest(request.url),
                ) else {
                    return Fit::No;
                };
                let is_met = if pattern.is_empty() {
                    rest.is_empty()
                } else {
                    is_path(pattern, &rest, reading)
                };
                if is_met { Fit::ThisHost } else { Fit::No }
            }
        }
    }
}

impl Base {
    /// The part of the address after the variable.
    pub fn rest(&self, url: &Url) -> Option<String> {
        let Self::Variable { value, .. } = self else {
            return None;
        };
        let base = Url::parse(value)
            .ok()
            .filter(|base| base.origin() == url.origin())?;
        let rest = url.path().strip_prefix(base.path().trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
    }
}

/// How well a written endpoint matches a request. `writes` is the kind of permission it belongs to.
pub fn fit(text: &str, writes: bool, request: &Request<'_>, reading: Strictness) -> Fit {
    let Ok(endpoint) = Endpoint::parse(text) else {
        return if reading == Strictness::Wide {
            Fit::ThisHost
        } else {
            Fit::No
        };
    };
    let fits = match endpoint.method {
        // A read permission never allows writing, whichever method it names.
        Some(method) => {
            method.eq_ignore_ascii_case(request.method)
                && (reading == Strictness::Wide || writes || is_safe(request.method))
        }
        None => writes != is_safe(request.method),
    };
    if fits {
        endpoint.fit(request, reading)
    } else {
        Fit::No
    }
}

fn host_fit(scheme: &str, authority: &str, url: &Url, reading: Strictness) -> Fit {
    let host = url.host_str().unwrap_or_default();
    let bare = authority
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    let (pattern, port) = match bare {
        Some((_, rest)) => (
            authority
                .get(..authority.len() - rest.len())
                .unwrap_or(authority),
            rest.strip_prefix(':'),
        ),
        None => match authority.rsplit_once(':') {
            Some((pattern, port)) => (pattern, Some(port)),
            None => (authority, None),
        },
    };
    let usual = if scheme.eq_ignore_ascii_case("http") {
        80
    } else {
        443
    };
    let is_port = match port {
        None => url.port_or_known_default() == Some(usual) || reading == Strictness::Wide,
        Some("*") => true,
        Some(port) => port.parse().ok() == url.port_or_known_default(),
    };
    if !is_port {
        return Fit::No;
    }
    if pattern.eq_ignore_ascii_case(host) {
        return Fit::ThisHost;
    }
    if bare.is_some() || !pattern.contains(['*', '{', '[']) {
        return Fit::No;
    }
    // Match host labels like path segments.
    let labels = pattern.to_ascii_lowercase().replace('.', "/");
    let is_met = GlobBuilder::new(&labels)
        .literal_separator(reading == Strictness::Narrow)
        .build();
    let is_met = is_met.map(|glob| glob.compile_matcher().is_match(host.replace('.', "/")));
    if is_met.unwrap_or(reading == Strictness::Wide) {
        Fit::AnyHost
    } else {
        Fit::No
    }
}

fn is_path(pattern: &str, path: &str, reading: Strictness) -> bool {
    let Some(matcher) = glob(pattern, reading) else {
        return reading == Strictness::Wide;
    };
    let path = decoded(path, |byte| {
        byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
    });
    if matcher.is_match(&*path) {
        return true;
    }
    if reading == Strictness::Narrow {
        return false;
    }
    // Servers normalize paths differently, so a denial covers all of these spellings.
    let mut plain = decoded(&path, |_| true).into_owned();
    while plain.contains("//") {
        plain = plain.replace("//", "/");
    }
    let trimmed = plain.trim_end_matches('/');
    [plain.as_str(), trimmed, &format!("{trimmed}/")]
        .iter()
        .any(|path| matcher.is_match(path))
}

/// The matcher of a path; `None` when the pattern is invalid.
fn glob(pattern: &str, reading: Strictness) -> Option<globset::GlobMatcher> {
    let mut text = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        match after.split_once('}') {
            Some((name, more)) if is_name(name) => {
                text.push('*');
                rest = more;
            }
            _ => {
                text.push('{');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    let is_wide = reading == Strictness::Wide;
    // Requests percent-encode spaces and non-ASCII characters.
    let mut written = String::with_capacity(text.len());
    for byte in decoded(&text, |byte| {
        byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
    })
    .bytes()
    {
        if byte.is_ascii() && byte != b' ' {
            written.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(written, "%{byte:02X}");
        }
    }
    if is_wide && let Some(folder) = written.strip_suffix("/**") {
        written = format!("{{{folder},{folder}/**}}");
    }
    let glob = GlobBuilder::new(&written)
        .literal_separator(true)
        .backslash_escape(true)
        .case_insensitive(is_wide)
        .build();
    glob.ok().map(|glob| glob.compile_matcher())
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Decodes `%XX` where `is_plain` allows it, and uppercases the digits elsewhere.
fn decoded(text: &str, is_plain: impl Fn(u8) -> bool) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let byte = (*first == b'%')
            .then(|| {
                after
                    .get(..2)
                    .and_then(|digits| std::str::from_utf8(digits).ok())
            })
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) if is_plain(byte) => bytes.push(byte),
            Some(byte) => bytes.extend(format!("%{byte:02X}").into_bytes()),
            None => bytes.push(*first),
        }
        rest = if byte.is_some() {
            after.get(2..).unwrap_or_default()
        } else {
            after
        };
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
