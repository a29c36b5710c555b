//! Why the service cannot be started, or ends by itself.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use orco_runtime::bundle::OpenError;
use orco_runtime::encoder::EncodeError;
use orco_runtime::learner::OpenLearnerError;

/// Why the service cannot be started, or ends by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The bundle or the state cannot be used.
    #[error(transparent)]
    Learner(#[from] OpenLearnerError),
    /// The backbone cannot be started.
    #[error("the backbone cannot be started")]
    Encode(#[from] EncodeError),
    /// A thread or the runtime of the network cannot be started.
    #[error("cannot start the service's threads: {}", advised(.0))]
    Threads(io::Error),
    /// The process may not have the threads that it needs.
    #[error("cannot start the service's threads, of which it needs {needed} more: {}", advised(reason))]
    TooFewThreads {
        /// How many are needed.
        needed: usize,
        /// What the system said.
        reason: io::Error,
    },
    /// The process may not have the files that it needs.
    #[error(
        "the process may have {limit} open files, which leaves too few for connections: raise the limit (ulimit -n, or \
         LimitNOFILE= of the unit)"
    )]
    TooFewFiles {
        /// How many it may have.
        limit: u64,
    },
    /// A thread panicked before it worked.
    #[error("the thread \"{thread}\" failed while it was started: {why}")]
    Panicked {
        /// Its name.
        thread: &'static str,
        /// What it said.
        why: String,
    },
    /// A thread panicked again and again; the service has ended.
    #[error("the service ends: {0}; start it anew")]
    Broken(String),
    /// Another program has moved the state to a bundle with which a new start would run; the service has ended.
    #[error("the service ends, since its state moved to another bundle; start it anew")]
    NewBundle,
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// On an address that others reach, callers must have a token.
    #[error("{address} can be reached from other machines: name a file for the token that they must give")]
    NoToken {
        /// The address.
        address: SocketAddr,
    },
    /// The token's file cannot be read or made.
    #[error("cannot use the token file {}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may read the token's file.
    #[error("others may read the token file {}: make it private (chmod 600)", path.display())]
    TokenExposed {
        /// The file.
        path: PathBuf,
    },
    /// The token's file holds something else.
    #[error("{} holds no token of 64 hexadecimal digits: remove it, and a new one is made", path.display())]
    InvalidToken {
        /// The file.
        path: PathBuf,
    },
    /// Others may read the certificate's key.
    #[error("others may read the key {}: make it private (chmod 600)", path.display())]
    KeyExposed {
        /// The file.
        path: PathBuf,
    },
    /// The camera or its regions can never be used.
    #[error("{0}")]
    Camera(String),
    /// The folder of sightings cannot be used.
    #[error("cannot keep sightings in {}: {reason}", path.display())]
    Sightings {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificate or its key cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificate and key cannot be used together.
    #[error("the certificate and its key cannot be used: {0}")]
    Tls(rustls::Error),
}

/// What [`Bundle::open`](orco_runtime::bundle::Bundle::open) refuses, before there is a service.
impl From<OpenError> for ServeError {
    fn from(error: OpenError) -> Self {
        Self::Learner(error.into())
    }
}

/// What the system said, and what to do where it has no more threads.
fn advised(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            format!("{error}; allow the process more (ulimit -u, or TasksMax= of the unit)")
        }
        _ => error.to_string(),
    }
}
