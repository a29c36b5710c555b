//! The hub over HTTP: for devices, whose messages are signed, and for administrators, who have a token.
//!
//! A refusal has one of three forms:
//!
//! - a stranger gets the same empty answer whatever it asks for (`not_found`), before its body is read; only an
//!   enrolment is read first. Whether the hub is alive and ready is told to all, for probes;
//! - a device gets a signed [`HubRefusal`](crate::protocol::HubRefusal), which `StoredAnswer::refusal` of the store
//!   makes;
//! - an administrator gets a [`HubError`] as a sentence, with the status that `status_of` in `admin` gives it.
//!
//! Nothing needs TLS to be trusted, but without it others can read what devices learn.

mod admin;
mod device;
mod failure_log;
mod health;
mod metrics;
mod request_limit;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use orco_runtime::files;
use orco_serve::Tls;
use orco_serve::connection_server::ConnectionServer;
use orco_serve::disk_check::DiskCheck;
use orco_serve::process_limits;
use orco_serve::token::Token;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::error::HubError;
use crate::store::HubStore;
use failure_log::FailureLog;
use metrics::RequestCounter;
use request_limit::RequestLimit;

/// The paths that devices ask for.
const DEVICE_PATHS: &str = "/v1/{*path}";
/// Most connections at a time, if the system allows so many.
const MAX_CONNECTIONS: usize = 1024;
/// Most bodies of devices that are read at a time, which bounds the memory that they take.
const MAX_BODIES: usize = 32;
/// How long the head of a connection's first request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a part of an answer may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Where a hub listens, and what callers must bring.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HubOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// File of the administrators' token, which is made if it is not there. Without one there is neither their API nor
    /// the page.
    pub token_file: Option<PathBuf>,
    /// TLS: without it others can read what devices learn, though not change it.
    pub tls: Option<Tls>,
}

impl HubOptions {
    /// A hub that listens there, without administrators' API and page, and without TLS.
    pub fn new(listen: impl Into<SocketAddr>) -> Self {
        Self { listen: listen.into(), token_file: None, tls: None }
    }
}

orco_runtime::setters! {
    HubOptions:
    token_file: Option<PathBuf>,
    tls: Option<Tls>,
}

/// What handlers share.
struct HubService {
    store: HubStore,
    token: Option<Token>,
    bodies: Semaphore,
    request_limit: RequestLimit,
    /// Of requests that come again.
    repeat_limit: RequestLimit,
    /// Counts requests that were answered.
    requests: RequestCounter,
    /// Of the database and the folder. Anybody may ask, so a recent result serves them all.
    ready_check: DiskCheck,
    failure_log: FailureLog,
}

/// A hub that listens.
pub struct HubServer {
    listener: std::net::TcpListener,
    address: SocketAddr,
    router: Router,
    max_connections: usize,
    tls: Option<TlsAcceptor>,
}

impl fmt::Debug for HubServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl HubServer {
    /// Listens. Connections wait until [`HubServer::run_until`]. Raises the process's limit of open files as far as it
    /// goes.
    ///
    /// # Errors
    /// [`HubError`] if the address, the token's file or the certificate cannot be used, or the system gives the process
    /// too few files.
    pub fn bind(store: HubStore, options: &HubOptions) -> Result<Self, HubError> {
        let failed = |source| HubError::Listen { address: options.listen, source };
        files::check_own_folder(store.folder()).map_err(HubError::file(store.folder()))?;
        let token = options.token_file.as_deref().map(Token::read_or_make).transpose()?;
        let tls = options.tls.as_ref().map(Tls::acceptor).transpose()?;
        let listener = std::net::TcpListener::bind(options.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let max_connections = process_limits::raise_file_limit(MAX_CONNECTIONS)?;
        let service = Arc::new(HubService {
            store,
            token,
            bodies: Semaphore::new(MAX_BODIES),
            request_limit: RequestLimit::default(),
            repeat_limit: RequestLimit::default(),
            requests: RequestCounter::default(),
            ready_check: DiskCheck::new(health::DISK_TIMEOUT),
            failure_log: FailureLog::default(),
        });
        Ok(Self { listener, address, router: router(service), max_connections, tls })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until Ctrl-C, SIGTERM or SIGHUP.
    ///
    /// # Errors
    /// [`HubError`] if threads cannot be started.
    /// # Panics
    /// In asynchronous code of tokio: it waits for a runtime of its own. Call it on a thread, as by `spawn_blocking`.
    pub fn run(self) -> Result<(), HubError> {
        self.run_until(orco_serve::shutdown_signal())
    }

    /// Serves until `stop` ends. Requests that are under way then have two seconds: devices ask again.
    ///
    /// # Errors
    /// As for [`HubServer::run`].
    /// # Panics
    /// As for [`HubServer::run`].
    pub fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), HubError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(HubError::Threads)?;
        let served = runtime.block_on(self.serve(stop));
        runtime.shutdown_background();
        served
    }

    async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), HubError> {
        let Self { listener, address, router, max_connections, tls } = self;
        let listener = TcpListener::from_std(listener).map_err(|source| HubError::Listen { address, source })?;
        let (head_timeout, write_timeout) = (HEAD_TIMEOUT, WRITE_TIMEOUT);
        let connections = ConnectionServer { listener, router, tls, max_connections, head_timeout, write_timeout };
        connections.serve(stop, |&()| ()).await;
        Ok(())
    }
}

fn router(service: Arc<HubService>) -> Router {
    Router::new()
        .route("/", get(admin::page))
        .route("/admin/v1/fleet", get(admin::fleet))
        .route("/admin/v1/codes", post(admin::new_code))
        .route("/admin/v1/releases", post(admin::release))
        .route("/admin/v1/releases/{id}/stage", post(admin::set_stage))
        .route("/admin/v1/releases/{id}/withdraw", post(admin::withdraw))
        .route("/metrics", get(metrics::metrics))
        .route("/v2/health/live", get(health::live))
        .route("/v2/health/ready", get(health::ready))
        .route(DEVICE_PATHS, any(device::answer))
        .fallback(|| async { not_found() })
        .method_not_allowed_fallback(|| async { not_found() })
        .layer(middleware::from_fn_with_state(Arc::clone(&service), metrics::count))
        // Each handler has a limit of its own.
        .layer(DefaultBodyLimit::disable())
        .with_state(service)
}

/// What a stranger gets.
fn not_found() -> Response {
    let mut answer = StatusCode::NOT_FOUND.into_response();
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// The hub failed; the caller may try again.
fn failed(service: &HubService, error: &HubError) -> Response {
    let said = orco_runtime::state::sentence::with_causes(error);
    if let Some(entry) = service.failure_log.entry(said, Instant::now()) {
        log::error!("{entry}");
    }
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

/// Runs what reads and writes files outside the threads of the network.
async fn blocking<T: Send + 'static>(
    service: &Arc<HubService>,
    run: impl FnOnce(&HubStore) -> Result<T, HubError> + Send + 'static,
) -> Result<T, Response> {
    let runner = Arc::clone(service);
    match tokio::task::spawn_blocking(move || run(&runner.store)).await {
        Ok(result) => result.map_err(|error| failed(service, &error)),
        Err(error) => {
            log::error!("a request failed because of a fault in the program: {error}");
            Err(StatusCode::SERVICE_UNAVAILABLE.into_response())
        }
    }
}
