//! `JSONPath` (RFC 9535): the only module that uses its crate.

use serde_json::Value;

#[derive(Clone, Debug)]
pub struct JsonPath {
    path: serde_json_path::JsonPath,
}

impl JsonPath {
    /// Parses a path, or returns what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        match serde_json_path::JsonPath::parse(text.trim()) {
            Ok(path) => Ok(Self { path }),
            Err(err) => Err(format!(
                "{} at character {}",
                err.message(),
                err.position() + 1
            )),
        }
    }

    /// All matches, in the order of the value.
    pub fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        self.path.query(value).all()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_picks_values() {
        let value = json!({"forecast": {"daily": [{"t": 1}, {"t": 2}, {"t": 3}]}});
        let find = |text: &str| {
            JsonPath::parse(text)
                .unwrap()
                .find(&value)
                .into_iter()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(find("$.forecast.daily[0:2].t"), [json!(1), json!(2)]);
        assert_eq!(find(" $.forecast.daily[1] "), [json!({"t": 2})]);
        assert_eq!(find("$.nothing"), Vec::<Value>::new());
    }

    #[test]
    fn what_is_no_path_is_reported_with_its_place() {
        for text in ["", "forecast", "$.", "$[", "$.a[?", "$..", "\u{1f600}"] {
            let reason = JsonPath::parse(text).unwrap_err();
            assert!(reason.contains("at character "), "{text}: {reason}");
        }
    }
}
