//! The cost of a group whose updates are masked: bytes of a member, its computation, that of the coordinator.
//!
//! Members and coordinator are in this process and exchange the messages of the wire, so what is measured is bytes and
//! computation; nothing travels. The opened sum is compared with the sum of the integers.

use std::num::NonZero;

use clap::Args;
use serde::Serialize;
use tributary_client::secure::{GroupTrust, Member, MemberError, Next, Terms, system_entropy};
use tributary_engine::round::masking::{GroupParameters, MaskingPolicy};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{GroupId, JobId};
use tributary_protocol::secure::messages::{Formed, Inbox, Letter, Neighbour, Shares};
use tributary_protocol::secure::open::{Opening, Unmasks};
use tributary_protocol::secure::packed::Unpacker;
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::sizes::value_bits;
use tributary_protocol::secure::slots::{SLOTS, Told};
use tributary_protocol::secure::{Context, Record, Roster, Suite, Survivors, Words};
use tributary_protocol::seed::{SecretStream, Seed};

use crate::error::BenchError;
use tributary::error::CliError;
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;

/// Values whose masks are made by one task of the coordinator.
const PART_VALUES: usize = 1 << 16;
/// Requests of a member: join, shares, update, survivors, unmask.
const EXCHANGES: u32 = 5;

#[derive(Clone, Debug, Args)]
pub(crate) struct SecureArgs {
    /// Members of the group; may be repeated, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "32,128", value_name = "COUNT", value_parser = clap::value_parser!(u16).range(3..=1000))]
    members: Vec<u16>,
    /// Parameters of the model.
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    parameters: u32,
    /// Share of the members that are lost after they have shared their secrets; may be repeated.
    #[arg(long, value_delimiter = ',', default_value = "0.05", value_name = "SHARE")]
    lost: Vec<f64>,
    /// Share of the values that are sent.
    #[arg(long, default_value_t = 1.0, value_name = "SHARE")]
    keep: f64,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    members: u16,
    degree: u32,
    threshold: u32,
    bits: u8,
    lost: f64,
    /// Bytes that a member sends, its masked update among them, and receives.
    bytes_up: usize,
    bytes_down: usize,
    /// Bytes of the same update as a plain f32 file.
    plain_bytes_up: u64,
    /// Computation of a member: the mean over the survivors.
    client_ms: f64,
    /// Computation of the coordinator: adding the bodies up, and taking the masks off on all cores.
    server_ms: f64,
    exchanges: u32,
    /// Both together, without the network.
    group_s: f64,
}

pub(crate) async fn run(args: &SecureArgs, output: &Output) -> Result<(), CliError> {
    for members in &args.members {
        for lost in &args.lost {
            let (args, members, lost) = (args.clone(), *members, *lost);
            // The computation takes seconds and would block other tasks.
            let measured = tokio::task::spawn_blocking(move || measure(&args, members, lost));
            let measured = measured.await.map_err(CliError::task)??;
            output.object(&measured, || text(&measured))?;
        }
    }
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Codec(error.to_string())
}

fn member_failed(error: &MemberError) -> BenchError {
    BenchError::Codec(error.to_string())
}

/// A member, and what it has sent and received.
struct Seat {
    member: Member,
    index: u16,
    ms: f64,
    up: usize,
    down: usize,
}

impl Seat {
    /// Runs a step of the member, and takes its time.
    fn step<T>(&mut self, step: impl FnOnce(&mut Member) -> Result<T, MemberError>) -> Result<T, BenchError> {
        let clock = Stopwatch::start();
        let done = step(&mut self.member);
        self.ms += clock.elapsed().as_secs_f64() * 1e3;
        done.map_err(|error| member_failed(&error))
    }
}

fn measure(args: &SecureArgs, count: u16, lost: f64) -> Result<Measured, BenchError> {
    let policy = MaskingPolicy { group: count.into(), group_min: 3, is_signed: false, ..MaskingPolicy::default() };
    let parameters = GroupParameters::of(count.into(), &policy).map_err(failed)?;
    let levels = 8;
    let quantiser = Quantiser::new(args.parameters as usize, 1.0, levels, args.keep).map_err(failed)?;
    let bits = value_bits(count, levels, quantiser.has_several_blocks(), 0.0).ok_or_else(|| failed("too many bits"))?;
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
    let terms = Terms {
        job: context.job,
        round: 1,
        model: context.model,
        plan: context.plan,
        length: context.length,
        trust: GroupTrust::Honest,
        members_min: 3,
        survivors_min: 0,
        degree_min: 2,
        dropouts: policy.dropouts,
        corrupt: policy.corrupt,
    };
    let mut seats = Vec::new();
    for index in 0..count {
        let clock = Stopwatch::start();
        let member = Member::join(terms.clone(), &[], &mut system_entropy).map_err(|error| member_failed(&error))?;
        let up = member.record().len();
        seats.push(Seat { member, index, ms: clock.elapsed().as_secs_f64() * 1e3, up, down: 0 });
    }
    let records: Vec<Record> =
        seats.iter().map(|seat| Record::from_bytes(seat.member.record())).collect::<Result<_, _>>().map_err(failed)?;
    let hashes: Vec<Sha256Hash> = records.iter().map(Record::hash).collect();
    let roster = Roster::new(&context, &hashes).map_err(failed)?;
    share(&mut seats, (&context, &roster, &records, &hashes))?;
    let gone = (lost * f64::from(count)) as usize;
    seats.truncate(usize::from(count) - gone);
    let survivors = Survivors::new(count, seats.iter().map(|seat| seat.index));
    let everybody = Survivors::new(count, 0..count);
    let opening =
        Opening { context: &context, roster: &roster, records: &records, sharers: &everybody, survivors: &survivors };
    let mut server = Coordinator::new(&roster.hash(), bits, quantiser.body_values(&roster.hash()));
    let mut expected = vec![0i64; server.values];
    let mut unmasks = Unmasks::new();
    for seat in &mut seats {
        let body = masked(seat, &quantiser, (&roster.hash(), bits), args.parameters, &mut expected)?;
        server.add(&body)?;
    }
    for seat in &mut seats {
        let told = survivors.to_bytes();
        seat.down += told.len();
        let Next::Unmask(unmask) = seat.step(|member| member.survivors(&survivors, None))? else {
            return Err(failed("nothing is signed"));
        };
        seat.up += unmask.to_bytes().len();
        unmasks.insert(seat.index, unmask);
    }
    server.open(&opening, &unmasks)?;
    if server.sum.signed(0..server.values) != expected {
        return Err(failed("the opened sum is not the sum of the integers"));
    }
    let mean = |of: fn(&Seat) -> f64| seats.iter().map(of).sum::<f64>() / seats.len() as f64;
    let client_ms = mean(|seat| seat.ms);
    Ok(Measured {
        members: count,
        degree: parameters.degree,
        threshold: parameters.threshold,
        bits,
        lost,
        bytes_up: mean(|seat| seat.up as f64) as usize,
        bytes_down: mean(|seat| seat.down as f64) as usize,
        plain_bytes_up: 4 * u64::from(args.parameters),
        client_ms,
        server_ms: server.ms,
        exchanges: EXCHANGES,
        group_s: (client_ms + server.ms) / 1e3,
    })
}

/// All members learn their group and exchange shares.
fn share(
    seats: &mut [Seat],
    (context, roster, records, hashes): (&Context, &Roster, &[Record], &[Sha256Hash]),
) -> Result<(), BenchError> {
    let mut sent: Vec<Shares> = Vec::new();
    for seat in seats.iter_mut() {
        let neighbour = |index: u16| Neighbour { index, record: records[usize::from(index)], certificate: Vec::new() };
        let formed = Formed {
            context: *context,
            records: hashes.to_vec(),
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

/// The masked body of a member's random update.
fn masked(
    seat: &mut Seat,
    quantiser: &Quantiser,
    (roster, bits): (&Sha256Hash, u8),
    parameters: u32,
    expected: &mut [i64],
) -> Result<Vec<u8>, BenchError> {
    let mut stream = Seed(u64::from(seat.index)).stream();
    let scale = 0.5 / f64::from(parameters).sqrt();
    let delta: Vec<f32> = (0..parameters).map(|_| stream.uniform(-1.0, 1.0) * scale as f32).collect();
    let clock = Stopwatch::start();
    let mut random = SecretStream::of([seat.index as u8; 32]);
    let quantised = quantiser.quantise(&delta, roster, &mut random).map_err(failed)?;
    expected.iter_mut().zip(&quantised.values).for_each(|(sum, value)| *sum += value);
    let slots = Told { is_whole: true, examples: 60, loss: Some(0.5) }.slots().to_vec();
    let words = Words::of(bits, &quantised.values);
    let body = seat.member.masked(words, slots).map_err(|error| member_failed(&error))?;
    seat.ms += clock.elapsed().as_secs_f64() * 1e3;
    seat.up += body.len();
    Ok(body)
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
        let masks = opening.open(unmasks).map_err(failed)?.masks;
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let mut parts: Vec<_> = (0u64..).zip(self.sum.parts_mut(PART_VALUES)).collect();
        let each = parts.len().div_ceil(cores).max(1);
        std::thread::scope(|scope| {
            for parts in parts.chunks_mut(each) {
                let masks = &masks;
                scope.spawn(move || {
                    for (part, words) in parts {
                        masks.apply(*part * PART_VALUES as u64, words);
                    }
                });
            }
        });
        self.ms += clock.elapsed().as_secs_f64() * 1e3;
        Ok(())
    }
}

fn text(measured: &Measured) -> String {
    let Measured { members, degree, threshold, bits, lost, bytes_up, bytes_down, plain_bytes_up, .. } = measured;
    format!(
        "{members} members, {degree} neighbours, {threshold} shares, {bits} bits, {:.0} % lost: {bytes_up} bytes up \
         ({plain_bytes_up} plain), {bytes_down} down; client {:.0} ms, coordinator {:.0} ms",
        lost * 100.0,
        measured.client_ms,
        measured.server_ms
    )
}
