//! Describes the entities of Home Assistant to the broker, and takes away the descriptions of those that are gone.

use std::collections::BTreeSet;

use rumqttc::{AsyncClient, QoS};

use super::connection::Retention;
use super::discovery::{self, DeviceDescription, EntityNames, MAX_PRESENCE_SENSORS};
use super::{Connection, Reporter};

impl Reporter<'_> {
    /// Describes all entities to a broker that has just been connected to, for it may have lost what it was told
    /// before, and takes away those that it still keeps of an earlier run.
    pub(super) async fn announce_all(&self, client: &AsyncClient, connection: &Connection) {
        let filter = discovery::topic_filter(&self.worker.device);
        let subscribes = self.subscribes.replace(false);
        if subscribes {
            let _ = client.subscribe(&*filter, QoS::AtMostOnce).await;
        }
        let (named, earlier) = (self.named(), self.descriptions(&self.announced.borrow()));
        let messages = self.announce(client, named, &earlier, &[]).await;
        // The broker has confirmed these messages, so it has answered the subscription before them. A client that may
        // only write gets no answer: then the history says which classes there were.
        let mut described = connection.described.take();
        if described.is_empty() {
            described.extend(self.descriptions(&self.remembered()).into_iter().map(|(topic, _)| topic));
        }
        for topic in described {
            if messages.iter().all(|(other, _)| *other != topic) {
                self.deliver(client, &topic, "", Retention::Retained).await;
            }
        }
        if subscribes {
            let _ = client.unsubscribe(&*filter).await;
            self.subscribes.set(true);
        }
    }

    /// Describes the entities that are new since the last time.
    pub(super) async fn announce_changes(&self, client: &AsyncClient) {
        let named = self.named();
        let before = self.announced.borrow().clone();
        if named != before {
            let earlier = self.descriptions(&before);
            self.announce(client, named, &earlier, &earlier).await;
        }
    }

    /// Takes away those `earlier` entities whose region or class is gone, and describes the present ones except those
    /// that the broker `knows`. Returns the messages of all present entities.
    async fn announce(
        &self,
        client: &AsyncClient,
        named: EntityNames,
        earlier: &[(String, String)],
        knows: &[(String, String)],
    ) -> Vec<(String, String)> {
        let messages = self.descriptions(&named);
        for (topic, _) in earlier.iter().filter(|(topic, _)| messages.iter().all(|(other, _)| other != topic)) {
            self.deliver(client, topic, "", Retention::Retained).await;
        }
        for (topic, config) in messages.iter().filter(|message| !knows.contains(message)) {
            self.deliver(client, topic, config.clone(), Retention::Retained).await;
        }
        self.announced.replace(named);
        messages
    }

    /// Topics of all entities with their descriptions.
    fn descriptions(&self, named: &EntityNames) -> Vec<(String, String)> {
        let about = DeviceDescription { named: named.clone(), ..self.worker.about.clone() };
        discovery::messages(&self.worker.device, &about)
    }

    /// What has entities of its own now.
    fn named(&self) -> EntityNames {
        let regions = self.worker.regions.get().iter().map(|region| region.name.clone()).collect();
        let known = self.worker.answers.knowledge();
        let learned = known.classes[known.base_classes..].iter().rev().take(MAX_PRESENCE_SENSORS);
        EntityNames { regions, things: learned.map(|class| class.label.clone()).collect() }
    }

    /// The labels of all changes that are remembered.
    fn remembered(&self) -> EntityNames {
        let known = self.worker.answers.knowledge();
        let labels: BTreeSet<&str> =
            known.history.iter().flat_map(|entry| &entry.names).map(|named| &*named.label).collect();
        let things = labels.into_iter().filter(|label| !label.is_empty()).map(str::to_owned).collect();
        EntityNames { regions: Vec::new(), things }
    }
}
