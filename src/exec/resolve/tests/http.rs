//! Settings become requests; a caller's values cannot change their shape.

use super::*;
use crate::exec::invocation::Http;
use crate::item::endpoint::Base;

/// A project with one tool of type `api` with these settings and parameters.
/// A tool with these settings; its method is GET if they name none.
fn api(config: &str, parameters: &[&str]) -> Project {
    let method = if config.contains("method:") {
        ""
    } else {
        "  method: GET\n"
    };
    let one = |name: &&str| {
        format!("  - {{name: {name}, type: [string, number, array, object, boolean]}}\n")
    };
    let parameters = parameters.iter().map(one).collect::<Vec<_>>().concat();
    let manifest = format!(
        "tool_id: t\ntool_type: api\nversion: \"1.0.0\"\ndescription: T\nexecutor: http_client\nconfig:\n{config}{method}parameters:\n{}",
        if parameters.is_empty() {
            "  []\n"
        } else {
            &parameters
        }
    );
    Project::new(&[(".ai/tools/t.yaml", &manifest)])
}

fn http(invocation: &Invocation) -> &Http {
    let Action::Http(http) = &invocation.action else {
        panic!("a request")
    };
    http
}

fn url(config: &str, parameters: Value) -> String {
    let names: Vec<String> = parameters.as_object().unwrap().keys().cloned().collect();
    let project = api(
        config,
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    http(&project.resolve("t", parameters)).url.value.clone()
}

fn refusal(config: &str, parameters: Value) -> String {
    let names: Vec<String> = parameters.as_object().unwrap().keys().cloned().collect();
    api(
        config,
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .refusal("t", parameters)
}

#[test]
fn every_spelling_of_the_design_becomes_the_same_request() {
    for file in [
        "block.yaml",
        "manifest.yaml",
        "schema.yaml",
        "weather.js",
        "weather.py",
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures/tools/equal/api")
            .join(file);
        let text = fs::read_to_string(path)
            .unwrap()
            .replace("WEATHER_API_KEY", "TOKEN")
            .replace("API_TOKEN", "TOKEN");
        let project = Project::new(&[(&format!(".ai/tools/{file}"), &text)]);
        let invocation = project.resolve("weather_forecast", json!({"lat": 1.5, "lon": -3}));
        let http = http(&invocation);
        assert_eq!(http.method, "GET", "{file}");
        assert_eq!(
            http.url,
            MaskedText::plain("https://api.weather.com/v1/forecast?lat=1.5&lon=-3&units=metric"),
            "{file}"
        );
        assert_eq!(
            http.headers,
            [
                ("X-API-Key".to_owned(), MaskedText::secret("s3cret")),
                (
                    "Authorization".to_owned(),
                    MaskedText::secret("Bearer s3cret")
                ),
                (
                    "accept".to_owned(),
                    MaskedText::plain("application/json, */*;q=0.5")
                ),
            ],
            "{file}"
        );
        assert_eq!(
            (
                http.body.as_ref(),
                http.retries,
                http.max_size,
                http.allow_private
            ),
            (None, 2, 10_485_760, false)
        );
        assert_eq!(
            (invocation.timeout, invocation.variables.as_slice()),
            (Duration::from_secs(30), &["TOKEN".to_owned()][..])
        );
        assert_eq!(
            (&http.base, http.endpoint.as_str()),
            (&Base::Named, "/v1/forecast")
        );
    }
}

#[test]
fn a_parameter_stays_in_its_place() {
    let config = "  url: \"https://a.example/x/{p}/y?q={q}\"\n";
    for (p, q, expected) in [
        ("a/b", "1", "https://a.example/x/a%2Fb/y?q=1"),
        (
            "a?b#c",
            "a&b=c",
            "https://a.example/x/a%3Fb%23c/y?q=a%26b%3Dc",
        ),
        (
            "{q}",
            "${TOKEN}",
            "https://a.example/x/%7Bq%7D/y?q=%24%7BTOKEN%7D",
        ),
        (" \t\r\n", "+", "https://a.example/x/%20%09%0D%0A/y?q=%2B"),
        ("..%2f", "%00", "https://a.example/x/..%252f/y?q=%2500"),
    ] {
        assert_eq!(url(config, json!({"p": p, "q": q})), expected);
    }
    for p in ["..", ".", ""] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(refusal(config, json!({"p": p, "q": "1"})), @"
            INVALID_PARAMETER: tool `t` cannot be called like this: parameter `p` would lead to another address than `config.url` says
            hint: it may be neither empty nor `.` or `..` there
            ");
        }
    }
    assert_eq!(
        url(
            "  url: \"https://a.example/.{p}\"\n",
            json!({"p": "hidden"})
        ),
        "https://a.example/.hidden"
    );
    assert!(
        refusal("  url: \"https://a.example/.{p}\"\n", json!({"p": "."}))
            .starts_with("INVALID_PARAMETER")
    );
}

#[test]
fn a_parameter_is_at_most_one_label_of_a_host() {
    let config = "  url: \"https://{region}.api.example.com/x\"\n";
    assert_eq!(
        url(config, json!({"region": "eu-1"})),
        "https://eu-1.api.example.com/x"
    );
    for region in [
        "evil.com/",
        "a.b",
        "a@b",
        "a:1",
        "",
        "-a",
        "a#",
        "ü",
        "a\\b",
    ] {
        let text = refusal(config, json!({"region": region}));
        assert!(
            text.contains("is not one part of the name of a host"),
            "{region}: {text}"
        );
    }
    for template in [
        "https://{h}/x",
        "https://a.{h}/x",
        "https://{h}.com/x",
        "https://{h}:80/x",
        "https://{h}.${TOKEN}/x",
    ] {
        let text = refusal(&format!("  url: \"{template}\"\n"), json!({"h": "a"}));
        assert!(
            text.contains("lets a parameter choose the host"),
            "{template}: {text}"
        );
    }
    for template in ["{h}", "{h}://a.example/", "https://a.example:{h}/", "{h}/x"] {
        let text = refusal(&format!("  url: \"{template}\"\n"), json!({"h": "1"}));
        assert!(
            text.contains("cannot choose the beginning of an address"),
            "{template}: {text}"
        );
    }
}

#[test]
fn a_variable_may_begin_an_address() {
    let resolved = |template: &str| {
        let project = api(&format!("  url: \"{template}\"\n"), &["p"]);
        let http = http(&project.resolve("t", json!({"p": "a/b"}))).clone();
        (http.url.shown().to_owned(), http.base, http.endpoint)
    };
    let base = |written: &str, value: &str| Base::Variable {
        written: written.to_owned(),
        value: value.to_owned(),
    };
    assert_eq!(
        resolved("${BASE:-https://a.example/v1/}/x/{p}"),
        (
            "https://a.example/v1/x/a%2Fb".to_owned(),
            base("${BASE}", "https://a.example/v1/"),
            "${BASE}/x/a%2Fb".to_owned()
        )
    );
    assert_eq!(
        resolved("https://${TOKEN}.example/x/{p}?q=1"),
        (
            "https://***.example/x/a%2Fb?q=1".to_owned(),
            base("https://${TOKEN}.example", "https://s3cret.example"),
            "https://${TOKEN}.example/x/a%2Fb".to_owned()
        )
    );
    assert_eq!(
        resolved("https://a.example/x/${TOKEN}/{p}?key=${TOKEN}"),
        (
            "https://a.example/x/***/a%2Fb?key=***".to_owned(),
            Base::Named,
            "/x/***/a%2Fb".to_owned()
        )
    );
    insta::assert_snapshot!(refusal("  url: \"${EMPTY:-ftp://a.example}/x\"\n", json!({})), @"
    INVALID_CONFIG: `config.url` is not a web address
    --> .ai/tools/t.yaml:7
    hint: write it as a whole, e.g. `https://api.example.com/v1/items`
    ");
    insta::assert_snapshot!(refusal("  url: \"${EMPTY:-https://u:p@a.example}/x\"\n", json!({})), @"
    INVALID_CONFIG: `config.url` holds credentials, which do not belong in a URL
    --> .ai/tools/t.yaml:7
    hint: remove them; `config.auth` names the environment variable that holds the secret
    ");
    insta::assert_snapshot!(refusal("  url: \"https://a.example/x#part\"\n", json!({})), @"
    INVALID_CONFIG: `config.url` holds a `#`, and what follows it is never sent
    --> .ai/tools/t.yaml:7
    hint: remove it
    ");
    insta::assert_snapshot!(refusal("  url: \"https://${TOKEN:-}@evil.example/x\"\n", json!({})), @"
    INVALID_CONFIG: `config.url` holds credentials, which do not belong in a URL
    --> .ai/tools/t.yaml:7
    hint: remove them; `config.auth` names the environment variable that holds the secret
    ");
}

#[test]
fn ways_to_authenticate() {
    let header = |auth: &str| {
        let project = api(
            &format!("  url: \"https://a.example/\"\n  auth: {{{auth}}}\n"),
            &[],
        );
        let invocation = project.resolve("t", json!({}));
        assert_eq!(invocation.variables, ["TOKEN"], "{auth}");
        let http = http(&invocation).clone();
        assert!(
            !format!("{http:?}").contains("Text { value")
                && !serde_json::to_string(&http).unwrap().contains("s3cret")
        );
        let (name, value) = http.headers.first().cloned().unwrap();
        (name, value.value, http.url.value)
    };
    let plain = "https://a.example/".to_owned();
    let told = |name: &str, value: &str| (name.to_owned(), value.to_owned(), plain.clone());
    assert_eq!(
        header("type: bearer, env_var: TOKEN"),
        told("Authorization", "Bearer s3cret")
    );
    assert_eq!(
        header("type: bearer, token: \"${TOKEN}\""),
        told("Authorization", "Bearer s3cret")
    );
    assert_eq!(
        header("type: basic, env_var: TOKEN"),
        told("Authorization", "Basic czNjcmV0Og==")
    );
    assert_eq!(
        header("type: basic, username: me, env_var: TOKEN"),
        told("Authorization", "Basic bWU6czNjcmV0")
    );
    assert_eq!(
        header("type: header, env_var: TOKEN"),
        told("Authorization", "s3cret")
    );
    assert_eq!(
        header("type: header, header: X-Auth, prefix: Token, env_var: TOKEN"),
        told("X-Auth", "Token s3cret")
    );
    assert_eq!(
        header("type: api_key, env_var: TOKEN"),
        told("X-API-Key", "s3cret")
    );
    let (_, _, url) = header("type: api_key, in: query, name: key, env_var: TOKEN");
    assert_eq!(url, "https://a.example/?key=s3cret");
    for (auth, said) in [
        ("type: bearer", "`config.auth.env_var` is missing"),
        (
            "type: bearer, env_var: NOT_SET",
            "names `NOT_SET`, a variable that is not set",
        ),
        (
            "type: bearer, env_var: EMPTY",
            "names `EMPTY`, a variable that is empty",
        ),
        (
            "type: bearer, env_var: HOME",
            "names `HOME`, which is not a secret",
        ),
        (
            "type: bearer, token: abc",
            "`config.auth.token` would be a secret in a file",
        ),
        (
            "type: barer, env_var: TOKEN",
            "is `barer`, which is not a way to authenticate",
        ),
        (
            "type: bearer, env_vra: TOKEN",
            "`config.auth.env_vra` is not a setting",
        ),
        (
            "type: api_key, in: body, env_var: TOKEN",
            "is neither `header` nor `query`",
        ),
        (
            "type: header, header: \"a b\", env_var: TOKEN",
            "has a name that no header has",
        ),
        (
            "type: header, header: Host, env_var: TOKEN",
            "follows from the request and cannot be set",
        ),
    ] {
        let text = refusal(
            &format!("  url: \"https://a.example/\"\n  auth: {{{auth}}}\n"),
            json!({}),
        );
        assert!(
            text.contains(said) && text.contains(".ai/tools/t.yaml:8"),
            "{auth}: {text}"
        );
    }
}

#[test]
fn settings_that_cannot_be_used_are_reported_with_their_place() {
    for (config, said) in [
        (
            "method: FETCH",
            "`config.method` is `FETCH`, which is not a method",
        ),
        (
            "method: [GET]",
            "`config.method` is a list; it must be a text",
        ),
        (
            "headers: [a]",
            "`config.headers` is a list; it must be a mapping",
        ),
        ("headers: {\"a b\": c}", "has a name that no header has"),
        (
            "headers: {Content-Length: 3}",
            "follows from the request and cannot be set",
        ),
        (
            "headers: {host: evil}",
            "follows from the request and cannot be set",
        ),
        (
            "headers: {A: \"b\\nc: d\"}",
            "holds a line break or another control character",
        ),
        ("headers: {A: {b: c}}", "must be a text"),
        ("query: [a]", "it must be a mapping of names to values"),
        (
            "query: {a: {b: c}}",
            "it must be a text, a number or a list of them",
        ),
        ("response_transform: \"$.[\"", "which is not a JSONPath"),
        ("response_transform: [a]", "must be a text"),
        ("retries: -1", "is not how often to try again"),
        ("retries: 11", "is not how often to try again"),
        ("retry: {max_attempts: 0}", "is not how often to try again"),
        (
            "retry: {atempts: 1}",
            "`config.retry.atempts` is not a setting",
        ),
        ("max_size: 0", "is not a number of bytes"),
        ("max_size: 10485761", "is not a number of bytes"),
        ("max_size: 1 MB", "is not a number of bytes"),
        ("allow_private: \"yes\"", "it must be a boolean"),
        ("timeout: -3", "must be a positive number of seconds"),
        ("body: \"{\\\"a\\\": \"", "is not JSON once it is filled in"),
    ] {
        let text = refusal(
            &format!("  url: \"https://a.example/\"\n  {config}\n"),
            json!({}),
        );
        assert!(
            text.contains(said) && text.contains(".ai/tools/t.yaml:8"),
            "{config}: {text}"
        );
    }
    for (config, retries) in [
        ("retries: 0", 0),
        ("retry: 3", 3),
        ("retry: {max_attempts: 3, backoff: exponential}", 2),
        ("retry: false", 0),
    ] {
        let project = api(&format!("  url: \"https://a.example/\"\n  {config}\n"), &[]);
        assert_eq!(
            http(&project.resolve("t", json!({}))).retries,
            retries,
            "{config}"
        );
    }
    insta::assert_snapshot!(refusal("  method: HEAD\n  url: \"https://a.example/\"\n  body: x\n", json!({})), @"
    INVALID_CONFIG: `config.body` is sent by no request whose method is HEAD
    --> .ai/tools/t.yaml:9
    hint: remove it, or use another method
    ");
    insta::assert_snapshot!(refusal("  method: GET\n", json!({})), @r#"
    MISSING_REQUIRED_FIELD: `t` does not say what to run: it has no `config.url`
    --> .ai/tools/t.yaml:7
    hint: add `config: {method: GET, url: "https://…"}`
    "#);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_value_arrives_unchanged_or_is_refused(p in "\\PC{0,12}|[./%\\\\?#&=@: \r\n]{0,6}", q in "(?s).{0,12}", h in "(?s).{0,12}") {
        let project = api("  url: \"https://a.example:8443/x/{p}/y?k=1&q={q}\"\n  headers: {X-H: \"<{h}>\"}\n", &["p", "q", "h"]);
        let Ok(invocation) = project.try_lower("t", &call(json!({"p": p, "q": q, "h": h}))) else {
            proptest::prop_assert!(matches!(p.as_str(), "" | "." | "..") || h.chars().any(char::is_control));
            return Ok(());
        };
        let http = http(&invocation);
        let url = url::Url::parse(&http.url.value).unwrap();
        proptest::prop_assert_eq!(url.origin().ascii_serialization(), "https://a.example:8443");
        let segments: Vec<&str> = url.path_segments().unwrap().collect();
        // Query values are decoded like a form, and so compared here.
        let decoded = |text: &str| url::form_urlencoded::parse(format!("v={text}").as_bytes()).next().unwrap().1.into_owned();
        proptest::prop_assert_eq!(segments.iter().map(|it| decoded(it)).collect::<Vec<_>>(), ["x", p.as_str(), "y"]);
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        proptest::prop_assert_eq!(pairs, [("k".to_owned(), "1".to_owned()), ("q".to_owned(), q)]);
        proptest::prop_assert_eq!(&http.headers[0].1.value, &format!("<{h}>"));
    }
}
