//! Work that may take a while, away from the threads that serve.

use tokio::task;

use crate::refusal::Refusal;

/// Runs slow work on a thread for blocking work, and returns what came of it.
///
/// # Errors
/// [`Refusal`], 500, if it panics.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    task::spawn_blocking(work).await.map_err(|error| {
        log::error!("a request failed: {error}");
        Refusal::internal("the service failed at this request; its log says why")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_our_own_is_not_blamed_on_the_request() {
        let refused = blocking(|| -> u8 { panic!("at once") }).await.unwrap_err();
        assert_eq!(refused.status(), 500);
        assert_eq!(blocking(|| 3).await, Ok(3));
    }
}
