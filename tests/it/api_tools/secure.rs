//! TLS and proxies: the generated tool skeleton, directed to a test server by the user's proxy and
//! certificates.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;

use super::server::{self, Server};
use super::{failure, result, run};
use crate::harness::TestProject;

/// A test server that acts as `api.github.com`.
pub(crate) struct Stage {
    /// The port of the proxy that leads to it.
    proxy: u16,
    /// The certificate authority that makes it trusted.
    authority: PathBuf,
    /// The hosts that the proxy was asked to connect to.
    connected: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    /// Directs a project to the server, through the proxy and the certificate authority.
    pub(crate) fn enter(&self, project: TestProject) -> TestProject {
        let proxy = format!("http://127.0.0.1:{}", self.proxy);
        project
            .variable("HTTPS_PROXY", &proxy)
            .variable("SSL_CERT_FILE", self.authority.to_str().expect("a path"))
    }
}

/// Sets up a certificate authority, a server with a certificate and a proxy in the home of a
/// project.
pub(crate) fn stage(project: &TestProject, host: &str, answer: String) -> Stage {
    let folder = project.home().join("tls");
    std::fs::create_dir(&folder).expect("a folder");
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    project.bash(&format!(
        "command -v openssl >/dev/null || {{ echo 'openssl is missing; ./scripts/test installs it' >&2; exit 1; }}
         cd '{}'; exec 2>/dev/null
         openssl req -x509 {curve} -keyout authority.key -out authority.pem -days 2 -subj /CN=Authority
         openssl req {curve} -keyout server.key -out server.csr -subj /CN={host}
         echo 'subjectAltName=DNS:{host}' > extensions
         openssl x509 -req -in server.csr -CA authority.pem -CAkey authority.key -days 2 -extfile extensions -out server.pem",
        folder.display()
    ));
    let certificate =
        CertificateDer::from_pem_file(folder.join("server.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocols")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a server");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let (config, answer) = (Arc::clone(&config), answer.clone());
            thread::spawn(move || {
                let connection = rustls::ServerConnection::new(config).expect("a connection");
                let mut stream = rustls::StreamOwned::new(connection, socket);
                if server::read(&mut stream).is_some() {
                    let _ = stream.write_all(answer.as_bytes());
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                    let _ = stream.sock.shutdown(Shutdown::Write);
                    let _ = stream.sock.read(&mut [0; 1024]);
                }
            });
        }
    });
    let connected = Arc::new(Mutex::new(Vec::new()));
    let known = Arc::clone(&connected);
    let proxy = Server::start(move |_, asked, stream| {
        known.lock().expect("a list").push(asked.line.clone());
        if !asked.line.starts_with("CONNECT ") {
            return;
        }
        let Ok(mut there) = TcpStream::connect(("127.0.0.1", port)) else {
            return;
        };
        let _ = stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
        let (mut back, mut from) = (
            stream.try_clone().expect("a stream"),
            there.try_clone().expect("a stream"),
        );
        let other = thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut back);
            let _ = back.shutdown(Shutdown::Write);
        });
        let _ = std::io::copy(stream, &mut there);
        let _ = there.shutdown(Shutdown::Write);
        let _ = other.join();
    });
    Stage {
        proxy: proxy.port,
        authority: folder.join("authority.pem"),
        connected,
    }
}

const REPOSITORY: &str = r#"{"full_name": "git/git", "description": "Git Source Code Mirror"}"#;

#[test]
fn the_skeleton_runs_as_it_is_made() {
    let project = TestProject::new();
    let stage = stage(&project, "api.github.com", server::json(REPOSITORY));
    let proxy = format!("http://127.0.0.1:{}", stage.proxy);
    let project = project.variable("HTTPS_PROXY", &proxy);
    let made = project.piton(["new", "tool", "repository", "--type", "api"]);
    assert_eq!(made.code(), Some(0), "{made}");
    assert!(
        made.stderr()
            .contains("`piton tool run repository --param repo=git`"),
        "{made}"
    );
    // An untrusted server answers in the name of the host.
    let ran = run(&project, "repository", &["timeout=20"]);
    let text = failure(&ran);
    assert!(
        text.starts_with("NETWORK_FAILED: `api.github.com` has an untrusted certificate: "),
        "{ran}"
    );

    let project = project.variable("SSL_CERT_FILE", stage.authority.to_str().expect("a path"));
    let answer = result(&run(&project, "repository", &[]));
    assert_eq!(
        (&answer["status"], &answer["body"]["full_name"]),
        (&json!(200), &json!("git/git"))
    );
    let ran = project.piton(["tool", "run", "repository", "--param", "repo=git"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let connected = stage.connected.lock().expect("a list").clone();
    assert!(
        connected.len() >= 3
            && connected
                .iter()
                .all(|line| line == "CONNECT api.github.com:443"),
        "{connected:?}"
    );
    // Enable the option that the skeleton shows as a comment.
    let text = project
        .read(".ai/tools/repository.yaml")
        .replace("  # response_transform", "  response_transform");
    let project = project.file(".ai/tools/repository.yaml", text);
    assert_eq!(
        result(&run(&project, "repository", &[])),
        json!("Git Source Code Mirror")
    );
}

#[test]
fn a_proxy_leads_nowhere_that_is_written_as_private() {
    let project = TestProject::new();
    let stage = stage(&project, "api.example.com", server::json("1"));
    let proxy = format!("http://127.0.0.1:{}", stage.proxy);
    let mut project = project
        .variable("https_proxy", &proxy)
        .variable("http_proxy", &proxy);
    for (id, url) in [
        ("address", "https://10.0.0.1/"),
        ("name", "https://localhost/"),
        ("meta", "http://metadata.google.internal/"),
    ] {
        let manifest = format!(
            "tool_id: {id}\ntool_type: api\nversion: \"1.0.0\"\nexecutor: http_client\nconfig: {{method: GET, url: \"{url}\", retries: 0}}\n"
        );
        project = project.file(&format!(".ai/tools/{id}.yaml"), manifest);
    }
    for id in ["address", "name", "meta"] {
        let ran = run(&project, id, &[]);
        assert!(failure(&ran).starts_with("ADDRESS_REFUSED: "), "{ran}");
    }
    assert_eq!(stage.connected.lock().expect("a list").len(), 0);
}
