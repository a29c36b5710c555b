//! What a hub answers to strangers, and what a device does with answers that are not the hub's.

use std::sync::Arc;

use orco_hub::client::{HttpTransport, SyncError, Transport, TransportError, WireAnswer, WireRequest};
use orco_hub::merge::SameLabel;
use orco_hub::protocol::{EnrolmentCode, SIGNATURE, SigningKey};
use orco_hub::rollout::{DEFAULT_CHANNEL, RolloutStage};
use orco_hub::store::{HubStore, PackRelease, now};

use crate::support::{CountingProxy, DeviceFiles, KillableHub, code};

struct Fleet {
    folder: tempfile::TempDir,
    proxy: CountingProxy,
    hub: KillableHub,
}

impl Fleet {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let proxy = CountingProxy::start();
        let hub = KillableHub::start(folder.path().join("hub"), Arc::clone(&proxy.port));
        Self { folder, proxy, hub }
    }

    fn network(&self) -> HttpTransport {
        HttpTransport::new(&self.proxy.url())
    }

    fn device(&self, name: &str) -> DeviceFiles {
        DeviceFiles::new(self.folder.path(), name)
    }
}

/// A network that changes what passes.
struct Changing<F>(HttpTransport, F);

impl<F: FnMut(&mut WireRequest, Option<&mut WireAnswer>)> Transport for Changing<F> {
    fn exchange(&mut self, request: &WireRequest) -> Result<WireAnswer, TransportError> {
        let mut request = request.clone();
        (self.1)(&mut request, None);
        let mut answer = self.0.exchange(&request)?;
        (self.1)(&mut request, Some(&mut answer));
        Ok(answer)
    }
}

fn release_all(hub: &HubStore) {
    let packs: Vec<_> = hub.packs().unwrap().iter().map(|pack| pack.digest).collect();
    let (channel, stage, same_label) = (DEFAULT_CHANNEL, RolloutStage::All, SameLabel::Refuse);
    hub.release_packs(&PackRelease { packs: &packs, channel, stage, same_label, key: None }, now()).unwrap();
}

#[test]
fn strangers_learn_nothing() {
    let fleet = Fleet::new();
    let device = fleet.device("door 3");
    device.enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    let mut network = fleet.network();
    let empty = WireAnswer { status: 404, signature: None, body: Vec::new() };
    for (method, path) in [("GET", "/"), ("GET", "/admin/v1/fleet"), ("POST", "/v1/report"), ("GET", "/v1/objects/x")] {
        let request = WireRequest { method, path: path.into(), headers: Vec::new(), body: Vec::new() };
        assert_eq!(network.exchange(&request).unwrap(), empty, "{path}");
    }
    // A signature by another key, and a body that was changed on the way.
    let forged = SigningKey::generate().unwrap().sign(b"").to_string();
    let forge = |request: &mut WireRequest, _: Option<&mut WireAnswer>| {
        for (name, value) in &mut request.headers {
            if *name == SIGNATURE {
                *value = forged.clone();
            }
        }
    };
    let refused = device.device().sync(&mut Changing(fleet.network(), forge), &mut ()).unwrap_err();
    assert!(matches!(refused, SyncError::Unknown), "{refused}");
    let change = |request: &mut WireRequest, _: Option<&mut WireAnswer>| request.body.push(b' ');
    let refused = device.device().sync(&mut Changing(fleet.network(), change), &mut ()).unwrap_err();
    assert!(matches!(refused, SyncError::Unknown), "{refused}");
    device.sync(&mut fleet.network());
}

#[test]
fn an_answer_that_the_hub_did_not_sign_counts_for_nothing() {
    let fleet = Fleet::new();
    let device = fleet.device("door 3");
    device.enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    let change = |_: &mut WireRequest, answer: Option<&mut WireAnswer>| {
        if let Some(answer) = answer {
            answer.body = br#"{"bundle":null,"packs":[],"more":1}"#.to_vec();
        }
    };
    let refused = device.device().sync(&mut Changing(fleet.network(), change), &mut ()).unwrap_err();
    assert!(matches!(refused, SyncError::Unreachable { .. }), "{refused}");
    // An answer of before, to another request.
    let mut first = None;
    let replay = |_: &mut WireRequest, answer: Option<&mut WireAnswer>| {
        if let Some(answer) = answer {
            *answer = first.get_or_insert_with(|| answer.clone()).clone();
        }
    };
    let mut network = Changing(fleet.network(), replay);
    device.device().sync(&mut network, &mut ()).unwrap();
    let refused = device.device().sync(&mut network, &mut ()).unwrap_err();
    assert!(matches!(refused, SyncError::Unreachable { .. }), "{refused}");
}

#[test]
fn a_code_counts_once_and_for_its_hub() {
    let fleet = Fleet::new();
    let (device, thief) = (fleet.device("door 3"), fleet.device("thief"));
    let code = code(&fleet.hub.store(), DEFAULT_CHANNEL);
    let enrol = |device: &DeviceFiles, code: &EnrolmentCode| {
        device.device().enrol(&mut fleet.network(), code, &device.name, &mut ())
    };
    assert_eq!(enrol(&device, &code).unwrap(), DEFAULT_CHANNEL);
    assert_eq!(enrol(&device, &code).unwrap(), DEFAULT_CHANNEL, "its answer may have been lost");
    assert!(matches!(enrol(&thief, &code), Err(SyncError::Unknown)));
    let wrong = EnrolmentCode::generate(code.fingerprint).unwrap();
    assert!(matches!(enrol(&thief, &wrong), Err(SyncError::Unknown)));
    let other = EnrolmentCode::generate(SigningKey::generate().unwrap().verifying_key().fingerprint()).unwrap();
    assert!(matches!(enrol(&device, &other), Err(SyncError::OtherHub { .. })));
    assert!(matches!(thief.device().sync(&mut fleet.network(), &mut ()), Err(SyncError::NotEnrolled)));
}

#[test]
fn a_damaged_object_is_fetched_again() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    let store = fleet.hub.store();
    giver.enrol(&mut fleet.network(), &store, DEFAULT_CHANNEL);
    taker.enrol(&mut fleet.network(), &store, DEFAULT_CHANNEL);
    giver.teach("mug", 1);
    giver.sync(&mut fleet.network());
    release_all(&store);
    let object = store.objects().path(&store.releases().unwrap()[0].identity);
    let whole = std::fs::read(&object).unwrap();
    std::fs::write(&object, &whole[..whole.len() / 2]).unwrap();
    let refused = taker.device().sync(&mut fleet.network(), &mut ()).unwrap_err();
    assert!(matches!(refused, SyncError::Object { .. }), "{refused}");
    assert!(taker.labels().is_empty());
    let mut other = whole.clone();
    other[whole.len() / 2] ^= 1;
    std::fs::write(&object, other).unwrap();
    let refused = taker.device().sync(&mut fleet.network(), &mut ()).unwrap_err();
    assert!(matches!(refused, SyncError::Object { .. }), "{refused}");
    std::fs::write(&object, whole).unwrap();
    assert_eq!(taker.sync(&mut fleet.network()).imported, ["mug"]);
}

#[test]
fn a_class_that_was_taught_here_is_not_replaced_in_silence() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    let store = fleet.hub.store();
    giver.enrol(&mut fleet.network(), &store, DEFAULT_CHANNEL);
    taker.enrol(&mut fleet.network(), &store, DEFAULT_CHANNEL);
    giver.teach("mug", 1);
    giver.sync(&mut fleet.network());
    release_all(&store);
    taker.teach("mug", 2);
    let outcome = taker.sync(&mut fleet.network());
    assert!(outcome.outcomes[0].refused.as_ref().is_some_and(|reason| reason.contains("taught another")));
    // The operator merges both: now the device learns the merged one in its place.
    let packs: Vec<_> = store.packs().unwrap().iter().map(|pack| pack.digest).collect();
    let (channel, stage, same_label) = (DEFAULT_CHANNEL, RolloutStage::All, SameLabel::Merge);
    store.release_packs(&PackRelease { packs: &packs, channel, stage, same_label, key: None }, now()).unwrap();
    for device in [&giver, &taker] {
        assert_eq!(device.sync(&mut fleet.network()).outcomes[0].refused, None);
        assert_eq!(device.labels().len(), 1);
        let learner = device.learner();
        let class = learner.base_model().classes.len() as u32;
        assert_eq!(learner.state().exemplars.of_class(class).len(), 10, "the shots of both");
    }
    // Taken back, it goes from both.
    let newest = store.releases().unwrap()[0].id;
    store.releases().unwrap().iter().for_each(|release| store.withdraw(release.id).unwrap());
    assert!(newest.0 > 1);
    assert_eq!(taker.sync(&mut fleet.network()).forgotten.len(), 1);
    assert!(taker.labels().is_empty());
}

#[test]
fn a_device_whose_number_got_lost_catches_up() {
    let fleet = Fleet::new();
    let device = fleet.device("door 3");
    device.enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    (0..3).for_each(|_| drop(device.sync(&mut fleet.network())));
    // As after a restored backup.
    std::fs::write(device.fleet().path().join("sequence.json"), "1").unwrap();
    device.sync(&mut fleet.network());
    device.sync(&mut fleet.network());
}
