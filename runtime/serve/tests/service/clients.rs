//! Programs of others that ask the service: Triton's client of the Open Inference Protocol, and Prometheus's
//! `promtool`.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Answer, Running, sample, workspace};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use orco_trials::{missing, skipped};
use serde_json::{Value, json};

const MODEL: &str = "/v2/models/cifar100-edge";

/// A request with one picture as a binary tensor, and the length of its JSON.
fn binary_request(picture: &[u8]) -> (Vec<u8>, String) {
    let head = json!({ "inputs": [{
        "name": "image", "datatype": "BYTES", "shape": [1], "parameters": { "binary_data_size": picture.len() + 4 },
    }] });
    let head = head.to_string();
    let body = [head.as_bytes(), &(picture.len() as u32).to_le_bytes(), picture].concat();
    (body, head.len().to_string())
}

/// KServe's client reads these as JSON.
#[test]
fn health_is_told_as_the_protocol_has_it() {
    let (_state, service) = Running::fresh();
    assert_eq!(service.get("/v2/health/live"), json!({ "live": true }));
    assert_eq!(service.get("/v2/health/ready"), json!({ "live": true, "ready": true }));
    assert_eq!(service.get(&format!("{MODEL}/ready")), json!({ "name": "cifar100-edge", "ready": true }));
}

/// Load balancers probe so.
#[test]
fn a_client_of_http_1_0_need_not_name_the_host() {
    let (_state, service) = Running::fresh();
    let ask = |head: &str| {
        let mut stream = service.connect();
        stream.write_all(head.as_bytes()).unwrap();
        Answer::read(stream)
    };
    assert_eq!(ask("GET /v2/health/ready HTTP/1.0\r\n\r\n").status, 200);
    assert_eq!(ask("GET /v2/health/ready HTTP/1.0\r\nOrigin: http://evil.example\r\n\r\n").status, 403);
    // Where it names one all the same, in the address, as to a proxy, that is checked.
    assert_eq!(ask("GET http://localhost/v2/health/ready HTTP/1.0\r\n\r\n").status, 200);
    assert_eq!(ask("GET http://evil.example/v2/health/ready HTTP/1.0\r\n\r\n").status, 421);
    let refused = ask("GET /v2/health/ready HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!((refused.status, refused.error().contains("one Host header")), (400, true), "{}", refused.text());
}

/// `Out-File -Encoding utf8` of PowerShell writes a byte order mark first.
#[test]
fn a_file_of_windows_is_json_and_a_body_that_is_missing_is_asked_for() {
    let (_state, service) = Running::fresh();
    let undo = |body: &[u8]| service.ask("POST", "/api/v1/undo", &[("Content-Type", "application/json")], body);
    assert_eq!(undo("\u{feff}{}\r\n".as_bytes()).status, 409, "there is nothing to undo");
    for body in ["", "\r\n", "\u{feff}", "\u{feff}\u{feff}{}", "[]"] {
        let refused = undo(body.as_bytes());
        assert_eq!((refused.status, refused.error().contains("must be a JSON object")), (400, true), "{body:?}");
    }
    // Latin 1, as `Invoke-RestMethod` sends it, and UTF-16.
    for body in [&b"{\"label\": \"T\xfcr\"}"[..], b"\xff\xfe{\0}\0"] {
        let refused = undo(body);
        assert_eq!((refused.status, refused.error().contains("not in UTF-8")), (400, true), "{body:?}");
    }
}

/// Most clients send all of a body before they read the answer.
#[test]
fn whoever_sends_a_body_that_is_refused_can_send_all_of_it_and_sees_why() {
    let (_state, service) = Running::fresh();
    let body = vec![0; 9 << 20];
    let send = |path: &str, kind: &str| {
        let mut stream = service.connect();
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: \
             {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).unwrap();
        Answer::read(stream)
    };
    for (path, kind, status) in [
        ("/api/v1/learn", "application/json", 413),
        ("/api/v1/classify", "text/plain", 415),
        ("/api/v1/nowhere", "application/json", 404),
    ] {
        let answer = send(path, kind);
        assert_eq!((answer.status, answer.error().is_empty()), (status, false), "{path}: {}", answer.text());
    }
}

/// curl asks before it sends what it does not know the length of, and then sends all of it.
#[test]
fn whoever_asked_first_and_is_refused_on_the_way_can_send_all_of_it_and_sees_why() {
    let (_state, service) = Running::fresh();
    let mut stream = service.connect();
    let head = "POST /api/v1/learn HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: \
                application/json\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut wanted = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut wanted).unwrap();
    assert_eq!(&wanted, b"HTTP/1.1 100 Continue\r\n\r\n");
    let chunk = [&b"10000\r\n"[..], &[b' '; 64 << 10], b"\r\n"].concat();
    (0..256).for_each(|_| stream.write_all(&chunk).unwrap());
    stream.write_all(b"0\r\n\r\n").unwrap();
    let refused = Answer::read(stream);
    assert_eq!((refused.status, &*refused.code()), (413, "body_too_large"), "{}", refused.text());
}

/// The connection goes on in such a case, so its end alone would not explain it.
#[test]
fn whoever_sends_a_chunk_without_a_length_is_told_of_chunks() {
    let (_state, service) = Running::fresh();
    let mut stream = service.connect();
    let head = "POST /api/v1/classify HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: \
                image/jpeg\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc";
    stream.write_all(head.as_bytes()).unwrap();
    let refused = Answer::read(stream);
    assert_eq!((refused.status, &*refused.code()), (400, "body_incomplete"), "{}", refused.text());
    assert!(refused.error().contains("chunk"), "{}", refused.error());
}

#[test]
fn a_picture_may_come_as_plain_bytes() {
    let (_state, service) = Running::fresh();
    let picture = sample("try", "cactus", 1);
    let ask = |kind: &str| service.ask("POST", "/api/v1/classify", &[("Content-Type", kind)], &picture).ok();
    assert_eq!(ask("application/octet-stream"), ask("image/jpeg"));
    assert_eq!(ask("image/jpg"), ask("image/jpeg"), "some write it so");
}

#[test]
fn only_the_outputs_that_are_named_are_answered() {
    let (_state, service) = Running::fresh();
    let (body, length) = binary_request(&sample("try", "cactus", 1));
    let (head, tensor) = body.split_at(length.parse().unwrap());
    let ask = |outputs: Value| {
        let mut head: Value = serde_json::from_slice(head).unwrap();
        head["outputs"] = outputs;
        let head = head.to_string();
        let length = head.len().to_string();
        let headers = [("Inference-Header-Content-Length", length.as_str())];
        service.ask("POST", &format!("{MODEL}/infer"), &headers, &[head.as_bytes(), tensor].concat())
    };
    let label = ask(json!([{ "name": "label" }])).ok()["outputs"].clone();
    assert_eq!((label.as_array().unwrap().len(), &label[0]["name"]), (1, &json!("label")));
    assert_eq!(ask(json!([{ "name": "zzz" }])).status, 400);
    let binary = ask(json!([{ "name": "known", "parameters": { "binary_data": true } }, { "name": "label" }]));
    assert!(binary.head.contains("inference-header-content-length: "), "{}", binary.head);
    assert!([0, 1].contains(binary.body.last().unwrap()), "one byte for one answer");
}

#[test]
fn the_page_is_compressed_for_clients_that_accept_gzip() {
    let (_state, service) = Running::fresh();
    for path in ["/", "/texts.js", "/api/v1/openapi.json"] {
        let ask = |accepted: &str| {
            let mut stream = service.connect();
            // Answers of HTTP/1.0 have no chunks.
            let head = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept-Encoding: {accepted}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            Answer::read(stream)
        };
        let (plain, compressed) = (ask("identity"), ask("gzip, br"));
        assert!(!plain.head.contains("content-encoding"), "{}", plain.head);
        assert!(compressed.head.contains("content-encoding: gzip"), "{}", compressed.head);
        assert!(compressed.head.contains("vary: accept-encoding"), "{}", compressed.head);
        let mut unpacked = Vec::new();
        GzDecoder::new(&compressed.body[..]).read_to_end(&mut unpacked).unwrap();
        assert!(unpacked == plain.body && 2 * compressed.body.len() < plain.body.len(), "{path}");
    }
}

/// Python's `requests` writes a yes as `True`, a client in PHP as `1`.
#[test]
fn a_flag_of_a_query_may_be_written_in_letters_of_any_size_or_as_a_digit() {
    let (_state, service) = Running::fresh();
    let picture = sample("try", "cactus", 1);
    let queries = [
        ("why=True", true),
        ("why=TRUE&inbox=True", true),
        ("why=False", false),
        ("top=3&why=1&inbox=0", true),
        ("top=3&why=0&inbox=0", false),
    ];
    for (query, explained) in queries {
        let answer = service.picture(&format!("/api/v1/classify?{query}"), &picture).ok();
        assert_eq!(answer["why"].is_array(), explained, "{query}: {answer}");
    }
    assert_eq!(service.picture("/api/v1/shots/cactus?anyway=True", &picture).ok()["accepted"], true);
    let purge = service.ask("DELETE", "/api/v1/classes/nobody?purge=True", &[], b"");
    assert_eq!(purge.status, 202, "{}", purge.text());
    let refused = service.picture("/api/v1/classify?why=yes", &picture);
    assert_eq!((refused.status, refused.error().contains("\"yes\" must be true or false")), (400, true));
}

/// axios sends an empty object with a DELETE, and curl what it is given.
#[test]
fn a_body_that_a_path_does_not_take_is_dropped() {
    let (_state, service) = Running::fresh();
    let delete = |headers: &[(&str, &str)], body: &[u8]| service.ask("DELETE", "/api/v1/inbox", headers, body);
    let json = [("Content-Type", "application/json")];
    assert_eq!(delete(&[], b"").status, 204);
    assert_eq!(delete(&json, b"{}").status, 204);
    assert_eq!(delete(&json, &[b' '; 64 << 10]).status, 204);
    assert_eq!(service.ask("GET", "/api/v1/status", &json, b"{}").status, 200);
    let refused = delete(&json, &[b' '; (64 << 10) + 1]);
    assert_eq!((refused.status, &*refused.error()), (413, "this path takes no body: leave it out"));

    // The next request on the same connection is no part of it.
    let mut stream = service.connect();
    let head = "DELETE /api/v1/inbox HTTP/1.1\r\nHost: localhost\r\n";
    write!(stream, "{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n").unwrap();
    write!(stream, "{head}Connection: close\r\n\r\n").unwrap();
    let answers = Answer::read(stream);
    assert_eq!((answers.status, answers.text().starts_with("HTTP/1.1 204 ")), (204, true), "{}", answers.text());
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn an_inference_request_may_leave_its_type_out_and_be_compressed() {
    let (_state, service) = Running::fresh();
    let (body, length) = binary_request(&sample("try", "cactus", 1));
    let infer = format!("{MODEL}/infer");
    let length = ("Inference-Header-Content-Length", length.as_str());
    let typed = service.ask("POST", &infer, &[("Content-Type", "application/octet-stream"), length], &body).ok();
    assert_eq!(service.ask("POST", &infer, &[length], &body).ok(), typed);
    let compressed = gzip(&body);
    let encoding = ("Content-Encoding", "gzip");
    assert_eq!(service.ask("POST", &infer, &[encoding, length], &compressed).ok(), typed);
    let versioned = format!("{MODEL}/versions/{}/infer", typed["model_version"].as_str().unwrap());
    assert_eq!(service.ask("POST", &versioned, &[length], &body).ok(), typed);
    assert_eq!(service.ask("POST", &format!("{MODEL}/versions/99/infer"), &[length], &body).status, 404);
    let damaged = service.ask("POST", &infer, &[encoding, length], &compressed[..compressed.len() / 2]);
    assert_eq!((damaged.status, damaged.error().contains("cannot be expanded")), (400, true), "{}", damaged.text());
    // 200 MiB of spaces in 200 KiB.
    let bomb = gzip(&vec![b' '; 200 << 20]);
    let refused = service.ask("POST", &infer, &[encoding], &bomb);
    assert!([413, 429].contains(&refused.status), "{} {}", refused.status, refused.text());
    // Triton takes such requests for models with one input.
    let raw = service.ask("POST", &infer, &[("Inference-Header-Content-Length", "0")], &sample("try", "cactus", 1));
    assert_eq!((raw.status, raw.error().contains("no raw binary requests")), (400, true), "{}", raw.text());
    // A name of a type that is not taken is no absent type.
    assert_eq!(service.ask("POST", &infer, &[("Content-Type", "image/jpeg"), length], &body).status, 415);

    let statistics = service.get(&format!("{MODEL}/stats"))["model_stats"][0].clone();
    assert_eq!(
        (&statistics["inference_count"], &statistics["execution_count"]),
        (&json!(4), &json!(4)),
        "{statistics}"
    );
    let parts = &statistics["inference_stats"];
    assert_eq!((&parts["success"]["count"], &parts["compute_infer"]["count"]), (&json!(4), &json!(4)));
    let time = |part: &str| parts[part]["ns"].as_u64().unwrap();
    let all: u64 = ["queue", "compute_input", "compute_infer", "compute_output"].into_iter().map(time).sum();
    assert!(time("compute_infer") > 0 && all <= time("success"), "{parts}");
    assert_eq!(service.get("/v2/models/stats")["model_stats"][0], statistics);
}

#[test]
fn the_inference_protocol_tells_configuration_and_index() {
    let (_state, service) = Running::fresh();
    let metadata = service.get(MODEL);
    let version = metadata["versions"][0].as_str().unwrap();
    let config = service.get(&format!("{MODEL}/config"));
    assert_eq!(service.get(&format!("{MODEL}/versions/{version}/config")), config);
    for (tensors, of) in [("inputs", "input"), ("outputs", "output")] {
        let names =
            |list: &Value| list.as_array().unwrap().iter().map(|tensor| tensor["name"].clone()).collect::<Vec<_>>();
        assert_eq!(names(&metadata[tensors]), names(&config[of]));
    }
    assert_eq!((&config["input"][0]["data_type"], &config["max_batch_size"]), (&json!("TYPE_STRING"), &json!(0)));
    let listed = json!([{ "name": "cifar100-edge", "version": version, "state": "READY", "reason": "" }]);
    for body in ["", "{}", "\u{feff}{}", "{\"ready\": true}"] {
        assert_eq!(service.ask("POST", "/v2/repository/index", &[], body.as_bytes()).ok(), listed, "{body}");
    }
    assert_eq!(service.ask("POST", "/v2/repository/index", &[], b"[").status, 400);
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(service.ask("POST", "/v2/repository/index", &form, b"").ok(), listed, "as axios asks without a body");
    assert_eq!(service.ask("POST", "/v2/repository/index", &form, b"{}").status, 415);
    assert_eq!(service.ask("GET", &format!("{MODEL}/versions/99"), &[], b"").status, 404);
}

#[test]
fn tritons_own_client_is_answered() {
    let Some(packages) = std::env::var_os("ORCO_TRITON_CLIENT") else {
        return skipped("Triton's client (ORCO_TRITON_CLIENT is not set; `cargo xtask test` sets it)");
    };
    let (_state, service) = Running::fresh();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/service/triton.py");
    let pictures = workspace().join("examples/shots/try/cactus");
    let mut command = Command::new("python3");
    // Without the packages of this machine.
    command.arg("-S").arg(script).arg(format!("127.0.0.1:{}", service.address.port())).arg("cifar100-edge");
    command.args(["1.jpg", "2.jpg"].map(|name| pictures.join(name))).env("PYTHONPATH", packages);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let labels: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = [1, 2].map(|number| service.label(&sample("try", "cactus", number)));
    for (how, answered) in labels.as_object().unwrap() {
        assert_eq!(*answered, json!(expected), "{how}");
    }
}

#[test]
fn requests_for_unknown_paths_are_counted() {
    let (_state, service) = Running::fresh();
    for path in ["/api/v1/clasify", "/favicon.png"] {
        assert_eq!(service.ask("GET", path, &[], b"").status, 404);
    }
    let metrics = service.ask("GET", "/metrics", &[], b"").text();
    assert!(metrics.contains("orco_requests_total{route=\"none\",status=\"404\"} 2"), "{metrics}");
}

#[test]
fn version_and_readiness_are_metrics() {
    let (_state, service) = Running::fresh();
    let metrics = service.ask("GET", "/metrics", &[], b"").text();
    let build =
        format!("orco_build_info{{version=\"{}\"}} 1\n", service.get("/api/v1/status")["version"].as_str().unwrap());
    for line in [build.as_str(), "\norco_ready 1\n", "\norco_problems 0\n"] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[test]
fn promtool_has_nothing_to_say_against_the_metrics() {
    let here = Command::new("promtool").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !here {
        return missing("ORCO_PROMTOOL", "metrics for Prometheus", "promtool is not installed (Debian: prometheus)");
    }
    let (_state, service) = Running::fresh();
    service.label(&sample("try", "cactus", 1));
    service.teach("duck", "rubber-duck");
    let metrics = service.ask("GET", "/metrics", &[], b"");
    assert!(metrics.head.contains("content-type: text/plain; version=0.0.4"), "{}", metrics.head);
    let open = service.ask("GET", "/metrics", &[("Accept", "application/openmetrics-text; version=1.0.0")], b"");
    assert!(open.head.contains("content-type: application/openmetrics-text"), "{}", open.head);
    assert!(open.text().ends_with("# EOF\n"));
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = promtool.spawn().unwrap();
    process.stdin.take().unwrap().write_all(&metrics.body).unwrap();
    let output = process.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{}: {said}", output.status);
}
