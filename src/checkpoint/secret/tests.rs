//! Secrets that must be found, and lookalikes that must not. The secrets are generated here, so
//! that this file contains none.

mod services;

use super::*;

const ALPHANUMERIC: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEXADECIMAL: &[u8] = b"0123456789abcdef";
const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Random text, deterministic for a seed.
fn random(alphabet: &[u8], length: usize, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from((state >> 33) % alphabet.len() as u64).unwrap()
    };
    (0..length).map(|_| char::from(alphabet[next()])).collect()
}

fn token(length: usize) -> String {
    random(ALPHANUMERIC, length, 7)
}

fn rules(path: &str, content: &str) -> Vec<String> {
    let hits = SecretScanner::default().scan(&RepoPath::from(path), content.as_bytes());
    hits.into_iter().map(|hit| hit.rule).collect()
}

fn pem(kind: &str) -> String {
    let body = token(64 * 3);
    format!(
        "-----BEGIN {kind}-----\n{}\n{}\n{}\n-----END {kind}-----\n",
        &body[..64],
        &body[64..128],
        &body[128..]
    )
}

#[test]
fn secrets_of_known_forms_are_found() {
    let jwt = format!("eyJ{}.eyJ{}.{}", token(30), token(60), token(43));
    let cases = [
        ("private-key", pem("PRIVATE KEY")),
        ("private-key", pem("RSA PRIVATE KEY")),
        ("private-key", pem("EC PRIVATE KEY")),
        ("private-key", pem("OPENSSH PRIVATE KEY")),
        ("private-key", pem("ENCRYPTED PRIVATE KEY")),
        (
            "private-key",
            pem("PGP PRIVATE KEY BLOCK").replacen("BLOCK-----\n", "BLOCK-----\nVersion: 1\n\n", 1),
        ),
        (
            "private-key",
            pem("RSA PRIVATE KEY").replacen(
                "KEY-----\n",
                "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n",
                1,
            ),
        ),
        (
            "private-key",
            format!("key: \"{}\"", pem("PRIVATE KEY").replace('\n', "\\n")),
        ),
        (
            "putty-private-key",
            format!(
                "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n{}\n",
                token(64)
            ),
        ),
        (
            "aws-access-token",
            format!("aws_access_key_id = AKIA{}", random(BASE32, 16, 3)),
        ),
        (
            "aws-secret-access-key",
            format!("aws_secret_access_key = {}", token(40)),
        ),
        (
            "aws-secret-access-key",
            format!("\"SecretAccessKey\": \"{}\"", token(40)),
        ),
        (
            "github-token",
            format!("https://x:ghp_{}@github.com", token(36)),
        ),
        ("github-token", format!("gho_{}", token(36))),
        (
            "github-fine-grained-pat",
            format!("github_pat_{}_{}", token(22), random(ALPHANUMERIC, 59, 9)),
        ),
        ("gitlab-token", format!("GITLAB=glpat-{}", token(20))),
        (
            "slack-token",
            format!(
                "xoxb-{}-{}-{}",
                random(b"123456789", 12, 1),
                random(b"123456789", 12, 2),
                token(24)
            ),
        ),
        (
            "slack-webhook-url",
            format!(
                "https://hooks.slack.com/services/T{}/B{}/{}",
                token(8),
                token(8),
                token(24)
            ),
        ),
        ("stripe-access-token", format!("sk_live_{}", token(24))),
        ("stripe-access-token", format!("rk_live_{}", token(90))),
        ("gcp-api-key", format!("key=AIza{}&x=1", token(35))),
        ("openai-api-key", format!("sk-proj-{}", token(100))),
        (
            "openai-api-key",
            format!("sk-{}T3BlbkFJ{}", token(20), random(ALPHANUMERIC, 20, 5)),
        ),
        (
            "anthropic-api-key",
            format!("ANTHROPIC_API_KEY=sk-ant-api03-{}-AA", token(90)),
        ),
        (
            "npm-access-token",
            format!("//registry.npmjs.org/:_authToken=npm_{}", token(36)),
        ),
        (
            "pypi-upload-token",
            format!("pypi-AgEIcHlwaS5vcmc{}", token(120)),
        ),
        ("jwt", format!("Authorization: Bearer {jwt}")),
        (
            "database-url",
            format!("postgres://app:{}@db.prod.acme.io:5432/app", token(14)),
        ),
        (
            "database-url",
            format!("mongodb+srv://app:{}@cluster0.abcde.mongodb.net", token(14)),
        ),
        (
            "url-password",
            format!("https://deploy:{}@git.acme.io/x.git", token(14)),
        ),
        ("generic-api-key", format!("api_key = \"{}\"", token(32))),
        (
            "generic-api-key",
            format!("\"clientSecret\": \"{}\",", token(40)),
        ),
        (
            "generic-api-key",
            format!("SESSION_SECRET={}", random(HEXADECIMAL, 64, 4)),
        ),
        (
            "generic-api-key",
            format!("config['password'] = '{}!'", token(20)),
        ),
        (
            "generic-api-key",
            format!("-H 'Authorization: Bearer {}'", token(40)),
        ),
    ];
    for (rule, content) in cases {
        assert_eq!(rules("src/settings.txt", &content), [rule], "{content}");
        assert_eq!(
            rules("x", &format!("é \u{1f980}\n\n{content}\nend\n")),
            [rule],
            "{content}"
        );
    }
}

#[test]
fn what_only_looks_like_a_secret_is_left_alone() {
    let sha = random(HEXADECIMAL, 40, 1);
    let base64 = random(b"ABCDEFabcdef0123456789+/", 86, 2);
    let uuid = "3f2b8c1e-9d4a-4e6f-8b7a-1c2d3e4f5a6b";
    let cases = [
        ("notes.md", format!("commit {sha}\nfixes {sha}")),
        ("a.yml", format!("uses: actions/checkout@{sha}")),
        ("a.json", format!("\"id\": \"{uuid}\", \"token_id\": \"{uuid}\"")),
        ("package-lock.json", format!("\"js-tokens\": {{ \"integrity\": \"sha512-{base64}==\" }}")),
        ("yarn.lock", format!("js-tokens@^4:\n  integrity sha512-{base64}==\n  token \"{}\"", token(40))),
        ("Cargo.lock", format!("name = \"secret\"\nchecksum = \"{}\"", random(HEXADECIMAL, 64, 3))),
        ("go.sum", "github.com/x/token v1.0.0 h1:Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2Yz3A4=".to_owned()),
        ("a.html", format!("<script integrity=\"sha384-{base64}\">")),
        ("a.env", "API_KEY=xxxxxxxxxxxxxxxxxxxxxxxx\nTOKEN=your-api-key-here-1234".to_owned()),
        ("a.env", "API_KEY=<TOKEN>\nAPI_KEY=${API_KEY}\nPASSWORD=$DATABASE_PASSWORD2 SECRET={{ vault.secret1 }}".to_owned()),
        ("a.txt", "AKIAIOSFODNN7EXAMPLE\nwJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned()),
        ("a.txt", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned()),
        ("a.txt", format!("ghp_{} ghp_abcdefghijklmnopqrstuvwxyz0123456789", "0".repeat(36))),
        ("a.txt", format!("sk_live_{} sk_test_{}", "x".repeat(24), token(24))),
        ("a.txt", "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX".to_owned()),
        ("a.txt", "xoxb-your-token-here and xoxb-xxxxxxxxxxxx-xxxxxxxxxxxx".to_owned()),
        ("a.txt", "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n".to_owned()),
        ("a.rs", "if text.starts_with(\"-----BEGIN PRIVATE KEY-----\") { return the_first_of_all_the_keys(); }".to_owned()),
        ("a.pem", pem("PUBLIC KEY")),
        ("a.pem", pem("CERTIFICATE")),
        ("a.yml", "postgres://postgres:postgres@localhost:5432/app mysql://root:hunter22aB@db/app".to_owned()),
        ("a.yml", "DATABASE_URL=postgres://user:password@db.acme.io/app redis://:${PASS}@cache.acme.io".to_owned()),
        ("a.md", format!("postgres://app:{}@db.example.com/app", token(12))),
        ("a.rs", "let token = self.parser.next_token2(); let secret_key = SecretKey2::from_slice16(bytes);".to_owned()),
        ("a.rs", "const TOKEN_KIND: &str = \"identifier_token_v2_kind\"; password: get_password_from_env_2()".to_owned()),
        ("a.rs", "const PRIVATE_KEY: X509CertificateTemplateKeyFlag = 2; token: Base64UrlDecoderOfTheYear,".to_owned()),
        ("a.py", "api_key = os.environ[\"OPENAI_API_KEY_2024_PROD\"]".to_owned()),
        ("a.ts", "authKey: 'settings.account.apiKeys2.title1', token: tokenFromCookie2b".to_owned()),
        ("a.js", "!function(e,t){e.token=t.tokenizer,n.secret=r(8193).secretA1;var i=\"0x1f\"}".to_owned()),
        ("app.min.js", format!("a.apiKey=\"{}\"", token(32))),
        ("jwt.md", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c".to_owned()),
        ("a.txt", format!("token = \"{}\"", "0".repeat(64))),
        ("a.css", "--token-color-primary-500: #3f2b8c; .password-input2 { width: calc(100% - 12px) }".to_owned()),
    ];
    for (path, content) in cases {
        assert_eq!(
            rules(path, &content),
            Vec::<String>::new(),
            "{path}: {content}"
        );
    }
}

#[test]
fn some_files_are_secrets_by_name() {
    assert_eq!(
        rules("app/.env", "# all\nPORT=3000\n"),
        ["environment-file"]
    );
    assert_eq!(rules(".env.local", "A=b"), ["environment-file"]);
    for path in [
        ".env.example",
        ".env.sample",
        ".env.production",
        "env",
        "x.env",
    ] {
        assert!(rules(path, "PORT=3000\n").is_empty(), "{path}");
    }
    assert!(rules(".env", "# PORT=3000\nKEY=\nTOKEN=your-token\nURL=${URL}\n").is_empty());
    assert_eq!(
        rules("home/.ssh/id_rsa", &pem("RSA PRIVATE KEY")),
        ["private-key"]
    );
    assert_eq!(rules("id_ed25519", &token(200)), ["private-key-file"]);
    assert!(
        rules(
            "id_ed25519",
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAbcdefghijklmnopqrstuvwxyz me@example.org and more\n"
        )
        .is_empty()
    );
    assert!(rules("id_rsa", "").is_empty());
    assert!(rules("id_rsa.pub", &token(200)).is_empty());
    let store = b"\x30\x82\x0a\x01\x02\x01\x03\x30\x82\x09\xc7\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01\xa0\x00\x00";
    let hits = |path: &str, content: &[u8]| {
        SecretScanner::default()
            .scan(&RepoPath::from(path), content)
            .len()
    };
    assert_eq!(hits("a.p12", store), 1);
    assert_eq!(hits("a.p12", b"\x30\x82 no"), 0);
    assert_eq!(hits("a.png", store), 0);
}

#[test]
fn binary_files_are_not_read_as_text() {
    let mut content = b"\x89PNG\r\n\x1a\n\0\0".to_vec();
    content.extend_from_slice(format!("ghp_{}", token(36)).as_bytes());
    assert_eq!(
        SecretScanner::default().scan(&RepoPath::from("a.png"), &content),
        []
    );
}

#[test]
fn a_hit_names_the_place_and_never_the_secret() {
    let secret = format!("ghp_{}", token(36));
    let other = format!("npm_{}", token(36));
    let content = format!("one\ntwo {other}\nthree\nkey: {secret} {secret}\n");
    let hits = SecretScanner::default().scan(&RepoPath::from("a/b.txt"), content.as_bytes());
    let places: Vec<(&str, u64)> = hits
        .iter()
        .map(|hit| match hit.place {
            SecretPlace::Line(line) => (hit.rule.as_str(), line),
            place => panic!("{place:?}"),
        })
        .collect();
    assert_eq!(
        places,
        [
            ("npm-access-token", 2),
            ("github-token", 4),
            ("github-token", 4)
        ]
    );
    let error = super::super::error::CheckpointError::SecretFound(hits.clone());
    let scanner = SecretScanner::allowing([hits[0].fingerprint.as_str()]).unwrap();
    let shown = format!(
        "{hits:?} {} {error} {error:?} {scanner:?}",
        serde_json::to_string(&hits).unwrap()
    );
    assert!(
        !shown.contains(&secret[4..12]) && !shown.contains(&other[4..12]),
        "{shown}"
    );
}

#[test]
fn the_fingerprint_is_the_documented_hash() {
    let secret = format!("ghp_{}", token(36));
    let hits = SecretScanner::default().scan(&RepoPath::from("a"), secret.as_bytes());
    let digest = Sha256::digest(format!("github-token\0{secret}"));
    let expected: String = digest
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .take(8)
        .collect();
    assert_eq!(hits[0].fingerprint, expected);
    let elsewhere =
        SecretScanner::default().scan(&RepoPath::from("b"), format!("\n\n'{secret}'").as_bytes());
    assert_eq!(elsewhere[0].fingerprint, expected);
}

#[test]
fn a_quoted_and_a_bare_value_have_one_fingerprint() {
    let print = |content: String| {
        SecretScanner::default().scan(&RepoPath::from("a"), content.as_bytes())[0]
            .fingerprint
            .clone()
    };
    assert_eq!(
        print(format!("api_key = \"{}\"", token(32))),
        print(format!("API_KEY={}\n", token(32)))
    );
}

#[test]
fn the_project_allows_by_path_and_by_fingerprint() {
    let content = format!("ghp_{}", token(36));
    let hits = |allowed: &[&str], path: &str| {
        SecretScanner::allowing(allowed.iter().copied())
            .unwrap()
            .scan(&RepoPath::from(path), content.as_bytes())
    };
    let fingerprint = hits(&[], "a/b.txt")[0].fingerprint.clone();
    for allowed in [
        "a/*.txt",
        "*.txt",
        "/a/b.txt",
        "a/**",
        &fingerprint,
        &fingerprint.to_uppercase(),
    ] {
        assert_eq!(hits(&[allowed], "a/b.txt"), [], "{allowed}");
    }
    for allowed in ["b/*.txt", "a/*.md", "a", "0123456789abcdef"] {
        assert_eq!(hits(&[allowed], "a/b.txt").len(), 1, "{allowed}");
    }
    assert_eq!(SecretScanner::allowing(["a["]).unwrap_err().entry, "a[");
}

#[test]
fn a_change_is_judged_by_what_it_adds() {
    let (old, new) = (format!("ghp_{}", token(36)), format!("npm_{}", token(36)));
    let path = RepoPath::from("a");
    let scan = |before: Option<&str>, after: &str| -> Vec<String> {
        let hits = SecretScanner::default().scan_change(
            &path,
            before.map(str::as_bytes),
            after.as_bytes(),
        );
        hits.into_iter().map(|hit| hit.rule).collect()
    };
    assert_eq!(
        scan(Some(&old), &format!("moved\n{old}")),
        Vec::<String>::new()
    );
    assert_eq!(
        scan(Some(&old), &format!("{old}\n{new}")),
        ["npm-access-token"]
    );
    assert_eq!(scan(None, &old), ["github-token"]);
    assert_eq!(scan(Some(&old), ""), Vec::<String>::new());
    let environment = RepoPath::from(".env");
    assert_eq!(
        SecretScanner::default().scan_change(&environment, Some(b"A=1"), b"A=2"),
        []
    );
}

#[test]
fn a_large_hostile_file_is_scanned_to_its_end() {
    let secret = format!("ghp_{}", token(36));
    let pieces = [
        "token=",
        "api_key = \"",
        "-----BEGIN PRIVATE KEY-----\n",
        "eyJ",
        "postgres://a:",
        "a1B2c3D4e5F6g7H8",
        "xoxb-1-",
        "curl -u a:",
        "curl https://acme.io ",
        "machine a.io login b password ",
        "jdbc:x://a.io?a&password=",
        "server=a.io;password=;",
        "\"auth\": \"YTpi",
        "?sp=r&sig=",
        "EAAA twilio vault s.",
        "MTIzNDU2Nzg5MDEyMzQ1Njc4.bot.",
    ];
    for piece in pieces {
        let mut content = piece.repeat(10 * 1024 * 1024 / piece.len());
        content = content + "\n" + &secret + "\n";
        let hits = SecretScanner::default().scan(&RepoPath::from("a"), content.as_bytes());
        assert!(hits.iter().any(|hit| hit.rule == "github-token"), "{piece}");
        assert!(hits.len() < 2 * HITS, "{piece}");
    }
}

#[test]
fn a_redacted_text_names_its_secrets_in_place() {
    let (first, second) = (
        format!("ghp_{}", token(36)),
        format!("AKIA{}", random(BASE32, 16, 3)),
    );
    let shown = redacted(&format!("é curl -H {first} {second} {first}, done"));
    assert!(
        !shown.contains(&first) && !shown.contains(&second),
        "{shown}"
    );
    let rules: Vec<&str> = shown
        .split("[redacted:")
        .skip(1)
        .filter_map(|part| part.split('#').next())
        .collect();
    assert_eq!(rules, ["github-token", "aws-access-token", "github-token"]);
    assert!(
        shown.starts_with("é curl -H [redacted:") && shown.ends_with("], done"),
        "{shown}"
    );
    assert_eq!(
        redacted("nothing to hide: 7d4bf9e1a3c5"),
        "nothing to hide: 7d4bf9e1a3c5"
    );
}
