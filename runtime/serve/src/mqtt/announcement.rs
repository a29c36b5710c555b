//! Describes the entities of Home Assistant to the broker, and takes away the descriptions of those that are gone.

use std::collections::BTreeSet;

use rumqttc::{AsyncClient, QoS};

use super::Reporter;
use super::connection::{Connection, Retention};
use super::discovery::{self, DeviceDescription, EntityDescription, EntityNames, MAX_PRESENCE_SENSORS};

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
        let present = self.announce(client, named, &earlier, &[]).await;
        // The broker has confirmed these messages, so it has answered the subscription before them. A client that may
        // only write gets no answer: then the history says which classes there were.
        let mut described = connection.described.take();
        if described.is_empty() {
            described.extend(self.descriptions(&self.remembered()).into_iter().map(|entity| entity.topic));
        }
        for topic in described {
            if present.iter().all(|entity| entity.topic != topic) {
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
    /// that the broker `knows`. Returns the descriptions of all present entities.
    async fn announce(
        &self,
        client: &AsyncClient,
        named: EntityNames,
        earlier: &[EntityDescription],
        knows: &[EntityDescription],
    ) -> Vec<EntityDescription> {
        let present = self.descriptions(&named);
        for gone in earlier.iter().filter(|earlier| present.iter().all(|entity| entity.topic != earlier.topic)) {
            self.deliver(client, &gone.topic, "", Retention::Retained).await;
        }
        for entity in present.iter().filter(|entity| !knows.contains(entity)) {
            self.deliver(client, &entity.topic, entity.config.clone(), Retention::Retained).await;
        }
        self.announced.replace(named);
        present
    }

    /// Descriptions of all entities.
    fn descriptions(&self, named: &EntityNames) -> Vec<EntityDescription> {
        let about = DeviceDescription { named: named.clone(), ..self.worker.about.clone() };
        discovery::descriptions(&self.worker.device, &about)
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
