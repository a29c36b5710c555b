//! Connections: accepted, answered by a router, bounded in number and in time.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use crate::connection_table::{BusyFlag, ConnectionTable};
use crate::plain_http::{self, HttpsRedirect};

/// Most bytes that a connection holds of what it has read or is to write; a body is held by itself.
const BUFFER: usize = 32 << 10;
/// How long a connection may be kept for its next request, and how long that one's head may take, from the end of the
/// last answer: longer than programs wait that ask every ten seconds, or every minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// How long to wait for an evicted connection to close its file, and before accepting again after a failure.
const EVICTION_TIME: Duration = Duration::from_millis(20);
/// How long answers that are under way may take when the server stops.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Has a router answer connections.
pub struct ConnectionServer {
    /// Where it listens.
    pub listener: TcpListener,
    /// What answers.
    pub router: Router,
    /// TLS; plain HTTP is then sent to https.
    pub tls: Option<TlsAcceptor>,
    /// Most connections at a time. Beyond that, the caller with the most connections loses one.
    pub max_connections: usize,
    /// How long a handshake or the head of a first request may take. The next ones have `IDLE_TIMEOUT`, or this if it
    /// is longer.
    pub head_timeout: Duration,
    /// How long a caller may leave an answer unread.
    pub write_timeout: Duration,
}

impl ConnectionServer {
    /// Serves until `stop` ends, calls `stopping` with what that returned, and gives answers that are under way
    /// `GRACE`. Returns what `stop` returned.
    pub async fn serve<T>(self, stop: impl Future<Output = T>, stopping: impl FnOnce(&T)) -> T {
        let Self { listener, router, tls, max_connections, head_timeout, write_timeout } = self;
        let (stop_sender, stopped) = watch::channel(false);
        let mut places = ConnectionTable::new(max_connections);
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        let outcome = loop {
            while let Some(ended) = connections.try_join_next_with_id() {
                places.leave(id_of(ended));
            }
            let (stream, peer) = tokio::select! {
                outcome = &mut stop => break outcome,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => (stream, peer.ip()),
                    Err(error) => {
                        log::warn!("cannot accept a connection: {error}");
                        if is_out_of_files(&error) {
                            places.evict();
                        }
                        tokio::time::sleep(EVICTION_TIME).await;
                        continue;
                    }
                },
            };
            let _ = stream.set_nodelay(true);
            // An answer that nobody reads holds its memory.
            let mut stream = TimeoutStream::new(stream);
            stream.set_write_timeout(Some(write_timeout));
            let busy = BusyFlag::default();
            let service = ConnectionService { router: router.clone(), busy: busy.clone() };
            let connection = connections.spawn(serve_connection(
                Box::pin(stream),
                tls.clone(),
                service,
                head_timeout,
                stopped.clone(),
            ));
            // An ended connection keeps its file until its task has run. In a rush of callers such files would add up,
            // and leave none for the state.
            if places.take(peer, connection, busy)
                && let Ok(Some(ended)) = timeout(EVICTION_TIME, connections.join_next_with_id()).await
            {
                places.leave(id_of(ended));
            }
        };
        drop(listener);
        stopping(&outcome);
        let _ = stop_sender.send(true);
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = timeout(GRACE, all).await;
        outcome
    }
}

/// Which connection has ended.
fn id_of(ended: Result<(Id, ()), JoinError>) -> Id {
    ended.map_or_else(|error| error.id(), |(id, ())| id)
}

/// Whether the process or the machine may open no further file, which every connection is.
#[cfg(unix)]
fn is_out_of_files(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(not(unix))]
fn is_out_of_files(_: &std::io::Error) -> bool {
    false
}

/// What answers on a connection, and notes whether an answer is waited for.
#[derive(Clone)]
struct ConnectionService {
    router: Router,
    busy: BusyFlag,
}

impl hyper::service::Service<hyper::Request<Incoming>> for ConnectionService {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        self.busy.set(true);
        let (busy, answer) = (self.busy.clone(), TowerToHyperService::new(self.router.clone()).call(request));
        Box::pin(async move {
            let answer = answer.await;
            busy.set(false);
            answer
        })
    }
}

/// Serves a connection that was accepted: by TLS where that is set up, else in plain HTTP. A plain request where TLS is
/// expected is sent to https.
async fn serve_connection(
    stream: Pin<Box<TimeoutStream<TcpStream>>>,
    tls: Option<TlsAcceptor>,
    service: ConnectionService,
    head_timeout: Duration,
    stopped: watch::Receiver<bool>,
) {
    let Some(tls) = tls else { return answer_requests(stream, service, head_timeout, stopped).await };
    let deadline = Instant::now() + head_timeout;
    let mut first = [0];
    let peeked = timeout_at(deadline, stream.get_ref().peek(&mut first)).await;
    if matches!(peeked, Ok(Ok(1))) && !plain_http::is_tls(first[0]) {
        return answer_requests(stream, HttpsRedirect, head_timeout, stopped).await;
    }
    match timeout_at(deadline, tls.accept(stream)).await {
        Ok(Ok(stream)) => answer_requests(stream, service, head_timeout, stopped).await,
        Ok(Err(error)) => log::debug!("a handshake failed: {error}"),
        Err(_) => log::debug!("a handshake took too long"),
    }
}

/// Answers one request after another, until the caller goes, takes too long, or the server stops.
async fn answer_requests<S>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: S,
    head_timeout: Duration,
    mut stopped: watch::Receiver<bool>,
) where
    S: hyper::service::Service<hyper::Request<Incoming>, Response = Response, Error = Infallible>,
{
    let mut builder = http1::Builder::new();
    let idle_timeout = IDLE_TIMEOUT.max(head_timeout);
    builder.timer(TokioTimer::new()).header_read_timeout(idle_timeout).max_headers(64).max_buf_size(BUFFER);
    let is_asked = AtomicBool::new(false);
    let noting = service_fn(|request| {
        is_asked.store(true, Ordering::Relaxed);
        service.call(request)
    });
    let connection = builder.serve_connection(TokioIo::new(stream), noting);
    let mut connection = std::pin::pin!(connection);
    // hyper has one limit for the first head and for the time between requests.
    let no_first_head = async {
        tokio::time::sleep(head_timeout).await;
        if is_asked.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = no_first_head => return log::debug!("the head of a request took too long"),
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        log::debug!("a connection broke: {error}");
    }
}
