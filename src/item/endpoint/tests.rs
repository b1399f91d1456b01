use super::*;

fn fits(
    text: &str,
    writes: bool,
    method: &str,
    url: &str,
    base: &Base,
    reading: Strictness,
) -> Fit {
    let url = Url::parse(url).unwrap();
    fit(
        text,
        writes,
        &Request {
            method,
            url: &url,
            base,
        },
        reading,
    )
}

/// Whether a grant covers a request of a tool that itself names the host.
fn grants(text: &str, writes: bool, method: &str, url: &str) -> bool {
    fits(text, writes, method, url, &Base::Named, Strictness::Narrow) != Fit::No
}

fn denies(text: &str, writes: bool, method: &str, url: &str) -> bool {
    fits(text, writes, method, url, &Base::Foreign, Strictness::Wide) != Fit::No
}

#[test]
fn a_grant_covers_what_it_says_and_no_more() {
    for (text, url, covered) in [
        ("/users", "https://a.example/users", true),
        ("/users", "https://a.example/users?page=2", true),
        ("/users", "https://a.example/users/1", false),
        ("/users", "https://a.example/Users", false),
        ("/users/*", "https://a.example/users/1", true),
        ("/users/*", "https://a.example/users/1/keys", false),
        ("/users/**", "https://a.example/users/1/keys", true),
        ("/users/**", "https://a.example/users", false),
        ("/users/{id}", "https://a.example/users/1", true),
        ("/users/{id}/keys", "https://a.example/users/1/keys", true),
        ("/users/{id}", "https://a.example/users/1/keys", false),
        ("/{users,teams}/1", "https://a.example/teams/1", true),
        ("/users/1", "https://a.example/users/%31", true),
        ("/users/1", "https://a.example/x/../users/1", true),
        ("/users/*", "https://a.example/users/a%2Fb", true),
        ("GET /a b", "https://a.example/a%20b", true),
        ("/a/ü", "https://a.example/a/%C3%BC", true),
        ("/search?q=*", "https://a.example/search?q=rust", true),
        ("/search?q=*", "https://a.example/search", false),
        ("https://a.example/users", "https://a.example/users", true),
        (
            "https://a.example:443/users",
            "https://a.example/users",
            true,
        ),
        (
            "https://a.example/users",
            "https://a.example:8443/users",
            false,
        ),
        ("https://a.example/users", "http://a.example/users", false),
        ("http://a.example/users", "https://a.example/users", false),
        ("https://a.example", "https://a.example/", true),
        ("https://a.example", "https://a.example/users", false),
        ("https://a.example/**", "https://a.example/users", true),
        ("https://A.EXAMPLE/users", "https://a.example/users", true),
        ("https://*.example/users", "https://a.example/users", true),
        (
            "https://*.example/users",
            "https://a.b.example/users",
            false,
        ),
        ("https://*.example/users", "https://example/users", false),
        (
            "https://a.example/**",
            "https://a.example.evil/users",
            false,
        ),
        (
            "https://a.example/**",
            "https://b.example/a.example/users",
            false,
        ),
        ("https://[::1]:8080/**", "https://[::1]:8080/x", true),
        ("https://[::1]:8080/**", "https://[::2]:8080/x", false),
        ("http://127.0.0.1:*/x", "http://127.0.0.1:9/x", true),
        ("*", "https://a.example/users", true),
        ("users", "https://a.example/users", false),
        ("/us[ers", "https://a.example/us[ers", false),
    ] {
        assert_eq!(grants(text, false, "GET", url), covered, "{text} {url}");
    }
}

#[test]
fn reading_is_not_writing() {
    let url = "https://a.example/users";
    for (text, writes, method, covered) in [
        ("/users", false, "GET", true),
        ("/users", false, "HEAD", true),
        ("/users", false, "OPTIONS", true),
        ("/users", false, "POST", false),
        ("/users", true, "POST", true),
        ("/users", true, "DELETE", true),
        ("/users", true, "GET", false),
        ("GET /users", true, "GET", true),
        ("GET /users", false, "HEAD", false),
        ("POST /users", false, "POST", false),
        ("POST /users", true, "POST", true),
        ("post  /users", true, "POST", true),
        ("POST /users", true, "PUT", false),
        ("* /users", true, "PUT", true),
        ("* /users", true, "GET", false),
    ] {
        assert_eq!(
            grants(text, writes, method, url),
            covered,
            "{text} {writes} {method}"
        );
    }
}

#[test]
fn a_path_alone_is_one_of_a_host_that_the_tool_names() {
    let base = Base::Variable {
        written: "${API}".to_owned(),
        value: "https://a.example/v1/".to_owned(),
    };
    let fit = |text: &str, url: &str, base: &Base| {
        fits(text, false, "GET", url, base, Strictness::Narrow)
    };
    assert_eq!(
        fit("/users", "https://a.example/users", &Base::Foreign),
        Fit::No
    );
    assert_eq!(
        fit("/v1/users", "https://a.example/v1/users", &base),
        Fit::No
    );
    assert_eq!(
        fit(
            "https://a.example/v1/users",
            "https://a.example/v1/users",
            &base
        ),
        Fit::ThisHost
    );
    assert_eq!(
        fit("${API}/users", "https://a.example/v1/users", &base),
        Fit::ThisHost
    );
    assert_eq!(
        fit("GET ${API}/**", "https://a.example/v1/users/1", &base),
        Fit::ThisHost
    );
    assert_eq!(
        fit("${API}/users", "https://a.example/users", &base),
        Fit::No
    );
    assert_eq!(
        fit("${API}/users", "https://b.example/v1/users", &base),
        Fit::No
    );
    assert_eq!(
        fit("${OTHER}/users", "https://a.example/v1/users", &base),
        Fit::No
    );
    assert_eq!(fit("*", "https://a.example/v1/users", &base), Fit::AnyHost);
    assert_eq!(
        fit("https://*.example/**", "https://a.example/v1/users", &base),
        Fit::AnyHost
    );
}

#[test]
fn a_denial_is_read_widely() {
    for (text, writes, method, url) in [
        ("/admin/**", false, "GET", "https://a.example/admin/x"),
        ("/admin/**", false, "GET", "https://a.example/admin"),
        ("/admin/**", false, "GET", "https://a.example/ADMIN/x"),
        ("/admin/**", false, "GET", "https://a.example/%61dmin/x"),
        ("/admin/**", false, "GET", "https://a.example//admin//x"),
        ("/admin/**", false, "GET", "https://a.example/admin%2Fx"),
        ("/admin", false, "GET", "https://a.example/admin/"),
        ("POST /admin", false, "POST", "https://a.example/admin"),
        (
            "https://a.example/admin",
            true,
            "POST",
            "http://a.example/admin",
        ),
        (
            "https://a.example/admin",
            true,
            "POST",
            "https://a.example:8443/admin",
        ),
        (
            "https://*.example/**",
            true,
            "POST",
            "https://a.b.example/admin",
        ),
        ("nonsense", true, "GET", "https://a.example/"),
    ] {
        assert!(denies(text, writes, method, url), "{text} {method} {url}");
    }
    assert!(!denies("/admin", true, "GET", "https://a.example/admin"));
    assert!(!denies(
        "/admin",
        false,
        "GET",
        "https://a.example/administrators"
    ));
}

#[test]
fn what_is_no_endpoint_is_reported() {
    for text in [
        "",
        "users",
        "GET",
        "GET users",
        "ftp://a.example/x",
        "https://",
        "https://u@a.example/",
        "/a/../b",
        "/[",
        "a b c",
        "/a\nb",
    ] {
        assert!(Endpoint::parse(text).is_err(), "{text}");
    }
    for text in [
        "/",
        "GET /users",
        "POST https://api.example.org/users",
        "* /x",
        "*",
        "${API}/x",
        "GET https://${HOST}/x",
    ] {
        assert!(Endpoint::parse(text).is_ok(), "{text}");
    }
}
