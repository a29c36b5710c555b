//! Ends event and picture streams when the server stops. They would otherwise last as long as somebody listens.

use std::future::Future;

use tokio::sync::watch;

/// Ends the streams of a server. The router hands it to their handlers.
#[derive(Clone, Debug, Default)]
pub struct StreamEnd(watch::Sender<bool>);

impl StreamEnd {
    /// Ends all streams, and those that begin later.
    pub fn end(&self) {
        self.0.send_replace(true);
    }

    /// Resolves when the streams are to end.
    pub fn reached(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut ended = self.0.subscribe();
        async move {
            if ended.wait_for(|is_ended| *is_ended).await.is_err() {
                // The server is gone without a call of `end`, and its connections with it.
                std::future::pending().await
            }
        }
    }
}
