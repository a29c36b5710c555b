//! Tells an MQTT broker what the service sees and learns, for Home Assistant and others. The service takes no commands
//! from the broker, so write access there does not allow teaching; it reads only which entities an earlier run has
//! described.
//!
//! One thread gathers the service's events (`updates`) and, while the broker is there, publishes the newest state and
//! the results of changes. When the broker goes away, the thread connects again after one second, then after twice as
//! long each time, up to a minute. No other thread waits for it: only the newest state counts, and the queue of results
//! is bounded.
//!
//! | topic | message | retained |
//! |---|---|---|
//! | `orco/ID/availability` | `online`; `offline` when the service ends, by the broker itself when it is killed | yes |
//! | `orco/ID/state` | label, probability, whether known or provisional, what is in view, how the camera is | yes |
//! | `orco/ID/classes` | number of classes: all, of the bundle, learned; free targets | yes |
//! | `orco/ID/change` | the result of a change, once | no |
//! | `orco/ID/picture` | a JPEG of what the camera saw when that changed, where pictures are asked for | yes |
//! | `homeassistant/...` | [`discovery`] | yes |
//!
//! `topics` names them; `message` writes what goes to all but the last.

mod announcement;
mod connection;
pub mod discovery;
mod message;
mod settings;
mod topics;
mod updates;

use std::cell::{Cell, RefCell};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use log::Level;
use rumqttc::{AsyncClient, Event, EventLoop, Packet};
use tokio::sync::{broadcast, watch};

use self::connection::{Connection, Retention, publish_options};
use self::discovery::{DeviceDescription, EntityNames};
use self::message::{LiveState, classes_message};
pub use self::settings::{BrokerAddress, MqttDevice, MqttError, MqttSettings};
use self::topics::{OFFLINE, ONLINE, Topics};
use self::updates::MqttUpdates;
use crate::answers::Answers;
use crate::camera_regions::CameraRegions;
use crate::error::ServeError;
use crate::event::{self, Events};
use crate::health::Health;
use crate::live::{LiveCamera, LiveCameraReader};
use crate::metric::MqttMetrics;
use crate::service::Service;
use crate::worker::{self, Worker};

/// Pause before the broker is asked again for the first time; each further pause is twice as long.
const MIN_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause before the broker is asked again.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60);
/// A connection that held so long was stable: the next pause is the shortest one again.
const STABLE_CONNECTION: Duration = Duration::from_secs(30);
/// Least time between two messages that differ in probabilities alone, and between two pictures.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_secs(5);
/// Longest time that publishing `offline` and disconnecting may take.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Reports to a broker until it is dropped, and then says that the device is off.
#[derive(Debug)]
pub struct Mqtt {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Mqtt {
    /// Starts to report what a service sees and learns. A broker that is not there is asked again and again. `page` is
    /// the address of the service's page, where other machines reach it.
    ///
    /// # Errors
    /// [`ServeError`] if the thread cannot be started.
    pub fn start(service: &Service, device: MqttDevice, page: Option<String>) -> Result<Self, ServeError> {
        if device.is_overheard() {
            log::warn!("MQTT: the password goes to {} unencrypted; mqtts:// encrypts it", device.broker);
        }
        let (stop, stopped) = watch::channel(false);
        let live = service.live();
        let (bundle, camera, named) = (service.manifest.name.clone(), live.is_some(), EntityNames::default());
        let about = DeviceDescription { bundle, page, camera, pictures: device.pictures && camera, named };
        let worker = MqttWorker {
            device,
            about,
            regions: service.regions.clone(),
            live: live.map(LiveCamera::reader),
            answers: service.answers.clone(),
            health: service.health.clone(),
            events: service.events.clone(),
            metrics: service.metrics.mqtt.clone(),
            stopped,
        };
        let thread = worker::start(worker, &service.health)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Mqtt {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.thread.take().into_iter().for_each(worker::join);
    }
}

/// Runs a [`Reporter`], again after a panic.
struct MqttWorker {
    device: MqttDevice,
    about: DeviceDescription,
    regions: CameraRegions,
    live: Option<LiveCameraReader>,
    answers: Answers,
    health: Health,
    events: Events,
    metrics: MqttMetrics,
    stopped: watch::Receiver<bool>,
}

impl Worker for MqttWorker {
    const NAME: &'static str = "mqtt";

    fn run(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ServeError::Threads)?;
        // Events first: what happens between the two is reported twice rather than never.
        let events = self.events.listen();
        let updates = MqttUpdates::new(self.live.as_ref().map(LiveCameraReader::snapshot).as_ref());
        let reporter = Reporter {
            worker: self,
            updates,
            announced: RefCell::default(),
            subscribes: Cell::new(true),
            picture_bytes: Cell::default(),
        };
        runtime.block_on(reporter.run(events, self.stopped.clone(), up));
        // A name that is being looked up is not waited for.
        runtime.shutdown_background();
        Ok(())
    }

    fn on_panic(&mut self) {
        self.metrics.connected.set(0);
    }

    fn is_stopping(&self) -> bool {
        *self.stopped.borrow()
    }
}

/// The state that was published last, and when.
struct PublishedState {
    state: LiveState,
    at: Instant,
}

/// When a picture was published last, and whether something else was recognised since.
#[derive(Default)]
struct PictureTime {
    at: Option<Instant>,
    is_wanted: bool,
}

/// Reports from its start to a panic or to the end of the service.
struct Reporter<'a> {
    worker: &'a MqttWorker,
    updates: MqttUpdates,
    /// What the broker was told of last that has entities of its own.
    announced: RefCell<EntityNames>,
    /// Whether to subscribe to the descriptions that the broker keeps. It is cleared while that is tried: a broker may
    /// end the connection of a client that has no right to read.
    subscribes: Cell<bool>,
    /// Bytes of the picture that is on its way.
    picture_bytes: Cell<Option<usize>>,
}

impl Reporter<'_> {
    async fn run(self, events: broadcast::Receiver<event::Event>, stop: watch::Receiver<bool>, up: &mut dyn FnMut()) {
        self.worker.metrics.connected.set(0);
        tokio::select! {
            // Polled in this order: the thread says that it works once both others have begun, whether or not the
            // broker is there.
            biased;
            () = self.updates.gather(events, &self.worker.metrics) => {}
            () = self.stay_connected(stop) => {}
            () = self.say_up(up) => {}
        }
        self.worker.metrics.connected.set(0);
    }

    /// Says that the thread works; never ends.
    async fn say_up(&self, up: &mut dyn FnMut()) {
        up();
        self.worker.health.fault_point("mqtt: reporting");
        std::future::pending().await
    }

    /// Connects again and again until it is told to stop.
    async fn stay_connected(&self, mut stop: watch::Receiver<bool>) {
        self.worker.health.fault_point("mqtt: connecting");
        let (mut pause, mut said) = (MIN_RETRY_PAUSE, String::new());
        while !*stop.borrow() {
            let (client, events) = connection::open(&self.worker.device);
            let connection = Connection::default();
            // At the level of the warning that the broker was away, so that whoever read that also reads this.
            let level = if said.is_empty() { Level::Info } else { Level::Warn };
            let error = tokio::select! {
                error = self.poll(events, &connection, level) => error,
                () = self.publish(&client, &connection, stop.clone()) => return,
            };
            self.worker.metrics.connected.set(0);
            if *stop.borrow() {
                return;
            }
            let held = connection.since.get().map(|since| since.elapsed());
            if held.is_some_and(|held| held >= STABLE_CONNECTION) {
                pause = MIN_RETRY_PAUSE;
            }
            let reason = connection::reason(&error, held, self.picture_bytes.take());
            // Once is enough, as long as nothing else is to be said.
            if held.is_some() || reason != said {
                let broker = &self.worker.device.broker;
                log::warn!("MQTT: {broker} is not there, trying again in {} s: {reason}", pause.as_secs());
                said = reason;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
            pause = MAX_RETRY_PAUSE.min(2 * pause);
        }
    }

    /// Keeps a connection going; returns why it ended. Logs at this level that the broker is there.
    async fn poll(&self, mut events: EventLoop, connection: &Connection, level: Level) -> rumqttc::ConnectionError {
        loop {
            match events.poll().await {
                Ok(Event::Incoming(Packet::ConnAck(_))) => {
                    log::log!(level, "MQTT: connected to {}", self.worker.device.broker);
                    self.worker.metrics.connected.set(1);
                    self.worker.metrics.connections.inc();
                    connection.since.set(Some(Instant::now()));
                    connection.made.notify_one();
                }
                Ok(Event::Incoming(Packet::Publish(message))) => connection.note_kept(&message),
                Ok(_) => {}
                Err(error) => return error,
            }
        }
    }

    /// Publishes until it is told to stop, then publishes that the device is offline.
    async fn publish(&self, client: &AsyncClient, connection: &Connection, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = connection.made.notified() => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        tokio::select! {
            () = self.publish_updates(client, connection) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        let disconnect = async {
            self.deliver(client, &Topics::of(&self.worker.device).availability, OFFLINE, Retention::Retained).await;
            // `poll` sends it. A client that goes without this packet has the broker publish the will.
            let _ = client.disconnect().await;
            std::future::pending::<()>().await;
        };
        let _ = tokio::time::timeout(DISCONNECT_TIMEOUT, disconnect).await;
    }

    /// Publishes all there is, then whatever is new, as soon as it is due; never ends.
    async fn publish_updates(&self, client: &AsyncClient, connection: &Connection) {
        let topics = Topics::of(&self.worker.device);
        self.announce_all(client, connection).await;
        if !self.worker.about.camera {
            // Clears the state of a time when there was a camera.
            self.deliver(client, &topics.state, "", Retention::Retained).await;
        }
        if !self.worker.about.pictures {
            // And the picture of a time when these were asked for.
            self.deliver(client, &topics.picture, "", Retention::Retained).await;
        }
        let mut published: Option<PublishedState> = None;
        let mut published_classes = String::new();
        let mut picture = PictureTime::default();
        // First, since what was seen before the device went would be taken for news once it is said to be there.
        self.publish_state(client, &topics, &mut published, &mut picture).await;
        self.deliver(client, &topics.availability, ONLINE, Retention::Retained).await;
        loop {
            let classes = classes_message(&self.worker.answers.knowledge());
            if classes != published_classes {
                self.deliver(client, &topics.classes, classes.clone(), Retention::Retained).await;
                published_classes = classes;
            }
            while let Some(ended) = self.updates.first() {
                self.deliver(client, &topics.change, ended.message, Retention::Transient).await;
                self.updates.remove(ended.job);
            }
            self.announce_changes(client).await;
            let state_due = self.publish_state(client, &topics, &mut published, &mut picture).await;
            let picture_due = self.publish_picture(client, &topics, &mut picture).await;
            let until_due = async {
                match state_due.into_iter().chain(picture_due).min() {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.updates.fresh.notified() => {}
                () = until_due => {}
            }
        }
    }

    /// Publishes what the camera shows: at once where that is something else, and at most once in
    /// [`MIN_UPDATE_INTERVAL`] where only a probability has changed. Returns when the next message is due.
    async fn publish_state(
        &self,
        client: &AsyncClient,
        topics: &Topics,
        published: &mut Option<PublishedState>,
        picture: &mut PictureTime,
    ) -> Option<Instant> {
        let shown = self.updates.shown()?;
        if published.as_ref().is_none_or(|before| shown.differs_from(&before.state)) {
            picture.is_wanted = self.worker.about.pictures;
        } else if let Some(before) = published.as_ref() {
            if !shown.has_moved(&before.state) {
                return None;
            }
            let due = before.at + MIN_UPDATE_INTERVAL;
            if due > Instant::now() {
                return Some(due);
            }
        }
        let message = serde_json::to_string(&shown).unwrap_or_default();
        self.deliver(client, &topics.state, message, Retention::Retained).await;
        *published = Some(PublishedState { state: shown, at: Instant::now() });
        None
    }

    /// Publishes a picture where one is wanted, at most one in [`MIN_UPDATE_INTERVAL`]. Returns when the next is due.
    async fn publish_picture(
        &self,
        client: &AsyncClient,
        topics: &Topics,
        picture: &mut PictureTime,
    ) -> Option<Instant> {
        if !picture.is_wanted {
            return None;
        }
        let next = picture.at.map(|at| at + MIN_UPDATE_INTERVAL).filter(|next| *next > Instant::now());
        if next.is_none() {
            if let Some(jpeg) = self.worker.live.as_ref().and_then(LiveCameraReader::jpeg) {
                self.picture_bytes.set(Some(jpeg.len()));
                self.deliver(client, &topics.picture, jpeg, Retention::Retained).await;
                self.picture_bytes.set(None);
            }
            *picture = PictureTime { is_wanted: false, at: Some(Instant::now()) };
        }
        next
    }

    /// Sends a message and waits until the broker has it. Where that fails, the connection has ended: this never ends
    /// then, and `poll` returns the error.
    async fn deliver(&self, client: &AsyncClient, topic: &str, message: impl Into<Bytes>, retention: Retention) {
        let sent = client.publish_tracked(topic, message.into(), publish_options(retention)).await;
        let confirmed = match sent {
            Ok(notice) => notice.wait_completion_async().await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match confirmed {
            Ok(()) => drop(self.worker.metrics.messages.inc()),
            Err(error) => {
                log::debug!("MQTT: {topic} was not delivered: {error}");
                std::future::pending().await
            }
        }
    }
}
