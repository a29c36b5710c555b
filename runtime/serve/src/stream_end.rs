//! The end of answers that last as long as somebody listens: when the server stops, they end by themselves.

use std::future::Future;

use tokio::sync::watch;

/// Ends the streams of a server. A router hands it to their handlers.
#[derive(Clone, Default)]
pub struct StreamEnd(watch::Sender<bool>);

impl StreamEnd {
    /// Ends all streams, those that begin later too.
    pub fn end(&self) {
        self.0.send_replace(true);
    }

    /// Ends when the streams do.
    pub fn reached(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut ended = self.0.subscribe();
        async move {
            if ended.wait_for(|is_ended| *is_ended).await.is_err() {
                // The server is gone without having said so; its connections are, too.
                std::future::pending().await
            }
        }
    }
}
