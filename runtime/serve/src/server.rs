//! A service that listens: its address, TLS, threads, and what every answer says of itself.

use std::fmt;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use futures_util::FutureExt;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use crate::answers::Answers;
use crate::connection_server::{ConnectionServer, GRACE};
use crate::error::ServeError;
use crate::guard::{Guard, GuardRules};
use crate::health::Health;
use crate::service::Service;
use crate::shutdown_signal::{ShutdownSignal, shutdown_signal};
use crate::stream_end::StreamEnd;
use crate::tls::Tls;
use crate::token::Token;
use crate::{process_limits, routes, service_watchdog};

/// Most connections at a time, if the system allows so many.
const MAX_CONNECTIONS: usize = 512;
/// Threads that serve requests.
const SERVING_THREADS: usize = 2;
/// Threads for blocking work, started at once, so that they are there even if the system has no more threads.
const DECODING_THREADS: usize = 2;
/// Most threads that decode: twice as many as large pictures are decoded at a time, so that small ones find one.
const MAX_DECODING_THREADS: usize = 32;
/// How long an idle thread that decodes is kept: for ever.
const DECODING_THREAD_LIFETIME: Duration = Duration::from_secs(u32::MAX as u64);

/// Where the service listens, what callers must bring, and how long they may take.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Where it listens. Off the machine only with a token.
    pub listen: SocketAddr,
    /// File of the token; it is made if it is not there.
    pub token_file: Option<PathBuf>,
    /// Names by which it is called, beside `localhost` and addresses.
    pub host_names: Vec<String>,
    /// Its certificate and key; without them it speaks plain HTTP.
    pub tls: Option<Tls>,
    /// How long the head of a connection's first request may take, and a handshake.
    pub head_timeout: Duration,
    /// How long a request's body may take, and how long a client may leave an answer unread.
    pub body_timeout: Duration,
}

impl Default for ServerOptions {
    /// This machine alone, port 8080, no token, ten seconds for a head, thirty for a body.
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            token_file: None,
            host_names: Vec::new(),
            tls: None,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
        }
    }
}

orco_runtime::setters! {
    ServerOptions:
    listen: SocketAddr,
    token_file: Option<PathBuf>,
    host_names: Vec<String>,
    tls: Option<Tls>,
    head_timeout: Duration,
    body_timeout: Duration,
}

/// A service that listens.
pub struct Server {
    /// The threads that serve. Signals are received on them, too, also before [`Server::run`].
    runtime: ServingRuntime,
    /// Set by [`Server::listen_for_signals`]; otherwise [`Server::run`] begins to listen.
    signals: Option<ShutdownSignal>,
    listening: ListeningServer,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("url", &self.url()).finish_non_exhaustive()
    }
}

/// A runtime that may be dropped in asynchronous code, where one of tokio's panics: a server that was bound there is
/// dropped if what follows fails.
struct ServingRuntime(Option<Runtime>);

impl ServingRuntime {
    fn get(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until it is dropped")
    }

    fn shutdown_timeout(mut self, timeout: Duration) {
        self.0.take().into_iter().for_each(|runtime| runtime.shutdown_timeout(timeout));
    }
}

impl Drop for ServingRuntime {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// What answers, and how.
struct ListeningServer {
    listener: TcpListener,
    address: SocketAddr,
    /// The first name by which it is called.
    name: Option<String>,
    router: Router,
    streams: StreamEnd,
    answers: Answers,
    health: Health,
    max_connections: usize,
    tls: Option<TlsAcceptor>,
    head_timeout: Duration,
    body_timeout: Duration,
}

/// Adds the headers that every answer has unless its handler sets them.
fn with_headers(router: Router) -> Router {
    let headers = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
        // Other sites may neither embed anything nor hold a handle on the page's window.
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::VARY, "Origin, Sec-Fetch-Site, Sec-Fetch-Mode, Sec-Fetch-Dest"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ];
    headers.into_iter().fold(router, |router, (name, value)| {
        router.layer(SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value)))
    })
}

impl Server {
    /// Listens, and starts the threads that serve. Connections wait until [`Server::run`]. Raises the process's limit
    /// of open files as far as it goes.
    ///
    /// # Errors
    /// [`ServeError`] if the address, the token's file or the certificate cannot be used, a token is missing, or the
    /// system gives the process too few threads or files.
    pub fn bind(service: Arc<Service>, options: ServerOptions) -> Result<Self, ServeError> {
        let ServerOptions { listen, token_file, host_names, tls, head_timeout, body_timeout } = options;
        let loopback = listen.ip().is_loopback();
        let token = token_file.as_deref().map(Token::read_or_make).transpose()?;
        if token.is_none() && !loopback {
            return Err(ServeError::NoToken { address: listen });
        }
        let tls = tls.as_ref().map(Tls::acceptor).transpose()?;
        let not_listening = |source| ServeError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).map_err(not_listening)?;
        listener.set_nonblocking(true).map_err(not_listening)?;
        let address = listener.local_addr().map_err(not_listening)?;
        let max_connections = process_limits::raise_file_limit(MAX_CONNECTIONS)?;
        let runtime = ServingRuntime(Some(start_runtime()?));
        let (answers, health) = (service.answers.clone(), service.health.clone());
        let name = host_names.first().cloned();
        let rules = GuardRules { service, token, loopback, host_names, body_timeout, routes: &routes::ROUTES };
        let streams = StreamEnd::default();
        let router = with_headers(routes::router(Guard::new(rules), streams.clone())).layer(CatchPanicLayer::new());
        Ok(Self {
            runtime,
            signals: None,
            listening: ListeningServer {
                listener,
                address,
                name,
                router,
                streams,
                answers,
                health,
                max_connections,
                tls,
                head_timeout,
                body_timeout,
            },
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address
    }

    fn scheme(&self) -> &'static str {
        if self.listening.tls.is_some() { "https" } else { "http" }
    }

    /// The page's address, as a browser on this machine takes it.
    pub fn url(&self) -> String {
        let scheme = self.scheme();
        let address = self.address();
        if address.ip().is_unspecified() || address.ip().is_loopback() && address.is_ipv4() {
            format!("{scheme}://localhost:{}", address.port())
        } else {
            format!("{scheme}://{address}")
        }
    }

    /// The page's address, as other machines take it: by the first name that it was given, or the address that it
    /// listens at. None where it listens on this machine alone, or at every address and has no name.
    pub fn url_for_others(&self) -> Option<String> {
        let (scheme, address) = (self.scheme(), self.address());
        match &self.listening.name {
            _ if address.ip().is_loopback() => None,
            Some(name) => Some(format!("{scheme}://{name}:{}", address.port())),
            None => (!address.ip().is_unspecified()).then(|| format!("{scheme}://{address}")),
        }
    }

    /// Has Ctrl-C, SIGTERM and SIGHUP end [`Server::run`] from now on, not only once it runs: for whoever starts
    /// programs that must not outlive the process.
    #[must_use]
    pub fn listen_for_signals(mut self) -> Self {
        let _context = self.runtime.get().enter();
        self.signals = Some(ShutdownSignal::listen());
        self
    }

    /// Serves until Ctrl-C, SIGTERM or SIGHUP.
    ///
    /// # Errors
    /// [`ServeError`] if a thread of the service panicked again and again, or as [`Service::end_on_new_bundle`] says.
    /// # Panics
    /// In asynchronous code of tokio: it waits for a runtime of its own. Call it on a thread, as by `spawn_blocking`.
    pub fn run(mut self) -> Result<(), ServeError> {
        match self.signals.take() {
            Some(signals) => self.run_until(signals.received()),
            None => self.run_until(shutdown_signal()),
        }
    }

    /// Serves until `stop` ends. A program that is asynchronous itself serves on a thread of its own:
    ///
    /// ```no_run
    /// # use orco_runtime::prelude::*;
    /// # use orco_serve::{Server, ServerOptions, Service};
    /// # async fn embedded() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// // Opening reads files and starts the backbone, which takes a while.
    /// let server = tokio::task::spawn_blocking(|| {
    ///     let bundle = Bundle::open("models/everyday")?;
    ///     let service = Service::open(bundle, Store::new("state"), LearnerSettings::default())?;
    ///     Server::bind(service, ServerOptions::default())
    /// });
    /// let server = server.await??;
    /// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    /// let serving = tokio::task::spawn_blocking(|| server.run_until(async { drop(stopped.await) }));
    /// // ... what else the program does, until it wants to end:
    /// drop(stop);
    /// serving.await??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Server::run`].
    /// # Panics
    /// As for [`Server::run`].
    pub fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Self { runtime, listening, signals: _ } = self;
        let served = runtime.get().block_on(listening.serve(stop));
        // A picture that is being decoded is not waited for.
        runtime.shutdown_timeout(GRACE);
        served
    }
}

impl ListeningServer {
    async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Self {
            listener,
            address,
            router,
            streams,
            name: _,
            answers,
            health,
            max_connections,
            tls,
            head_timeout,
            body_timeout,
        } = self;
        let listener = tokio::net::TcpListener::from_std(listener);
        let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
        // Signals are listened for from the first poll on at the latest, and must be before systemd hears that the
        // service is there: one that comes before they are ends the process at once.
        let mut stop = pin!(stop);
        let is_stopped = stop.as_mut().now_or_never().is_some();
        let watchdog = service_watchdog::ready(answers, health.clone());
        let connections =
            ConnectionServer { listener, router, tls, max_connections, head_timeout, write_timeout: body_timeout };
        let ended = async {
            if is_stopped {
                return Ok(());
            }
            tokio::select! {
                () = stop => Ok(()),
                why = health.ended() => Err(why),
            }
        };
        let stopping = |outcome: &Result<(), ServeError>| {
            streams.end();
            // Whoever starts anew in the same process does not stop.
            if !matches!(outcome, Err(ServeError::NewBundle)) {
                service_watchdog::stopping(watchdog);
            }
        };
        connections.serve(ended, stopping).await
    }
}

/// Starts the threads that serve and the threads that decode, before others use up the limit of the process.
fn start_runtime() -> Result<Runtime, ServeError> {
    process_limits::check_threads(SERVING_THREADS + DECODING_THREADS)?;
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(SERVING_THREADS)
        .max_blocking_threads(MAX_DECODING_THREADS)
        .thread_keep_alive(DECODING_THREAD_LIFETIME)
        .enable_all();
    let runtime = builder.build().map_err(ServeError::Threads)?;
    start_decoders(&runtime);
    Ok(runtime)
}

/// Starts the threads that decode, all at once: each waits for the others.
fn start_decoders(runtime: &Runtime) {
    let all_started = Arc::new(Barrier::new(DECODING_THREADS));
    for _ in 0..DECODING_THREADS {
        let all_started = Arc::clone(&all_started);
        runtime.spawn_blocking(move || all_started.wait().is_leader());
    }
}
