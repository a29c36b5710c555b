//! The service is closed by default: every route that may change something, asked by those who may not.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Answer, Running, sample, workspace};
use orco_runtime::bundle::Bundle;
use orco_runtime::learner::LearnerSettings;
use orco_runtime::store::Store;
use orco_serve::route::{BodyKind, Route};
use orco_serve::routes::ROUTES;
use orco_serve::{ServeError, Server, ServerOptions, Service, Tls};
use serde_json::json;
use tempfile::TempDir;

/// A service that others reach, with its token.
fn guarded(folder: &Path, body_timeout: Duration) -> Running {
    let token = folder.join("token");
    let listen = (Ipv4Addr::UNSPECIFIED, 0).into();
    let host_names = vec!["orco.example".to_owned()];
    let options = ServerOptions::default().listen(listen).token_file(Some(token.clone()));
    let options = options.host_names(host_names).body_timeout(body_timeout);
    let mut service = Running::with(&folder.join("state"), options);
    service.address.set_ip(Ipv4Addr::LOCALHOST.into());
    service.token = Some(std::fs::read_to_string(token).unwrap().trim().to_owned());
    service
}

/// A path of that route.
fn path(route: &Route) -> String {
    route
        .path
        .replace("{label}", "mug")
        .replace("{id}", "5f0c2a91d3b84e67-1")
        .replace("{name}", "cifar100-edge")
        .replace("{version}", "1")
}

/// A content type that the route takes, if it takes a body.
fn content_type(route: &Route) -> Vec<(&'static str, &'static str)> {
    route.body.content_types().first().map(|kind| ("Content-Type", *kind)).into_iter().collect()
}

/// Somebody who may not use a route, and asks all the same.
struct Stranger<'a> {
    service: &'a Running,
    route: &'a Route,
    path: String,
    /// The header of a body that the route takes.
    content_type: Vec<(&'static str, &'static str)>,
    token: &'a str,
}

impl<'a> Stranger<'a> {
    fn of(service: &'a Running, route: &'a Route, token: &'a str) -> Self {
        Self { service, route, path: path(route), content_type: content_type(route), token }
    }

    fn ask(&self, more: &[(&str, &str)]) -> Answer {
        let headers = [&self.content_type[..], more].concat();
        self.service.ask(self.route.method.as_str(), &self.path, &headers, b"")
    }

    fn assert_refused(&self, answer: &Answer, status: u16, why: &str) {
        assert_eq!(answer.status, status, "{:?}, {why}: {}", self.route, answer.text());
        assert!(!answer.error().is_empty(), "{:?}, {why}", self.route);
    }

    fn sends_wrong_heads(&self) {
        let (wrong, longer) = (format!("Bearer {}", "0".repeat(64)), format!("bearer {}0", self.token));
        for given in ["", "Bearer", "Bearer ", "Basic eA==", &wrong, &longer, self.token] {
            self.assert_refused(&self.ask(&[("Authorization", given)]), 401, given);
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "", "a b"] {
            self.assert_refused(&self.ask(&[("Host", host)]), 421, host);
        }
        self.assert_refused(&self.ask(&[("Host", "localhost"), ("Host", "localhost")]), 400, "two hosts");
        let other_port = "http://localhost:1";
        for origin in ["http://evil.example", "null", other_port, "file:///x", "http://localhost.evil.example"] {
            self.assert_refused(&self.ask(&[("Origin", origin)]), 403, origin);
        }
    }

    fn sends_wrong_types(&self) {
        let ask = |headers: &[(&str, &str)]| self.service.ask(self.route.method.as_str(), &self.path, headers, b"{}");
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""] {
            self.assert_refused(&ask(&[("Content-Type", kind)]), 415, kind);
        }
        if !self.route.body.is_of_inference_protocol() {
            self.assert_refused(&ask(&[]), 415, "no type");
            self.assert_refused(&self.ask(&[("Content-Encoding", "gzip")]), 415, "a compressed body");
        }
        let answer = self.ask(&[("Content-Encoding", "br")]);
        self.assert_refused(&answer, 415, "a body compressed in a way that is not known");
    }

    /// The head of a request with the token, but for the length of its body and the empty line.
    fn head(&self) -> String {
        let types: String = self.content_type.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!(
            "{} {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n{types}",
            self.route.method, self.path, self.token
        )
    }

    /// Announces a body of one byte more than the route takes; the answer is still to be read.
    fn announces_too_large_a_body(&self) -> TcpStream {
        let length = self.route.body.limit(self.content_type.first().map_or("", |(_, kind)| *kind)) + 1;
        let mut stream = self.service.connect();
        write!(stream, "{}Content-Length: {length}\r\n\r\nx", self.head()).unwrap();
        stream
    }

    /// Sends a body without a length that becomes longer than the route takes.
    fn sends_a_growing_body(&self) {
        let mut stream = self.service.connect();
        let chunk = " ".repeat(0x20000);
        write!(stream, "{}Transfer-Encoding: chunked\r\n\r\n20000\r\n{chunk}\r\n0\r\n\r\n", self.head()).ok();
        self.assert_refused(&Answer::read(stream), 413, "a body that grows too large");
    }
}

#[test]
fn every_route_that_changes_something_is_refused_to_strangers() {
    let mut trial = orco_trials::trial!(9, "routes");
    let folder = TempDir::new().unwrap();
    let mut service = guarded(folder.path(), Duration::from_secs(30));
    let token = service.token.clone().unwrap();
    let before = service.get("/api/v1/history");
    let own_port = format!("http://localhost:{}", service.address.port());
    let mut tried = 0;
    // The service waits a moment for the rest of a body that it refuses. Answers are read at the end: it waits for all
    // at once.
    let mut announced = Vec::new();
    for route in ROUTES.iter().filter(|route| route.mutates()) {
        let stranger = Stranger::of(&service, route, &token);
        stranger.sends_wrong_heads();
        if route.body != BodyKind::None {
            stranger.sends_wrong_types();
        }
        announced.push((format!("{} {}", route.method, stranger.path), stranger.announces_too_large_a_body()));
        if matches!(route.body, BodyKind::None | BodyKind::Json) {
            stranger.sends_a_growing_body();
        }
        // From its own page it is heard, whatever comes of it.
        let answer = stranger.ask(&[("Origin", &own_port)]);
        assert!(![401, 403, 405, 413, 415, 421].contains(&answer.status), "{route:?}: {}", answer.text());
        tried += 1;
        trial.count(1);
    }
    // Counted by hand, so that a route that `mutates` misses does not go untried.
    assert_eq!((tried, announced.len()), (26, 26), "routes that change something came or went");
    for (route, stream) in announced {
        let answer = Answer::read(stream);
        assert_eq!(answer.status, 413, "{route}, a body that is announced too large: {}", answer.text());
        assert!(!answer.error().is_empty(), "{route}");
    }
    assert_eq!(service.get("/api/v1/history"), before);
    assert_eq!(service.ask("GET", "/api/v1/status", &[("Host", "orco.example")], b"").status, 200);
    for route in ROUTES.iter().filter(|route| !route.mutates()) {
        let expected = if route.open { 200 } else { 401 };
        for method in ["GET", "HEAD"] {
            let answer = service.ask(method, &path(route), &[("Authorization", "")], b"");
            assert_eq!(answer.status, expected, "{method} {route:?}");
        }
    }
    for scheme in ["bearer", "BEARER"] {
        let given = format!("{scheme} {token}");
        assert_eq!(service.ask("GET", "/api/v1/status", &[("Authorization", &given)], b"").status, 200, "{scheme}");
    }
    let head = service.ask("HEAD", "/api/v1/status", &[], b"");
    assert_eq!((head.status, head.text().as_str()), (200, ""));
    service.token = None;
    assert_eq!(service.ask("PUT", "/api/v1/learn", &[], b"").status, 405);
    assert_eq!(service.ask("GET", "/../../etc/passwd", &[], b"").status, 404);
}

/// Names may end in a dot, and httpx sends the zone of a link-local address.
#[test]
fn a_host_may_be_written_in_every_form_that_clients_send() {
    let folder = TempDir::new().unwrap();
    let service = guarded(folder.path(), Duration::from_secs(30));
    let status = |host: &str, origin: &str| {
        let headers = [("Host", host), ("Origin", origin)];
        let sent = headers.iter().filter(|(_, value)| !value.is_empty()).copied().collect::<Vec<_>>();
        service.ask("GET", "/api/v1/status", &sent, b"").status
    };
    for host in ["localhost.", "localhost.:8080", "ORCO.example.", "[fe80::1%eth0]:8443", "[fe80::1%25eth0]", "[::1]"] {
        assert_eq!(status(host, ""), 200, "{host}");
        assert_eq!(status(host, "http://evil.example"), 403, "{host}");
    }
    assert_eq!(status("orco.example.:80", "http://orco.example.:80"), 200);
    assert_eq!(status("orco.example.:80", "http://orco.example:80"), 403, "a browser writes both alike");
    for host in ["orco.example..", ".", "evil.example.", "[evil.example%eth0]", "[fe80::1%eth0", "[%]", "fe80::1%eth0"]
    {
        assert_eq!(status(host, ""), 421, "{host}");
    }
    let (_state, service) = Running::fresh();
    let status = |host: &str| service.ask("GET", "/api/v1/status", &[("Host", host)], b"").status;
    assert_eq!([status("localhost."), status("[::1%lo]"), status("[fe80::1%eth0]")], [200, 200, 421]);
}

#[test]
fn slow_bodies_and_heads_are_cut_off_while_others_are_served() {
    let mut trial = orco_trials::trial!(9, "slow requests");
    let folder = TempDir::new().unwrap();
    let service = guarded(folder.path(), Duration::from_millis(300));
    let token = service.token.as_deref().unwrap();
    for route in ROUTES.iter().filter(|route| route.body != BodyKind::None) {
        let (_, kind) = content_type(route)[0];
        let mut stream = service.connect();
        write!(
            stream,
            "{} {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: {kind}\r\n\
             Content-Length: 1000\r\nConnection: close\r\n\r\n{{",
            route.method,
            path(route)
        )
        .unwrap();
        assert_eq!(service.ask("GET", "/v2/health/live", &[], b"").status, 200);
        let answer = Answer::read(stream);
        assert_eq!(answer.status, 408, "{route:?}: {}", answer.text());
        trial.count(1);
    }
}

#[test]
fn a_first_head_is_waited_for_briefly_and_an_idle_connection_is_kept() {
    const HEAD: Duration = Duration::from_millis(300);
    const REQUEST: &str = "GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let state = TempDir::new().unwrap();
    let service = Running::with(state.path(), ServerOptions::default().head_timeout(HEAD));
    let answered = |stream: &mut TcpStream| {
        let mut status = [0; 12];
        stream.write_all(REQUEST.as_bytes()).and_then(|()| stream.read_exact(&mut status)).is_ok_and(|()| {
            // The rest of the answer is there as well, or soon.
            std::thread::sleep(Duration::from_millis(20));
            let _ = stream.read(&mut [0; 4096]);
            status == *b"HTTP/1.1 200"
        })
    };
    let mut kept = service.connect();
    assert!(answered(&mut kept));
    for sent in ["", &REQUEST[..REQUEST.len() - 2]] {
        let (began, mut stream) = (Instant::now(), service.connect());
        stream.write_all(sent.as_bytes()).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "{sent:?}");
        assert!(began.elapsed() >= HEAD && began.elapsed() < 20 * HEAD, "{sent:?}: {:?}", began.elapsed());
    }
    // For twice as long as a first head may take.
    assert!(answered(&mut kept));
}

#[test]
fn answers_that_nobody_reads_are_let_go() {
    let folder = TempDir::new().unwrap();
    let service = guarded(folder.path(), Duration::from_millis(500));
    let features = service.get("/v2/models/cifar100-edge")["inputs"][1]["shape"][1].as_u64().unwrap() as usize;
    // Answers of about 3 MB each, more of them than any socket holds.
    let (rows, count) = (4096, 16);
    let tensor = vec![1; 4 * rows * features];
    let head = json!({ "inputs": [{
        "name": "features", "datatype": "FP32", "shape": [rows, features],
        "parameters": { "binary_data_size": tensor.len() },
    }] });
    let head = head.to_string();
    let request = format!(
        "POST /v2/models/cifar100-edge/infer HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/octet-stream\r\nInference-Header-Content-Length: {}\r\n\
         Content-Length: {}\r\n\r\n{head}",
        service.token.as_ref().unwrap(),
        head.len(),
        head.len() + tensor.len()
    );
    let mut stream = service.connect();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    for _ in 0..count {
        // It hears nothing more once the socket is full, and then hangs up.
        if let Err(error) = stream.write_all(request.as_bytes()).and_then(|()| stream.write_all(&tensor)) {
            let waits = [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind());
            assert!(!waits, "it still waits for somebody to read");
            break;
        }
    }
    let mut answers = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut answers);
    let whole = answers.windows(16).filter(|part| part == b"\"known\",\"datatype").count();
    assert!(answers.starts_with(b"HTTP/1.1 200 ") && whole < count, "{whole} of {count} answers");
}

#[test]
fn on_this_machine_alone_no_token_is_asked_but_hosts_and_origins_are() {
    let (_state, service) = Running::fresh();
    assert_eq!(service.get("/api/v1/status")["bundle"], "cifar100-edge");
    let undo = |headers: &[(&str, &str)]| {
        service.ask("POST", "/api/v1/undo", &[&[("Content-Type", "application/json")], headers].concat(), b"{}")
    };
    assert_eq!(undo(&[]).error(), "there is nothing to undo");
    let list = service.json("POST", "/api/v1/undo", &json!([3]));
    assert_eq!((list.status, list.error()), (400, "the request must be a JSON object: {...}".into()));
    let by_address = undo(&[("Host", "192.168.1.7")]);
    assert_eq!(by_address.status, 421, "only this machine's own addresses");
    assert!(by_address.error().contains("start it with --host-name NAME"), "{}", by_address.error());
    // As to a proxy: the address names the host, and `Host` says nothing.
    for (host, status) in [("localhost", 200), ("evil.example", 421)] {
        assert_eq!(service.ask("GET", &format!("http://{host}/api/v1/status"), &[], b"").status, status, "{host}");
    }
    let wrong_method = service.ask("PUT", "/api/v1/shots/mug", &[], b"");
    let allowed = "DELETE, GET, HEAD, PATCH, POST";
    assert!(wrong_method.head.contains(&format!("allow: {}\r\n", allowed.to_lowercase())), "{}", wrong_method.head);
    assert!(wrong_method.error().ends_with(&format!("it supports {allowed}")), "{}", wrong_method.error());
    assert!(!service.ask("GET", "/api/v1/shots", &[], b"").head.contains("allow:"));
    assert_eq!(undo(&[("Origin", "http://evil.example")]).status, 403);
    let page = service.ask("GET", "/", &[], b"");
    assert!(page.head.contains("content-security-policy: default-src 'none'") && page.head.contains("nosniff"));
    let unknown = service.json("POST", "/api/v1/balance", &json!({ "balance": "balanced", "more": 1 }));
    assert_eq!(unknown.status, 400, "{}", unknown.text());
    // Whatever is wrong is said as JSON.
    let picture = sample("try", "mug", 1);
    for (method, path, status, said) in [
        ("GET", "/nothing", 404, "there is no such path"),
        ("GET", "/api/v1/nothing", 404, "there is no such path"),
        ("PUT", "/api/v1/status", 405, "does not support this method; it supports GET, HEAD"),
        ("GET", "/api/v1/jobs/first", 400, "first"),
        ("GET", "/api/v1/jobs/1", 400, "plain numbers are not taken"),
        ("GET", "/api/v1/inbox/1", 400, "plain numbers are not taken"),
        ("GET", "/api/v1/shots/mug/1", 400, "plain numbers are not taken"),
        ("GET", "/api/v1/shots/T%FCr", 400, "the label in the path is not in UTF-8"),
        ("GET", "/api/v1/classes/bear/shots/1.jpg", 400, "numbers are not taken"),
        ("GET", "/api/v1/jobs/5f0c2a91d3b84e67-1", 404, "the service has restarted since, or never issued this id"),
        ("GET", "/api/v1/status?more=1", 400, "takes no query"),
        ("GET", "/api/v1/camera.jpg?after=-1", 400, "the query: after: \"-1\" must be a whole number"),
        ("GET", "/api/v1/camera.jpg?after=18446744073709551616", 400, "is too large a number"),
        ("POST", "/api/v1/classify?tpo=3", 400, "unknown field `tpo`"),
        ("POST", "/api/v1/classify?top=many", 400, "the query: top: \"many\" must be a whole number"),
        ("POST", "/api/v1/classify?top=0", 400, "\"top\" must be at least 1"),
        ("POST", "/api/v1/shots/mug?anyhow=true", 400, "unknown field `anyhow`"),
    ] {
        let answer = match method {
            "POST" => service.picture(path, &picture),
            _ => service.ask(method, path, &[], b""),
        };
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        assert!(answer.error().contains(said), "{method} {path}: {}", answer.error());
    }
    let id = service.ask("GET", "/api/v1/shots/mug/1", &[], b"");
    assert!(id.error().starts_with("\"1\" is no id: "), "{}", id.error());
    assert_eq!(service.ask("GET", "/?from=mail", &[], b"").status, 200);
    let base = service.ask("DELETE", "/api/v1/classes/bear", &[], b"");
    assert_eq!((base.status, base.error().contains("came with the bundle")), (409, true));
}

/// What a browser says of a request that a page of another site causes: an `<img>`, a `fetch`, an `EventSource`, a
/// frame, a link.
#[test]
fn pages_of_other_sites_may_read_and_embed_nothing() {
    let mut trial = orco_trials::trial!(26, "cross-site requests");
    let (_state, service) = Running::fresh();
    let get = |method: &str, path: &str, headers: [&str; 3]| {
        let names = ["Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"];
        let headers: Vec<_> = names.into_iter().zip(headers).filter(|(_, value)| !value.is_empty()).collect();
        service.ask(method, path, &headers, b"")
    };
    let shot = service.picture("/api/v1/shots/mug", &sample("learn", "mug", 1)).ok();
    let thumbnail = format!("/api/v1/shots/mug/{}", shot["id"].as_str().expect("an id"));
    let paths = ROUTES.iter().filter(|route| !route.mutates()).map(path);
    for path in paths.chain([thumbnail.clone()]) {
        for site in ["cross-site", "same-site", "", "none"] {
            for how in [["no-cors", "image"], ["cors", "empty"], ["navigate", "iframe"], ["navigate", "document"]] {
                // Without a word on the site, a browser too old for that; with `none`, somebody typed the address.
                let own = ["", "none"].contains(&site);
                let opens_page = path == "/" && how == ["navigate", "document"];
                for method in ["GET", "HEAD"] {
                    // Streams have no end.
                    if own && (path.ends_with("events") || path.ends_with(".mjpg")) {
                        continue;
                    }
                    let status = get(method, &path, [site, how[0], how[1]]).status;
                    let refused = status == 403;
                    assert_eq!(refused, !(own || opens_page && method == "GET"), "{method} {path} {site} {how:?}");
                    trial.count(1);
                }
            }
        }
        if !path.ends_with("events") && !path.ends_with(".mjpg") {
            let own = get("GET", &path, ["same-origin", "no-cors", "image"]);
            assert_ne!(own.status, 403, "{path}");
            for header in ["cross-origin-resource-policy: same-origin", "cross-origin-opener-policy: same-origin"] {
                assert!(own.head.contains(header), "{path}: {}", own.head);
            }
        }
    }
    // Whether it is there cannot be told either.
    let [there, not_there] = [&*thumbnail, "/api/v1/shots/mug/99"].map(|path| {
        let answer = get("GET", path, ["cross-site", "no-cors", "image"]);
        (answer.status, answer.body)
    });
    assert_eq!(there, not_there);
    assert_eq!(get("GET", &thumbnail, ["", "", ""]).status, 200);
    let two = service.ask("GET", &thumbnail, &[("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")], b"");
    assert_eq!(two.status, 403);
    let written = [("Sec-Fetch-Site", "cross-site"), ("Content-Type", "application/json")];
    assert_eq!(service.ask("POST", "/api/v1/undo", &written, b"{}").status, 403);
}

#[test]
fn no_more_changes_wait_than_the_queue_takes() {
    let (_state, service) = Running::fresh();
    let names = ["keep-base", "favour-new"];
    let ask = |n: usize| service.json("POST", "/api/v1/balance", &json!({ "balance": names[n % 2] }));
    for number in 1..=5 {
        service.picture("/api/v1/shots/mug", &sample("learn", "mug", number)).ok();
    }
    assert_eq!(service.json("POST", "/api/v1/learn", &json!({ "label": "mug" })).status, 202);
    let answers: Vec<Answer> = (0..40).map(ask).collect();
    let jobs = answers.iter().filter_map(|answer| Some(answer.value()["id"].as_str()?.to_owned()));
    let jobs: Vec<String> = jobs.collect();
    let answers: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert!(answers.iter().all(|status| [202, 429].contains(status)), "{answers:?}");
    // As many as are taken are made, whether or not the queue was ever full.
    let taken = answers.iter().filter(|status| **status == 202).count() as u64;
    assert!(taken >= 7, "{answers:?}");
    while service.get("/api/v1/jobs")["jobs"] != json!([]) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(jobs.len() as u64, taken);
    assert!(jobs.iter().all(|job| service.get(&format!("/api/v1/jobs/{job}"))["state"] == "done"));
}

fn service(state: &Path) -> Arc<Service> {
    let bundle = Bundle::open(workspace().join("models/cifar100-edge")).unwrap();
    Service::open(bundle, Store::new(state), LearnerSettings::default()).unwrap()
}

#[test]
fn off_the_machine_a_token_of_its_owner_alone_is_demanded() {
    let folder = TempDir::new().unwrap();
    let service = service(&folder.path().join("state"));
    let outside = ServerOptions::default().listen((Ipv4Addr::UNSPECIFIED, 0).into());
    let refused = Server::bind(Arc::clone(&service), outside.clone()).unwrap_err();
    assert!(matches!(refused, ServeError::NoToken { .. }), "{refused}");
    let path = folder.path().join("token");
    let with = outside.token_file(Some(path.clone()));
    Server::bind(Arc::clone(&service), with.clone()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = Server::bind(Arc::clone(&service), with).unwrap_err();
    assert!(matches!(refused, ServeError::TokenExposed { .. }), "{refused}");
    let taken = Server::bind(Arc::clone(&service), ServerOptions::default().listen(([127, 0, 0, 1], 0).into()));
    let listen = taken.as_ref().unwrap().address();
    let refused = Server::bind(service, ServerOptions::default().listen(listen)).unwrap_err();
    assert!(matches!(refused, ServeError::Listen { .. }), "{refused}");
}

#[test]
fn a_server_that_was_bound_in_asynchronous_code_may_be_dropped_there() {
    let state = TempDir::new().unwrap();
    let service = service(state.path());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let server = Server::bind(service, ServerOptions::default().listen(([127, 0, 0, 1], 0).into())).unwrap();
        let printed = format!("{server:?}");
        assert!(printed.contains(&server.url()), "{printed}");
        drop(server);
    });
}

#[test]
fn tls_is_spoken_where_a_certificate_is_given() {
    let folder = TempDir::new().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let state = folder.path().join("state");
    let tls = Tls { certificate: certificate.clone(), key: key.clone() };
    for mode in [0o644, 0o604, 0o660] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = tls.check().unwrap_err();
        assert!(matches!(refused, ServeError::KeyExposed { .. }) && refused.to_string().contains("chmod 600"));
    }
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let damaged = ServerOptions::default().tls(Some(Tls { certificate: key.clone(), key: key.clone() }));
    assert!(Server::bind(service(&state), damaged).is_err());
    let tls = Some(Tls { certificate, key });
    let running = Running::with(&state, ServerOptions::default().tls(tls));
    assert!(running.url.starts_with("https://localhost:"));

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let client = rustls::ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    let mut stream = rustls::StreamOwned::new(client, running.connect());
    write!(stream, "GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(Answer::read(stream).status, 200);
    // Whoever left the https out is sent there, and the connection ends.
    let plain = |request: &str| {
        let mut stream = running.connect();
        // It may be answered, and the connection ended, before all of it is sent.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    let sent_on = plain("GET /v2/health/ready?a=1 HTTP/1.1\r\nHost: localhost:9\r\n\r\n");
    assert!(sent_on.starts_with("HTTP/1.1 307 "), "{sent_on}");
    assert!(sent_on.contains("\r\nlocation: https://localhost:9/v2/health/ready?a=1\r\n"), "{sent_on}");
    // Its body is not waited for, nothing is done, and an endless head is cut off.
    let posted = plain("POST /api/v1/undo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
    assert!(posted.starts_with("HTTP/1.1 307 "), "{posted}");
    assert!(plain("GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 400 "));
    let endless = plain(&format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(1 << 20)));
    assert!(endless.starts_with("HTTP/1.1 431 ") || endless.is_empty(), "{endless}");
}
