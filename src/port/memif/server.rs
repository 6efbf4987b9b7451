//! The server's side of the conversation. COLD.

use super::buffers::{Copying, lost};
use super::error::Fault;
use super::message::{AddRegion, AddRing, Hello, Init, MODE_ETHERNET, Message, Text, VERSION};
use super::pair::{End, Rings};
use super::ring::{LOG2_SIZE_MAX, Serving};
use super::session::{Session, Step};
use super::{MemifConfig, NAME};
use crate::sys::errno::descriptor_remedy;
use crate::sys::memfd::{HoleBudget, Mapped, MappedElsewhere, Sealing, SharedMemory};
use crate::sys::seqpacket::{Connection, Listener, PeerDescriptor};
use crate::sys::shared_event::SharedEvent;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of regions of a client.
const REGIONS_MAX: u16 = 64;
/// Largest region in bytes: an offset and a length of 32 bits reach no further.
const REGION_MAX: u64 = 8 << 30;
/// Largest sum of all regions in bytes.
const REGIONS_BYTES_MAX: u64 = 64 << 30;
/// Maximum number of clients that can be admitted at once. Each may send some hundred descriptors.
const HANDSHAKES_MAX: usize = 4;
/// How long one of them may send nothing while others wait.
const CROWDED: Duration = Duration::from_millis(100);

/// A server has one client at a time. When that is gone, it takes the next. Until there is one, several clients send
/// their messages, and the first that has offered everything becomes the peer.
#[derive(Debug)]
pub(super) struct Server {
    listener: Listener,
    config: MemifConfig,
    /// What is allocated in memory of all its clients.
    holes: HoleBudget,
    /// Clients that have not yet offered everything. Empty while packets flow.
    handshakes: Vec<(Session, Handshake)>,
    /// The client whose packets flow.
    up: Option<Session>,
}

/// What a client has offered so far.
#[derive(Debug)]
struct Handshake {
    /// When its last message came, or when it connected.
    silent_since: Instant,
    /// It named the right interface and is permitted.
    admitted: bool,
    regions: Vec<(PeerDescriptor, u64)>,
    /// Rings to the server by number, each with the event that wakes its reader.
    to_server: Vec<Option<(AddRing, SharedEvent)>>,
    /// Rings to the client, in the same way.
    to_client: Vec<Option<(AddRing, SharedEvent)>>,
    /// The client has offered everything, under the name of its interface. A thread maps its memory.
    mapping: Option<(MappedElsewhere, String)>,
}

impl Server {
    pub(super) fn new(listener: Listener, config: &MemifConfig) -> Server {
        let holes = HoleBudget::new(config.holes);
        Server { listener, config: config.clone(), holes, handshakes: Vec::new(), up: None }
    }

    /// Makes one step of the conversation with each client, if one is possible.
    pub(super) fn service(&mut self) -> Step {
        // A client that fails holds up no other: its fault is reported if nothing else happens.
        let mut failed = self.listener.accept().and_then(|connection| self.welcome(connection).err());
        if let Some(session) = &self.up {
            return poll_peer(session, true).unwrap_or_else(Step::Down);
        }
        let mut step = Step::Wait;
        for i in (0..self.handshakes.len()).rev() {
            let (session, handshake) = &mut self.handshakes[i];
            match handshake.advance(session, &self.config, &self.holes) {
                Ok(Step::Wait) => {}
                Ok(Step::Up(rings, name)) => {
                    self.up = Some(self.handshakes.swap_remove(i).0);
                    self.handshakes.drain(..).for_each(|(session, _)| reject(&session));
                    return Step::Up(rings, name);
                }
                Ok(other) => step = other,
                Err(fault) => {
                    // The end of a client that is not the peer ends no other connection.
                    let (session, _) = self.handshakes.swap_remove(i);
                    session.end(&fault);
                    failed = Some(fault);
                }
            }
        }
        match (step, failed) {
            (Step::Wait, Some(fault)) => Step::Down(fault),
            (step, _) => step,
        }
    }

    /// Greets a client that has connected, if it may be the peer and there is no peer. If there are too many clients,
    /// one that has been silent is disconnected. If none has, the new one is.
    fn welcome(&mut self, connection: Connection) -> Result<(), Fault> {
        let allowed = self.config.peer.check(&connection);
        let session = Session::new(connection, self.config.sealing);
        if self.up.is_some() {
            reject(&session);
            return Ok(());
        }
        if let Err(fault) = allowed {
            session.end(&fault);
            return Err(fault);
        }
        if self.handshakes.len() >= HANDSHAKES_MAX {
            let silent =
                (0..self.handshakes.len()).max_by_key(|&i| self.handshakes[i].1.silent_since.elapsed());
            match silent.filter(|&i| self.handshakes[i].1.silent_since.elapsed() > CROWDED) {
                Some(i) => self.handshakes.swap_remove(i).0.end(&Fault::Silent),
                None => {
                    session.end(&Fault::Crowded);
                    return Err(Fault::Crowded);
                }
            }
        }
        let rings = self.config.queues.saturating_sub(1);
        let hello = Hello {
            name: Text::new(NAME),
            min_version: VERSION,
            max_version: VERSION,
            max_region: REGIONS_MAX - 1,
            max_ring_to_client: rings,
            max_ring_to_server: rings,
            max_log2_ring_size: LOG2_SIZE_MAX,
        };
        session.send(&Message::Hello(hello), None)?;
        self.handshakes.push((session, Handshake::default()));
        Ok(())
    }

    /// Ends the connection, and sends the reason if the peer can use it. A port that closes also ends the connections
    /// with clients that have not offered everything.
    pub(super) fn disconnect(&mut self, fault: &Fault) {
        if let Some(session) = self.up.take() {
            session.end(fault);
        }
        if matches!(fault, Fault::Closed) {
            self.handshakes.drain(..).for_each(|(session, _)| session.end(fault));
        }
    }

    /// The connections on which messages may arrive.
    pub(super) fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.handshakes.iter().map(|(session, _)| session).chain(&self.up).map(Session::connection)
    }

    /// Whether the memory of a client is being mapped. Nothing wakes a sleeper when that ends.
    pub(super) fn is_mapping(&self) -> bool {
        self.handshakes.iter().any(|(_, handshake)| handshake.mapping.is_some())
    }

    pub(super) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Whether clients are accepted, as far as that is known. If not, those that wait are not looked for before the
    /// next look.
    pub(super) fn accepts(&self) -> bool {
        !self.listener.refuses_peers() && self.listener.failure().is_none()
    }

    /// Returns why no client is accepted, if that is so.
    #[cold]
    pub(super) fn why_down(&self) -> Option<String> {
        if self.listener.refuses_peers() {
            return Some(
                "no peer is accepted until the descriptors that former peers sent are closed, which waits for other \
                 processes: end those peers, or start this program again"
                    .into(),
            );
        }
        let errno = self.listener.failure()?;
        Some(format!("no peer can be accepted: {errno}{}", descriptor_remedy(errno)))
    }
}

impl Default for Handshake {
    fn default() -> Self {
        Handshake {
            silent_since: Instant::now(),
            admitted: false,
            regions: Vec::new(),
            to_server: Vec::new(),
            to_client: Vec::new(),
            mapping: None,
        }
    }
}

/// Tells a client that another one is connected. The connection ends whether or not the client reads this.
fn reject(session: &Session) {
    let _ = session.send(&Message::disconnect("somebody is connected already"), None);
}

/// Reads the messages of a peer that has offered everything. A correct one sends only DISCONNECT. Unless we are `patient`, it
/// must not be silent for too long.
fn poll_peer(session: &Session, patient: bool) -> Result<Step, Fault> {
    match session.receive(patient)? {
        None => Ok(Step::Wait),
        Some((Message::Disconnect { reason, .. }, _)) => Err(Fault::Disconnected(reason.to_string())),
        Some((unexpected, _)) => Err(Fault::Unexpected(unexpected.name())),
    }
}

impl Handshake {
    /// Makes one step of the conversation with this client, if one is possible.
    fn advance(
        &mut self,
        session: &Session,
        config: &MemifConfig,
        holes: &HoleBudget,
    ) -> Result<Step, Fault> {
        if let Some((mapping, name)) = &self.mapping {
            let Some(mapped) = mapping.result() else { return poll_peer(session, false) };
            let name = name.clone();
            return self.connect(session, mapped, name);
        }
        let Some((message, descriptor)) = session.receive(false)? else { return Ok(Step::Wait) };
        self.silent_since = Instant::now();
        if let Message::Connect(name) = message {
            return self.map(session, config.sealing, holes, name.to_string());
        }
        self.hear(&message, descriptor, config)?;
        session.send(&Message::Ack, None)?;
        Ok(Step::Again)
    }

    fn hear(
        &mut self,
        message: &Message,
        descriptor: Option<PeerDescriptor>,
        config: &MemifConfig,
    ) -> Result<(), Fault> {
        match message {
            Message::Init(init) if !self.admitted => self.admit(init, config),
            Message::AddRegion(region) if self.admitted => {
                self.add_region(region, descriptor.ok_or(Fault::NoDescriptor(message.name()))?)
            }
            Message::AddRing(ring) if self.admitted => {
                let wake = descriptor.ok_or(Fault::NoDescriptor(message.name()))?;
                let wake = SharedEvent::of_peer(wake).map_err(|_| Fault::NoEvent(message.name()))?;
                self.add_ring(ring, wake, config.queues)
            }
            Message::Disconnect { reason, .. } => Err(Fault::Disconnected(reason.to_string())),
            unexpected => Err(Fault::Unexpected(unexpected.name())),
        }
    }

    fn admit(&mut self, init: &Init, config: &MemifConfig) -> Result<(), Fault> {
        if init.version != VERSION {
            return Err(Fault::Version(init.version));
        }
        if init.id != config.id {
            return Err(Fault::Interface(init.id));
        }
        if init.mode != MODE_ETHERNET {
            return Err(Fault::Mode(init.mode));
        }
        if !config.secret.is_empty() && !init.secret.is(&Text::new(&config.secret)) {
            return Err(Fault::Secret);
        }
        self.admitted = true;
        Ok(())
    }

    fn add_region(&mut self, region: &AddRegion, file: PeerDescriptor) -> Result<(), Fault> {
        if usize::from(region.index) != self.regions.len() || region.index >= REGIONS_MAX {
            return Err(Fault::Region(region.index));
        }
        let before: u64 = self.regions.iter().map(|(_, len)| len).sum();
        if region.size > REGION_MAX || before + region.size > REGIONS_BYTES_MAX {
            return Err(Fault::RegionSize { region: region.index, size: region.size });
        }
        self.regions.push((file, region.size));
        Ok(())
    }

    fn add_ring(&mut self, ring: &AddRing, wake: SharedEvent, queues: u16) -> Result<(), Fault> {
        if ring.private_header != 0 {
            return Err(Fault::PrivateHeader(ring.private_header));
        }
        let rings = if ring.to_server { &mut self.to_server } else { &mut self.to_client };
        rings.resize_with(queues.into(), || None);
        match rings.get_mut(usize::from(ring.index)) {
            Some(place @ None) => *place = Some((*ring, wake)),
            _ => return Err(Fault::RingIndex { direction: direction(ring.to_server), index: ring.index }),
        }
        Ok(())
    }

    /// Maps what the client has offered, or begins to.
    fn map(
        &mut self,
        session: &Session,
        sealing: Sealing,
        holes: &HoleBudget,
        name: String,
    ) -> Result<Step, Fault> {
        let regions = std::mem::take(&mut self.regions);
        if sealing == Sealing::Required {
            self.mapping = Some((SharedMemory::map_whole(regions, holes), name));
            return Ok(Step::Wait);
        }
        self.connect(session, SharedMemory::map_all(regions, sealing), name)
    }

    /// Tells the client that packets flow from now on.
    fn connect(&mut self, session: &Session, mapped: Mapped, name: String) -> Result<Step, Fault> {
        let regions = mapped.map_err(|(i, error)| Fault::Map(i, error))?;
        let rings = self.rings(regions.into())?;
        session.send(&Message::Connected(Text::new(NAME)), None)?;
        Ok(Step::Up(rings, name))
    }

    /// Makes the rings in the mapped memory.
    fn rings(&mut self, regions: Arc<[Arc<SharedMemory>]>) -> Result<Vec<Rings>, Fault> {
        let ends = |rings: &mut Vec<Option<(AddRing, SharedEvent)>>, to_server| -> Result<Vec<_>, Fault> {
            // They must be numbered without gaps.
            let n = rings.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            let given = rings.drain(..n).enumerate().map(|(i, ring)| {
                let (ring, wake) =
                    ring.ok_or(Fault::RingIndex { direction: direction(to_server), index: i as u16 })?;
                Ok((end(&ring, &regions)?, wake))
            });
            given.collect()
        };
        let (received, sent) = (ends(&mut self.to_server, true), ends(&mut self.to_client, false));
        if let Some(region) = lost(&regions) {
            return Err(Fault::Lost(region));
        }
        let (received, sent) = (received?, sent?);
        if received.len() != sent.len() || received.is_empty() {
            return Err(Fault::RingCounts(received.len(), sent.len()));
        }
        let pairs = received.into_iter().zip(sent);
        Ok(pairs
            .map(|((rx, bell), (tx, peers_bell))| Rings { rx, tx, peers_bell, bell, unannounced: false })
            .collect())
    }
}

fn direction(to_server: bool) -> &'static str {
    if to_server { "to-server" } else { "to-client" }
}

/// Returns our end of a client's ring.
fn end(ring: &AddRing, regions: &Arc<[Arc<SharedMemory>]>) -> Result<End, Fault> {
    let AddRing { region, offset, log2_size, .. } = *ring;
    let memory = regions.get(usize::from(region));
    let serving = memory.and_then(|memory| Serving::new(memory, offset.into(), log2_size));
    let ring = serving.ok_or(Fault::NoRing { region, offset, log2_size })?;
    Ok(End::Copied(Copying::Peers { ring, regions: Arc::clone(regions) }))
}
