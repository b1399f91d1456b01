//! The meaning of a plain YAML scalar: the core schema of YAML 1.2.
//!
//! Only `true` and `false` are booleans; `yes`, `no`, `on`, `off` are text. Two deliberate
//! differences lose nothing that was written: digits with a leading zero (`0644`, `007`) stay text,
//! and numbers that do not fit are [`Plain::Unusable`], never rounded.

use crate::item::node::Data;

#[derive(Debug, PartialEq)]
pub(super) enum Plain {
    Value(Data),
    /// Infinite, not a number, or too large.
    Unusable,
}

/// Reads a scalar without quotes.
pub(super) fn read(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Value(Data::Null),
        "true" | "True" | "TRUE" => return Plain::Value(Data::Bool(true)),
        "false" | "False" | "FALSE" => return Plain::Value(Data::Bool(false)),
        ".nan" | ".NaN" | ".NAN" => return Plain::Unusable,
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Plain::Unusable;
    }
    if let Some(digits) = text
        .strip_prefix("0x")
        .filter(|digits| all(digits, |byte| byte.is_ascii_hexdigit()))
    {
        return whole(i64::from_str_radix(digits, 16));
    }
    if let Some(digits) = text
        .strip_prefix("0o")
        .filter(|digits| all(digits, |byte| matches!(byte, b'0'..=b'7')))
    {
        return whole(i64::from_str_radix(digits, 8));
    }
    if all(unsigned, |byte| byte.is_ascii_digit()) {
        let padded = unsigned.len() > 1 && unsigned.starts_with('0');
        return if padded {
            Plain::Value(Data::Text(text.to_owned()))
        } else {
            whole(text.parse())
        };
    }
    if is_float(unsigned) {
        return match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Plain::Value(Data::Float(value, text.to_owned())),
            _ => Plain::Unusable,
        };
    }
    Plain::Value(Data::Text(text.to_owned()))
}

fn whole(number: Result<i64, std::num::ParseIntError>) -> Plain {
    number.map_or(Plain::Unusable, |number| Plain::Value(Data::Int(number)))
}

/// `(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(unsigned: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = unsigned
        .split_once(['e', 'E'])
        .map_or((unsigned, None), |(mantissa, exponent)| {
            (mantissa, Some(exponent))
        });
    let exponent_fits = exponent.is_none_or(|exponent| {
        all(exponent.strip_prefix(['-', '+']).unwrap_or(exponent), |b| {
            b.is_ascii_digit()
        })
    });
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && digits(fraction),
        Some((before, fraction)) => digits(before) && digits(fraction),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    mantissa_fits && exponent_fits
}

/// Whether the text is not empty and all bytes fit.
fn all(text: &str, fits: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_mean_what_the_core_schema_says() {
        let text = |text: &str| Data::Text(text.to_owned());
        let float = |value: f64, written: &str| Data::Float(value, written.to_owned());
        for (written, meaning) in [
            ("", Data::Null),
            ("~", Data::Null),
            ("NULL", Data::Null),
            ("nULL", text("nULL")),
            ("true", Data::Bool(true)),
            ("FALSE", Data::Bool(false)),
            ("tRUE", text("tRUE")),
            ("yes", text("yes")),
            ("No", text("No")),
            ("on", text("on")),
            ("off", text("off")),
            ("y", text("y")),
            ("0", Data::Int(0)),
            ("-0", Data::Int(0)),
            ("+12", Data::Int(12)),
            ("9223372036854775807", Data::Int(i64::MAX)),
            ("-9223372036854775808", Data::Int(i64::MIN)),
            ("0x1F", Data::Int(31)),
            ("0o17", Data::Int(15)),
            ("0x", text("0x")),
            ("-0x1F", text("-0x1F")),
            ("0o8", text("0o8")),
            ("0b1", text("0b1")),
            ("0644", text("0644")),
            ("1_000", text("1_000")),
            ("1.10", float(1.1, "1.10")),
            ("1.", float(1.0, "1.")),
            (".5", float(0.5, ".5")),
            ("-2e+3", float(-2000.0, "-2e+3")),
            ("1e", text("1e")),
            (".", text(".")),
            (".e1", text(".e1")),
            ("e1", text("e1")),
            ("1.0.0", text("1.0.0")),
            ("--1", text("--1")),
            ("-", text("-")),
            ("inf", text("inf")),
            ("nan", text("nan")),
            ("2026-01-21", text("2026-01-21")),
            ("12:30:45", text("12:30:45")),
        ] {
            assert_eq!(read(written), Plain::Value(meaning), "{written:?}");
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_never_rounded() {
        for written in [
            ".nan",
            ".NaN",
            ".inf",
            "-.Inf",
            "+.INF",
            "1e400",
            "9223372036854775808",
            "-9223372036854775809",
            "100000000000000000000000000000000000000000000",
            "0xFFFFFFFFFFFFFFFF",
            "0o7777777777777777777777",
        ] {
            assert_eq!(read(written), Plain::Unusable, "{written:?}");
        }
    }
}
