//! A group whose members and coordinator are in this process and exchange the messages of the wire.

use tributary_client::secure::{GroupTrust, Member, MemberError, Next, Terms, system_entropy};
use tributary_engine::round::masking::{GroupParameters, MaskingPolicy};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{GroupId, JobId};
use tributary_protocol::secure::messages::{Formed, Inbox, Letter, Neighbour, Shares};
use tributary_protocol::secure::noised::MemberNoise;
use tributary_protocol::secure::open::{Opening, Unmasks};
use tributary_protocol::secure::packed::Unpacker;
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::slots::{SLOTS, Told};
use tributary_protocol::secure::{Context, Record, Roster, Suite, Survivors, Words};
use tributary_protocol::seed::SecretStream;

use crate::error::BenchError;
use crate::simulated::failed;
use tributary::stopwatch::Stopwatch;

pub(super) struct Group {
    pub(super) context: Context,
    roster: Roster,
    records: Vec<Record>,
    /// Of the members that are not lost.
    pub(super) seats: Vec<Seat>,
}

/// A member, and what it has sent and received.
pub(super) struct Seat {
    member: Member,
    index: u16,
    pub(super) ms: f64,
    pub(super) up: usize,
    pub(super) down: usize,
}

impl Seat {
    /// Runs a step of the member, and takes its time.
    fn step<T>(&mut self, step: impl FnOnce(&mut Member) -> Result<T, MemberError>) -> Result<T, BenchError> {
        let clock = Stopwatch::start();
        let done = step(&mut self.member);
        self.ms += clock.elapsed().as_secs_f64() * 1e3;
        done.map_err(failed)
    }
}

impl Group {
    /// A group of this many members, which have joined, for values of so many bits.
    pub(super) fn join(
        count: u16,
        policy: &MaskingPolicy,
        quantiser: &Quantiser,
        bits: u8,
    ) -> Result<Self, BenchError> {
        let parameters = GroupParameters::of(count.into(), policy).map_err(failed)?;
        let context = Context {
            job: JobId::from_random([1; 16]),
            round: 1,
            group: GroupId::from_random([2; 16]),
            model: Sha256Hash::of(b"model"),
            plan: Sha256Hash::of(b"plan"),
            suite: Suite::One,
            bits,
            threshold: parameters.threshold as u16,
            degree: parameters.degree as u16,
            length: quantiser.coordinates(),
        };
        let mut seats = Vec::new();
        for index in 0..count {
            let clock = Stopwatch::start();
            let member = Member::join(terms(&context, policy), &[], &mut system_entropy).map_err(failed)?;
            let up = member.record().len();
            seats.push(Seat { member, index, ms: clock.elapsed().as_secs_f64() * 1e3, up, down: 0 });
        }
        let records = seats.iter().map(|seat| Record::from_bytes(seat.member.record()));
        let records: Vec<Record> = records.collect::<Result<_, _>>().map_err(failed)?;
        let hashes: Vec<Sha256Hash> = records.iter().map(Record::hash).collect();
        let roster = Roster::new(&context, &hashes).map_err(failed)?;
        Ok(Self { context, roster, records, seats })
    }

    /// All members learn their group and exchange shares.
    pub(super) fn share(&mut self) -> Result<(), BenchError> {
        let Self { context, roster, records, seats } = self;
        let mut sent: Vec<Shares> = Vec::new();
        for seat in seats.iter_mut() {
            let neighbour = |index: u16| Neighbour { index, record: records[usize::from(index)], certificate: vec![] };
            let formed = Formed {
                context: *context,
                records: records.iter().map(Record::hash).collect(),
                index: seat.index,
                neighbours: roster.neighbours(seat.index).into_iter().map(neighbour).collect(),
            };
            seat.down += formed.to_bytes().len();
            let shares = seat.step(|member| member.formed(&formed, None, &mut system_entropy))?;
            seat.up += shares.len();
            sent.push(Shares::from_bytes(&shares).map_err(failed)?);
        }
        for seat in seats {
            let letter = |from: u16| {
                let shares = &sent[usize::from(from)];
                let (_, ciphertext) = shares.shares.iter().find(|(to, _)| *to == seat.index)?;
                Some(Letter { from, signature: shares.signature, ciphertext: *ciphertext })
            };
            let inbox = Inbox { letters: roster.neighbours(seat.index).into_iter().filter_map(letter).collect() };
            seat.down += inbox.to_bytes().len();
            seat.step(|member| member.inbox(&inbox, None))?;
        }
        Ok(())
    }

    /// The members that are left send their updates, which are added up and opened. `update` gives the update of a
    /// member and the random numbers of its rounding. Returns the time of the coordinator in milliseconds.
    ///
    /// # Errors
    /// Also when the sum without masks is not that of the integers.
    pub(super) fn sum(
        &mut self,
        (quantiser, noise): (&Quantiser, Option<MemberNoise>),
        mut update: impl FnMut(u16) -> (Vec<f32>, SecretStream),
    ) -> Result<f64, BenchError> {
        let (members, roster) = (self.roster.members(), self.roster.hash());
        let survivors = Survivors::new(members, self.seats.iter().map(|seat| seat.index));
        let mut server = Coordinator::new(&roster, self.context.bits, quantiser.body_values(&roster));
        let mut expected = vec![0i64; server.values];
        for seat in &mut self.seats {
            let (delta, mut random) = update(seat.index);
            let clock = Stopwatch::start();
            let mut quantised = quantiser.quantise(&delta, &roster, &mut random).map_err(failed)?;
            if let Some(noise) = &noise {
                noise.add(&mut quantised, &mut random);
            }
            let words = Words::of(self.context.bits, &quantised.values);
            let slots = Told { is_whole: !quantised.is_clipped, examples: 60, loss: Some(0.5) }.slots().to_vec();
            let body = seat.member.masked(words, slots).map_err(failed)?;
            seat.ms += clock.elapsed().as_secs_f64() * 1e3;
            seat.up += body.len();
            expected.iter_mut().zip(&quantised.values).for_each(|(sum, value)| *sum += value);
            server.add(&body)?;
        }
        let unmasks = self.unmasks(&survivors)?;
        let sharers = Survivors::new(members, 0..members);
        let Self { context, roster, records, .. } = &*self;
        server.open(&Opening { context, roster, records, sharers: &sharers, survivors: &survivors }, &unmasks)?;
        match server.sum.signed(0..server.values) == expected {
            true => Ok(server.ms),
            false => Err(failed("the opened sum is not the sum of the integers")),
        }
    }

    /// What the survivors give that takes the masks off their sum.
    fn unmasks(&mut self, survivors: &Survivors) -> Result<Unmasks, BenchError> {
        let mut unmasks = Unmasks::new();
        for seat in &mut self.seats {
            seat.down += survivors.to_bytes().len();
            let Next::Unmask(unmask) = seat.step(|member| member.survivors(survivors, None))? else {
                return Err(failed("nothing is signed"));
            };
            seat.up += unmask.to_bytes().len();
            unmasks.insert(seat.index, unmask);
        }
        Ok(unmasks)
    }
}

/// What a member accepts: any group of its job.
fn terms(context: &Context, policy: &MaskingPolicy) -> Terms {
    Terms {
        job: context.job,
        round: context.round,
        model: context.model,
        plan: context.plan,
        length: context.length,
        trust: GroupTrust::Honest,
        members_min: 3,
        survivors_min: 0,
        degree_min: 2,
        dropouts: policy.dropouts,
        corrupt: policy.corrupt,
    }
}

/// The coordinator's sum.
struct Coordinator {
    roster: Sha256Hash,
    bits: u8,
    values: usize,
    sum: Words,
    ms: f64,
}

impl Coordinator {
    fn new(roster: &Sha256Hash, bits: u8, values: usize) -> Self {
        Self { roster: *roster, bits, values, sum: Words::zeros(bits, values), ms: 0.0 }
    }

    fn add(&mut self, body: &[u8]) -> Result<(), BenchError> {
        let clock = Stopwatch::start();
        let mut unpacker = Unpacker::new(self.roster, self.bits, self.values as u32, SLOTS);
        let mut first = 0;
        let sum = &mut self.sum;
        let add = |values: &[u64]| {
            sum.add(first, values);
            first += values.len();
        };
        unpacker.read(body, add).map_err(failed)?;
        unpacker.finish().map_err(failed)?;
        self.ms += clock.elapsed().as_secs_f64() * 1e3;
        Ok(())
    }

    /// Rebuilds the secrets, and takes the masks off on all cores.
    fn open(&mut self, opening: &Opening<'_>, unmasks: &Unmasks) -> Result<(), BenchError> {
        let clock = Stopwatch::start();
        opening.open(unmasks).map_err(failed)?.masks.apply_on_all_cores(&mut self.sum);
        self.ms += clock.elapsed().as_secs_f64() * 1e3;
        Ok(())
    }
}
