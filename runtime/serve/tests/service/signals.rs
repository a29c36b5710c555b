//! Signals that end the service.

use orco_runtime::bundle::Bundle;
use orco_runtime::learner::LearnerSettings;
use orco_runtime::store::Store;
use orco_serve::{Server, ServerOptions, Service};
use orco_trials::alone::alone;
use signal_hook::consts::SIGTERM;
use signal_hook::low_level::raise;
use tempfile::TempDir;

use crate::support::workspace;

#[test]
fn one_that_comes_before_the_service_runs_ends_it_as_soon_as_it_does() {
    alone("signals::one_that_comes_before_the_service_runs_ends_it_as_soon_as_it_does", || {
        let folder = TempDir::new().unwrap();
        let bundle = Bundle::open(workspace().join("models/cifar100-edge")).unwrap();
        let service = Service::open(bundle, Store::new(folder.path()), LearnerSettings::default()).unwrap();
        let options = ServerOptions::default().listen(([127, 0, 0, 1], 0).into());
        let server = Server::bind(service, options).unwrap().listen_for_signals();
        raise(SIGTERM).unwrap();
        server.run().unwrap();
    });
}
