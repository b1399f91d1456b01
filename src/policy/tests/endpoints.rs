//! Calls over HTTP: which endpoints are granted, and which addresses a call may reach.

use super::*;
use crate::exec::NetworkReach;
use crate::exec::invocation::{Endpoints, Http};
use crate::item::endpoint::{Base, Request};

#[test]
fn directives_allow_the_ports_of_the_addresses_that_all_of_them_grant() {
    for (endpoint, port) in [
        ("GET https://example.org/users", Some(443)),
        ("http://*.example.org/**", Some(80)),
        ("POST http://127.0.0.1:8080/", Some(8080)),
        ("https://[::1]:8443/x", Some(8443)),
        ("https://[::1]/x", Some(443)),
        ("https://host:many/", None),
        ("/users", None),
        ("*", None),
    ] {
        assert_eq!(super::super::matching::port(endpoint), port, "{endpoint}");
    }
}

const TOOL: &str = "<execute resource=\"tool\" id=\"api\"/>";

fn call(method: &str, url: &str, base: Base) -> Invocation {
    let mut call = invocation(vec![
        link("api", "api", ToolKind::Api, Layer::Project),
        link(
            "http_client",
            "primitive",
            ToolKind::Primitive,
            Layer::Builtin,
        ),
    ]);
    let parsed = url::Url::parse(url).expect("an address");
    let endpoint = match &base {
        Base::Named => parsed.path().to_owned(),
        Base::Variable { written, .. } => {
            format!("{written}{}", base.rest(&parsed).expect("a rest"))
        }
        Base::Foreign => format!("{}{}", parsed.origin().ascii_serialization(), parsed.path()),
    };
    call.action = Action::Http(Box::new(Http {
        method: method.to_owned(),
        url: MaskedText::plain(url),
        base,
        endpoint,
        headers: Vec::new(),
        body: None,
        transform: None,
        retries: 0,
        max_size: 1,
        allow_private: true,
        reach: NetworkReach::Public,
        endpoints: Endpoints::default(),
        encoded_secrets: Vec::new(),
        environment: std::collections::BTreeMap::new(),
    }));
    call
}

fn bounded(authority: &Authority<'_>, mut call: Invocation) -> Http {
    bound(authority, &mut call);
    let Action::Http(http) = call.action else {
        panic!("a request")
    };
    *http
}

#[test]
fn a_call_needs_the_tool_and_the_endpoint() {
    let get = call("GET", "https://a.example/users/1?page=2", Base::Named);
    let verdict = judge_by("", &get);
    let lines: Vec<&str> = verdict
        .denials
        .iter()
        .filter_map(|it| it.allow_with.as_deref())
        .collect();
    assert_eq!(
        lines,
        [TOOL, "<read resource=\"api\" endpoint=\"GET /users/1\"/>"]
    );
    assert_eq!(verdict.denials[1].what, "call `GET /users/1`");
    assert!(!allows(TOOL, &get));
    assert!(!allows(lines[1], &get));
    let verdict = judge_by(&lines.concat(), &get);
    assert_eq!(verdict.denials, []);
    assert_eq!(
        verdict.permissions[1],
        Permission {
            need: lines[1].to_owned(),
            granted_by: format!("{} in `d`", lines[1]),
            enforcement: Enforcement::Broker
        }
    );
}

#[test]
fn the_printed_line_allows_the_call_and_no_other() {
    let variable = Base::Variable {
        written: "${API}".to_owned(),
        value: "https://a.example/v1".to_owned(),
    };
    for (method, url, base) in [
        ("GET", "https://a.example/a*b/[c]/d'e/~", Base::Named),
        (
            "POST",
            "https://a.example/a%2Fb/%7Bx%7D/%C3%BC?q=1",
            Base::Named,
        ),
        ("DELETE", "https://eu.a.example:8443/x", Base::Foreign),
        ("PUT", "http://127.0.0.1:1/x", Base::Foreign),
        ("HEAD", "https://a.example/v1/users/*", variable.clone()),
        ("PATCH", "https://a.example/v1", variable),
        ("OPTIONS", "https://a.example/", Base::Named),
    ] {
        let call = call(method, url, base.clone());
        let lines: String = judge_by("", &call)
            .denials
            .iter()
            .filter_map(|it| it.allow_with.clone())
            .collect();
        assert_eq!(judge_by(&lines, &call).denials, [], "{lines}");
        let other = super::endpoints::call(
            method,
            &format!("{}/x", url.split('?').next().unwrap_or(url)),
            base,
        );
        assert!(!allows(&lines, &other), "{lines}");
    }
}

#[test]
fn what_is_secret_in_a_path_is_not_printed() {
    let mut secret = call("POST", "https://hooks.example/services/T0P/x", Base::Named);
    let Action::Http(http) = &mut secret.action else {
        panic!("a request")
    };
    http.endpoint = "/services/***/x".to_owned();
    let verdict = judge_by(TOOL, &secret);
    let line = verdict.denials[0].allow_with.clone().expect("a line");
    assert_eq!(
        line,
        "<write resource=\"api\" endpoint=\"POST /services/*/x\"/>"
    );
    assert!(allows(&format!("{TOOL}{line}"), &secret));
}

#[test]
fn a_denial_wins_and_every_caller_has_to_grant() {
    let get = call("GET", "https://a.example/users/1", Base::Named);
    let all = format!("{TOOL}<read resource=\"api\" endpoint=\"/**\"/>");
    assert!(allows(&all, &get));
    for deny in [
        "<read resource=\"api\" endpoint=\"/users/**\"/>",
        "<read endpoint=\"https://a.example/USERS/1\"/>",
        "*",
    ] {
        assert!(
            !allows(&format!("{all}<deny>{deny}</deny>"), &get),
            "{deny}"
        );
    }
    assert!(allows(
        &format!("{all}<deny><write endpoint=\"/users/**\"/></deny>"),
        &get
    ));
    let (wide, narrow) = (grants(&all), grants(TOOL));
    let callers = vec![
        PolicyCaller {
            name: "a",
            grants: &wide,
        },
        PolicyCaller {
            name: "b",
            grants: &narrow,
        },
    ];
    assert!(!judge(&Authority::Directives(callers), &get).is_allowed());
}

#[test]
fn only_two_words_lead_to_this_machine() {
    let private = |base| call("GET", "http://127.0.0.1:80/x", base);
    assert_eq!(
        bounded(&Authority::Person, private(Base::Named)).reach,
        NetworkReach::Anywhere
    );
    assert_eq!(
        bounded(&Authority::Agent, private(Base::Named)).reach,
        NetworkReach::Public
    );
    let by = |permissions: &str, base| {
        let grants = grants(permissions);
        bounded(
            &Authority::Directives(vec![PolicyCaller {
                name: "d",
                grants: &grants,
            }]),
            private(base),
        )
        .reach
    };
    assert_eq!(
        by("<read endpoint=\"/x\"/>", Base::Named),
        NetworkReach::Anywhere
    );
    assert_eq!(
        by("<read endpoint=\"/x\"/>", Base::Foreign),
        NetworkReach::Public
    );
    assert_eq!(
        by("<read endpoint=\"http://127.0.0.1/x\"/>", Base::Foreign),
        NetworkReach::Anywhere
    );
    assert_eq!(
        by("<read endpoint=\"http://*.0.0.1/x\"/>", Base::Foreign),
        NetworkReach::Public
    );
    assert_eq!(
        by("<read endpoint=\"*\"/>", Base::Named),
        NetworkReach::Public
    );
    assert_eq!(by("", Base::Named), NetworkReach::Public);
    assert_eq!(
        bounded(&Authority::Directives(vec![]), private(Base::Named)).reach,
        NetworkReach::Public
    );
    let mut silent = private(Base::Named);
    let Action::Http(http) = &mut silent.action else {
        panic!("a request")
    };
    http.allow_private = false;
    assert_eq!(
        bounded(&Authority::Person, silent).reach,
        NetworkReach::Public
    );
}

#[test]
fn redirects_are_judged_by_the_same_grants() {
    let grants =
        grants("<read endpoint=\"/users/**\"/><deny><read endpoint=\"/users/secret\"/></deny>");
    let authority = Authority::Directives(vec![PolicyCaller {
        name: "d",
        grants: &grants,
    }]);
    let http = bounded(
        &authority,
        call("GET", "https://a.example/users/1", Base::Named),
    );
    let is_allowed = |url: &str, base: &Base| {
        let url = url::Url::parse(url).expect("an address");
        http.endpoints.fit(&Request {
            method: "GET",
            url: &url,
            base,
        }) != crate::item::endpoint::Fit::No
    };
    assert!(is_allowed("https://a.example/users/2", &Base::Named));
    assert!(!is_allowed("https://a.example/users/secret", &Base::Named));
    assert!(!is_allowed("https://a.example/teams", &Base::Named));
    assert!(!is_allowed("https://b.example/users/2", &Base::Foreign));
    assert_eq!(
        Endpoints::default().fit(&Request {
            method: "GET",
            url: &url::Url::parse("https://a.example/").expect("an address"),
            base: &Base::Named
        }),
        crate::item::endpoint::Fit::No
    );
}
