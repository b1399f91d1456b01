use super::*;

#[test]
fn only_what_the_internet_routes_is_public() {
    let private = [
        "127.0.0.1",
        "127.9.9.9",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "::1",
        "::",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:1::",
        "2001:db8::1",
    ];
    for text in private {
        assert!(is_private(text.parse().unwrap()), "{text} is private");
    }
    let public = [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "198.17.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450::1",
        "64:ff9b::808:808",
        "::ffff:8.8.8.8",
        "2002:808:808::",
    ];
    for text in public {
        assert!(!is_private(text.parse().unwrap()), "{text} is public");
    }
}

#[test]
fn an_address_that_is_written_out_is_judged_however_it_is_written() {
    let written = [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://[::1]/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://a.localhost/",
        "https://169.254.169.254/latest/meta-data",
        "ws://[::ffff:10.0.0.1]/",
    ];
    for text in written {
        let url = Url::parse(text).unwrap();
        let failure = check_url(&url, NetworkReach::Public).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Address, "{text}");
        assert_eq!(check_url(&url, NetworkReach::Anywhere), Ok(()), "{text}");
    }
    assert_eq!(
        check_url(
            &Url::parse("https://example.com/a").unwrap(),
            NetworkReach::Public
        ),
        Ok(())
    );
    for text in ["file:///etc/passwd", "ftp://example.com/", "unix:/run/x"] {
        assert!(
            check_url(&Url::parse(text).unwrap(), NetworkReach::Anywhere).is_err(),
            "{text}"
        );
    }
}

#[test]
fn the_proxy_of_the_user_may_be_anywhere() {
    let environment: BTreeMap<OsString, OsString> = [
        ("HTTPS_PROXY", "http://user:pass@Proxy.corp:3128"),
        ("http_proxy", "10.0.0.1:8080"),
        ("no_proxy", "internal.example"),
        ("ALL_PROXY", ""),
        ("SSL_CERT_FILE", "/ca.pem"),
        ("AWS_SECRET", "x"),
    ]
    .into_iter()
    .map(|(name, value)| (name.into(), value.into()))
    .collect();
    assert_eq!(proxy_hosts(&environment), ["proxy.corp", "10.0.0.1"]);
    let passed: Vec<OsString> = variables(&environment).into_keys().collect();
    assert_eq!(
        passed,
        ["HTTPS_PROXY", "SSL_CERT_FILE", "http_proxy", "no_proxy"]
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let look_up = |proxies: &[String]| {
        let lookup = GuardedLookup {
            reach: NetworkReach::Public,
            proxies: proxies.into(),
        };
        runtime
            .block_on(lookup.resolve("localhost".parse().unwrap()))
            .map(Iterator::count)
    };
    assert!(look_up(&[]).is_err());
    assert!(look_up(&["LOCALHOST".to_owned()]).is_ok_and(|count| count > 0));
}
